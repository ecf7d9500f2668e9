/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  What a running pgbillion_tables.create_tables() shows to other sessions.
 *
 * The counters live in the backend's own status entry, where PostgreSQL keeps
 * those of VACUUM and COPY: no shared memory of our own, no preloading, and an
 * error clears them. The command's number is outside PostgreSQL's enum, so
 * that none of PostgreSQL's progress views shows it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "create/create.h"

#define PROGRESS_COMMAND_BILLION_CREATE ((ProgressCommandType) 0x62696c6c)

enum
{
	PROGRESS_TOTAL,
	PROGRESS_DONE
};

PG_FUNCTION_INFO_V1(pgbillion_create_progress);

void
create_progress_start(Oid template, int64 total)
{
	pgstat_progress_start_command(PROGRESS_COMMAND_BILLION_CREATE, template);
	pgstat_progress_update_param(PROGRESS_TOTAL, total);
}

void
create_progress_update(int64 done)
{
	pgstat_progress_update_param(PROGRESS_DONE, done);
}

void
create_progress_end(void)
{
	pgstat_progress_end_command();
}

/*
 * pgbillion_tables.create_progress() returns setof record
 *		One row for each running pgbillion_tables.create_tables(): pid,
 *		database, template, tables in all, tables done. As in pg_stat_activity
 *		the counters are null for roles that may not see the other's activity.
 */
Datum
pgbillion_create_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int			nbackends = pgstat_fetch_stat_numbackends();

	InitMaterializedSRF(fcinfo, 0);

	for (int i = 1; i <= nbackends; i++)
	{
		PgBackendStatus *status = &pgstat_get_local_beentry_by_index(i)->backendStatus;
		Datum		values[5];
		bool		nulls[5] = {false};

		if (status->st_progress_command != PROGRESS_COMMAND_BILLION_CREATE)
			continue;

		values[0] = Int32GetDatum(status->st_procpid);
		values[1] = ObjectIdGetDatum(status->st_databaseid);
		values[2] = ObjectIdGetDatum(status->st_progress_command_target);
		values[3] = Int64GetDatum(status->st_progress_param[PROGRESS_TOTAL]);
		values[4] = Int64GetDatum(status->st_progress_param[PROGRESS_DONE]);
		if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) &&
			!has_privs_of_role(GetUserId(), status->st_userid))
			nulls[2] = nulls[3] = nulls[4] = true;

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}

	return (Datum) 0;
}
