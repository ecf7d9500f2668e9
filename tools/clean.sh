#!/usr/bin/env bash
# Remove what builds and tests have made in this folder, and nothing else: no server, no data, no report.
set -euo pipefail
cd "$(dirname "$0")/.."

for made in build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis; do
    rm -rf "$made"
done
find . \( -path ./.git -o -path ./.venv \) -prune -o -name __pycache__ -prune -exec rm -rf {} +
