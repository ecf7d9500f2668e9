"""What the state folder keeps of runs and measurements: what there is, how large it is, and what may go."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgbillion.common import paths
from pgbillion.common.errors import UserError
from pgbillion.tables.run import RUNNING, RUNS, Run

_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True)
class Found:
    """A run's folder or a page, with its bytes. ``run`` is None, and ``reason`` says why, when it cannot be read.

    ``working`` tells whether a process works on it.
    """

    folder: Path
    started: float
    size: int
    run: Run | None
    reason: str = ""
    working: bool = False

    @property
    def page(self) -> bool:
        """Tell whether it is the page of a measurement."""
        return self.folder.parent.name in paths.PAGES

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return f"{self.folder.parent.name}/{self.folder.name}" if self.page else self.folder.name

    @property
    def outcome(self) -> str:
        """How it ended: one that says that it is running, and on which no process works, was killed."""
        if self.page:
            return "page"
        if self.run is None:
            return "unreadable"
        outcome = self.run.journal.outcome
        return "killed" if outcome == RUNNING and not self.working else outcome

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        values: dict[str, Any] = {"name": self.name, "folder": str(self.folder), "started": self.started}
        values |= {"outcome": self.outcome, "size": self.size}
        if self.run is not None:
            plan = self.run.plan
            values |= {"count": plan.count, "created": self.run.journal.created, "definition": plan.definition}
            values |= {"method": plan.method.value, "database": self.run.server.get("database")}
        return values


def find_all(state: Path) -> list[Found]:
    """Return the runs and pages below the state folder, the oldest first; those kept elsewhere are not known."""
    # one that goes meanwhile is not there
    found = []
    for plan in (state / RUNS).glob("*/plan.json"):
        with contextlib.suppress(FileNotFoundError):
            found.append(_look(plan.parent))
    for page in (page for folder in paths.PAGES for page in (state / folder).glob("*.html")):
        with contextlib.suppress(FileNotFoundError):
            there = page.lstat()
            found.append(Found(page, there.st_mtime, there.st_size, None, "page of a measurement"))
    return sorted(found, key=lambda one: (one.started, one.folder.name))


def _look(folder: Path) -> Found:
    size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    try:
        run = Run.open(folder)
    except UserError as error:
        return Found(folder, (folder / "plan.json").stat().st_mtime, size, None, error.message)
    return Found(folder, run.started, size, run, working=run.is_locked())


def parse_age(given: str) -> float:
    """Return the seconds of 90m, 12h, 30d or 2w. Raises UserError."""
    match = re.fullmatch(r"(\d{1,6})([mhdw])", given.strip(), re.ASCII)
    if match is None:
        raise UserError(f'"{given}" is no age', "as in --older-than 30d: minutes m, hours h, days d or weeks w")
    return int(match[1]) * _SECONDS[match[2]]


def choose(found: Sequence[Found], *, older: float | None, keep: int) -> list[Found]:
    """Return those that may go: all except the ``keep`` begun last, of these only those begun ``older`` seconds ago."""
    chosen = found[: max(0, len(found) - keep)]
    limit = time.time() - older if older is not None else None
    return [one for one in chosen if limit is None or one.started < limit]


def remove(one: Found) -> bool:
    """Remove a page or a run's folder, not its tables; tell whether it could be: not while a process works on it."""
    try:
        # a link that somebody put here is not followed
        if one.folder.is_symlink():
            return False
        if one.page:
            one.folder.unlink()
            return True
        if one.run is None:
            shutil.rmtree(one.folder)
            return True
        with one.run.locked():
            shutil.rmtree(one.folder)
    except FileNotFoundError:
        return True
    except UserError:
        return False
    return True
