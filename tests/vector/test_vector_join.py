"""Joins below vectorized aggregation: one test for each rule."""

from __future__ import annotations

import contextlib
import os
import random
import re
import threading
from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from harness.amount import amount
from harness.join_tables import COLUMNS, TABLES
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.rows.answers import Answer, Tolerance
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# rows may come in another order, and values of both signs are added
TOLERANCE = Tolerance(float4=1e-3, float8=1e-6, absolute=1e-6)
# the first aggregates what it joins, the second returns it
NODES = (plans.NODE, plans.JOIN)
JOINED = "Inner Join 1"
KIND = r"((?:Right )?(?:Inner|Left|Semi|Anti)) Join \d+"
LITTLE = "SET work_mem = '64kB'; SET hash_mem_multiplier = 1"


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "vector_joins") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
            conn.execute("VACUUM fact")
            conn.execute(COLUMNS.encode())
            # where rows have changed since, the index does not hold
            conn.execute("UPDATE fact SET x = x - 1, b = 3 WHERE id BETWEEN 600 AND 640")
            conn.execute("ANALYZE fact")
        yield name


def prepare(conn: Connection) -> None:
    """Have PostgreSQL take hash joins, workers for small tables, and us wherever we can."""
    conn.prepare_threshold = None
    conn.execute(
        "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_join = force; SET pgbillion_rows.eager_aggregate = off;"
        " SET enable_nestloop = off; SET enable_mergejoin = off; SET min_parallel_table_scan_size = 0;"
        " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 0;"
        " SET pgbillion_rows.columns = off;"
        " SET statement_timeout = '120s'"
    )


@pytest.fixture
def joins(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session with the feature forced, in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        prepare(conn)
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def kinds(plan: plans.Plan) -> list[str]:
    """The kinds of the joins that vectors do, in their order."""
    return [
        found[1]
        for node in plans.nodes(plan)
        for key in node
        if node.get("Custom Plan Provider") in NODES and (found := re.fullmatch(KIND, key))
    ]


def switch(conn: Connection, mode: str) -> None:
    conn.execute(f"SET pgbillion_rows.vector_join = {mode}".encode())


def both(conn: Connection, query: str, expected: list[str] | None) -> Answer:
    """The answer, which is the same with the feature off. ``expected`` are the joins that vectors must do."""
    switch(conn, "force")
    found = kinds(plans.explain(conn, query))
    assert expected is None or found == expected, plans.text(conn, query)
    ours = answers.answer(conn.execute(query.encode()))
    switch(conn, "off")
    assert kinds(plans.explain(conn, query)) == []
    core = answers.answer(conn.execute(query.encode()))
    switch(conn, "force")
    assert answers.difference(core, ours, TOLERANCE) is None, query
    return ours


def shape(conn: Connection, query: str) -> str:
    """The plan as text, without costs."""
    return "\n".join(line for (line,) in conn.execute(f"EXPLAIN (COSTS OFF) {query}".encode()))


def details(conn: Connection, query: str, label: str) -> list[str]:
    """What EXPLAIN ANALYZE tells under a label."""
    plan = plans.explain(conn, query, run=True)
    return [str(value) for node in plans.nodes(plan) for key, value in node.items() if key.startswith(label)]


# when it is chosen


def test_the_switch(joins: Connection) -> None:
    query = "SELECT i.name, sum(f.x) FROM fact f JOIN ints i ON f.b = i.k GROUP BY 1"
    both(joins, query, ["Inner"])
    joins.execute("RESET pgbillion_rows.vector_join")
    assert one(joins, "SHOW pgbillion_rows.vector_join") == "on"
    switch(joins, "off")
    assert kinds(plans.explain(joins, query)) == []
    assert "not vectorized: a join" in one(joins, "SELECT pgbillion_rows.explain_vector(%s)", query)
    switch(joins, "on")
    joins.execute("CREATE TABLE more AS SELECT f.* FROM fact f, generate_series(1, 30); ANALYZE more")
    more = query.replace("fact", "more")
    assert kinds(plans.explain(joins, more)) == ["Inner"]
    for setting in ("enable_hashjoin", "enable_seqscan"):
        joins.execute(f"SET LOCAL {setting} = off".encode())
        assert kinds(plans.explain(joins, more)) == [], setting
        joins.execute(f"SET LOCAL {setting} = on".encode())
    # what does not fit is PostgreSQL's
    joins.execute("CREATE TABLE wide AS SELECT i AS k, repeat('x', 100) AS t FROM generate_series(1, 5000) i")
    joins.execute("ANALYZE wide")
    joins.execute(LITTLE.encode())
    wide = "SELECT max(t), count(*) FROM more f JOIN wide ON f.id = wide.k"
    assert kinds(plans.explain(joins, wide)) == []
    assert "5000 rows estimated to be joined with" in one(joins, "SELECT pgbillion_rows.explain_vector(%s)", wide)


@pytest.mark.quick
def test_explain_shows_the_joins(joins: Connection) -> None:
    said = shape(
        joins,
        "SELECT i.name, l.label, count(*) FROM fact f LEFT JOIN ints i ON f.b = i.k AND i.w < f.x"
        " JOIN longs l ON l.k = f.c WHERE f.x > 5 AND coalesce(i.w, 1) > f.c GROUP BY 1, 2",
    )
    for line in (
        "Left Join 1: (f.b = i.k)", "Join Filter 1: (i.w < f.x)", "Filter 1: (COALESCE(i.w, 1) > f.c)",
        "Inner Join 2: (f.c = l.k)", "Seq Scan on ints i", "Seq Scan on longs l", "Filter: (f.x > 5)",
    ):  # fmt: skip
        swapped = line.translate(str.maketrans("12", "21")) if "Join" in line or "Filter 1" in line else line
        assert line in said or swapped in said, (line, said)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT count(*) FROM fact f JOIN ints i ON f.b < i.k", "a join by other conditions than equality"),
        (
            "SELECT count(*) FROM fact f LEFT JOIN ints i ON 5::bigint = f.b",
            "a join by other conditions than equality",
        ),
        ("SELECT count(*) FROM ints i FULL JOIN longs l ON l.k = i.k", "a right or full join"),
        ("SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k AND f.x + i.w < random()", "a volatile function"),
        ("SELECT max(f.ctid::text) FROM fact f JOIN ints i ON f.b = i.k", "a system column"),
        ("SELECT count(i) FROM fact f JOIN ints i ON f.b = i.k", "a whole-row reference"),
        (
            "SELECT i.one, count(*) FROM fact f LEFT JOIN (SELECT k, 1 AS one FROM ints) i ON f.b = i.k GROUP BY 1",
            "an expression from below an outer join",
        ),
        (
            "SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k AND f.x > (SELECT max(g + random()) FROM longs"
            " WHERE k = i.w)",
            "a subquery that may give another result each time",
        ),
    ],
)
def test_what_is_left_alone(joins: Connection, query: str, reason: str) -> None:
    both(joins, query, []) if "random" not in query else None
    assert f"not vectorized: {reason}" in one(joins, "SELECT pgbillion_rows.explain_vector(%s)", query)


# the rows of the join are those of the small side, along the large one
REVERSED: dict[str, tuple[str, ...]] = {
    "EXISTS": (
        "SELECT i.name, count(*), sum(i.w) FROM ints i WHERE EXISTS (SELECT FROM fact f WHERE f.b = i.k) GROUP BY 1",
        "SELECT i.k, i.w FROM ints i WHERE i.k IN (SELECT b FROM fact) ORDER BY 1, 2",
        # with a further condition, which several matches of a row satisfy, or one, or none
        "SELECT i.name, count(*), sum(i.w) FROM ints i WHERE EXISTS (SELECT FROM fact f WHERE f.b = i.k"
        " AND f.id <> i.w) GROUP BY 1",
        "SELECT count(*), sum(i.w) FROM ints i WHERE EXISTS (SELECT FROM fact f WHERE f.b = i.k AND f.id = i.w + 41)",
        # by several keys, by words, and below another join
        "SELECT count(*), sum(i.w) FROM ints i WHERE EXISTS (SELECT FROM fact f WHERE f.b = i.k AND f.c = i.k2)",
        "SELECT w.code, w.weight FROM words w WHERE EXISTS (SELECT FROM fact f WHERE f.s = w.code AND f.big < w.code)",
        "SELECT l.label, count(*), sum(i.w) FROM ints i LEFT JOIN longs l ON l.k = i.k2 WHERE EXISTS"
        " (SELECT FROM fact f WHERE f.b = i.k AND f.id > i.w) GROUP BY 1",
        # with nothing in the table, or nothing that its filter leaves
        "SELECT count(*), sum(i.w) FROM ints i WHERE EXISTS (SELECT FROM fact f WHERE f.b = i.k AND f.id < 0)",
    )
}
REVERSED["NOT EXISTS"] = tuple(
    query.replace("EXISTS", "NOT EXISTS").replace("i.k IN (SELECT b FROM fact)", "NOT i.k = ANY (SELECT b FROM fact)")
    for query in REVERSED["EXISTS"]
    if " IN " not in query
)


@pytest.mark.parametrize("query", [query for queries in REVERSED.values() for query in queries])
def test_rows_of_the_small_side(joins: Connection, query: str) -> None:
    """Along the table that EXISTS is about; with NULLs among the keys, and where the small side does not fit."""
    joins.execute("CREATE TABLE wide AS SELECT i.*, repeat('y', 400) AS pad FROM ints i, generate_series(1, 30)")
    joins.execute("ANALYZE wide")
    kind = "Right Anti" if "NOT EXISTS" in query else "Right Semi"
    assert kind in kinds(plans.explain(joins, query)), plans.text(joins, query)
    both(joins, query, None)
    many = query.replace("FROM ints i", "FROM wide i").replace("sum(i.w)", "sum(i.w), max(i.pad)")
    both(joins, many, None)
    joins.execute(LITTLE.encode())
    both(joins, many, None)


def test_rows_of_the_small_side_again(joins: Connection) -> None:
    """What has been matched is forgotten, also where the hash table is kept."""
    for negated in ("", "NOT "):
        condition = f"{negated}EXISTS (SELECT FROM fact f WHERE f.b = i.k AND f.id % 400 < most * 12 AND f.id <> i.w)"
        query = (
            "SELECT most, c, s FROM generate_series(0, 6) most, LATERAL"
            f" (SELECT count(*) c, sum(i.w) s FROM ints i WHERE {condition} OFFSET 0) l"
        )
        answer = both(joins, query, None)
        assert len({row[1:] for row in answer.rows}) > 2
        kind = "Right Anti" if negated else "Right Semi"
        assert kinds(plans.explain(joins, query)) == [kind]
        both(joins, query.replace("i WHERE", "i WHERE i.w < most * 9 AND"), None)
        # where the first match decides, and the keys are kept, too
        decided = query.replace(" AND f.id <> i.w", "")
        answer = both(joins, decided, None)
        assert len({row[1:] for row in answer.rows}) > 2
        # with the table of a few pages, which is read first otherwise
        small = query.replace("fact f WHERE f.b", "many f WHERE f.k").replace("f.id", "f.y")
        both(joins, small, None)


@pytest.mark.parametrize("negated", ["", "NOT "])
def test_rows_of_keys_that_are_marked_are_left_out(joins: Connection, negated: str) -> None:
    """Each key has several rows on the small side, and a thousand in the table."""
    joins.execute("CREATE TABLE few AS SELECT i % 20 AS k, i AS w FROM generate_series(1, 60) i")
    joins.execute("CREATE TABLE long AS SELECT i % 19 + 1 AS k, i AS x FROM generate_series(1, 19000) i")
    joins.execute("ANALYZE few, long; SET pgbillion_rows.vector_join = force")

    query = f"SELECT count(*), sum(w) FROM few WHERE {negated}EXISTS (SELECT FROM long WHERE long.k = few.k)"
    assert kinds(plans.explain(joins, query)) == ["Right Anti" if negated else "Right Semi"]
    both(joins, query, None)
    switch(joins, "force")
    plan = one(joins, f"EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON) {query}")[0]["Plan"]
    removed = [node.get("Rows Removed by Join Keys", 0) for node in plans.nodes(plan)]
    assert sum(removed) > 16000


def test_rows_of_the_small_side_whatever_is_below(joins: Connection) -> None:
    """Rows that nothing matches are there also if another join has left nothing to match."""
    for below in ("nobody n", "longs n"):
        query = (
            "SELECT i.k, i.w FROM ints i WHERE NOT EXISTS"
            f" (SELECT FROM fact f JOIN {below} ON f.c = n.k WHERE f.b = i.k) ORDER BY 1, 2"
        )
        both(joins, query, None)
    # of keys that are all NULL nothing is known
    joins.execute("CREATE TABLE unknown AS SELECT nullif(k, k) AS k, w FROM ints; ANALYZE unknown")
    query = "SELECT count(*), sum(u.w) FROM unknown u WHERE NOT EXISTS (SELECT FROM fact f WHERE f.b = u.k)"
    assert kinds(plans.explain(joins, query)) == ["Right Anti"]
    both(joins, query, None)
    joins.execute("CREATE TABLE none (LIKE fact); ANALYZE none")
    for table in ("none", "fact"):
        query = f"SELECT count(*), sum(i.w) FROM ints i WHERE NOT EXISTS (SELECT FROM {table} f WHERE f.b = i.k)"
        both(joins, query, None)
    both(joins, "SELECT count(*) FROM nobody n WHERE NOT EXISTS (SELECT FROM fact f WHERE f.b = n.k)", None)
    # and joined further, with little memory, although the table has columns of which these rows have none
    joins.execute(LITTLE.encode())
    query = (
        "SELECT count(*), sum(w.w), max(m.pad) FROM (SELECT * FROM ints, generate_series(1, 20)) w JOIN (SELECT k, y,"
        " repeat('z', 300) pad FROM many) m ON w.k2 = m.k WHERE NOT EXISTS (SELECT FROM fact f WHERE f.b = w.k"
        " AND f.big <> w.name AND f.s <> w.name)"
    )
    both(joins, query, None)


def test_conditions_that_can_fail_keep_their_order(joins: Connection) -> None:
    """PostgreSQL does not look at further matches of a row."""
    for condition in ("10 / (f.id - i.w) > -100", "f.n > i.w"):
        query = f"SELECT count(*) FROM ints i WHERE EXISTS (SELECT FROM fact f WHERE f.b = i.k AND {condition})"
        assert "Right Semi" not in kinds(plans.explain(joins, query)), condition


DISTINCT = [
    "SELECT i.name, count(DISTINCT f.x), count(*), sum(f.id) FROM fact f JOIN ints i ON f.b = i.k GROUP BY 1",
    "SELECT count(DISTINCT i.name), count(DISTINCT f.s), sum(DISTINCT i.w) FROM fact f LEFT JOIN ints i ON f.b = i.k",
    "SELECT f.id % 900, count(DISTINCT i.w), avg(DISTINCT f.a) FROM fact f JOIN ints i ON f.b = i.k GROUP BY 1"
    " HAVING count(DISTINCT i.name) > 1",
    "SELECT f.s, count(DISTINCT f.big) FILTER (WHERE f.x > 0) FROM fact f WHERE EXISTS (SELECT FROM ints i"
    " WHERE f.b = i.k AND i.w <> f.x) GROUP BY 1",
    "SELECT m.y, count(DISTINCT f.id) FROM fact f JOIN many m ON f.c = m.k JOIN longs l ON l.k = f.c GROUP BY 1",
]


@pytest.mark.parametrize("query", DISTINCT)
def test_distinct_above_joins(joins: Connection, query: str) -> None:
    """Also where values do not fit into memory, and in processes, each of which has other values."""
    both(joins, query, None)
    assert len(kinds(plans.explain(joins, query))) == (2 if "many" in query else 1)
    assert any(node.get("Distinct") for node in plans.nodes(plans.explain(joins, query)))
    joins.execute("SAVEPOINT before")
    joins.execute(LITTLE.encode())
    both(joins, query, None)
    joins.execute("ROLLBACK TO before; SET LOCAL max_parallel_workers_per_gather = 2")
    both(joins, query, None)
    if query.count("DISTINCT") == 1 and "FILTER" not in query:
        plan = plans.explain(joins, query, run=True)
        assert plans.processes(plan) > 1, plans.text(joins, query)
        assert any("distinct value" in str(node.get("Exchange")) for node in plans.nodes(plan))


def test_security_barriers(joins: Connection) -> None:
    """A view with one is a plan of PostgreSQL's, which has filtered its rows; row security is left alone."""
    joins.execute("CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM ints WHERE w > 3")
    query = "SELECT count(*) FROM fact f JOIN barrier i ON f.b = i.k"
    both(joins, query, ["Inner"])
    joins.execute("GRANT SELECT ON fact, ints TO reader; CREATE POLICY p ON ints USING (w > 3)")
    joins.execute("ALTER TABLE ints ENABLE ROW LEVEL SECURITY; SET LOCAL ROLE reader")
    assert kinds(plans.explain(joins, query.replace("barrier", "ints"))) == []


def test_more_keys_and_columns_than_there_is_room_for(joins: Connection) -> None:
    for number, expected in ((8, ["Inner"]), (9, [])):
        keys = " AND ".join(f"f.b + {n} = i.k + {n}" for n in range(number))
        both(joins, f"SELECT count(*), sum(i.w) FROM fact f JOIN ints i ON {keys}", expected)
    said = one(joins, "SELECT pgbillion_rows.explain_vector(%s)", f"SELECT count(*) FROM fact f JOIN ints i ON {keys}")
    assert "a join by more than 8 columns" in said
    columns = ", ".join(f"c{n} bool" for n in range(1598))
    joins.execute(f"CREATE TABLE wide (b int, x int, {columns})".encode())
    joins.execute("INSERT INTO wide (b, x) SELECT b, x FROM fact; ANALYZE wide")
    both(joins, "SELECT count(*), sum(w.x), sum(i.w) FROM wide w LEFT JOIN ints i ON w.b = i.k", [])
    both(joins, "SELECT w.x, i.w FROM wide w LEFT JOIN ints i ON w.b = i.k", [])


def test_operators_that_are_not_strict(joins: Connection) -> None:
    """NULL may equal NULL for them, which no key of ours does."""
    joins.execute(
        "CREATE FUNCTION same(integer, integer) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN RETURN $1 IS NOT DISTINCT FROM $2; END';"
        "CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = same, COMMUTATOR = ===, HASHES);"
        "CREATE OPERATOR CLASS same_ops FOR TYPE integer USING hash AS OPERATOR 1 ===, FUNCTION 1 hashint4(integer)"
    )
    for kind in ("JOIN", "LEFT JOIN"):
        query = f"SELECT count(*), count(f.b), sum(i.w) FROM fact f {kind} ints i ON f.b === i.k"
        both(joins, query, [])
        said = one(joins, "SELECT pgbillion_rows.explain_vector(%s)", query)
        assert "a join by an operator that is not strict" in said


@pytest.mark.parametrize("method", ["hashjoin", "mergejoin", "nestloop"])
def test_conditions_above_outer_joins_are_no_keys(joins: Connection, method: str) -> None:
    """They remove rows, which a key of an outer join does not; and hold where there is no row to join with."""
    joins.execute(f"SET enable_hashjoin = off; SET enable_{method} = on".encode())
    joins.execute("SET enable_hashjoin = on")
    query = "SELECT count(*), sum(f.x), sum(i.w) FROM fact f LEFT JOIN ints i ON f.b = i.k"
    assert both(joins, f"{query} WHERE coalesce(i.w, 3) = f.c", ["Left"]).rows != both(joins, query, ["Left"]).rows
    both(joins, f"{query} AND coalesce(i.w, 3) = f.c", ["Left"])
    both(joins, "SELECT f.id, i.w FROM fact f LEFT JOIN ints i ON f.b = i.k WHERE coalesce(i.w, 3) = f.c", ["Left"])


@pytest.mark.parametrize("least", [1, 1000])
def test_conditions_without_columns(joins: Connection, least: int) -> None:
    """They are checked once, and are no part of what a join looks at; except on rows that stay whatever they say."""
    holds = f"(SELECT count(*) FROM longs) > {least}"
    for columns in ("count(*), count(i.w)", "f.id, i.w"):
        both(joins, f"SELECT {columns} FROM fact f LEFT JOIN ints i ON f.b = i.k AND {holds}", ["Left"])
        query = f"SELECT {columns} FROM fact f JOIN ints i ON f.b = i.k WHERE {holds}"
        both(joins, query, [])
        below = f"longs l LEFT JOIN (fact f JOIN ints i ON f.b = i.k AND {holds}) ON l.k = f.c"
        both(joins, f"SELECT {columns} FROM {below}", None)
    said = one(joins, "SELECT pgbillion_rows.explain_vector(%s)", query.replace("f.id, i.w", "count(*)"))
    assert "a condition that refers to no column" in said


# what joins do


@pytest.mark.quick
def test_kinds_of_joins(joins: Connection) -> None:
    both(joins, "SELECT count(*), sum(i.w), sum(f.x) FROM fact f JOIN ints i ON f.b = i.k", ["Inner"])
    both(joins, "SELECT count(*), count(i.k), sum(f.x) FROM fact f LEFT JOIN ints i ON f.b = i.k", ["Left"])
    both(joins, "SELECT count(*), sum(f.x) FROM fact f WHERE EXISTS (SELECT FROM many m WHERE m.k = f.a)", None)
    both(joins, "SELECT count(*), sum(f.x) FROM fact f WHERE NOT EXISTS (SELECT FROM many m WHERE m.k = f.a)", ["Anti"])
    # with further conditions, of which the first match need not be the one
    for negated, kind in (("", "Semi"), ("NOT", "Anti")):
        both(
            joins,
            f"SELECT f.s, count(*) FROM fact f WHERE {negated} EXISTS"
            " (SELECT FROM many m WHERE m.k = f.a AND m.y % 13 > abs(f.x) % 99) GROUP BY 1",
            [kind],
        )
    both(
        joins,
        "SELECT f.s, count(*), count(m.y), sum(m.y) FROM fact f LEFT JOIN many m ON m.k = f.a AND m.y % 13 = f.x % 13"
        " WHERE coalesce(m.y, 0) % 2 = 0 GROUP BY 1",
        None,
    )


def test_a_later_join_may_look_at_what_a_semijoin_found(joins: Connection) -> None:
    """The same values are equal to three columns, of which PostgreSQL compares any two."""
    query = (
        "SELECT count(*) FROM fact f WHERE f.b IN (SELECT z FROM shorts)"
        " AND f.b IN (SELECT extract(day FROM day) FROM days)"
    )
    assert both(joins, query, ["Semi", "Semi"]).rows != [(b"0",)]


def test_no_row_to_join_with(joins: Connection) -> None:
    both(joins, "SELECT count(*), sum(f.x) FROM fact f JOIN nobody n ON f.b = n.k", ["Inner"])
    both(joins, "SELECT count(*), count(n.name) FROM fact f LEFT JOIN nobody n ON f.b = n.k", ["Left"])
    both(joins, "SELECT count(*) FROM fact f WHERE NOT EXISTS (SELECT FROM nobody n WHERE f.b = n.k)", ["Anti"])
    # the table is not even looked at, whatever its conditions do
    both(joins, "SELECT count(*) FROM fact f JOIN nobody n ON f.b = n.k WHERE 1 / (f.id - f.id) = 1", ["Inner"])


def test_more_matches_than_a_batch_holds(joins: Connection) -> None:
    joins.execute("CREATE TEMP TABLE same AS SELECT 3 AS k, i FROM generate_series(1, 1200) i; ANALYZE same")
    both(joins, "SELECT f.s, count(*), sum(i), min(f.big) FROM fact f JOIN same ON f.a = same.k GROUP BY 1", ["Inner"])
    both(
        joins,
        "SELECT f.s, count(*), sum(i) FROM fact f LEFT JOIN same ON f.a = same.k AND (i < f.x) GROUP BY 1",
        None,
    )


@pytest.mark.quick
def test_columns_of_several_steps(joins: Connection) -> None:
    """A later join's key and condition are of an earlier join's rows."""
    both(
        joins,
        "SELECT l.label, w.grade, min(i.name), sum(i.w + l.g), count(*) FROM fact f JOIN ints i ON f.b = i.k"
        " LEFT JOIN longs l ON l.k = i.k2 AND l.g < f.a LEFT JOIN words w ON w.code = f.s AND w.grade > l.g"
        " GROUP BY 1, 2",
        None,
    )


@pytest.mark.quick
def test_keys_that_are_equal_without_being_identical(joins: Connection) -> None:
    joins.execute(
        "CREATE TEMP TABLE k1 AS SELECT * FROM (VALUES (1.0, 'a ', -0.0::float8), (1.00, 'a', 0), (2, 'b', 'nan'))"
        " AS v (n, p, f); ALTER TABLE k1 ALTER p TYPE char(3); ANALYZE k1;"
        "CREATE TEMP TABLE big AS SELECT (i % 4)::numeric AS n, chr(97 + i % 3)::char(5) AS p,"
        " CASE WHEN i % 2 = 0 THEN 0 ELSE 'nan'::float8 END AS f FROM generate_series(1, 900) i; ANALYZE big"
    )
    for column in ("n", "p", "f"):
        both(joins, f"SELECT count(*) FROM big JOIN k1 ON big.{column} = k1.{column}", ["Inner"])


def test_nondeterministic_collations(joins: Connection) -> None:
    try:
        joins.execute(
            "SAVEPOINT s; CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    except psycopg.errors.FeatureNotSupported:
        pytest.skip("this server has no ICU")
    joins.execute(
        "CREATE TEMP TABLE w (t text COLLATE nocase, n integer); INSERT INTO w VALUES ('A', 1), ('B', 2); ANALYZE w"
    )
    assert both(joins, "SELECT sum(w.n), count(*) FROM fact f JOIN w ON f.s = w.t", ["Inner"]).rows != [(None, b"0")]


def test_long_values_out_of_line(joins: Connection) -> None:
    joins.execute(
        "CREATE TEMP TABLE long AS SELECT i AS k, (SELECT string_agg(md5(i::text || j), '') FROM"
        " generate_series(1, 300) j) AS t FROM generate_series(1, 20) i; ANALYZE long;"
        "CREATE TEMP TABLE keyed AS SELECT l.t, i FROM long l, generate_series(1, 30) i; ANALYZE keyed"
    )
    both(joins, "SELECT md5(long.t), count(*) FROM fact f JOIN long ON f.b = long.k GROUP BY 1", ["Inner"])
    both(joins, "SELECT long.k, count(*) FROM keyed JOIN long USING (t) GROUP BY 1", ["Inner"])


# keys of build sides that remove rows of the table


def removed(conn: Connection, query: str) -> int:
    """How many rows of the table the keys of build sides have removed."""
    return sum(int(value) for value in details(conn, query, "Rows Removed by Join Keys"))


KEYED = """
CREATE TEMP TABLE probe AS SELECT i AS id, nullif(i % 3000, 7) AS k, (i % 3000)::smallint AS s,
    nullif(i % 3000, 7) * 1000000007::bigint AS far, (i % 3000)::oid AS o, date '2000-01-01' + nullif(i % 3000, 7) AS d,
    timestamp '2000-01-01' + make_interval(hours => i % 3000) AS ts, (i % 3000)::text AS t, i / 4.0 AS n
    FROM generate_series(1, 30000) i;
CREATE TEMP TABLE build AS SELECT nullif(i * 20, 100) - 40 AS k, (i * 20)::smallint AS s,
    (i * 20 - 40) * 1000000007::bigint AS far, (i * 20)::oid AS o, date '2000-01-01' + i * 20 - 40 AS d,
    timestamp '2000-01-01' + make_interval(hours => i * 20) AS ts, (i * 20)::text AS t, i AS y
    FROM generate_series(0, 60) i;
INSERT INTO build SELECT * FROM build WHERE y % 3 = 0; ANALYZE probe, build
"""


@pytest.mark.parametrize("key", ["k", "s", "far", "o", "d", "ts", "k = b.s AND p.s", "far = b.k AND p.s"])
def test_keys_remove_rows_first(joins: Connection, key: str) -> None:
    joins.execute(KEYED.encode())
    on = f"p.{key} = b.{key.split()[-1].removeprefix('p.')}"
    inner = f"SELECT count(*), sum(p.n), sum(b.y) FROM probe p JOIN build b ON {on} WHERE p.id % 5 <> 2"
    semi = f"SELECT count(*), sum(p.n) FROM probe p WHERE EXISTS (SELECT FROM build b WHERE {on} AND b.y > p.id % 50)"
    both(joins, inner, ["Inner"])
    assert removed(joins, inner) > 10_000
    both(joins, semi, ["Semi"])
    assert removed(joins, semi) > 10_000
    # the table is on the preserved side
    for kept in (
        f"SELECT count(*), count(b.y), sum(p.n) FROM probe p LEFT JOIN build b ON {on}",
        f"SELECT count(*), sum(p.n) FROM probe p WHERE NOT EXISTS (SELECT FROM build b WHERE {on})",
    ):
        both(joins, kept, None)
        assert details(joins, kept, "Rows Removed by Join Keys") == []


def test_keys_next_to_outer_joins(joins: Connection) -> None:
    """A join before and one after may remove what an outer join between them would keep."""
    joins.execute(KEYED.encode())
    for between in ("LEFT JOIN build x ON x.t = p.t", "LEFT JOIN build x ON x.k = p.k AND x.y > 30"):
        query = (
            f"SELECT count(*), count(x.y), sum(b.y), sum(p.n) FROM probe p {between} JOIN build b ON b.s = p.s"
            " WHERE NOT EXISTS (SELECT FROM build c WHERE c.d = p.d AND c.y % 2 = 1)"
        )
        both(joins, query, None)
        assert removed(joins, query) > 10_000


def test_keys_of_other_kinds_stay(joins: Connection) -> None:
    joins.execute(KEYED.encode())
    for on in ("p.t = b.t", "p.k + 1 = b.k", "p.n = b.y"):
        query = f"SELECT count(*), sum(b.y) FROM probe p JOIN build b ON {on}"
        both(joins, query, ["Inner"])
        assert details(joins, query, "Rows Removed by Join Keys") == []


def test_keys_that_remove_little_are_left_out(joins: Connection) -> None:
    joins.execute(KEYED.encode())
    query = "SELECT count(*) FROM probe p JOIN (SELECT DISTINCT s FROM probe WHERE s > 900) b ON p.s = b.s"
    both(joins, query, ["Inner"])
    assert 0 < removed(joins, query) < 3_000


def test_joins_along_a_table_that_postgresql_has_inside(joins: Connection) -> None:
    """What is joined first makes a small hash table, whichever side PostgreSQL has it on."""
    joins.execute(KEYED.encode())
    joins.execute("CREATE INDEX ON probe (k); CREATE INDEX ON build (k); ANALYZE probe")
    query = "SELECT b.y, sum(p.n) FROM build b JOIN longs l ON l.k = b.y JOIN probe p ON p.k = b.k GROUP BY 1"
    for settings in ("", "SET enable_nestloop = on", "SET join_collapse_limit = 1"):
        joins.execute(settings.encode())
        both(joins, query, None)
        assert "probe" in {node["Relation Name"] for node in plans.nodes(plans.explain(joins, query)) if JOINED in node}
    # the genetic search is left alone
    joins.execute("SET geqo_threshold = 2; SET geqo_seed = 0.5")
    both(joins, query, None)


def test_an_index_of_columns_below_joins(joins: Connection) -> None:
    query = (
        "SELECT i.name, count(*), sum(f.x), min(f.s) FROM fact f JOIN ints i ON f.b = i.k LEFT JOIN longs l"
        " ON l.k = f.c WHERE f.id < 1500 GROUP BY 1"
    )
    joins.execute("SET pgbillion_rows.columns = force")
    both(joins, query, None)
    assert details(joins, query, "Columns") == ["fact_columns"]
    # segments whose rows have other keys are not read
    joins.execute("CREATE TEMP TABLE few AS SELECT 3000 + i AS id, i AS y FROM generate_series(1, 20) i; ANALYZE few")
    query = "SELECT sum(f.x), sum(w.y) FROM fact f JOIN few w ON f.id = w.id"
    both(joins, query, ["Inner"])
    assert details(joins, query, "Column Segments Skipped") not in ([], ["0"]), plans.text(joins, query)
    # a column that it lacks, in a condition and only above the joins
    query = "SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k AND f.r > i.w"
    both(joins, query, ["Inner"])
    assert details(joins, query, "Columns") == []
    query = "SELECT max(f.r), count(*) FROM fact f JOIN ints i ON f.b = i.k"
    both(joins, query, ["Inner"])
    assert details(joins, query, "Columns") == ["fact_columns"]
    assert details(joins, query, "Fetched Columns") == ["f.r"]


def test_keys_of_a_build_side_that_is_read_again(joins: Connection) -> None:
    joins.execute(KEYED.encode())
    query = "SELECT o.k, (SELECT sum(p.id) FROM probe p JOIN build b ON p.k = b.k WHERE b.y > o.k * 4) FROM longs o"
    both(joins, query, ["Inner"])
    assert removed(joins, query) > 100_000
    joins.execute(LITTLE.encode())
    # it does not fit: nothing is known of it
    big = "SELECT count(*), sum(q.n) FROM probe p JOIN probe q ON p.k = q.id"
    both(joins, big, ["Inner"])
    assert removed(joins, big) == 0


# rows for PostgreSQL's plan above


def test_rows_for_plans_above(joins: Connection) -> None:
    joined = "FROM fact f JOIN ints i ON f.b = i.k LEFT JOIN longs l ON l.k = f.c AND l.g < f.a"
    for query in (
        f"SELECT f.id, f.s, i.name, l.label {joined}",
        f"SELECT f.id, f.big || i.name, (f.n + l.k)::text {joined} WHERE f.x > 0 ORDER BY f.id, i.w, l.k",
        f"SELECT f.id, i.w, l.k {joined} ORDER BY f.id DESC, i.w, l.k LIMIT 7",
        f"SELECT f.id, row_number() OVER (PARTITION BY i.name ORDER BY f.id, i.w, l.k) {joined}",
        f"SELECT DISTINCT ON (i.name) i.name, f.id {joined} ORDER BY i.name, f.id",
        f"SELECT i.name, string_agg(f.s, ',' ORDER BY f.id) {joined} GROUP BY 1",
        f"SELECT f.id, (SELECT max(w.grade) FROM words w WHERE w.code = f.s AND w.grade < i.w) {joined}",
        f"SELECT q.id, y FROM (SELECT f.id, f.a, i.w {joined} OFFSET 0) q JOIN many m ON m.k < q.a AND m.y = q.w",
        "SELECT f.id FROM fact f WHERE EXISTS (SELECT FROM many m WHERE m.k = f.a AND m.y % 13 > abs(f.x) % 99)",
        "SELECT f.id, f.s FROM fact f WHERE NOT EXISTS (SELECT FROM many m WHERE m.k = f.a)",
        "SELECT f.id, f.s FROM fact f WHERE NOT EXISTS (SELECT FROM many m WHERE m.k = f.a AND m.y > f.x)",
    ):
        ours = both(joins, query, None)
        assert kinds(plans.explain(joins, query)) != [], query
        assert len(ours.rows) > 5, query
    query = f"SELECT f.id, i.name, l.label {joined}"
    joins.execute(f"CREATE TEMP TABLE ours AS {query}".encode())
    joins.execute("DECLARE c NO SCROLL CURSOR FOR " + query)
    assert len(joins.execute("FETCH 5 FROM c").fetchall()) == 5
    with pytest.raises(psycopg.errors.InvalidCursorState, match="not a simply updatable scan"):
        joins.execute("UPDATE fact SET x = 1 WHERE CURRENT OF c")


@pytest.mark.parametrize(
    "query",
    [
        # a term of the filter, a clause of the join, another condition of it, and the columns of the other side
        "SELECT f.x > 4, CASE WHEN f.x > 4 THEN 'big' ELSE 'small' END, NOT (f.x > 4), f.id FROM {} WHERE f.x > 4",
        "SELECT f.b = i.k, coalesce(f.b = i.k, false), f.id FROM {}",
        "SELECT i.w > f.x, (i.w > f.x) IS TRUE, f.id FROM {} AND i.w > f.x",
        "SELECT i.k, i.name, f.b = i.k, row(f.b = i.k, f.x > 4)::text, f.id FROM {} WHERE f.x > 4",
        # a row that has what the scan evaluates, and nothing else
        "SELECT s::text FROM (SELECT f.x > 4 AS a, f.b = i.k AS b, f.id AS c FROM {} WHERE f.x > 4) s",
        "SELECT f.x > 4, sum(f.id), grouping(f.x > 4) FROM {} WHERE f.x > 4 GROUP BY ROLLUP (f.x > 4)",
        "SELECT f.x > 4, f.b = i.k, count(*) FILTER (WHERE f.x > 4) FROM {} WHERE f.x > 4 GROUP BY CUBE (1, 2)",
        "SELECT f.x > 4, i.name, bool_or(f.x > 4) FROM {} WHERE f.x > 4 GROUP BY 1, 2 HAVING bool_and(f.x > 4)",
        "SELECT f.id, f.x > 4, row_number() OVER (PARTITION BY f.x > 4 ORDER BY f.id, i.w) FROM {} WHERE f.x > 4",
        "SELECT f.id, f.x > 4 FROM {} WHERE f.x > 4 ORDER BY f.x > 4, f.id, i.w LIMIT 20",
        "SELECT f.id, f.c = l.k, f.x + l.k > 3 FROM {} JOIN longs l ON f.c = l.k AND f.x + l.k > 3",
        "SELECT f.id, f.x + 1 > 4 FROM {} WHERE f.x + 1 > 4 AND EXISTS (SELECT FROM longs l WHERE l.k = f.c)",
        "SELECT f.id, i.k IS NULL, i.w > 10 FROM fact f LEFT JOIN ints i ON f.b = i.k AND i.w > 10 WHERE i.k IS NULL",
    ],
)
def test_conditions_are_outputs_too(joins: Connection, query: str) -> None:
    query = query.format("fact f JOIN ints i ON f.b = i.k")
    joins.execute("CREATE VIEW shown AS SELECT f.x > 4 AS big, f.b = i.k AS same FROM fact f JOIN ints i ON f.b = i.k")
    assert None not in {
        value for row in both(joins, "SELECT big, same FROM shown WHERE big", None).rows for value in row
    }
    both(joins, query, None)
    assert kinds(plans.explain(joins, query)), plans.text(joins, query)


def test_rows_in_an_inner_loop(joins: Connection) -> None:
    """Another plan reads the rows of joins again and again, with and without a parameter."""
    joins.execute("SET enable_material = off; SET enable_hashjoin = on")
    both(
        joins,
        "SELECT o.k, q.id, q.w FROM longs o LEFT JOIN LATERAL (SELECT f.id, i.w FROM fact f JOIN ints i ON f.b = i.k"
        " WHERE f.id < o.k * 20 ORDER BY 1, 2 LIMIT 5) q ON true",
        ["Inner"],
    )
    joins.execute(LITTLE.encode())
    both(
        joins,
        "SELECT o.k, (SELECT string_agg(f.big, ',' ORDER BY f.id, m.y) FROM fact f JOIN many m ON f.a = m.k"
        " WHERE m.y < o.k * 20) FROM longs o",
        ["Inner"],
    )


def test_small_and_selective_statements_are_left_alone(joins: Connection) -> None:
    switch(joins, "on")
    joins.execute(
        "CREATE TABLE more AS SELECT f.*, n.i AS j FROM fact f, generate_series(1, 30) n (i);"
        " CREATE INDEX ON more (id); CREATE TABLE again AS SELECT * FROM more; ANALYZE more, again"
    )
    query = "SELECT m.x, a.s FROM {0} m JOIN {1} a ON m.id = a.id AND m.j = a.j"
    assert kinds(plans.explain(joins, query.format("more", "again"))) == ["Inner"]
    assert kinds(plans.explain(joins, query.format("more", "again") + " WHERE m.x > 100")) == ["Inner"]
    # an index gives a few rows of one
    assert kinds(plans.explain(joins, query.format("more", "again") + " WHERE m.id = 3 AND m.j = 4")) == []
    joins.execute("CREATE TABLE small AS SELECT *, 1 AS j FROM fact; ANALYZE small")
    assert kinds(plans.explain(joins, query.format("small", "small"))) == []


def test_rows_to_be_locked_or_changed_are_left_alone(joins: Connection) -> None:
    for query in (
        "SELECT f.id FROM fact f JOIN ints i ON f.b = i.k FOR UPDATE",
        "SELECT f.id FROM fact f JOIN ints i ON f.b = i.k FOR SHARE OF i",
        "UPDATE fact f SET x = i.w FROM ints i, longs l WHERE f.b = i.k AND l.k = i.k2",
        "DELETE FROM fact f USING ints i, longs l WHERE f.b = i.k AND l.k = i.k2",
    ):
        assert kinds(plans.explain(joins, query)) == [], query
    joins.execute("CREATE TEMP TABLE copied (id integer, name text)")
    assert kinds(
        plans.explain(joins, "INSERT INTO copied SELECT f.id, i.name FROM fact f JOIN ints i ON f.b = i.k")
    ) == ["Inner"]


def test_rows_that_nobody_wants_raise_no_error(joins: Connection) -> None:
    """Of a LIMIT in no order: rows of a batch behind those that are wanted are not looked at."""
    for conditions in (
        "i ON f.b = i.k WHERE 1 / (f.id - 900) < 5",
        "i ON f.b = i.k AND 1 / (f.id - 900 + i.k * 0) < 5",
        "i ON f.b + 0 / (f.id - 900) = i.k",
    ):
        fails = f"SELECT f.id FROM fact f JOIN ints {conditions} LIMIT 1"
        assert kinds(plans.explain(joins, fails)) == [], conditions
        assert len(joins.execute(fails.encode()).fetchall()) == 1
    assert kinds(plans.explain(joins, "SELECT f.id FROM fact f JOIN ints i ON f.b = i.k LIMIT 1")) == ["Inner"]


# memory


def test_what_does_not_fit_goes_to_files(joins: Connection) -> None:
    joins.execute(
        "CREATE TEMP TABLE build AS SELECT nullif(i % 7000, 5) AS k, i AS y, repeat('t' || i, 4) AS t"
        " FROM generate_series(1, 9000) i; CREATE TEMP TABLE probe AS SELECT nullif(i % 9000, 7) AS k,"
        " i::text AS t, i AS x, i / 3.0 AS n FROM generate_series(1, 30000) i; ANALYZE probe, build"
    )
    joins.execute(LITTLE.encode())
    for query, kind in (
        ("SELECT p.x % 7, count(*), sum(p.n), max(b.t) FROM probe p JOIN build b ON p.k = b.k GROUP BY 1", "Inner"),
        ("SELECT count(*), count(b.y), sum(p.n), max(b.t) FROM probe p LEFT JOIN build b ON p.k = b.k", "Left"),
        ("SELECT count(*) FROM probe p LEFT JOIN build b ON p.k = b.k AND b.y > p.x WHERE b.t IS NULL", "Left"),
        (
            "SELECT count(*), sum(x) FROM probe p WHERE EXISTS (SELECT FROM build b WHERE p.k = b.k AND b.y > p.x)",
            "Semi",
        ),
        ("SELECT count(*), sum(x) FROM probe p WHERE NOT EXISTS (SELECT FROM build b WHERE p.k = b.k)", "Anti"),
    ):
        both(joins, query, [kind])
        (said,) = details(joins, query, "Hash Table 1")
        assert "partitions=" in said, said
        memory = int(said.split("memory=")[1].split("kB")[0])
        # the last rows before the limit was met, and slots for them
        assert memory < 150, said
    # two such joins, and groups that do not fit either
    query = (
        "SELECT b.t, count(*), sum(p.n) FROM probe p JOIN build b ON p.k = b.k"
        " JOIN (SELECT k, max(y) AS y FROM build GROUP BY k) c ON c.k = p.x % 8000 GROUP BY 1"
    )
    both(joins, query, None)
    # rows of one key cannot be divided
    joins.execute("CREATE TEMP TABLE same AS SELECT 1 AS k, i AS y FROM generate_series(1, 5000) i; ANALYZE same")
    both(joins, "SELECT count(*), sum(y) FROM probe p JOIN same s ON p.k = s.k", ["Inner"])


def test_a_semijoin_keeps_a_key_once(joins: Connection) -> None:
    """Unless it asks for more of a row than its key, or rows of the other side are returned."""
    joins.execute(
        "CREATE TEMP TABLE again AS SELECT nullif(i % 50, 0) AS k, i AS y, (i % 50)::text AS t"
        " FROM generate_series(1, 9000) i; CREATE TEMP TABLE probe AS SELECT nullif(i % 90, 7) AS k,"
        " (i % 90)::text AS t, i AS x FROM generate_series(1, 30000) i; ANALYZE probe, again"
    )
    # PostgreSQL would rather join with the different keys
    joins.execute("SET enable_hashagg = off; SET enable_sort = off")
    exists = "SELECT count(*), sum(x) FROM probe p WHERE {}EXISTS (SELECT FROM again a WHERE a.k = p.k AND {})"
    for condition, negation, kind, rows in (
        ("a.y > 0", "", "Semi", 49),
        ("a.y > 8000", "NOT ", "Anti", 49),
        ("a.y > p.x", "", "Semi", 8820),
        ("a.t = p.t", "", "Semi", 8820),
    ):
        query = exists.format(negation, condition)
        both(joins, query, [kind])
        (said,) = details(joins, query, "Hash Table 1")
        found = int(said.split("rows=")[1].split()[0])
        assert found == rows, (query, said)
        joins.execute(LITTLE.encode())
        both(joins, query, [kind])
        (said,) = details(joins, query, "Hash Table 1")
        assert ("partitions=" in said) is (rows > 1000), said
        joins.execute("RESET work_mem; RESET hash_mem_multiplier")


MEMORY = (
    "SELECT i.name, sum(f.x) FROM fact f JOIN ints i ON f.b = i.k LEFT JOIN words w ON w.code = f.s GROUP BY 1",
    "SELECT f.id, i.name FROM fact f JOIN ints i ON f.b = i.k LEFT JOIN words w ON w.code = f.s",
    "SELECT f.big, m.y FROM fact f JOIN (SELECT id AS y, big AS t, id AS k FROM fact) m ON f.id = m.k",
    "SELECT s, count(DISTINCT x), count(DISTINCT big), sum(DISTINCT x) FROM fact GROUP BY 1",
    "SELECT id, big FROM fact ORDER BY big LIMIT 20",
    "SELECT 1 / (f.id - 1500) FROM fact f JOIN ints i ON f.b = i.k",
    "SELECT count(DISTINCT 1 / (f.id - 1500)) FROM fact f",
)


@pytest.mark.parametrize("query", MEMORY)
def test_memory_is_given_back(joins: Connection, query: str) -> None:
    """After queries that are read to their end, are left early, or fail."""
    used = "SELECT sum(used_bytes) FROM pg_backend_memory_contexts"
    joins.execute(LITTLE.encode())
    joins.execute("SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.vector_scan = force")
    assert {node.get("Custom Plan Provider") for node in plans.nodes(plans.explain(joins, query))} > {None}
    before = 0
    for turn in range(amount("PGBILLION_TEST_REPEATS", 100, 20) + 3):
        if turn == 3:
            before = one(joins, used)
        joins.execute("SAVEPOINT s")
        with contextlib.suppress(psycopg.errors.DivisionByZero):
            joins.execute(f"DECLARE early NO SCROLL CURSOR FOR {query}".encode())
            joins.execute("FETCH 3 FROM early; CLOSE early")
            joins.execute(query.encode())
        joins.execute("ROLLBACK TO s; RELEASE s")
    assert one(joins, used) < before + 100_000


# being run again, stopped, and failing


def test_rescans(joins: Connection) -> None:
    # one table that stays as it is, and one that depends on the row outside
    both(
        joins,
        "SELECT o.k, (SELECT sum(f.x + i.w) FROM fact f JOIN ints i ON f.b = i.k WHERE f.id < o.k * 100) FROM longs o",
        ["Inner"],
    )
    both(
        joins,
        "SELECT o.k, (SELECT sum(f.x + i.w) FROM fact f JOIN ints i ON f.b = i.k + o.k WHERE i.w > o.k) FROM longs o",
        ["Inner"],
    )
    # only what depends on that row is read again: a plan, or the keys of its rows
    for on, where, loops in (
        ("f.b = i.k", "f.id < o.k * 100", 1),
        ("f.b = i.k + o.k", "f.id < 900", 14),
        ("f.b = i.k", "i.w > o.k", 14),
    ):
        query = f"SELECT o.k, (SELECT sum(i.w) FROM fact f JOIN ints i ON {on} WHERE {where}) FROM longs o"
        both(joins, query, ["Inner"])
        read = [node for node in plans.nodes(plans.explain(joins, query, run=True)) if node.get("Alias") == "i"]
        assert [node["Actual Loops"] for node in read] == [loops], query
    joins.execute(LITTLE.encode())
    joins.execute("CREATE TEMP TABLE build AS SELECT i AS k, repeat('t' || i, 4) AS t FROM generate_series(1, 4000) i")
    joins.execute("ANALYZE build")
    both(
        joins,
        "SELECT o.k, (SELECT max(b.t) FROM fact f JOIN build b ON f.id = b.k WHERE f.id < o.k * 100) FROM longs o",
        ["Inner"],
    )


def test_prepared_statements_and_cursors(joins: Connection) -> None:
    query = "SELECT i.name, count(*) FROM fact f JOIN ints i ON f.b = i.k + {0} AND i.w > {0} GROUP BY 1"
    joins.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE q (int) AS {query.format('$1')}".encode())
    for number in (1, 5, 100):
        assert kinds(plans.explain(joins, f"EXECUTE q ({number})")) == ["Inner"]
        ours = answers.answer(joins.execute(f"EXECUTE q ({number})".encode()))
        assert answers.difference(ours, both(joins, query.format(number), ["Inner"])) is None
    joins.execute(
        "DECLARE c SCROLL CURSOR FOR SELECT i.name, count(*) FROM fact f JOIN ints i ON f.b = i.k GROUP BY 1 ORDER BY 1"
    )
    first = joins.execute("FETCH 3 FROM c").fetchall()
    joins.execute("FETCH ALL FROM c")
    joins.execute("MOVE ABSOLUTE 0 IN c")
    assert joins.execute("FETCH 3 FROM c").fetchall() == first


def test_errors_in_the_middle(joins: Connection) -> None:
    joins.execute(LITTLE.encode())
    for query in (
        "SELECT sum(1 / (i.w - 60)) FROM fact f JOIN ints i ON f.b = i.k",
        "SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k AND 1 / (i.w - 60 + f.x - f.x) > 2",
        "SELECT count(*) FROM fact f JOIN ints i ON f.b = 1 / (i.w - 60)",
        "SELECT count(*) FROM fact f JOIN ints i ON 1 / (f.id - 1500) = i.k",
        "SELECT count(*) FROM fact f JOIN (SELECT 1 / (k - 9) AS k FROM longs) l ON f.b = l.k",
    ):
        for mode in ("force", "off"):
            joins.execute("SAVEPOINT s")
            switch(joins, mode)
            with pytest.raises(psycopg.errors.DivisionByZero):
                joins.execute(query.encode())
            joins.execute("ROLLBACK TO s")
    # a match that satisfies the condition ends the search, so that those behind it raise nothing
    for negated in ("", "NOT"):
        joins.execute("CREATE TEMP TABLE first AS SELECT 1 AS k, 1 AS y; ANALYZE first")
        both(
            joins,
            f"SELECT count(*) FROM fact f WHERE {negated} EXISTS (SELECT FROM first t WHERE t.k = f.a AND 1 / t.y > 0)",
            None,
        )
        joins.execute("DROP TABLE first")


def test_cancellation(cluster: Cluster, joins: Connection) -> None:
    joins.execute(
        "CREATE TEMP TABLE same AS SELECT 3 AS k, i FROM generate_series(1, 60000) i; ANALYZE same;"
        "CREATE TEMP TABLE probe AS SELECT 3 AS k, i FROM generate_series(1, 60000) i; ANALYZE probe"
    )
    query = "SELECT count(*) FROM probe p JOIN same s ON p.k = s.k AND p.i + s.i < 0"
    assert kinds(plans.explain(joins, query)) == ["Inner"]
    timer = threading.Timer(0.3, joins.cancel)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        joins.execute(query.encode())
    timer.join()


# other plans


def test_workers(joins: Connection) -> None:
    joins.execute(
        "SET max_parallel_workers_per_gather = 2; CREATE TABLE more AS SELECT f.* FROM fact f, generate_series(1, 20)"
    )
    joins.execute("ANALYZE more")
    query = (
        "SELECT i.name, count(*), sum(f.x), count(l.k) FROM more f JOIN ints i ON f.b = i.k"
        " LEFT JOIN longs l ON l.k = f.c AND l.g < f.a GROUP BY 1"
    )
    for leader in ("on", "off"):
        joins.execute(f"SET parallel_leader_participation = {leader}".encode())
        both(joins, query, None)
        plan = plans.explain(joins, query, run=True)
        assert len(kinds(plan)) == 2
        assert plans.parallel(plan)
    # an inner side that workers cannot read
    joins.execute(
        "CREATE FUNCTION restricted(integer) RETURNS boolean IMMUTABLE PARALLEL RESTRICTED LANGUAGE plpgsql"
        " AS 'BEGIN RETURN $1 > 3; END'"
    )
    both(joins, "SELECT count(*) FROM more f JOIN ints i ON f.b = i.k WHERE restricted(i.w)", ["Inner"])
    assert not plans.parallel(
        plans.explain(joins, "SELECT count(*) FROM more f JOIN ints i ON f.b = i.k WHERE restricted(i.w)")
    )


def test_serializable_transactions_lock_both_sides(cluster: Cluster, tables: str) -> None:
    with cluster.connect(tables) as conn:
        prepare(conn)
        conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        query = "SELECT count(*), sum(i.w) FROM fact f JOIN ints i ON f.b = i.k"
        assert kinds(plans.explain(conn, query)) == ["Inner"]
        conn.execute(query.encode())
        locked = conn.execute(
            "SELECT relation::regclass::text FROM pg_locks WHERE mode = 'SIReadLock' ORDER BY 1"
        ).fetchall()
        assert {"fact", "ints"} <= {name for (name,) in locked}
        conn.execute("ROLLBACK")


def test_privileges_are_checked(joins: Connection) -> None:
    joins.execute("GRANT SELECT ON fact TO reader; SET LOCAL ROLE reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        joins.execute("SELECT count(*) FROM fact f JOIN ints i ON f.b = i.k")
