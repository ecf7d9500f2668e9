/*-------------------------------------------------------------------------
 *
 * group_estimate.h
 *	  How many groups expressions make.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_GROUP_ESTIMATE_H
#define PGBILLION_GROUP_ESTIMATE_H

#include "access/htup.h"
#include "nodes/pathnodes.h"

extern double group_estimate_different(PlannerInfo *root, Node *expr, bool *guessed);
extern double group_estimate_values(PlannerInfo *root, List *exprs);
extern double group_estimate_order(HeapTuple statistics);
extern double group_estimate(PlannerInfo *root, List *keys, double rows);
extern double group_estimate_most(PlannerInfo *root, List *keys, double rows, double estimate);
extern double group_estimate_beyond_limit(PlannerInfo *root, RelOptInfo *table, List *columns);

#endif							/* PGBILLION_GROUP_ESTIMATE_H */
