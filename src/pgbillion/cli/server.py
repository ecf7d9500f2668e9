"""`pgbillion server …`: the commands of the embedded server."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import StateDir
from pgbillion.cli.options import Json, Yes
from pgbillion.cli.terminal import say
from pgbillion.common import invocation, paths, text
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem
from pgbillion.durability import record, warning
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster
from pgbillion.shards import servers

# seconds between lines while files are removed, and names of what stays
_INTERVAL = 5.0
_SHOWN = 5

app = typer.Typer(help="Start, inspect, use, stop and remove the embedded PostgreSQL server.")


@app.command()
def start(
    pg_config: Annotated[
        Path | None,
        typer.Option(
            "--pg-config",
            metavar="PROGRAM",
            help="pg_config of the PostgreSQL (15 to 19) to use instead of the embedded one.",
        ),
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Start the embedded server; create it first if there is none, with a database and both extensions.

    Example: pgbillion server start --pg-config /usr/lib/postgresql/15/bin/pg_config
    """
    cluster, started = start_embedded(paths.state_dir(state_dir), pg_config)
    _warn(cluster)
    what = "started" if started else "already running"
    print(f"PostgreSQL {cluster.installation.version} {what}: {cluster.conninfo(embedded.DATABASE)}")
    print(f"settings: {cluster.conf}")


@app.command()
def stop(
    shards: Annotated[
        bool, typer.Option("--shards", help="Also stop the servers that were created for shards of its tables.")
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Stop the embedded server; its data is kept.

    Example: pgbillion server stop
    """
    state = paths.state_dir(state_dir)
    print("stopped" if embedded.stop(state) else "not running")
    own = servers.of_embedded(state)
    if shards:
        print(f"{text.many(servers.stop(own), 'server')} of shards stopped")
    elif running := sum(cluster.running() for cluster in own):
        command = invocation.command("server", "stop", "--shards")
        print(f"note: {text.many(running, 'server')} of shards still running; to stop: {command}", file=sys.stderr)
    cluster = embedded.find(state)
    if cluster is not None:
        _warn(cluster)


@app.command()
def status(
    as_json: Json = False,
    state_dir: StateDir = None,
) -> None:
    """Show version, directories, size, durability and the versions of the extensions.

    Example: pgbillion server status --json
    """
    state = paths.state_dir(state_dir)
    report = embedded.status(state)
    if (cluster := embedded.find(state)) is not None:
        _warn(cluster)
    if as_json:
        print(json.dumps(asdict(report), indent=1))
        return
    lines = {
        "server": f"PostgreSQL {report.version}, {'running' if report.running else 'stopped'}",
        "data": report.data,
        "socket": f"{report.socket_dir} (port {report.port})",
        "size": ("" if report.size_complete else "more than ") + text.size(report.size),
        "settings": report.settings_file,
        "log": report.log,
    }
    if report.running:
        off = ", ".join(f"{name} = {value}" for name, value in (report.not_durable or {}).items())
        lines["not durable"] = off or "nothing: it is durable"
        for name, versions in (report.extensions or {}).items():
            lines[name] = f"{versions['version']} (library {versions['library']})"
        lines["connect with"] = f"{report.conninfo}"
    for name, value in lines.items():
        print(f"{name:<17}{value}")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context, state_dir: StateDir = None) -> None:
    r"""Run psql in the embedded server's database; all further arguments are passed to psql.

    Example: pgbillion server psql -c '\dx'
    """
    cluster = embedded.running(paths.state_dir(state_dir))
    _warn(cluster)
    command, env = embedded.psql_command(cluster, context.args)
    sys.stdout.flush()
    os.execve(command[0], command, env)


@app.command()
def destroy(
    yes: Yes = False,
    everything: Annotated[
        bool,
        typer.Option("--everything", help="Also remove the records of runs, their reports, and what benchmarks keep."),
    ] = False,
    state_dir: StateDir = None,
) -> None:
    """Stop the embedded server and remove it with all its data.

    Example: pgbillion server destroy --yes
    """
    state = paths.state_dir(state_dir)
    what = "the server" if embedded.find(state) is not None else "what was made"
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("not removing a server without being told to", "say --yes")
        typer.confirm(f"Remove the server in {state} and all its data?", abort=True, err=True)
    with _progress(state):
        removed = _destroy(state, everything=everything)
    left = sorted(path.name for path in state.iterdir()) if state.is_dir() else []
    if not removed:
        print(f"nothing of a server is in {state}" if left else f"nothing is in {state}")
    elif left:
        print(f"removed: {what} in {state}; what else is there stays: {', '.join(left[:_SHOWN])}")
    else:
        print(f"removed: {state}")


def _warn(cluster: Cluster) -> None:
    """Say that the server is relaxed."""
    warning.warn_of(cluster.data, *_own(cluster))


def _own(cluster: Cluster) -> tuple[str, ...]:
    """Return the options by which a command reaches the embedded server though the environment names another."""
    return ("-d", cluster.conninfo(embedded.DATABASE)) if connect.given_server() else ()


def _destroy(state: Path, *, everything: bool) -> bool:
    """Remove the server and what goes with it; tell whether there was anything."""
    shards = any(True for _ in servers.of_embedded(state))
    # what they are shards of goes with it
    servers.remove_all(state)
    cluster = embedded.find(state)
    if cluster is not None:
        record.remove_copies(state, cluster.data)
    return embedded.destroy(state, everything=everything) or shards


@contextlib.contextmanager
def _progress(folder: Path) -> Iterator[None]:
    """While files are removed, report now and then how many the file system has fewer."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    over = threading.Event()
    before = FileSystem.of(there)

    def report() -> None:
        start = time.monotonic()
        while not over.wait(_INTERVAL):
            now = before.again()
            if now is not None:
                files = (now.files_free or 0) - (before.files_free or 0)
                freed = text.size(max(0, now.free - before.free))
                many = f"about {text.count(files)} files, " if files > 0 else ""
                say(f"removing: {text.duration(time.monotonic() - start)}, {many}{freed} so far")

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def start_embedded(state: Path, pg_config: Path | None) -> tuple[Cluster, bool]:
    """Start the embedded server as `embedded.start` does; where it cannot be and is relaxed, say what to do."""
    try:
        return embedded.start(state, pg_config, say)
    except UserError as error:
        cluster = embedded.find(state)
        if cluster is not None and not cluster.running():
            with contextlib.suppress(OSError):
                if record.read_mark(cluster.data) is not None:
                    hint = f"it was relaxed: {invocation.command('durability', 'restore', *_own(cluster))}"
                    raise UserError(error.message, hint, error.status) from error
        raise
