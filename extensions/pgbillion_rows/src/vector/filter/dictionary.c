/*-------------------------------------------------------------------------
 *
 * dictionary.c
 *	  Values of a dictionary as a batch, to evaluate a condition once for each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/filter/predicate.h"

/* A dictionary has been loaded. */
static const SourceMethods values_methods = {NULL};
static Source values_source = {.methods = &values_methods};

/*
 * Make a batch whose rows have, in one column, at most BATCH_ROWS values of a
 * dictionary, from one on, and which is otherwise as another. Of that, nothing
 * may be looked at until dictionary_batch_end(). Memory is the current context's.
 */
void
dictionary_batch_begin(Batch *values, Batch *batch, int index, const Codes *codes, int from)
{
	int			n = Min(codes->n - from, BATCH_ROWS);
	int			null = codes->null >= from && codes->null < from + n ? codes->null - from : -1;
	Column	   *column;

	*values = *batch;
	values->columns = palloc(sizeof(Column) * batch->ncolumns);
	memcpy(values->columns, batch->columns, sizeof(Column) * batch->ncolumns);
	column = &values->columns[index];
	column->values = palloc(sizeof(Datum) * n);
	column->nulls = palloc0(sizeof(bool) * n);
	/* the last one is no value if it is NULL */
	Assert(null == -1 || null == n - 1);
	for (int i = 0; i < (null == -1 ? n : null); i++)
		column->values[i] = codes->values[from + i];
	column->has_nulls = column->dirty = null >= 0;
	if (null >= 0)
	{
		column->values[null] = (Datum) 0;
		column->nulls[null] = true;
	}
	column->loaded = true;
	values->n = n;
	values->source = &values_source;
	/* what has been computed is of other rows, before and afterwards */
	values->serial = batch->serial + 1;
}

void
dictionary_batch_end(Batch *values, Batch *batch, int index)
{
	batch->serial += 2;
	pfree(values->columns[index].values);
	pfree(values->columns[index].nulls);
	pfree(values->columns);
}
