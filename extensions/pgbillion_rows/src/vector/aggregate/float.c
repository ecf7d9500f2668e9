/*-------------------------------------------------------------------------
 *
 * float.c
 *	  Sums of floats, and of their squares.
 *
 * States are advanced in the order of rows with PostgreSQL's arithmetic, so
 * that they are the same to the last bit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/float.h"
#include "utils/fmgroids.h"

#include "vector/aggregate/aggregate.h"

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

/* float8_accum() */
static inline void
add_squares(SquaresState *s, float8 value)
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

static void
sum_float4(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(FloatState, add_float4(s, DatumGetFloat4(v)));
}

static void
sum_float8(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(FloatState, add_float8(s, DatumGetFloat8(v)));
}

static void
squares_float4(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(SquaresState, add_squares(s, DatumGetFloat4(v)));
}

static void
squares_float8(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(SquaresState, add_squares(s, DatumGetFloat8(v)));
}

/* Neither 2^63 values of 2^128 nor their squares overflow a double. */
static void
average_float4(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(FloatState, (s->count++, s->sum += DatumGetFloat4(v)));
}

/* ---- arrays ---- */

/*
 * The entry of all n rows, or NULL if they are of several groups.  One sum is
 * added to faster in a register than in memory: rows of a table often come in
 * the order of groups.
 */
static char *
only_entry(RowGroups *groups, int n)
{
	const uint64 *counts;

	/* the first row is looked at */
	Assert(n > 0);
	if (groups->single != NULL)
		return groups->single;
	counts = group_counts(groups, n);
	return counts[groups->ids[0]] == (uint64) n ? groups->by_id[groups->ids[0]] : NULL;
}

/*
 * Add an array to the groups, in the order of rows, with sums of a type. The
 * first begins as FIRST: -0 leaves any value added to it as it is. Infinities and
 * NaNs stay what they are: a sum that is finite at the end has never
 * overflowed. Where one is not, nothing is changed, and an error may have to
 * be raised.
 */
#define ADD_ARRAY(type, FIRST) \
	do { \
		const float4 *values = packed->array; \
		type		sums[SMALL_GROUPS]; \
		char	   *entry; \
		if (packed->kind != PACKED_FLOAT4) \
			return false; \
		entry = only_entry(groups, n); \
		if (entry != NULL) \
		{ \
			FloatState *s = (FloatState *) (entry + agg->offset); \
			type		sum = s->count == 0 ? (type) FIRST : (type) s->sum; \
			for (int i = 0; i < n; i++) \
				sum += values[i]; \
			if (!isfinite(sum)) \
				return false; \
			s->sum = sum; \
			s->count += n; \
		} \
		else \
		{ \
			const uint64 *counts = group_counts(groups, n); \
			const uint8 *ids = groups->ids; \
			bool		finite = true; \
			for (int id = 0; id < groups->nids; id++) \
			{ \
				FloatState *s; \
				if (counts[id] == 0) \
					continue; \
				s = (FloatState *) (groups->by_id[id] + agg->offset); \
				sums[id] = s->count == 0 ? (type) FIRST : (type) s->sum; \
			} \
			for (int i = 0; i < n; i++) \
				sums[ids[i]] += values[i]; \
			for (int id = 0; id < groups->nids; id++) \
				finite &= counts[id] == 0 || isfinite(sums[id]); \
			if (!finite) \
				return false; \
			for (int id = 0; id < groups->nids; id++) \
			{ \
				FloatState *s; \
				if (counts[id] == 0) \
					continue; \
				s = (FloatState *) (groups->by_id[id] + agg->offset); \
				s->sum = sums[id]; \
				s->count += (int64) counts[id]; \
			} \
		} \
		return true; \
	} while (0)

static bool
sum_float4_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups)
{
	ADD_ARRAY(float4, -0.0);
}

static bool
average_float4_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups)
{
	ADD_ARRAY(float8, 0.0);
}

/* What the sums of a group begin with: as ADD_ARRAY's. */
static inline KernelFloats
floats_of(const FloatState *sum, const FloatState *average)
{
	KernelFloats floats = {
		.sum = sum->count == 0 ? (float4) -0.0 : (float4) sum->sum,
		.wide_sum = average->count == 0 ? 0.0 : average->sum,
	};

	return floats;
}

/* What they are after `count` more rows. */
static inline void
set_floats(FloatState *sum, FloatState *average, const KernelFloats *floats, int64 count)
{
	sum->sum = floats->sum;
	sum->count += count;
	average->sum = floats->wide_sum;
	average->count += count;
}

static bool
single_floats(FloatState *sum, FloatState *average, const float4 *values, int n)
{
	KernelFloats floats = floats_of(sum, average);

	for (int i = 0; i < n; i++)
	{
		floats.sum += values[i];
		floats.wide_sum += values[i];
	}
	if (!isfinite(floats.sum) || !isfinite(floats.wide_sum))
		return false;
	set_floats(sum, average, &floats, n);

	return true;
}

/* sum() and avg() of the same array, in one pass: the same additions as one by one. */
static bool
sum_and_average_float4_array(VectorAgg *agg, VectorAgg *mate, const Packed *packed, int n, RowGroups *groups)
{
	KernelFloats floats[SMALL_GROUPS];
	const uint64 *counts;
	bool		finite = true;
	char	   *entry;

	if (packed->kind != PACKED_FLOAT4)
		return false;
	entry = only_entry(groups, n);
	if (entry != NULL)
		return single_floats((FloatState *) (entry + agg->offset), (FloatState *) (entry + mate->offset),
							 packed->array, n);
	counts = group_counts(groups, n);
#define STATE_OF(id, which) ((FloatState *) (groups->by_id[id] + (which)->offset))
	for (int id = 0; id < groups->nids; id++)
	{
		if (counts[id] > 0)
			floats[id] = floats_of(STATE_OF(id, agg), STATE_OF(id, mate));
	}
	column_kernels()->sum_float4(groups->ids, packed->array, n, floats);
	for (int id = 0; id < groups->nids; id++)
		finite &= counts[id] == 0 || (isfinite(floats[id].sum) && isfinite(floats[id].wide_sum));
	if (!finite)
		return false;
	for (int id = 0; id < groups->nids; id++)
	{
		if (counts[id] > 0)
			set_floats(STATE_OF(id, agg), STATE_OF(id, mate), &floats[id], (int64) counts[id]);
	}
#undef STATE_OF

	return true;
}

/* ---- states of other processes ---- */

/* float4pl() and float8pl() of states, strict */
static void
combine_float4(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(FloatState, if (o->count > 0)
			   (s->sum = s->count == 0 ? o->sum : float4_pl((float4) s->sum, (float4) o->sum), s->count += o->count));
}

static void
combine_float8(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(FloatState, if (o->count > 0)
			   (s->sum = s->count == 0 ? o->sum : float8_pl(s->sum, o->sum), s->count += o->count));
}

/* float8_combine() */
static inline void
add_squares_state(SquaresState *s, const SquaresState *o)
{
	float8		count = s->count + o->count;
	float8		tmp;
	float8		squares;

	if (o->count == 0.0)
		return;
	if (s->count == 0.0)
	{
		*s = *o;
		return;
	}
	tmp = s->sum / s->count - o->sum / o->count;
	squares = s->squares + o->squares + s->count * o->count * tmp * tmp / count;
	s->sum = float8_pl(s->sum, o->sum);
	if (unlikely(isinf(squares)) && !isinf(s->squares) && !isinf(o->squares))
		float_overflow_error();
	s->squares = squares;
	s->count = count;
}

static void
combine_squares(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(SquaresState, add_squares_state(s, o));
}

static Datum
sum_float4_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const FloatState *s = state;

	*isnull = s->count == 0;
	return Float4GetDatum((float4) s->sum);
}

static Datum
sum_float8_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const FloatState *s = state;

	*isnull = s->count == 0;
	return Float8GetDatum(s->sum);
}

static Datum
float8_array(float8 count, float8 sum, float8 squares)
{
	Datum		elements[3] = {Float8GetDatum(count), Float8GetDatum(sum), Float8GetDatum(squares)};

	return PointerGetDatum(construct_array(elements, 3, FLOAT8OID, sizeof(float8),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static Datum
squares_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const SquaresState *s = state;

	return float8_array(s->count, s->sum, s->squares);
}

/*
 * As PostgreSQL does: NaN squares with infinite sums, so that combining them
 * is no overflow.
 */
static Datum
average_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const FloatState *s = state;

	return float8_array((float8) s->count, s->sum, isfinite(s->sum) ? 0.0 : get_float8_nan());
}

/* float4_accum() without the squares, which avg(real) does not look at. */
static const AggKind average_of_float4 = {
	.state_size = sizeof(FloatState),
	.adds_floats = true,
	.advance = average_float4,
	.advance_packed = average_float4_array,
	.combine = combine_float8,
	.output = average_output,
};

const AggKind float_kinds[] = {
	{
		.transitions = {F_FLOAT4PL},
		.state_size = sizeof(FloatState),
		.adds_floats = true,
		.advance = sum_float4,
		.advance_packed = sum_float4_array,
		.mate = &average_of_float4,
		.advance_packed_both = sum_and_average_float4_array,
		.combine = combine_float4,
		.output = sum_float4_output,
	},
	{
		.transitions = {F_FLOAT8PL},
		.state_size = sizeof(FloatState),
		.adds_floats = true,
		.advance = sum_float8,
		.combine = combine_float8,
		.output = sum_float8_output,
	},
	{
		.transitions = {F_FLOAT4_ACCUM},
		.state_size = sizeof(SquaresState),
		.initial = "{0,0,0}",
		.for_average = &average_of_float4,
		.adds_floats = true,
		.advance = squares_float4,
		.combine = combine_squares,
		.output = squares_output,
	},
	{
		.transitions = {F_FLOAT8_ACCUM},
		.state_size = sizeof(SquaresState),
		.initial = "{0,0,0}",
		.adds_floats = true,
		.advance = squares_float8,
		.combine = combine_squares,
		.output = squares_output,
	},
	{{InvalidOid}}
};
