-- The files of what is read of a restored database: the catalogs, a schema, and the journal of migrations. The first row
-- is of a catalog that is never moved by itself. Large objects are among it if a column of the schema may name one.
-- Parameter: the schema's OID.
WITH RECURSIVE oids (oid) AS (
    SELECT 'pg_catalog.oid'::pg_catalog.regtype::pg_catalog.oid
     UNION
    SELECT t.oid FROM pg_catalog.pg_type t JOIN oids b ON t.typbasetype = b.oid WHERE t.typtype = 'd'
), chosen AS MATERIALIZED (
    SELECT c.oid, c.reltoastrelid
      FROM pg_catalog.pg_class c
     WHERE c.relkind IN ('r', 'i', 'm', 'S', 't')
       AND (c.oid < 16384
            AND (c.oid NOT IN (2613, 2683)
                 OR EXISTS (SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class r ON r.oid = a.attrelid
                             WHERE r.relnamespace = %(schema)s::oid AND a.atttypid IN (SELECT oid FROM oids)
                               AND a.attnum > 0 AND NOT a.attisdropped))
            OR c.relnamespace = %(schema)s::oid
            -- pg_dump reads the values of all sequences
            OR c.relkind = 'S' AND pg_catalog.current_setting('server_version_num')::int4 >= 180000
            OR c.relnamespace = (SELECT n.oid FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pgbillion_journal'))
), every AS (
    SELECT oid FROM chosen
     UNION
    SELECT reltoastrelid FROM chosen WHERE reltoastrelid <> 0
     UNION
    SELECT i.indexrelid FROM pg_catalog.pg_index i JOIN chosen c ON i.indrelid = c.reltoastrelid
)
SELECT pg_catalog.pg_relation_filepath('pg_catalog.pg_proc')
 UNION ALL
(SELECT pg_catalog.pg_relation_filepath(oid) FROM every ORDER BY oid)
