/*-------------------------------------------------------------------------
 *
 * extreme.c
 *	  min and max of values that are passed by value, bool_and and bool_or.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/float.h"
#include "utils/fmgroids.h"

#include "vector/aggregate/aggregate.h"

typedef struct ExtremeState
{
	bool		set;
	Datum		value;
} ExtremeState;

/* Of values that are equal the later one is kept, as PostgreSQL does. */
#define GREATER(a, b) ((a) > (b))
#define LESS(a, b) ((a) < (b))

#define EXTREME(name, better, get) \
static void \
name(VectorAgg *agg, const Values *argument, int n, RowGroups *groups) \
{ \
	FOR_VALUES(ExtremeState, (s->value = s->set && better(get(s->value), get(v)) ? s->value : v, \
							  s->set = true)); \
} \
\
static void \
name##_combine(VectorAgg *agg, char **entries, char **others, int n) \
{ \
	FOR_STATES(ExtremeState, if (o->set && !(s->set && better(get(s->value), get(o->value)))) \
			   *s = *o); \
}

EXTREME(larger_int2, GREATER, DatumGetInt16)
EXTREME(larger_int4, GREATER, DatumGetInt32)
EXTREME(larger_int8, GREATER, DatumGetInt64)
EXTREME(larger_float4, float4_gt, DatumGetFloat4)
EXTREME(larger_float8, float8_gt, DatumGetFloat8)
EXTREME(smaller_int2, LESS, DatumGetInt16)
EXTREME(smaller_int4, LESS, DatumGetInt32)
EXTREME(smaller_int8, LESS, DatumGetInt64)
EXTREME(smaller_float4, float4_lt, DatumGetFloat4)
EXTREME(smaller_float8, float8_lt, DatumGetFloat8)

static void
bool_and(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(ExtremeState, (s->value = BoolGetDatum((!s->set || DatumGetBool(s->value)) && DatumGetBool(v)),
							  s->set = true));
}

static void
bool_or(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	FOR_VALUES(ExtremeState, (s->value = BoolGetDatum((s->set && DatumGetBool(s->value)) || DatumGetBool(v)),
							  s->set = true));
}

static void
bool_and_combine(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(ExtremeState, if (o->set && (!s->set || !DatumGetBool(o->value)))
			   * s = *o);
}

static void
bool_or_combine(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(ExtremeState, if (o->set && (!s->set || DatumGetBool(o->value)))
			   * s = *o);
}

/* ---- arrays ---- */

/* What an array may say of the values of a kind, and how a value is made of the integer that it is. */
#define DATUM_INT2(v) Int16GetDatum((int16) (v))
#define DATUM_INT4(v) Int32GetDatum((int32) (v))
#define DATUM_INT8(v) Int64GetDatum(v)
#define DATUM_BOOL(v) BoolGetDatum((v) != 0)

/* A loop over the array, as one of elements of its width. */
#define FOR_WIDTH(LOOP, better) \
	do { \
		switch (packed->width) \
		{ \
			case 1: \
				LOOP(uint8, better); \
				break; \
			case 2: \
				LOOP(uint16, better); \
				break; \
			case 4: \
				LOOP(uint32, better); \
				break; \
			default: \
				LOOP(uint64, better); \
				break; \
		} \
	} while (0)

#define FIND_EXTREME(type, better) \
	do { \
		const type *values = packed->array; \
		type		best = values[0]; \
		for (int i = 1; i < n; i++) \
			best = better(values[i], best) ? values[i] : best; \
		found = best; \
	} while (0)

/* The better of the values of an array, above its base. */
#define EXTREME_ARRAY(name, better) \
static uint64 \
name(const Packed *packed, int n) \
{ \
	uint64		found; \
\
	FOR_WIDTH(FIND_EXTREME, better); \
	return found; \
}

EXTREME_ARRAY(largest, GREATER)
EXTREME_ARRAY(smallest, LESS)

/*
 * Of integers, of which those that are equal are the same, and of one group: of
 * several, values are compared one by one as fast. Distances above the base are
 * in the order of values. Where no value of the array can be better than the
 * state, as its bounds show, the array is not looked at.
 */
#define EXTREME_PACKED(name, better, bound, best, get, make) \
static bool \
name##_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups) \
{ \
	ExtremeState *s; \
	int64		value; \
\
	if (packed->kind != PACKED_INTEGERS || groups->single == NULL) \
		return false; \
	s = (ExtremeState *) (groups->single + agg->offset); \
	if (s->set && !better(packed->bound, (int64) get(s->value))) \
		return true; \
	value = (int64) ((uint64) packed->base + best(packed, n)); \
	if (!s->set || better(value, (int64) get(s->value))) \
		s->value = make(value); \
	s->set = true; \
	return true; \
}

#define LARGER_PACKED(name, get, make) EXTREME_PACKED(name, GREATER, max, largest, get, make)
#define SMALLER_PACKED(name, get, make) EXTREME_PACKED(name, LESS, min, smallest, get, make)

LARGER_PACKED(larger_int2, DatumGetInt16, DATUM_INT2)
LARGER_PACKED(larger_int4, DatumGetInt32, DATUM_INT4)
LARGER_PACKED(larger_int8, DatumGetInt64, DATUM_INT8)
SMALLER_PACKED(smaller_int2, DatumGetInt16, DATUM_INT2)
SMALLER_PACKED(smaller_int4, DatumGetInt32, DATUM_INT4)
SMALLER_PACKED(smaller_int8, DatumGetInt64, DATUM_INT8)
SMALLER_PACKED(bool_and, DatumGetBool, DATUM_BOOL)
LARGER_PACKED(bool_or, DatumGetBool, DATUM_BOOL)

static Datum
extreme_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const ExtremeState *s = state;

	*isnull = !s->set;
	return s->value;
}

#define KIND(function, ...) \
	{.transitions = {__VA_ARGS__},.state_size = sizeof(ExtremeState),.advance = function, \
	.combine = function##_combine,.output = extreme_output}

#define INTEGER_KIND(function, ...) \
	{.transitions = {__VA_ARGS__},.state_size = sizeof(ExtremeState),.advance = function, \
	.advance_packed = function##_array,.combine = function##_combine,.output = extreme_output}

const AggKind extreme_kinds[] = {
	INTEGER_KIND(larger_int2, F_INT2LARGER),
	INTEGER_KIND(larger_int4, F_INT4LARGER, F_DATE_LARGER),
	INTEGER_KIND(larger_int8, F_INT8LARGER, F_TIMESTAMP_LARGER, F_TIMESTAMPTZ_LARGER),
	KIND(larger_float4, F_FLOAT4LARGER),
	KIND(larger_float8, F_FLOAT8LARGER),
	INTEGER_KIND(smaller_int2, F_INT2SMALLER),
	INTEGER_KIND(smaller_int4, F_INT4SMALLER, F_DATE_SMALLER),
	INTEGER_KIND(smaller_int8, F_INT8SMALLER, F_TIMESTAMP_SMALLER, F_TIMESTAMPTZ_SMALLER),
	KIND(smaller_float4, F_FLOAT4SMALLER),
	KIND(smaller_float8, F_FLOAT8SMALLER),
	INTEGER_KIND(bool_and, F_BOOLAND_STATEFUNC),
	INTEGER_KIND(bool_or, F_BOOLOR_STATEFUNC),
	{{InvalidOid}}
};
