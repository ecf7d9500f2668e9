/*-------------------------------------------------------------------------
 *
 * window_rows.c
 *	  Values of rows in memory: columns, and expressions over them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "window/window_state.h"

/* Have a row's columns in the slot of expressions. */
static void
load_slot(WindowRows *rows, int64 row)
{
	if (rows->in_slot == row)
		return;
	ExecClearTuple(rows->slot);
	sorted_row_store(rows->format, rows->rows[row], rows->slot);
	ExecStoreVirtualTuple(rows->slot);
	rows->in_slot = row;
}

/* The value of an argument for a row; what is computed is in the context's memory. */
Datum
window_argument(WindowRows *rows, WindowArgument *argument, int64 row, ExprContext *econtext, bool *isnull)
{
	if (argument->column >= 0)
		return row_get(rows->format, rows->rows[row], argument->column, isnull);
	load_slot(rows, row);
	econtext->ecxt_scantuple = rows->slot;
	return ExecEvalExprSwitchContext(argument->expr, econtext, isnull);
}

/* Does FILTER keep a row? */
bool
window_filter(WindowRows *rows, ExprState *filter, int64 row, ExprContext *econtext)
{
	bool		isnull;
	Datum		result;

	load_slot(rows, row);
	econtext->ecxt_scantuple = rows->slot;
	result = ExecEvalExprSwitchContext(filter, econtext, &isnull);
	return !isnull && DatumGetBool(result);
}
