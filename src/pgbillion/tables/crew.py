"""The worker processes of a run, seen from the coordinator: start them, hear them, stop them.

They are processes, where all else that goes on at once is threads (`pgbillion.common.together`). Threads would be as
fast, and are there half a second sooner. But a worker outlives a coordinator that is killed by as long as it takes to
cancel its batch, so that a resumed run does not meet it; and one whose server says nothing any more can be ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pgbillion.common import host
from pgbillion.tables.plan import Plan, Share
from pgbillion.tables.worker import Job

State = Literal["running", "finished", "stopped", "failed"]


@dataclass(frozen=True)
class Failure:
    """Why a worker could not go on."""

    worker: int
    message: str
    sqlstate: str | None
    lost: bool  # the connection, or the worker itself


@dataclass
class Member:
    """One worker; ``done`` counts the tables of its share that are committed, earlier attempts' included."""

    share: Share
    done: int
    process: subprocess.Popen[bytes]
    log: Path
    state: State = "running"
    backend: int | None = None
    memory: int | None = None  # private memory of its backend when last looked at, bytes
    peak_memory: int | None = None
    unread: bytes = b""


class Crew:
    """All workers of an attempt. Closing it leaves no process behind."""

    def __init__(self, conninfo: str, plan: Plan, done: list[int], psql: Path | None, folder: Path) -> None:
        self.failures: list[Failure] = []
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self.members: list[Member] = []
        try:
            for share, present in zip(plan.shares(), done, strict=True):
                job = Job(conninfo, plan, share.worker, present, str(psql) if psql else None)
                self.members.append(self._spawn(job, share, folder / f"worker-{share.worker + 1}.log"))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def total(self) -> int:
        """Tables committed, all workers together."""
        return sum(member.done for member in self.members)

    @property
    def working(self) -> bool:
        """Tell whether any worker still runs."""
        return any(member.state == "running" for member in self.members)

    def listen(self, seconds: float) -> None:
        """Take in what workers say, for at most so long; one that fails makes the others stop."""
        for key, _ in self._selector.select(seconds):
            self._read(key.data)
        if self.failures and not self._stopping:
            self.stop()

    def stop(self) -> None:
        """Ask all workers to stop; those that make a batch cancel or complete it."""
        self._stopping = True
        for member in self.members:
            if member.process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    member.process.stdin.close()

    def kill(self) -> None:
        """End all workers at once, with the psql each may have started; servers roll back what is not committed."""
        for member in self.members:
            if member.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(member.process.pid, signal.SIGKILL)

    def watch_memory(self) -> None:
        """Note the private memory of the workers' backends. Only for a server on this machine."""
        for member in self.members:
            if member.backend is not None and member.state == "running":
                memory = host.private_memory(member.backend)
                if memory is not None:
                    member.memory = memory
                    member.peak_memory = max(memory, member.peak_memory or 0)

    def close(self) -> None:
        """End what still runs, and give back what the operating system lent."""
        self.kill()
        for member in self.members:
            for pipe in (member.process.stdin, member.process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            member.process.wait()
            if member.log.exists() and member.log.stat().st_size == 0:
                member.log.unlink()
        self._selector.close()

    def _spawn(self, job: Job, share: Share, log: Path) -> Member:
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                # -P: what lies in the current folder is not to be imported
                [sys.executable, "-P", "-m", "pgbillion.tables.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                # the terminal's Ctrl-C is for the coordinator alone, which then asks the workers
                start_new_session=True,
            )
        member = Member(share, job.done, process, log)
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(job.dumps().encode() + b"\n")
            process.stdin.flush()
        self._selector.register(process.stdout, selectors.EVENT_READ, member)
        return member

    def _read(self, member: Member) -> None:
        assert member.process.stdout is not None
        data = os.read(member.process.stdout.fileno(), 65536)
        if not data:
            self._selector.unregister(member.process.stdout)
            if member.state == "running":
                self._gone(member)
            return
        *lines, member.unread = (member.unread + data).split(b"\n")
        for line in lines:
            self._hear(member, json.loads(line))

    def _hear(self, member: Member, said: dict[str, Any]) -> None:
        match said["event"]:
            case "progress":
                member.done = said["done"]
            case "backend":
                member.backend = said["pid"]
            case "failed":
                member.state = "failed"
                self.failures.append(
                    Failure(member.share.worker, said["message"], said["sqlstate"], lost=bool(said["lost"]))
                )
            case "finished":
                member.state = "finished"
            case "stopped":
                member.state = "stopped"

    def _gone(self, member: Member) -> None:
        """Take in that a worker ended without a last word."""
        status = member.process.wait()
        member.state = "failed"
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        said = member.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = f": {said[-1]}" if said else ""
        self.failures.append(
            Failure(member.share.worker, f"worker {member.share.worker + 1} {how}{why}", None, lost=True)
        )
