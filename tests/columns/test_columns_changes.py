"""A columnar index through everything that happens to a table: writes, VACUUM in all its forms, and DDL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from harness.servers import one, until
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.rows import plans

pytestmark = pytest.mark.majors

Connect = Callable[..., Connection]
OPTIONS = "WITH (segment_blocks = 32, refresh_share = 1)"


@pytest.fixture
def connect(cluster: Any, database: str) -> Iterator[Connect]:
    made: list[Connection] = []

    def new(**options: Any) -> Connection:
        made.append(cluster.connect(database, **options))
        return made[-1]

    yield new
    for each in made:
        each.close()


@pytest.fixture
def conn(connect: Connect) -> Connection:
    """A plain session: the catalogs are checked once, at the end of the module."""
    return connect(autocommit=True)


@pytest.fixture
def t(conn: Connection) -> str:
    """A table whose blocks are all in an index, which is encoded again only when the whole of a segment is stale."""
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    conn.execute("CREATE TABLE t (id int PRIMARY KEY, grp int, word text, other int) WITH (fillfactor = 90)")
    conn.execute("INSERT INTO t SELECT i, i % 7, 'word ' || i % 100, 0 FROM generate_series(1, 20000) i")
    conn.execute("VACUUM t")
    conn.execute(f"CREATE INDEX t_columns ON t USING columns (id, grp, word) {OPTIONS}")
    assert stale(conn) == 0
    return "t"


def status(conn: Connection, what: str, relation: str = "t") -> int:
    query = sql.SQL("SELECT sum({})::int FROM pgbillion_rows.columns_status(%s)").format(sql.Identifier(what))
    return int(conn.execute(query, [relation]).fetchone()[0])  # type: ignore[index]


def stale(conn: Connection) -> int:
    return status(conn, "stale_blocks")


def covered(conn: Connection, relation: str = "t") -> bool:
    """Is all that the last VACUUM has found all-visible in the index? A table's end may be pages without any row."""
    tables = 'SELECT "table" FROM pgbillion_rows.columns_status(%s)'
    visible = f"SELECT sum(relallvisible) FROM pg_class WHERE oid IN ({tables})"
    return status(conn, "readable_blocks", relation) == int(one(conn, visible, relation))


def problems(conn: Connection, relation: str = "t") -> list[Any]:
    return conn.execute("SELECT * FROM pgbillion_rows.columns_check(%s)", [relation]).fetchall()


def refresh(conn: Connection, relation: str = "t") -> None:
    conn.execute("CALL pgbillion_rows.columns_refresh(%s)", [relation])


def settle(conn: Connection, relation: str = "t") -> None:
    """VACUUM and encode; then all can be read, and is right."""
    assert problems(conn, relation) == []
    conn.execute(sql.SQL("VACUUM (INDEX_CLEANUP ON) {}").format(sql.Identifier(relation)))
    assert problems(conn, relation) == []
    refresh(conn, relation)
    assert covered(conn, relation)
    assert problems(conn, relation) == []


# ---- writes ----


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO t VALUES (0, 1, 'new', 0)",
        "DELETE FROM t WHERE id % 500 = 1",
        "UPDATE t SET grp = 99 WHERE id % 500 = 2",
        "UPDATE t SET word = NULL WHERE id % 500 = 3",
        "UPDATE t SET other = 1 WHERE id % 500 = 4",
        "UPDATE t SET id = -id WHERE id % 500 = 5",
        "INSERT INTO t SELECT i, 1, 'new', 0 FROM generate_series(19000, 21000) i ON CONFLICT DO NOTHING",
        "INSERT INTO t SELECT i, 1, 'n', 0 FROM generate_series(19900, 20100) i ON CONFLICT (id) DO UPDATE SET grp = 0",
    ],
)
@pytest.mark.parametrize("ends", ["COMMIT", "ROLLBACK"])
def test_writes(conn: Connection, t: str, change: str, ends: str) -> None:
    conn.execute("BEGIN")
    conn.execute(change)
    assert problems(conn) == []  # as the writer sees it
    conn.execute(ends)
    assert problems(conn) == []
    conn.execute("VACUUM t")
    assert problems(conn) == []
    settle(conn)


def test_own_changes(conn: Connection, connect: Connect, t: str) -> None:
    older = connect()
    older.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    older.execute("SELECT 1")
    conn.execute("BEGIN")
    conn.execute("DECLARE c CURSOR FOR SELECT * FROM pgbillion_rows.columns_check('t')")
    for change in (
        "DELETE FROM t WHERE id < 50",
        "SAVEPOINT s",
        "UPDATE t SET grp = -1 WHERE id < 90",
        "ROLLBACK TO s",
    ):
        conn.execute(change)
        assert problems(conn) == []
    conn.execute("INSERT INTO t VALUES (0, 1, 'new', 0)")
    assert conn.execute("FETCH ALL FROM c").fetchall() == []
    conn.execute("COMMIT")
    conn.execute("VACUUM t")
    refresh(conn)
    assert problems(older) == []
    older.execute("COMMIT")
    settle(conn)


def test_hot_updates(conn: Connection, t: str) -> None:
    hot = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 't'"
    major = conn.info.server_version // 10000
    conn.execute("UPDATE t SET grp = -1 WHERE id % 300 = 1")
    conn.execute("SELECT pg_stat_force_next_flush()")
    # from 16 on, an index that is about blocks only does not keep an update from being HOT
    assert (one(conn, hot) > 0) == (major >= 16)
    before = stale(conn)
    assert before > 0
    settle(conn)
    # another column: the values stay, and the rows may be in another order
    conn.execute("UPDATE t SET other = 1 WHERE id % 300 = 1")
    assert stale(conn) == 0
    conn.execute("SELECT count(*) FROM t")  # prunes
    settle(conn)


@pytest.mark.parametrize("enable", ["off", "on"])
def test_scans_that_set_blocks_all_visible(conn: Connection, t: str, enable: str) -> None:
    """From 19 on, a query that prunes a page may set its bit in the visibility map, and VACUUM is not needed."""
    conn.execute(f"SET pgbillion_rows.enable = {enable}; SET pgbillion_rows.vector_aggregate = force")
    conn.execute("UPDATE t SET other = 1 WHERE id % 50 = 1")
    assert status(conn, "readable_blocks") == 0

    def scan() -> bool:
        assert one(conn, "SELECT sum(other) FROM t") == 400
        return status(conn, "readable_blocks") > 0

    if conn.info.server_version >= 190000:
        until(scan, "blocks that a scan has set all-visible")
    else:
        assert not scan()
    assert problems(conn) == []
    assert one(conn, "SELECT sum(grp) FROM t") == sum(i % 7 for i in range(1, 20001))


WAITS = """
    CREATE OR REPLACE FUNCTION waits(id int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
    DECLARE
        call int := current_setting('test.calls', true);
    BEGIN
        IF call > 0 THEN
            PERFORM set_config('test.calls', (call + 1)::text, false);
            PERFORM pg_advisory_lock_shared(call);
            PERFORM pg_advisory_unlock_shared(call);
        END IF;
        RETURN id;
    END $$
"""


def test_a_block_that_one_statement_marks_twice(conn: Connection, connect: Connect) -> None:
    """INSERT … ON CONFLICT takes a row back, VACUUM encodes its block again, and the next row goes there."""
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    conn.execute("CREATE TABLE t (id int, word text)")
    conn.execute("ALTER TABLE t ALTER word SET STORAGE plain")
    conn.execute("INSERT INTO t SELECT i, 'w' FROM generate_series(1, 150) i")
    conn.execute("VACUUM t")
    conn.execute("CREATE INDEX ON t USING columns (id, word) WITH (refresh_share = 0)")
    conn.execute(WAITS)
    # index functions are called in the order of the indexes' numbers
    conn.execute("CREATE UNIQUE INDEX ON t (waits(id))")
    assert (status(conn, "readable_blocks"), status(conn, "table_blocks")) == (1, 1)
    writer, other, holder, monitor = connect(), connect(), connect(), connect()
    # of the first row: before it is inserted, then after; of the second: before
    holder.execute("SELECT pg_advisory_lock(2), pg_advisory_lock(3)")
    writer.execute("SET test.calls = 1")
    writing = Running(
        lambda: writer.execute("INSERT INTO t VALUES (1000, 'taken back'), (1001, 'stays') ON CONFLICT DO NOTHING")
    )
    until_blocked(monitor, writer, writing)
    # in another block
    other.execute("INSERT INTO t SELECT 1000, string_agg(md5(i::text), '') FROM generate_series(1, 200) i")
    assert stale(conn) == 2  # and the block that is new
    holder.execute("SELECT pg_advisory_unlock(2)")
    until(lambda: one(monitor, "SELECT count(*) FROM pg_locks WHERE NOT granted AND objid = 3") == 1, "the second row")
    conn.execute("VACUUM (INDEX_CLEANUP ON) t")
    assert status(conn, "readable_blocks") == 1
    holder.execute("SELECT pg_advisory_unlock(3)")
    writing.result()
    assert one(conn, "SELECT ctid::text LIKE '(0,%%)' FROM t WHERE id = 1001")
    assert stale(conn) == 2
    conn.execute("SET test.calls = 0")
    conn.execute("DROP INDEX t_waits_idx")
    settle(conn)


# ---- VACUUM ----


@pytest.mark.parametrize(
    "vacuum",
    [
        "VACUUM t",
        "VACUUM (INDEX_CLEANUP ON) t",
        "VACUUM (INDEX_CLEANUP OFF) t",
        "VACUUM (FREEZE) t",
        "VACUUM (DISABLE_PAGE_SKIPPING) t",
        "VACUUM (PARALLEL 2, INDEX_CLEANUP ON) t",
        "SET vacuum_failsafe_age = 0; SET vacuum_freeze_table_age = 0; VACUUM t; RESET ALL",
    ],
)
def test_vacuum(conn: Connection, t: str, vacuum: str) -> None:
    conn.execute("CREATE INDEX ON t (grp); CREATE INDEX ON t (word)")
    conn.execute("SET min_parallel_index_scan_size = 0")
    # few enough for VACUUM to leave them alone; those of some blocks; of many; at the end
    for rows in ("id = 500", "id % 1000 = 0", "id < 5000 AND id % 2 = 0", "id > 15000"):
        conn.execute(sql.SQL("DELETE FROM t WHERE " + rows))
        for command in vacuum.split("; "):
            conn.execute(sql.SQL(command))
        assert problems(conn) == []
        conn.execute("INSERT INTO t SELECT min(id) - i, 1, 'again', 0 FROM t, generate_series(1, 99) i GROUP BY i")
        for command in vacuum.split("; "):
            conn.execute(sql.SQL(command))
        assert problems(conn) == []
    settle(conn)


def test_vacuum_in_rounds(conn: Connection, t: str) -> None:
    conn.execute("INSERT INTO t SELECT i, i % 7, 'more', 0 FROM generate_series(20001, 250000) i")
    settle(conn)
    conn.execute("DELETE FROM t WHERE id % 2 = 0")
    conn.execute("SET maintenance_work_mem = '1MB'")
    settle(conn)


# ---- concurrent builds ----


@pytest.mark.parametrize("build", ["DROP INDEX t_columns", "REINDEX INDEX CONCURRENTLY t_columns"])
def test_concurrent_build(conn: Connection, connect: Connect, t: str, build: str) -> None:
    if build.startswith("DROP"):
        conn.execute(build)
        build = f"CREATE INDEX CONCURRENTLY t_columns ON t USING columns (id, grp, word) {OPTIONS}"
    builder, first, second, monitor = connect(), connect(), connect(), connect()
    first.execute("BEGIN; INSERT INTO t VALUES (-1, 1, 'first', 0)")
    building = Running(lambda: builder.execute(build))
    # before the build, while writers do not know the index, and before it is compared with the table
    for number, (waited_for, other) in enumerate([(first, second), (second, first)]):
        until_blocked(monitor, builder, building)
        other.execute(f"BEGIN; INSERT INTO t VALUES ({-10 - number}, 1, 'other', 0)")
        conn.execute(f"INSERT INTO t VALUES ({-20 - number}, 1, 'meanwhile', 0)")
        waited_for.execute("COMMIT")
    first.execute("COMMIT")
    building.result()
    assert status(conn, "encoded_blocks") == 0
    settle(conn)


@pytest.mark.parametrize("built", [False, True])
def test_a_build_that_failed(conn: Connection, connect: Connect, t: str, built: bool) -> None:
    conn.execute("DROP INDEX t_columns")
    builder, writer, other, monitor = connect(), connect(), connect(), connect()
    writer.execute("BEGIN; INSERT INTO t VALUES (-1, 1, 'first', 0)")
    building = Running(
        lambda: builder.execute("CREATE INDEX CONCURRENTLY t_columns ON t USING columns (id, grp, word)")
    )
    until_blocked(monitor, builder, building)
    if built:
        other.execute("BEGIN; INSERT INTO t VALUES (-2, 1, 'second', 0)")
        writer.execute("COMMIT")
        until(lambda: one(monitor, "SELECT indisready FROM pg_index WHERE indexrelid = 't_columns'::regclass"), "ready")
        until_blocked(monitor, builder, building)
    conn.execute("SELECT pg_cancel_backend(%s)", [builder.info.backend_pid])
    with pytest.raises(psycopg.errors.QueryCanceled):
        building.result()
    for session in (writer, other):
        session.execute("COMMIT")
    conn.execute("VACUUM t")
    refresh(conn)
    # it is not valid, and stays empty
    assert status(conn, "encoded_blocks") == 0
    assert one(conn, "SELECT NOT valid FROM pgbillion_rows.columns_status('t')")
    conn.execute("REINDEX INDEX t_columns")
    settle(conn)


# ---- what changes the table's file, its columns or its size ----


@pytest.mark.parametrize(
    "change",
    [
        "VACUUM FULL t",
        "CLUSTER t USING t_pkey",
        "TRUNCATE t",
        "ALTER TABLE t SET TABLESPACE space1",
        "ALTER TABLE t ALTER word TYPE varchar",
        "ALTER TABLE t ALTER word TYPE varchar(50)",
        "ALTER TABLE t ALTER grp TYPE bigint",
        "ALTER TABLE t ALTER grp TYPE text",
        "ALTER TABLE t SET UNLOGGED",
        "ALTER TABLE t ADD more int DEFAULT 5",
        "ALTER TABLE t DROP other",
        "REINDEX TABLE t",
        "REINDEX INDEX t_columns",
    ],
)
def test_changed_tables(conn: Connection, t: str, change: str) -> None:
    conn.execute(change)
    assert problems(conn) == []
    conn.execute("INSERT INTO t (id, word) SELECT -i, 'more' FROM generate_series(1, 3000) i")
    settle(conn)


def test_a_dropped_column_takes_the_index_along(conn: Connection, t: str) -> None:
    conn.execute("ALTER TABLE t DROP word")
    assert one(conn, "SELECT to_regclass('t_columns') IS NULL")


def test_truncated_and_grown_again(conn: Connection, t: str) -> None:
    conn.execute("DELETE FROM t WHERE id > 1000")
    conn.execute("VACUUM (TRUNCATE) t")
    size = status(conn, "table_blocks")
    assert problems(conn) == []
    conn.execute("INSERT INTO t SELECT -i, 3, 'again', 0 FROM generate_series(1, 20000) i")
    assert problems(conn) == []
    conn.execute("VACUUM t")
    assert status(conn, "table_blocks") > size
    assert problems(conn) == []
    settle(conn)


def test_planning_sees_what_others_change(connect: Connect, conn: Connection, t: str) -> None:
    """A session remembers what planning has found of an index, until a row of another session is marked in it."""
    planner = connect(autocommit=True)
    planner.prepare_threshold = None
    planner.execute("LOAD 'pgbillion_rows'")
    size = "SELECT pg_relation_size('t')"

    def reads_columns() -> bool:
        plan = plans.explain(planner, "SELECT grp, count(*), max(word) FROM t GROUP BY grp")
        return any("Columns" in node for node in plans.nodes(plan))

    assert [reads_columns() for _ in range(3)] == [True] * 3
    before = one(conn, size)
    # a row on each page, where there is room for it: nothing else of the table tells
    conn.execute("UPDATE t SET grp = grp + 1 WHERE id % 100 = 0")
    assert one(conn, size) == before
    assert not reads_columns()
    conn.execute("VACUUM t")
    refresh(conn)
    assert stale(conn) == 0
    assert one(conn, size) == before
    assert reads_columns()


def test_copy_freeze_twice(conn: Connection) -> None:
    """The second COPY adds rows to a page that is all-visible, and leaves it so."""
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    rows = [(i, i % 5, "frozen") for i in range(200)]
    with conn.transaction():
        conn.execute("CREATE TABLE t (id int, grp int, word text)")
        for again in range(3):
            with conn.cursor().copy("COPY t FROM STDIN (FREEZE)") as copy:
                for row in rows:
                    copy.write_row(row)
            if again == 0:
                conn.execute("CREATE INDEX t_columns ON t USING columns (id, grp, word)")
                assert status(conn, "readable_blocks") > 0
            assert problems(conn) == []
        assert status(conn, "stale_blocks") > 0
    settle(conn)


def test_truncated_by_who_created_it(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    with conn.transaction():
        conn.execute("CREATE TABLE t (id int, grp int, word text)")
        conn.execute("CREATE INDEX t_columns ON t USING columns (id, grp, word)")
        for again in range(3):
            conn.execute(f"INSERT INTO t SELECT i, {again}, 'w' FROM generate_series(1, 5000) i")
            assert problems(conn) == []
            if again < 2:
                conn.execute("TRUNCATE t")
    settle(conn)


def test_temporary_tables(conn: Connection) -> None:
    for action in ("PRESERVE", "DELETE"):
        conn.execute("DROP TABLE IF EXISTS tmp")
        conn.execute(f"CREATE TEMP TABLE tmp (id int, word text) ON COMMIT {action} ROWS")
        conn.execute("CREATE INDEX ON tmp USING columns (id, word)")
        for _ in range(2):
            with conn.transaction():
                conn.execute("INSERT INTO tmp SELECT i, 'w' || i FROM generate_series(1, 5000) i")
                assert problems(conn, "tmp") == []
            conn.execute("VACUUM tmp")
            assert problems(conn, "tmp") == []
            assert covered(conn, "tmp")


def test_partitions_and_materialized_views(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS p CASCADE")
    conn.execute("CREATE TABLE p (id int, grp int) PARTITION BY HASH (id)")
    conn.execute("CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 0)")
    conn.execute("CREATE INDEX p_columns ON p USING columns (grp, id)")
    conn.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES WITH (MODULUS 2, REMAINDER 1)")
    conn.execute("INSERT INTO p SELECT i, i % 7 FROM generate_series(1, 20000) i")
    settle(conn, "p")
    assert one(conn, "SELECT count(*) FROM pgbillion_rows.columns_status('p_columns')") == 2
    conn.execute("UPDATE p SET id = id + 1")
    settle(conn, "p")
    conn.execute("CREATE MATERIALIZED VIEW m AS SELECT * FROM p")
    conn.execute("CREATE UNIQUE INDEX ON m (id)")
    conn.execute("CREATE INDEX ON m USING columns (grp, id)")
    settle(conn, "m")
    conn.execute("DELETE FROM p WHERE id % 10 = 3")
    conn.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY m")
    settle(conn, "m")
    conn.execute("REFRESH MATERIALIZED VIEW m")
    settle(conn, "m")
    conn.execute("DROP MATERIALIZED VIEW m")


def test_lazy_and_stamped_tables(conn: Connection) -> None:
    conn.execute("DROP TABLE IF EXISTS lazy, model CASCADE")
    conn.execute("CREATE TABLE lazy (id int, word text) USING lazy_heap")
    conn.execute("CREATE INDEX ON lazy USING columns (id, word)")
    assert problems(conn, "lazy") == []
    conn.execute("VACUUM lazy")
    conn.execute("INSERT INTO lazy SELECT i, 'w' FROM generate_series(1, 3000) i")
    settle(conn, "lazy")
    conn.execute("CREATE TABLE model (id int, word text)")
    conn.execute("CREATE INDEX ON model USING columns (id, word)")
    conn.execute("INSERT INTO model SELECT i, 'w' FROM generate_series(1, 3000) i")
    settle(conn, "model")
    conn.execute("CREATE TABLE copied (LIKE model INCLUDING ALL)")
    conn.execute("INSERT INTO copied SELECT * FROM model")
    settle(conn, "copied")
    conn.execute("DROP TABLE copied")


# ---- refusals ----


def test_what_is_refused(conn: Connection, t: str) -> None:
    for command, error in (
        ("CREATE INDEX ON t USING columns (id) WHERE id > 5", "partial"),
        ("CREATE UNIQUE INDEX ON t USING columns (id)", "unique"),
        ("CREATE INDEX ON t USING columns (id) INCLUDE (grp)", "included"),
        ("CREATE INDEX ON t USING columns (id DESC)", "ASC/DESC"),
        ("ALTER TABLE t CLUSTER ON t_columns", "cluster"),
        ("ALTER TABLE t REPLICA IDENTITY USING INDEX t_columns", "replica identity"),
        ("ALTER TABLE t ADD EXCLUDE USING columns (id WITH =)", "exclusion"),
        ("CREATE INDEX ON t USING columns (id) WITH (segment_blocks = 2000)", "out of bounds"),
        ("CREATE INDEX ON t USING columns (id) WITH (other = 1)", "unrecognized"),
        ("CALL pgbillion_rows.columns_refresh('t_pkey')", "no index of access method"),
        ("SELECT * FROM pgbillion_rows.columns_check('pg_class')", "no index of access method"),
    ):
        with pytest.raises(psycopg.Error, match=error):
            conn.execute(command)
    settle(conn)


def test_only_the_owner_refreshes_and_checks(conn: Connection, t: str) -> None:
    conn.execute("SET ROLE reader")
    for command in ("CALL pgbillion_rows.columns_refresh('t')", "SELECT * FROM pgbillion_rows.columns_check('t')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(command)
    conn.execute("RESET ROLE")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t",
        "SELECT * FROM t WHERE grp IS NULL",
        "SELECT * FROM t WHERE grp = 5",
        "SELECT * FROM t WHERE word LIKE 'a%'",
        "SELECT grp FROM t ORDER BY grp",
        "SELECT * FROM t WHERE grp = ANY ('{1,2}')",
    ],
)
def test_postgres_never_scans_it(conn: Connection, t: str, query: str) -> None:
    conn.execute("SET enable_seqscan = off; SET pgbillion_rows.vector_aggregate = off")
    plan = "\n".join(line for (line,) in conn.execute(sql.SQL("EXPLAIN " + query)))
    assert "t_columns" not in plan
    conn.execute("RESET ALL")


def test_refresh_inside_a_transaction(conn: Connection, t: str) -> None:
    conn.execute("UPDATE t SET grp = 5 WHERE id < 500")
    conn.execute("VACUUM t")
    with conn.transaction():
        refresh(conn)
        assert problems(conn) == []
    settle(conn)


def test_serializable_readers_are_left_to_the_table(conn: Connection, t: str) -> None:
    notices: list[str] = []
    conn.add_notice_handler(lambda told: notices.append(str(told.message_primary)))
    conn.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
    assert problems(conn) == []
    conn.execute("COMMIT")
    assert "serializable" in notices[0]


# ---- scans that set pages all-visible ----


@pytest.mark.parametrize("by", ["PostgreSQL", "vectors"])
def test_what_scans_find_visible_to_all(conn: Connection, t: str, by: str, tell: Callable[[str], None]) -> None:
    """From 19 on, scans of SELECT set pages all-visible, and so make blocks readable without VACUUM."""
    scans_do = conn.info.server_version >= 190000
    blocks = status(conn, "table_blocks")
    # every page has a row that is HOT-updated, or moves to another page; none of the indexed columns changes
    conn.execute("UPDATE t SET other = 1 WHERE id % 50 = 0")
    before = status(conn, "readable_blocks")
    conn.execute(f"SET pgbillion_rows.vector_aggregate = {'off' if by == 'PostgreSQL' else 'force'}")
    conn.execute("SET pgbillion_rows.columns = off; SET enable_indexscan = off; SET enable_indexonlyscan = off")
    assert one(conn, "SELECT sum(other) FROM t") == 400
    after = status(conn, "readable_blocks")
    tell(f"of {blocks} blocks, {before} were readable after the update, and {after} after one scan")
    assert before == 0
    assert after > blocks * 0.9 if scans_do else after == 0
    assert problems(conn) == []
    # rows that are added: only their blocks are not in the index yet; what has a tenth of free space is not looked at
    conn.execute("ALTER TABLE t SET (fillfactor = 100)")
    conn.execute("INSERT INTO t SELECT i, i % 7, 'word ' || i % 100, 0 FROM generate_series(20001, 40000) i")
    one(conn, "SELECT sum(other) FROM t")
    refresh(conn)
    blocks, added = status(conn, "table_blocks"), status(conn, "readable_blocks")
    tell(f"of {blocks} blocks, {added} after rows were added, one scan and columns_refresh()")
    assert added > blocks * 0.9 if scans_do else added == 0
    assert problems(conn) == []
    # a deleted row's line is freed by VACUUM only, which has told the index
    conn.execute("DELETE FROM t WHERE id % 1000 = 1")
    for _ in range(2):
        one(conn, "SELECT sum(other) FROM t")
        assert problems(conn) == []
    assert one(conn, "SELECT count(*) FROM t") == 39960
    conn.execute("SET pgbillion_rows.columns = force")
    assert one(conn, "SELECT count(grp) FROM t") == 39960
    settle(conn)
    assert one(conn, "SELECT count(grp) FROM t") == 39960
