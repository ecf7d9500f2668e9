"""Which server a command talks to, said the way libpq's own programs take it."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion import paths, search_path, server
from pgbillion.durability import warning
from pgbillion.errors import UserError

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
    """Give a command the options of the connection, which it takes as its first argument."""
    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    shared = inspect.signature(Where, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(Where(**{name: given.pop(name) for name in shared}), **given)

    # what typer makes options of
    run.__signature__ = inspect.Signature([*own, *shared.values()])  # type: ignore[attr-defined]
    return run


@dataclass(frozen=True)
class Target:
    """A server and database to talk to.

    ``conninfo`` may hold a password: it is not to be shown, logged or put on a command line. ``display`` is for that.
    What the user did not give is left out of it, so that libpq decides (PGHOST, PGSERVICE, the password file …).
    ``embedded`` tells whether it is the server that `pgbillion server start` started.
    """

    conninfo: str
    display: str
    embedded: bool = False

    def __repr__(self) -> str:
        return f"Target({self.display!r})"

    @property
    def address(self) -> str:
        """Where the server is, whichever way and for whichever database it was said."""
        parts = conninfo_to_dict(self.conninfo)
        names = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT", "service": "PGSERVICE"}
        found = {name: str(parts.get(name) or os.environ.get(variable, "")) for name, variable in names.items()}
        return make_conninfo(**{name: value for name, value in found.items() if value})

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """Connect, in autocommit mode and as `pgbillion` in pg_stat_activity unless told otherwise.

        What is sent means pg_catalog's names alone, see `search_path`. A server whose durability window is open is
        warned of.
        """
        conn = search_path.pin(psycopg.connect(self.conninfo, **{"autocommit": True, **options}))
        try:
            warning.warn(conn)
        except BaseException:
            conn.close()
            raise
        return conn


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
    is one), else what libpq defaults to. Raises UserError for a connection string that cannot be understood.
    """
    given = {"host": host, "port": port, "user": username}
    parts: dict[str, Any] = {}
    if dbname is not None:
        parts = _parse(dbname) if "=" in dbname or "://" in dbname else {"dbname": dbname}
    parts |= {name: value for name, value in given.items() if value is not None}
    if not given_server(**parts):
        running = server.find(paths.state_dir(state_dir))
        if running is not None and (running.running() or (or_down and running.data.exists())):
            return _make(conninfo_to_dict(running.conninfo(server.DATABASE)), embedded=True)
    return _make(parts)


def given_server(**parts: str | None) -> bool:
    """Tell whether options, given as their values, or the environment name a server of the user's own."""
    return any(value is not None for value in parts.values()) or any(os.environ.get(name) for name in _ENVIRONMENT)


def _parse(conninfo: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        # libpq's message quotes the string, and with it, maybe, the password
        raise UserError(
            "the connection string given with -d is not one libpq understands",
            "as in -d postgresql://user@host:5432/dbname or -d 'host=… dbname=…'",
        ) from None


def _make(parts: dict[str, Any], *, embedded: bool = False) -> Target:
    shown = make_conninfo(**{name: value for name, value in parts.items() if name not in _SECRETS})
    conninfo = make_conninfo(**{"fallback_application_name": "pgbillion", **parts})
    return Target(conninfo, shown or "libpq's default server", embedded)
