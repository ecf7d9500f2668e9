"""PostgreSQL's own programs, several processes at once: what a demo compares pgbillion with."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.tables.worker import psql_connection

_PSQL = ["-X", "-q", "-v", "ON_ERROR_STOP=1"]


def feed(psql: Path, target: Target, scripts: Sequence[str]) -> float:
    """Have one psql for each script run it, all at the same time; return the seconds until the last has ended."""
    return run(psql, target, [(_PSQL, script) for script in scripts])


def run(program: Path, target: Target, runs: Sequence[tuple[Sequence[str], str]]) -> float:
    """Run a program once for each options and input, all at the same time; return the seconds that took.

    What they print is discarded. They are killed if we are interrupted. Raises UserError when one fails.
    """
    arguments, environment = psql_connection(target.conninfo, "pgbillion demo")
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in runs]
        for file, (_, given) in zip(files, runs, strict=True):
            file.write(given)
            file.seek(0)
        errors = stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
        started: list[subprocess.Popen[bytes]] = []
        start = time.perf_counter()
        try:
            for file, (options, _) in zip(files, runs, strict=True):
                command = [str(program), *options, *arguments]
                started.append(
                    subprocess.Popen(command, env=environment, stdin=file, stdout=subprocess.DEVNULL, stderr=errors)
                )
            statuses = [process.wait() for process in started]
        except BaseException:
            for process in started:
                process.kill()
                process.wait()
            raise
        seconds = time.perf_counter() - start
        if any(statuses):
            errors.seek(0)
            said = errors.read().strip().splitlines()
            raise UserError(f"{program.name} failed: {said[0] if said else f'status {max(statuses)}'}")
    return seconds
