"""`pgbillion tenants`: schemas, one for each tenant."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json, Yes, at_least_one, whole_number
from pgbillion.cli.terminal import say, show
from pgbillion.common import invocation, text
from pgbillion.common.errors import UserError
from pgbillion.common.meter import meter
from pgbillion.server import extension
from pgbillion.tables import create as tables_create
from pgbillion.tables.plan import Method, Storage, parse_count
from pgbillion.tenants import create as tenants_create
from pgbillion.tenants import diff as tenants_diff
from pgbillion.tenants import manage, schemas, script
from pgbillion.tenants import migrate as tenants_migrate

app = typer.Typer(help="Create, migrate, compare, list, measure, move, rename and drop schemas, one for each tenant.")

# number of tenants that are named where many failed in the same way
_NAMED = 5
_WHAT, _HOW = "What", "How"

Tenants = Annotated[
    str,
    typer.Argument(metavar="PATTERN", help="Pattern of schema names, as for psql's \\dn: * and ? are wildcards."),
]
Workers = Annotated[
    int | None,
    typer.Option("--jobs", "-j", metavar="N", help="Number of parallel sessions. Default: one per CPU core."),
]
LockTimeout = Annotated[str, typer.Option("--lock-timeout", metavar="TIME", help="Maximum time to wait for a lock.")]
Retries = Annotated[
    int,
    typer.Option("--retries", metavar="N", help="Number of retries after a lock timeout or deadlock."),
]


def observe(word: str) -> Callable[[int], AbstractContextManager[Callable[[int], None]]]:
    """Give the display of how many tenants are over."""
    return lambda total: meter(total, word, noun="tenants")


def note(line: str) -> None:
    """Print a line that is a comment in SQL."""
    print("-- " + text.harmless(line).replace("\n", "\\n"))


def number_of_workers(given: int | None) -> int:
    """Return how many sessions are to be at work."""
    return os.cpu_count() or 1 if given is None else given


def check_time(conn: psycopg.Connection[Any], lock_timeout: str) -> None:
    """Refuse what is no time at once, and not by each tenant. Raises UserError."""
    try:
        conn.execute("SELECT set_config('lock_timeout', %s, false)", [lock_timeout])
    except psycopg.errors.InvalidParameterValue:
        raise UserError(f'"{lock_timeout}" is no time', "as in --lock-timeout 500ms, 5s or 1min") from None


@app.command()
@connect.options
def create(
    where: Where,
    template: Annotated[str, typer.Option("--template", metavar="SCHEMA", help="Schema to clone.")],
    count: Annotated[str, typer.Option("--count", "-n", metavar="N", help="Number of tenants: 10000, 10k.")],
    name_format: Annotated[
        str,
        typer.Option(
            "--name-format", metavar="FORMAT", help="Format of the names, with one of %d %o %x %X for the number."
        ),
    ] = tenants_create.DEFAULT_FORMAT,
    first: Annotated[
        int, typer.Option("--first", metavar="N", help="Number of the first tenant.", parser=whole_number)
    ] = 1,
    workers: Workers = None,
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            help="Tenants per transaction. Default: the first three in one, then up to 20 if clones are copied"
            " from catalog rows and get no rows, else 1; with --method sql, 1.",
            parser=at_least_one,
        ),
    ] = None,
    method: Annotated[
        Method,
        typer.Option("--method", help="bulk: by the extension; sql: by PostgreSQL's own commands."),
    ] = Method.BULK,
    storage: Annotated[
        Storage | None,
        typer.Option(
            "--storage",
            help="heap, or lazy: tables without files until their first row. Default: the template's.",
        ),
    ] = None,
    rows_of: Annotated[
        list[str] | None,
        typer.Option(
            "--rows-of", metavar="TABLE", help="Copy the rows of this table of the template; can be repeated."
        ),
    ] = None,
    all_rows: Annotated[bool, typer.Option("--all-rows", help="Copy the rows of all tables.")] = False,
    rewrite_bodies: Annotated[
        bool,
        typer.Option(
            "--rewrite-bodies", help="Replace the template's name by the tenant's in the bodies of functions."
        ),
    ] = False,
    join_publications: Annotated[
        bool, typer.Option("--join-publications", help="Add the tenants to the publications that contain the template.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Create tenants as clones of a schema with everything in it; run it again to continue after an interrupt.

    Rows are copied only on request. Schemas that already exist are left alone. With --method sql, no extension is
    needed.

    Example: pgbillion tenants create --template model --name-format 'tenant_%05d' --count 10000 -j 2
    """
    request = tenants_create.Request(
        template,
        name_format,
        first,
        parse_count(count, "tenants"),
        number_of_workers(workers),
        batch,
        None if storage is None else storage.access_method,
        tuple(rows_of or ()),
        all_rows,
        rewrite_bodies,
        join_publications,
        method,
    )
    request.check()
    target = where.target()
    with target.connect() as conn:
        if method is Method.BULK:
            without = "--method sql --storage heap" if storage is Storage.LAZY else "--method sql"
            extension.ensure_extension(conn, extension.TABLES, instead=without)
        else:
            tables_create.check_writable(conn)
            if storage is Storage.LAZY:
                tables_create.check_lazy(conn)
    outcome = tenants_create.execute(target, request, observe=observe("created"), again=invocation.again())
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    before = f", {text.count(outcome.before)} were there" if outcome.before else ""
    rate = outcome.created / outcome.seconds if outcome.seconds > 0 else 0.0
    took = text.duration(outcome.seconds)
    print(f"{text.many(outcome.created, 'tenant')} created in {took}{before}: {rate:,.1f} tenants/s")


@app.command()
@connect.options
def migrate(
    where: Where,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE… PATTERN", help="Files of SQL, then a pattern of schema names, as for psql's \\dn."
        ),
    ],
    command: Annotated[
        list[str] | None,
        typer.Option("--command", "-c", metavar="SQL", help="Run this SQL, after the files; can be repeated."),
    ] = None,
    workers: Workers = None,
    no_transaction: Annotated[
        bool,
        typer.Option(
            "--no-transaction",
            help="Run each statement by itself, as CREATE INDEX CONCURRENTLY needs; after a failure, it may run again.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Run everything and roll it back.")] = False,
    canary: Annotated[
        int,
        typer.Option(
            "--canary", metavar="N", min=0, help="Start with N tenants, and continue only if none of them fails."
        ),
    ] = 0,
    lock_timeout: LockTimeout = "5s",
    retries: Retries = 3,
    path: Annotated[
        list[str] | None,
        typer.Option(
            "--path", metavar="SCHEMA", help="Also search this schema for names, after the tenant; can be repeated."
        ),
    ] = None,
    as_owner: Annotated[
        bool,
        typer.Option(
            "--as-owner", help="Run it as the owner of each schema, so that its code gets no other role's privileges."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    r"""Run SQL in many schemas, each in its own transaction, which also records it, so that it never runs twice.

    search_path is set to the schema. :"schema" is replaced by its name as a quoted identifier, and :'schema' by its
    name as a string. Run it again to continue after an interrupt, or to retry the tenants that failed. No extension is
    needed.

    Triggers and functions of a tenant run as the role that migrates, unless --as-owner is given.

    Example: pgbillion tenants migrate add_column.sql 'tenant_*' --canary 10
    """
    *files, pattern = what
    if not files and not command:
        raise UserError("say what to run: a file, or SQL with -c", "as in: migrate add_column.sql 'tenant_*'")
    request = tenants_migrate.Request(
        script.load([Path(name) for name in files], command or []),
        number_of_workers(workers),
        not no_transaction,
        dry_run,
        canary,
        lock_timeout,
        retries,
        path or (),
        as_owner,
    )
    request.check()
    target = where.target()
    with target.connect() as conn:
        names = schemas.select(conn, pattern)
        check_time(conn, lock_timeout)
    outcome = tenants_migrate.run(target, request, names, observe=observe("over"))
    if as_json:
        print(json.dumps(asdict(outcome)))
    else:
        _print_migrated(outcome, dry_run=dry_run)
    if outcome.failures:
        raise typer.Exit(1)


def _print_migrated(outcome: tenants_migrate.Outcome, *, dry_run: bool) -> None:
    for failures in tenants_migrate.alike(outcome.failures):
        named = ", ".join(failure.tenant for failure in failures[:_NAMED])
        more = len(failures) - _NAMED
        others = f" and {text.count(more)} more" if more > 0 else ""
        say(text.harmless(f"failed: {named}{others}: {failures[0].migration}: {failures[0].error}"))
    if any(failure.sqlstate == "25001" for failure in outcome.failures):
        print("hint: --no-transaction runs statements that cannot be run in a transaction", file=sys.stderr)
    words = [f"{text.many(outcome.done, 'tenant')} {'could be migrated' if dry_run else 'migrated'}"]
    words += [f"{text.count(outcome.before)} before"] if outcome.before else []
    words += [f"{text.count(len(outcome.failures))} failed"] if outcome.failures else []
    words += [f"{text.count(outcome.left)} not begun"] if outcome.left else []
    print(f"{', '.join(words)}, in {text.duration(outcome.seconds)}")


@app.command()
@connect.options
def diff(
    where: Where,
    model: Annotated[str, typer.Argument(metavar="SCHEMA", help="Model that the other schemas should equal.")],
    pattern: Tenants,
    workers: Workers = None,
    as_json: Json = False,
) -> None:
    r"""Show which schemas differ from a model, and how, with statements that fix it.

    Schemas that differ in the same way are grouped. Statements are shown only if they worked in a copy without rows,
    which is rolled back. The exit status is 1 if any schema differs. No extension is needed.

    Example: pgbillion tenants diff model 'tenant_*'
    """
    target = where.target()
    with target.connect() as conn:
        names = schemas.select(conn, pattern, but=model)
    outcome = tenants_diff.compare(
        target, model, names, max(1, number_of_workers(workers)), observe=observe("compared")
    )
    if as_json:
        print(json.dumps(asdict(outcome)))
    else:
        show(
            f"{text.count(outcome.same)} of {text.many(outcome.tenants, 'tenant')}"
            f" {'matches' if outcome.tenants == 1 else 'match'} {model};"
            f" {text.many(outcome.tables, 'table')} compared in {text.duration(outcome.seconds)}"
        )
        for group in outcome.groups:
            shown = ", ".join(group.tenants[:5]) + (" …" if len(group.tenants) > 5 else "")
            # comments, as are the differences: what is no statement is none to psql either, whatever names there are
            print()
            note(f"{text.many(len(group.tenants), 'tenant')} differ{'s' * (len(group.tenants) == 1)}: {shown}")
            if group.untried is not None:
                note(f"  no statements, as they could not be tried: {group.untried}")
            for difference in group.differences:
                note(f"  {difference.what}")
                for statement in difference.statements:
                    # as it was tried: a line feed may be part of a string, or end a comment
                    show(f"{statement};")
    if outcome.groups:
        raise typer.Exit(1)


@app.command("list")
@connect.options
def list_tenants(
    where: Where,
    pattern: Tenants = "*",
    size: Annotated[bool, typer.Option("--size", help="Show the size of their tables, indexes and sequences.")] = False,
    as_json: Json = False,
) -> None:
    r"""List schemas with their owners and numbers of tables.

    Example: pgbillion tenants list 'tenant_*' --size
    """
    with where.target().connect() as conn:
        found = manage.listed(conn, schemas.select(conn, pattern), size=size)
    if as_json:
        print(json.dumps([asdict(tenant) for tenant in found]))
        return
    width = max(len(tenant.name) for tenant in found)
    for tenant in found:
        held = "" if tenant.size is None else f"  {text.size(tenant.size)}"
        show(f"{tenant.name:{width}}  {text.many(tenant.tables, 'table')}{held}  {tenant.owner}")


@app.command()
@connect.options
def rename(
    where: Where,
    old: Annotated[str, typer.Argument(metavar="OLD", help="Schema, or schemas with one * for any characters.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="New name, with one * for the same characters.")],
    as_json: Json = False,
) -> None:
    """Rename schemas, all or none; the journal of migrations goes with them.

    Example: pgbillion tenants rename 'tenant_*' 'customer_*'
    """
    with where.target().connect() as conn:
        pairs = manage.rename(
            conn,
            old,
            new,
            say=lambda line: print(line, file=sys.stderr),
        )
    if as_json:
        print(json.dumps(dict(pairs)))
    else:
        print(f"{text.many(len(pairs), 'tenant')} renamed")


@app.command()
@connect.options
def drop(
    where: Where,
    pattern: Tenants,
    cascade: Annotated[
        bool, typer.Option("--cascade", help="Also drop objects elsewhere that depend on them.")
    ] = False,
    workers: Workers = None,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which schemas would be dropped.")] = False,
    as_json: Json = False,
) -> None:
    r"""Drop schemas with everything in them, each in its own transaction; run it again to continue after an interrupt.

    A schema with more objects than the server's lock table has room for is dropped in several transactions.

    Example: pgbillion tenants drop 'tenant_0*' --dry-run
    """
    target = where.target()
    with target.connect() as conn:
        names = schemas.select(conn, pattern)
    shown = text.harmless(", ".join(names[:5])) + (" …" if len(names) > 5 else "")
    summary = f"{text.many(len(names), 'schema')} ({shown})"
    if dry_run:
        print(json.dumps({"selected": len(names), "dropped": 0}) if as_json else f"{summary} would be dropped")
        return
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UserError(
                f"{summary} would be dropped, and there is no terminal to ask at",
                "--yes drops them without asking, --dry-run shows which they would be",
            )
        if not typer.confirm(f"drop {summary} on {target.display}?", err=True):
            print("nothing was dropped", file=sys.stderr)
            return
    dropped = manage.drop(
        target, names, max(1, number_of_workers(workers)), cascade=cascade, observe=observe("dropped")
    )
    print(
        json.dumps({"selected": len(names), "dropped": dropped})
        if as_json
        else f"{text.many(dropped, 'tenant')} dropped"
    )
