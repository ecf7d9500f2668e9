"""Eager aggregation: one test for each condition under which it is the same, and generated queries.

PGBILLION_TEST_JOINS is how many are generated (default 100), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.join_queries import EagerGenerator, JoinQuery
from harness.join_tables import BIG, FILL_BIG, SMALL
from harness.servers import one
from harness.shards import make_coordinator, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.rows.answers import Answer, Tolerance
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_JOINS", 100, 50)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
LEAST_USED = 0.9
# the order of additions is another one, and values of both signs are added
TOLERANCE = Tolerance(float4=1e-3, float8=1e-6)
QUERY = "SELECT d1.name, count(*), sum(t.x), avg(t.v) FROM {} t JOIN d1 ON t.k = d1.id GROUP BY d1.name"


def prepare(conn: Connection) -> None:
    conn.prepare_threshold = None
    conn.execute(
        "LOAD 'pgbillion_rows'; SET pgbillion_rows.eager_aggregate = force; SET min_parallel_table_scan_size = 0;"
        " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 0;"
        " SET statement_timeout = '300s'"
    )
    # PostgreSQL's own would be taken for ours
    if conn.info.server_version >= 190000:
        conn.execute("SET enable_eager_aggregate = off")


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "joins") as name:
        with cluster.connect(name) as conn:
            conn.execute(f"CREATE TABLE big ({BIG}); {FILL_BIG.format('big')}; ANALYZE big".encode())
            conn.execute(SMALL.encode())
            conn.execute(f"CREATE TABLE parts ({BIG}) PARTITION BY RANGE (id)".encode())
            conn.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (400)")
            # columns of another order, one of them dropped
            conn.execute(f"CREATE TABLE parts_2 (gone integer, ts date, {BIG.replace(', ts date', '')})".encode())
            conn.execute("ALTER TABLE parts_2 DROP COLUMN gone")
            conn.execute("ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (400) TO (10000)")
            conn.execute("INSERT INTO parts SELECT * FROM big; ANALYZE parts")
        yield name


@pytest.fixture
def joins(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session with the feature forced, in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        prepare(conn)
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def is_eager(plan: plans.Plan) -> bool:
    """Tell whether there is a join between partial and final aggregation."""
    return any(
        node.get("Partial Mode") == "Finalize" and any(below["Node Type"] in JOIN_NODES for below in plans.nodes(node))
        and any(_partial_below_join(below) for below in plans.nodes(node) if below["Node Type"] in JOIN_NODES)
        for node in plans.nodes(plan)
    )  # fmt: skip


JOIN_NODES = ("Hash Join", "Merge Join", "Nested Loop")


def _partial_below_join(join: plans.Plan) -> bool:
    return any(
        node.get("Partial Mode") == "Partial"
        or node.get("Custom Plan Provider") == plans.NODE
        or (node["Node Type"] == "Foreign Scan" and "Relation Name" not in node)
        for child in join.get("Plans", ())
        for node in plans.nodes(child)
    )


def switch(conn: Connection, mode: str) -> None:
    conn.execute(f"SET pgbillion_rows.eager_aggregate = {mode}".encode())


def both(conn: Connection, query: str, *, used: bool) -> Answer:
    """The answer, which is the same with the feature off; ``used`` tells whether the plan must (not) be of it."""
    switch(conn, "force")
    assert is_eager(plans.explain(conn, query)) is used, reasons(conn, query)
    ours = answers.answer(conn.execute(query.encode()))
    switch(conn, "off")
    core = answers.answer(conn.execute(query.encode()))
    switch(conn, "force")
    assert answers.difference(core, ours, TOLERANCE) is None
    return ours


def reasons(conn: Connection, query: str) -> list[str]:
    """What the planner says of it at DEBUG1."""
    said: list[str] = []

    def listen(notice: psycopg.errors.Diagnostic) -> None:
        said.append(notice.message_primary or "")

    conn.add_notice_handler(listen)
    conn.execute("SET client_min_messages = debug1")
    conn.execute(f"EXPLAIN {query}".encode())
    conn.execute("RESET client_min_messages")
    conn.remove_notice_handler(listen)
    return [
        text.removeprefix("pgbillion: ") for text in said if "before the join" in text or "eager aggregation" in text
    ]


def declined(conn: Connection, query: str, reason: str) -> Answer:
    """The answer of a query that is left alone, for this reason."""
    answer = both(conn, query, used=False)
    assert reasons(conn, query) == [f"no eager aggregation: {reason}"]
    return answer


# how it is switched, and when it is chosen


def test_the_switch(joins: Connection) -> None:
    joins.execute("RESET pgbillion_rows.eager_aggregate; SET pgbillion_rows.vector_aggregate = off")
    # which would be faster
    joins.execute("SET pgbillion_rows.vector_join = off")
    assert one(joins, "SHOW pgbillion_rows.eager_aggregate") == "on"
    joins.execute("CREATE TABLE more AS SELECT b.* FROM big b, generate_series(1, 40); ANALYZE more")
    query = QUERY.format("more")
    assert is_eager(plans.explain(joins, query))
    assert reasons(joins, query)[0].startswith("eager aggregation is possible, and estimated to cost")
    switch(joins, "off")
    assert not is_eager(plans.explain(joins, query))
    assert reasons(joins, query) == []


def test_explain_vector_tells_of_it(joins: Connection) -> None:
    said = one(joins, "SELECT pgbillion_rows.explain_vector(%s)", QUERY.format("big"))
    assert "eager aggregation is possible" in said
    assert said.endswith("\nvectorized")


def test_too_many_groups_are_left_alone(joins: Connection) -> None:
    joins.execute("RESET pgbillion_rows.eager_aggregate")
    query = "SELECT d1.name, sum(t.x) FROM big t JOIN d1 ON t.id = d1.id GROUP BY 1"
    assert not is_eager(plans.explain(joins, query))
    assert reasons(joins, query) == ["no eager aggregation: it would leave 1500 groups of 1512 rows"]


TPCH = """
CREATE TABLE nation AS SELECT i AS n_nationkey, 'nation ' || i AS n_name, i % 5 AS n_regionkey
    FROM generate_series(0, 24) i;
CREATE TABLE supplier AS SELECT i AS s_suppkey, i * 7 % 25 AS s_nationkey, 'supplier ' || i AS s_name
    FROM generate_series(1, 100) i;
CREATE TABLE customer AS SELECT i AS c_custkey, i * 11 % 25 AS c_nationkey FROM generate_series(1, 1500) i;
CREATE TABLE orders AS SELECT i AS o_orderkey, 1 + i * 7919 % 1500 AS o_custkey,
    date '1992-01-01' + i * 31 % 2406 AS o_orderdate, i % 5 AS o_orderpriority, i / 7.0 AS o_totalprice
    FROM generate_series(1, 15000) i;
CREATE TABLE lineitem AS SELECT o_orderkey AS l_orderkey, 1 + (o_orderkey * 13 + n * 29) % 100 AS l_suppkey,
    (o_orderkey * n % 9973 / 3.0)::numeric(12, 2) AS l_extendedprice, (n % 11 / 100.0)::numeric(12, 2) AS l_discount,
    chr(97 + n % 3) AS l_returnflag, o_orderdate + n AS l_shipdate, repeat('z', 60) AS l_comment
    FROM orders, generate_series(1, 4) n;
ALTER TABLE supplier ADD PRIMARY KEY (s_suppkey);
ALTER TABLE customer ADD PRIMARY KEY (c_custkey);
ALTER TABLE orders ADD PRIMARY KEY (o_orderkey);
ANALYZE nation, supplier, customer, orders, lineitem;
"""
MANY_GROUPS = {
    "query 5": "SELECT n_name, sum(l_extendedprice * (1 - l_discount))"
    " FROM customer, orders, lineitem, supplier, nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey"
    " AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = 2"
    " AND o_orderdate >= date '1994-01-01' AND o_orderdate < date '1995-01-01' GROUP BY 1",
    "two joins": "SELECT s_nationkey, o_orderpriority, sum(l_extendedprice) FROM lineitem JOIN orders"
    " ON l_orderkey = o_orderkey JOIN supplier ON l_suppkey = s_suppkey GROUP BY 1, 2",
    "a date": "SELECT c_nationkey, o_orderdate, sum(o_totalprice) FROM orders JOIN customer ON o_custkey = c_custkey"
    " GROUP BY 1, 2",
}
FEW_GROUPS = {
    "one column": "SELECT s_nationkey, sum(l_extendedprice), count(*) FROM lineitem JOIN supplier"
    " ON l_suppkey = s_suppkey GROUP BY 1",
    "two columns": "SELECT s_nationkey, l_returnflag, sum(l_extendedprice) FROM lineitem JOIN supplier"
    " ON l_suppkey = s_suppkey GROUP BY 1, 2",
    "a condition": "SELECT s_nationkey, l_returnflag, sum(l_extendedprice) FROM lineitem JOIN supplier"
    " ON l_suppkey = s_suppkey WHERE l_shipdate > date '1993-01-01' GROUP BY 1, 2",
}


@pytest.fixture
def tpch(joins: Connection) -> Connection:
    joins.execute(TPCH.encode())
    joins.execute("RESET pgbillion_rows.eager_aggregate")
    return joins


@pytest.mark.parametrize("query", MANY_GROUPS.values(), ids=MANY_GROUPS)
@pytest.mark.parametrize("vectors", ["off", "on"])
def test_columns_that_might_be_correlated_but_are_not(tpch: Connection, query: str, vectors: str) -> None:
    """Core takes a tenth of the rows for the most groups that several columns make: that is no knowledge."""
    tpch.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}".encode())
    assert not is_eager(plans.explain(tpch, query))
    (said,) = reasons(tpch, query)
    found = re.fullmatch(r"no eager aggregation: it would leave (\d+) groups of (\d+) rows", said)
    assert found, said
    groups, rows = found.groups()
    assert int(groups) > 0.9 * int(rows)


@pytest.mark.parametrize("query", FEW_GROUPS.values(), ids=FEW_GROUPS)
@pytest.mark.parametrize("vectors", ["off", "on"])
def test_few_groups_are_made_before_the_join(tpch: Connection, query: str, vectors: str) -> None:
    # which may be cheaper than either
    tpch.execute("SET pgbillion_rows.vector_join = off")
    tpch.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}".encode())
    plan = plans.explain(tpch, query)
    assert is_eager(plan), reasons(tpch, query)
    assert plans.vectorized(plan) is (vectors == "on")


def test_extended_statistics_tell_of_several_columns(tpch: Connection) -> None:
    """Of two columns that go together there are few pairs."""
    # which are cheaper here
    tpch.execute("SET pgbillion_rows.vector_join = off")
    tpch.execute("CREATE TABLE sales AS SELECT 1 + i % 300 AS a, 1 + i % 300 * 7 AS b, i % 9 AS c, i AS x"
                 " FROM generate_series(1, 60000) i; ANALYZE sales")  # fmt: skip
    query = (
        "SELECT s.s_nationkey, sum(t.x) FROM sales t JOIN supplier s ON t.a = s.s_suppkey"
        " JOIN customer c ON t.b = c.c_custkey GROUP BY 1"
    )
    assert not is_eager(plans.explain(tpch, query))
    assert reasons(tpch, query) == ["no eager aggregation: it would leave 60000 groups of 60000 rows"]
    tpch.execute("CREATE STATISTICS pairs (ndistinct) ON a, b FROM sales; ANALYZE sales")
    assert is_eager(plans.explain(tpch, query)), reasons(tpch, query)
    # those of other columns do not
    tpch.execute("DROP STATISTICS pairs; CREATE STATISTICS pairs (ndistinct) ON a, c FROM sales; ANALYZE sales")
    assert not is_eager(plans.explain(tpch, query))


def test_without_statistics_the_number_of_groups_is_not_known(tpch: Connection) -> None:
    tpch.execute("DELETE FROM pg_statistic WHERE starelid = 'lineitem'::regclass")
    for query in (FEW_GROUPS["one column"], FEW_GROUPS["two columns"]):
        assert not is_eager(plans.explain(tpch, query))
        assert reasons(tpch, query) == ["no eager aggregation: a column to group by without statistics (ANALYZE)"]
    # a unique column needs none
    query = "SELECT c_nationkey, sum(o_orderkey) FROM orders JOIN customer ON o_orderkey = c_custkey GROUP BY 1"
    tpch.execute("DELETE FROM pg_statistic WHERE starelid = 'orders'::regclass")
    assert reasons(tpch, query) == ["no eager aggregation: it would leave 15000 groups of 15000 rows"]


def test_what_core_does_for_less_stays_core_s(joins: Connection) -> None:
    """Few rows through an index cost less than aggregating all of the table."""
    joins.execute("RESET pgbillion_rows.eager_aggregate; CREATE TABLE more AS SELECT i, i % 100 AS k, i AS x FROM"
                  " generate_series(1, 20000) i; CREATE INDEX ON more (i); ANALYZE more")  # fmt: skip
    query = "SELECT d1.name, sum(t.x) FROM more t JOIN d1 ON t.k = d1.id WHERE t.i < 30 GROUP BY 1"
    assert not is_eager(plans.explain(joins, query))


# that it is the same


@pytest.mark.parametrize("table", ["big", "parts"])
@pytest.mark.parametrize("vectors", ["off", "force"])
def test_duplicates_and_null_keys(joins: Connection, table: str, vectors: str) -> None:
    joins.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}".encode())
    answer = both(joins, QUERY.format(table), used=True)
    assert len(answer.rows) == 7
    plan = plans.explain(joins, QUERY.format(table))
    assert plans.vectorized(plan) is (vectors == "force")


def test_every_aggregate(joins: Connection) -> None:
    """All that have a state, over rows, over one group and over none."""
    calls = (
        "count(*), count(t.v), sum(t.x), sum(t.id::bigint), sum(t.v), sum(t.x::float8), avg(t.x), avg(t.v),"
        " avg(t.id::bigint), avg(t.r), sum(t.k::real), min(t.s), max(t.ts), bool_and(t.b), bool_or(t.b),"
        " bit_and(t.id), bit_or(t.id), variance(t.x), var_pop(t.v), stddev_pop(t.r), stddev(t.id::bigint),"
        " corr(t.r, t.id), covar_pop(t.r, t.id), regr_count(t.f, t.id), regr_r2(t.r, t.id), regr_sxy(t.r, t.id),"
        " min(t.m), max(t.i), max(t.f), min(t.r), max(t.h), stddev(t.h), avg(t.h)"
    )
    for where in ("true", "t.id < 100", "t.id < 0", "d1.region = 'none'"):
        for group in ("", " GROUP BY d1.region"):
            both(joins, f"SELECT {calls} FROM big t JOIN d1 ON t.k = d1.id WHERE {where}{group}", used=True)


def test_above_the_join(joins: Connection) -> None:
    for query in (
        "SELECT lower(d1.name) || t.s, d1.w + t.k, sum(t.x) + 1 FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1, 2",
        "SELECT d1.name, sum(t.x) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1 HAVING sum(t.x) > 0 AND max(t.id) > 3",
        "SELECT d1.name, rank() OVER (ORDER BY sum(t.x), d1.name) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1",
        "SELECT DISTINCT count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY d1.name",
        "SELECT d1.name FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1 ORDER BY sum(t.x) DESC, 1 LIMIT 3",
        "SELECT t.k, d1.id, count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1, 2",
        "SELECT t.k, count(*) FROM big t JOIN d1 ON t.k = d1.id AND t.k2 < d1.w WHERE d1.id > 3 OR t.k2 = 2 GROUP BY 1",
        "SELECT count(*) FROM big t JOIN d1 ON t.k = d1.id WHERE t.x > (SELECT avg(x) FROM big)",
        "SELECT t.k, count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY t.k HAVING count(*) > (SELECT max(w) FROM d1)",
        "SELECT a.k, count(*), sum(a.x) FROM big a JOIN big b ON a.k = b.k2 GROUP BY 1",
        "SELECT d.name, count(*) FROM big t JOIN (SELECT DISTINCT id, name FROM d1) d ON t.k = d.id GROUP BY 1",
        "SELECT v.a, count(*), sum(t.x) FROM big t JOIN (VALUES (1, 2), (1, 3)) v (a, b) ON t.k = v.b GROUP BY 1",
        "SELECT name, sum(x) FROM big t, d1, d2, d3 WHERE t.k = d1.id AND t.k2 = d2.id AND t.s = d3.code GROUP BY 1",
        "SELECT d1.name, sum(t.x) FROM big t, d1, d2 WHERE t.k = d1.id AND d1.id = d2.id GROUP BY 1",
        "SELECT d1.region, sum(t.x) FROM big t JOIN d1 ON t.k = d1.id WHERE d1.region = 'r1' GROUP BY 1",
        "SELECT d1.region, sum(t.x) FROM big t JOIN d1 ON t.k = d1.id WHERE d1.region = 'none' GROUP BY 1",
        "SELECT 'a'::text, d1.region, sum(t.x) FROM big t JOIN d1 ON t.k = d1.id WHERE d1.region = 'r2' GROUP BY 1, 2",
        "SELECT d2.label, sum(t.x) FROM big t, d1, d2 WHERE t.k = t.k2 AND t.k2 = d1.id AND d2.id < 3 GROUP BY 1",
    ):
        both(joins, query, used=True)


def test_in_parallel(joins: Connection) -> None:
    joins.execute("SET max_parallel_workers_per_gather = 2")
    for vectors in ("off", "force"):
        for table in ("big", "parts"):
            joins.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}".encode())
            both(joins, QUERY.format(table), used=True)
            assert plans.parallel(plans.explain(joins, QUERY.format(table)))


def test_parameters_prune_partitions_as_before(joins: Connection) -> None:
    joins.execute("SET plan_cache_mode = force_generic_plan")
    for column in ("id", "x"):
        query = QUERY.format("parts").replace("GROUP", f"WHERE t.{column} > $1 GROUP")
        joins.execute(f"PREPARE by_{column} (integer) AS {query}".encode())
        for value in (-1000, 100, 700, 100_000):
            both(joins, f"EXECUTE by_{column} ({value})", used=True)
    switch(joins, "force")
    joins.execute("DEALLOCATE by_id")
    joins.execute("PREPARE by_id (integer) AS SELECT count(*) FROM parts t JOIN d1 ON t.k = d1.id WHERE t.id > $1")
    plan = plans.explain(joins, "EXECUTE by_id (700)", run=True)
    assert is_eager(plan)
    assert [node["Subplans Removed"] for node in plans.nodes(plan) if "Subplans Removed" in node] == [1]


# what must be left alone


def test_outer_joins(joins: Connection) -> None:
    """A row without counterpart has no state, but counts."""
    reason = "a join that is not an inner join"
    for kind in ("LEFT", "RIGHT", "FULL"):
        query = f"SELECT d1.name, count(*), count(t.x) FROM big t {kind} JOIN d1 ON t.k = d1.id GROUP BY 1"
        declined(joins, query, reason)


def test_semijoins(joins: Connection) -> None:
    """A row is taken once, whatever it has as counterparts."""
    reason = "a join that is not an inner join"
    declined(joins, "SELECT t.k, count(*) FROM big t WHERE t.k IN (SELECT id FROM d1) GROUP BY 1", reason)
    declined(
        joins, "SELECT t.k, sum(t.x) FROM big t WHERE NOT EXISTS (SELECT FROM d1 WHERE id = t.k) GROUP BY 1", reason
    )


@pytest.mark.parametrize("key", ["numeric", "double precision", "text COLLATE ignore_case", "interval", "bpchar"])
def test_equal_values_that_can_be_told_apart(joins: Connection, key: str) -> None:
    """One value would stand for the other."""
    if "ignore_case" in key:
        if not one(joins, "SELECT count(*) FROM pg_collation WHERE collname = 'und-x-icu'"):
            pytest.skip("this installation is without ICU")
        joins.execute(
            "CREATE COLLATION ignore_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    values = {
        "numeric": ("1.0", "1.00"),
        "double precision": ("0", "-0"),
        "text COLLATE ignore_case": ("a", "A"),
        "interval": ("1 day", "24 hours"),
        "bpchar": ("a", "a "),
    }[key]
    joins.execute(f"CREATE TABLE odd (k {key}, x integer); CREATE TABLE odder (k {key})".encode())
    for value in values:
        joins.execute("INSERT INTO odd VALUES (%s, 1), (%s, 2)", [value, value])
    joins.execute("INSERT INTO odder VALUES (%s), (%s)", [values[0], values[0]])
    apart = {"bpchar": "octet_length(t.k)", "text COLLATE ignore_case": 't.k COLLATE "C"'}.get(key, "t.k::text")
    answer = declined(
        joins,
        f"SELECT {apart}, count(*), sum(t.x) FROM odd t JOIN odder USING (k) GROUP BY 1",
        "a column to group by has equal values that can be told apart",
    )
    assert len(answer.rows) == 2


def test_columns_that_cannot_be_hashed(joins: Connection) -> None:
    joins.execute(
        "CREATE TABLE paid (m money, x integer); INSERT INTO paid SELECT i % 3, i FROM generate_series(1, 9) i"
    )
    query = "SELECT a.m, sum(a.x) FROM paid a JOIN paid b ON a.m = b.m GROUP BY 1"
    declined(joins, query, "a column to group by cannot be hashed")


def test_system_columns_and_whole_rows(joins: Connection) -> None:
    reason = "a system column or whole row is needed above"
    declined(joins, "SELECT t.tableoid, count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1", reason)
    declined(joins, "SELECT t::text, count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1", reason)


def test_volatile_functions(joins: Connection) -> None:
    """Called as often as without: a condition of the join is checked for each of its rows."""
    joins.execute("CREATE SEQUENCE calls")
    joins.execute(
        "CREATE FUNCTION called(integer, integer) RETURNS boolean LANGUAGE plpgsql VOLATILE COST 10000"
        " AS 'BEGIN PERFORM nextval(''calls''); RETURN true; END'"
    )
    declined(
        joins,
        "SELECT d1.name, count(*) FROM big t JOIN d1 ON t.k = d1.id WHERE called(t.k, d1.w) GROUP BY 1",
        "a volatile function",
    )
    calls = one(joins, "SELECT last_value FROM calls")
    assert calls == 2 * one(joins, "SELECT count(*) FROM big t JOIN d1 ON t.k = d1.id")


def test_rows_in_an_order_or_once(joins: Connection) -> None:
    for call, reason in (
        (
            "count(DISTINCT t.x)",
            "count(DISTINCT x) has no partial form; faster is count(x) over a subquery with SELECT DISTINCT x and what"
            " is grouped by",
        ),
        (
            "string_agg(t.s, ',' ORDER BY t.id)",
            "string_agg(s, ...), which wants its rows in an order and so has no partial form",
        ),
        (
            "mode() WITHIN GROUP (ORDER BY t.x)",
            "mode(x), which wants its rows in an order and so has no partial form",
        ),
        ("json_agg(t.x)", "an aggregate that has no partial form (no combine function)"),
    ):
        declined(joins, f"SELECT d1.name, {call} FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1", reason)
    declined(joins, "SELECT d1.name, count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY ROLLUP (1)", "grouping sets")


def test_what_may_fail_for_rows_that_the_join_leaves_out(joins: Connection) -> None:
    joins.execute("CREATE TABLE others (k integer, x integer, y integer, s text)")
    joins.execute("INSERT INTO others SELECT i % 30, CASE WHEN i % 30 < 20 THEN i ELSE 0 END, i, i FROM"
                  " generate_series(1, 300) i")  # fmt: skip
    joins.execute("UPDATE others SET s = 'no number', y = 2147483647 WHERE x = 0")
    for call in (
        "sum(100 / t.x)",
        "count(*) FILTER (WHERE 100 / t.x > 1)",
        "sum(t.s::integer)",
        "sum(t.y + 1)",
        "avg(t.x::numeric / t.x)",
        "max(ARRAY[t.x, 1 / t.x])",
        "sum(CASE WHEN 1 / t.x > 0 THEN 1 END)",
    ):
        declined(joins, f"SELECT d1.name, {call} FROM others t JOIN d1 ON t.k = d1.id GROUP BY 1", ARGUMENT)


ARGUMENT = "an argument or FILTER that might fail for rows that the join leaves out"
FAILING_SUMS = [
    ("money", "92233720368547758.07", "sum(t.x)", "sum(money)"),
    ("interval", "178956970 years", "sum(t.x)", "sum(interval)"),
    ("interval", "178956970 years", "avg(t.x)", "avg(interval)"),
    ("real", "3.4e38", "sum(t.x)", "sum(real)"),
    ("double precision", "1.7e308", "sum(t.x)", "sum(double precision)"),
    ("double precision", "1.7e308", "avg(t.x)", "avg(double precision)"),
    ("double precision", "1.7e308", "stddev(t.x)", "stddev(double precision)"),
    ("double precision", "1.7e308", "corr(t.x, t.x)", "corr(double precision,double precision)"),
    ("double precision", "1.7e308", "sum(t.x * t.x)", None),
    ("double precision", "1e-200", "sum(t.x * (t.x * 0.5))", None),
    ("double precision", "1.7e308", "max(t.x + t.x)", None),
    ("double precision", "1.7e308", "count(*) FILTER (WHERE t.x * 2 > 3)", None),
    ("real", "3.4e38", "max(t.x * t.x)", None),
    ("numeric", "9e131071", "sum(t.x * t.x)", None),
    ("numeric", "9e131071", "max(t.x + t.x)", None),
    ("bigint", "9223372036854775807", "sum(t.x + 1)", None),
    ("money", "92233720368547758.07", "max(t.x * 2)", None),
    ("interval", "178956970 years", "max(t.x + t.x)", None),
]


@pytest.mark.parametrize("vectors", ["off", "force"])
@pytest.mark.parametrize(("kind", "value", "call", "aggregate"), FAILING_SUMS)
def test_values_that_are_too_large_in_rows_that_the_join_leaves_out(
    joins: Connection, vectors: str, kind: str, value: str, call: str, aggregate: str | None
) -> None:
    """What core would not have met is no error."""
    joins.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}".encode())
    fill_beyond(joins, kind, value)
    query = f"SELECT f.name, {call} FROM beyond t JOIN few f ON t.k = f.id GROUP BY 1"
    reason = f"aggregate {aggregate}, which might fail for rows that the join leaves out" if aggregate else ARGUMENT
    assert len(declined(joins, query, reason).rows) == 3
    # that they are too large is seen where the join has them
    joins.execute("INSERT INTO few VALUES (35, 'n0')")
    with pytest.raises(psycopg.DataError), joins.transaction():
        joins.execute(query.encode())


def fill_beyond(conn: Connection, kind: str, value: str) -> None:
    """Make `beyond`, whose x is small where `few` has a counterpart, and ``value`` elsewhere."""
    conn.execute(f"CREATE TABLE beyond (k integer, x {kind})".encode())
    small = "make_interval(days => i)" if kind == "interval" else "i"
    conn.execute(f"INSERT INTO beyond SELECT i % 40, {small} FROM generate_series(1, 400) i WHERE i % 40 < 30".encode())
    conn.execute(f"INSERT INTO beyond SELECT 30 + i % 10, '{value}' FROM generate_series(1, 100) i".encode())
    conn.execute("CREATE TABLE few AS SELECT i AS id, 'n' || i % 3 AS name FROM generate_series(0, 29) i")


@pytest.mark.parametrize("vectors", ["off", "force"])
@pytest.mark.parametrize(
    ("kind", "value", "calls"),
    [
        ("smallint", "32767", "sum(t.x), avg(t.x), stddev(t.x), sum(t.x::float8), sum(t.x::real)"),
        ("integer", "2147483647", "sum(t.x), avg(t.x), stddev(t.x), corr(t.x, t.x), sum(t.x::numeric * t.x)"),
        ("bigint", "9223372036854775807", "sum(t.x), avg(t.x), stddev(t.x), sum(t.x::float8), avg(t.x::float8)"),
        ("real", "3.4e38", "avg(t.x), stddev(t.x), max(t.x), sum(t.x::float8), var_pop(t.x::float8), corr(t.x, t.x)"),
        ("real", "infinity", "avg(t.x), stddev(t.x), sum(t.x::float8), var_pop(t.x::float8), corr(t.x, t.x)"),
        ("double precision", "1.7e308", "min(t.x), max(t.x), count(t.x), regr_count(t.x, t.x), max(-t.x)"),
        ("numeric", "9e131071", "sum(t.x), avg(t.x), stddev(t.x), var_pop(t.x), min(t.x), max(-t.x)"),
        ("numeric", "-9e131071", "sum(t.x), avg(t.x), stddev(t.x), var_pop(t.x), min(t.x), max(-t.x)"),
        ("numeric(1000, 2)", "9e997", "sum(t.x * t.x * (t.x + 1)), max(CASE WHEN t.k > 3 THEN t.x ELSE 2 END * -t.x)"),
        ("numeric(3, -997)", "9e999", "sum(t.x * t.x), sum(coalesce(t.x, 1) - t.k)"),
        ("money", "92233720368547758.07", "min(t.x), max(t.x)"),
        ("interval", "178956970 years", "min(t.x), max(t.x)"),
    ],
)
def test_values_that_are_not_too_large(joins: Connection, vectors: str, kind: str, value: str, calls: str) -> None:
    """Aggregated although the join leaves them out: no state of them fails, nor does it where it is one of many."""
    joins.execute(f"SET pgbillion_rows.vector_aggregate = {vectors}".encode())
    fill_beyond(joins, kind, value)
    query = f"SELECT f.name, {calls} FROM beyond t JOIN few f ON t.k = f.id GROUP BY 1"
    assert len(both(joins, query, used=True).rows) == 3


def test_numerics_multiplied_beyond_their_range(joins: Connection) -> None:
    """A hundred thousand digits are what arithmetic may come to."""
    joins.execute("CREATE TABLE beyond (k integer, x numeric(1000, 0)); CREATE TABLE few (id integer, name text)")
    joins.execute("CREATE DOMAIN bounded AS numeric(1000, 0); ALTER TABLE beyond ADD COLUMN y bounded;"
                  " INSERT INTO beyond VALUES (1, 3, 3); INSERT INTO few VALUES (1, 'one')")  # fmt: skip
    query = "SELECT f.name, max({}) FROM beyond t JOIN few f ON t.k = f.id GROUP BY 1"
    both(joins, query.format(" * ".join(["t.x"] * 100)), used=True)
    both(joins, query.format(" * ".join(["t.y"] * 100)), used=True)
    declined(joins, query.format(" * ".join(["t.x"] * 101)), ARGUMENT)
    declined(joins, query.format(f"t.x * {'9' * 99_999}"), ARGUMENT)
    declined(joins, query.format("t.x * t.x::numeric(900, 0)"), ARGUMENT)


def test_comparisons_that_may_fail(joins: Connection) -> None:
    """Of arrays: their elements are compared by whatever function they have."""
    joins.execute("CREATE TABLE lists AS SELECT i % 30 AS k, ARRAY[i] AS x FROM generate_series(1, 300) i")
    query = "SELECT d1.name, max(t.x) FROM lists t JOIN d1 ON t.k = d1.id GROUP BY 1"
    declined(joins, query, "aggregate max(anyarray), which might fail for rows that the join leaves out")


def test_aggregates_of_one_s_own(joins: Connection) -> None:
    """Its functions may fail, too."""
    joins.execute("CREATE TABLE others AS SELECT i % 30 AS k, CASE WHEN i % 30 < 20 THEN i ELSE 0 END AS x FROM"
                  " generate_series(1, 300) i")  # fmt: skip
    joins.execute("CREATE FUNCTION add_inverse(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE"
                  " AS 'SELECT $1 + 1000 / $2'")  # fmt: skip
    joins.execute("CREATE AGGREGATE inverse (integer) (SFUNC = add_inverse, STYPE = integer, INITCOND = 0,"
                  " COMBINEFUNC = int4pl, PARALLEL = SAFE)")  # fmt: skip
    query = "SELECT d1.name, inverse(t.x) FROM others t JOIN d1 ON t.k = d1.id GROUP BY 1"
    declined(joins, query, "an aggregate that is not built in")


def test_bit_strings_of_different_lengths(joins: Connection) -> None:
    joins.execute("CREATE TABLE bits (k integer, b varbit)")
    joins.execute("INSERT INTO bits VALUES (1, '101'), (1, '110'), (99, '1'), (99, '11')")
    query = "SELECT d1.name, bit_or(t.b) FROM bits t JOIN d1 ON t.k = d1.id GROUP BY 1"
    declined(joins, query, "aggregate bit_or(bit), which might fail for rows that the join leaves out")


def test_aggregates_that_keep_all_values(joins: Connection) -> None:
    partial = one(joins, "SHOW server_version_num") >= "160000"
    for call in ("array_length(array_agg(t.x), 1)", "length(string_agg(t.s, ','))"):
        declined(
            joins,
            f"SELECT d1.name, {call} FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1",
            "an aggregate that keeps all of its values"
            if partial
            else "an aggregate that has no partial form (no combine function)",
        )


def test_columns_of_several_tables(joins: Connection) -> None:
    reason = "aggregates of columns of several tables"
    for calls in ("sum(t.x), sum(d1.w)", "max(t.s || d1.name)", "count(*) FILTER (WHERE d1.w > t.x)"):
        query = f"SELECT d1.region, {calls} FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1"
        both(joins, query, used=False)
        assert reasons(joins, query)[0].startswith("no eager aggregation: "), reasons(joins, query)
    declined(joins, "SELECT d1.region, sum(t.x), sum(d1.w) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1", reason)
    # one that is not the big one is a table as good as any
    both(joins, "SELECT t.k, sum(d1.w), count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY 1", used=True)


def test_row_security(joins: Connection) -> None:
    joins.execute("CREATE ROLE reads_joins; GRANT SELECT ON big, d1 TO reads_joins")
    joins.execute("ALTER TABLE big ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON big TO reads_joins USING (x > 0)")
    both(joins, QUERY.format("big"), used=True)
    joins.execute("SET ROLE reads_joins")
    declined(joins, QUERY.format("big"), "row security or a security barrier")
    joins.execute("RESET ROLE; ALTER TABLE big DISABLE ROW LEVEL SECURITY")
    joins.execute("CREATE VIEW hidden WITH (security_barrier) AS SELECT * FROM d1 WHERE w < 30")
    both(joins, "SELECT h.name, count(*) FROM big t JOIN hidden h ON t.k = h.id WHERE h.id > 3 GROUP BY 1", used=True)
    query = "SELECT t.name, sum(h.w) FROM d1 t JOIN hidden h ON t.id = h.id WHERE h.w > 3 GROUP BY 1"
    declined(joins, query, "what is aggregated is no table")


def test_other_queries_that_are_left_alone(joins: Connection) -> None:
    both(joins, "SELECT grouping(d1.name), count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY d1.name", used=True)
    for query, reason in (
        ("SELECT count(*) FROM big t, d1", "the join does not depend on the table"),
        ("SELECT sum(t.x) FROM big t, d1 WHERE d1.id > 3", "the join does not depend on the table"),
        (
            "SELECT t.k, count(*) FROM big t JOIN d1 ON t.k = (SELECT max(o.id) FROM d1 o WHERE o.w < d1.w) GROUP BY 1",
            "a subquery in a condition",
        ),
        (
            "SELECT d1.name, count(*) FROM big t TABLESAMPLE system (100) JOIN d1 ON t.k = d1.id GROUP BY 1",
            "TABLESAMPLE",
        ),
        (
            "SELECT generate_series(1, 2), count(*) FROM big t JOIN d1 ON t.k = d1.id GROUP BY d1.name",
            "a set-returning function",
        ),
        (
            "SELECT d1.name, sum(s.i) FROM d1 JOIN generate_series(1, 40) s (i) ON d1.id = s.i GROUP BY 1",
            "what is aggregated is no table",
        ),
        ("SELECT count(*) FROM big t JOIN d1 ON t.k = d1.id WHERE false", "no row can satisfy the conditions"),
        (
            "SELECT t.k, sum(t.x) FROM big t, LATERAL (SELECT d1.w FROM d1 WHERE d1.id = t.k LIMIT 3) l GROUP BY 1",
            "a lateral reference",
        ),
    ):
        answer = both(joins, query, used=False)
        said = reasons(joins, query)
        assert said in ([], [f"no eager aggregation: {reason}"]), (query, said)
        assert said or "false" in query, query
        assert answer.names


# generated queries


def compare(conn: Connection, query: JoinQuery, joins: str) -> tuple[str | None, bool]:
    """What differs, if anything does, and whether the plan was of the feature; ``joins`` is when by vectors."""
    found: list[Answer] = []
    used = False
    for mode in ("off", "force"):
        conn.execute("SAVEPOINT one")
        switch(conn, mode)
        conn.execute(f"SET LOCAL pgbillion_rows.vector_join = {'off' if mode == 'off' else joins}".encode())
        before, text = query.statements()
        conn.execute("; ".join([*(f"SET {setting}" for setting in query.settings), *before]).encode())
        used = is_eager(plans.explain(conn, text))
        found.append(answers.answer(conn.execute(text.encode())))
        conn.execute("DEALLOCATE ALL; ROLLBACK TO one")
    return answers.difference(found[0], found[1], TOLERANCE), used


def check_generated(conn: Connection, table: str, count: int, tell: Callable[[str], None], counted: Count) -> None:
    generator = EagerGenerator(SEED, table)
    eligible = used = expected = 0
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    for number in range(count):
        query = generator.query()
        # joins by vectors may be taken instead
        joins = ("off", "on", "force")[number % 3]
        differs, was_used = compare(conn, query, joins)
        assert differs is None, f"seed {SEED}, number {number}: {differs}\n{query}"
        eligible += query.eligible
        used += query.eligible and was_used
        expected += query.eligible and (was_used or joins == "off")
    conn.execute("ROLLBACK")
    tell(f"seed {SEED}: {count} queries on {table}, {eligible} to aggregate before the join, {used} so planned")
    counted({"queries": count, "that aggregate before a join": used})
    assert used >= LEAST_USED * expected, f"seed {SEED}: {used} of {expected}"
    assert used >= eligible / 2
    assert eligible >= count / 2


@pytest.mark.parametrize("table", ["big", "parts"])
def test_generated_queries(
    cluster: Cluster, tables: str, table: str, tell: Callable[[str], None], counted: Count
) -> None:
    with cluster.connect(tables) as conn:
        prepare(conn)
        check_generated(conn, table, QUERIES, tell, counted)


# shards


@pytest.fixture(scope="module")
def sharded(cluster: Cluster, database: str) -> Iterator[Connection]:
    """`many` on two shards and here."""
    with shards([cluster] * 2, database) as members, cluster.connect(database) as conn:
        prepare(conn)
        make_coordinator(conn, members)
        shard_table(conn, members, "many", BIG, local=1)
        conn.execute((FILL_BIG.format("many") + "; ANALYZE many").encode())
        conn.execute(SMALL.encode())
        yield conn


def test_states_come_from_the_shards(sharded: Connection) -> None:
    both(sharded, QUERY.format("many"), used=True)
    rows = sharded.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {QUERY.format('many')}".encode()).fetchall()
    text = "\n".join(line for (line,) in rows)
    assert text.count("Relations: Partial Aggregate on (public.many_") == 2, text
    assert text.count("Async Foreign Scan") == 2, text
    assert text.count("GROUP BY 1") == 2, text
    # and by core where they may not
    sharded.execute("SET pgbillion_rows.push_down_aggregates = off")
    both(sharded, QUERY.format("many"), used=True)
    sharded.execute("RESET pgbillion_rows.push_down_aggregates")


def test_workers_for_what_is_beside_shards(sharded: Connection) -> None:
    """Core has none where one partition is foreign."""
    sharded.execute("BEGIN; SET LOCAL max_parallel_workers_per_gather = 2")
    sharded.execute("INSERT INTO many_2 SELECT m.* FROM many_2 m, generate_series(1, 200); ANALYZE many_2")
    both(sharded, QUERY.format("many"), used=True)
    plan = plans.explain(sharded, QUERY.format("many"), run=True)
    (append,) = (node for node in plans.nodes(plan) if node["Node Type"] == "Append")
    (gather,) = (node for node in append["Plans"] if node["Node Type"] == "Gather")
    assert gather["Workers Launched"] > 0
    assert plans.vectorized(gather)
    assert [node["Node Type"] for node in append["Plans"]].count("Foreign Scan") == 2
    # what workers may not compute
    sharded.execute(
        "CREATE FUNCTION restricted(integer) RETURNS boolean IMMUTABLE PARALLEL RESTRICTED LANGUAGE plpgsql"
        " AS 'BEGIN RETURN $1 > 3; END'"
    )
    query = QUERY.format("many").replace("GROUP", "WHERE restricted(t.k) GROUP")
    both(sharded, query, used=True)
    (append,) = (node for node in plans.nodes(plans.explain(sharded, query)) if node["Node Type"] == "Append")
    assert not plans.parallel(append)
    sharded.execute("ROLLBACK")


@pytest.mark.parametrize("workers", [0, 2])
def test_generated_queries_on_shards(
    sharded: Connection, workers: int, tell: Callable[[str], None], counted: Count
) -> None:
    mode = "force" if workers else "on"
    sharded.execute(
        f"SET pgbillion_rows.vector_aggregate = {mode}; SET max_parallel_workers_per_gather = {workers}".encode()
    )
    check_generated(sharded, "many", QUERIES // 3, tell, counted)
    sharded.execute("RESET pgbillion_rows.vector_aggregate; SET max_parallel_workers_per_gather = 0")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("material", ["on", "off"])
def test_states_are_computed_once_also_within_a_nested_loop(joins: Connection, workers: int, material: str) -> None:
    """Else the table is aggregated again, and workers are started again, for each row outside."""
    # what other tests have rolled back takes pages of the common tables, until autovacuum comes; plans depend on these
    joins.execute("CREATE SCHEMA own; SET LOCAL search_path = own, public")
    joins.execute(f"CREATE TABLE big ({BIG}); {FILL_BIG.format('big')}; ANALYZE big; {SMALL}".encode())
    joins.execute(
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET pgbillion_rows.vector_aggregate = force;"
        f" SET max_parallel_workers_per_gather = {workers}; SET enable_material = {material}".encode()
    )
    inside = 0
    for query in (
        QUERY.format("big"),
        "SELECT count(*), sum(t.x) FROM big t JOIN d1 ON t.k > d1.id",
        "SELECT d1.name, count(*), sum(t.x) FROM big t JOIN d1 ON t.k = d1.id JOIN d2 ON d2.id < d1.id GROUP BY 1",
        QUERY.format("parts"),
    ):
        both(joins, query, used=True)
        plan = plans.explain(joins, query, run=True)
        for node in plans.nodes(plan):
            if node["Node Type"] == "Gather" or node.get("Custom Plan Provider") == plans.NODE:
                # workers count as loops of what they run
                assert node["Actual Loops"] <= 1 + workers, plans.text(joins, query)
        inside += sum(
            node["Node Type"] == "Materialize" and _partial_below_join({"Plans": [node]}) for node in plans.nodes(plan)
        )
    # one process alone has the states outside, and with enable_material = on some majors have
    assert inside > 0 or workers == 0 or material == "on"
