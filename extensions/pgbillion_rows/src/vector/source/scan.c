/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  The pages of a heap, and which of their rows are visible.
 *
 * Does what heap_beginscan() and heap_prepare_pagescan() do for a sequential
 * scan: bulk-read strategy and synchronized start for large tables, read
 * streams where the server has them, opportunistic pruning, predicate locks,
 * statistics. It hands out the rows of a page together instead of one by one.
 *
 * Locking: the relation must stay locked by the caller. The page is share
 * locked while visibility is checked, and pinned until the next call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/syncscan.h"
#include "access/tableam.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#if PG_VERSION_NUM < 170000
#include "utils/snapmgr.h"
#endif
#include "utils/rel.h"

#include "vector/source/heap.h"

struct VectorScan
{
	Relation	rel;
	Snapshot	snapshot;
	BufferAccessStrategy strategy;
	BlockNumber nblocks;
	BlockNumber start;			/* serial scans: first block */
	BlockNumber done;			/* serial scans: blocks given out */
	bool		sync;			/* serial scans: report where we are */
	bool		listed;			/* blocks are given as lists: */
	const BlockNumber *list;
	int			nlisted;
	int			next_listed;
	ParallelBlockTableScanDesc parallel;
	ParallelBlockTableScanWorkerData worker;
	bool		worker_started;
	PageReader *reader;
	bool		rows_read;		/* will the rows themselves be looked at? */
	Buffer		buffer;			/* pinned, or invalid */
	bool		fetched;		/* the caller sees to it that rows of the next
								 * page are */
	Buffer		ahead;			/* the next one, pinned, or invalid */
	bool		begun;			/* has there been a first one? */
	OffsetNumber line;			/* where vector_scan_store() goes on */
	HeapTupleData stored;		/* what its slot refers to */
	uint64		all_visible;	/* pages trusted whole */
	uint64		checked;		/* pages checked row by row */
};

/* The next block to read, or InvalidBlockNumber. */
static BlockNumber
next_block(void *arg)
{
	VectorScan *scan = arg;
	BlockNumber block;

	if (scan->listed)
		return scan->next_listed < scan->nlisted ? scan->list[scan->next_listed++] : InvalidBlockNumber;
	if (scan->parallel != NULL)
	{
		if (!scan->worker_started)
		{
			table_block_parallelscan_startblock_init(scan->rel, &scan->worker, scan->parallel);
			scan->worker_started = true;
		}
		return table_block_parallelscan_nextpage(scan->rel, &scan->worker, scan->parallel);
	}
	if (scan->done >= scan->nblocks)
		return InvalidBlockNumber;

	block = (BlockNumber) (((uint64) scan->start + scan->done) % scan->nblocks);
	scan->done++;

	/*
	 * as PostgreSQL does: the position of the next one, so that others start
	 * there
	 */
	if (scan->sync)
		ss_report_location(scan->rel,
						   (BlockNumber) (((uint64) block + 1) % scan->nblocks));

	return block;
}

/*
 * Begin a scan of the whole heap, or of the share that `parallel` gives this
 * process, or, if it is `listed`, of the blocks that vector_scan_list() will
 * give. rows_read says whether the rows will be looked at, not only counted.
 * Memory belongs to the current context.
 */
VectorScan *
vector_scan_begin(Relation rel, Snapshot snapshot, ParallelBlockTableScanDesc parallel, bool listed,
				  bool rows_read)
{
	VectorScan *scan = palloc0(sizeof(VectorScan));
	bool		large;

	Assert(IsMVCCSnapshot(snapshot));
	Assert(parallel == NULL || !listed);
	scan->listed = listed;
	scan->rel = rel;
	scan->snapshot = snapshot;
	scan->parallel = parallel;
	scan->rows_read = rows_read;
	scan->buffer = InvalidBuffer;
	scan->ahead = InvalidBuffer;
	PredicateLockRelation(rel, snapshot);
	scan->nblocks = parallel != NULL ? parallel->phs_nblocks :
		source_read_lazy(rel, snapshot) ? 0 : RelationGetNumberOfBlocks(rel);

	large = !RelationUsesLocalBuffers(rel) && scan->nblocks > NBuffers / 4;
	if (large)
		scan->strategy = GetAccessStrategy(BAS_BULKREAD);
	if (parallel == NULL && !listed && large && synchronize_seqscans)
	{
		scan->sync = true;
		scan->start = ss_get_location(rel, scan->nblocks);
	}
	pgstat_count_heap_scan(rel);

	scan->reader = page_reader_begin(rel, scan->strategy, next_block, scan);

	return scan;
}

/*
 * Rows of a page. Inlined with constants, so that the common case does no
 * more than collect addresses.
 */
static pg_attribute_always_inline int
collect(VectorScan *scan, Page page, BlockNumber block, HeapTupleHeader *tuples,
		bool all_visible, bool check_serializable)
{
	int			n = 0;
	OffsetNumber lines = PageGetMaxOffsetNumber(page);

	/* mostly every line pointer leads to a row */
	if (all_visible && !check_serializable)
	{
		ItemIdData *items = PageGetItemId(page, FirstOffsetNumber);
		bool		normal = true;

		for (int i = 0; i < lines; i++)
		{
			normal &= ItemIdIsNormal(&items[i]);
			tuples[i] = (HeapTupleHeader) ((char *) page + ItemIdGetOffset(&items[i]));
		}
		if (likely(normal))
			return lines;
	}

	for (OffsetNumber line = FirstOffsetNumber; line <= lines; line++)
	{
		ItemId		item = PageGetItemId(page, line);
		bool		valid = true;

		if (!ItemIdIsNormal(item))
			continue;
		if (!all_visible || check_serializable)
		{
			HeapTupleData tuple;

			tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
			tuple.t_len = ItemIdGetLength(item);
			tuple.t_tableOid = RelationGetRelid(scan->rel);
			ItemPointerSet(&tuple.t_self, block, line);
			if (!all_visible)
				valid = HeapTupleSatisfiesVisibility(&tuple, scan->snapshot, scan->buffer);
			if (check_serializable)
				HeapCheckForSerializableConflictOut(valid, scan->rel, &tuple, scan->buffer,
													scan->snapshot);
		}
		if (valid)
			tuples[n++] = (HeapTupleHeader) PageGetItem(page, item);
	}

	return n;
}

/* Pin the next page, and have the processor fetch it while another is worked on. */
static Buffer
read_ahead(VectorScan *scan)
{
	Buffer		buffer = page_reader_next(scan->reader);
	char	   *page;
	int			bytes;

	if (!BufferIsValid(buffer))
		return InvalidBuffer;
	page = (char *) BufferGetPage(buffer);

	/*
	 * the line pointers, or all of it; what a page holds that is not
	 * all-visible is looked at anyway
	 */
	bytes = (scan->rows_read && !scan->fetched) || scan->checked > 0 ? BLCKSZ :
		SizeOfPageHeaderData + MaxHeapTuplesPerPage * sizeof(ItemIdData);
	for (int offset = 0; offset < bytes; offset += CACHE_LINE)
		__builtin_prefetch(page + offset);

	return buffer;
}

/*
 * Go on with these blocks, ascending, whatever is left of those given before.
 * The list is the caller's, and stays until the next one.
 */
void
vector_scan_list(VectorScan *scan, const BlockNumber *blocks, int n)
{
	Assert(scan->listed);
	Assert(n == 0 || blocks[n - 1] < scan->nblocks);
	if (BufferIsValid(scan->buffer))
		ReleaseBuffer(scan->buffer);
	if (BufferIsValid(scan->ahead))
		ReleaseBuffer(scan->ahead);
	scan->buffer = scan->ahead = InvalidBuffer;
	scan->list = blocks;
	scan->nlisted = n;
	scan->next_listed = 0;
	scan->begun = false;
	page_reader_again(scan->reader);
}

/*
 * The visible rows of the next page, possibly none, or -1 at the end. They
 * are valid until the next call.
 */
int
vector_scan_next(VectorScan *scan, HeapTupleHeader *tuples)
{
	Page		page;
	BlockNumber block;
	bool		check_serializable;
	int			n;

	if (!scan->begun)
	{
		scan->ahead = read_ahead(scan);
		scan->begun = true;
	}
	if (BufferIsValid(scan->buffer))
		ReleaseBuffer(scan->buffer);
	scan->buffer = scan->ahead;
	if (!BufferIsValid(scan->buffer))
		return -1;
	scan->ahead = InvalidBuffer;
	scan->ahead = read_ahead(scan);
	block = BufferGetBlockNumber(scan->buffer);
	scan->line = FirstOffsetNumber;

	heap_page_prune_opt(scan->rel, scan->buffer);
	check_serializable = CheckForSerializableConflictOutNeeded(scan->rel, scan->snapshot);

	LockBuffer(scan->buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(scan->buffer);
#if PG_VERSION_NUM < 170000
	TestForOldSnapshot(scan->snapshot, scan->rel, page);
#endif
	/* why the mark is not trusted in hot standby: heap_prepare_pagescan() */
	if (PageIsAllVisible(page) && !scan->snapshot->takenDuringRecovery)
	{
		scan->all_visible++;
		n = likely(!check_serializable) ?
			collect(scan, page, block, tuples, true, false) :
			collect(scan, page, block, tuples, true, true);
	}
	else
	{
		scan->checked++;
		n = check_serializable ?
			collect(scan, page, block, tuples, false, true) :
			collect(scan, page, block, tuples, false, false);
	}
	LockBuffer(scan->buffer, BUFFER_LOCK_UNLOCK);
	vector_count_tuples_returned(scan->rel, n);

	return n;
}

/*
 * Store a row of the page in a slot for tuples of buffers, which refers to the
 * scan's memory until the next call. Rows are asked for in ascending order.
 *
 * Line pointers of visible rows stay as they are while the page is pinned, so
 * that they are looked at without a lock, as heapgettup_pagemode() does.
 */
void
vector_scan_store(VectorScan *scan, HeapTupleHeader tuple, TupleTableSlot *slot)
{
	Page		page = BufferGetPage(scan->buffer);
	unsigned	offset = (char *) tuple - (char *) page;
	ItemId		item = PageGetItemId(page, scan->line);

	while (!ItemIdIsNormal(item) || ItemIdGetOffset(item) != offset)
	{
		scan->line++;
		Assert(scan->line <= PageGetMaxOffsetNumber(page));
		item = PageGetItemId(page, scan->line);
	}
	scan->stored.t_data = tuple;
	scan->stored.t_len = ItemIdGetLength(item);
	scan->stored.t_tableOid = RelationGetRelid(scan->rel);
	ItemPointerSet(&scan->stored.t_self, BufferGetBlockNumber(scan->buffer), scan->line);
	ExecStoreBufferHeapTuple(&scan->stored, slot, scan->buffer);
}

/* The page after that of vector_scan_next(), or NULL. */
const char *
vector_scan_ahead(VectorScan *scan)
{
	return BufferIsValid(scan->ahead) ? (const char *) BufferGetPage(scan->ahead) : NULL;
}

/* Has the caller fetched it into the processor's caches while at work? Then it will do so again. */
void
vector_scan_fetched_ahead(VectorScan *scan, bool fetched)
{
	scan->fetched = fetched;
}

/* Pages seen so far, by how their rows were found visible. */
void
vector_scan_counts(VectorScan *scan, uint64 *all_visible, uint64 *checked)
{
	*all_visible = scan->all_visible;
	*checked = scan->checked;
}

void
vector_scan_end(VectorScan *scan)
{
	if (BufferIsValid(scan->buffer))
		ReleaseBuffer(scan->buffer);
	if (BufferIsValid(scan->ahead))
		ReleaseBuffer(scan->ahead);
	page_reader_end(scan->reader);
	if (scan->strategy != NULL)
		FreeAccessStrategy(scan->strategy);
	pfree(scan);
}
