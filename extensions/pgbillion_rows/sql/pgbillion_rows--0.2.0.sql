\echo Use "CREATE EXTENSION pgbillion_rows" to load this file. \quit

-- While this runs, search_path is pg_catalog, pg_temp: pgbillion_rows.control says
-- so. The schema is created here, and not by the control file, so that one
-- that is somebody else's is an error. There is no query in this script, and
-- nothing in it differs between major versions: pg_upgrade restores it as it is.
CREATE SCHEMA pgbillion_rows;
GRANT USAGE ON SCHEMA pgbillion_rows TO PUBLIC;

CREATE FUNCTION pgbillion_rows.version() RETURNS text
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_rows_version';

COMMENT ON FUNCTION pgbillion_rows.version() IS
'version of the loaded library';

CREATE FUNCTION pgbillion_rows.explain_vector(query text) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'pgbillion_explain_vector';

COMMENT ON FUNCTION pgbillion_rows.explain_vector(text) IS 'whether the aggregation of a query is vectorized, and why not';

CREATE FUNCTION pgbillion_rows.explain_as(query text, role regrole, search_path text) RETURNS json
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'pgbillion_explain_as';

COMMENT ON FUNCTION pgbillion_rows.explain_as(text, regrole, text) IS
'plan of a query, made with the privileges of a role that the caller may SET';

CREATE FUNCTION pgbillion_rows.pgbillion_fdw_handler() RETURNS fdw_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_fdw_handler';

CREATE FUNCTION pgbillion_rows.pgbillion_fdw_validator(text[], oid) RETURNS void
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_fdw_validator';

CREATE FOREIGN DATA WRAPPER pgbillion_fdw
HANDLER pgbillion_rows.pgbillion_fdw_handler
VALIDATOR pgbillion_rows.pgbillion_fdw_validator;

COMMENT ON FOREIGN DATA WRAPPER pgbillion_fdw IS
'postgres_fdw with aggregates, partial ones too, run on the shards';

CREATE FUNCTION pgbillion_rows.create_partial_aggregate(aggregate regprocedure) RETURNS regprocedure
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_create_partial_aggregate';

COMMENT ON FUNCTION pgbillion_rows.create_partial_aggregate(regprocedure) IS
'creates the aggregate whose result is the state of the one given, for pgbillion_fdw';

-- Partial aggregates of core's, for pgbillion_fdw. All functions are C functions
-- of ours that call core's (src/planner/aggregates.c); those that a major version lacks
-- raise an error there.

CREATE FUNCTION pgbillion_rows.state(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_state';

COMMENT ON FUNCTION pgbillion_rows.state(internal) IS
'final function of partial aggregates: the serialized state, with a header that tells its format';

CREATE FUNCTION pgbillion_rows.int2_avg_accum(bigint[], smallint) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int2_avg_accum';

CREATE FUNCTION pgbillion_rows.int4_avg_accum(bigint[], integer) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int4_avg_accum';

CREATE FUNCTION pgbillion_rows.int4_avg_combine(bigint[], bigint[]) RETURNS bigint[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int4_avg_combine';

CREATE AGGREGATE pgbillion_rows.partial_avg(smallint) (
    SFUNC = pgbillion_rows.int2_avg_accum, STYPE = bigint[],
    COMBINEFUNC = pgbillion_rows.int4_avg_combine, INITCOND = '{0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_avg(integer) (
    SFUNC = pgbillion_rows.int4_avg_accum, STYPE = bigint[],
    COMBINEFUNC = pgbillion_rows.int4_avg_combine, INITCOND = '{0,0}',
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.int8_avg_accum(internal, bigint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_accum';

CREATE FUNCTION pgbillion_rows.int8_avg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_combine';

CREATE FUNCTION pgbillion_rows.int8_avg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_serialize';

CREATE FUNCTION pgbillion_rows.int8_avg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_avg_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_avg(bigint) (
    SFUNC = pgbillion_rows.int8_avg_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.int8_avg_combine,
    SERIALFUNC = pgbillion_rows.int8_avg_serialize, DESERIALFUNC = pgbillion_rows.int8_avg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_sum(bigint) (
    SFUNC = pgbillion_rows.int8_avg_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.int8_avg_combine,
    SERIALFUNC = pgbillion_rows.int8_avg_serialize, DESERIALFUNC = pgbillion_rows.int8_avg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.numeric_avg_accum(internal, numeric) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_accum';

CREATE FUNCTION pgbillion_rows.numeric_avg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_combine';

CREATE FUNCTION pgbillion_rows.numeric_avg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_serialize';

CREATE FUNCTION pgbillion_rows.numeric_avg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_avg_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_avg(numeric) (
    SFUNC = pgbillion_rows.numeric_avg_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_avg_combine,
    SERIALFUNC = pgbillion_rows.numeric_avg_serialize, DESERIALFUNC = pgbillion_rows.numeric_avg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_sum(numeric) (
    SFUNC = pgbillion_rows.numeric_avg_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_avg_combine,
    SERIALFUNC = pgbillion_rows.numeric_avg_serialize, DESERIALFUNC = pgbillion_rows.numeric_avg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.int2_accum(internal, smallint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int2_accum';

CREATE FUNCTION pgbillion_rows.int4_accum(internal, integer) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int4_accum';

CREATE FUNCTION pgbillion_rows.numeric_poly_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_poly_combine';

CREATE FUNCTION pgbillion_rows.numeric_poly_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_poly_serialize';

CREATE FUNCTION pgbillion_rows.numeric_poly_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_poly_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_var_pop(smallint) (
    SFUNC = pgbillion_rows.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_samp(smallint) (
    SFUNC = pgbillion_rows.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_variance(smallint) (
    SFUNC = pgbillion_rows.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_pop(smallint) (
    SFUNC = pgbillion_rows.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_samp(smallint) (
    SFUNC = pgbillion_rows.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev(smallint) (
    SFUNC = pgbillion_rows.int2_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_pop(integer) (
    SFUNC = pgbillion_rows.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_samp(integer) (
    SFUNC = pgbillion_rows.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_variance(integer) (
    SFUNC = pgbillion_rows.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_pop(integer) (
    SFUNC = pgbillion_rows.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_samp(integer) (
    SFUNC = pgbillion_rows.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev(integer) (
    SFUNC = pgbillion_rows.int4_accum, STYPE = internal, SSPACE = 48,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_poly_combine,
    SERIALFUNC = pgbillion_rows.numeric_poly_serialize, DESERIALFUNC = pgbillion_rows.numeric_poly_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.int8_accum(internal, bigint) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_int8_accum';

CREATE FUNCTION pgbillion_rows.numeric_accum(internal, numeric) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_accum';

CREATE FUNCTION pgbillion_rows.numeric_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_combine';

CREATE FUNCTION pgbillion_rows.numeric_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_serialize';

CREATE FUNCTION pgbillion_rows.numeric_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_numeric_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_var_pop(bigint) (
    SFUNC = pgbillion_rows.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_samp(bigint) (
    SFUNC = pgbillion_rows.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_variance(bigint) (
    SFUNC = pgbillion_rows.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_pop(bigint) (
    SFUNC = pgbillion_rows.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_samp(bigint) (
    SFUNC = pgbillion_rows.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev(bigint) (
    SFUNC = pgbillion_rows.int8_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_pop(numeric) (
    SFUNC = pgbillion_rows.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_samp(numeric) (
    SFUNC = pgbillion_rows.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_variance(numeric) (
    SFUNC = pgbillion_rows.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_pop(numeric) (
    SFUNC = pgbillion_rows.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_samp(numeric) (
    SFUNC = pgbillion_rows.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev(numeric) (
    SFUNC = pgbillion_rows.numeric_accum, STYPE = internal, SSPACE = 128,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.numeric_combine,
    SERIALFUNC = pgbillion_rows.numeric_serialize, DESERIALFUNC = pgbillion_rows.numeric_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.float4_accum(double precision[], real) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float4_accum';

CREATE FUNCTION pgbillion_rows.float8_accum(double precision[], double precision) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_accum';

CREATE FUNCTION pgbillion_rows.float8_combine(double precision[], double precision[]) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_combine';

CREATE AGGREGATE pgbillion_rows.partial_avg(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_pop(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_samp(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_variance(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_pop(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_samp(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev(real) (
    SFUNC = pgbillion_rows.float4_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_avg(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_pop(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_var_samp(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_variance(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_pop(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev_samp(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_stddev(double precision) (
    SFUNC = pgbillion_rows.float8_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_combine, INITCOND = '{0,0,0}',
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.float8_regr_accum(double precision[], double precision, double precision) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_regr_accum';

CREATE FUNCTION pgbillion_rows.float8_regr_combine(double precision[], double precision[]) RETURNS double precision[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_float8_regr_combine';

CREATE AGGREGATE pgbillion_rows.partial_regr_sxx(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_syy(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_sxy(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_avgx(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_avgy(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_r2(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_slope(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_regr_intercept(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_covar_pop(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_covar_samp(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_corr(double precision, double precision) (
    SFUNC = pgbillion_rows.float8_regr_accum, STYPE = double precision[],
    COMBINEFUNC = pgbillion_rows.float8_regr_combine, INITCOND = '{0,0,0,0,0,0}',
    PARALLEL = SAFE
);

-- since PostgreSQL 16
CREATE FUNCTION pgbillion_rows.string_agg_transfn(internal, text, text) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_transfn';

CREATE FUNCTION pgbillion_rows.bytea_string_agg_transfn(internal, bytea, bytea) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_bytea_string_agg_transfn';

CREATE FUNCTION pgbillion_rows.string_agg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_combine';

CREATE FUNCTION pgbillion_rows.string_agg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_serialize';

CREATE FUNCTION pgbillion_rows.string_agg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_string_agg_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_string_agg(text, text) (
    SFUNC = pgbillion_rows.string_agg_transfn, STYPE = internal,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.string_agg_combine,
    SERIALFUNC = pgbillion_rows.string_agg_serialize, DESERIALFUNC = pgbillion_rows.string_agg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_string_agg(bytea, bytea) (
    SFUNC = pgbillion_rows.bytea_string_agg_transfn, STYPE = internal,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.string_agg_combine,
    SERIALFUNC = pgbillion_rows.string_agg_serialize, DESERIALFUNC = pgbillion_rows.string_agg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.array_agg_transfn(internal, anynonarray) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_transfn';

CREATE FUNCTION pgbillion_rows.array_agg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_combine';

CREATE FUNCTION pgbillion_rows.array_agg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_serialize';

CREATE FUNCTION pgbillion_rows.array_agg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_array_agg(anynonarray) (
    SFUNC = pgbillion_rows.array_agg_transfn, STYPE = internal,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.array_agg_combine,
    SERIALFUNC = pgbillion_rows.array_agg_serialize, DESERIALFUNC = pgbillion_rows.array_agg_deserialize,
    PARALLEL = SAFE
);

CREATE FUNCTION pgbillion_rows.array_agg_array_transfn(internal, anyarray) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_transfn';

CREATE FUNCTION pgbillion_rows.array_agg_array_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_combine';

CREATE FUNCTION pgbillion_rows.array_agg_array_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_serialize';

CREATE FUNCTION pgbillion_rows.array_agg_array_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_array_agg_array_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_array_agg(anyarray) (
    SFUNC = pgbillion_rows.array_agg_array_transfn, STYPE = internal,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.array_agg_array_combine,
    SERIALFUNC = pgbillion_rows.array_agg_array_serialize, DESERIALFUNC = pgbillion_rows.array_agg_array_deserialize,
    PARALLEL = SAFE
);

-- since PostgreSQL 17
CREATE FUNCTION pgbillion_rows.interval_avg_accum(internal, interval) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_accum';

CREATE FUNCTION pgbillion_rows.interval_avg_combine(internal, internal) RETURNS internal
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_combine';

CREATE FUNCTION pgbillion_rows.interval_avg_serialize(internal) RETURNS bytea
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_serialize';

CREATE FUNCTION pgbillion_rows.interval_avg_deserialize(bytea, internal) RETURNS internal
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_avg_deserialize';

CREATE AGGREGATE pgbillion_rows.partial_avg(interval) (
    SFUNC = pgbillion_rows.interval_avg_accum, STYPE = internal, SSPACE = 40,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.interval_avg_combine,
    SERIALFUNC = pgbillion_rows.interval_avg_serialize, DESERIALFUNC = pgbillion_rows.interval_avg_deserialize,
    PARALLEL = SAFE
);

CREATE AGGREGATE pgbillion_rows.partial_sum(interval) (
    SFUNC = pgbillion_rows.interval_avg_accum, STYPE = internal, SSPACE = 40,
    FINALFUNC = pgbillion_rows.state, COMBINEFUNC = pgbillion_rows.interval_avg_combine,
    SERIALFUNC = pgbillion_rows.interval_avg_serialize, DESERIALFUNC = pgbillion_rows.interval_avg_deserialize,
    PARALLEL = SAFE
);

-- before PostgreSQL 17, where the state was an array; under a name of its own,
-- as partial_avg(interval) cannot have two results
CREATE FUNCTION pgbillion_rows.interval_accum(interval[], interval) RETURNS interval[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_accum';

CREATE FUNCTION pgbillion_rows.interval_combine(interval[], interval[]) RETURNS interval[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'pgbillion_interval_combine';

CREATE AGGREGATE pgbillion_rows.partial_avg_array(interval) (
    SFUNC = pgbillion_rows.interval_accum, STYPE = interval[],
    COMBINEFUNC = pgbillion_rows.interval_combine, INITCOND = '{0 second,0 second}',
    PARALLEL = SAFE
);

-- Columns beside the heap.

CREATE FUNCTION pgbillion_rows.columns_handler(internal) RETURNS index_am_handler
LANGUAGE c STRICT
AS 'MODULE_PATHNAME', 'pgbillion_columns_handler';

CREATE ACCESS METHOD columns TYPE INDEX HANDLER pgbillion_rows.columns_handler;

COMMENT ON ACCESS METHOD columns IS
'copies of columns, which vectorized aggregation reads instead of the table where they are current';

CREATE OPERATOR CLASS pgbillion_rows.any_ops
DEFAULT FOR TYPE anyelement USING columns AS STORAGE anyelement;

CREATE PROCEDURE pgbillion_rows.columns_refresh(relation regclass)
LANGUAGE c
AS 'MODULE_PATHNAME', 'pgbillion_columns_refresh';

COMMENT ON PROCEDURE pgbillion_rows.columns_refresh(regclass) IS
'encodes what VACUUM has made visible to everybody, in a columnar index or in those of a table';

CREATE FUNCTION pgbillion_rows.columns_status(relation regclass,
    OUT index regclass, OUT "table" regclass, OUT valid boolean, OUT table_blocks bigint,
    OUT encoded_blocks bigint, OUT stale_blocks bigint, OUT readable_blocks bigint, OUT rows bigint,
    OUT index_bytes bigint, OUT table_bytes bigint) RETURNS SETOF record
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_columns_status';

COMMENT ON FUNCTION pgbillion_rows.columns_status(regclass) IS
'how much of a table its columnar indexes cover';

CREATE FUNCTION pgbillion_rows.columns_check(relation regclass,
    OUT index regclass, OUT block bigint, OUT problem text) RETURNS SETOF record
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_columns_check';

COMMENT ON FUNCTION pgbillion_rows.columns_check(regclass) IS
'compares what columnar indexes hold with the table, and returns what differs';

-- What queries ran, in the manner of pg_stat views: everybody may look, and nobody but superusers may reset.
CREATE FUNCTION pgbillion_rows.query_counts(
    OUT datid oid, OUT kind text, OUT queries bigint, OUT total_time double precision, OUT stats_reset timestamptz)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL RESTRICTED
AS 'MODULE_PATHNAME', 'pgbillion_query_counts';

COMMENT ON FUNCTION pgbillion_rows.query_counts() IS
'how many queries of each database ran what this extension adds, and how many milliseconds they took';

CREATE VIEW pgbillion_rows.stat_queries AS
SELECT c.datid, d.datname, c.kind, c.queries, c.total_time, c.stats_reset
  FROM pgbillion_rows.query_counts() c
       LEFT JOIN pg_catalog.pg_database d ON d.oid OPERATOR(pg_catalog.=) c.datid;

GRANT SELECT ON pgbillion_rows.stat_queries TO PUBLIC;

COMMENT ON VIEW pgbillion_rows.stat_queries IS
'queries that ran what this extension adds, by database and kind: how many, and their time in milliseconds';

CREATE FUNCTION pgbillion_rows.stat_reset() RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'pgbillion_stat_reset';

REVOKE ALL ON FUNCTION pgbillion_rows.stat_reset() FROM PUBLIC;

COMMENT ON FUNCTION pgbillion_rows.stat_reset() IS
'begins to count the queries of this database anew';
