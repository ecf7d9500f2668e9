-- What a shard tells of itself. Parameter: its table, schema and all, which may be missing.
SELECT current_setting('server_version'),
       (SELECT extversion FROM pg_extension WHERE extname = 'pgbillion_rows'),
       c.oid IS NOT NULL,
       CASE WHEN c.reltuples >= 0 THEN c.reltuples::bigint END,
       pg_total_relation_size(c.oid),
       (SELECT count(*)::int
          FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid())
  FROM (SELECT to_regclass(%(table)s) AS oid) AS given
       LEFT JOIN pg_class c ON c.oid = given.oid
