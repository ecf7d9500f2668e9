"""The main comparison: the same tables made by core and by the extension, side by side in two schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from pgbillion.common.connection import Connection

from . import catalogs as catalog
from . import oracle, storage, subject
from .catalogs import Catalogs
from .servers import one

CORE, OURS = "made by core", "made by us"


@dataclass(frozen=True)
class Batch:
    """The arguments of one call, and the circumstances it is made under."""

    name_format: str | None = None
    first: int = 1
    count: int = 3
    tablespaces: tuple[str, ...] | None = None
    role: str | None = None
    #: numbers of derived objects (in the order core makes them) whose names are taken before the tables are made
    taken: frozenset[int] = frozenset()
    #: statements to run in each of the two schemas, {schema}, before
    prepare: tuple[str, ...] = ()
    #: settings of the session
    settings: tuple[tuple[str, str], ...] = ()
    #: what was said of the template after it was created, to be said of each table by core; see oracle.say()
    parts: tuple[str, ...] = ()
    #: the same of the template's partitions, by the endings of their names, and "later", when all are attached
    partitions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: numbers of the tables to compare where that takes long; all, if None
    compared: frozenset[int] | None = None

    @property
    def names(self) -> list[str]:
        return subject.names(self.name_format, self.first, self.count)


class CoreRefusesError(Exception):
    """Core itself cannot make such a table; the cause is its error."""


def differences(conn: Connection, catalogs: Catalogs, template: str, batch: Batch) -> list[str]:
    """Make the batch both ways and compare all of it; drops what it made when nothing differs.

    Raises CoreRefusesError when core does, and then nothing is left behind; otherwise what the extension raises.
    """
    for schema in (CORE, OURS):
        conn.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
        conn.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        if batch.role:
            conn.execute(
                sql.SQL("GRANT ALL ON SCHEMA {} TO {}").format(sql.Identifier(schema), sql.Identifier(batch.role))
            )
        for statement in batch.prepare:
            conn.execute(sql.SQL(statement).format(schema=sql.Identifier(schema)))
    try:
        _take_names(conn, template, batch)
        before = catalog.counts(conn, catalogs)
        with _Session(conn, batch):
            try:
                for number, name in enumerate(batch.names, batch.first):
                    space = batch.tablespaces[number % len(batch.tablespaces)] if batch.tablespaces else None
                    oracle.make(conn, template, CORE, name, space, {"": batch.parts, **batch.partitions})
            except psycopg.Error as error:
                raise CoreRefusesError from error
        between = catalog.counts(conn, catalogs)
        since = one(conn, "SELECT pg_current_wal_insert_lsn()::text")
        with _Session(conn, batch):
            made = subject.create_tables(
                conn,
                template,
                batch.name_format,
                batch.first,
                batch.count,
                tablespaces=batch.tablespaces,
                schema=OURS,
            )
        after = catalog.counts(conn, catalogs)
        lines = [] if made == batch.count else [f"returned {made}, should be {batch.count}"]
        lines += [
            f"{name}: {after[name] - between[name]} new rows, should be {between[name] - before[name]}"
            for name in before
            if after[name] - between[name] != between[name] - before[name]
        ]
        for number, name in enumerate(batch.names, batch.first):
            if batch.compared is not None and number not in batch.compared:
                continue
            lines += [f"{name!r}: {line}" for line in compare(conn, catalogs, (CORE, name), (OURS, name), since)]
        return lines
    finally:
        if not conn.closed:
            for schema in (CORE, OURS):
                conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


def compare(
    conn: Connection,
    catalogs: Catalogs,
    expected: tuple[str, str],
    actual: tuple[str, str],
    since: str = "0/0",
    *,
    use: bool = True,
) -> list[str]:
    """Differences of two tables, given as (schema, name): catalogue rows, values left out of these, files, use."""
    left, right = (catalog.family(conn, catalogs, _text(conn, table)) for table in (expected, actual))
    lines = catalog.difference(left, right)
    lines += storage.insane(conn, right, since)
    lines += storage.difference(storage.contents(conn, left), storage.contents(conn, right))
    if use and not lines:
        outcomes = [_use(conn, table) for table in (expected, actual)]
        if outcomes[0] != outcomes[1]:
            lines.append(f"in use: {outcomes[1]}, should be {outcomes[0]}")
    return lines


def _use(conn: Connection, table: tuple[str, str]) -> str:
    """What comes of inserting a row of defaults, reading it back and analysing; rolled back."""
    name = sql.Identifier(*table)
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(sql.SQL("INSERT INTO {} DEFAULT VALUES").format(name))
            return str(conn.execute(sql.SQL("SELECT count(*) FROM {}").format(name)).fetchall())
    except psycopg.Error as error:
        return f"{error.sqlstate} {error.diag.message_primary}"


class _Session:
    """The role and the settings of a batch, for a while."""

    def __init__(self, conn: Connection, batch: Batch) -> None:
        self.conn = conn
        self.batch = batch

    def __enter__(self) -> None:
        for name, value in self.batch.settings:
            self.conn.execute("SELECT set_config(%s, %s, false)", [name, value])
        if self.batch.role:
            self.conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(self.batch.role)))

    def __exit__(self, *_: object) -> None:
        if self.conn.closed:
            return
        self.conn.execute("RESET ROLE")
        for name, _value in self.batch.settings:
            self.conn.execute(sql.SQL("RESET {}").format(sql.SQL(name)))


def _take_names(conn: Connection, template: str, batch: Batch) -> None:
    """Occupy some of the names that core would derive for the last table, in both schemas alike."""
    if not batch.taken:
        return
    last = batch.names[-1]
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("CREATE SCHEMA trial")
            oracle.make(conn, template, "trial", last)
            derived = conn.execute(
                """
                SELECT 'relation', relname::text, oid::bigint FROM pg_class
                    WHERE relnamespace = 'trial'::regnamespace AND relname <> %(name)s
                UNION ALL SELECT 'type', typname, oid FROM pg_type
                    WHERE typnamespace = 'trial'::regnamespace AND typname <> %(name)s
                UNION ALL SELECT 'constraint', conname, oid FROM pg_constraint
                    WHERE connamespace = 'trial'::regnamespace
                UNION ALL SELECT 'statistics', stxname, oid FROM pg_statistic_ext
                    WHERE stxnamespace = 'trial'::regnamespace
                ORDER BY 3
                """,
                {"name": last},
            ).fetchall()
    except psycopg.Error as error:
        raise CoreRefusesError from error
    for number in batch.taken:
        kind, name, _ = derived[number % len(derived)]
        for schema in (CORE, OURS):
            _occupy(conn, kind, schema, name)


def _occupy(conn: Connection, kind: str, schema: str, name: str) -> None:
    statements: dict[str, Sequence[str]] = {
        "relation": ["CREATE VIEW {name} AS SELECT 1 AS one"],
        "type": ["CREATE TYPE {name} AS ENUM ('one')"],
        "constraint": [
            "CREATE TABLE IF NOT EXISTS {schema}.bearer (i int)",
            "ALTER TABLE {schema}.bearer ADD CONSTRAINT {bare} CHECK (i > 0)",
        ],
        "statistics": [
            "CREATE TABLE IF NOT EXISTS {schema}.measured (i int, j int)",
            "CREATE STATISTICS {name} ON i, j FROM {schema}.measured",
        ],
    }
    for statement in statements[kind]:
        try:
            conn.execute(
                sql.SQL(statement).format(
                    name=sql.Identifier(schema, name), bare=sql.Identifier(name), schema=sql.Identifier(schema)
                )
            )
        except (psycopg.errors.DuplicateObject, psycopg.errors.DuplicateTable):
            return  # an index and its constraint share a name
        except psycopg.errors.UniqueViolation:
            return  # of 63 underscores PostgreSQL makes no type: its array's name would be the same


def _text(conn: Connection, table: tuple[str, str]) -> str:
    return sql.Identifier(*table).as_string(conn)
