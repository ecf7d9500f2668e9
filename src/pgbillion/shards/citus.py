"""A set whose table is distributed by Citus: its nodes are the members, it decides which row is where."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

from psycopg import sql

from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load as load_sql
from pgbillion.common.target import Target
from pgbillion.common.together import at_once
from pgbillion.rows import load
from pgbillion.server import extension
from pgbillion.shards import coordinator
from pgbillion.shards.record import Member, Set

LIBRARY = "citus"
# each has connections to all nodes
_MOST_SESSIONS = 8
# all that Citus takes for a node; roles and passwords it finds by itself
_OPTIONS = {"host", "port", "dbname"}


def check(conn: Connection) -> None:
    """Create Citus in the coordinator's database. Raises UserError where it cannot be had."""
    available = conn.execute("SELECT FROM pg_available_extensions WHERE name = 'citus'").fetchone()
    if available is None:
        raise UserError(
            "the coordinator does not have the extension Citus",
            "install Citus on all servers, or use --engine fdw, which needs only pgbillion",
        )
    loaded = conn.execute("SELECT current_setting('shared_preload_libraries') ~ '\\mcitus\\M'").fetchone()
    if loaded is None or not loaded[0]:
        raise UserError(
            "the coordinator does not load Citus",
            "add shared_preload_libraries = 'citus' to its configuration and restart it",
        )
    conn.execute("CREATE EXTENSION IF NOT EXISTS citus")


def plan(conn: Connection, members: tuple[Member, ...], database: str, *, local: bool) -> tuple[Member, ...]:
    """Return the members, with those that are no nodes yet marked so. Raises UserError for what Citus cannot do."""
    if local:
        raise UserError("--local is for --engine fdw", "Citus decides where rows are")
    for member in members:
        if set(member.options) - _OPTIONS or member.options.get("dbname") != database:
            raise UserError(
                f"Citus reaches shard {member.name} by host, port and the coordinator's database {database} only,"
                f" not by {member.display}",
                "give host=… port=… dbname=… and keep passwords in the servers' own passfile",
            )
    nodes = set(conn.execute("SELECT nodename, nodeport::text FROM pg_dist_node").fetchall())
    return tuple(
        replace(member, joined=(member.options["host"], member.options["port"]) not in nodes) for member in members
    )


def prepare(made: Set) -> None:
    """Have the database and both extensions on every member."""
    at_once(lambda member: _prepare(made, member), made.members)


def _prepare(made: Set, member: Member) -> None:
    if member.own:
        with Member(member.name, {**member.options, "dbname": "postgres"}, member.user).target.connect() as conn:
            name = member.options["dbname"]
            if conn.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
                conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    with member.target.connect() as conn:
        try:
            check(conn)
            extension.ensure_extension(conn, extension.ROWS)
        except UserError as error:
            message = error.message.replace("the coordinator", "it")
            raise UserError(f"shard {member.name}: {message}", error.hint, error.status) from error


def make(conn: Connection, made: Set) -> None:
    """Make the members nodes, and the table, distributed over all nodes."""
    for member in made.members:
        conn.execute("SELECT citus_add_node(%s, %s)", [member.options["host"], int(member.options["port"])])
    with conn.transaction():
        conn.execute(
            sql.SQL("CREATE TABLE {} (id {} NOT NULL, {})").format(
                made.relation,
                sql.SQL("bigserial" if made.layout.wide else "serial"),
                sql.SQL(coordinator.COLUMNS),
            )
        )
        coordinator.comment(conn, "TABLE", made.relation, made.mark)
        # a process works on each shard: as many as there are cores, where we know that
        own = all(member.own for member in made.members)
        cores = max(1, (os.cpu_count() or 1) // len(made.members)) * len(made.members)
        conn.execute(
            "SELECT create_distributed_table(%s, 'id',"
            " shard_count => coalesce(%s, current_setting('citus.shard_count')::int))",
            [made.relation.as_string(conn), cores if own else None],
        )


def shares(target: Target, made: Set) -> list[load.Share]:
    """Divide the rows among sessions of the coordinator, which sends each row where it belongs."""
    ids = [run for partition in range(made.layout.partitions) for run in made.layout.ids(partition)]
    sessions = min(len(ids), _MOST_SESSIONS, max(os.cpu_count() or 1, 2))
    return [load.Share(target, made.relation, ids[number::sessions], made.layout.wide) for number in range(sessions)]


def counts(found: Set) -> list[Counter[bytes | None]]:
    """Return what each member answers to the source's query over its own tables."""
    return at_once(lambda member: _counts(found, member), found.members)


def _counts(found: Set, member: Member) -> Counter[bytes | None]:
    total: Counter[bytes | None] = Counter()
    with member.target.connect() as conn:
        # else Citus hides them
        conn.execute("SET citus.override_table_visibility = off")
        tables = conn.execute(
            load_sql("shards", "citus_tables").encode(), {"schema": found.schema, "table": found.table}
        ).fetchall()
        for (name,) in tables:
            query = sql.SQL("SELECT grp::text, count(data) FROM {} GROUP BY 1").format(
                sql.Identifier(found.schema, name)
            )
            for group, number in conn.execute(query).fetchall():
                total[None if group is None else str(group).encode()] += number
    return total


def drop(conn: Connection, found: Set) -> None:
    """Drop the table if it carries the mark, and have those leave that joined for it."""
    # a server that never was a node is asked nothing of Citus's
    if conn.execute("SELECT FROM pg_extension WHERE extname = 'citus'").fetchone() is None:
        return
    if coordinator.marked(conn, found.relation, found.mark):
        conn.execute(sql.SQL("DROP TABLE {}").format(found.relation))
    for member in found.members:
        if member.joined:
            conn.execute(
                "SELECT citus_remove_node(nodename, nodeport) FROM pg_dist_node WHERE nodename = %s AND nodeport = %s",
                [member.options["host"], int(member.options["port"])],
            )
