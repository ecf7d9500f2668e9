/*-------------------------------------------------------------------------
 *
 * join_plan.c
 *	  What a plan tells the executor of joins.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"

#include "vector/plan/plan.h"

/*
 * The expressions by which the executor joins, and how many there are of each
 * kind for every join, which is added to the scan's private list: custom_scan.h.
 */
List *
vector_plan_joins(CustomScan *cscan, List *joins, List *plans)
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
		cscan->custom_private = lappend(cscan->custom_private, numbers);
	}
	return copyObject(exprs);
}
