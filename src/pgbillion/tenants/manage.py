"""List, rename and drop tenants by pattern."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import text, together
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load
from pgbillion.common.target import Target
from pgbillion.tenants import journal

Connection = psycopg.Connection[tuple[Any, ...]]

_LOCK_TIMEOUT = "10s"


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


def rename(conn: Connection, old: str, new: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Rename tenants, all or none: in both patterns % stands for the same text. Returns the pairs.

    Raises UserError for patterns that do not fit each other or names that are too long.
    """
    if old.count("%") > 1 or old.count("%") != new.count("%"):
        raise UserError("each name has the wildcard % once, or none has it", "as in 'tenant_%' 'customer_%'")
    before, wildcard, after = old.partition("%")
    pairs = []
    for name in names:
        fits = name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after)
        if not fits if wildcard else name != old:
            continue
        renamed = new.replace("%", name[len(before) : len(name) - len(after)]) if wildcard else new
        if not renamed:
            raise UserError(f"the new name of {name} is empty", "as in 'tenant_%' 'customer_%'")
        if len(renamed.encode()) > 63:
            raise UserError(f'the name "{renamed}" has more than 63 bytes', "choose a shorter one")
        pairs.append((name, renamed))
    if not pairs:
        raise UserError(f'no schema fits "{old}"', "% stands for any text; _ is itself here")
    with conn.transaction():
        for name, renamed in pairs:
            conn.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(name), sql.Identifier(renamed)))
        journal.rename(conn, [name for name, _ in pairs], [renamed for _, renamed in pairs])
    return pairs


def drop(
    target: Target,
    names: Sequence[str],
    workers: int,
    *,
    cascade: bool,
    observe: Callable[[int], AbstractContextManager[Callable[[int], None]]],
) -> int:
    """Drop tenants, each in a transaction of its own, and return how many.

    Raises UserError when something outside of a tenant depends on it, without ``cascade``; the tenant is left.
    """
    with target.connect() as conn:
        journaled = journal.exists(conn)
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
            mine.execute(f"SET client_min_messages = warning; SET lock_timeout = '{_LOCK_TIMEOUT}'".encode())
            while not team.stopped.is_set() and (name := take()) is not None:
                with mine.transaction():
                    if not cascade:
                        refuse_used(mine, name, hint="--cascade drops what depends on tenants, too; or drop it before")
                    mine.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
                    if journaled:
                        journal.forget(mine, name)
                with lock:
                    dropped += 1
                update(dropped)

    with observe(len(names)) as update, together.team(workers) as team:
        for future in [team.start(work, team) for _ in range(min(workers, len(names)))]:
            future.result()
    return dropped


def refuse_used(conn: Connection, name: str, *, hint: str) -> None:
    """Raise UserError when something outside of a tenant depends on it. In a transaction, whose settings it changes."""
    # a few rows of a large catalog, whatever its statistics say
    conn.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off")
    rows = conn.execute(load("tenants", "outside").encode(), [name]).fetchall()
    if rows:
        outside, inside = rows[0]
        more = f" (and {text.count(len(rows) - 1)} more)" if len(rows) > 1 else ""
        raise UserError(f"{outside} depends on {inside}{more}", hint, 3)
