-- Columns of a table for which a value can be made up, and the value.
-- Parameter: table (regclass).
SELECT a.attname,
       CASE
           WHEN t.typtype = 'e' THEN format('(enum_range(NULL::%%s))[1]', x.name)
           WHEN t.typtype <> 'b' THEN NULL
           WHEN t.typname = 'uuid' THEN 'gen_random_uuid()'
           WHEN t.typname IN ('json', 'jsonb') THEN format('%%L::%%s', '{}', x.name)
           WHEN t.typname = 'bytea' THEN $$'\x00'::bytea$$
           WHEN t.typcategory = 'A' THEN format('%%L::%%s', '{}', x.name)
           WHEN t.typcategory = 'N' AND t.typname NOT LIKE 'reg%%' THEN format('1::%%s', x.name)
           WHEN t.typcategory = 'S' THEN format('%%L::%%s', 'x', x.name)
           WHEN t.typcategory = 'B' THEN 'true'
           WHEN t.typcategory = 'D' THEN format('now()::%%s', x.name)
           WHEN t.typcategory = 'T' THEN $$interval '1 s'$$
           WHEN t.typcategory = 'I' THEN format('%%L::%%s', '127.0.0.1', x.name)
       END AS value
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
CROSS JOIN LATERAL (SELECT format_type(a.atttypid, a.atttypmod) AS name) x
WHERE a.attrelid = %(table)s::regclass
  AND a.attnum > 0
  AND NOT a.attisdropped
  AND a.attgenerated = ''
ORDER BY a.attnum
