/*-------------------------------------------------------------------------
 *
 * heap.c
 *	  The source of batches from the pages of a heap.
 *
 * A batch is what is visible of one page, or of a few with few rows. The
 * buffers stay pinned as long as the batch is worked on, since values by
 * reference point into them.
 *
 * In a parallel plan the pages are shared out as for a parallel sequential
 * scan.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "lib/stringinfo.h"
#include "storage/predicate.h"

#include "vector/source/heap.h"

/* What processes of a parallel plan share. */
typedef struct SharedHeap
{
	pg_atomic_uint64 all_visible;
	pg_atomic_uint64 checked;
	ParallelBlockTableScanDescData scan;
} SharedHeap;

typedef struct HeapSource
{
	Source		source;
	Relation	rel;
	EState	   *estate;
	MemoryContext context;		/* the plan's, for what is begun late */
	bool		rows_read;		/* are there columns to be loaded? */
	bool		read_only;		/* does the statement only read the table? */
	bool		listed;			/* heap_source_list() gives the blocks */
	Deform	   *columns;
	VectorScan *scan;			/* NULL until the first batch is asked for */
	SharedHeap *shared;			/* or NULL */
	bool		in_worker;
	uint64		all_visible;	/* pages of scans that have ended */
	uint64		checked;
	HeapTupleHeader *tuples;	/* of the batch */
} HeapSource;

static void
begin_pages(HeapSource *heap)
{
	MemoryContext old = MemoryContextSwitchTo(heap->context);

	heap->scan = vector_scan_begin(heap->rel, heap->estate->es_snapshot,
								   heap->shared != NULL && !heap->listed ? &heap->shared->scan : NULL,
								   heap->listed, heap->rows_read, heap->read_only);
	MemoryContextSwitchTo(old);
}

/*
 * From now on until the source ends, read these blocks only, ascending, and
 * nothing that is left of those given before. The list is the caller's, and
 * stays until the next one.
 */
void
heap_source_list(Source *source, const BlockNumber *blocks, int n)
{
	HeapSource *heap = (HeapSource *) source;

	Assert(heap->scan == NULL || heap->listed);
	heap->listed = true;
	if (heap->scan == NULL)
		begin_pages(heap);
	vector_scan_list(heap->scan, blocks, n);
}

static bool
next_page(Source *source, Batch *batch)
{
	HeapSource *heap = (HeapSource *) source;
	int			n;

	if (heap->scan == NULL)
		begin_pages(heap);
	else
		deform_end(heap->columns);
	n = vector_scan_next(heap->scan, &heap->tuples);
	if (n < 0)
		return false;
	deform_begin(heap->columns, heap->tuples, n, vector_scan_fetch(heap->scan));
	batch->n = n;

	return true;
}

static void
load(Source *source, Batch *batch, int column)
{
	deform_load(((HeapSource *) source)->columns, column);
}

static void
load_only(Source *source, Batch *batch, const int *columns, int n)
{
	deform_load_only(((HeapSource *) source)->columns, columns, n);
}

static bool
is_cheap(Source *source, Batch *batch, int column)
{
	return deform_is_cheap(((HeapSource *) source)->columns, column);
}

static bool
has_no_nulls(Source *source, Batch *batch, int column)
{
	return deform_has_no_nulls(((HeapSource *) source)->columns, column);
}

static bool
find_nulls(Source *source, Batch *batch, int column, bool *nulls)
{
	deform_find_nulls(((HeapSource *) source)->columns, column, nulls);
	return true;
}

static void
keep(Source *source, Batch *batch, const uint16 *rows, int n)
{
	deform_keep(((HeapSource *) source)->columns, rows, n);
}

static void
store(Source *source, int row, TupleTableSlot *slot)
{
	HeapSource *heap = (HeapSource *) source;

	/* batches without columns are not compacted */
	Assert(heap->rows_read);
	vector_scan_store(heap->scan, heap->tuples[row], slot);
}

/* Where the n rows of the batch are that are left. */
void
heap_source_places(Source *source, int n, Datum *places)
{
	HeapSource *heap = (HeapSource *) source;

	/* batches without columns are not compacted */
	Assert(heap->rows_read);
	vector_scan_places(heap->scan, heap->tuples, n, places);
}

/* Remember what a scan has counted, and end it. */
static void
end_pages(Source *source)
{
	HeapSource *heap = (HeapSource *) source;
	uint64		all_visible;
	uint64		checked;

	heap->listed = false;
	if (heap->scan == NULL)
		return;
	/* what it is to fetch is the scan's */
	deform_end(heap->columns);
	vector_scan_counts(heap->scan, &all_visible, &checked);
	vector_scan_end(heap->scan);
	heap->scan = NULL;
	if (heap->in_worker)
	{
		pg_atomic_fetch_add_u64(&heap->shared->all_visible, all_visible);
		pg_atomic_fetch_add_u64(&heap->shared->checked, checked);
	}
	else
	{
		heap->all_visible += all_visible;
		heap->checked += checked;
	}
}

static void
share(Source *source, void *shared)
{
	HeapSource *heap = (HeapSource *) source;

	heap->shared = shared;
	pg_atomic_init_u64(&heap->shared->all_visible, 0);
	pg_atomic_init_u64(&heap->shared->checked, 0);

	/*
	 * locked before its pages are counted: who adds one afterwards finds the
	 * lock
	 */
	PredicateLockRelation(heap->rel, heap->estate->es_snapshot);
	(void) source_read_lazy(heap->rel, heap->estate->es_snapshot);
	table_block_parallelscan_initialize(heap->rel, (ParallelTableScanDesc) &heap->shared->scan);
}

static void
share_again(Source *source, void *shared)
{
	HeapSource *heap = (HeapSource *) source;

	heap->shared = shared;
	table_block_parallelscan_reinitialize(heap->rel, (ParallelTableScanDesc) &heap->shared->scan);
}

static void
attach(Source *source, void *shared)
{
	HeapSource *heap = (HeapSource *) source;

	heap->shared = shared;
	heap->in_worker = true;
}

/*
 * The shared memory is about to go: keep what EXPLAIN will ask for. Without
 * any, a cursor that goes on with the scan may have returned some of its rows.
 */
static void
detach(Source *source)
{
	HeapSource *heap = (HeapSource *) source;

	if (heap->shared == NULL)
		return;
	end_pages(source);
	if (!heap->in_worker)
	{
		heap->all_visible += pg_atomic_exchange_u64(&heap->shared->all_visible, 0);
		heap->checked += pg_atomic_exchange_u64(&heap->shared->checked, 0);
		heap->shared = NULL;
	}
}

static void
explain_pages(Source *source, ExplainState *es)
{
	HeapSource *heap = (HeapSource *) source;
	uint64		all_visible = 0;
	uint64		checked = 0;
	StringInfoData buf;

	if (heap->scan != NULL)
		vector_scan_counts(heap->scan, &all_visible, &checked);
	all_visible += heap->all_visible;
	checked += heap->checked;

	if (es->format != EXPLAIN_FORMAT_TEXT)
	{
		ExplainPropertyUInteger("Heap Pages All-Visible", NULL, all_visible, es);
		ExplainPropertyUInteger("Heap Pages Checked", NULL, checked, es);
		return;
	}
	initStringInfo(&buf);
	appendStringInfo(&buf, "all-visible=" UINT64_FORMAT " checked=" UINT64_FORMAT,
					 all_visible, checked);
	ExplainPropertyText("Heap Pages", buf.data, es);
	pfree(buf.data);
}

static const SourceMethods heap_methods = {
	.next = next_page,
	.load = load,
	.load_only = load_only,
	.is_cheap = is_cheap,
	.has_no_nulls = has_no_nulls,
	.find_nulls = find_nulls,
	.keep = keep,
	.store = store,
	.end = end_pages,
	.share = share,
	.share_again = share_again,
	.attach = attach,
	.detach = detach,
	.explain = explain_pages,
};

/* Is it a source of a heap's rows, of which none has been read? */
bool
heap_source_is_unread(Source *source)
{
	return source->methods == &heap_methods && ((HeapSource *) source)->scan == NULL;
}

/*
 * Of a source of which nothing has been read, read these blocks only, ascending,
 * or, if processes share it, those of them that this one is given. The list is
 * the caller's, and stays until the source ends.
 */
void
heap_source_read_only(Source *source, const BlockNumber *blocks, int n)
{
	HeapSource *heap = (HeapSource *) source;

	Assert(heap_source_is_unread(source));
	if (heap->shared == NULL)
	{
		heap_source_list(source, blocks, n);
		return;
	}
	begin_pages(heap);
	vector_scan_only(heap->scan, blocks, n);
}

/*
 * The source of a heap's rows. The caller keeps the relation locked. Missing
 * values belong to tupdesc, which must outlive the source. Memory belongs to
 * the current context.
 */
Source *
heap_source_create(Relation rel, TupleDesc tupdesc, Batch *batch)
{
	HeapSource *heap = palloc0(sizeof(HeapSource));

	heap->source.methods = &heap_methods;
	heap->source.shared_size = sizeof(SharedHeap);
	heap->rel = rel;
	heap->estate = batch->parent->state;
	heap->context = CurrentMemoryContext;
	heap->rows_read = batch->ncolumns > 0;
	heap->read_only = ScanRelIsReadOnly((ScanState *) batch->parent);
	heap->columns = deform_create(tupdesc, batch);

	return &heap->source;
}
