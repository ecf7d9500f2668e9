-- vectorized aggregation: plans, and answers that are PostgreSQL's
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_rows;
RESET client_min_messages;
LOAD 'pgbillion_rows';
CREATE SCHEMA ag;
SET search_path = ag;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id integer, grp integer, x bigint, n numeric(10, 2), f float8, s text, d date) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i % 7, i * 3, i / 4.0, i / 8.0, 'text ' || i % 11, date '2026-01-01' + i % 400
FROM generate_series(1, 20000) i;
INSERT INTO t VALUES (NULL, NULL, NULL, NULL, NULL, NULL, NULL), (20001, NULL, -1, 'NaN', 'Infinity', '', NULL);
VACUUM ANALYZE t;

-- a plan; PostgreSQL 18 puts the table's name before its columns where others do not
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    line text;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        RETURN NEXT regexp_replace(line, '\mt\.', '', 'g');
    END LOOP;
END $$;

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

SELECT * FROM plan('SELECT grp, count(*), sum(x) FROM t GROUP BY grp');
SELECT * FROM plan('SELECT count(*), avg(n) FROM t WHERE x > 5000 AND s LIKE ''text 1%''');
SET datestyle = iso;
SELECT grp, count(*), sum(x), min(s), max(d) FROM t WHERE id <= 20000 GROUP BY grp ORDER BY grp;
SELECT count(*), count(grp), sum(n), max(f) FROM t;

SELECT same('SELECT grp, count(*), sum(x), avg(n), min(s), max(d) FROM t GROUP BY grp');
SELECT same('SELECT s, grp, count(DISTINCT d) FROM t GROUP BY s, grp');
SELECT same('SELECT sum(x), sum(n), avg(f), count(*) FILTER (WHERE grp = 3) FROM t WHERE n BETWEEN 10 AND 4000');
SELECT same('SELECT grp + 1, sum(CASE WHEN x > 5 THEN 1 ELSE 0 END) FROM t WHERE s IN (''text 1'', ''text 7'') GROUP BY 1');
SELECT same('SELECT extract(year FROM d), count(*) FROM t WHERE s LIKE ''%1'' OR grp IS NULL GROUP BY 1');
SELECT same('SELECT sum(x) FROM t WHERE id < 0');

-- a filter by itself, with rows in the order of the table
SET pgbillion_rows.vector_scan = force;
SELECT * FROM plan('SELECT id, s FROM t WHERE x % 1000 = 0 AND grp < 3');
SELECT id, s FROM t WHERE x < 100 AND grp < 2;
SELECT same('SELECT id, n FROM t WHERE x > 59000');

-- switched off
SET pgbillion_rows.enable = off;
SELECT * FROM plan('SELECT grp, count(*), sum(x) FROM t GROUP BY grp');
RESET pgbillion_rows.enable;

-- why a query is left to PostgreSQL
SELECT regexp_replace(pgbillion_rows.explain_vector('SELECT sum(x) FROM t GROUP BY GROUPING SETS ((), ())'),
                      '[0-9.]+ ms', 'N ms') AS explain_vector;

SET client_min_messages = warning;
DROP SCHEMA ag CASCADE;
DROP EXTENSION pgbillion_rows;
