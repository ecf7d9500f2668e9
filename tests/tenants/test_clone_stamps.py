"""Kept stamps of schemas: none may be used that is not as good as commands would be."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from harness import schemas, servers
from harness.clones import by_commands, clone, prepare, reasons, some
from harness.servers import one
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster, Installation, run_as_server

pytestmark = pytest.mark.majors


# A domain whose values are looked at when a partition gets its bounds, and what is done then, in the second clone only.
ACTS = """
CREATE FUNCTION outside.act(integer) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    IF current_schema() = 'tenant2' THEN EXECUTE current_setting('test.action'); END IF;
    RETURN true;
END $$;
CREATE DOMAIN outside.watched AS integer CHECK (outside.act(VALUE))
"""


@pytest.fixture(scope="module", autouse=True)
def outside(cluster: Cluster, database: str) -> Iterator[None]:
    functions = (
        "clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean),"
        " pgbillion_tables.prepare_clone(regnamespace, name, boolean)"
    )
    with cluster.connect(database) as conn:
        schemas.make_outside(conn)
        conn.execute(ACTS)
        conn.execute("CREATE ROLE signer; CREATE ROLE their_group; CREATE ROLE group_of_groups")
        conn.execute(f"GRANT EXECUTE ON FUNCTION pgbillion_tables.{functions} TO signer".encode())
        conn.execute(f"GRANT CREATE ON DATABASE {database} TO signer".encode())
    yield
    with cluster.connect(database) as conn:
        conn.execute("DROP OWNED BY signer, their_group, group_of_groups; DROP SCHEMA outside CASCADE")
        conn.execute("DROP ROLE signer, their_group, group_of_groups")


ACTED_ON = """
CREATE TABLE a (i integer PRIMARY KEY, t text); COMMENT ON TABLE a IS 'a';
CREATE TABLE b (i integer DEFAULT 1); CREATE SEQUENCE s; CREATE VIEW v AS SELECT 1 AS one;
CREATE TABLE p (k outside.watched) PARTITION BY LIST (k); CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)
"""
ACTIONS = {
    "CREATE TABLE more (i integer)": "clones have [0-9]+ and [0-9]+ members",
    "DROP SEQUENCE s; CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1'": "objects [0-9]+ and [0-9]+ of"
    " clones are of different kinds",
    "COMMENT ON TABLE b IS 'b'": "clones have 1 and 2 rows in pg_description",
    "ALTER TABLE b SET (fillfactor = 50)": "pg_class.reloptions is null in one of two clones",
    "ALTER TABLE b ALTER i SET DEFAULT 2": "nothing explains how pg_attrdef.adbin differs between clones",
    "ALTER TABLE b ALTER i SET DEFAULT 2 + 2": "nothing explains how pg_attrdef.adbin differs between clones",
    "ALTER TABLE b OWNER TO signer": "nothing explains how pg_class.relowner differs between clones",
    "ALTER TABLE b RENAME i TO k": "nothing explains how pg_attribute.attname differs between clones",
    "ALTER TABLE b RENAME TO c": "nothing explains how pg_class.relname differs between clones",
    "ALTER SEQUENCE s INCREMENT BY 2": "clones have [0-9]+ and [0-9]+ members",
    "DO 'BEGIN PERFORM nextval(''s''); END'": "the files of relations [0-9]+ and [0-9]+ differ",
    "INSERT INTO b VALUES (1)": '"b" has rows',
}


def test_locks_are_those_of_commands(conn: Connection) -> None:
    """On what clones refer to outside: others may be changing rows there, of which a new key or child must know."""
    schemas.make_schema(
        conn,
        "model",
        "CREATE VIEW v AS SELECT * FROM outside.country; CREATE TABLE a (c char(2) REFERENCES outside.country);"
        " CREATE TABLE b () INHERITS (outside.ancestor)",
    )

    def locked() -> list[tuple[str, str]]:
        """The strongest lock on each."""
        return conn.execute(
            "SELECT DISTINCT ON (1) relation::regclass::text, mode FROM pg_locks WHERE pid = pg_backend_pid()"
            " AND relation IN ('outside.country'::regclass, 'outside.ancestor'::regclass)"
            " ORDER BY 1, array_position('{ShareRowExclusiveLock,ShareUpdateExclusiveLock}', mode) NULLS LAST"
        ).fetchall()

    with conn.transaction(force_rollback=True):
        clone(conn, "model", "tenant")
        by_command = locked()
    assert by_command == [
        ("outside.ancestor", "ShareUpdateExclusiveLock"),
        ("outside.country", "ShareRowExclusiveLock"),
    ]
    assert prepare(conn, "model")
    with conn.transaction(force_rollback=True):
        clone(conn, "model", "tenant")
        assert locked() == by_command


def test_the_template_is_locked_until_the_end(cluster: Cluster, database: str, conn: Connection) -> None:
    """With a stamp as by commands: a session that changes the template next sees the clone, once it has its lock."""
    schemas.make_schema(
        conn,
        "model",
        "CREATE TABLE a (i serial PRIMARY KEY); CREATE VIEW v AS TABLE a; CREATE TYPE pair AS (x integer, y integer)",
    )

    def locked() -> list[tuple[str, str]]:
        return conn.execute(
            "SELECT coalesce(relation::regclass::text, 'schema'), mode FROM pg_locks WHERE pid = pg_backend_pid()"
            " AND (relation IN (SELECT oid FROM pg_class WHERE relnamespace = 'model'::regnamespace AND relkind <> 'i')"
            " OR classid = 'pg_namespace'::regclass AND objid = 'model'::regnamespace) ORDER BY 1, 2"
        ).fetchall()

    with conn.transaction(force_rollback=True):
        assert by_commands(conn, "model", "tenant")
        by_command = locked()
    assert by_command == [(name, "AccessShareLock") for name in (*qualified("a", "a_i_seq", "pair", "v"), "schema")]
    assert prepare(conn, "model")
    changes = (
        "ALTER TABLE model.a ADD COLUMN j integer",
        "ALTER TYPE model.pair ADD ATTRIBUTE z integer",
        "DROP VIEW model.v",
        "DROP SCHEMA model CASCADE",
    )
    with cluster.connect(database) as other, cluster.connect(database) as monitor:
        for number, change in enumerate(changes):
            with conn.transaction(force_rollback=True):
                assert not by_commands(conn, "model", "tenant")
                assert locked() == by_command
                by_command = [lock for lock in by_command if change != f"DROP VIEW {lock[0]}"]
                changing = Running(functools.partial(other.execute, f"BEGIN; {change}".encode()))
                until_blocked(monitor, other, changing)
            changing.result()
            # and who is changing it is waited for
            running = Running(functools.partial(clone, conn, "model", f"later{number}"))
            until_blocked(monitor, conn, running)
            other.execute("COMMIT")
            if change.startswith("DROP SCHEMA"):
                with pytest.raises(psycopg.errors.InvalidSchemaName):
                    running.result()
            else:
                running.result()
                assert prepare(conn, "model")
    assert one(conn, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'later0.a'::regclass AND attnum > 0") == 2
    assert one(conn, "SELECT '(1,2,3)'::later1.pair IS NOT NULL")
    assert one(conn, "SELECT to_regclass('later2.v')") is None


def qualified(*names: str) -> list[str]:
    return [f"model.{name}" for name in names]


@pytest.mark.parametrize("action", ACTIONS)
def test_clones_that_differ_are_no_stamp(conn: Connection, action: str) -> None:
    """Whatever commands have done to one clone and not to the other: all are made by commands then."""
    schemas.make_schema(conn, "model", ACTED_ON)
    told = reasons(conn)
    with conn.transaction(force_rollback=True):
        conn.execute("SELECT set_config('test.action', %s, true)", [action])
        some(conn, "model", "tenant%d", 1, 3)
        assert one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'tenant3'::regnamespace") == 7
    assert len(told) == 1
    assert re.fullmatch(f'all clones of template "model" are made by commands: {ACTIONS[action]}', told[0]), told
    # without it there is one
    told.clear()
    conn.execute("SET test.action = 'SELECT'")
    some(conn, "model", "tenant%d", 1, 3)
    assert told == []


@pytest.mark.parametrize(("words", "arguments"), [(110, 6), (45, 40)], ids=["of the clone", "of the template, too"])
def test_arguments_of_a_long_function_may_be_compressed(conn: Connection, words: int, arguments: int) -> None:
    """PostgreSQL compresses the parts of a long row until it is short enough, and begins elsewhere in a copy."""
    chance = random.Random(words)
    body = " ".join(f"{chance.getrandbits(128):032x}" for _ in range(words))
    schemas.make_schema(conn, "tenant", "CREATE TYPE mood AS ENUM ('sad', 'happy')")
    # names that cannot be compressed either
    named = ", ".join(f"OUT o{chance.getrandbits(128):032x} tenant.mood" for _ in range(arguments))
    defaults = ", ".join(f"p{number} text DEFAULT 'x'" for number in range(7))
    conn.execute(
        f"CREATE FUNCTION tenant.f({defaults}, {named}) LANGUAGE plpgsql"
        f" AS $$ BEGIN /* {body} {body if arguments == 6 else ''} */ END $$".encode()
    )
    told = reasons(conn)
    some(conn, "tenant", "copy%d", 1, 4)
    assert prepare(conn, "tenant")
    clone(conn, "tenant", "copy5")
    assert told == []
    query = "SELECT replace(pg_get_functiondef(%s::regproc), %s, 'tenant')"
    for number in range(1, 6):
        assert one(conn, query, f"copy{number}.f", f"copy{number}") == one(conn, query, "tenant.f", "tenant")
        assert one(conn, f"SELECT o FROM copy{number}.f() AS o") is not None


def test_what_refers_to_the_template_may_be_referred_to_by_it(conn: Connection) -> None:
    """A clone then depends on what depends on the template, which is no change of the template."""
    conn.execute("CREATE SCHEMA around")
    schemas.make_schema(conn, "tenant", "CREATE TABLE a (i integer PRIMARY KEY)")
    conn.execute(
        "CREATE VIEW around.v AS TABLE tenant.a; CREATE VIEW tenant.w AS TABLE around.v;"
        "CREATE TABLE around.child (t text) INHERITS (tenant.a); CREATE VIEW tenant.x AS TABLE around.child;"
        "CREATE TABLE around.b (i integer PRIMARY KEY REFERENCES tenant.a);"
        "CREATE TABLE tenant.c (i integer REFERENCES around.b)"
    )
    told = reasons(conn)
    some(conn, "tenant", "copy%d", 1, 4)
    assert prepare(conn, "tenant")
    assert not by_commands(conn, "tenant", "copy5")
    assert not by_commands(conn, "tenant", "copy6")
    assert told == []
    conn.execute("DROP SCHEMA around CASCADE")


def test_an_error_while_preparing_is_only_that(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE CONVERSION latin FOR 'UTF8' TO 'LATIN1' FROM utf8_to_iso8859_1")
    for _ in range(2):
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="conversion latin"):
            prepare(conn, "model")
    conn.execute(
        "DO $$ BEGIN PERFORM pgbillion_tables.prepare_clone('model'); EXCEPTION WHEN feature_not_supported THEN"
        " CREATE TABLE caught (); END $$"
    )
    assert one(conn, "SELECT to_regclass('caught')::text") == "caught"
    conn.execute("DROP TABLE caught")


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("CREATE OPERATOR FAMILY model.mine USING btree", "operator family model.mine"),
        ("CREATE CONVERSION model.latin FOR 'UTF8' TO 'LATIN1' FROM utf8_to_iso8859_1", "conversion model.latin"),
        (
            "CREATE FUNCTION public.f(internal) RETURNS internal LANGUAGE internal IMMUTABLE AS 'textin';"
            "CREATE TRANSFORM FOR model.state LANGUAGE sql (FROM SQL WITH FUNCTION public.f(internal))",
            "transform for",
        ),
    ],
)
def test_what_cannot_be_cloned_is_noticed_later(conn: Connection, command: str, refused: str) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer); CREATE TYPE state AS ENUM ('new')")
    assert prepare(conn, "model")
    with conn.transaction(force_rollback=True):
        conn.execute(command.encode())
        with pytest.raises(psycopg.errors.FeatureNotSupported, match=refused.replace("model.", "")):
            clone(conn, "model", "tenant")


def test_bytes_that_others_have_written_are_not_used(conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    assert prepare(conn, "model")
    length = one(conn, "SELECT length(stamp) FROM pgbillion_tables.prepared_clones")
    chance = random.Random(20261122)
    places = [*range(0, 80, 8), *(chance.randrange(length) for _ in range(30)), length - 1]
    for number, place in enumerate(places):
        change = f"set_byte(stamp, {place}, get_byte(stamp, {place}) # {1 << chance.randrange(8)})"
        with conn.transaction(force_rollback=True):
            conn.execute(f"UPDATE pgbillion_tables.prepared_clones SET stamp = {change}".encode())
            assert by_commands(conn, "model", f"tenant{number}"), place
    # signed for another role, template or access method
    schemas.make_schema(conn, "other", "CREATE TABLE a (i integer)")
    for change in (
        "role = 'signer'::regrole",
        "template = 'other'::regnamespace",
        "access_method = 'lazy_heap'",
        "rewrite_bodies = true",
    ):
        with conn.transaction(force_rollback=True):
            conn.execute(f"UPDATE pgbillion_tables.prepared_clones SET {change}".encode())
            conn.execute("GRANT USAGE ON SCHEMA model TO signer")
            if "role" in change:
                conn.execute("SET LOCAL ROLE signer")
                with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                    clone(conn, "model", "tenant")
            elif "template" in change:
                assert by_commands(conn, "other", "tenant")
            elif "rewrite_bodies" in change:
                assert by_commands(conn, "model", "tenant")
                conn.execute("SELECT pgbillion_tables.clone_schema('model', 'tenant1', rewrite_bodies => true)")
                made = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'"
                assert one(conn, f"{made} AND relation = 'tenant1.customer'::regclass") == 1
            else:
                assert one(conn, "SELECT pgbillion_tables.clone_schema('model', 'tenant', 'lazy_heap')::text")
                locks = "SELECT count(*) FROM pg_locks WHERE relation = 'tenant.customer'::regclass"
                assert one(conn, locks + " AND mode = 'AccessExclusiveLock'") == 1
    assert not by_commands(conn, "model", "tenant")


@pytest.mark.parametrize(
    "change",
    [
        "ALTER EXTENSION pgbillion_tables DROP TABLE pgbillion_tables.prepared_clones",
        "ALTER TABLE pgbillion_tables.prepared_clones OWNER TO signer",
        "ALTER TABLE pgbillion_tables.prepared_clones ADD more text",
    ],
)
def test_a_table_that_is_not_the_extension_s_is_not_read(conn: Connection, change: str) -> None:
    """Nor written: whoever it belongs to could have an old stamp used again."""
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    assert prepare(conn, "model")
    assert not by_commands(conn, "model", "tenant0")
    with conn.transaction(force_rollback=True):
        conn.execute(change.encode())
        assert by_commands(conn, "model", "tenant")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is not the extension's"):
            prepare(conn, "model")
    assert not by_commands(conn, "model", "tenant")


# by a role that owns the template: what it had when it prepared, and what is taken from it
TAKEN = (
    ("GRANT REFERENCES (code) ON outside.country TO signer", "REVOKE REFERENCES (code) ON outside.country FROM signer",
     "permission denied for table country"),
    ("", "REVOKE USAGE ON TYPE pg_catalog.int4 FROM PUBLIC", "permission denied for type integer"),
    ("", "REVOKE USAGE ON TYPE pg_catalog.inet FROM PUBLIC", "permission denied for type inet"),
    ("", "REVOKE USAGE ON LANGUAGE sql FROM PUBLIC", "permission denied for language sql"),
    ("", "REVOKE EXECUTE ON FUNCTION pg_catalog.suppress_redundant_updates_trigger FROM PUBLIC",
     "permission denied for function suppress_redundant_updates_trigger"),
    ("GRANT their_group TO signer; GRANT group_of_groups TO their_group;"
     "GRANT REFERENCES ON outside.country TO group_of_groups", "REVOKE group_of_groups FROM their_group",
     "permission denied for table country"),
)  # fmt: skip
OWNED = """
    CREATE TABLE a (i integer, c char(2));
    CREATE FUNCTION f(OUT inet, OUT text) LANGUAGE sql AS 'SELECT NULL::inet, NULL::text';
    CREATE TRIGGER t BEFORE UPDATE ON a FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
    ALTER TABLE a ADD FOREIGN KEY (c) REFERENCES outside.country;
    ALTER TABLE a OWNER TO signer; ALTER FUNCTION f OWNER TO signer; ALTER SCHEMA model OWNER TO signer;
"""


@pytest.mark.parametrize(("given", "taken", "refused"), TAKEN)
def test_a_privilege_that_is_taken_is_noticed(conn: Connection, given: str, taken: str, refused: str) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute("REVOKE ALL ON outside.country FROM PUBLIC")
        conn.execute((given or "GRANT REFERENCES ON outside.country TO signer").encode())
        schemas.make_schema(conn, "model", OWNED)
        conn.execute("SET LOCAL ROLE signer")
        assert prepare(conn, "model")
        assert not by_commands(conn, "model", "one")
        conn.execute("RESET ROLE")
        conn.execute(taken.encode())
        conn.execute("SET LOCAL ROLE signer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=refused), conn.transaction():
            clone(conn, "model", "two")


def test_a_membership_that_is_no_longer_inherited_is_noticed(conn: Connection, installation: Installation) -> None:
    if installation.major >= 16:
        pytest.skip("16 keeps it with the membership")
    with conn.transaction(force_rollback=True):
        conn.execute(
            "REVOKE ALL ON outside.country FROM PUBLIC; GRANT REFERENCES ON outside.country TO group_of_groups"
        )
        conn.execute("GRANT their_group TO signer; GRANT group_of_groups TO their_group")
        schemas.make_schema(conn, "model", OWNED)
        conn.execute("SET LOCAL ROLE signer")
        assert prepare(conn, "model")
        conn.execute("RESET ROLE; ALTER ROLE their_group NOINHERIT; SET LOCAL ROLE signer")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="country"), conn.transaction():
            clone(conn, "model", "two")


def test_roles_of_others_do_not_matter(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer)")
    assert prepare(conn, "model")
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE ROLE tenant_role; GRANT their_group TO tenant_role; ALTER ROLE reader CONNECTION LIMIT 7")
        assert not by_commands(conn, "model", "tenant")


def test_a_role_that_is_being_dropped_is_waited_for(cluster: Cluster, database: str, conn: Connection) -> None:
    conn.execute("CREATE ROLE leaving")
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer); GRANT SELECT ON a TO leaving")
    assert prepare(conn, "model")
    with cluster.connect(database) as other, cluster.connect(database) as monitor:
        conn.execute("BEGIN; REVOKE ALL ON model.a FROM leaving; DROP ROLE leaving")
        running = Running(lambda: clone(other, "model", "tenant"))
        until_blocked(monitor, other, running)
        conn.execute("COMMIT")
        running.result()
    granted = "SELECT relacl::text FROM pg_class WHERE oid = 'tenant.a'::regclass"
    assert one(conn, granted) == one(conn, granted.replace("tenant", "model"))


def test_what_changes_while_a_stamp_is_prepared(cluster: Cluster, database: str, conn: Connection) -> None:
    schemas.make_schema(
        conn,
        "model",
        "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1';"
        "CREATE FUNCTION waits(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN $1; END';"
        # which planning calls
        "CREATE TABLE a (i integer); CREATE INDEX ON a ((i + waits(1)))",
    )
    with cluster.connect(database) as other, cluster.connect(database) as monitor:
        conn.execute("SELECT pg_advisory_lock(4711)")
        running = Running(lambda: prepare(other, "model"))
        until_blocked(monitor, other, running)
        conn.execute("CREATE OR REPLACE FUNCTION model.f() RETURNS integer LANGUAGE sql AS 'SELECT 2'")
        conn.execute("SELECT pg_advisory_unlock(4711)")
        with pytest.raises(psycopg.errors.SerializationFailure, match='template "model" was changed'):
            running.result()
        assert prepare(other, "model")
        clone(other, "model", "tenant")
        assert one(other, "SELECT tenant.f()") == 2


def test_what_changes_while_a_template_is_read(cluster: Cluster, database: str, conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT 1'; CREATE TABLE a ()")
    with cluster.connect(database) as other, cluster.connect(database) as monitor:
        clone(other, "model", "first")
        # functions are read before tables, for which this catalog is needed, and comments after both
        conn.execute("BEGIN; LOCK pg_tablespace")
        running = Running(lambda: clone(other, "model", "second"))
        until_blocked(monitor, other, running)
        conn.execute("CREATE OR REPLACE FUNCTION model.f() RETURNS text LANGUAGE sql AS 'SELECT 2'")
        conn.execute("COMMENT ON TABLE model.a IS 'f returns 2'; COMMIT")
        with pytest.raises(psycopg.errors.SerializationFailure, match="while it was being cloned"):
            running.result()
        clone(other, "model", "second")
        assert one(other, "SELECT second.f() || obj_description('second.a'::regclass)") == "2f returns 2"


@pytest.mark.parametrize("prepared", [False, True])
def test_an_old_snapshot_does_not_tell_what_a_template_is(
    cluster: Cluster, database: str, conn: Connection, prepared: bool
) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer); CREATE FUNCTION f() RETURNS text RETURN 'of i'")
    with cluster.connect(database) as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_language")
        conn.execute("ALTER TABLE model.a ADD COLUMN j integer; CREATE TABLE model.b ()")
        conn.execute("CREATE OR REPLACE FUNCTION model.f() RETURNS text RETURN 'of i and j'")
        if prepared:
            assert prepare(other, "model")
            other.execute("COMMIT")
            assert not by_commands(other, "model", "tenant")
        else:
            clone(other, "model", "tenant")
            other.execute("COMMIT")
        assert one(other, "SELECT tenant.f()") == "of i and j"
        assert one(other, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'tenant.a'::regclass AND attnum > 0") == 2
        assert one(other, "SELECT to_regclass('tenant.b')::text") == "tenant.b"


def test_labels_keep_their_order_where_oids_wrap_around(installation: Installation) -> None:
    labels = [f"label {number:03}" for number in range(100)]
    with servers.new_cluster(installation) as cluster:
        with cluster.connect() as conn:
            servers.make_shared_objects(conn)
            servers.install_extensions(conn)
            listed = ", ".join(f"'{label}'" for label in labels)
            schemas.make_schema(conn, "model", f"CREATE TYPE level AS ENUM ({listed}); {schemas.LONG_VIEWS}")
            view = one(conn, "SELECT pg_get_viewdef('model.long_view'::regclass)")
            assert prepare(conn, "model")
        cluster.stop()
        resetwal: list[str | Path] = [
            cluster.installation.program("pg_resetwal"),
            "-o",
            "4294961296",
            "-D",
            cluster.data,
        ]
        run_as_server(resetwal, check=True, capture_output=True)
        cluster.start()
        with cluster.connect() as conn:
            some(conn, "model", "tenant%d", 1, 40)
            across = "SELECT count(DISTINCT oid < 1000000) FROM pg_enum WHERE enumtypid = 'tenant{}.level'::regtype"
            assert 2 in [one(conn, across.format(number)) for number in range(1, 41)]
            for number in range(1, 41):
                query = f"SELECT array_agg(l::text ORDER BY l) FROM unnest(enum_range(NULL::tenant{number}.level)) l"
                assert one(conn, query) == labels
                query = f"SELECT array_agg(l ORDER BY l::tenant{number}.level) FROM unnest(%s::text[]) l"
                assert one(conn, query, labels) == labels
                # OIDs of ten digits, of five, and of both
                query = f"SELECT pg_get_viewdef('tenant{number}.long_view'::regclass)"
                assert one(conn, query).replace(f"tenant{number}.", "model.") == view
