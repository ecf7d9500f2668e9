"""Foreign keys, triggers and row security of a template: its tables have them as core's commands would make them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from psycopg import errors, sql

from harness import catalogs as catalog
from harness import compare, oracle, subject, templates
from harness.catalogs import Catalogs
from harness.compare import Batch
from harness.servers import has_extension, one
from harness.sessions import Running
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors


WORLD = """
    CREATE TABLE t.other (id int PRIMARY KEY, code text UNIQUE, a int, b int, UNIQUE (a, b));
    CREATE TABLE t.split (id int PRIMARY KEY, note text) PARTITION BY RANGE (id);
    CREATE TABLE t.split_0 PARTITION OF t.split FOR VALUES FROM (MINVALUE) TO (100);
    CREATE TABLE t.split_1 PARTITION OF t.split FOR VALUES FROM (100) TO (200) PARTITION BY LIST (id);
    CREATE TABLE t.split_1_rest PARTITION OF t.split_1 DEFAULT;
    CREATE TABLE t.member (org int, who name);
    CREATE TABLE t.log (what text);
    CREATE FUNCTION t.noted() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO t.log VALUES (concat_ws(' ', TG_TABLE_NAME, TG_OP, TG_NAME, TG_ARGV[0]));
            RETURN NEW;
        END $$;
"""
COLUMNS = "id int PRIMARY KEY, org int NOT NULL DEFAULT 1, code text, up int, a int, b int, m t.mood DEFAULT 'ok'"
LONG = "n" * 63

# statements about a table
_PARTS: Mapping[str, tuple[str, ...]] = {
    "key": ("ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other",),
    "keys": (
        "ALTER TABLE {table} ADD CONSTRAINT by_code FOREIGN KEY (code) REFERENCES t.other (code) MATCH FULL"
        " ON UPDATE CASCADE ON DELETE SET NULL",
        "ALTER TABLE {table} ADD CONSTRAINT late FOREIGN KEY (org) REFERENCES t.other DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE {table} ADD CONSTRAINT pair FOREIGN KEY (a, b) REFERENCES t.other (a, b)"
        " ON DELETE SET DEFAULT (b) ON UPDATE RESTRICT",
    ),
    "key_to_itself": ("ALTER TABLE {table} ADD CONSTRAINT tree FOREIGN KEY (up) REFERENCES {table} ON DELETE CASCADE",),
    "key_to_a_partitioned_table": (
        "ALTER TABLE {table} ADD CONSTRAINT part FOREIGN KEY (org) REFERENCES t.split",
        "ALTER TABLE {table} ADD CONSTRAINT part_too FOREIGN KEY (up) REFERENCES t.split (id) ON DELETE CASCADE",
    ),
    "key_with_a_long_name": (
        f"ALTER TABLE {{table}} ADD CONSTRAINT {LONG} FOREIGN KEY (org) REFERENCES t.split",
        "COMMENT ON CONSTRAINT " + LONG + " ON {table} IS 'it''s long'",
    ),
    "triggers": (
        "CREATE TRIGGER after_all AFTER INSERT OR DELETE OR UPDATE ON {table} FOR EACH ROW"
        " EXECUTE FUNCTION t.noted('it''s', '\\x', 'two')",
        "CREATE TRIGGER before_some BEFORE UPDATE OF code, a ON {table} FOR EACH ROW EXECUTE FUNCTION t.noted()",
        "CREATE TRIGGER empty AFTER TRUNCATE ON {table} EXECUTE FUNCTION t.noted()",
        "CREATE TRIGGER whole AFTER UPDATE ON {table} REFERENCING OLD TABLE AS was NEW TABLE AS is_now"
        " FOR EACH STATEMENT EXECUTE FUNCTION t.noted()",
    ),
    "trigger_conditions": (
        "CREATE TRIGGER changed BEFORE UPDATE ON {table} FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE TRIGGER new_code AFTER UPDATE ON {table} FOR EACH ROW WHEN (OLD.code IS DISTINCT FROM NEW.code"
        " AND NEW.m = 'sad'::t.mood AND t.twice(NEW.a) > 16384) EXECUTE FUNCTION t.noted()",
        "CREATE TRIGGER record_of AFTER INSERT ON {table} FOR EACH ROW WHEN (to_jsonb(NEW) ? 'a')"
        " EXECUTE FUNCTION t.noted()",
    ),
    "constraint_triggers": (
        "CREATE CONSTRAINT TRIGGER later AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
        " EXECUTE FUNCTION t.noted()",
        "CREATE CONSTRAINT TRIGGER of_other AFTER UPDATE ON {table} FROM t.other FOR EACH ROW WHEN (NEW.a > 0)"
        " EXECUTE FUNCTION t.noted()",
        "CREATE CONSTRAINT TRIGGER of_itself AFTER UPDATE ON {table} FROM {table} FOR EACH ROW"
        " EXECUTE FUNCTION t.noted()",
    ),
    "triggers_switched": tuple(
        statement
        for name, state in (("a", "DISABLE"), ("b", "ENABLE REPLICA"), ("c", "ENABLE ALWAYS"), ("d", "ENABLE"))
        for statement in (
            f"CREATE TRIGGER {name} AFTER INSERT ON {{table}} FOR EACH ROW EXECUTE FUNCTION t.noted()",
            f"ALTER TABLE {{table}} {state} TRIGGER {name}",
            f"COMMENT ON TRIGGER {name} ON {{table}} IS '{name} is switched'",
        )
    ),
    "row_security": ("ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",),
    "row_security_forced": ("ALTER TABLE {table} FORCE ROW LEVEL SECURITY",),
    "policies": (
        "CREATE POLICY all_of_it ON {table} USING (org > 0)",
        "CREATE POLICY \"to some\" ON {table} AS RESTRICTIVE FOR UPDATE TO maker, reader USING (code = CURRENT_USER)"
        " WITH CHECK (a < b OR m = 'ok')",
        "CREATE POLICY reading ON {table} FOR SELECT TO reader USING (current_setting('app.org', true)::int = org)",
        "CREATE POLICY writing ON {table} FOR INSERT TO PUBLIC WITH CHECK (code COLLATE \"C\" < 'x')",
        "CREATE POLICY going ON {table} FOR DELETE USING (false)",
        "COMMENT ON POLICY reading ON {table} IS 'a policy'",
        "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
    ),
    "policies_with_queries": (
        "CREATE POLICY correlated ON {table} USING (EXISTS (SELECT FROM t.member m WHERE m.org = {table}.org"
        " AND m.who = CURRENT_USER))",
        "CREATE POLICY listed ON {table} FOR SELECT USING (org IN (SELECT org FROM t.member WHERE who = CURRENT_USER))",
        "CREATE POLICY itself ON {table} FOR SELECT USING (up IS NULL OR up IN (SELECT x.id FROM {table} x"
        " WHERE x.org = {table}.org))",
        "CREATE POLICY whole_row ON {table} FOR SELECT USING ((SELECT count(*) FROM t.member x1"
        " WHERE x1.org = {table}.org AND {table}.* IS NOT NULL) > 0)",
        "CREATE POLICY by_with ON {table} FOR SELECT USING ((WITH x2 AS (SELECT org FROM t.member)"
        " SELECT count(*) FROM x2, LATERAL (SELECT x2.org = {table}.org AS same) z WHERE same) = 1)",
        "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
    ),
}  # fmt: skip
PARTS = {**_PARTS, "everything": tuple(statement for parts in _PARTS.values() for statement in parts)}


def make(conn: Connection, parts: tuple[str, ...], columns: str = COLUMNS) -> None:
    conn.execute(templates.WORLD)
    conn.execute(WORLD)
    conn.execute(f"CREATE TABLE t.template ({columns})".encode())
    oracle.say(conn, parts, sql.Identifier("t", "template"))


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("name_format", ["x%d", "_%08x", "n" * 62 + "%d"])
def test_parts(conn: Connection, catalogs: Catalogs, name: str, name_format: str) -> None:
    make(conn, PARTS[name])
    batch = Batch(name_format, 1, 4, parts=PARTS[name])
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


@pytest.mark.parametrize("name", ["everything"])
@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_counts(conn: Connection, catalogs: Catalogs, name: str, count: int) -> None:
    make(conn, PARTS[name], COLUMNS + ", s serial, i int GENERATED ALWAYS AS IDENTITY")
    batch = Batch("x%d", 8, count, parts=PARTS[name])
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


@pytest.fixture
def made(conn: Connection) -> Connection:
    """Tables x1 … x40 with everything, in schema t, and a row of t.other and of t.split."""
    make(conn, PARTS["everything"])
    conn.execute("CREATE SCHEMA target; GRANT USAGE ON SCHEMA t, target TO PUBLIC")
    # the relation cache has it, without triggers of the tables to come
    conn.execute("INSERT INTO t.other VALUES (1, 'c', 1, 1); INSERT INTO t.split VALUES (1), (2)")
    assert subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 40, schema="target") == 40
    return conn


@pytest.mark.parametrize("number", [1, 2, 3, 40])
def test_keys_hold(made: Connection, number: int) -> None:
    table = f"target.x{number}"
    made.execute(f"INSERT INTO {table} (id, org, code, up, a, b) VALUES (1, 1, 'c', 1, 1, 1), (2, 1, NULL, 1, 1, 1)")
    for statement in (
        f"INSERT INTO {table} (id, org) VALUES (3, 2)",
        f"INSERT INTO {table} (id, code) VALUES (3, 'no such')",
        f"UPDATE {table} SET up = 9",
        f"UPDATE {table} SET a = 9",
        "UPDATE t.other SET a = 9",
        "DELETE FROM t.split WHERE id = 1",
    ):
        # RESTRICT has an error of its own since 18
        with pytest.raises((errors.ForeignKeyViolation, errors.RestrictViolation)):
            made.execute(statement)
    # cascades to what refers to it, in this table only
    made.execute("UPDATE t.other SET code = 'd'")
    assert made.execute(f"SELECT DISTINCT code FROM {table} WHERE code IS NOT NULL").fetchall() == [("d",)]
    with made.transaction():
        made.execute(f"INSERT INTO {table} (id, org, up) VALUES (3, 1, 2)")
        made.execute(f"DELETE FROM {table} WHERE id = 2")
    assert made.execute(f"SELECT id FROM {table} ORDER BY 1").fetchall() == [(1,)]
    assert one(made, "SELECT count(*) FROM t.template") == 0


@pytest.mark.parametrize("number", [1, 2, 3, 40])
def test_triggers_fire(made: Connection, number: int) -> None:
    """In the order, and with the arguments, of a table that core has made."""
    oracle.make(made, templates.TEMPLATE, "t", "core")
    oracle.say(made, PARTS["everything"], sql.Identifier("t", "core"))
    fired = {}
    for table in ("t.core", f"target.x{number}"):
        made.execute(f"INSERT INTO {table} (id, org, a) VALUES (1, 1, 16384)")
        made.execute(f"UPDATE {table} SET id = id; UPDATE {table} SET code = NULL, m = 'sad'")
        made.execute(f"DELETE FROM {table}; TRUNCATE {table}")
        fired[table] = made.execute("SELECT substr(what, strpos(what, ' ')) FROM t.log").fetchall()
        assert one(made, "SELECT count(DISTINCT split_part(what, ' ', 1)) FROM t.log") == 1
        made.execute("TRUNCATE t.log")
    assert len(fired["t.core"]) > 12
    assert fired["t.core"] == fired[f"target.x{number}"]


@pytest.mark.parametrize("number", [1, 2, 3, 40])
def test_policies_filter(made: Connection, number: int) -> None:
    table = f"target.x{number}"
    made.execute(
        f"INSERT INTO {table} (id, org, up) SELECT n, 1, CASE n WHEN 2 THEN 1 END FROM generate_series(1, 3) n"
    )
    made.execute(f"GRANT ALL ON {table}, t.member TO reader; INSERT INTO t.template (id) VALUES (9)")
    made.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    made.execute(
        "DO $$ DECLARE name name; BEGIN FOR name IN SELECT polname FROM pg_policy"
        f" WHERE polrelid = '{table}'::regclass AND polname <> 'itself' LOOP"
        f" EXECUTE format('DROP POLICY %I ON {table}', name); END LOOP; END $$"
    )
    # the policy would read itself without end, as any of core's
    with pytest.raises(errors.InvalidObjectDefinition):
        made.execute(f"SET ROLE reader; SELECT id FROM {table}")
    made.execute(f"RESET ROLE; DROP POLICY itself ON {table}")


def test_policies_with_queries_filter(conn: Connection) -> None:
    """Each table is read for its own rows, and not the template's."""
    make(
        conn,
        (
            "CREATE POLICY own ON {table} FOR SELECT USING (EXISTS (SELECT FROM t.member x3"
            " WHERE x3.org = {table}.org AND x3.who = CURRENT_USER))",
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        ),
    )
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="t")
    conn.execute("GRANT USAGE ON SCHEMA t TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA t TO reader")
    conn.execute("INSERT INTO t.member VALUES (1, 'reader'), (2, 'maker')")
    for number in (1, 2, 3, 5):
        conn.execute(f"INSERT INTO t.x{number} (id, org) SELECT n, n % 3 FROM generate_series(1, 9) n")
        conn.execute("SET ROLE reader")
        assert conn.execute(f"SELECT id FROM t.x{number} ORDER BY 1").fetchall() == [(1,), (4,), (7,)]
        conn.execute("RESET ROLE")


@pytest.mark.parametrize("how", ["rollback", "savepoint"])
def test_rollback(conn: Connection, catalogs: Catalogs, how: str) -> None:
    make(conn, PARTS["everything"])
    conn.execute("INSERT INTO t.other VALUES (1), (2); INSERT INTO t.split VALUES (1)")
    before = catalog.counts(conn, catalogs)
    with conn.transaction(force_rollback=how == "rollback"):
        conn.execute("SAVEPOINT a")
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 40, schema="t")
        conn.execute("INSERT INTO t.x40 (id) VALUES (1)")
        if how == "savepoint":
            conn.execute("ROLLBACK TO a")
    assert catalog.counts(conn, catalogs) == before
    conn.execute("DELETE FROM t.other WHERE id = 2; DELETE FROM t.split; DELETE FROM t.other")


def test_other_sessions(cluster: Cluster, database: str, conn: Connection) -> None:
    """What is referred to stays until the tables are there, and other sessions know of their keys then."""
    make(conn, PARTS["keys"])
    conn.execute("INSERT INTO t.other SELECT n, n FROM generate_series(1, 3) n")
    with cluster.connect(database) as other, cluster.connect(database) as third:
        other.execute("DELETE FROM t.other WHERE id = 3; PREPARE gone AS DELETE FROM t.other WHERE id = $1")
        with conn.transaction():
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 10, schema="t")
            dropping = Running(lambda: third.execute("DROP TABLE t.other"))
            writing = Running(lambda: other.execute("EXECUTE gone(2)"))
            conn.execute("INSERT INTO t.x9 (id, org) VALUES (1, 1)")
            assert not writing.done
            assert not dropping.done
        writing.result(60)
        with pytest.raises(errors.DependentObjectsStillExist):
            dropping.result(60)
        with pytest.raises(errors.ForeignKeyViolation):
            other.execute("EXECUTE gone(1)")


# what a role needs in addition to what it needs for a template without parts
PRIVILEGES = {
    "REFERENCES": "GRANT REFERENCES ON t.other TO maker",
    "USAGE of a type": "GRANT USAGE ON TYPE t.mood TO maker",
    "EXECUTE of a trigger's function": "GRANT EXECUTE ON FUNCTION t.noted() TO maker",
}


@pytest.mark.parametrize("missing", [None, *PRIVILEGES])
def test_ordinary_roles(conn: Connection, catalogs: Catalogs, missing: str | None) -> None:
    parts = (*PARTS["keys"], *PARTS["triggers"], *PARTS["policies"])
    make(conn, parts)
    conn.execute(
        "REVOKE ALL ON FUNCTION t.noted() FROM PUBLIC; REVOKE USAGE ON TYPE t.mood FROM PUBLIC;"
        "GRANT USAGE ON SCHEMA t TO maker; GRANT SELECT ON t.template TO maker;"
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker"
    )
    for name, statement in PRIVILEGES.items():
        if name != missing:
            conn.execute(statement)
    batch = Batch("x%d", 1, 5, role="maker", parts=parts)
    try:
        if missing is None:
            assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []
            return
        conn.execute("CREATE SCHEMA target AUTHORIZATION maker; SET ROLE maker")
        with pytest.raises(errors.InsufficientPrivilege):
            subject.create_tables(conn, templates.TEMPLATE, schema="target")
    finally:
        conn.execute("RESET ROLE; DROP OWNED BY maker; GRANT CREATE ON TABLESPACE space1, space2 TO maker")


def test_names_in_the_way(conn: Connection, catalogs: Catalogs) -> None:
    """Objects of the caller's path are not taken for those that the template's parts name."""
    parts = (
        "CREATE POLICY p ON {table} USING (lower(code) = 'x' AND org IN (SELECT org FROM t.member))",
        "CREATE TRIGGER g BEFORE UPDATE ON {table} FOR EACH ROW WHEN (upper(NEW.code) = 'X')"
        " EXECUTE FUNCTION t.noted()",
        "ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other",
    )
    make(conn, parts)
    conn.execute(
        "CREATE SCHEMA evil; CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';"
        "CREATE FUNCTION evil.upper(text) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';"
        "CREATE FUNCTION evil.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TABLE evil.member (org int); CREATE TABLE evil.other (id int PRIMARY KEY);"
        "CREATE TEMPORARY TABLE member (org int); CREATE TEMPORARY TABLE other (id int PRIMARY KEY)"
    )
    with conn.transaction(force_rollback=True):
        conn.execute(
            "CREATE SCHEMA target; SET LOCAL search_path = evil, pg_catalog, t; SET LOCAL quote_all_identifiers = on"
        )
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="target")
        conn.execute("SET LOCAL search_path = pg_catalog")
        for number in (1, 2, 4):
            assert "evil" not in one(
                conn,
                "SELECT string_agg(pg_get_expr(polqual, polrelid) || pg_get_triggerdef(g.oid) ||"
                " pg_get_constraintdef(o.oid), '') FROM pg_policy JOIN pg_trigger g ON g.tgrelid = polrelid AND NOT"
                " tgisinternal JOIN pg_constraint o ON o.conrelid = polrelid AND contype = 'f'"
                f" WHERE polrelid = 'target.x{number}'::regclass",
            )


@pytest.mark.parametrize("access_method", ["heap", "lazy_heap"])
def test_dropped_at_once(conn: Connection, catalogs: Catalogs, access_method: str) -> None:
    make(conn, PARTS["everything"])
    before = catalog.counts(conn, catalogs)
    conn.execute(
        "SELECT pgbillion_tables.create_tables('t.template', 'x%%d', 1, 10, schema => 't', access_method => %s)",
        [access_method],
    )
    conn.execute("INSERT INTO t.other VALUES (1); INSERT INTO t.split VALUES (1); INSERT INTO t.x4 (id) VALUES (1)")
    assert (
        one(
            conn,
            "SELECT pgbillion_tables.drop_tables(array_agg(format('t.x%s', n)::regclass)) FROM"
            " generate_series(1, 10) n",
        )
        == 10
    )
    assert catalog.counts(conn, catalogs) == before
    conn.execute("DELETE FROM t.other; DELETE FROM t.split")


def test_not_valid_keys_are_valid_in_new_tables(conn: Connection) -> None:
    """As the CHECK constraints that LIKE copies: there is no row that they do not hold for."""
    make(conn, ("ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other NOT VALID",))
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 3, schema="t")
    assert conn.execute(
        "SELECT conrelid::regclass::text, convalidated FROM pg_constraint WHERE conname = 'fk' ORDER BY 1"
    ).fetchall() == [("t.template", False), ("t.x1", True), ("t.x2", True), ("t.x3", True)]


def test_keys_that_are_not_enforced(conn: Connection, catalogs: Catalogs, installation: Installation) -> None:
    if installation.major < 18:
        pytest.skip("not of this server")
    parts = ("ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other NOT ENFORCED",)
    make(conn, parts)
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d", parts=parts)) == []


def test_keys_over_periods(conn: Connection, catalogs: Catalogs, installation: Installation) -> None:
    if installation.major < 18 or not has_extension(conn, "btree_gist"):
        pytest.skip("not of this server")
    parts = (
        "ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org, PERIOD during) REFERENCES t.held (id, PERIOD during)",
    )
    conn.execute(templates.WORLD)
    conn.execute("CREATE TABLE t.held (id int, during int4range, PRIMARY KEY (id, during WITHOUT OVERLAPS))")
    conn.execute("CREATE TABLE t.template (id int, org int, during int4range)")
    oracle.say(conn, parts, sql.Identifier("t", "template"))
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d", parts=parts)) == []


# a partition stands for itself: an ordinary table with all that it has
INHERITED = (
    "CREATE TABLE t.whole (id int PRIMARY KEY, org int CONSTRAINT fk REFERENCES t.other, note text CHECK (note <> ''))"
    " PARTITION BY RANGE (id)",
    "CREATE INDEX ON t.whole (note)",
    "CREATE TRIGGER g AFTER INSERT ON t.whole FOR EACH ROW WHEN (NEW.org > 0) EXECUTE FUNCTION t.noted()",
    "CREATE TABLE t.template PARTITION OF t.whole FOR VALUES FROM (0) TO (10)",
)


def test_partition_as_template(conn: Connection, catalogs: Catalogs) -> None:
    conn.execute(templates.WORLD)
    conn.execute(WORLD)
    for statement in INHERITED:
        conn.execute(statement)
    parts = (
        "ALTER TABLE {table} ADD CONSTRAINT fk FOREIGN KEY (org) REFERENCES t.other",
        "CREATE TRIGGER g AFTER INSERT ON {table} FOR EACH ROW WHEN (NEW.org > 0) EXECUTE FUNCTION t.noted()",
    )
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d", parts=parts)) == []
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 3, schema="t")
    conn.execute("DROP TRIGGER g ON t.x2; ALTER TABLE t.whole ATTACH PARTITION t.x2 FOR VALUES FROM (10) TO (20)")


def test_published_template(conn: Connection, catalogs: Catalogs) -> None:
    """The tables join no publication of tables by name."""
    make(conn, ())
    conn.execute("CREATE PUBLICATION the_publication FOR TABLE t.template")
    try:
        assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d")) == []
    finally:
        conn.execute("DROP PUBLICATION the_publication")
