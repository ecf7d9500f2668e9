/*-------------------------------------------------------------------------
 *
 * read_hashes.c
 *	  Looking values up in a segment's tables of hashes.
 *
 * What is read was copied from pages that may be damaged: a bucket counts only
 * if its check is right.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"

#include "column_index/reader.h"

/*
 * The groups of blocks that may have a row with this hash, added to *groups.
 * Returns false if the segment was replaced.
 */
static bool
look_up(ColumnReader *reader, ReaderColumn *column, uint64 hash, uint64 *groups)
{
	uint32		nbuckets = HASHES_BUCKETS(reader->segment.nrows);
	uint32		bucket = HASHES_BUCKET(hash, nbuckets);
	Size		table = column->stored.hashes;
	uint32		places[2];
	uint16		words[1 + HASHES_LONGEST];
	int			n;

	if (!reader_bytes(reader, &column->guess, table + bucket * sizeof(uint32), sizeof(places), (char *) places))
		return false;
	if (places[0] >= places[1] || places[1] - places[0] > lengthof(words))
		store_corrupted(reader->directory.index, reader->entry.first_page);
	n = places[1] - places[0] - 1;
	if (!reader_bytes(reader, &column->guess, table + HASHES_PLACES(nbuckets) + places[0] * sizeof(uint16),
					  (1 + n) * sizeof(uint16), (char *) words))
		return false;
	if (words[0] != hashes_check(bucket, words + 1, n))
		store_corrupted(reader->directory.index, reader->entry.first_page);
	for (int i = 1; i <= n; i++)
	{
		if (HASHES_BITS(words[i]) == HASHES_BITS(HASHES_ENTRY(hash, 0)))
			*groups |= UINT64CONST(1) << HASHES_GROUP_OF(words[i]);
	}
	return true;
}

/* Integers of all lengths are equal by their numbers, and have the same hashes. */
static bool
is_integer(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID;
}

/*
 * Find the blocks of the segment that may have a row with one of these values in
 * a column, as equality of their type compares them: bit i of *groups is set for
 * those of which column_reader_group() is i.  Values are not NULL, and neither
 * compressed nor out of line.  Returns false if that is not known, also because
 * the segment was replaced.
 */
bool
column_reader_find(ColumnReader *reader, int c, Oid type, const Datum *values, int n, uint64 *groups)
{
	ReaderColumn *column = &reader->columns[c];
	Oid			hashed_as = column->type.hashed_as;

	if ((column->stored.flags & STORED_HASHES) == 0 ||
		(type != hashed_as && !(is_integer(type) && is_integer(hashed_as))))
		return false;
	*groups = 0;
	for (int i = 0; i < n; i++)
	{
		if (!look_up(reader, column, hashes_of_value(type, values[i]), groups))
			return false;
	}
	return true;
}

/* The group of blocks that a block of the segment is in. */
int
column_reader_group(const ColumnReader *reader, int block)
{
	return HASHES_GROUP(block, reader->directory.segment_blocks);
}
