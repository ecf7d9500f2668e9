#!/usr/bin/env bash
# Remove the embedded server with all its databases, the runs and their reports, and the virtual environment: says what
# that is and asks first. Without a terminal it wants YES=1.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

if [ -x .venv/bin/pgbillion ]; then
    state=$(.venv/bin/python -c 'from pgbillion.common.paths import state_dir; print(state_dir())')
    if [ -d "$state" ]; then
        say "this removes, for good:"
        # its shards' servers, runs and reports are there, too; folders change under du's hands
        { du -sh -- "$state"/* 2>/dev/null || true; } | sed 's/^/  /' >&2
        if status=$(.venv/bin/pgbillion server status 2>/dev/null); then
            sed -n -E 's/^(server|data|size) /  &/p' <<<"$status" >&2
        fi
        if databases=$(.venv/bin/pgbillion server psql -XAt -F ' ' \
            -c "SELECT pg_catalog.count(*), pg_catalog.string_agg(datname, ', ') FROM pg_catalog.pg_database WHERE NOT datistemplate" 2>/dev/null); then
            say "  databases: $databases"
        fi
    else
        say "this removes the virtual environment and what was built; nothing is in $state"
    fi
    if [ "${YES:-}" != 1 ]; then
        [ -t 0 ] || die "not removing data without being told to" "YES=1 make destroy"
        read -r -p "Remove all of it? Type yes: " answer
        [ "$answer" = yes ] || die "nothing was removed"
    fi
    [ ! -e "${state:-}/ladder/ladder.json" ] || .venv/bin/pgbillion ladder destroy --yes
    .venv/bin/pgbillion server destroy --yes --everything
fi
tools/clean.sh
rm -rf .venv
