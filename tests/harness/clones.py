"""What tests of clones of schemas share."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, run_as_server


def clone(conn: Connection, template: str, name: str) -> None:
    assert one(conn, "SELECT pgbillion_tables.clone_schema(%s, %s)::text", template, name) == name


def some(conn: Connection, template: str, name_format: str, first: int, count: int) -> None:
    called = "SELECT pgbillion_tables.clone_schemas(%s::regnamespace, %s, %s, %s)"
    assert one(conn, called, template, name_format, first, count) == count


def prepare(conn: Connection, template: str) -> bool:
    return bool(one(conn, "SELECT pgbillion_tables.prepare_clone(%s::regnamespace)", template))


def by_commands(conn: Connection, template: str, name: str) -> bool:
    """Clone; whether it was by commands, which lock what they create."""
    with conn.transaction():
        clone(conn, template, name)
        return bool(
            one(
                conn,
                "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'"
                " AND relation IN"
                " (SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace)",
                name,
            )
        )


def reasons(conn: Connection) -> list[str]:
    """What is said from now on of clones that are not stamped."""
    told: list[str] = []
    conn.execute("SET client_min_messages = debug1")
    conn.add_notice_handler(
        lambda diagnosis: (
            told.append(diagnosis.message_primary or "")
            if "are made by commands" in (diagnosis.message_primary or "")
            else None
        )
    )
    return told


def same(found: list[str], wanted: list[str]) -> None:
    more, less = Counter(found) - Counter(wanted), Counter(wanted) - Counter(found)
    differences = [f"+ {row}" for row in more] + [f"- {row}" for row in less]
    assert differences == [], "\n".join(differences)


def dump(cluster: Cluster, database: str, schema: str) -> str:
    """What pg_dump makes of a schema, without its name."""
    done = run_as_server(
        [
            cluster.installation.program("pg_dump"), "--schema-only", "--schema", schema,
            "--dbname", cluster.conninfo(database),
        ],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert done.returncode == 0
    # since minor versions of 2025 with a random key
    return re.sub(r"(?m)^\\(un)?restrict .*", "", re.sub(rf"\b{schema}\b", "SCHEMA", str(done.stdout)))
