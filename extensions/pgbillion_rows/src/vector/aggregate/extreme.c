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

const AggKind extreme_kinds[] = {
	KIND(larger_int2, F_INT2LARGER),
	KIND(larger_int4, F_INT4LARGER, F_DATE_LARGER),
	KIND(larger_int8, F_INT8LARGER, F_TIMESTAMP_LARGER, F_TIMESTAMPTZ_LARGER),
	KIND(larger_float4, F_FLOAT4LARGER),
	KIND(larger_float8, F_FLOAT8LARGER),
	KIND(smaller_int2, F_INT2SMALLER),
	KIND(smaller_int4, F_INT4SMALLER, F_DATE_SMALLER),
	KIND(smaller_int8, F_INT8SMALLER, F_TIMESTAMP_SMALLER, F_TIMESTAMPTZ_SMALLER),
	KIND(smaller_float4, F_FLOAT4SMALLER),
	KIND(smaller_float8, F_FLOAT8SMALLER),
	KIND(bool_and, F_BOOLAND_STATEFUNC),
	KIND(bool_or, F_BOOLOR_STATEFUNC),
	{{InvalidOid}}
};
