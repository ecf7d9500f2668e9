/*-------------------------------------------------------------------------
 *
 * planner_memo.h
 *	  What is found out of a statement's parts while it is planned, and is asked
 *	  for again.
 *
 * A memo is about an object of the planner's for one query, which lives as long
 * as the planning of that query does. There is one of each kind about an object.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_PLANNER_MEMO_H
#define PGBILLION_PLANNER_MEMO_H

#include "nodes/pathnodes.h"

typedef enum MemoKind
{
	MEMO_ROWS,					/* of a PlannerInfo: cached_cost.c */
	MEMO_COSTS,					/* of a relation's paths: cached_cost.c */
	MEMO_STATEMENT,				/* of a PlannerInfo: join_search.c */
	MEMO_CHAINS,				/* of a relation: join_search.c */
	MEMO_INDEX,					/* of a columnar index: columns_path.c */
	MEMO_INNER,					/* of a relation: join_step.c */
	MEMO_CLAUSE,				/* of a RestrictInfo: join_step.c */
	MEMO_PAIR,					/* of a RestrictInfo: cost_model.c */
	MEMO_CALLS,					/* of a subquery's PlannerInfo:
								 * subquery_cost.c */
	MEMO_COLUMNS,				/* of a relation: join_path.c */
	MEMO_OFFER,					/* of a relation: join_path.c */
	MEMO_FILTER,				/* of a table: cost_model.c */
	MEMO_REACH,					/* of a table: reach_cost.c */
	MEMO_GUESS,					/* of a table: guesses.c */
	MEMO_RAISED,				/* of a PlannerInfo: early_stop.c */
	MEMO_KNOWN_ROWS,			/* of a PlannerInfo: known_rows.c */
	MEMO_STORAGE,				/* of a PlannerInfo or a table: columns_path.c */
	MEMO_QUERY_COST,			/* of a PlannerInfo: cached_upper_cost.c */
	MEMO_LOOK_UPS,				/* of a relation: look_up_path.c */
	MEMO_DIFFERENT,				/* of an expression: known_rows.c */
	MEMO_ORDER,					/* of an index: cached_cost.c */
	MEMO_COMMON_KEYS,			/* of a PlannerInfo: common_keys.c */
	MEMO_EXPECTED,				/* of a joined relation: common_keys.c */
	MEMO_KINDS					/* how many there are */
} MemoKind;

extern void *planner_memo_find(PlannerInfo *root, MemoKind kind, const void *about);
extern void *planner_memo_make(PlannerInfo *root, MemoKind kind, const void *about, Size size);

#endif							/* PGBILLION_PLANNER_MEMO_H */
