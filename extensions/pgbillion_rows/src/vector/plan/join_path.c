/*-------------------------------------------------------------------------
 *
 * join_path.c
 *	  Aggregation above joins: which joins it applies to, what they cost, and
 *	  the path.
 *
 * PostgreSQL's join order is taken: a chain of joins whose first outer side is
 * a table that we can scan. The inner sides stay PostgreSQL's paths; where it
 * has a nested loop or a merge join, they are read as a whole instead.
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
	Path	   *best = NULL;
	ListCell   *lc;

	/* rows made unique are no longer the relation's */
	if (IsA(inner, UniquePath) || IsA(join, HashPath))
	{
		if (inner->param_info == NULL && inner->parallel_workers == 0 && (inner->parallel_safe || !safe))
			return inner;
		if (IsA(inner, UniquePath))
			return NULL;
	}
	foreach(lc, inner->parent->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && (path->parallel_safe || !safe) &&
			(best == NULL || path->total_cost < best->total_cost))
			best = path;
	}
	return best;
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

/* May a condition of a join be hashed? Of a hash join those that PostgreSQL hashes are. */
static bool
is_hashable(JoinPath *join, JoinType type, RestrictInfo *rinfo)
{
	Relids		outer = join->outerjoinpath->parent->relids;
	Relids		inner = join->innerjoinpath->parent->relids;

	if (IsA(join, HashPath))
		return list_member_ptr(((HashPath *) join)->path_hashclauses, rinfo);
	if (!OidIsValid(rinfo->hashjoinoperator) ||
		(IS_OUTER_JOIN(type) && RINFO_IS_PUSHED_DOWN(rinfo, join->path.parent->relids)))
		return false;
	return (bms_is_subset(rinfo->left_relids, outer) && bms_is_subset(rinfo->right_relids, inner)) ||
		(bms_is_subset(rinfo->left_relids, inner) && bms_is_subset(rinfo->right_relids, outer));
}

/* Sort the conditions of a join into a step; the reason if one is nothing for us. */
static const char *
sort_conditions(PlannerInfo *root, JoinPath *join, JoinStep *step)
{
	List	   *looked_for;
	List	   *quals = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, conditions_of(join, &looked_for))
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const char *reason = condition_refusal(rinfo);

		if (reason != NULL)
			return reason;
#if PG_VERSION_NUM >= 160000
		/* one of several forms, of which only one holds here */
		if (looked_for != NIL && (rinfo->has_clone || rinfo->is_clone))
			return "a condition that outer joins give several forms";
#endif
		if (is_hashable(join, step->type, rinfo))
		{
			OpExpr	   *clause = hash_clause(rinfo, join->outerjoinpath->parent->relids);

			if (clause == NULL)
				return "a join by an operator that is not strict";
			step->clauses = lappend(step->clauses, clause);
		}
		else if (IS_OUTER_JOIN(step->type) && RINFO_IS_PUSHED_DOWN(rinfo, join->path.parent->relids))
			others = lappend(others, rinfo);
		else
			quals = lappend(quals, rinfo);
	}
	if (step->clauses == NIL)
		return "a join by other conditions than equality";
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

/* What a join costs beyond its sides and the filling of a table, in PostgreSQL's hash join of all rows. */
static Cost
probe_cost(PlannerInfo *root, JoinPath *join, const JoinStep *step, Cost row)
{
	Path	   *inner = join->innerjoinpath;
	QualCost	quals;

	/* where processes share the rows, this is the cost of one's */
	if (IsA(join, HashPath))
		return Max(join->path.total_cost - join->outerjoinpath->total_cost - inner->total_cost - inner->rows * row, 0) *
			parallel_divisor(join->path.parallel_workers);

	cost_qual_eval(&quals, list_concat_copy(step->quals, step->others), root);
	return 2 * cpu_operator_cost * list_length(step->clauses) * join->outerjoinpath->parent->rows +
		(cpu_tuple_cost + quals.per_tuple) * join->path.parent->rows;
}

/* Make a step of a join, or say why not. */
static const char *
make_step(PlannerInfo *root, JoinPath *join, bool safe, JoinStep **result)
{
	JoinStep   *step = palloc0(sizeof(JoinStep));
	Cost		row;
	const char *reason;

	step->type = join->jointype;
	step->inner = whole_inner(join, safe);
	if (step->inner == NULL)
		return "a join whose inner side cannot be read as a whole";
	if (step->type != JOIN_INNER && step->type != JOIN_LEFT && step->type != JOIN_SEMI && step->type != JOIN_ANTI)
		return "a right or full join";
	reason = sort_conditions(root, join, step);
	if (reason == NULL)
		reason = inner_refusal(step->inner, list_length(step->clauses));
	if (reason != NULL)
		return reason;
	row = cpu_operator_cost * list_length(step->clauses) + cpu_tuple_cost;
	step->build = step->inner->rows * row;
	step->probe = probe_cost(root, join, step, row);
	*result = step;

	return NULL;
}

/* Is it a join of a kind that can be taken for a hash join? */
static bool
is_join(Path *path)
{
	return IsA(path, HashPath) || IsA(path, NestPath) || IsA(path, MergePath);
}

/* Make a chain of a path of a join, or say why not. */
static const char *
make_chain(PlannerInfo *root, Path *path, bool safe, JoinChain *chain)
{
	int			natts;
	ListCell   *lc;

	path = skip_plain(path);
	while (is_join(path))
	{
		JoinStep   *step;
		const char *reason = make_step(root, (JoinPath *) path, safe, &step);

		if (reason != NULL)
			return reason;
		chain->steps = lcons(step, chain->steps);
		path = skip_plain(((JoinPath *) path)->outerjoinpath);
	}
	if (chain->steps == NIL || !scans_table(root, path))
		return "a join that is no chain of joins along a table";
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
 * The chain of joins that gives the rows of a join, of all that there are
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
	CustomPath *path = make_scan_path(parent, chain->table, target,
									  ordered_terms(root, chain->table->baserestrictinfo), InvalidOid,
									  parallel_workers, safe);
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
