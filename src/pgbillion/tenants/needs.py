"""What a tenant needs from outside of its schema, and whether another database has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg

from pgbillion.common import planner
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load

_LISTED = 20
_BY_NAME = {
    "extension": "SELECT extname::text FROM pg_extension",
    "role": "SELECT rolname::text FROM pg_roles",
    "tablespace": "SELECT spcname::text FROM pg_tablespace",
}


@dataclass(frozen=True)
class Need:
    """Something to be there: an extension, role or tablespace, or else an object, by its address.

    ``extension`` is that of the object, if it belongs to one, and ``schema`` that in which it is.
    """

    kind: str
    name: str
    address: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    extension: str | None = None
    schema: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def of(conn: Connection, schema: int) -> list[Need]:
    """Return what a schema needs. Raises UserError if an extension lives in it, as no dump of a schema has that."""
    row = conn.execute("SELECT extname::text FROM pg_extension WHERE extnamespace = %s::oid", [schema]).fetchone()
    if row is not None:
        raise UserError(
            f"the extension {row[0]} lives in the schema, and pg_dump takes it only with the whole database",
            "ALTER EXTENSION … SET SCHEMA puts it elsewhere, if it can be",
            3,
        )
    with planner.through_indexes(conn):
        roles = conn.execute(of_members("needed_roles").encode(), [schema] * 2).fetchall()
        objects = conn.execute(of_members("needs").encode(), [schema]).fetchall()
    needs = {Need(kind, name) for kind, name in roles}
    for kind, names, arguments, name, extension, within in objects:
        if extension is not None:
            needs.add(Need("extension", extension))
        if kind in _BY_NAME:
            needs.add(Need(kind, name))
        else:
            needs.add(Need(kind, name, (tuple(names), tuple(arguments)), extension, within))
    return sorted(needs, key=lambda need: (need.address is not None, str(need)))


def shown(needs: Iterable[Need]) -> list[str]:
    """Return what of it is worth telling: not what comes with an extension or a table, nor what every database has."""
    return sorted(
        str(need)
        for need in needs
        if need.extension is None
        and need.name != "plpgsql"
        and not need.kind.endswith(" column")
        and not _everywhere(need)
    )


def listed(needs: Sequence[Need]) -> str:
    """Return the first of them in a line, and how many more there are."""
    more = f" and {len(needs) - _LISTED:,} more" if len(needs) > _LISTED else ""
    return ", ".join(map(str, needs[:_LISTED])) + more


def _everywhere(need: Need) -> bool:
    """Tell whether initdb makes it, in every server: collations differ, by libraries and the operating system."""
    return need.schema == "information_schema" or (need.schema == "pg_catalog" and need.kind != "collation")


def evaluated(conn: Connection, schema: int, *, indexes: bool = False) -> list[tuple[str, str, str]]:
    """Return what is evaluated for rows that are copied into a schema, a function that it calls, and whose that is.

    ``indexes``: it has its indexes already.
    """
    query = of_members("evaluated").replace("{indexes}", str(indexes).lower())
    return conn.execute(query.encode(), [schema]).fetchall()


def of_members(name: str) -> str:
    """Return a query that begins with what is in a schema."""
    return load("tenants", name).replace("{members}", load("tenants", "members"))


def missing(conn: Connection, needs: Sequence[Need]) -> list[Need]:
    """Return what a database lacks: of an extension not each object, and of a table not each column."""
    there = {kind: {name for (name,) in conn.execute(query.encode())} for kind, query in _BY_NAME.items()}
    absent: list[Need] = []
    for need in needs:
        if need.address is None:
            if need.name not in there[need.kind]:
                absent.append(need)
        elif need.extension is None or need.extension in there["extension"]:
            try:
                conn.execute(
                    "SELECT pg_get_object_address(%s, %s::text[], %s::text[])", [need.kind, *map(list, need.address)]
                )
            except psycopg.errors.LockNotAvailable:
                # it is there, and somebody is at work with it
                continue
            except psycopg.Error:
                if conn.closed:
                    raise
                absent.append(need)
    tables = {need.address[0] for need in absent if need.address and not need.kind.endswith(" column")}
    return [
        need
        for need in absent
        if not (need.address and need.kind.endswith(" column") and need.address[0][:-1] in tables)
    ]
