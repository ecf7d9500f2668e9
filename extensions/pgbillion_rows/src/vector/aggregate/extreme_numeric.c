/*-------------------------------------------------------------------------
 *
 * extreme_numeric.c
 *	  min and max of numeric.
 *
 * Values of the display scale of the state are compared as integers, others by
 * PostgreSQL's numeric_cmp(). Of an array of integers, only the least or the
 * greatest of each of a few groups is compared with the state.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/fmgroids.h"
#include "utils/numeric.h"

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

/* Give the state of an entry another value. */
static void
replace(VectorAgg *agg, char *entry, Datum value, int64 decimal, int scale)
{
	NumericState *state = (NumericState *) (entry + agg->offset);
	MemoryContext old;

	if (state->value != NULL)
		pfree(state->value);
	old = MemoryContextSwitchTo(agg_context(agg, entry));
	/* it may be out of line */
	state->value = (char *) PG_DETOAST_DATUM_COPY(value);
	MemoryContextSwitchTo(old);
	state->decimal = decimal;

	state->scale = scale;
}

/* Show the state of an entry an integer in units of 10^-scale. */
static inline void
show(VectorAgg *agg, char *entry, int64 decimal, int scale, bool larger)
{
	NumericState *state = (NumericState *) (entry + agg->offset);
	Datum		value;

	/* most often there is no need to make a numeric */
	if (state->value != NULL && scale == state->scale && stays(state, (Datum) 0, decimal, scale, larger))
		return;
	value = NumericGetDatum(int64_div_fast_to_numeric(decimal, scale));
	if (!stays(state, value, decimal, scale, larger))
		replace(agg, entry, value, decimal, scale);
	pfree(DatumGetPointer(value));
}

/* Show the state of one group the extreme of n integers. */
static pg_attribute_always_inline void
show_extreme(VectorAgg *agg, char *entry, const Decimals *decimals, int n, bool larger)
{
	int64		extreme = 0;
	bool		found = false;

	for (int i = 0; i < n; i++)
	{
		int64		value = decimals->values[i];

		if (decimals->has_nulls && decimals->nulls[i])
			continue;
		if (!found || (larger ? value > extreme : value < extreme))
			extreme = value;
		found = true;
	}
	if (found)
		show(agg, entry, extreme, decimals->scale, larger);
}

static pg_attribute_always_inline void
advance(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups, bool larger)
{
	char	  **entries = groups->single == NULL ? group_entries(groups, n) : NULL;
	Decimals	decimals;
	Values		argument;

	if (vector_expr_decimals(agg->argument, batch, rows, n, &decimals))
	{
		if (entries == NULL)
		{
			show_extreme(agg, groups->single, &decimals, n, larger);
			return;
		}
		for (int i = 0; i < n; i++)
		{
			if (!decimals.has_nulls || !decimals.nulls[i])
				show(agg, entries[i], decimals.values[i], decimals.scale, larger);
		}
		return;
	}
	vector_expr_eval(agg->argument, batch, rows, n, &argument);
	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];
		NumericState *state = (NumericState *) (entry + agg->offset);
		int64 decimal = 0;
		int			scale;

		if (argument.has_nulls && argument.nulls[i])
			continue;
		if (!decimal_decode(argument.values[i], &decimal, &scale))
			scale = -1;
		if (!stays(state, argument.values[i], decimal, scale, larger))
			replace(agg, entry, argument.values[i], decimal, scale);
	}
}

/* Of n elements of an array, the extreme of each group, or of all (groups->nids is 0), above the base. */
static void
find_extremes(const Packed *packed, int n, const RowGroups *groups, bool larger, uint64 *extremes)
{
	const uint8 *ids = groups->ids;

#define FIND(type) \
	do { \
		const type *values = packed->array; \
		if (groups->single != NULL) \
		{ \
			type		extreme = values[0]; \
			if (larger) \
				for (int i = 1; i < n; i++) extreme = Max(extreme, values[i]); \
			else \
				for (int i = 1; i < n; i++) extreme = Min(extreme, values[i]); \
			extremes[0] = extreme; \
		} \
		else if (larger) \
			for (int i = 0; i < n; i++) extremes[ids[i]] = Max(extremes[ids[i]], values[i]); \
		else \
			for (int i = 0; i < n; i++) extremes[ids[i]] = Min(extremes[ids[i]], values[i]); \
	} while (0)

	switch (packed->width)
	{
		case 1:
			FIND(uint8);
			break;
		case 2:
			FIND(uint16);
			break;
		case 4:
			FIND(uint32);
			break;
		default:
			FIND(uint64);
			break;
	}
#undef FIND
}

static bool
advance_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups, bool larger)
{
	uint64		extremes[SMALL_GROUPS];
	const uint64 *counts;

	if (packed->kind != PACKED_DECIMALS)
		return false;
	if (n == 0)
		return true;

	/*
	 * no value is below the base, nor farther above it than an element can
	 * say: elements are in order
	 */
	if (groups->single != NULL)
	{
		find_extremes(packed, n, groups, larger, extremes);
		show(agg, groups->single, (int64) ((uint64) packed->base + extremes[0]), packed->scale, larger);
		return true;
	}
	memset(extremes, larger ? 0 : 0xFF, sizeof(extremes[0]) * groups->nids);
	find_extremes(packed, n, groups, larger, extremes);
	counts = group_counts(groups, n);
	for (int id = 0; id < groups->nids; id++)
	{
		if (counts[id] > 0)
			show(agg, groups->by_id[id], (int64) ((uint64) packed->base + extremes[id]), packed->scale, larger);
	}
	return true;
}

static bool
larger_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups)
{
	return advance_array(agg, packed, n, groups, true);
}

static bool
smaller_array(VectorAgg *agg, const Packed *packed, int n, RowGroups *groups)
{
	return advance_array(agg, packed, n, groups, false);
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
larger(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	advance(agg, batch, rows, n, groups, true);
}

static void
smaller(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	advance(agg, batch, rows, n, groups, false);
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
		.uses_ids = true,
		.advance_batch = larger,
		.advance_packed = larger_array,
		.combine = combine_larger,
		.apart = value_of,
		.output = output,
	},
	{
		.transitions = {F_NUMERIC_SMALLER},
		.state_size = sizeof(NumericState),
		.uses_ids = true,
		.advance_batch = smaller,
		.advance_packed = smaller_array,
		.combine = combine_smaller,
		.apart = value_of,
		.output = output,
	},
	{{InvalidOid}}
};
