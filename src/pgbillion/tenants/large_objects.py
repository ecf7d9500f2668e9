"""Large objects that a restored tenant's rows name, taken from one database to another.

A column of type oid, or of a domain over it such as lo, may name one: its values do that are OIDs of large objects. In
the target the object keeps its OID if that is free, or if it is there and the same. Otherwise it gets another one, and
the rows are changed in the copy before they are read, by a session of the table's owner: what that calls, as in a
constraint, does not run with the restoring role's privileges. Objects that exist are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load

_BLOCK = 4 << 20


@dataclass(frozen=True)
class Column:
    """A column that may name large objects: its table and name, as SQL has them, and the table's owner."""

    table: str
    name: str
    owner: str


def columns(here: Connection, schema: int) -> list[Column]:
    """Return the columns of a schema's tables that may name large objects."""
    return [Column(*row) for row in here.execute(load("tenants", "large_object_columns").encode(), [schema])]


def named(here: Connection, of: Iterable[Column]) -> list[int]:
    """Return the OIDs of the large objects that columns name."""
    found: set[int] = set()
    for column in of:
        query = (
            f"SELECT DISTINCT m.oid::int8 FROM ONLY {column.table} AS t"
            f" JOIN pg_largeobject_metadata m ON m.oid = t.{column.name}::oid"
        )
        found |= {oid for (oid,) in here.execute(query.encode())}
    return sorted(found)


def choose(here: Connection, there: Connection, oids: Sequence[int]) -> dict[int, int]:
    """Return the OID that each large object is to have in the target."""
    taken = {oid for (oid,) in here.execute("SELECT oid::int8 FROM pg_largeobject_metadata")}
    chosen: dict[int, int] = {}
    for oid in oids:
        chosen[oid] = oid
        if _facts(there, oid) is not None and not _same(here, oid, there, oid):
            while chosen[oid] in taken:
                with there.transaction(force_rollback=True):
                    chosen[oid] = there.execute("SELECT lo_create(0)::int8").fetchall()[0][0]
            taken.add(chosen[oid])
    return chosen


def create(here: Connection, there: Connection, chosen: dict[int, int], creating: Callable[[list[int]], None]) -> None:
    """Create what the target lacks, in one transaction; ``creating`` is called before with the OIDs."""
    new = {}
    for old, oid in chosen.items():
        if _facts(there, oid) is None:
            new[old] = oid
        elif not _same(here, old, there, oid):
            raise UserError(f"somebody has changed the large object {oid} meanwhile", "try again with --discard", 3)
    creating(list(new.values()))
    with there.transaction():
        for old, oid in new.items():
            there.execute("SELECT lo_create(%s::oid)", [oid])
            for at, block in enumerate(_blocks(here, old)):
                there.execute("SELECT lo_put(%s::oid, %s::int8, %b)", [oid, at * _BLOCK, block])
            _describe(here, old, there, oid)


def _blocks(conn: Connection, oid: int) -> Iterable[bytes]:
    """Give the contents, block by block; the last one is shorter, and may be empty."""
    at = 0
    with conn.cursor(binary=True) as cursor:
        while True:
            cursor.execute("SELECT lo_get(%s::oid, %s::int8, %s::int4)", [oid, at, _BLOCK])
            block = bytes(cursor.fetchall()[0][0])
            yield block
            if len(block) < _BLOCK:
                return
            at += _BLOCK


def _facts(conn: Connection, oid: int) -> tuple[Any, ...] | None:
    """Return owner, grants and comment of a large object; None if there is none."""
    return conn.execute(
        "SELECT r.rolname::text, ARRAY (SELECT format('%%s %%s %%s', coalesce(g.rolname, ''), a.privilege_type,"
        " a.is_grantable) FROM aclexplode(m.lomacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee ORDER BY 1),"
        " obj_description(m.oid, 'pg_largeobject')"
        " FROM pg_largeobject_metadata m JOIN pg_roles r ON r.oid = m.lomowner WHERE m.oid = %s::oid",
        [oid],
    ).fetchone()


def _same(here: Connection, old: int, there: Connection, oid: int) -> bool:
    if _facts(here, old) != _facts(there, oid):
        return False
    ours, theirs = iter(_blocks(here, old)), iter(_blocks(there, oid))
    while True:
        one, other = next(ours, None), next(theirs, None)
        if one != other:
            return False
        if one is None:
            return True


def _describe(here: Connection, old: int, there: Connection, oid: int) -> None:
    """Give a large object its owner, grants and comment."""
    facts = _facts(here, old)
    assert facts is not None
    name = sql.Literal(oid)
    owner, _, comment = facts
    if comment is not None:
        there.execute(sql.SQL("COMMENT ON LARGE OBJECT {} IS {}").format(name, sql.Literal(comment)))
    grants = here.execute(
        "SELECT g.rolname::text, a.privilege_type, a.is_grantable FROM pg_largeobject_metadata m,"
        " aclexplode(m.lomacl) a LEFT JOIN pg_roles g ON g.oid = a.grantee"
        " WHERE m.oid = %s::oid AND a.grantee <> m.lomowner ORDER BY 1, 2",
        [old],
    ).fetchall()
    there.execute(sql.SQL("ALTER LARGE OBJECT {} OWNER TO {}").format(name, sql.Identifier(owner)))
    for role, privilege, grantable in grants:
        there.execute(
            sql.SQL("GRANT {} ON LARGE OBJECT {} TO {}{}").format(
                sql.SQL(privilege),
                name,
                sql.SQL("PUBLIC") if role is None else sql.Identifier(role),
                sql.SQL(" WITH GRANT OPTION" if grantable else ""),
            )
        )


def roles(here: Connection, oids: Sequence[int]) -> list[str]:
    """Return the roles that own large objects or have privileges on them."""
    rows = here.execute(
        "SELECT DISTINCT r.rolname::text FROM pg_largeobject_metadata m"
        " LEFT JOIN LATERAL aclexplode(m.lomacl) a ON true"
        " JOIN pg_roles r ON r.oid IN (m.lomowner, a.grantee) WHERE m.oid = ANY (%s::oid[]) ORDER BY 1",
        [list(oids)],
    )
    return [role for (role,) in rows]


def change(
    here: Connection, of: Sequence[Column], chosen: dict[int, int], connect: Callable[[str], Connection]
) -> None:
    """Have columns name the OIDs that were chosen. ``connect`` connects to the copy as a role, which it lets log in."""
    changed = {old: new for old, new in chosen.items() if old != new}
    for owner in sorted({column.owner for column in of} if changed else ()):
        with connect(owner) as session:
            for column in of:
                if column.owner == owner:
                    session.execute(
                        f"UPDATE ONLY {column.table} AS t SET {column.name} = m.new"
                        " FROM unnest(%s::oid[], %s::oid[]) AS m (old, new)"
                        f" WHERE m.old = t.{column.name}::oid".encode(),
                        [list(changed), list(changed.values())],
                    )
    left = set(named(here, of)) & set(changed)
    if left:
        raise UserError(f"rows that name the large object {min(left)} could not be changed", "restore without --as", 3)


def remove(there: Connection, oids: Iterable[int]) -> None:
    """Remove large objects, those that there are."""
    for oid in oids:
        try:
            there.execute("SELECT lo_unlink(%s::oid)", [oid])
        except psycopg.errors.UndefinedObject:
            continue
