/*-------------------------------------------------------------------------
 *
 * top_rows.h
 *	  Rows that cannot be among the first of an order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_TOP_ROWS_H
#define PGBILLION_VECTOR_TOP_ROWS_H

#include "vector/batch.h"

/* The order's first key, and how many rows are wanted. A scan's plan has it as a list: top_order_list(). */
typedef struct TopOrder
{
	AttrNumber	attno;
	Oid			operator;		/* the value that comes first is its left */
	Oid			collation;
	bool		nulls_first;
	int64		n;
} TopOrder;

typedef struct TopRows TopRows;

extern List *top_order_list(const TopOrder *order);
extern TopOrder top_order_of_list(List *list);
extern TopRows *top_rows_create(const TopOrder *order, Batch *batch);
extern void top_rows_remove(TopRows *top, Batch *batch);
extern void top_rows_reset(TopRows *top);
extern bool top_rows_exclude(TopRows *top, Batch *batch);
extern int	top_rows_column(const TopRows *top, bool *descending);

#endif							/* PGBILLION_VECTOR_TOP_ROWS_H */
