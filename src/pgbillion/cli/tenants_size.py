"""`pgbillion tenants size`: what schemas take, the largest first."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json, at_least_one
from pgbillion.cli.tenants import Tenants, Workers, number_of_workers
from pgbillion.cli.terminal import show
from pgbillion.common import text
from pgbillion.common.meter import meter
from pgbillion.tenants import schemas
from pgbillion.tenants import size as tenants_size


class Sort(StrEnum):
    """What to sort by."""

    TOTAL = "total"
    HEAP = "heap"
    INDEXES = "indexes"
    TOAST = "toast"
    ROWS = "rows"
    TABLES = "tables"
    FILES = "files"
    NAME = "name"


@connect.options
def size(
    where: Where,
    pattern: Tenants = "*",
    sort: Annotated[Sort, typer.Option("--sort", help="Sort by name, or by one of the figures, largest first.")] = (
        Sort.TOTAL
    ),
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", parser=at_least_one, help="Number of schemas to show. Default: all."),
    ] = None,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    r"""Show the sizes of schemas: estimated rows, heap, indexes, TOAST and files, and the total of all of them.

    The number of files is shown to superusers, and to roles that may call pg_stat_file(). No extension is needed.

    Example: pgbillion tenants size 'tenant_*' --limit 20
    """
    target = where.target()
    with target.connect() as conn:
        names = schemas.select(conn, pattern)
    found = tenants_size.sizes(
        target, names, number_of_workers(workers), observe=lambda parts: meter(parts, "looked at", noun="parts")
    )
    together = tenants_size.total(found)
    if sort is not Sort.NAME:
        # as in a list by name where figures are equal
        found.sort(key=lambda one: -(getattr(one, sort.value) or 0))
    shown = found[:limit]
    if as_json:
        rest = {name: value for name, value in asdict(together).items() if name != "name"}
        print(json.dumps({"tenants": [asdict(one) for one in shown], "total": {"tenants": len(found), **rest}}))
        return
    lines = [[head for head, _ in _COLUMNS], *([value(one) for _, value in _COLUMNS] for one in [*shown, together])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for name, *figures in lines:
        show(
            "  ".join(
                [f"{name:{widths[0]}}", *(f"{one:>{width}}" for one, width in zip(figures, widths[1:], strict=True))]
            )
        )
    if len(shown) < len(found):
        print(f"{text.count(len(shown))} of {text.many(len(found), 'tenant')} shown", file=sys.stderr)


_COLUMNS: list[tuple[str, Callable[[Any], str]]] = [
    ("tenant", lambda one: one.name),
    ("tables", lambda one: text.count(one.tables)),
    ("lazy", lambda one: text.count(one.lazy)),
    ("rows", lambda one: text.count(one.rows)),
    ("heap", lambda one: text.size(one.heap)),
    ("indexes", lambda one: text.size(one.indexes)),
    ("TOAST", lambda one: text.size(one.toast)),
    ("total", lambda one: text.size(one.total)),
    ("files", lambda one: "unknown" if one.files is None else text.count(one.files)),
]
