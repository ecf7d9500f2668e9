/*-------------------------------------------------------------------------
 *
 * lazy_heap.c
 *	  A table access method that is heap, except for the time before the first
 *	  row.
 *
 * A table of this access method has no row, ever: its first row makes it an
 * ordinary heap table, in the transaction that inserts it (pg_class.relam and
 * relfilenode change, the files are made, and nothing depends on this
 * extension afterwards). Everything else follows from that:
 *
 * - While the table is lazy its size is zero, whatever is asked of it, and
 *	 heap's own functions do all else. Its pg_class.relfilenode is
 *	 LAZY_FILE_NUMBER, which is nobody's, so that no other relation can ever
 *	 be given a number that a lazy table counts on. Whether there is a file is
 *	 thus known from the catalog alone.
 *
 * - The change to heap is an ordinary update of the catalog. It commits or
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
 * or was truncated or moved to another tablespace, PostgreSQL decides about
 * the file's number. Nothing is ever in such a file; a heap gets a new one.
 * relfrozenxid is 0 as long as there is no row, except after a rewrite by
 * ALTER TABLE, and so no vacuum is due.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "fmgr.h"

#include "lazy_heap/lazy_heap.h"
#include "lazy_tables.h"

PG_FUNCTION_INFO_V1(pgbillion_lazy_heap_handler);

const TableAmRoutine *heap_routine;
TableAmRoutine lazy_heap_routine;

/* For other libraries. */
static LazyTables published = {
	.version = LAZY_TABLES_VERSION,
	.is_lazy = relation_is_lazy_heap,
	.read = lazy_heap_read,
};

/* Set up the access method when the library is loaded. */
void
lazy_heap_init(void)
{
	heap_routine = GetHeapamTableAmRoutine();
	lazy_heap_routine = *heap_routine;
	lazy_scan_methods(&lazy_heap_routine);
	lazy_insert_methods(&lazy_heap_routine);
	lazy_file_methods(&lazy_heap_routine);

	lazy_at_commit_init();
	*find_rendezvous_variable(LAZY_TABLES_RENDEZVOUS) = &published;
}

Datum
pgbillion_lazy_heap_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&lazy_heap_routine);
}
