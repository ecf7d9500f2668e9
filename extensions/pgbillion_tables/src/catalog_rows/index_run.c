/*-------------------------------------------------------------------------
 *
 * index_run.c
 *	  Sorted runs of new entries into a btree index of a system catalog.
 *
 * index_insert() descends the tree, locks a leaf page, logs and unlocks it
 * for every entry. New tables' entries come in long runs of neighbors, so
 * here a leaf page is searched for and locked once, takes all entries of the
 * run that belong on it, and is logged once. Where it is full, and the run goes
 * on behind all that it has, the page is split here (leaf_split.c), and so it is
 * where a long run goes on before some of its entries. Whatever needs more than that goes to
 * index_insert(): other entries that do not fit (the page is split, or
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
#include "access/htup_details.h"
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

#include "catalog_rows/catalog_rows.h"
#include "catalog_rows/leaf_split.h"

/* Columns of fixed width, or names: oid, "char" and name is the widest key there is, and a TID. */
#define MAX_SORT_KEY 80

/* The widest entry, too. */
#define MAX_ENTRY 88

/* What a leaf insertion's WAL record takes besides the entry. */
#define INSERT_RECORD_OVERHEAD 40

/* What makes signed numbers sort as unsigned ones. */
#define INT4_SIGN 0x80000000
#define INT2_SIGN 0x8000

/* A column of the index. */
typedef struct KeyColumn
{
	Oid			type;
	int			offset;			/* in rows of the catalog, behind their header */
} KeyColumn;

/* A row's entry; they are sorted by it. */
typedef struct RunEntry
{
	uint64		prefix;			/* how its sort key begins, as a number */
	int			row;			/* of the run */
} RunEntry;

/*
 * A run. The sort key of a row is its columns and its TID, as bytes that
 * memcmp() orders as the index does; all that is needed of a row is in there.
 */
typedef struct Run
{
	Relation	heap;
	Relation	index;
	IndexInfo  *info;
	bool		unique;
	HeapTuple  *tuples;
	int			ntuples;
	int			ncolumns;
	KeyColumn	columns[INDEX_MAX_KEYS];
	int			key_bytes;		/* of a sort key: those of its columns */
	int			key_size;		/* of a sort key, zeros behind it included */
	unsigned char *keys;		/* the rows', in their order */
	RunEntry   *entries;		/* in the order of the index */
	BTScanInsert search;
	ItemPointerData tid;		/* that `search` may point to */
} Run;

/* An entry's place on the leaf page. */
typedef struct Placement
{
	IndexTuple	itup;
	OffsetNumber offset;		/* when all before it have been added */
} Placement;

/* What a leaf page takes of a run. */
typedef struct LeafEntries
{
	int			n;
	bool		split;			/* do others of the run follow all on the
								 * page, which has no room for them? */
	OffsetNumber part;			/* or before this item, if they are many */
	bool		log_image;		/* is an image shorter than their records? */
	Placement	placements[MaxIndexTuplesPerPage];
	char		tuples[BLCKSZ + MAX_ENTRY] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} LeafEntries;

static bool run_begin(Run *run);
static int	fixed_offset(TupleDesc tupdesc, AttrNumber attnum);
static inline unsigned char *sort_key(const Run *run, int row);
static void make_sort_key(const Run *run, int row);
static void make_entries(Run *run, RunOrder *order);
static bool take_order(Run *run, const RunOrder *order);
static void keep_order(RunOrder *order, const Run *run);
static uint64 prefix_of(const unsigned char *key);
static inline uint32 read_uint32(const unsigned char **p);
static inline uint16 read_uint16(const unsigned char **p);
static inline void read_tid(const unsigned char **p, ItemPointer tid);
static int	insert_on_leaf(Run *run, int from, LeafEntries *leaf);
static void place_on_leaf(Run *run, Page page, int from, LeafEntries *leaf);
static int	end_on_leaf(Run *run, Page page, int from);
static Size leave_room(LeafEntries *leaf, OffsetNumber end, Size avail, Size wanted);
static int	split_leaf(Run *run, Buffer buffer, BTStack stack, int from);
static bool part_leaf(Run *run, Buffer buffer, BTStack stack, const LeafEntries *leaf, int from);
static int	count_before(Run *run, Page page, OffsetNumber item, bool or_equal, int from, int to);
static OffsetNumber position_of(Run *run, int entry, Page page, OffsetNumber low, bool *equal);
static int32 compare_with_item(Run *run, int entry, Page page, OffsetNumber item);
static void search_for(Run *run, int entry);
static bool is_like_last(const Run *run, int entry);
static Size form_entry(const Run *run, int entry, IndexTuple itup);
#ifdef USE_ASSERT_CHECKING
static bool is_formed_entry(const Run *run, int entry, IndexTuple itup);
#endif
static void add_to_leaf(const Run *run, Buffer buffer, const LeafEntries *leaf);
static void add_neighbors(Page page, const Placement *placements, int n);
static void log_leaf_insert(Buffer buffer, IndexTuple itup, OffsetNumber offset);
static void insert_one(const Run *run, HeapTuple tuple);

static inline int
compare_entries(const RunEntry *a, const RunEntry *b, const Run *run)
{
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	return memcmp(sort_key(run, a->row), sort_key(run, b->row), run->key_size);
}

#define ST_SORT sort_entries
#define ST_ELEMENT_TYPE RunEntry
#define ST_COMPARE(a, b, run) compare_entries(a, b, run)
#define ST_COMPARE_ARG_TYPE const Run
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Insert the entries of `tuples`, which are in the heap already, into one
 * index. Constraints on catalogs are immediate; a violation is raised as
 * index_insert() does, and may wait for the transaction it is found in.
 *
 * *order is the caller's, for this index, from run to run. Rows in the order
 * of the last run's need not be sorted.
 */
void
index_run_insert(Relation heap, Relation index, IndexInfo *info, HeapTuple *tuples, int ntuples,
				 RunOrder *order)
{
	Run			run = {
		.heap = heap,
		.index = index,
		.info = info,
		.unique = index->rd_index->indisunique,
		.tuples = tuples,
		.ntuples = ntuples
	};
	MemoryContext context;
	MemoryContext old;
	LeafEntries *leaf;
	int			done = 0;

	Assert(info->ii_Expressions == NIL && info->ii_Predicate == NIL);
	Assert(index->rd_index->indimmediate);

	if (!run_begin(&run))
	{
		for (int i = 0; i < ntuples; i++)
			insert_one(&run, tuples[i]);
		return;
	}

	context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion index run",
									ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(context);

	make_entries(&run, order);
	run.search = _bt_mkscankey(index, NULL);
	run.search->keysz = IndexRelationGetNumberOfKeyAttributes(index);
	run.search->anynullkeys = false;
	_bt_metaversion(index, &run.search->heapkeyspace, &run.search->allequalimage);
	leaf = palloc(sizeof(LeafEntries));

	while (done < ntuples)
	{
		int			n = insert_on_leaf(&run, done, leaf);

		if (n == 0)
		{
			insert_one(&run, tuples[run.entries[done].row]);
			n = 1;
		}
		done += n;
		CHECK_FOR_INTERRUPTS();
	}

	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/* ---- sort keys ---- */

/*
 * Is it a btree of today's format with key columns of the known types, no
 * wider together than a sort key? Notes them if so.
 */
static bool
run_begin(Run *run)
{
	Relation	index = run->index;
	bool		heapkeyspace;
	bool		allequalimage;
	int			width = 0;

	if (index->rd_rel->relam != BTREE_AM_OID ||
		IndexRelationGetNumberOfAttributes(index) != IndexRelationGetNumberOfKeyAttributes(index))
		return false;

	run->ncolumns = IndexRelationGetNumberOfKeyAttributes(index);
	for (int i = 0; i < run->ncolumns; i++)
	{
		KeyColumn  *column = &run->columns[i];

		column->type = index->rd_opcintype[i];
		column->offset = fixed_offset(RelationGetDescr(run->heap), run->info->ii_IndexAttrNumbers[i]);
		if (index->rd_indoption[i] != 0 || column->offset < 0)
			return false;
		switch (column->type)
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
	run->key_bytes = width;
	run->key_size = TYPEALIGN(sizeof(uint64), width + sizeof(BlockNumber) + sizeof(OffsetNumber));

	_bt_metaversion(index, &heapkeyspace, &allequalimage);
	return heapkeyspace && run->key_size <= MAX_SORT_KEY;
}

/* Where the column is in every row, behind the header; -1 if that is not fixed. */
static int
fixed_offset(TupleDesc tupdesc, AttrNumber attnum)
{
	int			offset = 0;

	for (int i = 0; i < attnum; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);

		if (att->attlen <= 0 || !att->attnotnull)
			return -1;
		offset = att_align_nominal(offset, att->attalign);
		if (i < attnum - 1)
			offset += att->attlen;
	}
	return attnum > 0 ? offset : -1;
}

static inline unsigned char *
sort_key(const Run *run, int row)
{
	return run->keys + (Size) row * run->key_size;
}

static void
make_sort_key(const Run *run, int row)
{
	unsigned char *p = sort_key(run, row);
	HeapTuple	tuple = run->tuples[row];
	uint32		big;
	uint16		small;

	for (int i = 0; i < run->ncolumns; i++)
	{
		const char *value = (char *) GETSTRUCT(tuple) + run->columns[i].offset;

		switch (run->columns[i].type)
		{
			case OIDOID:
				memcpy(&big, value, sizeof(big));
				big = pg_hton32(big);
				memcpy(p, &big, sizeof(big));
				p += sizeof(big);
				break;
			case INT4OID:
				memcpy(&big, value, sizeof(big));
				big = pg_hton32(big ^ INT4_SIGN);
				memcpy(p, &big, sizeof(big));
				p += sizeof(big);
				break;
			case INT2OID:
				memcpy(&small, value, sizeof(small));
				small = pg_hton16(small ^ INT2_SIGN);
				memcpy(p, &small, sizeof(small));
				p += sizeof(small);
				break;
			case CHAROID:		/* btcharcmp() compares unsigned */
				*p++ = (unsigned char) *value;
				break;
			case NAMEOID:		/* padded with zeros, which sort first */
				strncpy((char *) p, value, NAMEDATALEN);
				p += NAMEDATALEN;
				break;
		}
	}

	big = pg_hton32(ItemPointerGetBlockNumber(&tuple->t_self));
	memcpy(p, &big, sizeof(big));
	p += sizeof(big);
	small = pg_hton16(ItemPointerGetOffsetNumber(&tuple->t_self));
	memcpy(p, &small, sizeof(small));
	p += sizeof(small);
	memset(p, 0, sort_key(run, row) + run->key_size - p);
}

/* ---- entries ---- */

/* The entries of all rows, in the order of the index. */
static void
make_entries(Run *run, RunOrder *order)
{
	run->keys = MemoryContextAllocHuge(CurrentMemoryContext, (Size) run->ntuples * run->key_size);
	run->entries = MemoryContextAllocHuge(CurrentMemoryContext, (Size) run->ntuples * sizeof(RunEntry));
	for (int i = 0; i < run->ntuples; i++)
		make_sort_key(run, i);

	if (order->nrows == run->ntuples && take_order(run, order))
		return;
	for (int i = 0; i < run->ntuples; i++)
	{
		run->entries[i].row = i;
		run->entries[i].prefix = prefix_of(sort_key(run, i));
	}
	/* linear when they are in order */
	sort_entries(run->entries, run->ntuples, run);
	keep_order(order, run);
}

/* Make the entries in the order of the last run; false if it is not theirs. */
static bool
take_order(Run *run, const RunOrder *order)
{
	for (int i = 0; i < order->nrows; i++)
	{
		RunEntry   *entry = &run->entries[i];

		entry->row = order->rows[i];
		entry->prefix = prefix_of(sort_key(run, entry->row));
		if (i > 0 && compare_entries(entry - 1, entry, run) > 0)
			return false;
	}
	return true;
}

/* Note the order of sorted entries. */
static void
keep_order(RunOrder *order, const Run *run)
{
	if (order->nrows != run->ntuples)
	{
		if (order->rows != NULL)
			pfree(order->rows);
		order->rows = MemoryContextAlloc(order->context, run->ntuples * sizeof(int));
		order->nrows = run->ntuples;
	}
	for (int i = 0; i < run->ntuples; i++)
		order->rows[i] = run->entries[i].row;
}

static uint64
prefix_of(const unsigned char *key)
{
	uint64		prefix;

	memcpy(&prefix, key, sizeof(prefix));
	return pg_ntoh64(prefix);
}

static inline uint32
read_uint32(const unsigned char **p)
{
	uint32		big;

	memcpy(&big, *p, sizeof(big));
	*p += sizeof(big);
	return pg_ntoh32(big);
}

static inline uint16
read_uint16(const unsigned char **p)
{
	uint16		big;

	memcpy(&big, *p, sizeof(big));
	*p += sizeof(big);
	return pg_ntoh16(big);
}

static inline void
read_tid(const unsigned char **p, ItemPointer tid)
{
	BlockNumber block = read_uint32(p);

	ItemPointerSet(tid, block, read_uint16(p));
}

/* ---- leaf pages ---- */

/*
 * Find the leaf page for an entry and insert it and as many of the following
 * ones as belong there and fit. Returns how many; 0 if the first one is
 * index_insert()'s.
 */
static int
insert_on_leaf(Run *run, int from, LeafEntries *leaf)
{
	Buffer		buffer;
	BTStack		stack;
	int			split = 0;
	bool		parted = false;

	search_for(run, from);
	stack = _bt_search(run->index, run->heap, run->search, &buffer, BT_WRITE, true);

	place_on_leaf(run, BufferGetPage(buffer), from, leaf);
	if (leaf->n > 0)
		add_to_leaf(run, buffer, leaf);
	if (leaf->split)
		split = split_leaf(run, buffer, stack, from + leaf->n);
	else if (leaf->part != InvalidOffsetNumber)
		parted = part_leaf(run, buffer, stack, leaf, from + leaf->n);

	if (split == 0 && !parted)
		_bt_relbuf(run->index, buffer);
	if (stack != NULL)
		_bt_freestack(stack);
	return leaf->n + split;
}

/*
 * Find the places of the entries from `from` on, on a leaf page that is locked
 * for writing, as long as they belong there and fit.
 */
static void
place_on_leaf(Run *run, Page page, int from, LeafEntries *leaf)
{
	BTPageOpaque opaque = BTPageGetOpaque(page);
	Size		avail = PageGetFreeSpace(page); /* less one line pointer */
	Size		record_bytes = 0;
	OffsetNumber position = P_FIRSTDATAKEY(opaque);
	OffsetNumber page_end = OffsetNumberNext(PageGetMaxOffsetNumber(page));
	int			end = end_on_leaf(run, page, from);
	int			neighbors_end = from;	/* of those that go to `position` */
	char	   *space = leaf->tuples;

	Assert(P_ISLEAF(opaque) && !P_IGNORE(opaque) && !P_INCOMPLETE_SPLIT(opaque));

	leaf->n = 0;
	leaf->split = false;
	leaf->part = InvalidOffsetNumber;
	for (int i = from; i < end; i++)
	{
		IndexTuple	itup = (IndexTuple) space;
		Size		size;

		/* two equal keys among the new ones: let the second find the first */
		if (run->unique && i > from && is_like_last(run, i))
			break;

		if (i == neighbors_end)
		{
			bool		equal;

			position = position_of(run, i, page, position, &equal);
			if (equal)
				break;
			neighbors_end = position == page_end ? end :
				count_before(run, page, position, false, i + 1, end);
		}

		size = form_entry(run, i, itup);
		if (size > avail)
		{
			/* the others can be deduplicated, which PostgreSQL does */
			leaf->split = run->unique && position == page_end && page_end > P_FIRSTDATAKEY(opaque);
			/* PostgreSQL may find room where there are dead entries */
			if (run->unique && position < page_end && !P_HAS_GARBAGE(opaque) &&
				position + leaf->n > P_FIRSTDATAKEY(opaque) && (neighbors_end - i) * size > BLCKSZ / 2)
				leaf->part = position + leaf->n;
			break;
		}
		avail -= Min(avail, size + sizeof(ItemIdData));
		record_bytes += size + INSERT_RECORD_OVERHEAD;
		space += size;

		leaf->placements[leaf->n].itup = itup;
		leaf->placements[leaf->n].offset = position + leaf->n;
		leaf->n++;
	}

	/* as PostgreSQL leaves pages behind where an index grows */
	if (leaf->split && P_RIGHTMOST(opaque))
	{
		int			n = leaf->n;

		avail = leave_room(leaf, page_end, avail, BTGetTargetPageFreeSpace(run->index));
		for (; n > leaf->n; n--)
			record_bytes -= IndexTupleSize(leaf->placements[n - 1].itup) + INSERT_RECORD_OVERHEAD;
	}
	leaf->log_image = record_bytes > BLCKSZ - avail;
}

/*
 * The end of the entries that belong on the page, and are not too many for
 * one. Beyond the high key is another page. A key equal to it may have
 * duplicates there.
 */
static int
end_on_leaf(Run *run, Page page, int from)
{
	int			end = Min(run->ntuples, from + MaxIndexTuplesPerPage);

	if (P_RIGHTMOST(BTPageGetOpaque(page)))
		return end;
	return count_before(run, page, P_HIKEY, !run->unique, from, end);
}

/* Take back the last entries of those that follow all on the page, until `wanted` bytes are free; returns what is. */
static Size
leave_room(LeafEntries *leaf, OffsetNumber end, Size avail, Size wanted)
{
	while (leaf->n > 0 && avail < wanted && leaf->placements[leaf->n - 1].offset - (leaf->n - 1) == end)
		avail += IndexTupleSize(leaf->placements[--leaf->n].itup) + sizeof(ItemIdData);
	return avail;
}

/*
 * Split a leaf page that is locked for writing, and all of whose entries are
 * less than those from `from` on: as many of these as fit go to a new page.
 * Returns how many, and has released the buffer; or 0 if PostgreSQL is to
 * split the page.
 */
static int
split_leaf(Run *run, Buffer buffer, BTStack stack, int from)
{
	Page		page = BufferGetPage(buffer);
	bool		rightmost = P_RIGHTMOST(BTPageGetOpaque(page));
	int			end = end_on_leaf(run, page, from);
	PGAlignedBlock right;
	char		entry[MAX_ENTRY] pg_attribute_aligned(MAXIMUM_ALIGNOF);
	Size		avail;
	int			i;

	leaf_split_begin(page, right.data);
	avail = PageGetFreeSpace(right.data);
	if (rightmost)
		avail -= BTGetTargetPageFreeSpace(run->index);
	for (i = from; i < end; i++)
	{
		Size		size;

		/* let the second find the first */
		if (i > from && is_like_last(run, i))
			break;
		size = form_entry(run, i, (IndexTuple) entry);
		if (size > avail)
			break;
		avail -= Min(avail, size + sizeof(ItemIdData));
		if (PageAddItem(right.data, entry, size, InvalidOffsetNumber, false, false) == InvalidOffsetNumber)
			elog(ERROR, "could not add an entry to a new page");
	}

	/* pages with few entries each would be a waste of space */
	if (i == from || (!rightmost && avail > BLCKSZ / 2))
		return 0;
	search_for(run, from);
	return leaf_split(run->heap, run->index, run->search, buffer, stack, PageGetMaxOffsetNumber(page), right.data) ?
		i - from : 0;
}

/*
 * Split a leaf page that is locked for writing where the entries from `from`
 * on belong: those behind them go to a new page, so that a long run does not
 * take them along, with half a page, each time that a page is full. Returns
 * false, and has changed nothing, if PostgreSQL is to split the page. Else the
 * buffer is released.
 */
static bool
part_leaf(Run *run, Buffer buffer, BTStack stack, const LeafEntries *leaf, int from)
{
	Page		page = BufferGetPage(buffer);
	PGAlignedBlock right;

	leaf_split_begin(page, right.data);
	leaf_split_move(page, leaf->part, right.data);
	search_for(run, from);
	return leaf_split(run->heap, run->index, run->search, buffer, stack, OffsetNumberPrev(leaf->part), right.data);
}

/*
 * The first of the entries from `from` to `to` - 1 that does not come before
 * an item of the page, or `to`. It is looked for nearby first.
 */
static int
count_before(Run *run, Page page, OffsetNumber item, bool or_equal, int from, int to)
{
	int			step = 1;
	bool		near = true;

	while (from < to)
	{
		int			probe = Min(from + step, to) - 1;
		int32		cmp = compare_with_item(run, probe, page, item);

		if (cmp < 0 || (or_equal && cmp == 0))
			from = probe + 1;
		else
		{
			to = probe;
			near = false;
		}
		step = near ? step * 2 : (to - from + 1) / 2;
	}
	return to;
}

/*
 * The first offset, from `low` on, whose item is not less than the entry;
 * *equal tells whether it equals it. All items before `low` are less.
 */
static OffsetNumber
position_of(Run *run, int entry, Page page, OffsetNumber low, bool *equal)
{
	OffsetNumber high = OffsetNumberNext(PageGetMaxOffsetNumber(page));
	OffsetNumber middle = low;	/* most often it goes right there */

	*equal = false;
	while (low < high)
	{
		int32		cmp = compare_with_item(run, entry, page, middle);

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

static int32
compare_with_item(Run *run, int entry, Page page, OffsetNumber item)
{
	search_for(run, entry);
	return _bt_compare(run->index, run->search, page, item);
}

/* Make run->search that for an entry; see _bt_doinsert() on the TID. */
static void
search_for(Run *run, int entry)
{
	const unsigned char *p = sort_key(run, run->entries[entry].row);

	for (int i = 0; i < run->ncolumns; i++)
	{
		ScanKey		key = &run->search->scankeys[i];

		key->sk_flags &= ~SK_ISNULL;
		switch (run->columns[i].type)
		{
			case OIDOID:
				key->sk_argument = ObjectIdGetDatum(read_uint32(&p));
				break;
			case INT4OID:
				key->sk_argument = Int32GetDatum((int32) (read_uint32(&p) ^ INT4_SIGN));
				break;
			case INT2OID:
				key->sk_argument = Int16GetDatum((int16) (read_uint16(&p) ^ INT2_SIGN));
				break;
			case CHAROID:
				key->sk_argument = CharGetDatum((char) *p++);
				break;
			case NAMEOID:
				key->sk_argument = PointerGetDatum(p);
				p += NAMEDATALEN;
				break;
		}
	}
	read_tid(&p, &run->tid);
	run->search->scantid = run->unique ? NULL : &run->tid;
}

/* Are the key columns of an entry those of the one before it? */
static bool
is_like_last(const Run *run, int entry)
{
	const RunEntry *last = &run->entries[entry - 1];
	const RunEntry *this = &run->entries[entry];

	return memcmp(sort_key(run, last->row), sort_key(run, this->row), run->key_bytes) == 0;
}

/* What index_form_tuple() would make of a row; returns its size. MAX_ENTRY bytes are enough. */
static Size
form_entry(const Run *run, int entry, IndexTuple itup)
{
	const unsigned char *p = sort_key(run, run->entries[entry].row);
	char	   *start = (char *) itup;
	Size		at = MAXALIGN(sizeof(IndexTupleData));

	/* it has zeros where nothing stands */
	memset(start, 0, MAX_ENTRY);
	for (int i = 0; i < run->ncolumns; i++)
	{
		uint32		number;
		uint16		small;
		Size		length;

		switch (run->columns[i].type)
		{
			case OIDOID:
			case INT4OID:
				number = read_uint32(&p) ^ (run->columns[i].type == INT4OID ? INT4_SIGN : 0);
				at = INTALIGN(at);
				memcpy(start + at, &number, sizeof(number));
				at += sizeof(number);
				break;
			case INT2OID:
				small = read_uint16(&p) ^ INT2_SIGN;
				at = SHORTALIGN(at);
				memcpy(start + at, &small, sizeof(small));
				at += sizeof(small);
				break;
			case CHAROID:
				start[at++] = (char) *p++;
				break;
			case NAMEOID:
				/* as a C string */
				length = strlen((const char *) p);
				memcpy(start + at, p, length + 1);
				at += length + 1;
				p += NAMEDATALEN;
				itup->t_info |= INDEX_VAR_MASK;
				break;
		}
	}
	read_tid(&p, &itup->t_tid);
	at = MAXALIGN(at);
	itup->t_info |= at;
	Assert(at <= MAX_ENTRY);
	Assert(is_formed_entry(run, entry, itup));
	return at;
}

#ifdef USE_ASSERT_CHECKING
static bool
is_formed_entry(const Run *run, int entry, IndexTuple itup)
{
	HeapTuple	tuple = run->tuples[run->entries[entry].row];
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	IndexTuple	formed;

	for (int i = 0; i < run->ncolumns; i++)
		values[i] = heap_getattr(tuple, run->info->ii_IndexAttrNumbers[i], RelationGetDescr(run->heap), &isnull[i]);
	formed = index_form_tuple(RelationGetDescr(run->index), values, isnull);
	formed->t_tid = tuple->t_self;
	return IndexTupleSize(formed) == IndexTupleSize(itup) && memcmp(formed, itup, IndexTupleSize(itup)) == 0;
}
#endif

/*
 * Add entries to a leaf page that is locked for writing, and log that. They
 * fit. Where each has a record of its own, the page must not have what later
 * ones add: any record may come to hold an image of it.
 */
static void
add_to_leaf(const Run *run, Buffer buffer, const LeafEntries *leaf)
{
	Page		page = BufferGetPage(buffer);
	bool		one_by_one = RelationNeedsWAL(run->index) && !leaf->log_image;
	int			end;

	/* NO EREPORT(ERROR) from here till changes are logged */
	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	for (int i = 0; i < leaf->n; i = end)
	{
		end = i + 1;
		while (!one_by_one && end < leaf->n && leaf->placements[end].offset == leaf->placements[end - 1].offset + 1)
			end++;
		add_neighbors(page, &leaf->placements[i], end - i);
		if (one_by_one)
			log_leaf_insert(buffer, leaf->placements[i].itup, leaf->placements[i].offset);
	}
	if (RelationNeedsWAL(run->index) && leaf->log_image)
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();
}

/*
 * As PageAddItem() of one after the other would, whose places follow each
 * other. Expects that they fit.
 */
static void
add_neighbors(Page page, const Placement *placements, int n)
{
	PageHeader	header = (PageHeader) page;
	ItemId		first = PageGetItemId(page, placements[0].offset);
	OffsetNumber end = OffsetNumberNext(PageGetMaxOffsetNumber(page));
	LocationIndex upper = header->pd_upper;

	if (placements[0].offset > end)
		elog(PANIC, "an entry does not belong at offset %u", placements[0].offset);
	memmove(first + n, first, (end - placements[0].offset) * sizeof(ItemIdData));
	for (int i = 0; i < n; i++)
	{
		Size		size = IndexTupleSize(placements[i].itup);

		upper -= MAXALIGN(size);
		ItemIdSetNormal(first + i, upper, size);
		memcpy(page + upper, placements[i].itup, size);
	}
	header->pd_lower += n * sizeof(ItemIdData);
	header->pd_upper = upper;
	Assert(header->pd_lower <= header->pd_upper);
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
insert_one(const Run *run, HeapTuple tuple)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	for (int i = 0; i < run->info->ii_NumIndexAttrs; i++)
		values[i] = heap_getattr(tuple, run->info->ii_IndexAttrNumbers[i], RelationGetDescr(run->heap),
								 &isnull[i]);

	index_insert(run->index, values, isnull, &tuple->t_self, run->heap,
				 run->unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
				 false, run->info);
}
