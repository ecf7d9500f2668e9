"""What every command says of a server whose durability window is open: the hook in the connect path."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.common import invocation
from pgbillion.common.errors import UserError
from pgbillion.durability.profiles import RISKS, WAL_DIR_RISK, Profile
from pgbillion.durability.record import MARK, Record, read_mark

# windows this process has told of, or opened itself
_known: set[str] = set()


def warn(conn: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Say on stderr, once a process, that the server is relaxed. Leaves the connection as it was."""
    row = conn.execute("SELECT current_setting(%s, true)", [MARK]).fetchone()
    if not conn.autocommit:
        conn.rollback()
    if not row or not row[0]:
        return
    try:
        record = Record.loads(row[0])
    except UserError as error:
        print(f"warning: {error.message}", file=sys.stderr)
        return
    if record.id not in _known:
        _known.add(record.id)
        print(text(record), file=sys.stderr, flush=True)


def warn_of(data: Path, *there: str) -> None:
    """Say on stderr that the server of a data directory is relaxed, running or not; options ``there`` reach it."""
    with contextlib.suppress(OSError, UserError):
        record = read_mark(data)
        if record is not None:
            print(text(record, *there), file=sys.stderr, flush=True)


def mute(record: Record) -> None:
    """Say nothing of this window: it is the command's own."""
    _known.add(record.id)


def text(record: Record, *there: str) -> str:
    """Return the one line about a window, whose server options reach if nothing that the user has given does."""
    if record.distrust is not None:
        return (
            f"warning: the data of this server cannot be trusted: {record.distrust}; "
            f"loaded anew or checked? {invocation.command('durability', 'restore', '--trust', *there)}"
        )
    end = f"the server's own settings come back with: {invocation.command('durability', 'restore', *there)}"
    if record.profile is Profile.FULL:
        window = f"a durability window is open (profile full, since {record.since})"
        if not record.machine:
            return f"note: {window}; {end}"
        volatile = record.wal is not None and record.wal.volatile
        risk = WAL_DIR_RISK if volatile else "what was written before it may not be on disk yet"
        return f"warning: {window}: {risk}; {end}"
    window = f"profile {record.profile}, since {record.since}"
    return f"warning: this server is relaxed ({window}): {RISKS[record.profile]}; {end}"
