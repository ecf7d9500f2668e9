"""Rules of a template: its tables have them as core's commands would make them, and they act on these tables."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from psycopg import errors, sql

from harness import catalogs as catalog
from harness import compare, oracle, subject, templates
from harness.catalogs import Catalogs
from harness.compare import Batch
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


# some bear the template's name, where only a schema or a scope tells them from it
WORLD = """
    CREATE SCHEMA elsewhere;
    CREATE TABLE elsewhere.template (id int, code text);
    CREATE TABLE t.log (what text);
    CREATE TABLE t.member (org int, who name);
    CREATE FUNCTION t.allowed(int) RETURNS boolean LANGUAGE sql AS 'SELECT $1 > 0';
"""
COLUMNS = "id int PRIMARY KEY, org int NOT NULL DEFAULT 1, gone int, code text, m t.mood DEFAULT 'ok'"

# statements about a table; an alias of the template's name is what the tables get where the template reads itself
RULES: Mapping[str, tuple[str, ...]] = {
    "also": (
        "CREATE RULE noted AS ON INSERT TO {table} DO ALSO INSERT INTO t.log (what) VALUES (NEW.code)",
        "COMMENT ON RULE noted ON {table} IS 'it''s a rule'",
    ),
    "instead_nothing": (
        "CREATE RULE kept AS ON DELETE TO {table} WHERE OLD.org = 1 AND t.allowed(OLD.id) DO INSTEAD NOTHING",
    ),
    "several_commands": (
        "CREATE RULE \"It's several\" AS ON UPDATE TO {table} WHERE OLD.code IS DISTINCT FROM NEW.code DO ALSO ("
        " INSERT INTO t.log (what) VALUES (OLD.code);"
        " UPDATE t.member SET who = CURRENT_USER WHERE member.org = NEW.org;"
        " DELETE FROM t.member WHERE member.org = OLD.org AND OLD.m = 'sad'::t.mood)",
        "CREATE RULE told AS ON INSERT TO {table} DO ALSO NOTIFY told",
    ),
    "switched": tuple(
        statement
        for name, state in (("a", "DISABLE"), ("b", "ENABLE REPLICA"), ("c", "ENABLE ALWAYS"), ("d", "ENABLE"))
        for statement in (
            f"CREATE RULE {name} AS ON INSERT TO {{table}} DO ALSO INSERT INTO t.log (what) VALUES (NEW.code)",
            f"ALTER TABLE {{table}} {state} RULE {name}",
            f"COMMENT ON RULE {name} ON {{table}} IS '{name} is switched'",
        )
    ),
    "itself": (
        "CREATE RULE soft AS ON DELETE TO {table} DO INSTEAD UPDATE {table} AS template SET code = OLD.code"
        " WHERE template.id = OLD.id",
    ),
    "returning": (
        "CREATE RULE soft AS ON DELETE TO {table} DO INSTEAD UPDATE {table} AS template SET code = OLD.code"
        " WHERE template.id = OLD.id RETURNING template.id, template.org, template.code, template.m",
    ),
    "reads_itself": (
        "CREATE RULE counted AS ON INSERT TO {table} DO ALSO INSERT INTO t.log (what)"
        " SELECT template.code FROM {table} AS template, t.member x WHERE template.org = x.org AND"
        " (EXISTS (SELECT template_1.id FROM {table} template_1 WHERE template_1.id = template.id AND"
        " template_1.org = NEW.org))",
        "CREATE RULE whole AS ON UPDATE TO {table} WHERE (NEW.* IS DISTINCT FROM OLD.*) DO ALSO INSERT INTO"
        " t.log (what) VALUES (to_jsonb(NEW.*))",
    ),
    "same_name_elsewhere": (
        "CREATE RULE elsewhere AS ON INSERT TO {table} DO ALSO INSERT INTO elsewhere.template (id, code)"
        " SELECT template_1.id, template_1.code FROM elsewhere.template template_1 WHERE template_1.id = NEW.id",
        "CREATE RULE updated AS ON UPDATE TO {table} DO ALSO UPDATE elsewhere.template SET code = NEW.code"
        " WHERE template.id = OLD.id",
        "CREATE RULE both_of_them AS ON DELETE TO {table} DO ALSO INSERT INTO t.log (what)"
        " SELECT template.code FROM elsewhere.template, {table} template_1 WHERE template.id = template_1.id",
    ),
    "same_name_aliased": (
        "CREATE RULE aliased AS ON INSERT TO {table} DO ALSO INSERT INTO t.log (what)"
        " SELECT template.who FROM t.member template, LATERAL (SELECT template.org AS template) t"
        " WHERE template.org = NEW.org AND t.template > 0",
        "CREATE RULE by_with AS ON DELETE TO {table} DO ALSO INSERT INTO t.log (what)"
        " WITH template AS (SELECT member.org, member.who FROM t.member) SELECT template.who FROM template"
        " WHERE template.org = 3",
    ),
    # PostgreSQL shows it in other words than these
    "with_itself": (
        "CREATE RULE conflict AS ON INSERT TO {table} DO INSTEAD INSERT INTO t.log AS template (what)"
        " WITH x AS (SELECT template.code FROM {table} AS template) SELECT x.code FROM x"
        " WHERE (NOT (x.code IN (SELECT log.what FROM t.log)))",
    ),
}  # fmt: skip
EVERYTHING = tuple(
    statement for name, rules in RULES.items() if name not in ("with_itself", "returning") for statement in rules
)


def make(conn: Connection, rules: tuple[str, ...], columns: str = COLUMNS) -> None:
    conn.execute(templates.WORLD)
    conn.execute(WORLD)
    conn.execute(f"CREATE TABLE t.template ({columns})".encode())
    if "gone " in columns:
        conn.execute("ALTER TABLE t.template DROP gone")
    oracle.say(conn, tuple(rule.replace("{table} AS template", "{table}") for rule in rules), _TEMPLATE)


_TEMPLATE = sql.Identifier("t", "template")


@pytest.mark.parametrize("name", [name for name in RULES if name != "with_itself"])
@pytest.mark.parametrize("name_format", ["x%d", "n" * 62 + "%d"])
def test_rules(conn: Connection, catalogs: Catalogs, name: str, name_format: str) -> None:
    """Their template lacks a column that it had once, so that its columns have other numbers."""
    # PostgreSQL takes no RETURNING for a table with dropped columns
    make(conn, RULES[name], COLUMNS if name != "returning" else COLUMNS.replace("gone int, ", ""))
    batch = Batch(name_format, 1, 4, parts=RULES[name])
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_counts(conn: Connection, catalogs: Catalogs, count: int) -> None:
    """With a serial column, a policy and a trigger's condition besides."""
    parts = (
        *EVERYTHING,
        "CREATE POLICY p ON {table} USING (org IN (SELECT member.org FROM t.member))",
        "CREATE TRIGGER g BEFORE UPDATE ON {table} FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    )
    make(conn, parts, COLUMNS + ", s serial, i int GENERATED ALWAYS AS IDENTITY")
    batch = Batch("x%d", 8, count, parts=parts)
    assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []


@pytest.mark.parametrize(
    "definition", ["itself", "reads_itself", "with_itself", "same_name_elsewhere", "same_name_aliased"]
)
def test_shown_alike(conn: Connection, definition: str) -> None:
    """pg_get_ruledef() of stamped tables differs from the template's only in the tables that are meant."""
    make(conn, RULES[definition])
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="t")
    shown = {
        table: [
            text
            for (text,) in conn.execute(
                "SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE ev_class = %s::regclass ORDER BY rulename", [table]
            ).fetchall()
        ]
        for table in ("t.template", *(f"t.x{number}" for number in range(1, 6)))
    }
    for number in range(1, 6):
        there = [re.sub(rf"\bt\.x{number}\b( (AS )?template\b)?", "t.template", text) for text in shown[f"t.x{number}"]]
        assert there == shown["t.template"]


@pytest.mark.parametrize("number", [1, 2, 3, 20])
def test_rules_act(conn: Connection, number: int) -> None:
    """On the table that they are of, and on nothing else."""
    make(
        conn,
        (
            "CREATE RULE noted AS ON INSERT TO {table} DO ALSO INSERT INTO t.log (what) VALUES (NEW.code)",
            "CREATE RULE soft AS ON DELETE TO {table} DO INSTEAD UPDATE {table} SET code = 'deleted'"
            " WHERE template.id = OLD.id",
            "CREATE RULE never AS ON UPDATE TO {table} WHERE OLD.org = 9 DO INSTEAD NOTHING",
            "CREATE RULE off AS ON INSERT TO {table} DO ALSO DELETE FROM t.log",
            "ALTER TABLE {table} DISABLE RULE off",
        ),
    )
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 20, schema="t")
    conn.execute("ALTER TABLE t.template DISABLE RULE noted; INSERT INTO t.template (id, code) VALUES (1, 'template')")
    table = f"t.x{number}"
    conn.execute(f"INSERT INTO {table} (id, org, code) VALUES (1, 1, 'one'), (2, 9, 'two')")
    conn.execute(f"UPDATE {table} SET code = 'changed'")
    assert conn.execute(f"SELECT id, code FROM {table} ORDER BY 1").fetchall() == [(1, "changed"), (2, "two")]
    conn.execute(f"DELETE FROM {table}")
    assert conn.execute(f"SELECT id, code FROM {table} ORDER BY 1").fetchall() == [(1, "deleted"), (2, "two")]
    assert conn.execute("SELECT what FROM t.log ORDER BY 1").fetchall() == [("one",), ("two",)]
    assert conn.execute("SELECT id, code FROM t.template").fetchall() == [(1, "template")]
    # a rule is the table's own
    conn.execute(f"DROP RULE soft ON {table}; DELETE FROM {table}")
    assert one(conn, f"SELECT count(*) FROM {table}") == 0


@pytest.mark.parametrize("how", ["rollback", "savepoint"])
def test_rollback(conn: Connection, catalogs: Catalogs, how: str) -> None:
    make(conn, EVERYTHING)
    before = catalog.counts(conn, catalogs)
    with conn.transaction(force_rollback=how == "rollback"):
        conn.execute("SAVEPOINT a")
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 40, schema="t")
        conn.execute("INSERT INTO t.x40 (id) VALUES (1)")
        if how == "savepoint":
            conn.execute("ROLLBACK TO a")
    assert catalog.counts(conn, catalogs) == before


@pytest.mark.parametrize("name", ["new", "old", 'Odd\'s \\ {"x"}', "select", "excluded"])
def test_template_of_an_odd_name(conn: Connection, name: str) -> None:
    """Names that mean something in rules, or need quotes; the new tables have them as aliases."""
    template = sql.Identifier("t", name)
    make(conn, ())
    for statement in (
        "CREATE TABLE {} (id int PRIMARY KEY, gone boolean)",
        "CREATE RULE soft AS ON DELETE TO {0} DO INSTEAD UPDATE {0} AS x SET gone = OLD.id > 0 WHERE x.id = OLD.id",
        "CREATE RULE plain AS ON UPDATE TO {0} WHERE OLD.gone DO ALSO INSERT INTO t.log SELECT count(*) FROM {0} AS z",
        "CREATE RULE upsert AS ON INSERT TO {0} WHERE NEW.id < 0 DO INSTEAD INSERT INTO {0} AS y (id) VALUES (-NEW.id)"
        " ON CONFLICT (id) DO UPDATE SET gone = excluded.id > y.id",
        "ALTER TABLE {} DISABLE RULE upsert",
        "INSERT INTO {} VALUES (1)",
    ):
        conn.execute(sql.SQL(statement).format(template))
    subject.create_tables(conn, template.as_string(conn), "x%d", 1, 9, schema="t")
    for number in (1, 2, 3, 9):
        conn.execute(f"INSERT INTO t.x{number} (id) SELECT n FROM generate_series(1, 3) n")
        conn.execute(f"DELETE FROM t.x{number} WHERE id = 2")
        assert conn.execute(f"SELECT id FROM t.x{number} WHERE gone").fetchall() == [(2,)]
        with pytest.raises(errors.InvalidObjectDefinition, match="infinite recursion"):
            conn.execute(f"ALTER TABLE t.x{number} ENABLE RULE upsert; INSERT INTO t.x{number} (id) VALUES (-1)")
    assert conn.execute(sql.SQL("SELECT * FROM {}").format(template)).fetchall() == [(1, None)]


def test_wide_rules(conn: Connection, catalogs: Catalogs) -> None:
    """Rules that are too long for a row of the catalog."""
    columns = ", ".join(f"column_{n} int" for n in range(200))
    new = ", ".join(f"NEW.column_{n}" for n in range(200))
    rules = (f"CREATE RULE wide AS ON INSERT TO {{table}} DO ALSO INSERT INTO t.wide VALUES ({new})",)
    conn.execute(templates.WORLD)
    conn.execute(f"CREATE TABLE t.wide ({columns}); CREATE TABLE t.template ({columns})".encode())
    oracle.say(conn, rules, _TEMPLATE)
    assert one(conn, "SELECT pg_column_size(ev_action) FROM pg_rewrite WHERE rulename = 'wide'") > 2000
    shown = one(conn, "SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE rulename = 'wide'")
    parts = (shown.replace("t.template", "{table}").rstrip(";"),)
    assert compare.differences(conn, catalogs, templates.TEMPLATE, Batch("x%d", 1, 9, parts=parts)) == []


def test_temporary_template(conn: Connection, catalogs: Catalogs) -> None:
    """Its name is shown without a schema, as those of WITH are."""
    make(conn, ())
    conn.execute("CREATE TEMPORARY TABLE template (id int, code text)")
    parts = (
        "CREATE RULE soft AS ON DELETE TO {table} DO INSTEAD UPDATE {table} AS template SET code = OLD.code"
        " WHERE template.id = OLD.id",
    )
    oracle.say(conn, [part.replace(" AS template", "") for part in parts], sql.Identifier("pg_temp", "template"))
    assert compare.differences(conn, catalogs, "pg_temp.template", Batch("x%d", 1, 4, parts=parts)) == []
    conn.execute(
        "CREATE RULE by_with AS ON UPDATE TO pg_temp.template DO ALSO INSERT INTO t.log"
        " WITH template AS (SELECT who FROM t.member) SELECT who FROM template"
    )
    before = catalog.counts(conn, catalogs)
    with pytest.raises(errors.FeatureNotSupported, match="WITH"):
        subject.create_tables(conn, "pg_temp.template", "x%d", 1, 4, schema="t")
    assert catalog.counts(conn, catalogs) == before


def test_names_in_the_way(conn: Connection) -> None:
    """Objects of the caller's path are not taken for those that the rules name."""
    make(
        conn,
        (
            "CREATE RULE r AS ON INSERT TO {table} WHERE t.allowed(NEW.id) AND lower(NEW.code) = 'x'"
            " DO ALSO INSERT INTO t.log VALUES (upper(NEW.code))",
        ),
    )
    conn.execute(
        "CREATE SCHEMA evil; CREATE TABLE evil.log (what text);"
        "CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';"
        "CREATE FUNCTION evil.upper(text) RETURNS text LANGUAGE sql AS 'SELECT ''x''::text';"
        "CREATE FUNCTION evil.allowed(int) RETURNS boolean LANGUAGE sql AS 'SELECT true';"
        "CREATE OPERATOR evil.= (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int);"
        "CREATE TEMPORARY TABLE log (what text)"
    )
    with conn.transaction(force_rollback=True):
        conn.execute("SET LOCAL search_path = evil, pg_catalog, t; SET LOCAL quote_all_identifiers = on")
        subject.create_tables(conn, "t.template", "x%d", 1, 4, schema="t")
        conn.execute("SET LOCAL search_path = pg_catalog; RESET quote_all_identifiers")
        shown = conn.execute(
            "SELECT DISTINCT replace(pg_get_ruledef(oid), ev_class::regclass::text, '') FROM pg_rewrite"
            " WHERE rulename = 'r'"
        ).fetchall()
        assert len(shown) == 1
        assert "evil" not in shown[0][0]
        assert "t.log" in shown[0][0]


def test_ordinary_roles(conn: Connection, catalogs: Catalogs) -> None:
    """Rules need no privileges to be created, and act with those of the table's owner, as core's do."""
    make(conn, RULES["also"])
    conn.execute(
        "GRANT USAGE ON SCHEMA t TO maker, reader; GRANT SELECT ON t.template TO maker;"
        "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker"
    )
    try:
        batch = Batch("x%d", 1, 5, role="maker", parts=RULES["also"])
        assert compare.differences(conn, catalogs, templates.TEMPLATE, batch) == []
        conn.execute("CREATE SCHEMA target AUTHORIZATION maker; SET ROLE maker")
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="target")
        for number in (1, 2, 3, 5):
            with pytest.raises(errors.InsufficientPrivilege, match="log"):
                conn.execute(f"INSERT INTO target.x{number} (id) VALUES (1)")
        conn.execute("RESET ROLE; GRANT INSERT ON t.log TO maker")
        conn.execute("GRANT USAGE ON SCHEMA target TO reader; GRANT INSERT ON ALL TABLES IN SCHEMA target TO reader")
        conn.execute("SET ROLE reader")
        for number in (1, 2, 3, 5):
            conn.execute(f"INSERT INTO target.x{number} (id, code) VALUES (1, 'by reader')")
        conn.execute("RESET ROLE")
        assert one(conn, "SELECT count(*) FROM t.log WHERE what = 'by reader'") == 4
    finally:
        conn.execute("RESET ROLE; DROP OWNED BY maker; GRANT CREATE ON TABLESPACE space1, space2 TO maker")


def test_what_an_event_trigger_adds(conn: Connection, catalogs: Catalogs) -> None:
    """Rules and views that are not of the template, and for which only one table is made by commands."""
    make(conn, ())
    for body in (
        "CREATE RULE own AS ON INSERT TO t.x1 DO ALSO INSERT INTO t.log VALUES (NEW.code)",
        "CREATE VIEW t.seen AS SELECT * FROM t.x1",
        "CREATE RULE other AS ON INSERT TO t.member DO ALSO DELETE FROM t.x1",
    ):
        conn.execute(
            "CREATE FUNCTION t.observe() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF to_regclass('t.x1') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_depend WHERE classid ="
            " 'pg_rewrite'::regclass AND refobjid = 't.x1'::regclass) THEN " + body + "; END IF; END $$;"
            "CREATE EVENT TRIGGER the_observer ON ddl_command_end WHEN TAG IN ('CREATE TABLE')"
            " EXECUTE FUNCTION t.observe()"
        )
        before = catalog.counts(conn, catalogs)
        with pytest.raises(errors.FeatureNotSupported, match="cannot stamp"):
            subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t", allow_unobserved=True)
        assert catalog.counts(conn, catalogs) == before
        conn.execute("DROP EVENT TRIGGER the_observer; DROP FUNCTION t.observe")


def test_observers(conn: Connection) -> None:
    make(conn, RULES["also"])
    conn.execute(
        "CREATE FUNCTION t.observe() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';"
        "CREATE EVENT TRIGGER the_observer ON ddl_command_end WHEN TAG IN ('CREATE RULE')"
        " EXECUTE FUNCTION t.observe()"
    )
    with pytest.raises(errors.ObjectNotInPrerequisiteState):
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t")
    conn.execute("DROP EVENT TRIGGER the_observer")


@pytest.mark.parametrize("access_method", ["heap", "lazy_heap"])
@pytest.mark.parametrize("number", [3, 40])
def test_dropped_in_bulk(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, access_method: str, number: int
) -> None:
    make(conn, EVERYTHING)
    before = catalog.counts(conn, catalogs)
    conn.execute(
        "SELECT pgbillion_tables.create_tables('t.template', 'x%%d', 1, %s, schema => 't', access_method => %s)",
        [number, access_method],
    )
    drop = "SELECT pgbillion_tables.drop_tables(array_agg(format('t.x%%s', n)::regclass)) FROM generate_series(1, %s) n"
    with cluster.connect(database) as other:
        other.execute("INSERT INTO t.x2 (id) VALUES (1); SELECT * FROM t.x3")
        # by PostgreSQL's deletions each table would have a lock for its row type, at least
        with conn.transaction():
            row = conn.execute(drop, [number]).fetchone()
            assert row == (number,)
            assert one(conn, "SELECT count(*) FROM pg_locks WHERE locktype = 'object' AND pid = pg_backend_pid()") == 0
        with pytest.raises(errors.UndefinedTable):
            other.execute("INSERT INTO t.x2 (id) VALUES (1)")
    conn.execute("DELETE FROM t.member")
    assert catalog.counts(conn, catalogs) == before


OTHERS = {
    "view": "CREATE VIEW t.v AS SELECT * FROM t.x2",
    "materialized view": "CREATE MATERIALIZED VIEW t.v AS SELECT * FROM t.x2",
    "rule of another table": "CREATE RULE r AS ON INSERT TO t.member DO ALSO DELETE FROM t.x2",
    "rule of one that is dropped": "CREATE RULE r AS ON INSERT TO t.x1 DO ALSO DELETE FROM t.x2",
    "view over its row type": "CREATE VIEW t.v AS SELECT NULL::t.x2 AS x",
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("tables", [("x2",), ("x1", "x2"), ("x1", "x2", "x3"), ("x1",)])
def test_dropped_with_dependents(conn: Connection, catalogs: Catalogs, name: str, tables: tuple[str, ...]) -> None:
    """As DROP TABLE: refused or done, and cascaded to the same."""
    make(conn, EVERYTHING)
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 3, schema="t")
    conn.execute(OTHERS[name].encode())
    before = catalog.counts(conn, catalogs)
    listed = ", ".join(f"t.{table}" for table in tables)
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
                    conn.execute(call)
                assert catalog.counts(conn, catalogs) == before
            else:
                assert one(conn, call) == len(tables)
                assert catalog.counts(conn, catalogs) == expected
