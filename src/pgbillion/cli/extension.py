"""`pgbillion extension …`: the two extensions into a server of one's own, and away again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pgbillion.cli import connect
from pgbillion.cli.connect import Where
from pgbillion.cli.options import Json, Yes
from pgbillion.cli.terminal import say
from pgbillion.common import invocation, paths, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import deploy, embedded, extension, files, neighbours
from pgbillion.server.deploy import InDatabase, Report
from pgbillion.server.extension import ALL, ROWS, PgConfig, read_pg_config
from pgbillion.server.files import Folders
from pgbillion.server.neighbours import Neighbour
from pgbillion.server.postgres import SUPPORTED_MAJORS, Cluster
from pgbillion.shards import record

# of the servers that use the files
_SHOWN = 3

app = typer.Typer(help="Install the extensions into your own server, show their state, upgrade and uninstall them.")

PgConfig_ = Annotated[
    Path | None,
    typer.Option(
        "--pg-config",
        metavar="PROGRAM",
        help="Only handle the files of this installation; no server has to be running.",
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIRECTORY",
        help="Install into this directory and have the server look there, which does not need root. "
        "PostgreSQL 18 or later.",
    ),
]


@app.command()
@connect.options
def install(
    where: Where,
    pg_config: PgConfig_ = None,
    folder: Folder = None,
    preload: Annotated[
        bool,
        typer.Option("--preload", help="Enable vectorized execution in every new session of the database."),
    ] = False,
) -> None:
    """Install the extensions' files into the server, and create both extensions in the database.

    The server must run on this machine. Libraries that came with this program are used if they fit the server;
    otherwise the extensions are compiled. With --pg-config, only the files are installed, and no connection is made.

    Example: pgbillion extension install -d mydb --preload
    """
    if pg_config is not None:
        _refuse_both(where, folder is not None or preload)
        facts = _facts(pg_config)
        _put(facts, Folders.of(facts), _again("install", facts=facts, as_root=True), None)
        statements = " ".join(f"CREATE EXTENSION {name};" for name in ALL)
        print(f"then, as a superuser, in each database that is to have them: {statements}")
        return
    target = where.target()
    with target.connect() as conn:
        facts = deploy.facts_of(conn)
        deploy.check_major(facts, SUPPORTED_MAJORS)
        deploy.check_superuser(conn)
        deploy.check_database(conn)
        if folder is not None:
            folder = folder.expanduser().absolute()
            deploy.check_outside(conn, facts, folder)
        folders = deploy.outside_folders(folder) if folder else deploy.folders_of(conn, facts)
        _put(facts, folders, _again("install", facts=facts, as_root=True), _outside(facts, folder, preload))
        if folder is not None:
            deploy.look_outside(target, conn, folder)
    # of a session that has not loaded anything before
    with target.connect() as conn:
        made = deploy.create(conn)
        print(f"database {conn.info.dbname}: {' and '.join(made) if made else 'both extensions'}", end="")
        print(" created" if made else " are there")
        if preload and deploy.preload(conn):
            print(f"new sessions of database {conn.info.dbname} load {ROWS}")


@app.command()
@connect.options
def status(where: Where, pg_config: PgConfig_ = None, as_json: Json = False) -> None:
    """Show the versions of program, files, libraries and SQL objects, and what there is to do.

    Example: pgbillion extension status -d mydb
    """
    target = None
    if pg_config is not None:
        _refuse_both(where, False)
        facts = _facts(pg_config)
        found = deploy.report(facts, Folders.of(facts))
    else:
        target = where.target()
        with target.connect() as conn:
            found = deploy.report_server(target, conn)
    steps = [_step(step, target, pg_config) for step in deploy.to_do(found)]
    if as_json:
        print(json.dumps({**asdict(found), "to_do": steps}, indent=1))
        return
    lines = [("program", found.program), ("server", f"PostgreSQL {found.server}"), ("folder", found.pkglibdir)]
    lines += [(name, _files(found, name)) for name in ALL]
    lines.append(("to install", "without a compiler" if found.prebuilt else f"compiled: {found.compiled_because}"))
    lines += [(f"in {database.name}", _database(database)) for database in found.databases]
    lines += [("to do", step) for step in steps or ["nothing"]]
    width = max(len(name) for name, _ in lines) + 2
    for name, value in lines:
        print(f"{name:<{width}}{value}")


@app.command()
@connect.options
def upgrade(where: Where, pg_config: PgConfig_ = None) -> None:
    """Replace the files in the server by this program's version, and update every database that has the extensions.

    With --pg-config, only the files are replaced.

    Example: pgbillion extension upgrade -d mydb
    """
    if pg_config is not None:
        _refuse_both(where, False)
        facts = _facts(pg_config)
        _put(facts, Folders.of(facts), _again("upgrade", facts=facts, as_root=True), None)
        print("then, in each database that has them: ALTER EXTENSION … UPDATE, for both")
        return
    target = where.target()
    with target.connect() as conn:
        facts = deploy.facts_of(conn)
        deploy.check_major(facts, SUPPORTED_MAJORS)
        deploy.check_superuser(conn)
        folders = deploy.folders_of(conn, facts)
        if not files.present(folders):
            raise UserError("the extensions are not installed there", _step(deploy.INSTALL, target, None))
        _put(facts, folders, _again("upgrade", facts=facts, as_root=True), None)
        for database, names in deploy.update(target, conn).items():
            print(f"database {database}: {' and '.join(names)} updated to {paths.version()}")
    with target.connect() as conn:
        left = deploy.to_do(deploy.report_server(target, conn))
    print("open sessions keep the library that they have loaded until they end")
    for step in left:
        print(f"note: {_step(step, target, None)}", file=sys.stderr)


@app.command()
@connect.options
def uninstall(
    where: Where,
    pg_config: PgConfig_ = None,
    yes: Yes = False,
    force: Annotated[
        bool, typer.Option("--force", help="Remove the files even if other servers of the installation use them.")
    ] = False,
) -> None:
    """Drop the extensions from the database, and remove their files if nothing else uses them.

    The files are kept if other databases have the extensions, or if other servers of the same installation use them.
    Servers running on this machine are queried; one that cannot be queried is assumed to use them. With --pg-config,
    only the files are removed.

    Example: pgbillion extension uninstall -d mydb
    """
    said = (*(("--force",) if force else ()), *(("--yes",) if yes else ()))
    forced = ("--force", *(("--yes",) if yes else ()))
    if pg_config is not None:
        _refuse_both(where, False)
        facts = _facts(pg_config)
        folders = Folders.of(facts)
        deploy.check_writable(folders, _again("uninstall", *said, facts=facts, as_root=True), None)
        users = [] if force else neighbours.using(facts, folders, _known(where))
        if users:
            raise UserError(
                f"the files are in use by {_shown(users)}",
                f"uninstall the extensions there first; or remove the files all the same: "
                f"{_again('uninstall', *forced, facts=facts)}",
                status=3,
            )
        if files.present(folders):
            _confirm(yes, f"Remove the files from {folders.pkglibdir}? Databases that have the extensions need them.")
        print(f"{text.many(files.remove(folders), 'file')} removed")
        return
    target = where.target()
    with target.connect() as conn:
        facts = deploy.facts_of(conn)
        deploy.check_superuser(conn)
        folders = deploy.folders_of(conn, facts)
        others = deploy.others_with_it(target, conn)
        info = conn.info
        users = (
            []
            if others or force
            else neighbours.using(facts, folders, _known(where), user=info.user, backend=info.backend_pid)
        )
        if not others and not users:
            deploy.check_not_preloaded(conn)
        dropped = deploy.drop(conn)
        unloaded = deploy.preload_no_more(conn)
        if unloaded:
            print(f"new sessions of database {conn.info.dbname} no longer load {' and '.join(unloaded)}")
        print(f"database {conn.info.dbname}: {' and '.join(dropped)} dropped" if dropped else "nothing to drop")
        if others:
            print(
                f"the files stay: {text.many(len(others), 'other database')} have the extensions: {', '.join(others)}"
            )
            return
        if users:
            print(f"the files stay, as others use them: {_shown(users)}")
            if folders == Folders.of(facts):
                print(f"to remove them all the same: {_again('uninstall', *forced, facts=facts)}")
            return
        if files.not_writable(folders) is not None:
            if files.present(folders):
                print(f"the files stay, to be removed by their owner: {_by_owner(conn, facts, folders, said)}")
            return
        if folders != Folders.of(facts):
            deploy.look_outside_no_more(target, conn, folders.sharedir.parent)
        print(f"{text.many(files.remove(folders), 'file')} removed")
        _remove_empty(folders, Folders.of(facts))


def _facts(pg_config: Path) -> PgConfig:
    facts = read_pg_config(pg_config)
    deploy.check_major(facts, SUPPORTED_MAJORS)
    return facts


def _put(facts: PgConfig, folders: Folders, again: str, outside: str | None) -> None:
    """Put the files into folders unless they are there and cannot be replaced; check that first."""
    deploy.check_newer(folders)
    # what would have to be compiled again is as it is there
    if deploy.is_there(facts, folders) and (
        files.not_writable(folders) is not None or files.why_not_prebuilt(facts) is not None
    ):
        print(f"files of version {paths.version()} are in {folders.pkglibdir}")
        return
    deploy.check_writable(folders, again, outside)
    how = deploy.put(facts, folders, say)
    print(f"files of version {paths.version()} ({how}) put into {folders.pkglibdir} and {folders.extension}")


def _remove_empty(folders: Folders, own: Folders) -> None:
    home = folders.sharedir.parent
    if folders != own and home.is_dir() and not any(home.iterdir()):
        home.rmdir()


def _refuse_both(where: Where, more: bool) -> None:
    if more or any(value is not None for value in where.server.values()):
        raise UserError(
            "--pg-config is for files alone, and takes no server, --folder or --preload",
            "leave --pg-config out to work on a running server",
        )


def _known(where: Where) -> Iterator[Cluster]:
    """Give the clusters of the state folder, which may be stopped."""
    state = where.state
    for folder in (state, *(state / embedded.KEPT).glob("*")):
        cluster = embedded.find(folder)
        if cluster is not None:
            yield cluster
        for made in record.all_sets(folder):
            yield from made.clusters(folder)


def _shown(users: Sequence[Neighbour]) -> str:
    more = f" and {text.many(len(users) - _SHOWN, 'other server')}" if len(users) > _SHOWN else ""
    return "; ".join(map(str, users[:_SHOWN])) + more


def _again(word: str, *more: str, facts: PgConfig, as_root: bool = False) -> str:
    return invocation.command("extension", word, *more, "--pg-config", str(facts.pg_config), as_root=as_root)


def _by_owner(conn: Connection, facts: PgConfig, folders: Folders, said: Sequence[str]) -> str:
    """Return the command that removes the files, which only the server knows to be in a folder outside its own."""
    if folders == Folders.of(facts):
        return _again("uninstall", *said, facts=facts, as_root=True)
    return invocation.command("extension", "uninstall", *said, *extension.options_of(conn), as_root=True)


def _outside(facts: PgConfig, folder: Path | None, preload: bool = False) -> str | None:
    """Return the command that does without the server's own folders, where there is one."""
    if folder is not None or facts.major < deploy.OUTSIDE_SINCE:
        return None
    return invocation.command("extension", "install", "--folder", "FOLDER", *(("--preload",) if preload else ()))


def _step(step: str, target: Target | None, pg_config: Path | None) -> str:
    if step not in (deploy.INSTALL, deploy.UPGRADE):
        return step
    where = [] if pg_config is None else ["--pg-config", str(pg_config)]
    return invocation.command("extension", step, *where)


def _files(found: Report, name: str) -> str:
    if found.files[name] is None and found.libraries[name] is None:
        return "not installed"
    library = found.libraries[name]
    built = f"library {library}, for PostgreSQL {found.built_for[name]} or later" if library else "no library"
    return f"{found.files[name] or 'no control file'} ({built})"


def _database(database: InDatabase) -> str:
    if not database.objects:
        return "neither"
    parts = [
        f"{name} {version}" + ("" if database.loaded[name] == version else f" (library {database.loaded[name]} loaded)")
        for name, version in database.objects.items()
    ]
    if ROWS in database.objects:
        parts.append("sessions use vectors" if database.preloads else f"sessions use vectors after LOAD '{ROWS}'")
    return ", ".join(parts)


def _confirm(yes: bool, question: str) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError("not removing files without being told to", "say --yes")
    typer.confirm(question, abort=True, err=True)
