"""What a run was made on: kept with it, so that its figures mean something later. Holds no secret."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import psycopg

from pgbillion import __version__
from pgbillion.common.connection import Connection
from pgbillion.common.host import Host, hardware
from pgbillion.common.target import Target
from pgbillion.server import extension

SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "wal_buffers",
    "wal_compression",
    "max_wal_size",
    "checkpoint_timeout",
    "shared_buffers",
    "autovacuum",
    "autovacuum_freeze_max_age",
    "max_locks_per_transaction",
    "max_connections",
    "archive_mode",
)
# Those that decide how fast rows are read.
QUERY_SETTINGS = (
    "shared_buffers",
    "work_mem",
    "hash_mem_multiplier",
    "jit",
    "max_parallel_workers",
    "max_worker_processes",
    "effective_io_concurrency",
    "io_method",
    "huge_pages",
    # not known before 17
    "huge_pages_status",
)


def identity(conn: Connection) -> dict[str, Any]:
    """Return what tells this database from every other one."""
    row = conn.execute(
        "SELECT (SELECT system_identifier::text FROM pg_control_system()), datname, oid::bigint"
        " FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return {"system_identifier": row[0], "database": row[1], "database_oid": row[2]}


def server(
    conn: Connection, target: Target, host: Host | None, tablespaces: Sequence[str], *, extension_used: bool
) -> dict[str, Any]:
    """Return server, settings, versions, hardware and the folders of tablespaces, as JSON's types."""
    spaces = conn.execute(
        "SELECT spcname, pg_tablespace_location(oid) FROM pg_tablespace WHERE spcname = ANY (%s) ORDER BY 1",
        [list(tablespaces)],
    ).fetchall()
    facts = machine(conn, target, host, SETTINGS, extension_used=extension_used)
    return {**facts, "tablespaces": dict(spaces)}


def machine(
    conn: Connection, target: Target, host: Host | None, settings: Sequence[str], *, extension_used: bool = True
) -> dict[str, Any]:
    """Return server, settings, versions and hardware, as JSON's types."""
    row = conn.execute("SELECT version(), current_setting('server_version')").fetchone()
    assert row is not None
    values = conn.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY 1", [list(settings)]
    ).fetchall()
    versions: dict[str, str | None] = {"pgbillion": __version__}
    if extension_used:
        with contextlib.suppress(psycopg.Error, AssertionError):
            versions |= {name: extension.versions(conn, name)[1] for name in extension.ALL}
    filesystem = host.filesystem() if host else None
    return {
        **identity(conn),
        "display": target.display,
        "embedded": target.embedded,
        "version": row[1],
        "version_text": row[0],
        "versions": versions,
        "settings": dict(values),
        "local": host is not None,
        "hardware": hardware() if host else None,
        "filesystem": {"kind": filesystem.kind, "size": filesystem.size} if filesystem else None,
    }
