/*-------------------------------------------------------------------------
 *
 * execute.c
 *	  The executor node: batches go down the pipeline, rows are returned.
 *
 * Work goes a batch at a time: the source gives one, the filter removes rows,
 * the sink consumes what is left. Rows that the sink has for us are returned
 * after each batch, and when the source has ended.
 *
 * In a parallel plan the source's rows are shared out; each process has a sink
 * of its own.
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
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/ruleutils.h"

#include "vector/node.h"
#include "vector/sink/sink.h"
#include "vector/vector.h"

typedef struct VectorState
{
	VectorNode	node;
	Sink	   *sink;
	int			noutputs;
	bool		ended;			/* the batch's source has, as the sink knows */
	bool		returning;		/* the sink may have rows for us */
} VectorState;

static Node *create_state(CustomScan *cscan);

const CustomScanMethods vector_scan_methods = {
	.CustomName = "VectorAggregate",
	.CreateCustomScanState = create_state,
};

/* ---- what the plan says ---- */

/* The expressions of the output columns; aggregates have their DISTINCT here. */
static List *
output_exprs(CustomScan *cscan)
{
	List	   *exprs = NIL;
	List	   *distinct = lthird_node(List, cscan->custom_private);

	for (int i = 0; i < intVal(linitial(cscan->custom_private)); i++)
	{
		Expr	   *expr = list_nth_node(TargetEntry, cscan->custom_scan_tlist, i)->expr;

		if (list_nth(distinct, i) != NULL)
		{
			Aggref	   *aggref = makeNode(Aggref);

			memcpy(aggref, castNode(Aggref, expr), sizeof(Aggref));
			aggref->aggdistinct = list_nth_node(List, distinct, i);
			expr = (Expr *) aggref;
		}
		exprs = lappend(exprs, expr);
	}

	return exprs;
}

/* The terms of the filter. */
static List *
filter_clauses(CustomScan *cscan)
{
	List	   *clauses = NIL;
	int			noutputs = intVal(linitial(cscan->custom_private));

	for (int i = noutputs; i < list_length(cscan->custom_scan_tlist); i++)
		clauses = lappend(clauses, list_nth_node(TargetEntry, cscan->custom_scan_tlist, i)->expr);

	return clauses;
}

/* The index of columns to be read, or InvalidOid. */
Oid
vector_scan_index(CustomScan *cscan)
{
	return linitial_oid(lsecond(cscan->custom_private));
}

/* The group keys among some outputs. */
static List *
key_exprs(List *outputs)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (!IsA(lfirst(lc), Aggref))
			keys = lappend(keys, lfirst(lc));
	}
	return keys;
}

/* What is aggregated with DISTINCT. */
static List *
distinct_exprs(List *outputs)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		Aggref	   *aggref = lfirst(lc);

		if (IsA(aggref, Aggref) && aggref->aggdistinct != NIL)
			exprs = list_append_unique(exprs, linitial_node(TargetEntry, aggref->args)->expr);
	}
	return exprs;
}

static void
begin_scan(CustomScanState *css, EState *estate, int eflags)
{
	VectorState *state = (VectorState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *outputs = output_exprs(cscan);
	Batch	   *batch = &state->node.batch;

	vector_node_begin(&state->node, filter_clauses(cscan), outputs, vector_scan_index(cscan));
	state->sink = key_exprs(outputs) == NIL ? one_group_create(outputs, batch) : groups_create(outputs, batch);
	state->noutputs = list_length(outputs);
}

/* ---- work ---- */

/* Have the next batch go down to the sink, or tell it that there is none. */
static void
next_batch(VectorState *state)
{
	Batch	   *batch = &state->node.batch;
	bool		more = vector_node_next(&state->node);
	MemoryContext old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);

	if (!more)
	{
		batch->source->methods->end(batch->source);
		batch->source = state->node.source;
		state->sink->methods->finish(state->sink);
		state->ended = state->returning = true;
	}
	else if (batch->n > 0)
		state->returning = state->sink->methods->consume(state->sink, batch);
	MemoryContextSwitchTo(old);
}

/* Go on with the rows that the sink has kept; false if there are none. */
static bool
begin_remainder(VectorState *state)
{
	Source	   *source;

	Assert(state->ended);
	source = state->sink->methods->remainder == NULL ? NULL : state->sink->methods->remainder(state->sink);
	if (source == NULL)
		return false;
	state->node.batch.source = source;
	state->ended = false;

	return true;
}

/* The next row that the sink has for us, in the scan slot, or NULL. */
static TupleTableSlot *
next_row(VectorState *state)
{
	TupleTableSlot *slot = state->node.css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->node.css.ss.ps.ps_ExprContext;
	MemoryContext old;
	bool		found;

	ExecClearTuple(slot);
	/* until then, rows may refer to the batch's memory */
	if (state->ended)
		ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	found = state->sink->methods->next(state->sink, slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);
	if (!found)
		return NULL;
	/* terms of the filter are described as columns, and are none */
	for (int i = state->noutputs; i < slot->tts_tupleDescriptor->natts; i++)
		slot->tts_isnull[i] = true;

	return ExecStoreVirtualTuple(slot);
}

/* Have the sink consume batches until it may have rows for us; false if there is nothing left. */
static bool
fill(VectorState *state)
{
	if (state->ended && !begin_remainder(state))
		return false;
	do
		next_batch(state);
	while (!state->returning);

	return true;
}

static TupleTableSlot *
exec_scan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;
	TupleTableSlot *slot;

	while (!state->returning || (slot = next_row(state)) == NULL)
	{
		state->returning = false;
		if (!fill(state))
			return NULL;
	}
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	css->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
end_scan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	vector_node_end(&state->node);
	state->sink->methods->end(state->sink);
}

static void
rescan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	/* a remainder is read to its end without a row being returned */
	Assert(state->node.batch.source == state->node.source);
	state->node.source->methods->end(state->node.source);
	state->sink->methods->reset(state->sink);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	state->ended = state->returning = false;
}

/* ---- for the node above Finalize Aggregate ---- */

/* Consume all of the batch's source. */
static void
run_source(VectorState *state)
{
	Instrumentation *instrument = state->node.css.ss.ps.instrument;

	if (instrument != NULL)
		InstrStartNode(instrument);
	while (!state->ended)
		next_batch(state);
	if (instrument != NULL)
		InstrStopNode(instrument, state->sink->methods->count(state->sink));
}

/*
 * Aggregate the whole table, for a node that takes the groups by
 * vector_next_group(). Does nothing if they are there already.
 */
void
vector_run(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	Assert(css->methods->ExecCustomScan == exec_scan && state->sink->methods->keep_whole != NULL &&
		   !css->ss.ps.plan->parallel_aware);
	if (css->ss.ps.chgParam != NULL)
		ExecReScan(&css->ss.ps);
	if (state->ended)
		return;
	state->sink->methods->keep_whole(state->sink, css->ss.ps.plan->plan_rows);
	run_source(state);
}

/*
 * Keys and states of the next group after vector_run() or vector_rewind(),
 * in the order of the output columns and allocated in the current context.
 * Values by reference may also be the scan's, valid until the next call.
 * False when there is none.
 */
bool
vector_next_group(CustomScanState *css, Datum *values, bool *isnull)
{
	VectorState *state = (VectorState *) css;

	while (!state->sink->methods->next(state->sink, values, isnull))
	{
		if (!begin_remainder(state))
			return false;
		run_source(state);
	}
	return true;
}

/* Begin again with the first group, which is kept unless some were spilled. */
void
vector_rewind(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	if (!state->sink->methods->rewind(state->sink))
		ExecReScan(&css->ss.ps);
}

/* ---- EXPLAIN ---- */

/* How much of the work is done by kernels. */
static void
explain_kernels(VectorState *state, ExplainState *es)
{
	const Sink *sink = state->sink;
	int			kernels;
	int			terms;
	StringInfoData buf;

	vector_filter_kernels(state->node.filter, &kernels, &terms);
	initStringInfo(&buf);
	appendStringInfo(&buf, "%d of %d aggregates", sink->kernel_aggregates, sink->aggregates);
	if (terms > 0)
		appendStringInfo(&buf, ", %d of %d filter terms", kernels, terms);
	if (sink->keys > 0)
		appendStringInfo(&buf, ", %d of %d group keys", sink->kernel_keys, sink->keys);
	ExplainPropertyText("Vectorized", buf.data, es);
}

static void
explain_spilled(const Sink *sink, ExplainState *es)
{
	uint64		kilobytes = (sink->spilled_bytes + 1023) / 1024;
	StringInfoData buf;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Spilled Partitions", NULL, sink->spilled_partitions, es);
		ExplainPropertyUInteger("Spilled Disk", "kB", kilobytes, es);
		return;
	}
	if (sink->spilled_partitions == 0)
		return;
	initStringInfo(&buf);
	appendStringInfo(&buf, "partitions=" UINT64_FORMAT " disk=" UINT64_FORMAT "kB",
					 sink->spilled_partitions, kilobytes);
	ExplainPropertyText("Spilled", buf.data, es);
}

static void
explain_scan(CustomScanState *css, List *ancestors, ExplainState *es)
{
	VectorState *state = (VectorState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);
	bool		prefix = list_length(es->rtable) > 1 || es->verbose;
	List	   *outputs = output_exprs(cscan);
	List	   *keys = key_exprs(outputs);
	List	   *distinct = distinct_exprs(outputs);
	List	   *clauses = filter_clauses(cscan);

	if (keys != NIL)
		vector_node_explain_list("Group Key", keys, context, prefix, es);
	if (distinct != NIL)
		vector_node_explain_list("Distinct", distinct, context, prefix, es);
	vector_node_explain_filter(&state->node, "Filter", clauses, context, prefix, es);
	if (OidIsValid(vector_scan_index(cscan)))
		ExplainPropertyText("Columns", get_rel_name(vector_scan_index(cscan)), es);
	if (es->verbose || es->format != EXPLAIN_FORMAT_TEXT)
		explain_kernels(state, es);
	if (es->analyze)
	{
		state->node.source->methods->explain(state->node.source, es);
		explain_spilled(state->sink, es);
	}
}

static const CustomExecMethods exec_methods = {
	.CustomName = "VectorAggregate",
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
	VectorState *state = palloc0(sizeof(VectorState));

	NodeSetTag(state, T_CustomScanState);
	state->node.css.methods = &exec_methods;

	return (Node *) state;
}
