/*-------------------------------------------------------------------------
 *
 * join_worth.c
 *	  Of which statements the joins are looked at.
 *
 * That takes a part of the time that PostgreSQL takes to plan, and has to be
 * worth it: of few rows, or small tables, next to nothing can be gained.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "utils/float.h"

#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_search.h"
#include "vector/plan/plan.h"

/* Tables of less than that many pages together are joined in a few milliseconds. */
#define LEAST_PAGES 128

/* What a few rows of a table are, found for a small share of what it costs to look at all. */
#define FEW_ROWS 20
#define FEW_PAGES 32
#define FEW_ROWS_SHARE 0.1

/* Does an index give the few rows that are read of a table, or of those that it stands for? */
static bool
has_few_rows(PlannerInfo *root, RelOptInfo *rel)
{
	double		pages = 0;
	double		tuples = 0;
	ListCell   *lc;

	if (rel->rows > FEW_ROWS || rel->cheapest_total_path == NULL)
		return false;
	foreach(lc, planner_leaf_tables(root, rel))
	{
		RelOptInfo *leaf = lfirst(lc);

		pages += leaf->pages;
		tuples += leaf->tuples;
	}
	return pages > FEW_PAGES && rel->cheapest_total_path->total_cost < FEW_ROWS_SHARE * cpu_tuple_cost * tuples;
}

/*
 * Is a statement about a few rows of a table, which an index gives? What it
 * joins with these is looked for in indexes, too: nothing is to be gained, and
 * planning it must not take longer.
 */
static bool
is_about_few_rows(PlannerInfo *root)
{
	int			table = -1;

	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel != NULL && has_few_rows(root, rel))
			return true;
	}
	return false;
}

/* ---- what a plan of look-ups would cost ---- */

/*
 * The cheapest way to join one more table by looking its rows up, and how many
 * rows this gives for each: less than one, of which PostgreSQL knows nothing,
 * where a condition leaves a part of the table.
 */
static Cost
look_up_cost(PlannerInfo *root, Relids joined, int table, double *rows)
{
	RelOptInfo *rel = root->simple_rel_array[table];
	Cost		least = get_float8_infinity();
	ListCell   *lc;

	*rows = 0;
	foreach(lc, rel->cheapest_parameterized_paths)
	{
		const Path *path = lfirst(lc);

		if (path->param_info == NULL || !bms_is_subset(PATH_REQ_OUTER(path), joined) || path->total_cost >= least)
			continue;
		least = path->total_cost;
		*rows = path->rows > 1 ? path->rows : Min(rel->rows / Max(rel->tuples, 1), 1);
	}
	return least;
}

/*
 * What it costs to begin with one table, and to look the others up, that one
 * first which adds least; or more than `most`.
 */
static Cost
cost_from(PlannerInfo *root, int first, Cost most)
{
	RelOptInfo *rel = root->simple_rel_array[first];
	Relids		joined = bms_copy(rel->relids);
	Relids		rest = bms_del_member(bms_copy(root->all_baserels), first);
	double		rows = rel->rows;
	Cost		cost = rel->cheapest_total_path->total_cost;

	while (!bms_is_empty(rest) && cost < most)
	{
		Cost		least = get_float8_infinity();
		double		each = 0;
		int			next = -1;
		int			table = -1;

		while ((table = bms_next_member(rest, table)) >= 0)
		{
			double		found;
			Cost		look_up = look_up_cost(root, joined, table, &found);

			if (look_up >= least)
				continue;
			least = look_up;
			each = found;
			next = table;
		}
		if (next < 0)
			return get_float8_infinity();
		cost += Max(rows * vector_rows_factor(root, joined), 1) * least;
		rows *= each;
		joined = bms_add_member(joined, next);
		rest = bms_del_member(rest, next);
	}
	return cost;
}

/*
 * The least that a plan costs PostgreSQL which begins with one table and looks
 * the others up. What it finds costs no more, but for joins that have to come in
 * another order. Infinity where there is none that costs less than `most`.
 */
static Cost
look_ups_plan_cost(PlannerInfo *root, Cost most)
{
	Cost		least = get_float8_infinity();
	int			table = -1;

	if (!enable_nestloop)
		return least;
	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel == NULL || rel->cheapest_total_path == NULL)
			return least;
	}
	table = -1;
	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		Cost		cost = cost_from(root, table, Min(least, most));

		if (cost < least)
			least = cost;
	}
	return least;
}

/*
 * Is what a statement reads worth looking at all of its joins? Of many tables
 * there are very many. What can be gained is about what the tables cost on
 * their own, or what looking most of them up does.
 */
static bool
is_worth_search(PlannerInfo *root)
{
	int			levels = Max(from_collapse_limit, join_collapse_limit);
	int			tables = 0;
	Cost		cost = 0;
	Cost		least;
	int			table = -1;

	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel == NULL || rel->cheapest_total_path == NULL)
			continue;
		tables++;
		cost += rel->cheapest_total_path->total_cost;
	}
	least = JOIN_SEARCH_COST * tables * exp2(Min(tables, levels));
	return cost >= least && look_ups_plan_cost(root, least) >= least;
}

/* The pages of a statement's tables, also those of the branches of a UNION ALL. */
static double
pages_read(PlannerInfo *root)
{
	double		pages = root->total_table_pages;

	for (int i = 1; i < root->simple_rel_array_size; i++)
	{
		RelOptInfo *rel = root->simple_rel_array[i];

		if (rel != NULL && rel->reloptkind == RELOPT_OTHER_MEMBER_REL && rel->rtekind == RTE_SUBQUERY && rel->subroot != NULL)
			pages += rel->subroot->total_table_pages;
	}
	return pages;
}

/*
 * Why a statement is not for us, or NULL. What it does with the rows of joins
 * must not need those of the tables, as locks and rechecks of updated rows do.
 * Small tables are left alone.
 */
static const char *
statement_refusal(PlannerInfo *root)
{
	if ((root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT) ||
		root->rowMarks != NIL || root->parse->rowMarks != NIL)
		return "rows are changed or locked";
	if (vector_join == PLAN_FORCE)
		return NULL;
	if (pages_read(root) < LEAST_PAGES)
		return "the tables are small";
	if (is_about_few_rows(root))
		return "an index gives the few rows that are read of a table";
	if (!is_worth_search(root))
		return "reading the tables takes little, compared with looking at all their joins";
	return NULL;
}

/* This is asked with each join of a statement. */
typedef struct StatementMemo
{
	const char *refusal;
} StatementMemo;

/* The same, found out once. */
const char *
join_chain_refusal(PlannerInfo *root)
{
	StatementMemo *known = planner_memo_find(root, MEMO_STATEMENT, root);

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_STATEMENT, root, sizeof(StatementMemo));
		known->refusal = statement_refusal(root);
	}
	return known->refusal;
}
