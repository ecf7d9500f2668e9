"""pg_catcheck, an independent checker of catalogues, has nothing to say of a database full of stamped tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness import needs, servers, subject, templates
from pgbillion.server.postgres import Cluster, Installation, run_as_server

pytestmark = pytest.mark.machine


def _program(installation: Installation) -> Path:
    """EDB's pg_catcheck, as Debian packages it, for this major."""
    beside = installation.source.parent / "pg_catcheck"
    found = beside if beside.exists() else shutil.which("pg_catcheck")
    if installation.major != 15:
        pytest.skip("Debian's pg_catcheck is for PostgreSQL 15")
    if not found:
        needs.missing(needs.PACKAGES["pg_catcheck"])
    return Path(found)


def test_pg_catcheck(cluster: Cluster, installation: Installation) -> None:
    program = _program(installation)
    with servers.new_database(cluster, "catcheck") as database, cluster.connect(database) as conn:
        made = 0
        for name in templates.CASES:
            template = templates.make(conn, installation.version_num, name)
            if template is None:
                continue
            conn.execute("CREATE SCHEMA IF NOT EXISTS s")
            made += subject.create_tables(
                conn, template, f"{name}%d", 1, 3, tablespaces=["space1", "pg_default"], schema="s"
            )
            conn.execute(f"ALTER SCHEMA t RENAME TO t_{name}")
        assert made > 150
        done = run_as_server(
            [program, "-h", cluster.socket_dir, "-p", str(cluster.port), "-U", "postgres", database],
            capture_output=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "0 inconsistencies" in done.stdout + done.stderr or "no problems" in done.stdout + done.stderr, done
        # it would have found something
        conn.execute(
            "SET allow_system_table_mods = on; DELETE FROM pg_index WHERE indexrelid ="
            " 's.serial_primary_key2_pkey'::regclass"
        )
        done = run_as_server(
            [program, "-h", cluster.socket_dir, "-p", str(cluster.port), "-U", "postgres", database],
            capture_output=True,
        )
        assert done.returncode != 0 or "serial_primary_key2" in done.stdout + done.stderr
