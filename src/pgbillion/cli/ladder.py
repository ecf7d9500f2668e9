"""`pgbillion ladder …`: options in, work elsewhere, a table and a page out."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pgbillion.cli.connect import StateDir
from pgbillion.cli.options import Json, PgConfig, Yes
from pgbillion.cli.terminal import console, ending_in_order, new_page, say
from pgbillion.common import extras, invocation, paths, text
from pgbillion.common.errors import UserError
from pgbillion.ladder import climb, needs, record, server
from pgbillion.ladder import operations as on_top
from pgbillion.ladder.disk import SMALLEST, Kind
from pgbillion.ladder.record import Ladder, Place
from pgbillion.server.postgres import Installation, make_folder
from pgbillion.tables import display
from pgbillion.tables import estimate as estimation
from pgbillion.tables.plan import DEFAULT_COLUMNS, Storage, parse_count

app = typer.Typer(
    help="Create ever more tables in a server of its own, up to a hundred million, and measure what changes."
)

_TOP = "100M"
_SAMPLE_SECONDS = 10.0
_AMCHECK_SECONDS = 600.0
_LIMIT_SECONDS = 600.0
_OPERATIONS = ", ".join(one.name for one in on_top.OPERATIONS)


def _bytes(given: str) -> int:
    """Return a number of bytes that people write as 60G. Raises UserError."""
    units = {"M": 1024**2, "G": 1024**3, "T": 1024**4}
    number, unit = given[:-1], given[-1:].upper()
    if unit not in units or not number.isascii() or not number.isdigit() or len(number) > 9:
        raise UserError(f'"{given}" is no size', "as in --size 60G: mebibytes M, gibibytes G or tebibytes T")
    size = int(number) * units[unit]
    if size < SMALLEST:
        raise UserError(f"--size must be {text.size(SMALLEST)} or more, not {text.size(size)}", "as in --size 60G")
    return size


@app.command()
def run(
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="N",
            help="Number of tables at the top; measured on the way: 1, 2, 5, 10 … hundredths of it. Default: 100M.",
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="Measure at the sizes of the types of databases up to this one, as in MMT."
        ),
    ] = None,
    filesystem: Annotated[
        Kind | None,
        typer.Option("--filesystem", help="Make this file system in a file and use it; only for root."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="BYTES", help="Size of that file: 60G. Default: what is estimated."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="DIRECTORY",
            help="Keep the data in this directory. Default: in the state directory.",
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="SQL", help="Columns, as in CREATE TABLE. Default: i integer.")
    ] = None,
    storage: Annotated[
        Storage | None, typer.Option("--storage", help="lazy, without a file before the first row, or heap.")
    ] = None,
    tablespaces: Annotated[
        int | None,
        typer.Option(
            "--tablespaces", metavar="N", min=0, help="Spread the tables over N tablespaces on the same file system."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="N", min=1, help="Number of processes. Default: one per CPU core."),
    ] = None,
    durable: Annotated[
        bool, typer.Option("--durable", help="Turn fsync on, so that what was created survives that the machine fails.")
    ] = False,
    pg_config: PgConfig = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the estimate, and make nothing.")] = False,
    sample_interval: Annotated[
        float,
        typer.Option("--sample-interval", metavar="SECONDS", min=0.1, help="Time between two samples of the progress."),
    ] = _SAMPLE_SECONDS,
    amcheck_limit: Annotated[
        float,
        typer.Option(
            "--amcheck-limit",
            metavar="SECONDS",
            min=1,
            help="Maximum time for checking the catalogs' indexes at the end, the smallest of which come first.",
        ),
    ] = _AMCHECK_SECONDS,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Create tables up to a number, in steps, each of which is measured; run it again to continue after an interrupt.

    At the end all tables are verified, and the server is stopped. A file system that was made for it is then unmounted,
    also if something fails. What is created stays until `destroy` removes it.

    Example: pgbillion ladder run --to 100M --filesystem btrfs-zstd
    """
    extras.need(extras.MATPLOTLIB)
    state = paths.state_dir(state_dir)
    wanted = _bytes(size) if size is not None else None
    with ending_in_order(), record.alone(state):
        ladder = record.find(state)
        if ladder is not None and ladder.begun:
            given = {
                "--filesystem": (filesystem, ladder.place.filesystem),
                "--directory": (directory and directory.absolute(), ladder.place.directory),
                "--columns": (columns, ladder.columns),
                "--storage": (storage, ladder.storage),
                "--tablespaces": (tablespaces, ladder.tablespaces),
                "--durable": (durable or None, ladder.durable),
                "--type": (kind, None),
            }
            _refuse_change(given)
            _extend(ladder, to, jobs)
        else:
            if ladder is not None:
                # one that was killed before it began
                server.destroy(ladder)
            rungs = climb.types(kind) if kind is not None else climb.series(_top(to))
            if kind is not None and to is not None:
                raise UserError("--to and --type both say how many tables", "leave out one of them")
            ladder = Ladder(
                record.home(state),
                _place(filesystem, directory, wanted),
                rungs,
                columns=DEFAULT_COLUMNS if columns is None else columns,
                storage=storage or Storage.LAZY,
                tablespaces=tablespaces or 0,
                workers=jobs or needs.cores(),
                durable=durable,
            )
            needs.request(ladder).check()
            ladder.installation = Installation.prepare(state, pg_config, say)
            make_folder(ladder.home)
            climb.begin(ladder, say, lambda found: _show_needs(ladder, found, dry_run=dry_run), dry_run=dry_run)
        if dry_run:
            return
        if wanted is not None and ladder.disk is not None:
            _grow(ladder, wanted)
        found = _climb(ladder, sample_interval, amcheck_limit, show=not as_json)
    if as_json:
        print(json.dumps(found))
    wrong = [check for check in found["checks"] if check["result"] == "failed"]
    if wrong:
        raise UserError(f"{wrong[0]['name']}: {wrong[0]['summary']}")


def _top(to: str | None) -> int:
    top = parse_count(_TOP if to is None else to)
    if top < 1:
        raise UserError(f"--to must be at least 1, not {top:,}", "as in --to 100M")
    return top


def _place(filesystem: Kind | None, directory: Path | None, size: int | None) -> Place:
    if filesystem is not None and directory is not None:
        raise UserError("--filesystem and --directory both say where the data is", "leave out one of them")
    if size is not None and filesystem is None:
        raise UserError("--size is that of a file system of the ladder's own", "add --filesystem, or leave it out")
    if directory is not None and not directory.is_dir():
        raise UserError(
            f"there is no directory {directory}", "make it first, on the file system that is to be measured"
        )
    return Place(filesystem, directory.absolute() if directory is not None else None, size)


def _refuse_change(given: dict[str, tuple[Any, Any]]) -> None:
    for option, (value, known) in given.items():
        if value is not None and value != known:
            raise UserError(
                f"the ladder was begun without this {option}, which cannot be changed",
                f"leave it out to go on; to begin anew, first: {invocation.command('ladder', 'destroy')}",
            )


def _extend(ladder: Ladder, to: str | None, jobs: int | None) -> None:
    """Add rungs to a ladder that was begun."""
    if jobs is not None:
        ladder.workers = jobs
    if to is not None:
        top = _top(to)
        if top < ladder.to:
            raise UserError(
                f"the ladder goes to {text.count(ladder.to)} tables already", "leave out --to, or give a larger number"
            )
        begun = [run.plan.first + run.plan.count for run in climb.runs(ladder)]
        last = max(begun, default=0)
        ladder.rungs = sorted({*ladder.rungs, *(rung for rung in climb.series(top) if rung > max(last, ladder.to))})
    ladder.save()


def _grow(ladder: Ladder, wanted: int) -> None:
    if ladder.place.size is not None and wanted > ladder.place.size:
        # a device grows only when it is attached anew
        server.stop(ladder)
        try:
            climb.grow(ladder, wanted, say)
        finally:
            server.stop(ladder)


def _climb(ladder: Ladder, interval: float, amcheck_limit: float, *, show: bool) -> dict[str, Any]:
    # matplotlib takes long to load
    from pgbillion.ladder import page

    path = ladder.home / "report.html"
    checks = []
    with server.up(ladder, say) as target:
        climb.note_baseline(ladder, target)
        try:
            rungs = climb.climb(ladder, target, lambda plan: display.display(plan, interval), say, interval)
            for check in climb.checks(ladder, target, amcheck_limit, say):
                checks.append(check)
                say(f"{check.result}: {check.name}: {check.summary}")
        finally:
            if ladder.results():
                page.write(ladder, path)
    flatness = climb.flatness(climb.progress(climb.runs(ladder)))
    if show:
        _show_rungs(page.COLUMNS, page.rows(rungs))
        if flatness is not None:
            print(f"rate of the last tenth by that of the first: {flatness:.2f}")
        print(f"report: {path}")
        print(f"measure what PostgreSQL does with them: {invocation.command('ladder', 'operations')}")
        print(f"remove them: {invocation.command('ladder', 'destroy')}")
    return {
        "rungs": [asdict(rung) for rung in rungs],
        "last_tenth_by_first": flatness,
        "checks": [check.to_json() for check in checks],
        "report": str(path),
    }


def _show_needs(ladder: Ladder, found: needs.Needs, *, dry_run: bool) -> None:
    """Print an estimate: that is the result of a dry run."""
    lines = [
        f"{text.many(ladder.to, 'table')} ({ladder.columns}), storage {ladder.storage}, in {len(ladder.rungs)} steps:"
    ]
    for item in found.items:
        need = estimation.format_amount(item.unit, item.need)
        available = f" of {estimation.format_amount(item.unit, item.available)}" if item.available is not None else ""
        lines.append(f"  {item.name}: {need}{available} ({item.note})")
    for line in lines:
        if dry_run:
            print(line)
        else:
            say(line)


def _show_rungs(columns: tuple[str, ...], rows: list[list[str]]) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        shown.add_column(column, justify="right")
    for row in rows:
        shown.add_row(*row)
    console().print(shown)


@app.command()
def status(as_json: Json = False, state_dir: StateDir = None) -> None:
    """Show where the ladder is, whether its server runs, and what was measured so far.

    Example: pgbillion ladder status
    """
    ladder = record.existing(paths.state_dir(state_dir))
    from pgbillion.ladder import page

    running = ladder.installation is not None and ladder.cluster.data.exists() and ladder.cluster.running()
    mounted = ladder.disk is not None and ladder.disk.mounted()
    results = ladder.results()
    if as_json:
        print(
            json.dumps(
                {
                    "running": running,
                    "mounted": mounted,
                    "data": str(ladder.base),
                    "conninfo": server.reach(ladder.cluster).conninfo if running else None,
                    "to": ladder.to,
                    "rungs": results,
                    "operations": ladder.operations(),
                    "checks": ladder.checks(),
                }
            )
        )
        return
    place = (
        f"{ladder.place.filesystem}, {text.size(ladder.place.size or 0)}" if ladder.disk is not None else "directory"
    )
    print(f"data: {ladder.base} ({place}{', mounted' if mounted else ', not mounted' if ladder.disk else ''})")
    print(f"server: {server.reach(ladder.cluster).conninfo if running else 'stopped'}")
    print(f"tables: {text.count(results[-1]['tables'] if results else 0)} of {text.count(ladder.to)}")
    if results:
        _show_rungs(page.COLUMNS, page.rows([climb.Rung(**values) for values in results]))
    for name, result, seconds, tables, found in page.operations(ladder):
        _show_found(f"{name}, {tables} tables", result, seconds, found)


def _show_found(name: str, result: str, seconds: str, found: str) -> None:
    styles = {"ok": "green", "failed": "bold red", "skipped": "yellow", "gave up": "yellow"}
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=7, style=styles.get(result, ""))
    line.add_column(width=11, justify="right")
    line.add_column()
    line.add_row(result, seconds, Text(f"{name}: {found}"))
    console().print(line)


@app.command()
def operations(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[OPERATION]...", help=f"Operations, all by default: {_OPERATIONS}."),
    ] = None,
    limit: Annotated[
        float,
        typer.Option("--limit", metavar="SECONDS", min=0.1, help="Maximum time of each operation."),
    ] = _LIMIT_SECONDS,
    again: Annotated[
        bool, typer.Option("--again", help="Measure also what was measured with this number of tables before.")
    ] = False,
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Measure what PostgreSQL does with the ladder's tables; run it again to continue after an interrupt.

    Tables that are dropped are created again. The server is restarted for some of the operations, and one kills it.

    Example: pgbillion ladder operations --limit 60
    """
    extras.need(extras.MATPLOTLIB)
    chosen = on_top.choose(names or [])
    state = paths.state_dir(state_dir)
    with ending_in_order(), record.alone(state):
        ladder = _begun(state)
        if not ladder.results():
            raise UserError("the ladder has no tables yet", f"create them: {invocation.command('ladder', 'run')}")
        with server.up(ladder, say) as target:
            found = []
            titles = on_top.titles()
            observe = lambda plan: display.display(plan, _SAMPLE_SECONDS)  # noqa: E731
            for one in on_top.measure(ladder, target, chosen, limit, observe, say, again=again):
                found.append(one)
                if not as_json:
                    _show_found(titles[one.name], one.result, text.duration(one.seconds), one.summary)
        # matplotlib takes long to load
        from pgbillion.ladder import page

        path = ladder.home / "report.html"
        page.write(ladder, path)
    if as_json:
        print(json.dumps({"operations": ladder.operations(), "report": str(path)}))
    else:
        print(f"report: {path}")
    wrong = [one for one in found if one.result == "failed"]
    if wrong:
        raise UserError(f"{titles[wrong[0].name]}: {wrong[0].summary}")


@app.command()
def start(state_dir: StateDir = None) -> None:
    """Mount the ladder's file system and start its server, to look at the tables with psql and other programs.

    Example: pgbillion ladder start
    """
    state = paths.state_dir(state_dir)
    with ending_in_order(), record.alone(state):
        ladder = _begun(state)
        with server.up(ladder, say) as target:
            ladder.kept = True
            ladder.save()
        print(f"PostgreSQL {ladder.cluster.installation.version} runs: {target.conninfo}")
        print(f"stop it: {invocation.command('ladder', 'stop')}")


@app.command()
def stop(state_dir: StateDir = None) -> None:
    """Stop the ladder's server and unmount its file system, also after a command that was killed; the data is kept.

    Example: pgbillion ladder stop
    """
    state = paths.state_dir(state_dir)
    with record.alone(state):
        ladder = record.existing(state)
        server.stop(ladder)
        ladder.kept = False
        ladder.save()
    print("stopped")


@app.command()
def report(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write. Default: report.html in the ladder's directory."
        ),
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Write a self-contained HTML page with charts about the ladder; its server need not run.

    Example: pgbillion ladder report --output ladder.html
    """
    ladder = record.existing(paths.state_dir(state_dir))
    # matplotlib takes long to load
    from pgbillion.ladder import page

    path = output or ladder.home / "report.html"
    page.write(ladder, path)
    print(path)


@app.command()
def destroy(yes: Yes = False, state_dir: StateDir = None) -> None:
    """Stop the ladder's server, unmount its file system, and remove both with all tables; the report is kept.

    Example: pgbillion ladder destroy --yes
    """
    state = paths.state_dir(state_dir)
    with record.alone(state):
        ladder = record.existing(state)
        if not yes:
            if not sys.stdin.isatty():
                raise UserError("not removing a ladder without being told to", "say --yes")
            typer.confirm(f"Remove the ladder in {ladder.home} and all its tables?", abort=True, err=True)
        page = ladder.home / "report.html"
        kept = new_page(state, "scale", "ladder-") if page.exists() else None
        if kept is not None:
            kept.write_bytes(page.read_bytes())
        server.destroy(ladder)
    print(f"removed: {ladder.home}")
    if kept is not None:
        print(f"report: {kept}")


def _begun(state: Path) -> Ladder:
    ladder = record.existing(state)
    if not ladder.begun:
        raise UserError(
            f"the ladder in {ladder.home} was not begun", f"begin it: {invocation.command('ladder', 'run')}"
        )
    return ladder
