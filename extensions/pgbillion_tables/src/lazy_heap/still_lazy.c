/*-------------------------------------------------------------------------
 *
 * still_lazy.c
 *	  Is a table still lazy, for a query that is about to read it?
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/subtrans.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "lazy_heap/lazy_heap.h"

static bool still_lazy_in_catalog(Oid relid);
static TransactionId first_writer(Oid relid);

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
 * conflicts with transactions that have inserted rows that it does not see. Heap notices
 * that when it meets the rows; of a table that is lazy for us, they can only be
 * those of a first writer that is in progress.
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
 * subtransaction, or InvalidTransactionId. Where it has done so more than
 * once, in one subtransaction after the other, any of them.
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
		/*
		 * dirty.xmin: the transaction that has inserted this version, while
		 * in progress
		 */
		if (((Form_pg_class) GETSTRUCT(tuple))->relam == HEAP_TABLE_AM_OID &&
			TransactionIdIsValid(dirty.xmin))
			result = dirty.xmin;
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);

	return result;
}
