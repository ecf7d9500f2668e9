-- A fingerprint of which versions of catalog rows define a schema, and whether there is something in it of whose rows
-- nothing is known here. What creates, alters or drops an object writes such a row anew. Parameter: the schema's OID.
WITH RECURSIVE member (classid, objid) AS (
    {members}
), relation (oid) AS (
    SELECT objid FROM member WHERE classid = 'pg_class'::regclass
), version (catalog, row, writer) AS (
    SELECT 'pg_namespace', n.ctid, n.xmin FROM pg_namespace n WHERE n.oid IN (SELECT objid FROM member WHERE classid = 'pg_namespace'::regclass)
     UNION ALL
    SELECT 'pg_class', c.ctid, c.xmin FROM relation r JOIN pg_class c ON c.oid = r.oid
     UNION ALL
    SELECT 'pg_attribute', a.ctid, a.xmin FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid
     UNION ALL
    SELECT 'pg_attrdef', d.ctid, d.xmin FROM relation r JOIN pg_attrdef d ON d.adrelid = r.oid
     UNION ALL
    SELECT 'pg_index', x.ctid, x.xmin FROM relation r JOIN pg_index x ON x.indrelid = r.oid
     UNION ALL
    SELECT 'pg_inherits', i.ctid, i.xmin FROM relation r JOIN pg_inherits i ON i.inhrelid = r.oid
     UNION ALL
    SELECT 'pg_partitioned_table', p.ctid, p.xmin FROM relation r JOIN pg_partitioned_table p ON p.partrelid = r.oid
     UNION ALL
    SELECT 'pg_foreign_table', f.ctid, f.xmin FROM relation r JOIN pg_foreign_table f ON f.ftrelid = r.oid
     UNION ALL
    SELECT 'pg_sequence', s.ctid, s.xmin FROM relation r JOIN pg_sequence s ON s.seqrelid = r.oid
     UNION ALL
    SELECT 'pg_trigger', t.ctid, t.xmin FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid
     UNION ALL
    SELECT 'pg_rewrite', w.ctid, w.xmin FROM relation r JOIN pg_rewrite w ON w.ev_class = r.oid
     UNION ALL
    SELECT 'pg_policy', p.ctid, p.xmin FROM relation r JOIN pg_policy p ON p.polrelid = r.oid
     UNION ALL
    SELECT 'pg_statistic_ext', s.ctid, s.xmin FROM relation r JOIN pg_statistic_ext s ON s.stxrelid = r.oid
     UNION ALL
    SELECT 'pg_constraint', o.ctid, o.xmin FROM member m JOIN pg_constraint o ON m.classid = 'pg_constraint'::regclass AND o.oid = m.objid
     UNION ALL
    SELECT 'pg_type', t.ctid, t.xmin FROM member m JOIN pg_type t ON m.classid = 'pg_type'::regclass AND t.oid = m.objid
     UNION ALL
    SELECT 'pg_enum', e.ctid, e.xmin FROM member m JOIN pg_enum e ON m.classid = 'pg_type'::regclass AND e.enumtypid = m.objid
     UNION ALL
    SELECT 'pg_range', g.ctid, g.xmin FROM member m JOIN pg_range g ON m.classid = 'pg_type'::regclass AND g.rngtypid = m.objid
     UNION ALL
    SELECT 'pg_proc', f.ctid, f.xmin FROM member m JOIN pg_proc f ON m.classid = 'pg_proc'::regclass AND f.oid = m.objid
     UNION ALL
    SELECT 'pg_default_acl', a.ctid, a.xmin FROM member m JOIN pg_default_acl a ON m.classid = 'pg_default_acl'::regclass AND a.oid = m.objid
     UNION ALL
    SELECT 'pg_description', d.ctid, d.xmin FROM member m JOIN pg_description d ON d.classoid = m.classid AND d.objoid = m.objid
)
SELECT (SELECT count(*) FROM version),
       (SELECT sum(hashtextextended(v.catalog || v.row::text || ' ' || v.writer::text, 0)) FROM version v)::text,
       EXISTS (SELECT FROM member m
                WHERE m.classid <> ALL (ARRAY['pg_namespace', 'pg_class', 'pg_attrdef', 'pg_trigger', 'pg_rewrite', 'pg_policy',
                                              'pg_statistic_ext', 'pg_constraint', 'pg_type', 'pg_proc', 'pg_default_acl',
                                              'pg_publication_rel', 'pg_publication_namespace']::regclass[]))
