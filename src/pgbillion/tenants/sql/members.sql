-- A schema, what is in it, and the parts of that. Parameter: the schema's OID.
SELECT 'pg_namespace'::regclass::oid, %s::oid
 UNION
SELECT d.classid, d.objid
  FROM member m
  JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid
 WHERE m.classid = 'pg_namespace'::regclass OR d.deptype IN ('a', 'i', 'P', 'S')
