"""The extensions in a running server on this machine: what is where, and how it gets there and away again.

Files are put into the server's own folders or, from PostgreSQL 18 on, into one of the user's that the server is told
of. Everything that could refuse is asked before anything is compiled, copied or changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from packaging.version import InvalidVersion, Version
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.common import paths
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import extension, files
from pgbillion.server.extension import ALL, ROWS, PgConfig
from pgbillion.server.files import Folders

# the first major version that finds extensions outside its own folders
OUTSIDE_SINCE = 18
_CONTROL_PATH, _LIBRARY_PATH = "extension_control_path", "dynamic_library_path"
_PRELOAD = "session_preload_libraries"
_OWN = {_CONTROL_PATH: "$system", _LIBRARY_PATH: "$libdir"}
_RELOAD_SECONDS = 30.0


@dataclass(frozen=True)
class InDatabase:
    """What a database has: SQL objects and what a session of it loads, by extension, and whether it loads vectors."""

    name: str
    objects: dict[str, str]
    loaded: dict[str, str | None]
    preloads: bool


@dataclass(frozen=True)
class Report:
    """What `pgbillion extension status` tells; versions by extension, None where there is none."""

    program: str
    server: str
    pkglibdir: str
    sharedir: str
    files: dict[str, str | None]
    libraries: dict[str, str | None]
    built_for: dict[str, str | None]
    prebuilt: bool
    compiled_because: str | None
    databases: list[InDatabase] = field(default_factory=list)
    running: bool = False


def facts_of(conn: Connection) -> PgConfig:
    """Return what a running server tells of its installation. Raises UserError when it may not, or is elsewhere."""
    if Host.of(conn) is None:
        raise UserError(
            "this server does not run on this machine, and its files can only be changed there",
            "install pgbillion there, and run this command there",
        )
    try:
        values: dict[str, str] = dict(conn.execute("SELECT name, setting FROM pg_config()").fetchall())
    except psycopg.errors.InsufficientPrivilege as error:
        raise UserError(
            f"role {conn.info.user} may not know where this server is installed",
            "connect as a superuser (-U postgres), or name the installation with --pg-config",
            status=3,
        ) from error
    version = values["VERSION"].removeprefix("PostgreSQL ")
    return PgConfig(Path(values["BINDIR"], "pg_config"), version, conn.info.server_version, values)


def folders_of(conn: Connection, facts: PgConfig) -> Folders:
    """Return the folders in which a server finds the extensions, its own when it finds none."""
    for sharedir in elements(conn, _CONTROL_PATH):
        if sharedir in ("", _OWN[_CONTROL_PATH]):
            break
        outside = outside_folders(Path(sharedir).parent)
        if str(outside.sharedir) == sharedir and files.present(outside):
            return outside
    return Folders.of(facts)


def outside_folders(folder: Path) -> Folders:
    """Return the folders in a folder of the user's own."""
    return Folders(folder / "lib", folder / "share")


# ---- what is there ----


def report(facts: PgConfig, folders: Folders) -> Report:
    """Tell what an installation has, from its files alone."""
    builds = {name: files.build_of(folders.library(name)) for name in ALL}
    reason = files.why_not_prebuilt(facts)
    return Report(
        program=paths.version(),
        server=facts.version,
        pkglibdir=str(folders.pkglibdir),
        sharedir=str(folders.sharedir),
        files={name: files.version_of(folders, name) for name in ALL},
        libraries={name: build.version if build else None for name, build in builds.items()},
        built_for={name: build.server if build else None for name, build in builds.items()},
        prebuilt=reason is None,
        compiled_because=reason,
    )


def report_server(target: Target, conn: Connection) -> Report:
    """Tell what a server and each of its databases have; those that may not be connected to are left out."""
    facts = facts_of(conn)
    found = report(facts, folders_of(conn, facts))
    return replace(found, databases=list(_databases(target, conn)), running=True)


def _databases(target: Target, conn: Connection) -> Iterator[InDatabase]:
    for name in names(conn):
        # dropped meanwhile, or closed to us
        with contextlib.suppress(psycopg.OperationalError), in_database(target, name).connect() as there:
            objects = objects_in(there)
            yield InDatabase(
                name=name,
                objects=objects,
                loaded={each: extension.versions(there, each)[0] for each in objects},
                preloads=_preloads(there),
            )


def names(conn: Connection) -> list[str]:
    """Return the names of a server's databases."""
    query = "SELECT datname FROM pg_database WHERE datallowconn ORDER BY datname"
    return [name for (name,) in conn.execute(query).fetchall()]


def in_database(target: Target, name: str) -> Target:
    """Return the same server with another database."""
    return replace(target, conninfo=make_conninfo(target.conninfo, dbname=name))


def objects_in(conn: Connection) -> dict[str, str]:
    """Return the versions of the extensions' SQL objects in a database, by extension."""
    query = "SELECT extname, extversion FROM pg_extension WHERE extname = ANY (%s) ORDER BY extname DESC"
    return dict(conn.execute(query, [list(ALL)]).fetchall())


INSTALL, UPGRADE = "install", "upgrade"


def to_do(found: Report) -> list[str]:
    """Return what is to be done about what was found: one of our commands, or words; nothing when all is well."""
    program = found.program
    versions = {*found.files.values(), *found.libraries.values()}
    if all(version is None for version in found.files.values()):
        return [INSTALL]
    if any(version is not None and _is_newer(version, program) for version in versions):
        return ["the server's files are newer than this program: pip install --upgrade pgbillion"]
    old = any(set(database.objects.values()) - {program} for database in found.databases)
    if versions != {program} or old:
        return [UPGRADE]
    if any(set(database.loaded.values()) - {program} for database in found.databases):
        return ["restart the server, which loaded the library of another version when it started"]
    if found.running and not any(database.objects for database in found.databases):
        return [INSTALL]
    return []


def _is_newer(found: str, program: str) -> bool:
    """Tell whether files are of a later version than the program; an unknown kind of version is not."""
    try:
        return Version(found) > Version(program)
    except InvalidVersion:
        return False


# ---- before anything is changed ----


def check_major(facts: PgConfig, supported: Sequence[int]) -> None:
    """Raise UserError for a major version that the extensions are not for."""
    if facts.major not in supported:
        raise UserError(
            f"PostgreSQL {facts.version} is not supported ({facts.bindir})",
            f"name pg_config of PostgreSQL {supported[0]} to {supported[-1]} with --pg-config",
        )


def check_newer(folders: Folders) -> None:
    """Raise UserError when the files there are of a later version than this program."""
    for name in ALL:
        there = files.version_of(folders, name)
        if there is not None and _is_newer(there, paths.version()):
            raise UserError(
                f"{folders.extension} has version {there} of {name}, and this program is {paths.version()}",
                "pip install --upgrade pgbillion",
            )


def check_writable(folders: Folders, again: str, outside: str | None) -> None:
    """Raise UserError when files cannot be put into folders, or removed; ``again`` is the command that was run.

    ``outside`` is the command that does without these folders, if there is one.
    """
    folder = files.not_writable(folders)
    if folder is None:
        return
    hint = f"run it as the owner of PostgreSQL's files: {again}"
    if outside is not None:
        hint += f"; or without root: {outside}"
    raise UserError(f"no right to write to {folder}", hint)


def check_superuser(conn: Connection) -> None:
    """Raise UserError unless the session's role is a superuser."""
    row = conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if not (row and row[0]):
        raise UserError(
            f"role {conn.info.user} is not a superuser, and only those can create these extensions",
            "connect as one, as in -U postgres",
            status=3,
        )


def check_database(conn: Connection) -> None:
    """Raise UserError where the extensions would be refused for a reason that is in the database."""
    for name in ALL:
        extension.check_creatable(conn, name)


# ---- files ----


def is_there(facts: PgConfig, folders: Folders) -> bool:
    """Tell whether all files in folders are of this program's version, and the libraries for this server."""
    mine = paths.version()
    builds = [files.build_of(folders.library(name)) for name in ALL]
    return files.complete(folders) and all(
        files.version_of(folders, name) == mine
        and build is not None
        and build.version == mine
        and facts.major * 10000 <= build.server_num <= facts.version_num
        for name, build in zip(ALL, builds, strict=True)
    )


def put(facts: PgConfig, folders: Folders, say: files.Say) -> str:
    """Put this program's files into folders, and return how it had them: prebuilt or compiled."""
    work = Path(tempfile.mkdtemp(prefix="pgbillion-"))
    # kept when it fails: make's output is in there
    libraries = files.libraries(facts, work, say)
    files.place(libraries, folders)
    shutil.rmtree(work)
    return "compiled" if work in next(iter(libraries.values())).parents else "prebuilt"


# ---- a folder outside the server's own ----


def check_outside(conn: Connection, facts: PgConfig, folder: Path) -> None:
    """Raise UserError when a server cannot find extensions in a folder of the user's own, or cannot reach it."""
    if facts.major < OUTSIDE_SINCE:
        raise UserError(
            f"PostgreSQL {facts.major} finds extensions in its own directories only; {OUTSIDE_SINCE} is the first that"
            " looks elsewhere",
            "leave --folder out, and run it as the owner of PostgreSQL's files",
        )
    if any(character in str(folder) for character in ':"'):
        raise UserError(f"the path of a directory of extensions cannot have a colon or a quote: {folder}")
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        # that it does not exist can be told only by who may look into the folder
        conn.execute("SELECT pg_stat_file(%s, true)", [f"{there}/pgbillion"])
    except psycopg.Error as error:
        raise UserError(
            f"the server cannot reach {there}: {error.diag.message_primary}",
            "choose a directory that the server's user can reach",
            status=3,
        ) from error
    _check_nobody_elses(conn, folder)


def _check_nobody_elses(conn: Connection, folder: Path) -> None:
    """Raise UserError where others than we, root and the server's user can put a library of theirs into a folder."""
    row = conn.execute("SELECT current_setting('data_directory')").fetchone()
    assert row is not None
    owners = {0, os.geteuid()}
    with contextlib.suppress(OSError):
        owners.add(Path(row[0]).stat().st_uid)
    outside = outside_folders(folder)
    inside = (outside.pkglibdir, outside.sharedir, folder)
    for path in (*inside, *folder.parents):
        if not path.exists():
            continue
        found = path.stat()
        # of what is in a folder like /tmp, others can take away only what is theirs
        open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if open_to_all or (path in inside and found.st_uid not in owners):
            raise UserError(
                f"others can write to {path}, and what is in {folder} runs as the server's user",
                "choose a directory that is yours, and that only you can write to",
                status=3,
            )


def look_outside(target: Target, conn: Connection, folder: Path) -> None:
    """Have a server find extensions in a folder: it is told of it in postgresql.auto.conf. Raises UserError."""
    folders = outside_folders(folder)
    wanted = {_CONTROL_PATH: str(folders.sharedir), _LIBRARY_PATH: str(folders.pkglibdir)}
    for name, path in wanted.items():
        found = elements(conn, name)
        if path not in found:
            _set_system(conn, name, [path, *found])
    _wait_for(target, conn, lambda there: all(path in elements(there, name) for name, path in wanted.items()))


def look_outside_no_more(target: Target, conn: Connection, folder: Path) -> None:
    """Undo `look_outside`."""
    folders = outside_folders(folder)
    wanted = {_CONTROL_PATH: str(folders.sharedir), _LIBRARY_PATH: str(folders.pkglibdir)}
    for name, path in wanted.items():
        found = elements(conn, name)
        if path in found:
            _set_system(conn, name, [element for element in found if element != path])
    _wait_for(target, conn, lambda there: all(path not in elements(there, name) for name, path in wanted.items()))


def elements(conn: Connection, name: str) -> list[str]:
    """Return the folders that a setting names; none where there is no such setting."""
    row = conn.execute("SELECT current_setting(%s, true)", [name]).fetchone()
    return row[0].split(":") if row and row[0] else []


def _set_system(conn: Connection, name: str, elements: list[str]) -> None:
    if elements in ([], [_OWN[name]]):
        conn.execute(sql.SQL("ALTER SYSTEM RESET {}").format(sql.Identifier(name)))
    else:
        value = sql.Literal(":".join(elements))
        conn.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value))


def _wait_for(target: Target, conn: Connection, condition: Any) -> None:
    """Have the server read its settings again, and wait until a new session has them. Raises UserError."""
    conn.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + _RELOAD_SECONDS
    while True:
        with target.connect() as there:
            if condition(there):
                return
        if time.monotonic() > deadline:
            raise UserError(
                f"{_CONTROL_PATH} and {_LIBRARY_PATH} were set by ALTER SYSTEM, and sessions have other values",
                "remove what sets them on the server's command line, for the database or for the role",
                status=3,
            )
        time.sleep(0.05)


# ---- in databases ----


def create(conn: Connection) -> list[str]:
    """Create the extensions that a database lacks, and check all; return the names of those that are new."""
    before = objects_in(conn)
    for name in ALL:
        extension.ensure_extension(conn, name)
    return [name for name in ALL if name not in before]


def update(target: Target, conn: Connection) -> dict[str, list[str]]:
    """Update the SQL objects in each database that has older ones; return which, by database."""
    done: dict[str, list[str]] = {}
    for database in names(conn):
        with in_database(target, database).connect() as there:
            old = [name for name, version in objects_in(there).items() if version != paths.version()]
            with there.transaction():
                for name in old:
                    extension.check_schema(there, name)
                    there.execute(sql.SQL("ALTER EXTENSION {} UPDATE").format(sql.Identifier(name)))
            if old:
                done[database] = old
    return done


def drop(conn: Connection) -> list[str]:
    """Drop the extensions from a database; objects that need them are an error of PostgreSQL's."""
    found = list(objects_in(conn))
    with conn.transaction():
        for name in found:
            conn.execute(sql.SQL("DROP EXTENSION {}").format(sql.Identifier(name)))
    return found


def others_with_it(target: Target, conn: Connection) -> list[str]:
    """Return the other databases of a server that have one of the extensions."""
    found = []
    for name in names(conn):
        if name != conn.info.dbname:
            with in_database(target, name).connect() as there:
                if objects_in(there):
                    found.append(name)
    return found


# ---- which sessions load the library ----


def preload(conn: Connection) -> bool:
    """Have every new session of a database load the library of vectors; tell whether that is new."""
    if _preloads(conn):
        return False
    _set_preload(conn, [*(_set_for_database(conn) or _preloaded(conn)), ROWS])
    return True


def preload_no_more(conn: Connection) -> list[str]:
    """Take our libraries out of the database's own setting, also one that `preload` has not put there; return those."""
    before = _set_for_database(conn) or []
    ours = [name for name in before if name in ALL]
    if ours:
        _set_preload(conn, [name for name in before if name not in ALL])
    return ours


@dataclass(frozen=True)
class Preloaded:
    """A setting by which sessions load one of the libraries: whose it is, and what takes it out."""

    setting: str
    owner: str
    library: str
    remedy: str


def preloaded(conn: Connection, *, other_databases: bool) -> Preloaded | None:
    """Return the first such setting of a server, with ``other_databases`` other than this database's own."""
    query = load("server", "preloaded_elsewhere").encode()
    row = conn.execute(query, {"libraries": list(ALL), "other_databases": other_databases}).fetchone()
    return None if row is None else Preloaded(*row)


def check_not_preloaded(conn: Connection) -> None:
    """Raise UserError when settings other than the database's own would have sessions load a library that is gone."""
    found = preloaded(conn, other_databases=True)
    if found is not None:
        raise UserError(
            f"{found.setting} of {found.owner} names {found.library}: without its library no session could begin there",
            f"take it out first: {found.remedy}",
            status=3,
        )


def _preloads(conn: Connection) -> bool:
    query = (
        "SELECT bool_or(%s = ANY (regexp_split_to_array(setting, '[ ,\"]+'))) FROM pg_settings"
        " WHERE name IN ('shared_preload_libraries', 'session_preload_libraries', 'local_preload_libraries')"
    )
    row = conn.execute(query, [ROWS]).fetchone()
    return bool(row and row[0])


def _preloaded(conn: Connection) -> list[str]:
    row = conn.execute("SELECT current_setting(%s)", [_PRELOAD]).fetchone()
    return _libraries_in(row[0] if row else "")


def _set_for_database(conn: Connection) -> list[str] | None:
    query = (
        "SELECT substr(one, length(%(name)s) + 2) FROM pg_db_role_setting, unnest(setconfig) AS one"
        " WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database()) AND setrole = 0"
        " AND one LIKE %(name)s || '=%%'"
    )
    row = conn.execute(query, {"name": _PRELOAD}).fetchone()
    return None if row is None else _libraries_in(row[0])


def _libraries_in(value: str) -> list[str]:
    return [name.strip().strip('"') for name in value.split(",") if name.strip()]


def _set_preload(conn: Connection, libraries: list[str]) -> None:
    database = sql.Identifier(conn.info.dbname)
    if not libraries:
        conn.execute(sql.SQL("ALTER DATABASE {} RESET session_preload_libraries").format(database))
        return
    values = sql.SQL(", ").join(map(sql.Literal, libraries))
    conn.execute(sql.SQL("ALTER DATABASE {} SET session_preload_libraries = {}").format(database, values))
