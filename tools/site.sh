#!/usr/bin/env bash
# tools/site.sh [links]: build the site in build/site and the man pages in build/man; a warning is an error.
# With links, follow the links that lead out of the project as well, which needs the Internet.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh

# build BUILDER DIRECTORY
build() {
    .venv/bin/sphinx-build --quiet --fail-on-warning --conf-dir tools/site --doctree-dir build/doctrees --builder "$1" . "build/$2"
}
rm -rf build/site build/man build/doctrees
build html site
[ "${1:-}" != links ] || build linkcheck links
.venv/bin/python tools/man_pages.py build/man
say "build/site/index.html, and $(ls build/man/man1 | wc -l) man pages in build/man"
