"""Run the command line with a death at one of its steps: `python durability_killer.py STEP VICTIM ARGUMENT…`.

A step is a statement that changes something, or a change of the file system, or a program that is run; death comes
before it. STEP is its number, from 1. VICTIM is `tool`, which is this process, or `server`, the one of the data
directory DATA (in the environment). The file KILLED then has how many processes died, and whether the server was marked
as relaxed. Nothing in the program knows of this.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from pgbillion import cli
from pgbillion.durability.record import AUTO_CONF, MARK

_HARMLESS = ("select", "set", "show", "--", "with")
_seen = 0


def boundary(step: int, victim: str) -> None:
    """Die, or have a server die, when this is the step."""
    global _seen
    _seen += 1
    if _seen != step:
        return
    data = Path(os.environ["DATA"])
    marked = "marked" if MARK in (data / AUTO_CONF).read_text() else "unmarked"
    victims = [psutil.Process()] if victim == "tool" else [one for one in psutil.process_iter() if in_folder(one, data)]
    Path(os.environ["KILLED"]).write_text(f"{len(victims)} {marked}")
    for one in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def in_folder(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()) == folder
    except (psutil.Error, OSError):
        return False


def wrap(owner: Any, name: str, step: int, victim: str, wanted: Callable[..., bool] = lambda *_, **__: True) -> None:
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if not wanted(*arguments, **options):
            return original(*arguments, **options)
        boundary(step, victim)
        return original(*arguments, **options)

    setattr(owner, name, wrapped)


def changes(_: Any, query: Any, *__: Any, **___: Any) -> bool:
    """Tell whether a statement changes something."""
    text = query.as_string(None) if isinstance(query, sql.Composable) else query
    if isinstance(text, bytes):
        text = text.decode()
    return "pg_reload_conf" in text or not text.strip().lower().startswith(_HARMLESS)


def main() -> int:
    step, victim = int(sys.argv[1]), sys.argv[2]
    sys.argv = ["pgbillion", *sys.argv[3:]]
    wrap(psycopg.Connection, "execute", step, victim, changes)
    for name in ("rename", "replace", "unlink", "symlink_to", "mkdir", "rmdir"):
        wrap(Path, name, step, victim)
    wrap(shutil, "copy2", step, victim)
    wrap(shutil, "rmtree", step, victim)
    wrap(subprocess, "run", step, victim)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
