/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  Expressions over a batch: the table of kernels.
 *
 * An expression is compiled to a tree of kernels where there is one for each
 * of its parts. Everything else, and every batch on which a kernel met an
 * overflow or a division by zero, is evaluated by PostgreSQL's expression
 * code, a row at a time; or, of a string column, once for each of its values
 * (by_value.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

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

/* Compile an expression whose operands are compiled in a certain way, or return NULL if there is no kernel for it. */
static VectorExpr *
compile_by(Expr *expr, Batch *batch, CompileOperand operand)
{
	expr = planner_strip_relabel(expr);
	for (int i = 0; i < lengthof(kernels); i++)
	{
		VectorExpr *result = kernels[i]->compile(expr, batch, operand);

		if (result != NULL)
			return result;
	}
	return NULL;
}

/* Compile an expression of which all parts have a kernel. */
static VectorExpr *
compile_kernels(Expr *expr, Batch *batch)
{
	return compile_by(expr, batch, compile_kernels);
}

/*
 * Compile an expression of which PostgreSQL may have to evaluate parts by
 * value. Their results stay in memory as long as the batch: they must not be
 * large.
 */
static VectorExpr *
compile_operand(Expr *expr, Batch *batch)
{
	VectorExpr *result = compile_kernels(expr, batch);

	if (result == NULL && get_typbyval(exprType((Node *) expr)))
		result = expr_by_value_compile(expr, batch);
	if (result == NULL)
		result = compile_by(expr, batch, compile_operand);
	return result;
}

/* The same of a whole expression: by value if that can be, rather than parts of it. */
static VectorExpr *
compile_whole(Expr *expr, Batch *batch)
{
	VectorExpr *result = compile_kernels(expr, batch);

	if (result == NULL)
		result = expr_by_value_compile(expr, batch);
	if (result == NULL)
		result = compile_by(expr, batch, compile_operand);
	return result;
}

/* Find out whether results follow from the values of one column, and have them remembered if that may save something. */
static void
find_determinant(VectorExpr *result, Expr *expr, Batch *batch)
{
	if (result->kernel == &column_kernel)
		result->determinant = ((ColumnExpr *) result)->column;
	else if (result->by_row.nneeded == 1 && expr_follows_from_value(expr))
	{
		result->determinant = result->by_row.needed[0];
		if (result->kernel != NULL && result->by_value == NULL && batch->source != NULL &&
			batch->source->methods->codes != NULL)
			result->by_value = expr_by_value_create(expr, batch, result->determinant, false);
	}
}

/*
 * Compile an expression over the batch's columns. Everything is allocated in
 * the current context.
 */
VectorExpr *
vector_expr_compile(Expr *expr, Batch *batch)
{
	VectorExpr *result = compile_whole(expr, batch);

	if (result == NULL)
		result = vector_expr_create(sizeof(VectorExpr), NULL);
	if (result->kernel == NULL || !result->kernel->always)
		expr_by_row_prepare(&result->by_row, expr, batch);
	if (exprType((Node *) expr) == NUMERICOID)
		result->decimal = decimal_expr_compile(expr, batch);
	find_determinant(result, expr, batch);
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
	return (expr->kernel != NULL && expr->kernel != &by_value_kernel) || expr->decimal !=NULL;
}

/*
 * The column of the batch from whose values those of the expression follow:
 * the same value gives the same result. -1: there is none.
 */
int
vector_expr_determinant(VectorExpr *expr)
{
	return expr->determinant;
}

/* How many codes the expression's values have, whatever the source is; 0: none. */
int
vector_expr_ncodes(const VectorExpr *expr)
{
	return expr->kernel == NULL || expr->kernel->ncodes == NULL ? 0 : expr->kernel->ncodes(expr);
}

/*
 * The values of the batch's rows as these codes, of a dictionary that has a
 * serial of its own and no values; valid until the expression is evaluated
 * again. False if that cannot be.
 */
bool
vector_expr_codes(VectorExpr *expr, Batch *batch, Codes *result)
{
	Assert(vector_expr_ncodes(expr) > 0);
	/* columns' serials are not as large */
	result->serial = PG_UINT64_MAX;
	result->n = vector_expr_ncodes(expr);
	result->long_codes = NULL;
	result->values = NULL;
	return expr->kernel->codes(expr, batch, result);
}

/*
 * Values of the expression for the n rows listed, or for the first n rows of
 * the batch, dense. They are valid until the expression is evaluated again or
 * the batch changes, and must not be changed.
 */
void
vector_expr_eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	if (expr->by_value == NULL || !expr_by_value_eval(expr->by_value, expr, batch, rows, n, result))
		expr_eval_each(expr, batch, rows, n, result);
}

/* The same as integers of one scale. False if that cannot be. */
bool
vector_expr_decimals(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	return expr->decimal !=NULL && decimal_expr_eval(expr->decimal, batch, rows, n, result);
}
