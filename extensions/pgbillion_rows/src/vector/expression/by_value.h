/*-------------------------------------------------------------------------
 *
 * by_value.h
 *	  Expressions of one column that remember their results by its values.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_BY_VALUE_H
#define PGBILLION_VECTOR_BY_VALUE_H

#include "vector/expression/expression.h"

typedef struct ByValue ByValue;

extern bool expr_follows_from_value(Expr *expr);
extern VectorExpr *expr_by_value_compile(Expr *expr, Batch *batch);
extern ByValue *expr_by_value_create(Expr *expr, Batch *batch, int column, bool by_row);
extern void expr_eval_each(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result);
extern bool expr_by_value_eval(ByValue *by_value, VectorExpr *expr, Batch *batch, const uint16 *rows, int n,
							   Values *result);

#endif							/* PGBILLION_VECTOR_BY_VALUE_H */
