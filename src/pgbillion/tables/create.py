"""Create the tables of a plan: the coordinator of the workers, and what is checked before them.

What may go wrong is looked for first (arguments, server, extension, names, room), so that nothing is half-made.
Afterwards a run may end at any moment, by Ctrl-C or by a crash of anything: what is committed is a prefix of each
worker's range, and a resumed run asks the catalog where that ends.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

import psycopg

from pgbillion.common import invocation, search_path, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.host import Host
from pgbillion.common.progress import Progress, WorkerProgress
from pgbillion.common.quoting import quoted
from pgbillion.common.target import Target
from pgbillion.server import describe, extension
from pgbillion.tables import catalog, model, resume
from pgbillion.tables.crew import Crew, Failure
from pgbillion.tables.plan import (
    DEFAULT_BATCH,
    DEFAULT_COLUMNS,
    Method,
    Plan,
    Storage,
    Wish,
    tablespace_names,
)
from pgbillion.tables.run import Attempt, Run
from pgbillion.tables.sampler import Sampler

INTERRUPTED = 130
_TICK = 0.25  # seconds between two looks at the workers


@dataclass(frozen=True)
class Request(Wish):
    """What the user asks for; what is None gets a default that may depend on the server."""

    batch: int | None = None
    schema: str | None = None
    tablespaces: int = 0

    def plan(self, schema: str, template: str | None) -> Plan:
        """Return the plan, with the schema and the template as the server knows them."""
        same = {field.name: getattr(self, field.name) for field in fields(Wish)}
        known: dict[str, Any] = {
            "template": template,
            "columns": DEFAULT_COLUMNS if self.columns is None and template is None else self.columns,
            "batch": DEFAULT_BATCH[self.method] if self.batch is None else self.batch,
            "schema": schema,
            "tablespaces": tablespace_names(self.tablespaces),
        }
        return Plan(**{**same, **known})

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if self.template is not None and self.columns is not None:
            raise UserError("give either --template or --columns, not both")
        self.plan(self.schema or "", self.template).check()


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended well. ``seconds`` and ``created`` are this attempt's.

    ``interrupted`` tells that the user wanted to stop it, when all tables were there.
    """

    run: str
    total: int
    created: int
    seconds: float
    peak_backend_memory: int | None
    interrupted: bool = False

    @property
    def rate(self) -> float:
        """Tables per second."""
        return self.created / self.seconds if self.seconds > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        values = {name: value for name, value in asdict(self).items() if name != "interrupted"}
        return {**values, "tables_per_second": round(self.rate, 1)}


class Observer(Protocol):
    """Who watches a run."""

    def update(self, progress: Progress) -> None:
        """Take in how far it is; called a few times a second."""


def make_plan(conn: Connection, request: Request) -> Plan:
    """Look up schema and template. Raises UserError for what does not exist."""
    return request.plan(_schema(conn, request.schema), request.template and template_name(conn, request.template))


def server(conn: Connection, target: Target, plan: Plan, host: Host | None) -> dict[str, Any]:
    """Return what a run of the plan is made on, see `describe.server`."""
    bulk = plan.method is Method.BULK
    return describe.server(conn, target, host, plan.tablespaces, extension_used=bulk)


def check_server(conn: Connection, plan: Plan) -> None:
    """Raise UserError when the server cannot take the plan's tables; creates the extension when that is all."""
    check_writable(conn)
    if plan.template is None:
        model.check_columns(conn, plan.columns or "")
    elif plan.method is Method.SQL:
        model.of_template(conn, plan.template)
    if plan.method is Method.BULK:
        without = "--method sql" if plan.storage is Storage.HEAP else "--method sql --storage heap"
        extension.ensure_extension(conn, extension.TABLES, instead=without)
    elif plan.storage is Storage.LAZY:
        check_lazy(conn)


def check_lazy(conn: Connection) -> None:
    """Raise UserError when the server cannot have lazy tables; creates the extension when that is all."""
    try:
        extension.ensure_extension(conn, extension.TABLES)
    except UserError as error:
        raise UserError(
            f"lazy storage needs the extension: {error.message}", "--storage heap does without it", error.status
        ) from error


def check_writable(conn: Connection) -> None:
    """Raise UserError when the server, or this session of it, is read-only."""
    row = conn.execute("SELECT pg_is_in_recovery(), current_setting('transaction_read_only')").fetchone()
    assert row is not None
    if row[0]:
        raise UserError("this server is a standby: it is read-only", "connect to its primary", status=3)
    if row[1] == "on":
        raise UserError(
            "transactions are read-only on this server (default_transaction_read_only)",
            "switch it off for this role or database, or with PGOPTIONS='-c default_transaction_read_only=off'",
            status=3,
        )


def check_names(conn: Connection, plan: Plan) -> None:
    """Raise UserError when a name of the plan is taken."""
    taken = catalog.first_existing(conn, plan)
    if taken is not None:
        raise UserError(
            f'relation "{taken}" already exists in schema {plan.schema}',
            "choose other numbers with --first, or another --name-format or --schema;"
            " a run that was interrupted goes on with --resume",
            status=3,
        )


def execute(
    target: Target,
    run: Run,
    *,
    interval: float,
    psql: Path | None,
    resume_command: str,
    observe: Callable[[], contextlib.AbstractContextManager[Observer]],
) -> Outcome:
    """Make what is missing of a run's tables.

    ``interval`` is the sampler's, in seconds; ``psql`` the program for method sql. Raises UserError, with the command
    that resumes as its hint, when the run is interrupted (status 130), a connection or a worker is lost (2), or the
    server refuses (3).
    """
    plan = run.plan
    resumed = bool(run.journal.attempts)
    with target.connect() as conn:
        host = Host.of(conn)
        done = [resume.done(conn, plan, share) for share in plan.shares()]
    attempt = Attempt(started=time.time(), present=sum(done), total=sum(done))
    run.journal.attempts.append(attempt)
    run.save()
    start = time.monotonic()
    try:
        with _signals() as signals, Crew(target.conninfo, plan, done, psql, run.folder) as crew:
            signals.command(crew)

            def progress() -> Progress:
                return _progress(plan, attempt, crew, time.monotonic() - start, sampler, signals.caught)

            sampler = Sampler(run, target, host, interval, progress)
            with observe() as observer, sampler:
                while crew.working:
                    crew.listen(_TICK)
                    if host is not None:
                        crew.watch_memory()
                    observer.update(progress())
                seconds = time.monotonic() - start
                observer.update(progress())
            attempt.total = crew.total
            memories = [member.peak_memory for member in crew.members if member.peak_memory is not None]
            attempt.peak_backend_memory = max(memories, default=None)
        # signals are taken in until the workers are gone
        failures, caught = crew.failures, signals.caught
        # a worker that a second Ctrl-C has ended when all tables were there has done its part
        if failures and not caught:
            raise _failed(failures, target, resume_command)
        if caught and attempt.total < plan.count:
            raise UserError(
                f"interrupted with {text.count(attempt.total)} of {text.count(plan.count)} tables made",
                f"resume with: {resume_command}",
                INTERRUPTED,
            )
        if resumed:
            resume.prove(target, plan)
        attempt.outcome = "done"
    except UserError as error:
        attempt.outcome = "interrupted" if error.status == INTERRUPTED else "failed"
        attempt.error = error.message
        raise
    except BaseException as error:
        attempt.outcome, attempt.error = "failed", repr(error)
        raise
    finally:
        attempt.ended = time.time()
        run.save()
    return Outcome(
        run=str(run.folder),
        total=attempt.total,
        created=attempt.total - attempt.present,
        seconds=seconds,
        peak_backend_memory=attempt.peak_backend_memory,
        interrupted=caught,
    )


def _progress(plan: Plan, attempt: Attempt, crew: Crew, elapsed: float, sampler: Sampler, stopping: bool) -> Progress:
    workers = tuple(
        WorkerProgress(
            member.share.worker + 1, member.done, member.share.count, member.state, member.backend, member.memory
        )
        for member in crew.members
    )
    return Progress(
        plan.count, attempt.present, crew.total, elapsed, workers, sampler.latest, sampler.first, stopping=stopping
    )


def _failed(failures: list[Failure], target: Target, resume_command: str) -> UserError:
    """Return the error that tells best what went wrong: a refusal rather than a connection lost after it."""
    failure = next((one for one in failures if not one.lost), failures[0])
    if failure.lost:
        start = f"start the server again ({invocation.command('server', 'start')}), then " if target.embedded else ""
        return UserError(failure.message, f"{start}resume with: {resume_command}", status=2)
    hints = {
        "53100": "make room on the server's disk, then ",
        "53200": "the server is out of memory or of locks: use a smaller --batch in a new run, or make room, then ",
        "42P07": "another session has made a table of that name: remove it, then ",
    }
    hint = hints.get(failure.sqlstate or "", "")
    return UserError(failure.message, f"{hint}resume with: {resume_command}", status=3 if failure.sqlstate else 1)


class _Signals:
    """Whether the user wants to stop, also while the workers are being started."""

    def __init__(self) -> None:
        self.caught = False
        self._crew: Crew | None = None

    def command(self, crew: Crew) -> None:
        """Pass on to the workers what the user wants."""
        self._crew = crew
        if self.caught:
            crew.stop()

    def handle(self, number: int, frame: object) -> None:
        """Take in a signal."""
        again, self.caught = self.caught, True
        if self._crew is not None:
            if again:
                self._crew.kill()
            else:
                self._crew.stop()


@contextlib.contextmanager
def _signals() -> Iterator[_Signals]:
    """Make Ctrl-C ask the workers to stop, and a second one end them at once."""
    state = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield state
        return

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, state.handle) for number in numbers}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def current_schema(conn: Connection) -> str:
    """Return the schema that tables are created in. Raises UserError when there is none."""
    schema = search_path.schema(conn)
    if schema is None:
        raise UserError("no schema has been selected to create in", "name one with --schema")
    return schema


def _schema(conn: Connection, name: str | None) -> str:
    if name is None:
        return current_schema(conn)
    row = conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [name]).fetchone()
    if row is None:
        raise UserError(f'schema "{name}" does not exist', f"make it first: CREATE SCHEMA {quoted(name)}", status=3)
    return name


def template_name(conn: Connection, name: str) -> str:
    """Return a template's qualified name, quoted. Raises UserError for what is no template."""
    hint = "name an existing table with --template, or give --columns instead"
    try:
        row = conn.execute(
            "SELECT format('%%I.%%I', nspname, relname), relkind"
            " FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = %s::oid",
            [search_path.relation(conn, name)],
        ).fetchone()
    except psycopg.errors.Error as error:
        raise UserError(error.diag.message_primary or str(error), hint, status=3) from error
    if row is None:
        raise UserError(f'template table "{name}" does not exist', hint, status=3)
    # partitioned ones are refused by name later
    if row[1] not in "rp":
        raise UserError(f'template "{name}" is not an ordinary table', hint, status=3)
    return str(row[0])
