/*-------------------------------------------------------------------------
 *
 * expression.c
 *	  Group keys and arguments over a batch.
 *
 * An expression is compiled to a tree of kernels where there is one for each
 * of its parts: columns, integer and float arithmetic, and decimal arithmetic
 * for arguments of sum and avg. Everything else, and every batch on which a
 * kernel met an overflow or a division by zero, is evaluated by core's
 * expression code, a row at a time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/fmgroids.h"

#include "planner/arithmetic.h"
#include "vector/expression/expression.h"

struct VectorExpr
{
	enum
	{
		EXPR_COLUMN,
		EXPR_SCALAR,			/* the same for all rows: evaluated once a
								 * batch */
		EXPR_ARITHMETIC,
		EXPR_CORE
	}			kind;
	int			column;			/* EXPR_COLUMN: index */
	const Arithmetic *arithmetic;
	VectorExpr *left;
	VectorExpr *right;

	/* what core's expression code needs; not for columns and not for operands */
	ExprState  *state;
	int			nneeded;
	int		   *needed;			/* columns */

	/* results; NULL for columns */
	Datum	   *values;
	bool	   *nulls;

	/* decimal arithmetic, if the expression is made of it */
	DecimalExpr *decimal;
};

/* ---- core's expression code ---- */

/*
 * Prepare an expression for evaluation row by row. The columns that it refers
 * to are stored in `needed`.
 */
ExprState *
core_expr_prepare(Expr *expr, Batch *batch, int **needed, int *nneeded)
{
	Bitmapset  *attnos = NULL;
	int			i = -1;
	List	   *vars = pull_var_clause((Node *) expr, 0);
	ListCell   *lc;

	*nneeded = 0;
	*needed = palloc(sizeof(int) * Max(list_length(vars), 1));
	foreach(lc, vars)
		attnos = bms_add_member(attnos, lfirst_node(Var, lc)->varattno);
	while ((i = bms_next_member(attnos, i)) >= 0)
	{
		int			column = columns_index(batch->columns, i);

		Assert(column >= 0);
		(*needed)[(*nneeded)++] = column;
	}
	bms_free(attnos);

	return ExecInitExpr(expr, batch->parent);
}

/* Make row i of the batch the one that core's expression code sees. */
void
core_expr_set_row(Batch *batch, const int *needed, int nneeded, int i)
{
	TupleTableSlot *slot = batch->slot;

	for (int k = 0; k < nneeded; k++)
	{
		Column	   *column = columns_get(batch->columns, needed[k]);

		slot->tts_values[column->attno - 1] = column->values[i];
		slot->tts_isnull[column->attno - 1] = column->nulls[i];
	}
	batch->econtext->ecxt_scantuple = slot;
}

static void
eval_core(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	result->values = expr->values;
	result->nulls = expr->nulls;
	result->has_nulls = false;
	for (int i = 0; i < n; i++)
	{
		core_expr_set_row(batch, expr->needed, expr->nneeded, rows != NULL ? rows[i] : i);
		result->values[i] = ExecEvalExprSwitchContext(expr->state, batch->econtext, &result->nulls[i]);
		result->has_nulls |= result->nulls[i];
	}
}

/* ---- compilation ---- */

static VectorExpr *
compile_kernel(Expr *expr, Batch *batch)
{
	VectorExpr *result;
	VectorExpr *left;
	VectorExpr *right = NULL;
	const Arithmetic *arithmetic;
	List	   *args;

	expr = strip_relabel(expr);
	if (IsA(expr, Var))
	{
		result = palloc0(sizeof(VectorExpr));
		result->kind = EXPR_COLUMN;
		result->column = columns_index(batch->columns, ((Var *) expr)->varattno);
		Assert(result->column >= 0);
		return result;
	}
	if (IsA(expr, Const) || IsA(expr, Param))
	{
		result = palloc0(sizeof(VectorExpr));
		result->kind = EXPR_SCALAR;
		result->state = ExecInitExpr(expr, batch->parent);
		result->values = palloc(sizeof(Datum) * BATCH_ROWS);
		result->nulls = palloc(sizeof(bool) * BATCH_ROWS);
		return result;
	}
	arithmetic = find_arithmetic(expr, &args);
	if (arithmetic == NULL || (left = compile_kernel(linitial(args), batch)) == NULL)
		return NULL;
	if (arithmetic->right != 0 && (right = compile_kernel(lsecond(args), batch)) == NULL)
		return NULL;
	result = palloc0(sizeof(VectorExpr));
	result->kind = EXPR_ARITHMETIC;
	result->arithmetic = arithmetic;
	result->left = left;
	result->right = right;
	result->values = palloc(sizeof(Datum) * BATCH_ROWS);
	result->nulls = palloc(sizeof(bool) * BATCH_ROWS);
	return result;
}

/*
 * Compile an expression over the batch's columns. Everything is allocated in
 * the current context.
 */
VectorExpr *
vector_expr_compile(Expr *expr, Batch *batch)
{
	VectorExpr *result = compile_kernel(expr, batch);

	if (result == NULL)
	{
		result = palloc0(sizeof(VectorExpr));
		result->kind = EXPR_CORE;
		result->values = palloc(sizeof(Datum) * BATCH_ROWS);
		result->nulls = palloc(sizeof(bool) * BATCH_ROWS);
	}
	if (result->kind == EXPR_COLUMN)
	{
		/* for lists of rows */
		result->values = palloc(sizeof(Datum) * BATCH_ROWS);
		result->nulls = palloc(sizeof(bool) * BATCH_ROWS);
	}
	else if (result->kind != EXPR_SCALAR)
		result->state = core_expr_prepare(expr, batch, &result->needed, &result->nneeded);
	if (exprType((Node *) expr) == NUMERICOID)
		result->decimal = decimal_expr_compile(expr, batch);

	return result;
}

bool
vector_expr_is_column(VectorExpr *expr)
{
	return expr->kind == EXPR_COLUMN;
}

/* The index of the column that it is. */
int
vector_expr_column(VectorExpr *expr)
{
	Assert(expr->kind == EXPR_COLUMN);
	return expr->column;
}

/* Is it the same for all rows? */
bool
vector_expr_is_scalar(VectorExpr *expr)
{
	return expr->kind == EXPR_SCALAR;
}

/* The value of one that is. */
Datum
vector_expr_scalar(VectorExpr *expr, Batch *batch, bool *isnull)
{
	Assert(expr->kind == EXPR_SCALAR);
	return ExecEvalExprSwitchContext(expr->state, batch->econtext, isnull);
}

bool
vector_expr_is_kernel(VectorExpr *expr)
{
	return expr->kind != EXPR_CORE || expr->decimal !=NULL;
}

/* ---- kernels ---- */

static inline int64
as_int(Datum value, char kind)
{
	return kind == '8' ? DatumGetInt64(value) : kind == '4' ? DatumGetInt32(value) : DatumGetInt16(value);
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
				values[i] = Int64GetDatum(as_int(left[i], l));
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
			/* underflow is an error too: core decides */
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

/* Evaluate kernels; false if core has to do this batch. */
static bool
eval_kernel(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	switch (expr->kind)
	{
		case EXPR_COLUMN:
			{
				Column	   *column = columns_get(batch->columns, expr->column);

				result->has_nulls = column->has_nulls;
				if (rows == NULL)
				{
					result->values = column->values;
					result->nulls = column->nulls;
					return true;
				}
				/* an operand of arithmetic has no room of its own yet */
				if (expr->values == NULL)
				{
					MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(expr));

					expr->values = palloc(sizeof(Datum) * BATCH_ROWS);
					expr->nulls = palloc(sizeof(bool) * BATCH_ROWS);
					MemoryContextSwitchTo(old);
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
		case EXPR_SCALAR:
			if (n > 0)
			{
				bool		isnull;
				Datum		value = ExecEvalExprSwitchContext(expr->state, batch->econtext, &isnull);

				for (int i = 0; i < n; i++)
					expr->values[i] = value;
				memset(expr->nulls, isnull, n * sizeof(bool));
				result->has_nulls = isnull;
			}
			result->values = expr->values;
			result->nulls = expr->nulls;
			return true;
		case EXPR_ARITHMETIC:
			{
				Values		left;
				Values		right;
				char		kind = expr->arithmetic->kind;

				if (!eval_kernel(expr->left, batch, rows, n, &left))
					return false;
				if (expr->right == NULL)
					right = left;
				else if (!eval_kernel(expr->right, batch, rows, n, &right))
					return false;
				result->values = expr->values;
				result->nulls = expr->nulls;
				result->has_nulls = left.has_nulls || right.has_nulls;
				if (result->has_nulls)
					for (int i = 0; i < n; i++)
						expr->nulls[i] = left.nulls[i] || right.nulls[i];
				else
					memset(expr->nulls, 0, n * sizeof(bool));
				return kind == 'f' ?
					float_rows(expr->arithmetic, left.values, right.values, expr->nulls, expr->values, n) :
					integer_rows(expr->arithmetic, left.values, right.values, expr->nulls, expr->values, n);
			}
		case EXPR_CORE:
			return false;
	}
	return false;
}

/*
 * Values of the expression for the n rows listed, or for the first n rows of
 * the batch, dense. They are valid until the expression is evaluated again or
 * the batch changes, and must not be changed.
 */
void
vector_expr_eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	if (!eval_kernel(expr, batch, rows, n, result))
		eval_core(expr, batch, rows, n, result);
}

/*
 * The same as integers of one scale. False if that cannot be.
 */
bool
vector_expr_decimals(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	return expr->decimal !=NULL && decimal_expr_eval(expr->decimal, batch, rows, n, result);
}
