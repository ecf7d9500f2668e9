"""`pgbillion tables scale`: options in, a table and a page out."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.table import Table

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import (
    AllowUnobserved,
    BatchOption,
    Columns,
    Json,
    MethodOption,
    Page,
    Rounds,
    StorageOption,
    TablespaceDirs,
    numbers,
)
from pgbillion.cli.tables import find_psql, tablespace_folders
from pgbillion.cli.terminal import console, new_page, say
from pgbillion.common import extras, text
from pgbillion.common.errors import UserError
from pgbillion.tables import scale as tables_scale
from pgbillion.tables.create import Request
from pgbillion.tables.plan import Method, Storage, parse_count


@connect.options
def scale(
    where: Where,
    count: Annotated[
        str, typer.Option("--count", "-n", metavar="N", help="Number of tables per measurement: 20k, 1M.")
    ] = "20k",
    workers: Annotated[
        str | None,
        typer.Option(
            "--jobs", "-j", metavar="N,…", help="Numbers of processes. Default: 1, 2, 4, … to twice the CPU cores."
        ),
    ] = None,
    spaces: Annotated[
        str, typer.Option("--tablespaces", metavar="N,…", help="Numbers of tablespaces, 0 for none.")
    ] = "0",
    rounds: Rounds = 1,
    columns: Columns = None,
    batch: BatchOption = None,
    method: MethodOption = Method.BULK,
    storage: StorageOption = Storage.HEAP,
    tablespace_dir: TablespaceDirs = None,
    allow_unobserved: AllowUnobserved = False,
    output: Page = None,
    as_json: Json = False,
) -> None:
    """Measure tables per second with different numbers of processes and tablespaces, in temporary databases.

    Example: pgbillion tables scale --jobs 1,2,4,8 --tablespaces 0,8 --count 50k --storage lazy
    """
    extras.need(extras.MATPLOTLIB)
    tables = parse_count(count)
    pairs = tables_scale.combinations(
        numbers(workers, "--jobs", 1) if workers is not None else _default_workers(),
        numbers(spaces, "--tablespaces", 0),
    )
    if not pairs:
        raise UserError("each number of tablespaces is smaller than each number of workers", "add 0 to --tablespaces")
    request = Request(
        count=tables,
        workers=max(number for number, _ in pairs),
        method=method,
        batch=batch,
        columns=columns,
        allow_unobserved=allow_unobserved,
        storage=storage,
    )
    request.check()
    state = where.state
    target = where.target()
    result = tables_scale.measure(
        target,
        request,
        pairs,
        rounds,
        folders=tablespace_folders(target, state, tablespace_dir),
        psql=find_psql(target, state) if method is Method.SQL else None,
        say=say,
    )
    path = output or new_page(state, "scale", "tables-")

    # matplotlib takes long to load
    from pgbillion.tables import page

    page.write_scale(result, path)
    if as_json:
        print(json.dumps({**result.to_json(), "report": str(path)}))
        return
    _print(result)
    print(f"report: {path}")


def _default_workers() -> list[int]:
    most = 2 * (os.cpu_count() or 1)
    return [2**power for power in range(most.bit_length()) if 2**power <= most]


def _print(result: tables_scale.Scale) -> None:
    spaces = sorted({point.tablespaces for point in result.points})
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("workers")
    for number in spaces:
        table.add_column(f"{number} tablespaces" if number else "no tablespaces", justify="right")
    rates = {(point.workers, point.tablespaces): point for point in result.points}
    for workers in sorted({point.workers for point in result.points}):
        row = [str(workers)]
        for number in spaces:
            point = rates.get((workers, number))
            mark = " *" if point is result.best else ""
            row.append(f"{text.count(point.rate)}/s{mark}" if point else "")
        table.add_row(*row)
    console().print(table)
    print(f"* the best of {text.count(result.count)} tables {result.definition}, method {result.method},", end=" ")
    print(f"storage {result.storage}; the databases they were in are gone")
