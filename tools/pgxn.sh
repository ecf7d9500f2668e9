#!/usr/bin/env bash
# tools/pgxn.sh [TO]: the archive that PGXN takes, of what is committed, in TO (default: dist/). `make` and `make install`
# work in it. tests/project/test_packaging.py checks META.json and the archive.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n "s/^default_version = '\(.*\)'/\1/p" extensions/pgbillion_tables/pgbillion_tables.control)
to=${1:-dist}
mkdir -p "$to"
# what builds the extensions, tests them in a server, and says how
git archive --format=zip --prefix="pgbillion-$version/" --output="$to/pgbillion-$version.zip" HEAD -- \
    META.json Makefile README.md CHANGELOG.md LICENSE SECURITY.md docs extensions tools
echo "$to/pgbillion-$version.zip"
