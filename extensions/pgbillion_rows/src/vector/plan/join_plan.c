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

#include "vector/plan/plan.h"

/* Add expressions to a target list, as junk. */
static List *
add_exprs(List *tlist, List *exprs)
{
	ListCell   *lc;

	foreach(lc, exprs)
		tlist = lappend(tlist, makeTargetEntry(copyObject(lfirst(lc)), list_length(tlist) + 1, NULL, true));
	return tlist;
}

/*
 * Add what the executor is told of the joins of a path to a scan's target
 * list, and how many there are of these to its private list: vector.h.
 */
void
plan_joins(CustomScan *cscan, List *joins, List *plans)
{
	ListCell   *join;
	ListCell   *plan;

	cscan->custom_plans = plans;
	forboth(join, joins, plan, plans)
	{
		List	   *parts = lfirst_node(List, join);
		List	   *columns = NIL;
		ListCell   *lc;

		foreach(lc, ((Plan *) lfirst(plan))->targetlist)
		{
			Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;

			/* what is only sorted by, for instance, nobody looks at */
			columns = lappend(columns, IsA(expr, Var) ? expr : (Expr *) makeNullConst(INT4OID, -1, InvalidOid));
		}
		cscan->custom_scan_tlist = add_exprs(cscan->custom_scan_tlist, lsecond(parts));
		cscan->custom_scan_tlist = add_exprs(cscan->custom_scan_tlist, lthird(parts));
		cscan->custom_scan_tlist = add_exprs(cscan->custom_scan_tlist, lfourth(parts));
		cscan->custom_scan_tlist = add_exprs(cscan->custom_scan_tlist, columns);
		cscan->custom_private = lappend(cscan->custom_private,
										lappend_int(list_make5_int(linitial_int((List *) linitial(parts)),
																   list_length(lsecond(parts)), list_length(lthird(parts)),
																   list_length(lfourth(parts)), list_length(columns)),
													lsecond_int((List *) linitial(parts))));
	}
}
