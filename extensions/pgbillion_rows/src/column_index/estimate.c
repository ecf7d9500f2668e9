/*-------------------------------------------------------------------------
 *
 * estimate.c
 *	  What the planner is told of a columnar index.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "optimizer/cost.h"
#include "port/pg_bitutils.h"
#include "utils/rel.h"

#include "column_index/store.h"

/* PostgreSQL itself never scans such an index: it has no functions to. */
void
column_costestimate(PlannerInfo *root, IndexPath *path, double loop_count, Cost *startup_cost,
					Cost *total_cost, Selectivity *selectivity, double *correlation, double *pages)
{
	*startup_cost = disable_cost;
	*total_cost = disable_cost;
	*selectivity = 1;
	*correlation = 0;
	*pages = path->indexinfo->pages;
}

/* Is it a columnar index? */
bool
column_index_is_ours(const IndexOptInfo *info)
{
	return (void *) info->amcostestimate == (void *) column_costestimate;
}

/* The same of an open relation. */
bool
column_index_is(Relation index)
{
	return index->rd_indam != NULL && index->rd_indam->amcostestimate == column_costestimate;
}

/* May it be read at all?  An index that is not valid may lack marks. */
bool
column_index_usable(Relation index)
{
	return index->rd_index->indisvalid && index->rd_index->indisready && index->rd_index->indislive;
}

/* How many of a segment's blocks are stale. */
static int
count_stale(const DirectoryEntry *entry, int nblocks)
{
	int			n = (int) pg_popcount((const char *) entry->stale, nblocks / BITS_PER_BYTE);

	for (int i = nblocks / BITS_PER_BYTE * BITS_PER_BYTE; i < nblocks; i++)
		n += bitmap_test(entry->stale, i);
	return n;
}

/*
 * The columns that have tables of hashes in a segment, as bits; none if it is
 * replaced. The index has index_blocks blocks.
 */
static uint32
hashed_columns(const Directory *directory, BlockNumber index_blocks, uint32 segment, const DirectoryEntry *entry)
{
	uint32		hashed = 0;
	Buffer		buffer;
	DataPage   *data;

	if (directory->version <= STORE_VERSION_WITHOUT_HASHES ||
		entry->first_page >= index_blocks)
		return 0;
	buffer = ReadBuffer(directory->index, entry->first_page);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	data = store_content(BufferGetPage(buffer));
	if (data->magic == DATA_MAGIC && data->segment == segment && data->generation == entry->generation &&
		data->number == 0)
	{
		for (int c = 0; c < directory->ncolumns; c++)
		{
			StoredColumn stored;

			memcpy(&stored, data->bytes + HEAD_COLUMNS(directory->segment_blocks) + c * sizeof(stored), sizeof(stored));
			if ((stored.flags & STORED_HASHES) != 0)
				hashed |= (uint32) 1 << c;
		}
	}
	UnlockReleaseBuffer(buffer);

	return hashed;
}

/* ---- guesses ---- */

/* What was found of an index, while its directory is as it was; in the slot of its OID. */
typedef struct KnownEstimate
{
	Oid			index;			/* InvalidOid: nothing is known */
	BlockNumber heap_blocks;
	DirectoryMoment moment;
	ColumnEstimate estimate;
} KnownEstimate;

static KnownEstimate known_estimates[256];

/*
 * Up to how many segments of a table, spread over it, are looked at, and of how
 * many of these the first page.
 */
#define SEGMENTS_LOOKED_AT 16
#define SEGMENTS_OPENED 2

static void
look_at_segments(Directory *directory, BlockNumber heap_blocks, uint32 segments, BlockNumber index_blocks,
				 ColumnEstimate *estimate)
{
	uint32		step = Max(segments / SEGMENTS_LOOKED_AT, 1);
	double		blocks = 0;
	double		valid = 0;
	double		encoded = 0;
	double		pages = 0;
	int			nencoded = 0;

	estimate->hashed = 0;
	for (uint32 segment = 0; segment < segments; segment += step)
	{
		int			nblocks = Min((BlockNumber) directory->segment_blocks,
								  heap_blocks - segment * directory->segment_blocks);
		DirectoryEntry entry;

		blocks += nblocks;
		if (!directory_read(directory, segment, &entry))
			continue;
		encoded += nblocks;
		/* all of them, as far as they are opened */
		if (nencoded % (SEGMENTS_LOOKED_AT / SEGMENTS_OPENED) == 0)
		{
			uint32		hashed = hashed_columns(directory, index_blocks, segment, &entry);

			estimate->hashed = nencoded == 0 ? hashed : estimate->hashed & hashed;
		}
		nencoded++;
		pages += entry.pages;
		valid += nblocks - count_stale(&entry, nblocks);
	}
	estimate->valid_share = blocks > 0 ? valid / blocks : 0;
	estimate->pages_per_block = encoded > 0 ? pages / encoded : 0;
}

/*
 * Guess how much of a table an index covers, and of which columns values are
 * found. The caller has locked the index, which has index_blocks blocks. While
 * nothing changes in the index, what was found the last time is the answer.
 */
void
column_index_estimate(Relation index, BlockNumber heap_blocks, BlockNumber index_blocks, ColumnEstimate *estimate)
{
	KnownEstimate *known = &known_estimates[RelationGetRelid(index) % lengthof(known_estimates)];
	Directory	directory;
	uint32		segments;
	bool		lasts;

	if (known->index == RelationGetRelid(index) && known->heap_blocks == heap_blocks &&
		directory_is_unchanged(index, &known->moment))
	{
		*estimate = known->estimate;
		return;
	}
	known->index = InvalidOid;
	directory_open(&directory, index);
	estimate->segment_blocks = directory.segment_blocks;
	segments = heap_blocks / directory.segment_blocks + (heap_blocks % directory.segment_blocks != 0);
	lasts = directory_note_moment(&directory, segments, &known->moment);
	look_at_segments(&directory, heap_blocks, segments, index_blocks, estimate);
	if (lasts)
	{
		known->heap_blocks = heap_blocks;
		known->estimate = *estimate;
		known->index = RelationGetRelid(index);
	}
}
