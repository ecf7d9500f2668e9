"""The traps of lazy storage, each of which caught an earlier attempt, by name."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator

import pytest
from psycopg import errors

from harness import lazy, servers
from harness.lazy import run, until_settled
from harness.servers import one
from harness.sessions import Running
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation, make_folder, run_as_server

pytestmark = pytest.mark.majors


@pytest.fixture(scope="module")
def fragile(installation: Installation) -> Iterator[Cluster]:
    """A cluster for tests that crash it."""
    with servers.new_cluster(installation, {**lazy.LAZY, "allow_in_place_tablespaces": "on"}) as cluster:
        with cluster.connect() as conn:
            conn.execute("CREATE TABLESPACE space1 LOCATION ''")
        yield cluster


@pytest.fixture
def database(fragile: Cluster) -> Iterator[str]:
    with servers.new_database(fragile, "traps") as name:
        yield name


@pytest.fixture
def conn(fragile: Cluster, database: str) -> Iterator[Connection]:
    with fragile.connect(database) as conn:
        yield conn


@pytest.fixture(scope="module")
def minimal(installation: Installation) -> Iterator[Cluster]:
    """A cluster that writes no WAL for new files."""
    settings = {"wal_level": "minimal", "max_wal_senders": "0", "wal_skip_threshold": "0"}
    with servers.new_cluster(installation, {**lazy.LAZY, **settings, "fsync": "on"}) as cluster:
        yield cluster


def _crash(cluster: Cluster) -> None:
    cluster.kill()
    cluster.start()


def _sound(cluster: Cluster, database: str) -> None:
    with cluster.connect(database) as conn:
        assert lazy.unsound(conn) == []
        conn.execute("CHECKPOINT")
        assert lazy.lost(cluster, conn) == set()


# ---- file numbers


def test_oid_wraparound_gives_no_file_to_a_lazy_table(installation: Installation) -> None:
    """Core takes 'no file' for 'number free': nobody may get a number that a lazy table counts on."""
    with servers.new_cluster(installation, lazy.LAZY) as cluster:
        with cluster.connect() as conn:
            servers.install_extensions(conn)
            run(conn, "CREATE TABLE heap (i int) USING heap; INSERT INTO heap VALUES (1)")
            conn.execute("CREATE TABLE lazy (i int, b text)")
            numbers = [one(conn, "SELECT relfilenode::bigint FROM pg_class WHERE relname = 'lazy'"), 1]
        for number in (2, 16384, *numbers):
            cluster.stop()
            done = run_as_server(
                [cluster.installation.program("pg_resetwal"), "-o", str(number), "-D", cluster.data],
                capture_output=True,
            )
            assert done.returncode == 0, done.stderr
            cluster.start()
            with cluster.connect() as conn:
                for _ in range(20):
                    run(conn, "TRUNCATE heap; INSERT INTO heap VALUES (7)")
                    run(conn, "CREATE TEMP TABLE t (i int); INSERT INTO t VALUES (8); DROP TABLE t")
                assert conn.execute("SELECT * FROM lazy").fetchall() == []
                assert lazy.state(conn, "lazy") == "lazy"
                assert one(conn, "SELECT count(*) FROM pg_class WHERE relfilenode = 1") == 2
        with cluster.connect() as conn:
            conn.execute("INSERT INTO lazy VALUES (1, 'x')")
            assert conn.execute("SELECT * FROM lazy").fetchall() == [(1, "x")]
            assert conn.execute("SELECT * FROM heap").fetchall() == [(7,)]
        _sound(cluster, "postgres")


def test_no_table_is_lazy_because_its_file_is_missing(conn: Connection, fragile: Cluster) -> None:
    """State is in the catalogue: a heap table whose file is gone is an error, not an empty table."""
    run(conn, "CREATE TABLE t (i int); INSERT INTO t VALUES (1); CHECKPOINT")
    path = fragile.data / one(conn, "SELECT pg_relation_filepath('t')")
    conn.execute("CHECKPOINT")
    content = path.read_bytes()
    with fragile.connect(conn.info.dbname) as other:
        path.rename(path.with_suffix(".away"))
        with pytest.raises(errors.UndefinedFile):
            other.execute("SELECT count(*) FROM t")
        path.with_suffix(".away").rename(path)
    assert path.read_bytes() == content


# ---- transactions

SAVEPOINTS = {
    "rollback_to": "SAVEPOINT s; INSERT INTO t VALUES (1, 'a'); ROLLBACK TO s; INSERT INTO t VALUES (2, 'b')",
    "twice": "SAVEPOINT s; INSERT INTO t VALUES (1, 'a'); ROLLBACK TO s; INSERT INTO t VALUES (1, 'a'); ROLLBACK TO s;"
    " INSERT INTO t VALUES (2, 'b')",
    "nested": "SAVEPOINT s; SAVEPOINT u; INSERT INTO t VALUES (1, 'a'); RELEASE u; ROLLBACK TO s;"
    " SAVEPOINT v; INSERT INTO t VALUES (2, 'b'); RELEASE v",
    "released": "SAVEPOINT s; INSERT INTO t VALUES (2, 'b'); RELEASE s; SAVEPOINT s; DELETE FROM t; ROLLBACK TO s",
    "same_key": "SAVEPOINT s; INSERT INTO t VALUES (2, 'b'); ROLLBACK TO s; INSERT INTO t VALUES (2, 'b')",
    "truncated": "SAVEPOINT s; INSERT INTO t VALUES (1, 'a'); ROLLBACK TO s; TRUNCATE t; INSERT INTO t VALUES (2, 'b')",
    "moved": "SAVEPOINT s; INSERT INTO t VALUES (1, 'a'); ROLLBACK TO s; ALTER TABLE t SET TABLESPACE space1;"
    " INSERT INTO t VALUES (2, 'b')",
    "toast": "SAVEPOINT s; INSERT INTO t VALUES (1, repeat('x', 1000000)); ROLLBACK TO s;"
    " INSERT INTO t VALUES (2, 'b')",
}


@pytest.mark.parametrize("existing", [False, True], ids=["created_in_it", "there_before"])
@pytest.mark.parametrize("statements", SAVEPOINTS.values(), ids=SAVEPOINTS.keys())
def test_savepoint_rollback_insert_commit_checkpoint(
    fragile: Cluster, database: str, statements: str, existing: bool
) -> None:
    """The unlink queued for the first file must not take the second, at the checkpoint or in recovery."""
    create = "CREATE TABLE t (i int PRIMARY KEY, b text)"
    with fragile.connect(database) as conn:
        run(conn, f"{create}; BEGIN; {statements}; COMMIT" if existing else f"BEGIN; {create}; {statements}; COMMIT")
        assert conn.execute("SELECT * FROM t").fetchall() == [(2, "b")]
    with fragile.connect(database) as conn:
        conn.execute("CHECKPOINT")
        assert conn.execute("SELECT * FROM t").fetchall() == [(2, "b")]
        assert conn.execute("SELECT i FROM t WHERE i BETWEEN 0 AND 9 ORDER BY i").fetchall() == [(2,)]
    _sound(fragile, database)


def test_crash_after_savepoints(fragile: Cluster, database: str) -> None:
    with fragile.connect(database) as conn:
        for number, statements in enumerate(SAVEPOINTS.values()):
            run(conn, f"CREATE TABLE t (i int PRIMARY KEY, b text); BEGIN; {statements}; COMMIT")
            run(conn, f"ALTER TABLE t RENAME TO t{number}; ALTER INDEX t_pkey RENAME TO t{number}_pkey")
    _crash(fragile)
    with fragile.connect(database) as conn:
        for number in range(len(SAVEPOINTS)):
            assert conn.execute(f"SELECT * FROM t{number}").fetchall() == [(2, "b")]
    _sound(fragile, database)


def test_first_writers_abort_beside_another_sessions_row(conn: Connection, fragile: Cluster) -> None:
    """The abort of the first writer must leave what another session has committed."""
    conn.execute("CREATE TABLE t (i int PRIMARY KEY, b text)")
    with fragile.connect(conn.info.dbname) as first, fragile.connect(conn.info.dbname) as monitor:
        run(first, "BEGIN; INSERT INTO t VALUES (1, repeat('a', 100000))")
        running = Running(lambda: conn.execute("INSERT INTO t VALUES (2, 'b')"))
        until_settled(monitor, conn, running)
        first.execute("ROLLBACK")
        running.result()
    conn.execute("CHECKPOINT")
    assert conn.execute("SELECT * FROM t").fetchall() == [(2, "b")]
    assert lazy.unsound(conn) == []
    assert lazy.lost(fragile, conn) == set()


# index methods, and a condition that finds row 1 through them
INDEXES = {
    "btree": ("btree (i)", "i = 1"),
    "unique": ("btree (i)", "i = 1"),
    "hash": ("hash (i)", "i = 1"),
    "gist": ("gist (p)", "p <@ box '(1,1,1,1)'"),
    "spgist": ("spgist (p)", "p <@ box '(1,1,1,1)'"),
    "gin": ("gin (a)", "a @> '{1}'"),
    "gin_slow": ("gin (a) WITH (fastupdate = off)", "a @> '{1}'"),
    "brin": ("brin (i) WITH (pages_per_range = 1)", "i = 1"),
}


@pytest.mark.parametrize("rows", [1, 3000])
@pytest.mark.parametrize("how", ["abort", "savepoint", "crash", "failed_statement"])
@pytest.mark.parametrize("method", INDEXES)
def test_index_entries_of_an_aborted_first_row_find_nothing(fragile: Cluster, method: str, how: str, rows: int) -> None:
    """Index pages are not undone: entries of the aborted rows must not find rows that come to their places."""
    if how == "crash" and (rows > 1 or method not in ("unique", "gin")):
        pytest.skip("as an abort; a crash costs a second")
    definition, condition = INDEXES[method]
    insert = "INSERT INTO t SELECT g, point(g, g), ARRAY[g], 'b' FROM generate_series({}) g"
    aborted, kept = insert.format(f"1, {rows}"), insert.format("5001, 5010")
    with servers.new_database(fragile, "entries") as database:
        conn = fragile.connect(database)
        conn.execute("CREATE TABLE t (i int, p point, a int[], b text)")
        conn.execute(f"CREATE {'UNIQUE' * (method == 'unique')} INDEX x ON t USING {definition}")
        if how == "abort":
            run(conn, f"BEGIN; {aborted}; ROLLBACK")
        elif how == "crash":
            run(conn, f"BEGIN; {aborted}")
            # the flushed WAL has the index entries
            with fragile.connect(database) as other:
                run(other, "CREATE TABLE flush (); CHECKPOINT")
            _crash(fragile)
            conn.close()
            conn = fragile.connect(database)
        elif how == "failed_statement":
            with pytest.raises(errors.DivisionByZero):
                conn.execute(f"{aborted} UNION ALL SELECT 1 / (g - 1), NULL, NULL, NULL FROM generate_series(1, 1) g")
        if how == "savepoint":
            run(conn, f"BEGIN; SAVEPOINT s; {aborted}; ROLLBACK TO s")
        conn.execute("SET enable_seqscan = off")
        find = f"SELECT i FROM t WHERE {condition}"
        assert conn.execute(find).fetchall() == []
        run(conn, f"{kept}; COMMIT" if how == "savepoint" else kept)
        assert conn.execute(find).fetchall() == []
        conn.execute(insert.format("1, 1"))
        assert conn.execute(find).fetchall() == [(1,)]
        run(conn, "RESET enable_seqscan; VACUUM t")
        assert conn.execute(find).fetchall() == [(1,)]
        assert one(conn, "SELECT count(*) FROM t") == 11
        assert lazy.unsound(conn) == []
        conn.execute("CHECKPOINT")
        # of a transaction that a crash cuts off core, too, leaves the files: here the table's and its TOAST table's
        assert len(lazy.lost(fragile, conn)) <= (2 if how == "crash" else 0)
        conn.close()


@pytest.mark.parametrize("start", ["TRUNCATE t", "ALTER TABLE t SET TABLESPACE space1", "ALTER TABLE t SET UNLOGGED"])
def test_file_of_a_lazy_table_has_nothing_of_an_aborted_first_writer(
    conn: Connection, fragile: Cluster, start: str
) -> None:
    """A lazy table that has a file: what an abort leaves in it is older than the table's relfrozenxid later."""
    run(conn, f"CREATE TABLE t (i int PRIMARY KEY, b text); {start}")
    assert lazy.state(conn, "t") == "lazy with a file"
    run(conn, "BEGIN; INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g; ROLLBACK")
    run(conn, "VACUUM FREEZE t; SELECT pg_current_xact_id(); SELECT pg_current_xact_id()")
    run(conn, "INSERT INTO t VALUES (1, 'y'); VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t")
    assert conn.execute("SELECT * FROM t").fetchall() == [(1, "y")]
    assert one(conn, "SELECT relfrozenxid <> '0' FROM pg_class WHERE oid = 't'::regclass")
    run(conn, "DROP TABLE t; CREATE TABLE t (i int PRIMARY KEY, b text); " + start)
    run(conn, "BEGIN; INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g; ROLLBACK")
    conn.execute("INSERT INTO t VALUES (1, 'y')")
    assert lazy.unsound(conn) == []
    conn.execute("CHECKPOINT")
    assert lazy.lost(fragile, conn) == set()


def test_prepare_transaction(fragile: Cluster) -> None:
    """A first row in a prepared transaction, over a crash; a table created and dropped in prepared ones."""
    with servers.new_database(fragile, "prepared") as database:
        with fragile.connect(database) as conn:
            run(conn, "CREATE TABLE t1 (i int PRIMARY KEY, b text); CREATE TABLE t2 (LIKE t1 INCLUDING ALL)")
            run(conn, "CREATE TABLE t3 (LIKE t1); CREATE TABLE t4 (LIKE t1)")
            run(conn, "BEGIN; INSERT INTO t1 VALUES (1, repeat('x', 100000)); PREPARE TRANSACTION 'kept'")
            run(conn, "BEGIN; INSERT INTO t2 VALUES (1, repeat('x', 100000)); PREPARE TRANSACTION 'undone'")
            run(conn, "BEGIN; DROP TABLE t3, t4; CREATE TABLE t5 (LIKE t1); PREPARE TRANSACTION 'dropped'")
            assert one(conn, "SELECT count(*) FROM t1") == 0
        _crash(fragile)
        with fragile.connect(database) as conn:
            conn.execute("SET lock_timeout = '100ms'")
            for table in ("t1", "t2"):
                assert one(conn, f"SELECT count(*) FROM {table}") == 0
                # it may wait, but never do what the prepared transaction has done
                with contextlib.suppress(errors.LockNotAvailable):
                    run(conn, f"BEGIN; INSERT INTO {table} VALUES (2)")
                conn.execute("ROLLBACK")
            conn.execute("COMMIT PREPARED 'kept'")
            conn.execute("ROLLBACK PREPARED 'undone'")
            conn.execute("COMMIT PREPARED 'dropped'")
            assert conn.execute("SELECT i, length(b) FROM t1").fetchall() == [(1, 100000)]
            run(conn, "INSERT INTO t2 VALUES (1, 'y'); INSERT INTO t5 VALUES (1)")
            assert conn.execute("SELECT * FROM t2").fetchall() == [(1, "y")]
        _crash(fragile)
        _sound(fragile, database)


# ---- tablespaces


@pytest.mark.parametrize("how", ["created", "moved", "vacuum_full", "rewritten", "toast", "truncated", "one_of_two"])
def test_drop_tablespace_is_refused(conn: Connection, how: str) -> None:
    """A tablespace that a file-less table lives in is in use."""
    statements = {
        "created": "",
        "moved": "ALTER TABLE t SET TABLESPACE pg_default; ALTER TABLE t SET TABLESPACE gone",
        "vacuum_full": "VACUUM FULL t",
        "rewritten": "ALTER TABLE t ALTER i TYPE bigint",
        "toast": "ALTER TABLE t ADD more text",
        "truncated": "TRUNCATE t",
        "one_of_two": "CREATE TABLE t2 (i int) TABLESPACE gone; INSERT INTO t2 VALUES (1)",
    }[how]
    space = f"space_{how}"
    conn.execute(f"CREATE TABLESPACE {space} LOCATION ''")
    conn.execute(f"CREATE TABLE t (i int) TABLESPACE {space}")
    run(conn, statements.replace("gone", space))
    with pytest.raises((errors.ObjectNotInPrerequisiteState, errors.DependentObjectsStillExist)):
        conn.execute(f"DROP TABLESPACE {space}")
    conn.execute("INSERT INTO t VALUES (1)")
    assert conn.execute("SELECT i FROM t").fetchall() == [(1,)]
    with pytest.raises((errors.ObjectNotInPrerequisiteState, errors.DependentObjectsStillExist)):
        conn.execute(f"DROP TABLESPACE {space}")
    run(conn, "ALTER TABLE t SET TABLESPACE pg_default; DROP TABLE IF EXISTS t2; CHECKPOINT")
    assert conn.execute("SELECT * FROM pg_shdepend WHERE deptype = 't'").fetchall() == []
    conn.execute(f"DROP TABLESPACE {space}")


def test_dropped_and_aborted_tables_leave_a_tablespace_free(conn: Connection) -> None:
    conn.execute("CREATE TABLESPACE gone LOCATION ''")
    run(conn, "CREATE TABLE t (i int, b text) TABLESPACE gone; DROP TABLE t")
    run(conn, "BEGIN; CREATE TABLE t (i int) TABLESPACE gone; INSERT INTO t VALUES (1); ROLLBACK")
    run(conn, "CREATE TABLE t (i int) TABLESPACE gone; BEGIN; INSERT INTO t VALUES (1); ROLLBACK; DROP TABLE t")
    assert conn.execute("SELECT * FROM pg_shdepend WHERE deptype = 't'").fetchall() == []
    conn.execute("CHECKPOINT")
    conn.execute("DROP TABLESPACE gone")


# ---- core functions that insist on heap


def test_create_index_and_primary_key(conn: Connection) -> None:
    run(conn, "CREATE TABLE t (i int PRIMARY KEY, b text UNIQUE); CREATE INDEX ON t (i); CREATE INDEX ON t (b, i)")
    run(conn, "CREATE TABLE u (i int, b text); ALTER TABLE u ADD PRIMARY KEY (i)")
    conn.execute("CREATE INDEX CONCURRENTLY ON u (b)")
    assert lazy.state(conn, "t") == lazy.state(conn, "u") == "lazy"
    assert one(conn, "SELECT bool_and(indisvalid) FROM pg_index WHERE indrelid IN ('t'::regclass, 'u'::regclass)")
    assert lazy.unsound(conn) == []


def test_tools_that_insist_on_heap_work_on_tables_with_rows(conn: Connection) -> None:
    conn.execute("CREATE TABLE t (i int PRIMARY KEY, b text)")
    with pytest.raises(errors.FeatureNotSupported):
        conn.execute("SELECT * FROM verify_heapam('t')")
    conn.execute("INSERT INTO t VALUES (1, repeat('x', 100000))")
    assert conn.execute("SELECT * FROM verify_heapam('t')").fetchall() == []
    available = {name for (name,) in conn.execute("SELECT name FROM pg_available_extensions")}
    for extension, query in {
        "pgstattuple": "SELECT tuple_count FROM pgstattuple('t')",
        "pg_visibility": "SELECT count(*) FROM pg_visibility('t')",
        "pgrowlocks": "SELECT count(*) + 1 FROM pgrowlocks('t')",
        "pg_surgery": "SELECT 1 FROM heap_force_freeze('t', ARRAY['(0,1)']::tid[])",
    }.items():
        if extension in available:
            conn.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}")
            assert one(conn, query) == 1 or extension == "pg_surgery"


def test_toast_file_is_made_before_it_is_written(conn: Connection, fragile: Cluster) -> None:
    """The insertion of a large value goes past the access method into the TOAST table."""
    conn.execute("CREATE TABLE t (i int, b text)")
    toast = one(conn, "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 't'::regclass")
    assert lazy.state(conn, toast) == lazy.state(conn, "t") == "lazy"
    run(conn, "BEGIN; INSERT INTO t VALUES (0, repeat(md5('x'), 10000)); ROLLBACK")
    assert lazy.state(conn, toast) == lazy.state(conn, "t") == "lazy"
    conn.execute("INSERT INTO t VALUES (1, 'small')")
    assert lazy.state(conn, toast) == lazy.state(conn, "t") == "heap"
    conn.execute("INSERT INTO t VALUES (2, repeat(md5('x'), 10000))")
    with fragile.connect(conn.info.dbname) as other:
        assert other.execute("SELECT i, length(b) FROM t ORDER BY i").fetchall() == [(1, 5), (2, 320000)]
    assert lazy.unsound(conn) == []


# ---- crashes


def test_unlogged_after_a_crash(fragile: Cluster, database: str) -> None:
    with fragile.connect(database) as conn:
        conn.execute("CREATE UNLOGGED TABLE never (i int PRIMARY KEY, b text)")
        run(
            conn,
            "CREATE UNLOGGED TABLE had (LIKE never INCLUDING ALL); INSERT INTO had VALUES (1, repeat('x', 100000))",
        )
        conn.execute("CREATE UNLOGGED TABLE undone (LIKE never INCLUDING ALL)")
        run(conn, "BEGIN; INSERT INTO undone VALUES (1, repeat('x', 100000)); ROLLBACK")
        run(conn, "CREATE TABLE turned (LIKE never INCLUDING ALL); ALTER TABLE turned SET UNLOGGED")
        run(
            conn,
            "CREATE TABLE back (LIKE never INCLUDING ALL); ALTER TABLE back SET UNLOGGED; ALTER TABLE back SET LOGGED",
        )
        conn.execute("INSERT INTO back VALUES (1)")
        conn.execute("CREATE UNLOGGED TABLE spaced (LIKE never INCLUDING ALL) TABLESPACE space1")
        run(conn, "CREATE UNLOGGED TABLE truncated (LIKE never INCLUDING ALL); TRUNCATE truncated")
    for _ in range(2):
        _crash(fragile)
        with fragile.connect(database) as conn:
            for table in ("never", "had", "undone", "turned", "spaced", "truncated"):
                assert conn.execute(f"SELECT * FROM {table}").fetchall() == []
                conn.execute(f"INSERT INTO {table} VALUES (1, repeat('y', 100000))")
                assert one(conn, f"SELECT length(b) FROM {table} WHERE i = 1") == 100000
            assert conn.execute("SELECT * FROM back").fetchall() == [(1, None)]
    _sound(fragile, database)


@pytest.mark.parametrize("threshold", ["0", "1GB"], ids=["by_sync", "by_wal"])
def test_wal_level_minimal_and_a_crash(minimal: Cluster, threshold: str) -> None:
    """A file made in the same transaction skips WAL, and must reach the disk at commit."""
    cases = {
        "same": "CREATE TABLE same (i int PRIMARY KEY, b text); INSERT INTO same VALUES (1, 'x')",
        "later": "INSERT INTO later VALUES (1, 'x')",
        "large": "INSERT INTO large VALUES (1, repeat(md5('x'), 10000))",
        "sub": "SAVEPOINT s; INSERT INTO sub VALUES (2, 'x'); ROLLBACK TO s; INSERT INTO sub VALUES (1, 'x')",
        "sub2": "CREATE TABLE sub2 (i int PRIMARY KEY, b text); SAVEPOINT s; INSERT INTO sub2 VALUES (2, 'x');"
        " ROLLBACK TO s; INSERT INTO sub2 VALUES (1, 'x')",
        "trunc": "TRUNCATE trunc; INSERT INTO trunc VALUES (1, 'x')",
        "wasfile": "INSERT INTO wasfile VALUES (1, 'x')",
        "ctas": "CREATE TABLE ctas AS SELECT 1 AS i, repeat(md5('x'), 10000) AS b",
        "altered": "INSERT INTO altered VALUES (1, 'x'); ALTER TABLE altered ALTER b TYPE varchar(9)",
    }
    with servers.new_database(minimal, "minimal") as database:
        with minimal.connect(database) as conn:
            conn.execute(f"SET wal_skip_threshold = '{threshold}'")
            for table in ("later", "large", "sub", "trunc", "wasfile", "altered", "empty"):
                conn.execute(f"CREATE TABLE {table} (i int PRIMARY KEY, b text)")
            run(conn, "TRUNCATE wasfile; CHECKPOINT")
            # before what is committed: core, too, leaves the file behind when the abort's record is lost
            run(conn, "BEGIN; CREATE TABLE undone (i int); INSERT INTO undone VALUES (1); ROLLBACK")
            for statements in cases.values():
                run(conn, f"BEGIN; {statements}; COMMIT")
        _crash(minimal)
        with minimal.connect(database) as conn:
            for table in cases:
                assert conn.execute(f"SELECT i FROM {table}").fetchall() == [(1,)], table
                assert one(conn, f"SELECT length(b) > 0 FROM {table} WHERE i = 1")
            # where assertions are compiled in, it has a file: they insist on one
            assert lazy.state(conn, "empty") != "heap"
        _sound(minimal, database)


def test_several_lazy_tables_dropped_in_one_transaction(fragile: Cluster, database: str) -> None:
    """They share a file number, which up to 16 must not be on the list of files to delete twice; replayed too."""
    with fragile.connect(database) as conn:
        many = ", ".join(f"t{number}" for number in range(30))
        for number in range(30):
            conn.execute(
                f"CREATE TABLE t{number} (i int PRIMARY KEY, b text) {'TABLESPACE space1' * (number % 3 == 0)}"
            )
        run(conn, "INSERT INTO t1 VALUES (1, repeat('x', 100000)); INSERT INTO t3 VALUES (1)")
        run(conn, f"BEGIN; DROP TABLE {many}; ROLLBACK")
        run(
            conn,
            f"BEGIN; SAVEPOINT s; DROP TABLE {many}; ROLLBACK TO s; DROP TABLE t4; SAVEPOINT s; DROP TABLE t5; COMMIT",
        )
        run(
            conn,
            "BEGIN; DROP TABLE t6, t7; CREATE TABLE t6 (i int); CREATE TABLE t7 (i int); DROP TABLE t6, t7; COMMIT",
        )
        conn.execute("CHECKPOINT")
        conn.execute(f"DROP TABLE IF EXISTS {many}")
        run(conn, "CREATE TABLE kept (i int); INSERT INTO kept VALUES (1)")
    _crash(fragile)
    with fragile.connect(database) as conn:
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^t[0-9]'") == 0
        assert one(conn, "SELECT count(*) FROM kept") == 1
    _sound(fragile, database)


def test_a_standby_replays_it_all(installation: Installation) -> None:
    """Reads there before and after the first row, in sessions that knew the table; drops, aborts and tablespaces."""
    # feedback every second: the first must have arrived before the primary removes what the standby's snapshots see
    feedback = {"hot_standby_feedback": "on", "wal_receiver_status_interval": "1s"}
    with servers.new_cluster(installation, {**lazy.LAZY, **feedback}) as primary:
        with primary.connect() as conn:
            servers.install_extensions(conn)
            run(conn, "CREATE TABLE known (i int PRIMARY KEY, b text); CREATE TABLE held (i int PRIMARY KEY, b text)")
        folder = primary.data.parent
        standby = Cluster(installation, folder / "standby", primary.socket_dir, 5433)
        done = _base_backup(primary, standby)
        assert done.returncode == 0, done.stdout
        standby.start()
        try:
            _replay(primary, standby)
        finally:
            standby.destroy()


def _base_backup(primary: Cluster, standby: Cluster) -> subprocess.CompletedProcess[str]:
    make_folder(standby.data, private=True, for_server=True)
    return run_as_server(
        [
            primary.installation.program("pg_basebackup"),
            "-d",
            primary.conninfo(),
            "-D",
            standby.data,
            "-R",
            "-c",
            "fast",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _replay(primary: Cluster, standby: Cluster) -> None:
    with primary.connect() as conn, standby.connect() as reader, standby.connect() as holder:

        def caught_up() -> None:
            target = one(conn, "SELECT pg_current_wal_insert_lsn()::text")
            conn.execute("SELECT pg_switch_wal()")
            servers.until(lambda: one(reader, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", target), "replay")

        reader.execute("SET enable_seqscan = off")
        assert one(reader, "SELECT count(*) FROM known") == 0
        assert reader.execute("SELECT b FROM known WHERE i = 1").fetchall() == []
        servers.until(
            lambda: one(conn, "SELECT bool_or(backend_xmin IS NOT NULL) FROM pg_stat_replication"),
            "feedback of the standby",
        )
        run(holder, "BEGIN; PREPARE p AS SELECT i, length(b) FROM held WHERE i > 0")
        assert holder.execute("EXECUTE p").fetchall() == []
        with holder.cursor("c") as cursor:
            cursor.execute("SELECT i FROM held")
            # else replaying a removal of old catalog rows would wait for this snapshot, and then cancel it
            oldest = one(holder, "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            servers.until(
                lambda: one(conn, "SELECT max(backend_xmin::text::bigint) <= %s FROM pg_stat_replication", oldest),
                "the standby's oldest snapshot to be known",
            )
            conn.execute("INSERT INTO known VALUES (1, repeat('x', 100000))")
            run(conn, "BEGIN; INSERT INTO held VALUES (8); ROLLBACK")
            caught_up()
            assert holder.execute("EXECUTE p").fetchall() == []
            conn.execute("INSERT INTO held VALUES (1, repeat('x', 100000))")
            caught_up()
            assert cursor.fetchall() == []
        assert holder.execute("EXECUTE p").fetchall() == [(1, 100000)]
        assert holder.execute("SELECT i FROM held").fetchall() == [(1,)]
        holder.execute("COMMIT")
        assert reader.execute("SELECT i, length(b) FROM known WHERE i = 1").fetchall() == [(1, 100000)]
        run(conn, "CREATE TABLE d1 (i int, b text); CREATE TABLE d2 (i int, b text); CREATE TABLE d3 (i int)")
        run(
            conn, "CREATE TABLE aborted (i int PRIMARY KEY, b text); CREATE TABLE truncated (i int); TRUNCATE truncated"
        )
        caught_up()
        assert one(reader, "SELECT count(*) FROM d1") == one(reader, "SELECT count(*) FROM truncated") == 0
        run(conn, "BEGIN; INSERT INTO aborted VALUES (1, 'x'); ROLLBACK; INSERT INTO aborted VALUES (1, 'y')")
        conn.execute("DROP TABLE d1, d2, d3")
        run(conn, "VACUUM FULL truncated; INSERT INTO truncated VALUES (1)")
        conn.execute("CREATE UNLOGGED TABLE unlogged (i int)")
        caught_up()
        assert reader.execute("SELECT b FROM aborted WHERE i = 1").fetchall() == [("y",)]
        assert one(reader, "SELECT count(*) FROM truncated") == 1
        with pytest.raises(errors.ReadOnlySqlTransaction):
            reader.execute("SELECT pgbillion_tables.to_heap(ARRAY['known']::regclass[])")
        conn.execute("CREATE TABLE promoted (i int)")
        caught_up()
    primary.stop("immediate")
    with standby.connect() as conn:
        conn.execute("SELECT pg_promote()")
        run(conn, "INSERT INTO promoted VALUES (1); INSERT INTO unlogged VALUES (1)")
        assert one(conn, "SELECT count(*) FROM promoted") == 1
    _sound(standby, "postgres")
    log = standby.log.read_text()
    assert not re.search("PANIC|invalid page|TRAP", log), log


# ---- vacuum


def test_unused_tables_need_no_vacuum(conn: Connection) -> None:
    run(conn, "CREATE TABLE t (i int PRIMARY KEY, b text); CREATE TABLE u (i int)")
    frozen = (
        "SELECT bool_and(c.relfrozenxid = '0' AND c.relminmxid = '0' AND coalesce(o.relfrozenxid = '0', true))"
        " FROM pg_class c LEFT JOIN pg_class o ON o.oid = c.reltoastrelid WHERE c.oid = 't'::regclass"
    )
    assert one(conn, frozen)
    run(conn, "VACUUM FULL t; VACUUM FREEZE t; ANALYZE t; TRUNCATE t; BEGIN; INSERT INTO t VALUES (1); ROLLBACK")
    assert one(conn, frozen)
    conn.execute("INSERT INTO t VALUES (1)")
    assert one(
        conn,
        "SELECT bool_and(age(c.relfrozenxid) BETWEEN 0 AND 1000 AND mxid_age(c.relminmxid) >= 0)"
        " FROM pg_class c, pg_class t WHERE t.oid = 't'::regclass AND c.oid IN (t.oid, t.reltoastrelid)",
    )
    conn.execute("VACUUM FREEZE")
    assert one(conn, "SELECT age(datfrozenxid) < 1000 FROM pg_database WHERE datname = current_database()")
