-- What a schema refers to outside of itself: type, names and arguments of its address, identity, and the
-- extension and the schema that it belongs to. What every database has is not told. Parameter: the schema's OID.
WITH RECURSIVE member (classid, objid) AS (
    {members}
), reference (classid, objid, objsubid) AS (
    -- what has a part that is needed is needed, too
    SELECT DISTINCT d.refclassid, d.refobjid, part.number
      FROM member m
      JOIN pg_depend d ON d.classid = m.classid AND d.objid = m.objid
     CROSS JOIN LATERAL (VALUES (0), (d.refobjsubid)) AS part (number)
     -- memberships in publications stay behind
     WHERE m.classid NOT IN ('pg_publication_rel'::regclass, 'pg_publication_namespace'::regclass)
       AND NOT EXISTS (SELECT FROM member i WHERE i.classid = d.refclassid AND i.objid = d.refobjid)
       -- a foreign key names its index: another of the same columns will do
       AND NOT EXISTS (SELECT FROM pg_class c WHERE d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid
                          AND c.relkind IN ('i', 'I'))
)
SELECT i.type, a.object_names, a.object_args, i.identity,
       (SELECT e.extname::text
          FROM pg_depend d
          JOIN pg_extension e ON e.oid = d.refobjid
         WHERE d.classid = r.classid AND d.objid = r.objid AND d.objsubid = 0
           AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'),
       (parse_ident(i.schema))[1]
  FROM reference r
 CROSS JOIN LATERAL pg_identify_object(r.classid, r.objid, r.objsubid) i
 CROSS JOIN LATERAL pg_identify_object_as_address(r.classid, r.objid, r.objsubid) a
 ORDER BY 4
