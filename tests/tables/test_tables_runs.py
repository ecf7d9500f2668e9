"""`pgbillion tables runs`: which runs there are, and which of their records go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pgbillion.common.errors import UserError
from pgbillion.tables import runs
from pgbillion.tables.plan import Method, Plan
from pgbillion.tables.run import RUNS, Attempt, Run

DAY = 86400


def make(state: Path, name: str, days: float, outcome: str = "done") -> Run:
    """Make the folder of a run that was begun so many days ago."""
    plan = Plan(count=10, workers=1, batch=10, method=Method.BULK, schema="public", columns="i [integer]")
    run = Run.create(state / RUNS / name, plan, {"database": "d"})
    values = json.loads((run.folder / "plan.json").read_text())
    begun = time.time() - days * DAY
    (run.folder / "plan.json").write_text(json.dumps({**values, "started": begun}))
    run.journal.attempts.append(Attempt(begun, 0, begun + 1, 10, outcome))
    run.save()
    return run


@pytest.fixture
def state(tmp_path: Path) -> Path:
    for name, days in (("new", 1), ("oldest", 90), ("old", 40)):
        make(tmp_path, name, days)
    return tmp_path


def command(state: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pgbillion", "tables", "runs", *arguments]
    env = {**os.environ, "PGBILLION_STATE": str(state)}
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def left(state: Path) -> set[str]:
    return {path.name for path in (state / RUNS).iterdir()}


def answer(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def test_runs_are_listed_in_the_order_they_began(state: Path) -> None:
    found = answer(command(state, "--json"))["runs"]
    assert [one["name"] for one in found] == ["oldest", "old", "new"]
    assert {one["outcome"] for one in found} == {"done"}
    size = sum(path.stat().st_size for path in (state / RUNS / "old").iterdir())
    assert (found[1]["count"], found[1]["created"], found[1]["size"]) == (10, 10, size)
    shown = command(state).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["name", "oldest", "old", "new"]
    assert "10 tables (i [integer]), bulk" in shown[1]


def test_nothing_is_listed_where_nothing_is(tmp_path: Path) -> None:
    assert command(tmp_path).stdout == "no runs and no pages\n"
    assert answer(command(tmp_path, "--json")) == {"runs": []}
    assert command(tmp_path, "--prune", "--keep", "0").returncode == 0


@pytest.mark.parametrize(
    ("limits", "gone"),
    [
        (("--older-than", "30d"), {"old", "oldest"}),
        (("--older-than", "8w"), {"oldest"}),
        (("--keep", "1"), {"old", "oldest"}),
        (("--keep", "0"), {"new", "old", "oldest"}),
        (("--keep", "5"), set()),
        (("--keep", "2", "--older-than", "30d"), {"oldest"}),
        (("--keep", "0", "--older-than", "60d"), {"oldest"}),
    ],
)
def test_only_what_is_beyond_all_limits_goes(state: Path, limits: tuple[str, ...], gone: set[str]) -> None:
    assert set(answer(command(state, "--prune", "--yes", "--json", *limits))["removed"]) == gone
    assert left(state) == {"new", "old", "oldest"} - gone


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--prune",), "needs to know which runs"),
        (("--keep", "1"), "are for --prune"),
        (("--older-than", "1d"), "are for --prune"),
        (("--prune", "--older-than", "soon"), "is no age"),
        (("--prune", "--older-than", "-1d"), "is no age"),
        (("--prune", "--keep", "-1"), "x>=0"),
        (("--prune", "--keep", "0"), "without being told to"),
    ],
)
def test_what_is_not_clear_removes_nothing(state: Path, arguments: tuple[str, ...], message: str) -> None:
    done = command(state, *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert left(state) == {"new", "old", "oldest"}


def test_a_run_that_is_worked_on_stays(state: Path) -> None:
    run = Run.open(state / RUNS / "old")
    with run.locked():
        done = command(state, "--prune", "--keep", "0", "--yes")
    assert done.returncode == 0
    assert "old stays" in done.stderr
    assert left(state) == {"old"}


def test_a_run_that_was_killed_is_not_running(state: Path) -> None:
    """It says so for ever itself; the kernel knows whether a process works on it."""
    run = make(state, "killed", 0.5, "running")

    def outcome() -> str:
        (found,) = (one for one in answer(command(state, "--json"))["runs"] if one["name"] == "killed")
        return str(found["outcome"])

    with run.locked():
        assert outcome() == "running"
    assert outcome() == "killed"


def test_a_link_is_not_followed(state: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    kept = make(elsewhere, "kept", 100).folder
    (state / RUNS / "link").symlink_to(kept)
    assert answer(command(state, "--prune", "--keep", "0", "--yes", "--json"))["in_use"] == ["link"]
    assert (kept / "plan.json").exists()


def test_what_cannot_be_read_is_listed_and_can_go(state: Path) -> None:
    (state / RUNS / "old" / "plan.json").write_text("{")
    os.utime(state / RUNS / "old" / "plan.json", (0, 0))
    found = answer(command(state, "--json"))["runs"]
    assert (found[0]["name"], found[0]["outcome"]) == ("old", "unreadable")
    answer(command(state, "--prune", "--older-than", "100d", "--yes", "--json"))
    assert left(state) == {"new", "oldest"}


def test_ages() -> None:
    assert [runs.parse_age(given) for given in ("1m", "2h", "3d", "4w")] == [60, 7200, 3 * DAY, 28 * DAY]
    for given in ("", "d", "1", "1y", "1.5d", "٣d"):
        with pytest.raises(UserError):
            runs.parse_age(given)


def test_pages_are_listed_and_removed_with_the_runs(state: Path) -> None:
    for folder, name, days in (("scale", "rows-1.html", 60), ("cycle", "2.html", 0)):
        page = state / folder / name
        page.parent.mkdir()
        page.write_text("<html>")
        os.utime(page, (time.time() - days * DAY,) * 2)
    found = answer(command(state, "--json"))["runs"]
    assert [one["name"] for one in found] == ["oldest", "scale/rows-1.html", "old", "new", "cycle/2.html"]
    assert [one["outcome"] for one in found] == ["done", "page", "done", "done", "page"]
    refused = command(state, "--prune", "--keep", "3")
    assert refused.returncode == 1
    assert "the records of 1 run and 1 page" in refused.stderr
    done = command(state, "--prune", "--keep", "3", "--yes")
    assert done.stdout.startswith("the records of 1 run and 1 page removed, ")
    assert left(state) == {"old", "new"}
    assert not (state / "scale" / "rows-1.html").exists()
    assert (state / "cycle" / "2.html").exists()
