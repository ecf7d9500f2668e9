/*-------------------------------------------------------------------------
 *
 * append.c
 *	  Partial states of the tables below a partitioned or inherited one.
 *
 * Some of these tables are scanned by us, which workers can share; others are
 * on shards, or aggregated by PostgreSQL. PostgreSQL has no workers where one
 * partition is not for them, so that there a Gather of our scans goes below
 * the Append.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/appendinfo.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "planner/planner.h"

/* What is said in the columns of a table, said in those of one below it. */
PathTarget *
planner_leaf_target(PlannerInfo *root, PathTarget *target, RelOptInfo *leaf, RelOptInfo *table)
{
	PathTarget *result;

	if (leaf == table)
		return target;
	result = copy_pathtarget(target);
	result->exprs = (List *) adjust_appendrel_attrs_to_child(root, (Node *) target->exprs, leaf, table);
	return result;
}

static void
collect_leaves(PlannerInfo *root, RelOptInfo *rel, List **leaves)
{
	ListCell   *lc;

	if (!planner_rt_fetch(rel->relid, root)->inh)
	{
		*leaves = lappend(*leaves, rel);
		return;
	}
	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *child;

		if (info->parent_relid != rel->relid)
			continue;
		child = root->simple_rel_array[info->child_relid];
		if (child != NULL && !IS_DUMMY_REL(child))
			collect_leaves(root, child, leaves);
	}
}

/* The tables (List of RelOptInfo) of which there is anything to read, in PostgreSQL's order; the table itself if it is one. */
List *
planner_leaf_tables(PlannerInfo *root, RelOptInfo *table)
{
	List	   *leaves = NIL;

	collect_leaves(root, table, &leaves);
	return leaves;
}

static bool
has_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	return IsA(node, Param) || expression_tree_walker(node, has_param, context);
}

/* Do conditions (List of RestrictInfo) mention what a table is partitioned by? */
bool
planner_mentions_partition_key(RelOptInfo *table, List *conditions)
{
	List	   *keys = NIL;

	if (table->part_scheme == NULL)
		return false;
	for (int i = 0; i < table->part_scheme->partnatts; i++)
		keys = list_concat(keys, pull_var_clause((Node *) table->partexprs[i], PVC_RECURSE_PLACEHOLDERS));
	return list_intersection(pull_var_clause((Node *) extract_actual_clauses(conditions, false),
											 PVC_RECURSE_PLACEHOLDERS), keys) != NIL;
}

/* Might PostgreSQL leave out partitions below a table when the query runs? */
static bool
prunes_children(PlannerInfo *root, RelOptInfo *table)
{
	ListCell   *lc;

	if (!planner_rt_fetch(table->relid, root)->inh)
		return false;
	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *info = lfirst_node(AppendRelInfo, lc);
		RelOptInfo *child = root->simple_rel_array[info->child_relid];

		if (info->parent_relid == table->relid && child != NULL && !IS_DUMMY_REL(child) &&
			planner_prunes_at_run_time(root, child))
			return true;
	}
	return false;
}

/*
 * Might PostgreSQL leave out partitions when the query runs? It looks for
 * parameters and functions that are not immutable in conditions on what tables
 * are partitioned by; our Append does not.
 */
bool
planner_prunes_at_run_time(PlannerInfo *root, RelOptInfo *table)
{
	ListCell   *lc;

	if (!enable_partition_pruning)
		return false;
	if (prunes_children(root, table))
		return true;
	if (table->part_scheme == NULL)
		return false;
	foreach(lc, table->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		/* now(), for instance, has a value only then */
		if ((has_param((Node *) rinfo->clause, NULL) || contain_mutable_functions((Node *) rinfo->clause)) &&
			planner_mentions_partition_key(table, list_make1(rinfo)))
			return true;
	}
	return false;
}

/*
 * Can workers scan these tables? PostgreSQL does not tell of those that are next to
 * foreign ones: to it all partitions are for workers, or none.
 */
bool
planner_tables_parallel_safe(PlannerInfo *root, List *tables, PathTarget *target)
{
	ListCell   *lc;

	if (!root->glob->parallelModeOK || !is_parallel_safe(root, (Node *) target->exprs))
		return false;
	foreach(lc, tables)
	{
		RelOptInfo *rel = lfirst(lc);

		if (get_rel_persistence(planner_rt_fetch(rel->relid, root)->relid) == RELPERSISTENCE_TEMP ||
			!is_parallel_safe(root, (Node *) extract_actual_clauses(rel->baserestrictinfo, false)))
			return false;
	}
	return true;
}

static AppendPathInput
append_of(List *subpaths, List *partial_subpaths)
{
	AppendPathInput input = {0};

	input.subpaths = subpaths;
	input.partial_subpaths = partial_subpaths;
	return input;
}

/* An Append of paths that give the states of one table each. */
Path *
planner_append_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *paths)
{
	AppendPath *append = create_append_path(root, rel, append_of(paths, NIL), NIL, NULL, 0, false, -1);

	append->path.pathtarget = target;
	return &append->path;
}

/* The same of partial paths, in each of the workers. */
Path *
planner_partial_append_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *paths, int workers)
{
	AppendPath *append = create_append_path(root, rel, append_of(NIL, paths), NIL, NULL, workers, enable_parallel_append, -1);

	append->path.pathtarget = target;
	return &append->path;
}

/* What workers give, and after it what these other paths do. */
Path *
planner_gathered_path(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, Path *partial, List *others)
{
	double		rows = partial->rows * partial->parallel_workers;
	Path	   *gather = (Path *) create_gather_path(root, rel, partial, target, NULL, &rows);

	if (others == NIL)
		return gather;
	return planner_append_path(root, rel, target, list_concat_copy(others, list_make1(gather)));
}
