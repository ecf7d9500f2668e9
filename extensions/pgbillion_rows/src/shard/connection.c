/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  Connections of our own to the shards.
 *
 * What is sent for a scan is sent at once (pipeline.c): BEGIN, the snapshot,
 * the query, with one round trip for all of it. Nothing waits in here, except
 * for the snapshot that other connections begin with, so that all shards of a
 * statement connect, plan and run at the same time.
 *
 * A connection belongs to a user mapping and is kept for later statements.
 * One on which anything went wrong is closed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <poll.h>

#include "access/xact.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "mb/pg_wchar.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "compat.h"
#include "shard/connection.h"
#include "shard/shard.h"
#include "shard/verify_functions.h"

/* how long an aborting statement may wait for its shards to take the cancellation */
#define CANCEL_MILLISECONDS 1000

struct ShardStatement
{
	dlist_node	node;
	EState	   *estate;
	List	   *groups;
	MemoryContextCallback callback;
};

int			shard_connections = 8;

/* for the life of the backend; NULL until the first group is made */
static MemoryContext connection_context = NULL;

/* all connections, in connection_context: idle ones, and those of groups */
static dlist_head connections = DLIST_STATIC_INIT(connections);
static dlist_head statements = DLIST_STATIC_INIT(statements);

/* ----------------------------------------------------------------
 *		The end of connections and statements
 * ----------------------------------------------------------------
 */

/* Close and forget a connection. Never raises an error. */
static void
close_connection(ShardConnection *connection)
{
	dlist_delete(&connection->node);
	if (connection->result != NULL)
		pq.PQclear(connection->result);
	if (connection->conn != NULL)
	{
		pq.PQfinish(connection->conn);
		ReleaseExternalFD();
	}
	pfree(connection);
}

/*
 * Ask the shards of these connections to cancel what they run. Waits until
 * they have got it, except for one that does not listen. Before 17 libpq could
 * only wait for each without limit: there the shard finds its client gone.
 */
static void
cancel_queries(List *list)
{
	int			n = 0;
	struct pg_cancel_conn **cancels;
	struct pollfd *fds;
	PostgresPollingStatusType *status;
	int64		deadline = shard_clock() + CANCEL_MILLISECONDS;
	ListCell   *lc;

	if (list == NIL || pq.PQcancelCreate == NULL || pq.PQcancelPoll == NULL)
		return;

	cancels = palloc(sizeof(*cancels) * list_length(list));
	fds = palloc(sizeof(*fds) * list_length(list));
	status = palloc(sizeof(*status) * list_length(list));
	foreach(lc, list)
	{
		ShardConnection *connection = lfirst(lc);

		cancels[n] = pq.PQcancelCreate(connection->conn);
		if (cancels[n] == NULL)
			continue;
		status[n] = pq.PQcancelStart(cancels[n]) ? PGRES_POLLING_WRITING : PGRES_POLLING_FAILED;
		n++;
	}

	for (;;)
	{
		int			waiting = 0;
		int			milliseconds = (int) (deadline - shard_clock());

		for (int i = 0; i < n; i++)
		{
			bool		over = status[i] == PGRES_POLLING_OK || status[i] == PGRES_POLLING_FAILED;

			/* poll() passes over negative ones */
			fds[i].fd = over ? -1 : pq.PQcancelSocket(cancels[i]);
			fds[i].events = status[i] == PGRES_POLLING_READING ? POLLIN : POLLOUT;
			fds[i].revents = 0;
			waiting += !over;
		}
		if (waiting == 0 || milliseconds <= 0)
			break;
		if (poll(fds, n, milliseconds) < 0 && errno != EINTR)
			break;
		for (int i = 0; i < n; i++)
			if (fds[i].revents != 0)
				status[i] = pq.PQcancelPoll(cancels[i]);
	}

	for (int i = 0; i < n; i++)
		pq.PQcancelFinish(cancels[i]);
	pfree(cancels);
	pfree(fds);
	pfree(status);
}

/*
 * End the transaction of a connection whose group has no more use for it, and
 * make it idle. The answer is read when it is used again. Returns false when
 * that is not possible. Never raises an error.
 */
static bool
end_transaction(ShardConnection *connection)
{
	if (connection->connecting || connection->invalidated || connection->result != NULL ||
		connection->busy || connection->nreplies > 0)
		return false;
	if (connection->in_transaction)
	{
		if (!shard_send_commit(connection))
			return false;
		connection->in_transaction = false;
	}
	connection->group = NULL;
	return true;
}

/* Give up the connections that any (NULL), or one, statement has. Never raises an error. */
static void
release_connections(ShardStatement *statement)
{
	dlist_mutable_iter iter;
	List	   *running = NIL;
	List	   *dead = NIL;
	ListCell   *lc;

	dlist_foreach_modify(iter, &connections)
	{
		ShardConnection *connection = dlist_container(ShardConnection, node, iter.cur);

		if (connection->group == NULL || (statement != NULL && connection->group->statement != statement))
			continue;
		if (end_transaction(connection))
			continue;
		if (connection->nreplies > 0 && !connection->connecting)
			running = lappend(running, connection);
		dead = lappend(dead, connection);
	}
	cancel_queries(running);
	foreach(lc, dead)
		close_connection(lfirst(lc));
	list_free(running);
	list_free(dead);
}

/* The executor's memory goes: the statement is over, or has failed. */
static void
end_statement(void *arg)
{
	ShardStatement *statement = arg;
	MemoryContext oldcontext = MemoryContextSwitchTo(connection_context);

	release_connections(statement);
	dlist_delete(&statement->node);
	MemoryContextSwitchTo(oldcontext);
}

static void
end_transaction_callback(XactEvent event, void *arg)
{
	dlist_mutable_iter iter;
	MemoryContext oldcontext;

	switch (event)
	{
		case XACT_EVENT_ABORT:
			/* those whose statements' memory is still there */
			oldcontext = MemoryContextSwitchTo(connection_context);
			release_connections(NULL);
			MemoryContextSwitchTo(oldcontext);
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}

	dlist_foreach_modify(iter, &connections)
	{
		ShardConnection *connection = dlist_container(ShardConnection, node, iter.cur);

		if (connection->group == NULL && (connection->invalidated || !connection->keep))
			close_connection(connection);
	}
}

static void
invalidate_connections(Datum arg, int cacheid, uint32 hash)
{
	dlist_iter	iter;

	dlist_foreach(iter, &connections)
	{
		ShardConnection *connection = dlist_container(ShardConnection, node, iter.cur);

		if (hash == 0 ||
			(cacheid == FOREIGNSERVEROID && connection->server_hash == hash) ||
			(cacheid == USERMAPPINGOID && connection->mapping_hash == hash))
			connection->invalidated = true;
	}
}

/* ----------------------------------------------------------------
 *		Groups and their connections
 * ----------------------------------------------------------------
 */

/*
 * Return the group of a statement for a user mapping, made when it is the
 * first of its kind.
 */
ShardGroup *
shard_get_group(EState *estate, Oid serverid, UserMapping *user)
{
	ShardStatement *statement = NULL;
	ShardGroup *group;
	dlist_iter	iter;
	ListCell   *lc;
	MemoryContext oldcontext;

	if (connection_context == NULL)
	{
		connection_context = AllocSetContextCreate(TopMemoryContext, "pgbillion_fdw connections", ALLOCSET_SMALL_SIZES);
		RegisterXactCallback(end_transaction_callback, NULL);
		CacheRegisterSyscacheCallback(FOREIGNSERVEROID, invalidate_connections, (Datum) 0);
		CacheRegisterSyscacheCallback(USERMAPPINGOID, invalidate_connections, (Datum) 0);
		shard_connect_init();
	}

	dlist_foreach(iter, &statements)
	{
		statement = dlist_container(ShardStatement, node, iter.cur);
		if (statement->estate == estate)
			break;
		statement = NULL;
	}

	oldcontext = MemoryContextSwitchTo(estate->es_query_cxt);
	if (statement == NULL)
	{
		statement = palloc0(sizeof(ShardStatement));
		statement->estate = estate;
		statement->callback.func = end_statement;
		statement->callback.arg = statement;
		dlist_push_head(&statements, &statement->node);
		MemoryContextRegisterResetCallback(estate->es_query_cxt, &statement->callback);
	}
	foreach(lc, statement->groups)
	{
		group = lfirst(lc);
		if (group->umid == user->umid && group->userid == user->userid)
		{
			MemoryContextSwitchTo(oldcontext);
			return group;
		}
	}
	group = palloc0(sizeof(ShardGroup));
	group->statement = statement;
	group->serverid = serverid;
	group->umid = user->umid;
	group->userid = user->userid;
	statement->groups = lappend(statement->groups, group);
	MemoryContextSwitchTo(oldcontext);
	return group;
}

/*
 * Is an idle connection still there? A shard that has gone has said so, and
 * why: what it said comes with the first reading, the end with the next.
 */
static bool
is_alive(ShardConnection *connection)
{
	return !connection->invalidated &&
		pq.PQconsumeInput(connection->conn) &&
		pq.PQconsumeInput(connection->conn) &&
		pq.PQstatus(connection->conn) == CONNECTION_OK;
}

/* Return a connection that begins to connect. */
static ShardConnection *
new_connection(ShardGroup *group)
{
	ShardConnection *connection = MemoryContextAllocZero(connection_context, sizeof(ShardConnection));

	/*
	 * in the list from the start, so that the end of the statement frees it,
	 * and what happens to its options is seen
	 */
	connection->group = group;
	dlist_push_tail(&connections, &connection->node);
	shard_start_connecting(connection);
	return connection;
}

/*
 * Return a connection for a scan: one of the group's that is free, an idle one
 * or a new one, which is then still connecting. When the group has as many as
 * it should, NULL, unless told to go beyond that.
 */
ShardConnection *
shard_take_connection(ShardGroup *group, bool beyond_limit)
{
	dlist_mutable_iter iter;
	ShardConnection *connection;

	dlist_foreach_modify(iter, &connections)
	{
		connection = dlist_container(ShardConnection, node, iter.cur);
		if (connection->group == group && !connection->busy)
		{
			connection->busy = true;
			return connection;
		}
	}
	if (group->nconnections >= shard_connections && !beyond_limit)
		return NULL;

	connection = NULL;
	dlist_foreach_modify(iter, &connections)
	{
		ShardConnection *candidate = dlist_container(ShardConnection, node, iter.cur);

		if (candidate->group != NULL || candidate->umid != group->umid || candidate->userid != group->userid)
			continue;
		if (is_alive(candidate))
		{
			connection = candidate;
			connection->group = group;
			break;
		}
		close_connection(candidate);
	}
	if (connection == NULL)
		connection = new_connection(group);
	connection->busy = true;
	group->nconnections++;
	if (group->exporter == NULL)
		group->exporter = connection;
	return connection;
}

/* A scan has read all that it wants from its connection, which is free for others of its group. */
void
shard_give_connection(ShardConnection *connection)
{
	Assert(connection->nreplies == 0 && connection->result == NULL);
	connection->busy = false;
	connection->sql = NULL;
}

/*
 * Send what begins the transaction, with the snapshot that the group has, unless that is done.
 */
static void
begin_transaction(ShardConnection *connection)
{
	ShardGroup *group = connection->group;

	if (connection->in_transaction)
		return;
	if (list_length(group->scans) > 1 && group->exporter != connection)
	{
		ShardConnection *exporter = group->exporter;

		while (group->snapshot == NULL)
		{
			if (shard_connected(exporter))
			{
				begin_transaction(exporter);
				(void) shard_advance(exporter);
			}
			if (group->snapshot == NULL)
				shard_wait(exporter);
		}
	}

	shard_send_command(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", REPLY_DONE);
	connection->in_transaction = true;
	connection->need_flush = true;
	if (list_length(group->scans) <= 1)
		return;
	if (group->exporter != connection)
		shard_send_command(connection, psprintf("SET TRANSACTION SNAPSHOT %s", quote_literal_cstr(group->snapshot)), REPLY_DONE);
	else
	{
		shard_send_command(connection, "SELECT pg_catalog.pg_export_snapshot()", REPLY_SNAPSHOT);
		if (!pq.PQsendFlushRequest(connection->conn))
			shard_report(connection, NULL);
	}
}

static bool
has_our_encoding(ShardConnection *connection)
{
	const char *name = pq.PQparameterStatus(connection->conn, "server_encoding");

	return name != NULL && pg_char_to_encoding(name) == GetDatabaseEncoding();
}

/*
 * Send a query, and before it what begins the transaction and what verifies the
 * our functions that it calls, if any (verify_functions.c): when that fails, the shard
 * does not even parse the query. The connection must be connected. Waits only
 * for the snapshot that other connections of the group have begun with.
 */
void
shard_send_query(ShardConnection *connection, const char *sql, const char *verification, int nparams,
				 const char *const *values, bool binary, int states)
{
	int			theirs = pq.PQserverVersion(connection->conn) / 10000;
	const char *their_encoding = pq.PQparameterStatus(connection->conn, "server_encoding");

	Assert(!connection->connecting && connection->busy);
	if (((states & SHARD_STATE_SERIALIZED) && theirs != PG_VERSION_NUM / 10000) ||
		((states & SHARD_STATE_REGR) && (theirs >= 19) != (PG_VERSION_NUM / 10000 >= 19)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("server \"%s\" runs PostgreSQL %d, this one is %d", connection->server, theirs, PG_VERSION_NUM / 10000),
				 errdetail("The states of these aggregates can only travel between servers of the same major version."),
				 errhint("Set pgbillion_rows.push_down_aggregates to off.")));
	if ((states & SHARD_STATE_RAW_TEXT) && !has_our_encoding(connection))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the database of server \"%s\" has encoding %s, this one has %s", connection->server,
						their_encoding == NULL ? "?" : shard_clean_text(their_encoding), GetDatabaseEncodingName()),
				 errdetail("The states of these aggregates can only travel between databases of the same encoding."),
				 errhint("Set pgbillion_rows.push_down_aggregates to off.")));
	/* the planner saw to that, but the setting may be newer than the plan */
	if ((states & SHARD_STATE_SENT_TEXT) && pg_get_client_encoding() != GetDatabaseEncoding())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("client_encoding has changed since this query was planned"),
				 errhint("Prepare the query again.")));

	begin_transaction(connection);
	/* what ran in the session before may have changed it */
	shard_send_command(connection, "SET LOCAL search_path = pg_catalog, pg_temp", REPLY_DONE);
	if (verification[0] != '\0')
		shard_send_command(connection, shard_verification_command(verification), REPLY_VERIFIED);
	shard_send_scan(connection, sql, nparams, values, binary);
	shard_send_sync(connection);
}

void
shard_connection_init(void)
{
	DefineCustomIntVariable("pgbillion_rows.shard_connections",
							"Connections to one shard that a statement may use at the same time.",
							"Beyond these, scans of that shard wait for one another where they can.",
							&shard_connections,
							8, 1, 1000,
							PGC_USERSET, 0,
							NULL, NULL, NULL);
}
