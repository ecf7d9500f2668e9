-- what the view of statistics counts, and who may reset it
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_rows;
RESET client_min_messages;
LOAD 'pgbillion_rows';
CREATE SCHEMA st;
SET search_path = st;
CREATE TABLE t (grp integer, x integer);
INSERT INTO t SELECT i % 3, i FROM generate_series(1, 1000) i;

\d pgbillion_rows.stat_queries
-- how many queries were counted; -1 where they are not, as PostgreSQL 15 and 16 need the library preloaded for that
CREATE FUNCTION counted() RETURNS numeric LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT coalesce(sum(queries), 0) FROM pgbillion_rows.stat_queries
            WHERE datname = current_database() AND kind ~ 'vector');
EXCEPTION WHEN object_not_in_prerequisite_state THEN
    RETURN -1;
END $$;
SELECT counted() AS before \gset
SET pgbillion_rows.vector_aggregate = force;
SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t WHERE x > 10;
SELECT count(*) FROM t WHERE x > 10;
SELECT counted() > :before OR :before = -1 AS counted;

CREATE ROLE regress_rows_reader;
SELECT has_table_privilege('regress_rows_reader', 'pgbillion_rows.stat_queries', 'SELECT') AS readable;
SET ROLE regress_rows_reader;
SELECT pgbillion_rows.stat_reset();
RESET ROLE;
DROP ROLE regress_rows_reader;

SET client_min_messages = warning;
DROP SCHEMA st CASCADE;
DROP EXTENSION pgbillion_rows;
