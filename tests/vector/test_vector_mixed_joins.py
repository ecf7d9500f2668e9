"""Generated joins of two to five tables with vectors forced and without, equal to the last bit.

PGBILLION_TEST_MIXED_JOINS is how many are generated (default 700), PGBILLION_TEST_SEED repeats a run.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg
import pytest

from harness import servers
from harness.amount import Count, amount
from harness.join_queries import JoinQuery, MixedGenerator, schema, smaller
from pgbillion.common.connection import Connection
from pgbillion.rows import answers
from pgbillion.rows.answers import Answer, Tolerance
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


QUERIES = amount("PGBILLION_TEST_MIXED_JOINS", 700, 200)
SEED = int(os.environ.get("PGBILLION_TEST_SEED") or random.SystemRandom().randrange(2**31))
# so many queries over the same tables
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
    joins: Counter[str] = field(default_factory=Counter)
    used: int = 0
    parallel: int = 0
    little: int = 0
    several: int = 0
    late: int = 0
    shapes: Counter[str] = field(default_factory=Counter)


def run(conn: Connection, query: JoinQuery, ours: bool, patience: str = TIMEOUT) -> tuple[Answer | str, str]:
    """The answer, or the error's SQLSTATE, and the plan."""
    before, text = query.statements()
    script = [
        "BEGIN",
        f"SET LOCAL statement_timeout = '{patience}'",
        *(f"SET LOCAL {setting}" for setting in query.settings),
    ]
    if not ours:
        script.append("SET LOCAL pgbillion_rows.enable = off")
    script += before
    plan = ""
    try:
        conn.execute("; ".join(script).encode())
        if ours:
            plan = "\n".join(line for (line,) in conn.execute(f"EXPLAIN (COSTS OFF) {text}".encode()))
        return answers.answer(conn.execute(text.encode())), plan
    except psycopg.OperationalError as error:
        # a statement that is canceled goes on to be an answer of its own, a server that is gone does not
        if not isinstance(error, psycopg.errors.QueryCanceled):
            raise AssertionError(f"{error}\n    {query}") from error
        return "57014", plan
    except psycopg.Error as error:
        return error.sqlstate or str(error), plan
    finally:
        if not conn.closed:
            conn.execute("ROLLBACK; DEALLOCATE ALL")


def difference(query: JoinQuery, one: Answer | str, two: Answer | str) -> str | None:
    if isinstance(one, str) or isinstance(two, str):
        return None if one == two or "57014" in (one, two) else f"{one} and {two}"
    return answers.difference(one, two, TOLERANCE if query.inexact else None)


def minimise(conn: Connection, query: JoinQuery) -> JoinQuery:
    """Leave out whatever the disagreement does not need."""
    progress = True
    while progress:
        progress = False
        for candidate in smaller(query):
            core = run(conn, candidate, False)[0]
            if not isinstance(core, str) and difference(candidate, core, run(conn, candidate, True)[0]) is not None:
                query, progress = candidate, True
                break
    return query


def count(tally: Tally, query: JoinQuery, plan: str) -> None:
    found = JOIN.findall(plan)
    tally.used += bool(found)
    tally.joins.update(found)
    tally.parallel += bool(found) and "Gather" in plan
    tally.little += bool(found) and any("64kB" in setting for setting in query.settings)
    tally.several += PART.search(plan) is not None
    tally.late += "Fetched Columns: " in plan
    tally.shapes[query.shape] += bool(found)


def test_generated_queries(cluster: Cluster, tell: Callable[[str], None], counted: Count) -> None:
    tally = Tally()
    failures: list[str] = []
    # the next seed must not have most of the same queries; and the seed of a failure is tried first
    more = random.Random(SEED).sample(range(2**31), (QUERIES - 1) // QUERIES_OF_SCHEMA)
    for seed in (SEED, *more):
        made = schema(seed)
        generator = MixedGenerator(seed, made)
        with servers.new_database(cluster, f"mixed_{seed}") as name, cluster.connect(name) as conn:
            conn.prepare_threshold = None
            for statement in made.statements:
                conn.execute(statement.encode())
            conn.execute(FORCED.encode())
            for number in range(min(QUERIES_OF_SCHEMA, QUERIES - tally.queries)):
                query = generator.query()
                core, _ = run(conn, query, False)
                ours, plan = run(conn, query, True)
                tally.queries += 1
                assert not isinstance(core, str) or core[:2] in ("57", "0A", "22"), f"{core}: {query}"
                if ours == "57014":
                    # what is forced may be slow; but it ends where PostgreSQL's plan does
                    tally.slow += 1
                    if core != "57014":
                        ours, plan = run(conn, query, True, patience="300s")
                        assert ours != "57014", f"seed {seed}, number {number}: no end\n    {query}"
                count(tally, query, plan)
                found = difference(query, core, ours)
                if found is not None:
                    small = minimise(conn, query)
                    failures.append(f"seed {seed}, number {number}: {found}\n    {small}\n    first as\n    {query}")
        if len(failures) >= FAILURES_SHOWN:
            break
    tell(
        f"seed {SEED}: {tally.queries} queries, {tally.used} with joins of vectors: {dict(tally.joins)},"
        f" {tally.parallel} in parallel, {tally.little} with little memory, {tally.several} along several tables,"
        f" {tally.late} with columns fetched late, {tally.slow} slow; by shape: {dict(tally.shapes)}"
    )
    counted(
        {
            "queries": tally.queries,
            "with joins by vectors": tally.used,
            "in parallel plans": tally.parallel,
            "with 64 kB": tally.little,
            "along several tables": tally.several,
            "with columns fetched late": tally.late,
        }
    )
    assert failures == [], "\n".join(failures)
    assert tally.used >= LEAST_USED * tally.queries
    # of one or two schemas, chance may leave few
    assert tally.several >= LEAST_SEVERAL * tally.queries * (1 if tally.queries >= 500 else 0.2)
    # the last one is one in sixty
    assert set(tally.joins) | {"Right Anti"} == {"Inner", "Left", "Semi", "Anti", "Right Semi", "Right Anti"}
    assert "Right Anti" in tally.joins or tally.queries < 500
