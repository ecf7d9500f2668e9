"""Several sessions at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import psycopg
from psycopg import errors

from pgbillion.common.connection import Connection

from .servers import one, until

T = TypeVar("T")


@contextmanager
def beside(*works: Callable[[threading.Event], None]) -> Iterator[None]:
    """Have functions at work, a thread each, until the end sets their event. Fails with what they have raised."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[threading.Event], None]) -> None:
        try:
            work(stop)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, f"beside: {failures!r}"


class Running(Generic[T]):
    """A function at work in a thread; `result` waits for it and raises what it raised."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value.append(self._function())
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self, seconds: float = 300) -> T:
        self._thread.join(seconds)
        if self._thread.is_alive():
            raise TimeoutError(f"still running after {seconds:.0f} s")
        if self._error is not None:
            raise self._error
        return self._value[0]


def pid(conn: Connection) -> int:
    return conn.info.backend_pid


def until_blocked(monitor: Connection, blocked: Connection, running: Running[Any]) -> None:
    """Wait until the session waits for a lock; fails when the function it runs ends before."""

    def waits() -> bool:
        if running.done:
            raise AssertionError(f"was not blocked, but returned {running.result()}")
        return bool(one(monitor, "SELECT cardinality(pg_blocking_pids(%s)) > 0", pid(blocked)))

    until(waits, "the session to be blocked")


def canceled_at_random(
    conn: Connection, monitor: Connection, query: str, rows: int, chance: random.Random, times: int
) -> Iterator[str]:
    """Run a parallel query of so many rows again and again, canceled within 150 ms; yield how each run ended.

    Its workers are gone by then, and `conn` is ready for another query.
    """
    workers = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'"
    for _ in range(times):
        running = Running(lambda: len(conn.execute(query.encode()).fetchall()))
        monitor.execute("SELECT pg_sleep(%s)", [chance.random() * 0.15])
        monitor.execute("SELECT pg_cancel_backend(%s)", [pid(conn)])
        ended = "ended"
        try:
            assert running.result() == rows
        except errors.QueryCanceled:
            ended = "canceled"
        until(lambda: one(monitor, workers) == 0, "workers to end")
        # a cancellation that came late is of this one
        try:
            conn.execute("SELECT 1")
        except errors.QueryCanceled:
            ended = "ended before it was canceled"
        yield ended


def worker_terminated(conn: Connection, monitor: Connection, query: str) -> psycopg.Error | None:
    """Terminate a parallel worker of a query that is running; what the query raised, if anything.

    A query whose worker has come too late, when the leader had read all, is run again.
    """
    workers = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'parallel worker' AND leader_pid = %s LIMIT 1"
    worker = None
    while worker is None:
        running = Running(lambda: conn.execute(query.encode()).fetchall())
        while worker is None and not running.done:
            worker = one(monitor, workers, pid(conn))
        if worker is None:
            running.result()
    monitor.execute("SELECT pg_terminate_backend(%s)", [worker])
    try:
        running.result()
    except psycopg.Error as error:
        return error
    return None


def anonymous_memory(conn: Connection) -> int:
    """Private memory of the session's backend, in bytes (RssAnon: shared buffers are not in it)."""
    status = Path(f"/proc/{pid(conn)}/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in status if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024
