/*-------------------------------------------------------------------------
 *
 * metadata_memory.c
 *	  A limit for what a session's catalog caches hold.
 *
 * PostgreSQL keeps what it has read of a relation for as long as the session
 * lives, over 7 kB for a small table with a primary key: too much where a
 * pool of sessions serves tens of thousands of tables. Where the caches exceed
 * pgbillion_tables.metadata_memory, all of them are given up at the end of a
 * statement. What comes next reads the catalogs again.
 *
 * InvalidateSystemCaches() is what does it, as when a session has missed
 * messages from others. That can happen wherever a lock is taken, so all code
 * of a server is prepared: entries in use stay, or are built anew in place,
 * and plans are made again when they are next used.
 *
 * Memory of entries goes back to lists of free chunks, and is used again
 * before more is taken. So a session stays at the limit, but does not shrink;
 * and what is free must not count, or the caches would be given up with every
 * statement from then on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"

#include "session/session.h"

/*
 * Looking takes time for each index in the caches, and for each free chunk: of
 * how many one statement may have to pay for, where there are new entries; and
 * statements for each of them, where there are none.
 */
#define SEEN_PER_STATEMENT 200
#define STATEMENTS_PER_SEEN 4

static int	limit = 0;			/* kB, or 0: none */
static Size least = 0;			/* what stayed when they were last given up */
static uint64 times = 0;		/* given up */

static uint64 statements = 0;	/* since the last look */
static uint64 seen = 0;			/* indexes and free chunks, by the last look */

/* what tells of new entries */
static MemoryContext newest = NULL;
static Size allocated = 0;

static ExecutorEnd_hook_type previous_end_hook;

static void assign_limit(int newval, void *extra);
static void end_statement(QueryDesc *desc);
static void end_transaction(XactEvent event, void *arg);
static void look(void);
static Size cache_memory(uint64 *parts);
static Size plan_memory(MemoryContext parent);
static bool has_plans(MemoryContext context);

void
metadata_memory_init(void)
{
	DefineCustomIntVariable("pgbillion_tables.metadata_memory",
							"Sets how much memory the session's catalog caches may hold.",
							"Where they hold more, they are given up between statements. 0 is without a limit.",
							&limit, 0, 0, INT_MAX, PGC_USERSET, GUC_UNIT_KB,
							NULL, assign_limit, NULL);
	previous_end_hook = ExecutorEnd_hook;
	ExecutorEnd_hook = end_statement;
	RegisterXactCallback(end_transaction, NULL);
}

/* Another limit: look soon. */
static void
assign_limit(int newval, void *extra)
{
	seen = 0;
}

/* Statements of functions, too: a DO block can visit all tables of a database. */
static void
end_statement(QueryDesc *desc)
{
	if (previous_end_hook)
		previous_end_hook(desc);
	else
		standard_ExecutorEnd(desc);
	look();
}

/* Commands that are not planned have no other end. */
static void
end_transaction(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PRE_PREPARE)
		look();
}

/*
 * Give the caches up if they hold too much, and have grown by half of the
 * limit since the last time: what stayed then cannot be given up.
 */
static void
look(void)
{
	bool		grown;

	/* a worker ends soon */
	if (limit == 0 || IsParallelWorker())
		return;

	/* an index has a context of its own, which becomes the first child */
	grown = CacheMemoryContext->firstchild != newest ||
		MemoryContextMemAllocated(CacheMemoryContext, false) != allocated;
	statements++;
	if (statements < (grown ? seen / SEEN_PER_STATEMENT : seen * STATEMENTS_PER_SEEN))
		return;

	if (cache_memory(&seen) > Max((Size) limit * 1024, least + (Size) limit * 512))
	{
		InvalidateSystemCaches();
		times++;
		least = cache_memory(&seen);
	}
	statements = 0;
	newest = CacheMemoryContext->firstchild;
	allocated = MemoryContextMemAllocated(CacheMemoryContext, false);
}

/* Bytes in use for the catalog caches, and of how many parts that was added up. */
static Size
cache_memory(uint64 *parts)
{
	MemoryContextCounters own = {0};
	Size		children = 0;
	uint64		nchildren = 0;

	CacheMemoryContext->methods->stats(CacheMemoryContext, NULL, NULL, &own, false);
	for (MemoryContext child = CacheMemoryContext->firstchild; child != NULL; child = child->nextchild)
	{
		nchildren++;
		if (!has_plans(child))
			children += MemoryContextMemAllocated(child, true);
	}
	*parts = nchildren + own.freechunks;
	return own.totalspace - own.freespace + children;
}

/* Bytes of the saved plans, and functions with plans, that have their memory directly below a context. */
static Size
plan_memory(MemoryContext parent)
{
	Size		result = 0;

	for (MemoryContext child = parent->firstchild; child != NULL; child = child->nextchild)
		if (has_plans(child))
			result += MemoryContextMemAllocated(child, true);
	return result;
}

/* As plancache.c, spi.c and pl_comp.c call them. */
static bool
has_plans(MemoryContext context)
{
	return strncmp(context->name, "CachedPlan", strlen("CachedPlan")) == 0 ||
		strcmp(context->name, "SPI Plan") == 0 || strcmp(context->name, "PL/pgSQL function") == 0;
}

PG_FUNCTION_INFO_V1(pgbillion_metadata_memory);

/*
 * pgbillion_tables.metadata_memory(OUT caches bigint, OUT plans bigint, OUT given_up bigint) returns record
 *		Bytes in use for this session's catalog caches and for its saved plans,
 *		and how often the caches were given up.
 */
Datum
pgbillion_metadata_memory(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {0};
	uint64		parts;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum((int64) cache_memory(&parts));
	values[1] = Int64GetDatum((int64) (plan_memory(CacheMemoryContext) + plan_memory(TopMemoryContext)));
	values[2] = Int64GetDatum((int64) times);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}
