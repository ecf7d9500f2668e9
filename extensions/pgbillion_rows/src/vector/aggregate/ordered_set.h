/*-------------------------------------------------------------------------
 *
 * ordered_set.h
 *	  Ordered-set aggregates: percentile_cont(), percentile_disc() and mode().
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_ORDERED_SET_H
#define PGBILLION_VECTOR_ORDERED_SET_H

#include "vector/aggregate/aggregate.h"

/* ---- for the planner ---- */
extern bool ordered_set_is_known(const Aggref *aggref);
extern const char *ordered_set_refusal(Aggref *aggref);
extern Aggref *ordered_set_carrier(Aggref *aggref, int transno);
extern Aggref *ordered_set_of_carrier(const Aggref *carrier);

/* ---- for aggregate.c ---- */
extern VectorAgg *ordered_values_compile(Aggref *aggref, Batch *batch, Aggregates *aggregates);
extern bool ordered_values_are_of(const VectorAgg *collector, const Aggref *aggref);
extern VectorAgg *ordered_set_compile(Aggref *aggref, VectorAgg *collector, List *keys, Batch *batch);
extern VectorAgg *ordered_set_collector(const VectorAgg *agg);
extern void ordered_values_set_limit(VectorAgg *collector, Size limit);
extern void ordered_values_finish(VectorAgg *collector, uint64 *partitions, uint64 *bytes);
extern void ordered_values_forget(VectorAgg *collector);

#endif							/* PGBILLION_VECTOR_ORDERED_SET_H */
