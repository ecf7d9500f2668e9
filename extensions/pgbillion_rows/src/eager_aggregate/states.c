/*-------------------------------------------------------------------------
 *
 * states.c
 *	  Paths that give the partial states of a table.
 *
 * PostgreSQL's hashed aggregation over any path of the table; and, for a table
 * or each of its partitions, the vectorized scan or that of a shard. States
 * always are in their serialized form: they may be kept by a hash table or
 * sorted, go to another process, and are copied by the join.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "eager_aggregate/eager_aggregate.h"
#include "planner/planner.h"
#include "shard/shard.h"
#include "vector/vector.h"

/* A relation to put paths in. Its restrictions are applied below. */
static RelOptInfo *
make_upper_rel(RelOptInfo *table, RelOptKind kind, PathTarget *target, bool parallel_safe)
{
	RelOptInfo *rel = makeNode(RelOptInfo);

	rel->reloptkind = kind;
	rel->relids = bms_copy(table->relids);
	rel->consider_startup = table->consider_startup;
	rel->consider_parallel = parallel_safe;
	rel->reltarget = target;
	rel->serverid = table->serverid;
	rel->userid = table->userid;
	rel->useridiscurrent = table->useridiscurrent;
	rel->fdwroutine = table->fdwroutine;
	rel->nparts = -1;
	copy_enabled_paths(rel, table);

	return rel;
}

/* PostgreSQL's aggregation of what a path of the table gives. */
static Path *
core_path(PlannerInfo *root, EagerAggregate *eager, RelOptInfo *rel, Path *path, PathTarget *input)
{
	AggClauseCosts costs;
	double		rows = path->rows;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_INITIAL_SERIAL, &costs);
	path = (Path *) create_projection_path(root, rel, path, input);
	path = (Path *) create_agg_path(root, rel, path, rel->reltarget, AGG_HASHED, AGGSPLIT_INITIAL_SERIAL,
									eager->group_clause, NIL, &costs, clamp_row_est(Min(eager->groups, rows)));
	eager_cost_add(path, eager, rows, false);

	return path;
}

/* A path of its own for the states; paths of a relation to be joined must have it as parent. */
static Path *
adopted(PlannerInfo *root, RelOptInfo *states, Path *path)
{
	return (Path *) create_projection_path(root, states, path, states->reltarget);
}

/* The shard's or the vectorized scan of one table, or NULL. Workers are for vectors alone. */
static Path *
special_path(PlannerInfo *root, EagerAggregate *eager, RelOptInfo *leaf, int workers)
{
	PathTarget *target = planner_leaf_target(root, eager->target, leaf, eager->table);
	RelOptInfo *rel;
	Path	   *path;

	if (leaf->fdwroutine != NULL)
		return shard_states_path(root, leaf, target);
	rel = make_upper_rel(leaf, RELOPT_OTHER_UPPER_REL, target,
						 workers > 0 || (eager->parallel_safe && leaf->consider_parallel));
	path = vector_states_path(root, rel, leaf, eager->groups, workers);
	/* the leader has about as large a share as a worker */
	if (path != NULL)
		eager_cost_add(path, eager, leaf->rows / (workers + 1), true);
	return path;
}

/* An Append, in each of the workers, of the vectorized scans of these tables. */
static Path *
partial_append(PlannerInfo *root, EagerAggregate *eager, RelOptInfo *states, List *leaves, int workers)
{
	List	   *paths = NIL;
	ListCell   *lc;

	foreach(lc, leaves)
		paths = lappend(paths, special_path(root, eager, lfirst(lc), workers));
	return planner_partial_append_path(root, states, states->reltarget, paths, workers);
}

/* Can PostgreSQL read each of the tables, whatever the others give? */
static bool
all_have_paths(List *leaves)
{
	ListCell   *lc;

	foreach(lc, leaves)
	{
		RelOptInfo *leaf = lfirst(lc);

		if (leaf->cheapest_total_path == NULL || leaf->cheapest_total_path->param_info != NULL)
			return false;
	}
	return true;
}

/* Offer special scans of all tables there are, those without one aggregated by PostgreSQL. */
static void
add_special_paths(PlannerInfo *root, EagerAggregate *eager, RelOptInfo *states, List *leaves)
{
	RelOptInfo *table = eager->table;
	bool		special = false;
	List	   *paths = NIL;
	List	   *others = NIL;
	List	   *vectorized = NIL;
	double		pages = 0;
	int			workers = 0;
	bool		safe;
	ListCell   *lc;

	foreach(lc, leaves)
	{
		RelOptInfo *leaf = lfirst(lc);
		Path	   *path = special_path(root, eager, leaf, 0);

		special |= path != NULL;
		if (path == NULL)
		{
			RelOptInfo *rel = make_upper_rel(leaf, RELOPT_OTHER_UPPER_REL, planner_leaf_target(root, eager->target, leaf, table),
											 eager->parallel_safe && leaf->consider_parallel);

			path = core_path(root, eager, rel, leaf->cheapest_total_path,
							 planner_leaf_target(root, eager->input, leaf, table));
		}
		paths = lappend(paths, path);
		if (IsA(path, CustomPath))
		{
			vectorized = lappend(vectorized, leaf);
			pages += leaf->pages;
		}
		else
			others = lappend(others, path);
	}
	if (!special)
		return;
	if (linitial(leaves) == table)
		add_path(states, adopted(root, states, linitial(paths)));
	else
		add_path(states, planner_append_path(root, states, states->reltarget, paths));

	if (vectorized == NIL)
		return;
	if (others != NIL)
		safe = planner_tables_parallel_safe(root, vectorized, eager->target);
	else
		safe = eager->parallel_safe && table->partial_pathlist != NIL;
	if (safe)
		workers = compute_parallel_worker(linitial(vectorized), pages, -1, max_parallel_workers_per_gather);
	if (workers == 0)
		return;
	if (others != NIL)
	{
		/* PostgreSQL has no workers where one partition is not for them */
		RelOptInfo *rel = make_upper_rel(table, RELOPT_UPPER_REL, eager->target, true);

		add_path(states, adopted(root, states,
								 planner_gathered_path(root, rel, eager->target,
													   partial_append(root, eager, rel, vectorized, workers), others)));
	}
	else if (linitial(leaves) == table)
		add_partial_path(states, adopted(root, states, special_path(root, eager, table, workers)));
	else
		add_partial_path(states, partial_append(root, eager, states, leaves, workers));
}

/*
 * Make a relation whose paths give the states, to be joined in the place of
 * the table. Returns NULL if there is none.
 */
RelOptInfo *
eager_states_rel(PlannerInfo *root, EagerAggregate *eager)
{
	RelOptInfo *table = eager->table;
	RelOptInfo *states = make_upper_rel(table, RELOPT_UPPER_REL, eager->target, eager->parallel_safe);
	Path	   *path = table->cheapest_total_path;
	List	   *leaves;
	ListCell   *lc;

	/* joins of it are not the wrapper's */
	states->fdwroutine = NULL;
	if (path == NULL || path->param_info != NULL)
		return NULL;

	add_path(states, core_path(root, eager, states, path, eager->input));
	if (eager->parallel_safe && table->partial_pathlist != NIL)
		add_partial_path(states, core_path(root, eager, states, linitial(table->partial_pathlist), eager->input));
	leaves = planner_prunes_at_run_time(root, table) ? NIL : planner_leaf_tables(root, table);
	if (leaves != NIL && all_have_paths(leaves))
		add_special_paths(root, eager, states, leaves);
	if (states->partial_pathlist != NIL)
		add_path(states, planner_gathered_path(root, states, states->reltarget, linitial(states->partial_pathlist), NIL));

	/*
	 * joins are estimated alike for all paths; groups may be there once per
	 * partition or process
	 */
	foreach(lc, states->pathlist)
		states->rows = Max(states->rows, ((Path *) lfirst(lc))->rows);
	set_cheapest(states);

	return states;
}
