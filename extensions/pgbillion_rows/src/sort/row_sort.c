/*-------------------------------------------------------------------------
 *
 * row_sort.c
 *	  Rows in, and rows out in order.
 *
 * Rows are written one behind the other into chunks of memory. Once all are
 * there, an array of entries is made of them and sorted. If they need more
 * memory than there is, each memoryful is sorted and written to a file before.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "sort/runs.h"
#include "sort/sort_key.h"
#include "vector/huge_pages.h"

#define MIN_CHUNK_BYTES ((Size) 64 * 1024)
#define MAX_CHUNK_BYTES ((Size) 32 * 1024 * 1024)

/* A row takes this memory while it is sorted, beside itself. */
#define ENTRY_BYTES sizeof(RowEntry)

typedef struct Chunk
{
	char	   *memory;
	Size		size;
	Size		used;
} Chunk;

struct RowSort
{
	MemoryContext context;		/* all of it */
	MemoryContext rows;			/* chunks, and entries */
	RowFormat  *format;
	SortKeys   *keys;
	Size		limit;
	int			nchunks;
	int			room;			/* of the array of chunks */
	int			current;		/* chunk that is being filled */
	Chunk	   *chunks;
	int64		n;				/* rows in memory */
	Size		bytes;			/* of them */
	RowEntry   *entries;		/* once they have been sorted */
	int64		next;			/* entry to be returned */
	Runs	   *runs;			/* NULL: all is in memory */
	RowSortReport report;
};

/*
 * Sorts rows of this description by these keys, in a memory context of its own
 * within the current one. Raises PostgreSQL's error if strings have no
 * collation.
 */
RowSort *
row_sort_create(TupleDesc tupdesc, int nkeys, const AttrNumber *columns, const Oid *operators,
				const Oid *collations, const bool *nulls_first, Size limit)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sort", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);
	RowSort    *sort = palloc0(sizeof(RowSort));

	sort->context = context;
	sort->rows = AllocSetContextCreate(context, "pgbillion sorted rows", ALLOCSET_DEFAULT_SIZES);
	sort->format = row_format_create(tupdesc);
	sort->keys = sort_keys_create(tupdesc, sort->format, nkeys, columns, operators, collations, nulls_first);
	sort->limit = limit;
	sort->current = -1;
	sort->room = 16;
	sort->chunks = palloc(sizeof(Chunk) * sort->room);
	MemoryContextSwitchTo(old);
	return sort;
}

const RowFormat *
row_sort_format(const RowSort *sort)
{
	return sort->format;
}

/* ---- in memory ---- */

static Size
memory_used(const RowSort *sort)
{
	return sort->bytes + sort->n * ENTRY_BYTES;
}

/* Have room for a row in the current chunk. */
static void
next_chunk(RowSort *sort, Size size)
{
	Chunk	   *chunk;

	while (++sort->current < sort->nchunks)
	{
		if (sort->chunks[sort->current].size >= size)
			return;
	}
	if (sort->nchunks == sort->room)
	{
		sort->room *= 2;
		sort->chunks = repalloc(sort->chunks, sizeof(Chunk) * sort->room);
	}
	chunk = &sort->chunks[sort->nchunks++];
	chunk->size = sort->nchunks == 1 ? MIN_CHUNK_BYTES : Min(sort->chunks[sort->nchunks - 2].size * 2, MAX_CHUNK_BYTES);
	chunk->size = Max(Min(chunk->size, Max(sort->limit / 4, MIN_CHUNK_BYTES)), size);
	chunk->used = 0;
	chunk->memory = MemoryContextAllocHuge(sort->rows, chunk->size);
	ask_for_huge_pages(chunk->memory, chunk->size);
}

/* Make and sort the entries of the rows in memory. */
static void
sort_rows(RowSort *sort)
{
	RowEntry   *entries = MemoryContextAllocHuge(sort->rows, Max(sort->n, 1) * sizeof(RowEntry));
	int64		n = 0;
	int			first;
	int			bits;

	ask_for_huge_pages(entries, Max(sort->n, 1) * sizeof(RowEntry));
	for (int i = 0; i < sort->nchunks; i++)
	{
		Chunk	   *chunk = &sort->chunks[i];

		for (Size at = 0; at < chunk->used; at += row_size(sort->format, chunk->memory + at))
			entries[n++] = (RowEntry)
		{
			0, chunk->memory + at
		};
	}
	Assert(n == sort->n);
	first = sort_keys_number(sort->keys, entries, n, &bits);
	radix_sort(entries, n, bits);
	if (first < sort->keys->n && sort_ties(sort->keys, entries, n, first))
		sort->report.compared = true;
	sort->entries = entries;
	sort->next = 0;
	sort->report.memory = Max(sort->report.memory, (int64) memory_used(sort));
}

/* Forget the rows in memory; chunks stay. */
static void
forget_rows(RowSort *sort)
{
	if (sort->entries != NULL)
		pfree(sort->entries);
	sort->entries = NULL;
	for (int i = 0; i < sort->nchunks; i++)
		sort->chunks[i].used = 0;
	sort->current = sort->nchunks > 0 ? 0 : -1;
	sort->n = 0;
	sort->bytes = 0;
}

/* ---- runs ---- */

/* Write the rows in memory to a file. */
static void
write_run(RowSort *sort)
{
	MemoryContext old;

	if (sort->runs == NULL)
	{
		old = MemoryContextSwitchTo(sort->context);
		sort->runs = runs_create(sort->keys, sort->limit);
		MemoryContextSwitchTo(old);
	}
	sort_rows(sort);
	runs_add(sort->runs, sort->entries, sort->n);
	forget_rows(sort);
}

/* ---- rows ---- */

/* Add a row, which is copied. */
void
row_sort_put(RowSort *sort, const Datum *values, const bool *nulls)
{
	Size		size = row_format_size(sort->format, values, nulls);
	Chunk	   *chunk;

	if (sort->n > 0 && memory_used(sort) + size + ENTRY_BYTES > sort->limit)
		write_run(sort);
	if (sort->current < 0 || sort->chunks[sort->current].size - sort->chunks[sort->current].used < size)
		next_chunk(sort, size);
	chunk = &sort->chunks[sort->current];
	row_format_write(sort->format, chunk->memory + chunk->used, size, values, nulls);
	chunk->used += size;
	sort->bytes += size;
	sort->n++;
}

/* Bytes of memory that the rows take. */
Size
row_sort_memory(const RowSort *sort)
{
	return memory_used(sort);
}

/* All rows have been added: sort them. */
void
row_sort_perform(RowSort *sort)
{
	if (sort->runs == NULL)
	{
		sort_rows(sort);
		return;
	}
	if (sort->n > 0)
		write_run(sort);
	/* chunks, whose memory is for the buffers now */
	forget_rows(sort);
	MemoryContextReset(sort->rows);
	sort->nchunks = 0;
	sort->current = -1;
	runs_begin(sort->runs);
	sort->report.disk = runs_written(sort->runs, &sort->report.runs);
}

/* The rows in order, if all are in memory; else NULL. */
RowEntry *
row_sort_entries(RowSort *sort, int64 *n)
{
	*n = sort->n;
	return sort->runs == NULL ? sort->entries : NULL;
}

/* The next row in order, valid until the next call, or NULL. */
char *
row_sort_next(RowSort *sort)
{
	if (sort->runs != NULL)
		return runs_next(sort->runs);
	if (sort->next == sort->n)
		return NULL;
	if (sort->next + 16 < sort->n)
		__builtin_prefetch(sort->entries[sort->next + 16].row);
	return sort->entries[sort->next++].row;
}

/* Begin with the first row again. */
void
row_sort_rewind(RowSort *sort)
{
	if (sort->runs != NULL)
		runs_begin(sort->runs);
	sort->next = 0;
}

/* Forget all rows, and what was reported of them. */
void
row_sort_reset(RowSort *sort)
{
	memset(&sort->report, 0, sizeof(RowSortReport));
	sort->next = 0;
	forget_rows(sort);
	if (sort->runs == NULL && sort->nchunks <= 1)
		return;
	if (sort->runs != NULL)
	{
		runs_end(sort->runs);
		sort->runs = NULL;
	}
	MemoryContextReset(sort->rows);
	sort->nchunks = 0;
	sort->current = -1;
}

/* Close files, and free everything. */
void
row_sort_end(RowSort *sort)
{
	row_sort_reset(sort);
	MemoryContextDelete(sort->context);
}

RowSortReport
row_sort_report(const RowSort *sort)
{
	return sort->report;
}
