-- Of a schema of which others are clones: whether it has triggers that run even for rows that come by replication; the
-- comment on it; and the materialized views that have contents. Parameter: the schema's OID.
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_trigger g ON g.tgrelid = c.oid
                WHERE c.relnamespace = %(schema)s::oid AND g.tgenabled IN ('A', 'R')),
       obj_description(%(schema)s::oid, 'pg_namespace'),
       ARRAY(SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = %(schema)s::oid AND c.relkind = 'm' AND c.relispopulated)
