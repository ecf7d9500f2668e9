/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  Refreshing a columnar index, and how much of a table it covers: what
 *	  users call.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "column_index/store.h"

/*
 * Segments that refreshing encodes in one transaction: about a second of work,
 * beside which looking for free pages is little.
 */
#define SEGMENTS_PER_TRANSACTION 256

/* ---- which indexes ---- */

/* Add an index to a list, if it is one of columns. */
static List *
add_index(List *indexes, Oid oid)
{
	Relation	index = try_relation_open(oid, AccessShareLock);

	if (index == NULL)
		return indexes;
	if (index->rd_rel->relkind == RELKIND_INDEX && column_index_is(index))
		indexes = lappend_oid(indexes, oid);
	relation_close(index, AccessShareLock);

	return indexes;
}

static List *
add_indexes_of_table(List *indexes, Oid oid)
{
	Relation	table = try_relation_open(oid, AccessShareLock);
	ListCell   *lc;

	if (table == NULL)
		return indexes;
	foreach(lc, RelationGetIndexList(table))
		indexes = add_index(indexes, lfirst_oid(lc));
	relation_close(table, AccessShareLock);

	return indexes;
}

/*
 * The columnar indexes that a name means: itself, those of a table, and
 * those of all partitions.  Raises an error if there is none.  They may be
 * gone when they are used.
 */
List *
column_indexes_of(Oid relation)
{
	List	   *indexes = NIL;
	ListCell   *lc;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relation)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	if (isOtherTempNamespace(get_rel_namespace(relation)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
	foreach(lc, find_all_inheritors(relation, NoLock, NULL))
	{
		switch (get_rel_relkind(lfirst_oid(lc)))
		{
			case RELKIND_INDEX:
				indexes = add_index(indexes, lfirst_oid(lc));
				break;
			case RELKIND_RELATION:
			case RELKIND_MATVIEW:
				indexes = add_indexes_of_table(indexes, lfirst_oid(lc));
				break;
			default:
				break;
		}
	}
	if (indexes == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is no index of access method \"columns\", and no table that has one",
						get_rel_name(relation) ? get_rel_name(relation) : "?")));
	return indexes;
}

/* ---- refreshing ---- */

/*
 * Encode some segments of an index, from a number on.  Returns the number to
 * go on from, or NO_SEGMENT.  The locks are kept until the end of the
 * transaction.  An index that is gone, or not valid, is left alone.
 */
static uint32
refresh_some(Oid oid, uint32 from, uint32 most, double *encoded)
{
	Oid			table = IndexGetRelation(oid, true);
	Relation	heap = OidIsValid(table) ? try_table_open(table, ShareUpdateExclusiveLock) : NULL;
	Relation	index;
	BufferAccessStrategy strategy;
	RefreshResult result = {.next = NO_SEGMENT};

	if (heap == NULL)
		return NO_SEGMENT;
	index = try_relation_open(oid, RowExclusiveLock);
	/* the number may be another index's by now */
	if (index != NULL && column_index_is(index) && index->rd_index->indrelid == table &&
		column_index_usable(index) && !RELATION_IS_OTHER_TEMP(index))
	{
		strategy = GetAccessStrategy(BAS_BULKREAD);
		refresh_segments(heap, index, from, most, 0, strategy, &result);
		FreeAccessStrategy(strategy);
		*encoded += result.encoded;
	}
	if (index != NULL)
		relation_close(index, NoLock);
	table_close(heap, NoLock);

	return result.next;
}

static void
check_owner(List *indexes)
{
	ListCell   *lc;

	foreach(lc, indexes)
	{
		if (!class_owner_check(lfirst_oid(lc), GetUserId()))
			aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX, get_rel_name(lfirst_oid(lc)));
	}
}

PG_FUNCTION_INFO_V1(pgbillion_columns_refresh);

/*
 * CALL pgbillion_rows.columns_refresh(relation regclass)
 *		Encode what is all-visible and not readable, in an index or in those of
 *		a table and its partitions.  Commits after some segments, except inside
 *		a transaction block or a function.
 */
Datum
pgbillion_columns_refresh(PG_FUNCTION_ARGS)
{
	MemoryContext context = CurrentMemoryContext;
	bool		atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;
	List	   *indexes;
	ListCell   *lc;
	double		encoded = 0;

	PreventCommandDuringRecovery("pgbillion_rows.columns_refresh()");
	PreventCommandIfReadOnly("pgbillion_rows.columns_refresh()");
	indexes = column_indexes_of(PG_GETARG_OID(0));
	check_owner(indexes);

	SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
	foreach(lc, indexes)
	{
		uint32		next = 0;

		while (next != NO_SEGMENT)
		{
			CHECK_FOR_INTERRUPTS();
			next = refresh_some(lfirst_oid(lc), next, atomic ? NO_SEGMENT : SEGMENTS_PER_TRANSACTION, &encoded);
			if (!atomic)
				SPI_commit();
			MemoryContextSwitchTo(context);
		}
	}
	SPI_finish();
	ereport(NOTICE, (errmsg("%.0f blocks encoded", encoded)));

	PG_RETURN_VOID();
}

/* ---- status ---- */

typedef struct Coverage
{
	double		encoded;		/* blocks */
	double		stale;			/* of those */
	double		readable;		/* not stale, and all-visible */
	double		rows;
} Coverage;

static void
measure(Relation heap, Relation index, Coverage *coverage)
{
	Directory	directory;
	BlockNumber heap_blocks = RelationGetNumberOfBlocks(heap);

	memset(coverage, 0, sizeof(*coverage));
	directory_open(&directory, index);
	for (BlockNumber first = 0; first < heap_blocks; first += directory.segment_blocks)
	{
		int			nblocks = Min((BlockNumber) directory.segment_blocks, heap_blocks - first);
		uint8		visible[BITMAP_BYTES];
		DirectoryEntry entry;

		CHECK_FOR_INTERRUPTS();
		(void) gather_visible(heap, first, nblocks, visible);
		if (!directory_read(&directory, first / directory.segment_blocks, &entry))
			continue;
		coverage->encoded += nblocks;
		coverage->rows += entry.rows;
		for (int i = 0; i < nblocks; i++)
		{
			coverage->stale += bitmap_test(entry.stale, i);
			coverage->readable += !bitmap_test(entry.stale, i) && bitmap_test(visible, i);
		}
		if (heap_blocks - first <= directory.segment_blocks)
			break;
	}
}

/*
 * May the caller count the table's rows?  The number of rows is exact, and so
 * it is only for a role that can read the table, and to which no policy of row
 * security applies.  All other numbers are of blocks, as pg_relation_size() and
 * pg_class give them to everybody.
 */
static bool
may_count(Oid table)
{
	Oid			role = GetUserId();

	return (pg_class_aclcheck(table, role, ACL_SELECT) == ACLCHECK_OK ||
			pg_attribute_aclcheck_all(table, role, ACL_SELECT, ACLMASK_ANY) == ACLCHECK_OK) &&
		check_enable_rls(table, InvalidOid, true) != RLS_ENABLED;
}

static void
put_status(ReturnSetInfo *result, Oid oid)
{
	Oid			table = IndexGetRelation(oid, true);
	Relation	heap = OidIsValid(table) ? try_table_open(table, AccessShareLock) : NULL;
	Relation	index = heap != NULL ? try_relation_open(oid, AccessShareLock) : NULL;

	if (index != NULL && !RELATION_IS_OTHER_TEMP(index))
	{
		Coverage	coverage;
		BlockNumber heap_blocks = gather_encodes(heap) ? RelationGetNumberOfBlocks(heap) : 0;
		Datum		values[10];
		bool		nulls[10] = {false};

		memset(&coverage, 0, sizeof(coverage));
		/* one that was never built has no pages */
		if (heap_blocks > 0 && column_index_usable(index))
			measure(heap, index, &coverage);
		values[0] = ObjectIdGetDatum(oid);
		values[1] = ObjectIdGetDatum(table);
		values[2] = BoolGetDatum(column_index_usable(index));
		values[3] = Int64GetDatum(heap_blocks);
		values[4] = Int64GetDatum((int64) coverage.encoded);
		values[5] = Int64GetDatum((int64) coverage.stale);
		values[6] = Int64GetDatum((int64) coverage.readable);
		values[7] = Int64GetDatum((int64) coverage.rows);
		nulls[7] = !may_count(table);
		values[8] = Int64GetDatum((int64) RelationGetNumberOfBlocks(index) * BLCKSZ);
		values[9] = Int64GetDatum((int64) heap_blocks * BLCKSZ);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	if (index != NULL)
		relation_close(index, AccessShareLock);
	if (heap != NULL)
		table_close(heap, AccessShareLock);
}

PG_FUNCTION_INFO_V1(pgbillion_columns_status);

/*
 * pgbillion_rows.columns_status(relation regclass) returns one row per index
 *		What an index covers: of an index, of a table's, or of those of its
 *		partitions.  The number of rows is NULL unless the caller may count
 *		them.
 */
Datum
pgbillion_columns_status(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, column_indexes_of(PG_GETARG_OID(0)))
		put_status((ReturnSetInfo *) fcinfo->resultinfo, lfirst_oid(lc));

	PG_RETURN_NULL();
}
