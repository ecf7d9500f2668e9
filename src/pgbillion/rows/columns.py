"""Columnar indexes: which there are, made, brought up to date, and shown."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from pgbillion.common import invocation, search_path, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import literal, quoted
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.report.chapter import Chapter
from pgbillion.server import extension

# columns of one index: PostgreSQL's limit, and the extension's
MOST_COLUMNS = 32
_NAME_BYTES = 63
_DROP_SECONDS = 10


@dataclass(frozen=True)
class Index:
    """A columnar index that is there. ``root`` is the table, or the partitioned table that it is a partition of.

    ``partitioned``: it is the index of a partitioned table, and has no pages; ``part``: it belongs to such a one.
    ``columns`` has expressions, too, in parentheses.
    """

    oid: int
    table: int
    schema: str
    name: str
    table_schema: str
    table_name: str
    root: int
    valid: bool
    partitioned: bool
    part: bool
    columns: Sequence[str]
    bytes: int

    @property
    def identifier(self) -> str:
        """The name, qualified and quoted."""
        return quoted(self.schema, self.name)

    @property
    def drop(self) -> str:
        """The command that removes it."""
        how = "" if self.partitioned else "CONCURRENTLY "
        return f"DROP INDEX {how}{self.identifier}"


@dataclass(frozen=True)
class Status:
    """What an index covers of its table. ``advice`` is what to do about it, empty when all is well."""

    index: str
    table: str
    columns: Sequence[str]
    advice: str
    valid: bool
    table_blocks: int
    encoded_blocks: int
    stale_blocks: int
    readable_blocks: int
    # None: this role may not count them
    rows: int | None
    index_bytes: int
    table_bytes: int
    # scans since the statistics were reset
    reads: int

    @property
    def readable_share(self) -> float:
        """The share of the table's blocks that is read from the index."""
        return self.readable_blocks / self.table_blocks if self.table_blocks else 0.0

    @property
    def bytes_share(self) -> float:
        """The index's bytes per byte of the table."""
        return self.index_bytes / self.table_bytes if self.table_bytes else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        shares = {"readable_share": round(self.readable_share, 4), "bytes_share": round(self.bytes_share, 4)}
        return {**asdict(self), **shares}


@dataclass(frozen=True)
class Made:
    """An index that was made, or a table that was brought up to date, and the seconds it took."""

    name: str
    seconds: float


@contextlib.contextmanager
def session(target: Target) -> Iterator[Connection]:
    """Give a session in a database that has the extension, with its library loaded."""
    with target.connect() as conn:
        extension.ensure_extension(conn, extension.ROWS)
        conn.prepare_threshold = None
        yield conn


def indexes(conn: Connection, tables: Sequence[int] | None = None) -> list[Index]:
    """Return the columnar indexes of some tables and of their partitions, or of all tables."""
    found = conn.execute(
        load("rows", "column_indexes").encode(), {"tables": None if tables is None else list(tables)}
    ).fetchall()
    return [Index(*row) for row in found]


def tables_named(conn: Connection, names: Sequence[str]) -> list[int] | None:
    """Return the OIDs of the tables the user means, None without names. Raises UserError for one that is not there."""
    found = []
    for name in names:
        oid = search_path.relation(conn, name)
        if oid is None:
            raise UserError(f'there is no table "{name}"', "as in --table sales or --table 'shop.\"Sales 2026\"'")
        found.append(oid)
    return found or None


# ---- making ----


def create(
    conn: Connection,
    schema: str,
    table: str,
    columns: Sequence[str],
    *,
    concurrently: bool,
    say: Callable[[str], None],
) -> Made:
    """Create a columnar index, under a name that is free. Nothing half-done is left behind.

    A concurrent build that fails or is interrupted leaves an invalid index, which is dropped; where that cannot be,
    the command that does it is told. It holds no block until it is refreshed, which is done here.
    """
    name = _free_name(conn, schema, table)
    command = create_command(schema, table, columns, name=name, concurrently=concurrently)
    say(command)
    start = time.perf_counter()
    try:
        with _notices(conn, say):
            conn.execute(command.encode())
            if concurrently:
                say(refresh_command(schema, name))
                conn.execute(refresh_command(schema, name).encode())
    except BaseException:
        if concurrently:
            _drop_invalid(conn, schema, name, say)
        raise
    return Made(quoted(schema, name), time.perf_counter() - start)


def create_command(
    schema: str, table: str, columns: Sequence[str], *, name: str | None = None, concurrently: bool = False
) -> str:
    """Return the command that creates a columnar index."""
    words = ["CREATE INDEX"]
    words += ["CONCURRENTLY"] if concurrently else []
    words += [quoted(name)] if name is not None else []
    listed = ", ".join(quoted(column) for column in columns)
    return f"{' '.join(words)} ON {quoted(schema, table)} USING columns ({listed})"


def refresh_command(schema: str, name: str) -> str:
    """Return the command that encodes all that can be encoded of a table, or of an index."""
    return f"CALL pgbillion_rows.columns_refresh({literal(quoted(schema, name))})"


def _free_name(conn: Connection, schema: str, table: str) -> str:
    """Return a name for an index that no relation of the schema has."""
    for number in range(1, 10_000):
        end = "_columns" if number == 1 else f"_columns{number}"
        start = table
        # in the server's encoding a character never takes more bytes than in UTF-8, nearly always as many
        while len((start + end).encode()) > _NAME_BYTES:
            start = start[:-1]
        row = conn.execute(
            "SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s",
            [schema, start + end],
        ).fetchone()
        if row is None:
            return start + end
    raise UserError(f"all names for an index of {table} are taken", "drop indexes that are not needed")


def _drop_invalid(conn: Connection, schema: str, name: str, say: Callable[[str], None]) -> None:
    """Remove what an interrupted concurrent build has left, or tell how."""
    command = f"DROP INDEX CONCURRENTLY {quoted(schema, name)}"
    try:
        # a SELECT would see an index of that name which is valid, and so was made in full
        row = conn.execute(
            "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            [schema, name],
        ).fetchone()
        if row is None or row[0]:
            return
        conn.execute("SELECT set_config('statement_timeout', %s, false)", [f"{_DROP_SECONDS}s"])
        conn.execute(command.encode())
    except (psycopg.Error, KeyboardInterrupt):
        say(
            f"the index {quoted(schema, name)} was not finished, and may be there, not valid; remove it with: {command}"
        )


@contextlib.contextmanager
def _notices(conn: Connection, say: Callable[[str], None]) -> Iterator[None]:
    def tell(notice: psycopg.errors.Diagnostic) -> None:
        severity = (notice.severity or "notice").lower()
        say(f"{severity}: {notice.message_primary}")

    conn.add_notice_handler(tell)
    try:
        yield
    finally:
        conn.remove_notice_handler(tell)


# ---- bringing up to date ----


def refresh(conn: Connection, tables: Sequence[int] | None, *, say: Callable[[str], None]) -> list[Made]:
    """VACUUM the tables that have a columnar index, and encode what can be. Raises UserError when there is none."""
    found = {index.table: index for index in indexes(conn, tables) if not index.partitioned}
    if not found:
        raise _none()
    made = []
    for index in found.values():
        table = quoted(index.table_schema, index.table_name)
        start = time.perf_counter()
        with _notices(conn, say):
            for command in (f"VACUUM {table}", refresh_command(index.table_schema, index.table_name)):
                say(command)
                conn.execute(command.encode())
        made.append(Made(table, time.perf_counter() - start))
    return made


def _none() -> UserError:
    return UserError(
        "there is no columnar index",
        f"to see which would pay: {invocation.command('rows', 'columns', 'QUERY')};"
        " or run: CREATE INDEX ON … USING columns (…)",
    )


# ---- showing ----


def status(conn: Connection, tables: Sequence[int] | None) -> list[Status]:
    """Return what the columnar indexes of some tables, or of all, cover. Raises UserError when there is none."""
    known = [index for index in indexes(conn, tables) if not index.partitioned]
    if not known:
        raise _none()
    found = []
    for index in known:
        row = conn.execute(
            "SELECT valid, table_blocks, encoded_blocks, stale_blocks, readable_blocks, rows, index_bytes, table_bytes,"
            " coalesce(pg_stat_get_numscans(%s::oid), 0) FROM pgbillion_rows.columns_status(%s::oid::regclass)",
            [index.oid, index.oid],
        ).fetchone()
        if row is not None:
            table = quoted(index.table_schema, index.table_name)
            found.append(Status(index.identifier, table, index.columns, _advice(index, row[1], row[4]), *row))
    return found


# below this share of blocks something should be done
_WELL = 0.9


def _advice(index: Index, blocks: int, readable: int) -> str:
    if not index.valid:
        return f"not valid, as an interrupted build leaves it: {index.drop}"
    if blocks and readable / blocks < _WELL:
        table = quoted(index.table_schema, index.table_name)
        return f"VACUUM {table}; {refresh_command(index.table_schema, index.table_name)}"
    return ""


def status_table(found: Sequence[Status]) -> Chapter:
    """Return the status of indexes as a table."""
    rows = [
        [
            one.index,
            one.table,
            ", ".join(one.columns),
            f"{one.readable_share:.0%}",
            text.count(one.stale_blocks),
            text.size(one.index_bytes),
            f"{one.bytes_share:.1%}",
            text.count(one.reads),
        ]
        for one in found
    ]
    return Chapter(
        "Columnar indexes",
        "",
        columns=["Index", "Table", "Columns", "Readable blocks", "Stale blocks", "Size", "Of the table", "Reads"],
        rows=rows,
    )
