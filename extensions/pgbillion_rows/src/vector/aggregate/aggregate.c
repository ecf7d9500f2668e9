/*-------------------------------------------------------------------------
 *
 * aggregate.c
 *	  The table of aggregates, and those of a plan.
 *
 * An aggregate is recognized by its transition function, so that any aggregate
 * built on one of PostgreSQL's is vectorized.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "planner/aggregates.h"
#include "vector/aggregate/aggregate.h"
#include "vector/aggregate/ordered_set.h"

static const AggKind *const families[] = {
	count_kinds,
	integer_kinds,
	float_kinds,
	numeric_kinds,
	extreme_kinds,
	extreme_numeric_kinds,
	extreme_text_kinds,
	by_row_kinds,
};

/* ---- what is known of aggregates ---- */

/* The kind of a transition function, or NULL. */
static const AggKind *
find_kind(Oid transition)
{
	Oid			function = aggregate_core_function(transition);

	for (int f = 0; f < lengthof(families); f++)
	{
		for (const AggKind *kind = families[f]; OidIsValid(kind->transitions[0]); kind++)
		{
			for (int i = 0; i < lengthof(kind->transitions); i++)
			{
				if (kind->transitions[i] == function && OidIsValid(function))
					return kind;
			}
		}
	}
	return NULL;
}

/* The row of pg_aggregate; the caller releases it. */
static HeapTuple
aggregate_tuple(Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	return tuple;
}

static Oid
transition_of(HeapTuple tuple)
{
	return ((Form_pg_aggregate) GETSTRUCT(tuple))->aggtransfn;
}

/*
 * Do states begin as those of the kind do? count() starts with 0, a sum with
 * nothing; other beginnings are somebody's own.
 */
static bool
begins_alike(const AggKind *kind, HeapTuple tuple)
{
	bool		isnull;
	Datum		initial = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &isnull);

	if (isnull || kind->initial == NULL)
		return isnull && kind->initial == NULL;
	return strcmp(TextDatumGetCString(initial), kind->initial) == 0;
}

/* Why an aggregate cannot be vectorized, or NULL. */
const char *
aggregate_refusal_of(Aggref *aggref)
{
	HeapTuple	tuple;
	const AggKind *kind;
	bool		known;

	if (ordered_set_is_known(aggref))
		return ordered_set_refusal(aggref);
	tuple = aggregate_tuple(aggref);
	kind = find_kind(transition_of(tuple));
	known = kind != NULL &&
		(aggref->aggfnoid < FirstNormalObjectId || begins_alike(kind, tuple));
	ReleaseSysCache(tuple);
	if (!known)
		return psprintf("aggregate %s", format_procedure(aggref->aggfnoid));
	if (list_length(aggref->args) > 1)
		return "an aggregate of several arguments";
	return NULL;
}

/* Does its result depend on the order in which values are added? */
bool
aggregate_adds_floats(Aggref *aggref)
{
	HeapTuple	tuple = aggregate_tuple(aggref);
	const AggKind *kind = find_kind(transition_of(tuple));

	ReleaseSysCache(tuple);
	return kind != NULL && kind->adds_floats;
}

/*
 * May its result depend on the order of rows in more than which of equal values
 * is shown? Of what is not known here, it may.
 */
bool
aggregate_may_depend_on_order(Aggref *aggref)
{
	HeapTuple	tuple;
	const AggKind *kind;
	bool		known;

	/* their rows are sorted, whatever order they come in */
	if (aggref->aggkind != AGGKIND_NORMAL)
		return false;
	tuple = aggregate_tuple(aggref);
	kind = find_kind(transition_of(tuple));
	known = kind != NULL && !kind->by_row && !kind->adds_floats && begins_alike(kind, tuple);
	ReleaseSysCache(tuple);

	return !known;
}

/* Is all that it looks at whether its one argument is NULL? With DISTINCT it is not. */
bool
aggregate_only_counts(Aggref *aggref)
{
	HeapTuple	tuple = aggregate_tuple(aggref);
	const AggKind *kind = find_kind(transition_of(tuple));

	ReleaseSysCache(tuple);
	return kind != NULL && kind->counts && list_length(aggref->args) == 1 && aggref->aggdistinct == NIL;
}

/* Does it count values, whatever they are? */
bool
aggregate_counts(Aggref *aggref)
{
	HeapTuple	tuple = aggregate_tuple(aggref);
	const AggKind *kind = find_kind(transition_of(tuple));

	ReleaseSysCache(tuple);
	return kind == &count_kinds[0];
}

/* Can states be combined that other processes have made? */
bool
aggregate_can_combine(Aggref *aggref)
{
	HeapTuple	tuple = aggregate_tuple(aggref);
	const AggKind *kind = find_kind(transition_of(tuple));

	ReleaseSysCache(tuple);
	Assert(kind == NULL || kind->for_average == NULL ||
		   (kind->combine == NULL) == (kind->for_average->combine == NULL));
	return kind != NULL && kind->combine != NULL;
}

/* ---- the aggregates of a plan ---- */

/* Is avg() all that looks at the state of this aggregate? */
static bool
only_average(Aggref *aggref, List *outputs)
{
	ListCell   *lc;

	foreach(lc, outputs)
	{
		Aggref	   *other = lfirst(lc);

		if (IsA(other, Aggref) && other->aggtransno == aggref->aggtransno &&
			other->aggfnoid != F_AVG_FLOAT4)
			return false;
	}
	return true;
}

static VectorAgg *
compile_aggregate(Aggref *aggref, List *outputs, Batch *batch)
{
	VectorAgg  *agg = palloc0(sizeof(VectorAgg));
	HeapTuple	tuple = aggregate_tuple(aggref);

	agg->kind = find_kind(transition_of(tuple));
	if (agg->kind == NULL)
		elog(ERROR, "aggregate %u cannot be vectorized", aggref->aggfnoid);
	if (agg->kind->for_average != NULL && only_average(aggref, outputs))
		agg->kind = agg->kind->for_average;
	if (agg->kind->prepare != NULL)
		agg->kind->prepare(agg, aggref, tuple);
	ReleaseSysCache(tuple);

	agg->others = -1;
	agg->distinct = aggref->aggdistinct != NIL;
	if (aggref->args != NIL)
		agg->argument = vector_expr_compile(linitial_node(TargetEntry, aggref->args)->expr, batch);
	if (aggref->aggfilter != NULL)
		agg->filter = vector_filter_compile_rows(aggref->aggfilter, batch);

	return agg;
}

/* Can one array be for both aggregates? */
static bool
have_one_column(const VectorAgg *one, const VectorAgg *other)
{
	return one->filter == NULL && other->filter == NULL && !one->distinct && !other->distinct &&
		vector_expr_is_column(one->argument) && vector_expr_is_column(other->argument) &&
		vector_expr_column(one->argument) == vector_expr_column(other->argument);
}

/* Find what can be advanced together. */
static void
find_mates(Aggregates *aggregates)
{
	for (int i = 0; i < aggregates->n; i++)
	{
		VectorAgg  *agg = aggregates->aggs[i];

		for (int j = 0; j < aggregates->n && agg->kind->mate != NULL && agg->mate == NULL; j++)
		{
			VectorAgg  *other = aggregates->aggs[j];

			if (other->kind == agg->kind->mate && !other->is_mate && have_one_column(agg, other))
			{
				agg->mate = other;
				other->is_mate = true;
			}
		}
	}
}

/* Are values of an aggregate's argument computed for all rows of a batch, to be added? */
static bool
takes_values(const VectorAgg *agg)
{
	return agg->kind->advance != NULL && agg->filter == NULL && !agg->distinct && agg->base == NULL &&
		agg->shared == NULL && agg->argument != NULL && !vector_expr_is_column(agg->argument);
}

/* Have aggregates of the same argument compute it once a batch. */
static void
share_arguments(Aggregates *aggregates, Aggref **aggrefs)
{
	for (int i = 0; i < aggregates->n; i++)
	{
		VectorAgg  *agg = aggregates->aggs[i];

		if (!takes_values(agg) || agg->argument_values != NULL)
			continue;
		for (int k = i + 1; k < aggregates->n; k++)
		{
			VectorAgg  *other = aggregates->aggs[k];

			if (!takes_values(other) || !equal(aggrefs[i]->args, aggrefs[k]->args))
				continue;
			if (agg->argument_values == NULL)
				agg->argument_values = palloc0(sizeof(SharedValues));
			other->argument = agg->argument;
			other->argument_values = agg->argument_values;
		}
	}
}

/* Have a slot for the keys of a group, if a direct argument of an ordered-set aggregate is made of them. */
static void
need_keys(Aggregates *aggregates, List *keys, List *direct)
{
	TupleDesc	tupdesc;
	ListCell   *lc;

	if (aggregates->keys != NULL || !contain_var_clause((Node *) direct))
		return;
	tupdesc = CreateTemplateTupleDesc(list_length(keys));
	foreach(lc, keys)
		TupleDescInitEntry(tupdesc, foreach_current_index(lc) + 1, NULL, exprType(lfirst(lc)),
						   exprTypmod(lfirst(lc)), 0);
	TupleDescFinalize(tupdesc);
	aggregates->keys = MakeSingleTupleTableSlot(tupdesc, &TTSOpsVirtual);
}

/* Prepare an ordered-set aggregate, and collecting its values unless another one has them collected. */
static VectorAgg *
compile_ordered_set(Aggregates *aggregates, Aggref *aggref, List *outputs, Batch *batch)
{
	VectorAgg  *collector = NULL;
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (!IsA(lfirst(lc), Aggref))
			keys = lappend(keys, lfirst(lc));
	}
	need_keys(aggregates, keys, aggref->aggdirectargs);
	for (int i = 0; i < aggregates->nordered && collector == NULL; i++)
	{
		if (ordered_values_are_of(aggregates->ordered[i], aggref))
			collector = aggregates->ordered[i];
	}
	if (collector == NULL)
	{
		collector = ordered_values_compile(aggref, batch, aggregates);
		aggregates->ordered[aggregates->nordered++] = collector;
	}
	return ordered_set_compile(aggref, collector, keys, batch);
}

/* Ordered-set aggregates have the states of what collects their values. */
static void
place_ordered_sets(Aggregates *aggregates, int noutputs)
{
	for (int i = 0; i < noutputs; i++)
	{
		VectorAgg  *agg = aggregates->of_output[i];
		VectorAgg  *collector = agg == NULL ? NULL : ordered_set_collector(agg);

		if (collector != NULL)
			agg->offset = collector->offset;
	}
}

/* Put the states of the aggregates that have one into an entry, from `offset` on; return where they end. */
static int
place_states(Aggregates *aggregates, int offset, const StateMemory *memory)
{
	for (int i = 0; i < aggregates->n; i++)
	{
		VectorAgg  *agg = aggregates->aggs[i];

		agg->offset = offset;
		agg->memory = memory;
		offset += MAXALIGN(agg->kind->state_size);
		aggregates->uses_ids |= agg->kind->uses_ids;
		if (agg->kind->init != NULL)
			aggregates->inits[aggregates->ninits++] = agg;
		if (agg->kind->apart != NULL)
			aggregates->pointers[aggregates->npointers++] = agg;
	}
	return offset;
}

/* Replace aggregates that follow from the sum of a column by that sum. */
static void
share_sums(Aggregates *aggregates, Aggref **aggrefs, Batch *batch)
{
	int			n = 0;
	List	   *bases = NIL;
	ListCell   *lc;

	aggregates_share_sums(aggregates->aggs, aggrefs, aggregates->n, batch, &bases);
	for (int i = 0; i < aggregates->n; i++)
	{
		if (aggregates->aggs[i]->base == NULL)
			aggregates->aggs[n++] = aggregates->aggs[i];
	}
	/* each takes the place of one at least */
	foreach(lc, bases)
		aggregates->aggs[n++] = lfirst(lc);
	Assert(n <= aggregates->n);
	aggregates->n = n;
}

/*
 * Prepare the aggregates among the outputs, whose states are put into an entry
 * from `offset` on; with `apart`, each output has its own, for
 * aggregates_take_states(). Everything is allocated in the current context;
 * `memory` must live as long.
 */
Aggregates *
aggregates_compile(List *outputs, Batch *batch, int offset, const StateMemory *memory, bool apart)
{
	Aggregates *result = palloc0(sizeof(Aggregates));
	int			length = Max(list_length(outputs), 1);
	Aggref	  **aggrefs = palloc(sizeof(Aggref *) * length);
	ListCell   *lc;

	result->aggs = palloc0(sizeof(VectorAgg *) * length);
	result->of_output = palloc0(sizeof(VectorAgg *) * length);
	result->inits = palloc0(sizeof(VectorAgg *) * length);
	result->pointers = palloc0(sizeof(VectorAgg *) * length);
	result->ordered = palloc0(sizeof(VectorAgg *) * length);
	foreach(lc, outputs)
	{
		Aggref	   *aggref = lfirst(lc);
		VectorAgg  *agg = NULL;
		int			nordered = result->nordered;

		if (!IsA(aggref, Aggref))
			continue;
		if (ordered_set_of_carrier(aggref) != NULL)
		{
			agg = compile_ordered_set(result, ordered_set_of_carrier(aggref), outputs, batch);
			result->of_output[foreach_current_index(lc)] = agg;
			if (result->nordered > nordered)
			{
				aggrefs[result->n] = aggref;
				result->aggs[result->n++] = result->ordered[nordered];
			}
			continue;
		}
		for (int i = 0; i < result->n; i++)
		{
			if (aggrefs[i]->aggtransno == aggref->aggtransno)
				agg = result->aggs[i];
		}
		if (agg == NULL)
		{
			agg = compile_aggregate(aggref, outputs, batch);
			aggrefs[result->n] = aggref;
			result->aggs[result->n++] = agg;
		}
		result->of_output[foreach_current_index(lc)] = agg;
	}
	share_arguments(result, aggrefs);
	if (!apart)
		share_sums(result, aggrefs, batch);
	result->size = place_states(result, offset, memory) - offset;
	place_ordered_sets(result, list_length(outputs));
	find_mates(result);
	pfree(aggrefs);

	return result;
}

/*
 * What each of the hash tables that aggregates need may take of the memory for
 * hash tables: one of each aggregate with DISTINCT, that of the groups, and the values of
 * ordered-set aggregates.
 */
Size
aggregates_share(const Aggregates *aggregates, bool grouped)
{
	int			n = aggregates->nordered + (grouped ? 1 : 0);

	for (int i = 0; i < aggregates->n; i++)
		n += aggregates->aggs[i]->distinct;
	return get_hash_memory_limit() / Max(n, 1);
}

/* Before the first row: there is one group, with that entry, or, if it is NULL, there are groups. */
void
aggregates_begin(Aggregates *aggregates, char *single)
{
	aggregates->single = single;
	for (int i = 0; i < aggregates->nordered; i++)
		ordered_values_set_limit(aggregates->ordered[i], aggregates_share(aggregates, single == NULL));
}

/* The source has ended; what has been written to files is added to both. */
void
aggregates_finish(Aggregates *aggregates, uint64 *partitions, uint64 *bytes)
{
	for (int i = 0; i < aggregates->nordered; i++)
		ordered_values_finish(aggregates->ordered[i], partitions, bytes);
}

/* All groups have been forgotten; the next row is the first of new ones. */
void
aggregates_forget(Aggregates *aggregates)
{
	for (int i = 0; i < aggregates->nordered; i++)
		ordered_values_forget(aggregates->ordered[i]);
}

/* How many of the outputs advance without calling PostgreSQL for each row. */
int
aggregates_kernels(const Aggregates *aggregates, int noutputs)
{
	int			n = 0;

	for (int i = 0; i < noutputs; i++)
	{
		const VectorAgg *agg = aggregates->of_output[i];

		n += agg != NULL && !agg->kind->by_row &&
			(agg->argument == NULL || vector_expr_is_kernel(agg->argument));
	}
	return n;
}

/* A new group's states; the entry is zeroed. */
void
aggregates_init(void *aggregates, char *entry)
{
	Aggregates *all = aggregates;

	for (int i = 0; i < all->ninits; i++)
		all->inits[i]->kind->init(entry + all->inits[i]->offset);
}

/* The place of the i-th pointer in an entry's states. */
struct varlena **
aggregates_pointer(void *aggregates, char *entry, int i)
{
	const VectorAgg *agg = ((Aggregates *) aggregates)->pointers[i];

	return agg->kind->apart(entry + agg->offset);
}

/* Add other states of the same groups to those in n entries. All kinds must be able to. */
void
aggregates_combine(Aggregates *aggregates, char **entries, char **others, int n)
{
	for (int i = 0; i < aggregates->n; i++)
		aggregates->aggs[i]->kind->combine(aggregates->aggs[i], entries, others, n);
}

/* The array of an aggregate's argument, if it can be added to the groups as such. */
static bool
packed_argument(VectorAgg *agg, Batch *batch, const RowGroups *groups, Packed *packed)
{
	return vector_expr_is_column(agg->argument) &&
		batch_packed(batch, vector_expr_column(agg->argument), packed) &&
		(groups->single != NULL || groups->nids > 0);
}

/* The values of an aggregate's argument. */
static void
eval_argument(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, Values *values)
{
	SharedValues *shared = rows == NULL ? agg->argument_values : NULL;

	if (shared != NULL && shared->serial == batch->serial)
	{
		*values = shared->values;
		return;
	}
	vector_expr_eval(agg->argument, batch, rows, n, values);
	if (shared != NULL)
	{
		Assert(batch->serial > 0 && n == batch->n);
		shared->serial = batch->serial;
		shared->values = *values;
	}
}

/* Add the n rows listed, or the batch's first n, of which these are the groups. */
void
aggregate_advance(VectorAgg *agg, Batch *batch, const uint16 *rows, int n, RowGroups *groups)
{
	Values		argument;
	Packed		packed;

	if (rows == NULL && agg->kind->advance_packed != NULL && packed_argument(agg, batch, groups, &packed) &&
		agg->kind->advance_packed(agg, &packed, n, groups))
		return;
	if (agg->kind->advance_batch != NULL)
	{
		agg->kind->advance_batch(agg, batch, rows, n, groups);
		return;
	}
	eval_argument(agg, batch, rows, n, &argument);
	agg->kind->advance(agg, &argument, n, groups);
}

/* Add the rows of a batch to an aggregate and its mate. */
static void
advance_both(VectorAgg *agg, Batch *batch, RowGroups *groups)
{
	Packed		packed;

	if (packed_argument(agg, batch, groups, &packed) &&
		agg->kind->advance_packed_both(agg, agg->mate, &packed, batch->n, groups))
		return;
	aggregate_advance(agg, batch, NULL, batch->n, groups);
	aggregate_advance(agg->mate, batch, NULL, batch->n, groups);
}

/* The same for the rows that FILTER (WHERE …) keeps. */
static void
advance_filtered(VectorAgg *agg, Batch *batch, RowGroups *groups)
{
	uint16		rows[BATCH_ROWS];
	char	   *entries[BATCH_ROWS];
	uint8		ids[BATCH_ROWS];
	RowGroups	filtered;
	int			n = vector_filter_rows(agg->filter, batch, rows);

	if (n == 0)
		return;
	group_rows_init(&filtered, groups->single, entries);
	if (groups->nids > 0)
	{
		for (int i = 0; i < n; i++)
			ids[i] = groups->ids[rows[i]];
		filtered.ids = ids;
		filtered.nids = groups->nids;
		filtered.by_id = groups->by_id;
	}
	else if (groups->single == NULL)
	{
		Assert(groups->filled);
		for (int i = 0; i < n; i++)
			entries[i] = groups->entries[rows[i]];
		filtered.filled = true;
	}
	aggregate_advance(agg, batch, rows, n, &filtered);
}

/*
 * Have the aggregate of an output add the states that another output has in other entries, whose addresses are in a
 * column of the batch, instead of rows. It must have combine().
 */
void
aggregates_take_states(Aggregates *aggregates, int output, const Aggregates *others, int other, int column)
{
	VectorAgg  *agg = aggregates->of_output[output];

	Assert(agg->kind == others->of_output[other]->kind && agg->kind->combine != NULL);
	Assert(agg->base == NULL && others->of_output[other]->base == NULL);
	agg->others = column;
	agg->others_shift = others->of_output[other]->offset - agg->offset;
	/* only such as this one have that column */
	agg->mate = NULL;
	agg->is_mate = false;
}

/* Add the states of other entries. */
static void
advance_states(VectorAgg *agg, Batch *batch, RowGroups *groups)
{
	const Datum *addresses = batch_column(batch, agg->others)->values;
	char	   *entries[BATCH_ROWS];
	char	   *others[BATCH_ROWS];

	for (int i = 0; i < batch->n; i++)
	{
		others[i] = (char *) DatumGetPointer(addresses[i]) + agg->others_shift;
		entries[i] = groups->single != NULL ? groups->single : group_entries(groups, batch->n)[i];
	}
	agg->kind->combine(agg, entries, others, batch->n);
}

/*
 * Add the rows of a batch to their groups, except for aggregates with DISTINCT.
 * What is computed on the way is left in the batch's memory.
 */
void
aggregates_advance(Aggregates *aggregates, Batch *batch, RowGroups *groups)
{
	Assert(batch->n > 0);
	for (int i = 0; i < aggregates->n; i++)
	{
		VectorAgg  *agg = aggregates->aggs[i];

		if (agg->distinct || agg->is_mate)
			continue;
		if (agg->shared != NULL)
			shared_sum_check(agg->shared, batch);
		if (agg->others >= 0)
			advance_states(agg, batch, groups);
		else if (agg->mate != NULL)
			advance_both(agg, batch, groups);
		else if (agg->filter != NULL)
			advance_filtered(agg, batch, groups);
		else
			aggregate_advance(agg, batch, NULL, batch->n, groups);
	}
}
