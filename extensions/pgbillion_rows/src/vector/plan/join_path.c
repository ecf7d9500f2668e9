/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  Aggregation above joins: which joins it applies to, what they cost, and
 *	  the path.
 *
 * PostgreSQL's join order is taken: a chain of hash joins whose first outer
 * side is a table that we can scan. The inner sides stay PostgreSQL's paths.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/nodeHash.h"
#include "nodes/extensible.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/spccache.h"

#include "planner/planner.h"
#include "vector/join/join.h"
#include "vector/plan/plan.h"
#include "vector/vector.h"

int			vector_join = PLAN_OFF;

/* What looking a row up, and returning the rows of the join, costs compared with PostgreSQL's. Measured. */
#define PROBE_COST_FACTOR 0.5

/* More columns than that cannot be described. */
#define MAX_ATTRIBUTES MaxHeapAttributeNumber

/* One join of a chain. */
typedef struct JoinStep
{
	JoinType	type;
	Path	   *inner;
	List	   *clauses;		/* hashable, the inner side on the right */
	List	   *quals;
	List	   *others;
	Cost		build;			/* of filling the table, without reading rows */
	Cost		probe;			/* of the remainder, as PostgreSQL has it */
} JoinStep;

struct JoinChain
{
	RelOptInfo *table;
	RelOptInfo *joined;
	List	   *steps;			/* from the table on */
};

/* ---- which joins ---- */

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

/*
 * A path of all the rows of an inner side, of which PostgreSQL's may give each
 * process a part, or NULL. With `safe` workers must be able to run it.
 */
static Path *
whole_inner(Path *inner, bool safe)
{
	Path	   *best = NULL;
	ListCell   *lc;

	if (inner->parallel_workers == 0 && (inner->parallel_safe || !safe))
		return inner;
	/* rows made unique are no longer the relation's */
	if (IsA(inner, UniquePath))
		return NULL;
	foreach(lc, inner->parent->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && (path->parallel_safe || !safe) &&
			(best == NULL || path->total_cost < best->total_cost))
			best = path;
	}
	return best;
}

/* Is it the scan of a table, which might as well be ours? */
static bool
scans_table(PlannerInfo *root, Path *path)
{
	RelOptInfo *rel = path->parent;

	switch (path->pathtype)
	{
		case T_SeqScan:
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapHeapScan:
		case T_CustomScan:
			return rel->reloptkind == RELOPT_BASEREL && rel->rtekind == RTE_RELATION &&
				!planner_rt_fetch(rel->relid, root)->inh && path->param_info == NULL;
		default:
			return false;
	}
}

/* A hashable clause with the side of these relations on the left, or NULL. */
static OpExpr *
hash_clause(RestrictInfo *rinfo, Relids outer)
{
	OpExpr	   *clause = (OpExpr *) copyObject(rinfo->clause);
	Oid			hash[2];

	if (!IsA(clause, OpExpr) || list_length(clause->args) != 2)
		return NULL;
	if (!bms_is_subset(rinfo->left_relids, outer))
		CommuteOpExpr(clause);
	set_opfuncid(clause);
	if (!func_strict(clause->opfuncid) || !get_op_hash_functions(clause->opno, &hash[0], &hash[1]))
		return NULL;
	return clause;
}

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

/* Sort the conditions of a join into a step; the reason if one is nothing for us. */
static const char *
sort_conditions(PlannerInfo *root, HashPath *path, JoinStep *step)
{
	Relids		joined = path->jpath.path.parent->relids;
	Relids		outer = path->jpath.outerjoinpath->parent->relids;
	List	   *quals = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, path->jpath.joinrestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const char *reason = condition_refusal(rinfo);

		if (reason != NULL)
			return reason;
		if (list_member_ptr(path->path_hashclauses, rinfo))
		{
			OpExpr	   *clause = hash_clause(rinfo, outer);

			if (clause == NULL)
				return "a join by an operator that is not strict";
			step->clauses = lappend(step->clauses, clause);
		}
		else if (IS_OUTER_JOIN(step->type) && RINFO_IS_PUSHED_DOWN(rinfo, joined))
			others = lappend(others, rinfo);
		else
			quals = lappend(quals, rinfo);
	}
	if (list_length(step->clauses) != list_length(path->path_hashclauses))
		return "a join by other conditions than its own";
	if (list_length(step->clauses) > JOIN_MAX_KEYS)
		return psprintf("a join by more than %d columns", JOIN_MAX_KEYS);
	step->quals = ordered_terms(root, quals);
	step->others = ordered_terms(root, others);

	return NULL;
}

/* Why the rows of a path cannot be put into a hash table, or NULL. */
static const char *
inner_refusal(Path *inner, int nkeys)
{
	double		bytes;
	ListCell   *lc;

	if (inner->param_info != NULL)
		return "a join whose inner side depends on its outer side";
	foreach(lc, inner->pathtarget->exprs)
	{
		Expr	   *expr = lfirst(lc);
		const char *reason = expression_refusal(expr);

		if (reason == NULL && !IsA(expr, Var))
			reason = "a join with computed columns";
		if (reason != NULL)
			return reason;
	}
	bytes = inner->rows * (join_table_entry_bytes(list_length(inner->pathtarget->exprs), nkeys) +
						   inner->pathtarget->width);
	if (vector_join != PLAN_FORCE && bytes > get_hash_memory_limit())
		return psprintf("the %.0f rows estimated to be joined with need more memory than work_mem and hash_mem_multiplier allow",
						inner->rows);
	return NULL;
}

/* Make a step of a hash join, or say why not. */
static const char *
make_step(PlannerInfo *root, HashPath *path, bool safe, JoinStep **result)
{
	JoinStep   *step = palloc0(sizeof(JoinStep));
	Path	   *given = path->jpath.innerjoinpath;
	Path	   *inner = whole_inner(given, safe);
	Cost		row;
	const char *reason;

	if (inner == NULL)
		return "a join whose inner side only processes of a parallel plan can read together";
	step->type = path->jpath.jointype;
	step->inner = inner;
	if (step->type != JOIN_INNER && step->type != JOIN_LEFT && step->type != JOIN_SEMI && step->type != JOIN_ANTI)
		return "a right or full join";
	reason = sort_conditions(root, path, step);
	if (reason == NULL)
		reason = inner_refusal(inner, list_length(step->clauses));
	if (reason != NULL)
		return reason;
	row = cpu_operator_cost * list_length(step->clauses) + cpu_tuple_cost;
	step->build = inner->rows * row;
	/* where processes share the rows, this is the cost of one's */
	step->probe = Max(path->jpath.path.total_cost - path->jpath.outerjoinpath->total_cost - given->total_cost -
					  given->rows * row, 0) * parallel_divisor(path->jpath.path.parallel_workers);
	*result = step;

	return NULL;
}

/* Make a chain of a path of a join, or say why not. */
static const char *
make_chain(PlannerInfo *root, Path *path, bool safe, JoinChain *chain)
{
	int			natts;
	ListCell   *lc;

	path = skip_plain(path);
	while (IsA(path, HashPath))
	{
		JoinStep   *step;
		const char *reason = make_step(root, (HashPath *) path, safe, &step);

		if (reason != NULL)
			return reason;
		chain->steps = lcons(step, chain->steps);
		path = skip_plain(((HashPath *) path)->jpath.outerjoinpath);
	}
	if (chain->steps == NIL || !scans_table(root, path))
		return "a join that is no chain of hash joins along a table";
	chain->table = path->parent;
	natts = chain->table->max_attr;
	foreach(lc, chain->steps)
		natts += list_length(((JoinStep *) lfirst(lc))->inner->pathtarget->exprs);
	if (natts > MAX_ATTRIBUTES)
		return "too many columns";
	return table_refusal(root, chain->table);
}

/* ---- cost ---- */

/* Cost of all that happens before the rows of the joins are aggregated. */
static Cost
chain_cost(PlannerInfo *root, JoinChain *chain, double divisor)
{
	RelOptInfo *table = chain->table;
	double		page_cost;
	Cost		cost;
	ListCell   *lc;

	get_tablespace_page_costs(table->reltablespace, NULL, &page_cost);
	cost = page_cost * table->pages +
		filter_cost(root, ordered_terms(root, table->baserestrictinfo)) * table->tuples / divisor;
	foreach(lc, chain->steps)
	{
		JoinStep   *step = lfirst(lc);

		/* each process reads the inner sides */
		cost += step->inner->total_cost + step->build + step->probe * PROBE_COST_FACTOR / divisor;
	}
	return cost;
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
		const char *refusal = make_chain(root, lfirst(lc), safe, chain);
		Cost		cost;

		if (refusal != NULL)
		{
			/* the one that has got furthest tells most */
			if (*reason == NULL || chain->steps != NIL)
				*reason = refusal;
			continue;
		}
		chain->joined = joined;
		cost = chain_cost(root, chain, 1);
		if (cost < *best_cost)
		{
			*best = chain;
			*best_cost = cost;
		}
	}
}

/*
 * The chain of hash joins that gives the rows of a join, of all that there are
 * the cheapest, or NULL and a reason. With `safe` it is one for workers.
 */
JoinChain *
find_join_chain(PlannerInfo *root, RelOptInfo *joined, bool safe, const char **reason)
{
	JoinChain  *best = NULL;
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

/*
 * The custom scan of a table, with joins. With parallel_workers it is a
 * partial path.
 */
Path *
join_path(PlannerInfo *root, RelOptInfo *parent, JoinChain *chain, PathTarget *target,
		  double groups, int parallel_workers, bool safe)
{
	CustomPath *path = (CustomPath *) scan_path(root, parent, chain->table, target, groups, parallel_workers, safe);
	double		divisor = parallel_divisor(parallel_workers);
	double		rows = chain->joined->rows / divisor;
	List	   *joins = NIL;
	ListCell   *lc;

	/* EXPLAIN names the relations that the path's parent is of */
	path->path.parent = makeNode(RelOptInfo);
	memcpy(path->path.parent, parent, sizeof(RelOptInfo));
	path->path.parent->relids = chain->joined->relids;
	path->path.rows = clamp_row_est(Min(groups, Max(rows, 1)));
	path->path.startup_cost = STARTUP_COST * (1 + list_length(chain->steps)) + chain_cost(root, chain, divisor) +
		row_cost(root, target) * rows;
	path->path.total_cost = path->path.startup_cost + path->path.rows * cpu_tuple_cost;
	foreach(lc, chain->steps)
	{
		JoinStep   *step = lfirst(lc);

		path->custom_paths = lappend(path->custom_paths, step->inner);
		joins = lappend(joins, list_make4(list_make1_int(step->type), step->clauses, step->quals, step->others));
#if PG_VERSION_NUM >= 180000
		path->path.disabled_nodes += step->inner->disabled_nodes;
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
}
