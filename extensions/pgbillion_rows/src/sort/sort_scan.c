/*-------------------------------------------------------------------------
 *
 * sort_scan.c
 *	  The executor node VectorSort: the rows of a plan in order.
 *
 * It stands above PostgreSQL's Sort, which says the order and is never executed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"

#include "sort/sort.h"

typedef struct SortScanState
{
	CustomScanState css;
	PlanState  *core;			/* PostgreSQL's Sort */
	SortedRows	rows;
} SortScanState;

static void
begin_sort(CustomScanState *css, EState *estate, int eflags)
{
	SortScanState *state = (SortScanState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	state->core = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	sorted_rows_init(&state->rows, outerPlanState(state->core), castNode(Sort, state->core->plan), eflags);
	state->rows.once = !state->rows.keep;
	css->custom_ps = list_make1(state->rows.input);
	sorted_rows_describe(cscan);
}

static TupleTableSlot *
exec_sort(CustomScanState *css)
{
	SortScanState *state = (SortScanState *) css;
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;
	char	   *row;

	CHECK_FOR_INTERRUPTS();
	if (!state->rows.sorted)
		sorted_rows_read(&state->rows);
	ExecClearTuple(slot);
	row = row_sort_next(state->rows.sort);
	if (row == NULL)
		return NULL;
	sorted_row_store(row_sort_format(state->rows.sort), row, slot);
	ExecStoreVirtualTuple(slot);
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
rescan_sort(CustomScanState *css)
{
	SortScanState *state = (SortScanState *) css;

	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	(void) sorted_rows_rescan(&state->rows, css->ss.ps.chgParam);
}

static void
end_sort(CustomScanState *css)
{
	SortScanState *state = (SortScanState *) css;

	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	sorted_rows_end(&state->rows);
	ExecEndNode(state->core);
}

static void
explain_sort(CustomScanState *css, List *ancestors, struct ExplainState *es)
{
	sorted_rows_explain(&((SortScanState *) css)->rows, &css->ss.ps, ancestors, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "VectorSort",
	.BeginCustomScan = begin_sort,
	.ExecCustomScan = exec_sort,
	.EndCustomScan = end_sort,
	.ReScanCustomScan = rescan_sort,
	.ExplainCustomScan = explain_sort,
};

static Node *
create_state(CustomScan *cscan)
{
	SortScanState *state = palloc0(sizeof(SortScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}

const CustomScanMethods vector_sort_methods = {
	.CustomName = "VectorSort",
	.CreateCustomScanState = create_state,
};
