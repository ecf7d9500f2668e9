/*-------------------------------------------------------------------------
 *
 * at_commit.c
 *	  What a transaction that has made lazy tables, or has made heaps of
 *	  them, does before it commits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_shdepend.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "lazy_heap/lazy_heap.h"

/*
 * A table that has become a heap, or got or lost a file, in a way that leaves
 * PostgreSQL's records of what it depended on as a lazy table behind: this
 * access method, and a tablespace.
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

static void lazy_heap_xact_callback(XactEvent event, void *arg);
static void forget_dependencies(void);
static void forget_lazy_deletions(void);

/* Before commit, look after what this table's records say; `lazy_am` is what it depended on. */
void
lazy_remember_former(Oid relid, Oid lazy_am)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	FormerLazyHeap *former = palloc(sizeof(FormerLazyHeap));

	former->relid = relid;
	former->lazy_am = lazy_am;
	former_lazy_heaps = lappend(former_lazy_heaps, former);
	MemoryContextSwitchTo(old);
}

/* The relation that a transient table of make_new_heap() is made for, if it is one. */
Oid
lazy_rewritten_relation(Relation rel)
{
	unsigned int relid;
	int			length = -1;

	if (sscanf(RelationGetRelationName(rel), "pg_temp_%u%n", &relid, &length) == 1 &&
		RelationGetRelationName(rel)[length] == '\0')
		return relid;
	return InvalidOid;
}

/* Has lazy_remember_former() been called for the table in this transaction? */
bool
lazy_is_former(Oid relid)
{
	ListCell   *lc;

	foreach(lc, former_lazy_heaps)
	{
		if (((FormerLazyHeap *) lfirst(lc))->relid == relid)
			return true;
	}
	return false;
}

/* A table without a file has been made. */
void
lazy_remember_table(void)
{
	made_lazy = true;
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
				lazy_mark_tables();
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

/*
 * DROP EXTENSION … CASCADE must not find tables that have rows, nor DROP
 * TABLESPACE those that have a file, which speaks for itself, or are not in
 * it.
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
			lazy_forget_tablespace(former->relid);
		ReleaseSysCache(tuple);
	}
}

/*
 * Delete the record that keeps DROP TABLESPACE from forgetting a table without
 * a file, and no other: PostgreSQL's changeDependencyOnTablespace() would
 * delete those of the owner and of grants too.
 */
void
lazy_forget_tablespace(Oid relid)
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
 * Take the deletion of the file that lazy tables do not have off the list of
 * files to delete. It would do no harm once, but up to 16
 * smgrDoPendingDeletes(), and replay, stumble over a file that is on the list
 * twice. A session that drops a lazy table opens it first, and so has loaded this
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

/* Called once, when the library is loaded. */
void
lazy_at_commit_init(void)
{
	RegisterXactCallback(lazy_heap_xact_callback, NULL);
}
