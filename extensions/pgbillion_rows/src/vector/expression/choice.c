/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  CASE and COALESCE.
 *
 * Each part is evaluated for the rows that are still open, as PostgreSQL does
 * row by row: kernels raise no errors, but a parameter may be a subquery that
 * is not to be run unless a row comes to it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"

#include "planner/arithmetic.h"
#include "vector/expression/kernel.h"

typedef struct ChoiceExpr
{
	VectorExpr	expr;
	int			n;
	VectorExpr **conditions;	/* of the result in the same place; NULL: none
								 * for the last; COALESCE has no array */
	VectorExpr **results;
	bool		blends;			/* one condition, and two results that cost
								 * nothing */
} ChoiceExpr;

/* ---- compilation ---- */

/* Put the operand of CASE where it is referred to. */
static Node *
replace_test(Node *node, void *operand)
{
	if (node != NULL && IsA(node, CaseTestExpr))
		return operand;
	return expression_tree_mutator(node, replace_test, operand);
}

/* Does an expression have something within that may refer to another operand? */
static bool
has_inner_test(Node *node, void *context)
{
	return node != NULL && (IsA(node, CaseExpr) || IsA(node, ArrayCoerceExpr) ||
							expression_tree_walker(node, has_inner_test, context));
}

/* The condition of a WHEN, or NULL if it is not for us. */
static Expr *
condition_of(CaseExpr *expr, CaseWhen *when)
{
	if (expr->arg == NULL)
		return when->expr;
	/* evaluated for each WHEN: only what costs nothing */
	if (!IsA(planner_strip_relabel(expr->arg), Var) || has_inner_test((Node *) when->expr, NULL))
		return NULL;
	return (Expr *) replace_test((Node *) when->expr, expr->arg);
}

static ChoiceExpr *
create(int n)
{
	ChoiceExpr *result = vector_expr_create(sizeof(ChoiceExpr), &choice_kernel);

	result->results = palloc0(sizeof(VectorExpr *) * n);
	return result;
}

/* Is it there for all rows, whether they need it or not? */
static bool
is_there(const VectorExpr *expr)
{
	return expr->kernel == &column_kernel || (expr->kernel == &scalar_kernel && ((const ScalarExpr *) expr)->constant);
}

static VectorExpr *
compile_case(CaseExpr *expr, Batch *batch, CompileOperand operand)
{
	ChoiceExpr *result = create(list_length(expr->args) + 1);
	ListCell   *lc;

	result->conditions = palloc0(sizeof(VectorExpr *) * (list_length(expr->args) + 1));
	foreach(lc, expr->args)
	{
		CaseWhen   *when = lfirst_node(CaseWhen, lc);
		Expr	   *condition = condition_of(expr, when);

		if (condition == NULL ||
			(result->conditions[result->n] = operand(condition, batch)) == NULL ||
			(result->results[result->n] = operand(when->result, batch)) == NULL)
			return NULL;
		result->n++;
	}
	if (expr->defresult == NULL || (result->results[result->n] = operand(expr->defresult, batch)) == NULL)
		return NULL;
	result->n++;
	result->blends = result->n == 2 && is_there(result->results[0]) && is_there(result->results[1]);
	return &result->expr;
}

static VectorExpr *
compile_coalesce(CoalesceExpr *expr, Batch *batch, CompileOperand operand)
{
	ChoiceExpr *result = create(list_length(expr->args));
	ListCell   *lc;

	foreach(lc, expr->args)
	{
		if ((result->results[result->n++] = operand(lfirst(lc), batch)) == NULL)
			return NULL;
	}
	return &result->expr;
}

static VectorExpr *
compile(Expr *expr, Batch *batch, CompileOperand operand)
{
	if (IsA(expr, CaseExpr))
		return compile_case((CaseExpr *) expr, batch, operand);
	if (IsA(expr, CoalesceExpr))
		return compile_coalesce((CoalesceExpr *) expr, batch, operand);
	return NULL;
}

/* ---- evaluation ---- */

/* The rows that are still open, and the places of their results. */
typedef struct Open
{
	int			n;
	uint16		rows[BATCH_ROWS];
	uint16		places[BATCH_ROWS];
} Open;

static void
set_result(ChoiceExpr *choice, int place, const Values *values, int i)
{
	choice->expr.values[place] = values->values[i];
	choice->expr.nulls[place] = values->has_nulls && values->nulls[i];
}

/* Decide the rows for which a condition is true. */
static bool
decide(ChoiceExpr *choice, int part, Batch *batch, Open *open)
{
	uint16		rows[BATCH_ROWS];
	uint16		places[BATCH_ROWS];
	Values		values;
	int			chosen = 0;
	int			left = 0;

	if (choice->conditions[part] == NULL)
	{
		memcpy(rows, open->rows, sizeof(uint16) * open->n);
		memcpy(places, open->places, sizeof(uint16) * open->n);
		chosen = open->n;
	}
	else
	{
		if (!choice->conditions[part]->kernel->eval(choice->conditions[part], batch, open->rows, open->n, &values))
			return false;
		for (int i = 0; i < open->n; i++)
		{
			if (DatumGetBool(values.values[i]) && !(values.has_nulls && values.nulls[i]))
			{
				rows[chosen] = open->rows[i];
				places[chosen++] = open->places[i];
			}
			else
			{
				open->rows[left] = open->rows[i];
				open->places[left++] = open->places[i];
			}
		}
	}
	open->n = left;
	if (chosen == 0)
		return true;
	if (!choice->results[part]->kernel->eval(choice->results[part], batch, rows, chosen, &values))
		return false;
	for (int i = 0; i < chosen; i++)
		set_result(choice, places[i], &values, i);
	return true;
}

/* Decide the rows for which a part of COALESCE is not NULL. */
static bool
decide_not_null(ChoiceExpr *choice, int part, Batch *batch, Open *open)
{
	Values		values;
	int			left = 0;

	if (!choice->results[part]->kernel->eval(choice->results[part], batch, open->rows, open->n, &values))
		return false;
	for (int i = 0; i < open->n; i++)
	{
		set_result(choice, open->places[i], &values, i);
		if (values.has_nulls && values.nulls[i])
		{
			open->rows[left] = open->rows[i];
			open->places[left++] = open->places[i];
		}
	}
	open->n = left;
	return true;
}

/* Take one of two results of each row. */
static bool
blend(ChoiceExpr *choice, Batch *batch, const uint16 *rows, int n, Values *result)
{
	VectorExpr *expr = &choice->expr;
	Values		condition;
	Values		values[2];

	if (!choice->conditions[0]->kernel->eval(choice->conditions[0], batch, rows, n, &condition) ||
		!choice->results[0]->kernel->eval(choice->results[0], batch, rows, n, &values[0]) ||
		!choice->results[1]->kernel->eval(choice->results[1], batch, rows, n, &values[1]))
		return false;
	result->values = expr->values;
	result->nulls = expr->nulls;
	result->has_nulls = values[0].has_nulls || values[1].has_nulls;
	if (!condition.has_nulls && !result->has_nulls)
	{
		for (int i = 0; i < n; i++)
			expr->values[i] = DatumGetBool(condition.values[i]) ? values[0].values[i] : values[1].values[i];
		memset(expr->nulls, 0, sizeof(bool) * n);
		return true;
	}
	for (int i = 0; i < n; i++)
	{
		bool		chosen = DatumGetBool(condition.values[i]) && !(condition.has_nulls && condition.nulls[i]);
		const Values *from = &values[chosen ? 0 : 1];

		expr->values[i] = from->values[i];
		expr->nulls[i] = from->has_nulls && from->nulls[i];
	}
	return true;
}

static bool
eval(VectorExpr *expr, Batch *batch, const uint16 *rows, int n, Values *result)
{
	ChoiceExpr *choice = (ChoiceExpr *) expr;
	Open		open;

	if (choice->blends)
		return blend(choice, batch, rows, n, result);
	open.n = n;
	for (int i = 0; i < n; i++)
	{
		open.rows[i] = rows != NULL ? rows[i] : i;
		open.places[i] = i;
	}
	for (int part = 0; part < choice->n && open.n > 0; part++)
	{
		if (!(choice->conditions != NULL ? decide(choice, part, batch, &open) :
			  decide_not_null(choice, part, batch, &open)))
			return false;
	}
	result->values = expr->values;
	result->nulls = expr->nulls;
	result->has_nulls = false;
	for (int i = 0; i < n; i++)
		result->has_nulls |= expr->nulls[i];
	return true;
}

const ExprKernel choice_kernel = {
	.compile = compile,
	.eval = eval,
};
