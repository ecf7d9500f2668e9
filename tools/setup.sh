#!/usr/bin/env bash
# Make .venv with pgbillion (editable) and its development tools; quick when nothing has changed.
# What the system lacks is installed when root on Debian or Ubuntu, otherwise the command for it is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

find_python() {
    local candidate
    # without PYTHON=…, the one that .venv was made with
    for candidate in ${PYTHON:-.venv/bin/python python3 python3.14 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

[ -n "${PYTHON:-}" ] || command -v python3 >/dev/null || need python3
python=$(find_python) || die "Python 3.11 or newer is needed" "name one: make PYTHON=/path/to/python3.11"
packages=()
"$python" -c 'import ensurepip, venv' 2>/dev/null || packages+=("python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv")
command -v gcc >/dev/null || command -v cc >/dev/null || packages+=(gcc)
echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1 || packages+=(libc6-dev)
command -v make >/dev/null || packages+=(make)
[ ${#packages[@]} -eq 0 ] || need "${packages[@]}"

# a virtual environment knows its own path and its Python
wanted=$({ cat pyproject.toml extensions/pgbillion_tables/pgbillion_tables.control; pwd; "$python" -c 'import sys; print(sys.version, sys.base_prefix)'; } | cksum)
if [ "$(cat .venv/stamp 2>/dev/null)" != "$wanted" ]; then
    say "setting up .venv"
    base=$("$python" -c 'import sys; print(sys._base_executable)')
    "$base" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
    echo "$wanted" >.venv/stamp
fi
