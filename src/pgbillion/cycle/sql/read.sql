-- Each table's row, which has to be there.
-- Part: count.
DO $do$
DECLARE
    found bigint;
BEGIN
    FOR i IN 1..{count} LOOP
        EXECUTE 'SELECT pg_catalog.count(*) FROM table' OPERATOR(pg_catalog.||) i::pg_catalog.text INTO found;
        IF found OPERATOR(pg_catalog.<>) 1 THEN
            RAISE EXCEPTION 'table% has % rows, not the one it was given', i, found;
        END IF;
    END LOOP;
END
$do$
