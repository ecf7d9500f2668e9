/*-------------------------------------------------------------------------
 *
 * window_aggregate.c
 *	  Aggregates over the frames of a window.
 *
 * As in PostgreSQL's nodeWindowAgg.c, rows are added to a state while the
 * frame's end goes forward. If its beginning does, rows are removed by the
 * aggregate's inverse transition function; without one, or if that fails,
 * the frame is aggregated anew. Integers are counted and summed here, in 128
 * bits, which can always be taken back; everything else is done by
 * PostgreSQL's functions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_agg.h"
#include "parser/parse_coerce.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/syscache.h"

#include "window/window_state.h"

typedef enum AggregateKind
{
	AGGREGATE_COUNT_ROWS,
	AGGREGATE_COUNT,
	AGGREGATE_SUM_SHORT,		/* of smallint and integer, as bigint */
	AGGREGATE_SUM_LONG,			/* of bigint, as numeric */
	AGGREGATE_AVG,				/* of any of these */
	AGGREGATE_OTHER
} AggregateKind;

struct AggregateState
{
	AggregateKind kind;
	WindowFunction *function;
	int16		arg_len;		/* of integers */

	/* what has been aggregated: rows from base on, before upto */
	int64		base;
	int64		upto;

	/* of kinds that are done here */
	int64		count;
	int128		sum;

	/* of the other */
	FmgrInfo	transition;
	FmgrInfo	inverse;		/* fn_oid: InvalidOid if there is none */
	FmgrInfo	final;			/* the same */
	FunctionCallInfo call;		/* for the first two */
	FunctionCallInfo final_call;
	int			final_args;
	Oid			collation;
	Datum		initial;
	bool		initial_null;
	int16		state_len;
	bool		state_byval;
	int16		result_len;
	bool		result_byval;
	Datum		state;
	bool		state_null;
	int64		state_count;	/* rows in it */
	MemoryContext context;		/* of the state and the result */

	Datum		result;
	bool		result_null;
};

/* ---- integers ---- */

static AggregateKind
kind_of(WindowFunc *expr)
{
	if (expr->aggfilter != NULL)
		return AGGREGATE_OTHER;
	switch (expr->winfnoid)
	{
		case F_COUNT_:
			return AGGREGATE_COUNT_ROWS;
		case F_COUNT_ANY:
			return AGGREGATE_COUNT;
		case F_SUM_INT2:
		case F_SUM_INT4:
			return AGGREGATE_SUM_SHORT;
		case F_SUM_INT8:
			return AGGREGATE_SUM_LONG;
		case F_AVG_INT2:
		case F_AVG_INT4:
		case F_AVG_INT8:
			return AGGREGATE_AVG;
		default:
			return AGGREGATE_OTHER;
	}
}

static inline int64
integer_of(Datum value, int len)
{
	switch (len)
	{
		case sizeof(int16):
			return DatumGetInt16(value);
		case sizeof(int32):
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/* Add rows to a count or sum, or take them away with a sign of -1. */
static void
sum_rows(Window *window, AggregateState *state, int64 from, int64 to, int sign)
{
	WindowRows *rows = window->rows;
	WindowArgument *argument = state->function->args;

	if (from >= to)
		return;
	if (state->kind == AGGREGATE_COUNT_ROWS)
	{
		state->count += sign * (to - from);
		return;
	}
	for (int64 row = from; row < to; row++)
	{
		bool		isnull;
		Datum		value;

		if (row % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		if (argument->column >= 0)
		{
			if (row + 8 < to)
				__builtin_prefetch(rows->rows[row + 8]);
			value = row_get(rows->format, rows->rows[row], argument->column, &isnull);
		}
		else
		{
			value = window_argument(rows, argument, row, rows->argument, &isnull);
			ResetExprContext(rows->argument);
		}
		if (isnull)
			continue;
		state->count += sign;
		if (state->kind != AGGREGATE_COUNT)
			state->sum += sign * (int128) integer_of(value, state->arg_len);
	}
}

/* A sum as numeric: as PostgreSQL's from 128 bits. */
static Datum
numeric_of(int128 sum)
{
	int128		high;
	int64		low;

	if (sum == (int64) sum)
		return NumericGetDatum(int64_to_numeric((int64) sum));
	/* of bigint, in less than 2^63 rows: the higher part fits, too */
	high = sum / INT64CONST(1000000000000000000);
	low = (int64) (sum % INT64CONST(1000000000000000000));
	return DirectFunctionCall2(numeric_add,
							   DirectFunctionCall2(numeric_mul, NumericGetDatum(int64_to_numeric((int64) high)),
												   NumericGetDatum(int64_to_numeric(INT64CONST(1000000000000000000)))),
							   NumericGetDatum(int64_to_numeric(low)));
}

static void
integer_result(AggregateState *state)
{
	MemoryContext old = MemoryContextSwitchTo(state->context);

	state->result_null = state->count == 0;
	state->result = (Datum) 0;
	switch (state->kind)
	{
		case AGGREGATE_COUNT_ROWS:
		case AGGREGATE_COUNT:
			state->result = Int64GetDatum(state->count);
			state->result_null = false;
			break;
		case AGGREGATE_SUM_SHORT:
			if (!state->result_null)
				state->result = Int64GetDatum((int64) state->sum);
			break;
		case AGGREGATE_SUM_LONG:
			MemoryContextReset(state->context);
			if (!state->result_null)
				state->result = numeric_of(state->sum);
			break;
		case AGGREGATE_AVG:
			MemoryContextReset(state->context);
			if (!state->result_null)
				state->result = DirectFunctionCall2(numeric_div, numeric_of(state->sum),
													NumericGetDatum(int64_to_numeric(state->count)));
			break;
		case AGGREGATE_OTHER:
			pg_unreachable();
	}
	MemoryContextSwitchTo(old);
}

/* ---- PostgreSQL's functions ---- */

/* initialize_windowaggregate() */
static void
initialize_state(AggregateState *state)
{
	MemoryContextReset(state->context);
	state->state = state->initial;
	if (!state->initial_null)
	{
		MemoryContext old = MemoryContextSwitchTo(state->context);

		state->state = datumCopy(state->initial, state->state_byval, state->state_len);
		MemoryContextSwitchTo(old);
	}
	state->state_null = state->initial_null;
	state->state_count = 0;
	state->result = (Datum) 0;
	state->result_null = true;
}

/* Let a value that a function has returned be the state; the one before is freed. */
static void
replace_state(AggregateState *state, Datum value, bool isnull)
{
	if (!state->state_byval && DatumGetPointer(value) != DatumGetPointer(state->state))
	{
		if (!isnull)
		{
			MemoryContextSwitchTo(state->context);
			if (!(DatumIsReadWriteExpandedObject(value, false, state->state_len) &&
				  MemoryContextGetParent(DatumGetEOHP(value)->eoh_context) == CurrentMemoryContext))
				value = datumCopy(value, state->state_byval, state->state_len);
		}
		if (!state->state_null)
		{
			if (DatumIsReadWriteExpandedObject(state->state, false, state->state_len))
				DeleteExpandedObject(state->state);
			else
				pfree(DatumGetPointer(state->state));
		}
	}
	state->state = value;
	state->state_null = isnull;
}

/* Evaluate a row's arguments into the call; false if the row does not count. */
static bool
fetch_arguments(Window *window, AggregateState *state, int64 row, bool strict)
{
	WindowFunction *function = state->function;
	WindowRows *rows = window->rows;
	bool		any_null = false;

	if (function->filter != NULL && !window_filter(rows, function->filter, row, rows->argument))
		return false;
	for (int i = 0; i < function->nargs; i++)
	{
		NullableDatum *arg = &state->call->args[i + 1];

		arg->value = window_argument(rows, &function->args[i], row, rows->argument, &arg->isnull);
		any_null |= arg->isnull;
	}
	return !(strict && any_null);
}

/* Call a transition function with the arguments that have been evaluated. */
static Datum
call_transition(Window *window, AggregateState *state, FmgrInfo *function, bool *isnull)
{
	FunctionCallInfo call = state->call;
	Datum		value;

	call->flinfo = function;
	call->isnull = false;
	call->args[0].value = state->state;
	call->args[0].isnull = state->state_null;
	window->core->curaggcontext = state->context;
	value = FunctionCallInvoke(call);
	window->core->curaggcontext = NULL;
	*isnull = call->isnull;
	return value;
}

/* advance_windowaggregate() */
static void
add_row(Window *window, AggregateState *state, int64 row)
{
	MemoryContext old = MemoryContextSwitchTo(window->rows->argument->ecxt_per_tuple_memory);
	bool		strict = state->transition.fn_strict;
	Datum		value;
	bool		isnull;

	if (!fetch_arguments(window, state, row, strict))
	{
		MemoryContextSwitchTo(old);
		return;
	}
	if (strict && state->state_count == 0 && state->state_null)
	{
		/* the first value is the state */
		MemoryContextSwitchTo(state->context);
		state->state = datumCopy(state->call->args[1].value, state->state_byval, state->state_len);
		state->state_null = false;
		state->state_count = 1;
		MemoryContextSwitchTo(old);
		return;
	}
	if (strict && state->state_null)
	{
		/* it once returned NULL, and stays so */
		MemoryContextSwitchTo(old);
		return;
	}
	value = call_transition(window, state, &state->transition, &isnull);
	if (isnull && OidIsValid(state->inverse.fn_oid))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("moving-aggregate transition function must not return null")));
	state->state_count++;
	replace_state(state, value, isnull);
	MemoryContextSwitchTo(old);
}

/* advance_windowaggregate_base(): false if the row cannot be taken away. */
static bool
remove_row(Window *window, AggregateState *state, int64 row)
{
	MemoryContext old = MemoryContextSwitchTo(window->rows->argument->ecxt_per_tuple_memory);
	Datum		value;
	bool		isnull;

	if (!fetch_arguments(window, state, row, state->inverse.fn_strict))
	{
		MemoryContextSwitchTo(old);
		return true;
	}
	Assert(state->state_count > 0);
	if (state->state_null)
		elog(ERROR, "aggregate transition value is NULL before inverse transition");
	if (state->state_count == 1)
	{
		/* without rows it is what it began with */
		MemoryContextSwitchTo(old);
		initialize_state(state);
		return true;
	}
	value = call_transition(window, state, &state->inverse, &isnull);
	if (isnull)
	{
		MemoryContextSwitchTo(old);
		return false;
	}
	state->state_count--;
	replace_state(state, value, isnull);
	MemoryContextSwitchTo(old);
	return true;
}

/* Free the result of the frame before. */
static void
free_result(AggregateState *state)
{
	if (!state->result_null && !state->result_byval)
		pfree(DatumGetPointer(state->result));
	state->result = (Datum) 0;
	state->result_null = true;
}

/* finalize_windowaggregate(): the result, kept for rows of the same frame. */
static void
other_result(Window *window, AggregateState *state)
{
	MemoryContext old = MemoryContextSwitchTo(window->rows->output->ecxt_per_tuple_memory);
	Datum		value = MakeExpandedObjectReadOnly(state->state, state->state_null, state->state_len);
	bool		isnull = state->state_null;

	free_result(state);
	if (OidIsValid(state->final.fn_oid))
	{
		FunctionCallInfo call = state->final_call;

		if (state->final.fn_strict && (isnull || state->final_args > 1))
		{
			value = (Datum) 0;
			isnull = true;
		}
		else
		{
			call->args[0].value = value;
			call->args[0].isnull = isnull;
			for (int i = 1; i < state->final_args; i++)
			{
				call->args[i].value = (Datum) 0;
				call->args[i].isnull = true;
			}
			call->isnull = false;
			window->core->curaggcontext = state->context;
			value = FunctionCallInvoke(call);
			window->core->curaggcontext = NULL;
			isnull = call->isnull;
			value = MakeExpandedObjectReadOnly(value, isnull, state->result_len);
		}
	}
	if (!state->result_byval && !isnull)
	{
		MemoryContextSwitchTo(state->context);
		value = datumCopy(value, state->result_byval, state->result_len);
	}
	state->result = value;
	state->result_null = isnull;
	MemoryContextSwitchTo(old);
}

/* ---- frames ---- */

/* Take away rows that the frame no longer has; false if it has to be aggregated anew. */
static bool
remove_rows(Window *window, AggregateState *state, int64 head)
{
	if (state->kind != AGGREGATE_OTHER)
	{
		sum_rows(window, state, state->base, head, -1);
		return true;
	}
	if (state->base < head && !OidIsValid(state->inverse.fn_oid))
		return false;
	for (int64 row = state->base; row < head; row++)
	{
		bool		removed = remove_row(window, state, row);

		ResetExprContext(window->rows->argument);
		if (!removed)
			return false;
	}
	return true;
}

static void
restart(AggregateState *state, int64 head)
{
	state->upto = head;
	state->count = 0;
	state->sum = 0;
	if (state->kind == AGGREGATE_OTHER)
		initialize_state(state);
}

static void
add_rows(Window *window, AggregateState *state, int64 tail)
{
	if (state->kind != AGGREGATE_OTHER)
	{
		sum_rows(window, state, state->upto, tail, 1);
		return;
	}
	for (int64 row = state->upto; row < tail; row++)
	{
		if (row % 1024 == 0)
			CHECK_FOR_INTERRUPTS();
		if (row + 8 < tail)
			__builtin_prefetch(window->rows->rows[row + 8]);
		add_row(window, state, row);
		ResetExprContext(window->rows->argument);
	}
}

/* The result of an aggregate for the current row: eval_windowaggregates(). */
static void
aggregate_result(Window *window, WindowFunction *function, Datum *value, bool *isnull)
{
	AggregateState *state = function->aggregate;
	int64		head = window_head(window);
	int64		tail = window_tail(window);

	if (!function->begun || head != state->base || tail > state->upto)
	{
		if (!function->begun || state->upto <= head || !remove_rows(window, state, head))
			restart(state, head);
		state->base = head;
		if (tail > state->upto)
		{
			add_rows(window, state, tail);
			state->upto = tail;
		}
		function->begun = true;
		if (state->kind == AGGREGATE_OTHER)
			other_result(window, state);
		else
			integer_result(state);
	}
	*value = state->result;
	*isnull = state->result_null;
}

/* ---- compilation ---- */

/* Are rows taken away from the state? initialize_peragg() */
static bool
uses_inverse(Form_pg_aggregate aggregate, int options, WindowFunc *expr)
{
	if (!OidIsValid(aggregate->aggminvtransfn))
		return false;
	if (aggregate->aggmfinalmodify == AGGMODIFY_READ_ONLY && aggregate->aggfinalmodify != AGGMODIFY_READ_ONLY)
		return true;
	return (options & FRAMEOPTION_START_UNBOUNDED_PRECEDING) == 0 &&
		!contain_volatile_functions((Node *) expr) && !contain_subplans((Node *) expr);
}

static Datum
initial_value(HeapTuple tuple, AttrNumber attno, Oid type, bool *isnull)
{
	Datum		value = SysCacheGetAttr(AGGFNOID, tuple, attno, isnull);
	Oid			input;
	Oid			param;

	if (*isnull)
		return (Datum) 0;
	getTypeInputInfo(type, &input, &param);
	return OidInputFunctionCall(input, TextDatumGetCString(value), param, -1);
}

/* Prepare the functions of an aggregate. PostgreSQL's node has checked whether they may be called. */
static void
init_functions(Window *window, AggregateState *state, WindowFunc *expr)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(expr->winfnoid));
	Form_pg_aggregate aggregate;
	Oid			types[FUNC_MAX_ARGS];
	int			nargs = list_length(expr->args);
	bool		inverse;
	Oid			transition_oid;
	Oid			inverse_oid;
	Oid			final_oid;
	Oid			state_type;
	Expr	   *transition_expr;
	Expr	   *inverse_expr;
	Expr	   *final_expr;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", expr->winfnoid);
	aggregate = (Form_pg_aggregate) GETSTRUCT(tuple);
	Assert(nargs < FUNC_MAX_ARGS);
	for (int i = 0; i < nargs; i++)
		types[i] = exprType(list_nth(expr->args, i));
	inverse = uses_inverse(aggregate, window->options, expr);
	transition_oid = inverse ? aggregate->aggmtransfn : aggregate->aggtransfn;
	inverse_oid = inverse ? aggregate->aggminvtransfn : InvalidOid;
	final_oid = inverse ? aggregate->aggmfinalfn : aggregate->aggfinalfn;
	state->final_args = (inverse ? aggregate->aggmfinalextra : aggregate->aggfinalextra) ? nargs + 1 : 1;
	state_type = resolve_aggregate_transtype(expr->winfnoid,
											 inverse ? aggregate->aggmtranstype : aggregate->aggtranstype, types, nargs);
	build_aggregate_transfn_expr(types, nargs, 0, false, state_type, expr->inputcollid, transition_oid, inverse_oid,
								 &transition_expr, &inverse_expr);
	fmgr_info(transition_oid, &state->transition);
	fmgr_info_set_expr((Node *) transition_expr, &state->transition);
	if (OidIsValid(inverse_oid))
	{
		fmgr_info(inverse_oid, &state->inverse);
		fmgr_info_set_expr((Node *) inverse_expr, &state->inverse);
	}
	if (OidIsValid(final_oid))
	{
		build_aggregate_finalfn_expr(types, state->final_args, state_type, expr->wintype, expr->inputcollid, final_oid,
									 &final_expr);
		fmgr_info(final_oid, &state->final);
		fmgr_info_set_expr((Node *) final_expr, &state->final);
	}
	get_typlenbyval(expr->wintype, &state->result_len, &state->result_byval);
	get_typlenbyval(state_type, &state->state_len, &state->state_byval);
	state->initial = initial_value(tuple, inverse ? Anum_pg_aggregate_aggminitval : Anum_pg_aggregate_agginitval,
								   state_type, &state->initial_null);
	ReleaseSysCache(tuple);

	state->call = palloc(SizeForFunctionCallInfo(nargs + 1));
	InitFunctionCallInfoData(*state->call, &state->transition, nargs + 1, expr->inputcollid, (Node *) window->core, NULL);
	state->final_call = palloc(SizeForFunctionCallInfo(state->final_args));
	InitFunctionCallInfoData(*state->final_call, &state->final, state->final_args, expr->inputcollid,
							 (Node *) window->core, NULL);
}

/* Have an aggregate's results computed here, in the current context; `parent` is that of its own. */
void
window_init_aggregate(Window *window, WindowFunction *function, WindowFunc *expr, MemoryContext parent)
{
	AggregateState *state = palloc0(sizeof(AggregateState));

	state->kind = kind_of(expr);
	state->function = function;
	state->context = AllocSetContextCreate(parent, "pgbillion window aggregate", ALLOCSET_DEFAULT_SIZES);
	state->result_null = true;
	if (state->kind == AGGREGATE_OTHER)
		init_functions(window, state, expr);
	else if (expr->args != NIL)
		state->arg_len = get_typlen(exprType(linitial(expr->args)));
	function->aggregate = state;
	function->result = aggregate_result;
}
