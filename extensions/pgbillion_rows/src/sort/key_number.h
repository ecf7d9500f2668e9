/*-------------------------------------------------------------------------
 *
 * key_number.h
 *	  Values of keys as numbers of the same order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SORT_KEY_NUMBER_H
#define PGBILLION_SORT_KEY_NUMBER_H

#include <math.h>

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "sort/sort_key.h"

/* ---- key_number.c ---- */

extern const char *key_bytes(const SortKey *key, Datum value, Size *n);
extern uint64 key_content_number(const SortKey *key, Datum value, Size skip, bool *whole);

/* ---- values that are numbers themselves ---- */

/* A number in the order of floats: -0 is 0, and NaN the largest. */
static inline uint64
number_of_float8(float8 value)
{
	union
	{
		float8		value;
		uint64		bits;
	}			both;

	if (unlikely(isnan(value)))
		return PG_UINT64_MAX;
	both.value = value == 0 ? 0 : value;
	return (both.bits >> 63) != 0 ? ~both.bits : both.bits | (UINT64CONST(1) << 63);
}

static inline uint64
number_of_float4(float4 value)
{
	union
	{
		float4		value;
		uint32		bits;
	}			both;

	if (unlikely(isnan(value)))
		return PG_UINT32_MAX;
	both.value = value == 0 ? 0 : value;
	return (both.bits >> 31) != 0 ? ~both.bits : both.bits | ((uint32) 1 << 31);
}

/* The number of a value of this kind and length that is one itself. */
static pg_attribute_always_inline uint64
number_of_kind(Datum value, KeyKind kind, int16 len)
{
	const uint64 sign = UINT64CONST(1) << 63;

	switch (kind)
	{
		case KEY_SIGNED:
			switch (len)
			{
				case sizeof(int16):
					return (uint64) (int64) DatumGetInt16(value) ^ sign;
				case sizeof(int32):
					return (uint64) (int64) DatumGetInt32(value) ^ sign;
				default:
					return (uint64) DatumGetInt64(value) ^ sign;
			}
		case KEY_UNSIGNED:
			switch (len)
			{
				case sizeof(uint8):
					return (uint8) DatumGetChar(value);
				case sizeof(uint32):
					return DatumGetUInt32(value);
				default:
					return DatumGetUInt64(value);
			}
		case KEY_FLOAT4:
			return number_of_float4(DatumGetFloat4(value));
		case KEY_FLOAT8:
			return number_of_float8(DatumGetFloat8(value));
		case KEY_BYTES:
		case KEY_NUMERIC:
		case KEY_OTHER:
			break;
	}
	pg_unreachable();
}

/* The number of a value that is one itself. */
static inline uint64
number_of(const SortKey *key, Datum value)
{
	return number_of_kind(value, key->kind, key->len);
}

/* The same of a row's value, which is not NULL. */
static pg_attribute_always_inline uint64
number_in_row(const RowFormat *format, const char *row, int column, KeyKind kind, int16 len)
{
	const char *place = row + format->columns[column].offset;

	/* its length is known here, and row_value() would look it up */
	if (len == sizeof(int32))
		return number_of_kind(Int32GetDatum(*(const int32 *) place), kind, len);
	if (len == sizeof(int64))
		return number_of_kind(*(const Datum *) place, kind, len);
	return number_of_kind(row_value(format, row, column), kind, len);
}

/* Is a value compressed or elsewhere? */
static inline bool
is_toasted(const SortKey *key, Datum value)
{
	return key->len < 0 && (VARATT_IS_1B_E(DatumGetPointer(value)) || VARATT_IS_4B_C(DatumGetPointer(value)));
}

#endif							/* PGBILLION_SORT_KEY_NUMBER_H */
