/*-------------------------------------------------------------------------
 *
 * lazy_tables.h
 *	  What pgbillion_tables tells other libraries about lazy tables.
 *
 * The library publishes a LazyTables under this rendezvous variable when it
 * is loaded. Nobody links to it: as long as the variable is empty, no lazy
 * table has been opened in this backend, because opening one loads the
 * library (its access method's handler).
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_LAZY_TABLES_H
#define PGBILLION_LAZY_TABLES_H

#include "utils/rel.h"
#include "utils/snapshot.h"

#define LAZY_TABLES_RENDEZVOUS "pgbillion_tables.lazy_tables"

/* Members are only ever added at the end, which makes the next version. */
#define LAZY_TABLES_VERSION 1

typedef struct LazyTables
{
	int			version;

	/* Is it a lazy table, as far as its relation cache entry knows? */
	bool		(*is_lazy) (Relation rel);

	/*
	 * The table is about to be read under this snapshot: is it lazy, and so
	 * without rows, still? If not, the relation cache entry is up to date on
	 * return. The caller holds a lock on the table and, where the snapshot
	 * may be a serializable transaction's, a predicate lock.
	 */
	bool		(*read) (Relation rel, Snapshot snapshot);
} LazyTables;

#endif							/* PGBILLION_LAZY_TABLES_H */
