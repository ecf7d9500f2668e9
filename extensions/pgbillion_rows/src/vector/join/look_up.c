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
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "vector/join/join.h"
#include "vector/source/source.h"

/*
 * About what it takes, in nanoseconds, with all in memory. That of a row was
 * measured in scans, and the others are rough.
 */
#define KEY_NS 800.0			/* to look for a key */
#define FOUND_NS 150.0			/* to go on to the next entry that has it */
#define PAGE_NS 500.0			/* to read a page, beyond its rows */
#define ROW_NS 12.0				/* to test a row */

/* What share of reading the whole table it may take to ask the index, which may be in vain, and to read what it tells. */
#define ASKING_SHARE 0.1
#define READING_SHARE 0.7

/* The same where the keys are expected to have many rows, which they need not have. */
#define TRYING_SHARE 0.01

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

	/* what the last run has found */
	MemoryContext context;		/* of the blocks */
	bool		decided;
	uint64		serial;			/* of the keys: those of all build sides,
								 * added */
	BlockNumber *blocks;		/* to be read; NULL: all */
	int			nblocks;

	/* what EXPLAIN tells of the last run that looked rows up */
	char	   *index;			/* its name; NULL: none did */
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

/* Sort blocks, and leave each of them once; how many these are. */
static int
make_unique(BlockNumber *blocks, int n)
{
	int			unique = 0;

	qsort(blocks, n, sizeof(BlockNumber), compare_blocks);
	for (int i = 0; i < n; i++)
	{
		if (unique == 0 || blocks[unique - 1] != blocks[i])
			blocks[unique++] = blocks[i];
	}
	return unique;
}

/*
 * The blocks to which an index refers for keys, ascending, each of them once; or
 * NULL if it has more than `most` entries for them, or they need more memory
 * than a hash table may take.
 */
static BlockNumber *
find_blocks(JoinLookUps *look_ups, Relation index, Oid type, const int64 *keys, int nkeys, double most, int *n)
{
	IndexScanDesc scan = begin_scan(look_ups, index, type, keys, nkeys);
	double		entries = 0;
	int			room = 1024;
	int			limit = (int) (Min(get_hash_memory_limit(), MaxAllocSize) / sizeof(BlockNumber));
	BlockNumber *blocks = palloc(sizeof(BlockNumber) * room);
	ItemPointer tid;

	*n = 0;
	while (*n < limit && entries <= most && (tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		BlockNumber block = ItemPointerGetBlockNumber(tid);

		CHECK_FOR_INTERRUPTS();
		entries++;
		/* those of a key come in order */
		if (*n > 0 && blocks[*n - 1] == block)
			continue;
		if (*n == room)
		{
			room = Min(2 * room, limit);
			blocks = repalloc(blocks, sizeof(BlockNumber) * room);
		}
		blocks[(*n)++] = block;
	}
	index_endscan(scan);
	if (*n >= limit || entries > most)
		return NULL;
	*n = make_unique(blocks, *n);

	return blocks;
}

/* What asking an index takes for keys, of which it has this number of entries. */
static double
asking_ns(double keys, double entries)
{
	return keys * KEY_NS + entries * FOUND_NS;
}

/* What reading the whole table takes, and how many rows a page has, by its statistics. */
static double
whole_ns(const JoinLookUps *look_ups, double *rows)
{
	Form_pg_class table = look_ups->table->rd_rel;

	*rows = table->relpages > 0 ? Max(table->reltuples, 0) / table->relpages : 0;
	return pages_ns(RelationGetNumberOfBlocks(look_ups->table), *rows);
}

/*
 * The join whose keys take least to be looked up, and they, if that takes less
 * than `least`; else NULL. They have as many rows as is expected, or one each.
 */
static const Candidate *
choose(const JoinLookUps *look_ups, double least, bool as_expected, int64 **keys, int *nkeys)
{
	const Candidate *best = NULL;
	ListCell   *lc;

	foreach(lc, look_ups->candidates)
	{
		const Candidate *candidate = lfirst(lc);
		int			most = (int) Min(least / KEY_NS, MOST_LOOKED_UP);
		int64	   *found;
		int			n;
		double		takes;

		if (!candidate->build->complete)
			continue;
		found = find_keys(candidate, most, &n);
		takes = asking_ns(n, as_expected ? n * candidate->rows : n);
		if (n > most || takes >= least)
			continue;
		least = takes;
		best = candidate;
		*keys = found;
		*nkeys = n;
	}
	return best;
}

/*
 * Find the blocks to be read, if that is of use. An index that has been dropped
 * since the query was planned, which only the own transaction can do, or that is
 * valid no more, is not asked.
 */
static void
find(JoinLookUps *look_ups)
{
	double		rows;
	double		whole = whole_ns(look_ups, &rows);
	int64	   *keys = NULL;
	int			nkeys = 0;
	const Candidate *candidate = choose(look_ups, whole * ASKING_SHARE, true, &keys, &nkeys);
	double		most = 2 * whole * ASKING_SHARE;	/* statistics may be wrong */
	Relation	index;

	if (candidate == NULL)
	{
		candidate = choose(look_ups, whole * TRYING_SHARE, false, &keys, &nkeys);
		most = whole * TRYING_SHARE;
	}
	look_ups->blocks = NULL;
	index = candidate == NULL ? NULL : try_index_open(candidate->index, AccessShareLock);
	if (index == NULL)
		return;
	if (index->rd_index->indrelid == RelationGetRelid(look_ups->table) && index->rd_index->indisvalid)
		look_ups->blocks = find_blocks(look_ups, index, candidate->type, keys, nkeys, most / FOUND_NS, &look_ups->nblocks);
	if (look_ups->blocks != NULL && pages_ns(look_ups->nblocks, rows) >= whole * READING_SHARE)
		look_ups->blocks = NULL;
	if (look_ups->blocks != NULL)
	{
		if (look_ups->index != NULL)
			pfree(look_ups->index);
		/* it may be dropped before EXPLAIN tells of it */
		look_ups->index = MemoryContextStrdup(GetMemoryChunkContext(look_ups), RelationGetRelationName(index));
		look_ups->keys = nkeys;
		look_ups->pages = look_ups->nblocks;
	}
	index_close(index, NoLock);
}

/*
 * All tables of joins have been built, and none of the big table's rows has been
 * read: have its source read only the pages that an index tells, if that takes
 * less. With the keys of the last run, the answer is the same.
 */
void
join_look_ups_begin(JoinLookUps *look_ups)
{
	uint64		serial = 0;
	ListCell   *lc;

	if (!heap_source_is_unread(look_ups->source))
		return;
	/* none of them ever gets less */
	foreach(lc, look_ups->candidates)
		serial += ((const Candidate *) lfirst(lc))->build->serial;
	if (!look_ups->decided || look_ups->serial != serial)
	{
		MemoryContext old;

		MemoryContextReset(look_ups->context);
		old = MemoryContextSwitchTo(look_ups->context);
		find(look_ups);
		MemoryContextSwitchTo(old);
		look_ups->decided = true;
		look_ups->serial = serial;
	}
	if (look_ups->blocks != NULL)
		heap_source_read_only(look_ups->source, look_ups->blocks, look_ups->nblocks);
}

/* The name of the index that was used last, for how many keys, and how many pages it led to; NULL: none. */
const char *
join_look_ups_used(const JoinLookUps *look_ups, uint64 *keys, uint64 *pages)
{
	*keys = look_ups->keys;
	*pages = look_ups->pages;
	return look_ups->index;
}
