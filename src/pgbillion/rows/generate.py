"""Rows of the source's table in COPY's binary format, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # signature, no flags, no extension
TRAILER = b"\xff\xff"
BLOCK = 50_000  # rows

# Big endian, as it goes over the wire: the number of columns, then each with its length before it.
_ROW = [
    ("columns", ">i2"),
    ("id_length", ">i4"),
    ("id", ">i4"),
    ("grp_length", ">i4"),
    ("grp", ">i4"),
    ("data_length", ">i4"),
    ("data", ">f4"),
]


def blocks(first: int, count: int, groups: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """Return ``count`` rows from the id ``first`` on as pairs of their number and their bytes.

    Groups take turns, so that they are equally large; data is random in [0, 1), and the same for the same seed and id
    whoever makes it, in whatever pieces of whole blocks.
    """
    # takes its time to load, which other commands need not wait for
    import numpy as np

    for start in range(first, first + count, BLOCK):
        size = min(BLOCK, first + count - start)
        ids = np.arange(start, start + size, dtype=np.int64)
        rows = np.empty(size, dtype=np.dtype(_ROW))
        rows["columns"] = 3
        for length in ("id_length", "grp_length", "data_length"):
            rows[length] = 4
        rows["id"] = ids
        rows["grp"] = ids % groups
        rows["data"] = np.random.default_rng([seed, start]).random(size, dtype=np.float32)
        yield size, rows.tobytes()
