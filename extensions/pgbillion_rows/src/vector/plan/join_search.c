/*-------------------------------------------------------------------------
 *
 * join_search.c
 *	  Which joins can be done along a table, and which of them cost least.
 *
 * A chain begins with a table that we can scan, or with one that stands for
 * several such. Each of its joins adds the rows of a relation, of which any path
 * of PostgreSQL's gives all. Chains are found in two ways:
 *
 *	join_chain_of_path()		the joins of a path of PostgreSQL's, in its order
 *	join_chain_of_search()	the cheapest one of all orders that PostgreSQL has looked
 *						at: while it does, the best chain of each relation is
 *						remembered. So the table may be one that PostgreSQL has
 *						on an inner side.
 *
 * What is remembered belongs to the memory context of the relation, and is
 * forgotten with it. The genetic search, which makes and drops relations by the
 * thousand, is left alone.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/geqo.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "parser/parsetree.h"
#include "utils/float.h"

#include "compat.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/plan/branch.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_chain.h"
#include "vector/plan/join_search.h"
#include "vector/plan/join_step.h"
#include "vector/plan/plan.h"

/* Of more partitions than that joins are not looked at, which takes long. */
#define MOST_PARTS 64

/* Nor with inner sides of which the plans for all partitions have more nodes than that. */
#define MOST_NODES 512

/* ---- the joins of a path ---- */

/* A path below what only computes columns, or collects the rows of workers. */
static Path *
skip_plain(Path *path)
{
	if (IsA(path, ProjectionPath))
		path = ((ProjectionPath *) path)->subpath;
	if (IsA(path, GatherPath))
		path = ((GatherPath *) path)->subpath;
	if (IsA(path, ProjectionPath))
		path = ((ProjectionPath *) path)->subpath;
	return path;
}

/* A path below what keeps its rows for the next time. */
static Path *
skip_cache(Path *path)
{
	if (IsA(path, MaterialPath))
		path = ((MaterialPath *) path)->subpath;
	if (IsA(path, MemoizePath))
		path = ((MemoizePath *) path)->subpath;
	return path;
}

/*
 * A path of all the rows of an inner side, of which PostgreSQL's may look for
 * those of each outer row, or give each process a part; or NULL. With `safe`
 * workers must be able to run it.
 */
static Path *
whole_inner(JoinPath *join, bool safe)
{
	Path	   *inner = skip_cache(join->innerjoinpath);

	/* rows made unique are no longer the relation's */
	if (IsA(inner, UniquePath) || IsA(join, HashPath))
	{
		if (inner->param_info == NULL && inner->parallel_workers == 0 && (inner->parallel_safe || !safe))
			return inner;
		if (IsA(inner, UniquePath))
			return NULL;
	}
	return join_step_cheapest_whole(inner->parent, safe);
}

/*
 * Does the inner side of a nested loop look for rows by conditions that nothing
 * tells of? Those of partitions and of joins are with the paths that they are
 * made of, and not among the join's own.
 */
static bool
hides_conditions(JoinPath *join)
{
	ParamPathInfo *params = skip_cache(join->innerjoinpath)->param_info;

	return params != NULL && params->ppi_clauses == NIL;
}

/*
 * The conditions of a join. Those that the inner side of a nested loop uses to
 * look for rows are not among the path's own: *looked_for.
 */
static List *
conditions_of(JoinPath *join, List **looked_for)
{
	ParamPathInfo *params = skip_cache(join->innerjoinpath)->param_info;

	*looked_for = params == NULL ? NIL : params->ppi_clauses;
	return list_concat_copy(join->joinrestrictinfo, *looked_for);
}

/* Is it a table that might be scanned by us? */
static bool
is_table(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->reloptkind == RELOPT_BASEREL && rel->rtekind == RTE_RELATION &&
		!planner_rt_fetch(rel->relid, root)->inh;
}

/* Is it the scan of a table, which might as well be ours? */
static bool
scans_table(PlannerInfo *root, Path *path)
{
	switch (path->pathtype)
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
			break;
		default:
			if (!vector_is_filter_scan(path))
				return false;
	}
	return is_table(root, path->parent) && path->param_info == NULL;
}

/* The step that a join of PostgreSQL's would be, or why there is none. */
static const char *
step_of_path(PlannerInfo *root, JoinPath *path, Index table, bool safe, JoinStep **result)
{
	Path	   *inner = whole_inner(path, safe);
	List	   *looked_for;
	InnerSide	side;
	JoinStep	tried;
	const char *reason;
	Joining		join = {
		.type = path->jointype,
		.relids = path->path.parent->relids,
		.outer = path->outerjoinpath->parent->relids,
		.inner = path->innerjoinpath->parent->relids,
		.hashes = IsA(path, HashPath),
		.inner_unique = path->inner_unique,
		.table = table,
		.outer_rows = path->outerjoinpath->parent->rows * cached_rows_factor(root, path->outerjoinpath->parent),
		.rows = path->path.parent->rows * cached_rows_factor(root, path->path.parent),
	};

	if (inner == NULL)
		return "a join whose inner side cannot be read as a whole";
	if (!join_step_is_our_type(join.type))
		return "a right or full join";
	if (hides_conditions(path))
		return "a join that looks for rows in several tables";
	join.conditions = conditions_of(path, &looked_for);
	join.looks_for_rows = looked_for != NIL;
	if (join.hashes)
		join.hashed = ((HashPath *) path)->path_hashclauses;

	join_step_appraise_inner(root, inner, safe, &side);
	reason = join_step_try(root, &join, &side, &tried);
	if (reason == NULL)
		*result = join_step_make(root, &join, &tried);
	return reason;
}

/* Is it a join of a kind that can be taken for a hash join? */
static bool
is_join(Path *path)
{
	return IsA(path, HashPath) || IsA(path, NestPath) || IsA(path, MergePath);
}

/* The relation that is outermost in a path of joins. */
static Index
first_of(Path *path)
{
	path = skip_plain(path);
	while (is_join(path))
		path = skip_plain(((JoinPath *) path)->outerjoinpath);
	return path->parent->relid;
}

/*
 * Make a chain of a path of a join, or say why not; *nsteps is how far that
 * got.
 */
const char *
join_chain_of_path(PlannerInfo *root, RelOptInfo *joined, Path *path, bool safe, JoinChain **result, int *nsteps)
{
	JoinChain  *chain;
	Index		table = first_of(path);
	List	   *steps = NIL;
	const char *reason;
	ListCell   *lc;

	*nsteps = 0;
	path = skip_plain(path);
	while (is_join(path))
	{
		JoinStep   *step;

		reason = step_of_path(root, (JoinPath *) path, table, safe, &step);
		if (reason != NULL)
			return reason;
		steps = lcons(step, steps);
		*nsteps = list_length(steps);
		path = skip_plain(((JoinPath *) path)->outerjoinpath);
	}
	if (steps == NIL || !scans_table(root, path))
		return "a join that is no chain of joins along a table";
	/* only the conditions of a table for us can be looked at */
	reason = vector_table_refusal(root, path->parent);
	if (reason != NULL)
		return reason;
	chain = join_chain_begin(root, path->parent);
	foreach(lc, steps)
	{
		JoinChain	longer;

		if (!join_chain_try_longer(chain, lfirst(lc), &longer))
			return "too many columns";
		chain = join_chain_make_longer(chain, joined, lfirst(lc));
	}
	*result = chain;

	return NULL;
}

/* ---- what is remembered ---- */

/* Two relations that PostgreSQL has joined, along which chains have not been looked at. */
typedef struct Pair
{
	RelOptInfo *outer;
	RelOptInfo *inner;
	JoinType	type;
	bool		inner_unique;
	List	   *conditions;
} Pair;

/* The best chains that give the rows of a relation: one of any, one for workers; or NULL. */
typedef struct Memory
{
	List	   *pairs;			/* of these, those to be looked at */
	JoinChain  *chains[2];
	JoinChain  *others[2];		/* the best along another table, or NULL */
	Rival		rivals[2];		/* of one process, and among partial paths;
								 * planned 0: none yet */
} Memory;

static Memory *
find_memory(PlannerInfo *root, RelOptInfo *rel)
{
	return planner_memo_find(root, MEMO_CHAINS, rel);
}

/* Begin to remember a relation. */
static Memory *
make_memory(PlannerInfo *root, RelOptInfo *rel)
{
	return planner_memo_make(root, MEMO_CHAINS, rel, sizeof(Memory));
}

/* Is it a path of one process of PostgreSQL's or another extension's, also where something is done with its rows? */
static bool
is_serial_of_core(Path *path)
{
	for (;;)
	{
		switch (nodeTag(path))
		{
			case T_ProjectionPath:
				path = ((ProjectionPath *) path)->subpath;
				break;
			case T_ProjectSetPath:
				path = ((ProjectSetPath *) path)->subpath;
				break;
			case T_SortPath:
			case T_IncrementalSortPath:
				path = ((SortPath *) path)->subpath;
				break;
			case T_GatherPath:
			case T_GatherMergePath:
				return false;
			default:
				return !vector_is_rows_of_joins(path);
		}
	}
}

/* The cheapest such path for all rows of a joined relation, or, with `partial`, for each process's; or NULL. */
static Path *
cheapest_of_core(RelOptInfo *joined, bool partial)
{
	ListCell   *lc;

	/* the cheapest comes first */
	foreach(lc, partial ? joined->partial_pathlist : joined->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && is_serial_of_core(path))
			return path;
	}
	return NULL;
}

/* What looking for rows takes, in a path and below it, by those of another relation. */
static Cost
look_ups_cost(PlannerInfo *root, Path *path)
{
	JoinPath   *join = (JoinPath *) path;
	Cost		cost = 0;

	switch (nodeTag(path))
	{
		case T_NestPath:
			if (!bms_is_empty(PATH_REQ_OUTER(join->innerjoinpath)))
				cost = Max(cached_path_cost(root, path) - cached_path_cost(root, join->outerjoinpath), 0);
			else
				cost = look_ups_cost(root, join->innerjoinpath);
			return cost + look_ups_cost(root, join->outerjoinpath);
		case T_HashPath:
		case T_MergePath:
			return look_ups_cost(root, join->outerjoinpath) + look_ups_cost(root, join->innerjoinpath);
		case T_ProjectionPath:
			return look_ups_cost(root, ((ProjectionPath *) path)->subpath);
		case T_GatherPath:
			return look_ups_cost(root, ((GatherPath *) path)->subpath);
		default:
			return 0;
	}
}

/*
 * The cheapest path of PostgreSQL's, of those which there have been: ours makes
 * it forget others. False if it is the one that was known.
 */
static bool
meet_rival(PlannerInfo *root, RelOptInfo *joined, bool partial, Rival *rival)
{
	Path	   *best = cheapest_of_core(joined, partial);
	double		factor;

	if (best == NULL || (rival->planned > 0 && best->total_cost >= rival->planned))
		return false;
	rival->planned = best->total_cost;
	rival->startup = best->startup_cost;
	rival->taken = cached_path_cost(root, best);
	factor = partial || IsA(best, GatherPath) || IsA(best, GatherMergePath) ? JOIN_LOOK_UP_PARALLEL_FACTOR : JOIN_LOOK_UP_FACTOR;
	rival->doubtful = Min(look_ups_cost(root, best), rival->taken) * (1 - 1 / factor);

	return true;
}

/*
 * A nested loop that looks up rows of one relation for those of another. If
 * PostgreSQL has not come to it yet, our path, which may cost about as much and
 * start sooner, would keep it away.
 */
static void
meet_look_ups(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner, Rival *rival)
{
	Path	   *whole = outer->cheapest_total_path;
	ListCell   *lc;

	if (whole->param_info != NULL)
		return;
	foreach(lc, inner->cheapest_parameterized_paths)
	{
		Path	   *path = lfirst(lc);
		Cost		planned = whole->total_cost + path->total_cost * whole->rows;

		if (path->param_info == NULL || !bms_is_subset(PATH_REQ_OUTER(path), outer->relids) ||
			(rival->planned > 0 && planned >= rival->planned))
			continue;
		rival->planned = planned;
		rival->startup = whole->startup_cost + path->startup_cost;
		rival->taken = cached_look_ups_cost(root, whole, path);
		rival->doubtful = Max(rival->taken - cached_path_cost(root, whole), 0) * (1 - 1 / JOIN_LOOK_UP_FACTOR);
	}
}

/* Does a table stand for others: is it partitioned, has it children, or is it a UNION ALL? */
static bool
stands_for_others(PlannerInfo *root, RelOptInfo *rel)
{
	return rel->reloptkind == RELOPT_BASEREL && planner_rt_fetch(rel->relid, root)->inh;
}

/* Why a table below another one cannot be scanned by us, also for what the other's columns are in it; or NULL. */
static const char *
part_refusal(PlannerInfo *root, RelOptInfo *part)
{
	const char *reason = vector_table_refusal(root, part);
	ListCell   *lc;

	foreach(lc, part->reltarget->exprs)
	{
		if (reason == NULL)
			reason = vector_expression_refusal(lfirst(lc));
	}
	return reason;
}

static Memory *recall(PlannerInfo *root, RelOptInfo *rel);

/* The chain of a branch of a UNION ALL that is a subquery, or NULL and the reason. */
static JoinChain *
chain_of_branch(PlannerInfo *root, RelOptInfo *table, RelOptInfo *branch, const char **reason)
{
	PlannerInfo *subroot = branch->subroot;
	RelOptInfo *input;
	JoinChain  *chain = NULL;

	*reason = branch_refusal(root, table, branch);
	if (*reason != NULL)
		return NULL;
	input = branch_input(branch);
	*reason = "a subquery that reads no table or join";
	if (input == NULL || IS_DUMMY_REL(input))
		return NULL;
	if (is_table(subroot, input))
	{
		*reason = vector_table_refusal(subroot, input);
		if (*reason == NULL)
			chain = join_chain_begin(subroot, input);
	}
	else
	{
		Memory	   *memory = recall(subroot, input);

		*reason = "a subquery whose joins are none along a table";
		chain = memory == NULL ? NULL : memory->chains[input->consider_parallel];
	}
	return chain == NULL || chain->has_branches ? NULL : join_chain_of_branch(chain, branch, input->consider_parallel);
}

/* The chain of one of the tables that a table stands for, or NULL and the reason. */
static JoinChain *
chain_of_part(PlannerInfo *root, RelOptInfo *table, RelOptInfo *part, const char **reason)
{
	if (part->rtekind == RTE_SUBQUERY)
		return chain_of_branch(root, table, part, reason);
	*reason = part_refusal(root, part);
	return *reason == NULL ? join_chain_begin(root, part) : NULL;
}

/* The chains of the tables that a table stands for; NIL if they are not for us. */
static List *
parts_for_us(PlannerInfo *root, RelOptInfo *table)
{
	List	   *tables;
	List	   *parts = NIL;
	ListCell   *lc;

	if (planner_prunes_at_run_time(root, table))
		return NIL;
	tables = planner_leaf_tables(root, table);
	if (list_length(tables) > MOST_PARTS)
		return NIL;
	foreach(lc, tables)
	{
		const char *reason;
		JoinChain  *part = chain_of_part(root, table, lfirst(lc), &reason);

		if (part == NULL)
			return NIL;
		parts = lappend(parts, part);
	}
	return parts;
}

/* The chain of a table alone, or NULL. */
static JoinChain *
chain_of_table(PlannerInfo *root, RelOptInfo *table)
{
	List	   *parts;

	if (is_table(root, table))
		return vector_table_refusal(root, table) == NULL ? join_chain_begin(root, table) : NULL;
	parts = parts_for_us(root, table);
	return parts != NIL ? join_chain_begin_parts(root, table, parts) : NULL;
}

/* What is known of a relation, of which a table alone is found out now; or NULL. */
static Memory *
recall(PlannerInfo *root, RelOptInfo *rel)
{
	Memory	   *memory = find_memory(root, rel);

	if (memory == NULL && (is_table(root, rel) || stands_for_others(root, rel)))
	{
		memory = make_memory(root, rel);
		memory->chains[0] = memory->chains[1] = chain_of_table(root, rel);
		if (memory->chains[1] != NULL && memory->chains[1]->serial)
			memory->chains[1] = NULL;
	}
	return memory;
}

/*
 * The chain of those branches of a UNION ALL that are for us, of which some are
 * subqueries, and the *others (List of RelOptInfo); or NULL, and the reason if
 * branches are subqueries.
 */
static JoinChain *
chain_of_some(PlannerInfo *root, RelOptInfo *table, List **others, const char **reason)
{
	List	   *tables = planner_leaf_tables(root, table);
	List	   *parts = NIL;
	bool		found = false;
	ListCell   *lc;

	*reason = NULL;
	*others = NIL;
	foreach(lc, tables)
		found |= ((RelOptInfo *) lfirst(lc))->rtekind == RTE_SUBQUERY;
	if (!found)
		return NULL;
	if (list_length(tables) > MOST_PARTS)
	{
		*reason = "a UNION ALL of very many branches";
		return NULL;
	}
	foreach(lc, tables)
	{
		const char *refusal;
		JoinChain  *part = chain_of_part(root, table, lfirst(lc), &refusal);

		if (part != NULL)
			parts = lappend(parts, part);
		else
		{
			*others = lappend(*others, lfirst(lc));
			*reason = refusal;
		}
	}
	return parts != NIL ? join_chain_begin_parts(root, table, parts) : NULL;
}

/*
 * The chains of the branches of a UNION ALL, of which some are subqueries, without
 * joins of the query around: one of any process, and one for workers, or NULL.
 * Without any, the reason, if there are such branches. The *others are left to
 * PostgreSQL.
 */
JoinChain *
join_chain_of_branches(PlannerInfo *root, RelOptInfo *table, JoinChain **safe, List **others, const char **reason)
{
	Memory	   *memory;
	JoinChain  *chain = chain_of_some(root, table, others, reason);

	*safe = NULL;
	if (chain == NULL || *others != NIL)
		return chain;
	/* what PostgreSQL has for the same rows is remembered with this one */
	memory = recall(root, table);
	*safe = memory->chains[1];

	return memory->chains[0];
}

/* Is the one chain of a relation's rows known to be cheaper than the other? */
static bool
costs_less(PlannerInfo *root, RelOptInfo *joined, const JoinChain *one, const JoinChain *other)
{
	return join_chain_cost(root, one, joined) < join_chain_cost(root, other, joined);
}

/* A relation of which the pairs are being looked at. */
typedef struct Look
{
	PlannerInfo *root;
	RelOptInfo *joined;
	Memory	   *memory;			/* of it */
	double		rows;			/* that it likely has */
	Cost		most;			/* that a chain may cost to be promising */
} Look;

/*
 * Prolong a chain by a join, and remember it if it is the cheapest one of its
 * rows: then true.
 */
static bool
prolong(const Look *look, JoinChain *chain, const Joining *join, const InnerSide *inner, bool safe)
{
	PlannerInfo *root = look->root;
	RelOptInfo *joined = look->joined;
	JoinChain **best = &look->memory->chains[safe];
	JoinChain **other = &look->memory->others[safe];
	JoinChain	longer;
	JoinStep	tried;

	if (join_step_try(root, join, inner, &tried) != NULL || !join_chain_try_longer(chain, &tried, &longer))
		return false;
	if (*best == NULL || costs_less(root, joined, &longer, *best))
	{
		if (*best != NULL && (*best)->table != chain->table)
			*other = *best;
		*best = join_chain_make_longer(chain, joined, join_step_make(root, join, &tried));
		return true;
	}
	if ((*best)->table != chain->table && (*other == NULL || costs_less(root, joined, &longer, *other)))
		*other = join_chain_make_longer(chain, joined, join_step_make(root, join, &tried));
	return false;
}

/* Is a statement for us? The genetic search is left alone. */
static bool
is_for_us(PlannerInfo *root)
{
	return !searched_by_geqo(root) && join_chain_refusal(root) == NULL;
}

/*
 * What a chain may cost to be of use for the rows of a join, for which
 * PostgreSQL has paths. One that costs many times as much gets no further joins.
 */
static Cost
most_promising_cost(RelOptInfo *joined)
{
	Path	   *best = cheapest_of_core(joined, false);

	return vector_join == PLAN_FORCE || best == NULL ? get_float8_infinity() : JOIN_HOPELESS_FACTOR * best->total_cost;
}

/* The least that it can cost to read a table of `tuples` rows. */
static Cost
least_cost(double tuples)
{
	return STARTUP_COST + cpu_tuple_cost * KERNEL_COST_FACTOR * tuples;
}

/*
 * Can a join be said in columns of subqueries? It has no subqueries of its own,
 * and what was evaluated before in the query around is known there.
 */
static bool
is_for_branches(PlannerInfo *root, const JoinChain *chain, const Joining *join)
{
	ListCell   *lc;

	foreach(lc, join->conditions)
	{
		Node	   *clause = (Node *) lfirst_node(RestrictInfo, lc)->clause;

		if (contain_subplans(clause))
			return false;
	}
	foreach(lc, planner_leaf_tables(root, chain->table))
	{
		if (((RelOptInfo *) lfirst(lc))->rtekind == RTE_SUBQUERY && !branch_knows_params(root, lfirst(lc)))
			return false;
	}
	return true;
}

/*
 * Can what a chain's table stands for be joined with an inner side, table by
 * table? Tells the join of it.
 */
static bool
is_for_parts(PlannerInfo *root, const JoinChain *chain, const InnerSide *side, Joining *join)
{
	if (chain->has_branches && !is_for_branches(root, chain, join))
		return false;
	join->ntables = chain->ntables;
	join->inner_nodes = chain->ntables > 0 ? join_step_repeatable_nodes(side->path) : 0;

	return chain->ntables == 0 || (join->inner_nodes > 0 && join->inner_nodes * chain->ntables <= MOST_NODES);
}

/*
 * How many pairs of rows satisfy the conditions of a semijoin or antijoin:
 * PostgreSQL estimates only how many of the outer rows have a partner.
 */
static double
estimate_pairs(PlannerInfo *root, RelOptInfo *outer, RelOptInfo *inner, List *conditions)
{
	SpecialJoinInfo plain = {
		.type = T_SpecialJoinInfo,
		.min_lefthand = outer->relids,
		.min_righthand = inner->relids,
		.syn_lefthand = outer->relids,
		.syn_righthand = inner->relids,
		.jointype = JOIN_INNER,
	};

	return outer->rows * cached_rows_factor(root, outer) * inner->rows * cached_rows_factor(root, inner) *
		clauselist_selectivity(root, conditions, 0, JOIN_INNER, &plain);
}

/* Begin to look at a join of a pair along one of its relations. */
static Joining
begin_joining(const Look *look, const Pair *pair, RelOptInfo *along, RelOptInfo *other)
{
	Joining		join = {
		.type = pair->type,
		.reversed = along == pair->inner,
		.relids = look->joined->relids,
		.outer = along->relids,
		.inner = other->relids,
		.conditions = pair->conditions,
		.inner_unique = pair->inner_unique,
		.outer_rows = along->rows * cached_rows_factor(look->root, along),
		.rows = look->rows,
	};

	if (join.reversed)
		join.pairs = estimate_pairs(look->root, pair->outer, pair->inner, pair->conditions);
	return join;
}

/*
 * Remember the chain along one relation of a pair that ends with a join with the
 * other, if it is the cheapest one of the join's rows: then true. This runs for
 * every join that PostgreSQL looks at, and most chains are not promising: that
 * is found out first.
 */
static bool
look_along(const Look *look, const Pair *pair, RelOptInfo *along, RelOptInfo *other)
{
	PlannerInfo *root = look->root;
	bool		reversed = along == pair->inner;
	Memory	   *memory;
	Joining		join;
	bool		begun = false;
	bool		found = false;

	if (along->reloptkind == RELOPT_BASEREL && least_cost(along->tuples) >= look->most)
		return false;
	memory = recall(root, along);
	if (memory == NULL)
		return false;
	for (int safe = 0; safe < 2; safe++)
	{
		JoinChain  *chain = memory->chains[safe];
		const InnerSide *side;
		Cost		least;

		if (chain == NULL || (safe && !look->joined->consider_parallel))
			continue;
		/* processes, and scans of several tables, would each have its rows */
		if (reversed && (safe || chain->ntables > 0))
			continue;
		least = Max(least_cost(chain->tuples), chain->nsteps > 0 ? join_chain_cost(root, chain, NULL) : 0);
		if (least >= look->most)
			continue;
		side = join_step_inner_of_relation(root, other, safe);
		if (side == NULL || least + side->path->total_cost >= look->most)
			continue;
		if (!begun)
			join = begin_joining(look, pair, along, other);
		begun = true;
		if (!is_for_parts(root, chain, side, &join))
			continue;
		join.table = chain->table->relid;
		found |= prolong(look, chain, &join, side, safe);
	}
	return found;
}

/* Look at the chains that end with a join of two relations. True if one of them is the cheapest that is known. */
static bool
look_at_pair(const Look *look, const Pair *pair)
{
	bool		found = look_along(look, pair, pair->outer, pair->inner);

	if (pair->type == JOIN_SEMI || pair->type == JOIN_ANTI)
		found |= look_along(look, pair, pair->inner, pair->outer);
	return found;
}

/* PostgreSQL looks at two relations that can be joined: remember them, if they can be for us. */
bool
join_chain_note_pair(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
					 JoinPathExtraData *extra)
{
	Memory	   *memory;
	Pair	   *pair;

	if (vector_join == PLAN_OFF || !enable_hashjoin || !enable_seqscan || !join_step_is_our_type(type) ||
		joined->reloptkind != RELOPT_JOINREL || IS_GROUPED_REL(joined) || !is_for_us(root) ||
		!bms_is_empty(joined->lateral_relids) || !bms_is_empty(outer->lateral_relids) ||
		!bms_is_empty(inner->lateral_relids))
		return false;
	memory = find_memory(root, joined);
	if (memory == NULL)
		memory = make_memory(root, joined);
	pair = palloc(sizeof(Pair));
	*pair = (Pair)
	{
		outer, inner, type, extra->inner_unique, extra->restrictlist
	};
	memory->pairs = lappend(memory->pairs, pair);
	return true;
}

/*
 * Look at the pairs that have been remembered of a relation's rows: which chain
 * is the cheapest one now. True if it is a new one, or PostgreSQL has a new path
 * for them. With `all`, PostgreSQL has looked at all of the pairs.
 */
bool
join_chain_look_at_pairs(PlannerInfo *root, RelOptInfo *joined, bool all)
{
	Memory	   *memory = find_memory(root, joined);
	Look		look = {root, joined, memory};
	bool		found = false;
	ListCell   *lc;

	if (memory == NULL || memory->pairs == NIL)
		return false;
	look.rows = joined->rows * cached_rows_factor(root, joined);
	look.most = most_promising_cost(joined);
	foreach(lc, memory->pairs)
		found |= look_at_pair(&look, lfirst(lc));
	if (memory->chains[0] != NULL || memory->chains[1] != NULL)
	{
		for (int partial = 0; partial < 2; partial++)
			found |= meet_rival(root, joined, partial, &memory->rivals[partial]);
		foreach(lc, all || !enable_nestloop ? NIL : memory->pairs)
		{
			Pair	   *pair = lfirst(lc);

			if (pair->type == JOIN_INNER)
				meet_look_ups(root, pair->inner, pair->outer, &memory->rivals[0]);
		}
	}
	list_free_deep(memory->pairs);
	memory->pairs = NIL;
	return found;
}

/* Tell what PostgreSQL has for the rows of a relation, or, with `partial`, each process's; false if that is nothing. */
bool
join_chain_rival(PlannerInfo *root, RelOptInfo *joined, bool partial, Rival *rival)
{
	Memory	   *memory = find_memory(root, joined);

	memset(rival, 0, sizeof(Rival));
	if (memory != NULL)
		*rival = memory->rivals[partial];
	/* other extensions add paths after ours */
	(void) meet_rival(root, joined, partial, rival);
	return rival->planned > 0;
}

/* The cheapest chain along another table than that one's, or NULL. */
JoinChain *
join_chain_other(PlannerInfo *root, RelOptInfo *joined, bool safe)
{
	return ((Memory *) find_memory(root, joined))->others[safe];
}

/* Take that one for the cheapest. */
void
join_chain_take_other(PlannerInfo *root, RelOptInfo *joined, bool safe)
{
	Memory	   *memory = find_memory(root, joined);

	memory->chains[safe] = memory->others[safe];
}

/* The cheapest chain of the rows of a relation, as far as PostgreSQL has looked at joins; or NULL. */
JoinChain *
join_chain_of_search(PlannerInfo *root, RelOptInfo *joined, bool safe)
{
	Memory	   *memory = find_memory(root, joined);

	return memory == NULL ? NULL : memory->chains[safe];
}
