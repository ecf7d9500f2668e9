-- What keeps schemas apart whose definitions are the same: tablespaces; and objects that have no definition to compare,
-- for which a schema is one of its kind. Parameter: the schemas' OIDs.
SELECT c.relnamespace::int8, string_agg(quote_ident(c.relname) || ' ' || t.spcname, ' ' ORDER BY c.relname, t.spcname)
  FROM pg_tablespace t
  -- by an index; that of the database is not among them
  JOIN pg_class c ON c.reltablespace = t.oid
 WHERE c.relnamespace = ANY (%(schemas)s::oid[])
 GROUP BY 1
 UNION ALL
SELECT d.refobjid::int8, 'schema ' || d.refobjid
  FROM pg_depend d
 WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = ANY (%(schemas)s::oid[])
   AND d.classid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass, 'pg_conversion'::regclass, 'pg_ts_parser'::regclass,
                     'pg_ts_template'::regclass)
 GROUP BY 1, d.refobjid
