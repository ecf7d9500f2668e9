/*-------------------------------------------------------------------------
 *
 * guesses.c
 *	  Where an estimate of PostgreSQL's is a guess.
 *
 * Where there are no statistics, PostgreSQL takes a default: a third of the rows
 * for a function, 200 values for a column. Where it multiplies what may depend on
 * each other, it stops at a limit: one row, or a tenth of them as groups. Either
 * looks like any other estimate.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"

#include "planner/guesses.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"

/* Is it a column of a table or subquery that the planner knows? */
static bool
is_known_column(PlannerInfo *root, const Var *var)
{
	return var->varno > 0 && var->varno < root->simple_rel_array_size && root->simple_rel_array[var->varno] != NULL;
}

/* What a column or expression without statistics is called. */
static const char *
name_of(PlannerInfo *root, Node *node)
{
	Var		   *var = (Var *) node;
	RangeTblEntry *rte;

	if (node == NULL || !IsA(node, Var) || !is_known_column(root, var) || var->varattno == 0)
		return "an expression";
	rte = planner_rt_fetch(var->varno, root);
	return psprintf("column \"%s\" of \"%s\"", get_rte_attribute_name(rte, var->varattno), rte->eref->aliasname);
}

/* Are there statistics of what examine_variable() has looked at? Of a unique column they are not needed. */
static const char *
statistics_guess(PlannerInfo *root, const VariableStatData *data)
{
	if (HeapTupleIsValid(data->statsTuple) || data->isunique)
		return NULL;
	return plan_reason("there are no statistics of %s (ANALYZE)", name_of(root, data->var));
}

/* The same of an expression. */
static const char *
expression_guess(PlannerInfo *root, Node *node)
{
	VariableStatData data;
	const char *guess;

	if (IsA(node, Var) && !is_known_column(root, (Var *) node))
		return NULL;
	examine_variable(root, node, 0, &data);
	guess = statistics_guess(root, &data);
	ReleaseVariableStats(data);

	return guess;
}

/* What PostgreSQL takes where it knows nothing of a condition. */
#define NO_ESTIMATE "PostgreSQL takes a default for a condition that statistics do not tell of"

/* Why the share of rows that satisfy a comparison is a guess, or NULL. */
static const char *
comparison_guess(PlannerInfo *root, OpExpr *clause)
{
	VariableStatData data;
	Node	   *other;
	bool		on_left;
	const char *guess;

	if (!OidIsValid(get_oprrest(clause->opno)) || list_length(clause->args) != 2 ||
		!get_restriction_variable(root, clause->args, 0, &data, &other, &on_left))
		return NO_ESTIMATE;
	guess = statistics_guess(root, &data);
	/* equality with any value is estimated by how many values there are */
	if (guess == NULL && !IsA(other, Const) && get_oprrest(clause->opno) != F_EQSEL)
		guess = "a value is not known when the query is planned";
	ReleaseVariableStats(data);

	return guess;
}

/* Why the share of rows that satisfy a condition of a table is a guess, or NULL. */
static const char *
condition_guess(PlannerInfo *root, Node *clause)
{
	const char *guess = NULL;
	ListCell   *lc;

	switch (nodeTag(clause))
	{
		case T_BoolExpr:
			foreach(lc, ((BoolExpr *) clause)->args)
			{
				if (guess == NULL)
					guess = condition_guess(root, lfirst(lc));
			}
			return guess;
		case T_OpExpr:
			return comparison_guess(root, (OpExpr *) clause);
		case T_ScalarArrayOpExpr:
			return expression_guess(root, linitial(((ScalarArrayOpExpr *) clause)->args));
		case T_NullTest:
			return expression_guess(root, (Node *) ((NullTest *) clause)->arg);
		case T_BooleanTest:
			return expression_guess(root, (Node *) ((BooleanTest *) clause)->arg);
		case T_Var:
			return expression_guess(root, clause);
		case T_FuncExpr:
			return OidIsValid(get_func_support(((FuncExpr *) clause)->funcid)) ? NULL : NO_ESTIMATE;
		default:
			return NULL;
	}
}

/* Are the conditions of a table taken to leave less than a row, of which PostgreSQL makes one? */
static bool
is_least(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->rows <= 1 && list_length(rel->baserestrictinfo) > 1 &&
		rel->tuples * clauselist_selectivity(root, rel->baserestrictinfo, 0, JOIN_INNER, NULL) < 0.5;
}

static const char *
find_rows_guess(PlannerInfo *root, RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->baserestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const char *guess = rinfo->pseudoconstant ? NULL : condition_guess(root, (Node *) rinfo->clause);

		if (guess != NULL)
			return guess;
	}
	if (is_least(root, rel))
		return "one is PostgreSQL's least, for conditions that it takes to have nothing to do with each other";
	return NULL;
}

/* What is known of a table whose rows are expected to be this number. */
typedef struct GuessMemo
{
	double		rows;
	const char *guess;			/* or NULL */
} GuessMemo;

/* Why the number of rows of a table is a guess, or NULL. It is asked for with each join. */
const char *
planner_rows_guess(PlannerInfo *root, RelOptInfo *rel)
{
	GuessMemo  *known = planner_memo_find(root, MEMO_GUESS, rel);

	if (known == NULL || known->rows != rel->rows)
	{
		MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);

		if (known == NULL)
			known = planner_memo_make(root, MEMO_GUESS, rel, sizeof(GuessMemo));
		known->rows = rel->rows;
		known->guess = find_rows_guess(root, rel);
		MemoryContextSwitchTo(old);
	}
	return known->guess;
}

/* Why the number of rows that match by these equalities is a guess, or NULL. */
const char *
planner_matches_guess(PlannerInfo *root, List *clauses)
{
	ListCell   *lc;

	foreach(lc, clauses)
	{
		ListCell   *side;

		foreach(side, lfirst_node(OpExpr, lc)->args)
		{
			const char *guess = expression_guess(root, lfirst(side));

			if (guess != NULL)
				return guess;
		}
	}
	return NULL;
}

/* Why the number of groups that keys make of rows is a guess, or NULL; `most` is what group_estimate_most() says. */
const char *
planner_groups_guess(PlannerInfo *root, List *keys, double rows, double most)
{
	EstimationInfo info = {0};
	double		groups = estimate_num_groups(root, keys, rows, NULL, &info);

	if ((info.flags & SELFLAG_USED_DEFAULT) != 0)
	{
		ListCell   *lc;

		foreach(lc, pull_var_clause((Node *) keys, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
									PVC_RECURSE_PLACEHOLDERS))
		{
			const char *guess = expression_guess(root, lfirst(lc));

			if (guess != NULL)
				return guess;
		}
		return "there are no statistics of what is grouped by";
	}
	if (most > groups)
		return plan_reason("%.0f is PostgreSQL's limit for several columns of a table; there may be %.0f (CREATE STATISTICS (ndistinct) tells)",
						   groups, most);
	return NULL;
}
