/*-------------------------------------------------------------------------
 *
 * arithmetic_kernel.c
 *	  Arithmetic of integers and floats over the rows of a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "planner/arithmetic.h"
#include "utils/float.h"

#include "vector/expression/kernel.h"

typedef struct ArithmeticExpr
{
	VectorExpr	expr;
	const Arithmetic *arithmetic;
	VectorExpr *left;
	VectorExpr *right;			/* NULL: there is one operand only */
} ArithmeticExpr;

/* ---- rows ---- */

static inline int64
as_int(Datum value, char kind)
{
	return kind == '8' ? DatumGetInt64(value) : kind == '4' ? DatumGetInt32(value) :
		kind == '2' ? DatumGetInt16(value) : DatumGetBool(value);
}

static inline float8
as_float(Datum value, char kind)
{
	return kind == 'f' ? DatumGetFloat8(value) : kind == 'r' ? (float8) DatumGetFloat4(value) :
		(float8) as_int(value, kind);
}

/* Integers: false if a row would raise an error. NULL rows hold anything. */
static bool
integer_rows(const Arithmetic *arithmetic, const Datum *left, const Datum *right, const bool *nulls,
			 Datum *values, int n)
{
	char		l = arithmetic->left;
	char		r = arithmetic->right;
	bool		bad = false;
	int64		low = arithmetic->kind == '8' ? PG_INT64_MIN : arithmetic->kind == '4' ? PG_INT32_MIN : PG_INT16_MIN;
	int64		high = arithmetic->kind == '8' ? PG_INT64_MAX : arithmetic->kind == '4' ? PG_INT32_MAX : PG_INT16_MAX;

#define ROWS(CODE) \
	for (int i = 0; i < n; i++) \
	{ \
		int64		a = as_int(left[i], l); \
		int64		b = as_int(right[i], r); \
		int64		c; \
		bool		fault; \
		CODE; \
		bad |= (fault || c < low || c > high) && !nulls[i]; \
		values[i] = Int64GetDatum(c); \
	}

	switch (arithmetic->op)
	{
		case '+':
			ROWS(fault = __builtin_add_overflow(a, b, &c));
			break;
		case '-':
			ROWS(fault = __builtin_sub_overflow(a, b, &c));
			break;
		case '*':
			ROWS(fault = __builtin_mul_overflow(a, b, &c));
			break;
		case '/':
			/* the one quotient that overflows is that of the smallest by -1 */
			ROWS((fault = b == 0 || (b == -1 && a == PG_INT64_MIN), c = fault ? 0 : a / b));
			break;
		case '%':
			ROWS((fault = b == 0, c = b == 0 || b == -1 ? 0 : a % b));
			break;
		default:
			Assert(arithmetic->op == '=');
			for (int i = 0; i < n; i++)
			{
				int64		a = as_int(left[i], l);

				bad |= (a < low || a > high) && !nulls[i];
				values[i] = Int64GetDatum(a);
			}
			break;
	}

	return !bad;
}

/* Double precision, with the checks of float8_pl() and its like. */
static bool
float_rows(const Arithmetic *arithmetic, const Datum *left, const Datum *right, const bool *nulls,
		   Datum *values, int n)
{
	char		l = arithmetic->left;
	char		r = arithmetic->right;
	bool		bad = false;

#define FLOATS(CODE, FAULT) \
	for (int i = 0; i < n; i++) \
	{ \
		float8		a = as_float(left[i], l); \
		float8		b = as_float(right[i], r); \
		float8		c = CODE; \
		bad |= (FAULT) && !nulls[i]; \
		values[i] = Float8GetDatum(c); \
	}

	switch (arithmetic->op)
	{
		case '+':
			FLOATS(a + b, isinf(c) && !isinf(a) && !isinf(b));
			break;
		case '-':
			FLOATS(a - b, isinf(c) && !isinf(a) && !isinf(b));
			break;
		case '*':
			/* underflow is an error too: PostgreSQL decides */
			FLOATS(a * b, (isinf(c) && !isinf(a) && !isinf(b)) || (c == 0.0 && a != 0.0 && b != 0.0));
			break;
		case '/':
			FLOATS(a / b, b == 0.0 || (isinf(c) && !isinf(a)) || (c == 0.0 && a != 0.0 && !isinf(b)));
			break;
		default:
			Assert(arithmetic->op == '=');
			for (int i = 0; i < n; i++)
				values[i] = Float8GetDatum(as_float(left[i], l));
			break;
	}

	return !bad;
}

/* ---- kernels ---- */

static VectorExpr *
compile(Expr *expr, Batch *batch, CompileOperand operand, const ExprKernel *kernel, bool floats)
{
	List	   *args;
	const Arithmetic *arithmetic = arithmetic_find(expr, &args);
	VectorExpr *left;
	VectorExpr *right = NULL;
	ArithmeticExpr *result;

	if (arithmetic == NULL || (arithmetic->kind == 'f') != floats)
		return NULL;
	left = operand(linitial(args), batch);
	if (left == NULL)
		return NULL;
	if (arithmetic->right != 0 && (right = operand(lsecond(args), batch)) == NULL)
		return NULL;
	result = vector_expr_create(sizeof(ArithmeticExpr), kernel);
	result->arithmetic = arithmetic;
	result->left = left;
	result->right = right;
	return &result->expr;
}

/* The operands' values, and which results are NULL. */
static bool
eval_operands(ArithmeticExpr *arithmetic, Batch *batch, const uint16 *rows, int n,
			  Values *left, Values *right, Values *result)
{
	bool	   *nulls = arithmetic->expr.nulls;

	if (!arithmetic->left->kernel->eval(arithmetic->left, batch, rows, n, left))
		return false;
	if (arithmetic->right == NULL)
		*right = *left;
	else if (!arithmetic->right->kernel->eval(arithmetic->right, batch, rows, n, right))
		return false;
	result->values = arithmetic->expr.values;
	result->nulls = nulls;
	result->has_nulls = left->has_nulls || right->has_nulls;
	if (result->has_nulls)
		for (int i = 0; i < n; i++)
			nulls[i] = left->nulls[i] || right->nulls[i];
	else
		memset(nulls, 0, n * sizeof(bool));
	return true;
}

static VectorExpr *
compile_integers(Expr *expr, Batch *batch, CompileOperand operand)
{
	return compile(expr, batch, operand, &integer_kernel, false);
}

static bool
eval_integers(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	ArithmeticExpr *arithmetic = (ArithmeticExpr *) expr;
	Values		left;
	Values		right;

	return eval_operands(arithmetic, batch, rows, n, &left, &right, result) &&
		integer_rows(arithmetic->arithmetic, left.values, right.values, expr->nulls, expr->values, n);
}

static VectorExpr *
compile_floats(Expr *expr, Batch *batch, CompileOperand operand)
{
	return compile(expr, batch, operand, &float_kernel, true);
}

static bool
eval_floats(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	ArithmeticExpr *arithmetic = (ArithmeticExpr *) expr;
	Values		left;
	Values		right;

	return eval_operands(arithmetic, batch, rows, n, &left, &right, result) &&
		float_rows(arithmetic->arithmetic, left.values, right.values, expr->nulls, expr->values, n);
}

const ExprKernel integer_kernel = {
	.compile = compile_integers,
	.eval = eval_integers,
};

const ExprKernel float_kernel = {
	.compile = compile_floats,
	.eval = eval_floats,
};
