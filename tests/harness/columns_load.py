"""Everything that may happen to tables with a columnar index, at once and at random, and whether the index is right.

Sessions write, VACUUM, encode, build and checkpoint until they are told to stop or lose their server. What they do
follows from a seed; when it happens does not.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import errors

from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

from .servers import one
from .sessions import beside

# `kept` is encoded again only where all of a segment is stale, so that marks have to hold for long
TABLES = ("eager", "kept", "copied", "unlogged")
COLUMNS = "id, g, s, f, n"
OPTIONS = {
    "eager": "WITH (segment_blocks = 32, refresh_share = 0)",
    "kept": "WITH (segment_blocks = 32, refresh_share = 1)",
    "copied": "WITH (segment_blocks = 64, refresh_share = 0)",
    "unlogged": "WITH (segment_blocks = 32)",
}
ROWS = 12_000
QUESTIONS = (
    "SELECT count(*), count(s), sum(id), sum(n), avg(f), min(s), max(n) FROM {}",
    "SELECT g, count(*), sum(id), sum(n), sum(f), min(s) FROM {} GROUP BY g",
    "SELECT s, count(*), max(id), sum(n) FILTER (WHERE g > 3) FROM {} WHERE s LIKE '%3' OR s IS NULL GROUP BY s",
    "SELECT count(*), sum(g), max(f) FROM {} WHERE id BETWEEN 3000 AND 9000 AND n < 2000",
    "SELECT count(DISTINCT id), count(DISTINCT g) FROM {}",
)
# a table that another session has just replaced, locks in the other order, and what a standby may do to a query
EXPECTED = (errors.DeadlockDetected, errors.LockNotAvailable, errors.UndefinedTable, errors.UndefinedObject,
            errors.DuplicateTable, errors.UniqueViolation, errors.WrongObjectType)  # fmt: skip


@contextmanager
def expected() -> Iterator[None]:
    """Whatever of these errors comes is PostgreSQL's right to give."""
    with suppress(*EXPECTED):
        try:
            yield
        except errors.InternalError_ as error:
            # CREATE INDEX CONCURRENTLY gives its lock back before it commits, and TRUNCATE may come in between
            if error.diag.message_primary != "tuple concurrently updated":
                raise


def row(number: str) -> str:
    return f"{number}, {number} % 7, CASE WHEN {number} % 11 > 0 THEN 'word ' || {number} % 50 END,"


def make(conn: Connection) -> None:
    """Make the tables and their indexes."""
    for table in TABLES:
        kind = "UNLOGGED TABLE" if table == "unlogged" else "TABLE"
        conn.execute(
            f"CREATE {kind} {table} (id int, g int, s text, f real, n numeric(12,2), other int)"
            " WITH (fillfactor = 80, autovacuum_enabled = off)"
        )
        fill(conn, table)
        conn.execute(f"CREATE INDEX {table}_id ON {table} (id)")
        conn.execute(f"VACUUM ANALYZE {table}")
        conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({COLUMNS}) {OPTIONS[table]}")


def fill(conn: Connection, table: str, first: int = 1, rows: int = ROWS) -> None:
    numbers = f"generate_series({first}, {first + rows - 1})"
    conn.execute(f"INSERT INTO {table} SELECT {row('i')} i / 3.0, i * 0.25, 0 FROM {numbers} i")


def write(conn: Connection, chance: random.Random) -> None:
    """One transaction of a writer."""
    table = chance.choice(TABLES)
    low = chance.randrange(ROWS)
    some = f"id BETWEEN {low} AND {low + chance.choice((0, 5, 300))}"
    changes = (
        f"UPDATE {table} SET g = g + 1, s = 'new ' || id % 9 WHERE {some}",
        f"UPDATE {table} SET other = other + 1 WHERE {some}",
        f"UPDATE {table} SET id = id + 1 WHERE {some} AND id % 3 = 0",
        f"UPDATE {table} SET f = -f, n = n + 1 WHERE {some}",
        f"DELETE FROM {table} WHERE {some} AND id % 2 = {chance.randrange(2)}",
        f"INSERT INTO {table} SELECT {row('i')} i, i, 1 FROM generate_series({low}, {low + chance.choice((1, 150))}) i",
        f"SELECT count(*) FROM (SELECT FROM {table} WHERE {some} FOR UPDATE) x",
    )
    with expected():
        conn.execute("BEGIN")
        for _ in range(chance.choice((1, 1, 1, 3))):
            saved = chance.random() < 0.3
            if saved:
                conn.execute("SAVEPOINT s")
            conn.execute(chance.choice(changes).encode())
            if saved and chance.random() < 0.5:
                conn.execute("ROLLBACK TO s")
        conn.execute(chance.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))
    _end(conn)


def _end(conn: Connection) -> None:
    if conn.info.transaction_status.name in ("INTRANS", "INERROR"):
        conn.execute("ROLLBACK")


def copy(conn: Connection, chance: random.Random) -> None:
    """COPY rows into a table, which begins anew from time to time."""
    with expected():
        frozen = chance.random() < 0.2
        conn.execute("BEGIN")
        if frozen or chance.random() < 0.1:
            conn.execute("TRUNCATE copied")
        with conn.cursor().copy(f"COPY copied FROM STDIN{' (FREEZE)' if frozen else ''}") as into:
            for i in range(chance.choice((10, 500, 4000))):
                into.write_row((i, i % 7, f"word {i % 50}", i / 3, i * 0.25, 0))
        conn.execute(chance.choice(("COMMIT", "COMMIT", "ROLLBACK")))
    _end(conn)


def vacuum(conn: Connection, chance: random.Random) -> None:
    """VACUUM a table in some way, or encode what is in its index."""
    table = chance.choice(TABLES)
    ways = ("", "", " (INDEX_CLEANUP ON)", " (INDEX_CLEANUP ON)", " (INDEX_CLEANUP OFF)", " (FREEZE)")
    with expected():
        if chance.random() < 0.6:
            conn.execute(f"VACUUM{chance.choice(ways)} {table}")
        else:
            conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')")


def build(conn: Connection, chance: random.Random) -> None:
    """Build an index anew."""
    table = chance.choice(("copied", "eager", "unlogged"))
    how = chance.choice(("REINDEX INDEX", "REINDEX INDEX CONCURRENTLY", "CREATE INDEX", "CREATE INDEX CONCURRENTLY"))
    with expected():
        if how.startswith("REINDEX"):
            conn.execute(f"{how} {table}_columns")
        else:
            # one that a crash has left half done is gone, too
            conn.execute(f"DROP INDEX IF EXISTS {table}_columns")
            conn.execute(f"{how} {table}_columns ON {table} USING columns ({COLUMNS}) {OPTIONS[table]}")


def checkpoint(conn: Connection, chance: random.Random) -> None:
    if chance.random() < 0.2:
        conn.execute("CHECKPOINT")


Work = Callable[[Connection, random.Random], None]
WORKERS: tuple[tuple[Work, float], ...] = (
    (write, 0.002),
    (write, 0.002),
    (copy, 0.05),
    (vacuum, 0.01),
    (vacuum, 0.01),
    (build, 0.3),
    (checkpoint, 0.1),
)


@contextmanager
def load(cluster: Cluster, database: str, seed: int) -> Iterator[Counter[str]]:
    """Have the sessions at work until the end, or until the server is gone, and count what they have done."""
    done: Counter[str] = Counter()

    def run(stop: threading.Event, number: int, work: Work, pause: float) -> None:
        chance = random.Random(f"{seed} {number}")
        with suppress(psycopg.OperationalError), cluster.connect(database) as conn:
            conn.prepare_threshold = None
            conn.execute("SET client_min_messages = error; SET lock_timeout = '5s'; SET deadlock_timeout = '100ms'")
            while not stop.is_set():
                try:
                    work(conn, chance)
                except psycopg.Error as error:
                    if not conn.broken:
                        where = f"{error.diag.source_function}, {error.diag.context}"
                        raise AssertionError(f"seed {seed}, {work.__name__}: {error!r} ({where})") from error
                    return
                done[work.__name__] += 1
                stop.wait(chance.random() * 2 * pause)

    with beside(*(partial(run, number=n, work=work, pause=pause) for n, (work, pause) in enumerate(WORKERS))):
        yield done


# ---- is it right? ----


def problems(conn: Connection, tables: tuple[str, ...] = TABLES) -> list[Any]:
    """What columns_check() finds in the indexes that are there."""
    found = []
    for table in tables:
        if one(conn, "SELECT to_regclass(%s) IS NOT NULL", f"{table}_columns"):
            found += conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('{table}')").fetchall()
    return found


def differences(
    conn: Connection, chance: random.Random, tables: tuple[str, ...] = TABLES, seen: Counter[str] | None = None
) -> list[str]:
    """Ask each question both ways in one snapshot; return what differs.

    HOT updates of other columns move rows within their blocks, so that sums of floats may differ in their last digits.
    """
    found = []
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    conn.execute("SET LOCAL pgbillion_rows.vector_aggregate = force")
    workers = chance.choice((0, 0, 2))
    conn.execute(f"SET LOCAL max_parallel_workers_per_gather = {workers}")
    if chance.random() < 0.2:
        conn.execute("SET LOCAL work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1")
    for table in tables:
        for question in QUESTIONS:
            query = question.format(table)
            both = []
            for mode in chance.sample(("off", "force"), 2):
                conn.execute(f"SET LOCAL pgbillion_rows.columns = {mode}")
                if mode == "force" and seen is not None and chance.random() < 0.2:
                    plan = plans.explain(conn, query, run=True)
                    for node in plans.nodes(plan):
                        for name in ("Column Blocks Read", "Heap Blocks Read", "Heap Blocks Replaced"):
                            seen[name] += node.get(name, 0)
                both.append(answers.answer(conn.execute(query.encode())))
            differs = answers.difference(both[0], both[1], answers.PARALLEL)
            if seen is not None:
                seen["answers"] += 1
            if differs is not None:
                found.append(f"{query}: {differs}")
    conn.execute("COMMIT")
    return found


@contextmanager
def session(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "SET client_min_messages = error; LOAD 'pgbillion_rows'; SET min_parallel_table_scan_size = 0;"
            " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET statement_timeout = '300s'"
        )
        yield conn


def settled(conn: Connection, chance: random.Random, seen: Counter[str] | None = None) -> list[Any]:
    """Look as it is, after VACUUM has made blocks all-visible again, and after all has been encoded."""
    wrong: list[Any] = problems(conn) + differences(conn, chance, seen=seen)
    for table in TABLES:
        conn.execute(f"VACUUM (INDEX_CLEANUP ON) {table}")
    wrong += problems(conn) + differences(conn, chance, seen=seen)
    for table in TABLES:
        if one(conn, "SELECT to_regclass(%s) IS NULL", f"{table}_columns"):
            conn.execute(f"CREATE INDEX {table}_columns ON {table} USING columns ({COLUMNS}) {OPTIONS[table]}")
        elif one(conn, "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = %s::regclass", f"{table}_columns"):
            conn.execute(f"REINDEX INDEX {table}_columns")
        # what a crash of REINDEX CONCURRENTLY leaves
        for (name,) in conn.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND NOT indisvalid", [table]
        ).fetchall():
            conn.execute(f"DROP INDEX {name}")
        conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')")
        readable = "SELECT readable_blocks, relallvisible FROM pgbillion_rows.columns_status(%s), pg_class"
        for blocks, visible in conn.execute(f"{readable} WHERE pg_class.oid = %s::regclass", [table, table]):
            if blocks != visible:
                wrong.append(f"{table}: {blocks} blocks of {visible} can be read")
    return wrong + problems(conn) + differences(conn, chance, seen=seen)
