"""The source's experiment: the same query over 1, 2, 4 … N shards with as many rows each."""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from psycopg import sql

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter, Details, Line, Lines
from pgbillion.rows import aggregate, answers
from pgbillion.server import describe
from pgbillion.shards import coordinator, query
from pgbillion.shards.record import Engine, Set


@dataclass(frozen=True)
class Point:
    """What a number of shards took, in seconds, round by round; ``first`` is the run that connected to them."""

    shards: int
    rows: int
    first: float
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the seconds."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.median

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "median": self.median, "rows_per_second": round(self.rate)}


@dataclass(frozen=True)
class Scale:
    """What was measured, and on what (see describe.machine).

    ``here`` tells how many of the shards are on the coordinator's machine, which has ``cores`` CPU cores. ``seed`` made
    the order of each round.
    """

    points: tuple[Point, ...]
    rows_per_shard: int
    query: str
    plan: str
    here: int
    cores: int | None
    seed: int
    server: dict[str, Any]

    @property
    def best(self) -> Point:
        """The one with most rows per second."""
        return max(self.points, key=lambda point: point.rate)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        values = {name: getattr(self, name) for name in ("rows_per_shard", "query", "plan", "here", "cores", "seed")}
        return {"points": [point.to_json() for point in self.points], **values, "server": self.server}

    @property
    def sharing(self) -> str:
        """What to know of shards on one machine, in a sentence."""
        if self.here < 2 or self.cores is None:
            return ""
        which = "All shards" if self.here == max(point.shards for point in self.points) else f"{self.here} shards"
        return (
            f"{which} are on one machine and share its {self.cores} CPU core{'s' if self.cores > 1 else ''}: time grows"
            " as soon as they are busy. In the experiment this repeats, with servers of their own, it stayed the same."
        )

    def chapter(self) -> Chapter:
        """Return it as a chapter of a page."""
        first = self.points[0]
        rows = [
            [
                str(point.shards),
                text.count(point.rows),
                text.duration(point.median),
                f"{text.count(point.rate)}/s",
                f"{point.rate / first.rate:.2f}",
                text.duration(point.first),
            ]
            for point in self.points
        ]
        shards: list[float] = [point.shards for point in self.points]
        words = (
            f"{self.query}, over shards with {text.count(self.rows_per_shard)} rows each; medians of"
            f" {len(first.seconds)} runs, in turn. The first answer of each number is the sum of the shards' own."
        )
        return Chapter(
            "Rows per second over shards",
            f"{words} {self.sharing}".rstrip(),
            columns=["Shards", "Rows", "Time", "Rows per second", "Compared with one shard", "With connecting"],
            rows=rows,
            chart=Lines(
                "Rows per second by shards",
                "shards",
                [
                    Line("measured", shards, [point.rate for point in self.points]),
                    Line(
                        "if no time were added",
                        shards,
                        [first.rate / first.shards * point.shards for point in self.points],
                    ),
                ],
            ),
            details=[Details("The plan", aggregate.excerpt(self.plan, 40))],
        )


def numbers(found: Set) -> list[int]:
    """Return 1, 2, 4 … and all of the shards."""
    most = len(found.members)
    return sorted({2**power for power in range(most.bit_length()) if 2**power <= most} | {most})


def measure(
    target: Target,
    found: Set,
    shards: Sequence[int],
    rounds: int,
    *,
    seed: int | None = None,
    say: Callable[[str], None],
) -> Scale:
    """Run the source's query over the first of the shards, for each number of them, in random order.

    For each number there is a partitioned table in a transaction that is rolled back. Raises UserError for numbers of
    shards that are not there and for an answer that is not the sum of the shards' own.
    """
    if found.engine is Engine.CITUS:
        raise UserError("Citus has its rows on all nodes at once", "scale is for shards made with --engine fdw")
    if shards[-1] > len(found.members):
        raise UserError(
            f"there are {len(found.members)} shards, not {shards[-1]}", "give smaller numbers, or create more shards"
        )
    seed = secrets.randbits(32) if seed is None else seed
    order = random.Random(seed)
    first: dict[int, float] = {}
    seconds: dict[int, list[float]] = {number: [] for number in shards}
    sums = _sums(found, shards[-1])
    with coordinator.session(target, read_only=False) as conn, conn.transaction(force_rollback=True):
        queries = {number: _make(conn, found, number) for number in shards}
        for number in shards:
            start = time.perf_counter()
            got = answers.answer(conn.execute(queries[number]))
            first[number] = time.perf_counter() - start
            query.compare(got, sums[:number])
        for _ in range(rounds):
            turn = list(shards)
            order.shuffle(turn)
            for number in turn:
                start = time.perf_counter()
                conn.execute(queries[number])
                seconds[number].append(time.perf_counter() - start)
            say("  ".join(f"{number}: {seconds[number][-1] * 1000:,.1f} ms" for number in shards))
        plan = query.plan(conn, queries[shards[-1]].decode())
        machine = Host.of(conn)
        server = describe.machine(conn, target, machine, describe.QUERY_SETTINGS)
        here = _here(found) if machine is not None else 0
    hardware = server["hardware"] or {}
    return Scale(
        points=tuple(
            Point(number, number * found.layout.rows, first[number], tuple(seconds[number])) for number in shards
        ),
        rows_per_shard=found.layout.rows,
        query=query.default_query(found),
        plan=plan,
        here=min(here, shards[-1]),
        cores=hardware.get("cores"),
        seed=seed,
        server=server,
    )


def _make(conn: Connection, found: Set, number: int) -> bytes:
    """Make a table over the first shards and return the query over it."""
    table = sql.Identifier(found.schema, f"{found.table}_over_{number}")
    # a list of one's own: the partitions' bounds need only differ
    conn.execute(
        sql.SQL("CREATE TABLE {} (id {}, {}) PARTITION BY LIST ({})").format(
            table,
            sql.SQL("bigint" if found.layout.wide else "int"),
            sql.SQL(coordinator.COLUMNS),
            found.layout.key(),
        )
    )
    for shard, member in enumerate(found.members[:number]):
        coordinator.add_partition(conn, found, member, shard, table, f"{found.table}_over_{number}_{shard + 1}")
    return sql.SQL("SELECT grp, count(data) FROM {} GROUP BY 1").format(table).as_bytes(conn)


def _sums(found: Set, number: int) -> list[Counter[bytes | None]]:
    """Return what each of the first shards answers by itself."""
    return query.counts(
        [(member.target, sql.Identifier(member.schema, found.table)) for member in found.members[:number]]
    )


def _here(found: Set) -> int:
    """Return how many shards are on this machine."""
    here = 0
    for member in found.members:
        with member.target.connect() as conn:
            here += Host.of(conn) is not None
    return here
