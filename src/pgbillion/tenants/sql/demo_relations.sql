-- What a schema has: tables, indexes, views, sequences and foreign keys.
SELECT count(*) FILTER (WHERE c.relkind IN ('r', 'p')), count(*) FILTER (WHERE c.relkind IN ('i', 'I')),
       count(*) FILTER (WHERE c.relkind IN ('v', 'm')), count(*) FILTER (WHERE c.relkind = 'S'),
       (SELECT count(*) FROM pg_catalog.pg_constraint f WHERE f.connamespace = n.oid AND f.contype = 'f')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s GROUP BY n.oid
