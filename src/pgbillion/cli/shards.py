"""`pgbillion shards …`: options in, work elsewhere, results out."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.table import Table

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json, Page, PgConfig, Rounds, Yes, numbers
from pgbillion.cli.terminal import console, ending_in_order, new_page, say, show_chapter
from pgbillion.common import extras, invocation, text
from pgbillion.common.errors import UserError
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.rows import load as rows_load
from pgbillion.shards import convert as conversion
from pgbillion.shards import create as creation
from pgbillion.shards import destroy as removal
from pgbillion.shards import query as shards_query
from pgbillion.shards import record, servers
from pgbillion.shards import scale as shards_scale
from pgbillion.shards import status as shards_status
from pgbillion.shards.record import Engine, Set
from pgbillion.tables.plan import parse_count

app = typer.Typer(help="Distribute a table over many servers, query it, measure how that scales, and remove it again.")

# lines of an answer shown to people
_SHOWN = 100
TableName = Annotated[str, typer.Option("--table", "-t", metavar="NAME", help="Name of the table, without its schema.")]


@app.command()
@connect.options
def create(
    where: Where,
    count: Annotated[
        int | None,
        typer.Option(
            "--count", "-n", metavar="N", help=f"Number of servers to create here. Default: {creation.DEFAULT_COUNT}."
        ),
    ] = None,
    shard: Annotated[
        list[str] | None,
        typer.Option(
            "--shard",
            metavar="CONNINFO",
            help="Use this existing server, a URI, connection string or service name; can be repeated.",
        ),
    ] = None,
    rows: Annotated[
        str, typer.Option("--rows", "-r", metavar="N", help="Number of rows on each shard: 500k, 5M, 100M.")
    ] = "5M",
    groups: Annotated[
        str, typer.Option("--groups", "-g", metavar="N", help="Number of groups, equally large: 10, 1M.")
    ] = "10",
    table: TableName = rows_load.TABLE,
    local: Annotated[bool, typer.Option("--local", help="Also keep a partition on the coordinator.")] = False,
    engine: Annotated[
        Engine,
        typer.Option(
            "--engine", help="fdw: partitions on foreign tables of pgbillion_fdw; citus: a distributed table of Citus."
        ),
    ] = Engine.FDW,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of the random data, to repeat them.")
    ] = None,
    pg_config: PgConfig = None,
    as_json: Json = False,
) -> None:
    """Distribute a table like that of `rows load` over new or existing servers, and load rows into all of them at once.

    The connection options name the coordinator. After a failure or Ctrl-C, nothing of it is left.

    Example: pgbillion shards create --count 4 --rows 5M
    """
    if shard and count is not None:
        raise UserError("--count makes servers, --shard uses yours", "give one of them")
    request = creation.Request(
        rows=parse_count(rows, "rows"),
        count=creation.DEFAULT_COUNT if count is None else count,
        given=tuple(shard or ()),
        table=table,
        groups=parse_count(groups, "groups"),
        local=local,
        seed=seed,
        engine=engine,
        pg_config=pg_config,
    )
    target = where.target()
    with ending_in_order():
        outcome = creation.execute(
            target,
            where.state,
            request,
            observe=lambda total: meter(total, "loaded", noun="rows"),
            say=say,
        )
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    made = outcome.made
    also = " and one partition here" if made.local else ""
    print(
        f"{made.table}: {len(made.members)} shards{also}, {text.count(made.layout.rows)} rows each, "
        f"{text.count(made.rows)} in all, {text.size(outcome.table_bytes)}, seed {made.seed}"
    )
    print(
        f"servers and tables made in {text.duration(outcome.servers_seconds)}, rows copied in "
        f"{text.duration(outcome.copy_seconds)} ({text.count(outcome.rate)} rows/s), indexed in "
        f"{text.duration(outcome.index_seconds)}, vacuumed in {text.duration(outcome.vacuum_seconds)}"
    )
    if not outcome.analyzed:
        print("the coordinator has no statistics, as before PostgreSQL 16 all rows would be fetched for them: ANALYZE")
    setting = "" if made.engine is Engine.CITUS else "SET enable_partitionwise_aggregate = on; "
    print(f"in psql: {setting}{shards_query.default_query(made)};")


@app.command()
@connect.options
def status(
    where: Where,
    table: TableName = rows_load.TABLE,
    as_json: Json = False,
) -> None:
    """Show for each shard whether it answers, and its versions, rows, size and connections.

    The exit status is 2 if any of them does not answer.

    Example: pgbillion shards status --json
    """
    _, found = _find(table, where)
    shards = shards_status.ask(found)
    if as_json:
        print(json.dumps({"table": found.table, "engine": found.engine, "shards": [one.to_json() for one in shards]}))
    else:
        shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for column in ("shard", "", "PostgreSQL", "extension", "rows", "size", "connections", "address"):
            right = column in ("rows", "size", "connections")
            shown.add_column(column, justify="right" if right else "left", no_wrap=column != "address")
        for one in shards:
            shown.add_row(
                one.name,
                "ok" if one.well else "down" if not one.reachable else "broken",
                one.version or "",
                one.extension or "",
                "" if one.rows is None else text.count(one.rows),
                "" if one.size is None else text.size(one.size),
                "" if one.connections is None else text.count(one.connections),
                one.address,
            )
        console().print(shown)
    wrong = [one for one in shards if not one.well]
    if wrong:
        if any(one.own and not one.reachable for one in wrong):
            hint = f"start the shards made here: {invocation.command('shards', 'start', '--table', table)}"
        else:
            gone = invocation.command("shards", "destroy", "--table", table)
            hint = f"repair it, or make all anew: {gone}, with --abandon if it is gone"
        problem = f"{wrong[0].name}: {wrong[0].error}"
        raise UserError(f"{len(wrong)} of {len(shards)} shards cannot answer: {problem}", hint, 2)


@app.command()
@connect.options
def query(
    where: Where,
    words: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="Query. Default: SELECT grp, count(data) FROM the table GROUP BY 1."),
    ] = None,
    table: TableName = rows_load.TABLE,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the plan, with the SQL that is sent to the shards.")
    ] = False,
    rounds: Annotated[
        int,
        typer.Option("--rounds", metavar="N", min=1, help="Number of runs once it is connected; the median counts."),
    ] = 3,
    as_json: Json = False,
) -> None:
    """Run a query over all shards, in a read-only session, and show rows per second.

    The answer to the default query is compared with the sum of the shards' own answers.

    Example: pgbillion shards query "SELECT grp, avg(data), stddev(data) FROM t_demo GROUP BY 1" --plan
    """
    target, found = _find(table, where)
    result = shards_query.run(target, found, words, rounds, say)
    if as_json:
        print(json.dumps(result.to_json()))
        return
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name in result.answer.names:
        shown.add_column(name)
    for row in result.answer.rows[:_SHOWN]:
        shown.add_row(*("" if value is None else value.decode(errors="replace") for value in row))
    console().print(shown)
    if len(result.answer.rows) > _SHOWN:
        print(f"… {text.count(len(result.answer.rows))} rows")
    partitions = f"{result.partitions} partition{'s' if result.partitions > 1 else ''}"
    rate = f", {text.count(result.rate)} rows/s from {partitions}" if result.rows else ""
    print(
        f"{text.duration(result.median)}{rate}; {text.duration(result.first_seconds)} with connecting"
        + ("; the sum of the shards' own answers" if result.checked else "")
    )
    if plan:
        print(result.plan)


@app.command()
@connect.options
def scale(
    where: Where,
    shards: Annotated[
        str | None,
        typer.Option("--shards", "-n", metavar="N,…", help="Numbers of shards. Default: 1, 2, 4, … and all of them."),
    ] = None,
    table: TableName = rows_load.TABLE,
    rounds: Rounds = 5,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of the order of measurements, to repeat it.")
    ] = None,
    output: Page = None,
    as_json: Json = False,
) -> None:
    """Measure and plot rows per second of 1, 2, 4 … N shards with the same number of rows each.

    Tables over the first shards are created in a transaction that is rolled back.

    Example: pgbillion shards scale --shards 1,2,4,8 --output shards.html
    """
    extras.need(extras.MATPLOTLIB)
    target, found = _find(table, where)
    chosen = shards_scale.numbers(found) if shards is None else numbers(shards, "--shards", 1)
    result = shards_scale.measure(target, found, chosen, rounds, seed=seed, say=say)
    path = output or new_page(where.state, "scale", "shards-")

    # matplotlib takes long to load
    from pgbillion.shards import page

    page.write(result, path)
    if as_json:
        print(json.dumps({**result.to_json(), "report": str(path)}))
        return
    show_chapter(result.chapter())
    if result.sharing:
        print(result.sharing)
    print(f"report: {path}")


@app.command()
@connect.options
def start(
    where: Where,
    table: TableName = rows_load.TABLE,
) -> None:
    """Start the shards' servers that `create` made and that are not running, as after a reboot.

    Example: pgbillion shards start
    """
    _, found = _find(table, where)
    print(f"{servers.start(found.clusters(where.state))} started")


@app.command()
@connect.options
def stop(
    where: Where,
    table: TableName = rows_load.TABLE,
) -> None:
    """Stop the shards' servers that `create` made; their data is kept.

    Example: pgbillion shards stop
    """
    _, found = _find(table, where)
    print(f"{servers.stop(found.clusters(where.state))} stopped")


@app.command()
@connect.options
def convert(
    where: Where,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SERVER]...", help="Foreign servers. Default: all that the role owns."),
    ] = None,
    wrapper: Annotated[
        conversion.Wrapper,
        typer.Option("--to", help="Foreign-data wrapper to convert to, from the other one."),
    ] = conversion.Wrapper.OURS,
) -> None:
    """Print a script that recreates foreign servers of postgres_fdw as servers of pgbillion_fdw, or vice versa.

    The script includes their user mappings, with passwords, and foreign tables. Nothing is changed until you run it.

    Example: pgbillion shards convert -d mydb > servers.sql
    """
    with where.target().connect() as conn:
        print(conversion.script(conn, names or [], wrapper))


@app.command()
@connect.options
def destroy(
    where: Where,
    table: TableName = rows_load.TABLE,
    set_: Annotated[
        str | None,
        typer.Option("--set", metavar="ID", help="Remove the set with this ID, whatever its coordinator."),
    ] = None,
    yes: Yes = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Leave behind what is on servers that cannot be reached.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Remove what `create` made, finished or not: the table everywhere, foreign servers, and the servers made for it.

    Only objects that `create` marked by a comment are dropped. The extension is kept.

    Example: pgbillion shards destroy --yes
    """
    target = where.target()
    state = where.state
    found = removal.find(target, state, table, set_)
    own = sum(member.own for member in found.members)
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("not removing shards without being told to", "say --yes")
        what = f"{len(found.members)} shards of {found.table}" + (f", {own} servers made for them" if own else "")
        typer.confirm(f"Remove {what}, and all their rows?", abort=True, err=True)
    outcome = removal.execute(target, state, found, abandon=abandon)
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    print(f"removed: {outcome.table} and its {outcome.shards} shards" + (f", {own} servers with them" if own else ""))
    for name in outcome.abandoned:
        print(f"left as it is: what is on {name}")


def _find(table: str, where: Where) -> tuple[Target, Set]:
    target = where.target()
    with target.connect() as conn:
        return target, record.find(conn, where.state, table)
