-- What some relations of schemas take: one row per schema. Put in: a query for bytes and files of the relation s.oid.
-- Parameters: first and last OID, schemas.
WITH c AS MATERIALIZED (
    SELECT oid, relnamespace, relkind, relpersistence, reltoastrelid, relam, reltuples
      FROM pg_class
     WHERE oid BETWEEN %s::oid AND %s::oid AND relnamespace = ANY (%s::oid[]) AND relkind IN ('r', 'p', 'm', 'S', 'i')
), stored (schema, part, kind, persistence, oid) AS (
    SELECT relnamespace, CASE relkind WHEN 'i' THEN 'indexes' WHEN 'S' THEN 'sequences' ELSE 'heap' END, relkind,
           relpersistence, oid
      FROM c
     WHERE relkind <> 'p'
     UNION ALL
    SELECT relnamespace, 'toast', 't', relpersistence, reltoastrelid FROM c WHERE reltoastrelid <> 0
     UNION ALL
    SELECT c.relnamespace, 'toast', 'i', relpersistence, x.indexrelid
      FROM c
      JOIN pg_index x ON x.indrelid = c.reltoastrelid
     WHERE c.reltoastrelid <> 0
), part (schema, heap, indexes, toast, sequences, files) AS (
    SELECT s.schema, sum(b.bytes) FILTER (WHERE s.part = 'heap'), sum(b.bytes) FILTER (WHERE s.part = 'indexes'),
           sum(b.bytes) FILTER (WHERE s.part = 'toast'), sum(b.bytes) FILTER (WHERE s.part = 'sequences'), sum(b.files)
      FROM stored s, LATERAL ({bytes}) b (bytes, files)
     GROUP BY s.schema
), counted (schema, tables, lazy, rows) AS (
    SELECT c.relnamespace, count(*) FILTER (WHERE c.relkind <> 'm'), count(*) FILTER (WHERE a.amname = 'lazy_heap'),
           -- what was never analyzed is known to the statistics of activity, since they were last reset
           sum(CASE WHEN c.relkind = 'p' THEN 0 WHEN c.reltuples < 0 THEN pg_stat_get_live_tuples(c.oid) ELSE c.reltuples END)
      FROM c
      LEFT JOIN pg_am a ON a.oid = c.relam
     WHERE c.relkind IN ('r', 'p', 'm')
     GROUP BY c.relnamespace
)
SELECT schema::int8, coalesce(tables, 0), coalesce(lazy, 0), coalesce(rows, 0)::int8, coalesce(heap, 0)::int8,
       coalesce(indexes, 0)::int8, coalesce(toast, 0)::int8, coalesce(sequences, 0)::int8, files::int8
  FROM part
  FULL JOIN counted USING (schema)
