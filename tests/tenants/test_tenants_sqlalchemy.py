"""Sign-ups of SQLAlchemy, and revisions of Alembic in all tenants, as docs/frameworks.md has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import frameworks, servers
from harness.command_line import CommandLine, command_line
from harness.frameworks import block, same, tables
from pgbillion.server.postgres import Cluster

ALCHEMY = """
import enum, os
from sqlalchemy import (
    Column, Enum, ForeignKey, Identity, Index, Integer, MetaData, String, Table, create_engine, select,
)

metadata = MetaData()
class State(enum.Enum):
    new = 1
    done = 2
customer = Table("customer", metadata, Column("id", Integer, Identity(), primary_key=True),
                 Column("name", String(50), nullable=False, unique=True))
order = Table("order", metadata, Column("id", Integer, primary_key=True),
              Column("customer", ForeignKey("customer.id"), nullable=False),
              Column("state", Enum(State, name="state"), server_default="new"), Index("by_state", "state"))
url = f"postgresql+psycopg://postgres@/{os.environ['NAME']}?host={os.environ['HOST']}&port=5432"
"""
SIGN_UPS = """
engine = create_engine(url)
metadata.create_all(tenant(engine, "model"))
sign_up(engine, "tenant_1")
metadata.create_all(tenant(engine, "own"))
for name in ("tenant_1", "own"):
    with tenant(engine, name).begin() as connection:
        (key,) = connection.execute(customer.insert().values(name="a")).inserted_primary_key
        connection.execute(order.insert().values(customer=key))
        assert connection.execute(select(order.c.state).join(customer)).scalar_one() is State.new
"""
# what the second revision has
LATER = """
Index("by_name", customer.c.name, postgresql_where=customer.c.name > "a' \\\\ %")
customer.append_column(Column("email", String, server_default="a'b : %(x)s", nullable=False))
item = Table("item", metadata, Column("order", ForeignKey("order.id", ondelete="CASCADE"), primary_key=True),
             Column("n", Integer, Identity(always=True), primary_key=True))
"""


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "frameworks") as made:
        with cluster.connect(made) as conn:
            conn.execute("CREATE SCHEMA model; CREATE SCHEMA own")
        yield made


@pytest.fixture
def cli(cluster: Cluster, database: str) -> Iterator[CommandLine]:
    with command_line(cluster, database) as made:
        yield made


def test_sqlalchemy(cluster: Cluster, database: str, tmp_path: Path) -> None:
    program = block("python", "def sign_up") + ALCHEMY + SIGN_UPS
    frameworks.run([frameworks.python(), "-c", program], tmp_path, frameworks.environment(cluster, database))
    same(cluster, database, "own", "tenant_1")
    with cluster.connect(database) as conn:
        assert tables(conn, "own") == tables(conn, "tenant_1")


def test_alembic(cluster: Cluster, database: str, cli: CommandLine, tmp_path: Path) -> None:
    python, variables = frameworks.python(), frameworks.environment(cluster, database)
    variables["PYTHONPATH"] += f":{tmp_path}"
    application = tmp_path / "application.py"
    application.write_text(ALCHEMY)

    def alembic(*arguments: str) -> str:
        return frameworks.run([python, "-m", "alembic", *arguments], tmp_path, variables)

    alembic("init", "migrations")
    (tmp_path / "migrations" / "env.py").write_text(block("python", "is_offline_mode"))
    alembic("revision", "--autogenerate", "--rev-id", "0001", "-m", "first")
    alembic("upgrade", "head")
    sign_up = block("python", "def sign_up").replace(
        "('model', :name)", "('model', :name, rows => '{model.alembic_version}')"
    )
    program = (
        f"{sign_up}\nfrom application import *\nfor number in (1, 2): sign_up(create_engine(url), f'tenant_{{number}}')"
    )
    frameworks.run([python, "-c", program], tmp_path, variables)
    alembic("-x", "schema=own", "upgrade", "head")
    same(cluster, database, "own", "model", "tenant_1", "tenant_2")

    application.write_text(ALCHEMY + LATER)
    alembic("revision", "--autogenerate", "--rev-id", "0002", "-m", "second")
    migration = tmp_path / "0002.sql"
    migration.write_text(alembic("upgrade", "0001:0002", "--sql"))
    cli.run("tenants", "migrate", str(migration), "model|tenant_*", check=True)
    alembic("-x", "schema=own", "upgrade", "head")
    same(cluster, database, "own", "model", "tenant_1", "tenant_2")
    with cluster.connect(database) as conn:
        assert tables(conn, "tenant_2") == tables(conn, "own")
        assert tables(conn, "own")["alembic_version"] == [({"version_num": "0002"},)]
    assert "0002 (head)" in alembic("-x", "schema=tenant_1", "current")
    alembic("check")
    alembic("-x", "schema=tenant_1", "check")
