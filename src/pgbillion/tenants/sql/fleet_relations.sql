-- What of a schema is exported beside its definition: tables whose rows are copied, with their columns if there may be
-- rows, and whether there may; sequences, with where they start; materialized views that have contents, each after those that it reads.
-- Rows of what is partitioned by hash are copied through the partitioned table, as their partitions may be other ones
-- elsewhere. Parameter: the schema's OID.
WITH RECURSIVE c AS MATERIALIZED (
    SELECT c.* FROM pg_depend d JOIN pg_class c ON c.oid = d.objid
     WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = %s::oid AND d.classid = 'pg_class'::regclass
       AND c.relkind IN ('r', 'p', 'S', 'm', 'v')
), hashed AS MATERIALIZED (
    SELECT c.oid FROM c JOIN pg_partitioned_table p ON p.partrelid = c.oid WHERE p.partstrat = 'h'
), reads (view, of) AS MATERIALIZED (
    SELECT DISTINCT r.ev_class, d.refobjid
      FROM c
      JOIN pg_rewrite r ON r.ev_class = c.oid
      JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
      JOIN c o ON o.oid = d.refobjid
     WHERE c.relkind IN ('m', 'v') AND o.relkind IN ('m', 'v') AND d.refobjid <> r.ev_class
), depth (view, depth) AS (
    SELECT c.oid, 0 FROM c WHERE c.relkind IN ('m', 'v')
     UNION
    SELECT r.view, depth.depth + 1 FROM depth JOIN reads r ON r.of = depth.view
)
SELECT c.relkind::text, c.relname::text,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND f.filled AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
              ORDER BY a.attnum),
       f.filled,
       CASE WHEN c.relkind = 'S' THEN (SELECT q.seqstart FROM pg_sequence q WHERE q.seqrelid = c.oid) END
  FROM c
  LEFT JOIN pg_am m ON m.oid = c.relam,
       LATERAL (SELECT CASE c.relkind WHEN 'p' THEN true
                                      WHEN 'r' THEN m.amname NOT IN ('heap', 'lazy_heap') OR pg_relation_size(c.oid) > 0
                                      ELSE false END OFFSET 0) f (filled)
 WHERE c.relkind = 'S' OR (c.relkind = 'm' AND c.relispopulated)
    OR ((c.relkind = 'r' OR c.oid IN (SELECT oid FROM hashed))
        AND (NOT c.relispartition
             OR NOT EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a JOIN hashed h ON h.oid = a.relid
                             WHERE a.relid <> c.oid)))
 ORDER BY (SELECT max(depth.depth) FROM depth WHERE depth.view = c.oid), c.relname COLLATE "C"
