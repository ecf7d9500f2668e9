/*-------------------------------------------------------------------------
 *
 * expression_by_row.c
 *	  PostgreSQL's expression code over the rows of a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "vector/expression/expression.h"

/*
 * Memory of a batch beyond which what the evaluation of a row leaves behind is
 * freed at once. Otherwise it goes with the batch, which is faster.
 */
#define MOST_BYTES (1024 * 1024)

/* Prepare an expression for evaluation row by row, in the current context. */
void
expr_by_row_prepare(ByRow *by_row, Expr *expr, Batch *batch)
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
	if (batch->parent != NULL)
		by_row->state = ExecInitExpr(expr, batch->parent);
	get_typlenbyval(exprType((Node *) expr), &by_row->len, &by_row->byval);
	by_row->scratch = NULL;
}

/* The value for the row in the batch's slot, in the batch's memory, of which all else takes nothing. */
static Datum
eval_and_free(ByRow *by_row, Batch *batch, bool *isnull)
{
	Datum		value;

	if (by_row->scratch == NULL)
		by_row->scratch = CreateExprContext(batch->parent->state);
	by_row->scratch->ecxt_scantuple = batch->slot;
	value = ExecEvalExprSwitchContext(by_row->state, by_row->scratch, isnull);
	if (!*isnull && !by_row->byval)
	{
		MemoryContext old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);

		value = datumCopy(value, false, by_row->len);
		MemoryContextSwitchTo(old);
	}
	ResetExprContext(by_row->scratch);

	return value;
}

/* The value for a row of the batch, in the batch's memory. */
Datum
expr_by_row_eval(ByRow *by_row, Batch *batch, int row, bool *isnull)
{
	TupleTableSlot *slot = batch->slot;

	for (int k = 0; k < by_row->nneeded; k++)
	{
		Column	   *column = batch_column(batch, by_row->needed[k]);

		slot->tts_values[column->attno - 1] = column->values[row];
		slot->tts_isnull[column->attno - 1] = column->nulls[row];
	}
	if (MemoryContextMemAllocated(batch->econtext->ecxt_per_tuple_memory, false) > MOST_BYTES)
		return eval_and_free(by_row, batch, isnull);
	batch->econtext->ecxt_scantuple = slot;
	return ExecEvalExprSwitchContext(by_row->state, batch->econtext, isnull);
}
