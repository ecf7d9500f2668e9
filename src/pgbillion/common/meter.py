"""Work that is counted, on the screen: a bar on a terminal, plain lines elsewhere; on stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pgbillion.common import text
from pgbillion.common.progress import Rate

_INTERVAL = 10.0  # seconds between plain lines


def is_terminal(stream: TextIO) -> bool:
    """Tell whether a stream can be painted on."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextlib.contextmanager
def meter(
    total: int, done_word: str, stream: TextIO | None = None, *, noun: str = "tables"
) -> Iterator[Callable[[int], None]]:
    """Give what is to be called with the number of ``noun`` that are ``done_word``, until the context ends."""
    stream = stream or sys.stderr
    shown = _Meter(total, f"{noun} {done_word}")
    if is_terminal(stream):
        with Live(shown, console=Console(file=stream, highlight=False), refresh_per_second=4):
            yield shown.update
        return
    due = shown.start + _INTERVAL

    def update(done: int) -> None:
        nonlocal due
        shown.update(done)
        if time.monotonic() >= due:
            due = time.monotonic() + _INTERVAL
            print(shown.line(), file=stream, flush=True)

    yield update


class _Meter:
    def __init__(self, total: int, words: str) -> None:
        self.start = time.monotonic()
        self._total = total
        self._words = words
        self._done = 0
        self._rate = Rate()

    def update(self, done: int) -> None:
        self._done = done
        self._rate.add(time.monotonic() - self.start, done)

    def line(self) -> str:
        """Return how far it is."""
        elapsed = time.monotonic() - self.start
        average = self._done / elapsed if elapsed > 0 else 0.0
        left = text.duration((self._total - self._done) / average) if average > 0 else "unknown"
        return (
            f"{text.duration(elapsed)}: {text.count(self._done)} of {text.count(self._total)} {self._words}"
            f" ({self._done / max(1, self._total):.1%}), {text.count(self._rate.now)}/s now,"
            f" {text.count(average)}/s on average, left {left}"
        )

    def __rich__(self) -> RenderableType:
        # the line alone fills a terminal of 80 columns
        grid = Table.grid(expand=True)
        grid.add_row(ProgressBar(total=max(1, self._total), completed=self._done))
        grid.add_row(Text(self.line()))
        return grid
