/*-------------------------------------------------------------------------
 *
 * path.c
 *	  The path of one table's vectorized scan, and its plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/spccache.h"

#include "vector/aggregate/aggregate.h"
#include "vector/plan/plan.h"
#include "vector/sink/distinct.h"
#include "vector/vector.h"

static Plan *plan_aggregation(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "VectorAggregate",
	.PlanCustomPath = plan_aggregation,
};

/* A custom scan of a table, reading an index of columns if one is named, without its cost. */
CustomPath *
make_scan_path(RelOptInfo *parent, RelOptInfo *rel, PathTarget *target, List *terms, Oid index,
			   int parallel_workers, bool safe)
{
	CustomPath *path = makeNode(CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = parent;
	path->path.pathtarget = target;
	path->path.parallel_aware = parallel_workers > 0;
	path->path.parallel_safe = safe;
	path->path.parallel_workers = parallel_workers;
	/* no groups are exchanged; if there are joins, those are added */
	path->custom_private = list_make4(makeInteger(rel->relid), terms, list_make1_oid(index), makeInteger(0));
	path->methods = &path_methods;

	return path;
}

/*
 * The custom scan of a table. With parallel_workers it is a partial path.
 */
Path *
scan_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, PathTarget *target,
		  double groups, int parallel_workers, bool safe)
{
	CustomPath *path;
	List	   *terms = ordered_terms(root, rel->baserestrictinfo);
	double		page_cost;
	double		divisor = parallel_divisor(parallel_workers);
	Cost		pages;
	Cost		row = filter_cost(root, rel);
	Cost		run;
	Oid			index;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	pages = page_cost * rel->pages;
	index = choose_columns(rel, target->exprs, &pages, &row);
	run = pages + (row * rel->tuples + row_cost(root, target) * rel->rows) / divisor;

	path = make_scan_path(parent, rel, target, terms, index, parallel_workers, safe);
	path->path.rows = clamp_row_est(Min(groups, Max(rel->rows / divisor, 1)));
	path->path.startup_cost = STARTUP_COST + run;
	path->path.total_cost = path->path.startup_cost + path->path.rows * cpu_tuple_cost;

	return &path->path;
}

/*
 * Have the processes of a partial path exchange their groups, so that each has
 * final states of some of them: for the node that finishes groups.
 */
void
exchange_groups(Path *path, double groups, int parallel_workers)
{
	Cost		cost = exchange_cost(path->rows);

	/* those of each process are exchanged; it returns its share of all */
	path->startup_cost += cost;
	path->total_cost += cost;
	path->rows = clamp_row_est(groups / parallel_divisor(parallel_workers));
	lfourth(castNode(CustomPath, path)->custom_private) = makeInteger((int) Min(Max(groups, 1), INT_MAX));
}

/*
 * Have the processes of a partial path exchange pairs of a group and a value that is to be DISTINCT, which costs so
 * much, so that each has partial states of values that no other has.
 */
void
share_pairs(Path *path, double pairs, Cost cost)
{
	path->startup_cost += cost;
	path->total_cost += cost;
	lfourth(castNode(CustomPath, path)->custom_private) = makeInteger((int) Min(Max(pairs, 1), INT_MAX));
}

static bool
params_walker(Node *node, List **params)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param))
	{
		*params = lappend(*params, copyObject(node));
		return false;
	}
	return expression_tree_walker(node, params_walker, params);
}

/* The Params in an expression. */
static List *
collect_params(Node *node)
{
	List	   *params = NIL;

	(void) params_walker(node, &params);
	return params;
}

/* Groups that leave more than this share of the rows are not expected to pay. */
#define PAYING_SHARE 0.8

/* Is it all the same in which order rows are grouped? */
static bool
order_is_moot(List *tlist)
{
	ListCell   *lc;

	foreach(lc, tlist)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

		if (IsA(expr, Aggref))
		{
			if (aggregate_counts((Aggref *) expr))
				continue;
			if (list_length(((Aggref *) expr)->args) != 1)
				return false;
			expr = linitial_node(TargetEntry, ((Aggref *) expr)->args)->expr;
		}
		if (!distinct_equal_is_same(expr))
			return false;
	}
	return true;
}

/*
 * How many groups there may be before it counts that few rows are of groups
 * met before: with estimates that are right it is not known earlier. -1 where
 * they are to be grouped whatever happens: one process takes rows in their
 * order, which may show.
 */
static int
patience_of(PlannerInfo *root, CustomPath *path, List *tlist, Index table)
{
	RelOptInfo *input = path->custom_paths == NIL ? find_base_rel(root, table) :
		find_join_rel(root, path->path.parent->relids);
	double		rows = input->rows / parallel_divisor(path->path.parallel_workers);

	if (!path->path.parallel_aware && !order_is_moot(tlist))
		return -1;
	return path->path.rows > PAYING_SHARE * rows ? 0 : (int) Min(2 * path->path.rows, PG_INT32_MAX);
}

/*
 * Make the plan node of a scan with these outputs: vector.h tells what it
 * passes.
 */
CustomScan *
plan_scan(CustomPath *best_path, List *outputs, List *custom_plans, int patience)
{
	CustomScan *cscan = makeNode(CustomScan);
	List	   *terms = lsecond_node(List, best_path->custom_private);
	List	   *scan_tlist;
	List	   *distinct = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;

		distinct = lappend(distinct, IsA(aggref, Aggref) ? copyObject(aggref->aggdistinct) : NIL);
	}
	outputs = (List *) vector_without_distinct((Node *) outputs, NULL);
	scan_tlist = copyObject(outputs);
	foreach(lc, terms)
		scan_tlist = lappend(scan_tlist,
							 makeTargetEntry(copyObject(lfirst(lc)), list_length(scan_tlist) + 1,
											 NULL, true));
	cscan->scan.scanrelid = intVal(linitial(best_path->custom_private));
	cscan->scan.plan.targetlist = outputs;
	cscan->custom_scan_tlist = scan_tlist;
	cscan->custom_private = list_make5(makeInteger(list_length(outputs)),
									   list_make1_oid(linitial_oid(lthird(best_path->custom_private))), distinct,
									   makeInteger(list_length(terms)), lfourth(best_path->custom_private));
	cscan->custom_private = lappend(cscan->custom_private, makeInteger(patience));
	if (custom_plans != NIL)
		plan_joins(cscan, list_nth_node(List, best_path->custom_private, 4), custom_plans);
	cscan->custom_exprs = collect_params((Node *) cscan->custom_scan_tlist);
	cscan->methods = &vector_scan_methods;

	return cscan;
}

static Plan *
plan_aggregation(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				 List *clauses, List *custom_plans)
{
	Index		table = intVal(linitial(best_path->custom_private));

	return &plan_scan(best_path, tlist, custom_plans, patience_of(root, best_path, tlist, table))->scan.plan;
}
