"""Clients that write to a tenant while it moves between databases, and know what they have committed."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg

TABLES = """
    CREATE TABLE item (id bigserial PRIMARY KEY, client integer NOT NULL, n integer NOT NULL, note text);
    CREATE INDEX ON item (client, n);
    CREATE TABLE counter (client integer PRIMARY KEY, n integer NOT NULL);
    CREATE TABLE log (client integer, n integer, at timestamptz DEFAULT clock_timestamp(), what jsonb);
    CREATE TABLE part (client integer, n integer, PRIMARY KEY (client, n)) PARTITION BY HASH (client);
    CREATE TABLE part_0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
    CREATE TABLE part_1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
    CREATE TABLE ticket (number integer PRIMARY KEY, client integer, n integer);
    CREATE SEQUENCE tickets;
    INSERT INTO counter SELECT c, 0 FROM generate_series(0, {last}) AS c;
    INSERT INTO item (client, n, note) SELECT -1, n, repeat('x', 200) FROM generate_series(1, {rows}) AS n;
"""
# that the tenant is in the other database now, or not yet
_ELSEWHERE = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.UndefinedColumn,
)


class Client(threading.Thread):
    """One client; ``done`` transactions were committed, and ``paused`` is the longest time between two of them."""

    def __init__(self, number: int, schema: str, conninfos: Sequence[str], stopping: threading.Event) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.number, self.done, self.paused = number, 0, 0.0
        self.failure: BaseException | None = None
        self._schema, self._conninfos, self._stopping = schema, conninfos, stopping

    def run(self) -> None:
        last = time.monotonic()
        try:
            for conninfo in itertools.cycle(self._conninfos):
                with psycopg.connect(conninfo) as conn:
                    conn.execute(f"SET search_path = {self._schema}".encode())
                    conn.commit()
                    try:
                        while not self._stopping.is_set():
                            self._transaction(conn)
                            conn.commit()
                            self.done += 1
                            now = time.monotonic()
                            self.paused, last = max(self.paused, now - last), now
                        return
                    except _ELSEWHERE:
                        conn.rollback()
                time.sleep(0.002)
        except BaseException as error:
            self.failure = error

    def _transaction(self, conn: psycopg.Connection[tuple[object, ...]]) -> None:
        given = {"client": self.number, "n": self.done + 1}
        conn.execute("INSERT INTO item (client, n, note) VALUES (%(client)s, %(n)s, repeat('y', %(n)s %% 300))", given)
        conn.execute("INSERT INTO log (client, n, what) VALUES (%(client)s, %(n)s, '{\"a\": 1}')", given)
        conn.execute("INSERT INTO part VALUES (%(client)s, %(n)s)", given)
        conn.execute("INSERT INTO ticket VALUES (nextval('tickets'), %(client)s, %(n)s)", given)
        conn.execute("UPDATE counter SET n = %(n)s WHERE client = %(client)s", given)
        # without a key
        conn.execute("UPDATE log SET n = -n WHERE client = %(client)s AND n = %(n)s - 1 AND n %% 10 = 0", given)
        conn.execute("DELETE FROM part WHERE client = %(client)s AND n = %(n)s - 50", given)
        conn.execute("UPDATE item SET note = 'z' WHERE client = %(client)s AND n = %(n)s - 7", given)


@contextmanager
def writing(clients: int, schema: str, conninfos: Sequence[str]) -> Iterator[list[Client]]:
    """Clients that write until the end of the block; a failure of one is raised then."""
    stopping = threading.Event()
    threads = [Client(number, schema, conninfos, stopping) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        stopping.set()
        for thread in threads:
            thread.join(60)
    for thread in threads:
        if thread.failure is not None:
            raise thread.failure
        assert not thread.is_alive()


def differences(conn: psycopg.Connection[tuple[object, ...]], schema: str, clients: Sequence[Client]) -> list[str]:
    """Compare what clients have committed with what a tenant has."""
    found = []
    for client in clients:
        wanted: dict[str, object] = {
            "item": (client.done, client.done, client.done * (client.done + 1) // 2),
            "log": (client.done, client.done, client.done * (client.done + 1) // 2),
            "ticket": (client.done, client.done, client.done * (client.done + 1) // 2),
        }
        for table, numbers in wanted.items():
            row = conn.execute(
                f"SELECT count(*), count(DISTINCT abs(n)), coalesce(sum(abs(n)), 0)::int8 FROM {schema}.{table}"
                " WHERE client = %s".encode(),
                [client.number],
            ).fetchone()
            if row != numbers:
                found.append(f"{table} of client {client.number}: {row} instead of {numbers}")
        row = conn.execute(
            f"SELECT (SELECT n FROM {schema}.counter WHERE client = %(client)s),"
            f" (SELECT min(n) FROM {schema}.part WHERE client = %(client)s),"
            f" (SELECT count(*) FROM {schema}.part WHERE client = %(client)s),"
            f" (SELECT count(*) FROM {schema}.item WHERE client = %(client)s AND note = 'z'),"
            f" (SELECT count(*) FROM {schema}.log WHERE client = %(client)s AND n < 0)".encode(),
            {"client": client.number},
        ).fetchone()
        done = client.done
        kept = min(done, 50)
        expected = (done, done - kept + 1 if done else None, kept, max(0, done - 7), max(0, done - 1) // 10)
        if row != expected:
            found.append(f"client {client.number}: {row} instead of {expected}")
    return found
