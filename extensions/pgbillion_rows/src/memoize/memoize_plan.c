/*-------------------------------------------------------------------------
 *
 * memoize_plan.c
 *	  Find the correlated subqueries of a statement that may be remembered,
 *	  and put MemoizeSubPlan above their plans.
 *
 * The planner has made the plans of a query's subqueries when it comes to the
 * last step of that query's own paths. From then on a plan is looked up by
 * its number only, so it can be replaced in the list of all plans; parameters
 * and references are fixed later, for ours as for others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "utils/guc.h"

#include "memoize/memoize.h"
#include "planner/planner.h"

/*
 * A plan that costs less than reading one page reads no table: to look for its
 * result would take as long as to compute it.
 */
#define LEAST_COST seq_page_cost

/*
 * Calls before it is decided whether remembering pays, for a plan that costs
 * as much as one look-up in an index, and at most. What is in vain then is a
 * small part of the time that the calls themselves take.
 */
#define DECISION_CALLS 1024
#define LOOKUP_COST 8.0
#define MOST_DECISION_CALLS 1000000

static int	memoize_subqueries = PLAN_ON;

/* ---- planning ---- */

static bool
kind_is_remembered(SubLinkType kind)
{
	switch (kind)
	{
		case EXISTS_SUBLINK:
		case ALL_SUBLINK:
		case ANY_SUBLINK:
		case ROWCOMPARE_SUBLINK:
		case EXPR_SUBLINK:
		case ARRAY_SUBLINK:
			return true;
		case MULTIEXPR_SUBLINK:
		case CTE_SUBLINK:
			return false;
	}
	return false;
}

static int
decision_calls(Cost cost)
{
	if (memoize_subqueries == PLAN_FORCE)
		return 0;
	return (int) Min(DECISION_CALLS * Max(cost / LOOKUP_COST, 1.0), MOST_DECISION_CALLS);
}

/* The parameters that a subquery gets from the query around it. */
static List *
key_of(SubPlan *subplan)
{
	List	   *key = NIL;
	ListCell   *number,
			   *value;

	forboth(number, subplan->parParam, value, subplan->args)
	{
		Param	   *param = makeNode(Param);
		Node	   *arg = lfirst(value);

		param->paramkind = PARAM_EXEC;
		param->paramid = lfirst_int(number);
		param->paramtype = exprType(arg);
		param->paramtypmod = exprTypmod(arg);
		param->paramcollid = exprCollation(arg);
		param->location = -1;
		key = lappend(key, param);
	}
	return key;
}

/*
 * Put the node above a finished plan. Its output is the plan's; what the plan
 * computes once before it begins belongs to the topmost node.
 */
static Plan *
memoize(PlannerGlobal *glob, Plan *plan, SubPlan *subplan)
{
	CustomScan *cscan = makeNode(CustomScan);

	cscan->scan.plan.startup_cost = plan->startup_cost;
	cscan->scan.plan.total_cost = plan->total_cost;
	cscan->scan.plan.plan_rows = plan->plan_rows;
	cscan->scan.plan.plan_width = plan->plan_width;
	cscan->scan.plan.parallel_safe = plan->parallel_safe;
#if PG_VERSION_NUM >= 180000
	cscan->scan.plan.disabled_nodes = plan->disabled_nodes;
#endif
	cscan->scan.plan.initPlan = plan->initPlan;
	plan->initPlan = NIL;
	cscan->custom_plans = list_make1(plan);

	/*
	 * setrefs.c finds each expression of the one list in the other: the first
	 * that is equal, which has the same value, as nothing here is volatile
	 */
	cscan->scan.plan.targetlist = copyObject(plan->targetlist);
	cscan->custom_scan_tlist = copyObject(plan->targetlist);
	cscan->custom_exprs = key_of(subplan);
	cscan->custom_private = list_make3(makeInteger(subplan->subLinkType == EXISTS_SUBLINK),
									   makeInteger(decision_calls(plan->total_cost)),
									   memoize_grouped_query(list_nth(glob->subroots, subplan->plan_id - 1), subplan));
	cscan->methods = &memoize_scan_methods;

	return &cscan->scan.plan;
}

/* Are the results of a subquery remembered, of which this is the plan? */
static bool
may_remember(PlannerGlobal *glob, SubPlan *subplan, const Plan *plan)
{
	return memoize_subqueries != PLAN_OFF && subplan->parParam != NIL && !subplan->useHashTable &&
		kind_is_remembered(subplan->subLinkType) &&
		(memoize_subqueries == PLAN_FORCE || plan->total_cost >= LEAST_COST) &&
		!planner_subquery_varies(glob, subplan);
}

/* The same for planner_is_remembered(). */
static bool
is_remembered(PlannerInfo *root, SubPlan *subplan)
{
	return may_remember(root->glob, subplan, list_nth(root->glob->subplans, subplan->plan_id - 1));
}

/* Remember the results of each subquery in an expression of a query, but not of those in its subqueries. */
static bool
memoize_subplans(Node *node, void *context)
{
	PlannerGlobal *glob = context;

	if (node == NULL || IsA(node, Query))
		return false;
	if (IsA(node, SubPlan))
	{
		SubPlan    *subplan = (SubPlan *) node;
		ListCell   *place = list_nth_cell(glob->subplans, subplan->plan_id - 1);
		Plan	   *plan = lfirst(place);

		/*
		 * the same subquery may be in several places: copies of one
		 * expression
		 */
		if (!(IsA(plan, CustomScan) && ((CustomScan *) plan)->methods == &memoize_scan_methods) &&
			may_remember(glob, subplan, plan))
			lfirst(place) = memoize(glob, plan, subplan);
	}
	return expression_tree_walker(node, memoize_subplans, context);
}

static void
memoize_query(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	if (stage == UPPERREL_FINAL && memoize_subqueries != PLAN_OFF && root->glob->subplans != NIL)
		(void) query_tree_walker(root->parse, memoize_subplans, root->glob, 0);
}

void
memoize_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.memoize_subqueries",
							 "Whether correlated subqueries remember their results.",
							 "With \"force\", all that may, also those that cost next to nothing, and they never stop; "
							 "results for all values are computed at once before the first call, if they can be.",
							 &memoize_subqueries, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	planner_add_offer(memoize_query);
	planner_set_remembered(is_remembered);
	RegisterCustomScanMethods(&memoize_scan_methods);
}
