/*-------------------------------------------------------------------------
 *
 * in.c
 *	  IN and NOT IN, of an integer, a date or a timestamp and a list of
 *	  constants; and what is common to lists of all types.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"

#include "vector/filter/in_list.h"

/* PostgreSQL hashes longer lists. */
#define MAX_ELEMENTS 32

typedef struct In
{
	InList		list;
	Oid			type;
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

static void
find(const InList *list, const Values *values, int n, bool *found)
{
	const In   *in = (const In *) list;

	for (int i = 0; i < n; i++)
	{
		int64		value = int_of(values->values[i], in->type);

		found[i] = false;
		for (int k = 0; k < in->nelements; k++)
			found[i] |= in->elements[k] == value;
	}
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
	result->list.operand = vector_expr_compile(left, context->batch);
	result->list.negated = !op->useOr;
	result->list.empty = n == 0;
	result->list.find = find;
	result->type = exprType((Node *) left);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			result->list.null_element = true;
		else
			result->elements[result->nelements++] = int_of(elements[i], element_type);
	}
	return &result->list.predicate;
}

/* The truth of any list, by its find(). */
bool
in_list_eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	InList	   *list = (InList *) predicate;
	bool		found[BATCH_ROWS];
	Values		values;

	vector_expr_eval(list->operand, batch, rows, n, &values);
	list->find(list, &values, n, found);
	for (int i = 0; i < n; i++)
	{
		/* NULL = ANY of no elements is false */
		if (values.nulls[i])
			truth[i] = list->empty ? TRUTH_FALSE : TRUTH_NULL;
		else
			truth[i] = found[i] ? TRUTH_TRUE : list->null_element ? TRUTH_NULL : TRUTH_FALSE;
		if (list->negated && truth[i] != TRUTH_NULL)
			truth[i] = !truth[i];
	}
	return true;
}

/* Does a column have none of the elements in the next batches? */
static bool
excludes(Predicate *predicate, Batch *batch)
{
	In		   *in = (In *) predicate;
	const SourceMethods *methods = batch->source->methods;
	Datum		sought[MAX_ELEMENTS];
	Bounds		bounds;
	int			column;
	int			n = 0;

	if (in->list.negated || methods->bounds == NULL || !vector_expr_is_column(in->list.operand))
		return false;
	column = vector_expr_column(in->list.operand);
	/* as another type of the same bits, its numbers may be others */
	if (in->type != batch->columns[column].type || !methods->bounds(batch->source, batch, column, &bounds) ||
		bounds.floats || bounds.scale >= 0)
		return false;
	for (int i = 0; i < in->nelements; i++)
	{
		if (in->elements[i] >= bounds.min && in->elements[i] <= bounds.max)
			sought[n++] = Int64GetDatum(in->elements[i]);
	}
	return n == 0 || (is_integer(in->type) && predicate_seek(batch, column, INT8OID, sought, n));
}

const PredicateKernel in_kernel = {
	.compile = compile,
	.eval = in_list_eval,
	.excludes = excludes,
};
