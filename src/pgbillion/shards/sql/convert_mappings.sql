-- The user mappings of a foreign server. Parameter: its OID.
-- Returns whose they are, the clause of their options, and whether the current role may see these.
SELECT CASE umuser WHEN 0 THEN 'PUBLIC' ELSE quote_ident(usename) END,
       coalesce(
           (SELECT ' OPTIONS (' || string_agg(format('%%I %%L', option_name, option_value), ', ') || ')'
              FROM pg_options_to_table(umoptions)),
           ''
       ),
       umuser = 0 OR usename = current_user
           OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
  FROM pg_user_mappings
 WHERE srvid = %(server)s
 ORDER BY 1
