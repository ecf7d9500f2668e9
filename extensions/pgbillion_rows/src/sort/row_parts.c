/*-------------------------------------------------------------------------
 *
 * row_parts.c
 *	  Many short rows in order, a part of them at a time.
 *
 * Addresses in order lead to rows at random places, and each of many rows is
 * waited for. So the rows themselves are moved first, to parts by the first bits
 * of their first key. A part is sorted when its first row is wanted, and fits
 * the processor's cache then. Parts take the memory of the chunks whose rows
 * have been moved, block by block: the kernel need not clear other pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "sort/sort_key.h"

/* Rows that take less than this, or of which each takes more, are not split. */
#define MIN_BYTES ((Size) 8 * 1024 * 1024)
#define MAX_ROW_BYTES 64

/* Bytes of a part, and number of parts. */
#define PART_BYTES ((Size) 256 * 1024)
#define MAX_PARTS 1024

/* What a part grows by, and what is allocated for such at a time. */
#define BLOCK_BYTES ((Size) 8 * 1024)
#define SLAB_BYTES ((Size) 1024 * 1024)

/* Rows whose parts are found together. */
#define ROWS_AT_A_TIME 512

/* Rows that are looked at to see whether they are of many parts. */
#define SAMPLE_ROWS 1024

/* Where the next row of a part goes, and where its block ends. */
typedef struct PartEnd
{
	char	   *at;
	char	   *end;
} PartEnd;

struct RowParts
{
	MemoryContext context;		/* all of it, except memory of the chunks */
	SortKeys   *keys;
	KeyParts	by;
	RowChunks  *parts;
	PartEnd    *ends;
	int			next;			/* part to be sorted */
	char	  **sorted;			/* rows of the part before */

	/* memory for blocks: */
	char	   *free;
	char	   *free_end;
	int			nchunks;		/* chunks that can be taken for it */
	int			taken;			/* ... and have been */
	const RowChunk *chunks;
};

/* ---- blocks ---- */

/* Have memory for a block. */
static void
find_memory(RowParts *parts)
{
	while (parts->free_end - parts->free < BLOCK_BYTES)
	{
		Size		size = SLAB_BYTES;

		if (parts->taken < parts->nchunks)
		{
			parts->free = parts->chunks[parts->taken].memory;
			size = parts->chunks[parts->taken++].size;
		}
		else
			parts->free = MemoryContextAlloc(parts->context, size);
		parts->free_end = parts->free + size;
	}
}

/* A part's block has no room for a further row: begin the next one. */
static void
begin_block(RowParts *parts, int part)
{
	RowChunks  *rows = &parts->parts[part];
	PartEnd    *end = &parts->ends[part];

	if (rows->n > 0)
		rows->chunks[rows->n - 1].used = end->at - rows->chunks[rows->n - 1].memory;
	if (rows->n == rows->room)
	{
		rows->room = Max(rows->room * 2, 4);
		rows->chunks = rows->chunks == NULL ? MemoryContextAlloc(parts->context, sizeof(RowChunk) * rows->room) :
			repalloc_huge(rows->chunks, sizeof(RowChunk) * rows->room);
	}
	find_memory(parts);
	rows->chunks[rows->n++] = (RowChunk)
	{
		.memory = parts->free,.size = BLOCK_BYTES
	};
	end->at = parts->free;
	parts->free += BLOCK_BYTES;
	end->end = parts->free;
}

/* ---- moving rows ---- */

/* Move rows of a size to their parts. */
static pg_attribute_always_inline void
move_rows_of_size(RowParts *parts, const char *row, int n, const uint16 *part, Size size)
{
	for (int i = 0; i < n; i++, row += size)
	{
		PartEnd    *end = &parts->ends[part[i]];

		if (unlikely(end->end - end->at < size))
			begin_block(parts, part[i]);
		memcpy(end->at, row, size);
		end->at += size;
	}
}

static void
move_rows(RowParts *parts, const char *row, int n, Size size)
{
	uint16		part[ROWS_AT_A_TIME];

	sort_keys_find_parts(parts->keys, &parts->by, row, n, part);
	/* what is known when this is compiled is moved without a call */
	switch (size)
	{
		case 8:
			move_rows_of_size(parts, row, n, part, 8);
			break;
		case 12:
			move_rows_of_size(parts, row, n, part, 12);
			break;
		case 16:
			move_rows_of_size(parts, row, n, part, 16);
			break;
		case 24:
			move_rows_of_size(parts, row, n, part, 24);
			break;
		case 32:
			move_rows_of_size(parts, row, n, part, 32);
			break;
		default:
			move_rows_of_size(parts, row, n, part, size);
			break;
	}
}

/* Are more than half of some rows of one part? */
static bool
are_mostly_of_one(SortKeys *keys, const KeyParts *by, const RowChunks *rows)
{
	const Size	size = rows->format->size;
	const int64 step = Max(rows->nrows / SAMPLE_ROWS, 1);
	int			counts[MAX_PARTS + 1] = {0};
	int64		i = 0;
	int			n = 0;
	int			most = 0;

	for (int c = 0; c < rows->n; c++)
	{
		int64		nrows = rows->chunks[c].used / size;

		for (; i < nrows; i += step, n++)
		{
			uint16		part;

			sort_keys_find_parts(keys, by, rows->chunks[c].memory + i * size, 1, &part);
			most = Max(most, ++counts[part]);
		}
		i -= nrows;
	}
	return most > n / 2;
}

/*
 * Split rows, in a context within the current one; NULL if that does not pay. If
 * it does, the rows are no longer where they were, and their chunks must not be
 * used until the parts have ended.
 */
RowParts *
row_parts_split(SortKeys *keys, RowChunks *rows)
{
	const Size	size = rows->format->size;
	MemoryContext context;
	RowParts   *parts;
	KeyParts	by;
	int			most;

	if (size == 0 || size > MAX_ROW_BYTES || rows->bytes < MIN_BYTES)
		return NULL;
	most = (int) Min(pg_nextpower2_64(rows->bytes / PART_BYTES), MAX_PARTS);
	if (!sort_keys_choose_parts(keys, rows, most, &by) || are_mostly_of_one(keys, &by, rows))
		return NULL;
	context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sort parts", ALLOCSET_DEFAULT_SIZES);
	parts = MemoryContextAllocZero(context, sizeof(RowParts));
	parts->context = context;
	parts->keys = keys;
	parts->by = by;
	parts->parts = MemoryContextAllocZero(context, sizeof(RowChunks) * by.n);
	parts->ends = MemoryContextAllocZero(context, sizeof(PartEnd) * by.n);
	parts->chunks = rows->chunks;
	for (int i = 0; i < by.n; i++)
		parts->parts[i].format = rows->format;
	for (int c = 0; c < rows->n; c++)
	{
		int64		n = rows->chunks[c].used / size;

		for (int64 i = 0; i < n; i += ROWS_AT_A_TIME)
		{
			CHECK_FOR_INTERRUPTS();
			move_rows(parts, rows->chunks[c].memory + i * size, (int) Min(n - i, ROWS_AT_A_TIME), size);
		}
		/* its memory is for blocks now */
		parts->nchunks = c + 1;
	}
	for (int i = 0; i < by.n; i++)
	{
		RowChunks  *part = &parts->parts[i];

		if (part->n == 0)
			continue;
		part->chunks[part->n - 1].used = parts->ends[i].at - part->chunks[part->n - 1].memory;
		for (int c = 0; c < part->n; c++)
			part->bytes += part->chunks[c].used;
		part->nrows = part->bytes / size;
	}
	return parts;
}

/* The n rows of the next part in order, valid until the next call; NULL: there are no more. */
char	  **
row_parts_next(RowParts *parts, int64 *n, Size *memory, bool *compared)
{
	if (parts->sorted != NULL)
		pfree(parts->sorted);
	parts->sorted = NULL;
	while (parts->next < parts->by.n && parts->parts[parts->next].nrows == 0)
		parts->next++;
	if (parts->next == parts->by.n)
		return NULL;
	*n = parts->parts[parts->next].nrows;
	parts->sorted = radix_sort(parts->keys, &parts->parts[parts->next++], parts->context, memory, compared);
	return parts->sorted;
}

void
row_parts_end(RowParts *parts)
{
	MemoryContextDelete(parts->context);
}
