/*-------------------------------------------------------------------------
 *
 * row_sink.c
 *	  The sink that aggregates nothing: it returns the rows of each batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/group/sink.h"

typedef struct Rows
{
	Sink		sink;
	Batch	   *batch;
	int			noutputs;
	int		   *columns;		/* of the batch, per output */
	int			row;			/* to be returned next */
	int			n;				/* rows that there are */
} Rows;

static bool
consume(Sink *sink, Batch *batch)
{
	Rows	   *rows = (Rows *) sink;

	Assert(batch == rows->batch);
	for (int i = 0; i < rows->noutputs; i++)
		(void) batch_column(batch, rows->columns[i]);
	rows->row = 0;
	rows->n = batch->n;

	return true;
}

static void
finish(Sink *sink)
{
}

static bool
next(Sink *sink, Datum *values, bool *isnull)
{
	Rows	   *rows = (Rows *) sink;
	int			row = rows->row;

	if (row >= rows->n)
		return false;
	for (int i = 0; i < rows->noutputs; i++)
	{
		const Column *column = &rows->batch->columns[rows->columns[i]];

		values[i] = column->values[row];
		isnull[i] = column->has_nulls && column->nulls[row];
	}
	rows->row++;

	return true;
}

static void
reset(Sink *sink)
{
	Rows	   *rows = (Rows *) sink;

	rows->row = rows->n = 0;
}

static void
end(Sink *sink)
{
}

static const SinkMethods rows_methods = {
	.consume = consume,
	.finish = finish,
	.next = next,
	.reset = reset,
	.end = end,
};

/* All outputs are Vars. Memory belongs to the current context. */
Sink *
row_sink_create(List *outputs, Batch *batch)
{
	Rows	   *rows = palloc0(sizeof(Rows));
	ListCell   *lc;

	rows->sink.methods = &rows_methods;
	rows->batch = batch;
	rows->noutputs = list_length(outputs);
	rows->columns = palloc(sizeof(int) * Max(rows->noutputs, 1));
	foreach(lc, outputs)
	{
		rows->columns[foreach_current_index(lc)] = batch_index(batch, lfirst_node(Var, lc)->varattno);
		Assert(rows->columns[foreach_current_index(lc)] >= 0);
	}
	return &rows->sink;
}
