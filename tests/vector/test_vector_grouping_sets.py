"""Grouping sets: rows are grouped once by the keys of all sets, vectorized, and PostgreSQL groups these groups.

PGBILLION_TEST_GROUPING_SETS is how many queries are generated (default 600), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable

import pytest

from harness.amount import Count, amount
from harness.outcomes import AGAIN, WAYS, explained_each, leaving_nothing
from harness.outcomes import both as compared
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster
from test_vector_answers import both, in_parallel, make, vectors
from test_vector_finalize import little_memory

pytestmark = pytest.mark.majors
__all__ = ["vectors"]

QUERIES = amount("PGBILLION_TEST_GROUPING_SETS", 600, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
AGGREGATES = (
    "count(*)", "sum(x)", "avg(x)", "min(t)", "max(t)", "count(t)", "sum(n)", "avg(n)", "stddev(x)", "variance(n)",
    "bool_and(x > 0)", "count(*) FILTER (WHERE x > 3)", "sum(x) FILTER (WHERE grp IS NOT NULL)", "sum(id)",
)  # fmt: skip
KEYS = ("grp", "t", "id % 3", "x", "b", "n", "d", "lower(t)")


def fill(conn: Connection, last: int = 6000) -> None:
    conn.execute(
        "CREATE TABLE data AS SELECT i AS id, nullif(i % 11, 5) AS grp, nullif(i % 7, 2) - 3 AS x, nullif(i % 3, 0) = 1"
        " AS b, (i % 4)::numeric / CASE WHEN i % 8 < 4 THEN 1 ELSE 1.00 END AS n, date '2020-01-01' + i % 5 AS d,"
        f" CASE WHEN i % 13 <> 6 THEN 'name ' || i % 6 END AS t FROM generate_series(1, {last}) i;"
        " CREATE TABLE groups AS SELECT i AS grp, 'group ' || i % 4 AS name FROM generate_series(0, 10) i;"
        " ANALYZE data, groups".encode()
    )


def combined(conn: Connection, query: str) -> bool:
    """Whether PostgreSQL's node for grouping sets combines groups."""
    return any(
        node["Node Type"] == "Aggregate" and node["Partial Mode"] == "Finalize" and "Grouping Sets" in node
        for node in plans.nodes(plans.explain(conn, query))
    )


SETS = (
    "ROLLUP (grp)",
    "ROLLUP (grp, t)",
    "CUBE (grp, t, b)",
    "GROUPING SETS ((grp), (t), ())",
    "GROUPING SETS ((grp, t), (t, b), (b))",
    "GROUPING SETS ((), ())",
    "GROUPING SETS ((grp), (grp), ROLLUP (t, b))",
    "t, ROLLUP (grp)",
    "ROLLUP ((grp, t), b)",
    "CUBE (grp, t), ROLLUP (b)",
    "ROLLUP (id % 3, grp)",
    "ROLLUP (grp, n)",
)


@pytest.mark.quick
@pytest.mark.parametrize("sets", SETS)
def test_every_kind(vectors: Connection, sets: str) -> None:
    fill(vectors)
    query = f"SELECT count(*), sum(x), avg(n), max(t), min(d) FROM data GROUP BY {sets}"
    assert both(vectors, query, node=True if "grp" in sets else None)
    assert combined(vectors, query) == ("grp" in sets)
    # of no rows an empty set makes one all the same
    both(vectors, query.replace("GROUP BY", "WHERE id < 0 GROUP BY"), node=None)
    vectors.execute("SET enable_hashagg = off")
    both(vectors, query, node=None)


def test_two_equal_keys(vectors: Connection) -> None:
    """Only the set tells which of them is NULL."""
    fill(vectors)
    for sets in ("ROLLUP (1, 2)", "CUBE (1, 2)", "GROUPING SETS ((1), (2))"):
        query = f"SELECT grp AS a, grp AS b, count(*) FROM data GROUP BY {sets} ORDER BY 1, 2, 3"
        both(vectors, query, node=None)
        assert not combined(vectors, query)


def test_what_is_computed_of_groups(vectors: Connection) -> None:
    fill(vectors)
    for query in (
        "SELECT grp, t, grouping(grp, t), grouping(t), sum(x) FROM data GROUP BY CUBE (grp, t)",
        "SELECT grp + 1, upper(t), sum(x) + count(*) FROM data GROUP BY ROLLUP (grp, t)",
        "SELECT grp, sum(x) FROM data GROUP BY ROLLUP (grp) HAVING sum(x) > 10 OR grouping(grp) = 1",
        "SELECT sum(x) FROM data GROUP BY ROLLUP (grp, t) ORDER BY grouping(grp), grp NULLS FIRST, t LIMIT 20",
        "SELECT grp, t, rank() OVER (PARTITION BY grouping(grp) ORDER BY sum(x), grp, t) FROM data"
        " GROUP BY ROLLUP (grp, t)",
        "SELECT coalesce(grp, -1), CASE WHEN grouping(t) = 1 THEN 'all' ELSE t END, count(*) FROM data"
        " GROUP BY GROUPING SETS ((grp, t), (grp), ()) HAVING count(*) > 5",
        "SELECT id % 3 + 5, sum(x) FROM data GROUP BY ROLLUP (id % 3)",
        "SELECT (id % 3) * grp, grp, sum(x) FROM data GROUP BY CUBE (id % 3, grp)",
        "SELECT DISTINCT grp, sum(x) FROM data GROUP BY GROUPING SETS ((grp), (grp, t))",
        "SELECT grp, sum(x) FROM data GROUP BY DISTINCT ROLLUP (grp), ROLLUP (grp)",
        "SELECT grp, (SELECT name FROM groups g WHERE g.grp = data.grp), sum(x) FROM data GROUP BY ROLLUP (grp)",
        "SELECT 1 AS one, grp, sum(x) FROM data GROUP BY ROLLUP (1, 2)",
        "SELECT grp FROM data GROUP BY ROLLUP (grp)",
        "SELECT grp, t FROM data GROUP BY CUBE (grp, t) HAVING count(*) > 100",
        "SELECT * FROM (SELECT grp, t, sum(x) AS s FROM data GROUP BY ROLLUP (grp, t)) q WHERE grp IS NULL AND s > 0",
        "SELECT * FROM (SELECT grp, sum(x) AS s FROM data GROUP BY ROLLUP (grp)) q JOIN groups USING (grp)",
    ):
        both(vectors, query, node=None)
        if "(1, 2)" not in query:
            assert combined(vectors, query), query


def test_joins_and_partitions(vectors: Connection) -> None:
    fill(vectors)
    both(vectors, "SELECT name, t, sum(x), avg(n) FROM data JOIN groups USING (grp) GROUP BY ROLLUP (name, t)")
    both(vectors, "SELECT name, sum(x), grouping(name) FROM data LEFT JOIN groups USING (grp) GROUP BY CUBE (name, b)")
    vectors.execute("CREATE TABLE parts (LIKE data) PARTITION BY RANGE (id)")
    vectors.execute("CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (2000)")
    vectors.execute("CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (2000) TO (100000)")
    vectors.execute("INSERT INTO parts SELECT * FROM data; ANALYZE parts")
    query = "SELECT grp, t, sum(x), avg(n), count(*) FROM parts GROUP BY ROLLUP (grp, t)"
    both(vectors, query)
    assert combined(vectors, query)
    vectors.execute("DELETE FROM parts")
    both(vectors, query)


def test_in_parallel(vectors: Connection) -> None:
    fill(vectors, last=40_000)
    in_parallel(vectors)
    for sets in SETS[:6]:
        query = f"SELECT grp, t, b, grouping(grp), sum(x), avg(n) FROM data GROUP BY grp, t, b, {sets}"
        both(vectors, query, node=None)
        both(vectors, f"SELECT count(*), sum(x), avg(x) FROM data GROUP BY {sets}", node=None)
    nodes = list(plans.nodes(plans.explain(vectors, "SELECT grp, sum(x) FROM data GROUP BY ROLLUP (grp)")))
    assert [node for node in nodes if node["Node Type"] == "Gather"]


def test_without_memory(vectors: Connection) -> None:
    """PostgreSQL's node spills groups of groups; groups that would not fit below are left to PostgreSQL."""
    make(vectors, last=30_000)
    little_memory(vectors)
    both(vectors, "SELECT grp, t, id % 500, count(*), sum(x) FROM data GROUP BY CUBE (grp, t, id % 500)", node=None)
    both(vectors, "SELECT id, grp, count(*), sum(x) FROM data GROUP BY ROLLUP (id, grp)", node=None)


def test_more_than_once(vectors: Connection) -> None:
    fill(vectors)
    both(
        vectors,
        "SELECT g.name, s.* FROM groups g, LATERAL (SELECT t, sum(x) + g.grp AS s FROM data WHERE data.grp > g.grp"
        " GROUP BY ROLLUP (t)) s",
        node=None,
    )
    vectors.execute("SET plan_cache_mode = force_generic_plan")
    vectors.execute("PREPARE sets (integer) AS SELECT grp, sum(x) FROM data WHERE id > $1 GROUP BY ROLLUP (grp)")
    for least in (0, 3000, 100000, 0):
        both(vectors, f"EXECUTE sets ({least})", node=None)
    with vectors.transaction():
        vectors.execute("DECLARE c CURSOR FOR SELECT grp, sum(x) FROM data GROUP BY ROLLUP (grp) ORDER BY 1, 2")
        first = vectors.execute("FETCH 3 FROM c").fetchall()
        rest = vectors.execute("FETCH ALL FROM c").fetchall()
        assert len(first + rest) == len(both(vectors, "SELECT grp FROM data GROUP BY ROLLUP (grp)"))


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT grp, count(DISTINCT x) FROM data GROUP BY ROLLUP (grp)", "has no partial form"),
        ("SELECT grp, string_agg(t, ',' ORDER BY id) FROM data GROUP BY ROLLUP (grp)", "wants its rows in an order"),
        ("SELECT grp, json_agg(x) FROM data GROUP BY ROLLUP (grp)", "has no partial form"),
        ("SELECT count(*), sum(x) FROM data GROUP BY GROUPING SETS ((), ())", "grouping sets without a column"),
        ("SELECT grp, sum(random() * 0) FROM data GROUP BY ROLLUP (grp)", ""),
    ],
)
def test_what_is_left_to_postgresql(vectors: Connection, query: str, reason: str) -> None:
    fill(vectors)
    both(vectors, query, node=False)
    assert reason in str(plans.reason(vectors, query))


def test_nearly_as_many_groups_as_rows(vectors: Connection) -> None:
    """Grouping them before would be in vain."""
    fill(vectors, last=60_000)
    vectors.execute("RESET pgbillion_rows.vector_aggregate")
    query = "SELECT id, grp, sum(x) FROM data GROUP BY ROLLUP (id, grp)"
    both(vectors, query, node=False)
    assert "grouping sets of 60000 groups of 60000 rows" in str(plans.reason(vectors, query))
    both(vectors, "SELECT t, grp, sum(x) FROM data GROUP BY ROLLUP (t, grp)")


def generated(chance: random.Random) -> str:
    keys = chance.sample(KEYS, chance.randint(1, 4))
    kind = chance.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
    if kind == "GROUPING SETS":
        some = [chance.sample(keys, chance.randint(0, len(keys))) for _ in range(chance.randint(1, 4))]
        sets = ", ".join(f"({', '.join(one)})" for one in some)
        keys = [key for key in keys if any(key in one for one in some)]
    else:
        sets = ", ".join(keys)
    outputs = [*chance.sample(keys, chance.randint(0, len(keys))), *chance.sample(AGGREGATES, chance.randint(0, 4))]
    if keys and chance.random() < 0.5:
        outputs.append(f"grouping({', '.join(chance.sample(keys, chance.randint(1, len(keys))))})")
    query = f"SELECT {', '.join(outputs) or '1'} FROM data"
    if chance.random() < 0.3:
        query = query.replace("data", "data LEFT JOIN groups g USING (grp)")
        query = query.replace("SELECT ", "SELECT max(g.name), ")
    if chance.random() < 0.3:
        query += f" WHERE {chance.choice(('id < 0', 'id % 2 = 0', 'x > 0 AND t IS NOT NULL', 'grp = 3'))}"
    query += f" GROUP BY {kind} ({sets})"
    if chance.random() < 0.3:
        query += f" HAVING {chance.choice(('count(*) > 20', 'sum(x) IS NOT NULL', 'max(t) > min(t)'))}"
    return query


def test_generated(
    vectors: Connection, cluster: Cluster, database: str, tell: Callable[[str], None], counted: Count
) -> None:
    fill(vectors)
    # most queries are over few rows, so that more of them are compared in a minute
    vectors.execute("CREATE TABLE few AS TABLE data LIMIT 300; ANALYZE few; BEGIN")
    chance = random.Random(SEED)
    vectorized = explained = 0
    with leaving_nothing(cluster, database):
        for number in range(QUERIES):
            query = text = generated(chance).replace("data", "few" if number % 8 else "data")
            settings = (
                f"SET enable_hashagg = {chance.choice(('on', 'on', 'off'))};"
                f" SET max_parallel_workers_per_gather = {chance.choice((0, 0, 0, 0, 0, 0, 0, 2))};"
                f" SET work_mem = '{chance.choice(('64kB', '4MB', '4MB'))}';"
            )
            way = chance.choice(WAYS)
            if way == AGAIN and chance.random() < 0.7:
                # other rows each time
                text = re.sub("FROM (few|data)", r"FROM (SELECT * FROM \1 z WHERE z.id % 3 <> again.n) \1", query)
            off = f"{settings} SET pgbillion_rows.enable = off;"
            core = compared(vectors, text, off, settings, way, f"seed {SEED}, number {number}")
            assert not isinstance(core, str), core
            if number % explained_each(QUERIES) == 0:
                vectorized += combined(vectors, query)
                explained += 1
    vectors.execute("ROLLBACK")
    tell(f"seed {SEED}: {QUERIES} queries, {vectorized} of {explained} grouped by vectors first")
    counted({"queries": QUERIES})
    assert vectorized > explained / 3, vectorized
