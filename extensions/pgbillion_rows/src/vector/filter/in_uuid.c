/*-------------------------------------------------------------------------
 *
 * in_uuid.c
 *	  IN and NOT IN, of a UUID and a list of constants.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/uuid.h"

#include "vector/filter/in_list.h"

/* PostgreSQL hashes longer lists. */
#define MAX_ELEMENTS 32

typedef struct InUuid
{
	InList		list;
	int			nelements;
	uint64		elements[MAX_ELEMENTS][2];
	Datum		values[MAX_ELEMENTS];	/* the same, as they are */
} InUuid;

static void
find(const InList *list, const Values *values, int n, bool *found)
{
	const InUuid *in = (const InUuid *) list;

	for (int i = 0; i < n; i++)
	{
		uint64		value[2];

		found[i] = false;
		if (values->nulls[i])
			continue;
		memcpy(value, DatumGetPointer(values->values[i]), sizeof(value));
		for (int k = 0; k < in->nelements; k++)
			found[i] |= in->elements[k][0] == value[0] && in->elements[k][1] == value[1];
	}
}

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
	InUuid	   *result;

	StaticAssertStmt(UUID_LEN == 2 * sizeof(uint64), "words of a UUID");
	if (!IsA(expr, ScalarArrayOpExpr))
		return NULL;
	left = linitial(op->args);
	array = lsecond(op->args);
	if (!IsA(array, Const) || array->constisnull || getBaseType(exprType((Node *) left)) != UUIDOID ||
		!predicate_is_harmless(left))
		return NULL;
	value = DatumGetArrayTypeP(array->constvalue);
	if (ARR_ELEMTYPE(value) != UUIDOID || !predicate_find_op(op->opno, UUIDOID, &compare_op) ||
		compare_op != (op->useOr ? OP_EQ : OP_NE))
		return NULL;
	deconstruct_array(value, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR, &elements, &nulls, &n);
	if (n > MAX_ELEMENTS)
		return NULL;
	result = predicate_create(sizeof(InUuid), &in_uuid_kernel);
	result->list.operand = vector_expr_compile(left, context->batch);
	result->list.negated = !op->useOr;
	result->list.empty = n == 0;
	result->list.find = find;
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
		{
			result->list.null_element = true;
			continue;
		}
		memcpy(result->elements[result->nelements], DatumGetPointer(elements[i]), UUID_LEN);
		result->values[result->nelements++] = elements[i];
	}
	return &result->list.predicate;
}

/* Does a column have none of the elements in the next batches? */
static bool
excludes(Predicate *predicate, Batch *batch)
{
	InUuid	   *in = (InUuid *) predicate;

	return !in->list.negated && vector_expr_is_column(in->list.operand) &&
		(in->nelements == 0 ||
		 predicate_seek(batch, vector_expr_column(in->list.operand), UUIDOID, in->values, in->nelements));
}

const PredicateKernel in_uuid_kernel = {
	.compile = compile,
	.eval = in_list_eval,
	.excludes = excludes,
};
