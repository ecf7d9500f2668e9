-- The first setting that has sessions load one of some libraries: which, whose, what of it, and what takes it out.
-- Parameters: the libraries' names, and whether this database's own settings are left out.
SELECT s.name, s.owner, l.library, s.remedy
  FROM (SELECT name, 'the server' AS owner, reset_val AS value,
               CASE WHEN sourcefile LIKE '%%/postgresql.auto.conf' THEN format('ALTER SYSTEM RESET %%s', name)
                    ELSE format('edit %%s in %%s', name, coalesce(sourcefile, 'the server''s command line')) END AS remedy
          FROM pg_settings
         WHERE name IN ('shared_preload_libraries', 'session_preload_libraries', 'local_preload_libraries')
           AND source IN ('configuration file', 'command line', 'environment variable')
        UNION ALL
        SELECT split_part(one, '=', 1),
               concat_ws(' in ', 'role ' || r.rolname, 'database ' || d.datname),
               substr(one, strpos(one, '=') + 1),
               format('ALTER %%s RESET %%s',
                      CASE WHEN r.oid IS NULL THEN format('DATABASE %%I', d.datname)
                           WHEN d.oid IS NULL THEN format('ROLE %%I', r.rolname)
                           ELSE format('ROLE %%I IN DATABASE %%I', r.rolname, d.datname) END,
                      split_part(one, '=', 1))
          FROM pg_db_role_setting c
               CROSS JOIN unnest(c.setconfig) AS one
               LEFT JOIN pg_roles r ON r.oid = c.setrole
               LEFT JOIN pg_database d ON d.oid = c.setdatabase
         WHERE one LIKE '%%preload_libraries=%%'
           AND NOT (%(other_databases)s AND c.setrole = 0 AND d.datname = current_database())) s
       JOIN unnest(%(libraries)s::text[]) l (library)
         ON l.library = ANY (regexp_split_to_array(s.value, '[ ,"/]+'))
 ORDER BY 1, 2
 LIMIT 1
