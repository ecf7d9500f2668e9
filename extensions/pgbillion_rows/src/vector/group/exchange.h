/*-------------------------------------------------------------------------
 *
 * exchange.h
 *	  Groups exchanged between the processes of a parallel plan.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_EXCHANGE_H
#define PGBILLION_VECTOR_EXCHANGE_H

#include "access/parallel.h"

#include "vector/aggregate/aggregate.h"
#include "vector/group/group_table.h"

/* At most, and as many where groups are not expected to fit in memory. A power of two. */
#define EXCHANGE_PARTITIONS 64

typedef struct Exchange Exchange;

extern Exchange *exchange_create(GroupTable *table, Aggregates *aggregates);

/* of the parallel plan */
extern Size exchange_shared_size(int workers);
extern void exchange_share(Exchange *exchange, ParallelContext *pcxt, void *shared, double groups);
extern void exchange_share_again(Exchange *exchange, ParallelContext *pcxt, void *shared);
extern void exchange_attach(Exchange *exchange, void *shared);
extern void exchange_detach(Exchange *exchange);
extern bool exchange_is_shared(const Exchange *exchange);

/* in this order */
extern bool exchange_begin(Exchange *exchange, double groups);
extern bool exchange_reserve(Exchange *exchange, int n);
extern void exchange_put(Exchange *exchange);
extern bool exchange_take(Exchange *exchange);
extern void exchange_end(Exchange *exchange);

extern int64 exchange_groups_here(const Exchange *exchange);
extern void exchange_counts(const Exchange *exchange, uint64 *groups, uint64 *bytes);

#endif							/* PGBILLION_VECTOR_EXCHANGE_H */
