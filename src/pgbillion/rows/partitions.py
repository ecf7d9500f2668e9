"""The source's table in partitions, each made, copied and frozen in one transaction by a session of its own.

Rows are written once: they are frozen and their pages all-visible from the start, and with wal_level minimal they are
not logged. What has been committed stays: a partition is there with all of its rows or not at all, so that the same
load goes on after an interruption with the partitions that are missing. Several loads of one table share them, except
where they replace it: then all partitions are loaded beside the old table.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import extras, search_path, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.rows import beside, load

# From this number of rows on, a load makes partitions unless told otherwise.
MANY = 500_000_000
ROWS_EACH = 50_000_000
MOST = 10_000
# bytes a row of heap with its maps, and of the WAL of rows that are copied where there is one
HEAP_BYTES, _WAL_BYTES = 45, 30
_MARK = "made by pgbillion rows load: "
_LONGEST_NAME = 63  # bytes
_ONLY = 18_00_00  # since when ANALYZE knows a partitioned table without its partitions


@dataclass(frozen=True)
class Partition:
    """One of them: ``first`` is its first id, ``rows`` the number of them, and ``last`` whether it takes all above."""

    name: str
    first: int
    rows: int
    last: bool


@dataclass(frozen=True)
class Plan:
    """What a load makes of a table, as the table's comment keeps it."""

    count: int
    groups: int
    partitions: int
    seed: int

    def parts(self, table: str) -> list[Partition]:
        """Return the partitions; there are fewer than asked for where there are fewer blocks of rows."""
        pieces = load.shares(self.count, self.partitions)
        digits = len(str(len(pieces)))
        return [
            Partition(f"{table}_{number:0{digits}}", first, rows, number == len(pieces))
            for number, (first, rows) in enumerate(pieces, 1)
        ]

    def is_of(self, request: load.Request, partitions: int) -> bool:
        """Return whether a request for this number of partitions made it."""
        seed = self.seed if request.seed is None else request.seed
        wanted = (request.count, request.groups, partitions, seed)
        return (self.count, self.groups, self.partitions, self.seed) == wanted

    @property
    def comment(self) -> str:
        """The comment that `of_comment` reads."""
        return _MARK + json.dumps(asdict(self))

    @classmethod
    def of_comment(cls, comment: str | None) -> Plan | None:
        """Return the plan of a comment, None when there is none in it."""
        if comment is None or not comment.startswith(_MARK):
            return None
        with contextlib.suppress(ValueError, TypeError):
            found = cls(**json.loads(comment.removeprefix(_MARK)))
            if all(type(value) is int and 0 <= value <= 2**63 for value in asdict(found).values()):
                return found
        return None


@dataclass(frozen=True)
class Outcome:
    """What was loaded, in seconds and bytes. ``copied`` are the rows that were not there before."""

    table: str
    rows: int
    groups: int
    partitions: int
    workers: int
    seed: int
    copied: int
    copy_seconds: float
    analyze_seconds: float
    table_bytes: int

    @property
    def rate(self) -> float:
        """Rows per second while they were copied."""
        return self.copied / self.copy_seconds

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "rows_per_second": round(self.rate)}


def usual(count: int) -> int | None:
    """Return the number of partitions for a number of rows, None when they go into one table."""
    return -(-count // ROWS_EACH) if count >= MANY else None


def execute(
    target: Target,
    request: load.Request,
    partitions: int,
    *,
    observe: Callable[[int], contextlib.AbstractContextManager[Callable[[int], None]]],
    say: Callable[[str], None],
) -> Outcome:
    """Load the partitions that are missing, all of them where there is no table yet.

    ``observe`` is as `load.execute` has it. What is complete when it fails, or is interrupted, stays. Raises UserError
    for a table that is not of such a load, and for lack of disk space.
    """
    request.check()
    extras.need(extras.NUMPY)
    if not 1 <= partitions <= MOST:
        raise UserError(f"there can be 1 to {text.count(MOST)} partitions, not {text.count(partitions)}")
    if len(f"{request.table}_{partitions}".encode()) > _LONGEST_NAME:
        raise UserError(f"partitions of {request.table} have names of more than {_LONGEST_NAME} bytes")
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(target.connect())
        schema = search_path.schema(conn)
        if schema is None:
            raise UserError("there is no schema to make the table in", "create one, or set search_path")
        make = partial(_create, conn, request.table)
        if request.replace:
            stack.enter_context(beside.alone(conn, schema, request.table))
            name, plan = _left(conn, request, partitions, schema)
        else:
            name, plan = request.table, _found(conn, request, partitions, schema)
        if plan is None:
            seed = secrets.randbits(32) if request.seed is None else request.seed
            plan = Plan(request.count, request.groups, partitions, seed)
            check_room(conn, plan.count)
            if request.replace:
                finals = [part.name for part in plan.parts(request.table)]
                beside.check(conn, schema, request.table, make, replace=True, partitions=finals)
            comment = beside.comment(request.table, plan.comment) if request.replace else sql.Literal(plan.comment)
            with conn.transaction():
                table = sql.Identifier(schema, name)
                make(table)
                conn.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, comment))
        work = _Work(target, schema, name, plan, request.table)
        missing = work.missing(conn)
        rows = sum(part.rows for part in missing)
        if rows < plan.count:
            check_room(conn, rows)
        start = time.perf_counter()
        try:
            with observe(rows) as update:
                copied = work.load(missing, request.workers, update)
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                left = len(work.missing(conn))
                stays = "; the old table stays until then" if request.replace else ""
                say(
                    f"{text.many(left, 'partition')} of {request.table} left to load: run the same command to go on"
                    f"{stays}"
                )
            raise
        loaded = time.perf_counter()
        # a load that replaces a table may have been killed between its last partition and this
        if missing or request.replace:
            say("analyzing")
            # the partitions were, while their pages were in memory
            only = "ONLY " if conn.info.server_version >= _ONLY else ""
            conn.execute(sql.SQL("ANALYZE {}{}").format(sql.SQL(only), work.table))
            conn.execute(
                "SELECT setval(pg_get_serial_sequence(%s, 'id'), %s)", [work.table.as_string(conn), plan.count]
            )
        analyzed = time.perf_counter()
        row = conn.execute(
            "SELECT sum(pg_table_size(relid))::bigint FROM pg_partition_tree(%s::regclass)",
            [work.table.as_string(conn)],
        ).fetchone()
        assert row is not None
        if request.replace:
            beside.put_in_place(
                conn,
                schema,
                name,
                request.table,
                make,
                replace=True,
                partitions=[
                    (has.name, gets.name) for has, gets in zip(plan.parts(name), plan.parts(request.table), strict=True)
                ],
                comment=plan.comment,
            )
    return Outcome(
        table=request.table,
        rows=plan.count,
        groups=plan.groups,
        partitions=len(plan.parts(request.table)),
        workers=request.workers,
        seed=plan.seed,
        copied=copied,
        copy_seconds=loaded - start,
        analyze_seconds=analyzed - loaded,
        table_bytes=row[0],
    )


def check_room(conn: Connection, rows: int, further: int = 0) -> None:
    """Raise UserError when the server's disk has no room for the rows, and for ``further`` bytes."""
    row = conn.execute(
        "SELECT current_setting('wal_level') <> 'minimal', pg_size_bytes(current_setting('max_wal_size'))"
    ).fetchone()
    assert row is not None
    logged, kept = row
    # a checkpoint begins when half of what is kept is full
    wal = min(rows * _WAL_BYTES, 2 * kept) if logged else 0
    load.check_room(conn, rows, rows * HEAP_BYTES + wal + further)


def _found(conn: Connection, request: load.Request, partitions: int, schema: str) -> Plan | None:
    """Return the plan of the table that is there, None without one; raise UserError when this is another load's."""
    row = conn.execute(
        # somebody else's table may have been prepared for who loads into it
        "SELECT CASE WHEN relkind = 'p' AND relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
        " THEN obj_description(c.oid, 'pg_class') END"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relname = %s",
        [schema, request.table],
    ).fetchone()
    if row is None:
        return None
    plan = Plan.of_comment(row[0])
    if plan is None:
        raise UserError(f'a table "{request.table}" exists already', "give another name with --table, or --replace it")
    if not plan.is_of(request, partitions):
        raise UserError(
            f'the table "{request.table}" is that of a load of {text.count(plan.count)} rows in '
            f"{text.many(plan.groups, 'group')} and {text.many(plan.partitions, 'partition')}, seed {plan.seed}",
            "go on with the same numbers, give another name with --table, or --replace it",
        )
    return plan


def _left(conn: Connection, request: load.Request, partitions: int, schema: str) -> tuple[str, Plan | None]:
    """Return name and plan of what an earlier load of the same kind has begun, else a new name; drop all else."""
    chosen: tuple[str, Plan | None] = beside.name(request.table), None
    for name, text_of_plan in beside.left(conn, schema, request.table).items():
        plan = Plan.of_comment(text_of_plan)
        if chosen[1] is None and plan is not None and plan.is_of(request, partitions):
            chosen = name, plan
        else:
            conn.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, name)))
    return chosen


def _create(conn: Connection, final: str, table: sql.Identifier) -> None:
    columns = sql.SQL("id serial CONSTRAINT {} NOT NULL, grp int, data real").format(beside.not_null(final))
    conn.execute(sql.SQL("CREATE TABLE {} ({}) PARTITION BY RANGE (id)").format(table, columns))


@dataclass(frozen=True)
class _Work:
    """A plan carried out on a table."""

    target: Target
    schema: str
    name: str
    plan: Plan
    # the name that it gets when it is complete
    final: str

    @property
    def table(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def missing(self, conn: Connection) -> list[Partition]:
        """Return the partitions that are not there."""
        there = {
            name
            for (name,) in conn.execute(
                "SELECT relname FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = %s::regclass",
                [self.table.as_string(conn)],
            )
        }
        return [part for part in self.plan.parts(self.name) if part.name not in there]

    def load(self, missing: list[Partition], workers: int, update: Callable[[int], None]) -> int:
        """Load partitions, several at a time, and return the number of their rows. The first failure stops all."""
        progress = [0] * len(missing)
        with together.team(workers) as team:

            def load_one(number: int) -> None:
                with self.target.connect() as conn:
                    team.session(conn)
                    self._load_one(conn, missing[number], progress, number, team.stopped)

            load.watch({team.start(load_one, number) for number in range(len(missing))}, progress, update)
        return sum(progress)

    def _load_one(
        self, conn: Connection, part: Partition, progress: list[int], number: int, stop: threading.Event
    ) -> None:
        table = sql.Identifier(self.schema, part.name)
        # what the planner would have to find out of the rows for ATTACH is checked while they are copied
        limit = sql.SQL("TRUE") if part.last else sql.SQL("id < {}").format(part.first + part.rows)
        end = sql.SQL("MAXVALUE") if part.last else sql.Literal(part.first + part.rows)
        final = self.final + part.name.removeprefix(self.name)
        share = load.Share(self.target, table, [(part.first, part.rows)], frozen=True)
        with conn.transaction():
            try:
                conn.execute(
                    sql.SQL(
                        "CREATE TABLE {} (id integer CONSTRAINT {} NOT NULL, grp int, data real,"
                        " CONSTRAINT part CHECK (id >= {} AND {}))"
                    ).format(table, beside.not_null(final), part.first, limit)
                )
            except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation) as error:
                with self.target.connect() as other:
                    if part in self.missing(other):
                        raise UserError(
                            f'a table "{part.name}" exists already', "give another name with --table, or drop it"
                        ) from error
                # another load of the same table was faster
                raise psycopg.Rollback from error
            for rows in load.copy_share(conn, share, self.plan.groups, self.plan.seed, stop):
                progress[number] += rows
            conn.execute(sql.SQL("ANALYZE {}").format(table))
            conn.execute(
                sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
                    self.table, table, part.first, end
                )
            )
            conn.execute(sql.SQL("ALTER TABLE {} DROP CONSTRAINT part").format(table))
