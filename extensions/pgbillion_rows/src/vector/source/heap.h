/*-------------------------------------------------------------------------
 *
 * heap.h
 *	  What the parts of the source of heap pages share: heap.c, heap_expressions.c,
 *	  visible_rows.c, fetched_rows.c, pages.c, deform.c and lazy_table.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_HEAP_H
#define PGBILLION_VECTOR_HEAP_H

#include "access/relscan.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "vector/source/source.h"

/* ---- pages.c ---- */

typedef struct PageReader PageReader;

extern PageReader *page_reader_begin(Relation rel, BufferAccessStrategy strategy,
									 BlockNumber (*next_block) (void *arg), void *arg);
extern Buffer page_reader_next(PageReader *reader, int lines);
extern void page_reader_again(PageReader *reader);
extern void page_reader_end(PageReader *reader);

/* ---- lazy_table.c ---- */

extern bool source_read_lazy(Relation rel, Snapshot snapshot);

/* ---- visible_rows.c ---- */

/*
 * Pages are handed out together until they have MIN_ROWS rows, or are
 * MAX_PAGES. Twice as many are pinned: no more than PostgreSQL keeps count of
 * in an array.
 */
#define MIN_ROWS 64
#define MAX_PAGES 4

/* Share of the buffers that a scan may pin, as there may be many scans at once: one of this number. */
#define BUFFERS_PER_PAGE 256

/* Rows of a page that are few. */
#define FEW_ROWS 32

/* Maximum number that can be asked for: all lines of the pages, and one for each row that lies in two. */
#define FETCH_LINES (MAX_PAGES * BLCKSZ / CACHE_LINE + MIN_ROWS + MaxHeapTuplesPerPage)

typedef struct VectorScan VectorScan;

/* What the processor is to fetch of the next rows into its caches. */
typedef struct VectorFetch
{
	/* set by who works on rows: as of the rows to be found from then on */
	int			bytes;			/* number of bytes of each row, */
	bool		on_way;			/* and most of that by who works on rows */

	/* what is not fetched when rows are found */
	int			n;
	int			next;			/* those before it have been fetched */
	const char *lines[FETCH_LINES];
} VectorFetch;

extern VectorScan *vector_scan_begin(Relation rel, Snapshot snapshot,
									 ParallelBlockTableScanDesc parallel, bool listed, bool rows_read,
									 bool read_only);
extern void vector_scan_list(VectorScan *scan, const BlockNumber *blocks, int n);
extern void vector_scan_only(VectorScan *scan, const BlockNumber *blocks, int n);
extern int	vector_scan_next(VectorScan *scan, HeapTupleHeader **tuples);
extern VectorFetch *vector_scan_fetch(VectorScan *scan);
extern void vector_scan_store(VectorScan *scan, HeapTupleHeader tuple, TupleTableSlot *slot);
extern void vector_scan_places(VectorScan *scan, HeapTupleHeader *tuples, int n, Datum *places);
extern void vector_scan_end(VectorScan *scan);
extern void vector_scan_counts(VectorScan *scan, uint64 *all_visible, uint64 *checked);

/* ---- fetched_rows.c ---- */

typedef struct RowFetch RowFetch;

/* Where a row is that is to be fetched. */
typedef struct RowPlace
{
	BlockNumber block;
	OffsetNumber line;			/* of the root of its HOT chain, or */
	bool		version;		/* of the version that the snapshot sees */
} RowPlace;

/* A place as a value of a column, an int8. Places of ascending blocks ascend. */
static inline Datum
row_place_value(RowPlace place)
{
	return Int64GetDatum((int64) place.block << 17 | (int64) place.version << 16 | place.line);
}

static inline RowPlace
row_place_of(Datum value)
{
	uint64		number = (uint64) DatumGetInt64(value);
	RowPlace	place = {
		.block = (BlockNumber) (number >> 17),
		.line = (OffsetNumber) (number & 0xFFFF),
		.version = (number >> 16 & 1) != 0,
	};

	return place;
}

extern RowFetch *row_fetch_begin(Relation rel, Snapshot snapshot, bool read_only);
extern void row_fetch_list(RowFetch *fetch, const RowPlace *places, int n);
extern bool row_fetch_store(RowFetch *fetch, int row, TupleTableSlot *slot);
extern void row_fetch_counts(const RowFetch *fetch, uint64 *rows, uint64 *blocks);
extern void row_fetch_end(RowFetch *fetch);

/* ---- heap.c ---- */

extern void heap_source_places(Source *source, int n, Datum *places);

/* ---- heap_expressions.c ---- */

extern bool heap_expressions_next(HeapExpressions *rows, Batch *batch);
extern void heap_expressions_load(HeapExpressions *rows, Batch *batch, int index);
extern bool heap_expressions_is_cheap(HeapExpressions *rows, int index);
extern bool heap_expressions_has_no_nulls(HeapExpressions *rows, int index);
extern void heap_expressions_keep(HeapExpressions *rows, const uint16 *kept, int n);

/* ---- deform.c ---- */

typedef struct Deform Deform;

extern Deform *deform_create(TupleDesc tupdesc, Batch *batch);
extern void deform_end(Deform *columns);
extern void deform_begin(Deform *columns, HeapTupleHeader *tuples, int n, VectorFetch *fetch);
extern void deform_load(Deform *columns, int index);
extern void deform_load_only(Deform *columns, const int *indexes, int n);
extern bool deform_is_cheap(Deform *columns, int index);
extern bool deform_has_no_nulls(Deform *columns, int index);
extern void deform_find_nulls(Deform *columns, int index, bool *nulls);
extern void deform_keep(Deform *columns, const uint16 *rows, int n);

#endif							/* PGBILLION_VECTOR_HEAP_H */
