/*-------------------------------------------------------------------------
 *
 * finalize.c
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
 * In a parallel plan, processes exchange their groups before (group/exchange.c), and
 * each finishes those that it has then. Without workers it is as in a serial
 * plan.
 *
 * Where processes share the values of an aggregate with DISTINCT (group/regroup.c),
 * PostgreSQL finishes groups above a Gather; then this node is there only so
 * that the planner sees the aggregate with DISTINCT above, and without below.
 *
 * PostgreSQL finishes grouping sets, too. Below, rows are grouped by the keys of all
 * sets together.
 *
 * plan/finalize_path.c says when the results are the same.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "executor/instrument.h"
#include "executor/nodeAgg.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/plannodes.h"
#include "utils/expandeddatum.h"
#include "utils/ruleutils.h"

#include "compat.h"
#include "vector/node/custom_scan.h"
#include "vector/node/top_groups.h"

typedef struct FinalizeState
{
	CustomScanState css;
	AggState   *agg;			/* Finalize Aggregate */
	CustomScanState *scan;		/* VectorAggregate below it; NULL: PostgreSQL
								 * finishes groups */
	bool		begun;			/* have groups been asked for since the last
								 * rescan? */
	Datum	   *states;			/* of each transition of a group, */
	bool	   *nulls;
	int		   *columns;		/* found in that column of the scan */
	GroupChoice *top;			/* groups among the first of an order, or NULL */
} FinalizeState;

static Node *create_state(CustomScan *cscan);

const CustomScanMethods vector_finalize_methods = {
	.CustomName = "VectorFinalize",
	.CreateCustomScanState = create_state,
};

/* Have groups left out that cannot be among the first of an order. */
static void
begin_top(FinalizeState *state, CustomScan *cscan)
{
	TopGroupsOrder order = top_groups_of_list(cscan->custom_private);

	state->top = top_groups_create(&order);
	vector_choose_groups(state->scan, state->top);
}

static void
begin_finalize(CustomScanState *css, EState *estate, int eflags)
{
	FinalizeState *state = (FinalizeState *) css;
	CustomScan *cscan = (CustomScan *) css->ss.ps.plan;

	state->agg = castNode(AggState, ExecInitNode(linitial(cscan->custom_plans), estate, eflags));
	css->custom_ps = list_make1(state->agg);
	if (IsA(outerPlanState(state->agg), GatherState) || castNode(Agg, state->agg->ss.ps.plan)->groupingSets != NIL)
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
	if (cscan->custom_private != NIL)
		begin_top(state, cscan);
}

/* Make states of a group's columns, as Finalize Aggregate would find them in the end. */
static void
fetch_states(FinalizeState *state, TupleTableSlot *group)
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
final_result(FinalizeState *state, AggStatePerAgg aggregate, bool *isnull)
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
next_finalized(FinalizeState *state)
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
state_context(FinalizeState *state)
{
	return state->agg->aggstrategy == AGG_HASHED ? state->agg->hashcontext : state->agg->aggcontexts[0];
}

static TupleTableSlot *
exec_finalize(CustomScanState *css)
{
	FinalizeState *state = (FinalizeState *) css;
	TupleTableSlot *slot;

	if (state->scan != NULL && !state->begun)
	{
		/* what AggCheckCallContext() and its like look for */
		state->agg->curaggcontext = state_context(state);
		vector_run(state->scan);
		state->begun = true;
		if (state->top != NULL)
			top_groups_reset(state->top);
	}
	slot = state->scan == NULL ? ExecProcNode(&state->agg->ss.ps) : next_finalized(state);
	if (TupIsNull(slot) || css->ss.ps.ps_ProjInfo == NULL)
		return slot;
	css->ss.ps.ps_ExprContext->ecxt_scantuple = slot;
	ResetExprContext(css->ss.ps.ps_ExprContext);
	return ExecProject(css->ss.ps.ps_ProjInfo);
}

static void
end_finalize(CustomScanState *css)
{
	ExecEndNode(&((FinalizeState *) css)->agg->ss.ps);
}

static void
rescan_finalize(CustomScanState *css)
{
	FinalizeState *state = (FinalizeState *) css;
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

/* By what only the first groups are wanted, and how many. */
static void
explain_top(CustomScan *cscan, List *ancestors, ExplainState *es)
{
	List	   *context = set_deparse_context_plan(es->deparse_cxt, (Plan *) cscan, ancestors);
	TopGroupsOrder order = top_groups_of_list(cscan->custom_private);
	List	   *keys = NIL;
	StringInfoData text;

	initStringInfo(&text);
	for (int k = 0; k < order.nkeys; k++)
	{
		TargetEntry *entry = list_nth_node(TargetEntry, cscan->custom_scan_tlist, order.keys[k].attno - 1);
		char	   *key = deparse_expression((Node *) makeVarFromTargetEntry(INDEX_VAR, entry), context, es->verbose, false);

		keys = lappend(keys, key);
		appendStringInfo(&text, "%s%s", k > 0 ? ", " : "", key);
	}
	if (es->format == EXPLAIN_FORMAT_TEXT)
		ExplainPropertyText("Top Rows", psprintf(INT64_FORMAT " by %s", order.n, text.data), es);
	else
	{
		ExplainPropertyInteger("Top Rows", NULL, order.n, es);
		ExplainPropertyList("Top Rows Key", keys, es);
	}
}

/* HAVING itself is shown by the Agg node. */
static void
explain_finalize(CustomScanState *css, List *ancestors, ExplainState *es)
{
	NodeInstrumentation *instrument = css->ss.ps.instrument;

	if (((CustomScan *) css->ss.ps.plan)->custom_private != NIL)
		explain_top((CustomScan *) css->ss.ps.plan, ancestors, es);
	if (!es->analyze || instrument == NULL || ((FinalizeState *) css)->scan == NULL || ((FinalizeState *) css)->agg->ss.ps.qual == NULL)
		return;
	ExplainPropertyFloat("Rows Removed by Filter", NULL,
						 instrument->nloops > 0 ? instrument->nfiltered1 / instrument->nloops : 0, 0, es);
}

static const CustomExecMethods exec_methods = {
	.CustomName = "VectorFinalize",
	.BeginCustomScan = begin_finalize,
	.ExecCustomScan = exec_finalize,
	.EndCustomScan = end_finalize,
	.ReScanCustomScan = rescan_finalize,
	.ExplainCustomScan = explain_finalize,
};

static Node *
create_state(CustomScan *cscan)
{
	FinalizeState *state = palloc0(sizeof(FinalizeState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}
