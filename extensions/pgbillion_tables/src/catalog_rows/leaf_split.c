/*-------------------------------------------------------------------------
 *
 * leaf_split.c
 *	  A leaf page of a btree split where a run of new entries goes on.
 *
 * PostgreSQL splits a full page for one entry: it weighs all the places where
 * it could, and copies what it moves. Where a run of new entries follows all
 * that is on a page, the place is known: the page keeps what it has, and a new
 * page to the right of it takes the run's next entries. Where a long run comes
 * before some entries, these go to a new page, and the run then follows all
 * that is left.
 *
 * The WAL record is that of PostgreSQL's split (see xl_btree_split). Its REDO
 * rebuilds the left page from the one before the split, of which it keeps the
 * items before firstrightoff, and gives it the high key of the record; the
 * right page is in the record as a whole, however many of its items are new.
 * Both pages are built here in the order in which REDO adds their items, so
 * that they are the same to the byte.
 *
 * The split ends as PostgreSQL ends one that was interrupted before the parent
 * page knew of it: by _bt_finish_split(). An error or a crash before that
 * leaves such an interrupted split, which the next to come by finishes.
 *
 * Locks are PostgreSQL's: from the left to the right, then the parent's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/nbtxlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "catalog_rows/leaf_split.h"
#include "compat.h"

static bool build_left(Page page, OffsetNumber last, IndexTuple high_key, Page left);
static void check_sibling(Relation index, Buffer buffer, Buffer right_buffer, Buffer sibling);
static void log_split(Buffer buffer, Buffer right_buffer, Buffer sibling, OffsetNumber first_right);

/*
 * Begin the page to the right of a leaf page that is locked for writing: it
 * has the high key of that page, if there is one, and no entries.
 */
void
leaf_split_begin(Page page, Page right)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);
	BTPageOpaque right_opaque;

	_bt_pageinit(right, BLCKSZ);
	right_opaque = BTPageGetOpaque(right);
	right_opaque->btpo_flags = opaque->btpo_flags & ~(BTP_ROOT | BTP_SPLIT_END | BTP_HAS_GARBAGE);
	right_opaque->btpo_next = opaque->btpo_next;
	right_opaque->btpo_level = opaque->btpo_level;
	if (!P_RIGHTMOST(opaque))
	{
		ItemId		item = PageGetItemId(page, P_HIKEY);

		if (PageAddItem(right, PageGetItem(page, item), ItemIdGetLength(item), P_HIKEY, false, false) != P_HIKEY)
			elog(ERROR, "could not copy a high key");
	}
}

/* Add the entries of a leaf page from `first` on to the page to its right. */
void
leaf_split_move(Page page, OffsetNumber first, Page right)
{
	for (OffsetNumber from = first; from <= PageGetMaxOffsetNumber(page); from = OffsetNumberNext(from))
	{
		ItemId		item = PageGetItemId(page, from);

		if (PageAddItem(right, PageGetItem(page, item), ItemIdGetLength(item), InvalidOffsetNumber, false, false) == InvalidOffsetNumber)
			elog(ERROR, "could not move an entry to a new page");
	}
}

/*
 * Put `right`, which has entries by now, to the right of the leaf page in
 * `buffer`, which keeps its entries up to `last`, all less than those. Returns
 * false, and has changed nothing, if that page lacks the room for its new high
 * key. Else the buffer is released. `stack` is that of the search which has
 * found the page.
 */
bool
leaf_split(Relation heap, Relation index, BTScanInsert search, Buffer buffer, BTStack stack, OffsetNumber last, Page right)
{
	Page		page = BufferGetPage(buffer);
	BTPageOpaque opaque = BTPageGetOpaque(page);
	BTPageOpaque right_opaque = BTPageGetOpaque(right);
	PGAlignedBlock left;
	BTPageOpaque left_opaque;
	IndexTuple	high_key;
	Buffer		right_buffer;
	Buffer		sibling = InvalidBuffer;

	Assert(P_ISLEAF(opaque) && !P_INCOMPLETE_SPLIT(opaque));
	Assert(last >= P_FIRSTDATAKEY(opaque) && last <= PageGetMaxOffsetNumber(page));
	Assert(PageGetMaxOffsetNumber(right) >= P_FIRSTDATAKEY(right_opaque));

	high_key = _bt_truncate(index, (IndexTuple) PageGetItem(page, PageGetItemId(page, last)),
							(IndexTuple) PageGetItem(right, PageGetItemId(right, P_FIRSTDATAKEY(right_opaque))),
							search);
	if (!build_left(page, last, high_key, left.data))
		return false;
	pfree(high_key);

	right_buffer = _bt_allocbuf(index, heap);
	left_opaque = BTPageGetOpaque((Page) left.data);
	left_opaque->btpo_next = BufferGetBlockNumber(right_buffer);
	left_opaque->btpo_cycleid = _bt_vacuum_cycleid(index);
	right_opaque->btpo_prev = BufferGetBlockNumber(buffer);
	right_opaque->btpo_cycleid = left_opaque->btpo_cycleid;
	if (!P_RIGHTMOST(opaque))
	{
		sibling = _bt_getbuf(index, opaque->btpo_next, BT_WRITE);
		check_sibling(index, buffer, right_buffer, sibling);
		if (BTPageGetOpaque(BufferGetPage(sibling))->btpo_cycleid != right_opaque->btpo_cycleid)
			right_opaque->btpo_flags |= BTP_SPLIT_END;
	}

	/* NO EREPORT(ERROR) from here till changes are logged */
	START_CRIT_SECTION();
	memcpy(page, left.data, BLCKSZ);
	memcpy(BufferGetPage(right_buffer), right, BLCKSZ);
	MarkBufferDirty(buffer);
	MarkBufferDirty(right_buffer);
	if (BufferIsValid(sibling))
	{
		BTPageGetOpaque(BufferGetPage(sibling))->btpo_prev = BufferGetBlockNumber(right_buffer);
		MarkBufferDirty(sibling);
	}
	if (RelationNeedsWAL(index))
		log_split(buffer, right_buffer, sibling, OffsetNumberNext(last));
	END_CRIT_SECTION();

	if (BufferIsValid(sibling))
		_bt_relbuf(index, sibling);
	_bt_relbuf(index, right_buffer);
	_bt_finish_split(index, heap, buffer, stack);
	return true;
}

/* The page with its items up to `last`, and another high key; false if there is no room. */
static bool
build_left(Page page, OffsetNumber last, IndexTuple high_key, Page left)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);
	BTPageOpaque left_opaque;
	OffsetNumber to = P_HIKEY;

	_bt_pageinit(left, BLCKSZ);
	left_opaque = BTPageGetOpaque(left);
	left_opaque->btpo_flags = opaque->btpo_flags & ~(BTP_ROOT | BTP_SPLIT_END | BTP_HAS_GARBAGE);
	left_opaque->btpo_flags |= BTP_INCOMPLETE_SPLIT;
	left_opaque->btpo_prev = opaque->btpo_prev;
	left_opaque->btpo_level = opaque->btpo_level;
	/* that is what WAL is asked by whether it must hold an image of the page */
	PageSetLSN(left, PageGetLSN(page));

	if (PageAddItem(left, (char *) high_key, IndexTupleSize(high_key), to, false, false) == InvalidOffsetNumber)
		return false;
	for (OffsetNumber from = P_FIRSTDATAKEY(opaque); from <= last; from = OffsetNumberNext(from))
	{
		ItemId		item = PageGetItemId(page, from);

		to = OffsetNumberNext(to);
		if (PageAddItem(left, PageGetItem(page, item), ItemIdGetLength(item), to, false, false) == InvalidOffsetNumber)
			return false;
	}
	return true;
}

/* Raise an error unless the page to the right knows the page that is split. */
static void
check_sibling(Relation index, Buffer buffer, Buffer right_buffer, Buffer sibling)
{
	BlockNumber previous = BTPageGetOpaque(BufferGetPage(sibling))->btpo_prev;

	if (previous == BufferGetBlockNumber(buffer))
		return;
	/* as zeros the new page can be used again */
	memset(BufferGetPage(right_buffer), 0, BLCKSZ);
	ereport(ERROR,
			(errcode(ERRCODE_INDEX_CORRUPTED),
			 errmsg_internal("right sibling's left-link doesn't match: block %u links to %u instead of expected %u in index \"%s\"",
							 BufferGetBlockNumber(sibling), previous, BufferGetBlockNumber(buffer),
							 RelationGetRelationName(index))));
}

/* Log the split, as _bt_split() does where the new item is on the right. */
static void
log_split(Buffer buffer, Buffer right_buffer, Buffer sibling, OffsetNumber first_right)
{
	Page		page = BufferGetPage(buffer);
	Page		right = BufferGetPage(right_buffer);
	PageHeader	right_header = (PageHeader) right;
	IndexTuple	high_key = (IndexTuple) PageGetItem(page, PageGetItemId(page, P_HIKEY));
	xl_btree_split xlrec = {.level = 0,.firstrightoff = first_right,.newitemoff = first_right,.postingoff = 0};
	XLogRecPtr	recptr;

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfBtreeSplit);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	XLogRegisterBuffer(1, right_buffer, REGBUF_WILL_INIT);
	if (BufferIsValid(sibling))
		XLogRegisterBuffer(2, sibling, REGBUF_STANDARD);
	XLogRegisterBufData(0, (char *) high_key, MAXALIGN(IndexTupleSize(high_key)));
	XLogRegisterBufData(1, (char *) right + right_header->pd_upper, right_header->pd_special - right_header->pd_upper);
	recptr = XLogInsert(RM_BTREE_ID, XLOG_BTREE_SPLIT_R);

	PageSetLSN(page, recptr);
	PageSetLSN(right, recptr);
	if (BufferIsValid(sibling))
		PageSetLSN(BufferGetPage(sibling), recptr);
}
