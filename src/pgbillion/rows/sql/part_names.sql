-- The index and the sequence of a table: what each is, as ALTER calls it, and its name.
-- Parameter: the table.
SELECT 'INDEX', c.relname::text
  FROM pg_index i
       JOIN pg_class c ON c.oid = i.indexrelid
 WHERE i.indrelid = %(table)s::regclass
UNION ALL
SELECT 'SEQUENCE', c.relname
  FROM pg_depend d
       JOIN pg_class c ON c.oid = d.objid AND c.relkind = 'S'
 WHERE d.classid = 'pg_class'::regclass
   AND d.refclassid = 'pg_class'::regclass
   AND d.refobjid = %(table)s::regclass
   AND d.deptype = 'a'
 ORDER BY 1
