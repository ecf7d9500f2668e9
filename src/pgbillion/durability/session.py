"""One conversation with a server that is reconfigured and started anew meanwhile: statements, steps, settings.

All that changes anything goes through `Session.statement` and `Session.step`, which say what they do, and in a dry run
do no more than that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import invocation, search_path
from pgbillion.common import sql as queries
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.durability.record import MARK, Record

Say = Callable[[str], None]
_POLL_SECONDS = 0.02
_RELOAD_SECONDS = 30.0
# between a session's look at new settings and the start of its next command; see wait_for_all
_MARGIN_SECONDS = 1.0


@dataclass(frozen=True)
class Current:
    """A setting: what the server works with, from where, and its line in postgresql.auto.conf, if any."""

    value: str
    source: str
    pending: bool
    auto_conf: str | None


@dataclass
class Session:
    """A superuser's connection, made anew whenever it is needed and not there.

    ``say`` hears of every step. ``dry``: nothing is done, and ``planned`` has what would be.
    """

    target: Target
    say: Say
    dry: bool = False
    planned: list[str] = field(default_factory=list)
    _conn: Connection | None = None

    @property
    def conn(self) -> Connection:
        """The connection, in autocommit mode."""
        if self._conn is None or self._conn.closed:
            self._conn = self._connect()
        return self._conn

    def close(self) -> None:
        """Close the connection; the next use makes another."""
        if self._conn is not None:
            self._conn.close()
        self._conn = None

    def one(self, query: str, *parameters: object) -> Any:
        """Return the only column of the only row."""
        row = self.conn.execute(query.encode(), parameters or None).fetchone()
        return row[0] if row else None

    def statement(self, statement: sql.SQL | sql.Composed, shown: str | None = None) -> None:
        """Execute a statement that changes something; ``shown`` is said of it, unless in a dry run."""
        text = statement.as_string(None) if self.dry or shown is None else shown
        self._announce(f"{text};")
        if not self.dry:
            self.conn.execute(statement)

    def step(self, text: str, action: Callable[[], object]) -> None:
        """Do something outside SQL."""
        self._announce(text)
        if not self.dry:
            action()

    def alter(self, name: str, value: str | None) -> None:
        """Set a setting in postgresql.auto.conf, or remove its line."""
        # known as a name with a dot is, ours may be altered; up to 15 the session has to know it
        if name == MARK and not self.dry:
            self.conn.execute(sql.SQL("SET {} = ''").format(sql.Identifier(*MARK.split("."))))
        identifier = sql.Identifier(*name.split("."))
        if value is None:
            self.statement(sql.SQL("ALTER SYSTEM RESET {}").format(identifier))
        else:
            statement = sql.SQL("ALTER SYSTEM SET {} = {}").format(identifier, sql.Literal(value))
            self.statement(statement, shown=f"ALTER SYSTEM SET {name} = '…'" if name == MARK else None)

    def reload(self) -> None:
        """Have the server read its files, and return when the postmaster has, and has told all others to.

        Raises UserError when it does not take them.
        """
        loaded = None if self.dry else self._fresh("SELECT pg_conf_load_time()")
        self.statement(sql.SQL("SELECT pg_reload_conf()"))
        if self.dry:
            return
        deadline = time.monotonic() + _RELOAD_SECONDS
        # a new session has what the postmaster has
        while self._fresh("SELECT pg_conf_load_time()") <= loaded:
            if time.monotonic() > deadline:
                raise UserError(
                    "the server does not take its new settings", "its log says why; see also the view pg_file_settings"
                )
            time.sleep(_POLL_SECONDS)

    def wait_for_all(self, seconds: float) -> None:
        """Wait until nobody works with settings from before the last `reload`.

        A session that is in a command keeps the old ones to its end. With fsync off it not only commits without a
        flush: others then take the WAL it wrote for flushed. So nothing is durable before the last of them is done.
        """
        self._announce("-- wait for commands that began before")
        if self.dry:
            return
        time.sleep(_MARGIN_SECONDS)
        since = self.one("SELECT clock_timestamp()")
        deadline = time.monotonic() + seconds
        told = False
        while busy := self.conn.execute(queries.load("durability", "busy").encode(), {"since": since}).fetchall():
            pids = ", ".join(str(pid) for (pid,) in busy)
            if time.monotonic() > deadline:
                raise UserError(
                    f"nothing can be called durable while a command begun under the old settings goes on (pid {pids})",
                    "wait for it or end it (SELECT pg_terminate_backend(…)), then: "
                    + invocation.command("durability", "restore"),
                )
            if not told:
                self.say(f"waiting for a command begun under the old settings (pid {pids})")
                told = True
            time.sleep(0.1)

    def settings(self, names: Iterable[str]) -> dict[str, Current]:
        """Return what the server itself has for some settings, whatever this session's role or database has."""
        self.close()  # a new session has what the postmaster has
        found = {}
        rows = self.conn.execute(queries.load("durability", "settings").encode(), [list(names)]).fetchall()
        for name, value, source, pending, own, default, in_files, in_auto_conf in rows:
            if own:
                value = default if in_files is None else self.canonical(name, in_files)
                source = "default" if in_files is None else "configuration file"
            found[name] = Current(value, source, pending, in_auto_conf)
        return found

    def canonical(self, name: str, value: str) -> str:
        """Return a value in the spelling of the server; the setting is one that a session may set."""
        return str(self.one("SELECT set_config(%s, %s, true)", name, value))

    def record(self) -> Record | None:
        """Return the record in the server's files, which may not be loaded yet."""
        found = self.settings_in_auto_conf(MARK)
        return Record.loads(found) if found else None

    def settings_in_auto_conf(self, name: str) -> str | None:
        """Return the value in postgresql.auto.conf of a setting, also of one the server does not know."""
        value = self.one(
            "SELECT setting FROM pg_file_settings WHERE name = %s AND sourcefile = current_setting('data_directory')"
            " || '/postgresql.auto.conf' ORDER BY seqno DESC LIMIT 1",
            name,
        )
        return None if value is None else str(value)

    def _fresh(self, query: str) -> Any:
        self.close()
        return self.one(query)

    def _connect(self) -> Connection:
        conn = search_path.pin(psycopg.connect(self.target.conninfo, autocommit=True, client_encoding="utf8"))
        # CHECKPOINT may take long
        conn.execute("SET statement_timeout = 0")
        return conn

    def _announce(self, text: str) -> None:
        if self.dry:
            self.planned.append(text)
        else:
            self.say(text)


@contextmanager
def session(target: Target, say: Say, *, dry: bool = False) -> Iterator[Session]:
    """Give a session and close it."""
    opened = Session(target, say, dry)
    try:
        yield opened
    finally:
        opened.close()
