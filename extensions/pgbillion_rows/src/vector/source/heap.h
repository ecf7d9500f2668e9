/*-------------------------------------------------------------------------
 *
 * heap.h
 *	  What the parts of the source of heap pages share: heap.c, scan.c,
 *	  pages.c, columns.c and lazy.c.
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
extern Buffer page_reader_next(PageReader *reader);
extern void page_reader_again(PageReader *reader);
extern void page_reader_end(PageReader *reader);

/* ---- lazy.c ---- */

extern bool source_read_lazy(Relation rel, Snapshot snapshot);

/* ---- scan.c ---- */

typedef struct VectorScan VectorScan;

extern VectorScan *vector_scan_begin(Relation rel, Snapshot snapshot,
									 ParallelBlockTableScanDesc parallel, bool listed, bool rows_read);
extern void vector_scan_list(VectorScan *scan, const BlockNumber *blocks, int n);
extern int	vector_scan_next(VectorScan *scan, HeapTupleHeader *tuples);
extern const char *vector_scan_ahead(VectorScan *scan);
extern void vector_scan_fetched_ahead(VectorScan *scan, bool fetched);
extern void vector_scan_store(VectorScan *scan, HeapTupleHeader tuple, TupleTableSlot *slot);
extern void vector_scan_end(VectorScan *scan);
extern void vector_scan_counts(VectorScan *scan, uint64 *all_visible, uint64 *checked);

/* ---- columns.c ---- */

typedef struct Columns Columns;

extern Columns *columns_create(TupleDesc tupdesc, Batch *batch);
extern void columns_begin(Columns *columns, HeapTupleHeader *tuples, int n, const char *ahead);
extern bool columns_fetched_ahead(Columns *columns);
extern void columns_load(Columns *columns, int index);
extern void columns_load_only(Columns *columns, const int *indexes, int n);
extern bool columns_is_cheap(Columns *columns, int index);
extern bool columns_has_no_nulls(Columns *columns, int index);
extern void columns_keep(Columns *columns, const uint16 *rows, int n);

#endif							/* PGBILLION_VECTOR_HEAP_H */
