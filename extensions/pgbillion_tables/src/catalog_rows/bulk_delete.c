/*-------------------------------------------------------------------------
 *
 * bulk_delete.c
 *	  Many rows at a time out of a system catalog.
 *
 * What simple_heap_delete() does, for rows whose objects the caller has
 * locked, a page at a time: the page is read and locked once for all rows on
 * it, and logged as a whole if there are many. Rows that are anything but
 * plainly visible and unlocked, and pages that are all-visible, are left to
 * simple_heap_delete() itself, which waits, fails and logs as it does in this
 * minor version.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "catalog_rows/catalog_rows.h"

/*
 * From this number of deleted rows on, the full image of a page is logged, instead of a
 * record for each: that is cheaper by far, though larger if only some are.
 */
#define ROWS_WORTH_AN_IMAGE 16

static int	delete_on_page(Relation rel, const ItemPointerData *tids, int ntids);
static bool is_plain(HeapTuple tuple, Buffer buffer);
static int	compare_tids(const void *a, const void *b);

/*
 * Delete the rows at `tids`, which are sorted in place. Other sessions are
 * told of each row with invalidate_each, else the caller tells them. Raises
 * an error, as simple_heap_delete() does, for a row that somebody has changed.
 */
void
catalog_delete(Relation rel, ItemPointerData *tids, int ntids, bool invalidate_each)
{
	bool		row_by_row = invalidate_each || RelationIsAccessibleInLogicalDecoding(rel);
	int			done = 0;

	qsort(tids, ntids, sizeof(ItemPointerData), compare_tids);

	while (done < ntids)
	{
		int			n = row_by_row ? 0 : delete_on_page(rel, tids + done, ntids - done);

		if (n == 0)
		{
			simple_heap_delete(rel, &tids[done]);
			n = 1;
		}
		done += n;
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Delete those of the rows that are on the page of the first one, up to one
 * that is simple_heap_delete()'s. Returns how many.
 */
static int
delete_on_page(Relation rel, const ItemPointerData *tids, int ntids)
{
	TransactionId xid = GetCurrentTransactionId();
	CommandId	cid = GetCurrentCommandId(true);
	BlockNumber blkno = ItemPointerGetBlockNumber(&tids[0]);
	Buffer		buffer = ReadBuffer(rel, blkno);
	Page		page = BufferGetPage(buffer);
	int			n = 0;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);

	if (!PageIsAllVisible(page))
	{
		for (; n < ntids && ItemPointerGetBlockNumber(&tids[n]) == blkno; n++)
		{
			ItemId		lp = PageGetItemId(page, ItemPointerGetOffsetNumber(&tids[n]));
			HeapTupleData tuple;

			if (!ItemIdIsNormal(lp))
				break;
			tuple.t_tableOid = RelationGetRelid(rel);
			tuple.t_self = tids[n];
			tuple.t_len = ItemIdGetLength(lp);
			tuple.t_data = (HeapTupleHeader) PageGetItem(page, lp);
			if (!is_plain(&tuple, buffer))
				break;
		}
	}

	if (n > 0)
	{
		/* NO EREPORT(ERROR) from here till changes are logged */
		START_CRIT_SECTION();

		PageSetPrunable(page, xid);
		MarkBufferDirty(buffer);
		for (int i = 0; i < n; i++)
		{
			OffsetNumber offset = ItemPointerGetOffsetNumber(&tids[i]);
			HeapTupleHeader header = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, offset));

			header->t_infomask &= ~(HEAP_XMAX_BITS | HEAP_MOVED);
			header->t_infomask2 |= HEAP_KEYS_UPDATED;
			HeapTupleHeaderClearHotUpdated(header);
			HeapTupleHeaderSetXmax(header, xid);
			HeapTupleHeaderSetCmax(header, cid, false);
			header->t_ctid = tids[i];

			/*
			 * each by itself: a full image taken now must not hold the next
			 * one's change
			 */
			if (RelationNeedsWAL(rel) && n < ROWS_WORTH_AN_IMAGE)
			{
				xl_heap_delete xlrec = {
					.xmax = xid,
					.offnum = offset,
					.infobits_set = XLHL_KEYS_UPDATED
				};
				XLogRecPtr	recptr;

				XLogBeginInsert();
				XLogRegisterData((char *) &xlrec, SizeOfHeapDelete);
				XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
				XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
				recptr = XLogInsert(RM_HEAP_ID, XLOG_HEAP_DELETE);
				PageSetLSN(page, recptr);
			}
		}
		if (RelationNeedsWAL(rel) && n >= ROWS_WORTH_AN_IMAGE)
			log_newpage_buffer(buffer, true);

		END_CRIT_SECTION();
		for (int i = 0; i < n; i++)
			pgstat_count_heap_delete(rel);
	}

	UnlockReleaseBuffer(buffer);
	return n;
}

/*
 * Is the row committed, or at least not our own (its command ids would have
 * to be combined), without locker or updater, and without values out of line?
 */
static bool
is_plain(HeapTuple tuple, Buffer buffer)
{
	HeapTupleHeader header = tuple->t_data;

	return (header->t_infomask & HEAP_XMAX_INVALID) != 0 &&
		!TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(header)) &&
		!HeapTupleHasExternal(tuple) &&
		HeapTupleSatisfiesUpdate(tuple, GetCurrentCommandId(true), buffer) == TM_Ok;
}

static int
compare_tids(const void *a, const void *b)
{
	return ItemPointerCompare((ItemPointer) a, (ItemPointer) b);
}
