"""Generated joins of two to five tables with vectors forced and without, equal to the last bit.

PGBILLION_TEST_MIXED_JOINS is how many are generated (default 700), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.join_queries import JoinQuery, MixedGenerator, schema, smaller
from harness.outcomes import CANCELED, QUERY_CANCELED, WAYS, WHOLE, Outcome, canceled, leaving_nothing, outcome
from pgbillion.common.connection import Connection
from pgbillion.rows import answers
from pgbillion.rows.answers import Tolerance
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


QUERIES = amount("PGBILLION_TEST_MIXED_JOINS", 700, 200)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# of this number of queries, the plan of one is looked at
EXPLAINED_EACH = 1 if QUERIES < 500 else 2 if QUERIES < 1500 else 5
# number of queries over the same tables
QUERIES_OF_SCHEMA = 250
FAILURES_SHOWN = 3
# whoever makes them must not wait for products of large tables
TIMEOUT = "5s"
LEAST_USED = 0.3
# of floats that are added in another order
TOLERANCE = Tolerance(float4=1e-3, float8=1e-6, absolute=1e-6)
FORCED = (
    "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_join = force; SET pgbillion_rows.vector_aggregate = force;"
    " SET pgbillion_rows.columns = off; SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0;"
    " SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 0; SET timezone = 'UTC'"
)
JOIN = re.compile(r"^ +((?:Right )?(?:Inner|Left|Semi|Anti)) Join \d+: ", re.MULTILINE)
# a table that another one, or a UNION ALL, stands for
PART = re.compile(
    r"Scan \(Vector(?:Aggregate|Join)\) on t0_\w+ .*\n(?:(?! +->).*\n){0,5}"
    r" +(?:Right )?(?:Inner|Left|Semi|Anti) Join 1:"
)
LEAST_SEVERAL = 0.03


@dataclass
class Tally:
    queries: int = 0
    slow: int = 0
    explained: int = 0
    joins: Counter[str] = field(default_factory=Counter)
    used: int = 0
    parallel: int = 0
    little: int = 0
    several: int = 0
    late: int = 0
    shapes: Counter[str] = field(default_factory=Counter)


def settings(query: JoinQuery, ours: bool, patience: str = TIMEOUT) -> str:
    """What comes before a query's last statement."""
    enabled = f"pgbillion_rows.enable = {'on' if ours else 'off'}"
    sets = [f"SET LOCAL {setting}" for setting in (f"statement_timeout = '{patience}'", *query.settings, enabled)]
    before = query.statements()[0]
    return "; ".join([*sets, *(["DEALLOCATE ALL"] if before else []), *before])


def run(conn: Connection, query: JoinQuery, ours: bool, way: str = WHOLE, patience: str = TIMEOUT) -> Outcome:
    """The answer, or the error's SQLSTATE."""
    found = outcome(conn, query.statements()[1], f"{settings(query, ours, patience)};", way)
    return found[:5] if isinstance(found, str) else found


def explained(conn: Connection, query: JoinQuery) -> str:
    conn.execute("SAVEPOINT explained")
    try:
        text = f"{settings(query, True)}; EXPLAIN (COSTS OFF) {query.statements()[1]}"
        return "\n".join(line for (line,) in last(conn.execute(text.encode())).fetchall())
    finally:
        conn.execute("ROLLBACK TO explained; RELEASE explained")


def last(sent: psycopg.Cursor[tuple[str]]) -> psycopg.Cursor[tuple[str]]:
    while sent.nextset():
        pass
    return sent


def difference(query: JoinQuery, one: Outcome, two: Outcome) -> str | None:
    if isinstance(one, str) or isinstance(two, str):
        return None if one == two or QUERY_CANCELED in (one, two) else f"{one} and {two}"
    return answers.difference(one, two, TOLERANCE if query.inexact else None)


def minimise(conn: Connection, query: JoinQuery, way: str) -> JoinQuery:
    """Leave out whatever the disagreement does not need."""
    progress = True
    while progress:
        progress = False
        for candidate in smaller(query):
            core = run(conn, candidate, False, way)
            if not isinstance(core, str) and difference(candidate, core, run(conn, candidate, True, way)) is not None:
                query, progress = candidate, True
                break
    return query


def count(tally: Tally, query: JoinQuery, plan: str) -> None:
    found = JOIN.findall(plan)
    tally.explained += 1
    tally.used += bool(found)
    tally.joins.update(found)
    tally.parallel += bool(found) and "Gather" in plan
    tally.little += bool(found) and any("64kB" in setting for setting in query.settings)
    tally.several += PART.search(plan) is not None
    tally.late += "Fetched Columns: " in plan
    tally.shapes[query.shape] += bool(found)


def compared(conn: Connection, query: JoinQuery, way: str, where: str, tally: Tally) -> str | None:
    """Tell what does not agree, or None."""
    read = WHOLE if way == CANCELED else way
    core = run(conn, query, False, read)
    start = time.perf_counter()
    ours = run(conn, query, True, read)
    seconds = time.perf_counter() - start
    assert not isinstance(core, str) or core[:2] in ("57", "0A", "22"), f"{core}: {where}: {query}"
    if ours == QUERY_CANCELED:
        # what is forced may be slow; but it ends where PostgreSQL's plan does
        tally.slow += 1
        if core != QUERY_CANCELED:
            ours = run(conn, query, True, read, patience="300s")
            assert ours != QUERY_CANCELED, f"{where}: no end\n    {query}"
    elif way == CANCELED:
        canceled(conn, query.statements()[1], f"{settings(query, True)};", random.uniform(0, seconds))
        return difference(query, core, ours) or difference(query, core, run(conn, query, True))
    return difference(query, core, ours)


def test_generated_queries(cluster: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    tally = Tally()
    failures: list[str] = []
    chance = random.Random(SEED)
    # the next seed must not have most of the same queries; and the seed of a failure is tried first
    more = random.Random(SEED).sample(range(2**31), (QUERIES - 1) // QUERIES_OF_SCHEMA)
    for seed in (SEED, *more):
        made = schema(seed)
        generator = MixedGenerator(seed, made)
        with (
            servers.new_database(cluster, f"mixed_{seed}") as name,
            leaving_nothing(cluster, name),
            cluster.connect(name) as conn,
        ):
            conn.prepare_threshold = None
            for statement in made.statements:
                conn.execute(statement.encode())
            conn.execute(f"{FORCED}; BEGIN".encode())
            for number in range(min(QUERIES_OF_SCHEMA, QUERIES - tally.queries)):
                query = generator.query()
                way = chance.choice(WAYS) if query.statements()[1].startswith(("SELECT", "WITH", "(")) else WHOLE
                where = f"seed {seed}, number {number}, {way}"
                found = compared(conn, query, way, where, tally)
                if found is not None:
                    small = minimise(conn, query, WHOLE if way == CANCELED else way)
                    failures.append(f"{where}: {found}\n    {small}\n    first as\n    {query}")
                if tally.queries % EXPLAINED_EACH == 0:
                    count(tally, query, explained(conn, query))
                tally.queries += 1
            conn.execute("ROLLBACK")
        if len(failures) >= FAILURES_SHOWN:
            break
    tell(
        f"seed {SEED}: {tally.queries} queries, {tally.used} of {tally.explained} with joins of vectors:"
        f" {dict(tally.joins)},"
        f" {tally.parallel} in parallel, {tally.little} with little memory, {tally.several} along several tables,"
        f" {tally.late} with columns fetched late, {tally.slow} slow; by shape: {dict(tally.shapes)}"
    )
    counted(
        {
            "queries": tally.queries,
            "explained": tally.explained,
            "with joins by vectors": tally.used,
            "in parallel plans": tally.parallel,
            "with 64 kB": tally.little,
            "along several tables": tally.several,
            "with columns fetched late": tally.late,
        }
    )
    assert failures == [], "\n".join(failures)
    assert tally.used >= LEAST_USED * tally.explained
    # of one or two schemas, chance may leave few
    assert tally.several >= LEAST_SEVERAL * tally.explained * (1 if tally.explained >= 500 else 0.2)
    # the last ones are rare
    kinds = {"Inner", "Left", "Semi", "Anti", "Right Semi", "Right Anti"}
    assert set(tally.joins) == kinds or tally.explained < 500
    assert {"Inner", "Left", "Semi", "Anti"} <= set(tally.joins)
