/*-------------------------------------------------------------------------
 *
 * upgrade.c
 *	  What keeps pg_upgrade from a database with lazy tables.
 *
 * pg_upgrade copies or links a file for each table, and lazy tables have
 * none. It has no hook, but it refuses, in --check already, databases with a
 * column of one of the types whose values are OIDs that it does not keep,
 * regproc for one, and names the table and the column. So there is a table,
 * pgbillion_tables.lazy_tables_left, always empty, whose only column has the
 * name of what is to be done. Its type is oid, and regproc as soon as a lazy
 * table may be there. Both are the same on disk, so that its row in
 * pg_attribute is all that changes.
 *
 * The mark is set when a transaction that has made a lazy table commits, and
 * taken off by pgbillion_tables.all_to_heap() when there is none left. In
 * between it stays although the last lazy table may have had its first row or
 * have been dropped meanwhile.
 *
 * Locks, all on sub-object 1 of the marking table, which PostgreSQL never
 * locks, and until the end of the transaction: a session that creates lazy
 * tables takes RowShareLock before it looks at the mark, and also
 * ShareUpdateExclusiveLock before it sets the mark; a session that removes the
 * mark takes ExclusiveLock before it looks for lazy tables. So sessions that
 * find the mark set do not wait for one another, and a lazy table is either
 * seen by the remover, or its creator finds the mark removed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "lazy_heap/lazy_heap.h"

#define MARK_SUBID 1

static Oid	marking_table(void);
static bool mark_is(Oid table, Oid type);
static void set_mark(Oid table, Oid type);

/*
 * InvalidOid while the extension is being made or dropped, and where the
 * schema has been renamed: a table of that name may then be anybody's.
 */
static Oid
marking_table(void)
{
	Oid			namespaceid = get_namespace_oid("pgbillion_tables", true);
	Oid			table = OidIsValid(namespaceid) ? get_relname_relid("lazy_tables_left", namespaceid) : InvalidOid;

	return OidIsValid(table) && OidIsValid(getExtensionOfObject(RelationRelationId, table)) ? table : InvalidOid;
}

static bool
mark_is(Oid table, Oid type)
{
	return get_atttype(table, 1) == type;
}

static void
set_mark(Oid table, Oid type)
{
	Relation	pg_attribute = table_open(AttributeRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy2(ATTNUM, ObjectIdGetDatum(table), Int16GetDatum(1));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for attribute 1 of relation %u", table);
	((Form_pg_attribute) GETSTRUCT(tuple))->atttypid = type;
	CatalogTupleUpdate(pg_attribute, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_attribute, RowExclusiveLock);
}

/* Called before the commit of a transaction that has made a lazy table. */
void
lazy_mark_tables(void)
{
	Oid			table = marking_table();

	if (!OidIsValid(table))
		return;

	/*
	 * locking accepts invalidation messages, so that what follows is up to
	 * date
	 */
	LockDatabaseObject(RelationRelationId, table, MARK_SUBID, RowShareLock);
	if (mark_is(table, REGPROCOID))
		return;
	LockDatabaseObject(RelationRelationId, table, MARK_SUBID, ShareUpdateExclusiveLock);
	if (mark_is(table, OIDOID))
		set_mark(table, REGPROCOID);
}

/* OIDs of all tables without a file, in the current memory context. */
List *
lazy_tables(void)
{
	List	   *result = NIL;
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;

	/* with a snapshot that is newer than the caller's locks */
	InvalidateCatalogSnapshot();
	scan = systable_beginscan(pg_class, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		if (file_number_is_lazy(form->relfilenode) && form->relkind != RELKIND_TOASTVALUE)
			result = lappend_oid(result, form->oid);
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);

	return result;
}

/* Returns how many lazy tables there are, which one for example, and no mark if none. */
int
lazy_take_mark_off(Oid *left)
{
	Oid			table = marking_table();
	List	   *tables;

	if (OidIsValid(table))
		LockDatabaseObject(RelationRelationId, table, MARK_SUBID, ExclusiveLock);
	tables = lazy_tables();
	if (tables != NIL)
		*left = linitial_oid(tables);
	else if (OidIsValid(table) && mark_is(table, REGPROCOID))
		set_mark(table, OIDOID);

	return list_length(tables);
}
