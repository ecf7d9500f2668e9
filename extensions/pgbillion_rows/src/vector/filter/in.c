/*-------------------------------------------------------------------------
 *
 * in.c
 *	  IN and NOT IN, of an integer, a date or a timestamp and a list of
 *	  constants.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "vector/filter/predicate.h"

/* PostgreSQL hashes longer lists. */
#define MAX_ELEMENTS 32

typedef struct In
{
	Predicate	predicate;
	VectorExpr *operand;
	Oid			type;
	bool		null_element;
	bool		negated;		/* NOT IN */
	int			nelements;
	int64		elements[MAX_ELEMENTS];
} In;

static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/* Are values of these types equal if they are the same integers? */
static bool
are_integers(Oid left, Oid right)
{
	if (left == right && (left == DATEOID || left == TIMESTAMPOID || left == TIMESTAMPTZOID))
		return true;
	return is_integer(left) && is_integer(right);
}

static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) expr;
	Expr	   *left;
	Const	   *array;
	CompareOp	compare_op;
	Oid			element_type;
	ArrayType  *value;
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	int16		len;
	bool		byval;
	char		align;
	In		   *result;

	if (!IsA(expr, ScalarArrayOpExpr))
		return NULL;
	left = linitial(op->args);
	array = lsecond(op->args);
	if (!IsA(array, Const) || array->constisnull || !predicate_is_harmless(left))
		return NULL;
	value = DatumGetArrayTypeP(array->constvalue);
	element_type = ARR_ELEMTYPE(value);
	if (!are_integers(exprType((Node *) left), element_type) ||
		!predicate_find_op(op->opno, exprType((Node *) left), &compare_op) ||
		compare_op != (op->useOr ? OP_EQ : OP_NE))
		return NULL;
	get_typlenbyvalalign(element_type, &len, &byval, &align);
	deconstruct_array(value, element_type, len, byval, align, &elements, &nulls, &n);
	if (n > MAX_ELEMENTS)
		return NULL;
	result = predicate_create(sizeof(In), &in_kernel);
	result->operand = vector_expr_compile(left, context->batch);
	result->type = exprType((Node *) left);
	result->negated = !op->useOr;
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			result->null_element = true;
		else
			result->elements[result->nelements++] = int_of(elements[i], element_type);
	}
	return &result->predicate;
}

static bool
eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	In		   *in = (In *) predicate;
	Values		values;

	vector_expr_eval(in->operand, batch, rows, n, &values);
	for (int i = 0; i < n; i++)
	{
		int64		value = int_of(values.values[i], in->type);
		bool		found = false;

		for (int k = 0; k < in->nelements; k++)
			found |= in->elements[k] == value;
		/* NULL = ANY of no elements is false */
		if (values.nulls[i])
			truth[i] = in->nelements == 0 && !in->null_element ? TRUTH_FALSE : TRUTH_NULL;
		else
			truth[i] = found ? TRUTH_TRUE : in->null_element ? TRUTH_NULL : TRUTH_FALSE;
		if (in->negated && truth[i] != TRUTH_NULL)
			truth[i] = !truth[i];
	}
	return true;
}

const PredicateKernel in_kernel = {
	.compile = compile,
	.eval = eval,
};
