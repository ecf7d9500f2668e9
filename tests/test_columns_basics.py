"""An index of columns: what it holds is what the table has, through every way in which either changes."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from harness.servers import one

Connection = psycopg.Connection[tuple[Any, ...]]


def check(conn: Connection, relation: str) -> int:
    """Compare an index with its table, and return how many blocks can be read from it."""
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check(%s)", [relation]).fetchall() == []
    return int(one(conn, "SELECT sum(readable_blocks) FROM pgbillion_rows.columns_status(%s)", relation))


def blocks(conn: Connection, table: str) -> int:
    return int(one(conn, "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int", table))


@pytest.fixture
def table(conn: Connection) -> str:
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    conn.execute("CREATE TABLE t (id int, grp int, data real, word text, amount numeric(12,2))")
    conn.execute(
        "INSERT INTO t SELECT i, i % 10, i / 7.0, 'word ' || i % 100, i / 100.0 FROM generate_series(1, 30000) i"
    )
    return "t"


def test_build(conn: Connection, table: str) -> None:
    conn.execute(f"VACUUM {table}")
    conn.execute(f"CREATE INDEX t_columns ON {table} USING columns (grp, data, word, amount, id)")
    assert check(conn, "t_columns") == blocks(conn, table)


def test_nothing_is_held_before_a_vacuum(conn: Connection, table: str) -> None:
    notices: list[str] = []
    conn.add_notice_handler(lambda told: notices.append(f"{told.message_primary}|{told.message_hint}"))
    conn.execute(f"CREATE INDEX t_columns ON {table} USING columns (grp)")
    assert len(notices) == 1
    assert "holds 0 of the" in notices[0]
    assert "VACUUM" in notices[0]
    assert check(conn, "t_columns") == 0
    conn.execute(f"VACUUM {table}")
    assert check(conn, table) == blocks(conn, table)
