-- What is in a schema and can be dropped by itself, with the word for it, what was created last first: views before their
-- tables, partitions before their parents. Parameters: the name, how many at most.
WITH schema AS (SELECT oid, nspname FROM pg_namespace WHERE nspname = %s),
part (place, oid, command) AS (
    SELECT 1, c.oid, format('DROP %%s IF EXISTS %%I.%%I CASCADE',
                            CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                                           WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN 'FOREIGN TABLE' ELSE 'TABLE' END,
                            s.nspname, c.relname)
      FROM schema s
      JOIN pg_class c ON c.relnamespace = s.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
     -- a column's sequence goes with the column
     WHERE NOT EXISTS (SELECT FROM pg_depend d
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND c.relkind = 'S'
                          AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'))
       AND NOT EXISTS (SELECT FROM pg_depend d
                        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
     UNION ALL
    SELECT 2, p.oid, format('DROP ROUTINE IF EXISTS %%s CASCADE', p.oid::regprocedure)
      FROM schema s
      JOIN pg_proc p ON p.pronamespace = s.oid AND p.prokind <> 'a'
     -- a range's constructors go with the range
     WHERE NOT EXISTS (SELECT FROM pg_depend d
                        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype IN ('i', 'e'))
     UNION ALL
    SELECT 3, t.oid, format('DROP TYPE IF EXISTS %%s CASCADE', t.oid::regtype)
      FROM schema s
      JOIN pg_type t ON t.typnamespace = s.oid
     WHERE NOT EXISTS (SELECT FROM pg_depend d
                        WHERE d.classid = 'pg_type'::regclass AND d.objid = t.oid AND d.deptype IN ('i', 'e'))
)
SELECT command FROM part ORDER BY place, oid DESC LIMIT %s
