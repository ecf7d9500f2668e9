/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  Chains of joins: which is taken, and the paths, of aggregation above them
 *	  and of their rows.
 *
 * The inner sides stay PostgreSQL's paths; where it has a nested loop or a
 * merge join, they are read as a whole instead.
 *
 * The rows of joins are offered for each relation that PostgreSQL's search
 * joins, in addition to its own paths, so that further joins, sorts, windows
 * and all else above are PostgreSQL's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/float.h"
#include "utils/guc.h"

#include "planner/arithmetic.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/node/custom_scan.h"
#include "vector/plan/branch.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_search.h"
#include "vector/plan/look_up_path.h"
#include "vector/plan/plan.h"

/* How many times what another one costs a chain may cost, as far as the search can tell, and still take less. */
#define CLOSE_COSTS 1.5

int			vector_join = PLAN_ON;

/* Take a chain if it is the cheapest so far. */
static void
consider(PlannerInfo *root, RelOptInfo *joined, JoinChain *chain, JoinChain **best, Cost *best_cost)
{
	Cost		cost = join_chain_cost(root, chain, joined);

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
		JoinChain  *chain;
		int			nsteps;
		const char *refusal = join_chain_of_path(root, joined, lfirst(lc), safe, &chain, &nsteps);

		if (refusal == NULL)
			consider(root, joined, chain, best, best_cost);
		/* the one that has got furthest tells most */
		else if (*reason == NULL || nsteps > 0)
			*reason = refusal;
	}
}

/*
 * The chain of joins that gives the rows of a join, of all that there are
 * the cheapest, or NULL and a reason. With `safe` it is one for workers.
 */
JoinChain *
join_chain_find(PlannerInfo *root, RelOptInfo *joined, bool safe, const char **reason)
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
	searched = join_chain_of_search(root, joined, safe);
	if (searched != NULL)
		consider(root, joined, searched, &best, &best_cost);
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

/* Does a chain's table stand for others? */
bool
join_chain_is_of_parts(const JoinChain *chain)
{
	return chain->ntables > 0;
}

/* Chains of each table that is read: a chain itself, or those of its parts, of which branches may have parts, too. */
static List *
chains_of_tables(JoinChain *chain)
{
	List	   *chains = NIL;
	ListCell   *lc;

	if (chain->ntables == 0)
		return list_make1(chain);
	foreach(lc, join_chain_parts(chain->root, chain))
		chains = list_concat(chains, chains_of_tables(lfirst(lc)));
	return chains;
}

/* The tables that a chain reads. */
List *
join_chain_tables(PlannerInfo *root, JoinChain *chain)
{
	List	   *tables = NIL;
	ListCell   *lc;

	foreach(lc, chains_of_tables(chain))
		tables = lappend(tables, ((JoinChain *) lfirst(lc))->table);
	return tables;
}

/* Why what is asked for cannot be computed of one of the tables that a chain reads, or NULL. */
const char *
join_chain_target_refusal(PlannerInfo *root, JoinChain *chain, PathTarget *target)
{
	ListCell   *lc;

	foreach(lc, join_chain_parts(root, chain))
	{
		JoinChain  *part = lfirst(lc);

		/* a UNION ALL may compute what is a column of it */
		PathTarget *own = join_chain_part_target(root, part, chain->table, target);
		const char *reason = part->ntables == 0 ? vector_target_refusal(own) : join_chain_target_refusal(part->root, part, own);

		if (reason != NULL)
			return reason;
	}
	return NULL;
}

/* ---- the path ---- */

/*
 * What PostgreSQL would say that a unit of time costs: the same share of the
 * cost of PostgreSQL's path as that unit is of that path's time. If tables are
 * not in memory, both are PostgreSQL's costs.
 */
static double
price_of_time(const Rival *rival)
{
	if (rival->planned <= 0)
		return 1;
	return rival->planned / Max(rival->taken - rival->doubtful, cpu_tuple_cost);
}

/* What PostgreSQL would say that a chain costs, from the time it takes. */
static Cost
planned_cost(const Rival *rival, Cost taken)
{
	return taken * price_of_time(rival);
}

/*
 * The same of what each process takes for its share. PostgreSQL chooses between
 * one process and several by its costs, where each reads as many pages as one
 * alone, so that those of its joins divide less than what they take. Whether we
 * are faster than each of its processes decides, and then whatever helps.
 */
static Cost
share_cost(const Rival *rival, const Rival *partial, Cost taken)
{
	Cost		as_one = planned_cost(rival, taken);
	Cost		as_each = planned_cost(partial, taken);

	if (partial->planned <= 0)
		return as_one;
	return as_each < partial->planned ? Min(as_one, as_each) : Max(as_one, as_each);
}

/* The expressions of the joins that need columns of the table. */
static List *
exprs_of_joins(JoinChain *chain)
{
	List	   *exprs = NIL;
	ListCell   *lc;

	foreach(lc, join_chain_steps(chain))
	{
		JoinStep   *step = lfirst(lc);

		exprs = list_concat(exprs, step->clauses);
		exprs = list_concat(exprs, step->quals);
		exprs = list_concat(exprs, step->others);
	}
	return exprs;
}

/*
 * Choose the index that a chain reads, and what pages and rows of the table cost
 * then. It is asked for one process and for several.
 */
static void
choose_index(PlannerInfo *root, JoinChain *chain, const PathTarget *target)
{
	List	   *exprs;
	Cost	   *pages = &chain->index_pages;
	Cost	   *row = &chain->index_row;

	if (chain->indexed_for == target)
		return;
	chain->indexed_for = target;
	chain->index = (ChainIndex)
	{
		InvalidOid, NIL
	};
	join_chain_scan_cost(chain, pages, row);
	if (!chain->has_column_index)
		return;
	exprs = exprs_of_joins(chain);
	chain->index.index = vector_choose_column_index(root, chain->table, list_concat_copy(target->exprs, exprs),
													chain->wait, pages, row);

	/*
	 * without joins, a branch of a UNION ALL has no rows for which columns
	 * could be fetched
	 */
	if (!OidIsValid(chain->index.index) && chain->nsteps > 0)
		chain->index.index = vector_choose_late_index(root, chain->table, exprs, target->exprs,
													  join_chain_rows_fetched(root, chain->table, chain->joined),
													  chain->wait, pages, row, &chain->index.late);
}

/*
 * What a chain costs each of `divisor` processes, except for what is done with
 * the rows of the joins, and which columnar index it reads.
 */
static Cost
run_cost(PlannerInfo *root, JoinChain *chain, PathTarget *target, double divisor, ChainIndex *index)
{
	Cost		pages;
	Cost		row;
	Cost		spared = 0;

	choose_index(root, chain, target);
	*index = chain->index;
	pages = chain->index_pages;
	row = chain->index_row;
	/* to PostgreSQL, reading takes as long however many read */
	if (vector_tables_in_memory(root))
		pages /= divisor;
	if (OidIsValid(index->index))
	{
		row += join_chain_tests_cost(chain) / Max(chain->table->tuples, 1);
		row *= join_chain_segments_read(chain);
		pages *= join_chain_segments_read(chain);
		/* which expressions of the index joins need was not known before */
		spared = chain->others * chain->share *
			(1 - vector_index_others_factor(chain->table, index->index) / chain->others_factor);
	}
	return STARTUP_COST * (1 + chain->nsteps) + pages + (row - spared) * chain->table->tuples / divisor +
		join_chain_joins_cost(chain, divisor);
}

/*
 * Can a join be computed for rows that the table's filter has yet to remove? It
 * must neither raise an error for them, nor compute keys for them in vain.
 */
static bool
takes_any_row(const JoinStep *step)
{
	ListCell   *lc;

	foreach(lc, step->clauses)
	{
		if (!IsA(planner_strip_relabel(linitial(lfirst_node(OpExpr, lc)->args)), Var))
			return false;
	}
	return !contain_leaked_vars((Node *) step->quals) && !contain_leaked_vars((Node *) step->others);
}

/*
 * Which of a chain's joins rows should pass before subqueries in the table's own
 * filter are evaluated: the last of the first ones that only remove rows; -1 if
 * there is none. Keys that go down remove most of these rows, but not all.
 */
static int
step_before_subqueries(List *steps)
{
	int			last = -1;
	ListCell   *lc;

	foreach(lc, steps)
	{
		const JoinStep *step = lfirst(lc);

		if (!step->only_removes || !takes_any_row(step))
			break;
		last = foreach_current_index(lc);
	}
	return last;
}

/* Has a chain conditions with subqueries, without those of its inner sides? */
static bool
has_subqueries(List *terms, List *steps)
{
	ListCell   *lc;

	if (contain_subplans((Node *) terms))
		return true;
	foreach(lc, steps)
	{
		const JoinStep *step = lfirst(lc);

		/* keys have none */
		if (contain_subplans((Node *) step->quals) || contain_subplans((Node *) step->others))
			return true;
	}
	return false;
}

/* How many of the terms come before the first one with a subquery. */
static int
count_plain(List *terms)
{
	int			n = 0;

	while (n < list_length(terms) && !contain_subplans(list_nth(terms, n)))
		n++;
	return n;
}

/* The custom scan of a table, with joins, for a target, without its cost and what it takes. */
static JoinsPath *
chain_path(PlannerInfo *root, RelOptInfo *parent, JoinChain *chain, PathTarget *target, int parallel_workers,
		   bool safe, ChainIndex index)
{
	List	   *joins = NIL;
	JoinsPath  *result = palloc0(sizeof(JoinsPath));
	CustomPath *path = &result->path;
	List	   *steps = join_chain_steps(chain);
	List	   *terms = vector_ordered_terms(root, chain->table->baserestrictinfo, chain->table->rows);
	int			last = step_before_subqueries(steps);
	int			plain = last < 0 ? list_length(terms) : count_plain(terms);
	Cost		reading = (chain->index_pages + chain->index_row * chain->table->tuples) / vector_parallel_divisor(parallel_workers);
	ListCell   *lc;

	*path = *vector_make_scan_path(parent, chain->table, target, list_copy_head(terms, plain), index.index, index.late,
								   parallel_workers, safe);
	result->has_subqueries = has_subqueries(terms, steps);

	foreach(lc, steps)
	{
		JoinStep   *step = lfirst(lc);
		double		divisor = vector_parallel_divisor(parallel_workers);
		Path	   *inner = join_step_inner(step, divisor);
		Cost		own = join_step_own_cost(step, divisor);
		List	   *others = step->others;
		List	   *kind;

		/* only one scan may have the rows of the hash table: look_along() */
		Assert(!step->reversed || (parallel_workers == 0 && chain->table->reloptkind == RELOPT_BASEREL));
		if (foreach_current_index(lc) == last)
			others = list_concat_copy(others, list_copy_tail(terms, plain));
		/* those of the query around come last */
		Assert(step->around != NULL || result->around == NIL);
		if (step->around != NULL)
			result->around = lappend(result->around, step->around);
		else
			path->custom_paths = lappend(path->custom_paths, inner);
		/* as JoinPathKind has it */
		kind = list_make5_int(step->type, inner == step->partial, step->reversed, (int) Min(own, PG_INT32_MAX), own > reading);
		kind = lappend_int(kind, (int) Min(inner->rows * cached_rows_factor(root, inner->parent), PG_INT32_MAX));
		joins = lappend(joins, list_make4(kind, step->clauses, step->quals, others));
#if PG_VERSION_NUM >= 180000
		path->path.disabled_nodes += inner->disabled_nodes;
#endif
	}
	path->custom_private = lappend(path->custom_private, joins);

	return result;
}

/* Paths of several tables, as one; with workers, a partial one. */
static Path *
append_paths(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, List *paths, int workers)
{
	return workers > 0 ? planner_partial_append_path(root, rel, target, paths, workers) :
		planner_append_path(root, rel, target, paths);
}

/*
 * The path of a branch of a UNION ALL, over those of its table, or of each of
 * those that this stands for, with this target.
 */
static Path *
path_of_branch(const JoinChain *part, PathTarget *target, List *paths, int workers)
{
	Path	   *path = linitial(paths);
	ListCell   *lc;

	foreach(lc, paths)
		branch_mark_path(part->branch, lfirst(lc));
	if (part->ntables > 0)
	{
		RelOptInfo *rel = makeNode(RelOptInfo);

		/*
		 * no relation of PostgreSQL's, which would look for partitions to
		 * leave out
		 */
		memcpy(rel, part->joined, sizeof(RelOptInfo));
		rel->reloptkind = RELOPT_UPPER_REL;
		rel->baserestrictinfo = rel->pathlist = rel->partial_pathlist = NIL;
		rel->cheapest_total_path = rel->cheapest_startup_path = NULL;
		path = append_paths(part->root, rel, target, paths, workers);
	}
	return branch_path(part->branch, path);
}

/* The path of one table's scan with joins, which aggregates their rows, as vector_join_paths() has it. */
static Path *
aggregated_path(RelOptInfo *parent, JoinChain *chain, const Rival *rival, const Rival *partial, PathTarget *target,
				double groups, int parallel_workers, bool safe)
{
	PlannerInfo *root = chain->root;
	double		divisor = vector_parallel_divisor(parallel_workers);
	double		rows = chain->joined->rows / divisor;
	ChainIndex	index;
	Cost		run = run_cost(root, chain, target, divisor, &index);
	JoinsPath  *result = chain_path(root, parent, chain, target, parallel_workers, safe, index);
	CustomPath *path = &result->path;

	/*
	 * EXPLAIN names the relations that the path's parent is of; its rows are
	 * those that are aggregated
	 */
	path->path.parent = makeNode(RelOptInfo);
	memcpy(path->path.parent, parent, sizeof(RelOptInfo));
	path->path.parent->relids = chain->joined->relids;
	path->path.parent->rows = chain->joined->rows;
	path->path.rows = clamp_row_est(Min(groups, Max(rows, 1)));
	result->taken = run + (vector_row_cost(root, target) + vector_row_time(target)) * rows *
		(OidIsValid(index.index) ? AGGREGATE_TIME_JOINED_COLUMNS : 1);
	path->path.startup_cost = share_cost(rival, partial, run) + vector_row_cost(root, target) * rows;

	/*
	 * PostgreSQL's costs leave out much of what it does with each row that it
	 * aggregates, as filter_path.c knows, too
	 */
	path->path.startup_cost = Max(path->path.startup_cost - ROW_ABOVE_COST * rows, path->path.startup_cost / 2);
	path->path.total_cost = path->path.startup_cost + path->path.rows * cpu_tuple_cost;
	result->planned = path->path.total_cost;

	return &path->path;
}

/* The paths of a chain's scans, which aggregate the rows of the joins, as vector_join_paths() has them. */
static List *
aggregated_paths(RelOptInfo *parent, JoinChain *chain, const Rival *rival, const Rival *partial, PathTarget *target,
				 double groups, int parallel_workers, bool safe)
{
	List	   *paths = NIL;
	ListCell   *lc;

	if (chain->ntables == 0)
		return list_make1(aggregated_path(parent, chain, rival, partial, target, groups, parallel_workers, safe));
	foreach(lc, join_chain_parts(chain->root, chain))
	{
		JoinChain  *part = lfirst(lc);
		PathTarget *own = join_chain_part_target(chain->root, part, chain->table, target);
		List	   *below = aggregated_paths(parent, part, rival, partial, own, groups, parallel_workers, safe);

		if (part->branch != NULL)
			below = list_make1(path_of_branch(part, own, below, parallel_workers));
		paths = list_concat(paths, below);
	}
	return paths;
}

/*
 * The paths of a chain's scans, which aggregate the rows of the joins: one, or
 * one of each table that the chain's stands for. With parallel_workers they are
 * partial paths.
 */
List *
vector_join_paths(PlannerInfo *root, RelOptInfo *parent, JoinChain *chain, PathTarget *target,
				  double groups, int parallel_workers, bool safe)
{
	Rival		rival;
	Rival		partial;

	(void) join_chain_rival(root, chain->joined, false, &rival);
	(void) join_chain_rival(root, chain->joined, parallel_workers > 0, &partial);
	return aggregated_paths(parent, chain, &rival, &partial, target, groups, parallel_workers, safe);
}

/*
 * Add what starting workers costs beyond parallel_setup_cost to a chain's path
 * for them, or to the first of several. That setting is in units of PostgreSQL's
 * plans, and a unit of our prices stands for less time. Against it counts what
 * workers save by sharing the work on aggregated rows that is not in their
 * price; no more than half of the path's startup cost, which stays positive.
 */
void
vector_join_add_worker_cost(PlannerInfo *root, JoinChain *chain, PathTarget *target, int workers, Path *path)
{
	double		others = chain->joined->rows * (1 - 1 / vector_parallel_divisor(workers));
	Cost		start = JOIN_WORKER_SETUP_FACTOR * parallel_setup_cost - vector_row_time(target) * others;
	Cost		cost;
	Rival		rival;
	Rival		partial;

	(void) join_chain_rival(root, chain->joined, false, &rival);
	(void) join_chain_rival(root, chain->joined, true, &partial);
	cost = Max(start * Min(price_of_time(&rival), price_of_time(&partial)) - parallel_setup_cost, -path->startup_cost / 2);
	path->startup_cost += cost;
	path->total_cost += cost;
}

/* ---- rows of joins ---- */

/* The columns in expressions. */
static List *
columns_of(List *exprs)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, pull_var_clause((Node *) exprs, 0))
		columns = list_append_unique(columns, lfirst(lc));
	return columns;
}

static Plan *plan_rows(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
					   List *clauses, List *custom_plans);

const		CustomPathMethods vector_join_path_methods = {
	.CustomName = "VectorJoin",
	.PlanCustomPath = plan_rows,
};

/*
 * Keep what has been compared of a relation's rows for one process: the best
 * chain, to report why it is taken, or not.
 */
static void
memo_offer(PlannerInfo *root, const JoinChain *chain, Cost taken, bool pays)
{
	JoinOffer  *known = planner_memo_find(root, MEMO_OFFER, chain->joined);
	Rival		rival;

	if (known == NULL)
		known = planner_memo_make(root, MEMO_OFFER, chain->joined, sizeof(JoinOffer));
	else if (known->taken < taken)
		return;
	(void) join_chain_rival(root, chain->joined, false, &rival);
	*known = (JoinOffer)
	{
		chain, taken, rival.taken, pays
	};
}

/* What is known of a relation's rows, or NULL. */
const JoinOffer *
join_offer_find(PlannerInfo *root, RelOptInfo *joined)
{
	return planner_memo_find(root, MEMO_OFFER, joined);
}

/* What the rows of one table's chain take each of `divisor` processes, and which columnar index it reads. */
static Cost
rows_cost(PlannerInfo *root, JoinChain *chain, double divisor, ChainIndex *index)
{
	RelOptInfo *joined = chain->joined;

	return run_cost(root, chain, joined->reltarget, divisor, index) +
		(JOIN_RETURN_ROW_COST + joined->reltarget->cost.per_tuple) * joined->rows / divisor;
}

/*
 * What the rows of a chain take each of `divisor` processes. Of several tables it
 * is as exact as the search of chains is: most chains that are looked at are not
 * taken, and then no chain of each table is made.
 */
static Cost
all_rows_cost(PlannerInfo *root, JoinChain *chain, double divisor, ChainIndex *index)
{
	RelOptInfo *joined = chain->joined;

	if (chain->ntables == 0)
		return rows_cost(root, chain, divisor, index);
	return STARTUP_COST * (1 + chain->nsteps) * chain->ntables + join_chain_shared_cost(root, chain, divisor) +
		(JOIN_RETURN_ROW_COST + joined->reltarget->cost.per_tuple + cpu_tuple_cost * CACHED_COST_APPENDED_ROW) * joined->rows / divisor;
}

/*
 * What the rows of a chain cost PostgreSQL's planner, or -1 if they do not pay;
 * *taken is what they take, and *index what the scan reads if it is of one table.
 * With workers they are each process's share, and what
 * PostgreSQL's partial paths cost counts. They cost a bit less than PostgreSQL's
 * own, and no less than that: what is chosen above stays the same, also whether
 * there are workers, and of other paths for the same rows that PostgreSQL comes
 * to look at none is lost that it would have preferred.
 */
static Cost
cost_of_rows(PlannerInfo *root, JoinChain *chain, int workers, Cost *taken, ChainIndex *index)
{
	Cost		planned;
	Rival		rival;

	(void) join_chain_rival(root, chain->joined, workers > 0, &rival);
	*taken = all_rows_cost(root, chain, vector_parallel_divisor(workers), index);
	planned = planned_cost(&rival, *taken);
	if (vector_join == PLAN_FORCE)
		return planned * FORCED_COST_FACTOR;
	if (rival.planned <= 0)
		return workers > 0 ? -1 : planned;
	return planned < rival.planned ? rival.planned * LESS_COST_FACTOR : -1;
}

/*
 * Make the path of the rows of one table's chain, which take this, each unit of
 * that at a price, and read that index.
 */
static Path *
table_rows_path(JoinChain *chain, bool safe, int workers, Cost taken, double price, ChainIndex index)
{
	PlannerInfo *root = chain->root;
	RelOptInfo *joined = chain->joined;
	double		divisor = vector_parallel_divisor(workers);
	JoinsPath  *result = chain_path(root, joined, chain, joined->reltarget, workers, safe, index);
	CustomPath *path = &result->path;

	result->taken = taken;
	path->path.rows = clamp_row_est(joined->rows / divisor);
	path->path.total_cost = taken * price;
	path->path.startup_cost = path->path.total_cost * Min(chain->own / taken, 1);

	/*
	 * above the last join the relation gets another target; what a UNION ALL
	 * computes is computed of the columns
	 */
	path->custom_private = lappend(path->custom_private, columns_of(joined->reltarget->exprs));
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &vector_join_path_methods;

	return &path->path;
}

/* The paths of the rows of a chain's scans: one, or one of each table that the chain's stands for. */
static List *
rows_paths(JoinChain *chain, bool safe, int workers, double price)
{
	List	   *paths = NIL;
	ListCell   *lc;

	if (chain->ntables == 0)
	{
		ChainIndex	index;
		Cost		taken = rows_cost(chain->root, chain, vector_parallel_divisor(workers), &index);

		return list_make1(table_rows_path(chain, safe, workers, taken, price, index));
	}
	foreach(lc, join_chain_parts(chain->root, chain))
	{
		JoinChain  *part = lfirst(lc);
		List	   *below = rows_paths(part, safe, workers, price);

		if (part->branch != NULL)
			below = list_make1(path_of_branch(part, part->joined->reltarget, below, workers));
		paths = list_concat(paths, below);
	}
	return paths;
}

/*
 * Make the path of the rows of a chain from its cost, the time it takes, and,
 * if it is of one table, the index that it reads; with workers it is a partial one.
 */
static Path *
rows_path(PlannerInfo *root, JoinChain *chain, bool safe, int workers, Cost planned, Cost taken, ChainIndex index)
{
	RelOptInfo *joined = chain->joined;
	Path	   *result;

	if (chain->ntables == 0)
		return table_rows_path(chain, safe, workers, taken, planned / taken, index);
	result = append_paths(root, joined, joined->reltarget, rows_paths(chain, safe, workers, planned / taken), workers);
	result->total_cost = planned;

	return result;
}

/* The same of the chain of one table. */
static bool
table_may_fail(const JoinChain *chain)
{
	ListCell   *lc;

	foreach(lc, chain->table->baserestrictinfo)
	{
		if (contain_leaked_vars((Node *) lfirst_node(RestrictInfo, lc)->clause))
			return true;
	}
	foreach(lc, join_chain_steps(chain))
	{
		JoinStep   *step = lfirst(lc);

		if (contain_leaked_vars((Node *) step->clauses) || contain_leaked_vars((Node *) step->quals) ||
			contain_leaked_vars((Node *) step->others))
			return true;
	}
	return false;
}

/* Could evaluating the conditions of a chain raise an error? As far as PostgreSQL knows: it calls that a leak. */
static bool
may_fail(PlannerInfo *root, JoinChain *chain)
{
	ListCell   *lc;

	/* with constants in place of columns nothing is said to leak */
	if (table_may_fail(chain))
		return true;
	foreach(lc, chains_of_tables(chain))
	{
		if (table_may_fail(lfirst(lc)))
			return true;
	}
	return false;
}

/* What is known of a relation's columns. */
typedef struct ColumnsMemo
{
	bool		returned;		/* can they be, by us? */
} ColumnsMemo;

static bool
can_return_columns(PlannerInfo *root, RelOptInfo *joined)
{
	ColumnsMemo *known = planner_memo_find(root, MEMO_COLUMNS, joined);
	ListCell   *lc;

	if (known != NULL)
		return known->returned;
	known = planner_memo_make(root, MEMO_COLUMNS, joined, sizeof(ColumnsMemo));
	known->returned = true;
	foreach(lc, joined->reltarget->exprs)
		known->returned &= IsA(lfirst(lc), Var) && vector_expression_refusal(lfirst(lc)) == NULL;
	return known->returned;
}

/*
 * Can the rows of a chain be returned by us? They are computed a batch at a
 * time: where only the first may be wanted, the others must not fail.
 */
static bool
can_return_rows(PlannerInfo *root, JoinChain *chain)
{
	return can_return_columns(root, chain->joined) && (!planner_wants_first_rows(root) || !may_fail(root, chain));
}

/* The place of our path of the rows of a relation among these that PostgreSQL's planner has at this cost, or NULL. */
static ListCell *
find_offered(List *paths, bool safe, Cost planned)
{
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);

		if (vector_is_rows_of_joins(path) && path->parallel_safe == safe && path->total_cost == planned)
			return lc;
	}
	return NULL;
}

/*
 * Have our path start as soon as PostgreSQL's own, whose place it takes.
 * PostgreSQL takes costs within a percent of each other for the same, and keeps
 * the path that starts first, even if it is the dearer one: ours could be lost
 * below further joins, or keep away a cheaper one.
 */
static void
start_with_rival(PlannerInfo *root, RelOptInfo *joined, bool partial, Path *path)
{
	Rival		rival;

	if (join_chain_rival(root, joined, partial, &rival))
		path->startup_cost = Min(rival.startup * LESS_COST_FACTOR, path->total_cost);
}

/* Offer the path of a chain's rows, for any process or for workers; with a number of these, a partial one. */
static void
offer_chain(PlannerInfo *root, JoinChain *chain, bool safe, int workers)
{
	RelOptInfo *joined = chain->joined;
	Cost		taken;
	ChainIndex	index = {InvalidOid, NIL};
	Cost		planned = cost_of_rows(root, chain, workers, &taken, &index);
	ListCell   *offered;
	Path	   *path;

	/* the shares of processes are compared with other shares */
	if (workers == 0)
		memo_offer(root, chain, taken, planned >= 0);
	if (planned < 0)
		return;
	offered = find_offered(workers > 0 ? joined->partial_pathlist : joined->pathlist, safe, planned);
	path = rows_path(root, chain, safe, workers, planned, taken, index);
	if (vector_join != PLAN_FORCE && !planner_wants_first_rows(root))
		start_with_rival(root, joined, workers > 0, path);

	/*
	 * it would not be taken for better than the longer one that costs as
	 * much; nothing refers to that as long as joins of the relation are
	 * looked at
	 */
	if (offered != NULL)
		lfirst(offered) = path;
	else if (workers > 0)
		add_partial_path(joined, path);
	else
		add_path(joined, path);
}

/*
 * Of the best chains along two tables, take the one whose rows take less: which
 * index they read, and what of their conditions it spares, is known only now.
 */
static void
compare_tables(PlannerInfo *root, RelOptInfo *joined, bool safe)
{
	JoinChain  *best = join_chain_of_search(root, joined, safe);
	JoinChain  *other = join_chain_other(root, joined, safe);
	ChainIndex	index;

	if (other != NULL && (best->has_column_index || other->has_column_index) &&
		join_chain_cost(root, other, joined) < CLOSE_COSTS * join_chain_cost(root, best, joined) &&
		all_rows_cost(root, other, 1, &index) < all_rows_cost(root, best, 1, &index))
		join_chain_take_other(root, joined, safe);
}

/* Offer paths for the rows of a joined relation, if something new is found for them. */
static void
offer_rows(PlannerInfo *root, RelOptInfo *joined, bool all)
{
	JoinChain  *any;
	JoinChain  *of_workers;
	int			workers = 0;

	if (!join_chain_look_at_pairs(root, joined, all))
		return;
	for (int safe = 0; safe < 2; safe++)
		compare_tables(root, joined, safe);
	any = join_chain_of_search(root, joined, false);
	of_workers = join_chain_of_search(root, joined, true);
	if (of_workers != NULL && joined->partial_pathlist != NIL && can_return_rows(root, of_workers))
		workers = compute_parallel_worker(of_workers->table, of_workers->npages, -1, max_parallel_workers_per_gather);
	if (workers > 0)
		offer_chain(root, of_workers, true, workers);
	/* as good, and for more */
	if (any != NULL && of_workers != NULL &&
		join_chain_cost(root, of_workers, joined) <= join_chain_cost(root, any, joined))
		any = NULL;
	if (any != NULL && can_return_rows(root, any))
		offer_chain(root, any, false, 0);
	if (of_workers != NULL && can_return_rows(root, of_workers))
		offer_chain(root, of_workers, true, 0);
}

/* PostgreSQL has looked at two relations that are joined. */
static void
look_at_join(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
			 JoinPathExtraData *extra)
{
	if (!join_chain_note_pair(root, joined, outer, inner, type, extra))
		return;
	if (planner_completes_joins(root))
		look_ups_note(root, joined, outer, inner, type, extra);
	else
		offer_rows(root, joined, false);
}

/* And at all that give the rows of a relation: it may know by now that there are none. */
static void
complete_joins(PlannerInfo *root, RelOptInfo *joined)
{
	if (IS_DUMMY_REL(joined))
		return;
	offer_rows(root, joined, true);
	look_ups_offer(root, joined);
}

/* Make the plan node. Its scan returns all columns of the relation, whatever is computed of them. */
static Plan *
plan_rows(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
		  List *clauses, List *custom_plans)
{
	List	   *outputs = NIL;
	CustomScan *cscan;
	ListCell   *lc;

	Assert(clauses == NIL);
	foreach(lc, list_nth_node(List, best_path->custom_private, VECTOR_PATH_ROWS))
		outputs = lappend(outputs, makeTargetEntry(copyObject(lfirst(lc)), list_length(outputs) + 1, NULL, false));
	cscan = vector_plan_scan(root, best_path, outputs, custom_plans, -1);
	cscan->scan.plan.targetlist = tlist;
	cscan->flags = best_path->flags;
	cscan->methods = &vector_join_methods;

	return &cscan->scan.plan;
}

void
vector_join_path_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.vector_join",
							 "Joins plain heap tables a page at a time.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &vector_join, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	RegisterCustomScanMethods(&vector_join_methods);
	planner_add_join_offer(look_at_join);
	planner_set_joined_offer(complete_joins);
}
