"""Schemas as tenants: created, migrated, compared, listed, renamed, dropped."""
