/*-------------------------------------------------------------------------
 *
 * nested_loop.c
 *	  Replace nested loops that rest on a guess with hash joins: nested_loop.h
 *	  says why.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#if PG_VERSION_NUM >= 180000
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "executor/nodeHash.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "parser/parsetree.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

#include "nested_loop/nested_loop.h"
#include "planner/guesses.h"
#include "planner/planner.h"

/*
 * How many times the nested loop's cost a hash join may cost. Both read the same
 * rows, so that the difference is the hash table's.
 */
#define MOST_OVERHEAD 1.1

/*
 * The same of the first rows. How soon the loop finds them is a guess, too; the
 * hash table takes one reading of the inner side, and the loop one for each row.
 */
#define MOST_FIRST_OVERHEAD 2.0

/* How many times the rows that are expected of a join its hash table is to have room for, if it keeps an order. */
#define MOST_UNDERESTIMATED 100.0

/* Rows of a table that takes no longer to be read again than to be looked up in. */
#define SMALL_TABLE 20

/*
 * The mark of the hash join: the location of its clauses in the text of the
 * query, which nobody looks at in a plan. It is copied wherever a plan is, and
 * is neither written for parallel workers nor compared.
 */
#define LOCATION_OF_MARKED (-2)

static bool replace_nested_loops = true;

/* Has this session planned a hash join in the place of a loop? */
static bool has_replaced = false;
static ExecutorStart_hook_type previous_start = NULL;
#if PG_VERSION_NUM >= 180000
static explain_per_node_hook_type previous_explain_hook = NULL;
#endif

/* ---- which loops ---- */

/* Is the number of rows of a relation that is joined not known from statistics of a table? */
static bool
is_guessed(PlannerInfo *root, RelOptInfo *rel)
{
	if (rel->reloptkind != RELOPT_BASEREL || rel->rtekind == RTE_VALUES || rel->rtekind == RTE_RESULT)
		return false;
	return rel->rtekind != RTE_RELATION || planner_rows_guess(root, rel) != NULL;
}

/*
 * Is the number of rows of either side a guess? One row that joins are estimated
 * to leave is PostgreSQL's least.
 */
static bool
rests_on_guess(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner)
{
	int			relid = -1;

	if ((IS_JOIN_REL(outer) && outer->rows <= 1) || (IS_JOIN_REL(inner) && inner->rows <= 1))
		return true;
	while ((relid = bms_next_member(joined->relids, relid)) >= 0)
	{
		RelOptInfo *rel = root->simple_rel_array[relid];

		/* there is none of an outer join */
		if (rel != NULL && is_guessed(root, rel))
			return true;
	}
	return false;
}

/* Is it a table that is known to be so small that it can be read again for very many rows? */
static bool
is_small(RelOptInfo *rel)
{
	return IS_SIMPLE_REL(rel) && rel->rtekind == RTE_RELATION && rel->tuples <= SMALL_TABLE;
}

/* Is it a table of a single row, for which the other side is read once? */
static bool
is_of_one_row(RelOptInfo *rel)
{
	return IS_SIMPLE_REL(rel) && rel->rtekind == RTE_RELATION && rel->pages <= 1 && rel->tuples <= 1;
}

/* Is a path a nested loop over two relations that reads the inner one again for each row? */
static bool
reads_again(Path *path, RelOptInfo *outer, RelOptInfo *inner, JoinType type)
{
	NestPath   *loop = (NestPath *) path;

	if (!IsA(path, NestPath) || path->param_info != NULL || loop->jpath.jointype != type ||
		loop->jpath.innerjoinpath->param_info != NULL || is_small(loop->jpath.innerjoinpath->parent) ||
		is_of_one_row(loop->jpath.outerjoinpath->parent))
		return false;
	return (loop->jpath.outerjoinpath->parent == outer && loop->jpath.innerjoinpath->parent == inner) ||
		(type == JOIN_INNER && loop->jpath.outerjoinpath->parent == inner && loop->jpath.innerjoinpath->parent == outer);
}

/* Are the first rows of a loop wanted soon, of more that it may return? */
static bool
is_for_first_rows(PlannerInfo *root, const Path *loop)
{
	if (root->tuple_fraction == 0 || (root->tuple_fraction >= 1 && root->tuple_fraction >= loop->rows))
		return false;
	/* a sort above reads all of them */
	return root->sort_pathkeys == NIL || loop->pathkeys != NIL;
}

/* What it takes at most to have the rows in the order that they have: as PostgreSQL's cost_sort() in memory. */
static Cost
cost_of_order(const Path *loop)
{
	return loop->pathkeys == NIL ? 0 : 2 * cpu_operator_cost * loop->rows * log2(Max(loop->rows, 2));
}

/*
 * What a loop costs beyond PostgreSQL's price if it reads a CTE again and again:
 * cost_rescan() leaves out the CTE scan's conditions, which may be subqueries,
 * and the rows that they remove.
 */
static Cost
cost_left_out(const NestPath *loop)
{
	const Path *inner = loop->jpath.innerjoinpath;

	if (inner->pathtype != T_CteScan)
		return 0;
	return Max(inner->total_cost - inner->startup_cost - cpu_tuple_cost * inner->rows, 0) *
		Max(loop->jpath.outerjoinpath->rows - 1, 0);
}

/* Which part of a loop's rows is wanted? */
static double
wanted_share(PlannerInfo *root, const Path *loop)
{
	if (!is_for_first_rows(root, loop))
		return 1;
	return root->tuple_fraction < 1 ? root->tuple_fraction : root->tuple_fraction / loop->rows;
}

/* Does a hash join, which has no order, take the place of a loop? */
static bool
takes_place(PlannerInfo *root, const Path *hash, const Path *loop)
{
	Cost		run = loop->total_cost + cost_left_out(castNode(NestPath, (Path *) loop)) - loop->startup_cost;
	Cost		cost = loop->startup_cost + wanted_share(root, loop) * run;

	return hash->total_cost + cost_of_order(loop) <= cost * MOST_OVERHEAD;
}

/* Does one that has the loop's outer side, and so returns the first rows as soon as it has its hash table? */
static bool
takes_place_for_first_rows(PlannerInfo *root, const Path *hash, const NestPath *loop)
{
	const Path *path = &loop->jpath.path;
	const Path *inner = loop->jpath.innerjoinpath;
	double		share = wanted_share(root, path);
	double		matches = path->rows / Max(loop->jpath.outerjoinpath->rows, 1);

	/*
	 * PostgreSQL counts less than one reading of the inner side, however few
	 * rows match the first outer one
	 */
	double		read = Min(share * path->rows / Max(matches, 1), 1);
	Cost		cost = Max(share * (path->total_cost - path->startup_cost), read * (inner->total_cost - inner->startup_cost));

	return hash->startup_cost + share * (hash->total_cost - hash->startup_cost) <=
		(path->startup_cost + cost) * MOST_FIRST_OVERHEAD;
}

/* ---- the hash join ---- */

/* The clauses by which rows can be hashed, of those of a join. */
static List *
hashable(RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type, List *clauses)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, clauses)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, lc);
		bool		on_left = bms_is_subset(clause->left_relids, outer->relids) &&
			bms_is_subset(clause->right_relids, inner->relids);
		bool		on_right = bms_is_subset(clause->right_relids, outer->relids) &&
			bms_is_subset(clause->left_relids, inner->relids);

		if (!clause->can_join || !OidIsValid(clause->hashjoinoperator) || (!on_left && !on_right))
			continue;
		/* what is above an outer join does not decide what matches */
		if (IS_OUTER_JOIN(type) && RINFO_IS_PUSHED_DOWN(clause, joined->relids))
			continue;
		/* the plan has the outer side on the left */
		if (!on_left && !OidIsValid(get_commutator(castNode(OpExpr, clause->clause)->opno)))
			continue;
		result = lappend(result, clause);
	}
	return result;
}

/* Put marked copies in the place of a join's clauses that are hashed. */
static void
mark(List **clauses, List **hashed)
{
	List	   *all = list_copy(*clauses);
	List	   *marked = NIL;
	ListCell   *lc;

	foreach(lc, all)
	{
		RestrictInfo *clause = lfirst_node(RestrictInfo, lc);

		if (list_member_ptr(*hashed, clause))
		{
			RestrictInfo *copy = makeNode(RestrictInfo);

			*copy = *clause;
			copy->clause = copyObject(clause->clause);
			castNode(OpExpr, copy->clause)->location = LOCATION_OF_MARKED;
			lfirst(lc) = copy;
			marked = lappend(marked, copy);
		}
	}
	Assert(list_length(marked) == list_length(*hashed));
	*clauses = all;
	*hashed = marked;
}

/* Does a hash join of a plan stand in the place of a loop? */
bool
nested_loop_is_replaced_by(const HashJoin *join)
{
	return castNode(OpExpr, linitial(join->hashclauses))->location == LOCATION_OF_MARKED;
}

#if PG_VERSION_NUM >= 180000
/* Have EXPLAIN tell of it. */
static void
explain_node(PlanState *node, List *ancestors, const char *relationship, const char *plan_name, ExplainState *es)
{
	if (previous_explain_hook != NULL)
		previous_explain_hook(node, ancestors, relationship, plan_name, es);
	if (IsA(node->plan, HashJoin) && nested_loop_is_replaced_by((HashJoin *) node->plan))
		ExplainPropertyText("Replaces", "Nested Loop", es);
}
#endif

/* The hash join of two relations' rows, or NULL where they cannot be hashed. */
static Path *
hash_path(PlannerInfo *root, RelOptInfo *joined, Path *outer_path, Path *inner_path, JoinType type,
		  JoinPathExtraData *extra)
{
	List	   *conditions = extra->restrictlist;
	List	   *clauses;
	JoinCostWorkspace workspace;

	if (!enable_hashjoin || outer_path == NULL || inner_path == NULL ||
		outer_path->param_info != NULL || inner_path->param_info != NULL)
		return NULL;
	clauses = hashable(joined, outer_path->parent, inner_path->parent, type, conditions);
	if (clauses == NIL)
		return NULL;
	mark(&conditions, &clauses);
	initial_cost_hashjoin(root, &workspace, type, clauses, outer_path, inner_path, extra, false);
	return (Path *) create_hashjoin_path(root, joined, type, &workspace, extra, outer_path, inner_path, false,
										 conditions, NULL, clauses);
}

/* Report that a loop has been replaced, to explain_vector() and the log. */
static void
report(PlannerInfo *root, RelOptInfo *joined, const Path *loop, const Path *hash)
{
	StringInfoData names;
	int			relid = -1;

	if (!plan_is_reported())
		return;
	initStringInfo(&names);
	while ((relid = bms_next_member(joined->relids, relid)) >= 0)
	{
		if (root->simple_rel_array[relid] != NULL)
			appendStringInfo(&names, "%s\"%s\"", names.len > 0 ? ", " : "",
							 planner_rt_fetch(relid, root)->eref->aliasname);
	}
	plan_report(root, "a nested loop over %s is replaced with a hash join, estimated to cost %.2f compared with %.2f, as a number of rows is a guess",
				names.data, hash->total_cost, loop->total_cost);
	pfree(names.data);
}

/* The most rows that a relation has as it is now, whatever its conditions leave, or -1 where that is not known. */
static double
most_rows(PlannerInfo *root, RelOptInfo *rel)
{
	double		sum = 0;
	ListCell   *lc;

	if (rel->reloptkind != RELOPT_BASEREL && rel->reloptkind != RELOPT_OTHER_MEMBER_REL)
		return -1;
	if (!planner_rt_fetch(rel->relid, root)->inh)
		return rel->rtekind == RTE_RELATION ? rel->tuples : -1;
	foreach(lc, root->append_rel_list)
	{
		AppendRelInfo *child = lfirst(lc);
		double		rows;

		/* what has been pruned has no relation, or one without rows */
		if (child->parent_relid != rel->relid || root->simple_rel_array[child->child_relid] == NULL)
			continue;
		rows = most_rows(root, root->simple_rel_array[child->child_relid]);
		if (rows < 0)
			return -1;
		sum += rows;
	}
	return sum;
}

/* Are all rows that a relation may have likely in a hash table in memory, so that a hash join keeps the outer side's order? */
static bool
fits_in_memory(PlannerInfo *root, RelOptInfo *rel)
{
	double		rows = most_rows(root, rel);
	size_t		space;
	int			buckets;
	int			batches;
	int			most_common;

	if (rows < 0)
		rows = rel->rows * MOST_UNDERESTIMATED;
	ExecChooseHashTableSize(rows, rel->reltarget->width, false, false, 0, &space, &buckets, &batches, &most_common);
	return batches == 1;
}

/* The hash join of a loop's outer side, in whose order its rows are, or NULL. */
static Path *
ordered_hash_path(PlannerInfo *root, RelOptInfo *joined, const NestPath *loop, JoinPathExtraData *extra)
{
	RelOptInfo *inner = loop->jpath.innerjoinpath->parent;
	Path	   *hash;

	if (!fits_in_memory(root, inner))
		return NULL;
	hash = hash_path(root, joined, loop->jpath.outerjoinpath, inner->cheapest_total_path, loop->jpath.jointype, extra);
	if (hash == NULL || loop->jpath.path.pathkeys == NIL)
		return hash;
	return keep_order_path(root, hash, loop->jpath.path.pathkeys);
}

/*
 * Put hash joins of their outer sides in the place of loops of which the first
 * rows are wanted, at the same cost. PostgreSQL would sort all rows of another
 * plan rather than wait for the hash table, which takes it far longer than
 * expected if there are more rows than expected.
 */
static void
replace_for_first_rows(PlannerInfo *root, RelOptInfo *joined, List *loops, JoinPathExtraData *extra)
{
	ListCell   *lc;

	foreach(lc, joined->pathlist)
	{
		NestPath   *loop = lfirst(lc);
		Path	   *hash;

		if (!list_member_ptr(loops, loop))
			continue;
		hash = ordered_hash_path(root, joined, loop, extra);
		if (hash == NULL || !takes_place_for_first_rows(root, hash, loop))
			continue;
		report(root, joined, &loop->jpath.path, hash);
		hash->startup_cost = loop->jpath.path.startup_cost;
		hash->total_cost = loop->jpath.path.total_cost;
		has_replaced = true;
		lfirst(lc) = hash;
	}
}

/*
 * Put one hash join in the place of other loops: of those of which all rows are
 * wanted, and of those that cost more than PostgreSQL has compared.
 */
static void
replace_for_all_rows(PlannerInfo *root, RelOptInfo *joined, List *loops, Path *hash)
{
	bool		replaced = false;
	Cost		startup = 0;
	Cost		least = 0;
	ListCell   *lc;

	foreach(lc, loops)
	{
		NestPath   *loop = lfirst(lc);

		if (!takes_place(root, hash, &loop->jpath.path))
			continue;
		joined->pathlist = list_delete_ptr(joined->pathlist, loop);
		if (!replaced)
			report(root, joined, &loop->jpath.path, hash);
		startup = replaced ? Min(startup, loop->jpath.path.startup_cost) : loop->jpath.path.startup_cost;
		if (cost_left_out(loop) == 0)
			least = least > 0 ? Min(least, loop->jpath.path.total_cost) : loop->jpath.path.total_cost;
		replaced = true;
	}
	if (!replaced)
		return;

	/*
	 * nobody waits for the first rows; but of plans that cost about the same
	 * PostgreSQL would keep another loop, which starts first. Nor is a hash
	 * join with the sides the other way round to be preferred that costs next
	 * to nothing less: the outer side that PostgreSQL has chosen is the one
	 * that may be empty, and is read first.
	 */
	hash->startup_cost = Min(hash->startup_cost, startup);
	hash->total_cost = Max(hash->total_cost, least);
	has_replaced = true;
	add_path(joined, hash);
}

/* PostgreSQL has looked at two relations that are joined: put hash joins in the place of loops. */
static void
replace_loops(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
			  JoinPathExtraData *extra)
{
	List	   *first_rows = NIL;
	List	   *all_rows = NIL;
	Path	   *hash;
	ListCell   *lc;

	if (!replace_nested_loops ||
		(type != JOIN_INNER && type != JOIN_LEFT && type != JOIN_SEMI && type != JOIN_ANTI))
		return;
	foreach(lc, joined->pathlist)
	{
		Path	   *path = lfirst(lc);

		if (!reads_again(path, outer, inner, type))
			continue;
		if (is_for_first_rows(root, path) && cost_left_out(castNode(NestPath, path)) == 0)
			first_rows = lappend(first_rows, path);
		else
			all_rows = lappend(all_rows, path);
	}
	if ((first_rows == NIL && all_rows == NIL) || !rests_on_guess(root, joined, outer, inner))
		return;
	replace_for_first_rows(root, joined, first_rows, extra);
	if (all_rows != NIL &&
		(hash = hash_path(root, joined, outer->cheapest_total_path, inner->cheapest_total_path, type, extra)) != NULL)
		replace_for_all_rows(root, joined, all_rows, hash);
}

/* ---- which side is read first ---- */

/*
 * PostgreSQL's hash join first asks an outer side that begins at no cost whether
 * it has any row, before it reads the inner side. But one that is estimated to
 * have a row or two is likely read as a whole for the first of them. Where the
 * inner side costs less than that, have the join take the outer side for one that
 * has rows: if the inner side is empty, PostgreSQL does not read the outer one. It
 * does not ask where rows of the outer side are returned without a match.
 */
static bool
read_cheaper_first(PlanState *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, HashJoinState) && nested_loop_is_replaced_by((HashJoin *) node->plan))
	{
		const Plan *outer = outerPlan(node->plan);
		Cost		first_row = outer->startup_cost + (outer->total_cost - outer->startup_cost) / (1 + outer->plan_rows);

		if (innerPlan(node->plan)->total_cost < first_row)
			((HashJoinState *) node)->hj_OuterNotEmpty = true;
	}
	return planstate_tree_walker(node, read_cheaper_first, context);
}

static void
start(QueryDesc *query, int eflags)
{
	if (previous_start != NULL)
		previous_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);
	if (has_replaced && query->planstate != NULL)
		(void) read_cheaper_first(query->planstate, NULL);
}

void
nested_loop_init(void)
{
	DefineCustomBoolVariable("pgbillion_rows.replace_nested_loops",
							 "Replaces nested loops that rest on a guess with hash joins.",
							 "A nested loop that reads its inner side again for each row takes very long if there are more rows than expected.",
							 &replace_nested_loops, true, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	planner_add_join_offer(replace_loops);
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
	keep_order_init();
#if PG_VERSION_NUM >= 180000
	previous_explain_hook = explain_per_node_hook;
	explain_per_node_hook = explain_node;
#endif
}
