"""Queries by chance over the tables of bench/calibrate.py, and whether their plans take what is estimated.

Values are spread evenly, so that numbers of rows are estimated well: what is compared is what each row, page, group and
look-up takes. Every query has a plan of PostgreSQL's, one that is vectorized over the heap, and one with a columnar
index.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import common
import contest
import estimates
import tpcds
from contest import POSTGRESQL, Query, Result
from pgbillion.common.connection import Connection

NUMBER = common.sized(150, 50, 4)
ROUNDS = common.sized(3, 3, 1)
# columns of the table and what they are joined with, by their number of values
KEYS = {"k10": 10, "k1000": 1_000, "k10000": 10_000, "k100000": 100_000, "k1000000": 1_000_000}
_AGGREGATES = (
    "count(*)",
    "sum(f.k1000)",
    "sum(f.n)",
    "avg(f.n)",
    "max(f.d)",
    "sum(f.d)",
    "min(f.k100000)",
    "count(DISTINCT f.k1000)",
)


@dataclass
class Plan:
    """A query, and of each side what its plan is estimated to take, in ms, and the seconds before it is executed."""

    result: Result
    estimated: dict[str, float] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)

    def measured(self, side: str) -> float:
        """The median of executions, or 0 if the side has PostgreSQL's plan."""
        times = self.result.times[side]
        return max(statistics.median(times) - self.before[side], 0.0) * 1000 if times else 0.0


def index(conn: Connection) -> None:
    """Add what other plans than the probes' read."""
    for column in KEYS:
        if column != "k10":
            conn.execute(f"CREATE INDEX ON narrow ({column})".encode())
        conn.execute(f"CREATE UNIQUE INDEX ON small_{column} (id)".encode())
    conn.execute("CREATE UNIQUE INDEX ON narrow (id)")
    conn.execute(f"CREATE INDEX ON narrow USING columns (id, {', '.join(KEYS)}, k100, k3, d, n)".encode())
    conn.execute("VACUUM (FREEZE, ANALYZE)")


class Generator:
    """Makes a query by chance; `rows` are those of the large table."""

    def __init__(self, rows: int, number: int) -> None:
        self.rows = rows
        self.chance = random.Random(number)
        self.joins: list[str] = []
        self.conditions: list[str] = []
        self.columns = list(KEYS)  # to join by
        self.groups = ["f.k10", "f.k3", "f.k1000"]

    def filter(self) -> None:
        """Add a condition on the large table."""
        chance = self.chance
        self.conditions.append(
            chance.choice(
                [
                    f"f.k100 < {chance.randint(1, 100)}",
                    f"f.k100 BETWEEN {chance.randint(0, 50)} AND {chance.randint(50, 99)}",
                    f"f.k3 = {chance.randint(0, 2)}",
                    f"f.d < {chance.randint(1, self.rows) / 2}",
                    f"f.n > {chance.randint(0, 990)}",
                    f"f.k1000 IN ({', '.join(str(chance.randint(0, 999)) for _ in range(chance.randint(1, 20)))})",
                ]
            )
        )

    def look_up(self) -> None:
        """Add a condition that leaves few rows, for which there is an index."""
        chance = self.chance
        low = chance.randint(0, 900_000)
        self.conditions.append(
            chance.choice(
                [
                    f"f.k1000000 BETWEEN {low} AND {low + chance.choice([10, 1_000, 10_000])}",
                    f"f.k100000 BETWEEN {low // 10} AND {low // 10 + chance.choice([10, 100, 1_000])}",
                    f"f.k1000 = {chance.randint(0, 999)}",
                    f"f.id BETWEEN {low} AND {low + chance.choice([1_000, 10_000, 100_000])}",
                ]
            )
        )

    def join(self) -> None:
        """Join with a small table, of which a part is left; or look only whether there is a match."""
        chance = self.chance
        column = self.columns.pop(chance.randrange(len(self.columns)))
        name = f"s_{column}"
        share = chance.choice(["", f" AND {name}.share < {chance.choice([1, 10, 50, 200, 500, 900])}"])
        kind = chance.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "EXISTS", "NOT EXISTS"])
        if kind.endswith("EXISTS"):
            self.conditions.append(f"{kind} (SELECT 1 FROM small_{column} {name} WHERE {name}.id = f.{column}{share})")
            return
        self.joins.append(f"{kind} small_{column} {name} ON {name}.id = f.{column}{share}")
        self.groups.append(f"{name}.g")

    def subquery(self) -> None:
        """Compare a value with the average of its group."""
        self.conditions.append("f.n > (SELECT avg(g.n) FROM narrow g WHERE g.k100000 = f.k100000)")

    def query(self) -> str:
        """The query, none of which returns many rows."""
        chance = self.chance
        few = chance.random() < 0.4
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3])):
            self.join()
        if few:
            self.look_up()
        for _ in range(chance.choice([0, 1, 1, 2])):
            self.filter()
        if few and chance.random() < 0.15:
            self.subquery()
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        source = f"FROM narrow f {' '.join(self.joins)}{where}"
        calls = ", ".join(chance.sample(_AGGREGATES, chance.randint(1, 3)))
        # of more groups by several columns PostgreSQL estimates a tenth of the rows
        keys = chance.choice([*self.groups, "f.k10000", "f.k100000", ", ".join(chance.sample(self.groups, 2))])
        return chance.choice(
            [
                f"SELECT {calls} {source}",
                f"SELECT {calls} {source}",
                f"SELECT {keys}, {calls} {source} GROUP BY {keys} ORDER BY count(*) DESC, {keys} LIMIT 10",
                f"SELECT {keys}, {calls} {source} GROUP BY {keys} ORDER BY count(*) DESC, {keys} LIMIT 10",
                f"SELECT f.id, f.n, f.d {source} ORDER BY f.n, f.id LIMIT 100",
                "SELECT count(*), max(place) FROM (SELECT row_number() OVER (PARTITION BY f.k1000 ORDER BY f.id)"
                f" AS place {source}) AS ranked",
                f"SELECT count(*) FROM (SELECT DISTINCT {keys} {source}) AS different",
            ]
        )


def measure(conn: Connection, rows: int, seed: int) -> list[Plan]:
    """Estimate and measure the plans of queries by chance, CPU time of one process."""
    contest.CLOCK = "cpu"
    found = []
    for number in range(seed, seed + NUMBER):
        query = Query(f"g{number}", Generator(rows, number).query())
        plan = Plan(contest.check(conn, query, tpcds.SIDES, 1)[0])
        for side in tpcds.SIDES:
            contest.prepare(conn, side, 1)
            plan.estimated[side.name] = estimates.milliseconds(conn, query.sql, side)
            plan.before[side.name] = estimates.before(conn, query.sql)
        for turn in range(ROUNDS):
            contest.alternate(conn, plan.result, tpcds.SIDES, turn)
        found.append(plan)
        if (number - seed) % 25 == 24:
            common.say(f"{number - seed + 1} of {NUMBER} queries by chance")
    return found


def calibration(found: Sequence[Plan]) -> dict[str, float]:
    """What part of the estimates is right, by side and of all."""
    return estimates.right(
        {
            side.name: [
                plan.estimated[side.name] / measured
                for plan in found
                if (measured := plan.measured(side.name)) >= estimates.LEAST_SECONDS * 1000
            ]
            for side in tpcds.SIDES
        }
    )


def table(found: Sequence[Plan]) -> None:
    """Print what is estimated and measured, side by side."""
    common.table(
        "plans by chance, CPU ms: estimated and measured",
        ("query", *(f"{side.name}{what}" for side in tpcds.SIDES for what in (", estimated", ", measured"))),
        [
            [
                plan.result.query.key,
                *(
                    text
                    for side in tpcds.SIDES
                    for text in (
                        (f"{plan.estimated[side.name]:,.1f}", f"{plan.measured(side.name):,.1f}")
                        if side == POSTGRESQL or not plan.result.same(side)
                        else ("same", "plan")
                    )
                ),
            ]
            for plan in found
        ],
    )
