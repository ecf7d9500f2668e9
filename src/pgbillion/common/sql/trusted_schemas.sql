-- Those of some schemas in which nobody but superusers and this role have a function or an operator, or may make one.
-- Parameter: names.
SELECT n.nspname::text
  FROM pg_namespace n
 WHERE n.nspname = ANY (%s::name[])
   AND NOT EXISTS (
       SELECT
         FROM (SELECT n.nspowner
               UNION ALL
               SELECT a.grantee FROM aclexplode(n.nspacl) a WHERE a.privilege_type = 'CREATE'
               UNION ALL
               SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = n.oid
               UNION ALL
               SELECT o.oprowner FROM pg_operator o WHERE o.oprnamespace = n.oid) maker (role)
         -- PUBLIC is no role, and nobody can be given pg_database_owner: it stands for the database's owner
         LEFT JOIN pg_roles r
                ON r.oid = CASE WHEN maker.role = 'pg_database_owner'::regrole
                                THEN (SELECT datdba FROM pg_database WHERE datname = current_database())
                                ELSE maker.role
                           END
        WHERE (r.rolsuper OR r.rolname = current_user) IS NOT TRUE)
