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

#endif							/* PGBILLION_GROUPS_H */
