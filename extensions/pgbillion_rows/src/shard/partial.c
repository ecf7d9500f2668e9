/*-------------------------------------------------------------------------
 *
 * partial.c
 *	  Aggregates whose result is the state of another.
 *
 * The partial aggregate of s.name(arguments) is partial_name(arguments): of a
 * built-in aggregate a member of the extension, else in the same schema. It
 * has the other's transition function, or for a built-in one the function of
 * ours that calls it (aggregates.c). Where the state is an ordinary value, it
 * has no final function. Where the state is of type internal, the final
 * function is pgbillion_rows.state(), which puts a header before what the other's
 * serialization function makes of it. An aggregate without a final function
 * whose state is an ordinary value is its own partial aggregate, and so is
 * every partial aggregate: that makes trees of servers work.
 *
 * The header tells what follows:
 *
 *	bytes 0-2	"PGB"
 *	byte 3		version of this format
 *	bytes 4-5	major version of the server, as it is PostgreSQL's format that follows
 *	bytes 6-7	kind: the OID of PostgreSQL's serialization function, which is the
 *				same in all major versions, or 0 for anybody else's
 *
 * Only the result of a partial aggregate has it: what Partial Aggregate
 * and Finalize Aggregate of one server give each other is PostgreSQL's format,
 * and so is what a scan of a shard returns, where the header has been checked
 * and taken away.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "planner/aggregates.h"
#include "shard/shard.h"

#define PARTIAL_PREFIX "partial_"

#define STATE_MAGIC "PGB"
#define STATE_FORMAT 1
#define STATE_HEADER 8

PG_FUNCTION_INFO_V1(pgbillion_create_partial_aggregate);
PG_FUNCTION_INFO_V1(pgbillion_state);

pg_noreturn static void refuse_state(const char *server, const char *detail);

/* ----------------------------------------------------------------
 *		States on their way
 * ----------------------------------------------------------------
 */

/* The kind of the states that a serialization function makes. */
static int
state_kind(Oid serialfn)
{
	Oid			builtin = aggregate_core_function(serialfn);

	StaticAssertStmt(FirstGenbkiObjectId <= PG_UINT16_MAX, "a kind has 16 bits");
	return builtin < FirstGenbkiObjectId ? (int) builtin : 0;
}

#if PG_VERSION_NUM >= 160000

/*
 * array_agg_array_serialize() sends the whole space for nulls. What of it was
 * never used would show the receiver of the state what this memory held before.
 */
static void
clear_unused_nulls(ArrayBuildStateArr *state)
{
	int			used = state->nitems / 8;

	if (state->nullbitmap == NULL || state->nitems >= state->aitems)
		return;
	if (state->nitems % 8 != 0)
		state->nullbitmap[used++] &= (1 << (state->nitems % 8)) - 1;
	memset(state->nullbitmap + used, 0, (state->aitems + 7) / 8 - used);
}
#endif

/*
 * state(internal) returns bytea
 *		The final function of partial aggregates with states of type internal.
 *		The state is the argument of the aggregate's serialization function:
 *		that is sound because only superusers declare aggregates with such
 *		states, and PostgreSQL has both functions declared for that one aggregate.
 */
Datum
pgbillion_state(PG_FUNCTION_ARGS)
{
	Aggref	   *aggref = AggGetAggref(fcinfo);
	FmgrInfo   *serialfn = fcinfo->flinfo->fn_extra;
	bytea	   *payload;
	bytea	   *result;
	char	   *header;
	int			kind;

	LOCAL_FCINFO(call, 1);

	if (aggref == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the state of a partial aggregate can only be had by aggregation"),
				 errhint("Partial aggregates cannot be window functions.")));
	if (serialfn == NULL)
	{
		HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
		Oid			function;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
		function = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggserialfn;
		ReleaseSysCache(tuple);
		if (!OidIsValid(function))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
					 errmsg("aggregate %s has no serialization function", format_procedure(aggref->aggfnoid))));
		serialfn = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(FmgrInfo));
		fmgr_info_cxt(function, serialfn, fcinfo->flinfo->fn_mcxt);
		fcinfo->flinfo->fn_extra = serialfn;
	}

	kind = state_kind(serialfn->fn_oid);
#if PG_VERSION_NUM >= 160000
	if (kind == F_ARRAY_AGG_ARRAY_SERIALIZE)
		clear_unused_nulls((ArrayBuildStateArr *) PG_GETARG_POINTER(0));
#endif
	InitFunctionCallInfoData(*call, serialfn, 1, InvalidOid, fcinfo->context, NULL);
	call->args[0].value = PG_GETARG_DATUM(0);
	call->args[0].isnull = false;
	payload = DatumGetByteaPP(FunctionCallInvoke(call));
	if (call->isnull)
		PG_RETURN_NULL();

	result = palloc(VARHDRSZ + STATE_HEADER + VARSIZE_ANY_EXHDR(payload));
	SET_VARSIZE(result, VARHDRSZ + STATE_HEADER + VARSIZE_ANY_EXHDR(payload));
	header = VARDATA(result);
	memcpy(header, STATE_MAGIC, 3);
	header[3] = STATE_FORMAT;
	header[4] = (char) ((PG_VERSION_NUM / 10000) >> 8);
	header[5] = (char) ((PG_VERSION_NUM / 10000) & 0xFF);
	header[6] = (char) (kind >> 8);
	header[7] = (char) (kind & 0xFF);
	memcpy(header + STATE_HEADER, VARDATA_ANY(payload), VARSIZE_ANY_EXHDR(payload));
	PG_RETURN_BYTEA_P(result);
}

/*
 * For each column of an aggregate scan the kind of its states, -1 if it has
 * none that are serialized.
 */
int *
shard_state_kinds(ForeignScan *plan)
{
	int		   *kinds = palloc(sizeof(int) * list_length(plan->fdw_scan_tlist));
	ListCell   *lc;

	foreach(lc, plan->fdw_scan_tlist)
	{
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;
		int		   *kind = &kinds[foreach_current_index(lc)];
		HeapTuple	tuple;

		*kind = -1;
		if (!IsA(aggref, Aggref) || !DO_AGGSPLIT_SERIALIZE(aggref->aggsplit) || aggref->aggtranstype != INTERNALOID)
			continue;
		tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
		*kind = state_kind(((Form_pg_aggregate) GETSTRUCT(tuple))->aggserialfn);
		ReleaseSysCache(tuple);
	}
	return kinds;
}

static void
refuse_state(const char *server, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INCONSISTENT_DESCRIPTOR_INFORMATION),
			 errmsg("server \"%s\" returned a state that cannot be read here", server),
			 errdetail_internal("%s", detail),
			 errhint("All servers need the same version of the extension pgbillion_rows and the same major version of PostgreSQL.")));
}

/* What follows the header, copied, if the header is what it should be. */
static Datum
open_state(Datum state, int kind, const char *server)
{
	bytea	   *bytes = DatumGetByteaPP(state);
	Size		length = VARSIZE_ANY_EXHDR(bytes);
	const unsigned char *header = (const unsigned char *) VARDATA_ANY(bytes);
	bytea	   *result;

	if (length < STATE_HEADER || memcmp(header, STATE_MAGIC, 3) != 0)
		refuse_state(server, _("It is not the result of a partial aggregate of this extension."));
	if (header[3] != STATE_FORMAT)
		refuse_state(server, psprintf(_("Its format is %d, instead of %d."), header[3], STATE_FORMAT));
	if ((header[4] << 8 | header[5]) != PG_VERSION_NUM / 10000)
		refuse_state(server, psprintf(_("It was made by PostgreSQL %d, this is %d."),
									  header[4] << 8 | header[5], PG_VERSION_NUM / 10000));
	if ((header[6] << 8 | header[7]) != kind)
		refuse_state(server, psprintf(_("Its kind is %d, instead of %d."), header[6] << 8 | header[7], kind));

	result = palloc(VARHDRSZ + length - STATE_HEADER);
	SET_VARSIZE(result, VARHDRSZ + length - STATE_HEADER);
	memcpy(VARDATA(result), header + STATE_HEADER, length - STATE_HEADER);
	return PointerGetDatum(result);
}

/*
 * Put, in a row of an aggregate scan, what PostgreSQL's deserialization functions
 * take in the place of states as they came, in the current memory context.
 * Raises an error if a state is not of the format, major version and kind that
 * is expected.
 */
void
shard_open_states(const int *kinds, int n, const char *server, Datum *values, const bool *isnull)
{
	for (int i = 0; i < n; i++)
	{
		if (kinds[i] >= 0 && !isnull[i])
			values[i] = open_state(values[i], kinds[i], server);
	}
}

/* ----------------------------------------------------------------
 *		Which aggregate is whose partial one
 * ----------------------------------------------------------------
 */

static HeapTuple
aggregate_tuple(Oid aggregate)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggregate);
	return tuple;
}

/* Is the result the state, as it is sent? */
static bool
is_state(Form_pg_aggregate agg)
{
	if (!OidIsValid(agg->aggcombinefn))
		return false;
	if (agg->aggtranstype == INTERNALOID)
		return OidIsValid(agg->aggserialfn) && aggregate_gives_state(agg->aggfinalfn);
	return !OidIsValid(agg->aggfinalfn);
}

/*
 * The same start? Ours of regr_* and corr() is that of all majors before 19, and
 * our functions take it for the one of 19.
 */
#if PG_VERSION_NUM >= 190000
#define CORE_REGR_START "{0,0,0,0,0,0,0,0}"
#else
#define CORE_REGR_START "{0,0,0,0,0,0}"
#endif
static bool
same_initial_value(HeapTuple one, HeapTuple two)
{
	bool		null1,
				null2;
	Datum		text1 = SysCacheGetAttr(AGGFNOID, one, Anum_pg_aggregate_agginitval, &null1);
	Datum		text2 = SysCacheGetAttr(AGGFNOID, two, Anum_pg_aggregate_agginitval, &null2);

	if (null1 || null2)
		return null1 && null2;
	return strcmp(TextDatumGetCString(text1), TextDatumGetCString(text2)) == 0 ||
		(strcmp(TextDatumGetCString(text1), "{0,0,0,0,0,0}") == 0 &&
		 strcmp(TextDatumGetCString(text2), CORE_REGR_START) == 0);
}

/* The same function, whether one of our functions calls it or not? Not if this major version has none. */
static bool
same_function(Oid one, Oid two)
{
	Oid			builtin = aggregate_core_function(one);

	return one == two || (OidIsValid(builtin) && builtin == aggregate_core_function(two));
}

/* Does `partial` make the states of `aggregate`? */
static bool
gives_state_of(Oid partial, Oid aggregate)
{
	HeapTuple	partialtuple = aggregate_tuple(partial);
	HeapTuple	aggtuple = aggregate_tuple(aggregate);
	Form_pg_aggregate one = (Form_pg_aggregate) GETSTRUCT(partialtuple);
	Form_pg_aggregate other = (Form_pg_aggregate) GETSTRUCT(aggtuple);
	bool		result;

	result = is_state(one) && one->aggkind == AGGKIND_NORMAL && other->aggkind == AGGKIND_NORMAL &&
		one->aggtranstype == other->aggtranstype &&
		same_function(one->aggtransfn, other->aggtransfn) &&
		same_function(one->aggcombinefn, other->aggcombinefn) &&
		same_function(one->aggserialfn, other->aggserialfn) &&
		same_function(one->aggdeserialfn, other->aggdeserialfn) &&
		same_initial_value(partialtuple, aggtuple);
	ReleaseSysCache(partialtuple);
	ReleaseSysCache(aggtuple);
	return result;
}

/* The aggregate of that name and the other's arguments, or InvalidOid. */
static Oid
find_aggregate(Oid schema, const char *name, Oid other)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(other));
	Datum		argtypes;
	Oid			result;
	bool		isnull;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", other);
	argtypes = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_proargtypes, &isnull);
	result = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							 CStringGetDatum(name), argtypes, ObjectIdGetDatum(schema));
	ReleaseSysCache(tuple);
	return OidIsValid(result) && get_func_prokind(result) == PROKIND_AGGREGATE ? result : InvalidOid;
}

static bool
is_ours(Oid aggregate)
{
	Oid			extension = get_extension_oid("pgbillion_rows", true);

	return OidIsValid(extension) && getExtensionOfObject(ProcedureRelationId, aggregate) == extension;
}

/* The declared partial aggregate, or InvalidOid. */
static Oid
declared_partial(Oid aggregate)
{
	bool		builtin = aggregate < FirstGenbkiObjectId;
	Oid			schema = builtin ? get_namespace_oid("pgbillion_rows", true) : get_func_namespace(aggregate);
	char	   *name = get_func_name(aggregate);
	Oid			partial;

	if (!OidIsValid(schema) || name == NULL)
		return InvalidOid;
	partial = find_aggregate(schema, psprintf(PARTIAL_PREFIX "%s", name), aggregate);
	if (builtin && OidIsValid(partial) && !gives_state_of(partial, aggregate))
		/* avg(interval), whose state was an array before 17 */
		partial = find_aggregate(schema, psprintf(PARTIAL_PREFIX "%s_array", name), aggregate);
	if (!OidIsValid(partial) || !gives_state_of(partial, aggregate) || (builtin && !is_ours(partial)))
		return InvalidOid;
	return partial;
}

/*
 * Is it the partial aggregate of another: one of the extension's, or a
 * declared one beside that of which it is a part?
 */
bool
shard_is_partial_aggregate(Oid aggregate)
{
	char	   *name = get_func_name(aggregate);
	HeapTuple	tuple;
	bool		result;
	Oid			whole;

	if (name == NULL || strncmp(name, PARTIAL_PREFIX, strlen(PARTIAL_PREFIX)) != 0)
		return false;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = is_state((Form_pg_aggregate) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	if (!result)
		return false;
	if (is_ours(aggregate))
		return true;
	whole = find_aggregate(get_func_namespace(aggregate), name + strlen(PARTIAL_PREFIX), aggregate);
	return OidIsValid(whole) && gives_state_of(aggregate, whole);
}

/*
 * Return the aggregate whose result is the (serialized) state of this one, or
 * InvalidOid. *serialized tells whether that is a serialized state. A built-in
 * aggregate may be its own; others than built-in ones must have been declared.
 */
Oid
shard_partial_aggregate(Oid aggregate, bool *serialized)
{
	HeapTuple	tuple = aggregate_tuple(aggregate);
	bool		own;

	*serialized = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtranstype == INTERNALOID;
	own = aggregate < FirstGenbkiObjectId && is_state((Form_pg_aggregate) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	if (own || shard_is_partial_aggregate(aggregate))
		return aggregate;
	return declared_partial(aggregate);
}

/* ----------------------------------------------------------------
 *		Declaring
 * ----------------------------------------------------------------
 */

static void
append_function(StringInfo buf, const char *keyword, Oid function)
{
	if (OidIsValid(function))
		appendStringInfo(buf, ", %s = %s", keyword,
						 quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
													get_func_name(function)));
}

/*
 * Write the CREATE AGGREGATE. Names are resolved anew when it is executed,
 * with the search_path of now: that must be one in which only pg_catalog is
 * searched, so that other names are written with their schemas.
 */
static char *
write_create_aggregate(Oid aggregate, Oid schema, const char *name, Oid statefn)
{
	HeapTuple	tuple = aggregate_tuple(aggregate);
	Form_pg_aggregate agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	char	   *arguments;
	Datum		initval;
	bool		isnull;
	StringInfoData sql;

	arguments = TextDatumGetCString(DirectFunctionCall1(pg_get_function_identity_arguments, ObjectIdGetDatum(aggregate)));
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE AGGREGATE %s(%s) (SFUNC = %s, STYPE = %s",
					 quote_qualified_identifier(get_namespace_name(schema), name),
					 *arguments ? arguments : "*",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(agg->aggtransfn)),
												get_func_name(agg->aggtransfn)),
					 format_type_be_qualified(agg->aggtranstype));
	appendStringInfo(&sql, ", SSPACE = %d", agg->aggtransspace);
	if (agg->aggtranstype == INTERNALOID)
		append_function(&sql, "FINALFUNC", statefn);
	append_function(&sql, "COMBINEFUNC", agg->aggcombinefn);
	append_function(&sql, "SERIALFUNC", agg->aggserialfn);
	append_function(&sql, "DESERIALFUNC", agg->aggdeserialfn);
	initval = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull);
	if (!isnull)
		appendStringInfo(&sql, ", INITCOND = %s", quote_literal_cstr(TextDatumGetCString(initval)));
	ReleaseSysCache(tuple);
	if (func_parallel(aggregate) == PROPARALLEL_SAFE)
		appendStringInfoString(&sql, ", PARALLEL = SAFE");
	appendStringInfoChar(&sql, ')');
	return sql.data;
}

/* Raise an error unless the aggregate has states that can be combined, and only the caller may declare it. */
static void
check_declarable(Oid aggregate)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Form_pg_aggregate agg;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not an aggregate", format_procedure(aggregate))));
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	if (agg->aggkind != AGGKIND_NORMAL || !OidIsValid(agg->aggcombinefn) ||
		(agg->aggtranstype == INTERNALOID && !OidIsValid(agg->aggserialfn)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("aggregate %s has no states that can be combined", format_procedure(aggregate)),
				 errhint("It needs a COMBINEFUNC and, when its STYPE is internal, a SERIALFUNC and a DESERIALFUNC.")));
	ReleaseSysCache(tuple);
	if (aggregate < FirstGenbkiObjectId)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("aggregate %s is built in", format_procedure(aggregate)),
				 errhint("The extension has the partial aggregates of all built-in ones.")));
}

/*
 * pgbillion_rows.create_partial_aggregate(aggregate regprocedure) returns regprocedure
 *		Declares the partial aggregate of one, by CREATE AGGREGATE: with the
 *		privileges of the caller, who owns it. Where overloaded functions lead
 *		to another aggregate than is meant, that is an error.
 */
Datum
pgbillion_create_partial_aggregate(PG_FUNCTION_ARGS)
{
	Oid			aggregate = PG_GETARG_OID(0);
	Oid			ours = get_func_namespace(fcinfo->flinfo->fn_oid);
	Oid			internal = INTERNALOID;
	Oid			schema;
	Oid			statefn;
	Oid			partial;
	char	   *name;
	int			level;

	check_declarable(aggregate);
	schema = get_func_namespace(aggregate);
	name = psprintf(PARTIAL_PREFIX "%s", get_func_name(aggregate));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("the name \"%s\" is too long", name)));
	/* the one in our schema, whatever the schema is called */
	statefn = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum("state"),
							  PointerGetDatum(buildoidvector(&internal, 1)), ObjectIdGetDatum(ours));
	if (!aggregate_gives_state(statefn))
		elog(ERROR, "function state(internal) of extension pgbillion is missing");

	level = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	if (SPI_execute(write_create_aggregate(aggregate, schema, name, statefn), false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create a partial aggregate");
	SPI_finish();
	AtEOXact_GUC(true, level);

	partial = find_aggregate(schema, name, aggregate);
	if (!OidIsValid(partial) || !gives_state_of(partial, aggregate))
		ereport(ERROR,
				(errcode(ERRCODE_AMBIGUOUS_FUNCTION),
				 errmsg("could not create a partial aggregate of %s", format_procedure(aggregate)),
				 errdetail("The names of its functions now lead to other functions, whose arguments fit better.")));
	PG_RETURN_OID(partial);
}
