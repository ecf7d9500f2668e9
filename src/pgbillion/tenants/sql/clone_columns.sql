-- Tables of a template that a tenant has, too: columns that take values, and the values for them, those of types that the
-- tenant has its own of by their text. Parameters: the tenant's name, the template's, tables.
SELECT c.relname::text,
       coalesce(string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), ''),
       coalesce(string_agg(CASE WHEN b.atttypid = a.atttypid THEN 't.' || quote_ident(a.attname)
                                ELSE 'CAST(CAST(t.' || quote_ident(a.attname) || ' AS text) AS '
                                     || format_type(a.atttypid, a.atttypmod) || ')' END,
                           ', ' ORDER BY a.attnum), '')
  FROM pg_namespace m
  JOIN pg_class s ON s.relnamespace = m.oid
  JOIN pg_class c ON c.relname = s.relname AND c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = %s)
  LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
  LEFT JOIN pg_attribute b ON b.attrelid = s.oid AND b.attname = a.attname
 WHERE m.nspname = %s AND s.relname = ANY (%s::text[])
 GROUP BY c.oid, c.relname
 ORDER BY c.oid
