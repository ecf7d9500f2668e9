"""Several things at once: in threads, because all that they do is wait for servers, programs or disks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import psycopg

_T = TypeVar("_T")
_R = TypeVar("_R")
_P = ParamSpec("_P")
_CANCEL_SECONDS = 10
_AGAIN_SECONDS = 0.3


class Team:
    """Threads at work; ``stopped`` tells those that look at it that the others have failed or were interrupted."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.stopped = threading.Event()
        self._pool = pool
        self._sessions: list[psycopg.Connection[Any]] = []

    def start(self, work: Callable[_P, _R], *given: _P.args, **named: _P.kwargs) -> Future[_R]:
        """Have a thread do something, as soon as one is free."""
        return self._pool.submit(work, *given, **named)

    def session(self, conn: psycopg.Connection[Any]) -> None:
        """Have what a session runs canceled when the team is stopped. Any thread may call it."""
        self._sessions.append(conn)
        if self.stopped.is_set():
            raise psycopg.errors.QueryCanceled("stopped")

    def finish(self, futures: Sequence[Future[Any]]) -> None:
        """Wait for threads, each of which runs many statements: on a failure a cancel may come between two of them."""
        try:
            for future in futures:
                future.result()
        except BaseException:
            while not all(future.done() for future in futures):
                self.stop()
                time.sleep(_AGAIN_SECONDS)
            raise

    def stop(self) -> None:
        """Begin nothing more, and cancel what the sessions run."""
        self.stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for session in list(self._sessions):
            # one that is closed or lost needs no cancel
            with contextlib.suppress(psycopg.Error):
                session.cancel_safe(timeout=_CANCEL_SECONDS)


@contextlib.contextmanager
def team(threads: int) -> Iterator[Team]:
    """Give a number of threads. They have ended when it is over; on a failure, Ctrl-C included, it is stopped first."""
    with ThreadPoolExecutor(threads) as pool:
        made = Team(pool)
        try:
            yield made
        except BaseException:
            made.stop()
            raise


def at_once(work: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Do something with each, all at the same time, and wait for all; then the first failure is raised."""
    chosen = list(items)
    if not chosen:
        return []
    with ThreadPoolExecutor(len(chosen)) as pool:
        return [future.result() for future in [pool.submit(work, item) for item in chosen]]
