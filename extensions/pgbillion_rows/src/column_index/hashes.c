/*-------------------------------------------------------------------------
 *
 * hashes.c
 *	  Tables of hashes, by which equality finds the blocks of a segment that
 *	  may hold a value.
 *
 * Of values that are in no order, and nearly all different, least and greatest
 * exclude nothing. Such a column has a table of hashes in each segment: buckets
 * by the hash's upper half, and in a bucket for each row some of the hash's
 * other bits, and in which group of blocks the row is. One bucket tells that
 * the segment does not have a value, or which of 64 groups may have it.
 *
 * The hash is that of what the type's equality compares: the number of integers
 * of any length, the bytes of strings and UUIDs, and those of char(n) without
 * the blanks at its end. It is stored, and must stay what it is; PostgreSQL's
 * own, of bytes, has to as well, as rows of partitions depend on it. Rows that
 * are NULL have none.
 *
 * A bucket begins with a check of its own. Values that are damaged are returned,
 * and seen; rows that a damaged bucket leaves out would not be.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "column_index/store.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Fewer rows are read as fast. */
#define HASHES_LEAST_ROWS 1024

/*
 * A value may be in this number of groups on average: of one that is in most
 * of them, nothing is left out.
 */
#define HASHES_MOST_GROUPS 16.0

/* What the table may take of what the column does. */
#define HASHES_MOST_BYTES(bytes) ((bytes) / 3)

/*
 * Integers whose groups span less than this share of what the segment does are
 * in some order: then least and greatest of segments do without.
 */
#define HASHES_LEAST_SPAN 0.25

/* ---- hashes ---- */

static uint64
hash_integer(int64 value)
{
	uint64		hash = (uint64) value;

	hash = (hash ^ hash >> 32) * UINT64CONST(0x9E3779B97F4A7C15);
	hash = (hash ^ hash >> 29) * UINT64CONST(0xBF58476D1CE4E5B9);
	return hash ^ hash >> 32;
}

static uint64
hash_of_bytes(const char *bytes, int length)
{
	return hash_bytes_extended((const unsigned char *) bytes, length, 0);
}

/* Hash a value that is not NULL, and neither compressed nor out of line, by the equality of its type. */
uint64
hashes_of_value(Oid type, Datum value)
{
	const char *pointer = DatumGetPointer(value);

	switch (type)
	{
		case INT2OID:
			return hash_integer(DatumGetInt16(value));
		case INT4OID:
			return hash_integer(DatumGetInt32(value));
		case INT8OID:
			return hash_integer(DatumGetInt64(value));
		case UUIDOID:
			return hash_of_bytes(pointer, UUID_LEN);
		case BPCHAROID:
			return hash_of_bytes(VARDATA_ANY(pointer),
								 bpchartruelen((char *) VARDATA_ANY(pointer), VARSIZE_ANY_EXHDR(pointer)));
		default:
			Assert(type == TEXTOID);
			return hash_of_bytes(VARDATA_ANY(pointer), VARSIZE_ANY_EXHDR(pointer));
	}
}

/* ---- buckets ---- */

/* The check that a bucket with these entries begins with. */
uint16
hashes_check(uint32 bucket, const uint16 *entries, int n)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &bucket, sizeof(bucket));
	COMP_CRC32C(crc, entries, n * sizeof(uint16));
	FIN_CRC32C(crc);

	return (uint16) (crc ^ crc >> 16);
}

/* ---- making them ---- */

/* Entries of all rows, by their buckets. */
typedef struct Buckets
{
	uint32		n;
	uint32	   *ends;			/* of each bucket, in `entries` */
	uint16	   *entries;
} Buckets;

/* Sort entries, most often few. */
static void
sort_entries(uint16 *entries, int n)
{
	for (int i = 1; i < n; i++)
	{
		uint16		entry = entries[i];
		int			k = i;

		for (; k > 0 && entries[k - 1] > entry; k--)
			entries[k] = entries[k - 1];
		entries[k] = entry;
	}
}

/* Put the hash of each row that is not NULL into its bucket; buckets are in no order yet. */
static void
fill_buckets(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks, Buckets *buckets)
{
	int			nrows = gathered->nrows;
	uint64	   *hashes = MemoryContextAllocHuge(CurrentMemoryContext, sizeof(uint64) * nrows);
	uint32		sum = 0;
	int			row = 0;

	buckets->n = HASHES_BUCKETS(nrows);
	buckets->ends = palloc0(sizeof(uint32) * buckets->n);
	buckets->entries = palloc(sizeof(uint16) * nrows);
	for (int i = 0; i < nrows; i++)
	{
		if (column->nulls[i])
			continue;
		hashes[i] = hashes_of_value(column->type.hashed_as, column->values[i]);
		buckets->ends[HASHES_BUCKET(hashes[i], buckets->n)]++;
	}
	/* where each bucket begins, which becomes where it ends */
	for (uint32 b = 0; b < buckets->n; b++)
	{
		uint32		entries = buckets->ends[b];

		buckets->ends[b] = sum;
		sum += entries;
	}
	for (int block = 0; block < gathered->nblocks; block++)
	{
		for (int end = row + gathered->rows[block]; row < end; row++)
		{
			if (!column->nulls[row])
				buckets->entries[buckets->ends[HASHES_BUCKET(hashes[row], buckets->n)]++] =
					HASHES_ENTRY(hashes[row], HASHES_GROUP(block, segment_blocks));
		}
	}
	Assert(row == nrows);
	pfree(hashes);
}

/*
 * Sort each bucket, and leave out entries that are there twice.  Returns how
 * many different hashes there are, as far as entries tell; 0 if a bucket is too
 * long.
 */
static uint32
sort_buckets(Buckets *buckets)
{
	uint32		begin = 0;
	uint32		kept = 0;
	uint32		different = 0;

	for (uint32 b = 0; b < buckets->n; b++)
	{
		uint16	   *entries = buckets->entries + begin;
		int			n = buckets->ends[b] - begin;

		if (n > HASHES_LONGEST)
			return 0;
		sort_entries(entries, n);
		for (int i = 0; i < n; i++)
		{
			if (i > 0 && entries[i] == entries[i - 1])
				continue;
			different += i == 0 || HASHES_BITS(entries[i]) != HASHES_BITS(entries[i - 1]);
			/* never ahead of what is read */
			buckets->entries[kept++] = entries[i];
		}
		begin = buckets->ends[b];
		buckets->ends[b] = kept;
	}
	return different;
}

/* Do integers in each group of blocks span much of what they do in the segment? */
static bool
is_spread(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks, const StoredColumn *stored)
{
	double		span = (double) stored->max - (double) stored->min;
	double		sum = 0;
	int			ngroups = 0;
	int			row = 0;
	int			block = 0;

	while (block < gathered->nblocks)
	{
		int			group = HASHES_GROUP(block, segment_blocks);
		int64		min = PG_INT64_MAX;
		int64		max = PG_INT64_MIN;

		for (; block < gathered->nblocks && HASHES_GROUP(block, segment_blocks) == group; block++)
		{
			for (int end = row + gathered->rows[block]; row < end; row++)
			{
				if (column->nulls[row])
					continue;
				min = Min(min, DatumGetInt64(column->values[row]));
				max = Max(max, DatumGetInt64(column->values[row]));
			}
		}
		if (min > max)
			continue;
		sum += (double) max - (double) min;
		ngroups++;
	}
	return ngroups > 0 && sum / ngroups >= HASHES_LEAST_SPAN * span;
}

/* Can equality with a value of this column leave out much that least and greatest do not? */
static bool
may_pay(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks, const StoredColumn *stored)
{
	if (!OidIsValid(column->type.hashed_as) || gathered->nrows < HASHES_LEAST_ROWS)
		return false;
	switch (stored->kind)
	{
		case COLUMN_INTEGERS:
			return stored->width == sizeof(int64) && is_spread(column, gathered, segment_blocks, stored);
		case COLUMN_CODES:
			/* comparing the entries of a smaller dictionary takes little */
			return stored->width == sizeof(uint16) &&
				stored->dictionary_size >= gathered->nrows / HASHES_MOST_GROUPS;
		case COLUMN_DATUMS:
			return true;
		default:
			return false;
	}
}

/*
 * Append the table of hashes of a column that takes `takes` bytes without, if
 * it may pay. Memory is that of the current context.
 */
void
hashes_append(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks, Size takes,
			  StoredColumn *stored, StringInfo bytes)
{
	Buckets		buckets;
	uint32		different;
	uint32		nentries;
	uint32		begin = 0;
	uint32		place = 0;

	if (!may_pay(column, gathered, segment_blocks, stored))
		return;
	fill_buckets(column, gathered, segment_blocks, &buckets);
	different = sort_buckets(&buckets);
	nentries = buckets.ends[buckets.n - 1];
	if (different > 0 && nentries <= different * HASHES_MOST_GROUPS &&
		HASHES_PLACES(buckets.n) + (buckets.n + (Size) nentries) * sizeof(uint16) <= HASHES_MOST_BYTES(takes))
	{
		Assert(bytes->len % 8 == 0);
		stored->flags |= STORED_HASHES;
		stored->hashes = bytes->len;
		appendBinaryStringInfo(bytes, (char *) &place, sizeof(place));
		for (uint32 b = 0; b < buckets.n; b++)
		{
			place = b + 1 + buckets.ends[b];
			appendBinaryStringInfo(bytes, (char *) &place, sizeof(place));
		}
		for (uint32 b = 0; b < buckets.n; b++)
		{
			const uint16 *entries = buckets.entries + begin;
			int			n = buckets.ends[b] - begin;
			uint16		check = hashes_check(b, entries, n);

			appendBinaryStringInfo(bytes, (char *) &check, sizeof(check));
			appendBinaryStringInfo(bytes, (char *) entries, n * sizeof(uint16));
			begin = buckets.ends[b];
		}
	}
	pfree(buckets.ends);
	pfree(buckets.entries);
}
