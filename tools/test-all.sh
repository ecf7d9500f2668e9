#!/usr/bin/env bash
# Run every test on each major version, one after the other, and print a line for each at the end.
# The whole output of each is in build/test-MAJOR.log. What is given in PYTEST_ARGS goes to all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

[ -z "${PG:-}${PG_CONFIG:-}" ] || die "make test-all takes every major" "make test takes one: PG=… or PG_CONFIG=…"
mkdir -p build
status=0
lines=()
# pg_upgrade from each to each later one
export PGBILLION_UPGRADE=all
for major in 15 16 17 18 19; do
    log=build/test-$major.log
    PG=$major tools/test.sh 2>&1 | tee "$log" || status=1
    result=$(grep -E '^=* ?([0-9]+ [a-z]+,? )+in [0-9.]+s' "$log" | tail -n 1 | tr -d = | sed 's/^ *//; s/ *$//' || true)
    lines+=("PostgreSQL $major: ${result:-the run did not end, see $log}")
done
printf '%s\n' "${lines[@]}"
exit $status
