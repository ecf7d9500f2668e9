/*-------------------------------------------------------------------------
 *
 * heap_row.c
 *	  Finding in the heap the row of which an index has the columns.
 *
 * An index knows a row as all indexes of a table do: by the line pointer of
 * its HOT chain's root. As long as a snapshot sees the row, that line pointer
 * is the row's: the row is no dead one, so nothing that prunes the page or
 * frees line pointers takes it away or gives it to another, and its versions
 * stay reachable from there. So whatever happens to the block from when the
 * snapshot found it all-visible until the row is fetched - rows inserted into
 * line pointers that were free, rows updated or deleted, pages pruned, bits of
 * the visibility map cleared and set - the version that the snapshot sees is
 * found by the rules by which an index scan finds it. That a position among a
 * page's tuples would not be: HOT updates change their order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "column_index/column_index.h"

/* The row at a line pointer of a page on which every tuple is a row that all see; false if there is none. */
static bool
find_on_visible_page(Relation heap, Buffer buffer, OffsetNumber line, HeapTuple row)
{
	Page		page = BufferGetPage(buffer);
	ItemId		item = PageGetItemId(page, line);

	if (ItemIdIsRedirected(item))
	{
		line = ItemIdGetRedirect(item);
		if (line > PageGetMaxOffsetNumber(page))
			return false;
		item = PageGetItemId(page, line);
	}
	if (!ItemIdIsNormal(item))
		return false;
	row->t_data = (HeapTupleHeader) PageGetItem(page, item);
	row->t_len = ItemIdGetLength(item);
	row->t_tableOid = RelationGetRelid(heap);
	ItemPointerSet(&row->t_self, BufferGetBlockNumber(buffer), line);

	return true;
}

/*
 * Find the version that a snapshot sees of the row at a line pointer which
 * column_reader_lines() has given.  False if there is none: then the index is
 * damaged.  The caller holds the buffer's share lock; the row is valid until
 * its pin is released.  The snapshot is that of the reader, and has been
 * registered or active ever since.
 */
bool
column_row_find(Relation heap, Buffer buffer, Snapshot snapshot, OffsetNumber line, HeapTuple row)
{
	Page		page = BufferGetPage(buffer);
	ItemPointerData tid;

	if (line < FirstOffsetNumber || line > PageGetMaxOffsetNumber(page))
		return false;
	/* why the mark is not trusted in hot standby: heap_prepare_pagescan() */
	if (PageIsAllVisible(page) && !snapshot->takenDuringRecovery)
		return find_on_visible_page(heap, buffer, line, row);
	ItemPointerSet(&tid, BufferGetBlockNumber(buffer), line);

	return heap_hot_search_buffer(&tid, heap, buffer, snapshot, row, NULL, true);
}
