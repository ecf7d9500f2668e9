"""Drop the tables of a selection: what could refuse it is looked for first, then batches go, each a transaction.

A batch is dropped or not, and what is gone is not selected again: so a run that was interrupted, or refused half-way,
goes on with the same command.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import invocation, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target, take_any_name
from pgbillion.tables import create
from pgbillion.tables import selection as tables_selection
from pgbillion.tables.plan import MAX_WORKERS, Method
from pgbillion.tables.selection import Selection

Batch = Sequence[int] | Sequence[str]  # OIDs, or for method sql qualified names

MAX_BATCH = 5_000
# What all workers together may fill of the lock table: others need some of it.
_LOCK_SHARE = 0.5
_SURVEY_PAGE = 100_000
_SAMPLE = 1_000
_NAMES_SHOWN = 10
_LOCK_TIMEOUT = "10s"  # for a table that somebody began to use after all had been looked at
_TICK = 0.25  # seconds between two looks at the workers


@dataclass(frozen=True)
class Request:
    """What to drop and how. ``batch`` None: as large as the locks allow."""

    selection: Selection
    method: Method
    workers: int = 1
    batch: int | None = None
    cascade: bool = False
    allow_unobserved: bool = False

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS:,}, not {self.workers:,}")
        if self.batch is not None and self.batch < 1:
            raise UserError(f"the number of tables per batch must be at least 1, not {self.batch:,}")


@dataclass(frozen=True)
class Survey:
    """What is there to drop; ``names`` are the first ones, qualified and quoted."""

    tables: int
    schemas: dict[str, int]
    names: list[str]


@dataclass(frozen=True)
class Outcome:
    """How it ended well."""

    selected: int
    dropped: int
    seconds: float
    method: str
    workers: int
    batch: int

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        rate = self.dropped / self.seconds if self.seconds > 0 else 0.0
        return {**asdict(self), "tables_per_second": round(rate, 1)}


def survey(conn: Connection, request: Request) -> Survey:
    """Count what would be dropped, and raise UserError, naming one table, when any of it may not or cannot be."""
    selection = request.selection
    _refuse_system(conn, selection)
    extension = tables_selection.has_function(conn, "tables")
    if not selection.by_function(extension=extension):
        tables_selection.by_index(conn)
    schemas: dict[str, int] = {}
    groups: dict[tuple[int, int], tuple[int, str]] = {}  # schema and owner: how many, and the name of one
    after: str | None = None
    while True:
        query = sql.SQL(
            'SELECT schema_oid::bigint, owner::bigint, count(*), min(name::text COLLATE "C"),'
            ' max(name::text COLLATE "C") FROM {} t GROUP BY 1, 2'
        )
        page = selection.page(after, _SURVEY_PAGE, extension=extension)
        rows = conn.execute(query.format(page), prepare=False).fetchall()
        for schema, owner, count, name, _ in rows:
            known = groups.get((schema, owner), (0, name))
            groups[schema, owner] = known[0] + count, known[1]
        if sum(row[2] for row in rows) < _SURVEY_PAGE:
            break
        after = max((row[4] for row in rows), key=_bytes)
    others = 0
    not_mine: str | None = None
    for (schema, owner), (count, name) in groups.items():
        row = conn.execute(
            "SELECT nspname, quote_ident(nspname) || '.' || quote_ident(%s), pg_is_other_temp_schema(oid),"
            " pg_has_role(%s::oid, 'USAGE') OR pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE oid = %s::oid",
            [name, owner, schema],
        ).fetchone()
        if row is None or row[2]:
            continue
        schemas[row[0]] = schemas.get(row[0], 0) + count
        if not row[3]:
            not_mine, others = not_mine or row[1], others + count
    if not_mine is not None:
        more = f" (and of {text.count(others - 1)} more that match)" if others > 1 else ""
        raise UserError(f"must be owner of table {not_mine}{more}", "connect as the owner, or choose fewer tables", 3)
    _refuse_members(conn, selection)
    refuse_used(conn, selection)
    names = _first_names(conn, selection, extension) if groups else []
    return Survey(sum(schemas.values()), schemas, names)


def _bytes(name: str) -> bytes:
    return name.encode(errors="surrogateescape")


def _first_names(conn: Connection, selection: Selection, extension: bool) -> list[str]:
    value = sql.SQL("array_agg(quote_ident(n.nspname) || '.' || quote_ident(t.name))")
    page = next(tables_selection.pages(conn, selection, _NAMES_SHOWN, value, extension=extension))
    return list(page.value or [])[:_NAMES_SHOWN]


def _refuse_system(conn: Connection, selection: Selection) -> None:
    row = conn.execute(
        sql.SQL(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid < {}::oid AND {} ORDER BY c.relname LIMIT 1"
        ).format(sql.Literal(tables_selection.FIRST_NORMAL_OID), selection.condition()),
        prepare=False,
    ).fetchone()
    if row is None:
        return
    if selection.schema is not None:
        raise UserError(f"{row[0]} is a system catalog", "nothing was dropped: choose other tables", status=3)
    raise UserError(
        f"the pattern matches system catalogs too, {row[0]} for one",
        "nothing was dropped: name the schema with --schema, or use a narrower pattern",
        status=3,
    )


def _refuse_members(conn: Connection, selection: Selection) -> None:
    row = conn.execute(
        sql.SQL(
            "SELECT c.oid::regclass::text, e.extname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid"
            " JOIN pg_extension e ON e.oid = d.refobjid"
            " WHERE d.refclassid = 'pg_extension'::regclass AND d.classid = 'pg_class'::regclass"
            " AND d.deptype = 'e' AND {} ORDER BY 1 LIMIT 1"
        ).format(selection.condition()),
        prepare=False,
    ).fetchone()
    if row is not None:
        raise UserError(
            f"table {row[0]} belongs to the extension {row[1]}",
            "nothing was dropped: name the schema with --schema, or use a narrower pattern",
            status=3,
        )


def refuse_used(conn: Connection, selection: Selection, own: Sequence[int] = (), dropped: str = "") -> None:
    """Raise UserError when another session than ``own`` has a table in use; an autovacuum gives way by itself."""
    row = conn.execute(
        sql.SQL(
            "SELECT c.oid::regclass::text, l.pid, coalesce(nullif(a.application_name, ''), a.backend_type), a.state"
            " FROM pg_locks l JOIN pg_class c ON c.oid = l.relation LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
            " WHERE l.locktype = 'relation' AND l.granted"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND (l.pid IS NULL OR l.pid <> ALL ({})) AND a.backend_type IS DISTINCT FROM 'autovacuum worker'"
            " AND {} ORDER BY l.pid LIMIT 1"
        ).format(sql.Literal([conn.info.backend_pid, *own]), selection.condition()),
        prepare=False,
    ).fetchone()
    if row is None:
        return
    table, pid, program, state = row
    if pid is None:
        who, remedy = "a prepared transaction", "end it with COMMIT PREPARED or ROLLBACK PREPARED (pg_prepared_xacts)"
    else:
        described = ", ".join(word for word in (program, state) if word)
        who = f"session {pid}" + (f" ({described})" if described else "")
        remedy = f"wait for that session, or end it (SELECT pg_terminate_backend({pid}))"
    raise UserError(
        f"table {table} is in use by {who}; {dropped or 'nothing was dropped'}", f"{remedy}, then run this again", 3
    )


def batch_size(conn: Connection, request: Request) -> int:
    """Return how many tables per batch may have for all workers together to need no more than their share of locks."""
    if request.batch is not None:
        return request.batch
    extension = tables_selection.has_function(conn, "tables")
    value = sql.SQL('array_agg(t."table"::bigint)')
    page = next(tables_selection.pages(conn, request.selection, _SAMPLE, value, extension=extension))
    # DROP TABLE locks the indexes too
    indexes = "(SELECT count(*) FROM pg_index i WHERE i.indrelid IN (c.oid, c.reltoastrelid))"
    row = conn.execute(
        f"SELECT max(1 + (c.reltoastrelid <> 0)::int + {indexes if request.method is Method.SQL else '0'}"
        " + (SELECT count(*) FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'"
        "    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.classid = 'pg_class'::regclass)),"
        " current_setting('max_locks_per_transaction')::bigint"
        " * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)"
        " FROM pg_class c WHERE c.oid = ANY (%s::oid[])".encode(),
        [page.value or []],
    ).fetchone()
    assert row is not None
    each, room = row
    return max(1, min(MAX_BATCH, int(room * _LOCK_SHARE / request.workers / (each or 1))))


def execute(
    target: Target,
    request: Request,
    selected: int,
    *,
    command: Callable[..., str],
    observe: Callable[[int], contextlib.AbstractContextManager[Callable[[int], None]]],
) -> Outcome:
    """Drop the tables.

    ``selected`` is the survey's count, ``command`` makes the one that goes on, with further options if given, and
    ``observe`` gives what is called with the number of tables gone. Raises UserError when interrupted (status 130), a
    connection is lost (2), or the server refuses (3); what was dropped before stays so, and the error says how many.
    """
    start = time.monotonic()
    with target.connect() as conn, contextlib.ExitStack() as stack:
        take_any_name(conn)
        size = batch_size(conn, request)
        workers = [
            stack.enter_context(target.connect(application_name=f"pgbillion worker {number + 1}"))
            for number in range(min(request.workers, max(1, -(-selected // size))))
        ]
        for worker in workers:
            take_any_name(worker)
            worker.execute("SET statement_timeout = 0")
            worker.execute("SET client_min_messages = warning")
            worker.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'".encode())
        dropping = _Dropping(conn, request, size, workers, selected)
        with observe(selected) as update:
            try:
                dropping.run(update)
            except KeyboardInterrupt:
                raise UserError(
                    f"interrupted: {dropping.so_far}", f"go on with: {command()}", create.INTERRUPTED
                ) from None
            except psycopg.Error as error:
                raise _refusal(error, dropping, target, command) from error
    return Outcome(
        selected, dropping.dropped, time.monotonic() - start, request.method.value, request.workers, dropping.size
    )


class _Dropping:
    """Batches on their way."""

    def __init__(
        self, conn: Connection, request: Request, size: int, workers: Sequence[Connection], selected: int
    ) -> None:
        self.dropped = 0
        self.size = size
        self.request = request
        self.conn = conn
        self.workers = workers
        self._selected = selected
        self._free: deque[Connection] = deque(workers)
        self._pending: dict[Future[None], tuple[Connection, Batch]] = {}
        self._again: deque[Batch] = deque()

    @property
    def so_far(self) -> str:
        """How many are gone, in words."""
        return f"{text.count(self.dropped)} of {text.count(self._selected)} tables were dropped"

    def run(self, update: Callable[[int], None]) -> None:
        """Drop all; on any failure the batches on their way are canceled or completed before it is passed on."""
        batches = self._batches()
        try:
            with together.team(len(self.workers)) as team:
                for worker in self.workers:
                    team.session(worker)
                ahead = next(batches, ())
                while ahead or self._again or self._pending:
                    while self._free and (ahead or self._again):
                        if self._again:
                            batch = self._again.popleft()
                        else:
                            # more than a batch: read before the size shrank, or many share the page's last name
                            batch, ahead = ahead[: self.size], ahead[self.size :]
                        worker = self._free.popleft()
                        self._pending[team.start(self._drop, team, worker, batch)] = worker, batch
                        # read while the workers are at work
                        ahead = ahead or next(batches, ())
                    self._collect()
                    update(self.dropped)
        except BaseException:
            for future, (_, batch) in self._pending.items():
                if not future.cancelled() and future.exception() is None:
                    self.dropped += len(batch)
            update(self.dropped)
            raise

    def _batches(self) -> Iterator[Batch]:
        """Yield what is selected, page by page; none is empty."""
        request = self.request
        extension = tables_selection.has_function(self.conn, "tables")
        if not request.selection.by_function(extension=extension):
            tables_selection.by_index(self.conn)
        value = sql.SQL(
            "array_agg(quote_ident(n.nspname) || '.' || quote_ident(t.name))"
            if request.method is Method.SQL
            else 'array_agg(t."table"::bigint)'
        )
        pages = tables_selection.pages(self.conn, request.selection, self.size, value, extension=extension)
        for page in pages:
            if page.value:
                yield page.value

    def _drop(self, team: together.Team, worker: Connection, batch: Batch) -> None:
        if team.stopped.is_set():
            raise psycopg.errors.QueryCanceled("stopped")
        if self.request.method is Method.SQL:
            cascade = b" CASCADE" if self.request.cascade else b""
            names = ", ".join(map(str, batch)).encode(errors="surrogateescape")
            worker.execute(b"DROP TABLE IF EXISTS " + names + cascade)
        else:
            # written out here, which is far cheaper than having each number adapted
            oids = "{" + ",".join(map(str, batch)) + "}"
            worker.execute(
                "SELECT pgbillion_tables.drop_tables("
                "tables => %s::oid[]::regclass[], cascade => %s, allow_unobserved => %s)",
                [oids, self.request.cascade, self.request.allow_unobserved],
            )

    def _collect(self) -> None:
        """Take in the batches that have ended, or wait a moment for one that does."""
        done, _ = wait(self._pending, timeout=_TICK, return_when=FIRST_COMPLETED)
        for future in done:
            worker, batch = self._pending.pop(future)
            self._free.append(worker)
            try:
                future.result()
            except (psycopg.errors.ProgramLimitExceeded, psycopg.errors.OutOfMemory):
                # more locks per table than the sample had, or others have taken them
                # a single table may have room when the other workers have ended theirs
                if self.request.batch is not None or (len(batch) == 1 and not self._pending):
                    raise
                self.size = max(1, len(batch) // 2)
                self._again.extend(part for part in (batch[: self.size], batch[self.size :]) if part)
            except psycopg.errors.DeadlockDetected:
                # with another worker, which goes on: foreign keys lead from one batch to the other
                if len(self.workers) == 1:
                    raise
                self._again.append(batch)
            else:
                self.dropped += len(batch)


def _refusal(error: psycopg.Error, dropping: _Dropping, target: Target, command: Callable[..., str]) -> UserError:
    """Return what the server said as a UserError that tells how much was dropped before."""
    so_far = dropping.so_far if dropping.dropped else "nothing was dropped"
    diagnosis = error.diag
    state = error.sqlstate or ""
    if diagnosis.message_primary is None or state.startswith("08") or state in ("57P01", "57P02", "57P03"):
        reason = diagnosis.message_primary or str(error).strip().partition("\n")[0]
        start = f"start the server again ({invocation.command('server', 'start')}), then " if target.embedded else ""
        return UserError(f"{reason}; {so_far}", f"{start}go on with: {command()}", status=2)
    if isinstance(error, psycopg.errors.LockNotAvailable):
        try:
            own = [worker.info.backend_pid for worker in dropping.workers]
            refuse_used(dropping.conn, dropping.request.selection, own, so_far)
        except UserError as used:
            return used
    message = diagnosis.message_primary
    hint = diagnosis.message_hint or f"go on with: {command()}"
    match error:
        case psycopg.errors.DependentObjectsStillExist():
            lines = (diagnosis.message_detail or "").splitlines()
            named = "; ".join(lines[:5]) + (" …" if len(lines) > 5 else "")
            message = f"{message}: {named}"
            hint = f"--cascade drops what depends on the tables too: {command('--cascade')}"
        case psycopg.errors.ObjectNotInPrerequisiteState():
            hint = "--allow-unobserved goes on nevertheless, and --method sql lets them see each table"
        case psycopg.errors.ProgramLimitExceeded() | psycopg.errors.OutOfMemory() if dropping.request.batch is not None:
            hint = "leave --batch to the program, which tries smaller ones"
        case psycopg.errors.LockNotAvailable():
            hint = f"somebody else uses one of the tables; go on with: {command()}"
    return UserError(f"{message}; {so_far}", hint, status=3)
