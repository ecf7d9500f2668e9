"""List tables: one page at once, or all of them at full speed, whatever their number."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from psycopg import sql

from pgbillion.common import patterns, text
from pgbillion.common.connection import Connection
from pgbillion.tables import selection as tables_selection
from pgbillion.tables.selection import Selection

PAGE = 1_000
# Large enough that a page's fixed cost does not matter; what is in memory at a time is one page.
_LARGE_PAGE = 50_000
# Up to this number, tables are counted rather than estimated.
_COUNTED = 20_000
_SAMPLED_BLOCKS = 2_000
_NAMES_A_SECOND = 1_000_000  # that are looked at; of the order of what machines do

_AS_NAME = sql.SQL("string_agg(quote_ident(n.nspname) || '.' || quote_ident(t.name), E'\\n')")
_AS_JSON = sql.SQL(
    "string_agg(json_build_object('schema', n.nspname, 'name', t.name, 'oid', t.\"table\"::bigint,"
    " 'owner', pg_get_userbyid(t.owner), 'tablespace', s.spcname, 'access_method', a.amname)::text, E',\\n')"
)


@dataclass(frozen=True)
class Listed:
    """What was listed: ``count`` tables in ``seconds``, the first page in ``first_seconds``.

    ``last`` is the name to go on after, None when that was all.
    """

    count: int
    seconds: float
    first_seconds: float
    last: str | None


@dataclass(frozen=True)
class Count:
    """How many tables there are."""

    count: int
    exact: bool
    seconds: float


def notes(conn: Connection, selection: Selection, *, extension: bool) -> list[str]:
    """Return what the user should know about what this listing costs."""
    said: list[str] = []
    if not extension:
        said.append(
            "without the extension pgbillion_tables in this database the list is made by plain SQL, which is slower"
        )
    if selection.reads_everything and selection.schema is None:
        rows = _relations(conn)
        said.append(
            f"the pattern begins with a wildcard, so all of some {text.count(rows)} names in pg_class are read,"
            f" about {text.duration(max(rows / _NAMES_A_SECOND, 0.001))}; a pattern that begins with a letter reads"
            " only the names that begin with it"
        )
    if selection.name is not None and "%" in selection.name.regex:
        said.append(f'"%" in a pattern stands for itself; {patterns.WILDCARDS}')
    return said


def write(
    conn: Connection,
    selection: Selection,
    write: Callable[[str], object],
    *,
    extension: bool,
    limit: int | None,
    after: str | None = None,
    as_json: bool = False,
) -> Listed:
    """Write the tables' qualified and quoted names, one per line, or one JSON object with all of them.

    ``limit`` is the size of the one page that is wanted, None for all. ``write`` is called once a page.
    """
    if not selection.by_function(extension=extension):
        tables_selection.by_index(conn)
    start = time.perf_counter()
    first_seconds = 0.0
    count, last, wrote = 0, None, False
    pages = tables_selection.pages(
        conn,
        selection,
        _LARGE_PAGE,
        _AS_JSON if as_json else _AS_NAME,
        extension=extension,
        after=after,
        first_size=limit or PAGE,
    )
    if as_json:
        write('{"tables": [')
    for page in pages:
        first_seconds = first_seconds or time.perf_counter() - start
        count += page.count
        if page.value is not None:
            write((",\n" if wrote else "\n") + page.value if as_json else page.value + "\n")
            wrote = True
        if limit is not None:
            last = page.last if page.count >= limit else None
            break
    seconds = time.perf_counter() - start
    if as_json:
        write(f'\n], "count": {count}, "last": {json.dumps(last)}, "seconds": {seconds:.6f}}}\n')
    return Listed(count, seconds, first_seconds, last)


def count_exactly(conn: Connection, selection: Selection, *, extension: bool) -> Count:
    """Count the tables, a page at a time."""
    start = time.perf_counter()
    if not selection.by_function(extension=extension):
        tables_selection.by_index(conn)
    pages = tables_selection.pages(conn, selection, _LARGE_PAGE, sql.SQL("count(*)"), extension=extension)
    total = sum(page.value for page in pages)
    return Count(total, True, time.perf_counter() - start)


def estimate_count(conn: Connection, selection: Selection, *, extension: bool) -> Count:
    """Count the tables if they are few and found through the index; else count those on random pages of pg_class."""
    start = time.perf_counter()
    if not selection.reads_everything:
        if not selection.by_function(extension=extension):
            tables_selection.by_index(conn)
        pages = tables_selection.pages(conn, selection, _COUNTED, sql.SQL("count(*)"), extension=extension)
        page = next(pages)
        if page.count < _COUNTED:
            return Count(page.value, True, time.perf_counter() - start)
    row = conn.execute("SELECT pg_relation_size('pg_class') / current_setting('block_size')::int").fetchone()
    assert row is not None
    share = min(1.0, _SAMPLED_BLOCKS / max(1, row[0]))
    condition = selection.condition()
    if selection.schema is None:
        condition = sql.SQL("{} AND c.oid >= {}::oid").format(condition, sql.Literal(tables_selection.FIRST_NORMAL_OID))
    query = sql.SQL("SELECT count(*) FROM pg_class c TABLESAMPLE SYSTEM ({}) WHERE {}")
    row = conn.execute(query.format(sql.Literal(share * 100), condition), prepare=False).fetchone()
    assert row is not None
    return Count(_rounded(row[0] / share), share == 1.0, time.perf_counter() - start)


def _rounded(value: float) -> int:
    """Return a number with no more digits than a sample is good for."""
    digits = max(0, math.floor(math.log10(value)) - 2) if value >= 1 else 0
    return int(round(value / 10**digits) * 10**digits)


def _relations(conn: Connection) -> int:
    """Return about how many rows pg_class has, as the planner sees it."""
    row = conn.execute("EXPLAIN (FORMAT JSON) SELECT FROM pg_class").fetchone()
    assert row is not None
    return int(row[0][0]["Plan"]["Plan Rows"])
