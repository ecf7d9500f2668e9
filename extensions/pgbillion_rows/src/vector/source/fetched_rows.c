/*-------------------------------------------------------------------------
 *
 * fetched_rows.c
 *	  Rows of a heap that are fetched because a columnar index knows of them
 *	  that a filter keeps them.
 *
 * Rows are listed a batch at a time, in the order of their blocks, and stored
 * in slots one after the other. Each block is read once a batch: all of its
 * rows are found under one share lock, and stay where they are as long as it is
 * pinned, since only a cleanup lock lets a page be rearranged. No block is read
 * before a row of it is asked for, except ahead by the server's read streams.
 *
 * Locking: the relation must stay locked by the caller. One page is pinned
 * between two calls, and none is locked.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#if PG_VERSION_NUM < 170000
#include "utils/snapmgr.h"
#endif

#include "column_index/column_index.h"
#include "vector/source/heap.h"

struct RowFetch
{
	Relation	rel;
	Snapshot	snapshot;
	bool		read_only;		/* does the statement only read the table? */
	PageReader *reader;
	Buffer		vmbuffer;		/* of the visibility map, where pages are set
								 * all-visible */

	/* the batch */
	const RowPlace *places;
	int			n;
	int			next_place;		/* the first of the next block to be read */

	/* the page that is pinned, or InvalidBuffer */
	Buffer		buffer;
	int			first;			/* the rows of the batch that it has, up to */
	int			end;			/* and without this one */
	HeapTupleData rows[MaxHeapTuplesPerPage];

	uint64		fetched;		/* rows, and blocks */
	uint64		blocks;
};

/* The block of the next row that is in another one than those before it, or InvalidBlockNumber. */
static BlockNumber
next_block(void *arg)
{
	RowFetch   *fetch = arg;
	BlockNumber block;

	if (fetch->next_place >= fetch->n)
		return InvalidBlockNumber;
	block = fetch->places[fetch->next_place].block;
	while (fetch->next_place < fetch->n && fetch->places[fetch->next_place].block == block)
		fetch->next_place++;
	return block;
}

/*
 * Begin to fetch rows that a snapshot sees, which is registered or active until
 * the end. read_only says whether the statement only reads the table. Memory
 * belongs to the current context.
 */
RowFetch *
row_fetch_begin(Relation rel, Snapshot snapshot, bool read_only)
{
	RowFetch   *fetch = palloc0(sizeof(RowFetch));

	fetch->rel = rel;
	fetch->snapshot = snapshot;
	fetch->read_only = read_only;
	/* few of its pages are read: they may stay in the cache, as with indexes */
	fetch->reader = page_reader_begin(rel, NULL, next_block, fetch);

	return fetch;
}

static void
unpin(RowFetch *fetch)
{
	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = InvalidBuffer;
	fetch->first = fetch->end = 0;
}

/*
 * The next rows are in these places, whose blocks ascend, and nothing is left
 * of those given before. The list is the caller's, and stays until the next
 * one.
 */
void
row_fetch_list(RowFetch *fetch, const RowPlace *places, int n)
{
	unpin(fetch);
	fetch->places = places;
	fetch->n = n;
	fetch->next_place = 0;
	page_reader_again(fetch->reader);
}

/*
 * The version of a row at a line pointer, of which the snapshot has been found
 * to see it: as long as the snapshot is used, it is neither removed nor moved.
 */
static void
find_version(RowFetch *fetch, Buffer buffer, OffsetNumber line, HeapTuple row)
{
	Page		page = BufferGetPage(buffer);
	bool		found = false;

#if PG_VERSION_NUM < 170000
	/* unless rows that old snapshots see may be removed: that is an error */
	TestForOldSnapshot(fetch->snapshot, fetch->rel, page);
#endif
	if (line >= FirstOffsetNumber && line <= PageGetMaxOffsetNumber(page) && ItemIdIsNormal(PageGetItemId(page, line)))
	{
		row->t_data = (HeapTupleHeader) PageGetItem(page, PageGetItemId(page, line));
		row->t_len = ItemIdGetLength(PageGetItemId(page, line));
		row->t_tableOid = RelationGetRelid(fetch->rel);
		ItemPointerSet(&row->t_self, BufferGetBlockNumber(buffer), line);
		found = HeapTupleSatisfiesVisibility(row, fetch->snapshot, buffer);
	}
	if (!found)
		elog(ERROR, "a row that was visible is gone from block %u of \"%s\"", BufferGetBlockNumber(buffer),
			 RelationGetRelationName(fetch->rel));
}

/* Line pointers that a page with rows to be fetched is expected to have. */
#define EXPECTED_LINES FEW_ROWS

/* Pin the page of a row, and find all rows of it that are to be fetched; false if there is none at a line pointer. */
static bool
find_rows(RowFetch *fetch, int row)
{
	Buffer		buffer;
	bool		found = true;

	do
	{
		unpin(fetch);
		fetch->buffer = buffer = page_reader_next(fetch->reader, EXPECTED_LINES);
		if (!BufferIsValid(buffer))
			elog(ERROR, "a heap block was not read");
	} while (BufferGetBlockNumber(buffer) != fetch->places[row].block);
	heap_page_prune_opt(fetch->rel, buffer, &fetch->vmbuffer, fetch->read_only);

	fetch->first = fetch->end = row;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	while (found && fetch->end < fetch->n && fetch->places[fetch->end].block == fetch->places[row].block)
	{
		const RowPlace *place = &fetch->places[fetch->end];
		HeapTuple	tuple = &fetch->rows[fetch->end - fetch->first];

		Assert(fetch->end - fetch->first < MaxHeapTuplesPerPage);
		if (place->version)
			find_version(fetch, buffer, place->line, tuple);
		else
			found = column_row_find(fetch->rel, buffer, fetch->snapshot, place->line, tuple);
		fetch->end++;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	fetch->blocks++;

	return found;
}

/*
 * Store a row of the list in a slot for tuples of buffers, which pins its page.
 * Rows are asked for in ascending order. False if there is no such row, which
 * means that the index is damaged.
 */
bool
row_fetch_store(RowFetch *fetch, int row, TupleTableSlot *slot)
{
	BufferHeapTupleTableSlot *own = (BufferHeapTupleTableSlot *) slot;

	Assert(TTS_IS_BUFFERTUPLE(slot));
	Assert(row >= 0 && row < fetch->n);
	if ((row < fetch->first || row >= fetch->end) && !find_rows(fetch, row))
		return false;
	fetch->fetched++;
	ExecClearTuple(slot);
	own->base.tupdata = fetch->rows[row - fetch->first];
	ExecStoreBufferHeapTuple(&own->base.tupdata, slot, fetch->buffer);

	return true;
}

/* How many rows were fetched, and of how many blocks. */
void
row_fetch_counts(const RowFetch *fetch, uint64 *rows, uint64 *blocks)
{
	*rows = fetch->fetched;
	*blocks = fetch->blocks;
}

void
row_fetch_end(RowFetch *fetch)
{
	unpin(fetch);
	page_reader_end(fetch->reader);
	if (BufferIsValid(fetch->vmbuffer))
		ReleaseBuffer(fetch->vmbuffer);
	pfree(fetch);
}
