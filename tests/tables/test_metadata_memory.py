"""pgbillion_tables.metadata_memory: catalog caches end at the limit, and nothing else of a session is disturbed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from harness import regress
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors


TABLES = 1500
# a table with its primary key takes 7 kB or more
WITHOUT = 9_000_000
LIMIT = 3 * 1024 * 1024
# what the statement has read that looks at it, and what was read since the caches were last looked at
MORE = 1_500_000


@pytest.fixture
def tables(conn: Connection) -> Connection:
    conn.execute(
        "CREATE SCHEMA t; CREATE TABLE t.t (id integer PRIMARY KEY, a text, b numeric);"
        "INSERT INTO t.t VALUES (1, 'x', 2)"
    )
    conn.execute(f"SELECT pgbillion_tables.create_tables('t.t', 't%d', 1, {TABLES}, schema => 't')".encode())
    return conn


@pytest.fixture
def session(cluster: Cluster, tables: Connection) -> Iterator[Connection]:
    """Another session, which has read nothing yet."""
    with cluster.connect(tables.info.dbname) as other:
        other.execute("LOAD 'pgbillion_tables'")
        yield other


def visit(conn: Connection, first: int = 1, last: int = TABLES) -> None:
    for number in range(first, last + 1):
        conn.execute(f"SELECT a FROM t.t{number} WHERE id = 1".encode())


def visit_in_transaction(conn: Connection) -> None:
    with conn.transaction():
        visit(conn)


def visit_in_function(conn: Connection) -> None:
    conn.execute(
        f"DO $$ BEGIN FOR i IN 1..{TABLES} LOOP EXECUTE format('SELECT a FROM t.t%s WHERE id = 1', i);"
        " END LOOP; END $$".encode()
    )


def visit_by_commands(conn: Connection) -> None:
    for number in range(1, TABLES + 1):
        conn.execute(f"COMMENT ON TABLE t.t{number} IS 'seen'".encode())


def held(conn: Connection) -> tuple[int, int, int]:
    """Bytes of caches and plans, and how often the caches were given up."""
    caches, plans, given_up = conn.execute("SELECT * FROM pgbillion_tables.metadata_memory()").fetchall()[0]
    return caches, plans, given_up


@pytest.mark.parametrize("how", [visit, visit_in_transaction, visit_in_function])
def test_growth_ends_at_the_limit(session: Connection, how: Callable[[Connection], None]) -> None:
    session.execute(f"SET pgbillion_tables.metadata_memory = '{LIMIT // 1024}kB'".encode())
    most = 0
    for _ in range(2):
        how(session)
        most = max(most, held(session)[0])
    assert most < LIMIT + MORE
    assert held(session)[2] >= 4

    session.execute("RESET pgbillion_tables.metadata_memory")
    given_up = held(session)[2]
    how(session)
    caches, _, times = held(session)
    assert caches > WITHOUT
    assert times == given_up

    session.execute(f"SET pgbillion_tables.metadata_memory = '{LIMIT // 1024}kB'".encode())
    caches, _, times = held(session)
    assert caches < LIMIT
    assert times == given_up + 1


def test_commands_are_counted_where_their_transactions_end(session: Connection) -> None:
    session.execute(f"SET pgbillion_tables.metadata_memory = '{LIMIT // 1024}kB'".encode())
    visit_by_commands(session)
    caches, _, times = held(session)
    assert times > 0
    assert caches < LIMIT + MORE


def test_memory_is_used_again(session: Connection) -> None:
    """What the server takes of the system ends, too, which is what the setting is for."""
    query = "SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts"
    session.execute(f"SET pgbillion_tables.metadata_memory = '{LIMIT // 1024}kB'".encode())
    visit(session)
    ((before,),) = session.execute(query.encode()).fetchall()
    for _ in range(2):
        visit(session)
    ((after,),) = session.execute(query.encode()).fetchall()
    # blocks double, so that one more can come
    assert after < before + LIMIT


def test_plans_are_told_apart(session: Connection) -> None:
    before, plans, _ = held(session)
    for number in range(200):
        session.execute(f"PREPARE p{number} AS SELECT * FROM t.t1 WHERE id = $1 AND a = 'p{number}'".encode())
    caches, more, _ = held(session)
    assert more > plans + 200 * 1000
    assert caches < before + 200_000
    session.execute("DEALLOCATE ALL")
    assert held(session)[1] < plans + 100_000


def test_what_goes_on_meanwhile(session: Connection, tables: Connection) -> None:
    """Cursors, prepared statements, temporary tables, new tables of the transaction and what others change."""
    session.execute("SET pgbillion_tables.metadata_memory = '1MB'")
    session.execute("PREPARE one (integer) AS SELECT a FROM t.t WHERE id = $1")
    session.execute(
        "DECLARE kept CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 3) n; CREATE TEMP TABLE mine (n int)"
    )
    session.execute(
        "CREATE FUNCTION pg_temp.f(i int) RETURNS text LANGUAGE plpgsql"
        " AS 'BEGIN RETURN (SELECT a FROM t.t WHERE id = i); END'"
    )
    assert session.execute("SELECT pg_temp.f(1)").fetchall() == [("x",)]
    visit(session, 1, 400)
    assert held(session)[2] > 0

    with session.transaction():
        session.execute(
            "CREATE TABLE t.new (n int PRIMARY KEY); INSERT INTO t.new VALUES (1);"
            "TRUNCATE t.t1; INSERT INTO t.t1 VALUES (7);"
            "DECLARE within CURSOR FOR SELECT a FROM t.t; FETCH 0 FROM within; SAVEPOINT s; INSERT INTO mine VALUES (1)"
        )
        times = held(session)[2]
        visit(session, 1, 400)
        assert held(session)[2] > times
        session.execute("INSERT INTO t.new VALUES (2); ROLLBACK TO s; INSERT INTO t.new VALUES (3)")
        visit(session, 1, 400)
        assert session.execute("FETCH ALL FROM within").fetchall() == [("x",)]
        assert session.execute("SELECT count(*) FROM mine").fetchall() == [(0,)]
        assert session.execute("SELECT array_agg(n ORDER BY n) FROM t.new").fetchall() == [([1, 3],)]
        with pytest.raises(psycopg.errors.UniqueViolation), session.transaction():
            session.execute("INSERT INTO t.new VALUES (3)")
    assert session.execute("SELECT id FROM t.t1").fetchall() == [(7,)]
    assert session.execute("FETCH ALL FROM kept").fetchall() == [(1,), (2,), (3,)]
    assert session.execute("EXECUTE one (1)").fetchall() == [("x",)]

    tables.execute("ALTER TABLE t.t ALTER a TYPE varchar(3); UPDATE t.t SET a = 'new'")
    visit(session, 1, 400)
    assert session.execute("SELECT pg_temp.f(1)").fetchall() == [("new",)]
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan must not change result type"):
        session.execute("EXECUTE one (1)")


def test_the_setting(session: Connection) -> None:
    assert session.execute("SHOW pgbillion_tables.metadata_memory").fetchall() == [("0",)]
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        session.execute("SET pgbillion_tables.metadata_memory = -1")


# those that hold on to most while tables change: portals, plans, triggers, types, functions
TESTS = (
    "test_setup", "portals", "plancache", "transactions", "plpgsql", "triggers", "domain", "with", "temp",
    "partition_prune",
)  # fmt: skip
TINY = (("session_preload_libraries", "pgbillion_tables"), ("pgbillion_tables.metadata_memory", "64kB"))


def test_servers_own_regression_suite(installation: Installation) -> None:
    """With caches that are given up about as often as the clock lets it."""
    usual = regress.outcome(installation, (), TESTS)
    forgetful = regress.outcome(installation, TINY, TESTS)
    assert regress.differences(usual.results, forgetful.results) == {}
    assert forgetful.alarms == usual.alarms == []
    assert forgetful.tests == len(TESTS)
