"""A columnar index: what it holds is what the table has, through every way in which either changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.quick


def check(conn: Connection, relation: str) -> int:
    """Compare an index with its table, and return how many blocks can be read from it."""
    assert conn.execute("SELECT * FROM pgbillion_rows.columns_check(%s)", [relation]).fetchall() == []
    return int(one(conn, "SELECT sum(readable_blocks) FROM pgbillion_rows.columns_status(%s)", relation))


def blocks(conn: Connection, table: str) -> int:
    return int(one(conn, "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::int", table))


@pytest.fixture
def table(conn: Connection) -> str:
    conn.execute("DROP TABLE IF EXISTS t CASCADE")
    conn.execute("CREATE TABLE t (id int, grp int, data real, word text, amount numeric(12,2))")
    conn.execute(
        "INSERT INTO t SELECT i, i % 10, i / 7.0, 'word ' || i % 100, i / 100.0 FROM generate_series(1, 30000) i"
    )
    return "t"


def test_build(conn: Connection, table: str) -> None:
    conn.execute(f"VACUUM {table}")
    conn.execute(f"CREATE INDEX t_columns ON {table} USING columns (grp, data, word, amount, id)")
    assert check(conn, "t_columns") == blocks(conn, table)


def test_nothing_is_held_before_a_vacuum(conn: Connection, table: str) -> None:
    notices: list[str] = []
    conn.add_notice_handler(lambda told: notices.append(f"{told.message_primary}|{told.message_hint}"))
    conn.execute(f"CREATE INDEX t_columns ON {table} USING columns (grp)")
    assert len(notices) == 1
    assert "holds 0 of the" in notices[0]
    assert "VACUUM" in notices[0]
    assert check(conn, "t_columns") == 0
    conn.execute(f"VACUUM {table}")
    assert check(conn, table) == blocks(conn, table)


def test_the_number_of_rows_is_for_those_who_can_count_them(conn: Connection, table: str) -> None:
    conn.execute(f"VACUUM {table}")
    conn.execute(f"CREATE INDEX t_columns ON {table} USING columns (grp)")

    def rows(role: str, of: str = "t_columns") -> int | None:
        conn.execute(f"SET ROLE {role}".encode())
        try:
            found = conn.execute("SELECT rows, readable_blocks > 0 FROM pgbillion_rows.columns_status(%s)", [of])
            answer = found.fetchone()
        finally:
            conn.execute("RESET ROLE")
        # blocks are no secret: pg_class has them for everybody
        assert answer is not None
        assert answer[1]
        return int(answer[0]) if answer[0] is not None else None

    assert rows("reader") is None
    assert rows("reader", table) is None
    # one column suffices for count(*)
    conn.execute(f"GRANT SELECT (word) ON {table} TO reader")
    assert rows("reader") == 30000
    conn.execute(f"CREATE POLICY ones ON {table} USING (grp = 1); ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    assert rows("reader") is None
    conn.execute("SET row_security = off")
    assert rows("reader") is None
    conn.execute("RESET row_security")
    assert rows("postgres") == 30000
    conn.execute(f"ALTER TABLE {table} OWNER TO maker")
    assert rows("maker") == 30000
    conn.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    assert rows("maker") is None


@pytest.fixture
def lazy_writer(cluster: Cluster) -> Iterator[None]:
    """Commits reach the disk only when somebody flushes WAL, for as long as a test takes."""
    with cluster.connect() as conn:
        conn.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        conn.execute("ALTER SYSTEM SET synchronous_commit = off")
        conn.execute("SELECT pg_reload_conf()")
    yield
    with cluster.connect() as conn:
        conn.execute("ALTER SYSTEM RESET wal_writer_delay")
        conn.execute("ALTER SYSTEM RESET synchronous_commit")
        conn.execute("SELECT pg_reload_conf()")


def load(conn: Connection) -> None:
    """Fill a table by a transaction whose commit is not flushed."""
    conn.execute("DROP TABLE IF EXISTS s")
    conn.execute("CREATE TABLE s (i int); INSERT INTO s SELECT generate_series(1, 5000)")


def test_vacuum_right_after_an_asynchronous_commit(
    cluster: Cluster, conn: Connection, database: str, lazy_writer: None
) -> None:
    with cluster.connect(database) as session:
        session.execute("LOAD 'pgbillion_rows'")
        assert one(session, "SHOW synchronous_commit") == "off"
        load(session)
        session.execute("CREATE INDEX s_columns ON s USING columns (i)")
        session.execute("INSERT INTO s SELECT generate_series(1, 5000)")
        session.execute("VACUUM s")
        assert check(session, "s_columns") == blocks(session, "s")


def test_vacuum_as_the_notice_of_create_index_says(
    cluster: Cluster, conn: Connection, database: str, lazy_writer: None
) -> None:
    """In sessions that load the library only when they open the index."""
    with cluster.connect(database) as session, cluster.connect(database) as other:
        # dropping a table with such an index would load it
        with cluster.connect(database) as third:
            third.execute("DROP TABLE IF EXISTS s")
        load(session)
        session.execute("VACUUM s")
        assert one(session, "SELECT relallvisible FROM pg_class WHERE oid = 's'::regclass") == 0
        session.execute("CREATE INDEX s_columns ON s USING columns (i)")
        other.execute("VACUUM s")
        assert check(other, "s_columns") == blocks(other, "s")
