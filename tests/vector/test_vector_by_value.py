"""Expressions of a string column once for each of its values: how often, and with PostgreSQL's answers and errors."""

from __future__ import annotations

import pytest

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from test_vector_answers import both, in_parallel, vectors
from test_vector_kernels import agree

__all__ = ["vectors"]

pytestmark = pytest.mark.majors

PLACES = ("heap", "columns")
ROWS = 12_000
# the calls of a function are counted by a sequence, whose numbers are never taken back
COUNTED = """
CREATE SEQUENCE calls;
CREATE FUNCTION counted(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$BEGIN PERFORM nextval('calls'); RETURN 'got ' || t; END$$;
CREATE FUNCTION uncertain(t text) RETURNS text LANGUAGE plpgsql STABLE AS
    $$BEGIN PERFORM nextval('calls'); RETURN 'got ' || t; END$$;
CREATE FUNCTION long_result(t text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    $$BEGIN PERFORM nextval('calls'); RETURN repeat(t, 2000); END$$;
CREATE FUNCTION expanded(t text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS
    $$DECLARE result text[] := array_fill(t, '{2000}'); BEGIN PERFORM nextval('calls'); RETURN result; END$$;
"""


def fill(conn: Connection, place: str, *, values: int = 200) -> None:
    """`t` has few values, `u` one for each row, `w` few that are long."""
    conn.execute(
        f"CREATE TABLE data AS SELECT g AS id, CASE WHEN g % 17 > 0 THEN 'Word_' || g % {values} END AS t,"
        " 'unique ' || g AS u, (g % 50)::text AS n, repeat('Ä' || g % 3, 20) AS w, g % 7 AS i,"
        " ('V' || g % 30)::varchar(9) AS v, ('c' || g % 20)::char(8) AS c"
        f" FROM generate_series(1, {ROWS}) g".encode()
    )
    if place == "columns":
        conn.execute("CREATE INDEX ON data USING columns (id, t, u, n, w, i, v, c) WITH (segment_blocks = 16)")
    conn.execute("VACUUM (FREEZE, ANALYZE) data")
    conn.execute("SET pgbillion_rows.columns = force; SET pgbillion_rows.vector_scan = force")


def calls(conn: Connection, query: str) -> int:
    """How often a query calls what is counted."""
    before = one(conn, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM calls")
    conn.execute(query.encode())
    return int(one(conn, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM calls") - before)


@pytest.mark.parametrize("place", PLACES)
def test_once_for_each_value(vectors: Connection, place: str) -> None:
    vectors.execute(COUNTED)
    fill(vectors, place)
    # 200 values, and NULL, which is looked at as often as it comes where there is no dictionary
    often = 200 + ROWS // 17 + 1
    assert calls(vectors, "SELECT counted(t), count(*) FROM data GROUP BY 1") <= often
    assert calls(vectors, "SELECT max(counted(t)) FROM data") <= often
    assert calls(vectors, "SELECT count(*) FROM data WHERE counted(t) LIKE '%7'") <= often
    assert calls(vectors, "SELECT count(*) FROM data WHERE counted(t) ~ '7' OR counted(t) ~ '8'") <= 2 * often
    assert calls(vectors, "SELECT sum(CASE WHEN counted(t) = 'got Word_7' THEN i ELSE 2 END) FROM data") <= often
    assert calls(vectors, "SELECT i, max(counted(t)) FROM data WHERE i < 5 GROUP BY i") <= often
    assert calls(vectors, "SELECT count(*) FILTER (WHERE counted(t) > 'got Word_3') FROM data") <= often
    assert calls(vectors, "SELECT max(counted(lower(n) || 'x')) FROM data") <= 50


@pytest.mark.parametrize("place", PLACES)
def test_each_row_where_it_is_another_result(vectors: Connection, place: str) -> None:
    """Functions that are not immutable, several columns, and values of which each comes once."""
    vectors.execute(COUNTED)
    fill(vectors, place)
    assert calls(vectors, "SELECT max(uncertain(t)) FROM data") == ROWS
    assert calls(vectors, "SELECT max(counted(t || id)) FROM data") == ROWS
    assert calls(vectors, "SELECT max(counted(u)) FROM data") == ROWS
    assert calls(vectors, "SELECT max(counted(id::text)) FROM data") == ROWS


def test_long_results_are_not_remembered(vectors: Connection) -> None:
    """Neither strings, nor arrays in PL/pgSQL's expanded form, of which Datums only point to what takes memory."""
    vectors.execute(COUNTED)
    fill(vectors, "heap")
    for function in ("long_result", "expanded"):
        query = f"SELECT count({function}(t)) FROM data WHERE id <= 4000 AND t IS NOT NULL"
        assert calls(vectors, query) == 4000 - 4000 // 17
        both(vectors, query)


@pytest.mark.parametrize("place", PLACES)
def test_little_memory(vectors: Connection, place: str) -> None:
    """Results that find no room are computed again, and are the same."""
    vectors.execute(COUNTED)
    fill(vectors, place, values=3000)
    vectors.execute("SET work_mem = '64kB'; SET hash_mem_multiplier = 1")
    for query in (
        "SELECT counted(t), count(*) FROM data GROUP BY 1",
        "SELECT long_result(t), count(*), max(long_result(w)) FROM data GROUP BY 1",
        "SELECT max(long_result(n)), min(regexp_replace(t, '[0-9]', repeat('long ', 300))) FROM data",
        "SELECT upper(t), lower(u), count(*) FROM data GROUP BY 1, 2",
    ):
        both(vectors, query)
    vectors.execute("SET work_mem = '1MB'")
    both(vectors, "SELECT max(long_result(t)), min(long_result(n)), max(upper(u)) FROM data")


QUERIES = (
    "SELECT lower(t), count(*), min(u) FROM data GROUP BY 1",
    "SELECT regexp_replace(t, '([0-9])[0-9]*$', '<\\1>') AS k, count(*), sum(i) FROM data GROUP BY 1",
    "SELECT length(t), count(*) FROM data GROUP BY 1",
    "SELECT left(t, 6), substring(w, 1, 2), count(*), avg(length(w)) FROM data GROUP BY 1, 2",
    "SELECT t, upper(t), count(*) FROM data GROUP BY 1, 2",
    "SELECT upper(t), upper(v), upper(c), count(*) FROM data GROUP BY 1, 2, 3",
    "SELECT n::integer % 4, sum(n::integer), avg(n::numeric + 1) FROM data GROUP BY 1",
    "SELECT n::integer + i, sum(n::integer * i) FROM data GROUP BY 1",
    "SELECT i + 1, count(*), max(initcap(w)) FROM data GROUP BY 1",
    "SELECT i / 2, t IS NULL, t ~ '7', t ILIKE 'word_1%', count(*) FROM data GROUP BY 1, 2, 3, 4",
    "SELECT CASE WHEN t ~ '1$' THEN 'one' WHEN t ILIKE '%2' THEN lower(t) ELSE v END, count(*) FROM data GROUP BY 1",
    "SELECT sum(CASE WHEN t ~* 'WORD_1' THEN i ELSE length(upper(v)) END), max(coalesce(nullif(t, 'Word_3'), v))"
    " FROM data",
    "SELECT count(*), min(lower(t)), max(lower(t)), count(DISTINCT lower(t)) FROM data WHERE t ~ '[13]' AND i > 2",
    "SELECT count(*) FROM data WHERE lower(t) = 'word_7' OR upper(v) = 'V3'",
    "SELECT u ~ '9$', count(*) FILTER (WHERE w ~ 'Ä1'), count(*) FILTER (WHERE upper(t) LIKE 'WORD_1%') FROM data"
    " GROUP BY 1",
    "SELECT c || '|', length(c), count(*) FROM data GROUP BY 1, 2",
    "SELECT reverse(t), count(*) FROM data WHERE id % 100 = 3 GROUP BY 1",
    "SELECT t || 'x', count(*) FROM data WHERE t IS NULL GROUP BY 1",
    "SELECT lower(a.v), count(*), max(upper(b.t)) FROM data a JOIN data b ON a.id = b.id AND lower(b.v) <> 'v3'"
    " GROUP BY 1",
)


@pytest.mark.parametrize("place", PLACES)
def test_the_same_answers(vectors: Connection, place: str) -> None:
    fill(vectors, place)
    for query in QUERIES:
        both(vectors, query, node=None)
    # blocks of the heap between those of the index
    vectors.execute("UPDATE data SET t = 'Other_' || id % 3 WHERE id % 1000 = 5")
    for query in QUERIES:
        both(vectors, query, node=None)
    in_parallel(vectors)
    for query in QUERIES[:12]:
        both(vectors, query, node=None)


@pytest.mark.parametrize("place", PLACES)
def test_errors_only_of_rows_that_are_reached(vectors: Connection, place: str) -> None:
    """`n` is a number except in few rows, which a filter, a CASE or an AND can keep from being looked at."""
    fill(vectors, place)
    vectors.execute("UPDATE data SET n = 'none' WHERE id IN (5000, 5001); UPDATE data SET n = '0' WHERE id = 7")
    vectors.execute("VACUUM (FREEZE) data")
    for query in (
        "SELECT sum(n::integer) FROM data",
        "SELECT n::integer, count(*) FROM data GROUP BY 1",
        "SELECT sum(n::integer) FROM data WHERE n <> 'none'",
        "SELECT sum(n::integer) FROM data WHERE id < 5000",
        "SELECT n::integer, count(*) FROM data WHERE id > 5001 GROUP BY 1",
        "SELECT sum(n::integer) FILTER (WHERE n <> 'none') FROM data",
        "SELECT count(*) FROM data WHERE id < 5000 AND n::integer > 3",
        "SELECT count(*) FROM data WHERE n::integer > 3 AND id < 5000",
        "SELECT sum(CASE WHEN n ~ '^[0-9]+$' THEN n::integer ELSE -1 END) FROM data",
        "SELECT sum(CASE WHEN n ~ '^[0-9]+$' THEN n::integer + i ELSE i END) FROM data",
        "SELECT sum(CASE WHEN n ~ '^[a-z]+$' THEN n::integer + i ELSE i END) FROM data",
        "SELECT sum(CASE WHEN id <> 5000 THEN i ELSE n::integer END) FROM data",
        "SELECT sum(CASE WHEN id <> 4000 THEN i ELSE n::integer END) FROM data",
        "SELECT sum(coalesce(i, n::integer)) FROM data",
        "SELECT sum(coalesce(nullif(i, 3), n::integer)) FROM data",
        "SELECT sum(100 / n::integer) FROM data WHERE n <> 'none'",
        "SELECT sum(100 / n::integer) FROM data WHERE n NOT IN ('none', '0')",
        "SELECT 100 / nullif(n, '0')::integer, count(*) FROM data WHERE id < 4000 GROUP BY 1",
        "SELECT count(*) FROM data WHERE n <> 'none' AND 100 / n::integer > 3",
        "SELECT i, max(n::integer) FROM data WHERE id <= 5000 GROUP BY i",
        "SELECT i, max(n::integer) FROM data WHERE id NOT IN (5000, 5001) GROUP BY i",
    ):
        agree(vectors, query)


def test_long_and_compressed_strings(vectors: Connection) -> None:
    vectors.execute(
        "CREATE TABLE data AS SELECT g AS id, CASE g % 5 WHEN 0 THEN repeat('compressed ', 1000)"
        " WHEN 1 THEN (SELECT string_agg(md5(k::text), '') FROM generate_series(1, 300) k) WHEN 2 THEN ''"
        " WHEN 3 THEN repeat('ab', 4100) ELSE 'short' END AS t FROM generate_series(1, 600) g"
    )
    for query in (
        "SELECT upper(t), count(*) FROM data GROUP BY 1",
        "SELECT left(regexp_replace(t, '[0-9]', '#', 'g'), 100), length(upper(t)), count(*) FROM data GROUP BY 1, 2",
        "SELECT max(t || t), min(reverse(t)) FROM data WHERE t ~ '^[a-z]'",
    ):
        both(vectors, query)
    vectors.execute("CREATE INDEX ON data USING columns (id, t) WITH (segment_blocks = 16)")
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.columns = force")
    both(vectors, "SELECT upper(t), count(*), max(length(t || 'x')) FROM data GROUP BY 1")


def test_parameters(vectors: Connection) -> None:
    """A parameter is the same for a whole execution, and another one in the next."""
    fill(vectors, "columns")
    vectors.execute("SET plan_cache_mode = force_generic_plan")
    vectors.execute("PREPARE q (text) AS SELECT regexp_replace(t, $1, '*'), count(*) FROM data WHERE t ~ $1 GROUP BY 1")
    for pattern in ("_1[0-9]", "_[0-9]+", "3"):
        ours = answers.answer(vectors.execute(f"EXECUTE q ('{pattern}')".encode()))
        literal = f"SELECT regexp_replace(t, '{pattern}', '*'), count(*) FROM data WHERE t ~ '{pattern}' GROUP BY 1"
        plans.switch(vectors, False)
        core = answers.answer(vectors.execute(literal.encode()))
        plans.switch(vectors, True)
        assert answers.difference(core, ours) is None
    # of a subquery that is run again for each row outside
    both(vectors, "SELECT o.k, s.* FROM (VALUES ('1'), ('2'), ('1')) o(k), LATERAL (SELECT count(*) FILTER"
         " (WHERE t ~ o.k), max(regexp_replace(t, o.k, '+')) FROM data) s", node=None)  # fmt: skip


def test_of_expressions_in_an_index(vectors: Connection) -> None:
    """What a columnar index has of an expression is a column: with codes, bounds, and a sum."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g AS id, jsonb_build_object('k', 'Kind ' || g % 40, 'n', g % 90) AS j"
        " FROM generate_series(1, 6000) g"
    )
    vectors.execute(
        "CREATE INDEX ON data USING columns (id, (j ->> 'k'), ((j ->> 'n')::integer)) WITH (segment_blocks = 16)"
    )
    vectors.execute("VACUUM (FREEZE, ANALYZE) data")
    vectors.execute("SET pgbillion_rows.columns = force")
    queries = (
        "SELECT lower(j ->> 'k'), count(*) FROM data GROUP BY 1",
        "SELECT regexp_replace(j ->> 'k', '[0-9]$', '*') AS k, sum((j ->> 'n')::integer) FROM data GROUP BY 1",
        "SELECT sum((j ->> 'n')::integer), sum((j ->> 'n')::integer + 1), avg(2 * (j ->> 'n')::integer) FROM data",
        "SELECT count(*) FROM data WHERE j ->> 'k' ~ '3' AND (j ->> 'n')::integer + 1 > 5",
    )
    for query in queries:
        both(vectors, query)
    vectors.execute("UPDATE data SET j = jsonb_build_object('k', 'Other', 'n', 2147483646) WHERE id = 3000")
    for query in queries:
        agree(vectors, query)
    agree(vectors, "SELECT sum((j ->> 'n')::integer), sum((j ->> 'n')::integer + 2) FROM data")
