/*-------------------------------------------------------------------------
 *
 * segments.h
 *	  What the files of the source of segments share.
 *
 *	segments.c			which blocks are read where
 *	segment_values.c	the values of a batch that is from the index
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_VECTOR_SEGMENTS_H
#define PGBILLION_VECTOR_SEGMENTS_H

#include "nodes/execnodes.h"
#include "port/atomics.h"

#include "column_index/column_index.h"
#include "vector/source/heap.h"
#include "vector/source/source.h"

/* What EXPLAIN ANALYZE tells. */
typedef enum Count
{
	SEGMENTS_READ,				/* with a block of columns at least */
	SEGMENTS_SKIPPED,
	BLOCKS_INDEX,
	BLOCKS_SKIPPED,
	BLOCKS_HEAP,				/* of which */
	BLOCKS_NOT_VISIBLE,
	BLOCKS_STALE,
	BLOCKS_NOT_ENCODED,
	BLOCKS_REPLACED,
	ROWS_FETCHED,				/* from the heap, as the index knows of them */
	BLOCKS_FETCHED,				/* which they are in, counted once a batch */
	NCOUNTS
} Count;

/* What processes of a parallel plan share; what the heap's source shares follows. */
typedef struct SharedSegments
{
	bool		segmented;		/* the leader reads the index */
	bool		backward;
	BlockNumber nblocks;
	uint32		segment_blocks;
	pg_atomic_uint64 next;		/* the next segment */
	pg_atomic_uint64 counts[NCOUNTS];
} SharedSegments;

/* What the source knows of a column of the batch. */
typedef struct SegmentColumn
{
	/* the segment */
	const Datum *dictionary;	/* once it was needed */

	/* the window */
	bool		prepared;
	bool		nulls_prepared; /* `nulls`, if nothing else is */
	const char *array;			/* an element per row, or NULL */
	const bool *nulls;			/* NULL: no row is NULL */
	Datum	   *datums;			/* COLUMN_DATUMS: decoded */
	bool	   *datum_nulls;

	/* what was made of it for the rows that are left, with room for it */
	char	   *kept;			/* elements, if `is_kept` */
	bool		is_kept;
	bool	   *kept_nulls;		/* if `has_kept_nulls` */
	bool		has_kept_nulls;
	uint8	   *codes;			/* if `has_codes` */
	uint16	   *long_codes;
	bool		has_codes;
} SegmentColumn;

/* Where a block of the segment is read. */
typedef enum Place
{
	IN_HEAP,
	IN_INDEX,
	NOWHERE						/* the filter keeps no row of it */
} Place;

typedef struct SegmentSource
{
	Source		source;
	Source	   *heap;
	HeapExpressions *expressions;	/* by which the heap's rows have columns
									 * that are expressions, or NULL */
	Relation	rel;
	Relation	index;
	EState	   *estate;
	MemoryContext context;		/* the plan's */
	int			ncolumns;		/* of the batch, without that of places */
	int		   *attributes;		/* of the index, in the order of the batch's
								 * columns */
	SegmentColumn *columns;
	int			order;			/* column by which segments with the smallest
								 * values should come first, or -1; */
	bool		descending;		/* or those with the largest */
	SharedSegments *shared;		/* or NULL */
	bool		in_worker;

	/* the scan */
	bool		begun;
	bool		segmented;		/* else all is left to the heap's source */
	ColumnReader *reader;		/* or NULL: there is only the heap */
	const char *declined;		/* why, if it may not be read */
	bool		lacks_column;	/* ... ever, as it has not all that are needed */
	BlockNumber nblocks;
	uint32		segment_blocks;
	uint64		next_segment;	/* without shared memory */
	bool		backward;		/* the last segment is the first to be read */
	uint64		counts[NCOUNTS];

	/* the segment */
	const ColumnSegment *segment;	/* NULL: the next is to be begun */
	BlockNumber first_block;
	int			nsegment;		/* blocks of it */
	int			block;			/* the next one of it */
	uint8		places[COLUMNS_MAX_BLOCKS]; /* Place of each block */
	int			nsought;		/* blocks that are nowhere */
	BlockNumber list[COLUMNS_MAX_BLOCKS];	/* what the heap's source is to
											 * give */
	uint64		serial;			/* of the dictionary of its first column */

	/* the batch */
	bool		from_heap;
	int			batch_block;	/* its first block */
	uint32		first_row;
	int			nrows;			/* of the window: before rows were removed */
	bool		selected;		/* some were: */
	uint16		rows[BATCH_ROWS];	/* those of the window that are left */

	/*
	 * rows in the table's own form, if `returns_rows`, or with their places,
	 * by which they are fetched later
	 */
	bool		returns_rows;
	int			place;			/* the batch's last column, which says where
								 * rows are, or -1 */
	bool		read_only;		/* does the statement only read the table? */
	int			nleft;			/* rows of the batch that are left */
	RowPlace   *rows_at;		/* of the window's rows, as far as they were
								 * located */
	RowPlace   *left;			/* of the rows that are left, if `listed` */
	bool		listed;
	RowFetch   *fetch;			/* or NULL: none was stored yet */
} SegmentSource;

/* ---- segment_values.c ---- */

extern bool segment_needs_values(const SegmentSource *source, const Batch *batch, int index);
extern bool segment_load_window(SegmentSource *source, int index);
extern bool segment_load_nulls(SegmentSource *source, int index);
extern bool segment_find_nulls(const SegmentSource *source, const Batch *batch, int index, bool *nulls);
extern void segment_load(SegmentSource *source, Batch *batch, int index);
extern bool segment_packed(SegmentSource *source, Batch *batch, int index, bool with_nulls, Packed *result);
extern bool segment_bounds(SegmentSource *source, Batch *batch, int index, Bounds *result);
extern bool segment_codes(SegmentSource *source, Batch *batch, int index, Codes *result);

#endif							/* PGBILLION_VECTOR_SEGMENTS_H */
