/*-------------------------------------------------------------------------
 *
 * sort_path.c
 *	  When rows are sorted by VectorSort, what that costs, and the plan.
 *
 * It is offered where PostgreSQL sorts the result of a query for ORDER BY
 * without LIMIT. The path stands above PostgreSQL's path of its Sort, from which
 * the plan takes the order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/selfuncs.h"
#include "utils/sortsupport.h"
#include "utils/typcache.h"

#include "planner/planner.h"
#include "sort/sort.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

/*
 * What sorting takes compared with PostgreSQL's, beyond reading the input, and
 * what setting it up does. Measured by bench/sorts.py: a quarter and less for
 * keys with numbers.
 */
#define SORT_COST_FACTOR 0.4

/*
 * Columns of a row that is sorted, at most: PostgreSQL keeps a row of a table as
 * it is, where each column is read and written here. Measured.
 */
#define MAX_COLUMNS 24

static int	vector_sort = PLAN_ON;

static Plan *plan_sort(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
					   List *clauses, List *custom_plans);

static const CustomPathMethods sort_path_methods = {
	.CustomName = "VectorSort",
	.PlanCustomPath = plan_sort,
};

/*
 * Would two volatile expressions of an output become one? setrefs.c looks for
 * each in custom_scan_tlist, where it finds the first that is equal.
 */
bool
sort_repeats_volatile(PathTarget *output)
{
	for (int i = 0; i < list_length(output->exprs); i++)
	{
		Node	   *expr = list_nth(output->exprs, i);

		if (!contain_volatile_functions(expr))
			continue;
		for (int j = 0; j < i; j++)
		{
			if (equal(list_nth(output->exprs, j), expr))
				return true;
		}
	}
	return false;
}

/*
 * Is there a record of no named type in an output? EXPLAIN could not name a
 * field of it: ruleutils.c looks for it below a SubqueryScan only.
 */
bool
sort_has_record(PathTarget *output)
{
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) output->exprs, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
								PVC_RECURSE_PLACEHOLDERS))
	{
		if (exprType(lfirst(lc)) == RECORDOID)
			return true;
	}
	return false;
}

/* Has the first key of a sort numbers, so that few rows are compared? */
bool
sort_gains(PlannerInfo *root, Path *sort)
{
	PathKey    *key;
	EquivalenceMember *member;
	int			few;

	if (sort->pathkeys == NIL)
		return true;
	key = linitial_node(PathKey, sort->pathkeys);
	if (key->pk_eclass->ec_members == NIL)
		return false;
	member = linitial_node(EquivalenceMember, key->pk_eclass->ec_members);
	if (sort_key_has_number(exprType((Node *) member->em_expr), key->pk_opfamily, key->pk_eclass->ec_collation))
		return true;
	return sort_key_may_have_number(exprType((Node *) member->em_expr), key->pk_opfamily, &few) &&
		!contain_agg_clause((Node *) member->em_expr) && !contain_window_function((Node *) member->em_expr) &&
		estimate_num_groups(root, list_make1(member->em_expr), sort->rows, NULL, NULL) <= Min(few, sort->rows / 8);
}

/*
 * Does PostgreSQL compare the first key by abbreviated keys? If this sort has to
 * compare whole values of that key, PostgreSQL's is faster.
 */
bool
sort_is_abbreviated(Path *sort)
{
	PathKey    *key = linitial_node(PathKey, sort->pathkeys);
	MemoryContext context;
	SortSupportData support = {0};
	EquivalenceMember *member;
	TypeCacheEntry *type;

	if (key->pk_eclass->ec_members == NIL)
		return true;
	member = linitial_node(EquivalenceMember, key->pk_eclass->ec_members);
	type = lookup_type_cache(getBaseType(exprType((Node *) member->em_expr)), TYPECACHE_BTREE_OPFAMILY | TYPECACHE_LT_OPR);
	if (type->btree_opf != key->pk_opfamily ||
		(OidIsValid(type->typcollation) && !OidIsValid(key->pk_eclass->ec_collation)))
		return true;
	context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sort support", ALLOCSET_SMALL_SIZES);
	support.ssup_cxt = context;
	support.ssup_collation = key->pk_eclass->ec_collation;
	support.abbreviate = true;
	PrepareSortSupportFromOrderingOp(type->lt_opr, &support);
	MemoryContextDelete(context);
	return support.abbrev_converter != NULL;
}

/* What our sort costs in place of PostgreSQL's, with its input. */
Cost
sort_cost(Path *sort, Path *input)
{
	return input->total_cost + SORT_COST_FACTOR * Max(sort->total_cost - input->total_cost, 0) + STARTUP_COST;
}

/* Our path above that of PostgreSQL's Sort. */
static Path *
sort_path(SortPath *core)
{
	CustomPath *path = makeNode(CustomPath);
	Cost		run = core->path.total_cost - core->path.startup_cost;

	path->path = core->path;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.total_cost = sort_cost(&core->path, core->subpath);
	path->path.startup_cost = Max(path->path.total_cost - run, core->subpath->total_cost);
	if (vector_sort == PLAN_FORCE)
	{
		path->path.startup_cost *= FORCED_COST_FACTOR;
		path->path.total_cost *= FORCED_COST_FACTOR;
	}
	path->path.startup_cost = Min(path->path.startup_cost, path->path.total_cost);
	path->custom_paths = list_make1(core);
	path->methods = &sort_path_methods;

	return &path->path;
}

/* Offer our sort of the result of a query, from its cheapest path. */
static void
offer_sort(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	PlannerInfo *top = root;
	Path	   *input;
	Path	   *batches;
	PathTarget *target;
	Path	   *sort;
	Path	   *path;

	/* other steps may have no input */
	if (stage != UPPERREL_ORDERED || vector_sort == PLAN_OFF || !enable_sort)
		return;
	input = input_rel->cheapest_total_path;

	/*
	 * PostgreSQL's Sort keeps only as many rows as a LIMIT above it wants,
	 * here or around this query, also one that is known only when it runs
	 */
	if (root->parse->limitCount != NULL || root->tuple_fraction > 0)
		return;
	if (root->parse->setOperations != NULL || planner_may_scroll() || rel->pathlist == NIL ||
		pathkeys_contained_in(root->sort_pathkeys, input->pathkeys) || sort_repeats_volatile(input->pathtarget) ||
		sort_has_record(input->pathtarget))
		return;
	while (top->parent_root != NULL)
		top = top->parent_root;
	if (vector_shows_storage((Node *) top->parse))
		return;
	batches = vector_batches_path(root, input);
	if (batches != NULL)
		input = batches;
	sort = (Path *) create_sort_path(root, rel, input, root->sort_pathkeys, -1);
	if (vector_sort != PLAN_FORCE &&
		(list_length(input->pathtarget->exprs) > MAX_COLUMNS || !sort_gains(root, sort)))
		return;
	path = sort_path((SortPath *) sort);
	target = ((Path *) linitial(rel->pathlist))->pathtarget;
	if (!equal(path->pathtarget->exprs, target->exprs))
		path = (Path *) create_projection_path(root, rel, path, target);
	add_path(rel, path);
}

/* The node above PostgreSQL's Sort. */
static Plan *
plan_sort(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
		  List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	Sort	   *sort = linitial_node(Sort, custom_plans);

	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = copyObject(sort->plan.targetlist);
	cscan->custom_plans = custom_plans;
	cscan->methods = &vector_sort_methods;

	return &cscan->scan.plan;
}

void
sort_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_sort",
							 "Sorts rows by numbers made of their keys.",
							 "\"force\" does so wherever it can, whatever it is estimated to cost.",
							 &vector_sort, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_sort_methods);
	cached_cost_add_replacing(&sort_path_methods);
	planner_add_offer(offer_sort);
}
