/*-------------------------------------------------------------------------
 *
 * look_up_path.c
 *	  Nested loops whose look-ups are known to find few rows.
 *
 * Of a year without sales PostgreSQL takes each day to have as many as any
 * other (join_estimate.h). Its plan of looking days up in an index of the sales
 * may then seem to cost more than one that reads all of them, and be forgotten,
 * though it takes next to nothing. Where that is known, the loop is offered for
 * a bit less than the cheapest path: what is chosen above stays the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/cost.h"
#include "optimizer/pathnode.h"
#include "parser/parsetree.h"
#include "utils/float.h"

#include "planner/known_rows.h"
#include "planner/planner.h"
#include "planner/planner_memo.h"
#include "vector/plan/cost_model.h"
#include "vector/plan/look_up_path.h"

/* How much less time a loop must take than other paths, by what is known. */
#define LESS_TIME_FACTOR 0.5

/* One relation's rows, looked up for those of another one. */
typedef struct LookUp
{
	RelOptInfo *outer;
	Path	   *inner;
	JoinPathExtraData extra;
} LookUp;

/* Those that give the rows of a relation. */
typedef struct LookUpsMemo
{
	List	   *look_ups;
} LookUpsMemo;

/* The index that a path looks rows up in, or NULL. */
static IndexPath *
index_of(Path *path)
{
	if (IsA(path, BitmapHeapPath))
		path = ((BitmapHeapPath *) path)->bitmapqual;
	return IsA(path, IndexPath) ? (IndexPath *) path : NULL;
}

/* Remember the loops of two relations that PostgreSQL joins, if far fewer rows are found than it expects. */
void
look_ups_note(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
			  const JoinPathExtraData *extra)
{
	ListCell   *lc;

	if (type != JOIN_INNER || !enable_nestloop)
		return;
	foreach(lc, inner->cheapest_parameterized_paths)
	{
		Path	   *path = lfirst(lc);
		LookUpsMemo *memo;
		LookUp	   *look_up;

		if (index_of(path) == NULL || path->param_info == NULL || !bms_is_subset(PATH_REQ_OUTER(path), outer->relids) ||
			known_rows_look_up_factor(root, index_of(path)) >= 1)
			continue;
		memo = planner_memo_find(root, MEMO_LOOK_UPS, joined);
		if (memo == NULL)
			memo = planner_memo_make(root, MEMO_LOOK_UPS, joined, sizeof(LookUpsMemo));
		look_up = palloc(sizeof(LookUp));
		*look_up = (LookUp)
		{
			outer, path, *extra
		};
		/* that is on PostgreSQL's stack, and only read to estimate rows */
		look_up->extra.sjinfo = NULL;
		memo->look_ups = lappend(memo->look_ups, look_up);
	}
}

/* The loop that takes least, and what that is; or NULL. */
static const LookUp *
find_best(PlannerInfo *root, const LookUpsMemo *memo, Cost *taken)
{
	const LookUp *best = NULL;
	ListCell   *lc;

	foreach(lc, memo->look_ups)
	{
		const LookUp *look_up = lfirst(lc);
		Path	   *outer = look_up->outer->cheapest_total_path;
		Cost		cost;

		if (outer == NULL || outer->param_info != NULL)
			continue;
		cost = cached_look_ups_cost(root, outer, look_up->inner);
		if (best == NULL || cost < *taken)
		{
			best = look_up;
			*taken = cost;
		}
	}
	return best;
}

/*
 * The least that a relation's paths cost PostgreSQL's planner, with where that
 * one starts, and the least that any takes. False if there are none.
 */
static bool
find_least(PlannerInfo *root, List *paths, Cost *startup, Cost *planned, Cost *taken)
{
	bool		found = false;
	ListCell   *lc;

	foreach(lc, paths)
	{
		Path	   *path = lfirst(lc);

		if (path->param_info != NULL)
			continue;
		if (path->total_cost < *planned)
		{
			*startup = path->startup_cost;
			*planned = path->total_cost;
		}
		*taken = Min(*taken, cached_path_cost(root, path));
		found = true;
	}
	return found;
}

/* Offer the loop that takes least for the rows of a joined relation, if that is far less than all other paths do. */
void
look_ups_offer(PlannerInfo *root, RelOptInfo *joined)
{
	const LookUpsMemo *memo = planner_memo_find(root, MEMO_LOOK_UPS, joined);
	const LookUp *best;
	Cost		startup = 0;
	Cost		planned = get_float8_infinity();
	Cost		least = get_float8_infinity();
	Cost		taken;
	JoinCostWorkspace workspace;
	JoinPathExtraData extra;
	Path	   *outer;
	NestPath   *path;

	if (memo == NULL || !vector_tables_in_memory(root))
		return;
	best = find_best(root, memo, &taken);
	if (best == NULL || !find_least(root, joined->pathlist, &startup, &planned, &least))
		return;
	/* processes start where PostgreSQL expects that to take less */
	(void) find_least(root, joined->partial_pathlist, &startup, &planned, &least);
	if (taken >= least * LESS_TIME_FACTOR)
		return;
	extra = best->extra;
	outer = best->outer->cheapest_total_path;
	initial_cost_nestloop(root, &workspace, JOIN_INNER,
#if PG_VERSION_NUM >= 190000
						  PGS_NESTLOOP_PLAIN | PGS_CONSIDER_NONPARTIAL,
#endif
						  outer, best->inner, &extra);
	path = create_nestloop_path(root, joined, JOIN_INNER, &workspace, &extra, outer, best->inner, extra.restrictlist, NIL, NULL);
	plan_report(root, "looking up rows of \"%s\" is estimated to take %.2f, compared with %.2f otherwise, as few are known to be found",
				planner_rt_fetch(best->inner->parent->relid, root)->eref->aliasname, taken, least);

	/*
	 * with the least of all, PostgreSQL would keep more joins of it, and plan
	 * for much longer
	 */
	path->jpath.path.startup_cost = startup * LESS_COST_FACTOR;
	path->jpath.path.total_cost = planned * LESS_COST_FACTOR;
	add_path(joined, &path->jpath.path);
}
