-- Queries that return rows of a schema's tables which refer to no row of a table in another schema: the constraint's name
-- and the query, which is null for a key with a period. Parameter: the schema's OID.
SELECT format('%%I on %%I', o.conname, c.relname),
       CASE WHEN to_jsonb(o) ->> 'conperiod' = 'true' THEN NULL ELSE
       format('SELECT FROM ONLY %%I.%%I AS f WHERE %%s AND NOT EXISTS (SELECT FROM %%s%%I.%%I AS p WHERE %%s) LIMIT 1',
              n.nspname, c.relname,
              (SELECT string_agg(format('f.%%I IS NOT NULL', a.attname), ' AND ')
                 FROM unnest(o.conkey) AS k (number)
                 JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = k.number),
              CASE WHEN p.relkind = 'p' THEN '' ELSE 'ONLY ' END, m.nspname, p.relname,
              (SELECT string_agg(format('p.%%I OPERATOR(%%I.%%s) f.%%I', b.attname, q.nspname, x.oprname, a.attname), ' AND ')
                 FROM unnest(o.conkey, o.confkey, o.conpfeqop) AS k (here, there, operator)
                 JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = k.here
                 JOIN pg_attribute b ON b.attrelid = o.confrelid AND b.attnum = k.there
                 JOIN pg_operator x ON x.oid = k.operator
                 JOIN pg_namespace q ON q.oid = x.oprnamespace)) END
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_constraint o ON o.conrelid = c.oid AND o.contype = 'f' AND o.convalidated
  JOIN pg_class p ON p.oid = o.confrelid
  JOIN pg_namespace m ON m.oid = p.relnamespace
 WHERE c.relnamespace = %s::oid AND c.relkind = 'r' AND p.relnamespace <> c.relnamespace
 ORDER BY 1
