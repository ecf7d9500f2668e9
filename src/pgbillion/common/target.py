"""A server and database to talk to."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion.common import search_path

# What looks at every new connection and leaves it as it was; put here by those above, such as durability's warning.
watchers: list[Callable[[psycopg.Connection[tuple[Any, ...]]], None]] = []


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

        What is sent means pg_catalog's names alone, see `search_path`. Each of `watchers` has looked at the connection.
        """
        # what is sent is UTF-8, whatever the database's encoding: the server converts it, or says that it cannot
        options = {"autocommit": True, "client_encoding": "UTF8", **options}
        conn = search_path.pin(psycopg.connect(self.conninfo, **options))
        try:
            for watch in watchers:
                watch(conn)
        except BaseException:
            conn.close()
            raise
        return conn


class _AnyTextLoader(psycopg.adapt.Loader):
    def load(self, data: psycopg.abc.Buffer) -> str:
        return bytes(data).decode("utf-8", "surrogateescape")


class _AnyTextDumper(psycopg.adapt.Dumper):
    def dump(self, obj: str) -> bytes:
        if "\0" in obj:
            raise psycopg.DataError("text cannot contain a zero byte")
        return obj.encode("utf-8", "surrogateescape")


def take_any_name(conn: psycopg.Connection[Any]) -> None:
    """Have bytes that are not UTF-8, which names of a database of SQL_ASCII may have, come and go as surrogates."""
    if conn.info.parameter_status("server_encoding") != "SQL_ASCII":
        return
    conn.pgconn.exec_(b"SET client_encoding TO SQL_ASCII")
    for kind in ("text", "name", "varchar", "bpchar"):
        conn.adapters.register_loader(kind, _AnyTextLoader)
    conn.adapters.register_dumper(str, _AnyTextDumper)
