SELECT o.schema, md5(string_agg(md5(concat_ws(E'\n', o.kind, o.name, o.what)), '' ORDER BY o.kind COLLATE "C", o.name COLLATE "C")),
       count(*) FILTER (WHERE o.kind = 'table')
  FROM ({objects}) o
 GROUP BY o.schema
