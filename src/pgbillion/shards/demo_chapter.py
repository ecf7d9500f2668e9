"""The demo's chapter on shards: four servers of its own, one query over them, beside postgres_fdw; gone afterwards."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from psycopg import sql

from pgbillion.common import text
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.report.chapter import Bar, Bars, Chapter, Figure, Group
from pgbillion.shards import coordinator, create, destroy, record, scale, servers

TABLE = "t_sharded"
_SHARDS, _MOST, _ROUNDS, _THEIR_ROUNDS = 4, 250_000, 5, 3
# what postgres_fdw is usually set to for much data; its default, 100, is several times slower
_FETCH_SIZE = 50_000


def make(target: Target, state: Path, rows: int) -> Chapter:
    """Make the shards, measure over them, and return the chapter.

    Raises UserError when an answer is not the sum of the shards' own.
    """
    forget(state)
    # a small demo, as in a test, is small in all its parts
    request = create.Request(rows=min(_MOST, rows), count=_SHARDS, table=TABLE)
    made = create.execute(target, state, request, observe=_loading, say=lambda line: None)
    try:
        result = scale.measure(target, made.made, [_SHARDS], _ROUNDS, say=lambda line: None)
        theirs = _by_postgres_fdw(target, made.made)
    finally:
        destroy.execute(target, state, made.made)
    (point,) = result.points
    shared = f" All share the {result.cores} CPU cores of this machine." if result.cores else ""
    return replace(
        result.chapter(),
        title="A table over four servers",
        text=f"{result.query}, over {_SHARDS} servers with {text.count(request.rows)} rows each; medians of {_ROUNDS} "
        f"runs, of postgres_fdw {_THEIR_ROUNDS}. PostgreSQL is postgres_fdw with fetch_size = "
        f"{text.count(_FETCH_SIZE)} and async_capable on, which fetches all rows; pgbillion_fdw lets each server "
        "aggregate its own and combines the states.",
        figures=[Figure(f"GROUP BY over {_SHARDS} servers", theirs, point.median)],
        chart=Bars(
            "Rows per second",
            [
                Group(
                    "",
                    [
                        Bar(name, point.rows / seconds, f"{text.brief(point.rows / seconds)}/s")
                        for name, seconds in (("postgres_fdw", theirs), ("pgbillion_fdw", point.median))
                    ],
                )
            ],
        ),
        columns=[],
        rows=[],
        remark=f"The answer equals the sum of the servers' own.{shared} The four servers were created in "
        f"{text.duration(made.servers_seconds)} and have been removed.",
        name="shards",
    )


def forget(state: Path) -> None:
    """Remove the servers of a demo that was killed, and of a database that is gone."""
    for left in list(record.all_sets(state)):
        if left.table == TABLE and left.embedded:
            servers.remove(state, left)


def _by_postgres_fdw(target: Target, made: record.Set) -> float:
    """Return the median of the seconds that the query takes over the same shards; nothing of it stays."""
    table = sql.Identifier(made.schema, f"{made.table}_by_postgres_fdw")
    with coordinator.session(target, read_only=False) as conn, conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL pgbillion_rows.enable = off")
        conn.execute(
            sql.SQL("CREATE TABLE {} (id int, {}) PARTITION BY LIST ({})").format(
                table, sql.SQL(coordinator.COLUMNS), made.layout.key()
            )
        )
        for number, member in enumerate(made.members):
            name = sql.Identifier(f"{member.name}_by_postgres_fdw")
            options = {**member.options, "fetch_size": str(_FETCH_SIZE), "async_capable": "true"}
            given = sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(key), sql.Literal(value)) for key, value in options.items()
            )
            conn.execute(sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({})").format(name, given))
            conn.execute(
                sql.SQL("CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS (user {})").format(name, member.user)
            )
            conn.execute(
                sql.SQL(
                    "CREATE FOREIGN TABLE {} PARTITION OF {} FOR VALUES IN ({}) SERVER {}"
                    " OPTIONS (schema_name {}, table_name {})"
                ).format(
                    sql.Identifier(made.schema, f"{made.table}_by_postgres_fdw_{number}"),
                    table,
                    sql.Literal(number),
                    name,
                    sql.Literal(member.schema),
                    sql.Literal(made.table),
                )
            )
        query = sql.SQL("SELECT grp, count(data) FROM {} GROUP BY 1").format(table)
        seconds = []
        for _ in range(1 + _THEIR_ROUNDS):
            start = time.perf_counter()
            conn.execute(query)
            seconds.append(time.perf_counter() - start)
    # the first connects
    return statistics.median(seconds[1:])


@contextlib.contextmanager
def _loading(total: int) -> Iterator[Callable[[int], None]]:
    with meter(total, "loaded", noun="rows") as update:
        yield update
