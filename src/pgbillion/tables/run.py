"""A run's folder: what was planned, how far it came, and what was measured on the way.

======================  ==================================================================================
``plan.json``           the plan, the server it belongs to, settings, versions, hardware; written once
``journal.json``        attempts and how each ended; replaced as a whole, so it is never half-written
``samples.jsonl``       one line a sample, appended
``checks.json``         what the last `verify` of the run found
``worker-N.log``        what a worker had to say on stderr; removed when empty
======================  ==================================================================================

The journal is for people and for the report.  Where to resume is asked of the server's catalog.  No file holds a
password.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.tables.plan import Plan

RUNNING = "running"
_LOCK_TRIES, _LOCK_SECONDS = 5, 0.02
RUNS = "runs"


@dataclass
class Attempt:
    """One start of a run: the first, or one that resumed it. Times are seconds since the epoch."""

    started: float
    present: int  # tables found when it started
    ended: float | None = None
    total: int = 0  # tables present when it ended, as far as known
    outcome: str = RUNNING  # or done, interrupted, failed
    error: str | None = None
    peak_backend_memory: int | None = None  # bytes of private memory, the largest of any worker's backend


@dataclass
class Journal:
    """How far a run came."""

    attempts: list[Attempt] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """How the last attempt ended; one that was killed still says that it is running."""
        return self.attempts[-1].outcome if self.attempts else "planned"

    @property
    def created(self) -> int:
        """Tables made in all attempts."""
        return sum(max(0, attempt.total - attempt.present) for attempt in self.attempts)

    @property
    def seconds(self) -> float:
        """Time spent in all attempts that ended."""
        return sum(attempt.ended - attempt.started for attempt in self.attempts if attempt.ended is not None)


@dataclass
class Run:
    """An open run folder."""

    folder: Path
    plan: Plan
    server: dict[str, Any]  # see describe.server
    started: float
    journal: Journal = field(default_factory=Journal)

    @classmethod
    def create(cls, folder: Path, plan: Plan, server: dict[str, Any]) -> Run:
        """Make the folder and write the plan into it. Raises UserError when it holds a run already."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if (folder / "plan.json").exists():
                again = invocation.command("tables", "create", "--resume", str(folder))
                raise UserError(f"{folder} holds a run already", f"resume it: {again}; or choose another --run-dir")
            run = cls(folder, plan, server, time.time())
            _write(folder / "plan.json", {"plan": plan.to_json(), "server": server, "started": run.started})
        except OSError as error:
            raise UserError(
                f"the run's directory cannot be written: {error}", "choose another with --run-dir."
            ) from error
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """Read a run's folder. Raises UserError when it is none."""
        try:
            values = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
            run = cls(folder, Plan.from_json(values["plan"]), values["server"], values["started"])
            with contextlib.suppress(FileNotFoundError):
                journal = json.loads((folder / "journal.json").read_text(encoding="utf-8"))
                run.journal = Journal([Attempt(**attempt) for attempt in journal["attempts"]])
        except (FileNotFoundError, NotADirectoryError):
            raise UserError(f"{folder} is not the directory of a run: it has no plan.json") from None
        except OSError as error:
            raise UserError(f"the run's directory cannot be read: {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{folder} cannot be read as a run: {error!r}") from error
        return run

    @property
    def tablespace_folders(self) -> list[Path]:
        """Where the server said its tablespaces are."""
        return [Path(folder) for folder in self.server.get("tablespaces", {}).values() if folder]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from working on the run; the kernel lets go when we die."""
        with (self.folder / ".lock").open("w") as lock:
            if not _lock(lock):
                raise UserError(
                    f"another process is working on the run in {self.folder}", "wait for it to end, or end it"
                )
            yield

    def is_locked(self) -> bool:
        """Tell whether a process works on the run."""
        with contextlib.suppress(OSError), (self.folder / ".lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def save(self) -> None:
        """Write the journal."""
        _write(self.folder / "journal.json", asdict(self.journal))

    def save_checks(self, checks: list[dict[str, Any]]) -> None:
        """Keep what `verify` found."""
        _write(self.folder / "checks.json", {"time": time.time(), "checks": checks})

    def checks(self) -> list[dict[str, Any]]:
        """Return what the last `verify` found."""
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            found: list[dict[str, Any]] = json.loads((self.folder / "checks.json").read_text(encoding="utf-8"))[
                "checks"
            ]
            return found
        return []

    def add_sample(self, sample: dict[str, Any]) -> None:
        """Append one sample."""
        with (self.folder / "samples.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(sample, separators=(",", ":")) + "\n")

    def samples(self) -> list[dict[str, Any]]:
        """All samples in the order they were taken; a line cut short by a crash is left out."""
        samples: list[dict[str, Any]] = []
        with contextlib.suppress(FileNotFoundError):
            for line in (self.folder / "samples.jsonl").read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):
                    samples.append(json.loads(line))
        return samples


def _lock(lock: IO[str]) -> bool:
    """Lock a file unless another process has it; `Run.is_locked` has it for a moment."""
    for _ in range(_LOCK_TRIES):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_LOCK_SECONDS)
    return False


def new_folder(state: Path) -> Path:
    """Return a name for a new run's folder, below the state folder; names sort by time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return state / RUNS / f"{stamp}-{secrets.token_hex(2)}"


def find(state: Path, name: str | None) -> Path:
    """Return the folder of a run given by path or name, or of the latest one. Raises UserError when there is none."""
    runs = state / RUNS
    if name is None:
        # a plan is written once, when its run begins
        plans = sorted(runs.glob("*/plan.json"), key=lambda plan: plan.stat().st_mtime_ns)
        if not plans:
            raise UserError(f"there is no run in {runs}", f"make one: {invocation.command('tables', 'create')}")
        return plans[-1].parent
    path = Path(name).expanduser()
    if not (path / "plan.json").exists() and (runs / path / "plan.json").exists():
        return runs / path
    if not path.exists():
        known = sorted(plan.parent.name for plan in runs.glob("*/plan.json"))
        there = f"{', '.join(known[-3:])} and {len(known) - 3} more" if len(known) > 3 else ", ".join(known) or "none"
        raise UserError(
            f'there is no run "{name}", neither as a directory nor in {runs}',
            f"give a run's directory, or one of the names there: {there}",
        )
    return path.absolute()


def _write(path: Path, values: dict[str, Any]) -> None:
    """Replace a file as a whole."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("w", encoding="utf-8") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
