"""`pgbillion demo`: tables and rows by the million on this machine, from nothing to a page, in a few minutes."""

from __future__ import annotations

import os
import shutil
import sys
import time
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
from pgbillion.common import extras, invocation, paths, search_path, text
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.meter import meter
from pgbillion.common.target import Target
from pgbillion.cycle import demo_chapter as cycle_chapter
from pgbillion.rows import columns_chapter
from pgbillion.rows import demo_chapter as rows_chapter
from pgbillion.server.postgres import Cluster
from pgbillion.shards import demo_chapter as shards_chapter
from pgbillion.tables import create, display, drop, estimate, listing, selection, verify, worker
from pgbillion.tables.plan import LADDER, Batch, Method, Storage, parse_count
from pgbillion.tables.run import RUNS, Run
from pgbillion.tenants import demo_chapter as tenants_chapter

DATABASE = "demo"
_OLD, _SAMPLE = "demo_old", "demo_sample"
MOST, LEAST = LADDER["MMT"], 200_000
# Of the three minutes the whole demo may take, what creating may; the rest is for checking and for the page.
_CREATE_SECONDS = 110.0
# Machines are shared, and two workers are not twice as fast as one.
_PESSIMISM = 1.5
_SAMPLED_TABLES, _SAMPLE_SECONDS = 20_000, 3.0
_STEP = 50_000


def demo(
    count: Annotated[
        str | None,
        typer.Option(
            "--count", "-n", metavar="N", help="Number of tables: 20k, 1M. Default: as many as three minutes allow."
        ),
    ] = None,
    pg_config: PgConfig = None,
    state_dir: StateDir = None,
) -> None:
    """Create a million tables in a private server, check them, aggregate rows, clone schemas, and write a report.

    Each run starts over in the database `demo` of the embedded server and leaves its other databases alone.

    Example: pgbillion demo
    """
    start = time.monotonic()
    wanted = parse_count(count) if count is not None else None
    if wanted is not None and wanted < 1:
        raise UserError(f"the number of tables must be at least 1, not {wanted:,}")
    extras.need(*(() if pg_config else (extras.EMBEDDED,)), extras.NUMPY, extras.MATPLOTLIB)
    state = paths.state_dir(state_dir)
    _say("starting PostgreSQL")
    cluster, _ = start_embedded(state, pg_config)
    _renew_database(cluster)
    target = _target(cluster, DATABASE)
    workers = max(1, os.cpu_count() or 1)
    tables = wanted or _affordable(cluster, workers)
    request = create.Request(count=tables, workers=min(workers, tables), storage=Storage.LAZY)
    run = _run(target, state / RUNS / DATABASE, request)
    psql = cluster.installation.program("psql")
    options = ("-d", cluster.conninfo(DATABASE))
    with run.locked():
        outcome = create.execute(
            target,
            run,
            interval=1.0,
            psql=psql,
            resume_command=invocation.command("tables", "create", "--resume", str(run.folder), *options),
            observe=lambda: display.display(run.plan, 10.0),
        )
    print(
        f"{text.count(outcome.created)} tables created in {text.duration(outcome.seconds)}: "
        f"{text.count(outcome.rate)} tables/s"
    )
    _say("checking them")
    checks = run_checks(target, run, psql, verify.Options(dt_seconds=20, orphans=True), show=True)
    wrong = [check for check in checks if check.result == "failed"]
    _say("listing them, dropping a tenth, and making that again")
    run.save_afterwards(_afterwards(target, run))
    _say("loading rows, and aggregating them by both ways")
    run.save_chapter(rows_chapter.NAME, rows_chapter.make(target, run.plan.count))
    _say("indexing columns, and aggregating the rows from these")
    run.save_chapter(columns_chapter.NAME, columns_chapter.make(target))
    _say("distributing rows over four servers, and aggregating them on one, two and four")
    run.save_chapter(shards_chapter.NAME, shards_chapter.make(target, state, run.plan.count))
    _say("creating, filling, reading and dropping tables, with full durability and without")
    made = cycle_chapter.make(state, cluster.installation.source, run.plan.count)
    run.save_chapter(cycle_chapter.NAME, made)
    _say("cloning a shop's schema for each tenant, comparing the clones, and migrating them")
    run.save_chapter(tenants_chapter.NAME, tenants_chapter.make(target, run.plan.count))
    _drop(cluster, _SAMPLE, _OLD)

    # matplotlib takes long to load
    from pgbillion.tables import page

    report = run.folder / "report.html"
    page.write(run, report)
    print(f"\nreport:         {report}")
    print(f"look around:    {invocation.command('server', 'psql', '-d', DATABASE)}")
    print(f"check again:    {invocation.command('tables', 'verify', str(run.folder), *options)}")
    print(f"stop:           {invocation.command('server', 'stop')}")
    print(f"remove:         {invocation.command('server', 'destroy')}")
    _say(f"done in {text.duration(time.monotonic() - start)}")
    if wrong:
        raise UserError(f"{wrong[0].name}: {wrong[0].summary}")


def _afterwards(target: Target, run: Run) -> list[dict[str, Any]]:
    """List all tables, drop a tenth of them and make that again; return what was done, and print it."""
    plan = run.plan
    steps: list[dict[str, Any]] = []

    def step(name: str, seconds: float, summary: str) -> None:
        steps.append({"name": name, "seconds": seconds, "summary": summary})
        print(f"{name}: {text.duration(seconds)}, {summary}")

    with target.connect() as conn:
        everything = selection.select(conn, None, plan.schema)
        pages: list[str] = []
        page = listing.write(conn, everything, pages.append, extension=True, limit=listing.PAGE)
        names = "".join(pages).splitlines()
        step(f"first page of {text.count(page.count)} names", page.seconds, f"{names[0]} … {names[-1]}")
        listed = listing.write(conn, everything, lambda names: None, extension=True, limit=None)
        step(
            "all names",
            listed.seconds,
            f"{text.count(listed.count)}, {text.count(listed.count / listed.seconds)} per second",
        )

        tenth = max(1, plan.count // 10)
        last = selection.Numbered(plan.names, plan.first + plan.count - tenth, tenth)
        request = drop.Request(selection.select(conn, None, plan.schema, last), Method.BULK)
        found = drop.survey(conn, request)
        database = invocation.public(target.conninfo)
        command = invocation.command(
            "tables", "drop", "--first", str(last.first), "--count", str(tenth), "-d", database
        )
        gone = drop.execute(
            target, request, found.tables, command=command, observe=lambda total: meter(total, "dropped")
        )
        rate = text.count(gone.dropped / gone.seconds)
        step(f"{text.count(gone.dropped)} tables dropped", gone.seconds, f"{rate} per second, in one session")

        template = worker.temporary_template(conn, plan)
        start = time.perf_counter()
        for number in range(last.first, last.first + tenth, plan.batch):
            size = min(plan.batch, last.first + tenth - number)
            worker.create_batch(conn, plan, template, Batch(0, number, size), None)
        seconds = time.perf_counter() - start
        step("and made again", seconds, f"{text.count(tenth / seconds)} per second, in one session")
    return steps


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


def _affordable(cluster: Cluster, workers: int) -> int:
    """Return how many tables there is time for, and say why.

    Tables are made for that, in a database beside the demo's.
    """
    with search_path.pin(cluster.connect()) as conn:
        conn.execute(_statement("CREATE DATABASE {}", _SAMPLE))
    with search_path.pin(cluster.connect(_SAMPLE)) as conn:
        plan = create.make_plan(conn, create.Request(count=_SAMPLED_TABLES, workers=1, storage=Storage.LAZY))
        create.check_server(conn, plan)
        template = worker.temporary_template(conn, plan)
        begin = time.perf_counter()
        for batch in plan.shares()[0].batches(plan.batch):
            worker.create_batch(conn, plan, template, batch, None)
            if time.perf_counter() - begin > _SAMPLE_SECONDS:
                break
        made = batch.first + batch.count
        table = (time.perf_counter() - begin) / made
    rate = workers / table
    tables = max(LEAST, min(MOST, int(_CREATE_SECONDS * rate / _PESSIMISM) // _STEP * _STEP))
    measured = f"this machine makes {text.count(rate)} tables per second"
    if tables == MOST:
        _say(f"{measured}: enough for {text.count(MOST)} in three minutes")
    else:
        _say(f"{measured}: too few for {text.count(MOST)} in three minutes, so it will be {text.count(tables)}")
    return tables
