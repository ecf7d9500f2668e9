"""Whatever dies at whatever step of relax or restore: all comes back, and nothing is called durable that is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from durability_support import Server, durable_server
from harness.amount import every
from pgbillion.durability.record import read_mark
from pgbillion.durability.witness import Trust
from pgbillion.server.postgres import Installation

KILLER = Path(__file__).with_name("durability_killer.py")


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[Server]:
    with durable_server(installation) as server:
        # lines that were there before, one of them for a setting the profile changes
        server.execute("ALTER SYSTEM SET checkpoint_timeout = '7min'", "ALTER SYSTEM SET work_mem = '5MB'")
        server.execute("CREATE TABLE t (i integer)")
        server.cluster.stop()
        server.cluster.start()
        yield server


@pytest.fixture
def wal_dir(server: Server) -> Iterator[Path]:
    """A folder in memory, where there is one, for the server to make its pg_wal in."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "wal"


def run(server: Server, step: int, victim: str, *arguments: str) -> str | None:
    """Run the command line until somebody dies at a step, and return how it was; None when there is no such step."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    killed = server.state.with_name(f"{server.state.name}.killed")
    killed.unlink(missing_ok=True)
    env |= {"PGBILLION_STATE": str(server.state), "DATA": str(server.cluster.data), "KILLED": str(killed)}
    command = [sys.executable, str(KILLER), str(step), victim, "durability", *arguments, "-d", server.target.conninfo]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
    if not killed.exists():
        assert done.returncode == 0, done.stderr
        return None
    how = killed.read_text()
    killed.unlink()
    assert victim == "server" or done.returncode == -9
    assert "Traceback" not in done.stderr, done.stderr
    return how


def fill(server: Server, row: int) -> None:
    server.execute(f"INSERT INTO t VALUES ({row})")


def survey(server: Server) -> None:
    """Look, at whatever is left: a server with a window is never called durable."""
    try:
        report = server.status()
    except psycopg.OperationalError:
        # it fell while no window was open, and is nobody's business
        assert read_mark(server.cluster.data) is None
        return
    if report.window != "none":
        assert not report.durable
    if report.durable:
        assert all(report.settings[name]["now"] != "off" for name in ("fsync", "full_page_writes"))


def put_back(
    server: Server, before: dict[str, object], rows: int, *, wal_dir: Path, suspicious: bool, step: int
) -> None:
    """Restore, and see that everything is as before."""
    if read_mark(server.cluster.data) is None:
        # it may have fallen while no window was open: its owner starts it
        server.cluster.start()
    outcome = server.restore(restart=True)
    if suspicious:
        assert outcome.verdict.trust is Trust.DOUBTFUL, step
        assert not server.status().durable
        server.restore(trust=True)
    else:
        assert outcome.verdict.trust is Trust.YES, (step, outcome.verdict)
    assert outcome.not_durable == []
    assert server.picture() == before, step
    assert server.status().durable
    assert not wal_dir.exists(), step
    assert server.one("SELECT count(*) FROM t") == rows


@pytest.mark.parametrize("victim", ["tool", "server"])
@pytest.mark.parametrize("verb", ["relax", "restore"])
def test_killed_at_every_step(server: Server, wal_dir: Path, verb: str, victim: str) -> None:
    before = server.picture()
    step = 0
    relax = ("relax", "--restart", "now", "--wal-dir", str(wal_dir))
    while True:
        step += every()
        rows = server.one("SELECT count(*) FROM t")
        if verb == "restore":
            server.relax(wal_dir=wal_dir)
            fill(server, step)
            rows += 1
            how = run(server, step, victim, "restore")
        else:
            how = run(server, step, victim, *relax)
        survey(server)
        crashed = victim == "server" and how is not None and how.endswith(" marked") and not how.startswith("0")
        put_back(server, before, rows, wal_dir=wal_dir, suspicious=crashed, step=step)
        if how is None:
            break
    assert step > 20
