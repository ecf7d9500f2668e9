/*-------------------------------------------------------------------------
 *
 * segments.c
 *	  The source of batches from a columnar index, and from the heap where
 *	  that does not hold.
 *
 * The table is gone through once, a segment of the index at a time and mostly in
 * the order of its blocks. Blocks of which the index says that it is right are given
 * as batches of columns, as many whole blocks as fit; all others, and those
 * whose columns cannot be loaded because somebody replaces them, are read from
 * the heap. Which is which is decided when a segment is begun, and can only
 * change from columns to heap: what has been given is never taken back.
 *
 * Columns are loaded as arrays in the form in which the index has them, when
 * prepare() asks, and turned into what is wanted then: codes, numbers, Datums.
 * If one cannot be loaded the batch is void, and its blocks come again from
 * the heap; so nothing that has passed prepare() can fail.
 *
 * Of a segment in which the filter keeps no row, which bounds of its columns
 * show, the blocks that hold are not read at all, nor are those that do not have a
 * value which is looked for, as far as hashes show. Where only the first rows of an
 * order are wanted, the segments may be gone through from the last one on.
 *
 * If rows are wanted in the table's own form, locate() has the index say where
 * the rows are that are left, and store() fetches them (fetched_rows.c). If some
 * columns are wanted only once joins have removed rows, where each row is is a
 * column of the batch, and late_columns.c has rows fetched by that.
 *
 * In a parallel plan the processes share a counter of segments. The leader
 * decides whether the table is read this way; a process that may not read the
 * index after all reads all blocks of its segments from the heap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "lib/stringinfo.h"
#include "pgstat.h"
#include "storage/bufmgr.h"

#include "vector/source/segments.h"

static const char *const count_names[] = {
	"Column Segments Read", "Column Segments Skipped",
	"Column Blocks Read", "Column Blocks Skipped",
	"Heap Blocks Read", "Heap Blocks Not All-Visible", "Heap Blocks Stale", "Heap Blocks Not Encoded",
	"Heap Blocks Replaced", "Rows Fetched", "Heap Blocks Fetched",
};

StaticAssertDecl(lengthof(count_names) == NCOUNTS, "a name for each count");

#define HEAP_SHARED(shared) ((void *) ((char *) (shared) + MAXALIGN(sizeof(SharedSegments))))

/* ---- beginning ---- */

/* Is the index asked where rows are? */
static inline bool
finds_rows(const SegmentSource *source)
{
	return source->returns_rows || source->place >= 0;
}

/* Begin to read the index, if it may be read. */
static void
open_reader(SegmentSource *source)
{
	MemoryContext old;

	Assert(source->reader == NULL);
	if (source->lacks_column)
	{
		source->declined = "an expression of the index has changed";
		return;
	}
	old = MemoryContextSwitchTo(source->context);
	source->reader = column_reader_begin(source->rel, source->index, source->estate->es_snapshot,
										 source->attributes, source->ncolumns, &source->declined);
	if (source->reader != NULL && finds_rows(source) && !column_reader_has_lines(source->reader))
	{
		source->declined = "the index was created by an earlier version, and needs REINDEX";
		column_reader_end(source->reader);
		source->reader = NULL;
	}
	MemoryContextSwitchTo(old);
}

/* How many segments there are, the last of which may be short. */
static BlockNumber
nsegments(const SegmentSource *source)
{
	return source->nblocks / source->segment_blocks + (source->nblocks % source->segment_blocks != 0);
}

/* What a segment has of the column by which segments are ordered; false if that is not known. */
static bool
look_at_bound(SegmentSource *source, BlockNumber segment, ColumnState *state)
{
	const ColumnSegment *found = column_reader_segment(source->reader, segment, source->nblocks);

	if (found->nvalid == 0)
		return false;
	*state = found->columns[source->order];
	return state->order != COLUMN_NO_ORDER;
}

/*
 * Does the last segment have earlier values than the first? Then most likely
 * values become earlier from block to block, and so segments are read the other
 * way round. That is right in any case.
 */
static bool
should_go_backward(SegmentSource *source)
{
	ColumnState first;
	ColumnState last;
	BlockNumber segments = nsegments(source);

	if (source->order < 0 || segments < 2 || !look_at_bound(source, 0, &first) ||
		!look_at_bound(source, segments - 1, &last) || first.order != last.order || first.scale != last.scale)
		return false;
	if (first.order == COLUMN_ORDER_FLOAT)
		return source->descending ? last.float_max > first.float_max : last.float_min < first.float_min;
	return source->descending ? last.max > first.max : last.min < first.min;
}

static void
begin_segments(SegmentSource *source)
{
	SharedSegments *shared = source->shared;

	source->begun = true;
	source->block = source->nsegment = 0;
	source->next_segment = 0;
	source->from_heap = true;
	if (source->reader == NULL && (shared == NULL || shared->segmented))
		open_reader(source);
	source->segmented = shared != NULL ? shared->segmented : source->reader != NULL;
	if (!source->segmented)
		return;
	source->nblocks = shared != NULL ? shared->nblocks : RelationGetNumberOfBlocks(source->rel);
	source->segment_blocks = shared != NULL ? shared->segment_blocks :
		column_reader_segment_blocks(source->reader);
	Assert(source->segment_blocks > 0 && source->segment_blocks <= COLUMNS_MAX_BLOCKS);
	source->backward = shared != NULL ? shared->backward : should_go_backward(source);
}

/* ---- segments ---- */

/* The number of the next segment that is this process's; false at the end. */
static bool
take_segment(SegmentSource *source, BlockNumber *segment)
{
	uint64		next = source->shared != NULL ? pg_atomic_fetch_add_u64(&source->shared->next, 1) :
		source->next_segment++;

	if (next * source->segment_blocks >= source->nblocks)
		return false;
	*segment = (BlockNumber) (source->backward ? nsegments(source) - 1 - next : next);
	return true;
}

/* Is a column not in the segment? */
static bool
lacks_column(SegmentSource *source)
{
	for (int i = 0; i < source->ncolumns; i++)
	{
		if (source->segment->columns[i].kind == COLUMN_ABSENT)
			return true;
	}
	return false;
}

/* Have the heap's source give what is left of the segment and in the heap. */
static void
list_blocks(SegmentSource *source)
{
	int			n = 0;

	/* mostly there is none */
	if (memchr(source->places + source->block, IN_HEAP, source->nsegment - source->block) == NULL)
	{
		heap_source_list(source->heap, source->list, 0);
		return;
	}
	for (int i = source->block; i < source->nsegment; i++)
	{
		if (source->places[i] == IN_HEAP)
			source->list[n++] = source->first_block + i;
	}
	heap_source_list(source->heap, source->list, n);
}

/* All blocks of the segment that are to be read from the index are read elsewhere; return how many. */
static int
move_blocks(SegmentSource *source, Place to)
{
	int			moved = 0;

	for (int i = source->block; i < source->nsegment; i++)
	{
		if (source->places[i] != IN_INDEX)
			continue;
		source->places[i] = to;
		moved++;
	}
	return moved;
}

/* Go to the next segment, and forget all that is known of the last one; false at the end. */
static bool
find_segment(SegmentSource *source)
{
	BlockNumber number;

	source->segment = NULL;
	source->nsegment = source->block = 0;
	source->serial += Max(source->ncolumns, 1);
	for (int i = 0; i < source->ncolumns; i++)
		source->columns[i].dictionary = NULL;
	if (!take_segment(source, &number))
		return false;
	source->first_block = number * source->segment_blocks;
	source->nsegment = Min(source->segment_blocks, source->nblocks - source->first_block);
	if (source->reader != NULL)
	{
		source->segment = column_reader_segment(source->reader, number, source->nblocks);
		Assert(source->segment->first_block == source->first_block &&
			   source->segment->nblocks == source->nsegment);
	}
	return true;
}

/* Blocks are read from the index if they may be; all others, or without a segment all, from the heap. */
static void
place_blocks(SegmentSource *source, const ColumnSegment *segment)
{
	for (int i = 0; i < source->nsegment; i++)
		source->places[i] = segment != NULL && segment->valid[i] ? IN_INDEX : IN_HEAP;
}

/* Begin the next segment, and decide where its blocks are read; false at the end. */
static bool
begin_segment(SegmentSource *source, Batch *batch)
{
	const ColumnSegment *segment;
	int			nvalid;
	int			replaced;
	int			skipped;

	if (!find_segment(source))
		return false;
	segment = source->segment;
	nvalid = segment != NULL ? segment->nvalid : 0;
	if (segment != NULL)
	{
		source->counts[BLOCKS_NOT_VISIBLE] += segment->nnot_visible;
		source->counts[BLOCKS_STALE] += segment->nstale;
		source->counts[BLOCKS_NOT_ENCODED] += segment->nabsent;
		replaced = source->nsegment - nvalid - segment->nnot_visible - segment->nstale - segment->nabsent;
		Assert(replaced == 0 || (replaced > 0 && nvalid == 0));
		source->counts[BLOCKS_REPLACED] += replaced;
	}
	else
		source->counts[BLOCKS_NOT_ENCODED] += source->nsegment;
	if (nvalid > 0 && lacks_column(source))
	{
		source->counts[BLOCKS_NOT_ENCODED] += nvalid;
		nvalid = 0;
	}
	place_blocks(source, nvalid > 0 ? segment : NULL);

	/* bounds are of the batches that come from the index */
	source->from_heap = false;
	source->nsought = 0;
	if (nvalid > 0 && source->source.excludes != NULL &&
		source->source.excludes(source->source.filter, batch))
		source->nsought += move_blocks(source, NOWHERE);
	skipped = source->nsought;
	list_blocks(source);
	source->counts[BLOCKS_HEAP] += source->nsegment - nvalid;
	source->counts[BLOCKS_SKIPPED] += skipped;
	source->counts[BLOCKS_INDEX] += nvalid - skipped;
	source->counts[SEGMENTS_SKIPPED] += nvalid > 0 && nvalid == skipped;
	source->counts[SEGMENTS_READ] += nvalid > skipped;

	return true;
}

/* The segment was replaced: what is left of it, including the current batch, is read from the heap. */
static void
leave_segment(SegmentSource *source)
{
	int			moved;

	source->block = source->batch_block;
	moved = move_blocks(source, IN_HEAP);
	Assert(moved > 0);
	list_blocks(source);
	source->counts[BLOCKS_INDEX] -= moved;
	source->counts[BLOCKS_HEAP] += moved;
	source->counts[BLOCKS_REPLACED] += moved;
}

/* ---- batches of the heap ---- */

static bool
heap_next(SegmentSource *source, Batch *batch)
{
	if (source->expressions != NULL)
		return heap_expressions_next(source->expressions, batch);
	return source->heap->methods->next(source->heap, batch);
}

static void
heap_load(SegmentSource *source, Batch *batch, int index)
{
	if (source->expressions != NULL)
		heap_expressions_load(source->expressions, batch, index);
	else
		source->heap->methods->load(source->heap, batch, index);
}

/* ---- batches ---- */

/* Begin a batch of the next blocks in the index, as many as fit and follow one another. */
static void
begin_window(SegmentSource *source, Batch *batch)
{
	const ColumnSegment *segment = source->segment;
	const uint32 *first_row = segment->first_row;
	int			block = source->block;
	uint32		most = first_row[block] + BATCH_ROWS;	/* and no more rows */
	int			n;

	Assert(source->places[block] == IN_INDEX);
	source->from_heap = false;
	source->batch_block = block;
	source->first_row = first_row[block];
	do
		block++;
	while (block < source->nsegment && source->places[block] == IN_INDEX && first_row[block + 1] <= most);
	source->block = block;
	n = source->nrows = source->nleft = first_row[block] - source->first_row;
	Assert(n <= BATCH_ROWS);
	source->selected = source->listed = false;
	for (int i = 0; i < source->ncolumns; i++)
	{
		SegmentColumn *column = &source->columns[i];

		column->prepared = column->nulls_prepared = false;
		column->is_kept = column->has_kept_nulls = column->has_codes = false;
		batch->columns[i].loaded = false;
	}
	if (source->place >= 0)
		batch->columns[source->place].loaded = false;
	batch->n = n;
	vector_count_tuples_returned(source->rel, n);
}

/* Give a page of the heap, which is the next block of the segment. */
static void
begin_page(SegmentSource *source, Batch *batch)
{
	Assert(source->places[source->block] == IN_HEAP);
	source->from_heap = true;
	source->block++;
	/* a page for each block of the list */
	if (!heap_next(source, batch))
		elog(ERROR, "a heap block was not read");
}

static bool
next_batch(Source *base, Batch *batch)
{
	SegmentSource *source = (SegmentSource *) base;

	if (!source->begun)
		begin_segments(source);
	if (!source->segmented)
		return heap_next(source, batch);
	for (;;)
	{
		while (source->block < source->nsegment && source->places[source->block] == NOWHERE)
			source->block++;
		if (source->block < source->nsegment)
			break;
		CHECK_FOR_INTERRUPTS();
		if (!begin_segment(source, batch))
			return false;
	}
	if (source->places[source->block] == IN_INDEX)
		begin_window(source, batch);
	else
		begin_page(source, batch);

	return true;
}

/* ---- where rows are ---- */

/* The number in the window of a row of the batch. */
static inline int
row_of_window(const SegmentSource *source, int row)
{
	return source->selected ? source->rows[row] : row;
}

/*
 * Find the line pointers of the rows that are left, block by block. They are
 * what the index says; the heap is looked at when a row is stored.
 */
static bool
locate(Source *base, Batch *batch)
{
	SegmentSource *source = (SegmentSource *) base;
	const uint32 *first_row;
	OffsetNumber lines[MaxHeapTuplesPerPage];
	int			block = source->batch_block;
	int			known = -1;		/* the block of which lines[] are */

	Assert(finds_rows(source));
	if (source->from_heap)
		return true;
	first_row = source->segment->first_row;
	for (int i = 0; i < batch->n; i++)
	{
		int			row = row_of_window(source, i);

		while (first_row[block + 1] <= source->first_row + row)
			block++;
		Assert(block < source->block && source->places[block] == IN_INDEX);
		if (block != known && !column_reader_lines(source->reader, block, lines))
		{
			leave_segment(source);
			return false;
		}
		known = block;
		source->rows_at[row].block = source->first_block + block;
		source->rows_at[row].line = lines[source->first_row + row - first_row[block]];
		source->rows_at[row].version = false;
	}
	return true;
}

/* Fill in the column that says where the rows are that are left. */
static void
load_places(SegmentSource *source, Batch *batch)
{
	Column	   *column = &batch->columns[source->place];

	/* it is never NULL */
	Assert(!column->dirty);
	column->has_nulls = false;
	for (int i = 0; i < batch->n; i++)
		column->values[i] = row_place_value(source->rows_at[row_of_window(source, i)]);
	column->loaded = true;
}

/* ---- columns of a batch ---- */

static bool
prepare(Source *base, Batch *batch, const int *columns, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
		return true;
	for (int i = 0; i < n; i++)
	{
		SegmentColumn *column = &source->columns[columns[i]];

		if (columns[i] == source->place)
		{
			if (!locate(base, batch))
				return false;
			continue;
		}
		if (column->prepared || !segment_needs_values(source, batch, columns[i]))
			continue;
		if (!segment_load_window(source, columns[i]))
		{
			leave_segment(source);
			return false;
		}
		column->prepared = true;
	}
	return true;
}

static bool
prepare_nulls(Source *base, Batch *batch, int index)
{
	SegmentSource *source = (SegmentSource *) base;
	SegmentColumn *column = &source->columns[index];

	if (source->from_heap || column->prepared || column->nulls_prepared)
		return true;
	if (!segment_load_nulls(source, index))
	{
		leave_segment(source);
		return false;
	}
	column->nulls_prepared = true;
	return true;
}

static void
load(Source *base, Batch *batch, int index)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
		heap_load(source, batch, index);
	else if (index == source->place)
		load_places(source, batch);
	else
		segment_load(source, batch, index);
}

static bool
packed(Source *base, Batch *batch, int index, bool with_nulls, Packed *result)
{
	SegmentSource *source = (SegmentSource *) base;

	return !source->from_heap && index != source->place && segment_packed(source, batch, index, with_nulls, result);
}

static bool
bounds(Source *base, Batch *batch, int index, Bounds *result)
{
	SegmentSource *source = (SegmentSource *) base;

	return !source->from_heap && index != source->place && segment_bounds(source, batch, index, result);
}

/* Leave out the blocks that have no row with one of these values, before the segment's first batch. */
static bool
seek(Source *base, Batch *batch, int index, Oid type, const Datum *values, int n)
{
	SegmentSource *source = (SegmentSource *) base;
	uint64		groups;
	bool		left = false;

	Assert(!source->from_heap && source->block == 0);
	if (index == source->place || !source->segment->columns[index].has_hashes ||
		!column_reader_find(source->reader, index, type, values, n, &groups))
		return false;
	for (int i = 0; i < source->nsegment; i++)
	{
		if (source->places[i] != IN_INDEX)
			continue;
		if ((groups >> column_reader_group(source->reader, i) & 1) != 0)
		{
			left = true;
			continue;
		}
		source->places[i] = NOWHERE;
		source->nsought++;
	}
	return !left;
}

static bool
codes(Source *base, Batch *batch, int index, Codes *result)
{
	SegmentSource *source = (SegmentSource *) base;

	return !source->from_heap && index != source->place && segment_codes(source, batch, index, result);
}

/* ---- the rest of the interface ---- */

/* Columns are loaded one by one as it is. */
static void
load_only(Source *base, Batch *batch, const int *columns, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	/* with expressions, columns are those of another batch */
	if (source->from_heap && source->expressions == NULL)
		source->heap->methods->load_only(source->heap, batch, columns, n);
}

static bool
is_cheap(Source *base, Batch *batch, int column)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap && source->expressions != NULL)
		return heap_expressions_is_cheap(source->expressions, column);
	return !source->from_heap || source->heap->methods->is_cheap(source->heap, batch, column);
}

static bool
has_no_nulls(Source *base, Batch *batch, int index)
{
	SegmentSource *source = (SegmentSource *) base;

	if (index == source->place)
		return true;
	if (source->from_heap && source->expressions != NULL)
		return heap_expressions_has_no_nulls(source->expressions, index);
	if (source->from_heap)
		return source->heap->methods->has_no_nulls(source->heap, batch, index);
	return !source->segment->columns[index].has_nulls &&
		source->segment->columns[index].kind != COLUMN_ALL_NULL;
}

static bool
has_only_nulls(Source *base, Batch *batch, int index)
{
	SegmentSource *source = (SegmentSource *) base;

	return !source->from_heap && source->segment->columns[index].kind == COLUMN_ALL_NULL;
}

static bool
find_nulls(Source *base, Batch *batch, int index, bool *nulls)
{
	SegmentSource *source = (SegmentSource *) base;

	if (!source->from_heap)
		return segment_find_nulls(source, batch, index, nulls);
	/* with expressions, columns are those of another batch */
	return source->expressions == NULL && source->heap->methods->find_nulls(source->heap, batch, index, nulls);
}

static void
keep(Source *base, Batch *batch, const uint16 *rows, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
	{
		if (source->expressions != NULL)
			heap_expressions_keep(source->expressions, rows, n);
		else
			source->heap->methods->keep(source->heap, batch, rows, n);
		return;
	}
	if (source->selected)
		for (int i = 0; i < n; i++)
			source->rows[i] = source->rows[rows[i]];
	else
		memcpy(source->rows, rows, sizeof(uint16) * n);
	source->selected = true;
	source->listed = false;
	source->nleft = n;
	for (int i = 0; i < source->ncolumns; i++)
		source->columns[i].is_kept = source->columns[i].has_kept_nulls = source->columns[i].has_codes = false;
}

/* ---- rows in the table's own form ---- */

/* Have the next n rows be those of left[]. */
static void
fetch_left(SegmentSource *source, int n)
{
	if (source->fetch == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(source->context);

		source->fetch = row_fetch_begin(source->rel, source->estate->es_snapshot, source->read_only);
		MemoryContextSwitchTo(old);
	}
	row_fetch_list(source->fetch, source->left, n);
}

/* Have the rows that are left be fetched when they are stored. */
static void
list_rows(SegmentSource *source)
{
	for (int i = 0; i < source->nleft; i++)
		source->left[i] = source->rows_at[row_of_window(source, i)];
	fetch_left(source, source->nleft);
	source->listed = true;
}

static void
store(Source *base, int row, TupleTableSlot *slot)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
	{
		source->heap->methods->store(source->heap, row, slot);
		return;
	}
	if (!source->listed)
		list_rows(source);
	if (!row_fetch_store(source->fetch, row, slot))
		column_reader_misled(source->reader);
}

/* Add what has been fetched since it was begun. */
static void
add_fetched(const SegmentSource *source, uint64 *counts)
{
	uint64		rows;
	uint64		blocks;

	row_fetch_counts(source->fetch, &rows, &blocks);
	counts[ROWS_FETCHED] += rows;
	counts[BLOCKS_FETCHED] += blocks;
}

/* Remember what was fetched, and end it. */
static void
end_fetch(SegmentSource *source)
{
	if (source->fetch == NULL)
		return;
	add_fetched(source, source->counts);
	row_fetch_end(source->fetch);
	source->fetch = NULL;
}

static void
end(Source *base)
{
	SegmentSource *source = (SegmentSource *) base;

	source->heap->methods->end(source->heap);
	end_fetch(source);
	if (source->reader != NULL)
		column_reader_end(source->reader);
	source->reader = NULL;
	source->segment = NULL;
	source->begun = false;
	if (source->in_worker && source->shared != NULL)
	{
		for (int i = 0; i < NCOUNTS; i++)
			pg_atomic_fetch_add_u64(&source->shared->counts[i], source->counts[i]);
		memset(source->counts, 0, sizeof(source->counts));
	}
}

static void
close_index(Source *base)
{
	index_close(((SegmentSource *) base)->index, NoLock);
}

/* ---- parallel plans ---- */

/* Have the leader decide, and all begin at the first segment. */
static void
share_segments(SegmentSource *source)
{
	SharedSegments *shared = source->shared;

	open_reader(source);
	shared->segmented = source->reader != NULL;
	shared->nblocks = RelationGetNumberOfBlocks(source->rel);
	shared->segment_blocks = shared->segmented ? column_reader_segment_blocks(source->reader) : 1;
	source->nblocks = shared->nblocks;
	source->segment_blocks = shared->segment_blocks;
	shared->backward = shared->segmented && should_go_backward(source);
	pg_atomic_init_u64(&shared->next, 0);
}

static void
share(Source *base, void *memory)
{
	SegmentSource *source = (SegmentSource *) base;

	/* before blocks are counted, as heap's source does */
	source->heap->methods->share(source->heap, HEAP_SHARED(memory));
	source->shared = memory;
	for (int i = 0; i < NCOUNTS; i++)
		pg_atomic_init_u64(&source->shared->counts[i], 0);
	share_segments(source);
}

static void
share_again(Source *base, void *memory)
{
	SegmentSource *source = (SegmentSource *) base;

	end(base);
	source->shared = memory;
	source->heap->methods->share_again(source->heap, HEAP_SHARED(memory));
	share_segments(source);
}

static void
attach(Source *base, void *memory)
{
	SegmentSource *source = (SegmentSource *) base;

	source->heap->methods->attach(source->heap, HEAP_SHARED(memory));
	source->shared = memory;
	source->in_worker = true;
}

static void
detach(Source *base)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->shared == NULL)
		return;
	end(base);
	if (!source->in_worker)
	{
		for (int i = 0; i < NCOUNTS; i++)
			source->counts[i] += pg_atomic_exchange_u64(&source->shared->counts[i], 0);
		source->shared = NULL;
	}
	source->heap->methods->detach(source->heap);
}

/* ---- EXPLAIN ---- */

static void
explain(Source *base, ExplainState *es)
{
	SegmentSource *source = (SegmentSource *) base;
	uint64		counts[NCOUNTS];
	StringInfoData buf;

	memcpy(counts, source->counts, sizeof(counts));
	if (source->fetch != NULL)
		add_fetched(source, counts);

	if (source->declined != NULL)
		ExplainPropertyText("Columns Not Read", source->declined, es);
	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		for (int i = 0; i < NCOUNTS; i++)
			ExplainPropertyUInteger(count_names[i], NULL, counts[i], es);
	}
	else if (source->declined == NULL)
	{
		initStringInfo(&buf);
		appendStringInfo(&buf, "segments=" UINT64_FORMAT " blocks=" UINT64_FORMAT,
						 counts[SEGMENTS_READ], counts[BLOCKS_INDEX]);
		if (counts[BLOCKS_SKIPPED] > 0)
			appendStringInfo(&buf, " skipped=" UINT64_FORMAT " (blocks=" UINT64_FORMAT ")",
							 counts[SEGMENTS_SKIPPED], counts[BLOCKS_SKIPPED]);
		ExplainPropertyText("Column Segments", buf.data, es);
		if (finds_rows(source))
		{
			resetStringInfo(&buf);
			appendStringInfo(&buf, "rows=" UINT64_FORMAT " blocks=" UINT64_FORMAT,
							 counts[ROWS_FETCHED], counts[BLOCKS_FETCHED]);
			ExplainPropertyText("Rows Fetched", buf.data, es);
		}
		resetStringInfo(&buf);
		appendStringInfo(&buf, "read=" UINT64_FORMAT, counts[BLOCKS_HEAP]);
		if (counts[BLOCKS_HEAP] > 0)
			appendStringInfo(&buf, " (not all-visible=" UINT64_FORMAT " stale=" UINT64_FORMAT
							 " not encoded=" UINT64_FORMAT " replaced=" UINT64_FORMAT ")",
							 counts[BLOCKS_NOT_VISIBLE], counts[BLOCKS_STALE],
							 counts[BLOCKS_NOT_ENCODED], counts[BLOCKS_REPLACED]);
		ExplainPropertyText("Heap Blocks", buf.data, es);
		pfree(buf.data);
	}
	source->heap->methods->explain(source->heap, es);
}

static const SourceMethods segment_methods = {
	.next = next_batch,
	.load = load,
	.load_only = load_only,
	.is_cheap = is_cheap,
	.has_no_nulls = has_no_nulls,
	.find_nulls = find_nulls,
	.codes = codes,
	.packed = packed,
	.prepare = prepare,
	.prepare_nulls = prepare_nulls,
	.bounds = bounds,
	.seek = seek,
	.has_only_nulls = has_only_nulls,
	.keep = keep,
	.locate = locate,
	.store = store,
	.end = end,
	.close = close_index,
	.share = share,
	.share_again = share_again,
	.attach = attach,
	.detach = detach,
	.explain = explain,
};

/*
 * The source of a table's rows from a columnar index that holds all of the
 * batch's, or from nothing but the heap if it does not, and from `heap`, its source of heap pages, whose rows have columns that are
 * expressions by `expressions`, if there are any; with returns_rows, rows can be stored in slots of the table's own kind. With an attribute
 * `place`, which comes after all others and says where rows are, they can be
 * fetched later. The caller keeps the table
 * locked; the index is locked until close(). Memory belongs to the
 * current context.
 */
Source *
segment_source_create(Relation rel, Oid index, Batch *batch, Source *heap, HeapExpressions *expressions,
					  bool returns_rows, AttrNumber place)
{
	SegmentSource *source = palloc0(sizeof(SegmentSource));

	source->source.methods = &segment_methods;
	source->source.shared_size = MAXALIGN(sizeof(SharedSegments)) + heap->shared_size;
	source->heap = heap;
	source->expressions = expressions;
	source->rel = rel;
	source->index = index_open(index, AccessShareLock);
	source->estate = batch->parent->state;
	source->context = CurrentMemoryContext;
	source->place = place > 0 ? batch_index(batch, place) : -1;
	Assert(place == 0 || source->place == batch->ncolumns - 1);
	source->ncolumns = batch->ncolumns - (place > 0);
	source->attributes = palloc(sizeof(int) * Max(batch->ncolumns, 1));
	source->columns = palloc0(sizeof(SegmentColumn) * Max(batch->ncolumns, 1));
	for (int i = 0; i < source->ncolumns; i++)
	{
		source->attributes[i] = column_index_place(source->index, RelationGetNumberOfAttributes(rel), batch->columns[i].attno);
		source->lacks_column |= source->attributes[i] < 0;
	}
	source->order = -1;
	source->returns_rows = returns_rows;
	if (finds_rows(source))
	{
		source->read_only = ScanRelIsReadOnly((ScanState *) batch->parent);
		source->rows_at = palloc(sizeof(RowPlace) * BATCH_ROWS);
		source->left = palloc(sizeof(RowPlace) * BATCH_ROWS);
	}

	return &source->source;
}

/*
 * Have the source, which is one of segments, begin where a column of the batch
 * likely has the smallest values, or with `descending` the largest. To be called
 * before its first batch.
 */
void
segment_source_order(Source *base, int column, bool descending)
{
	SegmentSource *source = (SegmentSource *) base;

	Assert(base->methods == &segment_methods && !source->begun);
	source->order = column;
	source->descending = descending;
}

/*
 * The rows at these places, which a column of the batch has said, are fetched
 * next, and nothing that is left of those given before. They ascend, and are not
 * more than a batch has rows. The scan may be at any other row, or have ended.
 */
void
segment_source_list(Source *base, const Datum *places, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	Assert(base->methods == &segment_methods && source->place >= 0 && n <= BATCH_ROWS);
	for (int i = 0; i < n; i++)
		source->left[i] = row_place_of(places[i]);
	fetch_left(source, n);
}

/*
 * Store a row of the list in a slot for tuples of buffers, which pins its page.
 * Rows are asked for in ascending order.
 */
void
segment_source_fetch(Source *base, int row, TupleTableSlot *slot)
{
	SegmentSource *source = (SegmentSource *) base;

	if (!row_fetch_store(source->fetch, row, slot))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" names a row of block %u that is not in the table",
						RelationGetRelationName(source->index), source->left[row].block),
				 errhint("Please REINDEX it.")));
}
