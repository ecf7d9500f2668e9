"""What a columnar index takes from the visibility map, where the map's pages meet: a block to a row, in both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

# blocks of a page of the map: 8,168 bytes of four
PAGE = 32_672
# neither whole bytes of the map nor of a bitmap
BLOCKS = PAGE + 331
CHANGED = (
    0,
    1,
    6,
    7,
    8,
    1023,
    1024,
    31_743,
    31_744,
    PAGE - 2,
    PAGE - 1,
    PAGE,
    PAGE + 1,
    PAGE + 9,
    BLOCKS - 2,
    BLOCKS - 1,
)


@pytest.fixture(scope="module")
def conn(cluster: Cluster, database: str) -> Iterator[Connection]:
    with cluster.connect(database) as conn:
        conn.execute("CREATE UNLOGGED TABLE t (id int, filler char(900) DEFAULT '') WITH (fillfactor = 10)")
        conn.execute(f"INSERT INTO t SELECT i FROM generate_series(0, {BLOCKS - 1}) i")
        conn.execute("VACUUM t")
        assert one(conn, "SELECT bool_and(ctid = format('(%s,1)', id)::tid) AND count(*) = max(id) + 1 FROM t")
        assert one(conn, "SELECT relallvisible FROM pg_class WHERE oid = 't'::regclass") == BLOCKS
        conn.execute("SET pgbillion_rows.columns = force")
        yield conn


def counted(conn: Connection) -> dict[str, int]:
    plan = plans.explain(conn, "SELECT count(*) FROM t", run=True)
    return {
        name: sum(node.get(name, 0) for node in plans.nodes(plan))
        for name in ("Column Blocks Read", "Heap Blocks Not All-Visible")
    }


@pytest.mark.parametrize("segment_blocks", [32, 1024])
def test_each_block_has_its_own_bit(conn: Connection, segment_blocks: int) -> None:
    conn.execute(f"CREATE INDEX i ON t USING columns (id) WITH (segment_blocks = {segment_blocks})")
    assert counted(conn) == {"Column Blocks Read": BLOCKS, "Heap Blocks Not All-Visible": 0}
    conn.execute("BEGIN")
    for n, block in enumerate(CHANGED, 1):
        conn.execute(f"DELETE FROM t WHERE ctid = '({block},1)'")
        assert counted(conn) == {"Column Blocks Read": BLOCKS - n, "Heap Blocks Not All-Visible": n}
    assert one(
        conn,
        "SELECT array_agg(id ORDER BY id) FROM generate_series(0, %s) id WHERE id NOT IN (SELECT id FROM t)".replace(
            "%s", str(BLOCKS - 1)
        ),
    ) == list(CHANGED)
    conn.execute("ROLLBACK")
    conn.execute("DROP INDEX i")
    conn.execute("VACUUM t")
