/*-------------------------------------------------------------------------
 *
 * aggregate.c
 *	  Transition states: advance and hand over.
 *
 * An aggregate is recognised by its transition function, so that any
 * aggregate built on one of core's is vectorised. A state lives in a group's
 * entry; what is handed over is the transition value, in the serialised form
 * that core's partial aggregation would give it.
 *
 * Float states are advanced in the order of rows with core's arithmetic, so
 * that they are the same to the last bit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_agg.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "planner/aggregates.h"
#include "vector/vector.h"

typedef enum
{
	AGG_COUNT,
	AGG_SUM_INT,				/* int2_sum, int4_sum: state is a bigint */
	AGG_AVG_INT,				/* int2_avg_accum, int4_avg_accum: bigint[2] */
	AGG_SUM_BIGINT,				/* int8_avg_accum */
	AGG_SQUARES_INT,			/* int2_accum, int4_accum */
	AGG_SUM_FLOAT4,
	AGG_SUM_FLOAT8,
	AGG_SQUARES_FLOAT,			/* float4_accum, float8_accum */
	AGG_AVG_FLOAT4,				/* float4_accum for avg alone: no squares */
	AGG_NUMERIC,				/* numeric_avg_accum */
	AGG_LARGER_INT,
	AGG_SMALLER_INT,
	AGG_LARGER_FLOAT4,
	AGG_SMALLER_FLOAT4,
	AGG_LARGER_FLOAT8,
	AGG_SMALLER_FLOAT8,
	AGG_BOOL_AND,
	AGG_BOOL_OR,
	AGG_CORE					/* core's transition function, a row at a time */
} AggKind;

typedef struct IntState
{
	int64		count;
	int64		sum;
} IntState;

typedef struct BigState
{
	int64		count;
	int128		sum;
	int128		squares;
} BigState;

typedef struct FloatState
{
	int64		count;
	float8		sum;			/* float4 sums are rounded to float4 */
} FloatState;

typedef struct SquaresState
{
	float8		count;
	float8		sum;
	float8		squares;
} SquaresState;

typedef struct ExtremeState
{
	bool		set;
	Datum		value;
} ExtremeState;

typedef struct CoreState
{
	Datum		value;
	bool		isnull;
	bool		unset;			/* strict: the first input becomes the state */
} CoreState;

struct VectorAgg
{
	AggKind		kind;
	int			offset;			/* of the state in a group's entry */
	int			width;			/* of an integer argument, bytes */
	VectorExpr *argument;		/* NULL for count(*) */
	VectorFilter *filter;		/* FILTER (WHERE …), or NULL */
	MemoryContext context;		/* of what states point to */
	GroupTable *groups;			/* or NULL */

	/* AGG_CORE */
	FmgrInfo	transfn;
	FmgrInfo	serialfn;
	FunctionCallInfo transcall;
	FunctionCallInfo serialcall;
	AggState   *aggstate;		/* what core's functions take for their
								 * executor node */
	MemoryContext row_context;	/* of what they leave behind, such as
								 * detoasted values */
	bool		strict;
	bool		byval;
	int16		len;
	Datum		initial;
	bool		initial_null;
};

/* What is known of an aggregate with a transition function of core; false if it has no kernel. */
static bool
find_kind(Oid transfn, AggKind *kind, int *width, int *size)
{
	*width = 8;
	*size = sizeof(ExtremeState);
	switch (transfn)
	{
		case F_INT8INC:
		case F_INT8INC_ANY:
			*kind = AGG_COUNT;
			*size = sizeof(int64);
			return true;
		case F_INT2_SUM:
		case F_INT4_SUM:
			*kind = AGG_SUM_INT;
			*width = transfn == F_INT2_SUM ? 2 : 4;
			*size = sizeof(IntState);
			return true;
		case F_INT2_AVG_ACCUM:
		case F_INT4_AVG_ACCUM:
			*kind = AGG_AVG_INT;
			*width = transfn == F_INT2_AVG_ACCUM ? 2 : 4;
			*size = sizeof(IntState);
			return true;
		case F_INT8_AVG_ACCUM:
			*kind = AGG_SUM_BIGINT;
			*size = offsetof(BigState, squares);
			return true;
		case F_INT2_ACCUM:
		case F_INT4_ACCUM:
			*kind = AGG_SQUARES_INT;
			*width = transfn == F_INT2_ACCUM ? 2 : 4;
			*size = sizeof(BigState);
			return true;
		case F_FLOAT4PL:
			*kind = AGG_SUM_FLOAT4;
			*width = 4;
			*size = sizeof(FloatState);
			return true;
		case F_FLOAT8PL:
			*kind = AGG_SUM_FLOAT8;
			*size = sizeof(FloatState);
			return true;
		case F_FLOAT4_ACCUM:
		case F_FLOAT8_ACCUM:
			*kind = AGG_SQUARES_FLOAT;
			*width = transfn == F_FLOAT4_ACCUM ? 4 : 8;
			*size = sizeof(SquaresState);
			return true;
		case F_NUMERIC_AVG_ACCUM:
			*kind = AGG_NUMERIC;
			*size = sizeof(DecimalSum);
			return true;
		case F_INT2LARGER:
		case F_INT2SMALLER:
			*kind = transfn == F_INT2LARGER ? AGG_LARGER_INT : AGG_SMALLER_INT;
			*width = 2;
			return true;
		case F_INT4LARGER:
		case F_DATE_LARGER:
			*kind = AGG_LARGER_INT;
			*width = 4;
			return true;
		case F_INT4SMALLER:
		case F_DATE_SMALLER:
			*kind = AGG_SMALLER_INT;
			*width = 4;
			return true;
		case F_INT8LARGER:
		case F_TIMESTAMP_LARGER:
		case F_TIMESTAMPTZ_LARGER:
			*kind = AGG_LARGER_INT;
			return true;
		case F_INT8SMALLER:
		case F_TIMESTAMP_SMALLER:
		case F_TIMESTAMPTZ_SMALLER:
			*kind = AGG_SMALLER_INT;
			return true;
		case F_FLOAT4LARGER:
			*kind = AGG_LARGER_FLOAT4;
			return true;
		case F_FLOAT4SMALLER:
			*kind = AGG_SMALLER_FLOAT4;
			return true;
		case F_FLOAT8LARGER:
			*kind = AGG_LARGER_FLOAT8;
			return true;
		case F_FLOAT8SMALLER:
			*kind = AGG_SMALLER_FLOAT8;
			return true;
		case F_BOOLAND_STATEFUNC:
			*kind = AGG_BOOL_AND;
			return true;
		case F_BOOLOR_STATEFUNC:
			*kind = AGG_BOOL_OR;
			return true;

			/*
			 * Functions of core that are known to ask nothing of the executor
			 * node but its memory context.
			 */
		case F_INT8_ACCUM:
		case F_NUMERIC_ACCUM:
		case F_NUMERIC_LARGER:
		case F_NUMERIC_SMALLER:
		case F_TEXT_LARGER:
		case F_TEXT_SMALLER:
		case F_BPCHAR_LARGER:
		case F_BPCHAR_SMALLER:
			*kind = AGG_CORE;
			*size = sizeof(CoreState);
			return true;
		default:
			return false;
	}
}

/* The row of pg_aggregate; the caller releases it. */
static HeapTuple
aggregate_tuple(Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	return tuple;
}

/* Why an aggregate cannot be vectorised, or NULL. */
const char *
vector_agg_refusal(Aggref *aggref)
{
	HeapTuple	tuple = aggregate_tuple(aggref);
	Form_pg_aggregate form = (Form_pg_aggregate) GETSTRUCT(tuple);
	AggKind		kind;
	int			width;
	int			size;
	bool		known = find_kind(aggregate_core_function(form->aggtransfn), &kind, &width, &size);

	/*
	 * count() starts with 0, a sum with nothing; other beginnings are
	 * somebody's own
	 */
	if (known && aggref->aggfnoid >= FirstNormalObjectId)
	{
		bool		isnull;
		bool		has_initial;

		(void) SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull);
		has_initial = kind == AGG_COUNT || kind == AGG_AVG_INT || kind == AGG_SQUARES_FLOAT;
		if (isnull == has_initial)
			known = false;
		if (!isnull)
		{
			char	   *initial = TextDatumGetCString(SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull));

			if (strcmp(initial, kind == AGG_COUNT ? "0" : kind == AGG_AVG_INT ? "{0,0}" : "{0,0,0}") != 0)
				known = false;
		}
	}
	ReleaseSysCache(tuple);
	if (!known)
		return psprintf("aggregate %s", format_procedure(aggref->aggfnoid));
	if (list_length(aggref->args) > 1)
		return "an aggregate of several arguments";
	return NULL;
}

/* Is the aggregate core's avg(real), which does not look at squares? */
bool
vector_agg_only_avg(Aggref *aggref)
{
	return aggref->aggfnoid == F_AVG_FLOAT4;
}

/* Does its result depend on the order in which values are added? */
bool
vector_agg_adds_floats(Aggref *aggref)
{
	HeapTuple	tuple = aggregate_tuple(aggref);
	AggKind		kind;
	int			width;
	int			size;
	bool		known = find_kind(aggregate_core_function(((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn),
								  &kind, &width, &size);

	ReleaseSysCache(tuple);
	return known && (kind == AGG_SUM_FLOAT4 || kind == AGG_SUM_FLOAT8 || kind == AGG_SQUARES_FLOAT);
}

static void
prepare_core(VectorAgg *agg, Aggref *aggref, Form_pg_aggregate form, HeapTuple tuple)
{
	Oid			types[FUNC_MAX_ARGS];
	int			nargs = get_aggregate_argtypes(aggref, types);
	Oid			transtype = aggref->aggtranstype;
	Expr	   *expr;
	Datum		initial;

	build_aggregate_transfn_expr(types, nargs, 0, false, transtype, aggref->inputcollid,
								 form->aggtransfn, InvalidOid, &expr, NULL);
	fmgr_info(form->aggtransfn, &agg->transfn);
	fmgr_info_set_expr((Node *) expr, &agg->transfn);
	agg->strict = agg->transfn.fn_strict;
	get_typlenbyval(transtype, &agg->len, &agg->byval);
	initial = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &agg->initial_null);
	/* none of the functions that core's code is called for has one */
	if (!agg->initial_null)
		elog(ERROR, "unexpected initial value \"%s\"", TextDatumGetCString(initial));

	agg->row_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion transition",
											 ALLOCSET_SMALL_SIZES);
	agg->aggstate = makeNode(AggState);
	agg->aggstate->curaggcontext = palloc0(sizeof(ExprContext));
	agg->aggstate->curaggcontext->type = T_ExprContext;
	agg->transcall = palloc0(SizeForFunctionCallInfo(2));
	InitFunctionCallInfoData(*agg->transcall, &agg->transfn, nargs + 1, aggref->inputcollid,
							 (Node *) agg->aggstate, NULL);
	if (DO_AGGSPLIT_SERIALIZE(aggref->aggsplit) && transtype == INTERNALOID)
	{
		build_aggregate_serialfn_expr(form->aggserialfn, &expr);
		fmgr_info(form->aggserialfn, &agg->serialfn);
		fmgr_info_set_expr((Node *) expr, &agg->serialfn);
		agg->serialcall = palloc0(SizeForFunctionCallInfo(1));
		InitFunctionCallInfoData(*agg->serialcall, &agg->serialfn, 1, InvalidOid,
								 (Node *) agg->aggstate, NULL);
	}
}

/*
 * Prepare an aggregate, and tell how many bytes its state takes in an entry.
 * full_variance says that the squares of avg(real) are wanted after all.
 */
VectorAgg *
vector_agg_compile(Aggref *aggref, bool full_variance, Batch *batch, int *state_size)
{
	VectorAgg  *agg = palloc0(sizeof(VectorAgg));
	HeapTuple	tuple = aggregate_tuple(aggref);
	Form_pg_aggregate form = (Form_pg_aggregate) GETSTRUCT(tuple);

	if (!find_kind(aggregate_core_function(form->aggtransfn), &agg->kind, &agg->width, state_size))
		elog(ERROR, "aggregate %u cannot be vectorised", aggref->aggfnoid);
	if (agg->kind == AGG_SQUARES_FLOAT && agg->width == 4 &&
		vector_agg_only_avg(aggref) && !full_variance)
		agg->kind = AGG_AVG_FLOAT4;
	if (agg->kind == AGG_CORE)
		prepare_core(agg, aggref, form, tuple);
	ReleaseSysCache(tuple);

	if (aggref->args != NIL)
		agg->argument = vector_expr_compile(linitial_node(TargetEntry, aggref->args)->expr, batch);
	if (aggref->aggfilter != NULL)
		agg->filter = vector_filter_compile_rows(aggref->aggfilter, batch);

	return agg;
}

/* Where the state is in an entry. */
void
vector_agg_set_offset(VectorAgg *agg, int offset)
{
	agg->offset = offset;
}

/*
 * Where what states point to is allocated: in `context`, but for entries of
 * the side table of `groups`, which may be NULL.
 */
void
vector_agg_set_context(VectorAgg *agg, MemoryContext context, GroupTable *groups)
{
	agg->context = context;
	agg->groups = groups;
}

static inline MemoryContext
context_of(VectorAgg *agg, const char *entry)
{
	return agg->groups != NULL && group_table_is_overflow(agg->groups, entry) ?
		group_table_overflow_context(agg->groups) : agg->context;
}

/* Does it advance without calling core for each row? */
bool
vector_agg_is_kernel(VectorAgg *agg)
{
	return agg->kind != AGG_CORE && (agg->argument == NULL || vector_expr_is_kernel(agg->argument));
}

/* A new group's state; the entry is zeroed. */
void
vector_agg_init(VectorAgg *agg, char *entry)
{
	if (agg->kind == AGG_CORE)
	{
		CoreState  *state = (CoreState *) (entry + agg->offset);

		state->isnull = true;
		state->unset = true;
	}
}

/*
 * The loops, once for one group and once for many, once with NULLs and once
 * without: BODY sees the state as s and the value as v. With one group the
 * state is worked on in a local copy, which the compiler keeps in registers.
 */
#define FOR_VALUES(type, BODY) \
	do { \
		if (single != NULL) \
		{ \
			type		local = *(type *) (single + offset); \
			type	   *s = &local; \
			if (!has_nulls) \
				for (int i = 0; i < n; i++) { Datum v = values[i]; BODY; } \
			else \
				for (int i = 0; i < n; i++) { if (!nulls[i]) { Datum v = values[i]; BODY; } } \
			*(type *) (single + offset) = local; \
		} \
		else if (!has_nulls) \
			for (int i = 0; i < n; i++) \
			{ type *s = (type *) (entries[i] + offset); Datum v = values[i]; BODY; } \
		else \
			for (int i = 0; i < n; i++) \
			{ \
				if (!nulls[i]) \
				{ type *s = (type *) (entries[i] + offset); Datum v = values[i]; BODY; } \
			} \
	} while (0)

/* float8_accum() */
static inline void
accumulate_squares(SquaresState *s, float8 value)
{
	float8		count = s->count + 1.0;
	float8		sum = s->sum + value;

	if (s->count > 0.0)
	{
		float8		tmp = value * count - sum;

		s->squares += tmp * tmp / (count * s->count);
		if (unlikely(isinf(sum) || isinf(s->squares)))
		{
			if (!isinf(s->sum) && !isinf(value))
				float_overflow_error();
			s->squares = get_float8_nan();
		}
	}
	else if (unlikely(isnan(value) || isinf(value)))
		s->squares = get_float8_nan();
	s->count = count;
	s->sum = sum;
}

/* float4pl() and float8pl(), strict with no initial value */
static inline void
add_float4(FloatState *s, float4 value)
{
	s->sum = s->count == 0 ? value : float4_pl((float4) s->sum, value);
	s->count++;
}

static inline void
add_float8(FloatState *s, float8 value)
{
	s->sum = s->count == 0 ? value : float8_pl(s->sum, value);
	s->count++;
}

/* Values of at most so many bits can be added for a whole batch in 64. */
#define PARTIAL_BITS 54

StaticAssertDecl(BATCH_ROWS <= 1 << (63 - PARTIAL_BITS), "a batch's sum fits in 64 bits");

static void
advance_numeric(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, const RowGroups *groups)
{
	int			offset = agg->offset;
	char	   *single = groups->single;
	char	  **entries = groups->entries;
	Decimals	decimals;
	Values		result;

	/* one scale for all of the batch: arithmetic in integers */
	if (vector_expr_decimals(agg->argument, batch, rows, n, &decimals))
	{
		const int64 *values = decimals.values;
		bool		small = decimals.bits >> PARTIAL_BITS == 0 && !decimals.has_nulls;

		if (small && single != NULL)
		{
			int64		total = 0;

			for (int i = 0; i < n; i++)
				total += values[i];
			decimal_sum_add((DecimalSum *) (single + offset), total, n, decimals.scale, agg->context);
			return;
		}
		if (small && groups->nids > 0)
		{
			int64		totals[SMALL_GROUPS] = {0};
			int			counts[SMALL_GROUPS] = {0};

			for (int i = 0; i < n; i++)
			{
				totals[groups->ids[i]] += values[i];
				counts[groups->ids[i]]++;
			}
			for (int id = 0; id < groups->nids; id++)
			{
				if (counts[id] > 0)
					decimal_sum_add((DecimalSum *) (groups->by_id[id] + offset), totals[id], counts[id],
									decimals.scale, agg->context);
			}
			return;
		}
		for (int i = 0; i < n; i++)
		{
			if (decimals.has_nulls && decimals.nulls[i])
				continue;
			decimal_sum_add((DecimalSum *) ((single != NULL ? single : entries[i]) + offset), values[i], 1,
							decimals.scale, single != NULL ? agg->context : context_of(agg, entries[i]));
		}
		return;
	}

	vector_expr_eval(agg->argument, batch, rows, n, &result);
	for (int i = 0; i < n; i++)
	{
		if (!result.nulls[i])
			decimal_sum_add_numeric((DecimalSum *) ((single != NULL ? single : entries[i]) + offset),
									result.values[i],
									single != NULL ? agg->context : context_of(agg, entries[i]));
	}
}

/* advance_transition_function() of nodeAgg.c */
static void
advance_core(VectorAgg *agg, char *entry, Datum value, bool isnull)
{
	CoreState  *state = (CoreState *) (entry + agg->offset);
	MemoryContext context = context_of(agg, entry);
	FunctionCallInfo fcinfo = agg->transcall;
	MemoryContext old;
	Datum		result;

	if (agg->strict)
	{
		if (isnull)
			return;
		if (state->unset)
		{
			old = MemoryContextSwitchTo(context);
			state->value = datumCopy(value, agg->byval, agg->len);
			MemoryContextSwitchTo(old);
			state->isnull = false;
			state->unset = false;
			return;
		}
		if (state->isnull)
			return;
	}

	agg->aggstate->curaggcontext->ecxt_per_tuple_memory = context;
	old = MemoryContextSwitchTo(agg->row_context);
	fcinfo->args[0].value = state->value;
	fcinfo->args[0].isnull = state->isnull;
	fcinfo->args[1].value = value;
	fcinfo->args[1].isnull = isnull;
	fcinfo->isnull = false;
	result = FunctionCallInvoke(fcinfo);
	if (!agg->byval && DatumGetPointer(result) != DatumGetPointer(state->value))
	{
		if (!fcinfo->isnull)
		{
			MemoryContextSwitchTo(context);
			result = datumCopy(result, agg->byval, agg->len);
		}
		if (!state->isnull)
			pfree(DatumGetPointer(state->value));
	}
	state->value = result;
	state->isnull = fcinfo->isnull;
	state->unset = false;
	MemoryContextSwitchTo(old);
	MemoryContextReset(agg->row_context);
}

/* Does it gain from knowing the numbers of groups? */
bool
vector_agg_uses_ids(VectorAgg *agg)
{
	return agg->kind == AGG_NUMERIC;
}

/* Count n rows. */
static void
advance_count(VectorAgg *agg, int n, char **entries, char *single)
{
	int			offset = agg->offset;

	if (single != NULL)
		*(int64 *) (single + offset) += n;
	else
		for (int i = 0; i < n; i++)
			++* (int64 *) (entries[i] + offset);
}

/*
 * Add the rows of a batch to their groups. What is computed on the way is left
 * in the batch's memory.
 */
void
vector_agg_advance(VectorAgg *agg, Batch *batch, const RowGroups *groups)
{
	uint16		filtered[BATCH_ROWS];
	char	   *filtered_entries[BATCH_ROWS];
	uint8		filtered_ids[BATCH_ROWS];
	RowGroups	filtered_groups = *groups;
	const uint16 *rows = NULL;
	int			n = batch->n;
	int			offset = agg->offset;
	char	   *single = groups->single;
	char	  **entries = groups->entries;
	Values		argument;
	Datum	   *values;
	bool	   *nulls;
	bool		has_nulls;

	if (agg->filter != NULL)
	{
		n = vector_filter_rows(agg->filter, batch, filtered);
		rows = filtered;
		if (single == NULL)
		{
			for (int i = 0; i < n; i++)
				filtered_entries[i] = entries[filtered[i]];
			entries = filtered_groups.entries = filtered_entries;
			if (groups->nids > 0)
				for (int i = 0; i < n; i++)
					filtered_ids[i] = groups->ids[filtered[i]];
			filtered_groups.ids = filtered_ids;
		}
	}
	if (n == 0)
		return;
	if (agg->kind == AGG_NUMERIC)
	{
		advance_numeric(agg, batch, rows, n, &filtered_groups);
		return;
	}
	if (agg->kind == AGG_COUNT &&
		(agg->argument == NULL ||
		 (vector_expr_is_column(agg->argument) &&
		  columns_no_nulls(batch->columns, vector_expr_column(agg->argument)))))
	{
		advance_count(agg, n, entries, single);
		return;
	}

	vector_expr_eval(agg->argument, batch, rows, n, &argument);
	values = argument.values;
	nulls = argument.nulls;
	has_nulls = argument.has_nulls;

	switch (agg->kind)
	{
		case AGG_COUNT:
			if (single != NULL)
			{
				int64		count = n;

				if (has_nulls)
					for (int i = 0; i < n; i++)
						count -= nulls[i];
				*(int64 *) (single + offset) += count;
			}
			else if (!has_nulls)
				for (int i = 0; i < n; i++)
					++* (int64 *) (entries[i] + offset);
			else
				for (int i = 0; i < n; i++)
					*(int64 *) (entries[i] + offset) += !nulls[i];
			break;
		case AGG_SUM_INT:
		case AGG_AVG_INT:
			if (agg->width == 4)
				FOR_VALUES(IntState, (s->count++, s->sum += DatumGetInt32(v)));
			else
				FOR_VALUES(IntState, (s->count++, s->sum += DatumGetInt16(v)));
			break;
		case AGG_SUM_BIGINT:
			if (single != NULL)
			{
				BigState   *s = (BigState *) (single + offset);

				for (int i = 0; i < n; i++)
				{
					if (!nulls[i])
					{
						s->count++;
						s->sum += DatumGetInt64(values[i]);
					}
				}
			}
			else
			{
				for (int i = 0; i < n; i++)
				{
					BigState   *s = (BigState *) (entries[i] + offset);

					if (!nulls[i])
					{
						s->count++;
						s->sum += DatumGetInt64(values[i]);
					}
				}
			}
			break;
		case AGG_SQUARES_INT:
			if (agg->width == 4)
				FOR_VALUES(BigState, (s->count++, s->sum += DatumGetInt32(v),
									  s->squares += (int64) DatumGetInt32(v) * DatumGetInt32(v)));
			else
				FOR_VALUES(BigState, (s->count++, s->sum += DatumGetInt16(v),
									  s->squares += (int64) DatumGetInt16(v) * DatumGetInt16(v)));
			break;
		case AGG_SUM_FLOAT4:
			FOR_VALUES(FloatState, add_float4(s, DatumGetFloat4(v)));
			break;
		case AGG_SUM_FLOAT8:
			FOR_VALUES(FloatState, add_float8(s, DatumGetFloat8(v)));
			break;
		case AGG_SQUARES_FLOAT:
			if (agg->width == 4)
				FOR_VALUES(SquaresState, accumulate_squares(s, DatumGetFloat4(v)));
			else
				FOR_VALUES(SquaresState, accumulate_squares(s, DatumGetFloat8(v)));
			break;
		case AGG_AVG_FLOAT4:

			/*
			 * neither 2^63 values of 2^128 nor their squares overflow a
			 * double
			 */
			FOR_VALUES(FloatState, (s->count++, s->sum += DatumGetFloat4(v)));
			break;
		case AGG_LARGER_INT:
#define LARGER(get) \
	FOR_VALUES(ExtremeState, (s->value = s->set && get(s->value) > get(v) ? s->value : v, s->set = true))
#define SMALLER(get) \
	FOR_VALUES(ExtremeState, (s->value = s->set && get(s->value) < get(v) ? s->value : v, s->set = true))
			if (agg->width == 8)
				LARGER(DatumGetInt64);
			else if (agg->width == 4)
				LARGER(DatumGetInt32);
			else
				LARGER(DatumGetInt16);
			break;
		case AGG_SMALLER_INT:
			if (agg->width == 8)
				SMALLER(DatumGetInt64);
			else if (agg->width == 4)
				SMALLER(DatumGetInt32);
			else
				SMALLER(DatumGetInt16);
			break;
#define EXTREME_FLOAT(better, get) \
	FOR_VALUES(ExtremeState, (s->value = s->set && better(get(s->value), get(v)) ? s->value : v, s->set = true))
		case AGG_LARGER_FLOAT4:
			EXTREME_FLOAT(float4_gt, DatumGetFloat4);
			break;
		case AGG_SMALLER_FLOAT4:
			EXTREME_FLOAT(float4_lt, DatumGetFloat4);
			break;
		case AGG_LARGER_FLOAT8:
			EXTREME_FLOAT(float8_gt, DatumGetFloat8);
			break;
		case AGG_SMALLER_FLOAT8:
			EXTREME_FLOAT(float8_lt, DatumGetFloat8);
			break;
		case AGG_BOOL_AND:
			FOR_VALUES(ExtremeState, (s->value = BoolGetDatum((!s->set || DatumGetBool(s->value)) && DatumGetBool(v)),
									  s->set = true));
			break;
		case AGG_BOOL_OR:
			FOR_VALUES(ExtremeState, (s->value = BoolGetDatum((s->set && DatumGetBool(s->value)) || DatumGetBool(v)),
									  s->set = true));
			break;
		case AGG_CORE:
			for (int i = 0; i < n; i++)
				advance_core(agg, single != NULL ? single : entries[i], values[i], nulls[i]);
			break;
		case AGG_NUMERIC:
			pg_unreachable();
	}
}

static Datum
float8_array(float8 count, float8 sum, float8 squares)
{
	Datum		elements[3] = {Float8GetDatum(count), Float8GetDatum(sum), Float8GetDatum(squares)};

	return PointerGetDatum(construct_array(elements, 3, FLOAT8OID, sizeof(float8),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* The partial state of a group, allocated in the current context. */
Datum
vector_agg_output(VectorAgg *agg, char *entry, bool *isnull)
{
	void	   *p = entry + agg->offset;

	*isnull = false;
	switch (agg->kind)
	{
		case AGG_COUNT:
			return Int64GetDatum(*(int64 *) p);
		case AGG_SUM_INT:
			*isnull = ((IntState *) p)->count == 0;
			return Int64GetDatum(((IntState *) p)->sum);
		case AGG_AVG_INT:
			{
				Datum		elements[2] = {Int64GetDatum(((IntState *) p)->count),
				Int64GetDatum(((IntState *) p)->sum)};

				return PointerGetDatum(construct_array(elements, 2, INT8OID, sizeof(int64),
													   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
			}
		case AGG_SUM_BIGINT:
			return decimal_serialize_int128(((BigState *) p)->count, ((BigState *) p)->sum);
		case AGG_SQUARES_INT:
			return decimal_serialize_int128_squares(((BigState *) p)->count, ((BigState *) p)->sum,
													((BigState *) p)->squares);
		case AGG_SUM_FLOAT4:
			*isnull = ((FloatState *) p)->count == 0;
			return Float4GetDatum((float4) ((FloatState *) p)->sum);
		case AGG_SUM_FLOAT8:
			*isnull = ((FloatState *) p)->count == 0;
			return Float8GetDatum(((FloatState *) p)->sum);
		case AGG_SQUARES_FLOAT:
			return float8_array(((SquaresState *) p)->count, ((SquaresState *) p)->sum,
								((SquaresState *) p)->squares);
		case AGG_AVG_FLOAT4:

			/*
			 * as core: NaN squares with infinite sums, so that combining them
			 * is no overflow
			 */
			return float8_array((float8) ((FloatState *) p)->count, ((FloatState *) p)->sum,
								isfinite(((FloatState *) p)->sum) ? 0.0 : get_float8_nan());
		case AGG_NUMERIC:
			return decimal_serialize_sum(p);
		case AGG_LARGER_INT:
		case AGG_SMALLER_INT:
		case AGG_LARGER_FLOAT4:
		case AGG_SMALLER_FLOAT4:
		case AGG_LARGER_FLOAT8:
		case AGG_SMALLER_FLOAT8:
		case AGG_BOOL_AND:
		case AGG_BOOL_OR:
			*isnull = !((ExtremeState *) p)->set;
			return ((ExtremeState *) p)->value;
		case AGG_CORE:
			{
				CoreState  *state = p;

				*isnull = state->isnull;
				if (agg->serialcall == NULL || (agg->serialfn.fn_strict && state->isnull))
					return state->value;
				agg->serialcall->args[0].value = state->value;
				agg->serialcall->args[0].isnull = state->isnull;
				agg->serialcall->isnull = false;
				return FunctionCallInvoke(agg->serialcall);
			}
	}
	pg_unreachable();
}
