-- vectorized joins, and aggregation before a join
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_rows;
RESET client_min_messages;
LOAD 'pgbillion_rows';
CREATE SCHEMA jo;
SET search_path = jo;
SET max_parallel_workers_per_gather = 0;
SET enable_mergejoin = off;
SET enable_nestloop = off;

CREATE TABLE sale (id integer, shop integer, item integer, amount numeric(10, 2)) WITH (autovacuum_enabled = off);
INSERT INTO sale SELECT i, i % 100, i % 1000, i / 100.0 FROM generate_series(1, 30000) i;
INSERT INTO sale VALUES (30001, NULL, 1, 5), (30002, 100, NULL, 7);
CREATE TABLE shop (id integer, name text);
INSERT INTO shop SELECT i, 'shop ' || i FROM generate_series(0, 79) i;
CREATE TABLE item (id integer, kind text, weight float8);
INSERT INTO item SELECT i, 'kind ' || i % 5, i / 4.0 FROM generate_series(1, 900) i;
VACUUM ANALYZE sale, shop, item;

-- what differs between a query's answers with the extension's part in planning and without: nothing
CREATE FUNCTION same(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    ours text;
    core text;
    plan text;
    vectorized boolean := false;
BEGIN
    FOR plan IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        vectorized := vectorized OR plan ~ 'Vector';
    END LOOP;
    query := 'SELECT string_agg(q::text, '' '' ORDER BY q::text) FROM (' || query || ') q';
    EXECUTE query INTO ours;
    SET pgbillion_rows.enable = off;
    EXECUTE query INTO core;
    RESET pgbillion_rows.enable;
    IF ours IS DISTINCT FROM core THEN
        RETURN format('with %s, without %s', ours, core);
    END IF;
    RETURN CASE WHEN vectorized THEN 'same, vectorized' ELSE 'same' END;
END $$;

SET pgbillion_rows.vector_join = force;
SET pgbillion_rows.eager_aggregate = off;
EXPLAIN (COSTS OFF) SELECT i.kind, count(*), sum(s.amount) FROM sale s JOIN item i ON i.id = s.item GROUP BY i.kind;
EXPLAIN (COSTS OFF)
SELECT h.name, i.kind, count(*) FROM sale s JOIN item i ON i.id = s.item LEFT JOIN shop h ON h.id = s.shop
GROUP BY h.name, i.kind;
SELECT i.kind, count(*), sum(s.amount) FROM sale s JOIN item i ON i.id = s.item GROUP BY i.kind ORDER BY i.kind;

SELECT same('SELECT i.kind, count(*), sum(s.amount) FROM sale s JOIN item i ON i.id = s.item GROUP BY i.kind');
SELECT same('SELECT h.name, count(*), count(h.id) FROM sale s LEFT JOIN shop h ON h.id = s.shop GROUP BY h.name');
SELECT same('SELECT count(*) FROM sale s WHERE EXISTS (SELECT FROM shop h WHERE h.id = s.shop)');
SELECT same('SELECT count(*) FROM sale s WHERE NOT EXISTS (SELECT FROM shop h WHERE h.id = s.shop)');
SELECT same('SELECT h.name, i.kind, count(*), max(i.weight) FROM sale s JOIN item i ON i.id = s.item
             LEFT JOIN shop h ON h.id = s.shop AND s.amount > 50 GROUP BY h.name, i.kind');
SELECT same('SELECT s.id, h.name FROM sale s JOIN shop h ON h.id = s.shop WHERE s.amount < 3');

-- build sides that do not fit in memory
SET work_mem = '64kB';
SELECT same('SELECT sum(length(y.r)), count(*) FROM sale s JOIN (SELECT id, repeat(kind, 30) r FROM item OFFSET 0) y ON y.id = s.item');
RESET work_mem;

-- the big table first, by the columns that the join needs
SET pgbillion_rows.vector_join = off;
SET pgbillion_rows.eager_aggregate = force;
EXPLAIN (COSTS OFF) SELECT h.name, count(*), sum(s.amount) FROM sale s JOIN shop h ON h.id = s.shop GROUP BY h.name;
SELECT same('SELECT h.name, count(*), sum(s.amount), avg(s.amount) FROM sale s JOIN shop h ON h.id = s.shop GROUP BY h.name');

SET client_min_messages = warning;
DROP SCHEMA jo CASCADE;
DROP EXTENSION pgbillion_rows;
