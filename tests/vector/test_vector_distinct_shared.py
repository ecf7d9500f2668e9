"""DISTINCT within aggregates in parallel plans: each value of a group is counted by one process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from psycopg import errors

from harness.amount import amount
from harness.servers import one
from harness.sessions import canceled_at_random, worker_terminated
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import vectors
from test_vector_differential import SEED
from test_vector_exchange import DELAYED, exchange, files, little_memory, same, shared
from test_vector_finalize import TYPES

__all__ = ["shared", "vectors"]

QUERIES = (
    "SELECT count(DISTINCT x), sum(DISTINCT x), count(x), count(*), avg(f) FROM data",
    "SELECT grp, count(DISTINCT t), max(DISTINCT t), sum(x::numeric), min(id) FROM data GROUP BY 1",
    "SELECT id % 3000, t, avg(DISTINCT x % 70), count(*) FILTER (WHERE grp > 2) FROM data GROUP BY 1, 2"
    " HAVING count(DISTINCT x % 70) > 0",
)


@pytest.mark.parametrize("leader", ["on", "off"])
@pytest.mark.parametrize("workers", [0, 1, 8])
def test_any_number_of_processes(shared: Connection, leader: str, workers: int) -> None:
    """Also those that are planned and do not come, with and without memory."""
    shared.execute(f"SET parallel_leader_participation = {leader}; SET max_parallel_workers = {workers}".encode())
    for query in QUERIES:
        same(shared, query)
    little_memory(shared)
    for query in QUERIES:
        same(shared, query)
    assert files(shared) == 0


def test_the_plan(shared: Connection) -> None:
    plan = plans.explain(shared, QUERIES[1], run=True)
    node = exchange(plan)
    assert node is not None
    types = [found["Node Type"] for found in plans.nodes(plan)]
    assert types == ["Custom Scan", "Aggregate", "Gather", "Custom Scan"]
    assert node["Exchange"] == "by group key and distinct value"
    assert node["Distinct"].replace("data.", "") == "t"
    assert node["Exchanged Groups"] >= one(shared, "SELECT count(*) FROM (SELECT DISTINCT grp, t FROM data) d")


def test_processes_have_values_in_common(shared: Connection) -> None:
    shared.execute(DELAYED.encode())
    shared.execute("SET jit = off")
    for memory, leader in (("4MB", "on"), ("4MB", "off"), ("64kB", "on"), ("64kB", "off")):
        shared.execute(f"SET work_mem = '{memory}'; SET hash_mem_multiplier = 1".encode())
        shared.execute(f"SET parallel_leader_participation = {leader}".encode())
        for keys in ("", "grp, ", "id % 2000, "):
            query = (
                f"SELECT {keys}count(DISTINCT x % 900), sum(DISTINCT x % 900), sum(x), min(t), avg(x::numeric)"
                f" FROM data WHERE slow(id, 'all') > 0 {'GROUP BY 1' if keys else ''}"
            )
            node = exchange(plans.explain(shared, query, run=True))
            assert node is not None
            assert node["Exchanged Disk"] > 0, plans.text(shared, query)
            same(shared, query)


@pytest.mark.parametrize("name", TYPES)
def test_types_of_values(shared: Connection, name: str) -> None:
    shared.execute(
        f"CREATE TABLE typed AS SELECT g AS id, CASE WHEN g % 11 = 3 THEN NULL ELSE ({TYPES[name]})::{name} END AS v"
        " FROM (SELECT g / 3 FROM generate_series(1, 9000) g) s(g)".encode()
    )
    for _ in range(2):
        same(shared, "SELECT count(DISTINCT v), count(v) FROM typed")
        same(shared, "SELECT id % 3, count(DISTINCT v), max(id) FROM typed GROUP BY 1")
        same(shared, "SELECT v, id % 500, count(DISTINCT v), max(id) FROM typed GROUP BY 1, 2")
        little_memory(shared)


def test_what_is_not_shared(shared: Connection) -> None:
    """Then it is as in a plan without workers."""
    shared.execute("CREATE TABLE more () INHERITS (data)")
    for query, expected in (
        ("SELECT count(DISTINCT x), avg(DISTINCT x) FROM ONLY data", True),
        ("SELECT grp, count(DISTINCT x), sum(x) FROM ONLY data GROUP BY 1", True),
        # more than one argument, and some of the values only
        ("SELECT count(DISTINCT x), count(DISTINCT id) FROM ONLY data", False),
        ("SELECT count(DISTINCT x) FILTER (WHERE id > 5) FROM ONLY data", False),
        # states that cannot be combined
        ("SELECT count(DISTINCT x), variance(x::numeric) FROM ONLY data", False),
    ):
        same(shared, query, exchanged=expected)
    shared.execute("SET pgbillion_rows.vector_exchange = off")
    same(shared, QUERIES[0], exchanged=False)


def test_what_is_above(shared: Connection) -> None:
    groups = "SELECT id % 900 AS k, count(DISTINCT x % 40) AS n, sum(x) AS s FROM data GROUP BY 1"
    for query in (
        f"SELECT count(*), max(n), sum(s) FROM ({groups}) g",
        f"{groups} ORDER BY 2, 1 LIMIT 10",
        f"SELECT g.*, rank() OVER (ORDER BY n, k) FROM ({groups}) g",
        f"SELECT * FROM ({groups}) a JOIN (SELECT grp AS k, count(DISTINCT t) FROM data GROUP BY 1) b USING (k)",
        f"{groups} UNION ALL SELECT grp, count(DISTINCT t), 7 FROM data GROUP BY 1",
        "SELECT count(DISTINCT x % 40) + count(*), upper(t) FROM data GROUP BY t",
    ):
        # as part of a larger plan its cost, forced to be nearly nothing, is that of others
        same(shared, query, exchanged=None)


def test_rescans(shared: Connection) -> None:
    shared.execute(
        "SET enable_material = off; SET enable_memoize = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
    )
    shared.execute("CREATE TABLE three AS SELECT g AS k FROM generate_series(1, 3) g; ANALYZE three")
    for query in (
        "SELECT k, id, n FROM three LEFT JOIN (SELECT id, count(DISTINCT x) AS n FROM data GROUP BY id OFFSET 0) g"
        " ON id > k * 5000",
        "SELECT k, (SELECT max(n + k) FROM (SELECT grp, count(DISTINCT x) AS n FROM data GROUP BY 1 OFFSET 0) g"
        " WHERE n > k) FROM three",
        "SELECT k, n FROM three, LATERAL (SELECT n + k AS n FROM (SELECT count(DISTINCT x) AS n FROM data"
        " OFFSET 0) g) s",
    ):
        plan = plans.explain(shared, query, run=True)
        assert exchange(plan) is not None
        gather = [found for found in plans.nodes(plan) if found["Node Type"] == "Gather"][-1]
        assert gather["Actual Loops"] in {1, 3}, plans.text(shared, query)
        same(shared, query)
        shared.execute("BEGIN")
        shared.execute(f"DECLARE k NO SCROLL CURSOR FOR {query}".encode())
        assert len(shared.execute("FETCH 2 FROM k").fetchall()) == 2
        shared.execute("ROLLBACK")
    assert files(shared) == 0


def test_errors(shared: Connection) -> None:
    little_memory(shared)
    for query in (
        "SELECT count(DISTINCT 1 / (x - 30000)) FROM data",
        "SELECT grp, count(DISTINCT x), sum(1 / (x - 59997)) FROM data GROUP BY grp",
        "SELECT 1 / (id - 777), count(DISTINCT x) FROM data GROUP BY 1",
        "SELECT grp, 1 / (count(DISTINCT x) - count(DISTINCT x)) FROM data GROUP BY grp",
    ):
        assert exchange(plans.explain(shared, query)) is not None
        for leader in ("on", "off"):
            shared.execute(f"SET parallel_leader_participation = {leader}".encode())
            with pytest.raises(errors.DivisionByZero):
                shared.execute(query.encode())
            assert files(shared) == 0
    same(shared, QUERIES[0])


def test_cancelled_anywhere(cluster: Cluster, shared: Connection, database: str, tell: Callable[[str], None]) -> None:
    """At random moments, which cover all phases; nothing is left, and the next query is right."""
    little_memory(shared)
    query = "SELECT id % 3000, count(DISTINCT x), sum(x::numeric) FROM data GROUP BY 1"
    chance = random.Random(SEED)
    states: Counter[str] = Counter()
    with cluster.connect(database) as other:
        for ended in canceled_at_random(shared, other, query, 3001, chance, amount("PGBILLION_TEST_CANCELS", 30, 5)):
            states[ended] += 1
            assert files(other) == 0
    tell(str(dict(states)))
    same(shared, query)


def test_generated_queries(shared: Connection, tell: Callable[[str], None]) -> None:
    """Keys, the argument and other aggregates by chance, in any number of processes and little memory or enough."""
    chance = random.Random(SEED + 3)
    keys = ("grp", "id % 7", "t", "x % 400", "id", "f", "x % 3 = 0", "NULLIF(grp, 3)", "x::numeric(9, 1)")
    arguments = ("x", "t", "id", "x % 90", "(x % 90)::smallint", "NULLIF(x % 50, 7)", "x % 5 = 2", "x::bigint * 1000")
    others = (
        *("count(*)", "sum(x)", "avg(f)", "max(t)", "min(x::numeric)", "sum(x::numeric(9, 2))", "variance(x)"),
        *("count(t) FILTER (WHERE id % 3 = 1)", "bool_and(x > 7)", "avg(id::bigint)", "max(f)"),
    )
    exchanged = 0
    for _ in range(amount("PGBILLION_TEST_DISTINCTS", 150, 30)):
        by = chance.sample(keys, chance.choice((0, 0, 1, 1, 2, 3)))
        argument = chance.choice(arguments)
        names = ["count"] if "=" in argument or argument == "t" else ["count", "sum", "avg", "min", "max"]
        calls = [f"{chance.choice(names)}(DISTINCT {argument})" for _ in range(chance.choice((1, 1, 2)))]
        calls += chance.sample(others, chance.randrange(4))
        chance.shuffle(calls)
        where = chance.choice(("", "", "WHERE id % 3 > 0", "WHERE x < 0", "WHERE t LIKE '%1%'"))
        having = chance.choice(("", "", f"HAVING count(DISTINCT {argument}) > 2"))
        group = f"GROUP BY {', '.join(by)}" if by else ""
        shared.execute(
            f"SET work_mem = '{chance.choice(('64kB', '4MB'))}'; SET hash_mem_multiplier = 1;"
            f" SET parallel_leader_participation = {chance.choice(('on', 'off'))};"
            f" SET max_parallel_workers = {chance.choice((0, 1, 2, 2, 2))}".encode()
        )
        query = f"SELECT {', '.join([*by, *calls])} FROM data {where} {group} {having}"
        exchanged += len(same(shared, query)) > 0
    tell(f"seed {SEED + 3}: {exchanged} with rows")


def test_a_worker_is_terminated(cluster: Cluster, shared: Connection, database: str) -> None:
    shared.execute(DELAYED.replace("0.002", "0.05").encode())
    query = "SELECT slow(id, 'all') % 10, count(DISTINCT x) FROM data GROUP BY 1"
    assert exchange(plans.explain(shared, query)) is not None
    with cluster.connect(database) as other:
        assert worker_terminated(shared, other, query) is not None
    assert files(shared) == 0
    same(shared, QUERIES[0])
