"""What every benchmark does: a server of its own, conditions to know, a table for people, one line for programs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console
from rich.table import Table

from pgbillion import __version__
from pgbillion.common import host, paths
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import describe, embedded
from pgbillion.server.postgres import Cluster, make_folder

# as little as takes every step: for tests, whose figures tell nothing
TINY = os.environ.get("TINY", "") not in ("", "0")
QUICK = TINY or os.environ.get("QUICK", "") not in ("", "0")
T = TypeVar("T")


def sized(usual: T, quick: T, tiny: T) -> T:
    """Return the one of three sizes that this run is of."""
    return tiny if TINY else quick if QUICK else usual


def run(main: Callable[[], int]) -> NoReturn:
    """Run a benchmark and exit; print what its user can do something about as the command line prints it."""
    try:
        sys.exit(main())
    except UserError as error:
        say(f"error: {error.message}")
        if error.hint is not None:
            say(f"hint: {error.hint}")
        sys.exit(error.status)


def say(text: str) -> None:
    """Tell people what is going on."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def quiet(total: int) -> Iterator[Callable[[int], None]]:
    """Show nothing of how far something is."""
    yield lambda done: None


def seeded() -> tuple[int, random.Random]:
    """Return the seed (that of SEED=…, else a new one) and the chance it gives."""
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(2**31))
    return seed, random.Random(seed)


@contextlib.contextmanager
def own_server() -> Iterator[tuple[Cluster, Path]]:
    """Start a server that nobody else uses, with the embedded server's settings; give it and a folder on its disk."""
    state = paths.state_dir() / "bench"
    embedded.destroy(state)
    share_builds(state)
    chosen = os.environ.get("PG_CONFIG")
    try:
        cluster, _ = embedded.start(state, Path(chosen) if chosen else None)
        with own_folder(state) as folder:
            yield cluster, folder
    finally:
        embedded.destroy(state)


def share_builds(state: Path) -> None:
    """Have a state folder of a benchmark's use the extensions as they are compiled for the embedded server."""
    compiled = paths.state_dir() / "postgresql"
    make_folder(compiled)
    make_folder(state)
    (state / compiled.name).symlink_to(compiled)


@contextlib.contextmanager
def own_folder(parent: Path) -> Iterator[Path]:
    """Make a folder that is gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="pgbillion-bench-", dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def tmpfs(needed: int) -> Iterator[Path | None]:
    """Give a folder in memory with a number of bytes free, or None, said loudly, where there is none."""
    for candidate in (os.environ.get("TMPFS"), "/dev/shm", f"/run/user/{os.getuid()}", "/tmp"):
        if not candidate or not os.access(candidate, os.W_OK | os.X_OK):
            continue
        system = host.FileSystem.of(Path(candidate))
        if system.kind == "tmpfs" and system.free >= needed:
            with own_folder(Path(candidate)) as folder:
                yield folder
            return
    say(f"*** SKIPPED on tmpfs: none with {needed // 10**6} MB free can be written to; name one with TMPFS=… ***")
    yield None


def make_tablespace(cluster: Cluster, name: str, folder: Path) -> None:
    """Make a tablespace inside one of our directories."""
    inside = folder / name
    make_folder(inside, private=True, for_server=True)
    with cluster.connect() as conn:
        conn.execute(sql.SQL("CREATE TABLESPACE {} LOCATION {}").format(sql.Identifier(name), str(inside)))


def database(cluster: Cluster, name: str, tablespace: str = "pg_default") -> Target:
    """Make an empty database, checkpoint, and return how to reach it."""
    with cluster.connect() as conn:
        statement = sql.SQL("CREATE DATABASE {} TABLESPACE {}")
        conn.execute(statement.format(sql.Identifier(name), sql.Identifier(tablespace)))
        conn.execute("CHECKPOINT")
    return Target(make_conninfo(cluster.conninfo(name), fallback_application_name="pgbillion"), name, embedded=True)


def drop_database(cluster: Cluster, name: str) -> None:
    """Drop a database and checkpoint, so that nothing of it is left to do."""
    with cluster.connect() as conn:
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        conn.execute("CHECKPOINT")


def conditions(cluster: Cluster) -> dict[str, Any]:
    """Return versions, settings and hardware."""
    with cluster.connect() as conn:
        settings = conn.execute(
            "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY 1",
            [list({*describe.SETTINGS, *describe.QUERY_SETTINGS})],
        ).fetchall()
        found = host.Host.of(conn)
    disk = found.filesystem() if found else None
    return {
        "versions": {"pgbillion": __version__, "postgresql": cluster.installation.version},
        "settings": dict(settings),
        "hardware": host.hardware(),
        "filesystem": disk.kind if disk else None,
        "load": os.getloadavg()[0],
    }


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Return the median of measurements, and all of them."""
    return {"median": round(statistics.median(values), 2), "all": [round(value, 2) for value in values]}


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table for people; all columns but the first are numbers."""
    shown = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, column in enumerate(columns):
        shown.add_column(column, justify="right" if index else "left")
    for row in rows:
        shown.add_row(*row)
    console = Console(stderr=True, highlight=False)
    (console if console.is_terminal else Console(stderr=True, highlight=False, width=140)).print(shown)


def result(values: dict[str, Any]) -> None:
    """Print the one line for programs."""
    print(json.dumps(values))
