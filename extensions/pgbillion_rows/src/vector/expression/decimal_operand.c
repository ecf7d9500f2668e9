/*-------------------------------------------------------------------------
 *
 * decimal_operand.c
 *	  What decimals are made of: columns of numerics and of integers, and what
 *	  is the same for all rows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/fmgroids.h"

#include "planner/arithmetic.h"
#include "vector/expression/decimal.h"
#include "vector/expression/kernel.h"

typedef struct DecimalColumn
{
	DecimalExpr expr;
	int			column;
	int			width;			/* of integers */
	bool		mixed;			/* display scales differ: do not try again */
} DecimalColumn;

typedef struct DecimalScalar
{
	DecimalExpr expr;
	ExprState  *state;
} DecimalScalar;

/* A kernel's expression, zeroed, in the current context. */
void *
decimal_expr_create(Size size, const DecimalKernel *kernel)
{
	DecimalExpr *result = palloc0(size);

	result->kernel = kernel;
	result->values = palloc(sizeof(int64) * BATCH_ROWS);
	result->nulls = palloc0(sizeof(bool) * BATCH_ROWS);
	return result;
}

/* Set the NULLs of a column's rows. */
static void
set_nulls(DecimalExpr *expr, const Column *column, const uint16 *rows, int n, Decimals *result)
{
	result->has_nulls = column->has_nulls;
	result->nulls = column->nulls;
	if (rows == NULL)
		return;
	result->nulls = expr->nulls;
	for (int i = 0; i < n; i++)
		expr->nulls[i] = column->nulls[rows[i]];
}

/* ---- columns of numerics ---- */

static DecimalExpr *
compile_column(Expr *expr, Batch *batch, CompileDecimal operand)
{
	DecimalColumn *result;

	if (!IsA(expr, Var))
		return NULL;
	result = decimal_expr_create(sizeof(DecimalColumn), &decimal_column_kernel);
	result->column = batch_index(batch, ((Var *) expr)->varattno);
	return &result->expr;
}

/* All bits up to the highest one that a magnitude of these has. */
static uint64
bits_within(int64 min, int64 max)
{
	uint64		bits = magnitude(min) | magnitude(max);

	for (int shift = 1; shift < 64; shift *= 2)
		bits |= bits >> shift;
	return bits;
}

/* A column that the source has as integers of one scale. */
static bool
eval_packed(DecimalExpr *expr, const Packed *packed, const uint16 *rows, int n, Decimals *result)
{
	int64	   *values = expr->values;
	uint64		base = (uint64) packed->base;

	if (packed->kind != PACKED_DECIMALS || packed->scale > DECIMAL_MAX_DIGITS ||
		magnitude(packed->min) > DECIMAL_MAX || magnitude(packed->max) > DECIMAL_MAX)
		return false;
#define UNPACK(type) \
	if (rows == NULL) \
		for (int i = 0; i < n; i++) \
			values[i] = (int64) (base + ((const type *) packed->array)[i]); \
	else \
		for (int i = 0; i < n; i++) \
			values[i] = (int64) (base + ((const type *) packed->array)[rows[i]])

	switch (packed->width)
	{
		case 1:
			UNPACK(uint8);
			break;
		case 2:
			UNPACK(uint16);
			break;
		case 4:
			UNPACK(uint32);
			break;
		default:
			UNPACK(uint64);
			break;
	}
	memset(expr->nulls, 0, sizeof(bool) * n);
	result->nulls = expr->nulls;
	result->has_nulls = packed->nulls != NULL;
	for (int i = 0; i < n && packed->nulls != NULL; i++)
	{
		expr->nulls[i] = packed->nulls[rows != NULL ? rows[i] : i];
		if (expr->nulls[i])
			values[i] = 0;
	}
	result->scale = packed->scale;
	result->bits = bits_within(packed->min, packed->max);

	return true;
}

/* Decode a column of numerics; NULLs become zeros. */
static bool
eval_column(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	DecimalColumn *own = (DecimalColumn *) expr;
	Column	   *column;
	int64	   *values = expr->values;
	int			common = -1;
	uint64		bits = 0;
	Packed		packed;

	if (batch_packed_nulls(batch, own->column, &packed) && eval_packed(expr, &packed, rows, n, result))
		return true;
	column = batch_column(batch, own->column);
	set_nulls(expr, column, rows, n, result);
	if (own->mixed)
		return false;
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		int			scale;

		if (column->has_nulls && column->nulls[row])
		{
			values[i] = 0;
			continue;
		}
		if (!decimal_decode_stored(column->values[row], &values[i], &scale))
			return false;
		if (unlikely(scale != common))
		{
			if (common >= 0)
			{
				own->mixed = true;
				return false;
			}
			common = scale;
		}
		bits |= magnitude(values[i]);
	}
	result->scale = Max(common, 0);
	result->bits = bits;

	return true;
}

/* ---- columns of integers, cast ---- */

static DecimalExpr *
compile_integers(Expr *expr, Batch *batch, CompileDecimal operand)
{
	FuncExpr   *func = (FuncExpr *) expr;
	Expr	   *arg;
	int			width;
	DecimalColumn *result;

	if (!IsA(expr, FuncExpr))
		return NULL;
	width = func->funcid == F_NUMERIC_INT2 ? 2 : func->funcid == F_NUMERIC_INT4 ? 4 :
		func->funcid == F_NUMERIC_INT8 ? 8 : 0;
	if (width == 0)
		return NULL;
	arg = planner_strip_relabel(linitial(func->args));
	if (!IsA(arg, Var))
		return NULL;
	result = decimal_expr_create(sizeof(DecimalColumn), &decimal_integer_kernel);
	result->column = batch_index(batch, ((Var *) arg)->varattno);
	result->width = width;
	return &result->expr;
}

static bool
eval_integers(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	DecimalColumn *own = (DecimalColumn *) expr;
	Column	   *column = batch_column(batch, own->column);
	int			width = own->width;
	uint64		bits = 0;

	set_nulls(expr, column, rows, n, result);
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		Datum		value = column->has_nulls && column->nulls[row] ? (Datum) 0 : column->values[row];

		expr->values[i] = width == 8 ? DatumGetInt64(value) :
			width == 4 ? DatumGetInt32(value) : DatumGetInt16(value);
		bits |= magnitude(expr->values[i]);
	}
	result->scale = 0;
	result->bits = bits;

	return decimals_within(result, n, DECIMAL_MAX);
}

/* ---- constants and parameters ---- */

static DecimalExpr *
compile_scalar(Expr *expr, Batch *batch, CompileDecimal operand)
{
	DecimalScalar *result;

	if (!IsA(expr, Const) && !IsA(expr, Param))
		return NULL;
	result = decimal_expr_create(sizeof(DecimalScalar), &decimal_scalar_kernel);
	result->state = ExecInitExpr(expr, batch->parent);
	return &result->expr;
}

static bool
eval_scalar(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	bool		isnull;
	Datum		value = ExecEvalExprSwitchContext(((DecimalScalar *) expr)->state, batch->econtext, &isnull);
	int64		decoded;

	result->has_nulls = false;
	result->nulls = expr->nulls;
	if (isnull || !decimal_decode(value, &decoded, &result->scale))
		return false;
	for (int i = 0; i < n; i++)
		expr->values[i] = decoded;
	result->bits = magnitude(decoded);
	return true;
}

const DecimalKernel decimal_column_kernel = {
	.compile = compile_column,
	.eval = eval_column,
};

const DecimalKernel decimal_integer_kernel = {
	.compile = compile_integers,
	.eval = eval_integers,
};

const DecimalKernel decimal_scalar_kernel = {
	.compile = compile_scalar,
	.eval = eval_scalar,
};
