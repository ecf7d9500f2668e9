"""`pgbillion tenants export` and `move`: a schema with its rows, by pg_dump and pg_restore."""

from __future__ import annotations

import json
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.cli import connect, tenants_fleet
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.tenants import LockTimeout, check_time
from pgbillion.common import text
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.tenants import export as tenants_export
from pgbillion.tenants import move as tenants_move
from pgbillion.tenants import move_online as tenants_online

Tenant = Annotated[str, typer.Argument(metavar="SCHEMA", help="Schema, by its exact name.")]
Bindir = Annotated[
    Path | None,
    typer.Option(
        "--bindir",
        metavar="DIRECTORY",
        help="Directory of pg_dump and pg_restore. Default: found by the server's version.",
    ),
]


class Form(StrEnum):
    """What pg_dump writes and pg_restore reads."""

    CUSTOM = "custom"
    DIRECTORY = "directory"


@connect.options
def export(
    where: Where,
    schema: Annotated[
        str | None,
        typer.Argument(
            metavar="SCHEMA", help="Schema, by its exact name; with --all, a pattern of schema names. Default: *."
        ),
    ] = None,
    all_into: Annotated[
        Path | None,
        typer.Option("--all", metavar="DIRECTORY", help="Export all tenants into this directory, for tenants import."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write. Default: SCHEMA.dump in the current directory."
        ),
    ] = None,
    form: Annotated[
        Form | None, typer.Option("--format", help="pg_dump's format: custom or directory. Default: custom.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            metavar="N",
            help="Number of tables to dump in parallel, with --format directory, or of tenants, with --all."
            " Default: 1, or one per CPU core.",
        ),
    ] = None,
    schema_only: Annotated[bool, typer.Option("--schema-only", help="Leave out the rows.")] = False,
    bindir: Bindir = None,
    as_json: Json = False,
) -> None:
    """Write a schema with its rows to an archive for pg_restore, and list what else the target database has to have.

    The archive is written by pg_dump of the server's version or a newer one. After a failure or Ctrl-C, no file is
    left.

    With --all, many schemas are written to a directory, from which tenants import makes them elsewhere. Run it again to
    continue after an interrupt. The exit status is 1 if a schema could not be exported.

    Example: pgbillion tenants export tenant_00001 --output tenant_00001.dump
    """
    if all_into is not None:
        if output is not None or form is not None or schema_only:
            raise UserError("--all takes no --output, --format and --schema-only", "leave them out")
        tenants_fleet.export_all(where, all_into, schema or "*", jobs, bindir, as_json=as_json)
        return
    if schema is None:
        raise UserError("name a schema, or export all with --all DIRECTORY", "as in: export tenant_00001")
    path = output or Path(f"{schema.replace('/', '_')}.dump")
    form = form or Form.CUSTOM
    request = tenants_export.Request(schema, path, form.value, 1 if jobs is None else jobs, not schema_only, bindir)
    request.check()
    outcome = tenants_export.export(where.target(), request)
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    print(f"{outcome.path}: {text.size(outcome.size)} in {text.duration(outcome.seconds)}")
    if outcome.needs:
        print(f"it needs: {', '.join(outcome.needs)}")
    print(f"restore it with: {shlex.quote(outcome.restore)} -1 -d DBNAME {shlex.quote(outcome.path)}")


@connect.options
def move(
    where: Where,
    schema: Tenant,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="DBNAME", help="Target: a database of the same server, or a URI or connection string."
        ),
    ],
    drop_source: Annotated[
        bool, typer.Option("--drop-source", help="Block writes to the source, and drop it once the copy is verified.")
    ] = False,
    trust_owner: Annotated[
        bool,
        typer.Option(
            "--trust-owner",
            help="Let the tenant's code run as the role that restores it, as constraints on rows may need.",
        ),
    ] = False,
    online: Annotated[
        bool,
        typer.Option("--online", help="Let clients write meanwhile: rows are replicated, and writes blocked briefly."),
    ] = False,
    source_conninfo: Annotated[
        str | None,
        typer.Option(
            "--source-conninfo",
            metavar="CONNINFO",
            envvar="PGBILLION_SOURCE_CONNINFO",
            help="With --online: how the target's server reaches the source. Default: as this command does.",
        ),
    ] = None,
    abort: Annotated[
        bool,
        typer.Option("--abort", help="Only remove what an interrupted move --online has left, or finish that move."),
    ] = False,
    lock_timeout: LockTimeout = "5s",
    bindir: Bindir = None,
    as_json: Json = False,
) -> None:
    """Copy a schema with its rows into another database, verify the copy, and drop the source on request.

    First, the target is checked for what the schema needs from outside. Then pg_dump and pg_restore copy the schema, in
    one transaction of the target. Objects, numbers of rows and sequences are compared. After a failure or Ctrl-C, both
    sides are as they were.

    With --online, logical replication copies the rows and follows the writes of clients. In the end the source gets the
    name SCHEMA_moved, or is dropped with --drop-source.

    Example: pgbillion tenants move tenant_00001 --to 'host=db2 dbname=app' --drop-source
    """
    if (source_conninfo is not None or abort) and not online:
        raise UserError("--source-conninfo and --abort are for moves with --online", "add --online, or leave them out")
    source = where.target()
    target = connect.second_target(to, source)
    with source.connect() as conn:
        check_time(conn, lock_timeout)
    if online:
        if source_conninfo is not None:
            connect.check_conninfo(source_conninfo)
        wanted = tenants_online.Request(schema, drop_source, lock_timeout, bindir, trust_owner, source_conninfo)
        _move_online(source, target, wanted, abort=abort, as_json=as_json)
        return
    request = tenants_move.Request(schema, drop_source, lock_timeout, bindir, trust_owner)
    outcome = tenants_move.move(source, target, request, say=_say)
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    what = "moved" if outcome.dropped else "copied"
    print(
        f"{outcome.tenant} {what}: {text.many(outcome.tables, 'table')}, {text.many(outcome.rows, 'row')},"
        f" verified, in {text.duration(outcome.seconds)}"
    )


def _move_online(
    source: Target, target: Target, request: tenants_online.Request, *, abort: bool, as_json: bool
) -> None:
    if abort:
        cleared = tenants_online.clear(source, target, request.schema, say=_say)
        if as_json:
            print(json.dumps({"tenant": request.schema, "cleared": cleared.name.lower()}))
        else:
            print(cleared.value.format(request.schema))
        return
    outcome = tenants_online.run(source, target, request, say=_say)
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    kept = "" if outcome.kept is None else f"; the source is kept as {outcome.kept}"
    print(
        f"{outcome.tenant} moved: {text.many(outcome.tables, 'table')}, {text.many(outcome.rows, 'row')} compared,"
        f" writes blocked for {text.duration(outcome.blocked_ms / 1000)}, in {text.duration(outcome.seconds)}{kept}"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
