"""`pgbillion rows …`: options in, work elsewhere, results out."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer
from rich.table import Table

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json, Page, Rounds
from pgbillion.cli.terminal import console, new_page, say, show_chapter
from pgbillion.common import extras, text
from pgbillion.common.meter import meter
from pgbillion.rows import aggregate as aggregation
from pgbillion.rows import load as rows_load
from pgbillion.rows import partitions as rows_partitions
from pgbillion.rows import scale as rows_scale
from pgbillion.rows.aggregate import Comparison
from pgbillion.tables.plan import parse_count

app = typer.Typer(help="Load rows by the hundred million, aggregate them vectorized, and measure how that scales.")

TableName = Annotated[str, typer.Option("--table", "-t", metavar="NAME", help="Name of the table, without its schema.")]
Query = Annotated[
    str | None,
    typer.Argument(metavar="QUERY", help="Query. Default: SELECT grp, count(data) FROM the table GROUP BY 1."),
]


@app.command()
@connect.options
def load(
    where: Where,
    count: Annotated[str, typer.Option("--count", "-n", metavar="N", help="Number of rows: 500k, 20M, 1B.")] = "20M",
    groups: Annotated[
        str, typer.Option("--groups", "-g", metavar="N", help="Number of groups, equally large: 10, 1M.")
    ] = "10",
    table: TableName = rows_load.TABLE,
    workers: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", min=1, help="Number of sessions that copy. Default: one per CPU core."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of the random data, to repeat them.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            metavar="N",
            min=1,
            help="Load into N partitions. Default: one per 50M rows from 500M rows on, none below.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing table of that name, once the new one is complete.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create a table (id serial, grp int, data real), copy rows into it, index and vacuum it.

    The table appears when it is complete; after a failure or Ctrl-C, everything is as before. With --replace, the old
    table goes with its indexes and privileges; no view or other object may depend on it.

    With partitions, there is no index. Each partition is created, copied with FREEZE, analyzed and attached in one
    transaction, so that its rows are written once. After a failure or Ctrl-C, the partitions that are complete stay,
    and the same command loads those that are missing.

    Example: pgbillion rows load --count 100M --groups 10 --jobs 4
    """
    request = rows_load.Request(
        count=parse_count(count, "rows"),
        groups=parse_count(groups, "groups"),
        table=table,
        workers=workers or os.cpu_count() or 1,
        seed=seed,
        replace=replace,
    )
    number = partitions or rows_partitions.usual(request.count)
    if number is not None:
        _load_partitions(where, request, number, as_json)
        return
    outcome = rows_load.execute(
        where.target(),
        request,
        observe=lambda total: meter(total, "loaded", noun="rows"),
        say=say,
    )
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    print(
        f"{text.count(outcome.rows)} rows in {text.count(outcome.groups)} groups copied into {outcome.table} in "
        f"{text.duration(outcome.copy_seconds)}: {text.count(outcome.rate)} rows/s, seed {outcome.seed}"
    )
    print(
        f"indexed in {text.duration(outcome.index_seconds)}, frozen and analyzed in "
        f"{text.duration(outcome.vacuum_seconds)}: table {text.size(outcome.table_bytes)}, "
        f"index {text.size(outcome.index_bytes)}"
    )


def _load_partitions(where: Where, request: rows_load.Request, number: int, as_json: bool) -> None:
    outcome = rows_partitions.execute(
        where.target(),
        request,
        number,
        observe=lambda total: meter(total, "loaded", noun="rows"),
        say=say,
    )
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    shown = f"{text.count(outcome.rows)} rows in {text.count(outcome.groups)} groups are in {outcome.table}, "
    shown += f"{text.many(outcome.partitions, 'partition')}, {text.size(outcome.table_bytes)}, seed {outcome.seed}"
    print(shown)
    if outcome.copied:
        print(
            f"{text.count(outcome.copied)} of them copied in {text.duration(outcome.copy_seconds)}: "
            f"{text.count(outcome.rate)} rows/s; analyzed in {text.duration(outcome.analyze_seconds)}"
        )


@app.command()
@connect.options
def aggregate(
    where: Where,
    query: Query = None,
    table: TableName = rows_load.TABLE,
    rounds: Rounds = 5,
    processes: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            help="Number of processes, including the leader. Default: the server decides.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a query with vectorized aggregation off and on, compare the answers, and show rows per second.

    If a columnar index has all that the query reads, the query is also run on that.

    Answers must be equal to the last bit, except for the order of rows. In a parallel plan, floats may differ by 1 in
    1,000 (real) or 1,000,000,000 (double precision), because the order of additions differs from run to run. The exit
    status is 1 if the answers differ.

    Example: pgbillion rows aggregate "SELECT grp, sum(data), avg(data) FROM t_demo GROUP BY 1" --jobs 2
    """
    result = aggregation.compare(
        where.target(),
        query,
        rounds,
        table=table,
        processes=processes,
        say=say,
    )
    if as_json:
        print(json.dumps(result.to_json()))
        return
    _print(result)


@app.command()
@connect.options
def scale(
    where: Where,
    query: Query = None,
    table: TableName = rows_load.TABLE,
    rounds: Rounds = 3,
    processes: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            min=1,
            help="Largest number of processes. Default: the number of CPU cores.",
        ),
    ] = None,
    output: Page = None,
    as_json: Json = False,
) -> None:
    """Measure and plot rows per second of 1 to N processes, with vectorized aggregation off and on.

    If a columnar index has all that the query reads, the query is also run on that.

    Example: pgbillion rows scale --jobs 8 --output rows.html
    """
    extras.need(extras.MATPLOTLIB)
    most = processes or os.cpu_count() or 1
    target = where.target()
    result = rows_scale.measure(target, query, range(1, most + 1), rounds, table=table, say=say)
    path = output or new_page(where.state, "scale", "rows-")

    # matplotlib takes long to load
    from pgbillion.rows import page

    page.write(result, path)
    if as_json:
        print(json.dumps({**result.to_json(), "report": str(path)}))
        return
    show_chapter(result.chapter())
    if not result.best[1].vectorized:
        print(result.best[1].reason)
    print(f"report: {path}")


def _print(result: Comparison) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("", "median", "rows/s", "processes"):
        shown.add_column(column, justify="right" if column else "left")
    for name, side in result.sides.items():
        shown.add_row(
            name, text.duration(side.median), f"{text.count(result.rate(side))}/s", text.count(side.processes)
        )
    console().print(shown)
    times = text.listed([f"{result.times(side):.1f}" for side in list(result.sides.values())[1:]])
    agreed = "equal to the last bit" if result.exact else "equal, except for the order in which floats are added"
    print(
        f"{times} times as fast; {text.many(result.answer_rows, 'row')} of answer from "
        f"{text.count(result.rows)}, {agreed}"
    )
    print(result.reason)
    if result.vectorized:
        print(result.columns_note)
    print(aggregation.excerpt(result.plan))
