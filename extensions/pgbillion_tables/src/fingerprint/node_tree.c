/*-------------------------------------------------------------------------
 *
 * node_tree.c
 *	  Stored expressions that mean the same, in one form.
 *
 * An expression that is made of the text that PostgreSQL shows of another one
 * is not always stored as that was, after pg_restore as in a clone. Here both
 * get the form that has the same text again:
 *
 *	a cast of ARRAY[…] becomes casts of its elements, by the same expression;
 *	AND in AND becomes one, as OR in OR does;
 *	minus and a constant become a negative constant.
 *
 * See clone/wording.c for the same in texts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"

#include "fingerprint/fingerprint.h"

static bool may_change(const char *tree);
static bool has_two(const char *tree, const char *sign);
static Node *settle(Node *node, void *context);
static Node *with_element(Node *node, void *element);
static Node *push_down(ArrayCoerceExpr *cast);
static Node *flatten(BoolExpr *condition);
static Node *negate(OpExpr *operation);

/* The stored expression in that form; the same string if it has it. */
const char *
fingerprint_settle_tree(const char *tree)
{
	if (!may_change(tree))
		return tree;
	return nodeToString(settle(stringToNode(tree), NULL));
}

/* Few do, and reading a tree takes much longer than a look at its text. */
static bool
may_change(const char *tree)
{
	return strstr(tree, "{ARRAYCOERCEEXPR :arg {ARRAYEXPR ") != NULL ||
		strstr(tree, " :opfuncid " CppAsString2(F_INT4UM) " ") != NULL ||
		strstr(tree, " :opfuncid " CppAsString2(F_NUMERIC_UMINUS) " ") != NULL ||
		has_two(tree, "{BOOLEXPR :boolop and ") ||
		has_two(tree, "{BOOLEXPR :boolop or ");
}

static bool
has_two(const char *tree, const char *sign)
{
	const char *first = strstr(tree, sign);

	return first != NULL && strstr(first + 1, sign) != NULL;
}

static Node *
settle(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	check_stack_depth();
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, settle, context, 0);
	node = expression_tree_mutator(node, settle, context);
	if (IsA(node, ArrayCoerceExpr) && IsA(((ArrayCoerceExpr *) node)->arg, ArrayExpr))
		return push_down((ArrayCoerceExpr *) node);
	if (IsA(node, BoolExpr))
		return flatten((BoolExpr *) node);
	if (IsA(node, OpExpr))
		return negate((OpExpr *) node);
	return node;
}

/*
 * The array of the elements that are each cast as the cast does it, which has
 * an expression for that. An array's elements can be arrays in turn.
 */
static Node *
push_down(ArrayCoerceExpr *cast)
{
	ArrayExpr  *array = (ArrayExpr *) cast->arg;
	ListCell   *lc;

	/* without elements it is the constant that it was */
	if (array->elements == NIL)
		return (Node *) cast;
	foreach(lc, array->elements)
	{
		if (array->multidims)
		{
			ArrayCoerceExpr *of_element = copyObject(cast);

			if (!IsA(lfirst(lc), ArrayExpr))
				return (Node *) cast;
			of_element->arg = lfirst(lc);
			lfirst(lc) = push_down(of_element);
		}
		else
			lfirst(lc) = with_element((Node *) cast->elemexpr, lfirst(lc));
	}
	array->array_typeid = cast->resulttype;
	array->array_collid = cast->resultcollid;
	array->element_typeid = exprType((Node *) (array->multidims ? cast->elemexpr : linitial(array->elements)));
	return (Node *) array;
}

/* The expression for an element, with this one in it. */
static Node *
with_element(Node *node, void *element)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, CaseTestExpr))
		return copyObject(element);
	/* what stands for an element in that is another one's */
	if (IsA(node, ArrayCoerceExpr))
	{
		ArrayCoerceExpr *inner = copyObject((ArrayCoerceExpr *) node);

		inner->arg = (Expr *) with_element((Node *) inner->arg, element);
		return (Node *) inner;
	}
	return expression_tree_mutator(node, with_element, element);
}

/* Pretty texts show one AND for two wherever they are, others if the inner one comes first. */
static Node *
flatten(BoolExpr *condition)
{
	List	   *args = NIL;
	ListCell   *lc;

	if (condition->boolop == NOT_EXPR)
		return (Node *) condition;
	foreach(lc, condition->args)
	{
		BoolExpr   *arg = lfirst(lc);

		if (IsA(arg, BoolExpr) && arg->boolop == condition->boolop)
			args = list_concat(args, arg->args);
		else
			args = lappend(args, arg);
	}
	condition->args = args;
	return (Node *) condition;
}

static Node *
negate(OpExpr *operation)
{
	Const	   *constant;

	if ((operation->opfuncid != F_INT4UM && operation->opfuncid != F_NUMERIC_UMINUS) ||
		!IsA(linitial(operation->args), Const))
		return (Node *) operation;
	constant = linitial(operation->args);
	if (constant->constisnull)
		return (Node *) operation;
	if (operation->opfuncid == F_NUMERIC_UMINUS)
		constant->constvalue = DirectFunctionCall1(numeric_uminus, constant->constvalue);
	else if (DatumGetInt32(constant->constvalue) > 0)
		constant->constvalue = Int32GetDatum(-DatumGetInt32(constant->constvalue));
	else
		return (Node *) operation;
	return (Node *) constant;
}
