"""One tenant as it was at an earlier time, from a base backup and WAL, into a database that goes on meanwhile.

A server of its own replays a copy of the backup up to the time (replay.py). Its copy has the catalogs and the tenant's
files alone. Whether these were enough is asked of the server afterwards, whose catalogs are right: a relation that is
read must have all files that the backup has of it. If one is lacking, as after ALTER TABLE … SET SCHEMA, everything
begins again with that one copied, too.

From there the tenant comes into the target as by `move`: by pg_dump and pg_restore, in one transaction, compared before
it counts. Until then its comment is a mark, by which a command that continues knows it again.

The work directory has a record of how far it is. Each step can be repeated, so that the record may be a step behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import patterns, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.server import client
from pgbillion.server.postgres import make_folder
from pgbillion.tenants import arrival, backup, dump, journal, large_objects, manage, needs, publications, replay
from pgbillion.tenants.backup import Backup, Wanted
from pgbillion.tenants.replay import DeadEndError, Goal, Server, Wal

Say = Callable[[str], None]

_NAME = "pgbillion tenants restore"
_FOLDER = "restores"
# what else a server writes
_ROOM = 256 << 20
_ATTEMPTS = 4
_HERE = ("localhost", "127.0.0.1", "::1")
# what estimates of time are made with
_BYTES_PER_SECOND = 100_000_000
_USED = "drop that first, or restore the tenant beside it with --as"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Request:
    """What to restore, from where, and how; ``name`` is the new one, and ``to`` a time as PostgreSQL reads it."""

    schema: str
    backup: Path
    wal: Wal
    to: str | None = None
    name: str | None = None
    replace: bool = False
    database: str | None = None
    whole: bool = False
    work: Path | None = None
    pg_config: Path | None = None
    bindir: Path | None = None
    preload: tuple[str, ...] = ()
    trust_owner: bool = False

    @property
    def final(self) -> str:
        """The name that the tenant is to have."""
        return self.name or self.schema

    def check(self) -> None:
        """Raise UserError for arguments that no server could make right."""
        if self.name is not None and self.replace:
            raise UserError("--as and --replace exclude each other", "leave one out")
        if self.wal.folder is not None and self.wal.command is not None:
            raise UserError("--wal and --restore-command exclude each other", "leave one out")
        if not self.final or len(self.final.encode()) > 63 or self.final.startswith("pg_"):
            raise UserError(f'"{self.final}" cannot be the name of a tenant', "--as names another one")


@dataclass
class Outcome:
    """What is in the target, and what it took; bytes are of the backup, and of what was copied of it."""

    tenant: str
    name: str
    time: str | None
    tables: int = 0
    rows: int = 0
    backup_size: int = 0
    copied_size: int = 0
    large_objects: int = 0
    publications: list[str] = field(default_factory=list)
    left_publications: list[str] = field(default_factory=list)
    replaced: bool = False
    seconds: float = 0.0
    copy_seconds: float = 0.0
    replay_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON's types."""
        return asdict(self)


_CLEAR, _COPY, _REPLAY, _CHECKED = "clear", "copy", "replay", "checked"


@dataclass
class _Record:
    """How far a restore is. ``key`` says of what; ``stems`` are copied, None for all files.

    ``large_objects`` are OIDs in the copy and in the target, where those in ``created`` are ours.
    """

    key: dict[str, Any]
    id: str
    boot: str
    step: str = _COPY
    folder: str | None = None
    stems: list[str] | None = None
    found: bool = False
    copied: int = 0
    arrived: int | None = None
    comment: str | None = None
    large_objects: list[tuple[int, int]] | None = None
    created: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def wanted(self) -> Wanted:
        """What is copied."""
        return Wanted(self.folder, None if self.stems is None else frozenset(self.stems))

    @property
    def mark(self) -> str:
        """The comment on the schema until it is complete."""
        return f"{_NAME} {self.id}: not complete yet"


def _boot() -> str:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""


class _Work:
    """The work directory, locked for one command at a time; ``own``: it is one of pgbillion's state directory."""

    def __init__(self, path: Path, *, own: bool) -> None:
        self.path = path
        self._own = own

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        if self.path.is_dir():
            others = {entry.name for entry in self.path.iterdir()} - {"lock", "data", "data.log", "s", "record.json"}
            if others - {"record.json.partial"}:
                raise UserError(f"{self.path} is not empty, and of no restore", "name a new directory with --work-dir")
        make_folder(self.path)
        with (self.path / "lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"another restore is at work in {self.path}", "wait for its end", 3) from None
            yield

    def read(self, key: dict[str, Any]) -> _Record:
        """Return the record, a new one if there is none. Raises UserError if it is of something else."""
        path = self.path / "record.json"
        try:
            record = _Record(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return _Record(key, uuid.uuid4().hex[:12], _boot())
        except (ValueError, TypeError):
            raise UserError(f"{path} is damaged", "remove the directory, and begin again") from None
        if record.key != key:
            raise UserError(
                f"{self.path} has an interrupted restore of something else: {record.key['schema']}"
                f" at {record.key['time'] or 'the end of the backup'}",
                "name another directory with --work-dir",
            )
        return record

    def write(self, record: _Record) -> None:
        path = self.path / "record.json"
        partial = path.with_name(f"{path.name}.partial")
        partial.write_text(json.dumps(asdict(record)), encoding="utf-8")
        partial.replace(path)

    def remove(self) -> None:
        replay.remove(self.path)
        if self._own:
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()


def restore(target: Target, request: Request, state: Path, *, say: Say) -> Outcome:
    """Restore a tenant. Raises UserError; what was copied and replayed is kept for the next attempt if that can help.

    ``state`` is the state folder, and ``say`` is told what is going on.
    """
    return _Run(target, request, state, say).all()


def discard(target: Target, request: Request, state: Path) -> bool:
    """Remove what an interrupted restore has left; tell whether there was anything."""
    run = _Run(target, request, state, lambda line: None)
    if not run.work.path.exists():
        return False
    with run.work.held():
        record = run.work.read(run.key)
        if record.step != _COPY or (run.work.path / "data").exists():
            run.server().stop()
        run.take_back(record)
        run.work.remove()
    return True


class _Run:
    def __init__(self, target: Target, request: Request, state: Path, say: Say) -> None:
        self._target = target
        self._request = request
        self._state = state
        self._say = say
        self._path = request.backup.absolute()
        with target.connect() as there:
            self._database = request.database or there.info.dbname
            self._goal, shown = _goal(there, request.to)
            self._shown = shown
            self._major = arrival.major(there)
            self._superusers = _superusers(there)
            target_of = _identity(there)
        self.key = {
            "target": target_of,
            "backup": str(self._path),
            "database": self._database,
            "schema": request.schema,
            "name": request.name,
            "replace": request.replace,
            "time": self._goal.time,
            "whole": request.whole,
        }
        name = hashlib.sha256(json.dumps(self.key).encode()).hexdigest()[:12]
        own = request.work is None
        self.work = _Work(state / _FOLDER / name if request.work is None else request.work.absolute(), own=own)

    def server(self) -> Server:
        """Return the server in the work directory, whether it was made already or not."""
        version = self.work.path / "data" / "PG_VERSION"
        major = int(version.read_text(encoding="ascii")) if version.exists() else None
        with self._target.connect() as there:
            programs = replay.installation(
                major if major is not None else self._backup().major, self._request.pg_config, self._state, there
            )
        return Server(programs, self.work.path, self._superusers)

    def _backup(self) -> Backup:
        return backup.read(self._path)

    def all(self) -> Outcome:
        start = time.monotonic()
        request = self._request
        request.wal.check()
        found = self._backup()
        self._check(found)
        outcome = Outcome(request.schema, request.final, self._shown, backup_size=found.size)
        with self.work.held():
            try:
                self._run(found, outcome)
            except BaseException as error:
                # what no later attempt can use
                if isinstance(error, DeadEndError) or not (self.work.path / "data").exists():
                    self.work.remove()
                else:
                    self._say(f"what was done is kept in {self.work.path}: run the same command again to continue, or"
                              " with --discard to remove it")  # fmt: skip
                raise
            self.work.remove()
        outcome.seconds = time.monotonic() - start
        return outcome

    def _run(self, found: Backup, outcome: Outcome) -> None:
        record = self.work.read(self.key)
        self._refuse(record)
        server = self.server()
        try:
            # what was not on disk when the machine stopped is lost
            if record.boot != _boot() or record.step == _CLEAR:
                self._begin_again(server, record)
            for _ in range(_ATTEMPTS):
                self._copy(found, server, record)
                self._replay(server, record)
                if self._complete(found, server, record):
                    break
            else:
                raise UserError("the tenant's files were not found in the backup", "--whole copies all of it", 3)
            self._bring(server, record, outcome)
        except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted, psycopg.errors.UndefinedFile) as error:
            raise DeadEndError(
                f"the restored copy is damaged: {error.diag.message_primary}",
                "check the backup with pg_verifybackup",
                3,
            ) from None
        finally:
            server.stop()
        outcome.copied_size = record.copied
        outcome.copy_seconds = record.seconds.get(_COPY, 0.0)
        outcome.replay_seconds = record.seconds.get(_REPLAY, 0.0)

    # ---- before anything is done ----

    def _check(self, found: Backup) -> None:
        if self._major < found.major:
            raise UserError(
                f"the target is PostgreSQL {self._major}, and the backup is of {found.major}",
                "what a newer server has may be unknown to an older one: restore into the same version or a newer one",
            )
        with self._target.connect() as there:
            arrival.check_database(there)
            # an abbreviation of another time zone may mean several
            if self._goal.time is not None and re.search(r" (?:UTC|GMT|[+-]\d+)$", found.start or ""):
                row = there.execute(
                    "SELECT %s::timestamptz < %s::timestamptz", [self._goal.time, found.start]
                ).fetchall()
                if row[0][0]:
                    raise UserError(
                        f"the backup was begun at {found.start}, after that time", "name an earlier backup", 3
                    )
            if there.info.host.startswith("/") or there.info.host in _HERE:
                self._check_links(there, found)

    def _check_links(self, there: Connection, found: Backup) -> None:
        """Raise UserError if a tablespace of the backup is where the server has its own."""
        places = there.execute(
            "SELECT oid::text, pg_tablespace_location(oid) FROM pg_tablespace WHERE oid = ANY (%s::oid[])",
            [list(found.links)],
        )
        for oid, place in places.fetchall():
            if place and Path(place).resolve() == found.links[oid]:
                raise UserError(
                    f"{self._path / 'pg_tblspc' / oid} is a link to a tablespace of the server itself, {place}",
                    "have it lead to the tablespace's files of the backup",
                )

    def _refuse(self, record: _Record) -> None:
        """Raise UserError if there is a schema of the name, unless it is to be replaced, or we have brought it."""
        request = self._request
        with self._target.connect() as there:
            row = _schema(there, request.final)
            if row is None:
                if request.replace:
                    raise UserError(f'there is no schema "{request.final}" to replace', "leave out --replace")
            elif not request.replace and row[1] != record.mark and row[0] != record.arrived:
                raise UserError(
                    f'{there.info.dbname} has a schema "{request.final}" already',
                    "--as gives the restored one another name; --replace drops the one that is there",
                    3,
                )

    # ---- the copy ----

    def _begin_again(self, server: Server, record: _Record) -> None:
        server.stop()
        # what is left of the copy, if this is interrupted, is none
        record.step = _CLEAR
        self.work.write(record)
        server.open_links()
        if server.data.exists():
            shutil.rmtree(server.data)
        server.log.unlink(missing_ok=True)
        record.step, record.boot, record.copied = _COPY, _boot(), 0
        self.work.write(record)

    def _copy(self, found: Backup, server: Server, record: _Record) -> None:
        if record.step != _COPY:
            return
        start = time.monotonic()
        request = self._request
        server.open_links()
        if not record.found:
            wanted = None if request.whole else found.find(self._database, request.schema)
            if wanted is None and not request.whole:
                self._say("the backup's catalogs do not show the tenant's database, so all of it is copied")
            record.folder = wanted.folder if wanted is not None else None
            record.stems = sorted(wanted.stems) if wanted is not None and wanted.stems is not None else None
            record.found = True
            self.work.write(record)
        wanted = record.wanted
        size = sum(size for name, size in found.files.items() if wanted.takes(name))
        self._estimate(found, server, size)
        server.make_folders(found)
        for _ in found.copy(wanted.takes, server.data, server.own):
            pass
        server.hold_places(found, wanted)
        facts = replay.control(server.programs, server.data)
        if found.label is None and not facts.state.startswith("shut down"):
            raise DeadEndError(
                f"{self._path} has no {backup.LABEL}, and the server ran when it was copied",
                "name a base backup: a copy of a running server is none",
            )
        server.configure(self._goal, request.wal, facts, partial=wanted.stems is not None, preload=request.preload)
        server.signal_recovery()
        record.step, record.copied = _REPLAY, size
        record.seconds[_COPY] = record.seconds.get(_COPY, 0.0) + time.monotonic() - start
        self.work.write(record)

    def _estimate(self, found: Backup, server: Server, size: int) -> None:
        """Print what will be copied and replayed. Raises UserError if there is no room for it."""
        wal = sum(self._request.wal.segments(found.first_segment).values())
        there = (
            sum(f.stat().st_blocks * 512 for f in server.data.rglob("*") if f.is_file()) if server.data.exists() else 0
        )
        # replay keeps segments until a checkpoint
        kept = 2 * replay.MAX_WAL if self._request.wal.command is not None else min(wal, 2 * replay.MAX_WAL)
        needed = max(0, size - there) + kept + _ROOM
        free = shutil.disk_usage(self.work.path).free
        what = f"copying {text.size(size)} of the backup's {text.size(found.size)}"
        if self._request.wal.folder is not None:
            what += f", and replaying at most {text.size(wal)} of WAL"
        if free < needed:
            raise UserError(
                f"{what} needs {text.size(needed)} in {self.work.path}, which has {text.size(free)} left",
                "make room, or name a directory on another disk with --work-dir",
                3,
            )
        seconds = (max(0, size - there) + wal) / _BYTES_PER_SECOND
        speed = f"{text.size(_BYTES_PER_SECOND)} per second"
        self._say(f"{what}, which takes {text.duration(seconds)} at {speed}")

    # ---- replay ----

    def _replay(self, server: Server, record: _Record) -> None:
        if record.step == _COPY:
            raise AssertionError("nothing to replay")
        start = time.monotonic()
        # the archive, and what is to be loaded, may be others now
        if record.step == _REPLAY and not server.running():
            server.configure(
                self._goal, self._request.wal, replay.control(server.programs, server.data),
                partial=record.stems is not None, preload=self._request.preload,
            )  # fmt: skip
        server.reach(self._database, self._request.wal, self._say)
        record.seconds[_REPLAY] = record.seconds.get(_REPLAY, 0.0) + time.monotonic() - start

    def _complete(self, found: Backup, server: Server, record: _Record) -> bool:
        """Tell whether all that is to be read has been copied; otherwise have it copied, too, from the beginning."""
        if record.step == _CHECKED:
            return True
        with self._here(server) as here:
            row = _schema(here, self._request.schema)
            if row is None:
                when = self._shown or "the end of the backup"
                raise DeadEndError(
                    f'{self._database} had no schema "{self._request.schema}" at {when}',
                    "name a time at which it had",
                )
            if record.stems is not None:
                folder, *paths = [
                    path for (path,) in here.execute(load("tenants", "restore_files").encode(), {"schema": row[0]})
                ]
                if folder.rpartition("/")[0] != record.folder:
                    self._say("the database was created or moved after the backup, so all of it is copied")
                    record.stems = None
                else:
                    lacking = replay.lacking(found, record.wanted, paths)
                    damaged = server.skipped() & (set(paths) - lacking)
                    if damaged:
                        raise DeadEndError(
                            f"the backup does not fit the WAL: pages of {min(damaged)} are missing",
                            "check the backup with pg_verifybackup",
                            3,
                        )
                    if not lacking:
                        self._check_catalogs(here)
                        record.step = _CHECKED
                        self.work.write(record)
                        return True
                    self._say(f"beginning again with {text.many(len(lacking), 'relation')} more of the tenant")
                    record.stems = sorted({*record.stems, *lacking})
            else:
                self._check_catalogs(here)
                record.step = _CHECKED
                self.work.write(record)
                return True
        self._begin_again(server, record)
        return False

    def _here(self, server: Server) -> Connection:
        try:
            return server.connect(self._database)
        except psycopg.OperationalError as error:
            if f'database "{self._database}" does not exist' in str(error):
                raise DeadEndError(
                    f'there was no database "{self._database}" at {self._shown or "the end of the backup"}',
                    "--from-database names another one",
                ) from None
            raise

    def _check_catalogs(self, here: Connection) -> None:
        """Check the catalogs and their indexes with amcheck, where that is installed. Raises UserError."""
        if not here.execute("SELECT FROM pg_available_extensions WHERE name = 'amcheck'").fetchall():
            return
        try:
            with here.transaction(force_rollback=True):
                here.execute("DROP EXTENSION IF EXISTS amcheck CASCADE")
                here.execute("CREATE SCHEMA pgbillion_amcheck; CREATE EXTENSION amcheck SCHEMA pgbillion_amcheck")
                for query in load("tenants", "restore_amcheck").split(";\n"):
                    rows = here.execute(query.encode()).fetchall()
                    wrong = next((f"{catalog}: {message}" for catalog, message in rows if message), None)
                    if wrong is not None:
                        break
        except psycopg.Error as error:
            wrong = error.diag.message_primary or str(error)
        if wrong is not None:
            raise DeadEndError(
                f"the restored catalogs are damaged: {wrong}", "check the backup with pg_verifybackup", 3
            )

    # ---- into the target ----

    def _bring(self, server: Server, record: _Record, outcome: Outcome) -> None:
        request = self._request
        arriving = f"pgbillion_restore_{record.id}" if request.replace else request.final
        try:
            with self._here(server) as here, self._target.connect() as there:
                row = _schema(there, request.final)
                if row is not None and row[0] == record.arrived and row[1] != record.mark:
                    # all was done but the record
                    found = arrival.contents(there, row[0])
                    outcome.tables, outcome.rows = len(found.tables), sum(_counts(there, found.tables).values())
                    return
                schema = _oid(here, request.schema) or arrival.oid_of(here, arriving)
                programs = self._check_needs(here, there, schema)
                # before it gets another name, which its triggers do not know
                self._bring_large_objects(server, here, there, record, schema)
                self._prepare(here, record, arriving)
                contents = arrival.contents(here, schema)
                counts = _counts(here, contents.tables)
            if not self._is_there(arriving, record):
                self._say(f"bringing {text.many(len(contents.tables), 'table')} into {self._target_name()}")
                self._dump(server, programs, arriving)
            self._finish(server, record, outcome, arriving, contents, counts)
        except BaseException:
            self.take_back(record)
            raise

    def _target_name(self) -> str:
        with self._target.connect() as there:
            return str(there.info.dbname)

    def _prepare(self, here: Connection, record: _Record, arriving: str) -> None:
        """Give the tenant in the copy the name and the mark with which it arrives."""
        request = self._request
        own, given = sql.Identifier(request.schema), sql.Identifier(arriving)
        if arriving != request.schema:
            if _schema(here, request.schema) is not None and _schema(here, arriving) is not None:
                # of that time, as an earlier restore's; it is in nobody's way in the copy
                other = sql.Identifier(f"pgbillion_other_{record.id}")
                here.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(given, other))
            if _schema(here, arriving) is None and request.replace:
                here.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(own, given))
            elif _schema(here, arriving) is None:
                manage.rename(here, patterns.exactly(request.schema), patterns.exactly(arriving), say=self._say)
        row = _schema(here, arriving)
        if row is not None and row[1] != record.mark:
            record.comment = row[1]
            self.work.write(record)
            here.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(given, sql.Literal(record.mark)))

    def _check_needs(self, here: Connection, there: Connection, schema: int) -> client.Programs:
        request = self._request
        programs = client.find(arrival.major(here), arrival.major(there), request.bindir)
        there.execute("SET lock_timeout = '5s'")
        absent = needs.missing(there, needs.of(here, schema))
        if absent:
            raise UserError(
                f"the target lacks what {request.schema} needs: {needs.listed(absent)}",
                "create that there first, and run the same command again",
                3,
            )
        if not request.trust_owner:
            arrival.check_code(there, needs.evaluated(here, schema), "connect as {role} with -U")
        if request.replace:
            with there.transaction():
                manage.refuse_used(there, request.final, hint=_USED)
        return programs

    def _bring_large_objects(
        self, server: Server, here: Connection, there: Connection, record: _Record, schema: int
    ) -> None:
        columns = large_objects.columns(here, schema)
        if record.large_objects is None:
            oids = large_objects.named(here, columns)
            known = {role for (role,) in there.execute("SELECT rolname::text FROM pg_roles")}
            absent = [role for role in large_objects.roles(here, oids) if role not in known]
            if absent:
                raise UserError(
                    f"the target lacks roles of large objects of {self._request.schema}: {', '.join(absent)}",
                    "create that there first, and run the same command again",
                    3,
                )
            record.large_objects = sorted(large_objects.choose(here, there, oids).items())
            self.work.write(record)
        chosen = dict(record.large_objects)

        def creating(oids: list[int]) -> None:
            record.created = sorted({*record.created, *oids})
            self.work.write(record)

        large_objects.create(here, there, chosen, creating)
        large_objects.change(here, columns, chosen, lambda role: server.connect_as(self._database, role))

    def _is_there(self, arriving: str, record: _Record) -> bool:
        with self._target.connect() as there:
            row = _schema(there, arriving)
            return row is not None and row[1] == record.mark

    def _dump(self, server: Server, programs: client.Programs, arriving: str) -> None:
        with self._here(server) as reader:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            snapshot = reader.execute("SELECT pg_export_snapshot()").fetchall()[0][0]
            source = server.target(self._database)
            dump.copy(programs, source, self._target, arriving, snapshot, meanwhile=lambda: None, arrived=lambda: None)

    def _finish(
        self,
        server: Server,
        record: _Record,
        outcome: Outcome,
        arriving: str,
        contents: arrival.Contents,
        counts: dict[str, int],
    ) -> None:
        """Compare the tenant with the copy, and then have it be what it is to be, in one transaction."""
        request = self._request
        self._say("comparing")
        with self._here(server) as here, self._target.connect(application_name=_NAME) as there:
            arrival.patient(there)
            schema = arrival.oid_of(there, arriving)
            self._compare(here, there, schema, contents, counts)
            journaled = journal.exists(here)
            if journaled:
                journal.make(there)
            given = journal.given(here, arriving if request.name else request.schema) if journaled else []
            record.arrived = schema
            self.work.write(record)
            there.execute("SET lock_timeout = '60s'; SET client_min_messages = warning")
            there.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with there.transaction():
                if request.replace:
                    manage.refuse_used(there, request.final, hint=_USED)
                    there.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(request.final)))
                    there.execute(
                        sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(
                            sql.Identifier(arriving), sql.Identifier(request.final)
                        )
                    )
                there.execute(
                    sql.SQL("COMMENT ON SCHEMA {} IS {}").format(
                        sql.Identifier(request.final), sql.Literal(record.comment)
                    )
                )
                members = publications.members(here, arrival.oid_of(here, arriving)) if request.name is None else []
                left = publications.join(there, request.final, members)
                if journaled:
                    journal.take(there, request.final, [(request.final, *row[1:]) for row in given])
        outcome.tables, outcome.rows, outcome.replaced = len(contents.tables), sum(counts.values()), request.replace
        outcome.large_objects = len(record.large_objects or ())
        outcome.publications = sorted({member.publication for member in members} - set(left))
        outcome.left_publications = left

    def _compare(
        self, here: Connection, there: Connection, schema: int, contents: arrival.Contents, counts: dict[str, int]
    ) -> None:
        found = arrival.contents(there, schema)
        wrong = arrival.differences(contents.objects, found.objects, same=arrival.major(here) == arrival.major(there))
        copied = _counts(there, found.tables)
        wrong += [
            f"rows of {table}: {text.count(counts.get(table, 0))} there, {text.count(copied.get(table, 0))} here"
            for table in sorted(counts.keys() | copied.keys())
            if counts.get(table) != copied.get(table)
        ]
        wrong += [
            f"value of {sequence}"
            for sequence, value in sorted(contents.sequences.items())
            if value != found.sequences.get(sequence)
        ]
        if wrong:
            raise UserError(f"what was restored is not the same: {arrival.some(wrong)}", "it was dropped", 3)

    def take_back(self, record: _Record) -> None:
        """Drop what has arrived and is not complete."""
        with contextlib.suppress(psycopg.Error), self._target.connect() as there:
            there.execute("SET client_min_messages = warning")
            names = there.execute(
                "SELECT nspname::text FROM pg_namespace WHERE obj_description(oid, 'pg_namespace') = %s", [record.mark]
            ).fetchall()
            for (name,) in names:
                there.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
            # unless it was complete
            if names or record.arrived is None or _oid(there, self._request.final) != record.arrived:
                large_objects.remove(there, record.created)


def _goal(there: Connection, to: str | None) -> tuple[Goal, str | None]:
    """Return a time as a goal, and as people read it. Raises UserError for one that is no time, or in the future."""
    if to is None:
        return Goal(), None
    try:
        row = there.execute(
            "SELECT isfinite(t) AND t <= now(), t::text,"
            " to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') || '+00'"
            " FROM (SELECT %s::timestamptz AS t) AS given",
            [to],
        ).fetchall()[0]
    except psycopg.DataError:
        raise UserError(f'"{to}" is no time', "as in --to '2026-11-23 17:05' or '2026-11-23 17:05:30+01'") from None
    if not row[0]:
        raise UserError(f"{row[1]} is in the future", "name a time that has been")
    return Goal(row[2]), row[1]


def _identity(there: Connection) -> str:
    """Return which database the target is."""
    oid = there.execute("SELECT oid::text FROM pg_database WHERE datname = current_database()").fetchall()[0][0]
    try:
        system = there.execute("SELECT system_identifier::text FROM pg_control_system()").fetchall()[0][0]
    except psycopg.errors.InsufficientPrivilege:
        system = f"{there.info.host} {there.info.port}"
    return f"{system} {oid}"


def _superusers(there: Connection) -> list[str]:
    """Return roles that may be superusers of the backup: the first of this cluster, and the one that we are."""
    rows = there.execute("SELECT rolname::text FROM pg_roles WHERE oid = 10 OR rolname = current_user ORDER BY oid")
    return [name for (name,) in rows.fetchall()]


def _schema(conn: Connection, name: str) -> tuple[int, str | None] | None:
    """Return a schema's OID and comment, None if there is none."""
    return conn.execute(
        "SELECT oid::int8, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [name]
    ).fetchone()


def _oid(conn: Connection, name: str) -> int | None:
    found = _schema(conn, name)
    return None if found is None else found[0]


def _counts(conn: Connection, tables: list[str]) -> dict[str, int]:
    return {name: conn.execute(f"SELECT count(*) FROM ONLY {name}".encode()).fetchall()[0][0] for name in tables}
