/*-------------------------------------------------------------------------
 *
 * count_queries.c
 *	  Look at each query that begins and ends, and count those that run
 *	  something of this extension's.
 *
 * A query that runs nothing of it costs a walk over its nodes. One that does is
 * timed by the executor itself, by the means that are there for such hooks. A
 * query that ends with an error is not counted: its executor does not end.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "foreign/fdwapi.h"
#include "nodes/nodeFuncs.h"
#include "utils/memutils.h"

#include "nested_loop/nested_loop.h"
#include "shard/shard.h"
#include "sort/sort.h"
#include "statistics/statistics.h"
#include "vector/node/custom_scan.h"
#include "window/window.h"

static ExecutorStart_hook_type previous_start = NULL;
static ExecutorEnd_hook_type previous_end = NULL;

/* Is a foreign scan one of our aggregates on a shard? */
static bool
is_shard_aggregate(ForeignScanState *node)
{
	ForeignScan *scan = (ForeignScan *) node->ss.ps.plan;

	/* before the wrapper is asked, which calls its handler */
	if (scan->scan.scanrelid != 0 || !OidIsValid(scan->fs_server) || !shard_is_aggregate_scan(node))
		return false;
	return GetFdwRoutineByServerId(scan->fs_server)->GetForeignUpperPaths == shard_get_foreign_upper_paths;
}

/*
 * Does an Aggregate finish states that went through a join? Up to 18,
 * PostgreSQL finishes only what it has aggregated above all joins. From 19 on,
 * its own enable_eager_aggregate makes such plans, too: they look the same, and
 * are counted.
 */
static bool
finishes_joined_states(AggState *node)
{
	PlanState  *below = outerPlanState(node);

	if (!DO_AGGSPLIT_COMBINE(node->aggsplit))
		return false;
	while (below != NULL && (IsA(below, GatherState) || IsA(below, GatherMergeState) || IsA(below, SortState) ||
							 IsA(below, IncrementalSortState) || IsA(below, ResultState)))
		below = outerPlanState(below);
	return below != NULL && (IsA(below, NestLoopState) || IsA(below, MergeJoinState) || IsA(below, HashJoinState));
}

static bool
collect_kinds(PlanState *node, uint32 *kinds)
{
	if (node == NULL)
		return false;
	if (IsA(node, CustomScanState))
	{
		const CustomScanMethods *methods = ((CustomScan *) node->plan)->methods;

		/* VectorFinalize stands above one of these */
		if (methods == &vector_scan_methods || methods == &vector_join_methods)
		{
			*kinds |= 1 << (methods == &vector_scan_methods ? QUERY_AGGREGATE : QUERY_SCAN);
			if (OidIsValid(vector_scan_index((CustomScan *) node->plan)))
				*kinds |= 1 << QUERY_COLUMNS;
		}
		else if (methods == &vector_filter_scan_methods)
		{
			*kinds |= 1 << QUERY_SCAN;
			if (OidIsValid(vector_rows_index((CustomScan *) node->plan)))
				*kinds |= 1 << QUERY_COLUMNS;
		}
		else if (methods == &vector_sort_methods)
			*kinds |= 1 << QUERY_SORT;
		else if (methods == &vector_window_methods)
			*kinds |= 1 << QUERY_WINDOW;
	}
	else if (IsA(node, AggState) && finishes_joined_states((AggState *) node))
		*kinds |= 1 << QUERY_EAGER_AGGREGATE;
	else if (IsA(node, HashJoinState) && nested_loop_is_replaced_by((HashJoin *) node->plan))
		*kinds |= 1 << QUERY_REPLACED_LOOP;
	else if (IsA(node, ForeignScanState) && is_shard_aggregate((ForeignScanState *) node))
		*kinds |= 1 << QUERY_SHARDS;
	return planstate_tree_walker(node, collect_kinds, kinds);
}

/* What a query runs, a bit for each kind. Parallel workers are part of their leader's. */
static uint32
kinds_of(QueryDesc *query)
{
	uint32		kinds = 0;

	if (!IsParallelWorker() && query->planstate != NULL &&
		(query->estate->es_top_eflags & EXEC_FLAG_EXPLAIN_ONLY) == 0)
		(void) collect_kinds(query->planstate, &kinds);
	return kinds;
}

/* Have the executor measure the time of a query that it has started. */
static void
measure_query(QueryDesc *query)
{
	MemoryContext old = MemoryContextSwitchTo(query->estate->es_query_cxt);

#if PG_VERSION_NUM >= 190000
	if (query->query_instr == NULL)
		query->query_instr = InstrAlloc(INSTRUMENT_TIMER);
	/* others may have asked for buffers only */
	query->query_instr->need_timer = true;
#else
	if (query->totaltime == NULL)
		query->totaltime = InstrAlloc(1, INSTRUMENT_TIMER, false);
#endif
	MemoryContextSwitchTo(old);
}

static bool
query_is_measured(const QueryDesc *query)
{
#if PG_VERSION_NUM >= 190000
	return query->query_instr != NULL;
#else
	return query->totaltime != NULL;
#endif
}

/* The time of a measured query, which is about to end. */
static uint64
query_microseconds(QueryDesc *query)
{
#if PG_VERSION_NUM >= 190000
	return INSTR_TIME_GET_MICROSEC(query->query_instr->total);
#else
	/* done by each hook that reads it */
	InstrEndLoop(query->totaltime);
	return (uint64) (query->totaltime->total * 1000000.0);
#endif
}

static void
start(QueryDesc *query, int eflags)
{
	if (previous_start != NULL)
		previous_start(query, eflags);
	else
		standard_ExecutorStart(query, eflags);

	if (kinds_of(query) == 0)
		return;
	/* now, as an error at the query's end would undo what it has done */
	statistics_prepare();
	measure_query(query);
}

static void
end(QueryDesc *query)
{
	/* others may have asked for it, and then it tells nothing about us */
	if (query_is_measured(query))
	{
		uint32		kinds = kinds_of(query);

		if (kinds != 0)
			statistics_add(kinds, query_microseconds(query));
	}
	if (previous_end != NULL)
		previous_end(query);
	else
		standard_ExecutorEnd(query);
}

void
statistics_count_init(void)
{
	previous_start = ExecutorStart_hook;
	ExecutorStart_hook = start;
	previous_end = ExecutorEnd_hook;
	ExecutorEnd_hook = end;
}
