-- What of a schema publications have by name: a table with columns and a filter, or, without a table, all of them.
-- Parameter: the schema's OID.
SELECT p.pubname::pg_catalog.text, c.relname::pg_catalog.text,
       CASE WHEN pr.prattrs IS NOT NULL
            THEN ARRAY (SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a
                         WHERE a.attrelid = c.oid AND a.attnum = ANY (pr.prattrs::pg_catalog.int2[]) ORDER BY a.attnum)
       END,
       pg_catalog.pg_get_expr(pr.prqual, pr.prrelid)
  FROM pg_catalog.pg_publication_rel pr
  JOIN pg_catalog.pg_publication p ON p.oid = pr.prpubid
  JOIN pg_catalog.pg_class c ON c.oid = pr.prrelid
 -- from 19 on a publication of all tables may leave some out
 WHERE c.relnamespace = %(schema)s::oid AND NOT p.puballtables
 UNION ALL
SELECT p.pubname::pg_catalog.text, NULL, NULL, NULL
  FROM pg_catalog.pg_publication_namespace pn
  JOIN pg_catalog.pg_publication p ON p.oid = pn.pnpubid
 WHERE pn.pnnspid = %(schema)s::oid
 ORDER BY 1, 2
