/*-------------------------------------------------------------------------
 *
 * decimal_expression.c
 *	  Numeric arithmetic over a batch, in scaled integers.
 *
 * Sums, differences and products of numerics are exact, and so is this as
 * long as it fits in 64 bits. The display scale of a result depends on those
 * of the operands, so that all values of a batch must share theirs, as those
 * of a numeric(p, s) column do. Where that does not hold, the caller turns to
 * core for the batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"

#include "vector/expression.h"

struct DecimalExpr
{
	enum
	{
		DECIMAL_COLUMN,
		DECIMAL_INTEGER,		/* column of integers, cast */
		DECIMAL_SCALAR,
		DECIMAL_ADD,
		DECIMAL_SUBTRACT,
		DECIMAL_MULTIPLY
	}			kind;
	int			column;
	int			width;			/* of integers */
	ExprState  *state;
	DecimalExpr *left;
	DecimalExpr *right;
	int64	   *values;
	bool	   *nulls;
};

/*
 * Compile a numeric expression, or return NULL if it is not made of columns,
 * constants, parameters, +, - and *.
 */
DecimalExpr *
decimal_expr_compile(Expr *expr, Batch *batch)
{
	DecimalExpr *result;
	DecimalExpr *left = NULL;
	DecimalExpr *right = NULL;
	int			kind;
	int			column = -1;
	int			width = 0;

	expr = strip_relabel(expr);
	if (IsA(expr, Var))
	{
		kind = DECIMAL_COLUMN;
		column = columns_index(batch->columns, ((Var *) expr)->varattno);
	}
	else if (IsA(expr, Const) || IsA(expr, Param))
		kind = DECIMAL_SCALAR;
	else if (IsA(expr, FuncExpr))
	{
		FuncExpr   *func = (FuncExpr *) expr;
		Expr	   *arg = strip_relabel(linitial(func->args));

		width = func->funcid == F_NUMERIC_INT2 ? 2 : func->funcid == F_NUMERIC_INT4 ? 4 :
			func->funcid == F_NUMERIC_INT8 ? 8 : 0;
		if (width == 0 || !IsA(arg, Var))
			return NULL;
		kind = DECIMAL_INTEGER;
		column = columns_index(batch->columns, ((Var *) arg)->varattno);
	}
	else if (IsA(expr, OpExpr))
	{
		OpExpr	   *op = (OpExpr *) expr;

		if (op->opfuncid == F_NUMERIC_ADD)
			kind = DECIMAL_ADD;
		else if (op->opfuncid == F_NUMERIC_SUB)
			kind = DECIMAL_SUBTRACT;
		else if (op->opfuncid == F_NUMERIC_MUL)
			kind = DECIMAL_MULTIPLY;
		else
			return NULL;
		left = decimal_expr_compile(linitial(op->args), batch);
		right = left == NULL ? NULL : decimal_expr_compile(lsecond(op->args), batch);
		if (right == NULL)
			return NULL;
	}
	else
		return NULL;

	result = palloc0(sizeof(DecimalExpr));
	result->kind = kind;
	result->column = column;
	result->width = width;
	result->left = left;
	result->right = right;
	if (kind == DECIMAL_SCALAR)
		result->state = ExecInitExpr(expr, batch->parent);
	result->values = palloc(sizeof(int64) * BATCH_ROWS);
	result->nulls = palloc0(sizeof(bool) * BATCH_ROWS);

	return result;
}

/* Decode a column once a batch, however many expressions use it. */
static bool
eval_column(DecimalExpr *expr, Batch *batch, int n, const int64 **values, const bool **nulls, int *scale)
{
	DecimalColumn *cache;
	Column	   *column = columns_get(batch->columns, expr->column);

	if (batch->decimals == NULL)
		batch->decimals = MemoryContextAllocZero(GetMemoryChunkContext(expr),
												 sizeof(DecimalColumn *) * columns_count(batch->columns));
	cache = batch->decimals[expr->column];
	if (cache == NULL)
		cache = batch->decimals[expr->column] =
			MemoryContextAllocZero(GetMemoryChunkContext(expr), sizeof(DecimalColumn));
	if (cache->mixed)
		return false;
	if (cache->serial != batch->serial)
	{
		int			common = -1;

		for (int i = 0; i < n; i++)
		{
			int			own;

			if (column->nulls[i])
			{
				cache->values[i] = 0;
				continue;
			}
			if (!decimal_decode(column->values[i], &cache->values[i], &own))
				return false;
			if (unlikely(own != common))
			{
				if (common >= 0)
				{
					cache->mixed = true;
					return false;
				}
				common = own;
			}
		}
		cache->scale = Max(common, 0);
		cache->serial = batch->serial;
	}
	*values = cache->values;
	*nulls = column->nulls;
	*scale = cache->scale;

	return true;
}

/* Bring all values of one operand to a larger scale, into room of its own. */
static bool
rescale(DecimalExpr *expr, const int64 **values, int n, int from, int to)
{
	bool		fits = true;

	for (int i = 0; i < n; i++)
	{
		int64		value = (*values)[i];

		fits &= decimal_rescale(&value, from, to);
		expr->values[i] = value;
	}
	*values = expr->values;

	return fits;
}

static bool
eval(DecimalExpr *expr, Batch *batch, int n, const int64 **values, const bool **nulls, int *scale)
{
	const int64 *left;
	const int64 *right;
	const bool *left_nulls;
	const bool *right_nulls;
	int			left_scale;
	int			right_scale;
	bool		bad = false;

	*values = expr->values;
	*nulls = expr->nulls;
	*scale = 0;
	switch (expr->kind)
	{
		case DECIMAL_COLUMN:
			return eval_column(expr, batch, n, values, nulls, scale);
		case DECIMAL_INTEGER:
			{
				Column	   *column = columns_get(batch->columns, expr->column);

				for (int i = 0; i < n; i++)
				{
					int64		value = expr->width == 8 ? DatumGetInt64(column->values[i]) :
						expr->width == 4 ? DatumGetInt32(column->values[i]) : DatumGetInt16(column->values[i]);

					bad |= value > DECIMAL_MAX || value < -DECIMAL_MAX;
					expr->values[i] = value;
				}
				*nulls = column->nulls;
				return !bad;
			}
		case DECIMAL_SCALAR:
			{
				bool		isnull;
				Datum		value = ExecEvalExprSwitchContext(expr->state, batch->econtext, &isnull);
				int64		decoded;

				if (isnull || !decimal_decode(value, &decoded, scale))
					return false;
				for (int i = 0; i < n; i++)
					expr->values[i] = decoded;
				return true;
			}
		default:
			break;
	}

	if (!eval(expr->left, batch, n, &left, &left_nulls, &left_scale) ||
		!eval(expr->right, batch, n, &right, &right_nulls, &right_scale))
		return false;
	for (int i = 0; i < n; i++)
		expr->nulls[i] = left_nulls[i] | right_nulls[i];
	if (expr->kind == DECIMAL_MULTIPLY)
	{
		*scale = left_scale + right_scale;
		for (int i = 0; i < n; i++)
			bad |= __builtin_mul_overflow(left[i], right[i], &expr->values[i]);
	}
	else
	{
		*scale = Max(left_scale, right_scale);
		if (left_scale < *scale && !rescale(expr->left, &left, n, left_scale, *scale))
			return false;
		if (right_scale < *scale && !rescale(expr->right, &right, n, right_scale, *scale))
			return false;
		/* operands are below 10^18, so that this cannot overflow */
		if (expr->kind == DECIMAL_ADD)
			for (int i = 0; i < n; i++)
				expr->values[i] = left[i] + right[i];
		else
			for (int i = 0; i < n; i++)
				expr->values[i] = left[i] - right[i];
	}
	for (int i = 0; i < n; i++)
		bad |= expr->values[i] > DECIMAL_MAX || expr->values[i] < -DECIMAL_MAX;

	return !bad && *scale <= DECIMAL_MAX_DIGITS;
}

/*
 * Values of the batch's n rows in units of 10^-scale; 0 or anything where
 * nulls[] says so. False if core has to do it.
 */
bool
decimal_expr_eval(DecimalExpr *expr, Batch *batch, int n, int64 *result, bool *nulls, int *scale)
{
	const int64 *values;
	const bool *its_nulls;

	if (!eval(expr, batch, n, &values, &its_nulls, scale))
		return false;
	memcpy(result, values, sizeof(int64) * n);
	memcpy(nulls, its_nulls, sizeof(bool) * n);

	return true;
}
