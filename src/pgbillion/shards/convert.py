"""Foreign servers of postgres_fdw made anew as servers of pgbillion_fdw, or back, by a script that people can read."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Any

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load

_HEAD = """\
-- Servers of {other} made anew as servers of {wrapper}, with their user mappings and foreign tables.
-- Foreign tables hold no rows: the shards' tables are not touched. All of it or nothing is done; PostgreSQL refuses
-- where something else, such as a view, depends on a foreign table. Passwords of user mappings are in here.
BEGIN;
"""


class Wrapper(enum.StrEnum):
    """A foreign-data wrapper that servers can have."""

    OURS = "pgbillion_fdw"
    POSTGRES = "postgres_fdw"

    @property
    def other(self) -> Wrapper:
        """The one that servers are made anew from."""
        return Wrapper.POSTGRES if self is Wrapper.OURS else Wrapper.OURS


def script(conn: Connection, names: Sequence[str], wrapper: Wrapper) -> str:
    """Return the commands that make servers (of these names, or all that the role owns) anew with this wrapper."""
    given = {"wrapper": wrapper.other, "names": list(names) or None}
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        servers = conn.execute(load("shards", "convert_servers"), given).fetchall()
        missing = set(names) - {server[1] for server in servers}
        if missing:
            raise UserError(
                f'there is no foreign server "{min(missing)}" of {wrapper.other}',
                "the catalog pg_foreign_server lists servers",
            )
        if not servers:
            raise UserError(f"the role owns no foreign server of {wrapper.other}", "name those of other roles")
        parts = [_server(conn, wrapper, *server) for server in servers]
    return "\n".join((_HEAD.format(other=wrapper.other, wrapper=wrapper), *parts, "COMMIT;"))


def _server(
    conn: Connection, wrapper: Wrapper, oid: int, server: str, before: str, options: str, after: list[str]
) -> str:
    given = {"server": oid}
    refused = conn.execute(load("shards", "convert_refused"), given).fetchone()
    if refused is not None:
        raise UserError(
            f"foreign table {refused[0]} of server {server} has {refused[1]}, which the script would lack",
            "drop it, and create it anew afterwards",
        )
    mappings = conn.execute(load("shards", "convert_mappings"), given).fetchall()
    hidden = [whose for whose, _, visible in mappings if not visible]
    if hidden:
        raise UserError(
            f"you may not see the user mapping of {hidden[0]} for server {server}", "connect as a superuser"
        )
    tables = conn.execute(load("shards", "convert_tables"), given).fetchall()
    name = quoted(server)
    return "".join(f"{command};\n" for command in _commands(wrapper, name, before, options, after, mappings, tables))


def _commands(
    wrapper: Wrapper,
    name: str,
    before: str,
    options: str,
    after: list[str],
    mappings: Sequence[tuple[Any, ...]],
    tables: Sequence[tuple[Any, ...]],
) -> Iterator[str]:
    for table, *_ in tables:
        yield f"DROP FOREIGN TABLE {table}"
    for whose, *_ in mappings:
        yield f"DROP USER MAPPING FOR {whose} SERVER {name}"
    yield f"DROP SERVER {name}"
    yield f"CREATE SERVER {name}{before} FOREIGN DATA WRAPPER {wrapper}{options}"
    yield from after
    for whose, given, _ in mappings:
        yield f"CREATE USER MAPPING FOR {whose} SERVER {name}{given}"
    for table, columns, given, behind in tables:
        lines = ",\n    ".join(columns)
        yield f"CREATE FOREIGN TABLE {table} (\n    {lines}\n) SERVER {name}{given}"
        yield from behind
