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

#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/lsyscache.h"

#include "planner/arithmetic.h"
#include "planner/planner.h"
#include "vector/join/join.h"
#include "vector/plan/join_step.h"
#include "vector/plan/notes.h"
#include "vector/plan/plan.h"
#include "vector/vector.h"

/*
 * What joins cost a row: its insertion, a key of it that is looked up, and a
 * pair. Measured on tables in cache, as are the factors in plan.h.
 */
#define BUILD_ROW_COST (0.3 * cpu_tuple_cost)
#define INTEGER_KEY_COST (0.1 * cpu_tuple_cost)
#define OTHER_KEY_COST (0.6 * cpu_tuple_cost)
#define PAIR_COST (0.1 * cpu_tuple_cost)

/*
 * Writing a row of a build side for other processes, and reading it; and, of
 * any side, making files and waiting for others.
 */
#define SHARE_ROW_COST (0.2 * cpu_tuple_cost)
#define SHARE_COST 10.0

/* Beyond that share of the rows a test of keys is left out: join/key_filter.c. */
#define WORTHWHILE_SHARE 0.5

/*
 * Bytes of a hash table below which it is in the processor's caches, and beyond
 * which it is not; and what waiting for memory costs then.
 */
#define NEAR_BYTES (2.0 * 1024 * 1024)
#define FAR_BYTES (128.0 * 1024 * 1024)
#define FAR_KEY_COST (0.25 * cpu_tuple_cost)
#define FAR_BUILD_COST (0.5 * cpu_tuple_cost)

/* Is it a type of join that we do? */
bool
is_our_type(JoinType type)
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
			return path->parallel_aware && (is_filter_scan(path) || is_rows_of_joins(path));
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
		own = memory_cost(root, path);
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
		const char *reason = expression_refusal(expr);

		if (reason == NULL && !IsA(expr, Var))
			reason = "a join with computed columns";
		if (reason != NULL)
			return reason;
	}
	return NULL;
}

/* Find out what is to be known of a path as an inner side; with `safe` it is for workers. */
void
appraise_inner(PlannerInfo *root, Path *path, bool safe, InnerSide *inner)
{
	inner->path = path;
	inner->partial = safe ? cheapest_part(root, path, &inner->partial_cost) : NULL;
	inner->refusal = columns_refusal(path);
	inner->rows = path->rows * rows_factor(root, path->parent);
	inner->cost = memory_cost(root, path);
	inner->ncolumns = list_length(path->pathtarget->exprs);
}

/* The cheapest path of all the rows of a relation, or NULL. With `safe` workers must be able to run it. */
Path *
cheapest_whole(RelOptInfo *rel, bool safe)
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
typedef struct InnerNote
{
	InnerSide	sides[2];
	bool		known[2];
} InnerNote;

/* The cheapest path of a relation as an inner side, or NULL. PostgreSQL looks at joins of relations that have all their paths. */
const InnerSide *
inner_of_relation(PlannerInfo *root, RelOptInfo *rel, bool safe)
{
	InnerNote  *known = find_note(root, NOTE_INNER, rel);

	Assert(rel->cheapest_total_path != NULL);
	if (known == NULL)
		known = make_note(root, NOTE_INNER, rel, sizeof(InnerNote));
	if (!known->known[safe])
	{
		MemoryContext old = MemoryContextSwitchTo(root->planner_cxt);
		Path	   *path = cheapest_whole(rel, safe);

		known->known[safe] = true;
		if (path != NULL)
			appraise_inner(root, path, safe, &known->sides[safe]);
		MemoryContextSwitchTo(old);
	}
	return known->sides[safe].path == NULL ? NULL : &known->sides[safe];
}

/* ---- conditions ---- */

/* What is known of a condition. */
typedef struct ClauseNote
{
	const char *refusal;		/* or NULL */
	bool		tried[2];
	OpExpr	   *hashed[2];		/* with the left side outside, and commuted;
								 * NULL if it cannot be hashed */
	bool		is_integer;		/* what is compared */
} ClauseNote;

/* What speaks against a condition of a join, or NULL. */
static const char *
condition_refusal(RestrictInfo *rinfo)
{
	if (rinfo->security_level > 0)
		return "row security";
	if (rinfo->pseudoconstant)
		return "a condition that refers to no column";
	return expression_refusal(rinfo->clause);
}

static ClauseNote *
note_of(PlannerInfo *root, RestrictInfo *rinfo)
{
	ClauseNote *known = find_note(root, NOTE_CLAUSE, rinfo);

	if (known == NULL)
	{
		MemoryContext old;

		known = make_note(root, NOTE_CLAUSE, rinfo, sizeof(ClauseNote));
		old = MemoryContextSwitchTo(root->planner_cxt);
		known->refusal = condition_refusal(rinfo);
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
hashed_clause(PlannerInfo *root, RestrictInfo *rinfo, ClauseNote *known, Relids outer)
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

/* May a condition of a join be hashed? Of a hash join those that PostgreSQL hashes are. */
static bool
is_hashable(const Joining *join, RestrictInfo *rinfo)
{
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
	Cost		others;			/* of all other conditions */
	bool		goes_down;		/* does the only key remove rows of the table
								 * before all else? */
} Conditions;

/* Does a key remove rows of the table before all else? */
static bool
goes_down(const OpExpr *clause, Index table)
{
	Expr	   *key = strip_relabel(linitial(clause->args));

	return IsA(key, Var) && ((Var *) key)->varno == table && join_key_is_integer(clause);
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
		ClauseNote *known = note_of(root, rinfo);
		QualCost	cost;
		OpExpr	   *clause;

		if (known->refusal != NULL)
			return known->refusal;
#if PG_VERSION_NUM >= 160000
		/* one of several forms, of which only one holds here */
		if (join->looks_for_rows && (rinfo->has_clone || rinfo->is_clone))
			return "a condition that outer joins give several forms";
#endif
		if (!is_hashable(join, rinfo))
		{
			cost_qual_eval_node(&cost, (Node *) rinfo, root);
			found->others += cost.per_tuple;
			continue;
		}
		clause = hashed_clause(root, rinfo, known, join->outer);
		if (clause == NULL)
			return "a join by an operator that is not strict";
		found->keys += known->is_integer ? INTEGER_KEY_COST : OTHER_KEY_COST;
		found->goes_down = found->nkeys++ == 0 && known->is_integer && goes_down(clause, join->table);
	}
	if (found->nkeys == 0)
		return "a join by other conditions than equality";
	if (found->nkeys > JOIN_MAX_KEYS)
		return psprintf("a join by more than %d columns", JOIN_MAX_KEYS);
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

		if (is_hashable(join, rinfo))
			step->clauses = lappend(step->clauses, hashed_clause(root, rinfo, note_of(root, rinfo), join->outer));
		else if (IS_OUTER_JOIN(step->type) && RINFO_IS_PUSHED_DOWN(rinfo, join->relids))
			others = lappend(others, rinfo);
		else
			quals = lappend(quals, rinfo);
	}
	step->quals = ordered_terms(root, quals);
	step->others = ordered_terms(root, others);
}

/* ---- steps ---- */

/* How far a table of so many bytes is from the processor: 0 is near, 1 is far. */
static double
distance(double bytes)
{
	return Max(Min(log2(bytes / NEAR_BYTES) / log2(FAR_BYTES / NEAR_BYTES), 1), 0);
}

/* Set what a step costs. */
static void
set_cost(const Joining *join, const InnerSide *inner, const Conditions *found, JoinStep *step)
{
	double		far = distance(inner->rows * join_table_entry_bytes(inner->ncolumns, found->nkeys));
	double		left = join->rows / Max(join->outer_rows, 1);
	Cost		keys = found->keys + FAR_KEY_COST * far;

	step->build = inner->rows * (BUILD_ROW_COST + keys + FAR_BUILD_COST * far);
	step->probe = join->outer_rows * keys;
	step->pairs = join->rows * (PAIR_COST + found->others);
	step->inner_cost = inner->cost;
	step->partial_cost = inner->partial_cost;
	step->left = 1;
	/* of several keys only the bounds are known */
	if ((step->type == JOIN_INNER || step->type == JOIN_SEMI) && found->nkeys == 1 && found->goes_down &&
		left <= WORTHWHILE_SHARE)
		step->left = Max(left, 1e-6);
}

/* Why the rows of an inner side do not fit into a hash table, or NULL. */
static const char *
size_refusal(const InnerSide *inner, int nkeys)
{
	double		bytes = inner->rows *
		(join_table_entry_bytes(inner->ncolumns, nkeys) + inner->path->pathtarget->width);

	if (vector_join != PLAN_FORCE && bytes > get_hash_memory_limit())
		return psprintf("the %.0f rows estimated to be joined with need more memory than work_mem and hash_mem_multiplier allow",
						inner->path->rows);
	return NULL;
}

/* Is it a join that we do with this inner side? What it would cost, without its conditions; or why not. */
const char *
try_step(PlannerInfo *root, const Joining *join, const InnerSide *inner, JoinStep *step)
{
	Conditions	found;
	const char *reason = count_conditions(root, join, &found);

	if (reason == NULL)
		reason = inner->refusal;
	if (reason == NULL)
		reason = size_refusal(inner, found.nkeys);
	if (reason != NULL)
		return reason;
	memset(step, 0, sizeof(JoinStep));
	step->type = join->type;
	step->inner = inner->path;
	step->partial = inner->partial;
	set_cost(join, inner, &found, step);

	return NULL;
}

/* Make the step that has been tried. */
JoinStep *
make_step(PlannerInfo *root, const Joining *join, const JoinStep *tried)
{
	JoinStep   *step = palloc(sizeof(JoinStep));

	*step = *tried;
	sort_conditions(root, join, step);

	return step;
}

/* What a process of so many spends on its part of a step's inner side, and on handing its rows around. */
static Cost
part_cost(const JoinStep *step, double divisor)
{
	/* it may be planned for another number of workers */
	return step->partial_cost * parallel_divisor(step->partial->parallel_workers) / divisor +
		step->inner->rows * SHARE_ROW_COST + SHARE_COST;
}

/* The path of a step's inner side, of which each of so many processes needs all rows. */
Path *
step_inner(const JoinStep *step, double divisor)
{
	if (divisor > 1 && step->partial != NULL &&
		(vector_join == PLAN_FORCE || part_cost(step, divisor) < step->inner_cost))
		return step->partial;
	return step->inner;
}

/* What it costs each of so many processes to have all rows of a step's inner side in a table. */
Cost
step_own_cost(const JoinStep *step, double divisor)
{
	Cost		read = step_inner(step, divisor) == step->inner ? step->inner_cost : part_cost(step, divisor);

	return read + step->build;
}
