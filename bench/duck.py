"""DuckDB in a virtual environment of its own, with the extensions that generate TPC-H and TPC-DS, and its answers.

A wheel holds an extension's file for one DuckDB, which .venv may not have. DuckDB divides in double precision and pads
no strings, so that its answers are compared by value.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import common
from pgbillion.common import paths
from pgbillion.rows.answers import Answer

PACKAGES = ("duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5", "duckdb-extension-tpch==1.5.5")
Row = Sequence[str | None]
TOLERANCE = 1e-9  # relative, of numbers

# what a program of start() ends with: `first`, as a line; then each of the `queries` whose number is asked for
_SERVE = """
def text(value):
    # as PostgreSQL prints it
    if isinstance(value, bool):
        return "t" if value else "f"
    if getattr(value, "microsecond", 0):
        return str(value).rstrip("0")
    return None if value is None else str(value)
print(json.dumps(first), flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    rows = db.execute(queries[int(line)]).fetchall()
    seconds = time.perf_counter() - start
    rows = [[text(value) for value in row] for row in rows]
    print(json.dumps({"seconds": seconds, "rows": rows}), flush=True)
"""


class Duck:
    """DuckDB with its own copy of the data, in a process that runs queries by their numbers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.first = self._line()  # what the program has told of what it has generated

    def run(self, number: int) -> tuple[float, list[Row]]:
        """Run a query; return the seconds and the rows."""
        assert self._process.stdin is not None
        print(number, file=self._process.stdin, flush=True)
        found = self._line()
        return found["seconds"], [[value and value.strip() for value in row] for row in found["rows"]]

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("DuckDB has ended")
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def start(program: str, *arguments: str, interpreter: Path | None = None) -> Iterator[Duck]:
    """Run a program that sets `db`, a connection, `queries` by their numbers, and `first`, what it tells of them.

    It imports json, sys and time, among others. Without an interpreter, DuckDB is the one that has the generators.
    """
    # an extension's file is for this DuckDB: another one in the user's home would come before it
    command: list[str | Path] = [interpreter or python(), "-I", "-c", program + _SERVE, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Duck(process)
        finally:
            process.terminate()


def python() -> Path:
    """Return the Python that has DuckDB, after installing it unless an earlier run has."""
    home = paths.state_dir() / "bench-duckdb"
    found = home / "bin" / "python"
    installed = home / "packages"
    if not installed.exists() or installed.read_text(encoding="utf-8") != " ".join(PACKAGES):
        common.say(f"installing {', '.join(PACKAGES)} in {home}")
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([found, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        installed.write_text(" ".join(PACKAGES), encoding="utf-8")
    return found


def rows(answer: Answer) -> list[Row]:
    """Return the rows of an answer as DuckDB would print them: without the padding of char(n)."""
    return [[None if value is None else value.decode().strip() for value in row] for row in answer.rows]


def compare(key: str, answer: Answer, theirs: Sequence[Row], tolerance: float = TOLERANCE) -> None:
    """Raise RuntimeError unless DuckDB answers the same, numbers to this part of their values."""
    ours = rows(answer)
    stripped = [[None if value is None else value.strip() for value in row] for row in theirs]
    if len(ours) != len(stripped):
        raise RuntimeError(f"{key}: {len(stripped)} rows by DuckDB, {len(ours)} by PostgreSQL")
    for one, two in zip(sorted(ours, key=order), sorted(stripped, key=order), strict=True):
        if not close(one, two, tolerance):
            raise RuntimeError(f"{key}: DuckDB has {two}, PostgreSQL {one}")


def order(row: Row) -> tuple[list[str], list[float]]:
    """Sort by words first, as numbers may differ in their last digits."""
    numbers = [_number(value) for value in row]
    words = [value or "" for value, number in zip(row, numbers, strict=True) if number is None]
    return words, [number for number in numbers if number is not None]


def close(one: Row, two: Row, tolerance: float = TOLERANCE) -> bool:
    """Tell whether two rows are the same but for the last digits of numbers."""
    return len(one) == len(two) and all(_close(*pair, tolerance) for pair in zip(one, two, strict=True))


def _number(value: str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _close(one: str | None, two: str | None, tolerance: float) -> bool:
    left, right = _number(one), _number(two)
    if left is None or right is None:
        return one == two
    return math.isclose(left, right, rel_tol=tolerance, abs_tol=1e-9)
