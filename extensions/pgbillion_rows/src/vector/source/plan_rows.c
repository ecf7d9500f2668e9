/*-------------------------------------------------------------------------
 *
 * plan_rows.c
 *	  The source of batches from the rows of a plan of PostgreSQL's.
 *
 * Attributes of the batch are the columns that the plan returns. Values by
 * reference are copied to the batch's memory, since a node's row lasts until
 * the next one only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/datum.h"

#include "vector/source/source.h"

StaticAssertDecl(PLAN_BATCH_ROWS <= BATCH_ROWS, "rows of a batch");

typedef struct PlanRows
{
	Source		source;
	PlanState  *plan;
	bool		ended;			/* it must not be asked for more */
} PlanRows;

/* Bytes of values by reference after which a batch ends. */
#define PLAN_BATCH_BYTES (64 * 1024)

/* Put a row into the batch; return the bytes that were copied. */
static Size
put_row(Batch *batch, int row, TupleTableSlot *slot)
{
	Size		bytes = 0;

	for (int c = 0; c < batch->ncolumns; c++)
	{
		Column	   *column = &batch->columns[c];
		bool		isnull;
		Datum		value = slot_getattr(slot, column->attno, &isnull);

		if (isnull)
			value = (Datum) 0;
		else if (!column->byval)
		{
			value = datumCopy(value, false, column->len);
			bytes += datumGetSize(value, false, column->len);
		}
		column->values[row] = value;
		column->nulls[row] = isnull;
		column->has_nulls |= isnull;
		column->dirty |= isnull;
	}
	return bytes;
}

static bool
next_rows(Source *source, Batch *batch)
{
	PlanRows   *rows = (PlanRows *) source;
	int			n = 0;
	Size		bytes = 0;

	for (int c = 0; c < batch->ncolumns; c++)
	{
		batch->columns[c].loaded = true;
		batch->columns[c].has_nulls = false;
	}
	while (n < PLAN_BATCH_ROWS && bytes < PLAN_BATCH_BYTES && !rows->ended)
	{
		/* nodes keep what they allocate on the way */
		MemoryContext old = MemoryContextSwitchTo(rows->plan->state->es_query_cxt);
		TupleTableSlot *slot = ExecProcNode(rows->plan);

		MemoryContextSwitchTo(old);
		if (TupIsNull(slot))
			rows->ended = true;
		else
			bytes += put_row(batch, n++, slot);
	}
	batch->n = n;

	return n > 0;
}

static void
end_rows(Source *source)
{
	((PlanRows *) source)->ended = false;
}

static const SourceMethods plan_methods = {
	.next = next_rows,
	.end = end_rows,
};

/*
 * The source of a plan's rows, in the current context. To read them anew the
 * caller has the plan rescanned after end().
 */
Source *
plan_rows_create(PlanState *plan)
{
	PlanRows   *rows = palloc0(sizeof(PlanRows));

	rows->source.methods = &plan_methods;
	rows->plan = plan;

	return &rows->source;
}
