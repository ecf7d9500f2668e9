/*-------------------------------------------------------------------------
 *
 * regroup.h
 *	  DISTINCT within aggregates where processes share the values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_REGROUP_H
#define PGBILLION_VECTOR_REGROUP_H

#include "vector/group/sink.h"

extern Expr *regroup_argument(List *outputs);
extern Sink *regroup_create(List *outputs, Batch *batch);

#endif							/* PGBILLION_VECTOR_REGROUP_H */
