"""Move tenants into a tablespace, a relation per transaction; what is there already is left as it is.

A relation is locked for as long as its own file is copied. What cannot be moved is reported, and the others are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.common.target import Target

MAX_WORKERS = 100
# of the tablespaces that a hint lists
_NAMED = 10
_ALTER = {
    "r": "ALTER TABLE {} SET TABLESPACE {}",
    "p": "ALTER TABLE {} SET TABLESPACE {}",
    "m": "ALTER MATERIALIZED VIEW {} SET TABLESPACE {}",
    "i": "ALTER INDEX {} SET TABLESPACE {}",
    "I": "ALTER INDEX {} SET TABLESPACE {}",
}


@dataclass(frozen=True)
class Request:
    """Where to, and how."""

    tablespace: str
    workers: int = 1
    lock_timeout: str = "5s"
    retries: int = 3

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS}, not {self.workers:,}")
        if self.retries < 0:
            raise UserError(f"the number of retries must not be negative, not {self.retries}")


@dataclass(frozen=True)
class Failure:
    """A relation that was left where it was, and why."""

    tenant: str
    relation: str
    error: str


@dataclass
class Outcome:
    """How it ended: ``moved`` relations of ``tenants``; ``before`` were there."""

    tenants: int
    moved: int = 0
    before: int = 0
    retried: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


def check(conn: Connection, name: str) -> None:
    """Raise UserError if there is no such tablespace, or if the role may put nothing into it."""
    row = conn.execute(
        "SELECT spcname = 'pg_global', has_tablespace_privilege(oid, 'CREATE') OR oid = (SELECT dattablespace"
        " FROM pg_database WHERE datname = current_database()) FROM pg_tablespace WHERE spcname = %s",
        [name],
    ).fetchone()
    if row is None:
        names = [one for (one,) in conn.execute("SELECT spcname::text FROM pg_tablespace ORDER BY 1").fetchall()]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise UserError(f'there is no tablespace "{name}"', f"there are: {', '.join(names[:_NAMED])}{more}")
    if row[0]:
        raise UserError("pg_global is for what databases share", "choose another tablespace")
    if not row[1]:
        raise UserError(
            f"no privilege to create in the tablespace {name}",
            f"let somebody run: GRANT CREATE ON TABLESPACE {quoted(name)} TO {quoted(conn.info.user)}",
            status=3,
        )


def move(
    target: Target,
    request: Request,
    tenants: Sequence[str],
    *,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> Outcome:
    """Move the tables, indexes and materialized views of tenants; raises UserError before anything is moved."""
    start = time.monotonic()
    with target.connect() as conn:
        check(conn, request.tablespace)
        schemas = [
            oid
            for (oid,) in conn.execute(
                "SELECT oid::int8 FROM pg_namespace WHERE nspname = ANY (%s::text[])", [list(tenants)]
            )
        ]
        rows = conn.execute(load("tenants", "tablespace").encode(), [request.tablespace, schemas]).fetchall()
    outcome = Outcome(len(tenants))
    # a tenant's relations are one after the other, and so in one session
    todo: dict[str, list[tuple[str, str]]] = {}
    for schema, kind, name, there in rows:
        if there:
            outcome.before += 1
        else:
            todo.setdefault(schema, []).append((kind, name))
    if todo:
        _Move(target, request, todo, outcome).all(observe)
    outcome.failures.sort(key=lambda failure: (failure.tenant, failure.relation))
    outcome.seconds = time.monotonic() - start
    return outcome


class _Move:
    """Tenants that are moved by several sessions, each taking the next one."""

    def __init__(
        self, target: Target, request: Request, todo: dict[str, list[tuple[str, str]]], outcome: Outcome
    ) -> None:
        self._target = target
        self._request = request
        self._todo: Iterator[tuple[str, list[tuple[str, str]]]] = iter(todo.items())
        self._number = len(todo)
        self._outcome = outcome
        self._lock = threading.Lock()
        self._over = 0

    def all(self, observe: Callable[[int], AbstractContextManager[Callable[[int], None]]]) -> None:
        workers = min(self._request.workers, self._number)
        with observe(self._number) as update, together.team(workers) as team:
            for future in [team.start(self._work, team, update) for _ in range(workers)]:
                future.result()

    def _next(self) -> tuple[str, list[tuple[str, str]]] | None:
        with self._lock:
            return next(self._todo, None)

    def _work(self, team: together.Team, update: Callable[[int], None]) -> None:
        with self._target.connect(application_name="pgbillion tenants tablespace") as conn:
            team.session(conn)
            conn.execute("SELECT set_config('lock_timeout', %s, false)", [self._request.lock_timeout])
            while not team.stopped.is_set() and (task := self._next()):
                schema, relations = task
                for kind, name in relations:
                    if team.stopped.is_set():
                        return
                    self._relation(team, conn, schema, kind, name)
                with self._lock:
                    self._over += 1
                    over = self._over
                update(over)

    def _relation(self, team: together.Team, conn: Connection, schema: str, kind: str, name: str) -> None:
        statement = sql.SQL(_ALTER[kind]).format(sql.Identifier(schema, name), sql.Identifier(self._request.tablespace))
        for attempt in range(self._request.retries + 1):
            try:
                conn.execute(statement)
            except psycopg.Error as error:
                if team.stopped.is_set() or conn.closed:
                    raise
                if isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.DeadlockDetected) and (
                    attempt < self._request.retries
                ):
                    with self._lock:
                        self._outcome.retried += 1
                    team.stopped.wait(0.1 * 2**attempt)
                    continue
                if isinstance(error, psycopg.errors.UndefinedTable):
                    # it was dropped meanwhile
                    return
                with self._lock:
                    message = " ".join((error.diag.message_primary or str(error)).split())
                    self._outcome.failures.append(Failure(schema, name, message))
                return
            with self._lock:
                self._outcome.moved += 1
            return
