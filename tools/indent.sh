#!/usr/bin/env bash
# tools/indent.sh [--check]: lay out the C as pgindent does, with PostgreSQL 18's own pg_bsd_indent and list of types;
# with --check, change nothing and fail where that would change something. The tool is built once, in build/.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

tools=$(tools/source.sh 18)/src/tools
indent=$PWD/build/pg_bsd_indent
if [ ! -x "$indent" ]; then
    install=$(.venv/bin/python -c 'from pgbillion.server.postgres import embedded_pg_config as find; print(find().parents[1])')
    cc -O1 -no-pie -I"$install/include/server" -o "$indent" "$tools"/pg_bsd_indent/*.c -L"$install/lib" -lpgport -lpgcommon -lpgport
fi
# the types defined here; two of PostgreSQL's are names of variables, too
work=$(mktemp -d)
types=$work/types
trap 'rm -rf "$work"' EXIT
{
    find extensions -name '*.[ch]' -print0 | xargs -0 cat |
        sed -nE 's/^\} ([A-Za-z]+);/\1/p; s/^typedef (struct )?[A-Za-z]+ ([A-Za-z]+);/\2/p; s/^typedef .*\(\*? *([A-Za-z]+)\) *\(.*/\1/p'
    grep -vxE 'text|symbol' "$tools/pgindent/typedefs.list"
} | sort -u >"$types"
options=()
[ "${1:-}" != --check ] || options=(--check --diff)
sources=$PWD/extensions
# pg_bsd_indent leaves files where it runs
(cd "$work" && PGINDENT=$indent perl "$tools/pgindent/pgindent" --typedefs="$types" "${options[@]}" "$sources") ||
    die "the C is not laid out as pgindent does" "tools/indent.sh"
