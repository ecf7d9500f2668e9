"""Functions of the program run side by side, a few statements at a time, in every order that the steps can have.

An actor is a function in a thread of its own, whose connections stop before each statement that begins a step. Where a
step waits for a lock, the others go on, and it ends when they let it: as in PostgreSQL's isolation tester.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pgbillion.common.connection import Connection
from pgbillion.common.target import Target

from .servers import one

_SECONDS = 120


@dataclass(frozen=True)
class Act:
    """What an actor does; its steps begin at the statements that match, and the last one after `until` was run."""

    name: str
    work: Callable[[Target], object]
    steps: Sequence[str]
    until: str | None = None


class _Actor:
    def __init__(self, act: Act, target: Target) -> None:
        self.act = act
        self.ended = False
        self.error: BaseException | None = None
        self.pids: list[int] = []
        self._waits = threading.Event()
        self._granted = threading.Semaphore(0)
        self._free = False
        self._target = _Stepped(target.conninfo, target.display)
        self._target.__dict__["actor"] = self
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.act.work(self._target)
        except BaseException as error:
            self.error = error
        self.ended = True
        self._waits.set()

    def gate(self) -> None:
        if not self._free:
            self._waits.set()
            self._granted.acquire()

    def step(self, monitor: Connection) -> None:
        """Let it go on until the next step, its end, or a lock that others have."""
        if self.over():
            return
        if self._waits.is_set():
            self._waits.clear()
            self._granted.release()
        self.settle(monitor)

    def settle(self, monitor: Connection) -> None:
        end = time.monotonic() + _SECONDS
        while not self._waits.wait(0.005):
            if self.pids and one(
                monitor,
                "SELECT count(*) FROM unnest(%s::int4[]) AS p WHERE cardinality(pg_blocking_pids(p)) > 0",
                self.pids,
            ):
                return
            assert time.monotonic() < end, f"{self.act.name} takes too long"

    def over(self) -> bool:
        return self.ended

    def finish(self) -> None:
        """Let it go on to its end."""
        self._free = True
        self._granted.release()


class _Stepped(Target):
    def connect(self, **options: Any) -> Connection:
        conn = super().connect(**options)
        actor: _Actor = self.__dict__["actor"]
        actor.pids.append(conn.info.backend_pid)
        execute = conn.execute

        def stepped(query: Any, *arguments: Any, **named: Any) -> Any:
            text = query if isinstance(query, str) else query.decode() if isinstance(query, bytes) else str(query)
            if any(re.search(step, text) for step in actor.act.steps):
                actor.gate()
            cursor = execute(query, *arguments, **named)
            if actor.act.until and re.search(actor.act.until, text):
                actor.gate()
            return cursor

        conn.execute = stepped  # type: ignore[method-assign]
        return conn


def orders(lengths: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every order of these numbers of steps of each actor, as the actors' numbers."""
    if not any(lengths):
        yield ()
        return
    for number, length in enumerate(lengths):
        if length:
            rest = [*lengths[:number], length - 1, *lengths[number + 1 :]]
            for order in orders(rest):
                yield (number, *order)


def run(target: Target, monitor: Connection, acts: Sequence[Act], order: Sequence[int]) -> list[BaseException | None]:
    """Run acts in an order of steps; return what each has raised."""
    actors = []
    for act in acts:
        actors.append(_Actor(act, target))
        actors[-1].settle(monitor)
    for number in order:
        actors[number].step(monitor)
    for actor in actors:
        actor.finish()
    end = time.monotonic() + _SECONDS
    while not all(actor.over() for actor in actors):
        assert time.monotonic() < end, f"still at work: {[actor.act.name for actor in actors if not actor.over()]}"
        time.sleep(0.005)
    return [actor.error for actor in actors]
