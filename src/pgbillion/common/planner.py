"""Queries of catalogs, planned for catalogs of any size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

_SETTINGS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit")


@contextmanager
def through_indexes(conn: psycopg.Connection[tuple[Any, ...]]) -> Iterator[None]:
    """Have queries of few objects read the catalogs through their indexes, even if these were never analyzed.

    The queries run in a transaction, or savepoint, that is rolled back.
    """
    with conn.transaction(force_rollback=True):
        conn.execute("; ".join(f"SET LOCAL {name} = off" for name in _SETTINGS).encode())
        conn.execute("SET LOCAL max_parallel_workers_per_gather = 0")
        yield
