-- What of schemas is exported beside their definitions: tables that may have rows, with the columns that are copied, and
-- about how many bytes they are, null if that is unknown; sequences, with where they start, and with their values if these
-- can be read here, and then only those that are not as new; materialized views that have contents, each after those that
-- it reads. Rows of what is partitioned by hash are copied through the partitioned table, as their partitions may be other
-- ones elsewhere. Parameter: the schemas' OIDs.
WITH RECURSIVE c AS MATERIALIZED (
    SELECT c.* FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
     WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = ANY (%s::oid[]) AND d.classid = 'pg_class'::regclass
       AND c.relkind IN ('r', 'p', 'S', 'm', 'v')
), hashed AS MATERIALIZED (
    SELECT c.oid FROM c JOIN pg_partitioned_table p ON p.partrelid = c.oid WHERE c.relkind = 'p' AND p.partstrat = 'h'
), reads (view, of) AS MATERIALIZED (
    SELECT DISTINCT r.ev_class, d.refobjid
      FROM c
      JOIN pg_rewrite r ON r.ev_class = c.oid
      JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
      JOIN c o ON o.oid = d.refobjid
     WHERE c.relkind IN ('m', 'v') AND o.relkind IN ('m', 'v') AND d.refobjid <> r.ev_class
       AND o.relnamespace = c.relnamespace
), depth (view, depth) AS (
    SELECT c.oid, 0 FROM c WHERE c.relkind IN ('m', 'v')
     UNION
    SELECT r.view, depth.depth + 1 FROM depth JOIN reads r ON r.of = depth.view
)
SELECT r.*
  FROM (SELECT c.relnamespace::int8 AS schema, c.relkind::text, c.relname::text,
               ARRAY(SELECT a.attname::text FROM pg_attribute a
                      WHERE a.attrelid = c.oid AND c.relkind <> 'm' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
                      ORDER BY a.attnum),
               s.bytes + CASE WHEN c.relkind = 'r' AND c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) ELSE 0 END,
               NULL::int8, NULL::int8, NULL::bool,
               CASE WHEN c.relkind = 'm' THEN (SELECT max(depth.depth) FROM depth WHERE depth.view = c.oid) END AS depth
          FROM c
          LEFT JOIN pg_am m ON m.oid = c.relam,
               LATERAL (SELECT CASE c.relkind WHEN 'r' THEN {size} WHEN 'm' THEN 0 END OFFSET 0) s (bytes)
         WHERE (c.relkind = 'm' AND c.relispopulated)
            OR ((c.oid IN (SELECT oid FROM hashed)
                 OR (c.relkind = 'r' AND (m.amname NOT IN ('heap', 'lazy_heap') OR s.bytes > 0)))
                AND (NOT c.relispartition
                     OR NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a JOIN hashed h ON h.oid = a.relid
                                     WHERE a.relid <> c.oid)))
         UNION ALL
        SELECT c.relnamespace::int8, 'S', c.relname::text, '{}', 0, q.seqstart, v.last, v.called, NULL
          FROM c
          JOIN pg_sequence q ON q.seqrelid = c.oid,
               LATERAL ({values}) v (last, called)
         WHERE c.relkind = 'S' AND (v.called OR v.last <> q.seqstart) IS NOT FALSE) r
 ORDER BY r.schema, r.depth, r.relname COLLATE "C"
