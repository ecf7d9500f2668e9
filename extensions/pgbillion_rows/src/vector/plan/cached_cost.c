/*-------------------------------------------------------------------------
 *
 * cached_cost.c
 *	  What paths of PostgreSQL's take where all tables are in memory.
 *
 * PostgreSQL's costs count pages, whether they are in memory or not, and say
 * less of rows than they take. Of two plans that both read much the one with
 * fewer pages seems cheaper by them: a hundred thousand rows looked for in an
 * index, for instance, and a table read as a whole in a fraction of that time.
 * So where a statement's tables fit into effective_cache_size, PostgreSQL's
 * paths and ours are compared by what is estimated here, in units of
 * cpu_tuple_cost, which is what PostgreSQL takes for a row of a sequential
 * scan. Elsewhere its costs are taken as they are.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/spccache.h"
#include "utils/syscache.h"

#include "planner/group_estimate.h"
#include "planner/known_rows.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/node/custom_scan.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

/* A number of look-ups of which nothing that they touch stays near the processor. */
#define MANY_TIMES 1e9

/* What a page of a table costs that is read as a whole. */
Cost
cached_sequential_page_cost(PlannerInfo *root, Cost planned)
{
	return vector_tables_in_memory(root) ? CACHED_COST_PAGE * cpu_tuple_cost : planned;
}

/* What it costs to fetch a number of rows of a table, in the order of its blocks, and to copy columns of them. */
Cost
cached_fetch_cost(PlannerInfo *root, RelOptInfo *rel, double rows)
{
	return cpu_tuple_cost * (CACHED_COST_FETCH * Min(rows, rel->pages) + CACHED_COST_INDEX_ROW * rows) +
		(vector_tables_in_memory(root) || rows <= 0 ? 0 : vector_fetch_pages_cost(rel, 1, rows));
}

/* Is it one of our paths, with these methods? Other extensions have custom paths, too, of which nothing is known. */
static bool
is_ours(const Path *path, const CustomPathMethods * methods)
{
	return IsA(path, CustomPath) && ((const CustomPath *) path)->methods == methods;
}

/* Is it our path of the rows of joins? If it joins several tables, an Append is above. */
bool
vector_is_rows_of_joins(const Path *path)
{
	if (IsA(path, AppendPath) && ((const AppendPath *) path)->subpaths != NIL)
	{
		path = linitial(((const AppendPath *) path)->subpaths);
		/* PostgreSQL's own path of a branch may have ours below, too */
		if (IsA(path, SubqueryScanPath))
		{
			path = ((const SubqueryScanPath *) path)->subpath;
			if (IsA(path, AppendPath) && ((const AppendPath *) path)->subpaths != NIL)
				path = linitial(((const AppendPath *) path)->subpaths);
			return is_ours(path, &vector_join_path_methods) && ((const JoinsPath *) path)->subroot != NULL;
		}
	}
	return is_ours(path, &vector_join_path_methods);
}

/* Is it our scan of a table that filters it? */
bool
vector_is_filter_scan(const Path *path)
{
	return is_ours(path, &vector_filter_path_methods);
}

/* Is it our aggregation of a table's rows joined with others? */
static bool
is_aggregated_join(const Path *path)
{
	return is_ours(path, &vector_aggregate_path_methods) &&
		(((const CustomPath *) path)->custom_paths != NIL || ((const JoinsPath *) path)->around != NIL);
}

/* What PostgreSQL says that a path costs, whether or not it is forced to be cheap: join_path.c. */
static Cost
honest_cost(Path *path)
{
	bool		forced = vector_join == PLAN_FORCE && vector_is_rows_of_joins(path);

	return forced ? path->total_cost / FORCED_COST_FACTOR : path->total_cost;
}

/* ---- what paths take ---- */

/* A scan of a table as a whole, by PostgreSQL or by us; of a partial path each process's share. */
static Cost
sequential_scan_cost(PlannerInfo *root, Path *path)
{
	RelOptInfo *rel = path->parent;
	Cost		row = cpu_tuple_cost + vector_core_filter_cost(root, path, rel->tuples, 1) + vector_reach_cost(root, rel, false);

	if (vector_is_filter_scan(path) && ((RowsPath *) path)->columns)
		return ((RowsPath *) path)->taken;
	if (vector_is_filter_scan(path))
		row = vector_filter_cost(root, rel) + vector_others_cost(root, rel, 1) + vector_wait_cost(root, rel) + vector_reach_cost(root, rel, true) +
			cpu_tuple_cost * rel->rows / Max(rel->tuples, 1);
	return vector_filter_startup_cost(root, rel) +
		(CACHED_COST_PAGE * cpu_tuple_cost * rel->pages + row * rel->tuples) / vector_parallel_divisor(path->parallel_workers);
}

/* How far rows lie in the order of an index, by statistics. */
static double
find_order(PlannerInfo *root, IndexOptInfo *index)
{
	AttrNumber	attno = index->indexkeys[0];
	HeapTuple	tuple;
	double		order;

	if (attno <= 0)
		return 0;
	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(planner_rt_fetch(index->rel->relid, root)->relid),
							Int16GetDatum(attno), BoolGetDatum(false));
	if (!HeapTupleIsValid(tuple))
		return 0;
	order = group_estimate_order(tuple);
	ReleaseSysCache(tuple);

	return order;
}

/* What is known of an index. */
typedef struct OrderMemo
{
	double		order;
} OrderMemo;

/* The same, found out once. */
static double
order_of_rows(PlannerInfo *root, IndexOptInfo *index)
{
	OrderMemo  *known = planner_memo_find(root, MEMO_ORDER, index);

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_ORDER, index, sizeof(OrderMemo));
		known->order = find_order(root, index);
	}
	return known->order;
}

/*
 * The share of the rows that an index scan finds that are not on the page of the
 * row before. Those of a key lie around one place, the closer to it the better
 * rows are in order; of a normal distribution, this is how far.
 */
static double
share_of_pages(PlannerInfo *root, IndexOptInfo *index, double rows)
{
	RelOptInfo *rel = index->rel;
	double		order = order_of_rows(root, index);
	double		pages;

	if (order <= CACHED_COST_CLUSTERED)
		return 1;
	pages = rel->pages * sqrt(1 - order * order) + rows * rel->pages / Max(rel->tuples, 1);
	return Min(pages / Max(rows, 1), 1);
}

/*
 * How often a path is executed: for the rows of others very often, as far as is
 * known here. Those of a query around a subquery have left parameters there that
 * its plan is to be given.
 */
static double
times_of(const PlannerInfo *root, const Path *path)
{
	if (path->param_info != NULL)
		return MANY_TIMES;
	for (const PlannerInfo *around = root->parent_root; around != NULL; around = around->parent_root)
	{
		if (around->plan_params != NIL)
			return MANY_TIMES;
	}
	return 1;
}

/*
 * How far from the processor pages are of which this number of rows, or keys, is
 * looked for in all: few stay near it from one execution to the next.
 */
static double
distance_of_rows(double bytes, double rows)
{
	return vector_distance(Min(bytes, rows * CACHED_COST_TOUCHED_BYTES));
}

/* The same of what is looked for in an index: what few keys find stays near. */
static double
distance_of_found(PlannerInfo *root, IndexPath *path, double pages, double rows)
{
	double		ratio = known_rows_keys_ratio(root, path);

	return distance_of_rows(pages * BLCKSZ * (ratio > 0 ? Min(ratio, 1) : 1), rows);
}

/* What it takes to look for a key in an index, one of this number of them. */
static Cost
descent_cost(PlannerInfo *root, IndexPath *path, double times)
{
	double		pages = (double) path->indexinfo->pages + path->indexinfo->rel->pages;

	return cpu_tuple_cost * (CACHED_COST_DESCENT + CACHED_COST_DESCENT_FAR * distance_of_found(root, path, pages, times));
}

/*
 * How many times the rows that PostgreSQL expects a correlated subquery's
 * look-up in an index finds. It takes each key to be one of the column's; if
 * there are more keys than the column has, some find nothing. Joins are
 * different: their filters often keep just the keys that are there.
 */
static double
found_factor(PlannerInfo *root, IndexPath *path)
{
	double		ratio = path->path.param_info == NULL ? known_rows_keys_ratio(root, path) : 1;

	return ratio > 1 ? 1 / ratio : 1;
}

/*
 * How many entries of an index a scan reads that do not fit, beyond the rows that
 * it finds: with conditions on its later columns alone, these are nearly all. Of
 * B-trees, PostgreSQL's cost tells, which is in proportion to their entries.
 */
static double
entries_beyond(IndexPath *path, double rows)
{
	IndexOptInfo *index = path->indexinfo;
	double		random_cost;
	double		page_cost;
	Cost		entry;
	Cost		once;

	/* the pages that many scans read are fewer than those of each */
	if (index->relam != BTREE_AM_OID || path->path.param_info != NULL || index->tuples <= 0)
		return 0;
	get_tablespace_page_costs(index->reltablespace, &random_cost, &page_cost);
	entry = random_cost * index->pages / index->tuples + cpu_index_tuple_cost +
		cpu_operator_cost * list_length(path->indexclauses);
	/* settings may be 0 */
	if (entry <= 0)
		return 0;
	/* a page, and the way down to it, as in btcostestimate() */
	once = random_cost + 50 * cpu_operator_cost * (Max(index->tree_height, 0) + 1);
	return Max((path->indextotalcost - once) / entry - rows, 0);
}

/*
 * What it takes, beyond looking for one key, to look for one beside each value of
 * the columns before the first one that has a condition, as PostgreSQL 18 and
 * later do in B-trees. Of scans that look for no rows of others,
 * entries_beyond() tells.
 */
static Cost
skipping_cost(PlannerInfo *root, IndexPath *path)
{
#if PG_VERSION_NUM >= 180000
	IndexOptInfo *index = path->indexinfo;
	int			first = index->nkeycolumns;
	double		values = 1;
	ListCell   *lc;

	if (index->relam != BTREE_AM_OID || path->path.param_info == NULL || path->indexclauses == NIL)
		return 0;
	foreach(lc, path->indexclauses)
		first = Min(first, lfirst_node(IndexClause, lc)->indexcol);
	for (int i = 0; i < first; i++)
	{
		bool		guessed;

		values *= Max(group_estimate_different(root, (Node *) list_nth_node(TargetEntry, index->indextlist, i)->expr, &guessed), 1);
	}
	/* where there are more, it goes on from page to page */
	return cpu_tuple_cost * CACHED_COST_SKIP * (Min(values, Max(index->pages, 1)) - 1);
#else
	return 0;
#endif
}

/*
 * A scan of an index, one of this number of them, which ends when it has returned
 * this share of the rows that it has.
 */
static Cost
index_scan(PlannerInfo *root, IndexPath *path, double share, double times)
{
	RelOptInfo *rel = path->path.parent;
	double		rows = clamp_row_est(path->indexselectivity * rel->tuples);
	double		fetched = path->path.pathtype == T_IndexOnlyScan ? 1 - rel->allvisfrac : 1;
	double		fetch = CACHED_COST_FETCH_NEAR + (CACHED_COST_FETCH - CACHED_COST_FETCH_NEAR) *
		distance_of_found(root, path, rel->pages, rows * share * times);
	double		row = fetch * fetched + CACHED_COST_INDEX_ONLY_ROW * (1 - fetched);
	double		together = fetched > 0 ? Min(CACHED_COST_INDEX_ROW, row) : row;
	double		further = together + (row - together) * share_of_pages(root, path->indexinfo, rows);
	Cost		beyond = cpu_tuple_cost * CACHED_COST_INDEX_ENTRY * entries_beyond(path, rows) * share;

	rows = clamp_row_est(rows / vector_parallel_divisor(path->path.parallel_workers));
	rows = clamp_row_est(rows * share);
	/* of keys that are known to have few rows, most have none */
	rows *= known_rows_look_up_factor(root, path) * found_factor(root, path);
	return descent_cost(root, path, times) + skipping_cost(root, path) * share +
		beyond / vector_parallel_divisor(path->path.parallel_workers) +
		cpu_tuple_cost * (row * Min(rows, 1) + further * Max(rows - 1, 0)) +
		(vector_core_filter_cost(root, &path->path, path->indexselectivity * rel->tuples, times) +
		 vector_reach_cost(root, rel, false) * fetched) * rows;
}

/* What it takes to find rows by an index, or by several, and to make a bitmap of their places. */
static Cost
bitmap_cost(PlannerInfo *root, Path *bitmap, double times)
{
	Cost		cost = 0;
	List	   *parts = NIL;
	ListCell   *lc;

	if (IsA(bitmap, IndexPath))
	{
		IndexPath  *path = (IndexPath *) bitmap;
		double		rows = path->indexselectivity * path->path.parent->tuples *
			known_rows_look_up_factor(root, path) * found_factor(root, path);

		return descent_cost(root, path, times) + skipping_cost(root, path) + cpu_tuple_cost *
			(CACHED_COST_INDEX_ENTRY * entries_beyond(path, rows) + CACHED_COST_BITMAP_ENTRY * rows);
	}
	if (IsA(bitmap, BitmapAndPath))
		parts = ((BitmapAndPath *) bitmap)->bitmapquals;
	else if (IsA(bitmap, BitmapOrPath))
		parts = ((BitmapOrPath *) bitmap)->bitmapquals;
	foreach(lc, parts)
		cost += bitmap_cost(root, lfirst(lc), times);
	return cost;
}

static Cost
bitmap_scan(PlannerInfo *root, BitmapHeapPath *path, double times)
{
	RelOptInfo *rel = path->path.parent;
	Cost		cost;
	Selectivity selectivity;
	double		rows;
	double		pages;
	Cost		page;

	cost_bitmap_tree_node(path->bitmapqual, &cost, &selectivity);
	rows = clamp_row_est(selectivity * rel->tuples);
	if (IsA(path->bitmapqual, IndexPath))
		rows *= known_rows_look_up_factor(root, (IndexPath *) path->bitmapqual) *
			found_factor(root, (IndexPath *) path->bitmapqual);

	/*
	 * many rows of a page are fetched together, and the more of the pages,
	 * the more like a scan of the table, as in cost_bitmap_heap_scan()
	 */
	pages = Min(rows, rel->pages);
	page = CACHED_COST_FETCH_NEAR +
		(CACHED_COST_BITMAP_PAGE - CACHED_COST_FETCH_NEAR) * distance_of_rows((double) rel->pages * BLCKSZ, rows * times);
	page -= Max(page - CACHED_COST_PAGE, 0) * sqrt(pages / Max(rel->pages, 1));
	return bitmap_cost(root, path->bitmapqual, times) + cpu_tuple_cost * CACHED_COST_DESCENT +
		(cpu_tuple_cost * (page * pages + CACHED_COST_BITMAP_ROW * rows) +
		 (vector_core_filter_cost(root, &path->path, selectivity * rel->tuples, times) + vector_reach_cost(root, rel, false)) * rows) / vector_parallel_divisor(path->path.parallel_workers);
}

static Cost
sorting_cost(double rows)
{
	return cpu_tuple_cost * CACHED_COST_COMPARE * rows * log2(Max(rows, 2));
}

/* How many times the rows that PostgreSQL expects of a path it returns, as far as its own scan tells. */
static double
missing_factor(PlannerInfo *root, Path *path)
{
	if (IsA(path, BitmapHeapPath))
		path = ((BitmapHeapPath *) path)->bitmapqual;
	return IsA(path, IndexPath) ? found_factor(root, (IndexPath *) path) : 1;
}

/*
 * What a path takes, each of this number of times, until it has returned this
 * share of its rows, if it can return them before the others.
 */
static Cost
few_rows_cost(PlannerInfo *root, Path *path, double share, double times)
{
	if (IsA(path, ProjectionPath))
		return few_rows_cost(root, ((ProjectionPath *) path)->subpath, share, times);
	if (IsA(path, IndexPath))
		return index_scan(root, (IndexPath *) path, share, times);
	if (IsA(path, NestPath))
	{
		JoinPath   *join = &((NestPath *) path)->jpath;
		Path	   *outer = join->outerjoinpath;
		Path	   *inner = join->innerjoinpath;
		double		outer_rows = clamp_row_est(outer->rows * share) * missing_factor(root, outer);

		return few_rows_cost(root, outer, share, times) +
			outer_rows * (few_rows_cost(root, inner, 1 / Max(inner->rows, 1), times * outer_rows) +
						  cpu_tuple_cost * CACHED_COST_LOOP_ROW);
	}
	return cached_path_cost(root, path);
}

/* What a path takes, each of this number of times, until it returns its first row. */
static Cost
first_row_cost(PlannerInfo *root, Path *path, double times)
{
	return few_rows_cost(root, path, 1 / Max(path->rows, 1), times);
}

/* The inner side of a nested loop, for `times` outer rows; with `first` one match of each is enough. */
static Cost
loops(PlannerInfo *root, Path *inner, double times, bool first)
{
	if (first && (IsA(inner, IndexPath) || IsA(inner, NestPath)))
		return first_row_cost(root, inner, times) * times;
	if (IsA(inner, IndexPath))
		return index_scan(root, (IndexPath *) inner, 1, times) * times;
	if (IsA(inner, BitmapHeapPath))
		return bitmap_scan(root, (BitmapHeapPath *) inner, times) * times;
	if (IsA(inner, MaterialPath))
		return cached_path_cost(root, inner) + cpu_tuple_cost * CACHED_COST_REREAD_ROW * inner->rows * Max(times - 1, 0);
	if (IsA(inner, MemoizePath))
	{
		MemoizePath *memoize = (MemoizePath *) inner;
		double		misses = memoize->est_entries > 0 ? Min(memoize->est_entries, times) : times;

		return cpu_tuple_cost * CACHED_COST_MEMOIZE * times + cached_path_cost(root, memoize->subpath) * misses;
	}
	return cached_path_cost(root, inner) * times;
}

/* What a nested loop takes whose inner side looks up rows for each of the outer ones. */
Cost
cached_look_ups_cost(PlannerInfo *root, Path *outer, Path *inner)
{
	double		rows = outer->rows * cached_rows_factor(root, outer->parent);

	return cached_path_cost(root, outer) + cpu_tuple_cost * CACHED_COST_LOOP_ROW * rows +
		loops(root, inner, Max(rows, 1), false);
}

/* What conditions of a join cost for a pair of rows; with `subqueries`, those of them that have one. */
static Cost
pair_cost(PlannerInfo *root, List *conditions, bool subqueries)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, conditions)
	{
		const PairCost *one = vector_pair_cost(root, lfirst_node(RestrictInfo, lc));

		if (!subqueries || one->has_subquery)
			cost += one->cost;
	}
	return cost;
}

/* What conditions of a join cost before the first pair of rows. */
static Cost
startup_cost(PlannerInfo *root, List *conditions)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, conditions)
		cost += vector_pair_cost(root, lfirst_node(RestrictInfo, lc))->startup;
	return cost;
}

static Cost
join_cost(PlannerInfo *root, JoinPath *join)
{
	Path	   *outer = join->outerjoinpath;
	Path	   *inner = join->innerjoinpath;
	double		outer_rows = outer->rows * cached_rows_factor(root, outer->parent) * missing_factor(root, outer);
	double		inner_rows = inner->rows * cached_rows_factor(root, inner->parent);
	double		rows = join->path.rows * cached_rows_factor(root, join->path.parent);
	double		returned = IsA(join, NestPath) && !bms_is_empty(PATH_REQ_OUTER(inner)) ? CACHED_COST_LOOPED_ROW :
		CACHED_COST_JOINED_ROW;
	Cost		cost = cached_path_cost(root, outer) + cpu_tuple_cost * returned * rows +
		startup_cost(root, join->joinrestrictinfo);

	if (IsA(join, NestPath))
	{
		bool		first = join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI;

		/*
		 * of more rows than its index scan was estimated to return, each is
		 * fetched
		 */
		cost += cpu_tuple_cost * (outer_rows * CACHED_COST_LOOP_ROW + CACHED_COST_FETCH * Max(rows - join->path.rows, 0));
		/* every pair of rows has to pass the conditions */
		return cost + loops(root, inner, Max(outer_rows, 1), first) +
			pair_cost(root, join->joinrestrictinfo, false) * outer_rows * inner_rows;
	}
	cost += cached_path_cost(root, inner) + pair_cost(root, join->joinrestrictinfo, true) * rows;
	if (IsA(join, HashPath))
	{
		/* of processes that fill a table together each has a part of the rows */
		double		table_rows = Max(((HashPath *) join)->inner_rows_total, inner_rows);

		return cost + cpu_tuple_cost * (CACHED_COST_BUILD * inner_rows + outer_rows * CACHED_COST_PROBE +
										(table_rows > CACHED_COST_FAR_ROWS ? CACHED_COST_PROBE_FAR * outer_rows : 0));
	}
	if (((MergePath *) join)->outersortkeys != NIL)
		cost += sorting_cost(outer_rows);
	if (((MergePath *) join)->innersortkeys != NIL)
		cost += sorting_cost(inner_rows);
	return cost + cpu_tuple_cost * CACHED_COST_MERGE_ROW * (outer_rows + inner_rows);
}

/* What the paths below an Append take, and passing on their rows. */
static Cost
append_cost(PlannerInfo *root, AppendPath *path)
{
	Cost		cost = cpu_tuple_cost * CACHED_COST_APPENDED_ROW * path->path.rows * cached_rows_factor(root, path->path.parent);
	Cost		below = 0;
	ListCell   *lc;

	foreach(lc, path->subpaths)
	{
		bool		whole = foreach_current_index(lc) < path->first_partial_path;

		/* of those that one process runs, the others run other ones meanwhile */
		below += cached_path_cost(root, lfirst(lc)) / (whole ? vector_parallel_divisor(path->path.parallel_workers) : 1);
	}

	/*
	 * of partitions that rows of another relation tell, most likely one is
	 * read
	 */
	if (path->path.param_info != NULL &&
		planner_mentions_partition_key(path->path.parent, path->path.param_info->ppi_clauses))
		below /= list_length(path->subpaths);
	return cost + below;
}

/* What one of our paths takes; PostgreSQL's cost of a path of another extension's. */
static Cost
custom_cost(PlannerInfo *root, CustomPath *path)
{
	if (is_ours(&path->path, &vector_join_path_methods))
	{
		Assert(path->path.param_info == NULL);
		return ((JoinsPath *) path)->taken;
	}
	if (is_ours(&path->path, &vector_aggregate_path_methods))
		return ((JoinsPath *) path)->taken + Max(path->path.total_cost - ((JoinsPath *) path)->planned, 0);
	return vector_is_filter_scan(&path->path) ? sequential_scan_cost(root, &path->path) : cached_upper_cost(root, &path->path, cached_path_cost);
}

/* What a path takes where all tables are in memory. */
static Cost
find_cost(PlannerInfo *root, Path *path)
{
	switch (nodeTag(path))
	{
		case T_Path:
			return path->pathtype == T_SeqScan ? sequential_scan_cost(root, path) : cached_upper_cost(root, path, cached_path_cost);
		case T_IndexPath:
			return index_scan(root, (IndexPath *) path, 1, times_of(root, path));
		case T_BitmapHeapPath:
			return bitmap_scan(root, (BitmapHeapPath *) path, times_of(root, path));
		case T_NestPath:
		case T_HashPath:
		case T_MergePath:
			return join_cost(root, (JoinPath *) path);
		case T_MaterialPath:
			return cached_path_cost(root, ((MaterialPath *) path)->subpath) + cpu_tuple_cost * CACHED_COST_REREAD_ROW * path->rows;
		case T_MemoizePath:
			return cached_path_cost(root, ((MemoizePath *) path)->subpath);
		case T_UniquePath:
			return cached_path_cost(root, ((UniquePath *) path)->subpath) +
				cpu_tuple_cost * CACHED_COST_BUILD * ((UniquePath *) path)->subpath->rows;
		case T_ProjectionPath:
			return cached_path_cost(root, ((ProjectionPath *) path)->subpath) +
				path->pathtarget->cost.per_tuple * path->rows;
		case T_SortPath:
			return cached_path_cost(root, ((SortPath *) path)->subpath) + sorting_cost(path->rows);
		case T_GatherPath:
			return cached_path_cost(root, ((GatherPath *) path)->subpath) + parallel_setup_cost +
				parallel_tuple_cost * path->rows * cached_rows_factor(root, path->parent);
		case T_AppendPath:
			return append_cost(root, (AppendPath *) path);
		case T_CustomPath:
			return custom_cost(root, (CustomPath *) path);
		default:
			return cached_upper_cost(root, path, cached_path_cost);
	}
}

/* What has been found out of a relation's paths. */
typedef struct CostMemo
{
	List	   *paths;
	List	   *costs;			/* a Cost of each */
} CostMemo;

static void
memo_cost(PlannerInfo *root, CostMemo *known, Path *path, Cost found)
{
	MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);
	Cost	   *cost = palloc(sizeof(Cost));

	*cost = found;
	known->paths = lappend(known->paths, path);
	known->costs = lappend(known->costs, cost);
	MemoryContextSwitchTo(old);
}

/*
 * What a path takes where all tables are in memory, and PostgreSQL's cost of it
 * where they are not; of a partial path each process that runs it. The paths
 * below are looked at again with each join above them; so it is noted, of
 * relations that have all their paths.
 */
Cost
cached_path_cost(PlannerInfo *root, Path *path)
{
	CostMemo   *known;
	ListCell   *one;
	ListCell   *cost;
	Cost		found;

	if (!vector_tables_in_memory(root))
		return honest_cost(path);
	if (path->parent->cheapest_total_path == NULL)
		return find_cost(root, path);
	known = planner_memo_find(root, MEMO_COSTS, path->parent);
	if (known == NULL)
		known = planner_memo_make(root, MEMO_COSTS, path->parent, sizeof(CostMemo));
	forboth(one, known->paths, cost, known->costs)
	{
		if (lfirst(one) == path)
			return *(Cost *) lfirst(cost);
	}
	found = find_cost(root, path);
	memo_cost(root, known, path, found);

	return found;
}

/* How long a query takes, in milliseconds, of which these are all paths; -1 if that is not known. */
double
cached_query_ms(PlannerInfo *root, List *paths)
{
	Path	   *best = NULL;
	Path	   *first = NULL;
	QueryCost  *known;
	ListCell   *lc;

	if (!vector_tables_in_memory(root) || paths == NIL)
		return -1;
	foreach(lc, paths)
	{
		if (best == NULL || compare_path_costs(lfirst(lc), best, TOTAL_COST) < 0)
			best = lfirst(lc);
		if (first == NULL || compare_fractional_path_costs(lfirst(lc), first, 1 / Max(first->rows, 1)) < 0)
			first = lfirst(lc);
	}
	known = planner_memo_make(root, MEMO_QUERY_COST, root, sizeof(QueryCost));
	*known = (QueryCost)
	{
		.whole = cached_path_cost(root, best) + cached_once_cost(root),
			.first = first_row_cost(root, first, times_of(root, first)) + cached_once_cost(root),
			.rows = best->rows
	};
	return known->whole / cpu_tuple_cost * CACHED_ROW_NS / 1e6;
}

/*
 * By how much the cost of a nested loop exceeds what it takes. That its inner side looks for rows in an index
 * costs a page each time, as if it were never in memory; and maybe there are far
 * fewer rows than PostgreSQL expects.
 */
static Cost
beyond_of_loop(PlannerInfo *root, JoinPath *join)
{
	if (bms_is_empty(PATH_REQ_OUTER(join->innerjoinpath)))
		return cached_cost_beyond(root, join->outerjoinpath) + cached_cost_beyond(root, join->innerjoinpath);
	return Max(join->path.total_cost - cached_path_cost(root, &join->path), 0);
}

/* The same of several paths, together. */
static Cost
all_beyond(PlannerInfo *root, List *paths)
{
	Cost		cost = 0;
	ListCell   *lc;

	foreach(lc, paths)
		cost += cached_cost_beyond(root, lfirst(lc));
	return cost;
}

/*
 * Our joins are priced close to PostgreSQL's, of which they take the place
 * (join_path.c). By how much the cost of a path, with those below it, exceeds
 * what they take; 0 where that is not known.
 */
Cost
cached_cost_beyond(PlannerInfo *root, Path *path)
{
	if (path == NULL || !vector_tables_in_memory(root))
		return 0;
	switch (nodeTag(path))
	{
		case T_NestPath:
			return beyond_of_loop(root, (JoinPath *) path);
		case T_HashPath:
		case T_MergePath:
			return cached_cost_beyond(root, ((JoinPath *) path)->outerjoinpath) +
				cached_cost_beyond(root, ((JoinPath *) path)->innerjoinpath);
		case T_MaterialPath:
			return cached_cost_beyond(root, ((MaterialPath *) path)->subpath);
		case T_MemoizePath:
			return cached_cost_beyond(root, ((MemoizePath *) path)->subpath);
		case T_UniquePath:
			return cached_cost_beyond(root, ((UniquePath *) path)->subpath);
		case T_ProjectionPath:
			return cached_cost_beyond(root, ((ProjectionPath *) path)->subpath);
		case T_SortPath:
		case T_IncrementalSortPath:
			return cached_cost_beyond(root, ((SortPath *) path)->subpath);
		case T_GatherPath:
			return cached_cost_beyond(root, ((GatherPath *) path)->subpath);
		case T_GatherMergePath:
			return cached_cost_beyond(root, ((GatherMergePath *) path)->subpath);
		case T_AggPath:
			return cached_cost_beyond(root, ((AggPath *) path)->subpath);
		case T_AppendPath:
			return all_beyond(root, ((AppendPath *) path)->subpaths);
		case T_CustomPath:
			if (vector_is_rows_of_joins(path) || is_aggregated_join(path))
				return Max(path->total_cost - ((JoinsPath *) path)->taken, 0);
			return is_ours(path, &vector_finalize_path_methods) ?
				cached_cost_beyond(root, linitial(((CustomPath *) path)->custom_paths)) : 0;
		default:
			return 0;
	}
}
