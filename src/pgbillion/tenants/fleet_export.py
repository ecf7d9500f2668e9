"""Export many tenants into a directory (fleet.py): each definition once, and each tenant's rows by COPY.

Tenants with the same definitions are of one kind, whose definition is that of the first of them. A tenant's rows are
read from one snapshot, with its tables locked against changes of their definitions. If its fingerprint is no longer
that of its kind then, it fails, and the next run finds it a kind; where no transaction has ended in between, the
fingerprint is not read again.

A transaction reads several small tenants, as each of its queries takes longer to be planned than to be run for one of
them. Of a large tenant, and of one that another one failed with, it reads only that: so no more locks are held than one
tenant's for each session, or those of a share of the lock table.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

import psycopg

from pgbillion.common import copying, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import literal, quoted
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import client, extension
from pgbillion.tenants import arrival, definition, dump, fingerprints, fleet, journal, needs, schemas
from pgbillion.tenants.lock_table import LockTable

Observe = Callable[[str], Callable[[int], AbstractContextManager[Callable[[int], None]]]]

MAX_WORKERS = 100
_NAME = "pgbillion tenants export"
_LOCK_TIMEOUT = 60_000  # milliseconds
# what values look like must not depend on the session's settings, as pg_dump's do not
_SETTINGS = (
    "SET DateStyle = ISO; SET IntervalStyle = postgres; SET extra_float_digits = 3; SET bytea_output = hex;"
    " SET client_min_messages = warning"
)
# a session keeps what it has read of each table: another one begins after this many
_TABLES_PER_SESSION = 5_000
# locks of a table: its own, those of TOAST and that one's index, and a sequence's
_LOCKS_PER_TABLE = 4
_READ_AGAIN = 3
# the most tables of tenants that are read by one transaction, and about the most bytes of their rows
_TABLES_TOGETHER = 1_000
_BYTES_TOGETHER = 16 << 20
# … and the fewest of these transactions for each session
_TURNS = 4
# the first version with a function that returns the values of any sequence
_SEQUENCE_DATA_FROM = 18
_SEQUENCES_PER_QUERY = 100


@dataclass(frozen=True)
class Request:
    """What to export, and where to."""

    directory: Path
    pattern: str = "*"
    workers: int = 1
    bindir: Path | None = None

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if not 1 <= self.workers <= MAX_WORKERS:
            raise UserError(f"the number of jobs must be between 1 and {MAX_WORKERS}, not {self.workers:,}")


@dataclass
class Outcome:
    """What the directory has now, and what it lacks; ``before`` tenants were there already."""

    path: str
    tenants: int = 0
    before: int = 0
    kinds: int = 0
    rows: int = 0
    size: int = 0
    needs: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


def export(source: Target, request: Request, *, observe: Observe) -> Outcome:
    """Export the tenants that the directory lacks. Raises UserError for what concerns all of them."""
    start = time.monotonic()
    directory = fleet.Directory(request.directory)
    with source.connect(application_name=_NAME) as conn:
        arrival.patient(conn)
        names = schemas.select(conn, request.pattern)
        identity = _identity(conn)
        programs = client.find(arrival.major(conn), None, request.bindir)
        directory.make()
        with directory.held():
            manifest = directory.read() or fleet.Manifest(identity, request.pattern, started=fleet.now())
            _check_same(manifest, identity, request)
            manifest.finished = None
            manifest.failed = {}
            run = _Run(source, request, directory, manifest, conn, programs)
            outcome = run.all(names, observe)
    outcome.seconds = time.monotonic() - start
    return outcome


def _identity(conn: Connection) -> dict[str, Any]:
    """Return which database it is."""
    row = conn.execute(
        "SELECT d.datname::text, d.oid::int8, current_setting('server_version_num')::int4,"
        " pg_encoding_to_char(d.encoding)::text FROM pg_database d WHERE d.datname = current_database()"
    ).fetchall()[0]
    identity = dict(zip(("database", "oid", "version", "encoding"), row, strict=True))
    try:
        system = conn.execute("SELECT system_identifier::text FROM pg_control_system()").fetchall()[0][0]
    except psycopg.errors.InsufficientPrivilege:
        system = None
    return {**identity, "system": system}


def _check_same(manifest: fleet.Manifest, identity: dict[str, Any], request: Request) -> None:
    """Raise UserError if the directory is the export of something else."""
    mine = {name: identity[name] for name in ("system", "oid", "encoding")}
    if mine != {name: manifest.source.get(name) for name in mine}:
        raise UserError(
            f"{request.directory} is an export of another database, {manifest.source['database']}",
            "name a new directory",
        )
    if manifest.pattern != request.pattern:
        raise UserError(
            f'{request.directory} is an export of "{manifest.pattern}", not of "{request.pattern}"',
            "name a new directory, or the same pattern again",
        )
    # of a server that was upgraded in place, the later version
    manifest.source.update(identity)


class _Run:
    """An export that goes on until all tenants are there or have failed."""

    def __init__(
        self,
        source: Target,
        request: Request,
        directory: fleet.Directory,
        manifest: fleet.Manifest,
        conn: Connection,
        programs: client.Programs,
    ) -> None:
        self._source = source
        self._request = request
        self._directory = directory
        self._manifest = manifest
        self._conn = conn
        self._programs = programs
        self._lock = threading.Lock()
        self._locks = LockTable(conn)
        self._journaled = journal.exists(conn)
        self._names: dict[int, str] = {}
        self._owners: dict[int, str] = {}
        self._kind_of: dict[int, fleet.Kind] = {}
        # by which query and its fingerprint a tenant is known again, and the snapshot that this was read from
        self._prints: dict[int, tuple[bytes, str | None]] = {}
        self._snapshots: dict[int, str | None] = {}
        self._tables: dict[int, int] = {}

    def all(self, names: Sequence[str], observe: Observe) -> Outcome:
        manifest, directory = self._manifest, self._directory
        rows = self._conn.execute(
            "SELECT n.oid::int8, n.nspname::text, r.rolname::text FROM pg_namespace n"
            " JOIN pg_roles r ON r.oid = n.nspowner WHERE n.nspname = ANY (%s::text[])"
            ' ORDER BY n.nspname COLLATE "C"',
            [list(names)],
        ).fetchall()
        self._names = {oid: name for oid, name, _ in rows}
        self._owners = {oid: owner for oid, _, owner in rows}
        outcome = Outcome(str(self._request.directory))
        with observe("compared")(len(self._names)) as update:
            self._find_kinds(update)
        directory.write(manifest)
        self._define([kind for kind in manifest.kinds.values() if not kind.defined])
        over = manifest.failed.keys() | manifest.tenants.keys()
        todo = [oid for oid, name in self._names.items() if name not in over]
        outcome.before = len(self._names) - len(todo) - len(manifest.failed)
        with observe("exported")(len(todo)) as update:
            self._copy(todo, update)
        self._choose_others()
        manifest.left_out = self._left_out()
        manifest.finished = fleet.now()
        directory.write(manifest)
        return self._told(outcome)

    def _told(self, outcome: Outcome) -> Outcome:
        manifest = self._manifest
        outcome.tenants, outcome.kinds = len(manifest.tenants), len(manifest.kinds)
        outcome.rows = sum(tenant.rows for tenant in manifest.tenants.values())
        outcome.size = self._directory.size()
        outcome.left_out = manifest.left_out
        outcome.failures = dict(sorted(manifest.failed.items()))
        wanted = {
            need for kind in manifest.kinds.values() for need in kind.needs if need.schema not in manifest.tenants
        }
        outcome.needs = needs.shown(wanted)
        return outcome

    # ---- kinds ----

    def _find_kinds(self, update: Callable[[int], None]) -> None:
        """Find which tenants are the same, and forget what the directory has of tenants that have changed since."""
        conn, workers, manifest = self._conn, self._request.workers, self._manifest
        oids = list(self._names)
        fingerprints.settle(conn)
        size = fingerprints.per_query(conn, oids[0])
        rows = fingerprints.Reader(self._source, "row_fingerprints", size, workers)
        texts = fingerprints.Reader(self._source, "fleet_fingerprints", size, workers)
        groups = [[oid] for oid in oids]
        if extension.usable(conn, extension.TABLES, "schema_fingerprints"):
            rows.read(groups, update)
            groups = rows.grouped(groups)
        texts.read(groups, update)
        found = {oid: texts.found.get(group[0], f"schema {oid}") for group in groups for oid in group}
        for oid in oids:
            by_row = rows.found.get(oid)
            self._prints[oid] = (texts.query, found[oid]) if by_row is None else (rows.query, by_row)
            reader = texts if by_row is None else rows
            self._snapshots[oid] = reader.snapshots.get(oid)
            self._tables[oid] = reader.tables.get(oid, 0)
        apart = defaultdict(list)
        for oid, what in conn.execute(load("tenants", "fleet_apart").encode(), {"schemas": oids}):
            apart[oid].append(what)
        # a fingerprint tells whether constraints are valid
        firsts = {found[oid]: oid for oid in oids}
        not_valid = {oid for (oid,) in conn.execute(load("tenants", "fleet_not_valid").encode(), [[*firsts.values()]])}
        for oid in oids:
            if firsts[found[oid]] in not_valid:
                # a schema of its own kind
                apart[oid].append(f"schema {oid}")
        alike: dict[str, list[int]] = defaultdict(list)
        for oid in oids:
            key = " ".join([found[oid], *sorted(apart[oid])])
            alike[hashlib.sha256(key.encode()).hexdigest()].append(oid)
        kinds = [*itertools.chain.from_iterable(self._cloneable(key, group) for key, group in alike.items())]
        self._keep(dict(kinds))
        known = {kind.key: kind for kind in manifest.kinds.values()}
        number = max(manifest.kinds, default=0)
        for key, group in kinds:
            if key not in known:
                number += 1
                first = self._names[self._first_of(group)]
                manifest.kinds[number] = known[key] = fleet.Kind(number, key, first)
            self._kind_of.update(dict.fromkeys(group, known[key]))

    def _cloneable(self, key: str, group: list[int]) -> Iterator[tuple[str, list[int]]]:
        """Give tenants of one kind, or each as its own if they have what cannot be cloned."""
        name = self._names[group[0]]
        if len(group) > 1:
            try:
                with self._conn.transaction(force_rollback=True):
                    definition.settle(self._conn)
                    definition.refuse(self._conn, group[0], name)
                    definition.read(self._conn, group[0], name)
            except UserError:
                yield from ((f"{key} {oid}", [oid]) for oid in group)
                return
        yield key, group

    def _first_of(self, group: Sequence[int]) -> int:
        """Return the tenant with the most tables that are lazy still, as those of the clones will then be, too."""
        if len(group) == 1:
            return group[0]
        rows = self._conn.execute(
            "SELECT c.relnamespace::int8, count(*) FROM pg_am m JOIN pg_depend d ON d.refclassid = 'pg_am'::regclass"
            " AND d.refobjid = m.oid AND d.classid = 'pg_class'::regclass JOIN pg_class c ON c.oid = d.objid"
            " WHERE m.amname = 'lazy_heap' AND c.relam = m.oid AND c.relnamespace = ANY (%s::oid[]) GROUP BY 1",
            [list(group)],
        ).fetchall()
        lazy: dict[int, int] = dict(rows)
        return max(group, key=lambda oid: lazy.get(oid, 0))

    def _keep(self, kinds: dict[str, list[int]]) -> None:
        """Forget tenants that are not of the kind any more that they were, and kinds whose first tenant is not."""
        manifest = self._manifest
        key_of = {self._names[oid]: key for key, group in kinds.items() for oid in group}
        good = {
            number: kind.key
            for number, kind in manifest.kinds.items()
            if kind.defined and key_of.get(kind.first) == kind.key
        }
        owner_of = {self._names[oid]: owner for oid, owner in self._owners.items()}

        def gone(name: str, tenant: fleet.Tenant) -> bool:
            return key_of.get(name) != good.get(tenant.kind, "") or owner_of[name] != tenant.owner

        self._directory.forget(manifest, gone)

    # ---- definitions ----

    def _define(self, kinds: Sequence[fleet.Kind]) -> None:
        """Write definitions; where that fails, all tenants of the kind do."""
        oids = {name: oid for oid, name in self._names.items()}

        def define(team: together.Team, kind: fleet.Kind) -> None:
            if team.stopped.is_set():
                return
            try:
                self._write_definition(kind, oids[kind.first], team)
            except (UserError, psycopg.Error) as error:
                if team.stopped.is_set() or lost(error):
                    raise
                message = said(error)
                with self._lock:
                    for oid, its in self._kind_of.items():
                        if its is kind:
                            self._manifest.failed[self._names[oid]] = message
                            self._manifest.tenants.pop(self._names[oid], None)
                    self._manifest.kinds.pop(kind.number, None)

        with together.team(self._request.workers) as team:
            team.finish([team.start(define, team, kind) for kind in kinds])
        self._directory.write(self._manifest)

    def _write_definition(self, kind: fleet.Kind, oid: int, team: together.Team) -> None:
        with self._source.connect(application_name=_NAME) as conn:
            team.session(conn)
            arrival.patient(conn)
            alike = sum(its is kind for its in self._kind_of.values())
            found = self._by_commands(conn, kind, oid) if alike > 1 else None
            before, after, objects = self._by_pg_dump(conn, kind, oid) if found is None else found
        held = json.dumps([[*key, what] for key, what in sorted(objects.items())]).encode()
        contents = {fleet.BEFORE: before, fleet.AFTER: after, fleet.OBJECTS: held}
        directory = self._directory
        kind.parts = {
            part: directory.put(directory.definition(kind.number, part), text) for part, text in contents.items()
        }

    def _by_commands(self, conn: Connection, kind: fleet.Kind, oid: int) -> tuple[bytes, bytes, arrival.Objects] | None:
        """Return the definition of tenants that can be cloned, as the commands of clones, and its objects.

        They are read from the tenant alone, where pg_dump reads the catalogs of all tables. None if the tenant has what
        pg_dump leaves out, or restores after the rows.
        """
        tables = _tables(conn, [oid])
        conn.execute("SELECT set_config('lock_timeout', %s::text, false)", [_LOCK_TIMEOUT])
        with self._locks.taken(_locks(tables)), conn.transaction():
            _lock(conn, tables)
            self._check_unchanged(conn, oid)
            objects = self._describe(conn, kind, oid)
            secured = (
                "SELECT EXISTS (SELECT FROM pg_depend d JOIN pg_class c ON c.oid = d.objid"
                " WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = %s::oid"
                " AND d.classid = 'pg_class'::regclass AND c.relrowsecurity)"
            )
            if kind.left_out or conn.execute(secured.encode(), [oid]).fetchall()[0][0]:
                return None
            definition.settle(conn)
            made = definition.read(conn, oid, kind.first)
            definition.own_names(conn)
            self._check_unchanged(conn, oid)
        kind.least_major = arrival.major(conn)
        before, after = definition.scripts(made, kind.first)
        return before.encode(), after.encode(), objects

    def _by_pg_dump(self, conn: Connection, kind: fleet.Kind, oid: int) -> tuple[bytes, bytes, arrival.Objects]:
        """Return the definition of a tenant as pg_dump writes it, and its objects."""
        archive = self._directory.definition(kind.number, "archive")
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        (snapshot,) = conn.execute("SELECT pg_export_snapshot()").fetchall()[0]
        self._check_unchanged(conn, oid)
        objects = self._describe(conn, kind, oid)
        kind.least_major = self._programs.major
        own = [f"{command};\n" for (command,) in conn.execute(load("tenants", "fleet_partition_keys").encode(), [oid])]
        try:
            dump.to_file(
                self._programs,
                self._source,
                kind.first,
                archive,
                form="custom",
                jobs=1,
                rows=False,
                snapshot=snapshot,
                encoding="UTF8",
                lock_timeout=_LOCK_TIMEOUT,
            )
            before = dump.section(self._programs, archive, "pre-data")
            return before, dump.section(self._programs, archive, "post-data") + "".join(own).encode(), objects
        finally:
            archive.unlink(missing_ok=True)

    @staticmethod
    def _describe(conn: Connection, kind: fleet.Kind, oid: int) -> arrival.Objects:
        """Note what a tenant needs and has; return its objects."""
        objects = arrival.contents(conn, oid).objects
        kind.needs = needs.of(conn, oid)
        kind.code = needs.evaluated(conn, oid, indexes=True)
        kind.left_out = [key for key in objects if key[0] == "cast"]
        return objects

    def _check_unchanged(self, conn: Connection, *oids: int) -> None:
        """Raise UserError if a tenant is not what it was when the tenants were compared."""
        for query, those in itertools.groupby(oids, lambda oid: self._prints[oid][0]):
            asked = list(those)
            found = {schema: now for schema, now, *_ in conn.execute(query, [asked])}
            if any(found.get(oid) != self._prints[oid][1] for oid in asked):
                raise UserError("its definition was changed meanwhile", "export again")

    def _choose_others(self) -> None:
        """Have kinds whose first tenant has failed begin with another one."""
        tenants = self._manifest.tenants
        others: dict[int, str] = {}
        for name, tenant in sorted(tenants.items()):
            if self._manifest.kinds[tenant.kind].first not in tenants:
                others.setdefault(tenant.kind, name)
        for number, name in others.items():
            self._manifest.kinds[number].first = name
        self._define([self._manifest.kinds[number] for number in others])
        used = {tenant.kind for tenant in tenants.values()}
        for number in self._manifest.kinds.keys() - used:
            del self._manifest.kinds[number]

    # ---- rows ----

    def _copy(self, oids: Sequence[int], update: Callable[[int], None]) -> None:
        """Export tenants in several sessions, each taking the next one."""
        todo = iter(self._together(oids))
        self._numbers = itertools.count(max((one.number for one in self._manifest.tenants.values()), default=0) + 1)
        over = 0

        def take() -> list[int] | None:
            with self._lock:
                return next(todo, None)

        def work(team: together.Team) -> None:
            nonlocal over
            task = take()
            while task is not None and not team.stopped.is_set():
                with self._session(team) as conn:
                    tables = 0
                    while task is not None and not team.stopped.is_set() and tables < _TABLES_PER_SESSION:
                        tables += self._some(team, conn, task)
                        with self._lock:
                            over += len(task)
                            self._directory.write(self._manifest, now=False)
                        update(over)
                        task = take()

        workers = max(1, min(self._request.workers, len(oids)))
        try:
            with together.team(workers) as team:
                team.finish([team.start(work, team) for _ in range(workers)])
        finally:
            self._directory.write(self._manifest)

    def _together(self, oids: Sequence[int]) -> Iterator[list[int]]:
        """Give tenants in parts, each of which a transaction can read: with few tables, and for all sessions."""
        workers = self._request.workers
        room = min(_TABLES_TOGETHER, self._locks.room // (_LOCKS_PER_TABLE * workers))
        most = max(1, len(oids) // (_TURNS * workers))
        part: list[int] = []
        tables = 0
        for oid in oids:
            if part and (tables + self._tables[oid] > room or len(part) == most):
                yield part
                part, tables = [], 0
            part.append(oid)
            tables += self._tables[oid]
        if part:
            yield part

    def _session(self, team: together.Team) -> Connection:
        conn = self._source.connect(application_name=_NAME)
        team.session(conn)
        arrival.patient(conn)
        fingerprints.settle(conn)
        conn.execute(_SETTINGS.encode())
        conn.execute("SELECT set_config('lock_timeout', %s::text, false)", [_LOCK_TIMEOUT])
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.read_only = True
        return conn

    def _some(self, team: together.Team, conn: Connection, oids: Sequence[int]) -> int:
        """Export tenants, those that cannot come together one at a time; return how many tables there were."""
        over: set[int] = set()
        seen = 0
        try:
            for attempt in itertools.count(1):
                tables = _tables(conn, oids)
                seen += sum(number for number, _ in tables.values())
                with self._locks.taken(_locks(tables)), conn.transaction():
                    _lock(conn, tables)
                    # from here on there is a snapshot, which has what was committed before
                    if _tables(conn, oids) != tables:
                        if attempt < _READ_AGAIN:
                            continue
                        raise UserError("its tables were changed meanwhile", "export again")
                    self._read(conn, oids, over)
                break
        except (UserError, psycopg.Error) as error:
            if team.stopped.is_set() or lost(error):
                raise
            if len(oids) == 1:
                with self._lock:
                    self._manifest.failed[self._names[oids[0]]] = said(error)
        if len(oids) > 1:
            for oid in oids:
                if oid not in over:
                    seen += self._some(team, conn, [oid])
        return seen

    def _read(self, conn: Connection, oids: Sequence[int], over: set[int]) -> None:
        """Write the files of tenants, in a transaction with a snapshot; of several, only those that are small."""
        relations = _relations(conn, oids)
        names = [self._names[oid] for oid in oids]
        ((snapshot,),) = conn.execute("SELECT pg_current_snapshot()::text").fetchall()
        self._check_unchanged(conn, *(oid for oid in oids if self._snapshots[oid] != snapshot))
        sequences = _sequences(conn, [(self._names[oid], relations[oid]) for oid in oids])
        comments: dict[int, str] = dict(
            conn.execute(
                "SELECT objoid::int8, description FROM pg_description WHERE classoid = 'pg_namespace'::regclass"
                " AND objoid = ANY (%s::oid[]) AND objsubid = 0",
                [list(oids)],
            ).fetchall()
        )
        had = journal.given(conn, *names) if self._journaled else []
        # the server's own encoding, so that nothing is converted
        if self._manifest.encoding is not None:
            conn.execute("SELECT set_config('client_encoding', %s, true)", [self._manifest.encoding])
        left = _BYTES_TOGETHER
        for oid, name in zip(oids, names, strict=True):
            sizes = [relation.size for relation in relations[oid].values()]
            if len(oids) > 1:
                if None in sizes or sum(filter(None, sizes)) > left:
                    continue
                left -= sum(filter(None, sizes))
            extras = fleet.Extras(
                sequences=sequences[name],
                views=[view for view, relation in relations[oid].items() if relation.kind == "m"],
                comment=comments.get(oid),
                journal=[[_as_text(value) for value in row[1:]] for row in had if row[0] == name],
            )
            with self._lock:
                number = next(self._numbers)
            tenant = self._file(conn, oid, number, relations[oid], extras)
            with self._lock:
                self._manifest.tenants[name] = tenant
            over.add(oid)

    def _file(
        self, conn: Connection, oid: int, number: int, relations: dict[str, _Relation], extras: fleet.Extras
    ) -> fleet.Tenant:
        """Write a tenant's file, if it has anything but its definition."""
        kind = self._kind_of[oid]
        filled = {table: relation for table, relation in relations.items() if relation.kind in ("r", "p")}
        if not filled and extras == fleet.Extras():
            return fleet.Tenant(number, kind.number, self._owners[oid], fleet.now())
        with self._directory.file(self._directory.rows(number)) as partial:
            with partial.open("wb") as file:
                written = _Written(file)
                commands = [_copy_command(self._names[oid], table, relation) for table, relation in filled.items()]
                copied = copying.out_of(conn, commands, written.write) if commands else []
                for (table, relation), (rows, size) in zip(filled.items(), copied, strict=True):
                    if rows:
                        extras.tables.append((table, relation.columns, rows, size))
                data = written.size
                written.write(extras.to_bytes())
            if extras == fleet.Extras():
                # its definition is all that there is
                partial.unlink()
                return fleet.Tenant(number, kind.number, self._owners[oid], fleet.now())
        rows = sum(rows for _, _, rows, _ in extras.tables)
        return fleet.Tenant(number, kind.number, self._owners[oid], fleet.now(), rows, data, written.checksum)

    def _left_out(self) -> list[str]:
        """Return what is not in the export."""
        rows = self._conn.execute(
            load("tenants", "fleet_left_out").encode(), {"schemas": list(self._names)}
        ).fetchall()  # fmt: skip
        left = [
            f"{kind} {name} of {kind_.first} and {text.many(self._alike(kind_) - 1, 'other tenant')}"
            for kind_ in self._manifest.kinds.values()
            for kind, name in kind_.left_out
        ]
        return [what for (what,) in rows] + left

    def _alike(self, kind: fleet.Kind) -> int:
        return sum(tenant.kind == kind.number for tenant in self._manifest.tenants.values())


def lost(error: UserError | psycopg.Error) -> bool:
    """Tell whether it is the connection that has failed, and not the tenant."""
    return isinstance(error, psycopg.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P"))
    )


def said(error: UserError | psycopg.Error) -> str:
    """Return in a line why a tenant has failed."""
    if isinstance(error, UserError):
        return f"{error.message}: {error.hint}" if error.hint else error.message
    found = [error.diag.message_primary or str(error), error.diag.message_detail]
    if isinstance(error, psycopg.errors.OutOfMemory):
        found.append("raise max_locks_per_transaction, or use fewer --jobs")
    first, *others = [" ".join(part.split()) for part in found if part]
    return f"{first} ({'; '.join(others)})" if others else first


def _as_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True)
class _Relation:
    """A table whose rows are copied, a sequence, or a materialized view; see fleet_relations.sql."""

    kind: str
    columns: list[str]
    size: int | None
    start: int | None
    last: int | None
    called: bool | None


class _Written:
    """A file that is written from its beginning to its end, and its checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self.size = 0
        self._file = file
        self._sum = hashlib.sha256()

    def write(self, block: bytes) -> None:
        """Write a block."""
        self._file.write(block)
        self._sum.update(block)
        self.size += len(block)

    @property
    def checksum(self) -> str:
        """The checksum of what was written."""
        return self._sum.hexdigest()


def _relations(conn: Connection, oids: Sequence[int]) -> dict[int, dict[str, _Relation]]:
    values = "SELECT NULL::int8, NULL::bool"
    if arrival.major(conn) >= _SEQUENCE_DATA_FROM:
        values = "SELECT last_value, is_called FROM pg_get_sequence_data(c.oid)"
    # the same by two ways, but without opening the table, which takes ten times as long
    size = "(SELECT f.size FROM pg_stat_file(pg_relation_filepath(c.oid), true) f)"
    if not conn.execute("SELECT has_function_privilege('pg_stat_file(text, boolean)', 'EXECUTE')").fetchall()[0][0]:
        size = "pg_relation_size(c.oid)"
    query = load("tenants", "fleet_relations").replace("{values}", values).replace("{size}", size)
    found: dict[int, dict[str, _Relation]] = {oid: {} for oid in oids}
    for oid, kind, name, *what in conn.execute(query.encode(), [list(oids)]):
        found[oid][name] = _Relation(kind, *what[:-1])
    return found


def _tables(conn: Connection, oids: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Return how many tables schemas have, and these as they are locked."""
    rows = conn.execute(
        "SELECT n.oid::int8, count(*), string_agg(format('ONLY %%I.%%I', n.nspname, c.relname), ', ' ORDER BY c.oid)"
        " FROM pg_namespace n JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid"
        " AND d.classid = 'pg_class'::regclass JOIN pg_class c ON c.oid = d.objid"
        " WHERE n.oid = ANY (%s::oid[]) AND c.relkind IN ('r', 'p') GROUP BY 1",
        [list(oids)],
    )
    return {oid: (number, locked) for oid, number, locked in rows}


def _locks(tables: dict[int, tuple[int, str]]) -> int:
    return _LOCKS_PER_TABLE * sum(number for number, _ in tables.values())


def _lock(conn: Connection, tables: dict[int, tuple[int, str]]) -> None:
    """Keep others from changing the definitions of tables, until the end of the transaction."""
    if tables:
        locks = ", ".join(locked for _, locked in tables.values())
        conn.execute(f"LOCK TABLE {locks} IN ACCESS SHARE MODE".encode(conn.info.encoding))


def _sequences(
    conn: Connection, tenants: Sequence[tuple[str, dict[str, _Relation]]]
) -> dict[str, list[tuple[str, int, bool]]]:
    """Return the sequences that are not as new; read after the snapshot, they have at least the rows' numbers."""
    found: dict[str, list[tuple[str, int, bool]]] = {}
    queries = []
    for schema, relations in tenants:
        found[schema] = []
        for name, relation in relations.items():
            if relation.kind != "S":
                continue
            if relation.last is not None and relation.called is not None:
                found[schema].append((name, relation.last, relation.called))
                continue
            queries.append(
                f"SELECT {literal(schema)}, {literal(name)}, last_value, is_called FROM {quoted(schema, name)}"
                f" WHERE is_called OR last_value <> {relation.start}"
            )
    for at in range(0, len(queries), _SEQUENCES_PER_QUERY):
        query = " UNION ALL ".join(queries[at : at + _SEQUENCES_PER_QUERY])
        for schema, name, last, called in conn.execute(query.encode(conn.info.encoding)):
            found[schema].append((name, last, called))
    return found


def _copy_command(schema: str, table: str, relation: _Relation) -> str:
    columns = ", ".join(map(quoted, relation.columns))
    if relation.kind == "p":
        return f"COPY (SELECT {columns} FROM {quoted(schema, table)}) TO STDOUT"
    return f"COPY {quoted(schema, table)}{f' ({columns})' if columns else ''} TO STDOUT"
