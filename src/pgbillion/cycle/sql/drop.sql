-- All tables in one transaction, as the source drops them.
-- Part: count.
DO $do$
BEGIN
    FOR i IN 1..{count} LOOP
        EXECUTE 'DROP TABLE table' OPERATOR(pg_catalog.||) i::pg_catalog.text;
    END LOOP;
END
$do$
