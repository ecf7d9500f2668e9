/*-------------------------------------------------------------------------
 *
 * compare.c
 *	  Comparisons over the rows of a batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/timestamp.h"

#include "vector/expression/decimal.h"
#include "vector/filter/filter.h"

/* The order of two numerics: -1, 0 or 1. */
int
filter_compare_numeric(Datum left, Datum right)
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

/* Equality of text under a deterministic collation is equality of bytes. */
static bool
equal_text(Datum left, Datum right, bool blank_padded)
{
	struct varlena *a = PG_DETOAST_DATUM_PACKED(left);
	struct varlena *b = PG_DETOAST_DATUM_PACKED(right);
	Size		a_len = VARSIZE_ANY_EXHDR(a);
	Size		b_len = VARSIZE_ANY_EXHDR(b);
	bool		equal;

	if (blank_padded)
	{
		a_len = bpchartruelen(VARDATA_ANY(a), a_len);
		b_len = bpchartruelen(VARDATA_ANY(b), b_len);
	}
	equal = a_len == b_len && memcmp(VARDATA_ANY(a), VARDATA_ANY(b), a_len) == 0;
	/* they may be large */
	if ((Pointer) a != DatumGetPointer(left))
		pfree(a);
	if ((Pointer) b != DatumGetPointer(right))
		pfree(b);

	return equal;
}

/* Numerics that are all small and of one scale a side; false if they are not. */
static bool
compare_decimals(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Decimals	left;
	Decimals	right;
	int64		left_unit;
	int64		right_unit;
	CompareOp	op = predicate->op;

	if (!vector_expr_decimals(predicate->left, batch, rows, n, &left) ||
		!vector_expr_decimals(predicate->right, batch, rows, n, &right))
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

void
filter_compare(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Values		left;
	Values		right;
	CompareOp	op = predicate->op;

	if (predicate->compare != COMPARE_NUMERIC)
	{
		vector_expr_eval(predicate->left, batch, rows, n, &left);
		vector_expr_eval(predicate->right, batch, rows, n, &right);
	}

#define EACH_OP(type, LEFT, RIGHT, LT, LE, EQ, GE, GT, NE) \
	do { \
	switch (op) \
	{ \
		case OP_LT: EACH(type, LEFT, RIGHT, LT); break; \
		case OP_LE: EACH(type, LEFT, RIGHT, LE); break; \
		case OP_EQ: EACH(type, LEFT, RIGHT, EQ); break; \
		case OP_GE: EACH(type, LEFT, RIGHT, GE); break; \
		case OP_GT: EACH(type, LEFT, RIGHT, GT); break; \
		case OP_NE: EACH(type, LEFT, RIGHT, NE); break; \
	} \
	} while (0)
#define EACH(type, LEFT, RIGHT, TEST) \
	for (int i = 0; i < n; i++) \
	{ \
		type		a = LEFT(left.values[i]); \
		type		b = RIGHT(right.values[i]); \
		truth[i] = TEST; \
	}
#define INTS(LEFT, RIGHT) \
	EACH_OP(int64, LEFT, RIGHT, a < b, a <= b, a == b, a >= b, a > b, a != b)
#define FLOATS(LEFT, RIGHT) \
	EACH_OP(float8, LEFT, RIGHT, float8_lt(a, b), float8_le(a, b), float8_eq(a, b), \
			float8_ge(a, b), float8_gt(a, b), float8_ne(a, b))
#define LEFT_INT(v) int_of(v, left_type)
#define RIGHT_INT(v) int_of(v, right_type)

	switch (predicate->compare)
	{
		case COMPARE_INT:
			{
				Oid			left_type = predicate->left_type;
				Oid			right_type = predicate->right_type;

				if (left_type == right_type && (left_type == INT4OID || left_type == DATEOID))
					INTS(DatumGetInt32, DatumGetInt32);
				else if (left_type == right_type && left_type != INT2OID && left_type != BOOLOID && left_type != OIDOID)
					INTS(DatumGetInt64, DatumGetInt64);
				else
					INTS(LEFT_INT, RIGHT_INT);
			}
			break;
		case COMPARE_FLOAT:

			/*
			 * as float48lt() and its like: real is promoted, which keeps the
			 * order
			 */
			if (predicate->left_type == FLOAT8OID && predicate->right_type == FLOAT8OID)
				FLOATS(DatumGetFloat8, DatumGetFloat8);
			else if (predicate->left_type == FLOAT8OID)
				FLOATS(DatumGetFloat8, DatumGetFloat4);
			else if (predicate->right_type == FLOAT8OID)
				FLOATS(DatumGetFloat4, DatumGetFloat8);
			else
				FLOATS(DatumGetFloat4, DatumGetFloat4);
			break;
		case COMPARE_NUMERIC:
			if (compare_decimals(predicate, batch, rows, n, truth))
				return;
			vector_expr_eval(predicate->left, batch, rows, n, &left);
			vector_expr_eval(predicate->right, batch, rows, n, &right);
			for (int i = 0; i < n; i++)
				truth[i] = !left.nulls[i] && !right.nulls[i] &&
					holds(op, filter_compare_numeric(left.values[i], right.values[i]));
			break;
		case COMPARE_TEXT:
		case COMPARE_BPCHAR:
			for (int i = 0; i < n; i++)
				truth[i] = !left.nulls[i] && !right.nulls[i] &&
					equal_text(left.values[i], right.values[i],
							   predicate->compare == COMPARE_BPCHAR) == (op == OP_EQ);
			break;
		case COMPARE_DATE_TIMESTAMP:
			for (int i = 0; i < n; i++)
				truth[i] = !left.nulls[i] && !right.nulls[i] &&
					holds(op, date_cmp_timestamp_internal(DatumGetDateADT(left.values[i]),
														  DatumGetTimestamp(right.values[i])));
			break;
		case COMPARE_TIMESTAMP_DATE:
			for (int i = 0; i < n; i++)
				truth[i] = !left.nulls[i] && !right.nulls[i] &&
					holds(op, -date_cmp_timestamp_internal(DatumGetDateADT(right.values[i]),
														   DatumGetTimestamp(left.values[i])));
			break;
	}
	if (left.has_nulls || right.has_nulls)
	{
		for (int i = 0; i < n; i++)
		{
			if (left.nulls[i] || right.nulls[i])
				truth[i] = TRUTH_NULL;
		}
	}
}
