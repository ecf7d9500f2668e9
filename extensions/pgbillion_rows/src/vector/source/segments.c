/*-------------------------------------------------------------------------
 *
 * segments.c
 *	  The source of batches from an index of columns, and from the heap where
 *	  that does not hold.
 *
 * The table is gone through once, in the order of its blocks, a segment of the
 * index at a time. Blocks of which the index says that it is right are given
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
 * show, the blocks that hold are not read at all.
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
#include "catalog/pg_type.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "lib/stringinfo.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/float.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"

#include "columns/columns.h"
#include "vector/source/source.h"

/* What EXPLAIN ANALYZE tells. */
typedef enum Count
{
	SEGMENTS_READ,				/* with a block of columns at least */
	SEGMENTS_SKIPPED,
	BLOCKS_INDEX,
	BLOCKS_SKIPPED,
	BLOCKS_HEAP,				/* of which */
	BLOCKS_NOT_VISIBLE,
	BLOCKS_STALE,
	BLOCKS_NOT_ENCODED,
	BLOCKS_REPLACED,
	NCOUNTS
} Count;

static const char *const count_names[] = {
	"Column Segments Read", "Column Segments Skipped",
	"Column Blocks Read", "Column Blocks Skipped",
	"Heap Blocks Read", "Heap Blocks Not All-Visible", "Heap Blocks Stale", "Heap Blocks Not Encoded",
	"Heap Blocks Replaced",
};

StaticAssertDecl(lengthof(count_names) == NCOUNTS, "a name for each count");

/* What processes of a parallel plan share; what the heap's source shares follows. */
typedef struct SharedSegments
{
	bool		segmented;		/* the leader reads the index */
	BlockNumber nblocks;
	uint32		segment_blocks;
	pg_atomic_uint64 next;		/* the next segment */
	pg_atomic_uint64 counts[NCOUNTS];
} SharedSegments;

#define HEAP_SHARED(shared) ((void *) ((char *) (shared) + MAXALIGN(sizeof(SharedSegments))))

/* What the source knows of a column of the batch. */
typedef struct SegmentColumn
{
	/* the segment */
	const Datum *dictionary;	/* once it was needed */

	/* the window */
	bool		prepared;
	const char *array;			/* an element per row, or NULL */
	const bool *nulls;			/* NULL: no row is NULL */
	Datum	   *datums;			/* COLUMN_DATUMS: decoded */
	bool	   *datum_nulls;

	/* what was made of it for the rows that are left, with room for it */
	char	   *kept;			/* elements, if `is_kept` */
	bool		is_kept;
	uint8	   *codes;			/* if `has_codes` */
	uint16	   *long_codes;
	bool		has_codes;
} SegmentColumn;

/* Where a block of the segment is read. */
typedef enum Place
{
	IN_HEAP,
	IN_INDEX,
	NOWHERE						/* the filter keeps no row of it */
} Place;

typedef struct SegmentSource
{
	Source		source;
	Source	   *heap;
	Relation	rel;
	Relation	index;
	EState	   *estate;
	MemoryContext context;		/* the plan's */
	int			ncolumns;
	int		   *attributes;		/* of the index, in the order of the batch's
								 * columns */
	SegmentColumn *columns;
	SharedSegments *shared;		/* or NULL */
	bool		in_worker;

	/* the scan */
	bool		begun;
	bool		segmented;		/* else all is left to the heap's source */
	ColumnReader *reader;		/* or NULL: there is only the heap */
	const char *declined;		/* why, if it may not be read */
	BlockNumber nblocks;
	uint32		segment_blocks;
	uint64		next_segment;	/* without shared memory */
	uint64		counts[NCOUNTS];

	/* the segment */
	const ColumnSegment *segment;	/* NULL: the next is to be begun */
	BlockNumber first_block;
	int			nsegment;		/* blocks of it */
	int			block;			/* the next one of it */
	Place		places[COLUMNS_MAX_BLOCKS]; /* of each block */
	BlockNumber list[COLUMNS_MAX_BLOCKS];	/* what the heap's source is to
											 * give */
	uint64		serial;			/* of the dictionary of its first column */

	/* the batch */
	bool		from_heap;
	int			batch_block;	/* its first block */
	uint32		first_row;
	int			nrows;			/* of the window: before rows were removed */
	bool		selected;		/* some were: */
	uint16		rows[BATCH_ROWS];	/* those of the window that are left */
} SegmentSource;

/* Zeros, as an array of any elements and codes. */
static const char zeros[BATCH_ROWS * sizeof(uint64)] __attribute__((aligned(64)));

/* A value of variable length, without an alignment. */
#ifdef WORDS_BIGENDIAN
static const char empty_string[] = {(char) 0x81};
#else
static const char empty_string[] = {0x03};
#endif

/* ---- beginning ---- */

/* Begin to read the index, if it may be read. */
static void
open_reader(SegmentSource *source)
{
	MemoryContext old = MemoryContextSwitchTo(source->context);

	Assert(source->reader == NULL);
	source->reader = column_reader_begin(source->rel, source->index, source->estate->es_snapshot,
										 source->attributes, source->ncolumns, &source->declined);
	MemoryContextSwitchTo(old);
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
	*segment = (BlockNumber) next;
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

/* Have the next segment at hand, and all that is known of it forgotten; false at the end. */
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

/* Begin the next segment, and decide where its blocks are read; false at the end. */
static bool
begin_segment(SegmentSource *source, Batch *batch)
{
	const ColumnSegment *segment;
	int			nvalid;
	int			replaced;
	int			skipped = 0;

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
	for (int i = 0; i < source->nsegment; i++)
		source->places[i] = nvalid > 0 && segment->valid[i] ? IN_INDEX : IN_HEAP;

	/* bounds are of the batches that come from the index */
	source->from_heap = false;
	if (nvalid > 0 && source->source.excludes != NULL &&
		source->source.excludes(source->source.filter, batch))
		skipped = move_blocks(source, NOWHERE);
	list_blocks(source);
	source->counts[BLOCKS_HEAP] += source->nsegment - nvalid;
	source->counts[BLOCKS_SKIPPED] += skipped;
	source->counts[BLOCKS_INDEX] += nvalid - skipped;
	source->counts[SEGMENTS_SKIPPED] += skipped > 0;
	source->counts[SEGMENTS_READ] += nvalid > skipped;

	return true;
}

/* The segment was replaced: what is left of it, the batch at hand included, is read from the heap. */
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

/* ---- batches ---- */

/* Begin a batch of the next blocks in the index, as many as fit and follow one another. */
static void
begin_window(SegmentSource *source, Batch *batch)
{
	const ColumnSegment *segment = source->segment;
	int			n = 0;

	Assert(source->places[source->block] == IN_INDEX);
	source->from_heap = false;
	source->batch_block = source->block;
	source->first_row = segment->first_row[source->block];
	do
		n += segment->rows[source->block++];
	while (source->block < source->nsegment && source->places[source->block] == IN_INDEX &&
		   n + segment->rows[source->block] <= BATCH_ROWS);
	Assert(n <= BATCH_ROWS && source->first_row + n == segment->first_row[source->block]);
	source->nrows = n;
	source->selected = false;
	for (int i = 0; i < source->ncolumns; i++)
	{
		SegmentColumn *column = &source->columns[i];

		column->prepared = column->is_kept = column->has_codes = false;
		batch->columns[i].loaded = false;
	}
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
	if (!source->heap->methods->next(source->heap, batch))
		elog(ERROR, "a heap block was not read");
}

static bool
next_batch(Source *base, Batch *batch)
{
	SegmentSource *source = (SegmentSource *) base;

	if (!source->begun)
		begin_segments(source);
	if (!source->segmented)
		return source->heap->methods->next(source->heap, batch);
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

/* ---- columns of a batch ---- */

/* The row of the window that a row of the batch is. */
static inline int
window_row(const SegmentSource *source, int row)
{
	return source->selected ? source->rows[row] : row;
}

/* Is all that anybody asks of a column whether it is NULL, and is that known? */
static bool
need_no_values(const SegmentSource *source, const Batch *batch, int index)
{
	const ColumnState *state = &source->segment->columns[index];

	return batch->columns[index].only_counted && !state->has_nulls && state->kind != COLUMN_ALL_NULL;
}

/* Load a column for the whole window; false if the segment was replaced. */
static bool
load_window(SegmentSource *source, int index)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];
	ColumnRun	run;

	if (state->kind == COLUMN_DATUMS)
	{
		bool		has_nulls;

		if (column->datums == NULL)
		{
			column->datums = MemoryContextAlloc(source->context, sizeof(Datum) * BATCH_ROWS);
			column->datum_nulls = MemoryContextAlloc(source->context, sizeof(bool) * BATCH_ROWS);
		}
		if (!column_reader_decode(source->reader, index, source->first_row, source->nrows,
								  column->datums, column->datum_nulls, &has_nulls))
			return false;
		column->nulls = has_nulls ? column->datum_nulls : NULL;
		column->array = NULL;
		return true;
	}
	if ((state->kind == COLUMN_CODES || state->kind == COLUMN_CONSTANT) && column->dictionary == NULL)
	{
		column->dictionary = column_reader_dictionary(source->reader, index);
		if (column->dictionary == NULL)
			return false;
	}
	if (!column_reader_load(source->reader, index, source->first_row, source->nrows, &run))
		return false;
	column->array = run.array;
	column->nulls = run.nulls;

	return true;
}

static bool
prepare(Source *base, Batch *batch, const int *columns, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
		return true;
	for (int i = 0; i < n; i++)
	{
		SegmentColumn *column = &source->columns[columns[i]];

		if (column->prepared || need_no_values(source, batch, columns[i]))
			continue;
		if (!load_window(source, columns[i]))
		{
			leave_segment(source);
			return false;
		}
		column->prepared = true;
	}
	return true;
}

/* ---- Datums ---- */

/* Element i of an array of unsigned integers. */
static inline uint64
element(const char *array, int width, int i)
{
	switch (width)
	{
		case 1:
			return ((const uint8 *) array)[i];
		case 2:
			return ((const uint16 *) array)[i];
		case 4:
			return ((const uint32 *) array)[i];
		default:
			return ((const uint64 *) array)[i];
	}
}

/* Fill a column's values with what VALUE says of each row, by its number in the window. */
#define FILL(VALUE) \
	do { \
		const uint16 *rows = source->rows; \
		if (source->selected) \
			for (int i = 0; i < n; i++) { int row = rows[i]; (void) row; values[i] = (VALUE); } \
		else \
			for (int row = 0; row < n; row++) values[row] = (VALUE); \
	} while (0)

#define FILL_INTEGERS(type, get) \
	FILL(get(base + ((const type *) array)[row]))

#define FILL_WIDTHS(get) \
	do { \
		switch (state->width) \
		{ \
			case 1: FILL_INTEGERS(uint8, get); break; \
			case 2: FILL_INTEGERS(uint16, get); break; \
			case 4: FILL_INTEGERS(uint32, get); break; \
			default: FILL_INTEGERS(uint64, get); break; \
		} \
	} while (0)

#define LEN1(v) CharGetDatum((char) (v))
#define LEN2(v) Int16GetDatum((int16) (v))
#define LEN4(v) Int32GetDatum((int32) (v))
#define LEN8(v) Int64GetDatum((int64) (v))

static void
fill_integers(const SegmentSource *source, const ColumnState *state, const char *array, int len, int n,
			  Datum *values)
{
	uint64		base = (uint64) state->base;

	switch (len)
	{
		case 1:
			FILL_WIDTHS(LEN1);
			break;
		case 2:
			FILL_WIDTHS(LEN2);
			break;
		case 4:
			FILL_WIDTHS(LEN4);
			break;
		default:
			FILL_WIDTHS(LEN8);
			break;
	}
}

/* Numerics, allocated in the batch's memory; of rows that are not NULL. */
static void
fill_decimals(const SegmentSource *source, const SegmentColumn *column, const ColumnState *state, int n,
			  Datum *values)
{
	for (int i = 0; i < n; i++)
	{
		int			row = window_row(source, i);

		if (column->nulls != NULL && column->nulls[row])
			values[i] = (Datum) 0;
		else
			values[i] = NumericGetDatum(int64_div_fast_to_numeric((int64) ((uint64) state->base +
																		   element(column->array, state->width, row)),
																  state->scale));
	}
}

/* The NULLs of the rows that are left; false if there is none. */
static bool
fill_nulls(const SegmentSource *source, const SegmentColumn *column, int n, Column *to)
{
	bool		found = false;

	if (column->nulls == NULL)
		return false;
	for (int i = 0; i < n; i++)
	{
		to->nulls[i] = column->nulls[window_row(source, i)];
		found |= to->nulls[i];
		if (to->nulls[i])
			to->values[i] = (Datum) 0;
	}
	to->dirty = true;
	return found;
}

static void
load(Source *base, Batch *batch, int index)
{
	SegmentSource *source = (SegmentSource *) base;
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state;
	Column	   *to = &batch->columns[index];
	Datum	   *values = to->values;
	int			n = batch->n;
	const char *array = column->array;
	const Datum *dictionary = column->dictionary;
	MemoryContext old;

	if (source->from_heap)
	{
		source->heap->methods->load(source->heap, batch, index);
		return;
	}
	state = &source->segment->columns[index];
	if (to->dirty)
		memset(to->nulls, 0, sizeof(bool) * BATCH_ROWS);
	to->dirty = to->has_nulls = false;
	if (!column->prepared)
	{
		/*
		 * rows are spilled with any value, of which they know only that it is
		 * none
		 */
		Assert(need_no_values(source, batch, index));
		for (int i = 0; i < n; i++)
			values[i] = to->byval ? (Datum) 0 : PointerGetDatum(empty_string);
		to->loaded = true;
		return;
	}
	switch (state->kind)
	{
		case COLUMN_ABSENT:
			Assert(false);
			break;
		case COLUMN_ALL_NULL:
			memset(values, 0, sizeof(Datum) * n);
			memset(to->nulls, true, sizeof(bool) * n);
			to->dirty = to->has_nulls = true;
			break;
		case COLUMN_CONSTANT:
			FILL(dictionary[0]);
			break;
		case COLUMN_CODES:
			if (state->width == 1)
				FILL(dictionary[((const uint8 *) array)[row]]);
			else
				FILL(dictionary[((const uint16 *) array)[row]]);
			break;
		case COLUMN_INTEGERS:
			fill_integers(source, state, array, to->len, n, values);
			break;
		case COLUMN_DECIMALS:
			old = MemoryContextSwitchTo(batch->econtext->ecxt_per_tuple_memory);
			fill_decimals(source, column, state, n, values);
			MemoryContextSwitchTo(old);
			break;
		case COLUMN_FLOAT4:
			FILL(Float4GetDatum(((const float4 *) array)[row]));
			break;
		case COLUMN_FLOAT8:
			FILL(Float8GetDatum(((const float8 *) array)[row]));
			break;
		case COLUMN_DATUMS:
			FILL(column->datums[row]);
			break;
	}
	if (state->kind != COLUMN_ALL_NULL)
		to->has_nulls = fill_nulls(source, column, n, to);
	to->loaded = true;
}

/* ---- arrays ---- */

/* The elements of the rows that are left. */
static const void *
kept_elements(SegmentSource *source, SegmentColumn *column, int width, int n)
{
	if (!source->selected)
		return column->array;
	if (column->is_kept)
		return column->kept;
	if (column->kept == NULL)
		column->kept = MemoryContextAlloc(source->context, sizeof(uint64) * BATCH_ROWS);
#define KEEP(type) \
	for (int i = 0; i < n; i++) \
		((type *) column->kept)[i] = ((const type *) column->array)[source->rows[i]]

	switch (width)
	{
		case 1:
			KEEP(uint8);
			break;
		case 2:
			KEEP(uint16);
			break;
		case 4:
			KEEP(uint32);
			break;
		default:
			KEEP(uint64);
			break;
	}
	column->is_kept = true;

	return column->kept;
}

/* Are the integers of a type those that int_of() of the filter knows it by? */
static bool
is_ordered_integer(Oid type)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case BOOLOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			return false;
	}
}

/* Can the array hold all that lies between the bounds, above the base? */
static bool
is_within(const Packed *packed)
{
	uint64		most = packed->width == sizeof(uint64) ? PG_UINT64_MAX :
		(UINT64CONST(1) << (packed->width * BITS_PER_BYTE)) - 1;

	return packed->base <= packed->min && packed->min <= packed->max &&
		(uint64) packed->max - (uint64) packed->base <= most;
}

static bool
packed(Source *base, Batch *batch, int index, Packed *result)
{
	SegmentSource *source = (SegmentSource *) base;
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state;
	Oid			type = batch->columns[index].type;

	if (source->from_heap)
		return false;
	Assert(column->prepared);
	state = &source->segment->columns[index];
	if (column->nulls != NULL)
		return false;
	result->width = state->width;
	result->base = state->base;
	result->scale = -1;
	result->min = state->min;
	result->max = state->max;
	result->no_nan = state->order == COLUMN_ORDER_FLOAT;
	switch (state->kind)
	{
		case COLUMN_FLOAT4:
			result->kind = PACKED_FLOAT4;
			result->array = kept_elements(source, column, sizeof(float4), batch->n);
			return true;
		case COLUMN_CONSTANT:
			if (state->order != COLUMN_ORDER_INTEGER || !is_ordered_integer(type))
				return false;
			result->kind = PACKED_INTEGERS;
			result->array = zeros;
			result->width = 1;
			result->base = state->min;
			return is_within(result);
		case COLUMN_INTEGERS:
			if (!is_ordered_integer(type))
				return false;
			result->kind = PACKED_INTEGERS;
			break;
		case COLUMN_DECIMALS:
			Assert(type == NUMERICOID);
			result->kind = PACKED_DECIMALS;
			result->scale = state->scale;
			break;
		default:
			return false;
	}
	if (state->order != COLUMN_ORDER_INTEGER || !is_within(result))
		return false;
	result->array = kept_elements(source, column, state->width, batch->n);

	return true;
}

static bool
bounds(Source *base, Batch *batch, int index, Bounds *result)
{
	SegmentSource *source = (SegmentSource *) base;
	const ColumnState *state;
	Oid			type = batch->columns[index].type;

	if (source->from_heap)
		return false;
	state = &source->segment->columns[index];
	result->floats = state->order == COLUMN_ORDER_FLOAT;
	result->scale = state->kind == COLUMN_DECIMALS ? state->scale : -1;
	result->min = state->min;
	result->max = state->max;
	result->float_min = state->float_min;
	result->float_max = state->float_max;
	switch (state->order)
	{
		case COLUMN_ORDER_FLOAT:
			return type == FLOAT4OID || type == FLOAT8OID;
		case COLUMN_ORDER_INTEGER:
			return state->kind == COLUMN_DECIMALS || is_ordered_integer(type);
		default:
			return false;
	}
}

/* ---- codes ---- */

/* Make codes of the rows that are left, with one for NULL. */
static void
make_codes(SegmentSource *source, SegmentColumn *column, const ColumnState *state, int n, const Codes *codes)
{
	int			width = column->array == NULL ? 0 : state->width;

	if (codes->n <= SHORT_CODES && column->codes == NULL)
		column->codes = MemoryContextAlloc(source->context, sizeof(uint8) * BATCH_ROWS);
	if (codes->n > SHORT_CODES && column->long_codes == NULL)
		column->long_codes = MemoryContextAlloc(source->context, sizeof(uint16) * BATCH_ROWS);
	for (int i = 0; i < n; i++)
	{
		int			row = window_row(source, i);
		int			code = 0;

		if (state->kind == COLUMN_ALL_NULL || (column->nulls != NULL && column->nulls[row]))
			code = codes->null;
		else if (width > 0)
			code = (int) element(column->array, width, row);
		Assert(code >= 0 && code < codes->n);
		if (codes->n <= SHORT_CODES)
			column->codes[i] = (uint8) code;
		else
			column->long_codes[i] = (uint16) code;
	}
	column->has_codes = true;
}

/* What codes of a column mean; false if it has none. */
static bool
describe_codes(SegmentSource *source, int index, Codes *result)
{
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state = &source->segment->columns[index];

	switch (state->kind)
	{
		case COLUMN_ALL_NULL:
			result->n = 0;
			result->values = NULL;
			break;
		case COLUMN_CONSTANT:
		case COLUMN_CODES:
			result->n = state->dictionary_size;
			result->values = column->dictionary;
			break;
		case COLUMN_INTEGERS:
		case COLUMN_DECIMALS:
			if (state->width != 1 || state->dictionary_size == 0)
				return false;
			/* it is made, not read: that cannot fail */
			if (column->dictionary == NULL)
				column->dictionary = column_reader_dictionary(source->reader, index);
			Assert(column->dictionary != NULL);
			result->n = state->dictionary_size;
			result->values = column->dictionary;
			break;
		default:
			return false;
	}
	result->null = -1;
	if (state->has_nulls || state->kind == COLUMN_ALL_NULL)
		result->null = result->n++;

	return result->n <= PG_UINT16_MAX + 1;
}

static bool
codes(Source *base, Batch *batch, int index, Codes *result)
{
	SegmentSource *source = (SegmentSource *) base;
	SegmentColumn *column = &source->columns[index];
	const ColumnState *state;
	bool		is_short;

	if (source->from_heap)
		return false;
	Assert(column->prepared);
	state = &source->segment->columns[index];
	if (!describe_codes(source, index, result))
		return false;
	result->serial = source->serial + index;
	result->codes = NULL;
	result->long_codes = NULL;
	is_short = result->n <= SHORT_CODES;

	/*
	 * as they are, if no row is NULL and the width is right; of a constant,
	 * zeros
	 */
	if (column->nulls == NULL && state->kind != COLUMN_ALL_NULL &&
		(column->array == NULL || state->width == (is_short ? 1 : 2)))
	{
		const void *array = column->array == NULL ? zeros :
			kept_elements(source, column, state->width, batch->n);

		if (is_short)
			result->codes = array;
		else
			result->long_codes = array;
		return true;
	}
	if (!column->has_codes)
		make_codes(source, column, state, batch->n, result);
	if (is_short)
		result->codes = column->codes;
	else
		result->long_codes = column->long_codes;

	return true;
}

/* ---- the rest of the interface ---- */

/* Columns are loaded one by one as it is. */
static void
load_only(Source *base, Batch *batch, const int *columns, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
		source->heap->methods->load_only(source->heap, batch, columns, n);
}

static bool
is_cheap(Source *base, Batch *batch, int column)
{
	SegmentSource *source = (SegmentSource *) base;

	return !source->from_heap || source->heap->methods->is_cheap(source->heap, batch, column);
}

static bool
has_no_nulls(Source *base, Batch *batch, int index)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
		return source->heap->methods->has_no_nulls(source->heap, batch, index);
	return !source->segment->columns[index].has_nulls &&
		source->segment->columns[index].kind != COLUMN_ALL_NULL;
}

static void
keep(Source *base, Batch *batch, const uint16 *rows, int n)
{
	SegmentSource *source = (SegmentSource *) base;

	if (source->from_heap)
	{
		source->heap->methods->keep(source->heap, batch, rows, n);
		return;
	}
	if (source->selected)
		for (int i = 0; i < n; i++)
			source->rows[i] = source->rows[rows[i]];
	else
		memcpy(source->rows, rows, sizeof(uint16) * n);
	source->selected = true;
	for (int i = 0; i < source->ncolumns; i++)
		source->columns[i].is_kept = source->columns[i].has_codes = false;
}

static void
end(Source *base)
{
	SegmentSource *source = (SegmentSource *) base;

	source->heap->methods->end(source->heap);
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
	const uint64 *counts = source->counts;
	StringInfoData buf;

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
		if (counts[SEGMENTS_SKIPPED] > 0)
			appendStringInfo(&buf, " skipped=" UINT64_FORMAT " (blocks=" UINT64_FORMAT ")",
							 counts[SEGMENTS_SKIPPED], counts[BLOCKS_SKIPPED]);
		ExplainPropertyText("Column Segments", buf.data, es);
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
	.codes = codes,
	.packed = packed,
	.prepare = prepare,
	.bounds = bounds,
	.keep = keep,
	.end = end,
	.close = close_index,
	.share = share,
	.share_again = share_again,
	.attach = attach,
	.detach = detach,
	.explain = explain,
};

/* Which column of the index holds an attribute of the table. */
static int
index_column(Relation index, AttrNumber attno)
{
	for (int i = 0; i < index->rd_index->indnatts; i++)
	{
		if (index->rd_index->indkey.values[i] == attno)
			return i;
	}
	elog(ERROR, "index \"%s\" lacks column %d of its table", RelationGetRelationName(index), attno);
}

/*
 * The source of a table's rows from an index of columns that holds all of the
 * batch's, and from `heap`, its source of heap pages. The caller keeps the
 * table locked; the index is locked until close(). Memory belongs to the
 * current context.
 */
Source *
segment_source_create(Relation rel, Oid index, TupleDesc tupdesc, Batch *batch, Source *heap)
{
	SegmentSource *source = palloc0(sizeof(SegmentSource));

	source->source.methods = &segment_methods;
	source->source.shared_size = MAXALIGN(sizeof(SharedSegments)) + heap->shared_size;
	source->heap = heap;
	source->rel = rel;
	source->index = index_open(index, AccessShareLock);
	source->estate = batch->parent->state;
	source->context = CurrentMemoryContext;
	source->ncolumns = batch->ncolumns;
	source->attributes = palloc(sizeof(int) * Max(batch->ncolumns, 1));
	source->columns = palloc0(sizeof(SegmentColumn) * Max(batch->ncolumns, 1));
	for (int i = 0; i < batch->ncolumns; i++)
		source->attributes[i] = index_column(source->index, batch->columns[i].attno);

	return &source->source;
}
