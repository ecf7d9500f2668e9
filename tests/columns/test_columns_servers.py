"""Columnar indexes where a server of its own is needed: logical replication, old snapshots, a full disk."""

from __future__ import annotations

import os
from typing import Any

import psycopg
import pytest

from harness import servers
from harness.disk import fill, small_disk
from harness.servers import one, until
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Installation, server_user

pytestmark = pytest.mark.majors

MAKE = "CREATE TABLE t (id int PRIMARY KEY, g int, word text)"
FILL = "INSERT INTO t SELECT i, i % 7, 'word ' || i % 90 FROM generate_series(1, 20000) i"
INDEX = "CREATE INDEX t_columns ON t USING columns (id, g, word) WITH (segment_blocks = 32, refresh_share = 1)"


def problems(conn: Connection) -> list[Any]:
    return conn.execute("SELECT * FROM pgbillion_rows.columns_check('t')").fetchall()


def status(conn: Connection, what: str) -> int:
    return int(one(conn, f"SELECT {what} FROM pgbillion_rows.columns_status('t')"))


def test_rows_that_are_replicated(installation: Installation) -> None:
    """Who applies changes that were decoded inserts without an executor's plan."""
    with (
        servers.new_cluster(installation, {"wal_level": "logical"}) as cluster,
        servers.new_database(cluster, "here"),
        servers.new_database(cluster, "there"),
        cluster.connect("here") as here,
        cluster.connect("there") as there,
    ):
        for conn in (here, there):
            conn.execute(MAKE)
        here.execute("CREATE PUBLICATION p FOR TABLE t")
        here.execute("SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
        where = f"host={cluster.socket_dir} port={cluster.port} user=postgres dbname=here"
        there.execute(
            f"CREATE SUBSCRIPTION s CONNECTION '{where}' PUBLICATION p WITH (create_slot = false, slot_name = s)"
        )
        here.execute(FILL)

        def settle() -> None:
            question = "SELECT count(*), sum(id), sum(g), md5(string_agg(word, ',' ORDER BY id)) FROM t"
            right = here.execute(question).fetchall()
            until(lambda: there.execute(question).fetchall() == right, "the changes")
            there.execute("VACUUM (INDEX_CLEANUP ON) t")

        settle()
        there.execute(INDEX)

        def encoded() -> bool:
            # a worker's transaction may be older than what it has applied
            there.execute("VACUUM t")
            there.execute("CALL pgbillion_rows.columns_refresh('t')")
            return status(there, "readable_blocks") == status(there, "table_blocks")

        for change in (
            # first into the last block, which has room
            "INSERT INTO t SELECT -i, 1, 'new' FROM generate_series(1, 50) i",
            "UPDATE t SET word = 'changed' WHERE id % 900 = 1",
            "DELETE FROM t WHERE id % 900 = 2",
        ):
            until(encoded, "all blocks to be encoded")
            here.execute(change)
            settle()
            assert problems(there) == []
            assert status(there, "stale_blocks") > 0
        there.execute("CALL pgbillion_rows.columns_refresh('t')")
        assert problems(there) == []
        there.execute("ALTER SUBSCRIPTION s DISABLE; ALTER SUBSCRIPTION s SET (slot_name = NONE)")
        there.execute("DROP SUBSCRIPTION s")
        until(lambda: one(here, "SELECT NOT active FROM pg_replication_slots WHERE slot_name = 's'"), "the slot")
        here.execute("SELECT pg_drop_replication_slot('s')")


def test_old_snapshots_that_lose_rows(installation: Installation) -> None:
    if installation.major >= 17:
        pytest.skip("old_snapshot_threshold is gone since PostgreSQL 17")
    with (
        servers.new_cluster(installation, {"old_snapshot_threshold": "1min"}) as cluster,
        servers.new_database(cluster, "old"),
        cluster.connect("old") as conn,
    ):
        conn.execute(MAKE)
        conn.execute(FILL)
        conn.execute("VACUUM t")
        conn.execute(INDEX)
        conn.execute("SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.columns = force")
        plan = plans.explain(conn, "SELECT count(*), sum(g) FROM t", run=True)
        node = next(node for node in plans.nodes(plan) if "Columns Not Read" in node)
        assert node["Columns Not Read"] == "old_snapshot_threshold is set"
        assert sum(node.get("Column Blocks Read", 0) for node in plans.nodes(plan)) == 0


def test_a_full_disk(installation: Installation) -> None:
    """There is no space for what is encoded: the error, and the index as it was."""
    with (
        servers.temporary_folder() as folder,
        small_disk(folder / "small", "size=6m") as disk,
        servers.new_cluster(installation) as cluster,
        servers.new_database(cluster, "full"),
        cluster.connect("full") as conn,
    ):
        space = disk / "space"
        space.mkdir()
        user = server_user()
        if user is not None:
            os.chown(space, user.pw_uid, user.pw_gid)
        conn.execute(f"CREATE TABLESPACE small LOCATION '{space}'")
        conn.execute(MAKE)
        conn.execute(FILL)
        conn.execute("VACUUM t")
        conn.execute(f"{INDEX} TABLESPACE small")
        conn.execute("UPDATE t SET word = md5(id::text) WHERE id % 700 = 0")
        conn.execute("VACUUM (INDEX_CLEANUP ON) t")
        encoded, stale = status(conn, "encoded_blocks"), status(conn, "stale_blocks")
        filler = fill(disk)
        for command in (
            "CALL pgbillion_rows.columns_refresh('t')",
            "REINDEX INDEX t_columns",
            "CREATE INDEX more ON t USING columns (word) TABLESPACE small",
        ):
            with pytest.raises(psycopg.errors.DiskFull):
                conn.execute(command)
            assert problems(conn) == []
            assert status(conn, "encoded_blocks") == encoded
            assert 0 < status(conn, "stale_blocks") <= stale
        conn.execute("INSERT INTO t VALUES (-1, 1, 'new')")
        filler.unlink()
        conn.execute("VACUUM t")
        conn.execute("CALL pgbillion_rows.columns_refresh('t')")
        assert status(conn, "readable_blocks") == status(conn, "table_blocks")
        assert problems(conn) == []
        conn.execute("DROP TABLE t")
        conn.execute("DROP TABLESPACE small")
