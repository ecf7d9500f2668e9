"""The chapter of the demo about columns beside the heap: an index, what it covers, and the query by three sides."""

from __future__ import annotations

import os
from dataclasses import replace

from pgbillion.common import search_path, text
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter
from pgbillion.rows import advice, aggregate, columns, load, scale, workload

# after that on rows
NAME = "rows_columns"
_ROUNDS = 3


def make(target: Target) -> Chapter:
    """Index what the query of the chapter on rows reads, measure it again, and return the chapter.

    Raises UserError when the answers differ.
    """
    query = aggregate.source_query(load.TABLE)
    with columns.session(target) as conn:
        advised = advice.advise(conn, workload.of_text(query, "the query"), None, strict=True).indexes
        for one in advised:
            made = columns.create(conn, one.schema, one.table, one.columns, concurrently=False, say=lambda line: None)
            print(f"{one.create}: {text.duration(made.seconds)}, {text.size(one.bytes)} were estimated")
        schema = search_path.schema(conn)
        if not advised and schema is not None:
            # a small demo's table is not worth it, except to be shown
            columns.create(conn, schema, load.TABLE, ("grp", "data"), concurrently=False, say=lambda line: None)
        seen = columns.status(conn, columns.tables_named(conn, [load.TABLE]))
    cores = os.cpu_count() or 1
    result = scale.measure(target, None, range(1, cores + 1), _ROUNDS, say=lambda line: None)
    for processes, point in result.points:
        if point.columns is not None:
            print(
                f"{query}, {text.many(processes, 'process')}: {text.count(point.rate(point.columns))} rows/s from "
                f"columns, {point.times(point.columns):.1f} times as fast as PostgreSQL, same answer"
            )
    measured, shown = result.chapter(), columns.status_table(seen)
    first = result.points[0][1]
    rates = text.listed([f"{name} {text.count(first.rate(side))} rows/s" for name, side in first.sides.items()])
    # of so few milliseconds
    slower = result.best[0] == 1 and len(result.points) > 1
    note = " To start another process takes longer than the query by one." if slower else ""
    return replace(
        measured,
        title="Columns beside the heap",
        text="An index with the access method columns holds a copy of some columns of a table, which stays plain heap. "
        "Vectorized aggregation reads it instead of the heap, block by block, wherever the copy is right, and "
        f"the heap elsewhere. {query}, by one process: {rates}. pgbillion is vectors over the heap. "
        f"The answers were compared.{note}",
        label="Rows per second by processes, from heap and columns",
        columns=shown.columns,
        rows=shown.rows,
    )
