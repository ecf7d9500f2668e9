"""`pgbillion demo`: a million tables on this machine, from nothing to a page that shows them, in a few minutes."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion import connect, paths, server
from pgbillion.connect import StateDir
from pgbillion.errors import UserError
from pgbillion.postgres import SUPERUSER, Cluster
from pgbillion.tables import commands, create, describe, display, estimate, files, invocation, text, verify
from pgbillion.tables.host import Host
from pgbillion.tables.plan import LADDER
from pgbillion.tables.run import RUNS, Run

DATABASE = "demo"
MOST, LEAST = LADDER["MMT"], 200_000
# Of the three minutes the whole demo may take, what creating may; the rest is for checking and for the page.
_CREATE_SECONDS = 110.0
# File systems slow down as their folders fill up, and machines are shared.
_PESSIMISM = 1.3
_SAMPLED_FILES = 20_000
_STEP = 50_000


def demo(
    count: Annotated[
        int | None,
        typer.Option(
            "--count", "-n", metavar="N", min=1, help="Make so many tables. Default: what three minutes allow."
        ),
    ] = None,
    pg_config: Annotated[
        Path | None,
        typer.Option("--pg-config", metavar="PROGRAM", envvar="PG_CONFIG", help="Use this PostgreSQL (15 to 18)."),
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Create a million tables in a server of their own, check them, and write a report.

    Each time anew, in the database `demo` of the embedded server; its other databases are left alone.

    Example: pgbillion demo
    """
    start = time.monotonic()
    state = paths.state_dir(state_dir)
    _say("starting PostgreSQL")
    cluster, _ = server.start(state, pg_config)
    _renew_database(cluster)
    target = connect.Target(
        make_conninfo(cluster.conninfo(DATABASE), fallback_application_name="pgbillion"),
        f"database {DATABASE} of the embedded server",
        embedded=True,
    )
    seconds, made = files.creation_seconds(state, _SAMPLED_FILES, limit=3)
    per_file = seconds / made

    workers = max(1, os.cpu_count() or 1)
    with target.connect() as conn:
        host = Host.of(conn)
        request = create.Request(count=count or MOST, workers=min(workers, count or MOST))
        plan = create.make_plan(conn, request)
        create.check_server(conn, plan)
        guess = estimate.estimate(conn, plan, host)
        if count is None:
            tables = _affordable(max(per_file, guess.cost.seconds / workers))
            _say(f"this file system makes {text.count(1 / per_file)} files a second: {_verdict(tables)}")
            plan = create.make_plan(conn, create.Request(count=tables, workers=workers))
            guess = estimate.estimate(conn, plan, host)
        estimate.refuse_unfit(guess)
        folder = state / RUNS / DATABASE
        shutil.rmtree(folder, ignore_errors=True)
        run = Run.create(folder, plan, describe.server(conn, target, plan, host))

    psql = cluster.installation.program("psql")
    resume = invocation.command("tables", "create", "--resume", str(folder), "-d", _conninfo(cluster))
    with run.locked():
        outcome = create.execute(
            target,
            run,
            interval=1.0,
            psql=psql,
            resume_command=resume,
            observe=lambda: display.display(plan, 10.0),
        )
    print(
        f"{text.count(outcome.created)} tables created in {text.duration(outcome.seconds)}: "
        f"{text.count(outcome.rate)} tables/s"
    )
    _say("checking them")
    checks = commands.run_checks(target, run, psql, verify.Options(dt_seconds=20, orphans=True), show=True)
    wrong = [check for check in checks if check.result == "failed"]

    # matplotlib takes long to load
    from pgbillion.report import page

    report = folder / "report.html"
    page.write(run, report)
    print(f"\nreport:         {report}")
    print(f"look around:    {invocation.command('server', 'psql', '-d', DATABASE, state=state_dir)}")
    print(f"check again:    {invocation.command('tables', 'verify', str(folder), '-d', _conninfo(cluster))}")
    print(f"stop, remove:   {invocation.command('server', 'stop', state=state_dir)}, ", end="")
    print(invocation.command("server", "destroy", state=state_dir))
    _say(f"done in {text.duration(time.monotonic() - start)}")
    if wrong:
        raise UserError(f"{wrong[0].name}: {wrong[0].summary}")


def _say(what: str) -> None:
    print(f"== {what}", file=sys.stderr, flush=True)


def _conninfo(cluster: Cluster) -> str:
    return make_conninfo(host=str(cluster.socket_dir), port=cluster.port, user=SUPERUSER, dbname=DATABASE)


def _renew_database(cluster: Cluster) -> None:
    """Replace the database of an earlier demo by an empty one."""
    name = sql.Identifier(DATABASE)
    with cluster.connect() as conn:
        if conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is not None:
            _say("removing the tables of the last demo")
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        conn.execute(sql.SQL("CREATE DATABASE {}").format(name))


def _affordable(seconds: float) -> int:
    """Return how many tables of so many seconds each may be made."""
    possible = int(_CREATE_SECONDS / (seconds * _PESSIMISM))
    return max(LEAST, min(MOST, possible // _STEP * _STEP))


def _verdict(tables: int) -> str:
    if tables == MOST:
        return f"enough for {text.count(MOST)} tables in three minutes"
    return f"too few for {text.count(MOST)} tables in three minutes, so it will be {text.count(tables)}"
