/*-------------------------------------------------------------------------
 *
 * sorted_rows.c
 *	  Read the rows of a plan, and have them in order.
 *
 * What PostgreSQL has planned as its Sort says the order; the node stays in the
 * plan and is never executed.
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
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/ruleutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "sort/sort.h"
#include "vector/node/custom_scan.h"

/* `order` may be NULL: then rows come as they were read. */
void
sorted_rows_init(SortedRows *rows, PlanState *input, Sort *order, int eflags)
{
	rows->input = input;
	rows->order = order;
	rows->keep = (eflags & EXEC_FLAG_REWIND) != 0;
	/* without an order, reading may end within a batch */
	if (order != NULL)
		rows->columns = vector_rows_columns(input);
}

/*
 * Read all rows, and sort them. Without an order, only those are read for which
 * there is memory. Called once, and again after a rescan that returned false.
 */
void
sorted_rows_read(SortedRows *rows)
{
	EState	   *estate = rows->input->state;
	MemoryContext old = MemoryContextSwitchTo(estate->es_query_cxt);
	ScanDirection direction = estate->es_direction;

	Assert(!rows->sorted);
	rows->more = false;
	if (rows->sort == NULL)
	{
		const Sort *order = rows->order;

		rows->sort = row_sort_create(ExecGetResultType(rows->input), order == NULL ? 0 : order->numCols,
									 order == NULL ? NULL : order->sortColIdx,
									 order == NULL ? NULL : order->sortOperators,
									 order == NULL ? NULL : order->collations,
									 order == NULL ? NULL : order->nullsFirst,
									 order == NULL ? SIZE_MAX : work_mem * (Size) 1024);
	}
	estate->es_direction = ForwardScanDirection;
	if (rows->columns != NULL)
	{
		int			n;

		while ((n = vector_rows_next_batch(rows->input)) > 0)
			row_sort_put_columns(rows->sort, rows->columns, n);
	}
	while (rows->columns == NULL)
	{
		TupleTableSlot *slot;

		if (rows->order == NULL && row_sort_memory(rows->sort) >= work_mem * (Size) 1024)
		{
			rows->more = true;
			break;
		}
		slot = ExecProcNode(rows->input);
		if (TupIsNull(slot))
			break;
		slot_getallattrs(slot);
		row_sort_put(rows->sort, slot->tts_values, slot->tts_isnull);
	}
	estate->es_direction = direction;
	row_sort_perform(rows->sort, rows->once);
	rows->sorted = true;
	MemoryContextSwitchTo(old);
}

/*
 * The node above is about to begin anew, and these parameters have changed. Returns
 * whether the rows are still there, from the first one on.
 */
bool
sorted_rows_rescan(SortedRows *rows, Bitmapset *changed)
{
	if (changed != NULL)
		UpdateChangedParamSet(rows->input, changed);
	/* nothing has been read so far */
	if (!rows->sorted)
		return false;
	if (rows->input->chgParam == NULL && rows->keep && !rows->more)
	{
		row_sort_rewind(rows->sort);
		return true;
	}
	row_sort_reset(rows->sort);
	rows->sorted = false;
	/* one whose parameters have changed begins anew by itself */
	if (rows->input->chgParam == NULL)
		ExecReScan(rows->input);
	return false;
}

/* Free the rows; the plan is ended by the node that began it. */
void
sorted_rows_end(SortedRows *rows)
{
	if (rows->sort != NULL)
		row_sort_end(rows->sort);
	rows->sort = NULL;
}

/* Store a row, whose values stay where they are. */
void
sorted_row_store(const RowFormat *format, const char *row, TupleTableSlot *slot)
{
	for (int i = 0; i < format->ncolumns; i++)
		slot->tts_values[i] = row_get(format, row, i, &slot->tts_isnull[i]);
}

/* ---- EXPLAIN ---- */

#if PG_VERSION_NUM >= 180000
static Node *
as_call(Node *node, void *context)
{
	WindowFunc *function = (WindowFunc *) node;

	/* it must have a window function as such */
	if (node != NULL && IsA(node, JsonConstructorExpr) && contain_window_function(node))
		return as_call((Node *) ((JsonConstructorExpr *) node)->func, NULL);
	if (node == NULL || !IsA(node, WindowFunc))
		return expression_tree_mutator(node, as_call, context);
	return (Node *) makeFuncExpr(function->winfnoid, function->wintype, function->args, function->wincollid,
								 function->inputcollid, COERCE_EXPLICIT_CALL);
}
#endif

/*
 * From 18 on, EXPLAIN can show a window function only if it is WindowAgg's, whose
 * window it names: have it show those among our node's columns as calls. Only
 * what the plan has to be described by is changed, and to the same each time.
 */
void
sorted_rows_describe(CustomScan *cscan)
{
#if PG_VERSION_NUM >= 180000
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(cscan));
	ListCell   *lc;

	foreach(lc, cscan->custom_scan_tlist)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (contain_window_function((Node *) entry->expr))
			entry->expr = (Expr *) as_call((Node *) entry->expr, NULL);
	}
	MemoryContextSwitchTo(old);
#endif
}

/* What PostgreSQL's Sort would show of a key's direction. */
static void
append_direction(StringInfo buf, Oid type, Oid operator, Oid collation, bool nulls_first)
{
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);
	bool		reverse = false;

	if (OidIsValid(collation) && collation != get_typcollation(type))
		appendStringInfo(buf, " COLLATE %s", quote_identifier(get_collation_name(collation)));
	if (operator == cache->gt_opr)
	{
		appendStringInfoString(buf, " DESC");
		reverse = true;
	}
	else if (operator != cache->lt_opr)
	{
		char	   *name = get_opname(operator);

		if (name == NULL)
			elog(ERROR, "cache lookup failed for operator %u", operator);
		appendStringInfo(buf, " USING %s", name);
		(void) get_equality_op_for_ordering_op(operator, &reverse);
	}
	if (nulls_first != reverse)
		appendStringInfoString(buf, nulls_first ? " NULLS FIRST" : " NULLS LAST");
}

static void
explain_keys(const Sort *order, List *columns, List *context, ExplainState *es)
{
	List	   *keys = NIL;

	for (int i = 0; i < order->numCols; i++)
	{
		TargetEntry *entry = list_nth_node(TargetEntry, columns, order->sortColIdx[i] - 1);
		Oid			type = exprType((Node *) entry->expr);
		Var		   *column = makeVar(INDEX_VAR, order->sortColIdx[i], type, exprTypmod((Node *) entry->expr),
									 exprCollation((Node *) entry->expr), 0);
		StringInfoData buf;

		initStringInfo(&buf);
		appendStringInfoString(&buf, deparse_expression((Node *) column, context,
														list_length(es->rtable) > 1 || es->verbose, true));
		append_direction(&buf, type, order->sortOperators[i], order->collations[i], order->nullsFirst[i]);
		keys = lappend(keys, buf.data);
	}
	ExplainPropertyList("Sort Key", keys, es);
}

/* Show the order, and how and in which memory it was made. The node's own columns begin with the plan's. */
void
sorted_rows_explain(SortedRows *rows, PlanState *node, List *ancestors, ExplainState *es)
{
	CustomScan *cscan = (CustomScan *) node->plan;
	RowSortReport report;
	const char *method;
	const char *space;
	int64		kilobytes;

	if (rows->order == NULL)
		return;
	explain_keys(rows->order, cscan->custom_scan_tlist,
				 set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors), es);
	if (!es->analyze || rows->sort == NULL || !rows->sorted)
		return;
	report = row_sort_report(rows->sort);
	method = report.disk > 0 ? "external merge" : report.compared ? "radix sort and comparison" : "radix sort";
	space = report.disk > 0 ? "Disk" : "Memory";
	kilobytes = ((report.disk > 0 ? report.disk : report.memory) + 1023) / 1024;
	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Sort Method", psprintf("%s  %s: " INT64_FORMAT "kB", method, space, kilobytes), es);
	else
	{
		ExplainPropertyText("Sort Method", method, es);
		ExplainPropertyInteger("Sort Space Used", "kB", kilobytes, es);
		ExplainPropertyText("Sort Space Type", space, es);
	}
}
