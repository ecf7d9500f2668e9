"""The pages of a run and of a search for the best number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.report import page
from pgbillion.report.chapter import Drawing, Line, Lines
from pgbillion.report.charts import Series
from pgbillion.tables.figures import Figures, figures
from pgbillion.tables.run import Run
from pgbillion.tables.scale import Scale


def write(run: Run, path: Path) -> Figures:
    """Write the page of a run. Raises UserError when there is nothing to show, or the file cannot be written."""
    shown = figures(run)
    if not shown.tables.x:
        raise UserError(f"the run in {run.folder} has no samples: there is nothing to report yet")
    page.write(path, render(run, shown))
    return shown


def render(run: Run, shown: Figures) -> str:
    """Return the page as text."""
    return page.template("pgbillion.tables", "run.html.j2").render(
        run=run,
        plan=run.plan,
        server=run.server,
        figures=shown,
        charts=drawings(shown),
        checks=checks(run),
    )


def write_scale(result: Scale, path: Path) -> None:
    """Write the page of a search for the best number of workers. Raises UserError when it cannot be written."""
    spaces = sorted({point.tablespaces for point in result.points})
    lines = [
        Line(
            f"{number} tablespaces" if number else "no tablespaces",
            [point.workers for point in result.points if point.tablespaces == number],
            [point.rate for point in result.points if point.tablespaces == number],
        )
        for number in spaces
    ]
    chart = page.chart(Lines("Tables per second by workers", "workers", lines), "scale")
    made = page.template("pgbillion.tables", "scale.html.j2").render(
        result=result, best=result.best, server=result.server, chart=chart
    )
    page.write(path, made)


def checks(run: Run) -> list[list[str]]:
    """Return what the last `verify` of a run found: check, result, time, what was found."""
    return [
        [check["name"], check["result"], text.duration(check["seconds"]), check["summary"]] for check in run.checks()
    ]


def drawings(shown: Figures) -> list[Drawing]:
    """Return the charts that have anything to show."""
    made: list[dict[str, Any]] = []

    def add(title: str, note: str, lines: list[Series], **options: Any) -> None:
        lines = [line for line in lines if line.known]
        if lines:
            made.append({"title": title, "note": note, "lines": lines, "options": options})

    add(
        "Tables per second",
        "Tables committed between two samples.",
        [shown.rates],
        area=True,
        mean=shown.rate,
    )
    add("Tables per second, by worker", "Each worker makes one contiguous range.", shown.worker_rates)
    add("Tables", "All tables of the run that are committed.", [shown.tables], area=True)
    add("Disk", "Growth since the run began; catalogs with their indexes.", shown.disk, unit="bytes")
    add(
        "Memory",
        "Private memory of the backends that make the tables: shared buffers are not in it.",
        shown.memory,
        unit="bytes",
    )
    add("Load", "Of the whole machine, compared with what the workers' backends use.", shown.load, unit="plain")
    found = []
    for index, chart in enumerate(made):
        # the first fills a row of its own, and so does one that would be left alone in its row
        wide = index == 0 or (index % 2 == 1 and index == len(made) - 1)
        html = page.drawn(
            chart["lines"],
            chart["title"],
            name=f"chart{index + 1}",
            wide=wide,
            marks=shown.resumed_at,
            **chart["options"],
        )
        found.append(Drawing(chart["title"], chart["note"], html, wide))
    return found
