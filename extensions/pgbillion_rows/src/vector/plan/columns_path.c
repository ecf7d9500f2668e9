/*-------------------------------------------------------------------------
 *
 * columns_path.c
 *	  Which columnar index a scan reads, and what that costs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "nodes/bitmapset.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "column_index/column_index.h"
#include "planner/arithmetic.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/filter/filter.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

int			vector_columns = PLAN_ON;

/* What is known of an index. */
typedef struct IndexMemo
{
	bool		usable;
	ColumnEstimate estimate;
	double		sought;			/* share_sought() of all conditions, or -1 if
								 * that is not known yet */
} IndexMemo;

/* Does a function show how a value is stored? An index has values without compression. */
static bool
function_shows_storage(Oid function, void *context)
{
	return planner_function_shows_storage(function);
}

static bool
shows_storage(Node *node, void *context)
{
	PlannerGlobal *glob = context;

	if (node == NULL || IsA(node, Var) || IsA(node, Const))
		return false;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, shows_storage, context, 0);
	if (IsA(node, RestrictInfo))
		return shows_storage((Node *) ((RestrictInfo *) node)->clause, context);
	/* a subquery that has been planned */
	if (IsA(node, SubPlan) && glob != NULL &&
		shows_storage((Node *) list_nth_node(PlannerInfo, glob->subroots, ((SubPlan *) node)->plan_id - 1)->parse, context))
		return true;
	return check_functions_in_node(node, function_shows_storage, context) ||
		expression_tree_walker(node, shows_storage, context);
}

/* Does an expression, or a query with all its subqueries that have not been planned, show how values are stored? */
bool
vector_shows_storage(Node *node)
{
	return shows_storage(node, NULL);
}

/* What is known of a query. */
typedef struct StorageMemo
{
	bool		shown;
} StorageMemo;

/* Does this show how values are stored? It is part of what the memo is about, and does not change. */
static bool
remembered_storage(PlannerInfo *root, const void *about, Node *node)
{
	StorageMemo *known = planner_memo_find(root, MEMO_STORAGE, about);

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_STORAGE, about, sizeof(StorageMemo));
		known->shown = shows_storage(node, root->glob);
	}
	return known->shown;
}

/*
 * Does a query, or one around it, with all their subqueries, show how values of
 * a table are stored? That is found out once for each. What branches of a UNION
 * ALL compute is not in the query, but among what is needed of the table, as
 * these expressions and its conditions say.
 */
bool
vector_storage_is_shown(PlannerInfo *root, RelOptInfo *rel, List *exprs)
{
	if (shows_storage((Node *) exprs, root->glob) || remembered_storage(root, rel, (Node *) rel->baserestrictinfo))
		return true;
	for (; root != NULL; root = root->parent_root)
	{
		if (remembered_storage(root, root, (Node *) root->parse))
			return true;
	}
	return false;
}

/* Expressions over a table with what an index has of them as columns, which are attributes after those of the table. */
static List *
with_index_columns(RelOptInfo *rel, const IndexOptInfo *info, List *exprs)
{
	return column_expressions_replace(exprs, info->indexprs, rel->relid, rel->max_attr);
}

/* Describe the rows of a table as those of a scan that reads an index, in the current context. */
static TupleDesc
describe_table(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *info)
{
	/* the planner holds a lock */
	Relation	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	TupleDesc	result = column_expressions_tupdesc(RelationGetDescr(table), info->indexprs);

	table_close(table, NoLock);
	return result;
}

/*
 * Add the attributes of a table that an expression has, with what an index has
 * of it as columns; 0 is one that no index has.
 */
static Bitmapset *
add_attributes(RelOptInfo *rel, const IndexOptInfo *info, Bitmapset *attnos, void *expr)
{
	Bitmapset  *found = NULL;
	int			member = -1;

	if (info->indexprs != NIL)
		expr = linitial(with_index_columns(rel, info, list_make1(expr)));
	pull_varattnos(expr, rel->relid, &found);
	while ((member = bms_next_member(found, member)) >= 0)
		attnos = bms_add_member(attnos, Max(member + FirstLowInvalidHeapAttributeNumber, 0));
	bms_free(found);

	return attnos;
}

/* The attributes of a table that a scan which reads an index needs for its filter and these expressions. */
static Bitmapset *
needed_attributes(RelOptInfo *rel, const IndexOptInfo *info, List *exprs)
{
	Bitmapset  *attnos = NULL;
	ListCell   *lc;

	foreach(lc, exprs)
		attnos = add_attributes(rel, info, attnos, lfirst(lc));
	foreach(lc, rel->baserestrictinfo)
		attnos = add_attributes(rel, info, attnos, lfirst_node(RestrictInfo, lc)->clause);

	return attnos;
}

/* Does an index hold all of these attributes? */
static bool
has_attributes(RelOptInfo *rel, const IndexOptInfo *info, const Bitmapset *attnos)
{
	int			attno = -1;

	while ((attno = bms_next_member(attnos, attno)) >= 0)
	{
		/* 0 is a whole row, and what indexkeys[] has of an expression */
		bool		found = attno > rel->max_attr;

		for (int i = 0; i < info->nkeycolumns && attno > 0; i++)
			found |= info->indexkeys[i] == attno;
		if (!found)
			return false;
	}
	return true;
}

/* Is there a columnar index of a table? */
bool
vector_has_column_index(RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (vector_columns != PLAN_OFF && column_index_is_ours(lfirst_node(IndexOptInfo, lc)))
			return true;
	}
	return false;
}

/* The index of the fewest columns that holds all that a scan needs for its filter and these expressions, or NULL. */
static IndexOptInfo *
find_index(RelOptInfo *rel, List *exprs, Bitmapset **attnos)
{
	IndexOptInfo *best = NULL;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);

		Bitmapset  *needed;

		if (info->hypothetical || !column_index_is_ours(info) ||
			(best != NULL && info->nkeycolumns >= best->nkeycolumns))
			continue;
		needed = needed_attributes(rel, info, exprs);
		if (!has_attributes(rel, info, needed))
			continue;
		best = info;
		*attnos = needed;
	}
	return best;
}

/*
 * What is known of an index, found out once in a statement; NULL if it cannot
 * be used. It is asked for with each order of joins, and looks at all segments.
 */
static const ColumnEstimate *
estimate_of(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *info)
{
	IndexMemo  *known = planner_memo_find(root, MEMO_INDEX, info);
	Relation	index;

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_INDEX, info, sizeof(IndexMemo));
		known->sought = -1;
		/* the planner holds a lock */
		index = index_open(info->indexoid, NoLock);
		known->usable = column_index_usable(index);
		if (known->usable)
			column_index_estimate(index, rel->pages, info->pages, &known->estimate);
		index_close(index, NoLock);
	}
	return known->usable ? &known->estimate : NULL;
}

/* ---- values that are looked up ---- */

/* Is it the same for all rows, and known before the scan? */
static bool
is_known(Node *expr)
{
	return IsA(expr, Const) || (IsA(expr, Param) && ((Param *) expr)->paramkind == PARAM_EXTERN);
}

/* The column of a table that a term compares with one or several values for equality, or NULL. */
static Var *
equated_column(Node *term)
{
	List	   *args;
	Oid			operator;
	Node	   *left;
	Node	   *right;

	if (IsA(term, OpExpr))
	{
		args = ((OpExpr *) term)->args;
		operator = ((OpExpr *) term)->opno;
	}
	else if (IsA(term, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) term)->useOr)
	{
		args = ((ScalarArrayOpExpr *) term)->args;
		operator = ((ScalarArrayOpExpr *) term)->opno;
	}
	else
		return NULL;
	if (list_length(args) != 2 || get_oprrest(operator) != F_EQSEL)
		return NULL;
	left = (Node *) planner_strip_relabel(linitial(args));
	right = (Node *) planner_strip_relabel(lsecond(args));
	if (IsA(left, Var) && is_known(right))
		return (Var *) left;
	return IsA(right, Var) && is_known(left) && IsA(term, OpExpr) ? (Var *) right : NULL;
}

/* Does an index find values of a column of the table, or of an expression that comes after these? */
static bool
finds_values(RelOptInfo *rel, const IndexOptInfo *info, const ColumnEstimate *estimate, AttrNumber attno)
{
	int			expressions = 0;

	for (int i = 0; i < info->nkeycolumns; i++)
	{
		AttrNumber	key = info->indexkeys[i];

		if (key == 0)
			key = rel->max_attr + ++expressions;
		if (key == attno)
			return (estimate->hashed >> i & 1) != 0;
	}
	return false;
}

/*
 * The share of its blocks that are read of an index by a scan with these terms,
 * as values are looked up; 1 if none is.
 */
static double
share_sought(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *info, const ColumnEstimate *estimate, List *terms)
{
	double		parts = Max((double) rel->pages / estimate->segment_blocks, 1) * COLUMN_FOUND_PARTS;
	double		share = 1;
	ListCell   *lc;

	if (estimate->hashed == 0)
		return 1;
	foreach(lc, terms)
	{
		Node	   *term = lfirst(lc);
		Node	   *clause = IsA(term, RestrictInfo) ? (Node *) ((RestrictInfo *) term)->clause : term;
		Var		   *column = equated_column(linitial(with_index_columns(rel, info, list_make1(clause))));
		double		rows;

		if (column == NULL || column->varno != rel->relid || !finds_values(rel, info, estimate, column->varattno))
			continue;
		rows = rel->tuples * clause_selectivity(root, term, 0, JOIN_INNER, NULL);
		share = Min(share, Max(rows, 1) / parts + COLUMN_FOUND_WRONGLY);
	}
	return share;
}

/* The same of all conditions on the table, found out once: it is asked for with each order of joins. */
static double
share_sought_of_all(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *info, const ColumnEstimate *estimate)
{
	IndexMemo  *known = planner_memo_find(root, MEMO_INDEX, info);

	if (known->sought < 0)
		known->sought = share_sought(root, rel, info, estimate, rel->baserestrictinfo);
	return known->sought;
}

/* What it costs to look values up in all segments, if that leaves such a share of blocks. */
static Cost
seek_cost(RelOptInfo *rel, const ColumnEstimate *estimate, double sought)
{
	return sought < 1 ? COLUMN_SEEK_COST * rel->pages / estimate->segment_blocks : 0;
}

/*
 * What pages of a table, and a row, cost if some columns are read from an index;
 * `wait` is what of a row's cost is the heap's alone.
 */
static void
index_cost(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *info, const ColumnEstimate *estimate, int columns,
		   Cost wait, Cost *pages, Cost *row)
{
	double		share = Max(Min(estimate->valid_share, 1), 0);
	double		sought = share_sought_of_all(root, rel, info, estimate);

	/* a page of the index costs what one of the table does */
	*pages *= 1 - share + share * sought * estimate->pages_per_block * Max(columns, 1) / Max(info->nkeycolumns, 1);
	*pages += seek_cost(rel, estimate, sought);
	*row = *row * (1 - share) + (*row - wait) * share * sought * COLUMN_ROW_COST_FACTOR;
}

/* What conditions that PostgreSQL evaluates of the table's rows cost of that with an index that may have them as columns. */
static double
others_factor(const IndexOptInfo *info)
{
	return info->indexprs != NIL ? COLUMN_ROW_COST_FACTOR : 1;
}

/* The same with this index, or InvalidOid. */
double
vector_index_others_factor(RelOptInfo *rel, Oid index)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		if (lfirst_node(IndexOptInfo, lc)->indexoid == index)
			return others_factor(lfirst_node(IndexOptInfo, lc));
	}
	return 1;
}

/*
 * The columnar index that a scan of a table is to read for expressions over
 * it and perhaps others, or InvalidOid, and what its pages and rows cost in
 * place of those given; `wait` is what of a row's cost is the heap's alone. With
 * "force" it is read if there is one that can be, else if it is cheaper.
 */
Oid
vector_choose_column_index(PlannerInfo *root, RelOptInfo *rel, List *exprs, Cost wait, Cost *pages, Cost *row)
{
	Bitmapset  *attnos = NULL;
	IndexOptInfo *info;
	const ColumnEstimate *estimate;
	Cost		index_pages = *pages;
	Cost		index_row = *row;
	Cost		others;

	if (!vector_has_column_index(rel) || vector_storage_is_shown(root, rel, exprs))
		return InvalidOid;
	info = find_index(rel, exprs, &attnos);
	estimate = info == NULL ? NULL : estimate_of(root, rel, info);
	if (estimate == NULL)
		return InvalidOid;

	index_cost(root, rel, info, estimate, bms_num_members(attnos), wait, &index_pages, &index_row);
	others = vector_others_cost(root, rel, 1);
	if (vector_columns != PLAN_FORCE &&
		index_pages + (index_row + others * others_factor(info)) * rel->tuples >= *pages + (*row + others) * rel->tuples)
		return InvalidOid;
	*pages = index_pages;
	*row = index_row;

	return info->indexoid;
}

/* Of attributes of a table, those that an index lacks. */
static Bitmapset *
lacking_attributes(RelOptInfo *rel, const IndexOptInfo *info, const Bitmapset *attnos)
{
	Bitmapset  *lacking = NULL;
	int			attno = -1;

	while ((attno = bms_next_member(attnos, attno)) >= 0)
	{
		if (!has_attributes(rel, info, bms_make_singleton(attno)))
			lacking = bms_add_member(lacking, attno);
	}
	return lacking;
}

/* The attributes of a table in these expressions, where an index does not have the expression; false if there are others than columns. */
static bool
output_attributes(RelOptInfo *rel, const IndexOptInfo *info, List *outputs, Bitmapset **attnos)
{
	ListCell   *lc;

	*attnos = NULL;
	foreach(lc, pull_var_clause((Node *) with_index_columns(rel, info, outputs), PVC_RECURSE_AGGREGATES))
	{
		Var		   *var = lfirst_node(Var, lc);

		if (var->varno != rel->relid)
			continue;
		if (var->varattno <= 0)
			return false;
		*attnos = bms_add_member(*attnos, var->varattno);
	}
	return true;
}

/*
 * The index that holds what a scan needs for its filter and these expressions,
 * and of what the outputs need as much as can be; of such, that of the fewest
 * columns. NULL if there is none, or if no column is needed by which rows are
 * removed.
 */
static IndexOptInfo *
find_late_index(RelOptInfo *rel, List *exprs, List *outputs, Bitmapset **attnos, Bitmapset **late)
{
	IndexOptInfo *best = NULL;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);
		Bitmapset  *needed;
		Bitmapset  *wanted;
		Bitmapset  *lacking;

		if (info->hypothetical || !column_index_is_ours(info))
			continue;
		needed = needed_attributes(rel, info, exprs);
		if (bms_is_empty(needed) || !has_attributes(rel, info, needed) || !output_attributes(rel, info, outputs, &wanted))
			continue;
		lacking = lacking_attributes(rel, info, wanted);
		if (best != NULL && (bms_num_members(lacking) > bms_num_members(*late) ||
							 (bms_num_members(lacking) == bms_num_members(*late) && info->nkeycolumns >= best->nkeycolumns)))
			continue;
		best = info;
		*attnos = bms_difference(bms_union(needed, wanted), lacking);
		*late = lacking;
	}
	return best;
}

/*
 * The columnar index that a scan of a table is to read for its filter and
 * expressions of joins above it, where this number of rows is left for which
 * columns that only the outputs need are fetched: *late; or InvalidOid. What its pages and rows
 * cost, with fetching, in place of those given; `wait` is what of a row's cost is
 * the heap's alone. With "force" it is read if there is one that can be, else if
 * it is cheaper.
 */
Oid
vector_choose_late_index(PlannerInfo *root, RelOptInfo *rel, List *exprs, List *outputs, double rows,
						 Cost wait, Cost *pages, Cost *row, List **late)
{
	Bitmapset  *attnos = NULL;
	Bitmapset  *lacking = NULL;
	IndexOptInfo *info;
	const ColumnEstimate *estimate;
	Cost		index_pages = *pages;
	Cost		index_row = *row;
	Cost		others;
	List	   *columns = NIL;
	int			attno = -1;

	*late = NIL;
	if (!vector_has_column_index(rel) || vector_storage_is_shown(root, rel, list_concat_copy(exprs, outputs)))
		return InvalidOid;
	info = find_late_index(rel, exprs, outputs, &attnos, &lacking);
	estimate = info == NULL ? NULL : estimate_of(root, rel, info);
	/* one that has all is not for us */
	if (estimate == NULL || bms_is_empty(lacking))
		return InvalidOid;

	index_cost(root, rel, info, estimate, bms_num_members(attnos), wait, &index_pages, &index_row);
	while ((attno = bms_next_member(lacking, attno)) >= 0)
		columns = lappend_int(columns, attno);
	index_pages += cached_fetch_cost(root, rel, LATE_ROWS_FACTOR * rows) +
		vector_walk_cost(root, llast_int(columns)) * LATE_ROWS_FACTOR * rows;
	others = vector_others_cost(root, rel, 1);
	if (vector_columns != PLAN_FORCE &&
		index_pages + (index_row + others * others_factor(info)) * rel->tuples >= *pages + (*row + others) * rel->tuples)
		return InvalidOid;
	*pages = index_pages;
	*row = index_row;
	*late = columns;

	return info->indexoid;
}

/*
 * Would a scan for these expressions read a columnar index that leaves nothing
 * of the filter to be evaluated row by row?
 */
bool
vector_index_has_filter(PlannerInfo *root, RelOptInfo *rel, List *exprs)
{
	Cost		pages = rel->pages;
	Cost		row = vector_filter_cost(root, rel);
	Bitmapset  *attnos;
	IndexOptInfo *info;
	MemoryContext work;
	MemoryContext old;
	TupleDesc	tupdesc;
	bool		all = true;
	ListCell   *lc;

	if (!OidIsValid(vector_choose_column_index(root, rel, exprs, 0, &pages, &row)))
		return false;
	info = find_index(rel, exprs, &attnos);
	if (info->indexprs == NIL)
		return false;
	work = AllocSetContextCreate(CurrentMemoryContext, "pgbillion filter", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(work);
	tupdesc = describe_table(root, rel, info);
	foreach(lc, rel->baserestrictinfo)
	{
		List	   *clause = list_make1(lfirst_node(RestrictInfo, lc)->clause);

		all &= vector_filter_is_kernel(linitial(with_index_columns(rel, info, clause)), tupdesc);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);

	return all;
}

/* ---- scans that return rows ---- */

/*
 * How many of the terms, from the first on, have kernels that raise no error if
 * what the index has of them are columns.
 */
static int
count_certain(PlannerInfo *root, RelOptInfo *rel, const IndexOptInfo *info, List *terms)
{
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "pgbillion filter", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	TupleDesc	tupdesc = describe_table(root, rel, info);
	List	   *replaced = with_index_columns(rel, info, terms);
	int			n = 0;

	while (n < list_length(terms) && vector_filter_is_certain(list_nth(replaced, n), tupdesc))
		n++;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);

	return n;
}

/* How many of the terms at most, from the first on, have such kernels with one of the columnar indexes. */
int
vector_count_index_terms(PlannerInfo *root, RelOptInfo *rel, List *terms)
{
	int			most = 0;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);

		if (vector_columns != PLAN_OFF && !info->hypothetical && column_index_is_ours(info) && info->indexprs != NIL)
			most = Max(most, count_certain(root, rel, info, terms));
	}
	return most;
}

/*
 * Divide terms into those that need no other columns than an index has, of the
 * first n, and all others. Add to the attributes that are needed those of the
 * terms, as they are evaluated.
 */
static void
divide_terms(RelOptInfo *rel, const IndexOptInfo *info, List *terms, int n, RowsIndex *found)
{
	ListCell   *lc;

	foreach(lc, terms)
	{
		Bitmapset  *attnos = NULL;
		ListCell   *var;

		foreach(var, pull_var_clause((Node *) with_index_columns(rel, info, list_make1(lfirst(lc))), 0))
			attnos = bms_add_member(attnos, lfirst_node(Var, var)->varattno);
		if (foreach_current_index(lc) < n && attnos != NULL && has_attributes(rel, info, attnos))
		{
			found->terms = lappend(found->terms, lfirst(lc));
			found->ncolumns += bms_num_members(attnos);
		}
		else
		{
			found->others = lappend(found->others, lfirst(lc));
			attnos = NULL;
			foreach(var, pull_var_clause(lfirst(lc), 0))
				attnos = bms_add_member(attnos, lfirst_node(Var, var)->varattno);
		}
		found->needed = bms_join(found->needed, attnos);
	}
}

/* Fill in what reading some columns of an index takes; false if it cannot be read. */
static bool
estimate_rows_index(PlannerInfo *root, RelOptInfo *rel, IndexOptInfo *info, RowsIndex *choice)
{
	const ColumnEstimate *estimate = estimate_of(root, rel, info);

	if (estimate == NULL)
		return false;
	choice->index = info->indexoid;
	choice->share = Max(Min(estimate->valid_share, 1), 0);
	choice->sought = share_sought(root, rel, info, estimate, choice->terms);
	choice->seeking = seek_cost(rel, estimate, choice->sought);
	choice->pages = rel->pages * choice->share * choice->sought * estimate->pages_per_block / Max(info->nkeycolumns, 1);

	return true;
}

/* Is an index a better choice than another? */
static bool
is_better(const RowsIndex *choice, int columns, const RowsIndex *other, int other_columns)
{
	if (choice->all != other->all)
		return choice->all;
	if (list_length(choice->terms) != list_length(other->terms))
		return list_length(choice->terms) > list_length(other->terms);
	return columns < other_columns;
}

/*
 * Choose the columnar index that a scan which returns rows reads: one that has
 * all columns needed, if rows can be made of these (`any`), else that which has
 * the columns of most of the terms, and of such the one with the fewest columns.
 * The first n terms raise no error, nor do maybe others with an index; these may
 * change places. `needed` are the columns that are needed beside those of the
 * terms. The pages are those of one column. False if there is none that can be
 * read.
 */
bool
vector_choose_rows_index(PlannerInfo *root, RelOptInfo *rel, List *terms, int n, bool any, const Bitmapset *needed,
						 RowsIndex *choice)
{
	IndexOptInfo *best = NULL;
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);
		RowsIndex	found = {0};

		if (vector_columns == PLAN_OFF || info->hypothetical || !column_index_is_ours(info))
			continue;
		found.needed = bms_copy(needed);
		divide_terms(rel, info, terms, info->indexprs == NIL ? n : count_certain(root, rel, info, terms), &found);
		found.all = any && has_attributes(rel, info, found.needed);
		if (best == NULL || is_better(&found, info->nkeycolumns, choice, best->nkeycolumns))
		{
			best = info;
			*choice = found;
		}
	}
	return best != NULL && estimate_rows_index(root, rel, best, choice);
}

/* Does the index that was chosen have a column of the table? */
bool
vector_rows_index_has(RelOptInfo *rel, const RowsIndex *choice, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);

		if (info->indexoid == choice->index)
			return has_attributes(rel, info, bms_make_singleton(attno));
	}
	return false;
}

void
vector_columns_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.columns",
							 "Reads tables from columnar indexes instead of the heap where that is sound.",
							 "\"force\" does so wherever there is such an index, whatever it is estimated to cost.",
							 &vector_columns, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
}
