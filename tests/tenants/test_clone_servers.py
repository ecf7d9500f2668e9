"""Clones of schemas and other servers: a physical standby has them, and logical replication treats them as DDL's."""

from __future__ import annotations

import pytest
from psycopg import errors

from harness import invariants, schema_rows, schemas, servers
from harness import standby as physical
from harness.catalogs import Catalogs
from harness.clones import dump, same, some
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Installation

TEMPLATES = ("application", "partitions", "constraints", "storage", "rules", "privileges")
METHODS = ("heap", "lazy_heap")
CLONES = 4  # of which two are by commands, unless a stamp is kept
SIGN_UP = "INSERT INTO customer (name) VALUES ('x'); INSERT INTO invoice (customer, net) SELECT id, 7 FROM customer"


@pytest.mark.parametrize("level", ["replica", "logical"])
def test_a_standby_has_the_clones(installation: Installation, level: str) -> None:
    with servers.new_cluster(installation, {"wal_level": level}) as primary, physical.standby(primary) as standby:
        with primary.connect() as conn:
            servers.make_shared_objects(conn)
            conn.execute("CREATE DATABASE work")
        with primary.connect("work") as conn:
            schemas.make_outside(conn)
            for name in TEMPLATES:
                schemas.make_schema(conn, name, schemas.KINDS[name])
            with standby.connect() as first:
                physical.replayed(conn, first)
            with standby.connect("work") as there:
                clones = _clone(conn)
                physical.replayed(conn, there)
                catalogs = Catalogs.load(there)
                for template, name in clones:
                    same(_rows(there, catalogs, name), _rows(conn, catalogs, name))
                    if name.endswith(("_2", "_3")):
                        same(_rows(there, catalogs, name), _rows(there, catalogs, f"{template}_heap_1"))
                assert invariants.index_errors(there, parents=False) == []
                assert invariants.reference_errors(there) == []
                # with and without a file
                for method in METHODS:
                    assert one(there, f"SELECT count(*) FROM application_{method}_3.customer") == 1
                    assert one(there, f"SELECT count(*) FROM application_{method}_4.invoice") == 0
                    assert one(there, f"SELECT sum(total) FROM application_{method}_3.unpaid") is not None
                assert dump(standby, "work", "application_lazy_heap_4") == dump(
                    primary, "work", "application_lazy_heap_4"
                )
                with pytest.raises(errors.ReadOnlySqlTransaction):
                    some(there, "application", "x%d", 1, 3)
                assert one(there, "SELECT pg_promote()")
                primary.stop()
                for template, name in clones:
                    if template == "application" and name[-1] != "3":
                        there.execute(f"SET search_path = {name}; {SIGN_UP}")
                        assert one(there, "SELECT count(*) FROM log") == 1
                there.execute("RESET search_path")
                some(there, "application", "later_%d", 1, 3)
                same(_rows(there, catalogs, "later_3"), _rows(there, catalogs, "application_heap_1"))


def _clone(conn: Connection) -> list[tuple[str, str]]:
    clones = []
    for template in TEMPLATES:
        for method in METHODS:
            called = "SELECT pgbillion_tables.clone_schemas(%s::regnamespace, %s, 1, %s, %s)"
            for end in ("ROLLBACK", "COMMIT"):
                conn.execute("BEGIN")
                one(conn, called, template, f"{template}_{method}_%d", CLONES, method)
                conn.execute(end)
            clones += [(template, f"{template}_{method}_{n}") for n in range(1, CLONES + 1)]
    for method in METHODS:
        conn.execute(f"SET search_path = application_{method}_3; {SIGN_UP}; RESET search_path")
    return clones


def _rows(conn: Connection, catalogs: Catalogs, schema: str) -> list[str]:
    # whether a table is lazy is a difference between clones of both methods, and a first row's
    return [
        row
        for row in schema_rows.rows(conn, catalogs, schema, trees=False)
        if not row.startswith(("pg_class", "pg_depend", "pg_shdepend"))
    ]


PUBLISHED = """
    CREATE TYPE state AS ENUM ('new', 'done');
    CREATE TABLE a (id integer PRIMARY KEY, s state DEFAULT 'done');
    CREATE TABLE b (id integer PRIMARY KEY, a integer REFERENCES a, note text DEFAULT repeat('x', 3000));
    CREATE TABLE p (id integer PRIMARY KEY) PARTITION BY LIST (id);
    CREATE TABLE p_rest PARTITION OF p DEFAULT;
"""


def test_clones_beside_logical_replication(installation: Installation) -> None:
    """Rows of clones arrive where all tables are published, and nowhere else; those of schemas made by DDL, too."""
    settings = {"wal_level": "logical", "logical_decoding_work_mem": "64kB", "wal_retrieve_retry_interval": "100ms"}
    # since 18 large transactions are applied by workers of their own
    settings |= {"max_logical_replication_workers": "12", "max_worker_processes": "24"}
    # two clusters: to make a slot is to wait for the transactions of the publisher's, and a subscriber has its own open
    with servers.new_cluster(installation, settings) as publisher, servers.new_cluster(installation, settings) as other:
        for cluster, database in ((publisher, "publisher"), (other, "everything"), (other, "the_model")):
            with cluster.connect() as conn:
                conn.execute(f"CREATE DATABASE {database}".encode())
        with (
            publisher.connect("publisher") as here,
            other.connect("everything") as everything,
            other.connect("the_model") as the_model,
        ):
            for one_of in (here, everything, the_model):
                schemas.make_schema(one_of, "model", PUBLISHED)
            here.execute("CREATE PUBLICATION everything FOR ALL TABLES")
            here.execute("CREATE PUBLICATION the_model FOR TABLES IN SCHEMA model")
            for name, there in (("everything", everything), ("the_model", the_model)):
                source = f"CONNECTION '{publisher.conninfo('publisher')}' PUBLICATION {name} WITH (copy_data = false)"
                there.execute(f"CREATE SUBSCRIPTION {name} {source}".encode())

            # what is published must be there
            for there in (everything, the_model):
                some(there, "model", "c%d", 1, 4)
                some(there, "model", "later%d", 1, 3)
                schemas.make_schema(there, "by_ddl", PUBLISHED)
            with here.transaction():
                some(here, "model", "c%d", 1, 4)
                schemas.make_schema(here, "by_ddl", PUBLISHED)
                _sign_up(here, 1)
            with here.transaction(force_rollback=True):
                some(here, "model", "gone%d", 1, 4)
                here.execute("INSERT INTO gone4.a VALUES (1)")
            for name, there in (("everything", everything), ("the_model", the_model)):
                there.execute(f"ALTER SUBSCRIPTION {name} REFRESH PUBLICATION".encode())
                _wait(there, "SELECT NOT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubstate <> 'r')")
            _sign_up(here, 2)
            some(here, "model", "later%d", 1, 3)
            here.execute("INSERT INTO later3.a VALUES (1); INSERT INTO model.p VALUES (99)")

            for there in (everything, the_model):
                _wait(there, "SELECT EXISTS (SELECT FROM model.p WHERE id = 99)")
            for name in ("model", "c1", "c4", "by_ddl"):
                for table in ("a", "b", "p"):
                    count = f"SELECT count(*) FROM {name}.{table} WHERE id < 9"
                    assert one(everything, count) == 2, (name, table)
                    assert one(the_model, count) == (2 if name == "model" else 0), (name, table)
            # a subscription knows of new tables when it is refreshed
            assert one(everything, "SELECT count(*) FROM later3.a") == 0
            of = "pg_subscription_rel JOIN pg_class c ON c.oid = srrelid"
            published = f"SELECT DISTINCT relnamespace::regnamespace::text FROM {of}".encode()
            assert the_model.execute(published).fetchall() == [("model",)]
            # the extension's own table is one of all
            names = {"model", "c1", "c2", "c3", "c4", "by_ddl", "pgbillion_tables"}
            assert {name for (name,) in everything.execute(published)} == names


def _sign_up(conn: Connection, number: int) -> None:
    for schema in ("model", "c1", "c4", "by_ddl"):
        conn.execute(f"INSERT INTO {schema}.a VALUES ({number}); INSERT INTO {schema}.p VALUES ({number})".encode())
        conn.execute(f"INSERT INTO {schema}.b VALUES ({number}, {number})".encode())


def _wait(conn: Connection, query: str) -> None:
    servers.until(lambda: one(conn, query), query)
