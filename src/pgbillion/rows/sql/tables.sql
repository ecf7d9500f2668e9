-- Tables by OID: what a columnar index would belong to (the topmost partitioned table, if the table is a partition),
-- and each of its tables with rows. One row per table with rows.
WITH roots AS (
    SELECT DISTINCT coalesce(pg_partition_root(t.oid)::oid, t.oid) AS oid
      FROM unnest(%(tables)s::oid[]) AS t(oid)
), leaves AS (
    SELECT r.oid AS root, r.oid AS leaf FROM roots r JOIN pg_class c ON c.oid = r.oid WHERE c.relkind <> 'p'
    UNION ALL
    SELECT r.oid, p.relid::oid FROM roots r JOIN pg_class c ON c.oid = r.oid AND c.relkind = 'p',
           pg_partition_tree(r.oid) p WHERE p.isleaf
)
SELECT l.root::int8, rn.nspname, rc.relname, rc.relkind = 'p',
       l.leaf::int8, n.nspname, c.relname,
       -- partitions may be foreign tables, which have no index
       c.relkind IN ('r', 'm') AND coalesce(a.amname IN ('heap', 'lazy_heap'), false)
           AND (c.relpersistence <> 't' OR c.relnamespace = pg_my_temp_schema()),
       CASE WHEN c.relkind IN ('r', 'm')
            -- NULL for one that is dropped meanwhile
            THEN coalesce(pg_relation_size(l.leaf), 0) / current_setting('block_size')::int8 ELSE 0 END,
       c.relpages::int8, c.relallvisible::int8, c.reltuples::float8,
       -- the view of these counts would be computed for all tables
       coalesce(pg_stat_get_tuples_updated(l.leaf), 0), coalesce(pg_stat_get_tuples_hot_updated(l.leaf), 0),
       coalesce(pg_stat_get_tuples_deleted(l.leaf), 0),
       coalesce(pg_stat_get_vacuum_count(l.leaf), 0) + coalesce(pg_stat_get_autovacuum_count(l.leaf), 0),
       -- what CREATE INDEX asks for
       pg_has_role(c.relowner, 'USAGE') AND has_schema_privilege(c.relnamespace, 'CREATE')
           AND pg_has_role(rc.relowner, 'USAGE')
  FROM leaves l
  JOIN pg_class rc ON rc.oid = l.root
  JOIN pg_namespace rn ON rn.oid = rc.relnamespace
  JOIN pg_class c ON c.oid = l.leaf
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_am a ON a.oid = c.relam
 ORDER BY rn.nspname, rc.relname, l.root, l.leaf
