/*-------------------------------------------------------------------------
 *
 * compare_text.c
 *	  Comparisons of strings.
 *
 * Under a deterministic collation, equality is that of bytes, and so is order
 * under one that compares bytes, as "C" does.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/builtins.h"

#include "vector/filter/predicate.h"

static bool
are_texts(Oid left, Oid right)
{
	return left == TEXTOID && right == TEXTOID;
}

static bool
are_bpchars(Oid left, Oid right)
{
	return left == BPCHAROID && right == BPCHAROID;
}

/* Which of two strings comes first, by their bytes: less than, equal to or greater than 0. */
static inline int
order_of(const char *a, Size a_len, const char *b, Size b_len)
{
	int			order = memcmp(a, b, Min(a_len, b_len));

	return order != 0 ? order : a_len < b_len ? -1 : a_len > b_len;
}

static bool
texts_satisfy(CompareOp op, Datum left, Datum right, bool blank_padded)
{
	struct varlena *a = PG_DETOAST_DATUM_PACKED(left);
	struct varlena *b = PG_DETOAST_DATUM_PACKED(right);
	Size		a_len = VARSIZE_ANY_EXHDR(a);
	Size		b_len = VARSIZE_ANY_EXHDR(b);
	bool		result;

	if (blank_padded)
	{
		a_len = bpchartruelen(VARDATA_ANY(a), a_len);
		b_len = bpchartruelen(VARDATA_ANY(b), b_len);
	}
	if (op == OP_EQ || op == OP_NE)
		result = (a_len == b_len && memcmp(VARDATA_ANY(a), VARDATA_ANY(b), a_len) == 0) == (op == OP_EQ);
	else
		result = holds(op, order_of(VARDATA_ANY(a), a_len, VARDATA_ANY(b), b_len));
	/* they may be large */
	if ((Pointer) a != DatumGetPointer(left))
		pfree(a);
	if ((Pointer) b != DatumGetPointer(right))
		pfree(b);

	return result;
}

/* What all rows are compared with. */
typedef struct Scalar
{
	const char *data;
	Size		len;			/* without blanks that do not count */
	bool		blank_padded;
} Scalar;

static bool
equals_scalar(const Scalar *scalar, Datum value)
{
	struct varlena *text = (struct varlena *) DatumGetPointer(value);
	bool		in_row = !VARATT_IS_COMPRESSED(text) && !VARATT_IS_EXTERNAL(text);
	Size		len;
	bool		equal;

	if (!in_row)
	{
		/* strings of other lengths are not fetched */
		if (!scalar->blank_padded && toast_raw_datum_size(value) - VARHDRSZ != scalar->len)
			return false;
		text = pg_detoast_datum_packed(text);
	}
	len = VARSIZE_ANY_EXHDR(text);
	if (scalar->blank_padded)
		len = bpchartruelen(VARDATA_ANY(text), len);
	equal = len == scalar->len &&
		(len == 0 || (*VARDATA_ANY(text) == *scalar->data && memcmp(VARDATA_ANY(text), scalar->data, len) == 0));
	if (!in_row)
		pfree(text);

	return equal;
}

/* Does a value satisfy a comparison with the scalar, which is on the right, other than = and <>? */
static bool
is_ordered(const Scalar *scalar, CompareOp op, Datum value)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	Size		len = VARSIZE_ANY_EXHDR(text);
	bool		result;

	if (scalar->blank_padded)
		len = bpchartruelen(VARDATA_ANY(text), len);
	result = holds(op, order_of(VARDATA_ANY(text), len, scalar->data, scalar->len));
	if ((Pointer) text != DatumGetPointer(value))
		pfree(text);

	return result;
}

/* Compare with what is the same for all rows; false if neither side is that. */
static bool
compare_with_scalar(const Comparison *comparison, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	bool		on_right = vector_expr_is_scalar(comparison->right);
	Scalar		scalar = {.blank_padded = comparison->left_type == BPCHAROID};
	CompareOp	op = on_right ? comparison->op : commuted_op(comparison->op);
	struct varlena *text;
	Values		values;
	bool		isnull;
	Datum		datum;

	if (on_right == vector_expr_is_scalar(comparison->left))
		return false;
	vector_expr_eval(on_right ? comparison->left : comparison->right, batch, rows, n, &values);
	datum = vector_expr_scalar(on_right ? comparison->right : comparison->left, batch, &isnull);
	if (isnull)
	{
		memset(truth, TRUTH_NULL, n);
		return true;
	}
	text = PG_DETOAST_DATUM_PACKED(datum);
	scalar.data = VARDATA_ANY(text);
	scalar.len = VARSIZE_ANY_EXHDR(text);
	if (scalar.blank_padded)
		scalar.len = bpchartruelen(VARDATA_ANY(text), scalar.len);
	for (int i = 0; i < n; i++)
	{
		if (values.has_nulls && values.nulls[i])
			truth[i] = TRUTH_NULL;
		else if (op == OP_EQ || op == OP_NE)
			truth[i] = equals_scalar(&scalar, values.values[i]) == (op == OP_EQ);
		else
			truth[i] = is_ordered(&scalar, op, values.values[i]);
	}
	return true;
}

static void
compare_texts(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	bool		blank_padded = comparison->left_type == BPCHAROID;

	for (int i = 0; i < n; i++)
		truth[i] = !left->nulls[i] && !right->nulls[i] &&
			texts_satisfy(comparison->op, left->values[i], right->values[i], blank_padded);
}

const CompareKind text_comparisons[] = {
	{
		.applies = are_texts,
		.of_strings = true,
		.costly = true,
		.compare = compare_texts,
		.compare_batch = compare_with_scalar,
		.sought_as = TEXTOID,
	},
	{
		.applies = are_bpchars,
		.of_strings = true,
		.costly = true,
		.compare = compare_texts,
		.compare_batch = compare_with_scalar,
		.sought_as = BPCHAROID,
	},
	{NULL}
};
