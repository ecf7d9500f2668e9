"""The chapter of the demo about rows: a GROUP BY by PostgreSQL's plan, vectorized, and from a columnar index."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace

from pgbillion.common import search_path, text
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter, Figure, Lines
from pgbillion.rows import aggregate, columns, load, scale

MOST = 5_000_000
# a small demo, as in a test, is small in all its parts
_ROWS_PER_TABLE = 100
_ROUNDS = 5
_NAMES = {aggregate.OURS: "vectorized", aggregate.COLUMNS: "columnar index"}


def make(target: Target, tables: int) -> Chapter:
    """Load the table, index it, measure with one process and with one for each core, and return the chapter.

    Raises UserError when the answers differ.
    """
    cores = os.cpu_count() or 1
    rows = min(MOST, tables * _ROWS_PER_TABLE)
    loaded = load.execute(target, load.Request(rows, workers=cores), observe=_loading, say=lambda line: None)
    with columns.session(target) as conn:
        schema = search_path.schema(conn)
        assert schema is not None
        made = columns.create(conn, schema, load.TABLE, ("grp", "data"), concurrently=False, say=lambda line: None)
        (status,) = columns.status(conn, columns.tables_named(conn, [load.TABLE]))
    result = scale.measure(target, None, sorted({1, cores}), _ROUNDS, say=lambda line: None)
    figures = [
        Figure(f"GROUP BY, {text.many(processes, 'process')}, {_NAMES[name]}", point.postgresql.median, side.median)
        for processes, point in result.points
        for name, side in list(point.sides.items())[1:]
    ]
    first = result.points[0][1]
    exact = all(point.exact for _, point in result.points)
    chapter = result.chapter()
    assert isinstance(chapter.chart, Lines)
    # of so few milliseconds
    slower = result.best[0] == 1 and len(result.points) > 1
    return replace(
        chapter,
        title="Analytics on ordinary tables",
        text=f"{first.query}, over {text.count(first.rows)} rows of an ordinary table, all in memory; medians of "
        f"{_ROUNDS} runs, alternating. All ways returned the same answer"
        f"{'' if exact else ', except for the order in which floats are added'}. "
        "PostgreSQL is its own plan: a sequential scan and a hash aggregate.",
        figures=figures,
        chart=Lines(
            "Rows per second by processes",
            "processes",
            [replace(line, name=_NAMES.get(line.name, line.name)) for line in chapter.chart.lines],
        ),
        columns=[],
        rows=[],
        remark=f"COPY loaded the rows in {text.duration(loaded.copy_seconds)}. The columnar index on grp and data was "
        f"built in {text.duration(made.seconds)} and takes {text.size(status.index_bytes)}, {status.bytes_share:.0%} "
        "of the table. Queries read it instead of the table wherever it is current."
        + (" Starting a second process takes longer than the query from the index itself." if slower else ""),
        name="rows",
    )


@contextlib.contextmanager
def _loading(total: int) -> Iterator[Callable[[int], None]]:
    with meter(total, "loaded", noun="rows") as update:
        yield update
