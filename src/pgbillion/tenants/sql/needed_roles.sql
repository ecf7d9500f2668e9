-- The roles and tablespaces that a schema and what is in it name. Parameters: the schema's OID, twice.
WITH RECURSIVE member (classid, objid) AS (
    {members}
), named (oid) AS (
    SELECT s.refobjid
      FROM member m
      JOIN pg_shdepend s ON s.classid = m.classid AND s.objid = m.objid
     WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND s.refclassid = 'pg_authid'::regclass
     UNION
    -- the superuser of initdb is in no such list
    SELECT nspowner FROM pg_namespace WHERE oid = %s::oid
     UNION
    SELECT c.relowner FROM member m JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
)
SELECT 'role', r.rolname::text FROM named n JOIN pg_roles r ON r.oid = n.oid
 UNION
SELECT 'tablespace', t.spcname::text
  FROM member m
  JOIN pg_class c ON m.classid = 'pg_class'::regclass AND c.oid = m.objid
  JOIN pg_tablespace t ON t.oid = c.reltablespace
 ORDER BY 1, 2
