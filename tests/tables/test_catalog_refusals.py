"""What is refused: by name, with the right SQLSTATE and a hint, and without a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import errors

from harness import catalogs as catalog
from harness import invariants, subject, templates
from harness.catalogs import Catalogs
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


@dataclass(frozen=True)
class Refusal:
    """A script after which `create_tables` on t.template must fail."""

    script: str
    error: type[psycopg.Error]
    #: what message, detail and hint together must match
    says: str
    hint: bool = True
    template: str = templates.TEMPLATE
    since: int = 15


NOWHERE = (
    "DROP FOREIGN DATA WRAPPER IF EXISTS nothing CASCADE; CREATE FOREIGN DATA WRAPPER nothing;"
    "CREATE SERVER nowhere FOREIGN DATA WRAPPER nothing"
)
TEMPLATES = {
    "foreign_key_switched_off": Refusal(
        "CREATE TABLE t.other (i int PRIMARY KEY);"
        " CREATE TABLE t.template (i int CONSTRAINT the_fk REFERENCES t.other);"
        " ALTER TABLE t.template DISABLE TRIGGER ALL",
        errors.FeatureNotSupported,
        "foreign key.*the_fk.*switched off",
    ),
    "policy_of_its_row_type": Refusal(
        "CREATE TABLE t.template (i int); CREATE FUNCTION t.seen(t.template) RETURNS bool LANGUAGE sql RETURN true;"
        " CREATE POLICY the_policy ON t.template USING (t.seen(template.*))",
        errors.UndefinedFunction,
        "function t.seen",
    ),
    "temporary_with_key": Refusal(
        "CREATE TEMPORARY TABLE other (i int PRIMARY KEY); CREATE TEMPORARY TABLE template (i int REFERENCES other)",
        errors.InvalidTableDefinition,
        "permanent tables",
        False,
        "pg_temp.template",
    ),
    "foreign_partition": Refusal(
        f"CREATE TABLE t.template (i int) PARTITION BY LIST (i); {NOWHERE};"
        "CREATE FOREIGN TABLE t.far PARTITION OF t.template FOR VALUES IN (1) SERVER nowhere",
        errors.FeatureNotSupported,
        'foreign table "far" as a partition',
    ),
    "view": Refusal("CREATE VIEW t.template AS SELECT 1 AS i", errors.WrongObjectType, "not a table"),
    "materialized_view": Refusal(
        "CREATE MATERIALIZED VIEW t.template AS SELECT 1 AS i", errors.WrongObjectType, "not a table"
    ),
    "sequence": Refusal("CREATE SEQUENCE t.template", errors.WrongObjectType, "not a table"),
    "index": Refusal(
        "CREATE TABLE t.other (i int); CREATE INDEX template ON t.other (i)", errors.WrongObjectType, "not a table"
    ),
    "composite_type": Refusal("CREATE TYPE t.template AS (i int)", errors.WrongObjectType, "not a table"),
    "foreign_table": Refusal(
        f"{NOWHERE}; CREATE FOREIGN TABLE t.template (i int) SERVER nowhere",
        errors.WrongObjectType,
        "not a table",
    ),
    "system_catalog": Refusal("", errors.WrongObjectType, "catalog", False, "pg_catalog.pg_description"),
    "shared_catalog": Refusal("", errors.WrongObjectType, "catalog", False, "pg_catalog.pg_database"),
    "toast_table": Refusal("", errors.WrongObjectType, "table", True, "pg_toast.pg_toast_1255"),
    "whole_row_check": Refusal(
        "CREATE TABLE t.template (i int, CHECK (template IS NOT NULL))",
        errors.FeatureNotSupported,
        "whole-row|whole row",
        False,
    ),
    "whole_row_function": Refusal(
        "CREATE TABLE t.template (i int); ALTER TABLE t.template ADD CONSTRAINT c CHECK"
        " (row_to_json(template) IS NOT NULL)",
        errors.FeatureNotSupported,
        "whole-row|whole row",
        False,
    ),
}


@pytest.fixture
def untouched(conn: Connection, catalogs: Catalogs) -> Iterator[None]:
    """Nothing may have changed in any catalogue, nor a schema be left, between the test's preparation and its end."""
    conn.execute(templates.WORLD)
    conn.execute("CREATE SCHEMA target")
    yield
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'target'::regnamespace") == 0
    assert one(conn, "SELECT count(*) FROM pg_type WHERE typnamespace = 'target'::regnamespace") == 0
    conn.execute(
        "DROP PUBLICATION IF EXISTS the_publication; DROP FOREIGN DATA WRAPPER IF EXISTS nothing CASCADE;"
        "DROP EVENT TRIGGER IF EXISTS the_observer"
    )


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("name", TEMPLATES)
def test_template(conn: Connection, catalogs: Catalogs, name: str) -> None:
    case = TEMPLATES[name]
    if case.script:
        conn.execute(case.script.encode())
    before = catalog.counts(conn, catalogs)
    with pytest.raises(case.error) as raised:
        subject.create_tables(conn, case.template, schema="target")
    _check_message(raised.value, case.says, case.hint)
    assert catalog.counts(conn, catalogs) == before


@dataclass(frozen=True)
class Call:
    """Arguments that must fail on a plain template."""

    sqlstate: str
    says: str
    name_format: str | None = None
    first: int | None = 1
    count: int | None = 1
    tablespaces: tuple[str | None, ...] | None = None
    hint: bool = True


CALLS = {
    "count_zero": Call("22023", "count", count=0, hint=False),
    "count_negative": Call("22023", "count", count=-1, hint=False),
    "count_smallest": Call("22023", "count", count=-(2**63), hint=False),
    "count_beyond_oids": Call("54000", "count", count=2**32, hint=False),
    "first_negative": Call("22023", "first|negative", first=-1, hint=False),
    "range_overflows": Call("22003", "range", first=2**63 - 1, count=2, hint=False),
    "range_overflows_far": Call("22003", "range", first=2**63 - 1, count=2**63 - 1, hint=False),
    "first_null": Call("22004", "null", first=None, hint=False),
    "count_null": Call("22004", "null", count=None, hint=False),
    "no_number": Call("22023", "format", "table", count=2),
    "no_number_one_table": Call("22023", "format", "table"),
    "empty_format": Call("22023", "format", ""),
    "two_numbers": Call("22023", "more than one", "t%d_%d"),
    "unknown_conversion": Call("22023", "format", "t%s"),
    "float_conversion": Call("22023", "format", "t%f"),
    "write_conversion": Call("22023", "format", "t%n"),
    "length_modifier": Call("22023", "format", "t%ld"),
    "precision": Call("22023", "format", "t%.3d"),
    "star_width": Call("22023", "format", "t%*d"),
    "positional": Call("22023", "format", "t%1$d"),
    "left_aligned": Call("22023", "format", "t%-5d"),
    "signed": Call("22023", "format", "t%+d"),
    "alternate_form": Call("22023", "format", "t%#x"),
    "unfinished": Call("22023", "format", "t%d%"),
    "unfinished_width": Call("22023", "format", "t%08"),
    "only_percent": Call("22023", "format", "%%"),
    "huge_width": Call("22023|42622", "format|too long", "t%99999999999999999999d", hint=False),
    "long_name": Call("42622", "too long", "n" * 63 + "%d", hint=False),
    "long_name_by_width": Call("42622", "too long", "t%063d", hint=False),
    "long_name_later": Call("42622", "too long", "n" * 62 + "%d", first=8, count=3, hint=False),
    "long_name_multibyte": Call("42622", "too long", "é" * 32 + "%d", hint=False),
    "tablespaces_empty": Call("22023", "tablespaces", tablespaces=(), hint=True),
    "tablespaces_null": Call("22004", "null", tablespaces=("space1", None), hint=False),
    "tablespace_missing": Call("42704", "nowhere", tablespaces=("space1", "nowhere"), count=1, hint=False),
    "tablespace_global": Call("22023", "pg_global", tablespaces=("pg_global",), hint=False),
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("name", CALLS)
def test_arguments(conn: Connection, catalogs: Catalogs, name: str) -> None:
    case = CALLS[name]
    conn.execute("CREATE TABLE t.template (i int PRIMARY KEY)")
    before = catalog.counts(conn, catalogs)
    with pytest.raises(psycopg.Error) as raised:
        conn.execute(
            "SELECT pgbillion_tables.create_tables('t.template', %s, %s, %s, %s::name[], 'target')",
            [case.name_format, case.first, case.count, None if case.tablespaces is None else list(case.tablespaces)],
        )
    assert re.fullmatch(case.sqlstate, raised.value.sqlstate or ""), raised.value.diag.message_primary
    _check_message(raised.value, case.says, case.hint)
    assert catalog.counts(conn, catalogs) == before


def test_missing_template(conn: Connection) -> None:
    with pytest.raises(errors.UndefinedTable):
        subject.create_tables(conn, "no_such_table")
    with pytest.raises(errors.UndefinedTable):
        conn.execute("SELECT pgbillion_tables.create_tables(4000000000::oid::regclass, NULL, 1, 1)")
    with pytest.raises(errors.NullValueNotAllowed):
        conn.execute("SELECT pgbillion_tables.create_tables(NULL, NULL, 1, 1)")


@pytest.mark.usefixtures("untouched")
def test_missing_or_impossible_schema(conn: Connection) -> None:
    conn.execute("CREATE TABLE t.template (i int PRIMARY KEY)")
    with pytest.raises(errors.InvalidSchemaName):
        subject.create_tables(conn, templates.TEMPLATE, schema="no such schema")
    with pytest.raises(errors.InvalidSchemaName):
        conn.execute(
            "SELECT pgbillion_tables.create_tables('t.template', NULL, 1, 1, schema => 4000000000::oid::regnamespace)"
        )
    conn.execute("SET search_path = ''")
    with pytest.raises(errors.InvalidSchemaName):  # as CREATE TABLE says: no schema has been selected
        subject.create_tables(conn, templates.TEMPLATE)
    conn.execute("RESET search_path; CREATE TEMPORARY TABLE mine (i int)")
    with pytest.raises(errors.FeatureNotSupported) as raised:
        subject.create_tables(
            conn,
            templates.TEMPLATE,
            schema=one(conn, "SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()"),
        )
    _check_message(raised.value, "temporary", True)
    conn.execute("SET search_path = pg_temp, public")
    with pytest.raises(errors.FeatureNotSupported) as raised:
        subject.create_tables(conn, templates.TEMPLATE)
    _check_message(raised.value, "temporary", True)
    for schema in ("pg_catalog", "pg_toast"):
        with pytest.raises(psycopg.Error) as refused:
            subject.create_tables(conn, templates.TEMPLATE, schema=schema)
        with pytest.raises(psycopg.Error) as of_core:
            conn.execute(f"CREATE TABLE {schema}.x (i int)")
        assert refused.value.sqlstate == of_core.value.sqlstate == "42501"


@pytest.mark.usefixtures("untouched")
def test_schema_dropped_in_the_search_path(conn: Connection) -> None:
    """Without a schema argument the tables go where CREATE TABLE would put them."""
    conn.execute(
        "CREATE TABLE t.template (i int PRIMARY KEY); CREATE SCHEMA here; SET search_path = nowhere, here, target"
    )
    subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 2)
    assert one(
        conn, "SELECT array_agg(relname ORDER BY 1)::text FROM pg_class WHERE relnamespace = 'here'::regnamespace"
    ) == ("{x1,x1_pkey,x2,x2_pkey}")


def test_temporary_table_of_another_session(cluster: Cluster, database: str, conn: Connection) -> None:
    with cluster.connect(database) as other:
        other.execute("CREATE TEMPORARY TABLE theirs (i int)")
        oid = one(other, "SELECT 'theirs'::regclass::oid::bigint")
        with pytest.raises(errors.FeatureNotSupported):
            conn.execute("SELECT pgbillion_tables.create_tables(%s::oid::regclass, NULL, 1, 1)", [oid])


@pytest.mark.parametrize(
    "kind", ["TABLE {} (i int)", "VIEW {} AS SELECT 1 AS one", "SEQUENCE {}", "TYPE {} AS ENUM ()", "DOMAIN {} AS int"]
)
@pytest.mark.parametrize("position", [1, 2, 5])
def test_name_exists(conn: Connection, catalogs: Catalogs, kind: str, position: int) -> None:
    """The first, the second or the last table's name is a relation's or a type's already; as CREATE TABLE says."""
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i serial PRIMARY KEY, t text); CREATE SCHEMA target")
    conn.execute("CREATE " + kind.format(f"target.x{position}"))
    with pytest.raises(psycopg.Error) as of_core:
        conn.execute(f"CREATE TABLE target.x{position} (i int)")
    before = catalog.counts(conn, catalogs)
    with pytest.raises(psycopg.Error) as raised:
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 5, schema="target")
    assert raised.value.sqlstate == of_core.value.sqlstate
    assert raised.value.diag.message_primary == of_core.value.diag.message_primary
    assert raised.value.diag.message_hint == of_core.value.diag.message_hint
    assert catalog.counts(conn, catalogs) == before


def test_shell_type_of_a_table_s_name(conn: Connection) -> None:
    """Core's CREATE TABLE would fill the shell in; a stamp says that the name is taken."""
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i serial PRIMARY KEY); CREATE TYPE t.x3; CREATE TYPE t._y2")
    with pytest.raises(errors.DuplicateObject) as raised:
        subject.create_tables(conn, templates.TEMPLATE, "x%d", 1, 4, schema="t")
    _check_message(raised.value, 'type "x3" already exists', True)
    # the parts of the second table have OIDs in another order, so that a third and a fourth are made by commands
    subject.create_tables(conn, templates.TEMPLATE, "y%d", 1, 6, schema="t")
    conn.execute("INSERT INTO t.y2 DEFAULT VALUES; INSERT INTO t.y6 DEFAULT VALUES")


def test_twice(conn: Connection) -> None:
    """The same call again fails and leaves the first one's tables alone."""
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i serial PRIMARY KEY)")
    subject.create_tables(conn, templates.TEMPLATE, None, 1, 20, schema="t")
    for first in (1, 20, 15):
        with pytest.raises(errors.DuplicateTable):
            subject.create_tables(conn, templates.TEMPLATE, None, first, 10, schema="t")
    assert one(conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 't'") == 21


def test_read_only(conn: Connection) -> None:
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i int)")
    conn.execute("SET default_transaction_read_only = on")
    with pytest.raises(errors.ReadOnlySqlTransaction):
        subject.create_tables(conn, templates.TEMPLATE, schema="t")


OBSERVERS = {
    "ddl_command_start": True,
    "ddl_command_end": True,
    "sql_drop": False,
    "table_rewrite": False,
    "login": False,
}


MEDDLERS = {
    "INSERT INTO {} VALUES (1)": ("55000", "was written to while it was being created"),
    "ALTER TABLE {} ALTER i TYPE bigint": ("55000", "was written to while it was being created"),
    "CREATE VIEW t.seen AS SELECT * FROM {}": ("0A000", "cannot stamp tables with rule"),
    "CREATE FUNCTION t.seen({}) RETURNS integer LANGUAGE sql AS 'SELECT 1'": (
        "0A000",
        "cannot stamp tables with function",
    ),
    "ALTER INDEX target.{1}_i_j_key RENAME TO odd": ("XX000", 'cannot tell the origin of the name "odd"'),
    "ALTER TABLE {} ADD CONSTRAINT odd CHECK (i > j)": (
        "XX000",
        'cannot tell the origin of the name of constraint "odd"',
    ),
    "COMMENT ON TABLE {} IS 'odd'": ("0A000", "cannot stamp tables like .*tables have 1 and 0 rows in pg_description"),
    "ALTER TABLE {} SET (fillfactor = 50)": ("0A000", "cannot stamp tables like .*pg_class.reloptions is null in one"),
    "ALTER TABLE {} ALTER j SET STATISTICS 7": ("0A000", "cannot stamp tables like .*pg_attribute.attstattarget"),
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("command", MEDDLERS)
def test_event_triggers_that_meddle(conn: Connection, command: str) -> None:
    """Those who are told to go on nevertheless get no copies of what an event trigger has made of the first table."""
    conn.execute("CREATE TABLE t.template (i int, j int, UNIQUE (i, j))")
    conn.execute(
        "CREATE FUNCTION t.meddle() RETURNS event_trigger LANGUAGE plpgsql AS $$ DECLARE made regclass; BEGIN"
        " SELECT objid INTO made FROM pg_event_trigger_ddl_commands() WHERE object_type = 'table';"
        " IF made IS NOT NULL AND current_setting('t.done') = '' THEN PERFORM set_config('t.done', 'yes', true);"
        " EXECUTE replace(replace(current_setting('t.run'), '{1}', split_part(made::text, '.', 2)), '{}', made::text);"
        " END IF; END $$;"
        "CREATE EVENT TRIGGER the_meddler ON ddl_command_end EXECUTE FUNCTION t.meddle(); SET t.done = ''"
    )
    sqlstate, says = MEDDLERS[command]
    try:
        conn.execute("SELECT set_config('t.run', %s, false)", [command])
        with pytest.raises(psycopg.Error, match=f"(?s){says}") as raised:
            subject.create_tables(conn, templates.TEMPLATE, schema="target", count=3, allow_unobserved=True)
        assert raised.value.sqlstate == sqlstate
    finally:
        conn.execute("DROP EVENT TRIGGER the_meddler; RESET t.run; RESET t.done")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("event", OBSERVERS)
def test_event_triggers(conn: Connection, event: str) -> None:
    """Where an event trigger would have seen the tables, the call is refused unless it is told to go on."""
    if event == "login" and one(conn, "SELECT current_setting('server_version_num')::int") < 170000:
        pytest.skip("not of this server")
    conn.execute("CREATE TABLE t.template (i int PRIMARY KEY); CREATE SCHEMA elsewhere")
    conn.execute(
        "CREATE FUNCTION t.observe() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;"
        f"CREATE EVENT TRIGGER the_observer ON {event} EXECUTE FUNCTION t.observe()"
    )
    try:
        if OBSERVERS[event]:
            with pytest.raises(psycopg.Error) as raised:
                subject.create_tables(conn, templates.TEMPLATE, schema="target")
            assert raised.value.sqlstate == "55000"
            _check_message(raised.value, "event trigger.*allow_unobserved", True)
            assert subject.create_tables(conn, templates.TEMPLATE, schema="elsewhere", allow_unobserved=True) == 1
            conn.execute("ALTER EVENT TRIGGER the_observer DISABLE")
            conn.execute("DROP SCHEMA elsewhere CASCADE; CREATE SCHEMA elsewhere")
        assert subject.create_tables(conn, templates.TEMPLATE, schema="elsewhere") == 1
    finally:
        conn.execute("DROP EVENT TRIGGER the_observer")


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("tags", "refused"),
    [
        ("'CREATE TABLE'", True),
        ("'CREATE INDEX'", True),
        ("'CREATE SEQUENCE'", True),
        ("'COMMENT'", True),
        ("'CREATE TRIGGER'", True),
        ("'CREATE POLICY'", True),
        ("'ALTER TABLE'", True),
        ("'DROP TABLE'", False),
        ("'CREATE FUNCTION'", False),
    ],
)
def test_event_trigger_tags(conn: Connection, tags: str, refused: bool) -> None:
    """Only triggers on commands that a call stands for count."""
    conn.execute(
        "CREATE TABLE t.template (i serial PRIMARY KEY, b int); CREATE INDEX ON t.template (b);"
        " COMMENT ON TABLE t.template IS 'x'; CREATE POLICY p ON t.template USING (b > 0);"
        " CREATE TRIGGER g BEFORE UPDATE ON t.template FOR EACH ROW"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger();"
        " ALTER TABLE t.template ADD FOREIGN KEY (b) REFERENCES t.template"
    )
    conn.execute(
        "CREATE FUNCTION t.observe() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;"
        f"CREATE EVENT TRIGGER the_observer ON ddl_command_end WHEN TAG IN ({tags}) EXECUTE FUNCTION t.observe()"
    )
    conn.execute("CREATE SCHEMA elsewhere")
    try:
        if refused:
            with pytest.raises(psycopg.Error) as raised:
                subject.create_tables(conn, templates.TEMPLATE, schema="elsewhere")
            _check_message(raised.value, "event trigger.*allow_unobserved", True)
        else:
            assert subject.create_tables(conn, templates.TEMPLATE, schema="elsewhere") == 1
    finally:
        conn.execute("DROP EVENT TRIGGER the_observer")


# ---- privileges: each is granted but one


GRANTS = {
    "execute": "GRANT EXECUTE ON FUNCTION pgbillion_tables.create_tables TO maker",
    "template": "GRANT SELECT ON t.template TO maker",
    "schema": "GRANT CREATE ON SCHEMA target TO maker",
    "template_schema": "GRANT USAGE ON SCHEMA t TO maker",
    "tablespace": "GRANT CREATE ON TABLESPACE space1, space2 TO maker",
    "type": "GRANT USAGE ON TYPE t.mood TO maker",
}


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("missing", GRANTS)
def test_missing_privilege(conn: Connection, catalogs: Catalogs, missing: str) -> None:
    conn.execute("CREATE TABLE t.template (i serial PRIMARY KEY, m t.mood); REVOKE USAGE ON TYPE t.mood FROM PUBLIC")
    conn.execute("DROP OWNED BY maker")
    for name, statement in GRANTS.items():
        if name != missing:
            conn.execute(statement)
    before = catalog.counts(conn, catalogs)
    oid = one(conn, "SELECT 't.template'::regclass::oid::bigint")
    try:
        conn.execute("SET ROLE maker")
        with pytest.raises(errors.InsufficientPrivilege):
            conn.execute(
                "SELECT pgbillion_tables.create_tables(%s::oid::regclass, NULL, 1, 2, '{space1,space2}', (SELECT"
                " oid FROM pg_namespace WHERE nspname = 'target'))",
                [oid],
            )
        conn.execute("RESET ROLE")
        assert catalog.counts(conn, catalogs) == before
    finally:
        conn.execute("RESET ROLE; DROP OWNED BY maker")
        conn.execute(GRANTS["tablespace"])


@pytest.mark.usefixtures("untouched")
def test_second_tablespace_without_privilege(conn: Connection, catalogs: Catalogs) -> None:
    """The privilege is looked at for each tablespace, used by the first table or not."""
    conn.execute(
        "CREATE TABLE t.template (i int); GRANT SELECT ON t.template TO maker; GRANT USAGE ON SCHEMA t TO maker"
    )
    conn.execute(
        "GRANT CREATE ON SCHEMA target TO maker; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgbillion_tables TO maker"
    )
    conn.execute(GRANTS["tablespace"])
    try:
        conn.execute("SET ROLE maker")
        with pytest.raises(errors.InsufficientPrivilege, match="tablespace space3"):
            subject.create_tables(
                conn, templates.TEMPLATE, None, 0, 5, tablespaces=["space1", "space3"], schema="target"
            )
    finally:
        conn.execute("RESET ROLE; DROP OWNED BY maker")
        conn.execute(GRANTS["tablespace"])


def test_execute_is_not_public(conn: Connection) -> None:
    """What everybody may call only reads, or asks for the owner's rights. Whatever is new has to be thought of here."""
    everybodys = {
        "version", "tables", "create_progress", "schema_fingerprints", "to_heap", "all_to_heap",
        "metadata_memory",
        # SQL cannot call these
        "lazy_heap_handler", "drop_guard",
    }  # fmt: skip
    called = conn.execute(
        "SELECT proname, has_function_privilege('reader', p.oid, 'EXECUTE') FROM pg_proc p"
        " WHERE pronamespace = 'pgbillion_tables'::regnamespace"
    ).fetchall()
    assert len(called) > len(everybodys)
    assert {name for name, public in called if public} == everybodys


def test_security_definer_and_restricted(conn: Connection) -> None:
    """Called by way of a SECURITY DEFINER function the tables are the definer's, as with CREATE TABLE."""
    conn.execute(
        "CREATE SCHEMA t; CREATE TABLE t.template (i serial PRIMARY KEY); GRANT USAGE ON SCHEMA t TO reader;"
        "CREATE FUNCTION t.by_proxy() RETURNS bigint LANGUAGE sql SECURITY DEFINER"
        " RETURN pgbillion_tables.create_tables('t.template', 'p%d', 1, 2, schema => 't')"
    )
    conn.execute("SET ROLE reader")
    assert one(conn, "SELECT t.by_proxy()") == 2
    conn.execute("RESET ROLE")
    assert (
        one(conn, "SELECT string_agg(DISTINCT relowner::regrole::text, ' ') FROM pg_class WHERE relname ~ '^p[12]'")
        == "postgres"
    )


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pgbillion_tables.create_tables('t.template', 'q%%d', n, 1, schema => 't') FROM generate_series(1, 3) n",
        "DO $$ BEGIN PERFORM pgbillion_tables.create_tables('t.template', 'q%%d', 1, 3, schema => 't'); END $$",
        "WITH made AS (SELECT pgbillion_tables.create_tables('t.template', 'q%%d', 1, 3, schema => 't'))"
        " SELECT * FROM made",
        "SELECT pgbillion_tables.create_tables('t.template', 'q%%d', 1, 1, schema => 't'),"
        " pgbillion_tables.create_tables('t.template', 'q%%d', 2, 2, schema => 't')",
    ],
)
def test_ways_of_calling(conn: Connection, statement: str) -> None:
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i serial PRIMARY KEY, b text)")
    conn.execute(statement.replace("%%", "%").encode())
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relname ~ '^q[123]$'") == 3
    for number in (1, 2, 3):
        conn.execute(f"INSERT INTO t.q{number} (b) VALUES ('x')")


@pytest.mark.usefixtures("untouched")
def test_another_access_method(conn: Connection) -> None:
    """heap under another name: what default_table_access_method makes is either made or refused by name."""
    conn.execute("CREATE ACCESS METHOD other_heap TYPE TABLE HANDLER heap_tableam_handler")
    try:
        conn.execute("CREATE TABLE t.template (i int); SET default_table_access_method = other_heap")
        with pytest.raises(errors.FeatureNotSupported) as raised:
            subject.create_tables(conn, templates.TEMPLATE, schema="target")
        _check_message(raised.value, "other_heap", True)
        conn.execute(
            "RESET default_table_access_method; CREATE TABLE t.other (i int) USING other_heap; CREATE SCHEMA elsewhere"
        )
        # LIKE does not copy the access method, so this template is as good as any
        assert subject.create_tables(conn, "t.other", schema="elsewhere") == 1
        conn.execute("DROP SCHEMA elsewhere CASCADE; DROP TABLE t.other")
    finally:
        conn.execute("RESET default_table_access_method; DROP ACCESS METHOD other_heap CASCADE")


def test_nothing_is_left_on_disk(cluster: Cluster, conn: Connection) -> None:
    """A call that fails at its last table leaves no file."""
    conn.execute("CREATE SCHEMA t; CREATE TABLE t.template (i serial PRIMARY KEY, b text); CREATE TABLE t._00000064 ()")
    with pytest.raises(errors.DuplicateTable):
        subject.create_tables(conn, templates.TEMPLATE, None, 1, 100, tablespaces=["space1", "pg_default"], schema="t")
    conn.execute("CHECKPOINT")
    assert invariants.orphans(cluster.data, conn) == set()
    assert invariants.missing(cluster.data, conn) == set()


def _check_message(error: psycopg.Error, says: str, hint: bool) -> None:
    text = " ".join(filter(None, (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)))
    assert re.search(says, text, re.IGNORECASE | re.DOTALL), text
    if hint:
        assert error.diag.message_hint, text
