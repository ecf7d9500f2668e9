"""Options that several commands have; those of the connection are in connect.py."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.common.errors import UserError
from pgbillion.tables.create import Request
from pgbillion.tables.plan import (
    DEFAULT_BATCH,
    DEFAULT_FORMAT,
    Method,
    Storage,
    count_from,
    parse_count,
)

_WHAT, _HOW = "What", "How"


def whole_number(given: str | int) -> int:
    """Return a number of tables, written as a count may be: 1000000, 1_000_000, 500k, 10M. Raises UserError."""
    return parse_count(str(given))


def at_least_one(given: str | int) -> int:
    """Return such a number. Raises UserError, and BadParameter, which names the option, when it is less than 1."""
    number = whole_number(given)
    if number < 1:
        raise typer.BadParameter(f"it must be at least 1, not {number:,}")
    return number


Count = Annotated[
    str | None,
    typer.Option("--count", "-n", metavar="N", help="Number of tables: 1000000, 500k, 10M.", rich_help_panel=_WHAT),
]
Ladder = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help="Number of tables by type of database, from MT (multi-tenancy, 50,000) to BTP (Billion Tables Project).",
        rich_help_panel=_WHAT,
    ),
]
Template = Annotated[
    str | None,
    typer.Option("--template", metavar="TABLE", help="Create tables like this existing one.", rich_help_panel=_WHAT),
]
Columns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="SQL", help="Columns, as in CREATE TABLE. Default: i integer.", rich_help_panel=_WHAT
    ),
]
NameFormatOption = Annotated[
    str,
    typer.Option(
        "--name-format",
        metavar="FORMAT",
        help="Format of the names, with one of %d %o %x %X for the number.",
        rich_help_panel=_WHAT,
    ),
]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="NAME", help="Schema to create them in. Default: the current one.", rich_help_panel=_WHAT
    ),
]
First = Annotated[
    int,
    typer.Option("--first", metavar="N", help="Number of the first table.", rich_help_panel=_WHAT, parser=whole_number),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--jobs", "-j", metavar="N", help="Number of processes. Default: one per CPU core.", rich_help_panel=_HOW
    ),
]
BatchOption = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        parser=whole_number,
        help=f"Tables per transaction (bulk, default {DEFAULT_BATCH[Method.BULK]:,}) or per psql (sql, "
        f"default "
        f"{DEFAULT_BATCH[Method.SQL]:,}).",
        rich_help_panel=_HOW,
    ),
]
MethodOption = Annotated[
    Method,
    typer.Option("--method", help="bulk: by the extension; sql: by CREATE TABLE through psql.", rich_help_panel=_HOW),
]
Tablespaces = Annotated[
    int,
    typer.Option(
        "--tablespaces",
        metavar="N",
        help="Spread the tables over N tablespaces, _000, _001, …, and create those that are missing.",
        rich_help_panel=_HOW,
    ),
]
TablespaceDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--tablespace-dir",
        metavar="DIRECTORY",
        help="Directory on the server for new tablespaces; if repeated, they alternate. Default: the "
        "embedded server's own.",
        rich_help_panel=_HOW,
    ),
]
AllowUnobserved = Annotated[
    bool,
    typer.Option(
        "--allow-unobserved",
        help="Use the bulk method even if event triggers or an auditing hook would miss it.",
        rich_help_panel=_HOW,
    ),
]
StorageOption = Annotated[
    Storage,
    typer.Option(
        "--storage",
        help="heap, or lazy: the extension's lazy_heap, which creates a table's files with its first row.",
        rich_help_panel=_HOW,
    ),
]


@dataclass(frozen=True)
class Tables:
    """The tables to make, and how: what every command that makes a run's tables, or estimates one, is given.

    A field has the name that it has in a request, if it is there.
    """

    count: Count = None
    ladder: Ladder = None
    template: Template = None
    columns: Columns = None
    name_format: NameFormatOption = DEFAULT_FORMAT
    schema: Schema = None
    first: First = 0
    workers: Workers = None
    batch: BatchOption = None
    method: MethodOption = Method.BULK
    tablespaces: Tablespaces = 0
    tablespace_dir: TablespaceDirs = None
    allow_unobserved: AllowUnobserved = False
    storage: StorageOption = Storage.HEAP

    def request(self) -> Request:
        """Return the request. Raises UserError for what no server could make right."""
        count = count_from(parse_count(self.count) if self.count is not None else None, self.ladder)
        # a default that cannot work is nobody's mistake: fewer tables, or tablespaces, than CPU cores
        most = min(os.cpu_count() or 1, count, self.tablespaces or count)
        workers = max(1, most) if self.workers is None else self.workers
        given = {field.name: getattr(self, field.name) for field in fields(Request)}
        request = Request(**{**given, "count": count, "workers": workers})
        request.check()
        return request


def _writable(page: Path | None) -> Path | None:
    """Refuse a page before hours go into what it would show. Raises UserError."""
    if page is not None and (page.is_dir() or not os.access(page if page.exists() else page.parent, os.W_OK)):
        raise UserError(f"the page cannot be written to {page}", "choose another file with --output")
    return page


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Page = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="HTML file to write. Default: a new one in the state directory.",
        callback=_writable,
    ),
]
Rounds = Annotated[
    int,
    typer.Option(
        "--rounds",
        metavar="N",
        min=1,
        help="Number of rounds, each of which measures everything once; the median counts.",
    ),
]
PgConfig = Annotated[
    Path | None,
    typer.Option(
        "--pg-config",
        metavar="PROGRAM",
        envvar="PG_CONFIG",
        help="pg_config of the PostgreSQL (15 to 19) to use instead of the embedded one.",
    ),
]
Pattern = Annotated[
    str | None,
    typer.Argument(
        metavar="PATTERN",
        help="Pattern of table names, as for psql's \\dt: * and ? are wildcards, and schema.table names both.",
    ),
]


def numbers(given: str, option: str, least: int) -> list[int]:
    """Return the numbers an option was given, in order. Raises UserError."""
    try:
        found = sorted({int(word) for word in given.split(",")})
    except ValueError:
        raise UserError(
            f'{option} takes numbers with commas in between, not "{given}"', f"as in {option} 1,2,4"
        ) from None
    if found[0] < least:
        raise UserError(f"{option} must be {least} or more, not {found[0]}")
    return found
