"""The page of a run: one HTML file with everything in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jinja2

from pgbillion import __version__
from pgbillion.cycle.plan import Outcome, Phase
from pgbillion.durability.profiles import PROFILES
from pgbillion.errors import UserError
from pgbillion.report import charts
from pgbillion.report.chapter import Chapter
from pgbillion.report.figures import Figures, Series, figures
from pgbillion.rows.scale import Scale as RowScale
from pgbillion.shards.scale import Scale as ShardScale
from pgbillion.tables import text
from pgbillion.tables.run import Run
from pgbillion.tables.scale import Scale


def write(run: Run, path: Path) -> Figures:
    """Write the page of a run. Raises UserError when there is nothing to show, or the file cannot be written."""
    shown = figures(run)
    if not shown.tables.x:
        raise UserError(f"the run in {run.folder} has no samples: there is nothing to report yet")
    _write(path, render(run, shown))
    return shown


def render(run: Run, shown: Figures) -> str:
    """Return the page as text."""
    return _template("run.html.j2").render(
        run=run,
        plan=run.plan,
        server=run.server,
        figures=shown,
        charts=_charts(shown),
        checks=run.checks(),
        afterwards=run.afterwards(),
        chapters=[
            {"chapter": chapter, "svg": chapter_chart(chapter, f"chapter{index + 1}")}
            for index, chapter in enumerate(run.chapters())
        ],
        version=__version__,
        now=time.time(),
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
    chart = _chart_over(lines, "Tables per second by workers", name="scale", over="workers")
    page = _template("scale.html.j2").render(
        result=result, best=result.best, server=result.server, chart=chart, version=__version__, now=time.time()
    )
    _write(path, page)


def write_rows(result: RowScale, path: Path) -> None:
    """Write the page of how an aggregate scales. Raises UserError when it cannot be written."""
    chapter = result.chapter()
    best = result.best[1]
    page = _template("rows.html.j2").render(
        entry={"chapter": chapter, "svg": chapter_chart(chapter, "rows")},
        chapter=chapter,
        best=best,
        rate=best.rate(best.pgbillion),
        server=result.server,
        version=__version__,
        now=time.time(),
    )
    _write(path, page)


def write_shards(result: ShardScale, path: Path) -> None:
    """Write the page of how a query scales over shards. Raises UserError when it cannot be written."""
    chapter = result.chapter()
    page = _template("shards.html.j2").render(
        entry={"chapter": chapter, "svg": chapter_chart(chapter, "shards")},
        chapter=chapter,
        best=result.best,
        server=result.server,
        version=__version__,
        now=time.time(),
    )
    _write(path, page)


def write_cycle(outcome: Outcome, path: Path) -> None:
    """Write the page of a cycle. Raises UserError when it cannot be written."""
    profiles = list(outcome.request.profiles)
    labels = list(dict.fromkeys(result.contestant.label for result in outcome.results))
    seconds = {
        (result.contestant.label, result.contestant.profile, phase): result.seconds(phase)
        for result in outcome.results
        for phase in Phase
    }
    drawn = [
        {
            "phase": phase,
            "svg": charts.bar_chart(
                {label: [seconds.get((label, profile, phase)) for profile in profiles] for label in labels},
                [str(profile) for profile in profiles],
                f"Seconds to {phase}, by profile",
                name=f"cycle-{phase}",
            ),
        }
        for phase in Phase
    ]
    page = _template("cycle.html.j2").render(
        outcome=outcome,
        phases=list(Phase),
        profiles={str(profile): PROFILES[profile] for profile in profiles},
        charts=drawn,
        server=outcome.server,
        version=__version__,
        now=time.time(),
    )
    _write(path, page)


def chapter_chart(chapter: Chapter, name: str) -> str | None:
    """Return the chart of a chapter as SVG, with ids of its own by ``name``, or None when it has none."""
    if not chapter.lines:
        return None
    lines = [Series(line.name, line.x, line.y) for line in chapter.lines]
    return _chart_over(lines, chapter.label, name=name, over=chapter.over)


def _chart_over(lines: list[Series], label: str, *, name: str, over: str) -> str:
    """Return a chart over what is not time, wide and narrow: a telephone would show an empty part of the wide one."""
    wide = charts.line_chart(lines, label, name=name, wide=True, over=over)
    narrow = charts.line_chart(lines, label, name=f"{name}-narrow", over=over)
    return f'<div class="broad">{wide}</div><div class="narrow">{narrow}</div>'


def _template(name: str) -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pgbillion.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=text.count, size=text.size, duration=text.duration, date=_date, share=lambda value: f"{value:.2%}"
    )
    return environment.get_template(name)


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the page cannot be written to {path}: {error.strerror}", "choose another file with --output"
        ) from error


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
    add("Disk", "Growth since the run began; catalogues with their indexes.", shown.disk, unit="bytes")
    add(
        "Memory",
        "Private memory of the backends that make the tables: shared buffers are not in it.",
        shown.memory,
        unit="bytes",
    )
    add("Load", "Of the whole machine, beside what the workers' backends use.", shown.load, unit="plain")
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


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds)).strip()
