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
 *	connection.c connections of our own, without cursors; connect.c makes them
 *	partial.c	 aggregates whose result is the state of another
 *	verify.c	 whether what we call on a shard is ours
 *	validate.c	 checks the states that shards send
 *	adopt.c		 turns postgres_fdw servers into ours, and back
 *	libpq.c		 the libpq of postgres_fdw
 *
 * Snapshots. In a READ COMMITTED transaction each statement reads a shard
 * with one snapshot, taken when its first aggregate scan of that shard
 * begins; several scans of one shard share it. Those of different shards are
 * not synchronised, as they are not with postgres_fdw. Where the transaction
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
	/* SHARD_STATE_… of the serialised states among the columns (Integer) */
	ShardScanStates,
	/* SQL that verifies the functions of ours in the SQL, empty if there are none (String) */
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

/* Serialised states can only travel between servers of one major version, … */
#define SHARD_STATE_SERIALIZED	0x01
/* … with text as it is in memory, between databases of one encoding, … */
#define SHARD_STATE_RAW_TEXT	0x02
/* … with text that core reads as if it came from our client, when that has the database's encoding. */
#define SHARD_STATE_SENT_TEXT	0x04

/* SQL for the aggregate over one foreign table. */
typedef struct ShardQuery
{
	char	   *sql;
	List	   *columns;
	List	   *params;
	int			states;			/* SHARD_STATE_… */
	char	   *verification;	/* see ShardScanVerification */
} ShardQuery;

/* handler.c */
extern FdwRoutine *PostgresFdwRoutine(void);
extern bool PostgresFdwUsed(Oid serverid);
extern void NotePostgresFdwUse(Oid serverid);
extern void ShardInit(void);

/* plan.c */
extern bool shard_push_down;
extern void ShardGetForeignUpperPaths(PlannerInfo *root, UpperRelationKind stage,
									  RelOptInfo *input_rel, RelOptInfo *output_rel, void *extra);
extern Path *ShardStatesPath(PlannerInfo *root, RelOptInfo *table, PathTarget *target);
extern ForeignScan *ShardGetForeignPlan(PlannerInfo *root, RelOptInfo *rel, Oid relid,
										ForeignPath *path, List *tlist, List *clauses, Plan *outer_plan);
extern bool ShardIsForeignPathAsyncCapable(ForeignPath *path);

/* deparse.c */
extern const char *ShardDeparse(PlannerInfo *root, RelOptInfo *rel, PathTarget *target, ShardQuery *query);
extern int	ShardTransmissionModes(void);
extern bool ShardNamesObject(Oid type);

/* partial.c */
extern Oid	ShardPartialAggregate(Oid aggregate, bool *serialized);
extern bool ShardIsPartialAggregate(Oid aggregate);
extern int *ShardStateKinds(ForeignScan *plan);
extern void ShardOpenStates(const int *kinds, int n, const char *server, Datum *values, const bool *isnull);

/* scan.c */
extern bool ShardIsAggregateScan(ForeignScanState *node);
extern void ShardBeginForeignScan(ForeignScanState *node, int eflags);
extern TupleTableSlot *ShardIterateForeignScan(ForeignScanState *node);
extern void ShardReScanForeignScan(ForeignScanState *node);
extern void ShardEndForeignScan(ForeignScanState *node);
extern void ShardExplainForeignScan(ForeignScanState *node, struct ExplainState *es);
extern void ShardForeignAsyncRequest(AsyncRequest *areq);
extern void ShardForeignAsyncConfigureWait(AsyncRequest *areq);
extern void ShardForeignAsyncNotify(AsyncRequest *areq);

#endif							/* SHARD_H */
