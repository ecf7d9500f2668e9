"""`pgbillion tenants create --method sql`: what PostgreSQL's commands make, in a database without the extension."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from harness import schema_rows, schemas, servers
from harness.catalogs import Catalogs
from harness.clones import dump, same
from harness.command_line import CommandLine, command_line, failed
from harness.servers import one
from pgbillion.common import statements
from pgbillion.common.connection import Connection
from pgbillion.common.errors import UserError
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tables.plan import Method
from pgbillion.tenants import commands, create, definition, diff
from test_clone_options import BODIES
from test_clone_rows import FILLED, MODEL, TABLES
from test_clone_schema import HIDING, REFUSED

pytestmark = pytest.mark.majors

# what a template remembers of dropped columns, a clone does not
DROPPED_COLUMNS = ("partitions", "storage")


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[str]:
    """One that never had the extension."""
    with servers.new_database(cluster, "managed", encoding="UTF8") as name:
        with cluster.connect(name) as conn:
            schemas.make_outside(conn)
        yield name
        with cluster.connect(name) as conn:
            assert one(conn, "SELECT count(*) FROM pg_extension WHERE extname LIKE 'pgbillion%'") == 0


@contextmanager
def unseen(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


def tenants(conn: Connection, count: int = 1, template: str = "model", workers: int = 1, **options: Any) -> int:
    """Create made_1 and so on."""
    request = create.Request(template, "made_%d", 1, count, workers, method=Method.SQL, **options)
    request.check()
    return create.execute(Target(conninfo(conn), "test"), request, observe=unseen).created


def conninfo(conn: Connection) -> str:
    return f"{conn.info.dsn} host={conn.info.host} port={conn.info.port}"


def differing(conn: Connection, *names: str) -> list[Any]:
    return diff.compare(Target(conninfo(conn), "test"), "model", names, 1, observe=unseen).groups


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_a_tenant_is_what_commands_make(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, kind: str
) -> None:
    """As pg_dump shows it, and by its catalog rows."""
    schemas.make_schema(conn, "model", schemas.KINDS[kind].replace("lazy_heap", "heap"))
    assert tenants(conn, 2) == 2
    assert dump(cluster, database, "made_2") == dump(cluster, database, "model")
    made = schema_rows.rows(conn, catalogs, "made_1")
    same(schema_rows.rows(conn, catalogs, "made_2"), made)
    if kind not in DROPPED_COLUMNS:
        same(
            schema_rows.rows(conn, catalogs, "made_1", trees=False),
            schema_rows.rows(conn, catalogs, "model", trees=False),
        )
    assert differing(conn, "made_1", "made_2") == []


RENAMED = """
    CREATE TABLE a (i integer PRIMARY KEY) PARTITION BY RANGE (i);
    CREATE TABLE a2 PARTITION OF a FOR VALUES FROM (10) TO (20);
    CREATE TABLE b (i integer PRIMARY KEY);
    CREATE TABLE p (i integer, a integer CONSTRAINT to_a REFERENCES a, b integer CONSTRAINT to_b REFERENCES b,
        CONSTRAINT key PRIMARY KEY (i), CONSTRAINT positive CHECK (i > 0)) PARTITION BY LIST (i);
    CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1);
    CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2, 3) PARTITION BY LIST (i);
    CREATE TABLE p21 PARTITION OF p2 FOR VALUES IN (2);
    -- of the keys that those of p and its partitions have for these, each comes after the one for a2
    CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10);
    CREATE TABLE a0 PARTITION OF a DEFAULT;
    ALTER TABLE p1 RENAME CONSTRAINT to_a TO a_of_p1;
    ALTER TABLE p1 RENAME CONSTRAINT p1_pkey TO key_of_p1;
    ALTER TABLE p21 RENAME CONSTRAINT to_b TO "b of ""p21";
    ALTER TABLE p2 RENAME CONSTRAINT to_b TO b_of_p2;
    ALTER TABLE p1 ADD CONSTRAINT none CHECK (a < 5);
    ALTER TABLE p1 RENAME CONSTRAINT to_b TO "to";
    ALTER TABLE p1 RENAME CONSTRAINT none TO to_b;
    COMMENT ON CONSTRAINT b_of_p2 ON p2 IS 'renamed';
"""


def test_constraints_of_partitions_that_were_renamed(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs
) -> None:
    """Nor does it matter in which order there were partitions that a key refers to."""
    schemas.make_schema(conn, "model", RENAMED)
    names = "SELECT relname::text, conname::text FROM pg_constraint JOIN pg_class c ON c.oid = conrelid"
    triggers = "SELECT relname::text, tgfoid, tgtype FROM pg_trigger JOIN pg_class c ON c.oid = tgrelid"

    def rows(query: str, schema: str) -> list[Any]:
        return sorted(conn.execute(f"{query} WHERE relnamespace = '{schema}'::regnamespace".encode()))

    renamed = {("p1", "a_of_p1"), ("p1", "key_of_p1"), ("p1", "to"), ("p2", "b_of_p2"), ("p21", 'b of "p21')}
    assert renamed <= set(rows(names, "model"))
    assert tenants(conn, 2) == 2
    for query in (names, triggers):
        assert rows(query, "made_1") == rows(query, "model")
    assert dump(cluster, database, "made_1") == dump(cluster, database, "model")
    assert differing(conn, "made_1", "made_2") == []
    same(schema_rows.rows(conn, catalogs, "made_2"), schema_rows.rows(conn, catalogs, "made_1"))
    conn.execute("INSERT INTO made_1.a VALUES (1), (11), (30); INSERT INTO made_1.b VALUES (1)")
    conn.execute("INSERT INTO made_1.p VALUES (1, 1, 1), (2, 11, 1)")
    for command in (
        "INSERT INTO made_1.p VALUES (3, 30, 2)",
        "DELETE FROM made_1.a WHERE i = 11",
        "DELETE FROM made_1.b",
        "UPDATE made_1.p SET a = 2 WHERE i = 1",
    ):
        with pytest.raises(psycopg.errors.IntegrityError):
            conn.execute(command.encode())


def test_what_is_left_of_a_commutator_s_name(conn: Connection) -> None:
    """When the operator is dropped, nothing refers to it: no command would make that alone."""
    function = "CREATE FUNCTION f(integer, text) RETURNS boolean LANGUAGE sql IMMUTABLE RETURN true"
    operator = "CREATE OPERATOR === (FUNCTION = f, LEFTARG = integer, RIGHTARG = text, COMMUTATOR = @#@)"
    schemas.make_schema(conn, "model", f"{function}; {operator}")
    tenants(conn)
    operators = "SELECT count(*) FROM pg_operator WHERE oprnamespace = %s::regnamespace"
    assert one(conn, operators, "made_1") == one(conn, operators, "model") == 2
    conn.execute("DROP SCHEMA made_1 CASCADE; DROP OPERATOR model.=== (integer, text)")
    tenants(conn)
    assert (one(conn, operators, "made_1"), one(conn, operators, "model")) == (0, 1)
    assert differing(conn, "made_1") == []


def test_a_toast_table_that_no_column_needs(conn: Connection) -> None:
    """It stays when the column that needed it is dropped, and its options do."""
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer, t text) WITH (toast.autovacuum_enabled = off)")
    options = (
        "SELECT reloptions FROM pg_class WHERE oid = (SELECT reltoastrelid FROM pg_class WHERE oid = %s::regclass)"
    )
    tenants(conn)
    assert one(conn, options, "made_1.a") == one(conn, options, "model.a") == ["autovacuum_enabled=off"]
    conn.execute("DROP SCHEMA made_1 CASCADE; ALTER TABLE model.a DROP t")
    tenants(conn)
    assert one(conn, options, "model.a") is not None
    assert one(conn, "SELECT reltoastrelid FROM pg_class WHERE oid = 'made_1.a'::regclass") == 0
    assert differing(conn, "made_1") == []


def test_a_function_whose_columns_get_names(conn: Connection) -> None:
    """PostgreSQL shows the names of the tenant's, and nothing else that its wording would be worth changing for."""
    made = "CREATE FUNCTION f() RETURNS TABLE (a integer, b text) LANGUAGE sql BEGIN ATOMIC SELECT -3, 'a'; END"
    schemas.make_schema(conn, "model", made)
    tenants(conn)
    assert " AS " not in one(conn, "SELECT pg_get_function_sqlbody('model.f'::regproc)")
    assert " AS " in one(conn, "SELECT pg_get_function_sqlbody('made_1.f'::regproc)")
    assert differing(conn, "made_1") == []


def test_a_comment_that_has_the_place_of_the_tenant_s_name(conn: Connection) -> None:
    """Nobody can know it, and one who did could still not have the name end a string."""
    said = f"{definition._NAMED}; it's \\ {definition._NAME} \"{definition._NAMED}"
    schemas.make_schema(conn, "model", 'CREATE TABLE "it\'s" (i integer PRIMARY KEY); CREATE ROLE lodger')
    objects = ("SCHEMA {}", 'TABLE {}."it\'s"', 'COLUMN {}."it\'s".i', 'CONSTRAINT "it\'s_pkey" ON {}."it\'s"')
    for named in objects:
        comment = sql.SQL("COMMENT ON {} IS {}").format(sql.SQL(named.format("model")), said)
        conn.execute(comment)
    conn.execute("GRANT USAGE ON SCHEMA model TO lodger")
    name = "x'; CREATE TABLE public.forged (); --"
    try:
        with conn.transaction():
            by_hand(conn, name)
        assert one(conn, "SELECT to_regclass('public.forged')") is None
        found = conn.execute(
            "SELECT description FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid LEFT JOIN"
            " pg_constraint o ON o.conrelid = c.oid JOIN pg_description d ON d.objoid IN (n.oid, c.oid, o.oid)"
            " WHERE nspname = %s",
            [name],
        ).fetchall()
        assert {text for (text,) in found} == {said}
        assert one(conn, "SELECT has_schema_privilege('lodger', quote_ident(%s)::regnamespace, 'USAGE')", name)
    finally:
        conn.execute("DROP OWNED BY lodger; DROP ROLE lodger")


@pytest.mark.parametrize("template", ["model", 'Odd "m.del', "Odd \"m.'del"])
def test_what_hides_a_table_leads_to_the_tenant_s(
    cluster: Cluster, database: str, conn: Connection, template: str
) -> None:
    quoted = sql.Identifier(template).as_string(conn)
    schemas.make_schema(conn, template, HIDING.replace("{0}", quoted))
    assert tenants(conn, template=template) == 1
    assert "m.'del" not in dump(cluster, database, "made_1").replace("model", "m.'del")
    conn.execute("INSERT INTO made_1.a VALUES (2, 2), (1, 1)")
    assert conn.execute("SELECT id FROM made_1.v").fetchall() == [(2,)]


def test_what_would_lead_back_to_the_template_is_refused(conn: Connection) -> None:
    """Where it cannot be told from something in it that has its name."""
    view = "CREATE VIEW v AS WITH a AS (SELECT id FROM model.a) SELECT model.id FROM a model"
    schemas.make_schema(conn, "model", f"CREATE TABLE a (id integer); {view}")
    with pytest.raises(UserError, match=r"the clone's rule _RETURN on view v would refer to column"):
        tenants(conn)
    assert one(conn, "SELECT to_regnamespace('made_1')") is None


@pytest.mark.parametrize("made", [made for made in REFUSED if "pgbillion_tables" not in made])
def test_what_cannot_be_cloned_is_refused_by_name(conn: Connection, made: str) -> None:
    """Within a transaction, as some of it would be in the way of others' tests."""
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE SCHEMA model; GRANT USAGE ON SCHEMA model TO maker; SET LOCAL search_path = model")
        conn.execute(made.encode())
        with pytest.raises(UserError) as refused:
            by_hand(conn, "made_1")
        assert refused.value.message == f'template "model" has {REFUSED[made]}, which cannot be cloned'
        assert refused.value.hint
        assert one(conn, "SELECT to_regnamespace('made_1')") is None


def by_hand(conn: Connection, name: str, **wish: Any) -> None:
    """Make a tenant in the current transaction."""
    commands.Maker(conn, commands.Wish("model", **wish)).make(
        one(conn, "SELECT 'model'::regnamespace::oid::int8"), [name]
    )


@pytest.mark.parametrize("template", ["model", "Odd \"m.'del"])
def test_a_function_looks_for_names_in_its_own_schema(conn: Connection, template: str) -> None:
    """One that sets search_path to the template, and runs as its owner, must not show the template's rows."""
    quoted = sql.Identifier(template).as_string(conn)
    schemas.make_schema(
        conn,
        template,
        "CREATE TABLE secret (t text); INSERT INTO secret VALUES ('template''s');"
        "CREATE FUNCTION show() RETURNS SETOF text LANGUAGE sql SECURITY DEFINER"
        f" SET work_mem = '1MB' SET search_path = \"$user\", {quoted}, pg_temp SET enable_sort = off"
        " AS 'SELECT t FROM secret';"
        f"CREATE FUNCTION atomic() RETURNS text SET search_path = {quoted}, {quoted}"
        " BEGIN ATOMIC SELECT t FROM secret; END",
    )
    tenants(conn, template=template)
    conn.execute("INSERT INTO made_1.secret VALUES ('its own')")
    assert conn.execute("SELECT made_1.show(), made_1.atomic()").fetchall() == [("its own", "its own")]
    settings = "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'made_1'::regnamespace ORDER BY 1"
    assert conn.execute(settings).fetchall() == [
        ("atomic", ["search_path=made_1, made_1"]),
        ("show", ["work_mem=1MB", 'search_path="$user", made_1, pg_temp', "enable_sort=off"]),
    ]


@pytest.mark.parametrize("rewritten", [True, False])
@pytest.mark.parametrize("language", ["sql", "plpgsql"])
def test_bodies_are_rewritten_where_they_name_the_template(conn: Connection, language: str, rewritten: bool) -> None:
    """As the extension does it, and only where that is asked for."""
    conn.execute("CREATE SCHEMA model; SET check_function_bodies = off")
    for number, body in enumerate(BODIES):
        command = "CREATE FUNCTION model.{}() RETURNS integer LANGUAGE {} AS {}"
        conn.execute(sql.SQL(command).format(sql.Identifier(f"f{number:02}"), sql.Identifier(language), body))
    name = "The \"tenant's"
    with conn.transaction():
        by_hand(conn, name, rewrite_bodies=rewritten)
    found = conn.execute(
        "SELECT proname::text, prosrc FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%s))", [name]
    )
    assert dict(found.fetchall()) == {
        f"f{number:02}": body if there is None or not rewritten else there.format('"The ""tenant\'s"')
        for number, (body, there) in enumerate(BODIES.items())
    }
    with pytest.raises(UserError, match="cannot have schema"), conn.transaction():
        by_hand(conn, "loop", rewrite_bodies=True)


@pytest.mark.parametrize("name", ["loop", "a\nb", "a*/b"])
def test_names_that_no_code_can_have(name: str) -> None:
    assert not statements.can_be_named(name)


@pytest.fixture
def filled(conn: Connection) -> None:
    schemas.make_schema(
        conn, "model", MODEL.replace("(net) DEFERRABLE", "(id) DEFERRABLE").replace("USING lazy_heap", "")
    )
    conn.execute("TRUNCATE outside.country CASCADE")
    conn.execute(FILLED.encode())
    conn.execute("REFRESH MATERIALIZED VIEW model.totals")


def contents(conn: Connection, schema: str) -> dict[str, list[str]]:
    return {
        table: [row for (row,) in conn.execute(f"SELECT t::text FROM ONLY {schema}.{table} t ORDER BY 1".encode())]
        for table in TABLES
    }


@pytest.mark.usefixtures("filled")
def test_all_rows(conn: Connection) -> None:
    """Without triggers, and with the sequences' values; foreign keys hold, and are the tenant's."""
    tenants(conn, 2, all_rows=True)
    made = contents(conn, "made_1")
    assert made == contents(conn, "model") == contents(conn, "made_2")
    assert [len(made[table]) for table in TABLES] == [2, 3, 1, 1, 1, 1, 1, 1, 1, 1]
    assert one(conn, "INSERT INTO made_1.invoice (customer) VALUES (101) RETURNING id") == 4
    assert one(conn, "INSERT INTO made_1.customer (name) VALUES ('c') RETURNING id") == 102
    assert one(conn, "SELECT nextval('made_1.number')") == 8
    assert one(conn, "SELECT count(*) FROM made_1.log") == 1 + 3
    with pytest.raises(psycopg.errors.ForeignKeyViolation), conn.transaction():
        conn.execute("DELETE FROM made_1.invoice; SET CONSTRAINTS ALL IMMEDIATE")
    assert differing(conn, "made_1", "made_2") == []


@pytest.mark.usefixtures("filled")
def test_rows_of_named_tables(conn: Connection) -> None:
    tenants(conn, rows_of=("invoice", "customer", "event"))
    made, wanted = contents(conn, "made_1"), contents(conn, "model")
    for table in ("customer", "invoice", "event_old", "event_new", "totals"):
        assert made[table] == wanted[table]
    for table in ("parent", "child", "nothing", "lazy"):
        assert made[table] == []
    assert one(conn, "INSERT INTO made_1.invoice (customer) VALUES (101) RETURNING id") == 4
    assert one(conn, "SELECT nextval('made_1.number')") == 1


@pytest.mark.usefixtures("filled")
def test_rows_that_cannot_be_copied_are_refused(conn: Connection) -> None:
    why = "rows of table invoice cannot be copied: by invoice_customer_fkey they refer to those of customer"
    with pytest.raises(UserError, match=why):
        tenants(conn, rows_of=("invoice",))
    conn.execute("CREATE RULE kept AS ON INSERT TO model.log DO INSTEAD NOTHING")
    with pytest.raises(UserError, match="rows of table log cannot be copied: rule kept takes the place of INSERT"):
        tenants(conn, all_rows=True)
    assert one(conn, "SELECT to_regnamespace('made_1')") is None


def test_who_may_not_read_rows_may_not_copy_them(conn: Connection) -> None:
    """What row security hides is not left out in silence."""
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE ROLE owner; CREATE ROLE copier; GRANT owner TO copier")
        conn.execute(f"GRANT CREATE ON DATABASE {conn.info.dbname} TO copier".encode())
        schemas.make_schema(conn, "model", "CREATE TABLE a (who name, i serial); INSERT INTO a VALUES ('x'), ('owner')")
        conn.execute("ALTER SCHEMA model OWNER TO owner; ALTER TABLE model.a OWNER TO owner")

        def copied() -> int:
            with conn.transaction():
                conn.execute("SET LOCAL ROLE copier")
                by_hand(conn, "made_1", rows=None)
                return int(one(conn, "SELECT count(*) FROM made_1.a"))

        with conn.transaction(force_rollback=True):
            assert copied() == 2
        for change, message in (
            (
                "CREATE POLICY p ON model.a USING (who = current_user);"
                "ALTER TABLE model.a ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
                "row-level security policy for table",
            ),
            ("REVOKE SELECT ON model.a FROM owner", "permission denied for table a"),
            ("REVOKE SELECT ON model.a_i_seq FROM owner", "permission denied for sequence a_i_seq"),
        ):
            with conn.transaction(force_rollback=True):
                conn.execute(change.encode())
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match=message), conn.transaction():
                    copied()


def test_rows_are_of_one_moment(cluster: Cluster, database: str, conn: Connection) -> None:
    """The statement that copies them waits at the second table; what is committed then is in neither."""
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer PRIMARY KEY); CREATE TABLE b (i integer)")
    conn.execute(
        "ALTER TABLE model.b ADD CHECK (i < 10); INSERT INTO model.a VALUES (1); INSERT INTO model.b VALUES (1)"
    )
    # a function that waits while the first table's rows are read
    conn.execute(
        "CREATE FUNCTION public.waits(integer) RETURNS boolean LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN true; END';"
        "ALTER TABLE model.a ADD CONSTRAINT waits CHECK (public.waits(i))"
    )
    with cluster.connect(database) as other, cluster.connect(database) as writer:
        other.execute("SELECT pg_advisory_lock(4711)")
        with started(conn, "--all-rows") as process:
            waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'advisory'"
            servers.until(lambda: one(conn, waits), "the first table to wait")
            writer.execute("BEGIN; SET LOCAL lock_timeout = '60s'; INSERT INTO model.b VALUES (2); COMMIT")
            other.execute("SELECT pg_advisory_unlock(4711)")
            assert process.wait(60) == 0
    assert conn.execute("SELECT (SELECT count(*) FROM made_1.a), (SELECT count(*) FROM made_1.b)").fetchall() == [
        (1, 1)
    ]
    conn.execute("DROP FUNCTION public.waits CASCADE")


@contextmanager
def started(conn: Connection, *options: str, count: int = 1) -> Iterator[subprocess.Popen[str]]:
    """The command, in a process of its own."""
    create = ("tenants", "create", "--template", "model", "--name-format", "made_%d", "-n", str(count), "-j", "2")
    process = subprocess.Popen(
        [sys.executable, "-m", "pgbillion", *create, "--method", "sql", *options, "-d", conninfo(conn)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_can_be_interrupted_and_goes_on(cluster: Cluster, database: str, conn: Connection) -> None:
    """Whole tenants are there or not, and the same command makes the others."""
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    count = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'made%'"
    waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')"
    with cluster.connect(database) as holder, holder.transaction(force_rollback=True):
        # without something to wait for they might all be there before the signal comes
        holder.execute("CREATE SCHEMA made_10")
        with started(conn, count=20) as process:
            servers.until(lambda: one(conn, waits) and one(conn, count) > 1, "create to wait")
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
            assert process.returncode == 130
    before = one(conn, count)
    assert 1 < before < 20
    assert f"error: interrupted with {before} of 20 tenants created\n" in stderr
    assert "--method sql" in stderr
    assert tenants(conn, 20, workers=2) == 20 - before
    assert differing(conn, *(f"made_{number}" for number in range(1, 21))) == []


def test_a_template_that_changes_is_read_again(conn: Connection) -> None:
    """Each of these changes what a tenant is, and only some of them a table."""
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    conn.execute(
        "CREATE TABLE outside.other (i integer PRIMARY KEY);"
        "ALTER TABLE model.log ADD r integer REFERENCES outside.other"
    )
    maker = commands.Maker(conn, commands.Wish("model"))
    model = one(conn, "SELECT 'model'::regnamespace::oid::int8")
    changes = [
        "SELECT",
        "ALTER TABLE model.customer ADD new integer",
        "CREATE INDEX ON model.customer (new)",
        "CREATE OR REPLACE FUNCTION model.rounded(numeric, digits integer DEFAULT 2) RETURNS numeric LANGUAGE sql"
        " IMMUTABLE AS 'SELECT round($1, $2) + 0'",
        "GRANT SELECT ON model.log TO reader",
        "GRANT SELECT (what) ON model.log TO maker",
        "COMMENT ON TABLE model.log IS 'new'",
        "COMMENT ON SCHEMA model IS 'new'",
        "ALTER TYPE model.state ADD VALUE 'newer'",
        "ALTER DOMAIN model.amount SET DEFAULT 7",
        "ALTER TABLE model.log ALTER what SET DEFAULT 'x'",
        "ALTER TABLE model.log OWNER TO maker",
        "ALTER TABLE model.log ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY new ON model.log",
        "CREATE STATISTICS model.new ON id, name FROM model.customer",
        "ALTER SEQUENCE model.number INCREMENT BY 7",
        "CREATE CAST (model.address AS model.state) WITH INOUT",
        "ALTER TABLE model.log DISABLE TRIGGER ALL; ALTER TABLE model.invoice DISABLE TRIGGER USER",
        "ALTER DEFAULT PRIVILEGES IN SCHEMA model GRANT SELECT ON TABLES TO reader",
        "GRANT USAGE ON SCHEMA model TO reader",
        "ALTER TABLE outside.other RENAME TO renamed",
        "ALTER SCHEMA outside RENAME TO outdoors",
        "ALTER SCHEMA outdoors RENAME TO outside",
        "DROP VIEW model.unpaid CASCADE",
    ]
    for number, change in enumerate(changes):
        before = maker._known
        conn.execute(change.replace("ALTER TABLE model.log DISABLE TRIGGER ALL; ", "").encode())
        with conn.transaction():
            maker.make(model, [f"made_{number}"])
        assert (maker._known is before) == (number == 0 and before is not None), change
        # another session reads what there is now
        with conn.transaction(), conn.transaction(force_rollback=True):
            by_hand(conn, "other")
            assert diff.described(read(conn, "other"), read(conn, f"made_{number}")) == [], change
    before = maker._known
    # none of this changes what a tenant is
    conn.execute(
        "INSERT INTO model.customer (name) VALUES ('a'); SELECT nextval('model.number'); ANALYZE model.customer"
    )
    conn.execute("VACUUM pg_class, pg_attribute, pg_depend, pg_proc")
    with conn.transaction():
        maker.make(model, ["last_1", "last_2"])
    assert maker._known is before


def read(conn: Connection, name: str) -> diff.Objects:
    return diff.objects(conn, one(conn, "SELECT to_regnamespace(%s)::oid::int8", name), name, "model")


def test_a_template_that_changes_while_it_is_read(
    cluster: Cluster, database: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is half of before and half of after is not made, but read again."""
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer)")
    read_definition, changes = definition.read, iter(("CREATE TABLE model.b ()", "CREATE TABLE model.c ()"))

    def meanwhile(*given: Any, **named: Any) -> definition.Definition:
        found = read_definition(*given, **named)
        if (change := next(changes, None)) is not None:
            with cluster.connect(database) as other:
                other.execute(change.encode())
        return found

    monkeypatch.setattr(definition, "read", meanwhile)
    tenants(conn)
    assert one(conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'made_1'::regnamespace") == 3


def test_a_migration_meanwhile_is_not_missed(
    cluster: Cluster, database: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant is recorded to have had what it has had."""
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer)")
    migrate = [sys.executable, "-m", "pgbillion", "tenants", "migrate", "model", "-d", conninfo(conn), "-c"]
    subprocess.run([*migrate, "ALTER TABLE a ADD b integer"], check=True, stdout=subprocess.DEVNULL)
    make, late = commands.Maker.make, iter(("ALTER TABLE a ADD c integer",))

    def meanwhile(self: commands.Maker, template: int, names: list[str]) -> None:
        make(self, template, names)
        if (change := next(late, None)) is not None:
            subprocess.run([*migrate, change], check=True, stdout=subprocess.DEVNULL)

    monkeypatch.setattr(commands.Maker, "make", meanwhile)
    tenants(conn)
    columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'made_1.a'::regclass AND attnum > 0"
    assert one(conn, columns) == 3
    journal = "SELECT count(*) FROM pgbillion_journal.migration WHERE tenant = 'made_1' AND done"
    assert one(conn, journal) == 2


def test_what_commands_make_otherwise_is_an_error(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a query for commands may get wrong."""
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer CHECK (i > 0)); CREATE INDEX ON a (i)")
    read_definition = definition.read

    def wrong(*given: Any, **named: Any) -> definition.Definition:
        found = read_definition(*given, **named)
        left = tuple(command for command in found.objects if "INDEX" not in command.pieces[0])
        return definition.Definition(left, found.links, found.last, found.contents, found.publications)

    monkeypatch.setattr(definition, "read", wrong)
    with pytest.raises(UserError, match="make something else of it: index a_i_idx is missing"):
        tenants(conn, 3)
    assert one(conn, "SELECT to_regnamespace('made_1')") is None


def test_tenants_join_publications_where_asked(conn: Connection) -> None:
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer PRIMARY KEY, t text); CREATE TABLE b (i integer)")
    conn.execute(
        "CREATE PUBLICATION one FOR TABLE model.a (i) WHERE (i > 0); CREATE PUBLICATION two FOR TABLES IN SCHEMA model"
    )
    try:
        tenants(conn)
        published = "SELECT pubname, tablename, attnames, rowfilter FROM pg_publication_tables WHERE schemaname = %s"
        assert conn.execute(published, ["made_1"]).fetchall() == []
        conn.execute("DROP SCHEMA made_1 CASCADE")
        tenants(conn, join_publications=True)
        assert sorted(conn.execute(published, ["made_1"])) == sorted(conn.execute(published, ["model"]))
    finally:
        conn.execute("DROP PUBLICATION one, two")


def test_an_ordinary_role_makes_what_it_may_make(conn: Connection) -> None:
    conn.execute("CREATE ROLE lodger LOGIN")
    try:
        schemas.make_schema(conn, "model", "CREATE TABLE a (i serial)")

        def as_lodger() -> int:
            request = create.Request("model", "made_%d", 1, 1, method=Method.SQL)
            target = Target(re.sub(r"user=\S+", "user=lodger", conninfo(conn)), "test")
            return create.execute(target, request, observe=unseen).created

        grants = {
            "no privilege to use the schema model": "GRANT USAGE ON SCHEMA model TO lodger",
            "no privilege to create schemas in database": f"GRANT CREATE ON DATABASE {conn.info.dbname} TO lodger",
        }
        for message, grant in grants.items():
            with pytest.raises(UserError, match=message) as refused:
                as_lodger()
            assert refused.value.hint == f"let its owner run: {grant}"
            conn.execute(grant.encode())
        with pytest.raises(
            psycopg.errors.InsufficientPrivilege, match=r"must be able to SET ROLE|must be member of role"
        ):
            as_lodger()
        conn.execute("ALTER SCHEMA model OWNER TO lodger; ALTER TABLE model.a OWNER TO lodger")
        assert as_lodger() == 1
        assert one(conn, "SELECT tableowner FROM pg_tables WHERE schemaname = 'made_1'") == "lodger"
    finally:
        conn.execute("DROP OWNED BY lodger CASCADE; DROP ROLE lodger")


def test_functions_of_the_template_s_owner_are_not_called(conn: Connection) -> None:
    """They would be chosen where the template is in the search path."""
    better = ("quote_ident(name)", "quote_literal(name)", "format(text, name, text)", "concat_ws(text, text)")
    made = ["CREATE TABLE a (i serial PRIMARY KEY, t text DEFAULT 'x' CHECK (t <> ''))"]
    made += [
        f"CREATE FUNCTION {signature} RETURNS text LANGUAGE plpgsql AS"
        " 'BEGIN RAISE EXCEPTION USING MESSAGE = ''called''; END'"
        for signature in better
    ]
    schemas.make_schema(conn, "model", ";".join(made))
    with pytest.raises(psycopg.errors.RaiseException, match="called"):
        conn.execute("SET search_path = model; SELECT quote_ident(relname) FROM pg_class")
    conn.execute("RESET search_path")
    assert tenants(conn, 2) == 2
    assert one(conn, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'made_2'::regnamespace") == len(better)


def test_settings_of_the_session_change_nothing(conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.KINDS["application"])
    settings = (
        "SET search_path = model; SET quote_all_identifiers = on; SET default_tablespace = space1;"
        "SET DateStyle = 'German, DMY'; SET IntervalStyle = iso_8601; SET extra_float_digits = -15;"
        "SET default_toast_compression = pglz; SET row_security = off; SET transform_null_equals = on"
    )
    conn.execute(settings)
    with conn.transaction():
        by_hand(conn, "made_1")
    assert one(conn, "SHOW search_path") == "model"
    conn.execute("RESET ALL")
    assert differing(conn, "made_1") == []


@pytest.fixture
def cli(cluster: Cluster, database: str) -> Iterator[CommandLine]:
    with command_line(cluster, database) as made:
        yield made


def test_the_command(cli: CommandLine, conn: Connection) -> None:
    schemas.make_schema(conn, "model", schemas.APPLICATION)
    create = ("tenants", "create", "--template", "model", "--name-format", "made_%d", "--method", "sql")
    made = cli.json(*create, "-n", "4", "-j", "2", "--batch", "2")
    assert (made["created"], made["before"]) == (4, 0)
    done = cli.run(*create, "-n", "6", "--storage", "heap", check=True)
    assert done.stdout.startswith("2 tenants created in ")
    assert ", 4 were there: " in done.stdout
    assert cli.json("tenants", "diff", "model", "made_*")["same"] == 6
    failed(cli.run("tenants", "create", "--template", "pg_catalog", "-n", "1", "--method", "sql"), 3, "of the system")
    failed(cli.run("tenants", "create", "--template", "none", "-n", "1", "--method", "sql"), 1, 'no schema "none"')
    conn.execute(f"ALTER DATABASE {cli.database} SET default_transaction_read_only = on")
    failed(cli.run(*create, "-n", "7"), 3, "read-only")
    conn.execute(f"ALTER DATABASE {cli.database} RESET default_transaction_read_only")


def test_a_server_that_has_no_extension(cli: CommandLine, conn: Connection) -> None:
    """What needs it says how to do without."""
    if cli.cluster.installation.major < 18:
        # their servers find it in their own folder, which all tests share
        return
    schemas.make_schema(conn, "model", "CREATE TABLE a (i integer)")
    conn.execute(f"ALTER DATABASE {cli.database} SET extension_control_path = '/nonexistent'")
    try:
        create = ("tenants", "create", "--template", "model", "--name-format", "made_%d", "-n", "2")
        failed(cli.run(*create), 3, "does not have the extension", "or use --method sql, which does without")
        lazy = cli.run(*create, "--storage", "lazy")
        failed(lazy, 3, "does not have the extension", "or use --method sql --storage heap, which does without")
        lazy = cli.run(*create, "--storage", "lazy", "--method", "sql")
        failed(lazy, 3, "lazy storage needs the extension", "--storage heap does without it")
        assert cli.run(*create, "--method", "sql", check=True).stdout.startswith("2 tenants created in ")
    finally:
        conn.execute(f"ALTER DATABASE {cli.database} RESET extension_control_path")


def test_the_queries_are_the_extension_s() -> None:
    """What clone/kinds.c has and what tools/clone_queries.py has written of it."""
    tool = Path(__file__).parents[2] / "tools" / "clone_queries.py"
    done = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for major in (15, 19):
        found = definition.queries(major)
        assert {len(found[name]) for name in ("order", "ambiguous", "fill", "strays", "publications")} == {1}
        assert len(found["object"]) > 30
