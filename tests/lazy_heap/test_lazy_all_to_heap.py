"""CALL pgbillion_tables.all_to_heap(), and the mark that pg_upgrade stops at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from psycopg import errors

from harness import lazy, servers
from harness.lazy import run
from harness.servers import one
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

Connect = Callable[[], Connection]
_numbers = itertools.count(1)


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Connect]:
    with servers.new_database(cluster, f"all_to_heap{next(_numbers)}") as database, ExitStack() as stack:

        def connect() -> Connection:
            conn = stack.enter_context(cluster.connect(database))
            conn.execute("SET default_table_access_method = lazy_heap")
            return conn

        yield connect


def _marked(conn: Connection) -> bool:
    types = conn.execute(
        "SELECT atttypid::regtype::text FROM pg_attribute"
        " WHERE attrelid = 'pgbillion_tables.lazy_tables_left'::regclass"
        " AND attnum > 0"
    ).fetchall()
    assert types in ([("oid",)], [("regproc",)])
    return types == [("regproc",)]


def test_more_tables_than_a_transaction_takes(connect: Connect) -> None:
    conn = connect()
    notices: list[str] = []
    conn.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    assert not _marked(conn)
    run(conn, "BEGIN; CREATE TABLE gone (i int); ROLLBACK")
    assert not _marked(conn)
    run(conn, "; ".join(f"CREATE TABLE t{number} (i int PRIMARY KEY, b text)" for number in range(205)))
    run(conn, "CREATE MATERIALIZED VIEW m AS SELECT 1 AS i WITH NO DATA; CREATE UNLOGGED TABLE u (i int)")
    assert _marked(conn)
    conn.execute("CALL pgbillion_tables.all_to_heap()")
    assert notices == ["205 tables are ordinary heap tables now"]
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relfilenode = 1") == 0
    assert not _marked(conn)
    assert one(conn, "SELECT count(*) FROM pgbillion_tables.lazy_tables_left") == 0
    run(conn, "CREATE TABLE again (i int)")
    assert _marked(conn)
    run(conn, "INSERT INTO again VALUES (1); CALL pgbillion_tables.all_to_heap()")
    assert notices[1:] == ["0 tables are ordinary heap tables now"]
    assert not _marked(conn)
    for how in (
        "SAVEPOINT s; CREATE TABLE x (i int); RELEASE s",
        "SELECT pgbillion_tables.version(); CREATE TABLE y (i int)",
    ):
        run(conn, f"BEGIN; {how}; COMMIT")
        assert _marked(conn)
        conn.execute("CALL pgbillion_tables.all_to_heap()")
        assert not _marked(conn)
    run(conn, "CREATE TABLE moved (i int) USING heap; ALTER TABLE moved SET ACCESS METHOD lazy_heap")
    assert _marked(conn) or lazy.state(conn, "moved") != "lazy"


def test_not_in_a_transaction(connect: Connect) -> None:
    conn = connect()
    conn.execute("CREATE TABLE t (i int)")
    for before in (
        "BEGIN; ",
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS 'BEGIN CALL pgbillion_tables.all_to_heap();END'; ",
    ):
        with pytest.raises(errors.InvalidTransactionTermination, match="cannot run inside"):
            run(conn, before + ("SELECT f()" if "FUNCTION" in before else "CALL pgbillion_tables.all_to_heap()"))
        conn.execute("ROLLBACK")
    conn.execute("DO 'BEGIN CALL pgbillion_tables.all_to_heap();END'")
    assert lazy.state(conn, "t") == "heap"


def test_tables_of_others_are_left(connect: Connect) -> None:
    conn = connect()
    run(conn, "CREATE TABLE mine (i int); CREATE TABLE yours (i int); ALTER TABLE mine OWNER TO maker")
    maker = connect()
    maker.execute("SET ROLE maker")
    told: list[str] = []
    maker.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    maker.execute("CALL pgbillion_tables.all_to_heap()")
    assert told == ["1 table is an ordinary heap table now", "1 lazy table is left"]
    assert (lazy.state(conn, "mine"), lazy.state(conn, "yours")) == ("heap", "lazy")
    assert _marked(conn)
    conn.execute("CALL pgbillion_tables.all_to_heap()")
    assert not _marked(conn)


def test_beside_transactions_that_make_lazy_tables(connect: Connect) -> None:
    """The mark is there whenever a lazy table is: makers wait neither for one another, nor without end."""
    conn, first, second, monitor = (connect() for _ in range(4))
    run(first, "BEGIN; CREATE TABLE a (i int)")
    conn.execute("CALL pgbillion_tables.all_to_heap()")
    assert not _marked(conn)
    first.execute("COMMIT")
    assert _marked(conn)
    # one that has looked at the mark and not ended yet: all_to_heap() waits for it
    run(first, "BEGIN; CREATE TABLE b (i int); PREPARE TRANSACTION 'b'")
    run(second, "CREATE TABLE c (i int)")
    calling = Running(lambda: conn.execute("CALL pgbillion_tables.all_to_heap()"))
    until_blocked(monitor, conn, calling)
    first.execute("COMMIT PREPARED 'b'")
    calling.result()
    assert lazy.state(monitor, "b") == "lazy"
    assert _marked(monitor)
    conn.execute("CALL pgbillion_tables.all_to_heap()")
    assert not _marked(conn)


def test_caller_cannot_hold_up_makers_of_lazy_tables(connect: Connect) -> None:
    """Whoever may call it (anybody) may go on for long after."""
    conn = connect()
    conn.execute("CREATE TABLE t (i int)")
    conn.execute(
        "DO $$BEGIN CALL pgbillion_tables.all_to_heap();"
        " ASSERT NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'object'); END$$"
    )
    assert lazy.state(conn, "t") == "heap"
    assert not _marked(conn)


def test_somebody_elses_schema_of_that_name(connect: Connect) -> None:
    """Once the extension's has been renamed: nothing there is taken for ours."""
    conn = connect()
    run(
        conn,
        "CREATE TABLE t (i int, b text); ALTER SCHEMA pgbillion_tables RENAME TO renamed;"
        " CREATE SCHEMA pgbillion_tables",
    )
    run(conn, "CREATE TABLE pgbillion_tables.nothing USING heap AS SELECT 7 AS i, 'x'::text AS b")
    assert conn.execute("SELECT * FROM t").fetchall() == []
    run(conn, "INSERT INTO t SELECT * FROM t; DROP SCHEMA pgbillion_tables CASCADE; CREATE SCHEMA pgbillion_tables")
    for statement in (
        "CREATE VIEW pgbillion_tables.nothing AS SELECT 7 AS i",
        "CREATE VIEW pgbillion_tables.lazy_tables_left AS SELECT 7 AS i",
    ):
        conn.execute(statement)
        run(conn, "CREATE TABLE u (i int); SELECT FROM u; DROP TABLE u")
