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
 *	memoize_plan.c	finds the subqueries of a statement, and puts the node above their plans
 *	memoize_scan.c	executes it
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_MEMOIZE_H
#define PGBILLION_MEMOIZE_H

#include "nodes/extensible.h"

/* What the plan hands to the executor in custom_private, each an Integer. */
typedef enum MemoizePrivate
{
	/* Does the caller read one row only (EXISTS)? */
	MEMOIZE_ONE_ROW,

	/*
	 * After how many calls it is decided whether remembering pays; 0: it is
	 * not asked
	 */
	MEMOIZE_DECISION_CALLS
} MemoizePrivate;

/* ---- memoize_plan.c ---- */

extern void memoize_init(void);

/* ---- memoize_scan.c ---- */

/* custom_exprs are the key: parameters of the executor, each once */
extern const CustomScanMethods memoize_scan_methods;

#endif							/* PGBILLION_MEMOIZE_H */
