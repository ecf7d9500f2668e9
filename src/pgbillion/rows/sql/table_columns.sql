-- the columns of a table, with their types below domains; builtin: what compares and prints values is PostgreSQL's own
SELECT a.attname, a.attnum::int4, t.typname, t.typtype = 'e', t.oid < 16384 AND n.nspname = 'pg_catalog',
       t.typlen::int4, t.typbyval, a.attstorage IN ('x', 'e'),
       has_column_privilege(a.attrelid, a.attnum, 'SELECT'),
       -- as a join it would be read for all tables
       (SELECT s.avg_width FROM pg_stats s
         WHERE s.schemaname = cn.nspname AND s.tablename = c.relname AND s.attname = a.attname AND NOT s.inherited)
  FROM pg_attribute a
  CROSS JOIN LATERAL (
      WITH RECURSIVE below AS (
          SELECT y.oid, y.typtype, y.typbasetype FROM pg_type y WHERE y.oid = a.atttypid
          UNION ALL
          SELECT y.oid, y.typtype, y.typbasetype FROM below b JOIN pg_type y ON y.oid = b.typbasetype
           WHERE b.typtype = 'd'
      )
      SELECT b.oid FROM below b WHERE b.typtype <> 'd'
  ) base
  JOIN pg_type t ON t.oid = base.oid
  JOIN pg_namespace n ON n.oid = t.typnamespace
  JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_namespace cn ON cn.oid = c.relnamespace
 WHERE a.attrelid = %(table)s::oid AND a.attnum > 0 AND NOT a.attisdropped
 ORDER BY a.attnum
