/*-------------------------------------------------------------------------
 *
 * reach_cost.c
 *	  What it takes to reach the columns of a table's rows.
 *
 * A column lies behind all columns before it. PostgreSQL goes from one to the
 * next whatever they are; we go so only past those that do not lie at the same
 * place in every row (vector/source/deform.c). PostgreSQL's costs leave it out,
 * though in a wide table it takes longer than all else.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/rel.h"

#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"

/* What passing columns on the way to others takes a row, in cpu_tuple_cost; `kept` is for rows that the filter keeps. */
typedef struct ReachMemo
{
	double		filter;
	double		kept;
	double		our_filter;
	double		our_kept;
} ReachMemo;

/* The last column in expressions, or 0. */
static int
last_column(List *exprs, Index relid)
{
	Bitmapset  *attnos = NULL;
	int			member = -1;
	int			last = 0;

	pull_varattnos((Node *) exprs, relid, &attnos);
	while ((member = bms_next_member(attnos, member)) >= 0)
		last = member + FirstLowInvalidHeapAttributeNumber;
	bms_free(attnos);
	return Max(last, 0);
}

/* What we pass on the way to this column of rows. */
static double
our_way(Relation table, AttrNumber to)
{
	double		way = 0;

	for (int i = 0; i < to - 1; i++)
		way += TupleDescAttr(RelationGetDescr(table), i)->attlen < 0 ? REACH_COST_VARIABLE : REACH_COST_FIXED;
	return way;
}

static const ReachMemo *
memo_of_reach(PlannerInfo *root, RelOptInfo *rel)
{
	ReachMemo  *known = planner_memo_find(root, MEMO_REACH, rel);
	int			filter;
	int			last;
	Relation	table;

	if (known != NULL)
		return known;
	known = planner_memo_make(root, MEMO_REACH, rel, sizeof(ReachMemo));
	filter = last_column(extract_actual_clauses(rel->baserestrictinfo, false), rel->relid);
	last = filter;

	/*
	 * of rows that are joined, other columns are reached only where the joins
	 * leave them, mostly
	 */
	if (bms_membership(root->all_baserels) == BMS_SINGLETON)
		last = Max(filter, last_column(rel->reltarget->exprs, rel->relid));
	if (last == 0)
		return known;
	/* the planner holds a lock */
	table = table_open(planner_rt_fetch(rel->relid, root)->relid, NoLock);
	known->filter = REACH_COST_CORE * filter;
	known->kept = REACH_COST_CORE * (last - filter);
	known->our_filter = our_way(table, filter);
	known->our_kept = our_way(table, last) - known->our_filter;
	table_close(table, NoLock);
	return known;
}

/*
 * What it takes a row of a table that is in memory, on average, in a scan of
 * PostgreSQL's or ours that filters all rows.
 */
Cost
vector_reach_cost(PlannerInfo *root, RelOptInfo *rel, bool ours)
{
	const ReachMemo *reach;
	double		share = Min(rel->rows / Max(rel->tuples, 1), 1);

	if (rel->rtekind != RTE_RELATION || !vector_tables_in_memory(root))
		return 0;
	reach = memo_of_reach(root, rel);
	return cpu_tuple_cost * (ours ? reach->our_filter + reach->our_kept * share : reach->filter + reach->kept * share);
}

/* What it takes to reach columns up to this one in a row that is fetched. */
Cost
vector_walk_cost(PlannerInfo *root, int last)
{
	return vector_tables_in_memory(root) ? cpu_tuple_cost * REACH_COST_CORE * last : 0;
}
