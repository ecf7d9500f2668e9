-- The same by the extension, in one call.
-- Parts: schema (text), count, unobserved.
SELECT pgbillion_tables.drop_tables(
    ARRAY (
        SELECT c.oid::regclass
        FROM pg_class c
        WHERE c.relnamespace = quote_ident({schema})::regnamespace
          AND c.relkind = 'r'
          AND c.relname ~ '^table[0-9]+$'
          AND substring(c.relname FROM 6)::numeric BETWEEN 1 AND {count}
    ),
    allow_unobserved => {unobserved}
)
