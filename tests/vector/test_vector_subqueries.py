"""Conditions with subqueries in vectorized scans and joins: where they are evaluated, and generated queries.

PGBILLION_TEST_SUBQUERIES is how many are generated (default 300), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator

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
NODES = (plans.NODE, plans.JOIN)
SWITCHES = ("vector_join", "vector_aggregate", "vector_scan")


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "vector_subqueries") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
            conn.execute(
                "CREATE TABLE big (id integer, k integer, n numeric, s text);"
                " INSERT INTO big SELECT i, nullif(i % 40, 7), (i % 9)::numeric(6, 2), 's' || i % 50"
                " FROM generate_series(1, 20000) i;"
                " CREATE TABLE p AS SELECT * FROM o; UPDATE p SET id = id + 400, n = n + 1 WHERE k > 3;"
                " CREATE TABLE goods (id integer PRIMARY KEY, name text);"
                " INSERT INTO goods SELECT i, 'n' || i % 10 FROM generate_series(1, 30) i;"
                " CREATE TABLE parts (id integer, k integer, n numeric, s text) PARTITION BY RANGE (id);"
                " CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (7000);"
                " CREATE TABLE parts_2 PARTITION OF parts DEFAULT;"
                " INSERT INTO parts SELECT * FROM big"
            )
            conn.execute("VACUUM ANALYZE big, goods, parts, o, i, p")
            conn.execute(SMALL.encode())
            conn.execute("CREATE TABLE small.p AS SELECT * FROM small.o")
            conn.execute("UPDATE small.p SET id = id + 80, n = n + 1 WHERE k > 3")
            conn.execute("VACUUM ANALYZE small.o, small.i, small.p")
            for table in ("o", "small.o"):
                conn.execute(f"CREATE INDEX ON {table} USING columns (id, k, n, s, f)".encode())
            conn.execute("CREATE INDEX ON parts_1 USING columns (id, k, n, s)")
        yield name


@pytest.fixture
def vectors(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session with vectors forced, in a transaction that leaves nothing."""
    with cluster.connect(tables) as conn:
        conn.prepare_threshold = None
        conn.execute(
            "LOAD 'pgbillion_rows'; SET statement_timeout = '300s'; SET min_parallel_table_scan_size = 0;"
            " SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 0; BEGIN"
        )
        switch(conn, "force")
        yield conn
        conn.execute("ROLLBACK")


def switched(mode: str) -> str:
    return " ".join(f"SET pgbillion_rows.{name} = {mode};" for name in SWITCHES)


def switch(conn: Connection, mode: str) -> None:
    conn.execute(switched(mode).encode())


def with_subqueries(conn: Connection, query: str, *, run: bool = False) -> list[plans.Plan]:
    """The nodes of vectors that evaluate subqueries."""
    return [
        node
        for node in plans.nodes(plans.explain(conn, query, run=run))
        if node.get("Custom Plan Provider") in NODES
        and any(below.get("Subplan Name", "").startswith("SubPlan") for below in node.get("Plans", []))
    ]


def same(conn: Connection, query: str) -> answers.Answer | str:
    """What a query gives, which is the same with and without."""
    switch(conn, "off")
    core = outcome(conn, query)
    switch(conn, "force")
    return agreed(core, outcome(conn, query), query)


FILTERS = [
    # hashed, with NULLs and without
    "b.k NOT IN (SELECT k FROM i WHERE k IS NOT NULL)",
    "b.k NOT IN (SELECT k FROM i)",
    "b.s IN (SELECT s FROM i WHERE v > 3) IS NOT FALSE",
    "(b.k, b.n) NOT IN (SELECT k, n FROM i)",
    # for each row, of values that have no room in a Datum
    "b.n < (SELECT avg(i.n) FROM i WHERE i.k = b.k)",
    "b.s > (SELECT min(i.s) FROM i WHERE i.k = b.k)",
    "b.n >= ALL (SELECT i.n FROM i WHERE i.k = b.k)",
    "b.n * 2 > 0.5 * (SELECT sum(i.n) FROM i WHERE i.k = b.k) - 400",
    "(SELECT count(*) FROM i WHERE i.k = b.k AND i.s = b.s) > 0",
    # for which PostgreSQL has two plans
    "(EXISTS (SELECT FROM i WHERE i.k = b.k AND i.v > 14) OR b.n > 7)",
    "(EXISTS (SELECT FROM i WHERE i.k = b.k AND i.v > 15) OR NOT EXISTS (SELECT FROM i WHERE i.s = b.s))",
    # within one another
    "b.n < (SELECT avg(i.n) FROM i WHERE i.k = b.k AND i.v > (SELECT min(x.v) FROM i x WHERE x.k = b.k))",
]


@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("table", ["big", "parts"])
def test_as_a_filter(vectors: Connection, condition: str, table: str) -> None:
    query = f"SELECT b.k, count(*), sum(b.n) FROM {table} b WHERE b.id % 7 < 5 AND {condition} GROUP BY 1"
    answer = same(vectors, query)
    assert isinstance(answer, answers.Answer), answer
    # one value is not known to be none of several, of which one is NULL
    assert (answer.rows == []) == (condition == "b.k NOT IN (SELECT k FROM i)")
    # EXPLAIN shows a subquery once
    assert len(with_subqueries(vectors, query)) == 1
    vectors.execute("SET LOCAL max_parallel_workers_per_gather = 2")
    same(vectors, query)
    if "NOT IN" in condition:
        assert plans.processes(plans.explain(vectors, query, run=True)) > 1


@pytest.mark.parametrize("condition", FILTERS)
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
def test_of_a_join(vectors: Connection, condition: str, kind: str) -> None:
    same(
        vectors, f"SELECT b.k, count(g.id), sum(b.n) FROM big b {kind} goods g ON b.k = g.id AND {condition} GROUP BY 1"
    )
    rows = f"SELECT b.id, g.name FROM big b {kind} goods g ON b.k = g.id AND {condition}"
    same(vectors, f"{rows} ORDER BY 1, 2 LIMIT 300")
    # of both sides
    query = (
        f"SELECT count(*), sum(g.id) FROM big b {kind} goods g ON b.k = g.id"
        " AND (SELECT count(*) FROM i WHERE i.k = g.id AND i.n <= b.n) > 5"
    )
    same(vectors, query)
    assert len(with_subqueries(vectors, query)) == 1
    # and above it
    same(vectors, f"SELECT count(*) FROM big b {kind} goods g ON b.k = g.id WHERE {condition}")


@pytest.mark.parametrize("kind", ["", "NOT "])
def test_of_a_semijoin_or_antijoin(vectors: Connection, kind: str) -> None:
    query = (
        f"SELECT count(*), sum(b.id) FROM big b WHERE {kind}EXISTS (SELECT FROM goods g WHERE g.id = b.k"
        " AND b.n > (SELECT avg(i.n) FROM i WHERE i.k = g.id))"
    )
    same(vectors, query)
    assert len(with_subqueries(vectors, query)) == 1
    # several matches of a row, of which the first do not satisfy it
    same(vectors, query.replace("goods g", "(SELECT id, name FROM goods UNION ALL SELECT id, 'x' FROM goods) g"))


def test_the_result_is_no_key(vectors: Connection) -> None:
    """It is gone with the next row: PostgreSQL would hash it."""
    query = "SELECT count(*) FROM big b JOIN goods g ON b.k = g.id AND b.n = (SELECT max(i.n) FROM i WHERE i.k = g.id)"
    assert same(vectors, query) != same(vectors, query.replace("max", "min"))
    (node,) = with_subqueries(vectors, query)
    assert node["Inner Join 1"] == "(b.k = g.id)"
    assert "SubPlan" in node["Join Filter 1"]


@pytest.mark.quick
def test_rows_that_match_nothing_are_not_tested(vectors: Connection) -> None:
    """Keys that go down leave some of them."""
    vectors.execute("CREATE TABLE few AS SELECT i * 7919 AS k FROM generate_series(1, 400) i; ANALYZE few")
    vectors.execute("ALTER TABLE few ADD PRIMARY KEY (k)")
    vectors.execute("CREATE TABLE many AS SELECT i * 311 AS k, i % 50 AS x FROM generate_series(1, 60000) i")
    vectors.execute("ANALYZE many")
    query = (
        "SELECT count(*) FROM many m JOIN few f ON f.k = m.k"
        " WHERE m.x >= (SELECT count(*) FROM goods WHERE goods.id > m.x AND goods.id < 5)"
    )
    same(vectors, query)
    (node,) = with_subqueries(vectors, query, run=True)
    matched = one(vectors, "SELECT count(*) FROM many JOIN few USING (k)")
    assert "SubPlan" in node["Filter 1"]
    (subplan,) = [below for below in node["Plans"] if "Subplan Name" in below]
    assert subplan["Actual Loops"] == matched > 0


@pytest.mark.parametrize(
    "on",
    [
        "g.id = 40 / (b.k - 5)",
        "g.id = b.k AND 40 / (b.k - 5) > g.id - 30",
        "g.id = b.k AND g.name < (1 / (b.k - 5))::text",
    ],
)
def test_rows_that_are_to_be_removed_raise_no_errors(vectors: Connection, on: str) -> None:
    """What joins compute of a row comes after the filter, as in PostgreSQL, where it can fail."""
    query = f"SELECT count(*), sum(g.id) FROM big b JOIN goods g ON {on}"
    assert same(vectors, query) == "22012 division by zero"
    without = f"{query} WHERE b.k NOT IN (SELECT k FROM i WHERE k = 5)"
    assert isinstance(same(vectors, without), answers.Answer)
    (node,) = with_subqueries(vectors, without)
    assert "SubPlan" in node["Filter"]


def test_explain_names_arguments(vectors: Connection) -> None:
    """Of columns of the inner side, too."""
    vectors.execute("SET LOCAL pgbillion_rows.memoize_subqueries = force")
    said = plans.text(
        vectors,
        "SELECT count(*) FROM big b JOIN goods g ON b.k = g.id AND b.n < (SELECT avg(i.n) FROM i WHERE i.k = g.id"
        " AND i.s <> b.s)",
    )
    assert "Cache Key: g.id, b.s" in said or "Cache Key: b.s, g.id" in said, said
    assert re.search(r"Join Filter 1: \(b\.n < \(SubPlan \w+\)\)", said), said


def test_explain_names_arguments_that_an_index_has(vectors: Connection) -> None:
    """Of which the scan reads columns that the table does not have."""
    vectors.execute("CREATE TABLE upper AS SELECT * FROM big; CREATE INDEX ON upper USING columns (id, k, (upper(s)))")
    vectors.execute("ANALYZE upper; SET LOCAL pgbillion_rows.columns = force")
    query = (
        "SELECT count(*) FROM (SELECT id, k, upper(s) u FROM upper UNION ALL SELECT id, k, upper(s) FROM parts_1) b"
        " WHERE b.id % 7 > (SELECT count(*) FROM i WHERE upper(i.s) = b.u)"
    )
    for what in (query, query.replace(" WHERE b", " JOIN goods g ON g.id = b.k AND b")):
        same(vectors, what)
        assert "= (upper(upper.s))" in plans.text(vectors, what)


def test_run_again(vectors: Connection) -> None:
    """With other values each time, of which hashed subqueries know, too."""
    for condition in (
        "b.k NOT IN (SELECT k FROM i WHERE k > x)",
        "b.n < (SELECT avg(i.n) FROM i WHERE i.k = b.k AND i.v > x)",
        "b.k NOT IN (SELECT k FROM i WHERE k > x) AND b.n < (SELECT avg(i.n) FROM i WHERE i.k = b.k AND i.v > x)",
    ):
        inner = f"SELECT count(*) c, sum(b.id) s FROM big b JOIN goods g ON b.k = g.id WHERE {condition}"
        query = f"SELECT x, c, s FROM generate_series(0, 9) x, LATERAL ({inner} OFFSET 0) l"
        answer = same(vectors, query)
        assert isinstance(answer, answers.Answer)
        assert len(set(answer.rows)) == 10
        assert len({row[1] for row in answer.rows}) > 2
        assert with_subqueries(vectors, query) != []
        # of several tables
        same(vectors, query.replace("big b", "parts b"))


def test_within_or_of_several_tables(vectors: Connection) -> None:
    """PostgreSQL makes a condition of one table of it, with the same subquery, and two hash tables for that.

    Of parameters that change only one of them knows, in PostgreSQL, too.
    """
    query = (
        "SELECT count(*) FROM big b JOIN goods g ON b.k = g.id"
        " WHERE (b.k NOT IN (SELECT k FROM i WHERE k > 8) AND g.id IN (9, 10)) OR (b.n > 3 AND g.id = 2)"
    )
    same(vectors, query)
    assert len(with_subqueries(vectors, query)) == 1
    again = f"SELECT x, l.* FROM generate_series(0, 9) x, LATERAL ({query.replace('k > 8', 'k > x')} OFFSET 0) l"
    same(vectors, again)
    assert with_subqueries(vectors, again) == []
    said = one(vectors, "SELECT pgbillion_rows.explain_vector(%s)", again)
    assert "not vectorized: a hashed subquery within OR that may run again with other parameters" in said


def test_one_hash_table_for_all_partitions(vectors: Connection) -> None:
    """Each of several tables that are joined on their own would have another."""
    vectors.execute("CREATE TABLE split (id integer, k integer) PARTITION BY RANGE (id)")
    for start in range(0, 36000, 3000):
        vectors.execute(f"CREATE TABLE split_{start} PARTITION OF split FOR VALUES FROM ({start}) TO ({start + 3000})")
    vectors.execute("INSERT INTO split SELECT i, i % 40 FROM generate_series(0, 35999) i")
    vectors.execute("CREATE TABLE large AS SELECT i * 3 AS id FROM generate_series(1, 40000) i")
    vectors.execute("ANALYZE split, large")
    query = (
        "SELECT g.name, count(*) FROM split s JOIN goods g ON s.k = g.id"
        " AND (s.id NOT IN (SELECT id FROM large) OR g.id > 28) GROUP BY 1"
    )
    same(vectors, query)
    switch(vectors, "on")
    found = plans.nodes(plans.explain(vectors, query, run=True))
    assert sum(node["Actual Loops"] for node in found if node.get("Subplan Name", "").startswith("SubPlan")) == 1


@pytest.mark.parametrize("columns", ["count(*), sum(b.n)", "b.n, b.s"])
@pytest.mark.parametrize("join", ["", " JOIN goods g ON g.id = b.k"])
def test_the_plan_of_two_that_postgresql_takes(vectors: Connection, columns: str, join: str) -> None:
    """By how often the subquery is executed, and not by the number of groups that a scan returns."""
    exists = "EXISTS (SELECT FROM i WHERE i.k = b.k AND i.n = b.n)"
    for condition, hashed in (("b.id > 0", True), ("b.id = 77", False)):
        query = f"SELECT {columns} FROM big b{join} WHERE {condition} AND ({exists} OR b.s = 's1')"
        for mode in ("off", "force"):
            switch(vectors, mode)
            assert ("hashed SubPlan" in plans.text(vectors, query)) == hashed, (mode, query)
        if hashed and columns.startswith("count"):
            assert len(with_subqueries(vectors, query)) == 1
        same(vectors, query)
    # in a statement that has both
    several = f"SELECT count(*) FROM big b{join} WHERE b.id {{}} AND ({exists} OR b.s = 's1')"
    both = f"{several.format('> 0')} UNION ALL {several.format('= 77')}"
    same(vectors, both)
    assert with_subqueries(vectors, both) != []


def test_errors_are_the_same(vectors: Connection) -> None:
    assert same(vectors, "SELECT count(*) FROM big b WHERE b.n > (SELECT i.n FROM i WHERE i.k = b.k)") == (
        "21000 more than one row returned by a subquery used as an expression"
    )
    for condition in ("b.n > (SELECT 1 / (b.k - 5)) AND b.k <> 5", "b.k <> 5 AND b.n > (SELECT 1 / (b.k - 5))"):
        same(vectors, f"SELECT count(*) FROM big b JOIN goods g ON b.k = g.id WHERE {condition}")


def test_privileges_and_row_security(vectors: Connection) -> None:
    vectors.execute(
        "CREATE ROLE sees_little; CREATE TABLE own AS SELECT * FROM i; ALTER TABLE own ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY p ON own USING (k = 2); GRANT SELECT ON own, big, goods TO sees_little;"
        " SET LOCAL ROLE sees_little"
    )
    query = "SELECT count(*) FROM big b JOIN goods g ON b.k = g.id WHERE b.k IN (SELECT k FROM {} OFFSET 0) IS TRUE"
    assert same(vectors, query.format("own")) == same(vectors, "SELECT count(*) FROM big WHERE k = 2")
    assert same(vectors, query.format("i")) == "42501 permission denied for table i"


def test_little_memory(vectors: Connection) -> None:
    vectors.execute("SET LOCAL work_mem = '64kB'; SET LOCAL hash_mem_multiplier = 1")
    query = (
        "SELECT b.s, count(*) FROM big b JOIN (SELECT k, repeat('x', 100) || id w FROM big WHERE id < 4000) c"
        " ON b.k = c.k AND length(c.w) > (SELECT count(*) FROM i WHERE i.k = b.k AND i.n <= b.n) WHERE b.id < 200"
        " AND b.n NOT IN (SELECT n FROM i WHERE n > 4) GROUP BY 1"
    )
    same(vectors, query)
    assert with_subqueries(vectors, query) != []


def terms(condition: str) -> list[str]:
    """The terms of a condition, in their order, and without the numbers of subplans."""
    depth, found, term = 0, [], ""
    for character in re.sub(r"SubPlan \d+", "SubPlan", condition.removeprefix("(").removesuffix(")")):
        depth += (character == "(") - (character == ")")
        term += character
        if depth == 0 and character == ")":
            found.append(term.removeprefix(" AND "))
            term = ""
    return found


def evaluated(conn: Connection, query: str, settings: str) -> dict[str, list[str]]:
    """The conditions of PostgreSQL's own scans, in the order of their terms."""
    conn.execute(f"SAVEPOINT evaluated; {settings}".encode())
    found = [node for node in plans.nodes(plans.explain(conn, query)) if node["Node Type"] == "Seq Scan"]
    conn.execute("ROLLBACK TO evaluated")
    return {str(node["Alias"]): terms(str(node.get("Filter", ""))) for node in found}


def turned_round(conn: Connection, query: str, off: str, on: str) -> bool:
    """Does PostgreSQL evaluate a scan's subqueries in another order, as one costs less than before?"""
    core, ours = evaluated(conn, query, off), evaluated(conn, query, on)
    return any(
        alias in ours and ours[alias] != core[alias] and sorted(ours[alias]) == sorted(core[alias]) for alias in core
    )


def generated(generator: SubqueryGenerator) -> str:
    chance = generator.chance
    distinct = "(SELECT DISTINCT k FROM i) p"
    columns = "id, k, n, s, a, f"
    several = f"(SELECT {columns} FROM o UNION ALL SELECT {columns} FROM p) o"
    condition, other = generator.truth("o"), generator.truth("o")
    kind = chance.choice(("JOIN", "LEFT JOIN"))
    return chance.choice(
        (
            f"SELECT o.k, count(*), sum(o.n), max(o.s) FROM o WHERE {condition} GROUP BY 1",
            f"SELECT count(*), count(DISTINCT o.s) FROM o WHERE o.id % 3 = 1 AND {condition} AND o.k < 12",
            f"SELECT o.id, p.v FROM o {kind} i p ON o.k = p.k AND {condition}",
            f"SELECT o.k, count(p.v), sum(p.v) FROM o {kind} i p ON o.k = p.k AND p.v > 2 WHERE {condition} GROUP BY 1",
            f"SELECT o.s, count(*) FROM o JOIN {distinct} ON o.k = p.k WHERE {condition} GROUP BY 1",
            f"SELECT count(*) FROM i p JOIN o ON o.k = p.k AND o.n < p.v AND {condition}",
            f"SELECT count(*), sum(p.v) FROM i p WHERE EXISTS (SELECT FROM o WHERE o.k = p.k AND {condition})",
            f"SELECT count(*), sum(p.v) FROM i p WHERE NOT EXISTS (SELECT FROM o WHERE o.k = p.k AND {condition})",
            f"SELECT x, c FROM generate_series(1, 4) x, LATERAL (SELECT count(*) c FROM o WHERE o.id % 4 < x"
            f" AND {condition} OFFSET 0) l",
            f"SELECT o.k, count(*), sum(p.v) FROM o {kind} i p ON o.k = p.k WHERE {condition} AND ({other}) IS NOT"
            " FALSE GROUP BY 1",
            f"SELECT count(*), sum(p.v) FROM o JOIN i p ON o.k = p.k WHERE ({condition} AND p.v > 9)"
            f" OR ({other} AND p.v < 2)",
            f"SELECT o.k, count(DISTINCT p.v), sum(DISTINCT o.id) FROM o {kind} i p ON o.k = p.k AND {condition}"
            " GROUP BY 1 HAVING count(DISTINCT o.s) > 1",
            f"SELECT count(DISTINCT o.s), count(*) FROM o {kind} {distinct} ON o.k = p.k WHERE {condition}",
            f"SELECT o.k, count(*), max(o.s) FROM {several} WHERE {condition} GROUP BY 1",
            f"SELECT o.k, count(p.k), max(o.s) FROM {several} {kind} {distinct} ON o.k = p.k AND {condition}"
            f" WHERE {other} GROUP BY 1",
            f"SELECT x, l.* FROM generate_series(1, 4) x, LATERAL (SELECT p.k, count(*), count(DISTINCT o.s) FROM o"
            f" {kind} {distinct} ON o.k = p.k WHERE o.k NOT IN (SELECT k FROM i WHERE v > x * 3) AND {condition}"
            " GROUP BY 1 ORDER BY 1, 2 LIMIT 3) l",
            f"SELECT x, l.* FROM generate_series(1, 4) x, LATERAL (SELECT count(*) FROM {several} {kind} {distinct}"
            f" ON o.k = p.k AND o.n NOT IN (SELECT n FROM i WHERE v > x * 4) WHERE {condition} OFFSET 0) l",
        )
    )


def test_generated_queries(
    vectors: Connection, cluster: Cluster, tables: str, tell: Callable[[str], None], counted: Count
) -> None:
    generator = SubqueryGenerator(SEED)
    chance = generator.chance
    used = explained = errors = others = 0
    with leaving_nothing(cluster, tables):
        for number in range(QUERIES):
            query = generated(generator)
            settings = f"{settings_by_chance(chance)} SET pgbillion_rows.columns = {chance.choice(('on', 'off'))};"
            off, forced = (f"{settings} {switched(mode)}" for mode in ("off", chance.choice(("on", "force", "force"))))
            way, text = way_by_chance(chance, query)
            try:
                core = both(vectors, text, off, forced, way, f"seed {SEED}, number {number}")
            except AssertionError:
                # one that raises an error may come before one that is false
                answers_of_both = outcome(vectors, query, off), outcome(vectors, query, forced)
                if not any(isinstance(one, str) for one in answers_of_both) or not turned_round(
                    vectors, query, off, forced
                ):
                    raise
                others += 1
                continue
            errors += isinstance(core, str)
            if number % explained_each(QUERIES) == 0:
                vectors.execute(f"SAVEPOINT explained; {settings} {switched('force')}".encode())
                used += with_subqueries(vectors, query) != []
                vectors.execute("ROLLBACK TO explained")
                explained += 1
    tell(
        f"seed {SEED}: {QUERIES} queries, {used} of {explained} with vectors around subqueries,"
        f" {errors} end with an error, {others} do with one of the plans, which evaluates them in another order"
    )
    counted({"conditions with subqueries": QUERIES})
    assert others <= 1 + QUERIES // 1000
    assert used > explained * 0.3
    assert errors < QUERIES * 0.4
