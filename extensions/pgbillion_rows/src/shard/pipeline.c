/*-------------------------------------------------------------------------
 *
 * pipeline.c
 *	  What is sent over one connection, and what the shard answers.
 *
 * Commands are sent at once, in libpq's pipeline mode. The connection keeps a
 * list of the answers that are to come, in their order. Rows come in chunks,
 * never all at once. Nothing waits in here except shard_wait().
 *
 * An error that is raised here leaves the connection as it is: the end of the
 * statement closes it (connection.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "shard/connection.h"
#include "shard/verify_functions.h"

/* rows of a result, where libpq can return several at a time */
#define CHUNK_ROWS 256

/* ----------------------------------------------------------------
 *		Errors
 * ----------------------------------------------------------------
 */

/* the longest text of a shard's error that is passed on */
#define MAX_TEXT 8192

/*
 * A copy of what a shard has said, which may be anything: not too much of it,
 * and what is not valid in this database's encoding as question marks.
 */
char *
shard_clean_text(const char *text)
{
	int			encoding = GetDatabaseEncoding();
	size_t		left = strlen(text);
	StringInfoData buf;

	initStringInfo(&buf);
	while (left > 0 && buf.len < MAX_TEXT)
	{
		int			size = pg_encoding_verifymbchar(encoding, text, (int) Min(left, MAX_MULTIBYTE_CHAR_LEN));

		if (size > 0)
			appendBinaryStringInfo(&buf, text, size);
		else
		{
			appendStringInfoChar(&buf, '?');
			size = 1;
		}
		text += size;
		left -= size;
	}
	return buf.data;
}

/* The code of an error that a shard has sent; is it one? */
static bool
is_sqlstate(const char *code)
{
	return strlen(code) == 5 && strspn(code, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5;
}

/*
 * Raise what the shard has to say, in its name. Takes the result, which may be
 * NULL: then it is libpq that says something.
 */
void
shard_report(ShardConnection *connection, PGresult *result)
{
	const char *fields[] = {NULL, NULL, NULL, NULL, NULL};
	static const int codes[] = {PG_DIAG_SQLSTATE, PG_DIAG_MESSAGE_PRIMARY, PG_DIAG_MESSAGE_DETAIL,
	PG_DIAG_MESSAGE_HINT, PG_DIAG_CONTEXT};
	const char *hint;
	int			sqlstate = ERRCODE_CONNECTION_FAILURE;

	if (result != NULL)
	{
		for (int i = 0; i < lengthof(codes); i++)
		{
			const char *field = pq.PQresultErrorField(result, codes[i]);

			fields[i] = field == NULL ? NULL : shard_clean_text(field);
		}
		pq.PQclear(result);
	}
	if (fields[0] != NULL && is_sqlstate(fields[0]))
		sqlstate = MAKE_SQLSTATE(fields[0][0], fields[0][1], fields[0][2], fields[0][3], fields[0][4]);
	if (fields[1] == NULL)
		fields[1] = shard_clean_text(pchomp(pq.PQerrorMessage(connection->conn)));
	if (connection->nreplies > 0 && connection->replies[0] == REPLY_VERIFIED)
	{
		char	   *problem = shard_verification_problem(fields[1]);

		if (problem != NULL)
			shard_report_problem(connection->server, problem);
	}
	hint = fields[3];
	if (sqlstate == ERRCODE_UNDEFINED_FUNCTION || sqlstate == ERRCODE_INVALID_SCHEMA_NAME)
		hint = "Partial aggregates must be there on every shard: call pgbillion_rows.create_partial_aggregate() for those of your own.";

	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("server \"%s\": %s", connection->server, fields[1][0] ? fields[1] : "the connection was lost"),
			 fields[2] ? errdetail_internal("%s", fields[2]) : 0,
			 hint ? errhint("%s", hint) : 0,
			 fields[4] ? errcontext("%s", fields[4]) : 0,
			 connection->sql ? errcontext("remote SQL command: %s", connection->sql) : 0));
}

/* ----------------------------------------------------------------
 *		Sending
 * ----------------------------------------------------------------
 */

/* Note that a command was sent, and what its answer will be. */
static void
expect(ShardConnection *connection, ShardReply reply)
{
	if (connection->nreplies == MAX_REPLIES)
		elog(ERROR, "too many commands were sent to server \"%s\"", connection->server);
	connection->replies[connection->nreplies++] = reply;
}

/* Send one command of a pipeline. */
void
shard_send_command(ShardConnection *connection, const char *sql, ShardReply reply)
{
	if (!pq.PQsendQueryParams(connection->conn, sql, 0, NULL, NULL, NULL, NULL, 0))
		shard_report(connection, NULL);
	expect(connection, reply);
}

/* End what is sent together: an error in it leaves out the commands up to here. */
void
shard_send_sync(ShardConnection *connection)
{
	if (!pq.PQpipelineSync(connection->conn))
		shard_report(connection, NULL);
	expect(connection, REPLY_SYNC);
	connection->need_flush = true;
}

/*
 * Rows in chunks, or else one by one, for the query whose answer comes next. libpq would
 * return all of them at once otherwise, which is as right but takes more memory.
 */
static void
set_row_mode(ShardConnection *connection)
{
	if (pq.PQsetChunkedRowsMode == NULL || !pq.PQsetChunkedRowsMode(connection->conn, CHUNK_ROWS))
		(void) pq.PQsetSingleRowMode(connection->conn);
}

/*
 * Send the query of a scan, as a part of a pipeline. The values are those of
 * its parameters, as text. Rows are returned in binary if told so.
 */
void
shard_send_scan(ShardConnection *connection, const char *sql, int nparams, const char *const *values, bool binary)
{
	connection->sql = sql;
	if (!pq.PQsendQueryParams(connection->conn, sql, nparams, NULL, values, NULL, NULL, binary))
		shard_report(connection, NULL);
	expect(connection, REPLY_ROWS);

	/*
	 * comes too late when answers to other commands are awaited first; see
	 * next_reply()
	 */
	if (connection->nreplies == 1)
		set_row_mode(connection);
}

/*
 * Send COMMIT, where nothing is to be answered yet. Returns false when that is
 * not possible. Never raises an error.
 */
bool
shard_send_commit(ShardConnection *connection)
{
	int			flushed;

	Assert(connection->nreplies == 0);
	if (!pq.PQsendQueryParams(connection->conn, "COMMIT", 0, NULL, NULL, NULL, NULL, 0) ||
		!pq.PQpipelineSync(connection->conn))
		return false;
	flushed = pq.PQflush(connection->conn);
	if (flushed < 0)
		return false;
	connection->need_flush = flushed > 0;
	expect(connection, REPLY_DONE);
	expect(connection, REPLY_SYNC);
	return true;
}

/* ----------------------------------------------------------------
 *		Answers
 * ----------------------------------------------------------------
 */

/* The first of the replies has come in full. */
static void
next_reply(ShardConnection *connection)
{
	connection->nreplies--;
	memmove(connection->replies, connection->replies + 1, sizeof(ShardReply) * connection->nreplies);
	if (connection->nreplies > 0 && connection->replies[0] == REPLY_ROWS)
		set_row_mode(connection);
}

/* Deal with a result; NULL ends those of one command. Returns true when it has rows for the scan. */
static bool
take_result(ShardConnection *connection, PGresult *result)
{
	ShardReply	reply = connection->replies[0];
	ExecStatusType status;

	if (result == NULL)
	{
		/* a lost connection ends like this as well */
		if (reply == REPLY_SYNC || pq.PQstatus(connection->conn) != CONNECTION_OK)
			shard_report(connection, NULL);
		next_reply(connection);
		return false;
	}
	status = pq.PQresultStatus(result);
	/* libpq would return a COPY over and over */
	if (reply == REPLY_ANY && status != PGRES_COPY_IN && status != PGRES_COPY_OUT && status != PGRES_COPY_BOTH)
	{
		pq.PQclear(result);
		return false;
	}
	if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE || status == PGRES_NONFATAL_ERROR ||
		status == PGRES_PIPELINE_ABORTED)
		shard_report(connection, result);

	switch (reply)
	{
		case REPLY_SYNC:
			if (status == PGRES_PIPELINE_SYNC)
			{
				pq.PQclear(result);
				next_reply(connection);
				return false;
			}
			break;
		case REPLY_ANY:
		case REPLY_DONE:
			if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
			{
				pq.PQclear(result);
				return false;
			}
			break;
		case REPLY_SNAPSHOT:
			/* libpq ends values with a zero byte, but a row may have none */
			if (status == PGRES_TUPLES_OK && pq.PQntuples(result) == 1 && pq.PQnfields(result) == 1)
			{
				ShardGroup *group = connection->group;

				group->snapshot = MemoryContextStrdup(GetMemoryChunkContext(group), pq.PQgetvalue(result, 0, 0));
				pq.PQclear(result);
				return false;
			}
			break;
		case REPLY_VERIFIED:
			if (status == PGRES_TUPLES_OK)
			{
				pq.PQclear(result);
				return false;
			}
			break;
		case REPLY_ROWS:
			if (pq.PQntuples(result) > 0)
			{
				connection->result = result;
				return true;
			}
			if (status == PGRES_TUPLES_OK)
			{
				pq.PQclear(result);
				return false;
			}
			break;
	}
	pq.PQclear(result);
	ereport(ERROR,
			(errcode(ERRCODE_PROTOCOL_VIOLATION),
			 errmsg("server \"%s\" returned an unexpected result", connection->server),
			 connection->sql ? errcontext("remote SQL command: %s", connection->sql) : 0));
}

/*
 * Read what there is of the answers, without waiting. The connection must be
 * connected. After SHARD_ROWS, the caller has to take care of the result and
 * set it to NULL before it calls again.
 */
ShardProgress
shard_advance(ShardConnection *connection)
{
	bool		consumed = false;

	Assert(!connection->connecting);
	if (connection->result != NULL)
		return SHARD_ROWS;
	if (connection->need_flush)
	{
		int			flushed = pq.PQflush(connection->conn);

		/* it may be that the shard said why */
		if (flushed < 0 && !pq.PQconsumeInput(connection->conn))
			shard_report(connection, NULL);
		connection->need_flush = flushed != 0;
	}
	while (connection->nreplies > 0)
	{
		if (pq.PQisBusy(connection->conn))
		{
			if (consumed)
				return SHARD_WAIT;
			if (!pq.PQconsumeInput(connection->conn))
				shard_report(connection, NULL);
			consumed = true;
			continue;
		}
		if (take_result(connection, pq.PQgetResult(connection->conn)))
			return SHARD_ROWS;
	}
	return SHARD_DONE;
}

/* What to wait for on the connection's socket. */
uint32
shard_events(ShardConnection *connection)
{
	if (connection->connecting)
		return connection->poll == PGRES_POLLING_READING ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE;
	return WL_SOCKET_READABLE | (connection->need_flush ? WL_SOCKET_WRITEABLE : 0);
}

/* Wait for that; an interrupt may raise an error. */
void
shard_wait(ShardConnection *connection)
{
	(void) WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | shard_events(connection),
							 pq.PQsocket(connection->conn), -1, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}
