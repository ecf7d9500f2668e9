"""Templates with parents and with children: their tables are children as ALTER TABLE … INHERIT makes them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from psycopg import errors

from harness import catalogs as catalog
from harness import compare, subject, templates
from harness.catalogs import Catalogs
from harness.clones import dump
from harness.compare import Batch
from harness.servers import one
from harness.sessions import Running
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


INHERIT = "ALTER TABLE {table} INHERIT "

# how the template comes to be, and what is said of each table by core
CASES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "child": (
        "CREATE TABLE t.parent (id int PRIMARY KEY, note text DEFAULT 'x' CHECK (note <> ''), org int NOT NULL);"
        "CREATE TABLE t.template () INHERITS (t.parent)",
        (INHERIT + "t.parent",),
    ),
    "child_with_more": (
        "CREATE TABLE t.parent (id serial, note text COLLATE \"C\" NOT NULL, CONSTRAINT positive CHECK (id > 0),"
        " CONSTRAINT only_here CHECK (id < 9) NO INHERIT);"
        "CREATE TABLE t.template (own serial PRIMARY KEY, note text COLLATE \"C\" DEFAULT 'child', CHECK (own > id),"
        " g int GENERATED ALWAYS AS (own + 1) STORED) INHERITS (t.parent); CREATE INDEX ON t.template (note)",
        (INHERIT + "t.parent",),
    ),
    "several_parents": (
        "CREATE TABLE t.one (a int, b text NOT NULL, CHECK (a > 0)); CREATE TABLE t.two (b text, c int);"
        "CREATE TABLE t.three (a int, d int, CONSTRAINT one_a_check CHECK (a > 0));"
        "CREATE TABLE t.template (e int) INHERITS (t.two, t.one, t.three)",
        (INHERIT + "t.two", INHERIT + "t.one", INHERIT + "t.three"),
    ),
    "later_parent": (
        "CREATE TABLE t.one (a int); CREATE TABLE t.two (a int, b int); CREATE TABLE t.template (b int, gone int,"
        " a int) INHERITS (t.one); ALTER TABLE t.template DROP gone; ALTER TABLE t.template INHERIT t.two;"
        "ALTER TABLE t.one ADD z int; ALTER TABLE t.template NO INHERIT t.one; ALTER TABLE t.template INHERIT t.one",
        (INHERIT + "t.two", INHERIT + "t.one"),
    ),
    "grandchild": (
        "CREATE TABLE t.grandparent (a int NOT NULL); CREATE TABLE t.parent (b int) INHERITS (t.grandparent);"
        "CREATE TABLE t.template (c int) INHERITS (t.parent)",
        (INHERIT + "t.parent",),
    ),
    "child_with_children": (
        "CREATE TABLE t.parent (a int); CREATE TABLE t.template (b int) INHERITS (t.parent);"
        "CREATE TABLE t.child (c int) INHERITS (t.template); INSERT INTO t.child VALUES (1, 2, 3)",
        (INHERIT + "t.parent",),
    ),
    "parent": (
        "CREATE TABLE t.template (a int PRIMARY KEY, b text CHECK (b <> '')); CREATE TABLE t.child () INHERITS"
        " (t.template)",
        (),
    ),
    "everything": (
        "CREATE TABLE t.parent (id int PRIMARY KEY, org int); CREATE TABLE t.other (id int PRIMARY KEY);"
        "CREATE TABLE t.log (what text); CREATE TABLE t.template (code text) INHERITS (t.parent);"
        "ALTER TABLE t.template ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other;"
        "CREATE RULE r AS ON INSERT TO t.template DO ALSO INSERT INTO t.log (what) VALUES (NEW.code);"
        "CREATE POLICY p ON t.template USING (org IN (SELECT other.id FROM t.other));"
        "COMMENT ON TABLE t.template IS 'a child'",
        (
            INHERIT + "t.parent",
            "ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other",
            "CREATE RULE r AS ON INSERT TO {table} DO ALSO INSERT INTO t.log (what) VALUES (NEW.code)",
            "CREATE POLICY p ON {table} USING (org IN (SELECT other.id FROM t.other))",
        ),
    ),
    "odd_names": (
        'CREATE SCHEMA "Odd\'s"; CREATE TABLE "Odd\'s"."a ""parent""" (a int); CREATE TABLE t.template () INHERITS'
        ' ("Odd\'s"."a ""parent""")',
        (INHERIT + '"Odd\'s"."a ""parent"""',),
    ),
}  # fmt: skip


def make(conn: Connection, script: str) -> None:
    conn.execute(templates.WORLD)
    conn.execute(script.encode())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [1, 4, 40])
def test_tables(conn: Connection, catalogs: Catalogs, name: str, count: int) -> None:
    script, parts = CASES[name]
    make(conn, script)
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d", 1, count, parts=parts)) == []
    conn.execute('DROP SCHEMA IF EXISTS "Odd\'s" CASCADE')


FAMILY = (
    "CREATE TABLE t.grandparent (id int); CREATE TABLE t.parent (note text DEFAULT 'parent') INHERITS (t.grandparent);"
    "CREATE TABLE t.template (own int) INHERITS (t.parent)"
)


@pytest.mark.parametrize("access_method", ["heap", "lazy_heap"])
@pytest.mark.parametrize("count", [3, 100])
def test_rows_are_seen_through_the_parents(
    cluster: Cluster, database: str, conn: Connection, access_method: str, count: int
) -> None:
    """Also by statements that other sessions, and this one, planned before."""
    make(conn, FAMILY)
    conn.execute("SET plan_cache_mode = force_generic_plan; PREPARE here AS SELECT count(*) FROM t.parent")
    one(conn, "EXECUTE here")
    with cluster.connect(database) as other:
        other.execute(
            "SET plan_cache_mode = force_generic_plan; PREPARE a AS SELECT count(*) FROM t.grandparent;"
            "PREPARE b AS UPDATE t.parent SET note = 'seen' WHERE id > 0;"
            "PREPARE c AS SELECT count(*) FROM ONLY t.parent"
        )
        for statement in ("EXECUTE a", "EXECUTE b", "EXECUTE c"):
            other.execute(statement.encode())
        with conn.transaction():
            conn.execute(
                "SELECT pgbillion_tables.create_tables('t.template', 'x%%d', 1, %s, schema => 't',"
                " access_method => %s)",
                [count, access_method],
            )
            conn.execute(f"INSERT INTO t.x1 VALUES (1); INSERT INTO t.x2 VALUES (2); INSERT INTO t.x{count} VALUES (3)")
            assert one(conn, "EXECUTE here") == 3
            assert one(other, "EXECUTE a") == 0
        assert one(other, "EXECUTE a") == 3
        assert one(other, "EXECUTE c") == 0
        assert other.execute("EXECUTE b").rowcount == 3
        other.execute("ALTER TABLE t.grandparent ADD more int DEFAULT 7; ALTER TABLE t.parent RENAME note TO renamed")
        assert conn.execute(f"SELECT id, renamed, more FROM t.x{count}").fetchall() == [(3, "seen", 7)]
        # as in every table made a child: the column is its own, too
        other.execute("ALTER TABLE t.parent DROP renamed")
        assert conn.execute("SELECT renamed FROM t.x2").fetchall() == [("seen",)]
        other.execute("ANALYZE t.grandparent; TRUNCATE t.grandparent")
        assert one(conn, "SELECT count(*) FROM t.x1") == 0


@pytest.mark.parametrize("how", ["rollback", "savepoint"])
def test_rollback(conn: Connection, catalogs: Catalogs, how: str) -> None:
    make(conn, FAMILY)
    before = catalog.counts(conn, catalogs)
    conn.execute("SET plan_cache_mode = force_generic_plan; PREPARE here AS SELECT count(*) FROM t.parent")
    with conn.transaction(force_rollback=how == "rollback"):
        conn.execute("SAVEPOINT a")
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 40, schema="t")
        conn.execute("INSERT INTO t.x40 (id) VALUES (1)")
        assert one(conn, "EXECUTE here") == 1
        if how == "savepoint":
            conn.execute("ROLLBACK TO a")
            assert one(conn, "EXECUTE here") == 0
    assert one(conn, "EXECUTE here") == 0
    assert catalog.counts(conn, catalogs) == before


def test_parents_of_others(conn: Connection, catalogs: Catalogs) -> None:
    """Refused as by core, and without a lock on what is not the caller's."""
    make(conn, FAMILY)
    conn.execute(
        "GRANT USAGE ON SCHEMA t TO maker; GRANT SELECT ON t.template TO maker; CREATE SCHEMA target AUTHORIZATION"
        " maker; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker"
    )
    try:
        before = catalog.counts(conn, catalogs)
        conn.execute("SET ROLE maker; BEGIN")
        with pytest.raises(errors.InsufficientPrivilege, match="must be owner of table parent"), conn.transaction():
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="target")
        assert one(conn, "SELECT count(*) FROM pg_locks WHERE relation = 't.parent'::regclass") == 0
        conn.execute("COMMIT; RESET ROLE")
        assert catalog.counts(conn, catalogs) == before
        conn.execute("ALTER TABLE t.parent OWNER TO maker")
        batch = Batch("x%d", 1, 5, role="maker", parts=(INHERIT + "t.parent",))
        assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []
    finally:
        conn.execute("RESET ROLE; DROP OWNED BY maker CASCADE; GRANT CREATE ON TABLESPACE space1, space2 TO maker")


def test_temporary_parent(conn: Connection, catalogs: Catalogs) -> None:
    make(conn, "CREATE TEMPORARY TABLE parent (i int); CREATE TEMPORARY TABLE template () INHERITS (parent)")
    before = catalog.counts(conn, catalogs)
    with pytest.raises(errors.WrongObjectType, match="temporary"):
        subject.create_tables(conn, "pg_temp.template", "x%d", 1, 5, schema="t")
    assert catalog.counts(conn, catalogs) == before
    conn.execute("CREATE TABLE t.lasting (i int); CREATE TEMPORARY TABLE child () INHERITS (t.lasting)")
    batch = Batch("x%d", 1, 5, parts=(INHERIT + "t.lasting",))
    assert compare.differences(conn, catalogs, "pg_temp.child", batch) == []


def test_names_in_the_way(conn: Connection) -> None:
    make(conn, FAMILY)
    conn.execute(
        "CREATE SCHEMA evil; CREATE TABLE evil.parent (id int, note text); CREATE TEMPORARY TABLE parent (id int)"
    )
    with conn.transaction():
        conn.execute("SET LOCAL search_path = evil, t")
        subject.create_tables(conn, "t.template", "x%d", 1, 5, schema="t")
    assert one(conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 't.parent'::regclass") == 6
    assert one(conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'evil.parent'::regclass") == 0


def test_parent_is_locked(cluster: Cluster, database: str, conn: Connection) -> None:
    """As by core: neither dropped nor changed before the tables are there, and then with them."""
    make(conn, FAMILY)
    with cluster.connect(database) as other, cluster.connect(database) as third:
        with conn.transaction():
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 40, schema="t")
            assert one(other, "SELECT count(*) FROM t.parent") == 0
            # before the change waits, as later statements wait behind it
            third.execute("INSERT INTO t.parent VALUES (1)")
            changing = Running(lambda: other.execute("ALTER TABLE t.parent ADD late int DEFAULT 4"))
            assert not changing.done
        changing.result(60)
        assert one(conn, "SELECT count(*) FROM pg_attribute WHERE attname = 'late'") == 42
        conn.execute("INSERT INTO t.x40 (id) VALUES (1)")
        assert one(third, "SELECT sum(late) FROM t.parent") == 8
        # the other way round: whoever changes the parent is waited for
        with other.transaction():
            other.execute("ALTER TABLE t.parent RENAME TO renamed; CREATE TABLE t.parent (id int, note text, late int)")
            making = Running(lambda: subject.create_tables(conn, templates.TEMPLATE, "y%d", 1, 5, schema="t"))
            assert not making.done
        assert making.result(60) == 5
        assert one(conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 't.renamed'::regclass") == 46
        assert one(conn, "SELECT count(*) FROM pg_inherits WHERE inhparent = 't.parent'::regclass") == 0
        with pytest.raises(errors.DependentObjectsStillExist):
            other.execute("DROP TABLE t.renamed")


@pytest.mark.parametrize("access_method", ["heap", "lazy_heap"])
@pytest.mark.parametrize("count", [3, 40])
def test_children_dropped_in_bulk(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, access_method: str, count: int
) -> None:
    """Statements planned over the parent go on without them; the parent is not locked, as by DROP TABLE."""
    make(conn, FAMILY)
    before = catalog.counts(conn, catalogs)
    conn.execute(
        "SELECT pgbillion_tables.create_tables('t.template', 'x%%d', 1, %s, schema => 't', access_method => %s)",
        [count, access_method],
    )
    drop = "SELECT pgbillion_tables.drop_tables(array_agg(format('t.x%%s', n)::regclass)) FROM generate_series(1, %s) n"
    conn.execute("INSERT INTO t.x1 VALUES (1); INSERT INTO t.parent VALUES (2)")
    with cluster.connect(database) as other:
        other.execute("SET plan_cache_mode = force_generic_plan; PREPARE a AS SELECT count(*) FROM t.grandparent")
        assert one(other, "EXECUTE a") == 2
        with conn.transaction(force_rollback=True):
            conn.execute(drop, [count])
            assert one(conn, "SELECT count(*) FROM t.grandparent") == 1
            # by PostgreSQL's deletions each row type would have a lock
            assert one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND pid = pg_backend_pid()") == 0
            other.execute("INSERT INTO t.parent VALUES (3)")
        assert one(other, "EXECUTE a") == 3
        assert conn.execute(drop, [count]).fetchall() == [(count,)]
        assert one(other, "EXECUTE a") == 2
    assert catalog.counts(conn, catalogs) == before
    assert one(conn, "SELECT count(*) FROM t.parent") == 2


@pytest.mark.parametrize("tables", ["parent", "x1, parent", "grandparent, parent, template, x1, x2, x3", "x1, x3"])
def test_parents_dropped(conn: Connection, catalogs: Catalogs, tables: str) -> None:
    """As DROP TABLE: refused or done, and cascaded to the same."""
    make(conn, FAMILY)
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 3, schema="t")
    listed = ", ".join(f"t.{table}" for table in tables.split(", "))
    before = catalog.counts(conn, catalogs)
    for cascade in (False, True):
        expected: dict[str, int] | None = None
        with conn.transaction(force_rollback=True):
            try:
                conn.execute(f"DROP TABLE {listed}{' CASCADE' if cascade else ''}")
                expected = catalog.counts(conn, catalogs)
            except errors.DependentObjectsStillExist:
                pass
        with conn.transaction(force_rollback=True):
            call = f"SELECT pgbillion_tables.drop_tables('{{{listed}}}', {cascade})"
            if expected is None:
                with pytest.raises(errors.DependentObjectsStillExist), conn.transaction():
                    conn.execute(call.encode())
                assert catalog.counts(conn, catalogs) == before
            else:
                assert one(conn, call) == len(tables.split(", "))
                assert catalog.counts(conn, catalogs) == expected


def test_dump_and_restore(cluster: Cluster, database: str, conn: Connection) -> None:
    """Rules and parents of stamped tables come back as they are dumped."""
    make(conn, CASES["everything"][0])
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="t")
    conn.execute("INSERT INTO t.other VALUES (1); INSERT INTO t.x4 (id, org) VALUES (1, 1)")
    first = dump(cluster, database, "t")
    assert first.count("INHERITS (SCHEMA.parent)") == 6
    conn.execute("CREATE DATABASE restored")
    try:
        with cluster.connect("restored") as there:
            there.execute(first.replace("SCHEMA SCHEMA", "SCHEMA t").replace("SCHEMA.", "t.").encode())
        assert dump(cluster, "restored", "t") == first
    finally:
        conn.execute("DROP DATABASE restored")
