/*-------------------------------------------------------------------------
 *
 * join_step.c
 *	  One join of a chain: its conditions, its inner side, and what it costs.
 *
 * PostgreSQL's search looks at very many joins of the same relations by the same
 * conditions. What is found out of either is noted, and lists are made only
 * of a join that is taken.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"

#include "planner/arithmetic.h"
#include "planner/known_rows.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/join/join.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_step.h"
#include "vector/plan/plan.h"

/* Beyond that share of the rows a test of keys is left out: join/key_filter.c. */
#define WORTHWHILE_SHARE 0.5

/* A test of keys is taken to leave at least that share. */
#define LEAST_SHARE 1e-6

/* Is it a type of join that we do? */
bool
join_step_is_our_type(JoinType type)
{
	return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI;
}

/* ---- inner sides ---- */

/*
 * Can processes run a partial path below ours, and again? Those of ours that
 * wait for each other wait only for processes that are within the same one. Of
 * PostgreSQL's that do, and of Appends, that is left open.
 */
static bool
runs_in_parts(Path *path)
{
	switch (nodeTag(path))
	{
		case T_Path:
		case T_IndexPath:
		case T_BitmapHeapPath:
			return path->parallel_aware;
		case T_CustomPath:
			return path->parallel_aware && (vector_is_filter_scan(path) || vector_is_rows_of_joins(path));
		case T_ProjectionPath:
			return runs_in_parts(((ProjectionPath *) path)->subpath);
		case T_NestPath:
		case T_HashPath:
		case T_MergePath:
			return !path->parallel_aware && runs_in_parts(((JoinPath *) path)->outerjoinpath);
		default:
			return false;
	}
}

/* The cheapest path that gives each process a part of the rows of a path of a relation, or NULL; and what it costs. */
static Path *
cheapest_part(PlannerInfo *root, Path *whole, Cost *cost)
{
	Path	   *best = NULL;
	ListCell   *lc;

	*cost = 0;

	/* rows made unique are no longer the relation's */
	if (IsA(whole, UniquePath))
		return NULL;
	foreach(lc, whole->parent->partial_pathlist)
	{
		Path	   *path = lfirst(lc);
		Cost		own;

		if (!runs_in_parts(path))
			continue;
		own = cached_path_cost(root, path);
		if (best == NULL || own < *cost)
		{
			best = path;
			*cost = own;
		}
	}
	return best;
}

/* Why the rows of a path cannot be those of an inner side, or NULL. */
static const char *
columns_refusal(Path *path)
{
	ListCell   *lc;

	foreach(lc, path->pathtarget->exprs)
	{
		Expr	   *expr = lfirst(lc);
		const char *reason = vector_expression_refusal(expr);

		if (reason == NULL && !IsA(expr, Var))
			reason = "a join with computed columns";

		/*
		 * EXPLAIN could not name a field of it: ruleutils.c looks for it
		 * below a SubqueryScan only
		 */
		if (reason == NULL && exprType((Node *) expr) == RECORDOID)
			reason = "a join with a record of no named type";
		if (reason != NULL)
			return reason;
	}
	return NULL;
}

/* ---- inner sides of several plans ---- */

/*
 * Might an expression have another value the next time? What a subquery within
 * it computes cannot be seen from here.
 */
static bool
may_vary(const void *expr)
{
	Node	   *node = unconstify(Node *, (const Node *) expr);

	return contain_volatile_functions(node) || contain_subplans(node);
}

/* The same of conditions (List of RestrictInfo). */
static bool
conditions_may_vary(const List *conditions)
{
	ListCell   *lc;

	foreach(lc, conditions)
	{
		if (may_vary(lfirst_node(RestrictInfo, lc)->clause))
			return true;
	}
	return false;
}

/*
 * The paths below one, if several plans can be made of it and each of them has
 * the same rows: then true. Known kinds only: the plan of a subquery, for
 * instance, PostgreSQL expects to be made once.
 */
static bool
paths_below(const Path *path, List **below)
{
	*below = NIL;
	switch (nodeTag(path))
	{
		case T_Path:
			return path->pathtype == T_SeqScan || path->pathtype == T_CteScan;
		case T_IndexPath:
		case T_BitmapHeapPath:
			return true;
		case T_CustomPath:
			/* other conditions of joins do not vary: condition_refusal() */
			*below = ((const CustomPath *) path)->custom_paths;
			return vector_is_filter_scan(path) ||
				(vector_is_rows_of_joins(path) && !((const JoinsPath *) path)->has_subqueries);
		case T_AppendPath:
			*below = ((const AppendPath *) path)->subpaths;
			return true;
		case T_NestPath:
		case T_HashPath:
		case T_MergePath:
			*below = list_make2(((const JoinPath *) path)->outerjoinpath, ((const JoinPath *) path)->innerjoinpath);
			return !conditions_may_vary(((const JoinPath *) path)->joinrestrictinfo);
		case T_MaterialPath:
			*below = list_make1(((const MaterialPath *) path)->subpath);
			return true;
		case T_MemoizePath:
			*below = list_make1(((const MemoizePath *) path)->subpath);
			return true;
		case T_ProjectionPath:
			*below = list_make1(((const ProjectionPath *) path)->subpath);
			return true;
		case T_SortPath:
			*below = list_make1(((const SortPath *) path)->subpath);
			return true;
		default:
			return false;
	}
}

/*
 * How many nodes a plan of a path has, about, if several plans can be made of it
 * and each of them has the same rows; otherwise 0.
 */
int
join_step_repeatable_nodes(const Path *path)
{
	List	   *below;
	int			nodes = 1;
	ListCell   *lc;

	if (may_vary(path->pathtarget->exprs) || conditions_may_vary(path->parent->baserestrictinfo) ||
		(path->param_info != NULL && conditions_may_vary(path->param_info->ppi_clauses)) || !paths_below(path, &below))
		return 0;
	foreach(lc, below)
	{
		int			found = join_step_repeatable_nodes(lfirst(lc));

		if (found == 0)
			return 0;
		nodes += found;
	}
	return nodes;
}

/* ---- inner sides ---- */

/* Find out what is to be known of a path as an inner side; with `safe` it is for workers. */
void
join_step_appraise_inner(PlannerInfo *root, Path *path, bool safe, InnerSide *inner)
{
	ListCell   *lc;

	inner->path = path;
	inner->partial = safe ? cheapest_part(root, path, &inner->partial_cost) : NULL;
	inner->refusal = columns_refusal(path);
	inner->rows = path->rows * cached_rows_factor(root, path->parent);
	inner->cost = cached_path_cost(root, path);
	inner->ncolumns = list_length(path->pathtarget->exprs);
	inner->nvalues = 0;
	foreach(lc, path->pathtarget->exprs)
		inner->nvalues += !get_typbyval(exprType(lfirst(lc)));
}

/* The cheapest path of all the rows of a relation, or NULL. With `safe` workers must be able to run it. */
Path *
join_step_cheapest_whole(RelOptInfo *rel, bool safe)
{
	Path	   *best = NULL;
	ListCell   *lc;

	foreach(lc, rel->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && (path->parallel_safe || !safe) &&
			(best == NULL || compare_path_costs(path, best, TOTAL_COST) < 0))
			best = path;
	}
	return best;
}

/* Of a relation that has all its paths: what its cheapest one is as an inner side, for any process and for workers. */
typedef struct InnerMemo
{
	InnerSide	sides[2];
	bool		known[2];
} InnerMemo;

/* The cheapest path of a relation as an inner side, or NULL. PostgreSQL looks at joins of relations that have all their paths. */
const InnerSide *
join_step_inner_of_relation(PlannerInfo *root, RelOptInfo *rel, bool safe)
{
	InnerMemo  *known = planner_memo_find(root, MEMO_INNER, rel);

	Assert(rel->cheapest_total_path != NULL);
	if (known == NULL)
		known = planner_memo_make(root, MEMO_INNER, rel, sizeof(InnerMemo));
	if (!known->known[safe])
	{
		MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);
		Path	   *path = join_step_cheapest_whole(rel, safe);

		known->known[safe] = true;
		if (path != NULL)
			join_step_appraise_inner(root, path, safe, &known->sides[safe]);
		MemoryContextSwitchTo(old);
	}
	return known->sides[safe].path == NULL ? NULL : &known->sides[safe];
}

/* ---- conditions ---- */

/* What is known of a condition. */
typedef struct ClauseMemo
{
	const char *refusal;		/* or NULL */
	bool		tried[2];
	OpExpr	   *hashed[2];		/* with the left side outside, and commuted;
								 * NULL if it cannot be hashed */
	bool		is_integer;		/* what is compared */
	bool		has_subquery;
} ClauseMemo;

/* What speaks against a condition of a join, or NULL. */
static const char *
condition_refusal(PlannerInfo *root, RestrictInfo *rinfo)
{
	if (rinfo->security_level > 0)
		return "row security";
	if (rinfo->pseudoconstant)
		return "a condition that refers to no column";
	return vector_condition_refusal(root, rinfo);
}

static ClauseMemo *
memo_of(PlannerInfo *root, RestrictInfo *rinfo)
{
	ClauseMemo *known = planner_memo_find(root, MEMO_CLAUSE, rinfo);

	if (known == NULL)
	{
		MemoryContext old;

		known = planner_memo_make(root, MEMO_CLAUSE, rinfo, sizeof(ClauseMemo));
		old = MemoryContextSwitchTo(root->planner_cxt);
		known->refusal = condition_refusal(root, rinfo);
		known->has_subquery = contain_subplans((Node *) rinfo->clause);
		MemoryContextSwitchTo(old);
	}
	return known;
}

/* A clause as it is hashed, with the side of the outer relations on the left, or NULL. */
static OpExpr *
make_hashed(RestrictInfo *rinfo, bool commute)
{
	OpExpr	   *clause = (OpExpr *) copyObject(rinfo->clause);
	Oid			hash[2];

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
		return NULL;
	if (commute)
		CommuteOpExpr(clause);
	set_opfuncid(clause);
	if (!func_strict(clause->opfuncid) || !get_op_hash_functions(clause->opno, &hash[0], &hash[1]))
		return NULL;
	return clause;
}

/* The same, found once. It is not to be changed. */
static OpExpr *
hashed_clause(PlannerInfo *root, RestrictInfo *rinfo, ClauseMemo *known, Relids outer)
{
	bool		commute = !bms_is_subset(rinfo->left_relids, outer);

	if (!known->tried[commute])
	{
		MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);

		known->tried[commute] = true;
		known->hashed[commute] = make_hashed(rinfo, commute);
		if (known->hashed[commute] != NULL)
			known->is_integer = join_key_is_integer(known->hashed[commute]);
		MemoryContextSwitchTo(old);
	}
	return known->hashed[commute];
}

/*
 * May a condition of a join be hashed? Of a hash join those that PostgreSQL
 * hashes are. The result of a subquery is no key: it is forgotten with the next
 * row.
 */
static bool
is_hashable(const Joining *join, const ClauseMemo *known, RestrictInfo *rinfo)
{
	if (known->has_subquery)
		return false;
	if (join->hashes)
		return list_member_ptr(join->hashed, rinfo);
	/* a side may have no column at all */
	if (!OidIsValid(rinfo->hashjoinoperator) || !rinfo->can_join ||
		(IS_OUTER_JOIN(join->type) && RINFO_IS_PUSHED_DOWN(rinfo, join->relids)))
		return false;
	return (bms_is_subset(rinfo->left_relids, join->outer) && bms_is_subset(rinfo->right_relids, join->inner)) ||
		(bms_is_subset(rinfo->left_relids, join->inner) && bms_is_subset(rinfo->right_relids, join->outer));
}

/* What is counted of a join's conditions. */
typedef struct Conditions
{
	int			nkeys;
	Cost		keys;			/* of looking them up */
	Cost		others;			/* of all other conditions, for a pair, */
	Cost		startup;		/* and once */
	bool		goes_down;		/* does the only key remove rows of the table
								 * before all else? */
	double		place;			/* where those are that it leaves */
} Conditions;

/* Does a key remove rows of the table before all else? Then find the share of its pages where those are that it leaves. */
static bool
goes_down(PlannerInfo *root, const Joining *join, const OpExpr *clause, double *place)
{
	Var		   *key = (Var *) planner_strip_relabel(linitial(clause->args));

	if (!IsA(key, Var) || key->varno != join->table || !join_key_is_integer(clause))
		return false;
	*place = known_rows_place(root, key->varno, key->varattno, join->inner);
	return true;
}

/*
 * Can a further condition of a semijoin or antijoin be tried for pairs in
 * another order? It must not raise an error for a pair that PostgreSQL does not
 * come to, nor be about rows that have no partner.
 */
static bool
fits_reversed(const Joining *join, RestrictInfo *rinfo)
{
	return !contain_leaked_vars((Node *) rinfo->clause) &&
		(join->type == JOIN_SEMI || !RINFO_IS_PUSHED_DOWN(rinfo, join->relids));
}

/* Look at the conditions of a join; the reason if one is nothing for us. */
static const char *
count_conditions(PlannerInfo *root, const Joining *join, Conditions *found)
{
	ListCell   *lc;

	memset(found, 0, sizeof(Conditions));
	foreach(lc, join->conditions)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		ClauseMemo *known = memo_of(root, rinfo);
		OpExpr	   *clause;

		if (known->refusal != NULL)
			return known->refusal;
#if PG_VERSION_NUM >= 160000
		/* one of several forms, of which only one holds here */
		if (join->looks_for_rows && (rinfo->has_clone || rinfo->is_clone))
			return "a condition that outer joins give several forms";
#endif
		if (!is_hashable(join, known, rinfo))
		{
			if (join->reversed && !fits_reversed(join, rinfo))
				return "a condition that needs the order of a semijoin or antijoin";
			found->others += vector_pair_cost(root, rinfo)->cost;
			found->startup += vector_pair_cost(root, rinfo)->startup;
			continue;
		}
		clause = hashed_clause(root, rinfo, known, join->outer);
		if (clause == NULL)
			return "a join by an operator that is not strict";
		found->keys += known->is_integer ? JOIN_INTEGER_KEY_COST : JOIN_OTHER_KEY_COST;
		found->goes_down = found->nkeys++ == 0 && known->is_integer && goes_down(root, join, clause, &found->place);
	}
	if (found->nkeys == 0)
		return "a join by other conditions than equality";
	if (found->nkeys > JOIN_MAX_KEYS)
		return plan_reason("a join by more than %d columns", JOIN_MAX_KEYS);
	return NULL;
}

/* Sort the conditions of a join, which are for us, into its step. */
static void
sort_conditions(PlannerInfo *root, const Joining *join, JoinStep *step)
{
	List	   *quals = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, join->conditions)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		ClauseMemo *known = memo_of(root, rinfo);

		if (is_hashable(join, known, rinfo))
			step->clauses = lappend(step->clauses, hashed_clause(root, rinfo, known, join->outer));
		else if (IS_OUTER_JOIN(step->type) && RINFO_IS_PUSHED_DOWN(rinfo, join->relids))
			others = lappend(others, rinfo);
		else
			quals = lappend(quals, rinfo);
	}
	step->quals = vector_ordered_terms(root, quals, join->rows);
	step->others = vector_ordered_terms(root, others, join->rows);
}

/* ---- steps ---- */

/* Set what a step costs. */
static void
set_cost(const Joining *join, const InnerSide *inner, const Conditions *found, JoinStep *step)
{
	double		far = vector_distance(inner->rows * join_table_entry_bytes(inner->ncolumns, found->nkeys));
	double		pairs = join->reversed ? join->pairs : join->rows;
	double		left = pairs / Max(join->outer_rows, 1);
	Cost		keys = found->keys + JOIN_FAR_KEY_COST * far;

	step->build = inner->rows * (JOIN_BUILD_ROW_COST + JOIN_BUILD_VALUE_COST * inner->nvalues + keys +
								 JOIN_FAR_BUILD_COST * far) + found->startup;
	step->probe = join->outer_rows * keys;
	step->pairs = pairs * (JOIN_PAIR_COST + found->others);
	/* it walks through its table in the end */
	if (join->reversed && join->type == JOIN_ANTI)
		step->pairs += inner->rows * JOIN_PAIR_COST;
	step->inner_cost = inner->cost;
	step->partial_cost = inner->partial_cost;
	step->left = step->place = 1;
	/* of several keys only the bounds are known */
	if ((step->type == JOIN_INNER || step->type == JOIN_SEMI || step->reversed) && found->nkeys == 1 && found->goes_down &&
		left <= WORTHWHILE_SHARE)
	{
		step->left = Max(left, LEAST_SHARE);
		step->place = found->place;
	}
}

/* Why the rows of an inner side do not fit into a hash table, or NULL. */
static const char *
size_refusal(const InnerSide *inner, int nkeys, int ntables)
{
	/*
	 * each of the tables that are joined on their own keeps a hash table
	 * until the plan ends
	 */
	double		bytes = ntables * inner->rows *
		(join_table_entry_bytes(inner->ncolumns, nkeys) + inner->path->pathtarget->width);

	if (vector_join != PLAN_FORCE && bytes > get_hash_memory_limit())
		return plan_reason("the %.0f rows estimated to be joined with need more memory than work_mem and hash_mem_multiplier allow",
						   inner->path->rows);
	return NULL;
}

/* Is it a join that we do with this inner side? What it would cost, without its conditions; or why not. */
const char *
join_step_try(PlannerInfo *root, const Joining *join, const InnerSide *inner, JoinStep *step)
{
	Conditions	found;
	const char *reason = count_conditions(root, join, &found);

	if (reason == NULL)
		reason = inner->refusal;
	if (reason == NULL)
		reason = size_refusal(inner, found.nkeys, Max(join->ntables, 1));
	if (reason != NULL)
		return reason;
	memset(step, 0, sizeof(JoinStep));
	step->type = join->type;
	step->reversed = join->reversed;
	step->only_removes = (join->type == JOIN_SEMI && !join->reversed) || (join->type == JOIN_INNER && join->inner_unique);
	step->inner = inner->path;
	step->partial = inner->partial;
	step->nodes = join->inner_nodes;
	set_cost(join, inner, &found, step);

	return NULL;
}

/* Make the step that has been tried. */
JoinStep *
join_step_make(PlannerInfo *root, const Joining *join, const JoinStep *tried)
{
	JoinStep   *step = palloc(sizeof(JoinStep));

	*step = *tried;
	sort_conditions(root, join, step);

	return step;
}

/* What each of `divisor` processes spends on its part of a step's inner side, and on passing its rows to the others. */
static Cost
part_cost(const JoinStep *step, double divisor)
{
	/* it may be planned for another number of workers */
	return step->partial_cost * vector_parallel_divisor(step->partial->parallel_workers) / divisor +
		step->inner->rows * JOIN_SHARE_ROW_COST + JOIN_SHARE_COST;
}

/* The path of a step's inner side, of which each of `divisor` processes needs all rows. */
Path *
join_step_inner(const JoinStep *step, double divisor)
{
	if (divisor > 1 && step->partial != NULL &&
		(vector_join == PLAN_FORCE || part_cost(step, divisor) < step->inner_cost))
		return step->partial;
	return step->inner;
}

/* What it costs each of `divisor` processes to have all rows of a step's inner side in a table. */
Cost
join_step_own_cost(const JoinStep *step, double divisor)
{
	Cost		read = join_step_inner(step, divisor) == step->inner ? step->inner_cost : part_cost(step, divisor);

	return read + step->build;
}
