/*-------------------------------------------------------------------------
 *
 * compare_float.c
 *	  Comparisons of floats.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "utils/float.h"

#include "column_index/kernels.h"
#include "vector/filter/predicate.h"

#define FLOATS(LEFT, RIGHT) \
	EACH_OP(float8, LEFT, RIGHT, float8_lt(a, b), float8_le(a, b), float8_eq(a, b), \
			float8_ge(a, b), float8_gt(a, b), float8_ne(a, b))

static bool
are_floats(Oid left, Oid right)
{
	return (left == FLOAT4OID || left == FLOAT8OID) && (right == FLOAT4OID || right == FLOAT8OID);
}

/* As float48lt() and its like: real is promoted, which keeps the order. */
static void
compare_floats(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	if (comparison->left_type == FLOAT8OID && comparison->right_type == FLOAT8OID)
		FLOATS(DatumGetFloat8, DatumGetFloat8);
	else if (comparison->left_type == FLOAT8OID)
		FLOATS(DatumGetFloat8, DatumGetFloat4);
	else if (comparison->right_type == FLOAT8OID)
		FLOATS(DatumGetFloat4, DatumGetFloat8);
	else
		FLOATS(DatumGetFloat4, DatumGetFloat4);
}

#define SELECT_FLOATS(TEST) \
	do { \
		if (range->type == FLOAT4OID) \
			SELECT_ROWS(DatumGetFloat4, TEST); \
		else \
			SELECT_ROWS(DatumGetFloat8, TEST); \
	} while (0)

/* NaN is equal to itself and greater than all others: float8_lt() and its like. */
static int
select_beside_nan(Range *range, const Column *column, const uint16 *rows, int n, uint16 *selected)
{
	CompareOp	op = range->bounds[0].op;
	int			k = 0;

	if (op == OP_LT)
		SELECT_FLOATS(!isnan(v));
	else if (op == OP_LE)
		SELECT_FLOATS(v == v || isnan(v));
	else if (op != OP_GT)
		SELECT_FLOATS(isnan(v));

	return k;
}

static int
select_floats(Range *range, const Datum *scalars, const Column *column,
			  const uint16 *rows, int n, uint16 *selected)
{
	Bound	   *bound = &range->bounds[0];
	float8		b = bound->type == FLOAT4OID ? (float8) DatumGetFloat4(scalars[0]) : DatumGetFloat8(scalars[0]);
	int			k = 0;

	if (isnan(b))
		return select_beside_nan(range, column, rows, n, selected);
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

/* ---- arrays ---- */

/* What a scalar is, as double precision. */
static float8
bound_of(const Range *range, const Datum *scalars)
{
	return range->bounds[0].type == FLOAT4OID ? (float8) DatumGetFloat4(scalars[0]) : DatumGetFloat8(scalars[0]);
}

/* The largest real that is at most b, or below b. */
static float4
real_below(float8 b, bool included)
{
	float4		f = (float4) b;

	while (included ? (float8) f > b : (float8) f >= b)
		f = nextafterf(f, -INFINITY);
	return f;
}

/* The smallest real that is at least b, or above b. */
static float4
real_above(float8 b, bool included)
{
	return -real_below(-b, included);
}

static int
select_float_array(Range *range, const Datum *scalars, const Packed *packed, const uint16 *rows, int n,
				   uint16 *selected)
{
	float8		b = bound_of(range, scalars);
	CompareOp	op = range->bounds[0].op;
	float4		low = -INFINITY;
	float4		high = INFINITY;
	const float4 *values = packed->array;
	int			k = 0;

	/* NaN is greater than all others; the loops below never list it */
	if (packed->kind != PACKED_FLOAT4 || isnan(b) || (!packed->no_nan && (op == OP_GE || op == OP_GT)))
		return -1;
	/* nothing is beyond infinity, and there is no real to say so */
	if (isinf(b) && (op == OP_LT || op == OP_GT))
		return -1;
	if (op == OP_LT || op == OP_LE || op == OP_EQ)
		high = real_below(b, op != OP_LT);
	if (op == OP_GT || op == OP_GE || op == OP_EQ)
		low = real_above(b, op != OP_GT);
	if (rows == NULL)
	{
		uint64		bitmap[KERNEL_BITMAP_WORDS(BATCH_ROWS)];

		(void) column_kernels()->select_float4(values, n, low, high, bitmap);
		return filter_list_bitmap(bitmap, n, selected);
	}
	for (int i = 0; i < n; i++)
	{
		float4		v = values[rows[i]];

		selected[k] = rows[i];
		k += (v >= low) & (v <= high);
	}

	return k;
}

static bool
floats_excluded(Range *range, const Datum *scalars, const Bounds *bounds)
{
	float8		b = bound_of(range, scalars);

	/* no value is NaN */
	if (!bounds->floats || isnan(b))
		return false;
	switch (range->bounds[0].op)
	{
		case OP_LT:
			return bounds->float_min >= b;
		case OP_LE:
			return bounds->float_min > b;
		case OP_EQ:
			return bounds->float_min > b || bounds->float_max < b;
		case OP_GE:
			return bounds->float_max < b;
		case OP_GT:
			return bounds->float_max <= b;
		case OP_NE:
			break;
	}
	return false;
}

const CompareKind float_comparisons[] = {
	{
		.applies = are_floats,
		.compare = compare_floats,
		.select = select_floats,
		.one_bound = true,
		.select_packed = select_float_array,
		.excludes = floats_excluded,
	},
	{NULL}
};
