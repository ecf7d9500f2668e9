#!/usr/bin/env bash
# tools/wheel.sh FOLDER [TO]: pack libraries, FOLDER/MAJOR/*.so, with the program into a wheel in TO (default: dist/),
# beside the archive of the sources. The wheel's name tells the oldest C library that has all that they call, and the
# machine: that of MACHINE, or this one.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. tools/lib.sh

libraries=$(cd "$1" && pwd)
to=${2:-dist}
# anything else would have to be there on every machine
foreign=$(find "$libraries" -name '*.so' -exec objdump -p {} + | awk '$1 == "NEEDED" && $2 !~ /^lib(c|m)\.so\.6$/ { print $2 }' | sort -u)
[ -z "$foreign" ] || die "the libraries need others: $foreign"
glibc=$(find "$libraries" -name '*.so' -exec objdump -T {} + | grep -o 'GLIBC_2\.[0-9]*' | sort -t . -k 2 -n | tail -n 1)
export PGBILLION_LIBRARIES=$libraries PGBILLION_PLATFORM=manylinux_2_${glibc#GLIBC_2.}_${MACHINE:-$(uname -m)}
.venv/bin/python -m hatchling build --directory "$to" --target wheel --target sdist >&2
ls "$to"/*"$PGBILLION_PLATFORM.whl"
