/*-------------------------------------------------------------------------
 *
 * report.c
 *	  What is told of a query's joins, and of estimates that are guesses.
 *
 * Reports of aggregation and of scans come from where they are planned. A join
 * is looked at many times while PostgreSQL searches, and an estimate is asked for
 * in many places; so these are told once, when the query has its paths.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"

#include "planner/guesses.h"
#include "planner/planner.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_search.h"
#include "vector/plan/plan.h"
#include "vector/vector.h"

static const char *
table_name(PlannerInfo *root, Index table)
{
	return planner_rt_fetch(table, root)->eref->aliasname;
}

/* ---- joins ---- */

/* The relation of all tables that a query joins, or NULL. */
static RelOptInfo *
find_whole_join(PlannerInfo *root)
{
	ListCell   *lc;

	foreach(lc, root->join_rel_list)
	{
		RelOptInfo *rel = lfirst(lc);

		if (rel->reloptkind == RELOPT_JOINREL && bms_is_subset(root->all_baserels, rel->relids))
			return rel;
	}
	return NULL;
}

/* Add the names of a relation's tables. */
static void
add_names(PlannerInfo *root, RelOptInfo *rel, StringInfo names)
{
	int			table = -1;

	while ((table = bms_next_member(rel->relids, table)) >= 0)
	{
		/* the numbers of outer joins are among them */
		if (root->simple_rel_array[table] != NULL)
			appendStringInfo(names, "%s\"%s\"", names->len > 0 ? ", " : "", table_name(root, table));
	}
}

/* The tables of a chain after the first, in their order. */
static char *
inner_names(PlannerInfo *root, const JoinChain *chain)
{
	StringInfoData names;
	ListCell   *lc;

	initStringInfo(&names);
	foreach(lc, join_chain_steps(chain))
		add_names(root, ((JoinStep *) lfirst(lc))->inner->parent, &names);
	return names.data;
}

/* Why there is no chain for the rows of a join. */
static const char *
join_refusal(PlannerInfo *root, RelOptInfo *joined)
{
	const char *reason = NULL;

	if (vector_join == PLAN_OFF)
		return "pgbillion_rows.vector_join is off";
	if (!enable_seqscan)
		return "enable_seqscan is off";
	reason = join_chain_refusal(root);
	if (reason == NULL)
		(void) join_chain_find(root, joined, false, &reason);
	return reason != NULL ? reason : "PostgreSQL's search of joins did not come to one, or what it returns are no columns";
}

static void
report_join(PlannerInfo *root, RelOptInfo *joined)
{
	const JoinOffer *offer = join_offer_find(root, joined);

	if (offer == NULL)
		plan_report(root, "no vectorized join: %s", join_refusal(root, joined));
	else
		plan_report(root, "a vectorized join of \"%s\" with %s %s estimated to take %.2f compared with PostgreSQL's %.2f%s: %.0f rows",
					table_name(root, offer->chain->table->relid), inner_names(root, offer->chain),
					offer->pays ? "is possible, and" : "does not pay, being", offer->taken, offer->rival,
					vector_tables_in_memory(root) ? " in memory" : "", joined->rows);
}

/* ---- guesses ---- */

/* Tell if the number of groups that keys make is a guess; there may be as many as `most`. */
void
vector_report_groups_guess(PlannerInfo *root, List *keys, double rows, double most)
{
	const char *guess = plan_is_reported() ? planner_groups_guess(root, keys, rows, most) : NULL;

	if (guess != NULL)
		plan_report(root, "the number of groups is a guess: %s", guess);
}

/* Tell of which tables the number of rows is a guess. */
static void
report_rows_guesses(PlannerInfo *root)
{
	int			table = -1;

	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[table];
		const char *guess = rel != NULL && rel->rtekind == RTE_RELATION ? planner_rows_guess(root, rel) : NULL;

		if (guess != NULL)
			plan_report(root, "the number of rows of \"%s\" is a guess: %s", table_name(root, table), guess);
	}
}

/* Tell of which joins of a chain the number of matches is a guess. */
static void
report_matches_guesses(PlannerInfo *root, const JoinChain *chain)
{
	ListCell   *lc;

	foreach(lc, join_chain_steps(chain))
	{
		JoinStep   *step = lfirst(lc);
		const char *guess = planner_matches_guess(root, step->clauses);
		StringInfoData names;

		if (guess == NULL)
			continue;
		initStringInfo(&names);
		add_names(root, step->inner->parent, &names);
		plan_report(root, "the number of matches of %s is a guess: %s", names.data, guess);
	}
}

/* ---- queries ---- */

/* How long the query takes that was planned last, or -1. */
static double query_ms = -1;
static bool ms_asked = false;

/*
 * The milliseconds that the query is estimated to take that was planned last, or
 * -1 if that is not known; and forget them.
 */
double
vector_take_query_ms(void)
{
	double		result = query_ms;

	query_ms = -1;
	ms_asked = false;
	return result;
}

/* Have that be known of the query that is planned next. */
void
vector_ask_query_ms(void)
{
	ms_asked = true;
}

/* A query has all its paths. */
static void
report_estimates(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel, RelOptInfo *rel, void *extra)
{
	RelOptInfo *joined;

	if (stage != UPPERREL_FINAL)
		return;
	/* what is around the query asks for it, whether it is reported or not */
	if (root->parent_root != NULL || ms_asked || plan_is_reported())
		query_ms = cached_query_ms(root, rel->pathlist);
	if (!plan_is_reported())
		return;
	joined = find_whole_join(root);
	if (joined != NULL)
	{
		const JoinOffer *offer = join_offer_find(root, joined);

		report_join(root, joined);
		if (offer != NULL)
			report_matches_guesses(root, offer->chain);
	}
	report_rows_guesses(root);
}

void
vector_report_init(void)
{
	planner_add_offer(report_estimates);
}
