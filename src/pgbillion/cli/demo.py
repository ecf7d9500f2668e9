"""`pgbillion demo`: everything pgbillion does, beside PostgreSQL's own commands, from nothing to a page."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, LiteralString

import psycopg
import typer
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.cli.connect import StateDir
from pgbillion.cli.options import PgConfig
from pgbillion.cli.server import start_embedded
from pgbillion.cli.tables import run_checks
from pgbillion.cli.terminal import ending_in_order
from pgbillion.common import extras, invocation, paths, search_path, text
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.target import Target
from pgbillion.cycle import demo_chapter as cycle_chapter
from pgbillion.cycle import servers
from pgbillion.durability.profiles import Profile
from pgbillion.report import demo as page
from pgbillion.report.chapter import Chapter, Figure
from pgbillion.rows import demo_chapter as rows_chapter
from pgbillion.rows.load import TABLE
from pgbillion.server import describe
from pgbillion.server.postgres import Cluster
from pgbillion.shards import demo_chapter as shards_chapter
from pgbillion.tables import create, display, estimate, verify
from pgbillion.tables import demo_chapter as tables_chapter
from pgbillion.tables.plan import Storage, parse_count
from pgbillion.tables.run import RUNS, Run
from pgbillion.tenants import demo_chapter as tenants_chapter

DATABASE = "demo"
PAGE = "demo.html"
_OLD, _SAMPLE = "demo_old", "demo_sample"
# what PostgreSQL's commands may take to create the tables of the last step, which does that four times
_CYCLE_SECONDS = 1.5


def demo(
    count: Annotated[
        str | None,
        typer.Option(
            "--count", "-n", metavar="N", help="Number of tables: 20k, 1M. Default: as many as two minutes allow."
        ),
    ] = None,
    pg_config: PgConfig = None,
    state_dir: StateDir = None,
) -> None:
    """Show within two minutes what pgbillion does beside PostgreSQL's own commands, and write a report.

    Each run starts over in the database `demo` of the embedded server and leaves its other databases alone. Durability
    is off in that server; the last step measures with durability on.

    Example: pgbillion demo
    """
    start = time.monotonic()
    wanted = parse_count(count) if count is not None else None
    if wanted is not None and wanted < 1:
        raise UserError(f"the number of tables must be at least 1, not {wanted:,}")
    extras.need(*(() if pg_config else (extras.EMBEDDED,)), extras.NUMPY, extras.MATPLOTLIB)
    load = Host.load()[0]
    state = paths.state_dir(state_dir)
    print(_BEFORE.format(state=state), file=sys.stderr, flush=True)
    again = invocation.again()
    try:
        with ending_in_order():
            _demo(state, pg_config, wanted, again, start, load)
    except (KeyboardInterrupt, UserError) as error:
        if isinstance(error, UserError) and error.status != create.INTERRUPTED:
            raise
        # nothing of a demo is worth going on with
        raise UserError(
            "interrupted; nothing outside the demo's own server was changed",
            f"to start anew: {again}; to remove that server: {invocation.command('server', 'destroy')}",
            create.INTERRUPTED,
        ) from None


_BEFORE = """\
This creates a PostgreSQL server of its own in {state} and touches no other server.
Durability is off in it (fsync, synchronous_commit and full_page_writes): if this machine crashes, everything in
that server can be lost. PostgreSQL's own commands run under the same settings, beside each figure.
The last step measures with durability on. It takes about two minutes on an idle machine; Ctrl-C ends it."""


def _demo(state: Path, pg_config: Path | None, wanted: int | None, again: str, start: float, load: float) -> None:
    _say("starting PostgreSQL")
    cluster, _ = start_embedded(state, pg_config)
    bindir = cluster.installation.program("psql").parent
    psql = bindir / "psql"
    shards_chapter.forget(state)
    _renew_database(cluster)
    target = _target(cluster, DATABASE)
    workers = max(1, os.cpu_count() or 1)

    _say("creating some tables in each way, for comparison")
    with _sample_database(cluster) as sampled:
        sample = tables_chapter.sample(sampled, psql, workers, wanted, again)
    tables = wanted or sample.affordable
    chapters: list[Chapter] = []

    def done(chapter: Chapter) -> None:
        _print(chapter.figures, heads=not chapters)
        chapters.append(chapter)

    _say("cloning a schema for each tenant, comparing the clones, and migrating them")
    done(tenants_chapter.make(target, bindir, tables))

    _say(f"creating {text.count(tables)} tables")
    request = create.Request(count=tables, workers=min(workers, tables), storage=Storage.LAZY)
    run = _run(target, state / RUNS / DATABASE, request)
    with run.locked():
        outcome = create.execute(
            target, run, interval=1.0, psql=psql, resume_command=again, observe=lambda: display.display(run.plan, 10.0)
        )
    _say("checking all of them")
    checks = run_checks(target, run, psql, verify.Options(dt_seconds=20, orphans=True), show=False)
    wrong = [check for check in checks if check.result == "failed"]
    _say("listing them, and dropping a tenth")
    done(tables_chapter.make(target, run, sample, outcome, checks, again))

    _say("loading rows, and aggregating them")
    done(rows_chapter.make(target, tables))

    _say("aggregating rows of four servers")
    done(shards_chapter.make(target, state, tables))

    _say("creating, filling, reading and dropping tables with durability on, and off again")
    with servers.alone(state), servers.private(state, cluster.installation.source, {}) as server:
        durability = cycle_chapter.make(server, min(tables, sample.within(_CYCLE_SECONDS)))
        with server.under(Profile.FULL) as other:
            durable = [tenants_chapter.durable(other, psql, tables), *durability.figures]
    print("with durability on:")
    _print(durable)
    chapters.append(durability)
    _drop(cluster, _OLD)

    commands = _commands(cluster, run)
    seconds = time.monotonic() - start
    report = run.folder / PAGE
    with target.connect() as conn:
        machine = describe.machine(conn, target, Host.of(conn), sorted({*describe.SETTINGS, *describe.QUERY_SETTINGS}))
    page.write(page.Demo(seconds, chapters, durable, machine, commands, load), report)
    print(f"\nreport: {report}")
    for what, command in commands:
        print(f"{what}: {command}")
    _say(f"done in {text.duration(time.monotonic() - start)}")
    if wrong:
        raise UserError(f"{wrong[0].name}: {wrong[0].summary}")


def _commands(cluster: Cluster, run: Run) -> list[tuple[str, str]]:
    """Return what to do next, and the command for each."""
    there = ("-d", cluster.conninfo(DATABASE))
    names = ("--name-format", "more_%05d", "--count", "100")
    query = f"SELECT grp, sum(data), avg(data) FROM {TABLE} WHERE data < 0.5 GROUP BY 1"
    return [
        ("look around", invocation.command("server", "psql", "-d", DATABASE)),
        ("clone more", invocation.command("tenants", "create", "--template", tenants_chapter.MODEL, *names, *there)),
        ("compare another query", invocation.command("rows", "aggregate", query, *there)),
        ("check the tables again", invocation.command("tables", "verify", str(run.folder), *there)),
        ("stop the server", invocation.command("server", "stop")),
        ("remove it", invocation.command("server", "destroy")),
    ]


def _print(figures: list[Figure], *, heads: bool = False) -> None:
    if heads:
        print(f"{'':<44}{'PostgreSQL':>11}{'pgbillion':>11}{'times':>8}")
    for one in figures:
        theirs, ours = one.shown(one.postgresql), one.shown(one.pgbillion)
        print(f"{one.what:<44}{theirs:>11}{ours:>11}{one.ratio:>8}", flush=True)


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr, flush=True)


def _target(cluster: Cluster, database: str) -> Target:
    return Target(
        make_conninfo(cluster.conninfo(database), fallback_application_name="pgbillion"),
        f"database {database} of the embedded server",
        embedded=True,
    )


def _run(target: Target, folder: Path, request: create.Request) -> Run:
    """Check that there is room, and begin a run in place of the last demo's."""
    with target.connect() as conn:
        host = Host.of(conn)
        plan = create.make_plan(conn, request)
        create.check_server(conn, plan)
        estimate.refuse_unfit(estimate.estimate(conn, plan, host))
        shutil.rmtree(folder, ignore_errors=True)
        return Run.create(folder, plan, create.server(conn, target, plan, host))


def _renew_database(cluster: Cluster) -> None:
    """Make an empty database, and put the one of an earlier demo aside.

    It is removed at the end, not now: see files.creation for what removing a million files does to making more.
    """
    _drop(cluster, _SAMPLE, _OLD)
    with search_path.pin(cluster.connect()) as conn:
        if _exists(conn, DATABASE):
            try:
                conn.execute(_statement("ALTER DATABASE {} RENAME TO {}", DATABASE, _OLD))
            except psycopg.errors.ObjectInUse:
                _drop(cluster, DATABASE)
        conn.execute(_statement("CREATE DATABASE {}", DATABASE))


@contextlib.contextmanager
def _sample_database(cluster: Cluster) -> Iterator[Target]:
    """Give a database beside the demo's, gone at the end."""
    with search_path.pin(cluster.connect()) as conn:
        conn.execute(_statement("CREATE DATABASE {}", _SAMPLE))
    yield _target(cluster, _SAMPLE)
    _drop(cluster, _SAMPLE)


def _drop(cluster: Cluster, *databases: str) -> None:
    with search_path.pin(cluster.connect()) as conn:
        for name in databases:
            if _exists(conn, name):
                if name != _SAMPLE:
                    _say("removing the tables of the last demo")
                conn.execute(_statement("DROP DATABASE {} WITH (FORCE)", name))


def _exists(conn: psycopg.Connection[tuple[Any, ...]], database: str) -> bool:
    return conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone() is not None


def _statement(template: LiteralString, *names: str) -> sql.Composed:
    return sql.SQL(template).format(*map(sql.Identifier, names))
