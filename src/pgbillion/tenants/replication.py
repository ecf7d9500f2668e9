"""Logical replication of one schema's tables: a publication, a slot and a subscription, made, watched and removed.

All three have the same name, which has the OIDs of the source's database and schema. Comments on the publication and on
the subscription record whose they are, so that what an interrupted move has left can be found and removed.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psycopg
from psycopg import sql

from pgbillion.common import text
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.sql import load

Say = Callable[[str], None]

_PREFIX = "pgbillion_move_"
_MARK = "pgbillion tenants move: "
# writers wait behind a lock that waits: not longer than this, and shorter than before anybody looks for deadlocks
_WAIT_MS = 400
_DEADLOCK_MS = 20
_POLL_SECONDS = 0.005
SLOW_POLL_SECONDS = 0.2
_END_SECONDS = 60
_SAY_EVERY = 10


class StoppedError(UserError):
    """The target has stopped to replicate; only the log of its server says why."""

    def __init__(self) -> None:
        super().__init__(
            "replication into the target has stopped with an error",
            "the target's server log has the reason; nothing has changed for clients of the source",
            3,
        )


@dataclass(frozen=True)
class Table:
    """A table with rows of its own. ``identifies``: its replica identity finds rows; ``index``: one that would."""

    name: str
    kind: str
    persistence: str
    owner: str
    hidden: bool
    identity: str
    identity_index: str | None
    identifies: bool
    index: str | None
    columns: list[str]


@dataclass(frozen=True)
class Record:
    """Which tenant is moved from where, and what is to be done with the source in the end.

    ``schema`` is its OID there, and ``kept`` the name that it gets, under which it is dropped if ``drop``.
    ``identities`` are the replica identities of tables that were changed, as they were.
    """

    tenant: str
    source: str
    schema: int
    kept: str
    drop: bool
    identities: list[tuple[str, str, str | None]]

    def comment(self) -> str:
        """Return it as a comment."""
        return _MARK + json.dumps(asdict(self))


def parse(comment: str | None) -> Record | None:
    """Return the record in a comment, None if that is not ours."""
    if comment is None or not comment.startswith(_MARK):
        return None
    found = json.loads(comment.removeprefix(_MARK))
    found["identities"] = [(name, identity, index) for name, identity, index in found["identities"]]
    return Record(**found)


def source_of(conn: Connection) -> str:
    """Return what no other database has: the identifier of the server's data, and the database's OID."""
    row = conn.execute(
        "SELECT system_identifier::text || ' ' || oid::text FROM pg_control_system(), pg_database"
        " WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return str(row[0])


def name_of(conn: Connection, schema: int) -> str:
    """Return the name for all that is made to move a schema."""
    row = conn.execute("SELECT oid::text FROM pg_database WHERE datname = current_database()").fetchone()
    assert row is not None
    return f"{_PREFIX}{row[0]}_{schema}"


def tables(conn: Connection, schema: int) -> list[Table]:
    """Return the tables of a schema, partitioned ones included."""
    return [Table(*row) for row in conn.execute(load("tenants", "online_tables").encode(), [schema]).fetchall()]


# ---- the source ----


def publish(conn: Connection, name: str, schema: str, tables: Sequence[Table], record: Record) -> None:
    """Make a publication of the tables whose replica identity is left as it is; in a transaction."""
    changed = {table for table, _, _ in record.identities}
    names = [
        sql.SQL("ONLY {}").format(sql.Identifier(schema, table.name)) for table in tables if table.name not in changed
    ]
    listed = sql.SQL(" FOR TABLE {}").format(sql.SQL(", ").join(names)) if names else sql.SQL("")
    conn.execute(sql.SQL("CREATE PUBLICATION {}{}").format(sql.Identifier(name), listed))
    conn.execute(sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(name), sql.Literal(record.comment())))


def publish_changed(conn: Connection, name: str, schema: str, table: Table) -> None:
    """Give a table a replica identity that finds its rows, and add it to a publication; in a transaction of its own.

    That locks it, and in a transaction with others clients could hold what comes next and wait for what came before.
    """
    identity = sql.SQL("FULL") if table.index is None else sql.SQL("USING INDEX {}").format(sql.Identifier(table.index))
    changed = sql.Identifier(schema, table.name)
    conn.execute(sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY {}").format(changed, identity))
    conn.execute(sql.SQL("ALTER PUBLICATION {} ADD TABLE ONLY {}").format(sql.Identifier(name), changed))


def published(conn: Connection, name: str) -> Record | None:
    """Return the record of a publication, None without one. Raises UserError if it is another role's."""
    row = conn.execute(
        "SELECT obj_description(p.oid, 'pg_publication'), r.rolsuper OR r.rolname = current_user, r.rolname::text"
        " FROM pg_publication p JOIN pg_roles r ON r.oid = p.pubowner WHERE p.pubname = %s",
        [name],
    ).fetchone()
    return None if row is None else _trusted("publication", name, *row)


def unpublish(conn: Connection, name: str) -> None:
    """Drop a publication."""
    conn.execute(sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(name)))


def put_back(conn: Connection, name: str, schema: str, record: Record, seconds: float) -> bool:
    """Take tables whose replica identity was changed from the publication, if it exists, and put that back.

    False if others are at work in one of them for some seconds.
    """
    for table, identity, index in record.identities:
        changed = sql.Identifier(schema, table)

        def one() -> None:
            there = conn.execute(
                "SELECT p.prpubid IS NOT NULL, c.relreplident::text FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace"
                " LEFT JOIN (pg_publication_rel p JOIN pg_publication o ON o.oid = p.prpubid AND o.pubname = %s)"
                " ON p.prrelid = c.oid"
                " WHERE n.nspname = %s AND n.oid = %s::oid AND c.relname = %s AND c.relkind = 'r'",
                [name, schema, record.schema, table],  # noqa: B023
            ).fetchone()
            # what has not been changed needs no lock
            if there is None or (there == (False, identity) and identity != "i"):  # noqa: B023
                return
            if there[0]:
                conn.execute(
                    sql.SQL("ALTER PUBLICATION {} DROP TABLE ONLY {}").format(sql.Identifier(name), changed)  # noqa: B023
                )
            conn.execute(
                sql.SQL("ALTER TABLE ONLY {} REPLICA IDENTITY {}").format(changed, _identity(identity, index))  # noqa: B023
            )

        if not patiently(conn, seconds, one):
            return False
    return True


def _identity(identity: str, index: str | None) -> sql.Composable:
    if identity == "i" and index is not None:
        return sql.SQL("USING INDEX {}").format(sql.Identifier(index))
    return sql.SQL({"f": "FULL", "n": "NOTHING"}.get(identity, "DEFAULT"))


def make_slot(conn: Connection, name: str) -> None:
    """Make a slot; that waits for the transactions in progress."""
    conn.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])


def drop_slot(conn: Connection, name: str) -> None:
    """Drop a slot if it exists, once nobody reads it any more."""
    deadline = time.monotonic() + _END_SECONDS
    while True:
        try:
            conn.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [name]
            )
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(SLOW_POLL_SECONDS)
        except psycopg.errors.UndefinedObject:
            return


def drop_sync_slots(conn: Connection, subscription: int, system: str) -> None:
    """Drop what the initial copies of a subscription have left."""
    rows = conn.execute(
        "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name ~ %s AND database = current_database()",
        [f"^pg_{subscription}_sync_[0-9]+_{system}$"],
    ).fetchall()
    for (name,) in rows:
        drop_slot(conn, name)


def attempts(timeout: float) -> Iterator[None]:
    """Give attempts that each may fail as others hold locks, for some seconds, with pauses in which these go on."""
    deadline = time.monotonic() + timeout
    while True:
        yield
        if time.monotonic() > deadline:
            return
        time.sleep(random.uniform(0.05, 0.4))


def short_waits(conn: Connection) -> None:
    """Have a transaction wait for locks only as long as others can wait behind it."""
    with contextlib.suppress(psycopg.errors.InsufficientPrivilege), conn.transaction():
        # what we hold may be what others wait for, whose locks we wait for
        conn.execute(f"SET LOCAL deadlock_timeout = {_DEADLOCK_MS}".encode())
    conn.execute(f"SET LOCAL lock_timeout = {_WAIT_MS}".encode())


# what ends such a wait
WAITED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


def patiently(conn: Connection, seconds: float, work: Callable[[], object]) -> bool:
    """Do something in a transaction that waits for locks only shortly, again for some seconds; False if in vain."""
    for _ in attempts(seconds):
        with contextlib.suppress(*WAITED), conn.transaction():
            short_waits(conn)
            work()
            return True
    return False


# ---- the target ----


def subscribe(conn: Connection, name: str, conninfo: str, record: Record) -> None:
    """Subscribe to the publication and slot of that name; in a transaction, with whose commit the copy begins."""
    quietly(conn)
    conn.execute(
        sql.SQL(
            "CREATE SUBSCRIPTION {0} CONNECTION {1} PUBLICATION {0} WITH (create_slot = false, slot_name = {0},"
            " disable_on_error = true, streaming = off, synchronous_commit = off)"
        ).format(sql.Identifier(name), sql.Literal(conninfo))
    )
    conn.execute(
        sql.SQL("COMMENT ON SUBSCRIPTION {} IS {}").format(sql.Identifier(name), sql.Literal(record.comment()))
    )


def quietly(conn: Connection) -> None:
    """Keep a statement that may have a password out of the server's log, as far as the role may; in a transaction."""
    for setting, value in (
        ("log_statement", "none"),
        ("log_min_duration_statement", "-1"),
        ("log_min_duration_sample", "-1"),
        ("log_min_error_statement", "panic"),
        ("pg_stat_statements.track", "none"),
    ):
        try:
            with conn.transaction():
                conn.execute("SELECT set_config(name, %s, true) FROM pg_settings WHERE name = %s", [value, setting])
        except psycopg.errors.InsufficientPrivilege:
            continue


def subscribed(conn: Connection, name: str) -> tuple[int, Record] | None:
    """Return a subscription's OID and record, None without one. Raises UserError if it is another role's."""
    row = conn.execute(
        "SELECT s.oid::int8, obj_description(s.oid, 'pg_subscription'), r.rolsuper OR r.rolname = current_user,"
        " r.rolname::text FROM pg_subscription s JOIN pg_roles r ON r.oid = s.subowner"
        " JOIN pg_database d ON d.oid = s.subdbid WHERE d.datname = current_database() AND s.subname = %s",
        [name],
    ).fetchone()
    return None if row is None else (int(row[0]), _trusted("subscription", name, *row[1:]))


def subscriptions_for(conn: Connection, tenant: str, source: str) -> dict[str, Record]:
    """Return the subscriptions that move a tenant from a source into this database."""
    rows = conn.execute(
        "SELECT s.subname::text, obj_description(s.oid, 'pg_subscription') FROM pg_subscription s"
        " JOIN pg_roles r ON r.oid = s.subowner JOIN pg_database d ON d.oid = s.subdbid"
        " WHERE d.datname = current_database() AND starts_with(s.subname, %s)"
        " AND (r.rolsuper OR r.rolname = current_user)",
        [_PREFIX],
    ).fetchall()
    records = [(name, parse(comment)) for name, comment in rows]
    return {name: record for name, record in records if record and (record.tenant, record.source) == (tenant, source)}


def _trusted(kind: str, name: str, comment: str | None, mine: bool, owner: str) -> Record:
    record = parse(comment) if mine else None
    if record is None:
        raise UserError(
            f"there is a {kind} {name} of role {owner}, which no move of this role has made",
            f"if nobody needs it: DROP {kind.upper()} {name}",
            3,
        )
    return record


def unsubscribe(conn: Connection, name: str) -> None:
    """Drop a subscription, and leave its slot; in a transaction, after `stop`."""
    conn.execute(sql.SQL("ALTER SUBSCRIPTION {} SET (slot_name = NONE)").format(sql.Identifier(name)))
    conn.execute(sql.SQL("DROP SUBSCRIPTION {}").format(sql.Identifier(name)))


def stop(conn: Connection, name: str) -> None:
    """Disable a subscription, and wait until its workers have ended."""
    conn.execute(sql.SQL("ALTER SUBSCRIPTION {} DISABLE").format(sql.Identifier(name)))
    deadline = time.monotonic() + _END_SECONDS
    while conn.execute(
        "SELECT FROM pg_stat_subscription WHERE subname = %s AND pid IS NOT NULL LIMIT 1", [name]
    ).fetchone():
        if time.monotonic() > deadline:
            raise UserError(f"the workers of the subscription {name} do not end", "run the same command again", 3)
        time.sleep(SLOW_POLL_SECONDS)


def wait_copied(conn: Connection, name: str, *, say: Say) -> None:
    """Wait until all tables have been copied, and are kept up to date together. Raises UserError if that fails."""
    said = time.monotonic()
    while True:
        check(conn, name)
        row = conn.execute(
            "SELECT count(*), count(*) FILTER (WHERE r.srsubstate = 'r') FROM pg_subscription_rel r"
            " JOIN pg_subscription s ON s.oid = r.srsubid WHERE s.subname = %s",
            [name],
        ).fetchone()
        assert row is not None
        if row[0] == row[1]:
            return
        if time.monotonic() - said > _SAY_EVERY:
            said = time.monotonic()
            say(f"{text.count(row[1])} of {text.many(row[0], 'table')} copied")
        time.sleep(SLOW_POLL_SECONDS)


def check(conn: Connection, name: str) -> None:
    """Raise StoppedError if replication has failed."""
    row = conn.execute("SELECT subenabled FROM pg_subscription WHERE subname = %s", [name]).fetchone()
    if row is None or not row[0]:
        raise StoppedError


# ---- both ----


def position(here: Connection) -> str:
    """Return a position of the source's WAL that all commits so far precede, and which has been written to disk."""
    row = here.execute("SELECT pg_logical_emit_message(true, 'pgbillion', '')::text").fetchone()
    assert row is not None
    return str(row[0])


def wait_applied(here: Connection, there: Connection, name: str, lsn: str, seconds: float | None, *, say: Say) -> bool:
    """Wait until the target has applied what the source committed before a position; False if it takes longer."""
    start = said = time.monotonic()
    while True:
        # of the last message that says how far the source is: all before it has been applied
        row = there.execute(
            "SELECT latest_end_lsn >= %s::pg_lsn FROM pg_stat_subscription WHERE subname = %s AND relid IS NULL",
            [lsn, name],
        ).fetchone()
        if row is not None and row[0]:
            return True
        # what is reported as flushed has been applied before
        row = here.execute(
            "SELECT confirmed_flush_lsn >= %s::pg_lsn, wal_status = 'lost' FROM pg_replication_slots"
            " WHERE slot_name = %s",
            [lsn, name],
        ).fetchone()
        if row is not None and row[0]:
            return True
        if row is None or row[1]:
            raise UserError(
                "the source has removed WAL that the target had not applied",
                "raise max_slot_wal_keep_size there, and try again",
                3,
            )
        now = time.monotonic()
        if seconds is not None and now - start > seconds:
            return False
        if now - said > _SAY_EVERY or (seconds is None and now - start < _POLL_SECONDS):
            said = now
            check(there, name)
            if now - start > _SAY_EVERY:
                say(f"{_behind(here, name)} behind")
        time.sleep(_POLL_SECONDS)


def _behind(here: Connection, name: str) -> str:
    row = here.execute(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8 FROM pg_replication_slots"
        " WHERE slot_name = %s",
        [name],
    ).fetchone()
    return text.size(0 if row is None else row[0])


def checksums(conn: Connection, schema: str, compared: Sequence[Table], *, rows: bool) -> dict[str, tuple[Any, ...]]:
    """Return the number of rows of each table and, if ``rows``, a checksum of them; both sides with the same settings.

    An output function of PostgreSQL writes the rows: a cast could be another role's.
    """
    conn.execute(
        "SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; SET extra_float_digits = 1;"
        " SET bytea_output = 'hex'; SET lc_monetary = 'C'; SET xmlbinary = 'base64'"
    )
    found: dict[str, tuple[Any, ...]] = {}
    for table in compared:
        columns = sql.SQL(", ").join(sql.SQL("t.{}").format(sql.Identifier(column)) for column in table.columns)
        written = (
            sql.SQL('sum(hashtextextended(textin(record_out(ROW({}))) COLLATE "C", 0))::text').format(columns)
            if rows and table.columns
            else sql.SQL("NULL")
        )
        query = sql.SQL("SELECT count(*), {} FROM ONLY {} AS t").format(written, sql.Identifier(schema, table.name))
        found[table.name] = tuple(conn.execute(query).fetchall()[0])
    return found
