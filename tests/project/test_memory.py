"""The command that runs tests under valgrind or sanitizers: what it finds in logs, and bad input."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[2] / "tools" / "memory.py"
VALGRIND = """==17== Conditional jump or move depends on uninitialised value(s)
==17==    at 0x6A2F: probe_batch (probe.c:101)
==17==    by 0x6A30: next_batch (execute.c:77)
==17==  Uninitialised value was created by a heap allocation
==17==    at 0x48407B4: malloc (vg_replace_malloc.c:381)
==17==
**17** Valgrind detected 1 error(s) during execution of "SELECT 1"
==17== Invalid read of size 8
==17==    at 0x6A2F: probe_batch (probe.c:105)
"""
SANITIZERS = """/src/extensions/pgbillion_rows/src/vector/batch.c:12:7: runtime error: shift exponent 64 is too large
    #0 0x7f in select_rows /src/batch.c:12
=================================================================
==18==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60d0 at pc 0x7f
    #0 0x7f in probe_batch /src/probe.c:101
"""


@pytest.fixture(scope="module")
def memory() -> ModuleType:
    spec = importlib.util.spec_from_file_location("memory", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["memory"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("kind", "log", "places"),
    [
        (
            "valgrind",
            VALGRIND,
            [
                "Conditional jump or move depends on uninitialised value(s): probe_batch < next_batch < malloc",
                "Invalid read of size: probe_batch",
            ],
        ),
        (
            "sanitizers",
            SANITIZERS,
            [
                "/src/extensions/pgbillion_rows/src/vector/batch.c::: runtime error: shift exponent  is too large:"
                " select_rows",
                "ERROR: AddressSanitizer: heap-buffer-overflow on address  at pc: probe_batch",
            ],
        ),
    ],
)
def test_what_is_found_in_logs(memory: ModuleType, kind: str, log: str, places: list[str]) -> None:
    of = memory.KINDS[kind]
    found = list(memory.reports(of, log.splitlines()))
    assert [memory.place(of, one) for one in found] == places
    assert list(memory.reports(of, ["", "**17** Valgrind detected nothing", "==17== Warning: a large range"])) == []


def test_every_test_exists(memory: ModuleType) -> None:
    assert [test for test in memory.TESTS if not (PROGRAM.parents[1] / test).exists()] == []


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"KIND": "eyes"}, "error: there is no kind eyes\n"),
        ({"KIND": "sanitizers", "SOURCE": "/nowhere"}, "error: there is no source of PostgreSQL in /nowhere\n"),
    ],
)
def test_bad_input(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    environment = {**os.environ, "PGBILLION_STATE": str(tmp_path), **variables}
    done = subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert "hint: " in done.stderr
