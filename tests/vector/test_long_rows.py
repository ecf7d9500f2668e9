"""Rows and groups beyond 1, 2 and 4 GB: an error, as PostgreSQL's own is, or the same answer.

Where a size is added up in 32 bits, the sum of these values is negative, or a small number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest
from psycopg import errors

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster

GIGABYTE = 2**30
ROWS = 100_000
SHORT = 100
# The last row of the build side is long: those before it no longer fit in memory. The views are planned by themselves,
# so that the value is made once, and below the join.
TABLES = f"""
CREATE TABLE p AS SELECT i k FROM generate_series(1, {2 * ROWS}) i;
CREATE TABLE b AS SELECT i k FROM generate_series(1, {ROWS}) i;
ANALYZE p, b;
CREATE VIEW made WITH (security_barrier) AS
    SELECT k, repeat('x', CASE WHEN k = {ROWS} THEN current_setting('long.bytes')::int ELSE {SHORT} END) r FROM b;
CREATE VIEW long2 WITH (security_barrier) AS SELECT k, r v1, r v2 FROM made;
CREATE VIEW long3 WITH (security_barrier) AS SELECT k, r v1, r v2, r v3 FROM made;
CREATE VIEW long6 WITH (security_barrier) AS SELECT k, r v1, r v2, r v3, r v4, r v5, r v6 FROM made;
"""
# how many values of which length make a row above 1 GB, above 2 GB (a negative int), and above 4 GB (a small one)
LONG = pytest.mark.parametrize(("columns", "length"), [(2, 550_000_000), (3, 716_000_000), (6, 716_000_000)])


@pytest.fixture(scope="module")
def tables(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "long_rows") as name:
        with cluster.connect(name) as conn:
            conn.execute(TABLES.encode())
        yield name


@pytest.fixture
def long_rows(cluster: Cluster, tables: str) -> Iterator[Connection]:
    """A session whose joins have little memory, and are vectorized."""
    with cluster.connect(tables) as conn:
        conn.execute(
            "LOAD 'pgbillion_rows'; SET work_mem = '64kB'; SET hash_mem_multiplier = 1;"
            " SET max_parallel_workers_per_gather = 0; SET enable_mergejoin = off; SET enable_nestloop = off;"
            " SET pgbillion_rows.vector_join = force"
        )
        yield conn


def needs(amount: int) -> None:
    """Skip the test where the machine has less memory than that and a reserve for its neighbors."""
    if psutil.virtual_memory().available < amount + 2 * GIGABYTE:
        pytest.skip(f"needs {amount / GIGABYTE:.0f} GB of memory and a reserve of 2")


def query_of(conn: Connection, columns: int, length: int) -> str:
    """Have the last row of the view of that many columns hold values of that length; return a query that joins it."""
    # a value, the copy of it in each column, and what the client and the server's other processes have
    needs((columns + 1) * length + GIGABYTE // 2)
    conn.execute("SELECT set_config('long.bytes', %s, false)", [str(length)])
    lengths = " + ".join(f"octet_length(v{number})::bigint" for number in range(1, columns + 1))
    return f"SELECT count(*), sum({lengths}) FROM p JOIN long{columns} USING (k)"


def joins(plan: plans.Plan) -> bool:
    """Tell whether the plan's only join is vectorized."""
    return sum("Inner Join 1" in node for node in plans.nodes(plan)) == 1


def both_refuse(conn: Connection, query: str, least: int) -> None:
    """The query is an error with vectors as without, and the session goes on."""
    with pytest.raises(errors.ProgramLimitExceeded, match="is too long") as refused:
        conn.execute(query.encode())
    found = re.fullmatch(r"a row of (\d+) bytes is too long", refused.value.diag.message_primary or "")
    assert found
    assert int(found[1]) > least
    plans.switch(conn, False)
    with pytest.raises(errors.InternalError_, match="invalid memory alloc request size"):
        conn.execute(query.encode())
    plans.switch(conn, True)
    assert one(conn, "SELECT 1") == 1


@LONG
def test_a_row_that_no_block_of_a_file_holds_is_refused(long_rows: Connection, columns: int, length: int) -> None:
    query = query_of(long_rows, columns, length)
    assert joins(plans.explain(long_rows, query))
    both_refuse(long_rows, query, columns * length)


def test_a_row_below_the_limit_is_joined(long_rows: Connection) -> None:
    query = query_of(long_rows, 2, 300_000_000)
    assert joins(plans.explain(long_rows, query))
    assert long_rows.execute(query.encode()).fetchall() == [(ROWS, 2 * ((ROWS - 1) * SHORT + 300_000_000))]
