"""What the planner decides: one setting for everything, what it tells, and which plans it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from harness import servers
from harness.servers import one
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

Connection = psycopg.Connection[tuple[Any, ...]]
OFF = "pgbillion_rows.enable is off"


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "choices") as name:
        with cluster.connect(name) as conn:
            conn.execute(
                "CREATE TABLE big AS SELECT i AS id, i % 100 AS k, i % 7 AS g, 'text ' || i AS v, repeat('z', 40) AS w"
                " FROM generate_series(1, 60000) i; CREATE TABLE small AS SELECT i AS id, 'name ' || i % 9 AS name"
                " FROM generate_series(0, 99) i; CREATE TABLE none (i int)"
            )
            conn.execute("ALTER TABLE small ADD PRIMARY KEY (id)")
            conn.execute("VACUUM ANALYZE big, small, none")
        yield name


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("LOAD 'pgbillion_rows'; SET max_parallel_workers_per_gather = 0; SET jit = off")
        # joins by vectors have tests of their own
        conn.execute("SET pgbillion_rows.vector_join = off")
        conn.execute("BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def providers(conn: Connection, query: str) -> set[str]:
    """The nodes of ours in a plan."""
    found = (node.get("Custom Plan Provider") for node in plans.nodes(plans.explain(conn, query)))
    return {name for name in found if name is not None}


def told(conn: Connection, query: str) -> list[str]:
    """What explain_vector() says, line by line."""
    return str(one(conn, "SELECT pgbillion_rows.explain_vector(%s)", query)).splitlines()


# one setting for everything

AGGREGATE = "SELECT g, count(*) FROM big GROUP BY g"
FILTER = "SELECT * FROM big WHERE k = 3 AND id > 5"
JOIN = "SELECT s.name, count(*), sum(b.g) FROM big b JOIN small s ON b.k = s.id GROUP BY 1"


def test_one_setting_switches_everything_off(conn: Connection) -> None:
    assert one(conn, "SHOW pgbillion_rows.enable") == "on"
    assert providers(conn, AGGREGATE) == {"VectorAggregate", "VectorFinish"}
    assert providers(conn, FILTER) == {"VectorScan"}
    assert providers(conn, JOIN) == {"VectorAggregate"}
    # whatever the others say
    conn.execute("SET pgbillion_rows.enable = off; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("SET pgbillion_rows.vector_scan = force; SET pgbillion_rows.aggregate_before_join = force")
    for query in (AGGREGATE, FILTER, JOIN):
        assert providers(conn, query) == set()
        assert "Finalize" not in {node.get("Partial Mode") for node in plans.nodes(plans.explain(conn, query))}
        assert told(conn, query) == [f"not vectorized: {OFF}"]
    conn.execute("SET pgbillion_rows.enable = on")
    assert providers(conn, FILTER) == {"VectorScan"}


def test_the_setting_is_shown_by_explain(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.enable = off")
    (found,) = conn.execute("EXPLAIN (SETTINGS, FORMAT JSON) SELECT 1").fetchone() or ()
    assert found[0]["Settings"]["pgbillion_rows.enable"] == "off"


def test_shards_are_read_as_by_postgres_fdw(conn: Connection, database: str) -> None:
    port, host = conn.info.port, conn.info.host
    conn.execute(
        "CREATE EXTENSION postgres_fdw; CREATE SERVER here FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS"
        f" (host '{host}', port '{port}', dbname '{database}'); CREATE USER MAPPING FOR PUBLIC SERVER here"
        f" OPTIONS (user '{conn.info.user}', password_required 'false')".encode()
    )
    conn.execute("CREATE TABLE far (id int, k int, g int) PARTITION BY LIST (id)")
    conn.execute("CREATE FOREIGN TABLE far_1 PARTITION OF far DEFAULT SERVER here OPTIONS (table_name 'big')")
    conn.execute("SET enable_partitionwise_aggregate = on; SET pgbillion_rows.vector_aggregate = force")
    query = "EXPLAIN (VERBOSE, COSTS OFF) SELECT g, avg(k) FROM far GROUP BY 1"
    for setting, expected in (("on", True), ("off", False)):
        conn.execute(f"SET pgbillion_rows.enable = {setting}".encode())
        plan = "\n".join(line for (line,) in conn.execute(query.encode()).fetchall())
        assert ("partial_avg" in plan) is expected, plan


# what is told


def test_explain_vector_tells_of_filters(conn: Connection) -> None:
    first, last = told(conn, FILTER)
    assert first.startswith('a vectorized scan of "big" is possible, and estimated to cost ')
    assert re.search(r": 2 of 2 conditions, \d+ of 60000 rows$", first), first
    assert last == "vectorized filter"
    assert told(conn, "SELECT * FROM big b WHERE 1 / k = 1") == [
        'no vectorized scan of "b": a condition that might raise an error comes first',
        "not chosen",
    ]
    (first, last) = told(conn, "SELECT * FROM small WHERE id = 3")
    assert first.startswith('no vectorized scan of "small": reading all of it would cost ')
    assert last == "not chosen"
    (first, last) = told(conn, "SELECT * FROM big TABLESAMPLE system (50) WHERE k = 3")
    assert first == 'no vectorized scan of "big": TABLESAMPLE'


def test_explain_vector_tells_what_was_estimated(conn: Connection) -> None:
    first, last = told(conn, AGGREGATE)
    assert first.startswith("vectors are possible, and estimated to cost ")
    assert first.endswith(": 7 groups of 60000 rows")
    assert last == "vectorized"
    lines = told(conn, JOIN)
    (found,) = [line for line in lines if "before the join" in line]
    assert found.startswith("aggregation before the join is possible, and estimated to cost ")
    assert found.endswith(": 100 groups of 60000 rows, of which the join leaves 60000"), found


def test_explain_vector_tells_what_is_off(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.vector_aggregate = off")
    assert told(conn, AGGREGATE)[0] == "not vectorized: pgbillion_rows.vector_aggregate is off"
    assert told(conn, FILTER)[-1] == "vectorized filter"
    conn.execute("SET pgbillion_rows.vector_scan = off")
    assert told(conn, FILTER) == [
        "not vectorized: pgbillion_rows.vector_aggregate is off",
        "no vectorized scan: pgbillion_rows.vector_scan is off",
    ]


# before the join, or not


@pytest.fixture
def sold(conn: Connection) -> Connection:
    conn.execute(
        "CREATE TABLE sold AS SELECT i % 100 AS shop, (i / 100) % 120 AS day, i::numeric(12, 2) AS price,"
        " repeat('z', 40) AS pad FROM generate_series(1, 60000) i;"
        " CREATE TABLE shop AS SELECT i AS id, i % 5 AS region FROM generate_series(0, 99) i; ANALYZE sold, shop"
    )
    return conn


CALLS = "avg(price), sum(price), max(price), count(*)"


@pytest.mark.parametrize(
    ("keys", "calls", "where", "expected"),
    [
        ("region", CALLS, "true", True),
        ("region", "count(*)", "id = 3", True),
        # five rows make a group here: all of them are aggregated for the few that the join leaves
        ("region, day", CALLS, "id = 3", False),
        ("region, day", CALLS, "id = 3 AND price > 0", False),
        ("region, day", CALLS, "true", True),
    ],
)
def test_what_the_join_leaves_counts(sold: Connection, keys: str, calls: str, where: str, expected: bool) -> None:
    query = f"SELECT {keys}, {calls} FROM sold JOIN shop ON shop = id WHERE {where} GROUP BY {keys}"
    modes = {node.get("Partial Mode") for node in plans.nodes(plans.explain(sold, query))}
    assert ("Finalize" in modes) is expected, told(sold, query)


def test_what_the_join_leaves_does_not_count_where_it_is_forced(sold: Connection) -> None:
    sold.execute("SET pgbillion_rows.aggregate_before_join = force")
    query = f"SELECT region, day, {CALLS} FROM sold JOIN shop ON shop = id WHERE id = 3 GROUP BY 1, 2"
    assert "Finalize" in {node.get("Partial Mode") for node in plans.nodes(plans.explain(sold, query))}


# what considering it takes


@pytest.mark.parametrize("column", ["k", "price"])
def test_thousands_of_conditions_take_little_memory_to_plan(conn: Connection, column: str) -> None:
    if conn.info.server_version < 170000:
        pytest.skip("EXPLAIN tells of memory from PostgreSQL 17 on")
    conn.execute("CREATE TABLE priced AS SELECT id, k, id::numeric(10, 2) AS price FROM big; ANALYZE priced")
    where = " OR ".join(f"{column} = {number}" for number in range(2000))
    query = f"SELECT * FROM priced WHERE {where}"
    assert providers(conn, query) == {"VectorScan"}
    used = {}
    for setting in ("off", "on"):
        conn.execute(f"SET pgbillion_rows.enable = {setting}".encode())
        (found,) = conn.execute(f"EXPLAIN (MEMORY, FORMAT JSON) {query}".encode()).fetchone() or ()
        used[setting] = found[0]["Planning"]["Memory Used"]
    assert used["on"] < 1.5 * used["off"]
    assert (
        conn.execute(query.encode()).fetchall()
        == conn.execute(
            query.replace(where, f"{column} BETWEEN 0 AND 1999 AND {column} = trunc({column})").encode()
        ).fetchall()
    )


# scans that stand in for others


def test_a_scan_that_returns_most_rows_does_not_change_the_plan_above(conn: Connection) -> None:
    """It is taken wherever a sequential scan would be, and not in place of other ways to many rows."""
    conn.execute("CREATE TABLE lines AS SELECT i AS id, i / 4 AS ref, i % 100 AS k, repeat('y', 80) AS v"
                 " FROM generate_series(1, 200000) i; CREATE INDEX ON lines (ref)")  # fmt: skip
    conn.execute("CREATE TABLE heads AS SELECT i AS id, i % 100 AS g FROM generate_series(1, 50000) i")
    conn.execute("ANALYZE lines, heads; SET pgbillion_rows.vector_aggregate = off")
    for limit, share in ((2, 50), (2, 70), (2, 90), (5, 50)):
        query = (
            f"SELECT h.g, count(*) FROM heads h JOIN lines l ON l.ref = h.id WHERE h.g < {limit} AND l.k < {share}"
            " GROUP BY 1"
        )
        shapes = {}
        for setting in ("off", "on"):
            conn.execute(f"SET pgbillion_rows.enable = {setting}".encode())
            found = plans.nodes(plans.explain(conn, query))
            # a filter's scan is a sequential one, to what is above
            shapes[setting] = [node["Node Type"].replace("Custom", "Seq") for node in found]
        assert shapes["on"] == shapes["off"], query


def test_aggregates_over_joins_are_measured_by_postgresql_s_own_path(conn: Connection) -> None:
    """Not by ours of the same joins' rows, which is offered for a little less than that."""
    # two keys, for which PostgreSQL also looks at sorted rows, of ours too
    query = "SELECT b.k, s.name, sum(b.id) FROM big b JOIN small s ON b.k = s.id GROUP BY 1, 2"

    def cost(kind: str) -> float:
        found = [node for node in plans.nodes(plans.explain(conn, query)) if kind in node.values()]
        return float(found[0]["Total Cost"])

    conn.execute("SET pgbillion_rows.vector_join = on; SET pgbillion_rows.aggregate_before_join = off")
    ours = cost("VectorAggregate")
    conn.execute("SET pgbillion_rows.enable = off")
    assert ours < 0.25 * cost("Hash Join")
