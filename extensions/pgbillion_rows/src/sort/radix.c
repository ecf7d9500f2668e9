/*-------------------------------------------------------------------------
 *
 * radix.c
 *	  Order entries by their numbers, and those of equal numbers by their rows.
 *
 * A large array is split by the highest eight bits that differ, each part again
 * by the next, until a part fits the processor's cache. There it is sorted from
 * the lowest bits up, or, if it is small, by comparing numbers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "sort/sort_key.h"

#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)

/* Entries that fit the processor's second cache twice. */
#define CACHED_ENTRIES (24 * 1024)

/* Up to this number, entries are compared. */
#define FEW_ENTRIES 128

#define ST_SORT sort_by_number
#define ST_ELEMENT_TYPE RowEntry
#define ST_COMPARE(a, b) ((a)->number < (b)->number ? -1 : (a)->number > (b)->number)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

typedef struct RowOrder
{
	const SortKeys *keys;
	int			first;
} RowOrder;

static inline int
compare_rows(const RowEntry *a, const RowEntry *b, RowOrder *order)
{
	return sort_keys_compare(order->keys, a->row, b->row, order->first);
}

#define ST_SORT sort_by_rows
#define ST_ELEMENT_TYPE RowEntry
#define ST_COMPARE(a, b, order) compare_rows(a, b, order)
#define ST_COMPARE_ARG_TYPE RowOrder
#define ST_CHECK_FOR_INTERRUPTS
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static inline int
digit_of(const RowEntry *entry, int shift)
{
	return (entry->number >> shift) & (DIGITS - 1);
}

/* Count the digits of entries, and return where each begins. */
static void
find_begins(const RowEntry *entries, int64 n, int shift, int64 *begins)
{
	int64		begin = 0;

	memset(begins, 0, sizeof(int64) * DIGITS);
	for (int64 i = 0; i < n; i++)
		begins[digit_of(&entries[i], shift)]++;
	for (int d = 0; d < DIGITS; d++)
	{
		int64		count = begins[d];

		begins[d] = begin;
		begin += count;
	}
}

/* Order entries by one digit into another array, stably. */
static void
scatter(const RowEntry *from, RowEntry *to, int64 n, int shift, int64 *begins)
{
	for (int64 i = 0; i < n; i++)
		to[begins[digit_of(&from[i], shift)]++] = from[i];
}

/* Order entries by their lowest bits, the lowest digit first. */
static void
sort_cached(RowEntry *entries, RowEntry *room, int64 n, int bits)
{
	RowEntry   *from = entries;
	RowEntry   *to = room;
	int64		begins[DIGITS];

	for (int shift = 0; shift < bits; shift += DIGIT_BITS)
	{
		RowEntry   *swap = from;

		find_begins(from, n, shift, begins);
		scatter(from, to, n, shift, begins);
		from = to;
		to = swap;
	}
	if (from != entries)
		memcpy(entries, from, sizeof(RowEntry) * n);
}

/* Order entries by one digit in place; `ends` becomes where each digit's entries end. */
static void
permute(RowEntry *entries, int64 n, int shift, int64 *ends)
{
	int64		begins[DIGITS];

	find_begins(entries, n, shift, begins);
	for (int d = 0; d < DIGITS; d++)
		ends[d] = d + 1 < DIGITS ? begins[d + 1] : n;
	for (int d = 0; d < DIGITS; d++)
	{
		while (begins[d] < ends[d])
		{
			RowEntry	entry = entries[begins[d]];
			int			digit = digit_of(&entry, shift);

			/*
			 * each step puts one entry where it belongs, and takes what was
			 * there
			 */
			while (digit != d)
			{
				RowEntry   *place = &entries[begins[digit]++];
				RowEntry	other = *place;

				*place = entry;
				entry = other;
				digit = digit_of(&entry, shift);
			}
			entries[begins[d]++] = entry;
		}
	}
}

/* Sort entries that differ in their lowest bits only; there is room for CACHED_ENTRIES. */
static void
sort_bits(RowEntry *entries, RowEntry *room, int64 n, int bits)
{
	int			shift = Max(bits - DIGIT_BITS, 0);
	int64		ends[DIGITS];
	int64		begin = 0;

	if (bits == 0)
		return;
	if (n <= FEW_ENTRIES)
	{
		sort_by_number(entries, n);
		return;
	}
	if (n <= CACHED_ENTRIES && (bits <= 3 * DIGIT_BITS || (bits <= 5 * DIGIT_BITS && n > DIGITS * 8)))
	{
		sort_cached(entries, room, n, bits);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	permute(entries, n, shift, ends);
	for (int d = 0; d < DIGITS; d++)
	{
		if (ends[d] - begin > 1)
			sort_bits(entries + begin, room, ends[d] - begin, shift);
		begin = ends[d];
	}
}

/* Sort entries by their numbers, which have this number of bits. */
void
radix_sort(RowEntry *entries, int64 n, int bits)
{
	RowEntry   *room = palloc(sizeof(RowEntry) * Max(Min(n, CACHED_ENTRIES), 1));

	sort_bits(entries, room, n, bits);
	pfree(room);
}

/*
 * Have entries of equal numbers in the order of their rows, by keys from the
 * first on that a number does not have as a whole. Returns whether there were
 * any.
 */
bool
sort_ties(const SortKeys *keys, RowEntry *entries, int64 n, int first)
{
	RowOrder	order = {keys, first};
	bool		any = false;
	int64		begin = 0;

	while (begin < n)
	{
		int64		end = begin + 1;

		while (end < n && entries[end].number == entries[begin].number)
			end++;
		if (end - begin > 1)
		{
			CHECK_FOR_INTERRUPTS();
			sort_by_rows(entries + begin, end - begin, &order);
			any = true;
		}
		begin = end;
	}
	return any;
}
