"""The source's table, loaded by several sessions at once: all of it or nothing."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import extras, search_path, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import FileSystem, Host
from pgbillion.common.target import Target
from pgbillion.rows import beside, generate

TABLE = "t_demo"
INDEX = "idx_id"
INT_MAX = 2**31 - 1
# bytes a row of heap (28 of header and line pointer, 12 of data, alignment), of its index, and of WAL for both
_ROW_BYTES, _WAL_BYTES = 44 + 22, 90
_MARGIN = 1.1
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Request:
    """What to load. With ``replace`` it takes the place of a table of that name."""

    count: int
    groups: int = 10
    table: str = TABLE
    workers: int = 1
    seed: int | None = None
    replace: bool = False

    def check(self) -> None:
        """Raise UserError for numbers that cannot be."""
        if not 1 <= self.count <= INT_MAX:
            raise UserError(f"there can be 1 to {text.count(INT_MAX)} rows, not {text.count(self.count)}")
        if not 1 <= self.groups <= INT_MAX:
            raise UserError(f"there can be 1 to {text.count(INT_MAX)} groups, not {text.count(self.groups)}")
        if self.workers < 1:
            raise UserError(f"there must be a worker, not {self.workers}")


@dataclass(frozen=True)
class Outcome:
    """What was loaded, in seconds and bytes."""

    table: str
    rows: int
    groups: int
    workers: int
    seed: int
    copy_seconds: float
    index_seconds: float
    vacuum_seconds: float
    table_bytes: int
    index_bytes: int

    @property
    def rate(self) -> float:
        """Rows per second while they were copied."""
        return self.rows / self.copy_seconds

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "rows_per_second": round(self.rate)}


def execute(
    target: Target,
    request: Request,
    *,
    observe: Callable[[int], contextlib.AbstractContextManager[Callable[[int], None]]],
    say: Callable[[str], None],
) -> Outcome:
    """Make the table, copy its rows, index it and vacuum it.

    ``observe`` is entered with the number of rows and gives what is called with how many are there. When anything
    fails, or is interrupted, nothing has changed. Raises UserError for a table that exists and for lack of disk space.
    """
    request.check()
    extras.need(extras.NUMPY)
    seed = secrets.randbits(32) if request.seed is None else request.seed
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(target.connect())
        schema = search_path.schema(conn)
        if schema is None:
            raise UserError("there is no schema to make the table in", "create one, or set search_path")
        check_room(conn, request.count)
        stack.enter_context(beside.alone(conn, schema, request.table))

        def make(empty: sql.Identifier) -> None:
            _create(conn, empty, request.table)
            _index(conn, empty, request.table)

        beside.check(conn, schema, request.table, make, replace=request.replace)
        for left in beside.left(conn, schema, request.table):
            _drop(target, sql.Identifier(schema, left))
        name = beside.name(request.table)
        table = sql.Identifier(schema, name)
        try:
            with conn.transaction():
                _create(conn, table, request.table)
                conn.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, beside.comment(request.table)))
            start = time.perf_counter()
            with observe(request.count) as update:
                pieces = shares(request.count, request.workers)
                copy([Share(target, table, [piece]) for piece in pieces], request.groups, seed, update)
            copied = time.perf_counter()
            say("indexing")
            _index(conn, table)
            conn.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [table.as_string(conn), request.count])
            indexed = time.perf_counter()
            say("vacuuming")
            conn.execute(sql.SQL("VACUUM (FREEZE, ANALYZE) {}").format(table))
            vacuumed = time.perf_counter()
            row = conn.execute(
                "SELECT pg_table_size(%(table)s::regclass), pg_indexes_size(%(table)s::regclass)",
                {"table": table.as_string(conn)},
            ).fetchone()
            assert row is not None
            beside.put_in_place(conn, schema, name, request.table, make, replace=request.replace)
        except BaseException:
            _drop(target, table)
            raise
    return Outcome(
        table=request.table,
        rows=request.count,
        groups=request.groups,
        workers=request.workers,
        seed=seed,
        copy_seconds=copied - start,
        index_seconds=indexed - copied,
        vacuum_seconds=vacuumed - indexed,
        table_bytes=row[0],
        index_bytes=row[1],
    )


def shares(count: int, workers: int) -> list[tuple[int, int]]:
    """Divide rows 1 to ``count`` into contiguous pieces of whole blocks: the first id and the number of each."""
    whole = -(-count // generate.BLOCK)
    pieces: list[tuple[int, int]] = []
    for worker in range(workers):
        first = whole * worker // workers * generate.BLOCK
        end = min(count, whole * (worker + 1) // workers * generate.BLOCK)
        if end > first:
            pieces.append((first + 1, end - first))
    return pieces


def check_room(conn: Connection, count: int, size: int | None = None) -> None:
    """Raise UserError when the server's disk has no room for the rows, as far as can be seen.

    ``size`` is the bytes that they take, with indexes and WAL; without it they are those of `execute`.
    """
    host = Host.of(conn)
    disk = host.filesystem() if host else None
    if disk is not None:
        need_room(disk, count, count * (_ROW_BYTES + _WAL_BYTES) if size is None else size)


def need_room(disk: FileSystem, count: int, size: int) -> None:
    """Raise UserError when a disk has no room for the rows, which take ``size`` bytes, and some more."""
    needed = int(size * _MARGIN)
    if disk.free < needed:
        raise UserError(
            f"{text.count(count)} rows need {text.size(needed)} of disk while they are loaded, "
            f"{disk.mount} has {text.size(disk.free)} left",
            "load fewer, or make room",
        )


def _create(conn: Connection, table: sql.Identifier, final: str) -> None:
    columns = sql.SQL("id serial CONSTRAINT {} NOT NULL, grp int, data real").format(beside.not_null(final))
    conn.execute(sql.SQL("CREATE TABLE {} ({})").format(table, columns))


def _index(conn: Connection, table: sql.Identifier, final: str | None = None) -> None:
    """Index a table; the index of the source's table has the source's name, and the server chooses all others."""
    name = sql.Identifier(INDEX) if final == TABLE else sql.SQL("")
    try:
        conn.execute(sql.SQL("CREATE INDEX {} ON {} (id)").format(name, table))
    except psycopg.errors.DuplicateTable as error:
        raise UserError(
            f'a relation "{INDEX}" exists already, and the index of {TABLE} has that name',
            "give another name with --table, or rename that relation",
        ) from error


@dataclass(frozen=True)
class Share:
    """What one session copies into one table: runs of rows, each by its first id and its number.

    ``wide`` says that the id is a bigint, ``frozen`` that the table was made in the same transaction and that nobody
    minds seeing rows which are too new for a snapshot.
    """

    target: Target
    table: sql.Composable
    runs: Sequence[tuple[int, int]]
    wide: bool = False
    frozen: bool = False


def copy(work: Sequence[Share], groups: int, seed: int, update: Callable[[int], None]) -> None:
    """Copy rows, a session each share. On any failure the other sessions are canceled, and the first raised."""
    progress = [0] * len(work)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(share.target.connect()) for share in work]
        team = stack.enter_context(together.team(len(work)))

        def copy_one(number: int) -> None:
            # one that waits for the server (a lock, a full disk's checkpoint) hears of the others' failure, too
            team.session(connections[number])
            for done in copy_share(connections[number], work[number], groups, seed, team.stopped):
                progress[number] += done

        watch({team.start(copy_one, number) for number in range(len(work))}, progress, update)


def watch(pending: set[Future[None]], progress: Sequence[int], update: Callable[[int], None]) -> None:
    """Tell how many rows are there until all sessions have ended, and raise what the first failed with."""
    while pending:
        finished, pending = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_EXCEPTION)
        update(sum(progress))
        for future in finished:
            future.result()


class _Stopped(Exception):  # noqa: N818
    """Another session has failed."""


def copy_share(conn: Connection, share: Share, groups: int, seed: int, stop: threading.Event) -> Iterator[int]:
    """Copy a share by a session, and return the number of rows of each block that was sent, until ``stop``."""
    # a page is not marked all-visible until the commit of its rows is in the log on disk, and VACUUM will not wait
    conn.execute(
        "SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'"
    )
    options = sql.SQL("FORMAT binary, FREEZE" if share.frozen else "FORMAT binary")
    statement = sql.SQL("COPY {} (id, grp, data) FROM STDIN ({})").format(share.table, options)
    with conn.cursor().copy(statement) as stream:
        stream.write(generate.HEADER)
        for first, count in share.runs:
            for size, rows in generate.blocks(first, count, groups, seed, wide=share.wide):
                if stop.is_set():
                    raise _Stopped
                stream.write(rows)
                yield size
        stream.write(generate.TRAILER)


def _drop(target: Target, table: sql.Identifier) -> None:
    """Drop what was loaded in part, on a connection that is not in the middle of something.

    A table that has got its own name meanwhile is no longer found.
    """
    with contextlib.suppress(psycopg.Error), target.connect() as conn:
        conn.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table))
