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
 * An expression that occurs more than once, on its own or within others, is
 * one node, computed once a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"

#include "planner/arithmetic.h"
#include "vector/expression/decimal.h"
#include "vector/expression/expression.h"

struct DecimalExpr
{
	Expr	   *expr;
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
	bool		mixed;			/* column whose display scales differ: do not
								 * try again */
	ExprState  *state;
	DecimalExpr *left;
	DecimalExpr *right;

	uint64		serial;			/* of the batch whose rows, all of them, have
								 * been computed */
	bool		failed;			/* then result is not valid */
	Decimals	result;
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
	ListCell   *lc;

	expr = strip_relabel(expr);
	foreach(lc, batch->decimals)
	{
		if (equal(((DecimalExpr *) lfirst(lc))->expr, expr))
			return lfirst(lc);
	}
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
	result->expr = expr;
	result->kind = kind;
	result->column = column;
	result->width = width;
	result->left = left;
	result->right = right;
	if (kind == DECIMAL_SCALAR)
		result->state = ExecInitExpr(expr, batch->parent);
	result->values = palloc(sizeof(int64) * BATCH_ROWS);
	result->nulls = palloc0(sizeof(bool) * BATCH_ROWS);
	batch->decimals = lappend(batch->decimals, result);

	return result;
}

static inline uint64
magnitude(int64 value)
{
	return value < 0 ? -(uint64) value : (uint64) value;
}

/*
 * Are all values of at most `limit`? A quick look first at what bits are set
 * in any of them; if that does not tell, at every value.
 */
static bool
within(const Decimals *decimals, int n, uint64 limit)
{
	uint64		largest = 0;

	if (decimals->bits <= limit)
		return true;
	for (int i = 0; i < n; i++)
		largest = Max(largest, magnitude(decimals->values[i]));
	return largest <= limit;
}

/* Decode a column of numerics; NULLs become zeros. */
static bool
eval_column(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	Column	   *column = columns_get(batch->columns, expr->column);
	int			common = -1;
	uint64		bits = 0;

	if (expr->mixed)
		return false;
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		int			scale;

		if (column->has_nulls && column->nulls[row])
		{
			expr->values[i] = 0;
			continue;
		}
		if (!decimal_decode_stored(column->values[row], &expr->values[i], &scale))
			return false;
		if (unlikely(scale != common))
		{
			if (common >= 0)
			{
				expr->mixed = true;
				return false;
			}
			common = scale;
		}
		bits |= magnitude(expr->values[i]);
	}
	result->scale = Max(common, 0);
	result->bits = bits;

	return true;
}

static bool
eval_integers(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	Column	   *column = columns_get(batch->columns, expr->column);
	uint64		bits = 0;

	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		Datum		value = column->has_nulls && column->nulls[row] ? (Datum) 0 : column->values[row];

		expr->values[i] = expr->width == 8 ? DatumGetInt64(value) :
			expr->width == 4 ? DatumGetInt32(value) : DatumGetInt16(value);
		bits |= magnitude(expr->values[i]);
	}
	result->scale = 0;
	result->bits = bits;

	return within(result, n, DECIMAL_MAX);
}

/* Set the NULLs of a column's rows. */
static void
set_nulls(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	Column	   *column = columns_get(batch->columns, expr->column);

	result->has_nulls = column->has_nulls;
	result->nulls = column->nulls;
	if (rows == NULL)
		return;
	result->nulls = expr->nulls;
	for (int i = 0; i < n; i++)
		expr->nulls[i] = column->nulls[rows[i]];
}

static bool eval(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result);

static bool
eval_operator(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	Decimals	left;
	Decimals	right;
	int64	   *values = expr->values;
	uint64		bits = 0;

	if (!eval(expr->left, batch, rows, n, &left) || !eval(expr->right, batch, rows, n, &right))
		return false;
	result->has_nulls = left.has_nulls || right.has_nulls;
	result->nulls = expr->nulls;
	if (result->has_nulls)
		for (int i = 0; i < n; i++)
			expr->nulls[i] = left.nulls[i] | right.nulls[i];
	else
		memset(expr->nulls, 0, sizeof(bool) * n);

	if (expr->kind == DECIMAL_MULTIPLY)
	{
		result->scale = left.scale + right.scale;
		if (left.bits == 0 || right.bits <= (uint64) PG_INT64_MAX / left.bits)
			for (int i = 0; i < n; i++)
			{
				values[i] = (int64) ((uint64) left.values[i] * (uint64) right.values[i]);
				bits |= magnitude(values[i]);
			}
		else
		{
			bool		overflow = false;

			for (int i = 0; i < n; i++)
			{
				overflow |= __builtin_mul_overflow(left.values[i], right.values[i], &values[i]);
				bits |= magnitude(values[i]);
			}
			if (overflow)
				return false;
		}
	}
	else
	{
		int64		left_unit;
		int64		right_unit;

		result->scale = Max(left.scale, right.scale);
		left_unit = decimal_unit(result->scale - left.scale);
		right_unit = decimal_unit(result->scale - right.scale);
		/* then both are at most 10^18 in common units, and nothing overflows */
		if (!within(&left, n, DECIMAL_MAX / left_unit) || !within(&right, n, DECIMAL_MAX / right_unit))
			return false;
		if (expr->kind == DECIMAL_SUBTRACT)
			right_unit = -right_unit;
		for (int i = 0; i < n; i++)
		{
			values[i] = left.values[i] * left_unit + right.values[i] * right_unit;
			bits |= magnitude(values[i]);
		}
	}
	result->values = values;
	result->bits = bits;

	return result->scale <= DECIMAL_MAX_DIGITS && within(result, n, DECIMAL_MAX);
}

static bool
eval(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	bool		done = false;

	if (rows == NULL && expr->serial == batch->serial)
	{
		*result = expr->result;
		return !expr->failed;
	}
	/* what was computed for all rows is overwritten */
	expr->serial = 0;
	result->values = expr->values;
	switch (expr->kind)
	{
		case DECIMAL_COLUMN:
		case DECIMAL_INTEGER:
			set_nulls(expr, batch, rows, n, result);
			done = expr->kind == DECIMAL_COLUMN ? eval_column(expr, batch, rows, n, result) :
				eval_integers(expr, batch, rows, n, result);
			break;
		case DECIMAL_SCALAR:
			{
				bool		isnull;
				Datum		value = ExecEvalExprSwitchContext(expr->state, batch->econtext, &isnull);
				int64		decoded;

				result->has_nulls = false;
				result->nulls = expr->nulls;
				done = !isnull && decimal_decode(value, &decoded, &result->scale);
				if (!done)
					break;
				for (int i = 0; i < n; i++)
					expr->values[i] = decoded;
				result->bits = magnitude(decoded);
				break;
			}
		case DECIMAL_ADD:
		case DECIMAL_SUBTRACT:
		case DECIMAL_MULTIPLY:
			done = eval_operator(expr, batch, rows, n, result);
			break;
	}
	if (rows == NULL)
	{
		expr->serial = batch->serial;
		expr->failed = !done;
		expr->result = *result;
	}

	return done;
}

/*
 * Values of the n rows listed, or of the batch's first n: all of them. Where
 * one is NULL, it is anything within the bounds. Valid until the expression is
 * evaluated again, alone or as part of another. False if core has to do it.
 */
bool
decimal_expr_eval(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	Assert(rows != NULL || n == batch->n);
	Assert(batch->serial > 0);
	return eval(expr, batch, rows, n, result);
}
