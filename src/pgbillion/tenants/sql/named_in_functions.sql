-- Functions of a schema that set search_path, or name its former name: that path, and whether they name it elsewhere.
-- Parameters: the old name and the new one.
SELECT f.name, f.path, f.others ~ f.pattern
  FROM (SELECT format('%%I.%%I(%%s)', n.nspname, p.proname, pg_get_function_identity_arguments(p.oid)),
               (SELECT substr(s, length('search_path=') + 1) FROM unnest(p.proconfig) s WHERE s ~ '^search_path='),
               concat_ws(' ', p.prosrc, array_to_string(ARRAY(SELECT s FROM unnest(p.proconfig) s
                                                               WHERE s !~ '^search_path='), ' ')),
               -- as a word: the name may be part of others
               format('(^|[^[:alnum:]_$])%%s($|[^[:alnum:]_$])',
                      regexp_replace(%(old)s, '([^[:alnum:]_])', '\\\1', 'g'))
          FROM pg_namespace n
          JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
          JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
         WHERE n.nspname = %(new)s AND p.prokind <> 'a') f (name, path, others, pattern)
 WHERE f.path IS NOT NULL OR f.others ~ f.pattern
 ORDER BY f.name
