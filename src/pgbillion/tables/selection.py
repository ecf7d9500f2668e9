"""Which of a database's tables: those of a pattern, of a schema, or of a range of numbered names; read page by page.

A page begins after the last name of the one before, so that it costs what it holds, however many tables there are, and
tables that come and go meanwhile move nothing. Names are compared as bytes, as the index on them has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common.errors import UserError
from pgbillion.server import extension
from pgbillion.tables.names import NameFormat

Connection = psycopg.Connection[tuple[Any, ...]]

FIRST_NORMAL_OID = 16384


@dataclass(frozen=True)
class Numbered:
    """The names of numbers first … first+count-1."""

    names: NameFormat
    first: int
    count: int


@dataclass(frozen=True)
class Selection:
    """Tables, ordinary and partitioned ones; without a schema those of all but the system's schemas.

    ``pattern`` is one of LIKE's. ``numbered`` needs a schema, and no pattern. Tables of other sessions' temporary
    schemas are never among them.
    """

    pattern: str | None = None
    schema: str | None = None
    schema_oid: int | None = None
    numbered: Numbered | None = None

    @property
    def prefix(self) -> str:
        """What all names that match begin with."""
        prefix, escaped = "", False
        for character in self.pattern or "":
            if not escaped and character in "%_":
                break
            if not escaped and character == "\\":
                escaped = True
                continue
            prefix, escaped = prefix + character, False
        return prefix

    @property
    def reads_everything(self) -> bool:
        """Tell whether the names that match cannot be found without looking at all the others."""
        return self.pattern is not None and not self.prefix

    def describe(self) -> str:
        """Return the selection for people."""
        where = "" if self.schema is None else f" in schema {self.schema}"
        if self.numbered is not None:
            names, first, count = self.numbered.names, self.numbered.first, self.numbered.count
            return f"{names(first)} … {names(first + count - 1)}{where}"
        return f'like "{self.pattern}"{where}' if self.pattern is not None else where.strip()

    def condition(self) -> sql.Composable:
        """Return what tells the selection's rows of ``pg_class c``, as SQL; system catalogs are not left out."""
        parts: list[sql.Composable] = [sql.SQL("c.relkind IN ('r', 'p')")]
        if self.schema_oid is not None:
            parts.append(sql.SQL("c.relnamespace = {}::oid").format(sql.Literal(self.schema_oid)))
        if self.pattern is not None:
            parts.append(sql.SQL("c.relname LIKE {}").format(sql.Literal(self.pattern)))
        if self.numbered is not None:
            segments = list(self.numbered.names.segments(self.numbered.first, self.numbered.count))
            # in one range of the index, whatever the number of segments
            low = min((segment.low for segment in segments), key=str.encode)
            high = max((segment.high for segment in segments), key=str.encode)
            bounds = sql.SQL("c.relname >= {}::name AND c.relname <= {}::name")
            parts.append(bounds.format(sql.Literal(low), sql.Literal(high)))
            each = [
                sql.SQL("(c.relname >= {}::name AND c.relname <= {}::name AND c.relname ~ {})").format(
                    sql.Literal(segment.low), sql.Literal(segment.high), sql.Literal(segment.pattern)
                )
                for segment in segments
            ]
            parts.append(sql.SQL("({})").format(sql.SQL(" OR ").join(each)))
        return sql.SQL(" AND ").join(parts)

    def page(self, after: str | None, size: int, *, extension: bool) -> sql.Composable:
        """Return a page as an item for FROM.

        Columns: "table", schema_oid, name, owner, tablespace, access_method. The page is longer than ``size`` by the
        tables of other schemas that share its last name.
        """
        if extension and self.numbered is None:
            return sql.SQL("pgbillion_tables.tables({}::text, {}::oid::regnamespace, {}::name, {}::bigint)").format(
                sql.Literal(self.pattern), sql.Literal(self.schema_oid), sql.Literal(after), sql.Literal(size)
            )
        parts = [self.condition()]
        if self.schema_oid is None:
            parts.append(sql.SQL("c.oid >= {}::oid").format(sql.Literal(FIRST_NORMAL_OID)))
        if after is not None:
            parts.append(sql.SQL("c.relname > {}::name").format(sql.Literal(after)))
        return sql.SQL(
            '(SELECT c.oid AS "table", c.relnamespace AS schema_oid, c.relname AS name, c.relowner AS owner,'
            " nullif(c.reltablespace, 0) AS tablespace, nullif(c.relam, 0) AS access_method"
            " FROM pg_catalog.pg_class c WHERE {} ORDER BY c.relname FETCH FIRST {} ROWS WITH TIES)"
        ).format(sql.SQL(" AND ").join(parts), sql.Literal(size))


@dataclass(frozen=True)
class Page:
    """``count`` tables, up to the name ``last``; ``value`` is what was asked about those that are not temporary."""

    count: int
    last: str | None
    value: Any


def select(
    conn: Connection, pattern: str | None = None, schema: str | None = None, numbered: Numbered | None = None
) -> Selection:
    """Return a selection. Raises UserError for a schema that does not exist, or a pattern that is none."""
    oid = None
    if schema is not None:
        row = conn.execute("SELECT oid::bigint FROM pg_namespace WHERE nspname = %s", [schema]).fetchone()
        if row is None:
            raise UserError(f'schema "{schema}" does not exist', "psql's \\dn lists the schemas", status=3)
        oid = int(row[0])
    if pattern is not None:
        if "\0" in pattern:
            raise UserError("a pattern cannot contain a zero byte")
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise UserError(f'pattern "{pattern}" ends with an escape character', "write \\\\ for a backslash")
    return Selection(pattern, schema, oid, numbered)


def has_function(conn: Connection, name: str) -> bool:
    """Tell whether the extension is in this database and this role may, and safely can, call its function."""
    return extension.usable(conn, extension.TABLES, name)


def by_index(conn: Connection) -> None:
    """Keep the planner, in this session, to the index that pages are read from."""
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
        conn.execute(f"SET {setting} = off".encode())


def pages(
    conn: Connection,
    selection: Selection,
    size: int,
    value: sql.Composable,
    *,
    extension: bool,
    after: str | None = None,
    first_size: int | None = None,
) -> Iterator[Page]:
    """Yield the selection page by page; the last one may be empty.

    ``value`` is an aggregate over the page's tables (t), their schemas (n), tablespaces (s) and access methods (a). The
    first page can have a size of its own. Each page is a statement with a snapshot of its own.
    """
    wanted = first_size or size
    while True:
        # outer joins: a schema may have gone since the page was read
        query = sql.SQL(
            'SELECT count(*), max(t.name::text COLLATE "C"), {} FILTER (WHERE NOT pg_is_other_temp_schema(schema_oid))'
            " FROM {} t LEFT JOIN pg_namespace n ON n.oid = t.schema_oid"
            " LEFT JOIN pg_tablespace s ON s.oid = t.tablespace LEFT JOIN pg_am a ON a.oid = t.access_method"
        ).format(value, selection.page(after, wanted, extension=extension))
        row = conn.execute(query, prepare=False).fetchone()
        assert row is not None
        yield Page(*row)
        if row[0] < wanted:
            return
        after, wanted = row[1], size
