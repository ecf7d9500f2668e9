"""The journal of migrations: a table in a schema of its own, which only superusers and the role that runs them own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.tenants.schemas import JOURNAL
from pgbillion.tenants.script import Script

# with the values of claim_values(): notes that a migration is done, and returns no row if it was before
CLAIM = (
    "INSERT INTO pgbillion_journal.migration AS m (tenant, migration, statement, checksum, done, started, finished)"
    " VALUES (%s, %s, %s, %s, true, now(), clock_timestamp())"
    " ON CONFLICT (migration, tenant, statement) DO UPDATE SET checksum = excluded.checksum, done = true,"
    " started = excluded.started, finished = excluded.finished, error = NULL WHERE NOT m.done RETURNING true"
)
_FAIL = (
    "INSERT INTO pgbillion_journal.migration AS m"
    " (tenant, migration, statement, checksum, done, started, finished, error)"
    " VALUES (%s, %s, %s, %s, false, now(), clock_timestamp(), %s)"
    " ON CONFLICT (migration, tenant, statement) DO UPDATE"
    " SET checksum = excluded.checksum, started = excluded.started, finished = excluded.finished,"
    " error = excluded.error WHERE NOT m.done"
)
# which versions of a tenant's rows there are: another one is in another place or of another transaction
_VERSIONS = "coalesce(string_agg(m.ctid::text || m.xmin::text, ' ' ORDER BY m.ctid) FILTER (WHERE m.done), '')"
_COLUMNS = "tenant, migration, statement, checksum, done, started, finished, error"
# of a schema by its OID, whose name may change
_OF_SCHEMA = "pgbillion_journal.migration m JOIN pg_namespace n ON n.nspname::text = m.tenant WHERE n.oid = %s::oid"


def exists(conn: Connection) -> bool:
    """Tell whether there is a journal. Raises UserError when others could have made it say what they like."""
    row = conn.execute(
        "SELECT n.nspname, r.rolsuper OR r.rolname = current_user, c.relkind = 'r' AND NOT c.relhastriggers"
        " AND NOT c.relhasrules AND NOT c.relrowsecurity"
        " FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'migration'"
        " LEFT JOIN pg_roles r ON r.oid = c.relowner WHERE n.nspname = %s",
        [JOURNAL],
    ).fetchone()
    if row is None:
        return False
    if not search_path.trusted(conn, JOURNAL) or not row[1] or not row[2]:
        raise UserError(
            f"the schema {JOURNAL} is not this role's or a superuser's alone, or is no journal",
            "connect as the role that has made it; if it is nobody's journal, rename it",
            status=3,
        )
    return True


def make(conn: Connection) -> None:
    """Create the journal where there is none."""
    if exists(conn):
        return
    try:
        with conn.transaction():
            conn.execute(load("tenants", "journal").encode())
    except (psycopg.errors.DuplicateSchema, psycopg.errors.UniqueViolation):
        # another run has, at the same moment
        exists(conn)
    except psycopg.errors.InsufficientPrivilege:
        raise UserError(
            f"no privilege to create the schema {JOURNAL}, in which migrate notes what it has done",
            f"let somebody run: GRANT CREATE ON DATABASE {quoted(conn.info.dbname)} TO {quoted(conn.info.user)}",
            status=3,
        ) from None


def pending(conn: Connection, script: Script, tenants: Sequence[str]) -> list[str]:
    """Return the tenants that have not had a migration. Raises UserError if some had another one of that name."""
    rows = conn.execute(
        "SELECT tenant, checksum FROM pgbillion_journal.migration"
        " WHERE migration = %s AND done AND (statement = 0 OR checksum <> %s)",
        [script.name, script.checksum],
    ).fetchall()
    for tenant, checksum in rows:
        if checksum != script.checksum:
            raise UserError(
                f"{script.name} has been run in {tenant}, and was another text then",
                "a migration that was run stays as it is: put what is new into a file of another name",
            )
    done = {tenant for tenant, _ in rows}
    return [tenant for tenant in tenants if tenant not in done]


def claim(conn: Connection, script: Script, tenant: str, statement: int = 0) -> bool:
    """Note that a migration is done, in the transaction that does it; False if it was before.

    Another transaction that does the same waits until this one ends.
    """
    return conn.execute(CLAIM, claim_values(script, tenant, statement)).fetchone() is not None


def claim_values(script: Script, tenant: str, statement: int = 0) -> list[Any]:
    """Return the values of CLAIM."""
    return [tenant, script.name, statement, script.checksum]


def fail(conn: Connection, script: Script, tenant: str, statement: int, error: str) -> None:
    """Note that it has failed."""
    conn.execute(_FAIL, [tenant, script.name, statement, script.checksum, error])


def statements_done(conn: Connection, script: Script, tenant: str) -> set[int]:
    """Return the numbers of the statements that were run."""
    rows = conn.execute(
        "SELECT statement FROM pgbillion_journal.migration WHERE migration = %s AND tenant = %s AND done",
        [script.name, tenant],
    )
    return {number for (number,) in rows}


def hold(conn: Connection) -> None:
    """Wait for migrations in progress, and keep others from beginning, until the end of the transaction.

    Raises UserError when that takes too long.
    """
    if not exists(conn):
        return
    try:
        conn.execute("LOCK TABLE pgbillion_journal.migration IN SHARE ROW EXCLUSIVE MODE")
    except psycopg.errors.LockNotAvailable:
        raise UserError("migrations are being run, which need the names as they are", "wait for their end", 3) from None


def rename(conn: Connection, old: Sequence[str], new: Sequence[str]) -> None:
    """Have renamed tenants keep what they have had; in the transaction that renames, which holds the journal."""
    if exists(conn):
        # of earlier schemas that had the new names
        conn.execute(
            "DELETE FROM pgbillion_journal.migration WHERE tenant = ANY (%s::text[]) AND tenant <> ALL (%s::text[])",
            [list(new), list(old)],
        )
        conn.execute(
            "UPDATE pgbillion_journal.migration SET tenant = n.new"
            " FROM unnest(%s::text[], %s::text[]) AS n (old, new) WHERE tenant = n.old",
            [list(old), list(new)],
        )


def given(conn: Connection, *tenants: str) -> list[tuple[Any, ...]]:
    """Return what tenants have had, for the journal of another database."""
    return conn.execute(
        f"SELECT {_COLUMNS} FROM pgbillion_journal.migration WHERE tenant = ANY (%s::text[]) ORDER BY 2, 3".encode(),
        [list(tenants)],
    ).fetchall()


def take(conn: Connection, tenant: str, rows: Sequence[Sequence[Any]]) -> None:
    """Note what a tenant has had elsewhere; in the transaction that brings it, and instead of an earlier one's."""
    forget(conn, tenant)
    with conn.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO pgbillion_journal.migration ({_COLUMNS}) VALUES ({', '.join(['%s'] * 8)})".encode(), rows
        )


def forget(conn: Connection, *tenants: str) -> None:
    """Forget tenants that are dropped; in the transaction that drops them."""
    conn.execute("DELETE FROM pgbillion_journal.migration WHERE tenant = ANY (%s::text[])", [list(tenants)])


def had(conn: Connection, template: int) -> str:
    """Return which rows tell what a template, by its OID, has had; before it is cloned, in the same transaction."""
    row = conn.execute(f"SELECT {_VERSIONS} FROM {_OF_SCHEMA}", [template])
    return str(row.fetchall()[0][0])


def inherit(conn: Connection, template: int, tenants: Sequence[str], before: str | None) -> bool:
    """Note that new tenants have had what their template has had; in the transaction that creates them.

    False if that is no longer what it was ``before``: then it is unknown which of both the clones are like. Of earlier
    schemas that had the names of the new ones nothing is kept.
    """
    conn.execute("DELETE FROM pgbillion_journal.migration WHERE tenant = ANY (%s::text[])", [list(tenants)])
    # what is compared and what is inherited must be of one snapshot
    row = conn.execute(
        f"WITH had AS (SELECT m.*, m.ctid AS place, m.xmin AS writer FROM {_OF_SCHEMA}),"
        " inherited AS (INSERT INTO pgbillion_journal.migration"
        " SELECT t.tenant, m.migration, m.statement, m.checksum, m.done, m.started, m.finished, m.error"
        " FROM had m, unnest(%s::text[]) AS t (tenant) WHERE m.done"
        # a failure in an earlier schema, noted a moment ago
        " ON CONFLICT (migration, tenant, statement) DO UPDATE SET checksum = excluded.checksum, done = excluded.done,"
        " started = excluded.started, finished = excluded.finished, error = excluded.error)"
        f" SELECT {_VERSIONS.replace('ctid', 'place').replace('xmin', 'writer')} FROM had m",
        [template, list(tenants)],
    )
    return str(row.fetchall()[0][0]) == (before or "")
