/*-------------------------------------------------------------------------
 *
 * row_chunks.h
 *	  Rows that are kept for sorting, one behind the other in chunks of memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_SORT_ROW_CHUNKS_H
#define PGBILLION_SORT_ROW_CHUNKS_H

#include "sort/row_format.h"

typedef struct RowChunk
{
	char	   *memory;
	Size		size;
	Size		used;
} RowChunk;

typedef struct RowChunks
{
	MemoryContext context;		/* of the chunks' memory, and nothing else */
	const RowFormat *format;
	Size		most;			/* bytes of a chunk, unless a row needs more */
	int			n;
	int			room;			/* of the array */
	int			current;		/* chunk that is being filled, or -1 */
	RowChunk   *chunks;
	int64		nrows;
	Size		bytes;			/* of the rows */
} RowChunks;

/* Goes from row to row in the order in which they were added. */
typedef struct RowCursor
{
	const RowChunks *rows;
	int			chunk;
	char	   *at;
	char	   *end;			/* of the chunk's rows */
} RowCursor;

struct Column;

extern void row_chunks_init(RowChunks *rows, const RowFormat *format, Size most);
extern char *row_chunks_add(RowChunks *rows, Size size);
extern void row_chunks_add_columns(RowChunks *rows, struct Column *const *columns, int first, int n);
extern void row_chunks_forget(RowChunks *rows);
extern void row_chunks_reset(RowChunks *rows);

static inline void
row_cursor_begin(RowCursor *cursor, const RowChunks *rows)
{
	cursor->rows = rows;
	cursor->chunk = -1;
	cursor->at = cursor->end = NULL;
}

/* The next row; the caller knows that there is one. */
static inline char *
row_cursor_next(RowCursor *cursor)
{
	char	   *row;

	while (unlikely(cursor->at == cursor->end))
	{
		const RowChunk *chunk = &cursor->rows->chunks[++cursor->chunk];

		Assert(cursor->chunk < cursor->rows->n);
		cursor->at = chunk->memory;
		cursor->end = chunk->memory + chunk->used;
	}
	row = cursor->at;
	cursor->at += row_size(cursor->rows->format, row);
	return row;
}

#endif							/* PGBILLION_SORT_ROW_CHUNKS_H */
