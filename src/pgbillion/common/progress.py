"""How far a run is, as its watchers see it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class WorkerProgress:
    """One worker: ``done`` of ``count`` tables are committed."""

    number: int  # from 1
    done: int
    count: int
    state: str
    backend: int | None
    memory: int | None


@dataclass(frozen=True)
class Progress:
    """All of a run at one moment: ``present`` tables were there when this attempt started ``elapsed`` seconds ago."""

    count: int
    present: int
    total: int
    elapsed: float
    workers: tuple[WorkerProgress, ...]
    sample: dict[str, Any] | None = None
    first_sample: dict[str, Any] | None = None
    stopping: bool = False

    @property
    def average(self) -> float:
        """Tables per second since the start."""
        return (self.total - self.present) / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def largest_backend(self) -> int | None:
        """Private memory of the largest backend, in bytes."""
        return max((worker.memory for worker in self.workers if worker.memory is not None), default=None)


@dataclass
class Rate:
    """Tables per second over the last few seconds."""

    window: float = 5.0
    _points: deque[tuple[float, int]] = field(default_factory=deque)

    def add(self, elapsed: float, total: int) -> None:
        """Take in a point."""
        self._points.append((elapsed, total))
        while len(self._points) > 2 and self._points[1][0] <= elapsed - self.window:
            self._points.popleft()

    @property
    def now(self) -> float:
        """The rate over the window."""
        if len(self._points) < 2:
            return 0.0
        (first, low), (last, high) = self._points[0], self._points[-1]
        return (high - low) / (last - first) if last > first else 0.0
