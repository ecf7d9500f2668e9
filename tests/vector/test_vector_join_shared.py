"""Build sides that the processes of a parallel plan run together: whoever comes when, each has all rows once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from psycopg import errors

from harness import servers
from harness.amount import amount
from harness.join_queries import MixedGenerator, schema
from harness.servers import one
from harness.sessions import canceled_at_random, worker_terminated
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_vector_exchange import DELAYED
from test_vector_join import NODES, SEED, both, kinds, prepare, switch, tables
from test_vector_mixed_joins import FORCED, difference, run, settings

__all__ = ["tables"]

# tables of their own, so that others see no more of a cancelled query than they should
BIG = """
CREATE TABLE big AS SELECT g AS id, g % 3000 AS k, g % 7 AS few FROM generate_series(1, 40000) g;
CREATE TABLE side AS SELECT g % 2500 AS k, g AS w, 'side ' || g % 13 AS name FROM generate_series(1, 6000) g;
INSERT INTO side VALUES (NULL, 1, NULL), (7, NULL, NULL);
CREATE TABLE other AS SELECT g AS few, repeat('x', g * 300) AS label FROM generate_series(0, 5) g;
CREATE TABLE empty (k integer);
ANALYZE big, side, other, empty;
"""
# neither the rows of a side fit, nor the groups; but each partition of those does
LITTLE = "SET work_mem = '128kB'; SET hash_mem_multiplier = 1"
SLOW = DELAYED.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
# one and two build sides, of each type of join, with groups that are exchanged and others
QUERIES = (
    "SELECT s.name, count(*), sum(s.w) FROM big b JOIN side s USING (k) GROUP BY 1",
    "SELECT b.few, count(*), sum(s.w), count(o.few) FROM big b LEFT JOIN side s ON s.k = b.k AND s.w > b.id % 50"
    " JOIN (SELECT few FROM other) o ON o.few = b.few GROUP BY 1",
    "SELECT o.label, count(*) FROM big b JOIN other o USING (few) WHERE EXISTS (SELECT FROM side s WHERE s.k = b.k)"
    " GROUP BY 1",
    "SELECT count(*), min(b.id) FROM big b WHERE NOT EXISTS (SELECT FROM side s WHERE s.k = b.k)",
    "SELECT b.id, count(*), sum(s.w), max(s.w) FROM big b JOIN side s USING (k) GROUP BY 1",
)


@pytest.fixture
def shared(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """Two workers, who are welcome at any table, but not for inner sides of a plan of one process."""
    with cluster.connect(tables) as conn:
        prepare(conn)
        conn.execute(
            "SET max_parallel_workers_per_gather = 2; SET pgbillion_rows.vector_exchange = force;"
            " SET client_min_messages = warning; SET parallel_setup_cost = 1; SET parallel_tuple_cost = 1"
        )
        conn.execute(f"DROP TABLE IF EXISTS big, side, other, empty, twice, more; {BIG}".encode())
        yield conn


def together(plan: plans.Plan) -> int:
    """How many build sides processes run together."""
    return sum(
        child["Parallel Aware"] or any(node["Parallel Aware"] for node in plans.nodes(child))
        for node in plans.nodes(plan)
        if node.get("Custom Plan Provider") in NODES and node["Parallel Aware"]
        for child in node.get("Plans", ())
    )


def same(conn: Connection, query: str) -> None:
    switch(conn, "force")
    assert together(plans.explain(conn, query)) >= 1, plans.text(conn, query)
    both(conn, query, None)


def files(conn: Connection) -> int:
    return int(one(conn, "SELECT count(*) FROM pg_ls_tmpdir()"))


@pytest.mark.parametrize("leader", ["on", "off"])
@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_any_number_of_processes(shared: Connection, leader: str, workers: int) -> None:
    """Also those that are planned and do not come; with room for all rows, and without."""
    shared.execute(f"SET parallel_leader_participation = {leader}; SET max_parallel_workers = {workers}".encode())
    shared.execute("SET max_parallel_workers_per_gather = 4")
    for query in QUERIES:
        same(shared, query)
    shared.execute(LITTLE.encode())
    for query in QUERIES:
        same(shared, query)
    assert files(shared) == 0


def test_what_is_run_together(shared: Connection) -> None:
    plan = plans.explain(shared, QUERIES[1], run=True)
    assert together(plan) == 2
    assert sorted(kinds(plan)) == ["Inner", "Left"]
    # rows made unique by one process are not by all
    distinct = "SELECT count(*) FROM big b JOIN (SELECT DISTINCT k FROM side) s USING (k)"
    assert together(plans.explain(shared, distinct)) == 0
    both(shared, distinct, None)
    # nobody reads the table
    same(shared, "SELECT count(*), sum(b.id) FROM big b JOIN empty USING (k)")
    # so are the rows of joins, whose own build sides are, too
    below = (
        "SELECT b.id % 9, count(*), sum(s.w) FROM big b JOIN (side s JOIN big c ON c.id = s.w AND c.few > 1)"
        " ON s.k = b.k GROUP BY 1"
    )
    plan = plans.explain(shared, below, run=True)
    assert sorted(node["Custom Plan Provider"] for node in ours_of_workers(plan)) == [plans.NODE, "VectorJoin"]
    assert together(plan) == 2
    both(shared, below, None)


def test_rows_that_postgresql_makes_unique(shared: Connection) -> None:
    """They are a relation's, and all of one process; parts of that relation's rows would be another answer."""
    shared.execute(
        "CREATE TABLE twice AS SELECT g % 5 AS few, repeat('y', 20) AS y FROM generate_series(1, 300000) g;"
        " ANALYZE twice; SET effective_cache_size = '1MB'; SET work_mem = '64MB'; SET enable_parallel_hash = off"
    )
    query = "SELECT count(*), sum(b.id) FROM big b WHERE b.few IN (SELECT few FROM twice)"
    switch(shared, "force")
    plan = plans.explain(shared, query)
    assert kinds(plan) == ["Semi"] or together(plan) == 0, plans.text(shared, query)
    both(shared, query, None)


def test_processes_do_not_wait_for_each_other_below(shared: Connection) -> None:
    """A build side that they run together is no join whose hash table they share: that has barriers of its own."""
    shared.execute("CREATE TABLE more AS SELECT s.k, s.w AS z FROM side s, generate_series(1, 5); ANALYZE more")
    shared.execute("SET join_collapse_limit = 1; SET work_mem = '4MB'")
    query = (
        "SELECT count(*), sum(s.w), sum(m.z) FROM big b JOIN (side s FULL JOIN more m ON s.w = m.z)"
        " ON b.k = coalesce(s.k, m.k)"
    )
    switch(shared, "force")
    nodes = list(plans.nodes(plans.explain(shared, query)))
    assert not [node for node in nodes if node["Node Type"] in ("Hash", "Hash Join") and node["Parallel Aware"]]
    both(shared, query, None)


# rows of joins, for what PostgreSQL does with them
FREE = "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0"
ROWS = (
    "SELECT b.id, s.w FROM big b JOIN side s USING (k) ORDER BY 1, 2",
    "SELECT b.id, s.w, row_number() OVER (PARTITION BY b.few ORDER BY b.id, s.w) FROM big b LEFT JOIN side s"
    " ON s.k = b.k AND s.w > b.id % 50 JOIN other o ON o.few = b.few",
    "SELECT b.few, string_agg(s.name, ',' ORDER BY b.id, s.w) FROM big b JOIN side s USING (k) GROUP BY 1",
    "SELECT b.id FROM big b WHERE EXISTS (SELECT FROM side s WHERE s.k = b.k AND s.w % 3 = 0) ORDER BY 1",
    "SELECT b.id, b.few FROM big b WHERE NOT EXISTS (SELECT FROM side s WHERE s.k = b.k AND s.w > b.id % 50)"
    " ORDER BY 1",
    "SELECT b.id, s.w, e.k FROM big b JOIN side s USING (k) FULL JOIN empty e ON e.k = s.w",
)


def ours_of_workers(plan: plans.Plan) -> list[plans.Plan]:
    return [node for node in plans.nodes(plan) if "Custom Plan Provider" in node and node["Parallel Aware"]]


@pytest.mark.parametrize("leader", ["on", "off"])
@pytest.mark.parametrize("workers", [0, 1, 8])
def test_rows_for_plans_above(shared: Connection, leader: str, workers: int) -> None:
    """Each process joins its share of the table; with room for all rows, and without."""
    shared.execute(f"SET parallel_leader_participation = {leader}; SET max_parallel_workers = {workers}".encode())
    shared.execute(FREE.encode())
    for memory in ("SET work_mem = '4MB'", LITTLE):
        shared.execute(memory.encode())
        for query in ROWS:
            switch(shared, "force")
            found = ours_of_workers(plans.explain(shared, query))
            assert "VectorJoin" in [node["Custom Plan Provider"] for node in found], plans.text(shared, query)
            both(shared, query, None)
    assert files(shared) == 0


def test_some_of_the_rows_of_joins(shared: Connection) -> None:
    """LIMIT, a cursor that is closed early, and rescans."""
    shared.execute(FREE.encode())
    query = ROWS[1].replace("row_number() OVER (PARTITION BY b.few ORDER BY b.id, s.w)", "o.label")
    expected = set(shared.execute(query.encode()).fetchall())
    assert together(plans.explain(shared, f"{query} LIMIT 10")) >= 1
    for limit in (1, 100, 20_000):
        found = shared.execute(f"{query} LIMIT {limit}".encode()).fetchall()
        assert len(found) == limit
        assert set(found) <= expected
    with shared.transaction():
        shared.execute(f"DECLARE early CURSOR FOR {query}".encode())
        assert set(shared.execute("FETCH 5 FROM early").fetchall()) <= expected
    shared.execute("SET enable_material = off; SET enable_memoize = off; SET enable_nestloop = on")
    inner = f"SELECT sum(w + x) FROM ({ROWS[0]} OFFSET 0) q WHERE id > x * 9999"
    again = f"SELECT x, ({inner}) FROM generate_series(1, 3) x"
    plan = plans.explain(shared, again, run=True)
    assert [node["Actual Loops"] for node in plans.nodes(plan) if node["Node Type"].startswith("Gather")] == [3]
    assert ours_of_workers(plan) != []
    both(shared, again, None)
    assert files(shared) == 0


def test_it_is_chosen_for_large_sides(shared: Connection) -> None:
    """By what it is estimated to cost: not for a side of a few rows, and not without workers."""
    shared.execute(
        "INSERT INTO big SELECT big.* FROM big, generate_series(1, 9);"
        " INSERT INTO side SELECT side.* FROM side, generate_series(1, 20); ANALYZE big, side"
    )
    shared.execute(
        "SET pgbillion_rows.vector_join = on; SET pgbillion_rows.vector_exchange = on;"
        " SET max_parallel_workers_per_gather = 1"
    )
    for query, expected in (
        ("SELECT count(*) FROM big b WHERE EXISTS (SELECT FROM side s WHERE s.k = b.k AND s.w % 100 = 3)", 1),
        ("SELECT count(*), max(o.label) FROM big b JOIN other o USING (few)", 0),
        ("SELECT count(*) FROM big b JOIN (side s JOIN other o ON o.few = s.w) ON s.k = b.k", 1),
    ):
        assert together(plans.explain(shared, query)) == expected, plans.text(shared, query)


def test_rescans(shared: Connection) -> None:
    """Shared memory is used again, with files and barriers as new; tables that hold all rows are kept."""
    shared.execute(
        "SET enable_material = off; SET enable_memoize = off; SET enable_hashjoin = on; SET enable_mergejoin = off;"
        " SET enable_nestloop = on; CREATE TEMP TABLE three AS SELECT g AS x FROM generate_series(1, 3) g"
    )
    shared.execute("ANALYZE three")
    inner = "(SELECT s.w, count(*) AS n FROM big b JOIN side s USING (k) GROUP BY s.w OFFSET 0) g"
    for memory in ("4MB", "64kB"):
        shared.execute(f"SET work_mem = '{memory}'; SET hash_mem_multiplier = 1".encode())
        for query in (
            f"SELECT x, w, n FROM three LEFT JOIN {inner} ON w > x * 1500",
            f"SELECT x, (SELECT sum(n + x) FROM {inner} WHERE w > x) FROM three",
        ):
            switch(shared, "force")
            plan = plans.explain(shared, query, run=True)
            assert together(plan) == 1
            gather = [node for node in plans.nodes(plan) if node["Node Type"] == "Gather"][-1]
            assert gather["Actual Loops"] == 3, plans.text(shared, query)
            same(shared, query)
    assert files(shared) == 0


def test_some_of_the_rows(shared: Connection) -> None:
    """LIMIT, and a cursor that is closed early."""
    query = QUERIES[4]
    expected = set(shared.execute(query.encode()).fetchall())
    assert together(plans.explain(shared, f"{query} LIMIT 10")) == 1
    for limit in (1, 100, 20_000):
        found = shared.execute(f"{query} LIMIT {limit}".encode()).fetchall()
        assert len(found) == limit
        assert set(found) <= expected
    with shared.transaction():
        shared.execute(f"DECLARE early CURSOR FOR {query}".encode())
        assert set(shared.execute("FETCH 5 FROM early").fetchall()) <= expected
    assert files(shared) == 0


@pytest.mark.parametrize("who", ["leader", "worker"])
def test_some_process_is_late(shared: Connection, who: str) -> None:
    """It waits for nobody, and nobody for it, once all others have their rows; or all wait for its last one."""
    shared.execute(SLOW.encode())
    query = f"SELECT few, count(*), sum(w) FROM big JOIN side USING (k) WHERE slow(w, '{who}') > 10 GROUP BY 1"
    switch(shared, "force")
    assert together(plans.explain(shared, query)) == 1, plans.text(shared, query)
    expected = shared.execute(
        "SELECT few, count(*), sum(w) FROM big JOIN side USING (k) WHERE w > 10 GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert sorted(shared.execute(query.encode()).fetchall()) == expected


def test_errors(shared: Connection) -> None:
    """In any process, while rows of the build side are computed: the others do not wait for ever."""
    for query in (
        "SELECT count(*) FROM big JOIN side USING (k) WHERE 100 / (w - 5990) <> 7",
        "SELECT few, count(*) FROM big JOIN side USING (k) WHERE 100 / (w - 3) <> 7 GROUP BY 1",
    ):
        assert together(plans.explain(shared, query)) == 1, plans.text(shared, query)
        for _ in range(5):
            with pytest.raises(errors.DivisionByZero):
                shared.execute(query.encode())
            assert files(shared) == 0
    same(shared, QUERIES[0])


def test_a_worker_is_terminated(cluster: Cluster, shared: Connection, tables: str) -> None:
    shared.execute(SLOW.replace("0.002", "0.2").replace("400", "50").encode())
    query = "SELECT count(*) FROM big JOIN side USING (k) WHERE slow(w, 'worker') > 10"
    switch(shared, "force")
    assert together(plans.explain(shared, query)) == 1, plans.text(shared, query)
    with cluster.connect(tables) as other:
        # no error if it had no row left
        worker_terminated(shared, other, query)
    assert files(shared) == 0
    same(shared, QUERIES[0])


def test_cancelled_anywhere(cluster: Cluster, shared: Connection, tables: str, tell: Callable[[str], None]) -> None:
    """At random moments; nothing is left, and the next query is right."""
    shared.execute(LITTLE.encode())
    chance = random.Random(SEED)
    states: Counter[str] = Counter()
    rows = len(shared.execute(QUERIES[4].encode()).fetchall())
    with cluster.connect(tables) as other:
        for ended in canceled_at_random(
            shared, other, QUERIES[4], rows, chance, amount("PGBILLION_TEST_CANCELS", 30, 5)
        ):
            states[ended] += 1
            assert files(other) == 0
    tell(str(dict(states)))
    same(shared, QUERIES[4])


def test_generated_queries(cluster: Cluster, tell: Callable[[str], None]) -> None:
    """Generated joins, all of them with workers, of whom a leader may be none."""
    made = schema(SEED)
    generator = MixedGenerator(SEED + 1, made)
    chance = random.Random(SEED)
    queries = amount("PGBILLION_TEST_VECTOR_JOINS_SHARED", 150, 40)
    used = 0
    with servers.new_database(cluster, "shared_joins") as name, cluster.connect(name) as conn:
        conn.prepare_threshold = None
        for statement in made.statements:
            conn.execute(statement.encode())
        conn.execute(f"{FORCED}; BEGIN".encode())
        for number in range(queries):
            query = generator.query()
            leader = chance.choice(("on", "on", "off"))
            workers = ("max_parallel_workers_per_gather = 2", f"parallel_leader_participation = {leader}")
            query = replace(
                query, settings=("enable_nestloop = off", "enable_mergejoin = off", *query.settings, *workers)
            )
            differs = difference(query, run(conn, query, False), run(conn, query, True))
            assert differs is None, f"seed {SEED}, number {number}: {differs}\n{query}"
            conn.execute(f"SAVEPOINT explained; {settings(query, True)}".encode())
            used += together(plans.explain(conn, query.statements()[1])) > 0
            conn.execute("ROLLBACK TO explained")
    tell(f"seed {SEED}: {queries} queries over joins with workers, {used} with build sides run together")
    assert used >= queries * 0.1
