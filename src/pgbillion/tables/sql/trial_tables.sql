-- Those of some tables into which a row can be put without running what others have made: the role's own, a
-- superuser's, and such as are nothing but columns of built-in types.
-- Parameter: tables (oid[]).
SELECT c.oid::regclass::text
  FROM pg_class c
  JOIN pg_roles r ON r.oid = c.relowner
 WHERE c.oid = ANY (%s::oid[])
   AND (c.relkind = 'r'
        OR c.relkind = 'p'
           -- rows go to partitions, which may be another role's
           AND NOT EXISTS (
               SELECT
                 FROM pg_partition_tree(c.oid) p
                 JOIN pg_class t ON t.oid = p.relid
                WHERE t.relowner <> c.relowner))
   AND c.relpersistence <> 't'
   AND (r.rolsuper
        OR r.rolname = current_user
        OR NOT (c.relhastriggers OR c.relhasrules OR c.relrowsecurity OR c.relispartition)
           AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'c')
           AND NOT EXISTS (SELECT FROM pg_attrdef d WHERE d.adrelid = c.oid)
           AND NOT EXISTS (
               SELECT
                 FROM pg_attribute a
                 JOIN pg_type t ON t.oid = a.atttypid
                WHERE a.attrelid = c.oid
                  AND a.attnum > 0
                  AND NOT a.attisdropped
                  AND t.typnamespace <> 'pg_catalog'::regnamespace)
           AND NOT EXISTS (
               SELECT
                 FROM pg_index i
                WHERE i.indrelid = c.oid
                  AND (i.indexprs IS NOT NULL
                       OR i.indpred IS NOT NULL
                       OR EXISTS (SELECT
                                    FROM pg_opclass o
                                   WHERE o.oid = ANY (i.indclass::oid[])
                                     AND o.opcnamespace <> 'pg_catalog'::regnamespace))))
 ORDER BY 1
