"""Fingerprints of schemas: which of them are the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from pgbillion.common import together
from pgbillion.common.connection import Connection
from pgbillion.common.sql import load
from pgbillion.common.target import Target

# tables whose definitions are read by one query
_TABLES_PER_QUERY = 2_000


def settle(conn: Connection) -> None:
    """Have a session's queries of the catalogs read few rows of large ones."""
    # catalogs may be large, or have grown since they were analyzed, and whole ones are never wanted
    for setting in ("seqscan", "hashjoin", "mergejoin"):
        conn.execute(f"SET enable_{setting} = off".encode())
    conn.execute("SET jit = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB'")


def per_query(conn: Connection, schema: int) -> int:
    """Return how many schemas like one are read by a query."""
    query = "SELECT count(*) FROM pg_class WHERE relnamespace = %s AND relkind IN ('r', 'p')"
    return max(1, _TABLES_PER_QUERY // max(1, int(conn.execute(query, [schema]).fetchall()[0][0])))


class Reader:
    """Reads fingerprints by a query, a number of schemas at a time, in several sessions.

    ``snapshots`` are what they were read from, if the query returns that: where the same snapshot is seen again, no
    transaction has ended meanwhile, and all is as it was.
    """

    def __init__(self, target: Target, query: str, size: int, workers: int) -> None:
        self.found: dict[int, str] = {}
        self.tables: dict[int, int] = {}
        self.snapshots: dict[int, str | None] = {}
        self._target = target
        self.query = load("tenants", query).replace("{objects}", load("tenants", "objects")).encode()
        self._size = size
        self._workers = workers
        self._lock = threading.Lock()

    def read(self, groups: Sequence[Sequence[int]], update: Callable[[int], None]) -> None:
        """Read the fingerprint of one schema of each group."""
        firsts = [group[0] for group in groups]
        parts = [firsts[at : at + self._size] for at in range(0, len(firsts), self._size)]
        todo = iter(parts)
        done = 0

        def take() -> Sequence[int] | None:
            with self._lock:
                return next(todo, None)

        def work(team: together.Team) -> None:
            nonlocal done
            with self._target.connect(application_name="pgbillion tenants diff") as conn:
                team.session(conn)
                settle(conn)
                while not team.stopped.is_set() and (part := take()) is not None:
                    rows = conn.execute(self.query, [part]).fetchall()
                    with self._lock:
                        for schema, fingerprint, tables, *snapshot in rows:
                            self.tables[schema] = tables
                            self.snapshots.update((schema, one) for one in snapshot)
                            # without one it has what only its definitions can tell
                            if fingerprint is not None:
                                self.found[schema] = fingerprint
                        done += len(part)
                    update(done)

        with together.team(self._workers) as team:
            for future in [team.start(work, team) for _ in range(min(self._workers, len(parts)))]:
                future.result()

    def grouped(self, groups: Sequence[list[int]]) -> list[list[int]]:
        """Join the groups whose fingerprints are the same."""
        joined: dict[str, list[int]] = {}
        for group in groups:
            joined.setdefault(self.found.get(group[0], f"schema {group[0]}"), []).extend(group)
        return list(joined.values())
