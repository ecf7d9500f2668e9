"""What all pages have in common: templates, the chart of a chapter, and the file, which needs no other."""

from __future__ import annotations

import time
from pathlib import Path

import jinja2

from pgbillion import __version__
from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.report import charts
from pgbillion.report.chapter import Chapter
from pgbillion.report.charts import Series


def chapter_chart(chapter: Chapter, name: str) -> str | None:
    """Return the chart of a chapter as SVG, with ids of its own by ``name``, or None when it has none."""
    if not chapter.lines:
        return None
    lines = [Series(line.name, line.x, line.y) for line in chapter.lines]
    return chart_over(lines, chapter.label, name=name, over=chapter.over)


def chart_over(lines: list[Series], label: str, *, name: str, over: str) -> str:
    """Return a chart over what is not time, wide and narrow: a telephone would show an empty part of the wide one."""
    wide = charts.line_chart(lines, label, name=name, wide=True, over=over)
    narrow = charts.line_chart(lines, label, name=f"{name}-narrow", over=over)
    return f'<div class="broad">{wide}</div><div class="narrow">{narrow}</div>'


def template(package: str, name: str) -> jinja2.Template:
    """Return a template of a package, which may include those that are here."""
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package, "."), jinja2.PackageLoader("pgbillion.report", ".")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=text.count, size=text.size, duration=text.duration, date=_date, share=lambda value: f"{value:.2%}"
    )
    return environment.get_template(name, globals={"version": __version__, "now": time.time()})


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
