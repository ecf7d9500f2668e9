/*-------------------------------------------------------------------------
 *
 * ordered_set.c
 *	  Ordered-set aggregates: percentile_cont(), percentile_disc() and mode().
 *
 * The values of each group are kept as unsigned integers in the order of the
 * values, in chunks that belong to the group's state. Aggregates of the same
 * values share them: a collector has the state, and each aggregate looks for
 * its ranks there when its group is returned (order_statistics.c). Nothing is sorted for
 * a percentile.
 *
 * Such an aggregate has no partial form, and PostgreSQL's Agg node above our
 * scan knows none. The scan returns results, as the states of an aggregate
 * whose state is its result: min() of the type, which has one value for each group. That is its carrier;
 * the ordered-set aggregate is what the carrier has for an argument.
 *
 * Memory: each collector has an equal share of hash_mem, as the tables of
 * groups and of DISTINCT values have. Once it is used up, and for a numeric
 * that is no 64-bit integer of its column's scale, all values go to one sort of
 * PostgreSQL's, by the address of the group's entry and by value, and the
 * results of all groups are computed when the source has ended.
 *
 * Values that are equal need not be identical: there are -0 and 0, and several
 * kinds of NaN. PostgreSQL returns the one that its sort puts at the rank. If a
 * column has such values, each group is sorted by that sort, in the order in which the
 * rows came.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/objectaccess.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "compat.h"
#include "vector/aggregate/order_statistics.h"
#include "vector/aggregate/ordered_set.h"

/* Numbers of values of a group's first chunk, and of its largest ones. */
#define FIRST_CHUNK 4
#define LARGEST_CHUNK 8192

/* Bytes of the first block of chunks, and of the largest ones. */
#define FIRST_BLOCK (8 * 1024)
#define LARGEST_BLOCK (1024 * 1024)

/* Bytes that a collector may use whatever its limit is. */
#define LEAST_LIMIT (64 * 1024)

/* Columns of what PostgreSQL sorts where there are groups. */
#define SORT_ENTRY 1
#define SORT_VALUE 2

typedef enum OrderedKind
{
	ORDERED_CONTINUOUS,
	ORDERED_DISCRETE,
	ORDERED_MODE
} OrderedKind;

/* Values of a group, of room for which there is a part. */
typedef struct ValueChunk
{
	struct ValueChunk *before;	/* of the group, or NULL */
	char	   *entry;
	int64		n;				/* values in those before */
	int64		room;
	uint64		keys[FLEXIBLE_ARRAY_MEMBER];
} ValueChunk;

/* Memory for chunks. */
typedef struct ValueBlock
{
	struct ValueBlock *next;
	Size		used;			/* bytes, with this head */
	Size		size;
} ValueBlock;

StaticAssertDecl(sizeof(ValueBlock) == MAXALIGN(sizeof(ValueBlock)), "chunks are aligned");

/* A result of a group. */
typedef struct OrderedResult
{
	Datum		value;
	bool		isnull;
} OrderedResult;

/* The state in a group's entry. */
typedef struct ValuesState
{
	uint64	   *next;			/* where the next value goes, */
	uint64	   *end;			/* unless it is there */
	ValueChunk *last;			/* or NULL */
	int64		sorted;			/* values that PostgreSQL sorts */
	OrderedResult *results;		/* of each aggregate, if they are known */
} ValuesState;

/* One or two neighboring ranks, counted from 0 in the order of the aggregate. */
typedef struct Pick
{
	bool		isnull;
	int64		first;
	int64		second;
	double		proportion;
} Pick;

typedef struct OrderedValues OrderedValues;

/* An aggregate of the values. */
typedef struct OrderedSet
{
	OrderedValues *values;
	int			number;			/* of it among those of the values */
	OrderedKind kind;
	bool		multiple;		/* several percentiles, by an array */
	bool		descending;
	Oid			operator;		/* that it is sorted by */
	bool		nulls_first;
	ExprState  *fraction;		/* direct argument, or NULL */

	/* of the current group */
	ArrayType  *fractions;		/* or NULL */
	bool		isnull;			/* the result is */
	int			npicks;
	int			maxpicks;
	Pick	   *picks;
} OrderedSet;

struct OrderedValues
{
	Aggregates *aggregates;
	VectorAgg  *agg;
	List	   *args;			/* what aggregates of these values have in
								 * common */
	Expr	   *filter;
	Oid			type;
	Oid			collation;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int			scale;			/* of numerics, in units of 10^-scale */
	List	   *sets;			/* of OrderedSet */
	ExprContext *econtext;		/* of direct arguments */

	Size		limit;
	Size		bytes;			/* of blocks */
	int64		longest;		/* values of the largest group, with room */
	MemoryContext context;		/* blocks, results that are kept */
	ValueBlock *first_block;
	ValueBlock *block;

	bool		zero;			/* of floats: what has been met */
	bool		minus_zero;
	bool		other_nan;

	Tuplesortstate *sort;		/* or NULL */
	MemoryContext sort_context;
	TupleTableSlot *slot;		/* for it; NULL: there is one group */

	/* the group whose results are here, or NULL */
	const ValuesState *current;
	MemoryContext result_context;
	OrderedResult *results;
	int			nranks;
	int			maxranks;
	int64	   *ranks;			/* ascending */
	int64	   *scratch;
	uint64	   *found;
	Datum	   *values;			/* of these ranks, */
	Datum		first_mode;		/* and the values that most have */
	Datum		last_mode;
};

/* ---- for the planner ---- */

/* Is it one of the aggregates here, whatever its arguments are? */
bool
ordered_set_is_known(const Aggref *aggref)
{
	switch (aggref->aggfnoid)
	{
		case F_PERCENTILE_CONT_FLOAT8_FLOAT8:
		case F_PERCENTILE_CONT__FLOAT8_FLOAT8:
		case F_PERCENTILE_DISC_FLOAT8_ANYELEMENT:
		case F_PERCENTILE_DISC__FLOAT8_ANYELEMENT:
		case F_MODE:
			return true;
		default:
			return false;
	}
}

static bool
is_multiple(const Aggref *aggref)
{
	return aggref->aggfnoid == F_PERCENTILE_CONT__FLOAT8_FLOAT8 || aggref->aggfnoid == F_PERCENTILE_DISC__FLOAT8_ANYELEMENT;
}

static Expr *
ordered_expr(const Aggref *aggref)
{
	return linitial_node(TargetEntry, aggref->args)->expr;
}

/* The scale of a column of numerics that are integers in units of it; -1: of none. */
static int
scale_of(Expr *expr)
{
	int32		typmod;
	int			scale;

	if (!IsA(expr, Var) || ((Var *) expr)->varattno <= 0)
		return -1;
	typmod = ((Var *) expr)->vartypmod;
	if (typmod < (int32) VARHDRSZ)
		return -1;
	/* numeric_typmod_scale(); the sign is extended */
	scale = (((typmod - VARHDRSZ) & 0x7FF) ^ 1024) - 1024;
	return scale >= 0 && scale <= 18 ? scale : -1;
}

/* The aggregate that returns the least of values of a type, or InvalidOid if there is none for us. */
static Oid
min_of_type(Oid type)
{
	switch (type)
	{
		case INT2OID:
			return F_MIN_INT2;
		case INT4OID:
			return F_MIN_INT4;
		case INT8OID:
			return F_MIN_INT8;
		case FLOAT4OID:
			return F_MIN_FLOAT4;
		case FLOAT8OID:
			return F_MIN_FLOAT8;
		case NUMERICOID:
			return F_MIN_NUMERIC;
		case DATEOID:
			return F_MIN_DATE;
		case TIMESTAMPOID:
			return F_MIN_TIMESTAMP;
		case TIMESTAMPTZOID:
			return F_MIN_TIMESTAMPTZ;
		default:
			return InvalidOid;
	}
}

/* Has somebody taken an aggregate of PostgreSQL's from the public? PostgreSQL would check that for the carrier. */
static bool
is_restricted(Oid function)
{
	return proc_aclcheck(function, ACL_ID_PUBLIC, ACL_EXECUTE) != ACLCHECK_OK;
}

/* Why an ordered-set aggregate is not for us, or NULL. */
const char *
ordered_set_refusal(Aggref *aggref)
{
	SortGroupClause *clause;
	TypeCacheEntry *entry;
	Expr	   *expr;
	Oid			type;

	Assert(ordered_set_is_known(aggref));
	if (list_length(aggref->args) != 1 || list_length(aggref->aggorder) != 1)
		return "an ordered-set aggregate of several columns";
	expr = ordered_expr(aggref);
	type = exprType((Node *) expr);
	clause = linitial_node(SortGroupClause, aggref->aggorder);
	if (!OidIsValid(min_of_type(type)))
		return "an ordered-set aggregate of another type than integers, floats, dates, timestamps and numerics";
	if (type == NUMERICOID && scale_of(expr) < 0)
		return "an ordered-set aggregate of a numeric that is no column with a scale";
	entry = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	if (clause->sortop != entry->lt_opr && clause->sortop != entry->gt_opr)
		return "an ordered-set aggregate by another operator than its type's own";
	if (is_restricted(is_multiple(aggref) ? F_MIN_ANYARRAY : min_of_type(type)))
		return "an ordered-set aggregate where not everybody may execute min()";
	return NULL;
}

/*
 * The aggregate that PostgreSQL's nodes see in the place of an ordered-set
 * aggregate: its state is its result. `transno` is the number of a transition
 * that no other aggregate of the plan has.
 */
Aggref *
ordered_set_carrier(Aggref *aggref, int transno)
{
	Aggref	   *carrier = makeNode(Aggref);
	Aggref	   *carried = makeNode(Aggref);
	Oid			element = exprType((Node *) ordered_expr(aggref));
	Oid			type = is_multiple(aggref) ? get_array_type(element) : element;

	/* of a partial aggregate as of another one */
	memcpy(carried, aggref, sizeof(Aggref));
	carried->aggsplit = AGGSPLIT_SIMPLE;
	carried->aggtype = type;

	carrier->aggfnoid = is_multiple(aggref) ? F_MIN_ANYARRAY : min_of_type(type);
	carrier->aggtype = carrier->aggtranstype = type;
	carrier->aggargtypes = list_make1_oid(type);
	carrier->args = list_make1(makeTargetEntry((Expr *) carried, 1, NULL, false));
	carrier->aggkind = AGGKIND_NORMAL;
	carrier->aggsplit = aggref->aggsplit;
	carrier->aggno = aggref->aggno;
	carrier->aggtransno = transno;
	carrier->location = -1;

	return carrier;
}

/* The ordered-set aggregate of a carrier; NULL: it is none. */
Aggref *
ordered_set_of_carrier(const Aggref *carrier)
{
	Aggref	   *carried;

	if (list_length(carrier->args) != 1)
		return NULL;
	carried = (Aggref *) ordered_expr(carrier);
	return IsA(carried, Aggref) ? carried : NULL;
}

/* ---- values as integers ---- */

#define SIGN UINT64CONST(0x8000000000000000)

/* What would be that of the least float: those of NaN with a sign, below it, come after all others this way. */
#define LEAST_FLOAT UINT64CONST(0x000FFFFFFFFFFFFF)

static inline uint64
key_of_integer(int64 value)
{
	return (uint64) value ^ SIGN;
}

static inline uint64
bits_of_float(float8 value)
{
	uint64		bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline uint64
key_of_bits(uint64 bits)
{
	return ((bits & SIGN) != 0 ? ~bits : bits | SIGN) - LEAST_FLOAT;
}

static inline float8
float_of_key(uint64 key)
{
	uint64		bits = key + LEAST_FLOAT;
	float8		value;

	bits = (bits & SIGN) != 0 ? bits & ~SIGN : ~bits;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* The value of a key, in the current context. */
static Datum
value_of_key(const OrderedValues *values, uint64 key)
{
	int64		integer = (int64) (key ^ SIGN);

	switch (values->type)
	{
		case INT2OID:
			return Int16GetDatum((int16) integer);
		case INT4OID:
		case DATEOID:
			return Int32GetDatum((int32) integer);
		case FLOAT4OID:
			return Float4GetDatum((float4) float_of_key(key));
		case FLOAT8OID:
			return Float8GetDatum(float_of_key(key));
		case NUMERICOID:
			return NumericGetDatum(int64_div_fast_to_numeric(integer, values->scale));
		default:
			return Int64GetDatum(integer);
	}
}

/* Are two values equal, to PostgreSQL? */
static bool
values_are_equal(const OrderedValues *values, Datum a, Datum b)
{
	switch (values->type)
	{
		case FLOAT4OID:
			return float4_eq(DatumGetFloat4(a), DatumGetFloat4(b));
		case FLOAT8OID:
			return float8_eq(DatumGetFloat8(a), DatumGetFloat8(b));
		case NUMERICOID:
			return DatumGetBool(DirectFunctionCall2(numeric_eq, a, b));
		default:
			return a == b;
	}
}

/* May values of these be equal and not identical? */
static bool
has_twins(const OrderedValues *values)
{
	return values->other_nan || (values->zero && values->minus_zero);
}

/* ---- collecting ---- */

static int64
count_of(const ValuesState *state)
{
	return state->last == NULL ? state->sorted : state->last->n + (state->next - state->last->keys);
}

/* Have PostgreSQL sort a value of a group. */
static void
put_sorted(OrderedValues *values, ValuesState *state, char *entry, Datum value)
{
	if (values->slot == NULL)
		tuplesort_putdatum(values->sort, value, false);
	else
	{
		ExecClearTuple(values->slot);
		values->slot->tts_values[SORT_ENTRY - 1] = PointerGetDatum(entry);
		values->slot->tts_values[SORT_VALUE - 1] = value;
		values->slot->tts_isnull[SORT_ENTRY - 1] = values->slot->tts_isnull[SORT_VALUE - 1] = false;
		ExecStoreVirtualTuple(values->slot);
		tuplesort_puttupleslot(values->sort, values->slot);
	}
	state->sorted++;
}

/* Give the values in memory to the sort, in the order in which they came; the states have none then. */
static void
move_to_sort(OrderedValues *values)
{
	int			offset = values->agg->offset;
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered values", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);

	for (ValueBlock *block = values->first_block; block != NULL; block = block->next)
	{
		for (Size place = sizeof(ValueBlock); place < block->used;)
		{
			ValueChunk *chunk = (ValueChunk *) ((char *) block + place);
			ValuesState *state = (ValuesState *) (chunk->entry + offset);
			int64		n = state->last == chunk ? state->next - chunk->keys : chunk->room;

			CHECK_FOR_INTERRUPTS();
			for (int64 i = 0; i < n; i++)
				put_sorted(values, state, chunk->entry, value_of_key(values, chunk->keys[i]));
			if (state->last == chunk)
			{
				state->last = NULL;
				state->next = state->end = NULL;
			}
			MemoryContextReset(work);
			place += offsetof(ValueChunk, keys) + sizeof(uint64) * chunk->room;
		}
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);
}

/* From now on, PostgreSQL sorts all values. */
static void
begin_sort(OrderedValues *values)
{
	MemoryContext old = MemoryContextSwitchTo(values->sort_context);
	int			kilobytes = (int) Max(Min(values->limit / 1024, (Size) work_mem), 64);
	Oid			less = lookup_type_cache(values->type, TYPECACHE_LT_OPR)->lt_opr;

	Assert(values->sort == NULL);
	if (values->slot == NULL)
		values->sort = tuplesort_begin_datum(values->type, less, values->collation, false, kilobytes, NULL, TUPLESORT_NONE);
	else
	{
		AttrNumber	columns[] = {SORT_ENTRY, SORT_VALUE};
		Oid			operators[] = {lookup_type_cache(INT8OID, TYPECACHE_LT_OPR)->lt_opr, less};
		Oid			collations[] = {InvalidOid, values->collation};
		bool		nulls_first[] = {false, false};

		values->sort = tuplesort_begin_heap(values->slot->tts_tupleDescriptor, 2, columns, operators, collations,
											nulls_first, kilobytes, NULL, TUPLESORT_NONE);
	}
	MemoryContextSwitchTo(old);
	move_to_sort(values);
	MemoryContextReset(values->context);
	values->first_block = values->block = NULL;
	values->bytes = 0;
}

/* Have room for further values of a group, in a chunk; false if there is no memory for it, and PostgreSQL sorts now. */
static bool
add_chunk(OrderedValues *values, ValuesState *state, char *entry)
{
	int64		n = count_of(state);
	int64		room = Min(Max(n, FIRST_CHUNK), LARGEST_CHUNK);
	Size		size = offsetof(ValueChunk, keys) + sizeof(uint64) * room;
	int64		longest = Max(values->longest, n + room);
	Size		wanted = 0;		/* a new block */
	ValueChunk *chunk;

	if (values->sort != NULL)
		return false;
	if (values->block == NULL || values->block->size - values->block->used < size)
	{
		wanted = values->block == NULL ? FIRST_BLOCK : Min(2 * values->block->size, LARGEST_BLOCK);
		wanted = Max(Min(wanted, values->limit / 16), sizeof(ValueBlock) + size);
	}
	/* values of a group are copied to be looked at */
	if (values->bytes + wanted + sizeof(uint64) * longest > values->limit)
	{
		begin_sort(values);
		return false;
	}
	values->longest = longest;
	if (wanted > 0)
	{
		ValueBlock *block = MemoryContextAlloc(values->context, wanted);

		block->next = NULL;
		block->used = sizeof(ValueBlock);
		block->size = wanted;
		if (values->block == NULL)
			values->first_block = block;
		else
			values->block->next = block;
		values->block = block;
		values->bytes += wanted;
	}
	chunk = (ValueChunk *) ((char *) values->block + values->block->used);
	values->block->used += size;
	chunk->before = state->last;
	chunk->entry = entry;
	chunk->n = n;
	chunk->room = room;
	state->last = chunk;
	state->next = chunk->keys;
	state->end = chunk->keys + room;

	return true;
}

/* Add values to their groups: KEY is that of row i. */
#define ADD_KEYS(KEY) \
	do { \
		for (int i = 0; i < n; i++) \
		{ \
			char	   *entry; \
			ValuesState *state; \
			uint64		key; \
			if (has_nulls && nulls[i]) \
				continue; \
			entry = entries == NULL ? groups->single : entries[i]; \
			state = (ValuesState *) (entry + agg->offset); \
			key = KEY; \
			if (unlikely(state->next == state->end) && !add_chunk(values, state, entry)) \
				put_sorted(values, state, entry, value_of_key(values, key)); \
			else \
				*state->next++ = key; \
		} \
	} while (0)

/* Take note of floats that others can be equal to. */
static inline uint64
key_of_float(OrderedValues *values, float8 value)
{
	uint64		bits = bits_of_float(value);

	values->zero |= bits == 0;
	values->minus_zero |= bits == SIGN;
	if (unlikely(isnan(value)))
		values->other_nan |= bits != bits_of_float(get_float8_nan());
	return key_of_bits(bits);
}

static void
collect(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	OrderedValues *values = agg->own;
	char	  **entries = groups->single != NULL ? NULL : group_entries(groups, n);
	const Datum *v = argument->values;
	const bool *nulls = argument->nulls;
	bool		has_nulls = argument->has_nulls;

	values->current = NULL;
	switch (values->type)
	{
		case INT2OID:
			ADD_KEYS(key_of_integer(DatumGetInt16(v[i])));
			break;
		case INT4OID:
		case DATEOID:
			ADD_KEYS(key_of_integer(DatumGetInt32(v[i])));
			break;
		case FLOAT4OID:
			ADD_KEYS(key_of_float(values, (float8) DatumGetFloat4(v[i])));
			break;
		case FLOAT8OID:
			ADD_KEYS(key_of_float(values, DatumGetFloat8(v[i])));
			break;
		default:
			ADD_KEYS(key_of_integer(DatumGetInt64(v[i])));
			break;
	}
}

/* The same for numerics. */
static void
collect_decimals(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	OrderedValues *values = agg->own;
	char	  **entries = groups->single != NULL ? NULL : group_entries(groups, n);
	Decimals	decimals;
	Values		argument;

	values->current = NULL;
	if (values->sort == NULL && vector_expr_decimals(agg->argument, batch, rows, n, &decimals) &&
		decimals.scale == values->scale)
	{
		const bool *nulls = decimals.nulls;
		bool		has_nulls = decimals.has_nulls;

		ADD_KEYS(key_of_integer(decimals.values[i]));
		return;
	}
	if (values->sort == NULL)
		begin_sort(values);
	vector_expr_eval(agg->argument, batch, rows, n, &argument);
	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];

		if (!argument.has_nulls || !argument.nulls[i])
			put_sorted(values, (ValuesState *) (entry + agg->offset), entry, argument.values[i]);
	}
}

/* ---- what is looked for ---- */

static void
check_fraction(double fraction)
{
	if (fraction < 0 || fraction > 1 || isnan(fraction))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("percentile value %g is not between 0 and 1", fraction)));
}

/* The ranks of a fraction, with the same arithmetic as PostgreSQL's. */
static void
set_pick(Pick *pick, OrderedKind kind, double fraction, int64 n)
{
	pick->isnull = false;
	if (kind == ORDERED_CONTINUOUS)
	{
		pick->first = floor(fraction * (n - 1));
		pick->second = ceil(fraction * (n - 1));
		pick->proportion = (fraction * (n - 1)) - pick->first;
		return;
	}
	pick->first = Max((int64) ceil(fraction * n), 1) - 1;
	pick->second = pick->first;
}

/* Have room for a number of picks. */
static void
reserve_picks(OrderedSet *set, int n)
{
	if (n <= set->maxpicks)
		return;
	set->picks = MemoryContextAlloc(GetMemoryChunkContext(set), sizeof(Pick) * n);
	set->maxpicks = n;
}

/* Find out what an aggregate wants of the current group, which has n values. */
static void
set_picks(OrderedSet *set, int64 n)
{
	Datum		fraction;
	Datum	   *fractions;
	bool	   *nulls;

	set->npicks = 0;
	set->fractions = NULL;
	set->isnull = n == 0;
	if (set->kind == ORDERED_MODE)
		return;
	fraction = ExecEvalExpr(set->fraction, set->values->econtext, &set->isnull);
	if (!set->multiple)
	{
		if (set->isnull)
			return;
		check_fraction(DatumGetFloat8(fraction));
		set->isnull = n == 0;
		if (set->isnull)
			return;
		reserve_picks(set, 1);
		set_pick(&set->picks[set->npicks++], set->kind, DatumGetFloat8(fraction), n);
		return;
	}
	set->isnull |= n == 0;
	if (set->isnull)
		return;
	set->fractions = DatumGetArrayTypeP(fraction);
	deconstruct_array(set->fractions, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE,
					  &fractions, &nulls, &set->npicks);
	reserve_picks(set, set->npicks);
	for (int i = 0; i < set->npicks; i++)
	{
		set->picks[i].isnull = nulls[i];
		if (nulls[i])
			continue;
		check_fraction(DatumGetFloat8(fractions[i]));
		set_pick(&set->picks[i], set->kind, DatumGetFloat8(fractions[i]), n);
	}
}

/* The rank of a value in ascending order, of which that in the order of the aggregate is given. */
static int64
rank_in_order(const OrderedSet *set, int64 rank, int64 n, bool ascending)
{
	return ascending && set->descending ? n - 1 - rank : rank;
}

static int
compare_ranks(const void *a, const void *b)
{
	int64		x = *(const int64 *) a;
	int64		y = *(const int64 *) b;

	return x < y ? -1 : x > y;
}

/* Have the ranks of some aggregates, ascending and each once. */
static void
list_ranks(OrderedValues *values, List *sets, int64 n, bool ascending)
{
	int			most = 0;
	int			k = 0;
	ListCell   *lc;

	foreach(lc, sets)
		most += 2 * ((OrderedSet *) lfirst(lc))->npicks;
	if (most > values->maxranks)
	{
		MemoryContext context = GetMemoryChunkContext(values);

		values->ranks = MemoryContextAlloc(context, sizeof(int64) * most);
		values->scratch = MemoryContextAlloc(context, sizeof(int64) * most);
		values->found = MemoryContextAlloc(context, sizeof(uint64) * most);
		values->values = MemoryContextAlloc(context, sizeof(Datum) * most);
		values->maxranks = most;
	}
	foreach(lc, sets)
	{
		OrderedSet *set = lfirst(lc);

		for (int i = 0; i < set->npicks; i++)
		{
			if (set->picks[i].isnull)
				continue;
			values->ranks[k++] = rank_in_order(set, set->picks[i].first, n, ascending);
			values->ranks[k++] = rank_in_order(set, set->picks[i].second, n, ascending);
		}
	}
	if (k > 1)
		qsort(values->ranks, k, sizeof(int64), compare_ranks);
	values->nranks = 0;
	for (int i = 0; i < k; i++)
	{
		if (i == 0 || values->ranks[i] != values->ranks[i - 1])
			values->ranks[values->nranks++] = values->ranks[i];
	}
}

/* The value of a rank, which has been found. */
static Datum
value_of_rank(const OrderedValues *values, int64 rank)
{
	int64	   *place = bsearch(&rank, values->ranks, values->nranks, sizeof(int64), compare_ranks);

	Assert(place != NULL);
	return values->values[place - values->ranks];
}

static Datum
value_of_pick(const OrderedSet *set, const Pick *pick, int64 n, bool ascending)
{
	Datum		first = value_of_rank(set->values, rank_in_order(set, pick->first, n, ascending));
	double		low;
	double		high;

	if (pick->first == pick->second)
		return first;
	low = DatumGetFloat8(first);
	high = DatumGetFloat8(value_of_rank(set->values, rank_in_order(set, pick->second, n, ascending)));
	/* float8_lerp() */
	return Float8GetDatum(low + (pick->proportion * (high - low)));
}

/* The result of an aggregate, in the current context, of what has been found. */
static void
set_result(OrderedSet *set, OrderedResult *result, int64 n, bool ascending)
{
	const OrderedValues *values = set->values;
	Datum	   *elements;
	bool	   *nulls;

	result->isnull = set->isnull;
	result->value = (Datum) 0;
	if (set->isnull)
		return;
	if (set->kind == ORDERED_MODE)
		result->value = ascending && set->descending ? values->last_mode : values->first_mode;
	else if (!set->multiple)
		result->value = value_of_pick(set, &set->picks[0], n, ascending);
	else if (set->npicks == 0)
		result->value = PointerGetDatum(construct_empty_array(values->type));
	else
	{
		elements = palloc(sizeof(Datum) * set->npicks);
		nulls = palloc(sizeof(bool) * set->npicks);
		for (int i = 0; i < set->npicks; i++)
		{
			nulls[i] = set->picks[i].isnull;
			elements[i] = nulls[i] ? (Datum) 0 : value_of_pick(set, &set->picks[i], n, ascending);
		}
		result->value = PointerGetDatum(construct_md_array(elements, nulls, ARR_NDIM(set->fractions),
														   ARR_DIMS(set->fractions), ARR_LBOUND(set->fractions),
														   values->type, values->typlen, values->typbyval,
														   values->typalign));
	}
}

static bool
want_mode(List *sets)
{
	ListCell   *lc;

	foreach(lc, sets)
	{
		if (((OrderedSet *) lfirst(lc))->kind == ORDERED_MODE)
			return true;
	}
	return false;
}

/* ---- values in PostgreSQL's order ---- */

/* Read the next value of a sort; false if there is none. */
static bool
next_sorted(OrderedValues *values, Tuplesortstate *sort, Datum *value)
{
	bool		isnull;

	if (sort == values->sort && values->slot != NULL)
	{
		if (!tuplesort_gettupleslot(sort, true, false, values->slot, NULL))
			return false;
		*value = slot_getattr(values->slot, SORT_VALUE, &isnull);
		return true;
	}
#if PG_VERSION_NUM >= 160000
	return tuplesort_getdatum(sort, true, true, value, &isnull, NULL);
#else
	return tuplesort_getdatum(sort, true, value, &isnull, NULL);
#endif
}

/* A value that the next one in order may be equal to. */
typedef struct Run
{
	Datum		value;			/* a copy */
	int64		count;
	int64		most;			/* that any has had */
} Run;

/* Take note of a value for the modes. */
static void
add_to_run(OrderedValues *values, Run *run, Datum value)
{
	if (run->count == 0 || !values_are_equal(values, run->value, value))
	{
		if (run->count > 0 && !values->typbyval && run->value != values->first_mode && run->value != values->last_mode)
			pfree(DatumGetPointer(run->value));
		run->value = datumCopy(value, values->typbyval, values->typlen);
		run->count = 0;
	}
	run->count++;
	if (run->count > run->most)
		values->first_mode = run->value;
	if (run->count >= run->most)
	{
		values->last_mode = run->value;
		run->most = run->count;
	}
}

/*
 * Find the values of the ranks, and the modes if they are wanted, of the n
 * values that a sort gives next, the first of which has been read. If that is
 * all the sort has (`alone`), what follows need not be read.
 */
static void
read_sorted(OrderedValues *values, Tuplesortstate *sort, Datum value, int64 n, bool modes, bool alone)
{
	bool		is_copy = !values->typbyval && !(sort == values->sort && values->slot != NULL);
	int			found = 0;
	Run			run = {0};

	for (int64 rank = 0;; rank++)
	{
		CHECK_FOR_INTERRUPTS();
		if (found < values->nranks && values->ranks[found] == rank)
			values->values[found++] = datumCopy(value, values->typbyval, values->typlen);
		if (modes)
			add_to_run(values, &run, value);
		if (is_copy)
			pfree(DatumGetPointer(value));
		if (rank + 1 == n || (alone && !modes && found == values->nranks))
			break;
		if (!next_sorted(values, sort, &value))
			elog(ERROR, "missing row in an ordered-set aggregate");
	}
}

/* ---- the results of a group ---- */

/* The keys of a group, in the order in which its rows came. */
static uint64 *
gather(const ValuesState *state, int64 n)
{
	uint64	   *keys = palloc_extended(sizeof(uint64) * n, MCXT_ALLOC_HUGE);

	for (ValueChunk *chunk = state->last; chunk != NULL; chunk = chunk->before)
	{
		memcpy(keys + chunk->n, chunk->keys, sizeof(uint64) * (n - chunk->n));
		n = chunk->n;
	}
	Assert(n == 0);
	return keys;
}

/* Results of values that are identical if they are equal. */
static void
find_results(OrderedValues *values, uint64 *keys, int64 n)
{
	ListCell   *lc;

	list_ranks(values, values->sets, n, true);
	if (values->nranks > 0)
	{
		memcpy(values->scratch, values->ranks, sizeof(int64) * values->nranks);
		order_select(keys, n, values->scratch, values->nranks, values->found);
		for (int i = 0; i < values->nranks; i++)
			values->values[i] = value_of_key(values, values->found[i]);
	}
	if (want_mode(values->sets))
	{
		uint64		first;
		uint64		last;

		order_modes(keys, n, &first, &last);
		values->first_mode = value_of_key(values, first);
		values->last_mode = value_of_key(values, last);
	}
	foreach(lc, values->sets)
		set_result(lfirst(lc), &values->results[foreach_current_index(lc)], n, true);
}

/* Results as PostgreSQL finds them, by the same sort. */
static void
sort_results(OrderedValues *values, const uint64 *keys, int64 n)
{
	ListCell   *lc;

	foreach(lc, values->sets)
	{
		OrderedSet *set = lfirst(lc);
		List	   *alone = list_make1(set);
		Tuplesortstate *sort = tuplesort_begin_datum(values->type, set->operator, values->collation, set->nulls_first,
													 work_mem, NULL, TUPLESORT_NONE);
		Datum		value;

		for (int64 i = 0; i < n; i++)
			tuplesort_putdatum(sort, value_of_key(values, keys[i]), false);
		tuplesort_performsort(sort);
		list_ranks(values, alone, n, false);
		if (!next_sorted(values, sort, &value))
			elog(ERROR, "missing row in an ordered-set aggregate");
		read_sorted(values, sort, value, n, want_mode(alone), true);
		set_result(set, &values->results[foreach_current_index(lc)], n, false);
		tuplesort_end(sort);
	}
}

/* Have direct arguments evaluated for a group, and find out what is wanted of its n values. */
static void
begin_group(OrderedValues *values, char *entry, int64 n)
{
	ListCell   *lc;

	values->current = NULL;
	if (values->aggregates->show_keys != NULL)
		values->aggregates->show_keys(values->aggregates->show_keys_of, entry);
	values->econtext->ecxt_outertuple = values->aggregates->keys;
	foreach(lc, values->sets)
		set_picks(lfirst(lc), n);
}

/* Have the results of a group. */
static void
set_results(OrderedValues *values, const ValuesState *state)
{
	int64		n = count_of(state);
	MemoryContext old;

	MemoryContextReset(values->result_context);
	old = MemoryContextSwitchTo(values->result_context);
	begin_group(values, (char *) state - values->agg->offset, n);
	if (n == 0)
	{
		ListCell   *lc;

		foreach(lc, values->sets)
			set_result(lfirst(lc), &values->results[foreach_current_index(lc)], n, true);
	}
	else if (has_twins(values))
		sort_results(values, gather(state, n), n);
	else
		find_results(values, gather(state, n), n);
	MemoryContextSwitchTo(old);
	values->current = state;
}

/* Keep the results of a group with its state. */
static void
keep_results(OrderedValues *values, ValuesState *state, int64 n)
{
	MemoryContext old = MemoryContextSwitchTo(values->context);
	ListCell   *lc;

	state->results = palloc(sizeof(OrderedResult) * list_length(values->sets));
	foreach(lc, values->sets)
	{
		OrderedSet *set = lfirst(lc);
		OrderedResult *result = &state->results[set->number];

		MemoryContextSwitchTo(values->result_context);
		set_result(set, result, n, true);
		MemoryContextSwitchTo(values->context);
		if (!result->isnull)
			result->value = datumCopy(result->value, !set->multiple && values->typbyval, set->multiple ? -1 : values->typlen);
	}
	MemoryContextSwitchTo(old);
}

/*
 * The source has ended. If PostgreSQL sorts the values, have the results of all
 * groups; what it has written to files is added to both.
 */
void
ordered_values_finish(VectorAgg *collector, uint64 *partitions, uint64 *bytes)
{
	OrderedValues *values = collector->own;
	MemoryContext old = MemoryContextSwitchTo(values->sort_context);
	TuplesortInstrumentation stats;
	Datum		value;

	if (values->sort == NULL)
	{
		MemoryContextSwitchTo(old);
		return;
	}
	tuplesort_performsort(values->sort);
	MemoryContextReset(values->result_context);
	MemoryContextSwitchTo(values->result_context);
	while (next_sorted(values, values->sort, &value))
	{
		char	   *entry;
		ValuesState *state;
		bool		isnull;

		entry = values->slot == NULL ? values->aggregates->single :
			(char *) DatumGetPointer(slot_getattr(values->slot, SORT_ENTRY, &isnull));
		state = (ValuesState *) (entry + collector->offset);
		begin_group(values, entry, state->sorted);
		list_ranks(values, values->sets, state->sorted, true);
		read_sorted(values, values->sort, value, state->sorted, want_mode(values->sets), false);
		keep_results(values, state, state->sorted);
		MemoryContextReset(values->result_context);
	}
	tuplesort_get_stats(values->sort, &stats);
	if (stats.spaceType == SORT_SPACE_TYPE_DISK)
	{
		*partitions += 1;
		*bytes += (uint64) stats.spaceUsed * 1024;
	}
	if (values->slot != NULL)
		ExecClearTuple(values->slot);
	tuplesort_end(values->sort);
	values->sort = NULL;
	MemoryContextReset(values->sort_context);
	MemoryContextSwitchTo(old);
}

/* Forget all values; the next are those of new groups. */
void
ordered_values_forget(VectorAgg *collector)
{
	OrderedValues *values = collector->own;

	/* a source that has begun to be consumed is consumed to its end */
	Assert(values->sort == NULL);
	values->current = NULL;
	MemoryContextReset(values->context);
	MemoryContextReset(values->result_context);
	values->first_block = values->block = NULL;
	values->bytes = 0;
	values->longest = 0;
	values->zero = values->minus_zero = values->other_nan = false;
}

static Datum
output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const OrderedSet *set = agg->own;
	const ValuesState *s = state;
	const OrderedResult *results = s->results;

	if (results == NULL)
	{
		if (set->values->current != s)
			set_results(set->values, s);
		results = set->values->results;
	}
	*isnull = results[set->number].isnull;
	return results[set->number].value;
}

/* ---- compilation ---- */

static const AggKind values_kind = {
	.state_size = sizeof(ValuesState),
	.advance = collect,
	.output = output,
};

static const AggKind decimals_kind = {
	.state_size = sizeof(ValuesState),
	.advance_batch = collect_decimals,
	.output = output,
};

/* Have the values of an aggregate collected, and of others that ordered_values_are_of() is true for. */
VectorAgg *
ordered_values_compile(Aggref *aggref, Batch *batch, Aggregates *aggregates)
{
	VectorAgg  *agg = palloc0(sizeof(VectorAgg));
	OrderedValues *values = palloc0(sizeof(OrderedValues));
	Expr	   *expr = ordered_expr(aggref);

	values->aggregates = aggregates;
	values->agg = agg;
	values->args = aggref->args;
	values->filter = aggref->aggfilter;
	values->type = exprType((Node *) expr);
	values->collation = exprCollation((Node *) expr);
	get_typlenbyvalalign(values->type, &values->typlen, &values->typbyval, &values->typalign);
	values->scale = scale_of(expr);
	values->econtext = CreateExprContext(batch->parent->state);
	values->limit = LEAST_LIMIT;
	values->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered values", ALLOCSET_DEFAULT_SIZES);
	values->sort_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered values' sort", ALLOCSET_DEFAULT_SIZES);
	values->result_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion ordered results", ALLOCSET_DEFAULT_SIZES);

	agg->kind = values->type == NUMERICOID ? &decimals_kind : &values_kind;
	agg->own = values;
	agg->others = -1;
	agg->argument = vector_expr_compile(expr, batch);
	if (aggref->aggfilter != NULL)
		agg->filter = vector_filter_compile_rows(aggref->aggfilter, batch);

	return agg;
}

/* Are the values those that an aggregate is of? */
bool
ordered_values_are_of(const VectorAgg *collector, const Aggref *aggref)
{
	const OrderedValues *values = collector->own;

	return equal(linitial_node(TargetEntry, values->args)->expr, ordered_expr(aggref)) &&
		equal(values->filter, aggref->aggfilter);
}

/* Group keys of which a direct argument is made. */
typedef struct KeyColumns
{
	List	   *keys;
} KeyColumns;

/* Have keys as columns of the row of a group's keys. */
static Node *
refer_to_keys(Node *node, void *context)
{
	List	   *keys = ((KeyColumns *) context)->keys;
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	foreach(lc, keys)
	{
		if (equal(lfirst(lc), node))
			return (Node *) makeVar(OUTER_VAR, foreach_current_index(lc) + 1, exprType(node), exprTypmod(node),
									exprCollation(node), 0);
	}
	if (IsA(node, Var))
		elog(ERROR, "a direct argument is made of no group key");
	return expression_tree_mutator(node, refer_to_keys, context);
}

/* Check what PostgreSQL's executor checks before it calls an aggregate. */
static void
check_privileges(const Aggref *aggref)
{
	AclResult	result = proc_aclcheck(aggref->aggfnoid, GetUserId(), ACL_EXECUTE);

	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggref->aggfnoid));
	InvokeFunctionExecuteHook(aggref->aggfnoid);
}

/* An aggregate of the values of a collector; its direct argument may be made of the group keys. */
VectorAgg *
ordered_set_compile(Aggref *aggref, VectorAgg *collector, List *keys, Batch *batch)
{
	VectorAgg  *agg = palloc0(sizeof(VectorAgg));
	OrderedSet *set = palloc0(sizeof(OrderedSet));
	OrderedValues *values = collector->own;
	SortGroupClause *clause = linitial_node(SortGroupClause, aggref->aggorder);
	KeyColumns	columns = {keys};

	check_privileges(aggref);
	set->values = values;
	set->number = list_length(values->sets);
	set->multiple = is_multiple(aggref);
	set->kind = aggref->aggfnoid == F_MODE ? ORDERED_MODE :
		aggref->aggfnoid == F_PERCENTILE_CONT_FLOAT8_FLOAT8 || aggref->aggfnoid == F_PERCENTILE_CONT__FLOAT8_FLOAT8 ?
		ORDERED_CONTINUOUS : ORDERED_DISCRETE;
	set->operator = clause->sortop;
	set->nulls_first = clause->nulls_first;
	set->descending = clause->sortop != lookup_type_cache(values->type, TYPECACHE_LT_OPR)->lt_opr;
	if (set->kind != ORDERED_MODE)
		set->fraction = ExecInitExpr((Expr *) refer_to_keys(linitial(aggref->aggdirectargs), &columns), batch->parent);
	values->sets = lappend(values->sets, set);
	if (values->results != NULL)
		pfree(values->results);
	values->results = palloc(sizeof(OrderedResult) * list_length(values->sets));

	agg->kind = collector->kind;
	agg->own = set;
	agg->others = -1;
	agg->argument = collector->argument;

	return agg;
}

/* Where an aggregate has its values from; NULL: it is no ordered-set aggregate. */
VectorAgg *
ordered_set_collector(const VectorAgg *agg)
{
	bool		is_set = agg->kind == &values_kind || agg->kind == &decimals_kind;

	return is_set ? ((OrderedSet *) agg->own)->values->agg : NULL;
}

/* Let the values take `limit` bytes of memory. */
void
ordered_values_set_limit(VectorAgg *collector, Size limit)
{
	OrderedValues *values = collector->own;
	bool		grouped = values->aggregates->single == NULL;

	values->limit = Max(limit, LEAST_LIMIT);
	if (grouped && values->slot == NULL)
	{
		TupleDesc	tupdesc = CreateTemplateTupleDesc(2);

		TupleDescInitEntry(tupdesc, SORT_ENTRY, NULL, INT8OID, -1, 0);
		TupleDescInitEntry(tupdesc, SORT_VALUE, NULL, values->type, -1, 0);
		TupleDescFinalize(tupdesc);
		values->slot = MakeSingleTupleTableSlot(tupdesc, &TTSOpsMinimalTuple);
	}
}
