/*-------------------------------------------------------------------------
 *
 * gather.c
 *	  What is to be encoded: the rows of heap blocks that are all-visible.
 *
 * A block is copied under its share lock, and only if both the page and the
 * visibility map say that every snapshot sees all of its rows. The work is
 * done on the copy. Values that are stored out of line are never fetched: the
 * encoder may be VACUUM, whose snapshot does not keep them from being removed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/visibilitymap.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "compat.h"
#include "column_index/store.h"

/*
 * Can blocks of this table be encoded?  Only those of a heap: a lazy table
 * has none yet.
 */
bool
gather_encodes(Relation heap)
{
	return heap->rd_rel->relam == HEAP_TABLE_AM_OID;
}

/*
 * How the visibility map lies on disk, which is private to visibilitymap.c: a
 * byte has the bits of MAP_BYTE_BLOCKS blocks, the lowest first, and a page
 * has a header and bytes.
 */
#define MAP_BYTE_BLOCKS (BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define MAP_PAGE_BLOCKS ((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * MAP_BYTE_BLOCKS)

StaticAssertDecl(MAP_BYTE_BLOCKS == 4 && VISIBILITYMAP_ALL_VISIBLE == 1, "bits of the visibility map");
StaticAssertDecl(COLUMNS_MIN_BLOCKS % 8 == 0 && MAP_PAGE_BLOCKS % 8 == 0, "bitmaps are of whole bytes");

/* The bits of four blocks, as they are in the low half of a byte. */
static inline uint8
visible_of(uint8 map)
{
	return (map & 1) | (map >> 1 & 2) | (map >> 2 & 4) | (map >> 3 & 8);
}

/*
 * Set the bits of some blocks that are in one page of the visibility map.
 * Bytes are read without the page's lock, each once, and are looked at by
 * nobody else's rules than visibilitymap_get_status()'s.
 */
static void
gather_map_page(Relation heap, BlockNumber first, int nblocks, Buffer *map, uint8 *visible)
{
	int			nbytes = (nblocks + MAP_BYTE_BLOCKS - 1) / MAP_BYTE_BLOCKS;
	uint8		bytes[COLUMNS_MAX_BLOCKS / MAP_BYTE_BLOCKS + 1];

	Assert(first % 8 == 0 && nblocks <= COLUMNS_MAX_BLOCKS);
	/* this brings the page, if there is one */
	(void) visibilitymap_get_status(heap, first, map);
	if (!BufferIsValid(*map))
		return;
	Assert(BufferGetBlockNumber(*map) == first / MAP_PAGE_BLOCKS);
	memcpy(bytes, PageGetContents(BufferGetPage(*map)) + first % MAP_PAGE_BLOCKS / MAP_BYTE_BLOCKS, nbytes);
	bytes[nbytes] = 0;
	for (int i = 0; i < nbytes; i += 2)
		visible[i / 2] = visible_of(bytes[i]) | visible_of(bytes[i + 1]) << 4;
}

/*
 * Set the bits of the blocks that the visibility map calls all-visible, and
 * count them.  The first block is a segment's.  Each block's bit is read once,
 * before this returns.
 */
int
gather_visible(Relation heap, BlockNumber first, int nblocks, uint8 *visible)
{
	Buffer		map = InvalidBuffer;
	int			n;

	memset(visible, 0, BITMAP_BYTES);
	for (int done = 0; done < nblocks; done += n)
	{
		BlockNumber block = first + done;

		n = Min(nblocks - done, (int) (MAP_PAGE_BLOCKS - block % MAP_PAGE_BLOCKS));
		gather_map_page(heap, block, n, &map, visible + done / 8);
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);
	/* the map says nothing of blocks after the last */
	if (nblocks % 8 != 0)
		visible[nblocks / 8] &= (1 << nblocks % 8) - 1;

	/*
	 * What is read afterwards, the bits of stale blocks above all, must not
	 * have been read before. Locks alone do not give that on processors that
	 * reorder reads.
	 */
	pg_read_barrier();

	return (int) pg_popcount((char *) visible, BITMAP_BYTES);
}

/* Copy a block's page, unless it is not all-visible. */
static bool
copy_page(Relation heap, BlockNumber block, Buffer *map, BufferAccessStrategy strategy, char *copy)
{
	Buffer		buffer;
	bool		copied = false;

	/* this also brings the map's page, which is not to be read under the lock */
	if ((visibilitymap_get_status(heap, block, map) & VISIBILITYMAP_ALL_VISIBLE) == 0)
		return false;
	buffer = ReadBufferExtended(heap, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (PageIsAllVisible(BufferGetPage(buffer)) &&
		(visibilitymap_get_status(heap, block, map) & VISIBILITYMAP_ALL_VISIBLE) != 0)
	{
		memcpy(copy, BufferGetPage(buffer), BLCKSZ);
		copied = true;
	}
	UnlockReleaseBuffer(buffer);

	return copied;
}

/*
 * The line pointers by which indexes know the rows of an all-visible page, in
 * the order of its tuples: a heap-only tuple's is the one that redirects to it,
 * as of a chain all other members are gone. Returns how many, or -1 if one is
 * not found, which a page without damage does not have.
 */
static int
find_lines(Page page, uint16 *lines)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	OffsetNumber root_of[MaxHeapTuplesPerPage + 1] = {InvalidOffsetNumber};
	int			n = 0;

	if (last > MaxHeapTuplesPerPage)
		return -1;
	for (OffsetNumber o = FirstOffsetNumber; o <= last; o++)
	{
		ItemId		item = PageGetItemId(page, o);

		if (ItemIdIsRedirected(item) && ItemIdGetRedirect(item) <= last)
			root_of[ItemIdGetRedirect(item)] = o;
	}
	for (OffsetNumber o = FirstOffsetNumber; o <= last; o++)
	{
		ItemId		item = PageGetItemId(page, o);
		bool		redirected = OffsetNumberIsValid(root_of[o]);

		if (!ItemIdIsNormal(item))
			continue;
		if (HeapTupleHeaderIsHeapOnly((HeapTupleHeader) PageGetItem(page, item)) != redirected)
			return -1;
		lines[n++] = redirected ? root_of[o] : o;
	}
	return n;
}

/* Is row i at line pointer i + 1? */
static bool
is_in_line(const uint16 *lines, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (lines[i] != i + 1)
			return false;
	}
	return true;
}

/* Count the rows of a block's page, and list their line pointers if need be; false if that cannot be. */
static bool
gather_lines(GatheredBlocks *gathered, int i, Page page)
{
	uint16		lines[MaxHeapTuplesPerPage];
	int			n = find_lines(page, lines);

	if (n < 0)
		return false;
	gathered->rows[i] = n;
	gathered->nrows += n;
	if (!is_in_line(lines, n))
	{
		bitmap_set(gathered->listed, i);
		memcpy(gathered->lines + gathered->nlines, lines, n * sizeof(uint16));
		gathered->nlines += n;
	}
	return true;
}

/* How the values of a heap's rows are found, up to the last column wanted. */
typedef struct Deformer
{
	Relation	heap;
	TupleDesc	tupdesc;		/* without missing values */
	Datum	   *values;
	bool	   *nulls;
	AttrNumber	attnos[INDEX_MAX_KEYS]; /* 0: an expression */
	ColumnEvaluator *evaluator; /* of these, or NULL */
	TupleDesc	index_tupdesc;
	Datum		missing[INDEX_MAX_KEYS];
	bool		missing_null[INDEX_MAX_KEYS];
	Size		bytes[INDEX_MAX_KEYS];	/* decompressed so far */
} Deformer;

static void
init_deformer(Deformer *deformer, Relation heap, Relation index, int ncolumns)
{
	int			natts = 0;

	deformer->heap = heap;
	deformer->index_tupdesc = RelationGetDescr(index);
	for (int c = 0; c < ncolumns; c++)
	{
		AttrNumber	attno = index->rd_index->indkey.values[c];
		Form_pg_attribute attribute;

		Assert(attno >= 0);
		deformer->attnos[c] = attno;
		deformer->bytes[c] = 0;
		if (attno == 0)
			continue;
		attribute = TupleDescAttr(RelationGetDescr(heap), attno - 1);
		natts = Max(natts, attno);
		deformer->missing[c] = getmissingattr(RelationGetDescr(heap), attno, &deformer->missing_null[c]);
		/* the relation cache's may go */
		if (!deformer->missing_null[c])
			deformer->missing[c] = datumCopy(deformer->missing[c], attribute->attbyval, attribute->attlen);
	}
	deformer->tupdesc = CreateTemplateTupleDesc(natts);
	for (int i = 1; i <= natts; i++)
		TupleDescCopyEntry(deformer->tupdesc, i, RelationGetDescr(heap), i);
	TupleDescFinalize(deformer->tupdesc);
	deformer->values = palloc(sizeof(Datum) * natts);
	deformer->nulls = palloc(sizeof(bool) * natts);
	deformer->evaluator = column_evaluator_begin(heap, index);
}

/* A value as it is to be stored; the column becomes absent if there is none. */
static Datum
plain_value(Deformer *deformer, ColumnValues *column, int c, Datum value)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);

	if (VARATT_IS_EXTERNAL(pointer))
	{
		column->absent = true;
		return value;
	}
	if (VARATT_IS_COMPRESSED(pointer))
	{
		deformer->bytes[c] += toast_raw_datum_size(value);
		if (deformer->bytes[c] > MAX_COLUMN_BYTES)
		{
			column->absent = true;
			return value;
		}
		value = PointerGetDatum(detoast_attr(pointer));
	}
	return value;
}

/* What an expression has given, as it is to be stored: in the current context, and as short as a row has it. */
static Datum
copied_value(Deformer *deformer, ColumnValues *column, int c, Datum value)
{
	struct varlena *pointer = (struct varlena *) DatumGetPointer(value);
	bool		shorten;
	Size		bytes;

	if (column->type.byval)
		return value;
	if (column->type.len != -1)
		return datumCopy(value, false, column->type.len);
	/* an array may be in the form that PL/pgSQL works on */
	if (VARATT_IS_EXTENDED(pointer) && !VARATT_IS_SHORT(pointer))
		pointer = detoast_attr(pointer);
	shorten = VARATT_IS_4B_U(pointer) && VARATT_CAN_MAKE_SHORT(pointer) &&
		TupleDescAttr(deformer->index_tupdesc, c)->attstorage != TYPSTORAGE_PLAIN;
	bytes = shorten ? VARATT_CONVERTED_SHORT_SIZE(pointer) : VARSIZE_ANY(pointer);
	deformer->bytes[c] += bytes;
	if (deformer->bytes[c] > MAX_COLUMN_BYTES)
		column->absent = true;
	else if (shorten)
	{
		char	   *copy = palloc(bytes);

		SET_VARSIZE_SHORT(copy, bytes);
		memcpy(VARDATA_SHORT(copy), VARDATA(pointer), bytes - VARHDRSZ_SHORT);
		return PointerGetDatum(copy);
	}
	else
		return datumCopy(PointerGetDatum(pointer), false, -1);
	return value;
}

/*
 * Evaluate an expression of a row. It becomes absent if it needs a value that is
 * out of line.
 */
static void
gather_expression(Deformer *deformer, ColumnValues *column, int c, int expression, int row)
{
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (!column->absent && !column_evaluator_has_values(deformer->evaluator, expression))
		column->absent = true;
	if (!column->absent)
		value = column_evaluator_value(deformer->evaluator, expression, &isnull);
	column->nulls[row] = isnull;
	column->values[row] = isnull ? (Datum) 0 : copied_value(deformer, column, c, value);
}

static void
gather_row(Deformer *deformer, GatheredBlocks *gathered, HeapTuple tuple, int row)
{
	int			natts = HeapTupleHeaderGetNatts(tuple->t_data);
	int			nexpressions = 0;

	heap_deform_tuple(tuple, deformer->tupdesc, deformer->values, deformer->nulls);
	if (deformer->evaluator != NULL)
		column_evaluator_row(deformer->evaluator, tuple);
	for (int c = 0; c < gathered->ncolumns; c++)
	{
		ColumnValues *column = &gathered->columns[c];
		AttrNumber	attno = deformer->attnos[c];
		bool		missing = attno > natts;
		Datum		value;

		if (attno == 0)
		{
			gather_expression(deformer, column, c, nexpressions++, row);
			continue;
		}
		value = missing ? deformer->missing[c] : deformer->values[attno - 1];
		column->nulls[row] = missing ? deformer->missing_null[c] : deformer->nulls[attno - 1];
		if (column->nulls[row])
			value = (Datum) 0;
		else if (column->type.len == -1 && !column->absent)
			value = plain_value(deformer, column, c, value);
		column->values[row] = value;
	}
}

static void
gather_page(Deformer *deformer, GatheredBlocks *gathered, Page page, BlockNumber block, int row)
{
	OffsetNumber last = PageGetMaxOffsetNumber(page);
	HeapTupleData tuple;

	tuple.t_tableOid = RelationGetRelid(deformer->heap);
	for (OffsetNumber o = FirstOffsetNumber; o <= last; o++)
	{
		ItemId		item = PageGetItemId(page, o);

		/* on an all-visible page every tuple is a row, also a heap-only one */
		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, o);
		gather_row(deformer, gathered, &tuple, row++);
	}
}

/*
 * Gather the rows of some blocks, from the first, in the order of the heap.
 * If the index has expressions, the caller is the table's owner: an error is
 * then theirs. Memory, the pages' copies among it, belongs to the current context, which
 * the caller resets.  A begin mark is set, or nobody can write to the table.
 */
void
gather_blocks(Relation heap, Relation index, BlockNumber first, int nblocks,
			  BufferAccessStrategy strategy, GatheredBlocks *gathered)
{
	char	   *pages = MemoryContextAllocHuge(CurrentMemoryContext, (Size) nblocks * BLCKSZ);
	Buffer		map = InvalidBuffer;
	Deformer	deformer;
	int			row = 0;

	memset(gathered, 0, sizeof(*gathered));
	gathered->lines = palloc(sizeof(uint16) * MaxHeapTuplesPerPage * nblocks);
	gathered->nblocks = nblocks;
	gathered->ncolumns = RelationGetNumberOfAttributes(index);
	for (int i = 0; i < nblocks; i++)
	{
		char	   *page = pages + (Size) i * BLCKSZ;

		CHECK_FOR_INTERRUPTS();
		if (!copy_page(heap, first + i, &map, strategy, page) || !gather_lines(gathered, i, page))
		{
			bitmap_set(gathered->absent, i);
			continue;
		}
		gathered->ngathered++;
	}
	if (BufferIsValid(map))
		ReleaseBuffer(map);

	for (int c = 0; c < gathered->ncolumns; c++)
	{
		ColumnValues *column = &gathered->columns[c];

		column->type = column_type_of(index, c);
		column->values = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(Datum) * Max(gathered->nrows, 1));
		column->nulls = palloc(Max(gathered->nrows, 1));
	}
	init_deformer(&deformer, heap, index, gathered->ncolumns);
	for (int i = 0; i < nblocks; i++)
	{
		if (bitmap_test(gathered->absent, i))
			continue;
		gather_page(&deformer, gathered, pages + (Size) i * BLCKSZ, first + i, row);
		row += gathered->rows[i];
	}
	Assert(row == gathered->nrows);
	for (int c = 0; c < gathered->ncolumns; c++)
		gathered->skipped |= deformer.attnos[c] == 0 && gathered->columns[c].absent;
	column_evaluator_end(deformer.evaluator);
}
