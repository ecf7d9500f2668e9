/*-------------------------------------------------------------------------
 *
 * radix.c
 *	  Order rows by the numbers of their keys, and those of equal numbers by
 *	  comparing them.
 *
 * An entry is a number with where its row is. A number of up to 32 bits and a
 * row's position among all rows are one 64-bit entry, else there are two. While
 * entries are made of many rows they are split by the highest bits; each part
 * fits the processor's cache, where it is sorted by the bits that are left
 * (radix_template.h). In the end the entries' memory holds the rows' addresses.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "sort/sort_key.h"
#include "vector/huge_pages.h"

#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)

/* What a part of the entries may take for sorting it in the processor's second cache: half of what fits. */
#define CACHED_BYTES (384 * 1024)

/* Up to this number, entries are compared. */
#define FEW_ENTRIES 128

/* From this number on, digits in the cache have more values. */
#define MANY_ENTRIES 2048
#define MAX_CACHED_DIGIT_BITS 11
#define MAX_CACHED_DIGITS (1 << MAX_CACHED_DIGIT_BITS)

/* Number of bits by which entries are split when they are made, and from which number of them on. */
#define SPLIT_BITS 10
#define SPLIT_PARTS (1 << SPLIT_BITS)
#define SPLIT_FROM (32 * 1024)

/* Bits of an entry of 64 for the number, and for the row's position. */
#define PACKED_BITS 32

typedef uint64 PackedEntry;

typedef struct RowEntry
{
	uint64		number;
	char	   *row;
} RowEntry;

/* the position makes no difference, except that the order is that in which rows came */
#define RADIX_ENTRY PackedEntry
#define RADIX_NAME(x) packed_##x
#define RADIX_NUMBER(e) (*(e) >> PACKED_BITS)
#include "sort/radix_template.h"

#define RADIX_ENTRY RowEntry
#define RADIX_NAME(x) wide_##x
#define RADIX_NUMBER(e) ((e)->number)
#include "sort/radix_template.h"

typedef struct RowOrder
{
	const SortKeys *keys;
	int			first;
} RowOrder;

typedef char *RowAddress;

#define ST_SORT sort_by_keys
#define ST_ELEMENT_TYPE RowAddress
#define ST_COMPARE(a, b, order) sort_keys_compare((order)->keys, *(a), *(b), (order)->first)
#define ST_COMPARE_ARG_TYPE RowOrder
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* An array that is accessed at random. */
static void *
alloc_array(MemoryContext context, Size bytes)
{
	void	   *array = MemoryContextAllocHuge(context, Max(bytes, 1));

	ask_for_huge_pages(array, bytes);
	return array;
}

/* ---- parts ---- */

/* How entries are split when they are made. */
typedef struct Split
{
	int			shift;			/* bits of the numbers below */
	int			nparts;			/* 1: they are not */
	int64		places[SPLIT_PARTS];	/* where a part's next entry goes */
} Split;

static void
split_init(Split *split, const uint64 *numbers, int64 n, int bits)
{
	int64		begin = 0;

	split->shift = n >= SPLIT_FROM ? Max(bits - SPLIT_BITS, 0) : bits;
	split->nparts = 1 << (bits - split->shift);
	memset(split->places, 0, sizeof(int64) * split->nparts);
	if (split->nparts == 1)
		return;
	for (int64 i = 0; i < n; i++)
		split->places[numbers[i] >> split->shift]++;
	for (int part = 0; part < split->nparts; part++)
	{
		int64		count = split->places[part];

		split->places[part] = begin;
		begin += count;
	}
}

/* Where the entry of the next row goes, which has this number. */
static inline int64
split_place(Split *split, uint64 number)
{
	return split->places[split->nparts > 1 ? number >> split->shift : 0]++;
}

/* ---- rows of equal numbers ---- */

/* Sort rows of equal numbers by keys from the first on that a number does not have as a whole. */
static void
sort_ties(char **rows, int64 n, RowOrder *order, bool *compared)
{
	if (n < 2)
		return;
	CHECK_FOR_INTERRUPTS();
	sort_by_keys(rows, n, order);
	*compared = true;
}

/* ---- entries of 64 bits ---- */

/* The position of a row is its chunk's number and its distance there in units. */
typedef struct Positions
{
	const RowChunks *rows;
	Size		unit;			/* bytes */
	int			chunk_shift;
	bool		fit;			/* have all of them PACKED_BITS? */
} Positions;

static Positions
positions_of(const RowChunks *rows)
{
	Positions	positions = {.rows = rows};
	uint64		most = 1;

	positions.unit = rows->format->size > 0 ? rows->format->size : MAXIMUM_ALIGNOF;
	for (int i = 0; i < rows->n; i++)
		most = Max(most, rows->chunks[i].used / positions.unit);
	positions.chunk_shift = pg_leftmost_one_pos64(most) + 1;
	positions.fit = positions.chunk_shift < PACKED_BITS &&
		(uint64) rows->n << positions.chunk_shift <= UINT64CONST(1) << PACKED_BITS;
	return positions;
}

static inline char *
row_at(const Positions *positions, PackedEntry entry)
{
	uint32		position = (uint32) entry;
	uint32		within = position & (((uint32) 1 << positions->chunk_shift) - 1);

	return positions->rows->chunks[position >> positions->chunk_shift].memory + within * positions->unit;
}

/* Make entries of the rows, in the order of the split. */
static void
make_packed(const Positions *positions, const uint64 *numbers, Split *split, PackedEntry * entries)
{
	const RowChunks *rows = positions->rows;
	int64		i = 0;

	for (int c = 0; c < rows->n; c++)
	{
		const char *end = rows->chunks[c].memory + rows->chunks[c].used;
		const char *row = rows->chunks[c].memory;
		uint64		position = (uint64) c << positions->chunk_shift;

		CHECK_FOR_INTERRUPTS();
		while (row < end)
		{
			Size		size = row_size(rows->format, row);

			entries[split_place(split, numbers[i])] = numbers[i] << PACKED_BITS | position;
			position += rows->format->size > 0 ? 1 : size / MAXIMUM_ALIGNOF;
			row += size;
			i++;
		}
	}
	Assert(i == rows->nrows);
}

/* Replace entries in order by addresses of their rows. */
static char **
find_packed(const Positions *positions, PackedEntry * entries, int64 n, RowOrder *order, bool *compared)
{
	char	  **result = (char **) entries;
	bool		ties = order->first < order->keys->n;

	StaticAssertDecl(sizeof(PackedEntry) == sizeof(char *), "entries become addresses");
	for (int64 begin = 0, end; begin < n; begin = end)
	{
		uint64		number = entries[begin] >> PACKED_BITS;

		for (end = begin; end < n && entries[end] >> PACKED_BITS == number; end++)
			result[end] = row_at(positions, entries[end]);
		if (ties)
			sort_ties(result + begin, end - begin, order, compared);
	}
	return result;
}

/* ---- wider entries ---- */

static void
make_wide(const RowChunks *rows, const uint64 *numbers, Split *split, RowEntry *entries)
{
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
		entries[split_place(split, numbers[i])] = (RowEntry)
	{
		.number = numbers[i],.row = row_cursor_next(&cursor)
	};
}

static char **
find_wide(RowEntry *entries, int64 n, RowOrder *order, bool *compared)
{
	char	  **result = (char **) entries;
	bool		ties = order->first < order->keys->n;

	/* an address is written where the entry, or one before it, has been read */
	for (int64 begin = 0, end; begin < n; begin = end)
	{
		uint64		number = entries[begin].number;

		for (end = begin; end < n && entries[end].number == number; end++)
			result[end] = entries[end].row;
		if (ties)
			sort_ties(result + begin, end - begin, order, compared);
	}
	return result;
}

/* ---- all of it ---- */

/* The addresses of rows as they came. */
static char **
rows_as_they_came(const RowChunks *rows, MemoryContext context)
{
	char	  **result = alloc_array(context, sizeof(char *) * rows->nrows);
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
		result[i] = row_cursor_next(&cursor);
	return result;
}

static bool
are_sorted(const uint64 *numbers, int64 n)
{
	for (int64 i = 1; i < n; i++)
	{
		if (numbers[i] < numbers[i - 1])
			return false;
	}
	return true;
}

/*
 * The addresses of rows in order, in this context. `memory` is what the sort has
 * taken beside the rows at most; `compared` becomes true if any rows were.
 */
char	  **
radix_sort(SortKeys *keys, const RowChunks *rows, MemoryContext context, Size *memory, bool *compared)
{
	const int64 n = rows->nrows;
	const Positions positions = positions_of(rows);
	uint64	   *numbers = alloc_array(context, sizeof(uint64) * n);
	RowOrder	order = {.keys = keys};
	char	  **result;
	Split		split;
	int			bits;

	order.first = sort_keys_number(keys, rows, numbers, &bits);
	*memory = sizeof(uint64) * n;
	if (bits == 0)
	{
		pfree(numbers);
		result = rows_as_they_came(rows, context);
		if (order.first < keys->n)
			sort_ties(result, n, &order, compared);
		return result;
	}
	/* what is in order already need not be sorted by any bits */
	split_init(&split, numbers, n, are_sorted(numbers, n) ? 0 : bits);
	CHECK_FOR_INTERRUPTS();
	if (positions.fit && bits <= PACKED_BITS)
	{
		PackedEntry *entries = alloc_array(context, sizeof(PackedEntry) * n);

		*memory += sizeof(PackedEntry) * n;
		make_packed(&positions, numbers, &split, entries);
		pfree(numbers);
		packed_sort_parts(entries, n, split.shift, split.places, split.nparts);
		result = find_packed(&positions, entries, n, &order, compared);
	}
	else
	{
		RowEntry   *entries = alloc_array(context, sizeof(RowEntry) * n);

		*memory += sizeof(RowEntry) * n;
		make_wide(rows, numbers, &split, entries);
		pfree(numbers);
		wide_sort_parts(entries, n, split.shift, split.places, split.nparts);
		result = find_wide(entries, n, &order, compared);
	}
	return result;
}
