-- Columns of a schema's tables that may name large objects, with the tables' owners: of type oid, or a domain over it.
-- Parameter: the schema's OID.
WITH RECURSIVE oids (oid) AS (
    SELECT 'pg_catalog.oid'::pg_catalog.regtype::pg_catalog.oid
     UNION
    SELECT t.oid FROM pg_catalog.pg_type t JOIN oids b ON t.typbasetype = b.oid WHERE t.typtype = 'd'
)
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname), pg_catalog.quote_ident(a.attname), r.rolname::pg_catalog.text
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
 WHERE n.oid = %s::oid AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
   AND a.atttypid IN (SELECT oid FROM oids)
 ORDER BY c.oid, a.attnum
