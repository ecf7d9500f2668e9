-- the life of a columnar index
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_rows;
RESET client_min_messages;
LOAD 'pgbillion_rows';
CREATE SCHEMA co;
SET search_path = co;
SET max_parallel_workers_per_gather = 0;

CREATE TABLE t (id integer, grp integer, x bigint, s text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i, i % 5, i, 'text ' || i % 30 FROM generate_series(1, 10000) i;

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

-- which shares of the table's blocks are encoded, stale and readable
CREATE VIEW status AS
SELECT index, valid, encoded_blocks = table_blocks AS encoded, stale_blocks > 0 AS stale,
       readable_blocks = table_blocks AS readable, rows
FROM pgbillion_rows.columns_status('t') ORDER BY index::text;

VACUUM ANALYZE t;
CREATE INDEX t_columns ON t USING columns (grp, x, s);
TABLE status;
SELECT * FROM pgbillion_rows.columns_check('t');

SET pgbillion_rows.columns = force;
SELECT * FROM plan('SELECT grp, count(*), sum(x) FROM t WHERE s = ''text 7'' GROUP BY grp');
SELECT grp, count(*), sum(x) FROM t WHERE s = 'text 7' GROUP BY grp ORDER BY grp;
SELECT same('SELECT grp, count(*), sum(x), min(s) FROM t WHERE s <> ''text 3'' GROUP BY grp');
-- a column that the index does not have
SELECT * FROM plan('SELECT max(id), sum(x) FROM t');

-- rows that are changed are read from the table, until VACUUM has encoded them
UPDATE t SET x = -x WHERE id % 100 = 0;
DELETE FROM t WHERE id BETWEEN 500 AND 600;
INSERT INTO t SELECT i, NULL, i, NULL FROM generate_series(20001, 20500) i;
SELECT stale, readable FROM status;
SELECT same('SELECT grp, count(*), sum(x), min(s) FROM t GROUP BY grp');
BEGIN;
DELETE FROM t WHERE grp = 2;
SELECT same('SELECT grp, count(*), sum(x), min(s) FROM t GROUP BY grp');
ROLLBACK;
VACUUM t;
SET client_min_messages = warning;
CALL pgbillion_rows.columns_refresh('t');
SELECT encoded, stale, readable, rows FROM status;
SELECT * FROM pgbillion_rows.columns_check('t');
SELECT same('SELECT grp, count(*), sum(x), min(s) FROM t GROUP BY grp');

-- built again, in both ways
REINDEX INDEX t_columns;
SELECT encoded, readable FROM status;
REINDEX INDEX CONCURRENTLY t_columns;
SELECT encoded, readable FROM status;
VACUUM t;
SELECT encoded, readable FROM status;
ALTER TABLE t ALTER x TYPE numeric;
SELECT same('SELECT grp, sum(x) FROM t GROUP BY grp');
ALTER TABLE t DROP COLUMN s;
SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass;

-- what such an index cannot be
CREATE INDEX ON t USING columns ((t IS NULL));
CREATE INDEX ON t USING columns (grp) WHERE grp > 1;
CREATE UNIQUE INDEX ON t USING columns (grp);
SELECT * FROM pgbillion_rows.columns_status('status');

-- rows are counted for those who may count them
CREATE INDEX t_columns ON t USING columns (grp);
CREATE ROLE regress_rows_reader;
GRANT USAGE ON SCHEMA co TO regress_rows_reader;
SET ROLE regress_rows_reader;
SELECT index, rows IS NULL AS hidden FROM pgbillion_rows.columns_status('t');
SELECT * FROM pgbillion_rows.columns_check('t');
CALL pgbillion_rows.columns_refresh('t');
RESET ROLE;
GRANT SELECT ON t TO regress_rows_reader;
SET ROLE regress_rows_reader;
SELECT index, rows IS NULL AS hidden FROM pgbillion_rows.columns_status('t');
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA co CASCADE;
DROP ROLE regress_rows_reader;
DROP EXTENSION pgbillion_rows;
