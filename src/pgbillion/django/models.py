"""The base of a tenant's model, in place of django-tenants' own."""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction
from django_tenants.models import TenantMixin
from django_tenants.postgresql_backend.base import _check_schema_name
from django_tenants.utils import get_public_schema_name, get_tenant_database_alias, schema_exists

# importing it is what makes `migrate_schemas --executor=pgbillion` known
from pgbillion.django import executor

__all__ = ["ClonedTenantMixin", "executor"]

_CLONE = (
    "SELECT pgbillion_tables.clone_schema(pg_catalog.quote_ident(%s)::pg_catalog.regnamespace, %s, all_rows => true)"
)


class ClonedTenantMixin(TenantMixin):
    """A tenant whose schema is a clone of the schema ``template_schema``, with its rows.

    The template is a tenant, too, and the only one whose schema django-tenants makes by migrations.
    """

    template_schema = "model"

    class Meta:  # noqa: D106
        abstract = True

    def create_schema(self, check_if_exists: bool = False, sync_schema: bool = True, verbosity: int = 1) -> Any:
        """Create the schema, or return False if it exists and ``check_if_exists`` is set."""
        if not sync_schema or self.schema_name in (get_public_schema_name(), self.template_schema):
            return super().create_schema(check_if_exists, sync_schema, verbosity)
        _check_schema_name(self.schema_name)
        if check_if_exists and schema_exists(self.schema_name):
            return False
        alias = get_tenant_database_alias()
        with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
            cursor.execute(_CLONE, [self.template_schema, self.schema_name])
        connections[alias].set_schema_to_public()
        return True
