-- what a user sees of pgbillion_tables.create_tables()
SET client_min_messages = warning;
CREATE EXTENSION pgbillion_tables;
RESET client_min_messages;
\set SHOW_CONTEXT never

SELECT pgbillion_tables.version() = extversion AS same_version FROM pg_extension WHERE extname = 'pgbillion_tables';

CREATE SCHEMA s;
SET search_path = s;
CREATE TABLE template (
    id serial PRIMARY KEY,
    name text NOT NULL DEFAULT 'x' CHECK (name <> ''),
    size bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    twice bigint GENERATED ALWAYS AS (length(name) * 2) STORED
);
CREATE INDEX ON template (lower(name), size);
CREATE STATISTICS named ON name, twice FROM template;
COMMENT ON TABLE template IS 'a template';
ALTER TABLE template SET (fillfactor = 70, toast.autovacuum_enabled = false);

SELECT pgbillion_tables.create_tables('template', NULL, 9, 3);
\d _0000000a
SELECT obj_description('_0000000b'::regclass);
INSERT INTO _0000000a (name) VALUES ('one'), ('three') RETURNING *;
INSERT INTO _0000000b (name) VALUES ('five') RETURNING *;
INSERT INTO _0000000b (id) VALUES (1);
INSERT INTO _0000000b (name) VALUES ('');
INSERT INTO template DEFAULT VALUES RETURNING id;
DROP TABLE _0000000a;
SELECT count(*) FROM pg_class WHERE relname ~ '0000000a';

-- formats
CREATE TABLE plain (i integer);
SELECT pgbillion_tables.create_tables('plain', 'd%d', 98, 4);
SELECT pgbillion_tables.create_tables('plain', 'p%04d%%_x', 98, 4);
SELECT pgbillion_tables.create_tables('plain', 'o%o and %%', 7, 2);
SELECT pgbillion_tables.create_tables('plain', 'X%X', 175, 2);
SELECT pgbillion_tables.create_tables('plain', 'w%4d', 9, 2);
SELECT relname FROM pg_class WHERE relnamespace = 's'::regnamespace AND relname ~ '^[dpoXw][ 0-9A-F]' ORDER BY relname COLLATE "C";
SELECT pgbillion_tables.create_tables('plain', 'no number', 1, 1);
SELECT pgbillion_tables.create_tables('plain', '%d twice %d', 1, 1);
SELECT pgbillion_tables.create_tables('plain', '%s', 1, 1);
SELECT pgbillion_tables.create_tables('plain', 'end%', 1, 1);
SELECT pgbillion_tables.create_tables('plain', '%064d', 1, 1);
SELECT pgbillion_tables.create_tables('plain', repeat('n', 61) || '%d', 98, 2);
SELECT pgbillion_tables.create_tables('plain', repeat('n', 61) || '%d', 98, 3);

-- numbers
SELECT pgbillion_tables.create_tables('plain', 'n%d', 1, 0);
SELECT pgbillion_tables.create_tables('plain', 'n%d', 1, -1);
SELECT pgbillion_tables.create_tables('plain', 'n%d', -1, 1);
SELECT pgbillion_tables.create_tables('plain', 'n%d', 9223372036854775807, 2);
SELECT pgbillion_tables.create_tables('plain', 'n%d', 9223372036854775806, 2);
SELECT pgbillion_tables.create_tables(NULL, 'n%d', 1, 1);
SELECT pgbillion_tables.create_tables('plain', 'n%d', NULL, 1);
SELECT to_regclass('n9223372036854775807') IS NOT NULL AS last_one_is_there;

-- names that are taken
CREATE TABLE c3 (i integer);
SELECT pgbillion_tables.create_tables('plain', 'c%d', 0, 10);
SELECT pgbillion_tables.create_tables('plain', 'c%d', 3, 1);
SELECT count(*) FROM pg_class WHERE relname ~ '^c\d';
CREATE TYPE e5 AS ENUM ('x');
SELECT pgbillion_tables.create_tables('plain', 'e%d', 0, 10);
SELECT count(*) FROM pg_class WHERE relname ~ '^e\d';
-- an array type gives way, as it does for CREATE TABLE
CREATE TYPE u7 AS ENUM ('x');
SELECT pgbillion_tables.create_tables('plain', '_u%d', 5, 4);
SELECT typname, typarray::regtype FROM pg_type WHERE typname IN ('u7', '_u7') AND typnamespace = 's'::regnamespace ORDER BY 1;
-- other names are numbered
CREATE VIEW k4_a_idx AS SELECT 1;
CREATE TABLE indexed (a integer, b integer, EXCLUDE (b WITH =));
CREATE INDEX ON indexed (a);
CREATE INDEX ON indexed (a) WHERE b > 0;
SELECT pgbillion_tables.create_tables('indexed', 'k%d', 3, 2);
SELECT relname, relkind FROM pg_class WHERE relname ~ '^k\d_' ORDER BY 1;

-- where to
CREATE SCHEMA t;
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, schema => 't');
SELECT oid::regclass FROM pg_class WHERE relname ~ '^x\d' ORDER BY relname;
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, schema => 'pg_catalog');
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, schema => 'pg_temp');
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, ARRAY['nowhere']);
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, ARRAY['pg_global']);
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, ARRAY[NULL]::name[]);
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, '{}');
SELECT pgbillion_tables.create_tables('plain', 'x%d', 1, 2, ARRAY['pg_default']);
SELECT count(*), min(reltablespace) FROM pg_class WHERE relname ~ '^x\d' AND relnamespace = 's'::regnamespace;

-- temporary templates and unlogged ones
CREATE TEMP TABLE temporary (id serial, t text);
SELECT pgbillion_tables.create_tables('temporary', 'y%d', 1, 2);
CREATE UNLOGGED TABLE unlogged (id serial PRIMARY KEY, t text);
SELECT pgbillion_tables.create_tables('unlogged', 'z%d', 1, 2);
SELECT relname, relpersistence, relkind FROM pg_class WHERE relname ~ '^[yz]\d' ORDER BY 1;

-- what LIKE leaves behind
CREATE TABLE owner (id integer PRIMARY KEY);
CREATE TABLE owned (i integer REFERENCES owner, up integer UNIQUE CONSTRAINT tree REFERENCES owned (up));
CREATE TRIGGER watch BEFORE UPDATE ON owned FOR EACH ROW WHEN (OLD.* IS NOT DISTINCT FROM NEW.*)
    EXECUTE FUNCTION suppress_redundant_updates_trigger();
CREATE POLICY own ON owned USING (EXISTS (SELECT FROM owner o WHERE o.id = owned.i));
ALTER TABLE owned ENABLE ROW LEVEL SECURITY;
SELECT pgbillion_tables.create_tables('owned', 'owned%d', 1, 4);
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = 'owned4'::regclass AND contype = 'f' ORDER BY 1;
SELECT tgname, tgqual IS NOT NULL AS condition FROM pg_trigger WHERE tgrelid = 'owned4'::regclass AND NOT tgisinternal;
SELECT polname, relrowsecurity FROM pg_policy JOIN pg_class c ON c.oid = polrelid WHERE relname = 'owned4';
INSERT INTO owner VALUES (1);
INSERT INTO owned4 VALUES (1, 1);
INSERT INTO owned4 VALUES (2);
INSERT INTO owned4 VALUES (1, 2), (1, 3);
UPDATE owned4 SET up = 9 WHERE up = 1;
UPDATE owned4 SET i = 1;
DELETE FROM owner;
SELECT pgbillion_tables.drop_tables(ARRAY['owned1', 'owned2', 'owned3', 'owned4']::regclass[]);
DELETE FROM owner;

CREATE TABLE ruled (i integer);
CREATE RULE nothing AS ON DELETE TO ruled DO INSTEAD NOTHING;
CREATE TABLE child () INHERITS (plain);
SELECT pgbillion_tables.create_tables('ruled', 'ruled%d', 1, 4);
SELECT pgbillion_tables.create_tables('child', 'child%d', 1, 4);
SELECT tablename FROM pg_rules WHERE rulename = 'nothing' ORDER BY 1;
INSERT INTO ruled4 VALUES (1);
DELETE FROM ruled4;
INSERT INTO child4 VALUES (1);
SELECT tableoid::regclass, i FROM plain;
SELECT pgbillion_tables.drop_tables(array_agg(oid::regclass)) FROM pg_class WHERE relname ~ '^(ruled|child)\d$';
DROP TABLE child;

-- partitions
CREATE TABLE parted (i integer NOT NULL, t text, id serial) PARTITION BY LIST (i);
CREATE INDEX ON parted (t);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1);
CREATE TABLE part PARTITION OF parted DEFAULT PARTITION BY RANGE (lower(t), i);
CREATE TABLE parted_rest PARTITION OF part FOR VALUES FROM ('a', MINVALUE) TO ('m', MINVALUE);
SELECT pgbillion_tables.create_tables('parted', 'tree%d', 1, 4);
SELECT relid, parentrelid, pg_get_expr(relpartbound, relid) AS bound, pg_get_partkeydef(relid) AS key
    FROM pg_partition_tree('tree4') JOIN pg_class c ON c.oid = relid;
SELECT relid FROM pg_partition_tree('tree4_t_idx');
INSERT INTO tree4 VALUES (1, 'x'), (2, 'B');
SELECT tableoid::regclass, * FROM tree4;
INSERT INTO tree4 VALUES (3, 'n');
SELECT pgbillion_tables.drop_tables(array_agg(oid::regclass)) FROM pg_class WHERE relname ~ '^tree\d$';
SELECT count(*) FROM pg_class WHERE relname ~ '^tree';

-- what a stamp cannot carry
CREATE FOREIGN DATA WRAPPER regress_billion;
CREATE SERVER regress_billion FOREIGN DATA WRAPPER regress_billion;
CREATE FOREIGN TABLE far PARTITION OF parted FOR VALUES IN (9) SERVER regress_billion;
SELECT pgbillion_tables.create_tables('parted', 'f%d', 1, 2);
DROP FOREIGN DATA WRAPPER regress_billion CASCADE;
SELECT pgbillion_tables.create_tables('parted', repeat('f', 58) || '%d', 1, 9);
SELECT pgbillion_tables.create_tables('parted', repeat('f', 58) || '%d', 1, 10);
SELECT pgbillion_tables.create_tables('k4_a_idx', 'f%d', 1, 2);
SELECT pgbillion_tables.create_tables('template_id_seq', 'f%d', 1, 2);
SELECT pgbillion_tables.create_tables('pg_class', 'f%d', 1, 2);
SELECT pgbillion_tables.create_tables(4294967295, 'f%d', 1, 2);
SELECT count(*) FROM pg_class WHERE relname ~ '^f\d';

-- observers
CREATE FUNCTION observe() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE EVENT TRIGGER observer ON ddl_command_end EXECUTE FUNCTION observe();
SELECT pgbillion_tables.create_tables('plain', 'g%d', 1, 2);
SELECT pgbillion_tables.create_tables('plain', 'g%d', 1, 2, allow_unobserved => true);
ALTER EVENT TRIGGER observer DISABLE;
SELECT pgbillion_tables.create_tables('plain', 'g%d', 3, 2);
DROP EVENT TRIGGER observer;

-- privileges
CREATE ROLE regress_billion;
SET ROLE regress_billion;
SELECT pgbillion_tables.create_tables('s.plain', 'h%d', 1, 2, schema => 's');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pgbillion_tables.create_tables TO regress_billion;
GRANT USAGE ON SCHEMA s TO regress_billion;
SET ROLE regress_billion;
SELECT pgbillion_tables.create_tables('s.plain', 'h%d', 1, 2, schema => 's');
RESET ROLE;
GRANT SELECT ON plain TO regress_billion;
SET ROLE regress_billion;
SELECT pgbillion_tables.create_tables('s.plain', 'h%d', 1, 2, schema => 's');
RESET ROLE;
GRANT CREATE ON SCHEMA s TO regress_billion;
ALTER DEFAULT PRIVILEGES FOR ROLE regress_billion IN SCHEMA s GRANT SELECT ON TABLES TO PUBLIC;
SET ROLE regress_billion;
SELECT pgbillion_tables.create_tables('s.plain', 'h%d', 1, 2, schema => 's');
RESET ROLE;
SELECT relname, relowner::regrole, relacl::text ~ '^{=r/' AS everyone_reads FROM pg_class WHERE relname ~ '^h\d' ORDER BY 1;

-- all or none
BEGIN;
SELECT pgbillion_tables.create_tables('template', 'i%d', 1, 100);
SAVEPOINT a;
SELECT pgbillion_tables.create_tables('template', 'i%d', 101, 100);
INSERT INTO i150 (name) VALUES ('q');
ROLLBACK TO a;
SELECT count(*) FROM pg_class WHERE relname ~ '^i\d+$';
SELECT pgbillion_tables.create_tables('template', 'i%d', 101, 50);
INSERT INTO i150 (name) VALUES ('q') RETURNING name;
ROLLBACK;
SELECT count(*) FROM pg_class WHERE relname ~ '^i\d';
BEGIN READ ONLY;
SELECT pgbillion_tables.create_tables('template', 'i%d', 1, 100);
ROLLBACK;

-- rolled back to a savepoint by an exception, then once more
DO $$
BEGIN
    BEGIN
        PERFORM pgbillion_tables.create_tables('template', 'j%d', 1, 300);
        RAISE EXCEPTION 'no';
    EXCEPTION WHEN raise_exception THEN
        NULL;
    END;
    PERFORM pgbillion_tables.create_tables('template', 'j%d', 1, 300);
    INSERT INTO j300 (name) VALUES ('seen in the same transaction');
END $$;
SELECT name FROM j300;
SELECT count(*) FROM pg_class WHERE relname ~ '^j\d+$';

SELECT * FROM pgbillion_tables.create_progress;

-- every catalog is as it was once all is dropped
SET client_min_messages = warning;
RESET search_path;
DROP SCHEMA t CASCADE;
DO $$
DECLARE
    batch text;
BEGIN
    LOOP
        SELECT string_agg(format('DROP TABLE %s CASCADE', oid::regclass), '; ') INTO batch
        FROM (SELECT oid FROM pg_class WHERE relnamespace = 's'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition LIMIT 50) c;
        EXIT WHEN batch IS NULL;
        EXECUTE batch;
    END LOOP;
END $$;
DROP SCHEMA s CASCADE;
REVOKE ALL ON FUNCTION pgbillion_tables.create_tables FROM regress_billion;
DROP OWNED BY regress_billion;
DROP ROLE regress_billion;
SELECT count(*) FROM pg_depend d WHERE d.objid >= 16384 AND d.classid = 'pg_class'::regclass AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = d.objid);
SELECT count(*) FROM pg_attribute a WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = a.attrelid);
SELECT count(*) FROM pg_type t WHERE typrelid <> 0 AND NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid);
DROP EXTENSION pgbillion_tables;
