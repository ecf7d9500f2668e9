-- What a node of Citus tells of itself, as in shard_status.sql; its tables are those of citus_tables.sql.
-- Parameters: schema and name of the distributed table.
SELECT current_setting('server_version'),
       (SELECT extversion FROM pg_extension WHERE extname = 'pgbillion_rows'),
       count(*) > 0,
       sum(reltuples)::bigint,
       sum(pg_total_relation_size(oid))::bigint,
       (SELECT count(*)::int
          FROM pg_stat_activity
         WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid())
  FROM pg_class
 WHERE relnamespace = to_regnamespace(quote_ident(%(schema)s))
   AND relkind = 'r'
   AND left(relname, length(%(table)s) + 1) = %(table)s || '_'
   AND substr(relname, length(%(table)s) + 2) ~ '^[0-9]+$'
