"""Sign-ups by django-tenants and SQLAlchemy, and by the statement for Rails, all as docs/frameworks.md has them.

The programs are the document's own text, and run in an environment of their own.
Where pip cannot install the frameworks the tests are skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import servers
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.common.paths import state_dir
from pgbillion.common.target import Target
from pgbillion.server.postgres import Cluster
from pgbillion.tenants import diff
from test_tenants import unseen

DOCUMENT = Path(__file__).parents[2] / "docs" / "frameworks.md"
PACKAGES = ("django==5.2.*", "django-tenants==4.0.*", "sqlalchemy==2.*", "psycopg[binary]==3.*")

SETTINGS = """
import os
SECRET_KEY = "x"
DATABASES = {"default": {"ENGINE": "django_tenants.postgresql_backend", "NAME": os.environ["NAME"],
    "HOST": os.environ["HOST"], "PORT": "5432", "USER": "postgres"}}
DATABASE_ROUTERS = ("django_tenants.routers.TenantSyncRouter",)
SHARED_APPS = ("django_tenants", "customers", "django.contrib.contenttypes")
TENANT_APPS = ("django.contrib.contenttypes", "shop")
INSTALLED_APPS = list(SHARED_APPS) + [app for app in TENANT_APPS if app not in SHARED_APPS]
TENANT_MODEL = "customers.Client"
TENANT_DOMAIN_MODEL = "customers.Domain"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
"""
DOMAIN = """


from django_tenants.models import DomainMixin


class Domain(DomainMixin):
    pass
"""
SHOP = """
from django.contrib.contenttypes.models import ContentType
from django.db import models


class Product(models.Model):
    name = models.CharField(max_length=100, unique=True)
    price = models.DecimalField(max_digits=10, decimal_places=2, default=0)
    tags = models.JSONField(default=dict)
    about = models.ForeignKey(ContentType, null=True, on_delete=models.SET_NULL)


class Customer(models.Model):
    email = models.EmailField()
    referrer = models.ForeignKey("self", null=True, on_delete=models.CASCADE)

    class Meta:
        constraints = [
            models.UniqueConstraint(models.functions.Lower("email"), name="one_email"),
            models.CheckConstraint(condition=models.Q(email__contains="@"), name="an_email"),
        ]


class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.PROTECT)
    products = models.ManyToManyField(Product)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["customer", "-at"])]
"""
RUN = """
import django
django.setup()
from django.core.management import call_command
from django_tenants.models import TenantMixin
from django_tenants.utils import schema_context
call_command("makemigrations", "customers", "shop", verbosity=0)
call_command("migrate_schemas", shared=True, verbosity=0)
from customers.models import Client
for name in ("model", "cloned"):
    Client(schema_name=name, name=name).save(verbosity=0)
in_ours, Client.create_schema = Client.create_schema, TenantMixin.create_schema
Client(schema_name="own", name="own").save(verbosity=0)
Client.create_schema = in_ours
from shop.models import Customer, Order, Product
from django.contrib.contenttypes.models import ContentType
for name in ("cloned", "own"):
    with schema_context(name):
        product = Product.objects.create(name="p", tags={"a": 1}, about=ContentType.objects.get(model="product"))
        order = Order.objects.create(customer=Customer.objects.create(email="a@b"))
        order.products.add(product)
        assert (product.id, order.id, Order.objects.filter(products__name="p").count()) == (1, 1, 1)
        ContentType.objects.create(app_label="later", model="x")
# it has all migrations, and goes on with the others
call_command("migrate_schemas", check_unapplied=True, verbosity=0)
open("shop/models.py", "a").write(
    "\\n\\nclass More(models.Model):\\n    product = models.ForeignKey(Product, on_delete=models.CASCADE)\\n"
)
"""
MIGRATE = """
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", "shop", verbosity=0)
call_command("migrate_schemas", verbosity=0)
"""
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
engine = create_engine(f"postgresql+psycopg://postgres@/{os.environ['NAME']}?host={os.environ['HOST']}&port=5432")
metadata.create_all(tenant(engine, "model"))
sign_up(engine, "tenant_1")
metadata.create_all(tenant(engine, "own"))
for name in ("tenant_1", "own"):
    with tenant(engine, name).begin() as connection:
        (key,) = connection.execute(customer.insert().values(name="a")).inserted_primary_key
        connection.execute(order.insert().values(customer=key))
        assert connection.execute(select(order.c.state).join(customer)).scalar_one() is State.new
"""


def block(language: str, containing: str) -> str:
    """A program of the document."""
    found: list[str] = [
        text
        for text in re.findall(rf"(?ms)^```{language}\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"))
        if containing in text
    ]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def python() -> Path:
    """A Python that has the frameworks; made once for each state folder."""
    folder = state_dir() / "frameworks"
    done = folder / "done"
    program = folder / "bin" / "python"
    if not done.exists() or done.read_text() != str(PACKAGES):
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        installed = subprocess.run(
            [program, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True
        )
        if installed.returncode != 0:
            pytest.skip(f"pip cannot install django-tenants and SQLAlchemy: {installed.stderr[-200:]}")
        done.write_text(str(PACKAGES))
    return program


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "frameworks") as made:
        yield made


def run(python: Path, cluster: Cluster, database: str, folder: Path, text: str) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOST": str(cluster.socket_dir),
        "NAME": database,
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run([python, "-c", text], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def same(cluster: Cluster, database: str, one_schema: str, other: str) -> None:
    found = diff.compare(Target(cluster.conninfo(database), "the test's"), one_schema, [other], 1, observe=unseen)
    assert [difference for group in found.groups for difference in group.differences] == []
    assert (found.tenants, found.same) == (1, 1)


def tables(conn: Connection, schema: str) -> dict[str, list[Any]]:
    """The rows of all tables, times left out."""
    names = conn.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace", [schema]
    )
    return {
        name: conn.execute(
            f"SELECT to_jsonb(t) - 'applied' - 'at' FROM {schema}.\"{name}\" t ORDER BY t.id".encode()
        ).fetchall()
        for (name,) in names
    }


def test_django_tenants(cluster: Cluster, database: str, python: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(SETTINGS)
    for app, text in (("customers", block("python", "class Client") + DOMAIN), ("shop", SHOP)):
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
        (tmp_path / app / "models.py").write_text(text)
    run(python, cluster, database, tmp_path, RUN)
    with cluster.connect(database) as conn:
        same(cluster, database, "own", "cloned")
        same(cluster, database, "model", "cloned")
        own, cloned = tables(conn, "own"), tables(conn, "cloned")
        assert {"django_migrations", "django_content_type", "shop_order_products"} <= own.keys()
        assert own == cloned
    run(python, cluster, database, tmp_path, MIGRATE)
    with cluster.connect(database) as conn:
        same(cluster, database, "own", "cloned")
        assert one(conn, "SELECT to_regclass('cloned.shop_more') IS NOT NULL")
        assert tables(conn, "own") == tables(conn, "cloned")


def test_sqlalchemy(cluster: Cluster, database: str, python: Path, tmp_path: Path) -> None:
    with cluster.connect(database) as conn:
        conn.execute("CREATE SCHEMA model; CREATE SCHEMA own")
    run(python, cluster, database, tmp_path, block("python", "def sign_up") + ALCHEMY)
    same(cluster, database, "own", "tenant_1")
    with cluster.connect(database) as conn:
        assert tables(conn, "own") == tables(conn, "tenant_1")


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
