"""What all pages have in common: templates, the chart of a chapter, and the file, which needs no other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from pgbillion import __version__
from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.report import charts
from pgbillion.report.chapter import Bars, Chapter, Lines
from pgbillion.report.charts import Series, Shape


def drawn(lines: Sequence[Series], label: str, *, name: str, wide: bool = False, **options: Any) -> str:
    """Return a chart as HTML, with ids of its own by ``name``: it is drawn again for narrow screens.

    ``options`` are those of `charts.line_chart`. Scaled down to a telephone, text would be too small to read.
    """
    shape = Shape.WIDE if wide else Shape.HALF
    broad = charts.line_chart(lines, label, name=name, shape=shape, **options)
    narrow = charts.line_chart(lines, label, name=f"{name}-narrow", shape=Shape.NARROW, **options)
    return f'<div class="broad">{broad}</div><div class="narrow">{narrow}</div>'


def chart(shown: Bars | Lines, name: str) -> str:
    """Return a chart as HTML, with ids of its own by ``name``: bars also for lines of few points."""
    if isinstance(shown, Lines):
        if not shown.few:
            lines = [Series(line.name, line.x, line.y) for line in shown.lines]
            return drawn(lines, shown.label, name=name, wide=True, over=shown.over)
        shown = shown.bars()
    parts: Any = _environment("pgbillion.report").get_template("parts.html.j2").module
    return str(parts.bars(shown))


def entry(chapter: Chapter, name: str) -> dict[str, Any]:
    """Return a chapter as its template wants it."""
    return {"chapter": chapter, "chart": chart(chapter.chart, name) if chapter.chart else None}


def template(package: str, name: str) -> jinja2.Template:
    """Return a template of a package, which may include those that are here."""
    return _environment(package).get_template(name, globals={"version": __version__, "now": time.time()})


def _environment(package: str) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, "."), jinja2.PackageLoader("pgbillion.report", ".")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=text.count,
        brief=text.brief,
        size=text.size,
        duration=text.duration,
        date=_date,
        share=lambda value: f"{value:.2%}",
    )
    return environment


def write(path: Path, page: str) -> None:
    """Write a page. Raises UserError when it cannot be written."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"the page cannot be written to {path}: {error.strerror}", "choose another file with --output"
        ) from error


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds)).strip()
