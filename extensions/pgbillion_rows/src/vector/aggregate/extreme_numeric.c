/*-------------------------------------------------------------------------
 *
 * extreme_numeric.c
 *	  min and max of numeric.
 *
 * Values of the display scale of the state are compared as integers, others by
 * PostgreSQL's numeric_cmp().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/fmgroids.h"

#include "vector/aggregate/aggregate.h"
#include "vector/expression/decimal.h"

typedef struct NumericState
{
	char	   *value;			/* a copy, or NULL */
	int64 decimal;				/* the same, in units of 10^-scale */
	int			scale;			/* or -1 if it is none */
} NumericState;

/* Does the state stay as it is? Of equal values the later one is kept, as PostgreSQL does. */
static inline bool
stays(const NumericState *state, Datum value, int64 decimal, int scale, bool larger)
{
	int			order;

	if (state->value == NULL)
		return false;
	if (scale >= 0 && scale == state->scale)
		/* equal values of one scale are the same */
		return larger ? state->decimal >=decimal : state->decimal <=decimal;
	order = DatumGetInt32(DirectFunctionCall2(numeric_cmp, PointerGetDatum(state->value), value));
	return larger ? order > 0 : order < 0;
}

static void
advance(VectorAgg *agg, const Values *argument, int n, RowGroups *groups, bool larger)
{
	char	  **entries = groups->single == NULL ? group_entries(groups, n) : NULL;

	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];
		NumericState *state = (NumericState *) (entry + agg->offset);
		int64 decimal = 0;
		int			scale;
		MemoryContext old;

		if (argument->has_nulls && argument->nulls[i])
			continue;
		if (!decimal_decode(argument->values[i], &decimal, &scale))
			scale = -1;
		if (stays(state, argument->values[i], decimal, scale, larger))
			continue;
		if (state->value != NULL)
			pfree(state->value);
		old = MemoryContextSwitchTo(agg_context(agg, entry));
		/* it may be out of line */
		state->value = (char *) PG_DETOAST_DATUM_COPY(argument->values[i]);
		MemoryContextSwitchTo(old);
		state->decimal = decimal;

		state->scale = scale;
	}
}

/* Take the value of another state if it is to be. */
static void
combine(VectorAgg *agg, char **entries, char **others, int n, bool larger)
{
	for (int i = 0; i < n; i++)
	{
		NumericState *state = (NumericState *) (entries[i] + agg->offset);
		const NumericState *other = (const NumericState *) (others[i] + agg->offset);
		MemoryContext old;

		if (other->value == NULL ||
			stays(state, PointerGetDatum(other->value), other->decimal, other->scale, larger))
			continue;
		if (state->value != NULL)
			pfree(state->value);
		*state = *other;
		old = MemoryContextSwitchTo(agg_context(agg, entries[i]));
		state->value = (char *) DatumGetPointer(datumCopy(PointerGetDatum(other->value), false, -1));
		MemoryContextSwitchTo(old);
	}
}

static void
combine_larger(VectorAgg *agg, char **entries, char **others, int n)
{
	combine(agg, entries, others, n, true);
}

static void
combine_smaller(VectorAgg *agg, char **entries, char **others, int n)
{
	combine(agg, entries, others, n, false);
}

static struct varlena **
value_of(void *state)
{
	return (struct varlena **) &((NumericState *) state)->value;
}

static void
larger(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	advance(agg, argument, n, groups, true);
}

static void
smaller(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	advance(agg, argument, n, groups, false);
}

static Datum
output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const NumericState *s = state;

	*isnull = s->value == NULL;
	return PointerGetDatum(s->value);
}

const AggKind extreme_numeric_kinds[] = {
	{
		.transitions = {F_NUMERIC_LARGER},
		.state_size = sizeof(NumericState),
		.advance = larger,
		.combine = combine_larger,
		.apart = value_of,
		.output = output,
	},
	{
		.transitions = {F_NUMERIC_SMALLER},
		.state_size = sizeof(NumericState),
		.advance = smaller,
		.combine = combine_smaller,
		.apart = value_of,
		.output = output,
	},
	{{InvalidOid}}
};
