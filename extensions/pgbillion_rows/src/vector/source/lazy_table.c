/*-------------------------------------------------------------------------
 *
 * lazy_table.c
 *	  Lazy tables of pgbillion_tables, as far as reading is concerned.
 *
 * That library need not be there: see lazy_tables.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "lazy_tables.h"
#include "vector/source/heap.h"

/* What the other library has published, or NULL as long as it is not loaded. */
static const LazyTables *
lazy_tables(void)
{
	static void **published = NULL;
	const LazyTables *tables;

	if (published == NULL)
		published = find_rendezvous_variable(LAZY_TABLES_RENDEZVOUS);
	tables = *published;
	return tables != NULL && tables->version >= LAZY_TABLES_VERSION ? tables : NULL;
}

/* Is it a lazy table, as far as its relation cache entry knows? */
bool
source_is_lazy(Relation rel)
{
	const LazyTables *tables = lazy_tables();

	return tables != NULL && tables->is_lazy(rel);
}

/*
 * To be called when a table is about to be read under this snapshot, after its
 * predicate lock has been taken: is it lazy, and so without rows, still? If
 * not, its relation cache entry is up to date on return.
 */
bool
source_read_lazy(Relation rel, Snapshot snapshot)
{
	const LazyTables *tables = lazy_tables();

	return tables != NULL && tables->read(rel, snapshot);
}
