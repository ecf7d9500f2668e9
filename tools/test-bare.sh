#!/usr/bin/env bash
# Run the quick tests, and those that ask for what make test installs, on this machine made bare: without any PostgreSQL
# but the embedded one, without strace, btrfs and xfs, MariaDB, Maven, Ruby and the user postgres, and with a new state folder. Nothing may
# fail for want of them. They are hidden in a mount namespace, which takes root and the right to make one.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

if [ "${1:-}" != hidden ]; then
    [ "$(id -u)" -eq 0 ] || die "only root can hide programs" "sudo tools/test-bare.sh"
    export PGBILLION_BARE PGBILLION_STATE
    PGBILLION_BARE=$(mktemp -d)
    PGBILLION_STATE=$PGBILLION_BARE/state
    trap 'rm -rf "$PGBILLION_BARE"' EXIT
    chmod 755 "$PGBILLION_BARE"
    mkdir "$PGBILLION_BARE/nothing"
    grep -v '^postgres:' /etc/passwd >"$PGBILLION_BARE/passwd"
    if ! unshare --mount mount --bind "$PGBILLION_BARE/nothing" /usr/include 2>/dev/null; then
        say "*** NOT TESTED: the bare machine, because nothing can be mounted here ***"
        exit 0
    fi
    unshare --mount "$0" hidden
    exit
fi

mkdir -p build
# psql and others in PATH are links to a program in postgresql-common
for folder in build /usr/{lib,include,share}/postgresql /usr/share/postgresql-common /etc/postgresql /etc/mysql; do
    [ ! -d "$folder" ] || mount --bind "$PGBILLION_BARE/nothing" "$folder"
done
for program in /usr/bin/{psql,pg_*,pgbackrest,strace,maria*,mysql*,mvn,ruby*} /usr/sbin/{mariadbd,mysqld,pgbouncer,mkfs.btrfs,mkfs.xfs}; do
    [ ! -x "$program" ] || mount --bind /dev/null "$program"
done
mount --bind "$PGBILLION_BARE/passwd" /etc/passwd
for program in psql pg_config pgbackrest strace mariadbd pgbouncer mvn ruby; do
    # the shell finds files that cannot be run, too
    [ ! -x "$(command -v "$program")" ] || die "$program is still here"
done
unset PG PG_CONFIG PGBILLION_TEST_COMPLETE
found=$(PYTHONPATH=tests .venv/bin/python -c 'from harness import servers; print(*servers.pg_configs())')
[ "$found" = 18 ] || die "PostgreSQL is still here: $found"
tools/test.sh bare
