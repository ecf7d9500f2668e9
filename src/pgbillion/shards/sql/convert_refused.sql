-- What of a foreign server's tables a script of CREATE FOREIGN TABLE would lack. Parameter: the server's OID.
SELECT t.name, found.what
  FROM (SELECT c.oid, format('%%I.%%I', n.nspname, c.relname) AS name
          FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE f.ftserver = %(server)s) AS t
       CROSS JOIN LATERAL (
           SELECT 'trigger ' || quote_ident(tgname) FROM pg_trigger
            WHERE tgrelid = t.oid AND NOT tgisinternal AND tgparentid = 0
           UNION ALL
           SELECT 'statistics object ' || quote_ident(stxname) FROM pg_statistic_ext WHERE stxrelid = t.oid
           UNION ALL
           SELECT 'a security label' FROM pg_seclabel WHERE classoid = 'pg_class'::regclass AND objoid = t.oid
           UNION ALL
           SELECT 'parent ' || inhparent::regclass FROM pg_inherits
            WHERE inhrelid = t.oid AND NOT (SELECT relispartition FROM pg_class WHERE oid = t.oid)
           UNION ALL
           SELECT 'privileges on column ' || quote_ident(attname) FROM pg_attribute
            WHERE attrelid = t.oid AND attacl IS NOT NULL
           UNION ALL
           SELECT 'options of column ' || quote_ident(attname) FROM pg_attribute
            WHERE attrelid = t.oid AND attoptions IS NOT NULL AND NOT attisdropped
       ) AS found (what)
 ORDER BY 1, 2
 LIMIT 1
