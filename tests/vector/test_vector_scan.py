"""Filters over plain tables, a page at a time: rows, places and locks are those of a sequential scan."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from harness import repeats, servers, vector_tables
from harness.amount import Count
from harness.servers import one
from harness.vector_queries import Generator, Query, literal, parameters
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

QUERIES = int(os.environ.get("PGBILLION_TEST_QUERIES") or 1500)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
NODE = "VectorScan"


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "filters") as name:
        with cluster.connect(name) as conn:
            vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
            conn.execute("CREATE TABLE t (i int PRIMARY KEY, k int, v text)")
            conn.execute("INSERT INTO t SELECT i, i % 10, 'row ' || i FROM generate_series(1, 2000) i")
            conn.execute("VACUUM ANALYZE t")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with session(cluster, database) as conn:
        conn.execute("SET pgbillion_rows.vector_scan = force")
        conn.execute("BEGIN")
        yield conn
        if not conn.closed:
            conn.execute("ROLLBACK")


def session(cluster: Cluster, database: str) -> Connection:
    conn = cluster.connect(database)
    conn.execute("LOAD 'pgbillion_rows'")
    conn.execute(
        "SET search_path = v, public; SET pgbillion_rows.vector_aggregate = off; SET min_parallel_table_scan_size = 0;"
        " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 0;"
        " SET synchronize_seqscans = off; SET extra_float_digits = 1; SET timezone = 'UTC';"
        " SET enable_indexscan = off; SET enable_bitmapscan = off"
    )
    return conn


def has_node(conn: Connection, query: str) -> bool:
    plan = plans.explain(conn, query)
    return any(node.get("Custom Plan Provider") == NODE for node in plans.nodes(plan))


Outcome = tuple[list[tuple[Any, ...]], str | None]


def outcome(conn: Connection, statements: list[str], mode: str) -> Outcome:
    conn.execute("SAVEPOINT one")
    conn.execute(f"SET LOCAL pgbillion_rows.vector_scan = {mode}")
    rows: list[tuple[Any, ...]] = []
    try:
        for statement in statements:
            cursor = conn.execute(statement.encode())
            if cursor.description is not None:
                rows += cursor.fetchall()
    except psycopg.Error as error:
        return [], f"{error.sqlstate} {error.diag.message_primary}"
    finally:
        if not conn.closed:
            conn.execute("ROLLBACK TO one; RELEASE one")
    return rows, None


def statements(query: Query, number: int) -> list[str]:
    """All rows with their places, by the query's conditions, as text: NaN and -0 are told apart."""
    where = " AND ".join(f"({part.sql})" for part in query.where)
    again = repeats.value(random.Random(number), [part.sql for part in query.where])
    columns = ("ctid, tableoid::regclass, xmin, t", "t", f"{again}, id", "count(*) OVER (), ctid, t")[number % 4]
    text = f"SELECT {columns}::text FROM {query.table} t WHERE {where}"
    match number % 5:
        case 0:
            prepared, types, values = parameters(text)
            head = f"PREPARE q{'(' + ','.join(types) + ')' if types else ''} AS {prepared}"
            call = f"EXECUTE q{'(' + ', '.join(values) + ')' if values else ''}"
            return ["DEALLOCATE ALL", "SET LOCAL plan_cache_mode = force_generic_plan", head, call, call]
        case 1:
            return [f"SELECT o.k, s.* FROM (VALUES (0), (700), (99999)) o(k), LATERAL ({literal(text)} AND id > o.k) s"]
        case 2:
            return [f"{literal(text)} ORDER BY id, ctid LIMIT 17"]
        case 3:
            return [f"DECLARE k NO SCROLL CURSOR FOR {literal(text)}", "FETCH 3 FROM k", "FETCH ALL FROM k", "CLOSE k"]
    return [literal(text)]


def test_generated_filters(cluster: Cluster, database: str, tell: Callable[[str], None], counted: Count) -> None:
    generator = Generator(SEED)
    tally: Counter[str] = Counter()
    with session(cluster, database) as conn, vector_tables.unfinished(cluster, database):
        for number in range(QUERIES):
            query = generator.query(number)
            if not query.where:
                continue
            parallel = number % 6 == 0 and number % 5 not in (0, 2, 3)
            conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            conn.execute(f"SET LOCAL max_parallel_workers_per_gather = {2 if parallel else 0}")
            texts = statements(query, number)
            sides = ("off", "force") if number % 2 else ("force", "off")
            found = {side: outcome(conn, texts, side) for side in sides}
            # a join may read its sides in turn
            if parallel or number % 5 == 1:
                found = {side: (sorted(rows, key=repr), error) for side, (rows, error) in found.items()}
            core, ours = found["off"], found["force"]
            # of several errors in a row, which comes first is open where processes share the rows
            if not (parallel and core[1] and ours[1]):
                assert core == ours, f"seed {SEED}, number {number}: {texts}"
            tally["queries"] += 1
            tally["rows"] += len(core[0])
            tally["errors"] += core[1] is not None
            conn.execute("SET LOCAL pgbillion_rows.vector_scan = force")
            last = next(text for text in reversed(texts) if not text.startswith(("CLOSE", "FETCH")))
            if core[1] is None and not last.startswith("EXECUTE"):
                tally["planned"] += has_node(conn, last)
                tally["explained"] += 1
            conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {dict(tally)}")
    counted({"queries": tally["queries"], "with vectors, of those explained": tally["planned"]})
    assert tally["planned"] > 0.35 * tally["explained"]
    assert tally["rows"] > 10 * tally["queries"]


def test_explain(conn: Connection) -> None:
    options = "ANALYZE, VERBOSE, COSTS OFF, TIMING OFF, BUFFERS OFF"
    query = f"EXPLAIN ({options}) SELECT v FROM t WHERE k = 3 AND upper(v) > 'ROW 5'"
    text = "\n".join(row[0] for row in conn.execute(query.encode()))
    assert "Custom Scan (VectorScan) on v.t" in text
    assert "  Filter: (upper(t.v) > 'ROW 5'::text)\n" in text
    assert "  Vectorized Filter: (t.k = 3)\n" in text
    assert "Rows Removed by Vectorized Filter: 1800\n" in text
    assert "Rows Removed by Filter: " in text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t",
        "SELECT * FROM t WHERE ctid = '(0,1)'",
        "SELECT * FROM t WHERE random() < k",
        "SELECT * FROM t TABLESAMPLE system (50) WHERE k = 1",
        "SELECT * FROM t WHERE k = (SELECT i FROM t u WHERE u.i = t.i)",
    ],
)
def test_left_to_postgresql(conn: Connection, query: str) -> None:
    conn.execute(
        "CREATE VIEW pg_class_copy AS SELECT relpages FROM (SELECT relpages, random() FROM pg_class OFFSET 0) x"
    )
    plan = plans.explain(conn, query)
    assert not any(n.get("Custom Plan Provider") == NODE and n.get("Alias") == "t" for n in plans.nodes(plan))


def test_columns_of_other_tables_are_left_to_postgresql(conn: Connection) -> None:
    """What is above an outer join and made of both sides is computed by the scan of one of them."""
    query = (
        "SELECT a.i, s.ai, s.v FROM t a LEFT JOIN LATERAL"
        " (SELECT coalesce(a.i + b.i, 0) AS ai, b.i, b.v FROM t b WHERE b.k = 3) s ON s.i = a.i"
        " WHERE a.i < 40 ORDER BY 1, 2"
    )
    plan = plans.explain(conn, query)
    assert [n.get("Alias") for n in plans.nodes(plan) if n.get("Custom Plan Provider") == NODE] == ["a"]
    ours = conn.execute(query).fetchall()
    conn.execute("SET LOCAL pgbillion_rows.vector_scan = off")
    assert conn.execute(query).fetchall() == ours
    assert [row for row in ours if row[1] is not None] == [(i, 2 * i, f"row {i}") for i in (3, 13, 23, 33)]


def test_no_row_is_looked_at_that_might_raise_an_error(conn: Connection) -> None:
    """With LIMIT, PostgreSQL ends before it comes to the rows which would."""
    query = "SELECT i FROM t WHERE k >= 0 AND 100 / (i - 5) < 0 LIMIT 1"
    assert has_node(conn, query)
    assert conn.execute(query).fetchall() == [(1,)]
    for first in ("v LIKE '%w 1'", "v LIKE 'row 1' OR k < 0", "left(v, 2) IN ('ro', 'x')", "length(v) > 5",
                  "k < 0 OR substring(v FROM 2) = 'ow 1'"):  # fmt: skip
        assert has_node(conn, f"SELECT i FROM t WHERE {first} LIMIT 1")
    conn.execute(
        "PREPARE p(text) AS SELECT i FROM t WHERE v LIKE $1 LIMIT 1; SET LOCAL plan_cache_mode = force_generic_plan"
    )
    assert not has_node(conn, "EXECUTE p('row 1')")
    for first in ("i / 2 > 3", "i + 1 > k", "v || '' = 'row 5'", "(k > 3 OR 1 / i = 1)", "left(v, i) = 'r'",
                  "substring(v, 1, -1) = 'r'"):  # fmt: skip
        assert not has_node(conn, f"SELECT i FROM t WHERE {first} LIMIT 1")


def test_comparisons_of_uuids(conn: Connection) -> None:
    conn.execute(
        "CREATE TABLE keys AS SELECT g AS i, CASE WHEN g % 9 <> 0 THEN md5((g % 500)::text)::uuid END AS u,"
        " CASE WHEN g % 7 <> 0 THEN overlay(md5((g % 500)::text) PLACING to_hex(g % 16) FROM 32)::uuid END AS w"
        " FROM generate_series(1, 6000) g; ANALYZE keys"
    )
    for right in ("w", "md5('77')::uuid", "'00000000-0000-0000-0000-000000000000'", "NULL::uuid"):
        for op in ("=", "<>", "<", "<=", ">", ">="):
            for condition in (
                f"u {op} {right}",
                f"{right} {op} u",
                f"u {op} {right} OR i < 3",
                f"NOT (u {op} {right})",
            ):
                query = f"SELECT i, u, w FROM keys WHERE {condition} ORDER BY i"
                results = []
                for ours in (True, False):
                    plans.switch(conn, ours)
                    results.append(conn.execute(query.encode()).fetchall())
                plans.switch(conn, True)
                assert results[0] == results[1], query
    for condition in ("u = md5('77')::uuid", "u < w", "w <> u OR i < 3"):
        scans = [
            n for n in plans.nodes(plans.explain(conn, f"SELECT i FROM keys WHERE {condition}")) if "Filter" not in n
        ]
        assert [n.get("Custom Plan Provider") for n in scans] == [NODE], condition


@pytest.mark.parametrize("aggregate", ["off", "force"])
def test_no_parameter_is_looked_at_that_has_no_value(conn: Connection, aggregate: str) -> None:
    conn.execute(
        "CREATE FUNCTION f(assign bool) RETURNS bigint LANGUAGE plpgsql AS $$"
        "DECLARE r record; n bigint; BEGIN IF assign THEN SELECT 5 AS x INTO r; END IF;"
        " SELECT count(*) INTO n FROM t WHERE k >= 0 OR i = r.x; RETURN n; END$$"
    )
    conn.execute(f"SET LOCAL pgbillion_rows.vector_aggregate = {aggregate}")
    conn.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    assert one(conn, "SELECT f(true)") == one(conn, "SELECT f(false)") == 2000


def test_row_security_is_left_to_postgresql(conn: Connection) -> None:
    conn.execute(
        "CREATE ROLE filter_reader; GRANT SELECT ON t TO filter_reader; GRANT USAGE ON SCHEMA v TO filter_reader"
    )
    conn.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    conn.execute("CREATE POLICY p ON t USING (i < 100)")
    conn.execute("SET LOCAL ROLE filter_reader")
    assert not has_node(conn, "SELECT * FROM t WHERE k = 1")
    assert one(conn, "SELECT count(*) FROM t WHERE k = 1") == 10


def test_small_tables_and_unselective_filters_stay_as_they_are(conn: Connection) -> None:
    conn.execute("SET LOCAL pgbillion_rows.vector_scan = on")
    assert not has_node(conn, "SELECT * FROM t WHERE k = 3")
    conn.execute("CREATE TABLE big AS SELECT i, i % 10 AS k, repeat('x', 20) AS v FROM generate_series(1, 100000) i")
    conn.execute("ANALYZE big")
    assert has_node(conn, "SELECT * FROM big WHERE k = 3")
    assert not has_node(conn, "SELECT * FROM big WHERE k >= 0")
    assert not has_node(conn, "SELECT * FROM big WHERE upper(v) < 'A'")  # no kernel
    conn.execute("SET LOCAL pgbillion_rows.vector_scan = off")
    assert not has_node(conn, "SELECT * FROM big WHERE k = 3")


def test_writes(conn: Connection) -> None:
    assert has_node(conn, "UPDATE t SET k = -1 WHERE k = 3")
    updated = conn.execute("UPDATE t SET k = -1 WHERE k = 3 RETURNING i").fetchall()
    assert len(updated) == 200
    deleted = conn.execute("DELETE FROM t USING t u WHERE t.k = -1 AND u.i = t.i RETURNING t.i").fetchall()
    assert sorted(deleted) == sorted(updated)
    assert one(conn, "SELECT count(*) FROM t WHERE k = 3 OR k = -1") == 0


def test_current_of_and_scrolling(conn: Connection) -> None:
    conn.execute("DECLARE c NO SCROLL CURSOR FOR SELECT * FROM t WHERE k = 4 FOR UPDATE")
    first = conn.execute("FETCH 2 FROM c").fetchall()
    conn.execute("UPDATE t SET v = 'here' WHERE CURRENT OF c")
    assert conn.execute("SELECT i FROM t WHERE v = 'here'").fetchall() == [(first[1][0],)]
    conn.execute("DECLARE d CURSOR FOR SELECT i FROM t WHERE k = 5")  # may be scrolled, as PostgreSQL has it
    two = conn.execute("FETCH 2 FROM d").fetchall()
    assert conn.execute("FETCH BACKWARD 1 FROM d").fetchall() == two[:1]
    for number, scroll in enumerate(("", "SCROLL", "NO SCROLL")):
        conn.execute(f"DECLARE e{number} {scroll} CURSOR FOR SELECT i FROM t WHERE k = 7".encode())
        at = conn.execute(f"FETCH 2 FROM e{number}".encode()).fetchall()[1]
        updated = conn.execute(f"UPDATE t SET v = '' WHERE CURRENT OF e{number} RETURNING i".encode()).fetchall()
        assert updated == [at], scroll
        conn.execute(f"CLOSE e{number}".encode())
    conn.execute(
        "DO $$DECLARE r record; k CURSOR FOR SELECT * FROM t WHERE k = 6 FOR UPDATE; BEGIN"
        " FOR r IN k LOOP DELETE FROM t WHERE CURRENT OF k; END LOOP; END$$"
    )
    assert one(conn, "SELECT count(*) FROM t WHERE k = 6") == 0


def test_rows_updated_meanwhile_are_checked_again(cluster: Cluster, database: str, conn: Connection) -> None:
    """What waits for another transaction looks at the new row: the filter holds for it, or it is no answer."""
    conn.execute("COMMIT")
    conn.execute("UPDATE t SET k = 40 WHERE i IN (1, 2, 3)")
    found: list[Any] = []
    with session(cluster, database) as other:
        other.execute("SET pgbillion_rows.vector_scan = force")
        query = "SELECT t.i, t.v FROM t JOIN t u USING (i) WHERE t.k = 40 AND u.k = 40 FOR UPDATE OF t"
        assert has_node(other, query)
        conn.execute("BEGIN")
        conn.execute("UPDATE t SET k = 41 WHERE i = 1; UPDATE t SET v = 'new' WHERE i = 2")
        thread = threading.Thread(target=lambda: found.extend(other.execute(query).fetchall()))
        thread.start()
        servers.until(
            lambda: (
                one(conn, "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = %s", other.info.backend_pid) > 0
            ),
            "the lock",
        )
        conn.execute("COMMIT")
        thread.join()
    assert sorted(found) == [(2, "new"), (3, "row 3")]
    conn.execute("UPDATE t SET k = i % 10, v = 'row ' || i WHERE i < 4; BEGIN")


def test_errors_and_cancellation(conn: Connection) -> None:
    with pytest.raises(errors.DivisionByZero):
        conn.execute("SELECT * FROM t WHERE k > 0 AND 1 / (i - 1999) > 0")
    conn.execute("ROLLBACK; BEGIN; SET LOCAL statement_timeout = 50")
    with pytest.raises(errors.QueryCanceled):
        conn.execute("SELECT count(*) FROM t a, t b, t c WHERE a.k > 1 AND b.k > 1 AND c.k > 1")
