/*-------------------------------------------------------------------------
 *
 * window_scan.c
 *	  The executor node VectorWindow: rows in order, with the results of window
 *	  functions.
 *
 * It stands above PostgreSQL's WindowAgg nodes and the Sort below them, which
 * say what is computed, and are not executed. If all rows fit in memory, they
 * are sorted there and looked at in place. If not, one partition after the other
 * is read from the sorted files. A partition that does not fit is handed over,
 * with all that come behind it, to PostgreSQL's own nodes: these get the rows in
 * order from here, and keep them on disk.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "executor/nodeWindowAgg.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"

#include "compat.h"
#include "window/window_state.h"

typedef struct WindowScanState WindowScanState;

/* What is below PostgreSQL's nodes once they have taken over. */
typedef struct Feeder
{
	PlanState	ps;
	WindowScanState *owner;
	TupleTableSlot *slot;
	int64		next;			/* row of those in memory */
} Feeder;

struct WindowScanState
{
	CustomScanState css;
	WindowAggState *core;		/* PostgreSQL's node of the last window, */
	WindowAggState *lowest;		/* and of the first */
	PlanState  *below;			/* what it reads from in the plan */
	SortedRows	input;
	WindowRows	rows;
	int			ninput;			/* columns of it */
	int			nwindows;
	Window	   *windows;		/* the lowest first */
	bool		begun;			/* have the frames' offsets been computed? */
	bool		done;
	int64		next;			/* row to be returned */

	/* rows of a partition from files */
	MemoryContext partition;
	char	  **addresses;
	int64		room;			/* of that array */
	char	   *block;			/* for rows, and what is left of it */
	Size		left;
	Size		bytes;
	char	   *ahead;			/* the next partition's first row, or NULL */
	bool		handed_over;
	int64		handed_rows;	/* for EXPLAIN */
	Feeder		feeder;
};

#define BLOCK_BYTES ((Size) 64 * 1024)

/* ---- begin ---- */

static void
init_argument(WindowScanState *state, WindowArgument *argument, Expr *expr)
{
	argument->column = -1;
	if (IsA(expr, Var) && ((Var *) expr)->varno == INDEX_VAR && ((Var *) expr)->varattno > 0 &&
		((Var *) expr)->varattno <= state->ninput)
		argument->column = ((Var *) expr)->varattno - 1;
	else
		argument->expr = ExecInitExpr(expr, &state->css.ss.ps);
}

static void
init_function (WindowScanState *state, Window *window, WindowFunction *function, WindowFunc *expr, List *args, Expr *filter)
{
	function->function = expr->winfnoid;
	function->nargs = list_length(args);
	function->args = palloc0(sizeof(WindowArgument) * Max(function->nargs, 1));
	for (int i = 0; i < function->nargs; i++)
		init_argument(state, &function->args[i], list_nth(args, i));
	if (filter != NULL)
		function->filter = ExecInitExpr(filter, &state->css.ss.ps);
	if (expr->winagg)
		window_init_aggregate(window, function, expr, CurrentMemoryContext);
	else
		window_init_row_function(function);
}

static void
init_window(WindowScanState *state, Window *window, WindowAggState *core, List *functions, List *exprs)
{
	TupleDesc	tupdesc = ExecGetResultType(state->input.input);
	WindowAgg  *plan = (WindowAgg *) core->ss.ps.plan;

	window->rows = &state->rows;
	window->plan = plan;
	window->core = core;
	window->options = plan->frameOptions;
	window->npartition = plan->partNumCols;
	window->partition = window_equal_columns(tupdesc, plan->partNumCols, plan->partColIdx, plan->partOperators,
											 plan->partCollations);
	window->norder = plan->ordNumCols;
	window->order = window_equal_columns(tupdesc, plan->ordNumCols, plan->ordColIdx, plan->ordOperators,
										 plan->ordCollations);
	window->moves_with_errors = (plan->frameOptions & FRAMEOPTION_RANGE) != 0 &&
		(plan->frameOptions & (FRAMEOPTION_START_OFFSET | FRAMEOPTION_END_OFFSET)) != 0;
	if (OidIsValid(plan->startInRangeFunc))
		fmgr_info(plan->startInRangeFunc, &window->start_in_range);
	if (OidIsValid(plan->endInRangeFunc))
		fmgr_info(plan->endInRangeFunc, &window->end_in_range);
	if (list_nth(exprs, WINDOW_RUN_CONDITION) != NIL)
		window->run_condition = ExecInitQual(list_nth(exprs, WINDOW_RUN_CONDITION), &state->css.ss.ps);
	window->nfunctions = list_length(functions);
	window->functions = palloc0(sizeof(WindowFunction) * Max(window->nfunctions, 1));
	for (int i = 0; i < window->nfunctions; i++)
		init_function (state, window, &window->functions[i], list_nth_node(WindowFunc, functions, i),
					   list_nth(list_nth(exprs, WINDOW_ARGUMENTS), i),
					   list_nth(list_nth(exprs, WINDOW_FILTERS), i));
}

static TupleTableSlot *feed(PlanState *ps);

static void
begin_window(CustomScanState *css, EState *estate, int eflags)
{
	WindowScanState *state = (WindowScanState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *functions = list_nth(cscan->custom_private, WINDOW_FUNCTIONS);
	PlanState  *node;

	state->core = castNode(WindowAggState, ExecInitNode(linitial(cscan->custom_plans), estate, eflags));
	state->ninput = intVal(list_nth(cscan->custom_private, WINDOW_INPUT_COLUMNS));
	state->nwindows = list_length(functions);
	state->lowest = state->core;
	for (int i = 1; i < state->nwindows; i++)
		state->lowest = castNode(WindowAggState, outerPlanState(state->lowest));
	state->below = outerPlanState(state->lowest);
	if (intVal(list_nth(cscan->custom_private, WINDOW_IS_SORTED)))
		sorted_rows_init(&state->input, outerPlanState(state->below), castNode(Sort, state->below->plan), eflags);
	else
		sorted_rows_init(&state->input, state->below, NULL, eflags);
	css->custom_ps = list_make1(state->input.input);

	state->rows.slot = ExecInitExtraTupleSlot(estate, css->ss.ss_ScanTupleSlot->tts_tupleDescriptor, &TTSOpsVirtual);
	state->rows.in_slot = -1;
	memset(state->rows.slot->tts_isnull, true, sizeof(bool) * state->rows.slot->tts_tupleDescriptor->natts);
	state->rows.argument = CreateExprContext(estate);
	state->rows.output = css->ss.ps.ps_ExprContext;
	state->partition = AllocSetContextCreate(estate->es_query_cxt, "pgbillion window partition", ALLOCSET_DEFAULT_SIZES);
	state->windows = palloc0(sizeof(Window) * state->nwindows);
	node = &state->core->ss.ps;
	for (int i = state->nwindows - 1; i >= 0; i--)
	{
		init_window(state, &state->windows[i], castNode(WindowAggState, node), list_nth(functions, i),
					list_nth(cscan->custom_exprs, i));
		node = outerPlanState(node);
	}
	state->feeder.ps.type = T_ResultState;
	state->feeder.ps.state = estate;
	state->feeder.ps.ExecProcNode = feed;
	state->feeder.owner = state;
	state->feeder.slot = ExecInitExtraTupleSlot(estate, ExecGetResultType(state->input.input), &TTSOpsVirtual);
	sorted_rows_describe(cscan);
}

/* ---- frames' offsets ---- */

static Datum
frame_offset(WindowScanState *state, Window *window, Node *offset, bool start)
{
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	ExprState  *expr = start ? window->core->startOffset : window->core->endOffset;
	MemoryContext old;
	int16		len;
	bool		byval;
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(expr, econtext, &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 start ? errmsg("frame starting offset must not be null") :
				 errmsg("frame ending offset must not be null")));
	if ((window->options & (FRAMEOPTION_ROWS | FRAMEOPTION_GROUPS)) != 0 && DatumGetInt64(value) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PRECEDING_OR_FOLLOWING_SIZE),
				 start ? errmsg("frame starting offset must not be negative") :
				 errmsg("frame ending offset must not be negative")));
	get_typlenbyval(exprType(offset), &len, &byval);
	old = MemoryContextSwitchTo(econtext->ecxt_per_query_memory);
	value = datumCopy(value, byval, len);
	MemoryContextSwitchTo(old);
	return value;
}

/* Compute the offsets of frames, the last window's first, as PostgreSQL's nodes do when they are first asked for a row. */
static void
compute_offsets(WindowScanState *state)
{
	for (int i = state->nwindows - 1; i >= 0; i--)
	{
		Window	   *window = &state->windows[i];

		if (window->options & FRAMEOPTION_START_OFFSET)
			window->start_value = frame_offset(state, window, window->plan->startOffset, true);
		if (window->options & FRAMEOPTION_END_OFFSET)
			window->end_value = frame_offset(state, window, window->plan->endOffset, false);
	}
}

/* ---- rows in memory ---- */

/* Have these rows be all that there are for now. */
static void
set_rows(WindowScanState *state, char **rows, int64 n)
{
	state->rows.rows = rows;
	state->rows.n = n;
	state->rows.in_slot = -1;
	state->next = 0;
	for (int i = 0; i < state->nwindows; i++)
		state->windows[i].end = 0;
}

/* Add a copy of a row to those of a partition. */
static void
append_row(WindowScanState *state, const char *row)
{
	Size		size = row_size(state->rows.format, row);
	char	   *copy;

	if (state->rows.n == state->room)
	{
		state->room = Max(state->room * 2, 1024);
		if (state->addresses == NULL)
			state->addresses = MemoryContextAllocHuge(state->css.ss.ps.state->es_query_cxt, state->room * sizeof(char *));
		else
			state->addresses = repalloc_huge(state->addresses, state->room * sizeof(char *));
	}
	if (size > state->left)
	{
		state->left = Max(size, BLOCK_BYTES);
		state->block = MemoryContextAllocHuge(state->partition, state->left);
	}
	copy = state->block;
	memcpy(copy, row, size);
	state->block += size;
	state->left -= size;
	state->bytes += size + sizeof(char *);
	state->addresses[state->rows.n++] = copy;
	state->rows.rows = state->addresses;
}

/* Does a partition of all windows end between two rows? */
static bool
is_boundary(WindowScanState *state, const char *left, const char *right)
{
	MemoryContext old = MemoryContextSwitchTo(state->rows.argument->ecxt_per_tuple_memory);
	bool		result = true;

	for (int i = 0; i < state->nwindows && result; i++)
	{
		Window	   *window = &state->windows[i];

		result = !window_rows_equal(state->rows.format, window->partition, window->npartition, left, right);
	}
	MemoryContextSwitchTo(old);
	ResetExprContext(state->rows.argument);
	return result;
}

/*
 * Have a node's hashed subplans read anew. The one node's plan is a copy of the
 * other's, and so two of them share the state of a subplan: its changed parameters
 * have been seen by the one that has built its table since, and by no other. What
 * says so depends on the minor version, and so PostgreSQL does it, by the rescan
 * of a node that has the same subplans and nothing else.
 */
static void
renew_subplans(PlanState *node)
{
	ResultState same = {.ps.type = T_ResultState,.ps.state = node->state,.ps.subPlan = node->subPlan};
	MemoryContext old = MemoryContextSwitchTo(node->state->es_query_cxt);
	ListCell   *lc;

	foreach(lc, node->subPlan)
	{
		SubPlanState *subplan = lfirst_node(SubPlanState, lc);

		if (subplan->subplan->useHashTable)
			same.ps.chgParam = bms_add_members(same.ps.chgParam, subplan->planstate->plan->extParam);
	}
	ExecReScan(&same.ps);
	MemoryContextSwitchTo(old);
}

/* Have PostgreSQL's nodes do the rest, from the first row in memory on. */
static void
hand_over(WindowScanState *state)
{
	renew_subplans(&state->core->ss.ps);
	state->feeder.next = 0;
	outerPlanState(state->lowest) = &state->feeder.ps;
	state->handed_over = true;
}

/*
 * Have the rows of the next partition in memory; false if there are none. If
 * there is no room for it, it is handed over.
 */
static bool
load_partition(WindowScanState *state)
{
	RowSort    *sort = state->input.sort;
	char	   *row = state->ahead;

	if (row == NULL && state->rows.n > 0)
		return false;
	MemoryContextReset(state->partition);
	state->block = NULL;
	state->left = state->bytes = 0;
	set_rows(state, state->addresses, 0);
	if (row == NULL && (row = row_sort_next(sort)) == NULL)
		return false;
	for (int64 i = 0; row != NULL; i++)
	{
		if (i % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		if (i > 0 && is_boundary(state, state->addresses[i - 1], row))
			break;
		append_row(state, row);
		if (state->bytes > work_mem * (Size) 1024)
		{
			hand_over(state);
			return true;
		}
		row = row_sort_next(sort);
	}
	state->ahead = row;
	return true;
}

/* Read the input, and have the first rows in memory; false if there are none. */
static bool
load_first(WindowScanState *state)
{
	char	  **rows;			/* their addresses */
	int64		n;

	if (!state->input.sorted)
		sorted_rows_read(&state->input);
	state->rows.format = row_sort_format(state->input.sort);
	state->ahead = NULL;
	rows = row_sort_rows(state->input.sort, &n);
	if (rows == NULL)
	{
		set_rows(state, NULL, 0);
		return load_partition(state);
	}
	set_rows(state, rows, n);
	if (state->input.more)
		hand_over(state);
	return n > 0;
}

/* Have more rows in memory; false if there are none. */
static bool
load_more(WindowScanState *state)
{
	int64		n;

	if (!state->begun)
	{
		compute_offsets(state);
		state->begun = true;
		return load_first(state);
	}
	if (row_sort_rows(state->input.sort, &n) != NULL)
		return false;
	return load_partition(state);
}

/* The next row for PostgreSQL's nodes: those in memory, then those in files, or of the input. */
static TupleTableSlot *
feed(PlanState *ps)
{
	Feeder	   *feeder = (Feeder *) ps;
	WindowScanState *state = feeder->owner;
	const char *row;

	ExecClearTuple(feeder->slot);
	if (feeder->next < state->rows.n)
		row = state->rows.rows[feeder->next++];
	else if (state->input.more)
	{
		TupleTableSlot *slot = ExecProcNode(state->input.input);

		state->handed_rows += !TupIsNull(slot);
		return slot;
	}
	else
	{
		/* they have all of them */
		if (state->bytes > 0)
		{
			MemoryContextReset(state->partition);
			state->bytes = 0;
		}
		row = row_sort_next(state->input.sort);
	}
	if (row == NULL)
		return feeder->slot;
	state->handed_rows++;
	sorted_row_store(state->rows.format, row, feeder->slot);
	return ExecStoreVirtualTuple(feeder->slot);
}

/* ---- rows out ---- */

/*
 * Compute a window's functions for the current row into the scan's slot, and
 * after them the frame, as PostgreSQL's node does: it may have no function that
 * needs it.
 */
static int
compute_window(Window *window, TupleTableSlot *slot, int column)
{
	for (int i = 0; i < window->nfunctions; i++, column++)
	{
		WindowFunction *function = &window->functions[i];

		if (window->passing)
		{
			slot->tts_values[column] = (Datum) 0;
			slot->tts_isnull[column] = true;
		}
		else
			function->result(window, function, &slot->tts_values[column], &slot->tts_isnull[column]);
	}
	if (window->moves_with_errors)
	{
		(void) window_head(window);
		(void) window_tail(window);
	}
	return column;
}

/* The next row is the current one of all windows, with their results in the scan's slot. */
static void
compute_row(WindowScanState *state, int64 row)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	int			column = state->ninput;

	ExecClearTuple(slot);
	if (row + 16 < state->rows.n)
		__builtin_prefetch(state->rows.rows[row + 16]);
	for (int i = 0; i < state->nwindows; i++)
	{
		Window	   *window = &state->windows[i];

		if (row >= window->end)
			window_begin_partition(window, row);
		else
			window_go_to(window, row);
		column = compute_window(window, slot, column);
	}
	sorted_row_store(state->rows.format, state->rows.rows[row], slot);
	ExecStoreVirtualTuple(slot);
}

/* Does the query's last window, which is the only one that may leave out rows, return no more of its partition? */
static bool
is_passed_over(const WindowScanState *state)
{
	const Window *last = &state->windows[state->nwindows - 1];

	return last->passing && last->plan->topWindow;
}

/*
 * Look at the run conditions after a row has been computed. Returns false if
 * is_passed_over() from this row on.
 */
static bool
check_run_conditions(WindowScanState *state, ExprContext *econtext)
{
	Window	   *last = &state->windows[state->nwindows - 1];

	for (int i = 0; i < state->nwindows; i++)
	{
		Window	   *window = &state->windows[i];

		if (window->run_condition == NULL || window->passing || ExecQual(window->run_condition, econtext))
			continue;
		window->passing = true;
		if (window == last && window->plan->topWindow && window->npartition == 0)
			state->done = true;
	}
	return !is_passed_over(state);
}

/* Rows that the last window no longer returns need not be looked at if there is no other window. */
static void
skip_partition(WindowScanState *state)
{
	if (state->nwindows == 1 && !state->windows[0].moves_with_errors)
		state->next = state->windows[0].end;
}

static TupleTableSlot *
exec_window(CustomScanState *css)
{
	WindowScanState *state = (WindowScanState *) css;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;

	CHECK_FOR_INTERRUPTS();
	while (!state->done && !state->handed_over)
	{
		MemoryContext old;
		TupleTableSlot *result = css->ss.ss_ScanTupleSlot;

		ResetExprContext(econtext);
		if (state->next >= state->rows.n)
		{
			if (!load_more(state))
				state->done = true;
			continue;
		}
		old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		compute_row(state, state->next++);
		MemoryContextSwitchTo(old);
		econtext->ecxt_scantuple = css->ss.ss_ScanTupleSlot;

		/*
		 * PostgreSQL's node computes its columns before it looks at
		 * conditions
		 */
		if (css->ss.ps.ps_ProjInfo != NULL && !is_passed_over(state))
			result = ExecProject(css->ss.ps.ps_ProjInfo);
		if (!check_run_conditions(state, econtext))
		{
			CHECK_FOR_INTERRUPTS();
			skip_partition(state);
			continue;
		}
		if (css->ss.ps.qual != NULL && !ExecQual(css->ss.ps.qual, econtext))
		{
			InstrCountFiltered1(css, 1);
			continue;
		}
		return result;
	}
	return state->handed_over ? ExecProcNode(&state->core->ss.ps) : NULL;
}

/* Take the plan back from PostgreSQL's nodes. */
static void
take_back(WindowScanState *state)
{
	if (!state->handed_over)
		return;
	/* what is read from here is begun anew by us */
	state->feeder.ps.chgParam = bms_make_singleton(0);
	ExecReScan(&state->core->ss.ps);
	bms_free(state->feeder.ps.chgParam);
	state->feeder.ps.chgParam = NULL;
	ExecClearTuple(state->feeder.slot);
	outerPlanState(state->lowest) = state->below;
	state->handed_over = false;
	renew_subplans(&state->css.ss.ps);
}

static void
rescan_window(CustomScanState *css)
{
	WindowScanState *state = (WindowScanState *) css;

	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	ExecClearTuple(state->rows.slot);
	take_back(state);
	(void) sorted_rows_rescan(&state->input, css->ss.ps.chgParam);
	set_rows(state, NULL, 0);
	MemoryContextReset(state->partition);
	state->ahead = NULL;
	state->begun = false;
	state->done = false;
}

static void
end_window(CustomScanState *css)
{
	WindowScanState *state = (WindowScanState *) css;

	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	ExecClearTuple(state->rows.slot);
	ExecClearTuple(state->feeder.slot);
	sorted_rows_end(&state->input);
	outerPlanState(state->lowest) = state->below;
	ExecEndNode(&state->core->ss.ps);
}

/* ---- EXPLAIN ---- */

/* Append the columns of a clause of a window. */
static void
append_columns(StringInfo buf, const char *clause, int n, const AttrNumber *columns, List *entries, List *context,
			   bool prefix)
{
	for (int i = 0; i < n; i++)
	{
		Expr	   *expr = list_nth_node(TargetEntry, entries, columns[i] - 1)->expr;
		Var		   *column = makeVar(INDEX_VAR, columns[i], exprType((Node *) expr), exprTypmod((Node *) expr),
									 exprCollation((Node *) expr), 0);

		if (i == 0)
			appendStringInfo(buf, "%s%s ", buf->len > 1 ? " " : "", clause);
		else
			appendStringInfoString(buf, ", ");
		appendStringInfoString(buf, deparse_expression((Node *) column, context, prefix, false));
	}
}

static void
explain_window(CustomScanState *css, List *ancestors, ExplainState *es)
{
	WindowScanState *state = (WindowScanState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);
	bool		prefix = list_length(es->rtable) > 1 || es->verbose;
	List	   *windows = NIL;
	List	   *conditions = NIL;

	for (int i = 0; i < state->nwindows; i++)
	{
		WindowAgg  *plan = state->windows[i].plan;
		List	   *terms = list_nth(list_nth(cscan->custom_exprs, i), WINDOW_RUN_CONDITION);
		StringInfoData buf;

		initStringInfo(&buf);
		appendStringInfoChar(&buf, '(');
		append_columns(&buf, "PARTITION BY", plan->partNumCols, plan->partColIdx, cscan->custom_scan_tlist, context, prefix);
		append_columns(&buf, "ORDER BY", plan->ordNumCols, plan->ordColIdx, cscan->custom_scan_tlist, context, prefix);
		appendStringInfoChar(&buf, ')');
		windows = lappend(windows, buf.data);
		if (terms != NIL)
			conditions = lappend(conditions, deparse_expression((Node *) make_ands_explicit(terms), context, prefix, false));
	}
	ExplainPropertyList("Windows", windows, es);
	if (conditions != NIL)
		ExplainPropertyList("Run Conditions", conditions, es);
	sorted_rows_explain(&state->input, &css->ss.ps, ancestors, es);
	if (es->analyze && state->handed_rows > 0)
		ExplainPropertyInteger("Rows of Large Partitions", NULL, state->handed_rows, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "VectorWindow",
	.BeginCustomScan = begin_window,
	.ExecCustomScan = exec_window,
	.EndCustomScan = end_window,
	.ReScanCustomScan = rescan_window,
	.ExplainCustomScan = explain_window,
};

static Node *
create_state(CustomScan *cscan)
{
	WindowScanState *state = palloc0(sizeof(WindowScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}

const CustomScanMethods vector_window_methods = {
	.CustomName = "VectorWindow",
	.CreateCustomScanState = create_state,
};
