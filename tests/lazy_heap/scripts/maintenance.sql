-- VACUUM and its kin before the first row and after; reltuples, relpages and what the statistics views say.
CREATE TABLE t (i int PRIMARY KEY, b text);
CREATE INDEX t_b ON t (b);
\set facts 'SELECT reltuples, relpages, relallvisible, relhasindex FROM pg_class WHERE oid = ''t''::regclass;'
:facts
ANALYZE t;
:facts
VACUUM t;
:facts
VACUUM (FREEZE) t;
VACUUM (FULL) t;
:facts
VACUUM (ANALYZE, DISABLE_PAGE_SKIPPING, PARALLEL 2, INDEX_CLEANUP ON, TRUNCATE ON) t;
VACUUM FULL t;
CLUSTER t USING t_b;
CLUSTER t;
REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY t;
SELECT pg_stat_force_next_flush();
SELECT vacuum_count, analyze_count, n_live_tup, n_dead_tup, n_mod_since_analyze, last_vacuum IS NOT NULL AS vacuumed
FROM pg_stat_user_tables WHERE relid = 't'::regclass;
SELECT expect('t', 'lazy');
TRUNCATE t;
TRUNCATE t;
BEGIN;
TRUNCATE t RESTART IDENTITY CASCADE;
ROLLBACK;
SELECT expect('t', 'lazy');
ANALYZE t;
VACUUM t;
VACUUM FULL t;
VACUUM FREEZE t;
SELECT count(*) FROM t;
INSERT INTO t SELECT g, 'b' || g % 10 FROM generate_series(1, 1000) g;
SELECT expect('t', 'heap');
:facts
VACUUM t;
ANALYZE t;
:facts
VACUUM (FULL, ANALYZE) t;
:facts
CLUSTER t;
SELECT i, b FROM t WHERE ctid <= '(0,3)';
VACUUM FREEZE t;
:facts
DELETE FROM t WHERE i % 2 = 0;
VACUUM (ANALYZE) t;
:facts
SELECT attname, n_distinct, null_frac FROM pg_stats WHERE tablename = 't' AND schemaname = 'public' ORDER BY 1;
TRUNCATE t;
:facts
INSERT INTO t VALUES (1);
TABLE t;
CREATE TABLE again (i int);
BEGIN;
INSERT INTO again VALUES (1);
TRUNCATE again;
INSERT INTO again VALUES (2);
SAVEPOINT s;
TRUNCATE again;
ROLLBACK TO s;
COMMIT;
TABLE again;
BEGIN;
CREATE TABLE fresh (i int, b text);
TRUNCATE fresh;
INSERT INTO fresh VALUES (1, repeat('x', 100000));
TRUNCATE fresh;
INSERT INTO fresh VALUES (2, repeat('y', 100000));
COMMIT;
SELECT i, length(b) FROM fresh;
VACUUM;
ANALYZE;
