#!/usr/bin/env bash
# tools/wheels.sh [MAJOR…]: a wheel with the libraries of both extensions for these majors (default: all), in dist/, and
# the archive of the sources. They are compiled against the lowest minor version that takes them, without instructions
# that only some CPUs have. MACHINE=aarch64 cross-compiles them on x86_64; the server for that runs by emulation.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. tools/lib.sh

machine=${MACHINE:-$(uname -m)}
if [ $# -eq 0 ]; then
    set -- 15 16 17 18
    # 19 can be had for this machine only
    [ "$machine" != x86_64 ] || set -- "$@" 19
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$work/libraries
unset MAKELEVEL MAKEFLAGS MFLAGS
strip=strip
for major in "$@"; do
    if [ "$machine" = "$(uname -m)" ]; then
        pg_config=$(tools/postgres.sh lowest "$major")
    else
        pg_config=$(tools/postgres.sh "$machine" "$major")
        strip=$machine-linux-gnu-strip
    fi
    mkdir -p "$libraries/$major"
    for extension in pgbillion_tables pgbillion_rows; do
        say "building $extension for $("$pg_config" --version) on $machine"
        mkdir -p "$work/$major/$extension"
        # -g0: what a debugger would read is most of the file
        make --silent -j"$(nproc)" -C "$work/$major/$extension" -f "$PWD/extensions/$extension/Makefile" PG_CONFIG="$pg_config" with_llvm=no COPT=-g0 all >&2
        "$strip" --strip-unneeded "$work/$major/$extension/$extension.so" -o "$libraries/$major/$extension.so"
    done
done
MACHINE=$machine tools/wheel.sh "$libraries"
