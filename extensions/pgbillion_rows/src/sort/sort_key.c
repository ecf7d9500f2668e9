/*-------------------------------------------------------------------------
 *
 * sort_key.c
 *	  Keys of rows: compared as PostgreSQL compares them, and as numbers.
 *
 * A key becomes a number by its values' range: an integer between 1 and 1000
 * takes ten bits, whatever its type, and several keys share 64 bits. Strings of
 * the collation C are compared by bytes, of which the first eight that are not
 * the same in all of them are a number, and of a numeric the magnitude and the
 * first digits are.
 * If a key has few different values, they are put in order by PostgreSQL's own
 * comparisons, once each, and the number is a value's place among them. That
 * holds for every collation.
 *
 * A key of which there is no number, or for which not enough bits are left, ends
 * the number; rows of equal numbers are compared from this key on.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/typcache.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "compat.h"
#include "sort/sort_key.h"
#include "vector/expression/decimal.h"

#define NUMBER_BITS 64

/*
 * Whether a key has few different values is first looked up in a sample, which
 * must have a quarter at most.
 */
#define SAMPLE_ROWS 1024
#define SAMPLE_VALUES (SAMPLE_ROWS / 4)
#define MAX_VALUES 16384

/* ---- which keys ---- */

/* Are strings of this collation compared by bytes? */
static bool
compares_bytes(Oid collation)
{
	if (!OidIsValid(collation))
		return false;
#if PG_VERSION_NUM >= 180000
	return pg_newlocale_from_collation(collation)->collate_is_c;
#else
	return lc_collate_is_c(collation);
#endif
}

static KeyKind
kind_of(Oid type, Oid collation)
{
	switch (type)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
			return KEY_SIGNED;
		case BOOLOID:
		case CHAROID:
		case OIDOID:
		case XID8OID:
		case PG_LSNOID:
			return KEY_UNSIGNED;
		case FLOAT4OID:
			return KEY_FLOAT4;
		case FLOAT8OID:
			return KEY_FLOAT8;
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
			return compares_bytes(collation) ? KEY_BYTES : KEY_OTHER;
		case BYTEAOID:
		case UUIDOID:
			return KEY_BYTES;
		case NUMERICOID:
			return KEY_NUMERIC;
		default:
			return KEY_OTHER;
	}
}

/*
 * Can values of a type be told apart by their bytes before they are compared?
 * Equal bytes must be equal values, and no comparison may raise an error.
 */
static bool
has_dictionary(Oid type)
{
	switch (type)
	{
		case TEXTOID:
		case VARCHAROID:
		case BPCHAROID:
		case NAMEOID:
		case NUMERICOID:
		case UUIDOID:
		case INTERVALOID:
		case TIMETZOID:
			return true;
		default:
			return false;
	}
}

/* Is it the order of a type's own, up or down? */
static bool
is_own_order(Oid type, Oid operator, bool *descending)
{
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_LT_OPR | TYPECACHE_GT_OPR);

	*descending = operator == cache->gt_opr;
	return operator == cache->lt_opr || operator == cache->gt_opr;
}

/* Has a key of this type, in the order of an operator family, numbers however many values it has? */
bool
sort_key_has_number(Oid type, Oid family, Oid collation)
{
	type = getBaseType(type);
	return lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf == family &&
		kind_of(type, collation) != KEY_OTHER;
}

/* Has it numbers if it has few different values, and how many are few? */
bool
sort_key_may_have_number(Oid type, Oid family, int *few)
{
	type = getBaseType(type);
	*few = MAX_VALUES / 2;
	return lookup_type_cache(type, TYPECACHE_BTREE_OPFAMILY)->btree_opf == family && has_dictionary(type);
}

/*
 * Keys of rows, in the current context. Raises PostgreSQL's error if strings
 * have no collation.
 */
SortKeys *
sort_keys_create(TupleDesc tupdesc, const RowFormat *format, int nkeys, const AttrNumber *columns,
				 const Oid *operators, const Oid *collations, const bool *nulls_first)
{
	SortKeys   *keys = palloc0(sizeof(SortKeys));

	keys->n = nkeys;
	keys->format = format;
	keys->keys = palloc0(sizeof(SortKey) * Max(nkeys, 1));
	keys->scratch = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sort keys", ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < nkeys; i++)
	{
		SortKey    *key = &keys->keys[i];
		Form_pg_attribute attribute = TupleDescAttr(tupdesc, columns[i] - 1);
		Oid			type = getBaseType(attribute->atttypid);

		key->column = columns[i] - 1;
		key->len = attribute->attlen;
		key->nulls_first = nulls_first[i];
		key->kind = KEY_OTHER;
		if (is_own_order(type, operators[i], &key->descending))
		{
			key->kind = kind_of(type, collations[i]);
			key->few = has_dictionary(type);
		}
		key->text = type != BYTEAOID && type != UUIDOID;
		key->padded = type == BPCHAROID;
		key->by_value = key->kind != KEY_BYTES && key->kind != KEY_NUMERIC && key->kind != KEY_OTHER;
		key->support.ssup_cxt = CurrentMemoryContext;
		key->support.ssup_collation = collations[i];
		key->support.ssup_nulls_first = nulls_first[i];
		key->support.ssup_attno = columns[i];
		PrepareSortSupportFromOrderingOp(operators[i], &key->support);
	}
	return keys;
}

/* ---- values as numbers ---- */

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

/* The first eight bytes as a number, those that there are not as zero. */
static inline uint64
number_of_bytes(const char *bytes, Size n)
{
	uint64		number = 0;

	memcpy(&number, bytes, Min(n, sizeof(number)));
	return pg_ntoh64(number);
}

/* The bytes by which a value is ordered. What is detoasted for it belongs to the current context. */
static const char *
bytes_of(const SortKey *key, Datum value, Size *n)
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

/* Is a value compressed or elsewhere? */
static inline bool
is_toasted(const SortKey *key, Datum value)
{
	return key->len < 0 && (VARATT_IS_1B_E(DatumGetPointer(value)) || VARATT_IS_4B_C(DatumGetPointer(value)));
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
		return bytes_of(key, value, n);
	*n = toast_raw_datum_size(value) - VARHDRSZ;
	slice = PG_DETOAST_DATUM_SLICE(value, 0, (int32) Min(most, *n));
	return VARDATA_ANY(slice);
}

/* The number of a value that is one itself. */
static inline uint64
number_of(const SortKey *key, Datum value)
{
	const uint64 sign = UINT64CONST(1) << 63;

	switch (key->kind)
	{
		case KEY_SIGNED:
			switch (key->len)
			{
				case sizeof(int16):
					return (uint64) (int64) DatumGetInt16(value) ^ sign;
				case sizeof(int32):
					return (uint64) (int64) DatumGetInt32(value) ^ sign;
				default:
					return (uint64) DatumGetInt64(value) ^ sign;
			}
		case KEY_UNSIGNED:
			switch (key->len)
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
static inline uint64
number_by_content(const SortKey *key, Datum value, Size skip, bool *whole)
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

/* ---- comparisons ---- */

/* Below 0: the left row comes first by the keys from `first` on. */
int
sort_keys_compare(const SortKeys *keys, const char *left, const char *right, int first)
{
	for (int i = first; i < keys->n; i++)
	{
		SortKey    *key = &keys->keys[i];
		bool		left_null = row_is_null(keys->format, left, key->column);
		bool		right_null = row_is_null(keys->format, right, key->column);
		int			result;

		if (left_null || right_null)
		{
			if (left_null && right_null)
				continue;
			return left_null == key->nulls_first ? -1 : 1;
		}
		if (key->by_value)
		{
			uint64		a = number_of(key, row_value(keys->format, left, key->column));
			uint64		b = number_of(key, row_value(keys->format, right, key->column));

			if (a == b)
				continue;
			return (a < b) != key->descending ? -1 : 1;
		}
		result = ApplySortComparator(row_value(keys->format, left, key->column), false,
									 row_value(keys->format, right, key->column), false, &key->support);
		if (result != 0)
			return result;
	}
	return 0;
}

/*
 * A number of a row in the order of the first key, as far as it goes: rows of
 * equal numbers have to be compared.
 */
uint64
sort_keys_first_number(const SortKeys *keys, const char *row)
{
	const SortKey *key = &keys->keys[0];
	uint64		number;

	if (keys->n == 0 || key->kind == KEY_OTHER)
		return 0;
	if (row_is_null(keys->format, row, key->column))
		return key->nulls_first ? 0 : PG_UINT64_MAX;
	if (!key->by_value)
	{
		MemoryContext old = MemoryContextSwitchTo(keys->scratch);
		bool		whole = true;

		number = number_by_content(key, row_value(keys->format, row, key->column), 0, &whole);
		MemoryContextSwitchTo(old);
		MemoryContextReset(keys->scratch);
	}
	else
		number = number_of(key, row_value(keys->format, row, key->column));
	/* between those of NULL */
	return ((key->descending ? ~number : number) >> 1) + 1;
}

/* ---- a key of few different values ---- */

/* Different values by their bytes, by which they are looked up. */
typedef struct ValueTable
{
	SortKey    *key;
	int			n;
	int			limit;
	uint32		mask;
	uint32	   *slots;			/* the number of a value and 1, or 0 */
	uint32	   *hashes;
	Datum	   *values;
	uint32	   *places;			/* in order; of equal values the same */
} ValueTable;

static ValueTable *
value_table_create(SortKey *key, int limit)
{
	ValueTable *table = palloc0(sizeof(ValueTable));
	uint32		size = pg_nextpower2_32(limit * 2);

	table->key = key;
	table->limit = limit;
	table->mask = size - 1;
	table->slots = palloc0(sizeof(uint32) * size);
	table->hashes = palloc(sizeof(uint32) * limit);
	table->values = palloc(sizeof(Datum) * limit);
	return table;
}

/* The size of a value, or 0 if it is compressed or elsewhere. */
static inline Size
image_size(const SortKey *key, Datum value)
{
	const char *pointer = DatumGetPointer(value);

	if (key->len > 0)
		return key->len;
	return is_toasted(key, value) ? 0 : VARSIZE_ANY(pointer);
}

/* The number of a value, which is added if it is new; -1 if there are too many, or if it is not there as a whole. */
static inline int
value_table_find(ValueTable *table, Datum value)
{
	Size		size = image_size(table->key, value);
	const unsigned char *image = (const unsigned char *) DatumGetPointer(value);
	uint32		hash;

	if (size == 0)
		return -1;
	hash = hash_bytes(image, (int) size);
	for (uint32 slot = hash & table->mask;; slot = (slot + 1) & table->mask)
	{
		uint32		number = table->slots[slot];

		if (number == 0)
		{
			if (table->n == table->limit)
				return -1;
			table->hashes[table->n] = hash;
			table->values[table->n] = value;
			table->slots[slot] = ++table->n;
			return table->n - 1;
		}
		number--;
		if (table->hashes[number] == hash && image_size(table->key, table->values[number]) == size &&
			memcmp(DatumGetPointer(table->values[number]), image, size) == 0)
			return number;
	}
}

static int
compare_values(const void *a, const void *b, void *arg)
{
	ValueTable *table = arg;

	return ApplySortComparator(table->values[*(const uint32 *) a], false, table->values[*(const uint32 *) b], false,
							   &table->key->support);
}

/* Find each value's place in the order, which the key's direction is part of. */
static void
value_table_order(ValueTable *table)
{
	uint32	   *order = palloc(sizeof(uint32) * Max(table->n, 1));
	uint32		place = 0;

	table->places = palloc(sizeof(uint32) * Max(table->n, 1));
	for (int i = 0; i < table->n; i++)
		order[i] = i;
	qsort_arg(order, table->n, sizeof(uint32), compare_values, table);
	for (int i = 0; i < table->n; i++)
	{
		if (i > 0 && compare_values(&order[i - 1], &order[i], table) != 0)
			place++;
		table->places[order[i]] = place;
	}
}

/* Has a key few different values, as far as a sample shows? */
static bool
has_few_values(SortKeys *keys, SortKey *key, const RowEntry *entries, int64 n)
{
	ValueTable *table = value_table_create(key, SAMPLE_VALUES);
	int64		step = Max(n / SAMPLE_ROWS, 1);

	for (int64 i = 0; i < n; i += step)
	{
		if (!row_is_null(keys->format, entries[i].row, key->column) &&
			value_table_find(table, row_value(keys->format, entries[i].row, key->column)) < 0)
			return false;
	}
	return true;
}

/* ---- numbers of rows ---- */

/* What is known of the numbers of one key. */
typedef struct NumberRange
{
	uint64		min;
	uint64		max;
	bool		nulls;			/* are there any? */
	bool		values;			/* are there others? */
	bool		whole;			/* are equal numbers equal values? */
	bool		descending;		/* does the largest number come first? */
	bool		kept;			/* are they in the entries? */
	Size		skip;			/* of strings: bytes that all begin with */
	uint32	   *places;			/* of the rows' values in order; or NULL: */
} NumberRange;

static inline void
add_to_range(NumberRange *range, uint64 number)
{
	range->min = Min(range->min, number);
	range->max = Max(range->max, number);
	range->values = true;
}

/* The numbers of a key by its values' places in order; false if it has too many. */
static bool
find_places(SortKeys *keys, SortKey *key, const RowEntry *entries, int64 n, NumberRange *range)
{
	ValueTable *table;

	if (!key->few || n < 2 || !has_few_values(keys, key, entries, n))
		return false;
	table = value_table_create(key, (int) Min(n, MAX_VALUES));
	range->places = MemoryContextAllocHuge(keys->scratch, sizeof(uint32) * n);
	for (int64 i = 0; i < n; i++)
	{
		int			number;

		if (row_is_null(keys->format, entries[i].row, key->column))
		{
			range->nulls = true;
			continue;
		}
		number = value_table_find(table, row_value(keys->format, entries[i].row, key->column));
		if (number < 0)
			return false;
		range->places[i] = number;
	}
	value_table_order(table);
	for (int64 i = 0; i < n; i++)
	{
		if (range->nulls && row_is_null(keys->format, entries[i].row, key->column))
			continue;
		range->places[i] = table->places[range->places[i]];
		add_to_range(range, range->places[i]);
	}
	range->whole = true;
	range->descending = false;
	return true;
}

/* How many bytes do all strings begin with? None is detoasted for it: then it is 0. */
static Size
common_bytes(SortKeys *keys, SortKey *key, const RowEntry *entries, int64 n)
{
	const char *first = NULL;
	Size		common = 0;

	for (int64 i = 0; i < n && (first == NULL || common > 0); i++)
	{
		const char *bytes;
		Size		length;
		Size		same = 0;

		if (row_is_null(keys->format, entries[i].row, key->column))
			continue;
		if (is_toasted(key, row_value(keys->format, entries[i].row, key->column)))
			return 0;
		bytes = bytes_of(key, row_value(keys->format, entries[i].row, key->column), &length);
		if (first == NULL)
		{
			first = bytes;
			common = length;
			continue;
		}
		while (same < Min(common, length) && bytes[same] == first[same])
			same++;
		common = same;
	}
	return common;
}

/* Free what a value has been detoasted to, which may be large; it may take long, too. */
static inline void
forget_detoasted(SortKeys *keys, const SortKey *key, Datum value)
{
	if (!is_toasted(key, value))
		return;
	CHECK_FOR_INTERRUPTS();
	MemoryContextReset(keys->scratch);
}

/*
 * The range of a key whose values are looked into. Its numbers are kept in the
 * entries if these have no others yet, so that each value is detoasted once.
 */
static void
find_range_of_contents(SortKeys *keys, SortKey *key, RowEntry *entries, int64 n, bool keep, NumberRange *range)
{
	range->whole = true;
	range->kept = keep;
	if (key->kind == KEY_BYTES)
		range->skip = common_bytes(keys, key, entries, n);
	for (int64 i = 0; i < n; i++)
	{
		Datum		value;
		uint64		number;

		if (row_is_null(keys->format, entries[i].row, key->column))
		{
			range->nulls = true;
			continue;
		}
		value = row_value(keys->format, entries[i].row, key->column);
		number = number_by_content(key, value, range->skip, &range->whole);
		add_to_range(range, number);
		if (keep)
			entries[i].number = number;
		forget_detoasted(keys, key, value);
	}
}

/* The range of a key whose values are numbers. */
static void
find_range_of_values(SortKeys *keys, SortKey *key, const RowEntry *entries, int64 n, NumberRange *range)
{
	range->whole = true;
	for (int64 i = 0; i < n; i++)
	{
		if (row_is_null(keys->format, entries[i].row, key->column))
			range->nulls = true;
		else
			add_to_range(range, number_of(key, row_value(keys->format, entries[i].row, key->column)));
	}
}

/* Find the range of a key's numbers; false if there are none. `keep`: they may be kept in the entries. */
static bool
find_range(SortKeys *keys, SortKey *key, RowEntry *entries, int64 n, bool keep, NumberRange *range)
{
	const NumberRange nothing = {.min = PG_UINT64_MAX,.descending = key->descending};

	MemoryContextReset(keys->scratch);
	*range = nothing;
	if (find_places(keys, key, entries, n, range))
		return true;
	MemoryContextReset(keys->scratch);
	*range = nothing;
	if (key->kind == KEY_OTHER)
		return false;
	if (key->by_value)
		find_range_of_values(keys, key, entries, n, range);
	else
		find_range_of_contents(keys, key, entries, n, keep, range);
	return true;
}

/* The number of a row's value, which is not NULL. */
static inline uint64
number_at(SortKeys *keys, const SortKey *key, const NumberRange *range, const RowEntry *entries, int64 i)
{
	Datum		value;
	uint64		number;
	bool		whole = true;

	if (range->places != NULL)
		return range->places[i];
	if (range->kept)
		return entries[i].number;
	value = row_value(keys->format, entries[i].row, key->column);
	if (key->by_value)
		return number_of(key, value);
	number = number_by_content(key, value, range->skip, &whole);
	forget_detoasted(keys, key, value);
	return number;
}

/*
 * Append the numbers of a key to those of entries, which have used some bits;
 * as many bits as are left, if they need more. Returns whether it has all.
 */
static bool
append_numbers(SortKeys *keys, const SortKey *key, const NumberRange *range, RowEntry *entries, int64 n, int *used)
{
	/* places of values are one behind that of NULL if that comes first */
	const uint128 most = range->values ? (uint128) (range->max - range->min) + range->nulls : 0;
	const int	needed = (most >> 64) != 0 ? NUMBER_BITS + 1 :
		(uint64) most == 0 ? 0 : pg_leftmost_one_pos64((uint64) most) + 1;
	const int	cut = Max(needed - (NUMBER_BITS - *used), 0);
	const int	width = needed - cut;
	const uint128 null_place = key->nulls_first ? 0 : most;
	const uint64 first_place = range->nulls && key->nulls_first;

	if (width == 0)
		return needed == 0;
	for (int64 i = 0; i < n; i++)
	{
		uint128		place;

		if (range->nulls && row_is_null(keys->format, entries[i].row, key->column))
			place = null_place;
		else
		{
			uint64		number = number_at(keys, key, range, entries, i);

			place = (uint128) (range->descending ? range->max - number : number - range->min) + first_place;
		}
		/* without bits so far, there may be a number that was kept */
		entries[i].number = (*used == 0 ? 0 : entries[i].number << width) | (uint64) (place >> cut);
	}
	*used += width;
	return cut == 0;
}

/*
 * Make the numbers of n entries. Returns the first key that they do not have as
 * a whole, and how many bits they have.
 */
int
sort_keys_number(SortKeys *keys, RowEntry *entries, int64 n, int *bits)
{
	MemoryContext old = MemoryContextSwitchTo(keys->scratch);
	int			i;

	*bits = 0;
	for (i = 0; i < keys->n && *bits < NUMBER_BITS; i++)
	{
		SortKey    *key = &keys->keys[i];
		NumberRange range;

		CHECK_FOR_INTERRUPTS();
		if (!find_range(keys, key, entries, n, *bits == 0, &range))
			break;
		if (!append_numbers(keys, key, &range, entries, n, bits) || !range.whole)
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(keys->scratch);
	return i;
}
