/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  What the parts of expression evaluation share: expression.c,
 *	  decimal_expression.c and the filters.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_EXPRESSION_H
#define PGBILLION_VECTOR_EXPRESSION_H

#include "vector/vector.h"

typedef struct DecimalExpr DecimalExpr;

extern ExprState *core_expr_prepare(Expr *expr, Batch *batch, int **needed, int *nneeded);
extern void core_expr_set_row(Batch *batch, const int *needed, int nneeded, int i);

extern DecimalExpr *decimal_expr_compile(Expr *expr, Batch *batch);
extern bool decimal_expr_eval(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n,
							  Decimals *result);

#endif							/* PGBILLION_VECTOR_EXPRESSION_H */
