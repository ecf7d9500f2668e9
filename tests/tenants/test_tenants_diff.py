"""`pgbillion tenants diff`: every small change of a schema is found, in both of its ways, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from psycopg import sql

from harness import schemas, servers
from harness.servers import one
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import diff, script

# beside the library's application, what that does not have
MORE = """
CREATE FUNCTION of_enum(state DEFAULT 'paid') RETURNS state LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE TABLE plain (a integer, b text, c state DEFAULT of_enum('new'), d integer,
    CONSTRAINT few CHECK (c IN ('new', 'paid')));
CREATE TABLE parent (a integer, b text) PARTITION BY LIST (a);
CREATE TABLE part PARTITION OF parent FOR VALUES IN (1, 2);
CREATE INDEX plain_a ON plain (a);
CREATE INDEX plain_f ON plain (of_enum(c));
CREATE UNLOGGED SEQUENCE free;
CREATE RULE nothing AS ON DELETE TO plain DO INSTEAD NOTHING;
CREATE TYPE span AS RANGE (subtype = integer);
CREATE CAST (integer AS state) WITH INOUT;
CREATE CAST (plain AS text) WITH INOUT AS ASSIGNMENT;
COMMENT ON CAST (integer AS state) IS 'a cast';
CREATE TYPE pair AS (a integer, b text);
CREATE TABLE of_pair OF pair;
CREATE VIEW of_plain AS SELECT p.a, p.b, of_enum(p.c) AS c FROM plain p WHERE p.c <> 'paid';
"""

# each makes another schema of it
CHANGES = (
    "ALTER TABLE plain ADD COLUMN more integer",
    "ALTER TABLE plain RENAME COLUMN d TO e",
    "ALTER TABLE plain DROP COLUMN d",
    "ALTER TABLE plain ALTER COLUMN d TYPE bigint",
    "ALTER TABLE plain ALTER COLUMN d SET NOT NULL",
    "ALTER TABLE plain ALTER COLUMN d SET DEFAULT 1",
    "ALTER TABLE plain ALTER COLUMN c SET DEFAULT of_enum('paid')",
    "ALTER TABLE plain DROP COLUMN d; ALTER TABLE plain DROP COLUMN c CASCADE; ALTER TABLE plain ADD COLUMN d integer",
    "ALTER TABLE plain ALTER COLUMN b SET STORAGE EXTERNAL",
    "ALTER TABLE plain ALTER COLUMN b SET COMPRESSION pglz",
    "ALTER TABLE plain ALTER COLUMN b SET STATISTICS 7",
    "ALTER TABLE plain ALTER COLUMN b SET (n_distinct = 7)",
    "ALTER TABLE plain SET (fillfactor = 70)",
    "ALTER TABLE plain SET (toast.autovacuum_enabled = off)",
    "ALTER TABLE plain SET UNLOGGED",
    "ALTER TABLE plain RENAME TO plane",
    "ALTER TABLE plain ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE plain FORCE ROW LEVEL SECURITY",
    "ALTER TABLE plain REPLICA IDENTITY FULL",
    "ALTER TABLE plain CLUSTER ON plain_a",
    "ALTER TABLE plain OWNER TO maker",
    "ALTER TABLE plain ADD CONSTRAINT more CHECK (a > 0)",
    "ALTER TABLE plain ADD CONSTRAINT more CHECK (d > 0)",
    "ALTER TABLE plain ADD CONSTRAINT more CHECK (d > 0) NOT VALID",
    "ALTER TABLE plain DROP CONSTRAINT few",
    "ALTER TABLE plain DROP CONSTRAINT few, ADD CONSTRAINT few CHECK (c IN ('paid', 'new'))",
    "ALTER TABLE plain RENAME CONSTRAINT few TO fewer",
    "ALTER TABLE plain DISABLE RULE nothing",
    "CREATE CAST (varchar AS state) WITH INOUT AS IMPLICIT",
    "DROP CAST (integer AS state)",
    "DROP CAST (plain AS text); CREATE CAST (plain AS text) WITH INOUT AS IMPLICIT",
    "COMMENT ON CAST (integer AS state) IS 'another comment'",
    "ALTER TABLE of_pair NOT OF",
    "ALTER TABLE invoice DROP CONSTRAINT invoice_customer_fkey",
    "ALTER TABLE invoice ALTER CONSTRAINT invoice_customer_fkey NOT DEFERRABLE",
    "ALTER TABLE invoice DISABLE TRIGGER log_change",
    "ALTER TABLE invoice DISABLE TRIGGER ALL",
    "ALTER TABLE invoice ENABLE TRIGGER noted",
    "ALTER TABLE invoice ALTER COLUMN id SET DEFAULT nextval('number')",
    "ALTER INDEX plain_a SET (fillfactor = 70)",
    "ALTER INDEX invoice_pkey SET (fillfactor = 70)",
    "ALTER INDEX plain_a RENAME TO plain_b",
    "DROP INDEX plain_a",
    "DROP INDEX plain_a; CREATE INDEX plain_a ON plain (a DESC)",
    "DROP INDEX plain_a; CREATE INDEX plain_a ON plain (d)",
    "DROP INDEX plain_f; CREATE INDEX plain_f ON plain (of_enum(c)) WHERE a > 0",
    "DROP INDEX plain_a; CREATE INDEX plain_a ON plain USING hash (a)",
    "CREATE TABLE more ()",
    "DROP TABLE plain CASCADE",
    "CREATE TABLE part_2 PARTITION OF parent FOR VALUES IN (3)",
    "ALTER TABLE parent DETACH PARTITION part",
    "ALTER TABLE parent DETACH PARTITION part; ALTER TABLE parent ATTACH PARTITION part FOR VALUES IN (1)",
    "ALTER TYPE state ADD VALUE 'more'",
    "ALTER TYPE state ADD VALUE 'more' BEFORE 'new'",
    "ALTER TYPE state RENAME VALUE 'paid' TO 'payed'",
    "ALTER TYPE state OWNER TO maker",
    "ALTER TYPE address ADD ATTRIBUTE more integer",
    "ALTER DOMAIN amount DROP CONSTRAINT not_negative",
    "ALTER DOMAIN amount SET DEFAULT 1",
    "ALTER DOMAIN amount DROP NOT NULL",
    "ALTER TYPE span RENAME TO spam",
    "ALTER SEQUENCE number INCREMENT BY 7",
    "ALTER SEQUENCE free OWNED BY plain.a",
    "ALTER SEQUENCE invoice_id_seq OWNED BY NONE",
    "CREATE OR REPLACE VIEW of_plain AS SELECT p.a, p.b, of_enum(p.c) AS c FROM plain p WHERE p.c <> 'new'",
    "CREATE OR REPLACE VIEW of_plain AS SELECT p.d AS a, p.b, of_enum(p.c) AS c FROM plain p WHERE p.c <> 'paid'",
    "ALTER VIEW of_plain RENAME COLUMN b TO bb",
    "ALTER VIEW of_plain SET (security_barrier)",
    "ALTER VIEW of_plain ALTER COLUMN b SET DEFAULT 'x'",
    "CREATE OR REPLACE FUNCTION of_enum(state DEFAULT 'paid') RETURNS state LANGUAGE sql IMMUTABLE AS 'VALUES ($1)'",
    "CREATE OR REPLACE FUNCTION of_enum(state DEFAULT 'new') RETURNS state LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
    "ALTER FUNCTION of_enum STABLE",
    "ALTER FUNCTION of_enum SET work_mem = '1MB'",
    "ALTER FUNCTION of_enum OWNER TO maker",
    "GRANT EXECUTE ON FUNCTION of_enum TO reader WITH GRANT OPTION",
    "CREATE FUNCTION of_enum(integer) RETURNS integer LANGUAGE sql AS 'SELECT $1'",
    "CREATE AGGREGATE total(integer) (sfunc = int4pl, stype = integer)",
    "CREATE AGGREGATE total(integer) (sfunc = int4pl, stype = integer, initcond = '0')",
    "CREATE OPERATOR === (leftarg = integer, rightarg = integer, function = int4eq)",
    "CREATE COLLATION same FROM \"C\"",
    "DROP TRIGGER log_change ON invoice",
    "DROP POLICY own ON invoice",
    "ALTER POLICY strict ON invoice USING (net > 1)",
    "ALTER POLICY strict ON invoice TO reader",
    "DROP STATISTICS pair",
    "ALTER STATISTICS pair SET STATISTICS 9",
    "COMMENT ON TABLE invoice IS 'another'",
    "COMMENT ON COLUMN plain.a IS 'first'",
    "COMMENT ON CONSTRAINT few ON plain IS 'few'",
    "COMMENT ON TRIGGER log_change ON invoice IS NULL",
    "COMMENT ON TYPE span IS 'a range'",
    "GRANT SELECT ON plain TO reader",
    "GRANT SELECT (a) ON plain TO reader",
    "GRANT SELECT (b) ON plain TO reader",
    "REVOKE EXECUTE ON FUNCTION of_enum FROM PUBLIC",
    "GRANT USAGE ON SEQUENCE free TO reader",
)  # fmt: skip

# these change rows of catalogs, but no definition
SAME = (
    "ALTER TABLE plain ADD COLUMN more integer; ALTER TABLE plain DROP COLUMN more",
    "DROP INDEX plain_a; CREATE INDEX plain_a ON plain (a)",
    "GRANT SELECT ON plain TO reader; REVOKE SELECT ON plain FROM reader",
    "REVOKE SELECT ON invoice FROM reader; GRANT SELECT ON invoice TO reader",
    "INSERT INTO plain VALUES (1, 'x'); ANALYZE plain; SELECT nextval('number'); TRUNCATE plain",
    "INSERT INTO customer (name) VALUES ('x'); REFRESH MATERIALIZED VIEW totals",
    "ALTER TABLE plain DISABLE RULE nothing; ALTER TABLE plain ENABLE RULE nothing",
    "ALTER TABLE plain SET (fillfactor = 70); ALTER TABLE plain RESET (fillfactor)",
    "CREATE OR REPLACE FUNCTION of_enum(state DEFAULT 'paid') RETURNS state LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
    "DROP VIEW of_plain; CREATE VIEW of_plain AS SELECT p.a, p.b, of_enum(p.c) AS c FROM plain p WHERE p.c <> 'paid'",
    "COMMENT ON TABLE plain IS 'x'; COMMENT ON TABLE plain IS NULL",
)

# of schemas that are the same nevertheless
ODD_NAMES = ("it's", '"', "Größe", "a.b c", "$1", 'it\'s "two"')

# strings and names that hold the name of a schema before a dot count as they are
STRINGS = (
    "CREATE FUNCTION f(a text DEFAULT '{0}.a') RETURNS text LANGUAGE sql AS 'SELECT $1'",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql RETURN '{0}.a'",
    "CREATE FUNCTION f() RETURNS SETOF text LANGUAGE sql BEGIN ATOMIC SELECT '{0}.a' WHERE 'it''s {0}.b' <> ''; END",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql SET app.who = '{0}.a' AS 'SELECT 1'",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql SET search_path = '{0}.a' AS 'SELECT 1'",
    "CREATE PROCEDURE p(a text DEFAULT 'it''s {0}.a') LANGUAGE plpgsql AS 'BEGIN END -- it''s $procedure$'",
    "CREATE AGGREGATE f(text) (sfunc = textcat, stype = text, initcond = '{0}.a')",
    'CREATE TABLE t ("{0}.a" integer)',
    'CREATE TABLE t ("a {0}.a" integer, CHECK ("a {0}.a" > 0))',
    'CREATE TABLE t (a integer); CREATE VIEW v AS SELECT a AS "{0}.a" FROM t',
    "CREATE TABLE t (a text CHECK (a <> 'it''s {0}.a'))",
    "CREATE TYPE e AS ENUM ('{0}.a')",
    "CREATE TABLE t (a integer); COMMENT ON TABLE t IS 'it''s {0}.t'",
    "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$SELECT 'https://{0}.com'$$",
    "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$BEGIN PERFORM E'\\' {0}.t', $x$ {0}.t $x$; END$$",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT {0}.a FROM (SELECT 1 AS a) {0}'",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT \"x {0}.a\", a.{0}.b FROM x'",
    "CREATE FUNCTION \"x {0}.f\"() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
)
# in these it is that of the schema itself
TEXTS = (
    "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT 1 AS \"it''s\" FROM {0}.t'",
    "CREATE FUNCTION f(a text DEFAULT 'it''s') RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM {0}.f(''t''); END'",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql SET search_path = \"it's\", {0}, pg_temp AS 'SELECT 1'",
)
# what names nothing in comments, whichever name is there
COMMENTS = (
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS $$SELECT 1 -- see https://{0}.com$$",
    "CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS $$SELECT /* {0}.t /* {0}.u */ */ 1$$",
)


@contextmanager
def unseen(total: int) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "diff") as made:
        yield made


def groups(target: Target, model: str, tenants: list[str]) -> list[set[str]]:
    """The groups that are found: those that are as the model first."""
    outcome = diff.compare(target, model, tenants, 2, observe=unseen)
    others = [set(group.tenants) for group in outcome.groups]
    assert all(group.differences for group in outcome.groups)
    same = set(tenants).difference(*others)
    assert outcome.same == len(same)
    return [same, *sorted(others, key=min)]


def test_each_change_is_found_and_nothing_else(cluster: Cluster, database: str, tell: Callable[[str], None]) -> None:
    target = Target(cluster.conninfo(database), "the test's")
    names = {f"change_{number:03}": change for number, change in enumerate((*CHANGES, *SAME))}
    with target.connect() as conn:
        schemas.make_outside(conn)
        schemas.make_schema(conn, "model", schemas.APPLICATION + MORE)
        # two by commands, the others by their stamp
        assert one(conn, "SELECT pgbillion_tables.clone_schemas('model', 'change_%%03d', 0, %s)", len(names))
        assert groups(target, "model", list(names)) == [set(names)]
        for name, change in names.items():
            conn.execute(f"SET search_path = {name}".encode())
            for statement in change.split("; "):
                conn.execute(statement.encode())
        conn.execute("RESET search_path")
        # the names of schemas are not all of one length
        conn.execute('ALTER SCHEMA change_007 RENAME TO "Odd ""name"')
        names['Odd "name'] = names.pop("change_007")
        for number, odd in enumerate(ODD_NAMES, len(CHANGES)):
            changed = f"change_{number:03}"
            conn.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(changed), sql.Identifier(odd)))
            names[odd] = names.pop(changed)
        by_rows = groups(target, "model", list(names))
        changes = {change: name for name, change in names.items()}
        assert by_rows[0] == {changes[change] for change in SAME}
        assert by_rows[1:] == sorted([{changes[change]} for change in CHANGES], key=min)
        # without the extension the definitions of all are read
        conn.execute("DROP EXTENSION pgbillion_tables")
        assert groups(target, "model", list(names)) == by_rows
    tell(f"{len(CHANGES)} changes found, {len(SAME)} that change no definition")


def test_what_is_worded_otherwise_is_the_same(cluster: Cluster, database: str) -> None:
    """As a clone is, or what pg_restore has made; in a group with other differences, too."""
    target = Target(cluster.conninfo(database), "the test's")
    with target.connect() as conn:
        schemas.make_schema(conn, "model", schemas.WORDED)
        for name in ("alike", "changed"):
            assert one(conn, "SELECT pgbillion_tables.clone_schema('model', %s)::text", name) == name
        conn.execute("ALTER TABLE changed.t ADD CONSTRAINT more CHECK (kind IN ('a', 'c'))")
        conn.execute("ALTER TABLE alike.t ADD gone integer; ALTER TABLE alike.t DROP gone")
        for _ in range(2):
            outcome = diff.compare(target, "model", ["alike", "changed"], 1, observe=unseen)
            assert outcome.same == 1
            (group,) = outcome.groups
            assert [difference.what for difference in group.differences] == ["constraint more on t is too many"]
            conn.execute("DROP EXTENSION IF EXISTS pgbillion_tables")


def test_the_schema_s_own_name_is_none_and_another_s_is_one(cluster: Cluster, database: str) -> None:
    target = Target(cluster.conninfo(database), "the test's")
    commands = (
        "CREATE SEQUENCE s; CREATE TABLE t (a text DEFAULT '{0}.x', b bigint DEFAULT nextval('s'), \"it's\" integer,"
        " CHECK (\"it's\" <> 0 OR a <> 'it''s {0}.y' OR a IN ('::', '::regclass')));"
        " CREATE INDEX ON t ((a || '{0}.z'), \"it's\");"
        " CREATE POLICY own ON t USING (a = current_setting('{0}.who'));"
        " CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM {1}.t'"
    )
    # a string stays what it is: it may be the name of a setting; a function's body that names another schema is another
    named = {"one": ("one", "one"), "two": ("two", "two"), "three": ("one", "three"), "four": ("four", "one")}
    with target.connect() as conn:
        conn.execute("SET check_function_bodies = off")
        for name, places in named.items():
            schemas.make_schema(conn, name, commands.format(*places))
        found = groups(target, "one", ["two", "three", "four"])
        assert found == [{"three"}, {"four"}, {"two"}]
        rows = conn.execute(
            "SELECT count(DISTINCT fingerprint) FROM pgbillion_tables.schema_fingerprints("
            "ARRAY(SELECT oid FROM pg_namespace WHERE nspname = ANY (%s)))",
            [list(named)],
        ).fetchall()
        assert rows == [(3,)]
        conn.execute("DROP EXTENSION pgbillion_tables")
        assert groups(target, "one", ["two", "three", "four"]) == found


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        *(("string", one) for one in STRINGS),
        *(("text", one) for one in TEXTS),
        *(("comment", one) for one in COMMENTS),
    ],
)
def test_names_in_strings_and_in_texts(cluster: Cluster, database: str, kind: str, commands: str) -> None:
    target = Target(cluster.conninfo(database), "the test's")
    with target.connect() as conn:
        conn.execute("SET check_function_bodies = off")
        # the model's own name, the model's again, and its own
        for name, named in {"model": "model", "alike": "model", "own": "own"}.items():
            schemas.make_schema(conn, name, commands.format(named))
        wanted = {"string": [{"alike"}, {"own"}], "text": [{"own"}, {"alike"}], "comment": [{"alike", "own"}]}[kind]
        assert groups(target, "model", ["alike", "own"]) == wanted
        conn.execute("DROP EXTENSION pgbillion_tables")
        assert groups(target, "model", ["alike", "own"]) == wanted


def statements(target: Target, tenant: str, *, model: str = "model") -> list[str]:
    """What diff says makes a schema like the model."""
    (group,) = diff.compare(target, model, [tenant], 1, observe=unseen).groups
    return [statement for difference in group.differences for statement in difference.statements]


def test_statements_make_a_tenant_as_it_should_be(cluster: Cluster, database: str, tell: Callable[[str], None]) -> None:
    """Each is run as it is shown: what it is about is then as in the model, and nothing else has changed."""
    target = Target(cluster.conninfo(database), "the test's")
    shown = 0
    with target.connect() as conn:
        schemas.make_outside(conn)
        schemas.make_schema(conn, "acme", schemas.APPLICATION + MORE)
        assert one(conn, "SELECT pgbillion_tables.clone_schemas('acme', 'change_%%03d', 0, %s)", len(CHANGES))
        oids = dict(conn.execute("SELECT nspname, oid::int8 FROM pg_namespace").fetchall())
        for number, change in enumerate(CHANGES):
            name = f"change_{number:03}"
            with conn.transaction():
                conn.execute(f"SET LOCAL search_path = {name}".encode())
                for statement in change.split("; "):
                    conn.execute(statement.encode())
        conn.execute("SET search_path = ''")
        wanted = diff.objects(conn, oids["acme"], "acme", "acme")
        outcome = diff.compare(target, "acme", [f"change_{n:03}" for n in range(len(CHANGES))], 2, observe=unseen)
        for group in outcome.groups:
            (name,) = group.tenants
            if group.untried is not None:
                assert "ALTER FUNCTION of_enum OWNER TO maker" in CHANGES[int(name.removeprefix("change_"))]
                continue
            before = diff.objects(conn, oids[name], name, "acme")
            proven = [difference for difference in group.differences if difference.statements]
            with conn.transaction(force_rollback=True):
                conn.execute(f"SET LOCAL search_path = {name}".encode())
                for difference in proven:
                    for statement in difference.statements:
                        conn.execute(statement.replace(":'schema'", name).encode())
                conn.execute("SET LOCAL search_path = ''")
                after = diff.objects(conn, oids[name], name, "acme")
            changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
            own = {key for key in changed if key[0].startswith("owner and grants")}
            assert all(after.get(key) == wanted.get(key) for key in changed - own), name
            assert bool(changed) == bool(proven)
            shown += len(proven)
    assert shown > 40
    tell(f"{shown} objects of {len(CHANGES)} made as they should be")


# what another schema has in the place of a part of the model
PRINTED = (
    # a literal that names the schema is what it is
    ("CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$select 'https://acme.com'$$", "DROP FUNCTION f()", "f()"),
    # a line feed ends a comment
    ("CREATE FUNCTION f(i int) RETURNS int LANGUAGE sql AS $$select i -- plus\n + 1$$", "DROP FUNCTION f(int)", "f(1)"),
    ("CREATE FUNCTION f() RETURNS text LANGUAGE sql RETURN E'l1\\nl2  l3'", "DROP FUNCTION f()", "f()"),
    (
        "CREATE TABLE t (a text DEFAULT 'acme.x  y'); CREATE FUNCTION f() RETURNS text LANGUAGE sql AS"
        " 'INSERT INTO t DEFAULT VALUES RETURNING a'",
        "ALTER TABLE t ALTER a DROP DEFAULT",
        "f()",
    ),
    ("CREATE FUNCTION f(a text DEFAULT E'x\\n SET search_path TO ''acme''\\n') RETURNS text LANGUAGE sql AS 'SELECT a'",
     "DROP FUNCTION f(text)", "f()"),
    ("CREATE SEQUENCE s;"
     " CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SET search_path = acme AS $$SELECT nextval('s')$$",
     "DROP FUNCTION f(); ALTER SEQUENCE s RESTART", "f()"),
)  # fmt: skip


@pytest.mark.parametrize(("commands", "drift", "call"), PRINTED)
def test_what_is_shown_does_what_the_model_does(
    cluster: Cluster, database: str, commands: str, drift: str, call: str
) -> None:
    target = Target(cluster.conninfo(database), "the test's")
    with target.connect() as conn:
        conn.execute("SET check_function_bodies = off")
        for name in ("acme", "acme_c"):
            schemas.make_schema(conn, name, commands.replace("= acme ", f"= {name} "))
        assert groups(target, "acme", ["acme_c"]) == [{"acme_c"}]
        conn.execute(f"SET search_path = acme_c; {drift}; SET search_path = ''".encode())
        shown = statements(target, "acme_c", model="acme")
        (migration,) = script.load([], [";\n".join(shown)])
        conn.execute("SET search_path = acme_c")
        conn.execute(migration.for_schema("acme_c").encode())
        results = []
        for name in ("acme", "acme_c"):
            conn.execute(f"SET search_path = {name}".encode())
            results.append(one(conn, f"SELECT {call}"))
        assert results[0] == results[1]
        assert groups(target, "acme", ["acme_c"]) == [{"acme_c"}]


def test_what_was_not_tried_is_not_shown(cluster: Cluster, database: str) -> None:
    """A fix for a body that names the model would name it in the tenant; and code of others is not run."""
    target = Target(cluster.conninfo(database), "the test's")
    with target.connect() as conn:
        conn.execute("SET check_function_bodies = off")
        schemas.make_schema(
            conn,
            "acme",
            "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM acme.t';"
            "CREATE TABLE t (a integer); COMMENT ON TABLE t IS 'of acme.t'; CREATE INDEX i ON t (a);"
            " COMMENT ON INDEX i IS 'kept'",
        )
        schemas.make_schema(conn, "less", "")
        (group,) = diff.compare(target, "acme", ["less"], 1, observe=unseen).groups
        assert [(found.what, found.statements) for found in group.differences] == [
            ("table t is missing", ()),
            ("function f() is missing", ()),
            ("index i is missing", ()),
            ("comment index i is missing", ()),
            ("comment table t is missing", ()),
        ]
        # an index that is made anew would lose its comment
        schemas.make_schema(
            conn,
            "other",
            "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM other.t';"
            "CREATE TABLE t (a integer, b integer); COMMENT ON TABLE t IS 'of acme.t'; CREATE INDEX i ON t (a DESC);"
            " COMMENT ON INDEX i IS 'kept'",
        )
        assert statements(target, "other", model="acme") == ["ALTER TABLE t DROP COLUMN b"]
        conn.execute("CREATE ROLE eve")
        try:
            conn.execute("GRANT CREATE ON SCHEMA other TO eve")
            (group,) = diff.compare(target, "acme", ["other"], 1, observe=unseen).groups
            assert group.untried is not None
            assert "can have code in other" in group.untried
            assert not any(found.statements for found in group.differences)
            assert one(conn, "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^pgbillion_diff'") == 0
        finally:
            conn.execute("DROP OWNED BY eve; DROP ROLE eve")


def test_statements_are_tried_as_the_owner_and_no_more(cluster: Cluster, database: str) -> None:
    """Its code cannot become the superuser who compares."""
    target = Target(cluster.conninfo(database), "the test's")
    with target.connect() as conn:
        conn.execute("CREATE ROLE eve")
        try:
            trap = (
                "CREATE FUNCTION trap(text) RETURNS text IMMUTABLE LANGUAGE plpgsql AS $$ BEGIN"
                " EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE eve SUPERUSER'; RETURN $1;"
                " EXCEPTION WHEN OTHERS THEN RETURN current_user; END $$;"
                "CREATE TABLE t (a text); CREATE INDEX ON t (trap('x'))"
            )
            schemas.make_schema(conn, "model", "CREATE TABLE t (a text, b text)")
            schemas.make_schema(conn, "acme", "")
            conn.execute("ALTER SCHEMA acme OWNER TO eve; SET ROLE eve; SET search_path = acme")
            conn.execute(trap)
            conn.execute("RESET ROLE; SET search_path = ''")
            (group,) = diff.compare(target, "model", ["acme"], 1, observe=unseen).groups
            assert group.untried is None
            assert any("ADD COLUMN b" in one for found in group.differences for one in found.statements)
            assert not one(conn, "SELECT rolsuper FROM pg_roles WHERE rolname = 'eve'")
        finally:
            conn.execute("DROP OWNED BY eve CASCADE; DROP ROLE eve")


def test_a_difference_is_seen_in_what_is_shown(cluster: Cluster, database: str) -> None:
    """However long the two texts are, and whatever white space it is in."""
    target = Target(cluster.conninfo(database), "the test's")
    long = "SELECT 'x'" + " || 'x'" * 100
    with target.connect() as conn:
        for name, bodies in {
            "model": (long + " || 'y'", "SELECT 1"),
            "acme": (long + " || 'z'", "SELECT  1\n"),
        }.items():
            schemas.make_schema(
                conn,
                name,
                f"CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $${bodies[0]}$$;"
                f"CREATE FUNCTION g() RETURNS integer LANGUAGE sql AS $${bodies[1]}$$",
            )
        (group,) = diff.compare(target, "model", ["acme"], 1, observe=unseen).groups
    for found in group.differences:
        is_, should_be = found.what.split(", should be ")
        assert is_.split(" is ", 1)[1] != should_be
        assert "\n" not in found.what


# of a schema whose fingerprint does not tell all
DEFINED = (
    "ALTER OPERATOR === (mood, mood) SET (RESTRICT = NONE)",
    "ALTER OPERATOR |? (NONE, mood) OWNER TO maker",
    'ALTER COLLATION "Mine" OWNER TO reader',
    'ALTER TEXT SEARCH DICTIONARY "It\'s" (ACCEPT = true)',
    "ALTER TEXT SEARCH CONFIGURATION plain DROP MAPPING FOR url",
    "ALTER TEXT SEARCH CONFIGURATION plain ALTER MAPPING FOR word WITH stems",
    "COMMENT ON COLLATION \"Mine\" IS 'another'",
)


def test_operators_collations_and_text_search(cluster: Cluster, database: str) -> None:
    target = Target(cluster.conninfo(database), "the test's")
    names = [f"change_{number}" for number in range(len(DEFINED) + 2)]
    with target.connect() as conn:
        schemas.make_schema(conn, "model", schemas.KINDS["operators"])
        assert one(conn, "SELECT pgbillion_tables.clone_schemas('model', 'change_%%d', 0, %s)", len(names))
        for name, change in zip(names, DEFINED, strict=False):
            conn.execute(f"SET search_path = {name}; {change}".encode())
        conn.execute("RESET search_path")
        found = groups(target, "model", names)
        assert found == [set(names[-2:]), *({name} for name in names[:-2])]


def test_relations_of_an_unknown_kind(cluster: Cluster, database: str) -> None:
    """A later major version's, about which nothing is known, are never taken for the same."""
    target = Target(cluster.conninfo(database), "the test's")
    with target.connect() as conn:
        for name in ("model", "acme", "bolt"):
            schemas.make_schema(conn, name, "CREATE VIEW g AS SELECT 1 AS one")
        assert groups(target, "model", ["acme", "bolt"]) == [{"acme", "bolt"}]
        conn.execute(
            "SET allow_system_table_mods = on; UPDATE pg_class SET relkind = 'g' WHERE relname = 'g' AND relkind = 'v'"
        )
        assert groups(target, "model", ["acme", "bolt"]) == [set(), {"acme"}, {"bolt"}]
        conn.execute("UPDATE pg_class SET relkind = 'v' WHERE relkind = 'g'; DROP SCHEMA model, acme, bolt CASCADE")
