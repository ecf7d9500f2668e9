/*-------------------------------------------------------------------------
 *
 * finish.c
 *	  Groups finished where they are, without PostgreSQL's hash table.
 *
 * In a plan over one table, Finalize HashAggregate takes every group
 * from the scan below it, looks for a group of that key in a hash table of
 * its own, finds none, and adds one: with many groups that costs several
 * times what aggregating them did. This node stands above both. It takes the
 * groups from the scan's table, calls the final functions, and has the Agg
 * node's own expressions compute HAVING and the output columns; the Agg node
 * is never executed. Groups for which there is no memory are kept on disk by
 * the scan meanwhile, as PostgreSQL's hash aggregation would keep them.
 *
 * In a parallel plan, processes exchange their groups before (exchange.c), and
 * each finishes those that it has then. Without workers it is as in a serial
 * plan.
 *
 * Where processes share the values of an aggregate with DISTINCT (regroup.c),
 * PostgreSQL finishes groups above a Gather; then this node is there only so
 * that the planner sees the aggregate with DISTINCT above, and without below.
 *
 * Why the results are the same: combining a state with what a group begins
 * with gives that state. finishable() admits only aggregates of which that is
 * known.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "utils/expandeddatum.h"
#include "utils/syscache.h"

#include "planner/aggregates.h"
#include "vector/vector.h"

typedef struct FinishState
{
	CustomScanState css;
	AggState   *agg;			/* Finalize Aggregate */
	CustomScanState *scan;		/* VectorAggregate below it; NULL: a Gather is
								 * between them, and PostgreSQL finishes
								 * groups */
	bool		begun;			/* have groups been asked for since the last
								 * rescan? */
	Datum	   *states;			/* of each transition of a group, */
	bool	   *nulls;
	int		   *columns;		/* found in that column of the scan */
} FinishState;

static Plan *plan_finish(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
						 List *clauses, List *custom_plans);
static Node *create_state(CustomScan *cscan);

static const CustomPathMethods path_methods = {
	.CustomName = "VectorFinish",
	.PlanCustomPath = plan_finish,
};

const CustomScanMethods vector_finish_methods = {
	.CustomName = "VectorFinish",
	.CreateCustomScanState = create_state,
};

/* ---- planning ---- */

/*
 * Aggregates without their DISTINCT. They are told apart from others all the
 * same, as PostgreSQL has numbered them.
 */
Node *
vector_without_distinct(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Aggref))
	{
		Aggref	   *aggref = makeNode(Aggref);

		memcpy(aggref, node, sizeof(Aggref));
		aggref->aggdistinct = NIL;
#if PG_VERSION_NUM >= 160000
		aggref->aggpresorted = false;
#endif
		return (Node *) aggref;
	}
	return expression_tree_mutator(node, vector_without_distinct, context);
}

/*
 * Has this aggregate a partial form, and is combining a state of it with what
 * a group begins with that state again? Where a group begins with nothing, PostgreSQL's combine functions
 * take the first state as it is, or are strict; where it begins with a value,
 * that is so for PostgreSQL's own aggregates: zeros are added to the state.
 */
static bool
finishable(Aggref *aggref)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Oid			combine;
	bool		nothing;
	bool		result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	(void) SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &nothing);
	combine = ((Form_pg_aggregate) GETSTRUCT(tuple))->aggcombinefn;
	if (OidIsValid(combine))
		combine = aggregate_core_function(combine);
	result = OidIsValid(combine) && combine < FirstNormalObjectId &&
		(nothing || aggref->aggfnoid < FirstNormalObjectId) &&
		(aggref->aggtranstype != INTERNALOID ||
		 (OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggserialfn) &&
		  OidIsValid(((Form_pg_aggregate) GETSTRUCT(tuple))->aggdeserialfn)));
	ReleaseSysCache(tuple);

	return result;
}

/*
 * Can groups of which a scan has these keys and partial states be finished
 * here? Not if it has to tell more groups apart than GROUP BY does, because
 * columns are wanted above that are no keys: those of keys that PostgreSQL has left
 * out as they are constant, or depend on a primary key.
 */
bool
vector_finishable(PathTarget *target, List *clause)
{
	ListCell   *lc;

	foreach(lc, target->exprs)
	{
		if (IsA(lfirst(lc), Aggref) ? !finishable(lfirst_node(Aggref, lc)) :
			get_sortgroupref_clause_noerr(get_pathtarget_sortgroupref(target, foreach_current_index(lc)), clause) == NULL)
			return false;
	}
	return true;
}

/*
 * The path above Finalize Aggregate over a scan of ours, hashed or of one
 * group. It costs what the scan, spilling, new groups and the final functions
 * do.
 */
Path *
vector_finish_path(PlannerInfo *root, AggPath *agg, const AggClauseCosts *costs, Cost spilling)
{
	CustomPath *path = makeNode(CustomPath);
	QualCost	having;

	path->path.pathtype = T_CustomScan;
	path->path.parent = agg->path.parent;
	path->path.pathtarget = agg->path.pathtarget;
	path->path.parallel_safe = agg->path.parallel_safe;
	path->path.parallel_workers = agg->path.parallel_workers;
	path->path.rows = agg->path.rows;
	cost_qual_eval(&having, agg->qual, root);
	path->path.startup_cost = agg->subpath->startup_cost + spilling + costs->finalCost.startup + having.startup +
		agg->path.pathtarget->cost.startup;
	path->path.total_cost = path->path.startup_cost + agg->numGroups * (2 * cpu_tuple_cost +
																		costs->finalCost.per_tuple +
																		having.per_tuple) +
		agg->path.rows * agg->path.pathtarget->cost.per_tuple;
#if PG_VERSION_NUM >= 180000
	path->path.disabled_nodes = agg->path.disabled_nodes;
#endif
	path->custom_paths = list_make1(agg);
	path->methods = &path_methods;

	return &path->path;
}

/* The path above Finalize Aggregate over a Gather, which PostgreSQL executes: it only takes the DISTINCT off. */
Path *
vector_finish_gathered_path(AggPath *agg)
{
	CustomPath *path = makeNode(CustomPath);

	path->path = agg->path;
	path->path.type = T_CustomPath;
	path->path.pathtype = T_CustomScan;
	path->custom_paths = list_make1(agg);
	path->methods = &path_methods;

	return &path->path;
}

static Plan *
plan_finish(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path, List *tlist,
			List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	Agg		   *agg = linitial_node(Agg, custom_plans);

	if (IsA(outerPlan(agg), Gather))
		outerPlan(agg)->targetlist = (List *) vector_without_distinct((Node *) outerPlan(agg)->targetlist, NULL);
	else
		/* it is not executed: no memory for its hash table */
		agg->numGroups = 1;
	cscan->scan.plan.targetlist = tlist;
	cscan->custom_scan_tlist = copyObject(agg->plan.targetlist);

	/*
	 * what combines states has no DISTINCT: the scan below sees to it, and
	 * says so in the same words
	 */
	agg->plan.targetlist = (List *) vector_without_distinct((Node *) agg->plan.targetlist, NULL);
	agg->plan.qual = (List *) vector_without_distinct((Node *) agg->plan.qual, NULL);
	cscan->custom_plans = custom_plans;
	cscan->methods = &vector_finish_methods;

	return &cscan->scan.plan;
}

/* ---- execution ---- */

static void
begin_finish(CustomScanState *css, EState *estate, int eflags)
{
	FinishState *state = (FinishState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	state->agg = castNode(AggState, ExecInitNode(linitial(cscan->custom_plans), estate, eflags));
	css->custom_ps = list_make1(state->agg);
	if (IsA(outerPlanState(state->agg), GatherState))
		return;
	state->scan = castNode(CustomScanState, outerPlanState(state->agg));
	state->states = palloc(sizeof(Datum) * Max(state->agg->numtrans, 1));
	state->nulls = palloc(sizeof(bool) * Max(state->agg->numtrans, 1));
	state->columns = palloc(sizeof(int) * Max(state->agg->numtrans, 1));
	for (int i = 0; i < state->agg->numtrans; i++)
	{
		/* a combining Aggref has one argument: the state */
		List	   *args = state->agg->pertrans[i].aggref->args;
		Var		   *column = castNode(Var, linitial_node(TargetEntry, args)->expr);

		Assert(list_length(args) == 1 && column->varno == OUTER_VAR);
		state->columns[i] = column->varattno - 1;
	}
}

/* Make states of a group's columns, as Finalize Aggregate would find them in the end. */
static void
fetch_states(FinishState *state, TupleTableSlot *group)
{
	AggState   *agg = state->agg;

	for (int i = 0; i < agg->numtrans; i++)
	{
		AggStatePerTrans transition = &agg->pertrans[i];
		Datum		value = group->tts_values[state->columns[i]];
		bool		isnull = group->tts_isnull[state->columns[i]];

		if (OidIsValid(transition->deserialfn_oid))
		{
			FunctionCallInfo fcinfo = transition->deserialfn_fcinfo;

			if (!isnull || !transition->deserialfn.fn_strict)
			{
				fcinfo->args[0].value = value;
				fcinfo->args[0].isnull = isnull;
				/* the dummy argument of type internal */
				fcinfo->args[1].value = (Datum) 0;
				fcinfo->args[1].isnull = false;
				fcinfo->isnull = false;
				value = FunctionCallInvoke(fcinfo);
				isnull = fcinfo->isnull;
			}
		}
		state->states[i] = value;
		state->nulls[i] = isnull;
	}
}

/* What finalize_aggregate() does: the result of one aggregate from its state. */
static Datum
final_result(FinishState *state, AggStatePerAgg aggregate, bool *isnull)
{
	AggState   *agg = state->agg;
	AggStatePerTrans transition = &agg->pertrans[aggregate->transno];
	Datum		value = state->states[aggregate->transno];
	Datum		result;

	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);

	*isnull = state->nulls[aggregate->transno];
	value = MakeExpandedObjectReadOnly(value, *isnull, transition->transtypeLen);
	if (!OidIsValid(aggregate->finalfn_oid))
		return value;

	/* arguments after the state, of which there are only dummies, are null */
	if (aggregate->finalfn.fn_strict && (*isnull || aggregate->numFinalArgs > 1))
	{
		*isnull = true;
		return (Datum) 0;
	}
	InitFunctionCallInfoData(*fcinfo, &aggregate->finalfn, aggregate->numFinalArgs,
							 transition->aggCollation, (Node *) agg, NULL);
	fcinfo->args[0].value = value;
	fcinfo->args[0].isnull = *isnull;
	for (int i = 1; i < aggregate->numFinalArgs; i++)
	{
		fcinfo->args[i].value = (Datum) 0;
		fcinfo->args[i].isnull = true;
	}
	agg->curperagg = aggregate;
	result = FunctionCallInvoke(fcinfo);
	agg->curperagg = NULL;
	*isnull = fcinfo->isnull;

	return MakeExpandedObjectReadOnly(result, *isnull, aggregate->resulttypeLen);
}

/* The next group that HAVING lets pass, as the Agg node's output, or NULL. */
static TupleTableSlot *
next_finished(FinishState *state)
{
	AggState   *agg = state->agg;
	ExprContext *econtext = agg->ss.ps.ps_ExprContext;
	TupleTableSlot *group = agg->ss.ss_ScanTupleSlot;

	for (;;)
	{
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		ResetExprContext(econtext);
		old = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);
		ExecClearTuple(group);
		if (!vector_next_group(state->scan, group->tts_values, group->tts_isnull))
		{
			MemoryContextSwitchTo(old);
			return NULL;
		}
		ExecStoreVirtualTuple(group);
		fetch_states(state, group);
		for (int i = 0; i < agg->numaggs; i++)
			econtext->ecxt_aggvalues[i] = final_result(state, &agg->peragg[i],
													   &econtext->ecxt_aggnulls[i]);
		MemoryContextSwitchTo(old);

		econtext->ecxt_outertuple = group;
		if (ExecQual(agg->ss.ps.qual, econtext))
			return ExecProject(agg->ss.ps.ps_ProjInfo);
		InstrCountFiltered1(state, 1);
	}
}

/* What the Agg node would keep its states in. */
static ExprContext *
state_context(FinishState *state)
{
	return state->agg->aggstrategy == AGG_HASHED ? state->agg->hashcontext : state->agg->aggcontexts[0];
}

static TupleTableSlot *
exec_finish(CustomScanState *css)
{
	FinishState *state = (FinishState *) css;
	TupleTableSlot *slot;

	if (state->scan != NULL && !state->begun)
	{
		/* what AggCheckCallContext() and its like look for */
		state->agg->curaggcontext = state_context(state);
		vector_run(state->scan);
		state->begun = true;
	}
	slot = state->scan == NULL ? ExecProcNode(&state->agg->ss.ps) : next_finished(state);
	if (TupIsNull(slot) || css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	css->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	ResetExprContext(css->ss.ps.ps_ExprContext);
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
end_finish(CustomScanState *css)
{
	ExecEndNode(&((FinishState *) css)->agg->ss.ps);
}

static void
rescan_finish(CustomScanState *css)
{
	FinishState *state = (FinishState *) css;
	PlanState  *scan = outerPlanState(state->agg);

	if (css->ss.ps.chgParam != NULL)
		UpdateChangedParamSet(&state->agg->ss.ps, css->ss.ps.chgParam);

	/*
	 * as it was not executed, it does nothing about the scan except telling
	 * it of parameters if it hashes, and else begins that anew
	 */
	ExecReScan(&state->agg->ss.ps);
	if (state->scan == NULL || !state->begun)
		return;
	if (state->agg->aggstrategy != AGG_HASHED)
	{
		if (scan->chgParam != NULL)
			ExecReScan(scan);
		state->begun = false;
		return;
	}
	/* what final functions may have left there */
	ReScanExprContext(state_context(state));
	/* groups are kept where the scan would give the same ones */
	if (scan->chgParam == NULL)
		vector_rewind(state->scan);
	else
		ExecReScan(scan);
	state->begun = false;
}

/* HAVING itself is shown by the Agg node. */
static void
explain_finish(CustomScanState *css, List *ancestors, ExplainState *es)
{
	Instrumentation *instrument = css->ss.ps.instrument;

	if (!es->analyze || instrument == NULL || ((FinishState *) css)->scan == NULL || ((FinishState *) css)->agg->ss.ps.qual == NULL)
		return;
	ExplainPropertyFloat("Rows Removed by Filter", NULL,
						 instrument->nloops > 0 ? instrument->nfiltered1 / instrument->nloops : 0, 0, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "VectorFinish",
	.BeginCustomScan = begin_finish,
	.ExecCustomScan = exec_finish,
	.EndCustomScan = end_finish,
	.ReScanCustomScan = rescan_finish,
	.ExplainCustomScan = explain_finish,
};

static Node *
create_state(CustomScan *cscan)
{
	FinishState *state = palloc0(sizeof(FinishState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}
