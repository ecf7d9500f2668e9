"""Tables that are loaded under another name and take their own in one transaction when they are complete.

Until then a table that is to be replaced stays as it is. A load that is killed leaves a table whose comment records
what it was for: the next load of the same table continues it or drops it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load

Make = Callable[[sql.Identifier], None]

_MARK = "being loaded by pgbillion rows load: "
_LONGEST_NAME = 63  # bytes
# what `name` adds and the number of a partition leave this
_PREFIX_BYTES = 40


def name(table: str) -> str:
    """Return a name under which a table can be loaded."""
    return f"{_cut(table, _PREFIX_BYTES)}_loading_{secrets.token_hex(4)}"


def not_null(table: str) -> sql.Identifier:
    """Return the name of the constraint of the column id that PostgreSQL chooses, from 18 on, for a table ``table``."""
    suffix = "_id_not_null"
    return sql.Identifier(_cut(table, _LONGEST_NAME - len(suffix)) + suffix)


def _cut(table: str, size: int) -> str:
    return table.encode()[:size].decode(errors="ignore")


def comment(table: str, plan: str = "") -> sql.Literal:
    """Return the comment of a table that will get the name ``table``; ``plan`` is for the load that continues it."""
    return sql.Literal(_MARK + json.dumps({"table": table, "plan": plan}))


@contextlib.contextmanager
def alone(conn: Connection, schema: str, table: str) -> Iterator[None]:
    """Be the only load that makes a table. Raises UserError while another one runs."""
    key = f"pgbillion rows load {sql.Identifier(schema, table).as_string(conn)}"
    row = conn.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone()
    if not (row and row[0]):
        raise UserError(
            f'another load of the table "{table}" is running',
            "wait for it to end, or give another name with --table",
            status=3,
        )
    try:
        yield
    finally:
        # a lost session has lost its locks, too
        with contextlib.suppress(psycopg.Error):
            conn.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])


def left(conn: Connection, schema: str, table: str) -> dict[str, str]:
    """Return what earlier loads of a table have left behind: the names of tables, and their plans."""
    rows = conn.execute(
        # of the role's own, because others may write what they like into their comments
        "SELECT relname, obj_description(c.oid, 'pg_class') FROM pg_class c"
        " WHERE relnamespace = to_regnamespace(%s) AND relkind IN ('r', 'p')"
        " AND relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
        " AND relname ~ '_loading_[0-9a-f]{8}$' ORDER BY 1",
        [sql.Identifier(schema).as_string(conn)],
    ).fetchall()
    found: dict[str, str] = {}
    for relation, text in rows:
        if text is None or not text.startswith(_MARK):
            continue
        with contextlib.suppress(ValueError, TypeError, KeyError):
            values = json.loads(text.removeprefix(_MARK))
            if values["table"] == table:
                found[relation] = str(values["plan"])
    return found


def check(
    conn: Connection, schema: str, table: str, make: Make, *, replace: bool, partitions: Sequence[str] = ()
) -> None:
    """Find out whether a table could be made now, with ``replace`` in place of the old one; nothing is changed.

    ``make`` makes an empty one, and ``partitions`` are the names that its partitions will have. Raises UserError for a
    name that is taken, and for objects that depend on the old table.
    """
    with conn.transaction(force_rollback=True):
        _names_of_new(conn, schema, table, make, replace=replace, partitions=partitions)


def put_in_place(
    conn: Connection,
    schema: str,
    beside: str,
    table: str,
    make: Make,
    *,
    replace: bool,
    partitions: Sequence[tuple[str, str]] = (),
    comment: str | None = None,
) -> None:
    """Give a table its own name, with ``replace`` in place of the old one, or raise as `check` does.

    Its index and sequence get the names that PostgreSQL chooses for what ``make`` makes. ``partitions``
    are names that they have and names that they get.
    """
    with conn.transaction():
        names = [final for _, final in partitions]
        wanted = _names_of_new(conn, schema, table, make, replace=replace, partitions=names)
        conn.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, table)))
        for (kind, has), (_, gets) in zip(_names(conn, sql.Identifier(schema, beside)), wanted, strict=True):
            what = sql.SQL("{} {}").format(sql.SQL(kind), sql.Identifier(schema, has))
            conn.execute(sql.SQL("ALTER {} RENAME TO {}").format(what, sql.Identifier(gets)))
        for has, gets in [*partitions, (beside, table)]:
            conn.execute(
                sql.SQL("ALTER TABLE {} RENAME TO {}").format(sql.Identifier(schema, has), sql.Identifier(gets))
            )
        conn.execute(
            sql.SQL("COMMENT ON TABLE {} IS {}").format(
                sql.Identifier(schema, table), sql.SQL("NULL") if comment is None else sql.Literal(comment)
            )
        )


def _names_of_new(
    conn: Connection, schema: str, table: str, make: Make, *, replace: bool, partitions: Sequence[str]
) -> list[tuple[str, str]]:
    """Drop the old table and make an empty one, and return the names of its parts."""
    new = sql.Identifier(schema, table)
    if replace:
        try:
            conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(new))
        except psycopg.errors.DependentObjectsStillExist as error:
            raise UserError(
                f'the table "{table}" cannot be replaced: {error.diag.message_detail}',
                "drop what depends on it first, or give another name with --table",
                status=3,
            ) from error
    row = conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relname = ANY (%s) ORDER BY 1",
        [sql.Identifier(schema).as_string(conn), [table, *partitions]],
    ).fetchone()
    if row is not None:
        what = "or --replace it" if row[0] == table else "or drop it"
        raise UserError(f'a table "{row[0]}" exists already', f"give another name with --table, {what}")
    make(new)
    return _names(conn, new)


def _names(conn: Connection, table: sql.Identifier) -> list[tuple[str, str]]:
    """Return the kinds and names of a table's index and sequence."""
    rows = conn.execute(load("rows", "part_names").encode(), {"table": table.as_string(conn)}).fetchall()
    return [(kind, name) for kind, name in rows]
