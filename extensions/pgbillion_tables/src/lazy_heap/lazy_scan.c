/*-------------------------------------------------------------------------
 *
 * lazy_scan.c
 *	  What reading a lazy table finds.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/lsyscache.h"

#include "lazy_heap/lazy_heap.h"

static void read_for_conflicts(Relation rel, Snapshot snapshot);

/*
 * Let heap meet all rows of a table that has just become one, for the
 * conflicts they mean to a serializable transaction.
 */
static void
read_for_conflicts(Relation rel, Snapshot snapshot)
{
	TableScanDesc scan;

	if (!CheckForSerializableConflictOutNeeded(rel, snapshot))
		return;
	scan = heap_routine->scan_begin(rel, snapshot, 0, NULL, NULL, SO_TYPE_SEQSCAN | SO_ALLOW_PAGEMODE);
	while (heap_getnext(scan, ForwardScanDirection) != NULL)
		CHECK_FOR_INTERRUPTS();
	heap_routine->scan_end(scan);
}

/*
 * A scan that begins on a lazy table finds nothing to its end, also when the
 * table becomes a heap meanwhile: its snapshot is older than the first row.
 * But its descriptor would be in heap's hands then, and may hold the file
 * number of before. So what it scans is a lazy table that stays one for ever,
 * and for whose scans the functions below answer.
 */
static TableScanDesc
lazy_scan_begin(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
				ParallelTableScanDesc pscan, uint32 flags)
{
	Oid			namespaceid;
	Oid			nothing = InvalidOid;
	Relation	empty;
	TableScanDesc scan;

	/*
	 * What heap would do for the table that is meant. For a bitmap it relies
	 * on the index; but BRIN asks for the size of the table, which is zero as
	 * long as the table is lazy for us.
	 */
	if (flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN | SO_TYPE_BITMAPSCAN))
	{
		Assert(snapshot);
		PredicateLockRelation(rel, snapshot);
	}

	/*
	 * ALTER TABLE SET ACCESS METHOD reads the table it is about to replace by
	 * a heap, and calls none of our other functions.
	 */
	if (OidIsValid(rel->rd_rel->reltablespace) && relation_is_lazy_heap(rel) &&
		CheckRelationLockedByMe(rel, AccessExclusiveLock, false) && !lazy_is_former(RelationGetRelid(rel)))
		lazy_remember_former(RelationGetRelid(rel), rel->rd_rel->relam);

	if (lazy_heap_read(rel, snapshot))
	{
		namespaceid = get_namespace_oid("pgbillion_tables", true);
		if (OidIsValid(namespaceid))
			nothing = get_relname_relid("nothing", namespaceid);
		/* not the extension's, if its schema has been renamed */
		if (OidIsValid(nothing) && !OidIsValid(getExtensionOfObject(RelationRelationId, nothing)))
			nothing = InvalidOid;
	}
	else if (pscan != NULL)
		/* it may say of when the table was lazy that there is no page */
		read_for_conflicts(rel, snapshot);
	/* the latter while the extension is being made or dropped */
	if (!relation_is_lazy_heap(rel) || !OidIsValid(nothing) || nothing == RelationGetRelid(rel))
		return heap_routine->scan_begin(rel, snapshot, nkeys, key, pscan, flags);

	empty = table_open(nothing, AccessShareLock);
	scan = heap_routine->scan_begin(empty, snapshot, nkeys, key, pscan, flags);
	/* the scan has its own reference */
	table_close(empty, NoLock);

	return scan;
}

static bool
lazy_scan_getnextslot(TableScanDesc scan, ScanDirection direction, TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	return false;
}

#if PG_VERSION_NUM < 180000
static bool
lazy_scan_bitmap_next_block(TableScanDesc scan, struct TBMIterateResult *tbmres)
{
	return false;
}

/* asked even of a block that there is not */
static bool
lazy_scan_bitmap_next_tuple(TableScanDesc scan, struct TBMIterateResult *tbmres,
							TupleTableSlot *slot)
{
	ExecClearTuple(slot);
	return false;
}
#else
static bool
lazy_scan_bitmap_next_tuple(TableScanDesc scan, TupleTableSlot *slot, bool *recheck,
							uint64 *lossy_pages, uint64 *exact_pages)
{
	ExecClearTuple(slot);
	return false;
}
#endif

static bool
lazy_scan_sample_next_block(TableScanDesc scan, struct SampleScanState *scanstate)
{
	return false;
}

/* What is put down for the workers must be of one moment. */
static Size
lazy_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	Size		size;

	(void) lazy_heap_refresh(rel);
	size = heap_routine->parallelscan_initialize(rel, pscan);
#if PG_VERSION_NUM >= 180000
	pscan->phs_locator = rel->rd_locator;
#endif
	return size;
}

#if PG_VERSION_NUM >= 190000
#define INDEX_FETCH_FLAGS_PARAMETER , uint32 flags
#define INDEX_FETCH_FLAGS_ARGUMENT , flags
#else
#define INDEX_FETCH_FLAGS_PARAMETER
#define INDEX_FETCH_FLAGS_ARGUMENT
#endif

static struct IndexFetchTableData *
lazy_index_fetch_begin(Relation rel INDEX_FETCH_FLAGS_PARAMETER)
{
	(void) lazy_heap_refresh(rel);
	return heap_routine->index_fetch_begin(rel INDEX_FETCH_FLAGS_ARGUMENT);
}

/*
 * What entries there are belong to rows that were never committed, or not as
 * far as this scan can see. Those of a first writer in progress tell a
 * serializable transaction of it, as its rows would; it has emptied the index
 * of all others.
 */
static bool
lazy_index_fetch_tuple(struct IndexFetchTableData *scan, ItemPointer tid, Snapshot snapshot,
					   TupleTableSlot *slot, bool *call_again, bool *all_dead)
{
	if (CheckForSerializableConflictOutNeeded(scan->rel, snapshot) &&
		!lazy_heap_read(scan->rel, snapshot))
		return heap_routine->index_fetch_tuple(scan, tid, snapshot, slot, call_again, all_dead);

	*call_again = false;
	if (all_dead != NULL)
		*all_dead = false;
	return false;
}

static bool
lazy_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
							 TupleTableSlot *slot)
{
	return lazy_heap_read(rel, snapshot) ? false : heap_routine->tuple_fetch_row_version(rel, tid, snapshot, slot);
}

static uint64
lazy_relation_size(Relation rel, ForkNumber forknum)
{
	return lazy_heap_refresh(rel) ? 0 : heap_routine->relation_size(rel, forknum);
}

static void
lazy_relation_fetch_toast_slice(Relation toastrel, Oid valueid, int32 attrsize,
								int32 sliceoffset, int32 slicelength, struct varlena *result)
{
	(void) lazy_heap_refresh(toastrel);
	heap_routine->relation_fetch_toast_slice(toastrel, valueid, attrsize, sliceoffset, slicelength, result);
}

static double
lazy_index_build_range_scan(Relation rel, Relation index, struct IndexInfo *info,
							bool allow_sync, bool anyvisible, bool progress,
							BlockNumber start, BlockNumber nblocks,
							IndexBuildCallback callback, void *state, TableScanDesc scan)
{
	if (!lazy_heap_refresh(rel))
		return heap_routine->index_build_range_scan(rel, index, info, allow_sync, anyvisible, progress,
													start, nblocks, callback, state, scan);

	/* as heap does, for a scan that a parallel build has begun */
	if (scan != NULL)
		table_endscan(scan);
	return 0;
}

static void
lazy_index_validate_scan(Relation rel, Relation index, struct IndexInfo *info,
						 Snapshot snapshot, struct ValidateIndexState *state)
{
	if (!lazy_heap_refresh(rel))
		heap_routine->index_validate_scan(rel, index, info, snapshot, state);
}

/* Put the functions above into the routine. */
void
lazy_scan_methods(TableAmRoutine *methods)
{
	methods->scan_begin = lazy_scan_begin;
	methods->scan_getnextslot = lazy_scan_getnextslot;
	methods->scan_getnextslot_tidrange = lazy_scan_getnextslot;
#if PG_VERSION_NUM < 180000
	methods->scan_bitmap_next_block = lazy_scan_bitmap_next_block;
#endif
	methods->scan_bitmap_next_tuple = lazy_scan_bitmap_next_tuple;
	methods->scan_sample_next_block = lazy_scan_sample_next_block;
	methods->parallelscan_initialize = lazy_parallelscan_initialize;
	methods->index_fetch_begin = lazy_index_fetch_begin;
	methods->index_fetch_tuple = lazy_index_fetch_tuple;
	methods->tuple_fetch_row_version = lazy_tuple_fetch_row_version;
	methods->index_build_range_scan = lazy_index_build_range_scan;
	methods->index_validate_scan = lazy_index_validate_scan;
	methods->relation_size = lazy_relation_size;
	methods->relation_fetch_toast_slice = lazy_relation_fetch_toast_slice;
}
