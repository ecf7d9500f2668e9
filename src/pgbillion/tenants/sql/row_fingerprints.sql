SELECT schema::int8, fingerprint, tables
  FROM pgbillion_tables.schema_fingerprints(%s::oid[])
