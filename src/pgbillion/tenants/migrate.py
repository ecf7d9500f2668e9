"""Run migrations in many schemas: each tenant in its own transaction, which also notes in the journal that it is done.

What is done is never run again, so a run that failed somewhere, or was interrupted, goes on with the same command.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from pgbillion.common import together
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.tenants import journal
from pgbillion.tenants.script import Script

Connection = psycopg.Connection[tuple[Any, ...]]

MAX_WORKERS = 100
# what another attempt may get past: a lock that others have, and what only concurrency brings
_PASSING = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)
# what the tenant before may have left behind
_AFRESH = (
    "RESET SESSION AUTHORIZATION; RESET ALL; DISCARD TEMP; UNLISTEN *;"
    " SET search_path TO ''; SET client_min_messages TO warning"
)


@dataclass(frozen=True)
class Request:
    """What to run, and how."""

    scripts: Sequence[Script]
    workers: int = 1
    transaction: bool = True
    dry_run: bool = False
    canary: int = 0
    lock_timeout: str = "5s"
    retries: int = 3
    path: Sequence[str] = ()

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of workers must be between 1 and {MAX_WORKERS}, not {self.workers:,}")
        if self.retries < 0:
            raise UserError(f"the number of retries must not be negative, not {self.retries}")
        if self.dry_run and not self.transaction:
            raise UserError(
                "--dry-run rolls back, and --no-transaction leaves nothing to roll back", "leave out one of them"
            )


@dataclass(frozen=True)
class Failure:
    """What a tenant has not had, and why."""

    tenant: str
    migration: str
    error: str
    sqlstate: str | None = None


@dataclass
class Outcome:
    """How it ended; ``before`` tenants had everything already, ``left`` were not begun."""

    tenants: int
    before: int = 0
    done: int = 0
    left: int = 0
    retried: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def run(
    target: Target,
    request: Request,
    tenants: Sequence[str],
    *,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> Outcome:
    """Run the migrations in the tenants, in order; a tenant that fails is left at the first that failed.

    ``observe`` gives what is called with the number of tenants that are over. Raises UserError when the journal cannot
    be used, and psycopg.OperationalError when no connection can be had or all are lost.
    """
    start = time.monotonic()
    outcome = Outcome(len(tenants))
    with target.connect() as conn:
        if request.dry_run and not journal.exists(conn):
            todo = {tenant: list(request.scripts) for tenant in tenants}
        else:
            journal.make(conn)
            todo = {}
            for script in request.scripts:
                for tenant in journal.pending(conn, script, tenants):
                    todo.setdefault(tenant, []).append(script)
        journaled = journal.exists(conn)
    outcome.before = len(tenants) - len(todo)
    ordered = [tenant for tenant in tenants if tenant in todo]
    first, rest = ordered[: request.canary], ordered[request.canary :]
    with observe(len(ordered)) as update:
        for part in (first, rest):
            if outcome.failures and part is rest and first:
                outcome.left = len(rest)
                break
            if part:
                _Run(target, request, {tenant: todo[tenant] for tenant in part}, outcome, update, journaled).all()
    outcome.seconds = time.monotonic() - start
    return outcome


class _Run:
    """Tenants that are migrated by several sessions, each taking the next one."""

    def __init__(
        self,
        target: Target,
        request: Request,
        todo: dict[str, list[Script]],
        outcome: Outcome,
        update: Callable[[int], None],
        journaled: bool,
    ) -> None:
        self._target = target
        self._request = request
        self._todo: Iterator[tuple[str, list[Script]]] = iter(todo.items())
        self._workers = min(request.workers, len(todo))
        self._outcome = outcome
        self._update = update
        self._journaled = journaled
        self._lock = threading.Lock()

    def all(self) -> None:
        with together.team(self._workers) as team:
            futures: list[Future[None]] = [team.start(self._work, team) for _ in range(self._workers)]
            for future in futures:
                future.result()

    def _next(self) -> tuple[str, list[Script]] | None:
        with self._lock:
            return next(self._todo, None)

    def _work(self, team: together.Team) -> None:
        with self._target.connect(application_name="pgbillion tenants migrate") as conn:
            team.session(conn)
            while not team.stopped.is_set() and (task := self._next()):
                tenant, scripts = task
                failure = self._tenant(team, conn, tenant, scripts)
                with self._lock:
                    if failure is None:
                        self._outcome.done += 1
                    else:
                        self._outcome.failures.append(failure)
                    over = self._outcome.done + len(self._outcome.failures)
                self._update(over)

    def _tenant(self, team: together.Team, conn: Connection, tenant: str, scripts: Sequence[Script]) -> Failure | None:
        """Run what a tenant has not had, and return what failed."""
        for script in scripts:
            for attempt in range(self._request.retries + 1):
                try:
                    if self._request.transaction:
                        self._whole(conn, tenant, script)
                    else:
                        self._by_statement(conn, tenant, script)
                    break
                except psycopg.Error as error:
                    if team.stopped.is_set() or conn.closed:
                        # the connection is lost, or the user has had enough: that is no fault of the tenant's
                        raise
                    if isinstance(error, _PASSING) and attempt < self._request.retries:
                        with self._lock:
                            self._outcome.retried += 1
                        team.stopped.wait(0.1 * 2**attempt)
                        continue
                    return self._failed(conn, tenant, script, error)
        return None

    def _failed(self, conn: Connection, tenant: str, script: Script, error: psycopg.Error) -> Failure:
        message = " ".join((error.diag.message_primary or str(error)).split())
        if error.diag.message_detail:
            message += f" ({' '.join(error.diag.message_detail.split())})"
        if not self._request.dry_run:
            with suppress(psycopg.Error):
                conn.execute(_AFRESH.encode())
                journal.fail(conn, script, tenant, 0, message)
        return Failure(tenant, script.name, message, error.sqlstate)

    def _settings(self, tenant: str) -> sql.Composed:
        """Return what a tenant's statements begin with: their path, and how long they wait for locks."""
        path = sql.SQL(", ").join(map(sql.Identifier, (tenant, *self._request.path)))
        return sql.SQL("SET {local} search_path TO {path}; SET {local} lock_timeout TO {timeout}").format(
            local=sql.SQL("LOCAL" if self._request.transaction else "SESSION"),
            path=path,
            timeout=sql.Literal(self._request.lock_timeout),
        )

    def _whole(self, conn: Connection, tenant: str, script: Script) -> None:
        """Run a migration in a transaction of its own."""
        conn.execute(_AFRESH.encode())
        conn.execute("BEGIN")
        try:
            # before the path is the tenant's, in which there may be other functions
            if not self._journaled or journal.claim(conn, script, tenant):
                _check_there(conn, tenant)
                row = conn.execute("SELECT pg_current_xact_id()::text").fetchone()
                conn.execute(self._settings(tenant))
                conn.execute(script.for_schema(tenant).encode(), prepare=False)
                if (
                    conn.info.transaction_status != TransactionStatus.INTRANS
                    or row != conn.execute("SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text").fetchone()
                ):
                    raise psycopg.errors.InvalidTransactionTermination("the statements have ended the transaction")
            if self._request.dry_run:
                conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
            conn.execute("ROLLBACK" if self._request.dry_run else "COMMIT")
        except psycopg.Error:
            if not conn.closed and conn.info.transaction_status != TransactionStatus.IDLE:
                conn.execute("ROLLBACK")
            raise

    def _by_statement(self, conn: Connection, tenant: str, script: Script) -> None:
        """Run a migration statement by statement, each noted once it has been run."""
        conn.execute(_AFRESH.encode())
        key = f"pgbillion_journal {tenant} {script.name}"
        row = conn.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone()
        if row is None or not row[0]:
            raise psycopg.errors.LockNotAvailable("another run is at work in this tenant")
        try:
            before = journal.statements_done(conn, script, tenant)
            if 0 in before:
                return
            for number, statement in enumerate(script.statements, 1):
                if number in before:
                    continue
                _check_there(conn, tenant)
                conn.execute(self._settings(tenant))
                conn.execute(statement.for_schema(tenant).encode(), prepare=False)
                conn.execute(_AFRESH.encode())
                journal.claim(conn, script, tenant, number)
            journal.claim(conn, script, tenant)
        finally:
            if not conn.closed:
                conn.execute("SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended(%s, 0))", [key])


def _check_there(conn: Connection, tenant: str) -> None:
    # without the schema, what is meant for it would go to the next one in the path
    if conn.execute("SELECT FROM pg_namespace WHERE nspname = %s", [tenant]).fetchone() is None:
        raise psycopg.errors.InvalidSchemaName(f'schema "{tenant}" does not exist')
