"""Nested loops that rest on a guess are replaced with hash joins, and others are not.

PGBILLION_TEST_LOOPS is how many queries are generated (default 40), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator

import pytest

from harness import servers
from harness.amount import Count, amount
from harness.outcomes import (
    CANCELED,
    QUERY_CANCELED,
    WAYS,
    WHOLE,
    agreed,
    canceled,
    explained_each,
    leaving_nothing,
    outcome,
)
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = [pytest.mark.quick, pytest.mark.majors]

QUERIES = amount("PGBILLION_TEST_LOOPS", 40, 20)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "loops") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                "CREATE TABLE sold AS SELECT i AS id, i % 5000 AS customer, 2000 + i % 2 AS year, i % 17 AS price"
                " FROM generate_series(1, 20000) i; CREATE TABLE customers AS SELECT i AS id, 'name ' || i AS name"
                " FROM generate_series(0, 4999) i; ALTER TABLE customers ADD PRIMARY KEY (id)"
            )
            conn.execute("CREATE TABLE offices AS SELECT 2000 AS year, 7 AS customer")
            conn.execute("VACUUM ANALYZE sold, customers, offices")
            conn.execute("CREATE EXTENSION IF NOT EXISTS pgbillion_rows")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; SET jit = off")
        yield conn


def joins(conn: Connection, query: str, setting: str) -> list[str]:
    """The joins of a plan, from above."""
    conn.execute(f"SET pgbillion_rows.replace_nested_loops = {setting}".encode())
    found = [node["Node Type"] for node in plans.nodes(plans.explain(conn, query))]
    return [kind for kind in found if kind in ("Nested Loop", "Hash Join", "Merge Join")]


# totals by customer and year, which are joined with themselves
TOTALS = (
    "WITH totals AS (SELECT customer, year, sum(price) AS total, 's' AS kind FROM sold GROUP BY customer, year"
    " UNION ALL SELECT customer, year, sum(price), 'w' FROM sold GROUP BY customer, year)"
)
SAME = "one.kind = 's' AND two.kind = 's' AND one.year = 2000 AND two.year = 2000"
JOINS = {
    "inner": f"{TOTALS} SELECT one.customer, two.total FROM totals one JOIN totals two USING (customer) WHERE {SAME}",
    "three": f"{TOTALS} SELECT one.customer, two.total FROM totals one JOIN totals two USING (customer)"
    f" JOIN totals three USING (customer) WHERE {SAME} AND three.kind = 'w' AND three.year = 2000",
    "first of an order": f"{TOTALS} SELECT one.customer, two.total FROM totals one JOIN totals two USING (customer)"
    f" WHERE {SAME} ORDER BY 1 LIMIT 10",
    # PostgreSQL sorts one side first, and keeps its order through the loops
    "two orders": f"{TOTALS} SELECT one.customer, one.total, two.total FROM totals one JOIN totals two USING (customer)"
    f" JOIN totals three USING (customer) JOIN totals four USING (customer) WHERE {SAME} AND three.kind = 'w'"
    " AND three.year = 2000 AND four.kind = 's' AND four.total > 0 AND four.year = 2000 ORDER BY 1, 2, 3 LIMIT 100",
    "left": f"{TOTALS} SELECT one.customer, two.total FROM (SELECT * FROM totals WHERE kind = 's' AND year = 2000) one"
    " LEFT JOIN (SELECT * FROM totals WHERE kind = 'w' AND year = 2000) two USING (customer)",
    "semi": f"{TOTALS} SELECT one.customer FROM totals one WHERE kind = 's' AND year = 2000 AND EXISTS"
    " (SELECT FROM totals two WHERE two.customer = one.customer AND kind = 'w' AND year = 2000)",
    "anti": f"{TOTALS} SELECT one.customer FROM totals one WHERE kind = 's' AND year = 2000 AND NOT EXISTS"
    " (SELECT FROM totals two WHERE two.customer = one.customer AND kind = 'w' AND year = 2001)",
}


@pytest.mark.parametrize("name", JOINS)
def test_a_guess_makes_no_loop(conn: Connection, name: str) -> None:
    query = JOINS[name]
    off = joins(conn, query, "off")
    assert "Nested Loop" in off
    expected = sorted(conn.execute(query.encode()).fetchall())
    assert set(joins(conn, query, "on")) <= {"Hash Join", "Merge Join"}
    assert sorted(conn.execute(query.encode()).fetchall()) == expected
    assert expected


def test_a_cte_is_not_read_again_for_first_rows(conn: Connection) -> None:
    """To PostgreSQL that costs as much as its rows, but not the condition, which all rows of the CTE are tested for."""
    mean = (
        f"{TOTALS} SELECT name FROM totals one JOIN customers ON customer = id"
        " WHERE total > (SELECT avg(total) FROM totals two WHERE one.kind = two.kind) ORDER BY name LIMIT 10"
    )

    def inner_scans() -> list[str]:
        found = plans.nodes(plans.explain(conn, mean))
        return [str(node["Plans"][1]["Node Type"]) for node in found if node["Node Type"] == "Nested Loop"]

    conn.execute("CREATE INDEX by_name ON customers (name)")
    assert joins(conn, mean, "off") == ["Nested Loop"]
    assert inner_scans() == ["CTE Scan"]
    expected = conn.execute(mean.encode()).fetchall()
    assert len(joins(conn, mean, "on")) == 1
    assert "CTE Scan" not in inner_scans()
    assert conn.execute(mean.encode()).fetchall() == expected
    conn.execute("DROP INDEX by_name")


# a guess, which is joined with the first rows of an order
FIRST = (
    "SELECT one.id, two.name FROM sold one {join} guessed two ON one.year = two.year ORDER BY one.id, two.name LIMIT 12"
)


@pytest.fixture
def first(conn: Connection) -> Connection:
    """Has a view of which PostgreSQL expects two short rows, and which has many long ones."""
    conn.execute(
        "CREATE TEMP VIEW guessed AS SELECT 2000 + i % 150 AS year, repeat('long ', 180) || i AS name"
        " FROM generate_series(1, 400) i WHERE i % 1 = 0 OFFSET 0; CREATE INDEX IF NOT EXISTS by_id ON sold (id)"
    )
    conn.execute("SET pgbillion_rows.vector_join = off; SET enable_mergejoin = off")
    return conn


def ordered(conn: Connection, query: str) -> list[str]:
    """The nodes of a query's plan that keep an order, and what they read: of each, the first one below."""
    (plan,) = one(conn, f"EXPLAIN (ANALYZE, VERBOSE, TIMING OFF, SUMMARY OFF, FORMAT JSON) {query}")
    return [
        str(node["Plans"][0]["Node Type"])
        for node in plans.nodes(plan["Plan"])
        if node.get("Custom Plan Provider") == "KeepOrder"
    ]


ORDERED = {
    "inner": FIRST.format(join="JOIN"),
    "left": FIRST.format(join="LEFT JOIN"),
    "semi": "SELECT id, price * 2 FROM sold one WHERE EXISTS (SELECT FROM guessed two WHERE two.year = one.year)"
    " ORDER BY id LIMIT 12",
    "anti": "SELECT id, price FROM sold one WHERE NOT EXISTS (SELECT FROM guessed two"
    " WHERE two.year = one.year + one.id % 400 AND two.name > one.price::text) ORDER BY id LIMIT 12",
    # read again: as it was, and with another value
    "again": "SELECT g, l.* FROM generate_series(0, 3) g, LATERAL (SELECT id, name FROM"
    " (SELECT one.id, two.name FROM sold one JOIN guessed two ON one.year = two.year"
    " ORDER BY one.id LIMIT 100) o ORDER BY id, name OFFSET g LIMIT 3) l",
    "with another value": "SELECT g, l.* FROM generate_series(0, 3) g, LATERAL (SELECT one.id, two.name FROM sold one"
    " JOIN guessed two ON one.year = two.year WHERE one.id > g * 1000"
    " ORDER BY one.id, two.name LIMIT 3) l",
}


@pytest.mark.parametrize("memory", ["4MB", "64kB"])
@pytest.mark.parametrize("name", ORDERED)
def test_first_rows_of_an_order(first: Connection, name: str, memory: str) -> None:
    """A hash table in memory keeps the order; of one that is not, the rows are sorted."""
    query = ORDERED[name]
    first.execute("SET pgbillion_rows.replace_nested_loops = off")
    assert "Nested Loop" in joins(first, query, "off")
    expected = first.execute(query.encode()).fetchall()
    assert expected
    # 19 returns rows of an outer side whose keys are NULL after all others
    if first.info.server_version >= 190000 and name in ("left", "anti"):
        assert "Nested Loop" in joins(first, query, "on")
        return
    assert "Hash Join" in joins(first, query, "on")
    first.execute(f"SET work_mem = '{memory}'".encode())
    assert first.execute(query.encode()).fetchall() == expected
    found = ordered(first, query)
    # columns that nobody asks for are in no hash table
    assert found == ["Sort" if memory == "64kB" and name != "semi" else "Hash Join"]


def test_order_is_kept_for_a_cursor(first: Connection) -> None:
    query = ORDERED["inner"]
    expected = first.execute(query.encode()).fetchall()
    with first.transaction():
        first.execute(f"DECLARE here SCROLL CURSOR FOR {query}".encode())
        assert first.execute("FETCH 7 FROM here").fetchall() == expected[:7]
        assert first.execute("FETCH BACKWARD 3 FROM here").fetchall() == expected[5:2:-1]
        assert first.execute("FETCH ALL FROM here").fetchall() == expected[4:]


def test_what_is_volatile_is_not_read_again(first: Connection) -> None:
    """Nor are rows that are locked, of which one may be joined again later."""
    query = ORDERED["inner"]
    computed = query.replace("sold one", "(SELECT *, {} AS r FROM sold ORDER BY id OFFSET 0) one")
    assert ordered(first, computed.format("sqrt(id)")) == ["Hash Join"]
    assert ordered(first, computed.format("random()")) == []
    assert ordered(first, f"{query} FOR UPDATE OF one") == []


def test_a_table_that_may_not_fit_keeps_no_order(first: Connection) -> None:
    first.execute("CREATE TEMP TABLE many AS SELECT * FROM guessed")
    query = ORDERED["inner"].replace("guessed", "(SELECT * FROM many WHERE year % 1 = 0)")
    assert "Hash Join" in joins(first, query, "on")
    first.execute("SET work_mem = '64kB'")
    assert "Hash Join" not in joins(first, query, "on")


def test_explain_shows_what_is_replaced(conn: Connection) -> None:
    def replaced(query: str) -> set[str]:
        found = plans.nodes(plans.explain(conn, query))
        return {str(node.get("Replaces")) for node in found if node["Node Type"] == "Hash Join"}

    shown = "Nested Loop" if conn.info.server_version >= 180000 else "None"
    for name in ("inner", "three", "left", "semi"):
        assert replaced(JOINS[name]) == {shown}
    # PostgreSQL's own hash join
    conn.execute("SET pgbillion_rows.enable = off; SET enable_nestloop = off; SET enable_mergejoin = off")
    assert replaced(JOINS["inner"]) == {"None"}


def test_one_setting_switches_it_off(conn: Connection) -> None:
    assert one(conn, "SHOW pgbillion_rows.replace_nested_loops") == "on"
    conn.execute("SET pgbillion_rows.enable = off")
    assert joins(conn, JOINS["inner"], "on") == ["Nested Loop"]


@pytest.mark.parametrize(
    "query",
    [
        # the first rows are wanted soon, of many
        f"{TOTALS} SELECT one.customer FROM totals one JOIN totals two USING (customer) WHERE one.year = 2000 LIMIT 1",
        # no equality
        JOINS["inner"].replace("USING (customer)", "ON one.customer < two.customer"),
        # rows are looked up
        "SELECT * FROM (SELECT customer FROM sold WHERE price = 5 LIMIT 3) few JOIN customers ON customer = id",
        # the table that is read again is known to be small
        "SELECT * FROM (SELECT DISTINCT year, customer FROM sold WHERE id = 5) few JOIN offices USING (year, customer)",
        # it is read once, for the only row of a table
        "SELECT * FROM offices o JOIN sold s ON o.year = s.year AND s.id - s.id = 0",
        # statistics tell that there is one row
        "SELECT * FROM customers c JOIN sold s ON c.id = s.customer WHERE c.id = 7 AND s.id < 10",
    ],
)
def test_other_loops_stay(conn: Connection, query: str) -> None:
    assert joins(conn, query, "off") == ["Nested Loop"]
    assert joins(conn, query, "on") == ["Nested Loop"]


def test_what_costs_more_than_a_loop_is_not_taken(conn: Connection) -> None:
    conn.execute("SET enable_hashjoin = off")
    assert joins(conn, JOINS["inner"], "on") == ["Nested Loop"]


def test_it_starts_as_soon_to_the_planner(conn: Connection) -> None:
    """Of joins that cost about the same PostgreSQL would keep another loop, which starts first."""
    # what is computed once counts as a part of the topmost node
    found = plans.nodes(plans.explain(conn, JOINS["first of an order"]))
    (join,) = [node for node in found if node["Node Type"] == "Hash Join"]
    (table,) = [node for node in join["Plans"] if node["Node Type"] == "Hash"]
    assert join["Startup Cost"] < table["Total Cost"]


def test_a_cheap_side_that_is_empty_is_read_first(conn: Connection) -> None:
    """Of the other side, which is estimated to have one row, PostgreSQL would look for the first one."""
    conn.execute("SET pgbillion_rows.vector_join = off")
    conn.execute("CREATE TEMP TABLE shops AS SELECT i AS id, i % 2 AS open FROM generate_series(1, 100) i")
    conn.execute("ANALYZE shops")
    query = (
        "EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, FORMAT JSON) SELECT * FROM"
        " (SELECT customer FROM sold WHERE id - price = -1 AND price * 2 = 35 OFFSET 0) few"
        " WHERE EXISTS (SELECT FROM shops WHERE shops.id = few.customer AND open = {})"
    )

    def read(opened: int) -> list[int]:
        """How often the outer side has been read, and the inner one."""
        join = one(conn, query.format(opened))[0]["Plan"]
        assert join["Node Type"] == "Hash Join", join
        return [side["Actual Loops"] for side in join["Plans"]]

    assert read(7) == [0, 1]
    # not empty: both are
    assert read(1) == [1, 1]
    conn.execute("SET pgbillion_rows.replace_nested_loops = off; SET enable_nestloop = off; SET enable_mergejoin = off")
    assert read(7) == [1, 0]


def test_the_planner_tells_of_it(conn: Connection) -> None:
    text = str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", JOINS["inner"]))
    assert 'a nested loop over "one", "two" is replaced with a hash join, estimated to cost ' in text
    conn.execute("SET pgbillion_rows.replace_nested_loops = off")
    assert "is replaced" not in str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", JOINS["inner"]))


# ---- by chance ----

# what has columns k, m, t and v: by the number of its rows, PostgreSQL has statistics or guesses
SOURCES = (
    "counted", "counted", "unknown", "unknown", "(SELECT * FROM unknown WHERE m < 9 AND t > 'n2' AND v % 2 = 0)",
    "(SELECT * FROM counted WHERE m = 3 AND t = 'n3')",
    "(SELECT k, max(m) AS m, t, sum(v) AS v FROM counted GROUP BY k, t)",
    "(SELECT k, m, min(t) AS t, count(*) AS v FROM unknown GROUP BY k, m HAVING count(*) > 0)",
    "(SELECT DISTINCT k, m, t, v % 5 AS v FROM counted)",
    "(SELECT k, m, t, v FROM counted UNION ALL SELECT m, k, t, NULL FROM unknown)",
    "(SELECT * FROM unknown ORDER BY v, k, m, t LIMIT 60)",
    "(SELECT nullif(g % 12, 4)::bigint AS k, g % 5 AS m, 'n' || g % 8 AS t, g AS v FROM generate_series(1, 50) g)",
    "few", "few", "totals", "missing",
)  # fmt: skip
# conditions that are true for all rows, which PostgreSQL takes for few
GUESSES = (
    "{}.v % 1 = 0", "{}.v % 1 = 0", "{}.m + 0 = {}.m", "{}.m + 0 = {}.m", "length({}.t) > 0", "coalesce({}.v, 1) >= -5",
)  # fmt: skip
EQUALITIES = (
    "{a}.k = {b}.k", "{a}.k = {b}.k", "{a}.m = {b}.m", "{a}.t = {b}.t", "{a}.k = {b}.m", "{a}.k::numeric = {b}.k",
    "{a}.k + 1 = {b}.m", "{a}.v = {b}.v", "lower({a}.t) = {b}.t", "({a}.k, {a}.t) = ({b}.k, {b}.t)",
    "{a}.k = {b}.k AND {a}.m = {b}.m",
)  # fmt: skip
OTHERS = ("{a}.m <> {b}.m", "{a}.v > {b}.v", "{a}.t < {b}.t", "({a}.m = 1 OR {b}.m > 2)", "{b}.v IS NOT NULL")
WITH = (
    "WITH few AS MATERIALIZED (SELECT k, m, t, v FROM counted WHERE m < 7), totals AS MATERIALIZED (SELECT k, m,"
    " max(t) AS t, sum(v) AS v FROM unknown GROUP BY k, m), missing AS MATERIALIZED (SELECT k, m, t, v FROM unknown"
    " WHERE v < 0)"
)


def make(conn: Connection) -> None:
    """Tables of the same rows: of one there are statistics. And one with many more, in an order that an index knows."""
    for table in ("counted", "unknown"):
        conn.execute(
            f"CREATE TABLE {table} WITH (autovacuum_enabled = off) AS SELECT nullif(i % 37, 5)::bigint AS k,"
            " nullif(i % 11, 7) AS m, CASE WHEN i % 6 <> 4 THEN 'n' || i % 9 END AS t, nullif(i % 23, 3) AS v"
            " FROM generate_series(1, 50) i".encode()
        )
    conn.execute(
        "CREATE TABLE long AS SELECT nullif(i % 37, 5)::bigint AS k, nullif(i % 11, 7) AS m, 'n' || i % 9 AS t, i AS v"
        " FROM generate_series(1, 3000) i; CREATE INDEX ON long (v); ANALYZE counted, long"
    )


def generated(chance: random.Random) -> str:
    """A query over two to four sources."""
    conditions = []

    def source(name: str) -> str:
        if chance.random() < 0.7:
            conditions.append(chance.choice(GUESSES).replace("{}", name))
        return f"{chance.choice(SOURCES)} {name}"

    def matches(name: str, before: list[str]) -> str:
        pair = {"a": chance.choice(before), "b": name}
        terms = [chance.choice(EQUALITIES), *chance.sample(OTHERS, chance.choice((0, 0, 1)))]
        return " AND ".join(terms).format(**pair)

    names = ["a"]
    first_rows = chance.random() < 0.25
    text = "FROM long a" if first_rows else f"FROM {source('a')}"
    for name in "bcd"[: chance.choice((1, 1, 2, 2, 3))]:
        kind = chance.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN")[: 3 if first_rows else 4])
        joined, on = source(name), matches(name, names)
        # what belongs to the inner side of an outer join is no filter of its rows
        if kind != "JOIN" and conditions and chance.random() < 0.5:
            on += f" AND {conditions.pop()}"
        text += f" {kind} {joined} ON {on}"
        names.append(name)
    if chance.random() < 0.4:
        inner, negated = chance.choice(SOURCES), chance.choice(("", "NOT "))
        conditions.append(f"{negated}EXISTS (SELECT FROM {inner} x WHERE {matches('x', names)})")
    if chance.random() < 0.15:
        conditions.append(f"a.k IN (SELECT x.k FROM {chance.choice(SOURCES)} x WHERE length(x.t) > 0)")
    again = first_rows and chance.random() < 0.5
    if again:
        conditions.append("a.v > g * 100")
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    every, by_v = (
        ", ".join(f"{name}.{column}" for name in names for column in columns) for columns in ("kmtv", "vkmt")
    )
    # not LIMIT g: workers of a Gather Merge that is read again keep the LIMIT of the first time
    first = "SELECT {by_v} {text} ORDER BY {by_v} LIMIT 3"
    if again:
        first = f"SELECT g, l.* FROM generate_series(1, 3) g, LATERAL ({first}) l"
    above = chance.choice(
        (first,)
        if first_rows
        else (
            "SELECT count(*), sum({last}.v), max({last}.t) {text}",
            "SELECT a.k, count(*), sum({last}.v) {text} GROUP BY 1",
            "SELECT DISTINCT a.t, {last}.m {text}",
            "SELECT {every} {text} ORDER BY {every} LIMIT 40",
            "SELECT g, l.* FROM generate_series(1, 3) g, LATERAL (SELECT a.k, count(*) {text} GROUP BY 1 HAVING"
            " count(*) > g) l",
            "SELECT count(*) FROM (SELECT {every} {text} LIMIT 5000) l",
        )
    )
    return f"{WITH} {above.format(text=text, last=names[-1], every=every, by_v=by_v)}"


def test_generated(
    conn: Connection, cluster: Cluster, database: str, tell: Callable[[str], None], counted: Count
) -> None:
    conn.prepare_threshold = None
    chance = random.Random(SEED)
    numbers = {"queries": 0, "explained": 0, "with replaced loops": 0, "in parallel plans": 0, "with 64 kB": 0}
    numbers["in order"] = 0
    numbers["that PostgreSQL did not end"] = 0
    conn.execute("SET statement_timeout = '1s'")
    conn.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    conn.execute("CREATE SCHEMA loops; SET search_path = loops; BEGIN")
    make(conn)
    with leaving_nothing(cluster, database):
        for number in range(QUERIES):
            query = generated(chance)
            little = chance.random() < 0.3
            settings = {
                "work_mem": "'64kB'" if little else "'4MB'",
                "max_parallel_workers_per_gather": chance.choice((0, 0, 0, 0, 0, 2)),
                "enable_memoize": chance.choice(("on", "off")),
                "pgbillion_rows.vector_join": chance.choice(("off", "off", "on")),
            }
            before = " ".join(f"SET {name} = {value};" for name, value in settings.items())
            way = chance.choice(WAYS)
            where = f"seed {SEED}, number {number}, {way}: {before} {query}"
            start = time.perf_counter()
            core = outcome(conn, query, f"{before} SET pgbillion_rows.enable = off;", WHOLE if way == CANCELED else way)
            seconds = time.perf_counter() - start
            numbers["queries"] += 1
            if isinstance(core, str):
                # what is replaced may take long for PostgreSQL
                assert core.startswith(QUERY_CANCELED), f"{core}: {where}"
                numbers["that PostgreSQL did not end"] += 1
                continue
            if way == CANCELED:
                canceled(conn, query, before, chance.uniform(0, seconds))
            ours = outcome(conn, query, f"{before} SET statement_timeout = '120s';", WHOLE if way == CANCELED else way)
            agreed(core, ours, where)
            if number % explained_each(QUERIES):
                continue
            conn.execute(f"SAVEPOINT explained; {before}".encode())
            text = str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", query))
            replaced = "is replaced with a hash join" in text
            found = list(plans.nodes(plans.explain(conn, query))) if replaced else []
            numbers["explained"] += 1
            numbers["with replaced loops"] += replaced
            numbers["in parallel plans"] += replaced and any(node["Node Type"].startswith("Gather") for node in found)
            numbers["with 64 kB"] += replaced and little
            numbers["in order"] += any(node.get("Custom Plan Provider") == "KeepOrder" for node in found)
            conn.execute("ROLLBACK TO explained")
    tell(f"seed {SEED}: {numbers}")
    counted(numbers)
    assert numbers["with replaced loops"] > numbers["explained"] * 0.2, f"seed {SEED}: {numbers}"
    assert numbers["in order"] or QUERIES < 200, f"seed {SEED}: {numbers}"
