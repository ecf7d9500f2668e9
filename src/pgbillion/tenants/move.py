"""A tenant, rows included, into another database: copied by pg_dump and pg_restore, compared, and then moved if wanted.

Nothing is written before the target is known to have what the tenant needs. The copy is one transaction there, and is
dropped again if anything fails afterwards, Ctrl-C included. It is made from one snapshot, in which rows are counted.

The source is dropped only at the end, in a transaction that from before the snapshot has held off all who write: tables
are locked in EXCLUSIVE mode, sequences by an ALTER that changes nothing. Who creates or alters something else meanwhile
is noticed before the commit, as what the schema then holds is not what was copied: then all is as it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import invocation, patterns, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import client
from pgbillion.tenants import arrival, dump, journal, manage, needs

Say = Callable[[str], None]

_OVER = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
_OVER_SECONDS = 60
_USED = "drop that first, or copy the tenant without --drop-source"


@dataclass(frozen=True)
class Request:
    """What to move, and how."""

    schema: str
    drop: bool = False
    lock_timeout: str = "5s"
    bindir: Path | None = None
    trust_owner: bool = False


@dataclass
class Outcome:
    """What is in the target, counted there and in the source."""

    tenant: str
    tables: int
    rows: int
    dropped: bool
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


def move(source: Target, target: Target, request: Request, *, say: Say) -> Outcome:
    """Copy a tenant, and drop the source if that is wanted. Raises UserError, and leaves both sides as they were then.

    ``say`` is told what is going on.
    """
    start = time.monotonic()
    name = request.schema
    with source.connect() as here, target.connect() as there:
        schema = arrival.oid_of(here, name)
        programs = check(here, there, request, schema)
        journaled = journal.exists(here)
        if journaled:
            journal.make(there)
    arrived = False

    def note() -> None:
        nonlocal arrived
        arrived = True

    try:
        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(_locked(source, request, schema)) if request.drop else None
            with source.connect(application_name="pgbillion tenants move") as reader:
                arrival.patient(reader)
                reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                row = reader.execute("SELECT pg_export_snapshot()").fetchone()
                assert row is not None
                before = state(reader, schema)
                contents = arrival.contents(reader, schema)
                say(f"copying {text.many(len(contents.tables), 'table')}")
                counts: dict[str, int] = {}

                def count() -> None:
                    counts.update(_counts(reader, contents.tables))

                dump.copy(programs, source, target, name, row[0], meanwhile=count, arrived=note)
            say("comparing")
            with source.connect() as here, target.connect() as there:
                arrival.patient(there)
                _compare(request, contents, counts, there, same=arrival.major(here) == arrival.major(there))
                if journaled:
                    _journal(here, there, name)
                if holder is not None:
                    _drop(holder, here, schema, name, before, journaled=journaled)
    except BaseException as error:
        if arrived:
            gone = _gone(source, request, schema)
            if gone is None:
                say(f"it is not known whether {name} was dropped in the source: so it is left in the target, too")
            elif gone:
                say(f"{name} has been moved all the same")
            else:
                _take_back(target, name)
        if isinstance(error, psycopg.errors.LockNotAvailable):
            raise UserError(
                f"{name} could not be locked within {request.lock_timeout}: others are at work in it",
                "--lock-timeout waits longer",
                3,
            ) from None
        raise
    rows = sum(counts.values())
    return Outcome(name, len(contents.tables), rows, request.drop, time.monotonic() - start)


def _identity(conn: Connection) -> list[tuple[Any, ...]]:
    return conn.execute(
        "SELECT oid, pg_postmaster_start_time(), current_setting('port') FROM pg_database"
        " WHERE datname = current_database()"
    ).fetchall()


def check(here: Connection, there: Connection, request: Request, schema: int) -> client.Programs:
    """Look at all that can be known before anything is done. Raises UserError."""
    name = request.schema
    if _identity(here) == _identity(there):
        raise UserError("the target is the source's database", "--to names another one")
    if there.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).fetchone() is not None:
        raise UserError(
            f'the target, {there.info.dbname}, has a schema "{name}" already',
            f"change one: {invocation.command('tenants', 'rename', patterns.exactly(name), 'NEW_NAME')}",
            3,
        )
    if arrival.major(there) < arrival.major(here):
        raise UserError(
            f"the target is PostgreSQL {arrival.major(there)}, and the source {arrival.major(here)}",
            "what a newer server has may be unknown to an older one: move to the same version or a newer one",
        )
    programs = client.find(arrival.major(here), arrival.major(there), request.bindir)
    arrival.check_database(there)
    there.execute("SELECT set_config('lock_timeout', %s, false)", [request.lock_timeout])
    absent = needs.missing(there, needs.of(here, schema))
    if absent:
        raise UserError(f"the target lacks what {name} needs: {needs.listed(absent)}", "create that there first", 3)
    if not request.trust_owner:
        arrival.check_code(there, needs.evaluated(here, schema), "name {role} as the user in --to")
    if request.drop:
        with here.transaction():
            manage.refuse_used(here, name, hint=_USED)
    return programs


@contextlib.contextmanager
def _locked(source: Target, request: Request, schema: int) -> Iterator[Connection]:
    """Give a transaction in which nobody else writes to a schema's tables and sequences; rolled back at the end."""
    with source.connect(application_name="pgbillion tenants move") as conn:
        arrival.patient(conn)
        conn.execute("SELECT set_config('lock_timeout', %s, false)", [request.lock_timeout])
        conn.execute("SET client_min_messages = warning")
        conn.execute("BEGIN")
        # until it is over, one way or the other; of two that move the same tenant the second waits, too
        conn.execute(_OVER.replace("lock", "xact_lock").encode(), [_key(schema)])
        for statement in locking(conn, schema):
            conn.execute(statement.encode())
        yield conn
        # closed: what is not committed is rolled back


def locking(conn: Connection, schema: int, *, sequences: bool = True) -> list[str]:
    """Return the statements that keep others from writing to a schema's tables and, if wanted, sequences."""
    rows = conn.execute(
        "SELECT relkind::text, format('%%I.%%I', nspname, relname), seqincrement FROM pg_depend d"
        " JOIN pg_class c ON c.oid = objid JOIN pg_namespace n ON n.oid = relnamespace"
        " LEFT JOIN pg_sequence s ON seqrelid = c.oid"
        " WHERE refclassid = 'pg_namespace'::regclass AND refobjid = %s::oid AND classid = 'pg_class'::regclass"
        " AND relkind IN ('r', 'p', 'S') ORDER BY c.oid",
        [schema],
    ).fetchall()
    statements = [f"LOCK TABLE ONLY {name} IN EXCLUSIVE MODE" for kind, name, _ in rows if kind != "S"]
    if sequences:
        statements += [f"ALTER SEQUENCE {name} INCREMENT BY {step}" for kind, name, step in rows if kind == "S"]
    return statements


def state(conn: Connection, schema: int) -> list[tuple[Any, ...]]:
    """Return what changes when somebody creates, alters or drops something in a schema."""
    return conn.execute(load("tenants", "state").encode(), [schema]).fetchall()


def _counts(conn: Connection, tables: list[str]) -> dict[str, int]:
    return {name: conn.execute(f"SELECT count(*) FROM ONLY {name}".encode()).fetchall()[0][0] for name in tables}


def _compare(
    request: Request, contents: arrival.Contents, counts: dict[str, int], there: Connection, *, same: bool
) -> None:
    """Raise UserError where the copy is not what was copied; servers of different versions word objects differently."""
    found = arrival.contents(there, arrival.oid_of(there, request.schema))
    wrong = arrival.differences(contents.objects, found.objects, same=same)
    copied = _counts(there, found.tables)
    wrong += [
        f"rows of {table}: {text.count(counts.get(table, 0))} there, {text.count(copied.get(table, 0))} here"
        for table in sorted(counts.keys() | copied.keys())
        if counts.get(table) != copied.get(table)
    ]
    if request.drop:
        # no snapshot holds the values of sequences that others use
        wrong += [
            f"value of {sequence}"
            for sequence, value in sorted(contents.sequences.items())
            if value != found.sequences.get(sequence)
        ]
    if wrong:
        raise UserError(f"the copy is not the same: {arrival.some(wrong)}", "it was dropped, and the source is left", 3)


def _journal(here: Connection, there: Connection, name: str) -> None:
    """Have the copy know which migrations it has had."""
    with there.transaction():
        journal.take(there, name, journal.given(here, name))


def _drop(
    holder: Connection, here: Connection, schema: int, name: str, before: list[tuple[Any, ...]], *, journaled: bool
) -> None:
    holder.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    if journaled:
        journal.forget(holder, name)
    # Nothing can be created in it any more, and nothing that refers to it; this session still sees what there was.
    with here.transaction():
        manage.refuse_used(here, name, hint=_USED)
    if state(here, schema) != before:
        raise UserError(
            f"somebody has changed {name} meanwhile", "it is as that has left it, and nothing was moved: try again", 3
        )
    holder.execute("COMMIT")


def _key(schema: int) -> str:
    return f"pgbillion tenants move {schema}"


def _gone(source: Target, request: Request, schema: int) -> bool | None:
    """Tell whether the source has been dropped, as a failure may come after the commit; None if that is not known."""
    if not request.drop:
        return False
    try:
        with source.connect() as conn:
            conn.execute(f"SET lock_timeout = '{_OVER_SECONDS}s'".encode())
            conn.execute(_OVER.encode(), [_key(schema)])
            return conn.execute("SELECT FROM pg_namespace WHERE oid = %s::oid", [schema]).fetchone() is None
    except psycopg.Error:
        return None


def _take_back(target: Target, name: str) -> None:
    with target.connect() as conn:
        conn.execute("SET client_min_messages = warning")
        with conn.transaction():
            conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
            if journal.exists(conn):
                journal.forget(conn, name)
