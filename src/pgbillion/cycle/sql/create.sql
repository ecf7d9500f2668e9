-- All tables in one transaction, as the source makes them.
-- Parts: count, definition (text: what follows the name).
DO $do$
BEGIN
    FOR i IN 1..{count} LOOP
        EXECUTE 'CREATE TABLE table' OPERATOR(pg_catalog.||) i::pg_catalog.text OPERATOR(pg_catalog.||) {definition};
    END LOOP;
END
$do$
