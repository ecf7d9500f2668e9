/*-------------------------------------------------------------------------
 *
 * count.c
 *	  count(*) and count() of anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "vector/aggregate/aggregate.h"

/* Count n rows. */
static void
count_rows(VectorAgg *agg, int n, RowGroups *groups)
{
	int			offset = agg->offset;

	if (groups->single != NULL)
		*(int64 *) (groups->single + offset) += n;
	else if (!groups->filled)
	{
		const uint64 *counts = group_counts(groups, n);

		for (int id = 0; id < groups->nids; id++)
		{
			if (counts[id] > 0)
				*(int64 *) (groups->by_id[id] + offset) += (int64) counts[id];
		}
	}
	else
	{
		char	  **entries = groups->entries;

		for (int i = 0; i < n; i++)
			++* (int64 *) (entries[i] + offset);
	}
}

static void
count(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	int			offset = agg->offset;
	Values		argument;
	bool		found[BATCH_ROWS];
	const bool *nulls = found;
	bool		has_nulls;

	/* no value need be looked at, and none loaded */
	if (agg->argument == NULL)
		has_nulls = false;
	else if (vector_expr_is_column(agg->argument) &&
			 batch_find_nulls(batch, vector_expr_column(agg->argument), rows, n, found))
		has_nulls = memchr(found, true, n) != NULL;
	else if (vector_expr_is_column(agg->argument) && batch_no_nulls(batch, vector_expr_column(agg->argument)))
		has_nulls = false;
	else
	{
		vector_expr_eval(agg->argument, batch, rows, n, &argument);
		has_nulls = argument.has_nulls;
		nulls = argument.nulls;
	}
	if (!has_nulls)
	{
		count_rows(agg, n, groups);
		return;
	}
	if (groups->single != NULL)
	{
		int64		found = n;

		for (int i = 0; i < n; i++)
			found -= nulls[i];
		*(int64 *) (groups->single + offset) += found;
	}
	else
	{
		char	  **entries = group_entries(groups, n);

		for (int i = 0; i < n; i++)
			*(int64 *) (entries[i] + offset) += !nulls[i];
	}
}

static void
add_counts(VectorAgg *agg, char **entries, char **others, int n)
{
	FOR_STATES(int64, *s += *o);
}

static Datum
count_output(const VectorAgg *agg, const void *state, bool *isnull)
{
	return Int64GetDatum(*(const int64 *) state);
}

StaticAssertDecl(sizeof(int64) == sizeof(Datum), "a count is a Datum");

const AggKind count_kinds[] = {
	{
		.transitions = {F_INT8INC, F_INT8INC_ANY},
		.state_size = sizeof(int64),
		.initial = "0",
		.counts = true,
		.is_output = true,
		.advance_batch = count,
		.combine = add_counts,
		.output = count_output,
	},
	{{InvalidOid}}
};
