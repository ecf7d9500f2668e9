/*-------------------------------------------------------------------------
 *
 * groups.h
 *	  How many groups expressions make.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_GROUPS_H
#define PGBILLION_GROUPS_H

#include "nodes/pathnodes.h"

extern double estimate_groups(PlannerInfo *root, List *keys, double rows);
extern double estimate_most_groups(PlannerInfo *root, List *keys, double rows);
extern double groups_beyond_limit(PlannerInfo *root, RelOptInfo *table, List *columns);

#endif							/* PGBILLION_GROUPS_H */
