"""The page of a ladder: a row for each rung, what was measured over the number of tables, and the operations on top."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.ladder import climb
from pgbillion.ladder import operations as operations_on_top
from pgbillion.ladder.climb import Rung
from pgbillion.ladder.record import Ladder
from pgbillion.report import page
from pgbillion.report.chapter import Drawing
from pgbillion.report.charts import Series
from pgbillion.tables.figures import without_moments
from pgbillion.tables.run import Run

COLUMNS = (
    "tables",
    "created in",
    "tables/s",
    "catalogs, each",
    "on disk, each",
    "WAL, each",
    "largest backend",
    "checkpoint",
    "first page of names",
    "a name looked up",
)
OPERATIONS = ("operation", "result", "time", "tables", "found")
_UNKNOWN = ""


@dataclass(frozen=True)
class Panel:
    """A chart over the number of tables; ``unit`` is count or bytes."""

    title: str
    note: str
    unit: str
    lines: list[Series]


def rows(rungs: Sequence[Rung]) -> list[list[str]]:
    """Return what was measured of the rungs, as people read it."""
    return [
        [
            text.count(rung.tables),
            text.duration(rung.seconds) if rung.seconds else _UNKNOWN,
            text.count(rung.rate) if rung.rate else _UNKNOWN,
            text.size(rung.catalog_bytes),
            text.size(rung.used_bytes),
            text.size(rung.wal_written / rung.made) if rung.wal_written else _UNKNOWN,
            text.size(rung.peak_backend_memory) if rung.peak_backend_memory else _UNKNOWN,
            text.duration(rung.checkpoint_seconds),
            text.duration(rung.first_page_seconds),
            text.duration(rung.lookup_seconds),
        ]
        for rung in rungs
    ]


def operations(ladder: Ladder) -> list[list[str]]:
    """Return what was measured on top of the tables, as people read it."""
    titles = operations_on_top.titles()
    return [
        [
            titles.get(one["name"], one["name"]),
            one["result"],
            text.duration(one["seconds"]),
            text.count(one["tables"]),
            one["summary"],
        ]
        for one in ladder.operations()
    ]


def write(ladder: Ladder, path: Path) -> None:
    """Write the page of a ladder. Raises UserError when there is nothing to show, or the file cannot be written."""
    rungs = [Rung(**values) for values in ladder.results()]
    if not rungs:
        raise UserError("no rung of the ladder is complete: there is nothing to report yet")
    found = climb.runs(ladder)
    points = climb.progress(found)
    made = page.template("pgbillion.ladder", "ladder.html.j2").render(
        ladder=ladder,
        rungs=rungs,
        top=rungs[-1],
        seconds=sum(rung.seconds for rung in rungs),
        flatness=climb.flatness(points),
        columns=COLUMNS,
        rows=rows(rungs),
        charts=_drawings(rungs, found),
        checks=[
            [check["name"], check["result"], text.duration(check["seconds"]), check["summary"]]
            for check in ladder.checks()
        ],
        operations_columns=[name.capitalize() for name in OPERATIONS],
        operations=operations(ladder),
        server=ladder.server,
    )
    page.write(path, made)


def panels(rungs: Sequence[Rung], found: Sequence[Run]) -> list[Panel]:
    """Return what is drawn of a ladder over its number of tables, without what nothing is known of."""
    memory = [
        (run.plan.first + sample["total"], sample["memory"]["largest"])
        for run in found
        for sample in run.samples()
        if sample["memory"]["largest"] is not None
    ]
    tables: list[float] = [rung.tables for rung in rungs]
    wanted = [
        Panel("Tables per second", "Tables committed between two samples.", "count", [_rates(found)]),
        Panel(
            "Bytes for each table",
            "Of catalogs with their indexes as PostgreSQL sees them, and as the file system keeps them.",
            "bytes",
            [
                Series("catalogs", tables, [rung.catalog_bytes for rung in rungs]),
                Series("on disk", tables, [rung.used_bytes for rung in rungs]),
            ],
        ),
        Panel(
            "Memory",
            "Private memory of the largest backend that makes tables: shared buffers are not in it.",
            "bytes",
            [Series("largest backend", [at for at, _ in memory], [value for _, value in memory])],
        ),
    ]
    return [one for one in wanted if any(line.known for line in one.lines)]


def _drawings(rungs: Sequence[Rung], found: Sequence[Run]) -> list[Drawing]:
    drawn: list[Drawing] = []
    for index, one in enumerate(panels(rungs, found)):
        wide = index == 0
        name = f"ladder{index + 1}"
        html = page.drawn(one.lines, one.title, name=name, wide=wide, over="tables", unit=one.unit)
        drawn.append(Drawing(one.title, one.note, html, wide))
    return drawn


def _rates(found: Sequence[Run]) -> Series:
    """Return tables per second over the number of tables, in the middle between two samples."""
    x: list[float] = []
    y: list[float | None] = []
    for run in found:
        for one, two in itertools.pairwise(without_moments(run.samples())):
            seconds = two["elapsed"] - one["elapsed"]
            if one["attempt"] == two["attempt"] and seconds > 0:
                x.append(run.plan.first + (one["total"] + two["total"]) / 2)
                y.append((two["total"] - one["total"]) / seconds)
    return Series("between two samples", x, y)
