/*-------------------------------------------------------------------------
 *
 * aggregates.c
 *	  Our C functions that call PostgreSQL's aggregate functions.
 *
 * PostgreSQL's transition, combine and (de)serialization functions come and go
 * with major versions. The SQL objects of the extension must not: pg_upgrade
 * restores them as they were. So each has one of our C functions, which calls
 * PostgreSQL's with the same call information, or raises an error on a major
 * version that has no such function.
 *
 * Where a group of functions is incomplete, none of them works: there is no
 * point in collecting a state that cannot be sent.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/syscache.h"

#include "compat.h"
#include "planner/aggregates.h"

/* the library as the script names it, MODULE_PATHNAME */
#define LIBRARY "$libdir/pgbillion_rows"
#define PREFIX "pgbillion_"
/* the final function of partial aggregates, in shard/partial.c */
#define STATE_FUNCTION PREFIX "state"

/* PostgreSQL's on every major version. */
#define FUNCTIONS(X) \
	X(int2_avg_accum, F_INT2_AVG_ACCUM) \
	X(int4_avg_accum, F_INT4_AVG_ACCUM) \
	X(int4_avg_combine, F_INT4_AVG_COMBINE) \
	X(int8_avg_accum, F_INT8_AVG_ACCUM) \
	X(int8_avg_combine, F_INT8_AVG_COMBINE) \
	X(int8_avg_serialize, F_INT8_AVG_SERIALIZE) \
	X(int8_avg_deserialize, F_INT8_AVG_DESERIALIZE) \
	X(numeric_avg_accum, F_NUMERIC_AVG_ACCUM) \
	X(numeric_avg_combine, F_NUMERIC_AVG_COMBINE) \
	X(numeric_avg_serialize, F_NUMERIC_AVG_SERIALIZE) \
	X(numeric_avg_deserialize, F_NUMERIC_AVG_DESERIALIZE) \
	X(int2_accum, F_INT2_ACCUM) \
	X(int4_accum, F_INT4_ACCUM) \
	X(numeric_poly_combine, F_NUMERIC_POLY_COMBINE) \
	X(numeric_poly_serialize, F_NUMERIC_POLY_SERIALIZE) \
	X(numeric_poly_deserialize, F_NUMERIC_POLY_DESERIALIZE) \
	X(int8_accum, F_INT8_ACCUM) \
	X(numeric_accum, F_NUMERIC_ACCUM) \
	X(numeric_combine, F_NUMERIC_COMBINE) \
	X(numeric_serialize, F_NUMERIC_SERIALIZE) \
	X(numeric_deserialize, F_NUMERIC_DESERIALIZE) \
	X(float4_accum, F_FLOAT4_ACCUM) \
	X(float8_accum, F_FLOAT8_ACCUM) \
	X(float8_combine, F_FLOAT8_COMBINE) \
	X(float8_regr_accum, F_FLOAT8_REGR_ACCUM) \
	X(float8_regr_combine, F_FLOAT8_REGR_COMBINE)

/* String and array states can be combined since 16. */
#define FUNCTIONS_SINCE_16(X) \
	X(string_agg_transfn, F_STRING_AGG_TRANSFN) \
	X(bytea_string_agg_transfn, F_BYTEA_STRING_AGG_TRANSFN) \
	X(string_agg_combine, F_STRING_AGG_COMBINE) \
	X(string_agg_serialize, F_STRING_AGG_SERIALIZE) \
	X(string_agg_deserialize, F_STRING_AGG_DESERIALIZE) \
	X(array_agg_transfn, F_ARRAY_AGG_TRANSFN) \
	X(array_agg_combine, F_ARRAY_AGG_COMBINE) \
	X(array_agg_serialize, F_ARRAY_AGG_SERIALIZE) \
	X(array_agg_deserialize, F_ARRAY_AGG_DESERIALIZE) \
	X(array_agg_array_transfn, F_ARRAY_AGG_ARRAY_TRANSFN) \
	X(array_agg_array_combine, F_ARRAY_AGG_ARRAY_COMBINE) \
	X(array_agg_array_serialize, F_ARRAY_AGG_ARRAY_SERIALIZE) \
	X(array_agg_array_deserialize, F_ARRAY_AGG_ARRAY_DESERIALIZE)

/* Since 17 the state of an interval's average and sum is of type internal, … */
#define FUNCTIONS_SINCE_17(X) \
	X(interval_avg_accum, F_INTERVAL_AVG_ACCUM) \
	X(interval_avg_combine, F_INTERVAL_AVG_COMBINE) \
	X(interval_avg_serialize, F_INTERVAL_AVG_SERIALIZE) \
	X(interval_avg_deserialize, F_INTERVAL_AVG_DESERIALIZE)

/* … before that the average's was an array. */
#define FUNCTIONS_BEFORE_17(X) \
	X(interval_accum, F_INTERVAL_ACCUM) \
	X(interval_combine, F_INTERVAL_COMBINE)

typedef struct OwnFunction
{
	const char *symbol;
	Oid			core;			/* InvalidOid where PostgreSQL has none */
} OwnFunction;

#define DEFINE(name, oid) \
	PG_FUNCTION_INFO_V1(pgbillion_##name); \
	Datum \
	pgbillion_##name(PG_FUNCTION_ARGS) \
	{ \
		return name(fcinfo); \
	}

#define DEFINE_MISSING(name, oid) \
	PG_FUNCTION_INFO_V1(pgbillion_##name); \
	Datum \
	pgbillion_##name(PG_FUNCTION_ARGS) \
	{ \
		refuse(#name); \
	}

#define ENTRY(name, oid) {PREFIX #name, oid},
#define ENTRY_MISSING(name, oid) {PREFIX #name, InvalidOid},

pg_noreturn static void refuse(const char *name);

static void
refuse(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("PostgreSQL %d has no such partial aggregate", PG_VERSION_NUM / 10000),
			 errdetail("It would need the function %s, which other major versions have.", name)));
}

/*
 * 19 keeps two more values in a state of regr_* and corr(). An extension's
 * objects are the same on all majors, so an initial state has the six zeros of
 * earlier ones, and gets two more here.
 */
#if PG_VERSION_NUM >= 190000
#define float8_regr_accum(fcinfo) (aggregate_widen_argument(fcinfo, 0), float8_regr_accum(fcinfo))
#define float8_regr_combine(fcinfo) \
	(aggregate_widen_argument(fcinfo, 0), aggregate_widen_argument(fcinfo, 1), float8_regr_combine(fcinfo))
#endif

/* Return the initial state of earlier majors as this one has it, in the current context; any other as it is. */
Datum
aggregate_widen_regr_state(Datum state)
{
#if PG_VERSION_NUM >= 190000
	ArrayType  *array = DatumGetArrayTypeP(state);
	Datum		zeros[REGR_STATE_VALUES];

	if (ARR_NDIM(array) == 1 && ARR_DIMS(array)[0] == OLD_REGR_STATE_VALUES && !ARR_HASNULL(array) &&
		ARR_ELEMTYPE(array) == FLOAT8OID && ((float8 *) ARR_DATA_PTR(array))[0] == 0.0)
	{
		for (int i = 0; i < REGR_STATE_VALUES; i++)
			zeros[i] = Float8GetDatum(0.0);
		return PointerGetDatum(construct_array_builtin(zeros, REGR_STATE_VALUES, FLOAT8OID));
	}
#endif
	return state;
}

pg_attribute_unused() static void
aggregate_widen_argument(FunctionCallInfo fcinfo, int n)
{
	if (!fcinfo->args[n].isnull)
		fcinfo->args[n].value = aggregate_widen_regr_state(fcinfo->args[n].value);
}

FUNCTIONS(DEFINE)
#if PG_VERSION_NUM >= 160000
FUNCTIONS_SINCE_16(DEFINE)
#else
FUNCTIONS_SINCE_16(DEFINE_MISSING)
#endif
#if PG_VERSION_NUM >= 170000
FUNCTIONS_SINCE_17(DEFINE)
FUNCTIONS_BEFORE_17(DEFINE_MISSING)
#else
FUNCTIONS_SINCE_17(DEFINE_MISSING)
FUNCTIONS_BEFORE_17(DEFINE)
#endif

static const OwnFunction own_functions[] = {
	FUNCTIONS(ENTRY)
#if PG_VERSION_NUM >= 160000
	FUNCTIONS_SINCE_16(ENTRY)
#else
	FUNCTIONS_SINCE_16(ENTRY_MISSING)
#endif
#if PG_VERSION_NUM >= 170000
	FUNCTIONS_SINCE_17(ENTRY)
	FUNCTIONS_BEFORE_17(ENTRY_MISSING)
#else
	FUNCTIONS_SINCE_17(ENTRY_MISSING)
	FUNCTIONS_BEFORE_17(ENTRY)
#endif
};

/*
 * The name in our library of the C function behind one in pg_proc, copied; NULL
 * if it is not of our library. Only superusers declare C functions, so that
 * what pg_proc says is to be believed.
 */
static char *
own_symbol(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	char	   *symbol = NULL;

	if (!HeapTupleIsValid(tuple))
		return NULL;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool		isnull;
		Datum		library = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin, &isnull);

		if (!isnull && strcmp(TextDatumGetCString(library), LIBRARY) == 0)
			symbol = TextDatumGetCString(SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull));
	}
	ReleaseSysCache(tuple);
	return symbol;
}

/*
 * Return the function of PostgreSQL that one of our functions calls, InvalidOid if this major
 * version has none; any other function itself.
 */
Oid
aggregate_core_function(Oid function)
{
	char	   *symbol;

	if (function < FirstGenbkiObjectId)
		return function;
	symbol = own_symbol(function);
	for (int i = 0; symbol != NULL && i < lengthof(own_functions); i++)
	{
		if (strcmp(symbol, own_functions[i].symbol) == 0)
			return own_functions[i].core;
	}
	return function;
}

/*
 * Is it the final function whose result is the state, for others to combine?
 */
bool
aggregate_gives_state(Oid finalfn)
{
	char	   *symbol = finalfn < FirstGenbkiObjectId ? NULL : own_symbol(finalfn);

	return symbol != NULL && strcmp(symbol, STATE_FUNCTION) == 0;
}
