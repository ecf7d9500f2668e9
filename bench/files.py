"""How fast a file system makes empty files: the floor under every way of making tables that have files."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path


def creation_seconds(folder: Path, count: int, processes: int) -> float:
    """Create ``count`` empty files in a new folder inside ``folder`` and return how long it took.

    The files stay: the caller removes the folder when nothing is measured any more, because ext4 without a journal
    does not use the inode of a removed file again for minutes, and passes over each of them whenever it looks for a
    free one.
    """
    return creation_seconds_in(tempfile.mkdtemp(dir=folder), count, processes)


def creation_seconds_in(inside: str | Path, count: int, processes: int) -> float:
    """Do so in a folder that has files already, such as a database's. Names begin with bare_, then are new each time.

    The processes make their shares of them at the same time in the one folder, as backends do in a database.
    """
    prefix = f"bare_{secrets.token_hex(4)}_"
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(processes + 1)
    workers = [
        context.Process(target=_create, args=(inside, prefix, range(start, count, processes), barrier))
        for start in range(processes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    start = time.perf_counter()
    for worker in workers:
        worker.join()
        if worker.exitcode != 0:
            raise RuntimeError("a process that creates files failed")
    return time.perf_counter() - start


def _create(folder: str | Path, prefix: str, numbers: range, barrier: Barrier) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    barrier.wait()
    for number in numbers:
        # as PostgreSQL opens a relation's first segment (mdcreate)
        os.close(os.open(f"{prefix}{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=directory))
    os.close(directory)


def _number(path: Path) -> int:
    """The number that _create() has put at the end of a file's name."""
    return int(path.name.rpartition("_")[2])


def removal_seconds(folder: Path) -> float:
    """Remove all files in the folders inside ``folder``, in the order they were made, and return how long it took."""
    paths = [str(path) for inside in folder.iterdir() for path in sorted(inside.iterdir(), key=_number)]
    start = time.perf_counter()
    for path in paths:
        # as PostgreSQL does: a dropped relation's first segment is emptied at commit, and removed at the checkpoint
        os.truncate(path, 0)
        os.unlink(path)  # noqa: PTH108 - one system call, and nothing else, is what is timed
    return time.perf_counter() - start
