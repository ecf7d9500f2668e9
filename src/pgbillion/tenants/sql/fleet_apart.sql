-- What keeps schemas apart whose definitions are the same: tablespaces; and objects that have no definition to compare,
-- and constraints that their own rows may violate, for which a schema is one of its kind. Parameter: the schemas' OIDs.
SELECT c.relnamespace::int8, string_agg(quote_ident(c.relname) || ' ' || t.spcname, ' ' ORDER BY c.relname, t.spcname)
  FROM pg_class c
  JOIN pg_tablespace t ON t.oid = c.reltablespace
 WHERE c.relnamespace = ANY (%(schemas)s::oid[])
 GROUP BY 1
 UNION ALL
SELECT d.refobjid::int8, 'schema ' || d.refobjid
  FROM pg_depend d
 WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = ANY (%(schemas)s::oid[])
   AND d.classid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass, 'pg_conversion'::regclass, 'pg_ts_parser'::regclass,
                     'pg_ts_template'::regclass)
 GROUP BY 1, d.refobjid
 UNION ALL
SELECT o.connamespace::int8, 'schema ' || o.connamespace
  FROM pg_constraint o
 WHERE o.connamespace = ANY (%(schemas)s::oid[]) AND NOT o.convalidated AND o.contype IN ('c', 'n')
 GROUP BY 1, o.connamespace
