/*-------------------------------------------------------------------------
 *
 * oids.c
 *	  Unused OIDs, a range at a time.
 *
 * PostgreSQL asks the shared counter for one OID and an index whether it is in
 * use, again and again. Here a whole range is taken from the counter at once,
 * as if GetNewObjectId() had been called that often, and each catalog's index
 * is asked once, for the range. Until the counter has wrapped around the
 * answer is always 'none in use'. A range of its own also keeps a backend's
 * index entries together, away from the pages another one inserts into.
 *
 * The OIDs of a range are unused in every catalog of the allocator, which
 * is more than is needed and keeps the objects of one table consecutive.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "catalog_rows/catalog_rows.h"

/* How many OIDs beyond those taken are logged as used, as in varsup.c. */
#define OID_PREFETCH 8192

struct OidAllocator
{
	int			ncatalogs;
	Oid		   *catalogs;		/* every one has its OID as first column */
	Oid		   *oid_indexes;
	uint32		step;			/* how many to take from the counter at once */
	Oid			next;			/* next one of the range to consider */
	uint32		left;			/* how many are left from there */
	Oid		   *used;			/* OIDs of the range in use, ascending */
	int			nused;
	int			used_size;
};

static Oid	counter_advance(uint32 count);
static void find_used(OidAllocator *allocator);
static int	compare_oids(const void *a, const void *b);

/* An allocator in the current memory context; the arrays are copied. */
OidAllocator *
oid_allocator_create(const Oid *catalogs, const Oid *oid_indexes, int ncatalogs)
{
	OidAllocator *allocator = palloc0(sizeof(OidAllocator));

	allocator->ncatalogs = ncatalogs;
	allocator->catalogs = palloc(ncatalogs * sizeof(Oid));
	memcpy(allocator->catalogs, catalogs, ncatalogs * sizeof(Oid));
	allocator->oid_indexes = palloc(ncatalogs * sizeof(Oid));
	memcpy(allocator->oid_indexes, oid_indexes, ncatalogs * sizeof(Oid));
	allocator->step = 1;
	allocator->used_size = 64;
	allocator->used = palloc(allocator->used_size * sizeof(Oid));

	return allocator;
}

/* Announce that about `wanted` OIDs will be asked for. */
void
oid_allocator_reserve(OidAllocator *allocator, uint32 wanted)
{
	allocator->step = Max(wanted, 1);
}

/* An OID that no catalog of the allocator uses, not even in a dead row. */
Oid
oid_allocator_next(OidAllocator *allocator)
{
	for (;;)
	{
		Oid			result;

		CHECK_FOR_INTERRUPTS();

		if (allocator->left == 0)
		{
			allocator->next = counter_advance(allocator->step);
			allocator->left = allocator->step;
			find_used(allocator);
		}

		result = allocator->next++;
		allocator->left--;

		if (allocator->nused == 0 ||
			bsearch(&result, allocator->used, allocator->nused,
					sizeof(Oid), compare_oids) == NULL)
			return result;
	}
}

/*
 * Take `count` consecutive OIDs from the shared counter. What a crash must
 * not give out again is logged, as GetNewObjectId() does.
 */
static Oid
counter_advance(uint32 count)
{
	Oid			first;

	LWLockAcquire(OidGenLock, LW_EXCLUSIVE);

	/* a range does not cross the wraparound; the OIDs before it are skipped */
	if (TransamVariables->nextOid < (Oid) FirstNormalObjectId ||
		TransamVariables->nextOid > PG_UINT32_MAX - count)
	{
		TransamVariables->nextOid = FirstNormalObjectId;
		TransamVariables->oidCount = 0;
	}
	first = TransamVariables->nextOid;

	if (TransamVariables->oidCount < count)
	{
		/*
		 * the logged value may wrap around; the counter's next user sees to
		 * it
		 */
		XLogPutNextOid(first + count + OID_PREFETCH);
		TransamVariables->oidCount = count + OID_PREFETCH;
	}
	TransamVariables->nextOid += count;
	TransamVariables->oidCount -= count;

	LWLockRelease(OidGenLock);

	return first;
}

/* Which OIDs of the new range are in use? */
static void
find_used(OidAllocator *allocator)
{
	Oid			low = allocator->next;
	Oid			high = allocator->next + allocator->left - 1;

	allocator->nused = 0;
	for (int i = 0; i < allocator->ncatalogs; i++)
	{
		Relation	catalog = table_open(allocator->catalogs[i], AccessShareLock);
		ScanKeyData key[2];
		SysScanDesc scan;
		HeapTuple	tuple;

		ScanKeyInit(&key[0], 1, BTGreaterEqualStrategyNumber, F_OIDGE, ObjectIdGetDatum(low));
		ScanKeyInit(&key[1], 1, BTLessEqualStrategyNumber, F_OIDLE, ObjectIdGetDatum(high));

		/*
		 * dead rows count too: see GetNewOidWithIndex() on snapshots and
		 * TOAST
		 */
		scan = systable_beginscan(catalog, allocator->oid_indexes[i], true, SnapshotAny, 2, key);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			bool		isnull;
			Datum		oid = heap_getattr(tuple, 1, RelationGetDescr(catalog), &isnull);

			if (allocator->nused == allocator->used_size)
			{
				allocator->used_size *= 2;
				allocator->used = repalloc(allocator->used, allocator->used_size * sizeof(Oid));
			}
			allocator->used[allocator->nused++] = DatumGetObjectId(oid);
		}
		systable_endscan(scan);
		table_close(catalog, AccessShareLock);
	}
	qsort(allocator->used, allocator->nused, sizeof(Oid), compare_oids);
}

static int
compare_oids(const void *a, const void *b)
{
	Oid			oa = *(const Oid *) a;
	Oid			ob = *(const Oid *) b;

	return oa < ob ? -1 : oa > ob ? 1 : 0;
}
