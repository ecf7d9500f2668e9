/*-------------------------------------------------------------------------
 *
 * create.c
 *	  Make the joins of a scan, each the source of the next one's input, and
 *	  tell what others ask of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/bitmapset.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "planner/arithmetic.h"
#include "vector/join/probe.h"
#include "vector/join/share.h"

/* Pages of a table that is read before all inner sides. */
#define SMALL_PAGES 16

/* What the joins above one, from `above` on, and the outputs need of its rows, and of the joins before it. */
static Bitmapset *
needed_above(JoinRows *rows, int above, List *outputs)
{
	Bitmapset  *attnos = batch_attnos(outputs);

	for (int i = above; i < list_length(rows->specs); i++)
	{
		JoinSpec   *spec = list_nth(rows->specs, i);

		attnos = bms_join(attnos, batch_attnos(spec->outer_keys));
		attnos = bms_join(attnos, batch_attnos(spec->quals));
		attnos = bms_join(attnos, batch_attnos(spec->others));
	}
	return attnos;
}

/* Those of some attributes that come before the first column of a plan. */
static Bitmapset *
attributes_before(Bitmapset *attnos, AttrNumber first)
{
	Bitmapset  *result = NULL;
	int			attno = -1;

	while ((attno = bms_next_member(attnos, attno)) >= 0 && attno <= first)
		result = bms_add_member(result, attno);
	return result;
}

/* What is needed of the table after the filter. */
Bitmapset *
joins_needed(JoinRows *rows, List *outputs)
{
	return attributes_before(needed_above(rows, 0, outputs), rows->first);
}

/* The columns of a join's own plan that are needed, by their numbers. */
static Bitmapset *
own_columns(const JoinSpec *spec, Bitmapset *attnos)
{
	Bitmapset  *result = NULL;

	for (int i = 1; i <= spec->ncolumns; i++)
	{
		if (bms_is_member(spec->first + i, attnos))
			result = bms_add_member(result, i);
	}
	return result;
}

/* Where each column of the output comes from. */
static void
find_origins(VectorJoin *join, const JoinSpec *spec)
{
	Batch	   *output = join->output;

	join->origins = palloc(sizeof(int) * Max(output->ncolumns, 1));
	join->packed = palloc0(sizeof(PackedPairs) * Max(output->ncolumns, 1));
	for (int c = 0; c < output->ncolumns; c++)
	{
		AttrNumber	attno = output->columns[c].attno;

		if (attno <= spec->first)
		{
			join->origins[c] = batch_index(join->input, attno);
			Assert(join->origins[c] >= 0);
		}
		else
			join->origins[c] = -1 - batch_index(&join->build->batch, attno - spec->first);
	}
}

/* Does a node read a table of a few pages, which takes next to nothing? */
static bool
reads_small_table(PlanState *node)
{
	return RelationGetNumberOfBlocks(((ScanState *) node)->ss_currentRelation) <= SMALL_PAGES;
}

static VectorJoin *
create_join(JoinRows *rows, int number, List *outputs, Batch *input, VectorFilter *filter, Batch *output)
{
	JoinSpec   *spec = list_nth(rows->specs, number);
	VectorJoin *join = palloc0(sizeof(VectorJoin));
	Bitmapset  *attnos = needed_above(rows, number + 1, outputs);
	ListCell   *lc;

	attnos = bms_join(attnos, batch_attnos(spec->quals));
	attnos = bms_join(attnos, batch_attnos(spec->others));
	attnos = attributes_before(attnos, spec->first + spec->ncolumns);

	/*
	 * each of several processes would mark entries of its own, and rows that
	 * nothing matches have no columns for further conditions
	 */
	Assert(!spec->reversed || ((spec->type == JOIN_SEMI || spec->type == JOIN_ANTI) && !spec->shared && spec->others == NIL));
	join->source.methods = &join_methods;
	join->type = spec->type;
	join->reversed = spec->reversed;
	join->cost = spec->cost * (1.0 + spec->rows);
	join->dear = spec->dear;
	join->input = input;
	join->below = input->source;
	join->filter = filter;
	join->output = output;
	batch_init(output, rows->tupdesc, NULL, attnos, input->parent);
	output->source = &join->source;
	join->join_keys = join_keys_create(spec->clauses);
	join->build = join_build_create(spec, join->join_keys, own_columns(spec, attnos), input->parent);
	find_origins(join, spec);
	foreach(lc, spec->outer_keys)
		join->keys[foreach_current_index(lc)] = vector_expr_compile(lfirst(lc), input);
	if (spec->quals != NIL)
		join->quals = vector_filter_compile(spec->quals, output);
	if (spec->others != NIL)
		join->others = vector_filter_compile(spec->others, output);

	return join;
}

/* Have the keys of a join remove rows of the table, where they are columns of it. */
static void
add_key_filter(JoinRows *rows, VectorJoin *first, const JoinSpec *spec, JoinBuild *build)
{
	ListCell   *lc;

	if (spec->type != JOIN_INNER && spec->type != JOIN_SEMI && !spec->reversed)
		return;
	foreach(lc, spec->outer_keys)
	{
		int			key = foreach_current_index(lc);
		Var		   *var = (Var *) planner_strip_relabel(lfirst(lc));

		if (!IsA(var, Var) || var->varattno > rows->first || !join_keys_integer(build->join_keys, key))
			continue;
		if (first->key_filter == NULL)
			first->key_filter = join_key_filter_create(first->filter);
		join_key_filter_add(first->key_filter, build, key, batch_index(first->input, var->varattno), var->varattno,
							join_keys_outer_type(build->join_keys, key));
		if (!OidIsValid(spec->index) || !join_keys_direct(build->join_keys))
			continue;
		/* or else the index orders other values */
		Assert(join_keys_outer_type(build->join_keys, key) == var->vartype);
		if (first->look_ups == NULL)
			first->look_ups = join_look_ups_create(first->input);
		join_look_ups_add(first->look_ups, build, spec->index, join_keys_outer_type(build->join_keys, key), spec->key_rows);
	}
}

/*
 * The source of the rows of all joins, for a batch that is initialized here.
 * Its input is the table's batch, with its filter. The batch of the table, as
 * those of joins that are not the last one, has memory of its own, which lives
 * as long as its rows are joined. Everything is in the current context.
 */
Source *
joins_create(JoinRows *rows, List *outputs, Batch *table, VectorFilter *filter, Batch *output)
{
	Batch	   *input = table;
	int			n = list_length(rows->specs);
	VectorJoin *first = NULL;

	for (int i = 0; i < n; i++)
	{
		Batch	   *next = i == n - 1 ? output : palloc0(sizeof(Batch));
		VectorJoin *join = create_join(rows, i, outputs, input, i == 0 ? filter : NULL, next);

		if (i == 0)
		{
			first = join;
			first->is_small = reads_small_table(table->parent);
		}
		add_key_filter(rows, first, list_nth(rows->specs, i), join->build);
		if (join->reversed && join->quals == NULL)
			join->marked_keys = first->key_filter;
		if (i < n - 1)
			next->econtext = CreateExprContext(table->parent->state);
		input = next;
	}
	if (first->key_filter != NULL)
	{
		table->source->excludes = join_key_filter_excludes;
		table->source->filter = first->key_filter;
	}
	return output->source;
}

/*
 * Parameters have changed: have the plans read again that depend on them, or
 * whose keys do. Called after end().
 */
void
joins_forget(Source *source, const Bitmapset *changed)
{
	while (source->methods == &join_methods)
	{
		VectorJoin *join = (VectorJoin *) source;

		Assert(!join->begun);
		if (join->build->plan->chgParam != NULL || bms_overlap(join->build->params, changed))
			join->built = false;
		source = join->below;
	}
}

/* The build side of a join, which is `above` joins below the last one, whose source is given. */
JoinBuild *
join_build_of(Source *source, int above)
{
	VectorJoin *join = (VectorJoin *) source;

	while (above-- > 0)
		join = (VectorJoin *) join->below;
	Assert(join->source.methods == &join_methods);
	return join->build;
}

/* The sources of build sides whose plans processes run together; the source is that of the last join. */
List *
joins_shared_rows(Source *source)
{
	List	   *result = NIL;

	while (source->methods == &join_methods)
	{
		VectorJoin *join = (VectorJoin *) source;

		if (shared_rows_applies(join->build->rows))
			result = lappend(result, join->build->rows);
		source = join->below;
	}
	return result;
}

/* The join that reads the table's rows, below the last one, whose source is given. */
static VectorJoin *
first_join(Source *source)
{
	VectorJoin *join = (VectorJoin *) source;

	while (join->below->methods == &join_methods)
		join = (VectorJoin *) join->below;
	return join;
}

/* What removes rows of the table, of the last join's source; or NULL. */
JoinKeyFilter *
join_key_filter_of(Source *source)
{
	return first_join(source)->key_filter;
}

/* What finds pages of the table by an index, of the last join's source; or NULL. */
JoinLookUps *
join_look_ups_of(Source *source)
{
	return first_join(source)->look_ups;
}
