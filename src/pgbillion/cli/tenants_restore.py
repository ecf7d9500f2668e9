"""`pgbillion tenants restore`: a schema as it was, from a base backup and WAL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.tenants_move import Bindir
from pgbillion.cli.terminal import ending_in_order, say
from pgbillion.common import text
from pgbillion.tenants import restore as tenants_restore
from pgbillion.tenants.replay import Wal


@connect.options
def restore(
    where: Where,
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="Schema, by its exact name at that time.")],
    backup: Annotated[
        Path,
        typer.Option("--backup", metavar="DIRECTORY", help="Directory of a base backup. It is only read."),
    ],
    wal: Annotated[
        Path | None,
        typer.Option(
            "--wal", metavar="DIRECTORY", help="Directory of the WAL archive. Default: the backup has all WAL."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="TIME",
            help="Time to restore, in the time zone of the session unless it names one. Default: the backup's end.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the restored schema. Default: its own.")
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Drop the schema that has the name, in the transaction that completes the restored one."
        ),
    ] = False,
    from_database: Annotated[
        str | None,
        typer.Option("--from-database", metavar="DBNAME", help="Database of the backup. Default: named as the target."),
    ] = None,
    restore_command: Annotated[
        str | None,
        typer.Option(
            "--restore-command",
            metavar="COMMAND",
            help="Command that fetches a WAL file, as PostgreSQL's setting restore_command, in place of --wal.",
        ),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Copy the whole backup, not only the catalogs and the tenant's files.")
    ] = False,
    work: Annotated[
        Path | None,
        typer.Option(
            "--work-dir",
            metavar="DIRECTORY",
            help="Directory for the copy, removed at the end. Default: one in the state directory.",
        ),
    ] = None,
    preload: Annotated[
        list[str] | None,
        typer.Option(
            "--preload",
            metavar="LIBRARY",
            help="Library with a resource manager that the WAL needs; can be repeated.",
        ),
    ] = None,
    pg_config: Annotated[
        Path | None,
        typer.Option(
            "--pg-config",
            metavar="PATH",
            help="pg_config of a PostgreSQL of the backup's major version. Default: found by that version.",
        ),
    ] = None,
    bindir: Bindir = None,
    trust_owner: Annotated[
        bool,
        typer.Option(
            "--trust-owner",
            help="Let the tenant's code run as the role that restores it, as constraints on rows may need.",
        ),
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Remove what an interrupted run of the same command has left, and end.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Bring one schema back as it was at an earlier time, from a base backup and WAL, while the database is in use.

    A temporary server on this machine replays a copy of the backup up to the time. pg_dump and pg_restore bring the
    schema from there into the database, in one transaction, and objects, numbers of rows and sequences are compared.
    Run it again to continue after an interrupt.

    Example: pgbillion tenants restore tenant_00042 --backup /backup/base --wal /backup/wal --to '2026-11-23 17:05'
    """
    request = tenants_restore.Request(
        schema,
        backup,
        Wal(None if wal is None else wal.absolute(), restore_command),
        to,
        name,
        replace,
        from_database,
        whole,
        work,
        pg_config,
        bindir,
        tuple(preload or ()),
        trust_owner,
    )
    request.check()
    with ending_in_order():
        if discard:
            found = tenants_restore.discard(where.target(), request, where.state)
            if as_json:
                print(json.dumps({"discarded": found}))
            else:
                print("what was left has been removed" if found else "nothing was left")
            return
        outcome = tenants_restore.restore(where.target(), request, where.state, say=say)
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    as_name = f" as {outcome.name}" if outcome.name != outcome.tenant else ""
    objects = f", {text.many(outcome.large_objects, 'large object')}" if outcome.large_objects else ""
    as_of = f" of {outcome.time}" if outcome.time is not None else ""
    print(
        f"{outcome.tenant}{as_of} restored{as_name}: {text.many(outcome.tables, 'table')},"
        f" {text.many(outcome.rows, 'row')}{objects}, verified, in {text.duration(outcome.seconds)}"
    )
    if outcome.left_publications:
        say(text.harmless(f"it is no longer in these publications: {', '.join(outcome.left_publications)}"))
