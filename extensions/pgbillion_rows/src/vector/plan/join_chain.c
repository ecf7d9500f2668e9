/*-------------------------------------------------------------------------
 *
 * join_chain.c
 *	  Which joins can be done along a table, and what they cost.
 *
 * A chain begins with a table that we can scan. Each of its joins adds the rows
 * of a relation, of which any path of PostgreSQL's gives all. Chains are found
 * in two ways:
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

#include "access/htup_details.h"
#include "optimizer/cost.h"
#include "optimizer/geqo.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planmain.h"
#include "parser/parsetree.h"
#include "utils/spccache.h"

#include "compat.h"
#include "planner/planner.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/join_chain.h"
#include "vector/plan/join_step.h"
#include "vector/plan/plan.h"
#include "vector/plan/planner_memo.h"

/* Tables of less than that many pages together are joined in a few milliseconds. */
#define LEAST_PAGES 128

/* What a few rows of a table are, found for a small share of what it costs to look at all. */
#define FEW_ROWS 20
#define FEW_PAGES 32
#define FEW_ROWS_SHARE 0.1

/* More columns than that cannot be described. */
#define MAX_ATTRIBUTES MaxHeapAttributeNumber

/* ---- what a chain costs ---- */

/* Estimate what the table costs in a columnar index that has all columns that are needed of it. */
static void
appraise_column_index(PlannerInfo *root, JoinChain *chain)
{
	Cost		row = chain->row + chain->terms;
	ListCell   *lc;

	chain->column_pages = chain->pages;
	chain->column_share = 1;
	if (!chain->has_column_index || row <= 0)
		return;
	foreach(lc, chain->table->reltarget->exprs)
	{
		if (!IsA(lfirst(lc), Var) || lfirst_node(Var, lc)->varattno <= 0)
			return;
	}
	if (OidIsValid(vector_choose_column_index(root, chain->table, chain->table->reltarget->exprs, &chain->column_pages, &row)))
		chain->column_share = row / (chain->row + chain->terms);
}

/* Begin a chain with a table. */
static void
begin_chain(PlannerInfo *root, RelOptInfo *table, JoinChain *chain)
{
	double		page_cost;

	memset(chain, 0, sizeof(JoinChain));
	chain->table = chain->joined = table;
	get_tablespace_page_costs(table->reltablespace, NULL, &page_cost);
	chain->pages = cached_sequential_page_cost(root, page_cost) * table->pages;
	chain->row = vector_read_cost();
	chain->terms = vector_filter_cost(root, table) - chain->row;
	chain->share = 1;
	chain->natts = table->max_attr;
	chain->has_column_index = vector_has_column_index(table);
	appraise_column_index(root, chain);
}

/* Add what a further step costs. Keys that go down save the steps before theirs the rows that they remove. */
static void
add_step(JoinChain *chain, const JoinStep *step)
{
	chain->nsteps++;
	chain->natts += list_length(step->inner->pathtarget->exprs);
	chain->own += join_step_own_cost(step, 1);
	chain->shared = (chain->shared + step->probe) * step->left + step->pairs;
	chain->share *= step->left;
	chain->tests += step->left < 1;
}

/* What reading the table costs: its pages, and each row, of which keys that go down remove some first. */
void
join_chain_scan_cost(const JoinChain *chain, Cost *pages, Cost *row)
{
	*pages = chain->pages;
	*row = chain->row + JOIN_KEY_TEST_COST * chain->tests + chain->terms * chain->share;
}

/* Cost of all that happens before the rows of the joins are used, in one process. */
Cost
join_chain_cost(const JoinChain *chain)
{
	Cost		pages;
	Cost		row;

	join_chain_scan_cost(chain, &pages, &row);
	return chain->column_pages + row * chain->column_share * chain->table->tuples + chain->own + chain->shared;
}

/* What the joins of a chain cost each of `divisor` processes, which puts all rows of the inner sides into tables. */
Cost
join_chain_joins_cost(const JoinChain *chain, double divisor)
{
	Cost		own = chain->own;

	if (divisor > 1)
	{
		own = 0;
		for (; chain->previous != NULL; chain = chain->previous)
			own += join_step_own_cost(chain->step, divisor);
	}
	return own + chain->shared / divisor;
}

/* Prolong a chain by a step. */
static JoinChain *
make_longer(const JoinChain *chain, RelOptInfo *joined, JoinStep *step)
{
	JoinChain  *longer = palloc(sizeof(JoinChain));

	*longer = *chain;
	add_step(longer, step);
	longer->previous = chain;
	longer->step = step;
	longer->joined = joined;

	return longer;
}

/* The steps of a chain, from the table on. */
List *
join_chain_steps(const JoinChain *chain)
{
	List	   *steps = NIL;

	for (; chain->previous != NULL; chain = chain->previous)
		steps = lcons(chain->step, steps);
	return steps;
}

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
	JoinChain  *chain = palloc(sizeof(JoinChain));
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
	begin_chain(root, path->parent, chain);
	foreach(lc, steps)
		chain = make_longer(chain, joined, lfirst(lc));
	*result = chain;

	return chain->natts > MAX_ATTRIBUTES ? "too many columns" : NULL;
}

/* ---- what is remembered ---- */

/* The best chains that give the rows of a relation: one of any, one for workers; or NULL. */
typedef struct Memory
{
	JoinChain  *chains[2];
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
meet_rival(PlannerInfo *root, RelOptInfo *joined, bool partial, Rival *rival)
{
	Path	   *best = cheapest_of_core(joined, partial);

	if (best == NULL || (rival->planned > 0 && best->total_cost >= rival->planned))
		return false;
	rival->planned = best->total_cost;
	rival->taken = cached_path_cost(root, best);
	rival->looks = looks_for_rows(best);

	return true;
}

/* What is known of a relation, of which a table alone is found out now; or NULL. */
static Memory *
recall(PlannerInfo *root, RelOptInfo *rel)
{
	Memory	   *memory = find_memory(root, rel);

	if (memory == NULL && is_table(root, rel))
	{
		memory = make_memory(root, rel);
		if (vector_table_refusal(root, rel) == NULL)
		{
			JoinChain  *chain = palloc(sizeof(JoinChain));

			begin_chain(root, rel, chain);
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
prolong(PlannerInfo *root, RelOptInfo *joined, const JoinChain *chain, const Joining *join, const InnerSide *inner,
		bool safe)
{
	Memory	   *memory = find_memory(root, joined);
	JoinChain	longer = *chain;
	JoinStep	tried;

	if (join_step_try(root, join, inner, &tried) != NULL)
		return false;
	add_step(&longer, &tried);
	if (longer.natts > MAX_ATTRIBUTES ||
		(memory != NULL && memory->chains[safe] != NULL && join_chain_cost(&longer) >= join_chain_cost(memory->chains[safe])))
		return false;
	if (memory == NULL)
		memory = make_memory(root, joined);
	memory->chains[safe] = make_longer(chain, joined, join_step_make(root, join, &tried));

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
 * Is what a statement reads worth looking at all of its joins? Of many tables
 * there are very many, and their tables on their own cost about what can be
 * gained.
 */
static bool
is_worth_search(PlannerInfo *root)
{
	int			levels = Max(from_collapse_limit, join_collapse_limit);
	int			tables = 0;
	Cost		cost = 0;
	int			table = -1;

	while ((table = bms_next_member(root->all_baserels, table)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[table];

		if (rel == NULL || rel->cheapest_total_path == NULL)
			continue;
		tables++;
		cost += rel->cheapest_total_path->total_cost;
	}
	return cost >= JOIN_SEARCH_COST * tables * exp2(Min(tables, levels));
}

/*
 * Why a statement is not for us, or NULL. What it does with the rows of joins
 * must not need those of the tables, as locks and rechecks of updated rows do.
 * Small tables are left alone.
 */
static const char *
statement_refusal(PlannerInfo *root)
{
	if ((root->parse->commandType != CMD_SELECT && root->parse->commandType != CMD_INSERT) ||
		root->rowMarks != NIL || root->parse->rowMarks != NIL)
		return "rows are changed or locked";
	if (vector_join == PLAN_FORCE)
		return NULL;
	if (root->total_table_pages < LEAST_PAGES)
		return "the tables are small";
	if (is_about_few_rows(root))
		return "an index gives the few rows that are read of a table";
	if (!is_worth_search(root))
		return "reading the tables takes little, compared with looking at all their joins";
	return NULL;
}

/* This is asked with each join of a statement. */
typedef struct StatementMemo
{
	const char *refusal;
} StatementMemo;

/* The same, found out once. */
const char *
join_chain_refusal(PlannerInfo *root)
{
	StatementMemo *known = planner_memo_find(root, MEMO_STATEMENT, root);

	if (known == NULL)
	{
		known = planner_memo_make(root, MEMO_STATEMENT, root, sizeof(StatementMemo));
		known->refusal = statement_refusal(root);
	}
	return known->refusal;
}

/* Is a statement for us? The genetic search is left alone. */
static bool
is_for_us(PlannerInfo *root)
{
	return !searched_by_geqo(root) && join_chain_refusal(root) == NULL;
}

/*
 * Could a chain of at least this cost be of use for the rows of a join, for
 * which PostgreSQL has paths? A chain that costs many times as much gets no
 * further joins. This runs for every join of every statement.
 */
static bool
is_promising(RelOptInfo *joined, Cost least)
{
	Path	   *best = cheapest_of_core(joined, false);

	return vector_join == PLAN_FORCE || best == NULL || least < JOIN_HOPELESS_FACTOR * best->total_cost;
}

/* The least that it can cost to read a table. */
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
join_chain_look_at(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
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

	if (vector_join == PLAN_OFF || !enable_hashjoin || !enable_seqscan || !join_step_is_our_type(type) ||
		joined->reloptkind != RELOPT_JOINREL || !is_for_us(root) ||
		(outer->reloptkind == RELOPT_BASEREL && !is_promising(joined, least_cost(outer))) ||
		!bms_is_empty(joined->lateral_relids) || !bms_is_empty(outer->lateral_relids) ||
		!bms_is_empty(inner->lateral_relids))
		return false;
	memory = recall(root, outer);
	if (memory == NULL)
		return false;
	join.outer_rows = outer->rows * cached_rows_factor(root, outer);
	join.rows = joined->rows * cached_rows_factor(root, joined);
	for (int safe = 0; safe < 2; safe++)
	{
		const JoinChain *chain = memory->chains[safe];
		const InnerSide *side;

		if (chain == NULL || (safe && !joined->consider_parallel))
			continue;
		side = join_step_inner_of_relation(root, inner, safe);
		if (side == NULL ||
			!is_promising(joined, Max(least_cost(chain->table), chain->nsteps > 0 ? join_chain_cost(chain) : 0) +
						  side->path->total_cost))
			continue;
		join.table = chain->table->relid;
		found |= prolong(root, joined, chain, &join, side, safe);
	}
	memory = find_memory(root, joined);
	for (int partial = 0; memory != NULL && partial < 2; partial++)
		found |= meet_rival(root, joined, partial, &memory->rivals[partial]);
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

/* The cheapest chain of the rows of a relation, as far as PostgreSQL has looked at joins; or NULL. */
JoinChain *
join_chain_of_search(PlannerInfo *root, RelOptInfo *joined, bool safe)
{
	Memory	   *memory = find_memory(root, joined);

	return memory == NULL ? NULL : memory->chains[safe];
}
