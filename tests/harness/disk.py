"""A file system of our own, to be filled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.root import need_root


@contextmanager
def small_disk(folder: Path, options: str = "size=64m") -> Iterator[Path]:
    """A file system in memory on a new folder, with mount's options for its size; skips where none can be mounted."""
    folder.mkdir()
    need_root("filling a disk needs a file system of our own, and only root can mount one")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"{options},mode=755", "tmpfs", folder],
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"SKIPPED: no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder: Path) -> Path:
    """Fill the file system up with one file, and return that."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        size = 1 << 20
        while size > 0:
            try:
                if file.write(b"x" * size) < size:
                    size //= 2
            except OSError:
                size //= 2
    return filler
