\echo Use "CREATE EXTENSION pgbillion" to load this file. \quit

CREATE FUNCTION @extschema@.version() RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_version';

COMMENT ON FUNCTION @extschema@.version() IS
'version of the loaded library';

CREATE FUNCTION @extschema@.create_tables(
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

REVOKE ALL ON FUNCTION @extschema@.create_tables(regclass, text, bigint, bigint, name[], regnamespace, name, boolean) FROM PUBLIC;

COMMENT ON FUNCTION @extschema@.create_tables(regclass, text, bigint, bigint, name[], regnamespace, name, boolean) IS
'creates tables first … first + count - 1 like the template, all or none';

CREATE FUNCTION @extschema@.create_progress(
    OUT pid integer,
    OUT datid oid,
    OUT template oid,
    OUT tables_total bigint,
    OUT tables_done bigint
) RETURNS SETOF record
LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'pgbillion_create_progress';

CREATE VIEW @extschema@.create_progress AS
SELECT p.pid, p.datid, d.datname, p.template, p.tables_total, p.tables_done
FROM @extschema@.create_progress() p
LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;

COMMENT ON VIEW @extschema@.create_progress IS
'running calls of create_tables, as other sessions see them';

GRANT USAGE ON SCHEMA @extschema@ TO PUBLIC;
GRANT SELECT ON @extschema@.create_progress TO PUBLIC;

CREATE FUNCTION @extschema@.lazy_heap_handler(internal) RETURNS table_am_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_lazy_heap_handler';

CREATE ACCESS METHOD lazy_heap TYPE TABLE HANDLER @extschema@.lazy_heap_handler;

-- What a scan of a lazy table scans: see lazy_scan_begin(). An unlogged one has
-- a file, so that the database can be a template.
CREATE UNLOGGED TABLE @extschema@.nothing (CHECK (false)) USING lazy_heap;

COMMENT ON ACCESS METHOD lazy_heap IS
'heap whose files appear with the first row';

CREATE FUNCTION @extschema@.drop_guard() RETURNS event_trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'pgbillion_drop_guard';

COMMENT ON FUNCTION @extschema@.drop_guard() IS
'keeps the extension from being dropped by cascade while there are lazy tables';

CREATE EVENT TRIGGER pgbillion_drop_guard ON ddl_command_start
WHEN TAG IN ('DROP EXTENSION', 'DROP SCHEMA', 'DROP OWNED')
EXECUTE FUNCTION @extschema@.drop_guard();

ALTER EVENT TRIGGER pgbillion_drop_guard ENABLE ALWAYS;

CREATE FUNCTION @extschema@.to_heap(tables regclass[]) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_to_heap';

COMMENT ON FUNCTION @extschema@.to_heap(regclass[]) IS
'makes lazy tables ordinary heap tables and returns how many were lazy';

-- Its column's type is what pg_upgrade looks at: see upgrade.c.
CREATE TABLE billion.lazy_tables_left ("CALL billion.all_to_heap() before pg_upgrade" pg_catalog.oid, CHECK (false)) USING heap;

COMMENT ON TABLE billion.lazy_tables_left IS
'always empty; keeps pg_upgrade from a database that may have lazy tables';

CREATE PROCEDURE billion.all_to_heap()
LANGUAGE c
AS 'MODULE_PATHNAME', 'pgbillion_all_to_heap';

COMMENT ON PROCEDURE billion.all_to_heap() IS
'makes all lazy tables of the database ordinary heap tables, some a transaction';

CREATE FUNCTION billion.repair_dependencies(
    OUT "table" pg_catalog.regclass,
    OUT "column" pg_catalog.name,
    OUT role pg_catalog.oid,
    OUT missing pg_catalog.text,
    OUT outcome pg_catalog.text
) RETURNS SETOF pg_catalog.record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_repair_dependencies';

REVOKE ALL ON FUNCTION billion.repair_dependencies() FROM PUBLIC;

COMMENT ON FUNCTION billion.repair_dependencies() IS
'records owners and grants that pg_shdepend does not know, and returns what was missing';

CREATE FUNCTION @extschema@.drop_tables(
    tables regclass[],
    cascade boolean DEFAULT false,
    allow_unobserved boolean DEFAULT false
) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_drop_tables';

REVOKE ALL ON FUNCTION @extschema@.drop_tables(regclass[], boolean, boolean) FROM PUBLIC;

COMMENT ON FUNCTION @extschema@.drop_tables(regclass[], boolean, boolean) IS
'drops tables, all or none, and returns how many there were';

CREATE FUNCTION @extschema@.tables(
    like_pattern text DEFAULT NULL,
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

COMMENT ON FUNCTION @extschema@.tables(text, regnamespace, name, bigint) IS
'a page of the tables whose names match, in order of their names, from the one behind "after"';

CREATE FUNCTION billion.explain_vector(query text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'pgbillion_explain_vector';

COMMENT ON FUNCTION billion.explain_vector(text) IS 'whether the aggregation of a query is vectorised, and why not';

CREATE FUNCTION @extschema@.pgbillion_fdw_handler() RETURNS fdw_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_fdw_handler';

CREATE FUNCTION @extschema@.pgbillion_fdw_validator(text[], oid) RETURNS void
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_fdw_validator';

CREATE FOREIGN DATA WRAPPER pgbillion_fdw
HANDLER @extschema@.pgbillion_fdw_handler
VALIDATOR @extschema@.pgbillion_fdw_validator;

COMMENT ON FOREIGN DATA WRAPPER pgbillion_fdw IS
'postgres_fdw with aggregates, partial ones too, run on the shards';

CREATE FUNCTION @extschema@.adopt_foreign_servers(servers name[] DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_adopt_foreign_servers';

COMMENT ON FUNCTION @extschema@.adopt_foreign_servers(name[]) IS
'turns servers of postgres_fdw, all that one owns by default, into servers of pgbillion_fdw, and returns how many';

CREATE FUNCTION @extschema@.release_foreign_servers(servers name[] DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_release_foreign_servers';

COMMENT ON FUNCTION @extschema@.release_foreign_servers(name[]) IS
'turns servers of pgbillion_fdw back into servers of postgres_fdw, and returns how many';

CREATE FUNCTION @extschema@.create_partial_aggregate(aggregate regprocedure) RETURNS regprocedure
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_create_partial_aggregate';

COMMENT ON FUNCTION @extschema@.create_partial_aggregate(regprocedure) IS
'creates the aggregate whose result is the state of the one given, for pgbillion_fdw';

-- Those of core whose result is not their state already.
SELECT @extschema@.create_partial_aggregate(a.aggfnoid)
FROM pg_catalog.pg_aggregate a
JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid
WHERE p.pronamespace = 'pg_catalog'::pg_catalog.regnamespace
  AND a.aggkind = 'n'
  AND a.aggcombinefn <> 0
  AND a.aggfinalfn <> 0
  AND (a.aggtranstype <> 'pg_catalog.internal'::pg_catalog.regtype OR a.aggserialfn <> 0)
ORDER BY a.aggfnoid;
