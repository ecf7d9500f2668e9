/*-------------------------------------------------------------------------
 *
 * distinct.h
 *	  DISTINCT within aggregates.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_DISTINCT_H
#define PGBILLION_VECTOR_DISTINCT_H

#include "vector/aggregate/aggregate.h"

typedef struct Distincts Distincts;

extern bool distinct_equal_is_same(Expr *expr);
extern const char *distinct_refusal(Aggref *aggref);
extern Distincts *distincts_create(Aggregates *aggregates, List *outputs, Batch *batch, bool grouped);
extern void distincts_advance(Distincts *distincts, Batch *batch, RowGroups *groups);
extern void distincts_finish(Distincts *distincts, char *single, uint64 *partitions, uint64 *bytes);
extern void distincts_forget(Distincts *distincts);

#endif							/* PGBILLION_VECTOR_DISTINCT_H */
