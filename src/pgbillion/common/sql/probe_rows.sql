-- What a set of tables keeps in the catalogues: rows, bytes of rows, and bytes of index entries, by catalogue.
-- Parameters: names (text[]), schema (text).
WITH made AS MATERIALIZED (
    SELECT c.oid
    FROM pg_class c
    WHERE c.relname = ANY (%(names)s::name[])
      AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
), stored AS MATERIALIZED (
    SELECT oid FROM made
    UNION
    SELECT c.reltoastrelid FROM pg_class c JOIN made USING (oid) WHERE c.reltoastrelid <> 0
), family AS MATERIALIZED (
    SELECT oid FROM stored
    UNION
    SELECT i.indexrelid FROM pg_index i JOIN stored ON i.indrelid = stored.oid
    UNION
    -- sequences of serial and identity columns
    SELECT d.objid
    FROM pg_depend d JOIN made ON d.refobjid = made.oid
    WHERE d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
), types AS MATERIALIZED (
    SELECT t.oid, t.typarray FROM pg_type t JOIN (SELECT reltype FROM pg_class JOIN family USING (oid)) c ON t.oid = c.reltype
), all_types AS MATERIALIZED (
    SELECT oid FROM types UNION SELECT typarray FROM types WHERE typarray <> 0
), constraints AS MATERIALIZED (
    SELECT k.oid FROM pg_constraint k JOIN family ON k.conrelid = family.oid
), defaults AS MATERIALIZED (
    SELECT a.oid FROM pg_attrdef a JOIN family ON a.adrelid = family.oid
), statistics AS MATERIALIZED (
    SELECT s.oid FROM pg_statistic_ext s JOIN made ON s.stxrelid = made.oid
), objects AS MATERIALIZED (
    SELECT 'pg_class'::regclass AS classid, oid AS objid FROM family
    UNION ALL SELECT 'pg_type'::regclass, oid FROM all_types
    UNION ALL SELECT 'pg_constraint'::regclass, oid FROM constraints
    UNION ALL SELECT 'pg_attrdef'::regclass, oid FROM defaults
    UNION ALL SELECT 'pg_statistic_ext'::regclass, oid FROM statistics
), kept (catalog, rows, bytes) AS (
    SELECT 'pg_class'::regclass, count(*), sum(pg_column_size(r)) FROM pg_class r JOIN family USING (oid)
    UNION ALL
    SELECT 'pg_attribute'::regclass, count(*), sum(pg_column_size(r)) FROM pg_attribute r JOIN family f ON r.attrelid = f.oid
    UNION ALL
    SELECT 'pg_type'::regclass, count(*), sum(pg_column_size(r)) FROM pg_type r JOIN all_types USING (oid)
    UNION ALL
    SELECT 'pg_index'::regclass, count(*), sum(pg_column_size(r)) FROM pg_index r JOIN family f ON r.indexrelid = f.oid
    UNION ALL
    SELECT 'pg_constraint'::regclass, count(*), sum(pg_column_size(r)) FROM pg_constraint r JOIN constraints USING (oid)
    UNION ALL
    SELECT 'pg_attrdef'::regclass, count(*), sum(pg_column_size(r)) FROM pg_attrdef r JOIN defaults USING (oid)
    UNION ALL
    SELECT 'pg_sequence'::regclass, count(*), sum(pg_column_size(r)) FROM pg_sequence r JOIN family f ON r.seqrelid = f.oid
    UNION ALL
    SELECT 'pg_statistic_ext'::regclass, count(*), sum(pg_column_size(r)) FROM pg_statistic_ext r JOIN statistics USING (oid)
    UNION ALL
    SELECT 'pg_depend'::regclass, count(*), sum(pg_column_size(r)) FROM pg_depend r JOIN objects USING (classid, objid)
    UNION ALL
    SELECT 'pg_shdepend'::regclass, count(*), sum(pg_column_size(r))
    FROM pg_shdepend r JOIN objects USING (classid, objid)
    WHERE r.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    UNION ALL
    SELECT 'pg_description'::regclass, count(*), sum(pg_column_size(r))
    FROM pg_description r JOIN objects o ON r.classoid = o.classid AND r.objoid = o.objid
), entries AS (
    -- bytes of one row's entries in all indexes of its catalogue: header and line pointer, then the keys, aligned to 8
    SELECT i.indrelid AS catalog, count(*) AS indexes, sum(12 + (k.width + 7) / 8 * 8) AS bytes
    FROM pg_index i
    JOIN LATERAL (
        -- the few keys of variable length are absent or short
        SELECT sum(CASE WHEN attlen > 0 THEN attlen ELSE 16 END) AS width FROM pg_attribute WHERE attrelid = i.indexrelid
    ) k ON true
    WHERE i.indrelid IN (SELECT catalog FROM kept)
    GROUP BY i.indrelid
)
SELECT (SELECT relname::text FROM pg_class WHERE oid = catalog),
       rows,
       -- rows are aligned to 8 bytes, and each has a line pointer of 4
       coalesce(kept.bytes, 0) + 8 * rows AS row_bytes,
       rows * entries.indexes AS entries,
       rows * entries.bytes AS entry_bytes
FROM kept JOIN entries USING (catalog)
WHERE rows > 0
ORDER BY 1;
