-- Columns of a table for which a value can be made up, and the value, which means the same under any search_path.
-- Parameter: table (regclass).
SELECT a.attname,
       CASE
           WHEN t.typtype = 'e' THEN format('(pg_catalog.enum_range(NULL::%%s))[1]', x.name)
           WHEN t.typtype <> 'b' THEN NULL
           WHEN t.typname = 'uuid' THEN 'pg_catalog.gen_random_uuid()'
           WHEN t.typname IN ('json', 'jsonb') THEN format('%%L::%%s', '{}', x.name)
           WHEN t.typname = 'bytea' THEN $$'\x00'::pg_catalog.bytea$$
           WHEN t.typcategory = 'A' THEN format('%%L::%%s', '{}', x.name)
           WHEN t.typcategory = 'N' AND t.typname NOT LIKE 'reg%%' THEN format('1::%%s', x.name)
           WHEN t.typcategory = 'S' THEN format('%%L::%%s', 'x', x.name)
           WHEN t.typcategory = 'B' THEN 'true'
           WHEN t.typcategory = 'D' THEN format('pg_catalog.now()::%%s', x.name)
           WHEN t.typcategory = 'T' THEN $$interval '1 s'$$
           WHEN t.typcategory = 'I' THEN format('%%L::%%s', '127.0.0.1', x.name)
       END AS value
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
-- without its modifier, which the column itself applies
CROSS JOIN LATERAL (SELECT format('%%I.%%I', t.typnamespace::regnamespace, t.typname) AS name) x
WHERE a.attrelid = %(table)s::regclass
  AND a.attnum > 0
  AND NOT a.attisdropped
  AND a.attgenerated = ''
ORDER BY a.attnum
