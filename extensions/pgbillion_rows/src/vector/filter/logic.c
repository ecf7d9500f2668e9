/*-------------------------------------------------------------------------
 *
 * logic.c
 *	  AND, OR and NOT.
 *
 * They are computed for all rows with three-valued logic, without short
 * circuit. That is right only for operands that cannot raise errors: operands
 * are no terms of a filter, so that kernels compile no others. Strings are not
 * looked at for rows that are decided without, nor parameters, which may be
 * variables that have no value yet.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "vector/filter/predicate.h"

typedef struct Logic
{
	Predicate	predicate;
	BoolExprType op;
	List	   *args;			/* of Predicate */
} Logic;

static bool
has_param(Node *node, void *context)
{
	return node != NULL && (IsA(node, Param) || expression_tree_walker(node, has_param, context));
}

/*
 * Would all operands compile? Nothing of them is kept: thousands would take
 * much memory, and the planner's time is spent on fetching that.
 */
static bool
is_certain(List *args, const PredicateContext *context)
{
	PredicateContext within = *context;
	Batch		scratch = *context->batch;
	MemoryContext work = AllocSetContextCreate(CurrentMemoryContext, "pgbillion operands", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(work);
	bool		result = true;
	ListCell   *lc;

	within.batch = &scratch;
	foreach(lc, args)
	{
		/* it would remember what is compiled, to use it twice */
		scratch.decimals = NIL;
		/* PostgreSQL may not come to a parameter, which may have no value */
		result = within.compile(lfirst(lc), &within) != NULL &&
			(foreach_current_index(lc) == 0 || !has_param(lfirst(lc), NULL));
		if (!result)
			break;
		MemoryContextReset(work);
	}
	context->batch->nby_row = scratch.nby_row;
	MemoryContextSwitchTo(old);
	MemoryContextDelete(work);

	return result;
}

static Predicate *
compile(Expr *expr, const PredicateContext *context)
{
	BoolExpr   *boolean = (BoolExpr *) expr;
	PredicateContext within = *context;
	Logic	   *result;
	ListCell   *lc;

	if (!IsA(expr, BoolExpr))
		return NULL;
	within.top = false;
	if (context->certain)
		return is_certain(boolean->args, &within) ? predicate_create(sizeof(Logic), &logic_kernel) : NULL;
	result = predicate_create(sizeof(Logic), &logic_kernel);
	result->op = boolean->boolop;
	foreach(lc, boolean->args)
	{
		Predicate  *arg = context->compile(lfirst(lc), &within);

		if (arg == NULL)
			return NULL;
		/* PostgreSQL may not come to it */
		if (foreach_current_index(lc) > 0 && has_param(lfirst(lc), NULL))
			arg->costly = true;
		result->predicate.costly |= arg->costly;
		result->args = lappend(result->args, arg);
	}
	return &result->predicate;
}

/* Combine with an operand that is evaluated only for rows which are not decided yet. */
static bool
combine_open(Predicate *arg, Batch *batch, const uint16 *rows, int n, uint8 decisive, uint8 *truth)
{
	uint16		places[BATCH_ROWS];
	uint16		open[BATCH_ROWS];
	int			k = 0;

	for (int i = 0; i < n; i++)
	{
		places[k] = i;
		open[k] = rows != NULL ? rows[i] : i;
		k += truth[i] != decisive;
	}
	if (k == 0)
		return true;
	if (!arg->kernel->eval(arg, batch, open, k, arg->truth))
		return false;
	for (int i = 0; i < k; i++)
	{
		if (arg->truth[i] != !decisive)
			truth[places[i]] = arg->truth[i];
	}
	return true;
}

/* Combine with an operand that is evaluated for all rows: making a list of them would take longer. */
static bool
combine_all(Predicate *arg, Batch *batch, const uint16 *rows, int n, uint8 decisive, uint8 *truth)
{
	if (!arg->kernel->eval(arg, batch, rows, n, arg->truth))
		return false;
	for (int i = 0; i < n; i++)
	{
		if (truth[i] != decisive && arg->truth[i] != !decisive)
			truth[i] = arg->truth[i];
	}
	return true;
}

static bool
eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Logic	   *logic = (Logic *) predicate;

	/* what decides whatever the others are */
	uint8		decisive = logic->op == AND_EXPR ? TRUTH_FALSE : TRUTH_TRUE;
	ListCell   *lc;

	if (logic->op == NOT_EXPR)
	{
		Predicate  *arg = linitial(logic->args);

		if (!arg->kernel->eval(arg, batch, rows, n, truth))
			return false;
		for (int i = 0; i < n; i++)
			truth[i] = truth[i] == TRUTH_NULL ? TRUTH_NULL : !truth[i];
		return true;
	}
	memset(truth, !decisive, n);
	foreach(lc, logic->args)
	{
		Predicate  *arg = lfirst(lc);

		if (!(arg->costly ? combine_open(arg, batch, rows, n, decisive, truth) :
			  combine_all(arg, batch, rows, n, decisive, truth)))
			return false;
	}
	return true;
}

const PredicateKernel logic_kernel = {
	.compile = compile,
	.eval = eval,
};
