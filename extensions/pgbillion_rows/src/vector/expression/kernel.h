/*-------------------------------------------------------------------------
 *
 * kernel.h
 *	  The interface of kernels of expressions.
 *
 * There are two kinds of values: Datums, and numerics as integers of one
 * scale. expression.c has the table of kernels of the first kind,
 * decimal_expression.c that of the second. To add one, write a file, and name
 * the kernel here and there.
 *
 * A kernel never raises an error: where it meets something that it cannot do
 * exactly (an overflow, a NaN, a compressed value) it says so, and the batch
 * is given to PostgreSQL's expression code, which raises what there is to
 * raise. The one that stands in for PostgreSQL's code (by_value.c) may, and so
 * operands are evaluated for no rows but those which PostgreSQL comes to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_KERNEL_H
#define PGBILLION_VECTOR_KERNEL_H

#include "catalog/pg_type.h"

#include "vector/expression/by_value.h"
#include "vector/expression/expression.h"

/* ---- Datums ---- */

/* What compiles the operands of an expression; NULL if one has no kernel. */
typedef VectorExpr *(*CompileOperand) (Expr *expr, Batch *batch);

typedef struct ExprKernel
{
	/* NULL if the expression is not for this kernel, or for none. */
	VectorExpr *(*compile) (Expr *expr, Batch *batch, CompileOperand operand);

	/*
	 * Values for the n rows listed, or for the batch's first n, dense. False
	 * if PostgreSQL has to do this batch.
	 */
	bool		(*eval) (VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result);

	bool		always;			/* eval() never returns false */

	/*
	 * How many codes there are, at most SHORT_CODES, where values are those
	 * of a dictionary that never changes; 0: they are not. Then codes of the
	 * batch's rows, as of a column, but without the values; false if they are
	 * not all of it. NULL: there are none of this kernel.
	 */
	int			(*ncodes) (const VectorExpr *expr);
	bool		(*codes) (VectorExpr *expr, Batch *batch, Codes *result);
} ExprKernel;

typedef struct DecimalExpr DecimalExpr;

/* Each kernel's own struct begins with it. */
struct VectorExpr
{
	const ExprKernel *kernel;	/* NULL: PostgreSQL evaluates it */
	ByRow		by_row;			/* what it needs to do so; not of operands */
	Datum	   *values;			/* room for results */
	bool	   *nulls;
	DecimalExpr *decimal;		/* the same as decimals, or NULL */
	ByValue    *by_value;		/* remembers results, or NULL */
	int			determinant;	/* column from whose value the result follows,
								 * or -1 */
};

typedef struct ColumnExpr
{
	VectorExpr	expr;
	int			column;			/* index */
} ColumnExpr;

/* The same for all rows: evaluated once a batch, or, if it is a constant, once. */
typedef struct ScalarExpr
{
	VectorExpr	expr;
	ExprState  *state;
	bool		constant;
	Datum		value;			/* of a constant */
	bool		isnull;			/* the same */
	int			filled;			/* how many values of a constant are there */
} ScalarExpr;

extern const ExprKernel column_kernel;
extern const ExprKernel scalar_kernel;
extern const ExprKernel integer_kernel;
extern const ExprKernel float_kernel;
extern const ExprKernel time_kernel;
extern const ExprKernel text_kernel;
extern const ExprKernel choice_kernel;
extern const ExprKernel by_value_kernel;

/* filter/condition.c */
extern const ExprKernel condition_kernel;

/* operand.c */
extern void *vector_expr_create(Size size, const ExprKernel *kernel);

/* ---- decimals ---- */

typedef DecimalExpr *(*CompileDecimal) (Expr *expr, Batch *batch);

typedef struct DecimalKernel
{
	/* As of ExprKernel. */
	DecimalExpr *(*compile) (Expr *expr, Batch *batch, CompileDecimal operand);

	/*
	 * As of ExprKernel; where a row is NULL, the value is anything within the
	 * bounds. result->values are the expression's.
	 */
	bool		(*eval) (DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result);
} DecimalKernel;

struct DecimalExpr
{
	const DecimalKernel *kernel;
	Expr	   *source;
	uint64		serial;			/* of the batch whose rows, all of them, have
								 * been computed */
	bool		failed;			/* then result is not valid */
	Decimals	result;
	int64	   *values;
	bool	   *nulls;
};

extern const DecimalKernel decimal_column_kernel;
extern const DecimalKernel decimal_integer_kernel;
extern const DecimalKernel decimal_scalar_kernel;
extern const DecimalKernel decimal_operator_kernel;

/* decimal_expression.c */
extern DecimalExpr *decimal_expr_compile(Expr *expr, Batch *batch);

/* decimal_operand.c */
extern void *decimal_expr_create(Size size, const DecimalKernel *kernel);

static inline uint64
magnitude(int64 value)
{
	return value < 0 ? -(uint64) value : (uint64) value;
}

/*
 * Are all values of at most `limit`? A quick look first at what bits are set
 * in any of them; if that does not tell, at every value.
 */
static inline bool
decimals_within(const Decimals *decimals, int n, uint64 limit)
{
	uint64		largest = 0;

	if (decimals->bits <= limit)
		return true;
	for (int i = 0; i < n; i++)
		largest = Max(largest, magnitude(decimals->values[i]));
	return largest <= limit;
}

/*
 * Values of the n rows listed, or of the batch's first n: all of them. Valid
 * until the expression is evaluated again, alone or as part of another. False
 * if PostgreSQL has to do it.
 */
static inline bool
decimal_expr_eval(DecimalExpr *expr, Batch *batch, const uint16 *rows, int n, Decimals *result)
{
	bool		done;

	Assert(rows != NULL || n == batch->n);
	Assert(batch->serial > 0);
	if (rows == NULL && expr->serial == batch->serial)
	{
		*result = expr->result;
		return !expr->failed;
	}
	/* what was computed for all rows is overwritten */
	expr->serial = 0;
	result->values = expr->values;
	done = expr->kernel->eval(expr, batch, rows, n, result);
	if (rows == NULL)
	{
		expr->serial = batch->serial;
		expr->failed = !done;
		expr->result = *result;
	}

	return done;
}

/* The integer that a value of one of these types is. */
static inline int64
int_of(Datum value, Oid type)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
		case DATEOID:
			return DatumGetInt32(value);
		case BOOLOID:
			return DatumGetBool(value);
		case OIDOID:
			return DatumGetObjectId(value);
		default:
			return DatumGetInt64(value);
	}
}

#endif							/* PGBILLION_VECTOR_KERNEL_H */
