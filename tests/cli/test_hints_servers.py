"""Commands that are printed about the embedded server itself, each run as printed, however its folder was given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.hints import command, interrupt_after_a_batch, link_installation, somebody, state_folder, states
from harness.printed import User, runs
from pgbillion.cli import tables_drop
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster, Installation
from pgbillion.tables.crew import Crew


@dataclass
class Owner:
    """Whose server it is."""

    user: User
    state: Path
    installation: Installation

    @property
    def cluster(self) -> Cluster:
        found = embedded.find(self.state)
        assert found is not None
        return found

    def start(self) -> None:
        link_installation(self.state)
        embedded.start(self.state, self.installation.source)


@pytest.fixture(scope="module", params=states(__name__))
def folder(request: pytest.FixtureRequest, installation: Installation) -> Iterator[Owner]:
    with state_folder() as state:
        yield Owner(somebody(request.param, state), state, installation)


@pytest.fixture
def owner(folder: Owner) -> Owner:
    """With a server that runs."""
    folder.start()
    return folder


# the first test of a folder
@runs("server/embedded.py status: server start", "cli/connect.py refused: _start")
def test_no_server(folder: Owner) -> None:
    user = folder.user
    absent = f"error: there is no server in {folder.state}"
    lines = set()
    for words in (("server", "status"), ("tables", "list"), ("tables", "create", "-n", "1"), ("shards", "status")):
        done = user.run(*words)
        assert done.stderr.startswith(absent), done.stderr
        lines.add(command(done.stderr, "make one: "))
    (line,) = lines
    assert " started: " in user.type(line, "--pg-config", str(folder.installation.source))
    assert user.run("tables", "list").returncode == 0


@runs("tables/run.py find: tables create")
def test_no_run(owner: Owner) -> None:
    done = owner.user.run("tables", "report")
    assert " created in " in owner.user.type(command(done.stderr, "make one: "), "-n", "3", "--name-format", "n_%d")


@runs("tables/create.py _failed: server start", "cli/tables.py create: tables create --resume * *")
def test_a_server_that_is_lost_while_tables_are_made(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    user, cluster = owner.user, owner.cluster
    listen = Crew.listen

    def killed(crew: Crew, seconds: float) -> None:
        listen(crew, seconds)
        if crew.total and cluster.running():
            cluster.kill()

    monkeypatch.setattr(Crew, "listen", killed)
    sizes = ("-n", "20k", "--batch", "300", "--jobs", "1", "--storage", "lazy")
    done = user.run("tables", "create", *sizes)
    assert done.returncode == 2, done.stderr
    monkeypatch.undo()
    user.type(command(done.stderr, r"start the server again \("))
    assert "; 20,000 in all\n" in user.type(command(done.stderr, "resume with: "))


@runs("tables/drop.py _refusal: server start", "cli/tables_drop.py drop: tables drop * * *")
def test_a_server_that_is_lost_while_tables_are_dropped(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    user, cluster = owner.user, owner.cluster

    @contextmanager
    def killing(*given: object) -> Iterator[Callable[[int], None]]:
        yield lambda done: cluster.kill() if done and cluster.running() else None

    monkeypatch.setattr(tables_drop, "meter", killing)
    done = user.run("tables", "drop", "--count", "2000", "--batch", "100", "--jobs", "1", "--yes")
    assert done.returncode == 2, done.stderr
    monkeypatch.undo()
    user.type(command(done.stderr, r"start the server again \("))
    assert " tables dropped in " in user.type(command(done.stderr, "go on with: "))


@runs("server/embedded.py start: server stop")
def test_a_server_of_another_version(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    later = replace(owner.cluster.installation, version="99.1", version_num=990001)
    monkeypatch.setattr(Installation, "prepare", lambda *given: later)
    done = owner.user.run("server", "start")
    monkeypatch.undo()
    assert owner.user.type(command(done.stderr, "stop it first: ")) == "stopped\n"


@runs(
    "server/embedded.py running: server start",
    "cli/tables.py _target_of: server start",
    "cli/connect.py refused: _start (2)",
    "cli/connect.py _hint: _start",
)
def test_a_stopped_server(owner: Owner) -> None:
    user = owner.user
    owner.cluster.stop()
    run = max((owner.state / "runs").iterdir())
    lines = {
        command(user.run("server", "psql", "-l").stderr, "start it: "),
        command(user.run("tables", "verify", str(run)).stderr, "start it: "),
        command(user.run("tables", "list").stderr, "start it: "),
        command(user.run("tables", "list", "-d", "app").stderr, "start it: ").replace(" -d app", ""),
    }
    socket = owner.cluster.socket_dir
    named = user.run("tables", "list", "-h", str(socket), "-p", str(owner.cluster.port)).stderr
    assert "hint: the embedded server is stopped; start it: " in named
    lines.add(command(named, "start it: "))
    (line,) = lines
    for where in (("-h", "/nonexistent"), ("-h", "a", "-p", "1,2,3"), ("-p", "1"), ("-d", "host=/nonexistent")):
        said = user.run("tables", "list", *where).stderr
        assert "hint: check that PostgreSQL is running there, or name another server" in said
        assert not re.search("server start|connection is bad|connection failed|Is the server running", said)
    user.type(line)
    assert owner.cluster.running()


@runs("cli/connect.py _put_back: _start")
def test_a_library_that_the_settings_name(owner: Owner) -> None:
    with owner.cluster.connect() as conn:
        conn.execute("ALTER DATABASE billion SET session_preload_libraries = 'removed/pgbillion_rows'")
        done = owner.user.run("server", "status")
        # as the file that is put back would have it
        conn.execute("ALTER DATABASE billion RESET session_preload_libraries")
    assert "already running" in owner.user.type(command(done.stderr, "put it back: "))


# what leaves no server
@runs("server/postgres.py Cluster._check_major: server destroy")
def test_data_of_another_major_version(owner: Owner) -> None:
    cluster = owner.cluster
    cluster.stop()
    (cluster.data / "PG_VERSION").write_text("9\n")
    done = owner.user.run("server", "start")
    assert "removed: " in owner.user.type(command(done.stderr, "remove the old one: "), answer="y\n")
    assert not cluster.data.exists()


@runs(
    "cli/demo.py demo: again",
    "cli/demo.py demo: server destroy",
    "cli/demo.py _commands: server psql -d *",
    "cli/demo.py _commands: tenants create --template * * *",
    "cli/demo.py _commands: rows aggregate * *",
    "cli/demo.py _commands: tables verify * *",
    "cli/demo.py _commands: server stop",
    "cli/demo.py _commands: server destroy",
)
def test_the_demo(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    user = owner.user
    with monkeypatch.context() as changed:
        interrupt_after_a_batch(changed)
        interrupted = user.run("demo", "-n", "2k", "--pg-config", str(owner.installation.source))
    assert interrupted.returncode == 130
    shown = user.type(command(interrupted.stderr, "to start anew: "))
    assert "demo" in user.type(command(shown, "look around: "), "-c", "SELECT current_database()")
    assert "100 tenants" in user.type(command(shown, "clone more: "))
    assert "times as fast" in user.type(command(shown, "compare another query: "))
    assert "2,000 of 2,000" in user.type(command(shown, "check the tables again: "), "--amcheck", "off")
    assert user.type(command(shown, "stop the server: ")) == "stopped\n"
    for line in (command(shown, "remove it: "), command(interrupted.stderr, "to remove that server: ")):
        assert " in " in user.type(line, answer="y\n")
    assert not (owner.state / "data").exists()
