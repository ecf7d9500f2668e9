-- tables whose files appear with the first row
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_tables;
RESET client_min_messages;
CREATE SCHEMA lz;
SET search_path = lz;

CREATE FUNCTION state(regclass) RETURNS text LANGUAGE sql AS $$
    SELECT format('%s, %s, frozen %s', amname,
                  CASE WHEN pg_relation_filepath($1) ~ '/1$' THEN 'no file' ELSE 'file' END,
                  CASE WHEN relfrozenxid = '0' THEN 'not needed' ELSE 'known' END)
    FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1
$$;

CREATE TABLE a (i integer) USING lazy_heap;
SELECT state('a');
SELECT * FROM a;
SELECT count(*) FROM a;
UPDATE a SET i = 1;
DELETE FROM a;
ANALYZE a;
VACUUM a;
VACUUM FULL a;
CREATE INDEX ON a (i);
ALTER TABLE a ADD PRIMARY KEY (i);
CLUSTER a USING a_pkey;
SELECT * FROM a WHERE i = 3;
SELECT * FROM a WHERE ctid = '(0,1)';
SELECT * FROM a TABLESAMPLE system (100);
SELECT pg_relation_size('a'), state('a');
INSERT INTO a VALUES (1), (2);
SELECT state('a');
SELECT * FROM a WHERE i = 2;
SELECT deptype FROM pg_depend WHERE objid = 'a'::regclass AND refclassid = 'pg_am'::regclass;

-- the first row and its transaction
CREATE TABLE b (id serial PRIMARY KEY, t text) USING lazy_heap;
SELECT state(reltoastrelid) FROM pg_class WHERE oid = 'b'::regclass;
BEGIN;
INSERT INTO b (t) VALUES ('gone');
ROLLBACK;
SELECT state('b');
BEGIN;
SAVEPOINT s;
INSERT INTO b (t) VALUES ('gone');
ROLLBACK TO s;
INSERT INTO b (t) VALUES (repeat('x', 300000));
COMMIT;
CHECKPOINT;
SELECT id, length(t), state('b') FROM b;
BEGIN;
CREATE TABLE c (i integer, t text) USING lazy_heap;
SAVEPOINT s;
INSERT INTO c VALUES (1, 'gone');
ROLLBACK TO s;
INSERT INTO c VALUES (2, 'here');
SELECT * FROM c;
COMMIT;
CHECKPOINT;
SELECT * FROM c;

-- rewritten, truncated, changed before the first row
CREATE TABLE d (i integer) USING lazy_heap;
TRUNCATE d;
SELECT state('d');
ALTER TABLE d ALTER i TYPE bigint, ADD COLUMN r double precision DEFAULT random();
INSERT INTO d VALUES (1);
SELECT i, state('d') FROM d;
CREATE TABLE e (i integer) USING lazy_heap;
ALTER TABLE e SET ACCESS METHOD heap;
SELECT state('e');
ALTER TABLE e SET ACCESS METHOD lazy_heap;
SELECT state('e');
INSERT INTO e VALUES (1);
ALTER TABLE e SET ACCESS METHOD lazy_heap;
SELECT i, state('e') FROM e;

-- other ways to a first row
CREATE TABLE f USING lazy_heap AS SELECT generate_series(1, 1000) AS g;
SELECT count(*), state('f') FROM f;
CREATE TABLE g (i integer PRIMARY KEY, t text) USING lazy_heap;
INSERT INTO g VALUES (1, 'one') ON CONFLICT (i) DO UPDATE SET t = 'two';
INSERT INTO g VALUES (1, 'one') ON CONFLICT (i) DO UPDATE SET t = 'two';
SELECT *, state('g') FROM g;
CREATE TABLE h (i integer) USING lazy_heap;
COPY h FROM stdin;
1
2
\.
INSERT INTO h SELECT i + 2 FROM h;
SELECT count(*), state('h') FROM h;
CREATE TABLE self (i integer) USING lazy_heap;
INSERT INTO self SELECT coalesce(max(i), 0) + 1 FROM self;
SELECT * FROM self;
CREATE TABLE p (i integer) PARTITION BY RANGE (i);
CREATE TABLE p0 PARTITION OF p FOR VALUES FROM (0) TO (10) USING lazy_heap;
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (10) TO (20) USING lazy_heap;
INSERT INTO p VALUES (5);
SELECT tableoid::regclass, i FROM p;
SELECT state('p0'), state('p1');
UPDATE p SET i = 15;
SELECT tableoid::regclass, i FROM p;
CREATE MATERIALIZED VIEW m USING lazy_heap AS SELECT 1 AS one WITH NO DATA;
REFRESH MATERIALIZED VIEW m;
SELECT one, state('m') FROM m;
CREATE UNLOGGED TABLE u (i integer, t text) USING lazy_heap;
SELECT state('u');
INSERT INTO u VALUES (1, 'x');
SELECT i, state('u') FROM u;
CREATE TEMP TABLE tmp (i integer) USING lazy_heap;
INSERT INTO tmp VALUES (1);
SELECT i, state('tmp') FROM tmp;

-- pgbillion_tables.to_heap()
CREATE TABLE x1 (i integer) USING lazy_heap;
CREATE TABLE x2 (i integer, t text) USING lazy_heap;
SELECT pgbillion_tables.to_heap(ARRAY['x1', 'x2', 'a', NULL]::regclass[]), state('x2');
SELECT pgbillion_tables.to_heap(ARRAY['x1', 'x2']::regclass[]);
SELECT state(reltoastrelid) FROM pg_class WHERE oid = 'x2'::regclass;
CREATE ROLE regress_billion_lazy;
GRANT USAGE ON SCHEMA lz TO regress_billion_lazy;
SET ROLE regress_billion_lazy;
SELECT pgbillion_tables.to_heap(ARRAY['x1']::regclass[]);
RESET ROLE;
DROP OWNED BY regress_billion_lazy;
DROP ROLE regress_billion_lazy;

-- many at once
SELECT pgbillion_tables.create_tables('b', 'z%d', 1, 500, access_method => 'lazy_heap');
SELECT state('z77'), state('z77_pkey'::regclass) IS NULL AS index_has_no_table_am;
INSERT INTO z77 (t) VALUES ('x') RETURNING *;
SELECT count(*) FROM pg_class WHERE relnamespace = 'lz'::regnamespace AND relname ~ '^z\d+$' AND pg_relation_filepath(oid) ~ '/1$';
BEGIN;
DROP TABLE z1, z2;
SAVEPOINT s;
DROP TABLE z3, z4;
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM z3;

-- nothing depends on the extension but tables without a row; what inherits from them might have some
\set VERBOSITY terse
DROP EXTENSION pgbillion_tables;
DROP EXTENSION pgbillion_tables CASCADE;
\set VERBOSITY default
SELECT pgbillion_tables.to_heap(array_agg(c.oid::regclass)) > 0 FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'lazy_heap' AND c.relkind IN ('r', 'm') AND c.relnamespace <> 'pgbillion_tables'::regnamespace;
DROP EXTENSION pgbillion_tables;
SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b), (SELECT count(*) FROM z77);
SET client_min_messages = warning;
DROP SCHEMA lz CASCADE;
