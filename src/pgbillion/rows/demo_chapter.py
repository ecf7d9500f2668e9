"""The chapter of the demo about rows: the source's table, and its query with vectorized aggregation off and on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from pgbillion.common import text
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter
from pgbillion.rows import aggregate, load, scale

NAME = "rows"
MOST = 5_000_000
# a small demo, as in a test, is small in all its parts
_ROWS_PER_TABLE = 100
_ROUNDS = 3


def make(target: Target, tables: int) -> Chapter:
    """Load the table, measure over the machine's processes, print what was seen, and return the chapter.

    Raises UserError when the answers differ.
    """
    cores = os.cpu_count() or 1
    rows = min(MOST, tables * _ROWS_PER_TABLE)
    loaded = load.execute(target, load.Request(rows, workers=cores), observe=_loading, say=lambda line: None)
    print(f"{text.count(rows)} rows copied: {text.duration(loaded.copy_seconds)}, {text.count(loaded.rate)} rows/s")
    query = aggregate.source_query(load.TABLE)
    result = scale.measure(target, None, range(1, cores + 1), _ROUNDS, say=lambda line: None)
    for processes, point in result.points:
        alone, ours = (text.count(point.rate(side)) for side in (point.postgresql, point.pgbillion))
        print(
            f"{query}, {text.many(processes, 'process')}: PostgreSQL {alone} rows/s, pgbillion {ours}, "
            f"{point.ratio:.1f} times as fast, same answer"
        )
    return result.chapter()


@contextlib.contextmanager
def _loading(total: int) -> Iterator[Callable[[int], None]]:
    with meter(total, "loaded", noun="rows") as update:
        yield update
