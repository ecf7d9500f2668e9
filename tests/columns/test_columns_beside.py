"""Generated queries with columnar indexes off and forced, in one snapshot, while all of their tables are written to.

Sessions insert, update (HOT and not), delete, roll back and lock rows, VACUUM and encode meanwhile. In REPEATABLE READ
a transaction asks both ways; in READ COMMITTED one statement does, by stable functions, which have its snapshot.
PGBILLION_TEST_QUERIES is how many queries there are (default 300), PGBILLION_TEST_SEED repeats them.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import psycopg
import pytest
from psycopg import errors

from harness import servers, vector_compare, vector_tables
from harness.amount import Count, amount
from harness.sessions import beside
from harness.vector_compare import Outcome
from harness.vector_queries import Generator, Query, Shape
from harness.vector_tables import COLUMNS
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.rows.answers import Answer
from pgbillion.server.postgres import Cluster
from test_columns_answers import INDEXED, blocks, outcomes, session

QUERIES = amount("PGBILLION_TEST_QUERIES", 300, 100)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
FAILURES_SHOWN = 10
# what is written to; in the first ones, columns that are in no index are updated, too
MOVED = ("busy", "mixed", "parts", "toasted")
WRITTEN = (*MOVED, "plain", "strict", "scarce", "evolved", "scratch", "heirs_1", "lazy")
LEFT_OUT = ("j", "a", "iv")
# parts of it have theirs by its own
TABLES = (*dict.fromkeys((*INDEXED, "busy")),)
LAST_ID = 4000


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "beside") as name:
        with cluster.connect(name) as conn:
            vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
            conn.execute("SET search_path = v, public; SET client_min_messages = error")
            for number, table in enumerate(TABLES):
                columns = [column for column in COLUMNS if table not in MOVED or column not in LEFT_OUT]
                share = ("", ", refresh_share = 0", ", refresh_share = 1")[number % 3]
                conn.execute(f"VACUUM {table}")
                conn.execute(
                    f"CREATE INDEX {table}_columns ON {table} USING columns ({', '.join(columns)})"
                    f" WITH (segment_blocks = 32{share})".encode()
                )
                conn.execute(f"VACUUM ANALYZE {table}")
            for mode in ("off", "force"):
                conn.execute(ASK.format(mode=mode).encode())
        yield name


# the rows of a query as arrays of text, and last the error that it raised
ASK = """
    CREATE FUNCTION v.ask_{mode}(query text) RETURNS SETOF text[] STABLE LANGUAGE plpgsql
        SET pgbillion_rows.columns = {mode} AS $$
    BEGIN
        RETURN QUERY EXECUTE query;
    EXCEPTION WHEN OTHERS THEN
        RETURN NEXT ARRAY['an error', sqlstate, sqlerrm];
    END $$
"""


def in_one_statement(conn: Connection, query: Query) -> dict[str, Outcome]:
    """Run a query both ways in one statement; nothing is returned where planning it raises an error."""
    with vector_compare.settings(conn, query, "force"):
        try:
            result = conn.execute(f"SELECT * FROM ({query.statements()[1]}) x LIMIT 0".encode()).pgresult
        except psycopg.Error:
            return {}
        assert result is not None
        names = tuple((result.fname(i) or b"").decode() for i in range(result.nfields))
        types = tuple(result.ftype(i) for i in range(result.nfields))
        cells = ", ".join(f"{name}::text" for name in names)
        whole = f"SELECT ARRAY[{cells}] FROM ({query.statements()[1]}) x"
        modes = ("off", "force") if query.number % 2 else ("force", "off")
        asked = " UNION ALL ".join(f"SELECT '{mode}', a FROM v.ask_{mode}(%(query)s) a" for mode in modes)
        rows = conn.execute(asked.encode(), {"query": whole}).fetchall()
    return {mode: _outcome(names, types, [row for which, row in rows if which == mode]) for mode in modes}


def _outcome(names: tuple[str, ...], types: tuple[int, ...], rows: list[list[str | None]]) -> Outcome:
    if rows and rows[-1][0] == "an error":
        return Outcome([], (rows[-1][1] or "", rows[-1][2] or ""))
    return Outcome([Answer(names, types, [tuple(c if c is None else c.encode() for c in row) for row in rows])])


def disturb(conn: Connection, chance: random.Random) -> None:
    """One transaction on one of the tables, whose number of rows stays about the same."""
    table = chance.choice(WRITTEN)
    low = chance.randrange(LAST_ID)
    some = f"id BETWEEN {low} AND {low + chance.choice((0, 0, 20))}"
    nulls = 0 if table == "strict" else 0.1
    changes = [
        f"INSERT INTO {table} ({', '.join(COLUMNS)}) {vector_tables.select(nulls, 15, low)}",
        f"DELETE FROM {table} WHERE id BETWEEN {low} AND {low + 19}",
        f"UPDATE {table} SET i4 = i4 % 1000 + 1, n2 = n2 % 1000 + 0.01, t = 'changed' WHERE {some}",
        f"UPDATE {table} SET f4 = -f4, b = NOT b, d = d + 1 WHERE {some} AND isfinite(d)",
        f"UPDATE {table} SET id = (id + 7) % {LAST_ID} WHERE {some}",
        f"SELECT count(*) FROM (SELECT FROM {table} WHERE {some} FOR SHARE) x",
    ]
    if table in MOVED:
        changes.append(f"UPDATE {table} SET iv = iv + interval '1 s' WHERE {some}")
    conn.execute("BEGIN")
    for _ in range(chance.choice((1, 1, 3))):
        saved = chance.random() < 0.3
        if saved:
            conn.execute("SAVEPOINT s")
        conn.execute(chance.choice(changes).encode())
        if saved and chance.random() < 0.5:
            conn.execute("ROLLBACK TO s")
    conn.execute(chance.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))


def look_after(conn: Connection, chance: random.Random) -> None:
    """VACUUM a table, or encode what is not in its index."""
    table = chance.choice(TABLES)
    if chance.random() < 0.5 and table != "parts":
        conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')")
    else:
        conn.execute(f"VACUUM{chance.choice(('', ' (INDEX_CLEANUP ON)', ' (FREEZE)'))} {table}")


@contextmanager
def others(cluster: Cluster, database: str) -> Iterator[Counter[str]]:
    """Have two sessions write, and two look after the indexes; what is given counts their transactions."""
    done: Counter[str] = Counter()

    def work(stop: threading.Event, number: int, do: Callable[[Connection, random.Random], None]) -> None:
        chance = random.Random(f"{SEED} {number}")
        with cluster.connect(database) as conn:
            conn.prepare_threshold = None
            conn.execute("SET search_path = v, public; SET client_min_messages = error")
            conn.execute("SET deadlock_timeout = '50ms'")
            while not stop.is_set():
                try:
                    do(conn, chance)
                except errors.DeadlockDetected:
                    conn.execute("ROLLBACK")
                done[do.__name__] += 1
                stop.wait(chance.random() * 0.01)

    workers = [disturb, disturb, look_after, look_after]
    with beside(*(partial(work, number=number, do=do) for number, do in enumerate(workers))):
        yield done


def with_one_order(query: Query) -> Query:
    """Some rows have the same id here: order them by all that they have, where an aggregate has an order."""
    parts = [replace(part, sql=part.sql.replace("ORDER BY id", f"ORDER BY id, {query.table}::text"))
             for part in query.aggregates]  # fmt: skip
    return replace(query, aggregates=tuple(parts))


def compare(conn: Connection, query: Query, one_statement: bool) -> tuple[str | None, bool]:
    """Tell what differs, or None, and whether there was an answer on both sides."""
    found = in_one_statement(conn, query) if one_statement else outcomes(conn, query)
    if not found:
        return None, False
    off, forced = found["off"], found["force"]
    differs = vector_compare.difference(query, off, forced, reordered=query.table in MOVED)
    return differs, off.error is None and forced.error is None


@pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"])
def test_generated_queries(
    cluster: Cluster, database: str, level: str, tell: Callable[[str], None], counted: Count
) -> None:
    one_statement = level == "READ COMMITTED"
    chance = random.Random(SEED)
    generator = Generator(SEED + one_statement, TABLES)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    number = 0
    with session(cluster, database) as conn, others(cluster, database) as done:
        while number < QUERIES // 2 and len(wrong) < FAILURES_SHOWN:
            conn.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
            # a snapshot that is kept keeps blocks from becoming all-visible
            for _ in range(1 if one_statement else chance.choice((1, 1, 2, 25))):
                query = with_one_order(generator.query(number))
                if one_statement and query.shape in (Shape.PREPARED, Shape.CURSOR):
                    query = replace(query, shape=Shape.PLAIN)
                differs, answered = compare(conn, query, one_statement)
                if differs is not None:
                    wrong.append(f"{differs}\n    number {number}: {query} {query.settings}")
                seen["equal"] += differs is None
                seen["equal answers"] += differs is None and answered
                seen["with little memory"] += query.little_memory
                if number % 10 == 0:
                    conn.execute("SET LOCAL pgbillion_rows.columns = force")
                    plan = vector_compare.planned(conn, query, run=True)
                    if plan is not None:
                        seen.update(blocks(plan))
                        seen["Replaced"] += sum(node.get("Heap Blocks Replaced", 0) for node in plans.nodes(plan))
                        seen["parallel of a tenth"] += plans.parallel(plan)
                number += 1
            conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {dict(seen)}; meanwhile {dict(done)}")
    counted({"queries": seen["equal"], "with an answer": seen["equal answers"]})
    assert wrong == [], f"seed {SEED}: " + "\n".join(wrong)
    assert seen["Column Blocks Read"] > 0
    assert seen["Heap Blocks Read"] > 0
    with cluster.connect(database) as conn:
        for table in TABLES:
            assert conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('v.{table}')").fetchall() == []
