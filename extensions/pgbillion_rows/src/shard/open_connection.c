/*-------------------------------------------------------------------------
 *
 * open_connection.c
 *	  Connects to a shard without waiting, and prepares the session.
 *
 * Options and rules about passwords are postgres_fdw's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <poll.h>

#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "shard/connection.h"
#include "shard/verify_functions.h"

/* how soon a shard notices that the coordinator has gone, or has closed the connection of a canceled query */
#define CHECK_MILLISECONDS "1000"

/*
 * Sent first on every new connection. As postgres_fdw's, except for the last two:
 * a shard that is itself a coordinator passes partial aggregates on.
 */
#define CONFIGURE \
	"SELECT pg_catalog.set_config(name, value, false) FROM (VALUES " \
	"('search_path', 'pg_catalog, pg_temp'), ('timezone', 'GMT'), ('datestyle', 'ISO'), " \
	"('intervalstyle', 'postgres'), ('extra_float_digits', '3'), " \
	"('client_connection_check_interval', '" CHECK_MILLISECONDS "'), " \
	"('enable_partitionwise_aggregate', 'on')) AS s (name, value)"

/*
 * Loads the library there, where that is installed and ours, so that plans on
 * the shard can be vectorized. What is sent together is one transaction, which
 * the verification ends when it fails.
 */
#define LOADING_FUNCTION "version"
#define LOAD_LIBRARY "SELECT pgbillion_rows.version()"

static const char **libpq_options = NULL;

/*
 * Wakes a statement that waits for a shard to accept its connection. The
 * server's timers go by the clock of the day: where that is set back, one that
 * was due wakes us all the same, but takes itself for active still.
 */
static TimeoutId connect_timeout;
static int64 due;				/* by shard_clock() */

static void
report_connecting(ShardConnection *connection)
{
	ereport(ERROR,
			(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
			 errmsg("could not connect to server \"%s\"", connection->server),
			 errdetail_internal("%s", shard_clean_text(pchomp(pq.PQerrorMessage(connection->conn))))));
}

static void
ignore_notice(void *arg, const PGresult *result)
{
}

/* Is it an option that libpq knows, of those that postgres_fdw would pass on? */
static bool
is_libpq_option(const char *name)
{
	if (libpq_options == NULL)
	{
		PQconninfoOption *defaults = pq.PQconndefaults();
		int			n = 0;
		const char **names;

		if (defaults == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FDW_OUT_OF_MEMORY),
					 errmsg("out of memory")));
		while (defaults[n].keyword != NULL)
			n++;
		names = MemoryContextAllocZero(TopMemoryContext, sizeof(char *) * (n + 1));
		n = 0;
		for (PQconninfoOption *option = defaults; option->keyword != NULL; option++)
			if (strcmp(option->keyword, "client_encoding") != 0 &&
				strcmp(option->keyword, "fallback_application_name") != 0)
				names[n++] = MemoryContextStrdup(TopMemoryContext, option->keyword);
		pq.PQconninfoFree(defaults);
		libpq_options = names;
	}
	for (const char **option = libpq_options; *option != NULL; option++)
		if (strcmp(*option, name) == 0)
			return true;
	return false;
}

static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst(lc);

		if (strcmp(def->defname, name) == 0)
			return def;
	}
	return NULL;
}

static bool
boolean_option(List *options, const char *name, bool otherwise)
{
	DefElem    *def = find_option(options, name);

	return def == NULL ? otherwise : defGetBoolean(def);
}

/* Must the user have shown a password to the shard? The rule is postgres_fdw's. */
static bool
password_required(UserMapping *user)
{
	return !superuser_arg(user->userid) && boolean_option(user->options, "password_required", true);
}

static bool
has_password(UserMapping *user)
{
	DefElem    *password = find_option(user->options, "password");

	return password != NULL && defGetString(password)[0] != '\0';
}

/*
 * May we connect in this user's name? Ways to authenticate that need the
 * user's own session here (SCRAM pass-through, delegated credentials), and the
 * error for users who have no way at all, are left to postgres_fdw.
 */
bool
shard_can_connect(ShardGroup *group)
{
	ForeignServer *server = GetForeignServer(group->serverid);
	UserMapping *user = GetUserMapping(group->userid, group->serverid);

	if (boolean_option(user->options, "use_scram_passthrough",
					   boolean_option(server->options, "use_scram_passthrough", false)))
		return false;
	return !password_required(user) || has_password(user);
}

/*
 * Start to connect for the group of the connection, which is new; returns at
 * once. An error leaves what there is of the connection.
 */
void
shard_start_connecting(ShardConnection *connection)
{
	ShardGroup *group = connection->group;
	ForeignServer *server;
	UserMapping *user;
	List	   *options;
	const char **keywords;
	const char **values;
	const char *name = GetConfigOption("postgres_fdw.application_name", true, false);
	PQconninfoOption *conninfo;
	int			n = 0;
	ListCell   *lc;

	connection->serverid = group->serverid;
	connection->umid = group->umid;
	connection->userid = group->userid;
	connection->server_hash = GetSysCacheHashValue1(FOREIGNSERVEROID, ObjectIdGetDatum(group->serverid));
	connection->mapping_hash = GetSysCacheHashValue1(USERMAPPINGOID, ObjectIdGetDatum(group->umid));
	connection->connecting = true;
	connection->poll = PGRES_POLLING_WRITING;

	server = GetForeignServer(group->serverid);
	user = GetUserMapping(group->userid, group->serverid);
	strlcpy(connection->server, server->servername, NAMEDATALEN);
	connection->keep = boolean_option(server->options, "keep_connections", true);
	connection->need_password = password_required(user);

	options = list_concat_copy(server->options, user->options);
	keywords = palloc(sizeof(char *) * (list_length(options) + 4));
	values = palloc(sizeof(char *) * (list_length(options) + 4));
	foreach(lc, options)
	{
		DefElem    *def = lfirst(lc);

		if (!is_libpq_option(def->defname))
			continue;
		keywords[n] = def->defname;
		values[n++] = defGetString(def);
	}
	/* one with escapes in it is for postgres_fdw to expand */
	if (name != NULL && name[0] != '\0' && strchr(name, '%') == NULL)
	{
		keywords[n] = "application_name";
		values[n++] = name;
	}
	keywords[n] = "fallback_application_name";
	values[n++] = "pgbillion_fdw";
	keywords[n] = "client_encoding";
	values[n++] = GetDatabaseEncodingName();
	keywords[n] = values[n] = NULL;

	if (!AcquireExternalFD())
		ereport(ERROR,
				(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
				 errmsg("could not connect to server \"%s\"", server->servername),
				 errdetail("There are too many open files on the local server."),
				 errhint("Raise the server's max_files_per_process and/or \"ulimit -n\" limits.")));

	connection->conn = pq.PQconnectStartParams(keywords, values, false);
	if (connection->conn == NULL)
	{
		ReleaseExternalFD();
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	}
	if (pq.PQstatus(connection->conn) == CONNECTION_BAD)
		report_connecting(connection);
	pq.PQsetNoticeReceiver(connection->conn, ignore_notice, NULL);

	/*
	 * what the options, or a service file, say; libpq obeys it only where it
	 * waits itself
	 */
	conninfo = pq.PQconninfo(connection->conn);
	for (PQconninfoOption *option = conninfo; option != NULL && option->keyword != NULL; option++)
		if (strcmp(option->keyword, "connect_timeout") == 0 && option->val != NULL && atoi(option->val) > 0)
			connection->deadline = shard_clock() + INT64CONST(1000) * Max(atoi(option->val), 2);
	pq.PQconninfoFree(conninfo);

	pfree(keywords);
	pfree(values);
}

/* The shard has accepted us: check that it should, and prepare the session. */
static void
finish_connecting(ShardConnection *connection)
{
	if (connection->need_password && !pq.PQconnectionUsedPassword(connection->conn))
		ereport(ERROR,
				(errcode(ERRCODE_S_R_E_PROHIBITED_SQL_STATEMENT_ATTEMPTED),
				 errmsg("password is required"),
				 errdetail("Non-superuser cannot connect to server \"%s\" if the server does not request a password.", connection->server),
				 errhint("Target server's authentication method must be changed or password_required=false set in the user mapping attributes.")));
	if (pq.PQserverVersion(connection->conn) < 150000)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("server \"%s\" is older than PostgreSQL 15", connection->server),
				 errhint("Set pgbillion_rows.push_down_aggregates to off.")));
	if (pq.PQsetnonblocking(connection->conn, 1) != 0 || !pq.PQenterPipelineMode(connection->conn))
		shard_report(connection, NULL);
	connection->connecting = false;
	shard_send_command(connection, CONFIGURE, REPLY_DONE);
	shard_send_sync(connection);
	shard_send_command(connection, shard_verification_command(shard_verification(list_make1(LOADING_FUNCTION))), REPLY_ANY);
	shard_send_command(connection, LOAD_LIBRARY, REPLY_ANY);
	shard_send_sync(connection);
}

static void
wake_up(void)
{
	SetLatch(MyLatch);
}

/*
 * Take the next steps of connecting that need no waiting, and tell whether the
 * connection can be used.
 */
bool
shard_connected(ShardConnection *connection)
{
	while (connection->connecting)
	{
		struct pollfd fd = {.fd = pq.PQsocket(connection->conn)};

		fd.events = connection->poll == PGRES_POLLING_READING ? POLLIN : POLLOUT;
		if (poll(&fd, 1, 0) <= 0)
		{
			int64		now = shard_clock();

			if (connection->deadline == 0)
				return false;
			if (now >= connection->deadline)
				ereport(ERROR,
						(errcode(ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION),
						 errmsg("could not connect to server \"%s\"", connection->server),
						 errdetail("timeout expired")));

			/*
			 * the earliest of all deadlines; a caller that is woken too early
			 * asks again
			 */
			if (!get_timeout_active(connect_timeout) || due <= now || due > connection->deadline)
			{
				due = connection->deadline;
				enable_timeout_after(connect_timeout, (int) Min(due - now, PG_INT32_MAX));
			}
			return false;
		}
		connection->poll = pq.PQconnectPoll(connection->conn);
		if (connection->poll == PGRES_POLLING_FAILED)
			report_connecting(connection);
		if (connection->poll == PGRES_POLLING_OK)
			finish_connecting(connection);
	}
	return true;
}

/* Once in a backend. */
void
shard_connect_init(void)
{
	connect_timeout = RegisterTimeout(USER_TIMEOUT, wake_up);
}
