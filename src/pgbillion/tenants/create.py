"""Create tenants: clones of a template, some per transaction; those that are there already are left as they are.

The extension makes them, or, without it, PostgreSQL's commands do (commands.py).
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from pgbillion.common import text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.target import Target
from pgbillion.tables.names import NameFormat
from pgbillion.tables.plan import Method
from pgbillion.tenants import commands, journal

MAX_WORKERS = 100
DEFAULT_FORMAT = "tenant_%05d"

# per transaction at most, where all are made from one stamp, whose reading they share
_STAMPED_TOGETHER = 50
# from this number on, a call leaves a stamp to the calls that follow
_LEARNED_FROM = 3
# what another attempt gets past: the template was changed, or others want the same locks
_PASSING = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_RETRIES = 6


@dataclass(frozen=True)
class Request:
    """What to create: ``count`` schemas from the number ``first``; ``access_method`` None: the template's.

    The rows of the tables ``rows_of``, or ``all_rows``, are copied. ``rewrite_bodies``: functions name the tenant where
    they named the template; ``join_publications``: the tenants are in those that the template is in. ``batch`` schemas
    are created per transaction; None leaves that open. ``method`` is the extension, or PostgreSQL's commands.
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
    method: Method = Method.BULK

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS}, not {self.workers:,}")
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


def _template(conn: Connection, request: Request) -> int:
    """Return the template's OID. Raises UserError without one."""
    row = conn.execute("SELECT oid::int8 FROM pg_namespace WHERE nspname = %s", [request.template]).fetchone()
    if row is None:
        raise UserError(f'there is no schema "{request.template}" to be cloned', "--template names the model")
    return int(row[0])


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
            f"let a superuser run: GRANT EXECUTE ON FUNCTION {function} TO {quoted(conn.info.user)}",
            status=3,
        )


def _check_may_command(conn: Connection, request: Request, template: int) -> None:
    """Raise UserError where the role may not make tenants by commands, or the template is none."""
    row = conn.execute(
        "SELECT nspname ~ '^pg_' OR nspname = 'information_schema', has_schema_privilege(oid, 'USAGE'),"
        " has_database_privilege(current_database(), 'CREATE'), current_user::text"
        " FROM pg_namespace WHERE oid = %s::oid",
        [template],
    ).fetchone()
    if row is None:
        return
    reserved, usable, creatable, role = row
    if reserved:
        raise UserError(f'template "{request.template}" is a schema of the system', "name a schema of your own", 3)
    if not usable:
        raise UserError(
            f"no privilege to use the schema {request.template}",
            f"let its owner run: GRANT USAGE ON SCHEMA {quoted(request.template)} TO {quoted(role)}",
            3,
        )
    if not creatable:
        raise UserError(
            f"no privilege to create schemas in database {conn.info.dbname}",
            f"let its owner run: GRANT CREATE ON DATABASE {quoted(conn.info.dbname)} TO {quoted(role)}",
            3,
        )


def _missing(conn: Connection, request: Request, numbers: Sequence[int]) -> list[int]:
    """Return the numbers of tenants that are not there."""
    name = NameFormat.parse(request.name_format)
    there = {found for (found,) in conn.execute("SELECT nspname::text FROM pg_namespace")}
    return [number for number in numbers if name(number) not in there]


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
    again: str = "the same command",
) -> Outcome:
    """Create the tenants that are missing. Whatever fails, each transaction's tenants are there as a whole or not.

    ``again`` is the command that goes on. Raises UserError with it when interrupted (status 130).
    """
    start = time.monotonic()
    with target.connect() as conn:
        template = _template(conn, request)
        if request.method is Method.SQL:
            _check_may_command(conn, request, template)
        else:
            _check_may_clone(conn)
        tables = _tables(conn, request)
        numbers = _missing(conn, request, range(request.first, request.first + request.count))
    wanted = len(numbers)
    lock = threading.Lock()
    created = over = 0

    def take() -> range | None:
        with lock:
            return next(todo, None)

    def work(team: together.Team) -> None:
        nonlocal created
        nonlocal over
        with _connect(target) as conn:
            team.session(conn)
            mine = _Session(conn, request, tables)
            while not team.stopped.is_set() and (run := take()) is not None:
                made = _create(mine, run)
                with lock:
                    created += made
                    over += len(run)
                update(over)

    with _counting(lambda: created, wanted, again), observe(wanted) as update:
        with _connect(target) as conn:
            over, created = _first(_Session(conn, request, tables), numbers)
            update(over)
            numbers = numbers[over:]
            stamped = request.method is Method.BULK and len(numbers) > (request.batch or 1) and _prepare(conn, request)
        runs = _runs(numbers, _batch(request, len(numbers), stamped=stamped))
        todo: Iterator[range] = iter(runs)
        with together.team(min(request.workers, max(1, len(runs)))) as team:
            futures = [team.start(work, team) for _ in range(min(request.workers, len(runs)))]
            for future in futures:
                future.result()
    return Outcome(created, request.count - created, time.monotonic() - start)


@contextmanager
def _counting(created: Callable[[], int], wanted: int, again: str) -> Iterator[None]:
    """Report on an interrupt how far it came."""
    try:
        yield
    except KeyboardInterrupt:
        raise UserError(
            f"interrupted with {text.count(created())} of {text.many(wanted, 'tenant')} created",
            f"go on with: {again}",
            status=130,
        ) from None


@dataclass
class _Session:
    """A connection that creates tenants, with the tables whose rows are copied."""

    conn: Connection
    request: Request
    tables: Sequence[int] | None

    def __post_init__(self) -> None:
        request = self.request
        rows = None if request.all_rows else self.tables or ()
        self.maker = commands.Maker(
            self.conn,
            commands.Wish(
                request.template, request.access_method, request.rewrite_bodies, request.join_publications, rows
            ),
        )


def _first(session: _Session, numbers: Sequence[int]) -> tuple[int, int]:
    """Create those from which the others' stamp is learned, rather than clones that do not stay.

    By commands it is one, which is compared with the template before there are more. Returns how many of the numbers
    are over, and how many tenants were created for that.
    """
    request = session.request
    if request.method is Method.SQL:
        return (1, _create(session, numbers[:1])) if numbers else (0, 0)
    runs = _runs(numbers[:_LEARNED_FROM], _LEARNED_FROM)
    if len(numbers) <= _LEARNED_FROM or len(runs) > 1 or 0 < (request.batch or 0) < _LEARNED_FROM:
        return 0, 0
    return len(runs[0]), _create(session, runs[0])


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


def _create(session: _Session, run: Sequence[int]) -> int:
    """Create tenants in a transaction, and return how many: without those that others have created meanwhile."""
    for attempt in itertools.count():
        try:
            _clone(session, run)
            return len(run)
        except (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation):
            missing = _missing(session.conn, session.request, run)
            if len(missing) == len(run):
                raise
            return sum(_create(session, part) for part in _runs(missing, len(run)))
        except psycopg.errors.InvalidSchemaName:
            # dropped or renamed while this waited for it
            _template(session.conn, session.request)
            raise
        except _PASSING:
            if attempt == _RETRIES:
                raise
            time.sleep(0.05 * 2**attempt)
    raise AssertionError


def _clone(session: _Session, run: Sequence[int]) -> None:
    """Clone, and have the journal tell of the clones what it tells of the template, in one transaction.

    A migration commits what it does to the template together with the journal's row. If that says the same before and
    after the template was read, none has committed in between, and the clones are what it says.
    """
    conn, request = session.conn, session.request
    name = NameFormat.parse(request.name_format)
    names = [name(number) for number in run]
    with conn.transaction():
        template = _template(conn, request)
        before = journal.had(conn, template) if journal.exists(conn) else None
        if request.method is Method.SQL:
            session.maker.make(template, names)
        else:
            _call(session, template, run)
        if journal.exists(conn) and not journal.inherit(conn, template, names, before):
            raise psycopg.errors.SerializationFailure("the template was migrated while it was being cloned")


def _call(session: _Session, template: int, run: Sequence[int]) -> None:
    """Have the extension clone."""
    request = session.request
    session.conn.execute(
        "SELECT pgbillion_tables.clone_schemas(%s::pg_catalog.oid::pg_catalog.regnamespace, %s, %s, %s, %s,"
        " %s::pg_catalog.oid[]::pg_catalog.regclass[], %s, %s, %s)",
        [
            template,
            request.name_format,
            run[0],
            len(run),
            request.access_method,
            session.tables,
            request.all_rows,
            request.rewrite_bodies,
            request.join_publications,
        ],
    )


def _connect(target: Target) -> Connection:
    conn = target.connect(application_name="pgbillion tenants create")
    # each statement must see what has been committed before it
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    conn.execute("SET client_min_messages = warning")
    return conn
