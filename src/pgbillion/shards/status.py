"""How each shard is: asked directly, all at the same time."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common.sql import load
from pgbillion.common.together import at_once
from pgbillion.shards.members import first_line
from pgbillion.shards.record import Engine, Member, Set


@dataclass(frozen=True)
class Shard:
    """One shard. What only a shard that can be reached tells is None of another.

    ``rows`` are by its statistics, ``size`` is of table and indexes, ``connections`` are those of its database but our
    own.
    """

    name: str
    address: str
    own: bool
    reachable: bool
    error: str | None = None
    version: str | None = None
    extension: str | None = None
    rows: int | None = None
    size: int | None = None
    connections: int | None = None

    @property
    def well(self) -> bool:
        """Tell whether it could answer a query."""
        return self.error is None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return asdict(self)


def ask(found: Set) -> list[Shard]:
    """Ask every shard, whether it can be reached or not."""
    return at_once(lambda member: _ask(found, member), found.members)


def _ask(found: Set, member: Member) -> Shard:
    if found.engine is Engine.CITUS:
        query, given = load("shards", "citus_status"), {"schema": found.schema, "table": found.table}
    else:
        query, given = load("shards", "status"), {"table": sql.Identifier(member.schema, found.table).as_string(None)}
    try:
        with member.target.connect() as conn:
            # a server that stops answering now must not keep us
            conn.execute("SET statement_timeout = '10s'")
            if found.engine is Engine.CITUS:
                # else it hides its tables
                conn.execute("SET citus.override_table_visibility = off")
            row = conn.execute(query.encode(), given).fetchone()
            assert row is not None
    except psycopg.Error as error:
        # a server that answers, but not to us, is there
        answers = error.sqlstate is not None and not error.sqlstate.startswith(("08", "57P"))
        return Shard(member.name, member.display, member.own, reachable=answers, error=first_line(error))
    version, extension, exists, rows, size, connections = row
    problem = None if exists else f'there is no table "{found.table}"'
    if extension is None:
        problem = "there is no extension pgbillion_rows"
    return Shard(member.name, member.display, member.own, True, problem, version, extension, rows, size, connections)
