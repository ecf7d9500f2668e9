-- The tables of a distributed table on a node: its name and their number. Parameters: schema and name.
SELECT relname
  FROM pg_class
 WHERE relnamespace = to_regnamespace(quote_ident(%(schema)s))
   AND relkind = 'r'
   AND left(relname, length(%(table)s) + 1) = %(table)s || '_'
   AND substr(relname, length(%(table)s) + 2) ~ '^[0-9]+$'
 ORDER BY relname
