-- queries of this database, with the number of calls; trusted: this role or a superuser has run them; role: of the
-- others that have, the one that this role may SET and that spent most time on it, with its own search_path
SELECT f.query, f.calls, f.statements, f.trusted, f.role,
       (SELECT substr(o, length('search_path=') + 1)
          FROM pg_db_role_setting s, unnest(s.setconfig) AS o
         WHERE s.setrole IN (0, f.role::oid) AND starts_with(o, 'search_path=')
           AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
         ORDER BY s.setrole <> 0 DESC, s.setdatabase <> 0 DESC
         LIMIT 1)
  FROM (SELECT s.query, sum(s.calls)::int8 AS calls, count(*)::int8 AS statements, sum(s.total_exec_time) AS total,
               bool_or(r.rolname = current_user OR r.rolsuper) AS trusted,
               (array_agg(r.oid::int8 ORDER BY s.total_exec_time DESC)
                FILTER (WHERE r.rolname <> current_user AND NOT r.rolsuper AND pg_has_role(r.oid, '{may_set}')))[1] AS role
          FROM {view} s
          JOIN pg_roles r ON r.oid = s.userid
         WHERE s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND s.query IS NOT NULL
         GROUP BY s.query) f
 ORDER BY f.total DESC
