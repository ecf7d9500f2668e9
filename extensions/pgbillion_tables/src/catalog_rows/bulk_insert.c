/*-------------------------------------------------------------------------
 *
 * bulk_insert.c
 *	  Many rows at a time into a system catalog and its indexes.
 *
 * What heap_multi_insert() and CatalogIndexInsert() do, for callers that
 * insert rows by the hundred thousand, with two differences:
 *
 * - One cache invalidation of the whole catalog, when the writer is closed,
 *	 stands for one or two messages a row. To everybody else it means the
 *	 same, and beyond a few hundred rows it is what they would get anyway when
 *	 their queue overflows. In here it spares the linear search for duplicates
 *	 among the command's messages, and their memory until commit.
 *
 * - Index entries go to one index after the other, sorted, a leaf page at a
 *	 time; see index_run.c.
 *
 * Where logical decoding is possible (wal_level = logical) every row needs its
 * combo CID logged, and there PostgreSQL's own functions do the work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heapam_xlog.h"
#include "access/heaptoast.h"
#include "access/hio.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "catalog/indexing.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "catalog_rows/catalog_rows.h"

/* By how many pages a catalog is extended at once, at most. */
#define MAX_PAGES_AHEAD 16

struct CatalogWriter
{
	Relation	rel;			/* locked RowExclusiveLock */
	CatalogIndexState indexes;
	RunOrder   *orders;			/* of the indexes */
	BulkInsertState bistate;
	bool		row_by_row;		/* leave rows to PostgreSQL's functions? */
	bool		invalidate_all; /* does close owe an invalidation? */
};

static void insert_rows(CatalogWriter *writer, HeapTuple *tuples, int ntuples);
static bool needs_toasting(HeapTuple tuple);
static int	insert_on_page(Relation rel, Buffer buffer, HeapTuple *tuples, int ntuples,
						   Size reserve);
static void log_page_insert(Relation rel, Buffer buffer, HeapTuple *tuples, int ntuples,
							bool init_page);
static void insert_index_entries(CatalogWriter *writer, HeapTuple *tuples, int ntuples);

/* Open a catalog for writing; result in the current memory context. */
CatalogWriter *
catalog_writer_open(Oid catalog)
{
	CatalogWriter *writer = palloc0(sizeof(CatalogWriter));

	writer->rel = table_open(catalog, RowExclusiveLock);
	writer->indexes = CatalogOpenIndexes(writer->rel);
	writer->orders = palloc0(Max(1, writer->indexes->ri_NumIndices) * sizeof(RunOrder));
	for (int i = 0; i < writer->indexes->ri_NumIndices; i++)
		writer->orders[i].context = CurrentMemoryContext;
	writer->row_by_row = RelationIsAccessibleInLogicalDecoding(writer->rel);

	/*
	 * Keeps the page last written to pinned, and from 16 on the pages that
	 * the catalog was extended by. The ring of buffers that comes with it is
	 * for data nobody reads again soon; catalog rows are not that.
	 */
	writer->bistate = GetBulkInsertState();
	FreeAccessStrategy(writer->bistate->strategy);
	writer->bistate->strategy = NULL;

	return writer;
}

Relation
catalog_writer_relation(const CatalogWriter *writer)
{
	return writer->rel;
}

/*
 * Insert rows and their index entries. The tuples are the caller's; their
 * headers are filled in here, t_self and t_tableOid are set. They hold no
 * out-of-line values. With invalidate_each other sessions are told of each
 * row, else at the end of all the catalog has changed. May raise an error at
 * any point, which must abort the (sub)transaction.
 */
void
catalog_writer_insert(CatalogWriter *writer, HeapTuple *tuples, int ntuples, bool invalidate_each)
{
	if (ntuples == 0)
		return;

	if (writer->row_by_row)
	{
		for (int i = 0; i < ntuples; i++)
			CatalogTupleInsertWithInfo(writer->rel, tuples[i], writer->indexes);
		return;
	}

	insert_rows(writer, tuples, ntuples);
	insert_index_entries(writer, tuples, ntuples);

	if (invalidate_each)
	{
		for (int i = 0; i < ntuples; i++)
			CacheInvalidateHeapTuple(writer->rel, tuples[i], NULL);
	}
	else
		writer->invalidate_all = true;
}

/* Tell all sessions, at commit, what changed; release everything but locks. */
void
catalog_writer_close(CatalogWriter *writer)
{
	if (writer->invalidate_all)
		CacheInvalidateCatalog(RelationGetRelid(writer->rel));
	FreeBulkInsertState(writer->bistate);
	for (int i = 0; i < writer->indexes->ri_NumIndices; i++)
		if (writer->orders[i].rows != NULL)
			pfree(writer->orders[i].rows);
	pfree(writer->orders);
	CatalogCloseIndexes(writer->indexes);
	table_close(writer->rel, NoLock);
	pfree(writer);
}

static void
insert_rows(CatalogWriter *writer, HeapTuple *tuples, int ntuples)
{
	Relation	rel = writer->rel;
	TransactionId xid = GetCurrentTransactionId();
	CommandId	cid = GetCurrentCommandId(true);
	Size		reserve = RelationGetTargetPageFreeSpace(rel, HEAP_DEFAULT_FILLFACTOR);
	int			done = 0;

	/* the header of a row that its own transaction has just inserted */
	for (int i = 0; i < ntuples; i++)
	{
		HeapTupleHeader header = tuples[i]->t_data;

		Assert(!HeapTupleHasExternal(tuples[i]));
		header->t_infomask &= ~HEAP_XACT_MASK;
		header->t_infomask2 &= ~HEAP2_XACT_MASK;
		header->t_infomask |= HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmin(header, xid);
		HeapTupleHeaderSetCmin(header, cid);
		HeapTupleHeaderSetXmax(header, InvalidTransactionId);
		tuples[i]->t_tableOid = RelationGetRelid(rel);
	}

	while (done < ntuples)
	{
		Buffer		vmbuffer = InvalidBuffer;
		Buffer		buffer;
		Size		free_on_empty = BLCKSZ - SizeOfPageHeaderData - reserve;
		Size		needed = 0;
		int			npages = 1;
		int			plain = 0;
		int			n;

		CHECK_FOR_INTERRUPTS();

		/* heap_insert() compresses it and moves parts of it out of line */
		if (needs_toasting(tuples[done]))
		{
			heap_insert(rel, tuples[done], cid, 0, writer->bistate);
			done++;
			continue;
		}

		/* how far to extend the catalog, should that be necessary */
		for (int i = done; i < ntuples && npages < MAX_PAGES_AHEAD; i++)
		{
			if (needs_toasting(tuples[i]))
				break;
			plain++;
			needed += MAXALIGN(tuples[i]->t_len) + sizeof(ItemIdData);
			if (needed > free_on_empty)
			{
				npages++;
				needed = 0;
			}
		}

		buffer = RelationGetBufferForTuple(rel, tuples[done]->t_len, InvalidBuffer, 0,
										   writer->bistate, &vmbuffer, NULL, npages);
		if (PageIsAllVisible(BufferGetPage(buffer)))
		{
			/*
			 * How clearing the visibility map is logged differs even between
			 * minor versions: PostgreSQL inserts the first row, and so clears
			 * it.
			 */
			UnlockReleaseBuffer(buffer);
			heap_insert(rel, tuples[done], cid, 0, writer->bistate);
			n = 1;
		}
		else
		{
			n = insert_on_page(rel, buffer, tuples + done, plain, reserve);
			UnlockReleaseBuffer(buffer);
			pgstat_count_heap_insert(rel, n);
		}
		if (BufferIsValid(vmbuffer))
			ReleaseBuffer(vmbuffer);
		done += n;
	}
}

static bool
needs_toasting(HeapTuple tuple)
{
	return tuple->t_len > TOAST_TUPLE_THRESHOLD;
}

/*
 * Put the first tuple, and as many of the others as fit, on the page, which
 * the caller has locked exclusively, has room for the first, and is not
 * all-visible. Returns how many it took.
 */
static int
insert_on_page(Relation rel, Buffer buffer, HeapTuple *tuples, int ntuples, Size reserve)
{
	Page		page = BufferGetPage(buffer);
	bool		init_page = PageGetMaxOffsetNumber(page) == 0;
	int			n = 0;

	Assert(!PageIsAllVisible(page));

	/* NO EREPORT(ERROR) from here till changes are logged */
	START_CRIT_SECTION();

	do
	{
		RelationPutHeapTuple(rel, buffer, tuples[n], false);
		n++;
	} while (n < ntuples && n < MaxHeapTuplesPerPage &&
			 PageGetHeapFreeSpace(page) >= MAXALIGN(tuples[n]->t_len) + reserve);

	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(rel))
		log_page_insert(rel, buffer, tuples, n, init_page);

	END_CRIT_SECTION();

	return n;
}

/*
 * Log the insertion of the tuples, which are on the page already, as
 * heap_multi_insert() does; for the format see xl_heap_multi_insert.
 */
static void
log_page_insert(Relation rel, Buffer buffer, HeapTuple *tuples, int ntuples, bool init_page)
{
	Page		page = BufferGetPage(buffer);
	PGAlignedBlock scratch;
	xl_heap_multi_insert *xlrec = (xl_heap_multi_insert *) scratch.data;
	char	   *data = scratch.data + SizeOfHeapMultiInsert;
	char	   *end;
	uint8		info = XLOG_HEAP2_MULTI_INSERT;
	XLogRecPtr	recptr;

	xlrec->flags = 0;
	xlrec->ntuples = ntuples;

	/* rows of a page that was empty are numbered by their order */
	if (init_page)
		info |= XLOG_HEAP_INIT_PAGE;
	else
	{
		for (int i = 0; i < ntuples; i++)
			xlrec->offsets[i] = ItemPointerGetOffsetNumber(&tuples[i]->t_self);
		data += ntuples * sizeof(OffsetNumber);
	}

	/*
	 * The tuple data and a header that is shorter than a tuple's: this all
	 * was on the page, with room to spare.
	 */
	end = data;
	for (int i = 0; i < ntuples; i++)
	{
		HeapTupleHeader header = tuples[i]->t_data;
		uint16		length = tuples[i]->t_len - SizeofHeapTupleHeader;
		xl_multi_insert_tuple *tuphdr = (xl_multi_insert_tuple *) SHORTALIGN(end);

		tuphdr->t_infomask2 = header->t_infomask2;
		tuphdr->t_infomask = header->t_infomask;
		tuphdr->t_hoff = header->t_hoff;
		tuphdr->datalen = length;
		end = (char *) tuphdr + SizeOfMultiInsertTuple;
		memcpy(end, (char *) header + SizeofHeapTupleHeader, length);
		end += length;
	}
	Assert(end - scratch.data < BLCKSZ);

	XLogBeginInsert();
	XLogRegisterData((char *) xlrec, data - scratch.data);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD | (init_page ? REGBUF_WILL_INIT : 0));
	XLogRegisterBufData(0, data, end - data);
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);

	recptr = XLogInsert(RM_HEAP2_ID, info);
	PageSetLSN(page, recptr);
}

/* Insert the entries for rows that are in the heap, one index after the other. */
static void
insert_index_entries(CatalogWriter *writer, HeapTuple *tuples, int ntuples)
{
	ResultRelInfo *indexes = writer->indexes;

	for (int i = 0; i < indexes->ri_NumIndices; i++)
	{
		/* see CatalogIndexInsert() */
		if (indexes->ri_IndexRelationInfo[i]->ii_ReadyForInserts)
			index_run_insert(writer->rel, indexes->ri_IndexRelationDescs[i],
							 indexes->ri_IndexRelationInfo[i], tuples, ntuples,
							 &writer->orders[i]);
	}
}
