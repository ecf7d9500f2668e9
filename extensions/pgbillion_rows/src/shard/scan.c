/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Runs an aggregate scan.
 *
 * Whether postgres_fdw's executor runs it on its connection (see shard.h) is
 * decided for all scans of a statement and shard when the first of them is
 * asked for a row: by then all other parts of the plan have begun, and it is
 * known which of them use that connection. The node's routine and state are
 * then postgres_fdw's, except that we look at the rows.
 *
 * Either way, nothing that a shard sends is taken for what it should be: states
 * are checked by validate_state.c, all other values by the receive or input functions
 * of their types, and text also for its encoding.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/execAsync.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "foreign/foreign.h"
#include "libpq/pqformat.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "planner/aggregates.h"
#include "compat.h"
#include "shard/connection.h"
#include "shard/shard.h"
#include "shard/validate.h"
#include "shard/verify_functions.h"

typedef struct ShardScan
{
	ForeignScanState *node;
	ShardGroup *group;
	ShardConnection *connection;	/* from the first request to the last row */
	AsyncRequest *areq;			/* when an Append waits for us */
	int			eflags;
	const char *sql;
	int			states;			/* SHARD_STATE_… in the columns */
	const char *verification;	/* of our functions in the SQL, empty if there
								 * are none */
	bool		sent;
	bool		eof;

	/* parameters of the query */
	FmgrInfo   *param_output;
	List	   *param_exprs;

	/* columns; binary when all of their types are built in */
	bool		binary;
	FmgrInfo   *input;
	Oid		   *input_param;
	int		   *kinds;			/* of the states in each column:
								 * shard_state_kinds() */
	ShardStateFormat *formats;
	char	  **aggregates;		/* names, for messages; NULL for what is none */
	int			row;			/* next one of the result */
	MemoryContext row_context;	/* values of the current row */

	/* for EXPLAIN ANALYZE */
	instr_time	begun;
	double		milliseconds;
	uint64		nrows;
	uint64		nbytes;
} ShardScan;

/* The routine of a node that has become postgres_fdw's. */
typedef struct CheckedRoutine
{
	FdwRoutine	routine;
	ShardScan  *scan;
} CheckedRoutine;

bool
shard_is_aggregate_scan(ForeignScanState *node)
{
	return list_length(((ForeignScan *) node->ss.ps.plan)->fdw_private) > ShardScanStates;
}

/* Values of these types mean the same in every database, and can be sent in binary. */
static bool
is_portable(Oid type)
{
	Oid			element = get_element_type(type);
	HeapTuple	tuple;
	Form_pg_type form;
	bool		result;

	if (OidIsValid(element))
		type = element;
	if (type >= FirstGenbkiObjectId || shard_names_object(type))
		return false;
	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	form = (Form_pg_type) GETSTRUCT(tuple);
	result = form->typtype == TYPTYPE_BASE && OidIsValid(form->typreceive) && OidIsValid(form->typsend);
	ReleaseSysCache(tuple);
	return result;
}

static void
begin_columns(ShardScan *scan, TupleDesc tupdesc)
{
	scan->binary = true;
	for (int i = 0; i < tupdesc->natts; i++)
		scan->binary &= is_portable(TupleDescAttr(tupdesc, i)->atttypid);

	scan->input = palloc0(sizeof(FmgrInfo) * tupdesc->natts);
	scan->input_param = palloc0(sizeof(Oid) * tupdesc->natts);
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Oid			type = TupleDescAttr(tupdesc, i)->atttypid;
		Oid			function;

		if (scan->binary)
			getTypeBinaryInputInfo(type, &function, &scan->input_param[i]);
		else
			getTypeInputInfo(type, &function, &scan->input_param[i]);
		fmgr_info(function, &scan->input[i]);
	}
}

/* Find how the states among the columns look like, which the planner has asked for because it knew that. */
static void
begin_states(ShardScan *scan, List *columns)
{
	ListCell   *lc;

	scan->formats = palloc0(sizeof(ShardStateFormat) * list_length(columns));
	scan->aggregates = palloc0(sizeof(char *) * list_length(columns));
	foreach(lc, columns)
	{
		int			i = foreach_current_index(lc);
		Aggref	   *aggref = (Aggref *) lfirst_node(TargetEntry, lc)->expr;

		if (!IsA(aggref, Aggref) || aggref->aggsplit != AGGSPLIT_INITIAL_SERIAL)
			continue;
		scan->aggregates[i] = get_func_name(aggref->aggfnoid);
		if (!shard_find_state_format(aggref, &scan->formats[i]))
			elog(ERROR, "the format of the states of aggregate %u is not known", aggref->aggfnoid);
	}
}

static void
begin_params(ShardScan *scan, List *exprs)
{
	ListCell   *lc;

	scan->param_exprs = ExecInitExprList(exprs, &scan->node->ss.ps);
	scan->param_output = palloc0(sizeof(FmgrInfo) * list_length(exprs));
	foreach(lc, exprs)
	{
		Oid			function;
		bool		isvarlena;

		getTypeOutputInfo(exprType(lfirst(lc)), &function, &isvarlena);
		fmgr_info(function, &scan->param_output[foreach_current_index(lc)]);
	}
}

void
shard_begin_foreign_scan(ForeignScanState *node, int eflags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState	   *estate = node->ss.ps.state;
	ShardScan  *scan;
	Oid			userid;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;

	/* the one whose privileges were checked */
#if PG_VERSION_NUM >= 160000
	userid = plan->checkAsUser;
#else
	userid = exec_rt_fetch(bms_next_member(plan->fs_relids, -1), estate)->checkAsUser;
#endif
	if (!OidIsValid(userid))
		userid = GetUserId();

	scan = palloc0(sizeof(ShardScan));
	scan->node = node;
	scan->eflags = eflags;
	scan->sql = strVal(list_nth(plan->fdw_private, ShardScanSql));
	scan->states = intVal(list_nth(plan->fdw_private, ShardScanStates));
	scan->verification = strVal(list_nth(plan->fdw_private, ShardScanVerification));
	scan->row_context = AllocSetContextCreate(estate->es_query_cxt, "pgbillion_fdw row", ALLOCSET_SMALL_SIZES);
	begin_columns(scan, node->ss.ss_ScanTupleSlot->tts_tupleDescriptor);
	scan->kinds = shard_state_kinds(plan);
	begin_states(scan, plan->fdw_scan_tlist);
	begin_params(scan, plan->fdw_exprs);
	scan->group = shard_get_group(estate, plan->fs_server, GetUserMapping(userid, plan->fs_server));
	scan->group->scans = lappend(scan->group->scans, scan);
	node->fdw_state = scan;
}

/*
 * Open the states in a row's values, in the current memory context. Raises an
 * error if one is not what it should be: nothing else checks it.
 */
static void
open_states(ShardScan *scan, TupleTableSlot *slot)
{
	const char *server = GetForeignServer(scan->group->serverid)->servername;

	shard_open_states(scan->kinds, slot->tts_tupleDescriptor->natts, server, slot->tts_values, slot->tts_isnull);
	for (int i = 0; i < slot->tts_tupleDescriptor->natts; i++)
	{
		const char *problem;

		if (scan->aggregates[i] == NULL || slot->tts_isnull[i])
			continue;
		if (scan->formats[i].kind == STATE_ARRAY_VALUE)
			slot->tts_values[i] = aggregate_widen_regr_state(slot->tts_values[i]);
		problem = shard_state_problem(&scan->formats[i], slot->tts_values[i]);
		if (problem != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
					 errmsg("server \"%s\" returned a state of aggregate %s that is none",
							server, scan->aggregates[i]),
					 errdetail("In the state, %s.", problem),
					 errcontext("remote SQL command: %s", scan->sql)));
	}
}

/* ----------------------------------------------------------------
 *		By postgres_fdw's executor
 * ----------------------------------------------------------------
 */

/*
 * Ask for one text by postgres_fdw's connection, within its transaction: as if
 * another scan had begun there. Returns NULL for null.
 */
static char *
ask_postgres_fdw(ForeignScanState *node, const char *sql)
{
	FdwRoutine *routine = postgres_fdw_routine();
	ForeignScan *plan = palloc(sizeof(ForeignScan));
	ForeignScanState *scan = palloc(sizeof(ForeignScanState));
	TupleDesc	tupdesc = CreateTemplateTupleDesc(1);
	TupleTableSlot *slot;
	Datum		value;
	bool		isnull = true;
	char	   *result;

	TupleDescInitEntry(tupdesc, 1, "value", TEXTOID, -1, 0);
	TupleDescFinalize(tupdesc);
	memcpy(plan, node->ss.ps.plan, sizeof(ForeignScan));
	plan->fdw_exprs = NIL;
	plan->fdw_private = list_make4(makeString(pstrdup(sql)), list_make1_int(1), makeInteger(1), makeString(""));
	memcpy(scan, node, sizeof(ForeignScanState));
	scan->ss.ps.plan = (Plan *) plan;
	scan->ss.ps.async_capable = false;
	scan->ss.ss_ScanTupleSlot = MakeSingleTupleTableSlot(tupdesc, &TTSOpsHeapTuple);
	scan->fdwroutine = routine;
	scan->fdw_state = NULL;

	routine->BeginForeignScan(scan, 0);
	slot = routine->IterateForeignScan(scan);
	value = TupIsNull(slot) ? (Datum) 0 : slot_getattr(slot, 1, &isnull);
	result = isnull ? NULL : TextDatumGetCString(value);
	routine->EndForeignScan(scan);
	ExecDropSingleTupleTableSlot(scan->ss.ss_ScanTupleSlot);
	return result;
}

/* Verify our functions that the scan calls, on postgres_fdw's connection. */
static void
verify_by_postgres_fdw(ForeignScanState *node, ShardScan *scan)
{
	char	   *problem;
	ListCell   *lc;

	if (scan->verification[0] == '\0')
		return;
	foreach(lc, scan->group->verified)
	{
		if (strcmp(lfirst(lc), scan->verification) == 0)
			return;
	}
	/* what ran in the session before may have changed it */
	(void) ask_postgres_fdw(node, "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)");
	problem = ask_postgres_fdw(node, scan->verification);
	if (problem != NULL)
		shard_report_problem(GetForeignServer(scan->group->serverid)->servername, shard_clean_text(problem));
	scan->group->verified = lappend(scan->group->verified, pstrdup(scan->verification));
}

/* A row as postgres_fdw reads it, its states opened. Called, as any of these functions, in the row's memory. */
static TupleTableSlot *
iterate_checked(ForeignScanState *node)
{
	CheckedRoutine *checked = (CheckedRoutine *) node->fdwroutine;
	TupleTableSlot *slot = postgres_fdw_routine()->IterateForeignScan(node);

	if (TupIsNull(slot))
		return slot;
	slot_getallattrs(slot);

	/*
	 * what the values point to is postgres_fdw's batch of rows, not the
	 * slot's
	 */
	ExecClearTuple(slot);
	open_states(checked->scan, slot);
	return ExecStoreVirtualTuple(slot);
}

/*
 * To be called before a row is asked for the first time. Returns true when the
 * node has just become postgres_fdw's.
 */
static bool
leave_to_postgres_fdw(ForeignScanState *node)
{
	ShardScan  *scan = node->fdw_state;
	ShardGroup *group = scan->group;
	CheckedRoutine *checked;
	MemoryContext oldcontext;

	if (!group->decided)
	{
		group->by_postgres_fdw = IsolationUsesXactSnapshot() || postgres_fdw_used(group->serverid) || !shard_can_connect(group);
		group->decided = true;
	}
	if (!group->by_postgres_fdw)
		return false;

	oldcontext = MemoryContextSwitchTo(node->ss.ps.state->es_query_cxt);
	verify_by_postgres_fdw(node, scan);
	checked = palloc(sizeof(CheckedRoutine));
	checked->routine = *postgres_fdw_routine();
	checked->routine.IterateForeignScan = iterate_checked;
	checked->scan = scan;
	node->fdwroutine = &checked->routine;
	node->fdw_state = NULL;
	node->fdwroutine->BeginForeignScan(node, scan->eflags);
	MemoryContextSwitchTo(oldcontext);
	return true;
}

static void
send_query(ShardScan *scan)
{
	ExprContext *econtext = scan->node->ss.ps.ps_ExprContext;
	int			nparams = list_length(scan->param_exprs);
	const char **values = NULL;
	ListCell   *lc;

	if (nparams > 0)
	{
		int			level = shard_transmission_modes();
		MemoryContext oldcontext = MemoryContextSwitchTo(econtext->ecxt_per_tuple_memory);

		values = palloc(sizeof(char *) * nparams);
		foreach(lc, scan->param_exprs)
		{
			bool		isnull;
			Datum		value = ExecEvalExpr((ExprState *) lfirst(lc), econtext, &isnull);
			int			i = foreach_current_index(lc);

			values[i] = isnull ? NULL : OutputFunctionCall(&scan->param_output[i], value);
		}
		MemoryContextSwitchTo(oldcontext);
		AtEOXact_GUC(true, level);
	}
	shard_send_query(scan->connection, scan->sql, scan->verification, nparams, values, scan->binary, scan->states);
	scan->sent = true;
}

/*
 * Go on as far as possible without waiting; see ShardProgress. Without a
 * connection because others have them all, that is SHARD_WAIT as well.
 */
static ShardProgress
advance(ShardScan *scan, bool beyond_limit)
{
	ShardProgress progress;

	if (scan->eof)
		return SHARD_DONE;
	if (scan->connection == NULL)
	{
		INSTR_TIME_SET_CURRENT(scan->begun);
		scan->connection = shard_take_connection(scan->group, beyond_limit);
		if (scan->connection == NULL)
			return SHARD_WAIT;
	}
	if (!shard_connected(scan->connection))
		return SHARD_WAIT;
	if (!scan->sent)
		send_query(scan);
	progress = shard_advance(scan->connection);
	if (progress == SHARD_DONE)
	{
		instr_time	now;

		INSTR_TIME_SET_CURRENT(now);
		INSTR_TIME_SUBTRACT(now, scan->begun);
		scan->milliseconds += INSTR_TIME_GET_MILLISEC(now);
		scan->eof = true;
		shard_give_connection(scan->connection);
		scan->connection = NULL;
	}
	return progress;
}

static void
clear_result(ShardScan *scan)
{
	pq.PQclear(scan->connection->result);
	scan->connection->result = NULL;
	scan->row = 0;
}

/*
 * The shard's table may be another than the one declared here. Every result has
 * columns of its own, whatever those before it had.
 */
static void
check_columns(ShardScan *scan, TupleDesc tupdesc)
{
	PGresult   *result = scan->connection->result;

	if (pq.PQnfields(result) != tupdesc->natts)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INCONSISTENT_DESCRIPTOR_INFORMATION),
				 errmsg("server \"%s\" returned %d columns instead of %d",
						scan->connection->server, pq.PQnfields(result), tupdesc->natts),
				 errcontext("remote SQL command: %s", scan->sql)));
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Oid			ours = TupleDescAttr(tupdesc, i)->atttypid;
		Oid			theirs = pq.PQftype(result, i);

		/* the OIDs of other types may differ; they travel as text */
		if (ours >= FirstGenbkiObjectId || theirs >= FirstGenbkiObjectId ||
			ours == theirs || IsBinaryCoercible(theirs, ours))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
				 errmsg("server \"%s\" returned type %s for column %d instead of %s",
						scan->connection->server, format_type_be(theirs), i + 1, format_type_be(ours)),
				 errdetail("The table on the shard differs from the foreign table."),
				 errcontext("remote SQL command: %s", scan->sql)));
	}
}

/* Read the values of the next row into the slot. */
static void
read_values(ShardScan *scan, TupleTableSlot *slot)
{
	TupleDesc	tupdesc = slot->tts_tupleDescriptor;
	PGresult   *result = scan->connection->result;

	for (int i = 0; i < tupdesc->natts; i++)
	{
		int32		typmod = TupleDescAttr(tupdesc, i)->atttypmod;
		char	   *value = NULL;
		int			length = 0;

		slot->tts_isnull[i] = pq.PQgetisnull(result, scan->row, i);
		if (!slot->tts_isnull[i])
		{
			value = pq.PQgetvalue(result, scan->row, i);
			length = pq.PQgetlength(result, scan->row, i);
			scan->nbytes += length;
			if (!scan->binary && !pg_verify_mbstr(GetDatabaseEncoding(), value, length, true))
				ereport(ERROR,
						(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
						 errmsg("server \"%s\" returned text that is not valid in encoding %s",
								scan->connection->server, GetDatabaseEncodingName())));
		}
		if (!scan->binary)
			slot->tts_values[i] = InputFunctionCall(&scan->input[i], value, scan->input_param[i], typmod);
		else if (value == NULL)
			slot->tts_values[i] = (Datum) 0;
		else
		{
			/* libpq ends values with a zero byte, as StringInfo wants */
			StringInfoData buf = {.data = value,.len = length,.maxlen = length + 1};

			slot->tts_values[i] = ReceiveFunctionCall(&scan->input[i], &buf, scan->input_param[i], typmod);
			if (buf.cursor != length)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
						 errmsg("server \"%s\" returned a value of type %s with an unexpected length",
								scan->connection->server, format_type_be(TupleDescAttr(tupdesc, i)->atttypid))));
		}
	}
}

/*
 * Functions that read binary values take text to be in our client's encoding.
 * Here it is in the database's.
 */
static void
read_values_as_stored(ShardScan *scan, TupleTableSlot *slot, int encoding)
{
	(void) SetClientEncoding(GetDatabaseEncoding());
	PG_TRY();
	{
		read_values(scan, slot);
	}
	PG_CATCH();
	{
		(void) SetClientEncoding(encoding);
		PG_RE_THROW();
	}
	PG_END_TRY();
	(void) SetClientEncoding(encoding);
}

/* Fill the slot with the next row of the connection's result; the caller knows that there is one. */
static void
store_row(ShardScan *scan, TupleTableSlot *slot)
{
	int			encoding = pg_get_client_encoding();
	MemoryContext oldcontext;

	if (scan->row == 0)
		check_columns(scan, slot->tts_tupleDescriptor);

	MemoryContextReset(scan->row_context);
	oldcontext = MemoryContextSwitchTo(scan->row_context);
	if (!scan->binary || encoding == GetDatabaseEncoding())
		read_values(scan, slot);
	else
		read_values_as_stored(scan, slot, encoding);
	open_states(scan, slot);
	MemoryContextSwitchTo(oldcontext);
	scan->nrows++;
	if (++scan->row == pq.PQntuples(scan->connection->result))
		clear_result(scan);
	ExecStoreVirtualTuple(slot);
}

TupleTableSlot *
shard_iterate_foreign_scan(ForeignScanState *node)
{
	ShardScan  *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	if (!scan->sent && leave_to_postgres_fdw(node))
		return node->fdwroutine->IterateForeignScan(node);

	ExecClearTuple(slot);
	for (;;)
	{
		switch (advance(scan, true))
		{
			case SHARD_ROWS:
				store_row(scan, slot);
				return slot;
			case SHARD_DONE:
				return slot;
			case SHARD_WAIT:
				/* the Append waits for us */
				if (node->ss.ps.async_capable)
					return slot;
				shard_wait(scan->connection);
				break;
		}
	}
}

/*
 * The same query again, or one with other parameters, with the snapshot of the
 * first time. What it has not read yet is read, and dropped.
 */
void
shard_rescan_foreign_scan(ForeignScanState *node)
{
	ShardScan  *scan = node->fdw_state;

	if (!scan->sent)
		return;
	while (!scan->eof)
	{
		switch (advance(scan, true))
		{
			case SHARD_ROWS:
				clear_result(scan);
				break;
			case SHARD_WAIT:
				shard_wait(scan->connection);
				break;
			case SHARD_DONE:
				break;
		}
	}
	scan->sent = false;
	scan->eof = false;
}

/* The connections go with the statement. */
void
shard_end_foreign_scan(ForeignScanState *node)
{
}

void
shard_explain_foreign_scan(ForeignScanState *node, ExplainState *es)
{
	ShardScan  *scan = node->fdw_state;

	postgres_fdw_routine()->ExplainForeignScan(node, es);
	if (!shard_is_aggregate_scan(node) || !es->analyze || scan == NULL || scan->nrows + scan->milliseconds == 0)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Shard: %s", quote_identifier(GetForeignServer(scan->group->serverid)->servername));
		if (es->timing)
			appendStringInfo(es->str, "  Time: %.3f ms", scan->milliseconds);
		appendStringInfo(es->str, "  Rows: " UINT64_FORMAT "  Bytes: " UINT64_FORMAT "\n", scan->nrows, scan->nbytes);
		return;
	}
	ExplainPropertyText("Shard", GetForeignServer(scan->group->serverid)->servername, es);
	if (es->timing)
		ExplainPropertyFloat("Shard Time", "ms", scan->milliseconds, 3, es);
	ExplainPropertyUInteger("Shard Rows", NULL, scan->nrows, es);
	ExplainPropertyUInteger("Shard Bytes", NULL, scan->nbytes, es);
}

/* ----------------------------------------------------------------
 *		Below an Append
 * ----------------------------------------------------------------
 */

/* Answer the request if that is possible without waiting. */
static void
answer(AsyncRequest *areq, bool beyond_limit)
{
	ForeignScanState *node = (ForeignScanState *) areq->requestee;
	ShardScan  *scan = node->fdw_state;

	switch (advance(scan, beyond_limit))
	{
		case SHARD_ROWS:
			ExecAsyncRequestDone(areq, areq->requestee->ExecProcNodeReal(areq->requestee));
			break;
		case SHARD_DONE:
			ExecAsyncRequestDone(areq, NULL);
			break;
		case SHARD_WAIT:
			ExecAsyncRequestPending(areq);
			break;
	}
}

void
shard_foreign_async_request(AsyncRequest *areq)
{
	ForeignScanState *node = (ForeignScanState *) areq->requestee;
	ShardScan  *scan = node->fdw_state;

	if (!scan->sent && leave_to_postgres_fdw(node))
	{
		node->fdwroutine->ForeignAsyncRequest(areq);
		return;
	}
	scan->areq = areq;
	answer(areq, false);
}

/*
 * Will a connection of the group become free without anything else happening
 * than what this Append does?
 */
static bool
others_will_finish(AsyncRequest *areq, ShardScan *scan)
{
	ListCell   *lc;

	foreach(lc, scan->group->scans)
	{
		ShardScan  *other = lfirst(lc);

		if (other->connection != NULL && other->areq != NULL && other->areq->requestor == areq->requestor)
			return true;
	}
	return false;
}

void
shard_foreign_async_configure_wait(AsyncRequest *areq)
{
	ForeignScanState *node = (ForeignScanState *) areq->requestee;
	ShardScan  *scan = node->fdw_state;
	AppendState *requestor = (AppendState *) areq->requestor;

	Assert(areq->callback_pending);

	/*
	 * The Append waits for sockets to become readable only: other progress is
	 * made here.
	 */
	areq->callback_pending = false;
	answer(areq, !others_will_finish(areq, scan));
	if (!areq->callback_pending)
	{
		ExecAsyncResponse(areq);
		if (areq->requestee->instrument)
			InstrUpdateTupleCount(areq->requestee->instrument, TupIsNull(areq->result) ? 0.0 : 1.0);
		/* the Append should not wait for others now */
		SetLatch(MyLatch);
		return;
	}
	if (scan->connection != NULL)
		AddWaitEventToSet(requestor->as_eventset, shard_events(scan->connection),
						  pq.PQsocket(scan->connection->conn), NULL, areq);
}

void
shard_foreign_async_notify(AsyncRequest *areq)
{
	answer(areq, false);
}
