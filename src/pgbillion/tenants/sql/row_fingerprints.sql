-- The snapshot comes with them, unless the server is a standby, where it does not list the transactions in progress.
SELECT schema::int8, fingerprint, tables, CASE WHEN NOT pg_is_in_recovery() THEN pg_current_snapshot()::text END
  FROM pgbillion_tables.schema_fingerprints(%s::oid[])
