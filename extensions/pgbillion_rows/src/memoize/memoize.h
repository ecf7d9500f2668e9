/*-------------------------------------------------------------------------
 *
 * memoize.h
 *	  Correlated subqueries that remember their results.
 *
 * PostgreSQL executes a correlated subquery once per row of the outer query,
 * also when thousands of rows pass the same values. The node MemoizeSubPlan
 * above the subquery's plan keeps the rows that the plan returned for each
 * combination of values, and returns them again:
 *
 *	  SubPlan 1
 *		->  Custom Scan (MemoizeSubPlan)
 *			  Cache Key: c.id
 *			  ->  the plan that PostgreSQL made
 *
 * PostgreSQL's own Memoize stands only inside a nested loop.
 *
 * Why answers and errors are the same: for one snapshot and one combination of
 * values the plan returns the same rows each time, unless it calls a volatile
 * function, locks rows or takes a sample. Such subqueries are left alone.
 * Values are told apart by their bytes, not by an operator: 1.0 and 1.00 are
 * two. Where a value of an outer query changes that is not part of the key,
 * everything is forgotten.
 *
 * Why it is never much slower: the node counts how often it finds something.
 * Where it rarely does, it passes calls through to the plan, and looks again
 * later.
 *
 * Where most calls pass other values, there is little to find. If the results
 * of all values can be computed at once, as those of a subquery that aggregates
 * the rows of a key, that is done when calls have taken several times as long.
 *
 *	memoize_plan.c	finds the subqueries of a statement, and puts the node above their plans
 *	memoize_scan.c	executes it
 *	grouped.c		the results for all values at once
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_MEMOIZE_H
#define PGBILLION_MEMOIZE_H

#include "nodes/extensible.h"
#include "nodes/pathnodes.h"
#include "nodes/plannodes.h"

/* What the plan hands to the executor in custom_private. */
typedef enum MemoizePrivate
{
	/* Integer: does the caller read one row only (EXISTS)? */
	MEMOIZE_ONE_ROW,

	/*
	 * Integer: after how many calls it is decided whether remembering pays;
	 * 0: it is not asked
	 */
	MEMOIZE_DECISION_CALLS,

	/* Query: memoize_grouped_query(), or NULL */
	MEMOIZE_GROUPED
} MemoizePrivate;

/* ---- memoize_plan.c ---- */

extern void memoize_init(void);

/* ---- grouped.c ---- */

/* Takes the values of a key and the result for it; false: no more are wanted. */
typedef bool (*MemoizeReceive) (void *arg, const Datum *values, const bool *nulls);

extern Query *memoize_grouped_query(PlannerInfo *root, SubPlan *subplan);
extern PlannedStmt *memoize_plan_grouped(Query *query, EState *estate, double *ms);
extern bool memoize_execute_grouped(PlannedStmt *plan, EState *estate, MemoizeReceive receive_row, void *arg);

/* ---- memoize_scan.c ---- */

/* custom_exprs are the key: parameters of the executor, each once */
extern const CustomScanMethods memoize_scan_methods;

#endif							/* PGBILLION_MEMOIZE_H */
