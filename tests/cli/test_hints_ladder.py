"""Commands that are printed about a ladder, each run as printed, however its state directory was given."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.hints import command, interrupt_after_a_batch, interrupting, link_installation, somebody, states
from harness.ladders import climber
from harness.printed import User, runs
from pgbillion.ladder import climb, operations, record
from pgbillion.server.postgres import Installation
from pgbillion.tables.crew import Crew

SIZES = ("--to", "2")
LISTEN = Crew.listen


@pytest.fixture(params=states(__name__))
def state(request: pytest.FixtureRequest, installation: Installation) -> Iterator[tuple[User, Path]]:
    with climber(installation) as one:
        link_installation(one.state)
        user = somebody(request.param, one.state)
        user.environment["PG_CONFIG"] = str(installation.source)
        (one.state / "prepared").mkdir()
        yield user, one.state


def begun(state: tuple[User, Path], *words: str) -> str:
    """Create a few tables, and return what is printed."""
    user, folder = state
    done = user.run("ladder", "run", *(words or SIZES), "--directory", str(folder / "prepared"))
    assert done.returncode == 0, done.stderr
    return done.stdout


@runs(
    "ladder/record.py existing: ladder run",
    "cli/ladder.py _climb: ladder operations",
    "cli/ladder.py start: ladder stop",
)
def test_from_nothing_to_operations(state: tuple[User, Path]) -> None:
    user, folder = state
    done = user.run("ladder", "status")
    where = ("--directory", str(folder / "prepared"))
    printed = user.type(command(done.stderr, "begin one: "), *SIZES, *where)
    line = command(printed, "with them: ")
    assert "median of" in user.type(line, "page", "create")
    done = user.run("ladder", "start")
    assert user.type(command(done.stdout, "stop it: ")) == "stopped\n"


@runs("cli/ladder.py _climb: ladder destroy")
def test_what_was_created_is_removed(state: tuple[User, Path]) -> None:
    user, folder = state
    assert "removed: " in user.type(command(begun(state), "remove them: "), "--yes")
    assert not (folder / "ladder").exists()


@runs("cli/ladder.py _refuse_change: ladder destroy")
def test_a_ladder_that_is_to_be_another(state: tuple[User, Path]) -> None:
    user, _ = state
    begun(state)
    done = user.run("ladder", "run", "--columns", "x text")
    assert done.returncode == 1
    user.type(command(done.stderr, "begin anew, first: "), "--yes")
    begun(state, *SIZES, "--columns", "x text")


@runs("ladder/climb.py _rung: _resume", "ladder/climb.py _rung: _resume (2)")
def test_an_interrupted_run(state: tuple[User, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    user, folder = state
    interrupt_after_a_batch(monkeypatch)
    # a rung that is complete by then, and one that is not
    for rungs in ([10, 3000], [3000]):
        monkeypatch.setattr(climb, "series", lambda to, rungs=rungs: rungs)
        done = user.run("ladder", "run", "--jobs", "1", "--directory", str(folder / "prepared"))
        assert done.returncode == 130, done.stderr
        assert "3,000" in done.stderr
        with monkeypatch.context() as undone:
            undone.setattr(Crew, "listen", LISTEN)
            assert "3,000" in user.type(command(done.stderr, "resume with: "))
        user.run("ladder", "destroy", "--yes")


def test_an_interrupt_while_workers_end(state: tuple[User, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not lost: no other rung is begun."""
    user, folder = state
    close = Crew.close

    def closed(crew: Crew) -> None:
        signal.raise_signal(signal.SIGINT)
        close(crew)

    monkeypatch.setattr(climb, "series", lambda to: [10, 3000])
    monkeypatch.setattr(Crew, "close", closed)
    done = user.run("ladder", "run", "--jobs", "1", "--directory", str(folder / "prepared"))
    assert done.returncode == 130, done.stderr
    assert "interrupted with 10 of 3,000 tables made" in done.stderr
    monkeypatch.setattr(Crew, "close", close)
    assert "3,000" in user.type(command(done.stderr, "resume with: "))


@runs("ladder/climb.py climb: _resume")
def test_an_interrupted_measurement(state: tuple[User, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    user, folder = state

    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(climb, "_measure", interrupted)
    done = user.run("ladder", "run", *SIZES, "--directory", str(folder / "prepared"))
    assert done.returncode == 130, done.stderr
    monkeypatch.undo()
    assert "report: " in user.type(command(done.stderr, "resume with: "))


@runs("ladder/server.py up: again")
def test_a_server_that_was_lost(state: tuple[User, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    user, folder = state

    def measure(ladder: record.Ladder, *given: object) -> None:
        with ladder.cluster.connect() as conn:
            ladder.cluster.kill()
            conn.execute("SELECT 1")

    monkeypatch.setattr(climb, "_measure", measure)
    done = user.run("ladder", "run", *SIZES, "--directory", str(folder / "prepared"))
    assert done.returncode == 2
    assert "the ladder's server cannot be reached" in done.stderr
    monkeypatch.undo()
    assert "report: " in user.type(command(done.stderr, "go on with: "))


@runs("cli/ladder.py operations: ladder run", "cli/ladder.py _begun: ladder run")
def test_a_ladder_without_tables(state: tuple[User, Path]) -> None:
    user, folder = state
    begun(state)
    for rung in (folder / "ladder" / "rungs").glob("*/rung.json"):
        rung.unlink()
    done = user.run("ladder", "operations")
    assert "has no tables yet" in done.stderr
    user.type(command(done.stderr, "create them: "))
    # as one that was killed while it made its estimate
    path = folder / "ladder" / "ladder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "begun": False}))
    done = user.run("ladder", "start")
    assert "was not begun" in done.stderr
    user.type(command(done.stderr, "begin it: "), *SIZES, "--directory", str(folder / "prepared"))


@runs("ladder/server.py _check_trust: ladder destroy")
def test_the_machine_has_failed(state: tuple[User, Path]) -> None:
    user, folder = state
    begun(state)
    assert user.run("ladder", "start").returncode == 0
    path = folder / "ladder" / "ladder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "before"}))
    record.existing(folder).cluster.kill()
    done = user.run("ladder", "run")
    assert done.returncode == 1
    user.type(command(done.stderr, "remove it: "), "--yes")


@runs("ladder/operations.py _dropped: _again", "ladder/operations.py _create_again: _again")
def test_interrupted_operations(state: tuple[User, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    user, _ = state
    begun(state, "--to", "30k", "--jobs", "1")
    monkeypatch.setattr(operations, "meter", interrupting)
    done = user.run("ladder", "operations", "drop")
    assert done.returncode == 130, done.stderr
    monkeypatch.undo()
    line = command(done.stderr, "go on with: ")
    interrupt_after_a_batch(monkeypatch)
    done = user.run("ladder", "operations", "drop")
    assert done.returncode == 130, done.stderr
    monkeypatch.undo()
    assert line == command(done.stderr, "resume with: ")
    assert "creating these again" in user.type(line, "recreate")
    user.type(line, "page")
