"""Commands that are printed about durability windows, each run as printed, however the server was named."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest

from harness import servers
from harness.hints import command, connected, embedded_server, somebody, states, ways
from harness.printed import User, runs
from pgbillion.common.errors import UserError
from pgbillion.durability import control, force, relax, restore, witness
from pgbillion.durability.record import read_auto_conf
from pgbillion.durability.witness import Trust, Verdict
from pgbillion.server.postgres import Cluster, Installation, run_as_server

RELAX = ("durability", "relax", "--profile", "minimal", "--restart")


@pytest.fixture(scope="module")
def cluster(installation: Installation) -> Iterator[Cluster]:
    """An embedded server that is durable, so that every profile changes something."""
    with embedded_server(installation) as cluster:
        with cluster.connect() as conn:
            for setting in (
                "fsync = on",
                "full_page_writes = on",
                "synchronous_commit = on",
                "wal_level = replica",
                "max_wal_senders = 5",
                "shared_buffers = '32MB'",
            ):
                conn.execute(f"ALTER SYSTEM SET {setting}".encode())
        cluster.stop()
        cluster.start()
        yield cluster


@pytest.fixture(autouse=True)
def closed(cluster: Cluster) -> Iterator[None]:
    """What a test has opened is closed at its end, and all is as it was."""
    before = read_auto_conf(cluster.data)
    yield
    assert cluster.running()
    assert read_auto_conf(cluster.data) == before


@pytest.fixture(params=ways(__name__))
def user(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> User:
    return connected(request.param, cluster, "billion", tmp_path)


@pytest.fixture(params=["options", "service"])
def owner(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[User]:
    """Somebody for whom it is a server of their own, which is not in their state folder."""
    with servers.temporary_folder() as state:
        yield connected(request.param, cluster, "billion", tmp_path, state=state)


@runs(
    "durability/relax.py relax: durability restore",
    "durability/relax.py _check_not_open: durability status",
    "durability/relax.py _check_not_open: durability restore",
    "durability/status.py _facts: durability restore",
    "durability/warning.py text: durability restore *",
)
def test_an_interrupted_relax(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as changed:
        changed.setattr(relax, "_change", interrupted)
        done = user.run(*RELAX, "never")
    again = user.run(*RELAX, "never")
    shown = user.type(command(again.stderr, "to see more: "))
    (line,) = {
        command(done.stderr, "put back what was changed: "),
        command(again.stderr, "to end it: "),
        command(user.run("tables", "list").stderr, "come back with: "),
        command(shown, "\nnext +"),
    }
    user.type(line)


@contextmanager
def busy(cluster: Cluster) -> Iterator[None]:
    """A command that goes on meanwhile."""
    with cluster.connect() as conn:

        def work() -> None:
            with suppress(psycopg.errors.QueryCanceled):
                conn.execute("SELECT pg_sleep(600)")

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            while thread.is_alive():
                conn.cancel()
                thread.join(0.1)


@runs(
    "durability/relax.py _roll_back: durability restore",
    "durability/session.py Session.wait_for_all: durability restore",
    "durability/force.py synchronize: durability restore",
    "durability/restore.py _verify: _again *",
)
def test_what_cannot_be_put_back(user: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(*given: object) -> NoReturn:
        raise UserError("no", "hint")

    with monkeypatch.context() as changed:
        changed.setattr(relax, "_change", failed)
        changed.setattr(restore, "restore_locked", failed)
        done = user.run(*RELAX, "never")
    lines = {command(done.stderr, "hint: ")}
    with busy(cluster):
        lines.add(command(user.run("durability", "restore", "--wait", "0").stderr, ", then: "))
    with monkeypatch.context() as changed:
        changed.setattr(force, "places", lambda opened: ["/nonexistent"])
        lines.add(command(user.run("durability", "restore").stderr, ", then: "))
    with monkeypatch.context() as changed:
        changed.setattr(restore, "_waiting", lambda *given: [])
        changed.setattr(restore, "_pending", lambda *given: True)
        lines.add(command(user.run("durability", "restore").stderr, "try again: "))
    (line,) = lines
    user.type(line)


@runs(
    "cli/durability.py relax: durability restore",
    "cli/durability.py restore: durability restore --trust",
    "durability/relax.py _check_not_open: durability restore --trust",
    "durability/status.py _facts: durability restore --trust",
    "durability/warning.py text: durability restore --trust *",
)
def test_data_that_cannot_be_trusted(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    done = user.run(*RELAX, "never")
    with monkeypatch.context() as changed:
        changed.setattr(witness, "verdict", lambda *given: Verdict(Trust.NO, "lightning"))
        said = user.type(command(done.stdout, "afterwards: "), status=1)
    (line,) = {
        command(said, ", then: "),
        command(user.run(*RELAX, "never").stderr, "loaded anew or checked: "),
        command(user.run("durability", "status").stdout, ", then: "),
        command(user.run("tables", "list").stderr, r"checked\? "),
    }
    user.type(line)


@runs(
    "durability/restore.py _restore: _again * --restart now",
    "durability/restore.py _restore: _again * (2)",
    "durability/control.py find: server stop",
    "durability/control.py find: server start",
)
@pytest.mark.parametrize("user", ["embedded", "uri"], indirect=True)
def test_a_restart_that_is_put_off(user: User) -> None:
    done = user.run(*RELAX, "now")
    assert done.returncode == 0, done.stderr
    done = user.run("durability", "restore", "--restart", "later", "--wait", "20")
    now = command(done.stderr, "hint: ")
    assert " --wait 20 " in now
    user.type(now)
    done = user.run(*RELAX, "now")
    done = user.run("durability", "restore", "--restart", "later")
    stop, start, line = done.stderr.strip().partition("; or: ")[2].split("; ")
    assert user.type(stop) == "stopped\n"
    user.type(start)
    user.type(line)


@runs("durability/restore.py _restore: _again *")
def test_a_server_that_others_restart(owner: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    done = owner.run(*RELAX, "now")
    assert done.returncode == 0, done.stderr
    with monkeypatch.context() as changed:
        changed.setattr(control, "_unit", lambda pid: "postgresql.service")
        done = owner.run("durability", "restore")
    assert "systemctl restart postgresql.service; then: " in done.stderr
    cluster.stop()
    cluster.start()
    owner.type(command(done.stderr, "; then: "))


@runs("durability/restore.py _start: _again *", "durability/restore.py _start: _again * --restart now")
def test_a_server_that_is_down_within_a_window(owner: User, cluster: Cluster) -> None:
    for by_us in (False, True):
        done = owner.run(*RELAX, "never")
        assert done.returncode == 0, done.stderr
        cluster.stop()
        done = owner.run("durability", "restore", "--wait", "20")
        if by_us:
            owner.type(command(done.stderr, "or let this do it: "))
        else:
            cluster.start()
            owner.type(command(done.stderr, "start it, then: "))


def test_pg_ctl_and_what_is_to_be_done_by_hand(owner: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of other programs work as printed, too."""
    done = owner.run(*RELAX, "later")
    assert done.returncode == 0, done.stderr
    owner.shell(command(done.stdout, "to do: ") + " >/dev/null")
    with cluster.connect() as conn:
        assert servers.one(conn, "SHOW wal_level") == "minimal"
    done = owner.run("durability", "restore", "--restart", "later")
    restart, line = done.stderr.strip().partition("; or: ")[2].split("; ")
    owner.shell(f"{restart} >/dev/null")
    owner.type(line)
    wal = cluster.data / "pg_wal"
    with servers.temporary_folder() as folder:
        with monkeypatch.context() as changed:
            changed.setattr(control, "_unit", lambda pid: "postgresql.service")
            done = owner.run(*RELAX, "now", "--wal-dir", str(folder / "a $b"))
        cluster.stop()
        owner.shell(done.stderr.partition("by hand: stop the server; ")[2].removesuffix("; start it\n"))
        cluster.start()
        assert wal.readlink() == folder / "a $b"
        cluster.stop()
        wal.unlink()
        shutil.move(folder / "a $b", wal)
        shutil.rmtree(f"{wal}.old")
        cluster.start()


@runs("cycle/servers.py Own.check: durability relax --profile * --restart now")
def test_a_profile_that_takes_a_restart(owner: User, cluster: Cluster) -> None:
    with cluster.connect("billion") as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS model ()")
    cycle = ("cycle", "-n", "2", "--profiles", "minimal", "--template", "model", "--method", "sql")
    done = owner.run(*cycle)
    said = owner.type(command(done.stderr, "hint: "))
    owner.type(command(said, "afterwards: "))


@runs("cli/server.py start_embedded: durability restore *", "durability/warning.py text: durability restore *")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["", "elsewhere"])
@pytest.mark.parametrize("way", states(__name__))
def test_a_relaxed_server_that_does_not_start(way: str, elsewhere: bool, cluster: Cluster) -> None:
    """Also where the environment names another server, which is not meant."""
    user = somebody(way, cluster.data.parent)
    done = user.run(*RELAX, "never")
    assert done.returncode == 0, done.stderr
    if elsewhere:
        user.environment["PGHOST"] = "/nonexistent"
    warned = user.run("server", "stop")
    settings = cluster.data / "postgresql.auto.conf"
    text = settings.read_text()
    settings.write_text(text + "no_such_setting = 1\n")
    done = user.run("server", "start", "--pg-config", str(cluster.installation.source))
    settings.write_text(text)
    (line,) = {command(done.stderr, "it was relaxed: "), command(warned.stderr, "come back with: ")}
    user.type(line)


@runs("durability/wal.py check: durability restore --lost-wal")
@pytest.mark.parametrize("way", ["embedded", "environment"])
def test_a_lost_log(way: str, cluster: Cluster, tmp_path: Path) -> None:
    user = connected(way, cluster, "billion", tmp_path)
    with servers.temporary_folder() as folder:
        done = user.run(*RELAX, "now", "--wal-dir", str(folder / "wal"))
        assert done.returncode == 0, done.stderr
        cluster.kill()
        shutil.rmtree(folder / "wal")
    done = user.run("durability", "restore")
    said = user.type(command(done.stderr, "save what is left: "), status=1)
    assert "the settings are put back, but the write-ahead log is lost" in said
    program = cluster.installation.program("pg_resetwal")
    done_by_hand = run_as_server([program, "-f", cluster.data], capture_output=True)
    assert done_by_hand.returncode == 0, done_by_hand.stderr
    cluster.start()
    assert user.run("durability", "restore", "--trust").returncode == 0
