/*-------------------------------------------------------------------------
 *
 * visible_rows.c
 *	  The pages of a heap, and which of their rows are visible.
 *
 * Does what heap_beginscan() and heap_prepare_pagescan() do for a sequential
 * scan: bulk-read strategy and synchronized start for large tables, read
 * streams where the server has them, opportunistic pruning, predicate locks,
 * statistics. It hands out the rows of a page together instead of one by one,
 * and those of a few pages where they have few.
 *
 * It works one group of pages ahead: when it returns the rows of some pages, it
 * has already found those of the next ones, so that the caller can have the
 * processor fetch these while it works on the former.
 *
 * Locking: the relation must stay locked by the caller. A page is share
 * locked while visibility is checked, and pinned until its rows are taken back
 * by the next call.
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
#include "utils/guc.h"
#if PG_VERSION_NUM < 170000
#include "utils/snapmgr.h"
#endif
#include "utils/rel.h"

#include "vector/source/heap.h"

StaticAssertDecl(MIN_ROWS + MaxHeapTuplesPerPage <= BATCH_ROWS, "rows of a few pages");

/* Pages that are handed out together. */
typedef struct Hand
{
	int			npages;
	Buffer		pages[MAX_PAGES];	/* pinned */
	int			n;				/* rows */
	HeapTupleHeader tuples[BATCH_ROWS];
} Hand;

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
	const BlockNumber *only;	/* parallel scans: read none but these of what
								 * this process is given; NULL: all */
	int			nonly;
	ParallelBlockTableScanWorkerData worker;
	bool		worker_started;
	PageReader *reader;
	bool		rows_read;		/* will the rows themselves be looked at? */
	bool		read_only;		/* is the table only read? */
	Buffer		vmbuffer;		/* of the visibility map, where pages are set
								 * all-visible */
	VectorFetch fetch;			/* of the next rows */
	int			lines;			/* line pointers of the last page */
	int			most_pages;		/* of the next hand */
	int			page_limit;		/* of any */
	Hand		hands[2];
	Hand	   *hand;			/* what was handed out last, */
	Hand	   *ahead;			/* and what is next */
	bool		begun;			/* has the first one been filled? */
	bool		ended;			/* there is no further page */
	int			page;			/* where vector_scan_store() goes on: page of
								 * the hand, */
	OffsetNumber line;			/* and line pointer */
	HeapTupleData stored;		/* what its slot refers to */
	uint64		all_visible;	/* pages trusted whole */
	uint64		checked;		/* pages checked row by row */
};

/* Is a block one of these, which are in order? */
static bool
is_among(const BlockNumber *blocks, int n, BlockNumber block)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (blocks[middle] < block)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n && blocks[low] == block;
}

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
			table_block_parallelscan_startblock_init(scan->rel, &scan->worker, scan->parallel, InvalidBlockNumber,
													 InvalidBlockNumber);
			scan->worker_started = true;
		}
		do
		{
			CHECK_FOR_INTERRUPTS();
			block = table_block_parallelscan_nextpage(scan->rel, &scan->worker, scan->parallel);
		} while (block != InvalidBlockNumber && scan->only != NULL && !is_among(scan->only, scan->nonly, block));
		return block;
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

/* How many pages may be handed out together: few of those for which there is room in the cache. */
static int
pages_at_a_time(Relation rel)
{
	int			buffers = RelationUsesLocalBuffers(rel) ? num_temp_buffers : NBuffers;

	return Max(Min(buffers / BUFFERS_PER_PAGE, MAX_PAGES), 1);
}

/*
 * Begin a scan of the whole heap, or of the share that `parallel` gives this
 * process, or, if it is `listed`, of the blocks that vector_scan_list() will
 * give. rows_read says whether the rows will be looked at, not only counted;
 * read_only, whether the statement only reads the table: then pages are set
 * all-visible in passing, where PostgreSQL does so.
 * Memory belongs to the current context.
 */
VectorScan *
vector_scan_begin(Relation rel, Snapshot snapshot, ParallelBlockTableScanDesc parallel, bool listed,
				  bool rows_read, bool read_only)
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
	scan->read_only = read_only;
	scan->most_pages = 1;
	scan->page_limit = listed ? 1 : pages_at_a_time(rel);
	scan->hand = &scan->hands[0];
	scan->ahead = &scan->hands[1];
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
collect(VectorScan *scan, Buffer buffer, HeapTupleHeader *tuples, bool all_visible, bool check_serializable)
{
	Page		page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
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
				valid = HeapTupleSatisfiesVisibility(&tuple, scan->snapshot, buffer);
			if (check_serializable)
				HeapCheckForSerializableConflictOut(valid, scan->rel, &tuple, buffer, scan->snapshot);
		}
		if (valid)
			tuples[n++] = (HeapTupleHeader) PageGetItem(page, item);
	}

	return n;
}

/*
 * Have the processor fetch rows that have been found: their beginnings at once,
 * and leave the rest of what was looked at of the last ones to who works on
 * rows meanwhile.
 */
static void
fetch_rows(VectorScan *scan, Page page, HeapTupleHeader *tuples, int n)
{
	VectorFetch *fetch = &scan->fetch;
	int			bytes = fetch->bytes;

	/* the first of many rows is worked on late enough */
	int			now = fetch->on_way && n > FEW_ROWS ? 0 : fetch->on_way ? Min(CACHE_LINE, bytes) : bytes;
	const char **later = fetch->lines + fetch->n;

	/* if that is most lines of the page, all in the order of memory */
	if (n * (bytes + CACHE_LINE) > BLCKSZ / 4 * 3)
	{
		const char *line = (const char *) page + SizeOfPageHeaderData + n * sizeof(ItemIdData);
		const char *end = (const char *) page + BLCKSZ;

		line -= (uintptr_t) line % CACHE_LINE;
		if (now == bytes)
			for (; line < end; line += CACHE_LINE)
				__builtin_prefetch(line);
		for (; line < end; line += CACHE_LINE)
			*later++ = line;
	}
	else
		for (int i = 0; i < n; i++)
		{
			const char *row = (const char *) tuples[i];
			const char *line = row - (uintptr_t) row % CACHE_LINE;

			for (; line < row + now; line += CACHE_LINE)
				__builtin_prefetch(line);
			for (; line < row + bytes; line += CACHE_LINE)
				*later++ = line;
		}
	fetch->n = later - fetch->lines;
	Assert(fetch->n <= FETCH_LINES);
}

/* Add the visible rows of the next page to a hand; false if there is none. */
static bool
add_page(VectorScan *scan, Hand *hand)
{
	Buffer		buffer = scan->ended ? InvalidBuffer : page_reader_next(scan->reader, scan->lines);
	HeapTupleHeader *tuples = hand->tuples + hand->n;
	bool		check_serializable;
	Page		page;
	int			n;

	if (!BufferIsValid(buffer))
	{
		scan->ended = true;
		return false;
	}
	hand->pages[hand->npages++] = buffer;
	heap_page_prune_opt(scan->rel, buffer, &scan->vmbuffer, scan->read_only);
	check_serializable = CheckForSerializableConflictOutNeeded(scan->rel, scan->snapshot);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
#if PG_VERSION_NUM < 170000
	TestForOldSnapshot(scan->snapshot, scan->rel, page);
#endif
	scan->lines = PageGetMaxOffsetNumber(page);
	/* why the mark is not trusted in hot standby: heap_prepare_pagescan() */
	if (PageIsAllVisible(page) && !scan->snapshot->takenDuringRecovery)
	{
		scan->all_visible++;
		n = likely(!check_serializable) ?
			collect(scan, buffer, tuples, true, false) :
			collect(scan, buffer, tuples, true, true);
	}
	else
	{
		scan->checked++;
		n = check_serializable ?
			collect(scan, buffer, tuples, false, true) :
			collect(scan, buffer, tuples, false, false);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (scan->rows_read)
		fetch_rows(scan, page, tuples, n);
	hand->n += n;

	return true;
}

/* Unpin the pages of a hand. */
static void
put_back(Hand *hand)
{
	for (int i = 0; i < hand->npages; i++)
		ReleaseBuffer(hand->pages[i]);
	hand->npages = hand->n = 0;
}

/* Have the rows of the next pages in a hand, which is empty. */
static void
fill_hand(VectorScan *scan, Hand *hand)
{
	scan->fetch.n = scan->fetch.next = 0;
	while (hand->npages < scan->most_pages && hand->n < MIN_ROWS && add_page(scan, hand))
		;
	/* who wants the first rows only need not wait for more pages than that */
	scan->most_pages = Min(2 * scan->most_pages, scan->page_limit);
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
	put_back(scan->hand);
	put_back(scan->ahead);
	scan->list = blocks;
	scan->nlisted = n;
	scan->next_listed = 0;
	scan->begun = scan->ended = false;
	page_reader_again(scan->reader);
}

/*
 * Of the share of a parallel scan, read these blocks only, which are ascending.
 * The list is the caller's, and stays until the end.
 */
void
vector_scan_only(VectorScan *scan, const BlockNumber *blocks, int n)
{
	Assert(scan->parallel != NULL && !scan->begun);
	scan->only = blocks;
	scan->nonly = n;
}

/*
 * The visible rows of the next pages, possibly none, or -1 at the end. They,
 * and the array, are the caller's until the next call. Of listed blocks it is
 * one page.
 */
int
vector_scan_next(VectorScan *scan, HeapTupleHeader **tuples)
{
	Hand	   *last = scan->hand;

	if (!scan->begun)
		fill_hand(scan, scan->ahead);
	scan->begun = true;
	put_back(last);
	scan->hand = scan->ahead;
	scan->ahead = last;
	if (scan->hand->npages == 0)
		return -1;
	fill_hand(scan, scan->ahead);
	scan->page = 0;
	scan->line = FirstOffsetNumber;
	vector_count_tuples_returned(scan->rel, scan->hand->n);
	*tuples = scan->hand->tuples;

	return scan->hand->n;
}

/*
 * Find the line pointer of a row of those handed out, from a page of the hand
 * and a line pointer on.
 *
 * Line pointers of visible rows stay as they are while the page is pinned, so
 * that they are looked at without a lock, as heapgettup_pagemode() does.
 */
static ItemId
find_line(const Hand *hand, HeapTupleHeader tuple, int *number, OffsetNumber *line)
{
	Page		page = BufferGetPage(hand->pages[*number]);
	unsigned	offset;
	ItemId		item;

	while ((char *) tuple < (char *) page || (char *) tuple >= (char *) page + BLCKSZ)
	{
		(*number)++;
		Assert(*number < hand->npages);
		page = BufferGetPage(hand->pages[*number]);
		*line = FirstOffsetNumber;
	}
	offset = (char *) tuple - (char *) page;
	item = PageGetItemId(page, *line);
	while (!ItemIdIsNormal(item) || ItemIdGetOffset(item) != offset)
	{
		(*line)++;
		Assert(*line <= PageGetMaxOffsetNumber(page));
		item = PageGetItemId(page, *line);
	}
	return item;
}

/*
 * Store a row of those handed out in a slot for tuples of buffers, which refers
 * to the scan's memory until the next call. Rows are asked for in ascending
 * order.
 */
void
vector_scan_store(VectorScan *scan, HeapTupleHeader tuple, TupleTableSlot *slot)
{
	Hand	   *hand = scan->hand;
	ItemId		item = find_line(hand, tuple, &scan->page, &scan->line);

	scan->stored.t_data = tuple;
	scan->stored.t_len = ItemIdGetLength(item);
	scan->stored.t_tableOid = RelationGetRelid(scan->rel);
	ItemPointerSet(&scan->stored.t_self, BufferGetBlockNumber(hand->pages[scan->page]), scan->line);
	ExecStoreBufferHeapTuple(&scan->stored, slot, hand->pages[scan->page]);
}

/* Where rows are of those handed out, in ascending order: their versions, which stay there as long as the snapshot is used. */
void
vector_scan_places(VectorScan *scan, HeapTupleHeader *tuples, int n, Datum *places)
{
	const Hand *hand = scan->hand;
	int			page = 0;
	OffsetNumber line = FirstOffsetNumber;

	for (int i = 0; i < n; i++)
	{
		RowPlace	place = {.version = true};

		(void) find_line(hand, tuples[i], &page, &line);
		place.block = BufferGetBlockNumber(hand->pages[page]);
		place.line = line;
		places[i] = row_place_value(place);
	}
}

/*
 * What is to be fetched of the next rows, while those that were handed out are
 * worked on, and how much of each row that is.
 */
VectorFetch *
vector_scan_fetch(VectorScan *scan)
{
	return &scan->fetch;
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
	put_back(scan->hand);
	put_back(scan->ahead);
	page_reader_end(scan->reader);
	if (BufferIsValid(scan->vmbuffer))
		ReleaseBuffer(scan->vmbuffer);
	if (scan->strategy != NULL)
		FreeAccessStrategy(scan->strategy);
	pfree(scan);
}
