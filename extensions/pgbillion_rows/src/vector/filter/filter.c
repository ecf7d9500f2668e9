/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  Which rows of a batch are kept.
 *
 * The terms of a filter are applied one after the other, in core's order, each
 * to the rows that survived those before it, of which a list is kept until the
 * batch is worth compacting. Within a term, AND, OR and NOT are computed for
 * all rows with three-valued logic, which is right only for operators that
 * cannot raise errors; a term with any other goes to core's expression code
 * whole, unless it is a single comparison. Strings are not looked at for rows
 * that are decided without.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/transam.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "planner/arithmetic.h"
#include "vector/expression/decimal.h"
#include "vector/expression/expression.h"
#include "vector/filter/filter.h"

typedef struct Term
{
	Predicate  *predicate;		/* or NULL */
	ExprState  *state;			/* for core, of terms without, and of batches
								 * that are not for it */
	int			nneeded;		/* columns */
	int		   *needed;
} Term;

struct VectorFilter
{
	int			nterms;
	Term	   *terms;
	int			seen;			/* rows of late */
	int			passed;			/* of these, rows that passed the first term */
	bool		sparing;		/* few did: fetch only what it needs */
	int			nclauses;		/* before some were merged */
	int			nkernels;		/* of these */
};

/* ---- compilation ---- */

static bool
is_int(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

static bool
is_float(Oid type)
{
	return type == FLOAT4OID || type == FLOAT8OID;
}

/* How values of two types are compared, if there is a kernel for it. */
static bool
find_compare(Oid left, Oid right, CompareOp op, Oid collation, CompareKind *kind)
{
	bool		equality = op == OP_EQ || op == OP_NE;

	if ((is_int(left) && is_int(right)) ||
		(left == right && (left == DATEOID || left == TIMESTAMPOID || left == TIMESTAMPTZOID ||
						   left == BOOLOID || left == OIDOID || left == TIMEOID)))
		*kind = COMPARE_INT;
	else if (is_float(left) && is_float(right))
		*kind = COMPARE_FLOAT;
	else if (left == NUMERICOID && right == NUMERICOID)
		*kind = COMPARE_NUMERIC;
	else if (left == DATEOID && right == TIMESTAMPOID)
		*kind = COMPARE_DATE_TIMESTAMP;
	else if (left == TIMESTAMPOID && right == DATEOID)
		*kind = COMPARE_TIMESTAMP_DATE;
	else if (left == right && (left == TEXTOID || left == BPCHAROID) && equality &&
			 OidIsValid(collation) && get_collation_isdeterministic(collation))
		*kind = left == TEXTOID ? COMPARE_TEXT : COMPARE_BPCHAR;
	else
		return false;

	return true;
}

/* Which comparison an operator of core is, by its btree strategy. */
static bool
find_op(Oid opno, Oid left, Oid right, CompareOp *op)
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

/* Can an operand be evaluated for rows that core would not have come to? */
static bool
is_harmless(Expr *expr)
{
	expr = strip_relabel(expr);
	/* an internal parameter may be a subquery that core would not have run */
	return IsA(expr, Var) || IsA(expr, Const) ||
		(IsA(expr, Param) && ((Param *) expr)->paramkind == PARAM_EXTERN);
}

static Predicate *
make_predicate(int kind)
{
	Predicate  *result = palloc0(sizeof(Predicate));

	result->kind = kind;
	result->truth = palloc(BATCH_ROWS);
	return result;
}

/* LIKE and NOT LIKE: NULL if core has to evaluate it. */
static Predicate *
compile_like(OpExpr *op, Batch *batch, bool top, bool negated)
{
	Expr	   *left = linitial(op->args);
	Expr	   *right = strip_relabel(lsecond(op->args));
	Predicate  *result;

	/*
	 * beside a string that may raise an error, a pattern must not: which of
	 * them comes first is core's to say
	 */
	if (!is_harmless(left) && !(top && IsA(right, Const)))
		return NULL;
	if (!IsA(right, Const) && !(IsA(right, Param) && (top || is_harmless(right))))
		return NULL;
	result = make_predicate(PREDICATE_LIKE);
	result->negated = negated;
	result->costly = true;
	result->left = vector_expr_compile(left, batch);
	result->right = vector_expr_compile(right, batch);
	result->pattern = like_create();
	if (IsA(right, Const) &&
		(((Const *) right)->constisnull || !like_set(result->pattern, ((Const *) right)->constvalue)))
		return NULL;
	return result;
}

/*
 * Compile a term, or return NULL if core has to evaluate it. At the top, where
 * only rows that survived are looked at, an operand may raise an error.
 */
static Predicate *
compile(Expr *expr, Batch *batch, bool top)
{
	Predicate  *result;

	expr = strip_relabel(expr);
	if (IsA(expr, OpExpr))
	{
		OpExpr	   *op = (OpExpr *) expr;
		Expr	   *left;
		Expr	   *right;
		CompareKind compare;
		CompareOp	compare_op;
		Oid			left_type;
		Oid			right_type;
		bool		negated;

		if (list_length(op->args) != 2)
			return NULL;
		if (like_operator(op->opfuncid, op->inputcollid, &negated))
			return compile_like(op, batch, top, negated);
		left = linitial(op->args);
		right = lsecond(op->args);
		left_type = getBaseType(exprType((Node *) left));
		right_type = getBaseType(exprType((Node *) right));
		if (!find_op(op->opno, left_type, right_type, &compare_op) ||
			!find_compare(left_type, right_type, compare_op, op->inputcollid, &compare))
			return NULL;
		if (!top && (!is_harmless(left) || !is_harmless(right)))
			return NULL;
		result = make_predicate(PREDICATE_COMPARE);
		result->harmless = is_harmless(left) && is_harmless(right);
		result->compare = compare;
		result->costly = compare == COMPARE_TEXT || compare == COMPARE_BPCHAR;
		result->op = compare_op;
		result->left_type = left_type;
		result->right_type = right_type;
		result->collation = op->inputcollid;
		result->left = vector_expr_compile(left, batch);
		result->right = vector_expr_compile(right, batch);
		return result;
	}
	if (IsA(expr, ScalarArrayOpExpr))
	{
		ScalarArrayOpExpr *op = (ScalarArrayOpExpr *) expr;
		Expr	   *left = linitial(op->args);
		Const	   *array = lsecond(op->args);
		Oid			left_type = exprType((Node *) left);
		CompareOp	compare_op;
		Oid			element_type;
		ArrayType  *value;
		Datum	   *elements;
		bool	   *nulls;
		int			n;
		int16		len;
		bool		byval;
		char		align;

		if (!op->useOr || !IsA(array, Const) || array->constisnull || !is_int(left_type) ||
			!is_harmless(left))
			return NULL;
		value = DatumGetArrayTypeP(array->constvalue);
		element_type = ARR_ELEMTYPE(value);
		if (!is_int(element_type) || !find_op(op->opno, left_type, element_type, &compare_op) ||
			compare_op != OP_EQ)
			return NULL;
		get_typlenbyvalalign(element_type, &len, &byval, &align);
		deconstruct_array(value, element_type, len, byval, align, &elements, &nulls, &n);
		/* core hashes longer ones */
		if (n > 32)
			return NULL;
		result = make_predicate(PREDICATE_IN);
		result->left = vector_expr_compile(left, batch);
		result->left_type = left_type;
		result->elements = palloc(sizeof(int64) * Max(n, 1));
		for (int i = 0; i < n; i++)
		{
			if (nulls[i])
				result->null_element = true;
			else
				result->elements[result->nelements++] =
					element_type == INT8OID ? DatumGetInt64(elements[i]) :
					element_type == INT4OID ? DatumGetInt32(elements[i]) : DatumGetInt16(elements[i]);
		}
		return result;
	}
	if (IsA(expr, NullTest))
	{
		NullTest   *test = (NullTest *) expr;

		if (test->argisrow || !IsA(strip_relabel(test->arg), Var))
			return NULL;
		result = make_predicate(test->nulltesttype == IS_NULL ? PREDICATE_NULL : PREDICATE_NOT_NULL);
		result->left = vector_expr_compile(test->arg, batch);
		return result;
	}
	if (IsA(expr, Var) && exprType((Node *) expr) == BOOLOID)
	{
		result = make_predicate(PREDICATE_BOOLEAN);
		result->left = vector_expr_compile(expr, batch);
		return result;
	}
	if (IsA(expr, BoolExpr))
	{
		BoolExpr   *boolean = (BoolExpr *) expr;
		ListCell   *lc;

		result = make_predicate(boolean->boolop == AND_EXPR ? PREDICATE_AND :
								boolean->boolop == OR_EXPR ? PREDICATE_OR : PREDICATE_NOT);
		foreach(lc, boolean->args)
		{
			Predicate  *arg = compile(lfirst(lc), batch, false);

			if (arg == NULL)
				return NULL;
			result->costly |= arg->costly;
			result->args = lappend(result->args, arg);
		}
		return result;
	}

	return NULL;
}

/*
 * Compile a filter from its terms, in the order in which they are to be
 * applied. Memory belongs to the current context.
 */
VectorFilter *
vector_filter_compile(List *clauses, Batch *batch)
{
	VectorFilter *filter = palloc0(sizeof(VectorFilter));
	ListCell   *lc;

	filter->nclauses = list_length(clauses);
	filter->terms = palloc0(sizeof(Term) * Max(filter->nclauses, 1));
	foreach(lc, clauses)
	{
		Term	   *term = &filter->terms[filter->nterms];

		term->state = core_expr_prepare(lfirst(lc), batch, &term->needed, &term->nneeded);
		term->predicate = compile(lfirst(lc), batch, true);
		if (term->predicate != NULL)
		{
			filter->nkernels++;
			filter_make_range(term->predicate);
			if (filter->nterms > 0 && term[-1].predicate != NULL &&
				filter_merge_ranges(term[-1].predicate, term->predicate))
				continue;
		}
		filter->nterms++;
	}

	return filter;
}

/* A filter for vector_filter_rows(), of one clause. */
VectorFilter *
vector_filter_compile_rows(Expr *clause, Batch *batch)
{
	return vector_filter_compile(list_make1(clause), batch);
}

/* How many of the terms are kernels. */
void
vector_filter_kernels(VectorFilter *filter, int *kernels, int *terms)
{
	*terms = filter->nclauses;
	*kernels = filter->nkernels;
}

/* ---- evaluation ---- */

/* The truth of a predicate for rows of the batch, dense; false if core has to find it. */
static bool
eval(Predicate *predicate, Batch *batch, const uint16 *rows, int n, uint8 *truth)
{
	Values		values;
	ListCell   *lc;

	switch (predicate->kind)
	{
		case PREDICATE_COMPARE:
			filter_compare(predicate, batch, rows, n, truth);
			return true;
		case PREDICATE_RANGE:
			pg_unreachable();
		case PREDICATE_IN:
			vector_expr_eval(predicate->left, batch, rows, n, &values);
			for (int i = 0; i < n; i++)
			{
				int64		value = int_of(values.values[i], predicate->left_type);
				bool		found = false;

				for (int k = 0; k < predicate->nelements; k++)
					found |= predicate->elements[k] == value;
				/* NULL = ANY of no elements is false */
				if (values.nulls[i])
					truth[i] = predicate->nelements == 0 && !predicate->null_element ? TRUTH_FALSE : TRUTH_NULL;
				else
					truth[i] = found ? TRUTH_TRUE : predicate->null_element ? TRUTH_NULL : TRUTH_FALSE;
			}
			return true;
		case PREDICATE_LIKE:
			{
				bool		isnull;
				Datum		pattern = vector_expr_scalar(predicate->right, batch, &isnull);

				if (!isnull && !like_set(predicate->pattern, pattern))
					return false;
				vector_expr_eval(predicate->left, batch, rows, n, &values);
				if (isnull)
					memset(truth, TRUTH_NULL, n);
				else
					like_rows(predicate->pattern, &values, n, predicate->negated, truth);
				return true;
			}
		case PREDICATE_NULL:
		case PREDICATE_NOT_NULL:
			vector_expr_eval(predicate->left, batch, rows, n, &values);
			for (int i = 0; i < n; i++)
				truth[i] = values.nulls[i] == (predicate->kind == PREDICATE_NULL);
			return true;
		case PREDICATE_BOOLEAN:
			vector_expr_eval(predicate->left, batch, rows, n, &values);
			for (int i = 0; i < n; i++)
				truth[i] = values.nulls[i] ? TRUTH_NULL : DatumGetBool(values.values[i]);
			return true;
		case PREDICATE_NOT:
			if (!eval(linitial(predicate->args), batch, rows, n, truth))
				return false;
			for (int i = 0; i < n; i++)
				truth[i] = truth[i] == TRUTH_NULL ? TRUTH_NULL : !truth[i];
			return true;
		case PREDICATE_AND:
		case PREDICATE_OR:
			{
				/* what decides whatever the others are */
				uint8		decisive = predicate->kind == PREDICATE_AND ? TRUTH_FALSE : TRUTH_TRUE;

				memset(truth, !decisive, n);
				foreach(lc, predicate->args)
				{
					Predicate  *arg = lfirst(lc);
					uint16		places[BATCH_ROWS];
					uint16		open[BATCH_ROWS];
					int			k = 0;

					/* making the list takes longer than most comparisons */
					if (!arg->costly)
					{
						if (!eval(arg, batch, rows, n, arg->truth))
							return false;
						for (int i = 0; i < n; i++)
						{
							if (truth[i] != decisive && arg->truth[i] != !decisive)
								truth[i] = arg->truth[i];
						}
						continue;
					}
					for (int i = 0; i < n; i++)
					{
						places[k] = i;
						open[k] = rows != NULL ? rows[i] : i;
						k += truth[i] != decisive;
					}
					if (k == 0)
						break;
					if (!eval(arg, batch, open, k, arg->truth))
						return false;
					for (int i = 0; i < k; i++)
					{
						if (arg->truth[i] != !decisive)
							truth[places[i]] = arg->truth[i];
					}
				}
				return true;
			}
	}
	return false;
}

/* ---- filters ---- */

/*
 * List those of n rows of the batch for which a term is true; return how many.
 * The list may take the place of that of the rows.
 */
static int
select_term(Term *term, Batch *batch, const uint16 *rows, int n, uint16 *selected)
{
	uint8		truth[BATCH_ROWS];
	int			k = 0;

	if (term->predicate != NULL && term->predicate->kind == PREDICATE_RANGE)
		return filter_select_range(term->predicate, batch, rows, n, selected);
	if (term->predicate == NULL || !eval(term->predicate, batch, rows, n, truth))
	{
		for (int i = 0; i < n; i++)
		{
			bool		isnull;
			Datum		value;

			core_expr_set_row(batch, term->needed, term->nneeded, rows != NULL ? rows[i] : i);
			value = ExecEvalExprSwitchContext(term->state, batch->econtext, &isnull);
			truth[i] = isnull ? TRUTH_NULL : DatumGetBool(value);
		}
	}
	for (int i = 0; i < n; i++)
	{
		selected[k] = rows != NULL ? rows[i] : i;
		k += truth[i] == TRUTH_TRUE;
	}

	return k;
}

/* How many rows are seen before it is decided again how to fetch columns. */
#define SPARING_ROWS 4096

static void
keep_rows(Batch *batch, const uint16 *rows, int n, bool final)
{
	columns_compact(batch->columns, rows, n, final);
	batch->n = n;
	batch->serial++;
}

/* Remove the rows from the batch that the filter does not keep; return how many. */
int
vector_filter_batch(VectorFilter *filter, Batch *batch)
{
	uint16		selected[BATCH_ROWS];
	const uint16 *rows = NULL;
	int			before = batch->n;
	int			n = batch->n;

	if (filter->sparing)
		columns_load_only(batch->columns, filter->terms[0].needed, filter->terms[0].nneeded);
	for (int t = 0; t < filter->nterms && n > 0; t++)
	{
		Term	   *term = &filter->terms[t];
		int			kept;

		/* do not fetch values of rows that are gone */
		if (rows != NULL && n < batch->n / 4 * 3)
		{
			bool		at_hand = true;

			for (int i = 0; i < term->nneeded; i++)
				at_hand &= columns_at_hand(batch->columns, term->needed[i]);
			if (!at_hand)
			{
				keep_rows(batch, rows, n, false);
				rows = NULL;
			}
		}
		kept = select_term(term, batch, rows, n, selected);
		if (kept < n)
			rows = selected;
		n = kept;
		if (t == 0)
			filter->passed += kept;
	}
	filter->seen += before;
	if (filter->seen > SPARING_ROWS)
	{
		filter->sparing = filter->nterms > 0 && filter->passed < filter->seen / 2;
		filter->seen = filter->passed = 0;
	}
	if (rows != NULL)
		keep_rows(batch, rows, n, true);

	return before - batch->n;
}

/* List the rows of the batch that the filter keeps; return how many. */
int
vector_filter_rows(VectorFilter *filter, Batch *batch, uint16 *rows)
{
	Assert(filter->nterms == 1);
	return select_term(&filter->terms[0], batch, NULL, batch->n, rows);
}
