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

const CompareKind float_comparisons[] = {
	{.applies = are_floats,.compare = compare_floats,.select = select_floats,.one_bound = true},
	{NULL}
};
