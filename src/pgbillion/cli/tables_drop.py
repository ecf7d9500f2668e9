"""`pgbillion tables drop`: options in, tables gone."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import AllowUnobserved, Json, Pattern, Yes, whole_number
from pgbillion.cli.terminal import show
from pgbillion.common import invocation, text
from pgbillion.common.errors import UserError
from pgbillion.common.meter import meter
from pgbillion.common.target import Target, take_any_name
from pgbillion.server import extension
from pgbillion.tables import create as creation
from pgbillion.tables import drop as tables_drop
from pgbillion.tables import selection as tables_selection
from pgbillion.tables.names import NameFormat
from pgbillion.tables.plan import DEFAULT_FORMAT, Method, parse_count
from pgbillion.tables.selection import Numbered

_WHAT, _HOW = "What", "How"


@connect.options
def drop(
    where: Where,
    pattern: Pattern = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="NAME",
            help="Schema of the tables, by its exact name. Default: all but the system's; for numbered names, "
            "the current one.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            "--count", "-n", metavar="N", help="Number of numbered names, instead of a pattern.", rich_help_panel=_WHAT
        ),
    ] = None,
    first: Annotated[
        int,
        typer.Option(
            "--first", metavar="N", parser=whole_number, help="Number of the first table.", rich_help_panel=_WHAT
        ),
    ] = 0,
    name_format: Annotated[
        str | None,
        typer.Option(
            "--name-format",
            metavar="FORMAT",
            help=f"Format of the names, as for create. Default: {DEFAULT_FORMAT}.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also drop objects that depend on the tables.", rich_help_panel=_HOW)
    ] = False,
    batch: Annotated[
        str,
        typer.Option(
            "--batch",
            metavar="auto|N",
            help="Tables per transaction. auto: as many as the lock table allows.",
            rich_help_panel=_HOW,
        ),
    ] = "auto",
    workers: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Number of parallel sessions. Default: one per CPU core, or one with --cascade.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            help="bulk: by the extension; sql: by DROP TABLE. Default: bulk if the extension is installed, else sql.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    allow_unobserved: AllowUnobserved = False,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show how many tables would be dropped, and the first of them.")
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Drop tables by pattern, schema or range of numbered names, in bulk; run it again to continue after an interrupt.

    Nothing is dropped if any of the tables is a system catalog, belongs to an extension or to another role, or is in
    use. Foreign keys between tables of different batches need --cascade, as they do between two DROP TABLE commands.

    Example: pgbillion tables drop 'tenant_0*' --schema public --dry-run
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # names that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
    if pattern is None and schema is None and count is None:
        raise UserError("say which tables to drop", "give a pattern, --schema, or --first and --count")
    if count is None and (first != 0 or name_format is not None):
        raise UserError("numbered names need --count", "as in --first 0 --count 1000 --name-format _%08x")
    if count is not None and pattern is not None:
        raise UserError("give either a pattern or numbered names, not both")
    number = parse_count(count) if count is not None else 0
    if count is not None:
        NameFormat.parse(name_format or DEFAULT_FORMAT).check_range(first, number)
    target = where.target()
    with target.connect() as conn:
        take_any_name(conn)
        creation.check_writable(conn)
        if count is not None:
            schema = creation.current_schema(conn) if schema is None else schema
            numbered = Numbered(NameFormat.parse(name_format or DEFAULT_FORMAT), first, number)
            selection = tables_selection.select(conn, None, schema, numbered)
        else:
            selection = tables_selection.select(conn, pattern, schema)
        if method is None:
            method = Method.BULK if tables_selection.has_function(conn, "drop_tables") else Method.SQL
            if method is Method.SQL:
                print("note: without the extension pgbillion_tables: DROP TABLE, which is slower", file=sys.stderr)
        elif method is Method.BULK:
            extension.ensure_extension(conn, extension.TABLES, instead="--method sql")
        # what depends on one batch may be, or be in use by, another
        sessions = workers if workers is not None else 1 if cascade else os.cpu_count() or 1
        request = tables_drop.Request(selection, method, sessions, _batch(batch), cascade, allow_unobserved)
        request.check()
        survey = tables_drop.survey(conn, request)
    if dry_run or survey.tables == 0:
        _print_survey(survey, dry_run=dry_run, as_json=as_json)
        return
    if not yes and not _confirmed(survey, target):
        print("nothing was dropped", file=sys.stderr)
        return
    words = ["--schema", schema] if schema is not None else []
    words += ["--first", str(first), "--count", str(number)] if count is not None else []
    words += ["--name-format", name_format] if name_format is not None else []
    words += ["--cascade"] if cascade else []
    words += ["--batch", batch] if batch != "auto" else []
    words += ["--jobs", str(workers)] if workers is not None else []
    words += ["--method", method.value] if method is Method.SQL else []
    words += ["--allow-unobserved"] if allow_unobserved else []
    words += ["--yes"] if yes else []
    behind = invocation.argument(pattern) if pattern is not None else ()
    outcome = tables_drop.execute(
        target,
        request,
        survey.tables,
        command=lambda *more: invocation.command("tables", "drop", *words, *more, *behind),
        observe=lambda total: meter(total, "dropped"),
    )
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    rate = outcome.dropped / outcome.seconds if outcome.seconds > 0 else 0.0
    print(
        f"{text.many(outcome.dropped, 'table')} dropped in {text.duration(outcome.seconds)}:"
        f" {text.count(rate)} tables/s"
    )


def _batch(given: str) -> int | None:
    if given == "auto":
        return None
    try:
        return whole_number(given)
    except UserError:
        raise UserError(f'--batch is "auto" or a number of tables, not "{given}"') from None


def _print_survey(survey: tables_drop.Survey, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        values = {"selected": survey.tables, "schemas": survey.schemas, "first": survey.names}
        print(json.dumps({**values, "dropped": 0, "dry_run": dry_run}))
    elif survey.tables == 0:
        print("no table matches")
    else:
        print(f"{_summary(survey)} would be dropped:")
        for name in survey.names:
            show(f"  {name}")
        if survey.tables > len(survey.names):
            print(f"  … and {text.count(survey.tables - len(survey.names))} more")


def _summary(survey: tables_drop.Survey) -> str:
    schemas = list(survey.schemas)
    where = f"schema {schemas[0]}" if len(schemas) == 1 else f"{len(schemas)} schemas"
    return f"{text.many(survey.tables, 'table')} of {where}"


def _confirmed(survey: tables_drop.Survey, target: Target) -> bool:
    """Ask. Raises UserError where nobody can answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(
            f"{_summary(survey)} would be dropped, and there is no terminal to ask at",
            "--yes drops them without asking, --dry-run shows what it would be",
        )
    shown = ", ".join(survey.names[:3]) + (" …" if survey.tables > 3 else "")
    return typer.confirm(f"drop {_summary(survey)} ({shown}) on {target.display}?", err=True)
