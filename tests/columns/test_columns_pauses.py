"""A columnar index while others write, VACUUM and encode: each race, stopped at the place where it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest

from harness import servers, standby
from harness.pauses import cluster_with_pauses, paused, until_paused
from harness.servers import one
from harness.sessions import Running
from pgbillion.common.connection import Connection
from pgbillion.rows import plans
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors

Connect = Callable[[], Connection]
T = TypeVar("T")
DATABASE = "pauses"
ROWS = 20_000


@pytest.fixture(scope="module")
def primary(installation: Installation) -> Iterator[Cluster]:
    with (
        cluster_with_pauses(installation, wal_consistency_checking="generic") as cluster,
        servers.new_database(cluster, DATABASE),
    ):
        yield cluster


@pytest.fixture
def connect(primary: Cluster) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(primary.connect(DATABASE))


@pytest.fixture
def conn(connect: Connect) -> Connection:
    """A session that has made a table of several segments, all-visible, and an index of it that VACUUM leaves alone."""
    conn = connect()
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    conn.execute("CREATE TABLE t (id int PRIMARY KEY, grp int, word text) WITH (fillfactor = 90)")
    conn.execute(f"INSERT INTO t SELECT i, i % 7, 'word ' || i % 100 FROM generate_series(1, {ROWS}) i")
    conn.execute("VACUUM t")
    conn.execute(
        "CREATE INDEX t_columns ON t USING columns (id, grp, word) WITH (segment_blocks = 32, refresh_share = 1)"
    )
    assert readable(conn) == blocks(conn) > 64
    return conn


def readable(conn: Connection) -> int:
    return int(one(conn, "SELECT readable_blocks FROM pgbillion_rows.columns_status('t_columns')"))


def blocks(conn: Connection) -> int:
    return int(one(conn, "SELECT table_blocks FROM pgbillion_rows.columns_status('t_columns')"))


def problems(conn: Connection) -> list[Any]:
    return conn.execute("SELECT block, problem FROM pgbillion_rows.columns_check('t_columns')").fetchall()


def refresh(conn: Connection) -> None:
    conn.execute("CALL pgbillion_rows.columns_refresh('t_columns')")


def vacuum(conn: Connection) -> None:
    conn.execute("VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) t")


@pytest.mark.parametrize("place", ["visibility map read", "directory read"])
@pytest.mark.parametrize("encoded_again", [False, True])
def test_vacuum_between_the_looks(conn: Connection, connect: Connect, place: str, encoded_again: bool) -> None:
    conn.execute("DELETE FROM t WHERE id = 500")
    reader, holder = connect(), connect()
    with paused(holder, place):
        reading = Running(lambda: problems(reader))
        until_paused(conn, place)
        vacuum(conn)
        if encoded_again:
            refresh(conn)
    assert reading.result() == []
    assert problems(conn) == []
    assert readable(conn) == blocks(conn) - (not encoded_again)


@pytest.mark.parametrize("place", ["begun", "gathered", "between data pages", "before publishing"])
@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (-1, 1, 'new')", "UPDATE t SET grp = -1 WHERE id = 5"])
@pytest.mark.parametrize("first", [True, False])
def test_change_while_a_block_is_encoded(
    conn: Connection, connect: Connect, place: str, change: str, first: bool
) -> None:
    # all of the first block is dead, so that there is room where the encoder has been
    conn.execute("DELETE FROM t WHERE ctid < '(1,1)' AND id <> 5")
    if first:
        conn.execute("DROP INDEX t_columns")
        vacuum(conn)
        conn.execute(
            "CREATE INDEX CONCURRENTLY t_columns ON t USING columns (id, grp, word)"
            " WITH (segment_blocks = 32, refresh_share = 1)"
        )
    else:
        vacuum(conn)
    writer, encoder, holder = connect(), connect(), connect()
    with paused(holder, place):
        encoding = Running(lambda: refresh(encoder))
        until_paused(conn, place)
        writer.execute(change)
        assert int(one(conn, "SELECT max((ctid::text::point)[0]) FROM t WHERE id = -1 OR grp = -1")) == 0
    encoding.result()
    # makes the block all-visible; what is encoded stays as it is
    vacuum(conn)
    vacuum(conn)
    assert problems(conn) == []
    assert readable(conn) == blocks(conn) - 1
    refresh(conn)
    assert problems(conn) == []
    assert readable(conn) == blocks(conn)


# where a session stops that puts rows into the first block, which has room for short rows only
WAITING = (
    "CREATE OR REPLACE FUNCTION waits(id int, place text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
    " PERFORM pg_advisory_lock(0, hashtext(place)), pg_advisory_unlock(0, hashtext(place)); RETURN id; END $$",
    "DROP TABLE IF EXISTS t CASCADE",
    "CREATE TABLE t (id int, pad text)",
    "ALTER TABLE t ALTER pad SET STORAGE plain",
    "CREATE INDEX ON t (waits(id, 'added ' || id))",
    "CREATE UNIQUE INDEX ON t (id)",
    "INSERT INTO t VALUES (0, repeat('x', 6000))",
    "VACUUM t",
    "CREATE INDEX t_columns ON t USING columns (id) WITH (segment_blocks = 32, refresh_share = 1)",
)


@pytest.mark.parametrize("killed", [True, False])
def test_rows_of_one_statement_while_their_block_is_encoded(connect: Connect, killed: bool) -> None:
    """A block is marked once, as long as a row of the statement keeps it from being encoded. Killed ones do not."""
    conn, writer, holder = connect(), connect(), connect()
    for statement in WAITING:
        conn.execute(statement)
    insert = "INSERT INTO t SELECT waits(i, 'before ' || i), '' FROM (VALUES (1), (2), (3)) v (i)"
    insert += " ON CONFLICT DO NOTHING" if killed else ""
    with ExitStack() as places:
        places.enter_context(paused(holder, "before 3"))
        with ExitStack() as added:
            for number in (1, 2):
                added.enter_context(paused(holder, f"added {number}"))
            inserting = Running(lambda: writer.execute(insert.encode()))
            for number in (1, 2):
                until_paused(conn, f"added {number}")
                if killed:
                    # by now the statement believes that there is no such row
                    holder.execute("INSERT INTO t VALUES (%s, repeat('x', 6000))", [number])
                holder.execute("SELECT pg_advisory_unlock(0, hashtext(%s))", [f"added {number}"])
            until_paused(conn, "before 3")
            # nothing is left to unlock
            added.pop_all()
        vacuum(conn)
        refresh(conn)
        assert one(conn, "SELECT readable_blocks > 0 FROM pgbillion_rows.columns_status('t_columns')") == killed
    inserting.result()
    assert int(one(conn, "SELECT (ctid::text::point)[0] FROM t WHERE id = 3")) == 0
    for _ in range(2):
        assert problems(conn) == []
        vacuum(conn)
    refresh(conn)
    assert problems(conn) == []
    assert readable(conn) == blocks(conn)


@pytest.mark.parametrize("place", ["begun", "gathered", "between data pages", "before publishing", "published"])
def test_an_encoder_is_killed(conn: Connection, connect: Connect, place: str) -> None:
    conn.execute("DELETE FROM t WHERE id % 1000 = 3")
    vacuum(conn)
    encoder, holder = connect(), connect()
    with paused(holder, place):
        encoding = Running(lambda: refresh(encoder))
        until_paused(conn, place)
        conn.execute("INSERT INTO t VALUES (-1, 1, 'new')")
        conn.execute("SELECT pg_terminate_backend(%s)", [encoder.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            encoding.result()
    assert problems(conn) == []
    vacuum(conn)
    assert problems(conn) == []
    refresh(conn)
    assert problems(conn) == []
    assert readable(conn) == blocks(conn)


def replace_pages(conn: Connection, *changed: int) -> None:
    """Encode the segments of some blocks anew, one after the other, each into the pages that are free by then.

    What makes blocks stale are versions of rows that never were: no snapshot keeps them from being removed.
    """
    for block in changed:
        with conn.transaction(force_rollback=True):
            conn.execute(f"UPDATE t SET id = -id WHERE ctid = '({block},1)'")
        vacuum(conn)
        refresh(conn)


def test_pages_are_replaced_under_a_reader(conn: Connection, connect: Connect) -> None:
    reader, holder = connect(), connect()
    with paused(holder, "directory read"):
        reading = Running(lambda: problems(reader))
        until_paused(conn, "directory read")
        replace_pages(conn, 0, 32)
    assert reading.result() == []
    assert problems(conn) == []


def test_pages_are_replaced_by_the_same_segment(conn: Connection, connect: Connect) -> None:
    """What is written there last has more blocks, so that rows of others lie elsewhere."""
    conn.execute("DROP INDEX t_columns")
    with conn.transaction(force_rollback=True):
        conn.execute("UPDATE t SET id = -id WHERE ctid = '(3,1)'")
    # of one column, so that both take as many pages
    conn.execute("CREATE INDEX t_columns ON t USING columns (id) WITH (segment_blocks = 32)")
    assert readable(conn) == blocks(conn) - 1
    reader, holder = connect(), connect()
    with paused(holder, "head read"):
        reading = Running(lambda: problems(reader))
        until_paused(conn, "head read")
        vacuum(conn)
        refresh(conn)
        replace_pages(conn, 0)
    assert reading.result() == []
    assert readable(conn) == blocks(conn)
    assert problems(conn) == []


def check_replaced(conn: Connection, reader: Connection, holder: Connection, monitor: Connection, place: str) -> None:
    """Have pages replaced under queries of a reader, here or on a standby, where holder and monitor are, too.

    A query goes on in the table, and counts no row twice: the batch that it could not load is the first to come again.
    """
    conn.execute("UPDATE t SET grp = 9 WHERE id % 7000 = 3")
    if monitor is not conn:
        standby.replayed(conn, monitor)
    reader.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_aggregate = force")
    reader.execute("SET max_parallel_workers_per_gather = 0")

    def meanwhile(work: Callable[[], T]) -> T:
        with paused(holder, place):
            running = Running(work)
            until_paused(monitor, place)
            # the first segment's pages are written again by the second one, and then by itself
            replace_pages(conn, 0, 32, 0, 32)
            if monitor is not conn:
                standby.replayed(conn, monitor)
        return running.result()

    for question in ("SELECT count(*), sum(id), min(word) FROM t", "SELECT grp, count(*), sum(id) FROM t GROUP BY 1"):
        ask = partial(reader.execute, question.encode())
        reader.execute("SET pgbillion_rows.columns = off")
        expected = sorted(ask().fetchall())
        reader.execute("SET pgbillion_rows.columns = force")
        assert sorted(meanwhile(ask).fetchall()) == expected
        plan = meanwhile(partial(plans.explain, reader, question, run=True))
        replaced = sum(node.get("Heap Blocks Replaced", 0) for node in plans.nodes(plan))
        # before the head is read, the entry can be looked at once more
        assert (replaced > 0) is (place == "head read")


@pytest.mark.parametrize("place", ["directory read", "head read"])
def test_pages_are_replaced_under_a_query(conn: Connection, connect: Connect, place: str) -> None:
    check_replaced(conn, connect(), connect(), conn, place)


def test_pages_are_replaced_under_a_query_on_a_standby(conn: Connection, primary: Cluster) -> None:
    with standby.standby(primary) as there, ExitStack() as stack:
        reader, holder, monitor = (stack.enter_context(there.connect(DATABASE)) for _ in range(3))
        for place in ("directory read", "head read"):
            check_replaced(conn, reader, holder, monitor, place)


def test_pages_are_replaced_before_a_value_is_looked_up(conn: Connection, connect: Connect) -> None:
    """Nothing is known of where it is then: the segment's blocks are read from the table."""
    conn.execute("DROP TABLE t")
    conn.execute("CREATE TABLE t (id int, grp int, word text)")
    conn.execute(f"INSERT INTO t SELECT i, i % 7, md5(i::text) FROM generate_series(1, {ROWS}) i")
    conn.execute("VACUUM t")
    conn.execute("CREATE INDEX t_columns ON t USING columns (id, word) WITH (segment_blocks = 32, refresh_share = 1)")
    conn.execute("UPDATE t SET grp = 9 WHERE id % 7000 = 3")
    reader, holder = connect(), connect()
    reader.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.vector_scan = force; SET pgbillion_rows.columns = force")
    query = "SELECT id FROM t WHERE word = md5('5')"
    (scan,) = (node for node in plans.nodes(plans.explain(reader, query, run=True)) if "Columns" in node)
    assert scan["Column Blocks Read"] < scan["Column Blocks Skipped"] / 20
    for _ in range(2):
        with paused(holder, "head read"):
            running = Running(lambda: plans.explain(reader, f"CREATE TABLE found AS {query}", run=True))
            until_paused(conn, "head read")
            replace_pages(conn, 0, 32, 0, 32)
        (scan,) = (node for node in plans.nodes(running.result()) if "Columns" in node)
        assert scan["Heap Blocks Replaced"] > 0
        assert one(conn, "SELECT id FROM found") == 5
        conn.execute("DROP TABLE found")


FETCHED = "SELECT ctid, xmin, * FROM u WHERE grp = 3 ORDER BY id"


def rows_table(conn: Connection) -> None:
    """Make a table of HOT chains and free line pointers, all-visible, of which an index has two columns."""
    conn.execute("DROP TABLE IF EXISTS u")
    conn.execute("CREATE TABLE u (id int PRIMARY KEY, grp int, n int) WITH (fillfactor = 60)")
    conn.execute("INSERT INTO u SELECT i, i % 7, 0 FROM generate_series(1, 4000) i")
    all_visible(conn)
    conn.execute("UPDATE u SET n = 1 WHERE id % 5 = 0; DELETE FROM u WHERE id % 11 = 0 AND id < 2000")
    all_visible(conn)
    conn.execute("CREATE INDEX u_columns ON u USING columns (id, grp) WITH (segment_blocks = 32, refresh_share = 1)")
    conn.execute("UPDATE u SET n = 2 WHERE id % 3 = 0")
    all_visible(conn)
    assert one(conn, "SELECT readable_blocks = table_blocks FROM pgbillion_rows.columns_status('u_columns')")
    conn.execute("CHECKPOINT")


def all_visible(conn: Connection) -> None:
    """VACUUM the table until it is: what a standby says that its sessions need comes a little late."""

    def done() -> bool:
        conn.execute("VACUUM (INDEX_CLEANUP ON) u")
        return bool(one(conn, "SELECT relallvisible = relpages FROM pg_class WHERE relname = 'u'"))

    servers.until(done, "the table is all-visible")


def fetch(reader: Connection, vectors: str) -> list[Any]:
    """The rows of the reader's snapshot, by a scan of the index or by PostgreSQL's."""
    reader.execute(f"SET pgbillion_rows.vector_scan = {vectors}; SET pgbillion_rows.columns = {vectors}")
    if vectors == "force":
        (scan,) = (node for node in plans.nodes(plans.explain(reader, FETCHED)) if "Columns" in node)
        assert scan["Custom Plan Provider"] == "VectorScan"
    return reader.execute(FETCHED).fetchall()


CHANGED = (
    "INSERT INTO u SELECT -i, 3, 5 FROM generate_series(1, 3000) i",
    "UPDATE u SET n = 3 WHERE id > 0 AND id % 2 = 0; UPDATE u SET n = 4 WHERE id > 0 AND id % 4 = 0",
    "DELETE FROM u WHERE id BETWEEN 300 AND 1000",
    "UPDATE u SET grp = 3 WHERE id % 13 = 0",
    "UPDATE u SET id = id + 10000 WHERE id BETWEEN 2000 AND 3000",
)


def check_fetched(conn: Connection, reader: Connection, holder: Connection, monitor: Connection, change: int) -> None:
    """Have rows that are about to be fetched changed in every way, and their pages pruned."""
    rows_table(conn)
    if monitor is not conn:
        standby.replayed(conn, monitor)
    reader.execute(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off"
    )
    before = fetch(reader, "off")
    if monitor is not conn:
        oldest = one(reader, "SELECT txid_snapshot_xmin(txid_current_snapshot())")
        known = "SELECT coalesce(max(backend_xmin::text::bigint), 0) BETWEEN 1 AND %s FROM pg_stat_replication"
        servers.until(lambda: one(conn, known, oldest), "the primary keeps what the standby's reader sees")
    # who changes rows does not come to the place
    conn.execute("LOAD 'pgbillion_rows'; SET pgbillion_rows.columns = off")
    with paused(holder, "line pointers read"):
        fetching = Running(lambda: fetch(reader, "force"))
        until_paused(monitor, "line pointers read")
        for text in CHANGED[change:] + CHANGED[:change]:
            conn.execute(text)
            conn.execute("VACUUM (INDEX_CLEANUP ON) u")
        conn.execute("SELECT count(*) FROM u")
        if monitor is not conn:
            standby.replayed(conn, monitor)
    assert fetching.result() == before
    assert len(before) > 500
    reader.execute("COMMIT")
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check('u')").fetchall() == []


@pytest.mark.parametrize("change", range(len(CHANGED)))
def test_rows_are_changed_before_they_are_fetched(conn: Connection, connect: Connect, change: int) -> None:
    reader = connect()
    reader.execute("LOAD 'pgbillion_rows'")
    check_fetched(conn, reader, connect(), conn, change)


def test_rows_are_changed_before_they_are_fetched_on_a_standby(conn: Connection, primary: Cluster) -> None:
    with standby.standby(primary) as there, ExitStack() as stack:
        reader, holder, monitor = (stack.enter_context(there.connect(DATABASE)) for _ in range(3))
        reader.execute("LOAD 'pgbillion_rows'")
        monitor.execute("ALTER SYSTEM SET hot_standby_feedback = on")
        monitor.execute("ALTER SYSTEM SET wal_receiver_status_interval = '1s'")
        monitor.execute("SELECT pg_reload_conf()")
        for change in range(2):
            check_fetched(conn, reader, holder, monitor, change)


@pytest.mark.parametrize("place", ["marked", "begun", "gathered", "between data pages", "before publishing"])
def test_a_vacuum_is_canceled(conn: Connection, connect: Connect, place: str) -> None:
    """Before it takes rows away, which it has told the index of, and while it encodes."""
    conn.execute("ALTER INDEX t_columns SET (refresh_share = 0)")
    conn.execute("DELETE FROM t WHERE id % 1000 = 3")
    vacuuming, holder = connect(), connect()
    with paused(holder, place):
        running = Running(lambda: vacuum(vacuuming))
        until_paused(conn, place)
        assert problems(conn) == [] or place != "marked"
        conn.execute("INSERT INTO t VALUES (-1, 1, 'new')")
        conn.execute("SELECT pg_cancel_backend(%s)", [vacuuming.info.backend_pid])
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result()
    assert problems(conn) == []
    vacuum(conn)
    assert problems(conn) == []
    refresh(conn)
    assert readable(conn) == blocks(conn)
    assert problems(conn) == []


def test_a_page_s_own_flag_does_not_count_on_a_standby(conn: Connection, primary: Cluster) -> None:
    """Only the visibility map does: it is what conflicts with old snapshots are resolved for."""
    if not one(conn, "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_visibility'"):
        pytest.skip("this installation is without pg_visibility")
    conn.execute("CREATE EXTENSION IF NOT EXISTS pg_visibility")
    conn.execute("CREATE EXTENSION IF NOT EXISTS pageinspect")
    with standby.standby(primary) as there, there.connect(DATABASE) as reader:
        standby.replayed(conn, reader)
        assert readable(reader) == blocks(reader)
        conn.execute("SELECT pg_truncate_visibility_map('t')")
        standby.replayed(conn, reader)
        assert one(reader, "SELECT flags & 4 FROM page_header(get_raw_page('t', 0))") == 4
        assert readable(reader) == readable(conn) == 0
        assert problems(reader) == []
        conn.execute("DELETE FROM t WHERE id % 500 = 3")
        for _ in range(2):
            vacuum(conn)
            standby.replayed(conn, reader)
            assert problems(reader) == problems(conn) == []
            assert readable(reader) == readable(conn) > 0
            refresh(conn)
        standby.replayed(conn, reader)
        assert readable(reader) == blocks(reader)
        assert problems(reader) == []


def test_pages_are_replaced_under_a_reader_on_a_standby(conn: Connection, primary: Cluster) -> None:
    with standby.standby(primary) as there, ExitStack() as stack:
        reader, holder, monitor = (stack.enter_context(there.connect(DATABASE)) for _ in range(3))
        assert readable(reader) == blocks(reader)
        with paused(holder, "directory read"):
            reading = Running(lambda: problems(reader))
            until_paused(monitor, "directory read")
            replace_pages(conn, 0, 32)
            standby.replayed(conn, monitor)
        assert reading.result() == []
        # a deletion, VACUUM and an encoding between the looks; nothing that the reader's snapshot sees goes
        conn.execute("DELETE FROM t WHERE id = 500")
        standby.replayed(conn, monitor)
        for place in ("visibility map read", "directory read"):
            with paused(holder, place):
                reading = Running(lambda: problems(reader))
                until_paused(monitor, place)
                vacuum(conn)
                standby.replayed(conn, monitor)
                refresh(conn)
                standby.replayed(conn, monitor)
            assert reading.result() == []
        assert readable(monitor) == blocks(monitor)
        assert problems(monitor) == []
        # promoted in the middle of an encoding
        conn.execute("DELETE FROM t WHERE id % 1000 = 7")
        vacuum(conn)
        encoder = stack.enter_context(primary.connect(DATABASE))
        with paused(conn, "between data pages"):
            encoding = Running(lambda: refresh(encoder))
            until_paused(conn, "between data pages")
            standby.replayed(conn, monitor)
            monitor.execute("SELECT pg_promote()")
        encoding.result()
        assert problems(monitor) == []
        vacuum(monitor)
        refresh(monitor)
        assert readable(monitor) == blocks(monitor)
        assert problems(monitor) == []


def test_crashes(conn: Connection, primary: Cluster) -> None:
    conn.execute("DROP TABLE IF EXISTS u")
    conn.execute("CREATE UNLOGGED TABLE u AS SELECT * FROM t")
    conn.execute("VACUUM u")
    conn.execute("CREATE INDEX ON u USING columns (id, word)")
    for number, place in enumerate(["begun", "gathered", "between data pages", "before publishing", "published"]):
        with ExitStack() as stack:
            session, encoder, holder = (stack.enter_context(primary.connect(DATABASE)) for _ in range(3))
            session.execute(f"DELETE FROM t WHERE id % 1000 = {number}")
            vacuum(session)
            holder.execute("SELECT pg_advisory_lock(0, hashtext(%s))", [place])
            encoding = Running(lambda encoder=encoder: refresh(encoder))  # type: ignore[misc]
            until_paused(session, place)
            session.execute("CHECKPOINT")
            session.execute(f"UPDATE t SET grp = -{number} WHERE id % 5000 = 77")
            primary.kill()
            with pytest.raises(psycopg.OperationalError):
                encoding.result()
        primary.start()
        with primary.connect(DATABASE) as session:
            assert problems(session) == []
            if number == 0:
                assert one(session, "SELECT count(*) FROM u") == 0
                session.execute("INSERT INTO u SELECT * FROM t")
                session.execute("VACUUM u")
            for _ in range(2):
                vacuum(session)
                refresh(session)
                assert problems(session) == []
            assert readable(session) == blocks(session)
            assert session.execute("SELECT * FROM pgbillion_rows.columns_check('u')").fetchall() == []
