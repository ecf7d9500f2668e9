/*-------------------------------------------------------------------------
 *
 * build.c
 *	  The build side of a join: its rows in a hash table, or in partitions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "optimizer/clauses.h"

#include "vector/join/join.h"
#include "vector/join/share.h"
#include "vector/source/source.h"

/* Does a join only ask whether the plan has a row with a row's keys? */
static bool
asks_for_keys(const JoinSpec *spec)
{
	return (spec->type == JOIN_SEMI || spec->type == JOIN_ANTI) && !spec->reversed && spec->quals == NIL;
}

/*
 * Prepare to read the plan of a join. `columns` are those that are wanted of
 * its rows; those of the keys are read in addition. Memory belongs to the
 * current context.
 */
JoinBuild *
join_build_create(const JoinSpec *spec, JoinKeys *keys, Bitmapset *columns, PlanState *parent)
{
	JoinBuild  *build = palloc0(sizeof(JoinBuild));
	ListCell   *lc;

	columns = bms_union(columns, batch_attnos(spec->inner_keys));
	batch_init(&build->batch, ExecGetResultType(spec->plan), NULL, columns, parent);
	build->batch.econtext = CreateExprContext(parent->state);
	build->plan = spec->plan;
	build->rows = plan_rows_create(spec->plan);
	if (spec->shared)
		build->rows = shared_rows_create(build->rows);
	build->join_keys = keys;
	foreach(lc, spec->inner_keys)
		build->keys[foreach_current_index(lc)] = vector_expr_compile(lfirst(lc), &build->batch);
	build->params = pull_paramids((Expr *) spec->inner_keys);
	build->keeps_unknown = spec->reversed && spec->type == JOIN_ANTI;
	build->table = join_table_create(keys, &build->batch, build->keeps_unknown, asks_for_keys(spec));

	return build;
}

/* Begin to write rows to partitions: those in the table are the first. */
static void
begin_spill(JoinBuild *build, int level, MemoryContext spill_context)
{
	Batch	   *batch = &build->batch;
	double		rows = Max(build->plan->plan->plan_rows, 4.0 * join_table_count(build->table));
	MemoryContext old = MemoryContextSwitchTo(spill_context);
	uint64		slot = 0;
	JoinEntry  *entry = NULL;
	uint64		tag = 0;
	uint64		tags[BATCH_ROWS];
	uint16		all[BATCH_ROWS];
	bool		more = true;

	build->spill = spill_begin(batch, level, rows, join_table_count(build->table), join_table_limit(build->table));
	build->npartitions = spill_partitions(build->spill);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < BATCH_ROWS; i++)
		all[i] = i;
	while (more)
	{
		int			n = 0;

		for (int c = 0; c < batch->ncolumns; c++)
			batch->columns[c].has_nulls = false;
		while (n < BATCH_ROWS && (more = join_table_dump(build->table, &slot, &entry, &tag)))
		{
			for (int c = 0; c < batch->ncolumns; c++)
			{
				Column	   *column = &batch->columns[c];

				column->values[n] = entry->values[c];
				column->nulls[n] = join_table_entry_null(build->table, entry, c);
				column->has_nulls |= column->nulls[n];
				column->dirty |= column->nulls[n];
			}
			tags[n++] = tag;
		}
		batch->n = n;
		spill_rows(build->spill, all, n, tags);
	}
	join_table_reset(build->table);
}

/* Write the rows of the batch that can match, or are kept. */
static void
spill_batch(JoinBuild *build, uint64 *tags, const bool *known)
{
	uint16		rows[BATCH_ROWS];
	int			n = 0;

	for (int i = 0; i < build->batch.n; i++)
	{
		/* as join_table_dump() has it: wherever it is, it matches nothing */
		if (!known[i])
			tags[i] = 0;
		rows[n] = i;
		n += known[i] || build->keeps_unknown;
	}
	spill_rows(build->spill, rows, n, tags);
}

/* Note between which values the keys of rows are that can match. */
static void
note_bounds(JoinBuild *build, const Values *keys, const uint64 *tags, const bool *known)
{
	bool		direct = join_keys_direct(build->join_keys);

	for (int k = 0; k < join_keys_count(build->join_keys); k++)
	{
		int64		min = build->min[k];
		int64		max = build->max[k];

		if (!join_keys_integer(build->join_keys, k))
			continue;
		for (int i = 0; i < build->batch.n; i++)
		{
			int64		value = direct ? (int64) tags[i] : DatumGetInt64(keys[k].values[i]);

			if (!known[i])
				continue;
			min = Min(min, value);
			max = Max(max, value);
		}
		build->min[k] = min;
		build->max[k] = max;
	}
}

/* Take the rows of the batch in. */
static void
consume(JoinBuild *build, int level, MemoryContext spill_context)
{
	Batch	   *batch = &build->batch;
	Values		keys[JOIN_MAX_KEYS];
	uint64		tags[BATCH_ROWS];
	bool		known[BATCH_ROWS];

	for (int k = 0; k < join_keys_count(build->join_keys); k++)
		vector_expr_eval(build->keys[k], batch, NULL, batch->n, &keys[k]);
	join_keys_tags(build->join_keys, true, keys, batch->n, tags, known);
	if (build->spill != NULL)
		spill_batch(build, tags, known);
	else
	{
		if (level == 0)
			note_bounds(build, keys, tags, known);
		join_table_insert(build->table, batch, keys, tags, known);
		build->most_rows = Max(build->most_rows, join_table_count(build->table));
		build->most_bytes = Max(build->most_bytes, join_table_bytes(build->table));
		if (level < MAX_PARTITION_LEVEL && !join_table_fits(build->table, PLAN_BATCH_ROWS))
			begin_spill(build, level + 1, spill_context);
	}
}

/*
 * Read all rows that a source has into the table, which is emptied before, and
 * end the source. `level` is how often they have been written. False if they
 * do not fit: then they are in partitions, which belong to spill_context.
 */
bool
join_build_run(JoinBuild *build, Source *source, int level, MemoryContext spill_context)
{
	Batch	   *batch = &build->batch;
	MemoryContext work = batch->econtext->ecxt_per_tuple_memory;
	MemoryContext old = MemoryContextSwitchTo(work);

	Assert(build->spill == NULL && build->partitions == NIL);
	join_table_reset(build->table);
	if (level == 0)
	{
		for (int k = 0; k < JOIN_MAX_KEYS; k++)
		{
			build->min[k] = PG_INT64_MAX;
			build->max[k] = PG_INT64_MIN;
		}
		build->serial++;
		build->complete = true;
	}
	batch->source = source;
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		ResetExprContext(batch->econtext);
		if (!source->methods->next(source, batch))
			break;
		batch->serial++;
		consume(build, level, spill_context);
	}
	source->methods->end(source);
	ResetExprContext(batch->econtext);
	MemoryContextSwitchTo(spill_context);
	if (build->spill != NULL)
	{
		build->complete = false;
		build->partitions = spill_end(build->spill, &build->spilled_bytes);
		build->spilled_partitions += list_length(build->partitions);
		build->spill = NULL;
		MemoryContextSwitchTo(old);
		return false;
	}
	MemoryContextSwitchTo(old);

	return true;
}
