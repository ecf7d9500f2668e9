#!/usr/bin/env bash
# tools/extensions.sh all|install|uninstall|installcheck|clean: do that for both extensions, with the PostgreSQL of
# PG_CONFIG (default: pg_config in PATH). They are built in build/, in a folder for each PostgreSQL.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

if [ "$1" = clean ]; then
    rm -rf build/extensions
    exit
fi
pg_config=$(command -v "${PG_CONFIG:-pg_config}") || die "there is no program ${PG_CONFIG:-pg_config}" "name it: make $1 PG_CONFIG=/path/to/pg_config"
version=$("$pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
[ -e "$("$pg_config" --pgxs)" ] || need "postgresql-server-dev-$version"
for extension in pgbillion_tables pgbillion_rows; do
    folder=build/extensions/$version-$("$pg_config" | cksum | cut -d ' ' -f 1)/$extension
    mkdir -p "$folder"
    make --no-print-directory -C "$folder" -f "$PWD/extensions/$extension/Makefile" PG_CONFIG="$pg_config" with_llvm=no "$1"
done
