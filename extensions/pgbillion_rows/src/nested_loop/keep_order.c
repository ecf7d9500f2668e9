/*-------------------------------------------------------------------------
 *
 * keep_order.c
 *	  The node KeepOrder: a hash join whose rows have the order of its outer side.
 *
 * PostgreSQL's hash join returns rows in the order of the outer side as long as
 * its hash table fits into memory. If it does not, it puts outer rows off until
 * their part of the table is in memory. Nobody knows which before the table has
 * been built, so that PostgreSQL plans such a join as one without an order.
 * PostgreSQL 19 also puts outer rows off that have no match because a key is NULL.
 *
 * KeepOrder stands above a Sort above the hash join. It reads the join itself. If
 * the first row comes with a table that is in memory as a whole, so do all others,
 * and the Sort is never executed. Else the join is read again, through the Sort.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/hashjoin.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"

#include "nested_loop/nested_loop.h"
#include "planner/planner.h"
#include "sort/sort.h"
#include "vector/plan/cost_model.h"

/* ---- the plan ---- */

static Plan *plan_order(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
						List *clauses, List *custom_plans);

static const CustomPathMethods path_methods = {
	.CustomName = "KeepOrder",
	.PlanCustomPath = plan_order,
};

/*
 * The path of a hash join's rows in the order of its outer side, which these are
 * the keys of, or NULL where its rows cannot be sorted. It costs what the join
 * costs.
 */
Path *
keep_order_path(PlannerInfo *root, Path *hash, List *pathkeys)
{
	CustomPath *path;
	ListCell   *lc;

	/*
	 * rows that are locked may be joined again, one at a time; and what is
	 * read again is to be the same
	 */
	if (root->rowMarks != NIL || contain_volatile_functions((Node *) root->parse) || sort_has_record(hash->pathtarget))
		return NULL;
#if PG_VERSION_NUM >= 190000
	if (castNode(HashPath, hash)->jpath.jointype == JOIN_LEFT || castNode(HashPath, hash)->jpath.jointype == JOIN_ANTI)
		return NULL;
#endif
	foreach(lc, pathkeys)
	{
		if (!relation_can_be_sorted_early(root, hash->parent, lfirst_node(PathKey, lc)->pk_eclass, false))
			return NULL;
	}
	path = makeNode(CustomPath);
	path->path = *hash;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->path.pathkeys = pathkeys;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->custom_paths = list_make1(create_sort_path(root, hash->parent, hash, pathkeys, -1));
	path->methods = &path_methods;

	return &path->path;
}

static Plan *
plan_order(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
		   List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);

	cscan->flags = best_path->flags;
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = copyObject(((Plan *) linitial(custom_plans))->targetlist);
	cscan->custom_plans = custom_plans;
	cscan->methods = &keep_order_methods;

	return &cscan->scan.plan;
}

/* ---- its execution ---- */

typedef struct KeepOrderState
{
	CustomScanState css;
	PlanState  *sort;
	PlanState  *join;			/* below the sort */
	PlanState  *source;			/* which of them is read; NULL before the
								 * first row */
} KeepOrderState;

static void
begin_order(CustomScanState *css, EState *estate, int eflags)
{
	KeepOrderState *state = (KeepOrderState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	/*
	 * what is sorted need not be kept: who goes back in it begins with the
	 * join
	 */
	eflags &= ~(EXEC_FLAG_REWIND | EXEC_FLAG_BACKWARD | EXEC_FLAG_MARK);
	state->sort = ExecInitNode(linitial(cscan->custom_plans), estate, eflags);
	state->join = outerPlanState(state->sort);
	css->custom_ps = list_make1(state->join);
}

/* Are the rows of a join, of which the first has been returned, in the order of its outer side? */
static bool
is_in_order(const PlanState *join)
{
	/*
	 * a table with parts on disk has them when it has been built; parts are
	 * only added while it is
	 */
	return IsA(join, HashJoinState) && ((const HashJoinState *) join)->hj_HashTable != NULL &&
		((const HashJoinState *) join)->hj_HashTable->nbatch == 1;
}

/* Read the first row, and decide where the others come from. */
static TupleTableSlot *
first_row(KeepOrderState *state)
{
	TupleTableSlot *row = ExecProcNode(state->join);

	state->source = state->join;
	if (TupIsNull(row) || is_in_order(state->join))
		return row;
	ExecReScan(state->join);
	state->source = state->sort;
	/* for EXPLAIN */
	linitial(state->css.custom_ps) = state->sort;

	return ExecProcNode(state->sort);
}

static TupleTableSlot *
exec_order(CustomScanState *css)
{
	KeepOrderState *state = (KeepOrderState *) css;
	TupleTableSlot *slot = css->ss.ss_ScanTupleSlot;
	ExprContext *econtext = css->ss.ps.ps_ExprContext;
	TupleTableSlot *row;

	CHECK_FOR_INTERRUPTS();
	row = state->source == NULL ? first_row(state) : ExecProcNode(state->source);
	ExecClearTuple(slot);
	if (TupIsNull(row))
		return NULL;
	/* the values stay where they are until the next row is asked for */
	slot_getallattrs(row);
	Assert(row->tts_tupleDescriptor->natts == slot->tts_tupleDescriptor->natts);
	memcpy(slot->tts_values, row->tts_values, sizeof(Datum) * slot->tts_tupleDescriptor->natts);
	memcpy(slot->tts_isnull, row->tts_isnull, sizeof(bool) * slot->tts_tupleDescriptor->natts);
	ExecStoreVirtualTuple(slot);
	if (css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	ResetExprContext(econtext);
	econtext->ecxt_scantuple = slot;
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
rescan_order(CustomScanState *css)
{
	KeepOrderState *state = (KeepOrderState *) css;

	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(state->sort, css->ss.ps.chgParam);

	/*
	 * hands on what has changed; rewinds the join below only if it has sorted
	 * its rows
	 */
	ExecReScan(state->sort);
	if (state->source == state->join && state->join->chgParam == NULL)
		ExecReScan(state->join);
	state->source = NULL;
	linitial(css->custom_ps) = state->join;
}

static void
end_order(CustomScanState *css)
{
	ExecClearTuple(css->ss.ss_ScanTupleSlot);
	ExecEndNode(((KeepOrderState *) css)->sort);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "KeepOrder",
	.BeginCustomScan = begin_order,
	.ExecCustomScan = exec_order,
	.EndCustomScan = end_order,
	.ReScanCustomScan = rescan_order,
};

static Node *
create_state(CustomScan *cscan)
{
	KeepOrderState *state = palloc0(sizeof(KeepOrderState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}

const CustomScanMethods keep_order_methods = {
	.CustomName = "KeepOrder",
	.CreateCustomScanState = create_state,
};

void
keep_order_init(void)
{
	RegisterCustomScanMethods(&keep_order_methods);
	cached_cost_add_replacing(&path_methods);
}
