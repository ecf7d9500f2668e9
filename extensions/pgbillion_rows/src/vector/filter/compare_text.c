/*-------------------------------------------------------------------------
 *
 * compare_text.c
 *	  Equality of strings.
 *
 * Under a deterministic collation it is equality of bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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

static void
compare_texts(const Comparison *comparison, const Values *left, const Values *right, int n, uint8 *truth)
{
	bool		blank_padded = comparison->left_type == BPCHAROID;
	bool		wanted = comparison->op == OP_EQ;

	for (int i = 0; i < n; i++)
		truth[i] = !left->nulls[i] && !right->nulls[i] &&
			equal_text(left->values[i], right->values[i], blank_padded) == wanted;
}

const CompareKind text_comparisons[] = {
	{.applies = are_texts,.only_equality = true,.costly = true,.compare = compare_texts},
	{.applies = are_bpchars,.only_equality = true,.costly = true,.compare = compare_texts},
	{NULL}
};
