"""Columnar indexes that are kept: created, marked, recorded, and dropped when no query reads them any more.

An index is known by its comment, which has its OID and the database's. A copy of an index, which a restore or a
template database makes with its comment, is therefore not taken for one of whose reads anything is known.
"""

from __future__ import annotations

import calendar
import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.rows import columns, journal
from pgbillion.rows.advice import Advised, Keeping
from pgbillion.rows.columns import Index
from pgbillion.rows.journal import Journal
from pgbillion.rows.workload import Query

# of reads, before an index counts as unread
USUAL_DAYS = 30
_DAY = 86400
_MARK = "made by pgbillion rows columns on"
_MARKED = re.compile(re.escape(_MARK) + r" (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ) as (\d+)/(\d+): ")
_ALONE = "columnar indexes are created and dropped"
# for the locks of commands that wait: a build that waits longer gives up, and is tried again with the next run
_LOCK_SECONDS = 300
# DROP INDEX of a partitioned table's index blocks queries while it waits
_SHORT_LOCK_SECONDS = 5


@dataclass(frozen=True)
class Reads:
    """An index, and what is known of its reads. ``made``: when this command created it; None if it did not."""

    index: Index
    number: int
    last: float | None
    made: float | None
    marked: bool
    may_drop: bool
    definition: str


@dataclass(frozen=True)
class Done:
    """An index that was created or dropped, why, and the command that takes that back."""

    action: str
    index: str
    table: str
    columns: tuple[str, ...]
    bytes: int
    why: str
    command: str
    undo: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "columns": list(self.columns)}


@dataclass(frozen=True)
class Failed:
    """What was not created or dropped, and the reason."""

    what: str
    reason: str


@dataclass(frozen=True)
class _Since:
    """A database, the time, and since when reads are counted."""

    database: int
    now: float
    counted: float | None


def check(conn: Connection) -> None:
    """Raise UserError where nothing can be created or dropped."""
    if _facts(conn)[4]:
        raise UserError(
            "this server is a standby, on which no index can be created or dropped",
            "connect to its primary; without --create, --apply and --drop-unread, advice is given here, too",
            status=3,
        )


@contextlib.contextmanager
def alone(conn: Connection) -> Iterator[None]:
    """Be the only command that creates or drops columnar indexes in the database. Raises UserError if it is not."""
    row = conn.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [_ALONE]).fetchone()
    if not (row and row[0]):
        raise UserError(
            "another run creates or drops columnar indexes in this database", "wait for it to end", status=3
        )
    try:
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            conn.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [_ALONE])


def wait_not_for_ever(conn: Connection) -> None:
    """Have commands of the session give up if they wait for a lock for minutes, and not because they work for long."""
    conn.execute("SELECT set_config('statement_timeout', '0', false)")
    _lock_timeout(conn, _LOCK_SECONDS)


def _lock_timeout(conn: Connection, seconds: int) -> None:
    conn.execute("SELECT set_config('lock_timeout', %s, false)", [f"{seconds}s"])


def _facts(conn: Connection) -> tuple[Any, ...]:
    row = conn.execute(load("rows", "statistics_since").encode()).fetchone()
    assert row is not None
    return row


# ---- what is read ----


def reads(conn: Connection, found: Sequence[Index]) -> list[Reads]:
    """Return what is known of the reads of indexes."""
    database = int(_facts(conn)[0])
    last = "NULL::float8"
    if conn.info.server_version >= 160000:
        last = "extract(epoch FROM pg_stat_get_lastscan(x.oid))::float8"
    query = load("rows", "index_reads").replace("{last_read}", last)
    of = {index.oid: index for index in found}
    rows = conn.execute(query.encode(), {"indexes": list(of)}).fetchall()
    return [_reads(of[row[0]], database, row) for row in rows]


def _reads(index: Index, database: int, row: Sequence[Any]) -> Reads:
    _, number, last, comment, may_drop, definition = row
    mark = _MARKED.match(comment or "")
    made = None
    if mark and (int(mark[2]), int(mark[3])) == (database, index.oid):
        made = float(_epoch(mark[1]))
    return Reads(index, number, last, made, mark is not None, may_drop, definition)


def _epoch(at: str) -> int:
    return calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ"))


# ---- dropping ----


@dataclass(frozen=True)
class Unread:
    """Indexes to be dropped together: one, or those of the partitions of a table; and since when nobody read them."""

    members: tuple[Reads, ...]
    why: str


def unread(conn: Connection, days: float, *, of_others: bool) -> list[Unread]:
    """Return the indexes that no query has read for a number of days, ours only unless ``of_others``.

    Those of the partitions of a table belong together, because queries read some partitions less often. Raises
    UserError where reads are not counted.
    """
    database, now, counted, counting, _ = _facts(conn)
    if not counting:
        raise UserError(
            "the server does not count how often indexes are read: track_counts is off",
            "turn it on; what is not read is known some time after that",
        )
    since = _Since(database, now, counted)
    groups: dict[tuple[Any, ...], list[Reads]] = {}
    for one in reads(conn, columns.indexes(conn)):
        index = one.index
        alone_in_table = index.root == index.table and not index.partitioned
        groups.setdefault((index.oid,) if alone_in_table else (index.root, *index.columns), []).append(one)
    return [Unread(tops, why) for group in groups.values() for tops, why in _unread(group, since, days, of_others)]


def _unread(
    group: Sequence[Reads], since: _Since, days: float, of_others: bool
) -> Iterator[tuple[tuple[Reads, ...], str]]:
    # the index of a partition that belongs to the partitioned table's goes with that
    tops = tuple(one for one in group if not one.index.part)
    read = [one for one in group if not one.index.partitioned]
    if not all(one.index.valid for one in group) or not (of_others or all(one.made is not None for one in tops)):
        return
    if any(one.number > 0 and one.last is None for one in read):
        # of 15, which does not know when
        return
    known = [since.counted, *(one.made for one in tops), *(one.last for one in read)]
    begin = max((moment for moment in known if moment is not None), default=None)
    if begin is not None and since.now - begin < days * _DAY:
        return
    last = max((one.last for one in read if one.last is not None), default=None)
    if last is not None:
        why = f"no query has read it since {_day(last)}"
    else:
        why = "no query has read it" + (f" since {_day(begin)}" if begin is not None else "")
    yield tops, why


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))


def drop_unread(
    conn: Connection, found: Sequence[Unread], book: Journal, say: Callable[[str], None]
) -> tuple[list[Done], list[Failed]]:
    """Drop indexes that are not read. What cannot be dropped is returned with the reason."""
    done: list[Done] = []
    failed: list[Failed] = []
    for group in found:
        for one in group.members:
            _drop(conn, one, group.why, book, say, done, failed)
    return done, failed


def drop_superseded(
    conn: Connection, oids: Sequence[int], by: str, book: Journal, say: Callable[[str], None]
) -> tuple[list[Done], list[Failed]]:
    """Drop indexes that this command has created if another index has their columns, too."""
    done: list[Done] = []
    failed: list[Failed] = []
    for one in reads(conn, [index for index in columns.indexes(conn) if index.oid in oids]):
        if one.made is not None:
            _drop(conn, one, f"{by} has its columns", book, say, done, failed)
    return done, failed


def _drop(
    conn: Connection,
    one: Reads,
    why: str,
    book: Journal,
    say: Callable[[str], None],
    done: list[Done],
    failed: list[Failed],
) -> None:
    index = one.index
    if not one.may_drop:
        failed.append(Failed(index.identifier, "only its owner can drop it"))
        return
    undo = one.definition if index.partitioned else one.definition.replace("INDEX ", "INDEX CONCURRENTLY ", 1)
    table = quoted(index.table_schema, index.table_name)
    outcome = Done(
        journal.DROPPED, index.identifier, table, tuple(index.columns), index.bytes, why, index.drop, undo, 0
    )
    # before it happens, because afterwards nobody would know how to take it back
    facts = {"table_oid": index.root, "on_oid": index.table, "index_oid": index.oid, **outcome.to_json()}
    book.add(**facts)
    say(index.drop)
    start = time.perf_counter()
    try:
        _lock_timeout(conn, _SHORT_LOCK_SECONDS if index.partitioned else _LOCK_SECONDS)
        conn.execute(index.drop.encode())
    except psycopg.Error as error:
        if conn.closed:
            raise
        book.add(**{**facts, "action": journal.KEPT})
        failed.append(Failed(index.identifier, error.diag.message_primary or str(error)))
    else:
        done.append(replace(outcome, seconds=time.perf_counter() - start))


def history(book: Journal) -> list[dict[str, Any]]:
    """Return the journal's entries of what was created and dropped; what could not be dropped is left out."""
    found: list[dict[str, Any]] = []
    for entry in book.entries(journal.CREATED, journal.DROPPED, journal.KEPT):
        if entry["action"] != journal.KEPT:
            found.append(entry)
            continue
        tried = [old for old in found if (old["action"], old["index_oid"]) == (journal.DROPPED, entry["index_oid"])]
        if tried:
            found.remove(tried[-1])
    return found


# ---- creating ----


def keeping(conn: Connection, book: Journal) -> tuple[Keeping, int]:
    """Return what to know for creating indexes unseen, and how many bytes those take that were created so."""
    there = reads(conn, columns.indexes(conn))
    alive = {one.index.oid for one in there}
    created: dict[int, dict[str, Any]] = {}
    dropped: set[int] = set()
    for entry in book.entries(journal.CREATED, journal.DROPPED, journal.KEPT):
        oid = entry["index_oid"]
        if entry["action"] == journal.CREATED:
            created[oid] = entry
        elif entry["action"] == journal.DROPPED:
            dropped.add(oid)
        else:
            dropped.discard(oid)
    gone = {oid: entry for oid, entry in created.items() if oid not in alive and oid not in dropped}
    # an index goes with its table, which is not to say that others like it are not wanted
    tables = _existing(conn, [entry["on_oid"] for entry in gone.values()])
    removed: dict[int, list[tuple[frozenset[str], str]]] = {}
    for entry in gone.values():
        if entry["on_oid"] in tables:
            removed.setdefault(entry["table_oid"], []).append((frozenset(entry["columns"]), entry["at"][:10]))
    mine = frozenset(one.index.oid for one in there if one.made is not None and one.may_drop)
    spent = sum(one.index.bytes for one in there if one.marked and not one.index.part)
    return Keeping(mine, removed), spent


def _existing(conn: Connection, oids: Sequence[int]) -> set[int]:
    """Return those of some OIDs that are relations'."""
    return {oid for (oid,) in conn.execute("SELECT oid::int8 FROM pg_class WHERE oid = ANY (%s::oid[])", [list(oids)])}


def called_since(queries: Sequence[Query], book: Journal) -> tuple[list[Query], int]:
    """Return the queries with their calls since an index was last dropped as unread, and how many had none.

    Until pg_stat_statements forgets a query, the calls for which an index was created would have it created again.
    """
    before: dict[str, int] = {}
    for entry in book.entries(journal.COUNTED):
        before = entry["calls"]
    found = []
    for query in queries:
        calls = query.calls - before.get(query.digest, 0)
        # fewer than before: they were counted anew
        found.append(query if calls < 0 else replace(query, calls=calls))
    called = [query for query in found if query.calls > 0]
    return called, len(found) - len(called)


def create(
    conn: Connection, one: Advised, book: Journal, *, concurrently: bool, say: Callable[[str], None]
) -> Iterator[Done]:
    """Create the index of a piece of advice, or one for each partition, mark it, and give what was created."""
    # a partitioned table's index cannot be made concurrently, those of its partitions can
    tables = one.pieces if concurrently and one.partitioned else ((one.schema, one.table),)
    there = [index for index in columns.indexes(conn, [one.oid]) if index.valid]
    for schema, name in tables:
        if any(
            (index.table_schema, index.table_name) == (schema, name) and set(one.columns) <= set(index.columns)
            for index in there
        ):
            continue
        made = columns.create(conn, schema, name, one.columns, concurrently=concurrently, say=say)
        queries = "1 query" if one.queries == 1 else f"{text.count(one.queries)} queries"
        why = f"{queries} with {text.many(one.calls, 'call')}"
        index = _mark(conn, made.name, why)
        command = columns.create_command(schema, name, one.columns, name=index.name, concurrently=concurrently)
        done = Done(
            journal.CREATED, index.identifier, quoted(schema, name), tuple(one.columns), index.bytes, why, command,
            index.drop, made.seconds,
        )  # fmt: skip
        book.add(table_oid=one.oid, on_oid=index.table, index_oid=index.oid, **done.to_json())
        yield done


def _mark(conn: Connection, name: str, why: str) -> Index:
    row = conn.execute(
        "SELECT %s::regclass::oid::int8, (SELECT oid::int8 FROM pg_database WHERE datname = current_database()),"
        " to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
        [name],
    ).fetchone()
    assert row is not None
    oid, database, at = row
    (index,) = [index for index in columns.indexes(conn) if index.oid == oid]
    conn.execute(
        sql.SQL("COMMENT ON INDEX {} IS {}").format(
            sql.Identifier(index.schema, index.name), sql.Literal(f"{_MARK} {at} as {database}/{oid}: {why}")
        )
    )
    return index
