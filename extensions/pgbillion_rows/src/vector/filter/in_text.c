/*-------------------------------------------------------------------------
 *
 * in_text.c
 *	  IN and NOT IN, of a string and a list of constants.
 *
 * Under a deterministic collation it is equality of bytes, without the blanks
 * at the end of char(n). The lengths of the list tell of most strings that they
 * are not in it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "vector/filter/in_list.h"

/* Beyond that PostgreSQL's hash table is faster. */
#define MAX_ELEMENTS 64

typedef struct InText
{
	InList		list;
	bool		padded;			/* char(n) */
	uint64		lengths;		/* bit i: an element's length is i modulo 64 */
	int			nelements;
	struct
	{
		const char *data;
		Size		len;
	}			elements[MAX_ELEMENTS];
	Datum		values[MAX_ELEMENTS];	/* the same, as they are */
} InText;

/* The length of a string as far as it counts. */
static Size
length_of(const InText *in, struct varlena *text)
{
	int			len = VARSIZE_ANY_EXHDR(text);

	return in->padded ? bpchartruelen(VARDATA_ANY(text), len) : len;
}

static bool
contains(const InText *in, Datum value)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	const char *data = VARDATA_ANY(text);
	Size		len = length_of(in, text);
	bool		found = false;

	if ((in->lengths >> len % 64 & 1) != 0)
	{
		for (int k = 0; k < in->nelements && !found; k++)
			found = in->elements[k].len == len && memcmp(in->elements[k].data, data, len) == 0;
	}
	if ((Pointer) text != DatumGetPointer(value))
		pfree(text);
	return found;
}

static void
find(const InList *list, const Values *values, int n, bool *found)
{
	for (int i = 0; i < n; i++)
		found[i] = !(values->has_nulls && values->nulls[i]) && contains((const InText *) list, values->values[i]);
}

static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) expr;
	Expr	   *left;
	Oid			type;
	Const	   *array;
	CompareOp	compare_op;
	ArrayType  *value;
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	InText	   *result;

	if (!IsA(expr, ScalarArrayOpExpr))
		return NULL;
	left = linitial(op->args);
	array = lsecond(op->args);
	type = getBaseType(exprType((Node *) left));
	if (!IsA(array, Const) || array->constisnull || (type != TEXTOID && type != BPCHAROID) ||
		!predicate_is_harmless(left) ||
		!OidIsValid(op->inputcollid) || !get_collation_isdeterministic(op->inputcollid))
		return NULL;
	value = DatumGetArrayTypeP(array->constvalue);
	if (ARR_ELEMTYPE(value) != type ||
		!predicate_find_op(op->opno, type, &compare_op) || compare_op != (op->useOr ? OP_EQ : OP_NE))
		return NULL;
	deconstruct_array(value, type, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	if (n > MAX_ELEMENTS)
		return NULL;
	result = predicate_create(sizeof(InText), &in_text_kernel);
	result->list.predicate.costly = true;
	result->list.operand = vector_expr_compile(left, context->batch);
	result->list.negated = !op->useOr;
	result->list.empty = n == 0;
	result->list.find = find;
	result->padded = type == BPCHAROID;
	for (int i = 0; i < n; i++)
	{
		struct varlena *text;

		if (nulls[i])
		{
			result->list.null_element = true;
			continue;
		}
		text = PG_DETOAST_DATUM_PACKED(elements[i]);
		result->values[result->nelements] = PointerGetDatum(text);
		result->elements[result->nelements].data = VARDATA_ANY(text);
		result->elements[result->nelements].len = length_of(result, text);
		result->lengths |= UINT64CONST(1) << result->elements[result->nelements++].len % 64;
	}
	return &result->list.predicate;
}

/* Does a column have none of the elements in the next batches? */
static bool
excludes(Predicate *predicate, Batch *batch)
{
	InText	   *in = (InText *) predicate;

	return !in->list.negated && vector_expr_is_column(in->list.operand) &&
		(in->nelements == 0 ||
		 predicate_seek(batch, vector_expr_column(in->list.operand), in->padded ? BPCHAROID : TEXTOID,
						in->values, in->nelements));
}

const PredicateKernel in_text_kernel = {
	.compile = compile,
	.eval = in_list_eval,
	.excludes = excludes,
};
