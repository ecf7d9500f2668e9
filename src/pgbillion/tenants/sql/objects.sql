-- The objects of schemas, each as kind, name, and what it is, as SQL that makes it where there is such; the schema's own
-- name is left out everywhere. Parameter: the schemas' OIDs.
WITH s AS MATERIALIZED (
    SELECT n.oid, n.nspname,
           -- the name as it stands before a dot, and nothing that only ends so
           '(?<![[:alnum:]_$".])' || regexp_replace(quote_ident(n.nspname), '([^[:alnum:]_])', '\\\1', 'g') || '\.' AS prefix
      FROM pg_namespace n
     WHERE n.oid = ANY (%s::oid[])
), r AS MATERIALIZED (
    SELECT c.*, s.prefix, s.nspname FROM s JOIN pg_class c ON c.relnamespace = s.oid
), object (schema, prefix, kind, name, what) AS (
    SELECT r.relnamespace, r.prefix,
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
                                 WHERE i.inhrelid = r.oid))
           END
      FROM r
     WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
     UNION ALL
    SELECT r.relnamespace, r.prefix, 'options of ' || CASE r.relkind WHEN 'v' THEN 'view' ELSE 'materialized view' END,
           quote_ident(r.relname), r.reloptions::text
      FROM r
     WHERE r.relkind IN ('v', 'm') AND r.reloptions IS NOT NULL
     UNION ALL
    SELECT r.relnamespace, r.prefix, 'owner and grants of', quote_ident(r.relname),
           r.relowner::regrole || ' ' || (SELECT string_agg(item, ', ' ORDER BY item) FROM unnest(r.relacl::text[]) item)
      FROM r
     WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
     UNION ALL
    -- the order of columns is that of those that are left
    SELECT r.relnamespace, r.prefix, 'column', format('%%I.%%I', r.relname, a.attname),
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
    SELECT r.relnamespace, r.prefix, 'order of columns of', quote_ident(r.relname), string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
      FROM r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE r.relkind IN ('r', 'p', 'f', 'c')
     GROUP BY r.relnamespace, r.prefix, r.relname
     UNION ALL
    SELECT r.relnamespace, r.prefix, 'constraint', format('%%I on %%I', o.conname, r.relname),
           format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', r.relname, o.conname, pg_get_constraintdef(o.oid))
      FROM r
      JOIN pg_constraint o ON o.conrelid = r.oid AND o.contype IN ('c', 'p', 'u', 'x', 'f')
     UNION ALL
    SELECT r.relnamespace, r.prefix, 'index', quote_ident(r.relname),
           pg_get_indexdef(r.oid) || CASE WHEN x.indisvalid THEN '' ELSE ' -- not valid' END
      FROM r
      JOIN pg_index x ON x.indexrelid = r.oid
     WHERE NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = x.indrelid AND o.conindid = x.indexrelid
                          AND o.contype IN ('p', 'u', 'x'))
     UNION ALL
    SELECT r.relnamespace, r.prefix, 'trigger', format('%%I on %%I', g.tgname, r.relname),
           pg_get_triggerdef(g.oid) || CASE g.tgenabled WHEN 'O' THEN '' ELSE ' -- enabled: ' || g.tgenabled::text END
      FROM r
      JOIN pg_trigger g ON g.tgrelid = r.oid AND NOT g.tgisinternal
     UNION ALL
    SELECT r.relnamespace, r.prefix, 'policy', format('%%I on %%I', p.polname, r.relname),
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
    SELECT r.relnamespace, r.prefix, 'rule', format('%%I on %%I', w.rulename, r.relname), pg_get_ruledef(w.oid)
      FROM r
      JOIN pg_rewrite w ON w.ev_class = r.oid AND w.rulename <> '_RETURN'
     UNION ALL
    SELECT s.oid, s.prefix, 'function', regexp_replace(p.oid::regprocedure::text, s.prefix, '', 'g'),
           CASE WHEN p.prokind = 'a' THEN p.oid::regprocedure::text ELSE pg_get_functiondef(p.oid) END
           || ' -- ' || p.proowner::regrole || ' ' || coalesce(p.proacl::text, '')
      FROM s
      JOIN pg_proc p ON p.pronamespace = s.oid
     WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'i')
     UNION ALL
    SELECT s.oid, s.prefix, 'statistics', quote_ident(t.stxname), pg_get_statisticsobjdef(t.oid)
      FROM s
      JOIN pg_statistic_ext t ON t.stxnamespace = s.oid
     UNION ALL
    SELECT s.oid, s.prefix, 'type', quote_ident(t.typname),
           CASE t.typtype
                WHEN 'e' THEN format('CREATE TYPE %%I AS ENUM (%%s)', t.typname,
                     (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
                WHEN 'd' THEN concat_ws(' ', format('CREATE DOMAIN %%I AS %%s', t.typname, format_type(t.typbasetype, t.typtypmod)),
                     CASE WHEN t.typnotnull THEN 'NOT NULL' END,
                     'DEFAULT ' || pg_get_expr(t.typdefaultbin, 'pg_type'::regclass),
                     (SELECT string_agg(format('CONSTRAINT %%I %%s', o.conname, pg_get_constraintdef(o.oid)), ' ' ORDER BY o.conname)
                        FROM pg_constraint o WHERE o.contypid = t.oid AND o.contype = 'c'))
                WHEN 'r' THEN (SELECT format('range of %%s', format_type(g.rngsubtype, NULL)) FROM pg_range g WHERE g.rngtypid = t.oid)
                ELSE t.typtype::text
           END
      FROM s
      JOIN pg_type t ON t.typnamespace = s.oid
     WHERE t.typtype IN ('e', 'd', 'r') OR (t.typtype = 'c' AND EXISTS (SELECT FROM r WHERE r.oid = t.typrelid AND r.relkind = 'c'))
)
SELECT schema::int8, kind, name, coalesce(regexp_replace(what, prefix, '', 'g'), '') AS what
  FROM object
