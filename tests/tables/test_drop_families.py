"""Tables that refer to each other, or to others that stay, dropped in one call."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from harness import catalogs as catalog
from harness import invariants
from harness.catalogs import Catalogs
from harness.servers import one
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

STAYS = """
    CREATE SCHEMA IF NOT EXISTS t; SET search_path = t;
    CREATE TABLE stays (id int PRIMARY KEY, other int UNIQUE);
    INSERT INTO stays SELECT n, n FROM generate_series(1, 9) n;
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
"""
FAMILY = """
    CREATE TABLE a (id int PRIMARY KEY, s int REFERENCES stays ON DELETE CASCADE, o int REFERENCES stays (other));
    CREATE TABLE b (id serial PRIMARY KEY, a int REFERENCES a, up int REFERENCES b, rec a,
        n bigint DEFAULT nextval('b_id_seq'));
    CREATE TABLE c (id int PRIMARY KEY DEFAULT nextval('b_id_seq'), b int REFERENCES b DEFERRABLE, txt text UNIQUE);
    ALTER TABLE a ADD COLUMN c int REFERENCES c;
    CREATE POLICY p ON c USING (EXISTS (SELECT FROM a WHERE a.c = c.id));
    CREATE TRIGGER t AFTER INSERT ON c FOR EACH ROW WHEN (NEW.* IS NOT NULL) EXECUTE FUNCTION noted();
"""


def drop(conn: Connection, tables: str, *, cascade: bool = False) -> int:
    names = "{" + ",".join(tables.split()) + "}"
    return int(one(conn, f"SELECT pgbillion_tables.drop_tables('{names}'::regclass[], {str(cascade).lower()})"))


@pytest.fixture
def family(conn: Connection, catalogs: Catalogs) -> dict[str, int]:
    """The tables, with rows; what the catalogs had before."""
    conn.execute(STAYS)
    before = catalog.counts(conn, catalogs)
    conn.execute(FAMILY)
    conn.execute("INSERT INTO a VALUES (1, 1, 1); INSERT INTO b VALUES (1, 1, 1); INSERT INTO c VALUES (1, 1)")
    # the relation cache has the triggers
    conn.execute("DELETE FROM stays WHERE id = 9")
    return before


@pytest.mark.parametrize("tables", ["a b c", "c b a", "a b c stays"])
def test_all_of_them(conn: Connection, catalogs: Catalogs, family: dict[str, int], tables: str) -> None:
    assert drop(conn, tables) == len(tables.split())
    if "stays" not in tables:
        assert catalog.counts(conn, catalogs) == family
        conn.execute("UPDATE stays SET other = -other; DELETE FROM stays")
        assert one(conn, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'stays'::regclass") == 0
    assert (
        one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^[abc](_|$)' AND relnamespace = 't'::regnamespace")
        == 0
    )


@pytest.mark.parametrize("tables", ["a", "b", "a b", "a c", "b c", "stays", "a stays", "b c stays"])
def test_some_of_them(conn: Connection, catalogs: Catalogs, family: dict[str, int], tables: str) -> None:
    """As DROP TABLE: refused, and cascaded to the same."""
    before = catalog.counts(conn, catalogs)
    with pytest.raises(errors.DependentObjectsStillExist):
        drop(conn, tables)
    assert catalog.counts(conn, catalogs) == before
    with conn.transaction(force_rollback=True):
        conn.execute(f"DROP TABLE {', '.join(tables.split())} CASCADE")
        cascaded = catalog.counts(conn, catalogs)
    assert drop(conn, tables, cascade=True) == len(tables.split())
    assert catalog.counts(conn, catalogs) == cascaded


@pytest.mark.parametrize(
    "more",
    [
        "CREATE VIEW v AS SELECT * FROM a",
        "CREATE TABLE d (a int REFERENCES a)",
        "CREATE TABLE d () INHERITS (c)",
        "CREATE CONSTRAINT TRIGGER k AFTER INSERT ON stays FROM c FOR EACH ROW EXECUTE FUNCTION noted()",
        "CREATE POLICY q ON stays USING (EXISTS (SELECT FROM b))",
        "CREATE TABLE d (c int DEFAULT nextval('b_id_seq'))",
    ],
)
def test_with_something_else(conn: Connection, catalogs: Catalogs, family: dict[str, int], more: str) -> None:
    """What depends on one of them leaves all to PostgreSQL."""
    conn.execute(more.encode())
    before = catalog.counts(conn, catalogs)
    with conn.transaction(force_rollback=True):
        try:
            conn.execute("DROP TABLE a, b, c")
            refused = False
        except errors.DependentObjectsStillExist:
            refused = True
    if refused:
        with pytest.raises(errors.DependentObjectsStillExist):
            drop(conn, "a b c")
        assert catalog.counts(conn, catalogs) == before
    else:
        with conn.transaction(force_rollback=True):
            drop(conn, "a b c")
    with conn.transaction(force_rollback=True):
        conn.execute("DROP TABLE a, b, c CASCADE")
        cascaded = catalog.counts(conn, catalogs)
    assert drop(conn, "a b c", cascade=True) == 3
    assert catalog.counts(conn, catalogs) == cascaded


def test_many_of_one(cluster: Cluster, conn: Connection, catalogs: Catalogs) -> None:
    """A thousand tables that refer to one that stays: it is itself again afterwards, for other sessions, too."""
    conn.execute(STAYS)
    before = catalog.counts(conn, catalogs)
    conn.execute("CREATE TABLE model (id serial PRIMARY KEY, s int REFERENCES stays, up int REFERENCES model)")
    one(conn, "SELECT pgbillion_tables.create_tables('model', 'm%d', 1, 1000)")
    with cluster.connect(conn.info.dbname) as other:
        other.execute("SET search_path = t; DELETE FROM stays WHERE id = 1")
        assert (
            one(
                conn,
                "SELECT pgbillion_tables.drop_tables(array_agg(oid::regclass)) FROM pg_class WHERE relkind = 'r'"
                " AND relname ~ '^m' AND relnamespace = 't'::regnamespace",
            )
            == 1001
        )
        other.execute("DELETE FROM stays WHERE id = 2")
    assert catalog.counts(conn, catalogs) == before
    conn.execute("CHECKPOINT")
    assert invariants.orphans(cluster.data, conn) == set()


LONE = {
    "a partition": "CREATE TABLE p (k int) PARTITION BY LIST (k); CREATE TABLE d PARTITION OF p FOR VALUES IN (1)",
    "a table with children": "CREATE TABLE d (i int); CREATE TABLE e () INHERITS (d)",
    "a table that had a child": "CREATE TABLE d (i int); CREATE TABLE e () INHERITS (d); DROP TABLE e",
    "a temporary table": "CREATE TEMP TABLE d (id serial PRIMARY KEY, t text); INSERT INTO d VALUES (1)",
    "a member of an extension": "CREATE TABLE d (i int); ALTER EXTENSION pgbillion_rows ADD TABLE d",
    "one whose sequence is": "CREATE TABLE d (id serial); ALTER EXTENSION pgbillion_rows ADD SEQUENCE d_id_seq",
    "a table in use": "CREATE TABLE d (i int); DECLARE k CURSOR FOR SELECT * FROM d; FETCH k",
    "one whose sequence is in use": "CREATE TABLE d (i serial); DECLARE k CURSOR FOR SELECT * FROM d_i_seq; FETCH k",
    "one with events of triggers": "CREATE TABLE d (i int UNIQUE DEFERRABLE INITIALLY DEFERRED);"
    " INSERT INTO d VALUES (1), (2); UPDATE d SET i = i + 1",
}


@pytest.mark.parametrize("kind", LONE)
def test_what_is_left_to_postgresql(conn: Connection, catalogs: Catalogs, kind: str) -> None:
    """Dropped, or refused, as by DROP TABLE."""

    def outcome(dropped: str) -> str | dict[str, int]:
        try:
            with conn.transaction(force_rollback=True):
                conn.execute(dropped.encode())
                return catalog.counts(conn, catalogs)
        except psycopg.Error as error:
            return f"{error.sqlstate} {error.diag.message_primary}"

    conn.execute(STAYS)
    with conn.transaction(force_rollback=True):
        conn.execute(LONE[kind].encode())
        by_postgresql = outcome("DROP TABLE d")
        assert outcome("SELECT pgbillion_tables.drop_tables('{d}'::regclass[])") == by_postgresql


MANY = """
    CREATE TABLE model (id int PRIMARY KEY);
    SELECT pgbillion_tables.create_tables('model', 'm%d', 1, 40)
"""
NAMED = " ".join(f"m{number}" for number in range(1, 41))


def test_rows_that_everybody_sees(conn: Connection, catalogs: Catalogs) -> None:
    """VACUUM has marked the pages of catalogs, and sequential scans trust that."""
    conn.execute(STAYS)
    before = catalog.counts(conn, catalogs)
    conn.execute(MANY)
    for name in ("pg_class", "pg_attribute", "pg_depend", "pg_type", "pg_index", "pg_constraint"):
        conn.execute(f"VACUUM {name}".encode())
    assert one(conn, "SELECT relallvisible FROM pg_class WHERE oid = 'pg_class'::regclass") > 0
    assert drop(conn, f"model {NAMED}") == 41
    conn.execute("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off")
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^m[0-9]+$'") == 0
    assert one(conn, "SELECT count(*) FROM pg_type WHERE typname ~ '^_?m[0-9]+$'") == 0
    conn.execute("RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan")
    assert catalog.counts(conn, catalogs) == before


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_rows_that_others_change(cluster: Cluster, conn: Connection, catalogs: Catalogs, end: str) -> None:
    """GRANT on a type takes no lock on its table: the row is waited for, and not deleted from under it."""
    conn.execute(STAYS)
    before = catalog.counts(conn, catalogs)
    conn.execute(MANY)
    with cluster.connect(conn.info.dbname) as other:
        other.execute("BEGIN; GRANT USAGE ON TYPE t.m7 TO reader")
        dropping = Running(lambda: drop(conn, f"model {NAMED}"))
        until_blocked(other, conn, dropping)
        other.execute(end.encode())
        if end == "COMMIT":
            with pytest.raises(errors.InternalError, match="tuple concurrently updated"):
                dropping.result(60)
            assert one(other, "SELECT count(*) FROM pg_class WHERE relname ~ '^m[0-9]+$'") == 40
            assert drop(conn, f"model {NAMED}") == 41
        else:
            assert dropping.result(60) == 41
    assert catalog.counts(conn, catalogs) == before


@pytest.mark.usefixtures("family")
def test_locks(cluster: Cluster, conn: Connection) -> None:
    """A table that stays is locked as by DROP TABLE, and may be in use by a cursor of the session's, as there."""
    with cluster.connect(conn.info.dbname) as other:
        with conn.transaction():
            assert drop(conn, "a b c") == 3
            reading = Running(lambda: one(other, "SELECT count(*) FROM t.stays"))
            assert (
                one(
                    conn,
                    "SELECT count(*) FROM pg_locks WHERE relation = 'stays'::regclass AND mode ="
                    " 'AccessExclusiveLock' AND granted",
                )
                == 1
            )
        assert reading.result(60) == 8
    conn.execute(FAMILY)
    with conn.transaction(force_rollback=True):
        conn.execute("DECLARE reading CURSOR FOR SELECT * FROM stays; FETCH reading")
        assert drop(conn, "a b c") == 3
        assert len(conn.execute("FETCH ALL FROM reading").fetchall()) == 7


@pytest.mark.usefixtures("family")
def test_rollback(conn: Connection, catalogs: Catalogs) -> None:
    before = catalog.counts(conn, catalogs)
    with conn.transaction(force_rollback=True):
        drop(conn, "a b c")
        conn.execute("DELETE FROM stays")
    assert catalog.counts(conn, catalogs) == before
    with pytest.raises(errors.ForeignKeyViolation):
        conn.execute("DELETE FROM stays WHERE id = 1")
