/*-------------------------------------------------------------------------
 *
 * aggregate_path.c
 *	  The path of one table's vectorized scan, and its plan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_type.h"
#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "utils/float.h"
#include "utils/spccache.h"

#include "planner/known_rows.h"
#include "planner/planner.h"
#include "vector/aggregate/aggregate.h"
#include "vector/group/distinct.h"
#include "vector/node/custom_scan.h"
#include "vector/plan/branch.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

static Plan *plan_aggregation(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);

const		CustomPathMethods vector_aggregate_path_methods = {
	.CustomName = "VectorAggregate",
	.PlanCustomPath = plan_aggregation,
};

/*
 * A custom scan of a table, reading a columnar index if one is named, without its
 * cost. The late columns are fetched for the rows that filter and joins leave.
 */
CustomPath *
vector_make_scan_path(RelOptInfo *parent, RelOptInfo *rel, PathTarget *target, List *terms, Oid index, List *late,
					  int parallel_workers, bool safe)
{
	CustomPath *path = (CustomPath *) newNode(sizeof(JoinsPath), T_CustomPath);

	path->path.pathtype = T_CustomScan;
	path->path.parent = parent;
	path->path.pathtarget = target;
	path->path.parallel_aware = parallel_workers > 0;
	path->path.parallel_safe = safe;
	path->path.parallel_workers = parallel_workers;
	/* no groups are exchanged; if there are joins, those are added */
	path->custom_private = list_make5(makeInteger(rel->relid), terms, list_make1_oid(index), makeInteger(0), late);
	path->methods = &vector_aggregate_path_methods;

	return path;
}

/* What it takes PostgreSQL to find the rows of a table that its filter keeps by an index of its own, at least. */
static Cost
index_path_cost(PlannerInfo *root, RelOptInfo *rel)
{
	Cost		least = get_float8_infinity();
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if ((IsA(path, IndexPath) || IsA(path, BitmapHeapPath)) && path->param_info == NULL)
			least = Min(least, cached_path_cost(root, path));
	}
	return least;
}

/*
 * Does PostgreSQL find the rows of a table for less than that, time after time,
 * by keys that an outer query gives? It takes each key to have rows. Where many
 * have none, an index says so at once, while we read the table for each of them;
 * so with nothing known of the keys, they are left to the index.
 */
bool
vector_is_looked_up_for_less(PlannerInfo *root, RelOptInfo *rel, Cost taken)
{
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);
		Path	   *found = IsA(path, BitmapHeapPath) ? ((BitmapHeapPath *) path)->bitmapqual : path;

		if (path->param_info == NULL && IsA(found, IndexPath) && known_rows_looks_up_outer_key(root, (IndexPath *) found) &&
			(known_rows_keys_ratio(root, (IndexPath *) found) <= 0 || cached_path_cost(root, path) < taken))
			return true;
	}
	return false;
}

/*
 * The columnar index that has what the filter needs and not all that is
 * aggregated, if what it lacks is to be fetched for the rows that are left, which
 * are the late columns; or InvalidOid. That must take less than reading the
 * table, and than to find these rows by another index. The costs of reading the
 * table, of which *wait is only taken, become the share of them that is taken.
 */
static Oid
choose_late_index(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, double page_cost, Cost *pages, Cost *row,
				  Cost *wait, List **late)
{
	Cost		own_pages = cached_sequential_page_cost(root, page_cost) * rel->pages;
	Cost		own_row = *row + *wait;
	Cost		whole = Max(own_pages + own_row * rel->tuples, cpu_tuple_cost);
	Oid			index = vector_choose_late_index(root, rel, NIL, target->exprs, rel->rows, *wait, &own_pages, &own_row, late);
	Cost		taken = own_pages + own_row * rel->tuples;
	Cost		others;

	if (!OidIsValid(index))
		return InvalidOid;
	others = vector_others_cost(root, rel, 1) * vector_index_others_factor(rel, index);
	if (vector_columns != PLAN_FORCE && taken + others * rel->tuples >= index_path_cost(root, rel))
	{
		*late = NIL;
		return InvalidOid;
	}
	*pages *= taken / whole;
	*row *= taken / whole;
	*wait *= taken / whole;

	return index;
}

/*
 * The custom scan of a table. With parallel_workers it is a partial path.
 */
Path *
vector_scan_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, PathTarget *target,
				 double groups, int parallel_workers, bool safe)
{
	CustomPath *path;
	List	   *terms = vector_ordered_terms(root, rel->baserestrictinfo, rel->rows);
	double		page_cost;
	double		divisor = vector_parallel_divisor(parallel_workers);
	Cost		pages;
	Cost		row = vector_filter_cost(root, rel);
	Cost		wait = vector_wait_cost(root, rel) + vector_reach_cost(root, rel, true);
	Cost		values = vector_row_cost(root, target);
	double		aggregated;		/* what share of that it takes */
	Cost		run;
	Oid			index;
	List	   *late = NIL;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	pages = page_cost * rel->pages;
	index = vector_choose_column_index(root, rel, target->exprs, 0, &pages, &row);
	if (OidIsValid(index))
		wait = 0;
	else
		index = choose_late_index(root, rel, target, page_cost, &pages, &row, &wait, &late);
	row += vector_others_cost(root, rel, 1) * vector_index_others_factor(rel, index);
	run = pages + (row * rel->tuples + values * rel->rows) / divisor;
	aggregated = OidIsValid(index) ? AGGREGATE_TIME_COLUMNS : 1;

	path = vector_make_scan_path(parent, rel, target, terms, index, late, parallel_workers, safe);
	path->path.rows = clamp_row_est(Min(groups, Max(rel->rows / divisor, 1)));
	path->path.startup_cost = STARTUP_COST + run;
	path->path.total_cost = path->path.startup_cost + path->path.rows * cpu_tuple_cost;
	((JoinsPath *) path)->planned = path->path.total_cost;
	((JoinsPath *) path)->taken = path->path.total_cost + vector_filter_startup_cost(root, rel) -
		(page_cost > 0 ? pages * (1 - cached_sequential_page_cost(root, page_cost) / page_cost) : 0) +
		((aggregated * (values + vector_row_time(target)) - values) * rel->rows + wait * rel->tuples) / divisor;

	return &path->path;
}

/* Note in a path that its processes exchange groups, and the estimate of their number. */
static void
set_exchange(Path *path, double groups)
{
	List	   *private = castNode(CustomPath, path)->custom_private;

	lfirst(list_nth_cell(private, VECTOR_PATH_EXCHANGE)) = makeInteger((int) Min(Max(groups, 1), INT_MAX));
}

/*
 * Have the processes of a partial path exchange their groups, so that each has
 * final states of some of them: for the node that finishes groups.
 */
void
vector_exchange_groups(Path *path, double groups, int parallel_workers)
{
	Cost		cost = vector_exchange_cost(path->rows);

	/* those of each process are exchanged; it returns its share of all */
	path->startup_cost += cost;
	path->total_cost += cost;
	path->rows = clamp_row_est(groups / vector_parallel_divisor(parallel_workers));
	set_exchange(path, groups);
}

/*
 * Have the processes of a partial path exchange pairs of a group and a value that is to be DISTINCT, which costs so
 * much, so that each has partial states of values that no other has.
 */
void
vector_share_pairs(Path *path, double pairs, Cost cost)
{
	path->startup_cost += cost;
	path->total_cost += cost;
	set_exchange(path, pairs);
}

/* What expressions take from elsewhere in the plan. */
typedef struct Outside
{
	List	   *params;			/* Params, and subqueries without arguments */
	Bitmapset  *results;		/* of subqueries: set by these themselves */
} Outside;

static bool outside_walker(Node *node, void *context);

/*
 * A subquery takes what its plan refers to. The planner knows what that is only
 * at the end, and looks for subqueries then: one is left for it whose arguments
 * are already here.
 */
static bool
outside_of_subquery(SubPlan *subplan, Outside *outside)
{
	SubPlan    *alone = copyObject(subplan);
	ListCell   *lc;

	alone->testexpr = NULL;
	alone->args = NIL;
	outside->params = lappend(outside->params, alone);
	foreach(lc, subplan->paramIds)
		outside->results = bms_add_member(outside->results, lfirst_int(lc));
	return outside_walker((Node *) subplan->args, outside) || outside_walker(subplan->testexpr, outside);
}

static bool
outside_walker(Node *node, void *context)
{
	Outside    *outside = context;

	if (node == NULL)
		return false;
	if (IsA(node, SubPlan))
		return outside_of_subquery((SubPlan *) node, outside);
	if (IsA(node, Param))
	{
		Param	   *param = (Param *) node;

		if (param->paramkind != PARAM_EXEC || !bms_is_member(param->paramid, outside->results))
			outside->params = lappend(outside->params, copyObject(param));
		return false;
	}
	return expression_tree_walker(node, outside_walker, context);
}

/* What expressions take from elsewhere in the plan, for the planner to find: Params, and subqueries that are not executed. */
static List *
collect_params(Node *node)
{
	Outside		outside = {NIL};

	(void) outside_walker(node, &outside);
	return outside.params;
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
passthrough_after_of(PlannerInfo *root, CustomPath *path, List *tlist, Index table)
{
	/* of joins the path has a relation of its own */
	bool		joins = path->custom_paths != NIL || ((JoinsPath *) path)->around != NIL;
	RelOptInfo *input = joins ? path->path.parent : find_base_rel(root, table);
	double		rows = input->rows / vector_parallel_divisor(path->path.parallel_workers);

	if (!path->path.parallel_aware && !order_is_moot(tlist))
		return -1;
	return path->path.rows > PAYING_SHARE * rows ? 0 : (int) Min(2 * path->path.rows, PG_INT32_MAX);
}

/*
 * The entry of custom_scan_tlist that carries expressions which the executor
 * evaluates within the scan. setrefs.c replaces whatever in the plan's target
 * list equals an entry of custom_scan_tlist by a reference to that column, and
 * this column is never filled. So the entry must equal nothing that a query
 * can contain: PostgreSQL gives every row of type record names for its
 * columns, and this one has none.
 */
static TargetEntry *
hidden_entry(List *exprs, AttrNumber attno)
{
	RowExpr    *row = makeNode(RowExpr);

	row->args = exprs;
	row->row_typeid = RECORDOID;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->colnames = NIL;
	row->location = -1;

	return makeTargetEntry((Expr *) row, attno, NULL, true);
}

/*
 * Make the plan node of a scan with these outputs: custom_scan.h tells what it
 * passes.
 */
CustomScan *
vector_plan_scan(PlannerInfo *root, CustomPath *best_path, List *outputs, List *custom_plans, int passthrough_after)
{
	CustomScan *cscan = makeNode(CustomScan);
	JoinsPath  *paths = (JoinsPath *) best_path;
	List	   *private = best_path->custom_private;
	List	   *terms = list_nth(private, VECTOR_PATH_TERMS);
	List	   *inner = copyObject(terms);
	List	   *distinct = NIL;
	ListCell   *lc;

	foreach(lc, outputs)
	{
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;

		distinct = lappend(distinct, IsA(aggref, Aggref) ? copyObject(aggref->aggdistinct) : NIL);
	}
	outputs = (List *) vector_combinable_aggregates((Node *) outputs, root);
	cscan->scan.scanrelid = intVal(list_nth(private, VECTOR_PATH_TABLE));
	cscan->scan.plan.targetlist = outputs;
	cscan->custom_private = list_make5(makeInteger(list_length(outputs)),
									   list_copy(list_nth(private, VECTOR_PATH_COLUMNS)), distinct,
									   makeInteger(list_length(terms)), list_nth(private, VECTOR_PATH_EXCHANGE));
	cscan->custom_private = lappend(cscan->custom_private, makeInteger(passthrough_after));
	cscan->custom_private = lappend(cscan->custom_private, list_copy(list_nth(private, VECTOR_PATH_LATE)));
	if (paths->around != NIL)
		custom_plans = list_concat(custom_plans, branch_plans(paths->around));
#if PG_VERSION_NUM >= 180000

	/*
	 * the plan of a branch is made by a copy, and PostgreSQL goes on with the
	 * original
	 */
	if (paths->subroot != NULL)
		paths->subroot->partPruneInfos = root->partPruneInfos;
#endif
	if (custom_plans != NIL)
		inner = list_concat(inner, vector_plan_joins(root, cscan, list_nth_node(List, private, VECTOR_PATH_JOINS), custom_plans));
	cscan->custom_scan_tlist = lappend(copyObject(outputs), hidden_entry(inner, list_length(outputs) + 1));
	cscan->custom_exprs = collect_params((Node *) cscan->custom_scan_tlist);
	cscan->methods = &vector_scan_methods;

	return cscan;
}

static Plan *
plan_aggregation(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				 List *clauses, List *custom_plans)
{
	Index		table = intVal(list_nth(best_path->custom_private, VECTOR_PATH_TABLE));

	return &vector_plan_scan(root, best_path, tlist, custom_plans,
							 passthrough_after_of(root, best_path, tlist, table))->scan.plan;
}
