"""All data to disk, in the order that makes it true."""

from __future__ import annotations

import shlex
from pathlib import Path

import psycopg
from psycopg import sql

from pgbillion.common import invocation
from pgbillion.common import sql as queries
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem, Host
from pgbillion.durability.session import Session

# file systems that are gone with the machine
VOLATILE = ("tmpfs", "ramfs", "devtmpfs")


def force(session: Session) -> None:
    """Have everything the server wrote on disk. fsync and full_page_writes must be on for every process of it.

    The first checkpoint hands what is in shared buffers to the kernel and fsyncs what was written since fsync is on.
    What was written before is known to the kernel only, so every file system is synchronized. The second moves the
    place recovery starts at, and with it pg_control, to after all that.
    """
    session.statement(sql.SQL("CHECKPOINT"))
    synchronize(session)
    session.statement(sql.SQL("CHECKPOINT"))


def synchronize(session: Session) -> None:
    """Write back the file systems of all data. The server does it, which may, wherever it runs."""
    # no rows: the program reads none, and may be gone before they are written
    command = "sync -f " + " ".join(shlex.quote(folder) for folder in places(session))
    try:
        session.statement(sql.SQL("COPY (SELECT WHERE false) TO PROGRAM {}").format(sql.Literal(command)))
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        raise UserError(
            f"the file systems of the data could not be synchronized: {error.diag.message_primary}"
            + (f" ({error.diag.message_detail})" if error.diag.message_detail else ""),
            f"nothing is durable yet; look after the disk, then: {invocation.command('durability', 'restore')}",
        ) from error


def places(session: Session) -> list[str]:
    """Return the folders that hold data, as the server sees them."""
    return [folder for (folder,) in session.conn.execute(queries.load("durability", "places").encode())]


def volatile_places(session: Session) -> list[str]:
    """Return those that are gone with the machine, as far as we are on it and can see them."""
    host = Host.of(session.conn)
    if host is None:
        return []
    kinds = {folder: _kind(host, folder) for folder in places(session)}
    return [folder for folder, kind in kinds.items() if kind in VOLATILE]


def _kind(host: Host, folder: str) -> str | None:
    system: FileSystem | None = host.filesystem(Path(folder))
    return system.kind if system else None
