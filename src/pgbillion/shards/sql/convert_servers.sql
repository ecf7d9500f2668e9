-- Foreign servers of a wrapper, as parts of commands. Parameters: the wrapper; names, or null for all that the role owns.
-- Returns OID and name; what follows the name in CREATE SERVER up to the wrapper's name, and behind it; the commands
-- that follow that one.
SELECT s.oid,
       s.srvname,
       concat(' TYPE ' || quote_literal(s.srvtype), ' VERSION ' || quote_literal(s.srvversion)),
       coalesce(
           (SELECT ' OPTIONS (' || string_agg(format('%%I %%L', option_name, option_value), ', ') || ')'
              FROM pg_options_to_table(s.srvoptions)),
           ''
       ),
       ARRAY(
           SELECT format('GRANT USAGE ON FOREIGN SERVER %%I TO %%s%%s',
                         s.srvname,
                         CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END,
                         CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
             FROM aclexplode(s.srvacl)
            WHERE grantee <> s.srvowner
       ) || ARRAY(
           SELECT format('COMMENT ON SERVER %%I IS %%L', s.srvname, found.comment)
             FROM obj_description(s.oid, 'pg_foreign_server') AS found (comment)
            WHERE found.comment IS NOT NULL
       ) || ARRAY(
           SELECT format('ALTER SERVER %%I OWNER TO %%I', s.srvname, pg_get_userbyid(s.srvowner))
            WHERE pg_get_userbyid(s.srvowner) <> current_user
       )
  FROM pg_foreign_server s
       JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw
 WHERE w.fdwname = %(wrapper)s
   AND CASE WHEN %(names)s::text[] IS NULL THEN pg_has_role(s.srvowner, 'USAGE')
            ELSE s.srvname = ANY (%(names)s::text[]) END
 ORDER BY s.srvname
