/*-------------------------------------------------------------------------
 *
 * decimal_operator.c
 *	  Sums, differences and products of decimals.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgroids.h"

#include "vector/expression/decimal.h"
#include "vector/expression/kernel.h"

typedef struct DecimalOperator
{
	DecimalExpr expr;
	Oid			function;
	DecimalExpr *left;
	DecimalExpr *right;
} DecimalOperator;

static DecimalExpr *
compile(Expr *expr, Batch *batch, CompileDecimal operand)
{
	OpExpr	   *op = (OpExpr *) expr;
	DecimalExpr *left;
	DecimalExpr *right;
	DecimalOperator *result;

	if (!IsA(expr, OpExpr) ||
		(op->opfuncid != F_NUMERIC_ADD && op->opfuncid != F_NUMERIC_SUB && op->opfuncid != F_NUMERIC_MUL))
		return NULL;
	left = operand(linitial(op->args), batch);
	right = left == NULL ? NULL : operand(lsecond(op->args), batch);
	if (right == NULL)
		return NULL;
	result = decimal_expr_create(sizeof(DecimalOperator), &decimal_operator_kernel);
	result->function = op->opfuncid;
	result->left = left;
	result->right = right;
	return &result->expr;
}

static bool
multiply(const Decimals *left, const Decimals *right, int n, int64 *values, Decimals *result)
{
	uint64		bits = 0;
	bool		overflow = false;

	result->scale = left->scale + right->scale;
	if (left->bits == 0 || right->bits <= (uint64) PG_INT64_MAX / left->bits)
		for (int i = 0; i < n; i++)
		{
			values[i] = (int64) ((uint64) left->values[i] * (uint64) right->values[i]);
			bits |= magnitude(values[i]);
		}
	else
		for (int i = 0; i < n; i++)
		{
			overflow |= __builtin_mul_overflow(left->values[i], right->values[i], &values[i]);
			bits |= magnitude(values[i]);
		}
	result->bits = bits;

	return !overflow;
}

static bool
add(const Decimals *left, const Decimals *right, bool subtract, int n, int64 *values, Decimals *result)
{
	uint64		bits = 0;
	int64		left_unit;
	int64		right_unit;

	result->scale = Max(left->scale, right->scale);
	left_unit = decimal_unit(result->scale - left->scale);
	right_unit = decimal_unit(result->scale - right->scale);
	/* then both are at most 10^18 in common units, and nothing overflows */
	if (!decimals_within(left, n, DECIMAL_MAX / left_unit) ||
		!decimals_within(right, n, DECIMAL_MAX / right_unit))
		return false;
	if (subtract)
		right_unit = -right_unit;
	for (int i = 0; i < n; i++)
	{
		values[i] = left->values[i] * left_unit + right->values[i] * right_unit;
		bits |= magnitude(values[i]);
	}
	result->bits = bits;

	return true;
}

static bool
eval(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	DecimalOperator *own = (DecimalOperator *) expr;
	Decimals	left;
	Decimals	right;

	if (!decimal_expr_eval(own->left, batch, rows, n, &left) ||
		!decimal_expr_eval(own->right, batch, rows, n, &right))
		return false;
	result->has_nulls = left.has_nulls || right.has_nulls;
	result->nulls = expr->nulls;
	if (result->has_nulls)
		for (int i = 0; i < n; i++)
			expr->nulls[i] = left.nulls[i] | right.nulls[i];
	else
		memset(expr->nulls, 0, sizeof(bool) * n);
	if (!(own->function == F_NUMERIC_MUL ? multiply(&left, &right, n, expr->values, result) :
		  add(&left, &right, own->function == F_NUMERIC_SUB, n, expr->values, result)))
		return false;

	return result->scale <= DECIMAL_MAX_DIGITS && decimals_within(result, n, DECIMAL_MAX);
}

const DecimalKernel decimal_operator_kernel = {
	.compile = compile,
	.eval = eval,
};
