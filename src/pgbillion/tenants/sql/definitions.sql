-- The definitions of what is in a schema, as statements that make it where the schema is the search path: to be read with
-- that search path, so that PostgreSQL leaves out the schema's own name, and nobody else has to. Each has its kind and
-- name as objects.sql has them, whether a copy needs the statement, and of a column its type, default, and whether it is
-- NOT NULL; without a statement there is none that does. Parameter: the schema's OID.
WITH n AS MATERIALIZED (
    SELECT n.oid, quote_ident(n.nspname) || '.' AS prefix, quote_literal(n.nspname) AS path FROM pg_namespace n WHERE n.oid = {schema}
), r AS MATERIALIZED (
    SELECT c.* FROM pg_class c JOIN n ON n.oid = c.relnamespace
), a AS MATERIALIZED (
    SELECT r.relkind, quote_ident(r.relname) AS relation, quote_ident(a.attname) AS name, a.attnum, a.attnotnull, a.attrelid,
           a.attgenerated <> '' OR a.attidentity <> '' AS is_generated,
           format_type(a.atttypid, a.atttypmod)
           || CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation THEN ' COLLATE ' || a.attcollation::regcollation
                   ELSE '' END AS type,
           pg_get_expr(e.adbin, e.adrelid) AS value,
           CASE WHEN a.attgenerated <> '' THEN format(' GENERATED ALWAYS AS (%s)%s', pg_get_expr(e.adbin, e.adrelid),
                                                      CASE a.attgenerated WHEN 's' THEN ' STORED' ELSE ' VIRTUAL' END)
                WHEN a.attidentity <> '' THEN ' GENERATED ' || CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END
                     || ' AS IDENTITY'
                ELSE coalesce(' DEFAULT ' || pg_get_expr(e.adbin, e.adrelid), '') END
           || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END AS rest
      FROM r
      JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_attrdef e ON e.adrelid = a.attrelid AND e.adnum = a.attnum
     WHERE r.relkind IN ('r', 'p', 'c')
)
SELECT 1 AS rank, 'sequence' AS kind, quote_ident(r.relname) AS name,
       format('CREATE SEQUENCE %I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s%s', r.relname,
              format_type(q.seqtypid, NULL), q.seqincrement, q.seqmin, q.seqmax, q.seqstart, q.seqcache,
              CASE WHEN q.seqcycle THEN ' CYCLE' ELSE '' END) AS statement,
       true AS copied, NULL AS type, NULL AS value, NULL::boolean AS not_null, NULL::boolean AS is_generated
  FROM r
  JOIN pg_sequence q ON q.seqrelid = r.oid
 WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.deptype = 'i')
 UNION ALL
SELECT 2, 'type', quote_ident(t.typname),
       CASE t.typtype
            WHEN 'e' THEN format('CREATE TYPE %I AS ENUM (%s)', t.typname,
                 (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid))
            WHEN 'd' THEN concat_ws(' ', format('CREATE DOMAIN %I AS %s', t.typname, format_type(t.typbasetype, t.typtypmod)),
                 (SELECT 'COLLATE ' || t.typcollation::regcollation FROM pg_type b
                   WHERE b.oid = t.typbasetype AND b.typcollation <> t.typcollation),
                 CASE WHEN t.typnotnull THEN 'NOT NULL' END,
                 'DEFAULT ' || pg_get_expr(t.typdefaultbin, 'pg_type'::regclass),
                 (SELECT string_agg(format('CONSTRAINT %I %s', o.conname, pg_get_constraintdef(o.oid)), ' ' ORDER BY o.conname)
                    FROM pg_constraint o WHERE o.contypid = t.oid AND o.contype = 'c'))
            WHEN 'c' THEN format('CREATE TYPE %I AS (%s)', t.typname,
                 (SELECT string_agg(a.name || ' ' || a.type, ', ' ORDER BY a.attnum) FROM a WHERE a.attrelid = t.typrelid))
            WHEN 'r' THEN (SELECT format('CREATE TYPE %I AS RANGE (SUBTYPE = %s)', t.typname, format_type(g.rngsubtype, NULL))
                             FROM pg_range g WHERE g.rngtypid = t.oid)
       END, true, NULL, NULL, NULL, NULL
  FROM n
  JOIN pg_type t ON t.typnamespace = n.oid
  LEFT JOIN pg_class c ON c.oid = t.typrelid
 WHERE t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c'
 UNION ALL
SELECT 3, 'table', quote_ident(r.relname),
       CASE WHEN NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = r.oid) AND r.reloftype = 0 THEN
            format('CREATE %sTABLE %I (%s)%s', CASE r.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END, r.relname,
                   (SELECT string_agg(format('%s %s%s', a.name, a.type, a.rest), ', ' ORDER BY a.attnum) FROM a WHERE a.attrelid = r.oid),
                   coalesce(' PARTITION BY ' || pg_get_partkeydef(r.oid), ''))
            WHEN r.relispartition THEN
            (SELECT format('CREATE TABLE %I PARTITION OF %s %s%s', r.relname, i.inhparent::regclass, pg_get_expr(r.relpartbound, r.oid),
                           coalesce(' PARTITION BY ' || pg_get_partkeydef(r.oid), ''))
               FROM pg_inherits i JOIN r AS parent ON parent.oid = i.inhparent WHERE i.inhrelid = r.oid)
       END, true, NULL, NULL, NULL, NULL
  FROM r
 WHERE r.relkind IN ('r', 'p')
 UNION ALL
SELECT 4, 'settings of sequence', quote_ident(r.relname),
       format('ALTER SEQUENCE %I OWNED BY %s.%I', r.relname, d.refobjid::regclass, a.attname), true, NULL, NULL, NULL, NULL
  FROM r
  JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a'
  JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
 WHERE r.relkind = 'S'
 UNION ALL
SELECT 4, 'column', format('%s.%s', a.relation, a.name), format('ALTER TABLE %s ADD COLUMN %s %s%s', a.relation, a.name, a.type, a.rest),
       false, a.type, a.value, a.attnotnull, a.is_generated
  FROM a
 WHERE a.relkind IN ('r', 'p')
 UNION ALL
-- its own name is always qualified
SELECT 5, 'function', p.oid::regprocedure::text, 'CREATE OR REPLACE ' || h.word || substr(h.head, length(h.word || n.prefix) + 19) || h.body,
       true, NULL, NULL, NULL, NULL
  FROM n
  JOIN pg_proc p ON p.pronamespace = n.oid AND p.prokind <> 'a',
       LATERAL (SELECT pg_get_functiondef(p.oid)) w (definition),
       LATERAL (SELECT CASE WHEN p.prosqlbody IS NULL
                THEN length(p.prosrc || substring(w.definition FROM '\$(?:function|procedure)x*\$\n$')) ELSE 0 END) b (length),
       -- a search_path of its own schema is as migrate puts it in
       LATERAL (SELECT CASE p.prokind WHEN 'p' THEN 'PROCEDURE ' ELSE 'FUNCTION ' END,
                       replace(left(w.definition, length(w.definition) - b.length), E'\n SET search_path TO ' || n.path || E'\n',
                               E'\n SET search_path TO :''schema''\n'), right(w.definition, b.length)) h (word, head, body)
 WHERE starts_with(h.head, 'CREATE OR REPLACE ' || h.word || n.prefix)
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype IN ('i', 'e'))
 UNION ALL
-- a foreign key that leads elsewhere would lock a table there
SELECT CASE o.contype WHEN 'f' THEN 8 WHEN 'c' THEN 7 ELSE 6 END, 'constraint', format('%I on %I', o.conname, r.relname),
       format('ALTER TABLE %I ADD CONSTRAINT %I %s', r.relname, o.conname, pg_get_constraintdef(o.oid)), o.conislocal,
       NULL, NULL, NULL, NULL
  FROM r
  JOIN pg_constraint o ON o.conrelid = r.oid AND o.contype IN ('c', 'p', 'u', 'x', 'f')
 WHERE o.contype <> 'f' OR EXISTS (SELECT FROM r AS other WHERE other.oid = o.confrelid)
 UNION ALL
-- what is to be read by people has no schema that is in the path
SELECT 9, 'index', quote_ident(r.relname), pg_get_indexdef(r.oid, 0, true), NOT r.relispartition, NULL, NULL, NULL, NULL
  FROM r
  JOIN pg_index x ON x.indexrelid = r.oid
 WHERE x.indisvalid AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = x.indrelid AND o.conindid = x.indexrelid
                                       AND o.contype IN ('p', 'u', 'x'))
 UNION ALL
SELECT 10, CASE r.relkind WHEN 'v' THEN 'view' ELSE 'materialized view' END, quote_ident(r.relname),
       format('CREATE %s %I AS %s', CASE r.relkind WHEN 'v' THEN 'OR REPLACE VIEW' ELSE 'MATERIALIZED VIEW' END, r.relname,
              rtrim(pg_get_viewdef(r.oid), ';')), true, NULL, NULL, NULL, NULL
  FROM r
 WHERE r.relkind IN ('v', 'm')
 UNION ALL
SELECT 11, 'trigger', format('%I on %I', g.tgname, r.relname), pg_get_triggerdef(g.oid, true), g.tgparentid = 0, NULL, NULL, NULL, NULL
  FROM r
  JOIN pg_trigger g ON g.tgrelid = r.oid AND NOT g.tgisinternal
 UNION ALL
SELECT 11, 'rule', format('%I on %I', w.rulename, r.relname), rtrim(pg_get_ruledef(w.oid, true), ';'), true, NULL, NULL, NULL, NULL
  FROM r
  JOIN pg_rewrite w ON w.ev_class = r.oid AND w.rulename <> '_RETURN'
 UNION ALL
SELECT 11, 'policy', format('%I on %I', p.polname, r.relname),
       format('CREATE POLICY %I ON %I AS %s FOR %s TO %s%s%s', p.polname, r.relname,
              CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
              CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
              (SELECT string_agg(CASE WHEN role = 0 THEN 'PUBLIC' ELSE role::regrole::text END, ', ' ORDER BY role::regrole::text)
                 FROM unnest(p.polroles) role),
              coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ''),
              coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')), true, NULL, NULL, NULL, NULL
  FROM r
  JOIN pg_policy p ON p.polrelid = r.oid
 UNION ALL
SELECT 11, 'statistics', quote_ident(x.stxname), 'CREATE STATISTICS ' || substr(w.definition, length(n.prefix) + 19), true,
       NULL, NULL, NULL, NULL
  FROM n
  JOIN pg_statistic_ext x ON x.stxnamespace = n.oid,
       LATERAL (SELECT pg_get_statisticsobjdef(x.oid)) w (definition)
 WHERE starts_with(w.definition, 'CREATE STATISTICS ' || n.prefix)
 ORDER BY 1, 3
