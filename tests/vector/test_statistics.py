"""pgbillion_rows.stat_queries: what ran by what the extension adds, how often, and how long."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from harness import servers
from harness.servers import one
from harness.shards import make_coordinator, shard_table, shards
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors

AGGREGATE, COLUMNS, SCAN, SORT, WINDOW, JOIN, LOOP, SHARDS = (
    "vectorized aggregation",
    "aggregation from columns",
    "vectorized scan",
    "vectorized sort",
    "vectorized window functions",
    "eager aggregation",
    "replaced nested loop",
    "aggregation on shards",
)
FORCE = (
    "LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force; SET pgbillion_rows.vector_scan = off;"
    " SET pgbillion_rows.eager_aggregate = off; SET max_parallel_workers_per_gather = 0"
)
GROUPED = "SELECT g, count(*), sum(i) FROM numbers GROUP BY g"


@pytest.fixture(scope="module")
def counting(installation: Installation, cluster: Cluster) -> Iterator[Cluster]:
    """A server that counts: before 17 it must have loaded the library when it started."""
    if installation.major >= 17:
        yield cluster
        return
    with servers.new_cluster(installation, {"shared_preload_libraries": "pgbillion_rows"}) as cluster:
        yield cluster


@pytest.fixture
def counted(counting: Cluster) -> Iterator[Connection]:
    """A session in a database of its own, with a table."""
    with servers.new_database(counting, "counted") as name, counting.connect(name) as conn:
        conn.prepare_threshold = None
        conn.execute(FORCE.encode())
        conn.execute("CREATE TABLE numbers AS SELECT i % 7 AS g, i FROM generate_series(1, 30000) i; ANALYZE numbers")
        conn.execute("CREATE TABLE names AS SELECT g, 'n' || g AS name FROM generate_series(0, 6) g; ANALYZE names")
        conn.execute("SELECT pgbillion_rows.stat_reset()")
        yield conn


def counts(conn: Connection) -> dict[str, int]:
    """What this database has run so far, kinds without a query left out."""
    rows = conn.execute(
        "SELECT kind, queries FROM pgbillion_rows.stat_queries WHERE datname = current_database() AND queries > 0"
    )
    return {str(kind): int(queries) for kind, queries in rows.fetchall()}


def test_sorts_and_windows_are_counted(counted: Connection) -> None:
    counted.execute("SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_sort = force")
    counted.execute("SET pgbillion_rows.vector_window = force")
    counted.execute("SELECT i FROM numbers ORDER BY i")
    assert counts(counted) == {SORT: 1}
    counted.execute("SELECT rank() OVER (ORDER BY i) FROM numbers")
    assert counts(counted) == {SORT: 1, WINDOW: 1}
    counted.execute("SELECT rank() OVER (ORDER BY i) AS r FROM numbers ORDER BY g, r")
    assert counts(counted) == {SORT: 2, WINDOW: 2}


def test_a_replaced_loop_is_counted(counted: Connection) -> None:
    counted.execute("SET pgbillion_rows.vector_aggregate = off")
    # there are no statistics of a CTE that is read twice
    query = (
        "WITH totals AS (SELECT g, i % 10 AS h, i % 3 AS k, sum(i) AS total FROM numbers GROUP BY 1, 2, 3)"
        " SELECT count(*) FROM totals one JOIN totals two USING (g, k) WHERE one.h = 1 AND two.h = 2 AND one.k = 1"
    )
    expected = counted.execute(query.encode()).fetchall()
    assert counts(counted) == {LOOP: 1}
    # a plan that is kept, and copied
    counted.execute(f"PREPARE kept AS {query}".encode())
    counted.execute("SET plan_cache_mode = force_generic_plan")
    for _ in range(2):
        assert counted.execute("EXECUTE kept").fetchall() == expected
    assert counts(counted) == {LOOP: 3}
    counted.execute("SET pgbillion_rows.replace_nested_loops = off; DEALLOCATE kept")
    assert counted.execute(query.encode()).fetchall() == expected
    assert counts(counted) == {LOOP: 3}


def test_each_kind_is_counted_where_it_ran(counted: Connection) -> None:
    assert counts(counted) == {}
    counted.execute("SELECT count(*) FROM names n, names m")  # forced, too
    counted.execute("SELECT pgbillion_rows.stat_reset()")
    counted.execute(GROUPED.encode())
    counted.execute("SELECT i FROM numbers ORDER BY i LIMIT 1")
    assert counts(counted) == {AGGREGATE: 1}
    counted.execute("SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_scan = force")
    counted.execute("SELECT i FROM numbers WHERE i < 10 AND g > 2")
    assert counts(counted) == {AGGREGATE: 1, SCAN: 1}
    counted.execute("SET pgbillion_rows.vector_scan = off; SET pgbillion_rows.eager_aggregate = force")
    joined = "SELECT name, count(*), sum(i) FROM numbers JOIN names USING (g) GROUP BY name"
    assert len(counted.execute(joined.encode()).fetchall()) == 7
    assert counts(counted) == {AGGREGATE: 1, SCAN: 1, JOIN: 1}
    counted.execute("SET pgbillion_rows.vector_aggregate = force")
    counted.execute(joined.encode())
    assert counts(counted) == {AGGREGATE: 2, SCAN: 1, JOIN: 2}


def test_columns_are_counted_where_they_are_read(counted: Connection) -> None:
    counted.execute("VACUUM numbers")
    counted.execute("CREATE INDEX ON numbers USING columns (g, i) WITH (segment_blocks = 16)")
    counted.execute("SET pgbillion_rows.columns = off")
    counted.execute(GROUPED.encode())
    assert counts(counted) == {AGGREGATE: 1}
    counted.execute("SET pgbillion_rows.columns = force")
    counted.execute(GROUPED.encode())
    assert counts(counted) == {AGGREGATE: 2, COLUMNS: 1}


def test_postgresqls_own_partial_aggregation_is_not_counted(counted: Connection) -> None:
    counted.execute("SET pgbillion_rows.vector_aggregate = off; SET pgbillion_rows.vector_join = off")
    counted.execute("SET pgbillion_rows.vector_scan = off; SET max_parallel_workers_per_gather = 2")
    counted.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0")
    if counted.info.server_version >= 190000:
        # its plans cannot be told from ours
        counted.execute("SET enable_eager_aggregate = off")
    query = "SELECT name, count(*) FROM numbers JOIN names USING (g) GROUP BY name"
    plan = "\n".join(str(line) for (line,) in counted.execute(f"EXPLAIN {query}".encode()).fetchall())
    assert "Finalize" in plan
    assert "Join" in plan
    counted.execute(query.encode())
    assert counts(counted) == {}


def test_what_runs_is_counted_once(counted: Connection) -> None:
    """By parallel workers, in functions, in cursors; EXPLAIN alone runs nothing, and an error does not end."""
    counted.execute(f"EXPLAIN {GROUPED}".encode())
    assert counts(counted) == {}
    counted.execute(f"EXPLAIN (ANALYZE) {GROUPED}".encode())
    assert counts(counted) == {AGGREGATE: 1}
    counted.execute("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0")
    counted.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
    counted.execute(GROUPED.encode())
    assert counts(counted) == {AGGREGATE: 2}
    counted.execute("DO 'BEGIN PERFORM count(*) FROM numbers; END'")
    assert counts(counted) == {AGGREGATE: 3}
    with counted.transaction():
        counted.execute(f"DECLARE c CURSOR FOR {GROUPED}".encode())
        counted.execute("FETCH 2 FROM c")
        assert counts(counted) == {AGGREGATE: 3}
        counted.execute("CLOSE c")
        assert counts(counted) == {AGGREGATE: 4}
    with pytest.raises(psycopg.errors.DivisionByZero):
        counted.execute("SELECT sum(i / (i - i)) FROM numbers")
    assert counts(counted) == {AGGREGATE: 4}
    counted.execute("PREPARE q AS SELECT count(*) FROM numbers; EXECUTE q; EXECUTE q")
    assert counts(counted) == {AGGREGATE: 6}


def test_shards(counting: Cluster, counted: Connection) -> None:
    name = counted.info.dbname
    with shards([counting], name) as members:
        make_coordinator(counted, members)
        shard_table(counted, members, "t", "i integer, b bigint")
        counted.execute("INSERT INTO t SELECT i, i FROM generate_series(1, 10) i")
        counted.execute("SELECT pgbillion_rows.stat_reset()")
        counted.execute("SELECT * FROM t")
        assert counts(counted) == {}
        for isolation, number in (("READ COMMITTED", 1), ("REPEATABLE READ", 2)):
            with counted.transaction():
                counted.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
                assert one(counted, "SELECT sum(b) FROM t") == 55
            assert counts(counted) == {SHARDS: number}


def test_time_is_of_the_whole_query(counted: Connection) -> None:
    counted.execute("SELECT g, count(*), pg_sleep(0.01) FROM numbers GROUP BY g")
    query = "SELECT total_time FROM pgbillion_rows.stat_queries WHERE datname = current_database() AND kind = %s"
    assert one(counted, query, AGGREGATE) >= 70
    assert one(counted, query, SCAN) == 0


def test_databases_and_reset(counting: Cluster, counted: Connection) -> None:
    """Each database has counters of its own; everybody reads them all, and superusers reset theirs."""
    counted.execute(GROUPED.encode())
    here = "SELECT stats_reset FROM pgbillion_rows.stat_queries WHERE datname = current_database() LIMIT 1"
    before = one(counted, here)
    with servers.new_database(counting, "another") as name, counting.connect(name) as other:
        other.execute(FORCE.encode())
        other.execute("CREATE TABLE numbers AS SELECT i % 7 AS g, i FROM generate_series(1, 3000) i")
        other.execute(GROUPED.encode())
        assert counts(other) == {AGGREGATE: 1}
        other.execute("SELECT pgbillion_rows.stat_reset()")
        assert counts(other) == {}
        everywhere = "SELECT queries FROM pgbillion_rows.stat_queries WHERE datname = %s AND kind = %s"
        assert one(other, everywhere, counted.info.dbname, AGGREGATE) == 1
    assert counts(counted) == {AGGREGATE: 1}
    assert one(counted, here) == before
    counted.execute("CREATE ROLE looks")
    try:
        counted.execute("SET ROLE looks")
        assert counts(counted) == {AGGREGATE: 1}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            counted.execute("SELECT pgbillion_rows.stat_reset()")
    finally:
        counted.execute("RESET ROLE; DROP ROLE looks")
    counted.execute("SELECT pgbillion_rows.stat_reset()")
    assert counts(counted) == {}
    assert one(counted, here) > before


def test_sessions_count_together(counting: Cluster, counted: Connection) -> None:
    for _ in range(3):
        with counting.connect(counted.info.dbname) as conn:
            conn.execute(FORCE.encode())
            conn.execute(GROUPED.encode())
    assert counts(counted) == {AGGREGATE: 3}


def test_a_server_that_does_not_count_says_so(installation: Installation, cluster: Cluster) -> None:
    if installation.major >= 17:
        return
    with cluster.connect("template1") as conn:
        assert one(conn, "SELECT pgbillion_rows.version()")
        for query in ("TABLE pgbillion_rows.stat_queries", "SELECT pgbillion_rows.stat_reset()"):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="shared_preload_libraries"):
                conn.execute(query.encode())


def test_counters_after_a_crash(installation: Installation) -> None:
    """The memory is made anew, and nothing of the old one is used."""
    settings = {"shared_preload_libraries": "pgbillion_rows"} if installation.major < 17 else {}
    with servers.new_cluster(installation, settings) as cluster, cluster.connect("template1") as conn:
        conn.execute(FORCE.encode())
        conn.execute("CREATE TABLE numbers AS SELECT i % 7 AS g, i FROM generate_series(1, 3000) i")
        conn.execute(GROUPED.encode())
        assert counts(conn) == {AGGREGATE: 1}
        os.kill(conn.info.backend_pid, signal.SIGKILL)
        servers.until(lambda: _starts_over(cluster), "the server to start over")


def _starts_over(cluster: Cluster) -> bool:
    try:
        with cluster.connect("template1") as conn:
            return counts(conn) == {} and one(conn, "SELECT count(*) FROM numbers") == 3000
    except psycopg.OperationalError:
        return False


def test_no_query_fails_for_want_of_memory_to_count_in(installation: Installation) -> None:
    """Since 17 the counters' memory is made when the first query wants it, and there may be none."""
    if installation.major < 17:
        pytest.skip("before 17 the memory is there when the server starts, or never")
    settings = {"dynamic_shared_memory_type": "mmap", "max_parallel_workers_per_gather": "0"}
    with servers.new_cluster(installation, settings) as cluster, servers.new_database(cluster, "poor") as name:
        folder = cluster.data / "pg_dynshmem"
        mode = folder.stat().st_mode
        with cluster.connect(name) as conn:
            conn.execute(FORCE.encode())
            conn.execute("CREATE TABLE numbers AS SELECT i % 7 AS g, i FROM generate_series(1, 30000) i")
            # a segment is a file here, and now none can be made
            folder.chmod(0o500)
            try:
                conn.execute("BEGIN; CREATE TABLE kept ()")
                assert len(conn.execute(GROUPED.encode()).fetchall()) == 7
                conn.execute("DECLARE c CURSOR FOR " + GROUPED)
                assert len(conn.execute("FETCH 3 FROM c").fetchall()) == 3
                conn.execute("COMMIT")
                assert one(conn, "SELECT count(*) FROM kept") == 0
                assert "does not count the queries of this session" in cluster.log.read_text(encoding="utf-8")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    conn.execute("SELECT * FROM pgbillion_rows.stat_queries")
            finally:
                folder.chmod(mode)
        assert "WARNING" not in cluster.log.read_text(encoding="utf-8").split("does not count", 1)[1]
