"""A tenant into another database while clients go on writing to it: by PostgreSQL's logical replication.

The definition comes by pg_dump, and the rows by a subscription of the target to the source. Writes are blocked twice,
each time until the target has caught up: first to have one state of both sides to compare, rows included, while clients
already go on; and then to carry over sequences and to give up the source. What is made for that is found again by its
name, so that an interrupted move is taken back or finished by the next command, see `replication` for the records.

In this order things are made: publication, slot, schema and subscription, these two in one transaction. The move has
happened when a transaction of the source commits which renames the schema and drops the publication: as long as the
schema has its name, all is taken back, in the opposite order.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion.common import text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.target import Target
from pgbillion.server import client
from pgbillion.tenants import arrival, dump, journal, manage, move, needs, online_checks, replication
from pgbillion.tenants.replication import Record, Table

Say = Callable[[str], None]

_NAME = "pgbillion tenants move"
_KEPT = "_moved"
# a target that takes this long to apply what comes is behind
_SOON_SECONDS = 0.2
# and clients do not wait longer for it
_MOST_BLOCKED_SECONDS = 3.0
_RECONNECT_SECONDS = 20
# statements that take locks are sent together
_AT_ONCE = 100
_TRIGGERS = (
    "SELECT n.nspname::text, c.relname::text, t.tgname::text, t.tgenabled::text FROM pg_trigger t"
    " JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.oid = %s::oid AND t.tgenabled IN ('A', 'R') AND NOT t.tgisinternal ORDER BY t.oid"
)
# for all but replication, which runs no such triggers
_GUARD = "pgbillion_moving"
_CLOSED = """
CREATE FUNCTION {}() RETURNS pg_catalog.trigger LANGUAGE plpgsql AS $guard$BEGIN
    RAISE EXCEPTION 'rows of the schema are still being moved here' USING ERRCODE = '55000',
        HINT = 'Write to them where they come from, until the move is over.';
END$guard$
"""
# what needs no lock on the tables
_OPENED = """
CREATE OR REPLACE FUNCTION {}() RETURNS pg_catalog.trigger LANGUAGE plpgsql AS $guard$BEGIN
    RETURN NULL;
END$guard$
"""
_GUARDED_TABLES = (
    "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = %s::oid AND c.relkind IN ('r', 'p') ORDER BY c.oid"
)
_FORCED = (
    "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = %s::oid AND c.relforcerowsecurity"
    " AND c.relkind IN ('r', 'p') ORDER BY c.oid"
)
_VIEWS = (
    "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = %s::oid AND c.relkind = 'm' AND c.relispopulated"
    " ORDER BY c.oid"
)


class Cleared(Enum):
    """What has become of an interrupted move."""

    NOTHING = "there is no interrupted move of {}"
    TAKEN_BACK = "an interrupted move of {} was taken back"
    FINISHED = "an interrupted move of {} was finished"


@dataclass(frozen=True)
class Request:
    """What to move, and how; ``conninfo`` is how the target's server reaches the source, if not as we do."""

    schema: str
    drop: bool = False
    lock_timeout: str = "5s"
    bindir: Path | None = None
    trust_owner: bool = False
    conninfo: str | None = None

    @property
    def kept(self) -> str:
        """The name under which the source is kept, or dropped."""
        return f"{self.schema}{_KEPT}"


@dataclass
class Outcome:
    """What is in the target; rows are as many as were compared, while clients went on writing.

    ``blocked_ms`` is how long writes were blocked, in all, and ``kept`` the name of what is left in the source.
    """

    tenant: str
    tables: int
    rows: int
    dropped: bool
    kept: str | None
    blocked_ms: float
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


def run(source: Target, target: Target, request: Request, *, say: Say) -> Outcome:
    """Move a tenant. Raises UserError, and then clients have lost nothing and nothing is left in either database.

    ``say`` is told what is going on.
    """
    start = time.monotonic()
    cleared = clear(source, target, request.schema, say=say)
    if cleared is not Cleared.NOTHING:
        say(cleared.value.format(request.schema))
    moved = _Move(source, target, request, say)
    try:
        with _alone(source, request.schema):
            moved.run()
    except BaseException as error:
        moved.close()
        _after_failure(source, target, request.schema, say)
        if isinstance(error, psycopg.errors.LockNotAvailable):
            raise UserError(
                f"{request.schema} could not be locked: others have been at work in it for {request.lock_timeout}",
                "--lock-timeout goes on trying for longer",
                3,
            ) from None
        raise
    finally:
        moved.close()
    return moved.outcome(time.monotonic() - start)


def clear(source: Target, target: Target, schema: str, *, say: Say, alone: bool = True) -> Cleared:
    """Take back, or finish, what an interrupted move of a tenant has left; return which of it.

    Raises UserError if a move of it is going on, and if the target cannot be reached: then, if ``alone``, the source is
    cleared.
    """
    with _alone(source, schema), source.connect(application_name=_NAME) as here:
        row = here.execute("SELECT oid::int8 FROM pg_namespace WHERE nspname = %s", [schema]).fetchone()
        name = None if row is None else replication.name_of(here, row[0])
        record = None if name is None else replication.published(here, name)
        try:
            there = target.connect(application_name=_NAME)
        except psycopg.OperationalError as error:
            if name is None or record is None or not alone:
                raise
            _clear_source(here, name, record)
            raise UserError(
                f"the target cannot be reached: {' '.join(str(error).split())}",
                "the source is as before; when the target is back, the same command removes what is left there",
                2,
            ) from None
        with there:
            left = replication.subscriptions_for(there, schema, replication.source_of(here))
            if name is not None and record is not None:
                left.setdefault(name, record)
            cleared = Cleared.NOTHING
            for one, found in left.items():
                # as long as the source has its name, it has not been moved
                if row is not None and row[0] == found.schema:
                    _take_back(here, there, one, found, published=one == name and record is not None)
                    cleared = Cleared.TAKEN_BACK
                else:
                    _finish(here, there, one, found, say=say)
                    cleared = Cleared.FINISHED
            return cleared


class _Move:
    """One move, from its checks to its end."""

    def __init__(self, source: Target, target: Target, request: Request, say: Say) -> None:
        self._source, self._target, self._request, self._say = source, target, request, say
        self._stack = contextlib.ExitStack()
        self._blocked = 0.0
        self._rows = 0
        self._dropped = False
        self._waited: dict[str, int] = {}
        self._tables: list[Table] = []

    def close(self) -> None:
        """End all sessions: what they have not committed is rolled back."""
        self._stack.close()

    def outcome(self, seconds: float) -> Outcome:
        """Return what has been done."""
        request = self._request
        blocked = round(self._blocked * 1000, 1)
        kept = None if self._dropped else request.kept
        return Outcome(request.schema, len(self._tables), self._rows, self._dropped, kept, blocked, round(seconds, 3))

    def run(self) -> None:
        """Do it."""
        request = self._request
        self._here = here = self._connect(self._source)
        self._there = there = self._connect(self._target)
        self._schema = schema = arrival.oid_of(here, request.schema)
        self._name = replication.name_of(here, schema)
        programs = self._check()
        self._journaled = journal.exists(here)
        if self._journaled:
            journal.make(there)
        with tempfile.TemporaryDirectory(prefix="pgbillion-") as folder:
            self._read_definition(programs, Path(folder) / "definition")
            self._publish()
            self._say("waiting for transactions in progress")
            replication.make_slot(here, self._name)
            self._subscribe(programs, Path(folder) / "definition")
        try:
            self._say(f"copying {text.many(len(self._tables), 'table')}")
            replication.wait_copied(there, self._name, say=self._say)
            self._catch_up()
            self._say("comparing")
            self._compare()
            self._refresh()
            self._catch_up()
            self._say("switching")
            self._switch()
        except replication.StoppedError:
            # rows of a new column, or of a table with another one
            self._check_same(self._wanted, arrival.contents(here, schema).objects)
            raise
        self._dropped = _finish(here, there, self._name, self._record, say=self._say)

    def _connect(self, target: Target) -> Connection:
        conn = self._stack.enter_context(target.connect(application_name=_NAME))
        arrival.patient(conn)
        conn.execute("SET client_min_messages = warning; SET synchronous_commit = on")
        return conn

    # ---- before anything is made ----

    def _check(self) -> client.Programs:
        here, there, request = self._here, self._there, self._request
        programs = move.check(
            here,
            there,
            move.Request(request.schema, lock_timeout=request.lock_timeout, bindir=request.bindir, trust_owner=True),
            self._schema,
        )
        with here.transaction():
            manage.refuse_used(here, request.schema, hint=_USED)
        if _guarded(here, request.schema):
            raise UserError(
                f"{request.schema} has a function {_GUARD}, as an earlier move has left it",
                f"drop it: DROP FUNCTION {quoted(request.schema, _GUARD)}() CASCADE",
                3,
            )
        online_checks.kept(here, request.kept)
        self._tables = [table for table in replication.tables(here, self._schema) if table.kind == "r"]
        self._timeout = online_checks.seconds(here, request.lock_timeout)
        online_checks.servers(here, there)
        online_checks.tables(here, request.schema, self._tables)
        online_checks.owners(there, self._tables)
        if not request.trust_owner:
            online_checks.code(there, needs.evaluated(here, self._schema, indexes=True), self._tables)
        self._keys = online_checks.outside_keys(here, self._schema)
        self._conninfo = _conninfo(here, request.conninfo)
        online_checks.reachable(there, self._name, self._conninfo)
        return programs

    def _read_definition(self, programs: client.Programs, archive: Path) -> None:
        """Read what the schema holds, and write its definition to an archive, from one snapshot."""
        with self._source.connect(application_name=_NAME) as reader:
            arrival.patient(reader)
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            (snapshot,) = reader.execute("SELECT pg_export_snapshot()").fetchall()[0]
            self._objects = arrival.contents(reader, self._schema).objects
            self._tables = [table for table in replication.tables(reader, self._schema) if table.kind == "r"]
            dump.to_file(
                programs,
                self._source,
                self._request.schema,
                archive,
                form="custom",
                jobs=1,
                rows=False,
                snapshot=snapshot,
            )

    # ---- what is made ----

    def _publish(self) -> None:
        here, request = self._here, self._request
        identities = [
            (table.name, table.identity, table.identity_index) for table in self._tables if not table.identifies
        ]
        self._record = Record(
            request.schema, replication.source_of(here), self._schema, request.kept, request.drop, identities
        )

        def publish() -> None:
            replication.publish(here, self._name, request.schema, self._tables, self._record)

        if not replication.patiently(here, self._timeout, publish):
            raise psycopg.errors.LockNotAvailable
        for table in self._tables:
            if not table.identifies and not replication.patiently(
                here,
                self._timeout,
                partial(replication.publish_changed, here, self._name, request.schema, table),
            ):
                raise psycopg.errors.LockNotAvailable
        # what it holds now, replica identities included, is what it has to hold in the end
        found = arrival.contents(here, self._schema).objects
        own = online_checks.of_identities(here, self._schema, [table for table, _, _ in identities])
        self._check_same({**self._objects, **{key: found[key] for key in own if key in found}}, found)
        self._wanted = found

    def _check_same(self, wanted: arrival.Objects, found: arrival.Objects) -> None:
        if changed := arrival.differences(wanted, found, same=True):
            raise _changed(f"{self._request.schema} meanwhile: {arrival.some(changed)}")

    def _subscribe(self, programs: client.Programs, archive: Path) -> None:
        """Create the schema and subscribe, both or neither."""
        before, after = (dump.section(programs, archive, part) for part in ("pre-data", "post-data"))
        same = arrival.major(self._here) == arrival.major(self._there)
        # a session of its own, as the definition sets what it needs
        with self._target.connect(application_name=_NAME) as conn, conn.transaction():
            conn.execute("SET LOCAL client_min_messages = warning")
            for part in (before, after):
                conn.execute(part)
                _settle(conn)
            schema = arrival.oid_of(conn, self._request.schema)
            found = arrival.contents(conn, schema).objects
            if wrong := arrival.differences(self._objects, found, same=same):
                raise UserError(f"the copy is not the same: {arrival.some(wrong)}", "nothing was left behind", 3)
            # they would run for each row that is replicated, as they have where it was written
            self._triggers = conn.execute(_TRIGGERS, [schema]).fetchall()
            for within, table, trigger, _ in self._triggers:
                conn.execute(_trigger(within, table, "DISABLE", trigger))
            # rows are written as the owners, who would see policies
            self._forced = conn.execute(_FORCED, [schema]).fetchall()
            self._force(conn, "NO FORCE")
            self._guard(conn, schema)
            replication.subscribe(conn, self._name, self._conninfo, self._record)
            copied = conn.execute(
                "SELECT count(*) FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid"
                " WHERE s.subname = %s",
                [self._name],
            ).fetchone()
            if copied != (len(self._tables),):
                raise UserError(
                    "what the target's server reaches is another database than the source",
                    "--source-conninfo describes how it reaches the source",
                    3,
                )

    def _guard(self, conn: Connection, schema: int) -> None:
        """Have clients get an error that write to the target's tables too early."""
        function = sql.Identifier(self._request.schema, _GUARD)
        conn.execute(sql.SQL(_CLOSED).format(function))
        for (table,) in conn.execute(_GUARDED_TABLES, [schema]).fetchall():
            conn.execute(
                sql.SQL(
                    "CREATE TRIGGER {} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {} EXECUTE FUNCTION {}()"
                ).format(sql.Identifier(_GUARD), sql.Identifier(self._request.schema, table), function)
            )

    def _force(self, conn: Connection, forced: str) -> None:
        for (table,) in self._forced:
            conn.execute(
                sql.SQL(f"ALTER TABLE ONLY {{}} {forced} ROW LEVEL SECURITY").format(
                    sql.Identifier(self._request.schema, table)
                )
            )

    # ---- what replication does not carry over ----

    def _refresh(self) -> None:
        """Fill the materialized views that have contents in the source, those that others read first."""
        there, name = self._there, self._request.schema
        left = [view for (view,) in self._here.execute(_VIEWS, [self._schema]).fetchall()]
        while left:
            failed = []
            for view in left:
                try:
                    there.execute(sql.SQL("REFRESH MATERIALIZED VIEW {}").format(sql.Identifier(name, view)))
                except psycopg.errors.ObjectNotInPrerequisiteState:
                    failed.append(view)
            if len(failed) == len(left):
                raise UserError(f"materialized views could not be filled in the target: {', '.join(failed)}", None, 3)
            left = failed

    # ---- writes are blocked ----

    @contextlib.contextmanager
    def _writes_blocked(self, *, sequences: bool) -> Iterator[Connection]:
        """Give a transaction of the source in which nobody else writes to the tenant, and the target has caught up.

        It is rolled back at the end if it is not committed.
        """
        with self._source.connect(application_name=_NAME) as holder:
            arrival.patient(holder)
            holder.execute("SET client_min_messages = warning; SET synchronous_commit = on")
            start = self._block(holder, sequences=sequences)
            try:
                yield holder
            finally:
                if not holder.closed:
                    holder.rollback()
                self._blocked += time.monotonic() - start

    def _block(self, holder: Connection, *, sequences: bool) -> float:
        """Begin that transaction, and return when writes began to wait."""
        statements = move.locking(holder, self._schema, sequences=sequences)
        if sequences and self._journaled:
            # a migration in progress is either over or begins afterwards
            statements.append("LOCK TABLE pgbillion_journal.migration IN SHARE ROW EXCLUSIVE MODE")
        late = False
        for _ in replication.attempts(self._timeout):
            start = time.monotonic()
            locked = self._lock(holder, statements)
            if locked:
                lsn = replication.position(self._here)
                if replication.wait_applied(
                    self._here, self._there, self._name, lsn, _MOST_BLOCKED_SECONDS, say=self._say
                ):
                    return start
            holder.rollback()
            self._blocked += time.monotonic() - start
            if locked:
                self._catch_up()
            late = locked
        if not late:
            raise psycopg.errors.LockNotAvailable
        raise UserError(
            f"the target has not caught up within {text.duration(_MOST_BLOCKED_SECONDS)} of blocked writes",
            "try again when clients write less, or the target has less to do",
            3,
        )

    def _lock(self, holder: Connection, statements: list[str]) -> bool:
        """Take locks, each by a statement, in a new transaction; False if others hold one for too long.

        Clients may take theirs in another order. So what we have had to wait for in vain comes first from then on: no
        client that waits for one that we have can then hold it.
        """
        start = time.monotonic()
        statements.sort(key=lambda one: self._waited.get(one, 0))
        holder.execute("BEGIN")
        replication.short_waits(holder)
        for first in range(0, len(statements), _AT_ONCE):
            sent: list[psycopg.Cursor[tuple[Any, ...]]] = []
            try:
                with holder.pipeline():
                    for statement in statements[first : first + _AT_ONCE]:
                        sent.append(holder.cursor())
                        sent[-1].execute(statement.encode())
            except replication.WAITED:
                done = sum(cursor.statusmessage is not None for cursor in sent)
                self._waited[statements[first + done]] = min(self._waited.values(), default=0) - 1
                return False
            if time.monotonic() - start > _MOST_BLOCKED_SECONDS:
                return False
        return True

    def _catch_up(self) -> None:
        """Wait until the target is hardly behind."""
        while True:
            start = time.monotonic()
            lsn = replication.position(self._here)
            replication.wait_applied(self._here, self._there, self._name, lsn, None, say=self._say)
            if time.monotonic() - start < _SOON_SECONDS:
                return

    def _compare(self) -> None:
        """Compare the rows of both sides as they are at one moment, while the source's clients go on."""
        tables, schema = self._tables, self._request.schema
        rows = _encoding(self._here) == _encoding(self._there)
        with (
            self._source.connect(application_name=_NAME) as reader,
            self._target.connect(application_name=_NAME) as other,
        ):
            for conn in (reader, other):
                arrival.patient(conn)
                conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            with self._writes_blocked(sequences=False):
                # the snapshots of one moment
                for conn in (reader, other):
                    conn.execute("SELECT 1")
            there, here = together.at_once(
                lambda conn: replication.checksums(conn, schema, tables, rows=rows), [other, reader]
            )
            self._check_keys(other)
        wrong = [
            f"rows of {table}: {text.count(here[table][0])} there, {text.count(there[table][0])} here"
            if here[table][0] != there[table][0]
            else f"contents of {table}"
            for table in here
            if here[table] != there[table]
        ]
        if wrong:
            raise UserError(f"the copy is not the same: {arrival.some(wrong)}", "nothing was left behind", 3)
        self._rows = sum(count for count, _ in here.values())

    def _check_keys(self, there: Connection) -> None:
        """Check foreign keys to tables of other schemas, which replication does not."""
        for constraint, query in self._keys:
            if there.execute(query.encode()).fetchone() is not None:
                raise UserError(
                    f"rows violate the foreign key {constraint} in the target",
                    "the rows that they refer to have to be there first",
                    3,
                )

    def _switch(self) -> None:
        here, request = self._here, self._request
        # what takes long is compared before clients wait, and again only if it may have changed since
        versions = online_checks.versions(here, self._schema)
        self._check_same(self._wanted, arrival.contents(here, self._schema).objects)
        with self._writes_blocked(sequences=True) as holder:
            self._complete(online_checks.sequences(here, self._schema))
            replication.unpublish(holder, self._name)
            holder.execute(
                sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(
                    sql.Identifier(request.schema), sql.Identifier(request.kept)
                )
            )
            if self._journaled:
                journal.rename(holder, [request.schema], [request.kept])
            # this session still sees what there was
            with here.transaction():
                manage.refuse_used(here, request.schema, hint=_USED)
            self._check_unchanged(versions)
            holder.execute("COMMIT")
            _open(self._there, request.schema)

    def _check_unchanged(self, versions: tuple[Any, ...]) -> None:
        """Raise UserError if somebody has changed the definition since it was compared."""
        here, schema = self._here, self._schema
        now = online_checks.versions(here, schema)
        if now != versions or now[-1]:
            state = move.state(here, schema)
            self._check_same(self._wanted, arrival.contents(here, schema).objects)
            if move.state(here, schema) != state or online_checks.versions(here, schema) != now:
                raise _changed(f"{self._request.schema} meanwhile")

    def _complete(self, values: dict[str, tuple[Any, ...]]) -> None:
        """Have the target be as the source is, and on disk."""
        there, name = self._there, self._request.schema
        with there.transaction():
            self._check_keys(there)
            replication.short_waits(there)
            for within, table, trigger, enabled in self._triggers:
                there.execute(_trigger(within, table, _ENABLED[enabled], trigger))
            self._force(there, "FORCE")
            there.execute(
                "SELECT setval(s::pg_catalog.regclass, v, c) FROM unnest(%s::text[], %s::int8[], %s::bool[])"
                " AS u (s, v, c)",
                [list(values), [last for last, _ in values.values()], [called for _, called in values.values()]],
            )
            if self._journaled:
                journal.take(there, name, journal.given(self._here, name))
            # a commit that has written something waits until all before it is on disk
            there.execute("SELECT pg_logical_emit_message(true, 'pgbillion', '')")


_ENABLED = {"A": "ENABLE ALWAYS", "R": "ENABLE REPLICA"}
_USED = "drop that first"


def _changed(what: str) -> UserError:
    return UserError(f"somebody has changed {what}", "it is as that has left it, and nothing was moved: try again", 3)


def _trigger(schema: str, table: str, state: str, trigger: str) -> sql.Composed:
    return sql.SQL(f"ALTER TABLE ONLY {{}} {state} TRIGGER {{}}").format(
        sql.Identifier(schema, table), sql.Identifier(trigger)
    )


def _settle(conn: Connection) -> None:
    """Have names be pg_catalog's again, and texts be read as we write them, whatever was set."""
    conn.execute("SET LOCAL search_path = ''; SET LOCAL client_encoding = UTF8; SET LOCAL row_security = on")


def _encoding(conn: Connection) -> str | None:
    return conn.info.parameter_status("server_encoding")


def _conninfo(here: Connection, given: str | None) -> str:
    """Return how the target's server reaches the source: as we do if not told otherwise, without our password."""
    parts = conninfo_to_dict(given or "")
    info = here.info
    wanted = {"dbname": info.dbname, "user": info.user}
    if not parts.keys() & {"host", "hostaddr", "service"}:
        wanted = {"host": info.host, "port": str(info.port), **wanted}
    return make_conninfo("", **{**wanted, **parts})


# ---- before and after ----


@contextlib.contextmanager
def _alone(source: Target, schema: str) -> Iterator[None]:
    """Keep other moves of a tenant away. Raises UserError if there is one."""
    key = f"pgbillion tenants move --online {schema}"
    with source.connect(application_name=_NAME) as conn:
        if conn.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [key]).fetchone() != (True,):
            raise UserError(f"{schema} is being moved already", "wait for the end of that", 3)
        yield
        conn.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])


def _after_failure(source: Target, target: Target, schema: str, say: Say) -> None:
    """Take back what there is, or finish it if the source has committed; a server may be starting again meanwhile."""
    deadline = time.monotonic() + _RECONNECT_SECONDS
    while True:
        late = time.monotonic() > deadline
        try:
            if clear(source, target, schema, say=say, alone=late) is Cleared.FINISHED:
                say(f"{schema} has been moved all the same")
            return
        except (UserError, psycopg.Error) as error:
            if late:
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                say(f"something may be left of the move ({reason}); the same command with --abort removes it")
                return
            time.sleep(replication.SLOW_POLL_SECONDS)


def _take_back(here: Connection, there: Connection, name: str, record: Record, *, published: bool) -> None:
    """Remove what a move has made; the target's part first, so that the source's record is the last to go."""
    there.execute("SET client_min_messages = warning")
    found = replication.subscribed(there, name)
    if found is not None:
        replication.stop(there, name)
        with there.transaction():
            replication.unsubscribe(there, name)
            there.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(record.tenant)))
            if journal.exists(there):
                journal.forget(there, record.tenant)
        replication.drop_sync_slots(here, found[0], replication.source_of(there).split()[0])
    if published:
        _clear_source(here, name, record)
    else:
        replication.drop_slot(here, name)


def _clear_source(here: Connection, name: str, record: Record) -> None:
    here.execute("SET client_min_messages = warning")
    replication.drop_slot(here, name)
    if not (
        replication.put_back(here, name, record.tenant, record, _RECONNECT_SECONDS)
        and replication.patiently(here, _RECONNECT_SECONDS, partial(replication.unpublish, here, name))
    ):
        raise psycopg.errors.LockNotAvailable


def _finish(here: Connection, there: Connection, name: str, record: Record, *, say: Say) -> bool:
    """Remove what has replicated a tenant that has been moved, and its source if wanted; tell whether that is gone.

    The subscription, its record, is the last to go.
    """
    here.execute("SET client_min_messages = warning")
    _open(there, record.tenant)
    replication.stop(there, name)
    replication.drop_slot(here, name)
    _unguard(there, record.tenant, say)
    gone = _give_up(here, record, say)
    with there.transaction():
        replication.unsubscribe(there, name)
    return gone


def _open(there: Connection, schema: str) -> None:
    """Let clients write to the target's tables, also while others read them."""
    function = sql.Identifier(schema, _GUARD)
    if _guarded(there, schema):
        there.execute(sql.SQL(_OPENED).format(function))


def _guarded(there: Connection, schema: str) -> bool:
    return (
        there.execute(
            "SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
            " WHERE n.nspname = %s AND p.proname = %s AND p.pronargs = 0",
            [schema, _GUARD],
        ).fetchone()
        is not None
    )


def _unguard(there: Connection, schema: str, say: Say) -> None:
    """Remove what has kept clients from writing, table by table, as each takes a moment without others there."""
    function = sql.SQL("DROP FUNCTION {}()").format(sql.Identifier(schema, _GUARD))
    rows = there.execute(
        "SELECT c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND t.tgname = %s",
        [schema, _GUARD],
    ).fetchall()
    drops = [
        sql.SQL("DROP TRIGGER {} ON {}").format(sql.Identifier(_GUARD), sql.Identifier(schema, table))
        for (table,) in rows
    ]
    drops += [function] if _guarded(there, schema) else []
    for drop in drops:
        if not replication.patiently(there, _RECONNECT_SECONDS, partial(there.execute, drop)):
            say(f"triggers that do nothing any more are left in the target: {function.as_string()} CASCADE")
            return


def _give_up(here: Connection, record: Record, say: Say) -> bool:
    """Drop the source, or have its tables be as they were."""
    found = here.execute(
        "SELECT FROM pg_namespace WHERE oid = %s::oid AND nspname = %s", [record.schema, record.kept]
    ).fetchone()
    if found is None:
        return True

    def drop() -> None:
        manage.refuse_used(here, record.kept, hint=_USED)
        here.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(record.kept)))
        if journal.exists(here):
            journal.forget(here, record.kept)

    try:
        if record.drop:
            if replication.patiently(here, _RECONNECT_SECONDS, drop):
                return True
        elif replication.put_back(here, "", record.kept, record, _RECONNECT_SECONDS):
            return False
        reason = "others are still at work in it"
    except UserError as error:
        reason = error.message
    say(f"what was moved is still in the source, as {record.kept}: {reason}")
    return False
