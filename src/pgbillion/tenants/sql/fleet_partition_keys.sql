-- Commands that give foreign keys of partitions the names and comments that they have of their own: pg_dump has
-- PostgreSQL make them from those of the partitioned table. Parameter: the schema's OID.
WITH RECURSIVE k AS MATERIALIZED (
    SELECT o.oid, o.conparentid, o.conname, n.nspname, c.relname
      FROM pg_namespace n
      JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid AND d.classid = 'pg_class'::regclass
      JOIN pg_class c ON c.oid = d.objid
      JOIN pg_constraint o ON o.conrelid = c.oid
      JOIN pg_constraint p ON p.oid = o.conparentid
     -- others of the same table are for partitions of the table that it refers to
     WHERE n.oid = %s::oid AND o.contype = 'f' AND p.conrelid <> o.conrelid
), up (oid, above) AS (
    SELECT k.oid, k.conparentid FROM k
     UNION
    SELECT up.oid, o.conparentid FROM up JOIN pg_constraint o ON o.oid = up.above WHERE o.conparentid <> 0
)
SELECT format('ALTER TABLE %%I.%%I RENAME CONSTRAINT %%I TO %%I', k.nspname, k.relname, root.conname, k.conname)
  FROM k
  JOIN up ON up.oid = k.oid
  JOIN pg_constraint root ON root.oid = up.above AND root.conparentid = 0
 WHERE root.conname <> k.conname
 UNION ALL
SELECT format('COMMENT ON CONSTRAINT %%I ON %%I.%%I IS %%L', k.conname, k.nspname, k.relname, t.description)
  FROM k
  JOIN pg_description t ON t.classoid = 'pg_constraint'::regclass AND t.objoid = k.oid
