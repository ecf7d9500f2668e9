"""The server's lock table: how many locks sessions that drop tenants take at a time, and tenants too large for it.

DROP SCHEMA locks every object of a schema until the end of its transaction, and all sessions of a server share one
table of locks. A tenant that fits it is dropped in one transaction, and waits for others that are being dropped as long
as they do not fit together. A larger one is dropped in several transactions.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from pgbillion.common.connection import Connection
from pgbillion.common.sql import load

# of the lock table, for all of our sessions together: others need some of it
_SHARE = 0.8
# locks of a table with its indexes, constraints, defaults, TOAST and types, about
_LOCKS_PER_PART = 40


class LockTable:
    """Room in the lock table, shared by threads."""

    def __init__(self, conn: Connection) -> None:
        row = conn.execute(
            "SELECT current_setting('max_locks_per_transaction')::int8"
            " * (current_setting('max_connections')::int8 + current_setting('max_prepared_transactions')::int8"
            " + current_setting('max_worker_processes')::int8 + current_setting('max_wal_senders')::int8)"
        ).fetchall()[0]
        self.room = max(1, int(row[0] * _SHARE))
        self._taken = 0
        self._changed = threading.Condition()

    def fits(self, locks: int) -> bool:
        """Return whether a transaction can hold this number of locks."""
        return locks <= self.room

    def parts(self) -> int:
        """Return how many objects a transaction drops of a tenant that does not fit."""
        return max(1, self.room // _LOCKS_PER_PART)

    @contextlib.contextmanager
    def taken(self, locks: int) -> Iterator[None]:
        """Wait until this number of locks is free, or nobody else holds any, and reserve them meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: self._taken == 0 or self._taken + locks <= self.room)
            self._taken += locks
        try:
            yield
        finally:
            with self._changed:
                self._taken -= locks
                self._changed.notify_all()


def needed(conn: Connection, name: str) -> int:
    """Return how many locks DROP SCHEMA takes, about. In a transaction, whose settings it changes."""
    # a few rows of a large catalog, whatever its statistics say
    conn.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off")
    return int(conn.execute(load("tenants", "locks").encode(), [name]).fetchall()[0][0])


def drop_some(conn: Connection, name: str, count: int) -> int:
    """Drop some of what is in a schema, and what depends on it; return how much there was. In a transaction."""
    commands = conn.execute(load("tenants", "parts").encode(), [name, count]).fetchall()
    for (command,) in commands:
        conn.execute(command.encode())
    return len(commands)
