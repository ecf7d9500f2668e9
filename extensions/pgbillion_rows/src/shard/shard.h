/*-------------------------------------------------------------------------
 *
 * shard.h
 *	  pgbillion_fdw: postgres_fdw with partial aggregates on the shards.
 *
 * The wrapper's routine is a copy of postgres_fdw's, which does all that is
 * not about our own scans. Ours are aggregate scans: a foreign scan that
 * stands for a (partial) aggregate over one foreign table.
 *
 *	handler.c	 the routine, and which parts of it are ours
 *	plan.c		 offers the planner an aggregate scan
 *	deparse.c	 writes its SQL, or says why the shard cannot run it
 *	scan.c		 runs it, asynchronously below an Append
 *	connection.c gives it connections of our own, with one snapshot
 *	open_connection.c  makes a connection
 *	pipeline.c	 sends commands over one, and takes the answers
 *	postgres_fdw.c	postgres_fdw's routine, and where its connection is in use
 *	partial.c	 aggregates whose result is the state of another
 *	verify_functions.c  whether what we call on a shard is ours
 *	validate_state.c  checks the states that shards send
 *	libpq.c		 the libpq of postgres_fdw
 *
 * Snapshots. In a READ COMMITTED transaction each statement reads a shard
 * with one snapshot, taken when its first aggregate scan of that shard
 * begins; several scans of one shard share it. Those of different shards are
 * not synchronized, as they are not with postgres_fdw. Where the transaction
 * has used postgres_fdw's own connection to the shard (it wrote there, or the
 * statement scans it without aggregating), or is REPEATABLE READ or
 * SERIALIZABLE, the aggregate scan runs on that connection too, by
 * postgres_fdw's own executor: it sees what that transaction wrote, with the
 * snapshot of that transaction.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SHARD_H
#define SHARD_H

#include "commands/explain.h"
#include "foreign/fdwapi.h"
#include "foreign/foreign.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"

/*
 * What fdw_private of an aggregate scan's plan holds. The first four are
 * postgres_fdw's own (FdwScanPrivateIndex), so that its executor can run the
 * scan; it never has a fifth, which is how the scan is known to be ours.
 */
enum ShardScanPrivate
{
	/* SQL to run on the shard (String) */
	ShardScanSql,
	/* attribute numbers of the columns it returns: 1, 2, 3 … (integer List) */
	ShardScanRetrievedAttrs,
	/* rows to fetch at a time, for postgres_fdw (Integer) */
	ShardScanFetchSize,
	/* what the scan stands for, range table index in parentheses (String) */
	ShardScanRelations,
	/* SHARD_STATE_… of the serialized states among the columns (Integer) */
	ShardScanStates,

	/*
	 * SQL that verifies our functions in the SQL, empty if there are none
	 * (String)
	 */
	ShardScanVerification
};

/* What fdw_private of an aggregate scan's path holds; postgres_fdw's begins with a Boolean. */
enum ShardPathPrivate
{
	ShardPathSql,
	/* columns of the SQL, as fdw_scan_tlist (List of TargetEntry) */
	ShardPathColumns,
	/* expressions for its parameters (List) */
	ShardPathParams,
	ShardPathRelations,
	ShardPathStates,
	ShardPathFetchSize,
	ShardPathAsync,
	ShardPathVerification
};

/* Serialized states can only travel between servers of one major version, … */
#define SHARD_STATE_SERIALIZED	0x01
/* … with text as it is in memory, between databases of one encoding, … */
#define SHARD_STATE_RAW_TEXT	0x02
/* … with text that PostgreSQL reads as if it came from our client, when that has the database's encoding. */
#define SHARD_STATE_SENT_TEXT	0x04
/* An array that has more values since PostgreSQL 19, … */
#define SHARD_STATE_REGR		0x08

/* SQL for the aggregate over one foreign table. */
typedef struct ShardQuery
{
	char	   *sql;
	List	   *columns;
	List	   *params;
	int			states;			/* SHARD_STATE_… */
	char	   *verification;	/* see ShardScanVerification */
} ShardQuery;

/* postgres_fdw.c */
#define POSTGRES_FDW "$libdir/postgres_fdw"
extern FdwRoutine *postgres_fdw_routine(void);
extern bool postgres_fdw_used(Oid serverid);
extern void postgres_fdw_note_use(Oid serverid);
extern void postgres_fdw_init(void);

/* handler.c */
extern void shard_init(void);

/* plan.c */
extern bool shard_push_down;
extern void shard_get_foreign_upper_paths(PlannerInfo *root, UpperRelationKind stage,
										  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);
extern Path *shard_states_path(PlannerInfo *root, RelOptInfo *table, PathTarget *target);
extern ForeignScan *shard_get_foreign_plan(PlannerInfo *root, RelOptInfo *rel, Oid relid,
										   ForeignPath *path, List *tlist, List *clauses, Plan *outer_plan);
extern bool shard_is_foreign_path_async_capable(ForeignPath *path);

/* deparse.c */
extern const char *shard_deparse(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, ShardQuery *query);
extern int	shard_transmission_modes(void);
extern bool shard_names_object(Oid type);

/* partial.c */
extern Oid	shard_partial_aggregate(Oid aggregate, bool *serialized);
extern bool shard_is_partial_aggregate(Oid aggregate);
extern int *shard_state_kinds(ForeignScan *plan);
extern void shard_open_states(const int *kinds, int n, const char *server, Datum *values, const bool *isnull);

/* scan.c */
extern bool shard_is_aggregate_scan(ForeignScanState *node);
extern void shard_begin_foreign_scan(ForeignScanState *node, int eflags);
extern TupleTableSlot *shard_iterate_foreign_scan(ForeignScanState *node);
extern void shard_rescan_foreign_scan(ForeignScanState *node);
extern void shard_end_foreign_scan(ForeignScanState *node);
extern void shard_explain_foreign_scan(ForeignScanState *node, struct ExplainState *es);
extern void shard_foreign_async_request(AsyncRequest *areq);
extern void shard_foreign_async_configure_wait(AsyncRequest *areq);
extern void shard_foreign_async_notify(AsyncRequest *areq);

#endif							/* SHARD_H */
