"""What commands print: results to stdout, what goes on meanwhile to stderr."""

from __future__ import annotations

import sys

from rich.console import Console


def say(line: str) -> None:
    """Tell people what is going on."""
    print(line, file=sys.stderr, flush=True)


def console() -> Console:
    """Return where results go, wide enough for paths when nobody looks at a window."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=160)
