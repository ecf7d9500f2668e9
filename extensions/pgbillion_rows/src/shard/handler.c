/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  The handler and validator of pgbillion_fdw.
 *
 * Which callbacks are ours, and for which scans, is decided here; so is what
 * counts as a use of postgres_fdw's own connection (postgres_fdw.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_foreign_data_wrapper.h"
#include "executor/executor.h"
#include "utils/array.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "compat.h"
#include "planner/planner.h"
#include "shard/shard.h"

PG_FUNCTION_INFO_V1(pgbillion_fdw_handler);
PG_FUNCTION_INFO_V1(pgbillion_fdw_validator);

static void
begin_foreign_scan(ForeignScanState *node, int eflags)
{
	if (shard_is_aggregate_scan(node))
	{
		shard_begin_foreign_scan(node, eflags);
		return;
	}
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		postgres_fdw_note_use(((ForeignScan *) node->ss.ps.plan)->fs_server);
	node->fdwroutine = postgres_fdw_routine();
	postgres_fdw_routine()->BeginForeignScan(node, eflags);
}

static void
begin_foreign_modify(ModifyTableState *mtstate, ResultRelInfo *rinfo, List *fdw_private, int subplan_index, int eflags)
{
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		postgres_fdw_note_use(GetForeignServerIdByRelId(RelationGetRelid(rinfo->ri_RelationDesc)));
	postgres_fdw_routine()->BeginForeignModify(mtstate, rinfo, fdw_private, subplan_index, eflags);
}

static void
begin_foreign_insert(ModifyTableState *mtstate, ResultRelInfo *rinfo)
{
	postgres_fdw_note_use(GetForeignServerIdByRelId(RelationGetRelid(rinfo->ri_RelationDesc)));
	postgres_fdw_routine()->BeginForeignInsert(mtstate, rinfo);
}

static void
begin_direct_modify(ForeignScanState *node, int eflags)
{
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		postgres_fdw_note_use(((ForeignScan *) node->ss.ps.plan)->fs_server);
	postgres_fdw_routine()->BeginDirectModify(node, eflags);
}

static void
exec_foreign_truncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ListCell   *lc;

	foreach(lc, rels)
		postgres_fdw_note_use(GetForeignServerIdByRelId(RelationGetRelid((Relation) lfirst(lc))));
	postgres_fdw_routine()->ExecForeignTruncate(rels, behavior, restart_seqs);
}

/*
 * pgbillion_fdw_handler() returns fdw_handler
 */
Datum
pgbillion_fdw_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	memcpy(routine, postgres_fdw_routine(), sizeof(FdwRoutine));

	routine->GetForeignUpperPaths = shard_get_foreign_upper_paths;
	routine->GetForeignPlan = shard_get_foreign_plan;
	routine->IsForeignPathAsyncCapable = shard_is_foreign_path_async_capable;

	/*
	 * A scan that is not ours leaves this routine for postgres_fdw's when it
	 * begins.
	 */
	routine->BeginForeignScan = begin_foreign_scan;
	routine->IterateForeignScan = shard_iterate_foreign_scan;
	routine->ReScanForeignScan = shard_rescan_foreign_scan;
	routine->EndForeignScan = shard_end_foreign_scan;
	routine->ExplainForeignScan = shard_explain_foreign_scan;
	routine->ForeignAsyncRequest = shard_foreign_async_request;
	routine->ForeignAsyncConfigureWait = shard_foreign_async_configure_wait;
	routine->ForeignAsyncNotify = shard_foreign_async_notify;

	/* These only take note. */
	routine->BeginForeignModify = begin_foreign_modify;
	routine->BeginForeignInsert = begin_foreign_insert;
	routine->BeginDirectModify = begin_direct_modify;
	routine->ExecForeignTruncate = exec_foreign_truncate;

	PG_RETURN_POINTER(routine);
}

/*
 * pgbillion_fdw_validator(text[], oid) returns void
 *		The options are postgres_fdw's.
 */
Datum
pgbillion_fdw_validator(PG_FUNCTION_ARGS)
{
	ArrayType  *options = PG_GETARG_ARRAYTYPE_P(0);
	PGFunction	validator;

	/* CREATE EXTENSION gets here, also where postgres_fdw is not installed */
	if (PG_GETARG_OID(1) == ForeignDataWrapperRelationId && ARR_NDIM(options) == 0)
		PG_RETURN_VOID();

	validator = load_external_function(POSTGRES_FDW, "postgres_fdw_validator", true, NULL);
	(void) DirectFunctionCall2(validator, PG_GETARG_DATUM(0), PG_GETARG_DATUM(1));
	PG_RETURN_VOID();
}

void
shard_init(void)
{
	postgres_fdw_init();
	planner_foreign_states = shard_states_path;
	DefineCustomBoolVariable("pgbillion_rows.push_down_aggregates",
							 "Lets pgbillion_fdw run aggregates on the shards.",
							 NULL,
							 &shard_push_down,
							 true,
							 PGC_USERSET,
							 GUC_EXPLAIN,
							 NULL, NULL, NULL);
}
