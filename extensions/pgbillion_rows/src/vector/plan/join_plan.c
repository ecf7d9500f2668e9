/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  What a plan tells the executor of joins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_am.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "utils/lsyscache.h"

#include "planner/arithmetic.h"
#include "planner/group_estimate.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"

/*
 * The index of a table in which the executor may look up the key of a join, if
 * few keys turn out to be needed, or InvalidOid; *rows is how many rows each of
 * them has there. It begins with the key's column, an integer, and is one of all
 * rows.
 */
static Oid
index_of_key(PlannerInfo *root, Index table, List *clauses, int *rows)
{
	RelOptInfo *rel = find_base_rel(root, table);
	OpExpr	   *clause = linitial_node(OpExpr, clauses);
	Var		   *key = (Var *) planner_strip_relabel(linitial(clause->args));
	Oid			compared_as;
	Oid			type;
	bool		guessed;
	double		values;
	ListCell   *lc;

	*rows = 0;
	if (list_length(clauses) != 1 || !enable_bitmapscan || !vector_tables_in_memory(root) || !IsA(key, Var) ||
		key->varno != table || (key->vartype != INT2OID && key->vartype != INT4OID && key->vartype != INT8OID))
		return InvalidOid;
	/* the index does not order integers that are compared as OIDs */
	op_input_types(clause->opno, &compared_as, &type);
	if (compared_as != key->vartype)
		return InvalidOid;
	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		if (index->relam != BTREE_AM_OID || index->hypothetical || index->indpred != NIL ||
			index->indexkeys[0] != key->varattno || index->opfamily[0] != INTEGER_BTREE_FAM_OID)
			continue;
		values = group_estimate_different(root, (Node *) key, &guessed);
		if (guessed)
			return InvalidOid;
		*rows = (int) Min(ceil(rel->tuples / Max(values, 1)), PG_INT32_MAX);
		return index->indexoid;
	}
	return InvalidOid;
}

/*
 * The expressions by which the executor joins, and how many there are of each
 * kind for every join, which is added to the scan's private list: custom_scan.h.
 */
List *
vector_plan_joins(PlannerInfo *root, CustomScan *cscan, List *joins, List *plans)
{
	List	   *exprs = NIL;
	ListCell   *join;
	ListCell   *plan;

	cscan->custom_plans = plans;
	forboth(join, joins, plan, plans)
	{
		List	   *parts = lfirst_node(List, join);
		List	   *kind = list_nth(parts, JOIN_PATH_KIND);
		List	   *clauses = list_nth(parts, JOIN_PATH_CLAUSES);
		List	   *quals = list_nth(parts, JOIN_PATH_QUALS);
		List	   *others = list_nth(parts, JOIN_PATH_OTHERS);
		List	   *numbers;
		List	   *columns = NIL;
		Oid			index;
		int			rows;
		ListCell   *lc;

		foreach(lc, ((Plan *) lfirst(plan))->targetlist)
		{
			Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

			/* what is only sorted by, for instance, nobody looks at */
			columns = lappend(columns, IsA(expr, Var) ? expr : (Expr *) makeNullConst(INT4OID, -1, InvalidOid));
		}
		exprs = list_concat(exprs, clauses);
		exprs = list_concat(exprs, quals);
		exprs = list_concat(exprs, others);
		exprs = list_concat(exprs, columns);
		/* as VectorJoinPrivate has it */
		numbers = list_make5_int(list_nth_int(kind, JOIN_KIND_TYPE), list_length(clauses), list_length(quals),
								 list_length(others), list_length(columns));
		numbers = lappend_int(numbers, list_nth_int(kind, JOIN_KIND_SHARED));
		numbers = lappend_int(numbers, list_nth_int(kind, JOIN_KIND_REVERSED));
		numbers = lappend_int(numbers, list_nth_int(kind, JOIN_KIND_COST));
		numbers = lappend_int(numbers, list_nth_int(kind, JOIN_KIND_DEAR));
		numbers = lappend_int(numbers, list_nth_int(kind, JOIN_KIND_ROWS));
		index = index_of_key(root, cscan->scan.scanrelid, clauses, &rows);
		numbers = lappend_int(numbers, (int) index);
		numbers = lappend_int(numbers, rows);
		cscan->custom_private = lappend(cscan->custom_private, numbers);
	}
	return copyObject(exprs);
}
