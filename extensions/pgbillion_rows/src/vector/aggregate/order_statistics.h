/*-------------------------------------------------------------------------
 *
 * order_statistics.h
 *	  Values of certain ranks among many, and the value that most have.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_ORDER_STATISTICS_H
#define PGBILLION_VECTOR_ORDER_STATISTICS_H

#include "postgres.h"

extern void order_select(uint64 *keys, int64 n, int64 *ranks, int nranks, uint64 *found);
extern void order_sort(uint64 *keys, int64 n);
extern void order_modes(uint64 *keys, int64 n, uint64 *first, uint64 *last);

#endif							/* PGBILLION_VECTOR_ORDER_STATISTICS_H */
