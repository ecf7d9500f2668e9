"""One record of a run every few seconds: tables, disk, memory, load, processor time.

A record costs a few milliseconds however many tables there are: files are never walked, except for the size of
tablespaces, and each question is put again only when a hundred times as long as its last answer took has passed, so
that measuring stays within 1 % of the run.  ``cost`` in each record says what it took.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg

from pgbillion.common import host as machine
from pgbillion.common import sql
from pgbillion.common.connection import Connection
from pgbillion.common.host import FileSystem, Host
from pgbillion.common.progress import Progress
from pgbillion.common.target import Target
from pgbillion.tables.run import Run

SHARE = 0.01  # of the run, for each question
# A question that takes longer than this is given up, and put again when SHARE allows.
_PATIENCE = 2.0


@dataclass
class _Question:
    """Something asked of the server no more often than its price allows."""

    ask: Callable[[Connection], Any]
    value: Any = None
    _due: float = field(default=0.0)

    def answer(self, conn: Connection) -> Any:
        start = time.monotonic()
        if start < self._due:
            return self.value
        try:
            self.value = self.ask(conn)
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.QueryCanceled, psycopg.errors.UndefinedFile):
            self.value = None
        now = time.monotonic()
        self._due = now + (now - start) / SHARE
        return self.value


def _base(conn: Connection) -> int:
    return sum(size for _, size in conn.execute(sql.load("tables", "catalog_sizes").encode()))


def _wal(conn: Connection) -> int:
    row = conn.execute("SELECT sum(size)::bigint FROM pg_ls_waldir()").fetchone()
    assert row is not None
    return int(row[0])


def _wal_position(conn: Connection) -> int:
    row = conn.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").fetchone()
    assert row is not None
    return int(row[0])


class Sampler:
    """Writes a record to the run's folder every ``interval`` seconds, in a thread of its own."""

    def __init__(
        self, run: Run, target: Target, host: Host | None, interval: float, progress: Callable[[], Progress]
    ) -> None:
        self.first: dict[str, Any] | None = None
        self.latest: dict[str, Any] | None = None
        self._run = run
        self._target = target
        self._host = host
        self._interval = interval
        self._progress = progress
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="sampler", daemon=True)
        self._conn: Connection | None = None
        names = list(dict.fromkeys(run.plan.tablespaces))
        self._questions = {
            "base": _Question(_base),
            "wal": _Question(_wal),
            "wal_position": _Question(_wal_position),
            "tablespaces": _Question(lambda conn: _tablespaces(conn, names)),
        }
        self._places = self._file_systems(host)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Take the last record, and end."""
        self._over.set()
        # a server that does not answer must not keep us
        self._thread.join(10)

    def _work(self) -> None:
        try:
            self._take()
            while not self._over.wait(self._interval):
                self._take()
            self._take()
        finally:
            if self._conn is not None:
                self._conn.close()

    def _take(self) -> None:
        start = time.perf_counter()
        progress = self._progress()
        sample: dict[str, Any] = {
            "time": time.time(),
            "attempt": len(self._run.journal.attempts),
            "elapsed": progress.elapsed,
            "total": progress.total,
            "workers": self._workers(progress),
            "disk": {**self._ask(), "filesystems": self._usage()},
            "memory": self._memory(progress),
            "load": list(self._host.load()) if self._host else None,
        }
        sample["cost"] = round(time.perf_counter() - start, 6)
        self.latest = sample
        if self.first is None:
            self.first = sample
        # a run goes on without its records rather than stop for want of them
        with contextlib.suppress(OSError):
            self._run.add_sample(sample)

    def _workers(self, progress: Progress) -> list[dict[str, Any]]:
        backends = [worker.backend for worker in progress.workers if worker.backend is not None]
        cpu = machine.cpu_seconds(backends) if self._host else {}
        return [
            {
                "tables": worker.done,
                "finished": worker.state == "finished",
                "backend": worker.backend,
                "memory": worker.memory,
                "cpu": cpu.get(worker.backend) if worker.backend is not None else None,
            }
            for worker in progress.workers
        ]

    def _ask(self) -> dict[str, Any]:
        """Return what the server says; all unknown while it cannot be reached."""
        try:
            if self._conn is None or self._conn.closed:
                self._conn = self._target.connect(connect_timeout=5, application_name="pgbillion sampler")
                self._conn.execute(f"SET statement_timeout = {round(_PATIENCE * 1000)}".encode())
            return {name: question.answer(self._conn) for name, question in self._questions.items()}
        except psycopg.Error:
            # the workers, who use the same server, will say what is wrong
            if self._conn is not None:
                self._conn.close()
            return dict.fromkeys(self._questions)

    def _file_systems(self, host: Host | None) -> dict[int, FileSystem]:
        """Return the file systems the run may write to, by device."""
        places: list[FileSystem | None] = []
        if host is not None:
            places = [host.filesystem(), host.wal_filesystem()]
            places += [host.filesystem(path) for path in self._run.tablespace_folders]
        return {place.device: place for place in places if place is not None}

    def _usage(self) -> dict[str, dict[str, int | None]]:
        """Return bytes and files in use, by mount point; everybody's, not the run's alone."""
        usage: dict[str, dict[str, int | None]] = {}
        for place in self._places.values():
            now = place.again()
            if now is not None:
                usage[now.mount] = {
                    "used": now.used,
                    "files": now.files - now.files_free
                    if now.files is not None and now.files_free is not None
                    else None,
                }
        return usage

    def _memory(self, progress: Progress) -> dict[str, int | None]:
        known = [worker.memory for worker in progress.workers if worker.memory is not None]
        return {
            "backends": sum(known) if known else None,
            "largest": max(known, default=None),
            "available": self._host.available_memory() if self._host else None,
        }


def _tablespaces(conn: Connection, names: list[str]) -> dict[str, int] | None:
    """Return the bytes of each tablespace; this one does walk files."""
    if not names:
        return {}
    rows = conn.execute("SELECT spcname, pg_tablespace_size(oid) FROM pg_tablespace WHERE spcname = ANY (%s)", [names])
    return {str(name): int(size) for name, size in rows}
