-- Fingerprints of the definitions of schemas, without the comments on the schemas themselves.
SELECT o.schema, md5(string_agg(md5(concat_ws(E'\n', o.kind, o.name, o.what)), '' ORDER BY o.kind COLLATE "C", o.name COLLATE "C")),
       count(*) FILTER (WHERE o.kind = 'table')
  FROM ({objects}) o
 WHERE NOT (o.kind = 'comment' AND o.name = 'schema')
 GROUP BY o.schema
