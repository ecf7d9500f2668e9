/*-------------------------------------------------------------------------
 *
 * sort_path.c
 *	  When rows are sorted by VectorSort, what that costs, and the plan.
 *
 * It is offered where PostgreSQL sorts the result of a query for ORDER BY
 * without LIMIT, and the rows that it groups by their order, or by a hash table
 * of many groups. The path stands above PostgreSQL's path of its Sort, from
 * which the plan takes the order.
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
#include "optimizer/tlist.h"
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

/*
 * Sorting rows by numbers in place of a hash table of groups: what it takes
 * compared with PostgreSQL's sort, what it takes with the groups of what the
 * hash table does, at most, and which share of the groups the first key must
 * tell apart. Measured for 30,000 to 1,000,000 rows with one and three rows a
 * group: 1.3 to 4 times as fast.
 */
#define UNHASHED_SORT_FACTOR 0.25
#define UNHASHED_GAIN 0.95
#define UNHASHED_SHARE 0.25

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

/* May this query's rows be sorted by us, if these are their columns? */
static bool
may_sort(PlannerInfo *root, PathTarget *target)
{
	PlannerInfo *top = root;

	if (vector_sort == PLAN_OFF || !enable_sort || sort_repeats_volatile(target) || sort_has_record(target))
		return false;
	while (top->parent_root != NULL)
		top = top->parent_root;

	return !vector_shows_storage((Node *) top->parse);
}

/* Our sort of an input's rows, or NULL if it gains nothing. */
static Path *
sort_of(PlannerInfo *root, RelOptInfo *rel, Path *input, List *pathkeys)
{
	Path	   *batches = vector_batches_path(root, input);
	Path	   *sort = (Path *) create_sort_path(root, rel, batches != NULL ? batches : input, pathkeys, -1);

	if (vector_sort != PLAN_FORCE &&
		(list_length(input->pathtarget->exprs) > MAX_COLUMNS || !sort_gains(root, sort)))
		return NULL;
	return sort_path((SortPath *) sort);
}

/* Offer our sort of the result of a query, from its cheapest path. */
static void
offer_ordered(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *rel)
{
	Path	   *input = input_rel->cheapest_total_path;
	PathTarget *target;
	Path	   *path;

	/*
	 * PostgreSQL's Sort keeps only as many rows as a LIMIT above it wants,
	 * here or around this query, also one that is known only when it runs
	 */
	if (root->parse->limitCount != NULL || root->tuple_fraction > 0)
		return;
	if (root->parse->setOperations != NULL || planner_may_scroll() || rel->pathlist == NIL ||
		pathkeys_contained_in(root->sort_pathkeys, input->pathkeys) || !may_sort(root, input->pathtarget))
		return;
	path = sort_of(root, rel, input, root->sort_pathkeys);
	if (path == NULL)
		return;
	target = ((Path *) linitial(rel->pathlist))->pathtarget;
	if (!equal(path->pathtarget->exprs, target->exprs))
		path = (Path *) create_projection_path(root, rel, path, target);
	add_path(rel, path);
}

/* The sort below a path that groups rows by their order, or NULL. */
static Path **
sort_below(Path *path)
{
	Path	  **below;

	if (IsA(path, GroupPath))
		below = &((GroupPath *) path)->subpath;
	else if (IsA(path, AggPath) && ((AggPath *) path)->aggstrategy == AGG_SORTED)
		below = &((AggPath *) path)->subpath;
	else if (IsA(path, GroupingSetsPath) && ((GroupingSetsPath *) path)->aggstrategy == AGG_SORTED)
		below = &((GroupingSetsPath *) path)->subpath;
	else
		return NULL;
	return IsA(*below, SortPath) ? below : NULL;
}

/* The same path with another sort below it. */
static Path *
above_sort(const Path *path, const Path *from, Path *to)
{
	Path	   *copy;

#define COPY(type) \
	(copy = (Path *) makeNode(type), *(type *) copy = *(const type *) path, ((type *) copy)->subpath = to)

	if (IsA(path, GroupPath))
		COPY(GroupPath);
	else if (IsA(path, AggPath))
		COPY(AggPath);
	else
		COPY(GroupingSetsPath);
#undef COPY
	copy->startup_cost += to->startup_cost - from->startup_cost;
	copy->total_cost += to->total_cost - from->total_cost;

	return copy;
}

/*
 * Offer our sort below what PostgreSQL groups by the order of rows. All rows are
 * sorted, whatever is above. Neither sort keeps the order of rows whose keys are
 * equal, but PostgreSQL's leaves few rows, and rows that are in order, as they
 * are: some rely on that for array_agg().
 */
static void
offer_grouped(PlannerInfo *root, RelOptInfo *rel)
{
	List	   *found = NIL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);
		Path	  **below = sort_below(path);
		Path	   *input;
		Path	   *sort;

		if (below == NULL)
			continue;
		input = ((SortPath *) *below)->subpath;
		if (!may_sort(root, input->pathtarget) || vector_may_depend_on_order(root, path->pathtarget))
			continue;
		sort = sort_of(root, (*below)->parent, input, (*below)->pathkeys);
		if (sort != NULL)
			found = lappend(found, above_sort(path, *below, sort));
	}
	foreach(lc, found)
		add_path(rel, lfirst(lc));
}

/*
 * May rows be sorted for these groups? The answer must be the same in any order
 * of rows, and the numbers of the first key must tell many groups apart.
 */
static bool
may_sort_groups(PlannerInfo *root, const AggPath *hashed)
{
	EquivalenceClass *first;
	Node	   *first_key;
	ListCell   *lc;

	if (root->group_pathkeys == NIL || !grouping_is_sortable(hashed->groupClause) ||
		!may_sort(root, hashed->subpath->pathtarget) || vector_may_depend_on_order(root, hashed->path.pathtarget))
		return false;
	foreach(lc, get_sortgrouplist_exprs(hashed->groupClause, root->processed_tlist))
	{
		Node	   *key = lfirst(lc);

		/* else an answer has whichever comes first */
		if (!planner_equal_is_same(exprType(key), exprTypmod(key), exprCollation(key)))
			return false;
	}
	first = linitial_node(PathKey, root->group_pathkeys)->pk_eclass;
	if (first->ec_members == NIL)
		return false;
	first_key = (Node *) linitial_node(EquivalenceMember, first->ec_members)->em_expr;
	/* strings may begin alike */
	if (!get_typbyval(exprType(first_key)) ||
		!sort_key_has_number(exprType(first_key), linitial_node(PathKey, root->group_pathkeys)->pk_opfamily, first->ec_collation))
		return false;

	return list_length(root->group_pathkeys) == 1 ||
		estimate_num_groups(root, list_make1(first_key), hashed->subpath->rows, NULL, NULL) >= UNHASHED_SHARE * hashed->numGroups;
}

/* What our sort by numbers takes, beyond its input. */
static Cost
numbers_cost(Path *sort, Path *input)
{
	Path	   *core = linitial(castNode(CustomPath, sort)->custom_paths);

	return UNHASHED_SORT_FACTOR * Max(core->total_cost - input->total_cost, 0) + STARTUP_COST;
}

/*
 * Offer our sort where PostgreSQL finds groups in a hash table, and no path is
 * cheaper: of many groups, that waits for memory with each row. By PostgreSQL's
 * costs its own sort is always dearer, so that there is no path of it; what the
 * groups cost is scaled by what both take.
 */
static void
offer_unhashed(PlannerInfo *root, RelOptInfo *rel)
{
	AggPath    *hashed = NULL;
	AggPath    *sorted;
	Path	   *input;
	Path	   *sort;
	Cost		core;
	Cost		own;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (hashed == NULL || path->total_cost < hashed->path.total_cost)
			hashed = (AggPath *) path;
	}
	if (hashed == NULL || !IsA(hashed, AggPath) || hashed->aggstrategy != AGG_HASHED ||
		hashed->aggsplit != AGGSPLIT_SIMPLE || !may_sort_groups(root, hashed))
		return;
	input = hashed->subpath;
	sort = sort_of(root, input->parent, input, root->group_pathkeys);
	if (sort == NULL)
		return;
	sorted = makeNode(AggPath);
	*sorted = *hashed;
	sorted->aggstrategy = AGG_SORTED;
	sorted->subpath = sort;
	sorted->path.pathkeys = sort->pathkeys;
#if PG_VERSION_NUM >= 180000
	sorted->path.disabled_nodes = sort->disabled_nodes;
#endif
	core = cached_aggregate_cost(root, hashed);
	own = cached_aggregate_cost(root, sorted) + numbers_cost(sort, input);
	if (vector_sort != PLAN_FORCE && own > UNHASHED_GAIN * core)
		return;
	sorted->path.total_cost -= (1 - Min(own / core, UNHASHED_GAIN)) * (hashed->path.total_cost - input->total_cost);
	sorted->path.startup_cost = Min(sorted->path.startup_cost, sorted->path.total_cost);
	add_path(rel, &sorted->path);
}

static void
offer_sort(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	/* other steps may have no input */
	if (stage == UPPERREL_ORDERED)
		offer_ordered(root, input_rel, rel);
	else if (stage == UPPERREL_GROUP_AGG)
	{
		offer_grouped(root, rel);
		offer_unhashed(root, rel);
	}
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
