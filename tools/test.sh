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
# the more files were removed in the last seconds, the longer ext4 takes to create one: with servers in memory, tests take
# two thirds of the time
# in_memory: tell whether there is room for them, of which they took 1.2 GB when it was last measured; containers may run no
# program there
in_memory() {
    local kind free available
    read -r kind free < <(df --output=fstype,avail /dev/shm 2>/dev/null | tail -n 1) || return 1
    available=$(sed -nE 's/^MemAvailable: +([0-9]+) kB/\1/p' /proc/meminfo)
    [ "$kind" = tmpfs ] && ! grep -qE '^[^ ]+ /dev/shm .*noexec' /proc/mounts && [ -w /dev/shm ] && [ "$free" -ge 8000000 ] && [ "${available:-0}" -ge 12000000 ]
}
if [ -z "${TMPDIR:-}" ] && in_memory; then
    # short, because paths of sockets may have 107 bytes
    TMPDIR=$(mktemp -d /dev/shm/tXXXX)
    trap 'rm -rf "$TMPDIR"' EXIT
    # servers run as another user if this is root
    chmod 1777 "$TMPDIR"
    export TMPDIR
fi

# much of the time passes waiting for servers; each process has a cluster of its own
# shellcheck disable=SC2086
.venv/bin/pytest --numprocesses=logical --maxprocesses=8 --dist=loadfile --no-loadscope-reorder "${arguments[@]}" ${PYTEST_ARGS:-}
