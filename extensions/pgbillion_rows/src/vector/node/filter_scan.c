/*-------------------------------------------------------------------------
 *
 * filter_scan.c
 *	  The executor node that returns the rows of a table which a filter keeps.
 *
 * The filter removes rows a batch at a time. Those that are left are returned
 * as PostgreSQL's sequential scan returns them: in the table's own form, with
 * the page pinned. So system columns, row locks, rechecks of updated rows and
 * WHERE CURRENT OF are PostgreSQL's, and nothing is copied. With a columnar
 * index the filter reads that, and only rows that are left are fetched from the
 * table. If the index has all columns that the query needs, none are: rows are
 * then returned as values, where nobody needs more of them. A sort takes such
 * values a batch at a time, of the table as well.
 *
 * Where only the first rows of an order are wanted above it, others may be left
 * out (top_rows.c).
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
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "vector/node/custom_scan.h"
#include "vector/node/node.h"
#include "vector/node/top_rows.h"
#include "vector/source/source.h"

typedef struct FilterScanState
{
	VectorNode	node;
	int			next;			/* row of the batch to be returned */
	ExprState  *recheck;		/* the filter, for a row that was updated
								 * meanwhile */
	TopRows    *top;			/* or NULL */
	bool		values;			/* rows are returned as values of the columns
								 * that are needed */
} FilterScanState;

static Node *create_state(CustomScan *cscan);

const CustomScanMethods vector_filter_scan_methods = {
	.CustomName = "VectorScan",
	.CreateCustomScanState = create_state,
};

/* The order whose first rows are wanted, or NIL. */
static List *
order_of(CustomScan *cscan)
{
	return list_nth(cscan->custom_private, VECTOR_ROWS_ORDER);
}

/* The columnar index that a scan reads, or InvalidOid. */
Oid
vector_rows_index(CustomScan *cscan)
{
	return linitial_oid(list_nth(cscan->custom_private, VECTOR_ROWS_COLUMNS));
}

/* The column by which only the first rows are wanted. */
static Expr *
key_of(CustomScanState *css, const TopOrder *order)
{
	Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(css->ss.ss_currentRelation), order->attno - 1);

	return (Expr *) makeVar(((CustomScan *) css->ss.ps.plan)->scan.scanrelid, order->attno, attribute->atttypid,
							attribute->atttypmod, attribute->attcollation, 0);
}

/* Do the next batches hold no row that is wanted, as far as their source knows? */
static bool
excludes(void *arg, Batch *batch)
{
	FilterScanState *state = arg;

	return vector_filter_excludes(state->node.filter, batch) || top_rows_exclude(state->top, batch);
}

/* Have the source skip what cannot be among the first rows, and give what likely is first. */
static void
begin_with_first(FilterScanState *state)
{
	Source	   *table = state->node.table;
	bool		descending;
	int			column = top_rows_column(state->top, &descending);

	table->excludes = excludes;
	table->filter = state;
	if (column >= 0 && OidIsValid(state->node.index))
		segment_source_order(table, column, descending);
}

/*
 * Begin to return rows as values: of the columns that the plan needs, and of
 * these outputs. They stay until the next batch, while PostgreSQL's code resets
 * the node's memory with each row.
 */
static void
begin_values(FilterScanState *state, EState *estate, List *outputs)
{
	CustomScan *cscan = (CustomScan *) state->node.css.ss.ps.plan;
	TupleTableSlot *slot = state->node.css.ss.ss_ScanTupleSlot;
	List	   *vars = list_concat(pull_var_clause((Node *) cscan->scan.plan.targetlist, 0),
								   pull_var_clause((Node *) cscan->scan.plan.qual, 0));

	Assert(TTS_IS_VIRTUAL(slot));
	outputs = list_concat(outputs, vars);
	vector_node_use_index(&state->node, vector_rows_index(cscan), list_concat_copy(cscan->custom_exprs, outputs));
	vector_node_begin(&state->node, vector_node_exprs(&state->node, cscan->custom_exprs), outputs);
	state->node.batch.econtext = CreateExprContext(estate);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
}

/* Store the values of a row of the batch in the scan slot. */
static void
store_values(FilterScanState *state, int row, TupleTableSlot *slot)
{
	Batch	   *batch = &state->node.batch;
	MemoryContext old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);

	ExecClearTuple(slot);
	for (int i = 0; i < batch->nlater; i++)
	{
		const Column *column = batch_column(batch, batch->later[i]);

		slot->tts_values[column->attno - 1] = column->values[row];
		slot->tts_isnull[column->attno - 1] = column->has_nulls && column->nulls[row];
	}
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old);
}

static void
begin_scan(CustomScanState *css, EState *estate, int eflags)
{
	FilterScanState *state = (FilterScanState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	List	   *outputs = NIL;
	TopOrder	order;

#if PG_VERSION_NUM < 160000

	/*
	 * ExecInitCustomScan() takes rows for virtual ones, and cannot be told
	 * that they are those of pages
	 */
	if (!state->values)
	{
		ExecInitScanTupleSlot(estate, &css->ss, RelationGetDescr(css->ss.ss_currentRelation),
							  &TTSOpsBufferHeapTuple);
		ExecAssignScanProjectionInfoWithVarno(&css->ss, cscan->scan.scanrelid);
		css->ss.ps.qual = ExecInitQual(cscan->scan.plan.qual, &css->ss.ps);
	}
#endif

	if (order_of(cscan) != NIL)
	{
		order = top_order_of_list(order_of(cscan));
		outputs = list_make1(key_of(css, &order));
	}
	if (state->values)
		begin_values(state, estate, outputs);
	else
	{
		vector_node_use_index(&state->node, vector_rows_index(cscan), list_concat_copy(cscan->custom_exprs, outputs));
		vector_node_begin_rows(&state->node, vector_node_exprs(&state->node, cscan->custom_exprs), outputs);
	}
	if (order_of(cscan) != NIL)
	{
		state->top = top_rows_create(&order, &state->node.batch);
		begin_with_first(state);
	}
	state->recheck = ExecInitQual(cscan->custom_exprs, &css->ss.ps);
}

/* Have the next rows that may be wanted in the batch; false if there are none. */
static bool
next_batch(FilterScanState *state)
{
	VectorNode *node = &state->node;
	MemoryContext old;

	if (!vector_node_next(node))
		return false;
	if (state->top != NULL)
	{
		old = MemoryContextSwitchTo(node->batch.econtext->ecxt_per_tuple_memory);
		top_rows_remove(state->top, &node->batch);
		MemoryContextSwitchTo(old);
	}
	return true;
}

/* The next row that the filter keeps, in the scan slot, or an empty slot. */
static TupleTableSlot *
next_row(ScanState *ss)
{
	FilterScanState *state = (FilterScanState *) ss;
	VectorNode *node = &state->node;
	TupleTableSlot *slot = ss->ss_ScanTupleSlot;

	/* backward scans are not offered */
	Assert(ScanDirectionIsForward(ss->ps.state->es_direction));
	while (state->next >= node->batch.n)
	{
		/* its page is about to be unpinned */
		ExecClearTuple(slot);
		state->next = 0;
		if (!next_batch(state))
		{
			node->batch.n = 0;
			return slot;
		}
	}
	if (state->values)
		store_values(state, state->next++, slot);
	else
		node->source->methods->store(node->source, state->next++, slot);

	return slot;
}

/* ---- batches in place of rows ---- */

/* A column that is not read, with the same value in all rows. */
static Column *
constant_column(const Const *constant)
{
	Column	   *column = palloc0(sizeof(Column));

	column->type = constant->consttype;
	column->len = constant->constlen;
	column->byval = constant->constbyval;
	column->loaded = true;
	column->has_nulls = constant->constisnull;
	column->values = palloc(sizeof(Datum) * BATCH_ROWS);
	column->nulls = palloc(sizeof(bool) * BATCH_ROWS);
	for (int i = 0; i < BATCH_ROWS; i++)
	{
		column->values[i] = constant->constvalue;
		column->nulls[i] = constant->constisnull;
	}
	return column;
}

/*
 * The columns of a plan's result, in the current context, if it is a scan that
 * gives its rows by vector_rows_next_batch(), too; else NULL. Of a scan either
 * batches are taken or rows.
 */
Column	  **
vector_rows_columns(PlanState *ps)
{
	FilterScanState *state = (FilterScanState *) ps;
	Column	  **columns;
	ListCell   *lc;

	if (!IsA(ps, CustomScanState) || ((CustomScan *) ps->plan)->methods != &vector_filter_scan_methods ||
		!state->values || ps->qual != NULL || ps->state->es_epq_active != NULL)
		return NULL;
	columns = palloc0(sizeof(Column *) * Max(list_length(ps->plan->targetlist), 1));
	foreach(lc, ps->plan->targetlist)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;
		int			column = -1;

		if (IsA(expr, Var) && ((Var *) expr)->varattno > 0)
			column = batch_index(&state->node.batch, ((Var *) expr)->varattno);
		if (column >= 0)
			columns[foreach_current_index(lc)] = &state->node.batch.columns[column];
		else if (IsA(expr, Const))
			columns[foreach_current_index(lc)] = constant_column((Const *) expr);
		else
			return NULL;
	}
	return columns;
}

/*
 * The number of rows that the columns of vector_rows_columns() hold now, valid
 * until the next call; 0: there are no more.
 */
int
vector_rows_next_batch(PlanState *ps)
{
	FilterScanState *state = (FilterScanState *) ps;
	Batch	   *batch = &state->node.batch;
	bool		more;

	/* what ExecProcNode() does */
	if (ps->chgParam != NULL)
		ExecReScan(ps);
	if (ps->instrument != NULL)
		InstrStartNode(ps->instrument);
	do
	{
		more = next_batch(state);
	} while (more && batch->n == 0);
	if (more)
	{
		MemoryContext old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);

		for (int i = 0; i < batch->nlater; i++)
			(void) batch_column(batch, batch->later[i]);
		MemoryContextSwitchTo(old);
	}
	else
		batch->n = 0;
	state->next = batch->n;
	if (ps->instrument != NULL)
		InstrStopNode(ps->instrument, batch->n);
	return batch->n;
}

/* ---- rows ---- */

/* Does the filter keep a row that was updated since it was returned? */
static bool
recheck_row(ScanState *ss, TupleTableSlot *slot)
{
	FilterScanState *state = (FilterScanState *) ss;
	ExprContext *econtext = ss->ps.ps_ExprContext;

	econtext->ecxt_scantuple = slot;
	return ExecQual(state->recheck, econtext);
}

static TupleTableSlot *
exec_scan(CustomScanState *css)
{
	return ExecScan(&css->ss, next_row, recheck_row);
}

static void
end_scan(CustomScanState *css)
{
	FilterScanState *state = (FilterScanState *) css;

	vector_node_end(&state->node);
}

static void
rescan(CustomScanState *css)
{
	FilterScanState *state = (FilterScanState *) css;

	state->node.source->methods->end(state->node.source);
	state->node.batch.n = 0;
	state->next = 0;
	if (state->top != NULL)
		top_rows_reset(state->top);
	ExecScanReScan(&css->ss);
}

/* By which column only the first rows are wanted, and how many. */
static void
explain_top(FilterScanState *state, List *context, ExplainState *es)
{
	CustomScan *cscan = (CustomScan *) state->node.css.ss.ps.plan;
	TopOrder	order;
	char	   *key;

	if (state->top == NULL)
		return;
	order = top_order_of_list(order_of(cscan));
	key = deparse_expression((Node *) key_of(&state->node.css, &order), context, es->verbose, false);
	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Top Rows", psprintf(INT64_FORMAT " by %s", order.n, key), es);
	else
	{
		ExplainPropertyInteger("Top Rows", NULL, order.n, es);
		ExplainPropertyText("Top Rows Key", key, es);
	}
}

static void
explain_scan(CustomScanState *css, List *ancestors, ExplainState *es)
{
	VectorNode *node = (VectorNode *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);

	/* PostgreSQL shows the qualification, and what that removes, as Filter */
	vector_node_explain_filter(node, "Vectorized Filter", cscan->custom_exprs, context, es->verbose, es);
	if (OidIsValid(vector_rows_index(cscan)))
		ExplainPropertyText("Columns", get_rel_name(vector_rows_index(cscan)), es);
	explain_top((FilterScanState *) css, context, es);
	if (es->analyze)
		node->source->methods->explain(node->source, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "VectorScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	VECTOR_NODE_PARALLEL,
	.ExplainCustomScan = explain_scan,
};

static Node *
create_state(CustomScan *cscan)
{
	FilterScanState *state = palloc0(sizeof(FilterScanState));

	NodeSetTag(state, T_CustomScanState);
	state->node.css.methods = &exec_methods;
	state->values = intVal(list_nth(cscan->custom_private, VECTOR_ROWS_VALUES)) != 0;
#if PG_VERSION_NUM >= 160000
	state->node.css.slotOps = state->values ? &TTSOpsVirtual : &TTSOpsBufferHeapTuple;
#endif

	return (Node *) state;
}
