"""The two extensions: what building them takes of one PostgreSQL, and created and checked in one database."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors as pg_errors

from pgbillion.common import invocation, paths, search_path
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load

# the names of extension, library, schema and prefix of settings alike
TABLES = "pgbillion_tables"
ROWS = "pgbillion_rows"
ALL = (TABLES, ROWS)


@dataclass(frozen=True)
class PgConfig:
    """What pg_config tells of an installation."""

    pg_config: Path
    version: str
    version_num: int
    values: Mapping[str, str]

    @property
    def major(self) -> int:
        """The major version, as in 18."""
        return self.version_num // 10000

    @property
    def bindir(self) -> Path:
        """The folder of the programs."""
        return Path(self.values["BINDIR"])

    @property
    def pkglibdir(self) -> Path:
        """The folder of the loadable modules."""
        return Path(self.values["PKGLIBDIR"])

    @property
    def sharedir(self) -> Path:
        """The folder that holds extension/, the time zones and so on."""
        return Path(self.values["SHAREDIR"])

    @property
    def folders(self) -> list[Path]:
        """What a server needs to run."""
        return [self.bindir, self.pkglibdir, self.sharedir]


def read_pg_config(pg_config: Path) -> PgConfig:
    """Ask a pg_config, given by path or by a name to look for in PATH, about its installation."""
    found = shutil.which(pg_config)
    hint = "name it with --pg-config, as in --pg-config /usr/lib/postgresql/15/bin/pg_config"
    if found is None:
        raise UserError(f"there is no program {pg_config}", hint)
    # made absolute but not resolved: a distribution's pg_config may be a link to a script that looks at its own name
    program = Path(found).absolute()
    try:
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"{program} does not run as pg_config: {error}", hint) from error
    values = dict(line.split(" = ", 1) for line in output.splitlines() if " = " in line)
    match = re.match(r"PostgreSQL (\d+)(?:\.(\d+))?", values.get("VERSION", ""))
    if match is None:
        raise UserError(f"{program} is not a pg_config", hint)
    number = int(match[1]) * 10000 + int(match[2] or 0)
    return PgConfig(program, values["VERSION"].removeprefix("PostgreSQL "), number, values)


def check_tools(facts: PgConfig) -> None:
    """Raise UserError, with the command that installs them, when compiler, make or server headers are missing."""
    missing = [tool for tool in (shlex.split(facts.values["CC"])[0], "make") if shutil.which(tool) is None]
    if missing:
        raise UserError(
            f"the extension must be compiled, and there is no {' and no '.join(missing)}", how_to_install(missing)
        )
    headers = [Path(facts.values["INCLUDEDIR-SERVER"], "postgres.h"), Path(facts.values["PGXS"])]
    headers.append(Path(facts.values["INCLUDEDIR"], "libpq-fe.h"))
    absent = [str(path) for path in headers if not path.exists()]
    if absent:
        raise UserError(
            f"the development files of PostgreSQL {facts.version} are missing ({absent[0]})",
            how_to_install([f"postgresql-server-dev-{facts.major}"]),
        )


def how_to_install(packages: Sequence[str]) -> str:
    """Return the command that installs packages, named as on Debian, or words where we do not know it."""
    if shutil.which("apt-get") is not None:
        sudo = "" if os.geteuid() == 0 else "sudo "
        return f"{sudo}apt-get install --yes {' '.join(packages)}"
    return f"install {' and '.join(packages)} with your system's package manager"


def ensure_extension(conn: psycopg.Connection[Any], name: str, *, instead: str | None = None) -> None:
    """Create an extension in the connection's database when it is missing, and check that it can be worked with.

    The library the server loads and the SQL objects in the database must be of one version, and that must be
    compatible with this program. Raises UserError, with what to do, when they are not or the extension cannot be had.
    ``instead`` is the option by which the command that is run does without it, if it has one.
    """
    mine = paths.version()
    options = options_of(conn)
    install_it = f"on the server's machine, run: {invocation.command('extension', 'install', *options)}"
    if instead is not None:
        install_it += f"; or use {instead}, which does without"
    try:
        # looked up first: on a standby, and without the privilege, even CREATE … IF NOT EXISTS is refused
        library, objects = versions(conn, name)
        if objects is None:
            check_creatable(conn, name)
            # what is found in its schema afterwards undoes it
            with conn.transaction():
                conn.execute(f"CREATE EXTENSION IF NOT EXISTS {name}".encode())
                library, objects = versions(conn, name)
    except pg_errors.FeatureNotSupported as error:
        raise UserError(f"this server does not have the extension {name}", install_it, status=3) from error
    except pg_errors.UndefinedFile as error:
        reason = error.diag.message_primary
        raise UserError(
            f"the server cannot load the library of the extension {name}: {reason}", install_it, 3
        ) from error
    except pg_errors.InsufficientPrivilege as error:
        role = quoted(conn.info.user)
        raise UserError(
            f"no privilege to create or use the extension {name} in database {conn.info.dbname}",
            f"let a superuser run, in that database: CREATE EXTENSION IF NOT EXISTS {name}; GRANT USAGE ON SCHEMA "
            f"{name} TO {role}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {name} TO {role};",
            status=3,
        ) from error
    assert library is not None
    assert objects is not None
    if not compatible(objects, mine) or not compatible(library, mine):
        raise UserError(
            f"the extension {name} in database {conn.info.dbname} is version {objects}, its library {library},"
            f" and this program {mine}",
            "on the server's machine, with the newer of the two versions, run: "
            + invocation.command("extension", "upgrade", *options),
            status=3,
        )
    if library != objects:
        raise UserError(
            f"database {conn.info.dbname} has version {objects} of the extension {name}, and the server loads its"
            f" library of version {library}",
            f"run: {invocation.command('extension', 'upgrade', *options)}; or connect again",
            status=3,
        )


def options_of(conn: psycopg.Connection[Any]) -> list[str]:
    """Return the options by which a command reaches the connection's database."""
    parts = {"-h": conn.info.host, "-p": str(conn.info.port), "-U": conn.info.user, "-d": conn.info.dbname}
    return [word for option, value in parts.items() if value for word in (option, value)]


def compatible(theirs: str, mine: str) -> bool:
    """Tell whether two versions work together: those that differ in the last number only."""
    return theirs.split(".")[:2] == mine.split(".")[:2]


def versions(conn: psycopg.Connection[Any], name: str) -> tuple[str | None, str | None]:
    """Return the version of the library that the server loads and that of the SQL objects, None without them.

    Raises UserError, and calls nothing, when others than superusers can have put functions beside the extension's.
    """
    objects, _, _ = _state(conn, name)
    if objects is None:
        return None, None
    check_schema(conn, name)
    loaded = conn.execute(f"SELECT {name}.version()".encode()).fetchone()
    return loaded and loaded[0], objects


def check_creatable(conn: psycopg.Connection[Any], name: str) -> None:
    """Raise UserError where CREATE EXTENSION would find something in its way, or something that is not ours."""
    if versions(conn, name)[1] is None:
        _refuse_first_version(conn)
        check_schema(conn, name)


def _refuse_first_version(conn: psycopg.Connection[Any]) -> None:
    """Raise UserError where 0.1 is, which was one extension: its access method and its wrapper have the same names."""
    if conn.execute("SELECT FROM pg_extension WHERE extname = 'pgbillion'").fetchone() is not None:
        raise UserError(
            f"database {conn.info.dbname} has the extension pgbillion, of version 0.1, from which there is no upgrade",
            "make its lazy tables ordinary with billion.to_heap(), run DROP EXTENSION pgbillion, and try again",
            status=3,
        )


def usable(conn: psycopg.Connection[Any], name: str, function: str) -> bool:
    """Tell whether the extension is in this database and this role may, and safely can, call its function."""
    return function in _state(conn, name)[2] and bool(search_path.trusted(conn, name))


def check_schema(conn: psycopg.Connection[Any], name: str) -> None:
    """Raise UserError when somebody but superusers can have put something into the schema that the extension has.

    A function of theirs that fits one of our calls better would run with our rights.
    """
    if _state(conn, name)[1] and not search_path.trusted(conn, name):
        raise UserError(
            f"schema {name} of database {conn.info.dbname} is not the extension's alone: others own it, own functions"
            " in it, or may make some",
            f"psql's \\dn+ {name} and \\df+ {name}.* tell who: make a superuser its owner, revoke CREATE on it from"
            " all others, and drop their functions",
            status=3,
        )


def _state(conn: psycopg.Connection[Any], name: str) -> tuple[str | None, bool, list[str]]:
    """Return the version of the SQL objects, whether the schema is there, and the functions that may be called."""
    row = conn.execute(load("server", "extension_state").encode(), {"name": name}).fetchone()
    assert row is not None
    return row[0], row[1], row[2]
