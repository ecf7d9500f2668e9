"""Leaf pages of the catalogs' indexes that are split where a run of new entries goes on."""

from __future__ import annotations

import pytest

from harness import invariants, needs, servers
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Installation

pytestmark = pytest.mark.majors


TABLES = 1000
# PostgreSQL's splits for one entry seldom have it alone begin the new page
OWN = r"firstrightoff:? (\d+), newitemoff:? \1, postingoff:? 0"


def _splits(conn: Connection, start: str) -> tuple[int, int] | None:
    """Return the splits since then of pages at the end of an index, and within it; None where nothing can tell."""
    if not servers.one(conn, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_walinspect'"):
        return None
    conn.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA public")
    found = conn.execute(
        "SELECT count(*) FILTER (WHERE block_ref !~ 'blkref #2'), count(*) FILTER (WHERE block_ref ~ 'blkref #2')"
        " FROM public.pg_get_wal_records_info(%s, pg_current_wal_flush_lsn())"
        " WHERE record_type = 'SPLIT_R' AND description ~ %s",
        [start, OWN],
    ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


@pytest.mark.parametrize("images", ["on", "off"])
def test_split_pages_are_recovered(installation: Installation, images: str) -> None:
    """Recovery compares each page that it changes with what it was, and finds no difference to a byte."""
    settings = {"wal_level": "replica", "full_page_writes": images, "wal_consistency_checking": "btree"}
    with servers.new_cluster(installation, settings) as cluster:
        with cluster.connect("template1") as conn:
            # tables whose names come before and after those of the run
            conn.execute("CREATE TABLE model (i int, t text); CREATE TABLE a (i int); CREATE TABLE z (i int)")
            conn.execute("CHECKPOINT")
            start = servers.one(conn, "SELECT pg_current_wal_insert_lsn()::text")
            servers.one(conn, f"SELECT pgbillion_tables.create_tables('model', 'm_%05d', 1, {TABLES})")
            found = _splits(conn, start)
            assert found is None or found[0] > 0
            assert found is None or found[1] > 0
            conn.execute("CHECKPOINT")
            servers.one(conn, f"SELECT pgbillion_tables.create_tables('model', 'n_%05d', 1, {TABLES})")
            assert invariants.index_errors(conn) == []
        cluster.kill()
        cluster.start()
        with cluster.connect("template1") as conn:
            assert invariants.index_errors(conn) == []
            assert servers.one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^[mn]_[0-9]{5}$'") == 2 * TABLES
            # the pages take further entries
            servers.one(conn, "SELECT pgbillion_tables.create_tables('model', 'm_%05d_', 1, 100)")
            assert invariants.index_errors(conn) == []
        cluster.stop()


def test_pages_within_an_index_are_filled(installation: Installation) -> None:
    """Where runs come before other names, those do not take half of each full page along."""
    with servers.new_cluster(installation) as cluster, cluster.connect("template1") as conn:
        if not servers.one(conn, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pageinspect'"):
            needs.missing("pageinspect, of PostgreSQL's contrib modules")
        conn.execute("CREATE TABLE model (i int); CREATE TABLE z (i int)")
        for first in range(0, 5 * TABLES, TABLES):
            servers.one(conn, f"SELECT pgbillion_tables.create_tables('model', 'm_%05d', {first}, {TABLES})")
        assert invariants.index_errors(conn) == []
        for index in ("pg_class_relname_nsp_index", "pg_type_typname_nsp_index"):
            filled = servers.one(
                conn,
                "SELECT avg(1 - free_size / 8152.0)::float"
                " FROM generate_series(1, pg_relation_size(%s) / 8192 - 1) page,"
                " public.bt_page_stats(%s, page) WHERE type = 'l'",
                index,
                index,
            )
            # halves, if PostgreSQL splits them
            assert filled > 0.7, index
