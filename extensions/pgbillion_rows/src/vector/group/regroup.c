/*-------------------------------------------------------------------------
 *
 * regroup.c
 *	  The sink of aggregates with DISTINCT in a parallel plan.
 *
 * Two sinks, one above the other. The lower one groups rows by the keys and the
 * value that is to be DISTINCT, and has the processes exchange these groups, so
 * that each pair of keys and a value is in one process only (exchange.c). Then
 * each process groups what it has by the keys alone: an aggregate with DISTINCT
 * is advanced by the value of each pair, and others combine their states. No two
 * processes have seen the same value of a group: their states are partial ones
 * as if there were no DISTINCT, which PostgreSQL's Finalize Aggregate combines.
 *
 * Memory: each sink has half of hash_mem for its groups. What finds no room is
 * the exchange's affair below, and returned row by row above; without other
 * processes rows are spilled below, as where groups are final.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "compat.h"
#include "vector/aggregate/aggregate.h"
#include "vector/group/group_sink.h"
#include "vector/group/group_table.h"
#include "vector/group/regroup.h"

typedef struct Regroup
{
	Sink		sink;
	Sink	   *pairs;			/* the sink below */
	Sink	   *groups;			/* the one above */
	Batch		batch;			/* of the pairs: keys, value, and the address
								 * of the entry that has the states */
	Source		source;			/* of that: it is filled here */
	int			nkeys;			/* of a pair */
	MemoryContext context;		/* of what is done with a batch */
	bool		finished;		/* the sink above has all of it */
} Regroup;

/* ---- for the planner ---- */

static bool
is_distinct(Expr *expr)
{
	return IsA(expr, Aggref) && ((Aggref *) expr)->aggdistinct != NIL;
}

/*
 * The one expression whose values are to be DISTINCT in these outputs, or NULL if there are several, or rows are left
 * out by FILTER.
 */
Expr *
regroup_argument(List *outputs)
{
	Expr	   *found = NULL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		Aggref	   *aggref = lfirst(lc);
		Expr	   *argument;

		if (!is_distinct((Expr *) aggref))
			continue;
		argument = linitial_node(TargetEntry, aggref->args)->expr;
		if (aggref->aggfilter != NULL || (found != NULL && !equal(found, argument)))
			return NULL;
		found = argument;
	}
	return found;
}

/* ---- consuming ---- */

static bool
consume(Sink *sink, Batch *batch)
{
	Sink	   *pairs = ((Regroup *) sink)->pairs;

	return pairs->methods->consume(pairs, batch);
}

static void
finish(Sink *sink)
{
	Sink	   *pairs = ((Regroup *) sink)->pairs;

	pairs->methods->finish(pairs);
}

static void
keep_final(Sink *sink, double expected)
{
	Sink	   *pairs = ((Regroup *) sink)->pairs;

	pairs->methods->keep_final(pairs, expected);
}

static Source *
next_source(Sink *sink)
{
	Sink	   *pairs = ((Regroup *) sink)->pairs;

	return pairs->methods->spilled_source(pairs);
}

static int64
count(Sink *sink)
{
	Sink	   *pairs = ((Regroup *) sink)->pairs;

	return pairs->methods->count(pairs);
}

/* ---- returning ---- */

/* Have the next pairs in the batch; false if there are none for now. */
static bool
next_pairs(Regroup *regroup)
{
	Batch	   *batch = &regroup->batch;
	char	   *entries[BATCH_ROWS];
	int			n = group_sink_next_entries(regroup->pairs, entries, BATCH_ROWS);

	for (int c = 0; c < batch->ncolumns; c++)
	{
		Column	   *column = &batch->columns[c];

		column->loaded = true;
		column->has_nulls = false;
		for (int i = 0; i < n; i++)
		{
			bool		isnull = false;

			column->values[i] = c < regroup->nkeys ? group_sink_key(regroup->pairs, entries[i], c, &isnull) :
				PointerGetDatum(entries[i]);
			column->nulls[i] = isnull;
			column->has_nulls |= isnull;
			column->dirty |= isnull;
		}
	}
	batch->source = &regroup->source;
	batch->n = n;
	batch->serial++;

	return n > 0;
}

/* Have the sink above return rows, if need be after it has taken more pairs; false if there are none for now. */
static bool
next(Sink *sink, Datum *values, bool *isnull)
{
	Regroup    *regroup = (Regroup *) sink;
	Sink	   *groups = regroup->groups;

	while (!groups->methods->next(groups, values, isnull))
	{
		MemoryContext old;

		if (regroup->finished)
			return false;
		MemoryContextReset(regroup->context);
		old = MemoryContextSwitchTo(regroup->context);
		if (next_pairs(regroup))
			(void) groups->methods->consume(groups, &regroup->batch);
		else if (!group_sink_has_spilled(regroup->pairs))
		{
			groups->methods->finish(groups);
			regroup->finished = true;
		}
		MemoryContextSwitchTo(old);
		if (regroup->batch.n == 0 && !regroup->finished)
			return false;
	}
	return true;
}

static void
reset(Sink *sink)
{
	Regroup    *regroup = (Regroup *) sink;

	regroup->pairs->methods->reset(regroup->pairs);
	regroup->groups->methods->reset(regroup->groups);
	regroup->finished = false;
}

static void
end(Sink *sink)
{
	Regroup    *regroup = (Regroup *) sink;

	regroup->pairs->methods->end(regroup->pairs);
	regroup->groups->methods->end(regroup->groups);
}

static const SinkMethods regroup_methods = {
	.consume = consume,
	.finish = finish,
	.next = next,
	.spilled_source = next_source,
	.reset = reset,
	.end = end,
	.keep_final = keep_final,
	.count = count,
};

/* ---- compilation ---- */

/* The number of a key, from 1 on. */
static AttrNumber
position_of(List *keys, Expr *expr)
{
	ListCell   *lc;

	foreach(lc, keys)
	{
		if (lfirst(lc) == expr)
			return foreach_current_index(lc) + 1;
	}
	elog(ERROR, "group key not found");
}

/* A column of the batch of pairs in place of an expression. */
static Expr *
column_for(Expr *expr, AttrNumber attno)
{
	return (Expr *) makeVar(1, attno, exprType((Node *) expr), exprTypmod((Node *) expr),
							exprCollation((Node *) expr), 0);
}

/* The batch of pairs, whose keys are these. */
static void
init_batch(Regroup *regroup, List *keys, Batch *batch)
{
	int			natts = list_length(keys) + 1;
	TupleDesc	tupdesc = CreateTemplateTupleDesc(natts);
	Bitmapset  *attnos = NULL;
	ListCell   *lc;

	foreach(lc, keys)
		TupleDescInitEntry(tupdesc, foreach_current_index(lc) + 1, NULL, exprType(lfirst(lc)),
						   exprTypmod(lfirst(lc)), 0);
	TupleDescInitEntry(tupdesc, natts, NULL, INT8OID, -1, 0);
	TupleDescFinalize(tupdesc);
	attnos = bms_add_range(attnos, 1, natts);
	batch_init(&regroup->batch, tupdesc, NULL, attnos, batch->parent);
	regroup->nkeys = list_length(keys);
}

/* What the sink above has of an aggregate: the value in place of its argument, or the address of its states. */
static Aggref *
aggregate_above(Aggref *aggref, int nkeys)
{
	Aggref	   *result = makeNode(Aggref);
	Expr	   *argument;

	memcpy(result, aggref, sizeof(Aggref));
	if (aggref->aggdistinct != NIL)
		argument = column_for(linitial_node(TargetEntry, aggref->args)->expr, nkeys);
	else
		argument = (Expr *) makeVar(1, nkeys + 1, INT8OID, -1, InvalidOid, 0);
	result->args = list_make1(makeTargetEntry(argument, 1, NULL, false));
	result->aggdistinct = NIL;
	result->aggfilter = NULL;

	return result;
}

/* Have the states of aggregates without DISTINCT combined with those below, in whose outputs they come after the keys. */
static void
take_states(Regroup *regroup, List *outputs)
{
	int			below = regroup->nkeys;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (IsA(lfirst(lc), Aggref) && !is_distinct(lfirst(lc)))
			aggregates_take_states(regroup->groups->states, foreach_current_index(lc), regroup->pairs->states, below++,
								   batch_index(&regroup->batch, regroup->nkeys + 1));
	}
}

/* Let the groups of a sink have half of what they may have. */
static void
share_memory(Sink *sink)
{
	GroupTable *table = group_sink_table(sink);

	group_table_set_limit(table, group_table_limit(table) / 2);
}

/*
 * The sink of outputs of which some have DISTINCT, for processes that exchange groups. Memory belongs to the current
 * context.
 */
Sink *
regroup_create(List *outputs, Batch *batch)
{
	static const SourceMethods filled_methods = {0};
	Regroup    *regroup = palloc0(sizeof(Regroup));
	Expr	   *argument = regroup_argument(outputs);
	List	   *keys = NIL;
	List	   *states = NIL;
	List	   *above = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (!IsA(lfirst(lc), Aggref))
			keys = lappend(keys, lfirst(lc));
		else if (!is_distinct(lfirst(lc)))
			states = lappend(states, lfirst(lc));
	}
	/* the value comes after the keys */
	keys = lappend(keys, argument);
	init_batch(regroup, keys, batch);
	foreach(lc, outputs)
	{
		Expr	   *expr = lfirst(lc);

		if (IsA(expr, Aggref))
			above = lappend(above, aggregate_above((Aggref *) expr, regroup->nkeys));
		else
			above = lappend(above, column_for(expr, position_of(keys, expr)));
	}
	regroup->source.methods = &filled_methods;
	regroup->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion pairs", ALLOCSET_DEFAULT_SIZES);
	regroup->pairs = group_sink_create(list_concat_copy(keys, states), batch, true, true);
	regroup->groups = regroup->nkeys == 1 ? one_group_create(above, &regroup->batch, true) :
		group_sink_create(above, &regroup->batch, false, true);
	regroup->groups->passthrough_after = -1;
	if (regroup->nkeys > 1)
	{
		share_memory(regroup->pairs);
		share_memory(regroup->groups);
	}
	take_states(regroup, outputs);

	regroup->sink.methods = &regroup_methods;
	regroup->sink.exchange = regroup->pairs->exchange;
	regroup->sink.aggregates = regroup->groups->aggregates;
	regroup->sink.kernel_aggregates = regroup->groups->kernel_aggregates;
	regroup->sink.keys = regroup->pairs->keys;
	regroup->sink.kernel_keys = regroup->pairs->kernel_keys;

	return &regroup->sink;
}
