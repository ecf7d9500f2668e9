-- How many locks DROP SCHEMA takes, about: one for each object in the schema and for each part of those. Parameter: the name.
WITH RECURSIVE member (classid, objid) AS (
    SELECT 'pg_namespace'::regclass::oid, oid FROM pg_namespace WHERE nspname = %s
     UNION
    SELECT d.classid, d.objid
      FROM member m
      JOIN pg_depend d ON d.refclassid = m.classid AND d.refobjid = m.objid
     WHERE m.classid = 'pg_namespace'::regclass OR d.deptype IN ('a', 'i', 'P', 'S')
)
SELECT count(*) FROM member
