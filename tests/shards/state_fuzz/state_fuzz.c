/*-------------------------------------------------------------------------
 *
 * state_fuzz.c
 *	  Mutates states of an aggregate and gives core those that the validator
 *	  accepts.
 *
 * The validator sees the state in memory of its very size, from malloc(), so
 * that an address sanitizer notices when it reads beyond. What it accepts is
 * deserialised, combined with nothing, with a valid state and with itself,
 * finished, and written as text. Nothing of that may fail but by an error that
 * an honest state can raise as well.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

/* which asks the other */
#include "planner/aggregates.c"
#include "shard/validate_state.c"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(state_fuzz);

typedef struct Fuzz
{
	ShardStateFormat format;
	Oid			type;			/* of the transition value */
	FmgrInfo	receive;		/* of an array that is one */
	Oid			receive_param;
	FmgrInfo	deserialize;
	FmgrInfo	combine;
	FmgrInfo	final;
	FmgrInfo	output;
	WindowAggState *context;	/* what aggregates' functions look for their memory in */
	pg_prng_state random;
	char	  **seeds;
	int		   *sizes;
	int			nseeds;
} Fuzz;

/* results of one run */
typedef enum Outcome
{
	REFUSED,
	RAISED,						/* accepted, and then an error that users may see */
	FINISHED
} Outcome;

static Datum
call(Fuzz *fuzz, FmgrInfo *function, int nargs, Datum first, bool first_null, Datum second, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	Datum		result;

	if (first_null && function->fn_strict)
	{
		*isnull = true;
		return (Datum) 0;
	}
	InitFunctionCallInfoData(*fcinfo, function, nargs, DEFAULT_COLLATION_OID, (Node *) fuzz->context, NULL);
	for (int i = 0; i < nargs; i++)
	{
		fcinfo->args[i].value = i == 0 ? first : i == 1 ? second : (Datum) 0;
		fcinfo->args[i].isnull = i == 0 ? first_null : i > 1 || second == (Datum) 0;
	}
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

static uint64
below(Fuzz *fuzz, uint64 limit)
{
	return limit == 0 ? 0 : pg_prng_uint64_range(&fuzz->random, 0, limit - 1);
}

/* Put a number there, in some width and byte order; mostly one that is about to go wrong. */
static void
put_number(Fuzz *fuzz, StringInfo state, int at)
{
	static const int64 special[] = {0, 1, -1, 2, 6, 7, 255, 256, 1023, 1024, 9999, 10000, -10000, 0x7FFF, 0x8000, 0x4000, 0xC000,
		0xD000, 0xF000, 32767, 65535, 65600, 65601, -8200, -8201, PG_INT32_MAX, PG_INT32_MIN, PG_INT32_MAX - 1,
		PG_INT64_MAX, PG_INT64_MIN, INT64CONST(1) << 40, INT64CONST(1) << 56, 17, 20, 23, 25, 1007, 1009, 1700, 0x3FFFFFFF, 0x10000000};
	static const int widths[] = {1, 2, 4, 8};
	int			width = widths[below(fuzz, lengthof(widths))];
	int64		number = special[below(fuzz, lengthof(special))];

	if (below(fuzz, 4) == 0)
		number = state->len + (int64) below(fuzz, 32) - 16;
	if (below(fuzz, 8) == 0)
		number = (int64) pg_prng_uint64(&fuzz->random);
	if (below(fuzz, 4) == 0)
		number = -number;
	for (int i = 0; i < width && at + i < state->len; i++)
		state->data[at + i] = (char) (number >> (8 * (width - 1 - i)));
	if (below(fuzz, 4) == 0)
		for (int i = 0; i < width && at + i < state->len; i++)
			state->data[at + i] = (char) (number >> (8 * i));
}

static void
mutate(Fuzz *fuzz, StringInfo state)
{
	int			at = (int) below(fuzz, state->len);
	int			size;

	switch (below(fuzz, 9))
	{
		case 0:
			if (state->len > 0)
				state->data[at] ^= 1 << below(fuzz, 8);
			break;
		case 1:
			if (state->len > 0)
				state->data[at] = (char) below(fuzz, 256);
			break;
		case 2:
		case 3:
			put_number(fuzz, state, at);
			break;
		case 4:
			/* fields are at multiples of their width, but for one byte or two */
			put_number(fuzz, state, at & ~3);
			break;
		case 5:
			state->len = at;
			break;
		case 6:
			/* more bytes in the middle */
			size = 1 + (int) below(fuzz, 16);
			enlargeStringInfo(state, size);
			memmove(state->data + at + size, state->data + at, state->len - at);
			for (int i = 0; i < size; i++)
				state->data[at + i] = below(fuzz, 2) ? 0 : (char) below(fuzz, 256);
			state->len += size;
			break;
		case 7:
			/* fewer */
			size = (int) below(fuzz, Min(16, state->len - at) + 1);
			memmove(state->data + at, state->data + at + size, state->len - at - size);
			state->len -= size;
			break;
		case 8:
			/* the end of another */
			size = (int) below(fuzz, fuzz->nseeds);
			state->len = at;
			at = (int) Min(at, fuzz->sizes[size]);
			appendBinaryStringInfo(state, fuzz->seeds[size] + at, fuzz->sizes[size] - at);
			break;
	}
}

/* A state as core has it, of bytes that must be valid; in the current memory context. Sets *problem if they are not. */
static Datum
make_state(Fuzz *fuzz, char *data, int size, const char **problem)
{
	bool		isnull;
	bytea	   *bytes;

	if (fuzz->format.kind == STATE_ARRAY_VALUE)
	{
		StringInfoData buf;
		Datum		array;

		initStringInfo(&buf);
		appendBinaryStringInfo(&buf, data, size);
		array = ReceiveFunctionCall(&fuzz->receive, &buf, fuzz->receive_param, -1);
		*problem = buf.cursor != buf.len ? "too long" : shard_state_problem(&fuzz->format, array);
		return array;
	}
	*problem = shard_state_bytes_problem(&fuzz->format, data, size);
	if (*problem != NULL)
		return (Datum) 0;
	bytes = palloc(VARHDRSZ + size);
	SET_VARSIZE(bytes, VARHDRSZ + size);
	memcpy(VARDATA(bytes), data, size);
	return call(fuzz, &fuzz->deserialize, 2, PointerGetDatum(bytes), false, (Datum) 0, &isnull);
}

static void
finish(Fuzz *fuzz, Datum state)
{
	bool		isnull;
	Datum		result = call(fuzz, &fuzz->final, fuzz->final.fn_nargs, state, false, (Datum) 0, &isnull);

	if (!isnull)
		pfree(OutputFunctionCall(&fuzz->output, result));
}

/* Does with a state what Finalize Aggregate does. */
static bool
use(Fuzz *fuzz, char *data, int size)
{
	int			other = (int) below(fuzz, fuzz->nseeds);
	const char *problem;
	bool		isnull;
	Datum		state = make_state(fuzz, data, size, &problem);
	Datum		sum;

	if (problem != NULL)
		return false;
	if (fuzz->format.kind == STATE_ARRAY_VALUE)
		sum = state;
	else
	{
		sum = call(fuzz, &fuzz->combine, 2, (Datum) 0, true, state, &isnull);
		finish(fuzz, sum);
	}
	sum = call(fuzz, &fuzz->combine, 2, sum, false, make_state(fuzz, fuzz->seeds[other], fuzz->sizes[other], &problem), &isnull);
	sum = call(fuzz, &fuzz->combine, 2, sum, false, make_state(fuzz, data, size, &problem), &isnull);
	finish(fuzz, sum);
	return true;
}

static Outcome
run(Fuzz *fuzz, const char *data, int size)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	char	   *exact = malloc(Max(size, 1));
	volatile Outcome outcome = RAISED;

	if (exact == NULL)
		elog(ERROR, "out of memory");
	memcpy(exact, data, size);
	PG_TRY();
	{
		outcome = use(fuzz, exact, size) ? FINISHED : REFUSED;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		FlushErrorState();
		free(exact);
		exact = NULL;
		/*
		 * A cancelled test, or one that says that something is wrong with
		 * core; but some types' receive functions report bad input like that.
		 */
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
			(error->sqlerrcode == ERRCODE_INTERNAL_ERROR &&
			 (fuzz->format.kind != STATE_ARRAY || fuzz->format.typbyval)))
		{
			StringInfoData hex;

			initStringInfo(&hex);
			for (int i = 0; i < Min(size, 2000); i++)
				appendStringInfo(&hex, "%02x", (unsigned char) data[i]);
			ereport(ERROR,
					(errcode(error->sqlerrcode),
					 errmsg("%s", error->message),
					 errdetail("State: %s", hex.data)));
		}
	}
	PG_END_TRY();
	free(exact);
	MemoryContextSwitchTo(oldcontext);
	return outcome;
}

static void
look_up(Fuzz *fuzz, Oid aggregate, Oid argument, Oid result)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggregate));
	Form_pg_aggregate agg;
	Aggref	   *aggref = makeNode(Aggref);
	Oid			function;
	bool		isvarlena;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "%u is not an aggregate", aggregate);
	agg = (Form_pg_aggregate) GETSTRUCT(tuple);
	aggref->aggfnoid = aggregate;
	aggref->aggargtypes = list_make1_oid(argument);
	if (!shard_find_state_format(aggref, &fuzz->format) || fuzz->format.kind == STATE_VALUE)
		elog(ERROR, "the states of aggregate %u have no format", aggregate);
	fuzz->type = agg->aggtranstype;
	fmgr_info(agg->aggcombinefn, &fuzz->combine);
	fmgr_info(agg->aggfinalfn, &fuzz->final);
	if (fuzz->format.kind == STATE_ARRAY_VALUE)
	{
		getTypeBinaryInputInfo(fuzz->type, &function, &fuzz->receive_param);
		fmgr_info(function, &fuzz->receive);
	}
	else
		fmgr_info(agg->aggdeserialfn, &fuzz->deserialize);
	getTypeOutputInfo(result, &function, &isvarlena);
	fmgr_info(function, &fuzz->output);
	ReleaseSysCache(tuple);
}

/*
 * state_fuzz(aggregate regprocedure, argument regtype, result regtype,
 *			  states bytea[], seed bigint, runs bigint) returns bigint[]
 *		How many mutations of these states were refused, raised an error after
 *		they had been accepted, and had a result. The states themselves must be
 *		accepted.
 */
Datum
state_fuzz(PG_FUNCTION_ARGS)
{
	Fuzz		fuzz = {0};
	int64		runs = PG_GETARG_INT64(5);
	int64		counts[3] = {0};
	Datum		numbers[3];
	Datum	   *states;
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "state_fuzz", ALLOCSET_DEFAULT_SIZES);

	look_up(&fuzz, PG_GETARG_OID(0), PG_GETARG_OID(1), PG_GETARG_OID(2));
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(3), BYTEAOID, -1, false, TYPALIGN_INT, &states, NULL, &fuzz.nseeds);
	pg_prng_seed(&fuzz.random, (uint64) PG_GETARG_INT64(4));
	fuzz.seeds = palloc(sizeof(char *) * fuzz.nseeds);
	fuzz.sizes = palloc(sizeof(int) * fuzz.nseeds);
	for (int i = 0; i < fuzz.nseeds; i++)
	{
		bytea	   *state = DatumGetByteaPP(states[i]);

		fuzz.seeds[i] = VARDATA_ANY(state);
		fuzz.sizes[i] = VARSIZE_ANY_EXHDR(state);
	}
	fuzz.context = makeNode(WindowAggState);
	fuzz.context->curaggcontext = memory;

	for (int i = 0; i < fuzz.nseeds; i++)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(memory);

		if (run(&fuzz, fuzz.seeds[i], fuzz.sizes[i]) == REFUSED)
			elog(ERROR, "valid state %d was refused", i + 1);
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(memory);
	}
	for (int64 i = 0; i < runs; i++)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(memory);
		StringInfoData state;
		int			from = (int) below(&fuzz, fuzz.nseeds);
		int			n = 1 + (int) below(&fuzz, 3);

		initStringInfo(&state);
		appendBinaryStringInfo(&state, fuzz.seeds[from], fuzz.sizes[from]);
		while (n-- > 0)
			mutate(&fuzz, &state);
		counts[run(&fuzz, state.data, state.len)]++;
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(memory);
		CHECK_FOR_INTERRUPTS();
	}

	for (int i = 0; i < lengthof(numbers); i++)
		numbers[i] = Int64GetDatum(counts[i]);
	PG_RETURN_ARRAYTYPE_P(construct_array(numbers, lengthof(numbers), INT8OID, sizeof(int64), true, TYPALIGN_DOUBLE));
}
