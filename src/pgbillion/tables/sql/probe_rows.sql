-- What a set of tables keeps in the catalogs: rows, bytes of rows, and bytes of index entries, by catalog.
-- Parameters: tables (oid[]), family (oid[]), as probe_family.sql gives them.
WITH family AS MATERIALIZED (
    SELECT oid FROM unnest(%(family)s::oid[]) AS f (oid)
), types AS MATERIALIZED (
    SELECT t.oid, t.typarray FROM pg_type t JOIN (SELECT reltype FROM pg_class JOIN family USING (oid)) c ON t.oid = c.reltype
), all_types AS MATERIALIZED (
    SELECT oid FROM types UNION SELECT typarray FROM types WHERE typarray <> 0
), constraints AS MATERIALIZED (
    SELECT k.oid FROM pg_constraint k JOIN family ON k.conrelid = family.oid
), defaults AS MATERIALIZED (
    SELECT a.oid FROM pg_attrdef a JOIN family ON a.adrelid = family.oid
), statistics AS MATERIALIZED (
    SELECT s.oid FROM pg_statistic_ext s WHERE s.stxrelid = ANY (%(tables)s::oid[])
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
    -- bytes of one row's entries in all indexes of its catalog: header and line pointer, then the keys, aligned to 8
    SELECT i.indrelid AS catalog, count(*) AS indexes, sum(12 + (k.width + 7) / 8 * 8) AS bytes
    FROM pg_index i
    JOIN LATERAL (
        -- the few keys of variable length are absent or short
        SELECT sum(CASE WHEN attlen > 0 THEN attlen ELSE 16 END) AS width FROM pg_attribute WHERE attrelid = i.indexrelid
    ) k ON true
    WHERE i.indrelid = ANY (ARRAY(SELECT catalog::oid FROM kept))
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
