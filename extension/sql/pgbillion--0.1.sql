\echo Use "CREATE EXTENSION pgbillion" to load this file. \quit

-- While this runs, search_path is pg_catalog, pg_temp: pgbillion.control says
-- so. The schema is created here, and not by the control file, so that one
-- that is somebody else's is an error. There is no query in this script, and
-- nothing in it differs between major versions: pg_upgrade restores it as it is.
CREATE SCHEMA billion;
GRANT USAGE ON SCHEMA billion TO PUBLIC;

CREATE FUNCTION billion.version() RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_version';

COMMENT ON FUNCTION billion.version() IS
'version of the loaded library';

CREATE FUNCTION billion.create_tables(
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

REVOKE ALL ON FUNCTION billion.create_tables(regclass, text, bigint, bigint, name[], regnamespace, name, boolean) FROM PUBLIC;

COMMENT ON FUNCTION billion.create_tables(regclass, text, bigint, bigint, name[], regnamespace, name, boolean) IS
'creates tables first … first + count - 1 like the template, all or none';

CREATE FUNCTION billion.create_progress(
    OUT pid integer,
    OUT datid oid,
    OUT template oid,
    OUT tables_total bigint,
    OUT tables_done bigint
) RETURNS SETOF record
LANGUAGE c VOLATILE STRICT PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'pgbillion_create_progress';

CREATE VIEW billion.create_progress AS
SELECT p.pid, p.datid, d.datname, p.template, p.tables_total, p.tables_done
FROM billion.create_progress() p
LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) p.datid;

COMMENT ON VIEW billion.create_progress IS
'running calls of create_tables, as other sessions see them';

GRANT SELECT ON billion.create_progress TO PUBLIC;

CREATE FUNCTION billion.lazy_heap_handler(internal) RETURNS table_am_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_lazy_heap_handler';

CREATE ACCESS METHOD lazy_heap TYPE TABLE HANDLER billion.lazy_heap_handler;

-- What a scan of a lazy table scans: see lazy_scan_begin(). An unlogged one has
-- a file, so that the database can be a template.
CREATE UNLOGGED TABLE billion.nothing (CHECK (false)) USING lazy_heap;

COMMENT ON ACCESS METHOD lazy_heap IS
'heap whose files appear with the first row';

CREATE FUNCTION billion.drop_guard() RETURNS event_trigger
LANGUAGE c
AS 'MODULE_PATHNAME', 'pgbillion_drop_guard';

COMMENT ON FUNCTION billion.drop_guard() IS
'keeps the extension from being dropped by cascade while there are lazy tables';

CREATE EVENT TRIGGER pgbillion_drop_guard ON ddl_command_start
WHEN TAG IN ('DROP EXTENSION', 'DROP OWNED')
EXECUTE FUNCTION billion.drop_guard();

ALTER EVENT TRIGGER pgbillion_drop_guard ENABLE ALWAYS;

CREATE FUNCTION billion.to_heap(tables regclass[]) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_to_heap';

COMMENT ON FUNCTION billion.to_heap(regclass[]) IS
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

CREATE FUNCTION billion.drop_tables(
    tables regclass[],
    cascade boolean DEFAULT false,
    allow_unobserved boolean DEFAULT false
) RETURNS bigint
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_drop_tables';

REVOKE ALL ON FUNCTION billion.drop_tables(regclass[], boolean, boolean) FROM PUBLIC;

COMMENT ON FUNCTION billion.drop_tables(regclass[], boolean, boolean) IS
'drops tables, all or none, and returns how many there were';

CREATE FUNCTION billion.tables(
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

COMMENT ON FUNCTION billion.tables(text, regnamespace, name, bigint) IS
'a page of the tables whose names match, in order of their names, from the one behind "after"';

CREATE FUNCTION billion.explain_vector(query text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'pgbillion_explain_vector';

COMMENT ON FUNCTION billion.explain_vector(text) IS 'whether the aggregation of a query is vectorised, and why not';

CREATE FUNCTION billion.pgbillion_fdw_handler() RETURNS fdw_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_fdw_handler';

CREATE FUNCTION billion.pgbillion_fdw_validator(text[], oid) RETURNS void
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_fdw_validator';

CREATE FOREIGN DATA WRAPPER pgbillion_fdw
HANDLER billion.pgbillion_fdw_handler
VALIDATOR billion.pgbillion_fdw_validator;

COMMENT ON FOREIGN DATA WRAPPER pgbillion_fdw IS
'postgres_fdw with aggregates, partial ones too, run on the shards';

CREATE FUNCTION billion.adopt_foreign_servers(servers name[] DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_adopt_foreign_servers';

COMMENT ON FUNCTION billion.adopt_foreign_servers(name[]) IS
'turns servers of postgres_fdw, all that one owns by default, into servers of pgbillion_fdw, and returns how many';

CREATE FUNCTION billion.release_foreign_servers(servers name[] DEFAULT NULL) RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_release_foreign_servers';

COMMENT ON FUNCTION billion.release_foreign_servers(name[]) IS
'turns servers of pgbillion_fdw back into servers of postgres_fdw, and returns how many';

CREATE FUNCTION billion.create_partial_aggregate(aggregate regprocedure) RETURNS regprocedure
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_create_partial_aggregate';

COMMENT ON FUNCTION billion.create_partial_aggregate(regprocedure) IS
'creates the aggregate whose result is the state of the one given, for pgbillion_fdw';

-- Partial aggregates of core's, for pgbillion_fdw. All functions are C functions
-- of ours that call core's (src/aggregates.c); those that a major version lacks
-- raise an error there.

CREATE FUNCTION billion.state(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_state';

COMMENT ON FUNCTION billion.state(internal) IS
'final function of partial aggregates: the serialized state, with a header that tells its format';

CREATE FUNCTION billion.int2_avg_accum(bigint[], smallint) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int2_avg_accum';

CREATE FUNCTION billion.int4_avg_accum(bigint[], integer) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int4_avg_accum';

CREATE FUNCTION billion.int4_avg_combine(bigint[], bigint[]) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int4_avg_combine';

CREATE AGGREGATE billion.partial_avg(smallint) (
    SFUNC = billion.int2_avg_accum, STYPE = bigint[],
    COMBINEFUNC = billion.int4_avg_combine, INITCOND = '{0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_avg(integer) (
    SFUNC = billion.int4_avg_accum, STYPE = bigint[],
    COMBINEFUNC = billion.int4_avg_combine, INITCOND = '{0,0}',
    PARALLEL = SAFE
);

CREATE FUNCTION billion.int8_avg_accum(internal, bigint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_accum';

CREATE FUNCTION billion.int8_avg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_combine';

CREATE FUNCTION billion.int8_avg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_serialize';

CREATE FUNCTION billion.int8_avg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_deserialize';

CREATE AGGREGATE billion.partial_avg(bigint) (
    SFUNC = billion.int8_avg_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.int8_avg_combine,
    SERIALFUNC = billion.int8_avg_serialize, DESERIALFUNC = billion.int8_avg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_sum(bigint) (
    SFUNC = billion.int8_avg_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.int8_avg_combine,
    SERIALFUNC = billion.int8_avg_serialize, DESERIALFUNC = billion.int8_avg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION billion.numeric_avg_accum(internal, numeric) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_accum';

CREATE FUNCTION billion.numeric_avg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_combine';

CREATE FUNCTION billion.numeric_avg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_serialize';

CREATE FUNCTION billion.numeric_avg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_deserialize';

CREATE AGGREGATE billion.partial_avg(numeric) (
    SFUNC = billion.numeric_avg_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_avg_combine,
    SERIALFUNC = billion.numeric_avg_serialize, DESERIALFUNC = billion.numeric_avg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_sum(numeric) (
    SFUNC = billion.numeric_avg_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_avg_combine,
    SERIALFUNC = billion.numeric_avg_serialize, DESERIALFUNC = billion.numeric_avg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION billion.int2_accum(internal, smallint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int2_accum';

CREATE FUNCTION billion.int4_accum(internal, integer) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int4_accum';

CREATE FUNCTION billion.numeric_poly_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_poly_combine';

CREATE FUNCTION billion.numeric_poly_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_poly_serialize';

CREATE FUNCTION billion.numeric_poly_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_poly_deserialize';

CREATE AGGREGATE billion.partial_var_pop(smallint) (
    SFUNC = billion.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_samp(smallint) (
    SFUNC = billion.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_variance(smallint) (
    SFUNC = billion.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_pop(smallint) (
    SFUNC = billion.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_samp(smallint) (
    SFUNC = billion.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev(smallint) (
    SFUNC = billion.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_pop(integer) (
    SFUNC = billion.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_samp(integer) (
    SFUNC = billion.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_variance(integer) (
    SFUNC = billion.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_pop(integer) (
    SFUNC = billion.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_samp(integer) (
    SFUNC = billion.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev(integer) (
    SFUNC = billion.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_poly_combine,
    SERIALFUNC = billion.numeric_poly_serialize, DESERIALFUNC = billion.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION billion.int8_accum(internal, bigint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_accum';

CREATE FUNCTION billion.numeric_accum(internal, numeric) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_accum';

CREATE FUNCTION billion.numeric_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_combine';

CREATE FUNCTION billion.numeric_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_serialize';

CREATE FUNCTION billion.numeric_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_deserialize';

CREATE AGGREGATE billion.partial_var_pop(bigint) (
    SFUNC = billion.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_samp(bigint) (
    SFUNC = billion.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_variance(bigint) (
    SFUNC = billion.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_pop(bigint) (
    SFUNC = billion.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_samp(bigint) (
    SFUNC = billion.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev(bigint) (
    SFUNC = billion.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_pop(numeric) (
    SFUNC = billion.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_samp(numeric) (
    SFUNC = billion.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_variance(numeric) (
    SFUNC = billion.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_pop(numeric) (
    SFUNC = billion.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_samp(numeric) (
    SFUNC = billion.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev(numeric) (
    SFUNC = billion.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = billion.state, COMBINEFUNC = billion.numeric_combine,
    SERIALFUNC = billion.numeric_serialize, DESERIALFUNC = billion.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION billion.float4_accum(double precision[], real) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float4_accum';

CREATE FUNCTION billion.float8_accum(double precision[], double precision) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_accum';

CREATE FUNCTION billion.float8_combine(double precision[], double precision[]) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_combine';

CREATE AGGREGATE billion.partial_avg(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_pop(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_samp(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_variance(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_pop(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_samp(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev(real) (
    SFUNC = billion.float4_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_avg(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_pop(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_var_samp(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_variance(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_pop(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev_samp(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_stddev(double precision) (
    SFUNC = billion.float8_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE FUNCTION billion.float8_regr_accum(double precision[], double precision, double precision) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_regr_accum';

CREATE FUNCTION billion.float8_regr_combine(double precision[], double precision[]) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_regr_combine';

CREATE AGGREGATE billion.partial_regr_sxx(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_syy(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_sxy(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_avgx(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_avgy(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_r2(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_slope(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_regr_intercept(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_covar_pop(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_covar_samp(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_corr(double precision, double precision) (
    SFUNC = billion.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = billion.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

-- since PostgreSQL 16
CREATE FUNCTION billion.string_agg_transfn(internal, text, text) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_transfn';

CREATE FUNCTION billion.bytea_string_agg_transfn(internal, bytea, bytea) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_bytea_string_agg_transfn';

CREATE FUNCTION billion.string_agg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_combine';

CREATE FUNCTION billion.string_agg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_serialize';

CREATE FUNCTION billion.string_agg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_deserialize';

CREATE AGGREGATE billion.partial_string_agg(text, text) (
    SFUNC = billion.string_agg_transfn, STYPE = internal,
    FINALFUNC = billion.state, COMBINEFUNC = billion.string_agg_combine,
    SERIALFUNC = billion.string_agg_serialize, DESERIALFUNC = billion.string_agg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_string_agg(bytea, bytea) (
    SFUNC = billion.bytea_string_agg_transfn, STYPE = internal,
    FINALFUNC = billion.state, COMBINEFUNC = billion.string_agg_combine,
    SERIALFUNC = billion.string_agg_serialize, DESERIALFUNC = billion.string_agg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION billion.array_agg_transfn(internal, anynonarray) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_transfn';

CREATE FUNCTION billion.array_agg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_combine';

CREATE FUNCTION billion.array_agg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_serialize';

CREATE FUNCTION billion.array_agg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_deserialize';

CREATE AGGREGATE billion.partial_array_agg(anynonarray) (
    SFUNC = billion.array_agg_transfn, STYPE = internal,
    FINALFUNC = billion.state, COMBINEFUNC = billion.array_agg_combine,
    SERIALFUNC = billion.array_agg_serialize, DESERIALFUNC = billion.array_agg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION billion.array_agg_array_transfn(internal, anyarray) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_transfn';

CREATE FUNCTION billion.array_agg_array_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_combine';

CREATE FUNCTION billion.array_agg_array_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_serialize';

CREATE FUNCTION billion.array_agg_array_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_deserialize';

CREATE AGGREGATE billion.partial_array_agg(anyarray) (
    SFUNC = billion.array_agg_array_transfn, STYPE = internal,
    FINALFUNC = billion.state, COMBINEFUNC = billion.array_agg_array_combine,
    SERIALFUNC = billion.array_agg_array_serialize, DESERIALFUNC = billion.array_agg_array_deserialize,
    PARALLEL = SAFE
);

-- since PostgreSQL 17
CREATE FUNCTION billion.interval_avg_accum(internal, interval) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_accum';

CREATE FUNCTION billion.interval_avg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_combine';

CREATE FUNCTION billion.interval_avg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_serialize';

CREATE FUNCTION billion.interval_avg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_deserialize';

CREATE AGGREGATE billion.partial_avg(interval) (
    SFUNC = billion.interval_avg_accum, STYPE = internal, SSPACE = 40,
    FINALFUNC = billion.state, COMBINEFUNC = billion.interval_avg_combine,
    SERIALFUNC = billion.interval_avg_serialize, DESERIALFUNC = billion.interval_avg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE billion.partial_sum(interval) (
    SFUNC = billion.interval_avg_accum, STYPE = internal, SSPACE = 40,
    FINALFUNC = billion.state, COMBINEFUNC = billion.interval_avg_combine,
    SERIALFUNC = billion.interval_avg_serialize, DESERIALFUNC = billion.interval_avg_deserialize,
    PARALLEL = SAFE
);

-- before PostgreSQL 17, where the state was an array; under a name of its own,
-- as partial_avg(interval) cannot have two results
CREATE FUNCTION billion.interval_accum(interval[], interval) RETURNS interval[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_accum';

CREATE FUNCTION billion.interval_combine(interval[], interval[]) RETURNS interval[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_combine';

CREATE AGGREGATE billion.partial_avg_array(interval) (
    SFUNC = billion.interval_accum, STYPE = interval[],
    COMBINEFUNC = billion.interval_combine, INITCOND = '{0 second,0 second}',
    PARALLEL = SAFE
);
