"""Queries by PostgreSQL's own plans and by ours in turn: what `make bench-tpch` and `make bench-hits` share.

A side is a session's settings. Every query is run once by all sides to compare the answers, which also warms up; then
by all sides in turn, queries in an order by chance; medians count. Where two sides have the same plan their ratio is
1. A ratio below its bound is measured again with 15 alternations before it counts. CLOCK=cpu counts the CPU time of
the session's process instead of the time that passes, for a machine that does other things too; of one process only.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import common
from pgbillion.common.connection import Connection
from pgbillion.rows import answers
from pgbillion.rows.answers import Answer, Tolerance

ROUNDS = int(os.environ.get("ROUNDS") or common.sized(5, 3, 1))
AGAIN = common.sized(15, 15, 1)
LOWEST = 0.95
CLOCK = os.environ.get("CLOCK") or "wall"
SESSION = {"jit": "off", "work_mem": "256MB"}
# joins add floats in an order of their own, and so do partial aggregates
TOLERANCE = Tolerance(float4=1e-3, float8=1e-9)
ENABLE = "pgbillion_rows.enable"


@dataclass(frozen=True)
class Side:
    """Who answers, and what is set for it."""

    name: str
    settings: Mapping[str, str]


# each sets what any of them sets: the session is one
POSTGRESQL = Side("PostgreSQL", {ENABLE: "off", "search_path": "public"})
OURS = Side("pgbillion", {ENABLE: "on", "search_path": "public"})


@dataclass(frozen=True)
class Query:
    """A query, and the bound below which it is measured again."""

    key: str
    sql: str
    bound: float = LOWEST


@dataclass
class Result:
    """What was found of a query with a number of processes: seconds by side, and which sides have PostgreSQL's plan."""

    query: Query
    processes: int
    plans: dict[str, str] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)
    rows: int = 0

    def same(self, side: Side) -> bool:
        """Tell whether the side's plan is PostgreSQL's own."""
        return self.plans[side.name] == self.plans[POSTGRESQL.name]

    def median(self, side: Side) -> float:
        """The median of the side's seconds; those of PostgreSQL where the plan is the same."""
        return statistics.median(self.times[(POSTGRESQL if self.same(side) else side).name])

    def ratio(self, side: Side = OURS) -> float:
        """How many times as fast as PostgreSQL."""
        return self.median(POSTGRESQL) / self.median(side)


def configure(conn: Connection, settings: Mapping[str, str]) -> None:
    """Set these for the session."""
    for name, value in settings.items():
        conn.execute("SELECT pg_catalog.set_config(%s, %s, false)", [name, value])


def prepare(conn: Connection, side: Side, processes: int) -> None:
    """Have the session answer as this side does."""
    configure(conn, {**side.settings, "max_parallel_workers_per_gather": str(processes - 1)})


def explain(conn: Connection, query: Query) -> str:
    """The plan without estimates."""
    rows = conn.execute(f"EXPLAIN (COSTS OFF, VERBOSE) {query.sql}".encode()).fetchall()
    return "\n".join(line for (line,) in rows)


def clock(conn: Connection) -> Callable[[], float]:
    """What tells the seconds that have passed, or that the session's process has run, by CLOCK."""
    if CLOCK == "wall":
        return time.perf_counter
    # nanoseconds on a CPU core, and two more numbers
    file = Path(f"/proc/{conn.info.backend_pid}/schedstat")
    return lambda: int(file.read_text(encoding="ascii").split()[0]) / 1e9


def check(conn: Connection, query: Query, sides: Sequence[Side], processes: int) -> tuple[Result, Answer]:
    """Compare the answers of all sides, and their plans; raise RuntimeError where answers differ."""
    result = Result(query, processes)
    found: dict[str, Answer] = {}
    for side in sides:
        prepare(conn, side, processes)
        result.plans[side.name] = explain(conn, query)
        found[side.name] = answers.answer(conn.execute(query.sql.encode()))
        differs = answers.difference(found[POSTGRESQL.name], found[side.name], TOLERANCE)
        if differs is not None:
            raise RuntimeError(f"{query.key}, {side.name}, {processes} processes: {differs}")
        result.times[side.name] = []
    result.rows = len(found[POSTGRESQL.name].rows)
    return result, found[POSTGRESQL.name]


def alternate(conn: Connection, result: Result, sides: Sequence[Side], number: int) -> None:
    """Run a query once by each side that has a plan of its own, in turn from one end or the other."""
    now = clock(conn)
    for side in sides if number % 2 == 0 else list(reversed(sides)):
        if side != POSTGRESQL and result.same(side):
            continue
        prepare(conn, side, result.processes)
        start = now()
        conn.execute(result.query.sql.encode())
        result.times[side.name].append(now() - start)


def measure(
    conn: Connection,
    results: Sequence[Result],
    sides: Sequence[Side],
    order: random.Random,
    also: Callable[[Result], None] = lambda result: None,
) -> list[str]:
    """Measure all, and again those below their bound, which are returned; `also` is called for each in each round."""
    for number in range(ROUNDS):
        turn = list(results)
        order.shuffle(turn)
        for result in turn:
            alternate(conn, result, sides, number)
            also(result)
        common.say(f"round {number + 1} of {ROUNDS}")
    again = []
    for result in results:
        if any(result.ratio(side) < result.query.bound for side in sides[1:]):
            again.append(f"{result.query.key}, {result.processes}")
            for times in result.times.values():
                times.clear()
            for number in range(AGAIN):
                alternate(conn, result, sides, number)
            common.say(f"{again[-1]}: {result.ratio():.2f} in {AGAIN} alternations")
    return again


def geomean(results: Iterable[Result], side: Side = OURS) -> float:
    """The geometric mean of ratios."""
    return round(statistics.geometric_mean([result.ratio(side) for result in results]), 2)


def lowest(results: Iterable[Result], side: Side = OURS) -> float:
    """The lowest ratio; rounded down, so that what is below its bound does not look as if it met it."""
    return int(min(result.ratio(side) for result in results) * 1000) / 1000


def report(
    name: str,
    title: str,
    keys: Mapping[str, Any],
    results: Sequence[Result],
    sides: Sequence[Side],
    extra: Mapping[str, Any],
) -> None:
    """Print the table for people and the line for programs, which has the keys on top."""
    common.table(
        f"{title}, medians of {ROUNDS}, ms ({CLOCK} clock)",
        ("query, processes", *(side.name for side in sides), "ratio", "plan"),
        [
            [
                f"{result.query.key}, {result.processes}",
                *(f"{result.median(side) * 1000:,.1f}" for side in sides),
                "  ".join(f"{result.ratio(side):.2f}" for side in sides[1:]),
                "PostgreSQL's" if result.same(OURS) else _nodes(result.plans[OURS.name]),
            ]
            for result in results
        ],
    )
    common.result(
        {
            "benchmark": name,
            **keys,
            "ratios": {
                f"{result.query.key}, {result.processes}": {
                    side.name: 1.0 if result.same(side) else round(result.ratio(side), 3) for side in sides[1:]
                }
                for result in results
            },
            "milliseconds": {
                f"{result.query.key}, {side}, {result.processes}": common.spread([value * 1000 for value in times])
                for result in results
                for side, times in result.times.items()
                if times
            },
            "rounds": ROUNDS,
            "clock": CLOCK,
            "session": SESSION,
            "quick": common.QUICK,
            "load_at_the_end": os.getloadavg()[0],
            **extra,
        }
    )


def _nodes(plan: str) -> str:
    """Which of our nodes a plan has."""
    found: list[str] = []
    for line in plan.splitlines():
        if "Custom Scan (" in line:
            name = line.split("Custom Scan (", 1)[1].split(")", 1)[0]
            if name not in found:
                found.append(name)
    return ", ".join(found) or "other"
