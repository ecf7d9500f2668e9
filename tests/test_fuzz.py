"""The command of the fuzzing campaigns: its journal, and bad input. The campaigns are tests themselves."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[1] / "tools" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzz"] = module
    spec.loader.exec_module(module)
    return module


def run(state: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PGBILLION_STATE": str(state), **variables}
    return subprocess.run([sys.executable, PROGRAM], env=environment, capture_output=True, text=True)


def journal(state: Path, *runs: tuple[str, int, bool]) -> None:
    (state / "fuzz").mkdir()
    lines = [
        json.dumps({"campaign": name, "seed": seed, "pg_config": "", "seconds": 60.0, "passed": passed})
        for name, seed, passed in runs
    ]
    (state / "fuzz" / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_the_sum_of_earlier_runs(tmp_path: Path) -> None:
    journal(tmp_path, ("filters", 1, True), ("filters", 2, False), ("joins", 1, False), ("joins", 1, True))
    done = run(tmp_path, MINUTES="0")
    assert done.stdout.splitlines() == [
        "filters: 2 seeds, 2 minutes, failing: 2",
        "joins: 2 seeds, 2 minutes, failing: none",
    ]
    assert done.returncode == 1


def test_it_goes_on_where_it_was(fuzz: ModuleType, tmp_path: Path) -> None:
    journal(tmp_path, ("filters", 1, True), ("filters", 2, False))
    outcomes = fuzz.read_journal(tmp_path / "fuzz")
    assert list(islice(fuzz.new_runs(outcomes, ["filters", "joins"]), 4)) == [
        ("filters", 3),
        ("joins", 1),
        ("filters", 4),
        ("joins", 2),
    ]


def test_every_campaign_names_tests_that_exist(fuzz: ModuleType) -> None:
    for campaign in fuzz.CAMPAIGNS.values():
        path, _, name = campaign.tests.partition("::")
        text = (PROGRAM.parents[1] / path).read_text(encoding="utf-8")
        assert f"def {name or 'test_'}" in text
        whole = text + (PROGRAM.parents[1] / "tests/harness/templates.py").read_text(encoding="utf-8")
        assert all(variable in whole for variable in campaign.amounts)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ONLY": "nothing"}, "error: there is no campaign nothing\n"),
        ({"MINUTES": "long"}, "error: MINUTES is not a number\n"),
    ],
)
def test_bad_input(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    done = run(tmp_path, **variables)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert "hint: " in done.stderr
    assert not (tmp_path / "fuzz").exists()
