/*-------------------------------------------------------------------------
 *
 * refresh.c
 *	  Encoding segments: the first time, and again when blocks of theirs have
 *	  become stale.
 *
 * One process at a time encodes: it holds a lock on the table that conflicts
 * with itself, or with all who write. For each segment it sets the begin mark,
 * reads the heap, writes pages that nothing names, and switches the segment's
 * entry to them. An error, a crash or a cancellation leaves what was before,
 * and pages that nothing names.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/vacuum.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "column_index/store.h"

/* What one run of refreshing shares among its segments. */
typedef struct Refresher
{
	Relation	heap;
	Relation	index;
	Directory	directory;
	Extents		free_pages;
	BufferAccessStrategy strategy;
	MemoryContext context;		/* of one segment */
	bool		skipped;		/* RefreshResult's */
} Refresher;

/* ---- pages ---- */

/* Take pages that lie together from the free ones; 0 if there are none. */
static BlockNumber
take_free(Extents *free_pages, BlockNumber pages)
{
	for (int i = 0; i < free_pages->n; i++)
	{
		Extent	   *extent = &free_pages->extents[i];

		if (extent->pages >= pages)
		{
			BlockNumber first = extent->first;

			extent->first += pages;
			extent->pages -= pages;
			return first;
		}
	}
	return 0;
}

/* A page to write to, locked exclusively: a free one, or at the end (block 0). */
static Buffer
page_to_write(Relation index, BlockNumber block)
{
	if (block == 0)
		return store_extend(index);
	return ReadBufferExtended(index, MAIN_FORKNUM, block, RBM_ZERO_AND_LOCK, NULL);
}

static void
fill_page(Page page, uint32 segment, uint32 generation, uint32 number, StringInfo bytes)
{
	Size		at = (Size) number * DATA_BYTES;
	Size		length = Min((Size) bytes->len - at, DATA_BYTES);
	DataPage   *data;

	store_page_init(page, offsetof(DataPage, bytes) + length);
	data = store_content(page);
	data->magic = DATA_MAGIC;
	data->segment = segment;
	data->generation = generation;
	data->number = number;
	memcpy(data->bytes, bytes->data + at, length);
}

/*
 * Write a segment's bytes to pages that nothing names yet.  A freed page can
 * be overwritten while a reader still looks for its old content: the reader
 * then finds another segment or generation.
 */
static void
write_pages(Refresher *refresher, uint32 segment, StringInfo bytes, DirectoryEntry *entry)
{
	Relation	index = refresher->index;
	BlockNumber first;

	entry->pages = (bytes->len + DATA_BYTES - 1) / DATA_BYTES;
	first = entry->first_page = take_free(&refresher->free_pages, entry->pages);
	for (uint32 done = 0; done < entry->pages;)
	{
		int			n = Min(entry->pages - done, MAX_GENERIC_XLOG_PAGES);
		Buffer		buffers[MAX_GENERIC_XLOG_PAGES];
		GenericXLogState *state;

		PAUSE("between data pages");
		for (int i = 0; i < n; i++)
		{
			buffers[i] = page_to_write(index, first == 0 ? 0 : first + done + i);
			if (entry->first_page == 0)
				entry->first_page = BufferGetBlockNumber(buffers[i]);
			/* nobody else extends the index */
			if (BufferGetBlockNumber(buffers[i]) != entry->first_page + done + i)
				elog(ERROR, "index \"%s\" was extended by another process", RelationGetRelationName(index));
		}
		state = GenericXLogStart(index);
		for (int i = 0; i < n; i++)
			fill_page(GenericXLogRegisterBuffer(state, buffers[i], GENERIC_XLOG_FULL_IMAGE),
					  segment, entry->generation, done + i, bytes);
		GenericXLogFinish(state);
		for (int i = 0; i < n; i++)
			UnlockReleaseBuffer(buffers[i]);
		done += n;
	}
}

/* ---- segments ---- */

/* How many blocks of a segment would become readable by encoding it? */
static int
blocks_to_gain(Refresher *refresher, uint32 segment, BlockNumber first, int nblocks, bool *encoded)
{
	uint8		visible[BITMAP_BYTES];
	DirectoryEntry entry;
	int			gain = gather_visible(refresher->heap, first, nblocks, visible);

	*encoded = directory_read(&refresher->directory, segment, &entry);
	if (*encoded)
	{
		for (int i = 0; i < nblocks; i++)
			gain -= bitmap_test(visible, i) && !bitmap_test(entry.stale, i);
	}
	return gain;
}

/* Encode a segment, whatever it has been.  Returns the number of blocks encoded. */
static int
encode_blocks(Refresher *refresher, uint32 segment, BlockNumber first, int nblocks)
{
	MemoryContext old = MemoryContextSwitchTo(refresher->context);
	GatheredBlocks *gathered = palloc(sizeof(GatheredBlocks));
	DirectoryEntry entry = {0};
	StringInfoData bytes;
	int			encoded;

	/* before a single row is read: who inserts from now on leaves a mark */
	entry.generation = directory_begin(&refresher->directory, segment);
	PAUSE("begun");
	gather_blocks(refresher->heap, refresher->index, first, nblocks, refresher->strategy, gathered);
	PAUSE("gathered");
	encoded = gathered->ngathered;
	refresher->skipped |= gathered->skipped;
	if (encoded > 0)
	{
		initStringInfo(&bytes);
		encode_segment(gathered, refresher->directory.segment_blocks, refresher->directory.version, &bytes);
		write_pages(refresher, segment, &bytes, &entry);
		entry.rows = gathered->nrows;
		memcpy(entry.stale, gathered->absent, sizeof(entry.stale));
		/* blocks that the heap may grow by are not here, either */
		for (int i = nblocks; i < refresher->directory.segment_blocks; i++)
			bitmap_set(entry.stale, i);
		PAUSE("before publishing");
		directory_publish(&refresher->directory, segment, &entry);
		PAUSE("published");
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(refresher->context);

	return encoded;
}

/*
 * Encode at most `most` segments, from a number on: those that were never
 * encoded, and those of which the given share of blocks (and one block at
 * least) would become readable again.
 *
 * The caller holds ShareUpdateExclusiveLock on the table, or a lock that
 * writers conflict with; the index is valid, or being built. Expressions of the
 * index are evaluated as the table's owner, and their errors are raised.
 */
void
refresh_segments(Relation heap, Relation index, uint32 from, uint32 most, double least_share,
				 BufferAccessStrategy strategy, RefreshResult *result)
{
	Refresher	refresher;
	ColumnOwner caller;
	bool		evaluates = RelationGetIndexExpressions(index) != NIL;
	bool		needs_snapshot = evaluates && !ActiveSnapshotSet();
	uint32		segment;

	Assert(CheckRelationLockedByMe(heap, ShareUpdateExclusiveLock, true) ||
		   CheckRelationLockedByMe(heap, ShareLock, true));
	memset(result, 0, sizeof(*result));
	result->next = NO_SEGMENT;
	result->heap_blocks = gather_encodes(heap) ? RelationGetNumberOfBlocks(heap) : 0;
	if (result->heap_blocks == 0)
		return;

	refresher.heap = heap;
	refresher.index = index;
	refresher.strategy = strategy;
	refresher.skipped = false;
	if (evaluates)
		column_owner_begin(heap, &caller);
	/* functions in expressions may want one */
	if (needs_snapshot)
		PushActiveSnapshot(GetTransactionSnapshot());
	directory_open(&refresher.directory, index);
	directory_free_pages(&refresher.directory, &refresher.free_pages);
	refresher.context = AllocSetContextCreate(CurrentMemoryContext, "columns of a segment",
											  ALLOCSET_DEFAULT_SIZES);
	for (segment = from;; segment++)
	{
		BlockNumber blocks = refresher.directory.segment_blocks;
		BlockNumber first = segment * blocks;
		int			nblocks;
		int			gain;
		bool		encoded;

		if (first / blocks != segment || first >= result->heap_blocks)
			break;
		if (result->segments == most)
		{
			result->next = segment;
			break;
		}
		vacuum_delay_point(false);
		nblocks = Min(blocks, result->heap_blocks - first);
		gain = blocks_to_gain(&refresher, segment, first, nblocks, &encoded);
		if (gain == 0 || (encoded && gain < least_share * nblocks))
			continue;
		result->encoded += encode_blocks(&refresher, segment, first, nblocks);
		result->segments++;
	}
	MemoryContextDelete(refresher.context);
	pfree(refresher.free_pages.extents);
	if (needs_snapshot)
		PopActiveSnapshot();
	if (evaluates)
		column_owner_end(&caller);
	result->skipped = refresher.skipped;
}
