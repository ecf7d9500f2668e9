"""How much tenants take: heap, indexes, TOAST and sequences, rows by estimate, and files.

No relation stays locked. Where the role may look at files nothing is opened either, which is several times as fast,
and their number is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

from pgbillion.common import together
from pgbillion.common.sql import load
from pgbillion.common.target import Target

# what one session looks at: a server's process keeps in memory what it has looked at
_RELATIONS_PER_SESSION = 20_000


@dataclass
class Size:
    """What a tenant, or all, take; sizes in bytes.

    ``lazy`` tables have no files of their own yet. ``files`` is None where the role may not look at files.
    """

    name: str
    tables: int = 0
    lazy: int = 0
    rows: int = 0
    heap: int = 0
    indexes: int = 0
    toast: int = 0
    sequences: int = 0
    files: int | None = 0
    total: int = 0

    def add(self, values: Sequence[int | None]) -> None:
        """Add what fields from ``tables`` to ``files`` are, in order."""
        for name, value in zip(_COUNTED, values, strict=True):
            before = getattr(self, name)
            setattr(
                self, name, None if before is None or (value is None and name == "files") else before + (value or 0)
            )
        self.total = self.heap + self.indexes + self.toast + self.sequences


_COUNTED = [field.name for field in fields(Size)][1:-1]


def sizes(
    target: Target,
    names: Sequence[str],
    workers: int,
    *,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> list[Size]:
    """Return what each of some schemas takes, in their order; ``observe`` is told of parts of their relations."""
    with target.connect() as conn:
        schemas = {
            oid: Size(name)
            for oid, name in conn.execute(
                "SELECT oid::int8, nspname::text FROM pg_namespace WHERE nspname = ANY (%s::text[])", [list(names)]
            )
        }
        parts = conn.execute(load("tenants", "size_parts").encode(), [_RELATIONS_PER_SESSION, list(schemas)]).fetchall()
        row = conn.execute("SELECT has_function_privilege('pg_stat_file(text, boolean)', 'EXECUTE')").fetchone()
    how = "bytes_of_files" if row and row[0] else "bytes_of_relation"
    query = load("tenants", "size").replace("{bytes}", load("tenants", how))
    todo: Iterator[tuple[Any, ...]] = iter(parts)
    lock = threading.Lock()
    done = 0

    def take() -> tuple[Any, ...] | None:
        with lock:
            return next(todo, None)

    def work(team: together.Team) -> None:
        nonlocal done
        while not team.stopped.is_set() and (part := take()):
            with target.connect(application_name="pgbillion tenants size") as mine:
                team.session(mine)
                # a part is a range of an index, whatever the statistics of a catalog that has just grown say
                mine.execute("SET jit = off; SET max_parallel_workers_per_gather = 0; SET enable_seqscan = off")
                found = mine.execute(query.encode(), [*part, list(schemas)]).fetchall()
            with lock:
                for schema, *values in found:
                    schemas[schema].add(values)
                done += 1
                update(done)

    if parts:
        with observe(len(parts)) as update, together.team(min(workers, len(parts))) as team:
            for future in [team.start(work, team) for _ in range(min(workers, len(parts)))]:
                future.result()
    by_name = {size.name: size for size in schemas.values()}
    return [by_name[name] for name in names if name in by_name]


def total(found: Sequence[Size]) -> Size:
    """Return what all take together."""
    result = Size("total")
    for size in found:
        result.add([getattr(size, name) for name in _COUNTED])
    return result
