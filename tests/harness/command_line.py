"""The command line as its users run it: a process of its own, against a real server."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import servers
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

MODELS = ("i integer", "id serial primary key, t text", "id bigint primary key, name text, data jsonb")


@dataclass
class CommandLine:
    """`pgbillion` with a state folder of its own, for one database of a cluster."""

    cluster: Cluster
    database: str
    state: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def conninfo(self) -> str:
        return self.cluster.conninfo(self.database)

    def connect(self) -> Connection:
        return self.cluster.connect(self.database)

    def run(self, *arguments: str, server: bool = True, check: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self._argv(arguments, server), env=self._env(), capture_output=True, text=True, timeout=300
        )
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def json(self, *arguments: str, server: bool = True) -> dict[str, Any]:
        """Run a command that must succeed, with --json, and return the last line of its stdout."""
        values: dict[str, Any] = json.loads(
            self.run(*arguments, "--json", server=server, check=True).stdout.splitlines()[-1]
        )
        return values

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A command that runs meanwhile, in a session of its own as in a terminal."""
        process = subprocess.Popen(
            self._argv(arguments, True),
            env=self._env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()

    def workers_gone(self) -> None:
        """Wait until no worker of ours has a session any more."""

        def none_left() -> bool:
            with self.connect() as conn:
                query = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgbillion worker%%'"
                return bool(servers.one(conn, query) == 0)

        servers.until(none_left, "workers to be gone")

    def wait_for_table(self, pattern: str = "^_[0-9a-f]{8}$") -> None:
        """Wait until the first batch is committed."""
        with self.connect() as conn:
            servers.until(lambda: count(conn, pattern) > 0, "the first table")

    def _argv(self, arguments: tuple[str, ...], server: bool) -> list[str]:
        return [sys.executable, "-m", "pgbillion", *arguments, *(["-d", self.conninfo] if server else [])]

    def _env(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PG") or name == "PG_CONFIG"}
        own = {"PGBILLION_STATE": str(self.state), "PATH": f"{self.cluster.installation.bindir}:{os.environ['PATH']}"}
        return {**clean, **own, "PYTHONWARNINGS": "error", **self.environment}


@contextmanager
def command_line(cluster: Cluster, database: str) -> Iterator[CommandLine]:
    with tempfile.TemporaryDirectory(prefix="pgbillion-test-") as folder:
        Path(folder).chmod(0o755)
        yield CommandLine(cluster, database, Path(folder))


def count(conn: Connection, pattern: str = "^_[0-9a-f]{8}$", schema: str = "public") -> int:
    """How many tables have such a name."""
    found = servers.one(
        conn,
        "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ %s AND relnamespace = %s::regnamespace",
        pattern,
        schema,
    )
    assert isinstance(found, int)
    return found


def names(conn: Connection, schema: str = "public") -> list[str]:
    """The names of a schema's tables, sorted as bytes."""
    rows = conn.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace ORDER BY relname",
        [schema],
    )
    return [name for (name,) in rows]


def expected(first: int, number: int, pattern: str = "_%08x") -> list[str]:
    return [pattern % table for table in range(first, first + number)]


def failed(done: subprocess.CompletedProcess[str], status: int, error: str, hint: str | None = None) -> None:
    """The command said one line of error and one of hint, and ended as psql would."""
    lines = done.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    hints = [line for line in lines if line.startswith("hint: ")]
    assert "Traceback" not in done.stderr, done.stderr
    assert len(errors) == 1, done.stderr
    assert error in errors[0]
    assert done.returncode == status, done.stderr
    assert len(hints) == 1, done.stderr
    assert hint is None or hint in hints[0]


def read_terminal(leader: int) -> str:
    """Return all that is written to a terminal until nobody has it open any more."""
    data = b""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not select.select([leader], [], [], 1)[0]:
            continue
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # all others have closed it
            break
        if not chunk:
            break
        data += chunk
    return data.decode(errors="replace")
