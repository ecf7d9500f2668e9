/*-------------------------------------------------------------------------
 *
 * linear.h
 *	  Integer expressions of the form a * column + b.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_LINEAR_H
#define PGBILLION_VECTOR_LINEAR_H

#include "vector/batch.h"

typedef struct Linear
{
	Var		   *var;
	int			column;			/* of the batch; smallint, integer or bigint */
	int64		factor;
	int64		addend;

	/*
	 * From low to high, PostgreSQL evaluates the expression without an error.
	 * For other values of the column's type, it raises one.
	 */
	int64		low;
	int64		high;
} Linear;

extern bool linear_of(Expr *expr, Batch *batch, Linear *result);
extern bool linear_is_within(int64 low, int64 high, Batch *batch, int column);

#endif							/* PGBILLION_VECTOR_LINEAR_H */
