/*-------------------------------------------------------------------------
 *
 * select_packed.c
 *	  Which rows of an array of numbers are within a range, and which are not NULL.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"

#include "column_index/kernels.h"
#include "vector/filter/predicate.h"

/* List the rows whose bits are set; return how many. Bits beyond n are not. */
int
filter_list_bitmap(const uint64 *bitmap, int n, uint16 *selected)
{
	int			k = 0;

	for (int word = 0; word < KERNEL_BITMAP_WORDS(n); word++)
	{
		uint64		left = bitmap[word];
		int			first = word * 64;

		if (left == ~UINT64CONST(0))
		{
			for (int i = 0; i < 64; i++)
				selected[k + i] = first + i;
			k += 64;
			continue;
		}
		for (; left != 0; left &= left - 1)
			selected[k++] = first + pg_rightmost_one_pos64(left);
	}
	return k;
}

/*
 * List those of the rows whose integers, or decimals, lie from `from` to `to`,
 * both included; return how many. The list may take the place of that of the
 * rows.
 */
int
filter_select_packed_integers(const Packed *packed, int64 from, int64 to, const uint16 *rows, int n,
							  uint16 *selected)
{
	uint64		low;
	uint64		high;
	int			k = 0;

	from = Max(from, packed->min);
	to = Min(to, packed->max);
	if (from > to)
		return 0;
	/* within what the array can hold, so that nothing wraps */
	low = (uint64) from - (uint64) packed->base;
	high = (uint64) to - (uint64) packed->base;
	if (rows == NULL && (packed->width == sizeof(uint16) || packed->width == sizeof(uint32)))
	{
		uint64		bitmap[KERNEL_BITMAP_WORDS(BATCH_ROWS)];

		if (packed->width == sizeof(uint16))
		{
			Assert(high <= PG_UINT16_MAX);
			(void) column_kernels()->select_uint16(packed->array, n, low, high, bitmap);
		}
		else
		{
			Assert(high <= PG_UINT32_MAX);
			(void) column_kernels()->select_uint32(packed->array, n, low, high, bitmap);
		}
		return filter_list_bitmap(bitmap, n, selected);
	}

#define SELECT_FROM(type) \
	for (int i = 0; i < n; i++) \
	{ \
		int			row = rows != NULL ? rows[i] : i; \
		uint64		v = ((const type *) packed->array)[row]; \
		selected[k] = row; \
		k += v - low <= high - low; \
	}

	switch (packed->width)
	{
		case 1:
			SELECT_FROM(uint8);
			break;
		case 2:
			SELECT_FROM(uint16);
			break;
		case 4:
			SELECT_FROM(uint32);
			break;
		default:
			SELECT_FROM(uint64);
			break;
	}

	return k;
}

/* Leave out the listed rows with NULL, whose elements are of no use; return how many are left. */
int
filter_leave_out_nulls(const bool *nulls, uint16 *rows, int n)
{
	int			k = 0;

	for (int i = 0; i < n; i++)
	{
		rows[k] = rows[i];
		k += !nulls[rows[i]];
	}
	return k;
}
