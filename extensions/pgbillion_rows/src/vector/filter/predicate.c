/*-------------------------------------------------------------------------
 *
 * predicate.c
 *	  What kernels of conditions ask when they compile.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/transam.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "planner/arithmetic.h"
#include "vector/filter/predicate.h"

/* A kernel's predicate, zeroed, in the current context. */
void *
predicate_create(Size size, const PredicateKernel *kernel)
{
	Predicate  *result = palloc0(size);

	result->kernel = kernel;
	result->truth = palloc(BATCH_ROWS);
	return result;
}

/* Can an operand be evaluated for rows that PostgreSQL would not have come to? */
bool
predicate_is_harmless(Expr *expr)
{
	Expr	   *text;

	while ((text = vector_expr_text(expr)) != NULL)
		expr = text;
	expr = planner_strip_relabel(expr);
	/* an internal parameter may be a subquery that would not have been run */
	return IsA(expr, Var) || IsA(expr, Const) ||
		(IsA(expr, Param) && ((Param *) expr)->paramkind == PARAM_EXTERN);
}

/* Which comparison an operator of PostgreSQL is, by its btree strategy; `left` is the left side's type. */
bool
predicate_find_op(Oid opno, Oid left, CompareOp *op)
{
	Oid			family = lookup_type_cache(left, TYPECACHE_BTREE_OPFAMILY)->btree_opf;
	int			strategy;

	if (opno >= FirstNormalObjectId || !OidIsValid(family))
		return false;
	strategy = get_op_opfamily_strategy(opno, family);
	if (strategy == 0)
	{
		Oid			negator = get_negator(opno);

		if (!OidIsValid(negator) ||
			get_op_opfamily_strategy(negator, family) != BTEqualStrategyNumber)
			return false;
		*op = OP_NE;
		return true;
	}
	switch (strategy)
	{
		case BTLessStrategyNumber:
			*op = OP_LT;
			return true;
		case BTLessEqualStrategyNumber:
			*op = OP_LE;
			return true;
		case BTEqualStrategyNumber:
			*op = OP_EQ;
			return true;
		case BTGreaterEqualStrategyNumber:
			*op = OP_GE;
			return true;
		case BTGreaterStrategyNumber:
			*op = OP_GT;
			return true;
	}
	return false;
}
