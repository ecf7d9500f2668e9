/*-------------------------------------------------------------------------
 *
 * decimal.h
 *	  The layout of a numeric, and the fast way to decode the common ones.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_DECIMAL_H
#define PGBILLION_VECTOR_DECIMAL_H

#include "utils/numeric.h"

#include "vector/batch.h"

/* Values beyond this are left to PostgreSQL: room for a few additions and rescales. */
#define DECIMAL_MAX INT64CONST(1000000000000000000)
#define DECIMAL_MAX_DIGITS 18

/* Sum of numerics: what PostgreSQL's NumericAggState holds, without squares. */
typedef struct DecimalSum
{
	int128		sum;			/* in units of 10^-scale */
	int64		count;			/* finite inputs */
	int64		nans;
	int64		pinfs;
	int64		ninfs;
	int32		scale;
	int32		max_scale;		/* largest display scale seen */
	Numeric		remainder;		/* further summand, divided by a power of ten;
								 * or NULL */
} DecimalSum;

extern bool decimal_decode(Datum numeric, int64 *value, int *scale);
extern int64 decimal_unit(int digits);
extern void decimal_sum_add_numeric(DecimalSum *sum, Datum numeric, MemoryContext context);
extern void decimal_sum_combine(DecimalSum *sum, const DecimalSum *other, MemoryContext context);
extern Datum decimal_serialize_sum(const DecimalSum *sum);
extern Datum decimal_serialize_int128(int64 count, int128 sum);
extern Datum decimal_serialize_int128_squares(int64 count, int128 sum, int128 squares);

extern void decimal_sum_add_rescaled(DecimalSum *sum, int64 value, int64 count, int scale, MemoryContext context);

/*
 * Add a value that decimal_decode() gave, or the sum of `count` such values;
 * memory of the sum is allocated in `context`.
 */
static inline void
decimal_sum_add(DecimalSum *sum, int64 value, int64 count, int scale, MemoryContext context)
{
	int128		total;

	if (likely(scale == sum->scale && !__builtin_add_overflow(sum->sum, (int128) value, &total)))
	{
		sum->count += count;
		sum->sum = total;
	}
	else
		decimal_sum_add_rescaled(sum, value, count, scale, context);
}

/* The layout of a numeric's first word; private to numeric.c. */
#define HEADER_KIND(h) ((h) & 0xC000)
#define HEADER_NEGATIVE 0x4000
#define HEADER_SHORT 0x8000
#define HEADER_SPECIAL 0xC000
#define HEADER_SIGN_AND_KIND(h) ((h) & 0xF000)
#define HEADER_NAN 0xC000
#define HEADER_PINF 0xD000
#define HEADER_NINF 0xF000
#define SHORT_NEGATIVE 0x2000
#define SHORT_SCALE(h) (((h) & 0x1F80) >> 7)
#define SHORT_WEIGHT(h) (((h) & 0x0040) ? (int) ((h) & 0x003F) - 64 : (int) ((h) & 0x003F))
#define LONG_SCALE(h) ((h) & 0x3FFF)
#define BASE 10000

/*
 * decimal_decode() of a value in a tuple. That is what makes it safe to load
 * the eight bytes that end where the value does, whether it has as many or
 * not: a tuple's header lies before it.
 */
static inline bool
decimal_decode_stored(Datum numeric, int64 *value, int *scale)
{
	const char *p = (const char *) DatumGetPointer(numeric);
	uint8		length = *(const uint8 *) p;
	int			bytes = length >> 1;
	int			ndigits = (bytes - 3) / 2;
	uint16		header;
	uint64		digits;
	uint64		result;
	int			shift;

	/* one byte of length, one word of header, and up to four digits */
	if (unlikely((length & 1) == 0 || bytes < 3 || bytes > 11))
		return decimal_decode(numeric, value, scale);
	memcpy(&header, p + 1, sizeof(header));
	*scale = SHORT_SCALE(header);
	shift = 4 * (SHORT_WEIGHT(header) - ndigits + 1) + *scale;
	if (unlikely(HEADER_KIND(header) != HEADER_SHORT || shift > 2 || shift < -3 || ndigits == 0))
		return decimal_decode(numeric, value, scale);
	memcpy(&digits, p + bytes - sizeof(digits), sizeof(digits));
	/* the last digit is in the highest bits; clear those that are none */
	digits = digits >> (64 - 16 * ndigits) << (64 - 16 * ndigits);
	result = (digits >> 48) + (digits >> 32 & 0xFFFF) * BASE +
		(digits >> 16 & 0xFFFF) * (BASE * BASE) +
		(digits & 0xFFFF) * ((uint64) BASE * BASE * BASE);

	/*
	 * below 10^16 times 100, or cut off within the last digit: what follows
	 * is zero
	 */
	switch (shift)
	{
		case 2:
			result *= 100;
			break;
		case 1:
			result *= 10;
			break;
		case 0:
			break;
		case -1:
			if (unlikely(result % 10 != 0))
				return false;
			result /= 10;
			break;
		case -2:
			if (unlikely(result % 100 != 0))
				return false;
			result /= 100;
			break;
		default:
			if (unlikely(result % 1000 != 0))
				return false;
			result /= 1000;
			break;
	}
	*value = (header & SHORT_NEGATIVE) != 0 ? -(int64) result : (int64) result;

	/* scale and digits within bounds: shift is small, and so is what is left */
	return *scale <= DECIMAL_MAX_DIGITS;
}

#endif							/* PGBILLION_VECTOR_DECIMAL_H */
