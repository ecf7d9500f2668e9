/*-------------------------------------------------------------------------
 *
 * join_clauses.c
 *	  The columns and the clause by which two tables are joined, and what
 *	  PostgreSQL thinks of it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/optimizer.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"

#include "compat.h"
#include "join_estimate/join_estimate.h"

/* Is one of two tables within a semijoin that the other is not in? PostgreSQL estimates how many rows find a partner then. */
bool
join_estimate_are_semijoined(PlannerInfo *root, RelOptInfo *one, RelOptInfo *other)
{
	ListCell   *lc;

	foreach(lc, root->join_info_list)
	{
		SpecialJoinInfo *join = lfirst_node(SpecialJoinInfo, lc);

		if ((join->jointype == JOIN_SEMI || join->jointype == JOIN_ANTI) &&
			bms_is_member(one->relid, join->syn_righthand) != bms_is_member(other->relid, join->syn_righthand))
			return true;
	}
	return false;
}

/* The column of a table that a member of an equivalence class is, or NULL. */
Var *
join_estimate_column(PlannerInfo *root, EquivalenceMember *member)
{
	Var		   *var = (Var *) member->em_expr;
	RelOptInfo *rel;

	if (member->em_is_child || member->em_is_const || !IsA(var, Var) || var->varattno <= 0)
		return NULL;
#if PG_VERSION_NUM >= 160000
	if (!bms_is_empty(var->varnullingrels))
		return NULL;
#else
	if (!bms_is_empty(member->em_nullable_relids))
		return NULL;
#endif
	rel = root->simple_rel_array[var->varno];
	if (rel == NULL || rel->reloptkind != RELOPT_BASEREL)
		return NULL;
	/* or of a UNION ALL */
	return rel->rtekind == RTE_RELATION || (rel->rtekind == RTE_SUBQUERY && planner_rt_fetch(rel->relid, root)->inh) ? var : NULL;
}

/* The clause by which two tables are joined, as one of an equivalence class, or NULL. Before 18 each order has its own. */
RestrictInfo *
join_estimate_clause(PlannerInfo *root, EquivalenceClass *ec, RelOptInfo *outer, RelOptInfo *inner)
{
	List	   *clauses = generate_join_implied_equalities(root, bms_union(outer->relids, inner->relids), outer->relids,
														   inner, NULL);
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);

		if (rinfo->left_ec == ec && rinfo->right_ec == ec)
			return rinfo;
	}
	return NULL;
}

/* What PostgreSQL takes for the selectivity of a join clause, which it remembers. */
Selectivity
join_estimate_core_selectivity(PlannerInfo *root, RestrictInfo *clause, RelOptInfo *one, RelOptInfo *other)
{
	SpecialJoinInfo inner = {
		.type = T_SpecialJoinInfo,
		.min_lefthand = one->relids,.min_righthand = other->relids,
		.syn_lefthand = one->relids,.syn_righthand = other->relids,
		.jointype = JOIN_INNER
	};

	return clause_selectivity(root, (Node *) clause, 0, JOIN_INNER, &inner);
}
