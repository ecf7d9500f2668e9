"""What the machine can move at most: bytes written to a disk, and bytes copied in memory, a second."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

_BLOCK = 8 << 20


def disk(folder: Path, size: int) -> float:
    """Write ``size`` bytes to a file, one after the other and fsynced, and return how many a second that were."""
    block = os.urandom(_BLOCK)
    with tempfile.NamedTemporaryFile(dir=folder, buffering=0) as file:
        start = time.perf_counter()
        for _ in range(size // _BLOCK):
            file.write(block)
        os.fsync(file.fileno())
        return size // _BLOCK * _BLOCK / (time.perf_counter() - start)


def memory(size: int) -> float:
    """Copy ``size`` bytes, more than caches hold, by one thread; return how many a second the better of two copies."""
    source, target = bytearray(size), bytearray(size)
    times: list[float] = []
    for _ in range(2):
        start = time.perf_counter()
        target[:] = source
        times.append(time.perf_counter() - start)
    return size / min(times)
