"""Servers for the tests: which PostgreSQL, where, with which settings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.paths import state_dir
from pgbillion.server.extension import check_tools, read_pg_config
from pgbillion.server.postgres import Cluster, Installation, embedded_pg_config

T = TypeVar("T")

# Everything may be lost with the machine; nothing may be lost with a process.
SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "autovacuum": "off",
    "shared_buffers": "64MB",
    "max_connections": "30",
    "max_locks_per_transaction": "1000",
    "max_prepared_transactions": "10",
    "log_min_messages": "notice",
    "log_line_prefix": "%m [%p] %q%a ",
    "wal_level": "replica",
    "min_wal_size": "80MB",
    "checkpoint_timeout": "1h",
    "jit": "off",
}
EXTENSIONS = ("pgbillion_tables", "pgbillion_rows", "amcheck", "pageinspect", "btree_gist", "bloom", "citext")


def installation() -> Installation:
    """The PostgreSQL of the environment variable PG_CONFIG, else the embedded one."""
    chosen = os.environ.get("PG_CONFIG")
    return Installation.prepare(state_dir(), Path(chosen) if chosen else None)


def pg_configs() -> dict[int, Path]:
    """pg_config of each major that can be used here: Debian's, the fetched ones, and the one under test.

    Without its headers, or the system's libraries that it needs, a server is of no use to the tests.
    """
    build = Path(__file__).parents[2] / "build"
    found: dict[int, Path] = {}
    mine = installation().source
    for path in (
        embedded_pg_config(),
        *Path("/usr/lib/postgresql").glob("*/bin/pg_config"),
        *build.glob("postgresql-*-wheel/pginstall/bin/pg_config"),
        *build.glob("postgresql-*-debian/usr/lib/postgresql/*/bin/pg_config"),
        mine,
    ):
        if path == mine or _usable(path):
            found[read_pg_config(path).major] = path
    return dict(sorted(found.items()))


def _usable(pg_config: Path) -> bool:
    """Tell whether the server beside it runs, and can have extensions compiled."""
    server = pg_config.with_name("postgres")
    if not server.exists() or subprocess.run([server, "--version"], capture_output=True, check=False).returncode != 0:
        return False
    try:
        check_tools(read_pg_config(pg_config))
    except UserError:
        return False
    return True


@contextmanager
def temporary_folder(lasting: bool = False) -> Iterator[Path]:
    """A folder that the server's user can reach (pytest's are closed to others), its path short enough for a socket.

    Lasting is what the machine has after a restart, too: `make test` keeps the others in memory if it may.
    """
    path = Path(tempfile.mkdtemp(prefix="pgb", dir="/var/tmp" if lasting else None))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def copied_installation(installation: Installation, *left_out: str) -> Iterator[tuple[Installation, Path]]:
    """A copy, without files of these names, because an ordinary user, or another test, has it as well; and its root."""
    home = next(path for path in installation.bindir.parents if path.parent == state_dir() / "postgresql")
    with temporary_folder() as folder:
        root = folder / home.name
        shutil.copytree(home, root, ignore=shutil.ignore_patterns(*left_out), symlinks=True)
        mine = replace(
            installation,
            bindir=root / installation.bindir.relative_to(home),
            pkglibdir=root / installation.pkglibdir.relative_to(home),
            sharedir=root / installation.sharedir.relative_to(home),
        )
        yield mine, root


@contextmanager
def new_cluster(
    where: Installation, settings: Mapping[str, str] | None = None, lasting: bool = False
) -> Iterator[Cluster]:
    """A running cluster of its own, whose template1 has the extensions; gone afterwards."""
    with temporary_folder(lasting) as folder:
        cluster = Cluster(where, folder / "data", folder / "s", 5432)
        cluster.init({**SETTINGS, **(settings or {})})
        cluster.start()
        try:
            with cluster.connect("template1") as conn:
                install_extensions(conn)
            yield cluster
        except BaseException:
            # the log goes with the cluster, and nothing else tells why a session ended
            print("".join(_crashes(cluster.log)))
            raise
        finally:
            cluster.destroy()


def _crashes(log: Path) -> list[str]:
    """Return failed assertions and ends by signals, other than those that tests send, each with what follows it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True) if log.exists() else []
    found = [n for n, line in enumerate(lines) if "TRAP:" in line or re.search(r"by signal (?!9\b)\d", line)]
    return [line for n in found[:10] for line in (*lines[n : n + 20], "…\n")]


def install_extensions(conn: Connection) -> None:
    available = {name for (name,) in conn.execute("SELECT name FROM pg_available_extensions")}
    for name in EXTENSIONS:
        # Some installations are without contrib: then there is less to compare, and tests that need a part of it skip.
        if name in available or name.startswith("pgbillion_"):
            conn.execute(sql.SQL("CREATE EXTENSION {}").format(sql.Identifier(name)))


def make_shared_objects(conn: Connection) -> None:
    """Tablespaces and roles that the tests of one cluster share: space1 to space3, maker (may create), reader."""
    conn.execute("SET allow_in_place_tablespaces = on")
    for number in (1, 2, 3):
        conn.execute(f"CREATE TABLESPACE space{number} LOCATION ''")
    for role in ("maker", "reader"):
        conn.execute(f"CREATE ROLE {role}")
    conn.execute("GRANT CREATE ON TABLESPACE space1, space2 TO maker")


@contextmanager
def new_database(cluster: Cluster, name: str, encoding: str | None = None) -> Iterator[str]:
    """A database for as long as it is needed; one of a given encoding has no extensions, and C for its locale."""
    options = f"TEMPLATE template0 LOCALE 'C' ENCODING {encoding}" if encoding else ""
    with cluster.connect() as conn:
        conn.execute(sql.SQL("CREATE DATABASE {} {}").format(sql.Identifier(name), sql.SQL(options)))
    try:
        yield name
    finally:
        with suppress(psycopg.OperationalError), cluster.connect() as conn:
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def until(condition: Callable[[], T | None], what: str, seconds: float = 300) -> T:
    """Poll until the condition holds (is neither None nor false) and return its value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value is not None and value is not False:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.002)


def has_extension(conn: Connection, name: str) -> bool:
    return bool(one(conn, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = %s)", name))


def one(conn: Connection, query: str, *parameters: object) -> Any:
    """The only column of the first row, None without a row."""
    row = conn.execute(query, parameters or None).fetchone()
    return row[0] if row else None
