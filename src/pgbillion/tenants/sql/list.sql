-- Parameters: whether sizes are wanted, names.
SELECT n.nspname::text, pg_get_userbyid(n.nspowner)::text, count(c.oid) FILTER (WHERE c.relkind IN ('r', 'p')),
       CASE WHEN %s THEN coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relkind IN ('r', 'm', 'S')), 0)::int8 END
  FROM pg_namespace n
  LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'm', 'S')
 WHERE n.nspname = ANY (%s::text[])
 GROUP BY n.oid
 ORDER BY n.nspname::text COLLATE "C"
