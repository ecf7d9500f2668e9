/*-------------------------------------------------------------------------
 *
 * first_row.c
 *	  The first row of a lazy table, which makes it an ordinary heap table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/parallel.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "lazy_heap/lazy_heap.h"

/*
 * The sub-object number of the lock that first writers take on a table.
 * PostgreSQL never locks relations this way.
 */
#define FIRST_ROW_LOCK_SUBID 1

static void become_heap(Relation rel);
static void become_heap_locked(Relation rel);
static void empty_indexes(Relation rel);

static void
lazy_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, TableInsertOptions options,
				  struct BulkInsertStateData *bistate)
{
	become_heap(rel);
	heap_routine->tuple_insert(rel, slot, cid, options, bistate);
}

static void
lazy_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, TableInsertOptions options,
							  struct BulkInsertStateData *bistate, uint32 token)
{
	become_heap(rel);
	heap_routine->tuple_insert_speculative(rel, slot, cid, options, bistate, token);
}

static void
lazy_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, TableInsertOptions options,
				  struct BulkInsertStateData *bistate)
{
	become_heap(rel);
	heap_routine->multi_insert(rel, slots, nslots, cid, options, bistate);
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

	/*
	 * its file would have this session's number in its name, and heap would
	 * refuse the row
	 */
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));

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
	tuple = lazy_lock_class_row(pg_class, relid);
	otid = tuple->t_self;
	form = (Form_pg_class) GETSTRUCT(tuple);
	Assert(form->relam == lazy_am);

	if (had_file)
		RelationDropStorage(rel);
	form->relam = HEAP_TABLE_AM_OID;
	form->relfilenode = GetNewRelFileNumber(form->reltablespace, NULL, form->relpersistence);
	RelFileLocatorNumber(locator) = form->relfilenode;
	heap_routine->relation_set_new_filelocator(rel, &locator, form->relpersistence,
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
		lazy_forget_tablespace(relid);

	/* the rewritten relation will get the transient one's access method */
	if (OidIsValid(lazy_rewritten_relation(rel)))
		lazy_remember_former(lazy_rewritten_relation(rel), lazy_am);

	CommandCounterIncrement();
	Assert(!relation_is_lazy_heap(rel));
	RelationAssumeNewRelfilelocator(rel);
}

/*
 * A copy of a relation's pg_class row that nobody else can update before we
 * do, locked as SearchSysCacheLockedCopy1() does. Waits for a transaction that
 * has updated it (GRANT takes no lock on the table), and takes its version.
 */
HeapTuple
lazy_lock_class_row(Relation pg_class, Oid relid)
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
 * Make a table, if it is lazy, an ordinary heap table, files included, and
 * tell whether it was. The caller holds RowExclusiveLock on it.
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

/* Put the functions that insert into the routine. */
void
lazy_insert_methods(TableAmRoutine *methods)
{
	methods->tuple_insert = lazy_tuple_insert;
	methods->tuple_insert_speculative = lazy_tuple_insert_speculative;
	methods->multi_insert = lazy_multi_insert;
}
