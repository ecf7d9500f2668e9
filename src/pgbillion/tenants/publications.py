"""Publications that a schema or its tables were in: the restored ones join those that the target still has."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.common.sql import load


@dataclass(frozen=True)
class Member:
    """What a publication had: a table by its name alone, with columns and a filter of rows, or the whole schema."""

    publication: str
    table: str | None
    columns: list[str] | None
    filter: str | None


def members(here: Connection, schema: int) -> list[Member]:
    """Return what of a schema publications had by name."""
    return [Member(*row) for row in here.execute(load("tenants", "published").encode(), {"schema": schema})]


def join(there: Connection, schema: str, of: list[Member]) -> list[str]:
    """Have publications have them again, in a transaction; return the names of those that cannot."""
    left = []
    for member in of:
        what: sql.Composable
        if member.table is None:
            what = sql.SQL("TABLES IN SCHEMA {}").format(sql.Identifier(schema))
        else:
            what = sql.SQL("TABLE ONLY {}").format(sql.Identifier(schema, member.table))
            if member.columns is not None:
                names = sql.SQL(", ").join(map(sql.Identifier, member.columns))
                what = sql.SQL("{} ({})").format(what, names)
            if member.filter is not None:
                what = sql.SQL("{} WHERE ({})").format(what, sql.SQL(member.filter))
        try:
            with there.transaction():
                there.execute(sql.SQL("ALTER PUBLICATION {} ADD {}").format(sql.Identifier(member.publication), what))
        except (
            psycopg.errors.UndefinedObject,
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ObjectNotInPrerequisiteState,
        ):
            # it is gone, another role's, or has all tables by now
            left.append(member.publication)
    return sorted(set(left))
