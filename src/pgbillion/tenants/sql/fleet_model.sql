-- Of a schema of which others are clones: whether it has triggers that run even for rows that come by replication; and the
-- comment on it. Parameter: the schema's OID.
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_trigger g ON g.tgrelid = c.oid
                WHERE c.relnamespace = %(schema)s::oid AND g.tgenabled IN ('A', 'R')),
       obj_description(%(schema)s::oid, 'pg_namespace')
