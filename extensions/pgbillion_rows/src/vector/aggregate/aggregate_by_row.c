/*-------------------------------------------------------------------------
 *
 * aggregate_by_row.c
 *	  Aggregates that PostgreSQL's transition functions advance, row by row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "parser/parse_agg.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "vector/aggregate/aggregate.h"

typedef struct RowState
{
	Datum		value;
	bool		isnull;
	bool		unset;			/* strict: the first input becomes the state */
} RowState;

typedef struct RowFunctions
{
	FmgrInfo	transfn;
	FmgrInfo	serialfn;
	FunctionCallInfo transcall;
	FunctionCallInfo serialcall;	/* or NULL */
	AggState   *aggstate;		/* what PostgreSQL's functions take for their
								 * executor node */
	MemoryContext row_context;	/* of what they leave behind, such as
								 * detoasted values */
	bool		byval;
	int16		len;
} RowFunctions;

static void
prepare(VectorAgg *agg, Aggref *aggref, HeapTuple tuple)
{
	RowFunctions *own = palloc0(sizeof(RowFunctions));
	Form_pg_aggregate form = (Form_pg_aggregate) GETSTRUCT(tuple);
	Oid			types[FUNC_MAX_ARGS];
	int			nargs = get_aggregate_argtypes(aggref, types);
	Oid			transtype = aggref->aggtranstype;
	Expr	   *expr;
	Datum		initial;
	bool		initial_null;

	agg->own = own;
	build_aggregate_transfn_expr(types, nargs, 0, false, transtype, aggref->inputcollid,
								 form->aggtransfn, InvalidOid, &expr, NULL);
	fmgr_info(form->aggtransfn, &own->transfn);
	fmgr_info_set_expr((Node *) expr, &own->transfn);
	get_typlenbyval(transtype, &own->len, &own->byval);
	initial = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval, &initial_null);
	/* none of the functions below has one */
	if (!initial_null)
		elog(ERROR, "unexpected initial value \"%s\"", TextDatumGetCString(initial));

	own->row_context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion transition",
											 ALLOCSET_SMALL_SIZES);
	own->aggstate = makeNode(AggState);
	own->aggstate->curaggcontext = palloc0(sizeof(ExprContext));
	own->aggstate->curaggcontext->type = T_ExprContext;
	own->transcall = palloc0(SizeForFunctionCallInfo(2));
	InitFunctionCallInfoData(*own->transcall, &own->transfn, nargs + 1, aggref->inputcollid,
							 (Node *) own->aggstate, NULL);
	if (DO_AGGSPLIT_SERIALIZE(aggref->aggsplit) && transtype == INTERNALOID)
	{
		build_aggregate_serialfn_expr(form->aggserialfn, &expr);
		fmgr_info(form->aggserialfn, &own->serialfn);
		fmgr_info_set_expr((Node *) expr, &own->serialfn);
		own->serialcall = palloc0(SizeForFunctionCallInfo(1));
		InitFunctionCallInfoData(*own->serialcall, &own->serialfn, 1, InvalidOid,
								 (Node *) own->aggstate, NULL);
	}
}

static void
init(void *state)
{
	RowState   *s = state;

	s->isnull = true;
	s->unset = true;
}

/* advance_transition_function() of nodeAgg.c */
static void
advance_row(RowFunctions *own, RowState *state, MemoryContext context, Datum value, bool isnull)
{
	FunctionCallInfo fcinfo = own->transcall;
	MemoryContext old;
	Datum		result;

	if (own->transfn.fn_strict)
	{
		if (isnull)
			return;
		if (state->unset)
		{
			old = MemoryContextSwitchTo(context);
			state->value = datumCopy(value, own->byval, own->len);
			MemoryContextSwitchTo(old);
			state->isnull = false;
			state->unset = false;
			return;
		}
		if (state->isnull)
			return;
	}

	own->aggstate->curaggcontext->ecxt_per_tuple_memory = context;
	old = MemoryContextSwitchTo(own->row_context);
	fcinfo->args[0].value = state->value;
	fcinfo->args[0].isnull = state->isnull;
	fcinfo->args[1].value = value;
	fcinfo->args[1].isnull = isnull;
	fcinfo->isnull = false;
	result = FunctionCallInvoke(fcinfo);
	if (!own->byval && DatumGetPointer(result) != DatumGetPointer(state->value))
	{
		if (!fcinfo->isnull)
		{
			MemoryContextSwitchTo(context);
			result = datumCopy(result, own->byval, own->len);
		}
		if (!state->isnull)
			pfree(DatumGetPointer(state->value));
	}
	state->value = result;
	state->isnull = fcinfo->isnull;
	state->unset = false;
	MemoryContextSwitchTo(old);
	MemoryContextReset(own->row_context);
}

static void
advance_rows(VectorAgg *agg, const Values *argument, int n, RowGroups *groups)
{
	char	  **entries = groups->single != NULL ? NULL : group_entries(groups, n);

	for (int i = 0; i < n; i++)
	{
		char	   *entry = entries == NULL ? groups->single : entries[i];

		advance_row(agg->own, (RowState *) (entry + agg->offset), agg_context(agg, entry),
					argument->values[i], argument->nulls[i]);
	}
}

static Datum
output(const VectorAgg *agg, const void *state, bool *isnull)
{
	const RowState *s = state;
	RowFunctions *own = agg->own;

	*isnull = s->isnull;
	if (own->serialcall == NULL || (own->serialfn.fn_strict && s->isnull))
		return s->value;
	own->serialcall->args[0].value = s->value;
	own->serialcall->args[0].isnull = s->isnull;
	own->serialcall->isnull = false;
	return FunctionCallInvoke(own->serialcall);
}

/*
 * Functions of PostgreSQL that are known to ask nothing of the executor node
 * except its memory context.
 */
const AggKind by_row_kinds[] = {
	{
		.transitions = {
			F_INT8_ACCUM, F_NUMERIC_ACCUM,
			F_BPCHAR_LARGER, F_BPCHAR_SMALLER
		},
		.state_size = sizeof(RowState),
		.by_row = true,
		.prepare = prepare,
		.init = init,
		.advance = advance_rows,
		.output = output,
	},
	{{InvalidOid}}
};
