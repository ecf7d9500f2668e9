/*-------------------------------------------------------------------------
 *
 * row_numbers.c
 *	  Numbers of rows, made of their keys.
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

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "compat.h"
#include "sort/key_number.h"

#define NUMBER_BITS 64

/*
 * Whether a key has few different values is first looked up in a sample, which
 * must have a quarter at most.
 */
#define SAMPLE_ROWS 1024
#define SAMPLE_VALUES (SAMPLE_ROWS / 4)

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
has_few_values(SortKeys *keys, SortKey *key, const RowChunks *rows)
{
	ValueTable *table = value_table_create(key, SAMPLE_VALUES);
	int64		step = Max(rows->nrows / SAMPLE_ROWS, 1);
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
	{
		const char *row = row_cursor_next(&cursor);

		if (i % step == 0 && !row_is_null(keys->format, row, key->column) &&
			value_table_find(table, row_value(keys->format, row, key->column)) < 0)
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
	bool		kept;			/* are they among the rows' numbers? */
	Size		skip;			/* of strings: bytes that all begin with */
	uint32	   *places;			/* of the rows' values in order; or NULL: */
} NumberRange;

/* In place of a value's place, where that is NULL. */
#define NULL_PLACE PG_UINT32_MAX

static inline void
add_to_range(NumberRange *range, uint64 number)
{
	range->min = Min(range->min, number);
	range->max = Max(range->max, number);
	range->values = true;
}

/* The numbers of a key by its values' places in order; false if it has too many. */
static bool
find_places(SortKeys *keys, SortKey *key, const RowChunks *rows, NumberRange *range)
{
	const int64 n = rows->nrows;
	ValueTable *table;
	RowCursor	cursor;

	if (!key->few || n < 2 || !has_few_values(keys, key, rows))
		return false;
	table = value_table_create(key, (int) Min(n, FEW_VALUES));
	range->places = MemoryContextAllocHuge(keys->scratch, sizeof(uint32) * n);
	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < n; i++)
	{
		const char *row = row_cursor_next(&cursor);
		int			number;

		if (row_is_null(keys->format, row, key->column))
		{
			range->nulls = true;
			range->places[i] = NULL_PLACE;
			continue;
		}
		number = value_table_find(table, row_value(keys->format, row, key->column));
		if (number < 0)
			return false;
		range->places[i] = number;
	}
	value_table_order(table);
	for (int64 i = 0; i < n; i++)
	{
		if (range->places[i] == NULL_PLACE)
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
common_bytes(SortKeys *keys, SortKey *key, const RowChunks *rows)
{
	const char *first = NULL;
	Size		common = 0;
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows && (first == NULL || common > 0); i++)
	{
		const char *row = row_cursor_next(&cursor);
		const char *bytes;
		Size		length;
		Size		same = 0;

		if (row_is_null(keys->format, row, key->column))
			continue;
		if (is_toasted(key, row_value(keys->format, row, key->column)))
			return 0;
		bytes = key_bytes(key, row_value(keys->format, row, key->column), &length);
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
 * The range of a key whose values are looked into. Its numbers are kept if rows
 * have no others yet, so that each value is detoasted once.
 */
static void
find_range_of_contents(SortKeys *keys, SortKey *key, const RowChunks *rows, uint64 *keep, NumberRange *range)
{
	RowCursor	cursor;

	range->whole = true;
	range->kept = keep != NULL;
	if (key->kind == KEY_BYTES)
		range->skip = common_bytes(keys, key, rows);
	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
	{
		const char *row = row_cursor_next(&cursor);
		Datum		value;
		uint64		number;

		if (row_is_null(keys->format, row, key->column))
		{
			range->nulls = true;
			continue;
		}
		value = row_value(keys->format, row, key->column);
		number = key_content_number(key, value, range->skip, &range->whole);
		add_to_range(range, number);
		if (keep != NULL)
			keep[i] = number;
		forget_detoasted(keys, key, value);
	}
}

/* The range of a key whose values are numbers, of this kind and length. */
static pg_attribute_always_inline void
find_range_of_kind(SortKeys *keys, SortKey *key, const RowChunks *rows, KeyKind kind, int16 len, NumberRange *range)
{
	uint64		min = range->min;
	uint64		max = range->max;
	int64		nulls = 0;
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
	{
		const char *row = row_cursor_next(&cursor);
		uint64		number;

		if (unlikely(row_is_null(keys->format, row, key->column)))
		{
			nulls++;
			continue;
		}
		number = number_in_row(keys->format, row, key->column, kind, len);
		min = Min(min, number);
		max = Max(max, number);
	}
	range->min = min;
	range->max = max;
	range->nulls = nulls > 0;
	range->values = nulls < rows->nrows;
}

/* The range of a key whose values are numbers. */
static void
find_range_of_values(SortKeys *keys, SortKey *key, const RowChunks *rows, NumberRange *range)
{
	range->whole = true;
	/* the usual ones without a look at the kind of each value */
	if (key->kind == KEY_SIGNED && key->len == sizeof(int32))
		find_range_of_kind(keys, key, rows, KEY_SIGNED, sizeof(int32), range);
	else if (key->kind == KEY_SIGNED && key->len == sizeof(int64))
		find_range_of_kind(keys, key, rows, KEY_SIGNED, sizeof(int64), range);
	else
		find_range_of_kind(keys, key, rows, key->kind, key->len, range);
}

/* Find the range of a key's numbers; false if there are none. `keep`: where they may be kept, or NULL. */
static bool
find_range(SortKeys *keys, SortKey *key, const RowChunks *rows, uint64 *keep, NumberRange *range)
{
	const NumberRange nothing = {.min = PG_UINT64_MAX,.descending = key->descending};

	MemoryContextReset(keys->scratch);
	*range = nothing;
	if (find_places(keys, key, rows, range))
		return true;
	MemoryContextReset(keys->scratch);
	*range = nothing;
	if (key->kind == KEY_OTHER)
		return false;
	if (key->by_value)
		find_range_of_values(keys, key, rows, range);
	else
		find_range_of_contents(keys, key, rows, keep, range);
	return true;
}

/* How the numbers of a key are appended to those of rows. */
typedef struct Appending
{
	const NumberRange *range;
	int			width;			/* bits that are appended, */
	int			cut;			/* and those that are left out */
	bool		first;			/* there are no bits before them */
	bool		wide;			/* places need 65 bits */
	uint64		null_number;	/* appended for NULL */
	uint64		first_place;	/* of values: behind NULL's */
} Appending;

/* Append the number of a value that is not NULL. */
static inline uint64
append_number(const Appending *appending, uint64 before, uint64 number)
{
	const NumberRange *range = appending->range;
	uint64		place = range->descending ? range->max - number : number - range->min;

	place = unlikely(appending->wide) ? (uint64) (((uint128) place + appending->first_place) >> appending->cut) :
		(place + appending->first_place) >> appending->cut;
	/* without bits so far, there may be a number that was kept */
	return appending->first ? place : before << appending->width | place;
}

static inline uint64
append_null(const Appending *appending, uint64 before)
{
	return appending->first ? appending->null_number : before << appending->width | appending->null_number;
}

/* Append numbers of values of this kind and length. */
static pg_attribute_always_inline void
append_numbers_of_kind(SortKeys *keys, const SortKey *key, const Appending *appending, const RowChunks *rows,
					   KeyKind kind, int16 len, uint64 *numbers)
{
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
	{
		const char *row = row_cursor_next(&cursor);

		numbers[i] = unlikely(row_is_null(keys->format, row, key->column)) ? append_null(appending, numbers[i]) :
			append_number(appending, numbers[i], number_in_row(keys->format, row, key->column, kind, len));
	}
}

/* Append numbers of values that are looked into, as they were kept or once more. */
static void
append_numbers_of_contents(SortKeys *keys, const SortKey *key, const Appending *appending, const RowChunks *rows,
						   uint64 *numbers)
{
	const NumberRange *range = appending->range;
	RowCursor	cursor;

	row_cursor_begin(&cursor, rows);
	for (int64 i = 0; i < rows->nrows; i++)
	{
		const char *row = row_cursor_next(&cursor);
		uint64		number = numbers[i];

		if (row_is_null(keys->format, row, key->column))
		{
			numbers[i] = append_null(appending, numbers[i]);
			continue;
		}
		if (!range->kept)
		{
			Datum		value = row_value(keys->format, row, key->column);
			bool		whole = true;

			number = key_content_number(key, value, range->skip, &whole);
			forget_detoasted(keys, key, value);
		}
		numbers[i] = append_number(appending, numbers[i], number);
	}
}

/* Append the places of values. */
static void
append_places(const Appending *appending, int64 n, uint64 *numbers)
{
	const uint32 *places = appending->range->places;

	for (int64 i = 0; i < n; i++)
		numbers[i] = places[i] == NULL_PLACE ? append_null(appending, numbers[i]) :
			append_number(appending, numbers[i], places[i]);
}

/*
 * Append the numbers of a key to those of rows, which have used some bits; as
 * many bits as are left, if they need more. Returns whether it has all.
 */
static bool
append_numbers(SortKeys *keys, const SortKey *key, const NumberRange *range, const RowChunks *rows, uint64 *numbers,
			   int *used)
{
	/* places of values are one behind that of NULL if that comes first */
	const uint128 most = range->values ? (uint128) (range->max - range->min) + range->nulls : 0;
	const int	needed = (most >> 64) != 0 ? NUMBER_BITS + 1 :
		(uint64) most == 0 ? 0 : pg_leftmost_one_pos64((uint64) most) + 1;
	const int	cut = Max(needed - (NUMBER_BITS - *used), 0);
	const Appending appending = {
		.range = range,
		.width = needed - cut,
		.cut = cut,
		.first = *used == 0,
		.wide = needed > NUMBER_BITS,
		.null_number = key->nulls_first ? 0 : (uint64) (most >> cut),
		.first_place = range->nulls && key->nulls_first,
	};

	if (appending.width == 0)
		return needed == 0;
	if (range->places != NULL)
		append_places(&appending, rows->nrows, numbers);
	else if (!key->by_value)
		append_numbers_of_contents(keys, key, &appending, rows, numbers);
	else if (key->kind == KEY_SIGNED && key->len == sizeof(int32))
		append_numbers_of_kind(keys, key, &appending, rows, KEY_SIGNED, sizeof(int32), numbers);
	else if (key->kind == KEY_SIGNED && key->len == sizeof(int64))
		append_numbers_of_kind(keys, key, &appending, rows, KEY_SIGNED, sizeof(int64), numbers);
	else
		append_numbers_of_kind(keys, key, &appending, rows, key->kind, key->len, numbers);
	*used += appending.width;
	return cut == 0;
}

/*
 * Make the numbers of rows. Returns the first key that they do not have as a
 * whole, and how many bits they have: if none, no numbers are made.
 */
int
sort_keys_number(SortKeys *keys, const RowChunks *rows, uint64 *numbers, int *bits)
{
	MemoryContext old = MemoryContextSwitchTo(keys->scratch);
	int			i;

	*bits = 0;
	for (i = 0; i < keys->n && *bits < NUMBER_BITS; i++)
	{
		SortKey    *key = &keys->keys[i];
		NumberRange range;

		CHECK_FOR_INTERRUPTS();
		if (!find_range(keys, key, rows, *bits == 0 ? numbers : NULL, &range))
			break;
		if (!append_numbers(keys, key, &range, rows, numbers, bits) || !range.whole)
			break;
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(keys->scratch);
	return i;
}

/* ---- parts ---- */

/*
 * Can rows be split by the first key, into no more than `most` parts (a power of
 * two) and one of NULLs? Only where its values are numbers.
 */
bool
sort_keys_choose_parts(SortKeys *keys, const RowChunks *rows, int most, KeyParts *parts)
{
	NumberRange range = {.min = PG_UINT64_MAX};
	SortKey    *key = &keys->keys[0];
	int			bits;
	int			nvalues;

	if (keys->n == 0 || !key->by_value)
		return false;
	find_range_of_values(keys, key, rows, &range);
	if (!range.values || range.min == range.max)
		return false;
	bits = pg_leftmost_one_pos64(range.max - range.min) + 1;
	parts->shift = Max(bits - pg_leftmost_one_pos32(most), 0);
	parts->min = range.min;
	parts->max = range.max;
	nvalues = (int) ((range.max - range.min) >> parts->shift) + 1;
	parts->first = range.nulls && key->nulls_first;
	parts->nulls = key->nulls_first ? 0 : nvalues;
	parts->n = nvalues + range.nulls;
	return true;
}

/* The parts of values of this kind and length. */
static pg_attribute_always_inline void
find_parts_of_kind(SortKeys *keys, const KeyParts *parts, const char *row, int n, KeyKind kind, int16 len, uint16 *result)
{
	const SortKey *key = &keys->keys[0];

	for (int i = 0; i < n; i++, row += keys->format->size)
	{
		uint64		number;

		if (unlikely(row_is_null(keys->format, row, key->column)))
		{
			result[i] = parts->nulls;
			continue;
		}
		number = number_in_row(keys->format, row, key->column, kind, len);
		number = key->descending ? parts->max - number : number - parts->min;
		result[i] = (number >> parts->shift) + parts->first;
	}
}

/* The parts of n rows of one size that lie one behind the other. */
void
sort_keys_find_parts(SortKeys *keys, const KeyParts *parts, const char *row, int n, uint16 *result)
{
	const SortKey *key = &keys->keys[0];

	if (key->kind == KEY_SIGNED && key->len == sizeof(int32))
		find_parts_of_kind(keys, parts, row, n, KEY_SIGNED, sizeof(int32), result);
	else if (key->kind == KEY_SIGNED && key->len == sizeof(int64))
		find_parts_of_kind(keys, parts, row, n, KEY_SIGNED, sizeof(int64), result);
	else
		find_parts_of_kind(keys, parts, row, n, key->kind, key->len, result);
}
