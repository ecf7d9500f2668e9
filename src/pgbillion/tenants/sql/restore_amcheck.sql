-- Check catalogs of this database, and their indexes: an error, or a row with a message, if one is damaged. amcheck is in
-- the schema pgbillion_amcheck.
SELECT c.relname::pg_catalog.text, v.msg
  FROM pg_catalog.pg_class c
 CROSS JOIN LATERAL pgbillion_amcheck.verify_heapam(c.oid) v
 WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relpersistence = 'p' AND c.relkind = 'r'
   AND c.oid <> 2613;
SELECT c.relname::pg_catalog.text, NULLIF(pgbillion_amcheck.bt_index_check(c.oid)::pg_catalog.text, '')
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_am a ON a.oid = c.relam
 WHERE c.relnamespace = 'pg_catalog'::pg_catalog.regnamespace AND c.relpersistence = 'p' AND c.relkind = 'i'
   AND c.oid <> 2683 AND a.amname = 'btree'
