-- The objects of schemas, each as kind, name, and what it is, to be compared: without the schema's own name where it
-- qualifies an object. Strings, comments, and bodies of functions that are texts are as they are; a row of its own shows
-- where a body in SQL or PL/pgSQL has the name before a dot, and makes the schema differ from all others. None of it is
-- meant to be run. Parameter: the schemas' OIDs.
WITH s AS MATERIALIZED (
    SELECT n.oid, n.nspname,
           -- a part that is written in the same way everywhere
           substring(n.nspname::text FROM '^[^''"]*') AS word,
           -- the name as it stands before a dot, and nothing that only ends so
           '(?<![[:alnum:]_$".])' || i.name AS prefix,
           -- the same where a function sets search_path
           $p$(\n SET search_path TO (?:'(?:[^']|'')*', )*)'$p$
           || regexp_replace(replace(n.nspname, '''', ''''''), '([^[:alnum:]_])', '\\\1', 'g') || $p$'(?!')$p$ AS own_path,
           -- what is to be kept, as groups, or that name: strings stay, as a setting may be called so; but for those that
           -- refer to objects
           $p$('(?:[^']|'')*'(?!'|::reg))|(')$p$ || replace(i.name, '''', '''''') || $p$((?:[^']|'')*'::reg)|('(?:[^']|'')*')$p$
           || $p$|("(?:[^"]|"")*")|(?<![[:alnum:]_$".])$p$ || i.name AS strings_or_prefix
      FROM pg_namespace n,
           LATERAL (SELECT regexp_replace(quote_ident(n.nspname), '([^[:alnum:]_])', '\\\1', 'g') || '\.') i (name)
     WHERE n.oid = ANY (%s::oid[])
), d AS MATERIALIZED (
    -- by the index: no other finds what is in a schema
    SELECT s.oid AS schema, d.classid, d.objid
      FROM s
      JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = s.oid
           -- without what is left of the name of an operator's commutator or negator when that operator is dropped
     WHERE CASE WHEN d.classid = 'pg_operator'::regclass THEN EXISTS (
               SELECT FROM pg_operator o
                WHERE o.oid = d.objid
                  AND (o.oprcode::oid <> 0
                       OR EXISTS (SELECT FROM pg_operator x WHERE x.oid IN (o.oprcom, o.oprnegate) AND x.oprnamespace = s.oid)))
           ELSE true END
), t AS MATERIALIZED (
    -- without those of rows and arrays
    SELECT d.schema, t.* FROM d JOIN pg_type t ON t.oid = d.objid WHERE d.classid = 'pg_type'::regclass
), p AS MATERIALIZED (
    SELECT d.schema, p.* FROM d JOIN pg_proc p ON p.oid = d.objid WHERE d.classid = 'pg_proc'::regclass
), f AS MATERIALIZED (
    -- the definition, the length of its end from the body on, if that is a text, and what is before that: there quotes
    -- come in pairs, and the path to its own schema is as migrate has it
    SELECT p.*, w.definition, e.body,
           regexp_replace(regexp_replace(left(w.definition, length(w.definition) - e.body), s.own_path, '\1:''schema'''),
                          s.strings_or_prefix, '\1\2\3\4\5', 'g') AS head
      FROM p
      JOIN s ON s.oid = p.schema,
           LATERAL (SELECT CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid) END) w (definition),
           LATERAL (SELECT CASE WHEN p.prosqlbody IS NULL
                    THEN length(p.prosrc || substring(w.definition FROM '\$(?:function|procedure)x*\$\n$')) ELSE 0 END) e (body)
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'i')
), x AS MATERIALIZED (
    SELECT d.schema, x.* FROM d JOIN pg_statistic_ext x ON x.oid = d.objid WHERE d.classid = 'pg_statistic_ext'::regclass
), r AS MATERIALIZED (
    SELECT d.schema, c.* FROM d JOIN pg_class c ON c.oid = d.objid WHERE d.classid = 'pg_class'::regclass
     UNION ALL SELECT t.schema, c.* FROM t JOIN pg_class c ON c.oid = t.typrelid
     UNION ALL SELECT d.schema, c.* FROM d JOIN pg_index i ON i.indrelid = d.objid JOIN pg_class c ON c.oid = i.indexrelid
     WHERE d.classid = 'pg_class'::regclass
), k AS MATERIALIZED (
    -- casts are in no schema: those of its types, of rows and arrays, too
    SELECT DISTINCT y.schema, k.*
      FROM (SELECT t.schema, unnest(ARRAY[t.oid, t.typarray]) AS oid FROM t
             UNION SELECT r.schema, unnest(ARRAY[u.oid, u.typarray]) FROM r JOIN pg_type u ON u.oid = r.reltype) y
      JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = y.oid AND d.classid = 'pg_cast'::regclass
       AND d.deptype = 'n'
      JOIN pg_cast k ON k.oid = d.objid
), m (schema, classid, objid) AS (
    SELECT s.oid, 'pg_namespace'::regclass::oid, s.oid FROM s
     UNION ALL SELECT r.schema, 'pg_class'::regclass, r.oid FROM r
     UNION ALL SELECT t.schema, 'pg_type'::regclass, t.oid FROM t
     UNION ALL SELECT p.schema, 'pg_proc'::regclass, p.oid FROM p
     UNION ALL SELECT k.schema, 'pg_cast'::regclass, k.oid FROM k
     UNION ALL SELECT x.schema, 'pg_statistic_ext'::regclass, x.oid FROM x
     UNION ALL SELECT r.schema, 'pg_constraint'::regclass, o.oid FROM r JOIN pg_constraint o ON o.conrelid = r.oid
     UNION ALL SELECT t.schema, 'pg_constraint'::regclass, o.oid FROM t JOIN pg_constraint o ON o.contypid = t.oid
     UNION ALL SELECT r.schema, 'pg_trigger'::regclass, g.oid FROM r JOIN pg_trigger g ON g.tgrelid = r.oid
     UNION ALL SELECT r.schema, 'pg_policy'::regclass, p.oid FROM r JOIN pg_policy p ON p.polrelid = r.oid
     UNION ALL SELECT r.schema, 'pg_rewrite'::regclass, w.oid FROM r JOIN pg_rewrite w ON w.ev_class = r.oid
     UNION ALL SELECT d.schema, d.classid, d.objid FROM d
     WHERE d.classid IN ('pg_collation'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_opfamily'::regclass,
                         'pg_conversion'::regclass, 'pg_ts_config'::regclass, 'pg_ts_dict'::regclass,
                         'pg_ts_parser'::regclass, 'pg_ts_template'::regclass)
), object (schema, kind, name, what) AS (
    SELECT r.schema,
           CASE r.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table'
                ELSE 'table' END,
           quote_ident(r.relname),
           CASE WHEN r.relkind IN ('v', 'm') THEN
                    format('CREATE %%s %%I AS %%s', CASE r.relkind WHEN 'v' THEN 'OR REPLACE VIEW' ELSE 'MATERIALIZED VIEW' END,
                           r.relname, rtrim(pg_get_viewdef(r.oid), ';'))
                WHEN r.relkind = 'S' THEN
                    (SELECT format('CREATE SEQUENCE %%I AS %%s INCREMENT BY %%s MINVALUE %%s MAXVALUE %%s START WITH %%s CACHE %%s%%s',
                                   r.relname, format_type(q.seqtypid, NULL), q.seqincrement, q.seqmin, q.seqmax, q.seqstart,
                                   q.seqcache, CASE WHEN q.seqcycle THEN ' CYCLE' ELSE '' END)
                       FROM pg_sequence q WHERE q.seqrelid = r.oid)
                ELSE concat_ws(' ', r.relpersistence, r.reloptions::text, -- a lazy table becomes heap with its first row
                               (SELECT replace(amname, 'lazy_heap', 'heap') FROM pg_am WHERE oid = r.relam),
                               CASE WHEN r.relrowsecurity THEN 'row security' END, CASE WHEN r.relforcerowsecurity THEN 'forced' END,
                               'replica identity ' || r.relreplident::text, pg_get_partkeydef(r.oid),
                               pg_get_expr(r.relpartbound, r.oid),
                               (SELECT string_agg(i.inhparent::regclass::text, ', ' ORDER BY i.inhseqno) FROM pg_inherits i
                                 WHERE i.inhrelid = r.oid),
                               (SELECT 'of ' || t.oid::regtype FROM pg_type t WHERE t.oid = r.reloftype),
                               (SELECT 'toast ' || x.reloptions::text FROM pg_class x
                                 WHERE x.oid = r.reltoastrelid AND x.reloptions IS NOT NULL
                                       -- that of a column that was dropped stays
                                   AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = r.oid AND a.attnum > 0
                                                  AND NOT a.attisdropped AND a.attlen = -1 AND a.attgenerated <> 'v')),
                               (SELECT concat_ws(' ', 'server', f.ftserver, f.ftoptions::text) FROM pg_foreign_table f
                                 WHERE f.ftrelid = r.oid))
           END
      FROM r
     WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
     UNION ALL
    -- of a kind that a later major version adds: no two are known to be the same
    SELECT r.schema, 'relation of an unknown kind', quote_ident(r.relname), format('%%s %%s', r.relkind, r.oid)
      FROM r
     WHERE r.relkind NOT IN ('r', 'p', 'v', 'm', 'S', 'f', 'c', 'i', 'I')
     UNION ALL
    SELECT r.schema, 'options of ' || CASE r.relkind WHEN 'v' THEN 'view' ELSE 'materialized view' END,
           quote_ident(r.relname), r.reloptions::text
      FROM r
     WHERE r.relkind IN ('v', 'm') AND r.reloptions IS NOT NULL
     UNION ALL
    SELECT r.schema, 'owner and grants of', quote_ident(r.relname),
           r.relowner::regrole || ' ' ||
               (SELECT string_agg(item, ', ' ORDER BY item)
                  FROM unnest((coalesce(r.relacl, acldefault(CASE r.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", r.relowner)))::text[]) item)
      FROM r
     WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
     UNION ALL
    SELECT s.oid, 'owner and grants of', 'the schema',
           n.nspowner::regrole || ' ' ||
               (SELECT string_agg(item, ', ' ORDER BY item)
                  FROM unnest((coalesce(n.nspacl, acldefault('n', n.nspowner)))::text[]) item)
      FROM s
      JOIN pg_namespace n ON n.oid = s.oid
     UNION ALL
    SELECT t.schema, 'owner and grants of type', quote_ident(t.typname),
           t.typowner::regrole || ' ' ||
               (SELECT string_agg(item, ', ' ORDER BY item)
                  FROM unnest((coalesce(t.typacl, acldefault('T', t.typowner)))::text[]) item)
      FROM t
     UNION ALL
    SELECT d.schema, 'default privileges of', format('%%s for %%s', g.defaclrole::regrole, g.defaclobjtype),
        (SELECT string_agg(item, ', ' ORDER BY item)
           FROM unnest((g.defaclacl)::text[]) item)
      FROM d
      JOIN pg_default_acl g ON g.oid = d.objid
     WHERE d.classid = 'pg_default_acl'::regclass
     UNION ALL
    SELECT r.schema, 'settings of sequence', quote_ident(r.relname),
           nullif(concat_ws(' ', CASE r.relpersistence WHEN 'u' THEN 'unlogged' END,
                            (SELECT format('owned by %%I.%%I', t.relname, a.attname)
                               FROM pg_depend d
                               JOIN pg_class t ON t.oid = d.refobjid
                               JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
                              WHERE d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
                                AND d.deptype IN ('a', 'i'))), '')
      FROM r
     WHERE r.relkind = 'S'
     UNION ALL
    SELECT r.schema, 'settings of index', quote_ident(r.relname),
           nullif(concat_ws(' ', CASE WHEN x.indisclustered THEN 'clustered' END,
                            CASE WHEN x.indisreplident THEN 'replica identity' END,
                            CASE WHEN NOT x.indisvalid THEN 'not valid' END, r.reloptions::text,
                            (SELECT 'partition of ' || i.inhparent::regclass FROM pg_inherits i WHERE i.inhrelid = r.oid)), '')
      FROM r
      JOIN pg_index x ON x.indexrelid = r.oid
     UNION ALL
    SELECT r.schema, 'settings of column', format('%%I.%%I', r.relname, a.attname),
           concat_ws(' ', CASE WHEN a.attstorage <> t.typstorage THEN 'storage ' || a.attstorage::text END,
                     CASE WHEN a.attcompression <> '' THEN 'compression ' || a.attcompression::text END,
                     CASE WHEN a.attstattarget >= 0 THEN 'statistics ' || a.attstattarget END,
                     nullif(array_to_string(ARRAY(SELECT o FROM unnest(a.attoptions) o WHERE o !~ '^pg_attver=' ORDER BY 1), ' '), ''),
                     (SELECT string_agg(item, ', ' ORDER BY item) FROM unnest((a.attacl)::text[]) item))
      FROM r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_type t ON t.oid = a.atttypid
     WHERE r.relkind IN ('r', 'p', 'm', 'v', 'f', 'c')
       AND (a.attstorage <> t.typstorage OR a.attcompression <> '' OR a.attstattarget >= 0 OR a.attacl IS NOT NULL
            OR EXISTS (SELECT FROM unnest(a.attoptions) o WHERE o !~ '^pg_attver='))
     UNION ALL
    -- a view's columns can have other names than in its query
    SELECT r.schema, 'columns of', quote_ident(r.relname), string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
      FROM r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0
     WHERE r.relkind IN ('v', 'm')
     GROUP BY r.schema, r.relname
     UNION ALL
    SELECT r.schema, 'default of', format('%%I.%%I', r.relname, a.attname), pg_get_expr(e.adbin, e.adrelid)
      FROM r
      JOIN pg_attrdef e ON e.adrelid = r.oid
      JOIN pg_attribute a ON a.attrelid = e.adrelid AND a.attnum = e.adnum
     WHERE r.relkind = 'v'
     UNION ALL
    -- before 18 there are none of NOT NULL; most are told with the column
    SELECT r.schema, 'constraint', format('%%I on %%I', o.conname, r.relname),
           format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', r.relname, o.conname, pg_get_constraintdef(o.oid))
      FROM r
      JOIN pg_constraint o ON o.conrelid = r.oid AND o.contype = 'n'
      JOIN pg_attribute a ON a.attrelid = o.conrelid AND a.attnum = o.conkey[1]
     WHERE o.conname <> format('%%s_%%s_not_null', r.relname, a.attname) OR o.connoinherit OR NOT o.convalidated
     UNION ALL
    SELECT r.schema, 'disabled triggers of constraint', format('%%I on %%I', o.conname, r.relname),
           string_agg(format('%%s %%s', g.tgfoid::regproc, g.tgenabled), ', ' ORDER BY g.tgfoid::regproc::text, g.tgenabled)
      FROM r
      JOIN pg_trigger g ON g.tgrelid = r.oid AND g.tgisinternal AND g.tgenabled <> 'O'
      JOIN pg_constraint o ON o.oid = g.tgconstraint
     GROUP BY r.schema, o.conname, r.relname
     UNION ALL
    -- the order of columns is that of those that are left
    SELECT r.schema, 'column', format('%%I.%%I', r.relname, a.attname),
           format('%%s%%s%%s%%s', format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN ' COLLATE ' || a.attcollation::regcollation
                       ELSE '' END,
                  CASE WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%%s)%%s', pg_get_expr(e.adbin, e.adrelid),
                            CASE a.attgenerated WHEN 's' THEN ' STORED' ELSE ' VIRTUAL' END)
                       WHEN a.attidentity <> '' THEN ' GENERATED ' || CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END
                            || ' AS IDENTITY'
                       ELSE coalesce(' DEFAULT ' || pg_get_expr(e.adbin, e.adrelid), '') END,
                  CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END)
      FROM r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
     WHERE r.relkind IN ('r', 'p', 'f', 'c')
     UNION ALL
    SELECT r.schema, 'order of columns of', quote_ident(r.relname), string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
      FROM r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE r.relkind IN ('r', 'p', 'f', 'c')
     GROUP BY r.schema, r.relname
     UNION ALL
    -- those that a foreign key has for each partition that it refers to are numbered in the order of the partitions
    SELECT r.schema, 'constraint', format('%%I on %%I', o.conname, r.relname),
           format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', r.relname, o.conname, pg_get_constraintdef(o.oid))
      FROM r
      JOIN pg_constraint o ON o.conrelid = r.oid AND o.contype IN ('c', 'p', 'u', 'x', 'f')
     WHERE CASE WHEN o.conparentid <> 0
           THEN NOT EXISTS (SELECT FROM pg_constraint w WHERE w.oid = o.conparentid AND w.conrelid = o.conrelid) ELSE true END
     UNION ALL
    SELECT r.schema, 'index', quote_ident(r.relname),
           pg_get_indexdef(r.oid) || CASE WHEN x.indisvalid THEN '' ELSE ' -- not valid' END
      FROM r
      JOIN pg_index x ON x.indexrelid = r.oid
     WHERE NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = x.indrelid AND o.conindid = x.indexrelid
                          AND o.contype IN ('p', 'u', 'x'))
     UNION ALL
    SELECT r.schema, 'trigger', format('%%I on %%I', g.tgname, r.relname),
           pg_get_triggerdef(g.oid) || CASE g.tgenabled WHEN 'O' THEN '' ELSE ' -- enabled: ' || g.tgenabled::text END
      FROM r
      JOIN pg_trigger g ON g.tgrelid = r.oid AND NOT g.tgisinternal
     UNION ALL
    SELECT r.schema, 'policy', format('%%I on %%I', p.polname, r.relname),
           format('CREATE POLICY %%I ON %%I AS %%s FOR %%s TO %%s%%s%%s', p.polname, r.relname,
                  CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
                  CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
                  (SELECT string_agg(CASE WHEN role = 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ' ORDER BY role::regrole::text)
                     FROM unnest(p.polroles) role),
                  coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ''),
                  coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', ''))
      FROM r
      JOIN pg_policy p ON p.polrelid = r.oid
     UNION ALL
    SELECT r.schema, 'rule', format('%%I on %%I', w.rulename, r.relname),
           pg_get_ruledef(w.oid) || CASE w.ev_enabled WHEN 'O' THEN '' ELSE ' -- enabled: ' || w.ev_enabled::text END
      FROM r
      JOIN pg_rewrite w ON w.ev_class = r.oid AND w.rulename <> '_RETURN'
     UNION ALL
    SELECT f.schema, 'function', regexp_replace(f.oid::regprocedure::text, s.strings_or_prefix, '\1\2\3\4\5', 'g'),
           CASE WHEN f.prokind = 'a' THEN
                (SELECT regexp_replace(concat_ws(' ', f.oid::regprocedure, format_type(f.prorettype, NULL), g.aggkind, g.aggnumdirectargs,
                                  g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.aggserialfn, g.aggdeserialfn, g.aggmtransfn,
                                  g.aggminvtransfn, g.aggmfinalfn, g.aggfinalextra, g.aggmfinalextra, g.aggfinalmodify,
                                  g.aggmfinalmodify, nullif(g.aggsortop, 0)::regoperator, format_type(g.aggtranstype, NULL), g.aggtransspace,
                                  format_type(nullif(g.aggmtranstype, 0), NULL), g.aggmtransspace, quote_nullable(g.agginitval),
                                  quote_nullable(g.aggminitval), f.proparallel), s.strings_or_prefix, '\1\2\3\4\5', 'g')
                   FROM pg_aggregate g WHERE g.aggfnoid = f.oid)
                -- a body that is a text stays
                ELSE f.head || right(f.definition, f.body) END
           || ' -- ' || f.proowner::regrole || ' ' ||
               (SELECT string_agg(item, ', ' ORDER BY item)
                  FROM unnest((coalesce(f.proacl, acldefault('f', f.proowner)))::text[]) item)
      FROM f
      JOIN s ON s.oid = f.schema
     UNION ALL
    -- where the texts are that only a reader of code can take names from; those with the schema's own differ from all
    SELECT f.schema, 'text of function', regexp_replace(f.oid::regprocedure::text, s.strings_or_prefix, '\1\2\3\4\5', 'g'),
           format('%%s %%s', length(f.head), length(f.prosrc))
           || CASE WHEN strpos(f.prosrc, quote_ident(s.nspname) || '.') > 0 THEN ' ' || s.nspname ELSE '' END
      FROM f
      JOIN s ON s.oid = f.schema
     WHERE f.prosqlbody IS NULL AND f.prolang IN (SELECT l.oid FROM pg_language l WHERE l.lanname IN ('sql', 'plpgsql'))
     UNION ALL
    SELECT x.schema, 'statistics', quote_ident(x.stxname),
           pg_get_statisticsobjdef(x.oid) || coalesce(' -- statistics ' || nullif(x.stxstattarget, -1), '')
      FROM x
     UNION ALL
    SELECT t.schema, 'type', quote_ident(t.typname),
           CASE t.typtype
                WHEN 'e' THEN format('CREATE TYPE %%I AS ENUM (%%s)', t.typname,
                     (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
                WHEN 'd' THEN concat_ws(' ', format('CREATE DOMAIN %%I AS %%s', t.typname, format_type(t.typbasetype, t.typtypmod)),
                     (SELECT 'COLLATE ' || t.typcollation::regcollation FROM pg_type b
                       WHERE b.oid = t.typbasetype AND b.typcollation <> t.typcollation),
                     CASE WHEN t.typnotnull THEN 'NOT NULL' END,
                     'DEFAULT ' || pg_get_expr(t.typdefaultbin, 'pg_type'::regclass),
                     (SELECT string_agg(format('CONSTRAINT %%I %%s', o.conname, pg_get_constraintdef(o.oid)), ' ' ORDER BY o.conname)
                        FROM pg_constraint o WHERE o.contypid = t.oid AND o.contype = 'c'))
                WHEN 'r' THEN (SELECT concat_ws(' ', 'range of', format_type(g.rngsubtype, NULL), g.rngsubopc, nullif(g.rngcollation, 0)::regcollation,
                                             nullif(g.rngcanonical, 0)::regproc, nullif(g.rngsubdiff, 0)::regproc)
                                 FROM pg_range g WHERE g.rngtypid = t.oid)
                ELSE t.typtype::text
           END
      FROM t
     UNION ALL
    SELECT k.schema, 'cast', regexp_replace(c.types, s.strings_or_prefix, '\1\2\3\4\5', 'g'),
           concat_ws(' ', 'CREATE CAST', c.types, CASE k.castmethod WHEN 'f' THEN 'WITH FUNCTION ' || k.castfunc::regprocedure
                     WHEN 'i' THEN 'WITH INOUT' ELSE 'WITHOUT FUNCTION' END,
                     CASE k.castcontext WHEN 'a' THEN 'AS ASSIGNMENT' WHEN 'i' THEN 'AS IMPLICIT' END)
      FROM k
      JOIN s ON s.oid = k.schema,
           LATERAL (SELECT format('(%%s AS %%s)', format_type(k.castsource, NULL), format_type(k.casttarget, NULL))) c (types)
     UNION ALL
    -- what has no definition here is told by its name, or by columns of its catalog
    SELECT s.oid, i.type, regexp_replace(i.identity, s.strings_or_prefix, '\1\2\3\4\5', 'g'),
           CASE d.classid
                WHEN 'pg_operator'::regclass THEN
                    (SELECT concat_ws(' ', o.oprcode::oid::regprocedure, 'commutator', nullif(o.oprcom, 0)::regoperator, 'negator',
                                      nullif(o.oprnegate, 0)::regoperator, o.oprrest, o.oprjoin, o.oprcanhash, o.oprcanmerge,
                                      o.oprowner::regrole)
                       FROM pg_operator o WHERE o.oid = d.objid)
                -- whatever columns a major version has
                WHEN 'pg_collation'::regclass THEN
                    (SELECT (to_jsonb(c) - ARRAY['oid', 'collname', 'collnamespace', 'collversion'])::text
                       FROM pg_collation c WHERE c.oid = d.objid)
                WHEN 'pg_ts_dict'::regclass THEN
                    (SELECT concat_ws(' ', (SELECT identity FROM pg_identify_object('pg_ts_template'::regclass, g.dicttemplate, 0)),
                                      g.dictinitoption, g.dictowner::regrole)
                       FROM pg_ts_dict g WHERE g.oid = d.objid)
                WHEN 'pg_ts_config'::regclass THEN
                    (SELECT concat_ws(' ', (SELECT identity FROM pg_identify_object('pg_ts_parser'::regclass, g.cfgparser, 0)),
                                      (SELECT string_agg(format('%%s %%s', w.maptokentype, w.mapdict::regdictionary), ', '
                                                         ORDER BY w.maptokentype, w.mapseqno)
                                         FROM pg_ts_config_map w WHERE w.mapcfg = g.oid), g.cfgowner::regrole)
                       FROM pg_ts_config g WHERE g.oid = d.objid)
                ELSE '' END
      FROM d
      JOIN s ON s.oid = d.schema,
           LATERAL pg_identify_object(d.classid, d.objid, 0) i
     WHERE d.classid IN ('pg_collation'::regclass, 'pg_operator'::regclass, 'pg_opclass'::regclass, 'pg_opfamily'::regclass,
                         'pg_conversion'::regclass, 'pg_ts_config'::regclass, 'pg_ts_dict'::regclass,
                         'pg_ts_parser'::regclass, 'pg_ts_template'::regclass)
     UNION ALL
    SELECT m.schema, 'comment', regexp_replace(i.type || ' ' || i.identity, s.strings_or_prefix, '\1\2\3\4\5', 'g'),
           quote_literal(d.description)
      FROM m
      JOIN s ON s.oid = m.schema
      JOIN pg_description d ON d.objoid = m.objid AND d.classoid = m.classid,
           LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
     WHERE m.classid <> 'pg_namespace'::regclass
     UNION ALL
    SELECT m.schema, 'comment', 'schema', quote_literal(d.description)
      FROM m
      JOIN s ON s.oid = m.schema
      JOIN pg_description d ON d.objoid = m.objid AND d.classoid = m.classid
     WHERE m.classid = 'pg_namespace'::regclass
     UNION ALL
    SELECT m.schema, 'security label of', i.type || ' ' || CASE WHEN m.classid = 'pg_namespace'::regclass THEN ''
           ELSE regexp_replace(i.identity, s.strings_or_prefix, '\1\2\3\4\5', 'g') END || ' by ' || d.provider,
           quote_literal(d.label)
      FROM m
      JOIN s ON s.oid = m.schema
      JOIN pg_seclabel d ON d.objoid = m.objid AND d.classoid = m.classid,
           LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) i
)
SELECT o.schema::int8, o.kind, o.name,
       -- texts have been seen to: quotes in them need not come in pairs
       CASE WHEN o.kind IN ('function', 'text of function', 'comment') OR o.kind LIKE 'security label%%' OR strpos(o.what, s.word) = 0
            THEN o.what
            WHEN o.what !~ '[''"]' THEN regexp_replace(o.what, s.prefix, '', 'g')
            ELSE regexp_replace(o.what, s.strings_or_prefix, '\1\2\3\4\5', 'g') END AS what
  FROM object o
  JOIN s ON s.oid = o.schema
 WHERE o.what IS NOT NULL
