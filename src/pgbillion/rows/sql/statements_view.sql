-- the view of the extension pg_stat_statements, wherever it was put: only what is a member of the extension
SELECT n.nspname, c.relname
  FROM pg_extension e
  JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
                  AND d.classid = 'pg_class'::regclass
  JOIN pg_class c ON c.oid = d.objid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE e.extname = 'pg_stat_statements' AND c.relname = 'pg_stat_statements' AND c.relkind = 'v'
