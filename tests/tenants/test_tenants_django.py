"""Tenants of django-tenants: sign-ups and migrations by pgbillion.django, compared with those of Django itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import frameworks, servers
from harness.frameworks import block, same, tables
from harness.servers import one
from pgbillion.common.connection import Connection
from pgbillion.server.postgres import Cluster

SETTINGS = """
import os
SECRET_KEY = "x"
DATABASES = {"default": {"ENGINE": "django_tenants.postgresql_backend", "NAME": os.environ["NAME"],
    "HOST": os.environ["HOST"], "PORT": "5432", "USER": "postgres"}}
DATABASE_ROUTERS = ("django_tenants.routers.TenantSyncRouter",)
SHARED_APPS = ("django_tenants", "customers", "django.contrib.contenttypes")
TENANT_APPS = ("django.contrib.contenttypes", "django.contrib.auth", "shop")
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
MANAGE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
# "own" is what django-tenants makes itself
SIGN_UP = """
from django_tenants.models import TenantMixin
from customers.models import Client
for name in ("model", "cloned", "late"):
    Client(schema_name=name, name=name).save(verbosity=0)
Client.create_schema = TenantMixin.create_schema
Client(schema_name="own", name="own").save(verbosity=0)
"""
USED = """
from django.contrib.contenttypes.models import ContentType
from django_tenants.utils import schema_context
from shop.models import Customer, Order, Product
for name in ("cloned", "own"):
    with schema_context(name):
        product = Product.objects.create(name="p", tags={"a": 1}, about=ContentType.objects.get(model="product"))
        order = Order.objects.create(customer=Customer.objects.create(email="a@b"))
        order.products.add(product)
        assert (product.id, order.id, Order.objects.filter(products__name="p").count()) == (1, 1, 1)
"""
MORE = """

class More(models.Model):
    product = models.ForeignKey(Product, on_delete=models.CASCADE)
    what = models.CharField(max_length=9, default="100 % 'new'", db_index=True)
"""
ROW = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("shop", "{before}")]
    operations = [
        migrations.RunSQL("INSERT INTO shop_product (name, price, tags) VALUES ('5 % off', 0, '{}') -- said"),
        migrations.RunSQL("INSERT INTO shop_more (product_id, what) SELECT id, '%' FROM shop_product"),
    ]
"""
# which cannot be in one transaction with that
CHANGE = """
from django.db import migrations, models

class Migration(migrations.Migration):
    dependencies = [("shop", "{before}")]
    operations = [
        migrations.AlterField("More", "what", models.CharField(max_length=19, unique=True, default="%s")),
        migrations.AddField("Customer", "size", models.IntegerField(default=7)),
        migrations.RemoveConstraint("Customer", "one_email"),
        migrations.AlterField("Product", "name", models.CharField(max_length=100)),
    ]
"""
DATA = """
from django.db import migrations

def fill(apps, schema_editor):
    apps.get_model("shop", "Product").objects.create(name=f"of {schema_editor.connection.schema_name}")

class Migration(migrations.Migration):
    dependencies = [("shop", "{before}")]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
"""
RENAME = """
from django.db import migrations

class Migration(migrations.Migration):
    dependencies = [("shop", "{before}")]
    operations = [migrations.RenameModel("More", "Other")]
"""


@dataclass(frozen=True)
class Project:
    """A project with an app `shop`, whose migrations are made as a developer makes them."""

    folder: Path
    python: Path
    variables: dict[str, str]

    def manage(self, *arguments: str) -> str:
        return frameworks.run([self.python, "manage.py", *arguments], self.folder, self.variables)

    def shell(self, text: str) -> None:
        self.manage("shell", "--no-imports", "-c", text)

    def migrate(self) -> list[str]:
        """Migrate all tenants; those in which the SQL was repeated."""
        told = self.manage("migrate_schemas", "--executor=pgbillion")
        return [line.partition("]")[0].rpartition(":")[2] for line in told.splitlines() if "] repeated " in line]

    def add_migration(self, text: str) -> None:
        folder = self.folder / "shop" / "migrations"
        *_, before = sorted(path.stem for path in folder.glob("0*.py"))
        (folder / f"{int(before[:4]) + 1:04}_by_hand.py").write_text(text.replace("{before}", before))


@pytest.fixture
def database(cluster: Cluster) -> Iterator[str]:
    with servers.new_database(cluster, "frameworks") as made:
        yield made


@pytest.fixture
def project(cluster: Cluster, database: str, tmp_path: Path) -> Project:
    made = Project(tmp_path, frameworks.python(), frameworks.environment(cluster, database))
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "manage.py").write_text(MANAGE)
    for app, text in (("customers", block("python", "class Client") + DOMAIN), ("shop", SHOP)):
        (tmp_path / app).mkdir()
        (tmp_path / app / "__init__.py").touch()
        (tmp_path / app / "models.py").write_text(text)
    made.manage("makemigrations", "customers", "shop")
    made.manage("migrate_schemas", "--shared")
    made.shell(SIGN_UP)
    return made


def compare(cluster: Cluster, database: str, *names: str) -> None:
    """Tenants are what django-tenants makes, with the rows that it gives them, times left out."""
    same(cluster, database, "own", *names)
    with cluster.connect(database) as conn:
        own = tables(conn, "own")
        assert {"django_migrations", "django_content_type", "auth_permission", "shop_order_products"} <= own.keys()
        for name in names:
            assert tables(conn, name) == own


def test_sign_ups(cluster: Cluster, database: str, project: Project) -> None:
    compare(cluster, database, "cloned", "model", "late")
    project.shell(USED)
    compare(cluster, database, "cloned")
    # it has all migrations
    project.manage("migrate_schemas", "--check")


def count(conn: Connection, table: str) -> int:
    return int(one(conn, f"SELECT count(*) FROM {table}"))


def test_migrations(cluster: Cluster, database: str, project: Project) -> None:
    """SQL is repeated where a tenant was as the template was, and everything else is Django's work."""
    assert project.migrate() == []
    (project.folder / "shop" / "models.py").write_text(SHOP + MORE)
    project.manage("makemigrations", "shop")
    project.add_migration(ROW)
    project.add_migration(CHANGE)
    with cluster.connect(database) as conn:
        conn.execute("DELETE FROM pgbillion_tables.prepared_clones")
    project.manage("migrate_schemas", "--schema=own")
    assert project.migrate() == ["cloned", "late"]
    compare(cluster, database, "cloned", "model", "late")
    assert project.migrate() == []

    # a tenant that is behind the others catches up by Django
    project.add_migration(DATA)
    project.manage("migrate_schemas", "--schema=late")
    assert project.migrate() == []
    with cluster.connect(database) as conn:
        for name in ("own", "cloned", "model", "late"):
            assert count(conn, f"{name}.shop_product WHERE name = 'of {name}'") == 1
    project.add_migration(RENAME)
    assert project.migrate() == []
    same(cluster, database, "own", "cloned", "model", "late")
    with cluster.connect(database) as conn:
        for name in ("own", "cloned", "model", "late"):
            assert count(conn, f"{name}.django_content_type WHERE model = 'other'") == 1
        assert frameworks.prepared(conn, "model")
    project.shell("from customers.models import Client; Client(schema_name='latest', name='x').save(verbosity=0)")
    same(cluster, database, "own", "latest")
    project.manage("migrate_schemas", "--check")
