"""Whose names our sessions mean: pg_catalog's alone, except where the user's own are wanted.

A session begins with the search_path of its server, database and role, and in its schemas anybody may have created a
function or an operator that fits a call better than pg_catalog's own. That would run with the rights of the user who
runs our command. So `pin` empties the path before anything else is sent; by a statement, because connection poolers
refuse it as an option. What the user names (a table without its schema, a query, columns) is looked up, or run, within
`restored`, where our own SQL must qualify all names, those of operators and types too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from psycopg import sql
from psycopg.pq import TransactionStatus

from pgbillion.common.connection import Connection
from pgbillion.common.sql import load

# The order counts: the subquery, which is not pulled up, is read before the path is set.
_PIN = (
    "SELECT s.path, pg_catalog.set_config('search_path', '', false)"
    " FROM (SELECT pg_catalog.current_setting('search_path') AS path OFFSET 0) AS s"
)
# what the session would have had
_users: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()


def pin(conn: Connection) -> Connection:
    """Have every unqualified name be pg_catalog's from now on, and return the connection; it is closed on an error."""
    try:
        if conn.info.encoding == "ascii":
            # in a database of SQL_ASCII text would come as bytes
            conn.pgconn.exec_(b"SET client_encoding TO UTF8")
        row = conn.execute(_PIN).fetchone()
        assert row is not None
        if not conn.autocommit:
            # a rollback would bring the path back
            conn.commit()
        _users[conn] = row[0]
    except BaseException:
        conn.close()
        raise
    return conn


def prefer(conn: Connection, schema: str) -> None:
    """Have the user's path begin with a schema."""
    _users[conn] = ", ".join(filter(None, (sql.Identifier(schema).as_string(None), _users[conn])))


@contextlib.contextmanager
def restored(conn: Connection) -> Iterator[None]:
    """Give the session the path it would have had; one that was never pinned has it anyhow."""
    path = _users.get(conn)
    if path is None:
        yield
        return
    _set(conn, path)
    try:
        yield
    finally:
        # a failed transaction takes the path back with it
        if conn.info.transaction_status in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
            _set(conn, "")


def _set(conn: Connection, path: str) -> None:
    conn.execute("SELECT pg_catalog.set_config('search_path', %s, false)", [path])


def of_session(conn: Connection) -> str:
    """Return the path that the session would have had."""
    path = _users.get(conn)
    if path is None:
        row = conn.execute("SELECT pg_catalog.current_setting('search_path')").fetchone()
        path = str(row[0]) if row else ""
    return path


def schema(conn: Connection) -> str | None:
    """Return the schema that the user's tables are made in, None without one."""
    with restored(conn):
        row = conn.execute("SELECT pg_catalog.current_schema()").fetchone()
    return None if row is None or row[0] is None else str(row[0])


def relation(conn: Connection, name: str) -> int | None:
    """Return the OID of what the user means by a relation's name, quoted where it must be, None without one.

    Raises psycopg.Error for what is no name.
    """
    with restored(conn):
        row = conn.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid::pg_catalog.int8", [name]).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def qualified(conn: Connection, name: str) -> sql.Identifier | None:
    """Return the qualified name of the table that the user means by its bare name, None without one."""
    oid = relation(conn, sql.Identifier(name).as_string(None))
    row = conn.execute(
        "SELECT nspname, relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = %s::oid",
        [oid],
    ).fetchone()
    return None if row is None else sql.Identifier(*row)


def trusted(conn: Connection, *names: str) -> list[str]:
    """Return those of some schemas in which nobody but superusers and the session's role have, or can make, code."""
    return [name for (name,) in conn.execute(load("common", "trusted_schemas").encode(), [list(names)]).fetchall()]


def trusted_path(conn: Connection) -> tuple[str, list[str]]:
    """Return the part of the user's path that can be trusted, to be set, and the schemas that were left out."""
    with restored(conn):
        row = conn.execute("SELECT pg_catalog.current_schemas(false)").fetchone()
    names: list[str] = list(row[0]) if row else []
    safe = set(trusted(conn, *names))
    path = ", ".join(sql.Identifier(name).as_string(None) for name in names if name in safe)
    return path, [name for name in names if name not in safe]
