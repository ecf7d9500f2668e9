-- Functions that are called when rows are copied into a schema as it is restored, by the role that restores it: by
-- constraints of tables and domains, generated columns and partition keys, and by indexes if these are there before the
-- rows. What is SECURITY DEFINER runs as its owner. Parameter: the schema's OID.
WITH RECURSIVE member (classid, objid) AS (
    {members}
)
SELECT DISTINCT pg_describe_object(d.classid, d.objid, 0), f.oid::regprocedure::text, r.rolname::text
  FROM member m
  JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid
  LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
  JOIN pg_proc f ON f.oid = CASE d.refclassid WHEN 'pg_proc'::regclass THEN d.refobjid
                                              WHEN 'pg_operator'::regclass THEN o.oprcode::oid END
  JOIN pg_roles r ON r.oid = f.proowner
 WHERE NOT f.prosecdef
   AND CASE d.classid WHEN 'pg_constraint'::regclass THEN
                 (SELECT c.contype = 'c' AND c.convalidated FROM pg_constraint c WHERE c.oid = d.objid)
                      WHEN 'pg_attrdef'::regclass THEN
                 (SELECT a.attgenerated <> '' FROM pg_attrdef e JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
                   WHERE e.oid = d.objid)
                      WHEN 'pg_class'::regclass THEN
                 (SELECT c.relkind = 'p' OR ({indexes} AND c.relkind IN ('i', 'I')) FROM pg_class c WHERE c.oid = d.objid)
                      ELSE false END
 ORDER BY 1, 2
