/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  Aggregation above joins: the chain of joins, and the path.
 *
 * The inner sides stay PostgreSQL's paths; where it has a nested loop or a
 * merge join, they are read as a whole instead.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "utils/float.h"
#include "utils/guc.h"

#include "planner/planner.h"
#include "vector/plan/join_chain.h"
#include "vector/plan/plan.h"
#include "vector/vector.h"

int			vector_join = PLAN_OFF;

/* How much cheaper ours has to be than index scans for each row of another relation. Measured. */
#define LOOK_UP_FACTOR 1.2

/* Take a chain if it is the cheapest so far. */
static void
consider(PlannerInfo *root, JoinChain *chain, JoinChain **best, Cost *best_cost)
{
	Cost		cost = chain_cost(root, chain);

	if (cost < *best_cost)
	{
		*best = chain;
		*best_cost = cost;
	}
}

/* Look for a chain among paths that is cheaper than the best one so far. */
static void
look_for_chain(PlannerInfo *root, RelOptInfo *joined, List *paths, bool safe, JoinChain **best, Cost *best_cost,
			   const char **reason)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		JoinChain  *chain = palloc0(sizeof(JoinChain));
		const char *refusal = chain_of_path(root, joined, lfirst(lc), safe, chain);

		if (refusal == NULL)
			consider(root, chain, best, best_cost);
		/* the one that has got furthest tells most */
		else if (*reason == NULL || chain->steps != NIL)
			*reason = refusal;
	}
}

/*
 * The chain of joins that gives the rows of a join, of all that there are
 * the cheapest, or NULL and a reason. With `safe` it is one for workers.
 */
JoinChain *
find_join_chain(PlannerInfo *root, RelOptInfo *joined, bool safe, const char **reason)
{
	JoinChain  *best = NULL;
	JoinChain  *searched;
	Cost		best_cost = get_float8_infinity();

	*reason = NULL;
	if (vector_join == PLAN_OFF)
		*reason = "a join";
	else if (!enable_hashjoin)
		*reason = "enable_hashjoin is off";
	if (*reason != NULL)
		return NULL;
	look_for_chain(root, joined, joined->pathlist, safe, &best, &best_cost, reason);
	look_for_chain(root, joined, joined->partial_pathlist, safe, &best, &best_cost, reason);
	searched = chain_of_search(joined, safe);
	if (searched != NULL)
		consider(root, searched, &best, &best_cost);
	if (best != NULL)
		*reason = NULL;
	return best;
}

/* The table that a chain begins with. */
RelOptInfo *
join_chain_table(JoinChain *chain)
{
	return chain->table;
}

/* ---- the path ---- */

/* Does PostgreSQL look for rows, in a path or below it, by those of another relation? */
static bool
looks_for_rows(Path *path)
{
	JoinPath   *join = (JoinPath *) path;

	switch (nodeTag(path))
	{
		case T_NestPath:
			return !bms_is_empty(PATH_REQ_OUTER(join->innerjoinpath)) || looks_for_rows(join->outerjoinpath) ||
				looks_for_rows(join->innerjoinpath);
		case T_HashPath:
		case T_MergePath:
			return looks_for_rows(join->outerjoinpath) || looks_for_rows(join->innerjoinpath);
		case T_ProjectionPath:
			return looks_for_rows(((ProjectionPath *) path)->subpath);
		case T_GatherPath:
			return looks_for_rows(((GatherPath *) path)->subpath);
		default:
			return false;
	}
}

/*
 * Bring the cost of joins and what aggregates their rows to a measure with
 * PostgreSQL's. Its costs leave out much of what it does with each row that it
 * joins and aggregates, as filter_path.c knows, too; and they overestimate
 * index scans of tables in cache. With workers it is as much, so that ours are
 * comparable among themselves.
 */
static Cost
settled(const JoinChain *chain, Cost cost)
{
	if (chain->joined->cheapest_total_path != NULL && looks_for_rows(chain->joined->cheapest_total_path))
		cost *= LOOK_UP_FACTOR;
	return Max(cost - ROW_ABOVE_COST * chain->joined->rows, cost / 2);
}

/* The expressions that need columns of the table. */
static List *
exprs_of(JoinChain *chain, PathTarget *target)
{
	List	   *exprs = list_copy(target->exprs);
	ListCell   *lc;

	foreach(lc, chain->steps)
	{
		JoinStep   *step = lfirst(lc);

		exprs = list_concat(exprs, step->clauses);
		exprs = list_concat(exprs, step->quals);
		exprs = list_concat(exprs, step->others);
	}
	return exprs;
}

/*
 * The custom scan of a table, with joins. With parallel_workers it is a
 * partial path.
 */
Path *
join_path(PlannerInfo *root, RelOptInfo *parent, JoinChain *chain, PathTarget *target,
		  double groups, int parallel_workers, bool safe)
{
	double		divisor = parallel_divisor(parallel_workers);
	double		rows = chain->joined->rows / divisor;
	List	   *joins = NIL;
	CustomPath *path;
	Cost		pages;
	Cost		row;
	Cost		run;
	Oid			index;
	ListCell   *lc;

	chain_scan_cost(root, chain, &pages, &row);
	index = choose_columns(chain->table, exprs_of(chain, target), &pages, &row);
	run = pages + row * chain->table->tuples / divisor + chain_joins_cost(chain, divisor) +
		row_cost(root, target) * rows;
	path = make_scan_path(parent, chain->table, target, ordered_terms(root, chain->table->baserestrictinfo), index,
						  parallel_workers, safe);

	/* EXPLAIN names the relations that the path's parent is of */
	path->path.parent = makeNode(RelOptInfo);
	memcpy(path->path.parent, parent, sizeof(RelOptInfo));
	path->path.parent->relids = chain->joined->relids;
	path->path.rows = clamp_row_est(Min(groups, Max(rows, 1)));
	path->path.startup_cost = STARTUP_COST * (1 + list_length(chain->steps)) + settled(chain, run);
	path->path.total_cost = path->path.startup_cost + path->path.rows * cpu_tuple_cost;
	foreach(lc, chain->steps)
	{
		JoinStep   *step = lfirst(lc);

		Path	   *inner = step_inner(step, divisor);

		path->custom_paths = lappend(path->custom_paths, inner);
		joins = lappend(joins, list_make4(list_make2_int(step->type, inner == step->partial), step->clauses,
										  step->quals, step->others));
#if PG_VERSION_NUM >= 180000
		path->path.disabled_nodes += inner->disabled_nodes;
#endif
	}
	path->custom_private = lappend(path->custom_private, joins);

	return &path->path;
}

void
vector_join_path_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_join",
							 "Joins plain heap tables a page at a time, below vectorized aggregation.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &vector_join, PLAN_OFF, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	join_chain_init();
}
