-- What outside of a schema depends on something in it. Parameter: the schema's name.
WITH RECURSIVE member (classid, objid) AS (
    SELECT 'pg_namespace'::regclass::oid, oid FROM pg_namespace WHERE nspname = %s
     UNION
    SELECT d.classid, d.objid
      FROM member m
      JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid
     -- what is in the schema, and the parts of that
     WHERE m.classid = 'pg_namespace'::regclass OR d.deptype IN ('a', 'i', 'P', 'S')
)
SELECT pg_describe_object(d.classid, d.objid, d.objsubid), pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
  FROM member m
  JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid
 -- a hashed subplan: joins are nested loops here
 WHERE ((d.classid, d.objid) IN (SELECT classid, objid FROM member)) IS NOT TRUE
 ORDER BY 1, 2
