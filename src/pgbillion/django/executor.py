"""`migrate_schemas --executor=pgbillion`: Django migrates the template, and other tenants get the same SQL.

For each tenant Django would load all migrations and build the state of all models anew, which takes much longer than
the SQL. So the SQL of each migration is collected, as `sqlmigrate` does, before Django applies it to the template. It
is run in the tenants that had the same migrations as the template, with a transaction for each migration, which also
records it. Signals are sent as Django does. Tenants that have all that the template has are left as they are.

What is no SQL (RunPython, or a renamed model, whose content type is renamed with it) and what cannot be in one
transaction is left to Django in all tenants, and so are tenants that had other migrations, and options of
`migrate_schemas` that choose what is migrated.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import apps
from django.core.management.sql import emit_post_migrate_signal, emit_pre_migrate_signal
from django.db import connections, transaction
from django.db.migrations.executor import MigrationExecutor as DjangoExecutor
from django.db.migrations.operations import RenameModel
from django.db.migrations.recorder import MigrationRecorder
from django_tenants.migration_executors.base import MigrationExecutor, run_migrations
from django_tenants.migration_executors.standard import StandardExecutor
from django_tenants.signals import schema_migrated, schema_pre_migration
from django_tenants.utils import get_tenant_model, quote_schema_name

# options that make it another migration than that of everything
_OTHERWISE = (
    "app_label", "migration_name", "fake", "fake_initial", "plan", "prune", "run_syncdb", "check_unapplied",
)  # fmt: skip
_SCHEMAS_PER_QUERY = 200

_Applied = frozenset[tuple[str, str]]
# a migration and its SQL
_Done = tuple[Any, Sequence[str]]


class TemplateExecutor(MigrationExecutor):
    """Migrates tenants as their template was migrated."""

    codename = "pgbillion"

    def run_migrations(self, tenants: Iterable[str] | None = None) -> None:
        """Migrate the tenants, the template first if it is among them."""
        names = list(tenants or ())
        template = getattr(get_tenant_model(), "template_schema", None)
        if template not in names or any(self.options.get(one) for one in _OTHERWISE):
            StandardExecutor(self.args, self.options).run_migrations(names)
            return
        names.remove(template)
        connection = connections[self.options.get("database") or self.TENANT_DB_ALIAS]
        before = _applied(connection, [template, *names])
        done = self._migrate_template(connection, template)
        after = _applied(connection, [template])[template]
        todo = [name for name in names if before.get(name) != after]
        for number, name in enumerate(todo):
            if done is not None and name in before and before[name] == before.get(template):
                self._repeat(connection, name, done)
            else:
                run_migrations(self.args, self.options, self.codename, name, idx=number, count=len(todo))
        _prepare(connection, template)

    def run_multi_type_migrations(self, tenants: Iterable[tuple[str, str]]) -> None:
        """Leave tenants of several types, which have different apps, to Django."""
        StandardExecutor(self.args, self.options).run_multi_type_migrations(tenants)

    def _migrate_template(self, connection: Any, template: str) -> list[_Done] | None:
        """Have Django migrate the template; return the migrations with their SQL, None if there is more to them."""
        connection.set_schema(template)
        executor = DjangoExecutor(connection)
        migrations = [migration for migration, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]
        done: list[_Done] | None = None
        if all(_is_sql(migration, executor.loader.disk_migrations) for migration in migrations):
            done = []
            for migration in migrations:
                # what comes before it must have been done: some SQL is made of what is found in the database
                connection.set_schema(template)
                collected = DjangoExecutor(connection).loader.collect_sql([(migration, False)])
                done.append((migration, [one for one in collected if not _is_comment(one)]))
                chosen = {"app_label": migration.app_label, "migration_name": migration.name}
                run_migrations(self.args, {**self.options, **chosen}, self.codename, template)
        run_migrations(self.args, self.options, self.codename, template)
        return done

    def _repeat(self, connection: Any, name: str, done: Sequence[_Done]) -> None:
        """Run in a tenant what Django has run in the template."""
        plan = [(migration, False) for migration, _ in done]
        verbosity = int(self.options.get("verbosity", 1))
        asks = self.options.get("interactive", True)
        schema_pre_migration.send(run_migrations, schema_name=name)
        connection.set_schema(name)
        try:
            emit_pre_migrate_signal(verbosity, asks, connection.alias, apps=apps, plan=plan)
            for migration, statements in done:
                with transaction.atomic(using=connection.alias):
                    with connection.cursor() as cursor:
                        for statement in statements:
                            cursor.execute(statement)
                    MigrationRecorder(connection).record_applied(migration.app_label, migration.name)
            emit_post_migrate_signal(verbosity, asks, connection.alias, apps=apps, plan=plan)
        finally:
            connection.set_schema_to_public()
        schema_migrated.send(run_migrations, schema_name=name)
        if verbosity >= 1:
            sys.stdout.write(
                f"[{self.codename}:{name}] repeated {', '.join(str(migration) for migration, _ in done)}\n"
            )


def _is_sql(migration: Any, all_migrations: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a migration is nothing but SQL, in one transaction, and its name the beginning of no other."""
    alike = [name for label, name in all_migrations if label == migration.app_label and name.startswith(migration.name)]
    return (
        migration.atomic
        and not migration.replaces
        and len(alike) == 1
        and all(_reduces_to_sql(operation) for operation in migration.operations)
    )


def _reduces_to_sql(operation: Any) -> bool:
    return (
        operation.reduces_to_sql
        and not isinstance(operation, RenameModel)
        and all(_reduces_to_sql(one) for one in getattr(operation, "database_operations", ()))
    )


def _is_comment(statement: str) -> bool:
    return all(line.startswith("--") for line in statement.split("\n") if line.strip())


def _applied(connection: Any, schemas: Sequence[str]) -> dict[str, _Applied]:
    """Return the migrations that schemas have, without the schemas that have no record of them."""
    connection.set_schema_to_public()
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT n.nspname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relname = 'django_migrations' AND n.nspname = ANY (%s)",
            [list(schemas)],
        )
        known = [name for (name,) in cursor.fetchall()]
        for at in range(0, len(known), _SCHEMAS_PER_QUERY):
            some = known[at : at + _SCHEMAS_PER_QUERY]
            parts = [f"SELECT %s, app, name FROM {quote_schema_name(name)}.django_migrations" for name in some]
            cursor.execute(" UNION ALL ".join(parts), some)
            for schema, app, name in cursor.fetchall():
                found[schema].add((app, name))
    return {name: frozenset(found[name]) for name in known}


def _prepare(connection: Any, template: str) -> None:
    """Have the next sign-ups need no commands, if the role may prepare that."""
    function = "pgbillion_tables.prepare_clone(regnamespace, name, boolean)"
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_catalog.has_function_privilege(pg_catalog.to_regprocedure(%s)::oid, 'EXECUTE')", [function]
        )
        if cursor.fetchone()[0]:
            cursor.execute(
                "SELECT pgbillion_tables.prepare_clone(pg_catalog.quote_ident(%s)::pg_catalog.regnamespace)", [template]
            )
