"""`make clean` keeps all data, and `make destroy` asks."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@dataclass
class Copy:
    """The project's Makefile and tools in a folder of their own, with a state folder that has something in it."""

    folder: Path

    @property
    def report(self) -> Path:
        return self.folder / "state" / "runs" / "one" / "report.html"

    @property
    def environment(self) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if name not in ("YES", "MAKEFLAGS", "MAKELEVEL")}
        return {**clean, "PGBILLION_STATE": str(self.folder / "state")}

    def make(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "-C", self.folder / "project", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def answered(self, target: str, answer: str) -> int:
        """Run it in a terminal in which somebody types."""
        ours, theirs = pty.openpty()
        try:
            os.write(ours, f"{answer}\n".encode())
            command = ["make", "-C", str(self.folder / "project"), target]
            return subprocess.run(
                command, env=self.environment, stdin=theirs, capture_output=True, check=False
            ).returncode
        finally:
            os.close(ours)
            os.close(theirs)


@contextmanager
def copied(folder: Path) -> Iterator[Copy]:
    project = folder / "project"
    project.mkdir()
    shutil.copy(PROJECT / "Makefile", project)
    shutil.copytree(PROJECT / "tools", project / "tools")
    programs = project / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("pgbillion", "python"):
        # the environment the tests run in
        (programs / name).write_text(f'#!/bin/sh\nexec "{Path(sys.executable).parent / name}" "$@"\n')
        (programs / name).chmod(0o755)
    for made in ("build/18/pgbillion.so", ".ruff_cache/x", "src/__pycache__/x.pyc"):
        (project / made).parent.mkdir(parents=True, exist_ok=True)
        (project / made).touch()
    copy = Copy(folder)
    copy.report.parent.mkdir(parents=True)
    copy.report.write_text("figures of a night")
    yield copy


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    with copied(tmp_path) as copy:
        yield copy


def test_clean_removes_what_was_built_and_nothing_else(copy: Copy) -> None:
    done = copy.make("clean")
    assert done.returncode == 0, done.stderr
    assert copy.report.read_text() == "figures of a night"
    left = {path.name for path in (copy.folder / "project").iterdir()}
    assert left == {"Makefile", "tools", "src", ".venv"}
    assert list((copy.folder / "project" / "src").iterdir()) == []


def test_destroy_wants_a_word_where_nobody_can_be_asked(copy: Copy) -> None:
    done = copy.make("destroy")
    assert done.returncode != 0
    assert "error: not removing data without being told to\nhint: YES=1 make destroy\n" in done.stderr
    assert str(copy.folder / "state" / "runs") in done.stderr
    assert copy.report.exists()
    assert (copy.folder / "project" / "build").exists()
    done = copy.make("destroy", "YES=1")
    assert done.returncode == 0, done.stderr
    assert not (copy.folder / "state").exists()
    assert {path.name for path in (copy.folder / "project").iterdir()} == {"Makefile", "tools", "src"}


def test_destroy_asks_in_a_terminal(copy: Copy) -> None:
    assert copy.answered("destroy", "y") != 0
    assert copy.report.exists()
    assert copy.answered("destroy", "yes") == 0
    assert not (copy.folder / "state").exists()
    assert not (copy.folder / "project" / ".venv").exists()
