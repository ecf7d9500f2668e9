"""System calls of a process, counted and timed by strace -c while something is done."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from pgbillion.common.errors import UserError
from pgbillion.cycle.plan import SystemCall
from pgbillion.server import extension

_ATTACH_SECONDS = 30.0
_END_SECONDS = 60.0
# % time, seconds, usecs/call, calls, errors (or nothing), name
_LINE = re.compile(r"\s*[\d.]+\s+(?P<seconds>[\d.]+)\s+\d+\s+(?P<calls>\d+)\s+(?:(?P<errors>\d+)\s+)?(?P<name>\w+)")


class Tracer:
    """strace, attached to a process and its threads from `with` to its end; then ``calls`` says what there was."""

    def __init__(self, pid: int) -> None:
        self.calls: tuple[SystemCall, ...] = ()
        self._pid = pid
        self._folder = tempfile.TemporaryDirectory(prefix="pgbillion-")
        self._strace: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Tracer:
        try:
            self._attach()
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._detach()

    @property
    def _summary(self) -> Path:
        return Path(self._folder.name, "summary")

    def _attach(self) -> None:
        self._strace = subprocess.Popen(
            [strace(), "-c", "-f", "-o", str(self._summary), "-p", str(self._pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C"},
            # the terminal's Ctrl-C is for us, who end it
            start_new_session=True,
        )
        assert self._strace.stderr is not None
        said = b""
        deadline = time.monotonic() + _ATTACH_SECONDS
        while b"attached" not in said:
            ready, _, _ = select.select([self._strace.stderr], [], [], max(0.0, deadline - time.monotonic()))
            more = os.read(self._strace.stderr.fileno(), 65536) if ready else b""
            said += more
            if not more:
                raise _refused(self._pid, said.decode("utf-8", "replace"))

    def _detach(self) -> None:
        strace = self._strace
        if strace is not None:
            strace.send_signal(signal.SIGINT)
            try:
                strace.communicate(timeout=_END_SECONDS)
            except subprocess.TimeoutExpired:
                strace.kill()
                strace.communicate()
            if self._summary.exists():
                self.calls = parse(self._summary.read_text(encoding="utf-8"))
        self._folder.cleanup()


def strace() -> str:
    """Return the program. Raises UserError when there is none."""
    program = shutil.which("strace")
    if program is None:
        raise UserError("there is no strace to count system calls with", extension.how_to_install(["strace"]))
    return program


def check(pid: int) -> None:
    """Raise UserError when a process cannot be traced."""
    with Tracer(pid):
        pass


def parse(summary: str) -> tuple[SystemCall, ...]:
    """Return the lines of what strace -c printed, without their sum."""
    lines = [match for line in summary.splitlines() if (match := _LINE.fullmatch(line.rstrip()))]
    return tuple(
        SystemCall(line["name"], int(line["calls"]), int(line["errors"] or 0), float(line["seconds"]))
        for line in lines
        if line["name"] != "total"
    )


def _refused(pid: int, said: str) -> UserError:
    last = said.strip().splitlines()[-1] if said.strip() else "it did not attach in time"
    hint = "run this as root or as the server's user; where the kernel forbids it: sysctl kernel.yama.ptrace_scope=0"
    return UserError(f"strace may not look at process {pid}: {last.removeprefix('strace: ')}", hint)
