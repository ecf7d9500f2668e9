"""The page of how a query scales over shards."""

from __future__ import annotations

from pathlib import Path

from pgbillion.report import page
from pgbillion.shards.scale import Scale


def write(result: Scale, path: Path) -> None:
    """Write the page of how a query scales over shards. Raises UserError when it cannot be written."""
    chapter = result.chapter()
    made = page.template("pgbillion.shards", "shards.html.j2").render(
        entry=page.entry(chapter, "shards"),
        chapter=chapter,
        best=result.best,
        server=result.server,
    )
    page.write(path, made)
