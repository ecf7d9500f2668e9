/*-------------------------------------------------------------------------
 *
 * ordered_values.h
 *	  The inside of ordered-set aggregates, for the files that they are made of.
 *
 *	ordered_set.c		what the planner asks, and compilation
 *	ordered_values.c	collecting the values of groups
 *	ordered_runs.c		those that find no room, in files
 *	ordered_results.c	the results of groups
 *	order_statistics.c	values of certain ranks among many
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_ORDERED_VALUES_H
#define PGBILLION_VECTOR_ORDERED_VALUES_H

#include "catalog/pg_type.h"
#include "utils/array.h"

#include "vector/aggregate/ordered_runs.h"
#include "vector/aggregate/ordered_set.h"

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

static inline Size
size_of_chunk(int64 room)
{
	return offsetof(ValueChunk, keys) + sizeof(uint64) * room;
}

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
	uint64	   *end;			/* unless that is the end */
	ValueChunk *last;			/* or NULL */
	int64		written;		/* further values, in runs */
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

	OrderedRuns *runs;			/* or NULL */
	MemoryContext runs_context;

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

/* ---- values as integers ---- */

#define ORDERED_SIGN UINT64CONST(0x8000000000000000)

/* What would be that of the least float: those of NaN with a sign, below it, come after all others this way. */
#define ORDERED_LEAST_FLOAT UINT64CONST(0x000FFFFFFFFFFFFF)

static inline uint64
key_of_integer(int64 value)
{
	return (uint64) value ^ ORDERED_SIGN;
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
	return ((bits & ORDERED_SIGN) != 0 ? ~bits : bits | ORDERED_SIGN) - ORDERED_LEAST_FLOAT;
}

static inline float8
float_of_key(uint64 key)
{
	uint64		bits = key + ORDERED_LEAST_FLOAT;
	float8		value;

	bits = (bits & ORDERED_SIGN) != 0 ? bits & ~ORDERED_SIGN : ~bits;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* May values of these be equal and not identical? */
static inline bool
has_twins(const OrderedValues *values)
{
	return values->other_nan || (values->zero && values->minus_zero);
}

/* How many values of a group are in memory, and how many it has. */
static inline int64
count_in_memory(const ValuesState *state)
{
	return state->last == NULL ? 0 : state->last->n + (state->next - state->last->keys);
}

static inline int64
count_of(const ValuesState *state)
{
	return count_in_memory(state) + state->written;
}

/* ---- ordered_values.c ---- */
extern Datum ordered_value_of_key(const OrderedValues *values, uint64 key);
extern void ordered_values_gather(const ValuesState *state, uint64 *keys, int64 n);
extern void ordered_values_write_run(OrderedValues *values);
extern void ordered_values_collect(VectorAgg *agg, const Values *argument, int n, RowGroups *groups);
extern void ordered_values_collect_decimals(VectorAgg *agg, Batch *batch, const uint16 *rows, int n,
											RowGroups *groups);

/* ---- ordered_results.c ---- */
extern Datum ordered_set_output(const VectorAgg *agg, const void *state, bool *isnull);

#endif							/* PGBILLION_VECTOR_ORDERED_VALUES_H */
