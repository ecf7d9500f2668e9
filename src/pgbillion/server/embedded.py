"""The embedded server: one cluster in the state folder, with settings for mass loading."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from pgbillion.common import invocation, search_path
from pgbillion.common.errors import UserError
from pgbillion.server import extension
from pgbillion.server.postgres import SUPERUSER, Cluster, Installation

DATABASE = "billion"
_MIB = 1024 * 1024
# initdb's files, one round of WAL, and room to do anything at all
_DISK_NEEDED = 512 * _MIB
_DURABILITY = ("fsync", "synchronous_commit", "full_page_writes")
# folder of the state folder in which benchmarks keep servers, each with a state folder of its own
KEPT = "kept"
_MADE_BY_US = ("data", "data.log", "run", "postgresql", "tablespaces", "server.json")


# after that time status reports a lower bound of the size rather than keep its user waiting
_MEASURE_SECONDS = 2.0
# looking at the clock costs as much as looking at a file
_FILES_AT_ONCE = 1000


@dataclass(frozen=True)
class Status:
    """What `pgbillion server status` reports.

    ``size`` is in bytes, a lower bound unless ``size_complete``. What only a running server can tell is None when it
    is stopped: ``extensions`` holds the versions of SQL objects and library by extension, ``not_durable`` the settings
    under which a crash may lose committed work.
    """

    running: bool
    version: str
    pg_config: str
    data: str
    socket_dir: str
    port: int
    log: str
    settings_file: str
    size: int
    size_complete: bool
    conninfo: str | None = None
    extensions: dict[str, dict[str, str | None]] | None = None
    not_durable: dict[str, str] | None = None


def find(state: Path) -> Cluster | None:
    """Return the embedded server's cluster below ``state``, running or not, or None when there is none."""
    try:
        known = json.loads((state / "server.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return _cluster(state, Installation.from_json(known))


def start(
    state: Path, pg_config: Path | None = None, say: Callable[[str], object] | None = None
) -> tuple[Cluster, bool]:
    """Start the embedded server, making it first when there is none; tell also whether it had to be started.

    ``say`` tells of what takes its time. Without ``pg_config`` it is the PostgreSQL that the data directory was made
    with, else the embedded one. At the end the database `billion` exists, with this version of the extension.
    """
    known = find(state)
    if pg_config is None and known is not None and known.data.exists() and known.installation.source.exists():
        pg_config = known.installation.source
    made = known is not None and known.data.exists()
    if not made:
        _check_disk(state)
    cluster = _cluster(state, Installation.prepare(state, pg_config, say))
    started = not cluster.running()
    if started:
        if known is None and cluster.half_made():
            shutil.rmtree(cluster.data)
        if not (cluster.data / "PG_VERSION").exists():
            cluster.init(conf=conf_text(state))
        cluster.start()
        _remember(state, cluster.installation)
    elif known is not None and known.installation.major != cluster.installation.major:
        raise UserError(
            f"a server of PostgreSQL {known.installation.version} is running in {state}",
            f"stop it first: {invocation.command('server', 'stop')}",
        )
    with search_path.pin(cluster.connect()) as conn:
        if conn.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    with search_path.pin(cluster.connect(DATABASE)) as conn:
        for name in extension.ALL:
            extension.ensure_extension(conn, name)
    return cluster, started


def stop(state: Path) -> bool:
    """Stop the embedded server; tell whether it was running."""
    cluster = find(state)
    if cluster is None or not cluster.running():
        return False
    cluster.stop()
    return True


def running(state: Path) -> Cluster:
    """Return the running embedded server, or raise UserError."""
    cluster = find(state)
    if cluster is None or not cluster.running():
        made = cluster is not None and cluster.data.exists()
        wrong = f"the embedded server in {state} is stopped" if made else f"no server is running in {state}"
        raise UserError(wrong, f"start it: {invocation.command('server', 'start')}", status=2)
    return cluster


def status(state: Path) -> Status:
    """Report on the embedded server. Raises UserError when there is none."""
    cluster = find(state)
    if cluster is None or not cluster.data.exists():
        raise UserError(f"there is no server in {state}", f"make one: {invocation.command('server', 'start')}")
    size, complete = _size(cluster.data)
    facts: dict[str, Any] = {}
    if cluster.running():
        with search_path.pin(cluster.connect(DATABASE)) as conn:
            facts = _ask(conn)
        facts["conninfo"] = cluster.conninfo(DATABASE)
    return Status(
        running=bool(facts),
        version=cluster.installation.version,
        pg_config=str(cluster.installation.source),
        data=str(cluster.data),
        socket_dir=str(cluster.socket_dir),
        port=cluster.port,
        log=str(cluster.log),
        settings_file=str(cluster.conf),
        size=size,
        size_complete=complete,
        **facts,
    )


def destroy(state: Path, *, everything: bool = False) -> bool:
    """Stop the embedded server and remove what was made for it in ``state``; tell whether there was anything.

    With ``everything``, runs and reports go too, and the servers that benchmarks keep. Nothing else in the folder is
    touched, and the folder itself goes when nothing is left in it.
    """
    cluster = find(state)
    there = False
    if cluster is not None:
        links = cluster.data / "pg_tblspc"
        tablespaces = [link.resolve() for link in links.iterdir()] if links.is_dir() else []
        wal = cluster.data / "pg_wal"
        moved = wal.resolve() if wal.is_symlink() else None
        cluster.destroy()
        if moved is not None and moved.is_dir():
            # moved by `durability relax --wal-dir`
            _remove_wal(moved)
        for folder in tablespaces:
            # a tablespace's folder may hold those of several major versions
            for files in folder.glob(f"PG_{cluster.installation.major}_*"):
                shutil.rmtree(files)
    if everything and (state / KEPT).is_dir():
        for kept in (state / KEPT).iterdir():
            destroy(kept)
    for name in (*_MADE_BY_US, *(("runs", "scale", "cycle", KEPT) if everything else ())):
        path = state / name
        there |= os.path.lexists(path)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if state.is_dir() and not any(state.iterdir()):
        state.rmdir()
        there = True
    return there


def _remove_wal(folder: Path) -> None:
    """Remove the folder a destroyed server had its log in; what is mounted there is only emptied."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def psql_command(cluster: Cluster, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a psql in the database `billion`, which ``arguments`` may override."""
    # through the environment, so that even -d dbname keeps the server; a service would have an opinion on it
    own = {"PGHOST": str(cluster.socket_dir), "PGPORT": str(cluster.port), "PGUSER": SUPERUSER, "PGDATABASE": DATABASE}
    env = {name: value for name, value in os.environ.items() if name not in ("PGSERVICE", "PGHOSTADDR")} | own
    return [str(cluster.installation.program("psql")), *arguments], env


def _cluster(state: Path, installation: Installation) -> Cluster:
    return Cluster(installation, data=state / "data", socket_dir=state / "run")


def _remember(state: Path, installation: Installation) -> None:
    text = json.dumps(installation.to_json(), indent=1)
    (state / "server.json").write_text(text + "\n", encoding="utf-8")


def _check_disk(state: Path) -> None:
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if free < _DISK_NEEDED:
        raise UserError(
            f"a server needs {_DISK_NEEDED // _MIB} MB of disk, {state} has {free // _MIB} MB left",
            "make room, or choose a directory on another disk with --state-dir or PGBILLION_STATE",
        )


def conf_text(state: Path) -> str:
    """Return the settings' file, sized to the memory and the disk of this machine."""
    mib = memory() // _MIB
    disk = shutil.disk_usage(state).free // _MIB
    wal = max(256, min(8192, disk // 10))
    values = {
        "shared_buffers": f"{max(32, mib // 4)}MB",
        "wal_buffers": f"{max(4, min(256, mib // 64))}MB",
        "maintenance_work_mem": f"{max(64, min(1024, mib // 16))}MB",
        "max_locks_per_transaction": str(max(256, min(10000, mib // 2))),
        "max_wal_size": f"{wal}MB",
        "min_wal_size": f"{wal // 4}MB",
    }
    template = resources.files("pgbillion.server").joinpath("server.conf").read_text(encoding="utf-8")
    return string.Template(template).substitute(values)


def memory() -> int:
    """Return the bytes of memory this machine has, or the container we are in."""
    limits = [psutil.virtual_memory().total]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(file).read_text()))
    return min(limits)


def _ask(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    found = {name: extension.versions(conn, name) for name in extension.ALL}
    rows = conn.execute("SELECT name, setting FROM pg_settings WHERE name = ANY (%s)", [list(_DURABILITY)]).fetchall()
    return {
        "extensions": {name: {"version": objects, "library": library} for name, (library, objects) in found.items()},
        "not_durable": {name: setting for name, setting in rows if setting == "off"},
    }


def _size(folder: Path) -> tuple[int, bool]:
    """Return the bytes that a folder's files take on disk, tablespaces included, and whether that is all of them."""
    size, files = 0, 0
    end = time.monotonic() + _MEASURE_SECONDS
    folders = [os.fspath(folder)]
    while folders:
        # a running server removes files and folders under our hands
        with contextlib.suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.path)
                    continue
                files += 1
                if files % _FILES_AT_ONCE == 0 and time.monotonic() > end:
                    return size, False
                with contextlib.suppress(FileNotFoundError):
                    size += entry.stat().st_blocks * 512
    return size, True
