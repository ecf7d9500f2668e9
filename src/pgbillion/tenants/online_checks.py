"""What is checked before a tenant is moved while clients write to it: servers, roles, and what replication carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import invocation, patterns, planner
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.tenants import arrival, needs, replication
from pgbillion.tenants.replication import Table

_OFFLINE = "or move it without --online"
_OWN_SETTING = 18
_RUNS_AS_OWNER = 16


def seconds(conn: Connection, lock_timeout: str) -> float:
    """Return a time that the server understands in seconds."""
    with conn.transaction(force_rollback=True):
        conn.execute("SELECT set_config('lock_timeout', %s, true)", [lock_timeout])
        row = conn.execute("SELECT setting::int8 FROM pg_settings WHERE name = 'lock_timeout'").fetchone()
    assert row is not None
    # PostgreSQL's 0 is no limit
    return float(row[0] or 86_400_000) / 1000


def servers(here: Connection, there: Connection) -> None:
    """Raise UserError if the servers or the roles cannot replicate."""
    level = _setting(here, "wal_level")
    # 19 decodes from the first logical slot on
    if level != "logical" and not (arrival.major(here) >= 19 and level == "replica"):
        raise UserError(
            f"the source's wal_level is {level}, and replication needs logical",
            "ALTER SYSTEM SET wal_level = logical, and restart the source; or move it without --online",
            3,
        )
    row = here.execute(
        "SELECT r.rolsuper OR r.rolreplication, has_database_privilege(current_database(), 'CREATE'),"
        " current_user::text FROM pg_roles r WHERE r.rolname = current_user"
    ).fetchone()
    assert row is not None
    if not row[0]:
        raise UserError(
            f"the role {row[2]} may not replicate from the source",
            f"let a superuser run there: ALTER ROLE {quoted(row[2])} REPLICATION",
            3,
        )
    if not row[1]:
        raise UserError(
            f"the role {row[2]} has no privilege to create a publication in the source",
            f"let somebody run there: GRANT CREATE ON DATABASE {quoted(here.info.dbname)} TO {quoted(row[2])}",
            3,
        )
    _room(there, "the target's", "max_sync_workers_per_subscription", "SELECT 0", 1)
    copying = int(_setting(there, "max_sync_workers_per_subscription") or 0)
    _room(here, "the source's", "max_replication_slots", "SELECT count(*) FROM pg_replication_slots", 1 + copying)
    _room(here, "the source's", "max_wal_senders", "SELECT count(*) FROM pg_stat_replication", 1 + copying)
    # the worker that applies, and one that copies
    workers = "SELECT count(*) FROM pg_stat_subscription WHERE pid IS NOT NULL"
    _room(there, "the target's", "max_logical_replication_workers", workers, 2)
    origins = "max_replication_slots" if arrival.major(there) < _OWN_SETTING else "max_active_replication_origins"
    _room(there, "the target's", origins, "SELECT count(*) FROM pg_replication_origin", 1 + copying)
    row = there.execute(
        "SELECT r.rolsuper, current_user::text FROM pg_roles r WHERE r.rolname = current_user"
    ).fetchone()
    assert row is not None
    if not row[0]:
        _may_subscribe(there, row[1])


def _setting(conn: Connection, name: str) -> str | None:
    row = conn.execute("SELECT current_setting(%s, true)", [name]).fetchone()
    return None if row is None else row[0]


def _room(conn: Connection, whose: str, setting: str, used: str, needed: int) -> None:
    most = int(_setting(conn, setting) or 0)
    row = conn.execute(used.encode()).fetchone()
    assert row is not None
    if most - row[0] < needed:
        raise UserError(
            f"{whose} {setting} is {most}, and {row[0]} are in use: a move needs {needed}",
            f"ALTER SYSTEM SET {setting} = {max(10, 2 * (row[0] + needed))}, and restart that server",
            3,
        )


def _may_subscribe(there: Connection, role: str) -> None:
    if arrival.major(there) < _RUNS_AS_OWNER:
        raise UserError(
            "before PostgreSQL 16, only a superuser can subscribe",
            f"name a superuser of the target in --to, {_OFFLINE}",
            3,
        )
    row = there.execute("SELECT pg_has_role('pg_create_subscription', 'MEMBER')").fetchone()
    if row != (True,):
        raise UserError(
            f"the role {role} may not subscribe in the target",
            f"let a superuser run there: GRANT pg_create_subscription TO {quoted(role)}",
            3,
        )


def tables(here: Connection, schema: str, found: Sequence[Table]) -> None:
    """Raise UserError for tables whose rows replication does not carry over."""
    for table in found:
        if table.persistence == "u":
            raise UserError(
                f"the table {table.name} is unlogged, and replication leaves it out",
                f"ALTER TABLE {quoted(schema, table.name)} SET LOGGED, {_OFFLINE}",
                3,
            )
        if table.hidden:
            raise UserError(
                f"policies of the table {table.name} would hide rows from the role {here.info.user}",
                "connect to the source as a role with BYPASSRLS, or as a superuser",
                3,
            )
        if not table.identifies and table.index is None and table.columns:
            _comparable(here, schema, table)


def _comparable(here: Connection, schema: str, table: Table) -> None:
    """Raise UserError if rows of a table without a key cannot be compared."""
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    query = sql.SQL("SELECT DISTINCT {} FROM ONLY {} LIMIT 0").format(columns, sql.Identifier(schema, table.name))
    try:
        with here.transaction():
            here.execute(query)
    except psycopg.errors.UndefinedFunction as error:
        raise UserError(
            f"the table {table.name} has no primary key, and its rows cannot be compared: {error.diag.message_primary}",
            f"add a primary key, {_OFFLINE}",
            3,
        ) from None


def owners(there: Connection, found: Sequence[Table]) -> None:
    """Raise UserError if the target's role cannot write as the tables' owners, as it has to from 16 on."""
    if arrival.major(there) < _RUNS_AS_OWNER:
        return
    for owner in sorted({table.owner for table in found}):
        row = there.execute("SELECT pg_has_role(%s, 'SET'), current_user::text", [owner]).fetchone()
        assert row is not None
        if not row[0]:
            raise UserError(
                f"the role {row[1]} cannot write as {owner}, to which tables belong",
                f"let somebody run in the target: GRANT {quoted(owner)} TO {quoted(row[1])}",
                3,
            )


def code(there: Connection, evaluated: Iterable[tuple[str, str, str]], found: Sequence[Table]) -> None:
    """Raise UserError if code of others would run for rows in the target with other privileges than before.

    Before 16 it would run as the role that subscribes, and later as the owner of the table.
    """
    if arrival.major(there) < _RUNS_AS_OWNER:
        arrival.check_code(
            there,
            evaluated,
            "move it to PostgreSQL 16 or later, where it runs as the table's owner, or without --online",
        )
        return
    whose = {table.owner for table in found}
    arrival.check_code(
        there,
        [(what, function, owner) for what, function, owner in evaluated if whose != {owner}],
        "have all tables belong to {role}, or move it without --online",
    )


def kept(here: Connection, name: str) -> None:
    """Raise UserError if the source cannot get the name that it has in the end."""
    if len(name.encode()) > 63:
        raise UserError(f'the name "{name}", which the source gets, has more than 63 bytes', "rename the tenant first")
    if here.execute("SELECT FROM pg_namespace WHERE nspname = %s", [name]).fetchone() is not None:
        raise UserError(
            f'the source gets the name "{name}" in the end, and there is a schema of that name',
            f"if it is what an earlier move has left: {invocation.command('tenants', 'drop', patterns.exactly(name))}",
            3,
        )


def outside_keys(here: Connection, schema: int) -> list[tuple[str, str]]:
    """Return foreign keys to tables of other schemas, and queries that find rows which violate them."""
    found = here.execute(load("tenants", "online_outside_keys").encode(), [schema]).fetchall()
    for constraint, query in found:
        if query is None:
            raise UserError(
                f"the foreign key {constraint} has a period and refers to another schema, which cannot be verified",
                "move it without --online",
                3,
            )
    return found


def of_identities(here: Connection, schema: int, changed: Sequence[str]) -> list[tuple[str, str]]:
    """Return the objects, by kind and name, in whose definition the replica identity of tables is."""
    rows = here.execute(
        "SELECT quote_ident(c.relname), i.relname IS NULL, quote_ident(i.relname)"
        " FROM pg_class c LEFT JOIN pg_index x ON x.indrelid = c.oid LEFT JOIN pg_class i ON i.oid = x.indexrelid"
        " WHERE c.relnamespace = %s::oid AND c.relname = ANY (%s::name[]) AND c.relkind = 'r'",
        [schema, list(changed)],
    ).fetchall()
    found = [("table", table) for table, _, _ in rows]
    return found + [("settings of index", index) for _, without, index in rows if not without]


def versions(here: Connection, schema: int) -> tuple[Any, ...]:
    """Return what changes with the definition of a schema, and sometimes else; the last value tells if not always."""
    with planner.through_indexes(here):
        return here.execute(needs.of_members("online_state").encode(), [schema]).fetchall()[0]


def sequences(here: Connection, schema: int) -> dict[str, tuple[Any, ...]]:
    """Return the values of a schema's sequences, by their quoted names, as `arrival.contents` does; in one query."""
    names = here.execute(
        "SELECT format('%%I.%%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.oid = %s::oid AND c.relkind = 'S' ORDER BY c.oid",
        [schema],
    ).fetchall()
    if not names:
        return {}
    query = sql.SQL(" UNION ALL ").join(
        sql.SQL("SELECT {}, last_value, is_called FROM ").format(sql.Literal(name)) + sql.SQL(name) for (name,) in names
    )
    return {row[0]: row[1:] for row in here.execute(query).fetchall()}


def reachable(there: Connection, name: str, conninfo: str) -> None:
    """Raise UserError if the target's server cannot replicate from the source; nothing is left of the attempt."""
    try:
        with there.transaction(force_rollback=True):
            replication.quietly(there)
            there.execute("SET LOCAL client_min_messages = error")
            # there is no publication yet
            there.execute(
                sql.SQL(
                    "CREATE SUBSCRIPTION {0} CONNECTION {1} PUBLICATION {0} WITH (create_slot = false, enabled = false)"
                ).format(sql.Identifier(name), sql.Literal(conninfo))
            )
    except psycopg.Error as error:
        if there.closed:
            raise
        # without libpq's question
        said = (error.diag.message_primary or str(error)).partition("\n")[0]
        raise UserError(
            f"the target's server cannot replicate from the source: {said}",
            "--source-conninfo describes how it reaches the source; a password belongs in a passfile there",
            3,
        ) from None
