"""Joins and aggregations that read keys and filters from a columnar index, and fetch other columns for the rows left.

PGBILLION_TEST_LATE is how many queries are generated (default 400; beside writers a quarter), and PGBILLION_TEST_SEED
repeats a run.
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

from harness import join_queries, servers
from harness.amount import Count, amount
from harness.join_queries import KEYS, MixedGenerator
from harness.servers import one
from harness.sessions import beside
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.rows.answers import Answer, Tolerance
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_LATE", 400, 100)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
QUERIES_OF_SCHEMA = 150
FAILURES_SHOWN = 3
# of floats that are added in another order
TOLERANCE = Tolerance(float4=1e-3, float8=1e-6, absolute=1e-6)
LATE = "Fetched Columns"
FORCED = (
    "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_join = force; SET pgbillion_rows.vector_aggregate = force;"
    " SET pgbillion_rows.columns = force; SET pgbillion_rows.eager_aggregate = off; SET enable_nestloop = off;"
    " SET enable_mergejoin = off; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
    " SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 0; SET timezone = 'UTC';"
    " SET statement_timeout = '120s'"
)
LITTLE = "SET work_mem = '64kB'; SET hash_mem_multiplier = 1"

FACTS = 20_000
# of f the index has the keys and what is filtered; a part of its blocks is changed after that
TABLES = f"""
CREATE TABLE f (id int, k int, s text, gone int, kind int, n int NOT NULL DEFAULT 0, price numeric(10, 2), word text,
    pad text, big text, flags bool, at timestamptz) WITH (fillfactor = 80);
INSERT INTO f SELECT i, nullif(i % 500, 7), nullif('s' || i % 300, 's5'), i, i % 40, 0,
    CASE WHEN i % 9 > 0 THEN i / 100.0 END, nullif(md5(i::text), md5('99')), repeat('p', 100 + i % 50),
    CASE WHEN i % 400 = 3 THEN (SELECT string_agg(md5(j::text), '') FROM generate_series(i, i + 300) j) END,
    nullif(i % 3, 2) = 1, timestamptz '2024-01-01 00:00+00' + i * interval '1 s' FROM generate_series(1, {FACTS}) i;
ALTER TABLE f DROP COLUMN gone;
CREATE TABLE d (k int, k2 bigint, name text, w int);
INSERT INTO d SELECT nullif(i * 5, 30), i % 7, 'Name ' || i % 9, nullif(i, 20) FROM generate_series(1, 60) i;
CREATE TABLE e (s text, grade int);
INSERT INTO e SELECT nullif('s' || i * 3, 's9'), i % 5 FROM generate_series(1, 60) i;
CREATE TABLE many (k int, y int);
INSERT INTO many SELECT i % 9, i FROM generate_series(1, 3000) i;
VACUUM f;
UPDATE f SET n = n + 1 WHERE id % 9 = 0 AND id < 8000;
DELETE FROM f WHERE id % 50 = 1 AND id BETWEEN 4000 AND 12000;
VACUUM f;
CREATE INDEX f_columns ON f USING columns (id, k, s, kind) WITH (segment_blocks = 32);
ALTER TABLE f ADD COLUMN later text DEFAULT 'later', ADD COLUMN empty int;
-- the order of tuples in their blocks changes, the index does not
UPDATE f SET n = n + 1 WHERE id % 6 = 0 AND id > 2000;
VACUUM f;
-- and blocks that have to be read from the table
UPDATE f SET n = n + 1, kind = kind WHERE id BETWEEN 15000 AND 15200;
DELETE FROM f WHERE id % 97 = 3 AND id > 17000;
INSERT INTO f SELECT i, i % 500, 's' || i % 300, i % 40, 5, 1, NULL, repeat('q', 100), NULL, true, now()
    FROM generate_series({FACTS} + 1, {FACTS} + 50) i;
ANALYZE;
"""


@pytest.fixture(scope="module")
def facts(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "late_columns") as name:
        with cluster.connect(name) as conn:
            for statement in TABLES.split(";\n"):
                if statement.strip():
                    conn.execute(statement.encode())
            share = one(conn, "SELECT sum(readable_blocks) / sum(table_blocks) FROM pgbillion_rows.columns_status('f')")
            assert 0.5 < share < 1
            assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('f')").fetchall() == []
        yield name


def ask(cluster: Cluster, name: str) -> Connection:
    conn = cluster.connect(name)
    conn.prepare_threshold = None
    conn.execute(FORCED.encode())
    return conn


@pytest.fixture
def late(cluster: Cluster, facts: str) -> Iterator[Connection]:
    """A session with all forced, in a transaction that is rolled back."""
    with ask(cluster, facts) as conn:
        conn.execute("BEGIN")
        yield conn
        if not conn.closed:
            conn.execute("ROLLBACK")


def late_nodes(plan: plans.Plan) -> list[plans.Plan]:
    return [node for node in plans.nodes(plan) if node.get(LATE)]


def rows_of(conn: Connection, query: str) -> list[tuple[Any, ...]]:
    return sorted(conn.execute(query.encode()).fetchall(), key=repr)


def both(conn: Connection, query: str, fetched: bool | None = True) -> list[tuple[Any, ...]]:
    """The rows, which are PostgreSQL's. ``fetched``: does the join fetch columns?"""
    ours = rows_of(conn, query)
    if fetched is not None:
        found = late_nodes(plans.explain(conn, query, run=fetched))
        assert bool(found) is fetched, plans.text(conn, query)
        assert not fetched or sum(node["Rows Fetched"] for node in found) > 0
    conn.execute("SET pgbillion_rows.enable = off")
    core = rows_of(conn, query)
    conn.execute("SET pgbillion_rows.enable = on")
    assert ours == core, query
    return ours


ALL = "f.id, f.n, f.price, f.word, f.pad, f.big, f.flags, f.at, f.later, f.empty, f.kind"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {ALL}, d.name FROM f JOIN d ON d.k = f.k WHERE kind < 20",
        f"SELECT {ALL}, d.name FROM f LEFT JOIN d ON d.k = f.k WHERE kind = 3",
        f"SELECT {ALL} FROM f WHERE kind < 30 AND EXISTS (SELECT FROM d WHERE d.k = f.k)",
        f"SELECT {ALL} FROM f WHERE kind < 35 AND NOT EXISTS (SELECT FROM d WHERE d.k = f.k)",
        f"SELECT {ALL} FROM f WHERE kind < 9 AND k IN (SELECT k FROM d WHERE w > 5)",
        f"SELECT {ALL}, d.name, e.grade FROM f JOIN d ON d.k = f.k JOIN e ON e.s = f.s",
        f"SELECT {ALL}, d.name, e.grade FROM f JOIN d ON d.k = f.k LEFT JOIN e ON e.s = f.s AND e.grade > d.w % 5",
        f"SELECT {ALL}, d.name FROM f JOIN d ON d.k = f.k AND f.id % 3 > d.w % 3",
        f"SELECT {ALL}, d.name FROM f LEFT JOIN d ON d.k = f.k WHERE kind < 5 AND coalesce(d.w, 3) + f.id > 100",
        # rows with many matches, and none
        "SELECT f.pad, f.n, many.y FROM f LEFT JOIN many ON many.k = f.kind AND many.y < 60 WHERE f.kind < 12",
        "SELECT f.pad FROM f JOIN d ON d.k = f.k WHERE f.id < 0",
        # one column, and the last one
        "SELECT f.empty FROM f JOIN d ON d.k = f.k",
        "SELECT f.later, d.w FROM f JOIN d ON d.k = f.k",
        # what is above the join computes, sorts and groups
        "SELECT upper(f.word) || d.name, f.price * 2 FROM f JOIN d ON d.k = f.k WHERE kind = 5 ORDER BY f.at",
        "SELECT f.word, d.name FROM f JOIN d ON d.k = f.k WHERE f.kind < 25"
        " ORDER BY f.price DESC NULLS LAST, f.id LIMIT 9",
        "SELECT * FROM (SELECT f.word, rank() OVER (PARTITION BY d.name ORDER BY f.at) r FROM f JOIN d ON d.k = f.k) x"
        " WHERE r < 4",
        "SELECT DISTINCT f.flags, d.name FROM f JOIN d ON d.k = f.k",
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["", LITTLE, "SET max_parallel_workers_per_gather = 2"])
def test_joins(late: Connection, query: str, how: str) -> None:
    late.execute(how.encode())
    found = both(late, query, None if "id < 0" in query else True)
    assert bool(found) is ("id < 0" not in query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT d.name, sum(f.price), count(f.word), min(f.word), max(f.at) FROM f JOIN d ON d.k = f.k GROUP BY 1",
        "SELECT f.flags, count(*), max(f.big) FROM f JOIN d ON d.k = f.k WHERE f.kind < 20 GROUP BY 1",
        "SELECT sum(f.n), bool_or(f.flags) FROM f JOIN d ON d.k = f.k JOIN e ON e.s = f.s",
        "SELECT f.word, count(DISTINCT f.pad), sum(f.n * d.w) FROM f JOIN d ON d.k = f.k GROUP BY 1",
        "SELECT count(*) FILTER (WHERE f.price > 50), string_agg(f.word, ',' ORDER BY f.word)"
        " FROM f JOIN d ON d.k = f.k",
    ],
)
@pytest.mark.parametrize("how", ["", LITTLE, "SET max_parallel_workers_per_gather = 2"])
def test_aggregates(late: Connection, query: str, how: str) -> None:
    late.execute(how.encode())
    assert both(late, query, None if "string_agg" in query else True)


OF_ONE_TABLE = [
    "SELECT count(*), sum(f.n), sum(f.price), count(f.word), min(f.word), max(f.at), bool_or(f.flags) FROM f"
    " WHERE kind < 20",
    f"SELECT {', '.join(f'count({column})' for column in ALL.split(', '))}, max(f.big), max(f.pad) FROM f WHERE k = 5",
    "SELECT f.flags, count(*), sum(f.id), max(f.big) FROM f WHERE f.kind IN (3, 5) AND f.id > 50 GROUP BY 1",
    "SELECT f.word, count(DISTINCT f.pad), sum(f.n) FROM f WHERE f.kind < 20 GROUP BY 1",
    "SELECT f.pad, f.s, avg(f.price), count(f.empty), min(f.later) FROM f WHERE s > 's2' GROUP BY 1, 2",
    "SELECT DISTINCT f.pad, f.flags, f.k FROM f WHERE k IS NOT NULL AND kind = 5",
    "SELECT kind, sum(n) FILTER (WHERE price > 50), max(upper(word)) FROM f WHERE id % 3 = 0 GROUP BY ROLLUP (kind)",
    "SELECT pad, count(*) FROM f WHERE kind = 7 GROUP BY 1 HAVING max(n) >= 1 ORDER BY 2 DESC, 1 LIMIT 5",
    "SELECT length(pad), percentile_cont(0.5) WITHIN GROUP (ORDER BY n), mode() WITHIN GROUP (ORDER BY n)"
    " FROM f WHERE kind < 9 GROUP BY 1",
    # conditions on no column of the index's, and one that PostgreSQL evaluates row by row
    "SELECT sum(n), min(word) FROM f WHERE kind = 5 AND id NOT IN (SELECT k * 8 + 5 FROM d WHERE k > 9)",
    "SELECT sum(n), min(word) FROM f WHERE kind < (SELECT max(grade) FROM e) AND s ~ '[13]$'",
]


@pytest.mark.parametrize("query", OF_ONE_TABLE)
@pytest.mark.parametrize("how", ["", LITTLE, "SET max_parallel_workers_per_gather = 2"])
def test_aggregates_of_one_table(late: Connection, query: str, how: str) -> None:
    late.execute(how.encode())
    assert both(late, query)


@pytest.mark.parametrize(
    "query",
    [
        # a condition on a column that the index lacks, or none by which rows are removed
        "SELECT sum(n) FROM f WHERE kind = 5 AND price > 3",
        "SELECT sum(n), count(*) FROM f",
        "SELECT sum(n), count(*) FROM f WHERE timeofday() <> ''",
        # system columns, and rows as such
        "SELECT count(f.pad), max(ctid) FROM f WHERE kind = 5",
        "SELECT count(f) FROM f WHERE kind = 5",
        "SELECT sum(pg_column_size(big)) FROM f WHERE kind < 20",
    ],
)
def test_aggregates_that_fetch_nothing(late: Connection, query: str) -> None:
    assert both(late, query, False)


def test_no_row_is_left(late: Connection) -> None:
    for query in (
        "SELECT sum(n), count(word) FROM f WHERE k = -1",
        "SELECT pad, sum(n) FROM f WHERE k = -1 GROUP BY 1",
    ):
        both(late, query, None)
        assert late_nodes(plans.explain(late, query))


def test_both_sides_are_spilled(late: Connection) -> None:
    """What says where rows are goes through the files, and partitions mix the order of blocks."""
    late.execute(LITTLE)
    query = (
        "SELECT f.id, f.pad, f.n, m.y, g.x FROM f JOIN (SELECT k * 50 AS k, y FROM many WHERE y % 3 = 0) m ON m.k = f.k"
        " JOIN (SELECT i, repeat('x', 50) || i AS x FROM generate_series(1, 20000) i) g ON g.i = f.id"
    )
    assert len(both(late, query)) > 10_000
    node = late_nodes(plans.explain(late, query, run=True))[0]
    assert "partitions=" in repr(node), node


@pytest.mark.parametrize(
    "query",
    [
        # conditions on columns that the index lacks, in all places
        "SELECT f.pad FROM f JOIN d ON d.k = f.k AND f.n > d.w % 2",
        "SELECT f.pad FROM f JOIN d ON d.k = f.k WHERE f.price > 3",
        "SELECT f.pad FROM f LEFT JOIN d ON d.k = f.k WHERE f.n + coalesce(d.w, 1) > 1",
        "SELECT f.pad FROM f JOIN d ON d.k = f.n",
        # system columns, and rows as such
        "SELECT f.pad, f.ctid FROM f JOIN d ON d.k = f.k",
        "SELECT f, d.name FROM f JOIN d ON d.k = f.k",
        # rows that are locked
        "SELECT f.pad FROM f JOIN d ON d.k = f.k FOR UPDATE OF f",
    ],
)
def test_what_fetches_nothing(late: Connection, query: str) -> None:
    assert both(late, query, False)


def test_an_index_with_all_columns_fetches_nothing(late: Connection) -> None:
    late.execute("CREATE INDEX f_all ON f USING columns (id, k, pad, n)")
    both(late, "SELECT f.pad, f.n, d.name FROM f JOIN d ON d.k = f.k", False)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT pg_column_size(g.big), g.pad FROM g JOIN d ON d.k = g.k",
        "SELECT pg_column_size(b) FROM (SELECT g.big AS b, g.pad FROM g JOIN d ON d.k = g.k OFFSET 0) x",
        "SELECT (SELECT pg_column_compression(g.big) WHERE g.k > 0) FROM g JOIN d ON d.k = g.k",
        "SELECT pg_column_size(x) FROM (SELECT g.big FROM g JOIN d ON d.k = g.k"
        " UNION ALL SELECT g.big FROM g JOIN e ON e.grade = g.k) q (x)",
    ],
)
def test_how_values_are_stored(late: Connection, query: str) -> None:
    """An index has values without compression."""
    late.execute(
        "CREATE TABLE g AS SELECT i % 100 AS k, repeat('xyz', 1200) AS big, 'p' AS pad FROM generate_series(1, 900) i"
    )
    late.execute("CREATE INDEX ON g USING columns (k, big); ANALYZE g")
    both(late, query, False)
    assert both(late, "SELECT g.big, g.pad FROM g JOIN d ON d.k = g.k", None)
    assert "Columns: g_k_big_idx" in plans.text(late, "SELECT g.big, g.pad FROM g JOIN d ON d.k = g.k")


def test_expressions_of_the_index(cluster: Cluster, facts: str) -> None:
    """They are read from it, and what they are made of is fetched if it is returned or aggregated."""
    with ask(cluster, facts) as conn:
        conn.execute("CREATE TABLE j (id int, document jsonb, pad text)")
        conn.execute(
            "INSERT INTO j SELECT i, jsonb_build_object('k', i % 500, 'n', i, 'w', 'w' || i % 9), repeat('x', 200)"
            " FROM generate_series(1, 5000) i; ANALYZE j"
        )
        conn.execute("VACUUM j")
        conn.execute("CREATE INDEX ON j USING columns (((document ->> 'k')::int), ((document ->> 'w')))")
        # of the expressions, too
        conn.execute("ANALYZE j")
        conn.execute("DELETE FROM j WHERE id % 700 = 1")
        try:
            for query in (
                "SELECT j.id, j.document, d.name FROM j JOIN d ON d.k = (j.document ->> 'k')::int",
                "SELECT j.pad, j.id FROM j JOIN d ON d.k = (j.document ->> 'k')::int WHERE j.document ->> 'w' = 'w4'",
                "SELECT j.document ->> 'w', sum(j.id) FROM j JOIN d ON d.k = (j.document ->> 'k')::int GROUP BY 1",
                "SELECT j.document ->> 'w', sum(j.id), max(j.document ->> 'n') FROM j"
                " WHERE (j.document ->> 'k')::int < 50 GROUP BY 1",
            ):
                assert both(conn, query)
        finally:
            conn.execute("DROP TABLE j")


def test_explain(late: Connection) -> None:
    query = "SELECT f.pad, f.n, d.name FROM f JOIN d ON d.k = f.k WHERE kind = 5"
    text = "\n".join(row[0] for row in late.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {query}".encode()))
    rows = len(late.execute(query.encode()).fetchall())
    assert "  Columns: f_columns\n" in text
    assert "  Fetched Columns: f.n, f.pad\n" in text
    assert f"  Rows Fetched: rows={rows} blocks=" in text


def test_explain_of_one_table(late: Connection) -> None:
    query = "SELECT k, sum(n), min(pad) FROM f WHERE kind = 5 GROUP BY 1"
    text = "\n".join(
        row[0] for row in late.execute(f"EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) {query}".encode())
    )
    rows = one(late, "SELECT count(*) FROM f WHERE kind = 5")
    removed = one(late, "SELECT count(*) FROM f WHERE kind <> 5 OR kind IS NULL")
    assert "  Columns: f_columns\n" in text
    assert "  Fetched Columns: f.n, f.pad\n" in text
    assert "  Table Columns: k, kind, n, pad\n" in text
    assert f"  Rows Fetched: rows={rows} blocks=" in text
    assert f"  Rows Removed by Filter: {removed}\n" in text


def test_rescans(late: Connection) -> None:
    for query in (
        "SELECT o.x, (SELECT max(f.word) FROM f WHERE f.id > o.x AND kind = 5) FROM (VALUES (0), (9000), (19900)) o(x)",
        "SELECT o.x, q.* FROM (VALUES (0), (9000), (NULL), (19000)) o(x),"
        " LATERAL (SELECT f.pad, sum(f.n) FROM f WHERE f.id > o.x GROUP BY 1) q",
        "SELECT o.x, q.* FROM (VALUES (0), (9000), (NULL), (19000)) o(x),"
        " LATERAL (SELECT f.pad, f.n, d.name FROM f JOIN d ON d.k = f.k WHERE f.id > o.x OFFSET 0) q",
        "SELECT o.x, (SELECT max(f.word) FROM f JOIN d ON d.k = f.k WHERE f.id > o.x)"
        " FROM (VALUES (0), (9000), (19900)) o(x)",
    ):
        both(late, query)
    late.execute(LITTLE)
    both(
        late,
        "SELECT o.x, q.* FROM (VALUES (0), (9000), (19000)) o(x), LATERAL (SELECT f.pad, f.n, m.y FROM f"
        " JOIN (SELECT k * 50 AS k, y FROM many WHERE y % 9 = 0) m ON m.k = f.k WHERE f.id > o.x OFFSET 0) q",
    )


def test_serializable(cluster: Cluster, facts: str) -> None:
    """The index is not read; rows and their columns are the table's."""
    with ask(cluster, facts) as conn:
        conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        query = f"SELECT {ALL}, d.name FROM f JOIN d ON d.k = f.k WHERE kind = 5"
        assert both(conn, query)
        node = late_nodes(plans.explain(conn, query, run=True))[0]
        assert node["Column Blocks Read"] == 0
        for aggregates in OF_ONE_TABLE:
            both(conn, aggregates, None)
        conn.execute("ROLLBACK")


def test_cursors_over_changes_of_their_transaction(late: Connection) -> None:
    seen = []
    for mode in ("off", "on"):
        late.execute(f"SAVEPOINT a; SET LOCAL pgbillion_rows.enable = {mode}")
        late.execute("DECLARE c NO SCROLL CURSOR FOR SELECT f.id, f.n, f.pad, d.name FROM f JOIN d ON d.k = f.k")
        found = late.execute("FETCH 5 FROM c").fetchall()
        late.execute("UPDATE f SET n = n + 1, pad = 'changed'; DELETE FROM f WHERE id % 3 = 0")
        late.execute("INSERT INTO f (id, k, kind) SELECT -i, 5, 5 FROM generate_series(1, 5000) i")
        found += late.execute("FETCH ALL FROM c").fetchall()
        seen.append(sorted(found, key=repr))
        late.execute("ROLLBACK TO a")
    assert seen[0] == seen[1]
    assert len(seen[0]) > 2000


def test_own_changes_within_a_statement(late: Connection) -> None:
    """A function that the statement calls changes rows whose columns have yet to be fetched."""
    late.execute(
        "CREATE FUNCTION bump(int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        " UPDATE f SET n = n + 1000, word = 'changed' WHERE id BETWEEN $1 AND $1 + 3000 AND id % 10 = 0;"
        " DELETE FROM f WHERE id BETWEEN $1 + 50 AND $1 + 90; RETURN $1; END $$"
    )
    query = (
        "SELECT f.id, f.n, f.word, d.name, CASE WHEN f.id % 1000 = 10 THEN bump(f.id) END FROM f JOIN d ON d.k = f.k"
    )
    seen = []
    for mode in ("off", "on"):
        late.execute(f"SAVEPOINT a; SET LOCAL pgbillion_rows.enable = {mode}")
        seen.append(rows_of(late, query))
        late.execute("ROLLBACK TO a")
    assert seen[0] == seen[1]
    assert len(seen[0]) > 2000


def test_rows_go_into_the_table_that_is_read(late: Connection) -> None:
    seen = []
    for mode in ("off", "on"):
        late.execute(f"SAVEPOINT a; SET LOCAL pgbillion_rows.enable = {mode}")
        text = (
            "INSERT INTO f (id, k, kind, word, pad) SELECT f.id + 100000, f.k, f.kind, f.word, f.pad || d.name"
            " FROM f JOIN d ON d.k = f.k"
        )
        if mode == "on":
            assert late_nodes(plans.explain(late, text))
        late.execute(text.encode())
        seen.append(rows_of(late, "SELECT id, k, kind, word, pad FROM f WHERE id > 100000"))
        late.execute("ROLLBACK TO a")
    assert seen[0] == seen[1]
    assert len(seen[0]) > 2000


def test_changes_of_others_after_the_snapshot(cluster: Cluster, facts: str) -> None:
    """Rows are changed, removed, and their line pointers used again, between snapshot and query."""
    query = f"SELECT {ALL}, d.name FROM f JOIN d ON d.k = f.k WHERE kind < 20"
    with ask(cluster, facts) as conn, cluster.connect(facts) as other:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        before = both(conn, query)
        aggregated = [both(conn, aggregates) for aggregates in OF_ONE_TABLE]
        conn.execute("DECLARE c NO SCROLL CURSOR FOR " + query)
        found = conn.execute("FETCH 10 FROM c").fetchall()
        other.execute("UPDATE f SET n = n + 1 WHERE id % 7 = 0")
        other.execute("UPDATE f SET kind = kind, pad = pad || 'x' WHERE id % 11 = 0")
        other.execute("DELETE FROM f WHERE id % 13 = 0")
        other.execute("VACUUM (INDEX_CLEANUP ON) f")
        other.execute(
            "INSERT INTO f (id, k, kind, pad) SELECT i, i % 500, i % 40, 'new' FROM generate_series(1, 3000) i"
        )
        other.execute("VACUUM (INDEX_CLEANUP ON) f")
        other.execute("CALL pgbillion_rows.columns_refresh('f')")
        found += conn.execute("FETCH ALL FROM c").fetchall()
        assert sorted(found, key=repr) == before
        assert both(conn, query) == before
        assert [both(conn, aggregates) for aggregates in OF_ONE_TABLE] == aggregated
        conn.execute("ROLLBACK")
        both(conn, query)
        for aggregates in OF_ONE_TABLE:
            both(conn, aggregates)
        other.execute("VACUUM f")
        other.execute("CALL pgbillion_rows.columns_refresh('f')")
        both(conn, query)


def test_it_is_canceled(cluster: Cluster, facts: str) -> None:
    with ask(cluster, facts) as conn:
        query = (
            "SELECT sum(length(x.pad)), min(x.word) FROM (SELECT f.pad, f.word, m2.y FROM f"
            " LEFT JOIN many m ON m.k = f.kind LEFT JOIN many m2 ON m2.k = m.k OFFSET 0) x"
        )
        assert late_nodes(plans.explain(conn, query))
        conn.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute(query.encode())
        conn.execute("SET statement_timeout = '120s'")
        both(conn, f"SELECT {ALL}, d.name FROM f JOIN d ON d.k = f.k WHERE kind = 5")
        query = (
            "SELECT x, (SELECT count(DISTINCT sha512((pad || n || x)::bytea)) FROM f WHERE kind < 39 AND f.id > -x)"
            " FROM generate_series(1, 900) x"
        )
        assert late_nodes(plans.explain(conn, query))
        conn.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute(query.encode())
        conn.execute("SET statement_timeout = '120s'")
        both(conn, OF_ONE_TABLE[0])


def test_chosen_where_few_rows_are_left(cluster: Cluster) -> None:
    """Nothing is forced: few rows are fetched, and many are read from the table."""
    with servers.new_database(cluster, "late_chosen") as name, cluster.connect(name) as conn:
        conn.execute("CREATE TABLE f (id int, k int, pad text, word text)")
        conn.execute(
            "INSERT INTO f SELECT i, i % 10000, repeat('p', 400), md5(i::text) FROM generate_series(1, 60000) i"
        )
        conn.execute("CREATE TABLE few AS SELECT i AS k, 'n' || i AS name FROM generate_series(1, 5) i")
        conn.execute("CREATE TABLE most AS SELECT i AS k, 'n' || i AS name FROM generate_series(1, 9000) i")
        conn.execute("VACUUM ANALYZE f")
        conn.execute("ANALYZE few, most")
        conn.execute("CREATE INDEX ON f USING columns (id, k)")
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0")
        for table, expected in (("few", True), ("most", False)):
            query = f"SELECT f.pad, f.word, s.name FROM f JOIN {table} s ON s.k = f.k"
            plan = plans.explain(conn, query)
            assert bool(late_nodes(plan)) is expected, plans.text(conn, query)
            both(conn, query, expected)
        for condition, expected in (
            ("k < 20", True),
            ("id BETWEEN 1000 AND 1100", True),
            ("k < 9000", False),
            ("k > 5000", False),
            ("id > 0", False),
        ):
            query = f"SELECT word, max(pad) FROM f WHERE {condition} GROUP BY 1"
            both(conn, query, expected)
        # an index of PostgreSQL's leads to few rows faster
        conn.execute("CREATE INDEX ON f (id)")
        both(conn, "SELECT word, max(pad) FROM f WHERE id BETWEEN 1000 AND 1010 GROUP BY 1", False)


# generated joins


def prepare(conn: Connection, seed: int) -> join_queries.Schema:
    """Tables of generated joins, with indexes of their keys and maybe some other columns, and changed since."""
    made = join_queries.schema(seed)
    chance = random.Random(seed)
    for statement in made.statements:
        conn.execute(statement.encode())
    names = [
        name for (name,) in conn.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^t[0-9]'")
    ]
    for name in sorted(names):
        for (index,) in conn.execute(
            "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'columns' AND i.indrelid = %s::regclass",
            [name],
        ).fetchall():
            conn.execute(f"DROP INDEX {index}".encode())
        conn.execute(f"VACUUM {name}")
        columns = [*KEYS, *chance.sample(join_queries.PAYLOADS, chance.choice((0, 1, 1, 2, 3)))]
        conn.execute(f"CREATE INDEX ON {name} USING columns ({', '.join(columns)}) WITH (segment_blocks = 8)")
        if chance.random() < 0.6:
            conn.execute(f"UPDATE {name} SET o = NOT o WHERE v % {chance.choice((3, 50, 300))} = 0")
        if chance.random() < 0.4:
            conn.execute(f"DELETE FROM {name} WHERE v % {chance.choice((7, 90))} = 5")
        if chance.random() < 0.6:
            conn.execute(f"VACUUM {name}")
        if chance.random() < 0.3:
            conn.execute(f"UPDATE {name} SET w = w || '+' WHERE v % 41 = 0")
    conn.execute("ANALYZE")
    return made


Outcome = Answer | str


def run(conn: Connection, query: join_queries.JoinQuery, ours: bool) -> tuple[Outcome, str]:
    """The answer, or the error's SQLSTATE, and the plan."""
    before, text = query.statements()
    settings = [one for one in query.settings if "columns" not in one and "eager" not in one]
    script = ["SAVEPOINT one", "SET LOCAL statement_timeout = '5s'", *(f"SET LOCAL {one}" for one in settings)]
    script += [] if ours else ["SET LOCAL pgbillion_rows.enable = off"]
    plan = ""
    try:
        conn.execute("; ".join([*script, *before]).encode())
        if ours:
            plan = "\n".join(line for (line,) in conn.execute(f"EXPLAIN (COSTS OFF) {text}".encode()))
        return answers.answer(conn.execute(text.encode())), plan
    except psycopg.OperationalError as error:
        if not isinstance(error, psycopg.errors.QueryCanceled):
            raise AssertionError(f"{error}\n    {query}") from error
        return "57014", plan
    except psycopg.Error as error:
        return error.sqlstate or str(error), plan
    finally:
        if not conn.closed:
            conn.execute("ROLLBACK TO one; DEALLOCATE ALL")


def difference(query: join_queries.JoinQuery, core: Outcome, ours: Outcome) -> str | None:
    if isinstance(core, str) or isinstance(ours, str):
        return None if core == ours or "57014" in (core, ours) else f"{core} and {ours}"
    return answers.difference(core, ours, TOLERANCE if query.inexact else None)


def compare(conn: Connection, query: join_queries.JoinQuery, tally: Counter[str]) -> str | None:
    core, _ = run(conn, query, False)
    ours, plan = run(conn, query, True)
    tally["queries"] += 1
    if LATE in plan:
        tally["that fetch columns"] += 1
        tally["in parallel plans"] += "Gather" in plan
        tally["with 64 kB"] += any("64kB" in setting for setting in query.settings)
        tally["aggregates"] += "VectorAggregate" in plan
    found = difference(query, core, ours)
    return found and f"{found}\n    {query}"


def test_generated(cluster: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    tally: Counter[str] = Counter()
    wrong: list[str] = []
    more = random.Random(SEED).sample(range(2**31), (QUERIES - 1) // QUERIES_OF_SCHEMA)
    for seed in (SEED, *more):
        with servers.new_database(cluster, f"late_{seed}") as name, cluster.connect(name) as conn:
            conn.prepare_threshold = None
            generator = MixedGenerator(seed, prepare(conn, seed))
            conn.execute(FORCED.replace("SET enable_nestloop = off; SET enable_mergejoin = off;", "").encode())
            for number in range(min(QUERIES_OF_SCHEMA, QUERIES - tally["queries"])):
                conn.execute("BEGIN")
                differs = compare(conn, generator.query(), tally)
                conn.execute("ROLLBACK")
                if differs is not None and len(wrong) < FAILURES_SHOWN:
                    wrong.append(f"seed {seed}, number {number}: {differs}")
    tell(f"seed {SEED}: {dict(tally)}")
    counted(dict(tally))
    assert wrong == [], "\n".join(wrong)
    assert tally["that fetch columns"] > 0.1 * tally["queries"]


def write(
    cluster: Cluster, name: str, number: int, tables: list[str], done: Counter[str], stop: threading.Event
) -> None:
    """Change rows, HOT and not, insert, delete and roll back."""
    chance = random.Random(f"{SEED} {number}")
    with cluster.connect(name) as conn:
        conn.execute("SET lock_timeout = '2s'")
        while not stop.is_set():
            table = chance.choice(tables)
            low = chance.randrange(2600)
            some = f"v BETWEEN {low} AND {low + chance.choice((0, 10, 100))}"
            change = chance.choice(
                (
                    f"UPDATE {table} SET o = NOT o WHERE {some}",
                    f"UPDATE {table} SET w = w || '!' WHERE {some} AND length(w) < 100",
                    f"UPDATE {table} SET v = v + 1 WHERE {some}",
                    f"WITH gone AS (DELETE FROM {table} WHERE {some} RETURNING *)"
                    f" INSERT INTO {table} SELECT * FROM gone",
                )
            )
            try:
                conn.execute("BEGIN")
                conn.execute(change.encode())
                conn.execute("ROLLBACK" if chance.random() < 0.2 else "COMMIT")
                done["written"] += 1
            except psycopg.Error:
                conn.execute("ROLLBACK")
            stop.wait(0.005)


def look_after(cluster: Cluster, name: str, tables: list[str], done: Counter[str], stop: threading.Event) -> None:
    chance = random.Random(f"{SEED} vacuum")
    with cluster.connect(name) as conn:
        while not stop.is_set():
            table = chance.choice(tables)
            try:
                conn.execute(f"VACUUM (INDEX_CLEANUP ON) {table}".encode())
                conn.execute(f"CALL pgbillion_rows.columns_refresh('{table}')".encode())
                done["looked after"] += 1
            except psycopg.errors.DeadlockDetected:
                done["deadlocks"] += 1
            stop.wait(0.02)


def test_generated_beside_writers(cluster: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    """The rows of one snapshot, while sessions write, VACUUM and encode."""
    tally: Counter[str] = Counter()
    done: Counter[str] = Counter()
    wrong: list[str] = []
    chance = random.Random(SEED)
    with servers.new_database(cluster, "late_written") as name, cluster.connect(name) as conn:
        conn.prepare_threshold = None
        generator = MixedGenerator(SEED, prepare(conn, SEED))
        tables = [
            table
            for (table,) in conn.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^t0' ORDER BY 1"
            )
        ]
        conn.execute(FORCED.replace("SET enable_nestloop = off; SET enable_mergejoin = off;", "").encode())
        writers = (partial(write, cluster, name, number, tables, done) for number in range(2))
        with beside(*writers, partial(look_after, cluster, name, tables, done)):
            while tally["queries"] < QUERIES // 4 and len(wrong) < FAILURES_SHOWN:
                conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
                # a snapshot that is kept keeps blocks from becoming all-visible
                for _ in range(chance.choice((1, 1, 2, 10))):
                    differs = compare(conn, generator.query(), tally)
                    wrong += [differs] if differs is not None else []
                conn.execute("ROLLBACK")
        for table in tables:
            assert conn.execute(f"SELECT * FROM pgbillion_rows.columns_check('{table}')".encode()).fetchall() == []
    tell(f"seed {SEED}: {dict(tally)}; meanwhile {dict(done)}")
    counted(dict(tally))
    assert wrong == [], f"seed {SEED}: " + "\n".join(wrong)
    assert tally["that fetch columns"] > 0
    assert done["written"] > 0
