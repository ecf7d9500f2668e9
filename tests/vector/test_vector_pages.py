"""Pages with few rows are worked on together: rows, their places and their order are those of single pages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

BYTES = (30, 300, 900, 2600, 7000)  # of a row: from many rows per page to one


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "pages") as name:
        with cluster.connect(name) as conn:
            for length in BYTES:
                make(conn, f"t{length}", length)
        yield name


def make(conn: Connection, table: str, length: int) -> None:
    """Rows of about so many bytes, some of them gone, some hidden, and pages without any."""
    conn.execute(
        f"CREATE TABLE {table} (id integer, k smallint, filling text, v integer, note text, last bigint)"
        " WITH (autovacuum_enabled = off)".encode()
    )
    conn.execute(f"ALTER TABLE {table} ALTER filling SET STORAGE plain".encode())
    conn.execute(
        f"INSERT INTO {table} SELECT g, g % 7, repeat(chr(97 + g % 26), {length} + g % 50), g * 3,"
        f" CASE WHEN g % 11 > 0 THEN 'note ' || g END, g FROM generate_series(1, 900) g".encode()
    )
    conn.execute(f"DELETE FROM {table} WHERE id % 13 = 4 OR id BETWEEN 300 AND 340".encode())
    conn.execute(f"VACUUM ANALYZE {table}".encode())
    # pages that are not all-visible
    conn.execute(f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN 500 AND 520".encode())
    conn.execute(f"DELETE FROM {table} WHERE id BETWEEN 600 AND 605".encode())


@pytest.fixture
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute(
            "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force;"
            " SET pgbillion_rows.vector_scan = force; SET max_parallel_workers_per_gather = 0;"
            " SET enable_indexscan = off; SET enable_bitmapscan = off"
        )
        yield conn


def core(conn: Connection, query: str) -> list[tuple[Any, ...]]:
    """PostgreSQL's own answer."""
    conn.execute("SET pgbillion_rows.enable = off")
    rows = conn.execute(query.encode()).fetchall()
    conn.execute("SET pgbillion_rows.enable = on")
    return rows


@pytest.mark.parametrize("length", BYTES)
def test_rows_and_their_places(conn: Connection, length: int) -> None:
    """What a filter keeps comes in the same order, with its place, from whichever page."""
    for where in ("id > 0", "k = 3", "v < 900 AND note IS NOT NULL", "note = 'note 777'", "last % 50 = 0", "k = 99"):
        query = f"SELECT ctid, xmin, * FROM t{length} WHERE {where}"
        conn.execute("BEGIN")
        ours = conn.execute(query.encode()).fetchall()
        locked = conn.execute(f"{query} FOR UPDATE".encode()).fetchall()
        conn.execute("ROLLBACK")
        expected = core(conn, query)
        assert ours == expected
        assert locked == expected


@pytest.mark.parametrize("length", BYTES)
def test_groups(conn: Connection, length: int) -> None:
    """Aggregates see each row once: fixed columns, those behind a long value, and what a filter leaves."""
    chance = random.Random(length)
    for _ in range(30):
        keys = chance.choice(("k", "note", "k, last % 3", "substr(filling, 1, 1)", "v"))
        where = chance.choice(("", "WHERE v > 300", "WHERE note LIKE '%7%'", "WHERE last BETWEEN 100 AND 700"))
        query = (
            f"SELECT {keys}, count(*), count(note), sum(v), sum(last), min(filling), max(last)"
            f" FROM t{length} {where} GROUP BY {keys} ORDER BY {keys}"
        )
        assert conn.execute(query.encode()).fetchall() == core(conn, query)
    query = f"SELECT count(*) FROM t{length}"
    assert plans.vectorized(plans.explain(conn, query))
    assert one(conn, query) == core(conn, query)[0][0]


@pytest.mark.parametrize("length", BYTES)
def test_writes_below_the_scan(conn: Connection, length: int) -> None:
    """Rows that the statement itself writes are not seen, and each is updated or deleted once."""
    conn.execute("BEGIN")
    updated = conn.execute(f"UPDATE t{length} SET v = -v WHERE v > 0 RETURNING id".encode()).fetchall()
    deleted = conn.execute(f"DELETE FROM t{length} WHERE v < -1500 RETURNING id, v".encode()).fetchall()
    left = conn.execute(f"SELECT id, v FROM t{length} WHERE v <> 0".encode()).fetchall()
    conn.execute("ROLLBACK")
    conn.execute("SET pgbillion_rows.enable = off; BEGIN")
    assert sorted(updated) == sorted(conn.execute(f"UPDATE t{length} SET v = -v WHERE v > 0 RETURNING id".encode()))
    assert sorted(deleted) == sorted(conn.execute(f"DELETE FROM t{length} WHERE v < -1500 RETURNING id, v".encode()))
    assert sorted(left) == sorted(conn.execute(f"SELECT id, v FROM t{length} WHERE v <> 0".encode()))
    conn.execute("ROLLBACK")


def test_who_wants_the_first_rows_reads_few_pages(conn: Connection) -> None:
    """A LIMIT above it does not wait for more pages than it needs, but for a few."""
    query = "SELECT id FROM t2600 WHERE id > 0 LIMIT 1"
    plan = plans.explain(conn, query, run=True)
    scan = next(node for node in plans.nodes(plan) if node.get("Custom Plan Provider") == "VectorScan")
    # the first page, two ahead of it, and some of the map's
    assert scan["Heap Pages All-Visible"] + scan["Heap Pages Checked"] <= 3


def test_blocks_beside_an_index_of_columns(conn: Connection) -> None:
    """Stale blocks are given one at a time, where each stands among those of the index."""
    for length in (300, 2600):
        table = f"stale{length}"
        conn.execute(f"CREATE TABLE {table} (LIKE t{length}) WITH (autovacuum_enabled = off)".encode())
        conn.execute(f"ALTER TABLE {table} ALTER filling SET STORAGE plain".encode())
        conn.execute(f"INSERT INTO {table} SELECT * FROM t{length}".encode())
        conn.execute(f"CREATE INDEX ON {table} USING columns (id, k, v) WITH (segment_blocks = 16)".encode())
        conn.execute("CHECKPOINT")
        conn.execute(f"VACUUM ANALYZE {table}".encode())
        conn.execute(f"VACUUM {table}".encode())
        conn.execute(f"UPDATE {table} SET v = v + 10 WHERE id % 31 IN (5, 6, 7) OR id < 60".encode())
        conn.execute("SET pgbillion_rows.columns = force")
        for query in (
            f"SELECT k, count(*), sum(v), array_agg(id) FROM {table} GROUP BY k ORDER BY k",
            f"SELECT count(*), sum(v) FROM {table} WHERE id > 450",
            f"SELECT v, count(*) FROM {table} GROUP BY v ORDER BY v",
            # begun anew, and not read to the end
            f"SELECT k, (SELECT sum(v) FROM {table} s WHERE s.k < o.k) FROM generate_series(1, 6) AS o(k)",
            f"SELECT k, EXISTS (SELECT FROM {table} s WHERE s.k <> o.k GROUP BY v) FROM generate_series(1, 6) AS o(k)",
        ):
            assert conn.execute(query.encode()).fetchall() == core(conn, query)
        conn.execute(f"DROP TABLE {table}".encode())


def test_a_small_cache_is_not_pinned_whole(conn: Connection) -> None:
    """Scans in the middle of a table leave room for others in as few buffers as there can be."""
    conn.execute("SET temp_buffers = 100; SET join_collapse_limit = 1; SET enable_hashjoin = off")
    conn.execute("SET enable_mergejoin = off; SET enable_material = off; SET geqo = off")
    conn.execute(
        "CREATE TEMPORARY TABLE small (id integer, filling text); ALTER TABLE small ALTER filling SET STORAGE plain"
    )
    conn.execute("INSERT INTO small SELECT g, repeat('x', 2600) FROM generate_series(1, 300) g; ANALYZE small")
    tables = [f"small s{number}" for number in range(14)]
    where = " AND ".join(f"s{number}.id = 150 + {number}" for number in range(14))
    query = f"SELECT s0.id, s13.id FROM {' CROSS JOIN '.join(tables)} WHERE {where}"
    plan = list(plans.nodes(plans.explain(conn, query)))
    assert sum(node.get("Custom Plan Provider") == "VectorScan" for node in plan) == 14
    assert conn.execute(query.encode()).fetchall() == [(150, 163)]


def test_no_page_stays_pinned(conn: Connection) -> None:
    """A scan that ends early lets go of its pages; PostgreSQL would warn of those that it has to."""
    notices: list[str] = []
    conn.add_notice_handler(lambda diagnostic: notices.append(diagnostic.message_primary or ""))
    conn.execute("BEGIN; DECLARE k NO SCROLL CURSOR FOR SELECT id FROM t900 WHERE id > 0")
    assert len(conn.execute("FETCH 30 FROM k").fetchall()) == 30
    conn.execute("CLOSE k; COMMIT")
    conn.execute("SELECT id FROM t900 WHERE id > 0 LIMIT 5")
    conn.execute("SELECT (SELECT count(*) FROM t900 AS s WHERE s.id < t.id) FROM t300 AS t WHERE id < 9")
    assert notices == []
