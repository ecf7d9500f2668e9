/*-------------------------------------------------------------------------
 *
 * key_number.c
 *	  Numbers of values that are looked into: strings and numerics.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"

#include "compat.h"
#include "sort/key_number.h"
#include "vector/expression/decimal.h"

/* The first eight bytes as a number, those that there are not as zero. */
static inline uint64
number_of_bytes(const char *bytes, Size n)
{
	uint64		number = 0;

	memcpy(&number, bytes, Min(n, sizeof(number)));
	return pg_ntoh64(number);
}

/* The bytes by which a value is ordered. What is detoasted for it belongs to the current context. */
const char *
key_bytes(const SortKey *key, Datum value, Size *n)
{
	const char *bytes;

	if (key->len == NAMEDATALEN && key->text)
	{
		bytes = NameStr(*DatumGetName(value));
		*n = strnlen(bytes, NAMEDATALEN);
	}
	else if (key->len > 0)
	{
		bytes = DatumGetPointer(value);
		*n = key->len;
	}
	else
	{
		struct varlena *string = PG_DETOAST_DATUM_PACKED(value);

		bytes = VARDATA_ANY(string);
		*n = VARSIZE_ANY_EXHDR(string);
		if (key->padded)
			*n = bpchartruelen(unconstify(char *, bytes), (int) *n);
	}
	return bytes;
}

/*
 * The same of the first bytes only, up to `most`; *n is the length of all. What
 * has been toasted is fetched as far as that, if it has no blanks at its end.
 */
static const char *
first_bytes_of(const SortKey *key, Datum value, Size most, Size *n)
{
	struct varlena *slice;

	if (!is_toasted(key, value) || key->padded)
		return key_bytes(key, value, n);
	*n = toast_raw_datum_size(value) - VARHDRSZ;
	slice = PG_DETOAST_DATUM_SLICE(value, 0, (int32) Min(most, *n));
	return VARDATA_ANY(slice);
}

/* Digits of a numeric, each below BASE, and powers of BASE that a number tells apart. */
#define NUMERIC_DIGITS 4
#define NUMERIC_DIGIT_BITS 14
#define LEAST_WEIGHT (-44)
#define MOST_WEIGHT 80

/*
 * A number in the order of numerics. NaN is the largest, and infinity the next.
 * `whole` becomes false if another value may have the same number.
 */
static uint64
number_of_numeric(Datum value, bool *whole)
{
	const uint64 zero = UINT64CONST(1) << 63;
	struct varlena *numeric = PG_DETOAST_DATUM_PACKED(value);
	const char *data = VARDATA_ANY(numeric);
	Size		bytes = VARSIZE_ANY_EXHDR(numeric);
	uint16		header;
	bool		negative;
	int16		weight;
	int			ndigits;
	uint64		magnitude;

	memcpy(&header, data, sizeof(header));
	data += sizeof(header);
	bytes -= sizeof(header);
	if (HEADER_KIND(header) == HEADER_SPECIAL)
		return HEADER_SIGN_AND_KIND(header) == HEADER_NAN ? PG_UINT64_MAX :
			HEADER_SIGN_AND_KIND(header) == HEADER_PINF ? PG_UINT64_MAX - 1 : 0;
	if (HEADER_KIND(header) == HEADER_SHORT)
	{
		negative = (header & SHORT_NEGATIVE) != 0;
		weight = SHORT_WEIGHT(header);
	}
	else
	{
		negative = HEADER_KIND(header) == HEADER_NEGATIVE;
		memcpy(&weight, data, sizeof(weight));
		data += sizeof(weight);
		bytes -= sizeof(weight);
	}
	ndigits = (int) (bytes / sizeof(uint16));
	if (ndigits == 0)
		return zero;
	if (weight < LEAST_WEIGHT || weight > MOST_WEIGHT)
	{
		*whole = false;
		magnitude = weight < LEAST_WEIGHT ? 0 :
			(uint64) (MOST_WEIGHT - LEAST_WEIGHT + 2) << (NUMERIC_DIGITS * NUMERIC_DIGIT_BITS);
	}
	else
	{
		*whole &= ndigits <= NUMERIC_DIGITS;
		magnitude = weight - LEAST_WEIGHT + 1;
		for (int i = 0; i < NUMERIC_DIGITS; i++)
		{
			uint16		digit = 0;

			if (i < ndigits)
				memcpy(&digit, data + i * sizeof(digit), sizeof(digit));
			magnitude = magnitude << NUMERIC_DIGIT_BITS | digit;
		}
	}
	return negative ? zero - magnitude : zero + magnitude;
}

/*
 * The number of a value that is looked into, of strings behind their first `skip`
 * bytes; `whole` becomes false if others may have the same.
 */
uint64
key_content_number(const SortKey *key, Datum value, Size skip, bool *whole)
{
	Size		length;
	const char *bytes;

	if (key->kind == KEY_NUMERIC)
		return number_of_numeric(value, whole);
	bytes = first_bytes_of(key, value, skip + sizeof(uint64), &length);
	Assert(length >= skip);
	*whole &= key->text && length - skip <= sizeof(uint64);
	return number_of_bytes(bytes + skip, length - skip);
}
