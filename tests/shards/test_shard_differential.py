"""Generated queries over shards, and over one table with the same rows: the same rows, or the same error.

PGBILLION_TEST_SHARD_QUERIES is how many (default 300), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from harness import servers, vector_compare, vector_tables
from harness.amount import Count, amount
from harness.shards import make_coordinator, shard_table, shards
from harness.vector_compare import Outcome, Tally
from harness.vector_queries import Generator, Query
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.rows.answers import FLOAT4, FLOAT8
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_SHARD_QUERIES", 300, 60)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# half of the rows are on two shards, the others here; `extreme` is where arithmetic ends
TABLES = ("plain", "strict", "scarce", "narrow", "extreme", "nothing")
LEAST_PUSHED_DOWN = 0.33
LEAST_BESIDE = 0.25
NOISE = 1e-15


@pytest.fixture(scope="module")
def coordinator(cluster: Cluster) -> Iterator[Connection]:
    """Tables in the schema `v` (on this server), and in `s` with the same rows (on two shards and here)."""
    with (
        servers.new_database(cluster, "differential") as name,
        shards([cluster] * 2, name) as members,
        cluster.connect(name) as conn,
    ):
        vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
        make_coordinator(conn, members)
        conn.execute("CREATE SCHEMA s; SET search_path = s")
        for shard in members:
            with shard.connect() as there:
                there.execute(f"CREATE SCHEMA s; ALTER DATABASE {shard.database} SET search_path = s")
        for table in TABLES:
            shard_table(conn, members, table, vector_tables.definition(), local=1)
            conn.execute(f"INSERT INTO s.{table} SELECT * FROM v.{table}".encode())
        conn.execute(
            "SET enable_partitionwise_aggregate = on; SET statement_timeout = '60s'; SET timezone = 'UTC';"
            " SET extra_float_digits = 1; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
            " SET parallel_tuple_cost = 0"
        )
        yield conn


def over(query: Query, schema: str) -> Query:
    """The query, asked of the tables of a schema; rows come in any order."""
    # SETs of the same name: the last one holds
    settings = (*query.settings, ("max_parallel_workers_per_gather", "2"), ("search_path", schema))
    return replace(query, settings=settings)


def without_noise(outcome: Outcome) -> Outcome:
    """Where all values are equal, what combining their states leaves of a deviation is no number to compare."""
    found = []
    for answer in outcome.answers:
        floats = [type_ in (FLOAT4, FLOAT8) for type_ in answer.types]
        rows = [
            tuple(
                b"0" if is_float and value is not None and abs(float(value)) < NOISE else value
                for value, is_float in zip(row, floats, strict=True)
            )
            for row in answer.rows
        ]
        found.append(replace(answer, rows=rows))
    return replace(outcome, answers=found)


def pushed_down(plan: plans.Plan) -> bool:
    return any("Aggregate on" in str(node.get("Relations")) for node in plans.nodes(plan))


def test_generated_queries(coordinator: Connection, tell: Callable[[str], None], counted: Count) -> None:
    tally = Tally()
    failures = []
    generator = Generator(SEED, TABLES)
    for number in range(QUERIES):
        query = generator.query(number)
        if query.table == "extreme" and query.ordered_sums:
            # what is left of the largest floats depends on the order of additions
            query = replace(query, table="plain")
        one, many = over(query, "v"), over(query, "s")
        # one of ten in a transaction that has used the connection of postgres_fdw
        coordinator.execute("BEGIN")
        if number % 10 == 0:
            coordinator.execute("SELECT count(*) FROM (SELECT * FROM s.plain OFFSET 0) x")
        # what is here beside the shards: by vectors wherever they can, or as it comes
        mode = random.Random(SEED + number).choice(("on", "force"))
        outcomes = [vector_compare.execute(coordinator, one, "on"), vector_compare.execute(coordinator, many, mode)]
        plan = vector_compare.planned(coordinator, many, mode)
        coordinator.execute("ROLLBACK")
        differs = vector_compare.difference(many, *outcomes, reordered=True)
        if differs is not None and ("stddev" in str(many) or "var" in str(many)):
            differs = vector_compare.difference(many, *map(without_noise, outcomes), reordered=True)
        failed = [outcome.error for outcome in outcomes if outcome.error is not None]
        # conditions are checked in another order: one that excludes a row may come before the one that fails on it
        excused = len(failed) == 1 and query.risks > 0 and failed[0][0].startswith("22")
        if differs is not None and not excused:
            failures.append(f"{differs}\n    number {number}: {many}")
        tally.queries += 1
        tally.rows += sum(len(answer.rows) for answer in outcomes[0].answers)
        if outcomes[0].error is not None:
            tally.errors[outcomes[0].error[0]] += 1
        if plan is not None and pushed_down(plan):
            tally.vectorized += 1
            tally.vectorized_within += plans.vectorized(plan)
            tally.parallel += plans.parallel(plan)
            tally.shapes[query.shape.value] += 1
            tally.tables[query.table] += 1
            tally.cells.update(part.cell for part in query.aggregates if part.cell)
    tell(
        f"seed {SEED}: {tally.queries} queries, {tally.vectorized} pushed down, {tally.vectorized_within} of them"
        f" with vectors here, {tally.parallel} with workers here; {tally.rows} rows compared;"
        f" errors: {dict(tally.errors)}\nby shape: {dict(tally.shapes)}\nby table: {dict(tally.tables)}\n"
        + tally.matrix()
    )
    counted(
        {
            "queries": tally.queries,
            "pushed down": tally.vectorized,
            "of these also with vectors here": tally.vectorized_within,
        }
    )
    assert failures == [], f"seed {SEED}: " + "\n".join(failures)
    assert [state for state in tally.errors if not state.startswith(("22", "0A000"))] == []
    assert tally.vectorized >= LEAST_PUSHED_DOWN * tally.queries
    assert tally.vectorized_within >= LEAST_BESIDE * tally.vectorized
    assert tally.parallel > 0
    if QUERIES >= 3000:
        assert tally.holes() == []
