"""What clones can be asked for: texts of functions that name them, and their template's publications."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest
from psycopg import sql

from harness import schema_rows
from harness.catalogs import Catalogs
from harness.clones import clone, prepare, reasons, same
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import diff

pytestmark = pytest.mark.majors


# what is said of a body: what becomes of it in the clone, or None if it stays
BODIES = {
    "SELECT count(*) FROM model.t": "SELECT count(*) FROM {}.t",
    "SELECT count(*) FROM model.t JOIN model.t AS u USING (i), remodel.x, model_2.y, model$.z":
        "SELECT count(*) FROM {0}.t JOIN {0}.t AS u USING (i), remodel.x, model_2.y, model$.z",
    "SELECT 1 -- as model.t does\n": "SELECT 1 -- as {}.t does\n",
    "SELECT /* model.t /* model.u */ */ model.f(1)": "SELECT /* {0}.t /* {0}.u */ */ {0}.f(1)",
    "SELECT 1 -- \"model.t\n": None,
    "SELECT 1 -- it's remodel.t and x.model.t\n FROM model.t": "SELECT 1 -- it's remodel.t and x.model.t\n FROM {}.t",
    "SELECT 'model.t', model.f('it''s model.t')": "SELECT 'model.t', {}.f('it''s model.t')",
    "SELECT E'\\'model.t', model.f(E'a\\\\')": "SELECT E'\\'model.t', {}.f(E'a\\\\')",
    "SELECT E'a' -- and\n '\\'model.t', model.f()": "SELECT E'a' -- and\n '\\'model.t', {}.f()",
    "SELECT 'a' '\\', model.f(1)": "SELECT 'a' '\\', {}.f(1)",
    "SELECT U&'model.t\\0041', model.f(1)": "SELECT U&'model.t\\0041', {}.f(1)",
    "SELECT $q$ model.t $$ $q$, $$model.t$$, model.f($1)": "SELECT $q$ model.t $$ $q$, $$model.t$$, {}.f($1)",
    "SELECT a$q$, model.f(1), b$q$": "SELECT a$q$, {}.f(1), b$q$",
    "SELECT \"model.t\", \"a\"\"model\", model.f(1)": "SELECT \"model.t\", \"a\"\"model\", {}.f(1)",
    "SELECT 1 OPERATOR(model.+) 2 operator ( model.* ) 3": "SELECT 1 OPERATOR({0}.+) 2 operator ( {0}.* ) 3",
    "DECLARE a model.t.i%TYPE; b model.t%ROWTYPE; BEGIN END": "DECLARE a {0}.t.i%TYPE; b {0}.t%ROWTYPE; BEGIN END",
    "SELECT array_agg(i)[1:model.f(1)] FROM model . t": None,
    "SELECT 1 FROM model.  t": "SELECT 1 FROM {}.  t",
    # it may be something else's name
    "SELECT model.i FROM model.t AS model": None,
    "SELECT model.i FROM model.t MODEL": None,
    "SELECT model.i FROM model.model": None,
    "SELECT model.* FROM model.t": None,
    "SELECT model.i, c.model FROM model.t": None,
    "DECLARE model record; BEGIN model.a := 1; END": None,
    "<<model>> DECLARE a integer; BEGIN model.a := 1; END": None,
    "SELECT 1 FROM MODEL.t, model.t": None,
    "SELECT 1 FROM \"model\".t, model.t": None,
    "SELECT 1 FROM U&\"mod\\0065l\".t, model.t": None,
    "SELECT 1 FROM one.model.t": None,
    "BEGIN FOR i IN 1..model.f(1) LOOP NULL; END LOOP; END": None,
    "SET search_path = model": None,
    # nor anything that could not be read to its end
    "SELECT 1 /* model.t": "SELECT 1 /* {}.t",
    "SELECT 'model.t": None,
    "SELECT $a$ model.t": None,
    "SELECT \"model.t": None,
}  # fmt: skip


WORD = r"(?<![\w$])model(?![\w$])"


def bodies(conn: Connection, schema: str) -> dict[str, str]:
    found = conn.execute(
        "SELECT proname::text, prosrc FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%s))", [schema]
    )
    return {str(name): str(body) for name, body in found.fetchall()}


def notices(conn: Connection) -> list[str]:
    told: list[str] = []
    conn.add_notice_handler(lambda diagnosis: told.append(diagnosis.message_primary or ""))
    return told


@pytest.fixture
def model(conn: Connection) -> Iterator[None]:
    """Nothing of another test's under the names used here."""
    drop = "DROP SCHEMA IF EXISTS model, tenant, by_hand CASCADE"
    conn.execute(f"{drop}; SET check_function_bodies = off")
    yield
    conn.execute(drop)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("language", ["sql", "plpgsql"])
def test_bodies_are_rewritten_where_they_name_the_template(conn: Connection, language: str) -> None:
    conn.execute("CREATE SCHEMA model")
    for number, body in enumerate(BODIES):
        command = "CREATE FUNCTION model.{}() RETURNS integer LANGUAGE {} AS {}"
        conn.execute(sql.SQL(command).format(sql.Identifier(f"f{number:02}"), sql.Identifier(language), body))
    name = "The \"tenant's"
    told = notices(conn)
    with conn.transaction(force_rollback=True):
        conn.execute("SELECT pgbillion_tables.clone_schema('model', %s, rewrite_bodies => true)", [name])
        found = bodies(conn, name)
    wanted = {
        f"f{number:02}": body if there is None else there.format('"The ""tenant\'s"')
        for number, (body, there) in enumerate(BODIES.items())
    }
    assert found == wanted
    (notice,) = told
    still = [f"{f}()" for f, body in sorted(wanted.items()) if re.search(WORD, body)]
    assert notice.rpartition(": ")[2].split(", ") == still


NAMED = """
    CREATE TABLE t (i integer);
    CREATE FUNCTION f(integer) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM model.t WHERE i > $1';
    CREATE FUNCTION g() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = model, pg_temp
        SET work_mem = '1MB' AS $$BEGIN INSERT INTO model.t VALUES (model.f(1)); RETURN NEW; END$$;
    CREATE FUNCTION c(text) RETURNS text LANGUAGE internal SET search_path TO "a b", model AS 'textin';
    CREATE PROCEDURE p(model integer) LANGUAGE sql AS 'INSERT INTO model.t VALUES (1)';
    CREATE FUNCTION model() RETURNS integer LANGUAGE sql AS 'SELECT model.a FROM t';
    CREATE FUNCTION given(OUT model t) LANGUAGE plpgsql AS 'BEGIN model.i := 1; END';
    CREATE FUNCTION s() RETURNS integer LANGUAGE sql SET standard_conforming_strings = on AS 'SELECT model.f(1)';
    CREATE FUNCTION long() RETURNS integer LANGUAGE sql AS $$SELECT model.f(1) -- """ + "never the same " * 300 + """$$;
    CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW WHEN (false) EXECUTE FUNCTION g();
    CREATE FUNCTION nothing() RETURNS integer LANGUAGE sql SET work_mem = '1MB' AS 'SELECT 1';
"""  # fmt: skip


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("name_format", ["tenant_%d", "The tenant %d", "wide_%058d"])
def test_stamped_clones_name_themselves(
    cluster: Cluster, database: str, conn: Connection, catalogs: Catalogs, name_format: str
) -> None:
    conn.execute(f"CREATE SCHEMA model; SET search_path = model; {NAMED}; RESET search_path".encode())
    told = reasons(conn)
    names = ["by_hand", *(name_format % number for number in (98, 99, 100, 101))]
    with conn.transaction(force_rollback=True):
        conn.execute("SELECT pgbillion_tables.clone_schemas('model', %s, 98, 4, rewrite_bodies => true)", [name_format])
        # not from what has been kept
        conn.execute("DELETE FROM pgbillion_tables.prepared_clones")
        conn.execute("SELECT pgbillion_tables.clone_schema('model', 'by_hand', rewrite_bodies => true)")
        assert told == []
        for name in names:
            quoted = one(conn, "SELECT quote_ident(%s)", name)
            found = bodies(conn, name)
            assert found["f"] == f"SELECT count(*) FROM {quoted}.t WHERE i > $1"
            assert found["p"] == "INSERT INTO model.t VALUES (1)"
            assert found["model"] == "SELECT model.a FROM t"
            assert found["given"] == "BEGIN model.i := 1; END"
            assert found["s"] == "SELECT model.f(1)"
            assert found["long"] == bodies(conn, "model")["long"].replace("model", str(quoted))
            settings = conn.execute(
                "SELECT proconfig FROM pg_proc WHERE pronamespace = to_regnamespace(%s) AND proname IN ('c', 'g')"
                " ORDER BY proname",
                [quoted],
            ).fetchall()
            assert settings == [
                ([f'search_path="a b", {quoted}'],),
                ([f"search_path={quoted}, pg_temp", "work_mem=1MB"],),
            ]
            if " " not in name:
                same(
                    schema_rows.rows(conn, catalogs, name, trees=False),
                    schema_rows.rows(conn, catalogs, "by_hand", trees=False),
                )
            conn.execute(sql.SQL("INSERT INTO {}.t VALUES (2)").format(sql.Identifier(name)))
            assert one(conn, f"SELECT {quoted}.f(1)") == 1
        assert one(conn, "SELECT model.f(1)") == 0


@pytest.mark.usefixtures("model")
def test_parts_of_a_column_are_not_taken_for_tables(conn: Connection) -> None:
    """One of the same name as the schema: in SET its part is named as a table would be."""
    conn.execute(
        "CREATE SCHEMA model; CREATE TYPE model.pair AS (i integer); CREATE TABLE model.t (model model.pair);"
        "CREATE FUNCTION model.f() RETURNS void LANGUAGE sql AS 'UPDATE t SET model.i = 1'"
    )
    told = notices(conn)
    conn.execute("SELECT pgbillion_tables.clone_schema('model', 'tenant', rewrite_bodies => true)")
    assert bodies(conn, "tenant") == {"f": "UPDATE t SET model.i = 1"}
    assert [notice.rpartition(": ")[2] for notice in told] == ["f()"]
    conn.execute("ALTER TABLE model.t RENAME COLUMN model TO other; DROP SCHEMA tenant CASCADE")
    conn.execute("SELECT pgbillion_tables.clone_schema('model', 'tenant', rewrite_bodies => true)")
    assert bodies(conn, "tenant") == {"f": "UPDATE t SET tenant.i = 1"}


@pytest.mark.usefixtures("model")
def test_rewritten_clones_are_the_template_to_diff(cluster: Cluster, database: str, conn: Connection) -> None:
    conn.execute(f"CREATE SCHEMA model; SET search_path = model; {NAMED}".encode())
    # these stay, and are another's then
    conn.execute("DROP FUNCTION s, model, given; DROP PROCEDURE p; RESET search_path")
    oids = "SELECT array_agg(oid::int8) FROM pg_namespace WHERE nspname ~ '^(model|tenant_[0-9])$'"
    fingerprints = "SELECT count(DISTINCT fingerprint) FROM pgbillion_tables.schema_fingerprints(%s::oid[])"
    try:
        many = "SELECT pgbillion_tables.clone_schemas('model', %s, 1, 3, rewrite_bodies => true)"
        assert one(conn, many, "tenant_%d") == 3
        assert one(conn, fingerprints, one(conn, oids)) == 1
        target = Target(cluster.conninfo(database), "the test's")
        tenants = [f"tenant_{number}" for number in (1, 2, 3)]
        found = diff.compare(target, "model", tenants, 1, observe=lambda total: nullcontext(lambda done: None))
        assert (found.same, found.groups) == (3, [])
    finally:
        conn.execute("DROP SCHEMA IF EXISTS tenant_1, tenant_2, tenant_3 CASCADE")


@pytest.mark.usefixtures("model")
def test_what_is_prepared_is_for_the_same_option(cluster: Cluster, database: str, conn: Connection) -> None:
    conn.execute(f"CREATE SCHEMA model; SET search_path = model; {NAMED}; RESET search_path".encode())
    assert prepare(conn, "model")
    assert one(conn, "SELECT pgbillion_tables.prepare_clone('model', rewrite_bodies => true)")
    kept = "SELECT count(*) FROM pgbillion_tables.prepared_clones WHERE template = 'model'::regnamespace"
    assert one(conn, kept) == 2
    with cluster.connect(database) as other:
        other.execute("SET quote_all_identifiers = on")
        for option, body in (("true", "tenant.f(1)"), ("false", "model.f(1)")):
            told = notices(other)
            with other.transaction(force_rollback=True):
                other.execute(
                    f"SELECT pgbillion_tables.clone_schema('model', 'tenant', rewrite_bodies => {option})".encode()
                )
                assert bodies(other, "tenant")["long"].startswith(f"SELECT {body}")
                made = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'AccessExclusiveLock'"
                assert one(other, f"{made} AND relation = 'tenant.t'::regclass") == 0
            assert len(told) == 1
            assert ("f(integer)" in told[0]) == (option == "false")


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("name", ["loop", "a*/b", "a\nb"])
def test_a_name_that_no_text_can_have_is_refused(conn: Connection, name: str) -> None:
    conn.execute("CREATE SCHEMA model")
    with pytest.raises(psycopg.errors.InvalidName, match="the text of functions cannot have schema"):
        conn.execute("SELECT pgbillion_tables.clone_schema('model', %s, rewrite_bodies => true)", [name])
    with pytest.raises(psycopg.errors.InvalidName, match='cannot have schema "begin"'):
        conn.execute("SELECT pgbillion_tables.clone_schemas('model', %s, 12, 4, rewrite_bodies => true)", ["b%xgin"])
    # from 19 on, nobody can set it
    if conn.info.server_version < 190000:
        conn.execute("SET standard_conforming_strings = off")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="standard_conforming_strings"):
            conn.execute("SELECT pgbillion_tables.clone_schema('model', 'tenant', rewrite_bodies => true)")
        conn.execute("RESET standard_conforming_strings")


PUBLISHED = """
    CREATE TABLE a (i integer PRIMARY KEY, "T" text, dropped text, other integer);
    ALTER TABLE a DROP COLUMN dropped;
    CREATE TABLE b (i integer) INHERITS (a);
    CREATE TABLE c (i integer PRIMARY KEY) PARTITION BY LIST (i);
    CREATE TABLE c1 PARTITION OF c FOR VALUES IN (1);
    CREATE TABLE none (i integer);
"""


@pytest.mark.usefixtures("model")
def test_a_clone_joins_publications_where_asked(cluster: Cluster, database: str, conn: Connection) -> None:
    conn.execute(f"CREATE SCHEMA model; SET search_path = model; {PUBLISHED}; RESET search_path".encode())
    conn.execute(
        'CREATE PUBLICATION "One" FOR TABLE ONLY model.a (i, "T") WHERE (i > 1 AND "T" <> \'x\'), model.c;'
        "CREATE PUBLICATION two FOR TABLES IN SCHEMA model; CREATE PUBLICATION every FOR ALL TABLES;"
        "CREATE PUBLICATION other FOR TABLES IN SCHEMA pgbillion_tables"
    )
    # of a schema and its parts, without the schema's name
    published = (
        "SELECT p.pubname::text, c.relname::text, r.prattrs::text, pg_get_expr(r.prqual, r.prrelid)"
        " FROM pg_publication_rel r"
        " JOIN pg_class c ON c.oid = r.prrelid JOIN pg_publication p ON p.oid = r.prpubid"
        " WHERE c.relnamespace = %s::regnamespace UNION ALL SELECT p.pubname, NULL, NULL, NULL"
        " FROM pg_publication_namespace n JOIN pg_publication p ON p.oid = n.pnpubid WHERE n.pnnspid = %s::regnamespace"
        " ORDER BY 1, 2"
    )

    def of(schema: str) -> list[tuple[Any, ...]]:
        return conn.execute(published, [schema, schema]).fetchall()

    try:
        assert [row[:2] for row in of("model")] == [("One", "a"), ("One", "c"), ("two", None)]
        for prepared in (False, True):
            if prepared:
                assert prepare(conn, "model")
            with conn.transaction(force_rollback=True):
                conn.execute("SELECT pgbillion_tables.clone_schema('model', 'tenant', join_publications => true)")
                found = of("tenant")
                assert [(*row[:2], row[3]) for row in found] == [(*row[:2], row[3]) for row in of("model")]
                # by the columns' numbers in the clone
                assert [row[2] for row in found] == ["1 2", None, None]
        with conn.transaction(force_rollback=True):
            many = "SELECT pgbillion_tables.clone_schemas('model', 'tenant_%s', 1, 4, join_publications => true)"
            conn.execute((many % "%d").encode())
            assert of("tenant_4") == of("tenant_1") != []
        with conn.transaction(force_rollback=True):
            clone(conn, "model", "tenant")
            assert of("tenant") == []
    finally:
        conn.execute('DROP PUBLICATION "One", two, other, every')


@pytest.mark.usefixtures("model")
def test_who_may_not_change_a_publication_joins_none(conn: Connection) -> None:
    conn.execute("CREATE SCHEMA model; CREATE TABLE model.a (i integer PRIMARY KEY); ALTER SCHEMA model OWNER TO maker")
    conn.execute("ALTER TABLE model.a OWNER TO maker; CREATE PUBLICATION one FOR TABLE model.a")
    conn.execute(f"GRANT CREATE ON DATABASE {conn.info.dbname} TO maker".encode())
    functions = "clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean)"
    conn.execute(f"GRANT EXECUTE ON FUNCTION pgbillion_tables.{functions} TO maker".encode())
    call = "SELECT pgbillion_tables.clone_schema('model', 'tenant', join_publications => true)"
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("SET LOCAL ROLE maker")
            clone(conn, "model", "mine")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="publication one"), conn.transaction():
                conn.execute(call.encode())
            conn.execute("RESET ROLE; ALTER PUBLICATION one OWNER TO maker; SET LOCAL ROLE maker")
            conn.execute(call.encode())
            assert one(conn, "SELECT count(*) FROM pg_publication_tables WHERE schemaname = 'tenant'") == 1
            # for whole schemas one needs to be a superuser
            conn.execute("RESET ROLE; ALTER PUBLICATION one ADD TABLES IN SCHEMA model; SET LOCAL ROLE maker")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be superuser"), conn.transaction():
                conn.execute(call.replace("'tenant'", "'another'").encode())
    finally:
        conn.execute(f"REVOKE ALL ON FUNCTION pgbillion_tables.{functions} FROM maker".encode())
        conn.execute(f"REVOKE CREATE ON DATABASE {conn.info.dbname} FROM maker; DROP PUBLICATION one".encode())
