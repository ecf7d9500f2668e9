"""docs/tutorial.md works as written: its shell lines run from top to bottom, and print what it says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import servers
from pgbillion.common.paths import state_dir
from pgbillion.server.postgres import Installation

PROJECT = Path(__file__).parents[2]
TUTORIAL = PROJECT / "docs" / "tutorial.md"
# what a shell prints between two of the page's sections
MARK = "== end of section"


@dataclass(frozen=True)
class Section:
    """Lines for the shell, and what they print."""

    shell: str
    output: list[str]


def sections(page: str) -> list[Section]:
    blocks = re.findall(r"(?ms)^```(sh|text)\n(.*?)^```$", page)
    found: list[Section] = []
    for kind, text in blocks:
        if kind == "sh":
            found.append(Section(text, []))
        else:
            found[-1].output.extend(text.splitlines())
    return found


def timeless(line: str) -> str:
    """A line without its times, rates and seeds, and with one space for many."""
    line = re.sub(r"[\d,.]+(?= ?(?:µs|ms|s|min|tables/s|tenants/s|rows/s|/s)\b)|(?<=seed )\d+", "#", line)
    return " ".join(re.sub(r"# (?:µs|ms|s|min)\b", "#", line).split())


def execute(shell: list[str], environment: dict[str, str]) -> tuple[int, list[str], str]:
    """Run sections in one shell that ends at the first line that fails: its status, output by section, errors."""
    marked = "".join(f"{one}echo '{MARK}'\n" for one in shell)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", marked],
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        # three quarters of a minute of work where nothing else runs
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout.split(f"{MARK}\n")[:-1], done.stderr


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Where the tutorial's folder is the test's, and has the embedded PostgreSQL with the extensions already built."""
    Installation.prepare(state_dir())
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "MAKE", "MFLAGS")) and name not in ("YES", "PYTHON")
    }
    with servers.temporary_folder() as folder:
        state = folder / "pgbillion-tutorial"
        state.mkdir()
        shutil.copytree(state_dir() / "postgresql", state / "postgresql", symlinks=True)
        try:
            # PSQLRC: the settings of whoever runs the test
            yield {**clean, "TMPDIR": str(folder), "PSQLRC": os.devnull}
        finally:
            if state.exists():
                program = PROJECT / ".venv" / "bin" / "pgbillion"
                words = ["server", "destroy", "--yes", "--state-dir", str(state)]
                subprocess.run([program, *words], env=clean, capture_output=True, check=False)


def test_the_tutorial_works_as_written(environment: dict[str, str]) -> None:
    parts = sections(TUTORIAL.read_text(encoding="utf-8"))
    assert len(parts) > 5
    assert sum(bool(one.output) for one in parts) > 5
    status, outputs, errors = execute([one.shell for one in parts], environment)
    assert status == 0, f"{outputs}\n{errors}"
    assert len(outputs) == len(parts)
    for part, output in zip(parts, outputs, strict=True):
        printed = iter([timeless(line) for line in output.splitlines()])
        for line in part.output:
            # in this order, other lines between them
            assert timeless(line) in printed, f"{part.shell}does not print: {line}\nbut: {output}"
    assert not (Path(environment["TMPDIR"]) / "pgbillion-tutorial").exists()


def test_a_line_that_fails_ends_the_shell() -> None:
    status, outputs, _ = execute(["echo before\n", "false\necho after\n", "echo later\n"], {**os.environ})
    assert (status, outputs) == (1, ["before\n"])
    status, outputs, _ = execute(["false | true\n"], {**os.environ})
    assert (status, outputs) == (1, [])


def test_only_times_are_left_out() -> None:
    assert timeless("1,000 tables dropped in 587 ms: 1,704 tables/s") == "1,000 tables dropped in #: # tables/s"
    assert timeless("1,000 tables dropped in 1.1 s: 9 tables/s") == "1,000 tables dropped in #: # tables/s"
    assert timeless("tenant_0007|heap") == "tenant_0007|heap"
