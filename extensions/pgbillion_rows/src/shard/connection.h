/*-------------------------------------------------------------------------
 *
 * connection.h
 *	  Connections of our own to the shards, and the statements that use them.
 *
 * A statement (one EState) has a group for each user mapping that its
 * aggregate scans use. The group's connections run transactions with one
 * snapshot; a scan has one of them from when it begins until its last row.
 * When the statement is over, or has failed, its memory context goes, and
 * with it all that it has: the callback of that context ends the transactions
 * of connections that have nothing left to say, and cancels and closes all
 * others. Nothing else has to be cleaned up, in whatever way it ends.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARD_CONNECTION_H
#define SHARD_CONNECTION_H

#include "foreign/foreign.h"
#include "lib/ilist.h"
#include "nodes/execnodes.h"
#include "portability/instr_time.h"

#include "compat.h"
#include "shard/libpq.h"

typedef struct ShardStatement ShardStatement;
typedef struct ShardConnection ShardConnection;

/* The scans of a statement that use one user mapping; in the memory of the statement. */
typedef struct ShardGroup
{
	ShardStatement *statement;
	Oid			serverid;
	Oid			umid;
	Oid			userid;
	List	   *scans;			/* ShardScan: all of them, begun or not */
	int			nconnections;	/* in use by this group */
	ShardConnection *exporter;	/* whose snapshot the others take; the first
								 * of them */
	char	   *snapshot;		/* its name, once known */
	bool		decided;
	bool		by_postgres_fdw;	/* its executor runs the scans */
	List	   *verified;		/* char *: what has been verified on its
								 * connection */
} ShardGroup;

/* Milliseconds of a clock that nobody sets. */
static inline int64
shard_clock(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MILLISEC(now);
}

/* What a connection still has to answer, in this order. */
typedef enum ShardReply
{
	REPLY_DONE,					/* to a command: that it worked */
	REPLY_ANY,					/* to a command that may as well fail */
	REPLY_SNAPSHOT,				/* the name of the exported snapshot */
	REPLY_VERIFIED,				/* that our functions may be called */
	REPLY_ROWS,					/* to the query of the scan */
	REPLY_SYNC					/* the end of what was sent together */
} ShardReply;

#define MAX_REPLIES 16

struct ShardConnection
{
	dlist_node	node;
	Oid			serverid;
	Oid			umid;
	Oid			userid;
	uint32		server_hash;
	uint32		mapping_hash;
	char		server[NAMEDATALEN];	/* for messages */
	PGconn	   *conn;
	bool		connecting;
	bool		need_password;	/* to have been used */
	bool		keep;			/* beyond the transaction */
	bool		invalidated;	/* its options have changed */
	PostgresPollingStatusType poll; /* while connecting */
	int64		deadline;		/* for that, by shard_clock(), 0 without */

	ShardGroup *group;			/* NULL: idle */
	bool		busy;			/* a scan of the group has it */
	bool		in_transaction;
	bool		need_flush;
	ShardReply	replies[MAX_REPLIES];
	int			nreplies;
	const char *sql;			/* of the query that runs, for messages */
	PGresult   *result;			/* rows of the scan */
};

typedef enum ShardProgress
{
	SHARD_WAIT,					/* for the connection's socket */
	SHARD_ROWS,					/* there is a result with rows */
	SHARD_DONE					/* there is nothing left to be answered */
} ShardProgress;

/* pipeline.c: one connection's commands and answers */
extern void shard_send_command(ShardConnection *connection, const char *sql, ShardReply reply);
extern void shard_send_scan(ShardConnection *connection, const char *sql, int nparams,
							const char *const *values, bool binary);
extern void shard_send_sync(ShardConnection *connection);
extern bool shard_send_commit(ShardConnection *connection);
extern ShardProgress shard_advance(ShardConnection *connection);
extern uint32 shard_events(ShardConnection *connection);
extern void shard_wait(ShardConnection *connection);
extern char *shard_clean_text(const char *text);
pg_noreturn extern void shard_report(ShardConnection *connection, PGresult *result);

/* open_connection.c: how one comes to be */
extern bool shard_can_connect(ShardGroup *group);
extern void shard_start_connecting(ShardConnection *connection);
extern bool shard_connected(ShardConnection *connection);
extern void shard_connect_init(void);

/* connection.c: all connections, and the statements that have them */
extern int	shard_connections;
extern ShardGroup *shard_get_group(EState *estate, Oid serverid, UserMapping *user);
extern ShardConnection *shard_take_connection(ShardGroup *group, bool beyond_limit);
extern void shard_give_connection(ShardConnection *connection);
extern void shard_send_query(ShardConnection *connection, const char *sql, const char *verification, int nparams,
							 const char *const *values, bool binary, int states);
extern void shard_connection_init(void);

#endif							/* SHARD_CONNECTION_H */
