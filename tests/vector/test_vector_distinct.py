"""DISTINCT within aggregates: few and many groups, values of every type, little memory, what is refused."""

from __future__ import annotations

import psycopg
import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import both, explained, in_parallel, make, vectors
from test_vector_finalize import TYPES, files, has_node, little_memory, loops, spilled

__all__ = ["vectors"]


def test_the_plan(vectors: Connection) -> None:
    make(vectors, last=20_000)
    vectors.execute("INSERT INTO data SELECT g, NULL, NULL, NULL, NULL FROM generate_series(1, 100) g")
    for query in (
        "SELECT count(DISTINCT x), sum(DISTINCT x), avg(DISTINCT grp), count(x), count(*) FROM data",
        "SELECT grp, count(DISTINCT t), count(t), max(DISTINCT t) FROM data WHERE id > 10 GROUP BY 1",
        "SELECT id % 5000, count(DISTINCT x % 3) FILTER (WHERE grp > 2), sum(f) FROM data GROUP BY 1"
        " HAVING count(DISTINCT grp) > 1 AND sum(DISTINCT x) > 0 ORDER BY count(DISTINCT t), 1",
        "SELECT count(DISTINCT x) FROM data HAVING count(DISTINCT grp) > 100",
        "SELECT count(DISTINCT x) + 1, grp FROM data GROUP BY grp ORDER BY -count(DISTINCT x), grp LIMIT 3",
        "SELECT count(DISTINCT x) FROM data WHERE id < 0",
        "SELECT grp, count(DISTINCT x) FROM data WHERE id < 0 GROUP BY 1",
    ):
        both(vectors, query)
        done = loops(vectors, query)
        assert (done["Aggregate"], done[plans.NODE]) == (0, 1), query
    plan = plans.explain(
        vectors, "SELECT grp, count(DISTINCT x), sum(DISTINCT x), avg(DISTINCT id) FROM data GROUP BY 1"
    )
    scan = next(node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == plans.NODE)
    assert scan["Distinct"].replace("data.", "") == "x, id"
    text = "\n".join(
        line for (line,) in vectors.execute("EXPLAIN (VERBOSE, COSTS OFF) SELECT count(DISTINCT x), count(x) FROM data")
    )
    assert text.startswith("Custom Scan (VectorFinalize)\n  Output: (count(DISTINCT x)), (count(x))\n")
    assert "Vectorized: 2 of 2 aggregates" in text


@pytest.mark.parametrize("name", TYPES)
def test_types_of_values(vectors: Connection, name: str) -> None:
    """Every type that can be hashed, with and without memory for it, with NULLs."""
    vectors.execute(
        f"CREATE TABLE data AS SELECT g AS id, CASE WHEN g % 11 = 3 THEN NULL ELSE ({TYPES[name]})::{name} END AS v"
        " FROM (SELECT g / 3 FROM generate_series(1, 24000) g) s(g)".encode()
    )
    queries = (
        "SELECT count(DISTINCT v), count(v) FROM data",
        "SELECT id % 3, count(DISTINCT v) FROM data GROUP BY 1",
        "SELECT id % 5000, count(DISTINCT v) FILTER (WHERE id % 2 = 0), max(id) FROM data GROUP BY 1",
    )
    for query in queries:
        both(vectors, query)
    little_memory(vectors)
    for query in queries:
        both(vectors, query)
    if name not in ("boolean", '"char"'):
        assert spilled(vectors, queries[0])[0] > 0
    assert files(vectors) == 0


def test_values_without_room(vectors: Connection) -> None:
    """Values spilled and spilled again, next to groups that are; every state advanced once per value."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g AS id, g % 12000 AS x, (g % 10500)::bigint * 1000003 AS y,"
        " (g % 9000 / 100.0)::numeric(9,2) AS n, repeat('x', g % 50) || g % 6000 AS t, g % 4 AS few"
        " FROM generate_series(1, 36000) g"
    )
    little_memory(vectors)
    for query in (
        "SELECT count(DISTINCT x), sum(DISTINCT y), avg(DISTINCT y), sum(DISTINCT n), avg(DISTINCT n) FROM data",
        "SELECT few, count(DISTINCT x), sum(DISTINCT n), stddev(DISTINCT n), sum(DISTINCT y) FROM data GROUP BY 1",
        "SELECT x % 3000, count(DISTINCT y), sum(DISTINCT n), count(DISTINCT t), sum(id) FROM data GROUP BY 1",
        "SELECT t, count(DISTINCT id), variance(DISTINCT y) FROM data GROUP BY 1",
        "SELECT count(DISTINCT t), max(DISTINCT t), min(DISTINCT t) FROM data",
    ):
        both(vectors, query)
        assert spilled(vectors, query)[0] > 8, query
    # again and again, with groups begun anew
    query = (
        "SELECT o.k, s.* FROM (VALUES (1), (27000), (1), (90000)) o(k), LATERAL (SELECT few, count(DISTINCT x),"
        " sum(DISTINCT y) FROM data WHERE id > o.k GROUP BY few) s ORDER BY 1, 2"
    )
    both(vectors, query)
    both(vectors, query.replace("WHERE id > o.k", "WHERE id > 0"))
    both(
        vectors,
        query.replace("few, count", "count").replace(" GROUP BY few", "").replace("ORDER BY 1, 2", "ORDER BY 1"),
    )
    assert files(vectors) == 0


def test_memory_is_bounded(vectors: Connection) -> None:
    vectors.execute("CREATE TABLE data AS SELECT g AS id FROM generate_series(1, 300000) g")
    vectors.execute("SET work_mem = '1MB'; SET hash_mem_multiplier = 1")
    query = b"DECLARE k CURSOR FOR SELECT count(DISTINCT id), count(DISTINCT id::bigint * 7919) FROM data"
    vectors.execute(b"BEGIN")
    vectors.execute(query)
    vectors.execute("FETCH 1 FROM k")
    total = one(vectors, "SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'pgbillion%'")
    assert total < 2**20 * 1.5
    vectors.execute("COMMIT")


def test_errors_are_raised(vectors: Connection) -> None:
    make(vectors)
    for query in (
        "SELECT count(DISTINCT 1 / (x - 300)) FROM data",
        "SELECT grp, sum(DISTINCT x * 1000000) FROM data GROUP BY 1",
    ):
        found = []
        for mode in ("force", "off"):
            vectors.execute(f"SET pgbillion_rows.vector_aggregate = {mode}".encode())
            with pytest.raises(psycopg.DataError) as info:
                vectors.execute(query.encode())
            found.append(str(info.value))
        assert found[0] == found[1]
        vectors.execute("SET pgbillion_rows.vector_aggregate = force")


def test_what_is_refused(vectors: Connection) -> None:
    vectors.execute(
        "CREATE TABLE data (id integer, f double precision, n numeric, n2 numeric(9,2), c char(3), t text, p point);"
        " INSERT INTO data SELECT g, g, g / 4.0, g / 4.0, 'a', g FROM generate_series(1, 100) g;"
        " CREATE TABLE parts (id integer) PARTITION BY RANGE (id);"
        " CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (100)"
    )
    same = "DISTINCT in an aggregate of values that can be equal and look different"
    for what, reason in {
        "sum(DISTINCT f)": "a sum of DISTINCT floats, which PostgreSQL adds in order",
        "avg(DISTINCT f::real)": "a sum of DISTINCT floats, which PostgreSQL adds in order",
        "min(DISTINCT f)": same,
        "sum(DISTINCT n)": same,
        "sum(DISTINCT n2 + 1)": same,
        "max(DISTINCT c)": same,
        "count(DISTINCT id::money)": "DISTINCT in an aggregate of values that cannot be hashed",
        "count(DISTINCT id ORDER BY id)": "count(DISTINCT id) has no partial form",
        "count(DISTINCT id), array_agg(t)": "aggregate array_agg(",
        "string_agg(DISTINCT t, ',')": "aggregate string_agg(text,text)",
    }.items():
        both(vectors, f"SELECT {what} FROM data", node=False)
        assert reason in explained(vectors, f"SELECT {what} FROM data"), what
    for what in ("sum(DISTINCT n2)", "count(DISTINCT f)", "count(DISTINCT n)", "count(DISTINCT c)", "max(DISTINCT n2)"):
        both(vectors, f"SELECT {what} FROM data")
    told = explained(vectors, "SELECT count(DISTINCT id) FROM parts")
    assert "faster is count(id) over a subquery with SELECT DISTINCT id" in told
    vectors.execute("SET enable_hashagg = off")
    assert "enable_hashagg off" in explained(vectors, "SELECT count(DISTINCT id) FROM data")


def test_equal_values_that_look_different(vectors: Connection) -> None:
    vectors.execute("CREATE TABLE data (k integer, f double precision, n numeric, c char(4), b bpchar)")
    vectors.execute(
        "INSERT INTO data SELECT g % 3, (ARRAY['-0', '0', 'NaN', '-NaN', 'Infinity'])[1 + g % 5]::float8,"
        " (ARRAY['1', '1.0', '1.00', 'NaN', '0', '0.000'])[1 + g % 6]::numeric, 'a', 'b' || repeat(' ', g % 3)"
        " FROM generate_series(1, 300) g"
    )
    counts = "count(DISTINCT f), count(DISTINCT f::real), count(DISTINCT n), count(DISTINCT c), count(DISTINCT b)"
    assert both(vectors, f"SELECT {counts} FROM data") == [(b"3", b"3", b"3", b"1", b"1")]
    both(vectors, f"SELECT k, {counts} FROM data GROUP BY 1")


def test_collations(vectors: Connection) -> None:
    vectors.execute(
        "CREATE TABLE data AS SELECT g % 3 AS k, chr(65 + g % 26 + 32 * (g % 2)) AS t FROM generate_series(1, 500) g"
    )
    both(
        vectors,
        'SELECT k, count(DISTINCT t COLLATE "C"), max(DISTINCT t COLLATE "C"), min(DISTINCT t) FROM data GROUP BY 1',
    )
    # a server without ICU has none
    if one(vectors, "SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i' AND collname <> 'unicode')"):
        vectors.execute("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
        query = "SELECT count(DISTINCT t COLLATE loose) FROM data"
        assert both(vectors, query, node=False) == [(b"26",)]
        assert "nondeterministic" in explained(vectors, query)


def test_user_defined_aggregates(vectors: Connection) -> None:
    """Without a combine function, or a serialized state, there is no partial form."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g % 5 AS k, (g % 77)::bigint AS x FROM generate_series(1, 500) g;"
        "CREATE AGGREGATE own_count(\"any\") (sfunc = int8inc_any, stype = int8, initcond = '0', combinefunc = int8pl);"
        "CREATE AGGREGATE own_sum(bigint) (sfunc = int8_avg_accum, stype = internal, finalfunc = numeric_poly_sum,"
        " combinefunc = int8_avg_combine);"
        "CREATE AGGREGATE lone_count(\"any\") (sfunc = int8inc_any, stype = int8, initcond = '0')"
    )
    both(vectors, "SELECT k, own_count(DISTINCT x) FROM data GROUP BY 1", node=False)
    both(vectors, "SELECT own_sum(DISTINCT x) FROM data", node=False)
    both(vectors, "SELECT lone_count(DISTINCT x), count(DISTINCT x) FROM data", node=False)
    told = explained(vectors, "SELECT lone_count(DISTINCT x) FROM data")
    assert "next to one that has no partial form" in told


def test_cost(cluster: Cluster) -> None:
    """Chosen where PostgreSQL sorts, and not where an index gives the order for little."""
    with servers.new_database(cluster, "costs") as name, cluster.connect(name) as conn:
        conn.execute(
            "LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0;"
            " CREATE TABLE data AS SELECT g AS id, g % 1000 AS x, repeat('wide', 100) AS filler"
            " FROM generate_series(1, 60000) g;"
            " CREATE INDEX ON data (id)"
        )
        conn.execute("VACUUM ANALYZE data")
        assert has_node(plans.explain(conn, "SELECT count(DISTINCT x) FROM data"))
        assert has_node(plans.explain(conn, "SELECT x % 7, count(DISTINCT x), count(DISTINCT id) FROM data GROUP BY 1"))
        assert not has_node(plans.explain(conn, "SELECT count(DISTINCT id) FROM data WHERE id < 100"))


def test_serial_below_parallel(vectors: Connection) -> None:
    make(vectors)
    in_parallel(vectors)
    both(vectors, "SELECT count(DISTINCT x), (SELECT count(*) FROM data) FROM data")
    both(
        vectors,
        "SELECT grp, count(DISTINCT x) FROM data GROUP BY 1 UNION ALL SELECT grp, count(*) FROM data GROUP BY 1",
    )


def test_distinct_rows(vectors: Connection) -> None:
    """SELECT DISTINCT, and GROUP BY without an aggregate."""
    make(vectors)
    for query in (
        "SELECT DISTINCT grp, t FROM data",
        "SELECT count(*) FROM (SELECT DISTINCT grp, x % 10 FROM data) s",
        "SELECT grp FROM data GROUP BY grp",
        "SELECT count(*) FROM (SELECT t FROM data GROUP BY t HAVING t > '') s",
        "SELECT count(DISTINCT (id, x)::text) FROM data",
    ):
        assert isinstance(both(vectors, query), list)


def test_memory_is_given_back(vectors: Connection) -> None:
    make(vectors, last=3000)
    vectors.execute(
        "PREPARE q AS SELECT grp, count(DISTINCT t), sum(DISTINCT x) FROM data GROUP BY 1;"
        " SET plan_cache_mode = force_generic_plan"
    )
    used = []
    for _ in range(3):
        for _ in range(20):
            vectors.execute("EXECUTE q")
        used.append(one(vectors, "SELECT sum(total_bytes) FROM pg_backend_memory_contexts"))
    assert float(used[2]) <= float(used[1]) * 1.01


def test_answers_do_not_depend_on_the_rest(vectors: Connection) -> None:
    """DISTINCT next to the same aggregate without it, and twice."""
    make(vectors)
    query = "SELECT count(t), count(DISTINCT t), sum(x % 10), sum(DISTINCT x % 10), count(DISTINCT t) * 2 FROM data"
    assert both(vectors, query) == [(b"5000", b"11", b"22500", b"45", b"22")]
    assert answers.answer(vectors.execute("SELECT avg(DISTINCT grp), min(DISTINCT grp) FROM data")).rows


def test_values_from_an_index_of_columns(vectors: Connection) -> None:
    """What is only counted need not be read, except with DISTINCT."""
    vectors.execute(
        "CREATE TABLE data AS SELECT g AS id, g % 7 AS few, g % 4000 AS many, ('t' || g % 900) AS t,"
        " (g % 50 / 4.0)::numeric(9,2) AS n FROM generate_series(1, 20000) g"
    )
    vectors.execute("VACUUM data")
    vectors.execute("CREATE INDEX ON data USING columns (id, few, many, t, n)")
    vectors.execute("VACUUM ANALYZE data")
    vectors.execute("CALL pgbillion_rows.columns_refresh('data')")
    vectors.execute("SET pgbillion_rows.columns = force")
    for query in (
        "SELECT count(DISTINCT few), count(DISTINCT many), count(DISTINCT t), count(DISTINCT n), count(id) FROM data",
        "SELECT few, count(DISTINCT many), count(DISTINCT t), sum(DISTINCT n), max(n), max(t) FROM data GROUP BY 1",
        "SELECT count(DISTINCT t) FROM data WHERE id % 3 = 1",
        "SELECT t, count(DISTINCT many), min(n), count(DISTINCT n) FILTER (WHERE many > 5) FROM data GROUP BY 1",
    ):
        assert any("Columns" in node for node in plans.nodes(plans.explain(vectors, query))), query
        both(vectors, query)
