-- What `pgbillion tenants migrate` has done: a row for each tenant and migration, and with --no-transaction one for each
-- statement, from 1. The row of the whole, statement 0, is written in the tenant's own transaction.
CREATE SCHEMA pgbillion_journal;
CREATE TABLE pgbillion_journal.migration (
    tenant pg_catalog.text NOT NULL,
    migration pg_catalog.text NOT NULL,
    statement pg_catalog.int4 NOT NULL,
    checksum pg_catalog.text NOT NULL,
    done pg_catalog.bool NOT NULL,
    started pg_catalog.timestamptz NOT NULL,
    finished pg_catalog.timestamptz,
    error pg_catalog.text,
    PRIMARY KEY (migration, tenant, statement)
);
-- what one tenant has had: read when it is cloned, written when it is renamed or dropped
CREATE INDEX ON pgbillion_journal.migration (tenant);
COMMENT ON SCHEMA pgbillion_journal IS 'pgbillion tenants migrate: what has been run in which tenant'
