-- Commands that give what a role owns in a schema to another role, the schema last. Parameters: the schema's name, both
-- roles' names.
WITH n AS MATERIALIZED (
    SELECT n.oid, n.nspname, n.nspowner, r.oid AS owner
      FROM pg_namespace n, pg_roles r
     WHERE n.nspname = %(schema)s AND r.rolname = %(old)s
), d AS MATERIALIZED (
    SELECT d.classid, d.objid FROM n JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
)
SELECT format('ALTER %%s %%s OWNER TO %%I', o.kind, o.name, %(new)s::text)
  FROM (SELECT 1 AS place, c.oid, CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
               format('%%I.%%I', n.nspname, c.relname)
          FROM n, d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE c.relowner = n.owner AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
           -- a column's goes with the table
           AND NOT (c.relkind = 'S' AND EXISTS (SELECT FROM pg_depend a WHERE a.classid = 'pg_class'::regclass AND a.objid = c.oid
                                                   AND a.refclassid = 'pg_class'::regclass AND a.deptype IN ('a', 'i')))
         UNION ALL
        SELECT 2, t.oid, CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, format('%%I.%%I', n.nspname, t.typname)
          FROM n, d JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
         WHERE t.typowner = n.owner AND t.typtype IN ('c', 'd', 'e', 'r')
         UNION ALL
        SELECT 3, p.oid, 'ROUTINE', p.oid::regprocedure::text
          FROM n, d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
         WHERE p.proowner = n.owner
         UNION ALL
        SELECT 4, x.oid, 'STATISTICS', format('%%I.%%I', n.nspname, x.stxname)
          FROM n, d JOIN pg_statistic_ext x ON d.classid = 'pg_statistic_ext'::regclass AND x.oid = d.objid
         WHERE x.stxowner = n.owner
         UNION ALL
        SELECT 5, n.oid, 'SCHEMA', quote_ident(n.nspname) FROM n WHERE n.nspowner = n.owner) o (place, oid, kind, name)
 ORDER BY o.place, o.oid
