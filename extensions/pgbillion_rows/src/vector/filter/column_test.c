/*-------------------------------------------------------------------------
 *
 * column_test.c
 *	  Tests of a column: IS NULL, IS NOT NULL, and a boolean itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "planner/arithmetic.h"
#include "vector/filter/predicate.h"

typedef struct Test
{
	Predicate	predicate;
	VectorExpr *operand;
	bool		wants_null;		/* IS NULL */
} Test;

static Predicate *
compile_null(Expr *expr, const PredicateContext *context)
{
	NullTest   *test = (NullTest *) expr;
	Test	   *result;

	if (!IsA(expr, NullTest) || test->argisrow || !IsA(planner_strip_relabel(test->arg), Var))
		return NULL;
	result = predicate_create(sizeof(Test), &null_kernel);
	result->operand = vector_expr_compile(test->arg, context->batch);
	result->wants_null = test->nulltesttype == IS_NULL;
	result->predicate.of_nulls = vector_expr_is_column(result->operand);
	return &result->predicate;
}

static bool
eval_null(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Test	   *test = (Test *) predicate;
	bool		found[BATCH_ROWS];
	const bool *nulls = found;

	if (!vector_expr_is_column(test->operand) ||
		!batch_find_nulls(batch, vector_expr_column(test->operand), rows, n, found))
	{
		Values		values;

		vector_expr_eval(test->operand, batch, rows, n, &values);
		nulls = values.nulls;
	}
	for (int i = 0; i < n; i++)
		truth[i] = nulls[i] == test->wants_null;
	return true;
}

/* Is one kind of rows, those with NULL or those without, known to be missing? */
static bool
excludes_null(Predicate *predicate, Batch *batch)
{
	Test	   *test = (Test *) predicate;
	Source	   *source = batch->source;
	bool		(*lacks) (Source *source, Batch *batch, int column) =
		test->wants_null ? source->methods->has_no_nulls : source->methods->has_only_nulls;

	return predicate->of_nulls && lacks != NULL && lacks(source, batch, vector_expr_column(test->operand));
}

static Predicate *
compile_boolean(Expr *expr, const PredicateContext *context)
{
	Test	   *result;

	if (!IsA(expr, Var) || exprType((Node *) expr) != BOOLOID)
		return NULL;
	result = predicate_create(sizeof(Test), &boolean_kernel);
	result->operand = vector_expr_compile(expr, context->batch);
	return &result->predicate;
}

static bool
eval_boolean(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Values		values;

	vector_expr_eval(((Test *) predicate)->operand, batch, rows, n, &values);
	for (int i = 0; i < n; i++)
		truth[i] = values.nulls[i] ? TRUTH_NULL : DatumGetBool(values.values[i]);
	return true;
}

const PredicateKernel null_kernel = {
	.compile = compile_null,
	.eval = eval_null,
	.excludes = excludes_null,
};

const PredicateKernel boolean_kernel = {
	.compile = compile_boolean,
	.eval = eval_boolean,
};
