#!/usr/bin/env bash
# tools/wheels.sh [MAJOR…]: a wheel with the libraries of both extensions for these majors (default: all), in dist/, and
# the archive of the sources. They are compiled with each server's own pg_config, which settles the lowest minor version
# that takes them, without instructions that only some CPUs have.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. tools/lib.sh

[ $# -gt 0 ] || set -- 15 16 17 18
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
libraries=$work/libraries
unset MAKELEVEL MAKEFLAGS MFLAGS
for major in "$@"; do
    if [ "$major" = 18 ]; then
        pg_config=$(.venv/bin/python -c 'from pgbillion.server.postgres import embedded_pg_config as find; print(find())')
    else
        pg_config=$(tools/postgres.sh config "$major")
    fi
    mkdir -p "$libraries/$major"
    for extension in pgbillion_tables pgbillion_rows; do
        say "building $extension for $("$pg_config" --version)"
        mkdir -p "$work/$major/$extension"
        # -g0: what a debugger would read is most of the file
        make --silent -C "$work/$major/$extension" -f "$PWD/extensions/$extension/Makefile" PG_CONFIG="$pg_config" with_llvm=no COPT=-g0 all >&2
        strip --strip-debug "$work/$major/$extension/$extension.so" -o "$libraries/$major/$extension.so"
    done
done
tools/wheel.sh "$libraries"
