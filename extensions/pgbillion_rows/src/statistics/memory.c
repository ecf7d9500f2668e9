/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  The counters of each database, in shared memory.
 *
 * Since PostgreSQL 17 the first session that counts makes the memory. Before,
 * there is none unless the library is in shared_preload_libraries, and then
 * nothing is counted. No query fails because there is none to be had.
 *
 * There is a fixed number of places, and a database takes the first free one
 * from where its OID says, for as long as the server runs: so a place's OID
 * never changes once it is there. The last place is for all databases that
 * found none. Counters are atomic, and nobody waits for anybody.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif

#include "compat.h"
#include "statistics/statistics.h"

#define MEMORY_NAME "pgbillion_rows"
#define PLACES 256
/* more than the memory contexts that a subtransaction begins with, and less than malloc() takes of the system alone */
#define SUBTRANSACTION_NEEDS (96 * 1024)

typedef struct Place
{
	/* InvalidOid: free, or the last one */
	pg_atomic_uint32 database;
	pg_atomic_uint64 since;
	pg_atomic_uint64 queries[QUERY_KINDS];
	pg_atomic_uint64 microseconds[QUERY_KINDS];
} Place;

typedef struct Memory
{
	Place		places[PLACES];
} Memory;

static Memory *memory = NULL;
static Place *mine = NULL;		/* this database's, once it was looked up */

static void
#if PG_VERSION_NUM >= 190000
initialize(void *pointer, void *arg)
#else
initialize(void *pointer)
#endif
{
	for (int i = 0; i < PLACES; i++)
	{
		Place	   *place = &((Memory *) pointer)->places[i];

		pg_atomic_init_u32(&place->database, InvalidOid);
		pg_atomic_init_u64(&place->since, (uint64) GetCurrentTimestamp());
		for (int kind = 0; kind < QUERY_KINDS; kind++)
		{
			pg_atomic_init_u64(&place->queries[kind], 0);
			pg_atomic_init_u64(&place->microseconds[kind], 0);
		}
	}
}

/* Is there memory? Since 17 that raises an error when none can be had. */
static bool
attach(void)
{
#if PG_VERSION_NUM >= 170000
	bool		found;

	if (memory == NULL && IsUnderPostmaster)
		memory = GetNamedDSMSegment(MEMORY_NAME, sizeof(Memory), initialize, &found, NULL);
#endif
	return memory != NULL;
}

/*
 * Attach to the shared memory before the first query that counts. If that
 * raises an error, the error ends a subtransaction, which releases the locks,
 * and not the query; it is logged, and the session counts nothing.
 * Called where a subtransaction may begin, except in parallel mode: then a
 * later query counts.
 */
void
statistics_prepare(void)
{
#if PG_VERSION_NUM >= 170000
	static bool tried = false;
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	void	   *reserve;

	if (tried || IsInParallelMode())
		return;
	/* a subtransaction that lacks memory to begin ends the session */
	reserve = MemoryContextAllocExtended(context, SUBTRANSACTION_NEEDS, MCXT_ALLOC_NO_OOM);
	if (reserve == NULL)
		return;
	pfree(reserve);
	tried = true;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		/* what is caught below is no wish to end the query */
		HOLD_INTERRUPTS();
		(void) attach();
		RESUME_INTERRUPTS();
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		ereport(LOG,
				(errmsg("pgbillion_rows does not count the queries of this session: %s", error->message)));
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
#endif
}

/* The place of this database, which is taken if it has none. */
static Place *
place_of_database(void)
{
	if (mine != NULL)
		return mine;
	for (uint32 i = 0; i < PLACES - 1; i++)
	{
		Place	   *place = &memory->places[(MyDatabaseId + i) % (PLACES - 1)];
		uint32		database = InvalidOid;

		/* the time first, for processes that see the OID */
		if (pg_atomic_read_u32(&place->database) == InvalidOid)
			pg_atomic_write_u64(&place->since, (uint64) GetCurrentTimestamp());
		if (pg_atomic_compare_exchange_u32(&place->database, &database, MyDatabaseId) || database == MyDatabaseId)
			return mine = place;
	}
	return mine = &memory->places[PLACES - 1];
}

/*
 * Count a query that ran something of each of these kinds, a bit for each. Does
 * nothing without memory, and raises no errors.
 */
void
statistics_add(uint32 kinds, uint64 microseconds)
{
	Place	   *place;

	if (memory == NULL)
		return;
	place = place_of_database();
	for (int kind = 0; kind < QUERY_KINDS; kind++)
	{
		if ((kinds & (1 << kind)) == 0)
			continue;
		pg_atomic_fetch_add_u64(&place->queries[kind], 1);
		pg_atomic_fetch_add_u64(&place->microseconds[kind], (int64) microseconds);
	}
}

/* Raise an error where nothing is counted. */
static void
require_memory(void)
{
	if (!attach())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("queries are not counted, because pgbillion_rows is not in \"shared_preload_libraries\""),
				 errhint("PostgreSQL 17 and later count them without it.")));
}

/*
 * Return the counters of all databases that have any, and how many these are,
 * in the current memory context. Raises an error where nothing is counted.
 */
int
statistics_read(QueryCounts **counts)
{
	QueryCounts *found;
	int			n = 0;

	require_memory();
	found = palloc(sizeof(QueryCounts) * PLACES);
	for (int i = 0; i < PLACES; i++)
	{
		Place	   *place = &memory->places[i];
		QueryCounts *one = &found[n];
		uint64		all = 0;

		one->database = pg_atomic_read_u32(&place->database);
		one->since = (TimestampTz) pg_atomic_read_u64(&place->since);
		for (int kind = 0; kind < QUERY_KINDS; kind++)
		{
			one->queries[kind] = pg_atomic_read_u64(&place->queries[kind]);
			one->microseconds[kind] = pg_atomic_read_u64(&place->microseconds[kind]);
			all += one->queries[kind];
		}
		/* of the last place, only what found no other */
		if (OidIsValid(one->database) || (i == PLACES - 1 && all > 0))
			n++;
	}
	*counts = found;
	return n;
}

/* Begin to count this database's queries anew. Raises an error where nothing is counted. */
void
statistics_reset(void)
{
	Place	   *place;

	require_memory();
	place = place_of_database();
	for (int kind = 0; kind < QUERY_KINDS; kind++)
	{
		pg_atomic_write_u64(&place->queries[kind], 0);
		pg_atomic_write_u64(&place->microseconds[kind], 0);
	}
	pg_atomic_write_u64(&place->since, (uint64) GetCurrentTimestamp());
}

/* ---- before 17 ---- */

#if PG_VERSION_NUM < 170000
static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

static void
request(void)
{
	if (previous_request != NULL)
		previous_request();
	RequestAddinShmemSpace(sizeof(Memory));
}

/* In the postmaster, also when it starts over after a crash, and then with new memory. */
static void
startup(void)
{
	bool		found;

	if (previous_startup != NULL)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	memory = ShmemInitStruct(MEMORY_NAME, sizeof(Memory), &found);
	if (!found)
		initialize(memory);
	LWLockRelease(AddinShmemInitLock);
}
#endif

void
statistics_memory_init(void)
{
#if PG_VERSION_NUM < 170000
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
#endif
}
