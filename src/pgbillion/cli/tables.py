"""`pgbillion tables …`: options in, work elsewhere, results out."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from pgbillion.cli import connect
from pgbillion.cli.connect import StateDir, Where
from pgbillion.cli.options import Json, Tables, at_least_one
from pgbillion.cli.terminal import console, say
from pgbillion.common import host as machine
from pgbillion.common import invocation, paths, text
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import embedded
from pgbillion.tables import create as creation
from pgbillion.tables import display, run, tablespaces
from pgbillion.tables import estimate as estimation
from pgbillion.tables import resume as tables_resume
from pgbillion.tables import verify as verification
from pgbillion.tables.plan import Method
from pgbillion.tables.probe import Cost

app = typer.Typer(
    help="Estimate, create, verify, list and drop tables by the million; report on runs, and measure how they scale."
)

_RUN = "The run"
_SAMPLE_SECONDS = 10.0


def tablespace_folders(target: Target, state: Path, given: list[Path] | None) -> list[Path]:
    """Return where tablespaces are made: below the state folder for the embedded server, which removes them again."""
    return given or ([state / "tablespaces"] if target.embedded else [])


@app.command()
@connect.options
def create(
    where: Where,
    wanted: Tables,
    sample_interval: Annotated[
        float,
        typer.Option(
            "--sample-interval",
            metavar="SECONDS",
            help="Time between two samples of the progress.",
            rich_help_panel=_RUN,
        ),
    ] = _SAMPLE_SECONDS,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir",
            metavar="DIRECTORY",
            help="Directory for the run's records. Default: a new one.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help="Continue a run, given by its directory or name.", rich_help_panel=_RUN
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Proceed even if the estimate says that the tables do not fit.", rich_help_panel=_RUN
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Create tables by the million, with a live display; an interrupted run can be resumed.

    Example: pgbillion tables create --count 1M --jobs 4 --columns "i integer"
    """
    state = where.state
    if sample_interval <= 0:
        raise UserError("--sample-interval must be more than 0 seconds")
    if resume is not None:
        if wanted != Tables() or run_dir is not None:
            raise UserError(
                "--resume goes on with the run's own plan: other options cannot change it",
                "leave them out, or start a new run",
            )
        opened = run.Run.open(run.find(state, resume))
        target = _target_of(opened, where)
    else:
        request = wanted.request()
        target = where.target()
        folders = tablespace_folders(target, state, wanted.tablespace_dir)
        opened = _begin(target, request, folders, run_dir or run.new_folder(state), force)
    sampling = ("--sample-interval", f"{sample_interval:g}") if sample_interval != _SAMPLE_SECONDS else ()
    with opened.locked():
        if resume is not None:
            _check_resume(target, opened)
        outcome = creation.execute(
            target,
            opened,
            interval=sample_interval,
            psql=find_psql(target, state) if opened.plan.method is Method.SQL else None,
            resume_command=invocation.command("tables", "create", "--resume", str(opened.folder), *sampling),
            observe=lambda: display.display(opened.plan, sample_interval),
        )
    if as_json:
        print(json.dumps(outcome.to_json()))
        return
    print(
        f"{text.many(outcome.created, 'table')} created in {text.duration(outcome.seconds)}: "
        f"{text.count(outcome.rate)} tables/s; {text.count(outcome.total)} in all"
    )
    print(f"run: {opened.folder}")
    print(f"verify: {invocation.command('tables', 'verify', str(opened.folder))}")
    print(f"report: {invocation.command('tables', 'report', str(opened.folder))}")


def _begin(target: Target, request: creation.Request, folders: list[Path], folder: Path, force: bool) -> run.Run:
    """Check everything, then make tablespaces and the run's folder."""
    with target.connect() as conn:
        plan = creation.make_plan(conn, request)
        creation.check_server(conn, plan)
        creation.check_names(conn, plan)
        tablespaces.check_folders(conn, plan.tablespaces, folders)
        host = machine.Host.of(conn)
        result = estimation.estimate(conn, plan, host, folders)
        if not force:
            estimation.refuse_unfit(result)
        say(estimation.room(result))
        tablespaces.create(conn, plan.tablespaces, folders, host)
        return run.Run.create(folder, plan, creation.server(conn, target, plan, host))


def _target_of(opened: run.Run, where: Where) -> Target:
    target = where.target()
    if opened.server.get("embedded") and not target.embedded and not any(where.server.values()):
        cluster = embedded.find(where.state)
        if cluster is not None and not cluster.running():
            raise UserError(
                "the embedded server, which this run belongs to, is stopped",
                f"start it: {invocation.command('server', 'start')}",
                status=2,
            )
    return target


def _check_resume(target: Target, opened: run.Run) -> None:
    with target.connect() as conn:
        tables_resume.check_same_database(conn, opened)
        creation.check_server(conn, opened.plan)


def find_psql(target: Target, state: Path) -> Path:
    """Return a psql: for the embedded server its own, for others the one in PATH; the other one if need be."""
    cluster = embedded.find(state)
    own = cluster.installation.bindir / "psql" if cluster is not None else None
    found = shutil.which("psql")
    candidates = [own, Path(found) if found else None]
    if not target.embedded:
        candidates.reverse()
    for candidate in candidates:
        if candidate is not None and candidate.exists():
            return candidate
    raise UserError("there is no psql to send the statements with", "install PostgreSQL's client programs")


@app.command()
@connect.options
def estimate(
    where: Where,
    wanted: Tables,
    as_json: Json = False,
) -> None:
    """Estimate what tables would need, and whether this server and its file systems have room for it.

    The figures come from a few tables that are created on this server, in a transaction that is rolled back.

    Example: pgbillion tables estimate --count 1B --tablespaces 1000 --jobs 16
    """
    request = wanted.request()
    target = where.target()
    with target.connect() as conn:
        plan = creation.make_plan(conn, request)
        creation.check_server(conn, plan)
        folders = tablespace_folders(target, where.state, wanted.tablespace_dir)
        result = estimation.estimate(conn, plan, machine.Host.of(conn), folders)
    if as_json:
        print(json.dumps(result.to_json()))
    else:
        _print_estimate(result)


def _files(cost: Cost) -> str:
    if not cost.files:
        return "no file"
    together = " together" if cost.files > 1 else ""
    return f"{cost.files:g} file{'s' if cost.files > 1 else ''} of {text.size(cost.file_bytes)}{together}"


def _print_estimate(result: estimation.Estimate) -> None:
    plan, cost = result.plan, result.cost
    out = console()
    workers = text.many(plan.workers, "worker")
    out.print(f"{text.many(plan.count, 'table')} {plan.definition} by {workers}, method {plan.method}")
    out.print(
        f"a table: {cost.rows:g} rows and {cost.entries:g} index entries in {len(cost.catalogs)} catalogs "
        f"({text.size(cost.catalog_bytes)}), {_files(cost)}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (("", "left"), ("needed", "right"), ("available", "right"), ("fits", "left"), ("", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    verdicts = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
    for item in result.items:
        need = estimation.format_amount(item.unit, item.need)
        # what has no limit is not 'unknown'
        available = "" if item.available is None else estimation.format_amount(item.unit, item.available)
        table.add_row(item.name, need, available, verdicts[item.fits], f"[dim]{item.note}[/]")
    out.print(table)
    out.print("how many tables like this one database can hold:")
    for limit in result.limits:
        out.print(f"  {text.count(limit.tables)}: {limit.reason}")


@app.command()
@connect.options
def verify(
    where: Where,
    name: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="Run whose tables to count and try, by its directory or name."),
    ] = None,
    dt_limit: Annotated[
        float, typer.Option("--dt-limit", metavar="SECONDS", min=0, help="Maximum time to wait for psql's \\dt.")
    ] = 10.0,
    size_limit: Annotated[
        float,
        typer.Option(
            "--size-limit", metavar="SECONDS", min=0, help="Maximum time to wait for the size of the database."
        ),
    ] = verification.Options.size_seconds,
    tables: Annotated[
        int,
        typer.Option(
            "--tables", metavar="N", parser=at_least_one, help="Number of random tables to insert into and select from."
        ),
    ] = verification.Options.tables,
    amcheck: Annotated[
        verification.Amcheck, typer.Option("--amcheck", help="How thoroughly the catalogs' indexes are checked.")
    ] = verification.Options.amcheck,
    amcheck_limit: Annotated[
        float | None,
        typer.Option(
            "--amcheck-limit",
            metavar="SECONDS",
            min=1,
            help="Maximum time for checking indexes, the smallest of which come first. Default: no limit.",
        ),
    ] = None,
    orphans: Annotated[bool, typer.Option("--orphans", help="Look for files that belong to no table.")] = False,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Seed of the random choice, to repeat it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check and time a database with many tables; the exit status is 1 if something is wrong with it.

    Example: pgbillion tables verify --dt-limit 60 --amcheck heap --orphans
    """
    state = where.state
    opened = run.Run.open(run.find(state, name)) if name is not None else None
    if opened is not None:
        target = _target_of(opened, where)
        with target.connect() as conn:
            tables_resume.check_same_database(conn, opened)
    else:
        target = where.target()
    try:
        psql: Path | None = find_psql(target, state)
    except UserError:
        psql = None
    options = verification.Options(dt_limit, size_limit, tables, amcheck, amcheck_limit, orphans, seed)
    checks = run_checks(target, opened, psql, options, show=not as_json)
    if as_json:
        print(json.dumps({"ok": not _wrong(checks), "checks": [check.to_json() for check in checks]}))
    wrong = _wrong(checks)
    if wrong:
        raise UserError(f"{wrong[0].name}: {wrong[0].summary}")


def run_checks(
    target: Target, opened: run.Run | None, psql: Path | None, options: verification.Options, *, show: bool
) -> list[verification.Check]:
    """Make the checks, print each when it is done if ``show``, and keep them with the run."""
    checks: list[verification.Check] = []
    out = console()
    styles = {"ok": "green", "failed": "bold red", "skipped": "yellow"}
    for check in verification.verify(target, opened.plan if opened else None, psql, options, say):
        checks.append(check)
        if show:
            line = Table.grid(padding=(0, 2, 0, 0))
            line.add_column(width=7, style=styles[check.result])
            line.add_column(width=11, justify="right")
            line.add_column()
            line.add_row(check.result, text.duration(check.seconds), Text(f"{check.name}: {check.summary}"))
            out.print(line)
    if opened is not None:
        with contextlib.suppress(OSError):
            opened.save_checks([check.to_json() for check in checks])
    return checks


def _wrong(checks: list[verification.Check]) -> list[verification.Check]:
    return [check for check in checks if check.result == "failed"]


@app.command()
def report(
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Run, by its directory or name. Default: the latest.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write. Default: report.html in the run's directory."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as one JSON object instead.")] = False,
    state_dir: StateDir = None,
) -> None:
    """Write a self-contained HTML page with charts about a run.

    Example: pgbillion tables report --output million.html
    """
    # matplotlib takes long to load, and only this command needs it
    from pgbillion.tables import figures, page

    opened = run.Run.open(run.find(paths.state_dir(state_dir), name))
    if as_json:
        values = {"run": str(opened.folder), "plan": opened.plan.to_json(), "server": opened.server}
        print(json.dumps({**values, "figures": figures.figures(opened).to_json(), "checks": opened.checks()}))
        return
    path = output or opened.folder / "report.html"
    page.write(opened, path)
    print(path)
