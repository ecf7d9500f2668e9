/*-------------------------------------------------------------------------
 *
 * cached_upper_cost.c
 *	  What paths above scans and joins take where all tables are in memory:
 *	  groups, windows, LIMIT, subqueries.
 *
 * It goes on with cached_cost.c, by the same clock. Where nothing better is
 * known of a node, what PostgreSQL says that it costs beyond those below it is
 * taken for its time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"

#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

/* Bytes of a group in PostgreSQL's hash table, about. */
#define CORE_GROUP_BYTES 96.0

/* Kinds of paths that replace the path of PostgreSQL's below them. What other extensions' paths take is not known. */
#define MOST_METHODS 4

static const CustomPathMethods *replacing[MOST_METHODS];
static int	nreplacing = 0;

/* Paths with these methods take the place of the one that they stand above. Called when the library is loaded. */
void
cached_cost_add_replacing(const CustomPathMethods * methods)
{
	Assert(nreplacing < MOST_METHODS);
	replacing[nreplacing++] = methods;
}

static bool
replaces_path_below(const CustomPath *path)
{
	for (int i = 0; i < nreplacing; i++)
	{
		if (path->methods == replacing[i])
			return true;
	}
	return false;
}

/* Is it our path of windows, which replaces PostgreSQL's? */
static bool
is_vector_window(const Path *path)
{
	return IsA(path, CustomPath) && replaces_path_below((const CustomPath *) path) &&
		IsA(linitial(((const CustomPath *) path)->custom_paths), WindowAggPath);
}

/* What a path takes beyond the one below it, by their costs. */
static Cost
own_cost(const Path *path, const Path *below)
{
	return Max(path->total_cost - below->total_cost, 0) * (is_vector_window(path) ? CACHED_COST_VECTOR_WINDOW : CACHED_COST_OWN);
}

/* Rows of a path, by what is known of its relation. */
static double
likely_rows(PlannerInfo *root, const Path *path)
{
	return path->rows * (path->parent->reloptkind == RELOPT_UPPER_REL ? 1 : cached_rows_factor(root, path->parent));
}

/* Calling the functions of aggregates for a number of rows; their values are sorted where that is not done below. */
static Cost
transitions_cost(const PathTarget *target, double rows, double groups)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) target->exprs, PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS))
	{
		Aggref	   *aggref = lfirst(lc);

		if (!IsA(aggref, Aggref))
			continue;
		cost += cpu_operator_cost * EAGER_COST_CORE_AGGREGATE * rows;
#if PG_VERSION_NUM >= 160000
		if (aggref->aggpresorted)
			continue;
#endif
		if (aggref->aggdistinct != NIL || aggref->aggorder != NIL)
			cost += cpu_tuple_cost *
				((CACHED_COST_SORTED_VALUE + CACHED_COST_COMPARE * log2(Max(rows / Max(groups, 1), 2))) * rows +
				 CACHED_COST_SORT_OF_GROUP * groups);
	}
	return cost;
}

/* Finding the groups of a number of rows, calling the functions of aggregates, and returning the groups. */
static Cost
groups_cost(const PathTarget *target, AggStrategy strategy, double rows, double expected)
{
	double		groups = clamp_row_est(Min(expected, rows));
	double		bytes = groups * CORE_GROUP_BYTES;
	Cost		cost = transitions_cost(target, rows, groups);

	if (strategy == AGG_HASHED)
		cost += cpu_operator_cost * rows *
			(EAGER_COST_CORE_ROW + (bytes > EAGER_NEAR_BYTES ? EAGER_COST_CORE_WAITING * log2(bytes / EAGER_NEAR_BYTES) : 0));
	else if (strategy != AGG_PLAIN)
		cost += cpu_operator_cost * rows * EAGER_COST_CORE_ROW / 2;
	return cost + cpu_operator_cost * EAGER_COST_GROUP_RETURNED * groups;
}

/* An Agg node of PostgreSQL's, without what is below it. */
Cost
cached_aggregate_cost(PlannerInfo *root, const AggPath *agg)
{
	return groups_cost(agg->path.pathtarget, agg->aggstrategy, likely_rows(root, agg->subpath), agg->numGroups);
}

/*
 * The same of grouping sets, each of which takes every row. The first of those
 * that are not hashed has rows in order; the others sort them.
 */
static Cost
grouping_sets_cost(PlannerInfo *root, const GroupingSetsPath *path)
{
	double		rows = likely_rows(root, path->subpath);
	bool		first = true;
	Cost		cost = 0;
	ListCell   *lc;
	ListCell   *one;

	foreach(lc, path->rollups)
	{
		const RollupData *rollup = lfirst_node(RollupData, lc);

		foreach(one, rollup->gsets_data)
			cost += groups_cost(path->path.pathtarget, rollup->is_hashed ? AGG_HASHED : AGG_SORTED, rows,
								lfirst_node(GroupingSetData, one)->numGroups);
		if (rollup->is_hashed || rollup->groupClause == NIL)
			continue;
		if (!first)
			cost += cpu_tuple_cost * CACHED_COST_COMPARE * rows * log2(Max(rows, 2));
		first = false;
	}
	return cost;
}

/* LIMIT: what is below it up to the last row that is wanted. */
static Cost
limit_cost(PlannerInfo *root, const LimitPath *limit, PathCost cost)
{
	Path	   *below = limit->subpath;
	Cost		whole = cost(root, below);
	Cost		run = Max(below->total_cost - below->startup_cost, 0);
	double		share = run > 0 ? Min((limit->path.total_cost - below->startup_cost) / run, 1) : 1;
	double		startup = below->total_cost > 0 ? below->startup_cost / below->total_cost : 1;

	return whole * (startup + (1 - startup) * Max(share, 0));
}

/* What a query's subqueries take that are computed once: CTEs, and others without correlation. */
Cost
cached_once_cost(PlannerInfo *root)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, root->init_plans)
	{
		SubPlan    *subplan = lfirst_node(SubPlan, lc);
		PlannerInfo *subroot = list_nth(root->glob->subroots, subplan->plan_id - 1);
		const QueryCost *known = planner_memo_find(subroot, MEMO_QUERY_COST, subroot);

		cost += known != NULL ? known->whole : subplan->startup_cost + subplan->per_call_cost;
	}
	return cost;
}

/* A subquery in FROM. */
static Cost
subquery_cost(const SubqueryScanPath *path, PathCost cost)
{
	PlannerInfo *subroot = path->path.parent->subroot;

	if (subroot == NULL)
		return path->path.total_cost;
	return cost(subroot, path->subpath) + cached_once_cost(subroot) + own_cost(&path->path, path->subpath);
}

/* A sort's subpath; of other paths themselves. */
static Path *
below_sort(Path *path)
{
	return IsA(path, SortPath) || IsA(path, IncrementalSortPath) ? ((SortPath *) path)->subpath : path;
}

/*
 * Of nodes that take the place of PostgreSQL's, which their paths stand above:
 * what these are above. That is one node, or windows with the sorts of their rows.
 */
static Path *
below_replaced(Path *path)
{
	if (IsA(path, AggPath))
		return ((AggPath *) path)->subpath;
	if (IsA(path, GroupingSetsPath))
		return ((GroupingSetsPath *) path)->subpath;
	if (!IsA(path, WindowAggPath))
		return below_sort(path);
	while (IsA(path, WindowAggPath))
		path = below_sort(((WindowAggPath *) path)->subpath);
	return path;
}

/* The path below one, where there is one. */
static Path *
below(Path *path)
{
	switch (nodeTag(path))
	{
		case T_GroupPath:
			return ((GroupPath *) path)->subpath;
		case T_WindowAggPath:
			return ((WindowAggPath *) path)->subpath;
		case T_ProjectSetPath:
			return ((ProjectSetPath *) path)->subpath;
		case T_IncrementalSortPath:
			return ((SortPath *) path)->subpath;
#if PG_VERSION_NUM < 190000
		case T_UpperUniquePath:
			return ((UpperUniquePath *) path)->subpath;
#endif
		case T_GatherMergePath:
			return ((GatherMergePath *) path)->subpath;
		case T_LockRowsPath:
			return ((LockRowsPath *) path)->subpath;
		case T_CustomPath:
			{
				CustomPath *custom = (CustomPath *) path;

				return replaces_path_below(custom) ? below_replaced(linitial(custom->custom_paths)) : NULL;
			}
		default:
			return NULL;
	}
}

/* What a path takes that is none of a scan or join of tables; `cost` tells it of those below. */
Cost
cached_upper_cost(PlannerInfo *root, Path *path, PathCost cost)
{
	Cost		sum = 0;
	Path	   *input;
	ListCell   *lc;

	switch (nodeTag(path))
	{
		case T_AggPath:
			return cost(root, ((AggPath *) path)->subpath) + cached_aggregate_cost(root, (AggPath *) path);
		case T_GroupingSetsPath:
			return cost(root, ((GroupingSetsPath *) path)->subpath) +
				grouping_sets_cost(root, (GroupingSetsPath *) path);
		case T_LimitPath:
			return limit_cost(root, (LimitPath *) path, cost);
		case T_SubqueryScanPath:
			return subquery_cost((SubqueryScanPath *) path, cost);
		case T_MergeAppendPath:
			foreach(lc, ((MergeAppendPath *) path)->subpaths)
				sum += cost(root, lfirst(lc));
			return sum + cpu_tuple_cost * path->rows;
		default:
			input = below(path);
			return input == NULL ? path->total_cost * CACHED_COST_OWN : cost(root, input) + own_cost(path, input);
	}
}
