/*-------------------------------------------------------------------------
 *
 * filter_path.c
 *	  The vectorized scan of a table with a filter: when it applies, what it
 *	  costs, its paths and its plan.
 *
 * It is offered for every table that a query reads, in addition to
 * PostgreSQL's own paths, so that joins, sorts and all else above it are
 * PostgreSQL's. It pays where the filter removes many rows by kernels, or where
 * only the first rows of an order are wanted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "nodes/bitmapset.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/spccache.h"

#include "planner/planner.h"
#include "vector/node/custom_scan.h"
#include "vector/node/top_rows.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

int			vector_scan = PLAN_ON;

/* What custom_private of a scan's path holds. */
typedef enum FilterPathPrivate
{
	FILTER_PATH_TERMS,			/* a list: those of the filter that are ours */
	FILTER_PATH_OTHERS,			/* a list: the others, for PostgreSQL */
	FILTER_PATH_ORDER,			/* NIL, or the order whose first rows are
								 * wanted: top_order_list() */
	FILTER_PATH_COLUMNS,		/* a list of one OID: the columnar index that
								 * is read, if any */
	FILTER_PATH_VALUES			/* an integer: are rows returned as values?
								 * Then the index, if any, has all columns
								 * that are needed */
} FilterPathPrivate;

static Plan *plan_filter_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);

const		CustomPathMethods vector_filter_path_methods = {
	.CustomName = "VectorScan",
	.PlanCustomPath = plan_filter_scan,
};

/* Is it LIKE or NOT LIKE? */
static bool
is_like(Node *term)
{
	if (!IsA(term, OpExpr))
		return false;
	switch (get_opcode(((OpExpr *) term)->opno))
	{
		case F_TEXTLIKE:
		case F_TEXTNLIKE:
		case F_BPCHARLIKE:
		case F_BPCHARNLIKE:
			return true;
		default:
			return false;
	}
}

/* Maximum number of rows, and maximum share of work_mem, for the first rows of an order. */
#define MAX_TOP_ROWS 100000
#define TOP_MEMORY_FACTOR 0.25

/* What PostgreSQL's plan does with a row before it is sorted, if that cannot raise an error. */
static bool
is_plain(Node *expr)
{
	return IsA(expr, Var) || IsA(expr, Const) || IsA(expr, Param) ||
		(IsA(expr, RelabelType) && is_plain((Node *) ((RelabelType *) expr)->arg));
}

/* Is it a constant that says how many rows, or is it left out? */
static bool
is_constant_or_none(Node *limit)
{
	return limit == NULL || (IsA(limit, Const) && !((Const *) limit)->constisnull);
}

/*
 * Are only the first rows of an order wanted of a table, by a column of it? It
 * must be all that the query reads, and nothing above the scan may remove rows
 * except LIMIT. What the plan would compute for rows that are left out must not
 * be able to fail.
 */
static bool
find_top_order(PlannerInfo *root, RelOptInfo *rel, TopOrder *order)
{
	Query	   *parse = root->parse;
	SortGroupClause *clause;
	Var		   *key;
	ListCell   *lc;

	/*
	 * of groups, windows, DISTINCT and functions that return sets there is
	 * none
	 */
	if (root->limit_tuples <= 0 || root->limit_tuples > MAX_TOP_ROWS || parse->sortClause == NIL ||
		parse->commandType != CMD_SELECT || parse->rowMarks != NIL || root->rowMarks != NIL ||
		parse->setOperations != NULL || rel->reloptkind != RELOPT_BASEREL ||
		bms_membership(root->all_baserels) != BMS_SINGLETON || !bms_is_member(rel->relid, root->all_baserels) ||
		!is_constant_or_none(parse->limitCount) || !is_constant_or_none(parse->limitOffset))
		return false;
	foreach(lc, root->processed_tlist)
	{
		if (!is_plain((Node *) lfirst_node(TargetEntry, lc)->expr))
			return false;
	}
	clause = linitial_node(SortGroupClause, parse->sortClause);
	key = (Var *) get_sortgroupclause_expr(clause, root->processed_tlist);
	if (!IsA(key, Var) || key->varno != rel->relid || key->varattno <= 0 || key->varlevelsup > 0)
		return false;
	order->attno = key->varattno;
	order->operator = clause->sortop;
	order->collation = key->varcollid;
	order->nulls_first = clause->nulls_first;
	order->n = (int64) root->limit_tuples;
	return order->n * (get_typavgwidth(key->vartype, key->vartypmod) + 32.0) <
		work_mem * 1024.0 * TOP_MEMORY_FACTOR;
}

/* How many of `rows` rows, in random order, are returned by a process that wants the first rows of an order. */
static double
rows_of_top(PlannerInfo *root, RelOptInfo *rel, const TopOrder *order, double rows)
{
	Node	   *key = NULL;
	double		values;
	ListCell   *lc;

	if (rows <= order->n)
		return rows;
	foreach(lc, rel->reltarget->exprs)
	{
		if (IsA(lfirst(lc), Var) && lfirst_node(Var, lc)->varattno == order->attno)
			key = lfirst(lc);
	}
	values = key == NULL ? rows : estimate_num_groups(root, list_make1(key), rows, NULL, NULL);

	/* those that are the best so far, and those that are as good as the last */
	return Min(rows, order->n * (1 + log(rows / order->n)) + rows / Max(values, 1));
}

/* What a scan does. */
typedef struct ScanChoice
{
	List	   *terms;			/* of the filter that are ours, */
	List	   *others;			/* and those that are PostgreSQL's */
	double		left;			/* rows that ours keep */
	const TopOrder *order;		/* whose first rows are wanted, or NULL; then
								 * all terms are ours */
	RowsIndex	columns;		/* the index that is read, or none: 0 */
} ScanChoice;

/* The choice of a scan of the heap whose filter takes the first n terms. */
static ScanChoice
choose_heap(PlannerInfo *root, RelOptInfo *rel, List *terms, int n, const TopOrder *order)
{
	ScanChoice	choice = {0};

	Assert(order == NULL || n == list_length(terms));
	choice.terms = list_copy_head(terms, n);
	choice.others = list_copy_tail(terms, n);
	choice.left = vector_rows_left(root, rel, terms, n);
	choice.order = order;

	return choice;
}

/*
 * The columns that expressions above need of a table whose rows need not be
 * returned in its own form, nor a filter of these terms: rows are not locked or
 * changed, no cursor is at them, and nobody asks how a value is stored. False if
 * they do.
 */
static bool
find_needed_values(PlannerInfo *root, RelOptInfo *rel, List *exprs, List *terms, Bitmapset **attnos)
{
	List	   *vars = pull_var_clause((Node *) exprs, PVC_RECURSE_PLACEHOLDERS);
	ListCell   *lc;

	if (root->parse->commandType != CMD_SELECT || root->parse->rowMarks != NIL || root->rowMarks != NIL ||
		planner_for_cursor())
		return false;
	*attnos = NULL;
	foreach(lc, list_concat_copy(vars, pull_var_clause((Node *) terms, 0)))
	{
		Var		   *var = lfirst_node(Var, lc);

		/* what is computed of columns of other tables is not computed here */
		if (var->varno != rel->relid || var->varlevelsup > 0 || var->varattno <= 0)
			return false;
	}
	foreach(lc, vars)
		* attnos = bms_add_member(*attnos, lfirst_node(Var, lc)->varattno);
	return !vector_storage_is_shown(root, rel, exprs);
}

/*
 * The choice of a scan of a columnar index whose filter takes those of the first
 * n terms, and of those that raise no error with the index, whose columns it has; false if it is of no use. The others are
 * evaluated of rows that are fetched, or made of the index's values with
 * `values`, if it has all columns. No such term can raise an error, so that
 * their order does not matter.
 */
static bool
choose_columns(PlannerInfo *root, RelOptInfo *rel, List *terms, int n, const TopOrder *order, bool values,
			   ScanChoice *choice)
{
	Bitmapset  *needed = NULL;
	bool		any = values && find_needed_values(root, rel, rel->reltarget->exprs, terms, &needed);

	*choice = (ScanChoice)
	{
		0
	};
	if (!vector_choose_rows_index(root, rel, terms, n, any, needed, &choice->columns))
		return false;
	choice->terms = choice->columns.terms;
	choice->others = choice->columns.others;
	if (order != NULL && choice->others == NIL &&
		vector_rows_index_has(rel, &choice->columns, order->attno))
		choice->order = order;
	choice->left = choice->others == NIL ? rel->rows :
		vector_rows_left(root, rel, list_concat(list_copy(choice->terms), choice->others), list_length(choice->terms));
	/* each column is read */
	choice->columns.pages *= choice->columns.all ? bms_num_members(choice->columns.needed) :
		choice->columns.ncolumns + (choice->order != NULL);

	return choice->terms != NIL || choice->order != NULL || choice->columns.all;
}

/* What comparing a row with the best ones takes, if its value is not passed as it is; measured. */
static Cost
top_row_cost(RelOptInfo *rel, const TopOrder *order)
{
	ListCell   *lc;

	foreach(lc, rel->reltarget->exprs)
	{
		Var		   *var = lfirst(lc);

		if (IsA(var, Var) && var->varattno == order->attno)
			return get_typbyval(var->vartype) ? 0 : cpu_tuple_cost;
	}
	return 0;
}

/* What rows and pages take that are in memory: cached_path_cost(). */
static Cost
cached_columns_cost(PlannerInfo *root, RelOptInfo *rel, const ScanChoice *choice, double fetched)
{
	double		share = choice->columns.share;
	double		pages = rel->pages * (1 - share) + choice->columns.pages;
	double		rows = rel->tuples * (1 - share + share * choice->columns.sought * COLUMN_ROW_COST_FACTOR);
	Cost		cost = vector_filter_startup_cost(root, rel) + choice->columns.seeking + CACHED_COST_PAGE * cpu_tuple_cost * pages +
		vector_filter_cost(root, rel) * rows + vector_others_cost(root, rel, 1) * vector_index_others_factor(rel, choice->columns.index) * rel->tuples;

	if (choice->order != NULL)
		cost += top_row_cost(rel, choice->order) * rel->rows;
	if (choice->columns.all)
		return cost + cpu_tuple_cost * fetched;
	return cost + cpu_tuple_cost * (CACHED_COST_FETCH * Min(fetched, rel->pages * share) + CACHED_COST_INDEX_ROW * fetched);
}

/* The path of a scan. With workers it is a partial path. */
static CustomPath *
filter_path(PlannerInfo *root, RelOptInfo *rel, const ScanChoice *choice, int workers)
{
	RowsPath   *rows_path = (RowsPath *) newNode(sizeof(RowsPath), T_CustomPath);
	CustomPath *path = &rows_path->path;
	bool		columns = OidIsValid(choice->columns.index);
	double		share = columns ? choice->columns.share : 0;
	double		divisor = vector_parallel_divisor(workers);
	double		left = choice->left;
	double		rows = rel->rows;
	double		page_cost;
	QualCost	our_cost;
	QualCost	other_cost;
	Cost		run;
	Cost		pages;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	cost_qual_eval(&our_cost, choice->terms, root);
	cost_qual_eval(&other_cost, choice->others, root);
	pages = page_cost * (rel->pages * (1 - share) + choice->columns.pages);
	run = (cpu_tuple_cost * KERNEL_COST_FACTOR + our_cost.per_tuple * TERM_COST_FACTOR) * rel->tuples *
		(1 - share + share * choice->columns.sought * COLUMN_ROW_COST_FACTOR) + choice->columns.seeking;
	if (choice->order != NULL)
	{
		Assert(choice->others == NIL);
		run += cpu_operator_cost * left;
		left = rows = divisor * rows_of_top(root, rel, choice->order, rows / divisor);
	}
	run += (cpu_tuple_cost * SCAN_RETURN_COST_FACTOR + other_cost.per_tuple) * left;
	run += rel->reltarget->cost.per_tuple * rows;
	if (columns && !choice->columns.all)
		pages += vector_fetch_pages_cost(rel, share, left * share);

	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.parallel_aware = workers > 0;
	path->path.parallel_safe = rel->consider_parallel;
	path->path.parallel_workers = workers;
	path->path.rows = clamp_row_est(rows / divisor);
	path->path.startup_cost = STARTUP_COST + our_cost.startup + other_cost.startup + rel->reltarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + pages + run / divisor;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_private = list_make5(choice->terms, choice->others,
									  choice->order == NULL ? NIL : top_order_list(choice->order),
									  list_make1_oid(choice->columns.index), makeInteger(choice->columns.all));
	path->methods = &vector_filter_path_methods;
	rows_path->columns = columns;
	if (columns)
		rows_path->taken = cached_columns_cost(root, rel, choice, left * share) / divisor;
	return path;
}

/* What PostgreSQL's own scan of all rows costs. */
static Path *
core_scan(PlannerInfo *root, RelOptInfo *rel, int workers)
{
	return create_seqscan_path(root, rel, NULL, workers);
}

/*
 * PostgreSQL's cheapest path for all rows; with workers, its cheapest partial
 * path, or NULL if there is none.
 */
static Path *
core_cheapest(RelOptInfo *rel, int workers)
{
	if (workers == 0)
		return rel->cheapest_total_path;
	return rel->partial_pathlist == NIL ? NULL : linitial(rel->partial_pathlist);
}

/* Is one of PostgreSQL's paths that looks rows up known to take less time than ours? */
static bool
is_faster(PlannerInfo *root, Path *core, Path *ours)
{
	return vector_tables_in_memory(root) && (IsA(core, IndexPath) || IsA(core, BitmapHeapPath)) &&
		cached_path_cost(root, core) < cached_path_cost(root, ours);
}

/*
 * Settle what a path costs to the planner. It stays a bit below a sequential
 * scan, so that it is taken wherever that would be, and with "force" no more
 * than that. Nor does it go far below PostgreSQL's cheapest path for the same
 * rows. Otherwise a join that reads all rows would be preferred to one that
 * looks up a few by index, although PostgreSQL overestimates such lookups where
 * all is in memory. So what is chosen above stays the same, and so does the
 * order of rows; vectorized joins are compared by time.
 *
 * If that path is known to take less time than ours, it stays the cheaper one.
 *
 * Nor does it start later than a sequential scan where nothing above wants the
 * first rows soon: of joins that cost about the same PostgreSQL keeps the one
 * that starts first, and that would be one with a slower scan.
 */
static void
settle_cost(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, int workers)
{
	Path	   *core = core_scan(root, rel, workers);
	Path	   *cheapest = core_cheapest(rel, workers);
	Cost		least = core->total_cost * LESS_COST_FACTOR;

	path->path.total_cost += ROW_ABOVE_COST * path->path.rows;
	if (cheapest != NULL)
		path->path.total_cost = Max(path->path.total_cost, cheapest->total_cost * LESS_COST_FACTOR);
	if (vector_scan == PLAN_FORCE || path->path.total_cost > least)
		path->path.total_cost = least;
	if (vector_scan == PLAN_FORCE || !planner_wants_first_rows(root))
		path->path.startup_cost = core->startup_cost * LESS_COST_FACTOR;
	if (vector_scan != PLAN_FORCE && cheapest != NULL && is_faster(root, cheapest, &path->path))
		path->path.total_cost = Max(path->path.total_cost, cheapest->total_cost / LESS_COST_FACTOR);
	path->path.startup_cost = Min(path->path.startup_cost, path->path.total_cost);
}

/*
 * Have one process save no more by our scan than each of several does: what
 * workers gain stays what it is in PostgreSQL's costs, which choose them above.
 * There it would else be the cheaper scan that speaks against workers, who
 * save time in all the rest of the plan.
 */
static void
keep_gain(PlannerInfo *root, RelOptInfo *rel, CustomPath *serial, const CustomPath *partial)
{
	Cost		core = core_scan(root, rel, 0)->total_cost;
	Cost		saved = core_scan(root, rel, partial->path.parallel_workers)->total_cost - partial->path.total_cost;

	serial->path.total_cost = Max(serial->path.total_cost, Min(core - saved, core * LESS_COST_FACTOR));
}

/*
 * The same for a scan of a columnar index. It takes so little of what reading
 * the table does that starting workers can take longer: where it does, one
 * process costs less than PostgreSQL's scan by several.
 */
static void
settle_columns_cost(PlannerInfo *root, RelOptInfo *rel, CustomPath *serial, CustomPath *partial)
{
	Path	   *core = core_cheapest(rel, partial->path.parallel_workers);
	Cost		starting = parallel_setup_cost + parallel_tuple_cost * serial->path.rows;
	bool		pay = serial->path.total_cost > partial->path.total_cost + starting;
	Cost		alone = serial->path.total_cost;

	settle_cost(root, rel, serial, 0);
	settle_cost(root, rel, partial, partial->path.parallel_workers);
	if (!pay && core != NULL && vector_scan != PLAN_FORCE)
		serial->path.total_cost = Min(serial->path.total_cost,
									  Max(alone, (core->total_cost + starting) * LESS_COST_FACTOR));
	serial->path.startup_cost = Min(serial->path.startup_cost, serial->path.total_cost);
}

/* Is this cost less than that of PostgreSQL's best path? */
static bool
pays(RelOptInfo *rel, Cost cost)
{
	return vector_scan == PLAN_FORCE || cost < rel->cheapest_total_path->total_cost;
}

/*
 * What the first n terms take in PostgreSQL beyond its estimates, which a
 * kernel does not: they count LIKE as one operator.
 */
static Cost
hidden_cost(RelOptInfo *rel, List *terms, int n)
{
	int			likes = 0;

	for (int i = 0; i < n; i++)
		likes += is_like(list_nth(terms, i));
	return likes * SCAN_LIKE_COST * rel->tuples;
}

/* Report that it cannot cost less than this, which does not pay. */
static void
report_cost(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, const char *what, Cost cost)
{
	plan_report(root, "no vectorized scan of \"%s\": %s would cost %.2f, compared with PostgreSQL's %.2f",
				rte->eref->aliasname, what, cost, rel->cheapest_total_path->total_cost);
}

/* Would a scan pay, of which this is known, with its cost? If not, report that. */
static bool
choice_pays(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, const ScanChoice *choice, Cost cost)
{
	if (pays(rel, cost - hidden_cost(rel, choice->terms, list_length(choice->terms))))
		return true;
	report_cost(root, rel, rte, "it", cost);
	return false;
}

/*
 * How many of the terms a vectorized scan could take; -1, with a report, if
 * there is to be none. Most tables are small, or have an index for it: what is
 * known soonest is asked first, and of a scan that cannot read a columnar index
 * whether it would pay if it took all.
 */
static int
count_terms(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, List *terms, const TopOrder *order)
{
	bool		columns = vector_has_column_index(rel);
	double		page_cost;
	Cost		least;
	const char *reason;
	ScanChoice	choice;
	int			n;

	get_tablespace_page_costs(rel->reltablespace, NULL, &page_cost);
	least = STARTUP_COST + (columns ? 0 : page_cost * rel->pages);
	if (!pays(rel, least))
	{
		report_cost(root, rel, rte, columns ? "setting it up" : "reading all of it", least);
		return -1;
	}
	reason = vector_table_refusal(root, rel);
	if (reason != NULL)
	{
		plan_report(root, "no vectorized scan of \"%s\": %s", rte->eref->aliasname, reason);
		return -1;
	}
	if (!columns)
	{
		choice = choose_heap(root, rel, terms, list_length(terms), order);
		if (!choice_pays(root, rel, rte, &choice, filter_path(root, rel, &choice, 0)->path.total_cost))
			return -1;
	}

	/*
	 * It looks at all rows of a page, of which the plan above may want only
	 * some, and so takes no term that could raise an error. Those behind such
	 * a term stay behind it. With a columnar index there may be more: what it
	 * has of a term has raised no error for any row (heap_expressions.c).
	 */
	n = vector_certain_terms(root, rel);
	if (n == 0 && terms != NIL && vector_count_index_terms(root, rel, terms) == 0)
	{
		plan_report(root, "no vectorized scan of \"%s\": a condition that might raise an error comes first",
					rte->eref->aliasname);
		n = -1;
	}
	return n;
}

/*
 * Take the choice of a columnar index in place of another, which has that cost, if
 * it is cheaper, or if it is forced; true if its rows are made of the index's values.
 */
static bool
take_cheaper(PlannerInfo *root, RelOptInfo *rel, List *terms, int n, const TopOrder *order, bool values,
			 ScanChoice *choice, Cost *cost)
{
	ScanChoice	columns;
	Cost		own;

	if (!choose_columns(root, rel, terms, n, order, values, &columns))
		return false;
	own = filter_path(root, rel, &columns, 0)->path.total_cost;
	if ((vector_columns == PLAN_FORCE && !OidIsValid(choice->columns.index)) || own < *cost)
	{
		*choice = columns;
		*cost = own;
	}
	return columns.columns.all;
}

/*
 * Choose what the scan does, whose filter can take the first n terms; false,
 * with a report, if it does not pay. The order counts if it takes all.
 */
static bool
choose_scan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte, List *terms, int n, const TopOrder *order,
			ScanChoice *choice)
{
	Cost		cost;

	*choice = choose_heap(root, rel, terms, n, n < list_length(terms) ? NULL : order);
	cost = filter_path(root, rel, choice, 0)->path.total_cost;

	/*
	 * of few rows it can be cheaper to fetch them than to read all their
	 * columns
	 */
	if (vector_has_column_index(rel) && take_cheaper(root, rel, terms, n, order, true, choice, &cost))
		(void) take_cheaper(root, rel, terms, n, order, false, choice, &cost);
	/* if there is nothing to take */
	if (choice->terms == NIL && choice->order == NULL && !choice->columns.all)
		return false;
	return choice_pays(root, rel, rte, choice, cost);
}

/* Offer our paths for a table of a query, or say why not. */
static void
offer_filter_scan(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	List	   *terms;
	int			n;
	CustomPath *path;
	CustomPath *partial;
	TopOrder	order;
	TopOrder   *top;
	ScanChoice	choice;
	bool		columns;
	int			workers = 0;

	if (vector_scan == PLAN_OFF || !enable_seqscan || rte->rtekind != RTE_RELATION || rte->inh ||
		rel->pathlist == NIL || IS_DUMMY_REL(rel) || planner_may_scroll())
		return;

	top = find_top_order(root, rel, &order) ? &order : NULL;
	if (rel->baserestrictinfo == NIL && top == NULL && !vector_has_column_index(rel))
		return;

	set_cheapest(rel);
	terms = vector_ordered_terms(root, rel->baserestrictinfo, rel->rows);
	n = count_terms(root, rel, rte, terms, top);
	if (n < 0 || !choose_scan(root, rel, rte, terms, n, top, &choice))
		return;

	columns = OidIsValid(choice.columns.index);
	path = filter_path(root, rel, &choice, 0);
	plan_report(root, "a vectorized scan of \"%s\"%s is possible, and estimated to cost %.2f compared with PostgreSQL's %.2f: %d of %d conditions, %.0f of %.0f rows",
				rte->eref->aliasname, columns ? " by its columnar index" : "",
				path->path.total_cost, rel->cheapest_total_path->total_cost,
				list_length(choice.terms), list_length(terms), rel->rows, rel->tuples);
	if (rel->consider_parallel && bms_is_empty(rel->lateral_relids))
		workers = compute_parallel_worker(rel, rel->pages, -1, max_parallel_workers_per_gather);
	partial = workers > 0 ? filter_path(root, rel, &choice, workers) : NULL;
	if (partial == NULL)
		settle_cost(root, rel, path, 0);
	else if (columns)
		settle_columns_cost(root, rel, path, partial);
	else
	{
		settle_cost(root, rel, path, 0);
		settle_cost(root, rel, partial, workers);
		keep_gain(root, rel, path, partial);
	}
	if (partial != NULL)
		add_partial_path(rel, (Path *) partial);
	add_path(rel, (Path *) path);
}

/* ---- batches for a sort ---- */

/* Does a path return all rows of a table that pass a filter, in the table's own form? */
static bool
returns_rows_of_table(const Path *path)
{
	const CustomPath *ours = (const CustomPath *) path;

	if (path->pathtype == T_SeqScan)
		return true;
	return IsA(path, CustomPath) && ours->methods == &vector_filter_path_methods &&
		list_nth(ours->custom_private, FILTER_PATH_ORDER) == NIL &&
		!OidIsValid(linitial_oid(list_nth(ours->custom_private, FILTER_PATH_COLUMNS)));
}

/* Are there only columns and constants, so that no row has to be computed? */
static bool
needs_no_projection(PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Var) && !IsA(lfirst(lc), Const))
			return false;
	}
	return true;
}

/*
 * Our scan of the heap in place of a path whose rows are sorted: the sort takes
 * their values a batch at a time (vector_rows_next_batch()). NULL: it is not for
 * us.
 */
Path *
vector_batches_path(PlannerInfo *root, Path *path)
{
	Path	   *scan = IsA(path, ProjectionPath) ? ((ProjectionPath *) path)->subpath : path;
	RelOptInfo *rel = scan->parent;
	Bitmapset  *attnos;
	List	   *terms;
	ScanChoice	choice;
	Path	   *result;

	if (vector_scan == PLAN_OFF || !enable_seqscan || rel->reloptkind != RELOPT_BASEREL || rel->rtekind != RTE_RELATION ||
		!returns_rows_of_table(scan) || scan->parallel_aware || path->parallel_workers > 0 || scan->param_info != NULL ||
		!needs_no_projection(path->pathtarget))
		return NULL;
	if (vector_scan != PLAN_FORCE && rel->tuples * cpu_tuple_cost < STARTUP_COST)
		return NULL;
	terms = vector_ordered_terms(root, rel->baserestrictinfo, rel->rows);
	if (!find_needed_values(root, rel, path->pathtarget->exprs, terms, &attnos) ||
		vector_table_refusal(root, rel) != NULL ||
		vector_certain_terms(root, rel) < list_length(terms))
		return NULL;
	choice = choose_heap(root, rel, terms, list_length(terms), NULL);
	choice.columns.all = true;
	result = &filter_path(root, rel, &choice, 0)->path;
	result->pathtarget = path->pathtarget;
	result->rows = path->rows;
	result->startup_cost = path->startup_cost * LESS_COST_FACTOR;
	result->total_cost = path->total_cost * LESS_COST_FACTOR;

	return result;
}

/* ---- plans ---- */

/*
 * Make the plan node. The terms of its filter are its expressions; what the
 * rows that are left have to pass is its qualification, as of any scan.
 */
static Plan *
plan_filter_scan(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
				 List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);

	Assert(rel->relid > 0);
	cscan->scan.scanrelid = rel->relid;
	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = copyObject(list_nth(best_path->custom_private, FILTER_PATH_OTHERS));
	cscan->custom_exprs = copyObject(list_nth(best_path->custom_private, FILTER_PATH_TERMS));
	cscan->custom_private = list_make3(list_nth(best_path->custom_private, FILTER_PATH_ORDER),
									   list_nth(best_path->custom_private, FILTER_PATH_COLUMNS),
									   list_nth(best_path->custom_private, FILTER_PATH_VALUES));
	cscan->flags = best_path->flags;
	cscan->methods = &vector_filter_scan_methods;

	return &cscan->scan.plan;
}

void
vector_filter_path_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_scan",
							 "Filters plain heap tables a page at a time.",
							 "\"force\" does so in place of every sequential scan that it can replace, whatever it is estimated to cost.",
							 &vector_scan, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_filter_scan_methods);
	planner_set_scan_offer(offer_filter_scan);
}
