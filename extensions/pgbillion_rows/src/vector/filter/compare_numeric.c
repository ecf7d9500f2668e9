/*-------------------------------------------------------------------------
 *
 * compare_numeric.c
 *	  Comparisons of numerics, in integers where they fit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/fmgrprotos.h"

#include "vector/expression/decimal.h"
#include "vector/filter/predicate.h"

static bool
are_numerics(Oid left, Oid right)
{
	return left == NUMERICOID && right == NUMERICOID;
}

/* The order of two numerics: -1, 0 or 1. */
static int
compare_two(Datum left, Datum right)
{
	int64		a;
	int64		b;
	int			a_scale;
	int			b_scale;

	if (decimal_decode(left, &a, &a_scale) && decimal_decode(right, &b, &b_scale))
	{
		int128		x = a;
		int128		y = b;

		if (a_scale == b_scale)
			return a < b ? -1 : a > b;
		/* at most 10^18 times 10^18 */
		for (; a_scale < b_scale; a_scale++)
			x *= 10;
		for (; b_scale < a_scale; b_scale++)
			y *= 10;
		return x < y ? -1 : x > y;
	}
	return DatumGetInt32(DirectFunctionCall2(numeric_cmp, left, right));
}

/* Numerics that are all small and of one scale a side; false if they are not. */
static bool
compare_decimals(const Comparison *comparison, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Decimals	left;
	Decimals	right;
	int64		left_unit;
	int64		right_unit;
	CompareOp	op = comparison->op;

	if (!vector_expr_decimals(comparison->left, batch, rows, n, &left) ||
		!vector_expr_decimals(comparison->right, batch, rows, n, &right))
		return false;
	left_unit = decimal_unit(Max(right.scale - left.scale, 0));
	right_unit = decimal_unit(Max(left.scale - right.scale, 0));
	if (left.bits > DECIMAL_MAX / left_unit || right.bits > DECIMAL_MAX / right_unit)
		return false;

#define DECIMALS(TEST) \
	for (int i = 0; i < n; i++) \
		truth[i] = (left.nulls[i] | right.nulls[i]) ? TRUTH_NULL : \
			(left.values[i] * left_unit TEST right.values[i] * right_unit)
	switch (op)
	{
		case OP_LT:
			DECIMALS(<);
			break;
		case OP_LE:
			DECIMALS(<=);
			break;
		case OP_EQ:
			DECIMALS(==);
			break;
		case OP_GE:
			DECIMALS(>=);
			break;
		case OP_GT:
			DECIMALS(>);
			break;
		case OP_NE:
			DECIMALS(!=);
			break;
	}

	return true;
}

static void
compare_numerics(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	for (int i = 0; i < n; i++)
		truth[i] = !left->nulls[i] && !right->nulls[i] &&
			holds(comparison->op, compare_two(left->values[i], right->values[i]));
}

/* ---- ranges ---- */

/*
 * From and to, both included, in units of 10^-scale, of the decimals that a
 * range lets pass.
 */
static void
find_ends(Range *range, int scale)
{
	int64	   *from = &range->from;
	int64	   *to = &range->to;

	*from = PG_INT64_MIN;
	*to = PG_INT64_MAX;
	range->scale = scale;
	for (int b = 0; b < range->nbounds; b++)
	{
		Bound	   *bound = &range->bounds[b];
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

/* Decode what a range is between; false if that cannot be. */
static bool
decode_bounds(Range *range, const Datum *scalars)
{
	bool		decoded = true;

	for (int b = 0; b < range->nbounds; b++)
	{
		Bound	   *bound = &range->bounds[b];
		int64		value;
		int			scale;

		if (!decimal_decode(scalars[b], &value, &scale))
			decoded = false;
		else if (value != bound->value || scale != bound->scale)
		{
			bound->value = value;
			bound->scale = scale;
			range->scale = -1;
		}
	}
	return decoded;
}

static int
select_numerics(Range *range, const Datum *scalars, const Column *column,
				const uint16 *rows, int n, uint16 *selected)
{
	const Datum *values = column->values;
	const bool *nulls = column->nulls;
	bool		has_nulls = column->has_nulls;
	bool		decoded = decode_bounds(range, scalars);
	int			k = 0;

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
			if (unlikely(scale != range->scale))
				find_ends(range, scale);
			k += (value >= range->from) & (value <= range->to);
		}
		else
		{
			bool		found = true;

			for (int b = 0; found && b < range->nbounds; b++)
				found = holds(range->bounds[b].op, compare_two(values[row], scalars[b]));
			k += found;
		}
	}

	return k;
}

/* Find the ends of a range in units of 10^-scale; false if that cannot be. */
static bool
set_ends(Range *range, const Datum *scalars, int scale)
{
	if (scale < 0 || scale > DECIMAL_MAX_DIGITS || !decode_bounds(range, scalars))
		return false;
	if (scale != range->scale)
		find_ends(range, scale);
	return true;
}

static int
select_decimal_array(Range *range, const Datum *scalars, const Packed *packed, const uint16 *rows, int n,
					 uint16 *selected)
{
	if (packed->kind != PACKED_DECIMALS || !set_ends(range, scalars, packed->scale))
		return -1;
	return filter_select_packed_integers(packed, range->from, range->to, rows, n, selected);
}

static bool
decimals_excluded(Range *range, const Datum *scalars, const Bounds *bounds)
{
	if (bounds->floats || !set_ends(range, scalars, bounds->scale))
		return false;
	return range->from > range->to || range->from > bounds->max || range->to < bounds->min;
}

const CompareKind numeric_comparisons[] = {
	{
		.applies = are_numerics,
		.compare = compare_numerics,
		.compare_batch = compare_decimals,
		.select = select_numerics,
		.select_packed = select_decimal_array,
		.excludes = decimals_excluded,
	},
	{NULL}
};
