#!/usr/bin/env bash
# Run every test on the embedded PostgreSQL, on that of PG_CONFIG, or on the major PG; MINOR=lowest takes the lowest minor
# version of that major which libraries in wheels are for.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

if [ -n "${PG:-}" ] && [ -n "${PG_CONFIG:-}" ]; then
    die "PG and PG_CONFIG both name a PostgreSQL" "give one of them"
fi
[ -z "${MINOR:-}" ] || [ "$MINOR" = lowest ] || die "MINOR=$MINOR is not known" "leave it out, or say MINOR=lowest"
case ${MINOR:-}${PG:-18} in
18) ;;
lowest15 | lowest16 | lowest17 | lowest18) PG_CONFIG=$(tools/postgres.sh lowest "${PG:-18}") ;;
15 | 16 | 17) PG_CONFIG=$(tools/postgres.sh config "$PG") ;;
*) die "PostgreSQL $PG is not supported" "PG is 15, 16, 17 or 18" ;;
esac
export PG_CONFIG
# much of the time passes waiting for servers; each process has a cluster of its own
# shellcheck disable=SC2086
exec .venv/bin/pytest --numprocesses=logical --maxprocesses=8 --dist=loadfile --no-loadscope-reorder ${PYTEST_ARGS:-}
