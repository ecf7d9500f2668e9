-- How many tables of a schema have a name of one length between low and high that matches the pattern.
-- Names are compared as bytes; the unique index on (relname, relnamespace) serves the range.
SELECT count(*)
FROM pg_class
WHERE relname >= %(low)s::name AND relname <= %(high)s::name
  AND relname ~ %(pattern)s
  AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
  AND relkind IN ('r', 'p')
