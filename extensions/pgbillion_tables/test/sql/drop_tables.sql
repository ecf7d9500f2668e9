-- tables gone in bulk, and a listing of those there are
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_tables;
RESET client_min_messages;
CREATE SCHEMA dr;
SET search_path = dr;

CREATE FUNCTION rows_in_catalogs() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    catalog text;
    n bigint;
BEGIN
    FOR catalog IN SELECT oid::regclass::text FROM pg_class
                   WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND oid < 16384 ORDER BY 1
    LOOP
        EXECUTE 'SELECT count(*) FROM ' || catalog INTO n;
        RETURN NEXT catalog || ' ' || n;
    END LOOP;
END $$;
CREATE FUNCTION these(pattern text) RETURNS regclass[] LANGUAGE sql AS $$
    SELECT array_agg(oid::regclass ORDER BY relname) FROM pg_class
    WHERE relnamespace = 'dr'::regnamespace AND relname ~ pattern AND relkind IN ('r', 'p')
$$;

CREATE TABLE plain (i integer);
CREATE TABLE full_house (
    id serial PRIMARY KEY,
    t text UNIQUE DEFERRABLE DEFAULT 'x' CHECK (t <> ''),
    n bigint GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX ON full_house (lower(t));
CREATE STATISTICS st ON id, n FROM full_house;
COMMENT ON TABLE full_house IS 'x';
COMMENT ON COLUMN full_house.t IS 'y';
CREATE TEMP TABLE before AS SELECT rows_in_catalogs() AS r;

SELECT pgbillion_tables.create_tables('plain', 'p%d', 1, 300);
SELECT pgbillion_tables.create_tables('plain', 'l%d', 1, 300, access_method => 'lazy_heap');
SELECT pgbillion_tables.create_tables('full_house', 'h%d', 1, 50);
SELECT pgbillion_tables.create_tables('full_house', 'i%d', 1, 50, access_method => 'lazy_heap');
INSERT INTO h7 (t) SELECT g::text FROM generate_series(1, 100) g;
ANALYZE h7;
INSERT INTO i7 (t) VALUES ('a');

-- listing
SELECT name, schema_oid::regnamespace, access_method FROM pgbillion_tables.tables('^h1', schema => 'dr') WHERE access_method = 2;
SELECT name FROM pgbillion_tables.tables('^p', schema => 'dr', max_rows => 3);
SELECT name FROM pgbillion_tables.tables('^p', schema => 'dr', max_rows => 3, after => 'p100');
SELECT count(*) FROM pgbillion_tables.tables('^l', 'dr', NULL, NULL);
SELECT name FROM pgbillion_tables.tables('l299') WHERE schema_oid = 'dr'::regnamespace;
SELECT name FROM pgbillion_tables.tables('^full_h');
SELECT count(*) FROM pgbillion_tables.tables('^pg_');
SELECT count(*) FROM pgbillion_tables.tables(schema => 'dr', max_rows => 0);
SELECT * FROM pgbillion_tables.tables(max_rows => -1);
SELECT count(*) > 50 FROM pgbillion_tables.tables(schema => 'pg_catalog');
DO $$
DECLARE
    last name;
    page name[];
    total int := 0;
BEGIN
    LOOP
        SELECT array_agg(name) INTO page FROM pgbillion_tables.tables(schema => 'dr', after => last, max_rows => 97);
        EXIT WHEN page IS NULL;
        ASSERT last IS NULL OR page[1] > last;
        total := total + cardinality(page);
        last := page[cardinality(page)];
    END LOOP;
    RAISE NOTICE '% tables in pages, % in pg_class', total,
        (SELECT count(*) FROM pg_class WHERE relnamespace = 'dr'::regnamespace AND relkind IN ('r', 'p'));
END $$;

-- refused or cascaded as DROP TABLE does
CREATE VIEW v AS SELECT * FROM h2;
CREATE TABLE fk (i integer REFERENCES h3);
CREATE TABLE rt (x h4);
CREATE TABLE child () INHERITS (p1);
CREATE TABLE parted (i integer) PARTITION BY LIST (i);
CREATE TABLE part PARTITION OF parted FOR VALUES IN (1);
SELECT pgbillion_tables.drop_tables(ARRAY['h1', 'h2']::regclass[]);
SELECT pgbillion_tables.drop_tables(ARRAY['h3']::regclass[]);
SELECT pgbillion_tables.drop_tables(ARRAY['h4']::regclass[]);
SELECT pgbillion_tables.drop_tables(ARRAY['p1']::regclass[]);
SELECT pgbillion_tables.drop_tables(ARRAY['v']::regclass[]);
SELECT pgbillion_tables.drop_tables(ARRAY['pg_class']::regclass[]);
SELECT pgbillion_tables.drop_tables(ARRAY[4294967295]::oid[]::regclass[]);
SELECT pgbillion_tables.drop_tables('{}');
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM h7;
FETCH c;
SELECT pgbillion_tables.drop_tables(ARRAY['h7']::regclass[]);
ROLLBACK;
CREATE FUNCTION observe() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER observer ON sql_drop EXECUTE FUNCTION observe();
SELECT pgbillion_tables.drop_tables(ARRAY['h1']::regclass[]);
DROP EVENT TRIGGER observer;
DROP FUNCTION observe();
CREATE ROLE regress_billion_drop;
GRANT USAGE ON SCHEMA dr TO regress_billion_drop;
GRANT EXECUTE ON FUNCTION pgbillion_tables.drop_tables TO regress_billion_drop;
SET ROLE regress_billion_drop;
SELECT pgbillion_tables.drop_tables(ARRAY['h1']::regclass[]);
RESET ROLE;
DROP OWNED BY regress_billion_drop;
DROP ROLE regress_billion_drop;
SELECT count(*) FROM h1;

-- all or none
BEGIN;
SELECT pgbillion_tables.drop_tables(these('^p1\d'));
SELECT to_regclass('p100');
ROLLBACK;
SELECT count(*) FROM p100;
DO $$
BEGIN
    PERFORM pgbillion_tables.drop_tables(dr.these('^p1\d'));
    RAISE EXCEPTION 'no';
EXCEPTION WHEN raise_exception THEN
    NULL;
END $$;
INSERT INTO p100 VALUES (1);
SELECT * FROM p100;

-- created, filled and dropped in one transaction
BEGIN;
CREATE TABLE own (id serial, t text);
INSERT INTO own (t) VALUES ('x');
SELECT pgbillion_tables.create_tables('full_house', 'own%d', 1, 40);
INSERT INTO own3 (t) VALUES ('x');
TRUNCATE p5;
SELECT pgbillion_tables.drop_tables(these('^(own|p5$)'));
COMMIT;
SELECT these('^(own|p5$)');
CREATE TABLE own3 (i integer);
SELECT * FROM own3;

SELECT pgbillion_tables.drop_tables(these('^(own3|fk|rt|child|parted|h2)$'), true);
SELECT pgbillion_tables.drop_tables(these('^[plhi]\d+$'));
SELECT pgbillion_tables.drop_tables(these('^[plhi]\d+$')) IS NULL AS strict;
SELECT * FROM rows_in_catalogs() r WHERE r !~ '^pg_statistic ' EXCEPT SELECT r FROM before;
SET client_min_messages = warning;
DROP SCHEMA dr CASCADE;
DROP EXTENSION pgbillion_tables;
