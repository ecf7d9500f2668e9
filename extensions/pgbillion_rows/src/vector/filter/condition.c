/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  A condition as a value: an argument, a group key, or the WHEN of a CASE.
 *
 * It is in this folder because it is made of predicates; the table of kernels
 * of expressions has it.
 *
 * Of one column, and unable to raise an error, a condition is evaluated once for
 * every value of a dictionary.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "vector/expression/kernel.h"
#include "vector/filter/filter.h"
#include "vector/filter/predicate.h"

typedef struct ConditionExpr
{
	VectorExpr	expr;
	Predicate  *predicate;
	int			column;			/* of which alone it is, or -1 */
	uint64		serial;			/* of the dictionary whose truth is known */
	uint8	   *truth;			/* of each code */
	int			room;			/* number of those that have room */
} ConditionExpr;

/* The column of the batch that is all a condition looks at, or -1. */
static int
only_column(Expr *expr, Batch *batch)
{
	Bitmapset  *attnos = batch_attnos(list_make1(expr));
	int			attno;

	return bms_get_singleton_member(attnos, &attno) ? batch_index(batch, attno) : -1;
}

static VectorExpr *
compile(Expr *expr, Batch *batch, CompileOperand operand)
{
	ConditionExpr *result;
	Predicate  *predicate;

	/* a boolean column, or a constant, is a value already */
	if (!IsA(expr, OpExpr) && !IsA(expr, ScalarArrayOpExpr) && !IsA(expr, BoolExpr) && !IsA(expr, NullTest))
		return NULL;
	predicate = vector_condition_compile(expr, batch);
	if (predicate == NULL)
		return NULL;
	result = vector_expr_create(sizeof(ConditionExpr), &condition_kernel);
	result->predicate = predicate;
	result->column = -1;
	if (batch->source != NULL && batch->source->methods->codes != NULL && vector_condition_is_certain(expr, batch))
		result->column = only_column(expr, batch);
	return &result->expr;
}

/* Find the truth for all values of a dictionary; false if PostgreSQL has to find it. */
static bool
find_truth(ConditionExpr *condition, Batch *batch, const Codes *codes)
{
	Predicate  *predicate = condition->predicate;
	bool		found = true;

	if (codes->n > condition->room)
	{
		if (condition->truth != NULL)
			pfree(condition->truth);
		condition->room = Max(codes->n, SHORT_CODES);
		condition->truth = MemoryContextAlloc(GetMemoryChunkContext(batch->columns), condition->room);
	}
	/* what is known of another is overwritten */
	condition->serial = 0;
	for (int from = 0; from < codes->n && found; from += BATCH_ROWS)
	{
		Batch		values;

		dictionary_batch_begin(&values, batch, condition->column, codes, from);
		found = predicate->kernel->eval(predicate, &values, NULL, values.n, condition->truth + from);
		dictionary_batch_end(&values, batch, condition->column);
	}
	if (found)
		condition->serial = codes->serial;
	return found;
}

/* Find the truth of rows by their codes; false if there are none, or that takes longer. */
static bool
eval_by_code(ConditionExpr *condition, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Codes		codes;

	if (condition->column < 0 || !batch_codes(batch, condition->column, &codes))
		return false;
	if (codes.serial != condition->serial &&
		(codes.n > n * BATCHES_OF_DICTIONARY || !find_truth(condition, batch, &codes)))
		return false;
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;

		truth[i] = condition->truth[codes.codes != NULL ? codes.codes[row] : codes.long_codes[row]];
	}
	return true;
}

static bool
eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	ConditionExpr *condition = (ConditionExpr *) expr;
	Predicate  *predicate = condition->predicate;
	uint8	   *truth = predicate->truth;

	if (!eval_by_code(condition, batch, rows, n, truth) &&
		!predicate->kernel->eval(predicate, batch, rows, n, truth))
		return false;
	result->has_nulls = false;
	for (int i = 0; i < n; i++)
	{
		expr->values[i] = BoolGetDatum(truth[i] == TRUTH_TRUE);
		expr->nulls[i] = truth[i] == TRUTH_NULL;
		result->has_nulls |= expr->nulls[i];
	}
	result->values = expr->values;
	result->nulls = expr->nulls;
	return true;
}

const ExprKernel condition_kernel = {
	.compile = compile,
	.eval = eval,
};
