"""How fast a file system makes empty files: the floor under every way of making tables that have files."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path


def creation_seconds(folder: Path, count: int, limit: float | None = None) -> tuple[float, int]:
    """Create empty files in a new folder inside ``folder`` and remove them; return how long it took to create how many.

    Each is created and closed, one after the other, by this process. ``limit`` ends it early, after so many seconds.
    """
    inside = Path(tempfile.mkdtemp(prefix="pgbillion-files-", dir=folder))
    try:
        directory = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
        try:
            start = time.perf_counter()
            made = 0
            for number in range(count):
                # as PostgreSQL opens a relation's first segment (mdcreate)
                os.close(os.open(str(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory))
                made += 1
                if limit is not None and made % 256 == 0 and time.perf_counter() - start > limit:
                    break
            seconds = time.perf_counter() - start
        finally:
            os.close(directory)
    finally:
        shutil.rmtree(inside)
    return seconds, made
