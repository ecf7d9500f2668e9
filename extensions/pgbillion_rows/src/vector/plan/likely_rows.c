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
#include "utils/selfuncs.h"

#include "planner/group_estimate.h"
#include "planner/known_rows.h"
#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"

/* The conditions of tables likely keep this many times the rows that PostgreSQL estimates. */
typedef struct Guess
{
	Relids		tables;			/* one, or two that are joined */
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
add_guess(RowsMemo *rows, Relids tables, double factor)
{
	Guess	   *guess;

	if (factor <= 1)
		return;
	guess = palloc(sizeof(Guess));
	*guess = (Guess)
	{
		tables, factor
	};
	rows->guesses = lappend(rows->guesses, guess);
}

/* How many different values a column has; negative, if PostgreSQL can only guess. */
static double
different_values(PlannerInfo *root, const EquivalenceMember *member)
{
	bool		guessed;
	double		number = group_estimate_different(root, (Node *) member->em_expr, &guessed);

	return guessed ? -number : number;
}

/*
 * A column of a subquery, such as a UNION ALL, has no statistics. PostgreSQL
 * takes it to have 200 different values, of which a join with a shorter list of
 * keys finds just some. Likely it has no others.
 */
static void
add_guesses_of_columns(PlannerInfo *root, RowsMemo *rows, List *members)
{
	const EquivalenceMember *most = NULL;
	double		known = 0;
	ListCell   *lc;

	foreach(lc, members)
	{
		const EquivalenceMember *member = lfirst(lc);
		double		number = member->em_is_child || bms_membership(member->em_relids) != BMS_SINGLETON ? -1 : different_values(root, member);

		if (number > known)
		{
			known = number;
			most = member;
		}
	}
	foreach(lc, most != NULL ? members : NIL)
	{
		const EquivalenceMember *member = lfirst(lc);

		/*
		 * values of another column of the same table are compared before
		 * joins
		 */
		if (!member->em_is_child && bms_membership(member->em_relids) == BMS_SINGLETON &&
			!bms_equal(member->em_relids, most->em_relids))
			add_guess(rows, bms_union(member->em_relids, most->em_relids), -different_values(root, member) / known);
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
	ListCell   *lc;

	if (rows != NULL)
		return rows;
	rows = planner_memo_make(root, MEMO_ROWS, root, sizeof(RowsMemo));
	/* the genetic search has a context of its own */
	old = MemoryContextSwitchTo(root->planner_cxt);
	for (int table = 1; table < root->simple_rel_array_size; table++)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel != NULL && rel->reloptkind == RELOPT_BASEREL)
			add_guess(rows, rel->relids, factor_of_guesses(rel));
	}
	foreach(lc, root->eq_classes)
	{
		const EquivalenceClass *class = lfirst_node(EquivalenceClass, lc);

		if (!class->ec_has_const && bms_membership(class->ec_relids) == BMS_MULTIPLE)
			add_guesses_of_columns(root, rows, class->ec_members);
	}
	MemoryContextSwitchTo(old);

	return rows;
}

/* How many times the rows of a join of these tables, as PostgreSQL estimates them, are likely. */
double
vector_rows_factor(PlannerInfo *root, Relids relids)
{
	const RowsMemo *rows = memo_of_rows(root);
	double		factor = known_rows_factor(root, relids);
	ListCell   *lc;

	foreach(lc, rows->guesses)
	{
		Guess	   *guess = lfirst(lc);

		if (bms_is_subset(guess->tables, relids))
			factor *= guess->factor;
	}
	return factor;
}

/* The same of a relation's rows. */
double
cached_rows_factor(PlannerInfo *root, RelOptInfo *rel)
{
	return vector_rows_factor(root, rel->relids);
}
