"""clone_schema(): a clone is what the same commands make under another name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest
from psycopg import sql

from harness import catalogs as catalog_rows
from harness import invariants, schema_rows, schemas, servers
from harness.catalogs import Catalogs
from harness.clones import by_commands, clone, dump, prepare, reasons, same, some
from harness.servers import one
from pgbillion.common import together
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation

pytestmark = pytest.mark.majors


# what a template remembers of dropped columns, a clone does not
DROPPED_COLUMNS = ("partitions", "storage")


@pytest.fixture(scope="module", autouse=True)
def outside(cluster: Cluster, database: str) -> Iterator[None]:
    with cluster.connect(database) as conn:
        schemas.make_outside(conn)
    yield
    with cluster.connect(database) as conn:
        conn.execute("DROP SCHEMA outside CASCADE")


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_the_dump_of_a_clone_is_the_template_s(cluster: Cluster, database: str, conn: Connection, kind: str) -> None:
    schemas.make_schema(conn, "the_template", schemas.KINDS[kind])
    clone(conn, "the_template", "the_clone")
    assert dump(cluster, database, "the_clone") == dump(cluster, database, "the_template")


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_the_rows_of_a_clone_are_those_that_commands_make(conn: Connection, catalogs: Catalogs, kind: str) -> None:
    schemas.make_schema(conn, "the_template", schemas.KINDS[kind])
    clone(conn, "the_template", "the_clone")
    clone(conn, "the_clone", "clone_of_clone")
    made = schema_rows.rows(conn, catalogs, "the_clone")
    same(schema_rows.rows(conn, catalogs, "clone_of_clone"), made)
    if kind not in DROPPED_COLUMNS:
        same(
            schema_rows.rows(conn, catalogs, "the_clone", trees=False),
            schema_rows.rows(conn, catalogs, "the_template", trees=False),
        )


def test_generated_columns_of_children(cluster: Cluster, database: str, conn: Connection) -> None:
    """From 16 on they are generated where the parent's are; before that, where only the child's are, too."""
    made = "CREATE TABLE p (a integer, b integer GENERATED ALWAYS AS (a + 1) STORED); CREATE TABLE c () INHERITS (p)"
    if conn.info.server_version < 160000:
        made += (
            "; CREATE TABLE q (a integer, b integer);"
            "CREATE TABLE d (a integer, b integer GENERATED ALWAYS AS (a + 2) STORED) INHERITS (q)"
        )
    else:
        made += "; CREATE TABLE d (a integer, b integer GENERATED ALWAYS AS (a + 2) STORED) INHERITS (p)"
    schemas.make_schema(conn, "model", made)
    clone(conn, "model", "tenant")
    assert dump(cluster, database, "tenant") == dump(cluster, database, "model")
    conn.execute("INSERT INTO tenant.c (a) VALUES (1); INSERT INTO tenant.d (a) VALUES (1)")
    assert (one(conn, "SELECT b FROM tenant.c"), one(conn, "SELECT b FROM tenant.d")) == (2, 3)


@pytest.mark.quick
@pytest.mark.parametrize("stamped", [False, True])
def test_a_clone_lives_its_own_life(conn: Connection, stamped: bool) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    conn.execute("INSERT INTO model.customer (name) VALUES ('in the template')")
    conn.execute("SELECT nextval('model.number')")
    if stamped:
        some(conn, "model", "tenant%d", 1, 3)
        conn.execute("ALTER SCHEMA tenant3 RENAME TO tenant")
    else:
        clone(conn, "model", "tenant")
    conn.execute("INSERT INTO tenant.customer (name) VALUES ('a'), ('b')")
    assert conn.execute("SELECT id, name FROM tenant.customer ORDER BY id").fetchall() == [(100, "a"), (110, "b")]
    conn.execute("INSERT INTO tenant.invoice (customer, net) VALUES (100, 50), (110, 10)")
    assert conn.execute("SELECT id, number, tax FROM tenant.invoice ORDER BY id").fetchall() == [
        (1, 1000, 10),
        (2, 1005, 2),
    ]
    assert conn.execute("SELECT what FROM tenant.log").fetchall() == [("INSERT",), ("INSERT",)]
    assert conn.execute("SELECT who, total FROM tenant.unpaid ORDER BY 1").fetchall() == [("a", 60), ("b", 12)]
    assert conn.execute("SELECT number FROM tenant.of_view() ORDER BY 1").fetchall() == [(1000,), (1005,)]
    assert conn.execute("SELECT customers FROM tenant.totals").fetchall() == [(0,)]
    with pytest.raises(psycopg.errors.CheckViolation, match="not_negative"):
        conn.execute("UPDATE tenant.invoice SET net = -1")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        conn.execute("UPDATE tenant.invoice SET customer = 100000")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        conn.execute("UPDATE tenant.customer SET country = 'xx'")
    conn.execute("DELETE FROM tenant.customer WHERE name = 'b'")
    assert one(conn, "SELECT count(*) FROM tenant.invoice") == 1
    with conn.transaction():
        conn.execute("GRANT USAGE ON SCHEMA tenant TO reader")
        conn.execute("GRANT SELECT ON tenant.customer TO reader")
        conn.execute("SET LOCAL ROLE reader")
        assert one(conn, "SELECT count(*) FROM tenant.invoice") == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
            conn.execute("SELECT * FROM tenant.log")
    assert one(conn, "SELECT count(*) FROM model.invoice") == 0
    conn.execute("DROP SCHEMA model CASCADE")
    assert one(conn, "SELECT count(*) FROM tenant.sums") == 1


@pytest.mark.quick
def test_many_clones_in_one_call(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i serial PRIMARY KEY); CREATE TABLE b (i integer REFERENCES a)")
    assert one(conn, "SELECT pgbillion_tables.clone_schemas('model', 'tenant_%05d', 7, 3)") == 3
    for number in (7, 8, 9):
        conn.execute(f"INSERT INTO tenant_{number:05}.a DEFAULT VALUES")
        conn.execute(f"INSERT INTO tenant_{number:05}.b VALUES (1)")
    assert one(conn, "SELECT pgbillion_tables.clone_schema('model', 'lazy', 'lazy_heap')::text") == "lazy"
    kinds = conn.execute("SELECT DISTINCT amname FROM pg_class c JOIN pg_am a ON a.oid = relam"
                         " WHERE relnamespace = 'lazy'::regnamespace AND relkind = 'r'").fetchall()  # fmt: skip
    assert kinds == [("lazy_heap",)]


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_stamped_clones_are_those_that_commands_make(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, kind: str
) -> None:
    schemas.make_schema(conn, "model", schemas.KINDS[kind])
    told = reasons(conn)
    some(conn, "model", "clone_%d", 98, 5)
    assert told == []
    made = schema_rows.rows(conn, catalogs, "clone_98")
    for name in ("clone_100", "clone_102"):
        same(schema_rows.rows(conn, catalogs, name), made)
    assert dump(cluster, database, "clone_102") == dump(cluster, database, "model")
    conn.execute("DELETE FROM pgbillion_tables.prepared_clones")
    assert prepare(conn, "model")
    clone(conn, "model", "prepared")
    same(schema_rows.rows(conn, catalogs, "prepared"), made)


def test_a_prepared_clone_needs_no_commands(cluster: Cluster, database: str, conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    assert by_commands(conn, "model", "first")
    assert prepare(conn, "model")
    assert prepare(conn, "model")
    with cluster.connect(database) as other:
        assert not by_commands(other, "model", "second")
        other.execute("INSERT INTO second.customer (name) VALUES ('a')")
        assert one(other, "SELECT id FROM second.customer") == 100
    # none of this changes what a clone is
    conn.execute(
        "INSERT INTO model.customer (name) VALUES ('a'); SELECT nextval('model.number'); ANALYZE model.customer"
    )
    some(conn, "model", "more%d", 1, 3)
    conn.execute("VACUUM pg_class, pg_attribute, pg_depend, pg_proc")
    assert not by_commands(conn, "model", "third")
    assert conn.execute("SELECT customers FROM third.totals").fetchall() == [(0,)]
    assert one(conn, "SELECT count(*) FROM pgbillion_tables.prepared_clones") == 1
    # for another access method and another role there is none
    assert one(conn, "SELECT pgbillion_tables.clone_schema('model', 'lazy', 'lazy_heap')::text") == "lazy"
    kinds = (
        "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'lazy_heap' AND relnamespace = %s"
    )
    assert one(conn, kinds.replace("%s", "'lazy'::regnamespace")) > 0
    schemas.make_schema(conn, "small", "CREATE TABLE a (i integer)")
    conn.execute("DROP SCHEMA model CASCADE")
    assert prepare(conn, "small")
    assert one(conn, "SELECT count(*) FROM pgbillion_tables.prepared_clones") == 1


def test_what_many_clones_have_taught_is_kept(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs
) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    with cluster.connect(database) as other:
        # nobody waits for that
        with other.transaction():
            other.execute("LOCK pgbillion_tables.prepared_clones IN SHARE MODE")
            some(conn, "model", "early%d", 1, 3)
        assert by_commands(other, "model", "first")
        some(conn, "model", "learned%d", 1, 3)
        assert not by_commands(other, "model", "second")
        same(schema_rows.rows(conn, catalogs, "second"), schema_rows.rows(conn, catalogs, "first"))
        assert one(other, "SELECT customers FROM second.totals") == 0
        conn.execute("CREATE INDEX ON model.customer (name, id)")
        assert by_commands(other, "model", "third")


def test_nothing_is_kept_for_roles_that_may_not_prepare(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer)")
    types = "regnamespace, text, bigint, bigint, name, regclass[], boolean, boolean, boolean"
    function = f"pgbillion_tables.clone_schemas({types})"
    database = one(conn, "SELECT current_database()")
    with conn.transaction(force_rollback=True):
        conn.execute(f"CREATE ROLE cloner; GRANT CREATE ON DATABASE {database} TO cloner".encode())
        conn.execute(f"GRANT EXECUTE ON FUNCTION {function} TO cloner; ALTER SCHEMA model OWNER TO cloner".encode())
        conn.execute("ALTER TABLE model.a OWNER TO cloner; SET LOCAL ROLE cloner")
        some(conn, "model", "tenant%d", 1, 3)
        conn.execute("RESET ROLE")
        assert one(conn, "SELECT count(*) FROM pgbillion_tables.prepared_clones WHERE role = 'cloner'::regrole") == 0


def test_long_views_are_compressed_as_postgresql_does(conn: Connection, catalogs: Catalogs) -> None:
    schemas.make_schema(conn, "model", schemas.LONG_VIEWS)
    told = reasons(conn)
    some(conn, "model", "clone_%d", 98, 6)
    assert told == []
    made = schema_rows.rows(conn, catalogs, "clone_98")
    for number in range(100, 104):
        same(schema_rows.rows(conn, catalogs, f"clone_{number}"), made)
        conn.execute(f"INSERT INTO clone_{number}.a VALUES ('new', 'x', {number})".encode())
        assert one(conn, f"SELECT total FROM clone_{number}.long_view") == number
        assert one(conn, f"SELECT count(*) FROM clone_{number}.of_view") == 1
    compressed = conn.execute(
        "SELECT pg_column_compression(ev_action), pg_column_size(ev_action) * 2 < octet_length(ev_action::text)"
        " FROM pg_rewrite r JOIN pg_class c ON c.oid = ev_class WHERE relnamespace::regnamespace::text ~ '^clone_1'"
    ).fetchall()
    assert compressed == [("pglz", True)] * 8


CHANGED = """
    CREATE TYPE state AS ENUM ('new');
    CREATE TABLE customer (id serial, name text, size outside.size, country char(2) REFERENCES outside.country);
    CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER noted BEFORE UPDATE ON customer FOR EACH ROW EXECUTE FUNCTION noted();
    ALTER TABLE customer DISABLE TRIGGER noted;
    CREATE VIEW sums AS SELECT count(*) FROM customer;
"""
CHANGES = (
    "ALTER TABLE model.customer ADD COLUMN more integer",
    "CREATE INDEX ON model.customer (size)",
    "COMMENT ON COLUMN model.customer.name IS 'a name'",
    "GRANT INSERT ON model.customer TO reader",
    "ALTER TYPE model.state ADD VALUE 'gone'",
    "ALTER TABLE model.customer ALTER name SET STATISTICS 7",
    "ALTER TABLE model.customer ENABLE TRIGGER noted",
    "DROP VIEW model.sums",
    "CREATE OR REPLACE FUNCTION model.noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "CREATE CAST (integer AS model.state) WITH INOUT",
    "DROP CAST (integer AS model.state)",
    "COMMENT ON TYPE model.customer IS 'rows'",
    "ALTER SCHEMA model OWNER TO maker",
    "GRANT SELECT ON outside.country TO maker",
    "GRANT USAGE ON SCHEMA outside TO maker",
    "GRANT USAGE ON LANGUAGE plpgsql TO maker",
    "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader",
    "ALTER ROLE postgres CONNECTION LIMIT 1000",
    "CREATE ROLE group_of_postgres; GRANT group_of_postgres TO postgres",
)


def test_what_changes_a_clone_makes_it_by_commands_again(conn: Connection, catalogs: Catalogs) -> None:
    schemas.make_schema(conn, "model", CHANGED)
    undo = "; ".join(
        (
            "REVOKE SELECT ON outside.country FROM maker; REVOKE USAGE ON SCHEMA outside FROM maker",
            "REVOKE USAGE ON LANGUAGE plpgsql FROM maker; DROP ROLE group_of_postgres",
            "ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM reader; ALTER ROLE postgres CONNECTION LIMIT -1",
        )
    )
    try:
        for number, change in enumerate(CHANGES):
            assert prepare(conn, "model")
            conn.execute(change.encode())
            assert by_commands(conn, "model", f"tenant{number}"), change
        assert prepare(conn, "model")
        assert not by_commands(conn, "model", "stamped")
        same(
            schema_rows.rows(conn, catalogs, "stamped"),
            schema_rows.rows(conn, catalogs, f"tenant{len(CHANGES) - 1}"),
        )
    finally:
        conn.execute(undo.encode())


def test_a_prepared_clone_needs_the_privileges_that_commands_need(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i serial PRIMARY KEY, c char(2) REFERENCES outside.country)")
    functions = (
        "clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean),"
        " pgbillion_tables.prepare_clone(regnamespace, name, boolean)"
    )
    executing = f"EXECUTE ON FUNCTION pgbillion_tables.{functions}"
    creating = f"CREATE ON DATABASE {conn.info.dbname}"
    conn.execute("ALTER SCHEMA model OWNER TO maker; ALTER TABLE model.a OWNER TO maker")
    conn.execute(f"GRANT {creating} TO maker; GRANT {executing} TO maker")
    try:
        assert prepare(conn, "model")
        with conn.transaction():
            conn.execute("SET LOCAL ROLE maker")
            # the superuser's is not theirs
            assert by_commands(conn, "model", "one")
            assert prepare(conn, "model")
            assert not by_commands(conn, "model", "two")
        for revoke, grant, refused in (
            (f"REVOKE {creating} FROM maker", f"GRANT {creating} TO maker", "permission denied for database"),
            (
                "REVOKE ALL ON outside.country FROM PUBLIC",
                "GRANT ALL ON outside.country TO PUBLIC",
                "permission denied for table country",
            ),
        ):
            conn.execute(revoke)
            with conn.transaction():
                conn.execute("SET LOCAL ROLE maker")
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=refused), conn.transaction():
                    clone(conn, "model", "three")
            conn.execute(grant)
        conn.execute("UPDATE pgbillion_tables.prepared_clones SET stamp = substr(stamp, 1, 100)")
        assert by_commands(conn, "model", "four")
    finally:
        conn.execute("DROP SCHEMA IF EXISTS one CASCADE; DROP SCHEMA IF EXISTS two CASCADE; DROP SCHEMA model CASCADE")
        conn.execute(f"REVOKE {creating} FROM maker; REVOKE {executing} FROM maker")


def test_who_sees_commands_is_not_passed_by_a_prepared_clone(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i serial PRIMARY KEY)")
    assert prepare(conn, "model")
    conn.execute(
        "CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';"
        "CREATE EVENT TRIGGER see ON ddl_command_start EXECUTE FUNCTION see()"
    )
    told: list[str] = []
    conn.add_notice_handler(lambda diagnosis: told.append(diagnosis.message_primary or ""))
    try:
        assert by_commands(conn, "model", "tenant")
        assert not prepare(conn, "model")
    finally:
        conn.execute("DROP EVENT TRIGGER see; DROP FUNCTION see")
    assert told == ['all clones of template "model" are made by commands: others rely on seeing the commands']
    assert not by_commands(conn, "model", "tenant2")
    with pytest.raises(psycopg.errors.NullValueNotAllowed, match="template must not be null"):
        conn.execute("SELECT pgbillion_tables.prepare_clone(NULL)")


def test_a_stamped_clone_can_be_used_at_once(conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    with conn.transaction():
        some(conn, "model", "tenant%d", 1, 4)
        conn.execute("INSERT INTO tenant4.customer (name) VALUES ('a'); ALTER TABLE tenant4.customer ADD more integer")
        conn.execute("INSERT INTO tenant4.invoice (customer, net) VALUES (100, 50)")
        assert one(conn, "SELECT total FROM tenant4.unpaid") == 60
        conn.execute("DROP SCHEMA tenant3 CASCADE")
        with conn.transaction(force_rollback=True):
            some(conn, "model", "gone%d", 1, 4)
            conn.execute("INSERT INTO gone4.customer (name) VALUES ('a')")
        assert one(conn, "SELECT to_regclass('gone4.customer')") is None
        # the names, and the caches, are free again
        some(conn, "model", "gone%d", 1, 4)
        conn.execute("INSERT INTO gone4.customer (name) VALUES ('a')")
    assert one(conn, "SELECT count(*) FROM gone4.customer") == 1


def test_other_sessions_know_what_stamped_clones_need_of_theirs(
    cluster: Cluster, database: str, conn: Connection
) -> None:
    schemas.make_schema(
        conn,
        "model",
        "CREATE TABLE a (c char(2) REFERENCES outside.country); CREATE TABLE b () INHERITS (outside.ancestor)",
    )
    conn.execute("INSERT INTO outside.country VALUES ('de'), ('fr')")
    try:
        with cluster.connect(database) as other:
            assert other.execute("DELETE FROM outside.country WHERE code = 'fr'").rowcount == 1
            assert one(other, "SELECT count(*) FROM outside.ancestor") == 0
            some(conn, "model", "tenant%d", 1, 3)
            conn.execute("INSERT INTO tenant3.a VALUES ('de'); INSERT INTO tenant3.b VALUES (now())")
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                other.execute("DELETE FROM outside.country")
            assert one(other, "SELECT count(*) FROM outside.ancestor") == 1
            other.execute("DROP SCHEMA tenant3 CASCADE; DELETE FROM outside.country")
    finally:
        conn.execute("DELETE FROM outside.country")


def test_who_sees_commands_sees_those_of_each_clone(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i serial PRIMARY KEY)")
    conn.execute(
        "CREATE TABLE seen (tag text);"
        "CREATE FUNCTION see() RETURNS event_trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO public.seen VALUES (TG_TAG); END';"
        "CREATE EVENT TRIGGER see ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION see()"
    )
    told = reasons(conn)
    try:
        some(conn, "model", "tenant%d", 1, 4)
        assert one(conn, "SELECT count(*) FROM seen") == 4
        assert told == ['all clones of template "model" are made by commands: others rely on seeing the commands']
    finally:
        conn.execute("DROP EVENT TRIGGER see; DROP FUNCTION see; DROP TABLE seen")


def test_a_name_that_is_taken_undoes_all_stamped_clones(conn: Connection, catalogs: Catalogs) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i serial PRIMARY KEY)")
    conn.execute("CREATE SCHEMA tenant5")
    before = catalog_rows.counts(conn, catalogs)
    with pytest.raises(psycopg.errors.DuplicateSchema, match='schema "tenant5" already exists'):
        some(conn, "model", "tenant%d", 1, 7)
    assert catalog_rows.counts(conn, catalogs) == before


def test_kill_while_clones_are_stamped(installation: Installation) -> None:
    with servers.new_cluster(installation, {"max_locks_per_transaction": "1000"}) as cluster:
        with suppress(psycopg.OperationalError), cluster.connect() as conn:
            servers.make_shared_objects(conn)
            servers.install_extensions(conn)
            schemas.make_outside(conn)
            schemas.make_schema(conn, "model", schemas.APPLICATION)
            catalogs = Catalogs.load(conn)
            some(conn, "model", "kept%d", 1, 4)
            before = catalog_rows.counts(conn, catalogs)
            conn.execute("BEGIN")
            some(conn, "model", "gone%d", 1, 9)
            cluster.kill()
        cluster.start()
        with cluster.connect() as conn:
            assert catalog_rows.counts(conn, catalogs) == before
            assert invariants.index_errors(conn) == []
            assert invariants.heap_errors(conn) == []
            assert invariants.reference_errors(conn) == []
            assert invariants.missing(cluster.data, conn) == set()
            same(schema_rows.rows(conn, catalogs, "kept4"), schema_rows.rows(conn, catalogs, "kept1"))
            conn.execute("INSERT INTO kept4.customer (name) VALUES ('a')")
            assert one(conn, "SELECT id FROM kept4.customer") == 100
            some(conn, "model", "gone%d", 1, 3)


def test_a_savepoint_takes_a_clone_back(conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    with conn.transaction():
        with conn.transaction(force_rollback=True):
            clone(conn, "model", "gone")
        clone(conn, "model", "kept3")
        with pytest.raises(psycopg.errors.DuplicateSchema), conn.transaction():
            conn.execute("SELECT pgbillion_tables.clone_schemas('model', 'kept%d', 1, 5)")
        conn.execute("INSERT INTO kept3.customer (name) VALUES ('a')")
    assert one(conn, "SELECT array_agg(nspname::text) FROM pg_namespace WHERE nspname ~ '^(gone|kept)'") == ["kept3"]
    assert one(conn, "SHOW search_path") != ""


def test_the_session_s_settings_stay(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (d date DEFAULT '2001-02-03', f float8 DEFAULT 0.1)")
    conn.execute("SET DateStyle = 'German'; SET extra_float_digits = -3; SET search_path = outside")
    clone(conn, "model", "tenant")
    shown = [one(conn, f"SHOW {name}") for name in ("DateStyle", "extra_float_digits", "search_path", "enable_seqscan")]
    assert shown == ["German, DMY", "-3", "outside", "on"]
    conn.execute("RESET ALL")
    conn.execute("INSERT INTO tenant.a DEFAULT VALUES")
    assert one(conn, "SELECT d::text || ' ' || f FROM tenant.a") == "2001-02-03 0.1"


def test_sign_ups_at_the_same_time(cluster: Cluster, database: str, conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)

    def sign_up(name: str) -> str:
        with cluster.connect(database) as mine:
            try:
                clone(mine, "model", name)
            except psycopg.errors.UniqueViolation:
                return "taken"
            except psycopg.errors.DuplicateSchema:
                return "taken"
            return name

    names = [f"at_once_{number}" for number in range(6)]
    assert together.at_once(sign_up, names) == names
    assert sorted(together.at_once(sign_up, ["contested"] * 4)) == ["contested", "taken", "taken", "taken"]


def test_an_ordinary_role_clones_what_it_may_make(conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    signature = "pgbillion_tables.clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean)"
    with conn.transaction():
        conn.execute("SET LOCAL ROLE maker")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="function clone_schema"), conn.transaction():
            clone(conn, "model", "tenant")
    conn.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO maker")
    try:
        for grant, refused in (
            ("SELECT", "permission denied for schema model"),
            ("GRANT USAGE ON SCHEMA model TO maker", "permission denied for database"),
            (f"GRANT CREATE ON DATABASE {conn.info.dbname} TO maker", "permission denied for table country"),
            ("GRANT REFERENCES ON outside.country TO maker", "must be able to SET ROLE|must be member of role"),
        ):
            conn.execute(grant)
            with conn.transaction():
                conn.execute("SET LOCAL ROLE maker")
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=refused), conn.transaction():
                    clone(conn, "model", "tenant")
            assert one(conn, "SELECT to_regnamespace('tenant')") is None
            if "REFERENCES" not in grant:
                conn.execute("REVOKE ALL ON outside.country FROM PUBLIC")
        schemas.make_schema(conn, "theirs", "CREATE TABLE a (i serial); SET LOCAL ROLE maker")
        conn.execute("ALTER SCHEMA theirs OWNER TO maker; ALTER TABLE theirs.a OWNER TO maker")
        with conn.transaction():
            conn.execute("SET LOCAL ROLE maker")
            clone(conn, "theirs", "theirs_too")
        assert one(conn, "SELECT tableowner FROM pg_tables WHERE schemaname = 'theirs_too'") == "maker"
    finally:
        conn.execute("DROP SCHEMA IF EXISTS theirs_too CASCADE; DROP SCHEMA IF EXISTS theirs CASCADE")
        conn.execute(f"REVOKE CREATE ON DATABASE {conn.info.dbname} FROM maker")
        conn.execute(f"REVOKE EXECUTE ON FUNCTION {signature} FROM maker")


def test_default_privileges_of_the_caller_change_nothing(conn: Connection, catalogs: Catalogs) -> None:
    schemas.make_schema(conn, "model", schemas.KINDS["privileges"])
    conn.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO reader")
    conn.execute("ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO maker")
    try:
        clone(conn, "model", "tenant")
        acls = "SELECT coalesce(relacl, acldefault(relkind, relowner))::text FROM pg_class WHERE relname = %s AND relnamespace = %s::regnamespace"  # noqa: E501
        for name in ("theirs", "of_theirs", "theirs_id_seq"):
            assert one(conn, acls.replace("relkind,", "'r',"), name, "tenant") == one(
                conn, acls.replace("relkind,", "'r',"), name, "model"
            )
    finally:
        conn.execute("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM reader")
        conn.execute("ALTER DEFAULT PRIVILEGES REVOKE USAGE ON SCHEMAS FROM maker")


def test_functions_of_the_template_s_owner_are_not_called(conn: Connection) -> None:
    better = (
        "quote_ident(name)",
        "quote_literal(name)",
        "format(text, name, text)",
        "length(name)",
        "concat_ws(text, text)",
    )
    commands = ["CREATE TABLE a (i serial PRIMARY KEY, t text DEFAULT 'x' CHECK (t <> ''))", "CREATE TABLE called ()"]
    commands += [
        f"CREATE FUNCTION {signature} RETURNS text LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION USING MESSAGE = ''called''; END'"
        for signature in better
    ]
    schemas.make_schema(conn, "model", ";".join(commands))
    # they would be chosen where the template is in the search path
    with pytest.raises(psycopg.errors.RaiseException, match="called"):
        conn.execute("SET search_path = model; SELECT quote_ident(relname) FROM pg_class")
    conn.execute("SET search_path = model")
    clone(conn, "model", "tenant")
    conn.execute("RESET search_path")
    assert one(conn, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'tenant'::regnamespace") == len(better)


def test_views_on_views_are_filled_in_order(conn: Connection) -> None:
    """However many columns each reads of the other, and where a rule of the first one names the last one."""
    columns = [f"c{number}" for number in range(10)]
    commands = [
        "CREATE SCHEMA model",
        "CREATE VIEW model.v12 AS SELECT " + ", ".join(f"1 AS {name}" for name in columns),
    ]
    # names do not tell the order
    for level in range(11, 0, -1):
        kind = "VIEW" if level % 3 == 0 else "MATERIALIZED VIEW"
        commands.append(f"CREATE {kind} model.v{level} AS SELECT {', '.join(columns)} FROM model.v{level + 1}")
    commands.append("CREATE RULE back AS ON DELETE TO model.v12 DO INSTEAD SELECT count(*) FROM model.v1")
    with conn.transaction(force_rollback=True):
        conn.execute(";".join(commands).encode())
        conn.execute("SET LOCAL statement_timeout = '120s'")
        clone(conn, "model", "tenant")
        # errors if it was not filled
        assert [one(conn, f"SELECT count(*) FROM tenant.v{level}") for level in range(1, 13)] == [1] * 12


def test_functions_that_name_the_template_are_told(conn: Connection) -> None:
    schemas.make_schema(
        conn,
        "model",
        "CREATE FUNCTION f() RETURNS integer LANGUAGE sql SET search_path = model AS 'SELECT 1';"
        "CREATE FUNCTION e() RETURNS integer LANGUAGE sql SET app.tenant = model AS 'SELECT 1';"
        "CREATE FUNCTION g(integer) RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN count(*) FROM model.t; END';"
        "CREATE FUNCTION h() RETURNS integer LANGUAGE plpgsql AS 'BEGIN RETURN remodel; END'",
    )
    told: list[str] = []
    conn.add_notice_handler(lambda diagnosis: told.append(diagnosis.message_primary or ""))
    clone(conn, "model", "tenant")
    assert told == ['functions of template "model" name it in their text, and so do the clone\'s: e(), g(integer)']


@pytest.mark.parametrize("template", ["model", "Odd \"m.'del"])
@pytest.mark.parametrize("way", ["commands", "stamp", "kept stamp"])
def test_a_function_looks_for_names_in_its_own_clone(conn: Connection, template: str, way: str) -> None:
    """One that sets search_path to the template, and runs as its owner, must not show the template's rows."""
    quoted = sql.Identifier(template).as_string(conn)
    schemas.make_schema(
        conn,
        template,
        "CREATE TABLE secret (t text); INSERT INTO secret VALUES ('template''s');"
        "CREATE FUNCTION show() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER"
        f" SET work_mem = '1MB' SET search_path = \"$user\", {quoted}, pg_temp SET enable_sort = off"
        " AS 'SELECT t FROM secret';"
        f"CREATE PROCEDURE p() LANGUAGE plpgsql SET search_path = {quoted} AS 'BEGIN END';"
        f"CREATE FUNCTION atomic() RETURNS text SET search_path = {quoted}, {quoted}"
        " BEGIN ATOMIC SELECT t FROM secret; END",
    )
    if way == "commands":
        clone(conn, quoted, "tenant_1")
    else:
        if way == "kept stamp":
            assert prepare(conn, quoted)
        some(conn, quoted, "tenant_%d", 0, 3)
    conn.execute("INSERT INTO tenant_1.secret VALUES ('its own')")
    assert conn.execute("SELECT tenant_1.show(), tenant_1.atomic()").fetchall() == [("its own", "its own")]
    settings = "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'tenant_1'::regnamespace ORDER BY 1"
    assert conn.execute(settings.encode()).fetchall() == [
        ("atomic", ["search_path=tenant_1, tenant_1"]),
        ("p", ["search_path=tenant_1"]),
        ("show", ["work_mem=1MB", 'search_path="$user", tenant_1, pg_temp', "enable_sort=off"]),
    ]
    assert (
        one(
            conn,
            "SELECT count(DISTINCT fingerprint) FROM"
            " pgbillion_tables.schema_fingerprints(ARRAY[%s, 'tenant_1']::regnamespace[]::oid[])",
            quoted,
        )
        == 1
    )


@pytest.mark.quick
def test_a_clone_joins_no_publication(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer PRIMARY KEY)")
    conn.execute("CREATE PUBLICATION one FOR TABLE model.a; CREATE PUBLICATION two FOR TABLES IN SCHEMA model")
    try:
        clone(conn, "model", "tenant")
        published = "SELECT DISTINCT schemaname::text FROM pg_publication_tables"
        assert conn.execute(published.encode()).fetchall() == [("model",)]
    finally:
        conn.execute("DROP PUBLICATION one, two")


HIDDEN = "whose name is also one of pg_catalog's"
LABEL = "a security label of column a of table t"
OPCLASS = "operator class mine for access method btree"
ORDER = "table c, whose columns are in another order than its parent's"
PLUS = "model.+(integer,integer)"
PARTITION = "partition outside.part of p, which is in another schema"
REFUSED = {
    "CREATE OPERATOR FAMILY mine USING btree": "operator family mine for access method btree",
    "CREATE CONVERSION mine FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8": "conversion mine",
    "CREATE TEXT SEARCH TEMPLATE mine (LEXIZE = dsimple_lexize)": "text search template mine",
    "CREATE TEXT SEARCH PARSER mine (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end,"
    " LEXTYPES = prsd_lextype)": "text search parser mine",
    "CREATE OPERATOR CLASS mine FOR TYPE integer USING btree AS OPERATOR 1 <,"
    " FUNCTION 1 btint4cmp(integer, integer)": OPCLASS,
    "CREATE TYPE b; CREATE FUNCTION b_in(cstring) RETURNS b LANGUAGE internal IMMUTABLE STRICT AS 'int4in';"
    "CREATE FUNCTION b_out(b) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';"
    "CREATE TYPE b (INPUT = b_in, OUTPUT = b_out, LIKE = integer)": "base type b",
    "CREATE TYPE r; CREATE FUNCTION c(r) RETURNS r LANGUAGE internal IMMUTABLE STRICT AS 'int4range_canonical';"
    "CREATE TYPE r AS RANGE (SUBTYPE = integer, CANONICAL = c)": "range type r, which has a canonical function",
    "CREATE TYPE t AS (a integer);"
    "CREATE FUNCTION f(internal) RETURNS internal LANGUAGE internal IMMUTABLE AS 'textin';"
    "CREATE TRANSFORM FOR t LANGUAGE sql (FROM SQL WITH FUNCTION f(internal))": "transform for t language sql",
    "CREATE TABLE t (a integer); CREATE FUNCTION f(internal) RETURNS internal LANGUAGE internal IMMUTABLE AS 'textin';"
    "CREATE TRANSFORM FOR t LANGUAGE sql (FROM SQL WITH FUNCTION f(internal))": "transform for t language sql",
    "CREATE TABLE t (a integer); SET LOCAL allow_system_table_mods = on;"
    "INSERT INTO pg_seclabel VALUES ('t'::regclass, 'pg_class'::regclass, 1, 'test', 'secret')": LABEL,
    "SET LOCAL allow_system_table_mods = on; INSERT INTO pg_seclabel VALUES"
    " ('model'::regnamespace, 'pg_namespace'::regclass, 0, 'test', 'secret')": "a security label of schema model",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1';"
    "ALTER EXTENSION pgbillion_tables ADD FUNCTION f()": "function f(), which belongs to extension pgbillion_tables",
    "CREATE TABLE a (i integer); CREATE INDEX odd ON a (i); SET LOCAL allow_system_table_mods = on;"
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'odd'::regclass": "index odd, which is not valid",
    "CREATE OPERATOR + (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4pl)": f"operator {PLUS}, {HIDDEN}",
    "CREATE TYPE shell": "base type shell",
    "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w;"
    "CREATE FOREIGN TABLE far (a integer) SERVER s": "foreign table far",
    "CREATE TABLE p (a integer) PARTITION BY LIST (a);"
    "CREATE TABLE outside.part PARTITION OF p FOR VALUES IN (1)": PARTITION,
    "CREATE TABLE p (a integer); CREATE TABLE c (b integer) INHERITS (p); ALTER TABLE p ADD d integer": ORDER,
    "CREATE FUNCTION lower(text) RETURNS text LANGUAGE sql AS 'SELECT $1'": f"function model.lower(text), {HIDDEN}",
    "CREATE TABLE pg_tables (a integer)": f"table model.pg_tables, {HIDDEN}",
    "CREATE TABLE a (i integer PRIMARY KEY); CREATE TABLE b (i integer CONSTRAINT fk REFERENCES a);"
    "ALTER TABLE b DISABLE TRIGGER ALL": "constraint fk on table b, which is switched off",
    "CREATE TABLE a (i integer PRIMARY KEY); CREATE TABLE p (i integer CONSTRAINT fk REFERENCES a)"
    " PARTITION BY LIST (i); CREATE TABLE p1 PARTITION OF p DEFAULT;"
    "ALTER TABLE p1 DISABLE TRIGGER ALL": "constraint fk on table p1, which is switched off",
    "CREATE TABLE a (i integer); GRANT SELECT ON a TO maker WITH GRANT OPTION; SET LOCAL ROLE maker;"
    "GRANT SELECT ON model.a TO reader; RESET ROLE": "grants on table a that maker has made",
}


@pytest.mark.parametrize("commands", REFUSED)
def test_what_cannot_be_cloned_is_refused_by_name(conn: Connection, commands: str) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE SCHEMA model; GRANT USAGE ON SCHEMA model TO maker; SET LOCAL search_path = model")
        conn.execute(commands.encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused, conn.transaction():
            clone(conn, "model", "tenant")
    assert refused.value.diag.message_primary == f'template "model" has {REFUSED[commands]}, which cannot be cloned'
    assert refused.value.diag.message_hint


def test_kinds_of_relations_that_a_later_major_version_adds(conn: Connection) -> None:
    """Property graphs, which betas of PostgreSQL 19 had, are of the kind 'g'; where there are none, one is made up."""
    graphs = one(conn, "SELECT to_regclass('pg_propgraph_element') IS NOT NULL")
    make = (
        "CREATE PROPERTY GRAPH g VERTEX TABLES (a)"
        if graphs
        else "CREATE VIEW g AS TABLE a; UPDATE pg_class SET relkind = 'g' WHERE oid = 'g'::regclass"
    )
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE SCHEMA model; SET LOCAL search_path = model; CREATE TABLE a (i integer PRIMARY KEY)")
        assert one(conn, "SELECT fingerprint FROM pgbillion_tables.schema_fingerprints(ARRAY['model'::regnamespace])")
        conn.execute(f"SET LOCAL allow_system_table_mods = on; {make}".encode())
        query = "SELECT fingerprint IS NULL FROM pgbillion_tables.schema_fingerprints(ARRAY['model'::regnamespace])"
        assert one(conn, query)
        for call, message in (
            (
                "clone_schema('model', 'x')",
                f"has {'property graph' if graphs else 'relation'} g, which cannot be cloned",
            ),
            ("prepare_clone('model')", f"has {'property graph' if graphs else 'relation'} g, which cannot be cloned"),
            ("create_tables('g', 'x_%d', 1, 2)", 'template "g" is not a table'),
            ("drop_tables(ARRAY['g'::regclass])", '"g" is not a table'),
            ("drop_tables(ARRAY['a'::regclass])", "cannot drop table a because other objects depend on it"),
        ):
            with pytest.raises(psycopg.Error) as refused, conn.transaction():
                conn.execute(f"SELECT pgbillion_tables.{call}".encode())
            assert message in (refused.value.diag.message_primary or "")


# what hides a table or function of the schema, so that its name is qualified
HIDING = """
CREATE TABLE a (id integer, x integer);
CREATE TABLE b (id integer, "with" integer);
CREATE VIEW v AS WITH a AS (SELECT id FROM {0}.a WHERE x > 1) SELECT a.id, 'FROM the_template.a' AS text FROM a;
CREATE VIEW nested AS WITH RECURSIVE b AS (WITH a AS (TABLE {0}.a) SELECT a.id FROM a JOIN {0}.b USING (id)
    UNION ALL SELECT id + 1 FROM b WHERE id < 9) SELECT a.id FROM b a, {0}.a c, LATERAL (SELECT FROM {0}.b) d;
CREATE MATERIALIZED VIEW m AS WITH a AS (SELECT count(*) FROM {0}.a) TABLE a;
CREATE FUNCTION f(a integer, b integer) RETURNS integer
    BEGIN ATOMIC WITH a AS (SELECT id FROM {0}.a WHERE id < f.a) SELECT a.id + f.b FROM a, {0}.b; END;
CREATE RULE r AS ON INSERT TO b DO ALSO INSERT INTO a WITH a AS (SELECT id, x FROM {0}.a) TABLE a;
CREATE POLICY p ON b USING (id IN (WITH a AS (SELECT id FROM {0}.a) TABLE a));
CREATE FUNCTION lower(anyelement) RETURNS text IMMUTABLE LANGUAGE sql AS $$SELECT 'x'$$;
-- pg_catalog's fits better, so that the name alone would mean that one
CREATE TABLE c (t text DEFAULT {0}.lower('a'::text), CONSTRAINT c CHECK ({0}.lower(t) <> ''));
CREATE INDEX ON c ({0}.lower(t)) WHERE {0}.lower(t) > 'a';
CREATE FUNCTION own(integer, text DEFAULT {0}.lower('a'::text)) RETURNS text LANGUAGE sql
    AS $$SELECT 'x' FROM a$$;
"""


@pytest.mark.parametrize("template", ["model", 'Odd "m.del"'])
@pytest.mark.parametrize("more", ["", "ALTER TABLE a ADD gone integer; ALTER TABLE a DROP gone"])
def test_what_hides_a_table_leads_to_the_clone_s(
    cluster: Cluster, database: str, conn: Connection, template: str, more: str
) -> None:
    quoted = sql.Identifier(template).as_string(conn)
    schemas.make_schema(conn, template, HIDING.replace("{0}", quoted) + more)
    clone(conn, quoted, "tenant")
    assert prepare(conn, quoted)
    some(conn, quoted, "many%d", 1, 2)
    assert "model" not in dump(cluster, database, "tenant")
    assert "m.'del" not in dump(cluster, database, "many2")
    outside = (
        "SELECT count(*) FROM pg_depend d JOIN pg_class c ON c.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass"
        " WHERE c.relnamespace = %s::regnamespace AND d.classid IN ('pg_rewrite'::regclass, 'pg_proc'::regclass)"
    )
    many = [one(conn, outside, quoted if name == template else name) for name in (template, "tenant", "many1", "many2")]
    assert len(set(many)) == 1
    conn.execute("INSERT INTO tenant.a VALUES (2, 2), (1, 1); INSERT INTO many2.a VALUES (7, 7)")
    assert conn.execute("SELECT id FROM tenant.v").fetchall() == [(2,)]
    assert conn.execute("SELECT id FROM many2.v").fetchall() == [(7,)]


def test_what_would_lead_back_to_the_template_is_refused(conn: Connection) -> None:
    """Where it cannot be told from something in it that has its name."""
    schemas.make_schema(
        conn,
        "model",
        "CREATE TABLE a (id integer); CREATE VIEW v AS WITH a AS (SELECT id FROM model.a) SELECT model.id FROM a model",
    )
    with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        clone(conn, "model", "tenant")
    assert (refused.value.diag.message_primary or "").endswith(
        "the clone's rule _RETURN on view v would refer to column id of table model.a"
    )
    assert one(conn, "SELECT to_regnamespace('tenant')") is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("clone_schema('nowhere', 'a')", 'schema "nowhere" does not exist'),
        ("clone_schema(4711, 'a')", "schema with OID 4711 does not exist"),
        ("clone_schema('pg_catalog', 'a')", 'template "pg_catalog" is a schema of the system'),
        ("clone_schema('information_schema', 'a')", 'template "information_schema" is a schema of the system'),
        ("clone_schema('outside', 'outside')", 'schema "outside" already exists'),
        ("clone_schema('outside', repeat('x', 64))", f'schema name "{"x" * 64}" is too long'),
        ("clone_schema('outside', 'pg_mine')", 'unacceptable schema name "pg_mine"'),
        ("clone_schema('outside', NULL)", "name must not be null"),
        ("clone_schema(NULL, 'a')", "template must not be null"),
        ("clone_schema('outside', 'a', 'no_such')", 'access method "no_such" does not exist'),
        ("clone_schemas('outside', 'a', 1, 2)", 'name format "a" '),
        ("clone_schemas('outside', 'a%d', 1, 0)", "count must be greater than zero"),
        ("clone_schemas('outside', 'a%d', -1, 1)", "first must not be negative"),
        ("clone_schemas('outside', 'a%d', 9223372036854775807, 2)", "the last schema's number is out of range"),
        ("clone_schemas('outside', 'a%d', NULL, 2)", "first must not be null"),
    ],
)
def test_bad_arguments(conn: Connection, call: str, message: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(f"SELECT pgbillion_tables.{call}".encode())
    assert (refused.value.diag.message_primary or "").startswith(message)
