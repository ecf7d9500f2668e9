-- The tables of a schema that have rows of their own: name, kind and persistence, owner, whether policies would hide rows
-- from this role, replica identity with its index, whether that identifies rows, an index that would, and the columns
-- that are stored. Parameter: the schema's OID.
SELECT c.relname::text, c.relkind::text, c.relpersistence::text, r.rolname::text,
       row_security_active(c.oid),
       c.relreplident::text,
       (SELECT i.relname::text FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
         WHERE x.indrelid = c.oid AND x.indisreplident),
       CASE c.relreplident
            WHEN 'f' THEN true
            WHEN 'd' THEN EXISTS (SELECT FROM pg_index x
                                   WHERE x.indrelid = c.oid AND x.indisprimary AND x.indisvalid AND x.indimmediate)
            WHEN 'i' THEN EXISTS (SELECT FROM pg_index x
                                   WHERE x.indrelid = c.oid AND x.indisreplident AND x.indisvalid AND x.indimmediate)
            ELSE false END,
       (SELECT i.relname::text
          FROM pg_index x
          JOIN pg_class i ON i.oid = x.indexrelid
          JOIN pg_am m ON m.oid = i.relam
         WHERE x.indrelid = c.oid AND x.indisunique AND x.indisvalid AND x.indimmediate AND x.indpred IS NULL
           AND x.indexprs IS NULL AND m.amname = 'btree'
           AND NOT EXISTS (SELECT FROM pg_attribute a
                            WHERE a.attrelid = c.oid AND a.attnum = ANY (x.indkey[0:x.indnkeyatts - 1])
                              AND NOT a.attnotnull)
         ORDER BY x.indisprimary DESC, x.indnkeyatts, i.relname
         LIMIT 1),
       ARRAY(SELECT a.attname::text FROM pg_attribute a
              WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
              ORDER BY a.attnum)
  FROM pg_depend d
  JOIN pg_class c ON c.oid = d.objid
  JOIN pg_roles r ON r.oid = c.relowner
 WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = %s::oid AND d.classid = 'pg_class'::regclass
   AND c.relkind IN ('r', 'p')
 ORDER BY c.oid
