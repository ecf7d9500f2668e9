/*-------------------------------------------------------------------------
 *
 * lazy_heap.c
 *	  A table access method that is heap, but for the time before the first
 *	  row.
 *
 * A table of this access method has no row, ever: its first row makes it an
 * ordinary heap table, in the transaction that inserts it (pg_class.relam and
 * relfilenode change, the files are made, and nothing depends on this
 * extension afterwards). Everything else follows from that:
 *
 * - While the table is lazy its size is zero, whatever is asked of it, and
 *	 heap's own functions do the rest. Its pg_class.relfilenode is
 *	 LAZY_FILE_NUMBER, which is nobody's, so that no other relation can ever
 *	 be given a number that a lazy table counts on. Whether there is a file is
 *	 thus known from the catalogue alone.
 *
 * - The change to heap is an ordinary update of the catalogue. It commits or
 *	 aborts with the first row, savepoints included, together with the file,
 *	 whose creation is logged and undone as that of any new file.
 *
 * - Index entries are not undone. Those of a first row that was rolled back
 *	 stay, and would point to whatever row comes to their place later. So as
 *	 long as the table is lazy no index entry leads anywhere, and before it
 *	 becomes a heap its indexes are emptied.
 *
 * - Of two transactions that both insert a first row the second waits for the
 *	 first to end, on a lock of its own (see become_heap()); then it finds a
 *	 heap table, or does the work itself. Readers never wait.
 *
 * - A reader may hold a relation cache entry from before: it has had a lock
 *	 on the table that does not conflict with inserting. So whenever a lazy
 *	 table is about to be called empty, pg_class is looked at first; see
 *	 lazy_heap_refresh().
 *
 * - A serializable transaction must notice the rows it does not see. Those of
 *	 a first writer in progress are in a file that the reader knows nothing
 *	 of, so that it takes the writer's id from pg_class; see lazy_heap_read().
 *
 * A lazy table can have a file nevertheless: when it is unlogged or temporary,
 * or was truncated or moved to another tablespace, core decides about the
 * file's number. Nothing is ever in such a file; a heap gets a new one.
 * relfrozenxid is 0 as long as there is no row, except after a rewrite by
 * ALTER TABLE, and so no vacuum is due.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/multixact.h"
#include "access/subtrans.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_shdepend.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "tcop/pquery.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "lazy_heap/lazy_heap.h"
#include "lazy_tables.h"

/*
 * The sub-object number of the lock that first writers take on a table. Core
 * never locks relations this way.
 */
#define FIRST_ROW_LOCK_SUBID 1

PG_FUNCTION_INFO_V1(pgbillion_lazy_heap_handler);
PG_FUNCTION_INFO_V1(pgbillion_to_heap);

/* heap's routine, and ours: a copy with the functions below in it */
static const TableAmRoutine *heap;
static TableAmRoutine lazy_heap_methods;

/* For other libraries. */
static LazyTables published = {
	.version = LAZY_TABLES_VERSION,
	.is_lazy = relation_is_lazy_heap,
	.read = lazy_heap_read,
};

/*
 * A table that has become a heap, or got or lost a file, in a way that leaves
 * core's records of what it depended on as a lazy table behind: this access
 * method, and a tablespace.
 */
typedef struct FormerLazyHeap
{
	Oid			relid;
	Oid			lazy_am;
} FormerLazyHeap;

/* To be seen to before commit; in TopTransactionContext. */
static List *former_lazy_heaps = NIL;

/* Has this transaction made a lazy table? (It may have been rolled back to a savepoint.) */
static bool made_lazy = false;

static bool still_lazy_in_catalog(Oid relid);
static TransactionId first_writer(Oid relid);
static void read_for_conflicts(Relation rel, Snapshot snapshot);
static void become_heap(Relation rel);
static void become_heap_locked(Relation rel);
static HeapTuple lock_pg_class_row(Relation pg_class, Oid relid);
static void empty_indexes(Relation rel);
static void forget_tablespace(Oid relid);
static bool creating_with_rows(void);
static Oid	rewritten_relation(Relation rel);
static void remember_former(Oid relid, Oid lazy_am);
static void lazy_heap_xact_callback(XactEvent event, void *arg);
static void forget_dependencies(void);
static bool is_former(Oid relid);
static void forget_lazy_deletions(void);

/* Is this a table of this access method, as far as its cache entry knows? */
bool
relation_is_lazy_heap(Relation rel)
{
	return rel->rd_tableam == &lazy_heap_methods;
}

/* ---- reading ---- */

/*
 * Called when a lazy table is about to be read. Returns whether it is lazy
 * still. If it is not, the cache entry is up to date on return, and the
 * caller must go on with the access method that it names.
 *
 * Locks alone do not tell us: one that we have held for a while does not make
 * us look at invalidation messages again, and a writer's messages are sent
 * after its rows have become visible. So pg_class itself is asked, as it is
 * now.
 */
bool
lazy_heap_refresh(Relation rel)
{
	AcceptInvalidationMessages();
	if (!relation_is_lazy_heap(rel))
		return false;

	/* nobody else sees a table that this transaction has created */
	if (rel->rd_createSubid != InvalidSubTransactionId ||
		still_lazy_in_catalog(RelationGetRelid(rel)))
		return true;

	InvalidateCatalogSnapshot();
	RelationCacheInvalidateEntry(RelationGetRelid(rel));
	Assert(!relation_is_lazy_heap(rel));

	return false;
}

/*
 * Does pg_class now, seen by a snapshot newer than anybody's, say that the
 * table has our access method?
 */
static bool
still_lazy_in_catalog(Oid relid)
{
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	bool		found = false;
	bool		lazy = false;

	/*
	 * SnapshotSelf can miss a row that is being updated: it may find the new
	 * version uncommitted and then the old one outdated. The caller's lock
	 * keeps the table from being dropped, so that it is there.
	 */
	while (!found)
	{
		ScanKeyData key;
		SysScanDesc scan;
		HeapTuple	tuple;

		CHECK_FOR_INTERRUPTS();
		ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(relid));
		scan = systable_beginscan(pg_class, ClassOidIndexId, true, SnapshotSelf, 1, &key);
		tuple = systable_getnext(scan);
		if (HeapTupleIsValid(tuple))
		{
			found = true;
			lazy = ((Form_pg_class) GETSTRUCT(tuple))->relam != HEAP_TABLE_AM_OID;
		}
		systable_endscan(scan);
	}
	table_close(pg_class, AccessShareLock);

	return lazy;
}

/*
 * The same for a scan under `snapshot`, which may be serializable, and then
 * conflicts with whoever has inserted rows that it does not see. Heap notices
 * that when it meets the rows; of a table that is lazy for us they can only be
 * a first writer's who is in progress.
 *
 * A scan that looks for rows also needs a predicate lock (of the table or an
 * index), and must have it before it calls this. Then nobody is missed: a
 * first writer changes pg_class before it looks for such locks, so that
 * either it finds ours, or we find it here, or it has committed by the time
 * pg_class is looked at again, and its rows are met in the heap.
 *
 * It conflicts with a first writer whatever it has inserted, and with one that
 * only called pgbillion_tables.to_heap().
 */
bool
lazy_heap_read(Relation rel, Snapshot snapshot)
{
	TransactionId writer = InvalidTransactionId;

	if (relation_is_lazy_heap(rel) && CheckForSerializableConflictOutNeeded(rel, snapshot))
		writer = first_writer(RelationGetRelid(rel));
	if (!lazy_heap_refresh(rel))
		return false;

	if (TransactionIdIsValid(writer))
	{
		/* as HeapCheckForSerializableConflictOut() does */
		writer = SubTransGetTopmostTransaction(writer);
		if (!TransactionIdPrecedes(writer, TransactionXmin))
			CheckForSerializableConflictOut(rel, writer, snapshot);
	}
	return true;
}

/*
 * The transaction of somebody else that is making the table a heap, perhaps a
 * subtransaction, or InvalidTransactionId. Where it has done so more than once,
 * in one subtransaction after the other, any of them.
 */
static TransactionId
first_writer(Oid relid)
{
	TransactionId result = InvalidTransactionId;
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	SnapshotData dirty;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	InitDirtySnapshot(dirty);
	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(pg_class, ClassOidIndexId, true, &dirty, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		/* dirty.xmin: who has inserted this version, while in progress */
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == HEAP_TABLE_AM_OID &&
			TransactionIdIsValid(dirty.xmin))
			result = dirty.xmin;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);

	return result;
}

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
	scan = heap->scan_begin(rel, snapshot, 0, NULL, NULL, SO_TYPE_SEQSCAN | SO_ALLOW_PAGEMODE);
	while (heap_getnext(scan, ForwardScanDirection) != NULL)
		CHECK_FOR_INTERRUPTS();
	heap->scan_end(scan);
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
	 * a heap, and calls nothing else of ours.
	 */
	if (OidIsValid(rel->rd_rel->reltablespace) && relation_is_lazy_heap(rel) &&
		CheckRelationLockedByMe(rel, AccessExclusiveLock, false) && !is_former(RelationGetRelid(rel)))
		remember_former(RelationGetRelid(rel), rel->rd_rel->relam);

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
		return heap->scan_begin(rel, snapshot, nkeys, key, pscan, flags);

	empty = table_open(nothing, AccessShareLock);
	scan = heap->scan_begin(empty, snapshot, nkeys, key, pscan, flags);
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
	size = heap->parallelscan_initialize(rel, pscan);
#if PG_VERSION_NUM >= 180000
	pscan->phs_locator = rel->rd_locator;
#endif
	return size;
}

static struct IndexFetchTableData *
lazy_index_fetch_begin(Relation rel)
{
	(void) lazy_heap_refresh(rel);
	return heap->index_fetch_begin(rel);
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
		return heap->index_fetch_tuple(scan, tid, snapshot, slot, call_again, all_dead);

	*call_again = false;
	if (all_dead != NULL)
		*all_dead = false;
	return false;
}

static bool
lazy_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
							 TupleTableSlot *slot)
{
	return lazy_heap_read(rel, snapshot) ? false : heap->tuple_fetch_row_version(rel, tid, snapshot, slot);
}

static uint64
lazy_relation_size(Relation rel, ForkNumber forknum)
{
	return lazy_heap_refresh(rel) ? 0 : heap->relation_size(rel, forknum);
}

static void
lazy_relation_fetch_toast_slice(Relation toastrel, Oid valueid, int32 attrsize,
								int32 sliceoffset, int32 slicelength, struct varlena *result)
{
	(void) lazy_heap_refresh(toastrel);
	heap->relation_fetch_toast_slice(toastrel, valueid, attrsize, sliceoffset, slicelength, result);
}

static double
lazy_index_build_range_scan(Relation rel, Relation index, struct IndexInfo *info,
							bool allow_sync, bool anyvisible, bool progress,
							BlockNumber start, BlockNumber nblocks,
							IndexBuildCallback callback, void *state, TableScanDesc scan)
{
	if (!lazy_heap_refresh(rel))
		return heap->index_build_range_scan(rel, index, info, allow_sync, anyvisible, progress,
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
		heap->index_validate_scan(rel, index, info, snapshot, state);
}

/* ---- the first row ---- */

static void
lazy_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
				  struct BulkInsertStateData *bistate)
{
	become_heap(rel);
	heap->tuple_insert(rel, slot, cid, options, bistate);
}

static void
lazy_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							  struct BulkInsertStateData *bistate, uint32 token)
{
	become_heap(rel);
	heap->tuple_insert_speculative(rel, slot, cid, options, bistate, token);
}

static void
lazy_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
				  struct BulkInsertStateData *bistate)
{
	become_heap(rel);
	heap->multi_insert(rel, slots, nslots, cid, options, bistate);
}

/*
 * Make a lazy table, on which the caller holds at least RowExclusiveLock, an
 * ordinary heap table, and its TOAST table with it. On return rel is its
 * up-to-date cache entry. May wait for another transaction doing the same.
 */
static void
become_heap(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	Oid			toastid;

	/* see creating_with_rows() */
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot insert the first row of \"%s\" during a parallel operation",
						RelationGetRelationName(rel)),
				 errhint("Create it with access method heap, or SET max_parallel_workers_per_gather = 0.")));

	/*
	 * Kept until the end of the transaction: another first writer can neither
	 * use our file before it is committed nor make a second one.
	 */
	if (rel->rd_createSubid == InvalidSubTransactionId)
	{
		LockDatabaseObject(RelationRelationId, relid, FIRST_ROW_LOCK_SUBID, ExclusiveLock);
		AcceptInvalidationMessages();
		if (!relation_is_lazy_heap(rel))
			return;
	}

	/* heap's insertion writes to it directly, past any access method */
	toastid = rel->rd_rel->reltoastrelid;
	if (OidIsValid(toastid))
	{
		Relation	toastrel = table_open(toastid, RowExclusiveLock);

		if (relation_is_lazy_heap(toastrel))
			become_heap_locked(toastrel);
		table_close(toastrel, NoLock);
	}

	become_heap_locked(rel);
}

/*
 * The same for one relation, with no other first writer about. Its old file,
 * should it have one, may hold rows of first writers that were rolled back
 * longer ago than relfrozenxid, being 0, has told, and so is not used.
 */
static void
become_heap_locked(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	Oid			lazy_am = rel->rd_rel->relam;
	bool		had_file = !file_number_is_lazy(rel->rd_rel->relfilenode);
	RelFileLocator locator = rel->rd_locator;
	Relation	pg_class;
	HeapTuple	tuple;
	ItemPointerData otid;
	Form_pg_class form;

	empty_indexes(rel);

	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	tuple = lock_pg_class_row(pg_class, relid);
	otid = tuple->t_self;
	form = (Form_pg_class) GETSTRUCT(tuple);
	Assert(form->relam == lazy_am);

	if (had_file)
		RelationDropStorage(rel);
	form->relam = HEAP_TABLE_AM_OID;
	form->relfilenode = GetNewRelFileNumber(form->reltablespace, NULL, form->relpersistence);
	RelFileLocatorNumber(locator) = form->relfilenode;
	heap->relation_set_new_filelocator(rel, &locator, form->relpersistence,
									   &form->relfrozenxid, &form->relminmxid);

	CatalogTupleUpdate(pg_class, &otid, tuple);
	UnlockTuple(pg_class, &otid, InplaceUpdateTupleLock);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);

	/* the file now stands in for what CREATE TABLE recorded in its place */
	if (rel->rd_rel->relkind != RELKIND_TOASTVALUE)
		changeDependencyFor(RelationRelationId, relid, AccessMethodRelationId,
							lazy_am, HEAP_TABLE_AM_OID);
	if (OidIsValid(rel->rd_rel->reltablespace))
		forget_tablespace(relid);

	/* the rewritten relation will get the transient one's access method */
	if (OidIsValid(rewritten_relation(rel)))
		remember_former(rewritten_relation(rel), lazy_am);

	CommandCounterIncrement();
	Assert(!relation_is_lazy_heap(rel));
	RelationAssumeNewRelfilelocator(rel);
}

/*
 * A copy of a relation's pg_class row that nobody else can update before we
 * do, locked as SearchSysCacheLockedCopy1() does. Waits for a transaction that
 * has updated it (GRANT takes no lock on the table), and takes its version.
 */
static HeapTuple
lock_pg_class_row(Relation pg_class, Oid relid)
{
	for (;;)
	{
		HeapTuple	tuple = SearchSysCacheLockedCopy1(RELOID, ObjectIdGetDatum(relid));
		HeapTupleData current;
		TM_FailureData failure;
		TM_Result	result;
		Buffer		buffer;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for relation %u", relid);

		current.t_self = tuple->t_self;
		result = heap_lock_tuple(pg_class, &current, GetCurrentCommandId(false),
								 LockTupleNoKeyExclusive, LockWaitBlock, false, &buffer, &failure);
		ReleaseBuffer(buffer);
		if (result == TM_Ok)
			return tuple;

		/* its messages were sent before it let us go */
		UnlockTuple(pg_class, &tuple->t_self, InplaceUpdateTupleLock);
		heap_freetuple(tuple);
		if (result != TM_Updated)
			elog(ERROR, "unexpected result %d for the pg_class row of relation %u", result, relid);
		AcceptInvalidationMessages();
		InvalidateCatalogSnapshot();
	}
}

/*
 * Make a table, if it is lazy, an ordinary heap table, files included, and tell
 * whether it was. The caller holds RowExclusiveLock on it.
 */
bool
lazy_to_heap(Relation rel)
{
	bool		was_lazy = relation_is_lazy_heap(rel);

	if (was_lazy)
		become_heap(rel);
	return was_lazy;
}

static bool
every_entry(ItemPointer tid, void *state)
{
	return true;
}

/*
 * Delete what first writers that were rolled back have left in the indexes of
 * a lazy table. A btree that nobody has inserted into is its metapage; others
 * do not tell so easily.
 */
static void
empty_indexes(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), RowExclusiveLock);

		if (index->rd_rel->relam != BTREE_AM_OID || RelationGetNumberOfBlocks(index) > 1)
		{
			IndexVacuumInfo info = {
				.index = index,
				.estimated_count = true,
				.message_level = DEBUG2
			};

#if PG_VERSION_NUM >= 160000
			info.heaprel = rel;
#endif
			(void) index_bulk_delete(&info, NULL, every_entry, NULL);
		}
		index_close(index, NoLock);
	}
	list_free(indexes);
}

/*
 * Delete the record that keeps DROP TABLESPACE from forgetting a table without
 * a file, and no other: core's changeDependencyOnTablespace() would delete
 * those of the owner and of grants too.
 */
static void
forget_tablespace(Oid relid)
{
	Relation	shdepend = table_open(SharedDependRelationId, RowExclusiveLock);
	ScanKeyData key[4];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_shdepend_dbid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(MyDatabaseId));
	ScanKeyInit(&key[1], Anum_pg_shdepend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[2], Anum_pg_shdepend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(relid));
	ScanKeyInit(&key[3], Anum_pg_shdepend_objsubid, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(0));
	scan = systable_beginscan(shdepend, SharedDependDependerIndexId, true, NULL, 4, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (((Form_pg_shdepend) GETSTRUCT(tuple))->deptype == SHARED_DEPENDENCY_TABLESPACE)
			CatalogTupleDelete(shdepend, &tuple->t_self);
	}
	systable_endscan(scan);
	table_close(shdepend, RowExclusiveLock);
}

/*
 * pgbillion_tables.to_heap(tables regclass[]) returns bigint
 *		Make lazy tables ordinary heap tables, files included, and return how
 *		many of them were lazy. The caller must own them.
 */
Datum
pgbillion_to_heap(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum	   *tables;
	bool	   *nulls;
	int			ntables;
	int64		changed = 0;

	PreventCommandIfReadOnly("pgbillion_tables.to_heap()");

	deconstruct_array(array, REGCLASSOID, sizeof(Oid), true, TYPALIGN_INT,
					  &tables, &nulls, &ntables);
	for (int i = 0; i < ntables; i++)
	{
		Relation	rel;
		Oid			relid;
		char		relkind;

		CHECK_FOR_INTERRUPTS();
		if (nulls[i])
			continue;
		relid = DatumGetObjectId(tables[i]);
		relkind = get_rel_relkind(relid);
		if (relkind == '\0')
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation with OID %u does not exist", relid)));
		if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is not a table", get_rel_name(relid))));
		if (!class_owner_check(relid, GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind), get_rel_name(relid));

		rel = table_open(relid, RowExclusiveLock);
		if (lazy_to_heap(rel))
			changed++;
		table_close(rel, NoLock);
	}

	PG_RETURN_INT64(changed);
}

/* ---- files ---- */

/*
 * A new table gets no file. rel is then the cache entry that its pg_class row
 * is about to be made from; core passes its own locator.
 */
static void
lazy_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator,
								  char persistence, TransactionId *freezeXid,
								  MultiXactId *minmulti)
{
	bool		is_new = newrlocator == &rel->rd_locator;

	/* one that is about to be filled is an ordinary heap from the start */
	if (is_new && creating_with_rows())
	{
		remember_former(RelationGetRelid(rel), rel->rd_rel->relam);
		if (OidIsValid(rewritten_relation(rel)))
			remember_former(rewritten_relation(rel), rel->rd_rel->relam);
		rel->rd_rel->relam = HEAP_TABLE_AM_OID;
		rel->rd_tableam = heap;
		heap->relation_set_new_filelocator(rel, newrlocator, persistence, freezeXid, minmulti);
		return;
	}

	/*
	 * Unlogged tables need their init fork from the start. A rewrite's
	 * transient table is not the one that ends up with what is made here, so
	 * that in a tablespace only a file protects that from DROP TABLESPACE.
	 */
	if (persistence != RELPERSISTENCE_PERMANENT || IsBinaryUpgrade ||
		(OidIsValid(rel->rd_rel->reltablespace) && OidIsValid(rewritten_relation(rel))))
		is_new = false;

#ifdef USE_ASSERT_CHECKING

	/*
	 * core asserts that a new relation skips WAL if, and only if, its file
	 * does
	 */
	if (!XLogIsNeeded())
		is_new = false;
#endif

	if (IsBinaryUpgrade && file_number_is_lazy(RelFileLocatorNumber(*newrlocator)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot upgrade lazy table \"%s\", which has no file", RelationGetRelationName(rel)),
				 errhint("CALL pgbillion_tables.all_to_heap() in each database of the old cluster first.")));

	if (is_new)
	{
		made_lazy = true;
		rel->rd_rel->relfilenode = LAZY_FILE_NUMBER;
		RelFileLocatorNumber(rel->rd_locator) = LAZY_FILE_NUMBER;
		if (OidIsValid(rel->rd_rel->reltablespace))
			recordDependencyOnTablespace(RelationRelationId, RelationGetRelid(rel),
										 rel->rd_rel->reltablespace);
	}
	else
	{
		heap->relation_set_new_filelocator(rel, newrlocator, persistence, freezeXid, minmulti);
		/* a truncated table may have had none */
		if (OidIsValid(rel->rd_rel->reltablespace) && newrlocator != &rel->rd_locator)
			forget_tablespace(RelationGetRelid(rel));
	}
	/* its tablespace, or whether it has a file, is about to change */
	if (OidIsValid(rewritten_relation(rel)))
		remember_former(rewritten_relation(rel), rel->rd_rel->relam);

	/* without rows there is nothing to freeze */
	*freezeXid = InvalidTransactionId;
	*minmulti = InvalidMultiXactId;
}

/* The relation that a transient table of make_new_heap() is made for, if it is one. */
static Oid
rewritten_relation(Relation rel)
{
	unsigned int relid;
	int			length = -1;

	if (sscanf(RelationGetRelationName(rel), "pg_temp_%u%n", &relid, &length) == 1 &&
		RelationGetRelationName(rel)[length] == '\0')
		return relid;
	return InvalidOid;
}

static void
lazy_relation_nontransactional_truncate(Relation rel)
{
	if (!file_number_is_lazy(rel->rd_rel->relfilenode))
		heap->relation_nontransactional_truncate(rel);
}

/*
 * Is a command running that inserts into the table it creates? Its query may
 * run in parallel, and then the catalogue cannot be changed when the first row
 * comes. (Where such a command is inside a function we cannot see it here, and
 * become_heap() has to refuse a parallel plan.)
 */
static bool
creating_with_rows(void)
{
	ListCell   *lc;

	if (ActivePortal == NULL)
		return false;
	foreach(lc, ActivePortal->stmts)
	{
		Node	   *stmt = lfirst_node(PlannedStmt, lc)->utilityStmt;

		if (stmt != NULL && IsA(stmt, ExplainStmt))
			stmt = ((Query *) ((ExplainStmt *) stmt)->query)->utilityStmt;
		if (stmt != NULL && (IsA(stmt, CreateTableAsStmt) || IsA(stmt, RefreshMatViewStmt)))
			return true;
	}
	return false;
}

/* ALTER TABLE SET TABLESPACE; core has chosen the file's number. */
static void
lazy_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	if (!file_number_is_lazy(rel->rd_rel->relfilenode))
		heap->relation_copy_data(rel, newrlocator);
	else
	{
		Assert(RelationIsPermanent(rel));
		smgrclose(RelationCreateStorage(*newrlocator, rel->rd_rel->relpersistence, true));
	}
	forget_tablespace(RelationGetRelid(rel));
}

/* CLUSTER and VACUUM FULL, with the table locked exclusively. */
static void
lazy_relation_copy_for_cluster(Relation oldrel, Relation newrel, Relation index, bool use_sort,
							   TransactionId oldest_xmin, TransactionId *xid_cutoff,
							   MultiXactId *multi_cutoff, double *num_tuples,
							   double *tups_vacuumed, double *tups_recently_dead)
{
	*xid_cutoff = InvalidTransactionId;
	*multi_cutoff = InvalidMultiXactId;
	*num_tuples = *tups_vacuumed = *tups_recently_dead = 0;
}

/*
 * There is nothing to vacuum, nor to freeze, even if a rewrite has left a
 * relfrozenxid, which must not hold back the database's for ever.
 */
static void
lazy_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy strategy)
{
	Relation	pg_class;
	HeapTuple	tuple;
	ItemPointerData otid;
	Form_pg_class form;

	if (!lazy_heap_refresh(rel))
	{
		heap->relation_vacuum(rel, params, strategy);
		return;
	}

	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	tuple = lock_pg_class_row(pg_class, RelationGetRelid(rel));
	otid = tuple->t_self;
	form = (Form_pg_class) GETSTRUCT(tuple);

	/* a first writer may have been faster; then it is heap's next time */
	if (form->relam == rel->rd_rel->relam &&
		(TransactionIdIsValid(form->relfrozenxid) || form->reltuples < 0))
	{
		form->relfrozenxid = InvalidTransactionId;
		form->relminmxid = InvalidMultiXactId;
		form->reltuples = 0;
		CatalogTupleUpdate(pg_class, &otid, tuple);
	}
	UnlockTuple(pg_class, &otid, InplaceUpdateTupleLock);
	heap_freetuple(tuple);
	table_close(pg_class, RowExclusiveLock);

	report_vacuum(RelationGetRelid(rel), false);
}

static Oid
lazy_relation_toast_am(Relation rel)
{
	return rel->rd_rel->relam;
}

/* ---- at the end of the transaction ---- */

static void
remember_former(Oid relid, Oid lazy_am)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	FormerLazyHeap *former = palloc(sizeof(FormerLazyHeap));

	former->relid = relid;
	former->lazy_am = lazy_am;
	former_lazy_heaps = lappend(former_lazy_heaps, former);
	MemoryContextSwitchTo(old);
}

static void
lazy_heap_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			forget_dependencies();
			forget_lazy_deletions();
			if (made_lazy)
				mark_lazy_tables();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			former_lazy_heaps = NIL;
			made_lazy = false;
			break;
		default:
			break;
	}
}

static bool
is_former(Oid relid)
{
	ListCell   *lc;

	foreach(lc, former_lazy_heaps)
	{
		if (((FormerLazyHeap *) lfirst(lc))->relid == relid)
			return true;
	}
	return false;
}

/*
 * DROP EXTENSION … CASCADE must not find tables that have rows, nor DROP
 * TABLESPACE those that have a file, which speaks for itself, or are not in it.
 */
static void
forget_dependencies(void)
{
	ListCell   *lc;

	foreach(lc, former_lazy_heaps)
	{
		FormerLazyHeap *former = lfirst(lc);
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(former->relid));
		Form_pg_class form;

		if (!HeapTupleIsValid(tuple))
			continue;			/* dropped, or rolled back */
		form = (Form_pg_class) GETSTRUCT(tuple);
		if (form->relam == HEAP_TABLE_AM_OID)
			deleteDependencyRecordsForSpecific(RelationRelationId, former->relid, DEPENDENCY_NORMAL,
											   AccessMethodRelationId, former->lazy_am);

		/*
		 * others rightly have such a record: a table's name may pretend to be
		 * a rewrite of theirs
		 */
		if (RELKIND_HAS_TABLE_AM(form->relkind) &&
			(!file_number_is_lazy(form->relfilenode) || !OidIsValid(form->reltablespace)))
			forget_tablespace(former->relid);
		ReleaseSysCache(tuple);
	}
}

/*
 * Take the deletion of the file that lazy tables do not have off the list of
 * files to delete. It would do no harm once, but up to 16
 * smgrDoPendingDeletes(), and replay, stumble over a file that is on the list
 * twice. Whoever drops a lazy table opens it first, and so has loaded this
 * library by now.
 */
static void
forget_lazy_deletions(void)
{
	RelFileLocator *locators;
	int			n = smgrGetPendingDeletes(true, &locators);
	List	   *seen = NIL;		/* at most one a tablespace */

	for (int i = 0; i < n; i++)
	{
		bool		again = false;
		ListCell   *lc;

		if (!file_number_is_lazy(RelFileLocatorNumber(locators[i])))
			continue;
		foreach(lc, seen)
		{
			RelFileLocator *other = lfirst(lc);

			again = again || RelFileLocatorEquals(locators[i], *other);
		}
		if (again)
			continue;
		seen = lappend(seen, &locators[i]);
		/* removes all entries for the same file */
		RelationPreserveStorage(locators[i], true);
	}
	list_free(seen);
	if (n > 0)
		pfree(locators);
}

/* Set up the access method when the library is loaded. */
void
lazy_heap_init(void)
{
	heap = GetHeapamTableAmRoutine();
	lazy_heap_methods = *heap;

	lazy_heap_methods.scan_begin = lazy_scan_begin;
	lazy_heap_methods.scan_getnextslot = lazy_scan_getnextslot;
	lazy_heap_methods.scan_getnextslot_tidrange = lazy_scan_getnextslot;
#if PG_VERSION_NUM < 180000
	lazy_heap_methods.scan_bitmap_next_block = lazy_scan_bitmap_next_block;
#endif
	lazy_heap_methods.scan_bitmap_next_tuple = lazy_scan_bitmap_next_tuple;
	lazy_heap_methods.scan_sample_next_block = lazy_scan_sample_next_block;
	lazy_heap_methods.parallelscan_initialize = lazy_parallelscan_initialize;
	lazy_heap_methods.index_fetch_begin = lazy_index_fetch_begin;
	lazy_heap_methods.index_fetch_tuple = lazy_index_fetch_tuple;
	lazy_heap_methods.tuple_fetch_row_version = lazy_tuple_fetch_row_version;
	lazy_heap_methods.tuple_insert = lazy_tuple_insert;
	lazy_heap_methods.tuple_insert_speculative = lazy_tuple_insert_speculative;
	lazy_heap_methods.multi_insert = lazy_multi_insert;
	lazy_heap_methods.relation_set_new_filelocator = lazy_relation_set_new_filelocator;
	lazy_heap_methods.relation_nontransactional_truncate = lazy_relation_nontransactional_truncate;
	lazy_heap_methods.relation_copy_data = lazy_relation_copy_data;
	lazy_heap_methods.relation_copy_for_cluster = lazy_relation_copy_for_cluster;
	lazy_heap_methods.relation_vacuum = lazy_relation_vacuum;
	lazy_heap_methods.index_build_range_scan = lazy_index_build_range_scan;
	lazy_heap_methods.index_validate_scan = lazy_index_validate_scan;
	lazy_heap_methods.relation_size = lazy_relation_size;
	lazy_heap_methods.relation_toast_am = lazy_relation_toast_am;
	lazy_heap_methods.relation_fetch_toast_slice = lazy_relation_fetch_toast_slice;

	RegisterXactCallback(lazy_heap_xact_callback, NULL);
	*find_rendezvous_variable(LAZY_TABLES_RENDEZVOUS) = &published;
}

Datum
pgbillion_lazy_heap_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&lazy_heap_methods);
}
