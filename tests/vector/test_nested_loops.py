"""Nested loops that rest on a guess are replaced with hash joins, and others are not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = [pytest.mark.quick, pytest.mark.majors]


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
QUERIES = {
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


@pytest.mark.parametrize("name", QUERIES)
def test_a_guess_makes_no_loop(conn: Connection, name: str) -> None:
    query = QUERIES[name]
    off = joins(conn, query, "off")
    assert "Nested Loop" in off
    expected = sorted(conn.execute(query.encode()).fetchall())
    assert set(joins(conn, query, "on")) <= {"Hash Join", "Merge Join"}
    assert sorted(conn.execute(query.encode()).fetchall()) == expected
    assert expected


def test_explain_shows_what_is_replaced(conn: Connection) -> None:
    def replaced(query: str) -> set[str]:
        found = plans.nodes(plans.explain(conn, query))
        return {str(node.get("Replaces")) for node in found if node["Node Type"] == "Hash Join"}

    shown = "Nested Loop" if conn.info.server_version >= 180000 else "None"
    for name in ("inner", "three", "left", "semi"):
        assert replaced(QUERIES[name]) == {shown}
    # PostgreSQL's own hash join
    conn.execute("SET pgbillion_rows.enable = off; SET enable_nestloop = off; SET enable_mergejoin = off")
    assert replaced(QUERIES["inner"]) == {"None"}


def test_one_setting_switches_it_off(conn: Connection) -> None:
    assert one(conn, "SHOW pgbillion_rows.replace_nested_loops") == "on"
    conn.execute("SET pgbillion_rows.enable = off")
    assert joins(conn, QUERIES["inner"], "on") == ["Nested Loop"]


@pytest.mark.parametrize(
    "query",
    [
        # the first rows are wanted soon, of many
        f"{TOTALS} SELECT one.customer FROM totals one JOIN totals two USING (customer) WHERE one.year = 2000 LIMIT 1",
        # no equality
        QUERIES["inner"].replace("USING (customer)", "ON one.customer < two.customer"),
        # rows are looked up
        "SELECT * FROM (SELECT customer FROM sold WHERE price = 5 LIMIT 3) few JOIN customers ON customer = id",
        # the table that is read again is known to be small
        "SELECT * FROM (SELECT DISTINCT year, customer FROM sold WHERE id = 5) few JOIN offices USING (year, customer)",
        # statistics tell that there is one row
        "SELECT * FROM customers c JOIN sold s ON c.id = s.customer WHERE c.id = 7 AND s.id < 10",
    ],
)
def test_other_loops_stay(conn: Connection, query: str) -> None:
    assert joins(conn, query, "off") == ["Nested Loop"]
    assert joins(conn, query, "on") == ["Nested Loop"]


def test_what_costs_more_than_a_loop_is_not_taken(conn: Connection) -> None:
    conn.execute("SET enable_hashjoin = off")
    assert joins(conn, QUERIES["inner"], "on") == ["Nested Loop"]


def test_it_starts_as_soon_to_the_planner(conn: Connection) -> None:
    """Of joins that cost about the same PostgreSQL would keep another loop, which starts first."""
    # what is computed once counts as a part of the topmost node
    found = plans.nodes(plans.explain(conn, QUERIES["first of an order"]))
    (join,) = [node for node in found if node["Node Type"] == "Hash Join"]
    (table,) = [node for node in join["Plans"] if node["Node Type"] == "Hash"]
    assert join["Startup Cost"] < table["Total Cost"]


def test_the_planner_tells_of_it(conn: Connection) -> None:
    text = str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", QUERIES["inner"]))
    assert 'a nested loop over "one", "two" is replaced with a hash join, estimated to cost ' in text
    conn.execute("SET pgbillion_rows.replace_nested_loops = off")
    assert "is replaced" not in str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", QUERIES["inner"]))
