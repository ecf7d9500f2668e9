"""How fast a file system makes empty files: the floor under every way of making tables that have files."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Creation:
    """How long it took to create so many empty files."""

    files: int
    seconds: float

    @property
    def rate(self) -> float:
        """Files a second."""
        return self.files / self.seconds


@contextlib.contextmanager
def creation(folder: Path, count: int, limit: float | None = None) -> Iterator[Creation]:
    """Create empty files in a new folder inside ``folder``, one after the other, and remove them when the context ends.

    ``limit`` ends the creation early, after so many seconds. The files stay until the end because removing them changes
    what is measured next: ext4 without a journal does not use the inode of a removed file again for minutes, and passes
    over each of them whenever it looks for a free one.
    """
    inside = Path(tempfile.mkdtemp(prefix="pgbillion-files-", dir=folder))
    try:
        yield _create(inside, count, limit)
    finally:
        shutil.rmtree(inside)


def _create(folder: Path, count: int, limit: float | None) -> Creation:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        start = time.perf_counter()
        made = 0
        for number in range(count):
            # as PostgreSQL opens a relation's first segment (mdcreate)
            os.close(os.open(str(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory))
            made += 1
            if limit is not None and made % 256 == 0 and time.perf_counter() - start > limit:
                break
        return Creation(made, time.perf_counter() - start)
    finally:
        os.close(directory)
