/*-------------------------------------------------------------------------
 *
 * lazy_files.c
 *	  The files of a lazy table, which it usually has none of.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/multixact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "tcop/pquery.h"
#include "utils/portal.h"
#include "utils/relcache.h"

#include "lazy_heap/lazy_heap.h"

static bool creating_with_rows(void);

/*
 * A new table gets no file. rel is then the cache entry that its pg_class row
 * is about to be made from; PostgreSQL passes its own locator.
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
		lazy_remember_former(RelationGetRelid(rel), rel->rd_rel->relam);
		if (OidIsValid(lazy_rewritten_relation(rel)))
			lazy_remember_former(lazy_rewritten_relation(rel), rel->rd_rel->relam);
		rel->rd_rel->relam = HEAP_TABLE_AM_OID;
		rel->rd_tableam = heap_routine;
		heap_routine->relation_set_new_filelocator(rel, newrlocator, persistence, freezeXid, minmulti);
		return;
	}

	/*
	 * Unlogged tables need their init fork from the start. A rewrite's
	 * transient table is not the one that ends up with what is made here, so
	 * that in a tablespace only a file protects that from DROP TABLESPACE.
	 */
	if (persistence != RELPERSISTENCE_PERMANENT || IsBinaryUpgrade ||
		(OidIsValid(rel->rd_rel->reltablespace) && OidIsValid(lazy_rewritten_relation(rel))))
		is_new = false;

#ifdef USE_ASSERT_CHECKING

	/*
	 * PostgreSQL asserts that a new relation skips WAL if, and only if, its
	 * file does
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
		lazy_remember_table();
		rel->rd_rel->relfilenode = LAZY_FILE_NUMBER;
		RelFileLocatorNumber(rel->rd_locator) = LAZY_FILE_NUMBER;
		if (OidIsValid(rel->rd_rel->reltablespace))
			recordDependencyOnTablespace(RelationRelationId, RelationGetRelid(rel),
										 rel->rd_rel->reltablespace);
	}
	else
	{
		heap_routine->relation_set_new_filelocator(rel, newrlocator, persistence, freezeXid, minmulti);
		/* a truncated table may have had none */
		if (OidIsValid(rel->rd_rel->reltablespace) && newrlocator != &rel->rd_locator)
			lazy_forget_tablespace(RelationGetRelid(rel));
	}
	/* its tablespace, or whether it has a file, is about to change */
	if (OidIsValid(lazy_rewritten_relation(rel)))
		lazy_remember_former(lazy_rewritten_relation(rel), rel->rd_rel->relam);

	/* without rows there is nothing to freeze */
	*freezeXid = InvalidTransactionId;
	*minmulti = InvalidMultiXactId;
}

static void
lazy_relation_nontransactional_truncate(Relation rel)
{
	if (!file_number_is_lazy(rel->rd_rel->relfilenode))
		heap_routine->relation_nontransactional_truncate(rel);
}

/*
 * Is a command running that inserts into the table it creates? Its query may
 * run in parallel, and then the catalog cannot be changed when the first row
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

/* ALTER TABLE SET TABLESPACE; PostgreSQL has chosen the file's number. */
static void
lazy_relation_copy_data(Relation rel, const RelFileLocator *newrlocator)
{
	if (!file_number_is_lazy(rel->rd_rel->relfilenode))
		heap_routine->relation_copy_data(rel, newrlocator);
	else
	{
		Assert(RelationIsPermanent(rel));
		smgrclose(RelationCreateStorage(*newrlocator, rel->rd_rel->relpersistence, true));
	}
	lazy_forget_tablespace(RelationGetRelid(rel));
}

/* CLUSTER and VACUUM FULL, with the table locked exclusively. */
static void
lazy_relation_copy_for_cluster(Relation oldrel, Relation newrel, Relation index, bool use_sort,
							   TransactionId oldest_xmin,
#if PG_VERSION_NUM >= 190000
							   Snapshot snapshot,
#endif
							   TransactionId *xid_cutoff,
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
lazy_relation_vacuum(Relation rel, TableVacuumParams params, BufferAccessStrategy strategy)
{
	Relation	pg_class;
	HeapTuple	tuple;
	ItemPointerData otid;
	Form_pg_class form;

	if (!lazy_heap_refresh(rel))
	{
		heap_routine->relation_vacuum(rel, params, strategy);
		return;
	}

	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	tuple = lazy_lock_class_row(pg_class, RelationGetRelid(rel));
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

	report_vacuum(rel);
}

static Oid
lazy_relation_toast_am(Relation rel)
{
	return rel->rd_rel->relam;
}

/* Put the functions above into the routine. */
void
lazy_file_methods(TableAmRoutine *methods)
{
	methods->relation_set_new_filelocator = lazy_relation_set_new_filelocator;
	methods->relation_nontransactional_truncate = lazy_relation_nontransactional_truncate;
	methods->relation_copy_data = lazy_relation_copy_data;
	methods->relation_copy_for_cluster = lazy_relation_copy_for_cluster;
	methods->relation_vacuum = lazy_relation_vacuum;
	methods->relation_toast_am = lazy_relation_toast_am;
}
