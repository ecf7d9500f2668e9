#!/usr/bin/env bash
# Remove all that make made: the embedded server and its state, the virtual environment, builds and caches.
set -euo pipefail
cd "$(dirname "$0")/.."

[ ! -x .venv/bin/pgbillion ] || .venv/bin/pgbillion server destroy --yes --everything
rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
find . -path ./.git -prune -o -name __pycache__ -prune -exec rm -rf {} +
