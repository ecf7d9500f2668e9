/*-------------------------------------------------------------------------
 *
 * store.h
 *	  How a columnar index lies on disk, and what the files of the access
 *	  method share.
 *
 *	block 0		metapage: blocks per segment, and where the map pages are
 *	map page	where the directory pages are
 *	directory	the entries of some segments: where each one's pages are, and
 *				which of its blocks are stale; and the begin mark
 *	data pages	a segment is a string of bytes (head, then column by column)
 *				that is cut into pages
 *
 * Metapage, map pages and directory pages stay where they are. A segment is
 * encoded anew into free pages, and its entry is switched by one logged change
 * of the directory page. Free pages are those which nothing names: there is no
 * list of them, and a crash loses none.
 *
 * What a page holds lies below pd_lower: generic WAL records zero what lies
 * between pd_lower and pd_upper when they are replayed. No page names its
 * relation, as files of empty indexes are copied.
 *
 * docs/design-columns.md is the proof that a block is read from here only if
 * what is here is what the snapshot sees.
 *
 *-------------------------------------------------------------------------
 */
#ifndef PGBILLION_COLUMN_INDEX_STORE_H
#define PGBILLION_COLUMN_INDEX_STORE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "compat.h"
#include "lib/stringinfo.h"
#include "nodes/execnodes.h"
#include "port/pg_crc32c.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

#include "column_index/column_index.h"

#define STORE_VERSION 5

/*
 * Up to this version, segments do not say at which line pointers their rows
 * are.
 */
#define STORE_VERSION_WITHOUT_LINES 2

/* Up to this version, no values are encoded by tokens. */
#define STORE_VERSION_WITHOUT_TOKENS 3

/* Up to this version, no values have tables of hashes. */
#define STORE_VERSION_WITHOUT_HASHES 4

#define META_BLOCK 0

#define META_MAGIC 0x50674d31
#define MAP_MAGIC 0x50674d32
#define DIRECTORY_MAGIC 0x50674d33
#define DATA_MAGIC 0x50674d34

/* Bytes that a page has for its content. */
#define PAGE_START MAXALIGN(SizeOfPageHeaderData)
#define PAGE_BYTES (BLCKSZ - PAGE_START)

#define BITMAP_BYTES (COLUMNS_MAX_BLOCKS / 8)
#define NO_SEGMENT 0xFFFFFFFF

typedef struct MetaPage
{
	uint32		magic;
	uint32		version;
	uint32		segment_blocks;
	uint32		ncolumns;
	BlockNumber maps[FLEXIBLE_ARRAY_MEMBER];	/* 0: none yet */
} MetaPage;

#define META_MAPS ((PAGE_BYTES - offsetof(MetaPage, maps)) / sizeof(BlockNumber))

typedef struct MapPage
{
	uint32		magic;
	uint32		number;
	BlockNumber directories[FLEXIBLE_ARRAY_MEMBER]; /* 0: none yet */
} MapPage;

#define MAP_DIRECTORIES ((PAGE_BYTES - offsetof(MapPage, directories)) / sizeof(BlockNumber))

/*
 * The begin mark is `encoding`: from before the encoder reads the segment's
 * heap blocks until the entry is switched.  Rows that come meanwhile set
 * their block's bit in `dirty`.
 */
typedef struct DirectoryPage
{
	uint32		magic;
	uint32		encoding;		/* segment, or NO_SEGMENT */
	/* dirty[segment_blocks / 8], then the entries */
} DirectoryPage;

/* On disk, stale[] has segment_blocks / 8 bytes. */
typedef struct DirectoryEntry
{
	uint32		generation;		/* grows with every encoding */
	BlockNumber first_page;		/* 0: never encoded */
	uint32		pages;
	uint32		rows;
	uint8		stale[BITMAP_BYTES];	/* block is not to be read here */
} DirectoryEntry;

/*
 * A reader compares this under the page's lock with what it looks for: the
 * page may have been freed, and written again, meanwhile.  Of a segment no
 * generation is published twice, so that these three numbers tell.
 */
typedef struct DataPage
{
	uint32		magic;
	uint32		segment;
	uint32		generation;
	uint32		number;			/* in the segment */
	char		bytes[FLEXIBLE_ARRAY_MEMBER];
} DataPage;

#define DATA_BYTES (PAGE_BYTES - offsetof(DataPage, bytes))

/* a value of eight bytes at an aligned place of the string is in one page */
StaticAssertDecl(DATA_BYTES % 8 == 0 && (PAGE_START + offsetof(DataPage, bytes)) % 8 == 0,
				 "alignment of data pages");

/*
 * The first bytes of a segment. They fit its first page.  They say in what form
 * all others are, and which rows can be skipped: so they have a checksum of
 * their own, which costs nothing per row.
 */
typedef struct SegmentHead
{
	uint32		nblocks;
	uint32		nrows;
	uint32		ncolumns;
	uint32		bytes;			/* of the whole segment */
	pg_crc32c	crc;			/* head_crc() */
	/* uint16 rows[segment_blocks], then StoredColumn[ncolumns] */
} SegmentHead;

/*
 * What rows[] has of a block: the number of its rows, and how their line
 * pointers are found. A row that was updated by HOT has that of its chain's
 * root, by which indexes know it, and which does not change with such updates.
 * Most blocks have no gap: row i is at line pointer i + 1. Of others the line
 * pointers are listed, uint16 each, one block after the other, from
 * HEAD_LINES() on.
 */
#define ROWS_COUNT 0x3FFF
#define ROWS_IN_LINE 0x8000
#define ROWS_LISTED 0x4000

StaticAssertDecl(MaxHeapTuplesPerPage <= ROWS_COUNT, "rows of a block");

/* Places are offsets into the segment's bytes, divisible by eight. */
typedef struct StoredColumn
{
	uint8		kind;			/* ColumnKind */
	uint8		order;			/* ColumnOrder */
	uint8		flags;
	uint8		width;
	union
	{
		int32		scale;		/* of numerics that all have one */
		uint32		hashes;		/* STORED_HASHES, which numerics never have:
								 * the table of hashes */
	};
	uint32		dictionary_size;
	uint32		nulls;			/* bitmap, if STORED_NULLS: 1 is NULL */
	uint32		dictionary;
	uint32		dictionary_bytes;
	uint32		values;
	uint32		values_bytes;
	int64		base;
	int64		min;			/* or a float8's bits */
	int64		max;
} StoredColumn;

/* StoredColumn.flags */
#define STORED_NULLS 1			/* some rows are NULL */

/*
 * Values by reference are encoded by tokens (tokens.c), as bytes in which they
 * lie one after the other.  `dictionary` begins with the table of tokens. Of
 * COLUMN_DATUMS, `values` begins with uint32 places in the token numbers: where
 * each block of the segment begins, and where the last one ends.  Two arrays
 * follow, each from the next multiple of eight on: the length of each entry or
 * row in these bytes, up to the next one, and the token numbers.
 */
#define STORED_TOKENS 2

/*
 * There is a table of hashes (hashes.c): uint32 places of its buckets, and where
 * the last one ends, in uint16 from HASHES_PLACES() on; each bucket is its check
 * and its entries.
 */
#define STORED_HASHES 4
#define STORED_FLAGS (STORED_NULLS | STORED_TOKENS | STORED_HASHES)

#define HEAD_COLUMNS(segment_blocks) (sizeof(SegmentHead) + (segment_blocks) * sizeof(uint16))
#define HEAD_BYTES(segment_blocks, ncolumns) \
	(HEAD_COLUMNS(segment_blocks) + (ncolumns) * sizeof(StoredColumn))
#define HEAD_LINES(segment_blocks, ncolumns) TYPEALIGN(8, HEAD_BYTES(segment_blocks, ncolumns))

StaticAssertDecl(HEAD_COLUMNS(COLUMNS_MAX_BLOCKS) + INDEX_MAX_KEYS * sizeof(StoredColumn) <= DATA_BYTES,
				 "a segment's head fits a page");

/* No column of a segment takes more bytes: it is absent otherwise. */
#define MAX_COLUMN_BYTES (16 * 1024 * 1024)

/* What kind of values a column has, as far as storing them matters. */
typedef struct ColumnType
{
	int16		len;
	bool		byval;
	char		align;
	bool numeric;
	bool		is_float;
	ColumnOrder order;
	Oid			hashed_as;		/* the type by whose equality values are
								 * hashed, or 0 */
} ColumnType;

/* page.c */
extern void store_page_init(Page page, Size bytes);
extern void *store_content(Page page);
extern Buffer store_extend(Relation index);
extern Buffer store_read(Relation index, BlockNumber block, int lock, uint32 magic);
extern Buffer store_read_again(Relation index, BlockNumber block, int lock, uint32 magic, Buffer *known);
pg_noreturn extern void store_corrupted(Relation index, BlockNumber block);
extern ColumnType column_type_of(Relation index, int column);

/* Checksum of a segment's head, whatever its field of that name says. */
static inline pg_crc32c
head_crc(const char *head, Size bytes)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, head, offsetof(SegmentHead, crc));
	COMP_CRC32C(crc, head + sizeof(SegmentHead), bytes - sizeof(SegmentHead));
	FIN_CRC32C(crc);

	return crc;
}

/* Bit of a block in a bitmap. */
static inline bool
bitmap_test(const uint8 *bitmap, int i)
{
	return (bitmap[i / 8] & 1 << i % 8) != 0;
}

static inline void
bitmap_set(uint8 *bitmap, int i)
{
	bitmap[i / 8] |= 1 << i % 8;
}

/* directory.c */

/*
 * An index's directory, as one process looks at it: what it holds never
 * changes as long as the index has the same file.
 */
typedef struct Directory
{
	Relation	index;
	uint32		version;
	int			segment_blocks;
	int			ncolumns;
	int			page_entries;	/* of a directory page */
	BlockNumber known_number;	/* of the directory page looked up last */
	BlockNumber known_block;	/* 0: none */
	Buffer		known_buffer;	/* that it was in, not pinned; or invalid */
	Buffer		meta_buffer;	/* the same of the metapage */
} Directory;

/* The directory page of an index's first segments, as it was at some time. */
typedef struct DirectoryMoment
{
	RelFileLocator locator;
	BlockNumber block;
	Buffer		buffer;			/* that it was in, not pinned */
	XLogRecPtr	lsn;
} DirectoryMoment;

/* A run of pages. */
typedef struct Extent
{
	BlockNumber first;
	BlockNumber pages;
} Extent;

typedef struct Extents
{
	int			n;
	int			room;
	Extent	   *extents;
} Extents;

extern void directory_create(Relation index, ForkNumber forknum, int segment_blocks, int ncolumns);
extern void directory_open(Directory *directory, Relation index);
extern bool directory_read(Directory *directory, uint32 segment, DirectoryEntry *entry);
extern bool directory_note_moment(Directory *directory, uint32 segments, DirectoryMoment *moment);
extern bool directory_is_unchanged(Relation index, const DirectoryMoment *moment);
extern void directory_mark_block(Directory *directory, BlockNumber block);
extern void directory_mark_blocks(Directory *directory, uint32 segment, const uint8 *blocks);
extern uint32 directory_begin(Directory *directory, uint32 segment);
extern void directory_publish(Directory *directory, uint32 segment, const DirectoryEntry *entry);
extern uint32 directory_segments(Directory *directory);
extern void directory_free_pages(Directory *directory, Extents *free_pages);

/* gather.c */

/* Values of one column in the rows of some heap blocks. */
typedef struct ColumnValues
{
	ColumnType	type;
	bool		absent;			/* some value is out of line, or too much */
	Datum	   *values;
	bool	   *nulls;
} ColumnValues;

/*
 * The rows of a segment's heap blocks that are all-visible.  Memory is that of
 * the context gather_blocks() was called in.
 */
typedef struct GatheredBlocks
{
	int			nblocks;
	int			nrows;
	int			ngathered;		/* blocks that are not absent */
	uint16		rows[COLUMNS_MAX_BLOCKS];
	uint8		absent[BITMAP_BYTES];	/* blocks that were not all-visible */
	uint8		listed[BITMAP_BYTES];	/* blocks whose rows are not at line
										 * pointers 1, 2, ...; of these: */
	uint16	   *lines;			/* the line pointers of all their rows */
	int			nlines;
	int			ncolumns;
	ColumnValues columns[INDEX_MAX_KEYS];
	bool		skipped;		/* an expression was not evaluated of each row */
} GatheredBlocks;

extern int	gather_visible(Relation heap, BlockNumber first, int nblocks, uint8 *visible);
extern void gather_blocks(Relation heap, Relation index, BlockNumber first, int nblocks,
						  BufferAccessStrategy strategy, GatheredBlocks *gathered);
extern bool gather_encodes(Relation heap);

/* encode.c */
extern void encode_segment(const GatheredBlocks *gathered, int segment_blocks, uint32 version,
						   StringInfo bytes);

/* tokens.c */
#define TOKEN_BYTES 16
#define TOKEN_CODE_BITS 12
#define TOKEN_CODES (1 << TOKEN_CODE_BITS)
#define TOKEN_CODE_BYTES 3		/* of two numbers */
#define TOKENS_SLACK (4 * TOKEN_BYTES)

/*
 * Bytes of values that are encoded: each block begins at a multiple of eight,
 * by which its first long value may need more padding.
 */
#define TOKENS_PADDING (2 * MAXIMUM_ALIGNOF)
#define TOKENS_MOST_BYTES (MAX_COLUMN_BYTES + COLUMNS_MAX_BLOCKS * TOKENS_PADDING)

/* A table of tokens on disk. */
typedef struct TokenHead
{
	uint32		ntokens;
	uint16		length_width;	/* bytes of a value's length: 1, 2 or 4 */
	uint16		all_short;		/* all values have headers of one byte, which
								 * are zero before they are encoded */
	uint32		token_bytes;	/* of all tokens */
	uint32		value_bytes;	/* of all values */
	/* uint8 lengths[ntokens], then the tokens' bytes */
} TokenHead;

/* The same in memory, with room for a power of two of tokens. */
typedef struct Tokens
{
	TokenHead	head;
	uint32		mask;
	uint8	   *lengths;		/* behind the tokens */
	char		tokens[FLEXIBLE_ARRAY_MEMBER][TOKEN_BYTES];
} Tokens;

extern bool tokens_encode(const char *bytes, const uint32 *ends, int npieces, Size most, TokenHead *head,
						  StringInfo table, StringInfo codes, uint32 *places);
extern Size tokens_memory(const TokenHead *head);
extern bool tokens_are_sane(const TokenHead *head, Size bytes);
extern bool tokens_take(Tokens *tokens, const char *bytes);
extern bool tokens_decode(const Tokens *tokens, const char *codes, Size code_bytes, char *to, Size length);
extern Size tokens_sum_lengths(const void *lengths, int width, int n);
extern bool tokens_find_values(const ColumnType *type, const TokenHead *head, char *bytes, const void *lengths,
							   const bool *nulls, int n, Datum *values);

/* hashes.c */

/* A table of hashes has as many buckets as make this number of rows one on average. */
#define HASHES_BUCKET_ROWS 16
#define HASHES_BUCKETS(nrows) ((nrows) / HASHES_BUCKET_ROWS + 1)
#define HASHES_BUCKET(hash, nbuckets) ((uint32) (((hash) >> 32) * (nbuckets) >> 32))
#define HASHES_LONGEST 1023		/* entries of a bucket */

/* Bytes of the places of buckets. */
#define HASHES_PLACES(nbuckets) (((Size) (nbuckets) + 1) * sizeof(uint32))

/* An entry: some bits of a hash, and a group of neighboring blocks, of which a segment has this number at most. */
#define HASHES_GROUPS COLUMN_FOUND_PARTS
#define HASHES_ENTRY(hash, group) ((uint16) ((hash) * HASHES_GROUPS + (group)))
#define HASHES_BITS(entry) ((entry) / HASHES_GROUPS)
#define HASHES_GROUP_OF(entry) ((entry) % HASHES_GROUPS)
#define HASHES_GROUP(block, segment_blocks) \
	((segment_blocks) <= HASHES_GROUPS ? (block) : (block) / ((segment_blocks) / HASHES_GROUPS))

extern uint64 hashes_of_value(Oid type, Datum value);
extern uint16 hashes_check(uint32 bucket, const uint16 *entries, int n);
extern void hashes_append(const ColumnValues *column, const GatheredBlocks *gathered, int segment_blocks, Size takes,
						  StoredColumn *stored, StringInfo bytes);

/* decimal.c */
#define DECIMAL_IMAGE_BYTES 24
extern bool column_decimal_decode(const char *numeric, int64 *value, int *scale);
extern int	column_decimal_encode(int64 value, int scale, char *numeric);

/* expressions.c */

/* Who has become a table's owner, and what they were before. */
typedef struct ColumnOwner
{
	Oid			role;
	int			context;
	int			nest_level;
} ColumnOwner;

typedef struct ColumnEvaluator ColumnEvaluator;

extern const char *column_expressions_unsupported(List *expressions);
extern void column_owner_begin(Relation table, ColumnOwner *saved);
extern void column_owner_end(const ColumnOwner *saved);
extern ColumnEvaluator *column_evaluator_begin(Relation heap, Relation index);
extern void column_evaluator_row(ColumnEvaluator *evaluator, HeapTuple tuple);
extern bool column_evaluator_has_values(ColumnEvaluator *evaluator, int expression);
extern Datum column_evaluator_value(ColumnEvaluator *evaluator, int expression, bool *isnull);
extern void column_evaluator_end(ColumnEvaluator *evaluator);

/* refresh.c */
typedef struct RefreshResult
{
	BlockNumber heap_blocks;
	BlockNumber encoded;		/* blocks, by this run */
	uint32		segments;		/* encoded by this run */
	uint32		next;			/* where the next run goes on, or NO_SEGMENT */
	bool		skipped;		/* an expression was not evaluated of each row
								 * of these blocks */
} RefreshResult;

extern void refresh_segments(Relation heap, Relation index, uint32 from, uint32 most, double least_share,
							 BufferAccessStrategy strategy, RefreshResult *result);


/* options.c */
extern bytea *column_options(Datum reloptions, bool validate);
extern double column_refresh_share(Relation index);
extern int	column_segment_blocks(Relation heap, Relation index);

/* estimate.c */
extern void column_costestimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
								Cost *total_cost, Selectivity *selectivity, double *correlation,
								double *pages);

extern bool column_index_is(Relation index);

/* flush.c */
extern void flush_init(void);

/* functions.c */
extern List *column_indexes_of(Oid relation);

/*
 * Places at which a test can stop a process: it waits there for as long as
 * another session holds the advisory lock of that name.  Nothing in a build
 * that users have.
 */
#ifdef PGBILLION_TEST_PAUSES
extern void store_pause(const char *place);
#define PAUSE(place) store_pause(place)
#else
#define PAUSE(place) ((void) 0)
#endif

#endif							/* PGBILLION_COLUMN_INDEX_STORE_H */
