/*-------------------------------------------------------------------------
 *
 * column_index.h
 *	  The index access method `columns`: columns of a table beside its heap.
 *
 * The heap stays the only truth. An index holds a copy of some columns, by
 * segments of as many heap blocks as its metapage says, and of each block
 * whether that copy is still right. This header is what the planner and a
 * scan need; store.h is what the files of the access method share.
 *
 * How to read, in short:
 *
 *	reader = column_reader_begin(heap, index, snapshot, columns, n, &why);
 *	for each segment
 *		segment = column_reader_segment(reader, number, heap blocks of the scan);
 *		for runs of blocks with segment->valid[i]
 *			column_reader_load() or column_reader_decode() of each column;
 *			if one returns false, the segment was replaced: read these blocks,
 *			and all others that are left of the segment, from the heap
 *		all other blocks: from the heap
 *	column_reader_end(reader);
 *
 * A run is a number of whole blocks, so that what has been aggregated never
 * has to be taken back. What was loaded before a replacement stays right.
 * The rows of a block are in the order in which the heap had them when the
 * block was encoded; a HOT update of other columns may have moved them since.
 * column_reader_lines() and column_row_find() find them wherever they are.
 *
 * Nothing that a reader returns points into a buffer: it holds no pin and no
 * lock between two calls.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_COLUMN_INDEX_H
#define PGBILLION_COLUMN_INDEX_H

#include "postgres.h"

#include "access/htup.h"
#include "compat.h"
#include "nodes/pathnodes.h"
#include "storage/block.h"
#include "storage/buf.h"
#include "storage/off.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

/* Heap blocks of a segment: a power of two, chosen when the index is built. */
#define COLUMNS_MIN_BLOCKS 32
#define COLUMNS_MAX_BLOCKS 1024

/* In which form a column is in a segment. */
typedef enum ColumnKind
{
	COLUMN_ABSENT,				/* it is not: all blocks are read from the
								 * heap where it is needed */
	COLUMN_ALL_NULL,
	COLUMN_CONSTANT,			/* rows that are not NULL are dictionary[0] */
	COLUMN_CODES,				/* uint8 or uint16 numbers of dictionary
								 * entries */
	COLUMN_INTEGERS,			/* base + uint8, uint16, uint32 or uint64,
								 * modulo 2^64; the sum is the value's int64.
								 * Of width 1 they are codes, too: of a
								 * dictionary base, base + 1, ... */
	COLUMN_DECIMALS,			/* the same in units of 10^-scale: numerics
								 * that all have `scale` digits to be shown */
	COLUMN_FLOAT4,
	COLUMN_FLOAT8,
	COLUMN_DATUMS				/* no array: column_reader_decode() only */
} ColumnKind;

/* What min and max are. */
typedef enum ColumnOrder
{
	COLUMN_NO_ORDER,			/* none are known */
	COLUMN_ORDER_INTEGER,		/* min and max; also of dates, times,
								 * timestamps, booleans and money. Decimals:
								 * in units of 10^-scale */
	COLUMN_ORDER_FLOAT			/* float_min and float_max; no NaN is among
								 * the rows */
} ColumnOrder;

/*
 * A column of the segment that a reader is at.  Min and max are of all rows of
 * the segment that are not NULL, also of blocks that are not valid.
 */
typedef struct ColumnState
{
	ColumnKind	kind;
	int			width;			/* bytes of an element of the array, or 0 */
	bool		has_nulls;		/* false: no row is NULL */
	int			scale;			/* COLUMN_DECIMALS */
	int64		base;			/* COLUMN_INTEGERS, COLUMN_DECIMALS */
	int			dictionary_size;	/* of column_reader_dictionary(), or 0 */
	ColumnOrder order;
	int64		min;
	int64		max;
	float8		float_min;
	float8		float_max;
	bool		has_hashes;		/* column_reader_find() */
} ColumnState;

typedef struct ColumnSegment
{
	BlockNumber first_block;
	int			nblocks;		/* fewer than others at the scan's end */
	int			nvalid;			/* blocks that may be read here; 0: what
								 * follows the next three is undefined, but
								 * valid[] is false */
	int			nnot_visible;	/* why others are not, each counted once: not
								 * all-visible, */
	int			nstale;			/* else changed since, or never encoded, in a
								 * segment that is encoded, */
	int			nabsent;		/* else in one that is not */
	int			nrows;			/* of all blocks, valid or not */
	bool		valid[COLUMNS_MAX_BLOCKS];
	uint16		rows[COLUMNS_MAX_BLOCKS];	/* of each block */
	uint32		first_row[COLUMNS_MAX_BLOCKS + 1];	/* its first row's number
													 * in the segment */
	const ColumnState *columns; /* in the order of column_reader_begin() */
} ColumnSegment;

/*
 * A run of rows of one column, as an array of its kind.  Valid until the same
 * column is loaded or decoded again, or the next segment.  Elements of rows
 * that are NULL are of no meaning, but valid codes.
 */
typedef struct ColumnRun
{
	const void *array;			/* `width` bytes an element, aligned to them;
								 * NULL for COLUMN_ALL_NULL, _CONSTANT */
	const bool *nulls;			/* NULL: none of these rows is */
} ColumnRun;

/* Element i of an array of unsigned integers. */
static inline uint64
column_element(const void *array, int width, int i)
{
	switch (width)
	{
		case 1:
			return ((const uint8 *) array)[i];
		case 2:
			return ((const uint16 *) array)[i];
		case 4:
			return ((const uint32 *) array)[i];
		default:
			return ((const uint64 *) array)[i];
	}
}

typedef struct ColumnReader ColumnReader;

/* options.c: called once by _PG_init() */
extern void columns_init(void);

/* read.c */
extern ColumnReader *column_reader_begin(Relation heap, Relation index, Snapshot snapshot,
										 const int *columns, int ncolumns, const char **why);
extern int	column_reader_segment_blocks(const ColumnReader *reader);
extern const ColumnSegment *column_reader_segment(ColumnReader *reader, BlockNumber segment,
												  BlockNumber heap_blocks);
extern bool column_reader_load(ColumnReader *reader, int column, uint32 first_row, int nrows,
							   ColumnRun *run);
extern bool column_reader_nulls(ColumnReader *reader, int column, uint32 first_row, int nrows, const bool **nulls);
extern bool column_reader_decode(ColumnReader *reader, int column, uint32 first_row, int nrows,
								 const uint16 *wanted, int nwanted, Datum *values, bool *nulls, bool *has_nulls);
extern const Datum *column_reader_dictionary(ColumnReader *reader, int column);
extern bool column_reader_find(ColumnReader *reader, int column, Oid type, const Datum *values, int n,
							   uint64 *groups);
extern int	column_reader_group(const ColumnReader *reader, int block);
extern bool column_reader_has_lines(const ColumnReader *reader);
extern bool column_reader_lines(ColumnReader *reader, int block, OffsetNumber *lines);
pg_noreturn extern void column_reader_misled(ColumnReader *reader);
extern void column_reader_end(ColumnReader *reader);

/* heap_row.c */
extern bool column_row_find(Relation heap, Buffer buffer, Snapshot snapshot, OffsetNumber line, HeapTuple row);

/* expressions.c */
extern List *column_expressions(Relation index, Index varno);
extern List *column_expressions_replace(List *exprs, List *expressions, Index varno, int natts);
extern TupleDesc column_expressions_tupdesc(TupleDesc table, List *expressions);
extern int	column_index_place(Relation index, int natts, AttrNumber attno);

/* What the planner asks of an index; a guess, and without any promise. */
typedef struct ColumnEstimate
{
	int			segment_blocks;
	double		valid_share;	/* of the heap's blocks: encoded, not stale */
	double		pages_per_block;	/* index pages of all columns for one heap
									 * block that is encoded */
	uint32		hashed;			/* bit i: column_reader_find() finds values of
								 * column i, counted from 0 */
} ColumnEstimate;

/* In how many parts of a segment values are found, and how many of these are found by mistake. */
#define COLUMN_FOUND_PARTS 64
#define COLUMN_FOUND_WRONGLY (1.0 / 4096)

StaticAssertDecl(INDEX_MAX_KEYS <= 32, "a bit for each column");

/* estimate.c */
extern bool column_index_is_ours(const IndexOptInfo *info);
extern bool column_index_usable(Relation index);
extern void column_index_estimate(Relation index, BlockNumber heap_blocks, BlockNumber index_blocks,
								  ColumnEstimate *estimate);

#endif							/* PGBILLION_COLUMN_INDEX_H */
