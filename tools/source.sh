#!/usr/bin/env bash
# tools/source.sh 15|16|17|18|19: print the folder of what that major needs of PostgreSQL's source (suites, modules for them,
# and pgindent), fetching it from Debian first. It is kept in build/. The sources of 16 and 19 are not on Debian's mirrors:
# each has all that the major before it has, whose suites are run on it.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. tools/lib.sh

major=${1:-}
parts=('*/src/test/regress' '*/src/test/isolation' '*/contrib/auto_explain' '*/contrib/spi')
case $major in
15 | 16) major=15 suite=bookworm ;;
17) suite=trixie ;;
18 | 19)
    major=18 suite=sid
    parts+=('*/src/tools/pgindent' '*/src/tools/pg_bsd_indent')
    ;;
*) die "there is no source of PostgreSQL $major in Debian" "tools/source.sh 15|16|17|18|19" ;;
esac
home=$PWD/build/source-$major-suites
# tests run in several processes
mkdir -p build
exec 9>"build/source-$major-suites.lock"
flock 9
if [ ! -e "$home/ready" ]; then
    command -v apt-get >/dev/null || die "PostgreSQL's source comes from Debian, and there is no apt-get"
    command -v bzip2 >/dev/null || need bzip2
    # the mirror this system uses itself, with a configuration and lists of its own
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' |
        sed -n '/\/debian\/$/ {p; q}')
    [ -n "$mirror" ] && [ -e "$keyring" ] || die "PostgreSQL's source comes from Debian, and this system's sources name no mirror of it"
    rm -rf "$home"
    mkdir -p "$home/apt"/{lists/partial,cache/archives/partial}
    echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$home/apt/sources.list"
    options=(-qq -o Dir::State::lists="$home/apt/lists" -o Dir::Cache="$home/apt/cache" -o Dir::Etc::sourcelist="$home/apt/sources.list"
        -o Dir::Etc::sourceparts=- -o APT::Sandbox::User="$(id -un)")
    say "fetching the source of PostgreSQL $major"
    # hooks meant for the system's own lists fail for an ordinary user, which is of interest only when all does
    output=$(apt-get "${options[@]}" update 2>&1) || die "the package lists of Debian $suite could not be read: $output"
    (
        cd "$home"
        apt-get "${options[@]}" source --download-only "postgresql-$major" >&2
        tar -xf postgresql-"$major"_*.orig.tar.*[^c] --strip-components=1 --wildcards "${parts[@]}"
        rm -rf apt postgresql-"$major"_*
    )
    touch "$home/ready"
fi
echo "$home"
