"""What commands print: results to stdout, what goes on meanwhile to stderr."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator

from rich.console import Console


def say(line: str) -> None:
    """Tell people what is going on; that nobody listens any more stops nothing, least of all putting things back."""
    with contextlib.suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)


def console() -> Console:
    """Return where results go, wide enough for paths when nobody looks at a window."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)


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
