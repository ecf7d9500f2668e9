"""How many bytes columns would take in a columnar index: estimated from some segments of the table.

An index cuts a table into segments of some heap blocks, and gives each column of a segment the first form that fits
(extensions/pgbillion_rows/src/column_index/encode.c). Here the rows of a few segments are asked for what that depends
on: NULLs, different values, smallest and largest, lengths. How well strings are encoded by tokens is left out, so that
of strings an estimate is what they take at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.common.sql import load

# of encode.c, options.c and store.h
_FEW_ENTRIES, _MOST_ENTRIES = 256, 65536
# rows after which a dictionary is given up if more than half of them are different
_TRIAL_ROWS = 4096
_ROWS_WANTED, _DEFAULT_BLOCKS, _MOST_BLOCKS = 24_000, 128, 1024
_PAGE, _PAGE_DATA = 8192, 8152
_HEAD, _STORED_COLUMN = 20, 56
# of a segment; longer ones are in no index
_MOST_COLUMN_BYTES = 16 * 1024 * 1024
_PAYS = 0.75

_SEGMENTS = 4
# one column has up to six expressions, and a SELECT up to 1664
_COLUMNS_PER_QUERY = 200
# values from here on lie out of line, and are in no index
_OUT_OF_LINE = 2000

_INTEGERS = {
    "int2": "{}::pg_catalog.int8",
    "int4": "{}::pg_catalog.int8",
    "int8": "{}::pg_catalog.int8",
    "oid": "{}::pg_catalog.int8",
    "bool": "{}::pg_catalog.int4::pg_catalog.int8",
    "char": '({}::pg_catalog."char")::pg_catalog.int4::pg_catalog.int8',
    "date": "CASE WHEN pg_catalog.isfinite({}) THEN ({} - '2000-01-01'::pg_catalog.date)::pg_catalog.int8"
    " ELSE 2147483647 END",
    "timestamp": "CASE WHEN pg_catalog.isfinite({})"
    " THEN (extract(epoch FROM {}) * 1000000)::pg_catalog.int8 ELSE 9223372036854775807 END",
    "timestamptz": "CASE WHEN pg_catalog.isfinite({})"
    " THEN (extract(epoch FROM {}) * 1000000)::pg_catalog.int8 ELSE 9223372036854775807 END",
    "time": "(extract(epoch FROM {}) * 1000000)::pg_catalog.int8",
}
_FLOATS = {"float4", "float8"}
_TEXTS = {"text", "varchar", "bpchar"}
# of hashes.c: types whose values have tables of hashes, in segments of this number of rows, and bytes of a row
_HASHED = {*_TEXTS, "uuid", "int8"}
_HASHED_ROWS = 1024
_HASH_BYTES = 2 + 6 / 16


@dataclass(frozen=True)
class Column:
    """A column of a table, its type below domains, and what may be asked of it."""

    name: str
    number: int
    type: str
    enum: bool
    builtin: bool
    length: int
    by_value: bool
    may_be_out_of_line: bool
    readable: bool
    average_width: int | None


@dataclass(frozen=True)
class Piece:
    """A table with rows, and its blocks."""

    oid: int
    schema: str
    name: str
    blocks: int
    rows_per_block: float


@dataclass(frozen=True)
class Estimate:
    """Bytes that each column takes in an index, and in how many segments of how many blocks.

    ``absent`` are columns of which some values are in no index: they lie out of line, or are too long. ``sampled``
    tells whether rows were looked at; if not, types and statistics had to do.
    """

    segments: int
    blocks_of_segment: int
    columns: Mapping[str, float]
    absent: frozenset[str]
    sampled: bool

    def bytes_of(self, columns: Iterable[str]) -> int:
        """Return the bytes of an index of these columns."""
        names = list(columns)
        head = _HEAD + 2 * self.blocks_of_segment + _STORED_COLUMN * len(names)
        # the last page of a segment is half full
        pages = (self.read_bytes(names) + self.segments * head) / _PAGE_DATA + self.segments / 2
        entries = (_PAGE_DATA - self.blocks_of_segment / 8) // (16 + self.blocks_of_segment / 8)
        return (math.ceil(pages) + 2 + math.ceil(self.segments / entries)) * _PAGE

    def read_bytes(self, columns: Iterable[str]) -> float:
        """Return the bytes of the columns alone, which is what a query of them reads."""
        return sum(self.columns[name] for name in columns)


def columns_of(conn: Connection, table: int) -> list[Column]:
    """Return the columns of a table, dropped ones left out."""
    found = conn.execute(load("rows", "table_columns").encode(), {"table": table}).fetchall()
    return [Column(*row) for row in found]


def estimate(conn: Connection, pieces: Sequence[Piece], columns: Sequence[Column]) -> Estimate:
    """Estimate what columns of a table, or of a table's partitions, take in a columnar index."""
    blocks = segment_blocks(max(pieces, key=lambda piece: piece.blocks).rows_per_block)
    segments = sum(math.ceil(piece.blocks / blocks) for piece in pieces)
    readable = [column for column in columns if column.readable]
    try:
        # rows that a policy hides would be missing: then it is an error
        with conn.transaction(force_rollback=True):
            conn.execute("SET LOCAL row_security = off")
            found = _sample(conn, pieces, blocks, readable)
    except (
        psycopg.errors.InsufficientPrivilege,
        # dropped or changed meanwhile, or locked for too long
        psycopg.errors.UndefinedTable,
        psycopg.errors.UndefinedColumn,
        psycopg.errors.LockNotAvailable,
    ):
        found = {}
    rows = sum(piece.blocks * (piece.rows_per_block or 100) for piece in pieces)
    sizes = {
        column.name: found[column.name][0] if column.name in found else rows * _width(column) for column in columns
    }
    return Estimate(
        segments=segments,
        blocks_of_segment=blocks,
        columns=sizes,
        absent=frozenset(name for name, (_, out) in found.items() if out),
        sampled=len(found) == len(columns),
    )


def segment_blocks(rows_per_block: float) -> int:
    """Return how many blocks a segment has: enough for a number of rows, a power of two."""
    wanted = max(_DEFAULT_BLOCKS, _ROWS_WANTED / max(rows_per_block, 1))
    return 1 << (min(math.ceil(wanted), _MOST_BLOCKS) - 1).bit_length()


def _width(column: Column) -> float:
    """Return bytes per value where no value may be looked at."""
    if column.by_value:
        return float(column.length)
    return float(column.length if column.length > 0 else (column.average_width or 32) + 4)


# ---- rows of some segments ----


def _sample(
    conn: Connection, pieces: Sequence[Piece], blocks: int, columns: Sequence[Column]
) -> dict[str, tuple[float, bool]]:
    """Return of each column how many bytes it takes of all pieces, and whether some values are in no index."""
    bytes_of: dict[str, float] = dict.fromkeys((column.name for column in columns), 0.0)
    out: set[str] = set()
    looked_at = 0
    for piece, first in _places(pieces, blocks):
        count = min(blocks, piece.blocks - first)
        looked_at += count
        for start in range(0, len(columns), _COLUMNS_PER_QUERY):
            some = columns[start : start + _COLUMNS_PER_QUERY]
            rows, trial, *values = _look(conn, piece, first, count, some)
            for number, column in enumerate(some):
                facts = values[number * _FACTS : (number + 1) * _FACTS]
                size = _encoded(column, rows, trial, facts)
                bytes_of[column.name] += size
                if size > _MOST_COLUMN_BYTES or (column.may_be_out_of_line and (facts[5] or 0) >= _OUT_OF_LINE):
                    out.add(column.name)
    share = sum(piece.blocks for piece in pieces) / looked_at
    return {name: (size * share, name in out) for name, size in bytes_of.items()}


def _places(pieces: Sequence[Piece], blocks: int) -> list[tuple[Piece, int]]:
    """Return segments that are spread over the tables, as table and first block."""
    all_segments = [(piece, first) for piece in pieces for first in range(0, piece.blocks, blocks)]
    if len(all_segments) <= _SEGMENTS:
        return all_segments
    step = len(all_segments) / _SEGMENTS
    return [all_segments[int((number + 0.5) * step)] for number in range(_SEGMENTS)]


# of a column: values that are not NULL, different ones, least, greatest, bytes of all, bytes of the largest, different
# ones of the first rows; for numerics least and greatest are of the integers they are in units of the one scale, NULL
# without one
_FACTS = 7


def _look(conn: Connection, piece: Piece, first: int, count: int, columns: Sequence[Column]) -> tuple[Any, ...]:
    # the first rows are those of the first blocks
    trial = first + math.ceil(_TRIAL_ROWS / max(piece.rows_per_block, 1))
    of_trial = sql.SQL("FILTER (WHERE ctid < {}::tid)").format(sql.Literal(f"({trial},0)"))
    expressions: list[sql.Composable] = [sql.SQL("count(*), count(*) {}").format(of_trial)]
    for column in columns:
        name = sql.Identifier(column.name)
        facts = [sql.SQL(text.replace("{}", "{0}")).format(name) for text in _facts(column)]
        expressions += [*facts, sql.SQL("{} {}").format(facts[1], of_trial)]
    query = sql.SQL("SELECT {} FROM ONLY {} WHERE ctid >= {}::tid AND ctid < {}::tid").format(
        sql.SQL(", ").join(expressions),
        sql.Identifier(piece.schema, piece.name),
        sql.Literal(f"({first},0)"),
        sql.Literal(f"({first + count},0)"),
    )
    row = conn.execute(query).fetchone()
    assert row is not None
    return row


def _facts(column: Column) -> list[str]:
    """Return the expressions of what is asked of a column. Only PostgreSQL's own functions are called."""
    nothing = "NULL::int8"
    size = ["sum(pg_column_size({}))::int8", "max(pg_column_size({}))::int8"]
    if column.builtin and column.type in _INTEGERS:
        value = _INTEGERS[column.type]
        return ["count({})", f"count(DISTINCT {value})", f"min({value})", f"max({value})", *size]
    if column.builtin and column.type in _FLOATS:
        return ["count({})", "count(DISTINCT {}::text)", nothing, nothing, *size]
    if column.builtin and column.type == "numeric":
        units = "{} * CASE WHEN scale({}) <= 18 THEN 10::numeric ^ scale({}) END"
        one_scale = "count(DISTINCT scale({})) = 1 AND count(scale({})) = count({})"
        ends = [f"CASE WHEN {one_scale} THEN {end}({units}) END" for end in ("min", "max")]
        return ["count({})", "count(DISTINCT {}::text)", *ends, *size]
    if column.builtin and column.type in _TEXTS:
        different = 'count(DISTINCT hashtextextended({}::text COLLATE "C", 0))'
        return ["count({})", different, nothing, nothing, "sum(octet_length({}) + 4)::int8", size[1]]
    if column.builtin:
        return ["count({})", 'count(DISTINCT hashtextextended({}::text COLLATE "C", 0))', nothing, nothing, *size]
    if column.enum:
        return ["count({})", "count(DISTINCT {})", nothing, nothing, *size]
    # what compares or prints its values may be anybody's
    return ["count({})", "count({})", nothing, nothing, *size]


# ---- the form of a column in a segment, as encode.c chooses it ----


def _encoded(column: Column, rows: int, trial: int, facts: Sequence[Any]) -> float:
    """Return the bytes of a column of a segment, of whose rows the first ``trial`` were looked at by themselves."""
    values, different, least, most, size, _, of_trial = facts
    nulls = math.ceil(rows / 8) if 0 < values < rows else 0
    if values == 0:
        return 0.0
    if column.by_value:
        size = _by_value(column.length, rows, different, None if least is None else most - least)
        # whether they are in some order is not known
        return nulls + size + (_hashes(column, rows, different) if size == 8 * rows else 0)
    if column.type == "numeric" and column.builtin and least is not None and max(abs(least), abs(most)) < 2**63:
        return nulls + (16 if least == most else rows * _width_of(most - least))
    if rows > _TRIAL_ROWS and of_trial > trial / 2:
        different = rows
    return nulls + _by_reference(column, rows, values, different, size) + _hashes(column, rows, different)


def _hashes(column: Column, rows: int, different: int) -> float:
    """Bytes of the table of hashes of a column's values, if most likely it has one."""
    if not column.builtin or column.type not in _HASHED or rows < _HASHED_ROWS or different < rows / 16:
        return 0.0
    return _HASH_BYTES * rows


def _by_value(length: int, rows: int, different: int, distance: int | None) -> float:
    width = length if distance is None else min(_width_of(distance), 8)
    if different == 1:
        return 8.0
    if width > 1 and different <= _FEW_ENTRIES and rows + 8 * different < _PAYS * rows * width:
        return float(rows + 8 * different)
    return float(rows * width)


def _by_reference(column: Column, rows: int, values: int, different: int, size: int) -> float:
    """Bytes of values with a place each; a header and what aligns them are in ``size``, more or less."""
    each = size / values
    if column.length > 0:
        each = math.ceil(column.length / 8) * 8
    elif column.type in _TEXTS and column.builtin:
        # short ones have a header of one byte, and are not aligned
        each = each - 3 if each <= 130 else each + 4
    elif each > 127:
        each += 4
    otherwise = values * each + 4 * (rows + 1)
    if different == 1:
        return each + 8
    dictionary = different * (each + 4) + rows * (1 if different <= _FEW_ENTRIES else 2)
    if different <= min(_MOST_ENTRIES, rows / 2) and dictionary < _PAYS * otherwise:
        return dictionary
    return otherwise


def _width_of(distance: int) -> int:
    return 1 if distance < 2**8 else 2 if distance < 2**16 else 4 if distance < 2**32 else 8
