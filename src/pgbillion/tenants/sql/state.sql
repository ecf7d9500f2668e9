-- What is in a schema, and which transaction has written it: what changes when somebody creates, alters or drops there.
-- Parameter: the schema's OID.
SELECT d.classid::int8, d.objid::int8, coalesce(p.xmin::text, c.xmin::text)
  FROM pg_depend d
  LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
  LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
 WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = %s::oid
 ORDER BY 1, 2
