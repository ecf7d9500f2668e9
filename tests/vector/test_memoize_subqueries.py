"""Correlated subqueries that remember their results: what is remembered, what is left alone, and generated queries.

PGBILLION_TEST_SUBQUERIES is how many are generated (default 300), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import servers
from harness.amount import Count, amount
from harness.outcomes import agreed, both, explained_each, leaving_nothing, outcome
from harness.servers import one
from harness.subqueries import SMALL, TABLES, SubqueryGenerator, settings_by_chance, way_by_chance
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_SUBQUERIES", 300, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
NODE = "MemoizeSubPlan"


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "subqueries") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
            conn.execute(SMALL.encode())
            # as much to read for a subquery as an index look-up costs
            conn.execute("CREATE TABLE big (id integer PRIMARY KEY, k integer, v integer)")
            conn.execute("INSERT INTO big SELECT i, i % 100, i FROM generate_series(1, 20000) i; ANALYZE big")
        yield name


@pytest.fixture
def remembering(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute("LOAD 'pgbillion_rows'; SET statement_timeout = '300s'; BEGIN")
        yield conn
        conn.execute("ROLLBACK")


def switch(conn: Connection, mode: str) -> None:
    conn.execute(f"SET pgbillion_rows.memoize_subqueries = {mode}".encode())


def remembered(conn: Connection, query: str, *, run: bool = False) -> list[plans.Plan]:
    """The nodes that remember something in a query's plan."""
    plan = plans.explain(conn, query, run=run)
    return [node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == NODE]


def same(conn: Connection, query: str) -> answers.Answer | str:
    """What a query gives, which is the same with and without."""
    switch(conn, "off")
    core = outcome(conn, query)
    for mode in ("on", "force"):
        switch(conn, mode)
        agreed(core, outcome(conn, query), query)
    return core


def counts(node: plans.Plan) -> tuple[int, int, int]:
    """How many calls found something, executed the plan and kept it, and passed through."""
    return node["Cache Hits"], node["Cache Misses"], node["Passed Through"]


# what is remembered


@pytest.mark.quick
def test_a_subquery_is_executed_once_for_each_value(remembering: Connection) -> None:
    query = "SELECT sum((SELECT b.v FROM big b WHERE b.id = o.k)) FROM o"
    same(remembering, query)
    switch(remembering, "on")
    (node,) = remembered(remembering, query, run=True)
    calls, values = one(remembering, "SELECT count(*) FROM o"), one(remembering, "SELECT count(DISTINCT k) + 1 FROM o")
    assert counts(node) == (calls - values, values, 0)
    assert node["Cache Key"] == ["o.k"]
    assert node["Plans"][0]["Actual Loops"] == values
    # and PostgreSQL's plan is there again without it
    for setting in ("pgbillion_rows.memoize_subqueries", "pgbillion_rows.enable"):
        remembering.execute(f"SET LOCAL {setting} = off".encode())
        assert remembered(remembering, query) == []


@pytest.mark.parametrize(
    "expression",
    [
        "(SELECT max(b.v) FROM big b WHERE b.k = o.k)",
        "EXISTS (SELECT FROM big b WHERE b.v + o.k = 90 OFFSET 0)",
        "o.id IN (SELECT b.v FROM big b WHERE b.k = o.k)",
        "o.id NOT IN (SELECT b.v FROM big b WHERE b.k = o.k)",
        "o.id > ALL (SELECT b.v FROM big b WHERE b.k = o.k AND b.v < 200)",
        "ARRAY(SELECT b.v FROM big b WHERE b.k = o.k AND b.v < 400 ORDER BY 1)",
        "(o.k, 3) = (SELECT b.k, min(b.v) FROM big b WHERE b.k = o.k GROUP BY b.k)",
        # what it returns is the parameter itself
        "(SELECT o.k FROM big b WHERE b.v = o.k)",
    ],
)
def test_every_form(remembering: Connection, expression: str) -> None:
    query = f"SELECT o.id, {expression} FROM o"
    same(remembering, query)
    switch(remembering, "on")
    (node,) = remembered(remembering, query, run=True)
    hits, misses, passed = counts(node)
    assert hits + misses == one(remembering, "SELECT count(*) FROM o")
    assert passed == 0
    assert hits > misses


def test_values_are_told_apart_by_their_bytes(remembering: Connection) -> None:
    for query in (
        "SELECT o.n::text, (SELECT min(o.n::text || b.v) FROM big b WHERE b.k = 3) FROM o",
        "SELECT o.f::text, (SELECT min(o.f::text || b.v) FROM big b WHERE b.k = 3) FROM o",
        "SELECT (SELECT string_agg(coalesce(x::text, 'null'), ',') FROM unnest(o.a) x, big b WHERE b.id = 1) FROM o",
        "SELECT (SELECT o::text || min(b.v) FROM big b WHERE b.id < 3) FROM o",
    ):
        answer = same(remembering, query)
        assert isinstance(answer, answers.Answer), answer


def test_values_whose_hashes_are_equal(remembering: Connection) -> None:
    """Among so many, some ten pairs share the 32 bits of their hash."""
    remembering.execute("SET LOCAL work_mem = '512MB'")
    query = (
        "SELECT count(*) FROM (SELECT g, (SELECT b.v + g FROM big b WHERE b.id = 1) x"
        " FROM generate_series(1, 300000) g) t WHERE x <> g + 1"
    )
    switch(remembering, "force")
    (node,) = remembered(remembering, query, run=True)
    assert counts(node) == (0, 300000, 0)
    assert one(remembering, query) == 0


def test_a_value_that_the_plan_does_not_need(remembering: Connection) -> None:
    """The planner has removed the join that it was for: the plan does not begin anew by itself."""
    query = (
        "SELECT o.id, (SELECT count(*) FROM big b LEFT JOIN big c ON c.id = o.k WHERE b.k = 3) FROM o WHERE o.id < 40"
    )
    answer = same(remembering, query)
    assert isinstance(answer, answers.Answer)
    assert {row[1] for row in answer.rows} == {b"200"}
    switch(remembering, "on")
    assert len(remembered(remembering, query)) == 1


def test_values_that_are_stored_elsewhere(remembering: Connection) -> None:
    """TOAST: the same bytes inline, compressed and in another table are one value."""
    remembering.execute("CREATE TABLE wide (id integer, t text)")
    for storage in ("EXTERNAL", "EXTENDED", "MAIN"):
        remembering.execute(f"ALTER TABLE wide ALTER t SET STORAGE {storage}".encode())
        remembering.execute(
            "INSERT INTO wide SELECT i, repeat(md5((i % 4)::text), 800) FROM generate_series(1, 40) i;"
            " INSERT INTO wide VALUES (0, NULL), (0, '')"
        )
    query = "SELECT id, (SELECT sum(length(w.t) + b.v) FROM big b WHERE b.k = length(w.t) % 90) FROM wide w"
    same(remembering, query)
    switch(remembering, "on")
    (node,) = remembered(remembering, query, run=True)
    assert counts(node)[1] == 6


def test_a_value_of_another_query_makes_it_forget(remembering: Connection) -> None:
    """The innermost subquery depends on two queries, and is called by one of them."""
    query = (
        "SELECT o.id, (SELECT sum((SELECT count(*) FROM big b WHERE b.k = p.k AND b.v > o.id * 20)) FROM o p"
        " WHERE p.id < 30) FROM o WHERE o.id < 40"
    )
    same(remembering, query)
    switch(remembering, "force")
    assert len(remembered(remembering, query)) == 2
    # also where it is in a materialized CTE that depends on the outer row
    same(
        remembering,
        "SELECT o.id, (WITH c AS MATERIALIZED (SELECT b.k, b.v FROM big b WHERE b.v < o.id) SELECT sum((SELECT count(*)"
        " FROM c WHERE c.k = p.k)) FROM o p WHERE p.id < 20) FROM o WHERE o.id < 40",
    )
    # and recursively
    same(
        remembering,
        "SELECT o.id, (WITH RECURSIVE c(k) AS (VALUES (o.k) UNION ALL SELECT k + 1 FROM c WHERE k < 12) SELECT"
        " sum((SELECT count(*) FROM big b WHERE b.k = c.k)) FROM c) FROM o WHERE o.id < 40",
    )


def test_little_memory(remembering: Connection) -> None:
    remembering.execute("SET LOCAL work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1")
    query = "SELECT count(*), sum(x) FROM (SELECT (SELECT b.v FROM big b WHERE b.id = a.id % 3000) x FROM big a) t"
    same(remembering, query)
    query = (
        "SELECT sum((SELECT length(repeat('x', 500) || b.v) FROM big b WHERE b.id = a.k * 10 + a.id % 10)) FROM big a"
    )
    same(remembering, query)
    switch(remembering, "force")
    wide = "SELECT a.k, (SELECT repeat('x', 500) || b.v FROM big b WHERE b.id = a.v) FROM big a"
    same(remembering, wide)
    (node,) = remembered(remembering, wide, run=True)
    assert node["Cache Evictions"] > 10000
    assert node["Cache Memory Usage"] <= 64


def test_more_rows_than_are_kept(remembering: Connection) -> None:
    query = "SELECT o.id, o.id IN (SELECT -b.v FROM big b WHERE b.v > coalesce(o.k, 0)) FROM o WHERE o.id < 60"
    same(remembering, query)
    same(remembering, query.replace("-b.v", "CASE WHEN b.v < 19000 THEN -b.v ELSE b.v - 19000 END"))
    switch(remembering, "force")
    (node,) = remembered(remembering, query, run=True)
    assert counts(node)[0] == 0


def test_what_never_pays_passes_through_and_is_tried_again(remembering: Connection) -> None:
    query = "SELECT sum((SELECT b.v FROM big b WHERE b.id = a.id)) FROM big a"
    same(remembering, query)
    switch(remembering, "on")
    (node,) = remembered(remembering, query, run=True)
    hits, misses, passed = counts(node)
    assert hits == 0
    assert misses < 3000
    assert passed > 17000
    switch(remembering, "force")
    (node,) = remembered(remembering, query, run=True)
    assert counts(node) == (0, 20000, 0)
    # values that repeat only later are found all the same
    switch(remembering, "on")
    late = "SELECT v FROM big UNION ALL SELECT 7 FROM big UNION ALL SELECT 7 FROM big"
    query = f"SELECT sum((SELECT b.v FROM big b WHERE b.id = a.v)) FROM ({late} OFFSET 0) a"
    same(remembering, query)
    switch(remembering, "on")
    (node,) = remembered(remembering, query, run=True)
    hits, misses, passed = counts(node)
    assert hits > 5000
    assert misses < 3000
    assert hits + misses + passed == 60000


def test_errors_are_the_same(remembering: Connection) -> None:
    assert same(remembering, "SELECT (SELECT sum(b.v / (o.k - 5)) FROM big b WHERE b.k = o.k) FROM o") == (
        "22012 division by zero"
    )
    assert same(remembering, "SELECT (SELECT b.v FROM big b WHERE b.k = o.k) FROM o") == (
        "21000 more than one row returned by a subquery used as an expression"
    )


def test_parallel_workers_remember_each_for_themselves(remembering: Connection) -> None:
    remembering.execute(
        "SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;"
        " SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL max_parallel_workers_per_gather = 2;"
        " SET LOCAL pgbillion_rows.vector_aggregate = off"
    )
    query = "SELECT count(*), sum((SELECT count(*) FROM big b WHERE b.k = a.k)) FROM big a WHERE a.v < 900"
    same(remembering, query)
    switch(remembering, "on")
    plan = plans.explain(remembering, query, run=True)
    assert plans.processes(plan) > 1
    assert len(remembered(remembering, query)) == 1


def test_cursors_and_prepared_statements(remembering: Connection) -> None:
    query = "SELECT o.id, (SELECT max(b.v) FROM big b WHERE b.k = o.k) m FROM o"
    switch(remembering, "off")
    expected = remembering.execute(query.encode()).fetchall()
    switch(remembering, "on")
    remembering.execute(f"DECLARE c SCROLL CURSOR FOR {query}".encode())
    some = remembering.execute("FETCH 20 FROM c").fetchall()
    assert remembering.execute("FETCH BACKWARD 19 FROM c").fetchall() == some[:19][::-1]
    remembering.execute("CLOSE c")
    remembering.execute("SET LOCAL plan_cache_mode = force_generic_plan")
    remembering.execute(f"PREPARE p(integer) AS {query} WHERE o.id > $1 OR $1 IS NULL".encode())
    for _ in range(3):
        assert remembering.execute("EXECUTE p(NULL)").fetchall() == expected
        remembering.execute("EXECUTE p(20)")
    # each execution sees what there is then
    remembering.execute("UPDATE big SET v = v + 1")
    assert remembering.execute("EXECUTE p(NULL)").fetchall() == [(i, m and m + 1) for i, m in expected]


def test_row_security_and_barriers(remembering: Connection) -> None:
    remembering.execute(
        "CREATE ROLE sees_half; CREATE TABLE own AS SELECT *, CASE k % 2 WHEN 0 THEN 'sees_half' END AS owner FROM big;"
        " ALTER TABLE own ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON own USING (owner = current_user);"
        " GRANT SELECT ON own, o TO sees_half; CREATE VIEW fenced WITH (security_barrier) AS SELECT * FROM own"
        " WHERE k < 9;"
        " GRANT SELECT ON fenced TO sees_half; SET LOCAL ROLE sees_half"
    )
    for table in ("own", "fenced"):
        answer = same(remembering, f"SELECT o.id, (SELECT count(*) FROM {table} b WHERE b.k = o.k) FROM o")
        assert isinstance(answer, answers.Answer)
        assert len({row[1] for row in answer.rows}) == 2


# what changes rows


def test_changes(remembering: Connection) -> None:
    """A statement does not see what it changes."""
    remembering.execute("CREATE TABLE mine AS SELECT id, k, v FROM big WHERE id < 2000; ANALYZE mine")
    switch(remembering, "on")
    changes = (
        "UPDATE mine SET v = (SELECT sum(m.v) FROM mine m WHERE m.k = mine.k) WHERE k < 40 RETURNING id, v",
        "DELETE FROM mine WHERE v > (SELECT avg(m.v) FROM mine m WHERE m.k = mine.k) RETURNING id",
        "INSERT INTO mine SELECT o.id, o.k, (SELECT max(m.v) FROM mine m WHERE m.k = o.k) FROM o RETURNING v",
    )
    for change in changes:
        assert remembered(remembering, change) != []
        same(remembering, f"WITH c AS ({change}) SELECT count(*), sum(hashtext(c::text)) FROM c")


def test_rows_changed_by_others(cluster: Cluster, tables: str) -> None:
    """After waiting for a row, its subquery is executed for its new values."""
    with cluster.connect(tables) as first, cluster.connect(tables) as second:
        second.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.memoize_subqueries = force; SET lock_timeout = '60s'")
        first.execute("CREATE TABLE shared (id integer, k integer, v bigint)")
        first.execute("INSERT INTO shared SELECT i, i % 3, 0 FROM generate_series(1, 30) i")
        pid = one(second, "SELECT pg_backend_pid()")
        first.execute("BEGIN; UPDATE shared SET k = 50 WHERE id IN (7, 8)")
        with ThreadPoolExecutor(1) as threads:
            update = b"UPDATE shared SET v = (SELECT sum(b.v) FROM big b WHERE b.k = shared.k)"
            done = threads.submit(second.execute, update)
            servers.until(
                lambda: one(first, "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", pid),
                "the second session waits",
            )
            first.execute("COMMIT")
            assert done.result().rowcount == 30
        wrong = "SELECT count(*) FROM shared s WHERE v <> (SELECT sum(b.v) FROM big b WHERE b.k = s.k)"
        assert one(first, wrong) == 0
        first.execute("DROP TABLE shared")


# what is left alone


@pytest.mark.parametrize(
    "subquery",
    [
        "(SELECT max(b.v + random()) FROM big b WHERE b.k = o.k)",
        "(SELECT max(b.v) FROM big b WHERE b.k = o.k AND random() < 2)",
        "(SELECT max(b.v) FROM big b WHERE b.k = o.k AND b.v < (SELECT max(c.v + random()) FROM big c))",
        "(SELECT max(b.v) FROM big b WHERE b.k = o.k AND EXISTS (SELECT FROM i WHERE i.v < b.v + random() OFFSET 0))",
        "(SELECT max(b.v) FROM (SELECT k, v FROM big UNION ALL SELECT 1, volatile(k) FROM i) b WHERE b.k = o.k)",
        "(SELECT b.v FROM big b WHERE b.id = o.k FOR UPDATE)",
        "(SELECT max(b.v) FROM big b TABLESAMPLE bernoulli (50) WHERE b.k = o.k)",
        "(SELECT sampled(b.v) FROM big b WHERE b.k = o.k)",
        "(SELECT max(b.v) FROM big b, generate_series(1, volatile(3)) WHERE b.k = o.k)",
        "(SELECT max(pg_column_size(o.s) + b.v) FROM big b WHERE b.k = o.k)",
        "(SELECT nextval('numbers') + max(b.v) FROM big b WHERE b.k = o.k)",
    ],
)
def test_what_need_not_be_the_same_each_time(remembering: Connection, subquery: str) -> None:
    remembering.execute(
        "CREATE SEQUENCE numbers;"
        " CREATE FUNCTION volatile(x integer) RETURNS integer VOLATILE LANGUAGE plpgsql AS 'BEGIN RETURN x; END';"
        " CREATE FUNCTION step(integer, integer) RETURNS integer VOLATILE LANGUAGE plpgsql AS 'BEGIN RETURN $2; END';"
        " CREATE AGGREGATE sampled(integer) (SFUNC = step, STYPE = integer)"
    )
    switch(remembering, "force")
    found = remembered(remembering, f"SELECT {subquery} FROM o")
    # a subquery within it may be remembered
    assert [node for node in found if node["Cache Key"] == ["o.k"]] == []


def test_what_costs_next_to_nothing(remembering: Connection) -> None:
    switch(remembering, "on")
    assert remembered(remembering, "SELECT (SELECT max(x) FROM (VALUES (o.k), (o.id)) v(x)) FROM o") == []
    # not correlated: executed once, or hashed
    assert remembered(remembering, "SELECT (SELECT max(v) FROM big), o.k IN (SELECT k FROM big) FROM o") == []


# generated


def test_generated_queries(
    remembering: Connection, cluster: Cluster, tables: str, tell: Callable[[str], None], counted: Count
) -> None:
    generator = SubqueryGenerator(SEED)
    chance = generator.chance
    used = explained = errors = 0
    with leaving_nothing(cluster, tables):
        for number in range(QUERIES):
            query, settings = generator.query(), settings_by_chance(chance)
            settings += f" SET pgbillion_rows.vector_scan = {chance.choice(('on', 'on', 'force'))};"
            mode = "SET pgbillion_rows.memoize_subqueries = "
            forced = f"{settings} {mode}{chance.choice(('on', 'force', 'force'))};"
            way, text = way_by_chance(chance, query)
            core = both(remembering, text, f"{settings} {mode}off;", forced, way, f"seed {SEED}, number {number}")
            errors += isinstance(core, str)
            if number % explained_each(QUERIES) == 0:
                remembering.execute(f"SAVEPOINT explained; {settings} {mode}force".encode())
                used += remembered(remembering, query) != []
                remembering.execute("ROLLBACK TO explained")
                explained += 1
    tell(f"seed {SEED}: {QUERIES} queries, {used} of {explained} remember something, {errors} end with an error")
    counted({"queries with subqueries": QUERIES})
    assert used > explained * 0.5
    assert errors < QUERIES * 0.4
