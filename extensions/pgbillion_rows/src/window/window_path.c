/*-------------------------------------------------------------------------
 *
 * window_path.c
 *	  When window functions are computed by VectorWindow, what that costs, and
 *	  the plan.
 *
 * PostgreSQL stacks a WindowAgg for each window, and a Sort below those that
 * need another order than the rows have. One of our nodes takes the place of
 * neighbouring WindowAggs and of the Sort below them. Its path stands above
 * theirs, from which the plan takes what is computed.
 *
 * Rows that come in order from below, as from an index, are PostgreSQL's: it
 * need not read all of them before it returns the first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/guc.h"
#include "utils/syscache.h"

#include "compat.h"
#include "planner/planner.h"
#include "sort/sort.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"
#include "window/window.h"
#include "window/window_state.h"

/* What windows take compared with PostgreSQL's WindowAgg. Measured by bench/sorts.py: a quarter and less. */
#define WINDOW_COST_FACTOR 0.4

/* What a row takes in memory beside its values. */
#define ROW_BYTES 32

static int	vector_window = PLAN_ON;

static Plan *plan_window(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
						 List *clauses, List *custom_plans);

static const CustomPathMethods window_path_methods = {
	.CustomName = "VectorWindow",
	.PlanCustomPath = plan_window,
};

/* ---- which windows ---- */

/* Can an aggregate's functions be called as PostgreSQL's node calls them? It raises an error for those that cannot. */
static bool
is_aggregate_of_ours(Oid aggregate)
{
	HeapTuple	tuple;
	Form_pg_aggregate form;
	bool		result;

	if (aggregate >= FirstNormalObjectId)
		return false;
	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	result = form->aggkind == AGGKIND_NORMAL && form->aggfinalmodify == AGGMODIFY_READ_ONLY &&
		(!OidIsValid(form->aggminvtransfn) || form->aggmfinalmodify == AGGMODIFY_READ_ONLY);
	ReleaseSysCache(tuple);
	return result;
}

static bool
is_function_of_ours(WindowFunc *function)
{
#if PG_VERSION_NUM >= 190000
	if (function->ignore_nulls == IGNORE_NULLS || function->ignore_nulls == PARSER_IGNORE_NULLS)
		return false;
#endif
	if (contain_volatile_functions((Node *) function) || contain_subplans((Node *) function))
		return false;
	return function->winagg ? is_aggregate_of_ours(function->winfnoid) : window_is_row_function(function->winfnoid);
}

typedef struct FunctionsContext
{
	Index		winref;			/* of the window */
	List	   *functions;		/* each once */
	bool		within_json;	/* is any below a constructor of JSON, which
								 * EXPLAIN could not show? */
} FunctionsContext;

/* Collect window functions. */
static bool
collect_functions(Node *node, FunctionsContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, WindowFunc))
	{
		if (((WindowFunc *) node)->winref == context->winref)
			context->functions = list_append_unique(context->functions, node);
		return false;
	}
#if PG_VERSION_NUM >= 160000
	if (IsA(node, JsonConstructorExpr) && contain_window_function(node))
		context->within_json = true;
#endif
	return expression_tree_walker(node, collect_functions, context);
}

/* Can a window be computed by us? */
static bool
is_window_of_ours(WindowAggPath *path)
{
	WindowClause *window = path->winclause;
	FunctionsContext context = {window->winref, NIL, false};
	ListCell   *lc;

	if ((window->frameOptions & FRAMEOPTION_EXCLUSION) != 0 || contain_volatile_functions(window->startOffset) ||
		contain_volatile_functions(window->endOffset))
		return false;
	(void) collect_functions((Node *) path->path.pathtarget->exprs, &context);
	(void) collect_functions((Node *) path->qual, &context);
	if (context.within_json)
		return false;
	foreach(lc, context.functions)
	{
		if (!is_function_of_ours(lfirst_node(WindowFunc, lc)))
			return false;
	}
	return true;
}

/* ---- paths ---- */

/* Neighbouring WindowAggs of one order. */
typedef struct WindowChain
{
	List	   *windows;		/* their paths, the last one first */
	Path	   *order;			/* a Sort below them, or NULL */
	Path	   *input;
} WindowChain;

/* Find the chain that ends with a path; false if it is not for us. */
static bool
find_chain(Path *path, WindowChain *chain)
{
	bool		unordered = true;

	chain->windows = NIL;
	chain->order = NULL;
	for (chain->input = path; IsA(chain->input, WindowAggPath); chain->input = ((WindowAggPath *) chain->input)->subpath)
	{
		WindowAggPath *window = (WindowAggPath *) chain->input;

		if (!is_window_of_ours(window))
			return false;
		chain->windows = lappend(chain->windows, window);
		unordered &= window->winclause->partitionClause == NIL && window->winclause->orderClause == NIL;
	}
	if (IsA(chain->input, SortPath) || IsA(chain->input, IncrementalSortPath))
	{
		chain->order = chain->input;
		chain->input = ((SortPath *) chain->input)->subpath;
		return true;
	}
	return unordered;
}

/* PostgreSQL's path of a window above another path than its own. */
static Path *
window_above(WindowAggPath *window, Path *below)
{
	WindowAggPath *copy = makeNode(WindowAggPath);
	Cost		run = Max(window->path.total_cost - window->subpath->total_cost, 0);

	memcpy(copy, window, sizeof(WindowAggPath));
	copy->subpath = below;
	copy->path.pathkeys = below->pathkeys;
	copy->path.startup_cost = below->startup_cost;
	copy->path.total_cost = below->total_cost + run;
	return &copy->path;
}

/* The path below our node: PostgreSQL's, of the windows above another input. */
static Path *
path_below(PlannerInfo *root, RelOptInfo *rel, const WindowChain *chain, Path *input)
{
	Path	   *below = input;

	if (chain->order != NULL)
		below = (Path *) create_sort_path(root, rel, input, chain->order->pathkeys, -1);
	for (int i = list_length(chain->windows) - 1; i >= 0; i--)
		below = window_above(list_nth(chain->windows, i), below);
	return below;
}

/*
 * PostgreSQL's windows once more above another input, with a Sort below each that
 * needs one. Its own planner may have kept only paths whose rows come in order.
 */
static Path *
restack(PlannerInfo *root, RelOptInfo *rel, Path *path, Path *input)
{
	WindowAggPath *window = (WindowAggPath *) path;
	List	   *pathkeys;

	if (!IsA(path, WindowAggPath))
		return IsA(path, SortPath) || IsA(path, IncrementalSortPath) ?
			restack(root, rel, ((SortPath *) path)->subpath, input) : input;
	input = restack(root, rel, window->subpath, input);
	pathkeys = make_pathkeys_for_sortclauses(root, list_concat_copy(window->winclause->partitionClause,
																	window->winclause->orderClause),
											 root->processed_tlist);
	if (!pathkeys_contained_in(pathkeys, input->pathkeys))
		input = (Path *) create_sort_path(root, rel, input, pathkeys, -1);
	return window_above(window, input);
}

/* What the windows of a chain cost in PostgreSQL's nodes. */
static Cost
cost_of_windows(const WindowChain *chain)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, chain->windows)
	{
		WindowAggPath *window = lfirst(lc);

		cost += Max(window->path.total_cost - window->subpath->total_cost, 0);
	}
	return cost;
}

/* Are the rows of a path expected to fit in memory? If there is no order, they are PostgreSQL's otherwise. */
static bool
fits_in_memory(const Path *path)
{
	return path->rows * (path->pathtarget->width + ROW_BYTES) < work_mem * 1024.0;
}

/*
 * Are rows sorted no slower than by PostgreSQL? Without numbers they are if they
 * are compared as there, and looked at in place.
 */
static bool
sorts_as_fast(PlannerInfo *root, Path *sort)
{
	return sort_gains(root, sort) || (fits_in_memory(sort) && !sort_is_abbreviated(sort));
}

/*
 * Our path for the windows that end with a path of PostgreSQL's, or NULL. If
 * windows of another order are below, our node computes these, too, if it can.
 */
static Path *
window_path(PlannerInfo *root, RelOptInfo *rel, Path *core)
{
	WindowChain chain;
	CustomPath *path;
	Path	   *input = NULL;
	Path	   *below;
	Path	   *sort;

	if (!IsA(core, WindowAggPath) || !find_chain(core, &chain) || sort_repeats_volatile(chain.input->pathtarget) ||
		sort_has_record(chain.input->pathtarget))
		return NULL;
	if (vector_window != PLAN_FORCE &&
		!(chain.order == NULL ? fits_in_memory(chain.input) : sorts_as_fast(root, chain.order)))
		return NULL;
	if (IsA(chain.input, WindowAggPath))
		input = window_path(root, rel, chain.input);
	else if (chain.order != NULL)
		input = vector_batches_path(root, chain.input);
	if (input == NULL)
		input = chain.input;
	below = path_below(root, rel, &chain, input);
	sort = below;
	for (int i = 0; i < list_length(chain.windows); i++)
		sort = ((WindowAggPath *) sort)->subpath;

	path = makeNode(CustomPath);
	path->path = *core;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.startup_cost = chain.order == NULL ? input->total_cost + STARTUP_COST : sort_cost(sort, input);
	path->path.total_cost = path->path.startup_cost + cost_of_windows(&chain) * WINDOW_COST_FACTOR;
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = sort->disabled_nodes;
#endif


	/*
	 * it does not support projection: PostgreSQL's node, which may take over,
	 * has to return the same columns
	 */
	path->custom_paths = list_make1(below);
	path->custom_private = list_make2(makeInteger(list_length(chain.windows)), makeInteger(chain.order != NULL));
	path->methods = &window_path_methods;
	return &path->path;
}

/*
 * Does PostgreSQL read only the first rows? A run condition of the query's last
 * window, if that has no partitions, ends the query; if rows come in order from
 * below, the others are never read, which no cost shows.
 */
static bool
reads_first_rows(const Path *core)
{
	const WindowAggPath *window = (const WindowAggPath *) core;

	if (!IsA(core, WindowAggPath) || !window->topwindow || run_condition_of(window) == NIL ||
		window->winclause->partitionClause != NIL)
		return false;
	while (IsA(core, WindowAggPath))
		core = ((const WindowAggPath *) core)->subpath;
	return !IsA(core, SortPath);
}

/* Is that what PostgreSQL would choose? */
static bool
chooses_first_rows(const RelOptInfo *rel)
{
	const Path *cheapest = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		const Path *path = lfirst(lc);

		if (cheapest == NULL || compare_path_costs(unconstify(Path *, path), unconstify(Path *, cheapest), TOTAL_COST) < 0)
			cheapest = path;
	}
	return cheapest != NULL && reads_first_rows(cheapest);
}

/* Offer our windows in place of each stack of PostgreSQL's. */
static void
offer_windows(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	PlannerInfo *top = root;
	List	   *ours = NIL;
	ListCell   *lc;

	if (stage != UPPERREL_WINDOW || vector_window == PLAN_OFF)
		return;
	while (top->parent_root != NULL)
		top = top->parent_root;
	if (vector_shows_storage((Node *) top->parse) || (vector_window != PLAN_FORCE && chooses_first_rows(rel)))
		return;
	foreach(lc, rel->pathlist)
	{
		Path	   *our = window_path(root, rel, lfirst(lc));

		if (our == NULL && IsA(lfirst(lc), WindowAggPath) && list_length(rel->pathlist) == 1)
			our = window_path(root, rel, restack(root, rel, lfirst(lc), input_rel->cheapest_total_path));
		if (our == NULL)
			continue;
		if (vector_window == PLAN_FORCE)
		{
			our->startup_cost *= FORCED_COST_FACTOR;
			our->total_cost *= FORCED_COST_FACTOR;
		}
		ours = lappend(ours, our);
	}
	foreach(lc, ours)
		add_path(rel, lfirst(lc));
}

/* ---- plans ---- */

/*
 * The functions of a window, of all that PostgreSQL's node of it computes. As
 * there, aggregates come after all others: which error is raised depends on it.
 */
static List *
functions_of(WindowAgg *window)
{
	FunctionsContext context = {window->winref, NIL, false};
	List	   *others = NIL;
	List	   *aggregates = NIL;
	ListCell   *lc;

	(void) collect_functions((Node *) window->plan.targetlist, &context);
	(void) collect_functions((Node *) window->plan.qual, &context);
	(void) collect_functions((Node *) window->runCondition, &context);
	foreach(lc, context.functions)
	{
		if (lfirst_node(WindowFunc, lc)->winagg)
			aggregates = lappend(aggregates, lfirst(lc));
		else
			others = lappend(others, lfirst(lc));
	}
	return list_concat(others, aggregates);
}

/* What the executor evaluates of a window: WindowExprs. */
static List *
exprs_of(WindowAgg *window, List *functions)
{
	List	   *args = NIL;
	List	   *filters = NIL;
	ListCell   *lc;

	foreach(lc, functions)
	{
		WindowFunc *function = lfirst_node(WindowFunc, lc);

		args = lappend(args, copyObject(function->args));
		filters = lappend(filters, copyObject(function->aggfilter));
	}
	return list_make3(copyObject(window->runCondition), args, filters);
}

/* The columns of windows begin with those of the input, where their keys are. */
static void
check_columns(WindowAgg *window, List *input)
{
	for (int i = 0; i < window->partNumCols + window->ordNumCols; i++)
	{
		AttrNumber	column = i < window->partNumCols ? window->partColIdx[i] : window->ordColIdx[i - window->partNumCols];
		TargetEntry *entry = list_nth(outerPlan(window)->targetlist, column - 1);

		if (column > list_length(input) || !equal(entry->expr, list_nth_node(TargetEntry, input, column - 1)->expr))
			elog(ERROR, "pgbillion: a key of a window is no column of its input");
	}
}

/* The node above PostgreSQL's. */
static Plan *
plan_window(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
			List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	int			nwindows = intVal(linitial(best_path->custom_private));
	WindowAgg  *last = linitial_node(WindowAgg, custom_plans);
	WindowAgg  *window = last;
	List	   *windows = NIL;
	List	   *functions = NIL;
	List	   *input;
	ListCell   *lc;

	for (int i = 0; i < nwindows; i++)
	{
		windows = lcons(window, windows);
		if (i < nwindows - 1)
			window = castNode(WindowAgg, outerPlan(window));
	}
	input = outerPlan(window)->targetlist;
	cscan->custom_scan_tlist = copyObject(input);
	foreach(lc, windows)
	{
		List	   *own = functions_of(lfirst(lc));
		ListCell   *function;

		check_columns(lfirst(lc), input);
		foreach(function, own)
		{
			cscan->custom_scan_tlist = lappend(cscan->custom_scan_tlist,
											   makeTargetEntry(copyObject(lfirst(function)),
															   list_length(cscan->custom_scan_tlist) + 1, NULL, false));
		}
		functions = lappend(functions, copyObject(own));
		cscan->custom_exprs = lappend(cscan->custom_exprs, exprs_of(lfirst(lc), own));
	}
	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = copyObject(last->plan.qual);
	cscan->custom_plans = custom_plans;
	cscan->custom_private = list_make3(functions, makeInteger(list_length(input)), lsecond(best_path->custom_private));
	cscan->methods = &vector_window_methods;

	return &cscan->scan.plan;
}

void
window_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_window",
							 "Computes window functions over rows in memory.",
							 "\"force\" does so wherever it can, whatever it is estimated to cost.",
							 &vector_window, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_window_methods);
	cached_cost_add_replacing(&window_path_methods);
	planner_add_offer(offer_windows);
}
