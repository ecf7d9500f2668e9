"""Which server a command talks to, said the way libpq's own programs take it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion.common import paths
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import embedded
from pgbillion.server.postgres import SUPERUSER, Cluster

# Help is --help only, because -h is the host.
_PANEL = "Connection"
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        envvar=paths.STATE_VARIABLE,
        metavar="FOLDER",
        help="Folder of the embedded server.",
        rich_help_panel=_PANEL,
    ),
]

# Any of these says that the user means a server of their own.
_ENVIRONMENT = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGDATABASE", "PGSERVICE")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")


@dataclass(frozen=True)
class Where:
    """What the options of the connection gave, which every command that talks to a server has; see `options`."""

    host: Annotated[
        str | None, typer.Option("-h", "--host", metavar="HOST", help="Host or socket folder.", rich_help_panel=_PANEL)
    ] = None
    port: Annotated[str | None, typer.Option("-p", "--port", metavar="PORT", help="Port.", rich_help_panel=_PANEL)] = (
        None
    )
    username: Annotated[
        str | None, typer.Option("-U", "--username", metavar="NAME", help="Role.", rich_help_panel=_PANEL)
    ] = None
    dbname: Annotated[
        str | None,
        typer.Option(
            "-d", "--dbname", metavar="DBNAME", help="Database, URI or connection string.", rich_help_panel=_PANEL
        ),
    ] = None
    state_dir: StateDir = None

    @property
    def state(self) -> Path:
        """The state folder."""
        return paths.state_dir(self.state_dir)

    @property
    def server(self) -> dict[str, str | None]:
        """The options that name a server, by libpq's names for them."""
        return {"host": self.host, "port": self.port, "user": self.username, "dbname": self.dbname}

    def target(self, *, or_down: bool = False) -> Target:
        """Return the target, as the function of that name does."""
        return target(self.host, self.port, self.username, self.dbname, self.state_dir, or_down=or_down)


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Have each parameter of a command that is a dataclass stand for the options that are its fields.

    Those of the connection (`Where`) come last in the help.
    """
    taken = inspect.signature(command, eval_str=True).parameters
    shared = {
        name: inspect.signature(parameter.annotation, eval_str=True).parameters
        for name, parameter in taken.items()
        if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation)
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {name: taken[name].annotation(**{one: given.pop(one) for one in shared[name]}) for name in shared}
        command(**values, **given)

    shown: list[inspect.Parameter] = []
    for name, parameter in sorted(taken.items(), key=lambda item: item[1].annotation is Where):
        shown += shared[name].values() if name in shared else [parameter]
    # what typer makes options of
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return run


def target(
    host: str | None = None,
    port: str | None = None,
    username: str | None = None,
    dbname: str | None = None,
    state_dir: Path | None = None,
    *,
    or_down: bool = False,
) -> Target:
    """Turn what the options gave into a target.

    When neither they nor the environment name a server, it is the embedded one if that runs (with ``or_down``: if there
    is one), else what libpq defaults to. The name of a database alone is one of libpq's default server, and one of the
    embedded server where no such server answers. Raises UserError for a connection string that cannot be understood.
    """
    given = {"host": host, "port": port, "user": username}
    parts: dict[str, Any] = {}
    if dbname is not None:
        parts = _parse(dbname) if "=" in dbname or "://" in dbname else {"dbname": dbname}
    parts |= {name: value for name, value in given.items() if value is not None}
    if not given_server(**parts):
        running = embedded.find(paths.state_dir(state_dir))
        if running is not None and (running.running() or (or_down and running.data.exists())):
            return _make(conninfo_to_dict(running.conninfo(embedded.DATABASE)), embedded=True)
    if parts.keys() == {"dbname"} and not given_server() and not _answers(""):
        found = embedded.find(paths.state_dir(state_dir))
        if found is not None and found.running() and (or_down or has_database(found, parts["dbname"])):
            return _make(conninfo_to_dict(found.conninfo(parts["dbname"])), embedded=True)
    return _make(parts)


def other(given: str, than: Target) -> Target:
    """Return a second target: a URI or connection string of its own, or the name of a database beside the first one.

    Raises UserError for a connection string that cannot be understood.
    """
    if "=" in given or "://" in given:
        return _make(_parse(given))
    return _make({**conninfo_to_dict(than.conninfo), "dbname": given}, embedded=than.embedded)


def hint(error: psycopg.OperationalError) -> str:
    """Return what to do about a connection that could not be made, as far as can be seen from here."""
    tried = error.pgconn
    if tried is None or not tried.db:
        return "is the server running? pgbillion server start, or name one with -h, -p, -U, -d"
    name = tried.db.decode(errors="replace")
    host, port, user = (part.decode(errors="replace") for part in (tried.host, tried.port, tried.user))
    address = make_conninfo(**{key: value for key, value in {"host": host, "port": port}.items() if value})
    here = embedded.find(paths.state_dir(None))
    here = here if here is not None and here.running() else None
    mine = here is not None and host == str(here.socket_dir) and port == str(here.port)
    there = f"one of the embedded server: -h {here.socket_dir} -U {SUPERUSER} -d NAME" if here and not mine else ""
    if not _answers(address):
        if there and here is not None and not has_database(here, name):
            return (
                f"no server answers there, and the embedded server has no database {name}: see its databases with:"
                " pgbillion server psql -l; or name another server with -h, -p, -U, -d"
            )
        return f"is the server running? {there or 'pgbillion server start'}, or name one with -h, -p, -U, -d"
    if mine and here is not None:
        if not has_database(here, name):
            return (
                "see its databases with: pgbillion server psql -l; make it with: pgbillion server psql -c "
                + shlex.quote(f"CREATE DATABASE {_quoted(name)}")
            )
        return "the server answers, and refuses: look at role and database (-U, -d)"
    psql = f"psql -h {shlex.quote(host)} -p {port} -U {shlex.quote(user)} -l" if host else "psql -l"
    also = f"; {there}" if there and here is not None and has_database(here, name) else ""
    return (
        "the server answers, and refuses: look at role, password and database (-U, -d); "
        f"its databases: {psql}; one is made with: createdb NAME{also}"
    )


def has_database(cluster: Cluster, name: str) -> bool:
    """Tell whether a running server of ours has a database."""
    with contextlib.suppress(psycopg.Error, UnicodeError), cluster.connect() as conn:
        return conn.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is not None
    return False


def _answers(conninfo: str) -> bool:
    """Tell whether a server is there, in whatever state and whomever it lets in."""
    return pq.PGconn.ping(make_conninfo(conninfo, connect_timeout=3).encode()) in (pq.Ping.OK, pq.Ping.REJECT)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def given_server(**parts: str | None) -> bool:
    """Tell whether options, given as their values, or the environment name a server of the user's own."""
    return any(value is not None for value in parts.values()) or any(os.environ.get(name) for name in _ENVIRONMENT)


def _parse(conninfo: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        # libpq's message quotes the string, and with it, maybe, the password
        raise UserError(
            "the connection string is not one libpq understands",
            "as in -d postgresql://user@host:5432/dbname or -d 'host=… dbname=…'",
        ) from None


def _make(parts: dict[str, Any], *, embedded: bool = False) -> Target:
    shown = make_conninfo(**{name: value for name, value in parts.items() if name not in _SECRETS})
    conninfo = make_conninfo(**{"fallback_application_name": "pgbillion", **parts})
    return Target(conninfo, shown or "libpq's default server", embedded)
