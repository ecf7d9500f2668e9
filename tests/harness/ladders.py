"""Ladders for the tests: a state directory of their own, in which nothing may be left mounted, attached or running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harness import needs, servers
from harness.hints import link_installation
from harness.root import need_root
from pgbillion.common.connection import Connection
from pgbillion.ladder import record, server
from pgbillion.ladder.disk import Kind, _find
from pgbillion.ladder.record import Ladder
from pgbillion.server.postgres import Installation


@dataclass
class Climber:
    """`pgbillion ladder` with a state directory of its own."""

    installation: Installation
    state: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(self.argv(*words), env=self.env(), capture_output=True, text=True, timeout=600)
        assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def json(self, *words: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(*words, "--json").stdout.splitlines()[-1])
        return found

    def started(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*words),
            env=self.env(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def argv(self, *words: str) -> list[str]:
        own = ["--pg-config", str(self.installation.source)] if words[0] == "run" else []
        return [sys.executable, "-m", "pgbillion", "ladder", *words, *own]

    def env(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        return {**clean, "PGBILLION_STATE": str(self.state), "PYTHONWARNINGS": "error", **self.environment}

    @property
    def ladder(self) -> Ladder:
        return record.existing(self.state)

    def connect(self) -> Connection:
        return self.ladder.cluster.connect("billion")

    def names(self) -> list[str]:
        """Give the names of all tables, as bytes have them in order; the server runs."""
        with self.connect() as conn:
            rows = conn.execute("SELECT relname FROM pg_class WHERE relname ~ '^_[0-9a-f]{8}$' ORDER BY relname")
            return [name for (name,) in rows]

    def wait_for_tables(self) -> None:
        """Wait until the first tables are committed."""

        def there() -> bool:
            if not (self.state / "ladder" / "rungs").is_dir():
                return False
            return any(path.stat().st_size > 0 for path in (self.state / "ladder" / "rungs").glob("*/journal.json"))

        servers.until(there, "the first run")
        servers.until(lambda: len(self.names()) > 0, "the first tables")

    def nothing_left(self) -> None:
        """Nothing is mounted, attached, or running."""
        assert self.mounts() == []
        assert self.loops() == []
        assert [one for one in psutil.process_iter(["cwd"]) if str(one.info["cwd"]).startswith(str(self.state))] == []

    def mounts(self) -> list[str]:
        partitions = psutil.disk_partitions(all=True)
        return [one.mountpoint for one in partitions if one.mountpoint.startswith(str(self.state))]

    def loops(self) -> list[str]:
        """Give the loop devices that have one of our files."""
        files = Path("/sys/block").glob("loop*/loop/backing_file")
        return [str(file) for file in files if file.read_text().startswith(str(self.state))]


@contextmanager
def climber(installation: Installation) -> Iterator[Climber]:
    with servers.temporary_folder(lasting=True) as state:
        link_installation(state)
        one = Climber(installation, state)
        try:
            yield one
        finally:
            ladder = record.find(state)
            if ladder is not None:
                server.destroy(ladder)
            one.nothing_left()


def need_filesystem(kind: Kind) -> None:
    """Skip the test where such a file system cannot be made and mounted."""
    need_root(f"{kind} is made in a file, and only root can mount it")
    if _find(kind.program) is None:
        needs.missing(needs.PACKAGES[kind.program])
    known = Path("/proc/filesystems").read_text().split()
    name = kind.partition("-")[0]
    if name not in known and subprocess.run(["modprobe", name], capture_output=True, check=False).returncode != 0:
        needs.missing(f"a kernel with {name}")
    if not Path("/dev/loop-control").exists():
        needs.missing("loop devices")
