"""Kernels over columns: every set of instructions that this processor has gives the answers of plain loops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgbillion.server.postgres import Installation

sys.path.append(str(Path(__file__).parents[2] / "bench"))

import kernels


@pytest.fixture(scope="module")
def program(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("kernels") / "kernels"
    kernels.build(installation.source, program)
    return program


# ends of pages, registers, words and bytes of a match counter; dictionaries at the border between two ways to count
@pytest.mark.parametrize("rows", [1, 15, 16, 63, 64, 65, 4095, 8128, 8129, 200_003])
@pytest.mark.parametrize("groups", [1, 2, 5, 16, 17, 256])
def test_answers(program: Path, rows: int, groups: int) -> None:
    rates = kernels.measure(program, rows, groups, 1)
    assert len(rates) == 7
    assert all("baseline" in sets for sets in rates.values())


def test_bad_arguments(program: Path) -> None:
    done = subprocess.run([program, "0", "10", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage:")
