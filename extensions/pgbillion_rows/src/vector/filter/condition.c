/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  A condition as a value: an argument, a group key, or the WHEN of a CASE.
 *
 * It is in this folder because it is made of predicates; the table of kernels
 * of expressions has it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/expression/kernel.h"
#include "vector/filter/filter.h"
#include "vector/filter/predicate.h"

typedef struct ConditionExpr
{
	VectorExpr	expr;
	Predicate  *predicate;
} ConditionExpr;

static VectorExpr *
compile(Expr *expr, Batch *batch, CompileOperand operand)
{
	ConditionExpr *result;
	Predicate  *predicate;

	/* a boolean column, or a constant, is a value already */
	if (!IsA(expr, OpExpr) && !IsA(expr, ScalarArrayOpExpr) && !IsA(expr, BoolExpr) && !IsA(expr, NullTest))
		return NULL;
	predicate = vector_condition_compile(expr, batch);
	if (predicate == NULL)
		return NULL;
	result = vector_expr_create(sizeof(ConditionExpr), &condition_kernel);
	result->predicate = predicate;
	return &result->expr;
}

static bool
eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	Predicate  *predicate = ((ConditionExpr *) expr)->predicate;
	uint8	   *truth = predicate->truth;

	if (!predicate->kernel->eval(predicate, batch, rows, n, truth))
		return false;
	result->has_nulls = false;
	for (int i = 0; i < n; i++)
	{
		expr->values[i] = BoolGetDatum(truth[i] == TRUTH_TRUE);
		expr->nulls[i] = truth[i] == TRUTH_NULL;
		result->has_nulls |= expr->nulls[i];
	}
	result->values = expr->values;
	result->nulls = expr->nulls;
	return true;
}

const ExprKernel condition_kernel = {
	.compile = compile,
	.eval = eval,
};
