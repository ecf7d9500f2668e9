#!/usr/bin/env bash
# tools/deb.sh [TO]: Debian's packages of what is committed, one for each PostgreSQL that is installed with its
# development package, in TO (default: dist/).
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

command -v pg_buildext >/dev/null && command -v dh >/dev/null || need postgresql-server-dev-all debhelper
mkdir -p "${1:-dist}"
to=$(cd "${1:-dist}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/pgbillion"
git archive HEAD | tar -x -C "$work/pgbillion"
cd "$work/pgbillion"
mv packaging/debian debian
# a package for each major version
export PG_SUPPORTED_VERSIONS=installed
pg_buildext updatecontrol >&2
# postgresql-server-dev-all stands for those of all major versions: what is installed is what is built for
dpkg-buildpackage --no-check-builddeps --no-sign --build=binary >&2
cp "$work"/*.deb "$to"
ls "$to"/postgresql-*-pgbillion_*.deb
