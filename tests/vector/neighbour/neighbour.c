/*-------------------------------------------------------------------------
 *
 * neighbour.c
 *	  Another extension beside ours: it offers custom paths of its own,
 *	  counts how often the planner looks statistics up, and, with
 *	  neighbour.watches, is told of objects that are created.
 *
 * If it is loaded first, it searches the order of joins itself.
 *
 * Its paths of a table are a sequential scan's, and those of a join a nested
 * loop's, at so many times what these cost: neighbour.scans and
 * neighbour.joins; 0: there are none.
 * Of its partial paths there are no plans that could be run: for EXPLAIN only.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "nodes/extensible.h"
#include "optimizer/cost.h"
#include "optimizer/geqo.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "utils/guc.h"
#include "utils/selfuncs.h"

PG_MODULE_MAGIC;

static double scans = 0;
static double joins = 0;
static int64 lookups = 0;
static bool watches = false;
static int64 creations = 0;

static set_rel_pathlist_hook_type previous_scan_hook = NULL;
static set_join_pathlist_hook_type previous_join_hook = NULL;
static join_search_hook_type previous_search_hook = NULL;
static get_relation_stats_hook_type previous_statistics_hook = NULL;

static Plan *plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses,
					   List *custom_plans);
static Node *create_state(CustomScan *cscan);

static const CustomPathMethods path_methods = {
	.CustomName = "Neighbour",
	.PlanCustomPath = plan_path,
};

static const CustomScanMethods scan_methods = {
	.CustomName = "Neighbour",
	.CreateCustomScanState = create_state,
};

/* ---- the planner ---- */

static CustomPath *
make_path(RelOptInfo *rel, Path *path, double factor)
{
	CustomPath *made = makeNode(CustomPath);

	made->path = *path;
	made->path.type = T_CustomPath;
	made->path.pathtype = T_CustomScan;
	made->path.parent = rel;
	made->path.startup_cost *= factor;
	made->path.total_cost *= factor;
	made->methods = &path_methods;

	return made;
}

static void
scan_paths(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	if (previous_scan_hook != NULL)
		previous_scan_hook(root, rel, rti, rte);
	if (scans > 0 && rel->reloptkind == RELOPT_BASEREL && rte->rtekind == RTE_RELATION && !rte->inh &&
		bms_is_empty(rel->lateral_relids))
	{
		Path	   *scan = create_seqscan_path(root, rel, NULL, 0);
		CustomPath *made = make_path(rel, scan, scans);

		made->custom_paths = list_make1(scan);
		add_path(rel, &made->path);
		if (rel->consider_parallel)
			add_partial_path(rel, &make_path(rel, create_seqscan_path(root, rel, NULL, 2), scans)->path);
	}
}

static void
join_paths(PlannerInfo *root, RelOptInfo *joined, RelOptInfo *outer, RelOptInfo *inner, JoinType type,
		   JoinPathExtraData *extra)
{
	if (previous_join_hook != NULL)
		previous_join_hook(root, joined, outer, inner, type, extra);
	if (joins > 0 && type == JOIN_INNER && outer->cheapest_total_path->param_info == NULL &&
		inner->cheapest_total_path->param_info == NULL)
	{
		JoinCostWorkspace workspace;
		Path	   *join;
		CustomPath *made;

#if PG_VERSION_NUM >= 190000
		initial_cost_nestloop(root, &workspace, type, PGS_NESTLOOP_PLAIN, outer->cheapest_total_path,
							  inner->cheapest_total_path, extra);
#else
		initial_cost_nestloop(root, &workspace, type, outer->cheapest_total_path, inner->cheapest_total_path, extra);
#endif
		join = (Path *) create_nestloop_path(root, joined, type, &workspace, extra, outer->cheapest_total_path,
											 inner->cheapest_total_path, extra->restrictlist, NIL, NULL);
		made = make_path(joined, join, joins);
		made->custom_paths = list_make1(join);
		add_path(joined, &made->path);
	}
}

static Plan *
plan_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *path, List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);

	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = custom_plans == NIL ? tlist : ((Plan *) linitial(custom_plans))->targetlist;
	cscan->custom_plans = custom_plans;
	cscan->methods = &scan_methods;

	return &cscan->scan.plan;
}

/* ---- the executor ---- */

static void
begin(CustomScanState *css, EState *estate, int eflags)
{
	ListCell   *lc;

	foreach(lc, ((CustomScan *) css->ss.ps.plan)->custom_plans)
		css->custom_ps = lappend(css->custom_ps, ExecInitNode(lfirst(lc), estate, eflags));
}

static TupleTableSlot *
next(CustomScanState *css)
{
	TupleTableSlot *slot = ExecProcNode(linitial(css->custom_ps));

	if (TupIsNull(slot))
		return NULL;
	ResetExprContext(css->ss.ps.ps_ExprContext);
	css->ss.ps.ps_ExprContext->ecxt_scantuple = ExecCopySlot(css->ss.ss_ScanTupleSlot, slot);
	return css->ss.ps.ps_ProjInfo == NULL ? css->ss.ss_ScanTupleSlot : ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
end(CustomScanState *css)
{
	ListCell   *lc;

	foreach(lc, css->custom_ps)
		ExecEndNode(lfirst(lc));
}

static void
rescan(CustomScanState *css)
{
	ExecReScan(linitial(css->custom_ps));
}

static const CustomExecMethods exec_methods = {
	.CustomName = "Neighbour",
	.BeginCustomScan = begin,
	.ExecCustomScan = next,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
};

static Node *
create_state(CustomScan *cscan)
{
	CustomScanState *state = (CustomScanState *) palloc0(sizeof(CustomScanState));

	NodeSetTag(state, T_CustomScanState);
	state->methods = &exec_methods;

	return (Node *) state;
}

/* ---- the count ---- */

static bool
count_lookup(PlannerInfo *root, RangeTblEntry *rte, AttrNumber attnum, VariableStatData *vardata)
{
	lookups++;
	return previous_statistics_hook != NULL && previous_statistics_hook(root, rte, attnum, vardata);
}

PG_FUNCTION_INFO_V1(neighbour_lookups);

/* neighbour_lookups() returns bigint: how many there have been in this session */
Datum
neighbour_lookups(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(lookups);
}

/* ---- objects ---- */

static void
see_object(ObjectAccessType access, Oid classid, Oid objid, int subid, void *arg)
{
	creations += access == OAT_POST_CREATE;
}

static void
assign_watches(bool value, void *extra)
{
	object_access_hook = value ? see_object : NULL;
}

PG_FUNCTION_INFO_V1(neighbour_creations);

/* neighbour_creations() returns bigint: how many it has been told of in this session */
Datum
neighbour_creations(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(creations);
}

PGDLLEXPORT void _PG_init(void);

/* Searches joins itself, unless a library that was loaded before does. */
static RelOptInfo *
search(PlannerInfo *root, int levels_needed, List *initial_rels)
{
	if (previous_search_hook != NULL)
		return previous_search_hook(root, levels_needed, initial_rels);
	if (enable_geqo && levels_needed >= geqo_threshold)
		return geqo(root, levels_needed, initial_rels);
	return standard_join_search(root, levels_needed, initial_rels);
}

void
_PG_init(void)
{
	DefineCustomRealVariable("neighbour.scans", "What its paths of tables cost of PostgreSQL's.", NULL, &scans, 0, 0,
							 1e6, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomRealVariable("neighbour.joins", "What its paths of joins cost of PostgreSQL's.", NULL, &joins, 0, 0,
							 1e6, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("neighbour.watches", "Whether it is told of objects that are created.", NULL, &watches,
							 false, PGC_USERSET, 0, NULL, assign_watches, NULL);
	RegisterCustomScanMethods(&scan_methods);
	previous_scan_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = scan_paths;
	previous_join_hook = set_join_pathlist_hook;
	set_join_pathlist_hook = join_paths;
	previous_search_hook = join_search_hook;
	join_search_hook = search;
	previous_statistics_hook = get_relation_stats_hook;
	get_relation_stats_hook = count_lookup;
}
