/*-------------------------------------------------------------------------
 *
 * targets.c
 *	  What partial aggregation returns.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "planner/planner.h"

/*
 * Put a NULL wherever an expression holds a copy of a group key, or tells which
 * of them a row is grouped by; aggregates stay as they are.
 */
static Node *
without_keys(Node *node, List *keys)
{
	if (node == NULL || IsA(node, Aggref))
		return node;
	if (list_member(keys, node) || IsA(node, GroupingFunc))
		return (Node *) makeNullConst(exprType(node), exprTypmod(node), exprCollation(node));
	return expression_tree_mutator(node, without_keys, keys);
}

/* Take off expressions the mark that grouping sets make them NULL, which rows that are not grouped do not have. */
static void
unmark_grouped(PlannerInfo *root, List *exprs)
{
#if PG_VERSION_NUM >= 180000
	ListCell   *lc;

	if (root->group_rtindex == 0 || root->parse->groupingSets == NIL)
		return;
	foreach(lc, exprs)
		lfirst(lc) = remove_nulling_relids(lfirst(lc), bms_make_singleton(root->group_rtindex), NULL);
#endif
}

/*
 * The columns that partial aggregation returns, and Finalize Aggregate
 * looks for: as PostgreSQL's make_partial_grouping_target() chooses them. For
 * grouping sets these are the keys of all of them.
 */
PathTarget *
planner_partial_target(PlannerInfo *root, PathTarget *grouping, Node *having)
{
	PathTarget *target = create_empty_pathtarget();
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, grouping->exprs)
	{
		Expr	   *expr = lfirst(lc);
		Index		ref = get_pathtarget_sortgroupref(grouping, foreach_current_index(lc));

		if (ref != 0 && get_sortgroupref_clause_noerr(ref, group_clause_of(root)) != NULL)
			add_column_to_pathtarget(target, expr, ref);
		else
			others = lappend(others, expr);
	}
	if (having != NULL)
		others = lappend(others, having);
	/* what is computed from a group key does not need what the key is made of */
	others = (List *) without_keys((Node *) others, target->exprs);
	add_new_columns_to_pathtarget(target, pull_var_clause((Node *) others,
														  PVC_INCLUDE_AGGREGATES |
														  PVC_RECURSE_WINDOWFUNCS |
														  PVC_INCLUDE_PLACEHOLDERS));
	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref))
		{
			Aggref	   *aggref = makeNode(Aggref);

			memcpy(aggref, lfirst(lc), sizeof(Aggref));
			mark_partial_aggref(aggref, AGGSPLIT_INITIAL_SERIAL);
			lfirst(lc) = aggref;
		}
	}

	unmark_grouped(root, target->exprs);

	return set_pathtarget_cost_width(root, target);
}

/* An aggregate's arguments as they are said, for messages; those that are no columns are left out. */
static char *
argument_names(PlannerInfo *root, Aggref *aggref)
{
	StringInfoData buf;
	ListCell   *lc;

	initStringInfo(&buf);
	foreach(lc, aggref->args)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Var		   *var = (Var *) entry->expr;

		/* what it is ordered by */
		if (entry->resjunk)
			continue;
		if (buf.len > 0)
			appendStringInfoString(&buf, ", ");
		appendStringInfoString(&buf, IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0 ?
							   get_rte_attribute_name(planner_rt_fetch(var->varno, root), var->varattno) : "...");
	}
	return buf.data;
}

/* Say of the first aggregate without a partial form why it has none, and what does the same faster. */
const char *
planner_no_partial_form(PlannerInfo *root, PathTarget *grouping, Node *having)
{
	List	   *exprs = list_concat(list_copy(grouping->exprs), having != NULL ? list_make1(having) : NIL);
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		Aggref	   *aggref = lfirst(lc);
		char	   *name;
		char	   *arguments;

		if (!IsA(aggref, Aggref) || (aggref->aggdistinct == NIL && aggref->aggorder == NIL))
			continue;
		if (!plan_is_reported())
			return "an aggregate with DISTINCT or ORDER BY";
		name = get_func_name(aggref->aggfnoid);
		arguments = argument_names(root, aggref);
		if (aggref->aggdistinct == NIL)
			return plan_reason("%s(%s), which wants its rows in an order and so has no partial form", name, arguments);
		return plan_reason("%s(DISTINCT %s) has no partial form; faster is %s(%s) over a subquery with SELECT DISTINCT %s%s",
						   name, arguments, name, arguments, arguments,
						   root->parse->groupClause != NIL ? " and what is grouped by" : "");
	}
	return "an aggregate that has no partial form (no combine function)";
}
