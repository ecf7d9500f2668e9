/*-------------------------------------------------------------------------
 *
 * numeric.c
 *	  Sums of numerics, in integers where they fit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "vector/aggregate/aggregate.h"
#include "vector/expression/decimal.h"

/* Values of at most this number of bits can be added up for a whole batch in 64 bits. */
#define PARTIAL_BITS 52

StaticAssertDecl(BATCH_ROWS <= 1 << (63 - PARTIAL_BITS), "a batch's sum fits in 64 bits");

/* Add values one by one. */
static void
add_each(VectorAgg *agg, const Decimals *decimals, int n, RowGroups *groups)
{
	char	  **entries = groups->single != NULL ? NULL : group_entries(groups, n);

	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];

		if (!decimals->has_nulls || !decimals->nulls[i])
			decimal_sum_add((DecimalSum *) (entry + agg->offset), decimals->values[i], 1,
							decimals->scale, agg_context(agg, entry));
	}
}

/* Add small values up for the whole batch, and then to the state. */
static void
add_together(VectorAgg *agg, const Decimals *decimals, int n, RowGroups *groups)
{
	const int64 *values = decimals->values;
	int64		total = 0;

	for (int i = 0; i < n; i++)
		total += values[i];
	decimal_sum_add((DecimalSum *) (groups->single + agg->offset), total, n, decimals->scale,
					agg->memory->context);
}

/* The same, for each of a few groups. */
static void
add_by_id(VectorAgg *agg, const Decimals *decimals, int n, RowGroups *groups)
{
	const int64 *values = decimals->values;
	const uint8 *ids = groups->ids;
	const uint64 *counts = group_counts(groups, n);

	/* two totals in turn: neighbors often are of one group */
	int64		totals[SMALL_GROUPS];
	int64		more[SMALL_GROUPS];
	int			i = 0;

	memset(totals, 0, sizeof(totals[0]) * groups->nids);
	memset(more, 0, sizeof(more[0]) * groups->nids);
	for (; i + 1 < n; i += 2)
	{
		totals[ids[i]] += values[i];
		more[ids[i + 1]] += values[i + 1];
	}
	if (i < n)
		totals[ids[i]] += values[i];
	for (int id = 0; id < groups->nids; id++)
	{
		if (counts[id] > 0)
			decimal_sum_add((DecimalSum *) (groups->by_id[id] + agg->offset), totals[id] + more[id],
							(int64) counts[id], decimals->scale, agg->memory->context);
	}
}

static void
add_numerics(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	Decimals	decimals;
	Values		result;
	char	  **entries;

	/* one scale for all of the batch: arithmetic in integers */
	if (vector_expr_decimals(agg->argument, batch, rows, n, &decimals))
	{
		bool		small = decimals.bits >> PARTIAL_BITS == 0 && !decimals.has_nulls;

		if (small && groups->single != NULL)
			add_together(agg, &decimals, n, groups);
		else if (small && groups->nids > 0)
			add_by_id(agg, &decimals, n, groups);
		else
			add_each(agg, &decimals, n, groups);
		return;
	}

	vector_expr_eval(agg->argument, batch, rows, n, &result);
	entries = groups->single != NULL ? NULL : group_entries(groups, n);
	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];

		if (!result.nulls[i])
			decimal_sum_add_numeric((DecimalSum *) (entry + agg->offset), result.values[i],
									agg_context(agg, entry));
	}
}

static void
combine_sums(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(DecimalSum, decimal_sum_combine(s, o, agg_context(agg, entries[i])));
}

static struct varlena **
remainder_of(void *state)
{
	return (struct varlena **) &((DecimalSum *) state)->remainder;
}

static Datum
sum_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	return decimal_serialize_sum(state);
}

const AggKind numeric_kinds[] = {
	{
		.transitions = {F_NUMERIC_AVG_ACCUM},
		.state_size = sizeof(DecimalSum),
		.uses_ids = true,
		.advance_batch = add_numerics,
		.combine = combine_sums,
		.apart = remainder_of,
		.output = sum_output,
	},
	{{InvalidOid}}
};
