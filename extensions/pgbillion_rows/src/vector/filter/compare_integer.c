/*-------------------------------------------------------------------------
 *
 * compare_integer.c
 *	  Comparisons of integers, and of types that are stored as one.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/date.h"
#include "utils/timestamp.h"

#include "vector/filter/predicate.h"

#define INTS(LEFT, RIGHT) \
	EACH_OP(int64, LEFT, RIGHT, a < b, a <= b, a == b, a >= b, a > b, a != b)
#define LEFT_INT(v) int_of(v, left_type)
#define RIGHT_INT(v) int_of(v, right_type)

static bool
are_four_bytes(Oid left, Oid right)
{
	return left == right && (left == INT4OID || left == DATEOID);
}

static bool
are_eight_bytes(Oid left, Oid right)
{
	return left == right &&
		(left == INT8OID || left == TIMESTAMPOID || left == TIMESTAMPTZOID || left == TIMEOID);
}

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
are_integers(Oid left, Oid right)
{
	return (is_integer(left) && is_integer(right)) ||
		(left == right && (left == BOOLOID || left == OIDOID));
}

static void
compare_four_bytes(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	INTS(DatumGetInt32, DatumGetInt32);
}

static void
compare_eight_bytes(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	INTS(DatumGetInt64, DatumGetInt64);
}

static void
compare_integers(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	Oid			left_type = comparison->left_type;
	Oid			right_type = comparison->right_type;

	INTS(LEFT_INT, RIGHT_INT);
}

/* ---- ranges ---- */

/*
 * The date that a timestamp stands for as a bound of dates. Within a day, that
 * day is before it, and the next one behind; then *op becomes the one that
 * says so. False if no date is equal to it.
 */
static bool
date_of_bound(Timestamp timestamp, CompareOp *op, int64 *date)
{
	int64		within = timestamp % USECS_PER_DAY;

	/* infinities are the extremes of both types */
	if (TIMESTAMP_IS_NOBEGIN(timestamp))
		*date = DATEVAL_NOBEGIN;
	else if (TIMESTAMP_IS_NOEND(timestamp))
		*date = DATEVAL_NOEND;
	else
	{
		*date = timestamp / USECS_PER_DAY - (within < 0);
		if (within != 0)
		{
			if (*op == OP_EQ)
				return false;
			*op = *op == OP_LT || *op == OP_LE ? OP_LE : OP_GT;
		}
	}
	return true;
}

/* From and to, both included, of the integers that a range lets pass; false if there are none. */
static bool
find_ends(Range *range, const Datum *scalars, int64 *from, int64 *to)
{
	*from = PG_INT64_MIN;
	*to = PG_INT64_MAX;
	for (int b = 0; b < range->nbounds; b++)
	{
		Bound	   *bound = &range->bounds[b];
		CompareOp	op = bound->op;
		int64		value;

		if (range->type == DATEOID && bound->type == TIMESTAMPOID)
		{
			if (!date_of_bound(DatumGetTimestamp(scalars[b]), &op, &value))
				return false;
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

int
filter_select_integers(Range *range, const Datum *scalars, const Column *column,
					   const uint16 *rows, int n, uint16 *selected)
{
	int64		from;
	int64		to;
	uint64		span;
	int			k = 0;

	if (!find_ends(range, scalars, &from, &to))
		return 0;
	span = (uint64) to - (uint64) from;
#define IN_RANGE ((uint64) (int64) v - (uint64) from <= span)
	switch (range->type)
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

int
filter_select_integer_array(Range *range, const Datum *scalars, const Packed *packed, const uint16 *rows, int n,
							uint16 *selected)
{
	int64		from;
	int64		to;

	if (packed->kind != PACKED_INTEGERS)
		return -1;
	if (!find_ends(range, scalars, &from, &to))
		return 0;
	return filter_select_packed_integers(packed, from, to, rows, n, selected);
}

bool
filter_integers_excluded(Range *range, const Datum *scalars, const Bounds *bounds)
{
	int64		from;
	int64		to;

	if (bounds->floats || bounds->scale >= 0)
		return false;
	return !find_ends(range, scalars, &from, &to) || from > bounds->max || to < bounds->min;
}

bool
filter_integers_only(Range *range, const Datum *scalars, int64 *value)
{
	int64		to;

	return is_integer(range->type) && find_ends(range, scalars, value, &to) && *value == to;
}

/* How ranges of integers are looked for. */
#define INTEGER_RANGE \
	.select = filter_select_integers,.select_packed = filter_select_integer_array,.excludes = filter_integers_excluded, \
	.find_only = filter_integers_only

const CompareKind integer_comparisons[] = {
	{.applies = are_four_bytes,.compare = compare_four_bytes, INTEGER_RANGE},
	{.applies = are_eight_bytes,.compare = compare_eight_bytes, INTEGER_RANGE},
	{.applies = are_integers,.compare = compare_integers, INTEGER_RANGE},
	{NULL}
};
