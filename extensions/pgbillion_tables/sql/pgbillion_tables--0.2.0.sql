\echo Use "CREATE EXTENSION pgbillion_tables" to load this file. \quit

-- While this runs, search_path is pg_catalog, pg_temp: pgbillion_tables.control says
-- so. The schema is created here, and not by the control file, so that one
-- that is somebody else's is an error. There is no query in this script, and
-- nothing in it differs between major versions: pg_upgrade restores it as it is.
CREATE SCHEMA pgbillion_tables;
GRANT USAGE ON SCHEMA pgbillion_tables TO PUBLIC;

CREATE FUNCTION pgbillion_tables.version() RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_tables_version';

COMMENT ON FUNCTION pgbillion_tables.version() IS
'version of the loaded library';

CREATE FUNCTION pgbillion_tables.create_tables(
    template regclass,
    name_format text,
    first bigint,
    count bigint,
    tablespaces name[] DEFAULT NULL,
    schema regnamespace DEFAULT NULL,
    access_method name DEFAULT NULL,
    allow_unobserved boolean DEFAULT false
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_create_tables';

REVOKE ALL ON FUNCTION pgbillion_tables.create_tables(regclass, text, bigint, bigint, name[], regnamespace, name, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_tables.create_tables(regclass, text, bigint, bigint, name[], regnamespace, name, boolean) IS
'creates tables first … first + count - 1 like the template, all or none';

CREATE FUNCTION pgbillion_tables.create_progress(
    OUT pid integer,
    OUT datid oid,
    OUT template oid,
    OUT tables_total bigint,
    OUT tables_done bigint
) RETURNS SETOF record
LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'pgbillion_create_progress';

CREATE VIEW pgbillion_tables.create_progress AS
SELECT p.pid, p.datid, d.datname, p.template, p.tables_total, p.tables_done
FROM pgbillion_tables.create_progress() p
LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid;

COMMENT ON VIEW pgbillion_tables.create_progress IS
'running calls of create_tables, as other sessions see them';

GRANT SELECT ON pgbillion_tables.create_progress TO PUBLIC;

CREATE FUNCTION pgbillion_tables.lazy_heap_handler(internal) RETURNS table_am_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_lazy_heap_handler';

CREATE ACCESS METHOD lazy_heap TYPE TABLE HANDLER pgbillion_tables.lazy_heap_handler;

-- What a scan of a lazy table scans: see lazy_scan_begin(). An unlogged one has
-- a file, so that the database can be a template.
CREATE UNLOGGED TABLE pgbillion_tables.nothing (CHECK (false)) USING lazy_heap;

COMMENT ON ACCESS METHOD lazy_heap IS
'heap whose files appear with the first row';

CREATE FUNCTION pgbillion_tables.drop_guard() RETURNS event_trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'pgbillion_drop_guard';

COMMENT ON FUNCTION pgbillion_tables.drop_guard() IS
'keeps the extension from being dropped by cascade while there are lazy tables';

CREATE EVENT TRIGGER pgbillion_tables_drop_guard ON ddl_command_start
WHEN TAG IN ('DROP EXTENSION', 'DROP OWNED')
EXECUTE FUNCTION pgbillion_tables.drop_guard();

ALTER EVENT TRIGGER pgbillion_tables_drop_guard ENABLE ALWAYS;

CREATE FUNCTION pgbillion_tables.to_heap(tables regclass[]) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_to_heap';

COMMENT ON FUNCTION pgbillion_tables.to_heap(regclass[]) IS
'makes lazy tables ordinary heap tables and returns how many were lazy';

-- Its column's type is what pg_upgrade looks at: see upgrade.c.
CREATE TABLE pgbillion_tables.lazy_tables_left ("CALL pgbillion_tables.all_to_heap() before pg_upgrade" pg_catalog.oid, CHECK (false)) USING heap;

COMMENT ON TABLE pgbillion_tables.lazy_tables_left IS
'always empty; keeps pg_upgrade from a database that may have lazy tables';

CREATE PROCEDURE pgbillion_tables.all_to_heap()
LANGUAGE c
AS 'MODULE_PATHNAME', 'pgbillion_all_to_heap';

COMMENT ON PROCEDURE pgbillion_tables.all_to_heap() IS
'makes all lazy tables of the database ordinary heap tables, some a transaction';

CREATE FUNCTION pgbillion_tables.repair_dependencies(
    OUT "table" pg_catalog.regclass,
    OUT "column" pg_catalog.name,
    OUT role pg_catalog.oid,
    OUT missing pg_catalog.text,
    OUT outcome pg_catalog.text
) RETURNS SETOF pg_catalog.record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_repair_dependencies';

REVOKE ALL ON FUNCTION pgbillion_tables.repair_dependencies() FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_tables.repair_dependencies() IS
'records owners and grants that pg_shdepend does not know, and returns what was missing';

CREATE FUNCTION pgbillion_tables.drop_tables(
    tables regclass[],
    cascade boolean DEFAULT false,
    allow_unobserved boolean DEFAULT false
) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_drop_tables';

REVOKE ALL ON FUNCTION pgbillion_tables.drop_tables(regclass[], boolean, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_tables.drop_tables(regclass[], boolean, boolean) IS
'drops tables, all or none, and returns how many there were';

CREATE FUNCTION pgbillion_tables.tables(
    name_regex text DEFAULT NULL,
    schema regnamespace DEFAULT NULL,
    after name DEFAULT NULL,
    max_rows bigint DEFAULT 1000,
    OUT "table" oid,
    OUT schema_oid oid,
    OUT name name,
    OUT owner oid,
    OUT tablespace oid,
    OUT access_method oid
) RETURNS SETOF record
LANGUAGE c STABLE PARALLEL RESTRICTED ROWS 1000
AS 'MODULE_PATHNAME', 'pgbillion_tables';

COMMENT ON FUNCTION pgbillion_tables.tables(text, regnamespace, name, bigint) IS
'a page of the tables whose names match a regular expression, in order of their names, starting after "after"';

CREATE FUNCTION pgbillion_tables.clone_schema(
    template regnamespace,
    name text,
    access_method name DEFAULT NULL,
    rows regclass[] DEFAULT NULL,
    all_rows boolean DEFAULT false,
    rewrite_bodies boolean DEFAULT false,
    join_publications boolean DEFAULT false
) RETURNS regnamespace
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_clone_schema';

REVOKE ALL ON FUNCTION pgbillion_tables.clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_tables.clone_schema(regnamespace, text, name, regclass[], boolean, boolean, boolean) IS
'creates a schema with all that the template has, and the rows that are asked for';

CREATE FUNCTION pgbillion_tables.clone_schemas(
    template regnamespace,
    name_format text,
    first bigint,
    count bigint,
    access_method name DEFAULT NULL,
    rows regclass[] DEFAULT NULL,
    all_rows boolean DEFAULT false,
    rewrite_bodies boolean DEFAULT false,
    join_publications boolean DEFAULT false
) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_clone_schemas';

REVOKE ALL ON FUNCTION pgbillion_tables.clone_schemas(regnamespace, text, bigint, bigint, name, regclass[], boolean, boolean, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_tables.clone_schemas(regnamespace, text, bigint, bigint, name, regclass[], boolean, boolean, boolean) IS
'creates schemas first … first + count - 1 like the template, all or none';

-- What prepare_clone() keeps; dumps leave it out, because it is of use in this database only.
-- NOT NULL would be constraints with OIDs on 18 only.
CREATE TABLE pgbillion_tables.prepared_clones (
    template pg_catalog.oid,
    role pg_catalog.oid,
    access_method pg_catalog.name,
    rewrite_bodies pg_catalog.bool,
    stamp pg_catalog.bytea
) USING heap;

ALTER TABLE pgbillion_tables.prepared_clones ALTER COLUMN stamp SET STORAGE EXTERNAL;

COMMENT ON TABLE pgbillion_tables.prepared_clones IS
'stamps of schemas, by which clone_schema() needs no commands; see prepare_clone()';

CREATE FUNCTION pgbillion_tables.prepare_clone(
    template regnamespace,
    access_method name DEFAULT NULL,
    rewrite_bodies boolean DEFAULT false
) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_prepare_clone';

REVOKE ALL ON FUNCTION pgbillion_tables.prepare_clone(regnamespace, name, boolean) FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_tables.prepare_clone(regnamespace, name, boolean) IS
'has clones of the template made without commands as long as nothing of it changes';

CREATE FUNCTION pgbillion_tables.schema_fingerprints(
    schemas oid[],
    OUT schema oid,
    OUT fingerprint text,
    OUT tables bigint
) RETURNS SETOF record
LANGUAGE c STABLE PARALLEL RESTRICTED ROWS 100
AS 'MODULE_PATHNAME', 'pgbillion_schema_fingerprints';

COMMENT ON FUNCTION pgbillion_tables.schema_fingerprints(oid[]) IS
'for each schema a fingerprint of all definitions in it, without names and OIDs of its own; schemas with the same are the same';

CREATE FUNCTION pgbillion_tables.metadata_memory(
    OUT caches bigint,
    OUT plans bigint,
    OUT given_up bigint
) RETURNS record
LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'pgbillion_metadata_memory';

COMMENT ON FUNCTION pgbillion_tables.metadata_memory() IS
'bytes that catalog caches and plans take in this session, and how often pgbillion_tables.metadata_memory had the caches given up';
