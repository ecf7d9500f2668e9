-- the columnar indexes of a table, or of all tables without one, with their columns and expressions in order
SELECT i.indexrelid::int8, i.indrelid::int8, xn.nspname, x.relname, tn.nspname, t.relname,
       coalesce(pg_partition_root(t.oid)::oid, t.oid)::int8,
       i.indisvalid AND i.indisready AND i.indislive, x.relkind = 'I', x.relispartition,
       ARRAY(SELECT coalesce(a.attname::text, pg_get_indexdef(i.indexrelid, k.place::int, true))
               FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
               LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum <> 0
              ORDER BY k.place),
       CASE x.relkind WHEN 'i' THEN pg_relation_size(x.oid)
            ELSE (SELECT coalesce(sum(pg_relation_size(p.relid)), 0)::int8 FROM pg_partition_tree(x.oid) p
                   WHERE p.isleaf) END
  FROM pg_index i
  JOIN pg_class x ON x.oid = i.indexrelid
  JOIN pg_am m ON m.oid = x.relam
  JOIN pg_proc f ON f.oid = m.amhandler
  JOIN pg_namespace fn ON fn.oid = f.pronamespace
  JOIN pg_namespace xn ON xn.oid = x.relnamespace
  JOIN pg_class t ON t.oid = i.indrelid
  JOIN pg_namespace tn ON tn.oid = t.relnamespace
 WHERE fn.nspname = 'pgbillion_rows' AND f.proname = 'columns_handler'
   AND (t.relpersistence <> 't' OR t.relnamespace = pg_my_temp_schema())
   AND (%(tables)s::oid[] IS NULL OR i.indrelid = ANY (%(tables)s::oid[])
        OR EXISTS (SELECT FROM pg_partition_ancestors(t.oid) a WHERE a.relid::oid = ANY (%(tables)s::oid[])))
 ORDER BY tn.nspname, t.relname, xn.nspname, x.relname
