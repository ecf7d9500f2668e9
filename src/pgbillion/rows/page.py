"""The page of how an aggregate scales."""

from __future__ import annotations

from pathlib import Path

from pgbillion.report import page
from pgbillion.rows.scale import Scale


def write(result: Scale, path: Path) -> None:
    """Write the page of how an aggregate scales. Raises UserError when it cannot be written."""
    chapter = result.chapter()
    best = result.best[1]
    made = page.template("pgbillion.rows", "rows.html.j2").render(
        entry=page.entry(chapter, "rows"),
        chapter=chapter,
        best=best,
        rate=best.rate(best.best),
        side=best.best,
        times=best.times(best.best),
        server=result.server,
    )
    page.write(path, made)
