/*-------------------------------------------------------------------------
 *
 * by_row.c
 *	  PostgreSQL's expression code over the rows of a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/bitmapset.h"
#include "optimizer/optimizer.h"

#include "vector/expression/expression.h"

/* Prepare an expression for evaluation row by row, in the current context. */
void
by_row_prepare(ByRow *by_row, Expr *expr, Batch *batch)
{
	Bitmapset  *attnos = NULL;
	int			i = -1;
	List	   *vars = pull_var_clause((Node *) expr, 0);
	ListCell   *lc;

	by_row->nneeded = 0;
	by_row->needed = palloc(sizeof(int) * Max(list_length(vars), 1));
	foreach(lc, vars)
		attnos = bms_add_member(attnos, lfirst_node(Var, lc)->varattno);
	while ((i = bms_next_member(attnos, i)) >= 0)
	{
		int			column = batch_index(batch, i);

		Assert(column >= 0);
		by_row->needed[by_row->nneeded++] = column;
	}
	bms_free(attnos);
	by_row->state = ExecInitExpr(expr, batch->parent);
}

/* The value for a row of the batch, in the batch's memory. */
Datum
by_row_eval(const ByRow *by_row, Batch *batch, int row, bool *isnull)
{
	TupleTableSlot *slot = batch->slot;

	for (int k = 0; k < by_row->nneeded; k++)
	{
		Column	   *column = batch_column(batch, by_row->needed[k]);

		slot->tts_values[column->attno - 1] = column->values[row];
		slot->tts_isnull[column->attno - 1] = column->nulls[row];
	}
	batch->econtext->ecxt_scantuple = slot;
	return ExecEvalExprSwitchContext(by_row->state, batch->econtext, isnull);
}
