-- Check catalogs of this database and their indexes; an error if one is damaged. amcheck is in pgbillion_amcheck.
SELECT CASE c.relkind
           WHEN 'i' THEN pgbillion_amcheck.bt_index_check(c.oid)::pg_catalog.text
           ELSE (SELECT pg_catalog.count(*)::pg_catalog.text || (1 / (CASE pg_catalog.count(*) WHEN 0 THEN 1 ELSE 0 END))
                   FROM pgbillion_amcheck.verify_heapam(c.oid))
       END
  FROM pg_catalog.pg_class c
  LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam
 WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relpersistence = 'p'
   AND c.oid NOT IN (2613, 2683)
   AND (c.relkind = 'i' AND a.amname = 'btree' OR c.relkind = 'r')
