#!/usr/bin/env bash
# Build the extension against the PostgreSQL of PG_CONFIG, out of tree, and install it there.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

pg_config=$(command -v "${PG_CONFIG:-pg_config}") || die "there is no program ${PG_CONFIG:-pg_config}" "name it: make install PG_CONFIG=/path/to/pg_config"
[ -e "$("$pg_config" --pgxs)" ] || need "postgresql-server-dev-$("$pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')"
# not in build/, which root, whose the server's folders are, would leave to the owner of this one
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
make -C "$build" -f "$PWD/extension/Makefile" PG_CONFIG="$pg_config" with_llvm=no install
