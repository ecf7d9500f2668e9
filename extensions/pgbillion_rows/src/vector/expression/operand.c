/*-------------------------------------------------------------------------
 *
 * operand.c
 *	  What expressions are made of: columns, and what is the same for all rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "vector/expression/kernel.h"

/* A kernel's expression, zeroed, in the current context; NULL: of no kernel. */
void *
vector_expr_create(Size size, const ExprKernel *kernel)
{
	VectorExpr *result = palloc0(size);

	result->kernel = kernel;
	result->values = palloc(sizeof(Datum) * BATCH_ROWS);
	result->nulls = palloc(sizeof(bool) * BATCH_ROWS);
	result->determinant = -1;
	return result;
}

static VectorExpr *
compile_column(Expr *expr, Batch *batch, CompileOperand operand)
{
	ColumnExpr *result;

	if (!IsA(expr, Var))
		return NULL;
	result = vector_expr_create(sizeof(ColumnExpr), &column_kernel);
	result->column = batch_index(batch, ((Var *) expr)->varattno);
	Assert(result->column >= 0);
	return &result->expr;
}

static bool
eval_column(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	Column	   *column = batch_column(batch, ((ColumnExpr *) expr)->column);

	result->has_nulls = column->has_nulls;
	if (rows == NULL)
	{
		result->values = column->values;
		result->nulls = column->nulls;
		return true;
	}
	for (int i = 0; i < n; i++)
	{
		expr->values[i] = column->values[rows[i]];
		expr->nulls[i] = column->nulls[rows[i]];
	}
	result->values = expr->values;
	result->nulls = expr->nulls;
	return true;
}

/* Set the values from one place to another. */
static void
fill(VectorExpr *expr, Datum value, bool isnull, int from, int to)
{
	for (int i = from; i < to; i++)
		expr->values[i] = value;
	memset(expr->nulls + from, isnull, (to - from) * sizeof(bool));
}

static VectorExpr *
compile_scalar(Expr *expr, Batch *batch, CompileOperand operand)
{
	ScalarExpr *result;

	if (!IsA(expr, Const) && !IsA(expr, Param))
		return NULL;
	result = vector_expr_create(sizeof(ScalarExpr), &scalar_kernel);
	if (batch->parent != NULL)
		result->state = ExecInitExpr(expr, batch->parent);
	result->constant = IsA(expr, Const);
	if (result->constant)
	{
		result->value = ((Const *) expr)->constvalue;
		result->isnull = ((Const *) expr)->constisnull;
	}
	return &result->expr;
}

/* Constants are compiled by the planner, too, and for scans that may end at once: their values are set here. */
static bool
eval_scalar(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	ScalarExpr *scalar = (ScalarExpr *) expr;
	bool		isnull = scalar->isnull;

	if (!scalar->constant && n > 0)
	{
		Datum		value = ExecEvalExprSwitchContext(scalar->state, batch->econtext, &isnull);

		fill(expr, value, isnull, 0, n);
	}
	else if (scalar->filled < n)
	{
		fill(expr, scalar->value, isnull, scalar->filled, n);
		scalar->filled = n;
	}
	result->has_nulls = isnull;
	result->values = expr->values;
	result->nulls = expr->nulls;
	return true;
}

const ExprKernel column_kernel = {
	.compile = compile_column,
	.eval = eval_column,
	.always = true,
};

const ExprKernel scalar_kernel = {
	.compile = compile_scalar,
	.eval = eval_scalar,
	.always = true,
};
