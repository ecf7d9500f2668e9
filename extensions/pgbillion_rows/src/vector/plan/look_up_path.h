/*-------------------------------------------------------------------------
 *
 * look_up_path.h
 *	  Nested loops whose look-ups are known to find few rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_LOOK_UP_PATH_H
#define PGBILLION_VECTOR_LOOK_UP_PATH_H

#include "nodes/pathnodes.h"

extern void look_ups_note(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
						  const JoinPathExtraData *extra);
extern void look_ups_offer(PlannerInfo *root, RelOptInfo *joined);

#endif							/* PGBILLION_VECTOR_LOOK_UP_PATH_H */
