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
 * of its own. The sinks may exchange what they have consumed, for the node that
 * wants final groups.
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
#include "executor/instrument.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "vector/aggregate/ordered_set.h"
#include "vector/group/exchange.h"
#include "vector/group/regroup.h"
#include "vector/group/sink.h"
#include "vector/join/share.h"
#include "vector/node/custom_scan.h"
#include "vector/node/node.h"

typedef struct VectorState
{
	VectorNode	node;
	JoinRows   *joins;			/* or NULL */
	List	   *shared_rows;	/* of those whose plans processes run together */
	Sink	   *sink;
	int			noutputs;
	bool		regroups;		/* groups are to be final before they are
								 * returned, as the sink groups them again */
	bool		ended;			/* the batch's source has, as the sink knows */
	bool		returning;		/* the sink may have rows for us */
} VectorState;

static Node *create_state(CustomScan *cscan);

const CustomScanMethods vector_scan_methods = {
	.CustomName = "VectorAggregate",
	.CreateCustomScanState = create_state,
};

/* It returns the rows of joins as they are. */
const CustomScanMethods vector_join_methods = {
	.CustomName = "VectorJoin",
	.CreateCustomScanState = create_state,
};

static bool
returns_rows(const CustomScan *cscan)
{
	return cscan->methods == &vector_join_methods;
}

/* ---- what the plan says ---- */

/* How many entries there are in a part of the target list. */
static int
count_of(CustomScan *cscan, VectorPrivate part)
{
	return intVal(list_nth(cscan->custom_private, part));
}

/* The expressions that only the scan evaluates: the filter's terms, and then what there is of the joins. */
static List *
hidden_exprs(CustomScan *cscan)
{
	TargetEntry *entry = llast_node(TargetEntry, cscan->custom_scan_tlist);

	Assert(entry->resjunk && entry->resno == count_of(cscan, VECTOR_PRIVATE_OUTPUTS) + 1);
	return castNode(RowExpr, entry->expr)->args;
}

/* The expressions of the output columns; aggregates have their DISTINCT here. */
static List *
output_exprs(CustomScan *cscan)
{
	List	   *exprs = NIL;
	List	   *distinct = list_nth_node(List, cscan->custom_private, VECTOR_PRIVATE_DISTINCT);

	for (int i = 0; i < count_of(cscan, VECTOR_PRIVATE_OUTPUTS); i++)
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
	return list_copy_head(hidden_exprs(cscan), count_of(cscan, VECTOR_PRIVATE_TERMS));
}

/* What there is of the joins. */
static List *
join_exprs(CustomScan *cscan)
{
	return list_copy_tail(hidden_exprs(cscan), count_of(cscan, VECTOR_PRIVATE_TERMS));
}

/* The columnar index to be read, or InvalidOid. */
Oid
vector_scan_index(CustomScan *cscan)
{
	return linitial_oid(list_nth(cscan->custom_private, VECTOR_PRIVATE_COLUMNS));
}

/* The columns of the table that are fetched for the rows that filter and joins leave. */
static List *
late_columns(CustomScan *cscan)
{
	return list_nth(cscan->custom_private, VECTOR_PRIVATE_LATE);
}

/* About how many groups processes exchange, 0: they do not. */
static double
exchanged_groups(CustomScan *cscan)
{
	return count_of(cscan, VECTOR_PRIVATE_EXCHANGE);
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

/* The ordered-set aggregates among some outputs. */
static List *
ordered_sets(List *outputs)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (IsA(lfirst(lc), Aggref) && ordered_set_of_carrier(lfirst(lc)) != NULL)
			exprs = lappend(exprs, ordered_set_of_carrier(lfirst(lc)));
	}
	return exprs;
}

static bool
subqueries_walker(Node *node, void *context)
{
	List	  **found = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
		*found = lappend(*found, node);
	return expression_tree_walker(node, subqueries_walker, context);
}

/*
 * Have subqueries, which have been compiled over rows of joins, or over what a
 * columnar index has of expressions, tell their arguments as the plan does:
 * EXPLAIN looks there for the names of their parameters. They are not evaluated
 * from there.
 */
static void
name_arguments(CustomScanState *css)
{
	List	   *planned = NIL;
	ListCell   *lc;
	ListCell   *one;

	if (css->ss.ps.subPlan == NIL)
		return;
	(void) subqueries_walker((Node *) hidden_exprs((CustomScan *) css->ss.ps.plan), &planned);
	foreach(lc, css->ss.ps.subPlan)
	{
		SubPlanState *state = lfirst_node(SubPlanState, lc);

		foreach(one, planned)
		{
			if (lfirst_node(SubPlan, one)->plan_id == state->subplan->plan_id)
				state->subplan = lfirst(one);
		}
	}
}

/* Prepare the joins, and what they are with; the outputs are to be over their rows. */
static void
begin_joins(VectorState *state, EState *estate, int eflags, List **outputs)
{
	CustomScanState *css = &state->node.css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	ListCell   *lc;

	foreach(lc, cscan->custom_plans)
		css->custom_ps = lappend(css->custom_ps,
								 ExecInitNode(lfirst(lc), estate, eflags & ~(EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK)));
	state->joins = join_rows_create(&state->node, join_exprs(cscan));
	*outputs = join_rows_exprs(state->joins, *outputs);
	vector_node_begin_joins(&state->node, vector_node_exprs(&state->node, filter_clauses(cscan)), *outputs,
							state->joins);
	state->shared_rows = joins_shared_rows(state->node.joins);
}

static void
begin_scan(CustomScanState *css, EState *estate, int eflags)
{
	VectorState *state = (VectorState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *outputs = output_exprs(cscan);
	Batch	   *batch = &state->node.batch;

	vector_node_use_index(&state->node, vector_scan_index(cscan), list_concat_copy(outputs, hidden_exprs(cscan)));
	vector_node_fetch_late(&state->node, late_columns(cscan));
	outputs = vector_node_exprs(&state->node, outputs);
	if (cscan->custom_plans != NIL)
		begin_joins(state, estate, eflags, &outputs);
	else
		vector_node_begin(&state->node, vector_node_exprs(&state->node, filter_clauses(cscan)), outputs);
	name_arguments(css);
	if (returns_rows(cscan))
	{
		state->sink = row_sink_create(outputs, batch);

		/* what is computed of a row is not kept as long as the batch */
		batch->econtext = CreateExprContext(estate);
		/* what looks for the scan of a cursor's table is to find a join */
		css->ss.ss_currentRelation = NULL;
	}
	else if (exchanged_groups(cscan) > 0 && distinct_exprs(outputs) != NIL)
	{
		state->sink = regroup_create(outputs, batch);
		state->regroups = true;
	}
	else
		state->sink = key_exprs(outputs) == NIL ? one_group_create(outputs, batch, false) :
			group_sink_create(outputs, batch, exchanged_groups(cscan) > 0, false);
	state->sink->passthrough_after = count_of(cscan, VECTOR_PRIVATE_PASSTHROUGH_AFTER);
	state->sink->any_order = cscan->scan.plan.parallel_aware;
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
begin_spilled(VectorState *state)
{
	Source	   *source;

	Assert(state->ended);
	source = state->sink->methods->spilled_source == NULL ? NULL : state->sink->methods->spilled_source(state->sink);
	if (source == NULL)
		return false;
	state->node.batch.source = source;
	state->ended = false;

	return true;
}

/* What the sink returns has been put into the scan slot: have it a row. */
static TupleTableSlot *
store_row(VectorState *state, TupleTableSlot *slot)
{
	/* the column of hidden_exprs() */
	Assert(slot->tts_tupleDescriptor->natts == state->noutputs + 1);
	slot->tts_isnull[state->noutputs] = true;

	return ExecStoreVirtualTuple(slot);
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
	return found ? store_row(state, slot) : NULL;
}

/* Have the sink consume batches until it may have rows for us; false if there is nothing left. */
static bool
fill(VectorState *state)
{
	if (state->ended && !begin_spilled(state))
		return false;
	do
		next_batch(state);
	while (!state->returning);

	return true;
}

/* The next row of groups that are grouped again, in the scan slot, or NULL. */
static TupleTableSlot *
next_regrouped(VectorState *state)
{
	CustomScanState *css = &state->node.css;
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	MemoryContext old;
	bool		found;

	vector_run(css);
	ExecClearTuple(slot);
	ResetExprContext(css->ss.ps.ps_ExprContext);
	old = MemoryContextSwitchTo(css->ss.ps.ps_ExprContext->ecxt_per_tuple_memory);
	found = vector_next_group(css, slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);

	return found ? store_row(state, slot) : NULL;
}

/* The next row, in the scan slot, after as many batches as it takes; NULL at the end. */
static TupleTableSlot *
next_of_batches(VectorState *state)
{
	TupleTableSlot *slot;

	while (!state->returning || (slot = next_row(state)) == NULL)
	{
		state->returning = false;
		if (!fill(state))
			return NULL;
	}
	return slot;
}

static TupleTableSlot *
exec_scan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;
	TupleTableSlot *slot = state->regroups ? next_regrouped(state) : next_of_batches(state);

	if (slot == NULL)
		return NULL;
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	if (returns_rows((CustomScan *) css->ss.ps.plan))
		ResetExprContext(css->ss.ps.ps_ExprContext);
	css->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
end_scan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	ListCell   *lc;

	vector_node_end(&state->node);
	state->sink->methods->end(state->sink);
	foreach(lc, css->custom_ps)
		ExecEndNode(lfirst(lc));
}

static void
rescan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	/* a spilled source is read to its end without a row being returned */
	Assert(state->node.batch.source == state->node.source);
	state->node.source->methods->end(state->node.source);
	if (css->ss.ps.chgParam != NULL && state->joins != NULL)
	{
		ListCell   *lc;

		foreach(lc, css->custom_ps)
			UpdateChangedParamSet(lfirst(lc), css->ss.ps.chgParam);
		joins_forget(state->node.joins, css->ss.ps.chgParam);
	}
	state->sink->methods->reset(state->sink);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	state->ended = state->returning = false;
}

/* ---- for the node above Finalize Aggregate ---- */

/* Consume all of the batch's source. */
static void
run_source(VectorState *state)
{
	NodeInstrumentation *instrument = state->node.css.ss.ps.instrument;

	/* PostgreSQL's executor sees to that where it calls us */
	bool		counted = instrument != NULL && !state->regroups;

	if (counted)
		InstrStartNode(instrument);
	while (!state->ended)
		next_batch(state);
	if (counted)
		InstrStopNode(instrument, state->sink->methods->count(state->sink));
}

/* Aggregate this process's share of the table, if it does not come too late, and wait for the others. */
static void
run_share(VectorState *state)
{
	Exchange   *exchange = state->sink->exchange;

	if (exchange_begin(exchange, exchanged_groups((CustomScan *) state->node.css.ss.ps.plan)))
	{
		run_source(state);
		exchange_put(exchange);
	}
	else
		state->ended = true;
}

/*
 * Aggregate the whole table, for a node that takes the groups by
 * vector_next_group(); with other processes together, each of which then has
 * some of the groups. Does nothing if they are there already.
 */
void
vector_run(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	Assert(css->methods->ExecCustomScan == exec_scan && state->sink->methods->keep_final != NULL &&
		   (!css->ss.ps.plan->parallel_aware || state->sink->exchange != NULL));
	if (css->ss.ps.chgParam != NULL)
		ExecReScan(&css->ss.ps);
	if (state->ended)
		return;
	if (state->sink->exchange != NULL && exchange_is_shared(state->sink->exchange))
	{
		run_share(state);
		return;
	}
	state->sink->methods->keep_final(state->sink, css->ss.ps.plan->plan_rows);
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
		if (!begin_spilled(state))
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

/* Have vector_next_group() leave out groups that are not wanted; some may be returned all the same. */
void
vector_choose_groups(CustomScanState *css, GroupChoice *choice)
{
	((VectorState *) css)->sink->choice = choice;
}

/* ---- parallelism ---- */

/* In shared memory the joins' part comes after the table's, */
static void *
joins_part(VectorState *state, void *coordinate)
{
	return (char *) coordinate + MAXALIGN(state->node.table->shared_size);
}

/* and the sink's after that. */
static void *
sink_part(VectorState *state, void *coordinate)
{
	return (char *) joins_part(state, coordinate) + MAXALIGN(shared_rows_size(state->shared_rows));
}

static Size
estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	VectorState *state = (VectorState *) css;
	Size		size = MAXALIGN(vector_node_estimate_dsm(css, pcxt)) + MAXALIGN(shared_rows_size(state->shared_rows));

	return state->sink->exchange == NULL ? size : size + exchange_shared_size(pcxt->nworkers);
}

static void
initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorState *state = (VectorState *) css;

	vector_node_initialize_dsm(css, pcxt, coordinate);
	if (state->sink->exchange != NULL)
		exchange_share(state->sink->exchange, pcxt, sink_part(state, coordinate),
					   exchanged_groups((CustomScan *) css->ss.ps.plan));
	if (state->shared_rows != NIL)
		shared_rows_share(state->shared_rows, pcxt, joins_part(state, coordinate));
}

static void
reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorState *state = (VectorState *) css;

	vector_node_reinitialize_dsm(css, pcxt, coordinate);
	if (state->sink->exchange != NULL)
		exchange_share_again(state->sink->exchange, pcxt, sink_part(state, coordinate));
	if (state->shared_rows != NIL)
		shared_rows_share_again(state->shared_rows, pcxt, joins_part(state, coordinate));
}

static void
initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	VectorState *state = (VectorState *) css;

	vector_node_initialize_worker(css, toc, coordinate);
	if (state->sink->exchange != NULL)
		exchange_attach(state->sink->exchange, sink_part(state, coordinate));
	if (state->shared_rows != NIL)
		shared_rows_attach(state->shared_rows, joins_part(state, coordinate));
}

static void
shut_down(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	vector_node_shutdown(css);
	if (state->sink->exchange != NULL)
		exchange_detach(state->sink->exchange);
	shared_rows_detach(state->shared_rows);
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
	if (sink->aggregates > 0 || sink->keys > 0)
		appendStringInfo(&buf, "%d of %d aggregates, ", sink->kernel_aggregates, sink->aggregates);
	if (terms > 0)
		appendStringInfo(&buf, "%d of %d filter terms, ", kernels, terms);
	if (sink->keys > 0)
		appendStringInfo(&buf, "%d of %d group keys, ", sink->kernel_keys, sink->keys);
	if (buf.len > 0)
		ExplainPropertyText("Vectorized", pnstrdup(buf.data, buf.len - 2), es);
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

/* How many rows have been returned one by one, as groups did not pay. */
static void
explain_passthrough(const Sink *sink, ExplainState *es)
{
	if (sink->keys > 0 && (sink->passthrough_rows > 0 || es->format != EXPLAIN_FORMAT_TEXT))
		ExplainPropertyUInteger("Rows Not Grouped", NULL, sink->passthrough_rows, es);
}

/* What has been read into the hash table of a join. */
static void
explain_build(const JoinBuild *build, int number, ExplainState *es)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "rows=" INT64_FORMAT " memory=%zukB", build->most_rows, (build->most_bytes + 1023) / 1024);
	if (build->spilled_partitions > 0)
		appendStringInfo(&buf, " partitions=" UINT64_FORMAT " disk=" UINT64_FORMAT "kB",
						 build->spilled_partitions, (build->spilled_bytes + 1023) / 1024);
	ExplainPropertyText(psprintf("Hash Table %d", number), buf.data, es);
}

/* The index by which pages of the table were found, if one was used. */
static void
explain_look_ups(const JoinLookUps *look_ups, ExplainState *es)
{
	uint64		keys;
	uint64		pages;
	const char *index = join_look_ups_used(look_ups, &keys, &pages);
	StringInfoData buf;

	if (index == NULL)
		return;
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyText("Pages by Index", index, es);
		ExplainPropertyUInteger("Keys Looked Up", NULL, keys, es);
		ExplainPropertyUInteger("Pages Found", NULL, pages, es);
		return;
	}
	initStringInfo(&buf);
	appendStringInfo(&buf, "%s keys=" UINT64_FORMAT " pages=" UINT64_FORMAT, quote_identifier(index), keys, pages);
	ExplainPropertyText("Pages by Index", buf.data, es);
	pfree(buf.data);
}

static void
explain_joins(VectorState *state, List *context, bool prefix, ExplainState *es)
{
	int			n = state->joins == NULL ? 0 : list_length(state->joins->specs);

	if (n > 0 && es->analyze && join_key_filter_of(state->node.joins) != NULL)
		ExplainPropertyUInteger("Rows Removed by Join Keys", NULL,
								join_key_filter_removed(join_key_filter_of(state->node.joins)), es);
	if (n > 0 && es->analyze && join_look_ups_of(state->node.joins) != NULL)
		explain_look_ups(join_look_ups_of(state->node.joins), es);
	for (int i = 0; i < n; i++)
	{
		JoinSpec   *spec = list_nth(state->joins->specs, i);
		const char *kind = spec->type == JOIN_INNER ? "Inner" : spec->type == JOIN_LEFT ? "Left" :
			spec->type == JOIN_SEMI ? "Semi" : "Anti";

		vector_node_explain_list(psprintf("%s%s Join %d", spec->reversed ? "Right " : "", kind, i + 1), list_make1(make_ands_explicit(spec->clauses)),
								 context, prefix, es);
		if (spec->plain_quals != NIL)
			vector_node_explain_list(psprintf("Join Filter %d", i + 1),
									 list_make1(make_ands_explicit(spec->plain_quals)), context, prefix, es);
		if (spec->plain_others != NIL)
			vector_node_explain_list(psprintf("Filter %d", i + 1),
									 list_make1(make_ands_explicit(spec->plain_others)), context, prefix, es);
		if (es->analyze)
			explain_build(join_build_of(state->node.joins, n - 1 - i), i + 1, es);
	}
}

/* The columns that are fetched for the rows that filter and joins leave. */
static void
explain_late(CustomScanState *css, List *context, bool prefix, ExplainState *es)
{
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	Oid			table = exec_rt_fetch(cscan->scan.scanrelid, css->ss.ps.state)->relid;
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, late_columns(cscan))
	{
		AttrNumber	attno = lfirst_int(lc);
		Oid			type;
		int32		typmod;
		Oid			collation;

		get_atttypetypmodcoll(table, attno, &type, &typmod, &collation);
		columns = lappend(columns, makeVar(cscan->scan.scanrelid, attno, type, typmod, collation, 0));
	}
	if (columns != NIL)
		vector_node_explain_list("Fetched Columns", columns, context, prefix, es);
}

/* What the processes have exchanged. */
static void
explain_exchanged(const Exchange *exchange, ExplainState *es)
{
	uint64		groups;
	uint64		bytes;
	StringInfoData buf;

	exchange_counts(exchange, &groups, &bytes);
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Exchanged Groups", NULL, groups, es);
		ExplainPropertyUInteger("Exchanged Disk", "kB", (bytes + 1023) / 1024, es);
		return;
	}
	initStringInfo(&buf);
	appendStringInfo(&buf, "groups=" UINT64_FORMAT " disk=" UINT64_FORMAT "kB", groups, (bytes + 1023) / 1024);
	ExplainPropertyText("Exchanged", buf.data, es);
}

/*
 * The columns that the scan needs of the table, among them expressions of the
 * columnar index: those that an index must have for all to be read from it.
 */
static void
explain_table_columns(const VectorState *state, List *context, ExplainState *es)
{
	const VectorNode *node = &state->node;
	TupleDesc	tupdesc = RelationGetDescr(node->css.ss.ss_currentRelation);
	Bitmapset  *attnos = bms_copy(node->late);
	int			attno = -1;
	List	   *names = NIL;

	for (int i = 0; i < node->read->ncolumns; i++)
	{
		if (node->read->columns[i].attno != node->place)
			attnos = bms_add_member(attnos, node->read->columns[i].attno);
	}
	while ((attno = bms_next_member(attnos, attno)) >= 0)
		names = lappend(names, attno <= tupdesc->natts ? NameStr(TupleDescAttr(tupdesc, attno - 1)->attname) :
						deparse_expression(list_nth(node->expressions, attno - tupdesc->natts - 1), context, false, false));
	ExplainPropertyList("Table Columns", names, es);
}

static void
explain_scan(CustomScanState *css, List *ancestors, ExplainState *es)
{
	VectorState *state = (VectorState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);
	bool		prefix = list_length(es->rtable) > 1 || es->verbose;
	List	   *outputs = output_exprs(cscan);
	List	   *keys = returns_rows(cscan) ? NIL : key_exprs(outputs);
	List	   *distinct = distinct_exprs(outputs);
	List	   *ordered = ordered_sets(outputs);
	List	   *clauses = filter_clauses(cscan);

	if (keys != NIL)
		vector_node_explain_list("Group Key", keys, context, prefix, es);
	if (distinct != NIL)
		vector_node_explain_list("Distinct", distinct, context, prefix, es);
	if (ordered != NIL)
		vector_node_explain_list("Ordered Set", ordered, context, prefix, es);
	if (state->sink->exchange != NULL)
		ExplainPropertyText("Exchange", state->regroups ? "by group key and distinct value" : "by group key", es);
	vector_node_explain_filter(&state->node, "Filter", clauses, context, prefix, es);
	if (OidIsValid(vector_scan_index(cscan)))
		ExplainPropertyText("Columns", get_rel_name(vector_scan_index(cscan)), es);
	explain_late(css, context, prefix, es);
	explain_joins(state, context, prefix, es);
	if (es->verbose || es->format != EXPLAIN_FORMAT_TEXT)
		explain_kernels(state, es);
	/* with joins, others read tables, too */
	if (es->verbose && cscan->custom_plans == NIL)
		explain_table_columns(state, context, es);
	if (es->analyze)
	{
		state->node.table->methods->explain(state->node.table, es);
		explain_spilled(state->sink, es);
		explain_passthrough(state->sink, es);
		if (state->sink->exchange != NULL)
			explain_exchanged(state->sink->exchange, es);
	}
}

/* Of both kinds of nodes: EXPLAIN shows the names of their plans. */
static const CustomExecMethods exec_methods = {
	.CustomName = "VectorAggregate",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = estimate_dsm,
	.InitializeDSMCustomScan = initialize_dsm,
	.ReInitializeDSMCustomScan = reinitialize_dsm,
	.InitializeWorkerCustomScan = initialize_worker,
	.ShutdownCustomScan = shut_down,
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
