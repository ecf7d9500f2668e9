/*-------------------------------------------------------------------------
 *
 * view.c
 *	  pgbillion_rows.query_counts() and pgbillion_rows.stat_reset().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "statistics/statistics.h"

static const char *const kind_names[QUERY_KINDS] = {
	[QUERY_AGGREGATE] = "vectorized aggregation",
	[QUERY_COLUMNS] = "aggregation from columns",
	[QUERY_SCAN] = "vectorized scan",
	[QUERY_SORT] = "vectorized sort",
	[QUERY_WINDOW] = "vectorized window functions",
	[QUERY_EAGER_AGGREGATE] = "eager aggregation",
	[QUERY_REPLACED_LOOP] = "replaced nested loop",
	[QUERY_SHARDS] = "aggregation on shards"
};

PG_FUNCTION_INFO_V1(pgbillion_query_counts);
PG_FUNCTION_INFO_V1(pgbillion_stat_reset);

/*
 * pgbillion_rows.query_counts(OUT datid oid, OUT kind text, OUT queries bigint,
 *		OUT total_time double precision, OUT stats_reset timestamptz) returns setof record
 *		How many queries ran something of each kind, and the milliseconds that
 *		they took, by database; datid is NULL for those that found no room.
 */
Datum
pgbillion_query_counts(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	QueryCounts *counts;
	int			n;

	InitMaterializedSRF(fcinfo, 0);
	n = statistics_read(&counts);
	for (int i = 0; i < n; i++)
	{
		for (int kind = 0; kind < QUERY_KINDS; kind++)
		{
			bool		nulls[5] = {!OidIsValid(counts[i].database)};
			Datum		values[5] = {
				ObjectIdGetDatum(counts[i].database),
				CStringGetTextDatum(kind_names[kind]),
				Int64GetDatum((int64) counts[i].queries[kind]),
				Float8GetDatum(counts[i].microseconds[kind] / 1000.0),
				TimestampTzGetDatum(counts[i].since)
			};

			tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		}
	}

	return (Datum) 0;
}

/*
 * pgbillion_rows.stat_reset() returns void
 *		Begin to count the queries of this database anew.
 */
Datum
pgbillion_stat_reset(PG_FUNCTION_ARGS)
{
	statistics_reset();
	PG_RETURN_VOID();
}
