/*-------------------------------------------------------------------------
 *
 * join_chain.c
 *	  Which joins can be done along a table, and what they cost.
 *
 * A chain begins with a table that we can scan. Each of its joins adds the rows
 * of a relation, of which any path of PostgreSQL's gives all. Chains are found
 * in two ways:
 *
 *	chain_of_path()		the joins of a path of PostgreSQL's, in its order
 *	chain_of_search()	the cheapest one of all orders that PostgreSQL has looked
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

#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/spccache.h"

#include "planner/arithmetic.h"
#include "planner/planner.h"
#include "vector/join/join.h"
#include "vector/plan/join_chain.h"
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

/* Testing whether a row of the table has one of the keys. */
#define KEY_TEST_COST (0.03 * cpu_tuple_cost)

/* Beyond that share of the rows the test is left out: join/key_filter.c. */
#define WORTHWHILE_SHARE 0.5

/*
 * Bytes of a hash table below which it is in the processor's caches, and beyond
 * which it is not; and what waiting for memory costs then.
 */
#define NEAR_BYTES (2.0 * 1024 * 1024)
#define FAR_BYTES (128.0 * 1024 * 1024)
#define FAR_KEY_COST (0.25 * cpu_tuple_cost)
#define FAR_BUILD_COST (0.5 * cpu_tuple_cost)

/* A chain that costs so many times what PostgreSQL's plan does will not become cheaper by further joins. */
#define HOPELESS_FACTOR 4

/* Tables of less than that many pages together are joined in a few milliseconds. */
#define LEAST_PAGES 128

/* What a few rows of a table are, found for a small share of what it costs to look at all. */
#define FEW_ROWS 20
#define FEW_PAGES 32
#define FEW_ROWS_SHARE 0.1

/* More columns than that cannot be described. */
#define MAX_ATTRIBUTES MaxHeapAttributeNumber

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

/* The cheapest path of all the rows of a relation, or NULL. With `safe` workers must be able to run it. */
static Path *
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
	return cheapest_whole(inner->parent, safe);
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
			if (!is_filter_scan(path))
				return false;
	}
	return is_table(root, path->parent) && path->param_info == NULL;
}

/* Is it a type of join that we do? */
static bool
is_our_type(JoinType type)
{
	return type == JOIN_INNER || type == JOIN_LEFT || type == JOIN_SEMI || type == JOIN_ANTI;
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

/* A join of which a step is to be made. */
typedef struct Joining
{
	JoinType	type;
	Relids		relids;			/* of its rows */
	Relids		outer;
	Relids		inner;
	List	   *conditions;
	List	   *hashed;			/* of these, if PostgreSQL hashes */
	bool		hashes;
	bool		looks_for_rows; /* by some of them */
	bool		safe;			/* is it for workers? */
	Index		table;			/* that the chain begins with */
	double		outer_rows;
	double		rows;
} Joining;

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

/* Sort the conditions of a join into a step; the reason if one is nothing for us. */
static const char *
sort_conditions(PlannerInfo *root, const Joining *join, JoinStep *step)
{
	List	   *quals = NIL;
	List	   *others = NIL;
	ListCell   *lc;

	foreach(lc, join->conditions)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		const char *reason = condition_refusal(rinfo);

		if (reason != NULL)
			return reason;
#if PG_VERSION_NUM >= 160000
		/* one of several forms, of which only one holds here */
		if (join->looks_for_rows && (rinfo->has_clone || rinfo->is_clone))
			return "a condition that outer joins give several forms";
#endif
		if (is_hashable(join, rinfo))
		{
			OpExpr	   *clause = hash_clause(rinfo, join->outer);

			if (clause == NULL)
				return "a join by an operator that is not strict";
			step->clauses = lappend(step->clauses, clause);
		}
		else if (IS_OUTER_JOIN(step->type) && RINFO_IS_PUSHED_DOWN(rinfo, join->relids))
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
inner_refusal(PlannerInfo *root, Path *inner, int nkeys)
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
	bytes = inner->rows * rows_factor(root, inner->parent) *
		(join_table_entry_bytes(list_length(inner->pathtarget->exprs), nkeys) + inner->pathtarget->width);
	if (vector_join != PLAN_FORCE && bytes > get_hash_memory_limit())
		return psprintf("the %.0f rows estimated to be joined with need more memory than work_mem and hash_mem_multiplier allow",
						inner->rows);
	return NULL;
}

/* How far a table of so many bytes is from the processor: 0 is near, 1 is far. */
static double
distance(double bytes)
{
	return Max(Min(log2(bytes / NEAR_BYTES) / log2(FAR_BYTES / NEAR_BYTES), 1), 0);
}

/* Does a key remove rows of the table before all else? */
static bool
goes_down(const OpExpr *clause, Index table)
{
	Expr	   *key = strip_relabel(linitial(clause->args));

	return IsA(key, Var) && ((Var *) key)->varno == table && join_key_is_integer(clause);
}

/* Set what a step costs. */
static void
set_cost(PlannerInfo *root, const Joining *join, JoinStep *step)
{
	double		inner_rows = step->inner->rows * rows_factor(root, step->inner->parent);
	double		far = distance(inner_rows *
							   join_table_entry_bytes(list_length(step->inner->pathtarget->exprs),
													  list_length(step->clauses)));
	double		left = join->rows / Max(join->outer_rows, 1);
	Cost		keys = FAR_KEY_COST * far;
	QualCost	quals;
	ListCell   *lc;

	foreach(lc, step->clauses)
		keys += join_key_is_integer(lfirst_node(OpExpr, lc)) ? INTEGER_KEY_COST : OTHER_KEY_COST;
	cost_qual_eval(&quals, list_concat_copy(step->quals, step->others), root);
	step->build = inner_rows * (BUILD_ROW_COST + keys + FAR_BUILD_COST * far);
	step->probe = join->outer_rows * keys;
	step->pairs = join->rows * (PAIR_COST + quals.per_tuple);
	step->inner_cost = memory_cost(root, step->inner);
	step->left = 1;
	/* of several keys only the bounds are known */
	if ((step->type == JOIN_INNER || step->type == JOIN_SEMI) && list_length(step->clauses) == 1 &&
		goes_down(linitial(step->clauses), join->table) && left <= WORTHWHILE_SHARE)
		step->left = Max(left, 1e-6);
}

/*
 * Can processes run a partial path below ours, and again? Of those that
 * wait for each other, and of Appends, that is left open.
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
			return path->parallel_aware && is_filter_scan(path);
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

/* The cheapest path that gives each process a part of the rows of a path of a relation, or NULL. */
static Path *
cheapest_part(Path *whole)
{
	Path	   *best = NULL;
	ListCell   *lc;

	/* rows made unique are no longer the relation's */
	if (IsA(whole, UniquePath))
		return NULL;
	foreach(lc, whole->parent->partial_pathlist)
	{
		Path	   *path = lfirst(lc);

		if (runs_in_parts(path) && (best == NULL || compare_path_costs(path, best, TOTAL_COST) < 0))
			best = path;
	}
	return best;
}

/* Make a step of a join with this inner path, or say why not. */
static const char *
make_step(PlannerInfo *root, const Joining *join, Path *inner, JoinStep **result)
{
	JoinStep   *step = palloc0(sizeof(JoinStep));
	const char *reason;

	step->type = join->type;
	step->inner = inner;
	step->partial = join->safe ? cheapest_part(inner) : NULL;
	reason = sort_conditions(root, join, step);
	if (reason == NULL)
		reason = inner_refusal(root, inner, list_length(step->clauses));
	if (reason != NULL)
		return reason;
	set_cost(root, join, step);
	*result = step;

	return NULL;
}

/* The same of a path of PostgreSQL's. */
static const char *
step_of_path(PlannerInfo *root, JoinPath *path, Index table, bool safe, JoinStep **result)
{
	Path	   *inner = whole_inner(path, safe);
	List	   *looked_for;
	Joining		join = {
		.type = path->jointype,
		.relids = path->path.parent->relids,
		.outer = path->outerjoinpath->parent->relids,
		.inner = path->innerjoinpath->parent->relids,
		.hashes = IsA(path, HashPath),
		.safe = safe,
		.table = table,
		.outer_rows = path->outerjoinpath->parent->rows * rows_factor(root, path->outerjoinpath->parent),
		.rows = path->path.parent->rows * rows_factor(root, path->path.parent),
	};

	if (inner == NULL)
		return "a join whose inner side cannot be read as a whole";
	if (!is_our_type(join.type))
		return "a right or full join";
	join.conditions = conditions_of(path, &looked_for);
	join.looks_for_rows = looked_for != NIL;
	if (join.hashes)
		join.hashed = ((HashPath *) path)->path_hashclauses;

	return make_step(root, &join, inner, result);
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

/* Why there are too many columns to describe, or NULL. */
static const char *
width_refusal(const JoinChain *chain)
{
	int			natts = chain->table->max_attr;
	ListCell   *lc;

	foreach(lc, chain->steps)
		natts += list_length(((JoinStep *) lfirst(lc))->inner->pathtarget->exprs);
	return natts > MAX_ATTRIBUTES ? "too many columns" : NULL;
}

/* Make a chain of a path of a join, or say why not. */
const char *
chain_of_path(PlannerInfo *root, RelOptInfo *joined, Path *path, bool safe, JoinChain *chain)
{
	const char *refusal;
	Index		table = first_of(path);

	chain->joined = joined;
	path = skip_plain(path);
	while (is_join(path))
	{
		JoinStep   *step;
		const char *reason = step_of_path(root, (JoinPath *) path, table, safe, &step);

		if (reason != NULL)
			return reason;
		chain->steps = lcons(step, chain->steps);
		path = skip_plain(((JoinPath *) path)->outerjoinpath);
	}
	if (chain->steps == NIL || !scans_table(root, path))
		return "a join that is no chain of joins along a table";
	chain->table = path->parent;
	refusal = width_refusal(chain);
	return refusal != NULL ? refusal : table_refusal(root, chain->table);
}

/* ---- cost ---- */

/* What reading the table costs: its pages, and each row, of which keys that go down remove some first. */
void
chain_scan_cost(PlannerInfo *root, const JoinChain *chain, Cost *pages, Cost *row)
{
	RelOptInfo *table = chain->table;
	Cost		terms;
	double		page_cost;
	double		share = 1;
	ListCell   *lc;

	get_tablespace_page_costs(table->reltablespace, NULL, &page_cost);
	*pages = whole_page_cost(root, page_cost) * table->pages;
	*row = filter_cost(root, NIL);
	terms = filter_cost(root, ordered_terms(root, table->baserestrictinfo)) - *row;
	foreach(lc, chain->steps)
	{
		JoinStep   *step = lfirst(lc);

		share *= step->left;
		*row += step->left < 1 ? KEY_TEST_COST : 0;
	}
	*row += terms * share;
}

/* What a process of so many spends on its part of a step's inner side, and on handing its rows around. */
static Cost
part_cost(const JoinStep *step, double divisor)
{
	/* it may be planned for another number of workers */
	Cost		planned = step->partial->total_cost * parallel_divisor(step->partial->parallel_workers) / divisor;

	/* in the measure of the whole */
	return planned * step->inner_cost / Max(step->inner->total_cost, cpu_operator_cost) +
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

/* What the joins cost. Keys that go down save the steps before theirs the rows that they remove. */
Cost
chain_joins_cost(const JoinChain *chain, double divisor)
{
	double		share = 1;
	Cost		shared = 0;
	Cost		own = 0;
	ListCell   *lc;

	foreach(lc, chain->steps)
		share *= ((JoinStep *) lfirst(lc))->left;
	foreach(lc, chain->steps)
	{
		JoinStep   *step = lfirst(lc);

		/* each process puts all rows of the inner sides into a table */
		own += step_inner(step, divisor) == step->inner ? step->inner_cost : part_cost(step, divisor);
		own += step->build;
		shared += step->probe * share;
		share /= step->left;
		shared += step->pairs * share;
	}
	return own + shared / divisor;
}

/* Cost of all that happens before the rows of the joins are aggregated, in one process. */
Cost
chain_cost(PlannerInfo *root, const JoinChain *chain)
{
	Cost		pages;
	Cost		row;

	chain_scan_cost(root, chain, &pages, &row);
	return pages + row * chain->table->tuples + chain_joins_cost(chain, 1);
}

/* ---- what is remembered ---- */

/* The best chains that give the rows of a relation: one of any, one for workers; or NULL. */
typedef struct Memory
{
	Note		note;
	JoinChain  *chains[2];
	Cost		costs[2];
	Rival		rival;			/* planned 0: none yet */
} Memory;

static Memory *
find_memory(RelOptInfo *rel)
{
	return find_note(NOTE_CHAINS, rel);
}

/* Begin to remember a relation. */
static Memory *
make_memory(RelOptInfo *rel)
{
	return make_note(NOTE_CHAINS, rel, sizeof(Memory));
}

/* The cheapest path for all rows of a joined relation that is not ours, or NULL. */
static Path *
cheapest_of_core(RelOptInfo *joined)
{
	ListCell   *lc;

	/* the cheapest comes first */
	foreach(lc, joined->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info == NULL && !is_rows_of_joins(path))
			return path;
	}
	return NULL;
}

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
 * The cheapest path of PostgreSQL's, of those which there have been: ours makes
 * it forget others. False if it is the one that was known.
 */
static bool
meet_rival(PlannerInfo *root, RelOptInfo *joined, Rival *rival)
{
	Path	   *best = cheapest_of_core(joined);

	if (best == NULL || (rival->planned > 0 && best->total_cost >= rival->planned))
		return false;
	rival->planned = best->total_cost;
	rival->taken = memory_cost(root, best);
	rival->looks = looks_for_rows(best);

	return true;
}

/* What is known of a relation, of which a table alone is found out now; or NULL. */
static Memory *
recall(PlannerInfo *root, RelOptInfo *rel)
{
	Memory	   *memory = find_memory(rel);

	if (memory == NULL && is_table(root, rel))
	{
		memory = make_memory(rel);
		if (table_refusal(root, rel) == NULL)
		{
			JoinChain  *chain = palloc0(sizeof(JoinChain));

			chain->table = chain->joined = rel;
			memory->chains[0] = memory->chains[1] = chain;
		}
	}
	return memory;
}

/*
 * Prolong a chain by a join, and remember it if it is the cheapest one of its
 * rows: then true.
 */
static bool
prolong(PlannerInfo *root, RelOptInfo *joined, const JoinChain *chain, const Joining *join, Path *inner, bool safe)
{
	Memory	   *memory = find_memory(joined);
	JoinChain  *longer;
	JoinStep   *step;
	Cost		cost;

	if (make_step(root, join, inner, &step) != NULL)
		return false;
	longer = palloc0(sizeof(JoinChain));
	longer->table = chain->table;
	longer->joined = joined;
	longer->steps = lappend(list_copy(chain->steps), step);
	cost = chain_cost(root, longer);
	if (memory == NULL)
		memory = make_memory(joined);
	if ((memory->chains[safe] != NULL && cost >= memory->costs[safe]) || width_refusal(longer) != NULL)
		return false;
	memory->chains[safe] = longer;
	memory->costs[safe] = cost;

	return true;
}

/*
 * Is a statement about a few rows of a table, which an index gives? What it
 * joins with these is looked for in indexes, too: nothing is to be gained, and
 * planning it must not take longer.
 */
static bool
is_about_few_rows(PlannerInfo *root)
{
	int			table = -1;

	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel != NULL && rel->rows <= FEW_ROWS && rel->pages > FEW_PAGES && rel->cheapest_total_path != NULL &&
			rel->cheapest_total_path->total_cost < FEW_ROWS_SHARE * cpu_tuple_cost * rel->tuples)
			return true;
	}
	return false;
}

/*
 * What a statement does with the rows of joins must not need those of the
 * tables, as locks and rechecks of updated rows do. Small tables are left alone.
 */
static bool
find_for_us(PlannerInfo *root)
{
	if (vector_join != PLAN_FORCE && (root->total_table_pages < LEAST_PAGES || is_about_few_rows(root)))
		return false;
	return (root->parse->commandType == CMD_SELECT || root->parse->commandType == CMD_INSERT) &&
		root->rowMarks == NIL && root->parse->rowMarks == NIL;
}

/* Is a statement for us? This is asked with each of its joins. */
typedef struct StatementNote
{
	Note		note;
	bool		for_us;
} StatementNote;

static bool
is_for_us(PlannerInfo *root)
{
	StatementNote *known;

	/* the genetic search */
	if (root->join_search_private != NULL)
		return false;
	known = find_note(NOTE_STATEMENT, root);
	if (known == NULL)
	{
		known = make_note(NOTE_STATEMENT, root, sizeof(StatementNote));
		known->for_us = find_for_us(root);
	}
	return known->for_us;
}

/*
 * Could a chain that costs at least so much be of use for the rows of a join,
 * of which PostgreSQL has paths? One that costs many times as much is not
 * prolonged. This is asked of every join of every statement.
 */
static bool
is_promising(RelOptInfo *joined, Cost least)
{
	Path	   *best = cheapest_of_core(joined);

	return vector_join == PLAN_FORCE || best == NULL || least < HOPELESS_FACTOR * best->total_cost;
}

/* At least so much does it cost to read a table. */
static Cost
least_cost(RelOptInfo *table)
{
	return STARTUP_COST + cpu_tuple_cost * KERNEL_COST_FACTOR * table->tuples;
}

/*
 * PostgreSQL looks at two relations that can be joined: remember the chain that
 * ends with this join, if it is the cheapest one of its rows. True if there is
 * a new one, or PostgreSQL has a new path for them.
 */
bool
chain_look_at(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
			  JoinPathExtraData *extra)
{
	Joining		join = {
		.type = type,
		.relids = joined->relids,
		.outer = outer->relids,
		.inner = inner->relids,
		.conditions = extra->restrictlist,
	};
	Memory	   *memory;
	bool		found = false;

	if (vector_join == PLAN_OFF || !enable_hashjoin || !enable_seqscan || !is_our_type(type) ||
		joined->reloptkind != RELOPT_JOINREL || !is_for_us(root) ||
		(outer->reloptkind == RELOPT_BASEREL && !is_promising(joined, least_cost(outer))) ||
		!bms_is_empty(joined->lateral_relids) || !bms_is_empty(outer->lateral_relids) ||
		!bms_is_empty(inner->lateral_relids))
		return false;
	memory = recall(root, outer);
	if (memory == NULL)
		return false;
	join.outer_rows = outer->rows * rows_factor(root, outer);
	join.rows = joined->rows * rows_factor(root, joined);
	for (int safe = 0; safe < 2; safe++)
	{
		const JoinChain *chain = memory->chains[safe];
		Path	   *path;

		if (chain == NULL || (safe && !joined->consider_parallel))
			continue;
		path = cheapest_whole(inner, safe);
		if (path == NULL || !is_promising(joined, Max(least_cost(chain->table), memory->costs[safe]) + path->total_cost))
			continue;
		join.table = chain->table->relid;
		join.safe = safe;
		found |= prolong(root, joined, chain, &join, path, safe);
	}
	memory = find_memory(joined);
	if (memory != NULL)
		found |= meet_rival(root, joined, &memory->rival);
	return found;
}

/* Tell what PostgreSQL has for the rows of a relation; false if that is nothing. */
bool
chain_rival(PlannerInfo *root, RelOptInfo *joined, Rival *rival)
{
	Memory	   *memory = find_memory(joined);

	memset(rival, 0, sizeof(Rival));
	if (memory != NULL)
		*rival = memory->rival;
	/* other extensions add paths after ours */
	(void) meet_rival(root, joined, rival);
	return rival->planned > 0;
}

/* The cheapest chain of the rows of a relation, as far as PostgreSQL has looked at joins; or NULL. */
JoinChain *
chain_of_search(RelOptInfo *joined, bool safe)
{
	Memory	   *memory = find_memory(joined);

	return memory == NULL ? NULL : memory->chains[safe];
}
