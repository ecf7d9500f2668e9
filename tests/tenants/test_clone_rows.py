"""clone_schema() with rows: those of the template at one moment, as they are, and nothing is run by them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from harness import schemas
from harness.clones import clone, prepare
from harness.servers import one
from harness.sessions import Running, until_blocked
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

pytestmark = pytest.mark.majors


# keys that are filled in both directions, triggers and generated columns that would tell, types of the schema's own
MODEL = """
    CREATE TYPE state AS ENUM ('new', 'paid');
    CREATE DOMAIN amount AS numeric(12,2) CHECK (VALUE >= 0);
    CREATE TYPE place AS (street text, at timestamptz, weight float8, was state);
    CREATE TABLE customer (
        id bigint GENERATED ALWAYS AS IDENTITY (START WITH 100) PRIMARY KEY, name text NOT NULL, best integer,
        country char(2) REFERENCES outside.country, referrer bigint REFERENCES customer, home place,
        "Odd ""1"" x" text[]);
    CREATE TABLE invoice (
        id serial PRIMARY KEY, customer bigint NOT NULL REFERENCES customer, state state[] DEFAULT '{new}',
        net amount, tax numeric GENERATED ALWAYS AS (net / 10) STORED, dropped integer, was customer,
        UNIQUE (net) DEFERRABLE);
    ALTER TABLE invoice DROP COLUMN dropped;
    ALTER TABLE customer ADD CONSTRAINT best FOREIGN KEY (best) REFERENCES invoice DEFERRABLE INITIALLY DEFERRED;
    CREATE TABLE log (what text);
    CREATE FUNCTION logged() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN EXECUTE format('INSERT INTO %I.log VALUES ($1)', TG_TABLE_SCHEMA) USING TG_WHEN; RETURN NEW; END $$;
    CREATE TRIGGER before BEFORE INSERT ON invoice FOR EACH ROW EXECUTE FUNCTION logged();
    CREATE TRIGGER after AFTER INSERT ON invoice REFERENCING NEW TABLE AS t
        FOR EACH STATEMENT EXECUTE FUNCTION logged();
    CREATE TRIGGER always BEFORE INSERT ON customer FOR EACH STATEMENT EXECUTE FUNCTION logged();
    ALTER TABLE customer ENABLE ALWAYS TRIGGER always;
    CREATE TABLE event (id integer, at date) PARTITION BY RANGE (at);
    CREATE TABLE event_old PARTITION OF event FOR VALUES FROM (MINVALUE) TO ('2020-01-01');
    CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2020-01-01') TO (MAXVALUE);
    CREATE TABLE parent (a integer); CREATE TABLE child (b integer) INHERITS (parent);
    CREATE TABLE nothing ();
    CREATE TABLE lazy (a integer PRIMARY KEY, b text) USING lazy_heap;
    CREATE MATERIALIZED VIEW totals AS SELECT count(*) FROM invoice;
    CREATE SEQUENCE number;
"""
FILLED = """
    SET session_replication_role = replica;
    INSERT INTO outside.country VALUES ('de');
    INSERT INTO model.customer (name, country, home, "Odd ""1"" x") VALUES
        ('a', 'de', ('it''s', '2020-01-02 03:04:05.678901+05', 0.1 + 0.2, 'paid'), '{"x,y",NULL}'),
        ('b', NULL, NULL, NULL);
    UPDATE model.customer SET referrer = 101 WHERE id = 100;
    INSERT INTO model.invoice (customer, net, state, was) SELECT 100, 50, '{paid,new}', c FROM model.customer c;
    INSERT INTO model.invoice (customer, net) VALUES (101, 0.5);
    UPDATE model.customer SET best = 2;
    INSERT INTO model.event VALUES (1, '2019-01-01'), (2, '2021-01-01');
    INSERT INTO model.parent VALUES (1); INSERT INTO model.child VALUES (2, 3);
    INSERT INTO model.nothing DEFAULT VALUES;
    INSERT INTO model.lazy VALUES (1, repeat('x', 100000));
    SELECT nextval('model.number') FROM generate_series(1, 7);
    RESET session_replication_role;
"""
TABLES = ("customer", "invoice", "event_old", "event_new", "parent", "child", "nothing", "lazy", "log", "totals")


@pytest.fixture(scope="module", autouse=True)
def model(cluster: Cluster, database: str) -> Iterator[None]:
    with cluster.connect(database) as conn:
        schemas.make_outside(conn)
        schemas.make_schema(conn, "model", MODEL.replace("(net) DEFERRABLE", "(id) DEFERRABLE"))
        conn.execute(FILLED.encode())
        conn.execute("REFRESH MATERIALIZED VIEW model.totals")
    yield
    with cluster.connect(database) as conn:
        conn.execute("DROP SCHEMA model CASCADE; DROP SCHEMA outside CASCADE")


def contents(conn: Connection, schema: str) -> dict[str, list[str]]:
    return {
        table: [row for (row,) in conn.execute(f"SELECT t::text FROM ONLY {schema}.{table} t ORDER BY 1".encode())]
        for table in TABLES
    }


def fill(conn: Connection, name: str, rows: str) -> None:
    assert one(conn, f"SELECT pgbillion_tables.clone_schema('model', %s, {rows})::text", name) == name


@pytest.mark.parametrize("prepared", [False, True])
def test_all_rows(conn: Connection, prepared: bool) -> None:
    with conn.transaction(force_rollback=True):
        if prepared:
            assert prepare(conn, "model")
        fill(conn, "tenant", "all_rows => true")
        made = contents(conn, "tenant")
        assert made == contents(conn, "model")
        assert [len(made[table]) for table in TABLES] == [2, 3, 1, 1, 1, 1, 1, 1, 1, 1]
        # the next numbers, of serial, identity and a sequence of nobody's
        assert one(conn, "INSERT INTO tenant.invoice (customer) VALUES (101) RETURNING id") == 4
        assert one(conn, "INSERT INTO tenant.customer (name) VALUES ('c') RETURNING id") == 102
        assert one(conn, "SELECT nextval('tenant.number')") == 8
        assert one(conn, "SELECT count(*) FROM tenant.log") == 1 + 3
        # the keys are those of the clone
        with pytest.raises(psycopg.errors.ForeignKeyViolation), conn.transaction():
            conn.execute("DELETE FROM tenant.invoice; SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(psycopg.errors.ForeignKeyViolation), conn.transaction():
            conn.execute("DELETE FROM outside.country")
        conn.execute("UPDATE tenant.customer SET best = NULL, referrer = NULL; DELETE FROM tenant.invoice")


def test_many_clones_with_rows(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        query = "SELECT pgbillion_tables.clone_schemas('model', 'tenant%d', 1, 4, 'lazy_heap', all_rows => true)"
        assert one(conn, query) == 4
        for number in range(1, 5):
            assert contents(conn, f"tenant{number}") == contents(conn, "model")


def test_rows_of_named_tables(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        fill(conn, "tenant", "rows => '{model.invoice, model.customer, model.event}'")
        made, wanted = contents(conn, "tenant"), contents(conn, "model")
        for table in ("customer", "invoice", "event_old", "event_new", "totals"):
            assert made[table] == wanted[table]
        for table in ("parent", "child", "nothing", "lazy"):
            assert made[table] == []
        assert one(conn, "INSERT INTO tenant.invoice (customer) VALUES (101) RETURNING id") == 4
        assert one(conn, "SELECT nextval('tenant.number')") == 1
        fill(conn, "empty", "rows => '{}'")
        assert {table: rows for table, rows in contents(conn, "empty").items() if rows} == {"totals": ["(0)"]}
        clone(conn, "model", "empty_too")
        assert contents(conn, "empty_too") == contents(conn, "empty")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("rows => '{model.invoice}'",
         "rows of table invoice cannot be copied: by invoice_customer_fkey they refer to those of customer,"
            " which are not copied"),
        ("rows => '{outside.country}'", 'outside.country is no table of template "model"'),
        ("rows => '{model.number}'", 'number is no table of template "model"'),
        ("rows => '{4711}'", '4711 is no table of template "model"'),
        ("rows => '{NULL}'", "rows must not contain null"),
        ("rows => '{model.event}', all_rows => true", "rows and all_rows exclude each other"),
        ("all_rows => true", "rows of table log cannot be copied: rule kept takes the place of INSERT"),
    ],
)  # fmt: skip
def test_what_cannot_be_copied_is_refused(conn: Connection, rows: str, message: str) -> None:
    with conn.transaction(force_rollback=True):
        if "all_rows" in rows and "event" not in rows:
            conn.execute("CREATE RULE kept AS ON INSERT TO model.log DO INSTEAD NOTHING")
        with pytest.raises(psycopg.Error) as refused, conn.transaction():
            fill(conn, "tenant", rows)
        assert refused.value.diag.message_primary == message
        assert one(conn, "SELECT to_regnamespace('tenant')") is None


def test_who_may_not_read_rows_may_not_copy_them(conn: Connection) -> None:
    functions = "clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean)"
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE ROLE copier")
        conn.execute(f"GRANT CREATE ON DATABASE {conn.info.dbname} TO copier".encode())
        conn.execute(f"GRANT EXECUTE ON FUNCTION pgbillion_tables.{functions} TO copier".encode())
        conn.execute("CREATE ROLE owner; GRANT owner TO copier")
        conn.execute("CREATE SCHEMA theirs AUTHORIZATION owner; CREATE TABLE theirs.a (who name, i serial)")
        conn.execute("ALTER TABLE theirs.a OWNER TO owner; INSERT INTO theirs.a VALUES ('copier'), ('owner')")

        def copy() -> None:
            conn.execute(
                "SET LOCAL ROLE copier; SELECT pgbillion_tables.clone_schema('theirs', 'tenant', all_rows => true)"
            )

        with conn.transaction(force_rollback=True):
            copy()
            assert one(conn, "SELECT count(*) FROM tenant.a") == 2
        # what row security hides is not left out in silence
        with conn.transaction(force_rollback=True):
            conn.execute("CREATE POLICY p ON theirs.a USING (who = current_user)")
            conn.execute("ALTER TABLE theirs.a ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security policy for table"):
                copy()
        with conn.transaction(force_rollback=True):
            conn.execute("REVOKE SELECT ON theirs.a FROM owner")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table a"):
                copy()
        with conn.transaction(force_rollback=True):
            conn.execute("REVOKE SELECT ON theirs.a_i_seq FROM owner")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for sequence a_i_seq"):
                copy()


def test_materialized_views_are_filled_as_without_rows(conn: Connection) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute("CREATE ROLE owner")
        schemas.make_schema(
            conn,
            "theirs",
            "CREATE TABLE a (i integer); INSERT INTO a VALUES (1), (2); CREATE POLICY p ON a USING (i = 1);"
            "CREATE MATERIALIZED VIEW m AS SELECT i FROM a; ALTER TABLE a OWNER TO owner;"
            "ALTER MATERIALIZED VIEW m OWNER TO owner;"
            "ALTER TABLE a ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; GRANT USAGE ON SCHEMA theirs TO owner",
        )
        assert one(conn, "SELECT pgbillion_tables.clone_schema('theirs', 'tenant', all_rows => true)::text") == "tenant"
        assert one(conn, "SELECT count(*) FROM tenant.a") == 2
        # its owner's query is under the policy
        assert one(conn, "SELECT array_agg(i) FROM tenant.m") == [1]


def test_rows_are_those_of_one_moment(cluster: Cluster, database: str, conn: Connection) -> None:
    with cluster.connect(database) as other, cluster.connect(database) as monitor:
        with conn.transaction(force_rollback=True):
            # whoever deletes what a foreign key refers to outside is waited for, whatever snapshot there is
            other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outside.country")
            other.execute("INSERT INTO model.customer (name, country) VALUES ('own', 'de')")
            conn.execute("DELETE FROM model.customer WHERE false; INSERT INTO outside.country VALUES ('xx')")
            running = Running(lambda: fill(other, "tenant", "all_rows => true"))
            until_blocked(monitor, other, running)
        running.result()
        assert one(other, "SELECT count(*) FROM tenant.customer WHERE name = 'own'") == 1
        other.execute("ROLLBACK")
        # in a snapshot of before it, which is not the one used, there is a row that refers to what is gone
        conn.execute("INSERT INTO outside.country VALUES ('zz')")
        conn.execute("INSERT INTO model.customer (name, country) VALUES ('z', 'zz')")
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outside.country")
        conn.execute("DELETE FROM model.customer WHERE name = 'z'; DELETE FROM outside.country WHERE code = 'zz'")
        fill(other, "tenant", "all_rows => true")
        assert one(other, "SELECT count(*) FROM tenant.customer WHERE country = 'zz'") == 0
        other.execute("ROLLBACK")
