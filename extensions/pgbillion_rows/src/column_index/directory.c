/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  Where the segments of an index are, and which of their blocks are stale.
 *
 * A directory page is looked at under its share lock and changed under its
 * exclusive lock, in one WAL record each time. A transaction that inserts a
 * row marks the row's block here before it commits; VACUUM marks blocks before
 * it removes dead rows; the encoder clears marks only by switching to pages
 * that it has just written.
 *
 * All functions may raise errors of reading and writing pages. Only one
 * process at a time creates pages, begins and publishes: it has locked the
 * table in a way that no two can.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lmgr.h"

#include "column_index/store.h"

/* ---- layout of a directory page ---- */

static int
bitmap_bytes(const Directory *directory)
{
	return directory->segment_blocks / 8;
}

static int
entry_bytes(const Directory *directory)
{
	return offsetof(DirectoryEntry, stale) + bitmap_bytes(directory);
}

static int
entries_per_page(const Directory *directory)
{
	Assert(directory->page_entries > 0);
	return directory->page_entries;
}

static uint8 *
dirty_bitmap(DirectoryPage *page)
{
	return (uint8 *) page + sizeof(DirectoryPage);
}

/* Of the segment's entry, only as many bytes as entry_bytes() are there. */
static DirectoryEntry *
entry_of(const Directory *directory, DirectoryPage *page, uint32 segment)
{
	int			i = segment % entries_per_page(directory);

	return (DirectoryEntry *) (dirty_bitmap(page) + bitmap_bytes(directory) + i * entry_bytes(directory));
}

static DirectoryPage *
directory_page(Buffer buffer)
{
	return store_content(BufferGetPage(buffer));
}

/* ---- metapage and maps ---- */

/* Write the metapage of an index that has no pages yet. */
void
directory_create(Relation index, ForkNumber forknum, int segment_blocks, int ncolumns)
{
	Buffer		buffer;
	Page		page;
	MetaPage   *meta;

	Assert(segment_blocks >= COLUMNS_MIN_BLOCKS && segment_blocks <= COLUMNS_MAX_BLOCKS);
	Assert((segment_blocks & (segment_blocks - 1)) == 0);
	/* nobody else can extend an index that is being created */
	buffer = ReadBufferExtended(index, forknum, P_NEW, RBM_ZERO_AND_LOCK, NULL);
	Assert(BufferGetBlockNumber(buffer) == META_BLOCK);

	START_CRIT_SECTION();
	page = BufferGetPage(buffer);
	store_page_init(page, PAGE_BYTES);
	meta = store_content(page);
	meta->magic = META_MAGIC;
	meta->version = STORE_VERSION;
	meta->segment_blocks = segment_blocks;
	meta->ncolumns = ncolumns;
	MarkBufferDirty(buffer);
	/* an unlogged table's init fork is logged, too: recovery may remove it */
	if (RelationNeedsWAL(index) || forknum == INIT_FORKNUM)
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
}

/* Begin to look at an index's directory.  Raises an error if it is of another version. */
void
directory_open(Directory *directory, Relation index)
{
	Buffer		buffer = store_read(index, META_BLOCK, BUFFER_LOCK_SHARE, META_MAGIC);
	MetaPage   *meta = store_content(BufferGetPage(buffer));
	uint32		version = meta->version;

	directory->index = index;
	directory->version = version;
	directory->segment_blocks = meta->segment_blocks;
	directory->ncolumns = meta->ncolumns;
	directory->known_block = 0;
	directory->known_buffer = InvalidBuffer;
	directory->meta_buffer = buffer;
	UnlockReleaseBuffer(buffer);

	if (version < STORE_VERSION_WITHOUT_LINES || version > STORE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" is of version %u, and this library reads version %d",
						RelationGetRelationName(index), version, STORE_VERSION),
				 errhint("Please REINDEX it.")));
	if (directory->segment_blocks < COLUMNS_MIN_BLOCKS || directory->segment_blocks > COLUMNS_MAX_BLOCKS ||
		(directory->segment_blocks & (directory->segment_blocks - 1)) != 0 ||
		directory->ncolumns != RelationGetNumberOfAttributes(index))
		store_corrupted(index, META_BLOCK);
	directory->page_entries = (PAGE_BYTES - sizeof(DirectoryPage) - bitmap_bytes(directory)) /
		entry_bytes(directory);
}

/* The map page of a directory page's number, or 0. */
static BlockNumber
find_map(Directory *directory, BlockNumber number)
{
	Buffer		buffer = store_read_again(directory->index, META_BLOCK, BUFFER_LOCK_SHARE, META_MAGIC,
										  &directory->meta_buffer);
	MetaPage   *meta = store_content(BufferGetPage(buffer));
	BlockNumber map = 0;

	if (number / MAP_DIRECTORIES < META_MAPS)
		map = meta->maps[number / MAP_DIRECTORIES];
	UnlockReleaseBuffer(buffer);

	return map;
}

/*
 * The directory page that has the entry of a segment, or 0: then the segment
 * is neither encoded nor being encoded.
 */
static BlockNumber
find_directory(Directory *directory, uint32 segment)
{
	BlockNumber number = segment / entries_per_page(directory);
	BlockNumber block = 0;
	BlockNumber map;

	/* pages stay where they are; that there is none does not last */
	if (directory->known_block != 0 && directory->known_number == number)
		return directory->known_block;

	map = find_map(directory, number);
	if (map != 0)
	{
		Buffer		buffer = store_read(directory->index, map, BUFFER_LOCK_SHARE, MAP_MAGIC);

		block = ((MapPage *) store_content(BufferGetPage(buffer)))->directories[number % MAP_DIRECTORIES];
		UnlockReleaseBuffer(buffer);
	}
	if (block != 0)
	{
		directory->known_number = number;
		directory->known_block = block;
		directory->known_buffer = InvalidBuffer;
	}
	return block;
}

/* Pin and lock a directory page that find_directory() has just returned. */
static Buffer
lock_directory(Directory *directory, BlockNumber block, int lock)
{
	Assert(block == directory->known_block);
	return store_read_again(directory->index, block, lock, DIRECTORY_MAGIC, &directory->known_buffer);
}

/* Add a map page, and enter it in the metapage. */
static BlockNumber
add_map(Directory *directory, BlockNumber number)
{
	Relation	index = directory->index;
	Buffer		buffer = store_extend(index);
	BlockNumber block = BufferGetBlockNumber(buffer);
	Buffer		meta = store_read(index, META_BLOCK, BUFFER_LOCK_EXCLUSIVE, META_MAGIC);
	GenericXLogState *state = GenericXLogStart(index);
	Page		page = GenericXLogRegisterBuffer(state, buffer, GENERIC_XLOG_FULL_IMAGE);
	Page		meta_page = GenericXLogRegisterBuffer(state, meta, 0);
	MapPage    *map;

	store_page_init(page, PAGE_BYTES);
	map = store_content(page);
	map->magic = MAP_MAGIC;
	map->number = number / MAP_DIRECTORIES;
	((MetaPage *) store_content(meta_page))->maps[number / MAP_DIRECTORIES] = block;
	GenericXLogFinish(state);
	UnlockReleaseBuffer(meta);
	UnlockReleaseBuffer(buffer);

	return block;
}

/* The same as find_directory(), but it is created if it is not there. */
static BlockNumber
find_or_add_directory(Directory *directory, uint32 segment)
{
	Relation	index = directory->index;
	BlockNumber number = segment / entries_per_page(directory);
	BlockNumber block = find_directory(directory, segment);
	BlockNumber map;
	Buffer		buffer;
	Buffer		map_buffer;
	GenericXLogState *state;
	Page		page;
	DirectoryPage *content;

	if (block != 0)
		return block;
	if (number / MAP_DIRECTORIES >= META_MAPS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("table of index \"%s\" is too large", RelationGetRelationName(index))));
	map = find_map(directory, number);
	if (map == 0)
		map = add_map(directory, number);

	buffer = store_extend(index);
	block = BufferGetBlockNumber(buffer);
	map_buffer = store_read(index, map, BUFFER_LOCK_EXCLUSIVE, MAP_MAGIC);
	state = GenericXLogStart(index);
	page = GenericXLogRegisterBuffer(state, buffer, GENERIC_XLOG_FULL_IMAGE);
	store_page_init(page, PAGE_BYTES);
	content = store_content(page);
	content->magic = DIRECTORY_MAGIC;
	content->encoding = NO_SEGMENT;
	page = GenericXLogRegisterBuffer(state, map_buffer, 0);
	((MapPage *) store_content(page))->directories[number % MAP_DIRECTORIES] = block;
	GenericXLogFinish(state);
	UnlockReleaseBuffer(map_buffer);
	UnlockReleaseBuffer(buffer);

	return block;
}

/* ---- entries ---- */

/*
 * Copy a segment's entry, as it is under the share lock of its page: to be
 * called after the visibility map was looked at.  Returns false if the segment
 * was never encoded.
 */
bool
directory_read(Directory *directory, uint32 segment, DirectoryEntry *entry)
{
	BlockNumber block = find_directory(directory, segment);
	Buffer		buffer;

	if (block == 0)
		return false;
	buffer = lock_directory(directory, block, BUFFER_LOCK_SHARE);
	memcpy(entry, entry_of(directory, directory_page(buffer), segment), entry_bytes(directory));
	UnlockReleaseBuffer(buffer);

	return entry->first_page != 0;
}

/*
 * Note how the entries of the first segments are, before they are read. False
 * if they are in several pages, or in one whose changes are not logged.
 */
bool
directory_note_moment(Directory *directory, uint32 segments, DirectoryMoment *moment)
{
	BlockNumber block;
	Buffer		buffer;

	if (segments > (uint32) entries_per_page(directory) || !RelationNeedsWAL(directory->index))
		return false;
	block = find_directory(directory, 0);
	if (block == 0)
		return false;
	buffer = lock_directory(directory, block, BUFFER_LOCK_SHARE);
	moment->locator = directory->index->rd_locator;
	moment->block = block;
	moment->buffer = buffer;
	moment->lsn = BufferGetLSNAtomic(buffer);
	UnlockReleaseBuffer(buffer);

	return true;
}

/* Are the entries still as they were? False as well if their page is not in the same buffer. */
bool
directory_is_unchanged(Relation index, const DirectoryMoment *moment)
{
	XLogRecPtr	lsn;

	if (!RelFileLocatorEquals(index->rd_locator, moment->locator) ||
		!ReadRecentBuffer(moment->locator, MAIN_FORKNUM, moment->block, moment->buffer))
		return false;
	/* pages change by what is logged, and their LSN with them */
	lsn = BufferGetLSNAtomic(moment->buffer);
	ReleaseBuffer(moment->buffer);

	return lsn == moment->lsn && RelationNeedsWAL(index);
}

/* Would marking these blocks change anything?  The page is locked. */
static bool
marks_are_new(Directory *directory, DirectoryPage *page, uint32 segment, const uint8 *blocks)
{
	DirectoryEntry *entry = entry_of(directory, page, segment);
	uint8	   *dirty = dirty_bitmap(page);

	for (int i = 0; i < bitmap_bytes(directory); i++)
	{
		if (entry->first_page != 0 && (blocks[i] & ~entry->stale[i]) != 0)
			return true;
		if (page->encoding == segment && (blocks[i] & ~dirty[i]) != 0)
			return true;
	}
	return false;
}

/*
 * Blocks of a segment are not to be read from the index any more, nor from
 * what is being encoded now.  The heap has been changed before.
 */
void
directory_mark_blocks(Directory *directory, uint32 segment, const uint8 *blocks)
{
	BlockNumber block = find_directory(directory, segment);
	Buffer		buffer;

	/* an encoder that begins now finds the heap as it is */
	if (block == 0)
		return;
	buffer = lock_directory(directory, block, BUFFER_LOCK_SHARE);
	if (marks_are_new(directory, directory_page(buffer), segment, blocks))
	{
		GenericXLogState *state;
		DirectoryPage *page;
		DirectoryEntry *entry;

		/* whatever happens to the page between the locks, the marks are due */
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		state = GenericXLogStart(directory->index);
		page = store_content(GenericXLogRegisterBuffer(state, buffer, 0));
		entry = entry_of(directory, page, segment);
		for (int i = 0; i < bitmap_bytes(directory); i++)
		{
			if (entry->first_page != 0)
				entry->stale[i] |= blocks[i];
			if (page->encoding == segment)
				dirty_bitmap(page)[i] |= blocks[i];
		}
		GenericXLogFinish(state);
	}
	UnlockReleaseBuffer(buffer);
}

/* Is there nothing to mark?  What a writer finds for all rows of a block but the first. */
static bool
is_marked(Directory *directory, BlockNumber directory_block, uint32 segment, int block)
{
	Buffer		buffer = lock_directory(directory, directory_block, BUFFER_LOCK_SHARE);
	DirectoryPage *page = directory_page(buffer);
	DirectoryEntry *entry = entry_of(directory, page, segment);
	bool		marked = (entry->first_page == 0 || bitmap_test(entry->stale, block)) &&
		(page->encoding != segment || bitmap_test(dirty_bitmap(page), block));

	UnlockReleaseBuffer(buffer);

	return marked;
}

/* The same of one heap block. */
void
directory_mark_block(Directory *directory, BlockNumber block)
{
	uint32		segment = block / directory->segment_blocks;
	BlockNumber directory_block = find_directory(directory, segment);

	if (directory_block != 0 &&
		!is_marked(directory, directory_block, segment, block % directory->segment_blocks))
	{
		uint8		blocks[BITMAP_BYTES] = {0};

		bitmap_set(blocks, block % directory->segment_blocks);
		directory_mark_blocks(directory, segment, blocks);
	}
}

/*
 * Set the begin mark: from now on the blocks in which rows are inserted are
 * noted.  Returns the generation that is to be written.
 */
uint32
directory_begin(Directory *directory, uint32 segment)
{
	BlockNumber block = find_or_add_directory(directory, segment);
	Buffer		buffer = store_read(directory->index, block, BUFFER_LOCK_EXCLUSIVE, DIRECTORY_MAGIC);
	GenericXLogState *state = GenericXLogStart(directory->index);
	DirectoryPage *page = store_content(GenericXLogRegisterBuffer(state, buffer, 0));
	uint32		generation = entry_of(directory, page, segment)->generation + 1;

	/* of an encoder that failed there may be a mark: it is this one's now */
	page->encoding = segment;
	memset(dirty_bitmap(page), 0, bitmap_bytes(directory));
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);

	return generation;
}

/*
 * Switch to what was written, and take the begin mark back.  The entry's stale
 * blocks are those that were not encoded; those that have been marked since
 * directory_begin() are added.
 */
void
directory_publish(Directory *directory, uint32 segment, const DirectoryEntry *entry)
{
	BlockNumber block = find_directory(directory, segment);
	Buffer		buffer = store_read(directory->index, block, BUFFER_LOCK_EXCLUSIVE, DIRECTORY_MAGIC);
	GenericXLogState *state = GenericXLogStart(directory->index);
	DirectoryPage *page = store_content(GenericXLogRegisterBuffer(state, buffer, 0));
	DirectoryEntry *stored = entry_of(directory, page, segment);

	Assert(page->encoding == segment);
	Assert(entry->generation == stored->generation + 1);
	memcpy(stored, entry, entry_bytes(directory));
	for (int i = 0; i < bitmap_bytes(directory); i++)
		stored->stale[i] |= dirty_bitmap(page)[i];
	page->encoding = NO_SEGMENT;
	GenericXLogFinish(state);
	UnlockReleaseBuffer(buffer);
}

/* ---- all of it ---- */

typedef void (*VisitPage) (Directory *directory, BlockNumber block, BlockNumber number, void *arg);

/* Call a function for each map page (number NO_SEGMENT) and directory page. */
static void
visit_pages(Directory *directory, VisitPage visit, void *arg)
{
	BlockNumber *blocks = palloc(sizeof(BlockNumber) * MAP_DIRECTORIES);

	for (uint32 m = 0; m < META_MAPS; m++)
	{
		BlockNumber map = find_map(directory, m * MAP_DIRECTORIES);
		Buffer		buffer;

		/* a table's blocks need not be encoded in their order */
		if (map == 0)
			continue;
		visit(directory, map, NO_SEGMENT, arg);
		buffer = store_read(directory->index, map, BUFFER_LOCK_SHARE, MAP_MAGIC);
		memcpy(blocks, ((MapPage *) store_content(BufferGetPage(buffer)))->directories,
			   sizeof(BlockNumber) * MAP_DIRECTORIES);
		UnlockReleaseBuffer(buffer);
		for (uint32 i = 0; i < MAP_DIRECTORIES; i++)
		{
			if (blocks[i] != 0)
				visit(directory, blocks[i], m * MAP_DIRECTORIES + i, arg);
		}
	}
	pfree(blocks);
}

static void
note_last(Directory *directory, BlockNumber block, BlockNumber number, void *arg)
{
	uint32	   *segments = arg;

	if (number != NO_SEGMENT)
		*segments = Max(*segments, (number + 1) * entries_per_page(directory));
}

/* Segments beyond this number were never encoded. */
uint32
directory_segments(Directory *directory)
{
	uint32		segments = 0;

	visit_pages(directory, note_last, &segments);
	return segments;
}

static void
add_extent(Extents *extents, BlockNumber first, BlockNumber pages)
{
	if (extents->n == extents->room)
	{
		extents->room *= 2;
		extents->extents = repalloc_huge(extents->extents, sizeof(Extent) * extents->room);
	}
	extents->extents[extents->n].first = first;
	extents->extents[extents->n].pages = pages;
	extents->n++;
}

static void
init_extents(Extents *extents)
{
	extents->n = 0;
	extents->room = 64;
	extents->extents = palloc(sizeof(Extent) * extents->room);
}

static void
note_extents(Directory *directory, BlockNumber block, BlockNumber number, void *arg)
{
	Buffer		buffer;

	add_extent(arg, block, 1);
	if (number == NO_SEGMENT)
		return;
	buffer = store_read(directory->index, block, BUFFER_LOCK_SHARE, DIRECTORY_MAGIC);
	for (int i = 0; i < entries_per_page(directory); i++)
	{
		DirectoryEntry *entry = entry_of(directory, directory_page(buffer), i);

		if (entry->first_page != 0)
			add_extent(arg, entry->first_page, entry->pages);
	}
	UnlockReleaseBuffer(buffer);
}

static int
compare_extents(const void *a, const void *b)
{
	BlockNumber first = ((const Extent *) a)->first;
	BlockNumber second = ((const Extent *) b)->first;

	return first < second ? -1 : first > second;
}

/*
 * The pages that nothing names.  Those of generations which the caller goes
 * on to replace are not among them, so that a reader that has just read their
 * entries mostly finds them.
 */
void
directory_free_pages(Directory *directory, Extents *free_pages)
{
	BlockNumber npages = RelationGetNumberOfBlocks(directory->index);
	BlockNumber next = 0;
	Extents		used;

	init_extents(&used);
	add_extent(&used, META_BLOCK, 1);
	visit_pages(directory, note_extents, &used);
	add_extent(&used, npages, 0);
	qsort(used.extents, used.n, sizeof(Extent), compare_extents);

	init_extents(free_pages);
	for (int i = 0; i < used.n; i++)
	{
		BlockNumber first = used.extents[i].first;

		/* two owners of a page, or pages that are not there */
		if (first < next || first > npages || used.extents[i].pages > npages - first)
			store_corrupted(directory->index, first);
		if (first > next)
			add_extent(free_pages, next, first - next);
		next = first + used.extents[i].pages;
	}
	pfree(used.extents);
}
