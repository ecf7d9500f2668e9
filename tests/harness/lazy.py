"""What the tests of lazy_heap share: the state of a table, and psql scripts run on heap and on lazy_heap."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import psycopg

from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

from . import invariants
from .servers import one, until
from .sessions import Running

SCRIPTS = Path(__file__).parents[1] / "lazy_heap/scripts"
LAZY = {"default_table_access_method": "lazy_heap"}

# expect(table, state) fails unless the table is in that state where lazy_heap is the default; the two scripts'
# outputs stay the same. set_method(table) gives it the default access method.
HELPERS = """
CREATE FUNCTION public.expect(t regclass, state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found text := (SELECT CASE WHEN amname = 'heap' THEN 'heap' ELSE 'lazy' END
                   FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = t);
BEGIN
    IF current_setting('default_table_access_method') = 'lazy_heap' AND found <> state THEN
        RETURN format('%s is %s, should be %s', t, found, state);
    END IF;
    RETURN 'as expected';
END $$;
CREATE FUNCTION public.set_method(t regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('ALTER TABLE %s SET ACCESS METHOD %I', t, current_setting('default_table_access_method'));
    RETURN 'done';
END $$;
"""


def run(conn: Connection, statements: str) -> None:
    """Execute statements, separated by '; ', one after the other, as they are sent by a client that has no pipeline."""
    for statement in filter(None, statements.split("; ")):
        conn.execute(statement)


def state(conn: Connection, table: str) -> str:
    """Return 'heap', 'lazy' (no file), or 'lazy with a file'."""
    return str(
        one(
            conn,
            "SELECT CASE WHEN amname = 'heap' THEN 'heap' WHEN relfilenode = 1 THEN 'lazy' ELSE 'lazy with a file' END"
            " FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = %s::regclass",
            table,
        )
    )


def until_settled(monitor: Connection, session: Connection, running: Running[Any]) -> None:
    """Wait until the session's statement has ended or waits for another session."""
    blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
    until(lambda: running.done or one(monitor, blocked, session.info.backend_pid), "the statement to end or to wait")


def psql(cluster: Cluster, database: str, script: Path, **settings: str) -> list[str]:
    """Run a script, errors and all, and return what psql shows, each statement before its results."""
    # what is meant to be seen, the access method in \\d+, is not shown
    program: list[str | Path] = [
        cluster.installation.program("psql"),
        "--no-psqlrc",
        "--quiet",
        "--echo-all",
        "--set=HIDE_TABLEAM=on",
    ]
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    done = subprocess.run(
        [*program, "--file", script.name, cluster.conninfo(database)],
        cwd=script.parent,
        env={**os.environ, "PGOPTIONS": options, "LC_ALL": "C", "PGCLIENTENCODING": "UTF8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def unsound(conn: Connection) -> list[str]:
    """What is wrong with user tables and their indexes, and with the catalogues (extension amcheck).

    Every row is in every btree index and each entry belongs to a row; each heap is sound; no file is missing.
    """
    lines = [f"catalogue index {line}" for line in invariants.index_errors(conn)]
    for oid, name, unique in conn.execute(
        "SELECT i.indexrelid::bigint, i.indexrelid::regclass::text, indisunique FROM pg_index i"
        " JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = c.relam"
        " WHERE indexrelid >= 16384 AND amname = 'btree' AND c.relkind = 'i' AND indisvalid AND relpersistence <> 't'"
        " ORDER BY 1"
    ).fetchall():
        try:
            conn.execute("SELECT public.bt_index_parent_check(%s::oid, true, true)", [oid])
        except psycopg.Error as error:
            lines.append(f"{name} (unique: {unique}): {error}")
    for oid, name in conn.execute(
        "SELECT c.oid::bigint, c.oid::regclass::text FROM pg_class c JOIN pg_am a ON a.oid = relam"
        " WHERE c.oid >= 16384 AND amname = 'heap' AND relkind IN ('r', 't', 'm') AND relpersistence <> 't' ORDER BY 1"
    ).fetchall():
        lines.extend(
            f"{name}: {row}" for row in conn.execute("SELECT * FROM public.verify_heapam(%s::oid::regclass)", [oid])
        )
    return lines


def lost(cluster: Cluster, conn: Connection) -> set[str]:
    """Files that belong to nothing, and relations (lazy tables aside) without one. Needs a CHECKPOINT first."""
    missing = {f"missing {found}" for found in invariants.missing(cluster.data, conn) if found[1] != 1}
    return missing | {f"orphan {file}" for file in invariants.orphans(cluster.data, conn)}
