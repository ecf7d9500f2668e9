/*-------------------------------------------------------------------------
 *
 * kernels.h
 *	  Work on the arrays of columns: codes, integers and floats as they are
 *	  encoded, thousands of rows per call.
 *
 * A code is the number of a value in a dictionary, one byte wide, and below
 * the dictionary's size. What is added per code is added to the groups that
 * the codes mean afterwards, once per page.
 *
 * All sets of kernels give the same answers: integers are added modulo 2^64,
 * and floats in the order of rows. Kernels allocate nothing, raise no errors
 * and keep no state.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_COLUMN_INDEX_KERNELS_H
#define PGBILLION_COLUMN_INDEX_KERNELS_H

#include "postgres.h"

/* Number of values that a dictionary with codes of one byte can have. */
#define KERNEL_CODES 256

/* Words of a bitmap of rows: bit i % 64 of word i / 64 is row i. */
#define KERNEL_BITMAP_WORDS(rows) (((rows) + 63) / 64)

/* What sum(real) and avg(real) add up for one code. */
typedef struct KernelFloats
{
	float4		sum;			/* as sum(real): every addition is rounded to
								 * real */
	float8		wide_sum;		/* as avg(real): in double precision */
} KernelFloats;

typedef struct ColumnKernels
{
	const char *name;

	/*
	 * Add to counts[c] the number of rows with code c.  All codes are below
	 * ncodes, which is also the number of elements of counts.
	 */
	void		(*count_codes) (const uint8 *codes, int rows, int ncodes, uint64 *counts);

	/* The same of the rows whose bits are set; bits beyond rows are not. */
	void		(*count_codes_of) (const uint8 *codes, const uint64 *bitmap, int rows, int ncodes,
								   uint64 *counts);

	/*
	 * Add each row's value, given as its distance from the page's base, to
	 * the total of the row's code.
	 */
	void		(*sum_uint16) (const uint8 *codes, const uint16 *values, int rows, int ncodes, uint64 *totals);
	void		(*sum_uint32) (const uint8 *codes, const uint32 *values, int rows, int ncodes, uint64 *totals);

	/* The same of floats, in the order of rows. */
	void		(*sum_float4) (const uint8 *codes, const float4 *values, int rows, KernelFloats *totals);

	/*
	 * Set the bits of the rows whose value lies from low to high, both
	 * included; all other bits of the bitmap's words are cleared.  Returns
	 * the number of bits set.  The order of floats is C's: a NaN is in no
	 * range.
	 */
	int			(*select_uint16) (const uint16 *values, int rows, uint16 low, uint16 high, uint64 *bitmap);
	int			(*select_uint32) (const uint32 *values, int rows, uint32 low, uint32 high, uint64 *bitmap);
	int			(*select_float4) (const float4 *values, int rows, float4 low, float4 high, uint64 *bitmap);
} ColumnKernels;

extern const ColumnKernels *column_kernels(void);
extern const ColumnKernels *column_kernels_named(const char *name);

#endif							/* PGBILLION_COLUMN_INDEX_KERNELS_H */
