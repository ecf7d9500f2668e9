-- The relations of schemas in parts of about the same number: first and last OID of each. Parameters: relations, schemas.
SELECT min(oid)::int8, max(oid)::int8
  FROM (SELECT oid, (row_number() OVER (ORDER BY oid) - 1) / %s AS part
          FROM pg_class
         WHERE relnamespace = ANY (%s::oid[]) AND relkind IN ('r', 'p', 'm', 'S', 'i')) c
 GROUP BY part
 ORDER BY part
