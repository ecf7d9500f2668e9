/*-------------------------------------------------------------------------
 *
 * reader.h
 *	  A reader of columns, for the files that it is made of.
 *
 *	read.c			segments, and runs of rows as arrays
 *	read_values.c	rows and entries of dictionaries as values
 *	read_hashes.c	blocks by the hashes of values
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_COLUMN_INDEX_READER_H
#define PGBILLION_COLUMN_INDEX_READER_H

#include "postgres.h"

#include "utils/palloc.h"

#include "column_index/store.h"

/* Bytes beside values that are taken a word at a time may be loaded, too. */
#define SLACK 64

/* Memory that is used again and again. */
typedef struct Room
{
	char	   *memory;
	Size		size;
	char	   *start;			/* aligned */
} Room;

/* The page that was read last, and the buffer that it was in. */
typedef struct Guess
{
	BlockNumber block;
	Buffer		buffer;			/* not pinned; or InvalidBuffer */
	int			step;			/* how far the next page's buffer may be */
} Guess;

typedef struct ReaderColumn
{
	int			number;			/* in the index */
	ColumnType	type;
	StoredColumn stored;		/* in the segment */
	Datum	   *dictionary;		/* NULL: not loaded */
	Guess		guess;
	uint32		first_row;		/* what is in `array`, if it is of elements: */
	uint32		nrows;			/* the rows from the first on, or 0 */
	Room		array;
	Room		places;
	Room		nulls;
	Room		bitmap;
	Room		tokens;			/* Tokens of the segment, and `places` of its
								 * blocks, if has_tokens */
	bool		has_tokens;
	Room		coded;			/* as it is stored, before it is decoded */
	Room		entries;		/* of the dictionary: their bytes, or lengths
								 * of rows */
	Room		datums;			/* of the dictionary */
} ReaderColumn;

struct ColumnReader
{
	Relation	heap;
	Directory	directory;
	MemoryContext context;
	MemoryContext segment_context;	/* dictionaries of the segment */
	uint32		segment_number;
	uint16		stored_rows[COLUMNS_MAX_BLOCKS];	/* as in its head */
	uint32		lines[COLUMNS_MAX_BLOCKS];	/* ROWS_LISTED: how many line
											 * pointers come before its first */
	Guess		lines_guess;
	DirectoryEntry entry;
	BlockNumber npages;			/* the index has had this number at least */
	Guess		guess;			/* of the head */
	ColumnSegment segment;
	ColumnState *states;
	int			ncolumns;
	ReaderColumn *columns;
	char		head[DATA_BYTES];
};

/* read.c */
extern char *reader_room(ColumnReader *reader, Room *room, Size bytes);
extern bool reader_bytes(ColumnReader *reader, Guess *guess, Size at, Size length, char *to);
extern bool reader_nulls(ColumnReader *reader, ReaderColumn *column, uint32 first_row, int nrows,
						 const bool **nulls);

#endif							/* PGBILLION_COLUMN_INDEX_READER_H */
