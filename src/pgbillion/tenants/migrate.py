"""Run migrations in many schemas: each tenant in its own transaction, which also notes in the journal that it is done.

What is done is never run again, so a run that failed somewhere, or was interrupted, goes on with the same command.

What is run calls code of the tenant's: triggers, defaults, and functions and operators that fit a call better than
PostgreSQL's own. As the schema's owner it runs in a SECURITY DEFINER function, where PostgreSQL lets nobody set a role.
Nothing that the tenant has left for later may then run outside of it, as the role that migrates.
"""

from __future__ import annotations

import re
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
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.tenants import journal
from pgbillion.tenants.script import Script

MAX_WORKERS = 100
# what another attempt may get past: a lock that others have, and what only concurrency brings
_PASSING = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)
# what the tenant before may have left behind; and quotes are as `split` has read them, whatever the role's settings are
_AFRESH = (
    "RESET SESSION AUTHORIZATION; RESET ALL; DISCARD TEMP; UNLISTEN *;"
    " SET search_path TO ''; SET client_min_messages TO warning; SET standard_conforming_strings TO on"
)
# which locks what it finds, as commands do that create something in a schema
_HOLD = "SELECT pg_catalog.pg_get_object_address('schema', ARRAY[%s::pg_catalog.text], '{}')"
# it may have been renamed while the claim waited; what is meant for it would go to the next schema in the path
_THERE = "SELECT true FROM pg_catalog.pg_namespace WHERE nspname = %s"
_TRANSACTION = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text"

_RUN = """
CREATE FUNCTION pg_temp.pgbillion_run(statements text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $run$
BEGIN
    EXECUTE statements;
END
$run$
"""


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
    as_owner: bool = False

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS}, not {self.workers:,}")
        if self.retries < 0:
            raise UserError(f"the number of retries must not be negative, not {self.retries}")
        if self.dry_run and not self.transaction:
            raise UserError(
                "--dry-run rolls back, and --no-transaction leaves nothing to roll back", "leave out one of them"
            )
        if self.as_owner and not self.transaction:
            raise UserError("--as-owner runs each migration in a transaction", "leave out --no-transaction")


@dataclass(frozen=True)
class Failure:
    """What a tenant has not had, and why."""

    tenant: str
    migration: str
    error: str
    sqlstate: str | None = None


def alike(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Return failures by tenant, those of the same migration and error together, whatever a tenant's name is in it."""
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in sorted(failures, key=lambda failure: failure.tenant):
        named = re.compile(rf"\b{re.escape(failure.tenant)}\b")
        groups.setdefault((failure.migration, named.sub("%", failure.error)), []).append(failure)
    return list(groups.values())


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
                over = len(first) if part is rest else 0
                _Run(target, request, {tenant: todo[tenant] for tenant in part}, outcome, update, journaled, over).all()
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
        over: int,
    ) -> None:
        self._target = target
        self._request = request
        self._todo: Iterator[tuple[str, list[Script]]] = iter(todo.items())
        self._workers = min(request.workers, len(todo))
        self._outcome = outcome
        self._update = update
        self._journaled = journaled
        self._lock = threading.Lock()
        self._over = over

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
            if self._request.as_owner:
                # a tenant could put statements of its own in the place of those that are kept
                conn.prepare_threshold = None
            while not team.stopped.is_set() and (task := self._next()):
                tenant, scripts = task
                ran = self._tenant(team, conn, tenant, scripts)
                with self._lock:
                    if isinstance(ran, Failure):
                        self._outcome.failures.append(ran)
                    elif ran:
                        self._outcome.done += 1
                    else:
                        # another run has done it meanwhile
                        self._outcome.before += 1
                    self._over += 1
                    over = self._over
                self._update(over)

    def _tenant(self, team: together.Team, conn: Connection, tenant: str, scripts: Sequence[Script]) -> Failure | bool:
        """Run what a tenant has not had; return what failed, or whether there still was something to be run."""
        ran = False
        for script in scripts:
            for attempt in range(self._request.retries + 1):
                try:
                    run = self._whole if self._request.transaction else self._by_statement
                    ran = run(conn, tenant, script) or ran
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
        return ran

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

    def _whole(self, conn: Connection, tenant: str, script: Script) -> bool:
        """Run a migration in a transaction of its own; return False if it has been run before."""
        try:
            begun = self._begin(conn, tenant, script)
            fresh = begun is not None
            if fresh:
                if self._request.as_owner:
                    self._as_owner(conn, tenant, script)
                    ended = conn.execute(_TRANSACTION).fetchone()
                else:
                    settings = self._settings(tenant).as_string(conn)
                    statements = f"{settings};\n{script.for_schema(tenant)}\n;\n{_TRANSACTION}"
                    ended = _rows(conn.execute(statements.encode(), prepare=False))[-1]
                if conn.info.transaction_status != TransactionStatus.INTRANS or ended != begun:
                    raise psycopg.errors.InvalidTransactionTermination("the statements have ended the transaction")
            if self._request.dry_run:
                conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
            conn.execute("ROLLBACK" if self._request.dry_run else "COMMIT")
        except psycopg.Error:
            if not conn.closed and conn.info.transaction_status != TransactionStatus.IDLE:
                conn.execute("ROLLBACK")
            raise
        return fresh

    def _begin(self, conn: Connection, tenant: str, script: Script) -> tuple[Any, ...] | None:
        """Begin the transaction of a tenant that is there and has not had the migration, and return what it is called.

        Returns None if the tenant has had it. All of this is one message, as each takes as long as a short statement.
        """
        # a transaction has the settings that the session had before it
        claim, values = (
            (journal.CLAIM, journal.claim_values(script, tenant)) if self._journaled else ("SELECT true", [])
        )
        statements = "; ".join((f"BEGIN; {_AFRESH}; COMMIT; BEGIN", _HOLD, claim, _THERE, _TRANSACTION))
        found = _rows(psycopg.ClientCursor(conn).execute(statements.encode(), [tenant, *values, tenant]))
        *_, claimed, there, begun = found
        if claimed is None:
            return None
        if there is None:
            raise _gone(tenant)
        return begun

    def _as_owner(self, conn: Connection, tenant: str, script: Script) -> None:
        """Run a migration as the schema's owner, with all that it has deferred."""
        row = conn.execute("SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %s", [tenant]).fetchone()
        owner = sql.Identifier(row[0] if row else tenant)
        conn.execute(_RUN)
        conn.execute(sql.SQL("ALTER FUNCTION pg_temp.pgbillion_run(text) OWNER TO {}").format(owner))
        conn.execute(self._settings(tenant))
        conn.execute(
            "SELECT pg_temp.pgbillion_run(%s::pg_catalog.text)",
            [f"{script.for_schema(tenant)}\n;\nSET CONSTRAINTS ALL IMMEDIATE"],
        )
        # of a cursor WITH HOLD the query would be run at the commit
        conn.execute("CLOSE ALL; SET LOCAL search_path TO pg_catalog, pg_temp")
        # PostgreSQL 18 runs a trigger as the role that has queued it; until then a trigger that another one has queued
        # meanwhile, after SET CONSTRAINTS … DEFERRED, could still be waiting
        if conn.info.server_version < 180000:
            waiting = conn.execute(load("tenants", "deferrable").encode()).fetchone()
            if waiting is not None:
                raise psycopg.errors.InsufficientPrivilege(
                    f"{waiting[0]} can be deferred, and would then not run as the owner of {tenant}"
                )

    def _by_statement(self, conn: Connection, tenant: str, script: Script) -> bool:
        """Run a migration statement by statement, each noted once it has been run; return False if it was before."""
        conn.execute(_AFRESH.encode())
        key = f"pgbillion_journal {tenant} {script.name}"
        row = conn.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone()
        if row is None or not row[0]:
            raise psycopg.errors.LockNotAvailable("another run is at work in this tenant")
        try:
            before = journal.statements_done(conn, script, tenant)
            if 0 in before:
                return False
            for number, statement in enumerate(script.statements, 1):
                if number in before:
                    continue
                _check_there(conn, tenant)
                conn.execute(self._settings(tenant))
                conn.execute(statement.for_schema(tenant).encode(), prepare=False)
                conn.execute(_AFRESH.encode())
                _note(conn, script, tenant, number)
            _note(conn, script, tenant, 0)
            return True
        finally:
            if not conn.closed:
                conn.execute("SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended(%s, 0))", [key])


def _hold(conn: Connection, tenant: str) -> None:
    """Keep a tenant from being dropped until the end of the transaction; before its rows in the journal are locked.

    Raises psycopg.errors.InvalidSchemaName if it is gone.
    """
    conn.execute(_HOLD, [tenant])


def _note(conn: Connection, script: Script, tenant: str, statement: int) -> None:
    """Note that a statement has been run in a tenant that still exists, and under this name."""
    with conn.transaction():
        _hold(conn, tenant)
        journal.claim(conn, script, tenant, statement)
        _check_there(conn, tenant)


def _check_there(conn: Connection, tenant: str) -> None:
    if conn.execute(_THERE, [tenant]).fetchone() is None:
        raise _gone(tenant)


def _gone(tenant: str) -> psycopg.Error:
    return psycopg.errors.InvalidSchemaName(f'schema "{tenant}" does not exist')


def _rows(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...] | None]:
    """Return the first row of each statement's result, None for one without rows."""
    found = []
    while True:
        found.append(cursor.fetchone() if cursor.description else None)
        if not cursor.nextset():
            return found
