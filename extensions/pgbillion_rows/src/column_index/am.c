/*-------------------------------------------------------------------------
 *
 * am.c
 *	  The access method `columns`: what PostgreSQL calls.
 *
 * There is no function to scan: PostgreSQL never reads such an index, our
 * scans do (read.c). Every inserted row marks its heap block as stale, unless
 * a row of the same statement is there that keeps the block from being encoded
 * in between: a mere memory of "this one is marked" would be wrong as soon as
 * VACUUM encodes the block again. VACUUM marks the blocks from which it is about to
 * take rows away, and encodes at its end what has become all-visible.
 *
 * An index that is built while others write holds nothing until it is valid:
 * writers do not know it before it is ready, and VACUUM would take rows away
 * without telling it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/proc.h"
#include "utils/lsyscache.h"

#include "column_index/store.h"

/* ---- building ---- */

/* Refuse what would need more than the values of columns. */
static void
check_definition(Relation heap, Relation index, IndexInfo *info)
{
	if (info->ii_Predicate != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"columns\" does not support partial indexes")));
	if (column_expressions_unsupported(info->ii_Expressions) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"columns\" does not support expressions with %s",
						column_expressions_unsupported(info->ii_Expressions))));
	for (int c = 0; c < RelationGetNumberOfAttributes(index); c++)
	{
		Form_pg_attribute attribute = TupleDescAttr(RelationGetDescr(index), c);

		if (attribute->attlen == -2)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("access method \"columns\" does not support the type of column \"%s\"",
							NameStr(attribute->attname))));
	}
	if (!gather_encodes(heap) && RelationGetNumberOfBlocks(heap) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"columns\" supports heap tables only")));
}

static void
tell_coverage(Relation heap, Relation index, const RefreshResult *result)
{
	if (result->heap_blocks == 0 || result->encoded == result->heap_blocks)
		return;

	/*
	 * The VACUUM of the hint finds nothing visible before all commits are
	 * flushed, this one among them: see flush.c, which a session that has not
	 * loaded the library lacks.
	 */
	ForceSyncCommit();
	if (OidIsValid(heap->rd_rel->relrewrite))

		/*
		 * REPACK (CONCURRENTLY) builds it on a copy, and both have passing
		 * names
		 */
		ereport(NOTICE,
				(errmsg("a columnar index of table \"%s\" holds %u of its %u blocks",
						get_rel_name(heap->rd_rel->relrewrite), result->encoded, result->heap_blocks),
				 errhint("VACUUM the table: only blocks whose rows are visible to everybody can be held.")));
	else
		ereport(NOTICE,
				(errmsg("index \"%s\" holds %u of the %u blocks of table \"%s\"",
						RelationGetRelationName(index), result->encoded, result->heap_blocks,
						RelationGetRelationName(heap)),
				 errhint("VACUUM the table: only blocks whose rows are visible to everybody can be held.")));
}

/* A row whose expressions have been evaluated. */
static void
ignore_row(Relation index, ItemPointer tid, Datum *values, bool *isnull, bool alive, void *state)
{
}

/*
 * Evaluate the expressions of all rows that somebody can see, as other indexes
 * are built. So an error is raised now, and not when a row is encoded, or when
 * a query that PostgreSQL would answer without that row reads it.
 */
static void
evaluate_rows(Relation heap, Relation index, IndexInfo *info)
{
	ColumnOwner caller;

	column_owner_begin(heap, &caller);
	(void) table_index_build_scan(heap, index, info, true, false, ignore_row, NULL, NULL);
	column_owner_end(&caller);
}

/*
 * Build the index of what is all-visible.  Nobody writes to the table, unless
 * the build is concurrent: then the index stays empty until it is valid.
 */
static IndexBuildResult *
columns_build(Relation heap, Relation index, IndexInfo *info)
{
	IndexBuildResult *built = palloc(sizeof(IndexBuildResult));
	RefreshResult result;

	check_definition(heap, index, info);
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	directory_create(index, MAIN_FORKNUM, column_segment_blocks(heap, index),
					 RelationGetNumberOfAttributes(index));
	if (!info->ii_Concurrent)
	{
		BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);

		refresh_segments(heap, index, 0, NO_SEGMENT, 0, strategy, &result);
		FreeAccessStrategy(strategy);

		if (info->ii_Expressions != NIL && (result.encoded < result.heap_blocks || result.skipped))
			evaluate_rows(heap, index, info);
		tell_coverage(heap, index, &result);
	}

	/* the table's rows were not counted: keep the statistics as they are */
	built->heap_tuples = -1;
	built->index_tuples = -1;

	return built;
}

/* What an unlogged table's index is after a crash. */
static void
columns_buildempty(Relation index)
{
	/* the width of rows is not looked at here */
	directory_create(index, INIT_FORKNUM, column_segment_blocks(NULL, index),
					 RelationGetNumberOfAttributes(index));
}

/* ---- writing ---- */

/* What a statement knows of the block in which it has put a row last. */
typedef enum LastBlock
{
	BLOCK_MARKED,				/* once */
	BLOCK_UNSURE,				/* it is to be marked again for each row */
	BLOCK_HELD					/* it stays as it was marked */
} LastBlock;

/* What the statements that insert rows remember: as long as their IndexInfo. */
typedef struct Inserter
{
	Directory	directory;
	BlockNumber block;
	LastBlock	state;
} Inserter;

/*
 * Does the row that was just inserted hold its block: nobody finds it
 * all-visible, nor encodes it, before the statement has ended?  So does a row
 * of this transaction that is still in progress.  Neither a row of COPY FREEZE,
 * nor one that ON CONFLICT may kill, nor one of others, as when an index is
 * built concurrently.
 */
static bool
holds_block(Relation heap, ItemPointer tid)
{
	TransactionId own = GetCurrentTransactionIdIfAny();
	Buffer		buffer;
	Page		page;
	ItemId		item;
	bool		holds = false;

	if (!TransactionIdIsValid(own) || !gather_encodes(heap))
		return false;
	buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	item = PageGetItemId(page, ItemPointerGetOffsetNumber(tid));
	if (ItemIdIsNormal(item))
	{
		HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);

		/* of a frozen one this is another number */
		holds = TransactionIdEquals(HeapTupleHeaderGetXmin(tuple), own) &&
			!HeapTupleHeaderIsSpeculative(tuple);
	}
	UnlockReleaseBuffer(buffer);

	return holds;
}

/*
 * A row was inserted, or a new version of one that has other values.  Its
 * block is not all-visible before this returns and the transaction has ended,
 * except after COPY FREEZE: so marks are set whatever the visibility map says.
 */
static bool
columns_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid, Relation heap,
			   IndexUniqueCheck unique, bool unchanged, IndexInfo *info)
{
	Inserter   *inserter = info->ii_AmCache;
	BlockNumber block = ItemPointerGetBlockNumber(tid);

	if (inserter == NULL)
	{
		inserter = MemoryContextAlloc(info->ii_Context, sizeof(Inserter));
		directory_open(&inserter->directory, index);
		inserter->block = InvalidBlockNumber;
		info->ii_AmCache = inserter;
	}
	if (inserter->block == block && inserter->state == BLOCK_HELD)
		return false;
	/* of a directory, only where it is may be remembered */
	inserter->directory.index = index;
	directory_mark_block(&inserter->directory, block);
	if (inserter->block != block)
	{
		inserter->block = block;
		inserter->state = BLOCK_MARKED;
	}
	else if (inserter->state == BLOCK_MARKED)
		inserter->state = holds_block(heap, tid) ? BLOCK_HELD : BLOCK_UNSURE;

	return false;
}

/* ---- VACUUM ---- */

/*
 * VACUUM is about to make room of dead rows.  The blocks that they are in are
 * not all-visible: all such blocks are marked, and the rows are not asked for.
 */
static IndexBulkDeleteResult *
columns_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats, IndexBulkDeleteCallback callback,
				   void *callback_state)
{
	Directory	directory;
	uint32		segments;
	Relation	heap;

	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	directory_open(&directory, info->index);
	segments = directory_segments(&directory);
	if (segments == 0)
		return stats;

	heap = vacuumed_heap(info);
	for (uint32 segment = 0; segment < segments; segment++)
	{
		DirectoryEntry entry;
		uint8		blocks[BITMAP_BYTES];
		bool		any = false;

		vacuum_delay_point(false);
		if (!directory_read(&directory, segment, &entry))
			continue;
		(void) gather_visible(heap, segment * directory.segment_blocks, directory.segment_blocks, blocks);
		for (int i = 0; i < directory.segment_blocks / 8; i++)
		{
			blocks[i] = ~blocks[i] & ~entry.stale[i];
			any |= blocks[i] != 0;
		}
		if (any)
			directory_mark_blocks(&directory, segment, blocks);
	}
	close_vacuumed_heap(heap);
	PAUSE("marked");

	return stats;
}

/*
 * VACUUM is done with the table: encode what it has made all-visible.  Not
 * where it must end soon, as the table's age is only advanced afterwards.
 */
static IndexBulkDeleteResult *
columns_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	Relation	heap;
	RefreshResult result;

	if (info->analyze_only)
		return stats;
	if (stats == NULL)
		stats = palloc0(sizeof(IndexBulkDeleteResult));
	if (column_index_usable(info->index) && (MyProc->statusFlags & PROC_VACUUM_FOR_WRAPAROUND) == 0)
	{
		heap = vacuumed_heap(info);
		refresh_segments(heap, info->index, 0, NO_SEGMENT, column_refresh_share(info->index), info->strategy,
						 &result);
		close_vacuumed_heap(heap);
	}
	stats->num_pages = RelationGetNumberOfBlocks(info->index);
	stats->num_index_tuples = info->num_heap_tuples;
	stats->estimated_count = true;

	return stats;
}

/* ---- the rest ---- */

static bool
columns_validate(Oid opclass)
{
	return true;
}

static IndexScanDesc
columns_beginscan(Relation index, int nkeys, int norderbys)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("access method \"columns\" does not support index scans")));
}

/* 19 asserts that an access method has these two, which no scan that begins can reach. */
static void
columns_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	Assert(false);
}

static void
columns_endscan(IndexScanDesc scan)
{
	Assert(false);
}

PG_FUNCTION_INFO_V1(pgbillion_columns_handler);

static const IndexAmRoutine columns_routine = {
	.type = T_IndexAmRoutine,
	.amcanmulticol = true,
	/* with no operators and this false, no path is even looked for */
	.amoptionalkey = false,
#if PG_VERSION_NUM >= 160000
	/* it says something of blocks only: updates of its columns stay HOT */
	.amsummarizing = true,
#endif
	.ambuild = columns_build,
	.ambuildempty = columns_buildempty,
	.aminsert = columns_insert,
	.ambulkdelete = columns_bulkdelete,
	.amvacuumcleanup = columns_vacuumcleanup,
	.amcostestimate = column_costestimate,
	.amoptions = column_options,
	.amvalidate = columns_validate,
	.ambeginscan = columns_beginscan,
	.amrescan = columns_rescan,
	.amendscan = columns_endscan,
};

/*
 * pgbillion_rows.columns_handler(internal) returns index_am_handler
 */
Datum
pgbillion_columns_handler(PG_FUNCTION_ARGS)
{
	return_index_am_routine(columns_routine);
}
