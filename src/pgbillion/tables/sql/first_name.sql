-- The first relation of any kind that has one of the names, as in count_names.sql.
SELECT relname
FROM pg_class
WHERE relname >= %(low)s::name AND relname <= %(high)s::name
  AND relname ~ %(pattern)s
  AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
ORDER BY relname
LIMIT 1
