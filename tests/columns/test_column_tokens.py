"""Bytes to tokens and back, without a server and with every access of memory checked (tokens/tokens.c).

PGBILLION_TEST_TOKENS is how many examples there are (default 400), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.amount import Count, amount
from pgbillion.server.postgres import Installation

pytestmark = pytest.mark.majors

EXAMPLES = amount("PGBILLION_TEST_TOKENS", 400, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
HERE = Path(__file__).parent
EXTENSIONS = HERE.parents[1] / "extensions"


@pytest.fixture(scope="module")
def program(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, with an error of its own for each access beyond an array."""
    program = tmp_path_factory.mktemp("tokens") / "tokens"
    ask = [str(installation.source), "--includedir-server"]
    headers = subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip()
    rows = EXTENSIONS / "pgbillion_rows" / "src"
    flags = ["-g", "-O1", "-fwrapv", "-fno-strict-aliasing", "-fsanitize=address,undefined", "-D_GNU_SOURCE"]
    folders = [f"-I{headers}", f"-I{rows}", f"-I{EXTENSIONS / 'shared'}"]
    sources = [HERE / "tokens" / "tokens.c", rows / "column_index" / "tokens.c"]
    subprocess.run(["cc", *flags, *folders, "-o", program, *sources], check=True)
    return program


def test_what_was_encoded_comes_back(program: Path, tell: Callable[[str], None], counted: Count) -> None:
    done = subprocess.run([program, str(SEED), str(EXAMPLES)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"seed {SEED}: {done.stderr[:2000]}"
    encoded, found = map(int, done.stdout.split())
    tell(f"seed {SEED}: {encoded} of {EXAMPLES} examples were encoded, and {found} damaged ones had values")
    counted({"examples": EXAMPLES, "that were encoded": encoded, "damaged ones with values": found})
    assert encoded > EXAMPLES / 5
    assert found > EXAMPLES / 20


def test_bad_arguments(program: Path) -> None:
    done = subprocess.run([program, "1", "none"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: tokens SEED ROUNDS\n")
