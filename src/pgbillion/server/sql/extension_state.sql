-- An extension in this database: its version, whether its schema is there, and which of its functions may be called.
-- Parameter: its name, which is its schema's.
SELECT e.extversion,
       n.oid IS NOT NULL,
       ARRAY (
           SELECT p.proname::text
             FROM pg_depend d
             JOIN pg_proc p ON p.oid = d.objid
            WHERE d.refclassid = 'pg_extension'::regclass
              AND d.refobjid = e.oid
              AND d.classid = 'pg_proc'::regclass
              AND d.deptype = 'e'
              AND p.pronamespace = n.oid
              AND has_schema_privilege(n.oid, 'USAGE')
              AND has_function_privilege(p.oid, 'EXECUTE'))
  FROM (SELECT) one
       LEFT JOIN pg_namespace n ON n.nspname = %(name)s
       LEFT JOIN (pg_extension e
                  JOIN pg_depend m ON m.refclassid = 'pg_extension'::regclass AND m.refobjid = e.oid
                                  AND m.classid = 'pg_namespace'::regclass AND m.deptype = 'e')
              ON e.extname = %(name)s AND m.objid = n.oid
