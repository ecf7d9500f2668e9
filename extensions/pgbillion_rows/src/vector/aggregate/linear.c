/*-------------------------------------------------------------------------
 *
 * linear.c
 *	  Integer expressions of the form a * column + b.
 *
 * Sums of such expressions follow from the sum and the number of the column's
 * values, exactly, as long as PostgreSQL raises no error for any row. Each
 * step of the expression is linear in the column, too, so that its result is
 * out of range nowhere between two values for which it is within.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "planner/arithmetic.h"
#include "vector/aggregate/linear.h"
#include "vector/expression/kernel.h"

/* Factors and addends beyond this are not for us: then 128 bits hold all that is computed of them. */
#define MOST (INT64CONST(1) << 62)

/* The range of an integer type, as Arithmetic has its width. */
static void
range_of(char kind, int64 *low, int64 *high)
{
	*low = kind == '8' ? PG_INT64_MIN : kind == '4' ? PG_INT32_MIN : PG_INT16_MIN;
	*high = kind == '8' ? PG_INT64_MAX : kind == '4' ? PG_INT32_MAX : PG_INT16_MAX;
}

static char
kind_of(Oid type)
{
	return type == INT2OID ? '2' : type == INT4OID ? '4' : type == INT8OID ? '8' : 0;
}

/* The quotient rounded down; the divisor is positive. */
static int128
divide_down(int128 a, int128 b)
{
	return a / b - (a % b < 0);
}

static int128
divide_up(int128 a, int128 b)
{
	return a / b + (a % b > 0);
}

/* Narrow the column's values to those whose result is within a type's range; false if none may be. */
static bool
keep_within(Linear *linear, char kind)
{
	int64		least;
	int64		most;
	int128		low;
	int128		high;

	range_of(kind, &least, &most);
	if (linear->factor == 0)
		return least <= linear->addend && linear->addend <= most;
	if (linear->factor > 0)
	{
		low = divide_up((int128) least - linear->addend, linear->factor);
		high = divide_down((int128) most - linear->addend, linear->factor);
	}
	else
	{
		low = divide_up((int128) linear->addend - most, -(int128) linear->factor);
		high = divide_down((int128) linear->addend - least, -(int128) linear->factor);
	}
	linear->low = (int64) Max(low, (int128) linear->low);
	linear->high = (int64) Min(high, (int128) linear->high);

	return linear->low <= linear->high;
}

static bool
is_small(int128 value)
{
	return -MOST <= value && value <= MOST;
}

/* What an operator makes of two linear expressions; false if that is none. */
static bool
combine(char op, const Linear *left, const Linear *right, Linear *result)
{
	const Linear *variable = left->var != NULL ? left : right;
	int128		factor;
	int128		addend;

	if (left->var != NULL && right->var != NULL && left->column != right->column)
		return false;
	switch (op)
	{
		case '+':
			factor = (int128) left->factor + right->factor;
			addend = (int128) left->addend + right->addend;
			break;
		case '-':
			factor = (int128) left->factor - right->factor;
			addend = (int128) left->addend - right->addend;
			break;
		case '*':
			if (left->var != NULL && right->var != NULL)
				return false;
			factor = (int128) left->factor * right->addend + (int128) left->addend * right->factor;
			addend = (int128) left->addend * right->addend;
			break;
		default:
			return false;
	}
	if (!is_small(factor) || !is_small(addend))
		return false;
	result->var = variable->var;
	result->column = variable->column;
	result->factor = (int64) factor;
	result->addend = (int64) addend;
	result->low = Max(left->low, right->low);
	result->high = Min(left->high, right->high);

	return true;
}

/* The same as linear_of(), also of constants, which have no column. */
static bool
find(Expr *expr, Batch *batch, Linear *result)
{
	const Arithmetic *arithmetic;
	List	   *args;
	Linear		left;
	Linear		right;

	expr = planner_strip_relabel(expr);
	memset(result, 0, sizeof(Linear));
	result->low = PG_INT64_MIN;
	result->high = PG_INT64_MAX;
	if (IsA(expr, Var))
	{
		result->var = (Var *) expr;
		result->column = batch_index(batch, result->var->varattno);
		result->factor = 1;
		if (kind_of(batch->columns[result->column].type) == 0)
			return false;
		range_of(kind_of(batch->columns[result->column].type), &result->low, &result->high);
		return true;
	}
	if (IsA(expr, Const))
	{
		Const	   *constant = (Const *) expr;

		if (constant->constisnull || kind_of(constant->consttype) == 0)
			return false;
		result->addend = int_of(constant->constvalue, constant->consttype);
		return is_small(result->addend);
	}
	arithmetic = arithmetic_find(expr, &args);
	if (arithmetic == NULL || arithmetic->kind == 'f' || !find(linitial(args), batch, &left))
		return false;
	if (arithmetic->op == '=')
		*result = left;
	else if (!find(lsecond(args), batch, &right) || !combine(arithmetic->op, &left, &right, result))
		return false;

	return keep_within(result, arithmetic->kind);
}

/*
 * Is it an expression of this form over a column of the batch, NULL where the
 * column is?
 */
bool
linear_of(Expr *expr, Batch *batch, Linear *result)
{
	return find(expr, batch, result) && result->var != NULL;
}

/*
 * Are all values of a column, in the rows that are in the batch now, between
 * two? It is loaded only if the source does not know.
 */
bool
linear_is_within(int64 low, int64 high, Batch *batch, int column)
{
	const SourceMethods *methods = batch->source->methods;
	Oid			type = batch->columns[column].type;
	Column	   *loaded;
	int64		least;
	int64		most;
	Bounds		bounds;
	bool		within = true;

	range_of(kind_of(type), &least, &most);
	if (low <= least && most <= high)
		return true;
	if (methods->bounds != NULL && methods->bounds(batch->source, batch, column, &bounds) &&
		!bounds.floats && low <= bounds.min && bounds.max <= high)
		return true;
	loaded = batch_column(batch, column);

#define ARE_WITHIN(get) \
	do { \
		for (int i = 0; i < batch->n; i++) \
		{ \
			int64		value = get(loaded->values[i]); \
			within &= (low <= value && value <= high) || (loaded->has_nulls && loaded->nulls[i]); \
		} \
	} while (0)

	if (type == INT2OID)
		ARE_WITHIN(DatumGetInt16);
	else if (type == INT4OID)
		ARE_WITHIN(DatumGetInt32);
	else
		ARE_WITHIN(DatumGetInt64);

	return within;
}
