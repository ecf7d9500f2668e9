"""Filters that read a columnar index return the rows, and lock and change those, that a sequential scan would.

PGBILLION_TEST_QUERIES is how many generated queries there are (default 1,500; beside writers a fifth), and
PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg import errors

from harness import repeats, servers, vector_tables
from harness.amount import Count, amount
from harness.servers import one
from harness.sessions import Running, beside, until_blocked
from harness.vector_queries import Generator, Query, literal, parameters
from harness.vector_tables import COLUMNS
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_columns_answers import INDEXED, spoil
from test_columns_beside import TABLES, others
from test_columns_beside import database as written  # noqa: F401

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_QUERIES", 1500, 150)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
NODE = "VectorScan"
FAILURES_SHOWN = 10
# of some tables the index has a few columns only
NARROW = ("id", "i4", "t", "n2")


def session(cluster: Cluster, database: str) -> Connection:
    conn = cluster.connect(database)
    conn.prepare_threshold = None
    conn.execute("LOAD 'pgbillion_rows'")
    conn.execute(
        "SET search_path = v, public; SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.columns = force;"
        " SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
        " SET max_parallel_workers_per_gather = 0; SET synchronize_seqscans = off; SET extra_float_digits = 1;"
        " SET timezone = 'UTC'; SET enable_indexscan = off; SET enable_bitmapscan = off; SET statement_timeout = '60s'"
    )
    return conn


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "rows") as name:
        with cluster.connect(name) as conn:
            vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
            conn.execute("SET search_path = v, public; SET client_min_messages = error")
            for number, table in enumerate(INDEXED):
                columns = NARROW if number % 3 == 1 else COLUMNS
                conn.execute(f"VACUUM {table}")
                conn.execute(
                    f"CREATE INDEX {table}_columns ON {table} USING columns ({', '.join(columns)})"
                    " WITH (segment_blocks = 32)".encode()
                )
                conn.execute(f"VACUUM ANALYZE {table}")
                if table != "parts":
                    conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')")
            spoil(conn)
            # HOT chains: of columns that are in no index, before and after a block is encoded
            for table in ("scarce", "scratch", "plain"):
                conn.execute(f"UPDATE {table} SET iv = iv + interval '1 s' WHERE id % 7 = 0 AND id < 1500")
                conn.execute(f"VACUUM {table}")
            conn.execute("CALL pgbillion_rows.columns_refresh('scarce')")
            conn.execute("UPDATE scarce SET iv = iv + interval '1 s' WHERE id % 5 = 0 AND id < 1500")
            conn.execute("VACUUM scarce")
        yield name


@pytest.fixture
def rows(cluster: Cluster, database: str) -> Iterator[Connection]:
    """A session with vectors and columns forced, in a transaction that is rolled back."""
    with session(cluster, database) as conn:
        conn.execute("SET pgbillion_rows.vector_scan = force")
        conn.execute("BEGIN")
        yield conn
        if not conn.closed:
            conn.execute("ROLLBACK")


def scan_of(conn: Connection, query: str, *, run: bool = False) -> plans.Plan | None:
    """The scan of a plan that reads a columnar index."""
    for node in plans.nodes(plans.explain(conn, query, run=run)):
        if node.get("Custom Plan Provider") == NODE and "Columns" in node:
            return node
    return None


Outcome = tuple[list[tuple[Any, ...]], str | None]


def outcome(conn: Connection, statements: list[str], mode: str) -> Outcome:
    conn.execute("SAVEPOINT one")
    conn.execute(f"SET LOCAL pgbillion_rows.vector_scan = {mode}")
    found: list[tuple[Any, ...]] = []
    try:
        for statement in statements:
            cursor = conn.execute(statement.encode())
            if cursor.description is not None:
                found += cursor.fetchall()
    except psycopg.Error as error:
        return [], f"{error.sqlstate} {error.diag.message_primary}"
    finally:
        if not conn.closed:
            conn.execute("ROLLBACK TO one; RELEASE one")
    # a HOT update changes the order of rows in their block, and not in the index
    return sorted(found, key=repr), None


def statements(query: Query, number: int, *, locks: bool) -> list[str]:
    """All rows with their places, by the query's conditions, as text: NaN and -0 are told apart."""
    where = " AND ".join(f"({part.sql})" for part in query.where)
    again = repeats.value(random.Random(number), [part.sql for part in query.where])
    columns = ("ctid, tableoid::regclass, xmin, t", "t", f"{again}, id", "i4, id, n2", "ctid, t", "id", "i4, a, t")
    text = f"SELECT {columns[number % 7]}::text FROM {query.table} t WHERE {where}"
    match number % 8:
        case 0:
            prepared, types, values = parameters(text)
            head = f"PREPARE q{'(' + ','.join(types) + ')' if types else ''} AS {prepared}"
            call = f"EXECUTE q{'(' + ', '.join(values) + ')' if values else ''}"
            return ["DEALLOCATE ALL", "SET LOCAL plan_cache_mode = force_generic_plan", head, call, call]
        case 1:
            return [f"SELECT o.k, s.* FROM (VALUES (0), (700), (99999)) o(k), LATERAL ({literal(text)} AND id > o.k) s"]
        case 2:
            return [f"{literal(text)} ORDER BY id, ctid, tableoid LIMIT 17"]
        case 3:
            return [f"DECLARE k NO SCROLL CURSOR FOR {literal(text)}", "FETCH 3 FROM k", "FETCH ALL FROM k", "CLOSE k"]
        case 4 if locks:
            return [f"{literal(text)} FOR UPDATE"]
        case 5 if locks:
            new = "i4 = i4 % 10, t = 'changed'" if number % 3 else "iv = iv + interval '1 s'"
            changed = f"UPDATE {query.table} t SET {new} WHERE {literal(where)} RETURNING t::text"
            left = f"SELECT t::text FROM {query.table} t WHERE {literal(where)}"
            return [changed, left, f"DELETE FROM {query.table} t WHERE {literal(where)} RETURNING id, t::text"]
        case 6:
            first = ("id", "i4", "n2 DESC", "t")[number % 4]
            # rows of a parent and of its child may be equal but for their table
            return [f"{literal(text)} ORDER BY {first}, id, ctid, tableoid LIMIT {number % 40 + 1}"]
    return [literal(text)]


def compare(
    conn: Connection, query: Query, number: int, tally: Counter[str], *, locks: bool, level: str = "REPEATABLE READ"
) -> str | None:
    """Ask for rows both ways in one snapshot; tell what differs, or None."""
    parallel = number % 6 == 0 and number % 8 in (1, 6, 7)
    conn.execute(f"SET LOCAL max_parallel_workers_per_gather = {2 if parallel else 0}")
    texts = statements(query, number, locks=locks)
    sides = ("off", "force") if number % 2 else ("force", "off")
    found = {side: outcome(conn, texts, side) for side in sides}
    core, ours = found["off"], found["force"]
    tally["queries"] += 1
    tally["rows"] += len(core[0])
    tally["errors"] += core[1] is not None
    # of several errors in a row, which comes first is open where processes share the rows
    if core != ours and not (parallel and core[1] and ours[1]):
        return f"number {number}: {texts}\n    {core[1]} {ours[1]} {set(map(repr, core[0])) ^ set(map(repr, ours[0]))}"
    last = next(text for text in texts if text.startswith(("SELECT", "UPDATE")) or text == texts[-1])
    if core[1] is None and not last.startswith(("EXECUTE", "CLOSE")):
        conn.execute("SAVEPOINT explained; SET LOCAL pgbillion_rows.vector_scan = force")
        node = scan_of(conn, last, run=True)
        conn.execute("ROLLBACK TO explained")
        tally["explained"] += 1
        if node is not None:
            tally["planned"] += 1
            tally.update({name: node[name] for name in ("Rows Fetched", "Column Blocks Read", "Heap Blocks Read")})
    return None


def test_generated_rows(cluster: Cluster, database: str, tell: Callable[[str], None], counted: Count) -> None:
    generator = Generator(SEED, INDEXED)
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    with session(cluster, database) as conn:
        for number in range(QUERIES):
            query = generator.query(number)
            if query.where and len(wrong) < FAILURES_SHOWN:
                conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                differs = compare(conn, query, number, tally, locks=True)
                conn.execute("ROLLBACK")
                wrong += [differs] if differs is not None else []
    tell(f"seed {SEED}: {dict(tally)}")
    counted({"queries": tally["queries"], "that read an index, of those explained": tally["planned"]})
    assert wrong == [], f"seed {SEED}: " + "\n".join(wrong)
    assert tally["planned"] > 0.25 * tally["explained"]
    assert tally["Rows Fetched"] > tally["planned"]


def test_generated_rows_beside_writers(
    cluster: Cluster,
    written: str,  # noqa: F811
    tell: Callable[[str], None],
    counted: Count,
) -> None:
    """The rows of one snapshot, while sessions write (HOT and not), VACUUM and encode."""
    chance = random.Random(SEED)
    generator = Generator(SEED + 2, TABLES)
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    number = 0
    with session(cluster, written) as conn, others(cluster, written) as done:
        while number < QUERIES // 5 and len(wrong) < FAILURES_SHOWN:
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            # a snapshot that is kept keeps blocks from becoming all-visible
            for _ in range(chance.choice((1, 1, 2, 25))):
                query = generator.query(number)
                number += 1
                if query.where:
                    differs = compare(conn, query, number, tally, locks=False)
                    wrong += [differs] if differs is not None else []
            conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {dict(tally)}; meanwhile {dict(done)}")
    counted({"queries": tally["queries"], "that read an index, of those explained": tally["planned"]})
    assert wrong == [], f"seed {SEED}: " + "\n".join(wrong)
    assert tally["Rows Fetched"] > 0
    with cluster.connect(written) as conn:
        for table in TABLES:
            assert conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('v.{table}')").fetchall() == []


ROWS = 20_000
KINDS = 40


@pytest.fixture
def chains(cluster: Cluster) -> Iterator[str]:
    """A database with a table of HOT chains and freed line pointers in a part of its blocks, all of it encoded."""
    with servers.new_database(cluster, "chains") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                "CREATE TABLE t (id int PRIMARY KEY, kind int, n int NOT NULL, pad text) WITH (fillfactor = 70)"
            )
            conn.execute(
                f"INSERT INTO t SELECT i, i % {KINDS}, 0, repeat('x', i % 50) FROM generate_series(1, {ROWS}) i"
            )
            conn.execute("VACUUM ANALYZE t")
            conn.execute("UPDATE t SET n = n + 1 WHERE id % 9 = 0 AND id < 8000")
            conn.execute("DELETE FROM t WHERE id % 50 = 1 AND id BETWEEN 4000 AND 12000")
            conn.execute("VACUUM t")
            conn.execute("CREATE INDEX t_columns ON t USING columns (id, kind) WITH (segment_blocks = 32)")
            # the order of tuples in their blocks changes, the index does not
            conn.execute("UPDATE t SET n = n + 1 WHERE id % 6 = 0 AND id > 2000")
            conn.execute("VACUUM t")
            assert (
                one(conn, "SELECT sum(readable_blocks) / sum(table_blocks) FROM pgbillion_rows.columns_status('t')")
                > 0.9
            )
            assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('t')").fetchall() == []
        yield name


def ask(cluster: Cluster, name: str) -> Connection:
    conn = session(cluster, name)
    conn.execute("SET pgbillion_rows.vector_scan = force")
    return conn


def test_rows_of_chains(cluster: Cluster, chains: str) -> None:
    with ask(cluster, chains) as conn:
        node = scan_of(conn, "SELECT ctid, * FROM t WHERE kind = 6", run=True)
        assert node is not None
        assert node["Rows Fetched"] > 300
        assert node["Heap Blocks Read"] == 0
        for kind in range(KINDS):
            query = f"SELECT ctid, xmin, * FROM t WHERE kind = {kind} ORDER BY id"
            ours = conn.execute(query).fetchall()
            conn.execute("SET pgbillion_rows.vector_scan = off")
            assert conn.execute(query).fetchall() == ours
            conn.execute("SET pgbillion_rows.vector_scan = force")


def test_locked_rows_beside_writers(cluster: Cluster, chains: str, tell: Callable[[str], None]) -> None:
    """FOR UPDATE, UPDATE and WHERE CURRENT OF see each row once, in its newest version, while others write."""
    with cluster.connect(chains) as conn:
        wanted = {
            kind: sorted(row[0] for row in conn.execute(f"SELECT id FROM t WHERE kind = {kind}"))
            for kind in range(KINDS)
        }
        before = one(conn, "SELECT sum(n) FROM t")
    done: Counter[str] = Counter()

    def write(stop: threading.Event, number: int) -> None:
        chance = random.Random(f"{SEED} {number}")
        with cluster.connect(chains) as conn:
            while not stop.is_set():
                low = chance.randrange(ROWS)
                change = chance.choice(("n = n + 1", "n = n + 1", "n = n + 1, kind = kind", "n = n + 1, id = id"))
                conn.execute("BEGIN")
                cursor = conn.execute(
                    f"UPDATE t SET {change} WHERE id BETWEEN {low} AND {low + chance.choice((0, 10))}".encode()
                )
                if chance.random() < 0.2:
                    conn.execute("ROLLBACK")
                else:
                    conn.execute("COMMIT")
                    done["n"] += cursor.rowcount
                # rows that come and go, into line pointers that are free
                conn.execute(f"INSERT INTO t SELECT -i - {number} * 1000, -1, 0, 'short' FROM generate_series(1, 20) i")
                conn.execute(f"DELETE FROM t WHERE id BETWEEN -{number} * 1000 - 20 AND -{number} * 1000")
                stop.wait(0.002)

    def look_after(stop: threading.Event) -> None:
        with cluster.connect(chains) as conn:
            while not stop.is_set():
                conn.execute("VACUUM (INDEX_CLEANUP ON) t")
                conn.execute("CALL pgbillion_rows.columns_refresh('t')")
                done["looked after"] += 1
                stop.wait(0.01)

    fetched = 0
    with beside(partial(write, number=1), partial(write, number=2), look_after), ask(cluster, chains) as conn:
        for number in range(amount("PGBILLION_TEST_LOCKED", 120, 40)):
            kind = number % KINDS
            conn.execute("BEGIN")
            try:
                match number % 4:
                    case 0 | 1:
                        found = conn.execute(
                            f"SELECT id, ctid, kind, n FROM t WHERE kind = {kind} FOR UPDATE"
                        ).fetchall()
                        again = conn.execute(
                            "SELECT id, ctid, kind, n FROM t WHERE id = ANY (%s)", [[row[0] for row in found]]
                        ).fetchall()
                        assert sorted(again) == sorted(found)
                        ids = [row[0] for row in found]
                    case 2:
                        ids = [
                            row[0]
                            for row in conn.execute(
                                f"UPDATE t SET n = n + 1 WHERE kind = {kind} RETURNING id"
                            ).fetchall()
                        ]
                    case _:
                        conn.execute(f"DECLARE c CURSOR FOR SELECT id FROM t WHERE kind = {kind} FOR UPDATE")
                        ids = []
                        while (row := conn.execute("FETCH 1 FROM c").fetchone()) is not None:
                            ids.append(row[0])
                            if len(ids) % 20 == 1:
                                changed = conn.execute(
                                    "UPDATE t SET n = n + 0 WHERE CURRENT OF c RETURNING id"
                                ).fetchall()
                                assert changed == [row]
                assert sorted(ids) == wanted[kind]
                conn.execute("ROLLBACK")
                if number % 4 == 0:
                    node = scan_of(conn, f"SELECT ctid, * FROM t WHERE kind = {kind}", run=True)
                    assert node is not None
                    fetched += node["Rows Fetched"]
            except errors.DeadlockDetected:
                conn.execute("ROLLBACK")
                done["deadlocks"] += 1
    tell(f"seed {SEED}: {fetched} rows fetched; meanwhile {dict(done)}")
    assert fetched > 0
    with cluster.connect(chains) as conn:
        assert one(conn, "SELECT sum(n) FROM t WHERE kind >= 0") == before + done["n"]
        assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('t')").fetchall() == []


def test_a_row_that_was_updated_is_checked_again(cluster: Cluster, chains: str) -> None:
    with cluster.connect(chains) as writer, ask(cluster, chains) as conn, cluster.connect() as monitor:
        for change, left in (("kind = 77", 0), ("n = n + 100", 1), ("id = -5", 1)):
            first = one(writer, "SELECT min(id) FROM t WHERE kind = 8 AND id > 0")
            writer.execute(f"BEGIN; UPDATE t SET {change} WHERE id = {first}")
            running = Running(lambda: conn.execute("SELECT id, kind, n FROM t WHERE kind = 8 FOR UPDATE").fetchall())
            until_blocked(monitor, conn, running)
            writer.execute("COMMIT")
            found = running.result()
            assert sorted(found) == sorted(writer.execute("SELECT id, kind, n FROM t WHERE kind = 8").fetchall())
            assert len([row for row in found if row[0] in (first, -5)]) == left


def test_own_changes_within_a_statement(cluster: Cluster, chains: str) -> None:
    """A function that the statement calls changes rows which the scan has yet to fetch."""
    with ask(cluster, chains) as conn:
        conn.execute(
            "CREATE FUNCTION bump(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
            " UPDATE t SET n = n + 1000 WHERE id BETWEEN $1 AND $1 + 2000 AND id % 100 = 0;"
            " DELETE FROM t WHERE id BETWEEN $1 + 50 AND $1 + 60; RETURN $1; END $$"
        )
        seen = []
        for mode in ("off", "force"):
            conn.execute(f"BEGIN; SET LOCAL pgbillion_rows.vector_scan = {mode}")
            found = conn.execute(
                "SELECT id, n, CASE WHEN id % 1000 = 10 THEN bump(id) END FROM t WHERE kind = 10"
            ).fetchall()
            seen.append(sorted(found, key=repr))
            conn.execute("ROLLBACK")
        assert seen[0] == seen[1]
        assert len(seen[0]) > 400


def test_cursors_over_changes_of_their_transaction(cluster: Cluster, chains: str) -> None:
    with ask(cluster, chains) as conn:
        seen = []
        for mode in ("off", "force"):
            conn.execute(f"BEGIN; SET LOCAL pgbillion_rows.vector_scan = {mode}")
            conn.execute("DECLARE c NO SCROLL CURSOR FOR SELECT ctid, * FROM t WHERE kind = 11")
            found = conn.execute("FETCH 5 FROM c").fetchall()
            conn.execute("UPDATE t SET n = n + 1; DELETE FROM t WHERE id % 3 = 0")
            conn.execute("INSERT INTO t SELECT -i, 11, 0, '' FROM generate_series(1, 5000) i")
            found += conn.execute("FETCH ALL FROM c").fetchall()
            seen.append(sorted(found))
            conn.execute("ROLLBACK")
        assert seen[0] == seen[1]
        assert len(seen[0]) > 400


def test_explain(cluster: Cluster, chains: str) -> None:
    with ask(cluster, chains) as conn:
        options = "ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF"
        lines = conn.execute(f"EXPLAIN ({options}) SELECT * FROM t WHERE kind = 3 AND n >= 0").fetchall()
        text = "\n".join(row[0] for row in lines)
        assert "  Filter: (n >= 0)" in text
        assert "  Vectorized Filter: (kind = 3)" in text
        assert "  Columns: t_columns" in text
        assert f"  Rows Fetched: rows={ROWS // KINDS} blocks=" in text


# columns by which rows come in order, or in none: ascending, descending, with NULLs, with equal values
ORDERED = {
    "up": ("int NOT NULL", "g"),
    "down": ("bigint NOT NULL", "10000000 - g * 3"),
    "day": ("date", "CASE WHEN g % 10 > 0 THEN date '2020-01-01' + g / 100 END"),
    "late": ("timestamptz", "CASE WHEN g < 20000 THEN timestamptz '2020-01-01 00:00+00' + g * interval '1 s' END"),
    "fall": ("float8", "CASE WHEN g = 15000 THEN 'NaN' WHEN g < 10 THEN '-0' ELSE -g / 8.0 END"),
    "rise": ("real NOT NULL", "g / 8.0"),
    "price": ("numeric(12, 2)", "g / 100.0"),
    "wild": ("numeric", "CASE WHEN g % 1000 = 0 THEN 'NaN' ELSE g / 7.0 END"),
    "chance": ("smallint NOT NULL", "hashint4(g) % 1000"),
    "word": ("text NOT NULL", "'w' || abs(hashint4(g)) % 100"),
}


@pytest.fixture(scope="module")
def ordered(cluster: Cluster) -> Iterator[str]:
    """A database with a table whose rows come in the order of some columns, of which some blocks are changed."""
    with servers.new_database(cluster, "ordered") as name:
        with cluster.connect(name) as conn:
            columns = ", ".join(f"{column} {kind}" for column, (kind, _) in ORDERED.items())
            values = ", ".join(value for _, value in ORDERED.values())
            conn.execute(f"CREATE TABLE o (id int, {columns}, pad text)")
            conn.execute(f"INSERT INTO o SELECT g, {values}, repeat('p', 200) FROM generate_series(1, 30000) g")
            conn.execute("VACUUM ANALYZE o")
            conn.execute(f"CREATE INDEX o_columns ON o USING columns ({', '.join(ORDERED)}) WITH (segment_blocks = 32)")
            conn.execute(
                "UPDATE o SET up = 30001 - up, pad = 'new' WHERE id % 9000 = 1; DELETE FROM o WHERE id % 7000 = 5"
            )
        yield name


def test_first_rows(cluster: Cluster, ordered: str, tell: Callable[[str], None]) -> None:
    """Segments that hold none of the first rows are skipped, from the first one on or from the last."""
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    with ask(cluster, ordered) as conn:
        for number in range(amount("PGBILLION_TEST_TOPS", 300, 100)):
            column = chance.choice(list(ORDERED))
            order = f"{column} {chance.choice(('', 'DESC'))} {chance.choice(('', 'NULLS FIRST', 'NULLS LAST'))}"
            where = chance.choice(
                ("", "", "WHERE chance < 0", "WHERE word = 'w7'", "WHERE up > 15000", "WHERE day IS NULL")
            )
            limit = f"LIMIT {chance.choice((1, 10, 10, 500))} {chance.choice(('', 'OFFSET 20'))}"
            query = f"SELECT ctid, id, {column} FROM o {where} ORDER BY {order}, id {limit}"
            conn.execute(f"SET max_parallel_workers_per_gather = {2 if number % 5 == 0 else 0}")
            ours = repr(conn.execute(query).fetchall())
            node = scan_of(conn, query, run=True)
            conn.execute("SET pgbillion_rows.vector_scan = off")
            assert repr(conn.execute(query).fetchall()) == ours, query
            conn.execute("SET pgbillion_rows.vector_scan = force")
            if node is not None:
                seen["read an index"] += 1
                seen.update({name: node[name] for name in ("Column Segments Read", "Column Segments Skipped")})
                seen["Rows Fetched"] += node["Rows Fetched"]
    tell(f"seed {SEED}: {dict(seen)}")
    assert seen["read an index"] > 50
    assert seen["Column Segments Skipped"] > seen["Column Segments Read"] / 2


@pytest.mark.parametrize("column", ["up", "down", "day", "rise", "fall", "price"])
@pytest.mark.parametrize("direction", ["", "DESC"])
def test_few_segments_are_read_for_the_first_rows(cluster: Cluster, ordered: str, column: str, direction: str) -> None:
    with ask(cluster, ordered) as conn:
        query = f"SELECT * FROM o ORDER BY {column} {direction} NULLS LAST LIMIT 10"
        node = scan_of(conn, query, run=True)
        assert node is not None
        # NaN comes after all numbers, and a segment with it has no bounds
        assert node["Column Segments Read"] <= 3 + (column == "fall")
        assert node["Column Segments Skipped"] > 15
        assert node["Rows Fetched"] < 3000


@pytest.fixture(scope="module")
def narrow(cluster: Cluster) -> Iterator[str]:
    """A database with a table of which some blocks are changed, and indexes of few and of more columns."""
    with servers.new_database(cluster, "narrow") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                "CREATE TABLE w (id int, kind int, price numeric(10, 2), word text, long text, pad text, big text)"
            )
            conn.execute(
                "INSERT INTO w SELECT g, g % 20, CASE WHEN g % 9 > 0 THEN g / 100.0 END, 'w' || g % 50,"
                " md5(g::text) || md5((g + 1)::text), repeat('p', 300), CASE WHEN g > 9000 THEN repeat('xyz', 1200) END"
                " FROM generate_series(1, 10000) g"
            )
            conn.execute(
                "ALTER TABLE w ADD COLUMN later int DEFAULT 42, ADD COLUMN gone int; ALTER TABLE w DROP COLUMN gone"
            )
            conn.execute("VACUUM ANALYZE w")
            conn.execute("CREATE INDEX w_few ON w USING columns (id, kind) WITH (segment_blocks = 32)")
            conn.execute(
                "CREATE INDEX w_more ON w USING columns (kind, id, price, word, long, later, big)"
                " WITH (segment_blocks = 32)"
            )
            conn.execute("UPDATE w SET price = price + 1 WHERE id % 2500 = 1; DELETE FROM w WHERE id % 3000 = 2")
        yield name


def fetches(conn: Connection, query: str) -> bool | None:
    """Does a scan of an index fetch rows? None: there is no such scan."""
    text = "\n".join(row[0] for row in conn.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {query}".encode()))
    return "Rows Fetched:" in text if "  Columns: w_" in text or "\nColumns: w_" in text else None


@pytest.mark.parametrize(
    ("query", "fetched"),
    [
        ("SELECT id, price, word, long, later FROM w WHERE kind = 3", False),
        ("SELECT id, price + 1, upper(word), long || 'x' FROM w WHERE kind = 3 AND length(long) > 5", False),
        ("SELECT price FROM w WHERE word = 'w7'", False),
        ("SELECT later FROM w", False),
        ("SELECT 1 FROM w WHERE kind = 3", False),
        ("SELECT id, price FROM w WHERE kind < 5 ORDER BY price DESC NULLS LAST, id LIMIT 30", False),
        ("SELECT big FROM w WHERE kind = 3", False),
        ("SELECT id, long FROM w WHERE kind = 3 UNION ALL SELECT id, word FROM w WHERE kind = 4", False),
        ("SELECT a.price, b.long FROM w a JOIN w b ON b.id = a.id + 1 WHERE a.kind = 3 AND b.word > 'w2'", False),
        ("SELECT DISTINCT ON (word) word, price, id FROM w WHERE kind < 9 ORDER BY word, price DESC, id", False),
        ("SELECT id, lag(long) OVER (ORDER BY id) FROM w WHERE kind = 3", False),
        (
            "SELECT o.k, s.* FROM generate_series(1, 3) o(k),"
            " LATERAL (SELECT price, long FROM w WHERE kind = 3 AND id > o.k * 2000) s", False,
        ),
        ("SELECT id, pad FROM w WHERE kind = 3", True),
        ("SELECT w FROM w WHERE kind = 3", True),
        ("SELECT ctid, id FROM w WHERE kind = 3", True),
        ("SELECT tableoid, id FROM w WHERE kind = 3", True),
        ("SELECT id FROM w WHERE kind = 3 FOR UPDATE", True),
        ("SELECT pg_column_size(big) FROM w WHERE kind = 3", True),
        ("SELECT pg_column_size(b) FROM (SELECT big AS b FROM w WHERE kind = 3 OFFSET 0) x", True),
        ("SELECT pg_column_compression(big), id FROM w WHERE kind = 3", True),
    ],
)  # fmt: skip
def test_rows_as_values(cluster: Cluster, narrow: str, query: str, fetched: bool) -> None:
    """An index that has all columns gives the rows, where nobody asks for more than the values."""
    with ask(cluster, narrow) as conn:
        assert fetches(conn, query) is fetched
        ours = sorted(conn.execute(query.encode()).fetchall(), key=repr)
        conn.execute("SET pgbillion_rows.enable = off")
        assert sorted(conn.execute(query.encode()).fetchall(), key=repr) == ours
        assert len(ours) > 20


def test_values_are_stored_elsewhere(cluster: Cluster, narrow: str) -> None:
    with ask(cluster, narrow) as conn:
        conn.execute("CREATE TABLE copied AS SELECT id, price, long, big FROM w WHERE kind = 3")
        conn.execute("INSERT INTO copied SELECT id, price, long, big FROM w WHERE kind = 4 RETURNING id")
        conn.execute("SET pgbillion_rows.enable = off")
        left = "SELECT id, price, long, big FROM w WHERE kind IN (3, 4)"
        assert (
            conn.execute(f"({left} EXCEPT ALL TABLE copied) UNION ALL (TABLE copied EXCEPT ALL {left})").fetchall()
            == []
        )
        conn.execute("DROP TABLE copied")


def test_a_cursor_keeps_its_place(cluster: Cluster, narrow: str) -> None:
    with ask(cluster, narrow) as conn:
        conn.execute("BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT id FROM w WHERE kind = 3")
        row = conn.execute("FETCH 5 FROM c").fetchall()[-1]
        assert conn.execute("UPDATE w SET pad = 'new' WHERE CURRENT OF c RETURNING id").fetchall() == [row]
        conn.execute("ROLLBACK")


def test_the_size_of_a_value_is_the_table_s(cluster: Cluster, narrow: str) -> None:
    with ask(cluster, narrow) as conn:
        conn.execute("SET pgbillion_rows.vector_aggregate = force")
        query = "SELECT sum(pg_column_size(big)), count(*) FROM w WHERE kind = 3"
        ours = conn.execute(query).fetchall()
        conn.execute("SET pgbillion_rows.enable = off")
        assert conn.execute(query).fetchall() == ours


def test_no_workers_for_what_takes_no_time(cluster: Cluster, narrow: str) -> None:
    """PostgreSQL's scan would have workers; the index is read sooner than they start."""
    with ask(cluster, narrow) as conn:
        conn.execute("SET pgbillion_rows.columns = on; SET pgbillion_rows.vector_scan = on")
        conn.execute("SET max_parallel_workers_per_gather = 2; SET cpu_tuple_cost = 1; SET parallel_tuple_cost = 0")
        query = "SELECT id FROM w WHERE word = 'w7'"
        for setup, workers in ((2000, False), (0, True)):
            conn.execute(f"SET parallel_setup_cost = {setup}")
            conn.execute("SET pgbillion_rows.enable = off")
            assert plans.parallel(plans.explain(conn, query))
            conn.execute("SET pgbillion_rows.enable = on")
            assert scan_of(conn, query) is not None
            assert plans.parallel(plans.explain(conn, query)) is workers
