/*-------------------------------------------------------------------------
 *
 * row_chunks.c
 *	  Add rows, one behind the other, to chunks of memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "sort/row_chunks.h"
#include "vector/batch.h"
#include "vector/huge_pages.h"

#define MIN_CHUNK_BYTES ((Size) 64 * 1024)
#define MAX_CHUNK_BYTES ((Size) 32 * 1024 * 1024)

/*
 * Rows of this format, in chunks of no more than `most` bytes where that is
 * possible. Their memory is a context within the current one.
 */
void
row_chunks_init(RowChunks *rows, const RowFormat *format, Size most)
{
	rows->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion sorted rows", ALLOCSET_DEFAULT_SIZES);
	rows->format = format;
	rows->most = Min(Max(most, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES);
	rows->current = -1;
	rows->room = 16;
	rows->chunks = palloc(sizeof(RowChunk) * rows->room);
}

/* Have the current chunk be one with room for a row. */
static void
next_chunk(RowChunks *rows, Size size)
{
	RowChunk   *chunk;

	while (++rows->current < rows->n)
	{
		if (rows->chunks[rows->current].size >= size)
			return;
	}
	if (rows->n == rows->room)
	{
		rows->room *= 2;
		rows->chunks = repalloc(rows->chunks, sizeof(RowChunk) * rows->room);
	}
	chunk = &rows->chunks[rows->n];
	chunk->size = rows->n == 0 ? MIN_CHUNK_BYTES : rows->chunks[rows->n - 1].size * 2;
	chunk->size = Max(Min(chunk->size, rows->most), size);
	chunk->used = 0;
	chunk->memory = MemoryContextAllocHuge(rows->context, chunk->size);
	ask_for_huge_pages(chunk->memory, chunk->size);
	rows->n++;
}

/* The current chunk, which has room for a row of this size. */
static inline RowChunk *
chunk_for(RowChunks *rows, Size size)
{
	if (rows->current < 0 || rows->chunks[rows->current].size - rows->chunks[rows->current].used < size)
		next_chunk(rows, size);
	return &rows->chunks[rows->current];
}

/* Room for a further row of this size, which the caller writes. */
char *
row_chunks_add(RowChunks *rows, Size size)
{
	RowChunk   *chunk = chunk_for(rows, size);
	char	   *row = chunk->memory + chunk->used;

	chunk->used += size;
	rows->bytes += size;
	rows->nrows++;
	return row;
}

/* Add n rows of one size from rows of a batch, from `first` on. */
void
row_chunks_add_columns(RowChunks *rows, struct Column *const *columns, int first, int n)
{
	Size		size = rows->format->size;

	Assert(size > 0);
	while (n > 0)
	{
		RowChunk   *chunk = chunk_for(rows, size);
		int			some = (int) Min(n, (chunk->size - chunk->used) / size);

		row_format_write_columns(rows->format, chunk->memory + chunk->used, columns, first, some);
		chunk->used += some * size;
		rows->bytes += some * size;
		rows->nrows += some;
		first += some;
		n -= some;
	}
}

/* Forget the rows; chunks stay. */
void
row_chunks_forget(RowChunks *rows)
{
	for (int i = 0; i < rows->n; i++)
		rows->chunks[i].used = 0;
	rows->current = rows->n > 0 ? 0 : -1;
	rows->nrows = 0;
	rows->bytes = 0;
}

/* Forget the rows and free the chunks. */
void
row_chunks_reset(RowChunks *rows)
{
	MemoryContextReset(rows->context);
	rows->n = 0;
	row_chunks_forget(rows);
}
