"""The source's chart: rows per second over the number of processes, by each side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pgbillion.common import text
from pgbillion.common.host import Host
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter, Details, Line, Lines
from pgbillion.rows import aggregate
from pgbillion.rows.aggregate import COLUMNS, Comparison
from pgbillion.rows.load import TABLE
from pgbillion.server import describe


@dataclass(frozen=True)
class Scale:
    """A comparison for each number of processes asked for, and what it was made on (see describe.machine)."""

    points: tuple[tuple[int, Comparison], ...]
    server: dict[str, Any]

    @property
    def best(self) -> tuple[int, Comparison]:
        """The one with most rows per second by the extension."""
        return max(self.points, key=lambda point: point[1].rate(point[1].best))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        points = [{"asked_processes": number, **point.to_json()} for number, point in self.points]
        return {"points": points, "best": self.best[0], "server": self.server}

    def chapter(self) -> Chapter:
        """Return it as a chapter of a page."""
        first = self.points[0][1]
        sides = list(first.sides)
        rows = [
            [
                str(number),
                *(f"{text.count(point.rate(side))}/s" for side in point.sides.values()),
                *(f"{point.times(point.sides[name]):.1f}" for name in sides[1:]),
                text.listed([str(side.processes) for side in point.sides.values()]),
            ]
            for number, point in self.points
        ]
        asked: list[float] = [number for number, _ in self.points]
        exact = all(point.exact for _, point in self.points)
        agreed = "equal to the last bit" if exact else "equal, except for the order in which floats are added"
        note = "" if first.vectorized else f" pgbillion has PostgreSQL's plan: {first.reason}."
        if first.columns is not None:
            note += " pgbillion reads the heap, and columns a columnar index."
        return Chapter(
            "Rows per second",
            f"{first.query}: {text.count(first.rows)} rows of plain heap, medians of "
            f"{len(first.postgresql.seconds)} runs of each in turn. The answers were compared and are {agreed}.{note}",
            columns=["Processes", *sides, *_times(sides), "Processes at work"],
            rows=rows,
            chart=Lines(
                "Rows per second by processes",
                "processes",
                [Line(name, asked, [point.rate(point.sides[name]) for _, point in self.points]) for name in sides],
            ),
            details=[Details("The fastest plan", aggregate.excerpt(self.best[1].plan))],
        )


def _times(sides: Sequence[str]) -> list[str]:
    """Return what the columns are called that compare the sides with PostgreSQL's."""
    return ["Times as fast"] if COLUMNS not in sides else [f"{name}, times as fast" for name in sides[1:]]


def measure(
    target: Target,
    query: str | None,
    processes: Sequence[int],
    rounds: int,
    *,
    table: str = TABLE,
    say: Callable[[str], None],
) -> Scale:
    """Compare the query with each number of processes. Raises UserError as aggregate.compare does."""
    points: list[tuple[int, Comparison]] = []
    with aggregate.session(target) as conn:
        server = describe.machine(conn, target, Host.of(conn), describe.QUERY_SETTINGS)
        for number in processes:
            say(text.many(number, "process"))
            aggregate.be_willing(conn, number)
            points.append((number, aggregate.measure(conn, query, rounds, say, table=table)))
    return Scale(tuple(points), server)
