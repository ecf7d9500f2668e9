"""Import the tenants of an export (fleet.py) into a database of the same major version or a later one.

Of each kind the first tenant is restored from its definition: up to its tables, then its rows, then indexes,
constraints and triggers, as pg_restore does it. The others are clones of it. The extension makes clones with all that
they have before there are rows: these are copied with session_replication_role as it is for replication, so that
neither triggers nor foreign keys see them. Where the role may not set that, or a trigger would run all the same,
PostgreSQL's commands make the clone, and the rows come before its triggers and foreign keys.

Each tenant comes in a transaction, which also records it in a table beside the journal of migrations. That is how
another run knows what came before; the table is dropped when all are there. Tenants with consecutive numbers that have
nothing but their definition share a transaction, as clones that are made by one call take less time.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg import sql

from pgbillion.common import copying, invocation, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import extension
from pgbillion.tables.plan import Method
from pgbillion.tenants import arrival, commands, fleet, journal, lock_table, needs, schemas
from pgbillion.tenants.fleet_export import MAX_WORKERS, lost, said

Observe = Callable[[int], AbstractContextManager[Callable[[int], None]]]

_NAME = "pgbillion tenants import"
_SETTINGS = (
    "SET client_min_messages = warning; SET DateStyle = ISO; SET IntervalStyle = postgres; SET xmloption = content;"
    " SET default_tablespace = ''; SET check_function_bodies = off;"
    # a materialized view is of the rows that its owner may see
    " SET row_security = on"
)
_OURS = "pgbillion_journal.imported"
_TABLES_PER_SESSION = 5_000
# from this number of clones on, learning how to make them pays
_LEARNED_FROM = 4
# how many clones, made together, tell how to make the others
_LEARNED = 3
# the most tenants that come together in a transaction, and the most bytes of their rows
_TOGETHER = 20
_BYTES_TOGETHER = 16 << 20
# … and the fewest of these transactions for each session
_TURNS = 4
# the last number in a name
_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)", re.DOTALL)
_BLOCK = 1 << 18
_RETRIES = 6
_PASSING = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_SHOWN = 5


@dataclass(frozen=True)
class Request:
    """What to import, and how; without a ``method`` the extension clones if it is there."""

    directory: Path
    workers: int = 1
    method: Method | None = None
    trust_owner: bool = False

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS}, not {self.workers:,}")


@dataclass
class Outcome:
    """What came; ``before`` tenants were there already, and ``left_out`` is not in the export."""

    tenants: int
    before: int = 0
    done: int = 0
    rows: int = 0
    left_out: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


def import_(target: Target, request: Request, *, observe: Observe) -> Outcome:
    """Import the tenants that are not there. Raises UserError, before anything is written, for what stops all."""
    start = time.monotonic()
    directory = fleet.Directory(request.directory)
    manifest = _manifest(directory, request)
    with target.connect(application_name=_NAME) as conn:
        arrival.patient(conn)
        conn.execute("SET client_min_messages = warning")
        arrival.check_database(conn)
        _check(conn, manifest, request)
        with _alone(conn):
            before = _before(conn, manifest)
            _check_names(conn, manifest, before)
            journal.make(conn)
            _make_record(conn)
            run = _Run(target, request, directory, manifest, conn, before)
            with observe(len(manifest.tenants) - len(before)) as update:
                run.all(update)
            if not run.outcome.failures:
                _drop_record(conn, manifest)
    run.outcome.seconds = time.monotonic() - start
    return run.outcome


# ---- what is known before anything is done ----


def _manifest(directory: fleet.Directory, request: Request) -> fleet.Manifest:
    manifest = directory.read()
    if manifest is None:
        make = invocation.command("tenants", "export", "--all", "DIR")
        raise UserError(f"{request.directory} is no export", f"make one with: {make}")
    if manifest.finished is None:
        raise UserError(
            f"the export in {request.directory} is not complete", "go on with it by the command that began it"
        )
    return manifest


def _check(conn: Connection, manifest: fleet.Manifest, request: Request) -> None:
    """Look at all that can be known before anything is done."""
    major = arrival.major(conn)
    if major < manifest.major:
        raise UserError(
            f"the target is PostgreSQL {major}, and the export is of {manifest.major}",
            "what a newer server has may be unknown to an older one: import into the same version or a newer one",
        )
    written = max((kind.least_major for kind in manifest.kinds.values()), default=0)
    if major < written:
        raise UserError(
            f"the target is PostgreSQL {major}, and pg_dump of {written} has written the definitions",
            f"export again with pg_dump of {manifest.major} to {major}: --bindir names its directory",
        )
    ours = manifest.tenants.keys()
    wanted = {need for kind in manifest.kinds.values() for need in kind.needs if not _within(need, ours)}
    wanted |= {needs.Need("role", tenant.owner) for tenant in manifest.tenants.values()}
    absent = needs.missing(conn, sorted(wanted, key=str))
    if absent:
        roles = any(need.kind == "role" for need in absent)
        raise UserError(
            f"the target lacks what the tenants need: {needs.listed(absent)}",
            "create that there first" + ("; pg_dumpall --roles-only shows how roles are made" if roles else ""),
            3,
        )
    if not request.trust_owner:
        code = [one for kind in manifest.kinds.values() for one in kind.code]
        arrival.check_code(conn, code, "import as {role}")
    if request.method is Method.BULK:
        extension.ensure_extension(conn, extension.TABLES, instead="--method sql")


def _within(need: needs.Need, names: Any) -> bool:
    """Tell whether the export has what is needed."""
    return need.schema in names or (need.kind == "schema" and need.address is not None and need.address[0][0] in names)


@contextlib.contextmanager
def _alone(conn: Connection) -> Iterator[None]:
    """Keep other imports out of the database. Raises UserError if one is at work."""
    lock = "hashtextextended(%s, 0)"
    if not conn.execute(f"SELECT pg_try_advisory_lock({lock})".encode(), [_NAME]).fetchall()[0][0]:
        raise UserError(f"another import is at work in {conn.info.dbname}", "wait for its end", 3)
    yield
    # otherwise the end of the session frees it
    conn.execute(f"SELECT pg_advisory_unlock({lock})".encode(), [_NAME])


def _before(conn: Connection, manifest: fleet.Manifest) -> set[str]:
    """Return which tenants an earlier run has brought. Raises UserError if the journal is another role's."""
    if not journal.exists(conn):
        return set()
    if not conn.execute("SELECT has_schema_privilege(%s, 'CREATE')", [schemas.JOURNAL]).fetchall()[0][0]:
        raise UserError(
            f"no privilege to create a table in {schemas.JOURNAL}, in which import records what has come",
            "import as the role that owns that schema, or as a superuser",
            3,
        )
    if conn.execute(f"SELECT to_regclass('{_OURS}')".encode()).fetchall()[0][0] is None:
        return set()
    rows = conn.execute(
        f"SELECT i.tenant FROM {_OURS} i JOIN pg_namespace n ON n.oid = i.schema AND n.nspname::text = i.tenant"
        " WHERE i.export = %s".encode(),
        [manifest.id],
    ).fetchall()
    return {name for (name,) in rows} & manifest.tenants.keys()


def _check_names(conn: Connection, manifest: fleet.Manifest, before: set[str]) -> None:
    """Raise UserError if schemas of others have names of tenants."""
    rows = conn.execute(
        "SELECT nspname::text FROM pg_namespace WHERE nspname = ANY (%s::text[]) ORDER BY 1",
        [sorted(manifest.tenants.keys() - before)],
    ).fetchall()
    if rows:
        shown = ", ".join(name for (name,) in rows[:_SHOWN])
        more = f" and {len(rows) - _SHOWN:,} more" if len(rows) > _SHOWN else ""
        raise UserError(
            f"the target, {conn.info.dbname}, has schemas of these names already: {shown}{more}",
            f"rename or drop them, as with: {invocation.command('tenants', 'rename', 'OLD', 'NEW')}",
            3,
        )


def _make_record(conn: Connection) -> None:
    """Make the table of tenants that have come, in the journal's schema, which others cannot write to."""
    conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_OURS} (export pg_catalog.text NOT NULL, tenant pg_catalog.text NOT NULL,"
        " schema pg_catalog.oid NOT NULL, PRIMARY KEY (export, tenant))".encode()
    )


def _drop_record(conn: Connection, manifest: fleet.Manifest) -> None:
    """Forget which tenants have come, as all have."""
    with conn.transaction():
        conn.execute(f"LOCK TABLE {_OURS}".encode())
        conn.execute(f"DELETE FROM {_OURS} WHERE export = %s".encode(), [manifest.id])
        if conn.execute(f"SELECT FROM {_OURS} LIMIT 1".encode()).fetchone() is None:
            conn.execute(f"DROP TABLE {_OURS}".encode())


# ---- the import ----


class _Run:
    """An import that goes on until all tenants are there or have failed."""

    def __init__(
        self,
        target: Target,
        request: Request,
        directory: fleet.Directory,
        manifest: fleet.Manifest,
        conn: Connection,
        before: set[str],
    ) -> None:
        self.outcome = Outcome(len(manifest.tenants), len(before), left_out=list(manifest.left_out))
        if manifest.failed:
            failed = text.many(len(manifest.failed), "tenant")
            self.outcome.left_out.append(f"{failed} that could not be exported, such as {min(manifest.failed)}")
        self._target = target
        self._request = request
        self._directory = directory
        self._manifest = manifest
        self._conn = conn
        self._before = before
        self._lock = threading.Lock()
        self._locks = lock_table.LockTable(conn)
        self._over = 0
        self._same = arrival.major(conn) == manifest.major
        self._bulk = request.method is not Method.SQL and extension.usable(conn, extension.TABLES, "clone_schema")
        # who may have triggers and foreign keys pass over rows
        self._quiet = conn.execute(
            "SELECT has_parameter_privilege(current_user, 'session_replication_role', 'SET')"
        ).fetchall()[0][0]

    def all(self, update: Callable[[int], None]) -> None:
        self._update = update
        for kinds in list(self._levels()):
            self._each(self._first, [kind for kind in kinds if kind.first not in self._before])
            of = defaultdict(list)
            for name, tenant in self._manifest.tenants.items():
                if name not in self._before and name != self._manifest.kinds[tenant.kind].first:
                    of[tenant.kind].append(name)
            tasks: list[tuple[_Model, list[str]]] = []
            for kind in kinds:
                if of[kind.number]:
                    tasks += self._clones(kind, sorted(of[kind.number]))
            self._in_sessions(tasks)

    def _levels(self) -> Iterator[list[fleet.Kind]]:
        """Give the kinds, each after those with what it needs, and those that can come at once together."""
        tenants = self._manifest.tenants
        left = dict(self._manifest.kinds)
        needed = {
            number: {
                tenants[name].kind
                for need in kind.needs
                for name in {need.schema, need.address[0][0] if need.kind == "schema" and need.address else None}
                if name is not None and name in tenants
            }
            - {number}
            for number, kind in left.items()
        }
        while left:
            ready = [kind for number, kind in left.items() if not needed[number] & left.keys()]
            if not ready:
                names = ", ".join(sorted(kind.first for kind in left.values())[:_SHOWN])
                raise UserError(f"tenants need each other in a circle: {names}", "pg_dump and pg_restore take them", 3)
            yield ready
            for kind in ready:
                del left[kind.number]

    def _failed(self, names: Sequence[str], message: str) -> None:
        with self._lock:
            self.outcome.failures.update(dict.fromkeys(names, message))
            self._over += len(names)
        self._update(self._over)

    def _arrived(self, tenant: fleet.Tenant) -> None:
        with self._lock:
            self.outcome.done += 1
            self.outcome.rows += tenant.rows
            self._over += 1
        self._update(self._over)

    def _each(self, work: Callable[[together.Team, fleet.Kind], None], kinds: Sequence[fleet.Kind]) -> None:
        with together.team(self._request.workers) as team:
            team.finish([team.start(work, team, kind) for kind in kinds])

    # ---- the first of a kind ----

    def _first(self, team: together.Team, kind: fleet.Kind) -> None:
        """Restore the first tenant of a kind."""
        if team.stopped.is_set():
            return
        tenant = self._manifest.tenants[kind.first]
        try:
            before, after, objects = (
                self._directory.get(kind, fleet.BEFORE),
                self._directory.get(kind, fleet.AFTER),
                self._directory.objects(kind),
            )
            extras = self._directory.extras(tenant)
            # a session of its own, as the definition sets what it needs
            with self._session(team) as conn, conn.transaction():
                conn.execute(before)
                _settle(conn)
                self._fill(conn, kind.first, tenant, extras)
                conn.execute(after)
                _settle(conn)
                found = arrival.contents(conn, arrival.oid_of(conn, kind.first)).objects
                for key in kind.left_out:
                    objects.pop(key, None)
                if wrong := arrival.differences(objects, found, same=self._same):
                    raise UserError(f"what was restored is not the same: {arrival.some(wrong)}")
                self._finish(conn, kind.first, extras)
        except (UserError, psycopg.Error) as error:
            if team.stopped.is_set() or lost(error):
                raise
            self._failed([kind.first], said(error))
        else:
            self._arrived(tenant)

    # ---- the others ----

    def _clones(self, kind: fleet.Kind, names: Sequence[str]) -> list[tuple[_Model, list[str]]]:
        """Return what is to be cloned, once it is known how, and what of it in one transaction."""
        conn = self._conn
        if kind.first in self.outcome.failures:
            self._failed(names, f"not begun, as it is a clone of {kind.first}, which has failed")
            return []
        oid = arrival.oid_of(conn, kind.first)
        if kind.first in self._before:
            objects = self._directory.objects(kind)
            for key in kind.left_out:
                objects.pop(key, None)
            if wrong := arrival.differences(objects, arrival.contents(conn, oid).objects, same=self._same):
                self._failed(
                    names, f"not begun, as {kind.first} was changed since it was imported: {arrival.some(wrong)}"
                )
                return []
        with conn.transaction(force_rollback=True):
            locks = lock_table.needed(conn, kind.first)
        fires, comment, views = conn.execute(load("tenants", "fleet_model").encode(), {"schema": oid}).fetchall()[0]
        model = _Model(kind, oid, locks, self._bulk, self._bulk and self._quiet and not fires, comment, views)
        if not self._bulk or len(names) < _LEARNED_FROM:
            return [(model, [name]) for name in names]
        several = extension.usable(conn, extension.TABLES, "clone_schemas") and not views

        def fits(name: str) -> bool:
            return several and self._fits(model, name)

        rows = any(self._manifest.tenants[name].data for name in names)
        most = min(_TOGETHER, len(names) // (_TURNS * self._request.workers))
        if rows:
            # what has rows is locked
            most = min(most, self._locks.room // (self._request.workers * max(1, locks)))
        if extension.usable(conn, extension.TABLES, "prepare_clone"):
            learned = next((run for run in _numbered(names, _LEARNED, fits) if len(run) == _LEARNED), [])
            # commands lock what they make
            if learned and self._locks.fits(_LEARNED * locks):
                self._in_sessions([(model, learned)])
                names = [name for name in names if name not in learned]
            if not self._prepare(oid):
                most = 1
        else:
            most = 1
        return [(model, run) for run in _numbered(names, max(1, most), fits)]

    def _fits(self, model: _Model, name: str) -> bool:
        """Tell whether a tenant can come together with others."""
        tenant = self._manifest.tenants[name]
        return (model.quiet or not tenant.data) and tenant.data <= _BYTES_TOGETHER // _TOGETHER

    def _prepare(self, oid: int) -> bool:
        """Have clones need no commands, where the role may and the template can; tell whether that is so."""
        query = "SELECT pgbillion_tables.prepare_clone(%s::pg_catalog.oid::pg_catalog.regnamespace)"
        return bool(self._conn.execute(query.encode(), [oid]).fetchall()[0][0])

    def _in_sessions(self, tasks: Sequence[tuple[_Model, list[str]]]) -> None:
        """Make clones in several sessions, each taking the next ones."""
        todo = iter(tasks)

        def take() -> tuple[_Model, list[str]] | None:
            with self._lock:
                return next(todo, None)

        def work(team: together.Team) -> None:
            task = take()
            while task is not None and not team.stopped.is_set():
                with self._session(team) as conn:
                    makers: dict[int, commands.Maker] = {}
                    locks = 0
                    while task is not None and not team.stopped.is_set() and locks < _TABLES_PER_SESSION * 10:
                        model, names = task
                        if len(names) > 1 and self._clone_together(team, conn, model, names):
                            # what is written as catalog rows alone stays in no cache
                            locks += model.locks * self._filled(names)
                        else:
                            for name in names:
                                self._clone(team, conn, makers, model, name)
                            locks += model.locks * len(names)
                        task = take()

        with together.team(max(1, min(self._request.workers, len(tasks)))) as team:
            team.finish([team.start(work, team) for _ in range(min(self._request.workers, len(tasks)))])

    def _session(self, team: together.Team) -> Connection:
        conn = self._target.connect(application_name=_NAME)
        team.session(conn)
        arrival.patient(conn)
        conn.execute(_SETTINGS.encode())
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return conn

    def _clone_together(self, team: together.Team, conn: Connection, model: _Model, names: Sequence[str]) -> bool:
        """Make tenants with consecutive numbers; False if one of them fails, and none has come then."""
        found = _NUMBERED.fullmatch(names[0])
        assert found is not None
        before, number, after = (found[1].replace("%", "%%"), found[2], found[3].replace("%", "%%"))
        arguments = [model.oid, f"{before}%0{len(number)}d{after}", int(number), len(names)]
        tenants = [self._manifest.tenants[name] for name in names]
        try:
            with self._locks.taken(model.locks * (1 + self._filled(names))), conn.transaction():
                conn.execute(
                    "SELECT pgbillion_tables.clone_schemas(%s::pg_catalog.oid::pg_catalog.regnamespace, %s, %s, %s)",
                    arguments,
                )
                _settle(conn)
                owner = self._manifest.tenants[model.kind.first].owner
                plain = []
                for name, tenant in zip(names, tenants, strict=True):
                    if tenant.checksum is not None or tenant.owner != owner or model.comment is not None:
                        extras = self._directory.extras(tenant)
                        self._fill_quietly(conn, name, tenant, extras)
                        self._give(conn, model, name, tenant, extras)
                    else:
                        plain.append(name)
                if plain:
                    journal.forget(conn, *plain)
                    self._record(conn, plain)
        except (UserError, psycopg.Error) as error:
            if team.stopped.is_set() or lost(error):
                raise
            return False
        for tenant in tenants:
            self._arrived(tenant)
        return True

    def _filled(self, names: Sequence[str]) -> int:
        """Return how many tenants have rows."""
        return sum(self._manifest.tenants[name].data > 0 for name in names)

    def _clone(
        self, team: together.Team, conn: Connection, makers: dict[int, commands.Maker], model: _Model, name: str
    ) -> None:
        """Make one tenant, whole."""
        tenant = self._manifest.tenants[name]
        try:
            extras = self._directory.extras(tenant)
            with self._locks.taken(model.locks):
                for attempt in itertools.count():
                    try:
                        with conn.transaction():
                            self._make(conn, makers, model, name, tenant, extras)
                        break
                    except _PASSING:
                        if attempt == _RETRIES:
                            raise
                        time.sleep(0.05 * 2**attempt)
        except (UserError, psycopg.Error) as error:
            if team.stopped.is_set() or lost(error):
                raise
            self._failed([name], said(error))
        else:
            self._arrived(tenant)

    def _make(
        self,
        conn: Connection,
        makers: dict[int, commands.Maker],
        model: _Model,
        name: str,
        tenant: fleet.Tenant,
        extras: fleet.Extras,
    ) -> None:
        if model.bulk and (model.quiet or not extras.tables):
            conn.execute(
                "SELECT pgbillion_tables.clone_schema(%s::pg_catalog.oid::pg_catalog.regnamespace, %s)",
                [model.oid, name],
            )
            self._fill_quietly(conn, name, tenant, extras)
        else:
            kind = model.kind
            maker = makers.setdefault(kind.number, commands.Maker(conn, commands.Wish(kind.first)))
            maker.make(model.oid, [name], fill=partial(self._fill, conn, tenant=tenant, extras=extras))
        _settle(conn)
        self._give(conn, model, name, tenant, extras)

    def _give(self, conn: Connection, model: _Model, name: str, tenant: fleet.Tenant, extras: fleet.Extras) -> None:
        """Give a clone what the tenant has otherwise, and record it."""
        owner = self._manifest.tenants[model.kind.first].owner
        if tenant.owner != owner:
            given = {"schema": name, "old": owner, "new": tenant.owner}
            for (command,) in conn.execute(load("tenants", "fleet_owned").encode(), given).fetchall():
                conn.execute(command.encode())
        if extras.comment != model.comment:
            comment = sql.SQL("COMMENT ON SCHEMA {} IS {}")
            conn.execute(comment.format(sql.Identifier(name), sql.Literal(extras.comment)))
        for view in model.views:
            if view not in extras.views:
                # it is filled in what was cloned
                conn.execute(sql.SQL("REFRESH MATERIALIZED VIEW {} WITH NO DATA").format(sql.Identifier(name, view)))
        self._finish(conn, name, extras)

    # ---- what a tenant has of its own ----

    def _fill_quietly(self, conn: Connection, name: str, tenant: fleet.Tenant, extras: fleet.Extras) -> None:
        """Fill a clone without its triggers."""
        if extras.tables:
            conn.execute("SET LOCAL session_replication_role = replica")
        self._fill(conn, name, tenant, extras)
        if extras.tables:
            conn.execute("SET LOCAL session_replication_role = origin")
            _settle(conn)

    def _fill(self, conn: Connection, name: str, tenant: fleet.Tenant, extras: fleet.Extras) -> None:
        """Copy a tenant's rows, and set its sequences."""
        if extras.tables:
            if self._manifest.encoding is not None:
                conn.execute("SELECT set_config('client_encoding', %s, true)", [self._manifest.encoding])
            commands = []
            for table, columns, *_ in extras.tables:
                listed = f" ({', '.join(map(quoted, columns))})" if columns else ""
                commands.append(f"COPY {quoted(name, table)}{listed} FROM STDIN")
            with self._directory.rows(tenant.number).open("rb") as file:
                copied = copying.into(conn, commands, (_blocks(file, size) for *_, size in extras.tables))
            for (table, _, rows, _), number in zip(extras.tables, copied, strict=True):
                if number != rows:
                    raise UserError(f"{table} has {text.many(number, 'row')} here, and {rows:,} there")
            conn.execute("SET LOCAL client_encoding = UTF8")
        if extras.sequences:
            conn.execute(
                "SELECT setval(s::pg_catalog.regclass, v, c)"
                " FROM unnest(%s::text[], %s::int8[], %s::bool[]) AS u (s, v, c)",
                [
                    [quoted(name, sequence) for sequence, *_ in extras.sequences],
                    [last for _, last, _ in extras.sequences],
                    [called for *_, called in extras.sequences],
                ],
            )

    def _finish(self, conn: Connection, name: str, extras: fleet.Extras) -> None:
        """Fill materialized views, and record the tenant; the last thing in its transaction."""
        for view in extras.views:
            conn.execute(sql.SQL("REFRESH MATERIALIZED VIEW {}").format(sql.Identifier(name, view)))
        journal.take(conn, name, [[name, *row] for row in extras.journal])
        self._record(conn, [name])

    def _record(self, conn: Connection, names: Sequence[str]) -> None:
        conn.execute(
            f"INSERT INTO {_OURS} SELECT %s, n.nspname, n.oid FROM pg_namespace n"
            " WHERE n.nspname = ANY (%s::text[])".encode(),
            [self._manifest.id, list(names)],
        )


def _blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size and (block := file.read(min(size, _BLOCK))):
        yield block
        size -= len(block)


def _numbered(names: Sequence[str], most: int, fits: Callable[[str], bool]) -> Iterator[list[str]]:
    """Give names in runs: those that fit, with consecutive numbers of one length, ``most`` at a time; others alone."""
    keys = {}
    for name in names:
        found = _NUMBERED.fullmatch(name) if fits(name) else None
        if found is None:
            yield [name]
        else:
            keys[name] = (found[1], found[3], len(found[2]), int(found[2]))
    run: list[str] = []
    for name in sorted(keys, key=keys.__getitem__):
        *same, number = keys[name]
        if run and (keys[run[-1]] != (*same, number - 1) or len(run) == most):
            yield run
            run = []
        run.append(name)
    if run:
        yield run


@dataclass(frozen=True)
class _Model:
    """The first of a kind, of which others are clones: by the extension if ``bulk``, with rows too if ``quiet``.

    ``comment`` is on the schema, and ``views`` are the materialized ones with contents.
    """

    kind: fleet.Kind
    oid: int
    locks: int
    bulk: bool
    quiet: bool
    comment: str | None
    views: list[str]


def _settle(conn: Connection) -> None:
    """Have names be pg_catalog's again, and texts be read as we write them, whatever was set."""
    conn.execute("SET LOCAL search_path = ''; SET LOCAL client_encoding = UTF8; SET LOCAL row_security = on")
