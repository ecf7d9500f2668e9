-- What of schemas lies in a tablespace of its choice, and whether it is in one; the small ones first, so
-- that much is done soon. Parameters: the tablespace's name, schemas.
SELECT n.nspname::text, c.relkind::text, c.relname::text,
       CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END = t.oid
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 CROSS JOIN (SELECT oid FROM pg_tablespace WHERE spcname = %s) t
 CROSS JOIN (SELECT dattablespace FROM pg_database WHERE datname = current_database()) d
 WHERE c.relnamespace = ANY (%s::oid[]) AND c.relkind IN ('r', 'p', 'm', 'i', 'I')
 ORDER BY n.nspname::text COLLATE "C", c.relpages, c.relname
