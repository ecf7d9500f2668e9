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

from pgbillion.common import patterns
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.server import extension
from pgbillion.tables.names import NameFormat

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

    ``name`` is the pattern for names, None for all; ``schema_oids`` are of the schemas that a pattern matches, where
    that is not one. ``numbered`` needs a schema, and no pattern. Tables of other sessions' temporary schemas are never
    among them.
    """

    name: patterns.Name | None = None
    schema: str | None = None
    schema_oid: int | None = None
    schema_oids: tuple[int, ...] | None = None
    numbered: Numbered | None = None

    @property
    def reads_everything(self) -> bool:
        """Tell whether the names that match cannot be found without looking at all the others."""
        return self.name is not None and not self.name.prefix

    def by_function(self, *, extension: bool) -> bool:
        """Tell whether pages come from the extension's function, if it is there."""
        return extension and self.numbered is None and self.schema_oids is None

    def condition(self) -> sql.Composable:
        """Return what tells the selection's rows of ``pg_class c``, as SQL; system catalogs are not left out."""
        parts: list[sql.Composable] = [sql.SQL("c.relkind IN ('r', 'p')")]
        if self.schema_oid is not None:
            parts.append(sql.SQL("c.relnamespace = {}::oid").format(sql.Literal(self.schema_oid)))
        if self.schema_oids is not None:
            parts.append(sql.SQL("c.relnamespace = ANY ({}::oid[])").format(sql.Literal(list(self.schema_oids))))
        if self.name is not None:
            matches = sql.SQL('c.relname ~ {}::text COLLATE pg_catalog."default"')
            parts.append(matches.format(sql.Literal(self.name.regex)))
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
        if self.by_function(extension=extension):
            return sql.SQL("pgbillion_tables.tables({}::text, {}::oid::regnamespace, {}::name, {}::bigint)").format(
                sql.Literal(None if self.name is None else self.name.regex),
                sql.Literal(self.schema_oid),
                sql.Literal(after),
                sql.Literal(size),
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
    if pattern is None:
        return Selection(None, schema, _schema(conn, schema), None, numbered)
    *outer, name = patterns.parse(pattern, most=3)
    if len(outer) == 2 and outer[0].literal != conn.info.dbname:
        raise UserError(f"cross-database references are not implemented: {pattern}", "connect to that database with -d")
    oids: tuple[int, ...] | None = None
    try:
        # what is no regular expression is refused here, in our own words
        conn.execute("SELECT ''::text ~ %s::text", [name.regex])
        if outer:
            if schema is not None:
                raise UserError("the schema is given twice: by --schema, and in the pattern", "leave out one of them")
            schema = outer[-1].literal
            if schema is None and not outer[-1].anything:
                oids = _schemas(conn, outer[-1])
    except psycopg.errors.InvalidRegularExpression as error:
        raise UserError(f'pattern "{pattern}": {error.diag.message_primary}', patterns.QUOTES, 3) from None
    return Selection(None if name.anything else name, schema, _schema(conn, schema), oids, numbered)


def _schema(conn: Connection, schema: str | None) -> int | None:
    """Return a schema's OID. Raises UserError if there is none of that name."""
    oid = None
    if schema is not None:
        row = conn.execute("SELECT oid::bigint FROM pg_namespace WHERE nspname = %s", [schema]).fetchone()
        if row is None:
            raise UserError(f'schema "{schema}" does not exist', "psql's \\dn lists the schemas", status=3)
        oid = int(row[0])
    return oid


def _schemas(conn: Connection, wanted: patterns.Name) -> tuple[int, ...]:
    """Return the OIDs of the schemas that match, the system's left out."""
    rows = conn.execute(
        'SELECT oid::bigint FROM pg_namespace WHERE nspname ~ %s::text COLLATE pg_catalog."default"'
        " AND nspname !~ '^pg_' AND nspname <> 'information_schema'",
        [wanted.regex],
    )
    return tuple(oid for (oid,) in rows)


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
