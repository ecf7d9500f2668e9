-- The first row, by every statement that can insert one; each with what a failure leaves.
CREATE TABLE t (i int PRIMARY KEY, b text DEFAULT 'd' CHECK (b <> 'bad'), s serial);
INSERT INTO t VALUES (1, 'bad');
SELECT expect('t', 'lazy');
INSERT INTO t VALUES (1), (1);
SELECT expect('t', 'lazy');
SELECT count(*) FROM t;
INSERT INTO t SELECT 1 WHERE false;
INSERT INTO t SELECT i FROM t;
SELECT expect('t', 'lazy');
INSERT INTO t VALUES (1) RETURNING *, tableoid::regclass, xmin = pg_current_xact_id()::xid AS ours;
SELECT expect('t', 'heap');
CREATE TABLE self (i int);
INSERT INTO self SELECT 1 UNION ALL SELECT i + 1 FROM self;
INSERT INTO self SELECT i FROM self;
TABLE self;

-- ON CONFLICT
CREATE TABLE c (i int PRIMARY KEY, b text);
INSERT INTO c VALUES (1, 'a'), (1, 'b') ON CONFLICT (i) DO UPDATE SET b = excluded.b;
SELECT expect('c', 'lazy');
INSERT INTO c VALUES (1, 'a'), (1, 'b') ON CONFLICT DO NOTHING RETURNING *;
INSERT INTO c VALUES (1, 'c'), (2, 'd') ON CONFLICT (i) DO UPDATE SET b = c.b || excluded.b RETURNING *;
TABLE c;

-- COPY
CREATE TABLE k (i int, b text);
COPY k FROM STDIN;
\.
SELECT expect('k', 'lazy');
COPY k FROM STDIN;
1	x
oops	y
\.
SELECT expect('k', 'lazy');
COPY k FROM STDIN (FREEZE);
1	x
\.
COPY k FROM STDIN;
1	x
2	\N
\.
TABLE k;
BEGIN;
TRUNCATE k;
COPY k FROM STDIN (FREEZE);
3	y
\.
COMMIT;
TABLE k;
BEGIN;
CREATE TABLE f (i int, b text);
COPY f FROM STDIN (FREEZE, FORMAT csv);
1,x
2,y
\.
COMMIT;
TABLE f;
VACUUM f;

-- MERGE
CREATE TABLE m (i int PRIMARY KEY, b text);
MERGE INTO m USING (VALUES (1, 'a'), (2, 'b')) v (i, b) ON m.i = v.i
WHEN MATCHED THEN UPDATE SET b = v.b WHEN NOT MATCHED AND false THEN INSERT VALUES (v.i, v.b);
SELECT expect('m', 'lazy');
MERGE INTO m USING (VALUES (1, 'a'), (2, 'b')) v (i, b) ON m.i = v.i
WHEN MATCHED THEN UPDATE SET b = v.b WHEN NOT MATCHED THEN INSERT VALUES (v.i, v.b);
MERGE INTO m USING (VALUES (1, 'c'), (3, 'd')) v (i, b) ON m.i = v.i
WHEN MATCHED THEN UPDATE SET b = v.b WHEN NOT MATCHED THEN INSERT VALUES (v.i, v.b);
SELECT * FROM m ORDER BY i;
MERGE INTO self USING m ON self.i = m.i WHEN MATCHED THEN DELETE;
TABLE self;

-- triggers, one of which inserts into the table it belongs to
CREATE TABLE g (i int, depth int);
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF new.depth < 3 THEN INSERT INTO g VALUES (new.i, new.depth + 1); END IF;
    RETURN new;
END $$;
CREATE TRIGGER before_row BEFORE INSERT ON g FOR EACH ROW EXECUTE FUNCTION again();
INSERT INTO g VALUES (1, 0);
SELECT * FROM g ORDER BY depth;
CREATE TABLE log (what text, n bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO log SELECT tg_op || ' ' || tg_when, count(*) FROM added;
    RETURN NULL;
END $$;
CREATE TABLE w (i int);
CREATE TRIGGER after_all AFTER INSERT ON w REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note();
INSERT INTO w VALUES (1), (2);
INSERT INTO w VALUES (3);
TABLE log;
CREATE FUNCTION rows_of_w() RETURNS bigint VOLATILE LANGUAGE sql AS 'SELECT count(*) FROM w';
CREATE FUNCTION rows_of_v() RETURNS bigint VOLATILE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM v); END';
CREATE FUNCTION rows_of_v_stable() RETURNS bigint STABLE LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM v); END';
CREATE TABLE v (n bigint, s bigint);
INSERT INTO v SELECT rows_of_v(), rows_of_v_stable() FROM generate_series(1, 4);
INSERT INTO v SELECT rows_of_v(), rows_of_v_stable() FROM generate_series(1, 2);
TABLE v;
CREATE TABLE d (i int, CONSTRAINT u UNIQUE (i) DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO d VALUES (1), (1);
COMMIT;
SELECT expect('d', 'lazy');
BEGIN;
INSERT INTO d VALUES (1), (1);
UPDATE d SET i = 2 WHERE ctid = (SELECT max(ctid) FROM d);
COMMIT;
SELECT * FROM d ORDER BY 1;
CREATE RULE redirect AS ON INSERT TO log DO INSTEAD INSERT INTO d VALUES (7);
INSERT INTO log VALUES ('x');
SELECT * FROM d ORDER BY 1;

-- foreign keys
CREATE TABLE pk (i int PRIMARY KEY, b text);
CREATE TABLE fk (i int REFERENCES pk ON DELETE CASCADE, b text);
INSERT INTO fk VALUES (1);
SELECT expect('fk', 'lazy');
DELETE FROM pk;
INSERT INTO pk VALUES (1);
INSERT INTO fk VALUES (1);
UPDATE pk SET i = 2;
CREATE TABLE late (i int);
ALTER TABLE late ADD FOREIGN KEY (i) REFERENCES pk;
INSERT INTO late VALUES (5);
INSERT INTO late VALUES (1);
DELETE FROM pk;
TRUNCATE pk;
TRUNCATE pk CASCADE;
SELECT (SELECT count(*) FROM pk), (SELECT count(*) FROM fk), (SELECT count(*) FROM late);
CREATE TABLE deferred (i int REFERENCES pk DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO deferred VALUES (8);
INSERT INTO pk VALUES (8);
COMMIT;
TABLE deferred;

-- writable CTEs, DO, prepared statements
CREATE TABLE q (i int, b text);
WITH n AS (INSERT INTO q VALUES (1, 'x') RETURNING *) SELECT n.*, (SELECT count(*) FROM q) FROM n;
CREATE TABLE q2 (LIKE q INCLUDING ALL);
PREPARE ins (int) AS INSERT INTO q2 VALUES ($1);
PREPARE sel AS SELECT count(*) FROM q2;
EXECUTE sel;
EXECUTE ins (1);
EXECUTE sel;
EXECUTE ins (2);
EXECUTE sel;
DO $$ BEGIN
    CREATE TABLE in_do (i int);
    FOR n IN 1..3 LOOP
        BEGIN
            INSERT INTO in_do VALUES (n);
            IF n < 3 THEN RAISE EXCEPTION 'no'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$;
TABLE in_do;
CREATE PROCEDURE steps() LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO q3 VALUES (1);
    ROLLBACK;
    INSERT INTO q3 VALUES (2);
    COMMIT;
    INSERT INTO q3 VALUES (3);
END $$;
CREATE TABLE q3 (i int);
CALL steps();
TABLE q3;
SELECT nextval('t_s_seq') > 0;

-- large values
CREATE TABLE toasted (i int, a text, b bytea);
BEGIN;
INSERT INTO toasted VALUES (1, repeat('a', 1000000), convert_to(repeat('z', 500000), 'utf8'));
ROLLBACK;
SELECT count(*) FROM toasted;
ALTER TABLE toasted ALTER a SET STORAGE EXTERNAL;
INSERT INTO toasted VALUES (2, repeat('a', 100000), convert_to(repeat('z', 500000), 'utf8'));
SELECT i, length(a), length(b), substr(a, 50000, 3) FROM toasted;
UPDATE toasted SET a = a || 'b';
DELETE FROM toasted;
VACUUM toasted;
SELECT count(*) FROM toasted;
INSERT INTO toasted VALUES (3, repeat('a', 100000));
SELECT i, length(a) FROM toasted;
