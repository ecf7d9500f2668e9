"""Other servers on this machine that use the same files of the extensions: those of the same installation.

A server is asked what it has. One that cannot be asked is taken for one that uses them, as sessions that load a library
which is gone do not begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg.conninfo import make_conninfo

from pgbillion.common import search_path
from pgbillion.server import deploy
from pgbillion.server.extension import PgConfig
from pgbillion.server.files import Folders
from pgbillion.server.postgres import SUPERUSER, Cluster

_PROGRAMS = ("postgres", "postmaster")
_CONNECT_SECONDS = 5


@dataclass(frozen=True)
class Neighbour:
    """A server that uses the files: where it is, and what shows that it does."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where} ({self.reason})"


@dataclass(frozen=True)
class Postmaster:
    """A server that runs on this machine. What may not be known is None."""

    process: psutil.Process
    program: Path | None
    data: Path | None

    @property
    def where(self) -> str:
        """Which one it is, for people."""
        return f"the server in {self.data}" if self.data is not None else f"the server of process {self.process.pid}"

    def runs(self, program: Path) -> bool:
        """Tell whether it runs a program; a program that an upgrade has replaced since is the same."""
        with contextlib.suppress(OSError):
            # a path in a container names a file of the container, not of this system
            link = Path(f"/proc/{self.process.pid}/exe")
            return link.samefile(program) or str(link.readlink()) == f"{program.resolve()} (deleted)"
        return self.program is not None and self.program.resolve() == program.resolve()

    def conninfo(self, user: str) -> str | None:
        """Return how it is connected to, None where that may not be known."""
        if self.data is None:
            return None
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            port, sockets, address = lines[3:6]
        except (OSError, ValueError):
            return None
        where = {"host": sockets or ("localhost" if address == "*" else address), "port": port}
        return make_conninfo(**where, user=user, connect_timeout=_CONNECT_SECONDS)


def postmasters() -> Iterator[Postmaster]:
    """Find the servers that run on this machine."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            parent = process.parent()
            if process.name() not in _PROGRAMS or (parent is not None and parent.name() in _PROGRAMS):
                continue
            yield Postmaster(process, _program(process), _data(process))


def at(host: str, port: int) -> Postmaster | None:
    """Return the server behind a socket's folder and a port."""
    for found in postmasters():
        with contextlib.suppress(OSError, IndexError):
            if found.data is not None:
                lines = (found.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
                if lines[3] == str(port) and lines[4] == host:
                    return found
    return None


def using(
    facts: PgConfig, folders: Folders, known: Iterable[Cluster], *, user: str | None = None, backend: int | None = None
) -> list[Neighbour]:
    """Return the servers, other than that of a backend, that use the extensions' files in folders.

    These are an installation's own, or some that servers of any installation may have been told of. ``known`` are
    clusters that may be stopped, and ``user`` is the role that asks.
    """
    own, program = folders == Folders.of(facts), facts.bindir / "postgres"
    except_pid = None if backend is None else psutil.Process(backend).ppid()
    found = []
    for postmaster in postmasters():
        if postmaster.process.pid == except_pid or (own and not postmaster.runs(program)):
            continue
        reason = _reason(postmaster, folders, own=own, user=user)
        if reason is not None:
            found.append(Neighbour(postmaster.where, reason))
    found += [
        Neighbour(f"the server in {cluster.data}", "it is stopped")
        for cluster in known
        if cluster.data.exists()
        and not cluster.running()
        and cluster.installation.pkglibdir.resolve() == folders.pkglibdir.resolve()
    ]
    return found


def _program(process: psutil.Process) -> Path | None:
    with contextlib.suppress(psutil.AccessDenied, OSError):
        return Path(process.exe())
    with contextlib.suppress(psutil.AccessDenied, IndexError):
        # a server is started with its path, which everybody may see
        named = Path(process.cmdline()[0])
        return named if named.is_absolute() else None
    return None


def _data(process: psutil.Process) -> Path | None:
    with contextlib.suppress(psutil.AccessDenied, OSError):
        data = Path(process.cwd())
        return data if (data / "postmaster.pid").exists() else None
    return None


def _reason(postmaster: Postmaster, folders: Folders, *, own: bool, user: str | None) -> str | None:
    """Return what shows that a server uses the files, None where it does not."""
    conninfo = postmaster.conninfo(user or SUPERUSER)
    # a folder of somebody's own is told to few servers, so that who cannot be asked need not have it
    if conninfo is None:
        return "it belongs to another user, and cannot be asked" if own else None
    try:
        with _connect(conninfo, "postgres") as conn:
            if not own and str(folders.pkglibdir) not in deploy.elements(conn, "dynamic_library_path"):
                return None
            loading = deploy.preloaded(conn, other_databases=False)
            databases = deploy.names(conn)
        if loading is not None:
            return f"{loading.setting} of {loading.owner} names {loading.library}"
        for name in databases:
            with _connect(conninfo, name) as there:
                objects = deploy.objects_in(there)
            if objects:
                return f"database {name} has {' and '.join(objects)}"
    except psycopg.Error as error:
        if not own:
            return None
        lines = str(error).strip().splitlines()
        return f"it cannot be asked: {lines[-1] if lines else type(error).__name__}"
    return None


def _connect(conninfo: str, name: str) -> psycopg.Connection[tuple[Any, ...]]:
    return search_path.pin(psycopg.connect(make_conninfo(conninfo, dbname=name), autocommit=True))
