"""Tablespaces: those a plan names are made where they are missing, existing ones are used as they are."""

from __future__ import annotations

import contextlib
import os
import pwd
import shlex
from collections.abc import Sequence
from pathlib import Path

import psutil
import psycopg

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.quoting import literal, quote


def missing(conn: Connection, names: Sequence[str]) -> list[str]:
    """Return those of the names that are no tablespaces yet, in order."""
    known = {row[0] for row in conn.execute("SELECT spcname FROM pg_tablespace")}
    return [name for name in names if name not in known]


def check_folders(conn: Connection, names: Sequence[str], folders: Sequence[Path]) -> None:
    """Raise UserError when tablespaces have to be made and nobody said where."""
    absent = missing(conn, names)
    if absent and not folders:
        raise UserError(
            f"tablespaces {absent[0]}{' …' if len(absent) > 1 else ''} do not exist",
            "say in which directory of the server to make them with --tablespace-dir",
        )
    for folder in folders:
        if not folder.is_absolute():
            raise UserError(f"--tablespace-dir {folder} is not an absolute path")


def create(conn: Connection, names: Sequence[str], folders: Sequence[Path], host: Host | None) -> int:
    """Make the tablespaces that are missing, spread over the folders in turn; return how many.

    For a server on this machine their folders are made too, owned by the server's user. Raises UserError when that is
    not in our power, and when the server refuses.
    """
    absent = set(missing(conn, names))
    for index, name in enumerate(names):
        if name not in absent:
            continue
        folder = folders[index % len(folders)] / name
        if host is not None:
            _make_folder(folder, _server_user(conn))
        try:
            conn.execute(f"CREATE TABLESPACE {quote(name)} LOCATION {literal(str(folder))}".encode())
        except psycopg.errors.DuplicateObject:
            continue  # somebody else made it meanwhile
        except psycopg.Error as error:
            reason = error.diag.message_primary or str(error)
            raise UserError(f"tablespace {name} cannot be made: {reason}", _hint(error, folder), status=3) from error
    return len(absent)


def _hint(error: psycopg.Error, folder: Path) -> str:
    if isinstance(error, psycopg.errors.InsufficientPrivilege) and "superuser" in str(error.diag.message_hint):
        return "only a superuser makes tablespaces: connect as one, or let one make them, with CREATE on them for you"
    return f"the directory must exist on the server's machine, be empty, and be owned by the server's user: {folder}"


def _server_user(conn: Connection) -> pwd.struct_passwd | None:
    """Return the owner of the server's processes; None when that user has no name here."""
    with contextlib.suppress(psutil.Error, KeyError):
        return pwd.getpwuid(psutil.Process(conn.info.backend_pid).uids().real)
    return None


def _make_folder(folder: Path, owner: pwd.struct_passwd | None) -> None:
    """Make a tablespace's folder and its parents, owned by the server's user; leave one that exists as it is."""
    me = os.geteuid()
    try:
        if folder.exists():
            return
        if owner is None or me not in (0, owner.pw_uid):
            user = owner.pw_name if owner else "postgres"
            raise UserError(
                f"the server runs as {user}, for whom this user cannot make the directory {folder}",
                f"make the directories first (sudo install -d -m 700 -o {user} {shlex.quote(str(folder))} …), or run"
                f" this command as {user}",
            )
        for parent in reversed(folder.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                parent.chmod(0o755)
        folder.mkdir(mode=0o700)
        if me == 0:
            os.chown(folder, owner.pw_uid, owner.pw_gid)
    except OSError as error:
        raise UserError(f"the tablespace's directory {folder} cannot be made: {error.strerror}") from error
