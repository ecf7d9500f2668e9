-- Bytes of a relation for roles that may not look at files; how many files these are is not known.
SELECT sum(pg_relation_size(s.oid, fork)), NULL::int8 FROM unnest(ARRAY['main', 'fsm', 'vm', 'init']) AS fork
