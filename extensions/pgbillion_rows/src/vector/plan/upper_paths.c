/*-------------------------------------------------------------------------
 *
 * upper_paths.c
 *	  What is offered to the planner: vectorized aggregation of tables.
 *
 * Where PostgreSQL has built its paths for GROUP BY, one more is offered: a
 * custom scan that gives partial states of each group, under PostgreSQL's
 * Finalize Aggregate. In parallel plans a Gather is between them, and over
 * partitions an Append of one custom scan each. What speaks against it is
 * reported.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/float.h"
#include "utils/guc.h"

#include "compat.h"
#include "planner/group_estimate.h"
#include "planner/planner.h"
#include "vector/aggregate/aggregate.h"
#include "vector/aggregate/ordered_set.h"
#include "vector/group/exchange.h"
#include "vector/group/regroup.h"
#include "vector/node/custom_scan.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/plan.h"
#include "vector/vector.h"

/*
 * How many rows a group of all keys must have, by the estimate, for grouping
 * sets. With fewer, PostgreSQL's node groups or sorts about as many groups as
 * there are rows, in one process.
 */
#define LEAST_ROWS_PER_SET_GROUP 2

int			vector_aggregate = PLAN_ON;
int			vector_exchange = PLAN_ON;

/* What is asked for: GROUP BY, or DISTINCT, which is GROUP BY without aggregates. */
typedef struct Request
{
	RelOptInfo *rel;			/* whose paths are offered */
	RelOptInfo *input;			/* what is aggregated */
	PathTarget *result;
	PathTarget *target;			/* keys and partial states that it is made of */
	List	   *clause;			/* of SortGroupClauses; NIL: one group */
	List	   *having;
	List	   *sets;			/* PostgreSQL's paths of grouping sets */
	AggSplit	split;			/* of PostgreSQL's node above */
	AggClauseCosts costs;
	bool		distinct;		/* there are aggregates with DISTINCT, or
								 * ordered-set aggregates */

	/* what is found out */
	JoinChain  *chain;			/* of joins, or NULL */
	JoinChain  *worker_chain;	/* one for workers, or NULL */
	bool		inherited;
	List	   *tables;			/* to be read by us */
	List	   *foreign;		/* paths for the states of others */
	List	   *others;			/* branches of a UNION ALL that PostgreSQL
								 * aggregates */
	List	   *keys;
	double		groups;
	double		most;			/* as many as there may be, where that is a
								 * limit of PostgreSQL's */
	bool		fits;			/* they do, in memory */
	bool		finish;			/* vector_finalize_path() applies */
	bool		exchange;		/* processes can exchange groups */
	bool		safe;			/* for workers */
	RelOptInfo *partial_rel;	/* of paths of partial states */

	double		best;			/* what the cheapest of our paths costs */
} Request;

/* ---- which tables ---- */

/*
 * A path for the partial states of a foreign table, to stand next to ours, or
 * NULL. For GROUP BY PostgreSQL has one, the shard's or its own, where it aggregates
 * partitions one by one.
 */
static Path *
foreign_states(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, bool distinct)
{
	RelOptInfo *core;

	if (rel->fdwroutine == NULL || !enable_partitionwise_aggregate)
		return NULL;
	if (!distinct)
	{
		core = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, rel->relids);
		if (core->cheapest_total_path == NULL)
			return NULL;
		/* it may return more: columns that group keys are made of */
		if (equal(core->reltarget->exprs, target->exprs))
			return core->cheapest_total_path;
	}
	return planner_foreign_states == NULL ? NULL : planner_foreign_states(root, rel, target);
}

/*
 * Sort the tables to be read into those for us and paths for the partial
 * states of the foreign ones; false if one is neither.
 */
static bool
split_leaves(PlannerInfo *root, RelOptInfo *top, PathTarget *target, bool distinct,
			 List **tables, List **foreign, const char **reason)
{
	ListCell   *lc;

	foreach(lc, planner_leaf_tables(root, top))
	{
		RelOptInfo *leaf = lfirst(lc);
		Path	   *path = foreign_states(root, leaf, planner_leaf_target(root, target, leaf, top), distinct);

		if (path != NULL)
		{
			*foreign = lappend(*foreign, path);
			continue;
		}
		*reason = vector_table_refusal(root, leaf);
		if (*reason != NULL)
			return false;
		*tables = lappend(*tables, leaf);
	}
	return true;
}

/* Is there an aggregate whose result depends on the order of rows? */
static bool
adds_floats(PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref) && aggregate_adds_floats(lfirst_node(Aggref, lc)))
			return true;
	}
	return false;
}

/* May an aggregate of a query's groups depend on the order of rows in a group? */
bool
vector_may_depend_on_order(PlannerInfo *root, PathTarget *target)
{
	List	   *found = pull_var_clause((Node *) list_make2(target->exprs, root->parse->havingQual),
										PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS | PVC_RECURSE_PLACEHOLDERS);
	ListCell   *lc;

	foreach(lc, found)
	{
		if (IsA(lfirst(lc), Aggref) && aggregate_may_depend_on_order(lfirst(lc)))
			return true;
	}
	return false;
}

/* Why what is aggregated is nothing for us, or NULL. */
static const char *
input_refusal(PlannerInfo *root, RelOptInfo *input)
{
	if (!enable_seqscan)
		return "enable_seqscan is off";
	if (input->reloptkind == RELOPT_OTHER_JOINREL)
		return "a join";
	if (input->reloptkind != RELOPT_BASEREL && input->reloptkind != RELOPT_OTHER_MEMBER_REL &&
		input->reloptkind != RELOPT_JOINREL)
		return "no table is read";
	if (input->reloptkind != RELOPT_JOINREL && input->rtekind != RTE_RELATION && !planner_rt_fetch(input->relid, root)->inh)
		return "what is aggregated is no table";
	if (IS_DUMMY_REL(input))
		return "no row can satisfy the conditions";
	return NULL;
}

/* Why what is asked for cannot be computed of one of the tables that a table stands for, or NULL. */
static const char *
parts_refusal(PlannerInfo *root, PathTarget *target, List *parts, RelOptInfo *table)
{
	ListCell   *lc;

	foreach(lc, parts)
	{
		/* a UNION ALL may compute what is a column of it */
		const char *reason = vector_target_refusal(planner_leaf_target(root, target, lfirst(lc), table));

		if (reason != NULL)
			return reason;
	}
	return NULL;
}

/* Find the joins of which rows are aggregated, or say why there are none for us. */
static const char *
find_chain(PlannerInfo *root, Request *request)
{
	const char *reason;
	const char *no_worker;
	JoinChain  *chain;

	request->chain = join_chain_find(root, request->input, false, &reason);
	if (request->chain == NULL)
		return reason;
	request->worker_chain = join_chain_find(root, request->input, true, &no_worker);
	request->inherited = join_chain_is_of_parts(request->chain);
	/* each table's scan would have states of the same values */
	if (request->inherited && request->distinct)
		return planner_no_partial_form(root, request->rel->reltarget, (Node *) request->having);
	/* what is found out of several tables must be of those of both chains */
	if (request->worker_chain != NULL && (request->inherited || join_chain_is_of_parts(request->worker_chain)) &&
		(request->distinct || join_chain_table(request->worker_chain) != join_chain_table(request->chain)))
		request->worker_chain = NULL;
	chain = request->worker_chain != NULL ? request->worker_chain : request->chain;
	request->tables = join_chain_tables(root, chain);

	return join_chain_target_refusal(root, chain, request->target);
}

/*
 * Find the branches of a UNION ALL, of which some are subqueries, or say why there
 * are none for us; false if there is no subquery among them.
 */
static bool
find_branches(PlannerInfo *root, Request *request, const char **reason)
{
	request->chain = join_chain_of_branches(root, request->input, &request->worker_chain, &request->others, reason);
	if (request->chain == NULL)
		return *reason != NULL;
	request->tables = join_chain_tables(root, request->chain);
	*reason = join_chain_target_refusal(root, request->chain, request->target);

	return true;
}

/* Find the tables to be read, or say why they cannot be. */
static const char *
find_tables(PlannerInfo *root, Request *request)
{
	const char *reason = NULL;
	RelOptInfo *partial_rel;

	if (request->input->reloptkind == RELOPT_JOINREL)
		return find_chain(root, request);
	request->inherited = planner_rt_fetch(request->input->relid, root)->inh;
	if (!request->inherited)
	{
		request->tables = list_make1(request->input);
		return vector_table_refusal(root, request->input);
	}
	if (planner_prunes_at_run_time(root, request->input))
		return "parameters that prune partitions when the query runs";
	if (find_branches(root, request, &reason))
		return reason;
	if (!split_leaves(root, request->input, request->target, request->split == AGGSPLIT_SIMPLE,
					  &request->tables, &request->foreign, &reason))
		return reason;
	if (request->tables == NIL && request->foreign == NIL)
		return "there is no partition to read";
	reason = parts_refusal(root, request->target, request->tables, request->input);
	if (reason != NULL)
		return reason;

	/*
	 * nothing for us, but shards need not group by what PostgreSQL would have
	 * returned in addition
	 */
	partial_rel = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, request->rel->relids);
	if (request->tables == NIL && equal(partial_rel->reltarget->exprs, request->target->exprs))
		return "all partitions are foreign tables";
	return NULL;
}

/*
 * Can processes exchange this number of groups, each partition of which should fit in memory? With DISTINCT, groups of the
 * keys and of its one argument.
 */
static bool
can_exchange(PathTarget *target, double groups)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref) && ((Aggref *) lfirst(lc))->aggdistinct != NIL)
		{
			if (regroup_argument(target->exprs) == NULL)
				return false;
		}
		else if (IsA(lfirst(lc), Aggref) && !aggregate_can_combine(lfirst_node(Aggref, lc)))
			return false;
	}
	return vector_memory_refusal(target, groups / EXCHANGE_PARTITIONS) == NULL;
}

/* ---- how many groups ---- */

static bool
is_forced(const Request *request)
{
	return (request->input->reloptkind == RELOPT_JOINREL ? vector_join : vector_aggregate) == PLAN_FORCE;
}

/* Estimate the groups, and say why that are too many, if they are. */
static const char *
estimate(PlannerInfo *root, Request *request)
{
	const char *reason;
	ListCell   *lc;

	foreach(lc, request->target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			request->keys = lappend(request->keys, lfirst(lc));
	}
	request->groups = request->most = 1;
	if (request->keys != NIL)
	{
		request->groups = group_estimate(root, request->keys, request->input->rows);
		request->most = group_estimate_most(root, request->keys, request->input->rows, request->groups);
	}

	if (request->sets != NIL && !is_forced(request) && request->groups * LEAST_ROWS_PER_SET_GROUP > request->input->rows)
		return plan_reason("grouping sets of %.0f groups of %.0f rows", request->groups, request->input->rows);

	/*
	 * a scan alone spills what does not fit; others would return it row by
	 * row
	 */
	reason = vector_memory_refusal(request->target, request->most);
	request->fits = reason == NULL;
	request->finish = !request->inherited && request->sets == NIL && (request->clause != NIL || request->distinct) && enable_hashagg &&
		vector_finalizable(root, request->target, request->result, request->clause);
	request->exchange = request->finish && vector_exchange != PLAN_OFF &&
		can_exchange(request->target, request->distinct && regroup_argument(request->target->exprs) != NULL ?
					 vector_distinct_pairs(root, request->input, request->target) : request->groups);
	return request->finish ? NULL : reason;
}

/* ---- paths ---- */

static void
add_final(Request *request, Path *path)
{
	/*
	 * cheaper than anything of PostgreSQL's, and still comparable among
	 * themselves
	 */
	if (is_forced(request))
		vector_force_path(path, FORCED_COST_FACTOR);
	request->best = Min(request->best, path->total_cost);
	add_path(request->rel, path);
}

/* Grouping sets of partial states, as PostgreSQL has a path of them of all rows. */
static Path *
set_path(PlannerInfo *root, Request *request, GroupingSetsPath *core, Path *path)
{
	if (core->aggstrategy != AGG_HASHED && !pathkeys_contained_in(core->subpath->pathkeys, path->pathkeys))
		path = (Path *) create_sort_path(root, request->partial_rel, path, core->subpath->pathkeys, -1);
	path = (Path *) create_groupingsets_path(root, request->rel, path, request->having, core->aggstrategy,
											 core->rollups, &request->costs, core->path.rows);
	return vector_finalize_sets_path((GroupingSetsPath *) path);
}

/* PostgreSQL's Finalize Aggregate over partial states. */
static Path *
finalize_path(PlannerInfo *root, Request *request, Path *path)
{
	Path	   *best = NULL;
	ListCell   *lc;

	foreach(lc, request->sets)
	{
		Path	   *found = set_path(root, request, lfirst_node(GroupingSetsPath, lc), path);

		if (best == NULL || compare_path_costs(found, best, TOTAL_COST) < 0)
			best = found;
	}
	if (best != NULL)
		return best;
	return (Path *) create_agg_path(root, request->rel, path, request->result,
									request->clause != NIL ? AGG_HASHED : AGG_PLAIN, request->split,
									request->clause, request->having, &request->costs, request->groups);
}

/* Prepare the relation of paths of partial states. */
static void
set_partial_rel(PlannerInfo *root, Request *request)
{
	RelOptInfo *rel = fetch_upper_rel(root, UPPERREL_PARTIAL_GROUP_AGG, request->rel->relids);

	if (request->foreign != NIL)
	{
		request->safe = request->tables != NIL &&
			planner_tables_parallel_safe(root, request->tables, request->target);
		/* PostgreSQL's is not for workers */
		request->partial_rel = makeNode(RelOptInfo);
		memcpy(request->partial_rel, rel, sizeof(RelOptInfo));
		request->partial_rel->consider_parallel = request->safe;
		return;
	}
	request->safe = request->rel->consider_parallel && request->input->consider_parallel &&
		is_parallel_safe(root, (Node *) request->target->exprs) &&
		(request->chain == NULL || request->worker_chain != NULL);
	request->partial_rel = rel;
	if (rel->reltarget->exprs == NIL)
	{
		rel->reltarget = request->target;
		rel->consider_parallel = request->safe;
	}
}

/* The scans of all tables, for `groups` groups; with workers, partial ones. */
static List *
scan_paths(PlannerInfo *root, Request *request, double groups, int workers)
{
	List	   *paths = NIL;
	Path	   *first;
	ListCell   *lc;

	if (request->chain != NULL)
		paths = vector_join_paths(root, request->partial_rel, workers > 0 ? request->worker_chain : request->chain,
								  request->target, groups, workers, workers > 0);
	foreach(lc, request->chain != NULL ? NIL : request->tables)
	{
		RelOptInfo *rel = lfirst(lc);
		PathTarget *own = planner_leaf_target(root, request->target, rel, request->input);

		paths = lappend(paths, vector_scan_path(root, request->partial_rel, rel, own, groups,
												workers, request->safe));
	}
	if (workers > 0 && request->chain != NULL)
		vector_join_add_worker_cost(root, request->worker_chain, request->target, workers, linitial(paths));
	else if (workers > 0 && paths != NIL)
	{
		first = linitial(paths);
		first->startup_cost += WORKER_SETUP_FACTOR * parallel_setup_cost;
		first->total_cost += WORKER_SETUP_FACTOR * parallel_setup_cost;
	}
	return paths;
}

/* What PostgreSQL's partial aggregation needs: the keys by their marks, and columns. */
static PathTarget *
needed_for_states(PlannerInfo *root, PathTarget *target)
{
	PathTarget *result = create_empty_pathtarget();
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (!IsA(lfirst(lc), Aggref))
			add_column_to_pathtarget(result, lfirst(lc), get_pathtarget_sortgroupref(target, foreach_current_index(lc)));
	}
	add_new_columns_to_pathtarget(result, pull_var_clause((Node *) target->exprs, PVC_RECURSE_AGGREGATES |
														  PVC_RECURSE_WINDOWFUNCS | PVC_INCLUDE_PLACEHOLDERS));
	return set_pathtarget_cost_width(root, result);
}

/* PostgreSQL's path for the states of a branch of a UNION ALL. */
static Path *
core_states(PlannerInfo *root, Request *request, RelOptInfo *branch, const AggClauseCosts *costs)
{
	PathTarget *target = planner_leaf_target(root, request->target, branch, request->input);
	Path	   *path = (Path *) create_projection_path(root, branch, branch->cheapest_total_path,
													   needed_for_states(root, target));

	return (Path *) create_agg_path(root, request->partial_rel, path, target,
									request->clause != NIL ? AGG_HASHED : AGG_PLAIN, AGGSPLIT_INITIAL_SERIAL,
									request->clause, NIL, costs, Min(request->groups, Max(path->rows, 1)));
}

/*
 * Our paths for the states of branches of a UNION ALL, with PostgreSQL's for
 * those that we do not aggregate, in the order of the branches: of equal values
 * the first one is shown.
 */
static List *
with_others(PlannerInfo *root, Request *request, List *paths)
{
	List	   *result = NIL;
	AggClauseCosts costs = {0};
	ListCell   *next = list_head(paths);
	ListCell   *lc;

	if (request->others == NIL)
		return paths;
	if (root->parse->hasAggs)
		get_agg_clause_costs(root, AGGSPLIT_INITIAL_SERIAL, &costs);
	foreach(lc, planner_leaf_tables(root, request->input))
	{
		if (list_member_ptr(request->others, lfirst(lc)))
			result = lappend(result, core_states(root, request, lfirst(lc), &costs));
		else
		{
			result = lappend(result, lfirst(next));
			next = lnext(paths, next);
		}
	}
	Assert(next == NULL);
	return result;
}

/* How many workers are worth while; 0 if there can be none. */
static int
count_workers(Request *request)
{
	double		pages = 0;
	ListCell   *lc;

	if (!request->safe || (request->distinct && !request->exchange) ||
		(request->foreign == NIL && request->input->partial_pathlist == NIL))
		return 0;
	foreach(lc, request->tables)
		pages += ((RelOptInfo *) lfirst(lc))->pages;
	return compute_parallel_worker(linitial(request->tables), pages, -1, max_parallel_workers_per_gather);
}

/*
 * What DISTINCT and ordered-set aggregates cost. PostgreSQL does not count what sorting within its node
 * costs: where it does not sort below that, which it counts, ours must not make
 * our path more expensive than its own.
 */
static Cost
extra_for_distinct(PlannerInfo *root, Request *request, Path *path)
{
	Cost		cost;
	bool		counted = true;
	ListCell   *lc;

	if (!request->distinct)
		return 0;
	cost = vector_distinct_cost(root, request->input, request->target) +
		vector_ordered_cost(request->target, request->input->rows, request->groups);
	foreach(lc, request->target->exprs)
	{
		Aggref	   *aggref = lfirst(lc);

		if (!IsA(aggref, Aggref) || (aggref->aggdistinct == NIL && !ordered_set_is_known(aggref)))
			continue;
#if PG_VERSION_NUM >= 160000
		counted &= aggref->aggpresorted;
#else
		counted = false;
#endif
	}
	if (!counted)
		foreach(lc, request->rel->pathlist)
			cost = Min(cost, Max(0.9 * ((Path *) lfirst(lc))->total_cost - path->total_cost, 0));

	return cost;
}

/*
 * Would our one process take the place of PostgreSQL's workers, without being
 * known to be faster? What PostgreSQL evaluates for each row takes as long here
 * as there, and may be many times what its costs say.
 */
static bool
spoils_workers(PlannerInfo *root, Request *request)
{
	/* a path with workers cannot be below another one */
	return vector_aggregate != PLAN_FORCE && request->chain == NULL && request->rel->cheapest_total_path != NULL &&
		!request->rel->cheapest_total_path->parallel_safe && vector_filters_by_row(root, request->input) &&
		!vector_index_has_filter(root, request->input, request->target->exprs);
}

/* Add the serial path of one table, or of joins, or say why not. */
static const char *
add_single(PlannerInfo *root, Request *request)
{
	Path	   *scan = linitial(scan_paths(root, request, request->groups, 0));
	Path	   *path;

	if (vector_aggregate != PLAN_FORCE && request->chain == NULL &&
		vector_is_looked_up_for_less(root, request->input, ((JoinsPath *) scan)->taken))
		return "an index finds the rows of each key of the outer query";
	path = finalize_path(root, request, scan);
	if (request->finish)
	{
		path = vector_finalize_path(root, (AggPath *) path, &request->costs,
									vector_spill_cost(request->input, request->target, request->groups) +
									extra_for_distinct(root, request, path));
		vector_add_waiting_cost(path, request->target, request->rel->pathlist, request->input->rows, request->groups);
	}
	add_final(request, path);

	return NULL;
}

/* Is the exchange of groups to be chosen, whatever it costs? */
static bool
exchange_is_forced(const Request *request)
{
	return vector_exchange == PLAN_FORCE || is_forced(request);
}

/*
 * Add the parallel paths of one table, or of joins, whose processes exchange groups: the
 * partial one, on which PostgreSQL may build more before it gathers, and that
 * which gathers the result.
 */
static void
add_exchange(PlannerInfo *root, Request *request, int workers)
{
	double		divisor = vector_parallel_divisor(workers);
	Request		share = *request;
	bool		forced = exchange_is_forced(request);
	Path	   *scan;
	Path	   *path;
	Path	   *gather;
	double		rows;

	scan = linitial(scan_paths(root, request, request->groups, workers));
	vector_exchange_groups(scan, request->groups, workers);
	vector_add_waiting_cost(scan, request->target, NIL, request->input->rows / divisor, request->groups);
	share.groups = scan->rows;
	path = vector_finalize_path(root, (AggPath *) finalize_path(root, &share, scan), &request->costs, 0);
	if (forced)
		vector_force_path(path, FORCED_COST_FACTOR);
	rows = path->rows * divisor;
	gather = (Path *) create_gather_path(root, request->rel, path, request->result, NULL, &rows);
	/* cheaper than our other paths, too, which are forced to be cheap */
	if (forced)
		vector_force_path(gather, PREFERRED_COST_FACTOR);
	add_partial_path(request->rel, path);
	add_final(request, gather);
}

/* Add the parallel path of aggregates with DISTINCT, whose processes share the values out. */
static void
add_shared_distinct(PlannerInfo *root, Request *request, int workers)
{
	double		pairs = vector_distinct_pairs(root, request->input, request->target);
	Path	   *scan = linitial(scan_paths(root, request, request->groups, workers));
	Path	   *path;
	Cost		cost = vector_shared_distinct_cost(request->input, request->target, pairs, workers);

	vector_share_pairs(scan, pairs, cost);
	path = finalize_path(root, request, planner_gathered_path(root, request->partial_rel, request->target, scan, NIL));
	path = vector_finalize_gathered_path(castNode(AggPath, path));
	/* cheaper than our other paths, too, which are forced to be cheap */
	if (exchange_is_forced(request))
		vector_force_path(path, PREFERRED_COST_FACTOR);
	add_final(request, path);
}

/*
 * Is the sum of floats over several tables another than PostgreSQL's? It would
 * add in the order of rows over all tables, except where shards add.
 */
static bool
adds_in_other_order(Request *request)
{
	return request->foreign == NIL && list_length(request->tables) + list_length(request->others) > 1 &&
		adds_floats(request->target);
}

/* Offer our paths, or say why not. */
static const char *
offer(PlannerInfo *root, Request *request)
{
	const char *reason = input_refusal(root, request->input);
	RelOptInfo *partial_rel;
	List	   *partial;
	int			workers;

	if (reason == NULL)
		reason = vector_target_refusal(request->target);
	if (reason == NULL)
		reason = vector_clause_refusal(request->target, request->clause);
	if (reason == NULL)
		reason = find_tables(root, request);
	if (reason == NULL)
		reason = estimate(root, request);
	if (reason != NULL)
		return reason;

	set_partial_rel(root, request);
	partial_rel = request->partial_rel;
	workers = count_workers(request);
	if (!request->inherited)
	{
		reason = workers > 0 && spoils_workers(root, request) ?
			"a condition without a kernel, for which PostgreSQL has workers" : add_single(root, request);
	}
	else if (!adds_in_other_order(request))
	{
		List	   *paths = list_concat_copy(request->foreign,
											 with_others(root, request, scan_paths(root, request, request->most, 0)));


		add_final(request, finalize_path(root, request,
										 planner_append_path(root, partial_rel, request->target, paths)));
	}
	else if (workers == 0)
		return "sums of floats over several tables in a serial plan";
	if (workers > 0 && request->distinct)
	{
		add_shared_distinct(root, request, workers);
		return NULL;
	}
	if (workers > 0 && request->fits)
	{
		/*
		 * PostgreSQL merges the groups of each process, one by one: be
		 * careful
		 */
		partial = scan_paths(root, request, request->most, workers);
		if (request->inherited)
			partial = list_make1(planner_partial_append_path(root, partial_rel, request->target, partial, workers));
		add_final(request, finalize_path(root, request,
										 planner_gathered_path(root, partial_rel, request->target,
															   linitial(partial), request->foreign)));
	}
	/* of few groups, for which it takes as long, there is the other by now */
	if (workers > 0 && request->exchange)
		add_exchange(root, request, workers);
	if (request->tables == NIL)
		return "all partitions are foreign tables";
	if (!isinf(request->best))
		return NULL;
	/* of several tables, groups that do not fit */
	return request->inherited ? vector_memory_refusal(request->target, request->most) : reason;
}

/* ---- the planner's questions ---- */

/* Has the query an aggregate with DISTINCT, or an ordered-set aggregate that we know, and no aggregate with ORDER BY? */
static bool
needs_rows_together(PathTarget *grouping, Node *having)
{
	List	   *exprs = list_concat(list_copy(grouping->exprs), having != NULL ? list_make1(having) : NIL);
	bool		found = false;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) exprs, PVC_INCLUDE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
								PVC_INCLUDE_PLACEHOLDERS))
	{
		Aggref	   *aggref = lfirst(lc);

		if (!IsA(aggref, Aggref))
			continue;
		if (ordered_set_is_known(aggref))
			found = true;
		else if (aggref->aggorder != NIL || AGGKIND_IS_ORDERED_SET(aggref->aggkind))
			return false;
		found |= aggref->aggdistinct != NIL;
	}
	return found;
}

/* Find PostgreSQL's paths of grouping sets, which ours are made after; or say why they are not for partial states. */
static const char *
find_sets(PlannerInfo *root, Request *request, GroupPathExtraData *extra)
{
	List	   *keys = NIL;
	ListCell   *lc;

	/*
	 * PostgreSQL itself never aggregates grouping sets in parts, and so does
	 * not ask whether that can be done
	 */
	if (root->hasNonPartialAggs || root->hasNonSerialAggs)
		return planner_no_partial_form(root, request->rel->reltarget, extra->havingQual);
	if (root->parse->groupClause == NIL)
		return "grouping sets without a column";

	/*
	 * above the Agg node a constant would be itself, and not NULL in the sets
	 * without it
	 */
	foreach(lc, get_sortgrouplist_exprs(root->parse->groupClause, root->processed_tlist))
	{
		if (!contain_var_clause(lfirst(lc)))
			return "grouping sets with a constant";

		/*
		 * only the set tells which of them is NULL, and setrefs.c could not
		 * tell them apart
		 */
		if (list_member(keys, lfirst(lc)))
			return "grouping sets with two equal keys";
		keys = lappend(keys, lfirst(lc));
	}
	foreach(lc, request->rel->pathlist)
	{
		GroupingSetsPath *sets;

		if (!IsA(lfirst(lc), GroupingSetsPath))
			continue;
		/* add_path() frees what ours is better than */
		sets = makeNode(GroupingSetsPath);
		*sets = *lfirst_node(GroupingSetsPath, lc);
		request->sets = lappend(request->sets, sets);
	}
	return request->sets == NIL ? "grouping sets that PostgreSQL has no path for" : NULL;
}

/* Offer our paths for GROUP BY, or say why not. */
static const char *
offer_groups(PlannerInfo *root, Request *request, GroupPathExtraData *extra)
{
	Query	   *parse = root->parse;
	bool		sets = parse->groupingSets != NIL;

	if (sets)
	{
		const char *reason = find_sets(root, request, extra);

		if (reason != NULL)
			return reason;
	}
	request->distinct = !sets && (extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0;
	if (request->distinct &&
		(!needs_rows_together(request->rel->reltarget, extra->havingQual) || input_refusal(root, request->input) != NULL ||
		 (request->input->reloptkind != RELOPT_JOINREL && planner_rt_fetch(request->input->relid, root)->inh)))
		return planner_no_partial_form(root, request->rel->reltarget, extra->havingQual);
	if (!sets && parse->groupClause != NIL && group_clause_of(root) == NIL)
		return "group keys that are all constant";
	/* PostgreSQL itself does not hash where an aggregate has DISTINCT */
	if (parse->groupClause != NIL &&
		!(request->distinct || sets ? grouping_is_hashable(group_clause_of(root)) : (extra->flags & GROUPING_CAN_USE_HASH) != 0))
		return "a group key that cannot be hashed";

	request->result = request->rel->reltarget;
	request->target = planner_partial_target(root, request->result, extra->havingQual);
	request->clause = group_clause_of(root);
	request->having = (List *) extra->havingQual;
	request->split = AGGSPLIT_FINAL_DESERIAL;
	if (request->distinct)
	{
		const char *reason = vector_target_refusal(request->target);

		if (reason != NULL)
			return reason;

		/*
		 * states of aggregates with DISTINCT are no partial ones: those of
		 * one group must not meet
		 */
		if (!enable_hashagg || !vector_finalizable(root, request->target, request->result, request->clause))
			return "DISTINCT in an aggregate, or an ordered-set aggregate, next to one that has no partial form, or with enable_hashagg off";
	}
	if (parse->hasAggs)
		/* ordered-set aggregates have no function that combines states */
		get_agg_clause_costs(root, root->hasNonPartialAggs ? AGGSPLIT_SIMPLE : AGGSPLIT_FINAL_DESERIAL, &request->costs);

	return offer(root, request);
}

/* The same for DISTINCT. */
static const char *
offer_distinct(PlannerInfo *root, Request *request)
{
	if (root->parse->hasDistinctOn)
		return "DISTINCT ON";
	if (distinct_clause_of(root) == NIL)
		return "distinct columns that are all constant";
	if (!enable_hashagg || !grouping_is_hashable(distinct_clause_of(root)))
		return "a distinct column that cannot be hashed, or enable_hashagg is off";

	/* nothing is computed: the keys are the result */
	request->result = request->target = request->input->cheapest_total_path->pathtarget;
	request->clause = distinct_clause_of(root);
	request->split = AGGSPLIT_SIMPLE;

	return offer(root, request);
}

/*
 * A path that gives partial states of the groups of a table, for plans made
 * elsewhere, or NULL. With parallel_workers it is a partial path.
 */
Path *
vector_states_path(PlannerInfo *root, RelOptInfo *parent, RelOptInfo *rel, double groups, int parallel_workers)
{
	const char *reason;
	Path	   *path;

	if (vector_aggregate == PLAN_OFF)
		return NULL;
	reason = enable_seqscan ? vector_table_refusal(root, rel) : "enable_seqscan is off";
	if (reason == NULL)
		reason = vector_target_refusal(parent->reltarget);
	if (reason == NULL)
		reason = vector_memory_refusal(parent->reltarget, groups);
	if (reason != NULL)
	{
		plan_report(root, "not vectorized before the join: %s", reason);
		return NULL;
	}
	path = vector_scan_path(root, parent, rel, parent->reltarget, groups, parallel_workers, parent->consider_parallel);
	if (vector_aggregate == PLAN_FORCE)
		vector_force_path(path, FORCED_COST_FACTOR);
	return path;
}

static void
offer_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				  RelOptInfo *rel, void *extra)
{
	const char *reason;
	Request		request = {.rel = rel,.input = input_rel,.best = get_float8_infinity()};
	double		core = 0;

	if ((stage != UPPERREL_GROUP_AGG && stage != UPPERREL_DISTINCT) || vector_aggregate == PLAN_OFF)
		return;
	/* of groups: those are what was aggregated */
	if (stage == UPPERREL_DISTINCT && IS_UPPER_REL(input_rel))
		return;

	/*
	 * what PostgreSQL's own paths cost is set later, and asked for here: in
	 * messages, and by spoils_workers()
	 */
	if (rel->pathlist != NIL)
	{
		set_cheapest(rel);
		core = rel->cheapest_total_path->total_cost;
	}

	/*
	 * look-ups of a few rows are the statements that are planned most often:
	 * it is to take little
	 */
	if (core > 0 && core < STARTUP_COST && input_rel->reloptkind == RELOPT_BASEREL && vector_aggregate != PLAN_FORCE &&
		vector_exchange != PLAN_FORCE && vector_columns != PLAN_FORCE)
	{
		plan_report(root, "not vectorized: setting it up would cost %.2f, compared with PostgreSQL's %.2f", STARTUP_COST, core);
		return;
	}
	reason = stage == UPPERREL_DISTINCT ? offer_distinct(root, &request) :
		offer_groups(root, &request, extra);
	if (reason != NULL)
		plan_report(root, "not vectorized: %s", reason);
	else
		plan_report(root, "vectors are possible, %s estimated to cost %.2f compared with PostgreSQL's %.2f: %.0f groups of %.0f rows",
					request.best > core && core > 0 ? "but" : "and", request.best, core,
					request.groups, request.input->rows);
	if (request.keys != NIL)
		vector_report_groups_guess(root, request.keys, request.input->rows, request.most);
}

void
vector_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_aggregate",
							 "Aggregates plain heap tables a page at a time.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &vector_aggregate, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	DefineCustomEnumVariable("pgbillion_rows.vector_exchange",
							 "Lets the processes of a parallel plan exchange groups, so that each finishes some of them.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &vector_exchange, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_scan_methods);
	RegisterCustomScanMethods(&vector_finalize_methods);
	cached_cost_add_replacing(&vector_finalize_path_methods);
	vector_filter_path_init();
	vector_columns_init();
	vector_join_path_init();
	planner_add_offer(offer_upper_paths);
}
