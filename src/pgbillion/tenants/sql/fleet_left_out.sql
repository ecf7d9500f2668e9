-- What belongs to schemas, or to their database, and is not exported with them. Parameter: the schemas' OIDs.
SELECT format('the membership of %%s tenants in publication %%I', count(DISTINCT m.schema), p.pubname)
  FROM (SELECT r.prpubid AS publication, c.relnamespace AS schema
          FROM pg_publication_rel r
          JOIN pg_class c ON c.oid = r.prrelid
         UNION
        SELECT n.pnpubid, n.pnnspid FROM pg_publication_namespace n) m
  JOIN pg_publication p ON p.oid = m.publication
 WHERE m.schema = ANY (%(schemas)s::oid[])
 GROUP BY p.pubname
 UNION ALL
SELECT 'large objects, which belong to no schema' WHERE EXISTS (SELECT FROM pg_largeobject_metadata)
 UNION ALL
SELECT format('subscription %%I', s.subname) FROM pg_subscription s WHERE s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
 UNION ALL
SELECT format('rows of foreign table %%I.%%I', n.nspname, c.relname)
  FROM pg_foreign_table f
  JOIN pg_class c ON c.oid = f.ftrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.oid = ANY (%(schemas)s::oid[])
 ORDER BY 1
