"""Tenants that come into another database, whichever way: whether it takes them, and whether a copy is right."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgbillion.common import invocation, planner, text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.quoting import quoted
from pgbillion.common.sql import load
from pgbillion.tenants import wording

Objects = dict[tuple[str, str], str]

# a server may have limits for statements, and for transactions that wait, as ours does for the programs
_PATIENT = (
    "SELECT set_config(name, '0', false) FROM pg_settings"
    " WHERE name IN ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"
)
_SHOWN = 5
_NOT_NULL = re.compile(r'ALTER TABLE .* ADD CONSTRAINT (?:"(?:[^"]|"")+"|[^" ]+) NOT NULL ', re.DOTALL)


@dataclass
class Contents:
    """What a schema holds: objects by kind and name, and what is to be counted."""

    objects: Objects
    tables: list[str]
    sequences: dict[str, tuple[Any, ...]]


def oid_of(conn: Connection, schema: str) -> int:
    """Return a schema's OID. Raises UserError without one, and for the system's."""
    row = conn.execute(
        "SELECT oid::int8, nspname ~ '^pg_' OR nspname = 'information_schema' FROM pg_namespace WHERE nspname = %s",
        [schema],
    ).fetchone()
    if row is None:
        raise UserError(
            f'there is no schema "{schema}"', f"see what there is with: {invocation.command('tenants', 'list')}"
        )
    if row[1]:
        raise UserError(f"{schema} is the system's", "tenants have schemas of their own")
    return int(row[0])


def major(conn: Connection) -> int:
    """Return the server's major version."""
    return conn.info.server_version // 10000


def patient(conn: Connection) -> None:
    """Have a session wait as long as it takes, and see all rows or fail."""
    conn.execute(_PATIENT)
    # rows that a policy hides would not be counted: then it is an error, as it is pg_dump's
    conn.execute("SET row_security = off")


def check_database(there: Connection) -> None:
    """Raise UserError for a database in which no schema can be created."""
    row = there.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE'), pg_is_in_recovery(), current_user"
    ).fetchone()
    assert row is not None
    if row[1]:
        raise UserError("the target is a standby, which takes no writes", "name its primary", 3)
    if not row[0]:
        raise UserError(
            f"no privilege to create a schema in {there.info.dbname}",
            f"let somebody run: GRANT CREATE ON DATABASE {quoted(there.info.dbname)} TO {quoted(row[2])}",
            3,
        )


def check_code(there: Connection, evaluated: Iterable[tuple[str, str, str]], otherwise: str) -> None:
    """Raise UserError if code of others would run as the role that restores rows in the target.

    ``otherwise`` is what else can be done, with {role} for the owner of the code.
    """
    trusted = {
        role for (role,) in there.execute("SELECT rolname::text FROM pg_roles WHERE rolsuper OR rolname = current_user")
    }
    for what, function, owner in evaluated:
        if owner not in trusted:
            raise UserError(
                f"{what} calls {function} of role {owner}, which would run in the target with the privileges of"
                f" {there.info.user}",
                f"{otherwise.replace('{role}', owner)}, or add --trust-owner if you trust that role with your"
                " privileges",
                3,
            )


def contents(conn: Connection, schema: int) -> Contents:
    """Return what a schema holds, as a copy of it is to hold."""
    with planner.through_indexes(conn):
        rows = conn.execute(load("tenants", "objects").encode(), [[schema]]).fetchall()
        relations = conn.execute(
            "SELECT relkind::text, format('%%I.%%I', nspname, relname) FROM pg_depend d"
            " JOIN pg_class c ON c.oid = objid JOIN pg_namespace n ON n.oid = relnamespace"
            " WHERE refclassid = 'pg_namespace'::regclass AND refobjid = %s::oid AND classid = 'pg_class'::regclass"
            " AND relkind IN ('r', 'S') ORDER BY relname",
            [schema],
        ).fetchall()
    objects = {(kind, name): _plain(kind, what) for _, kind, name, what in rows}
    sequences = {
        name: conn.execute(f"SELECT last_value, is_called FROM {name}".encode()).fetchall()[0]
        for kind, name in relations
        if kind == "S"
    }
    return Contents(objects, [name for kind, name in relations if kind == "r"], sequences)


def _plain(kind: str, what: str) -> str:
    """Return what an object is, without grants that say what goes without saying: pg_dump leaves them out."""
    if kind == "owner and grants of":
        owner, _, grants = what.partition(" ")
        kept = [item for item in grants.split(", ") if item and not item.startswith(f"{owner}=")]
        return f"{owner} {', '.join(kept)}"
    if kind == "function":
        definition, mark, rest = what.rpartition(" -- ")
        owner, _, grants = rest.partition(" ")
        default = {f"=X/{owner}", f"{owner}=X/{owner}"}
        return f"{definition}{mark}{owner} {'' if set(grants.strip('{}').split(',')) == default else grants}"
    return what


def differences(
    wanted: Mapping[tuple[str, str], str], found: Mapping[tuple[str, str], str], *, same: bool
) -> list[str]:
    """Return the objects of a copy that are not what they were; by name alone unless the servers word them the same."""

    def one_sided(key: tuple[str, str]) -> bool:
        # before 18 NOT NULL has no name, and later one is chosen
        of_column = key[0] == "constraint" and _NOT_NULL.match(wanted.get(key) or found.get(key) or "")
        return (key in wanted) != (key in found) and (same or not of_column)

    return [
        " ".join(key)
        for key in sorted(wanted.keys() | found.keys())
        if one_sided(key) or (same and not wording.same(wanted.get(key), found.get(key)))
    ]


def some(wrong: Sequence[str]) -> str:
    """Return the first differences, and how many more there are."""
    more = f" (and {text.count(len(wrong) - _SHOWN)} more)" if len(wrong) > _SHOWN else ""
    return f"{'; '.join(wrong[:_SHOWN])}{more}"
