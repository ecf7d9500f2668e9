"""The sign-up of Rails, by the statement that docs/frameworks.md has."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from harness import servers
from harness.frameworks import block, same
from harness.servers import one
from pgbillion.server.postgres import Cluster


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "frameworks") as made:
        yield made


def test_rails_statement(cluster: Cluster, database: str) -> None:
    """What its adapter would send."""
    program = block("ruby", "PostgresqlSchemaAdapter")
    (clone,) = re.findall(r'execute\("(.*)"\)', program)
    with cluster.connect(database) as conn:
        conn.execute(
            "CREATE SCHEMA model;"
            "CREATE TABLE model.schema_migrations (version character varying NOT NULL PRIMARY KEY);"
            "CREATE TABLE model.ar_internal_metadata (key character varying NOT NULL PRIMARY KEY,"
            " value character varying, created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL);"
            "CREATE TABLE model.users (id bigserial PRIMARY KEY, email character varying);"
            "INSERT INTO model.schema_migrations VALUES ('20260101000000'), ('20260102000000');"
            "INSERT INTO model.ar_internal_metadata VALUES ('environment', 'test', now(), now())"
        )
        conn.execute(clone.replace("#{conn.quote(tenant)}", "'tenant_1'").encode())
        conn.execute("SET search_path = tenant_1, public")
        for name in ("schema_migrations", "ar_internal_metadata"):
            assert conn.execute(f"TABLE tenant_1.{name}".encode()).fetchall() == (
                conn.execute(f"TABLE model.{name}".encode()).fetchall()
            )
        assert one(conn, "INSERT INTO users (email) VALUES ('a') RETURNING id") == 1
    same(cluster, database, "model", "tenant_1")
