# Shared by the scripts in this folder.

say() { echo "$*" >&2; }

# die MESSAGE [HINT]
die() {
    say "error: $1"
    [ -z "${2:-}" ] || say "hint: $2"
    exit 1
}

# need PACKAGE…: install system packages when that is ours to do, else print the command and give up
need() {
    command -v apt-get >/dev/null || die "missing: $*" "install them with your system's package manager (the names are Debian's)"
    [ "$(id -u)" -eq 0 ] || die "missing: $*" "sudo apt-get install --yes $*"
    say "installing $*"
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@"; } >&2 </dev/null ||
        die "apt-get could not install $*"
}
