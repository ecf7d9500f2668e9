"""What commands print: results to stdout, what goes on meanwhile to stderr."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pgbillion.common import paths, text
from pgbillion.report.chapter import Chapter


def say(line: str) -> None:
    """Tell people what is going on; that nobody listens any more stops nothing, least of all putting things back."""
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)


def show(line: str, end: str = "\n") -> None:
    """Print a result with names in it, which anybody may have chosen: on a terminal they must not be commands to it."""
    print(text.harmless(line) if sys.stdout.isatty() else line, end=end)


def console() -> Console:
    """Return where results go, wide enough for paths when nobody looks at a window."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)


def show_chapter(chapter: Chapter) -> None:
    """Print the table of a chapter."""
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, column in enumerate(chapter.columns):
        shown.add_column(column, justify="right" if index else "left")
    for row in chapter.rows:
        shown.add_row(*row)
    console().print(shown)


def new_page(state: Path, folder: str, prefix: str = "") -> Path:
    """Return where a page of results goes that the user has not named: a new file in a folder of the state folder."""
    # where `tables runs` finds it
    assert folder in paths.PAGES
    path = state / folder / f"{prefix}{time.strftime('%Y%m%d-%H%M%S')}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Have a request to end do what Ctrl-C does: what was begun is removed on the way out."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
