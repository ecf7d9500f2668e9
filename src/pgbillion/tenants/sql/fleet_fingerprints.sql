-- Fingerprints of the definitions of schemas, without the comments on the schemas themselves, and with the owner of each
-- schema as the same role wherever something is owned by it or granted to or by it, if its name is plain.
-- The snapshot comes with them, unless the server is a standby, where it does not list the transactions in progress.
SELECT o.schema,
       md5(string_agg(md5(concat_ws(E'\n', o.kind, o.name,
           CASE WHEN o.kind LIKE 'owner and grants of%%' OR o.kind = 'settings of column'
                THEN regexp_replace(o.what, w.pattern, E'\\1\x01', 'g')
                -- behind the definition
                WHEN o.kind = 'function'
                THEN left(o.what, length(o.what) - e.roles) || regexp_replace(right(o.what, e.roles), w.pattern, E'\\1\x01', 'g')
                ELSE o.what END)), '' ORDER BY o.kind COLLATE "C", o.name COLLATE "C")),
       count(*) FILTER (WHERE o.kind = 'table'),
       CASE WHEN NOT pg_is_in_recovery() THEN pg_current_snapshot()::text END
  FROM ({objects}) o
  JOIN (SELECT n.oid::int8,
               CASE WHEN r.rolname ~ '^[a-z_][a-z0-9_]*$' AND n.nspowner::regrole::text = r.rolname
                    -- an owner, who has it in a grant, or who has given that
                    THEN '(^|[ /])' || r.rolname || '(?=[ =,]|$)' ELSE '(?!)' END
          FROM pg_namespace n
          JOIN pg_roles r ON r.oid = n.nspowner) w (schema, pattern) ON w.schema = o.schema,
       LATERAL (SELECT CASE WHEN o.kind = 'function' THEN strpos(reverse(o.what), ' -- ') - 1 END) e (roles)
 WHERE NOT (o.kind = 'comment' AND o.name = 'schema')
 GROUP BY o.schema
