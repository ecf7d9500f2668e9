-- The defaults of a template that use a sequence which one of its columns owns (one of an identity column is no default's):
-- the sequence as it stands in them, the owning column, the sequence's options, the column and its default.
SELECT
    '''' || pg_catalog.replace(s.oid::regclass::text, '''', '''''') || '''::regclass',
    o.attname,
    pg_catalog.format(
        'AS %%s INCREMENT BY %%s MINVALUE %%s MAXVALUE %%s START WITH %%s CACHE %%s %%s',
        pg_catalog.format_type(q.seqtypid, NULL), q.seqincrement, q.seqmin, q.seqmax, q.seqstart, q.seqcache,
        CASE WHEN q.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END
    ),
    a.attname,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM pg_catalog.pg_attrdef d
JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
JOIN pg_catalog.pg_depend uses ON uses.classid = 'pg_catalog.pg_attrdef'::regclass AND uses.objid = d.oid
    AND uses.refclassid = 'pg_catalog.pg_class'::regclass AND uses.deptype = 'n'
JOIN pg_catalog.pg_class s ON s.oid = uses.refobjid AND s.relkind = 'S'
JOIN pg_catalog.pg_depend owned ON owned.classid = 'pg_catalog.pg_class'::regclass AND owned.objid = s.oid
    AND owned.refclassid = 'pg_catalog.pg_class'::regclass AND owned.refobjid = d.adrelid AND owned.deptype = 'a'
JOIN pg_catalog.pg_attribute o ON o.attrelid = d.adrelid AND o.attnum = owned.refobjsubid
JOIN pg_catalog.pg_sequence q ON q.seqrelid = s.oid
WHERE d.adrelid = pg_catalog.to_regclass(%(template)s)
ORDER BY d.adnum, s.oid
