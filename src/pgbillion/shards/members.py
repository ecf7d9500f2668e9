"""The shards' side of a set: who they are, their table, its rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgbillion.common import search_path
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.common.together import at_once
from pgbillion.server import describe, extension
from pgbillion.shards import coordinator
from pgbillion.shards.record import Member, Set, member_name

_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_FILES = ("passfile", "sslcert", "sslkey", "sslrootcert", "sslcrl")
# of the program's own connection, not of the coordinator's
_OURS = ("client_encoding", "fallback_application_name")
LEAST_VERSION = 150000


def resolve(given: Sequence[str], table: str) -> tuple[Member, ...]:
    """Connect to the user's servers, and return them as members; what libpq found for them here is written out.

    Raises UserError for a string with a secret in it, which is not repeated, and for a server given twice.
    """
    parsed = [_parse(one) for one in given]
    members = at_once(lambda pair: _resolve(member_name(table, pair[0]), pair[1]), list(enumerate(parsed)))
    seen: dict[tuple[str, int], str] = {}
    for (_, identity), words in zip(members, given, strict=True):
        key = (identity["system_identifier"], identity["database_oid"])
        if key in seen:
            raise UserError(f"--shard {words} and --shard {seen[key]} are the same database", "give each shard once")
        seen[key] = words
    return tuple(member for member, _ in members)


def _parse(given: str) -> dict[str, str]:
    # a bare word is a service's name
    text = given if "=" in given or "://" in given else make_conninfo(service=given)
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    except psycopg.ProgrammingError:
        # libpq's message quotes the string, and with it, maybe, a password
        raise UserError(
            "a connection string given with --shard is not one libpq understands",
            "as in --shard 'host=db1 dbname=mydb', --shard postgresql://user@db1/mydb or --shard SERVICE",
        ) from None
    if any(name in parts for name in _SECRETS):
        raise UserError(
            "a connection string given with --shard has a password in it, which others can see",
            "keep it in a passfile or a service file: --shard 'host=db1 dbname=mydb passfile=/…' or --shard SERVICE",
        )
    for name in _FILES:
        # the coordinator's server looks from its own folder
        if parts.get(name) and parts[name] != "system":
            parts[name] = str(Path(parts[name]).expanduser().absolute())
    return parts


def _resolve(name: str, parts: dict[str, str]) -> tuple[Member, dict[str, Any]]:
    options = {key: value for key, value in parts.items() if key != "user" and key not in _OURS}
    with _connect(name, parts) as conn:
        if "service" not in options:
            options.setdefault("host", conn.info.host)
            options.setdefault("port", str(conn.info.port))
            options.setdefault("dbname", conn.info.dbname)
        schema = search_path.schema(conn)
        if schema is None:
            raise UserError(f"shard {name} has no schema to make the table in", "create one, or set search_path there")
        identity = describe.identity(conn)
        if conn.info.server_version < LEAST_VERSION:
            version = conn.info.parameter_status("server_version")
            raise UserError(f"shard {name} runs PostgreSQL {version}, which is too old", "15 or newer is needed")
        return Member(name, options, conn.info.user, schema), identity


def _connect(name: str, parts: dict[str, str]) -> Connection:
    shown = make_conninfo(**parts)
    ours = {"connect_timeout": "10", "fallback_application_name": "pgbillion"}
    try:
        return Target(make_conninfo(**{**ours, **parts}), shown).connect()
    except psycopg.OperationalError as error:
        raise unreachable(name, shown, error) from error


def unreachable(name: str, shown: str, error: psycopg.Error) -> UserError:
    """Return what to raise when a shard cannot be reached."""
    return UserError(f"shard {name} ({shown}) cannot be reached: {first_line(error)}", None, 2)


def first_line(error: psycopg.Error) -> str:
    """Return what libpq or the server said, without the many addresses it may have tried."""
    lines = [line.strip() for line in str(error.diag.message_primary or error).splitlines() if line.strip()]
    return re.sub(r"^connection (?:failed|is bad): ", "", lines[0]) if lines else "it said nothing"


def make(made: Set) -> None:
    """Make the extension and the empty table on every shard."""
    at_once(lambda member: _make(made, member), made.members)


def _make(made: Set, member: Member) -> None:
    table = sql.Identifier(member.schema, made.table)
    with member.target.connect() as conn:
        try:
            extension.ensure_extension(conn, extension.ROWS)
        except UserError as error:
            raise UserError(f"shard {member.name}: {error.message}", error.hint, error.status) from error
        with conn.transaction():
            try:
                conn.execute(
                    sql.SQL("CREATE TABLE {} (id {} NOT NULL, {})").format(
                        table, sql.SQL("bigint" if made.layout.wide else "int"), sql.SQL(coordinator.COLUMNS)
                    )
                )
            except psycopg.errors.DuplicateTable as error:
                raise UserError(
                    f'shard {member.name} ({member.display}) has a table "{made.table}" already',
                    "give another name with --table",
                ) from error
            coordinator.comment(conn, "TABLE", table, made.mark)


def drop(found: Set, member: Member) -> None:
    """Drop the shard's table if it carries the mark."""
    table = sql.Identifier(member.schema, found.table)
    with member.target.connect() as conn:
        if coordinator.marked(conn, table, found.mark):
            conn.execute(sql.SQL("DROP TABLE {}").format(table))
