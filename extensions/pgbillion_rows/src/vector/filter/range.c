/*-------------------------------------------------------------------------
 *
 * range.c
 *	  Comparisons of a column with constants, merged into a range.
 *
 * Those that stand side by side in a filter and cannot raise errors are merged:
 * then their order does not matter.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "utils/date.h"
#include "utils/timestamp.h"

#include "vector/expression/decimal.h"
#include "vector/filter/filter.h"

/* ---- compilation ---- */

/* The comparison with its sides exchanged. */
static CompareOp
commuted(CompareOp op)
{
	switch (op)
	{
		case OP_LT:
			return OP_GT;
		case OP_LE:
			return OP_GE;
		case OP_GE:
			return OP_LE;
		case OP_GT:
			return OP_LT;
		default:
			return op;
	}
}

/*
 * Turn a comparison of a column with a constant or a parameter into a range.
 */
void
filter_make_range(Predicate *predicate)
{
	Bound	   *bound;

	if (predicate->kind != PREDICATE_COMPARE || predicate->op == OP_NE)
		return;
	if (vector_expr_is_scalar(predicate->left) && vector_expr_is_column(predicate->right))
	{
		VectorExpr *scalar = predicate->left;
		Oid			type = predicate->left_type;

		predicate->left = predicate->right;
		predicate->right = scalar;
		predicate->left_type = predicate->right_type;
		predicate->right_type = type;
		predicate->op = commuted(predicate->op);
		if (predicate->compare == COMPARE_DATE_TIMESTAMP)
			predicate->compare = COMPARE_TIMESTAMP_DATE;
		else if (predicate->compare == COMPARE_TIMESTAMP_DATE)
			predicate->compare = COMPARE_DATE_TIMESTAMP;
	}
	if (!vector_expr_is_column(predicate->left) || !vector_expr_is_scalar(predicate->right))
		return;
	if (predicate->compare != COMPARE_INT && predicate->compare != COMPARE_DATE_TIMESTAMP &&
		predicate->compare != COMPARE_FLOAT && predicate->compare != COMPARE_NUMERIC)
		return;
	predicate->kind = PREDICATE_RANGE;
	predicate->bounds = palloc0(sizeof(Bound) * MAX_BOUNDS);
	predicate->nbounds = 1;
	predicate->range_scale = -1;
	bound = &predicate->bounds[0];
	bound->op = predicate->op;
	bound->compare = predicate->compare;
	bound->type = predicate->right_type;
	bound->scalar = predicate->right;
}

/* Are both ranges of the same column, and can they be one? */
bool
filter_merge_ranges(Predicate *first, Predicate *second)
{
	if (first->kind != PREDICATE_RANGE || second->kind != PREDICATE_RANGE ||
		vector_expr_column(first->left) != vector_expr_column(second->left) ||
		!first->harmless || !second->harmless ||
		first->compare == COMPARE_FLOAT || first->nbounds + second->nbounds > MAX_BOUNDS)
		return false;
	Assert(first->range_scale == -1);
	memcpy(&first->bounds[first->nbounds], second->bounds, sizeof(Bound) * second->nbounds);
	first->nbounds += second->nbounds;
	return true;
}

/* ---- evaluation ---- */

/* From and to, both included, of the integers that a range lets pass; false if there are none. */
static bool
int_range(Predicate *predicate, const Datum *scalars, int64 *from, int64 *to)
{
	*from = PG_INT64_MIN;
	*to = PG_INT64_MAX;
	for (int b = 0; b < predicate->nbounds; b++)
	{
		Bound	   *bound = &predicate->bounds[b];
		CompareOp	op = bound->op;
		int64		value;

		if (bound->compare == COMPARE_DATE_TIMESTAMP)
		{
			Timestamp	timestamp = DatumGetTimestamp(scalars[b]);
			int64		rest = timestamp % USECS_PER_DAY;

			/* infinities are the extremes of both types */
			if (TIMESTAMP_IS_NOBEGIN(timestamp))
				value = DATEVAL_NOBEGIN;
			else if (TIMESTAMP_IS_NOEND(timestamp))
				value = DATEVAL_NOEND;
			else
			{
				value = timestamp / USECS_PER_DAY - (rest < 0);
				/* within a day: that day is before it, the next one behind */
				if (rest != 0)
				{
					if (op == OP_EQ)
						return false;
					op = op == OP_LT || op == OP_LE ? OP_LE : OP_GT;
				}
			}
		}
		else
			value = int_of(scalars[b], bound->type);

		if (op == OP_LT)
		{
			if (value == PG_INT64_MIN)
				return false;
			value--;
		}
		else if (op == OP_GT)
		{
			if (value == PG_INT64_MAX)
				return false;
			value++;
		}
		if (op == OP_LT || op == OP_LE || op == OP_EQ)
			*to = Min(*to, value);
		if (op == OP_GT || op == OP_GE || op == OP_EQ)
			*from = Max(*from, value);
	}
	return *from <= *to;
}

/* List what TEST says of the value v; without a branch, which would be guessed wrong. */
#define SELECT_ROWS(GET, TEST) \
	do { \
		if (rows == NULL && !has_nulls) \
			for (int i = 0; i < n; i++) \
			{ \
				__typeof__(GET(values[0])) v = GET(values[i]); \
				selected[k] = i; \
				k += (TEST); \
			} \
		else \
			for (int i = 0; i < n; i++) \
			{ \
				int			row = rows != NULL ? rows[i] : i; \
				__typeof__(GET(values[0])) v = GET(values[row]); \
				selected[k] = row; \
				k += (TEST) & !nulls[row]; \
			} \
	} while (0)

static int
select_ints(Predicate *predicate, const Datum *scalars, const Datum *values, const bool *nulls,
			bool has_nulls, const uint16 *rows, int n, uint16 *selected)
{
	int64		from;
	int64		to;
	uint64		span;
	int			k = 0;

	if (!int_range(predicate, scalars, &from, &to))
		return 0;
	span = (uint64) to - (uint64) from;
#define IN_RANGE ((uint64) (int64) v - (uint64) from <= span)
	switch (predicate->left_type)
	{
		case INT2OID:
			SELECT_ROWS(DatumGetInt16, IN_RANGE);
			break;
		case INT4OID:
		case DATEOID:
			SELECT_ROWS(DatumGetInt32, IN_RANGE);
			break;
		case BOOLOID:
			SELECT_ROWS(DatumGetBool, IN_RANGE);
			break;
		case OIDOID:
			SELECT_ROWS(DatumGetObjectId, IN_RANGE);
			break;
		default:
			SELECT_ROWS(DatumGetInt64, IN_RANGE);
			break;
	}

	return k;
}

/* NaN is equal to itself and greater than all others: float8_lt() and its like. */
static int
select_floats(Predicate *predicate, Datum scalar, const Datum *values, const bool *nulls,
			  bool has_nulls, const uint16 *rows, int n, uint16 *selected)
{
	Bound	   *bound = &predicate->bounds[0];
	float8		b = bound->type == FLOAT4OID ? (float8) DatumGetFloat4(scalar) : DatumGetFloat8(scalar);
	int			k = 0;

#define SELECT_FLOATS(TEST) \
	do { \
		if (predicate->left_type == FLOAT4OID) \
			SELECT_ROWS(DatumGetFloat4, TEST); \
		else \
			SELECT_ROWS(DatumGetFloat8, TEST); \
	} while (0)

	if (isnan(b))
	{
		if (bound->op == OP_LT)
			SELECT_FLOATS(!isnan(v));
		else if (bound->op == OP_LE)
			SELECT_FLOATS(v == v || isnan(v));
		else if (bound->op != OP_GT)
			SELECT_FLOATS(isnan(v));
		return k;
	}
	switch (bound->op)
	{
		case OP_LT:
			SELECT_FLOATS(v < b);
			break;
		case OP_LE:
			SELECT_FLOATS(v <= b);
			break;
		case OP_EQ:
			SELECT_FLOATS(v == b);
			break;
		case OP_GE:
			SELECT_FLOATS(!(v < b));
			break;
		case OP_GT:
			SELECT_FLOATS(!(v <= b));
			break;
		case OP_NE:
			pg_unreachable();
	}

	return k;
}

/*
 * From and to, both included, in units of 10^-scale, of the decimals that a
 * range lets pass.
 */
static void
decimal_range(Predicate *predicate, int scale)
{
	int64	   *from = &predicate->from;
	int64	   *to = &predicate->to;

	*from = PG_INT64_MIN;
	*to = PG_INT64_MAX;
	predicate->range_scale = scale;
	for (int b = 0; b < predicate->nbounds; b++)
	{
		Bound	   *bound = &predicate->bounds[b];
		int128		low = bound->value;
		int128		high;
		int128		unit = 1;

		/* both scales are at most 18, and the value at most 10^18 */
		for (int s = bound->scale; s < scale; s++)
			low *= 10;
		for (int s = scale; s < bound->scale; s++)
			unit *= 10;
		high = low;
		if (bound->op == OP_LT)
			high--;
		else if (bound->op == OP_GT)
			low++;
		/* towards the inside: down for the upper end, up for the lower one */
		high = high / unit - (high % unit < 0);
		low = low / unit + (low % unit > 0);
		if (bound->op != OP_GT && bound->op != OP_GE)
			*to = (int64) Max(Min((int128) *to, high), (int128) PG_INT64_MIN);
		if (bound->op != OP_LT && bound->op != OP_LE)
			*from = (int64) Min(Max((int128) *from, low), (int128) PG_INT64_MAX);
	}
}

static int
select_numerics(Predicate *predicate, const Datum *scalars, const Datum *values, const bool *nulls,
				bool has_nulls, const uint16 *rows, int n, uint16 *selected)
{
	bool		decoded = true;
	int			k = 0;

	for (int b = 0; b < predicate->nbounds; b++)
	{
		Bound	   *bound = &predicate->bounds[b];
		int64		value;
		int			scale;

		if (!decimal_decode(scalars[b], &value, &scale))
			decoded = false;
		else if (value != bound->value || scale != bound->scale)
		{
			bound->value = value;
			bound->scale = scale;
			predicate->range_scale = -1;
		}
	}
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;
		int64		value;
		int			scale;

		if (has_nulls && nulls[row])
			continue;
		selected[k] = row;
		if (likely(decoded && decimal_decode_stored(values[row], &value, &scale)))
		{
			if (unlikely(scale != predicate->range_scale))
				decimal_range(predicate, scale);
			k += (value >= predicate->from) & (value <= predicate->to);
		}
		else
		{
			bool		found = true;

			for (int b = 0; found && b < predicate->nbounds; b++)
				found = holds(predicate->bounds[b].op, filter_compare_numeric(values[row], scalars[b]));
			k += found;
		}
	}

	return k;
}

int
filter_select_range(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	Datum		scalars[MAX_BOUNDS];
	Column	   *column = columns_get(batch->columns, vector_expr_column(predicate->left));

	for (int b = 0; b < predicate->nbounds; b++)
	{
		bool		isnull;

		scalars[b] = vector_expr_scalar(predicate->bounds[b].scalar, batch, &isnull);
		if (isnull)
			return 0;
	}
	switch (predicate->compare)
	{
		case COMPARE_INT:
		case COMPARE_DATE_TIMESTAMP:
			return select_ints(predicate, scalars, column->values, column->nulls, column->has_nulls,
							   rows, n, selected);
		case COMPARE_FLOAT:
			return select_floats(predicate, scalars[0], column->values, column->nulls,
								 column->has_nulls, rows, n, selected);
		default:
			Assert(predicate->compare == COMPARE_NUMERIC);
			return select_numerics(predicate, scalars, column->values, column->nulls,
								   column->has_nulls, rows, n, selected);
	}
}
