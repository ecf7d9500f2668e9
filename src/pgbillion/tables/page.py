"""The pages of a run and of a search for the best number of workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgbillion.common.errors import UserError
from pgbillion.report import charts, page
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
        charts=_charts(shown),
        checks=run.checks(),
        afterwards=run.afterwards(),
        chapters=[
            {"chapter": chapter, "svg": page.chapter_chart(chapter, f"chapter{index + 1}")}
            for index, chapter in enumerate(run.chapters())
        ],
    )


def write_scale(result: Scale, path: Path) -> None:
    """Write the page of a search for the best number of workers. Raises UserError when it cannot be written."""
    spaces = sorted({point.tablespaces for point in result.points})
    lines = [
        Series(
            f"{number} tablespaces" if number else "no tablespaces",
            [point.workers for point in result.points if point.tablespaces == number],
            [point.rate for point in result.points if point.tablespaces == number],
        )
        for number in spaces
    ]
    chart = page.chart_over(lines, "Tables per second by workers", name="scale", over="workers")
    made = page.template("pgbillion.tables", "scale.html.j2").render(
        result=result, best=result.best, server=result.server, chart=chart
    )
    page.write(path, made)


def _charts(shown: Figures) -> list[dict[str, Any]]:
    """Return the charts that have anything to show: title, what it means, SVG."""
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
    for index, chart in enumerate(made):
        # the first fills a row of its own, and so does one that would be left alone in its row
        chart["wide"] = index == 0 or (index % 2 == 1 and index == len(made) - 1)
        chart["svg"] = charts.line_chart(
            chart["lines"],
            chart["title"],
            name=f"chart{index + 1}",
            wide=chart["wide"],
            marks=shown.resumed_at,
            **chart["options"],
        )
    return made
