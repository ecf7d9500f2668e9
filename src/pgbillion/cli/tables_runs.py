"""`pgbillion tables runs`: the records of runs and the pages of measurements, listed and removed."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer
from rich.table import Table

from pgbillion.cli.connect import StateDir
from pgbillion.cli.options import Json, Yes
from pgbillion.cli.terminal import console
from pgbillion.common import paths, text
from pgbillion.common.errors import UserError
from pgbillion.tables import runs
from pgbillion.tables.runs import Found


def list_runs(
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove the runs that --older-than and --keep select; their tables are kept."),
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Select runs that began longer ago than this: 90m, 12h, 30d, 2w."
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", metavar="N", min=0, help="Select all but the N latest runs.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """List the records of runs, and the pages of scale and cycle, in the state directory; remove old ones with --prune.

    A pruned run can no longer be resumed, verified or reported. A run that is in progress is kept.

    Example: pgbillion tables runs --prune --older-than 30d
    """
    limits = older_than is not None or keep is not None
    if limits and not prune:
        raise UserError("--older-than and --keep are for --prune", "add --prune to remove runs' records and pages")
    if prune and not limits:
        raise UserError("--prune needs to know which runs", "name them with --older-than 30d, --keep 10, or both")
    older = runs.parse_age(older_than) if older_than is not None else None
    found = runs.find_all(paths.state_dir(state_dir))
    if not prune:
        if as_json:
            print(json.dumps({"runs": [one.to_json() for one in found]}))
        else:
            _show(found)
        return
    chosen = runs.choose(found, older=older, keep=keep or 0)
    if chosen and not yes:
        if not sys.stdin.isatty():
            raise UserError(f"not removing {_many(chosen)} without being told to", "say --yes")
        if not as_json:
            _show(chosen)
        typer.confirm(f"Remove {_many(chosen)}?", abort=True, err=True)
    results = [(one, runs.remove(one)) for one in chosen]
    gone = [one for one, removed in results if removed]
    kept = [one for one, removed in results if not removed]
    size = sum(one.size for one in gone)
    if as_json:
        names = {"removed": [one.name for one in gone], "in_use": [one.name for one in kept]}
        print(json.dumps({**names, "size": size}))
        return
    print(f"{_many(gone)} removed, {text.size(size)}")
    for one in kept:
        print(f"note: {one.name} stays: a process works on it, or it is a link", file=sys.stderr)


def _many(found: list[Found]) -> str:
    pages = sum(one.page for one in found)
    runs = f"the records of {text.many(len(found) - pages, 'run')}" if len(found) > pages or not pages else ""
    return " and ".join(filter(None, [runs, text.many(pages, "page") if pages else ""]))


def _show(found: list[Found]) -> None:
    if not found:
        print("no runs and no pages")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("name", "begun", "what", "outcome"):
        table.add_column(column)
    table.add_column("size", justify="right")
    for one in found:
        begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started))
        table.add_row(one.name, begun, _what(one), one.outcome, text.size(one.size))
    console().print(table, markup=False)


def _what(one: Found) -> str:
    if one.run is None:
        return one.reason
    plan = one.run.plan
    return f"{text.many(plan.count, 'table')} {plan.definition}, {plan.method}"
