-- A row into each table, in one transaction.
-- Parts: count, values (an expression, of i: what follows the name).
DO $do$
BEGIN
    FOR i IN 1..{count} LOOP
        EXECUTE 'INSERT INTO table' OPERATOR(pg_catalog.||) i::pg_catalog.text OPERATOR(pg_catalog.||) {values};
    END LOOP;
END
$do$
