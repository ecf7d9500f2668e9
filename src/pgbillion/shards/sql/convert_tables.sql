-- The foreign tables of a server, as commands. Parameter: its OID.
-- Returns a table's name, its columns and constraints, the clause of its options, and the commands that follow.
SELECT t.name,
       ARRAY(
           SELECT concat(
                      quote_ident(a.attname), ' ', format_type(a.atttypid, a.atttypmod),
                      (SELECT ' OPTIONS (' || string_agg(format('%%I %%L', option_name, option_value), ', ') || ')'
                         FROM pg_options_to_table(a.attfdwoptions)),
                      (SELECT format(' COLLATE %%I.%%I', n.nspname, o.collname)
                         FROM pg_collation o JOIN pg_namespace n ON n.oid = o.collnamespace
                              JOIN pg_type y ON y.oid = a.atttypid
                        WHERE o.oid = a.attcollation AND a.attcollation <> y.typcollation),
                      (SELECT format(CASE a.attgenerated WHEN '' THEN ' DEFAULT %%s'
                                                         WHEN 's' THEN ' GENERATED ALWAYS AS (%%s) STORED'
                                                         ELSE ' GENERATED ALWAYS AS (%%s) VIRTUAL' END,
                                     pg_get_expr(d.adbin, d.adrelid))
                         FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum),
                      CASE WHEN a.attnotnull THEN ' NOT NULL' END)
             FROM pg_attribute a
            WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum
       ) || ARRAY(
           SELECT format('CONSTRAINT %%I %%s', conname, pg_get_constraintdef(oid))
             FROM pg_constraint WHERE conrelid = t.oid AND contype = 'c' ORDER BY conname
       ),
       coalesce(
           (SELECT ' OPTIONS (' || string_agg(format('%%I %%L', option_name, option_value), ', ') || ')'
              FROM pg_options_to_table(t.options)),
           ''
       ),
       ARRAY(
           SELECT format('ALTER TABLE %%I.%%I ATTACH PARTITION %%s %%s',
                         n.nspname, p.relname, t.name, pg_get_expr(t.bound, t.oid))
             FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace n ON n.oid = p.relnamespace
            WHERE i.inhrelid = t.oid
       ) || ARRAY(
           SELECT format('GRANT %%s ON TABLE %%s TO %%s%%s', privilege_type, t.name,
                         CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
                         CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
             FROM aclexplode(t.acl)
            WHERE grantee <> t.owner
       ) || ARRAY(
           SELECT format('COMMENT ON %%s IS %%L',
                         CASE d.objsubid WHEN 0 THEN 'FOREIGN TABLE ' || t.name
                                         ELSE format('COLUMN %%s.%%I', t.name, a.attname) END,
                         d.description)
             FROM pg_description d
                  LEFT JOIN pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid
            WHERE d.classoid = 'pg_class'::regclass AND d.objoid = t.oid
            ORDER BY d.objsubid
       ) || ARRAY(
           SELECT format('ALTER FOREIGN TABLE %%s OWNER TO %%I', t.name, pg_get_userbyid(t.owner))
            WHERE pg_get_userbyid(t.owner) <> current_user
       )
  FROM (SELECT c.oid, format('%%I.%%I', n.nspname, c.relname) AS name, f.ftoptions AS options, c.relacl AS acl,
               c.relowner AS owner, c.relpartbound AS bound
          FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE f.ftserver = %(server)s) AS t
 ORDER BY t.name
