/*-------------------------------------------------------------------------
 *
 * execute.c
 *	  The executor node: pages in, one row a group out.
 *
 * Work goes a page at a time: filter, find the groups, advance the states.
 * When the scan has ended the groups are handed up. Rows that found no room
 * because the groups outgrew hash_mem are handed up before that, one by one
 * (group.c), or, for the node that wants whole groups (finish.c), kept in
 * files and aggregated afterwards (spill.c).
 *
 * In a parallel plan the pages are shared out as for a parallel sequential
 * scan; each process has groups of its own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tableam.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "storage/predicate.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "vector/vector.h"

/* What processes of a parallel plan share. */
typedef struct SharedState
{
	pg_atomic_uint64 all_visible;
	pg_atomic_uint64 checked;
	ParallelBlockTableScanDescData scan;
} SharedState;

/* One column of the output. */
typedef struct Output
{
	int			key;			/* index of a group key, or -1 */
	VectorAgg  *agg;			/* perhaps another output's too */
} Output;

typedef enum
{
	PHASE_SCAN,
	PHASE_OVERFLOW,				/* handing up rows that found no room */
	PHASE_FINAL,				/* handing up all groups */
	PHASE_DONE
} Phase;

typedef struct VectorState
{
	CustomScanState css;
	MemoryContext context;		/* the plan's, for what is begun late */
	Batch		batch;
	HeapTupleHeader tuples[BATCH_ROWS];
	VectorScan *scan;
	SharedState *shared;
	bool		in_worker;

	VectorFilter *filter;
	int			noutputs;
	Output	   *outputs;
	int			naggs;			/* several outputs may share one */
	VectorAgg **aggs;
	int		   *aggtransnos;
	bool		uses_ids;

	int			nkeys;
	VectorExpr **keys;
	bool	   *key_is_varlena;
	Datum	   *key_values;		/* detoasted */
	GroupTable *groups;			/* NULL without GROUP BY */
	char	   *single;			/* then the only entry */
	Size		single_size;
	MemoryContext single_context;

	/* for vector_run(): rows that found no room are kept in files */
	bool		spills;
	MemoryContext spill_context;
	Spill	   *spill;			/* being written, or NULL */
	List	   *partitions;		/* waiting to be read */
	int			level;			/* how often the rows at hand were written */
	double		expected;		/* of so many groups, at most */
	uint64		spilled_partitions;
	uint64		spilled_bytes;

	Phase		phase;
	int			noverflow;
	int			next_overflow;
	int			next_chunk;
	Size		next_offset;
	uint64		all_visible;	/* of scans that have ended */
	uint64		checked;
} VectorState;

static Node *create_state(CustomScan *cscan);

const CustomScanMethods vector_scan_methods = {
	.CustomName = "VectorAggregate",
	.CreateCustomScanState = create_state,
};

/* The plan's terms of the filter. */
static List *
filter_clauses(CustomScan *cscan)
{
	List	   *clauses = NIL;
	int			noutputs = intVal(linitial(cscan->custom_private));

	for (int i = noutputs; i < list_length(cscan->custom_scan_tlist); i++)
		clauses = lappend(clauses, list_nth_node(TargetEntry, cscan->custom_scan_tlist, i)->expr);

	return clauses;
}

static void
add_attnos(Node *node, Bitmapset **attnos)
{
	ListCell   *lc;

	foreach(lc, pull_var_clause(node, PVC_RECURSE_AGGREGATES))
		* attnos = bms_add_member(*attnos, lfirst_node(Var, lc)->varattno);
}

static void
init_entry(void *arg, char *entry)
{
	VectorState *state = arg;

	for (int i = 0; i < state->naggs; i++)
		vector_agg_init(state->aggs[i], entry);
}

/* Does another aggregate of the plan share the transition of this one, and want its squares? */
static bool
shares_squares(Aggref *aggref, List *tlist)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		Aggref	   *other = (Aggref *) lfirst_node(TargetEntry, lc)->expr;

		if (IsA(other, Aggref) && other->aggtransno == aggref->aggtransno &&
			!vector_agg_only_avg(other))
			return true;
	}
	return false;
}

static void
begin_scan(CustomScanState *css, EState *estate, int eflags)
{
	VectorState *state = (VectorState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	Relation	rel = css->ss.ss_currentRelation;
	TupleDesc	tupdesc;
	List	   *clauses = filter_clauses(cscan);
	Bitmapset  *attnos = NULL;
	Bitmapset  *filter_attnos = NULL;
	Oid		   *types;
	Oid		   *collations;
	int			offset;
	ListCell   *lc;

	/*
	 * a copy, whose missing values stay where they are when the cache entry
	 * is rebuilt
	 */
	tupdesc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
	state->context = CurrentMemoryContext;
	add_attnos((Node *) clauses, &filter_attnos);
	add_attnos((Node *) list_copy_head(cscan->custom_scan_tlist, intVal(linitial(cscan->custom_private))),
			   &attnos);

	state->batch.columns = columns_create(tupdesc, filter_attnos, attnos);
	state->batch.econtext = css->ss.ps.ps_ExprContext;
	state->batch.parent = &css->ss.ps;
	state->batch.slot = ExecInitExtraTupleSlot(estate, tupdesc, &TTSOpsVirtual);
	ExecClearTuple(state->batch.slot);
	memset(state->batch.slot->tts_isnull, true, tupdesc->natts * sizeof(bool));
	ExecStoreVirtualTuple(state->batch.slot);
	state->filter = vector_filter_compile(clauses, &state->batch);

	state->noutputs = intVal(linitial(cscan->custom_private));
	state->outputs = palloc0(sizeof(Output) * Max(state->noutputs, 1));
	state->aggs = palloc0(sizeof(VectorAgg *) * Max(state->noutputs, 1));
	state->aggtransnos = palloc0(sizeof(int) * Max(state->noutputs, 1));
	state->keys = palloc0(sizeof(VectorExpr *) * Max(state->noutputs, 1));
	state->key_is_varlena = palloc0(sizeof(bool) * Max(state->noutputs, 1));
	types = palloc(sizeof(Oid) * Max(state->noutputs, 1));
	collations = palloc(sizeof(Oid) * Max(state->noutputs, 1));
	foreach(lc, cscan->custom_scan_tlist)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;
		Output	   *output = &state->outputs[foreach_current_index(lc)];

		if (foreach_current_index(lc) == state->noutputs)
			break;
		output->key = -1;
		if (IsA(expr, Aggref))
			continue;
		output->key = state->nkeys;
		types[state->nkeys] = exprType((Node *) expr);
		collations[state->nkeys] = exprCollation((Node *) expr);
		state->key_is_varlena[state->nkeys] = get_typlen(types[state->nkeys]) == -1;
		state->keys[state->nkeys++] = vector_expr_compile(expr, &state->batch);
	}

	/* states follow the keys in an entry */
	offset = group_table_states_offset(state->nkeys, types);
	foreach(lc, cscan->custom_scan_tlist)
	{
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;
		Output	   *output = &state->outputs[foreach_current_index(lc)];
		int			size;

		if (foreach_current_index(lc) == state->noutputs)
			break;
		if (output->key >= 0)
			continue;
		/* as in core, aggregates of one transition have one state */
		for (int i = 0; i < state->naggs; i++)
		{
			if (state->aggtransnos[i] == aggref->aggtransno)
				output->agg = state->aggs[i];
		}
		if (output->agg != NULL)
			continue;
		output->agg = vector_agg_compile(aggref, shares_squares(aggref, cscan->custom_scan_tlist),
										 &state->batch, &size);
		vector_agg_set_offset(output->agg, offset);
		offset += MAXALIGN(size);
		state->uses_ids |= vector_agg_uses_ids(output->agg);
		state->aggtransnos[state->naggs] = aggref->aggtransno;
		state->aggs[state->naggs++] = output->agg;
	}

	if (state->nkeys > 0)
	{
		state->groups = group_table_create(state->nkeys, types, collations,
										   offset - group_table_states_offset(state->nkeys, types),
										   init_entry, state);
		state->key_values = palloc(sizeof(Datum) * BATCH_ROWS * state->nkeys);
	}
	else
	{
		state->single = palloc0(offset);
		state->single_size = offset;
		state->single_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion aggregate",
													  ALLOCSET_DEFAULT_SIZES);
		init_entry(state, state->single);
	}
	for (int i = 0; i < state->naggs; i++)
		vector_agg_set_context(state->aggs[i], state->groups != NULL ?
							   group_table_context(state->groups) : state->single_context,
							   state->groups);
	state->phase = PHASE_SCAN;
}

/* ---- work ---- */

/* Spill the rows of the batch that have no entry, and keep the others. */
static void
spill_some(VectorState *state, char **entries)
{
	Batch	   *batch = &state->batch;
	uint16		without[BATCH_ROWS];
	uint16		with[BATCH_ROWS];
	int			nwithout = 0;
	int			nwith = 0;

	for (int i = 0; i < batch->n; i++)
	{
		if (entries[i] == NULL)
			without[nwithout++] = i;
		else
		{
			entries[nwith] = entries[i];
			with[nwith++] = i;
		}
	}
	if (state->spill == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(state->spill_context);

		state->spill = spill_begin(batch->columns, state->level + 1, state->expected,
								   group_table_count(state->groups), group_table_limit(state->groups));
		MemoryContextSwitchTo(old);
	}
	spill_rows(state->spill, without, nwithout, group_table_tags(state->groups));
	group_table_clear_overflow(state->groups);
	columns_compact(batch->columns, with, nwith, true);
	batch->n = nwith;
	batch->serial++;
}

/* Group and aggregate the rows of the batch. */
static void
aggregate_batch(VectorState *state)
{
	Batch	   *batch = &state->batch;
	char	   *entries[BATCH_ROWS];
	uint8		ids[BATCH_ROWS];
	RowGroups	groups = {.single = state->single,.entries = entries,.ids = ids};

	if (state->groups != NULL)
	{
		Values		keys[GROUP_MAX_KEYS];

		for (int k = 0; k < state->nkeys; k++)
		{
			vector_expr_eval(state->keys[k], batch, NULL, batch->n, &keys[k]);
			if (state->key_is_varlena[k])
			{
				Datum	   *values = state->key_values + k * BATCH_ROWS;

				for (int i = 0; i < batch->n; i++)
					values[i] = keys[k].nulls[i] ? (Datum) 0 :
						PointerGetDatum(PG_DETOAST_DATUM_PACKED(keys[k].values[i]));
				keys[k].values = values;
			}
		}
		state->noverflow = group_table_find(state->groups, keys, batch->n, entries);
		if (state->noverflow > 0 && state->spills)
		{
			spill_some(state, entries);
			state->noverflow = 0;
			if (batch->n == 0)
				return;
		}
		if (state->uses_ids)
			groups.nids = group_table_ids(state->groups, entries, batch->n, ids, &groups.by_id);
	}
	for (int i = 0; i < state->naggs; i++)
		vector_agg_advance(state->aggs[i], batch, &groups);
}

/* Filter, group and aggregate the visible rows of a page. */
static void
do_page(VectorState *state, int n)
{
	Batch	   *batch = &state->batch;
	int			removed;
	MemoryContext old;

	/*
	 * what is detoasted or computed on the way is forgotten with the next
	 * page
	 */
	ResetExprContext(batch->econtext);
	old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);
	columns_begin_batch(batch->columns, state->tuples, n, vector_scan_ahead(state->scan));
	batch->n = n;
	batch->serial++;
	removed = vector_filter_batch(state->filter, batch);
	vector_scan_fetched_ahead(state->scan, columns_fetched_ahead(batch->columns));
	InstrCountFiltered1(&state->css, removed);
	if (batch->n > 0)
		aggregate_batch(state);
	MemoryContextSwitchTo(old);
}

/* Keys and states of an entry, allocated in the current context. */
static void
get_outputs(VectorState *state, char *entry, Datum *values, bool *isnull)
{
	for (int i = 0; i < state->noutputs; i++)
	{
		Output	   *output = &state->outputs[i];

		if (output->key >= 0)
			values[i] = group_key(state->groups, entry, output->key, &isnull[i]);
		else
			values[i] = vector_agg_output(output->agg, entry, &isnull[i]);
	}
}

/* An entry as a row of the scan slot. */
static TupleTableSlot *
hand_up(VectorState *state, char *entry)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	ExprContext *econtext = state->css.ss.ps.ps_ExprContext;
	MemoryContext old;

	ExecClearTuple(slot);

	/*
	 * keys of overflowing rows live in the batch's memory until all are
	 * handed up
	 */
	if (state->phase != PHASE_OVERFLOW)
		ResetExprContext(econtext);
	old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
	get_outputs(state, entry, slot->tts_values, slot->tts_isnull);
	MemoryContextSwitchTo(old);
	/* terms of the filter are described as columns, and are none */
	for (int i = state->noutputs; i < slot->tts_tupleDescriptor->natts; i++)
		slot->tts_isnull[i] = true;
	ExecStoreVirtualTuple(slot);

	if (state->css.ss.ps.ps_ProjInfo == NULL)
		return slot;
	econtext->ecxt_scantuple = slot;
	return ExecProject(state->css.ss.ps.ps_ProjInfo);
}

/* Remember what a scan has counted, and end it. */
static void
end_pages(VectorState *state)
{
	uint64		all_visible;
	uint64		checked;

	if (state->scan == NULL)
		return;
	vector_scan_counts(state->scan, &all_visible, &checked);
	vector_scan_end(state->scan);
	state->scan = NULL;
	if (state->in_worker)
	{
		pg_atomic_fetch_add_u64(&state->shared->all_visible, all_visible);
		pg_atomic_fetch_add_u64(&state->shared->checked, checked);
	}
	else
	{
		state->all_visible += all_visible;
		state->checked += checked;
	}
}

static void
begin_pages(VectorState *state)
{
	MemoryContext old = MemoryContextSwitchTo(state->context);

	state->scan = vector_scan_begin(state->css.ss.ss_currentRelation,
									state->css.ss.ps.state->es_snapshot,
									state->shared != NULL ? &state->shared->scan : NULL,
									columns_count(state->batch.columns) > 0);
	MemoryContextSwitchTo(old);
}

static void
rewind_groups(VectorState *state)
{
	state->phase = PHASE_FINAL;
	state->next_chunk = 0;
	state->next_offset = 0;
}

/* All rows at hand are aggregated: what was spilled of them waits. */
static void
end_spill(VectorState *state)
{
	MemoryContext old;
	List	   *partitions;

	if (state->spill == NULL)
		return;
	old = MemoryContextSwitchTo(state->spill_context);
	partitions = spill_end(state->spill, &state->spilled_bytes);
	state->spilled_partitions += list_length(partitions);
	/* before those of other partitions: there are never many files */
	state->partitions = list_concat(partitions, state->partitions);
	state->spill = NULL;
	MemoryContextSwitchTo(old);
}

/* Replace the groups by those of a partition that was spilled. */
static void
next_partition(VectorState *state)
{
	Batch	   *batch = &state->batch;
	SpillPartition *partition = linitial(state->partitions);
	MemoryContext old = CurrentMemoryContext;

	state->level = spill_level(partition);
	state->expected = spill_count(partition);
	group_table_reset(state->groups);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(batch->econtext);
		MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);
		batch->n = spill_read(partition, batch->columns);
		if (batch->n == 0)
			break;
		batch->serial++;
		aggregate_batch(state);
	}
	MemoryContextSwitchTo(old);
	state->partitions = list_delete_first(state->partitions);
	spill_close(partition);
	end_spill(state);
	rewind_groups(state);
}

/* Aggregate the next page, and see what is to be done then. */
static void
scan_page(VectorState *state)
{
	int			n;

	if (state->scan == NULL)
		begin_pages(state);
	n = vector_scan_next(state->scan, state->tuples);
	if (n < 0)
	{
		end_pages(state);
		end_spill(state);
		rewind_groups(state);
	}
	else if (n > 0)
	{
		do_page(state, n);
		if (state->groups != NULL && state->noverflow > 0)
		{
			state->phase = PHASE_OVERFLOW;
			state->next_overflow = 0;
		}
	}
}

static TupleTableSlot *
exec_scan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;
	char	   *entry;

	for (;;)
	{
		switch (state->phase)
		{
			case PHASE_SCAN:
				scan_page(state);
				break;
			case PHASE_OVERFLOW:
				if (state->next_overflow < state->noverflow)
					return hand_up(state, group_table_overflow(state->groups, state->next_overflow++));
				group_table_clear_overflow(state->groups);
				state->noverflow = 0;
				state->phase = PHASE_SCAN;
				break;
			case PHASE_FINAL:
				if (state->groups == NULL)
				{
					/* without GROUP BY there is one row, whatever was read */
					state->phase = PHASE_DONE;
					return hand_up(state, state->single);
				}
				entry = group_table_next(state->groups, &state->next_chunk, &state->next_offset);
				if (entry != NULL)
					return hand_up(state, entry);
				state->phase = PHASE_DONE;
				break;
			case PHASE_DONE:
				return NULL;
		}
	}
}

/* Forget what was spilled. */
static void
drop_partitions(VectorState *state)
{
	ListCell   *lc;

	Assert(state->spill == NULL);
	foreach(lc, state->partitions)
		spill_close(lfirst(lc));
	state->partitions = NIL;
	if (state->spill_context != NULL)
		MemoryContextReset(state->spill_context);
	state->level = 0;
}

static void
end_scan(CustomScanState *css)
{
	end_pages((VectorState *) css);
	drop_partitions((VectorState *) css);
}

static void
rescan(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	end_pages(state);
	drop_partitions(state);
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	state->noverflow = 0;
	if (state->groups != NULL)
		group_table_reset(state->groups);
	else
	{
		MemoryContextReset(state->single_context);
		memset(state->single, 0, state->single_size);
		init_entry(state, state->single);
	}
	state->phase = PHASE_SCAN;
}

/* ---- for the node above Finalize Aggregate ---- */

/*
 * Aggregate the whole table, for a node that takes the groups by
 * vector_next_group(). Does nothing if they are there already.
 */
void
vector_run(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;
	Instrumentation *instrument = css->ss.ps.instrument;

	Assert(css->methods->ExecCustomScan == exec_scan && state->groups != NULL && state->shared == NULL);
	if (css->ss.ps.chgParam != NULL)
		ExecReScan(&css->ss.ps);
	if (state->phase != PHASE_SCAN)
		return;
	if (instrument != NULL)
		InstrStartNode(instrument);
	if (state->spill_context == NULL)
		state->spill_context = AllocSetContextCreate(state->context, "pgbillion spilled rows",
													 ALLOCSET_DEFAULT_SIZES);
	group_table_spill(state->groups);
	state->spills = true;
	state->expected = css->ss.ps.plan->plan_rows;
	while (state->phase == PHASE_SCAN)
		scan_page(state);
	Assert(state->phase == PHASE_FINAL);
	if (instrument != NULL)
		InstrStopNode(instrument, group_table_count(state->groups));
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
	Instrumentation *instrument = css->ss.ps.instrument;
	char	   *entry;

	while ((entry = group_table_next(state->groups, &state->next_chunk, &state->next_offset)) == NULL)
	{
		if (state->partitions == NIL)
			return false;
		if (instrument != NULL)
			InstrStartNode(instrument);
		next_partition(state);
		if (instrument != NULL)
			InstrStopNode(instrument, group_table_count(state->groups));
	}
	get_outputs(state, entry, values, isnull);

	return true;
}

/* Begin again with the first group, which is kept unless some were spilled. */
void
vector_rewind(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	if (state->level > 0 || state->partitions != NIL)
		ExecReScan(&css->ss.ps);
	else
		rewind_groups(state);
}

/* ---- parallelism ---- */

static Size
estimate_dsm(CustomScanState *css, ParallelContext *pcxt)
{
	return sizeof(SharedState);
}

static void
initialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorState *state = (VectorState *) css;

	state->shared = coordinate;
	pg_atomic_init_u64(&state->shared->all_visible, 0);
	pg_atomic_init_u64(&state->shared->checked, 0);

	/*
	 * locked before its pages are counted: who adds one afterwards finds the
	 * lock
	 */
	PredicateLockRelation(css->ss.ss_currentRelation, css->ss.ps.state->es_snapshot);
	(void) source_read_lazy(css->ss.ss_currentRelation, css->ss.ps.state->es_snapshot);
	table_block_parallelscan_initialize(css->ss.ss_currentRelation,
										(ParallelTableScanDesc) &state->shared->scan);
}

static void
reinitialize_dsm(CustomScanState *css, ParallelContext *pcxt, void *coordinate)
{
	VectorState *state = (VectorState *) css;

	state->shared = coordinate;
	table_block_parallelscan_reinitialize(css->ss.ss_currentRelation,
										  (ParallelTableScanDesc) &state->shared->scan);
}

static void
initialize_worker(CustomScanState *css, shm_toc *toc, void *coordinate)
{
	VectorState *state = (VectorState *) css;

	state->shared = coordinate;
	state->in_worker = true;
}

/* The shared memory is about to go: keep what EXPLAIN will ask for. */
static void
shutdown(CustomScanState *css)
{
	VectorState *state = (VectorState *) css;

	end_pages(state);
	if (state->shared != NULL && !state->in_worker)
	{
		state->all_visible += pg_atomic_exchange_u64(&state->shared->all_visible, 0);
		state->checked += pg_atomic_exchange_u64(&state->shared->checked, 0);
		state->shared = NULL;
	}
}

/* ---- EXPLAIN ---- */

static void
explain_list(const char *label, List *exprs, const char *separator, List *context, bool prefix, ExplainState *es)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, exprs)
	{
		if (foreach_current_index(lc) > 0)
			appendStringInfoString(&buf, separator);
		appendStringInfoString(&buf, deparse_expression(lfirst(lc), context, prefix, false));
	}
	ExplainPropertyText(label, buf.data, es);
}

static void
explain_scan(CustomScanState *css, List *ancestors, ExplainState *es)
{
	VectorState *state = (VectorState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);
	bool		prefix = list_length(es->rtable) > 1 || es->verbose;
	List	   *keys = NIL;
	List	   *clauses = filter_clauses(cscan);
	int			kernels;
	int			terms;
	int			ninline = 0;
	StringInfoData buf;

	for (int i = 0; i < state->noutputs; i++)
	{
		TargetEntry *tle = list_nth_node(TargetEntry, cscan->custom_scan_tlist, i);

		if (!IsA(tle->expr, Aggref))
			keys = lappend(keys, tle->expr);
	}
	if (keys != NIL)
		explain_list("Group Key", keys, ", ", context, prefix, es);
	if (clauses != NIL)
	{
		explain_list("Filter", list_make1(make_ands_explicit(clauses)), "", context, prefix, es);
		if (es->analyze && css->ss.ps.instrument != NULL)
		{
			double		nloops = css->ss.ps.instrument->nloops;
			double		removed = css->ss.ps.instrument->nfiltered1;

			if (removed > 0 || es->format != EXPLAIN_FORMAT_TEXT)
				ExplainPropertyFloat("Rows Removed by Filter", NULL, nloops > 0 ? removed / nloops : 0, 0, es);
		}
	}

	if (es->verbose || es->format != EXPLAIN_FORMAT_TEXT)
	{
		vector_filter_kernels(state->filter, &kernels, &terms);
		initStringInfo(&buf);
		for (int i = 0; i < state->noutputs; i++)
			ninline += state->outputs[i].agg != NULL && vector_agg_is_kernel(state->outputs[i].agg);
		appendStringInfo(&buf, "%d of %d aggregates", ninline, state->noutputs - state->nkeys);
		if (terms > 0)
			appendStringInfo(&buf, ", %d of %d filter terms", kernels, terms);
		if (state->nkeys > 0)
		{
			ninline = 0;
			for (int i = 0; i < state->nkeys; i++)
				ninline += vector_expr_is_kernel(state->keys[i]);
			appendStringInfo(&buf, ", %d of %d group keys", ninline, state->nkeys);
		}
		ExplainPropertyText("Vectorised", buf.data, es);
	}
	if (es->analyze)
	{
		if (es->format == EXPLAIN_FORMAT_TEXT)
		{
			initStringInfo(&buf);
			appendStringInfo(&buf, "all-visible=" UINT64_FORMAT " checked=" UINT64_FORMAT,
							 state->all_visible, state->checked);
			ExplainPropertyText("Heap Pages", buf.data, es);
			if (state->spilled_partitions > 0)
			{
				resetStringInfo(&buf);
				appendStringInfo(&buf, "partitions=" UINT64_FORMAT " disk=" UINT64_FORMAT "kB",
								 state->spilled_partitions, (state->spilled_bytes + 1023) / 1024);
				ExplainPropertyText("Spilled", buf.data, es);
			}
		}
		else
		{
			ExplainPropertyUInteger("Heap Pages All-Visible", NULL, state->all_visible, es);
			ExplainPropertyUInteger("Heap Pages Checked", NULL, state->checked, es);
			ExplainPropertyUInteger("Spilled Partitions", NULL, state->spilled_partitions, es);
			ExplainPropertyUInteger("Spilled Disk", "kB", (state->spilled_bytes + 1023) / 1024, es);
		}
	}
}

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
	.ShutdownCustomScan = shutdown,
	.ExplainCustomScan = explain_scan,
};

static Node *
create_state(CustomScan *cscan)
{
	VectorState *state = palloc0(sizeof(VectorState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}
