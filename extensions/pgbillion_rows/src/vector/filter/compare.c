/*-------------------------------------------------------------------------
 *
 * compare.c
 *	  Comparisons over the rows of a batch: the table of their kinds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "planner/planner.h"
#include "vector/filter/predicate.h"

static const CompareKind *const families[] = {
	integer_comparisons,
	float_comparisons,
	numeric_comparisons,
	time_comparisons,
	text_comparisons,
	uuid_comparisons,
};

/* How values of two types are compared, or NULL if there is no kernel for it. */
static const CompareKind *
find_kind(Oid left, Oid right, CompareOp op, Oid collation)
{
	for (int f = 0; f < lengthof(families); f++)
	{
		for (const CompareKind *kind = families[f]; kind->applies != NULL; kind++)
		{
			if (!kind->applies(left, right))
				continue;
			if (kind->of_strings && !planner_compares_bytes(collation) &&
				((op != OP_EQ && op != OP_NE) ||
				 !OidIsValid(collation) || !get_collation_isdeterministic(collation)))
				return NULL;
			return kind;
		}
	}
	return NULL;
}

static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	OpExpr	   *op = (OpExpr *) expr;
	Comparison *result;
	const CompareKind *kind;
	CompareOp	compare_op;
	Expr	   *left;
	Expr	   *right;
	Oid			left_type;
	Oid			right_type;
	bool		harmless;
	Predicate  *range;

	if (!IsA(expr, OpExpr) || list_length(op->args) != 2)
		return NULL;
	left = linitial(op->args);
	right = lsecond(op->args);
	left_type = getBaseType(exprType((Node *) left));
	right_type = getBaseType(exprType((Node *) right));
	if (!predicate_find_op(op->opno, left_type, &compare_op))
		return NULL;
	kind = find_kind(left_type, right_type, compare_op, op->inputcollid);
	harmless = predicate_is_harmless(left) && predicate_is_harmless(right);
	if (kind == NULL || !(context->top || harmless))
		return NULL;
	result = predicate_create(sizeof(Comparison), &compare_kernel);
	result->predicate.costly = kind->costly || vector_expr_text(left) != NULL || vector_expr_text(right) != NULL;
	result->kind = kind;
	result->harmless = harmless;
	result->op = compare_op;
	result->left_type = left_type;
	result->right_type = right_type;
	result->left = vector_expr_compile(left, context->batch);
	result->right = vector_expr_compile(right, context->batch);

	range = context->top ? predicate_range_of(result) : NULL;
	return range != NULL ? range : &result->predicate;
}

static bool
eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Comparison *comparison = (Comparison *) predicate;
	Values		left;
	Values		right;

	if (comparison->kind->compare_batch != NULL &&
		comparison->kind->compare_batch(comparison, batch, rows, n, truth))
		return true;
	vector_expr_eval(comparison->left, batch, rows, n, &left);
	vector_expr_eval(comparison->right, batch, rows, n, &right);
	comparison->kind->compare(comparison, &left, &right, n, truth);
	if (left.has_nulls || right.has_nulls)
	{
		for (int i = 0; i < n; i++)
		{
			if (left.nulls[i] || right.nulls[i])
				truth[i] = TRUTH_NULL;
		}
	}
	return true;
}

/* Is a column compared with what is the same for all rows, and that equals no row of the next batches? */
static bool
excludes(Predicate *predicate, Batch *batch)
{
	Comparison *comparison = (Comparison *) predicate;
	Oid			type = comparison->kind->sought_as;
	bool		on_right = vector_expr_is_scalar(comparison->right);
	VectorExpr *column = on_right ? comparison->left : comparison->right;
	VectorExpr *scalar = on_right ? comparison->right : comparison->left;
	Datum		value;
	Datum		sought;
	bool		isnull;
	bool		result;

	if (!OidIsValid(type) || comparison->op != OP_EQ || !comparison->harmless ||
		batch->source->methods->seek == NULL || !vector_expr_is_column(column) || !vector_expr_is_scalar(scalar))
		return false;
	value = sought = vector_expr_scalar(scalar, batch, &isnull);
	if (isnull)
		return true;
	if (get_typlen(type) == -1)
		sought = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
	result = predicate_seek(batch, vector_expr_column(column), type, &sought, 1);
	if (sought != value)
		pfree(DatumGetPointer(sought));

	return result;
}

const PredicateKernel compare_kernel = {
	.compile = compile,
	.eval = eval,
	.excludes = excludes,
};
