"""The command of the fuzzing campaigns: its journal, and bad input. The campaigns are tests themselves."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from harness.amount import COUNTED
from harness.servers import until

PROGRAM = Path(__file__).parents[2] / "tools" / "fuzz.py"


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


def journal(fuzz: ModuleType, state: Path, *runs: tuple[str, int, bool], code: str = "") -> None:
    """Write what runs have told, on the code that is here now or on another."""
    (state / "fuzz").mkdir()
    lines = [
        json.dumps(
            {
                "campaign": name,
                "seed": seed,
                "pg_config": "",
                "seconds": 60.0 * seed,
                "passed": passed,
                "server": "18.6",
                "counts": {"queries": 1000, "in parallel": seed},
                "code": code or fuzz.digest(fuzz.CAMPAIGNS[name].code),
            }
        )
        for name, seed, passed in runs
    ]
    (state / "fuzz" / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_the_sum_of_earlier_runs(fuzz: ModuleType, tmp_path: Path) -> None:
    journal(fuzz, tmp_path, ("filters", 1, True), ("filters", 2, False), ("joins", 1, False), ("joins", 1, True))
    done = run(tmp_path, MINUTES="0")
    assert done.stdout.splitlines() == [
        "",
        "| campaign | PostgreSQL | seeds | minutes | counted | minutes before | failing seeds |",
        "|---|---|---|---|---|---|---|",
        "| `filters` | 18.6 | 2 | 3 | 2,000 queries, 3 in parallel | 0 | 2 |",
        "| `joins` | 18.6 | 1 | 2 | 1,000 queries, 1 in parallel | 0 | none |",
    ]
    assert done.returncode == 1


def test_runs_of_other_code_do_not_count(fuzz: ModuleType, tmp_path: Path) -> None:
    journal(fuzz, tmp_path, ("filters", 4, True), code="another")
    assert run(tmp_path, MINUTES="0").stdout.splitlines()[3:] == ["| `filters` | 18.6 | 0 | 0 |  | 4 | none |"]
    outcomes = fuzz.read_journal(tmp_path / "fuzz")
    code = fuzz.digest(fuzz.CAMPAIGNS["joins"].code)
    outcomes.append(fuzz.Outcome("joins", 1, "", 1.0, True, code=code))
    # no time, but seeds that were seen
    assert fuzz.next_run(outcomes, ["joins", "filters"], "") == ("filters", 5)


def test_what_is_other_code(fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word of the C and the SQL is, and in which file it stands; comments, layout and the rest are not."""
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)

    def digest(files: Mapping[str, str]) -> str:
        for name, text in files.items():
            path = tmp_path / "extensions" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return str(fuzz.digest(fuzz.TABLES))

    source = "pgbillion_tables/src/a.c"
    first = digest({source: 'x = "/* a  b */" + 1; /* one */', "shared/b.h": "int\ty;"})
    assert digest({source: '/* two */\n\nx="/* a  b */"\n+ 1;'}) == first
    assert digest({"shared/b.h": "int y;", "pgbillion_tables/src/a.o": "compiled", "pgbillion_rows/c.c": "z"}) == first
    assert digest({"pgbillion_tables/test/sql/t.sql": "SELECT 1"}) == first
    seen = [first]
    for files in (
        {source: 'x = "/* a b */" + 1;'},
        {"shared/b.h": "int yy;"},
        {"pgbillion_tables/sql/s.sql": "SELECT 1;"},
        {"pgbillion_tables/src/n.h": ""},
    ):
        seen.append(digest(files))
    assert len(set(seen)) == len(seen)


def test_every_campaign_names_code(fuzz: ModuleType) -> None:
    """Each digest is of folders that exist, and of other code than another's."""
    extensions = PROGRAM.parents[1] / "extensions"
    for campaign in fuzz.CAMPAIGNS.values():
        assert all((extensions / folder).is_dir() for folder in campaign.code)
    codes = {tuple(campaign.code) for campaign in fuzz.CAMPAIGNS.values()}
    assert len({fuzz.digest(code) for code in codes}) == len(codes)


def test_it_goes_on_where_it_was(fuzz: ModuleType, tmp_path: Path) -> None:
    journal(fuzz, tmp_path, ("filters", 1, True), ("filters", 2, False))
    outcomes = fuzz.read_journal(tmp_path / "fuzz")
    chosen = []
    for _ in range(5):
        name, seed = fuzz.next_run(outcomes, ["filters", "joins"], "")
        chosen.append((name, seed))
        code = fuzz.digest(fuzz.CAMPAIGNS[name].code)
        outcomes.append(fuzz.Outcome(name, seed, "", 100.0, True, code=code))
    # filters has had 180 seconds, joins none
    assert chosen == [("joins", 1), ("joins", 2), ("filters", 3), ("joins", 3), ("filters", 4)]
    # another server has its own time, and gets seeds that nobody has seen
    assert fuzz.next_run(outcomes, ["filters"], "/other/pg_config") == ("filters", 5)
    assert fuzz.next_run(outcomes, ["filters"], "", 5) == ("filters", 5)
    assert fuzz.next_run(outcomes, ["filters"], "", 6) == ("filters", 6)


def test_what_tests_count_is_added_up(fuzz: ModuleType, tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    assert fuzz.read_counts(results) == {}
    assert fuzz.COUNTED == COUNTED
    properties = [(f"{COUNTED}queries", 2), ("told", "7 rows"), (f"{COUNTED}queries", 3), (f"{COUNTED}rows", 1)]
    cases = "".join(
        f'<testcase><properties><property name="{name}" value="{value}"/></properties></testcase>'
        for name, value in properties
    )
    results.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>", encoding="utf-8")
    assert fuzz.read_counts(results) == {"queries": 5, "rows": 1}


def test_every_campaign_names_tests_that_exist(fuzz: ModuleType) -> None:
    for campaign in fuzz.CAMPAIGNS.values():
        whole = (PROGRAM.parents[1] / "tests/harness/templates.py").read_text(encoding="utf-8")
        for tests in campaign.tests:
            path, _, name = tests.partition("::")
            text = (PROGRAM.parents[1] / path).read_text(encoding="utf-8")
            assert f"def {name}(" in text if name else "def test_" in text
            assert " counted(" in text, "nothing to be told of it"
            whole += text
        assert all(variable in whole for variable in campaign.amounts)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"CAMPAIGNS": "nothing"}, "error: there is no campaign nothing\n"),
        ({"MINUTES": "long"}, "error: MINUTES is not a number\n"),
        ({"SEED": "1.5"}, "error: SEED is not a whole number\n"),
    ],
)
def test_bad_input(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    done = run(tmp_path, **variables)
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert "hint: " in done.stderr
    assert not (tmp_path / "fuzz").exists()


def runs_a_test(pid: int) -> bool:
    """Whether a process has started pytest, itself or through others."""
    for child in psutil.Process(pid).children(recursive=True):
        # a child may end at any time
        with contextlib.suppress(psutil.NoSuchProcess):
            if "pytest" in child.cmdline():
                return True
    return False


def test_an_interrupted_run_ends_in_order(fuzz: ModuleType, tmp_path: Path) -> None:
    """Its servers are stopped, the seed is not counted, and the table is printed."""
    journal(fuzz, tmp_path, ("filters", 1, True))
    with subprocess.Popen(
        [sys.executable, PROGRAM],
        env={**os.environ, "PGBILLION_STATE": str(tmp_path), "CAMPAIGNS": "filters"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            until(lambda: runs_a_test(process.pid), "a test")
            process.terminate()
            said, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert said.splitlines()[:1] == ["interrupted"]
    assert "| `filters` | 18.6 | 1 | 1 |" in said
    assert process.returncode == 0
