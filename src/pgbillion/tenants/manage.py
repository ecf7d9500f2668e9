"""List, rename and drop tenants by pattern."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgbillion.common import patterns, planner, text, together
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.tenants import journal, lock_table, schemas
from pgbillion.tenants.lock_table import LockTable

_LOCK_TIMEOUT = "10s"
_AS_IN = "as in 'tenant_*' 'customer_*'"


@dataclass(frozen=True)
class Tenant:
    """What list tells of one; ``size`` in bytes, None if it was not asked for."""

    name: str
    owner: str
    tables: int
    size: int | None = None


def listed(conn: Connection, names: Sequence[str], *, size: bool) -> list[Tenant]:
    """Return what there is to tell of tenants."""
    rows = conn.execute(load("tenants", "list").encode(), [size, list(names)]).fetchall()
    return [Tenant(*row) for row in rows]


def rename(conn: Connection, old: str, new: str, *, say: Callable[[str], None]) -> list[tuple[str, str]]:
    """Rename tenants, all or none: in both patterns * stands for the same text. Returns the pairs.

    Functions of a tenant that set search_path to its name set it to the new one; ``say`` is told of those that name it
    otherwise, or are another role's.

    Raises UserError for patterns that do not fit each other or names that are too long.
    """
    (wanted,), (given,) = patterns.parse(old), patterns.parse(new)
    around, put = wanted.around(), given.around()
    if (around is None) != (put is None) or (around is None and None in (wanted.literal, given.literal)):
        raise UserError("each name has the wildcard * once, or neither has any wildcard", _AS_IN)
    pairs = []
    for name in schemas.select(conn, old):
        if around is None or put is None:
            renamed = str(given.literal)
        else:
            before, after = around
            renamed = name[len(before) : len(name) - len(after)].join(put)
        if not renamed:
            raise UserError(f"the new name of {name} is empty", _AS_IN)
        if len(renamed.encode()) > 63:
            raise UserError(f'the name "{renamed}" has more than 63 bytes', "choose a shorter one")
        pairs.append((name, renamed))
    # the journal must be read after the locks
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    with conn.transaction():
        conn.execute(f"SET LOCAL lock_timeout = '{_LOCK_TIMEOUT}'".encode())
        # before the names change: a migration's row has the name that its statements go by
        journal.hold(conn)
        for name, renamed in pairs:
            conn.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(renamed)))
            _redirect(conn, name, renamed, say)
        journal.rename(conn, [name for name, _ in pairs], [renamed for _, renamed in pairs])
    return pairs


# as in the setting: an identifier, with or without quotes
_IN_PATH = re.compile(r'"((?:[^"]|"")*)"|([^\s,]+)')


def _redirect(conn: Connection, old: str, new: str, say: Callable[[str], None]) -> None:
    """Have the functions of a schema that has been renamed look for names there, not where it was."""
    with planner.through_indexes(conn):
        rows = conn.execute(load("tenants", "named_in_functions").encode(), {"old": old, "new": new}).fetchall()
    left = []
    for function, path, elsewhere in rows:
        path_schemas = [quoted.replace('""', '"') if quoted else bare for quoted, bare in _IN_PATH.findall(path or "")]
        if old in path_schemas:
            wanted = sql.SQL(", ").join(sql.Literal(new if schema == old else schema) for schema in path_schemas)
            statement = sql.SQL("ALTER ROUTINE {} SET search_path TO {}").format(sql.SQL(function), wanted)
            try:
                with conn.transaction():
                    conn.execute(statement)
            except psycopg.errors.InsufficientPrivilege:
                elsewhere = True
        if elsewhere:
            left.append(function)
    if left:
        say(f"warning: these functions still name {old}: {', '.join(left)}")


def drop(
    target: Target,
    names: Sequence[str],
    workers: int,
    *,
    cascade: bool,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> int:
    """Drop tenants, each in a transaction of its own if the server's lock table has room for it; return how many.

    Raises UserError when something outside of a tenant depends on it, without ``cascade``; the tenant is left.
    """
    with target.connect() as conn:
        locks = LockTable(conn)
    todo: Iterator[str] = iter(names)
    lock = threading.Lock()
    dropped = 0

    def take() -> str | None:
        with lock:
            return next(todo, None)

    def work(team: together.Team) -> None:
        nonlocal dropped
        with target.connect(application_name="pgbillion tenants drop") as mine:
            team.session(mine)
            # what migrations have noted that DROP SCHEMA has waited for
            mine.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            mine.execute(f"SET client_min_messages = warning; SET lock_timeout = '{_LOCK_TIMEOUT}'".encode())
            while not team.stopped.is_set() and (name := take()) is not None:
                _drop(mine, name, locks, cascade=cascade)
                with lock:
                    dropped += 1
                update(dropped)

    with observe(len(names)) as update, together.team(workers) as team:
        for future in [team.start(work, team) for _ in range(min(workers, len(names)))]:
            future.result()
    return dropped


def _drop(conn: Connection, name: str, locks: LockTable, *, cascade: bool) -> None:
    """Drop a tenant, in parts if it is too large."""
    with conn.transaction():
        wanted = lock_table.needed(conn, name)
    whole = locks.fits(wanted)
    parts = locks.parts()
    with locks.taken(wanted if whole else locks.room):
        while True:
            try:
                with conn.transaction():
                    if not cascade:
                        refuse_used(conn, name, hint="--cascade drops what depends on tenants, too; or drop it before")
                    if not whole and lock_table.drop_some(conn, name, parts):
                        continue
                    conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
                    if journal.exists(conn):
                        journal.forget(conn, name)
                    return
            except psycopg.errors.OutOfMemory:
                # others have taken more of the lock table than was left to them
                if not whole and parts == 1:
                    raise
                parts = parts if whole else parts // 2
                whole = False


def refuse_used(conn: Connection, name: str, *, hint: str) -> None:
    """Raise UserError when something outside of a tenant depends on it. In a transaction, whose settings it changes."""
    # a few rows of a large catalog, whatever its statistics say
    conn.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off")
    rows = conn.execute(load("tenants", "outside").encode(), [name]).fetchall()
    if rows:
        outside, inside = rows[0]
        more = f" (and {text.count(len(rows) - 1)} more)" if len(rows) > 1 else ""
        raise UserError(f"{outside} depends on {inside}{more}", hint, 3)
