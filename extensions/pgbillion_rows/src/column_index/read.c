/*-------------------------------------------------------------------------
 *
 * read.c
 *	  Reading the columns of segments, for one snapshot.
 *
 * The order of looks makes it sound. First the visibility map says which
 * blocks are all-visible; only then is the segment's entry read, under its
 * page's share lock. A block may be read here if it was all-visible at the
 * first look and is not stale at the second. The other order would believe a
 * block from which VACUUM removes rows between the looks.
 *
 * A segment's pages may be overwritten while it is read, also by replay on a
 * standby, where nothing can be told to wait. So bytes are copied under the
 * page's share lock, and only if the page still says that it is this segment's
 * and generation's. What has been copied stays right: of arrays, which are read
 * in runs of rows one after the other, all that the page holds is copied with
 * the first run, and the next ones are given from the copy.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bitutils.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "column_index/reader.h"

/* What loops over arrays want. */
#define ARRAY_ALIGNMENT 64

/* Bytes that a prefetch brings; a wrong guess costs a little speed. */
#define CACHE_LINE 64

/* ---- begin and end ---- */

/* Why rows must not be read from here under this snapshot, or NULL. */
static const char *
reason_against(Relation heap, Relation index, Snapshot snapshot)
{
	if (!column_index_usable(index))
		return "the index is not valid";
	if (!gather_encodes(heap))
		return "the table has another access method";
	if (!IsMVCCSnapshot(snapshot))
		return "the snapshot is not one of a query";

	/*
	 * a writer's check for readers relies on the page's lock, which is not
	 * taken here
	 */
	if (CheckForSerializableConflictOutNeeded(heap, snapshot))
		return "the transaction is serializable";
	if (old_snapshots_lose_rows())
		return "old_snapshot_threshold is set";
	return NULL;
}

/*
 * Begin to read some columns of an index, numbered from 0, for a snapshot that
 * is registered or active until the end.  Both relations stay open and locked
 * by the caller.  Returns NULL, and why, if the heap has to be read.  Memory is
 * of the current context.
 */
ColumnReader *
column_reader_begin(Relation heap, Relation index, Snapshot snapshot, const int *columns, int ncolumns,
					const char **why)
{
	ColumnReader *reader;

	*why = reason_against(heap, index, snapshot);
	if (*why != NULL)
		return NULL;

	reader = palloc0(sizeof(ColumnReader));
	reader->heap = heap;
	reader->context = CurrentMemoryContext;
	reader->segment_context = AllocSetContextCreate(CurrentMemoryContext, "columns: dictionaries",
													ALLOCSET_DEFAULT_SIZES);
	directory_open(&reader->directory, index);
	reader->ncolumns = ncolumns;
	reader->columns = palloc0(sizeof(ReaderColumn) * Max(ncolumns, 1));
	reader->states = palloc0(sizeof(ColumnState) * Max(ncolumns, 1));
	reader->segment.columns = reader->states;
	for (int c = 0; c < ncolumns; c++)
	{
		Assert(columns[c] >= 0 && columns[c] < RelationGetNumberOfAttributes(index));
		reader->columns[c].number = columns[c];
		reader->columns[c].type = column_type_of(index, columns[c]);
	}
	pgstat_count_index_scan(index);

	return reader;
}

/* Heap blocks of each segment: segment n begins at block n times this. */
int
column_reader_segment_blocks(const ColumnReader *reader)
{
	return reader->directory.segment_blocks;
}

void
column_reader_end(ColumnReader *reader)
{
	for (int c = 0; c < reader->ncolumns; c++)
	{
		ReaderColumn *column = &reader->columns[c];
		Room	   *rooms[] = {&column->array, &column->places, &column->nulls, &column->bitmap,
		&column->tokens, &column->coded, &column->entries, &column->datums};

		for (int i = 0; i < lengthof(rooms); i++)
		{
			if (rooms[i]->memory != NULL)
				pfree(rooms[i]->memory);
		}
	}
	MemoryContextDelete(reader->segment_context);
	pfree(reader->states);
	pfree(reader->columns);
	pfree(reader);
}

/* ---- bytes ---- */

/* Make room for `bytes` bytes, and slack on both sides. */
char *
reader_room(ColumnReader *reader, Room *room, Size bytes)
{
	if (room->memory == NULL || room->size < bytes)
	{
		if (room->memory != NULL)
			pfree(room->memory);
		room->memory = NULL;
		room->size = Max(bytes, room->size + room->size / 4);
		room->memory = MemoryContextAllocHuge(reader->context, room->size + 3 * SLACK);
		room->start = (char *) TYPEALIGN(ARRAY_ALIGNMENT, room->memory + SLACK);
	}
	return room->start;
}

/*
 * Pin a page: looking its buffer up is most of a short read.  Pages that were
 * written or read one after the other mostly are in buffers at the same
 * distance: those that were never used are given out upwards, and those of a
 * relation that was dropped downwards.
 */
static Buffer
pin_page(ColumnReader *reader, BlockNumber block, Guess *guess)
{
	Relation	index = reader->directory.index;
	int64		distance = (int64) block - guess->block;
	int64		guessed = guess->buffer + guess->step * distance;
	Buffer		buffer;

	/* a temporary table's buffers have other numbers, and are looked up fast */
	if (guess->buffer > 0 && guessed > 0 && guessed <= NBuffers &&
		ReadRecentBuffer(index->rd_locator, MAIN_FORKNUM, block, (Buffer) guessed))
		buffer = (Buffer) guessed;
	else
	{
		buffer = ReadBuffer(index, block);
		guess->step = guess->buffer > 0 && distance == 1 ? buffer - guess->buffer : 1;
	}
	guess->block = block;
	guess->buffer = buffer;

	return buffer;
}

/*
 * A page is not the segment's.  Pages are written again only after the entry
 * has been switched to others: if it has not, they are damaged.
 */
static void
check_replaced(ColumnReader *reader, uint32 number)
{
	DirectoryEntry now;

	if (directory_read(&reader->directory, reader->segment_number, &now) &&
		now.generation == reader->entry.generation)
		store_corrupted(reader->directory.index, reader->entry.first_page + number);
}

/* The bytes at the end of a page from which on the page after it is fetched: the array goes on there. */
#define PREFETCHED_PART (DATA_BYTES / 4)

/*
 * Have the processor fetch what most likely is the next page, while the values
 * of this one are worked on.  Nothing is read: no pin is needed, and there may
 * be no such buffer.
 */
static inline void
prefetch_next(Page page, const Guess *guess)
{
	const char *next = (char *) page + (int64) guess->step * BLCKSZ;

	for (int i = 0; i < BLCKSZ; i += CACHE_LINE)
		__builtin_prefetch(next + i, 0, 2);
}

/*
 * Copy bytes of the segment that the reader is at.  Returns false if it has
 * been replaced.
 */
bool
reader_bytes(ColumnReader *reader, Guess *guess, Size at, Size length, char *to)
{
	Relation	index = reader->directory.index;

	while (length > 0)
	{
		uint32		number = at / DATA_BYTES;
		Size		offset = at % DATA_BYTES;
		Size		part = Min(length, DATA_BYTES - offset);
		Buffer		buffer;
		DataPage   *data;
		bool		ours;

		if (number >= reader->entry.pages)
			store_corrupted(index, reader->entry.first_page);
		buffer = pin_page(reader, reader->entry.first_page + number, guess);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		data = store_content(BufferGetPage(buffer));
		ours = data->magic == DATA_MAGIC && data->segment == reader->segment_number &&
			data->generation == reader->entry.generation && data->number == number;
		if (ours)
		{
			memcpy(to, data->bytes + offset, part);
			if (part >= PREFETCHED_PART && offset + part == DATA_BYTES)
				prefetch_next(BufferGetPage(buffer), guess);
		}
		UnlockReleaseBuffer(buffer);
		if (!ours)
		{
			check_replaced(reader, number);
			return false;
		}
		at += part;
		to += part;
		length -= part;
	}
	return true;
}

/* ---- segments ---- */

static void
set_state(ColumnState *state, const StoredColumn *stored, int nrows)
{
	state->kind = stored->kind;
	state->width = stored->width;
	state->has_nulls = stored->kind == COLUMN_ALL_NULL ? nrows > 0 : (stored->flags & STORED_NULLS) != 0;
	state->has_hashes = (stored->flags & STORED_HASHES) != 0;
	state->scale = state->has_hashes ? 0 : stored->scale;
	state->base = stored->base;
	state->dictionary_size = stored->dictionary_size;
	state->order = stored->order;
	state->min = stored->min;
	state->max = stored->max;
	memcpy(&state->float_min, &stored->min, sizeof(float8));
	memcpy(&state->float_max, &stored->max, sizeof(float8));
}

/* Does what a column says of itself fit its segment, and the version of the format? */
static bool
is_sane(const StoredColumn *stored, const SegmentHead *head, const ColumnType *type, uint32 version)
{
	uint64		array = (uint64) head->nrows * stored->width;

	if ((stored->flags & ~STORED_FLAGS) != 0 ||
		((stored->flags & STORED_TOKENS) != 0 &&
		 (version <= STORE_VERSION_WITHOUT_TOKENS || type->byval ||
		  (stored->kind != COLUMN_CODES && stored->kind != COLUMN_DATUMS))))
		return false;
	if ((stored->flags & STORED_HASHES) != 0 &&
		(version <= STORE_VERSION_WITHOUT_HASHES || !OidIsValid(type->hashed_as) ||
		 (stored->kind != COLUMN_CODES && stored->kind != COLUMN_DATUMS && stored->kind != COLUMN_INTEGERS) ||
		 stored->hashes + HASHES_PLACES(HASHES_BUCKETS(head->nrows)) > head->bytes))
		return false;
	if (stored->kind > COLUMN_DATUMS || stored->order > COLUMN_ORDER_FLOAT ||
		(stored->width & (stored->width - 1)) != 0 || stored->width > 8 ||
		(uint64) stored->values + stored->values_bytes > head->bytes || stored->values_bytes < array ||
		(uint64) stored->dictionary + stored->dictionary_bytes > head->bytes ||
		(uint64) stored->nulls + head->nrows / 8 > head->bytes)
		return false;
	switch (stored->kind)
	{
		case COLUMN_CONSTANT:
			return stored->dictionary_size == 1;
		case COLUMN_CODES:
			return stored->dictionary_size > 1 && (stored->width == 1 || stored->width == 2) &&
				stored->dictionary_size <= 1U << 8 * stored->width;
		case COLUMN_INTEGERS:
		case COLUMN_DECIMALS:
			return stored->width > 0 && stored->dictionary_size <= 256;
		case COLUMN_FLOAT4:
			return stored->width == 4;
		case COLUMN_FLOAT8:
			return stored->width == 8;
		default:
			return true;
	}
}

/* Take the rows of each block from the head; returns how many line pointers are listed. */
static uint32
take_rows(ColumnReader *reader)
{
	ColumnSegment *segment = &reader->segment;
	int			blocks = reader->directory.segment_blocks;
	uint32		row = 0;
	uint32		lines = 0;

	memcpy(reader->stored_rows, reader->head + sizeof(SegmentHead), blocks * sizeof(uint16));
	for (int i = 0; i < blocks; i++)
	{
		segment->rows[i] = reader->stored_rows[i] & ROWS_COUNT;
		segment->first_row[i] = row;
		row += segment->rows[i];
		reader->lines[i] = lines;
		if ((reader->stored_rows[i] & ROWS_LISTED) != 0)
			lines += segment->rows[i];
	}
	segment->first_row[blocks] = row;
	segment->nrows = row;

	return lines;
}

/* Take what is in the segment's head, which has just been read. */
static void
take_head(ColumnReader *reader)
{
	int			blocks = reader->directory.segment_blocks;
	SegmentHead head;
	uint32		lines;
	bool		sane;

	memcpy(&head, reader->head, sizeof(head));
	sane = head.crc == head_crc(reader->head, HEAD_BYTES(blocks, reader->directory.ncolumns)) &&
		head.nblocks <= blocks && head.ncolumns == reader->directory.ncolumns &&
		head.bytes <= (uint64) reader->entry.pages * DATA_BYTES;
	lines = take_rows(reader);
	sane = sane && reader->segment.nrows == head.nrows &&
		(lines == 0 || HEAD_LINES(blocks, head.ncolumns) + lines * sizeof(uint16) <= head.bytes);
	for (int c = 0; sane && c < reader->ncolumns; c++)
	{
		ReaderColumn *column = &reader->columns[c];

		memcpy(&column->stored,
			   reader->head + HEAD_COLUMNS(blocks) + column->number * sizeof(StoredColumn), sizeof(StoredColumn));
		sane = is_sane(&column->stored, &head, &column->type, reader->directory.version);
		set_state(&reader->states[c], &column->stored, head.nrows);
		column->dictionary = NULL;
		column->has_tokens = false;
		column->nrows = 0;
	}
	if (!sane)
		store_corrupted(reader->directory.index, reader->entry.first_page);
}

/* The segment's pages must be there, whatever they are by now: the file never shrinks. */
static void
check_extent(ColumnReader *reader)
{
	uint64		end = (uint64) reader->entry.first_page + reader->entry.pages;

	if (end > reader->npages)
		reader->npages = RelationGetNumberOfBlocks(reader->directory.index);
	if (end > reader->npages)
		store_corrupted(reader->directory.index, reader->entry.first_page);
}

/* Which blocks may be read: those that are all-visible, and not stale. */
static void
take_blocks(ColumnReader *reader, const uint8 *visible)
{
	ColumnSegment *segment = &reader->segment;
	const uint8 *stale = reader->entry.stale;
	int			nvisible = segment->nblocks - segment->nnot_visible;

	for (int i = 0; i < segment->nblocks; i += 8)
	{
		uint8		valid = visible[i / 8] & ~stale[i / 8];

		segment->nvalid += pg_number_of_ones[valid];
		for (int bit = 0; bit < 8; bit++)
			segment->valid[i + bit] = valid >> bit & 1;
	}
	segment->nstale = nvisible - segment->nvalid;
}

/*
 * Look at a segment: the visibility map first, then the entry, then the head.
 * Returns false if its pages are another's by now.
 */
static bool
look_at_segment(ColumnReader *reader)
{
	ColumnSegment *segment = &reader->segment;
	uint8		visible[BITMAP_BYTES];

	segment->nvalid = segment->nstale = segment->nabsent = 0;
	segment->nnot_visible = segment->nblocks -
		gather_visible(reader->heap, segment->first_block, segment->nblocks, visible);
	if (segment->nnot_visible == segment->nblocks)
		return true;
	PAUSE("visibility map read");
	if (!directory_read(&reader->directory, reader->segment_number, &reader->entry))
	{
		segment->nabsent = segment->nblocks - segment->nnot_visible;
		return true;
	}
	PAUSE("directory read");
	check_extent(reader);
	take_blocks(reader, visible);
	if (segment->nvalid == 0)
		return true;
	if (!reader_bytes(reader, &reader->guess, 0,
					  HEAD_BYTES(reader->directory.segment_blocks, reader->directory.ncolumns), reader->head))
	{
		segment->nvalid = 0;
		return false;
	}
	take_head(reader);
	PAUSE("head read");

	return true;
}

/*
 * Go to a segment of a scan over a number of heap blocks, and return which of
 * its blocks may be read here.  What was returned and loaded before is gone.  May
 * be called again for the same segment, after it was replaced: what it tells
 * then is as right, and may be more or less.
 */
const ColumnSegment *
column_reader_segment(ColumnReader *reader, BlockNumber segment, BlockNumber heap_blocks)
{
	BlockNumber blocks = reader->directory.segment_blocks;

	MemoryContextReset(reader->segment_context);
	reader->segment_number = segment;
	reader->segment.first_block = segment * blocks;
	Assert(reader->segment.first_block < heap_blocks);
	reader->segment.nblocks = Min(blocks, heap_blocks - reader->segment.first_block);
	memset(reader->segment.valid, 0, sizeof(reader->segment.valid));
	/* once more if it has just been replaced; then the heap is as good */
	if (!look_at_segment(reader))
		(void) look_at_segment(reader);
	if (reader->segment.nvalid == 0)
		memset(reader->segment.valid, 0, sizeof(reader->segment.valid));

	return &reader->segment;
}

/* ---- arrays ---- */

/* The eight bits of a bitmap from a place on that is divisible by eight after this number of bits. */
static inline uint8
eight_bits(const uint8 *bitmap, int shift, int i)
{
	/* what is behind the bitmap is loaded, too, but not used */
	return bitmap[i / 8] >> shift | bitmap[i / 8 + 1] << (BITS_PER_BYTE - shift);
}

/* Eight bits as bytes, each 0 or 1. */
static inline uint64
spread_bits(uint8 bits)
{
	/* of byte i bit i, and then its last bit if there is any */
	uint64		each = bits * UINT64CONST(0x0101010101010101) & UINT64CONST(0x8040201008040201);

	return (each + UINT64CONST(0x7F7F7F7F7F7F7F7F)) >> 7 & UINT64CONST(0x0101010101010101);
}

/* Load which rows are NULL; *nulls is NULL if none is. */
bool
reader_nulls(ColumnReader *reader, ReaderColumn *column, uint32 first_row, int nrows, const bool **nulls)
{
	uint32		first_byte = first_row / 8;
	uint32		nbytes = (first_row + nrows + 7) / 8 - first_byte;
	int			shift = first_row % 8;
	uint8	   *bitmap;
	bool	   *to;
	uint64		any = 0;
	int			i = 0;

	*nulls = NULL;
	if ((column->stored.flags & STORED_NULLS) == 0)
		return true;
	to = (bool *) reader_room(reader, &column->nulls, nrows);
	if (column->stored.kind == COLUMN_ALL_NULL)
	{
		memset(to, true, nrows);
		*nulls = to;
		return true;
	}
	bitmap = (uint8 *) reader_room(reader, &column->bitmap, nbytes);
	if (!reader_bytes(reader, &column->guess, column->stored.nulls + first_byte, nbytes, (char *) bitmap))
		return false;
	for (; i + (int) sizeof(uint64) <= nrows; i += sizeof(uint64))
	{
		uint64		eight = spread_bits(eight_bits(bitmap, shift, i));

		memcpy(to + i, &eight, sizeof(eight));
		any |= eight;
	}
	for (; i < nrows; i++)
	{
		int			bit = shift + i;

		to[i] = (bitmap[bit / 8] >> bit % 8) & 1;
		any |= to[i];
	}
	if (any != 0)
		*nulls = to;
	return true;
}

/*
 * Load only which rows of a column are NULL; *nulls is NULL if none is, and else
 * as long valid as a ColumnRun's.  Returns false if the segment was replaced.
 * Not for COLUMN_ABSENT.
 */
bool
column_reader_nulls(ColumnReader *reader, int c, uint32 first_row, int nrows, const bool **nulls)
{
	Assert(reader->columns[c].stored.kind != COLUMN_ABSENT);
	Assert(nrows >= 0 && first_row + nrows <= reader->segment.nrows);
	return reader_nulls(reader, &reader->columns[c], first_row, nrows, nulls);
}

/* Codes are used as they are to look up values: each must have one. */
static void
check_codes(ColumnReader *reader, const ReaderColumn *column, const void *array, int nrows)
{
	uint32		most = 0;

	if (column->stored.width == 1)
	{
		const uint8 *codes = array;
		uint8		largest = 0;

		for (int i = 0; i < nrows; i++)
			largest = Max(largest, codes[i]);
		most = largest;
	}
	else
	{
		const uint16 *codes = array;
		uint16		largest = 0;

		for (int i = 0; i < nrows; i++)
			largest = Max(largest, codes[i]);
		most = largest;
	}
	if (nrows > 0 && most >= column->stored.dictionary_size)
		store_corrupted(reader->directory.index, reader->entry.first_page);
}

static bool
has_array(const ReaderColumn *column)
{
	return column->stored.kind != COLUMN_ALL_NULL && column->stored.kind != COLUMN_CONSTANT;
}

/* Are elements of the array numbers of dictionary entries? */
static bool
has_codes(const ReaderColumn *column)
{
	return column->stored.kind == COLUMN_CODES ||
		(column->stored.width == 1 && column->stored.dictionary_size > 0);
}

/*
 * Have rows of an array in the column's room, and with them all that are in
 * the page of the last one.  False if the segment was replaced.
 */
static bool
load_array(ColumnReader *reader, ReaderColumn *column, uint32 first_row, uint32 nrows)
{
	Size		width = column->stored.width;
	Size		at = column->stored.values + first_row * width;
	Size		pages = (at + nrows * width + DATA_BYTES - 1) / DATA_BYTES;
	uint32		known = 0;		/* rows that are there already */
	uint32		more = Min((pages * DATA_BYTES - at) / width, reader->segment.nrows - first_row);

	if (first_row >= column->first_row && first_row < column->first_row + column->nrows)
		known = column->first_row + column->nrows - first_row;
	if (known > 0 && known >= nrows)
		return true;
	if (known > 0 && column->array.size >= more * width)
		memmove(column->array.start, column->array.start + (first_row - column->first_row) * width, known * width);
	else
		known = 0;
	column->nrows = 0;
	(void) reader_room(reader, &column->array, more * width);
	if (!reader_bytes(reader, &column->guess, at + known * width, (more - known) * width, column->array.start + known * width))
		return false;
	if (has_codes(column))
		check_codes(reader, column, column->array.start + known * width, more - known);
	column->first_row = first_row;
	column->nrows = more;
	Assert(more >= nrows);

	return true;
}

/*
 * Load rows of a column (numbered as in column_reader_begin()) as the array
 * that they are in.  Returns false if the segment was replaced: then nothing
 * more of it can be read.  Not for COLUMN_ABSENT and COLUMN_DATUMS.
 */
bool
column_reader_load(ColumnReader *reader, int c, uint32 first_row, int nrows, ColumnRun *run)
{
	ReaderColumn *column = &reader->columns[c];

	Assert(column->stored.kind != COLUMN_ABSENT && column->stored.kind != COLUMN_DATUMS);
	Assert(nrows >= 0 && first_row + nrows <= reader->segment.nrows);
	run->array = NULL;
	if (!reader_nulls(reader, column, first_row, nrows, &run->nulls))
		return false;
	if (has_array(column))
	{
		if (!load_array(reader, column, first_row, nrows))
			return false;
		run->array = column->array.start + (first_row - column->first_row) * (Size) column->stored.width;
	}
	return true;
}

/* ---- line pointers ---- */

/* Does the index know at which line pointers its rows are? */
bool
column_reader_has_lines(const ColumnReader *reader)
{
	return reader->directory.version > STORE_VERSION_WITHOUT_LINES;
}

/*
 * The line pointers by which indexes know the rows of a block of the segment,
 * in their order, for column_row_find(): at most MaxHeapTuplesPerPage.  Returns
 * false if the segment was replaced.
 */
bool
column_reader_lines(ColumnReader *reader, int block, OffsetNumber *lines)
{
	int			n = reader->segment.rows[block];
	int			form = reader->stored_rows[block] & ~ROWS_COUNT;

	Assert(column_reader_has_lines(reader));
	PAUSE("line pointers read");
	if (n == 0)
		return true;
	if ((form != ROWS_IN_LINE && form != ROWS_LISTED) || n > MaxHeapTuplesPerPage)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	if (form == ROWS_IN_LINE)
	{
		for (int i = 0; i < n; i++)
			lines[i] = FirstOffsetNumber + i;
		return true;
	}
	return reader_bytes(reader, &reader->lines_guess,
						HEAD_LINES(reader->directory.segment_blocks, reader->directory.ncolumns) +
						reader->lines[block] * sizeof(uint16), n * sizeof(uint16), (char *) lines);
}

/* A line pointer that the index has leads to no row of the snapshot. */
void
column_reader_misled(ColumnReader *reader)
{
	store_corrupted(reader->directory.index, reader->entry.first_page);
}
