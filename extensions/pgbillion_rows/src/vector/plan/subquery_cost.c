/*-------------------------------------------------------------------------
 *
 * subquery_cost.c
 *	  What subqueries in conditions take.
 *
 * A subquery is planned before the conditions that it is in. What its plan then
 * takes where all tables are in memory is noted by cached_cost.c, and found
 * here. PostgreSQL's costs of it count pages, most of which are in memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/selfuncs.h"

#include "planner/group_estimate.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"

typedef struct Search
{
	PlannerInfo *root;
	double		rows;			/* for which the condition is evaluated */
	SubqueryCosts costs;
} Search;

/* What is known of a subquery's plan, or NULL. */
static const QueryCost *
known_cost(PlannerInfo *root, const SubPlan *subplan)
{
	PlannerInfo *subroot = list_nth(root->glob->subroots, subplan->plan_id - 1);

	return planner_memo_find(subroot, MEMO_QUERY_COST, subroot);
}

/* What is known of the calls of a subquery. */
typedef struct CallsMemo
{
	bool		remembered;		/* are results? */
	double		values;			/* how many different ones rows pass, as far
								 * as conditions on these alone tell */
} CallsMemo;

/* The part of a column's values that the conditions on it alone leave. */
static double
part_of_values(PlannerInfo *root, Node *arg)
{
	Var		   *var = (Var *) arg;
	RelOptInfo *rel;
	List	   *conditions = NIL;
	ListCell   *lc;

	if (!IsA(arg, Var) || var->varno >= root->simple_rel_array_size || (rel = root->simple_rel_array[var->varno]) == NULL)
		return 1;
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *condition = lfirst_node(RestrictInfo, lc);
		List	   *vars = pull_var_clause((Node *) condition->clause, PVC_RECURSE_PLACEHOLDERS);

		if (list_length(vars) == 1 && equal(linitial(vars), var) && !contain_subplans((Node *) condition->clause))
			conditions = lappend(conditions, condition);
	}
	return conditions == NIL ? 1 : clauselist_selectivity(root, conditions, var->varno, JOIN_INNER, NULL);
}

static const CallsMemo *
memo_of_calls(PlannerInfo *root, SubPlan *subplan)
{
	/* of the node there are copies, and not all of them live that long */
	const void *about = list_nth(root->glob->subroots, subplan->plan_id - 1);
	CallsMemo  *known = planner_memo_find(root, MEMO_CALLS, about);
	ListCell   *lc;

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_CALLS, about, sizeof(CallsMemo));
		known->remembered = subplan->args != NIL && planner_is_remembered(root, subplan);
		if (known->remembered)
		{
			known->values = group_estimate_values(root, subplan->args);
			foreach(lc, subplan->args)
				known->values *= part_of_values(root, lfirst(lc));
		}
	}
	return known;
}

/*
 * The part of the calls for a number of rows that compute something: those that
 * pass values that no call has passed before, if results are remembered. Of n
 * values each row has any.
 */
static double
new_values(PlannerInfo *root, SubPlan *subplan, double rows)
{
	const CallsMemo *known = memo_of_calls(root, subplan);
	double		n = Max(known->values, 1);

	if (rows <= 1 || !known->remembered)
		return 1;
	return Min(n * (1 - exp(-rows / n)) / rows, 1);
}

/* Add what one subquery costs and takes. */
static void
add_subquery(Search *search, SubPlan *subplan)
{
	const QueryCost *known = known_cost(search->root, subplan);
	SubqueryCosts *costs = &search->costs;

	costs->planned += subplan->per_call_cost;
	costs->planned_startup += subplan->startup_cost;
	if (subplan->useHashTable)
	{
		costs->taken += subplan->per_call_cost;
		costs->taken_startup += known == NULL ? subplan->startup_cost :
			known->whole + cpu_tuple_cost * CACHED_COST_BUILD * known->rows;
		return;
	}
	costs->taken_startup += subplan->startup_cost;
	/* without correlation the plan may keep its rows */
	if (known == NULL || subplan->parParam == NIL)
		costs->taken += subplan->per_call_cost * SUBQUERY_COST_FACTOR;
	else
	{
		Cost		call = known->whole;

		if (subplan->subLinkType == EXISTS_SUBLINK)
			call = known->first;
		else if (subplan->subLinkType == ALL_SUBLINK || subplan->subLinkType == ANY_SUBLINK)
			call /= 2;
		costs->taken += call * new_values(search->root, subplan, search->rows);
	}
}

static bool
find_subqueries(Node *node, void *context)
{
	if (node == NULL)
		return false;
	/* cost_qual_eval() takes the first one, too */
	if (IsA(node, AlternativeSubPlan))
		return find_subqueries(linitial(((AlternativeSubPlan *) node)->subplans), context);
	if (IsA(node, SubPlan))
		add_subquery(context, (SubPlan *) node);
	return expression_tree_walker(node, find_subqueries, context);
}

/*
 * What the subqueries in a condition cost PostgreSQL, as cost_qual_eval() counts
 * them, and what they take if it is evaluated for this number of rows.
 */
SubqueryCosts
vector_subquery_costs(PlannerInfo *root, Node *condition, double rows)
{
	Search		search = {root, rows};

	(void) find_subqueries(condition, &search);
	return search.costs;
}
