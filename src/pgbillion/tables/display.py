"""A run on the screen: a live display on a terminal, plain lines elsewhere. Both on stderr, both honor NO_COLOR."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pgbillion.common import text
from pgbillion.common.meter import is_terminal
from pgbillion.common.progress import Progress, Rate, WorkerProgress
from pgbillion.tables.plan import Plan

_MANY = 16  # more workers than this are shown in one line each kind


@contextlib.contextmanager
def display(plan: Plan, interval: float, stream: TextIO | None = None) -> Iterator[LiveDisplay | PlainDisplay]:
    """Show a run until the context ends; ``interval`` is the time between plain lines, in seconds."""
    stream = stream or sys.stderr
    if not is_terminal(stream):
        yield PlainDisplay(stream, interval)
        return
    shown = LiveDisplay(plan)
    console = Console(file=stream, highlight=False)
    with Live(shown, console=console, refresh_per_second=4, transient=False):
        yield shown


class PlainDisplay:
    """One line every ``interval`` seconds and one at the end."""

    def __init__(self, stream: TextIO, interval: float) -> None:
        self._stream = stream
        self._interval = interval
        self._next = time.monotonic() + interval
        self._rate = Rate(window=interval)
        self._over = False

    def update(self, progress: Progress) -> None:
        """Take in how far the run is."""
        self._rate.add(progress.elapsed, progress.total)
        over = all(worker.state != "running" for worker in progress.workers)
        if self._over or (time.monotonic() < self._next and not over):
            return
        self._over = over
        self._next = time.monotonic() + self._interval
        print(plain_line(progress, self._rate.now), file=self._stream, flush=True)


class LiveDisplay:
    """A panel with rates, time left, disk, memory, load, and a bar a worker."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._progress: Progress | None = None
        self._rate = Rate()

    def update(self, progress: Progress) -> None:
        """Take in how far the run is."""
        self._rate.add(progress.elapsed, progress.total)
        self._progress = progress

    def __rich__(self) -> RenderableType:
        progress = self._progress
        if progress is None:
            return Text("starting workers …", style="dim")
        title = f"{text.count(self._plan.count)} tables {self._plan.definition}, method {self._plan.method}"
        parts: list[RenderableType] = [_overall(progress), Text(), _facts(progress, self._rate.now), Text()]
        parts.append(_workers(progress.workers))
        if progress.stopping:
            parts.append(Text("stopping: workers end the batch they are at …", style="yellow"))
        return Panel(
            Group(*parts), title=Text(title, overflow="ellipsis"), title_align="left", width=None, padding=(0, 1)
        )


def plain_line(progress: Progress, rate: float) -> str:
    """Return the run's state as one line."""
    share = progress.total / progress.count
    words = [
        f"{text.duration(progress.elapsed) if progress.elapsed else '0 s'}:",
        f"{text.count(progress.total)} of {text.count(progress.count)} tables ({share:.1%}),",
        f"{text.count(rate)}/s now, {text.count(progress.average)}/s on average,",
        f"left {_eta(progress)}",
    ]
    words += [f"· {name} {value}" for name, value in _measured(progress)]
    return " ".join(words)


def _eta(progress: Progress) -> str:
    if progress.average <= 0:
        return "unknown"
    return (
        text.duration((progress.count - progress.total) / progress.average)
        if progress.total < progress.count
        else "0 s"
    )


def _overall(progress: Progress) -> RenderableType:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    share = progress.total / progress.count
    grid.add_row(
        ProgressBar(total=progress.count, completed=progress.total),
        Text(f"{text.count(progress.total)}  {share:.1%}", style="bold"),
    )
    return grid


def _facts(progress: Progress, rate: float) -> RenderableType:
    facts = [
        ("now", f"{text.count(rate)} tables/s"),
        ("average", f"{text.count(progress.average)} tables/s"),
        ("elapsed", text.duration(progress.elapsed) if progress.elapsed else "0 s"),
        ("left", _eta(progress)),
        *_measured(progress),
    ]
    grid = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(4):
        grid.add_column(no_wrap=True)
    for start in range(0, len(facts), 4):
        grid.add_row(*(Text.assemble((f"{name} ", "dim"), value) for name, value in facts[start : start + 4]))
    return grid


def _measured(progress: Progress) -> list[tuple[str, str]]:
    """Return what the sampler and the operating system know, as name and value."""
    facts: list[tuple[str, str]] = []
    first, last = progress.first_sample, progress.sample
    if first and last and first is not last:
        catalogs = _growth(first["disk"]["base"], last["disk"]["base"])
        if catalogs is not None:
            facts.append(("catalogs", f"+{text.size(catalogs)}"))
        used = _used(first, last)
        if used is not None:
            facts.append(("disk", f"{'+' if used >= 0 else '-'}{text.size(abs(used))}"))
        wal = _growth(first["disk"]["wal_position"], last["disk"]["wal_position"])
        if wal is not None:
            facts.append(("WAL", text.size(wal)))
    largest = progress.largest_backend
    if largest is not None:
        facts.append(("backend", text.size(largest)))
    if last and last["load"]:
        facts.append(("load", f"{last['load'][0]:.1f}"))
    return facts


def _used(first: dict[str, Any], last: dict[str, Any]) -> int | None:
    """Return by how much the file systems' use grew."""
    before, after = first["disk"]["filesystems"], last["disk"]["filesystems"]
    return (
        sum(int(after[mount]["used"]) - int(before[mount]["used"]) for mount in after if mount in before)
        if after
        else None
    )


def _growth(before: int | None, after: int | None) -> int | None:
    return after - before if before is not None and after is not None else None


def _workers(workers: tuple[WorkerProgress, ...]) -> RenderableType:
    if len(workers) > _MANY:
        states = [worker.state for worker in workers]
        slowest = min(worker.done / worker.count for worker in workers)
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return Text(f"{len(workers)} workers: {counts}; the slowest has done {slowest:.1%}")
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    styles = {"finished": "green", "failed": "red", "stopped": "yellow"}
    for worker in workers:
        grid.add_row(
            Text(f"worker {worker.number}", style="dim"),
            ProgressBar(total=worker.count, completed=worker.done),
            text.count(worker.done),
            Text(worker.state, style=styles.get(worker.state, "dim")),
        )
    return grid
