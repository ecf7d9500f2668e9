/*-------------------------------------------------------------------------
 *
 * read_values.c
 *	  Rows and dictionaries of segments as values.
 *
 * What is read was copied from pages that may be damaged: lengths and places
 * are checked before they are used.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "column_index/reader.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* An integer as a value of a type that is passed by value, as it is in rows. */
static Datum
datum_of(const ColumnType *type, int64 value)
{
	switch (type->len)
	{
		case 1:
			return CharGetDatum((char) value);
		case 2:
			return Int16GetDatum((int16) value);
		case 4:
			return Int32GetDatum((int32) value);
		default:
			return (Datum) value;
	}
}

/*
 * Point at values that lie one after the other, which encode.c laid out.  The
 * places are relative to a section; `bytes` is what begins at place `start`.
 */
static void
point_at_values(ColumnReader *reader, const ReaderColumn *column, const uint32 *places, const bool *nulls,
				int n, const char *bytes, uint32 start, Datum *values)
{
	for (int i = 0; i < n; i++)
	{
		const char *value = bytes + (places[i] - start);
		uint32		room = places[i + 1] - places[i];

		values[i] = (Datum) 0;
		if (nulls != NULL && nulls[i])
			continue;
		if (column->type.len > 0 ? room < column->type.len :
			(room == 0 || VARATT_IS_EXTERNAL(value) || (room < VARHDRSZ && !VARATT_IS_SHORT(value)) ||
			 VARATT_IS_COMPRESSED(value) || VARSIZE_ANY(value) > room))
			store_corrupted(reader->directory.index, reader->entry.first_page);
		values[i] = PointerGetDatum(value);
	}
}

/* The places must ascend, and lie within `bytes` bytes. */
static void
check_places(ColumnReader *reader, const uint32 *places, int n, uint32 bytes)
{
	bool		good = places[n] <= bytes;

	for (int i = 0; i < n; i++)
		good &= places[i] <= places[i + 1];
	if (!good)
		store_corrupted(reader->directory.index, reader->entry.first_page);
}

/* Load the dictionary of the segment, of values that are passed by reference. */
static bool
load_values_dictionary(ColumnReader *reader, ReaderColumn *column, Datum *dictionary)
{
	const StoredColumn *stored = &column->stored;
	int			n = stored->dictionary_size;
	Size		places_bytes = TYPEALIGN(8, sizeof(uint32) * (n + 1));
	char	   *bytes;

	if (stored->dictionary_bytes < places_bytes)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	bytes = reader_room(reader, &column->entries, stored->dictionary_bytes);
	if (!reader_bytes(reader, &column->guess, stored->dictionary, stored->dictionary_bytes, bytes))
		return false;
	check_places(reader, (uint32 *) bytes, n, stored->dictionary_bytes - places_bytes);
	point_at_values(reader, column, (uint32 *) bytes, NULL, n, bytes + places_bytes, 0, dictionary);

	return true;
}

/*
 * Load the column's table of tokens, and return what follows it in the same
 * section in *rest.  Returns false if the segment was replaced.
 */
static bool
load_tokens(ColumnReader *reader, ReaderColumn *column, const char **rest, Size *rest_bytes)
{
	Size		bytes = column->stored.dictionary_bytes;
	char	   *section = reader_room(reader, &column->coded, bytes);
	const TokenHead *head = (TokenHead *) section;
	Size		table_bytes;

	if (bytes < sizeof(TokenHead))
		store_corrupted(reader->directory.index, reader->entry.first_page);
	if (!reader_bytes(reader, &column->guess, column->stored.dictionary, bytes, section))
		return false;
	if (!tokens_are_sane(head, bytes) ||
		!tokens_take((Tokens *) reader_room(reader, &column->tokens, tokens_memory(head)), section))
		store_corrupted(reader->directory.index, reader->entry.first_page);
	table_bytes = Min(TYPEALIGN(8, sizeof(TokenHead) + head->ntokens + head->token_bytes), bytes);
	*rest = section + table_bytes;
	*rest_bytes = bytes - table_bytes;

	return true;
}

/* load_values_dictionary() of a dictionary that is encoded by tokens. */
static bool
load_tokens_dictionary(ColumnReader *reader, ReaderColumn *column, Datum *dictionary)
{
	int			n = column->stored.dictionary_size;
	const Tokens *tokens;
	int			width;
	const char *lengths;
	Size		lengths_bytes;
	Size		rest_bytes;
	Size		value_bytes;
	char	   *bytes;

	if (!load_tokens(reader, column, &lengths, &rest_bytes))
		return false;
	tokens = (Tokens *) column->tokens.start;
	width = tokens->head.length_width;
	value_bytes = tokens->head.value_bytes;
	lengths_bytes = TYPEALIGN(8, (Size) n * width);
	if (rest_bytes < lengths_bytes || tokens_sum_lengths(lengths, width, n) != value_bytes)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	bytes = reader_room(reader, &column->entries, value_bytes);
	if (!tokens_decode(tokens, lengths + lengths_bytes, rest_bytes - lengths_bytes, bytes, value_bytes) ||
		!tokens_find_values(&column->type, &tokens->head, bytes, lengths, NULL, n, dictionary))
		store_corrupted(reader->directory.index, reader->entry.first_page);

	return true;
}

static bool
load_integers_dictionary(ColumnReader *reader, ReaderColumn *column, Datum *dictionary)
{
	int			n = column->stored.dictionary_size;
	int64	   *integers = MemoryContextAlloc(reader->segment_context, sizeof(int64) * n);

	if (column->stored.dictionary_bytes != sizeof(int64) * n)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	if (!reader_bytes(reader, &column->guess, column->stored.dictionary, sizeof(int64) * n, (char *) integers))
		return false;
	for (int i = 0; i < n; i++)
		dictionary[i] = datum_of(&column->type, integers[i]);
	pfree(integers);

	return true;
}

/* Make numerics of integers in memory for DECIMAL_IMAGE_BYTES each. */
static Datum
decimal_datum(ColumnReader *reader, const ReaderColumn *column, uint64 value, char *to)
{
	int64		sum = (int64) ((uint64) column->stored.base + value);

	if (column->stored.scale < 0 || column->stored.scale > 18 ||
		sum >= INT64CONST(1000000000000000000) || sum <= -INT64CONST(1000000000000000000))
		store_corrupted(reader->directory.index, reader->entry.first_page);
	(void) column_decimal_encode(sum, column->stored.scale, to);
	return PointerGetDatum(to);
}

/* The dictionary of integers of one byte is what follows their base. */
static void
make_dictionary(ColumnReader *reader, ReaderColumn *column, Datum *dictionary)
{
	int			n = column->stored.dictionary_size;

	if (column->stored.kind == COLUMN_DECIMALS)
	{
		char	   *memory = MemoryContextAlloc(reader->segment_context, DECIMAL_IMAGE_BYTES * n + SLACK);

		for (int i = 0; i < n; i++)
			dictionary[i] = decimal_datum(reader, column, i, memory + SLACK + DECIMAL_IMAGE_BYTES * i);
	}
	else
	{
		for (int i = 0; i < n; i++)
			dictionary[i] = datum_of(&column->type, (int64) ((uint64) column->stored.base + i));
	}
}

/*
 * The values that the codes of a column stand for, dictionary_size of them;
 * NULL if the segment was replaced.  They are valid until the next segment.
 */
const Datum *
column_reader_dictionary(ColumnReader *reader, int c)
{
	ReaderColumn *column = &reader->columns[c];
	Datum	   *dictionary;

	Assert(column->stored.dictionary_size > 0);
	if (column->dictionary != NULL)
		return column->dictionary;
	dictionary = (Datum *) reader_room(reader, &column->datums, sizeof(Datum) * column->stored.dictionary_size);
	if (column->stored.kind != COLUMN_CONSTANT && column->stored.kind != COLUMN_CODES)
		make_dictionary(reader, column, dictionary);
	else if (!(column->type.byval ? load_integers_dictionary(reader, column, dictionary) :
			   (column->stored.flags & STORED_TOKENS) != 0 ? load_tokens_dictionary(reader, column, dictionary) :
			   load_values_dictionary(reader, column, dictionary)))
		return NULL;
	column->dictionary = dictionary;

	return dictionary;
}

/* Decode an array that is loaded: the values that codes stand for. */
static void
decode_codes(const ReaderColumn *column, const void *array, int nrows, Datum *values)
{
	if (column->stored.width == 1)
	{
		for (int i = 0; i < nrows; i++)
			values[i] = column->dictionary[((const uint8 *) array)[i]];
	}
	else
	{
		for (int i = 0; i < nrows; i++)
			values[i] = column->dictionary[((const uint16 *) array)[i]];
	}
}

static void
decode_integers(const ReaderColumn *column, const void *array, int nrows, Datum *values)
{
	uint64		base = (uint64) column->stored.base;

#define DECODE(element_type) \
	for (int i = 0; i < nrows; i++) \
		values[i] = datum_of(&column->type, (int64) (base + ((const element_type *) array)[i]))

	switch (column->stored.width)
	{
		case 1:
			DECODE(uint8);
			break;
		case 2:
			DECODE(uint16);
			break;
		case 4:
			DECODE(uint32);
			break;
		default:
			DECODE(uint64);
	}
#undef DECODE
}

static void
decode_decimals(ColumnReader *reader, ReaderColumn *column, const ColumnRun *run, int nrows, Datum *values)
{
	char	   *memory = reader_room(reader, &column->places, (Size) nrows * DECIMAL_IMAGE_BYTES);

	for (int i = 0; i < nrows; i++)
	{
		/* elements of rows that are NULL mean nothing, but are in range */
		values[i] = decimal_datum(reader, column, column_element(run->array, column->stored.width, i),
								  memory + (Size) i * DECIMAL_IMAGE_BYTES);
	}
}

/* Values one after the other: their places, then their bytes. */
static bool
decode_values(ColumnReader *reader, ReaderColumn *column, uint32 first_row, int nrows, const bool *nulls,
			  Datum *values)
{
	const StoredColumn *stored = &column->stored;
	Size		places_bytes = TYPEALIGN(8, sizeof(uint32) * (reader->segment.nrows + 1));
	uint32	   *places = (uint32 *) reader_room(reader, &column->places, sizeof(uint32) * (nrows + 1));
	uint32		start;
	char	   *bytes;

	if (stored->values_bytes < places_bytes)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	if (!reader_bytes(reader, &column->guess, stored->values + sizeof(uint32) * first_row, sizeof(uint32) * (nrows + 1),
					  (char *) places))
		return false;
	check_places(reader, places, nrows, stored->values_bytes - places_bytes);
	/* aligned as in the segment */
	start = TYPEALIGN_DOWN(MAXIMUM_ALIGNOF, places[0]);
	bytes = reader_room(reader, &column->array, places[nrows] - start);
	if (!reader_bytes(reader, &column->guess, stored->values + places_bytes + start, places[nrows] - start, bytes))
		return false;
	point_at_values(reader, column, places, nulls, nrows, bytes, start, values);

	return true;
}

/* The last block that begins with a row, or before it. */
static int
block_of_row(const ColumnSegment *segment, int nblocks, uint32 row)
{
	int			low = 0;
	int			high = nblocks;

	while (high - low > 1)
	{
		int			middle = (low + high) / 2;

		if (segment->first_row[middle] <= row)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Blocks of a segment that follow one another. */
typedef struct Blocks
{
	int			first;
	int			n;
} Blocks;

/* The blocks that some rows are all rows of. */
static Blocks
blocks_of_rows(const ColumnReader *reader, uint32 first_row, int nrows)
{
	const uint32 *rows = reader->segment.first_row;
	Blocks		blocks;

	blocks.first = block_of_row(&reader->segment, reader->directory.segment_blocks, first_row);
	blocks.n = 1;
	while (rows[blocks.first + blocks.n] < first_row + nrows)
		blocks.n++;
	if (rows[blocks.first] != first_row || rows[blocks.first + blocks.n] != first_row + nrows)
		elog(ERROR, "rows to decode are not those of whole blocks");

	return blocks;
}

/* Of these blocks, those from the first to the last row that is wanted. */
static Blocks
wanted_blocks(const ColumnReader *reader, Blocks blocks, uint32 first_row, const uint16 *wanted, int nwanted)
{
	const uint32 *rows = reader->segment.first_row;

	while (rows[blocks.first + 1] <= first_row + wanted[0])
	{
		blocks.first++;
		blocks.n--;
	}
	while (rows[blocks.first + blocks.n - 1] > first_row + wanted[nwanted - 1])
		blocks.n--;

	return blocks;
}

/* Values one after the other that are encoded by tokens, before they are decoded. */
typedef struct CodedValues
{
	const uint32 *places;		/* in the token numbers, of each block */
	const char *lengths;		/* of each row */
	const char *codes;			/* the token numbers */
} CodedValues;

/* Places in a column's values that are encoded by tokens. */
static Size
lengths_of_rows(const ColumnReader *reader)
{
	return TYPEALIGN(8, sizeof(uint32) * (reader->directory.segment_blocks + 1));
}

static Size
codes_of_rows(const ColumnReader *reader, const Tokens *tokens)
{
	return lengths_of_rows(reader) + TYPEALIGN(8, (Size) reader->segment.nrows * tokens->head.length_width);
}

/* Load the segment's tokens and the places of its blocks.  Returns false if it was replaced. */
static bool
load_values_tokens(ColumnReader *reader, ReaderColumn *column)
{
	const StoredColumn *stored = &column->stored;
	int			nblocks = reader->directory.segment_blocks;
	uint32	   *places = (uint32 *) reader_room(reader, &column->places, sizeof(uint32) * (nblocks + 1));
	const char *rest;
	Size		rest_bytes;
	Size		codes_at;

	if (!load_tokens(reader, column, &rest, &rest_bytes))
		return false;
	codes_at = codes_of_rows(reader, (Tokens *) column->tokens.start);
	if (stored->values_bytes < codes_at)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	if (!reader_bytes(reader, &column->guess, stored->values, sizeof(uint32) * (nblocks + 1), (char *) places))
		return false;
	check_places(reader, places, nblocks, stored->values_bytes - codes_at);
	column->has_tokens = true;

	return true;
}

/* Load what is stored of the values of some blocks.  Returns false if the segment was replaced. */
static bool
load_coded(ColumnReader *reader, ReaderColumn *column, Blocks blocks, CodedValues *coded)
{
	const Tokens *tokens = (Tokens *) column->tokens.start;
	Size		values = column->stored.values;
	const uint32 *rows = &reader->segment.first_row[blocks.first];
	const uint32 *places = (uint32 *) column->places.start + blocks.first;
	int			width = tokens->head.length_width;
	Size		length_bytes = (rows[blocks.n] - rows[0]) * width;
	Size		code_bytes = places[blocks.n] - places[0];
	char	   *lengths = reader_room(reader, &column->entries, length_bytes);
	char	   *codes = reader_room(reader, &column->coded, code_bytes);

	coded->places = places;
	coded->lengths = lengths;
	coded->codes = codes;

	return reader_bytes(reader, &column->guess, values + lengths_of_rows(reader) + rows[0] * width, length_bytes,
						lengths) &&
		reader_bytes(reader, &column->guess, values + codes_of_rows(reader, tokens) + places[0], code_bytes, codes);
}

/*
 * Values one after the other that are encoded by tokens.  Those of blocks
 * without a wanted row are 0.
 */
static bool
decode_tokens(ColumnReader *reader, ReaderColumn *column, uint32 first_row, int nrows, const uint16 *wanted,
			  int nwanted, const bool *nulls, Datum *values)
{
	const Tokens *tokens;
	CodedValues coded;
	Blocks		blocks;
	const uint32 *first_row_of; /* blocks, and of the one after them */
	int			step;
	int			width;
	int			next = 0;		/* of wanted[] */
	Size		lengths[COLUMNS_MAX_BLOCKS];	/* of the blocks' bytes */
	Size		room = 0;
	const char *block_lengths;
	char	   *to;

	if (wanted != NULL)
		memset(values, 0, sizeof(Datum) * nrows);
	if (nrows == 0 || (wanted != NULL && nwanted == 0))
		return true;
	if (!column->has_tokens && !load_values_tokens(reader, column))
		return false;
	blocks = blocks_of_rows(reader, first_row, nrows);
	if (wanted != NULL)
		blocks = wanted_blocks(reader, blocks, first_row, wanted, nwanted);
	if (!load_coded(reader, column, blocks, &coded))
		return false;

	first_row_of = &reader->segment.first_row[blocks.first];
	tokens = (Tokens *) column->tokens.start;
	width = tokens->head.length_width;
	block_lengths = coded.lengths;

	/*
	 * short values need not be aligned: what follows one another is decoded
	 * at once
	 */
	step = wanted == NULL && tokens->head.all_short ? blocks.n : 1;
	for (int i = 0; i < blocks.n; i += step)
	{
		int			rows = first_row_of[i + step] - first_row_of[i];

		lengths[i] = tokens_sum_lengths(block_lengths, width, rows);
		block_lengths += rows * width;
		room += MAXALIGN(lengths[i]);
	}
	/* a column takes no more: what a damaged one tells is not to be allocated */
	if (room > TOKENS_MOST_BYTES)
		store_corrupted(reader->directory.index, reader->entry.first_page);
	to = reader_room(reader, &column->array, room);
	for (int i = 0; i < blocks.n; i += step)
	{
		uint32		row = first_row_of[i] - first_row;
		int			rows = first_row_of[i + step] - first_row_of[i];
		Size		code_bytes = coded.places[i + step] - coded.places[i];

		while (wanted != NULL && next < nwanted && wanted[next] < row)
			next++;
		if (wanted == NULL || (next < nwanted && wanted[next] < row + rows))
		{
			if (!tokens_decode(tokens, coded.codes, code_bytes, to, lengths[i]) ||
				!tokens_find_values(&column->type, &tokens->head, to, coded.lengths,
									nulls != NULL ? nulls + row : NULL, rows, values + row))
				store_corrupted(reader->directory.index, reader->entry.first_page);
			to += MAXALIGN(lengths[i]);
		}
		coded.codes += code_bytes;
		coded.lengths += rows * width;
	}
	return true;
}

/* Fill in the values of rows that are not NULL.  Returns false if the segment was replaced. */
static bool
decode_rows(ColumnReader *reader, int c, uint32 first_row, int nrows, const uint16 *wanted, int nwanted,
			const bool **nulls, Datum *values)
{
	ReaderColumn *column = &reader->columns[c];
	ColumnRun	run;

	if (column->stored.kind == COLUMN_DATUMS)
		return reader_nulls(reader, column, first_row, nrows, nulls) &&
			((column->stored.flags & STORED_TOKENS) != 0 ?
			 decode_tokens(reader, column, first_row, nrows, wanted, nwanted, *nulls, values) :
			 decode_values(reader, column, first_row, nrows, *nulls, values));
	if (!column_reader_load(reader, c, first_row, nrows, &run))
		return false;
	*nulls = run.nulls;
	switch (column->stored.kind)
	{
		case COLUMN_ALL_NULL:
			break;
		case COLUMN_CONSTANT:
			if (column_reader_dictionary(reader, c) == NULL)
				return false;
			for (int i = 0; i < nrows; i++)
				values[i] = column->dictionary[0];
			break;
		case COLUMN_CODES:
			if (column_reader_dictionary(reader, c) == NULL)
				return false;
			decode_codes(column, run.array, nrows, values);
			break;
		case COLUMN_DECIMALS:
			decode_decimals(reader, column, &run, nrows, values);
			break;
		default:
			decode_integers(column, run.array, nrows, values);
	}
	return true;
}

/*
 * Load rows of whole blocks of a column as values and flags of NULLs, both all
 * filled in; the value of a NULL is 0.  If `wanted` is not NULL, only the rows
 * with these numbers need their values, counted from the first row, which
 * ascend: those of other rows are not to be used.  Values by reference are valid until the column is
 * loaded or decoded again, or the next segment.  Returns false if the segment
 * was replaced.  Not for COLUMN_ABSENT.
 */
bool
column_reader_decode(ColumnReader *reader, int c, uint32 first_row, int nrows, const uint16 *wanted, int nwanted,
					 Datum *values, bool *nulls, bool *has_nulls)
{
	const bool *found;

	Assert(reader->columns[c].stored.kind != COLUMN_ABSENT);
	Assert(nrows >= 0 && first_row + nrows <= reader->segment.nrows);
	if (!decode_rows(reader, c, first_row, nrows, wanted, nwanted, &found, values))
		return false;
	*has_nulls = found != NULL;
	if (found == NULL)
		memset(nulls, false, nrows);
	else
	{
		for (int i = 0; i < nrows; i++)
		{
			nulls[i] = found[i];
			if (found[i])
				values[i] = (Datum) 0;
		}
	}
	return true;
}
