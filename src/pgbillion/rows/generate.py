"""Rows of the source's table in COPY's binary format, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator

from pgbillion.common import extras

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # signature, no flags, no extension
TRAILER = b"\xff\xff"
BLOCK = 50_000  # rows


def blocks(first: int, count: int, groups: int, seed: int, *, wide: bool = False) -> Iterator[tuple[int, bytes]]:
    """Return ``count`` rows from the id ``first`` on as pairs of their number and their bytes.

    Groups take turns, so that they are equally large; data is random in [0, 1), and the same for the same seed and id
    whatever process makes it, in any pieces of whole blocks. ``wide`` is for a bigint id. Raises UserError
    without numpy.
    """
    extras.need(extras.NUMPY)
    # takes its time to load, which other commands need not wait for
    import numpy as np

    # Big endian, as it goes over the wire: the number of columns, then each with its length before it.
    row = np.dtype(
        [
            ("columns", ">i2"),
            ("id_length", ">i4"),
            ("id", ">i8" if wide else ">i4"),
            ("grp_length", ">i4"),
            ("grp", ">i4"),
            ("data_length", ">i4"),
            ("data", ">f4"),
        ]
    )
    for start in range(first, first + count, BLOCK):
        size = min(BLOCK, first + count - start)
        ids = np.arange(start, start + size, dtype=np.int64)
        rows = np.empty(size, dtype=row)
        rows["columns"] = 3
        for column in ("id", "grp", "data"):
            rows[f"{column}_length"] = row[column].itemsize
        rows["id"] = ids
        rows["grp"] = ids % groups
        rows["data"] = np.random.default_rng([seed, start]).random(size, dtype=np.float32)
        yield size, rows.tobytes()
