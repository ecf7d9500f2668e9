"""`pgbillion tenants export --all` and `import`: many schemas, by a directory, from one database into another."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json
from pgbillion.cli.tenants import Workers, number_of_workers, observe
from pgbillion.cli.terminal import say
from pgbillion.common import invocation, text
from pgbillion.tables.plan import Method
from pgbillion.tenants import fleet_export, fleet_import
from pgbillion.tenants import migrate as tenants_migrate

# tenants that are named where many failed in the same way
_NAMED = 5


def export_all(
    where: Where, directory: Path, pattern: str, jobs: int | None, bindir: Path | None, *, as_json: bool
) -> None:
    """Export all tenants that match a pattern."""
    request = fleet_export.Request(directory, pattern, number_of_workers(jobs), bindir)
    request.check()
    outcome = fleet_export.export(where.target(), request, observe=observe)
    if as_json:
        print(json.dumps(outcome.to_json()))
    else:
        before = f", {text.count(outcome.before)} of them before" if outcome.before else ""
        print(
            f"{outcome.path}: {text.many(outcome.tenants, 'tenant')}{before}, {text.many(outcome.kinds, 'definition')},"
            f" {text.many(outcome.rows, 'row')}, {text.size(outcome.size)}, in {text.duration(outcome.seconds)}"
        )
        if outcome.needs:
            print(text.harmless(f"they need: {', '.join(outcome.needs)}"))
        _print_left_out(outcome.left_out)
        print("tenants import makes them in another database")
    _print_failures(outcome.failures, "not exported")


@connect.options
def import_(
    where: Where,
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="Directory that tenants export --all has written.")
    ],
    workers: Workers = None,
    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            help="bulk: clone by the extension; sql: by PostgreSQL's own commands. Default: bulk if the database has"
            " the extension.",
        ),
    ] = None,
    trust_owner: Annotated[
        bool,
        typer.Option(
            "--trust-owner",
            help="Let the tenants' code run as the role that imports, as constraints on rows may need.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create the tenants of an export, with their rows, in a database of the same or a later major version.

    First, the database is checked for what the tenants need from outside. Each tenant is created in its own
    transaction. Run it again to continue after an interrupt, or to retry the tenants that failed. The exit status is 1
    if a tenant failed.

    Example: pgbillion tenants import /backup/tenants -j 4 -d app
    """
    request = fleet_import.Request(directory, number_of_workers(workers), method, trust_owner)
    request.check()
    outcome = fleet_import.import_(where.target(), request, observe=observe("imported"))
    if as_json:
        print(json.dumps(outcome.to_json()))
    else:
        before = f", {text.count(outcome.before)} were there" if outcome.before else ""
        print(
            f"{text.many(outcome.done, 'tenant')} imported{before}, {text.many(outcome.rows, 'row')},"
            f" in {text.duration(outcome.seconds)}"
        )
        _print_left_out(outcome.left_out)
        print("they have no statistics yet: vacuumdb --analyze-in-stages makes these")
    _print_failures(outcome.failures, "failed")


def _print_left_out(what: list[str]) -> None:
    for one in what:
        say(text.harmless(f"not in the export: {one}"))


def _print_failures(failures: Mapping[str, str], word: str) -> None:
    """Print which tenants have failed, those for the same reason together, and end with status 1 if any has."""
    made = [tenants_migrate.Failure(name, word, error) for name, error in failures.items()]
    for alike in tenants_migrate.alike(made):
        named = ", ".join(failure.tenant for failure in alike[:_NAMED])
        more = f" and {text.count(len(alike) - _NAMED)} more" if len(alike) > _NAMED else ""
        say(text.harmless(f"{word}: {named}{more}: {alike[0].error}"))
    if failures:
        print(f"{text.many(len(failures), 'tenant')} {word}; go on with: {invocation.again()}", file=sys.stderr)
        raise typer.Exit(1)
