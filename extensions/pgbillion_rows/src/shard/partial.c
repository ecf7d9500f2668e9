/*-------------------------------------------------------------------------
 *
 * partial.c
 *	  Aggregates whose result is the state of another.
 *
 * The partial aggregate of s.name(arguments) is partial_name(arguments), in
 * schema billion for an aggregate of pg_catalog, else in its own schema. It
 * has the other's transition function, and as final function either none,
 * when the state is an ordinary value, or the other's serialisation function,
 * when it is of type internal. An aggregate without a final function whose
 * state is an ordinary value is its own partial aggregate, and so is every
 * partial aggregate: that makes trees of servers work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "shard/shard.h"

#define PARTIAL_PREFIX "partial_"

PG_FUNCTION_INFO_V1(pgbillion_create_partial_aggregate);

/* The schema of the partial aggregate of one in this schema; InvalidOid without the extension. */
static Oid
partial_schema(Oid schema)
{
	Oid			extension;

	if (schema != PG_CATALOG_NAMESPACE)
		return schema;
	extension = get_extension_oid("pgbillion", true);
	return OidIsValid(extension) ? get_namespace_oid("billion", true) : InvalidOid;
}

static bool
is_state(Form_pg_aggregate agg)
{
	if (!OidIsValid(agg->aggcombinefn))
		return false;
	if (agg->aggtranstype == INTERNALOID)
		return OidIsValid(agg->aggserialfn) && agg->aggfinalfn == agg->aggserialfn;
	return !OidIsValid(agg->aggfinalfn);
}

static bool
same_text(HeapTuple one, HeapTuple two, AttrNumber attnum)
{
	bool		null1,
				null2;
	Datum		text1 = SysCacheGetAttr(AGGFNOID, one, attnum, &null1);
	Datum		text2 = SysCacheGetAttr(AGGFNOID, two, attnum, &null2);

	if (null1 || null2)
		return null1 && null2;
	return strcmp(TextDatumGetCString(text1), TextDatumGetCString(text2)) == 0;
}

/*
 * Is the aggregate named as a partial one, with its state as its result?
 */
bool
ShardIsPartialAggregate(Oid aggregate)
{
	char	   *name = get_func_name(aggregate);
	HeapTuple	tuple;
	bool		result;

	if (name == NULL || strncmp(name, PARTIAL_PREFIX, strlen(PARTIAL_PREFIX)) != 0)
		return false;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = is_state((Form_pg_aggregate) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	return result;
}

/*
 * Return the aggregate whose result is the (serialised) state of this one, or
 * InvalidOid. *serialized tells whether that is a serialised state. A built-in
 * aggregate may be its own; others than built-in ones must have been declared.
 */
Oid
ShardPartialAggregate(Oid aggregate, bool *serialized)
{
	HeapTuple	aggtuple,
				proctuple,
				partialtuple;
	Form_pg_aggregate agg;
	Form_pg_proc proc;
	Oid			partial = InvalidOid;
	Oid			schema;
	Datum		argtypes;

	aggtuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(aggtuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggregate);
	agg = (Form_pg_aggregate) GETSTRUCT(aggtuple);
	*serialized = agg->aggtranstype == INTERNALOID;

	if ((aggregate < FirstGenbkiObjectId && is_state(agg)) || ShardIsPartialAggregate(aggregate))
	{
		ReleaseSysCache(aggtuple);
		return aggregate;
	}

	proctuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(proctuple))
		elog(ERROR, "cache lookup failed for function %u", aggregate);
	proc = (Form_pg_proc) GETSTRUCT(proctuple);
	argtypes = SysCacheGetAttr(PROCOID, proctuple, Anum_pg_proc_proargtypes, &(bool){false});
	schema = partial_schema(proc->pronamespace);
	if (OidIsValid(schema))
		partial = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
								  CStringGetDatum(psprintf(PARTIAL_PREFIX "%s", NameStr(proc->proname))),
								  argtypes, ObjectIdGetDatum(schema));
	ReleaseSysCache(proctuple);

	if (OidIsValid(partial))
	{
		partialtuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(partial));
		if (!HeapTupleIsValid(partialtuple))
			partial = InvalidOid;
		else
		{
			Form_pg_aggregate other = (Form_pg_aggregate) GETSTRUCT(partialtuple);

			/* made for another aggregate of that name, which has been replaced? */
			if (!is_state(other) ||
				other->aggtransfn != agg->aggtransfn ||
				other->aggtranstype != agg->aggtranstype ||
				other->aggserialfn != agg->aggserialfn ||
				!same_text(aggtuple, partialtuple, Anum_pg_aggregate_agginitval))
				partial = InvalidOid;
			ReleaseSysCache(partialtuple);
		}
	}
	ReleaseSysCache(aggtuple);
	return partial;
}

static void
append_function(StringInfo buf, const char *keyword, Oid function)
{
	if (OidIsValid(function))
		appendStringInfo(buf, ", %s = %s", keyword,
						 quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
													get_func_name(function)));
}

/*
 * pgbillion_rows.create_partial_aggregate(aggregate regprocedure) returns regprocedure
 *		Declares the partial aggregate of one, by CREATE AGGREGATE: with the
 *		privileges of the caller, who owns it.
 */
Datum
pgbillion_create_partial_aggregate(PG_FUNCTION_ARGS)
{
	Oid			aggregate = PG_GETARG_OID(0);
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	HeapTuple	proctuple;
	Form_pg_aggregate agg;
	char	   *name;
	Oid			schema;
	Oid			partial;
	bool		isnull;
	bool		serialized;
	char	   *arguments;
	Datum		initval;
	StringInfoData sql;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("%s is not an aggregate", format_procedure(aggregate))));
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	name = get_func_name(aggregate);
	if (agg->aggkind != AGGKIND_NORMAL || !OidIsValid(agg->aggcombinefn) ||
		(agg->aggtranstype == INTERNALOID && !OidIsValid(agg->aggserialfn)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("aggregate %s has no states that can be combined", format_procedure(aggregate)),
				 errhint("It needs a COMBINEFUNC and, when its STYPE is internal, a SERIALFUNC and a DESERIALFUNC.")));
	schema = partial_schema(get_func_namespace(aggregate));
	if (!OidIsValid(schema))
		elog(ERROR, "extension pgbillion is not installed");

	arguments = TextDatumGetCString(DirectFunctionCall1(pg_get_function_identity_arguments, ObjectIdGetDatum(aggregate)));
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE AGGREGATE %s(%s) (SFUNC = %s, STYPE = %s",
					 quote_qualified_identifier(get_namespace_name(schema), psprintf(PARTIAL_PREFIX "%s", name)),
					 *arguments ? arguments : "*",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(agg->aggtransfn)),
												get_func_name(agg->aggtransfn)),
					 format_type_be_qualified(agg->aggtranstype));
	appendStringInfo(&sql, ", SSPACE = %d", agg->aggtransspace);
	if (agg->aggtranstype == INTERNALOID)
		append_function(&sql, "FINALFUNC", agg->aggserialfn);
	append_function(&sql, "COMBINEFUNC", agg->aggcombinefn);
	append_function(&sql, "SERIALFUNC", agg->aggserialfn);
	append_function(&sql, "DESERIALFUNC", agg->aggdeserialfn);
	initval = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull);
	if (!isnull)
		appendStringInfo(&sql, ", INITCOND = %s", quote_literal_cstr(TextDatumGetCString(initval)));
	proctuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(proctuple))
		elog(ERROR, "cache lookup failed for function %u", aggregate);
	if (((Form_pg_proc) GETSTRUCT(proctuple))->proparallel == PROPARALLEL_SAFE)
		appendStringInfoString(&sql, ", PARALLEL = SAFE");
	ReleaseSysCache(proctuple);
	appendStringInfoChar(&sql, ')');
	ReleaseSysCache(tuple);

	SPI_connect();
	if (SPI_execute(sql.data, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not create a partial aggregate");
	SPI_finish();

	partial = ShardPartialAggregate(aggregate, &serialized);
	Assert(OidIsValid(partial));
	PG_RETURN_OID(partial);
}
