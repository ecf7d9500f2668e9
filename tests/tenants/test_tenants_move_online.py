"""`pgbillion tenants move --online`: a tenant that clients write to, into another database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import schemas, servers
from harness.command_line import CommandLine, command_line
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster, Installation

OTHER = "elsewhere"
SETTINGS = {"wal_level": "logical", "max_connections": "60", "log_replication_commands": "on"}
TENANT = """
    CREATE TABLE a (i serial PRIMARY KEY, t text);
    CREATE TABLE b (a integer REFERENCES a, code char(2) REFERENCES outside.country);
    CREATE VIEW v AS TABLE a;
    CREATE MATERIALIZED VIEW m AS SELECT count(*) FROM a;
    CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS 'SELECT 1';
    INSERT INTO a (t) SELECT repeat('x', g) FROM generate_series(1, 200) g;
    INSERT INTO b SELECT i FROM a;
"""


@pytest.fixture(scope="module")
def logical(installation: Installation) -> Iterator[Cluster]:
    """A server that can replicate."""
    with servers.new_cluster(installation, SETTINGS) as cluster:
        with cluster.connect() as conn:
            servers.make_shared_objects(conn)
        yield cluster


@pytest.fixture
def cli(logical: Cluster) -> Iterator[CommandLine]:
    """Two databases with what is outside of tenants, one of which has a tenant; nothing is left of replication."""
    with (
        servers.new_database(logical, "tenants") as database,
        servers.new_database(logical, OTHER),
        command_line(logical, database) as made,
    ):
        with made.connect() as conn:
            schemas.make_outside(conn)
            schemas.make_schema(conn, "tenant", TENANT)
        with logical.connect(OTHER) as conn:
            schemas.make_outside(conn)
        yield made
        assert left(made) == []


def left(cli: CommandLine) -> list[str]:
    """What there is of replication in both databases."""
    query = (
        "SELECT 'publication ' || pubname FROM pg_publication UNION ALL SELECT 'slot ' || slot_name FROM"
        " pg_replication_slots UNION ALL SELECT 'subscription ' || subname FROM pg_subscription"
        " UNION ALL SELECT 'origin ' || roname FROM pg_replication_origin"
        " UNION ALL SELECT 'replica identity of ' || oid::regclass FROM pg_class WHERE relreplident = 'f'"
    )
    found = []
    for database in (cli.database, OTHER):
        with cli.cluster.connect(database) as conn:
            found += [what for (what,) in conn.execute(query)]
    return found


def target(cli: CommandLine, database: str | None = None) -> Target:
    return Target(cli.cluster.conninfo(database or cli.database), "the test's")


def has(conn: Connection, schema: str = "tenant") -> bool:
    return bool(one(conn, "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", schema))


def silent(line: str) -> None:
    pass


def test_a_moved_tenant_goes_on_where_it_was(cli: CommandLine) -> None:
    cli.run("tenants", "migrate", "tenant", "-c", "ALTER TABLE a ADD COLUMN c integer", check=True)
    done = cli.json("tenants", "move", "tenant", "--to", OTHER, "--online")
    assert (done["tables"], done["rows"], done["dropped"], done["kept"]) == (2, 400, False, "tenant_moved")
    with cli.connect() as conn, cli.cluster.connect(OTHER) as other:
        assert (has(conn), has(conn, "tenant_moved"), has(other)) == (False, True, True)
        assert one(other, "SELECT sum(length(t)) FROM tenant.v") == 200 * 201 / 2
        assert one(other, "INSERT INTO tenant.a (t) VALUES ('y') RETURNING i") == 201
        assert one(other, "SELECT count FROM tenant.m") == 200
        assert one(conn, "SELECT tenant FROM pgbillion_journal.migration") == "tenant_moved"
        assert one(other, "SELECT tenant FROM pgbillion_journal.migration") == "tenant"
