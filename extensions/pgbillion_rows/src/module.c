/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Module entry: magic block, initialization and version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/guc.h"
#include "utils/builtins.h"

#include "column_index/column_index.h"
#include "eager_aggregate/eager_aggregate.h"
#include "join_estimate/join_estimate.h"
#include "memoize/memoize.h"
#include "nested_loop/nested_loop.h"
#include "planner/planner.h"
#include "server_build.h"
#include "shard/connection.h"
#include "shard/shard.h"
#include "sort/sort.h"
#include "statistics/statistics.h"
#include "vector/vector.h"
#include "window/window.h"

PG_MODULE_MAGIC;
SERVER_BUILD("pgbillion_rows");

void		_PG_init(void);

void
_PG_init(void)
{
	require_server_build("pgbillion_rows");
	columns_init();
	planner_hook_init();
	/* first, as it decides how many rows joined relations have */
	join_estimate_init();
	/* before vector_init(), whose joins take the place of hash joins */
	nested_loop_init();
	vector_init();
	explain_vector_init();
	shard_init();
	shard_connection_init();
	eager_aggregate_init();
	sort_init();
	window_init();
	memoize_init();
	/* what it reports and notes is of all paths that the others offer */
	vector_report_init();
	statistics_memory_init();
	statistics_count_init();
	MarkGUCPrefixReserved("pgbillion_rows");
}

PG_FUNCTION_INFO_V1(pgbillion_rows_version);

/*
 * pgbillion_rows.version() returns text
 *		Version of the loaded library, as the control file had it when the
 *		library was built.
 */
Datum
pgbillion_rows_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(PGBILLION_VERSION));
}
