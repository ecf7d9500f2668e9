/*-------------------------------------------------------------------------
 *
 * eager_aggregate.c
 *	  Joins partial states of a table with the other tables of a query.
 *
 * Where PostgreSQL has built its paths for GROUP BY over a join, the join is
 * planned once more with the states in the place of the table: in every order
 * that PostgreSQL has considered, by PostgreSQL's own add_paths_to_joinrel(),
 * in copies of its join relations. Finalize Aggregate above competes with
 * PostgreSQL's paths by its cost. What speaks against it is reported at
 * DEBUG1, and by pgbillion_rows.explain_vector().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "optimizer/tlist.h"
#include "utils/guc.h"
#include "utils/selfuncs.h"

#include "compat.h"
#include "eager_aggregate/eager_aggregate.h"
#include "planner/planner.h"
#include "vector/plan/cost_model.h"

/* How many rows a group must have, by the estimate, to be worth a second aggregation. */
#define LEAST_ROWS_PER_GROUP 4

/* Maximum number of join relations in which the join is planned again. */
#define MOST_JOIN_RELS 300

static int	eager_aggregate = PLAN_ON;

/* ---- joins ---- */

/* The relation that PostgreSQL has for these tables, or NULL if it has none with a path. */
static RelOptInfo *
core_rel(PlannerInfo *root, Relids relids)
{
	int			relid;
	RelOptInfo *rel = bms_get_singleton_member(relids, &relid) ? find_base_rel(root, relid) :
		find_join_rel(root, relids);

	return rel != NULL && rel->cheapest_total_path != NULL ? rel : NULL;
}

/* Columns of a join that are still needed above it, and all states. */
static void
add_needed(PlannerInfo *root, RelOptInfo *joinrel, RelOptInfo *input)
{
	ListCell   *lc;

	foreach(lc, input->reltarget->exprs)
	{
		Expr	   *expr = lfirst(lc);

		if (IsA(expr, Var))
		{
			Var		   *var = (Var *) expr;
			RelOptInfo *table = find_base_rel(root, var->varno);

			if (!bms_nonempty_difference(table->attr_needed[var->varattno - table->min_attr], joinrel->relids))
				continue;
		}
		/* without placeholders, a join's columns are Vars */
		Assert(IsA(expr, Var) || IsA(expr, Aggref));
		add_column_to_pathtarget(joinrel->reltarget, expr, 0);
	}
}

/* A join relation like PostgreSQL's, except for the states in the place of the table; yet without paths. */
static RelOptInfo *
copy_joinrel(RelOptInfo *core, RelOptInfo *table, RelOptInfo *states)
{
	RelOptInfo *joinrel = makeNode(RelOptInfo);

	joinrel->reloptkind = RELOPT_JOINREL;
	joinrel->relids = core->relids;
	joinrel->rows = clamp_row_est(core->rows * states->rows / Max(table->rows, 1));
	joinrel->consider_startup = core->consider_startup;
	joinrel->consider_param_startup = core->consider_param_startup;
	joinrel->consider_parallel = core->consider_parallel && states->consider_parallel;
	joinrel->reltarget = create_empty_pathtarget();
	joinrel->direct_lateral_relids = core->direct_lateral_relids;
	joinrel->lateral_relids = core->lateral_relids;
	joinrel->rtekind = RTE_JOIN;
	joinrel->rel_parallel_workers = -1;
	joinrel->joininfo = core->joininfo;
	joinrel->has_eclass_joins = core->has_eclass_joins;
	joinrel->nparts = -1;
	copy_enabled_paths(joinrel, core);

	return joinrel;
}

/* What join_is_legal() would say of an inner join. */
static SpecialJoinInfo *
inner_join(RelOptInfo *left, RelOptInfo *right)
{
	SpecialJoinInfo *sjinfo = makeNode(SpecialJoinInfo);

	sjinfo->min_lefthand = sjinfo->syn_lefthand = left->relids;
	sjinfo->min_righthand = sjinfo->syn_righthand = right->relids;
	sjinfo->jointype = JOIN_INNER;

	return sjinfo;
}

/*
 * Are all columns of the table that these conditions use among those that the
 * states are grouped by?
 */
static bool
has_columns_for(EagerAggregate *eager, List *restrictlist)
{
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, restrictlist)
	{
		foreach(lc2, pull_var_clause((Node *) lfirst_node(RestrictInfo, lc)->clause, PVC_RECURSE_PLACEHOLDERS))
		{
			if (lfirst_node(Var, lc2)->varno == eager->table->relid &&
				!list_member(eager->target->exprs, lfirst(lc2)))
				return false;
		}
	}
	return true;
}

/* Give a join relation its paths: each of the smaller ones, joined with what is left. */
static void
add_join_paths(PlannerInfo *root, EagerAggregate *eager, RelOptInfo *joinrel, List *smaller)
{
	ListCell   *lc;

	foreach(lc, smaller)
	{
		RelOptInfo *left = lfirst(lc);
		RelOptInfo *right;
		SpecialJoinInfo *sjinfo;
		List	   *restrictlist;

		if (!bms_is_subset(left->relids, joinrel->relids))
			continue;
		right = core_rel(root, bms_difference(joinrel->relids, left->relids));
		if (right == NULL)
			continue;
		sjinfo = inner_join(left, right);

		/*
		 * PostgreSQL has this join relation: that makes the list of
		 * conditions, and no more
		 */
		(void) build_join_rel(root, joinrel->relids, core_rel(root, left->relids), right, sjinfo, NIL, &restrictlist);
		if (!has_columns_for(eager, restrictlist))
		{
			Assert(false);
			continue;
		}
		if (joinrel->reltarget->exprs == NIL)
		{
			add_needed(root, joinrel, left);
			add_needed(root, joinrel, right);
			joinrel->reltarget = set_pathtarget_cost_width(root, joinrel->reltarget);
		}
		add_paths_to_joinrel(root, joinrel, left, right, JOIN_INNER, sjinfo, restrictlist);
		add_paths_to_joinrel(root, joinrel, right, left, JOIN_INNER, sjinfo, restrictlist);
	}
}

static int
compare_sizes(const ListCell *a, const ListCell *b)
{
	int			left = bms_num_members(((RelOptInfo *) lfirst(a))->relids);
	int			right = bms_num_members(((RelOptInfo *) lfirst(b))->relids);

	return left < right ? -1 : left > right;
}

/*
 * Join the states with all other tables of the query. Returns the relation of
 * the whole join, or NULL with a reason.
 */
static RelOptInfo *
join_states(PlannerInfo *root, EagerAggregate *eager, RelOptInfo *states, RelOptInfo *input_rel, const char **reason)
{
	List	   *core = NIL;
	List	   *joined = list_make1(states);
	RelOptInfo *last;
	ListCell   *lc;

	foreach(lc, root->join_rel_list)
	{
		RelOptInfo *rel = lfirst(lc);

		if (rel->reloptkind == RELOPT_JOINREL && rel->cheapest_total_path != NULL &&
			bms_is_subset(states->relids, rel->relids) && bms_is_subset(rel->relids, input_rel->relids))
			core = lappend(core, rel);
	}
	if (list_length(core) > MOST_JOIN_RELS)
	{
		*reason = "too many tables";
		return NULL;
	}
	list_sort(core, compare_sizes);
	foreach(lc, core)
	{
		RelOptInfo *rel = lfirst(lc);
		RelOptInfo *joinrel = copy_joinrel(rel, eager->table, states);

		add_join_paths(root, eager, joinrel, joined);
		if (joinrel->pathlist == NIL)
			continue;
		set_cheapest(joinrel);
		joined = lappend(joined, joinrel);
	}
	last = llast(joined);
	if (!bms_equal(last->relids, input_rel->relids) || last->cheapest_total_path->param_info != NULL)
	{
		*reason = "no order of joins";
		return NULL;
	}
	return last;
}

/*
 * Have the states computed once, where a nested loop would have them computed
 * anew for each of its outer rows: that aggregates the table again, and starts
 * the workers again.  PostgreSQL's costs allow it where few outer rows are
 * expected, or where settings call it cheap.  `rescanned` says that the path is
 * read more than once.
 */
static void
materialize_states(RelOptInfo *states, Path **place, bool rescanned)
{
	Path	   *path = *place;

	if (!bms_is_subset(states->relids, path->parent->relids))
		return;
	/* what depends on the outer row is computed anew, but not the states */
	if (rescanned && (path->parent == states || PATH_REQ_OUTER(path) == NULL))
	{
		if (!ExecMaterializesOutput(path->pathtype))
			*place = (Path *) create_material_path(path->parent, path, true);
		rescanned = false;
	}
	if (path->parent == states)
		return;
	switch (nodeTag(path))
	{
		case T_NestPath:
			materialize_states(states, &((JoinPath *) path)->outerjoinpath, rescanned);
			materialize_states(states, &((JoinPath *) path)->innerjoinpath, true);
			break;
		case T_HashPath:
		case T_MergePath:
			materialize_states(states, &((JoinPath *) path)->outerjoinpath, rescanned);
			materialize_states(states, &((JoinPath *) path)->innerjoinpath, rescanned);
			break;
		case T_MaterialPath:
			materialize_states(states, &((MaterialPath *) path)->subpath, false);
			break;
		case T_MemoizePath:
			materialize_states(states, &((MemoizePath *) path)->subpath, rescanned);
			break;
		case T_ProjectionPath:
			materialize_states(states, &((ProjectionPath *) path)->subpath, rescanned);
			break;
		case T_SortPath:
		case T_IncrementalSortPath:
			materialize_states(states, &((SortPath *) path)->subpath, rescanned);
			break;
		case T_GatherPath:
			materialize_states(states, &((GatherPath *) path)->subpath, rescanned);
			break;
		case T_GatherMergePath:
			materialize_states(states, &((GatherMergePath *) path)->subpath, rescanned);
			break;
		default:
			break;
	}
}

/* ---- above the join ---- */

/* Offer PostgreSQL's Finalize Aggregate over a path of the join, where it costs less than `most`. */
static void
add_finalize(PlannerInfo *root, RelOptInfo *grouped_rel, RelOptInfo *joined, Path *path, PathTarget *partial,
			 GroupPathExtraData *extra, Cost most, double *best)
{
	List	   *group_clause = group_clause_of(root);
	Cost		beyond = cached_cost_beyond(root, path);
	double		groups = 1;
	AggClauseCosts costs;
	List	   *paths = NIL;
	ListCell   *lc;

	MemSet(&costs, 0, sizeof(costs));
	get_agg_clause_costs(root, AGGSPLIT_FINAL_DESERIAL, &costs);
	path = (Path *) create_projection_path(root, joined, path, partial);
	if (group_clause != NIL)
		groups = estimate_num_groups(root, get_sortgrouplist_exprs(group_clause, root->processed_tlist),
									 path->rows, NULL, NULL);

	/*
	 * grouped by constants alone, as PostgreSQL does it: one group, but none
	 * without rows
	 */
	if (group_clause == NIL)
		paths = lappend(paths, create_agg_path(root, grouped_rel, path, grouped_rel->reltarget,
											   root->parse->groupClause != NIL ? AGG_SORTED : AGG_PLAIN,
											   AGGSPLIT_FINAL_DESERIAL, NIL, (List *) extra->havingQual, &costs, 1));
	if (group_clause != NIL && (extra->flags & GROUPING_CAN_USE_HASH) != 0)
		paths = lappend(paths, create_agg_path(root, grouped_rel, path, grouped_rel->reltarget, AGG_HASHED,
											   AGGSPLIT_FINAL_DESERIAL, group_clause, (List *) extra->havingQual,
											   &costs, groups));
	if (group_clause != NIL && (extra->flags & GROUPING_CAN_USE_SORT) != 0)
	{
		if (!pathkeys_contained_in(root->group_pathkeys, path->pathkeys))
			path = (Path *) create_sort_path(root, grouped_rel, path, root->group_pathkeys, -1.0);
		paths = lappend(paths, create_agg_path(root, grouped_rel, path, grouped_rel->reltarget, AGG_SORTED,
											   AGGSPLIT_FINAL_DESERIAL, group_clause, (List *) extra->havingQual,
											   &costs, groups));
	}
	foreach(lc, paths)
	{
		Path	   *agg = lfirst(lc);

		/*
		 * cheaper than anything of PostgreSQL's, and still comparable among
		 * themselves
		 */
		if (eager_aggregate == PLAN_FORCE)
			vector_force_path(agg, FORCED_COST_FACTOR);
		*best = Min(*best, agg->total_cost - beyond);
		if (agg->total_cost - beyond < most)
			add_path(grouped_rel, agg);
	}
}

/* Offer our paths, or say why not. */
static const char *
offer(PlannerInfo *root, RelOptInfo *input_rel, RelOptInfo *grouped_rel, GroupPathExtraData *extra)
{
	EagerAggregate eager;
	PathTarget *partial;
	RelOptInfo *states;
	RelOptInfo *joined;
	const char *reason;
	Path	   *rival;
	Cost		core;
	Cost		most;
	double		ours = DBL_MAX;

	if (IS_DUMMY_REL(input_rel))
		return "no row can satisfy the conditions";
	if (root->parse->groupingSets != NIL)
		return "grouping sets";
	if ((extra->flags & GROUPING_CAN_PARTIAL_AGG) == 0)
		return planner_no_partial_form(root, grouped_rel->reltarget, extra->havingQual);

	partial = planner_partial_target(root, grouped_rel->reltarget, extra->havingQual);
	reason = eager_aggregate_refusal(root, input_rel, partial, &eager);
	if (reason != NULL)
		return reason;
	if (eager_aggregate != PLAN_FORCE && !eager.known)
		return "a column to group by without statistics (ANALYZE)";
	if (eager_aggregate != PLAN_FORCE && eager.groups * LEAST_ROWS_PER_GROUP > eager.table->rows)
		return plan_reason("it would leave %.0f groups of %.0f rows", eager.groups, eager.table->rows);

	eager.left = input_rel->rows;
	eager.forced = eager_aggregate == PLAN_FORCE;
	states = eager_states_rel(root, &eager);
	if (states == NULL)
		return "the table cannot be read on its own";
	joined = join_states(root, &eager, states, input_rel, &reason);
	if (joined == NULL)
		return reason;

	if (grouped_rel->pathlist != NIL)
		set_cheapest(grouped_rel);
	rival = grouped_rel->cheapest_total_path;
	core = rival != NULL ? rival->total_cost : 0;

	/* joins that take much less than they cost are not to be compared by that */
	most = rival != NULL && eager_aggregate != PLAN_FORCE ? core - cached_cost_beyond(root, rival) : DBL_MAX;
	materialize_states(states, &joined->cheapest_total_path, false);
	add_finalize(root, grouped_rel, joined, joined->cheapest_total_path, partial, extra, most, &ours);
	if (joined->partial_pathlist != NIL)
	{
		Path	   *path = linitial(joined->partial_pathlist);
		double		rows = path->rows * path->parallel_workers;

		materialize_states(states, &path, false);
		path = (Path *) create_gather_path(root, joined, path, joined->reltarget, NULL, &rows);
		add_finalize(root, grouped_rel, joined, path, partial, extra, most, &ours);
	}
	plan_report(root, "eager aggregation is possible, and estimated to cost %.2f compared with PostgreSQL's %.2f: %.0f groups of %.0f rows, of which the join leaves %.0f",
				ours, Min(core, most), eager.groups, eager.table->rows, input_rel->rows);

	return NULL;
}

static void
offer_upper_paths(PlannerInfo *root, UpperRelationKind stage, RelOptInfo *input_rel,
				  RelOptInfo *grouped_rel, void *extra)
{
	const char *reason;

	if (stage != UPPERREL_GROUP_AGG || eager_aggregate == PLAN_OFF ||
		input_rel->reloptkind != RELOPT_JOINREL || !root->parse->hasAggs)
		return;

	reason = offer(root, input_rel, grouped_rel, extra);
	if (reason != NULL)
		plan_report(root, "no eager aggregation: %s", reason);
}

void
eager_aggregate_init(void)
{
	DefineCustomEnumVariable("pgbillion_rows.eager_aggregate",
							 "Aggregates a table before it is joined with others, where that gives the same.",
							 "\"force\" does so wherever it can be done, whatever it is estimated to cost.",
							 &eager_aggregate, PLAN_ON, plan_mode_options, PGC_USERSET, GUC_EXPLAIN,
							 NULL, NULL, NULL);
	planner_add_offer(offer_upper_paths);
}
