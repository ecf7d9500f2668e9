/*-------------------------------------------------------------------------
 *
 * radix_template.h
 *	  Order entries of one type by their numbers: included once for each type.
 *
 *	RADIX_ENTRY		the type
 *	RADIX_NAME(x)	the name of a function for it
 *	RADIX_NUMBER(e)	the number of an entry to which e points
 *
 * A large array is split by the highest eight bits that differ, each part again
 * by the next, until a part fits the processor's cache. There it is sorted from
 * the lowest bits up, or, if it is small, by comparing numbers.
 *
 * There is no include guard, since this is included more than once.
 *
 *-------------------------------------------------------------------------
 */

#define ST_SORT RADIX_NAME(sort_few)
#define ST_ELEMENT_TYPE RADIX_ENTRY
#define ST_COMPARE(a, b) (RADIX_NUMBER(a) < RADIX_NUMBER(b) ? -1 : RADIX_NUMBER(a) > RADIX_NUMBER(b))
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* Entries that fit the processor's second cache twice. */
#define CACHED_ENTRIES ((int64) (CACHED_BYTES / sizeof(RADIX_ENTRY)))

/* Order entries by one digit into another array, stably. */
static void
RADIX_NAME(scatter) (const RADIX_ENTRY * from, RADIX_ENTRY * to, int64 n, int shift, int width)
{
	uint32		begins[MAX_CACHED_DIGITS];
	const uint64 mask = (UINT64CONST(1) << width) - 1;
	uint32		begin = 0;

	memset(begins, 0, sizeof(uint32) << width);
	for (int64 i = 0; i < n; i++)
		begins[(RADIX_NUMBER(&from[i]) >> shift) & mask]++;
	for (int d = 0; d < 1 << width; d++)
	{
		uint32		count = begins[d];

		begins[d] = begin;
		begin += count;
	}
	for (int64 i = 0; i < n; i++)
		to[begins[(RADIX_NUMBER(&from[i]) >> shift) & mask]++] = from[i];
}

/* Order entries by their lowest bits, the lowest digit first. */
static void
RADIX_NAME(sort_cached) (RADIX_ENTRY * entries, RADIX_ENTRY * room, int64 n, int bits, int digits)
{
	RADIX_ENTRY *from = entries;
	RADIX_ENTRY *to = room;
	int			shift = 0;

	for (int i = 0; i < digits; i++)
	{
		RADIX_ENTRY *swap = from;
		int			width = (bits - shift + digits - i - 1) / (digits - i);

		RADIX_NAME(scatter) (from, to, n, shift, width);
		shift += width;
		from = to;
		to = swap;
	}
	if (from != entries)
		memcpy(entries, from, sizeof(RADIX_ENTRY) * n);
}

/* Order entries by one digit in place; `ends` becomes where each digit's entries end. */
static void
RADIX_NAME(permute) (RADIX_ENTRY * entries, int64 n, int shift, int64 *ends)
{
	int64		begins[DIGITS] = {0};
	int64		begin = 0;

	for (int64 i = 0; i < n; i++)
		begins[(RADIX_NUMBER(&entries[i]) >> shift) & (DIGITS - 1)]++;
	for (int d = 0; d < DIGITS; d++)
	{
		int64		count = begins[d];

		begins[d] = begin;
		begin += count;
		ends[d] = begin;
	}
	for (int d = 0; d < DIGITS; d++)
	{
		while (begins[d] < ends[d])
		{
			RADIX_ENTRY entry = entries[begins[d]];
			int			digit = (RADIX_NUMBER(&entry) >> shift) & (DIGITS - 1);

			/*
			 * each step puts one entry where it belongs, and takes what was
			 * there
			 */
			while (digit != d)
			{
				RADIX_ENTRY *place = &entries[begins[digit]++];
				RADIX_ENTRY other = *place;

				*place = entry;
				entry = other;
				digit = (RADIX_NUMBER(&entry) >> shift) & (DIGITS - 1);
			}
			entries[begins[d]++] = entry;
		}
	}
}

/* Sort entries that differ in their lowest bits only; there is room for CACHED_ENTRIES. */
static void
RADIX_NAME(sort_bits) (RADIX_ENTRY * entries, RADIX_ENTRY * room, int64 n, int bits)
{
	int			shift = Max(bits - DIGIT_BITS, 0);
	int64		ends[DIGITS];
	int64		begin = 0;

	if (bits == 0 || n < 2)
		return;
	if (n <= FEW_ENTRIES)
	{
		RADIX_NAME(sort_few) (entries, n);
		return;
	}
	if (n <= CACHED_ENTRIES)
	{
		/* few entries would not pay for counting digits of many values */
		int			width = n > MANY_ENTRIES ? MAX_CACHED_DIGIT_BITS : DIGIT_BITS;
		int			digits = (bits + width - 1) / width;

		if (digits <= (n > MANY_ENTRIES ? 4 : 3))
		{
			RADIX_NAME(sort_cached) (entries, room, n, bits, digits);
			return;
		}
	}
	CHECK_FOR_INTERRUPTS();
	RADIX_NAME(permute) (entries, n, shift, ends);
	for (int d = 0; d < DIGITS; d++)
	{
		RADIX_NAME(sort_bits) (entries + begin, room, ends[d] - begin, shift);
		begin = ends[d];
	}
}

/*
 * Sort entries that have been split by the bits above these, where each part
 * ends as `ends` says.
 */
static void
RADIX_NAME(sort_parts) (RADIX_ENTRY * entries, int64 n, int bits, const int64 *ends, int nparts)
{
	RADIX_ENTRY *room = palloc(sizeof(RADIX_ENTRY) * Max(Min(n, CACHED_ENTRIES), 1));
	int64		begin = 0;

	for (int i = 0; i < nparts; i++)
	{
		if (i % 16 == 0)
			CHECK_FOR_INTERRUPTS();
		RADIX_NAME(sort_bits) (entries + begin, room, ends[i] - begin, bits);
		begin = ends[i];
	}
	pfree(room);
}

#undef CACHED_ENTRIES
#undef RADIX_ENTRY
#undef RADIX_NAME
#undef RADIX_NUMBER
