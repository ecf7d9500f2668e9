-- A template by its name: its bare name, whether it is a system catalog, and the first thing, of those that tables made
-- by LIKE would lack, that it has; with the name of that, where it has one.
SELECT c.relname, c.oid < 12000::oid, found.what, found.which
FROM pg_catalog.pg_class c
LEFT JOIN LATERAL (
    SELECT * FROM (
        SELECT 1, 'partitions', NULL::name WHERE c.relkind = 'p'
        UNION ALL SELECT 2, 'foreign key', conname FROM pg_catalog.pg_constraint
            WHERE conrelid = c.oid AND contype = 'f'
        UNION ALL SELECT 3, 'trigger', tgname FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal
        UNION ALL SELECT 4, 'rules', NULL FROM pg_catalog.pg_rewrite WHERE ev_class = c.oid
        UNION ALL SELECT 5, 'row security', NULL WHERE c.relrowsecurity OR c.relforcerowsecurity
        UNION ALL SELECT 5, 'row security', NULL FROM pg_catalog.pg_policy WHERE polrelid = c.oid
        UNION ALL SELECT 6, 'inheritance', NULL FROM pg_catalog.pg_inherits
            WHERE inhrelid = c.oid AND NOT c.relispartition
        UNION ALL SELECT 7, 'a generated column that uses a sequence of its own', NULL
            FROM pg_catalog.pg_attribute a
            JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
            -- in this order: without statistics the planner might begin with all defaults of the database
            CROSS JOIN LATERAL (
                SELECT uses.refobjid FROM pg_catalog.pg_depend uses
                WHERE uses.classid = 'pg_catalog.pg_attrdef'::regclass AND uses.objid = d.oid
                    AND uses.refclassid = 'pg_catalog.pg_class'::regclass
                OFFSET 0
            ) used
            CROSS JOIN LATERAL (
                SELECT FROM pg_catalog.pg_depend owned
                WHERE owned.classid = 'pg_catalog.pg_class'::regclass AND owned.objid = used.refobjid
                    AND owned.deptype = 'a' AND owned.refclassid = 'pg_catalog.pg_class'::regclass
                    AND owned.refobjid = c.oid
                OFFSET 0
            ) own
            WHERE a.attrelid = c.oid AND a.attgenerated <> ''
    ) AS each (place, what, which)
    ORDER BY place, which LIMIT 1
) AS found ON true
WHERE c.oid = pg_catalog.to_regclass(%(template)s)
