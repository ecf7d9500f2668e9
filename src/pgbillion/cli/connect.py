"""Which server a command talks to, said the way libpq's own programs take it."""

from __future__ import annotations

import contextlib
import functools
import getpass
import inspect
import os
import re
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any

import psycopg
import typer
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion.common import invocation, paths
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quote
from pgbillion.common.target import Target
from pgbillion.server import embedded, neighbours
from pgbillion.server.extension import ALL
from pgbillion.server.postgres import SUPERUSER, Cluster

# Help is --help only, because -h is the host.
_PANEL = "Connection"


def _remember(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Keep what the user has typed for the commands that hints name; the environment gives these the same, too."""
    if value is not None and _typed(context, parameter):
        invocation.remember(parameter.opts[-1], None if value is True else str(value))
    return value


def _typed(context: typer.Context, parameter: typer.CallbackParam) -> bool:
    source = context.get_parameter_source(str(parameter.name))
    return source is not None and source.name == "COMMANDLINE"


StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        envvar=paths.STATE_VARIABLE,
        metavar="DIRECTORY",
        help="State directory of the embedded server.",
        callback=_remember,
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
        str | None,
        typer.Option(
            "-h",
            "--host",
            metavar="HOST",
            help="Database server host or socket directory.",
            callback=_remember,
            rich_help_panel=_PANEL,
        ),
    ] = None
    port: Annotated[
        str | None,
        typer.Option(
            "-p", "--port", metavar="PORT", help="Database server port.", callback=_remember, rich_help_panel=_PANEL
        ),
    ] = None
    username: Annotated[
        str | None,
        typer.Option(
            "-U", "--username", metavar="NAME", help="Role to connect as.", callback=_remember, rich_help_panel=_PANEL
        ),
    ] = None
    dbname: Annotated[
        str | None,
        typer.Option(
            "-d",
            "--dbname",
            metavar="DBNAME",
            help="Database name, URI or connection string.",
            callback=_remember,
            rich_help_panel=_PANEL,
        ),
    ] = None
    no_password: Annotated[
        bool,
        typer.Option("-w", "--no-password", help="Never prompt for a password. The default.", rich_help_panel=_PANEL),
    ] = False
    password: Annotated[
        bool,
        typer.Option(
            "-W",
            "--password",
            help="Prompt for a password before connecting.",
            callback=_remember,
            rich_help_panel=_PANEL,
        ),
    ] = False
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
        password = _ask_password() if self.password and not self.no_password else None
        return target(
            self.host, self.port, self.username, self.dbname, self.state_dir, or_down=or_down, password=password
        )


def _ask_password() -> str:
    """Return a password from the terminal. Raises UserError without one."""
    with warnings.catch_warnings():
        # it would read what comes by a pipe, and show it
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return getpass.getpass("Password: ")
        except (getpass.GetPassWarning, EOFError):
            raise UserError(
                "there is no terminal to ask for a password at", "keep it in a password file: see PGPASSFILE"
            ) from None


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
    password: str | None = None,
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
        if found is not None and (
            (or_down and found.data.exists()) or (found.running() and has_database(found, parts["dbname"]))
        ):
            return _make(conninfo_to_dict(found.conninfo(parts["dbname"])), embedded=True)
    return _make(parts if password is None else {**parts, "password": password})


def second_target(given: str, first: Target) -> Target:
    """Return a second target: a URI or connection string of its own, or the name of a database beside the first one.

    Raises UserError for a connection string that cannot be understood.
    """
    if "=" in given or "://" in given:
        return _make(_parse(given))
    return _make({**conninfo_to_dict(first.conninfo), "dbname": given}, embedded=first.embedded)


def check_conninfo(given: str) -> None:
    """Raise UserError for what is neither a URI nor a connection string."""
    if "=" not in given and "://" not in given:
        raise UserError(
            "--source-conninfo takes a URI or connection string", "as in 'host=db1 port=5432 passfile=/path/there'"
        )
    _parse(given)


def refused(error: psycopg.OperationalError) -> tuple[str, str]:
    """Return what is wrong with a connection that could not be made, and what to do about it."""
    # psycopg's words before those of libpq, and libpq's question, which the hint answers
    lines = re.sub(r"^connection (?:is bad|failed): ", "", str(error)).splitlines()
    message = "\n".join(line for line in lines if not line.strip().startswith("Is the server running"))
    # a database's name alone is one of psql's default server, if that answers
    if invocation.named_server() or given_server() or (invocation.named_database() and _answers("")):
        return message, _hint(error)
    state = paths.state_dir(invocation.state())
    found = embedded.find(state)
    if found is None or not found.data.exists():
        return (
            f"there is no server in {state}, and psql's default server cannot be used: {message}",
            f"make one: {_start()}; or name one of your own with -h, -p, -U, -d",
        )
    if not found.running():
        return (
            f"the embedded server in {state} is stopped, and psql's default server cannot be used: {message}",
            f"start it: {_start()}; or name one of your own with -h, -p, -U, -d",
        )
    return message, _hint(error)


def _hint(error: psycopg.OperationalError) -> str:
    tried = error.pgconn
    if tried is None or not tried.db:
        return "check that PostgreSQL is running there, or name another server with -h, -p, -U, -d"
    name = tried.db.decode(errors="replace")
    host, port, user = (part.decode(errors="replace") for part in (tried.host, tried.port, tried.user))
    address = make_conninfo(**{key: value for key, value in {"host": host, "port": port}.items() if value})
    found = embedded.find(paths.state_dir(invocation.state()))
    mine = found is not None and host == str(found.socket_dir) and port == str(found.port)
    here = found if found is not None and found.running() else None
    if _missing_library(str(error)) not in (None, name, user):
        return _put_back(host, port, mine=mine)
    there = (
        f"a database of the embedded server: -h {here.socket_dir} -p {here.port} -U {SUPERUSER} -d NAME"
        if here and not mine
        else ""
    )
    if not _answers(address):
        if there and here is not None and not has_database(here, name):
            return (
                f"no server answers there, and the embedded server has no database {name}: see its databases with:"
                f" {invocation.command('server', 'psql', '-l')}; or name another server with -h, -p, -U, -d"
            )
        if mine:
            return f"the embedded server is stopped; start it: {_start()}"
        other = f", or use {there}" if there else ""
        return f"check that PostgreSQL is running there{other}, or name another server with -h, -p, -U, -d"
    if mine and here is not None:
        if not has_database(here, name):
            return (
                f"see its databases with: {invocation.command('server', 'psql', '-l')}; make it with: "
                + invocation.command("server", "psql", "-c", f"CREATE DATABASE {quote(name)}")
            )
        return "the server answers, and refuses: look at role and database (-U, -d)"
    options = f"-h {shlex.quote(host)} -p {port} -U {shlex.quote(user)} " if host else ""
    also = f"; {there}" if there and here is not None and has_database(here, name) else ""
    return (
        "the server answers, and refuses: look at role, password and database (-U, -d); "
        f"its databases: psql {options}-l; one is made with: createdb {options}NAME{also}"
    )


def _start() -> str:
    return invocation.command("server", "start")


def _missing_library(message: str) -> str | None:
    """Return the extension without whose library a server begins no session, as its refusal says."""
    found = re.search(rf'"(?:[^"\n]*/)?({"|".join(ALL)})(?:\.so)?"', message)
    return found[1] if found else None


def _put_back(host: str, port: str, *, mine: bool) -> str:
    """Return how the extensions' files come back into the server whose settings name them."""
    if mine:
        return f"the server's settings load a library whose file was removed; put it back: {_start()}"
    found = neighbours.at(host, int(port)) if port.isdigit() else None
    program = found.program.with_name("pg_config") if found is not None and found.program is not None else None
    if program is None or not program.exists():
        program = Path("/PATH/OF/THE/SERVERS/bin/pg_config")
    again = invocation.command("extension", "install", "--pg-config", str(program))
    return (
        f"the server's settings load a library whose file was removed; as the owner of its files, put it back: {again}"
    )


def has_database(cluster: Cluster, name: str) -> bool:
    """Tell whether one of our running servers has a database."""
    with contextlib.suppress(psycopg.Error, UnicodeError), cluster.connect() as conn:
        return conn.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is not None
    return False


def _answers(conninfo: str) -> bool:
    """Tell whether a server is there, in whatever state and whomever it lets in."""
    return pq.PGconn.ping(make_conninfo(conninfo, connect_timeout=3).encode()) in (pq.Ping.OK, pq.Ping.REJECT)


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
