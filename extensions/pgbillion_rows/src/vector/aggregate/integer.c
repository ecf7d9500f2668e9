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

typedef struct SquaresState
{
	int64		count;
	int128		sum;
	int128		squares;
} SquaresState;

static void
add_int2(VectorAgg *agg, const Values *argument, int n, const RowGroups *groups)
{
	FOR_VALUES(IntState, (s->count++, s->sum += DatumGetInt16(v)));
}

static void
add_int4(VectorAgg *agg, const Values *argument, int n, const RowGroups *groups)
{
	FOR_VALUES(IntState, (s->count++, s->sum += DatumGetInt32(v)));
}

static void
add_int8(VectorAgg *agg, const Values *argument, int n, const RowGroups *groups)
{
	FOR_VALUES(BigState, (s->count++, s->sum += DatumGetInt64(v)));
}

static void
add_squares_int2(VectorAgg *agg, const Values *argument, int n, const RowGroups *groups)
{
	FOR_VALUES(SquaresState, (s->count++, s->sum += DatumGetInt16(v),
							  s->squares += (int64) DatumGetInt16(v) * DatumGetInt16(v)));
}

static void
add_squares_int4(VectorAgg *agg, const Values *argument, int n, const RowGroups *groups)
{
	FOR_VALUES(SquaresState, (s->count++, s->sum += DatumGetInt32(v),
							  s->squares += (int64) DatumGetInt32(v) * DatumGetInt32(v)));
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

const AggKind integer_kinds[] = {
	{
		.transitions = {F_INT2_SUM},
		.state_size = sizeof(IntState),
		.advance = add_int2,
		.output = sum_output,
	},
	{
		.transitions = {F_INT4_SUM},
		.state_size = sizeof(IntState),
		.advance = add_int4,
		.output = sum_output,
	},
	{
		.transitions = {F_INT2_AVG_ACCUM},
		.state_size = sizeof(IntState),
		.initial = "{0,0}",
		.advance = add_int2,
		.output = average_output,
	},
	{
		.transitions = {F_INT4_AVG_ACCUM},
		.state_size = sizeof(IntState),
		.initial = "{0,0}",
		.advance = add_int4,
		.output = average_output,
	},
	{
		.transitions = {F_INT8_AVG_ACCUM},
		.state_size = sizeof(BigState),
		.advance = add_int8,
		.output = big_output,
	},
	{
		.transitions = {F_INT2_ACCUM},
		.state_size = sizeof(SquaresState),
		.advance = add_squares_int2,
		.output = squares_output,
	},
	{
		.transitions = {F_INT4_ACCUM},
		.state_size = sizeof(SquaresState),
		.advance = add_squares_int4,
		.output = squares_output,
	},
	{{InvalidOid}}
};
