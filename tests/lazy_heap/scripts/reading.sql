CREATE TABLE t (i int PRIMARY KEY, b text, n numeric DEFAULT 1);
CREATE INDEX t_b ON t (b);
SELECT expect('t', 'lazy');
\ir reads.sql
SELECT expect('t', 'lazy');
\d+ t
INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, repeat('three', 10000)), (4, NULL);
SELECT expect('t', 'heap');
SELECT i, length(b) FROM t ORDER BY i;
UPDATE t SET b = 'three' WHERE i = 3;
\ir reads.sql
DELETE FROM t;
\ir reads.sql
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 5000) g;
\d+ t
SELECT count(*), sum(length(b)), sum(i) FROM t;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
SELECT count(*) FROM t;
