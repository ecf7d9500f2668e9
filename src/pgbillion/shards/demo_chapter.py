"""The demo's chapter on shards: four servers of its own, the source's experiment over them, gone afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from pgbillion.common import text
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter
from pgbillion.shards import create, destroy, record, scale, servers

NAME = "shards"
TABLE = "t_sharded"
_SHARDS, _MOST, _ROUNDS = 4, 500_000, 5


def make(target: Target, state: Path, rows: int) -> Chapter:
    """Make the shards, measure over them, print what was seen, and return the chapter.

    Raises UserError when an answer is not the sum of the shards' own.
    """
    for left in list(record.all_sets(state)):
        # of a demo that was killed, and of a database that is gone
        if left.table == TABLE and left.embedded:
            servers.remove(state, left)
    # a small demo, as in a test, is small in all its parts
    request = create.Request(rows=min(_MOST, rows), count=_SHARDS, table=TABLE)
    made = create.execute(target, state, request, observe=_loading, say=lambda line: None)
    try:
        result = scale.measure(target, made.made, scale.numbers(made.made), _ROUNDS, say=lambda line: None)
    finally:
        destroy.execute(target, state, made.made)
    print(
        f"{_SHARDS} servers made in {text.duration(made.servers_seconds)}, {text.count(made.made.rows)} rows copied"
        f" into them: {text.duration(made.copy_seconds)}, {text.count(made.rate)} rows/s"
    )
    for point in result.points:
        print(
            f"{result.query}, {point.shards} shard{'s' if point.shards > 1 else ''}: {text.duration(point.median)},"
            f" {text.count(point.rate)} rows/s, the sum of the shards' own answers"
        )
    return result.chapter()


@contextlib.contextmanager
def _loading(total: int) -> Iterator[Callable[[int], None]]:
    with meter(total, "loaded", noun="rows") as update:
        yield update
