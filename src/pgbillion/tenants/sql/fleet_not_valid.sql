-- Schemas with constraints that their own rows may violate. Parameter: the schemas' OIDs.
SELECT o.connamespace::int8
  FROM pg_constraint o
 WHERE o.connamespace = ANY (%s::oid[]) AND NOT o.convalidated AND o.contype IN ('c', 'n')
 GROUP BY 1
