/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  Expressions over a batch: the table of kernels.
 *
 * An expression is compiled to a tree of kernels where there is one for each
 * of its parts. Everything else, and every batch on which a kernel met an
 * overflow or a division by zero, is evaluated by PostgreSQL's expression
 * code, a row at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"

#include "planner/arithmetic.h"
#include "vector/expression/kernel.h"

static const ExprKernel *const kernels[] = {
	&column_kernel,
	&scalar_kernel,
	&integer_kernel,
	&float_kernel,
	&time_kernel,
	&text_kernel,
	&choice_kernel,
	&condition_kernel,
};

/* Compile an expression, or return NULL if PostgreSQL has to evaluate it. */
static VectorExpr *
compile_operand(Expr *expr, Batch *batch)
{
	expr = planner_strip_relabel(expr);
	for (int i = 0; i < lengthof(kernels); i++)
	{
		VectorExpr *result = kernels[i]->compile(expr, batch, compile_operand);

		if (result != NULL)
			return result;
	}
	return NULL;
}

/*
 * Compile an expression over the batch's columns. Everything is allocated in
 * the current context.
 */
VectorExpr *
vector_expr_compile(Expr *expr, Batch *batch)
{
	VectorExpr *result = compile_operand(expr, batch);

	if (result == NULL)
		result = vector_expr_create(sizeof(VectorExpr), NULL);
	if (result->kernel == NULL || !result->kernel->always)
		expr_by_row_prepare(&result->by_row, expr, batch);
	if (exprType((Node *) expr) == NUMERICOID)
		result->decimal = decimal_expr_compile(expr, batch);
	batch->nby_row += !vector_expr_is_kernel(result);

	return result;
}

bool
vector_expr_is_column(VectorExpr *expr)
{
	return expr->kernel == &column_kernel;
}

/* The index of the column that it is. */
int
vector_expr_column(VectorExpr *expr)
{
	Assert(expr->kernel == &column_kernel);
	return ((ColumnExpr *) expr)->column;
}

/* Is it the same for all rows? */
bool
vector_expr_is_scalar(VectorExpr *expr)
{
	return expr->kernel == &scalar_kernel;
}

/* The value of one that is. */
Datum
vector_expr_scalar(VectorExpr *expr, Batch *batch, bool *isnull)
{
	Assert(expr->kernel == &scalar_kernel);
	return ExecEvalExprSwitchContext(((ScalarExpr *) expr)->state, batch->econtext, isnull);
}

bool
vector_expr_is_kernel(VectorExpr *expr)
{
	return expr->kernel != NULL || expr->decimal !=NULL;
}

/*
 * Values of the expression for the n rows listed, or for the first n rows of
 * the batch, dense. They are valid until the expression is evaluated again or
 * the batch changes, and must not be changed.
 */
void
vector_expr_eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	if (expr->kernel != NULL && expr->kernel->eval(expr, batch, rows, n, result))
		return;
	result->values = expr->values;
	result->nulls = expr->nulls;
	result->has_nulls = false;
	for (int i = 0; i < n; i++)
	{
		result->values[i] = expr_by_row_eval(&expr->by_row, batch, rows != NULL ? rows[i] : i,
											 &result->nulls[i]);
		result->has_nulls |= result->nulls[i];
	}
}

/* The same as integers of one scale. False if that cannot be. */
bool
vector_expr_decimals(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	return expr->decimal !=NULL && decimal_expr_eval(expr->decimal, batch, rows, n, result);
}
