/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Storage parameters of a columnar index.
 *
 *	segment_blocks	heap blocks that are encoded together; 0, the default,
 *					chooses by the width of rows. Read when the index is built
 *	refresh_share	VACUUM encodes a segment anew if that makes at least this
 *					share of its blocks readable again
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/reloptions.h"
#include "optimizer/plancat.h"
#include "port/pg_bitutils.h"

#include "column_index/store.h"

#define DEFAULT_REFRESH_SHARE 0.125

/* Rows of a segment when its blocks are chosen: few pages of any column. */
#define ROWS_WANTED 24000
#define DEFAULT_BLOCKS 128

typedef struct ColumnsOptions
{
	int32		vl_len_;		/* varlena header: do not touch directly */
	int			segment_blocks;
	double		refresh_share;
} ColumnsOptions;

static relopt_kind options_kind;

void
columns_init(void)
{
	options_kind = add_reloption_kind();
	add_int_reloption(options_kind, "segment_blocks",
					  "Number of table blocks that are encoded together, 0 to choose by the width of rows",
					  0, 0, COLUMNS_MAX_BLOCKS, AccessExclusiveLock);
	add_real_reloption(options_kind, "refresh_share",
					   "Share of a segment's blocks that VACUUM must be able to regain to encode it again",
					   DEFAULT_REFRESH_SHARE, 0.0, 1.0, ShareUpdateExclusiveLock);
	flush_init();
}

bytea *
column_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"segment_blocks", RELOPT_TYPE_INT, offsetof(ColumnsOptions, segment_blocks)},
		{"refresh_share", RELOPT_TYPE_REAL, offsetof(ColumnsOptions, refresh_share)}
	};

	return (bytea *) build_reloptions(reloptions, validate, options_kind, sizeof(ColumnsOptions),
									  tab, lengthof(tab));
}

double
column_refresh_share(Relation index)
{
	ColumnsOptions *options = (ColumnsOptions *) index->rd_options;

	return options != NULL ? options->refresh_share : DEFAULT_REFRESH_SHARE;
}

/* Blocks of a segment of an index that is about to be built; heap may be NULL. */
int
column_segment_blocks(Relation heap, Relation index)
{
	ColumnsOptions *options = (ColumnsOptions *) index->rd_options;
	int			blocks = options != NULL ? options->segment_blocks : 0;

	if (blocks == 0 && heap == NULL)
		blocks = DEFAULT_BLOCKS;
	if (blocks == 0)
	{
		int32		width = get_rel_data_width(heap, NULL) + MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData);

		blocks = Max(DEFAULT_BLOCKS, ROWS_WANTED / Max(BLCKSZ / width, 1));
	}
	blocks = Min(Max(blocks, COLUMNS_MIN_BLOCKS), COLUMNS_MAX_BLOCKS);

	/* a power of two */
	return pg_nextpower2_32(blocks);
}
