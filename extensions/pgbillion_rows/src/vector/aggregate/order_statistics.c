/*-------------------------------------------------------------------------
 *
 * order_statistics.c
 *	  Values of certain ranks among many, and the value that most have.
 *
 * Values are unsigned integers. To find those of a rank, many values are
 * counted by ranges of equal width, and only the range with the rank is looked
 * at further; few are partitioned as quicksort does, without sorting what does
 * not hold the rank. For the most frequent value they are counted one by one if
 * they are in a small range, and else sorted by radix, in place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "vector/aggregate/order_statistics.h"

/* Ranges that many values are counted by, and that they are sorted by. */
#define SELECT_BITS 11
#define SORT_BITS 8

/*
 * All values are sorted for more ranks of few values than the first, and for
 * ranks in more ranges of many than the second. Measured.
 */
#define SELECT_RANKS 16
#define SELECT_RANGES 24

/* Up to this number, values are few. */
#define SELECT_FEW 4096
#define SORT_FEW 1024

/* Of which a part is sorted. */
#define SELECT_SORTED 16

/* Of many values, these may have a counter each whatever their number is. */
#define COUNTED_RANGE 4096

#define ST_SORT sort_few
#define ST_ELEMENT_TYPE uint64
#define ST_COMPARE(a, b) (*(a) < *(b) ? -1 : *(a) > *(b))
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* The least value, and how far the greatest is from it. */
static uint64
find_range(const uint64 *keys, int64 n, uint64 *width)
{
	uint64		low = keys[0];
	uint64		high = keys[0];

	for (int64 i = 1; i < n; i++)
	{
		low = Min(low, keys[i]);
		high = Max(high, keys[i]);
	}
	*width = high - low;
	return low;
}

/* By how many bits the distance from the least value is shifted to be a number below 2^bits. */
static int
shift_of(uint64 width, int bits)
{
	Assert(width > 0);
	return Max(pg_leftmost_one_pos64(width) + 1 - bits, 0);
}

/* ---- sorting ---- */

/* Sort values. */
void
order_sort(uint64 *keys, int64 n)
{
	int64		next[1 << SORT_BITS];
	int64		ends[1 << SORT_BITS];
	uint64		low;
	uint64		width;
	int			shift;
	int64		total = 0;

	if (n <= SORT_FEW)
	{
		sort_few(keys, n);
		return;
	}
	CHECK_FOR_INTERRUPTS();
	low = find_range(keys, n, &width);
	if (width == 0)
		return;
	shift = shift_of(width, SORT_BITS);
	memset(ends, 0, sizeof(ends));
	for (int64 i = 0; i < n; i++)
		ends[(keys[i] - low) >> shift]++;
	for (int b = 0; b < lengthof(ends); b++)
	{
		next[b] = total;
		total += ends[b];
		ends[b] = total;
	}
	/* each goes where it belongs, and what was there goes on */
	for (int b = 0; b < lengthof(ends); b++)
	{
		while (next[b] < ends[b])
		{
			uint64		key = keys[next[b]];
			uint64		to;

			while ((to = (key - low) >> shift) != b)
			{
				uint64		other = keys[next[to]];

				keys[next[to]++] = key;
				key = other;
			}
			keys[next[b]++] = key;
		}
	}
	if (shift == 0)
		return;
	for (int b = 0; b < lengthof(ends); b++)
	{
		int64		start = b == 0 ? 0 : ends[b - 1];

		if (ends[b] - start > 1)
			order_sort(keys + start, ends[b] - start);
	}
}

/* ---- ranks ---- */

/* The value of a rank in the middle of three. */
static inline uint64
middle_of(uint64 a, uint64 b, uint64 c)
{
	return a < b ? (b < c ? b : Max(a, c)) : (a < c ? a : Max(b, c));
}

/* Have the value of a rank at its place, none behind it that is less, and none before it that is greater. */
static void
place(uint64 *keys, int64 n, int64 rank)
{
	int64		low = 0;
	int64		high = n - 1;

	/*
	 * a pivot that halves nothing is bad luck; with too much of it, all are
	 * sorted
	 */
	for (int rounds = 0; high - low >= SELECT_SORTED && rounds < 64; rounds++)
	{
		uint64		pivot = middle_of(keys[low], keys[low + (high - low) / 2], keys[high]);
		int64		i = low - 1;
		int64		j = high + 1;

		for (;;)
		{
			uint64		swapped;

			while (keys[++i] < pivot)
				;
			while (keys[--j] > pivot)
				;
			if (i >= j)
				break;
			swapped = keys[i];
			keys[i] = keys[j];
			keys[j] = swapped;
		}
		/* low to j are not above the pivot, and the others not below it */
		if (rank <= j)
			high = j;
		else
			low = j + 1;
	}
	sort_few(keys + low, high - low + 1);
}

/* The values of the ranks of few; the ranks ascend. */
static void
select_few(uint64 *keys, int64 n, const int64 *ranks, int nranks, uint64 *found)
{
	int64		placed = -1;

	for (int i = 0; i < nranks; i++)
	{
		Assert(ranks[i] >= 0 && ranks[i] < n && ranks[i] >= placed);
		if (ranks[i] > placed)
			place(keys + placed + 1, n - placed - 1, ranks[i] - placed - 1);
		placed = ranks[i];
		found[i] = keys[placed];
	}
}

/* The same by sorting all values. */
static void
select_sorted(uint64 *keys, int64 n, const int64 *ranks, int nranks, uint64 *found)
{
	order_sort(keys, n);
	for (int i = 0; i < nranks; i++)
		found[i] = keys[ranks[i]];
}

/* In how many ranges, of which each has that number of values, the ranks are. */
static int
count_ranges(const int64 *counts, const int64 *ranks, int nranks)
{
	int64		end = 0;
	int			range = 0;
	int			result = 0;

	for (int i = 0; i < nranks; i++)
	{
		result += i == 0 || ranks[i] >= end;
		while (end <= ranks[i])
			end += counts[range++];
	}
	return result;
}

/*
 * The values of the ranks, counted from 0, in ascending order; there is at
 * least one. Both the values and the ranks are changed.
 */
void
order_select(uint64 *keys, int64 n, int64 *ranks, int nranks, uint64 *found)
{
	int64		counts[1 << SELECT_BITS];
	uint64		low;
	uint64		width;
	int			shift;
	int64		before = 0;
	uint64		bucket = 0;

	CHECK_FOR_INTERRUPTS();
	if (n <= SELECT_FEW)
	{
		if (nranks > SELECT_RANKS)
			select_sorted(keys, n, ranks, nranks, found);
		else
			select_few(keys, n, ranks, nranks, found);
		return;
	}
	low = find_range(keys, n, &width);
	shift = width == 0 ? 0 : shift_of(width, SELECT_BITS);
	memset(counts, 0, sizeof(counts));
	for (int64 i = 0; i < n; i++)
		counts[(keys[i] - low) >> shift]++;
	if (shift > 0 && count_ranges(counts, ranks, nranks) > SELECT_RANGES)
	{
		select_sorted(keys, n, ranks, nranks, found);
		return;
	}

	for (int i = 0; i < nranks;)
	{
		int64		m = 0;
		int			j;

		while (before + counts[bucket] <= ranks[i])
			before += counts[bucket++];
		for (j = i; j < nranks && ranks[j] < before + counts[bucket]; j++)
			ranks[j] -= before;
		if (shift == 0)
		{
			/* all are the same there */
			for (int k = i; k < j; k++)
				found[k] = low + bucket;
			i = j;
			continue;
		}
		/* those of the range to the front */
		for (int64 k = 0; m < counts[bucket]; k++)
		{
			uint64		key = keys[k];

			if ((key - low) >> shift == bucket)
			{
				keys[k] = keys[m];
				keys[m++] = key;
			}
		}
		order_select(keys, m, ranks + i, j - i, found + i);
		i = j;
	}
}

/* ---- modes ---- */

/* A value has occurred that many times: is it the most frequent one? */
static inline void
count_mode(uint64 key, int64 count, int64 *most, uint64 *first, uint64 *last)
{
	if (count < *most)
		return;
	if (count > *most)
		*first = key;
	*last = key;
	*most = count;
}

/* Of the values that most have, the least and the greatest. The values, of which there is one at least, are changed. */
void
order_modes(uint64 *keys, int64 n, uint64 *first, uint64 *last)
{
	uint64		width;
	uint64		low = find_range(keys, n, &width);
	int64		most = 0;

	*first = *last = low;
	if (width < (uint64) (n <= SORT_FEW ? n : Max(n / 4, COUNTED_RANGE)))
	{
		int64	   *counts = palloc_extended(sizeof(int64) * (width + 1), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);

		for (int64 i = 0; i < n; i++)
			counts[keys[i] - low]++;
		for (uint64 k = 0; k <= width; k++)
		{
			if (counts[k] > 0)
				count_mode(low + k, counts[k], &most, first, last);
		}
		pfree(counts);
		return;
	}
	order_sort(keys, n);
	for (int64 i = 0; i < n;)
	{
		int64		start = i;

		while (i < n && keys[i] == keys[start])
			i++;
		count_mode(keys[start], i - start, &most, first, last);
	}
}
