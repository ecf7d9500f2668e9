"""Partitioned templates: each of their tables is a tree, with partitions as core's commands would make and attach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import errors, sql

from harness import catalogs as catalog
from harness import compare, oracle, subject, templates
from harness.amount import every, some
from harness.catalogs import Catalogs
from harness.clones import dump
from harness.compare import Batch
from harness.partitioned import CASES, LEVELS, Case, make
from harness.servers import one, until
from harness.sessions import Running, pid, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors


@pytest.mark.parametrize(
    ("name", "count"),
    some((name, count) for name in CASES for count in (1, 4))
    + [(name, 40) for name in ("hash", "numbered_names", "serial")],
)
def test_trees(conn: Connection, catalogs: Catalogs, installation: Installation, name: str, count: int) -> None:
    case = CASES[name]
    if installation.major < case.since:
        pytest.skip("not of this server")
    make(conn, case)
    assert compare.differences(conn, catalogs, templates.TEMPLATE, case.batch(8, count)) == []


def test_partition_as_template(conn: Connection, catalogs: Catalogs) -> None:
    """What it has from its parent is its own in the new tables, and in their partitions the new tables'."""
    parts = (
        "ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other",
        "CREATE TRIGGER g AFTER INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",
    )
    whole = "CREATE TABLE whole (id int PRIMARY KEY, org int) PARTITION BY RANGE (id); CREATE INDEX ON whole (org);"
    make(
        conn,
        Case(
            whole + "CREATE TABLE template PARTITION OF whole FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id);"
            "CREATE TABLE template_1 PARTITION OF template DEFAULT"
        ),
    )
    oracle.say(conn, parts, sql.Identifier("t", "whole"))
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d", 1, 4, parts=parts)) == []


def test_adopted_key(conn: Connection, catalogs: Catalogs) -> None:
    """A partition's key that became a part of its parent's keeps its name and its comment."""
    key = "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY (org) REFERENCES {}"
    own, comment = key.format("template_1", "mine", "other"), "COMMENT ON CONSTRAINT mine ON {} IS 'a key'"
    make(conn, Case(f"{LEVELS} {own}; {key.format('template', 'fk', 'other')}; {comment.format('template_1')}"))
    said = {"_1": (key.format("{table}", "mine", "t.other"), comment.format("{table}"))}
    batch = Batch("x%d", 1, 4, parts=(key.format("{table}", "fk", "t.other"),), partitions=said)
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


def test_renamed_keys(conn: Connection) -> None:
    """A key has another name where its parent's name was taken, and below; so it has in the new tables."""
    taken = "".join(f"ALTER TABLE {table} ADD CONSTRAINT fk CHECK (id > 0);" for table in ("template_1", "template_2"))
    make(conn, Case(f"{LEVELS} {taken} ALTER TABLE template ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES other"))
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 6, schema="t")

    def keys(root: str) -> list[tuple[Any, ...]]:
        """Which tables have them, under which names, and those of what they come from."""
        ending = "CASE WHEN starts_with({0}, %(root)s) THEN substr({0}, length(%(root)s) + 1) ELSE '_' || {0} END"
        query = (
            f"SELECT {ending.format('c.relname')}, k.conname, {ending.format('p.relname')}, above.conname"
            " FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid LEFT JOIN pg_constraint above"
            " ON above.oid = k.conparentid LEFT JOIN pg_class p ON p.oid = above.conrelid"
            " WHERE k.contype = 'f' AND k.conrelid IN (SELECT relid FROM pg_partition_tree('t.' || %(root)s))"
            " ORDER BY 1, 2"
        )
        return conn.execute(query.encode(), {"root": root}).fetchall()

    expected = keys("template")
    assert len({name for _, name, _, _ in expected}) > 1
    for n in (1, 2, 3, 6):
        assert keys(f"x{n}") == expected


@pytest.mark.parametrize("name_format", ["n" * 53 + "%d", "é" * 24 + "_%d", 'Odd\'s "%d" \\ {x}', "%x_"])
def test_names(conn: Connection, catalogs: Catalogs, name_format: str) -> None:
    """Where names are cut, those of different tables, partitions and columns are the same, and numbered."""
    long = "column_" * 8
    script = (
        f"CREATE TABLE template ({long}1 serial, {long}2 int UNIQUE) PARTITION BY LIST ({long}2);"
        f"CREATE TABLE template_a PARTITION OF template (PRIMARY KEY ({long}2)) FOR VALUES IN (1);"
        f"CREATE TABLE b PARTITION OF template FOR VALUES IN (2) PARTITION BY LIST ({long}2);"
        f"CREATE TABLE template_b_c PARTITION OF b ({long}1 DEFAULT 7) DEFAULT;"
        f"CREATE STATISTICS s ON {long}1, {long}2 FROM template_a;"
        f"CREATE INDEX ON template ({long}1); CREATE INDEX ON b ({long}1); CREATE INDEX ON b ({long}1)"
    )
    make(conn, Case(script))
    taken = sql.Identifier(oracle.object_name(name_format % 3 + "_a", None, "pkey")).as_string(conn)
    taken = taken.replace("{", "{{").replace("}", "}}")
    batch = Batch(name_format, 1, 5, prepare=("CREATE VIEW {schema}." + taken + " AS SELECT 1 AS one",))
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


def test_long_names(conn: Connection, catalogs: Catalogs) -> None:
    """Nothing is made, and no name cut, where the name of a partition of the last one is too long."""
    make(conn, Case(LEVELS))
    before = catalog.counts(conn, catalogs)
    for name_format, first in (("n" * 56 + "%d", 1), ("n" * 55 + "%d", 7), ("é" * 28 + "%d", 1)):
        with pytest.raises(errors.NameTooLong):
            subject.create_tables(conn, templates.TEMPLATE, name_format, first, 4, schema="t")
    assert catalog.counts(conn, catalogs) == before
    assert subject.create_tables(conn, templates.TEMPLATE, "n" * 55 + "%d", 1, 9, schema="t") == 9


@pytest.mark.parametrize("taken", ["x1_1", "x2_odd", "x5_2", "x5_2_rest", ""])
def test_names_that_are_taken(conn: Connection, catalogs: Catalogs, taken: str) -> None:
    """By others, or by another partition of the same tree."""
    twice = 'CREATE TABLE "2_rest" PARTITION OF template FOR VALUES FROM (20) TO (30)'
    make(conn, Case(LEVELS + (f"CREATE VIEW {taken} AS SELECT 1 AS one" if taken else twice)))
    before = catalog.counts(conn, catalogs)
    with pytest.raises(errors.DuplicateTable, match=f'"{taken or "x5_2_rest"}"'):
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="t")
    assert catalog.counts(conn, catalogs) == before


def test_cut_name_that_is_anothers(conn: Connection, catalogs: Catalogs) -> None:
    """An index of the last table would have the name that the first one's has, which is not cut."""
    make(conn, Case("CREATE TABLE template (k int, b int); CREATE INDEX ON template (b)"))
    batch = Batch("b" * 56 + "%d", 3, 28, compared=frozenset({3, 30}))
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


def test_numbers_beyond_ten_thousand(conn: Connection, catalogs: Catalogs) -> None:
    """Keys to partitions have names that are numbered in the whole schema, from 18 on."""
    most = 10000 if every() == 1 else 1000
    numbered = ", ".join(f"CONSTRAINT fk_{n} CHECK (a > 0)" for n in range(1, most + 1))
    key = "ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (at) REFERENCES t.split"
    make(conn, Case("CREATE TABLE template (at int)", {"": (key,)}))
    batch = Batch("x%d", 1, 4, parts=(key,), prepare=(f"CREATE TABLE {{schema}}.before (a int, {numbered})",))
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


@pytest.mark.parametrize("default", ["", "space3", "pg_default"])
@pytest.mark.parametrize("tablespaces", [None, ("space1", "space2"), ("pg_default", "space1")])
def test_tablespaces(conn: Connection, catalogs: Catalogs, tablespaces: tuple[str, ...] | None, default: str) -> None:
    """Partitioned tables that are to be in the database's own have none, whatever default_tablespace says."""
    indexes = "CREATE INDEX ON template (id); CREATE INDEX ON odd (code)"
    make(conn, Case(LEVELS + indexes + "; ALTER TABLE template_3 SET TABLESPACE space2"))
    batch = Batch("x%d", 1, 4, tablespaces=tablespaces, settings=(("default_tablespace", default),))
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


def test_temporary_template(conn: Connection, catalogs: Catalogs) -> None:
    make(conn, Case(""))
    script = LEVELS.replace("CREATE TABLE", "CREATE TEMPORARY TABLE") + "CREATE INDEX ON template (id)"
    conn.execute(script.encode())
    said = CASES["triggers"].said[""]
    oracle.say_of_all(conn, {"": said}, "pg_temp.template")
    assert compare.differences(conn, catalogs, "pg_temp.template", Batch("x%d", 1, 4, parts=said)) == []


@pytest.mark.parametrize("access_method", ["heap", "lazy_heap"])
@pytest.mark.parametrize("count", [4, 40])
def test_rows(cluster: Cluster, database: str, conn: Connection, access_method: str, count: int) -> None:
    """In the right partitions, checked, and seen by other sessions, whose plans may be older."""
    keys = "ALTER TABLE template ADD FOREIGN KEY (org) REFERENCES other, ADD PRIMARY KEY (id, at, org)"
    make(conn, Case(LEVELS + keys))
    conn.execute("SELECT set_config('default_table_access_method', %s, false)", [access_method])
    conn.execute("INSERT INTO t.other VALUES (1), (3), (4), (9); SET plan_cache_mode = force_generic_plan")
    where = "SELECT tableoid::regclass::text, id, code FROM t.x%d ORDER BY id"
    with cluster.connect(database) as other:
        other.execute(
            "SET plan_cache_mode = force_generic_plan; PREPARE gone AS DELETE FROM t.other WHERE id = $1;"
            "PREPARE templates AS SELECT count(*) FROM t.template; EXECUTE gone(9); EXECUTE templates"
        )
        with conn.transaction():
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, count, schema="t")
            for number in (1, 2, 3, count):
                conn.execute(f"PREPARE into_{number} AS INSERT INTO t.x{number} VALUES ($1, $2, $3, 'it')")
                for row in ("1, 5, 1", "2, 15, 1", "3, 15, 3", "4, 99, 4"):
                    conn.execute(f"EXECUTE into_{number} ({row})")
        for number in (1, 2, 3, count):
            x = f"t.x{number}"
            expected = [(f"{x}_1", 1, "it"), (f"{x}_odd", 2, "it"), (f"{x}_2_rest", 3, "it"), (f"{x}_3", 4, "it")]
            assert other.execute(where % number).fetchall() == conn.execute(where % number).fetchall() == expected
            other.execute(f"PREPARE all_{number} AS SELECT count(*) FROM {x} WHERE id > $1")
            for statement in (f"INSERT INTO {x} VALUES (3, 15, 3)", f"INSERT INTO {x}_odd VALUES (7, 15, 3)"):
                with pytest.raises((errors.UniqueViolation, errors.CheckViolation)):
                    other.execute(statement)
            # detached, attached, dropped and created as any partition
            conn.execute(f"ALTER TABLE {x} DETACH PARTITION {x}_1; ALTER TABLE {x}_2 DETACH PARTITION {x}_odd")
            assert one(other, f"EXECUTE all_{number} (0)") == 2
            conn.execute(f"ALTER TABLE {x}_2 ATTACH PARTITION {x}_odd FOR VALUES IN (1); DROP TABLE {x}_1")
            assert one(other, f"EXECUTE all_{number} (0)") == 3
            conn.execute(f"CREATE TABLE {x}_1 PARTITION OF {x} FOR VALUES FROM (0) TO (9)")
            conn.execute(f"EXECUTE into_{number} (5, 5, 1)")
            other.execute(f"UPDATE {x} SET at = 6 WHERE id = 4; ALTER TABLE {x} ADD late int DEFAULT 6")
            assert conn.execute(f"SELECT id, late FROM {x}_1 ORDER BY 1").fetchall() == [(4, 6), (5, 6)]
            for statement in ("EXECUTE gone(1)", f"INSERT INTO {x} VALUES (8, 5, 8)"):
                with pytest.raises(errors.ForeignKeyViolation):
                    other.execute(statement)
        # a tree in another
        conn.execute(
            f"CREATE TABLE t.whole (LIKE t.x3 INCLUDING ALL) PARTITION BY LIST (id); DELETE FROM t.x{count} WHERE"
            f" id <> 3; ALTER TABLE t.whole ATTACH PARTITION t.x{count} FOR VALUES IN (3)"
        )
        assert (one(other, "SELECT count(*) FROM t.whole"), one(other, "EXECUTE templates")) == (1, 0)
        other.execute("ANALYZE t.whole; TRUNCATE t.x1, t.x2, t.x3, t.whole; EXECUTE gone(1)")


@pytest.mark.parametrize("name", ["foreign_keys", "triggers", "serial"])
@pytest.mark.parametrize("how", ["rollback", "savepoint"])
def test_rollback(conn: Connection, catalogs: Catalogs, name: str, how: str) -> None:
    make(conn, CASES[name])
    conn.execute("INSERT INTO t.other VALUES (1), (2)")
    before = catalog.counts(conn, catalogs)
    with conn.transaction(force_rollback=how == "rollback"):
        conn.execute("SAVEPOINT a")
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 40, schema="t")
        assert one(conn, "SELECT count(*) FROM t.x40") == 0
        if how == "savepoint":
            conn.execute("ROLLBACK TO a")
    assert catalog.counts(conn, catalogs) == before
    conn.execute("DELETE FROM t.other WHERE id = 2")


@pytest.mark.parametrize("access_method", ["heap", "lazy_heap"])
@pytest.mark.parametrize("tables", ["'t.x' || n", "unnest(ARRAY['t.x' || n || '_2_rest', 't.x' || n])"])
def test_dropped_at_once(conn: Connection, catalogs: Catalogs, access_method: str, tables: str) -> None:
    make(conn, CASES["foreign_keys"])
    conn.execute("INSERT INTO t.other VALUES (1, 'c', 1, 5); INSERT INTO t.split VALUES (5)")
    before = catalog.counts(conn, catalogs)
    conn.execute("SELECT set_config('default_table_access_method', %s, false)", [access_method])
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 9, schema="t")
    conn.execute("INSERT INTO t.x4 VALUES (1, 5, 1, 'c')")
    listed = f"SELECT array_agg(name::regclass) FROM (SELECT {tables} FROM generate_series(1, 9) n) s (name)"
    assert one(conn, f"SELECT pgbillion_tables.drop_tables(({listed}))") >= 9
    assert catalog.counts(conn, catalogs) == before
    conn.execute("DELETE FROM t.other; DELETE FROM t.split")


DUMPED = ("foreign_keys", "triggers", "rules_and_policies", "serial", "indexes", "storage", "comments_and_statistics")


@pytest.mark.parametrize("name", DUMPED)
def test_dump(cluster: Cluster, database: str, conn: Connection, name: str) -> None:
    case = CASES[name]
    make(conn, case)
    conn.execute("CREATE SCHEMA core; CREATE SCHEMA ours")
    oracle.make(conn, templates.TEMPLATE, "core", "x5", None, case.said)
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 6, schema="ours")
    conn.execute("DROP TABLE ours.x1, ours.x2, ours.x3, ours.x4, ours.x6")
    by_commands = dump(cluster, database, "core")
    assert by_commands.count("ATTACH PARTITION") > 1
    assert dump(cluster, database, "ours") == by_commands


@pytest.mark.parametrize("missing", [None, "template", "template_1", "odd", "other"])
def test_ordinary_roles(conn: Connection, catalogs: Catalogs, missing: str | None) -> None:
    """They need SELECT on each partition, and REFERENCES."""
    make(conn, CASES["foreign_keys"])
    conn.execute(
        "GRANT USAGE ON SCHEMA t TO maker; GRANT SELECT, REFERENCES ON ALL TABLES IN SCHEMA t TO maker;"
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker; CREATE SCHEMA target AUTHORIZATION maker"
    )
    try:
        if missing is None:
            batch = CASES["foreign_keys"].batch(1, 4, role="maker")
            assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []
            return
        conn.execute(f"REVOKE ALL ON t.{missing} FROM maker")
        before = catalog.counts(conn, catalogs)
        conn.execute("SET ROLE maker")
        with pytest.raises(errors.InsufficientPrivilege, match=f"{missing}$"):
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="target")
        conn.execute("RESET ROLE")
        assert catalog.counts(conn, catalogs) == before
    finally:
        conn.execute("RESET ROLE; DROP OWNED BY maker CASCADE; GRANT CREATE ON TABLESPACE space1, space2 TO maker")


@pytest.mark.parametrize("change", ["DROP TABLE t.odd", "ALTER TABLE t.template_2 DETACH PARTITION t.odd"])
def test_partition_goes_meanwhile(cluster: Cluster, database: str, conn: Connection, change: str) -> None:
    """Whoever takes a partition away waits for the new tables, and they for who has."""
    make(conn, Case(LEVELS))
    partitions = "SELECT count(*) FROM pg_partition_tree('t.%s')"
    with cluster.connect(database) as other, cluster.connect(database) as third:
        with conn.transaction():
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t")
            changing = Running(lambda: other.execute(change.encode()))
            until_blocked(third, other, changing)
        changing.result(60)
        assert one(conn, partitions % "x4") == 6
        other.execute("CREATE TABLE IF NOT EXISTS t.odd (id int NOT NULL, at int NOT NULL, org int, code text)")
        other.execute("ALTER TABLE t.template_2 ATTACH PARTITION t.odd FOR VALUES IN (1, 2)")
        with other.transaction():
            other.execute(change.encode())
            making = Running(lambda: subject.create_tables(conn, templates.TEMPLATE, "y%d", 1, 4, schema="t"))
            until_blocked(third, conn, making)
        assert making.result(60) == 4
        assert one(conn, partitions % "y1") == one(conn, partitions % "y4") == 5


REFUSED = {
    "CREATE FOREIGN DATA WRAPPER nothing; CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing;"
    "CREATE FOREIGN TABLE far PARTITION OF template_2 FOR VALUES IN (7) SERVER nowhere": "far",
    "CREATE INDEX unfinished ON ONLY template_2 (id)": "unfinished",
    "ALTER TABLE template ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES other;"
    "ALTER TABLE odd DISABLE TRIGGER ALL": "odd.*fk",
}


@pytest.mark.parametrize("script", REFUSED)
def test_refused(conn: Connection, catalogs: Catalogs, script: str) -> None:
    make(conn, Case(LEVELS + script))
    before = catalog.counts(conn, catalogs)
    with pytest.raises(errors.FeatureNotSupported, match=REFUSED[script]) as raised:
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t")
    assert raised.value.diag.message_hint
    assert catalog.counts(conn, catalogs) == before
    conn.execute("DROP FOREIGN DATA WRAPPER IF EXISTS nothing CASCADE")


def test_partition_that_is_being_detached(cluster: Cluster, database: str, conn: Connection) -> None:
    make(conn, Case(LEVELS + "DROP TABLE template_2_rest"))
    with cluster.connect(database) as other, cluster.connect(database) as third:
        other.execute("BEGIN; SELECT * FROM t.template")
        detaching = Running(lambda: third.execute("ALTER TABLE t.template_2 DETACH PARTITION t.odd CONCURRENTLY"))
        until(lambda: one(conn, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending") == 1, "half of it")
        conn.execute("SELECT pg_cancel_backend(%s)", [pid(third)])
        with pytest.raises(errors.QueryCanceled):
            detaching.result(60)
        other.execute("COMMIT")
    with pytest.raises(errors.FeatureNotSupported, match="being detached") as raised:
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t")
    assert "FINALIZE" in (raised.value.diag.message_hint or "")
    conn.execute("ALTER TABLE t.template_2 DETACH PARTITION t.odd FINALIZE")
    assert subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t") == 4


OBSERVE = (
    "CREATE FUNCTION t.observe() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$;"
    "CREATE EVENT TRIGGER the_observer ON ddl_command_end WHEN TAG IN ('{}') EXECUTE FUNCTION t.observe()"
)


@pytest.fixture
def observed(conn: Connection) -> Iterator[Connection]:
    """Event triggers are no schema's, so that nothing else would drop them."""
    yield conn
    conn.execute("DROP EVENT TRIGGER IF EXISTS the_observer")


@pytest.mark.parametrize(
    ("name", "tag", "refused"),
    [
        ("keys", "CREATE TABLE", True),
        ("keys", "ALTER TABLE", True),
        ("no_partitions", "ALTER TABLE", False),
        ("triggers", "CREATE TRIGGER", True),
        ("keys", "CREATE TRIGGER", False),
    ],
)
def test_observers(observed: Connection, catalogs: Catalogs, name: str, tag: str, refused: bool) -> None:
    """Partitions are attached by ALTER TABLE."""
    make(observed, CASES[name])
    observed.execute(OBSERVE.format("", tag))
    before = catalog.counts(observed, catalogs)
    if refused:
        with pytest.raises(errors.ObjectNotInPrerequisiteState):
            subject.create_tables(observed, templates.TEMPLATE, "x%d", 1, 4, schema="t")
        assert catalog.counts(observed, catalogs) == before
    assert subject.create_tables(observed, templates.TEMPLATE, "x%d", 5, 4, schema="t", allow_unobserved=refused) == 4


@pytest.mark.parametrize("tag", ["CREATE TABLE", "ALTER TABLE", "CREATE TRIGGER", "COMMENT"])
@pytest.mark.parametrize("gone", ["x1", "x1_3", "x1_2", "x1_odd", "x2", "x2_1"])
def test_dropped_meanwhile(observed: Connection, catalogs: Catalogs, tag: str, gone: str) -> None:
    make(observed, CASES["triggers"])
    observed.execute("COMMENT ON TABLE t.template_2_rest IS 'the last'")
    observed.execute(OBSERVE.format(f"DROP TABLE IF EXISTS t.{gone};", tag))
    before = catalog.counts(observed, catalogs)
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        subject.create_tables(observed, templates.TEMPLATE, "x%d", 1, 4, schema="t", allow_unobserved=True)
    assert catalog.counts(observed, catalogs) == before


@pytest.mark.parametrize("tag", ["CREATE TABLE", "ALTER TABLE"])
def test_template_dropped_meanwhile(observed: Connection, catalogs: Catalogs, tag: str) -> None:
    make(observed, Case(LEVELS))
    observed.execute(OBSERVE.format("DROP TABLE IF EXISTS t.template_2_rest;", tag))
    before = catalog.counts(observed, catalogs)
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="template_2_rest"):
        subject.create_tables(observed, templates.TEMPLATE, "x%d", 1, 4, schema="t", allow_unobserved=True)
    assert catalog.counts(observed, catalogs) == before


def test_schema_renamed_meanwhile(cluster: Cluster, database: str, conn: Connection) -> None:
    """Another table has the template's name then, which the commands must not be about."""
    make(conn, Case("CREATE SCHEMA old; CREATE SCHEMA new; CREATE TABLE new.template (a int) PARTITION BY RANGE (a)"))
    conn.execute(
        "CREATE TABLE old.template (a int CONSTRAINT fk REFERENCES t.other) PARTITION BY RANGE (a);"
        "ALTER TABLE old.template ENABLE ROW LEVEL SECURITY"
    )
    with cluster.connect(database) as other, cluster.connect(database) as third:
        with other.transaction():
            other.execute("INSERT INTO t.other VALUES (77)")
            making = Running(lambda: subject.create_tables(conn, "old.template", "x%d", 1, 2, schema="t"))
            until_blocked(third, conn, making)
            third.execute("ALTER SCHEMA old RENAME TO older; ALTER SCHEMA new RENAME TO old")
        with pytest.raises(errors.SerializationFailure):
            making.result(60)
    assert one(conn, "SELECT relrowsecurity FROM pg_class WHERE oid = 'old.template'::regclass") is False
    assert one(conn, "SELECT count(*) FROM pg_constraint WHERE conrelid = 'old.template'::regclass") == 0
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relname IN ('x1', 'x2')") == 0
    conn.execute("DROP SCHEMA older, old CASCADE")
