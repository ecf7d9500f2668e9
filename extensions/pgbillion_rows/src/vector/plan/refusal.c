/*-------------------------------------------------------------------------
 *
 * refusal.c
 *	  What speaks against vectorized aggregation of a table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

#include "planner/planner.h"
#include "vector/aggregate/aggregate.h"
#include "vector/group/distinct.h"
#include "vector/group/group_table.h"
#include "vector/keys/group_key.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"
#include "vector/source/source.h"

/* What is looked for in an expression. */
typedef struct Search
{
	PlannerGlobal *glob;		/* subqueries may be evaluated, unless NULL */
	bool		is_copied;		/* other conditions may have the same
								 * subqueries */
	const char *reason;			/* what has been found, or NULL */
} Search;

/* What speaks against a subquery in a condition, or NULL. */
static const char *
subquery_refusal(const Search *search, SubPlan *subplan)
{
	PlannerGlobal *glob = search->glob;

	if (glob == NULL)
		return "a subquery in an expression";
	/* rows of joins come in another order, and those of a batch term by term */
	if (planner_subquery_varies(glob, subplan))
		return "a subquery that may give another result each time";

	/*
	 * each condition has a hash table of its own, and only the first one that
	 * is evaluated would see that parameters of the query around have changed
	 */
	if (search->is_copied && subplan->useHashTable &&
		list_nth_node(PlannerInfo, glob->subroots, subplan->plan_id - 1)->outer_params != NULL)
		return "a hashed subquery within OR that may run again with other parameters";
	return NULL;
}

/* Does an expression hold what the scan cannot evaluate? */
static bool
unsuitable(Node *node, void *context)
{
	Search	   *search = context;
	const char **reason = &search->reason;

	if (node == NULL)
		return false;
	switch (nodeTag(node))
	{
		case T_Var:
			if (((Var *) node)->varattno <= 0)
				*reason = ((Var *) node)->varattno == 0 ? "a whole-row reference" : "a system column";
			else if (((Var *) node)->varlevelsup != 0)
				*reason = "a reference to an outer query";
			return *reason != NULL;
		case T_PlaceHolderVar:
			*reason = "an expression from below an outer join";
			return true;
		case T_SubPlan:
			*reason = subquery_refusal(search, (SubPlan *) node);
			return *reason != NULL || expression_tree_walker(node, unsuitable, context);
		case T_SubLink:
			*reason = "a subquery in an expression";
			return true;
		case T_WindowFunc:
		case T_GroupingFunc:
		case T_CurrentOfExpr:
			*reason = "an expression that cannot be evaluated in a scan";
			return true;
		default:
			return expression_tree_walker(node, unsuitable, context);
	}
}

static const char *
search_expression(Expr *expr, Search search)
{
	if (!unsuitable((Node *) expr, &search) && contain_volatile_functions((Node *) expr))
		search.reason = "a volatile function";
	return search.reason;
}

/* Why an expression cannot be evaluated by us, or NULL. */
const char *
vector_expression_refusal(Expr *expr)
{
	Search		search = {NULL};

	return search_expression(expr, search);
}

/*
 * The same of a condition of a table or join. Subqueries in it are evaluated by
 * PostgreSQL, row by row. Of OR over several tables, PostgreSQL makes further
 * conditions of one of them.
 */
const char *
vector_condition_refusal(PlannerInfo *root, RestrictInfo *condition)
{
	Search		search = {.glob = root->glob};

	search.is_copied = condition->orclause != NULL && bms_membership(condition->clause_relids) == BMS_MULTIPLE;
	return search_expression(condition->clause, search);
}

/* Why a table cannot be scanned by us, or NULL. */
const char *
vector_table_refusal(PlannerInfo *root, RelOptInfo *rel)
{
	RangeTblEntry *rte = planner_rt_fetch(rel->relid, root);
	const char *reason = NULL;
	Relation	table;
	ListCell   *lc;

	if (rte->rtekind != RTE_RELATION)
		return "a subquery";
	if (rte->tablesample != NULL)
		return "TABLESAMPLE";
	if (rte->relkind != RELKIND_RELATION && rte->relkind != RELKIND_MATVIEW)
		return plan_reason("\"%s\", which is neither a table nor a materialized view", get_rel_name(rte->relid));
	/* the planner holds a lock */
	table = table_open(rte->relid, NoLock);
	if (table->rd_rel->relam != HEAP_TABLE_AM_OID && !source_is_lazy(table))
		reason = plan_reason("the access method of \"%s\"", RelationGetRelationName(table));
	table_close(table, NoLock);
	if (reason != NULL)
		return reason;
	if (!bms_is_empty(rel->lateral_relids))
		return "a lateral reference";
	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->security_level > 0)
			return "row security";
		if (rinfo->pseudoconstant)
			return "a condition that refers to no column";
		reason = vector_condition_refusal(root, rinfo);
		if (reason != NULL)
			return reason;
	}

	return NULL;
}

/* Is an expression made of these keys, and of nothing else that differs between rows? */
static bool
is_made_of_keys(Node *node, List *keys)
{
	ListCell   *lc;

	if (node == NULL || list_member(keys, node))
		return true;
	if (IsA(node, Var))
		return false;
	foreach(lc, pull_var_clause(node, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS))
	{
		if (!list_member(keys, lfirst(lc)))
			return false;
	}
	return true;
}

/* Why the direct arguments of an aggregate cannot be evaluated for a group, or NULL. */
static const char *
direct_refusal(Aggref *aggref, PathTarget *target)
{
	List	   *keys = NIL;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			keys = lappend(keys, lfirst(lc));
	}
	foreach(lc, aggref->aggdirectargs)
	{
		if (!is_made_of_keys(lfirst(lc), keys))
			return "an ordered-set aggregate whose direct argument is made of what is no group key";
	}
	return NULL;
}

/* Why what is asked for cannot be computed by us, or NULL. */
const char *
vector_target_refusal(PathTarget *target)
{
	int			nkeys = 0;
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		Expr	   *expr = lfirst(lc);
		const char *reason = vector_expression_refusal(expr);

		if (reason != NULL)
			return reason;
		if (expression_returns_set((Node *) expr))
			return "a set-returning function";
		reason = IsA(expr, Aggref) ? aggregate_refusal_of((Aggref *) expr) : group_key_refusal(expr);
		if (reason == NULL && IsA(expr, Aggref) && ((Aggref *) expr)->aggdistinct != NIL)
			reason = distinct_refusal((Aggref *) expr);
		if (reason == NULL && IsA(expr, Aggref))
			reason = direct_refusal((Aggref *) expr, target);
		if (reason != NULL)
			return reason;
		nkeys += !IsA(expr, Aggref);
	}
	if (nkeys > GROUP_MAX_KEYS)
		return plan_reason("more than %d group keys", GROUP_MAX_KEYS);

	return NULL;
}

/* Why the columns cannot be told apart as a clause of SortGroupClauses wants it, or NULL. */
const char *
vector_clause_refusal(PathTarget *target, List *clause)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		Index		ref = get_pathtarget_sortgroupref(target, foreach_current_index(lc));
		SortGroupClause *own = ref == 0 ? NULL : get_sortgroupref_clause_noerr(ref, clause);

		/*
		 * ORDER BY … USING may have chosen another equality than the type's
		 * own
		 */
		if (own != NULL && own->eqop != lookup_type_cache(exprType(lfirst(lc)), TYPECACHE_EQ_OPR)->eq_opr)
			return "a group key that is compared by another operator than its type's own";
	}
	return NULL;
}

/* Why this number of groups is too large where they cannot be spilled, or NULL. */
const char *
vector_memory_refusal(PathTarget *target, double groups)
{
	if (vector_aggregate != PLAN_FORCE && vector_groups_memory(target, groups) > get_hash_memory_limit())
		return plan_reason("the %.0f groups estimated need more memory than work_mem and hash_mem_multiplier allow", groups);
	return NULL;
}
