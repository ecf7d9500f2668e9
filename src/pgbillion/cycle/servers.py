"""Where the cycle runs: a server of its own that is removed again, or the user's, within durability windows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgbillion.common import invocation, search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.cycle.session import checkpoint
from pgbillion.durability import window
from pgbillion.durability.profiles import Profile, Setting, needs_restart, settings
from pgbillion.server import embedded
from pgbillion.server.postgres import Cluster, Installation, make_folder

_FOLDER = "cycle-server"
_REMOVE_SECONDS, _POLL_SECONDS = 10.0, 0.05
# What a durable server has, and the settings for mass loading have not.
_ORDINARY = {"wal_level": "replica", "max_wal_senders": "10", "autovacuum": "on"}
# linux/fs.h
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS, _FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000


class Server(Protocol):
    """A PostgreSQL that can be put under a profile."""

    def under(self, profile: Profile) -> contextlib.AbstractContextManager[Target]:
        """Have the server work as the profile says; nobody may be connected on the way in and out."""

    def check(self, profiles: Iterable[Profile]) -> None:
        """Raise UserError for a profile that the server cannot be put under."""

    def provide_locks(self, wanted: int) -> bool:
        """Set max_locks_per_transaction, which takes a restart; tell whether that was done."""


@dataclass
class Private:
    """A cluster that nobody else uses. ``chosen`` are settings of the user's, which come last."""

    cluster: Cluster
    chosen: Mapping[str, str]
    _conf: str
    _locks: dict[str, str] = field(default_factory=dict)
    _profile: dict[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def under(self, profile: Profile) -> Iterator[Target]:
        wanted = {setting.name: setting.value for setting in settings(profile, self.cluster.installation.major)}
        self._start({**_ORDINARY, **wanted})
        try:
            yield _target(self.cluster)
        finally:
            self.cluster.stop()

    def check(self, profiles: Iterable[Profile]) -> None:
        pass

    def provide_locks(self, wanted: int) -> bool:
        if "max_locks_per_transaction" in self.chosen:
            return False
        self._locks = {"max_locks_per_transaction": str(wanted)}
        self.cluster.stop()
        self._start(self._profile)
        return True

    def _start(self, profile: dict[str, str]) -> None:
        self._profile = profile
        lines = {**profile, **self._locks, **self.chosen}
        values = "".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in lines.items())
        self.cluster.conf.write_text(f"{self._conf}\n# ---- The cycle\n\n{values}", encoding="utf-8")
        try:
            self.cluster.start()
        except UserError as error:
            # the log goes with the server
            said = self.cluster.log.read_text(encoding="utf-8", errors="replace")
            reason = re.findall(r"(?:LOG|FATAL): +(.*(?:parameter|setting|value|memory).*)", said)
            if not reason or not self.chosen:
                raise
            raise UserError(
                f"the server did not start: {reason[-1]}", "choose another --setting", error.status
            ) from error


@contextlib.contextmanager
def private(state: Path, pg_config: Path | None, chosen: Mapping[str, str]) -> Iterator[Private]:
    """Make a cluster below ``state`` and remove it at the end; also what an earlier one that was killed has left."""
    home = state / _FOLDER
    installation = Installation.prepare(state, pg_config)
    cluster = Cluster(installation, data=home / "data", socket_dir=home / "run")
    _remove(cluster)
    conf = embedded.conf_text(state)
    try:
        cluster.init(conf=conf)
        spread_folders(cluster.data / "base")
        yield Private(cluster, chosen, conf)
    finally:
        _remove(cluster)
        with contextlib.suppress(OSError):
            home.rmdir()


def _remove(cluster: Cluster) -> None:
    """Remove the server, and what an initdb that was interrupted goes on doing for a moment."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while True:
        try:
            if not cluster.running():
                cluster.kill()
            cluster.destroy()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def alone(state: Path) -> Iterator[None]:
    """See that no other cycle has its servers below ``state`` meanwhile. Raises UserError."""
    make_folder(state)
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(
            f"another cycle is running in {state}", "wait for it, or choose another directory with --state-dir"
        ) from None
    finally:
        os.close(folder)


def spread_folders(parent: Path) -> None:
    """Have ext4 put each new folder inside this one elsewhere on the disk, with inodes of its own.

    Without a journal it does not use the inode of a removed file again for minutes, and passes over each of them
    whenever it looks for a free one: tables made near those that were dropped before would pay for them.
    """
    folder = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            flags = bytearray(struct.calcsize("l"))
            fcntl.ioctl(folder, _FS_IOC_GETFLAGS, flags)
            (found,) = struct.unpack("l", flags)
            fcntl.ioctl(folder, _FS_IOC_SETFLAGS, struct.pack("l", found | _FS_TOPDIR_FL))
    finally:
        os.close(folder)


@dataclass
class Own:
    """The user's server, whose durability only its windows change."""

    target: Target
    state: Path
    say: Callable[[str], None]

    @contextlib.contextmanager
    def under(self, profile: Profile) -> Iterator[Target]:
        if self._wanting(profile):
            with window.relaxed(self.target, profile, self.state, self.say):
                yield self.target
        else:
            yield self.target

    def check(self, profiles: Iterable[Profile]) -> None:
        for profile in profiles:
            restarts = needs_restart(self._wanting(profile))
            if restarts and not self.target.embedded:
                names = " and ".join(f"{one.name} = {one.value}" for one in restarts)
                relaxing = invocation.command("durability", "relax", "--profile", profile, "--restart", "now")
                raise UserError(
                    f"profile {profile} needs {names}, for which the server has to be restarted",
                    f"{relaxing} first, and then this with --profiles {profile};"
                    " or leave out the connection options: the cycle then makes a server of its own",
                )

    def provide_locks(self, wanted: int) -> bool:
        return False

    def _wanting(self, profile: Profile) -> list[Setting]:
        """Return the settings of a profile that the server does not have."""
        with self.target.connect() as conn:
            wanted = settings(profile, conn.info.server_version // 10000)
            query = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"
            found = dict(conn.execute(query, [[one.name for one in wanted]]).fetchall())
        return [one for one in wanted if one.name in found and not one.satisfied(found[one.name])]


def _target(cluster: Cluster) -> Target:
    conninfo = make_conninfo(cluster.conninfo(), fallback_application_name="pgbillion")
    return Target(conninfo, "a server of the cycle's own", embedded=True)


@contextlib.contextmanager
def workplace(target: Target, template: str | None) -> Iterator[Connection]:
    """Give a session in a database of its own, with a template in a schema of its own; it is gone at the end."""
    name = f"pgbillion_cycle_{secrets.token_hex(4)}"
    make = _schema if template is not None else _database
    with make(target, name) as conn:
        yield conn


@contextlib.contextmanager
def _database(target: Target, name: str) -> Iterator[Connection]:
    with target.connect() as outside:
        try:
            outside.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        except psycopg.errors.InsufficientPrivilege as error:
            raise UserError(
                "no privilege to create databases: the cycle has one of its own",
                "connect as a superuser, or as a role with CREATEDB; or name a --template",
                status=3,
            ) from error
        try:
            inside = Target(make_conninfo(target.conninfo, dbname=name), target.display, target.embedded)
            with inside.connect() as conn:
                search_path.prefer(conn, "public")
                conn.execute("SET statement_timeout = 0")
                checkpoint(conn)
                yield conn
        finally:
            outside.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def _schema(target: Target, name: str) -> Iterator[Connection]:
    with target.connect() as conn:
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        try:
            search_path.prefer(conn, name)
            conn.execute("SET statement_timeout = 0")
            checkpoint(conn)
            yield conn
        finally:
            # a session that was canceled or lost may have left tables: a few at a time, for the sake of locks
            with target.connect() as cleaner:
                _drop_schema(cleaner, name)


def _drop_schema(conn: Connection, name: str) -> None:
    query = (
        "SELECT string_agg(c.oid::regclass::text, ', ') FROM (SELECT oid FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = %s::regnamespace LIMIT 100) c"
    )
    while True:
        row = conn.execute(query, [name]).fetchone()
        if row is None or row[0] is None:
            break
        conn.execute(f"DROP TABLE {row[0]} CASCADE".encode())
    conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
