/*-------------------------------------------------------------------------
 *
 * expression.h
 *	  Expressions over a batch: group keys, arguments, operands of conditions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_EXPRESSION_H
#define PGBILLION_VECTOR_EXPRESSION_H

#include "vector/batch.h"

/* Dense numerics as integers, in units of 10^-scale. */
typedef struct Decimals
{
	const int64 *values;
	const bool *nulls;			/* always valid */
	bool		has_nulls;
	int			scale;
	uint64		bits;			/* all that are set in any value's magnitude */
} Decimals;

/* Dense results of an expression. */
typedef struct Values
{
	Datum	   *values;
	bool	   *nulls;
	bool		has_nulls;
} Values;

typedef struct VectorExpr VectorExpr;

/* ---- expression_by_row.c ---- */

/* An expression that PostgreSQL's expression code evaluates, row by row. */
typedef struct ByRow
{
	ExprState  *state;
	int			nneeded;
	int		   *needed;			/* columns */
	int16		len;			/* of its values */
	bool		byval;
	ExprContext *scratch;		/* for rows that take much memory; NULL until
								 * there is one */
} ByRow;

extern void expr_by_row_prepare(ByRow *by_row, Expr *expr, Batch *batch);
extern Datum expr_by_row_eval(ByRow *by_row, Batch *batch, int row, bool *isnull);

/* ---- expression.c ---- */

extern VectorExpr *vector_expr_compile(Expr *expr, Batch *batch);
extern bool vector_expr_is_column(VectorExpr *expr);
extern int	vector_expr_column(VectorExpr *expr);
extern bool vector_expr_is_scalar(VectorExpr *expr);
extern Datum vector_expr_scalar(VectorExpr *expr, Batch *batch, bool *isnull);
extern bool vector_expr_is_kernel(VectorExpr *expr);
extern int	vector_expr_determinant(VectorExpr *expr);
extern int	vector_expr_ncodes(const VectorExpr *expr);
extern bool vector_expr_codes(VectorExpr *expr, Batch *batch, Codes *result);
extern void vector_expr_eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result);
extern bool vector_expr_decimals(VectorExpr *expr, Batch *batch, const uint16 *rows, int n,
								 Decimals *result);

/* ---- text_function.c ---- */

extern Expr *vector_expr_text(Expr *expr);

#endif							/* PGBILLION_VECTOR_EXPRESSION_H */
