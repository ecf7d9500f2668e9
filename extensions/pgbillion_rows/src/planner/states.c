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
#include "planner/before_join.h"
#include "planner/planner.h"

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

	return rel;
}

/* PostgreSQL's aggregation of what a path of the table gives. */
static Path *
core_path(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *rel, Path *path, PathTarget *input)
{
	AggClauseCosts costs;
	double		rows = path->rows;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_INITIAL_SERIAL, &costs);
	path = (Path *) create_projection_path(root, rel, path, input);
	path = (Path *) create_agg_path(root, rel, path, rel->reltarget, AGG_HASHED, AGGSPLIT_INITIAL_SERIAL,
									early->group_clause, NIL, &costs, clamp_row_est(Min(early->groups, rows)));
	add_early_cost(path, early, rows, false);

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
special_path(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *leaf, int workers)
{
	PathTarget *target = leaf_target(root, early->target, leaf, early->table);
	RelOptInfo *rel;
	Path	   *path;

	if (leaf->fdwroutine != NULL)
		return states_sources.of_foreign_table == NULL ? NULL :
			states_sources.of_foreign_table(root, leaf, target);
	if (states_sources.of_table == NULL)
		return NULL;
	rel = make_upper_rel(leaf, RELOPT_OTHER_UPPER_REL, target,
						 workers > 0 || (early->parallel_safe && leaf->consider_parallel));
	path = states_sources.of_table(root, rel, leaf, early->groups, workers);
	/* the leader has about as large a share as a worker */
	if (path != NULL)
		add_early_cost(path, early, leaf->rows / (workers + 1), true);
	return path;
}

/* An Append, in each of the workers, of the vectorized scans of these tables. */
static Path *
partial_append(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *states, List *leaves, int workers)
{
	List	   *paths = NIL;
	ListCell   *lc;

	foreach(lc, leaves)
		paths = lappend(paths, special_path(root, early, lfirst(lc), workers));
	return partial_append_path(root, states, states->reltarget, paths, workers);
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
add_special_paths(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *states, List *leaves)
{
	RelOptInfo *table = early->table;
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
		Path	   *path = special_path(root, early, leaf, 0);

		special |= path != NULL;
		if (path == NULL)
		{
			RelOptInfo *rel = make_upper_rel(leaf, RELOPT_OTHER_UPPER_REL, leaf_target(root, early->target, leaf, table),
											 early->parallel_safe && leaf->consider_parallel);

			path = core_path(root, early, rel, leaf->cheapest_total_path,
							 leaf_target(root, early->input, leaf, table));
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
		add_path(states, append_path(root, states, states->reltarget, paths));

	if (vectorized == NIL)
		return;
	if (others != NIL)
		safe = tables_parallel_safe(root, vectorized, early->target);
	else
		safe = early->parallel_safe && table->partial_pathlist != NIL;
	if (safe)
		workers = compute_parallel_worker(linitial(vectorized), pages, -1, max_parallel_workers_per_gather);
	if (workers == 0)
		return;
	if (others != NIL)
	{
		/* PostgreSQL has no workers where one partition is not for them */
		RelOptInfo *rel = make_upper_rel(table, RELOPT_UPPER_REL, early->target, true);

		add_path(states, adopted(root, states,
								 gathered_path(root, rel, early->target,
											   partial_append(root, early, rel, vectorized, workers), others)));
	}
	else if (linitial(leaves) == table)
		add_partial_path(states, adopted(root, states, special_path(root, early, table, workers)));
	else
		add_partial_path(states, partial_append(root, early, states, leaves, workers));
}

/*
 * Make a relation whose paths give the states, to be joined in the place of
 * the table. Returns NULL if there is none.
 */
RelOptInfo *
make_states_rel(PlannerInfo *root, EarlyAggregate *early)
{
	RelOptInfo *table = early->table;
	RelOptInfo *states = make_upper_rel(table, RELOPT_UPPER_REL, early->target, early->parallel_safe);
	Path	   *path = table->cheapest_total_path;
	List	   *leaves;
	ListCell   *lc;

	/* joins of it are not the wrapper's */
	states->fdwroutine = NULL;
	if (path == NULL || path->param_info != NULL)
		return NULL;

	add_path(states, core_path(root, early, states, path, early->input));
	if (early->parallel_safe && table->partial_pathlist != NIL)
		add_partial_path(states, core_path(root, early, states, linitial(table->partial_pathlist), early->input));
	leaves = prunes_at_run_time(root, table) ? NIL : leaf_tables(root, table);
	if (leaves != NIL && all_have_paths(leaves))
		add_special_paths(root, early, states, leaves);
	if (states->partial_pathlist != NIL)
		add_path(states, gathered_path(root, states, states->reltarget, linitial(states->partial_pathlist), NIL));

	/*
	 * joins are estimated alike for all paths; groups may be there once per
	 * partition or process
	 */
	foreach(lc, states->pathlist)
		states->rows = Max(states->rows, ((Path *) lfirst(lc))->rows);
	set_cheapest(states);

	return states;
}
