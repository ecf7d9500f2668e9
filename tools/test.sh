#!/usr/bin/env bash
# tools/test.sh [quick|bare]: run every test on the embedded PostgreSQL, on that of PG_CONFIG, or on the major PG; MINOR=lowest
# takes the lowest minor version of that major which libraries in wheels are for. What tests need besides is installed
# first where that is possible. `quick` runs some tests of every feature, which need nothing besides;
# `bare` is for tools/test-bare.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

if [ -n "${PG:-}" ] && [ -n "${PG_CONFIG:-}" ]; then
    die "PG and PG_CONFIG both name a PostgreSQL" "give one of them"
fi
[ -z "${MINOR:-}" ] || [ "$MINOR" = lowest ] || die "MINOR=$MINOR is not known" "leave it out, or say MINOR=lowest"
case ${MINOR:-}${PG:-18} in
18) ;;
lowest15 | lowest16 | lowest17 | lowest18 | lowest19) PG_CONFIG=$(tools/postgres.sh lowest "${PG:-18}") ;;
15 | 16 | 17 | 19) PG_CONFIG=$(tools/postgres.sh config "$PG") ;;
*) die "PostgreSQL $PG is not supported" "PG is 15, 16, 17, 18 or 19" ;;
esac
export PG_CONFIG
arguments=()
case ${1:-} in
quick) arguments=(-m quick) ;;
bare) arguments=(-m "quick or machine") ;;
*)
    version=${PG_CONFIG:+$("$PG_CONFIG" --version)}
    tools/test-needs.sh "$(sed -nE 's/^PostgreSQL ([0-9]+).*/\1/p' <<<"${version:-PostgreSQL 18}")"
    ;;
esac
# much of the time passes waiting for servers; each process has a cluster of its own
# shellcheck disable=SC2086
exec .venv/bin/pytest --numprocesses=logical --maxprocesses=8 --dist=loadfile --no-loadscope-reorder "${arguments[@]}" ${PYTEST_ARGS:-}
