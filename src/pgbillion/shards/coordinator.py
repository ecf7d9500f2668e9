"""The coordinator's side of a set: servers, user mappings and the partitioned table, made and dropped in one go."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import LiteralString

import psycopg
from psycopg import sql

from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server import extension
from pgbillion.shards.record import Engine, Member, Set

COLUMNS: LiteralString = "grp int, data real"
_NAME_BYTES = 50  # of 63, with room for what is added to it
# a sample by pages, where postgres_fdw can have the shard take it
_SAMPLING_SINCE = 160000
# what earlier servers are let fetch for statistics
_FETCHED_FOR_STATISTICS = 5_000_000


@contextlib.contextmanager
def session(target: Target, *, read_only: bool) -> Iterator[Connection]:
    """Give a session in which aggregates run on the shards."""
    with target.connect() as conn:
        extension.ensure_extension(conn, extension.ROWS)
        # psycopg would prepare what is run often
        conn.prepare_threshold = None
        conn.execute("SELECT set_config('enable_partitionwise_aggregate', 'on', false)")
        conn.execute("SELECT set_config('default_transaction_read_only', %s, false)", ["on" if read_only else "off"])
        yield conn


def check(conn: Connection, table: str, engine: Engine) -> None:
    """Raise UserError when this server or role cannot be the coordinator of such a table."""
    if len(table.encode()) > _NAME_BYTES:
        raise UserError(f'"{table}" is too long a name', f"{_NAME_BYTES} bytes are possible: partitions add to it")
    row = conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
    if row is None or not row[0]:
        raise UserError(
            f"role {conn.info.user} is no superuser of the coordinator",
            "its user mappings have no password, which only a superuser's may lack; connect as one",
        )
    schema = search_path.schema(conn)
    if schema is None:
        raise UserError("there is no schema to make the table in", "create one, or set search_path")
    extension.ensure_extension(conn, extension.ROWS)
    if engine is Engine.CITUS:
        return
    try:
        conn.execute(sql.SQL("CREATE EXTENSION IF NOT EXISTS postgres_fdw SCHEMA {}").format(sql.Identifier(schema)))
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise UserError(
            "the coordinator does not have the extension postgres_fdw", "install PostgreSQL's contrib modules", 3
        ) from error


def make(conn: Connection, made: Set) -> None:
    """Make foreign servers, user mappings and the table with its partitions, all or nothing."""
    try:
        with conn.transaction():
            conn.execute(
                sql.SQL("CREATE TABLE {} (id {} NOT NULL, {}) PARTITION BY LIST ({})").format(
                    made.relation,
                    sql.SQL("bigserial" if made.layout.wide else "serial"),
                    sql.SQL(COLUMNS),
                    made.layout.key(),
                )
            )
            comment(conn, "TABLE", made.relation, made.mark)
            for number, member in enumerate(made.members):
                _add(conn, made, number, member)
            if made.local:
                conn.execute(
                    sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES IN ({})").format(
                        local_table(made), made.relation, made.layout.partitions - 1
                    )
                )
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as error:
        raise UserError(
            f"the coordinator has one of these already: {error.diag.message_primary}",
            "give another name with --table",
        ) from error
    for member in made.members:
        _probe(conn, made, member)


def _add(conn: Connection, made: Set, number: int, member: Member) -> None:
    name = sql.Identifier(member.name)
    # a shard that is stopped must not be waited for without end
    given = {"connect_timeout": "10", **member.options}
    if conn.info.server_version >= _SAMPLING_SINCE:
        given["analyze_sampling"] = "system"
    conn.execute(
        sql.SQL("CREATE SERVER {} FOREIGN DATA WRAPPER pgbillion_fdw OPTIONS ({})").format(name, _options(given))
    )
    comment(conn, "SERVER", name, made.mark)
    conn.execute(sql.SQL("CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS (user {})").format(name, member.user))
    add_partition(conn, made, member, number, made.relation, member.name)


def add_partition(conn: Connection, made: Set, member: Member, number: int, table: sql.Identifier, name: str) -> None:
    """Make a shard's table a partition of another, the one with this number."""
    conn.execute(
        sql.SQL("CREATE FOREIGN TABLE {} PARTITION OF {} FOR VALUES IN ({}) SERVER {} OPTIONS ({})").format(
            sql.Identifier(made.schema, name),
            table,
            number,
            sql.Identifier(member.name),
            _options({"schema_name": member.schema, "table_name": made.table}),
        )
    )


def _options(given: dict[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(name), given[name]) for name in given)


def _probe(conn: Connection, made: Set, member: Member) -> None:
    """See that the coordinator's server itself gets through to a shard, which is not where this program runs."""
    try:
        conn.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(sql.Identifier(made.schema, member.name)))
    except psycopg.Error as error:
        said = " ".join(filter(None, (error.diag.message_primary, error.diag.message_detail)))
        raise UserError(
            f"the coordinator cannot use shard {member.name} ({member.display}): {said or error}",
            "it is the coordinator's server that connects: sockets, passfile and service file must be where, and"
            " readable for the user, it runs as",
            2,
        ) from error


def comment(conn: Connection, kind: LiteralString, name: sql.Identifier, mark: str) -> None:
    """Mark an object."""
    conn.execute(sql.SQL("COMMENT ON {} {} IS {}").format(sql.SQL(kind), name, mark))


def local_table(made: Set) -> sql.Identifier:
    """Return the coordinator's own partition."""
    return sql.Identifier(made.schema, made.local_name)


def gather_statistics(conn: Connection, made: Set) -> bool:
    """Have the planner know how many rows and groups there are; tell whether that was done.

    Before 16, postgres_fdw fetches all rows for it.
    """
    if conn.info.server_version < _SAMPLING_SINCE and made.rows > _FETCHED_FOR_STATISTICS:
        return False
    conn.execute(sql.SQL("ANALYZE {}").format(made.relation))
    return True


def drop(conn: Connection, found: Set) -> None:
    """Drop what is marked, all or nothing. Fails when something of somebody else depends on it."""
    with conn.transaction():
        if marked(conn, found.relation, found.mark):
            conn.execute(sql.SQL("DROP TABLE {}").format(found.relation))
        servers = conn.execute(
            "SELECT srvname FROM pg_foreign_server s WHERE obj_description(s.oid, 'pg_foreign_server') = %s",
            [found.mark],
        ).fetchall()
        for (server,) in servers:
            # mappings only say how to get to a server that is going
            users = conn.execute("SELECT usename FROM pg_user_mappings WHERE srvname = %s", [server]).fetchall()
            for (user,) in users:
                role = sql.SQL("PUBLIC") if user == "public" else sql.Identifier(user)
                conn.execute(sql.SQL("DROP USER MAPPING FOR {} SERVER {}").format(role, sql.Identifier(server)))
            conn.execute(sql.SQL("DROP SERVER {}").format(sql.Identifier(server)))


def marked(conn: Connection, relation: sql.Identifier, mark: str) -> bool:
    """Tell whether a table is there and carries the mark."""
    row = conn.execute(
        "SELECT obj_description(to_regclass(%s), 'pg_class') = %s", [relation.as_string(conn), mark]
    ).fetchone()
    return bool(row and row[0])
