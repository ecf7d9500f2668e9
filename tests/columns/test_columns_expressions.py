"""Expressions in a columnar index: kept as columns are, and read in their place, with PostgreSQL's answers and errors.

PGBILLION_TEST_QUERIES is how many queries are generated beside writers (default 300), PGBILLION_TEST_SEED repeats them.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.servers import one
from harness.sessions import beside
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_QUERIES", 300, 100)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))

DOCUMENT = """jsonb_strip_nulls(jsonb_build_object('kind', CASE WHEN i % 11 > 0 THEN 'kind ' || i % 5 END,
    'price', CASE WHEN i % 13 > 0 THEN round((i % 1000) / 100.0, 3) END, 'count', i % 50,
    'text', repeat('x', i % 40)))"""
INDEX = """CREATE INDEX docs_columns ON docs USING columns (id, (data ->> 'kind'), ((data ->> 'price')::numeric),
    ((data ->> 'count')::int), (grp * 2), grp) WITH (segment_blocks = 32, refresh_share = 0)"""
FORCED = """LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.columns = force;
    SET pgbillion_rows.vector_join = force; SET pgbillion_rows.vector_scan = force"""


@pytest.fixture
def conn(conn: Connection) -> Connection:
    conn.execute(FORCED.encode())
    conn.execute("SET max_parallel_workers_per_gather = 0")
    return conn


@pytest.fixture
def docs(conn: Connection) -> str:
    make(conn)
    return "docs"


def make(conn: Connection, rows: int = 20000) -> None:
    conn.execute("DROP TABLE IF EXISTS docs CASCADE")
    conn.execute("CREATE TABLE docs (id int, grp int, data jsonb, other int DEFAULT 0) WITH (fillfactor = 90)")
    conn.execute(f"INSERT INTO docs SELECT i, i % 7, {DOCUMENT} FROM generate_series(1, {rows}) i".encode())
    conn.execute("VACUUM ANALYZE docs")
    conn.execute(INDEX.encode())


def answers(conn: Connection, query: str) -> list[Any]:
    """Return what a query answers, if that is what PostgreSQL answers by itself."""
    found = conn.execute(query.encode()).fetchall()
    plans.switch(conn, False)
    expected = conn.execute(query.encode()).fetchall()
    plans.switch(conn, True)
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), query
    return found


def scan(conn: Connection, query: str) -> dict[str, Any]:
    """Return what EXPLAIN ANALYZE says of the node that reads an index, or nothing."""
    (text,) = conn.execute(f"EXPLAIN (ANALYZE, VERBOSE, FORMAT JSON) {query}".encode()).fetchone() or ({},)
    plan = text if not isinstance(text, str) else json.loads(text)
    for node in plans.nodes(plan[0]["Plan"]):
        if "Column Blocks Read" in node:
            return dict(node)
    return {}


def problems(conn: Connection, relation: str = "docs") -> list[Any]:
    return conn.execute("SELECT * FROM pgbillion_rows.columns_check(%s)", [relation]).fetchall()


# ---- which queries read them ----

READ = (
    "SELECT data ->> 'kind', count(*), sum((data ->> 'price')::numeric) FROM docs GROUP BY 1",
    "SELECT sum((data ->> 'price')::numeric), avg((data ->> 'price')::numeric), min((data ->> 'count')::int) FROM docs",
    "SELECT sum((data ->> 'price')::numeric * 2 + 1), max((data ->> 'count')::int % 7) FROM docs WHERE id > 500",
    "SELECT count(*) FROM docs WHERE data ->> 'kind' = 'kind 3'",
    "SELECT count(*) FROM docs WHERE (data ->> 'price')::numeric BETWEEN 2 AND 3 AND data ->> 'kind' LIKE '%3'",
    "SELECT count(data ->> 'kind'), count(DISTINCT data ->> 'kind') FROM docs",
    "SELECT upper(data ->> 'kind'), count(*) FROM docs GROUP BY 1 HAVING count(*) > 3",
    "SELECT (data ->> 'kind')::varchar(6), count(*) FROM docs GROUP BY 1",
    "SELECT (data ->> 'kind') COLLATE \"C\", max((data ->> 'kind') COLLATE \"C\") FROM docs GROUP BY 1",
    "SELECT sum(grp * 2), sum(grp * 2 * 3) FROM docs WHERE data ->> 'kind' IN ('x', '') OR data ->> 'kind' IS NULL",
    "SELECT sum(CASE WHEN data ->> 'kind' = 'kind 1' THEN (data ->> 'price')::numeric END) FROM docs",
    "SELECT count(*) FILTER (WHERE data ->> 'kind' > 'kind 2') FROM docs WHERE NOT (data ->> 'kind' = 'kind 0')",
    "SELECT DISTINCT data ->> 'kind' FROM docs",
    "SELECT data ->> 'kind', grp * 2, count(*) FROM docs GROUP BY ROLLUP (1, 2)",
    "SELECT k.name, sum((data ->> 'price')::numeric) FROM docs JOIN kinds k ON k.name = data ->> 'kind' GROUP BY 1",
    "SELECT count(*), count(k.name) FROM docs LEFT JOIN kinds k ON k.number = (data ->> 'count')::int",
    "SELECT sum(grp * 2) FROM docs WHERE (data ->> 'count')::int IN (SELECT number FROM kinds)",
    "SELECT id, k.name FROM docs JOIN kinds k ON k.name = data ->> 'kind' AND number < 9 AND id < 3000",
    "SELECT a.grp, count(*) FROM docs a JOIN docs b ON a.data ->> 'kind' = b.data ->> 'kind' AND b.id < 5 GROUP BY 1",
)
# rows: fetched, or made of what the index has
ROWS = (
    "SELECT * FROM docs WHERE data ->> 'kind' = 'kind 3' AND id % 100 = 3",
    "SELECT id FROM docs WHERE data ->> 'kind' = 'kind 3' AND (data ->> 'price')::numeric > 9.5",
    "SELECT id, grp, ctid FROM docs WHERE (data ->> 'count')::int IN (3, 7) AND data ->> 'kind' LIKE '%1'",
    "SELECT id, data ->> 'kind' FROM docs WHERE data ->> 'kind' IS NULL",
    "SELECT id FROM docs WHERE data ->> 'kind' = 'kind 3' ORDER BY id LIMIT 20",
    "SELECT id, other FROM docs WHERE data ->> 'kind' = 'kind 3' AND other = 0 AND data ->> 'text' = ''",
    "SELECT id FROM docs WHERE id < 500 AND (data ->> 'price')::numeric = 1 FOR UPDATE",
    "SELECT d.id, e.id FROM docs d, docs e WHERE d.data ->> 'kind' = 'kind 3' AND e.id = d.id + 1",
)
# another expression, an operator on whole documents, or a column that the index lacks
NOT_READ = (
    "SELECT sum((data ->> 'price')::float8) FROM docs",
    "SELECT data -> 'kind', count(*) FROM docs GROUP BY 1",
    "SELECT data ->> 'kind', sum(other) FROM docs GROUP BY 1",
    'SELECT count(*) FROM docs WHERE data @> \'{"kind": "kind 1"}\'',
    "SELECT sum(2 * grp), count(docs) FROM docs",
)


@pytest.fixture
def kinds(conn: Connection, docs: str) -> None:
    conn.execute("DROP TABLE IF EXISTS kinds; CREATE TABLE kinds (name text, number int)")
    conn.execute("INSERT INTO kinds SELECT 'kind ' || i, i * 3 FROM generate_series(1, 3) i; ANALYZE kinds")


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("query", READ + ROWS)
def test_they_are_read_in_place_of_their_expressions(conn: Connection, query: str) -> None:
    answers(conn, query)
    node = scan(conn, query)
    assert node["Column Blocks Read"] + node["Column Blocks Skipped"] > 0, query
    assert node["Heap Blocks Read"] == 0, query
    # and of rows that have changed since
    conn.execute('UPDATE docs SET data = data || \'{"price": 7.500, "kind": "new"}\' WHERE id % 3000 = 0')
    conn.execute("DELETE FROM docs WHERE id % 4000 = 1")
    answers(conn, query)
    node = scan(conn, query)
    assert node["Column Blocks Read"] + node["Column Blocks Skipped"] > 0, query
    assert node["Heap Blocks Read"] > 0, query
    conn.execute("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0")
    conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
    answers(conn, query)
    conn.execute("VACUUM docs")
    answers(conn, query)
    assert problems(conn) == []


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("query", NOT_READ)
def test_other_expressions_are_evaluated(conn: Connection, query: str) -> None:
    answers(conn, query)
    assert scan(conn, query) == {}


def test_explain_lists_them(conn: Connection, docs: str) -> None:
    query = "EXPLAIN (VERBOSE, COSTS OFF) SELECT data ->> 'kind', sum(id) FROM docs GROUP BY 1"
    plan = "\n".join(line for (line,) in conn.execute(query.encode()).fetchall())
    assert "Columns: docs_columns" in plan
    assert "Table Columns: id, (data ->> 'kind'::text)" in plan


def test_there_are_statistics_of_them(conn: Connection, docs: str) -> None:
    conn.execute("ANALYZE docs")
    assert one(conn, "SELECT n_distinct FROM pg_stats WHERE tablename = 'docs_columns' AND attname = 'expr'") == 5


# ---- changes ----


def test_changes_of_a_document(conn: Connection, docs: str) -> None:
    query = "SELECT data ->> 'kind', count(*), sum((data ->> 'price')::numeric), sum(grp * 2) FROM docs GROUP BY 1"
    for change in (
        "UPDATE docs SET data = jsonb_set(data, '{price}', '1.5') WHERE id < 50",
        "UPDATE docs SET other = 1 WHERE id BETWEEN 5000 AND 5050",
        "UPDATE docs SET grp = grp + 1 WHERE id BETWEEN 9000 AND 9010",
        "DELETE FROM docs WHERE id BETWEEN 12000 AND 12100",
        f"INSERT INTO docs SELECT i, 1, {DOCUMENT} FROM generate_series(1, 100) i",
        "VACUUM docs",
        "VACUUM FULL docs",
        "VACUUM docs",
        "REINDEX INDEX docs_columns",
        "REINDEX INDEX CONCURRENTLY docs_columns",
        "CALL pgbillion_rows.columns_refresh('docs')",
        "ALTER TABLE docs ALTER grp TYPE bigint",
        "VACUUM docs",
        "ALTER TABLE docs ADD COLUMN more text DEFAULT 'x', DROP COLUMN other",
        'INSERT INTO docs VALUES (0, 3, \'{"kind": "kind 9", "price": 1}\')',
        "VACUUM docs",
    ):
        conn.execute(change.encode())
        answers(conn, query)
        assert problems(conn) == []
        assert scan(conn, query) != {}
    assert scan(conn, query)["Heap Blocks Read"] == 0
    with conn.transaction(force_rollback=True):
        conn.execute("UPDATE docs SET data = data - 'kind' WHERE id % 1000 = 0")
        assert answers(conn, query)
    assert scan(conn, query)["Column Blocks Read"] > 0


def test_a_document_that_is_out_of_line(conn: Connection, docs: str) -> None:
    conn.execute("ALTER TABLE docs ALTER data SET STORAGE EXTERNAL")
    conn.execute(
        "INSERT INTO docs VALUES (0, 1, jsonb_build_object('kind', 'long', 'price', 3, 'text', repeat('y', 9000)))"
    )
    conn.execute("VACUUM docs")
    query = "SELECT data ->> 'kind', sum((data ->> 'price')::numeric) FROM docs GROUP BY 1"
    assert ("long", 3) in answers(conn, query)
    node = scan(conn, query)
    assert node["Heap Blocks Not Encoded"] > 0
    assert node["Column Blocks Read"] > 0
    # the columns of the same segment are there
    assert scan(conn, "SELECT sum(id), sum(grp * 2) FROM docs")["Heap Blocks Read"] == 0
    assert problems(conn) == []


def test_documents_that_are_kept_in_line(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS docs CASCADE; CREATE TABLE docs (data jsonb) WITH (toast_tuple_target = 8160)")
    conn.execute(
        "INSERT INTO docs SELECT jsonb_build_object('kind', i % 3, 'text', (SELECT string_agg(md5((i * n)::text), '')"
        " FROM generate_series(1, 150) n)) FROM generate_series(1, 500) i"
    )
    conn.execute("VACUUM docs")
    conn.execute("CREATE INDEX ON docs USING columns ((data ->> 'kind'))")
    query = "SELECT data ->> 'kind', count(*) FROM docs GROUP BY 1"
    answers(conn, query)
    assert scan(conn, query)["Heap Blocks Read"] == 0


def test_compressed_documents(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS docs CASCADE; CREATE TABLE docs (id int, data jsonb)")
    conn.execute(
        "INSERT INTO docs SELECT i, jsonb_build_object('kind', i % 3, 'text', repeat('z', 5000))"
        " FROM generate_series(1, 2000) i"
    )
    conn.execute("VACUUM docs")
    conn.execute("CREATE INDEX ON docs USING columns ((data ->> 'kind'), (length(data ->> 'text')), (data -> 'text'))")
    query = "SELECT data ->> 'kind', sum(length(data ->> 'text')), count(DISTINCT data -> 'text') FROM docs GROUP BY 1"
    answers(conn, query)
    assert problems(conn) == []
    assert (
        scan(conn, "SELECT data ->> 'kind', sum(length(data ->> 'text')) FROM docs GROUP BY 1")["Heap Blocks Read"] == 0
    )


def test_values_of_all_kinds(conn: Connection) -> None:
    conn.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    conn.execute(
        "CREATE FUNCTION pair(i int) RETURNS int[] IMMUTABLE LANGUAGE plpgsql AS "
        "$$ DECLARE found int[] := '{}'; BEGIN found[1] := i; found[2] := i % 3; RETURN found; END $$"
    )
    conn.execute("CREATE TABLE v (i int, t text)")
    conn.execute("INSERT INTO v SELECT i, CASE WHEN i % 5 > 0 THEN 'a' || i % 50 END FROM generate_series(1, 5000) i")
    conn.execute("VACUUM v")
    expressions = (
        "t || 'x'", "i::numeric / 8", "i / 3.0::float8", "(i % 9)::float4", "i % 2 = 0", "t IS NULL", "md5(t)::uuid",
        "'2020-01-01'::date + i", "make_interval(secs => i % 7)", "pair(i)",
        "CASE WHEN i % 2 = 0 THEN 'sad'::mood ELSE 'glad' END",
        "repeat(t, i % 300)", "NULLIF(i, i)", "decode(md5(t), 'hex')", "coalesce(t, 'none')", "string_to_array(t, 'a')",
        "int4range(i % 9, 10)", "i::char(3)",
    )  # fmt: skip
    conn.execute(f"CREATE INDEX ON v USING columns ({', '.join(f'({e})' for e in expressions)})".encode())
    for expression in expressions:
        query = f"SELECT {expression}, count(*) FROM v GROUP BY 1"
        answers(conn, query)
        assert scan(conn, query).get("Heap Blocks Read") == 0, expression
    assert problems(conn, "v") == []


def test_extremes_of_numbers(conn: Connection) -> None:
    """Of one scale, and of several: of equal ones the later one is the answer, and its digits show."""
    conn.execute("CREATE TABLE x (i int, n numeric)")
    conn.execute("INSERT INTO x SELECT i, (i * 7919 % 6007) / 4 - 500 FROM generate_series(1, 6000) i")
    conn.execute("VACUUM x")
    conn.execute(
        "CREATE INDEX ON x USING columns (i, (i % 5), (round(n / 4, 2)), (n * 1.0)) WITH (segment_blocks = 32)"
    )
    number = "round(n / 4, 2)"
    queries = [
        f"SELECT {keys}min({value}), max({value}), min({value} - 1) FROM x WHERE {condition}{grouped}"
        for keys, grouped in (("", ""), ("i % 5, ", " GROUP BY 1"), ("i, ", " GROUP BY 1"))
        for value in (number, "n * 1.0")
        for condition in ("true", "i % 5 > 2", f"{number} BETWEEN -20 AND 300", "i < 0")
    ]
    for query in queries:
        answers(conn, query)
        assert scan(conn, query)["Heap Blocks Read"] == 0, query
    # the least and the greatest again, with more digits, from the heap before and after blocks of the index
    conn.execute("UPDATE x SET n = n + 0.000 WHERE i IN (1, 5999) OR i % 2000 = 0 RETURNING n")
    conn.execute(
        "INSERT INTO x SELECT -i, n + 0.0000 FROM x WHERE n IN (SELECT max(n) FROM x UNION SELECT min(n) FROM x)"
    )
    for query in queries:
        answers(conn, query)


def test_partitions(conn: Connection) -> None:
    conn.execute("CREATE TABLE p (id int, data jsonb) PARTITION BY RANGE (id)")
    conn.execute("CREATE TABLE p1 (data jsonb, gone int, id int)")
    conn.execute("ALTER TABLE p1 DROP COLUMN gone; ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (3000)")
    conn.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (3000) TO (9000)")
    conn.execute("CREATE INDEX p_columns ON p USING columns (id, (data ->> 'kind'))")
    conn.execute(f"INSERT INTO p SELECT i, {DOCUMENT} FROM generate_series(1, 6000) i".encode())
    conn.execute("VACUUM ANALYZE p")
    query = "SELECT data ->> 'kind', count(*), sum(id) FROM p GROUP BY 1"
    answers(conn, query)
    assert scan(conn, query)["Heap Blocks Read"] == 0
    assert problems(conn, "p") == []


def test_clones_of_a_schema(conn: Connection) -> None:
    conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_tables")
    conn.execute("CREATE SCHEMA model; CREATE TABLE model.docs (id int, data jsonb)")
    conn.execute("CREATE INDEX ON model.docs USING columns (id, (data ->> 'kind'))")
    for name in ("one", "two"):
        conn.execute(f"SELECT pgbillion_tables.clone_schema('model', '{name}')".encode())
        conn.execute(f"INSERT INTO {name}.docs SELECT i, {DOCUMENT} FROM generate_series(1, 3000) i".encode())
        conn.execute(f"VACUUM {name}.docs".encode())
        query = f"SELECT data ->> 'kind', sum(id) FROM {name}.docs GROUP BY 1"
        answers(conn, query)
        assert scan(conn, query)["Heap Blocks Read"] == 0
        assert problems(conn, f"{name}.docs") == []


def test_workers_of_a_plan(conn: Connection, docs: str) -> None:
    """A filter that PostgreSQL would evaluate row by row, with workers, is one of columns."""
    conn.execute("SET pgbillion_rows.vector_aggregate = on; SET max_parallel_workers_per_gather = 2")
    conn.execute("SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
    assert scan(conn, "SELECT count(*) FROM docs WHERE data ->> 'kind' = 'kind 3'")["Column Blocks Read"] > 0
    assert scan(conn, "SELECT sum(grp * 2) FROM docs WHERE (data ->> 'price')::numeric > 5")["Column Blocks Read"] > 0


# ---- errors ----


@pytest.mark.parametrize("visible", [True, False])
def test_an_error_while_an_index_is_made(conn: Connection, visible: bool) -> None:
    conn.execute("DROP TABLE IF EXISTS e; CREATE TABLE e (id int, data jsonb)")
    conn.execute("INSERT INTO e SELECT i, '{\"n\": 1}' FROM generate_series(1, 1000) i")
    conn.execute('INSERT INTO e VALUES (0, \'{"n": "none"}\')')
    if visible:
        conn.execute("VACUUM e")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="none"):
        conn.execute("CREATE INDEX ON e USING columns (((data ->> 'n')::int))")
    # a row that is gone, but not yet removed, is nobody's any more
    conn.execute("DELETE FROM e WHERE id = 0")
    conn.execute("CREATE INDEX ON e USING columns (((data ->> 'n')::int))")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="more"):
        conn.execute('INSERT INTO e VALUES (0, \'{"n": "more"}\')')
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="other"):
        conn.execute('UPDATE e SET data = \'{"n": "other"}\' WHERE id = 3')
    conn.execute("VACUUM e")
    assert problems(conn, "e") == []
    assert answers(conn, "SELECT sum((data ->> 'n')::int) FROM e") == [(1000,)]


def test_an_error_while_an_index_is_made_beside_writers(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS e; CREATE TABLE e (id int, data jsonb)")
    conn.execute('INSERT INTO e VALUES (1, \'{"n": "none"}\')')
    conn.execute("VACUUM e")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="none"):
        conn.execute("CREATE INDEX CONCURRENTLY ON e USING columns (((data ->> 'n')::int))")


def test_what_is_refused(conn: Connection, docs: str) -> None:
    conn.execute("CREATE DOMAIN small AS int CHECK (value < 100)")
    conn.execute("CREATE FUNCTION of_row(docs) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 1'")
    for columns, error in (
        ("(now())", "must be marked IMMUTABLE"),
        ("((grp % 7)::small)", "expressions with domains"),
        ("(of_row(docs))", "expressions with whole rows"),
        ("(data ->> 'kind')) WHERE (id > 3", "partial"),
    ):
        with pytest.raises(psycopg.Error, match=error):
            conn.execute(f"CREATE INDEX ON docs USING columns ({columns})".encode())


def test_a_scan_reads_rows_that_changed_meanwhile(conn: Connection, docs: str) -> None:
    conn.execute("UPDATE docs SET other = 7 WHERE data ->> 'kind' = 'kind 2'")
    conn.execute("DELETE FROM docs WHERE (data ->> 'price')::numeric = 3.33")
    plans.switch(conn, False)
    assert one(conn, "SELECT count(*) FROM docs WHERE data ->> 'kind' = 'kind 2' AND other <> 7") == 0
    assert one(conn, "SELECT count(*) FROM docs WHERE other = 7 AND data ->> 'kind' <> 'kind 2'") == 0
    assert one(conn, "SELECT count(*) FROM docs WHERE (data ->> 'price')::numeric = 3.33") == 0


def test_a_function_that_was_expanded_is_replaced(conn: Connection, cluster: Cluster) -> None:
    """A session that still knows the old expression shares its scan with workers that know the new one."""
    conn.execute("CREATE FUNCTION more(i int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT i + 1'")
    conn.execute("CREATE TABLE f (i int)")
    conn.execute("INSERT INTO f SELECT generate_series(1, 50000)")
    conn.execute("VACUUM ANALYZE f")
    conn.execute("CREATE INDEX ON f USING columns ((more(i)))")
    query = "SELECT sum(i + 1) FROM f"
    answers(conn, query)
    assert scan(conn, query)["Heap Blocks Read"] == 0
    with cluster.connect(conn.info.dbname) as other:
        other.execute("CREATE OR REPLACE FUNCTION more(i int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT i + 2'")
    conn.execute("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0")
    conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
    for _ in range(5):
        assert answers(conn, query) == [(1250075000,)]
    conn.execute("SET parallel_leader_participation = off")
    for _ in range(5):
        assert answers(conn, query) == [(1250075000,)]


# ---- as whom they are evaluated ----


def test_they_are_evaluated_as_the_owner_of_the_table(conn: Connection) -> None:
    """A superuser who encodes or checks an index does not run its functions with the rights of a superuser."""
    conn.execute("DROP ROLE IF EXISTS keeper; CREATE ROLE keeper; GRANT CREATE ON SCHEMA public TO keeper")
    conn.execute("CREATE TABLE who (id int, called text)")
    conn.execute("GRANT ALL ON who TO PUBLIC; SET ROLE keeper")
    conn.execute(
        "CREATE FUNCTION public.look(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN"
        " IF current_setting('pgbillion_test.watched', true) = 'on' AND (current_user <> 'keeper'"
        "    OR current_setting('search_path') <> 'pg_catalog, pg_temp') THEN"
        "   RAISE EXCEPTION 'called as % with %', current_user, current_setting('search_path'); END IF;"
        " RETURN i + 1; END $$"
    )
    conn.execute("CREATE TABLE kept (id int); CREATE INDEX ON kept USING columns (public.look(id))")
    conn.execute("INSERT INTO kept SELECT i FROM generate_series(1, 3000) i; RESET ROLE")
    conn.execute("SET pgbillion_test.watched = on")
    # before 17, PostgreSQL itself validates an index with the path of the session
    for command in (
        "VACUUM kept",
        "UPDATE kept SET id = id + 0 WHERE false",
        "REINDEX TABLE kept",
        *(["REINDEX TABLE CONCURRENTLY kept"] if conn.info.server_version >= 170000 else []),
        "CALL pgbillion_rows.columns_refresh('kept')",
        "VACUUM FULL kept",
        "CALL pgbillion_rows.columns_refresh('kept')",
        "VACUUM kept",
    ):
        conn.execute(command.encode())
    assert problems(conn, "kept") == []
    assert one(conn, "SELECT current_user") != "keeper"
    with pytest.raises(psycopg.Error, match="called as"):
        conn.execute("SELECT public.look(1)")
    conn.execute(
        "DROP TABLE kept; DROP FUNCTION public.look; REVOKE CREATE ON SCHEMA public FROM keeper; DROP ROLE keeper"
    )


def test_a_function_that_the_caller_may_not_call(conn: Connection) -> None:
    conn.execute("CREATE FUNCTION secret(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i + 1; END'")
    conn.execute("REVOKE ALL ON FUNCTION secret FROM PUBLIC; CREATE TABLE s (i int)")
    conn.execute("INSERT INTO s SELECT generate_series(1, 1000)")
    conn.execute("VACUUM s")
    conn.execute("CREATE INDEX ON s USING columns (secret(i))")
    conn.execute("GRANT ALL ON s TO PUBLIC")
    assert answers(conn, "SELECT sum(secret(i)) FROM s") == [(501500,)]
    conn.execute("SET ROLE reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="secret"):
        conn.execute("SELECT sum(secret(i)) FROM s")
    conn.execute("RESET ROLE")


# ---- beside writers ----

VALUES = ("data ->> 'kind'", "(data ->> 'price')::numeric", "(data ->> 'count')::int", "grp * 2", "id")
NUMBERS = VALUES[1:]
CONDITIONS = (
    "data ->> 'kind' = 'kind {n}'", "data ->> 'kind' IN ('kind 1', 'kind {n}', 'new')", "data ->> 'kind' IS NULL",
    "(data ->> 'price')::numeric > {n}", "(data ->> 'price')::numeric BETWEEN {n} AND 7.5",
    "(data ->> 'count')::int % 5 = {n}",
    "grp * 2 < {n}", "id > {n} * 1000", "data ->> 'kind' LIKE '%{n}' OR grp * 2 = 6", "NOT (grp * 2 = {n})",
)  # fmt: skip


def generated(chance: random.Random) -> str:
    if chance.random() < 0.3:
        what = chance.choice(("*", "id", "id, grp", "ctid, id, data ->> 'kind'", "data"))
        conditions = [c.format(n=chance.randrange(8)) for c in chance.sample(CONDITIONS, chance.choice((1, 1, 2)))]
        return f"SELECT {what} FROM docs WHERE {' AND '.join(f'({c})' for c in conditions)}"
    keys = chance.sample(VALUES, chance.choice((0, 0, 1, 1, 2)))
    columns = [f"{key} AS k{i}" for i, key in enumerate(keys)]
    for _ in range(chance.randrange(1, 4)):
        number, value = chance.choice(NUMBERS), chance.choice(VALUES)
        columns.append(chance.choice((
            "count(*)", f"sum({number})", f"sum({number} * 2 + 1)", f"max({value})", f"count({value})",
            f"avg({number})", f"sum(CASE WHEN {chance.choice(CONDITIONS).format(n=2)} THEN {number} END)",
            f"count(*) FILTER (WHERE {chance.choice(CONDITIONS).format(n=3)})", f"count(DISTINCT {value})",
        )))  # fmt: skip
    conditions = [c.format(n=chance.randrange(8)) for c in chance.sample(CONDITIONS, chance.choice((0, 1, 1, 2)))]
    table = chance.choice(("docs", "docs", "docs", "docs JOIN kinds k ON k.name = data ->> 'kind'",
                           "docs LEFT JOIN kinds k ON k.number = (data ->> 'count')::int"))  # fmt: skip
    query = f"SELECT {', '.join(columns)} FROM {table}"
    if conditions:
        query += f" WHERE {' AND '.join(f'({c})' for c in conditions)}"
    return query + (f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else "")


def disturb(conn: Connection, chance: random.Random) -> None:
    low = chance.randrange(6000)
    some = f"id BETWEEN {low} AND {low + chance.choice((0, 0, 10))}"
    command = chance.choice((
        f"INSERT INTO docs SELECT i, i % 7, {DOCUMENT} FROM generate_series({low}, {low + 10}) i",
        f"DELETE FROM docs WHERE id BETWEEN {low} AND {low + 10}",
        f"UPDATE docs SET data = data || '{{\"kind\": \"new\", \"price\": {low / 8:.3f}}}' WHERE {some}",
        f"UPDATE docs SET data = data - 'price', grp = grp + 1 WHERE {some}",
        f"UPDATE docs SET other = other + 1 WHERE {some}",
    ))  # fmt: skip
    conn.execute(f"BEGIN; {command}; {chance.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))}".encode())


def look_after(conn: Connection, chance: random.Random) -> None:
    conn.execute(
        chance.choice((b"VACUUM docs", b"CALL pgbillion_rows.columns_refresh('docs')", b"VACUUM (FREEZE) docs"))
    )


def test_generated_queries_beside_writers(cluster: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    chance = random.Random(SEED)
    seen: Counter[str] = Counter()
    with servers.new_database(cluster, "expressions") as database:
        with cluster.connect(database) as conn:
            make(conn, 6000)
            conn.execute("CREATE TABLE kinds (name text, number int)")
            conn.execute("INSERT INTO kinds SELECT 'kind ' || i, i * 3 FROM generate_series(1, 3) i; ANALYZE kinds")

        def work(stop: threading.Event, number: int, do: Callable[[Connection, random.Random], None]) -> None:
            own = random.Random(f"{SEED} {number}")
            with cluster.connect(database) as conn:
                conn.execute("SET client_min_messages = error")
                while not stop.is_set():
                    do(conn, own)
                    seen[do.__name__] += 1
                    stop.wait(own.random() * 0.01)

        def worker(number: int, do: Callable[[Connection, random.Random], None]) -> Callable[[threading.Event], None]:
            return lambda stop: work(stop, number, do)

        with (
            cluster.connect(database) as conn,
            beside(*(worker(*each) for each in enumerate((disturb, disturb, look_after)))),
        ):
            conn.execute(FORCED.encode())
            for number in range(QUERIES):
                query = generated(chance)
                workers = chance.choice((0, 0, 2))
                conn.execute(
                    f"SET max_parallel_workers_per_gather = {workers}; SET min_parallel_table_scan_size = 0".encode()
                )
                with conn.transaction():
                    conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    answers(conn, query)
                    if number % 5 == 0:
                        node = scan(conn, query)
                        for what in ("Column Blocks Read", "Heap Blocks Read"):
                            seen[what] += node.get(what, 0)
                seen["equal"] += 1
            conn.execute("VACUUM docs")
            assert problems(conn) == []
    tell(f"seed {SEED}: {dict(seen)}")
    counted({"queries": seen["equal"]})
    assert seen["Column Blocks Read"] > 0
    assert seen["Heap Blocks Read"] > 0
