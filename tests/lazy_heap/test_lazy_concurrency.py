"""First rows beside other sessions: who waits, what readers see, what a crash leaves; DROP EXTENSION; to_heap."""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors

from harness import lazy, servers
from harness.lazy import run, until_settled
from harness.servers import one, until
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

LAZY_TABLES = "FROM pg_class WHERE relfilenode = 1 AND relkind <> 't'"
Connect = Callable[[], Connection]
_numbers = itertools.count(1)

PARALLEL = (
    "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
    " SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2"
)
INDEX = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off"
INDEX_ONLY = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_indexscan = off"
BITMAP = "SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off"


@pytest.fixture(scope="module")
def server(installation: Installation) -> Iterator[Cluster]:
    settings = {**lazy.LAZY, "deadlock_timeout": "50ms", "autovacuum_naptime": "1"}
    with servers.new_cluster(installation, settings) as cluster:
        yield cluster


@pytest.fixture
def database(server: Cluster) -> Iterator[str]:
    """What a test leaves is sound: indexes agree with heaps, no file is missing or too many."""
    with servers.new_database(server, f"concurrency{next(_numbers)}") as name:
        yield name
        with server.connect(name) as conn:
            conn.execute("CHECKPOINT")
            assert lazy.unsound(conn) == []
            assert lazy.lost(server, conn) == set()


@pytest.fixture
def connect(server: Cluster, database: str) -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(server.connect(database))


@pytest.fixture
def conn(connect: Connect) -> Connection:
    conn = connect()
    conn.execute("CREATE TABLE t (i int PRIMARY KEY, b text)")
    return conn


def _rows(conn: Connection, table: str = "t") -> list[int]:
    return [i for (i,) in conn.execute(f"SELECT i FROM {table} ORDER BY i")]


# ---- writers


@pytest.mark.parametrize("second", ["(1, 'same')", "(2, 'other')"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_second_first_writer(conn: Connection, connect: Connect, end: str, second: str) -> None:
    first, other = connect(), connect()
    run(first, "BEGIN; INSERT INTO t VALUES (1, repeat('x', 100000))")
    waiting = Running(lambda: other.execute(f"INSERT INTO t VALUES {second}"))
    until_settled(conn, other, waiting)
    first.execute(end)
    if end == "COMMIT" and "same" in second:
        with pytest.raises(errors.UniqueViolation):
            waiting.result()
        assert _rows(conn) == [1]
    else:
        waiting.result()
        assert _rows(conn) == ([1] if "same" in second else [1, 2][end == "ROLLBACK" :])


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_on_conflict_of_two_first_writers(conn: Connection, connect: Connect, end: str) -> None:
    first, other = connect(), connect()
    run(first, "BEGIN; INSERT INTO t VALUES (1, 'first') ON CONFLICT DO NOTHING")
    upsert = "INSERT INTO t VALUES (1, 'second') ON CONFLICT (i) DO UPDATE SET b = t.b || excluded.b"
    waiting = Running(lambda: other.execute(upsert))
    until_settled(conn, other, waiting)
    first.execute(end)
    waiting.result()
    assert one(conn, "SELECT b FROM t") == ("firstsecond" if end == "COMMIT" else "second")


def test_many_first_writers_at_once(conn: Connection, connect: Connect) -> None:
    sessions = [connect() for _ in range(6)]
    barrier = threading.Barrier(6)

    def insert(number: int) -> None:
        barrier.wait()
        sessions[number].execute("INSERT INTO t VALUES (%s, repeat('x', 10000))", [number])

    for running in [Running(functools.partial(insert, number)) for number in range(6)]:
        running.result()
    assert _rows(conn) == list(range(6))
    assert lazy.state(conn, "t") == "heap"


def test_savepoint_rolled_back_lets_the_second_writer_in(conn: Connection, connect: Connect) -> None:
    first, other = connect(), connect()
    run(first, "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (1)")
    waiting = Running(lambda: other.execute("INSERT INTO t VALUES (2)"))
    until_settled(conn, other, waiting)
    first.execute("ROLLBACK TO s")
    waiting.result()
    # the first now writes to the file that the second has made and committed
    run(first, "INSERT INTO t VALUES (1); COMMIT")
    assert _rows(conn) == [1, 2]


def test_deadlock_is_detected(conn: Connection, connect: Connect) -> None:
    conn.execute("CREATE TABLE u (i int)")
    first, other = connect(), connect()
    run(first, "BEGIN; INSERT INTO t VALUES (1)")
    run(other, "BEGIN; INSERT INTO u VALUES (2)")
    waiting = Running(lambda: first.execute("INSERT INTO u VALUES (1)"))
    until_settled(conn, first, waiting)
    closing = Running(lambda: other.execute("INSERT INTO t VALUES (2)"))
    committed = []
    # in whichever order they can end
    until(lambda: waiting.done or closing.done, "one of two statements that wait for each other to fail")
    for running, session, number in sorted(
        ((waiting, first, 1), (closing, other, 2)), key=lambda each: not each[0].done
    ):
        try:
            running.result()
            session.execute("COMMIT")
            committed.append(number)
        except errors.DeadlockDetected:
            session.execute("ROLLBACK")
    assert committed
    assert _rows(conn) == _rows(conn, "u") == sorted(committed)


def test_write_skew_is_a_serialization_failure(conn: Connection, connect: Connect) -> None:
    """Reading an empty lazy table takes the predicate lock that a heap's would."""
    conn.execute("CREATE TABLE u (i int)")
    first, other = connect(), connect()
    for session in (first, other):
        run(session, "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t; SELECT count(*) FROM u")
    first.execute("INSERT INTO t VALUES (1)")
    other.execute("INSERT INTO u VALUES (1)")
    first.execute("COMMIT")
    with pytest.raises(errors.SerializationFailure):
        other.execute("COMMIT")
    assert _rows(conn) + _rows(conn, "u") == [1]


def test_first_writers_in_repeatable_read(conn: Connection, connect: Connect) -> None:
    """The second's snapshot is older than the table's becoming heap, which must not matter."""
    first, other = connect(), connect()
    run(other, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t")
    first.execute("INSERT INTO t VALUES (1)")
    other.execute("INSERT INTO t VALUES (2)")
    assert _rows(other) == [2]
    other.execute("COMMIT")
    assert _rows(conn) == [1, 2]


# ---- readers

READERS = {
    "seq": ("", "SELECT i FROM t"),
    "index": (INDEX, "SELECT i FROM t WHERE i = 1 AND b IS NOT NULL"),
    "index_only": (INDEX_ONLY, "SELECT i FROM t WHERE i > 0"),
    "bitmap": (BITMAP, "SELECT i FROM t WHERE i = 1 OR i = 9"),
    "tid": ("", "SELECT i FROM t WHERE ctid = '(0,1)'"),
    "tid_range": ("", "SELECT i FROM t WHERE ctid < '(5,1)'"),
    "parallel": (PARALLEL, "SELECT max(i) FROM t WHERE b <> '' HAVING count(*) > 0"),
    "parallel_index": (f"{PARALLEL}; {INDEX}", "SELECT max(i) FROM t WHERE i > 0 AND b <> '' HAVING count(*) > 0"),
    "sample": ("", "SELECT i FROM t TABLESAMPLE SYSTEM (100)"),
    "join": (INDEX, "SELECT t.i FROM generate_series(1, 3) g JOIN t ON t.i = g"),
    "anti": ("", "SELECT 1 FROM (VALUES (1)) v (i) WHERE EXISTS (SELECT FROM t WHERE t.i = v.i)"),
    "prepared": ("SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT i FROM t", "EXECUTE p"),
    "prepared_index": (
        f"{INDEX}; SET plan_cache_mode = force_generic_plan; PREPARE p (int) AS SELECT i FROM t WHERE i = $1",
        "EXECUTE p (1)",
    ),
    "prepared_parallel": (
        f"{PARALLEL}; SET plan_cache_mode = force_generic_plan;"
        " PREPARE p AS SELECT max(i) FROM t WHERE b <> '' HAVING count(*) > 0",
        "EXECUTE p",
    ),
    "function": (
        "CREATE FUNCTION f() RETURNS SETOF int LANGUAGE plpgsql AS 'BEGIN RETURN QUERY SELECT i FROM t;END'",
        "SELECT * FROM f()",
    ),
    "locking": ("", "SELECT i FROM t FOR UPDATE"),
    "update": ("", "UPDATE t SET b = b RETURNING i"),
    "delete": (INDEX, "DELETE FROM t WHERE i = 1 RETURNING i"),
    "view": ("CREATE VIEW v AS SELECT i FROM t", "SELECT i FROM v"),
    "fetch": ("", "FETCH"),
}


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("reader", READERS)
def test_reader_that_has_locked_the_table_before(
    conn: Connection, connect: Connect, reader: str, isolation: str
) -> None:
    """A lock held from before the first row keeps the session from hearing of it; it must see the row all the same."""
    settings, query = READERS[reader]
    session = connect()
    run(session, settings)

    def read() -> list[tuple[Any, ...]]:
        if query == "FETCH":
            with session.cursor(f"c{random.random()}".replace(".", "")) as cursor:
                cursor.execute("SELECT i FROM t ORDER BY i")
                return cursor.fetchall()
        return session.execute(query).fetchall()

    session.execute(f"BEGIN ISOLATION LEVEL {isolation}")
    session.execute("LOCK TABLE t IN ROW SHARE MODE")
    assert read() == []
    with conn.transaction():
        conn.execute("INSERT INTO t VALUES (1, repeat('x', 100000))")
        assert read() == []
    assert read() == ([(1,)] if isolation == "READ COMMITTED" else [])
    run(session, "COMMIT; BEGIN")
    assert read() == ([(1,)] if reader != "delete" or isolation != "READ COMMITTED" else [])


# plans that go on with a scan that was begun, or a cache entry that was built, before the first row
OPEN_SCANS = {
    "nested_loop": (INDEX, "SELECT g, t.i FROM generate_series(1, 4) g LEFT JOIN t ON t.i = g AND t.b <> ''"),
    "nested_loop_index_only": (INDEX_ONLY, "SELECT g, t.i FROM generate_series(1, 4) g LEFT JOIN t ON t.i = g"),
    "nested_loop_bitmap": (BITMAP, "SELECT g, t.i FROM generate_series(1, 4) g LEFT JOIN t ON t.i IN (g, g + 90)"),
    "nested_loop_seq": (
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off",
        "SELECT g, t.i FROM generate_series(1, 4) g LEFT JOIN LATERAL (SELECT i FROM t WHERE i = g OFFSET 0) t ON true",
    ),
    "tid": (
        "",
        "SELECT g, t.i FROM generate_series(1, 4) g"
        " LEFT JOIN LATERAL (SELECT i FROM t WHERE ctid = ('(0,' || g || ')')::tid) t ON true",
    ),
    "sub_query": (INDEX, "SELECT g, (SELECT i FROM t WHERE t.i = g AND b <> '') FROM generate_series(1, 4) g"),
}


@pytest.mark.parametrize("plan", OPEN_SCANS)
def test_scan_begun_before_the_first_row_goes_on(conn: Connection, connect: Connect, plan: str) -> None:
    """Its snapshot does not show the rows, but its index does: there is no error, and no row."""
    settings, query = OPEN_SCANS[plan]
    session = connect()
    run(session, settings)
    with session.transaction(), session.cursor("c") as cursor:
        cursor.execute(query)
        assert cursor.fetchone() == (1, None)
        conn.execute("INSERT INTO t SELECT g, 'x' FROM generate_series(1, 10) g")
        assert cursor.fetchall() == [(2, None), (3, None), (4, None)]
        run(session, "ANALYZE t") if plan == "tid" else None
    assert len(_rows(session)) == 10


def test_cursors_from_before_the_first_row(conn: Connection, connect: Connect) -> None:
    session = connect()
    with session.transaction():
        run(session, "DECLARE a CURSOR FOR SELECT i FROM t; DECLARE s SCROLL CURSOR FOR SELECT i FROM t")
        run(session, "DECLARE h CURSOR WITH HOLD FOR SELECT i FROM t; FETCH a; FETCH s")
        conn.execute("INSERT INTO t VALUES (1, 'x')")
        assert session.execute("FETCH ALL FROM a").fetchall() == []
        assert session.execute("FETCH BACKWARD ALL FROM s").fetchall() == []
        assert session.execute("FETCH FIRST FROM s").fetchall() == []
        assert _rows(session) == [1]
    assert session.execute("FETCH ALL FROM h").fetchall() == []


def test_readers_never_wait(conn: Connection, connect: Connect) -> None:
    first, reader = connect(), connect()
    run(first, "BEGIN; INSERT INTO t VALUES (1, 'x')")
    reader.execute("SET lock_timeout = '1ms'")
    for settings, query in READERS.values():
        if query.startswith("SELECT") and "f()" not in query and " v" not in query:
            reader.execute("BEGIN")
            run(reader, settings.replace("SET ", "SET LOCAL "))
            assert reader.execute(query).fetchall() == []
            reader.execute("ROLLBACK")
    reader.execute("EXPLAIN ANALYZE SELECT * FROM t")
    first.execute("COMMIT")


# ---- other commands at the same time


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize(
    "statement",
    [
        "GRANT SELECT ON t TO PUBLIC",
        "ALTER TABLE t SET (autovacuum_enabled = off)",
        "ALTER TABLE t ALTER b SET STATISTICS 10",
        "ALTER TABLE t VALIDATE CONSTRAINT c",
        "COMMENT ON TABLE t IS 'x'",
        "ANALYZE t",
        "SELECT FROM t FOR UPDATE",
        "CREATE VIEW v AS SELECT * FROM t",
        "ALTER TABLE t CLUSTER ON t_pkey",
    ],
)
def test_first_row_beside_a_command_that_does_not_block_inserts(
    conn: Connection, connect: Connect, statement: str, end: str
) -> None:
    """The first row never fails; a wait is allowed, because the table's row in pg_class is one."""
    conn.execute("ALTER TABLE t ADD CONSTRAINT c CHECK (i > 0) NOT VALID")
    writer, other = connect(), connect()
    run(other, f"BEGIN; {statement}")
    running = Running(lambda: writer.execute("INSERT INTO t VALUES (1)"))
    until_settled(conn, writer, running)
    other.execute(end)
    running.result()
    assert _rows(conn) == [1]
    if end == "COMMIT" and statement.startswith("GRANT"):
        assert one(conn, "SELECT relacl IS NOT NULL FROM pg_class WHERE relname = 't'")
    # and the other way round
    conn.execute("CREATE TABLE u (LIKE t INCLUDING ALL)")
    conn.execute("ALTER TABLE u ADD CONSTRAINT c2 CHECK (i > 0) NOT VALID")
    statement = statement.replace(" t ", " u ").replace("TABLE t", "TABLE u").replace("CONSTRAINT c", "CONSTRAINT c2")
    statement = statement.replace("VIEW v", "VIEW w").replace("FROM t", "FROM u").replace("t_pkey", "u_pkey")
    run(writer, "BEGIN; INSERT INTO u VALUES (1)")
    running = Running(lambda: other.execute(statement.replace("ANALYZE t", "ANALYZE u")))
    until_settled(conn, other, running)
    writer.execute(end)
    # as with two of them at once, where they update the table's row in pg_class
    updates = statement.startswith(("GRANT", "ALTER TABLE u SET ("))
    with (
        pytest.raises(errors.InternalError_, match="tuple concurrently updated")
        if updates and end == "COMMIT"
        else (contextlib.nullcontext())
    ):
        running.result()
    assert _rows(conn, "u") == ([1] if end == "COMMIT" else [])


def test_vacuum_and_analyze_beside_first_rows(conn: Connection, connect: Connect) -> None:
    for number in range(30):
        conn.execute(f"CREATE TABLE v{number} (i int PRIMARY KEY, b text)")
    vacuumer, writer = connect(), connect()
    stop = threading.Event()

    def vacuum() -> int:
        rounds = 0
        while not stop.is_set():
            run(vacuumer, "VACUUM; ANALYZE; VACUUM (FREEZE) t")
            rounds += 1
        return rounds

    running = Running(vacuum)
    for number in range(30):
        if number % 3 == 0:
            run(writer, f"BEGIN; INSERT INTO v{number} VALUES (7); ROLLBACK")
        writer.execute(f"INSERT INTO v{number} SELECT g, repeat('x', 3000) FROM generate_series(1, 20) g")
    stop.set()
    assert running.result() > 0
    assert all(one(conn, f"SELECT count(*) FROM v{number}") == 20 for number in range(30))


@pytest.mark.parametrize("rows", [1, 5000])
def test_create_index_concurrently_with_a_first_row_between_its_phases(
    conn: Connection, connect: Connect, rows: int
) -> None:
    """The index is built on a lazy table, then validated on a heap table that has rows the build did not see."""
    blocker, builder, writer = connect(), connect(), connect()
    run(blocker, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t; LOCK TABLE t IN ROW EXCLUSIVE MODE")
    building = Running(lambda: builder.execute("CREATE INDEX CONCURRENTLY x ON t (b)"))
    until_blocked(conn, builder, building)
    writer.execute("BEGIN")
    writer.execute(f"INSERT INTO t SELECT g, 'b' || g FROM generate_series(1, {rows}) g")
    blocker.execute("COMMIT")
    until_settled(conn, builder, building)
    writer.execute("COMMIT")
    building.result()
    assert one(conn, "SELECT indisvalid AND indisready FROM pg_index WHERE indexrelid = 'x'::regclass")
    run(conn, INDEX)
    assert one(conn, "SELECT count(*) FROM t WHERE b > ''") == rows


def test_drop_and_truncate_beside_a_first_row(conn: Connection, connect: Connect) -> None:
    writer, other = connect(), connect()
    run(writer, "BEGIN; INSERT INTO t VALUES (1)")
    truncating = Running(lambda: other.execute("TRUNCATE t"))
    until_blocked(conn, other, truncating)
    writer.execute("COMMIT")
    truncating.result()
    assert _rows(conn) == []
    conn.execute("CREATE TABLE u (i int)")
    run(writer, "BEGIN; INSERT INTO u VALUES (1)")
    dropping = Running(lambda: other.execute("DROP TABLE u"))
    until_blocked(conn, other, dropping)
    writer.execute("ROLLBACK")
    dropping.result()
    conn.execute("CREATE TABLE w (i int)")
    run(other, "BEGIN; DROP TABLE w")
    inserting = Running(lambda: writer.execute("INSERT INTO w VALUES (1)"))
    until_blocked(conn, writer, inserting)
    other.execute("ROLLBACK")
    inserting.result()
    assert _rows(conn, "w") == [1]


# ---- DROP EXTENSION


def test_drop_extension_is_refused_while_there_are_lazy_tables(conn: Connection) -> None:
    with pytest.raises(errors.DependentObjectsStillExist, match="table t depends on access method lazy_heap"):
        conn.execute("DROP EXTENSION pgbillion_tables")
    conn.execute("INSERT INTO t VALUES (1)")
    run(conn, "SET default_table_access_method = heap; DROP EXTENSION pgbillion_tables")
    assert _rows(conn) == [1]


@pytest.mark.parametrize(
    "command",
    [
        "DROP EXTENSION plpgsql, pgbillion_tables CASCADE",
        "DROP OWNED BY CURRENT_USER CASCADE",
        "DROP OWNED BY installer, nobody_here CASCADE",
        "DO $$ BEGIN DROP EXTENSION pgbillion_tables CASCADE; END $$",
        "SET session_replication_role = replica; DROP EXTENSION pgbillion_tables CASCADE",
    ],
)
def test_cascade_to_the_extension_is_refused_while_there_are_lazy_tables(
    conn: Connection, connect: Connect, command: str
) -> None:
    """Also in a session that never used the extension; what inherits from a lazy table would go with its rows."""
    run(conn, "CREATE ROLE installer SUPERUSER; CREATE ROLE nobody_here")
    try:
        if "installer" in command:
            run(
                conn,
                "DROP TABLE t; DROP EXTENSION pgbillion_tables; SET ROLE installer; CREATE EXTENSION pgbillion_tables",
            )
            run(conn, "RESET ROLE; CREATE TABLE t (i int)")
        run(conn, "CREATE TABLE child () INHERITS (t) USING heap; INSERT INTO child VALUES (1)")
        with pytest.raises(errors.DependentObjectsStillExist) as refused:
            connect().execute(command.encode())
        assert (
            refused.value.diag.message_primary == "cannot drop extension pgbillion_tables while there are lazy tables"
        )
        assert _rows(conn, "child") == [1]
        run(conn, "CREATE SCHEMA other; DROP SCHEMA other CASCADE; DROP OWNED BY nobody_here CASCADE")
        assert _to_heap(conn, "t") == 1
        run(conn, "SET client_min_messages = error; SET default_table_access_method = heap")
        if "OWNED BY CURRENT" not in command:
            # that one takes everything else too
            conn.execute(command.replace("plpgsql, ", "").encode())
            assert one(conn, "SELECT count(*) FROM pg_extension WHERE extname = 'pgbillion_tables'") == 0
            assert _rows(conn, "child") == [1]
    finally:
        run(conn, "RESET ROLE; DROP OWNED BY installer; DROP ROLE installer, nobody_here")


@pytest.mark.parametrize(
    "command",
    [
        "DROP SCHEMA public, pgbillion_tables CASCADE",
        "DROP ACCESS METHOD lazy_heap CASCADE",
        "DROP FUNCTION pgbillion_tables.lazy_heap_handler(internal) CASCADE",
    ],
)
def test_members_of_the_extension_cannot_be_dropped_without_it(conn: Connection, command: str) -> None:
    """Its schema is one of them: core refuses that, lazy tables or not."""
    with pytest.raises(errors.DependentObjectsStillExist, match="because extension pgbillion_tables requires it"):
        conn.execute(command.encode())
    run(conn, "DROP TABLE t")
    with pytest.raises(errors.DependentObjectsStillExist, match="because extension pgbillion_tables requires it"):
        conn.execute(command.encode())


def test_drop_owned_by_the_owner_of_the_extension_is_refused_whoever_owns_its_functions(
    conn: Connection, connect: Connect
) -> None:
    run(conn, "CREATE ROLE installer SUPERUSER; CREATE ROLE other SUPERUSER")
    try:
        run(
            conn, "DROP TABLE t; DROP EXTENSION pgbillion_tables; SET ROLE installer; CREATE EXTENSION pgbillion_tables"
        )
        run(conn, "RESET ROLE; ALTER FUNCTION pgbillion_tables.drop_guard() OWNER TO other; CREATE TABLE t (i int)")
        with pytest.raises(errors.DependentObjectsStillExist, match="while there are lazy tables"):
            connect().execute("DROP OWNED BY installer CASCADE")
    finally:
        run(conn, "REASSIGN OWNED BY other, installer TO CURRENT_USER; DROP ROLE installer, other")


def test_drop_extension_cascade_loses_no_row(conn: Connection, connect: Connect) -> None:
    """Nor does it where an administrator has switched the refusal off: the dependants it drops are tables without a
    row; of a first row in flight it waits for the end.
    """
    run(conn, "CREATE TABLE kept (i int PRIMARY KEY, b text); INSERT INTO kept VALUES (1, repeat('x', 100000))")
    run(
        conn, "CREATE TABLE p (i int) PARTITION BY RANGE (i); CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (9)"
    )
    run(conn, "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (9) TO (19); INSERT INTO p VALUES (1)")
    run(conn, "CREATE TABLE had (i int); INSERT INTO had VALUES (1); DELETE FROM had; CREATE TABLE in_flight (i int)")
    run(
        conn,
        "CREATE TABLE aborted (i int); CREATE MATERIALIZED VIEW mv AS SELECT 1 AS i; SET client_min_messages = error",
    )
    writer, aborter = connect(), connect()
    run(writer, "BEGIN; INSERT INTO in_flight VALUES (5)")
    run(aborter, "BEGIN; INSERT INTO aborted VALUES (5)")
    run(conn, "SET default_table_access_method = heap; ALTER EVENT TRIGGER pgbillion_tables_drop_guard DISABLE")
    dropping = Running(lambda: conn.execute("DROP EXTENSION pgbillion_tables CASCADE"))
    monitor = connect()
    until_blocked(monitor, conn, dropping)
    run(writer, "COMMIT")
    run(aborter, "ROLLBACK")
    dropping.result()
    run(monitor, "SET default_table_access_method = heap")
    assert [_rows(monitor, name) for name in ("kept", "p", "had", "mv", "in_flight")] == [[1], [1], [], [1], [5]]
    assert one(monitor, "SELECT count(*) FROM pg_class WHERE relname IN ('t', 'p2', 'aborted') OR relfilenode = 1") == 0
    run(monitor, "INSERT INTO kept VALUES (2); VACUUM FULL kept; CREATE EXTENSION pgbillion_tables")
    assert _rows(monitor, "kept") == [1, 2]


def test_drop_extension_cascade_beside_tables_with_rows_below_one_without(
    conn: Connection, installation: Installation
) -> None:
    """A parent never has a row of its own; DROP … CASCADE takes its children along unless it is a heap before."""
    run(conn, "CREATE TABLE parent (i int); CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1)")
    assert _to_heap(conn, "parent", "t") == 2
    if installation.version_num >= 170000:
        conn.execute("CREATE TABLE p (i int) PARTITION BY RANGE (i) USING lazy_heap")
        run(conn, "CREATE TABLE p1 PARTITION OF p DEFAULT; INSERT INTO p VALUES (1)")
        conn.execute("ALTER TABLE p SET ACCESS METHOD heap")
    run(conn, "SET default_table_access_method = heap; SET client_min_messages = error")
    conn.execute("DROP EXTENSION pgbillion_tables CASCADE")
    assert _rows(conn, "child") == [1]
    if installation.version_num >= 170000:
        assert _rows(conn, "p") == [1]


# ---- to_heap


def _to_heap(conn: Connection, *tables: str | None) -> Any:
    return one(conn, "SELECT pgbillion_tables.to_heap(%s::text[]::regclass[])", list(tables))


def test_to_heap(conn: Connection, server: Cluster) -> None:
    run(
        conn,
        "CREATE TABLE a (i int, b text); CREATE TABLE f (i int); TRUNCATE f; CREATE UNLOGGED TABLE u (i int, b text)",
    )
    run(
        conn,
        "CREATE TEMP TABLE tt (i int); CREATE TABLE h (i int) USING heap; CREATE MATERIALIZED VIEW m AS SELECT FROM t",
    )
    tables = ["t", "a", "f", "u", "tt", "h", "m"]
    before = conn.execute("SELECT oid, relname FROM pg_class WHERE relname = ANY(%s) ORDER BY 1", [tables]).fetchall()
    assert _to_heap(conn) == 0
    was_lazy = sum(lazy.state(conn, table) != "heap" for table in tables)
    assert was_lazy >= 5
    assert _to_heap(conn, *tables, None, "a") == was_lazy
    assert {lazy.state(conn, table) for table in tables} == {"heap"}
    assert _to_heap(conn, *tables) == 0
    assert (
        conn.execute("SELECT oid, relname FROM pg_class WHERE relname = ANY(%s) ORDER BY 1", [tables]).fetchall()
        == before
    )
    for table in ("t", "a", "f", "u", "tt"):
        conn.execute(f"INSERT INTO {table} (i) VALUES (1)")
        assert _rows(conn, table) == [1]
    conn.execute("CREATE TABLE rolled (i int, b text)")
    run(conn, "BEGIN; SELECT pgbillion_tables.to_heap('{rolled}'); ROLLBACK")
    assert lazy.state(conn, "rolled") == "lazy"
    many = [f"m{number}" for number in range(200)]
    run(conn, "; ".join(f"CREATE TABLE {name} (i int, b text)" for name in many))
    assert _to_heap(conn, *many) == 200
    with conn.transaction():
        assert one(conn, f"SELECT pgbillion_tables.to_heap(array_agg(oid::regclass)) {LAZY_TABLES}") >= 1
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relfilenode = 1") == 0
    run(conn, "SET default_table_access_method = heap; DROP EXTENSION pgbillion_tables")


def test_who_may_not_change_a_table_waits_for_no_lock_on_it(conn: Connection, connect: Connect) -> None:
    """Else everybody else would wait behind them for as long as they like."""
    drop_tables = "pgbillion_tables.drop_tables(regclass[], boolean, boolean)"
    run(conn, f"CREATE ROLE nobody_here; GRANT EXECUTE ON FUNCTION {drop_tables} TO nobody_here")
    session = connect()
    run(session, "SET ROLE nobody_here; SET lock_timeout = '3s'")
    try:
        with conn.transaction():
            conn.execute("LOCK TABLE t")
            for function in ("to_heap", "drop_tables"):
                with pytest.raises(errors.InsufficientPrivilege):
                    session.execute(f"SELECT pgbillion_tables.{function}('{{t}}')")
            session.execute("CALL pgbillion_tables.all_to_heap()")
        assert lazy.state(conn, "t") == "lazy"
    finally:
        run(conn, "DROP OWNED BY nobody_here; DROP ROLE nobody_here")


def test_to_heap_is_for_owners(conn: Connection, connect: Connect) -> None:
    run(conn, "CREATE ROLE owner_of_it; CREATE ROLE nobody_here; ALTER TABLE t OWNER TO owner_of_it")
    session = connect()
    session.execute("SET ROLE nobody_here")
    with pytest.raises(errors.InsufficientPrivilege):
        _to_heap(session, "t")
    session.execute("SET ROLE owner_of_it")
    assert _to_heap(session, "t") == 1
    run(conn, "DROP OWNED BY owner_of_it; DROP ROLE owner_of_it; DROP ROLE nobody_here")


def test_to_heap_of_what_is_no_table(conn: Connection) -> None:
    run(conn, "CREATE VIEW v AS SELECT 1 AS i; CREATE SEQUENCE s")
    for name in ("v", "s", "t_pkey"):
        with pytest.raises((errors.WrongObjectType, errors.FeatureNotSupported)):
            _to_heap(conn, "t", name)
        assert lazy.state(conn, "t") == "lazy"
    run(conn, "BEGIN; SET TRANSACTION READ ONLY")
    with pytest.raises(errors.ReadOnlySqlTransaction):
        _to_heap(conn, "t")
    conn.execute("ROLLBACK")


def test_to_heap_beside_a_first_writer(conn: Connection, connect: Connect) -> None:
    writer, other = connect(), connect()
    run(writer, "BEGIN; INSERT INTO t VALUES (1)")
    converting = Running(lambda: _to_heap(other, "t"))
    until_settled(conn, other, converting)
    writer.execute("COMMIT")
    converting.result()
    assert _rows(conn) == [1]


# ---- all at once


class Worker:
    """Inserts, rolls back and sets savepoints at random, and knows which rows of its it has committed."""

    TABLES = 8

    def __init__(self, conn: Connection, number: int, seed: int, stop: threading.Event) -> None:
        self._conn, self._number, self._stop = conn, number, stop
        self._random = random.Random(f"{seed} {number}")
        self._next = 0
        self.committed: Counter[int] = Counter()
        self.in_doubt: Counter[int] = Counter()
        self.transactions = 0

    def work(self) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            while not self._stop.is_set():
                self._transaction()

    def _transaction(self) -> None:
        pending: Counter[int] = Counter()
        # in one order, so that only savepoints make deadlocks
        tables = sorted(self._random.sample(range(self.TABLES), self._random.randint(1, 3)))
        conn, dice = self._conn, self._random
        try:
            if dice.random() < 0.2:
                conn.execute("BEGIN")
                conn.execute(f"DROP TABLE IF EXISTS own{self._number}")
                conn.execute(f"CREATE TABLE own{self._number} (i int PRIMARY KEY, b text)")
            else:
                conn.execute("BEGIN")
            for table in tables:
                if dice.random() < 0.3:
                    conn.execute("SAVEPOINT s")
                    self._insert(table)
                    conn.execute("ROLLBACK TO s")
                if dice.random() < 0.3:
                    conn.execute(f"SELECT count(*) FROM r{table}")
                pending[table] += self._insert(table)
            if dice.random() < 0.6:
                conn.execute("ROLLBACK")
                return
            self.in_doubt = pending
            conn.execute("COMMIT")
            self.committed += pending
            self.in_doubt = Counter()
        except errors.DeadlockDetected:
            conn.execute("ROLLBACK")
        self.transactions += 1

    def _insert(self, table: int) -> int:
        rows = self._random.choice((1, 1, 5, 200))
        first, self._next = self._next, self._next + rows
        self._conn.execute(
            f"INSERT INTO r{table} SELECT g, repeat('x', 3000 * (g %% 2)) FROM generate_series(%s::int, %s::int) g",
            [self._number * 10_000_000 + first, self._number * 10_000_000 + first + rows - 1],
        )
        return rows


def _stress(server: Cluster, database: str, seed: int, transactions: int, crash: bool) -> None:
    create = [f"CREATE TABLE r{table} (i int PRIMARY KEY, b text)" for table in range(Worker.TABLES)]
    with server.connect(database) as conn:
        run(conn, "; ".join(create))
        conn.execute("CREATE INDEX ON r1 (b); CREATE INDEX ON r2 USING hash (i)")
        conn.execute("CHECKPOINT")
    stop = threading.Event()
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(4):
            connections.append(server.connect(database))
            stack.callback(connections[-1].close)
        workers = [Worker(conn, number, seed, stop) for number, conn in enumerate(connections)]
        running = [Running(worker.work) for worker in workers]
        until(
            lambda: sum(worker.transactions for worker in workers) >= transactions or all(r.done for r in running),
            "work",
        )
        if crash:
            server.kill()
        stop.set()
        for each in running:
            each.result()
    if crash:
        server.start()
    with server.connect(database) as conn:
        for table in range(Worker.TABLES):
            found: dict[int, int] = {
                int(number): int(count)
                for number, count in conn.execute(f"SELECT i / 10000000, count(*) FROM r{table} GROUP BY 1")
            }
            for number, worker in enumerate(workers):
                allowed = {worker.committed[table], worker.committed[table] + worker.in_doubt[table]}
                assert found.get(number, 0) in allowed, f"seed {seed}, table r{table}, session {number}"
        conn.execute("CHECKPOINT")
        assert lazy.unsound(conn) == []
        lost = lazy.lost(server, conn)
        # core, too, leaves files of transactions that a crash cut off: at most what four of them can have made
        assert {line for line in lost if line.startswith("missing")} == set()
        assert len(lost) <= (4 * (3 * 2 + 6) if crash else 0)
        for table in range(Worker.TABLES):
            conn.execute(f"INSERT INTO r{table} VALUES (-1, repeat('y', 100000))")
            assert one(conn, f"SELECT length(b) FROM r{table} WHERE i = -1") == 100000
        assert lazy.unsound(conn) == []


@pytest.mark.parametrize("seed", range(3))
def test_stress(server: Cluster, seed: int) -> None:
    with servers.new_database(server, "stress") as database:
        _stress(server, database, seed, 150, crash=False)


@pytest.mark.parametrize("seed", range(4))
def test_stress_and_crash(installation: Installation, seed: int) -> None:
    with servers.new_cluster(installation, {**lazy.LAZY, "deadlock_timeout": "50ms"}) as server:
        for round_ in range(2):
            with servers.new_database(server, f"crash{round_}") as database:
                _stress(server, database, seed * 10 + round_, random.Random(seed).randint(1, 40), crash=True)
