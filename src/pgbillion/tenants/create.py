"""Create tenants: clones of a template, some per transaction; those that are there already are left as they are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from pgbillion.common import together
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.tables.names import NameFormat
from pgbillion.tenants import journal

Connection = psycopg.Connection[tuple[Any, ...]]

MAX_WORKERS = 100
DEFAULT_FORMAT = "tenant_%05d"

# per transaction at most, where all are made from one stamp, whose reading they share
_STAMPED_TOGETHER = 50
# so many in a call leave a stamp to the calls that follow
_LEARNED_FROM = 3


@dataclass(frozen=True)
class Request:
    """What to create: ``count`` schemas from the number ``first``; ``access_method`` None: the template's.

    The rows of the tables ``rows_of``, or ``all_rows``, are copied. ``rewrite_bodies``: functions name the tenant where
    they named the template; ``join_publications``: the tenants are in those that the template is in. ``batch`` schemas
    are created per transaction; None leaves that open.
    """

    template: str
    name_format: str
    first: int
    count: int
    workers: int = 1
    batch: int | None = None
    access_method: str | None = None
    rows_of: tuple[str, ...] = ()
    all_rows: bool = False
    rewrite_bodies: bool = False
    join_publications: bool = False

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of workers must be between 1 and {MAX_WORKERS}, not {self.workers:,}")
        if self.rows_of and self.all_rows:
            raise UserError("--rows-of and --all-rows exclude each other")
        if self.batch is not None and self.batch < 1:
            raise UserError(f"the number of tenants per transaction must be at least 1, not {self.batch:,}")
        if self.count < 1:
            raise UserError(f"the number of tenants must be at least 1, not {self.count:,}")
        NameFormat.parse(self.name_format).check_range(self.first, self.count)


@dataclass(frozen=True)
class Outcome:
    """How it ended well."""

    created: int
    before: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        rate = self.created / self.seconds if self.seconds > 0 else 0.0
        return {**asdict(self), "tenants_per_second": round(rate, 2)}


def _check_may_clone(conn: Connection) -> None:
    """Raise UserError where the role may not call what clones."""
    function = (
        "pgbillion_tables.clone_schemas"
        "(regnamespace, text, bigint, bigint, name, regclass[], boolean, boolean, boolean)"
    )
    row = conn.execute("SELECT has_function_privilege(%s, 'EXECUTE')", [function]).fetchone()
    if not (row and row[0]):
        raise UserError(
            "no privilege to clone schemas",
            f"let a superuser run: GRANT EXECUTE ON FUNCTION {function} TO {conn.info.user}",
            status=3,
        )


def _missing(conn: Connection, request: Request) -> list[int]:
    """Return the numbers of tenants that are not there."""
    name = NameFormat.parse(request.name_format)
    there = {found for (found,) in conn.execute("SELECT nspname::text FROM pg_namespace")}
    return [n for n in range(request.first, request.first + request.count) if name(n) not in there]


def _runs(numbers: Sequence[int], batch: int) -> list[range]:
    """Return numbers in runs of at most a batch."""
    runs: list[range] = []
    for number in numbers:
        if runs and runs[-1].stop == number and len(runs[-1]) < batch:
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return runs


def _batch(request: Request, wanted: int, *, stamped: bool) -> int:
    """Return how many tenants a transaction makes; commands lock all that they make."""
    if request.batch is not None:
        return request.batch
    if not stamped or request.rows_of or request.all_rows:
        return 1
    # every worker has as many transactions
    transactions = -(-wanted // (_STAMPED_TOGETHER * request.workers)) * request.workers
    return max(1, -(-wanted // max(1, transactions)))


def execute(
    target: Target,
    request: Request,
    *,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> Outcome:
    """Create the tenants that are missing. Whatever fails, each transaction's tenants are there as a whole or not."""
    start = time.monotonic()
    with target.connect() as conn:
        row = conn.execute("SELECT FROM pg_namespace WHERE nspname = %s", [request.template]).fetchone()
        if row is None:
            raise UserError(f'there is no schema "{request.template}" to be cloned', "--template names the model")
        _check_may_clone(conn)
        tables = _tables(conn, request)
        numbers = _missing(conn, request)
        journaled = journal.exists(conn)
    wanted = len(numbers)
    lock = threading.Lock()
    created = 0

    def take() -> range | None:
        with lock:
            return next(todo, None)

    def work(team: together.Team) -> None:
        nonlocal created
        with target.connect(application_name="pgbillion tenants create") as mine:
            team.session(mine)
            mine.execute("SET client_min_messages = warning")
            while not team.stopped.is_set() and (run := take()) is not None:
                _create(mine, request, run, tables, journaled=journaled)
                with lock:
                    created += len(run)
                update(created)

    with observe(wanted) as update:
        with target.connect(application_name="pgbillion tenants create") as conn:
            conn.execute("SET client_min_messages = warning")
            created = _first(conn, request, numbers, tables, journaled=journaled)
            update(created)
            numbers = numbers[created:]
            stamped = len(numbers) > (request.batch or 1) and _prepare(conn, request)
        runs = _runs(numbers, _batch(request, len(numbers), stamped=stamped))
        todo: Iterator[range] = iter(runs)
        with together.team(min(request.workers, max(1, len(runs)))) as team:
            futures = [team.start(work, team) for _ in range(min(request.workers, len(runs)))]
            for future in futures:
                future.result()
    return Outcome(created, request.count - wanted, time.monotonic() - start)


def _first(
    conn: Connection, request: Request, numbers: Sequence[int], tables: Sequence[int] | None, *, journaled: bool
) -> int:
    """Create those from which the others' stamp is learned, rather than clones that do not stay; return how many."""
    runs = _runs(numbers[:_LEARNED_FROM], _LEARNED_FROM)
    if len(numbers) <= _LEARNED_FROM or len(runs) > 1 or 0 < (request.batch or 0) < _LEARNED_FROM:
        return 0
    _create(conn, request, runs[0], tables, journaled=journaled)
    return len(runs[0])


def _prepare(conn: Connection, request: Request) -> bool:
    """Have the transactions of all workers need no commands, where the role may and the template can."""
    may = conn.execute(
        "SELECT pg_catalog.has_function_privilege('pgbillion_tables.prepare_clone(regnamespace, name, boolean)',"
        " 'EXECUTE')"
    ).fetchone()
    if not (may and may[0]):
        return False
    return bool(
        conn.execute(
            "SELECT pgbillion_tables.prepare_clone((SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = %s)"
            "::pg_catalog.regnamespace, %s, %s)",
            [request.template, request.access_method, request.rewrite_bodies],
        ).fetchall()[0][0]
    )


def _tables(conn: Connection, request: Request) -> list[int] | None:
    """Return the tables whose rows are copied, None for none in particular."""
    if not request.rows_of:
        return None
    found: dict[str, int] = dict(
        conn.execute(
            "SELECT c.relname::text, c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = ANY (%s::text[]) AND c.relkind IN ('r', 'p')",
            [request.template, list(request.rows_of)],
        ).fetchall()
    )
    for name in request.rows_of:
        if name not in found:
            raise UserError(f'there is no table "{name}" in schema "{request.template}"', "--rows-of names a table")
    return list(found.values())


def _create(
    conn: Connection, request: Request, run: Sequence[int], tables: Sequence[int] | None, *, journaled: bool
) -> None:
    with conn.transaction():
        conn.execute(
            "SELECT pgbillion_tables.clone_schemas((SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = %s)"
            "::pg_catalog.regnamespace, %s, %s, %s, %s, %s::pg_catalog.oid[]::pg_catalog.regclass[], %s, %s, %s)",
            [
                request.template,
                request.name_format,
                run[0],
                len(run),
                request.access_method,
                tables,
                request.all_rows,
                request.rewrite_bodies,
                request.join_publications,
            ],
        )
        if journaled:
            name = NameFormat.parse(request.name_format)
            journal.inherit(conn, request.template, [name(number) for number in run])
