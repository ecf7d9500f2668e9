/*-------------------------------------------------------------------------
 *
 * states.c
 *	  Paths that give the partial states of a table.
 *
 * Core's hashed aggregation over any path of the table; and, for a table or
 * each of its partitions, the vectorised scan or that of a shard. States
 * always are in their serialised form: they may be kept by a hash table or
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

	return rel;
}

/* Core's aggregation of what a path of the table gives. */
static Path *
core_path(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *rel, Path *path, PathTarget *input)
{
	AggClauseCosts costs;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_INITIAL_SERIAL, &costs);
	path = (Path *) create_projection_path(root, rel, path, input);

	return (Path *) create_agg_path(root, rel, path, rel->reltarget, AGG_HASHED, AGGSPLIT_INITIAL_SERIAL,
									early->group_clause, NIL, &costs,
									clamp_row_est(Min(early->groups, path->rows)));
}

/* What is said in the columns of the table, said in those of one of its partitions. */
static PathTarget *
translated(PlannerInfo *root, PathTarget *target, RelOptInfo *leaf, RelOptInfo *table)
{
	PathTarget *result;

	if (leaf == table)
		return target;
	result = copy_pathtarget(target);
	result->exprs = (List *) adjust_appendrel_attrs_to_child(root, (Node *) target->exprs, leaf, table);
	return result;
}

/* A path of its own for the states; paths of a relation to be joined must have it as parent. */
static Path *
adopted(PlannerInfo *root, RelOptInfo *states, Path *path)
{
	return (Path *) create_projection_path(root, states, path, states->reltarget);
}

/* Collect the tables of which there is anything to read; false if one has no path. */
static bool
collect_leaves(PlannerInfo *root, RelOptInfo *rel, List **leaves)
{
	ListCell   *lc;

	if (!planner_rt_fetch(rel->relid, root)->inh)
	{
		if (rel->cheapest_total_path == NULL || rel->cheapest_total_path->param_info != NULL)
			return false;
		*leaves = lappend(*leaves, rel);
		return true;
	}
	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *child;

		if (info->parent_relid != rel->relid)
			continue;
		child = root->simple_rel_array[info->child_relid];
		if (child != NULL && !IS_DUMMY_REL(child) && !collect_leaves(root, child, leaves))
			return false;
	}
	return true;
}

static bool
is_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, is_param, context);
}

/*
 * Might core leave out partitions when the query runs? It looks for
 * parameters in conditions on what tables are partitioned by; an Append of
 * ours does not.
 */
static bool
prunes_at_run_time(PlannerInfo *root, RelOptInfo *table)
{
	List	   *keys = NIL;
	ListCell   *lc;

	if (table->part_scheme == NULL)
		return false;
	for (int i = 0; i < table->part_scheme->partnatts; i++)
		keys = list_concat(keys, pull_var_clause((Node *) table->partexprs[i], PVC_RECURSE_PLACEHOLDERS));
	foreach(lc, table->baserestrictinfo)
	{
		Node	   *clause = (Node *) lfirst_node(RestrictInfo, lc)->clause;

		if (is_param(clause, NULL) &&
			list_intersection(pull_var_clause(clause, PVC_RECURSE_PLACEHOLDERS), keys) != NIL)
			return true;
	}
	for (int i = 0; i < table->nparts; i++)
	{
		if (table->part_rels[i] != NULL && !IS_DUMMY_REL(table->part_rels[i]) &&
			prunes_at_run_time(root, table->part_rels[i]))
			return true;
	}
	return false;
}

/* The shard's or the vectorised scan of one table, or NULL. Workers are for vectors alone. */
static Path *
special_path(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *leaf, int workers)
{
	PathTarget *target = translated(root, early->target, leaf, early->table);

	if (leaf->fdwroutine != NULL)
		return ShardStatesPath(root, leaf, target);
	return VectorStatesPath(root, make_upper_rel(leaf, RELOPT_OTHER_UPPER_REL, target,
												 workers > 0 || (early->parallel_safe && leaf->consider_parallel)),
							leaf, early->groups, workers);
}

/* An Append, in each of the workers, of the vectorised scans of these tables. */
static Path *
partial_append(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *states, List *leaves, int workers)
{
	List	   *paths = NIL;
	ListCell   *lc;

	foreach(lc, leaves)
		paths = lappend(paths, special_path(root, early, lfirst(lc), workers));
	return (Path *) create_append_path(root, states, NIL, paths, NIL, NULL, workers, enable_parallel_append, -1);
}

static Path *
gather_path(PlannerInfo *root, RelOptInfo *states, Path *path)
{
	double		rows = path->rows * path->parallel_workers;

	return (Path *) create_gather_path(root, states, path, states->reltarget, NULL, &rows);
}

/* Offer special scans of all tables there are, those without one aggregated by core. */
static void
add_special_paths(PlannerInfo *root, EarlyAggregate *early, RelOptInfo *states, List *leaves)
{
	RelOptInfo *table = early->table;
	bool		special = false;
	List	   *paths = NIL;
	List	   *others = NIL;
	List	   *vectorised = NIL;
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
			RelOptInfo *rel = make_upper_rel(leaf, RELOPT_OTHER_UPPER_REL, translated(root, early->target, leaf, table),
											 early->parallel_safe && leaf->consider_parallel);

			path = core_path(root, early, rel, leaf->cheapest_total_path,
							 translated(root, early->input, leaf, table));
		}
		paths = lappend(paths, path);
		if (IsA(path, CustomPath))
		{
			vectorised = lappend(vectorised, leaf);
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
		add_path(states, (Path *) create_append_path(root, states, paths, NIL, NIL, NULL, 0, false, -1));

	if (vectorised == NIL)
		return;
	if (others != NIL)
		safe = VectorParallelSafe(root, vectorised, early->target);
	else
		safe = early->parallel_safe && table->partial_pathlist != NIL;
	if (safe)
		workers = compute_parallel_worker(linitial(vectorised), pages, -1, max_parallel_workers_per_gather);
	if (workers == 0)
		return;
	if (others != NIL)
	{
		/* core has no workers where one partition is not for them */
		RelOptInfo *rel = make_upper_rel(table, RELOPT_UPPER_REL, early->target, true);
		Path	   *gather = gather_path(root, rel, partial_append(root, early, rel, vectorised, workers));

		add_path(states, (Path *) create_append_path(root, states, lappend(others, gather), NIL, NIL, NULL, 0,
													 false, -1));
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
	List	   *leaves = NIL;
	ListCell   *lc;

	/* joins of it are not the wrapper's */
	states->fdwroutine = NULL;
	if (path == NULL || path->param_info != NULL)
		return NULL;

	add_path(states, core_path(root, early, states, path, early->input));
	if (early->parallel_safe && table->partial_pathlist != NIL)
		add_partial_path(states, core_path(root, early, states, linitial(table->partial_pathlist), early->input));
	if (!prunes_at_run_time(root, table) && collect_leaves(root, table, &leaves) && leaves != NIL)
		add_special_paths(root, early, states, leaves);
	if (states->partial_pathlist != NIL)
		add_path(states, gather_path(root, states, linitial(states->partial_pathlist)));

	/* joins are estimated alike for all paths; groups may be there once a partition or process */
	foreach(lc, states->pathlist)
		states->rows = Max(states->rows, ((Path *) lfirst(lc))->rows);
	set_cheapest(states);

	return states;
}
