/*-------------------------------------------------------------------------
 *
 * index_run.c
 *	  Sorted runs of new entries into a btree index of a system catalog.
 *
 * index_insert() descends the tree, locks a leaf page, logs and unlocks it
 * for every entry. New tables' entries come in long runs of neighbors, so
 * here a leaf page is searched for and locked once, takes all entries of the
 * run that belong on it, and is logged once. Whatever needs more than that
 * goes to index_insert(): an entry that does not fit (the page is split, or
 * deduplicated), and one that may have an equal in a unique index (its
 * visibility is checked, its transaction awaited).
 *
 * What makes it safe to leave out what else index_insert() does:
 *
 * - A leaf page found by _bt_search() and locked for writing is the right one
 *	 for every key from the one searched for up to its high key; and as for
 *	 any insertion nobody else can insert an equal key before it is unlocked.
 * - In a unique index the search is without TID, as in _bt_doinsert(), so that
 *	 a duplicate can only be at the very position where the entry would go, or
 *	 on the page to the right if the entry equals the high key.
 * - The page's full image (or each of its entries) is logged within the
 *	 critical section that changed it, as an ordinary insertion is.
 *
 * Catalogs need no predicate locks. Their key columns are fixed-width and
 * not null, except for names, which an index stores as C strings.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/nbtxlog.h"
#include "access/xloginsert.h"
#include "catalog/pg_am.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "tables.h"

/* Room for a sort key: oid, "char" and name is the widest there is, and a TID. */
#define SORT_KEY_SIZE 80

/* What a leaf insertion's WAL record takes besides the entry. */
#define INSERT_RECORD_OVERHEAD 40

typedef struct RunEntry
{
	unsigned char sort_key[SORT_KEY_SIZE];	/* bytes that sort as the entry
											 * does */
	HeapTuple	tuple;
	int			row;			/* of the run */
} RunEntry;

/* An entry's place on the leaf page. */
typedef struct Placement
{
	IndexTuple	itup;
	OffsetNumber offset;		/* when all before it have been added */
} Placement;

static bool is_run_index(Relation index);
static int	make_sort_key(RunEntry *entry, HeapTuple tuple, Relation index, const IndexInfo *info,
						  TupleDesc tupdesc);
static bool take_order(RunEntry *entries, HeapTuple *tuples, Relation index, const IndexInfo *info,
					   TupleDesc tupdesc, const RunOrder *order, int *key_bytes);
static void keep_order(RunOrder *order, const RunEntry *entries, int nentries);
static int	compare_entries(const void *a, const void *b);
static void arrange_entries(RunEntry *entries, int nentries, int ntables, int key_bytes);
static int	insert_on_leaf(Relation heap, Relation index, const IndexInfo *info, BTScanInsert key,
						   RunEntry *entries, int nentries, int key_bytes);
static int	place_on_leaf(Page page, Relation heap, Relation index, const IndexInfo *info, BTScanInsert key,
						  RunEntry *entries, int nentries, int key_bytes, Placement *placements,
						  bool *log_image);
static void add_to_leaf(Relation index, Buffer buffer, const Placement *placements, int n,
						bool log_image);
static void key_of(BTScanInsert key, const IndexInfo *info, HeapTuple tuple, TupleDesc tupdesc,
				   bool unique);
static OffsetNumber position_of(Relation index, BTScanInsert key, Page page, OffsetNumber low,
								bool *equal);
static void log_leaf_insert(Buffer buffer, IndexTuple itup, OffsetNumber offset);
static void insert_one(Relation heap, Relation index, IndexInfo *info, HeapTuple tuple);

/*
 * Insert the entries of `tuples`, which are in the heap already, into one
 * index. They are those of `ntables` tables, one after the other. Constraints
 * on catalogs are immediate; a violation is raised as index_insert() does, and
 * may wait for the transaction it is found in.
 *
 * *order is the caller's, for this index, from run to run. Rows in the order
 * of the last run's need not be sorted.
 */
void
index_run_insert(Relation heap, Relation index, IndexInfo *info, HeapTuple *tuples, int ntuples,
				 int ntables, RunOrder *order)
{
	TupleDesc	tupdesc = RelationGetDescr(heap);
	MemoryContext context;
	MemoryContext old;
	RunEntry   *entries;
	BTScanInsert key;
	int			key_bytes = 0;
	int			done = 0;

	Assert(info->ii_Expressions == NIL && info->ii_Predicate == NIL);
	Assert(index->rd_index->indimmediate);

	if (!is_run_index(index))
	{
		for (int i = 0; i < ntuples; i++)
			insert_one(heap, index, info, tuples[i]);
		return;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion index run",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);

	entries = palloc(ntuples * sizeof(RunEntry));
	if (order->nrows != ntuples ||
		!take_order(entries, tuples, index, info, tupdesc, order, &key_bytes))
	{
		for (int i = 0; i < ntuples; i++)
		{
			key_bytes = make_sort_key(&entries[i], tuples[i], index, info, tupdesc);
			entries[i].row = i;
		}
		arrange_entries(entries, ntuples, ntables, key_bytes);
		/* linear when they are in order, as they are most often */
		qsort(entries, ntuples, sizeof(RunEntry), compare_entries);
		keep_order(order, entries, ntuples);
	}

	key = _bt_mkscankey(index, NULL);
	key->keysz = IndexRelationGetNumberOfKeyAttributes(index);
	_bt_metaversion(index, &key->heapkeyspace, &key->allequalimage);

	while (done < ntuples)
	{
		int			n = insert_on_leaf(heap, index, info, key, entries + done, ntuples - done,
									   key_bytes);

		if (n == 0)
		{
			insert_one(heap, index, info, entries[done].tuple);
			n = 1;
		}
		done += n;
		CHECK_FOR_INTERRUPTS();
	}

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * Is it a btree of today's format with key columns of the known types, no
 * wider together than a sort key?
 */
static bool
is_run_index(Relation index)
{
	bool		heapkeyspace;
	bool		allequalimage;
	int			width = sizeof(BlockNumber) + sizeof(OffsetNumber);

	if (index->rd_rel->relam != BTREE_AM_OID ||
		IndexRelationGetNumberOfAttributes(index) != IndexRelationGetNumberOfKeyAttributes(index))
		return false;

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		if (index->rd_indoption[i] != 0)
			return false;
		switch (index->rd_opcintype[i])
		{
			case OIDOID:
			case INT4OID:
				width += 4;
				break;
			case INT2OID:
				width += 2;
				break;
			case CHAROID:
				width += 1;
				break;
			case NAMEOID:
				width += NAMEDATALEN;
				if (index->rd_indcollation[i] != C_COLLATION_OID)
					return false;
				break;
			default:
				return false;
		}
	}

	_bt_metaversion(index, &heapkeyspace, &allequalimage);
	return heapkeyspace && width <= SORT_KEY_SIZE;
}

/*
 * The entry's key columns and TID as bytes that memcmp() orders as the index
 * does. Returns how many bytes the columns take, the same for every entry.
 */
static int
make_sort_key(RunEntry *entry, HeapTuple tuple, Relation index, const IndexInfo *info,
			  TupleDesc tupdesc)
{
	unsigned char *p = entry->sort_key;
	int			key_bytes;
	uint32		big;
	uint16		small;

	memset(entry->sort_key, 0, SORT_KEY_SIZE);
	entry->tuple = tuple;

	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, info->ii_IndexAttrNumbers[i], tupdesc, &isnull);

		Assert(!isnull);
		switch (index->rd_opcintype[i])
		{
			case OIDOID:
				big = pg_hton32(DatumGetObjectId(value));
				memcpy(p, &big, sizeof(big));
				p += sizeof(big);
				break;
			case INT4OID:
				big = pg_hton32((uint32) DatumGetInt32(value) ^ 0x80000000);
				memcpy(p, &big, sizeof(big));
				p += sizeof(big);
				break;
			case INT2OID:
				small = pg_hton16((uint16) DatumGetInt16(value) ^ 0x8000);
				memcpy(p, &small, sizeof(small));
				p += sizeof(small);
				break;
			case CHAROID:		/* btcharcmp() compares unsigned */
				*p++ = (unsigned char) DatumGetChar(value);
				break;
			case NAMEOID:		/* padded with zeros, which sort first */
				strncpy((char *) p, NameStr(*DatumGetName(value)), NAMEDATALEN);
				p += NAMEDATALEN;
				break;
		}
	}

	key_bytes = p - entry->sort_key;
	big = pg_hton32(ItemPointerGetBlockNumber(&tuple->t_self));
	memcpy(p, &big, sizeof(big));
	p += sizeof(big);
	small = pg_hton16(ItemPointerGetOffsetNumber(&tuple->t_self));
	memcpy(p, &small, sizeof(small));
	p += sizeof(small);
	Assert(p - entry->sort_key <= SORT_KEY_SIZE);

	return key_bytes;
}

/* Make the entries in the order of the last run; false if it is not theirs. */
static bool
take_order(RunEntry *entries, HeapTuple *tuples, Relation index, const IndexInfo *info,
		   TupleDesc tupdesc, const RunOrder *order, int *key_bytes)
{
	for (int i = 0; i < order->nrows; i++)
	{
		*key_bytes = make_sort_key(&entries[i], tuples[order->rows[i]], index, info, tupdesc);
		entries[i].row = order->rows[i];
		if (i > 0 && compare_entries(&entries[i - 1], &entries[i]) > 0)
			return false;
	}
	return true;
}

/* Note the order of sorted entries. */
static void
keep_order(RunOrder *order, const RunEntry *entries, int nentries)
{
	if (order->nrows != nentries)
	{
		if (order->rows != NULL)
			pfree(order->rows);
		order->rows = MemoryContextAlloc(order->context, nentries * sizeof(int));
		order->nrows = nentries;
	}
	for (int i = 0; i < nentries; i++)
		order->rows[i] = entries[i].row;
}

static int
compare_entries(const void *a, const void *b)
{
	return memcmp(((const RunEntry *) a)->sort_key, ((const RunEntry *) b)->sort_key,
				  SORT_KEY_SIZE);
}

/*
 * Put the entries into the order they most likely have in the index, which
 * spares sorting them. What the keys of two tables' corresponding rows have in
 * common at their beginning (the same class, the same schema) comes before
 * what tells the tables apart; among rows with the same beginning all of one
 * table come before those of the next.
 */
static void
arrange_entries(RunEntry *entries, int nentries, int ntables, int key_bytes)
{
	typedef struct Slot
	{
		unsigned char key[SORT_KEY_SIZE];	/* the first table's */
		int			common;		/* bytes shared with the second's */
		int			index;
	} Slot;

	Slot	   *slots;
	RunEntry   *arranged;
	int			period = nentries / ntables;
	int			out = 0;
	int			begin = 0;

	/* tables with different numbers of rows are left to the sort */
	if (period <= 1 || ntables == 1 || nentries % ntables != 0)
		return;

	slots = palloc(period * sizeof(Slot));
	for (int i = 0; i < period; i++)
	{
		const unsigned char *first = entries[i].sort_key;
		const unsigned char *second = entries[period + i].sort_key;
		int			common = 0;

		while (common < key_bytes && first[common] == second[common])
			common++;
		memcpy(slots[i].key, first, SORT_KEY_SIZE);
		slots[i].common = common;
		slots[i].index = i;
	}
	/* a slot's key comes first in it */
	qsort(slots, period, sizeof(Slot), compare_entries);

	arranged = palloc(nentries * sizeof(RunEntry));
	while (begin < period)
	{
		int			end = begin + 1;

		/* numbers of neighboring tables differ in their last byte or two */
		while (end < period && slots[begin].common < key_bytes &&
			   memcmp(slots[begin].key, slots[end].key, Min(slots[begin].common, slots[end].common)) == 0 &&
			   slots[end].common < key_bytes)
			end++;
		for (int t = 0; t < ntables; t++)
			for (int i = begin; i < end; i++)
				arranged[out++] = entries[t * period + slots[i].index];
		begin = end;
	}
	Assert(out == nentries);

	memcpy(entries, arranged, nentries * sizeof(RunEntry));
	pfree(arranged);
	pfree(slots);
}

/*
 * Find the leaf page for the first entry and insert as many of them as belong
 * there and fit. Returns how many; 0 if the first one is index_insert()'s.
 */
static int
insert_on_leaf(Relation heap, Relation index, const IndexInfo *info, BTScanInsert key,
			   RunEntry *entries, int nentries, int key_bytes)
{
	Placement	placements[MaxIndexTuplesPerPage];
	bool		log_image;
	Buffer		buffer;
	Page		page;
	int			n;

	key_of(key, info, entries[0].tuple, RelationGetDescr(heap), index->rd_index->indisunique);
	_bt_freestack(_bt_search(index, heap, key, &buffer, BT_WRITE));
	page = BufferGetPage(buffer);

	n = place_on_leaf(page, heap, index, info, key, entries, Min(nentries, MaxIndexTuplesPerPage),
					  key_bytes, placements, &log_image);
	if (n > 0)
		add_to_leaf(index, buffer, placements, n, log_image);
	for (int i = 0; i < n; i++)
		pfree(placements[i].itup);

	_bt_relbuf(index, buffer);
	return n;
}

/*
 * Find the places of the first entries on a leaf page that is locked for
 * writing, as long as they belong there and fit. Returns how many; their
 * tuples are palloc'd. On return *log_image tells whether an image of the page
 * is shorter than a record for each of them.
 */
static int
place_on_leaf(Page page, Relation heap, Relation index, const IndexInfo *info, BTScanInsert key,
			  RunEntry *entries, int nentries, int key_bytes, Placement *placements, bool *log_image)
{
	TupleDesc	heapdesc = RelationGetDescr(heap);
	bool		unique = index->rd_index->indisunique;
	BTPageOpaque opaque = BTPageGetOpaque(page);
	Size		avail = PageGetFreeSpace(page); /* less one line pointer */
	Size		record_bytes = 0;
	OffsetNumber position = P_FIRSTDATAKEY(opaque);
	int			n;

	Assert(P_ISLEAF(opaque) && !P_IGNORE(opaque) && !P_INCOMPLETE_SPLIT(opaque));

	for (n = 0; n < nentries; n++)
	{
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS] = {false};
		IndexTuple	itup;
		Size		size;
		bool		equal;

		if (n > 0)
			key_of(key, info, entries[n].tuple, heapdesc, unique);

		/*
		 * Beyond the high key is another page. A key equal to it may have
		 * duplicates there.
		 */
		if (!P_RIGHTMOST(opaque))
		{
			int32		cmp = _bt_compare(index, key, page, P_HIKEY);

			if (cmp > 0 || (unique && cmp == 0))
				break;
		}

		/* two equal keys among the new ones: let the second find the first */
		if (unique && n > 0 &&
			memcmp(entries[n].sort_key, entries[n - 1].sort_key, key_bytes) == 0)
			break;

		position = position_of(index, key, page, position, &equal);
		if (equal)
			break;

		for (int i = 0; i < key->keysz; i++)
			values[i] = key->scankeys[i].sk_argument;
		itup = index_form_tuple(RelationGetDescr(index), values, isnull);
		itup->t_tid = entries[n].tuple->t_self;
		size = MAXALIGN(IndexTupleSize(itup));
		if (size > avail)
			break;
		avail -= Min(avail, size + sizeof(ItemIdData));
		record_bytes += size + INSERT_RECORD_OVERHEAD;

		placements[n].itup = itup;
		placements[n].offset = position + n;
	}

	*log_image = record_bytes > BLCKSZ - avail;
	return n;
}

/* Add entries to a leaf page that is locked for writing, and log that. They fit. */
static void
add_to_leaf(Relation index, Buffer buffer, const Placement *placements, int n, bool log_image)
{
	Page		page = BufferGetPage(buffer);

	/* NO EREPORT(ERROR) from here till changes are logged */
	START_CRIT_SECTION();
	for (int i = 0; i < n; i++)
	{
		IndexTuple	itup = placements[i].itup;

		if (PageAddItem(page, (Item) itup, IndexTupleSize(itup), placements[i].offset,
						false, false) == InvalidOffsetNumber)
			elog(PANIC, "failed to add new item to block %u in index \"%s\"",
				 BufferGetBlockNumber(buffer), RelationGetRelationName(index));
		if (i == 0)
			MarkBufferDirty(buffer);
		if (!log_image && RelationNeedsWAL(index))
			log_leaf_insert(buffer, itup, placements[i].offset);
	}
	if (log_image && RelationNeedsWAL(index))
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
}

/* Make `key` search for a row's entry; see _bt_doinsert() on the TID. */
static void
key_of(BTScanInsert key, const IndexInfo *info, HeapTuple tuple, TupleDesc tupdesc, bool unique)
{
	for (int i = 0; i < key->keysz; i++)
	{
		bool		isnull;

		key->scankeys[i].sk_argument =
			heap_getattr(tuple, info->ii_IndexAttrNumbers[i], tupdesc, &isnull);
		key->scankeys[i].sk_flags &= ~SK_ISNULL;
		Assert(!isnull);
	}
	key->anynullkeys = false;
	key->scantid = unique ? NULL : &tuple->t_self;
}

/*
 * The first offset, from `low` on, whose item is not less than the key;
 * *equal tells whether it equals it. All items before `low` are less.
 */
static OffsetNumber
position_of(Relation index, BTScanInsert key, Page page, OffsetNumber low, bool *equal)
{
	OffsetNumber high = OffsetNumberNext(PageGetMaxOffsetNumber(page));
	OffsetNumber middle = low;	/* most often the key goes right there */

	*equal = false;
	while (low < high)
	{
		int32		cmp = _bt_compare(index, key, page, middle);

		if (cmp > 0)
			low = OffsetNumberNext(middle);
		else
		{
			high = middle;
			*equal = cmp == 0;
		}
		middle = low + (high - low) / 2;
	}
	return low;
}

/* Log one entry that is on the page, as _bt_insertonpg() does. */
static void
log_leaf_insert(Buffer buffer, IndexTuple itup, OffsetNumber offset)
{
	xl_btree_insert xlrec = {.offnum = offset};
	XLogRecPtr	recptr;

	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfBtreeInsert);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	XLogRegisterBufData(0, (char *) itup, IndexTupleSize(itup));
	recptr = XLogInsert(RM_BTREE_ID, XLOG_BTREE_INSERT_LEAF);
	PageSetLSN(BufferGetPage(buffer), recptr);
}

static void
insert_one(Relation heap, Relation index, IndexInfo *info, HeapTuple tuple)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
		values[i] = heap_getattr(tuple, info->ii_IndexAttrNumbers[i], RelationGetDescr(heap),
								 &isnull[i]);

	index_insert(index, values, isnull, &tuple->t_self, heap,
				 index->rd_index->indisunique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
				 false, info);
}
