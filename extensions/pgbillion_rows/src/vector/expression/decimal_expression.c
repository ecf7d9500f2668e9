/*-------------------------------------------------------------------------
 *
 * decimal_expression.c
 *	  Numeric arithmetic in scaled integers: the table of kernels.
 *
 * Sums, differences and products of numerics are exact, and so is this as
 * long as it fits in 64 bits. The display scale of a result depends on those
 * of the operands, so that all values of a batch must share theirs, as those
 * of a numeric(p, s) column do. Where that does not hold, the caller turns to
 * PostgreSQL for the batch.
 *
 * An expression that occurs more than once, on its own or within others, is
 * one node, computed once a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "planner/arithmetic.h"
#include "vector/expression/kernel.h"

static const DecimalKernel *const kernels[] = {
	&decimal_column_kernel,
	&decimal_integer_kernel,
	&decimal_scalar_kernel,
	&decimal_operator_kernel,
};

/* Compile a numeric expression, or return NULL if PostgreSQL has to evaluate it. */
DecimalExpr *
decimal_expr_compile(Expr *expr, Batch *batch)
{
	ListCell   *lc;

	expr = planner_strip_relabel(expr);
	/* constants are not worth looking for: there may be thousands */
	foreach(lc, batch->decimals)
	{
		if (IsA(expr, Const))
			break;
		if (equal(((DecimalExpr *) lfirst(lc))->source, expr))
			return lfirst(lc);
	}
	for (int i = 0; i < lengthof(kernels); i++)
	{
		DecimalExpr *result = kernels[i]->compile(expr, batch, decimal_expr_compile);

		if (result == NULL)
			continue;
		result->source = expr;
		if (!IsA(expr, Const))
			batch->decimals = lappend(batch->decimals, result);
		return result;
	}
	return NULL;
}
