/*-------------------------------------------------------------------------
 *
 * group_sink.c
 *	  The sink of GROUP BY: one row per group, with its partial states.
 *
 * Groups are returned when the source has ended. Rows that found no room
 * because the groups outgrew hash_mem are returned before that, one by one,
 * each after its batch (group_table.c), or, for the node that wants final groups
 * (finalize.c), kept in files and aggregated afterwards (spill.c). Processes of a
 * parallel plan may exchange their groups instead, and return them when they
 * have (exchange.c).
 *
 * Where groups are merged above anyway, and few rows are of groups that have
 * been met before, rows are returned one by one for a while, without being
 * looked for: the process that merges has to look for them all the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "vector/group/by_code.h"
#include "vector/group/distinct.h"
#include "vector/group/exchange.h"
#include "vector/group/group_sink.h"
#include "vector/group/sink.h"
#include "vector/spill/spill.h"

/* Every DECISION_ROWS rows, check whether grouping still pays. If it does not, pass the next PASSTHROUGH_ROWS rows through ungrouped. */
#define DECISION_ROWS 32768
#define PASSTHROUGH_ROWS (16 * DECISION_ROWS)

/* They are if fewer than that share of them made new groups. */
#define REDUCING_SHARE 0.8

/* Number of groups that are looked up at a time to be returned. */
#define WALKED 64

/* Up to this number of groups that a choice may want, they are listed. */
#define MAX_CANDIDATES 16384

typedef struct Groups
{
	Sink		sink;
	int			noutputs;
	int		   *key_of_output;	/* or -1 */
	int			nkeys;
	int			ncompared;		/* the first of them, from which the others
								 * follow */
	VectorExpr **keys;
	bool	   *key_is_varlena;
	Datum	   *key_values;		/* detoasted */
	Aggregates *aggregates;
	Distincts  *distincts;		/* or NULL: then groups are final */
	GroupTable *table;
	GroupByCode *by_code;		/* or NULL */

	/* what is to be returned: rows without room first */
	int			noverflow;
	int			next_overflow;
	bool		finished;
	bool		chosen;			/* has the choice been offered all? */
	char	  **candidates;		/* room for MAX_CANDIDATES groups */
	int			ncandidates;	/* those that may be wanted, in the order of
								 * the walk; -1: too many to be listed */
	int			next_candidate;
	GroupWalk	walk;
	char	   *walked[WALKED];
	int			nwalked;
	int			next_walked;

	/* do they pay? */
	int64		seen;			/* rows since it was decided, */
	int64		fresh;			/* and those of them that were of no group */
	int64		passthrough_left;	/* further rows that are not grouped */

	/* for final groups: rows that found no room are kept in files */
	bool		final;
	double		expected;		/* upper bound of the number of groups */
	MemoryContext spill_context;
	Spill	   *spill;			/* being written, or NULL */
	List	   *partitions;		/* waiting to be read */
	int			level;			/* how often the current rows were written */
} Groups;

/* Are there other processes to exchange groups with? */
static inline bool
exchanges(const Groups *groups)
{
	return groups->sink.exchange != NULL && exchange_is_shared(groups->sink.exchange);
}

/* ---- consuming ---- */

/* The entries that codes stood for are gone. */
static void
forget_codes(Groups *groups)
{
	if (groups->by_code != NULL)
		group_by_code_reset(groups->by_code);
}

/* Spill the rows of the batch that have no entry, and keep the others. */
static void
spill_some(Groups *groups, Batch *batch, char **entries)
{
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
	if (groups->spill == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(groups->spill_context);

		groups->spill = spill_begin(batch, groups->level + 1, groups->expected,
									group_table_count(groups->table), group_table_limit(groups->table));
		MemoryContextSwitchTo(old);
	}
	spill_rows(groups->spill, without, nwithout, group_table_tags(groups->table));
	group_table_clear_overflow(groups->table);
	batch_keep(batch, with, nwith, true);
}

/* The values of the keys, detoasted. */
static void
eval_keys(Groups *groups, Batch *batch, Values *keys)
{
	for (int k = 0; k < groups->nkeys; k++)
	{
		vector_expr_eval(groups->keys[k], batch, NULL, batch->n, &keys[k]);
		if (groups->key_is_varlena[k])
		{
			Datum	   *values = groups->key_values + k * BATCH_ROWS;

			for (int i = 0; i < batch->n; i++)
				values[i] = keys[k].nulls[i] ? (Datum) 0 :
					PointerGetDatum(PG_DETOAST_DATUM_PACKED(keys[k].values[i]));
			keys[k].values = values;
		}
	}
}

/* May rows be returned one by one? */
static bool
may_return_rows(const Groups *groups)
{
	if (groups->final || groups->sink.exchange != NULL || groups->distincts != NULL || groups->sink.passthrough_after < 0)
		return false;
	for (int i = 0; i < groups->aggregates->n && !groups->sink.any_order; i++)
	{
		if (groups->aggregates->aggs[i]->kind->by_row)
			return false;
	}
	return true;
}

/* Rows have been grouped, of which `fresh` belonged to no group before. */
static void
count_fresh(Groups *groups, int n, int64 fresh)
{
	groups->seen += n;
	groups->fresh += fresh;
	if (groups->seen < DECISION_ROWS)
		return;
	if (groups->fresh > REDUCING_SHARE * groups->seen &&
		group_table_count(groups->table) > groups->sink.passthrough_after && may_return_rows(groups))
		groups->passthrough_left = PASSTHROUGH_ROWS;
	groups->seen = groups->fresh = 0;
}

/* Have each row of a batch returned as a group of its own. */
static void
set_apart(Groups *groups, Batch *batch)
{
	Values		keys[GROUP_MAX_KEYS];
	char	   *entries[BATCH_ROWS];
	RowGroups	row_groups;

	group_rows_init(&row_groups, NULL, entries);
	eval_keys(groups, batch, keys);
	group_table_set_apart(groups->table, keys, batch->n, entries);
	row_groups.filled = true;
	aggregates_advance(groups->aggregates, batch, &row_groups);
	groups->noverflow = batch->n;
	groups->passthrough_left -= batch->n;
	groups->sink.passthrough_rows += batch->n;
}

static bool
consume(Sink *sink, Batch *batch)
{
	Groups	   *groups = (Groups *) sink;
	Values		keys[GROUP_MAX_KEYS];
	char	   *entries[BATCH_ROWS];
	uint8		ids[BATCH_ROWS];
	RowGroups	row_groups;
	int64		before = group_table_count(groups->table);

	Assert(groups->noverflow == 0 && (groups->distincts == NULL || groups->final));
	if (groups->passthrough_left > 0)
	{
		set_apart(groups, batch);
		return true;
	}
	if (exchanges(groups) && exchange_reserve(groups->sink.exchange, batch->n))
		forget_codes(groups);
	group_rows_init(&row_groups, NULL, entries);
	if (groups->by_code != NULL && group_by_code(groups->by_code, groups->table, batch, ids, &row_groups))
	{
		aggregates_advance(groups->aggregates, batch, &row_groups);
		distincts_advance(groups->distincts, batch, &row_groups);
		count_fresh(groups, batch->n, group_table_count(groups->table) - before);
		return false;
	}
	row_groups.filled = true;
	eval_keys(groups, batch, keys);
	groups->noverflow = group_table_find(groups->table, keys, batch->n, entries);
	if (groups->noverflow > 0 && groups->final)
	{
		spill_some(groups, batch, entries);
		groups->noverflow = 0;
		if (batch->n == 0)
			return false;
	}
	row_groups.ids = ids;
	if (groups->aggregates->uses_ids)
		row_groups.nids = group_table_ids(groups->table, entries, batch->n, ids, &row_groups.by_id);
	aggregates_advance(groups->aggregates, batch, &row_groups);
	distincts_advance(groups->distincts, batch, &row_groups);
	count_fresh(groups, batch->n, group_table_count(groups->table) - before + groups->noverflow);

	return groups->noverflow > 0;
}

static void
rewind_groups(Groups *groups)
{
	groups->finished = true;
	groups->chosen = false;
	groups->ncandidates = -1;
	groups->next_candidate = 0;
	memset(&groups->walk, 0, sizeof(GroupWalk));
	groups->nwalked = groups->next_walked = 0;
}

/* Have what was spilled ready to be read. */
static void
end_spill(Groups *groups)
{
	MemoryContext old;
	List	   *partitions;

	if (groups->spill == NULL)
		return;
	old = MemoryContextSwitchTo(groups->spill_context);
	partitions = spill_end(groups->spill, &groups->sink.spilled_bytes);
	groups->sink.spilled_partitions += list_length(partitions);
	/* before those of other partitions: there are never many files */
	groups->partitions = list_concat(partitions, groups->partitions);
	groups->spill = NULL;
	MemoryContextSwitchTo(old);
}

static void
finish(Sink *sink)
{
	Groups	   *groups = (Groups *) sink;

	end_spill(groups);
	distincts_finish(groups->distincts, NULL, &sink->spilled_partitions, &sink->spilled_bytes);
	aggregates_finish(groups->aggregates, &sink->spilled_partitions, &sink->spilled_bytes);
	/* groups that are exchanged are taken before */
	if (!exchanges(groups))
		rewind_groups(groups);
}

/* ---- returning ---- */

/* The next entry to be returned, or NULL if there is none for now. */
static char *
next_entry(Groups *groups)
{
	if (groups->next_overflow < groups->noverflow)
		return group_table_overflow(groups->table, groups->next_overflow++);
	if (groups->noverflow > 0)
	{
		group_table_clear_overflow(groups->table);
		groups->noverflow = groups->next_overflow = 0;
	}
	if (!groups->finished)
		return NULL;
	if (groups->ncandidates >= 0)
		return groups->next_candidate < groups->ncandidates ?
			groups->candidates[groups->next_candidate++] : NULL;
	if (groups->next_walked == groups->nwalked)
	{
		groups->nwalked = group_table_walk(groups->table, &groups->walk, groups->walked, WALKED);
		groups->next_walked = 0;
		if (groups->nwalked == 0)
			return NULL;
	}
	return groups->walked[groups->next_walked++];
}

/* Have the next groups that were exchanged in the table; false if there are none. */
static bool
take_exchanged(Groups *groups)
{
	if (!exchanges(groups) || !exchange_take(groups->sink.exchange))
		return false;
	rewind_groups(groups);
	return true;
}

/* An output of a group. */
static Datum
output_of(Groups *groups, char *entry, int output, bool *isnull)
{
	if (groups->key_of_output[output] >= 0)
		return group_table_key(groups->table, entry, groups->key_of_output[output], isnull);
	return aggregates_output(groups->aggregates, output, entry, isnull);
}

/* Have the keys of a group where direct arguments of aggregates look for them. */
static void
show_keys(void *arg, char *entry)
{
	Groups	   *groups = arg;
	TupleTableSlot *slot = groups->aggregates->keys;
	int			column = 0;

	ExecClearTuple(slot);
	for (int i = 0; i < groups->noutputs; i++)
	{
		if (groups->key_of_output[i] < 0)
			continue;
		slot->tts_values[column] = group_table_key(groups->table, entry, groups->key_of_output[i],
												   &slot->tts_isnull[column]);
		column++;
	}
	ExecStoreVirtualTuple(slot);
}

/* What the choice says of a group: below 0, it comes before the last; above, it is not wanted. */
static int
compare_with_chosen(Groups *groups, char *entry)
{
	GroupChoice *choice = groups->sink.choice;
	int			result = 0;

	for (int k = 0; k < choice->nkeys && result == 0; k++)
	{
		bool		isnull;
		Datum		value = output_of(groups, entry, choice->outputs[k], &isnull);

		result = choice->compare(choice, k, value, isnull);
	}
	return result;
}

/* List those of n groups that may be wanted by the first key of the choice; return how many. */
static int
sift(Groups *groups, char *const *entries, int n, uint16 *rows)
{
	GroupChoice *choice = groups->sink.choice;
	int			output = choice->outputs[0];
	Datum		values[WALKED];
	bool		nulls[WALKED];

	if (groups->key_of_output[output] >= 0)
		group_table_keys(groups->table, entries, n, groups->key_of_output[output], values, nulls);
	else
		aggregates_outputs(groups->aggregates, output, entries, n, values, nulls);
	return choice->sift(choice, values, nulls, n, rows);
}

/* List a group that may be wanted. The list is given up if there are too many. */
static void
add_candidate(Groups *groups, char *entry)
{
	if (groups->ncandidates == MAX_CANDIDATES)
	{
		int			n = 0;

		/* the choice has become narrower since */
		for (int i = 0; i < groups->ncandidates; i++)
		{
			if (compare_with_chosen(groups, groups->candidates[i]) <= 0)
				groups->candidates[n++] = groups->candidates[i];
		}
		groups->ncandidates = n > MAX_CANDIDATES / 2 ? -1 : n;
	}
	if (groups->ncandidates >= 0)
		groups->candidates[groups->ncandidates++] = entry;
}

/* Have the choice take groups, before the first is returned. */
static void
choose(Groups *groups)
{
	GroupChoice *choice = groups->sink.choice;
	GroupWalk	walk = {0};
	char	   *entries[WALKED];
	Datum		values[GROUP_MAX_KEYS];
	bool		nulls[GROUP_MAX_KEYS];
	uint16		rows[WALKED];
	int			n;

	Assert(groups->finished && groups->noverflow == 0 && choice->nkeys <= GROUP_MAX_KEYS);
	if (groups->candidates == NULL)
		groups->candidates = MemoryContextAlloc(GetMemoryChunkContext(groups), sizeof(char *) * MAX_CANDIDATES);
	groups->ncandidates = 0;
	while ((n = group_table_walk(groups->table, &walk, entries, WALKED)) > 0)
	{
		CHECK_FOR_INTERRUPTS();
		n = sift(groups, entries, n, rows);
		for (int i = 0; i < n; i++)
		{
			char	   *entry = entries[rows[i]];
			int			compared = compare_with_chosen(groups, entry);

			if (compared > 0)
				continue;
			if (groups->ncandidates >= 0)
				add_candidate(groups, entry);
			if (compared == 0)
				continue;
			for (int k = 0; k < choice->nkeys; k++)
				values[k] = output_of(groups, entry, choice->outputs[k], &nulls[k]);
			choice->take(choice, values, nulls);
		}
	}
	groups->chosen = true;
}

/* Is a group to be returned? */
static bool
is_wanted(Groups *groups, char *entry)
{
	if (groups->sink.choice == NULL)
		return true;
	/* many that are not may follow one another */
	CHECK_FOR_INTERRUPTS();
	return compare_with_chosen(groups, entry) <= 0;
}

/* The next entry that is to be returned, or NULL if there is none for now. */
static char *
next_wanted(Groups *groups)
{
	char	   *entry;

	if (groups->finished && groups->sink.choice != NULL && !groups->chosen)
		choose(groups);
	do
		entry = next_entry(groups);
	while (entry != NULL && !is_wanted(groups, entry));
	return entry;
}

static bool
next(Sink *sink, Datum *values, bool *isnull)
{
	Groups	   *groups = (Groups *) sink;
	char	   *entry;

	while ((entry = next_wanted(groups)) == NULL)
	{
		if (!take_exchanged(groups))
			return false;
	}
	for (int i = 0; i < groups->noutputs; i++)
		values[i] = output_of(groups, entry, i, &isnull[i]);
	return true;
}

/* The entries of the next n groups, or fewer, valid until the next call; none if there are none for now. */
int
group_sink_next_entries(Sink *sink, char **entries, int n)
{
	Groups	   *groups = (Groups *) sink;
	int			found = 0;

	do
	{
		while (found < n && (entries[found] = next_entry(groups)) != NULL)
			found++;
	} while (found == 0 && take_exchanged(groups));
	return found;
}

/* The value of an output that is a key. */
Datum
group_sink_key(Sink *sink, char *entry, int output, bool *isnull)
{
	Groups	   *groups = (Groups *) sink;

	return group_table_key(groups->table, entry, groups->key_of_output[output], isnull);
}

/* Are there rows in files, of groups to be returned later? */
bool
group_sink_has_spilled(Sink *sink)
{
	return ((Groups *) sink)->partitions != NIL;
}

GroupTable *
group_sink_table(Sink *sink)
{
	return ((Groups *) sink)->table;
}

/* Replace the groups by those of a partition that was spilled. */
static Source *
begin_spilled(Sink *sink)
{
	Groups	   *groups = (Groups *) sink;
	SpillPartition *partition;

	if (groups->partitions == NIL)
		return NULL;
	partition = linitial(groups->partitions);
	groups->partitions = list_delete_first(groups->partitions);
	groups->level = spill_level(partition);
	groups->expected = spill_count(partition);
	groups->finished = false;
	group_table_reset(groups->table);
	aggregates_forget(groups->aggregates);
	forget_codes(groups);

	return spill_source(partition);
}

/* Forget what was spilled. */
static void
end(Sink *sink)
{
	Groups	   *groups = (Groups *) sink;
	ListCell   *lc;

	/* what consumes is not left between the first batch and the end */
	Assert(groups->spill == NULL);
	foreach(lc, groups->partitions)
		spill_close(lfirst(lc));
	groups->partitions = NIL;
	if (groups->sink.exchange != NULL)
		exchange_end(groups->sink.exchange);
	if (groups->spill_context != NULL)
		MemoryContextReset(groups->spill_context);
	groups->level = 0;
}

static void
reset(Sink *sink)
{
	Groups	   *groups = (Groups *) sink;

	end(sink);
	groups->noverflow = groups->next_overflow = 0;
	groups->seen = groups->fresh = groups->passthrough_left = 0;
	groups->finished = false;
	group_table_reset(groups->table);
	forget_codes(groups);
	distincts_forget(groups->distincts);
	aggregates_forget(groups->aggregates);
}

static void
keep_final(Sink *sink, double expected)
{
	Groups	   *groups = (Groups *) sink;

	if (groups->spill_context == NULL)
		groups->spill_context = AllocSetContextCreate(GetMemoryChunkContext(groups), "pgbillion spilled rows",
													  ALLOCSET_DEFAULT_SIZES);
	group_table_spill(groups->table);
	group_table_expect(groups->table, expected);
	groups->final = true;
	groups->expected = expected;
}

static bool
rewind_to_first(Sink *sink)
{
	Groups	   *groups = (Groups *) sink;

	if (groups->level > 0 || groups->partitions != NIL || exchanges(groups))
		return false;
	rewind_groups(groups);
	return true;
}

static int64
count(Sink *sink)
{
	Groups	   *groups = (Groups *) sink;

	return exchanges(groups) ? exchange_groups_here(groups->sink.exchange) : group_table_count(groups->table);
}

static const SinkMethods groups_methods = {
	.consume = consume,
	.finish = finish,
	.next = next,
	.spilled_source = begin_spilled,
	.reset = reset,
	.end = end,
	.keep_final = keep_final,
	.rewind = rewind_to_first,
	.count = count,
};

/* ---- compilation ---- */

/*
 * Does the key among the outputs, all compiled, follow from another one: is it
 * the same in all rows in which that one is? Only from a column, whose values
 * look the same where they are equal.
 */
static bool
follows_from_other(VectorExpr **compiled, List *outputs, int output)
{
	int			column = vector_expr_determinant(compiled[output]);
	ListCell   *lc;

	foreach(lc, outputs)
	{
		int			i = foreach_current_index(lc);

		/* of several that are the same column, the first */
		if (vector_expr_is_column(compiled[output]) && i >= output)
			return false;
		if (i != output && compiled[i] != NULL && column >= 0 && vector_expr_is_column(compiled[i]) &&
			vector_expr_column(compiled[i]) == column && distinct_equal_is_same(lfirst(lc)))
			return true;
	}
	return false;
}

/* Compile the group keys among the outputs; those that follow from others are the last. */
static void
compile_keys(Groups *groups, List *outputs, Batch *batch, Oid *types, Oid *collations)
{
	VectorExpr **compiled = palloc0(sizeof(VectorExpr *) * list_length(outputs));
	bool	   *follows = palloc0(sizeof(bool) * list_length(outputs));
	ListCell   *lc;

	foreach(lc, outputs)
	{
		if (!IsA(lfirst(lc), Aggref))
			compiled[foreach_current_index(lc)] = vector_expr_compile(lfirst(lc), batch);
	}
	foreach(lc, outputs)
	{
		int			i = foreach_current_index(lc);

		groups->key_of_output[i] = -1;
		follows[i] = compiled[i] != NULL && follows_from_other(compiled, outputs, i);
		groups->ncompared += compiled[i] != NULL && !follows[i];
	}
	for (int pass = 0; pass < 2; pass++)
	{
		foreach(lc, outputs)
		{
			int			i = foreach_current_index(lc);
			int			k = groups->nkeys;

			if (compiled[i] == NULL || follows[i] != (pass == 1))
				continue;
			groups->key_of_output[i] = k;
			types[k] = exprType(lfirst(lc));
			collations[k] = exprCollation(lfirst(lc));
			groups->key_is_varlena[k] = get_typlen(types[k]) == -1;
			groups->keys[k] = compiled[i];
			groups->sink.kernel_keys += vector_expr_is_kernel(compiled[i]);
			groups->nkeys++;
		}
	}
}

/*
 * One output at least is a group key. In a parallel plan, groups may be
 * exchanged between processes. Memory belongs to the current context.
 */
Sink *
group_sink_create(List *outputs, Batch *batch, bool exchanged, bool apart)
{
	Groups	   *groups = palloc0(sizeof(Groups));
	int			n = list_length(outputs);
	Oid		   *types = palloc(sizeof(Oid) * n);
	Oid		   *collations = palloc(sizeof(Oid) * n);
	StateMemory *memory = palloc0(sizeof(StateMemory));

	groups->sink.methods = &groups_methods;
	groups->noutputs = n;
	groups->key_of_output = palloc(sizeof(int) * n);
	groups->keys = palloc0(sizeof(VectorExpr *) * n);
	groups->key_is_varlena = palloc0(sizeof(bool) * n);
	compile_keys(groups, outputs, batch, types, collations);
	groups->key_values = palloc(sizeof(Datum) * BATCH_ROWS * groups->nkeys);

	/* states follow the keys in an entry */
	groups->aggregates = aggregates_compile(outputs, batch,
											group_table_states_offset(groups->nkeys, groups->ncompared, types), memory, apart);
	groups->table = group_table_create(groups->nkeys, groups->ncompared, types, collations, groups->aggregates->size,
									   aggregates_init, groups->aggregates);
	group_table_memory(groups->table, memory);
	group_table_pointers(groups->table, groups->aggregates->npointers, aggregates_pointer);
	if (exchanged)
		groups->sink.exchange = exchange_create(groups->table, groups->aggregates);

	groups->by_code = group_by_code_create(groups->keys, groups->key_is_varlena, groups->nkeys, groups->ncompared);

	groups->sink.states = groups->aggregates;
	groups->sink.keys = groups->nkeys;
	groups->sink.aggregates = n - groups->nkeys;
	groups->sink.kernel_aggregates = aggregates_kernels(groups->aggregates, n);
	groups->distincts = distincts_create(groups->aggregates, outputs, batch, true);
	aggregates_begin(groups->aggregates, NULL);
	if (groups->aggregates->keys != NULL)
	{
		groups->aggregates->show_keys = show_keys;
		groups->aggregates->show_keys_of = groups;
	}
	group_table_set_limit(groups->table, aggregates_share(groups->aggregates, true));

	return &groups->sink;
}
