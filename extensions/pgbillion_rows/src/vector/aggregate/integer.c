/*-------------------------------------------------------------------------
 *
 * integer.c
 *	  Sums of integers, and of their squares.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/fmgroids.h"

#include "vector/aggregate/aggregate.h"
#include "vector/expression/decimal.h"

typedef struct IntState
{
	int64		count;
	int64		sum;
} IntState;

typedef struct BigState
{
	int64		count;
	int128		sum;
} BigState;

StaticAssertDecl(offsetof(IntState, count) == offsetof(BigState, count), "a count comes first");

typedef struct SquaresState
{
	int64		count;
	int128		sum;
	int128		squares;
} SquaresState;

static void
add_int2(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(IntState, (s->count++, s->sum += DatumGetInt16(v)));
}

static void
add_int4(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(IntState, (s->count++, s->sum += DatumGetInt32(v)));
}

static void
add_int8(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(BigState, (s->count++, s->sum += DatumGetInt64(v)));
}

static void
add_squares_int2(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(SquaresState, (s->count++, s->sum += DatumGetInt16(v),
							  s->squares += (int64) DatumGetInt16(v) * DatumGetInt16(v)));
}

static void
add_squares_int4(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(SquaresState, (s->count++, s->sum += DatumGetInt32(v),
							  s->squares += (int64) DatumGetInt32(v) * DatumGetInt32(v)));
}

static void
add_big_int2(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(BigState, (s->count++, s->sum += DatumGetInt16(v)));
}

static void
add_big_int4(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(BigState, (s->count++, s->sum += DatumGetInt32(v)));
}

/* ---- arrays ---- */

/* The sum of an array. */
static uint64
sum_array(const Packed *packed, int n)
{
	uint64		sum = 0;

#define SUM_OF(type) \
	for (int i = 0; i < n; i++) \
		sum += ((const type *) packed->array)[i]

	if (packed->width == sizeof(uint8))
		SUM_OF(uint8);
	else if (packed->width == sizeof(uint16))
		SUM_OF(uint16);
	else
		SUM_OF(uint32);
	return sum;
}

/* The sums by the numbers of groups. */
static void
sum_array_by_id(const Packed *packed, int n, const RowGroups *groups, uint64 *sums)
{
	memset(sums, 0, sizeof(uint64) * groups->nids);
	if (packed->width == sizeof(uint8))
	{
		const uint8 *values = packed->array;

		for (int i = 0; i < n; i++)
			sums[groups->ids[i]] += values[i];
	}
	else if (packed->width == sizeof(uint16))
		column_kernels()->sum_uint16(groups->ids, packed->array, n, groups->nids, sums);
	else
		column_kernels()->sum_uint32(groups->ids, packed->array, n, groups->nids, sums);
}

/*
 * What an array adds to each group: BODY sees the state as s, how many rows
 * there are as `count`, and their sum above the base as `sum`, which is far
 * from the limits of 64 bits.
 */
#define FOR_GROUPS(type, BODY) \
	do { \
		if (packed->kind != PACKED_INTEGERS || packed->width > (int) sizeof(uint32)) \
			return false; \
		if (groups->single != NULL) \
		{ \
			type	   *s = (type *) (groups->single + agg->offset); \
			int64		count = n; \
			uint64		sum = sum_array(packed, n); \
			BODY; \
		} \
		else \
		{ \
			const uint64 *counts = group_counts(groups, n); \
			uint64		sums[SMALL_GROUPS]; \
			sum_array_by_id(packed, n, groups, sums); \
			for (int id = 0; id < groups->nids; id++) \
			{ \
				if (counts[id] > 0) \
				{ \
					type	   *s = (type *) (groups->by_id[id] + agg->offset); \
					int64		count = (int64) counts[id]; \
					uint64		sum = sums[id]; \
					BODY; \
				} \
			} \
		} \
		return true; \
	} while (0)

static bool
add_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups)
{
	FOR_GROUPS(IntState, (s->count += count, s->sum += packed->base * count + (int64) sum));
}

static bool
add_big_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups)
{
	FOR_GROUPS(BigState, (s->count += count, s->sum += (int128) packed->base * count + sum));
}

/* ---- states of other processes ---- */

static void
combine_sums(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(IntState, (s->count += o->count, s->sum += o->sum));
}

static void
combine_big(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(BigState, (s->count += o->count, s->sum += o->sum));
}

static void
combine_squares(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(SquaresState, (s->count += o->count, s->sum += o->sum, s->squares += o->squares));
}

/* int2_sum(), int4_sum(): a bigint */
static Datum
sum_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const IntState *s = state;

	*isnull = s->count == 0;
	return Int64GetDatum(s->sum);
}

/* int2_avg_accum(), int4_avg_accum(): bigint[2] */
static Datum
average_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const IntState *s = state;
	Datum		elements[2] = {Int64GetDatum(s->count), Int64GetDatum(s->sum)};

	return PointerGetDatum(construct_array(elements, 2, INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
big_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const BigState *s = state;

	return decimal_serialize_int128(s->count, s->sum);
}

static Datum
squares_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const SquaresState *s = state;

	return decimal_serialize_int128_squares(s->count, s->sum, s->squares);
}

enum
{
	KIND_INT2_SUM,
	KIND_INT4_SUM,
	KIND_INT2_AVG,
	KIND_INT4_AVG,
	KIND_INT8_AVG
};

const AggKind integer_kinds[] = {
	[KIND_INT2_SUM] = {
		.transitions = {F_INT2_SUM},
		.state_size = sizeof(IntState),
		.sums_integers = true,
		.advance = add_int2,
		.advance_packed = add_array,
		.combine = combine_sums,
		.output = sum_output,
	},
	[KIND_INT4_SUM] = {
		.transitions = {F_INT4_SUM},
		.state_size = sizeof(IntState),
		.sums_integers = true,
		.advance = add_int4,
		.advance_packed = add_array,
		.combine = combine_sums,
		.output = sum_output,
	},
	[KIND_INT2_AVG] = {
		.transitions = {F_INT2_AVG_ACCUM},
		.state_size = sizeof(IntState),
		.sums_integers = true,
		.initial = "{0,0}",
		.advance = add_int2,
		.advance_packed = add_array,
		.combine = combine_sums,
		.output = average_output,
	},
	[KIND_INT4_AVG] = {
		.transitions = {F_INT4_AVG_ACCUM},
		.state_size = sizeof(IntState),
		.sums_integers = true,
		.initial = "{0,0}",
		.advance = add_int4,
		.advance_packed = add_array,
		.combine = combine_sums,
		.output = average_output,
	},
	[KIND_INT8_AVG] = {
		.transitions = {F_INT8_AVG_ACCUM},
		.state_size = sizeof(BigState),
		.sums_integers = true,
		.wide = true,
		.advance = add_int8,
		.advance_packed = add_big_array,
		.combine = combine_big,
		.output = big_output,
	},
	{
		.transitions = {F_INT2_ACCUM},
		.state_size = sizeof(SquaresState),
		.advance = add_squares_int2,
		.combine = combine_squares,
		.output = squares_output,
	},
	{
		.transitions = {F_INT4_ACCUM},
		.state_size = sizeof(SquaresState),
		.advance = add_squares_int4,
		.combine = combine_squares,
		.output = squares_output,
	},
	{{InvalidOid}}
};

/* ---- sums from which others follow ---- */

/* Sums of 128 bits of narrower columns. */
static const AggKind big_kinds[] = {
	{
		.state_size = sizeof(BigState),
		.sums_integers = true,
		.wide = true,
		.advance = add_big_int2,
		.advance_packed = add_big_array,
		.combine = combine_big,
		.output = big_output,
	},
	{
		.state_size = sizeof(BigState),
		.sums_integers = true,
		.wide = true,
		.advance = add_big_int4,
		.advance_packed = add_big_array,
		.combine = combine_big,
		.output = big_output,
	},
};

/* The sum of a column of a type, of 128 bits if that is wanted or needed. */
const AggKind *
integer_sum_kind(Oid type, bool wide)
{
	switch (type)
	{
		case INT2OID:
			return wide ? &big_kinds[0] : &integer_kinds[KIND_INT2_SUM];
		case INT4OID:
			return wide ? &big_kinds[1] : &integer_kinds[KIND_INT4_SUM];
		default:
			Assert(type == INT8OID);
			return &integer_kinds[KIND_INT8_AVG];
	}
}

/*
 * The transition value of an aggregate that follows from another. What it sums
 * up is factor * value + addend for each value of the base; that fits in the
 * sum's bits, so that carries out of them cancel out on the way.
 */
Datum
integer_derived_output(const VectorAgg *agg, const char *entry, bool *isnull)
{
	const char *state = entry + agg->base->offset;
	int64		count = ((const IntState *) state)->count;
	unsigned	__int128 sum = agg->base->kind->wide ? ((const BigState *) state)->sum :
		((const IntState *) state)->sum;

	sum = sum * (unsigned __int128) (int128) agg->linear->factor +
		(unsigned __int128) (int128) agg->linear->addend * (unsigned __int128) (int128) count;
	if (agg->kind->wide)
	{
		BigState	derived = {.count = count,.sum = (int128) sum};

		return agg->kind->output(agg, &derived, isnull);
	}
	else
	{
		IntState	derived = {.count = count,.sum = (int64) (int128) sum};

		return agg->kind->output(agg, &derived, isnull);
	}
}
