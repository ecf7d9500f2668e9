"""Partitions that are here beside those on shards: aggregated by vectors, while the shards are at work."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.shards import Shard, make_coordinator, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.rows import answers, plans
from pgbillion.rows.answers import Tolerance
from pgbillion.server.postgres import Cluster

COLUMNS = "i integer, g integer, x double precision, n numeric(10,2), s text, d timestamp"
FILL = (
    "INSERT INTO {} SELECT i, i % 20, i / 7.0, i / 9.0, CASE WHEN i % 11 > 0 THEN 's' || i % 5 END,"
    " timestamp '2001-01-01' + i * interval '1 hour' FROM generate_series(1, 60000) i"
)
QUERIES = (
    "SELECT g, count(*), sum(i), avg(n), max(x), min(s) FROM {} GROUP BY g",
    "SELECT count(*), count(s), sum(x), avg(x), stddev(n) FROM {}",
    "SELECT s, count(*) FILTER (WHERE g > 3), sum(n) FROM {} WHERE i % 3 = 0 GROUP BY s HAVING count(*) > 5",
    "SELECT date_trunc('month', d)::date, g % 2, sum(i + g), count(*) FROM {} GROUP BY date_trunc('month', d), g % 2",
    "SELECT g FROM {} WHERE x < 1000 GROUP BY g",
    "SELECT sum(c) FROM (SELECT g, count(*) AS c FROM {} WHERE s = 's1' GROUP BY g) y",
)
# Partial sums of floats come in any order.
TOLERANCE = Tolerance(float4=1e-6, float8=1e-12)
# `nested`: a partition here that is partitioned, one of its own partitions is on a shard
TABLES = ("many", "nested")


@pytest.fixture(scope="module")
def members(cluster: Cluster, database: str) -> Iterator[list[Shard]]:
    with shards([cluster] * 2, database) as made:
        yield made


@pytest.fixture(scope="module")
def session(cluster: Cluster, database: str, members: list[Shard]) -> Iterator[Connection]:
    """`one` is here, `many` and `nested` have the same rows here and on two shards."""
    with cluster.connect(database) as conn:
        make_coordinator(conn, members)
        conn.prepare_threshold = None
        conn.execute(f"LOAD 'pgbillion_rows'; CREATE TABLE one ({COLUMNS})")
        shard_table(conn, members, "many", COLUMNS, local=1)
        with members[1].connect() as there:
            there.execute(f"CREATE TABLE nested_2 ({COLUMNS}); CREATE TABLE nested_there ({COLUMNS})")
        conn.execute(
            f"CREATE TABLE nested ({COLUMNS}) PARTITION BY HASH (i);"
            " CREATE FOREIGN TABLE nested_2 PARTITION OF nested FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER s2;"
            " CREATE TABLE nested_here PARTITION OF nested FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
            " PARTITION BY LIST (g);"
            # columns of another order, one of them dropped
            f" CREATE TABLE nested_low (gone integer, s text, {COLUMNS.replace(', s text', '')});"
            " ALTER TABLE nested_low DROP COLUMN gone;"
            " ALTER TABLE nested_here ATTACH PARTITION nested_low FOR VALUES IN (0, 1, 2, 3, 4);"
            " CREATE FOREIGN TABLE nested_there PARTITION OF nested_here FOR VALUES IN (5, 6, 7) SERVER s2;"
            " CREATE TABLE nested_rest PARTITION OF nested_here DEFAULT"
        )
        for table in ("one", *TABLES):
            conn.execute(f"{FILL.format(table)}; ANALYZE {table}".encode())
        yield conn


@pytest.fixture
def conn(session: Connection) -> Iterator[Connection]:
    """In a transaction that leaves nothing, here."""
    session.execute("BEGIN")
    yield session
    session.execute("ROLLBACK")


def cheap_workers(conn: Connection) -> None:
    conn.execute(
        "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;"
        " SET max_parallel_workers_per_gather = 2"
    )


def scans(plan: plans.Plan) -> list[str]:
    """What reads each of the partitions: the shard (with its vectors or not), vectors, or core."""
    found = []
    for node in plans.nodes(plan):
        if node["Node Type"] == "Foreign Scan":
            found.append("shard" if "Relation Name" not in node else "rows")
        elif node.get("Custom Plan Provider") == plans.NODE:
            found.append("vectors")
        elif "Relation Name" in node:
            found.append("core")
    return sorted(found)


EXPECTED = {"many": ["shard", "shard", "vectors"], "nested": ["shard", "shard", "vectors", "vectors"]}


def check(conn: Connection, query: str, table: str, *, gathered: bool) -> None:
    """Shards and vectors are side by side, and the answer is that of one table."""
    plan = plans.explain(conn, query.format(table))
    assert scans(plan) == EXPECTED[table]
    (append,) = (node for node in plans.nodes(plan) if node["Node Type"] == "Append" and not node["Parallel Aware"])
    for child in append["Plans"]:
        assert child["Node Type"] != "Foreign Scan" or child["Async Capable"]
    kinds = [child["Node Type"] for child in append["Plans"]]
    assert kinds.count("Gather") == gathered
    assert plans.parallel(plan) is gathered
    one, many = (answers.answer(conn.execute(query.format(name).encode())) for name in ("one", table))
    assert one.rows
    assert answers.difference(one, many, TOLERANCE) is None


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("table", TABLES)
def test_in_one_process(conn: Connection, table: str, query: str) -> None:
    conn.execute("SET max_parallel_workers_per_gather = 0")
    check(conn, query, table, gathered=False)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("table", TABLES)
def test_in_parallel(conn: Connection, table: str, query: str) -> None:
    """Core has no workers where one partition is foreign."""
    cheap_workers(conn)
    check(conn, query, table, gathered=True)


def test_workers_are_at_work(conn: Connection) -> None:
    cheap_workers(conn)
    plan = plans.explain(conn, QUERIES[0].format("nested"), run=True)
    (gather,) = (node for node in plans.nodes(plan) if node["Node Type"] == "Gather")
    assert gather["Workers Launched"] > 0
    assert [node["Node Type"] for node in gather["Plans"]] == ["Append"]


def test_what_workers_may_not_run_is_run_here(conn: Connection) -> None:
    cheap_workers(conn)
    conn.execute("SET pgbillion_rows.vector_aggregate = force")
    conn.execute(
        "CREATE FUNCTION restricted(integer) RETURNS integer IMMUTABLE PARALLEL RESTRICTED LANGUAGE plpgsql"
        " AS 'BEGIN RETURN $1; END'"
    )
    for query in (
        "SELECT g, count(*) FROM {} WHERE restricted(i) > 4 GROUP BY g",
        "SELECT g, sum(restricted(i)) FROM {} GROUP BY g",
    ):
        plan = plans.explain(conn, query.format("many"))
        assert scans(plan) == ["rows", "rows", "vectors"]
        assert not plans.parallel(plan)
        one, many = (answers.answer(conn.execute(query.format(name).encode())) for name in ("one", "many"))
        assert answers.difference(one, many, TOLERANCE) is None


def test_groups_of_one_partition_are_final_there(conn: Connection) -> None:
    """Grouped by the partition key, with nothing to combine above."""
    query = "SELECT i, count(*), sum(n) FROM {} GROUP BY i"
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET max_parallel_workers_per_gather = 0")
    plan = plans.explain(conn, query.format("many"))
    assert plan["Node Type"] == "Append"
    assert scans(plan) == EXPECTED["many"]
    one, many = (answers.answer(conn.execute(query.format(name).encode())) for name in ("one", "many"))
    assert answers.difference(one, many, TOLERANCE) is None


def test_rows_written_in_the_transaction(conn: Connection, members: list[Shard]) -> None:
    """Those on shards are read by the connection that wrote them."""
    cheap_workers(conn)
    for table in ("one", *TABLES):
        conn.execute(f"UPDATE {table} SET g = 21 WHERE i % 100 = 7")
    for table in TABLES:
        for query in QUERIES:
            check(conn, query, table, gathered=True)


def test_prepared_with_parameters(conn: Connection) -> None:
    """Of which core might leave out partitions when the query runs."""
    conn.execute("SET plan_cache_mode = force_generic_plan")
    for name in ("one", "many"):
        conn.execute(f"PREPARE q_{name} (integer) AS SELECT g, count(*), sum(n) FROM {name} WHERE i > $1 GROUP BY g")
    assert scans(plans.explain(conn, "EXECUTE q_many (100)")) == ["core", "shard", "shard"]
    for argument in ("100", "59990", "NULL"):
        one, many = (
            answers.answer(conn.execute(f"EXECUTE q_{name} ({argument})".encode())) for name in ("one", "many")
        )
        assert answers.difference(one, many, TOLERANCE) is None
    conn.execute("DEALLOCATE ALL")


def test_what_core_does_for_less_stays_cores(conn: Connection) -> None:
    conn.execute("CREATE INDEX ON many_2 (i); ANALYZE many_2")
    query = "SELECT g, count(*) FROM {} WHERE i < 50 GROUP BY g"
    assert scans(plans.explain(conn, query.format("many"))) == ["core", "shard", "shard"]
    # core takes the least from the index, and from the shards the first row in order, but not for a few pages
    query = "SELECT min(i) FROM {}"
    assert scans(plans.explain(conn, query.format("many"))) == ["core", "rows", "rows"]
    conn.execute("DELETE FROM many_2 WHERE i > 500")
    conn.execute(
        "CREATE TABLE fewer AS SELECT * FROM many_2; TRUNCATE many_2; INSERT INTO many_2 TABLE fewer; ANALYZE many_2"
    )
    assert scans(plans.explain(conn, query.format("many"))) == ["core", "shard", "shard"]


def test_shards_that_do_not_aggregate(conn: Connection) -> None:
    """What is here is vectorized all the same, and core aggregates what comes from there."""
    conn.execute("SET pgbillion_rows.push_down_aggregates = off; SET pgbillion_rows.vector_aggregate = force")
    for table in TABLES:
        assert "vectors" in scans(plans.explain(conn, QUERIES[0].format(table)))
        one, many = (answers.answer(conn.execute(QUERIES[0].format(name).encode())) for name in ("one", table))
        assert answers.difference(one, many, TOLERANCE) is None


def test_what_is_switched_off(conn: Connection) -> None:
    conn.execute("SET pgbillion_rows.vector_aggregate = off")
    assert scans(plans.explain(conn, QUERIES[0].format("many"))) == ["core", "shard", "shard"]
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET enable_partitionwise_aggregate = off")
    assert scans(plans.explain(conn, QUERIES[0].format("many"))) == ["core", "rows", "rows"]


DISTINCT = (
    "SELECT DISTINCT g FROM {}",
    "SELECT DISTINCT s, g % 3, date_trunc('month', d) FROM {} WHERE i > 100",
    "SELECT DISTINCT g, 'a constant' AS c FROM {} WHERE n < 5000 ORDER BY g DESC LIMIT 7",
    "SELECT count(*) FROM (SELECT DISTINCT g, s FROM {}) y",
)


@pytest.mark.parametrize("query", DISTINCT)
@pytest.mark.parametrize("table", TABLES)
def test_distinct(conn: Connection, table: str, query: str) -> None:
    conn.execute("SET max_parallel_workers_per_gather = 0")
    check(conn, query, table, gathered=False)
    cheap_workers(conn)
    check(conn, query, table, gathered=True)


def test_distinct_on_shards_alone(conn: Connection, members: list[Shard]) -> None:
    for number, shard in enumerate(members):
        with shard.connect() as there:
            there.execute(f"CREATE TABLE away_{number} ({COLUMNS})")
    conn.execute(f"CREATE TABLE away ({COLUMNS}) PARTITION BY HASH (i)")
    for number in range(2):
        conn.execute(
            f"CREATE FOREIGN TABLE away_{number} PARTITION OF away FOR VALUES WITH (MODULUS 2, REMAINDER {number})"
            f" SERVER s{number + 1}"
        )
    conn.execute(f"{FILL.format('away')}; ANALYZE away".encode())
    for query in DISTINCT:
        assert scans(plans.explain(conn, query.format("away"))) == ["shard", "shard"]
        one, many = (answers.answer(conn.execute(query.format(name).encode())) for name in ("one", "away"))
        assert answers.difference(one, many, TOLERANCE) is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT ON (g) g, i FROM {} ORDER BY g, i",
        "SELECT DISTINCT tableoid = 0 FROM {}",
        "SELECT DISTINCT to_char(d, 'Month') FROM {}",
        "SELECT g FROM {} UNION SELECT g + 10 FROM one",
    ],
)
def test_distinct_rows_that_are_not_for_shards(conn: Connection, query: str) -> None:
    conn.execute("SET pgbillion_rows.vector_aggregate = force; SET max_parallel_workers_per_gather = 0")
    assert "shard" not in scans(plans.explain(conn, query.format("many")))
    one, many = (answers.answer(conn.execute(query.format(name).encode())) for name in ("one", "many"))
    assert answers.difference(one, many, TOLERANCE) is None


def test_distinct_as_partitions_are_aggregated(conn: Connection) -> None:
    """Where that is switched off, distinct rows are not looked for on the shards either."""
    conn.execute("SET enable_partitionwise_aggregate = off; SET pgbillion_rows.vector_aggregate = force")
    assert scans(plans.explain(conn, DISTINCT[0].format("many"))) == ["core", "rows", "rows"]
