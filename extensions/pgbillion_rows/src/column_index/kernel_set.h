/*-------------------------------------------------------------------------
 *
 * kernel_set.h
 *	  One set of kernels: included once per set of instructions.
 *
 *	SET			name of the set, which is the prefix of its functions
 *	SET_TARGET	attribute with the instructions it may use
 *	SET_BYTES	width of its registers
 *
 * All are undefined at the end.  The code is written with the compiler's
 * vectors, which are of the registers' width: wider ones are taken apart
 * byte by byte where the target has no such registers.
 *
 * Where a dictionary's values are few, each is compared with a register of
 * rows at a time, and matches are counted in bytes.  Otherwise rows are
 * counted one by one in several histograms in turn: one alone would wait for
 * its own last addition wherever neighbors have the same code.
 *
 *-------------------------------------------------------------------------
 */
#define NAME(name) JOIN(PREFIX(SET), name)
#define BODY SET_TARGET static inline
#define BYTES NAME(bytes)

#ifndef PGBILLION_COLUMN_INDEX_KERNEL_SET_H
#define PGBILLION_COLUMN_INDEX_KERNEL_SET_H

#define JOIN(prefix, name) CppConcat(prefix, name)
#define PREFIX(set) CppConcat(set, _)

/* Up to this number of codes, comparing is faster than a histogram. */
#define FEW_CODES 16

/* Codes compared in one pass over the rows. */
#define CODES_PER_PASS 4

/* Histograms used in turn. */
#define HISTOGRAMS 4

#endif

typedef uint8 BYTES __attribute__((vector_size(SET_BYTES), aligned(1), may_alias));

typedef uint16 NAME(words) __attribute__((vector_size(SET_BYTES), may_alias));
typedef uint32 NAME(longs) __attribute__((vector_size(SET_BYTES), may_alias));
typedef uint64 NAME(quads) __attribute__((vector_size(SET_BYTES), may_alias));

/* The sum of a register's bytes: neighbors are added in place, ever wider ones. */
BODY uint64
NAME(sum_of_bytes) (BYTES bytes)
{
	NAME(words) words = (NAME(words)) bytes;
	NAME(longs) longs;
	NAME(quads) quads;
	uint64		sum = 0;

	words = (words & 0xff) + (words >> 8);
	longs = (NAME(longs)) words;
	longs = (longs & 0xffff) + (longs >> 16);
	quads = (NAME(quads)) longs;
	quads = (quads & 0xffffffff) + (quads >> 32);
	for (int i = 0; i < SET_BYTES / (int) sizeof(uint64); i++)
		sum += quads[i];
	return sum;
}

/* Add the rows of some codes, the first and those after it, to their counts. */
BODY void
NAME(count_pass) (const uint8 *codes, int steps, int first, uint64 *counts)
{
	/* a byte of the matches counts at most one row per step */
	for (int done = 0; done < steps;)
	{
		int			end = Min(steps, done + UINT8_MAX);
		BYTES		matches[CODES_PER_PASS] = {{0}, {0}, {0}, {0}};

		for (; done < end; done++)
		{
			BYTES		row = *(const BYTES *) (codes + done * SET_BYTES);

			/* true is -1 */
			matches[0] -= (BYTES) (row == (uint8) first);
			matches[1] -= (BYTES) (row == (uint8) (first + 1));
			matches[2] -= (BYTES) (row == (uint8) (first + 2));
			matches[3] -= (BYTES) (row == (uint8) (first + 3));
		}
		for (int i = 0; i < CODES_PER_PASS; i++)
			counts[first + i] += NAME(sum_of_bytes) (matches[i]);
	}
}

BODY void
NAME(count_few) (const uint8 *codes, int rows, int ncodes, uint64 *counts)
{
	uint64		found[FEW_CODES + CODES_PER_PASS] = {0};
	int			steps = rows / SET_BYTES;

	for (int code = 0; code < ncodes; code += CODES_PER_PASS)
		NAME(count_pass) (codes, steps, code, found);
	for (int code = 0; code < ncodes; code++)
		counts[code] += found[code];
	for (int i = steps * SET_BYTES; i < rows; i++)
		counts[codes[i]]++;
}

BODY void
NAME(count_many) (const uint8 *codes, int rows, int ncodes, uint64 *counts)
{
	uint32		histograms[HISTOGRAMS][KERNEL_CODES];
	int			i = 0;

	for (int h = 0; h < HISTOGRAMS; h++)
		memset(histograms[h], 0, ncodes * sizeof(uint32));
	for (; i + (int) sizeof(uint64) <= rows; i += sizeof(uint64))
	{
		uint64		eight;

		memcpy(&eight, codes + i, sizeof(eight));
		histograms[0][eight & 0xff]++;
		histograms[1][eight >> 8 & 0xff]++;
		histograms[2][eight >> 16 & 0xff]++;
		histograms[3][eight >> 24 & 0xff]++;
		histograms[0][eight >> 32 & 0xff]++;
		histograms[1][eight >> 40 & 0xff]++;
		histograms[2][eight >> 48 & 0xff]++;
		histograms[3][eight >> 56]++;
	}
	for (; i < rows; i++)
		counts[codes[i]]++;
	for (int code = 0; code < ncodes; code++)
		for (int h = 0; h < HISTOGRAMS; h++)
			counts[code] += histograms[h][code];
}

SET_TARGET static void
NAME(count_codes) (const uint8 *codes, int rows, int ncodes, uint64 *counts)
{
	Assert(rows >= 0 && ncodes >= 1 && ncodes <= KERNEL_CODES);
	if (ncodes <= FEW_CODES)
		NAME(count_few) (codes, rows, ncodes, counts);
	else
		NAME(count_many) (codes, rows, ncodes, counts);
}

SET_TARGET static void
NAME(count_codes_of) (const uint8 *codes, const uint64 *bitmap, int rows, int ncodes, uint64 *counts)
{
	/* two histograms in turn, as neighbors often have the same code */
	uint64		more[KERNEL_CODES];

	Assert(ncodes >= 1 && ncodes <= KERNEL_CODES);
	memset(more, 0, ncodes * sizeof(uint64));
	for (int word = 0; word < KERNEL_BITMAP_WORDS(rows); word++)
	{
		const uint8 *at = codes + word * 64;

		for (uint64 left = bitmap[word]; left != 0; left &= left - 1)
		{
			counts[at[__builtin_ctzll(left)]]++;
			left &= left - 1;
			if (left == 0)
				break;
			more[at[__builtin_ctzll(left)]]++;
		}
	}
	for (int code = 0; code < ncodes; code++)
		counts[code] += more[code];
}

/* Unsigned, so that a total may wrap on its way: the end is right if it fits. */
#define SUM_KERNEL(name, type) \
SET_TARGET static void \
NAME(name) (const uint8 *codes, const type *values, int rows, int ncodes, uint64 *totals) \
{ \
	uint64		sums[HISTOGRAMS][KERNEL_CODES]; \
	int			i = 0; \
\
	Assert(ncodes >= 1 && ncodes <= KERNEL_CODES); \
	for (int h = 0; h < HISTOGRAMS; h++) \
		memset(sums[h], 0, ncodes * sizeof(uint64)); \
	for (; i + HISTOGRAMS <= rows; i += HISTOGRAMS) \
	{ \
		sums[0][codes[i]] += values[i]; \
		sums[1][codes[i + 1]] += values[i + 1]; \
		sums[2][codes[i + 2]] += values[i + 2]; \
		sums[3][codes[i + 3]] += values[i + 3]; \
	} \
	for (; i < rows; i++) \
		totals[codes[i]] += values[i]; \
	for (int code = 0; code < ncodes; code++) \
		for (int h = 0; h < HISTOGRAMS; h++) \
			totals[code] += sums[h][code]; \
}

SUM_KERNEL(sum_uint16, uint16)
SUM_KERNEL(sum_uint32, uint32)
#undef SUM_KERNEL

SET_TARGET static void
NAME(sum_float4) (const uint8 *codes, const float4 *values, int rows, KernelFloats *totals)
{
	for (int i = 0; i < rows; i++)
	{
		KernelFloats *total = &totals[codes[i]];

		total->sum += values[i];
		total->wide_sum += values[i];
	}
}

/* One bit for each of 64 bytes that are 0 or -1. */
BODY uint64
NAME(bits_of_bytes) (const int8 *bytes)
{
	uint64		bits = 0;

	for (int i = 0; i < 8; i++)
	{
		uint64		eight;

		memcpy(&eight, bytes + i * 8, sizeof(eight));
		/* the factor takes bit 0 of byte i to bit 56 + i */
		eight &= UINT64CONST(0x0101010101010101);
		bits |= (eight * UINT64CONST(0x0102040810204080)) >> 56 << i * 8;
	}
	return bits;
}

#define SELECT_KERNEL(name, type, mask_type) \
typedef type NAME(name##_vector) __attribute__((vector_size(SET_BYTES), aligned(1), may_alias)); \
typedef mask_type NAME(name##_mask) __attribute__((vector_size(SET_BYTES))); \
typedef int8 NAME(name##_bytes) __attribute__((vector_size(SET_BYTES / sizeof(type)), aligned(1), may_alias)); \
\
SET_TARGET static int \
NAME(name) (const type *values, int rows, type low, type high, uint64 *bitmap) \
{ \
	const int	lanes = SET_BYTES / sizeof(type); \
	int			selected = 0; \
	int			word = 0; \
\
	for (; word < rows / 64; word++) \
	{ \
		int8		bytes[64]; \
\
		for (int i = 0; i < 64; i += lanes) \
		{ \
			NAME(name##_vector) v = *(const NAME(name##_vector) *) (values + word * 64 + i); \
			NAME(name##_mask) inside = (NAME(name##_mask)) ((v >= low) & (v <= high)); \
\
			*(NAME(name##_bytes) *) (bytes + i) = __builtin_convertvector(inside, NAME(name##_bytes)); \
		} \
		bitmap[word] = NAME(bits_of_bytes) (bytes); \
		selected += __builtin_popcountll(bitmap[word]); \
	} \
	if (rows % 64 != 0) \
	{ \
		bitmap[word] = 0; \
		for (int i = word * 64; i < rows; i++) \
			bitmap[word] |= (uint64) (values[i] >= low && values[i] <= high) << i % 64; \
		selected += __builtin_popcountll(bitmap[word]); \
	} \
	return selected; \
}

SELECT_KERNEL(select_uint16, uint16, int16)
SELECT_KERNEL(select_uint32, uint32, int32)
SELECT_KERNEL(select_float4, float4, int32)
#undef SELECT_KERNEL

static const ColumnKernels
NAME(kernels) =
{
	CppAsString2(SET),
		NAME(count_codes),
		NAME(count_codes_of),
		NAME(sum_uint16),
		NAME(sum_uint32),
		NAME(sum_float4),
		NAME(select_uint16),
		NAME(select_uint32),
		NAME(select_float4)
};

#undef NAME
#undef BODY
#undef BYTES
#undef SET
#undef SET_TARGET
#undef SET_BYTES
