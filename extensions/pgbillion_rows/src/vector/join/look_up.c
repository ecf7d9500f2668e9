/*-------------------------------------------------------------------------
 *
 * look_up.c
 *	  Pages of the big table that may have rows which match, found by an index.
 *
 * A plan reads the big table as a whole because many rows were expected to
 * match. Once the tables of its joins are built, it is known how many keys they
 * have. If these are so few that looking each of them up in an index takes far
 * less, only pages to which the index refers are read. All the rest stays as it
 * is: what the index tells is which pages can be left out, and rows of the
 * others are tested as if all were read.
 *
 * That holds for B-trees of all rows, with the key as their first column. Rows
 * of an update that have no entry of their own lie on the page of the entry that
 * leads to them, and an index that lacks rows which the snapshot sees is not
 * given to the planner.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/skey.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "vector/join/join.h"
#include "vector/source/source.h"

/* What it takes, in nanoseconds: measured, with all in memory. */
#define KEY_NS 800.0			/* to look for a key */
#define FOUND_NS 150.0			/* to go on to the next entry that has it */
#define PAGE_NS 500.0			/* to read a page, beyond its rows */
#define ROW_NS 12.0				/* to test a row */

/* What share of reading the whole table it may take to ask the index, which may be in vain, and to read what it tells. */
#define ASKING_SHARE 0.1
#define READING_SHARE 0.7

/* More keys are not even counted. */
#define MOST_LOOKED_UP 20000

/* A join by a key that an index of the table begins with. */
typedef struct Candidate
{
	JoinBuild  *build;
	Oid			index;
	Oid			type;			/* of the column */
	double		rows;			/* of each key, as it is estimated */
} Candidate;

struct JoinLookUps
{
	Relation	table;
	Snapshot   *snapshot;
	Source	   *source;			/* of the table's rows */
	List	   *candidates;
	MemoryContext context;		/* of what one run finds */

	/*
	 * what EXPLAIN tells of the last run that looked rows up; index
	 * InvalidOid: none did
	 */
	Oid			index;
	uint64		keys;
	uint64		pages;
};

/* Look-ups in indexes of the table that a batch is of. In the current context. */
JoinLookUps *
join_look_ups_create(Batch *table)
{
	JoinLookUps *result = palloc0(sizeof(JoinLookUps));

	result->table = ((ScanState *) table->parent)->ss_currentRelation;
	result->snapshot = &table->parent->state->es_snapshot;
	result->source = table->source;
	result->context = AllocSetContextCreate(CurrentMemoryContext, "pgbillion look-ups", ALLOCSET_DEFAULT_SIZES);

	return result;
}

/* Add a join whose rows are in `build`, and an index that begins with the column of its key, of `rows` rows each. */
void
join_look_ups_add(JoinLookUps *look_ups, JoinBuild *build, Oid index, Oid type, double rows)
{
	Candidate  *candidate = palloc(sizeof(Candidate));

	*candidate = (Candidate)
	{
		build, index, type, rows
	};
	look_ups->candidates = lappend(look_ups->candidates, candidate);
}

/* What reading pages takes, if each of them has this number of rows. */
static double
pages_ns(double pages, double rows)
{
	return pages * (PAGE_NS + rows * ROW_NS);
}

/* The keys of a join, as far as the column can have them; more than `most` are not counted. */
static int64 *
find_keys(const Candidate *candidate, int most, int *n)
{
	int64		min = candidate->type == INT2OID ? PG_INT16_MIN : candidate->type == INT4OID ? PG_INT32_MIN : PG_INT64_MIN;
	int64		max = candidate->type == INT2OID ? PG_INT16_MAX : candidate->type == INT4OID ? PG_INT32_MAX : PG_INT64_MAX;
	int64	   *keys = palloc(sizeof(int64) * (most + 1));
	uint64		slot = 0;
	uint64		tag;

	*n = 0;
	while (*n <= most && join_table_tags(candidate->build->table, &slot, &tag))
	{
		/* each of them comes once */
		keys[*n] = (int64) tag;
		*n += min <= (int64) tag && (int64) tag <= max;
	}
	return keys;
}

static int
compare_blocks(const void *one, const void *other)
{
	BlockNumber a = *(const BlockNumber *) one;
	BlockNumber b = *(const BlockNumber *) other;

	return a < b ? -1 : a > b;
}

/* Begin to look for keys in an index of the table. */
static IndexScanDesc
begin_scan(JoinLookUps *look_ups, Relation index, Oid type, const int64 *keys, int n)
{
	Datum	   *elements = palloc(sizeof(Datum) * Max(n, 1));
	IndexScanDesc scan;
	ScanKeyData key;
	int16		len;
	bool		byval;
	char		align;

	for (int i = 0; i < n; i++)
		elements[i] = type == INT2OID ? Int16GetDatum((int16) keys[i]) :
			type == INT4OID ? Int32GetDatum((int32) keys[i]) : Int64GetDatum(keys[i]);
	get_typlenbyvalalign(type, &len, &byval, &align);
	ScanKeyEntryInitialize(&key, SK_SEARCHARRAY, 1, BTEqualStrategyNumber, type, InvalidOid,
						   type == INT2OID ? F_INT2EQ : type == INT4OID ? F_INT4EQ : F_INT8EQ,
						   PointerGetDatum(construct_array(elements, n, type, len, byval, align)));
	scan = index_beginscan(look_ups->table, index, *look_ups->snapshot,
#if PG_VERSION_NUM >= 180000
						   NULL,
#endif
						   1, 0
#if PG_VERSION_NUM >= 190000
						   ,SO_NONE
#endif
		);
	index_rescan(scan, &key, 1, NULL, 0);

	return scan;
}

/*
 * The blocks to which an index refers for keys, ascending, each of them once; or
 * NULL if the index has more than `most` entries for them.
 */
static BlockNumber *
find_blocks(JoinLookUps *look_ups, const Candidate *candidate, const int64 *keys, int nkeys, int most, int *n)
{
	/* the plan's lock of the table keeps the index, too */
	Relation	index = index_open(candidate->index, AccessShareLock);
	IndexScanDesc scan = begin_scan(look_ups, index, candidate->type, keys, nkeys);
	BlockNumber *blocks = palloc_extended(sizeof(BlockNumber) * (Size) (most + 1), MCXT_ALLOC_HUGE);
	ItemPointer tid;
	int			found = 0;

	if (index->rd_index->indrelid != RelationGetRelid(look_ups->table))
		elog(ERROR, "index %u is not one of table %u", candidate->index, RelationGetRelid(look_ups->table));
	while (found <= most && (tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		blocks[found++] = ItemPointerGetBlockNumber(tid);
	}
	index_endscan(scan);
	index_close(index, NoLock);
	if (found > most)
		return NULL;
	qsort(blocks, found, sizeof(BlockNumber), compare_blocks);
	*n = 0;
	for (int i = 0; i < found; i++)
	{
		if (*n == 0 || blocks[*n - 1] != blocks[i])
			blocks[(*n)++] = blocks[i];
	}
	return blocks;
}

/* What asking an index takes for keys, of which it has this number of entries. */
static double
asking_ns(double keys, double entries)
{
	return keys * KEY_NS + entries * FOUND_NS;
}

/*
 * All tables of joins have been built, and none of the big table's rows has been
 * read: have its source read only the pages that an index tells, if that takes
 * less. What is found lives until the next call.
 */
void
join_look_ups_begin(JoinLookUps *look_ups)
{
	Form_pg_class table = look_ups->table->rd_rel;
	double		pages = RelationGetNumberOfBlocks(look_ups->table);
	double		rows = table->relpages > 0 ? Max(table->reltuples, 0) / table->relpages : 0;
	double		whole = pages_ns(pages, rows);
	double		least = whole * ASKING_SHARE;
	const Candidate *best = NULL;
	int64	   *best_keys = NULL;
	int			best_n = 0;
	MemoryContext old;
	ListCell   *lc;

	if (!heap_source_can_list(look_ups->source))
		return;
	MemoryContextReset(look_ups->context);
	old = MemoryContextSwitchTo(look_ups->context);
	foreach(lc, look_ups->candidates)
	{
		const Candidate *candidate = lfirst(lc);
		int			most = (int) Min(least / KEY_NS, MOST_LOOKED_UP);
		int64	   *keys;
		int			n;

		if (!candidate->build->complete)
			continue;
		keys = find_keys(candidate, most, &n);
		if (n > most || asking_ns(n, n * candidate->rows) >= least)
			continue;
		least = asking_ns(n, n * candidate->rows);
		best = candidate;
		best_keys = keys;
		best_n = n;
	}
	if (best != NULL)
	{
		/* statistics may be wrong */
		int			most = (int) Min(2 * whole * ASKING_SHARE / FOUND_NS, PG_INT32_MAX - 1);
		int			nblocks;
		BlockNumber *blocks = find_blocks(look_ups, best, best_keys, best_n, most, &nblocks);

		if (blocks != NULL && pages_ns(nblocks, rows) < whole * READING_SHARE)
		{
			look_ups->index = best->index;
			look_ups->keys = best_n;
			look_ups->pages = nblocks;
			heap_source_list(look_ups->source, blocks, nblocks);
		}
	}
	MemoryContextSwitchTo(old);
}

/* The index that the last run has used, for how many keys, and how many pages it led to; InvalidOid: none. */
Oid
join_look_ups_used(const JoinLookUps *look_ups, uint64 *keys, uint64 *pages)
{
	*keys = look_ups->keys;
	*pages = look_ups->pages;
	return look_ups->index;
}
