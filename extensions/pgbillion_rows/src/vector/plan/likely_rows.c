/*-------------------------------------------------------------------------
 *
 * likely_rows.c
 *	  How many rows a relation likely has, compared with PostgreSQL's estimate.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"

#include "planner/known_rows.h"
#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"

/* The conditions of a table likely keep this many times the rows that PostgreSQL estimates. */
typedef struct Guess
{
	Index		table;
	double		factor;
} Guess;

/* Those of a statement. */
typedef struct RowsMemo
{
	List	   *guesses;
} RowsMemo;

/*
 * Of conditions that are subqueries PostgreSQL knows nothing, and takes them to
 * leave half of the rows. Most are of the kind NOT IN, and leave nearly all: it
 * is careful to count on these.
 */
static double
factor_of_guesses(RelOptInfo *table)
{
	double		factor = 1;
	ListCell   *lc;

	foreach(lc, table->baserestrictinfo)
	{
		Node	   *clause = (Node *) lfirst_node(RestrictInfo, lc)->clause;

		if (is_notclause(clause))
			clause = (Node *) get_notclausearg((Expr *) clause);
		if (IsA(clause, SubPlan) || IsA(clause, AlternativeSubPlan))
			factor *= 2;
	}
	return factor;
}

static void
add_guess(RelOptInfo *table, RowsMemo *rows)
{
	double		factor = factor_of_guesses(table);

	if (factor > 1)
	{
		Guess	   *guess = palloc(sizeof(Guess));

		*guess = (Guess)
		{
			table->relid, factor
		};
		rows->guesses = lappend(rows->guesses, guess);
	}
}

/*
 * What multiplies a statement's rows. It is asked for with each join that is
 * looked at, and so found out once.
 */
static const RowsMemo *
memo_of_rows(PlannerInfo *root)
{
	RowsMemo   *rows = planner_memo_find(root, MEMO_ROWS, root);
	MemoryContext old;

	if (rows != NULL)
		return rows;
	rows = planner_memo_make(root, MEMO_ROWS, root, sizeof(RowsMemo));
	/* the genetic search has a context of its own */
	old = MemoryContextSwitchTo(root->planner_cxt);
	for (int table = 1; table < root->simple_rel_array_size; table++)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel == NULL || rel->reloptkind != RELOPT_BASEREL)
			continue;
		add_guess(rel, rows);
	}
	MemoryContextSwitchTo(old);

	return rows;
}

/* How many times the rows of a relation, as PostgreSQL estimates them, are likely. */
double
cached_rows_factor(PlannerInfo *root, RelOptInfo *rel)
{
	const RowsMemo *rows = memo_of_rows(root);
	double		factor = known_rows_factor(root, rel->relids);
	ListCell   *lc;

	foreach(lc, rows->guesses)
	{
		Guess	   *guess = lfirst(lc);

		if (bms_is_member(guess->table, rel->relids))
			factor *= guess->factor;
	}
	return factor;
}
