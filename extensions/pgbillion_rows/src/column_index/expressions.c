/*-------------------------------------------------------------------------
 *
 * expressions.c
 *	  Columns of an index that are expressions over a row.
 *
 * For a reader, the expressions of an index are attributes of the table after
 * those that it has: the first expression of an index on a table of n columns
 * is attribute n + 1. A query finds them where an expression of its own is
 * equal() to one of the index's, as PostgreSQL matches its own indexes.
 *
 * Expressions are evaluated as the table's owner, in a security-restricted
 * operation, and with a search path that no other role can put anything into:
 * the role that encodes or checks an index may be a superuser. PostgreSQL does
 * so, too, before it calls the access method to build or to vacuum.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteManip.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "column_index/store.h"

/* ---- finding them in a query ---- */

/*
 * The expressions of an index over a table that a query knows by a number, or
 * NIL. Memory is that of the current context.
 */
List *
column_expressions(Relation index, Index varno)
{
	List	   *expressions = RelationGetIndexExpressions(index);

	if (expressions != NIL && varno != 1)
		ChangeVarNodes((Node *) expressions, 1, varno, 0);
	return expressions;
}

typedef struct Replacement
{
	List	   *expressions;
	Index		varno;
	int			natts;			/* of the table */
} Replacement;

static Node *
replace(Node *node, Replacement *replacement)
{
	ListCell   *lc;

	if (node == NULL)
		return NULL;
	foreach(lc, replacement->expressions)
	{
		/* one that needs no column is what it is */
		if (equal(node, lfirst(lc)) && contain_var_clause(node))
			return (Node *) makeVar(replacement->varno, replacement->natts + 1 + foreach_current_index(lc),
									exprType(node), exprTypmod(node), exprCollation(node), 0);
	}
	return expression_tree_mutator(node, replace, replacement);
}

/*
 * Copies of a query's expressions in which those that an index has are columns
 * of a table, which has natts others. Aggregates and lists are looked into.
 */
List *
column_expressions_replace(List *exprs, List *expressions, Index varno, int natts)
{
	Replacement replacement = {expressions, varno, natts};

	if (expressions == NIL)
		return exprs;
	return (List *) replace((Node *) exprs, &replacement);
}

/* Describe a table's rows with the expressions of an index as further columns. */
TupleDesc
column_expressions_tupdesc(TupleDesc table, List *expressions)
{
	TupleDesc	result = CreateTemplateTupleDesc(table->natts + list_length(expressions));
	ListCell   *lc;

	for (int i = 1; i <= table->natts; i++)
		TupleDescCopyEntry(result, i, table, i);
	foreach(lc, expressions)
	{
		AttrNumber	attno = table->natts + 1 + foreach_current_index(lc);

		TupleDescInitEntry(result, attno, NULL, exprType(lfirst(lc)), exprTypmod(lfirst(lc)), 0);
		TupleDescInitEntryCollation(result, attno, exprCollation(lfirst(lc)));
	}
	TupleDescFinalize(result);

	return result;
}

/* Which column of an index is an attribute of its table, or an expression that counts as one; -1: none. */
int
column_index_place(Relation index, int natts, AttrNumber attno)
{
	int			nexpressions = 0;

	Assert(attno > 0);
	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		AttrNumber	own = index->rd_index->indkey.values[i];

		if (own == attno || (own == 0 && natts + ++nexpressions == attno))
			return i;
	}
	return -1;
}

/* ---- what is supported ---- */

static bool
unsupported(Node *node, const char **what)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varattno == 0)
		*what = "whole rows";

	/*
	 * a constraint that was added later is checked where the expression is
	 * evaluated
	 */
	else if (IsA(node, CoerceToDomain))
		*what = "domains";
	return *what != NULL || expression_tree_walker(node, unsupported, what);
}

/* What of an index's expressions is not supported, or NULL. */
const char *
column_expressions_unsupported(List *expressions)
{
	const char *what = NULL;

	(void) unsupported((Node *) expressions, &what);
	return what;
}

/* ---- evaluating them ---- */

/* Become the owner of a table, until column_owner_end() or the end of the transaction. */
void
column_owner_begin(Relation table, ColumnOwner *saved)
{
	GetUserIdAndSecContext(&saved->role, &saved->context);
	SetUserIdAndSecContext(table->rd_rel->relowner, saved->context | SECURITY_RESTRICTED_OPERATION);
	saved->nest_level = NewGUCNestLevel();
	restrict_search_path();
}

void
column_owner_end(const ColumnOwner *saved)
{
	AtEOXact_GUC(false, saved->nest_level);
	SetUserIdAndSecContext(saved->role, saved->context);
}

struct ColumnEvaluator
{
	EState	   *estate;
	ExprContext *econtext;
	TupleTableSlot *slot;
	int			n;
	ExprState  *states[INDEX_MAX_KEYS];
	Bitmapset  *attnos[INDEX_MAX_KEYS]; /* columns of the table that each
										 * needs */
};

/*
 * Prepare to evaluate the expressions of an index, in their order; NULL if it
 * has none. The caller is the table's owner until all is done:
 * column_owner_begin(). To be ended, except after an error.
 */
ColumnEvaluator *
column_evaluator_begin(Relation heap, Relation index)
{
	List	   *expressions = RelationGetIndexExpressions(index);
	ColumnEvaluator *evaluator;
	ListCell   *lc;

	if (expressions == NIL)
		return NULL;
	evaluator = palloc0(sizeof(ColumnEvaluator));
	evaluator->estate = CreateExecutorState();
	evaluator->econtext = GetPerTupleExprContext(evaluator->estate);
	evaluator->slot = MakeSingleTupleTableSlot(RelationGetDescr(heap), &TTSOpsHeapTuple);
	evaluator->econtext->ecxt_scantuple = evaluator->slot;
	foreach(lc, expressions)
	{
		List	   *vars = pull_var_clause(lfirst(lc), 0);
		ListCell   *var;

		foreach(var, vars)
			evaluator->attnos[evaluator->n] = bms_add_member(evaluator->attnos[evaluator->n],
															 lfirst_node(Var, var)->varattno);
		evaluator->states[evaluator->n++] = ExecPrepareExpr(lfirst(lc), evaluator->estate);
	}
	return evaluator;
}

/* Go to a row, which the caller keeps until the next one. What was evaluated of the last one is gone. */
void
column_evaluator_row(ColumnEvaluator *evaluator, HeapTuple tuple)
{
	ResetExprContext(evaluator->econtext);
	ExecStoreHeapTuple(tuple, evaluator->slot, false);
}

/*
 * Are all values that an expression needs of the row within the row itself?
 * Those that are compressed are decompressed, once for all expressions.
 */
bool
column_evaluator_has_values(ColumnEvaluator *evaluator, int expression)
{
	TupleTableSlot *slot = evaluator->slot;
	int			attno = -1;

	while ((attno = bms_next_member(evaluator->attnos[expression], attno)) >= 0)
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, attno, &isnull);
		MemoryContext old;

		if (isnull || TupleDescAttr(slot->tts_tupleDescriptor, attno - 1)->attlen != -1)
			continue;
		if (VARATT_IS_EXTERNAL(DatumGetPointer(value)))
			return false;
		if (!VARATT_IS_COMPRESSED(DatumGetPointer(value)))
			continue;
		old = MemoryContextSwitchTo(evaluator->econtext->ecxt_per_tuple_memory);
		slot->tts_values[attno - 1] = PointerGetDatum(detoast_attr((struct varlena *) DatumGetPointer(value)));
		MemoryContextSwitchTo(old);
	}
	return true;
}

/* The value of an expression, valid until the next row. An error is the expression's. */
Datum
column_evaluator_value(ColumnEvaluator *evaluator, int expression, bool *isnull)
{
	return ExecEvalExprSwitchContext(evaluator->states[expression], evaluator->econtext, isnull);
}

void
column_evaluator_end(ColumnEvaluator *evaluator)
{
	if (evaluator == NULL)
		return;
	ExecDropSingleTupleTableSlot(evaluator->slot);
	FreeExecutorState(evaluator->estate);
	pfree(evaluator);
}
