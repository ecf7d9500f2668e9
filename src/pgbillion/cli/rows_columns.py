"""`pgbillion rows columns`: options in, work elsewhere, results out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.terminal import console, ending_in_order, say
from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.rows import advice, columns, workload
from pgbillion.rows.advice import Advice, Advised
from pgbillion.rows.columns import Made, Status
from pgbillion.rows.workload import Query

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(given: str) -> int:
    """Return bytes: 500MB, 10GB, 1.5TB. Raises UserError."""
    found = _SIZE.fullmatch(given.strip())
    if found is None:
        raise UserError(f'"{given}" is not a number of bytes', "examples: --budget 500MB, --budget 10GB")
    return round(float(found[1]) * _UNITS[found[2]])


@connect.options
def rows_columns(
    where: Where,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Query, or several separated by semicolons.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="File of queries separated by semicolons.")
    ] = None,
    statements: Annotated[
        bool,
        typer.Option("--statements", help="Use the queries in pg_stat_statements, weighted by their numbers of calls."),
    ] = False,
    all_roles: Annotated[
        bool,
        typer.Option(
            "--all-roles",
            help="With --statements, also use queries of other roles; planning may run their functions with "
            "your privileges.",
        ),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", "-b", metavar="SIZE", help="Disk space for all indexes: 500MB, 10GB. Default: no limit."
        ),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the advised indexes.")] = False,
    concurrently: Annotated[
        bool, typer.Option("--concurrently", help="With --create, do not block writes meanwhile.")
    ] = False,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="VACUUM the tables that have a columnar index, and encode the segments that can be encoded.",
        ),
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show how much each index covers, and what to do if that is little.")
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", metavar="NAME", help="With --refresh and --status, only this table; can be repeated."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Advise which columns to put into columnar indexes; create, refresh and show such indexes.

    Queries are only planned, in a read-only transaction, and not run. Planning may call functions that a query uses.

    Example: pgbillion rows columns --file queries.sql --budget 10GB
    """
    given = sum((query is not None, file is not None, statements))
    _check(given, create=create, concurrently=concurrently, all_roles=all_roles, statements=statements)
    if not given and not refresh and not status:
        raise UserError(
            "there is nothing to advise on",
            'give a query, as in pgbillion rows columns "SELECT …"; or --file, --statements, --status, --refresh',
        )
    limit = None if budget is None else parse_size(budget)
    queries = _read(query, file)
    result: dict[str, Any] = {}
    with ending_in_order(), columns.session(where.target()) as conn:
        tables = columns.tables_named(conn, table or ())
        if given:
            found = _advise(conn, queries, limit, strict=query is not None, all_roles=all_roles)
            result["advice"] = found.to_json()
            if not as_json:
                _print_advice(found)
            if create:
                result["created"] = [made.name for made in _create(conn, found, concurrently=concurrently)]
                # what else is asked for is of these
                tables = tables or [one.oid for one in found.indexes]
        if refresh:
            refreshed = columns.refresh(conn, tables, say=say)
            result["refreshed"] = [made.name for made in refreshed]
            if not as_json:
                _print_made(refreshed, "vacuumed and refreshed")
        if status:
            seen = columns.status(conn, tables)
            result["status"] = [one.to_json() for one in seen]
            if not as_json:
                _print_status(seen)
    if as_json:
        print(json.dumps(result))


def _check(given: int, *, create: bool, concurrently: bool, all_roles: bool, statements: bool) -> None:
    """Refuse options that do not go together. Raises UserError."""
    if given > 1:
        raise UserError("a query, --file and --statements exclude each other", "give one of them")
    if create and not given:
        raise UserError("--create creates what is advised", "give a query, --file or --statements")
    if concurrently and not create:
        raise UserError("--concurrently is for --create", "add --create")
    if all_roles and not statements:
        raise UserError("--all-roles is for --statements", "add --statements")


def _read(query: str | None, file: Path | None) -> list[Query]:
    if query is not None:
        return workload.of_text(query, "the query")
    return workload.of_file(file) if file is not None else []


def _advise(conn: Connection, queries: list[Query], budget: int | None, *, strict: bool, all_roles: bool) -> Advice:
    others = 0
    if not queries:
        queries, others = workload.of_statistics(conn, all_roles=all_roles)
    return advice.advise(conn, queries, budget, strict=strict, others_left_out=others)


def _create(conn: Connection, found: Advice, *, concurrently: bool) -> list[Made]:
    made: list[Made] = []
    for one in found.indexes:
        # a partitioned table's index cannot be made concurrently, those of its partitions can
        tables = one.pieces if concurrently and one.partitioned else ((one.schema, one.table),)
        for schema, name in tables:
            made.append(columns.create(conn, schema, name, one.columns, concurrently=concurrently, say=say))
            say(f"created {made[-1].name} in {text.duration(made[-1].seconds)}")
        for command in one.afterwards:
            say(f"{one.replaces[0]} is no longer needed: {command}")
    return made


# ---- what people see ----


def _print_advice(found: Advice) -> None:
    if found.indexes:
        shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for name in ("Table", "Columns"):
            shown.add_column(name, overflow="fold")
        for name in ("Size", "Of the table", "Queries", "Calls", "Heap not read"):
            shown.add_column(name, justify="right", no_wrap=True)
        for one in found.indexes:
            shown.add_row(
                quoted(one.schema, one.table),
                ", ".join(one.columns),
                text.size(one.bytes),
                f"{one.share:.1%}",
                text.count(one.queries),
                text.count(one.calls),
                text.size(one.saved_bytes),
            )
        console().print(shown)
        for one in found.indexes:
            _print_commands(one)
    of_budget = "" if found.budget is None else f" of {text.size(found.budget)}"
    total = "1 index" if len(found.indexes) == 1 else f"{text.count(len(found.indexes))} indexes"
    print(f"{total} advised, {text.size(found.bytes)}{of_budget}")
    unserved = [(query, outcome) for query, outcome in found.queries if outcome != advice.ADVISED]
    for query, outcome in unserved:
        words = " ".join(query.text.split())
        place = f"{query.where}: " if query.where.startswith("line") else ""
        print(f"{place}{words if len(words) <= 60 else words[:59] + '…'}: {outcome}")
    if found.others_left_out:
        print(
            f"{text.count(found.others_left_out)} of other roles left out: connect as one of them, or add --all-roles"
        )


def _print_commands(one: Advised) -> None:
    print()
    if one.first is not None:
        print(f"{one.first};  -- first: {one.visible_share:.0%} of its blocks are all-visible")
    print(f"{one.create};")
    for command in one.afterwards:
        print(f"{command};  -- the new index has its columns")
    for note in one.notes:
        print(f"-- {note}")


def _print_made(made: list[Made], what: str) -> None:
    for one in made:
        print(f"{one.name} {what} in {text.duration(one.seconds)}")


def _print_status(found: list[Status]) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    chapter = columns.status_table(found)
    for name in chapter.columns:
        words = name in ("Index", "Table", "Columns")
        shown.add_column(name, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    for row in chapter.rows:
        shown.add_row(*row)
    console().print(shown)
    for one in found:
        if one.advice:
            print(f"{one.index}: {one.advice}")
