/*-------------------------------------------------------------------------
 *
 * in_text.c
 *	  IN and NOT IN, of a string and a list of constants.
 *
 * Under a deterministic collation it is equality of bytes. The lengths of the
 * list tell of most strings that they are not in it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "vector/filter/predicate.h"

/* Beyond that PostgreSQL's hash table is faster. */
#define MAX_ELEMENTS 64

typedef struct InText
{
	Predicate	predicate;
	VectorExpr *operand;
	bool		null_element;
	bool		negated;		/* NOT IN */
	uint64		lengths;		/* bit i: an element's length is i modulo 64 */
	int			nelements;
	struct
	{
		const char *data;
		Size		len;
	}			elements[MAX_ELEMENTS];
} InText;

static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) expr;
	Expr	   *left;
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
	if (!IsA(array, Const) || array->constisnull || getBaseType(exprType((Node *) left)) != TEXTOID ||
		!predicate_is_harmless(left) ||
		!OidIsValid(op->inputcollid) || !get_collation_isdeterministic(op->inputcollid))
		return NULL;
	value = DatumGetArrayTypeP(array->constvalue);
	if (ARR_ELEMTYPE(value) != TEXTOID ||
		!predicate_find_op(op->opno, TEXTOID, &compare_op) || compare_op != (op->useOr ? OP_EQ : OP_NE))
		return NULL;
	deconstruct_array(value, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	if (n > MAX_ELEMENTS)
		return NULL;
	result = predicate_create(sizeof(InText), &in_text_kernel);
	result->predicate.costly = true;
	result->operand = vector_expr_compile(left, context->batch);
	result->negated = !op->useOr;
	for (int i = 0; i < n; i++)
	{
		struct varlena *text;

		if (nulls[i])
		{
			result->null_element = true;
			continue;
		}
		text = PG_DETOAST_DATUM_PACKED(elements[i]);
		result->elements[result->nelements].data = VARDATA_ANY(text);
		result->elements[result->nelements].len = VARSIZE_ANY_EXHDR(text);
		result->lengths |= UINT64CONST(1) << result->elements[result->nelements++].len % 64;
	}
	return &result->predicate;
}

static bool
contains(const InText *in, Datum value)
{
	struct varlena *text = PG_DETOAST_DATUM_PACKED(value);
	const char *data = VARDATA_ANY(text);
	Size		len = VARSIZE_ANY_EXHDR(text);
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

static bool
eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	InText	   *in = (InText *) predicate;
	Values		values;

	vector_expr_eval(in->operand, batch, rows, n, &values);
	for (int i = 0; i < n; i++)
	{
		/* NULL = ANY of no elements is false */
		if (values.nulls[i])
			truth[i] = in->nelements == 0 && !in->null_element ? TRUTH_FALSE : TRUTH_NULL;
		else
			truth[i] = contains(in, values.values[i]) ? TRUTH_TRUE : in->null_element ? TRUTH_NULL : TRUTH_FALSE;
		if (in->negated && truth[i] != TRUTH_NULL)
			truth[i] = !truth[i];
	}
	return true;
}

const PredicateKernel in_text_kernel = {
	.compile = compile,
	.eval = eval,
};
