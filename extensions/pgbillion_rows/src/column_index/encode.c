/*-------------------------------------------------------------------------
 *
 * encode.c
 *	  Columns of gathered rows as a segment's bytes.
 *
 * Each column takes the first of these forms that it fits: nothing but NULL,
 * a constant, integers above a base of one byte (numerics of one scale are
 * integers, too), a dictionary of few entries, integers above a base of more
 * bytes, floats as they are, and values one after the other.  Values by
 * reference, in a dictionary or one after the other, are encoded by tokens
 * where that is much smaller.  Values that are nearly all different have a table
 * of hashes beside them.
 *
 * Two values are the same here only if their bytes are, which is what makes
 * -0 and 0, or 1.0 and 1.00, come back as they were.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "column_index/store.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Entries of dictionaries: as many as codes of one or two bytes can name. */
#define FEW_ENTRIES 256
#define MOST_ENTRIES 65536

/* A dictionary that has found no repetition after this number of rows is given up. */
#define TRIAL_ROWS 4096

/* What a form may take at most that is more work to read than one of this size. */
#define ENOUGH(bytes) ((bytes) / 4 * 3)

/* Fewer bytes of values are not worth a table of tokens. */
#define TOKENS_LEAST_BYTES 4096

/* Bytes of a value, wherever they are. */
typedef struct Image
{
	const char *bytes;
	uint32		length;
} Image;

typedef struct Dictionary
{
	int			size;
	int			limit;
	uint32		mask;
	uint32	   *slots;			/* 1 + number of an entry, or 0 */
	int		   *first_row;		/* of each entry */
	uint16	   *codes;			/* of each row; 0 for NULL */
} Dictionary;

/* ---- bytes ---- */

static void
pad(StringInfo bytes)
{
	static const char zeros[8] = {0};
	int			over = bytes->len % 8;

	if (over != 0)
		appendBinaryStringInfo(bytes, zeros, 8 - over);
}

/* Begin a section: sections begin at multiples of eight. */
static uint32
begin_section(StringInfo bytes)
{
	pad(bytes);
	return bytes->len;
}

/* The value of a type that is passed by value, as an integer. */
static int64
integer_of(const ColumnType *type, Datum value)
{
	switch (type->len)
	{
		case 1:
			return (int8) DatumGetChar(value);
		case 2:
			return DatumGetInt16(value);
		case 4:
			return DatumGetInt32(value);
		default:
			Assert(type->len == 8);
			return (int64) value;
	}
}

/* The bytes by which a value is compared, not counting a header of its length. */
static Image
image_of(const ColumnType *type, const Datum *value)
{
	Image		image;

	if (type->byval)
	{
		image.bytes = (const char *) value;
		image.length = sizeof(Datum);
	}
	else if (type->len > 0)
	{
		image.bytes = DatumGetPointer(*value);
		image.length = type->len;
	}
	else
	{
		image.bytes = VARDATA_ANY(DatumGetPointer(*value));
		image.length = VARSIZE_ANY_EXHDR(DatumGetPointer(*value));
	}
	return image;
}

/* ---- NULLs ---- */

/* Returns the number of rows that are not NULL. */
static int
encode_nulls(const ColumnValues *column, int nrows, StoredColumn *stored, StringInfo bytes)
{
	int			nulls = 0;
	uint8	   *bitmap;

	for (int i = 0; i < nrows; i++)
		nulls += column->nulls[i];
	if (nulls > 0)
		stored->flags |= STORED_NULLS;
	if (nulls > 0 && nulls < nrows)
	{
		bitmap = palloc0((nrows + 7) / 8);
		for (int i = 0; i < nrows; i++)
		{
			if (column->nulls[i])
				bitmap_set(bitmap, i);
		}
		stored->nulls = begin_section(bytes);
		appendBinaryStringInfo(bytes, (char *) bitmap, (nrows + 7) / 8);
		pfree(bitmap);
	}
	return nrows - nulls;
}

/* ---- integers above a base ---- */

/* The least and the greatest of the rows that are not NULL; there are such rows. */
static void
find_range(const int64 *integers, const bool *nulls, int nrows, int64 *min, int64 *max)
{
	*min = PG_INT64_MAX;
	*max = PG_INT64_MIN;
	for (int i = 0; i < nrows; i++)
	{
		if (nulls[i])
			continue;
		*min = Min(*min, integers[i]);
		*max = Max(*max, integers[i]);
	}
}

static int
width_of_range(int64 min, int64 max)
{
	uint64		range = (uint64) max - (uint64) min;

	return range <= PG_UINT8_MAX ? 1 : range <= PG_UINT16_MAX ? 2 : range <= PG_UINT32_MAX ? 4 : 8;
}

/* Rows that are NULL have the base. */
static void
append_integers(const int64 *integers, const bool *nulls, int nrows, StoredColumn *stored, StringInfo bytes)
{
	int			width = stored->width;
	char	   *to;

	stored->values = begin_section(bytes);
	stored->values_bytes = nrows * width;
	enlargeStringInfo(bytes, nrows * width);
	to = bytes->data + bytes->len;

#define APPEND(type) \
	for (int i = 0; i < nrows; i++) \
		((type *) to)[i] = nulls[i] ? 0 : (type) ((uint64) integers[i] - (uint64) stored->base)

	switch (width)
	{
		case 1:
			APPEND(uint8);
			break;
		case 2:
			APPEND(uint16);
			break;
		case 4:
			APPEND(uint32);
			break;
		default:
			APPEND(uint64);
	}
#undef APPEND
	bytes->len += nrows * width;
}

/* ---- dictionaries ---- */

/* Make room for entries up to a limit. */
static void
init_dictionary(Dictionary *dictionary, int nrows, int limit)
{
	uint32		slots = 16;

	dictionary->limit = Min(limit, nrows);
	while (slots < 2 * (uint32) dictionary->limit)
		slots *= 2;
	dictionary->mask = slots - 1;
	dictionary->size = 0;
	dictionary->slots = palloc0(sizeof(uint32) * slots);
	dictionary->first_row = palloc(sizeof(int) * dictionary->limit);
	dictionary->codes = palloc(sizeof(uint16) * nrows);
}

static void
free_dictionary(Dictionary *dictionary)
{
	pfree(dictionary->slots);
	pfree(dictionary->first_row);
	pfree(dictionary->codes);
}

static uint32
hash_integer(Datum value)
{
	return (uint32) ((uint64) value * UINT64CONST(0x9E3779B97F4A7C15) >> 32);
}

/* Give a row its code; false if it needs an entry too many. */
static bool
add_row(Dictionary *dictionary, const ColumnValues *column, int row)
{
	Image		image = image_of(&column->type, &column->values[row]);
	uint32		hash = column->type.byval ? hash_integer(column->values[row]) :
		hash_bytes((const unsigned char *) image.bytes, image.length);

	for (uint32 slot = hash & dictionary->mask;; slot = (slot + 1) & dictionary->mask)
	{
		int			entry = (int) dictionary->slots[slot] - 1;
		Image		other;

		if (entry < 0)
		{
			if (dictionary->size == dictionary->limit)
				return false;
			dictionary->first_row[dictionary->size++] = row;
			dictionary->slots[slot] = dictionary->size;
			dictionary->codes[row] = dictionary->size - 1;
			return true;
		}
		other = image_of(&column->type, &column->values[dictionary->first_row[entry]]);
		if (other.length == image.length && memcmp(other.bytes, image.bytes, image.length) == 0)
		{
			dictionary->codes[row] = entry;
			return true;
		}
	}
}

/* Find the different values; returns false if they are too many to pay. */
static bool
fill_dictionary(Dictionary *dictionary, const ColumnValues *column, int nrows)
{
	for (int i = 0; i < nrows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		dictionary->codes[i] = 0;

		/*
		 * rows from before ADD COLUMN have one and the same value, which may
		 * be long
		 */
		if (i > 0 && !column->type.byval && !column->nulls[i] && !column->nulls[i - 1] &&
			column->values[i] == column->values[i - 1])
			dictionary->codes[i] = dictionary->codes[i - 1];
		else if (!column->nulls[i] && !add_row(dictionary, column, i))
			return false;
		if (i == TRIAL_ROWS && dictionary->size > TRIAL_ROWS / 2)
			return false;
	}
	return true;
}

/* ---- values one after the other ---- */

/* Where a value begins that comes after others, which end at `at`, and its length. */
static Size
place_of(const ColumnType *type, Datum value, Size at, Size *length)
{
	*length = type->len > 0 ? type->len : VARSIZE_ANY(DatumGetPointer(value));
	/* as in rows: short ones are not aligned */
	if (type->len == -1 && VARATT_IS_SHORT(DatumGetPointer(value)))
		return at;
	return MAXALIGN(at);
}

/*
 * Append values that are passed by reference: first where each begins, and
 * where the last one ends; then their bytes, from a multiple of eight. Expects
 * that bytes_of_values() is at most MAX_COLUMN_BYTES: places have 32 bits.
 */
static uint32
append_values(const ColumnType *type, const Datum *values, const bool *nulls, const int *rows, int n,
			  StringInfo bytes)
{
	uint32		start = begin_section(bytes);
	uint32	   *places = palloc(sizeof(uint32) * (n + 1));
	Size		at = 0;
	Size		length;

	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;

		if (nulls[row])
			places[i] = at;
		else
		{
			at = place_of(type, values[row], at, &length);
			places[i] = at;
			at += length;
		}
	}
	places[n] = at;
	Assert(at <= MAX_COLUMN_BYTES);
	appendBinaryStringInfo(bytes, (char *) places, sizeof(uint32) * (n + 1));
	pad(bytes);

	enlargeStringInfo(bytes, at);
	memset(bytes->data + bytes->len, 0, at);
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;

		if (nulls[row])
			continue;
		(void) place_of(type, values[row], places[i], &length);
		memcpy(bytes->data + bytes->len + places[i], DatumGetPointer(values[row]), length);
	}
	bytes->len += at;
	pfree(places);

	return start;
}

/* What append_values() would take. Rows that share one long value make it any number. */
static Size
bytes_of_values(const ColumnType *type, const Datum *values, const bool *nulls, const int *rows, int n)
{
	Size		at = 0;
	Size		length;

	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;

		if (!nulls[row])
		{
			at = place_of(type, values[row], at, &length);
			at += length;
		}
	}
	return at + sizeof(uint32) * (n + 1);
}

/* Values, laid out for tokens_encode(). */
typedef struct Pieces
{
	char	   *bytes;
	uint32	   *ends;			/* of each piece */
	uint32	   *lengths;		/* of each value, up to the next one */
	TokenHead	head;			/* what describes the lengths is set */
} Pieces;

/* Do all values have headers of one byte? */
static bool
all_short(const ColumnValues *column, const int *rows, int n)
{
	if (column->type.len != -1)
		return false;
	for (int i = 0; i < n; i++)
	{
		int			row = rows != NULL ? rows[i] : i;

		if (!column->nulls[row] && !VARATT_IS_SHORT(DatumGetPointer(column->values[row])))
			return false;
	}
	return true;
}

/*
 * Values one after the other without their places, in new memory, in pieces of
 * some rows each: every piece begins at a multiple of eight.  All values take
 * `room` bytes in one piece.
 */
static void
lay_out_pieces(const ColumnValues *column, const int *rows, const int *piece_rows, int npieces, Size room,
			   int nvalues, Pieces *pieces)
{
	Size		at = 0;
	uint32		longest = 0;
	int			i = 0;

	pieces->bytes = palloc0(room + npieces * TOKENS_PADDING);
	pieces->ends = palloc(sizeof(uint32) * npieces);
	pieces->lengths = palloc0(sizeof(uint32) * nvalues);
	memset(&pieces->head, 0, sizeof(pieces->head));
	pieces->head.all_short = all_short(column, rows, nvalues);
	for (int piece = 0; piece < npieces; piece++)
	{
		int			last = -1;	/* that is not NULL */
		Size		last_at = 0;

		at = MAXALIGN(at);
		for (int end = i + piece_rows[piece]; i < end; i++)
		{
			int			row = rows != NULL ? rows[i] : i;
			Size		length;

			if (column->nulls[row])
				continue;
			at = place_of(&column->type, column->values[row], at, &length);
			if (last >= 0)
				pieces->lengths[last] = at - last_at;
			last = i;
			last_at = at;
			memcpy(pieces->bytes + at, DatumGetPointer(column->values[row]), length);
			/* a header that differs from value to value would end tokens */
			if (pieces->head.all_short)
				pieces->bytes[at] = 0;
			at += length;
			pieces->lengths[i] = length;
			longest = Max(longest, length + MAXIMUM_ALIGNOF - 1);
		}
		pieces->ends[piece] = at;
	}
	Assert(i == nvalues && at <= room + npieces * TOKENS_PADDING);
	pieces->head.length_width = pieces->head.all_short || longest <= PG_UINT8_MAX ? 1 :
		longest <= PG_UINT16_MAX ? 2 : 4;
}

static void
append_lengths(const Pieces *pieces, int nvalues, StringInfo bytes)
{
	pad(bytes);
	enlargeStringInfo(bytes, nvalues * pieces->head.length_width);
	for (int i = 0; i < nvalues; i++)
	{
		char	   *to = bytes->data + bytes->len + i * pieces->head.length_width;

		if (pieces->head.length_width == 1)
			*(uint8 *) to = (uint8) pieces->lengths[i];
		else if (pieces->head.length_width == 2)
			*(uint16 *) to = (uint16) pieces->lengths[i];
		else
			*(uint32 *) to = pieces->lengths[i];
	}
	bytes->len += nvalues * pieces->head.length_width;
	pad(bytes);
}

/* ---- the choice ---- */

/*
 * Encode some values by tokens, if they take less than `most` bytes then, and
 * `otherwise` one after the other: sets the places of the pieces, appends the
 * table of tokens to `table`, and what follows the places to `section`.  All
 * that is of use only if it returns true; the caller frees both.
 */
static bool
encode_tokens(const ColumnValues *column, const int *rows, const int *piece_rows, int npieces, int nvalues,
			  Size otherwise, Size most, StringInfo table, StringInfo section, uint32 *places)
{
	Pieces		pieces;
	StringInfoData codes;
	Size		others;
	bool		pays;

	initStringInfo(table);
	initStringInfo(section);
	if (otherwise < TOKENS_LEAST_BYTES)
		return false;
	lay_out_pieces(column, rows, piece_rows, npieces, otherwise, nvalues, &pieces);
	initStringInfo(&codes);
	others = sizeof(uint32) * npieces + (Size) nvalues * pieces.head.length_width;
	pays = others < most &&
		tokens_encode(pieces.bytes, pieces.ends, npieces, most - others, &pieces.head, table, &codes, places);
	if (pays)
	{
		append_lengths(&pieces, nvalues, section);
		appendBinaryStringInfo(section, codes.data, codes.len);
	}
	pfree(codes.data);
	pfree(pieces.bytes);
	pfree(pieces.ends);
	pfree(pieces.lengths);

	return pays;
}

/*
 * Append the entries of a dictionary by tokens, if that makes the column much
 * smaller, in which the rows' codes take a number of bytes.
 */
static bool
append_dictionary_tokens(const ColumnValues *column, const Dictionary *dictionary, Size otherwise,
						 Size code_bytes, StoredColumn *stored, StringInfo bytes)
{
	Size		most = Max(ENOUGH(otherwise + code_bytes), code_bytes) - code_bytes;
	StringInfoData table;
	StringInfoData section;
	uint32		places[2];
	bool		pays = encode_tokens(column, dictionary->first_row, &dictionary->size, 1, dictionary->size, otherwise,
									 most, &table, &section, places);

	if (pays)
	{
		stored->flags |= STORED_TOKENS;
		stored->dictionary = begin_section(bytes);
		appendBinaryStringInfo(bytes, table.data, table.len);
		pad(bytes);
		appendBinaryStringInfo(bytes, section.data, section.len);
	}
	pfree(table.data);
	pfree(section.data);

	return pays;
}

/* Append values by tokens, so that each block's can be decoded without others. */
static bool
append_values_tokens(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks,
					 Size otherwise, StoredColumn *stored, StringInfo bytes)
{
	StringInfoData table;
	StringInfoData section;
	uint32		places[COLUMNS_MAX_BLOCKS + 1];
	int			rows[COLUMNS_MAX_BLOCKS];
	bool		pays;

	for (int i = 0; i < segment_blocks; i++)
		rows[i] = i < gathered->nblocks ? gathered->rows[i] : 0;
	pays = encode_tokens(column, NULL, rows, segment_blocks, gathered->nrows, otherwise,
						 ENOUGH(otherwise), &table, &section, places);
	if (pays)
	{
		stored->flags |= STORED_TOKENS;
		stored->dictionary = begin_section(bytes);
		appendBinaryStringInfo(bytes, table.data, table.len);
		stored->dictionary_bytes = bytes->len - stored->dictionary;
		stored->values = begin_section(bytes);
		appendBinaryStringInfo(bytes, (char *) places, sizeof(uint32) * (segment_blocks + 1));
		pad(bytes);
		appendBinaryStringInfo(bytes, section.data, section.len);
		stored->values_bytes = bytes->len - stored->values;
	}
	pfree(table.data);
	pfree(section.data);

	return pays;
}

/*
 * Append a dictionary.  Its entries take `takes` bytes one after the other, and
 * the rows' codes `code_bytes`.
 */
static void
append_dictionary(const ColumnValues *column, const Dictionary *dictionary, Size takes, Size code_bytes,
				  bool with_tokens, StoredColumn *stored, StringInfo bytes)
{
	stored->dictionary_size = dictionary->size;
	if (column->type.byval)
	{
		stored->dictionary = begin_section(bytes);
		for (int i = 0; i < dictionary->size; i++)
		{
			int64		value = integer_of(&column->type, column->values[dictionary->first_row[i]]);

			appendBinaryStringInfo(bytes, (char *) &value, sizeof(value));
		}
	}
	else if (!with_tokens || !append_dictionary_tokens(column, dictionary, takes, code_bytes, stored, bytes))
		stored->dictionary = append_values(&column->type, column->values, column->nulls,
										   dictionary->first_row, dictionary->size, bytes);
	stored->dictionary_bytes = bytes->len - stored->dictionary;
}

static void
append_codes(const Dictionary *dictionary, int nrows, StoredColumn *stored, StringInfo bytes)
{
	stored->width = dictionary->size <= FEW_ENTRIES ? 1 : 2;
	stored->values = begin_section(bytes);
	stored->values_bytes = nrows * stored->width;
	if (stored->width == 2)
		appendBinaryStringInfo(bytes, (char *) dictionary->codes, nrows * sizeof(uint16));
	else
	{
		enlargeStringInfo(bytes, nrows);
		for (int i = 0; i < nrows; i++)
			bytes->data[bytes->len + i] = (char) dictionary->codes[i];
		bytes->len += nrows;
	}
}

/*
 * Encode by a dictionary if it has at most `limit` entries and takes less than
 * three quarters of `otherwise`, and no more than a column may.
 */
static bool
encode_dictionary(const ColumnValues *column, int nrows, int limit, Size otherwise, bool with_tokens,
				  StoredColumn *stored, StringInfo bytes)
{
	Dictionary	dictionary;
	Size		takes = 0;
	Size		codes = 0;
	bool		pays;

	init_dictionary(&dictionary, nrows, limit);
	pays = fill_dictionary(&dictionary, column, nrows);
	if (pays)
	{
		codes = (Size) nrows * (dictionary.size <= FEW_ENTRIES ? 1 : 2);
		takes = column->type.byval ? dictionary.size * sizeof(int64) :
			bytes_of_values(&column->type, column->values, column->nulls, dictionary.first_row, dictionary.size);
		pays = takes <= MAX_COLUMN_BYTES &&
			(dictionary.size == 1 || takes + codes < ENOUGH(otherwise));
	}
	if (pays)
	{
		stored->kind = dictionary.size == 1 ? COLUMN_CONSTANT : COLUMN_CODES;
		append_dictionary(column, &dictionary, takes, codes, with_tokens && dictionary.size > 1, stored, bytes);
		if (dictionary.size > 1)
			append_codes(&dictionary, nrows, stored, bytes);
	}
	free_dictionary(&dictionary);

	return pays;
}

static void
encode_integers(const ColumnValues *column, const int64 *integers, int nrows, ColumnKind kind,
				StoredColumn *stored, StringInfo bytes)
{
	int64		min;
	int64		max;
	int			width;

	find_range(integers, column->nulls, nrows, &min, &max);
	if (column->type.order == COLUMN_ORDER_INTEGER || kind == COLUMN_DECIMALS)
	{
		stored->order = COLUMN_ORDER_INTEGER;
		stored->min = min;
		stored->max = max;
	}
	width = width_of_range(min, max);
	/* decimals stay integers: sums of them want no dictionary */
	if ((min == max || (width > 1 && kind == COLUMN_INTEGERS)) &&
		encode_dictionary(column, nrows, FEW_ENTRIES, min == max ? SIZE_MAX : (Size) nrows * width, false,
						  stored, bytes))
	{
		return;
	}
	stored->kind = kind;
	stored->base = min;
	stored->width = width;
	if (width == 1)
		stored->dictionary_size = max - min + 1;
	append_integers(integers, column->nulls, nrows, stored, bytes);
}

/* Least and greatest as floats, unless a NaN is among them. */
static void
find_float_range(const ColumnValues *column, int nrows, StoredColumn *stored)
{
	float8		min = INFINITY;
	float8		max = -INFINITY;

	for (int i = 0; i < nrows; i++)
	{
		float8		value;

		if (column->nulls[i])
			continue;
		value = column->type.len == 4 ? DatumGetFloat4(column->values[i]) : DatumGetFloat8(column->values[i]);
		if (isnan(value))
			return;
		min = Min(min, value);
		max = Max(max, value);
	}
	stored->order = COLUMN_ORDER_FLOAT;
	memcpy(&stored->min, &min, sizeof(min));
	memcpy(&stored->max, &max, sizeof(max));
}

static void
encode_byval(const ColumnValues *column, int nrows, StoredColumn *stored, StringInfo bytes)
{
	int64	   *integers;

	if (column->type.is_float)
	{
		find_float_range(column, nrows, stored);
		if (encode_dictionary(column, nrows, FEW_ENTRIES, (Size) nrows * column->type.len, false, stored, bytes))
			return;
	}
	integers = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(int64) * nrows);
	for (int i = 0; i < nrows; i++)
		integers[i] = integer_of(&column->type, column->values[i]);
	if (column->type.is_float)
	{
		stored->kind = column->type.len == 4 ? COLUMN_FLOAT4 : COLUMN_FLOAT8;
		stored->width = column->type.len;
		append_integers(integers, column->nulls, nrows, stored, bytes);
	}
	else
		encode_integers(column, integers, nrows, COLUMN_INTEGERS, stored, bytes);
	pfree(integers);
}

/* Numerics that all have one scale. */
static bool
encode_decimals(const ColumnValues *column, int nrows, StoredColumn *stored, StringInfo bytes)
{
	int64	   *integers = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(int64) * nrows);
	int			scale = -1;
	int			row;

	for (row = 0; row < nrows; row++)
	{
		int			its_scale;

		if (column->nulls[row])
			integers[row] = 0;
		else if (!column_decimal_decode(DatumGetPointer(column->values[row]), &integers[row], &its_scale))
			break;
		else if (scale < 0)
			scale = its_scale;
		else if (its_scale != scale)
			break;
	}
	if (row == nrows)
	{
		stored->scale = scale;
		encode_integers(column, integers, nrows, COLUMN_DECIMALS, stored, bytes);
	}
	pfree(integers);

	return row == nrows;
}

static void
encode_by_reference(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks,
					bool with_tokens, StoredColumn *stored, StringInfo bytes)
{
	int			nrows = gathered->nrows;
	Size		otherwise = bytes_of_values(&column->type, column->values, column->nulls, NULL, nrows);

	if (column->type.numeric &&encode_decimals(column, nrows, stored, bytes))
		return;
	if (encode_dictionary(column, nrows, MOST_ENTRIES, otherwise, with_tokens, stored, bytes))
		return;
	if (otherwise > MAX_COLUMN_BYTES)
	{
		stored->kind = COLUMN_ABSENT;
		return;
	}
	stored->kind = COLUMN_DATUMS;
	if (with_tokens && append_values_tokens(column, gathered, segment_blocks, otherwise, stored, bytes))
		return;
	stored->values = append_values(&column->type, column->values, column->nulls, NULL, nrows, bytes);
	stored->values_bytes = bytes->len - stored->values;
}

static void
encode_column(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks, bool with_tokens,
			  StoredColumn *stored, StringInfo bytes)
{
	int			nrows = gathered->nrows;

	if (column->absent)
		stored->kind = COLUMN_ABSENT;
	else if (encode_nulls(column, nrows, stored, bytes) == 0)
		stored->kind = COLUMN_ALL_NULL;
	else if (column->type.byval)
		encode_byval(column, nrows, stored, bytes);
	else
		encode_by_reference(column, gathered, segment_blocks, with_tokens, stored, bytes);
}

/* What the head has of a block's rows. */
static uint16
stored_rows(const GatheredBlocks *gathered, int i, bool with_lines)
{
	Assert(gathered->rows[i] <= ROWS_COUNT);
	if (!with_lines || gathered->rows[i] == 0)
		return gathered->rows[i];
	return gathered->rows[i] | (bitmap_test(gathered->listed, i) ? ROWS_LISTED : ROWS_IN_LINE);
}

/*
 * Append a whole segment to an empty string, in the form of a version of the
 * format.  Memory is that of the current context, which the caller resets.
 */
void
encode_segment(const GatheredBlocks *gathered, int segment_blocks, uint32 version, StringInfo bytes)
{
	bool		with_lines = version > STORE_VERSION_WITHOUT_LINES;
	bool		with_tokens = version > STORE_VERSION_WITHOUT_TOKENS;
	bool		with_hashes = version > STORE_VERSION_WITHOUT_HASHES;
	Size		head_bytes = HEAD_BYTES(segment_blocks, gathered->ncolumns);
	SegmentHead head = {0};
	StoredColumn *stored = palloc0(sizeof(StoredColumn) * gathered->ncolumns);
	uint16		rows[COLUMNS_MAX_BLOCKS];

	Assert(bytes->len == 0);
	for (int i = 0; i < segment_blocks; i++)
		rows[i] = stored_rows(gathered, i, with_lines);
	enlargeStringInfo(bytes, head_bytes);
	bytes->len = head_bytes;
	if (with_lines && gathered->nlines > 0)
	{
		uint32		lines PG_USED_FOR_ASSERTS_ONLY = begin_section(bytes);

		Assert(lines == HEAD_LINES(segment_blocks, gathered->ncolumns));
		appendBinaryStringInfo(bytes, (char *) gathered->lines, gathered->nlines * sizeof(uint16));
	}
	for (int c = 0; c < gathered->ncolumns; c++)
	{
		Size		begin = bytes->len;

		encode_column(&gathered->columns[c], gathered, segment_blocks, with_tokens, &stored[c], bytes);
		pad(bytes);
		if (with_hashes)
			hashes_append(&gathered->columns[c], gathered, segment_blocks, bytes->len - begin, &stored[c], bytes);
	}

	head.nblocks = gathered->nblocks;
	head.nrows = gathered->nrows;
	head.ncolumns = gathered->ncolumns;

	/*
	 * at most INDEX_MAX_KEYS columns of MAX_COLUMN_BYTES and their codes: far
	 * below what a string can have
	 */
	head.bytes = bytes->len;
	memcpy(bytes->data, &head, sizeof(head));
	memcpy(bytes->data + sizeof(head), rows, segment_blocks * sizeof(uint16));
	memcpy(bytes->data + HEAD_COLUMNS(segment_blocks), stored, gathered->ncolumns * sizeof(StoredColumn));
	head.crc = head_crc(bytes->data, head_bytes);
	memcpy(bytes->data, &head, sizeof(head));
}
