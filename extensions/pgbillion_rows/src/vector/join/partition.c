/*-------------------------------------------------------------------------
 *
 * partition.c
 *	  A join whose table does not fit into memory: both sides in partitions,
 *	  which are joined one by one. The rows of a partition are a source, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "vector/join/probe.h"

/* Evaluate the keys of the input's rows, and their tags. */
void
join_find_tags(VectorJoin *join, uint64 *tags, bool *known)
{
	for (int k = 0; k < join_keys_count(join->join_keys); k++)
		vector_expr_eval(join->keys[k], join->input, NULL, join->input->n, &join->values[k]);
	join_keys_tags(join->join_keys, false, join->values, join->input->n, tags, known);
}

/* Write the rows of the input to partitions. */
void
join_spill_input(VectorJoin *join)
{
	uint64		tags[BATCH_ROWS];
	bool		known[BATCH_ROWS];
	uint16		rows[BATCH_ROWS];
	int			n = 0;

	join_find_tags(join, tags, known);
	for (int i = 0; i < join->input->n; i++)
	{
		/* wherever it is, it matches nothing */
		if (!known[i])
			tags[i] = 0;
		rows[n] = i;
		n += known[i] || !join_drops_unmatched(join);
	}
	spill_rows(join->spill, rows, n, tags);
}

static PartitionPair *
pair_of(List *pairs, int number)
{
	ListCell   *lc;

	foreach(lc, pairs)
	{
		PartitionPair *pair = lfirst(lc);

		if (spill_number(pair->build != NULL ? pair->build : pair->probe) == number)
			return pair;
	}
	return NULL;
}

/* The rows of the input have been written: pair their partitions with those of the build side. */
static void
pair_partitions(VectorJoin *join)
{
	MemoryContext old = MemoryContextSwitchTo(join->spill_context);
	List	   *probes = spill_end(join->spill, &join->build->spilled_bytes);
	List	   *pairs = NIL;
	ListCell   *lc;

	join->spill = NULL;
	foreach(lc, join->build->partitions)
	{
		PartitionPair *pair = palloc0(sizeof(PartitionPair));

		pair->build = lfirst(lc);
		pairs = lappend(pairs, pair);
	}
	join->build->partitions = NIL;
	foreach(lc, probes)
	{
		PartitionPair *pair = pair_of(pairs, spill_number(lfirst(lc)));

		if (pair == NULL)
		{
			pair = palloc0(sizeof(PartitionPair));
			pairs = lappend(pairs, pair);
		}
		Assert(pair->probe == NULL);
		pair->probe = lfirst(lc);
	}
	/* before those of other partitions: there are never many files */
	join->pairs = list_concat(pairs, join->pairs);
	MemoryContextSwitchTo(old);
}

static void
close_pair(PartitionPair *pair)
{
	if (pair->build != NULL)
		spill_close(pair->build);
	if (pair->probe != NULL)
		spill_close(pair->probe);
}

/* Fill the table from a source; where it does not fit the input is written, too. */
void
join_fill_table(VectorJoin *join, Source *source, int level)
{
	if (join_build_run(join->build, source, level, join->spill_context))
		return;
	else
	{
		MemoryContext old = MemoryContextSwitchTo(join->spill_context);

		join->divided = true;
		join->spill = spill_begin_partitions(join->input, level + 1, join->build->npartitions);
		MemoryContextSwitchTo(old);
	}
}

/* A source without rows. */
static bool
next_of_nothing(Source *source, Batch *batch)
{
	return false;
}

static void
end_nothing(Source *source)
{
}

static const SourceMethods nothing_methods = {.next = next_of_nothing,.end = end_nothing};
static Source nothing = {.methods = &nothing_methods};

/* The source of the input has ended: go on with the next partition, if there is one. */
bool
join_next_partition(VectorJoin *join)
{
	Batch	   *input = join->input;

	input->source->methods->end(input->source);
	input->source = join->below;
	if (join->spill != NULL)
		pair_partitions(join);
	while (join->pairs != NIL)
	{
		PartitionPair *pair = linitial(join->pairs);

		join->pairs = list_delete_first(join->pairs);
		if ((pair->probe == NULL && !join_returns_unmarked(join)) || (pair->build == NULL && join_drops_unmatched(join)))
		{
			close_pair(pair);
			continue;
		}
		if (pair->build == NULL)
			join_table_reset(join->build->table);
		else
			join_fill_table(join, spill_source(pair->build), spill_level(pair->build));
		input->source = pair->probe == NULL ? &nothing : spill_source(pair->probe);
		return true;
	}
	return false;
}

/* Close the files of partitions that are not joined any more. */
void
join_forget_partitions(VectorJoin *join)
{
	ListCell   *lc;

	/* another join has left nothing of the rows that were to be written */
	if (join->spill != NULL)
		pair_partitions(join);
	Assert(join->build->partitions == NIL);
	foreach(lc, join->pairs)
		close_pair(lfirst(lc));
	join->pairs = NIL;
	if (join->spill_context != NULL)
		MemoryContextReset(join->spill_context);
}
