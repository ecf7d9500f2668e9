"""Generated queries with vectorized aggregation off and forced: the same rows, or the same error.

PGBILLION_TEST_QUERIES is how many (default 3,000), PGBILLION_TEST_SEED repeats a run: tables and queries follow from
it, but for those of the table that is written to meanwhile. A failure prints the smallest query that still fails.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from harness import servers, vector_compare, vector_tables
from harness.amount import Count, amount
from harness.vector_compare import Tally
from harness.vector_queries import Generator, Query
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors

QUERIES = amount("PGBILLION_TEST_QUERIES", 3000, 300)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# queries a transaction, and with it a snapshot
TRANSACTION = 25
FAILURES_SHOWN = 20
LEAST_VECTORIZED = 0.8


@pytest.fixture(scope="module")
def vectors(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "vectors") as name:
        with cluster.connect(name) as conn:
            vector_tables.make(conn, random.Random(SEED).uniform(-1, 1))
        yield name


def session(cluster: Cluster, database: str) -> Connection:
    conn = cluster.connect(database)
    conn.execute("LOAD 'pgbillion_rows'")
    # every table is small here: what decides is not the cost
    conn.execute(
        "SET search_path = v, public; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
        " SET parallel_tuple_cost = 0; SET synchronize_seqscans = off; SET extra_float_digits = 1;"
        " SET timezone = 'UTC'; SET statement_timeout = '60s'"
    )
    return conn


def check(conn: Connection, query: Query, tally: Tally) -> str | None:
    """Compare one query both ways, in either order: whoever is first sets hint bits and prunes pages."""
    sides = ("off", "force") if query.number % 2 else ("force", "off")
    outcomes = {side: vector_compare.execute(conn, query, side) for side in sides}
    core, ours = outcomes["off"], outcomes["force"]
    differs = vector_compare.compared(conn, query, core, ours)
    if differs is not None:
        return differs
    # whether rows were spilled is known only when it has been run
    plan = vector_compare.planned(conn, query, run=query.little_memory and core.error is None)
    if plan is None:
        return None
    tally.spilled += any(node.get("Spilled Partitions", 0) > 0 for node in plans.nodes(plan))
    planned = plans.vectorized(plan)
    tally.queries += 1
    if core.error is not None:
        tally.errors[core.error[0]] += 1
    tally.rows += sum(len(answer.rows) for answer in core.answers)
    tally.within_grammar += query.within_grammar
    tally.vectorized += planned
    if planned:
        tally.vectorized_within += query.within_grammar
        tally.parallel += plans.parallel(plan)
        tally.distinct += query.distinct
        tally.shapes[query.shape.value] += 1
        tally.tables[query.table] += 1
        tally.cells.update(part.cell for part in query.aggregates if part.cell)
    return None


def compare(conn: Connection, generator: Generator, count: int, tally: Tally) -> list[str]:
    """Compare so many queries and return what differs, each with the smallest query for it."""
    failures: list[str] = []
    for first in range(0, count, TRANSACTION):
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        for number in range(first, min(count, first + TRANSACTION)):
            query = generator.query(number)
            differs = check(conn, query, tally)
            if differs is not None:
                small = vector_compare.minimise(conn, query)
                failures.append(f"{differs}\n    {small}\n    number {number}: {query}")
        conn.execute("ROLLBACK")
        if len(failures) >= FAILURES_SHOWN:
            break
    return failures


def summary(tally: Tally) -> str:
    share = tally.vectorized_within / max(1, tally.within_grammar)
    return "\n".join(
        [
            f"seed {SEED}: {tally.queries} queries, {tally.vectorized} vectorized, {tally.parallel} in parallel,"
            f" {tally.distinct} with DISTINCT, {tally.spilled} spilled",
            f"{share:.1%} of the {tally.within_grammar} within the grammar are vectorized",
            f"{tally.rows} rows compared; errors: {dict(tally.errors)}",
            f"by shape: {dict(tally.shapes)}",
            f"by table: {dict(tally.tables)}",
            tally.matrix(),
        ]
    )


def numbers(tally: Tally) -> dict[str, int]:
    return {
        "queries": tally.queries,
        "with vectors": tally.vectorized,
        "in parallel plans": tally.parallel,
        "that spilled": tally.spilled,
    }


def test_generated_queries(cluster: Cluster, vectors: str, tell: Callable[[str], None], counted: Count) -> None:
    tally = Tally()
    with session(cluster, vectors) as conn, vector_tables.unfinished(cluster, vectors):
        failures = compare(conn, Generator(SEED), QUERIES, tally)
    tell(summary(tally))
    counted(numbers(tally))
    assert failures == [], f"seed {SEED}: " + "\n".join(failures)
    # 22 is of data, 0A000 is a NaN cast to an integer; any other would be a query that makes no sense
    assert [state for state in tally.errors if not state.startswith(("22", "0A000"))] == []
    assert tally.parallel >= 0.05 * tally.queries
    assert tally.distinct >= 0.05 * tally.queries
    assert tally.vectorized >= LEAST_VECTORIZED * tally.queries
    assert tally.vectorized_within >= LEAST_VECTORIZED * tally.within_grammar
    if QUERIES >= 3000:
        assert tally.holes() == []
        assert tally.spilled > 0


@contextmanager
def writer(cluster: Cluster, database: str) -> Iterator[list[int]]:
    """Write to the busy table all the time; what is given counts the transactions."""
    stop = threading.Event()
    done = [0]
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with cluster.connect(database) as conn:
                while not stop.is_set():
                    vector_tables.write(conn, done[0])
                    done[0] += 1
                    stop.wait(0.002)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()
    assert errors == []


def test_generated_queries_beside_writers(
    cluster: Cluster, vectors: str, tell: Callable[[str], None], counted: Count
) -> None:
    """Both sides have one snapshot while pages change, are pruned and become all-visible."""
    tally = Tally()
    with session(cluster, vectors) as conn, writer(cluster, vectors) as transactions:
        generator, queries = Generator(SEED + 1, ["busy"]), max(200, QUERIES // 10)
        failures = compare(conn, generator, queries, tally)
        # however slow the writer is
        while not failures and transactions[0] <= 50:
            failures = compare(conn, generator, queries, tally)
    tell(f"{summary(tally)}\n{transactions[0]} transactions meanwhile")
    counted({**numbers(tally), "transactions beside them": transactions[0]})
    assert failures == [], f"seed {SEED}: " + "\n".join(failures)
    assert tally.vectorized_within >= LEAST_VECTORIZED * tally.within_grammar
    assert transactions[0] > 50
