-- Each table's row, which has to be there.
-- Part: count.
DO $do$
DECLARE
    found bigint;
BEGIN
    FOR i IN 1..{count} LOOP
        EXECUTE 'SELECT count(*) FROM table' || i INTO found;
        IF found <> 1 THEN
            RAISE EXCEPTION 'table% has % rows, not the one it was given', i, found;
        END IF;
    END LOOP;
END
$do$
