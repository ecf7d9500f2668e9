"""The journal of columnar indexes: what commands with a state directory have created and dropped, a JSON object a line.

An index carries its own mark, a comment; the journal has what an index that is gone cannot have: how to create it
again, and how often queries had been called when it was dropped.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError

_NAME = "columns.jsonl"
CREATED, DROPPED, KEPT, COUNTED = "created", "dropped", "kept", "counted"


@dataclass(frozen=True)
class Journal:
    """The journal's lines about one database. ``say`` is called with what cannot be read."""

    path: Path
    where: Mapping[str, Any]
    say: Callable[[str], None]

    def check(self) -> None:
        """Raise UserError where nothing can be written: what is not recorded is not done."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append("")
        except OSError as error:
            raise UserError(
                f"the journal {self.path} cannot be written: {error.strerror}",
                "what is created and dropped is recorded there: name another directory with --state-dir",
            ) from error

    def add(self, action: str, **facts: Any) -> None:
        """Write a line, and wait until it is on disk."""
        line = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "action": action, **self.where, **facts}
        self._append(json.dumps(line) + "\n")

    def entries(self, *actions: str) -> Iterator[dict[str, Any]]:
        """Give the entries of some kinds about this database, in the order in which they were written."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(
                f"the journal {self.path} cannot be read: {error.strerror}",
                "run the command as the user who created it, or name another directory with --state-dir",
            ) from error
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            try:
                entry = json.loads(line)
                here = all(entry[name] == self.where[name] for name in ("system_identifier", "database_oid"))
                action = entry["action"]
            except (ValueError, KeyError, TypeError):
                self.say(f"{self.path}, line {number} cannot be read, and is left out")
                continue
            if here and action in actions:
                yield entry

    def _append(self, text: str) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            # a line that a crash has cut ends before the next begins
            if text and end and os.pread(descriptor, 1, end - 1) != b"\n":
                text = "\n" + text
            data = text.encode()
            if os.write(descriptor, data) != len(data):
                raise UserError(f"the journal {self.path} cannot be written: the disk is full", "make room on it")
            os.fsync(descriptor)


def of(conn: Connection, state: Path, say: Callable[[str], None]) -> Journal:
    """Return the journal of a state directory, for the database of a session."""
    row = conn.execute(
        "SELECT datname, oid::int8, current_user, has_function_privilege('pg_control_system()', 'EXECUTE')"
        " FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    # some servers allow that to superusers only; then a database's name and OID must do
    known = conn.execute("SELECT system_identifier::text FROM pg_control_system()").fetchone() if row[3] else None
    system = known[0] if known else f"{conn.info.host}:{conn.info.port}"
    where = {"system_identifier": system, "database": row[0], "database_oid": row[1], "role": row[2]}
    return Journal(state / _NAME, where, say)
